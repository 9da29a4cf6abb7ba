/*
 * Bounds that every verifier sees. A compiler that has proved a bound drops the
 * check, or makes it on another copy of the number; verifiers before Linux 6.8
 * then do not know it of the register that is used. These make it in that one.
 */
#ifndef CUDATAP_BOUND_H
#define CUDATAP_BOUND_H

/* The u64 @x, at most @max, a constant. */
#define AT_MOST(x, max)                                                      \
	({                                                                   \
		u64 bounded_ = (x);                                          \
		asm("if %[value] <= %[limit] goto +1\n\t%[value] = %[limit]" \
		    : [value] "+r"(bounded_)                                 \
		    : [limit] "i"(max));                                     \
		bounded_;                                                    \
	})

/* The u64 @x modulo @n, a constant power of two: an index of an array of @n. */
#define INDEX(x, n)                                                                      \
	({                                                                               \
		u64 bounded_ = (x);                                                      \
		asm("%[value] &= %[mask]" : [value] "+r"(bounded_) : [mask] "i"((n)-1)); \
		bounded_;                                                                \
	})

#endif
