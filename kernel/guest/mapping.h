/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Colors of frames, worked out apart from the kernel and from crates/map.
 *
 * Where they reduce matrices over GF(2), this numbers the cosets by hand: all
 * vectors of function values in ascending order, and with each new one, by
 * flooding, every vector that differs from it by what address bits inside a
 * granule do. Reads the mapping object that `memtint palette --kernel` prints;
 * it is no judge of wrong ones, but stops at what it does not understand.
 */
#ifndef MEMTINT_MAPPING_H
#define MEMTINT_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_SHIFT 12
#define PAGE_BYTES (1UL << PAGE_SHIFT)

struct functions {
	uint64_t mask[20];
	unsigned int count;
	uint32_t *coset;	/* of each vector of values */
	uint32_t cosets;
};

struct region {
	uint64_t first;
	uint64_t end;
	uint64_t offset;	/* modulo 2^64 */
	unsigned int node;
};

struct mapping {
	uint64_t granule;
	struct region region[32];
	unsigned int regions;
	struct functions bank;
	struct functions set;
};

struct color {
	uint32_t bank_class;
	uint32_t set_color;
	unsigned int node;
};

/* Reads a mapping; ends the program with a message when it cannot. */
struct mapping mapping_read(const char *path);
/* Gives a frame's color; false outside every region. */
bool mapping_color(const struct mapping *mapping, uint64_t pfn, struct color *color);
/* Counts the bank classes of all nodes. */
uint32_t mapping_classes(const struct mapping *mapping);

#endif
