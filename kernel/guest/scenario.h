/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What programs share that use memory in some way and look where it is.
 */
#ifndef MEMTINT_SCENARIO_H
#define MEMTINT_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

#include "pages.h"

#define MIB (1UL << 20)

extern struct mapping mapping;
extern struct wanted wanted;
/* Why the last one gave up. */
extern char reason[256];

/* Gives up: false, with a reason. */
__attribute__((format(printf, 1, 2)))
bool because(const char *format, ...);

char *memory(size_t bytes);
/* Every page gets a number of its own, so that a page in two places is seen. */
void fill(char *start, size_t bytes, uint64_t number);
bool is_filled(const char *start, size_t bytes, uint64_t number);
/* At least this many private pages, and all of them in color. */
bool all_in_color(unsigned long pages);
bool write_to(const char *path, const char *text);
/* A number of a file with a line "NAME NUMBER", -1 without one; the file may be long in coming. */
long number_of(const char *path, const char *name);

/* Waits for a child: anything else than status 0 is a reason. */
bool child_was_well(pid_t child);
/* In a child: it is not left behind by a parent who gives up. */
void end_with_parent(void);
/* In a child: ends it, after telling why it is not well. */
void child_end(bool well);

#endif
