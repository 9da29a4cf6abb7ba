/* The compiled BPF program, carried inside the executable. */
	.section .rodata
	.global capture_object, capture_object_end
	.balign 16
capture_object:
	.incbin "cudatap.bpf.o"
capture_object_end:
	.byte 0
	.section .note.GNU-stack,"",%progbits
