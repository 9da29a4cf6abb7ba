/*
 * Code whose calls are counted by probes: five from a constructor, then as
 * many as asked. A library, or with -DPROGRAM a program that makes 1000.
 */
__attribute__((noinline, visibility("default"))) void launch_mark(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"))) void launch_work(int calls)
{
	for (int i = 0; i < calls; i++)
		launch_mark();
}

__attribute__((constructor)) static void first_calls(void)
{
	launch_work(5);
}

#ifdef PROGRAM
int main(void)
{
	launch_work(1000);
	return 0;
}
#endif
