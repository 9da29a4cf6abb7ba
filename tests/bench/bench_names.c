/*
 * Kernels' names: what a hundred thousand of them take in memory, and what
 * finding one takes on the way of a launch. The names are as long as those of
 * a large C++ library, 40 to 600 bytes, each another.
 *
 * usage: bench_names [KERNELS]
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "streamer/enrich/kernels.h"

enum { TGID = 4242, LOOKUPS = 5000000, ROUNDS = 7 };

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static uint64_t handle_of(unsigned i)
{
	return 0x7f0012340000 + 16ull * i;
}

/* A mangled name: _Z, nested templates, a number of its own. */
static size_t make_name(unsigned i, char *name)
{
	unsigned parts = 1 + i * 2654435761u % 12;
	char *p = name + sprintf(name, "_ZN2at6native13kernel_%06uI", i);

	while (parts--)
		p += sprintf(p, "N6detail20elementwise_functor_IfLi%uEEE", parts);
	p += sprintf(p, "EEvPfi");
	return p - name;
}

/* The REC_NAME record of one __cudaRegisterFunction, as the BPF program makes it. */
static size_t make_record(const struct plan *plans, int row, unsigned i, struct rec_call *rec)
{
	const struct rec_desc *desc = &plans[row].desc;
	uint64_t *words = (uint64_t *)(rec + 1);
	uint8_t *p = (uint8_t *)(words + desc->nregs + desc->nstack);
	struct rec_slot *slot;
	unsigned k;

	memset(rec, 0, (size_t)(p - (uint8_t *)rec));
	rec->kind = REC_NAME;
	rec->cookie = 1 << 16 | (unsigned)row;
	rec->pid_tgid = (uint64_t)TGID << 32 | TGID;
	rec->end_ns = i + 1;
	words[0] = 0xa000;
	words[1] = handle_of(i);
	for (k = 0; k < desc->nops; k++) {
		slot = (struct rec_slot *)p;
		*slot = (struct rec_slot){0};
		if (!strcmp(table_params[table_rows[row].param + plans[row].op_param[k]].name, "deviceName"))
			slot->len = (s32)make_name(i, (char *)(slot + 1));
		p += sizeof(*slot) + ((size_t)slot->len + 7) / 8 * 8;
	}
	return p - (uint8_t *)rec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Nanoseconds per look-up among the first @among kernels. */
static double find_ns(struct kernels *kernels, unsigned among)
{
	unsigned seed = 1, i, missing = 0;
	double ns[ROUNDS], start;
	uint32_t len;

	for (int r = 0; r < ROUNDS; r++) {
		start = now_s();
		for (i = 0; i < LOOKUPS; i++) {
			seed = seed * 1664525 + 1013904223;
			missing += !kernels_find(kernels, TGID, handle_of((seed >> 4) % among), &len);
		}
		ns[r] = (now_s() - start) / LOOKUPS * 1e9;
	}
	qsort(ns, ROUNDS, sizeof(*ns), by_value);
	return missing ? -1 : ns[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? atoi(argv[1]) : 100000, i;
	struct plan *plans = plan_all(plan_host_abi());
	struct rec_call *rec = malloc(1 << 16);
	struct kernels *kernels = kernels_new(plans, KERNELS_DEMANGLED);
	int row = table_find(TABLE_RUNTIME, "__cudaRegisterFunction", 13);
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, known, shown, bytes = 0;
	double start, learn_ns;
	uint32_t len;

	start = now_s();
	for (i = 0; i < n; i++) {
		kernels_queue(kernels, rec, make_record(plans, row, i, rec));
		kernels_settle(kernels, UINT64_MAX);
	}
	learn_ns = (now_s() - start) / n * 1e9;
	known = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	for (i = 0; i < n; i++)
		bytes += kernels_find(kernels, TGID, handle_of(i), &len) ? len : 0;
	shown = mallinfo2().uordblks + mallinfo2().hblkhd - before;
	printf("%u kernels, %zu bytes of name each on the average, as shown\n", n, bytes / n);
	printf("%-52s %8.1f MiB\n", "known", known / 1048576.0);
	printf("%-52s %8.1f MiB\n", "known, and each launched at least once", shown / 1048576.0);
	printf("%-52s %8.0f ns\n", "learning one, record included", learn_ns);
	printf("%-52s %8.1f ns\n", "finding one of 100", find_ns(kernels, 100));
	printf("%-52s %8.1f ns\n", "finding one of all, at random", find_ns(kernels, n));
	kernels_free(kernels);
	free(rec);
	free(plans);
	return 0;
}
