/*
 * Fuzz target: records of any bytes through decode_call() and encode_call().
 * What comes out must be one line within ENCODE_MAX_LINE, JSON by an
 * independent parser, with no key twice.
 *
 * Input: a byte of choices, two of row, the rest the record. Half of the
 * inputs are records as they are; in the other half only words and the
 * contents of slots come from the input, so that they get past the decoder.
 * Of each format an encoder that leaves the least room that encoder_new() allows is among those used.
 */
#include "../unit/encode_record.h"
#include "../unit/encode_reference.h"

#define RAW        (1 << 0)
#define UNFINISHED (1 << 1)
#define FAILED     (1 << 2)
#define NENCODERS  9 /* three of each format */

struct target {
	struct plan *plans;
	struct encoder *encoders[NENCODERS];
	char line[ENCODE_MAX_LINE];
};

struct input {
	const uint8_t *data;
	size_t size;
};

static void take(struct input *input, void *to, size_t n)
{
	size_t have = n < input->size ? n : input->size;

	memset(to, 0, n);
	if (have)
		memcpy(to, input->data, have);
	input->data += have;
	input->size -= have;
}

/* The longest constant field that is accepted. */
static struct encoder *tightest_encoder(struct encoder_options options)
{
	static char value[ENCODE_MAX_LINE];
	struct encode_static note = {"note", value};
	struct encoder *encoder = NULL;

	size_t fits = 0, too_long = ENCODE_MAX_LINE, len;

	options.statics = &note;
	options.nstatics = 1;
	while (too_long - fits > 1) {
		len = (fits + too_long) / 2;
		memset(value, 'x', len);
		value[len] = '\0';
		encoder = encoder_new(&options);
		if (encoder)
			fits = len;
		else
			too_long = len;
		encoder_free(encoder);
	}
	value[fits] = '\0';
	return encoder_new(&options);
}

static struct target *target_get(void)
{
	static struct target target;
	static const char *const redact[] = {"stream", "devPtr"};

	if (target.plans)
		return &target;
	target.plans = plan_all(plan_host_abi());
	for (int i = 0; i < NENCODERS; i += 3) {
		struct encoder_options options = {.format = encode_format_names[i / 3],
						  .run = "k3v9q2m7x0ab",
						  .host = "gpu07",
						  .args = true,
						  .nested = true};

		target.encoders[i] = encoder_new(&options);
		target.encoders[i + 1] = tightest_encoder(options);
		options.nested = false;
		options.without = 0xaaaaaaaaaaaaaaaa;
		options.redact = redact;
		options.nredact = 2;
		target.encoders[i + 2] = encoder_new(&options);
	}
	for (int i = 0; i < NENCODERS; i++)
		if (!target.encoders[i])
			abort();
	return &target;
}

static void fill_raw(struct record *record, struct input *input, unsigned row)
{
	size_t n = input->size < sizeof(record->bytes) ? input->size : sizeof(record->bytes);

	take(input, record->bytes, n);
	record->size = n;
	record_call(record)->kind = REC_CALL;
	record_call(record)->cookie = row;
	record_call(record)->parent_cookie %= table_nrows;
}

static void fill_shaped(struct record *record, struct input *input, unsigned row, unsigned choices)
{
	const struct plan *plan = record->plan;
	struct rec_call *call = record_call(record);
	unsigned nops = choices & (FAILED | UNFINISHED) ? plan->desc.nentry : plan->desc.nops;

	call->flags = choices & UNFINISHED ? REC_F_UNFINISHED : 0;
	take(input, &call->depth, sizeof(call->depth));
	call->parent_cookie = call->depth ? row : 0;
	if (table_rows[row].ret != TABLE_RET_STATUS || choices & FAILED)
		take(input, &call->ret, sizeof(call->ret));
	take(input, record_words(record), record->size - sizeof(*call));
	while (record->op < nops) {
		uint8_t bytes[REC_MAX_SLOT];
		uint32_t count;
		uint16_t len;

		take(input, &len, sizeof(len));
		take(input, &count, sizeof(count));
		len %= REC_MAX_SLOT + 2;
		take(input, bytes, len <= REC_MAX_SLOT ? len : 0);
		record_slot(record, bytes, len <= REC_MAX_SLOT ? len : -1, count);
	}
}

static void check(struct target *target, struct encoder *encoder, const struct call *call,
		  struct input *input)
{
	struct thread thread = {.pid = 4242, .tid = 4243};
	struct line_meta meta;
	json_t *event;
	size_t len;

	take(input, thread.comm, REC_COMM_LEN);
	take(input, thread.thread, REC_COMM_LEN);
	len = encode_call(encoder, call, &thread, 1, (int64_t)call->rec->start_ns, target->line, &meta);
	if (len > ENCODE_MAX_LINE || meta.args_off + meta.args_len > len)
		abort();
	event = reference_parse(target->line, len);
	if (!event)
		abort();
	json_decref(event);
	thread_drop_prefixes(&thread);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target *target = target_get();
	struct input input = {data, size};
	static struct record record;
	struct call call;
	uint8_t choices;
	uint16_t row;

	if (size < 3 + sizeof(struct rec_call))
		return 0;
	take(&input, &choices, sizeof(choices));
	take(&input, &row, sizeof(row));
	row %= table_nrows;
	record_begin(&record, target->plans, row);
	if (choices & RAW)
		fill_raw(&record, &input, row);
	else
		fill_shaped(&record, &input, row, choices);
	if (decode_call(target->plans, record_call(&record), record.size, &call) == 0)
		check(target, target->encoders[choices / 8 % NENCODERS], &call, &input);
	return 0;
}
