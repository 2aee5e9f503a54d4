// SPDX-License-Identifier: GPL-2.0-only
/*
 * watermarks: says "watching", looks at the free pages of each zone again and
 * again, and prints when it gets SIGTERM, for each zone that has memory and for
 * all together, the fewest there were, the min watermark, and by how much the
 * kernel's counter may be off.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ZONES 32

struct zone {
	char name[32];
	long free, least, min, present, off;
};

static struct zone zones[ZONES], all = { .name = "all" };
static char text[1 << 18];
static volatile sig_atomic_t ended;

static void end(int signal)
{
	ended = signal;
}

static void read_text(void)
{
	int file = open("/proc/zoneinfo", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got;

	if (file < 0)
		err(2, "/proc/zoneinfo");
	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	text[length] = 0;
	close(file);
}

/* The zones of the text, in its order. */
static int look(void)
{
	struct zone *zone = NULL;
	char name[32], *line, *rest = text;
	int node, count = 0;
	long number;

	read_text();
	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "Node %d, zone %31s", &node, name) == 2) {
			if (count == ZONES)
				errx(2, "more than %d zones", ZONES);
			zone = &zones[count++];
			snprintf(zone->name, sizeof(zone->name), "%d-%.20s", node, name);
			zone->off = 0;
		} else if (!zone) {
			continue;
		} else if (sscanf(line, " pages free %ld", &number) == 1) {
			zone->free = number;
		} else if (sscanf(line, " min %ld", &number) == 1) {
			zone->min = number;
		} else if (sscanf(line, " present %ld", &number) == 1) {
			zone->present = number;
		} else if (sscanf(line, " vm stats threshold: %ld", &number) == 1) {
			zone->off += number;
		}
	}
	return count;
}

static void print(const struct zone *zone)
{
	printf("%s least %ld min %ld off %ld\n", zone->name, zone->least, zone->min, zone->off);
}

int main(void)
{
	bool first = true;
	int count = 0;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(2, "mlockall");
	signal(SIGTERM, end);
	while (!ended) {
		long sum = 0;

		count = look();
		for (struct zone *zone = zones; zone < zones + count; zone++) {
			if (first || zone->free < zone->least)
				zone->least = zone->free;
			sum += zone->free;
		}
		if (first || sum < all.least)
			all.least = sum;
		if (first)
			puts("watching");
		fflush(stdout);
		first = false;
		usleep(200);
	}
	for (struct zone *zone = zones; zone < zones + count; zone++) {
		if (!zone->present)
			continue;
		all.min += zone->min;
		all.off += zone->off;
		print(zone);
	}
	print(&all);
	return 0;
}
