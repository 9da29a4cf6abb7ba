/* What both halves of the format "ecs" share. */
#ifndef CUDATAP_ECS_H
#define CUDATAP_ECS_H

#include "escape.h"
#include "format.h"

#define ECS_VERSION   "8.17.0"
#define ECS_MAX_LABEL 255

/** ecs_label - the name of a constant field as a label: dots, which would make objects, become "_" */
static inline void ecs_label(char label[ECS_MAX_LABEL + 1], const char *name)
{
	size_t i = 0;

	for (; i < ECS_MAX_LABEL && name[i]; i++)
		label[i] = name[i] == '.' ? '_' : name[i];
	label[i] = '\0';
}

#endif
