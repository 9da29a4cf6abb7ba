/* Values written through pointer parameters: plausible, and unique where the real ones are. */
#include <string.h>

#include "fake.h"

#define FIRST_ADDRESS 0x7f1000000000 /* where real device memory starts to be found */
#define ADDRESS_STEP  0x200          /* what cudaMalloc() aligns to */
#define ADDRESS_RANGE (1ull << 34)   /* what a thread takes at a time */
#define FIRST_HANDLE  0x561000000000
#define HANDLE_STEP   0x40
#define HANDLE_RANGE  (1ull << 22)

/* Numbers are taken in ranges by each thread: an atomic addition per call is half the price of the call. */
struct range {
	uint64_t next, end;
};

#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

static _Atomic uint64_t next_addresses = FIRST_ADDRESS;
static _Atomic uint64_t next_handles = FIRST_HANDLE;
THREAD_LOCAL struct range addresses, handles;

static uint64_t take(struct range *range, _Atomic uint64_t *next, uint64_t size, uint64_t step)
{
	if (range->end - range->next < step) {
		range->next = atomic_fetch_add(next, size);
		range->end = range->next + size;
	}
	/* one instruction: a signal handler may allocate too */
	__asm__ volatile("xaddq %0, %1" : "+r"(step), "+m"(range->next));
	return step;
}

uint64_t fake_new_address(uint64_t bytes)
{
	uint64_t step = (bytes + ADDRESS_STEP) / ADDRESS_STEP * ADDRESS_STEP;

	/* sizes are believed up to a point: the address must stay one of user space */
	return take(&addresses, &next_addresses, ADDRESS_RANGE,
		    bytes > ADDRESS_RANGE / 2 ? ADDRESS_RANGE / 2 : step);
}

uint64_t fake_new_handle(void)
{
	return take(&handles, &next_handles, HANDLE_RANGE, HANDLE_STEP);
}

static uint64_t bytes_asked(const struct fake_plan *plan, const struct fake_call *call)
{
	uint64_t bytes = 1;

	for (unsigned i = 0; i < plan->nsizes; i++)
		bytes *= fake_word(call, plan->size[i]);
	return plan->nsizes ? bytes : 0;
}

static void write_text(const struct fake_out *out, const struct fake_call *call, char *to)
{
	static const char text[] = "Fake GPU";
	uint64_t room = fake_word(call, out->limit);

	if ((int64_t)room <= 0)
		return;
	if (room > sizeof(text))
		room = sizeof(text);
	memcpy(to, text, room);
	to[room - 1] = 0;
}

/* Elements there is room for: as passed, or behind a pointer. */
static uint64_t room_for(const struct fake_out *out, const struct fake_call *call)
{
	uint64_t count = out->limit == TABLE_NONE ? 1 : fake_word(call, out->limit);

	if (out->count_is_pointer)
		count = count ? *(const uint32_t *)count : 0;
	return count;
}

static void write_out(const struct fake_plan *plan, const struct fake_out *out, const struct fake_call *call)
{
	static const char text[] = "fake";
	char *to = (char *)fake_word(call, out->word);
	uint64_t value = out->value;

	if (!to)
		return;
	if (out->kind == TABLE_CHARS) {
		write_text(out, call, to);
		return;
	}
	if (!room_for(out, call))
		return;
	switch (out->kind) {
	case TABLE_HEX:
		value = value == FAKE_ADDRESS ? fake_new_address(bytes_asked(plan, call)) : fake_new_handle();
		break;
	case TABLE_STRING:
		value = (uintptr_t)text;
		break;
	case TABLE_FLOAT:
		value = out->size == 4 ? 0x3f800000 : 0x3ff0000000000000; /* 1.0 */
		break;
	case TABLE_STRUCT:
	case TABLE_DIM3:
	case TABLE_BYTES:
		memset(to, 0, out->size);
		return;
	}
	if (out->size >= sizeof(value))
		memcpy(to, &value, sizeof(value));
	else if (out->size == 4)
		memcpy(to, &value, 4);
	else
		memcpy(to, &value, out->size);
}

void fake_write_outs(const struct fake_plan *plan, const struct fake_call *call, uint32_t done)
{
	for (unsigned i = 0; i < plan->nouts; i++)
		if (!(done >> plan->outs[i].word & 1))
			write_out(plan, &plan->outs[i], call);
}
