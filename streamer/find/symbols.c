/* Sorted addresses of the functions of a few files; see symbols.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_file.h"
#include "symbols.h"

enum { FILES = 8 };

struct function {
	uint64_t address; /* as in the file */
	uint32_t name;    /* place in the string table */
	uint32_t dynamic; /* of .dynsym, else of .symtab */
};

struct table {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
	struct function *functions; /* ascending by address */
	size_t n, room;
	uint64_t used; /* when, by the turns of symbols_find(); 0: the place is free */
};

struct symbols {
	struct table tables[FILES];
	size_t n; /* functions of all */
	uint64_t turn;
};

/* What one search works on. */
struct search {
	struct symbols *symbols;
	uint64_t address;
	char *name;
	size_t size;
};

struct reading {
	struct table *table;
	bool dynamic;
};

/* ---- one file's table ---- */

static int add_function(void *ctx, const Elf64_Sym *symbol)
{
	struct reading *reading = ctx;
	struct table *table = reading->table;

	if (table->n == table->room) {
		size_t room = table->room ? 2 * table->room : 1024;
		struct function *grown =
			room <= SYMBOLS_MAX ? reallocarray(table->functions, room, sizeof(*grown)) : NULL;

		if (!grown)
			return -ENOMEM;
		table->functions = grown;
		table->room = room;
	}
	table->functions[table->n++] = (struct function){symbol->st_value, symbol->st_name, reading->dynamic};
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->address != y->address ? (x->address < y->address ? -1 : 1)
					: (int)x->dynamic - (int)y->dynamic;
}

static void table_clear(struct symbols *symbols, struct table *table)
{
	symbols->n -= table->n;
	free(table->functions);
	*table = (struct table){0};
}

static struct table *oldest(struct symbols *symbols)
{
	struct table *oldest = &symbols->tables[0];

	for (int i = 1; i < FILES; i++)
		if (symbols->tables[i].used < oldest->used)
			oldest = &symbols->tables[i];
	return oldest;
}

/* A file whose symbols cannot be read has an empty table: it is not tried again for each name. */
static void table_read(struct table *table, const struct elf_file *file)
{
	struct reading reading = {table, false};
	int err = elf_file_functions(file, &file->symtab, add_function, &reading);

	reading.dynamic = true;
	if (!err)
		err = elf_file_functions(file, &file->dynsym, add_function, &reading);
	if (err) {
		free(table->functions);
		table->functions = NULL;
		table->n = table->room = 0;
	}
	if (table->n)
		qsort(table->functions, table->n, sizeof(*table->functions), by_address);
}

static struct table *table_of(struct symbols *symbols, const struct elf_file *file, const struct stat *st)
{
	struct table *table = NULL;

	for (int i = 0; i < FILES && !table; i++) {
		struct table *t = &symbols->tables[i];

		if (t->used && t->dev == st->st_dev && t->ino == st->st_ino && t->size == st->st_size &&
		    t->changed.tv_sec == st->st_mtim.tv_sec && t->changed.tv_nsec == st->st_mtim.tv_nsec)
			table = t;
	}
	if (!table) {
		struct table fresh = {
			.dev = st->st_dev, .ino = st->st_ino, .size = st->st_size, .changed = st->st_mtim};

		table_read(&fresh, file);
		do { /* a place, and room for its functions */
			table = oldest(symbols);
			table_clear(symbols, table);
		} while (symbols->n + fresh.n > SYMBOLS_MAX && oldest(symbols)->used);
		*table = fresh;
		symbols->n += fresh.n;
	}
	table->used = ++symbols->turn;
	return table;
}

static const struct function *function_at(const struct table *table, uint64_t address)
{
	size_t low = 0, high = table->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->functions[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table->n && table->functions[low].address == address ? &table->functions[low] : NULL;
}

/* ---- the interface ---- */

static int name_of(struct search *search, int fd, uint64_t offset)
{
	const struct function *function;
	struct elf_file file;
	uint64_t address;
	struct stat st;
	int err = elf_file_open(&file, fd);

	if (err || fstat(fd, &st))
		return err ? err : -errno;
	if (!elf_file_address(&file, offset, &address))
		return -ENOENT;
	function = function_at(table_of(search->symbols, &file, &st), address);
	if (!function)
		return -ENOENT;
	err = elf_file_name(&file, function->dynamic ? &file.dynsym : &file.symtab, function->name,
			    search->name, search->size);
	return err ? err : (int)strlen(search->name);
}

static int search_file(void *ctx, const struct find_file *file)
{
	struct search *search = ctx;
	int fd = find_open(file), result;

	if (fd < 0)
		return fd;
	result = name_of(search, fd, search->address - file->map_start + file->map_offset);
	close(fd);
	return result;
}

int symbols_find(struct symbols *symbols, pid_t pid, uint64_t address, char *name, size_t size)
{
	struct search search = {symbols, address, name, size};

	name[0] = '\0';
	return find_mapping(pid, address, search_file, &search);
}

struct symbols *symbols_new(void)
{
	return calloc(1, sizeof(struct symbols));
}

void symbols_free(struct symbols *symbols)
{
	if (!symbols)
		return;
	for (int i = 0; i < FILES; i++)
		free(symbols->tables[i].functions);
	free(symbols);
}
