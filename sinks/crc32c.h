/* CRC-32C (Castagnoli), as in iSCSI (RFC 3720, 12.1 and B.4): by the processor's own instruction where it
 * has one, which is some thirty times faster than the table. */
#ifndef CUDATAP_CRC32C_H
#define CUDATAP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/** crc32c - of @n bytes; @crc is 0, or the result for the bytes before them */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);

/** crc32c_portable - the same, by the table */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif
