/* New executable mappings from perf's mmap2 records; see perf_event_open(2). */
#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#define RING_PAGES 16 /* per CPU: a burst of some hundred mappings */

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *page;
	const char *data;
	size_t size; /* a power of two */
};

struct find_watch {
	int epoll_fd;
	struct cpu_ring *rings;
	size_t n;
	/* one record, copied out of the ring, where it may wrap around */
	union {
		struct perf_event_header header;
		char bytes[65536];
	} record;
};

/* Body of a PERF_RECORD_MMAP2, after the header. */
struct mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	char filename[];
};

/* With the longest path, its NUL and padding, and the time. */
#define LARGEST (sizeof(struct mmap2) + PATH_MAX + 2 * sizeof(uint64_t))

struct lost {
	struct perf_event_header header;
	uint64_t id, lost;
};

static int ring_open(struct find_watch *watch, struct cpu_ring *ring, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable mappings; mmap_data would bring the others */
		.mmap2 = 1,
		.inherit = pid != 0,
		.watermark = 1,
		.wakeup_watermark = 1,
		.sample_type = PERF_SAMPLE_TIME, /* a u64 behind each record */
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	struct epoll_event event = {.events = EPOLLIN};
	long page = sysconf(_SC_PAGESIZE);
	void *memory;

	ring->fd = syscall(SYS_perf_event_open, &attr, pid ? pid : -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return -errno;
	memory = mmap(NULL, (1 + RING_PAGES) * page, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (memory == MAP_FAILED) {
		int err = -errno;

		close(ring->fd);
		return err;
	}
	ring->page = memory;
	ring->data = (const char *)memory + page;
	ring->size = RING_PAGES * page;
	return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, ring->fd, &event) ? -errno : 0;
}

void find_watch_free(struct find_watch *watch)
{
	size_t i;

	if (!watch)
		return;
	for (i = 0; i < watch->n; i++) {
		munmap(watch->rings[i].page, watch->rings[i].size + sysconf(_SC_PAGESIZE));
		close(watch->rings[i].fd);
	}
	free(watch->rings);
	if (watch->epoll_fd >= 0)
		close(watch->epoll_fd);
	free(watch);
}

int find_watch_new(pid_t pid, struct find_watch **ret_watch)
{
	long ncpus = sysconf(_SC_NPROCESSORS_CONF), cpu;
	struct find_watch *watch = calloc(1, sizeof(*watch));
	int err = 0;

	if (!watch)
		return -ENOMEM;
	watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	watch->rings = calloc(ncpus, sizeof(*watch->rings));
	if (!watch->rings || watch->epoll_fd < 0)
		err = -ENOMEM;
	/* an inherited event cannot be mapped without a CPU: one ring per CPU for a process as well */
	for (cpu = 0; cpu < ncpus && !err; cpu++) {
		err = ring_open(watch, &watch->rings[watch->n], pid, cpu);
		if (!err)
			watch->n++;
		else if (err == -ENODEV) /* a CPU that is offline */
			err = 0;
	}
	if (!err && !watch->n)
		err = -ENODEV;
	if (err) {
		find_watch_free(watch);
		return err;
	}
	*ret_watch = watch;
	return 0;
}

int find_watch_fd(const struct find_watch *watch)
{
	return watch->epoll_fd;
}

static void copy_out(const struct cpu_ring *ring, uint64_t at, void *to, size_t n)
{
	size_t start = at & (ring->size - 1), first = ring->size - start;

	if (first > n)
		first = n;
	memcpy(to, ring->data + start, first);
	memcpy((char *)to + first, ring->data, n - first);
}

/* Shows one mapping when it is a file's. */
static void show(const struct mmap2 *m, size_t size, find_fn fn, void *ctx)
{
	static const char deleted[] = " (deleted)";
	struct find_file file = {.dev = makedev(m->maj, m->min), .ino = m->ino, .pid = m->pid};
	size_t len = strnlen(m->filename, size - sizeof(*m) - sizeof(uint64_t));
	char path[4096 + sizeof(deleted)];

	if (len == 0 || len >= sizeof(path) || m->filename[0] != '/' || m->filename[1] == '/' || !m->ino)
		return; /* anonymous, [vdso], //anon */
	memcpy(path, m->filename, len);
	path[len] = 0;
	if (len > sizeof(deleted) - 1 && !strcmp(path + len - (sizeof(deleted) - 1), deleted)) {
		path[len - (sizeof(deleted) - 1)] = 0;
		file.deleted = true;
	}
	file.path = path;
	file.map_start = m->addr;
	file.map_end = m->addr + m->len;
	file.map_offset = m->pgoff;
	memcpy(&file.mapped_ns, (const char *)m + size - sizeof(file.mapped_ns), sizeof(file.mapped_ns));
	fn(ctx, &file);
}

/* Takes all records off. Returns how many the kernel says that it had to drop between them. */
static unsigned long take_records(struct find_watch *watch, struct cpu_ring *ring, find_fn fn, void *ctx)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;
	struct perf_event_header *header = &watch->record.header;
	unsigned long dropped = 0;

	while (tail < head) {
		copy_out(ring, tail, header, sizeof(*header));
		if (header->size < sizeof(*header))
			break; /* cannot be: give the ring up until its next record */
		copy_out(ring, tail, header, header->size);
		if (header->type == PERF_RECORD_MMAP2 &&
		    header->size > sizeof(struct mmap2) + sizeof(uint64_t))
			show((const void *)header, header->size, fn, ctx);
		else if (header->type == PERF_RECORD_LOST && header->size >= sizeof(struct lost))
			dropped += ((const struct lost *)header)->lost;
		tail += header->size;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
	return dropped;
}

/*
 * That a record was dropped is told by the next one on that CPU, which may never come. A ring that had no
 * room for a record of any size until its records were taken off may have lost some.
 */
static unsigned long ring_read(struct find_watch *watch, struct cpu_ring *ring, find_fn fn, void *ctx)
{
	uint64_t tail = ring->page->data_tail;
	unsigned long dropped = take_records(watch, ring, fn, ctx);

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* what is dropped by now came behind this head */
	if (!dropped &&
	    __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) - tail > ring->size - LARGEST)
		dropped = 1;
	return dropped;
}

unsigned long find_watch_read(struct find_watch *watch, find_fn fn, void *ctx)
{
	unsigned long dropped = 0;
	size_t i;

	for (i = 0; i < watch->n; i++)
		dropped += ring_read(watch, &watch->rings[i], fn, ctx);
	return dropped;
}
