/* Bounds-checked reading of ELF files; see elf_file.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_file.h"

#if defined(__x86_64__)
#define THIS_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE EM_AARCH64
#else
#error "cudatap knows x86-64 and aarch64"
#endif

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define THIS_ORDER ELFDATA2LSB
#else
#define THIS_ORDER ELFDATA2MSB
#endif

static bool inside(const struct elf_file *file, uint64_t offset, uint64_t n)
{
	return offset <= file->size && n <= file->size - offset;
}

int elf_file_read(const struct elf_file *file, uint64_t offset, void *buf, size_t n)
{
	if (!inside(file, offset, n))
		return FIND_BROKEN;
	if (file->fd < 0) {
		memcpy(buf, (const char *)file->bytes + offset, n);
		return 0;
	}
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(file->fd, (char *)buf + done, n - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0) /* it shrank since it was opened */
			return FIND_BROKEN;
		done += (size_t)got;
	}
	return 0;
}

/* A string of a string table; FIND_BROKEN where it has no end within ELF_FILE_STRING bytes. */
static int read_string(const struct elf_file *file, const Elf64_Shdr *strings, uint64_t at,
		       char ret[ELF_FILE_STRING])
{
	size_t n;
	int err;

	if (at >= strings->sh_size)
		return FIND_BROKEN;
	n = ELF_FILE_STRING;
	if (strings->sh_size - at < n)
		n = strings->sh_size - at;
	err = elf_file_read(file, strings->sh_offset + at, ret, n);
	if (err)
		return err;
	return memchr(ret, '\0', n) ? 0 : FIND_BROKEN;
}

static int read_section(const struct elf_file *file, uint64_t index, Elf64_Shdr *ret)
{
	if (index >= file->nsections)
		return FIND_BROKEN;
	return elf_file_read(file, file->section_table + index * sizeof(*ret), ret, sizeof(*ret));
}

int elf_file_section(const struct elf_file *file, uint64_t index, Elf64_Shdr *ret)
{
	int err = read_section(file, index, ret);

	if (!err && !inside(file, ret->sh_offset, ret->sh_size))
		return FIND_BROKEN;
	return err;
}

static int check_header(const struct elf_file *file, Elf64_Ehdr *header)
{
	int err;

	if (file->size < SELFMAG)
		return FIND_NOT_ELF;
	err = elf_file_read(file, 0, header->e_ident, SELFMAG);
	if (err)
		return err;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return FIND_NOT_ELF;
	/* a 32-bit header is shorter: what counts in it stands at the same place */
	err = elf_file_read(file, 0, header, offsetof(Elf64_Ehdr, e_version));
	if (err)
		return err;
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != THIS_ORDER ||
	    header->e_machine != THIS_MACHINE)
		return FIND_OTHER_MACHINE;
	err = elf_file_read(file, 0, header, sizeof(*header));
	if (err)
		return err;
	/* objects, core files: nobody runs these */
	return header->e_type == ET_EXEC || header->e_type == ET_DYN ? 0 : FIND_NO_CUDA;
}

static int read_segments(struct elf_file *file, const Elf64_Ehdr *header)
{
	Elf64_Phdr segment;
	struct elf_segment *s;
	int err;

	if (header->e_phnum && header->e_phentsize != sizeof(segment))
		return FIND_BROKEN;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		uint64_t at;

		if (__builtin_add_overflow(header->e_phoff, i * sizeof(segment), &at))
			return FIND_BROKEN;
		err = elf_file_read(file, at, &segment, sizeof(segment));
		if (err)
			return err;
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
			continue;
		if (file->nsegments == ELF_FILE_SEGMENTS)
			return FIND_BROKEN;
		s = &file->segments[file->nsegments];
		s->start = segment.p_vaddr;
		s->offset = segment.p_offset;
		if (__builtin_add_overflow(segment.p_vaddr, segment.p_filesz, &s->end))
			return FIND_BROKEN;
		file->nsegments++;
	}
	return 0;
}

