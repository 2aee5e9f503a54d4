// SPDX-License-Identifier: GPL-2.0-only
/*
 * colors MAPPING: for each frame number on standard input, a line with its bank
 * class, set color and node, or "-" where the mapping has no memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mapping.h"

int main(int argc, char **argv)
{
	uint64_t pfn;

	if (argc != 2) {
		fprintf(stderr, "usage: colors MAPPING\n");
		return 2;
	}
	struct mapping mapping = mapping_read(argv[1]);

	printf("%u %u\n", mapping_classes(&mapping), mapping.set.cosets);
	while (scanf("%" SCNu64, &pfn) == 1) {
		struct color color;

		if (mapping_color(&mapping, pfn, &color))
			printf("%u %u %u\n", color.bank_class, color.set_color, color.node);
		else
			printf("-\n");
	}
	free(mapping.bank.coset);
	free(mapping.set.coset);
	return 0;
}
