/* Reading through pointers: a row's ops, at entry and on return. */
#ifndef CUDATAP_READ_H
#define CUDATAP_READ_H

static __always_inline long read_user(void *dst, u32 size, const void *src, bool sleepable)
{
	if (sleepable)
		return bpf_copy_from_user(dst, size, src);
	return bpf_probe_read_user(dst, size, src);
}

/* bpf_probe_read_user_str() does not fault pages in; a sleepable program can
 * touch them first. */
static __always_inline long read_string(void *dst, u32 size, const void *src, bool sleepable)
{
	const void *next_page = (const void *)(((u64)src | 4095) + 1);
	u8 byte;

	if (sleepable) {
		if (bpf_copy_from_user(&byte, 1, src))
			return -1;
		if (next_page - src < size)
			bpf_copy_from_user(&byte, 1, next_page);
	}
	return bpf_probe_read_user_str(dst, size, src);
}

static __always_inline u64 word(const struct frame *f, u32 i)
{
	return *(const u64 *)(f->data + INDEX(i, 32) * 8);
}

/* Performs one op at the end of the frame's data. Returns whether a pointer led nowhere; NULL, which
 * callers pass for what they do not want, is no failure. */
static __always_inline bool read_op(struct frame *f, const struct rec_op *op, u64 ret, bool sleepable)
{
	u64 count = 1, ptr = op->arg == REC_ARG_RET ? ret : word(f, op->arg);
	u64 off = f->len, size = op->size;
	struct rec_slot *slot;
	long len = -1;

	if (off > REC_MAX_DATA || size > REC_MAX_SLOT)
		return false;
	slot = (void *)f->data + AT_MOST(off, REC_MAX_DATA);
	slot->count = 0;
	switch (op->kind) {
	case REC_OP_STRING_PTR:
		if (read_user(&ptr, sizeof(ptr), (void *)ptr, sleepable))
			break;
		/* fall through */
	case REC_OP_STRING:
		len = read_string(slot + 1, AT_MOST(size, REC_MAX_SLOT), (void *)ptr, sleepable);
		if (len == (long)size) {
			/* the last byte before the NUL tells a full buffer from a cut text */
			u8 next = 0;

			read_user(&next, 1, (void *)ptr + size - 1, sleepable);
			slot->count = next != 0;
		}
		if (len > 0)
			len--;
		break;
	case REC_OP_COUNTED:
	case REC_OP_ARRAY:
		count = word(f, op->arg2);
		if (op->kind == REC_OP_COUNTED) {
			u64 passed = count;

			count = 0;
			if (read_user(&count, op->flags & REC_COUNT64 ? 8 : 4, (void *)passed, sleepable))
				break;
		}
		if (!(op->flags & REC_COUNT64))
			count = (u32)count;
		slot->count = count > 0xffffffff ? 0xffffffff : count;
		if (!size)
			break;
		if (count > REC_MAX_SLOT / size)
			count = REC_MAX_SLOT / size;
		size *= count;
		/* fall through */
	case REC_OP_MEM:
		if (size > REC_MAX_SLOT)
			break;
		if (!size)
			len = 0;
		else if (!read_user(slot + 1, AT_MOST(size, REC_MAX_SLOT), (void *)ptr, sleepable))
			len = size;
		break;
	}
	if (len < 0 || len > REC_MAX_SLOT)
		len = -1;
	slot->len = len;
	if (len < 0)
		len = 0;
	f->len = off + sizeof(*slot) + ((len + 7) & ~7);
	return slot->len < 0 && ptr;
}

/*
 * The ops [first, end) of a row; returns how many could not read. Functions
 * that are not static are verified by themselves, once, which keeps the time
 * to load short.
 */
static __always_inline int read_ops(struct frame *f, u32 row, u32 first, u32 end, u64 ret, bool sleepable)
{
	const struct rec_desc *desc = &shared.desc[INDEX(row, REC_MAX_ROWS)];
	int failed = 0;
	u32 i;

	if (!f)
		return 0;
	for (i = 0; i < REC_MAX_OPS; i++) {
		if (i < first)
			continue;
		if (i >= end)
			break;
		failed += read_op(f, &desc->ops[i], ret, sleepable);
	}
	return failed;
}

__noinline int read_ops_plain(struct frame *f, u32 row, u32 first, u32 end, u64 ret)
{
	return read_ops(f, row, first, end, ret, false);
}

__noinline int read_ops_sleepable(struct frame *f, u32 row, u32 first, u32 end, u64 ret)
{
	return read_ops(f, row, first, end, ret, true);
}

#endif
