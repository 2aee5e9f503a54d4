// SPDX-License-Identifier: GPL-2.0-only
/*
 * kernel_colors MAPPING: what guest/colors.c prints, by the kernel's arithmetic.
 */
#include <inttypes.h>

#include "read.h"

static void print_color(const struct memtint_map *map, u64 pfn)
{
	unsigned int color = memtint_color(map, pfn);

	if (color == MEMTINT_COLOR_NONE) {
		printf("-\n");
		return;
	}
	for (unsigned int i = 0; i < map->nr_regions; i++)
		if (pfn >= map->regions[i].first && pfn < map->regions[i].end)
			printf("%u %u %u\n", memtint_bank_class(map, color),
			       memtint_set_color(map, color), map->regions[i].node);
}

int main(int argc, char **argv)
{
	u64 pfn;

	if (argc != 2)
		errx(2, "usage: kernel_colors MAPPING");
	const struct memtint_map *map = map_read(argv[1]);

	printf("%u %u\n", memtint_bank_classes(map), memtint_set_colors(map));
	while (scanf("%" SCNu64, &pfn) == 1)
		print_color(map, pfn);
	return 0;
}
