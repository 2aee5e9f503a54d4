/* SPDX-License-Identifier: GPL-2.0-only */
/* Reads a mapping with the kernel's parser; ends the program with its reason. */
#ifndef MEMTINT_UNIT_READ_H
#define MEMTINT_UNIT_READ_H

#include <err.h>
#include <stdio.h>

#include "color.h"

/* The geometry of x86: pages of 4 KiB, free blocks up to 4 MiB. */
static const struct memtint_geometry geometry = { .page_shift = 12, .max_order = 10 };

static inline const struct memtint_map *map_read(const char *path)
{
	static struct memtint_map map;
	static char text[MEMTINT_TEXT_MAX + 1];
	struct memtint_fault fault;
	FILE *file = fopen(path, "r");

	if (!file)
		err(2, "%s", path);
	size_t length = fread(text, 1, sizeof(text), file);

	if (memtint_map_parse(&map, text, length, &geometry, &fault))
		errx(1, "%s: line %u: %s", path, fault.line, fault.reason);
	fclose(file);
	return &map;
}

#endif
