/*
 * Which calls become records: the conditions of the filter and the samples,
 * decided as early as they can be. What the row, its samples and the size of
 * its payload decide is known at entry; how the call ended and how long it
 * took, on return.
 *
 * A call that is turned away is counted once, here, whatever becomes of it.
 */
#ifndef CUDATAP_RULES_H
#define CUDATAP_RULES_H

#define STATUS_NOT_READY 600 /* cudaErrorNotReady, CUDA_ERROR_NOT_READY */

enum turned {
	TURNED_NOT,
	TURNED_FILTERED,
	TURNED_SAMPLED_OUT,
};

static __always_inline bool is_too_small(const struct rec_rules *rules, const struct rec_desc *desc,
					 const struct regs *ctx)
{
	u64 words[8] = {}, bytes;

	if (!rules->min_bytes || !desc->bytes_size)
		return false;
	regs_args(ctx, words);
	bytes = words[INDEX(desc->bytes_word, 8)];
	if (desc->bytes_size == 4)
		bytes = (u32)bytes;
	return bytes < rules->min_bytes;
}

static __always_inline bool is_drawn(u32 sample)
{
	return !(bpf_get_prandom_u32() % sample);
}

/* At entry, of a call that nothing encloses or that is told of although something does. @ret_sample_n: for
 * how many calls it stands; 0: to be decided on return. */
static __always_inline enum turned turned_at_entry(const struct rec_rules *rules, const struct rec_desc *desc,
						   const struct regs *ctx, u32 row, u32 state,
						   u32 *ret_sample_n)
{
	u32 sample;

	if (state & REC_ROW_REJECTED)
		return TURNED_FILTERED;
	if (!(state & REC_ROW_ON))
		return TURNED_NOT;
	if (is_too_small(rules, desc, ctx))
		return TURNED_FILTERED;
	if (rules->keep_errors)
		return TURNED_NOT;
	sample = rules->sample[INDEX(row, REC_MAX_ROWS)];
	if (sample > 1 && !is_drawn(sample))
		return TURNED_SAMPLED_OUT;
	*ret_sample_n = sample > 1 ? sample : 1;
	return TURNED_NOT;
}

/* Can a call have been turned away at entry? */
static __always_inline bool may_be_turned(const struct rec_rules *rules, u32 row, u32 state)
{
	return state & REC_ROW_REJECTED || rules->min_bytes ||
	       (!rules->keep_errors && rules->sample[INDEX(row, REC_MAX_ROWS)] > 1);
}

static __always_inline enum rec_status status_of(const struct rec_desc *desc, u64 ret)
{
	if (desc->success == REC_SUCCESS_ALWAYS || !(u32)ret)
		return REC_STATUS_OK;
	if ((u32)ret == STATUS_NOT_READY)
		return REC_STATUS_NOT_READY;
	return desc->reports ? REC_STATUS_OK : REC_STATUS_ERROR;
}

static __always_inline bool has_error(const struct rec_rules *rules, const struct rec_desc *desc, u64 ret)
{
	u32 code = ret;

	if (desc->success == REC_SUCCESS_ALWAYS || !code)
		return false;
	return code >= REC_MAX_CODE ||
	       rules->errors[INDEX(desc->api, 2)][INDEX(code / 64, REC_MAX_CODE / 64)] >> (code & 63) & 1;
}

/* On return, and at the end of a thread inside its call; decides what is left to decide of rec->sample_n. */
static __always_inline enum turned turned_on_return(const struct rec_rules *rules,
						    const struct rec_desc *desc, struct rec_call *rec,
						    enum rec_status status, u64 ret)
{
	u64 duration = rec->end_ns - rec->start_ns;
	u32 sample;

	if (rules->by_outcome) {
		if (!(rules->status >> (status & 3) & 1) || duration < rules->min_duration_ns ||
		    duration > rules->max_duration_ns)
			return TURNED_FILTERED;
		if (rules->by_error && !has_error(rules, desc, ret))
			return TURNED_FILTERED;
	}
	if (rec->sample_n)
		return TURNED_NOT;
	rec->sample_n = 1;
	sample = rules->sample[INDEX(rec->cookie, REC_MAX_ROWS)];
	if (sample < 2 || status == REC_STATUS_ERROR || status == REC_STATUS_UNFINISHED)
		return TURNED_NOT;
	rec->sample_n = sample;
	return is_drawn(sample) ? TURNED_NOT : TURNED_SAMPLED_OUT;
}

#endif
