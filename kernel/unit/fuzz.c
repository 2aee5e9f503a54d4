// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzz target of the parser, by the rules of LLVM's fuzzer.
 *
 * The form is canonical: what is accepted says the same when printed again, byte
 * for byte. What is refused names a line of the text, or the one after it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "color.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct memtint_geometry geometry = { .page_shift = 12, .max_order = 10 };

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

struct printer {
	char text[MEMTINT_TEXT_MAX + 256];
	size_t length;
};

__attribute__((format(printf, 2, 3)))
static void print(struct printer *printer, const char *format, ...)
{
	size_t room = sizeof(printer->text) - printer->length;
	va_list arguments;

	va_start(arguments, format);
	int printed = vsnprintf(printer->text + printer->length, room, format, arguments);

	va_end(arguments);
	must(printed >= 0 && (size_t)printed < room, "it prints longer than a text can be");
	printer->length += printed;
}

static void print_map(struct printer *printer, const struct memtint_map *map)
{
	printer->length = 0;
	print(printer, "memtint-map 1\ngranule %" PRIu64 "\n", (u64)1 << map->granule_shift);
	for (unsigned int i = 0; i < map->nr_regions; i++) {
		const struct memtint_region *region = &map->regions[i];

		print(printer, "region 0x%" PRIx64 "-0x%" PRIx64 " node %u\n",
		      region->first << 12, region->end << 12, region->node);
		if (region->shift >> 63)
			print(printer, "offset -0x%" PRIx64 "\n", -region->shift << 12);
		else if (region->shift)
			print(printer, "offset 0x%" PRIx64 "\n", region->shift << 12);
		for (unsigned int bank = 0; bank < map->nr_banks; bank++)
			print(printer, "bank 0x%" PRIx64 "\n", map->bank[bank]);
		for (unsigned int set = 0; set < map->nr_sets; set++)
			print(printer, "set 0x%" PRIx64 "\n", map->set[set]);
	}
	print(printer, "end\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct printer printer;
	static struct memtint_map map;
	struct memtint_fault fault = { 0 };
	unsigned int lines = 0;
	/* Of just this size, so that a look behind the end is seen. */
	char *text = malloc(size ? size : 1);

	must(text, "no memory");
	memcpy(text, data, size);
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	if (memtint_map_parse(&map, text, size, &geometry, &fault)) {
		must(fault.reason && !strchr(fault.reason, '\n'), "a fault has a reason, on a line");
		must(fault.line >= 1 && fault.line <= lines + 1, "a fault has a line");
		free(text);
		return 0;
	}
	print_map(&printer, &map);
	must(printer.length == size && !memcmp(printer.text, data, size), "it says something else when printed");
	must(map.nr_colors[0] >= 2 && map.nr_colors[0] <= MEMTINT_COLORS_MAX, "number of colors");
	for (unsigned int i = 0; i < map.nr_regions; i++) {
		must(memtint_color(&map, map.regions[i].first) < map.nr_colors[0], "first frame");
		must(memtint_color(&map, map.regions[i].end - 1) < map.nr_colors[0], "last frame");
	}
	must(memtint_color(&map, map.regions[map.nr_regions - 1].end) == MEMTINT_COLOR_NONE, "behind the end");
	must(memtint_color(&map, UINT64_MAX) == MEMTINT_COLOR_NONE, "far behind the end");
	free(text);
	return 0;
}
