/* Numbers as JSON text: the digits' table, and floating point. */
#include "number.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

const char number_pairs[200] = {
	"00010203040506070809"
	"10111213141516171819"
	"20212223242526272829"
	"30313233343536373839"
	"40414243444546474849"
	"50515253545556575859"
	"60616263646566676869"
	"70717273747576777879"
	"80818283848586878889"
	"90919293949596979899",
};

static bool reads_back(const char *text, double value, int digits)
{
	/* exact for a float too: it is compared as the float that was widened */
	return digits == FLT_DECIMAL_DIG ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
}

char *put_float(char *p, double value, int digits)
{
	char text[64] = "";
	bool point = false;

	if (!isfinite(value))
		return PUT_LITERAL(p, "null");
	for (int n = 1; n <= digits; n++) {
		snprintf(text, sizeof(text), "%.*g", n, value);
		if (reads_back(text, value, digits))
			break;
	}
	/* the locale's decimal point, whatever its bytes, is a point in JSON */
	for (const char *c = text; *c; c++) {
		if ((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e') {
			*p++ = *c;
		} else if (!point) {
			*p++ = '.';
			point = true;
		}
	}
	return p;
}
