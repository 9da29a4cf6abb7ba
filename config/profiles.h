/*
 * Profiles: maps of keys that are merged over the rest of a configuration
 * (tree_merge()), at most one of them at a time.
 */
#ifndef CUDATAP_CONFIG_PROFILES_H
#define CUDATAP_CONFIG_PROFILES_H

#include "tree.h"

#define PROFILES_MAX 32

struct profile {
	const struct node *name;    /* its key */
	const struct node *own;     /* what it says itself, without `extends` */
	const struct node *extends; /* scalar; NULL: it extends the base */
	int parent;                 /* index of what it extends; -1: the base */
	bool extended;              /* another one extends it: it need not be complete */
	int state;                  /* of profiles_read() */
	bool read;                  /* for who reads them */
	const struct node *whole;   /* base and all profiles it extends and itself; NULL: too large */
};

struct profiles {
	const struct node *base; /* without profiles and what chooses among them */
	const struct node *map;  /* `profiles`; NULL: there is none */
	const struct node *wish; /* `profile`; NULL: none */
	struct profile list[PROFILES_MAX];
	size_t n;
};

/**
 * profiles_read - takes a configuration apart and merges each profile
 * @root: all of the configuration
 * Unknown and circular `extends` are reported; such a profile then extends the base.
 * Returns 0 or -ENOMEM.
 */
int profiles_read(struct profiles *profiles, struct tree *tree, const struct node *root,
		  struct errors *errors);

/**
 * profiles_find - the profile of that name
 * @mark: who wants it, for the message
 * Returns its index, or -ENOENT after a message.
 */
int profiles_find(const struct profiles *profiles, const char *name, const struct mark *mark,
		  struct errors *errors);

#endif
