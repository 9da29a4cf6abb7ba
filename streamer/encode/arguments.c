/* A call's `args` and `out`. */
#include "keys.h"

/* A value that was read, or that is no scalar. Returns whether it was there to be written. */
static bool write_read(struct writer *w, const struct param_fragments *text, int where,
		       const struct call_value *value, bool array)
{
	char *start = w->p, *after_key = put_fragment(w->p, w->f->text, text->key[where]);

	w->cut = false;
	w->p = after_key;
	write_value(w, value, array);
	if (w->p == after_key)
		w->p = start;
	else
		w->p = put_member_close(w->p, w->f->dialect);
	if (w->cut)
		w->p = put_fragment(w->p, w->f->text, text->cut[where]);
	return w->p != start;
}

static void write_passed(struct writer *w, const struct param_fragments *text, const struct call_value *value)
{
	const struct table_type *type = &table_types[value->type];

	if (value->len < type->size || !values_scalar_max(w->f, type)) {
		write_read(w, text, FRAGMENTS_IN_ARGS, value, false);
		return;
	}
	w->p = put_fragment(w->p, w->f->text, text->key[FRAGMENTS_IN_ARGS]);
	w->p = put_scalar(w->p, w->f, type, value->data);
	w->p = put_member_close(w->p, w->f->dialect);
}

/* Its room is reserved. */
static void write_redacted(struct writer *w, const struct param_fragments *text, int where)
{
	w->p = put_fragment(w->p, w->f->text, text->key[where]);
	w->p = put_bytes(w->p, w->f->dialect->redacted, strlen(w->f->dialect->redacted));
	w->p = put_member_close(w->p, w->f->dialect);
}

/* Members each bring a comma in front: the first one becomes the brace. */
static void close_object(struct writer *w, char *start, char *members)
{
	if (!w->f->dialect->nested_args)
		return;
	if (w->p == members) {
		w->p = start;
		return;
	}
	*members = '{';
	*w->p++ = '}';
}

static void write_args(struct writer *w, const struct call *call)
{
	const struct table_param *param = &table_params[call->row->param];
	const struct param_fragments *text = &w->f->params[call->row->param];
	char *start = w->p, *members = put_fragment(w->p, w->f->text, w->f->open[FIELD_ARGS]);

	w->p = members;
	for (unsigned i = 0; i < call->row->nparams && i < DECODE_MAX_PARAMS; i++) {
		if (text[i].redacted) {
			if (call->arg[i].data || (param[i].deref == TABLE_IN && call->in[i].data))
				write_redacted(w, &text[i], FRAGMENTS_IN_ARGS);
			continue;
		}
		/* a pointee takes the place of its address */
		if (param[i].deref == TABLE_IN && call->in[i].data &&
		    write_read(w, &text[i], FRAGMENTS_IN_ARGS, &call->in[i], param[i].count != TABLE_NONE))
			continue;
		if (call->arg[i].data)
			write_passed(w, &text[i], &call->arg[i]);
	}
	close_object(w, start, members);
}

/* What functions return that return no status. */
static void write_return(struct writer *w, const struct call *call)
{
	const struct table_type *type = &table_types[call->row->ret_type];
	const struct table_row *row = call->row;
	char *start = w->p, *after_key = put_fragment(w->p, w->f->text, w->f->ret_key);

	w->cut = false;
	w->p = after_key;
	if (call->ret_string.data)
		write_value(w, &call->ret_string, false);
	else if ((row->ret == TABLE_RET_POINTER || row->ret == TABLE_RET_VALUE) &&
		 call->status != CALL_UNFINISHED && type->kind != TABLE_FLOAT && type->kind != TABLE_DIM3 &&
		 values_scalar_max(w->f, type))
		w->p = put_scalar(w->p, w->f, type, &call->rec->ret);
	if (w->p == after_key)
		w->p = start;
	else
		w->p = put_member_close(w->p, w->f->dialect);
	if (w->cut)
		w->p = put_fragment(w->p, w->f->text, w->f->ret_cut);
}

static void write_out(struct writer *w, const struct call *call)
{
	const struct table_param *param = &table_params[call->row->param];
	const struct param_fragments *text = &w->f->params[call->row->param];
	char *start = w->p, *members = put_fragment(w->p, w->f->text, w->f->open[FIELD_OUT]);

	w->p = members;
	for (unsigned i = 0; i < call->row->nparams && i < DECODE_MAX_PARAMS; i++) {
		if (param[i].deref != TABLE_OUT || !call->out[i].data)
			continue;
		if (text[i].redacted)
			write_redacted(w, &text[i], FRAGMENTS_IN_OUT);
		else
			write_read(w, &text[i], FRAGMENTS_IN_OUT, &call->out[i],
				   param[i].count != TABLE_NONE);
	}
	if (call->row->ret != TABLE_RET_STATUS)
		write_return(w, call);
	close_object(w, start, members);
}

char *write_arguments(const struct fragments *f, const struct call *call, char *p, const char *limit)
{
	struct writer w = {.f = f,
			   .limit = limit - f->rows[call->row_id].reserve - VALUES_CLOSING - PUT_SLACK};

	w.p = p;
	if (fragments_wanted(f, FIELD_ARGS))
		write_args(&w, call);
	if (fragments_wanted(f, FIELD_OUT))
		write_out(&w, call);
	return w.p;
}
