/* Timestamps: the calendar. */
#include "timestamp.h"

#define DAY          86400
#define DAYS_PER_ERA 146097 /* 400 years of the Gregorian calendar */
#define EPOCH_DAY    719468 /* days from 0000-03-01 to 1970-01-01 */

struct date {
	unsigned year, month, day;
};

/* Years are counted from March, so that the leap day is a year's last. */
static struct date date_of(int64_t days)
{
	int64_t since = days + EPOCH_DAY; /* positive: the first year is 1677 */
	unsigned era = (unsigned)(since / DAYS_PER_ERA);
	unsigned of_era = (unsigned)(since % DAYS_PER_ERA);
	unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
	unsigned from_march = (5 * of_year + 2) / 153;
	struct date date = {
		.year = era * 400 + year + (from_march >= 10),
		.month = from_march < 10 ? from_march + 3 : from_march - 9,
		.day = of_year - (153 * from_march + 2) / 5 + 1,
	};

	return date;
}

void timestamp_set(struct timestamp_cache *cache, int64_t second)
{
	int64_t days = second / DAY - (second % DAY < 0);
	unsigned of_day = (unsigned)(second - days * DAY);
	struct date date = date_of(days);
	char *p = cache->text;

	p = put_2digits(p, date.year / 100);
	p = put_2digits(p, date.year % 100);
	*p++ = '-';
	p = put_2digits(p, date.month);
	*p++ = '-';
	p = put_2digits(p, date.day);
	*p++ = 'T';
	p = put_2digits(p, of_day / 3600);
	*p++ = ':';
	p = put_2digits(p, of_day / 60 % 60);
	*p++ = ':';
	p = put_2digits(p, of_day % 60);
	*p = '.';
	cache->second = second;
}
