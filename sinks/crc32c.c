/* CRC-32C: the processor's instruction, or a table of sixteen. */
#include <string.h>

#include "crc32c.h"

#if defined(__x86_64__)
#include <nmmintrin.h>

#define HARDWARE __attribute__((target("sse4.2")))

static int has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}

HARDWARE static uint32_t step_word(uint32_t crc, uint64_t word)
{
	return (uint32_t)_mm_crc32_u64(crc, word);
}

HARDWARE static uint32_t step_byte(uint32_t crc, uint8_t byte)
{
	return _mm_crc32_u8(crc, byte);
}
#elif defined(__aarch64__) && (defined(__ARM_FEATURE_CRC32) || !defined(__clang__))
#include <arm_acle.h>
#include <sys/auxv.h>

#define HARDWARE __attribute__((target("+crc")))

static int has_instruction(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

HARDWARE static uint32_t step_word(uint32_t crc, uint64_t word)
{
	return __crc32cd(crc, word);
}

HARDWARE static uint32_t step_byte(uint32_t crc, uint8_t byte)
{
	return __crc32cb(crc, byte);
}
#endif

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t n)
{
	/* remainders of four bits: the polynomial 0x82f63b78 is the reflected 0x1edc6f41 */
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const uint8_t *p = data;

	crc = ~crc;
	while (n--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

#ifdef HARDWARE
HARDWARE static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n)
{
	crc = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		crc = step_word(crc, word);
	}
	while (n--)
		crc = step_byte(crc, *p++);
	return ~crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
#ifdef HARDWARE
	if (has_instruction())
		return crc32c_hardware(crc, data, n);
#endif
	return crc32c_portable(crc, data, n);
}
