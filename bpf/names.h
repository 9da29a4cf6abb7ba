/* Name records: what registrations and look-ups say of kernels, in a ring of their own. */
#ifndef CUDATAP_NAMES_H
#define CUDATAP_NAMES_H

/* The slot of one op at the end of a name record. */
static __always_inline void read_name_op(struct name_record *n, const struct rec_op *op, u64 ret,
					 bool sleepable)
{
	u64 ptr = op->arg == REC_ARG_RET ? ret : *(u64 *)(n->data + INDEX(op->arg, 32) * 8);
	u32 off = n->len;
	struct rec_slot *slot;
	long len = -1;

	if (off > 512)
		return;
	slot = (void *)n->data + AT_MOST(off, 512);
	slot->count = 0;
	if (op->kind == REC_OP_MEM && op->size == 8) {
		if (!read_user(slot + 1, 8, (void *)ptr, sleepable))
			len = 8;
	} else if (op->kind == REC_OP_MEM && op->size == 16) { /* a device's UUID */
		if (!read_user(slot + 1, 16, (void *)ptr, sleepable))
			len = 16;
	} else if (op->kind == REC_OP_STRING || op->kind == REC_OP_STRING_PTR) {
		if (op->kind == REC_OP_STRING || !read_user(&ptr, sizeof(ptr), (void *)ptr, sleepable))
			len = read_string(slot + 1, REC_MAX_NAME, (void *)ptr, sleepable);
		slot->count = len == REC_MAX_NAME;
		if (len > 0)
			len--;
	}
	if (len < 0 || len > REC_MAX_NAME)
		len = -1;
	slot->len = len;
	if (len < 0)
		len = 0;
	n->len = off + sizeof(*slot) + ((len + 7) & ~7);
}

static __always_inline int read_name(struct name_record *n, u32 row, u64 ret, bool sleepable)
{
	const struct rec_desc *desc = &shared.desc[INDEX(row, REC_MAX_ROWS)];
	u32 i;

	if (!n)
		return 0;
	for (i = 0; i < REC_MAX_OPS; i++) {
		if (i >= desc->nops)
			break;
		read_name_op(n, &desc->ops[i], ret, sleepable);
	}
	return 0;
}

__noinline int read_name_plain(struct name_record *n, u32 row, u64 ret)
{
	return read_name(n, row, ret, false);
}

__noinline int read_name_sleepable(struct name_record *n, u32 row, u64 ret)
{
	return read_name(n, row, ret, true);
}

/* A successful call of a row that names kernels or unloads them. */
static __always_inline void submit_name(struct frame *f, const struct rec_desc *desc, struct counters *c,
					bool sleepable)
{
	u32 words = (desc->nregs + desc->nstack) * 8, len;
	struct name_record *n;

	n = bpf_task_storage_get(&name_records, bpf_get_current_task_btf(), NULL,
				 BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!n) {
		c->v[REC_LOST_NAMES]++;
		return;
	}
	know(f->rec.pid_tgid >> 32, KNOWN_NAMES);
	n->rec = f->rec;
	n->rec.kind = REC_NAME;
	__builtin_memcpy(n->data, f->data, 256);
	n->len = words > 256 ? 256 : words;
	(sleepable ? read_name_sleepable : read_name_plain)(n, f->rec.cookie, f->rec.ret);
	len = n->len;
	if (bpf_ringbuf_output(&names, &n->rec, sizeof(n->rec) + AT_MOST(len, sizeof(n->data)),
			       BPF_RB_NO_WAKEUP))
		c->v[REC_LOST_NAMES]++;
}

#endif
