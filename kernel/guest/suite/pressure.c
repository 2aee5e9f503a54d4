// SPDX-License-Identifier: GPL-2.0-only
/*
 * pressure MAPPING CLASSES MIB [COVETED]: writes and reads so much memory
 * twice, whatever has to be swapped out for it, and looks whether it is as
 * written and in its classes. With classes that others covet, its memory lies
 * evenly on all nodes, it tells how many pages it has in them, and keeps its
 * memory until it is killed.
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pages.h"

#define ROUNDS 2

/* A node that is full would wake kswapd, which knows no colors and fills the swap space. */
static void interleave(void)
{
	/* The first four: those that are not there are left out. */
	unsigned long nodes = 0xf;

	if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 8 * sizeof(nodes)))
		err(2, "set_mempolicy");
}

int main(int argc, char **argv)
{
	struct mapping mapping;
	struct wanted wanted;
	struct tally tally;
	size_t bytes, page = sysconf(_SC_PAGESIZE), wrong = 0;
	char *memory;

	if (argc < 4)
		errx(2, "pressure MAPPING CLASSES MIB [COVETED]");
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	bytes = strtoul(argv[3], NULL, 10) << 20;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		err(2, "mmap");
	if (argc > 4)
		interleave();
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t at = 0; at < bytes; at += page)
			*(size_t *)(memory + at) = at + round;
		for (size_t at = 0; at < bytes; at += page)
			wrong += *(size_t *)(memory + at) != at + round;
	}
	tally = pages_of(getpid(), &mapping, &wanted, 3);
	printf("%s - %s MiB", wrong || tally.anonymous_wrong ? "not ok" : "ok", argv[3]);
	if (wrong || tally.anonymous_wrong)
		printf(" # %zu of %zu words wrong, %lu of %lu pages in other classes", wrong, bytes / page,
		       tally.anonymous_wrong, tally.anonymous);
	printf("\n# of %s MiB, %lu pages are swapped out\n", argv[3], tally.swapped);
	if (argc > 4) {
		wanted = wanted_read(argv[4], mapping_classes(&mapping));
		/* Once before, so that what it takes to look and to tell is there. */
		tally = pages_of(getpid(), &mapping, &wanted, 0);
		printf("# %lu pages\n", tally.anonymous);
		fflush(stdout);
		tally = pages_of(getpid(), &mapping, &wanted, 0);
		printf("coveted %lu\n", tally.anonymous - tally.anonymous_wrong);
		fflush(stdout);
		pause();
	}
	return wrong || tally.anonymous_wrong;
}
