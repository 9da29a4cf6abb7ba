/* Loads a library by dlopen() and calls its library_work(N) at once. usage: loader LIBRARY N */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*work)(int) = library ? (void (*)(int))dlsym(library, "library_work") : NULL;

	if (!work) {
		fprintf(stderr, "loader: %s\n", argc > 2 ? dlerror() : "usage: loader LIBRARY N");
		return 1;
	}
	work(atoi(argv[2]));
	return 0;
}
