// SPDX-License-Identifier: GPL-2.0-only
/*
 * cma MAPPING CLASSES AREA colored|uncolored: uses much of the free memory of
 * a quarter of the classes, or of all, and looks how much of it lies in an area
 * of the contiguous memory allocator, AREA in debugfs. Without colors much does; then
 * all of the area is allocated, and what lay there must have moved, and be as
 * it was. "ok - WAY" or "not ok - WAY # reason".
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scenario.h"

#define TASK "/sys/kernel/debug/memtint/task"

static uint64_t first, frames;
static const char *area;

/* A number that is all there is in a file of the area. */
static uint64_t number_in(const char *name)
{
	char path[256];
	unsigned long number;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", area, name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%lu", &number) != 1)
		err(2, "%s", path);
	fclose(file);
	return number;
}

static size_t pages_in_area(const char *start, size_t bytes)
{
	size_t found = 0;

	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		uint64_t frame = frame_of(getpid(), start + at);

		found += frame >= first && frame < first + frames;
	}
	return found;
}

/* Colored pages move only where there is room in their colors: they would be in the way of who needs the area. */
static bool colored(const char *classes)
{
	size_t bytes = number_of("/proc/meminfo", "MemFree:") * 1024 / 8;
	char policy[600], *start;
	size_t inside;

	snprintf(policy, sizeof(policy), "strict %s", classes);
	if (!write_to(TASK, policy))
		return false;
	start = memory(bytes);
	fill(start, bytes, 1);
	inside = pages_in_area(start, bytes);
	return all_in_color(bytes / PAGE_BYTES) && (!inside || because("%zu pages lie in the area", inside));
}

static bool uncolored(void)
{
	size_t bytes = number_of("/proc/meminfo", "MemFree:") * 1024 / 8 * 5, inside;
	char *start = memory(bytes), path[256], count[32];

	fill(start, bytes, 2);
	inside = pages_in_area(start, bytes);
	printf("# %zu of %lu pages of the area are in use\n", inside, frames);
	if (inside < frames / 8)
		return because("only %zu pages lie in the area", inside);
	snprintf(path, sizeof(path), "%s/alloc", area);
	snprintf(count, sizeof(count), "%lu", frames);
	if (!write_to(path, count))
		return false;
	if (number_in("used") != frames)
		return because("%lu pages of the area are allocated", number_in("used"));
	inside = pages_in_area(start, bytes);
	return is_filled(start, bytes, 2) && (!inside || because("%zu pages lie in the area still", inside));
}

int main(int argc, char **argv)
{
	bool well;

	if (argc != 5)
		errx(2, "usage: cma MAPPING CLASSES AREA colored|uncolored");
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	area = argv[3];
	first = number_in("base_pfn");
	frames = number_in("count");
	well = strcmp(argv[4], "colored") ? uncolored() : colored(argv[2]);
	printf(well ? "ok - %s\n" : "not ok - %s # %s\n", argv[4], reason);
	return !well;
}
