/* From a stub into C: every argument register is saved where C can read it. */
	.text

/* eax: index of the function. The stub has pushed rbp and set it up. */
	.globl	fake_thunk
	.hidden	fake_thunk
	.type	fake_thunk, @function
fake_thunk:
	.cfi_startproc
	.cfi_def_cfa 6, 16
	.cfi_offset 6, -16
	sub	$48, %rsp
	mov	%rdi, 0(%rsp)
	mov	%rsi, 8(%rsp)
	mov	%rdx, 16(%rsp)
	mov	%rcx, 24(%rsp)
	mov	%r8, 32(%rsp)
	mov	%r9, 40(%rsp)
	mov	%eax, %edi
	mov	%rsp, %rsi
	lea	8(%rbp), %rdx		/* the stack pointer at entry: the return address */
	call	fake_dispatch
	leave
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
	.size	fake_thunk, .-fake_thunk

/* rdi: function, rsi: words, rdx: how many (at least 6). */
	.globl	fake_call_words
	.hidden	fake_call_words
	.type	fake_call_words, @function
fake_call_words:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register 6
	mov	%rdi, %r11
	mov	%rsi, %r10
	mov	%rdx, %rcx
	and	$1, %ecx		/* an odd number of pushes: keep rsp at 16 */
	shl	$3, %ecx
	sub	%rcx, %rsp
1:	cmp	$6, %rdx
	jbe	2f
	push	-8(%r10,%rdx,8)
	dec	%rdx
	jmp	1b
2:	mov	0(%r10), %rdi
	mov	8(%r10), %rsi
	mov	16(%r10), %rdx
	mov	24(%r10), %rcx
	mov	32(%r10), %r8
	mov	40(%r10), %r9
	xor	%eax, %eax
	call	*%r11
	leave
	.cfi_def_cfa 7, 8
	ret
	.cfi_endproc
	.size	fake_call_words, .-fake_call_words

	.section .note.GNU-stack,"",@progbits
