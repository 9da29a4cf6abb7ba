/*
 * Prints the API table as one JSON document, for tests/test_table.py.
 * Types, structures and enumerations are referred to by their index.
 */
#include "../streamer/table/table.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const kinds[] = {"void",   "hex",  "int",    "uint",  "float", "enum",
				    "struct", "dim3", "string", "chars", "bytes", "union"};
static const char *const wheres[] = {"reg", "stack", "ref", "stackref", "unreadable"};
static const char *const derefs[] = {"", "in", "out"};
static const char *const rets[] = {"status", "pointer", "string", "void", "value", "sret"};

static void text(const char *key, const char *value)
{
	printf("\"%s\":\"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	putchar('"');
}

static void types(void)
{
	printf("\"types\":[");
	for (unsigned i = 0; i < table_ntypes; i++) {
		const struct table_type *t = &table_types[i];

		printf("%s{", i ? "," : "");
		text("name", t->name);
		printf(",\"kind\":\"%s\",\"size\":%u,\"ref\":%u}", kinds[t->kind], t->size, t->ref);
	}
	printf("]");
}

static void field(const struct table_field *f)
{
	printf("{");
	text("name", f->name);
	printf(",\"type\":%u,\"offset\":%u,\"count\":%u}", f->type, f->offset, f->count);
}

static void unions(void)
{
	printf(",\"unions\":[");
	for (unsigned i = 0; i < table_nunions; i++) {
		const struct table_union *u = &table_unions[i];

		printf("%s{", i ? "," : "");
		text("name", u->name);
		printf(",\"tag\":%u,\"variants\":[", u->tag);
		for (unsigned j = 0; j < u->count; j++) {
			const struct table_variant *v = &table_variants[u->first + j];

			printf("%s{\"value\":%d,\"field\":", j ? "," : "", v->value);
			field(&table_fields[v->field]);
			printf("}");
		}
		printf("]}");
	}
	printf("]");
}

static void structs(void)
{
	printf(",\"structs\":[");
	for (unsigned i = 0; i < table_nstructs; i++) {
		const struct table_struct *s = &table_structs[i];

		printf("%s{", i ? "," : "");
		text("name", s->name);
		printf(",\"size\":%u,\"fields\":[", s->size);
		for (unsigned j = 0; j < s->count; j++) {
			printf("%s", j ? "," : "");
			field(&table_fields[s->first + j]);
		}
		printf("]}");
	}
	printf("]");
}

static void enums(void)
{
	printf(",\"enums\":[");
	for (unsigned i = 0; i < table_nenums; i++) {
		const struct table_enum *e = &table_enums[i];

		printf("%s{", i ? "," : "");
		text("name", e->name);
		printf(",\"values\":[");
		for (unsigned j = 0; j < e->count; j++)
			printf("%s[\"%s\",%" PRId64 "]", j ? "," : "", table_enumerators[e->first + j].name,
			       table_enumerators[e->first + j].value);
		printf("]}");
	}
	printf("]");
}

static void params(const struct table_row *row)
{
	printf(",\"params\":[");
	for (unsigned i = 0; i < row->nparams; i++) {
		const struct table_param *p = &table_params[row->param + i];

		printf("%s{", i ? "," : "");
		text("name", p->name);
		printf(",\"type\":%u,\"deref\":\"%s\",\"pointee\":%u,\"count\":%d,\"count_is_pointer\":%d,"
		       "\"places\":[",
		       p->type, derefs[p->deref], p->pointee, p->count == TABLE_NONE ? -1 : p->count,
		       p->count_is_pointer);
		for (unsigned abi = 0; abi < TABLE_NABIS; abi++)
			printf("%s[\"%s\",%u,%u]", abi ? "," : "", wheres[p->place[abi].where],
			       p->place[abi].index, p->place[abi].words);
		printf("]}");
	}
	printf("]");
}

static void rows(void)
{
	printf(",\"rows\":[");
	for (unsigned i = 0; i < table_nrows; i++) {
		const struct table_row *row = &table_rows[i];

		printf("%s{", i ? "," : "");
		text("symbol", row->symbol);
		printf(",");
		text("func", row->func);
		printf(",\"api\":%u,", row->api);
		text("family", table_families[row->family].name);
		printf(",\"majors\":%u,\"ret\":\"%s\",\"ret_type\":%u,\"flags\":%u", row->majors,
		       rets[row->ret], row->ret_type, row->flags);
		params(row);
		printf(",\"keys\":[");
		for (unsigned j = 0; j < row->nkeys; j++)
			printf("%s%u", j ? "," : "", table_keys[row->key + j].key);
		printf("],\"twins\":[");
		for (unsigned j = 0; j < row->ntwins; j++)
			printf("%s\"%s\"", j ? "," : "", table_twins[row->twin + j]);
		printf("]}");
	}
	printf("]");
}

static void errors(void)
{
	printf(",\"errors\":[");
	for (unsigned api = 0; api < TABLE_NAPIS; api++) {
		printf("%s[", api ? "," : "");
		for (unsigned i = 0; i < table_nerrors[api]; i++) {
			const struct table_error *e = &table_errors[api][i];

			printf("%s{\"code\":%d,", i ? "," : "", e->code);
			text("name", e->name);
			printf(",");
			text("message", e->message);
			printf("}");
		}
		printf("]");
	}
	printf("]");
}

int main(void)
{
	printf("{");
	types();
	structs();
	unions();
	enums();
	rows();
	errors();
	printf("}\n");
	return 0;
}