/* Keeps the section if it is one of those wanted; what the others say is not our concern. */
static int keep_section(struct elf_file *file, const Elf64_Shdr *section)
{
	bool kept = false;
	const struct {
		Elf64_Shdr *where;
		uint32_t type;
	} wanted[] = {
		{&file->dynsym, SHT_DYNSYM},
		{&file->symtab, SHT_SYMTAB},
		{&file->dynamic, SHT_DYNAMIC},
		{&file->verdef, SHT_GNU_verdef},
	};

	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (section->sh_type == wanted[i].type && wanted[i].where->sh_type == SHT_NULL) {
			*wanted[i].where = *section;
			kept = true;
		}
	if (section->sh_type == SHT_NOTE && file->nnotes < ELF_FILE_NOTES) {
		file->notes[file->nnotes++] = *section;
		kept = true;
	}
	return kept && !inside(file, section->sh_offset, section->sh_size) ? FIND_BROKEN : 0;
}

static int read_sections(struct elf_file *file, const Elf64_Ehdr *header)
{
	Elf64_Shdr section;
	int err;

	if (header->e_shoff == 0) /* sstripped: no symbols to go by */
		return 0;
	if (header->e_shentsize != sizeof(section) || !inside(file, header->e_shoff, sizeof(section)))
		return FIND_BROKEN;
	file->section_table = header->e_shoff;
	file->nsections = header->e_shnum;
	if (file->nsections == 0) { /* too many for 16 bits: section 0 has the number */
		file->nsections = 1;
		err = read_section(file, 0, &section);
		if (err)
			return err;
		file->nsections = section.sh_size;
	}
	if (file->nsections > ELF_FILE_SECTIONS ||
	    !inside(file, file->section_table, file->nsections * sizeof(section)))
		return FIND_BROKEN;
	for (uint64_t i = 1; i < file->nsections; i++) {
		err = read_section(file, i, &section);
		if (!err)
			err = keep_section(file, &section);
		if (err)
			return err;
	}
	return 0;
}

static int open_source(struct elf_file *file)
{
	Elf64_Ehdr header;
	int err;

	err = check_header(file, &header);
	if (!err)
		err = read_segments(file, &header);
	if (!err)
		err = read_sections(file, &header);
	return err;
}

int elf_file_open(struct elf_file *file, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return FIND_NOT_ELF;
	*file = (struct elf_file){.fd = fd, .size = (uint64_t)st.st_size};
	return open_source(file);
}

int elf_file_open_bytes(struct elf_file *file, const void *bytes, size_t size)
{
	*file = (struct elf_file){.fd = -1, .bytes = bytes, .size = size};
	return open_source(file);
}

bool elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t *ret_offset)
{
	for (unsigned i = 0; i < file->nsegments; i++) {
		const struct elf_segment *s = &file->segments[i];

		if (address >= s->start && address < s->end)
			return !__builtin_add_overflow(s->offset, address - s->start, ret_offset);
	}
	return false;
}

bool elf_file_address(const struct elf_file *file, uint64_t offset, uint64_t *ret_address)
{
	for (unsigned i = 0; i < file->nsegments; i++) {
		const struct elf_segment *s = &file->segments[i];

		if (offset >= s->offset && offset - s->offset < s->end - s->start) {
			*ret_address = s->start + (offset - s->offset);
			return true;
		}
	}
	return false;
}

int elf_file_name(const struct elf_file *file, const Elf64_Shdr *table, uint64_t at, char *name, size_t size)
{
	Elf64_Shdr strings;
	int err = elf_file_section(file, table->sh_link, &strings);
	size_t n = size - 1;

	if (err || at >= strings.sh_size)
		return err ? err : FIND_BROKEN;
	if (strings.sh_size - at < n)
		n = strings.sh_size - at;
	err = elf_file_read(file, strings.sh_offset + at, name, n);
	name[n] = '\0';
	return err;
}

int elf_file_functions(const struct elf_file *file, const Elf64_Shdr *table, elf_symbol_fn fn, void *ctx)
{
	Elf64_Sym symbols[512];
	uint64_t n = table->sh_size / sizeof(symbols[0]);
	size_t part;
	int err;

	if (table->sh_type == SHT_NULL)
		return 0;
	if (table->sh_entsize != sizeof(symbols[0]))
		return FIND_BROKEN;
	for (uint64_t i = 0; i < n; i += part) {
		part = sizeof(symbols) / sizeof(symbols[0]);
		if (n - i < part)
			part = n - i;
		err = elf_file_read(file, table->sh_offset + i * sizeof(symbols[0]), symbols,
				    part * sizeof(symbols[0]));
		for (size_t k = 0; k < part && !err; k++)
			if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC &&
			    symbols[k].st_shndx != SHN_UNDEF && symbols[k].st_value != 0)
				err = fn(ctx, &symbols[k]);
		if (err)
			return err;
	}
	return 0;
}

