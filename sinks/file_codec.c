/* Compression of a whole file, gzip or zstd, in pieces. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "file.h"

#define PIECE      (64u << 10)
#define GZIP_LEVEL 6
#define GZIP_FRAME (15 + 16) /* zlib.h: the largest window, with gzip's header */

struct pieces {
	int from, to;
	const atomic_bool *stop;
	unsigned char in[PIECE], out[PIECE];
};

/* Returns the bytes read, 0 at the end, or a negative errno. */
static ssize_t next_piece(struct pieces *p)
{
	ssize_t n;

	if (atomic_load(p->stop))
		return -ECANCELED;
	do
		n = read(p->from, p->in, PIECE);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int put_piece(const struct pieces *p, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(p->to, p->out + done, len - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int gzip_pieces(struct pieces *p, z_stream *z)
{
	int r = 0, end = Z_OK;

	while (!r && end != Z_STREAM_END) {
		ssize_t n = next_piece(p);

		if (n < 0)
			return (int)n;
		z->next_in = p->in;
		z->avail_in = (unsigned)n;
		do {
			z->next_out = p->out;
			z->avail_out = PIECE;
			end = deflate(z, n ? Z_NO_FLUSH : Z_FINISH);
			r = put_piece(p, PIECE - z->avail_out);
		} while (!r && !z->avail_out);
	}
	return r;
}

static int gzip(struct pieces *p)
{
	z_stream z = {0};
	int r;

	if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_FRAME, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	r = gzip_pieces(p, &z);
	deflateEnd(&z);
	return r;
}

static int zstd_pieces(struct pieces *p, ZSTD_CCtx *context)
{
	bool last = false;
	int r = 0;

	while (!r && !last) {
		ssize_t n = next_piece(p);
		ZSTD_inBuffer in = {p->in, (size_t)n, 0};
		size_t left;

		if (n < 0)
			return (int)n;
		last = !n;
		do {
			ZSTD_outBuffer out = {p->out, PIECE, 0};

			left = ZSTD_compressStream2(context, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
			if (ZSTD_isError(left))
				return -EIO;
			r = put_piece(p, out.pos);
		} while (!r && (last ? left > 0 : in.pos < in.size));
	}
	return r;
}

static int zstd(struct pieces *p)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();
	struct stat st;
	int r;

	if (!context)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	if (!fstat(p->from, &st))
		ZSTD_CCtx_setPledgedSrcSize(context, (unsigned long long)st.st_size);
	r = zstd_pieces(p, context);
	ZSTD_freeCCtx(context);
	return r;
}

int file_codec_run(enum file_compress how, int from, int to, const atomic_bool *stop)
{
	static int (*const codecs[FILE_NCOMPRESS])(struct pieces *) = {NULL, gzip, zstd};
	struct pieces *p = malloc(sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->from = from;
	p->to = to;
	p->stop = stop;
	r = codecs[how](p);
	free(p);
	return r;
}
