/*
 * For the ABI test: capture() is called through a pointer of any function
 * type, keeps the argument registers and the stack pointer of its entry, and
 * goes on in check(), which sees the arguments where the ABI put them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned long capture_regs[8]; /* integer argument registers */
unsigned long *capture_stack;  /* the first argument word on the stack */
static int failures;

void capture(void);
void check(void);

#if defined(__x86_64__)
__asm__(".globl capture\n"
	"capture:\n"
	"	mov %rdi, capture_regs(%rip)\n"
	"	mov %rsi, capture_regs+8(%rip)\n"
	"	mov %rdx, capture_regs+16(%rip)\n"
	"	mov %rcx, capture_regs+24(%rip)\n"
	"	mov %r8, capture_regs+32(%rip)\n"
	"	mov %r9, capture_regs+40(%rip)\n"
	"	lea 8(%rsp), %rax\n"
	"	mov %rax, capture_stack(%rip)\n"
	"	jmp check\n");
#elif defined(__aarch64__)
__asm__(".globl capture\n"
	"capture:\n"
	"	adrp x9, capture_regs\n"
	"	add x9, x9, :lo12:capture_regs\n"
	"	stp x0, x1, [x9]\n"
	"	stp x2, x3, [x9, #16]\n"
	"	stp x4, x5, [x9, #32]\n"
	"	stp x6, x7, [x9, #48]\n"
	"	adrp x9, capture_stack\n"
	"	mov x10, sp\n"
	"	str x10, [x9, :lo12:capture_stack]\n"
	"	b check\n");
#endif

enum where { REG, STACK, REF, STACKREF, UNREADABLE };

struct expected {
	enum where where;
	int index;
	int size; /* bytes of the value */
};

/* What check() compares: the call that is in progress. */
static const char *current;
static const struct expected *expected;
static int nexpected;

/* Byte j of parameter i. */
static unsigned char pattern(int i, int j)
{
	return (unsigned char)(37 * (i + 1) + 5 * j + 1);
}

void check(void)
{
	for (int i = 0; i < nexpected; i++) {
		const struct expected *e = &expected[i];
		const unsigned char *bytes = NULL;

		if (e->where == REG)
			bytes = (void *)&capture_regs[e->index];
		else if (e->where == STACK)
			bytes = (void *)&capture_stack[e->index];
		else if (e->where == REF)
			bytes = (void *)capture_regs[e->index];
		else if (e->where == STACKREF)
			bytes = (void *)capture_stack[e->index];
		for (int j = 0; bytes && j < e->size; j++) {
			if (bytes[j] != pattern(i, j)) {
				printf("%s: parameter %d is not where the table says\n", current, i);
				failures++;
				break;
			}
		}
	}
}

#define FILL(value, i)                               \
	for (int j = 0; j < (int)sizeof(value); j++) \
	((unsigned char *)&value)[j] = pattern(i, j)