int elf_file_soname(const struct elf_file *file, char **ret)
{
	char name[ELF_FILE_STRING];
	Elf64_Shdr strings;
	Elf64_Dyn entry;
	uint64_t n = file->dynamic.sh_size / sizeof(entry);
	int err;

	*ret = NULL;
	for (uint64_t i = 0; i < n && i < ELF_FILE_ENTRIES; i++) {
		err = elf_file_read(file, file->dynamic.sh_offset + i * sizeof(entry), &entry, sizeof(entry));
		if (err)
			return err;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag != DT_SONAME)
			continue;
		err = elf_file_section(file, file->dynamic.sh_link, &strings);
		if (!err)
			err = read_string(file, &strings, entry.d_un.d_val, name);
		if (err)
			return err;
		*ret = strdup(name);
		return *ret ? 0 : -ENOMEM;
	}
	return 0;
}

/* The descriptor of the build id among the notes of one section, in hex. */
static char *build_id_among(const unsigned char *notes, size_t n)
{
	const size_t max_bytes = 64;
	Elf64_Nhdr note;

	for (size_t at = 0; at + sizeof(note) <= n;) {
		const unsigned char *name = notes + at + sizeof(note);
		uint64_t name_size, desc_size;

		memcpy(&note, notes + at, sizeof(note));
		name_size = ((uint64_t)note.n_namesz + 3) & ~3ULL;
		desc_size = ((uint64_t)note.n_descsz + 3) & ~3ULL;
		if (name_size + desc_size > n - at - sizeof(note))
			return NULL;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0 && note.n_descsz &&
		    note.n_descsz <= max_bytes) {
			char *hex = malloc(2 * note.n_descsz + 1);

			for (unsigned i = 0; hex && i < note.n_descsz; i++)
				sprintf(hex + 2 * (size_t)i, "%02x", name[name_size + i]);
			return hex;
		}
		at += sizeof(note) + name_size + desc_size;
	}
	return NULL;
}

int elf_file_build_id(const struct elf_file *file, char **ret)
{
	unsigned char notes[1024]; /* the build id's own section has 36 bytes */
	int err;

	*ret = NULL;
	for (unsigned i = 0; i < file->nnotes && !*ret; i++) {
		size_t n = sizeof(notes);

		if (file->notes[i].sh_size < n)
			n = file->notes[i].sh_size;
		err = elf_file_read(file, file->notes[i].sh_offset, notes, n);
		if (err)
			return err;
		*ret = build_id_among(notes, n);
	}
	return 0;
}

/* The name of one version definition at @at in the section. */
static int version_name(const struct elf_file *file, const Elf64_Shdr *strings, uint64_t at,
			const Elf64_Verdef *version, char name[ELF_FILE_STRING])
{
	Elf64_Verdaux aux;
	int err;

	at += version->vd_aux;
	if (at > file->verdef.sh_size || file->verdef.sh_size - at < sizeof(aux))
		return FIND_BROKEN;
	err = elf_file_read(file, file->verdef.sh_offset + at, &aux, sizeof(aux));
	return err ? err : read_string(file, strings, aux.vda_name, name);
}

int elf_file_versions(const struct elf_file *file, elf_version_fn fn, void *ctx)
{
	char name[ELF_FILE_STRING];
	Elf64_Verdef version;
	Elf64_Shdr strings;
	uint64_t at = 0;
	int err;

	if (file->verdef.sh_type == SHT_NULL)
		return 0;
	err = elf_file_section(file, file->verdef.sh_link, &strings);
	if (err)
		return err;
	for (unsigned i = 0; i < ELF_FILE_ENTRIES; i++) {
		if (at > file->verdef.sh_size || file->verdef.sh_size - at < sizeof(version))
			return FIND_BROKEN;
		err = elf_file_read(file, file->verdef.sh_offset + at, &version, sizeof(version));
		if (!err && !(version.vd_flags & VER_FLG_BASE)) {
			err = version_name(file, &strings, at, &version, name);
			if (!err)
				err = fn(ctx, name);
		}
		if (err)
			return err;
		if (version.vd_next == 0)
			break;
		at += version.vd_next;
	}
	return 0;
}
