/*
 * The registers of a probed function, per architecture. Layouts are those of
 * the kernel's user ABI: struct pt_regs in asm/ptrace.h (x86-64), struct
 * user_pt_regs (aarch64).
 */
#ifndef CUDATAP_ARCH_H
#define CUDATAP_ARCH_H

#if defined(__TARGET_ARCH_x86)

struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

#define REGS_NARGS    6
#define REGS_RET(ctx) ((ctx)->ax)
#define REGS_SP(ctx)  ((ctx)->sp)
#define REGS_IP(ctx)  ((ctx)->ip)
/* The return address has been popped when the return probe fires. */
#define REGS_ENTRY_SP(ctx) ((ctx)->sp - 8)
/* The first argument word on the stack lies above the return address. */
#define REGS_STACK_ARGS(ctx) ((ctx)->sp + 8)

static __always_inline void regs_args(const struct regs *ctx, u64 *words)
{
	words[0] = ctx->di;
	words[1] = ctx->si;
	words[2] = ctx->dx;
	words[3] = ctx->cx;
	words[4] = ctx->r8;
	words[5] = ctx->r9;
}

#elif defined(__TARGET_ARCH_arm64)

struct regs {
	u64 x[31];
	u64 sp, pc, pstate;
};

#define REGS_NARGS           8
#define REGS_RET(ctx)        ((ctx)->x[0])
#define REGS_SP(ctx)         ((ctx)->sp)
#define REGS_IP(ctx)         ((ctx)->pc)
#define REGS_ENTRY_SP(ctx)   ((ctx)->sp)
#define REGS_STACK_ARGS(ctx) ((ctx)->sp)

static __always_inline void regs_args(const struct regs *ctx, u64 *words)
{
	words[0] = ctx->x[0];
	words[1] = ctx->x[1];
	words[2] = ctx->x[2];
	words[3] = ctx->x[3];
	words[4] = ctx->x[4];
	words[5] = ctx->x[5];
	words[6] = ctx->x[6];
	words[7] = ctx->x[7];
}

#else
#error "this architecture has no register layout here"
#endif

#endif
