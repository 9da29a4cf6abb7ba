/*
 * Timestamps: RFC 3339 in UTC with nine digits, "2026-11-29T16:21:03.123456789Z".
 * The last second's text is kept: a host's calls come by thousands a second.
 */
#ifndef CUDATAP_TIMESTAMP_H
#define CUDATAP_TIMESTAMP_H

#include "number.h"

#define TIMESTAMP_LEN 30
#define TIMESTAMP_NS  1000000000

struct timestamp_cache {
	int64_t second; /* that `text` is of */
	char text[24];  /* "2026-11-29T16:21:03.", empty before the first use */
};

/* Makes the cache's text that of this second. */
void timestamp_set(struct timestamp_cache *cache, int64_t second);

/**
 * put_timestamp - append a time, unchecked (see put.h): TIMESTAMP_LEN bytes
 * @ts_ns: unix time; any 64-bit value (the years 1677 to 2262)
 */
static inline char *put_timestamp(char *p, struct timestamp_cache *cache, int64_t ts_ns)
{
	int64_t second = ts_ns / TIMESTAMP_NS;
	int64_t ns = ts_ns % TIMESTAMP_NS;

	if (ns < 0) {
		second--;
		ns += TIMESTAMP_NS;
	}
	if (second != cache->second || !cache->text[0])
		timestamp_set(cache, second);
	p = put_bytes(p, cache->text, 20);
	p = put_9digits(p, (uint32_t)ns);
	*p++ = 'Z';
	return p;
}

#endif
