/* The one function behind every export of a fake CUDA library. */
#include <string.h>
#include <time.h>

#include "fake.h"

/* Shorter delays spin: a sleep costs tens of microseconds more than it says. */
#define SPIN_BELOW_NS 100000

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void wait_ns(uint64_t delay_ns)
{
	uint64_t end = now_ns() + delay_ns;
	struct timespec ts = {.tv_sec = (time_t)(end / 1000000000), .tv_nsec = (long)(end % 1000000000)};

	if (delay_ns >= SPIN_BELOW_NS) {
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL))
			;
		return;
	}
	while (now_ns() < end)
		;
}

static bool is_too_large(const struct fake_plan *plan, const struct fake_call *call)
{
	__uint128_t bytes = 1;

	for (unsigned i = 0; i < plan->nsizes; i++)
		bytes = (uint64_t)bytes * (__uint128_t)fake_word(call, plan->size[i]);
	return bytes > fake_settings.memory;
}

/* What the function does when no test has said otherwise. */
static uint64_t perform(const struct fake_plan *plan, const struct fake_call *call)
{
	uint32_t done = 0;
	int ret = 0;

	if (plan->special)
		return plan->special(call);
	if (plan->nests && fake_settings.nested)
		ret = fake_nest(call, plan, &done);
	if (plan->allocates && is_too_large(plan, call))
		ret = 2; /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */
	if (!ret && plan->nouts)
		fake_write_outs(plan, call, done);
	return (uint64_t)(int64_t)ret;
}

static __attribute__((noinline, cold)) uint64_t perform_as_told(const struct fake_plan *plan,
								const struct fake_call *call)
{
	struct fake_behaviour *told = &fake_behaviours[call->index];
	uint64_t delay_ns = atomic_load(&told->delay_ns);
	fake_cuda_hook hook = atomic_load(&told->hook);
	unsigned flags = atomic_load(&told->flags);
	int64_t ret = atomic_load(&told->ret);

	if (delay_ns)
		wait_ns(delay_ns);
	if (hook)
		hook(told->ctx);
	if (!(flags & FAKE_CUDA_NO_OUTS) && !(flags & FAKE_CUDA_RET && ret))
		return flags & FAKE_CUDA_RET ? (perform(plan, call), (uint64_t)ret) : perform(plan, call);
	return flags & FAKE_CUDA_RET ? (uint64_t)ret : 0;
}

uint64_t fake_dispatch(uint32_t index, const uint64_t *regs, const uint64_t *sp)
{
	const struct fake_plan *plan = &fake_plans[index];
	struct fake_call call = {.index = index, .regs = regs, .stack = sp + 1};
	uint64_t ret;

	fake_count(index);
	if (__builtin_expect(atomic_load_explicit(&fake_behaviours[index].active, memory_order_relaxed), 0))
		ret = perform_as_told(plan, &call);
	else if (plan->plain)
		return 0;
	else
		ret = perform(plan, &call);
	if (__builtin_expect((uint32_t)ret && plan->row && plan->row->ret == TABLE_RET_STATUS &&
				     !(plan->row->flags & TABLE_REPORTS_ERROR),
			     0))
		fake_failed((int)ret);
	return ret;
}

uint64_t fake_arg(const struct fake_call *call, const char *name)
{
	const struct table_row *row = fake_plans[call->index].row;

	for (unsigned i = 0; row && i < row->nparams; i++) {
		const struct table_param *param = &table_params[row->param + i];

		if (!strcmp(param->name, name))
			return fake_word(call, fake_param_word(param));
	}
	return 0;
}
