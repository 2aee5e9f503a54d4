/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the pages of a process are, read from /proc/PID/pagemap and
 * /proc/kpageflags, and whether their bank classes are wanted ones.
 */
#ifndef MEMTINT_PAGES_H
#define MEMTINT_PAGES_H

#include <stdint.h>
#include <sys/types.h>

#include "mapping.h"

/* Bank classes that a test wants; bit c % 64 of word c / 64. */
struct wanted {
	uint64_t class[1024 / 64];
};

struct tally {
	unsigned long anonymous;	/* present private pages, the zero page left out */
	unsigned long anonymous_wrong;	/* of these, in another class */
	unsigned long huge;		/* of these, parts of huge pages */
	unsigned long file;		/* present pages of files, those of tmpfs too */
	unsigned long file_wrong;
	unsigned long own_file;		/* of the pages of files, mapped by nobody else */
	unsigned long own_file_wrong;
	unsigned long zero;		/* the page of zeros, in any class */
	unsigned long swapped;
	unsigned long nowhere;		/* in memory that the mapping does not have */
};

/* Reads a list like 0-3,8 or "all"; ends the program when it is none. */
struct wanted wanted_read(const char *list, uint32_t classes);
bool is_wanted(const struct wanted *wanted, uint32_t class);

/* Gives the frame of an address; 0 when it is not present. */
uint64_t frame_of(pid_t pid, const void *address);
/* Gives the entry of pagemap of a page of this process that is in use; of one that is being moved, the one after it. */
uint64_t own_entry(int pagemap, const char *page);
/* The same, and the frame alone. */
uint64_t own_frame(const char *page);
/* Looks at every page; the first `to_tell` wrong private ones are printed as "# ..." lines. */
struct tally pages_of(pid_t pid, const struct mapping *mapping, const struct wanted *wanted, unsigned int to_tell);
/* The same of this process, which has read again what was in swap when there were fewer private ones than `pages`. */
struct tally own_pages(unsigned long pages, const struct mapping *mapping, const struct wanted *wanted,
		       unsigned int to_tell);

#endif
