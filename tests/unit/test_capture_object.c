/* The BPF object asks no kernel for more than the oldest has that cudatap runs on: Linux 5.15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <gelf.h>
#include <linux/bpf.h>

/* streamer/capture/object.S */
extern const char capture_object[], capture_object_end[];

static size_t check_section(Elf_Scn *section)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const struct bpf_insn *insns;
	size_t calls = 0, i;

	assert_non_null(data);
	insns = data->d_buf;
	for (i = 0; i < data->d_size / sizeof(*insns); i++) {
		if (insns[i].code != (BPF_JMP | BPF_CALL) || insns[i].src_reg)
			continue; /* src_reg: the object's own functions */
		calls++;
		if (insns[i].imm > BPF_FUNC_task_pt_regs)
			fail_msg("function %d of the kernel came after Linux 5.15", insns[i].imm);
	}
	return calls;
}

static void no_function_is_younger_than_linux_5_15(void **state)
{
	Elf *elf;
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t calls = 0;

	assert_int_not_equal(elf_version(EV_CURRENT), EV_NONE);
	elf = elf_memory((char *)capture_object, capture_object_end - capture_object);
	assert_non_null(elf);
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_flags & SHF_EXECINSTR && header.sh_size)
			calls += check_section(section);
	elf_end(elf);
	assert_true(calls > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_function_is_younger_than_linux_5_15),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
