// SPDX-License-Identifier: GPL-2.0-only
/*
 * blocks MAPPING CLASSES: fills memory that may be in large blocks, forks and
 * writes to a copy, gives a part back, and prints how many of its pages lie in
 * blocks of several ("huge") and how many in other classes ("wrong").
 *
 * blocks MAPPING CLASSES collapse|khugepaged: fills memory with single pages,
 * has them made huge, by a call or by waiting for SECONDS, and prints the same.
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

#define BYTES (8UL << 20)
#define ALIGN (2UL << 20)
#define SECONDS 20
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static struct mapping mapping;
static struct wanted wanted;

/* Looks at all pages, and whether the memory is as it was filled. */
static void look(const char *when, const unsigned char *memory, size_t bytes, unsigned char filled)
{
	struct tally tally = pages_of(getpid(), &mapping, &wanted, 3);

	for (size_t at = 0; at < bytes; at++)
		if (memory[at] != filled)
			errx(1, "%s: byte %zu is not as written", when, at);
	printf("%s huge %lu wrong %lu\n", when, tally.huge, tally.anonymous_wrong);
	fflush(stdout);
}

static void make_huge(unsigned char *memory, bool by_call)
{
	if (madvise(memory, BYTES, MADV_NOHUGEPAGE))
		err(2, "MADV_NOHUGEPAGE");
	memset(memory, 1, BYTES);
	look("filled", memory, BYTES, 1);
	if (madvise(memory, BYTES, MADV_HUGEPAGE))
		err(2, "MADV_HUGEPAGE");
	/* Where it fails, the pages tell. */
	if (by_call)
		madvise(memory, BYTES, MADV_COLLAPSE);
	for (int i = 0; !by_call && i < SECONDS && !pages_of(getpid(), &mapping, &wanted, 3).huge; i++)
		sleep(1);
	look("collapsed", memory, BYTES, 1);
}

int main(int argc, char **argv)
{
	unsigned char *memory;
	int status;

	if (argc != 3 && argc != 4)
		errx(2, "blocks MAPPING CLASSES [collapse|khugepaged]");
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	memory = mmap(NULL, BYTES + ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		err(2, "mmap");
	memory += -(size_t)memory & (ALIGN - 1);
	if (argc == 4) {
		make_huge(memory, !strcmp(argv[3], "collapse"));
		return 0;
	}
	if (madvise(memory, BYTES, MADV_HUGEPAGE))
		err(2, "MADV_HUGEPAGE");
	memset(memory, 1, BYTES);
	look("filled", memory, BYTES, 1);
	if (fork() == 0) {
		memset(memory, 2, BYTES);
		look("copied", memory, BYTES, 2);
		return 0;
	}
	wait(&status);
	/* Every second page of a half, so that blocks have to be split. */
	for (size_t at = 0; at < BYTES / 2; at += 2 * sysconf(_SC_PAGESIZE))
		madvise(memory + at, sysconf(_SC_PAGESIZE), MADV_DONTNEED);
	memset(memory, 3, BYTES);
	look("torn", memory, BYTES, 3);
	return status != 0;
}
