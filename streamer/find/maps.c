/* Lines of /proc/PID/maps; see maps.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "maps.h"

/* The kernel writes a newline in a path as \012 and leaves all else as it is. */
static void unescape(char *path)
{
	char *to = path;

	while (*path) {
		if (strncmp(path, "\\012", 4) == 0) {
			*to++ = '\n';
			path += 4;
		} else {
			*to++ = *path++;
		}
	}
	*to = '\0';
}

static bool cut_deleted(char *path)
{
	static const char mark[] = " (deleted)";
	size_t n = strlen(path), m = sizeof(mark) - 1;

	if (n <= m || strcmp(path + n - m, mark) != 0)
		return false;
	path[n - m] = '\0';
	return true;
}

bool maps_parse_line(char *line, struct find_file *file)
{
	unsigned major, minor;
	uint64_t start, end, offset, inode;
	char perms[5];
	int path = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &start, &end, perms,
		   &offset, &major, &minor, &inode, &path) != 7 ||
	    !path)
		return false;
	if (strlen(perms) != 4 || perms[2] != 'x' || inode == 0 || line[path] != '/')
		return false;
	file->path = line + path;
	unescape(line + path);
	file->deleted = cut_deleted(line + path);
	file->dev = makedev(major, minor);
	file->ino = (ino_t)inode;
	file->map_start = start;
	file->map_end = end;
	file->map_offset = offset;
	return true;
}
