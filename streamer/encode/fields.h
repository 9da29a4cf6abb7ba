/*
 * The keys of a call event by their names in the format "json", in the order
 * of the line: what a sink's `fields:` chooses from and renames.
 */
#ifndef CUDATAP_FIELDS_H
#define CUDATAP_FIELDS_H

#include <stdint.h>

enum encode_field {
	FIELD_TYPE,
	FIELD_RUN,
	FIELD_SEQ,
	FIELD_TS,
	FIELD_HOST, /* from here on they can be left out */
	FIELD_PID,
	FIELD_NS_PID,
	FIELD_TID,
	FIELD_COMM,
	FIELD_THREAD,
	FIELD_UID,
	FIELD_EXE,
	FIELD_CMDLINE,
	FIELD_CGROUP,
	FIELD_CONTAINER_ID,
	FIELD_POD_UID,
	FIELD_ENVIRON,
	FIELD_API,
	FIELD_FAMILY,
	FIELD_FUNC,
	FIELD_SYMBOL,
	FIELD_DEPTH,
	FIELD_PARENT,
	FIELD_SAMPLE_N,
	FIELD_DURATION_NS,
	FIELD_RET,
	FIELD_STATUS,
	FIELD_ERROR,
	FIELD_ERROR_MESSAGE,
	FIELD_BYTES, /* the normalised keys, in the order of enum table_key_id but for `kernel` and
			`kernel_mangled` */
	FIELD_DIRECTION,
	FIELD_DEVICE,
	FIELD_STREAM,
	FIELD_KERNEL,
	FIELD_KERNEL_MANGLED,
	FIELD_KERNEL_HANDLE,
	FIELD_GRID,
	FIELD_BLOCK,
	FIELD_SHARED_BYTES,
	FIELD_PTR,
	FIELD_SRC_PTR,
	FIELD_ARGS,
	FIELD_OUT,
	NFIELDS
};

#define FIELD_FIRST_OPTIONAL FIELD_HOST
#define FIELD_BIT(field)     (1ull << (field))

#endif
