// SPDX-License-Identifier: GPL-2.0-only
/*
 * laws MAPPING: what holds of blocks, choices and cosets, frame by frame.
 *
 * Some hundred aligned blocks of each order are looked at, with a seed of their
 * own, at the edges of regions as well.
 */
#include "read.h"

static u64 state = 0x9e3779b97f4a7c15;

static u64 random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

#define must(condition, ...)						\
	do {								\
		if (!(condition))					\
			errx(1, #condition ": " __VA_ARGS__);		\
	} while (0)

/* A block has the colors of its coset, equally many frames of each. */
static void check_block(const struct memtint_map *map, u64 pfn, unsigned int order)
{
	static unsigned int count[MEMTINT_COLORS_MAX];
	unsigned int coset = memtint_block_coset(map, pfn, order);
	unsigned int each = 0;

	if (coset == MEMTINT_COLOR_NONE) {
		bool inside = false;

		for (unsigned int i = 0; i < map->nr_regions; i++)
			inside |= pfn >= map->regions[i].first &&
				pfn + (1ULL << order) <= map->regions[i].end;
		must(!inside, "pfn %#llx order %u", (unsigned long long)pfn, order);
		return;
	}
	must(coset < map->nr_colors[order], "coset %u order %u", coset, order);
	memset(count, 0, sizeof(count));
	for (u64 frame = pfn; frame < pfn + (1ULL << order); frame++) {
		must(memtint_color(map, frame) < map->nr_colors[0], "frame %#llx",
		     (unsigned long long)frame);
		count[memtint_color(map, frame)]++;
	}
	for (unsigned int color = 0; color < map->nr_colors[0]; color++) {
		bool in_coset = map->coset[order][color] == coset;

		must(in_coset == !!count[color], "pfn %#llx order %u color %u",
		     (unsigned long long)pfn, order, color);
		if (!in_coset)
			continue;
		must(!each || each == count[color], "pfn %#llx order %u color %u",
		     (unsigned long long)pfn, order, color);
		each = count[color];
	}
}

/* A choice meets a block when a frame of it is chosen; blocks are chosen when all their frames are. */
static void check_choice(const struct memtint_map *map, u64 pfn, unsigned int order)
{
	static struct memtint_choice choice, blocks;
	u64 classes[MEMTINT_COLOR_WORDS], sets[MEMTINT_COLOR_WORDS];
	unsigned int coset = memtint_block_coset(map, pfn, order);
	bool by_class = random_number() & 1, by_set = random_number() & 1;
	unsigned int density = random_number() % 3;
	bool any = false, all = true;

	for (unsigned int i = 0; i < MEMTINT_COLOR_WORDS; i++) {
		classes[i] = sets[i] = random_number();
		for (unsigned int j = 0; j < density; j++) {
			classes[i] |= random_number();
			sets[i] &= random_number();
		}
	}
	if (!memtint_choose(map, by_class ? classes : NULL, by_set ? sets : NULL, &choice)) {
		for (unsigned int color = 0; color < map->nr_colors[0]; color++)
			must(!memtint_chosen(&choice, color), "color %u of none", color);
		return;
	}
	if (coset == MEMTINT_COLOR_NONE)
		return;
	for (u64 frame = pfn; frame < pfn + (1ULL << order); frame++) {
		unsigned int color = memtint_color(map, frame);
		unsigned int class = memtint_bank_class(map, color);
		unsigned int set = memtint_set_color(map, color);
		bool wanted = (!by_class || (classes[class / 64] >> (class % 64) & 1)) &&
			(!by_set || (sets[set / 64] >> (set % 64) & 1));

		must(memtint_chosen(&choice, color) == wanted, "frame %#llx",
		     (unsigned long long)frame);
		any |= wanted;
		all &= wanted;
	}
	must(memtint_word_bit(choice.want[order], coset) == any, "pfn %#llx order %u",
	     (unsigned long long)pfn, order);
	memtint_choose_blocks(map, &choice, order, &blocks);
	must(memtint_word_bit(blocks.want[order], coset) == all, "pfn %#llx order %u",
	     (unsigned long long)pfn, order);
}

static u64 random_frame(const struct memtint_map *map)
{
	const struct memtint_region *region = &map->regions[random_number() % map->nr_regions];
	u64 frames = region->end - region->first;

	switch (random_number() % 8) {
	case 0:
		return region->first;
	case 1:
		return region->end - 1;
	case 2:
		return region->end;
	default:
		return region->first + random_number() % frames;
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "usage: laws MAPPING");
	const struct memtint_map *map = map_read(argv[1]);

	for (unsigned int order = 0; order <= geometry.max_order; order++) {
		for (unsigned int i = 0; i < 60; i++) {
			u64 pfn = random_frame(map) >> order << order;

			check_block(map, pfn, order);
			check_choice(map, pfn, order);
		}
	}
	return 0;
}
