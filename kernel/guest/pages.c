// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include "pages.h"

#include <err.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PRESENT (1UL << 63)
#define SWAPPED (1UL << 62)
#define OF_A_FILE (1UL << 61)
#define MAPPED_ONCE (1UL << 56)
#define FRAME_MASK ((1UL << 55) - 1)

struct look {
	const struct mapping *mapping;
	const struct wanted *wanted;
	struct tally tally;
	unsigned int to_tell;
	bool fetches;		/* reads what is in swap; of this process only */
	int pagemap;
	int flags;
};

struct wanted wanted_read(const char *list, uint32_t classes)
{
	struct wanted wanted = { 0 };
	const char *at = list;

	if (classes > 1024)
		errx(2, "%u bank classes are too many", classes);
	if (!strcmp(list, "all"))
		at = NULL;
	for (uint32_t class = 0; !at && class < classes; class++)
		wanted.class[class / 64] |= 1UL << (class % 64);
	while (at && *at) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end != at && *end == '-')
			last = strtoul(end + 1, &end, 10);
		if (end == at || last < first || last >= classes || (*end && *end != ','))
			errx(2, "%s is no list of classes below %u", list, classes);
		for (unsigned long class = first; class <= last; class++)
			wanted.class[class / 64] |= 1UL << (class % 64);
		at = *end ? end + 1 : end;
	}
	return wanted;
}

bool is_wanted(const struct wanted *wanted, uint32_t class)
{
	return wanted->class[class / 64] >> (class % 64) & 1;
}

static int open_or_end(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		err(2, "%s", path);
	return file;
}

static int open_pagemap(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	return open_or_end(path);
}

/* The number in a file of 64-bit numbers; 0 behind its end. */
static uint64_t number_at(int file, uint64_t index)
{
	uint64_t number = 0;

	if (pread(file, &number, sizeof(number), index * sizeof(number)) < 0)
		err(2, "number %#lx", index);
	return number;
}

uint64_t frame_of(pid_t pid, const void *address)
{
	int pagemap = open_pagemap(pid);
	uint64_t entry = number_at(pagemap, (uint64_t)address / PAGE_BYTES);

	close(pagemap);
	return entry & PRESENT ? entry & FRAME_MASK : 0;
}

uint64_t own_entry(int pagemap, const char *page)
{
	uint64_t entry = 0;

	for (int tries = 0; tries < 100 && !(entry & PRESENT); tries++) {
		/* Waits until it has been moved. */
		if (tries)
			*(const volatile char *)page;
		entry = number_at(pagemap, (uint64_t)page / PAGE_BYTES);
	}
	return entry;
}

uint64_t own_frame(const char *page)
{
	int pagemap = open_pagemap(getpid());
	uint64_t entry = own_entry(pagemap, page);

	close(pagemap);
	return entry & PRESENT ? entry & FRAME_MASK : 0;
}

static void tell(struct look *look, const char *name, uint64_t address, uint64_t frame, uint32_t class)
{
	if (!look->to_tell)
		return;
	look->to_tell--;
	printf("# %s %#lx: frame %#lx has class %u, flags %#lx\n", name, address, frame, class,
	       number_at(look->flags, frame));
}

static void look_at_page(struct look *look, const char *name, uint64_t address, uint64_t entry)
{
	struct tally *tally = &look->tally;
	uint64_t frame = entry & FRAME_MASK, flags;
	struct color color;
	bool wrong;

	if (entry & SWAPPED && look->fetches)
		(void)*(const volatile char *)address;
	if (entry & SWAPPED)
		tally->swapped++;
	if (!(entry & PRESENT))
		return;
	if (!frame)
		errx(2, "frame numbers are hidden: this wants privileges");
	flags = number_at(look->flags, frame);
	if (flags >> KPF_ZERO_PAGE & 1) {
		tally->zero++;
		return;
	}
	if (!mapping_color(look->mapping, frame, &color)) {
		tally->nowhere++;
		return;
	}
	wrong = !is_wanted(look->wanted, color.bank_class);
	/* The flags may be those of somebody else by now, who has been given the frame; the entry was read together with it. */
	if (!(entry & OF_A_FILE) && flags >> KPF_ANON & 1) {
		tally->anonymous++;
		tally->anonymous_wrong += wrong;
		tally->huge += flags >> KPF_THP & 1;
		if (wrong)
			tell(look, name, address, frame, color.bank_class);
	} else {
		bool own = entry & MAPPED_ONCE;

		tally->file++;
		tally->file_wrong += wrong;
		tally->own_file += own;
		tally->own_file_wrong += own && wrong;
	}
}

static void look_at_area(struct look *look, const char *name, uint64_t first, uint64_t end)
{
	uint64_t entries[512];

	while (first < end) {
		uint64_t pages = (end - first) / PAGE_BYTES;
		size_t asked = (pages < 512 ? pages : 512) * sizeof(entries[0]);
		ssize_t got = pread(look->pagemap, entries, asked, first / PAGE_BYTES * sizeof(entries[0]));

		if (got < (ssize_t)sizeof(entries[0]))
			err(2, "pagemap at %#lx", first);
		for (unsigned long i = 0; i < got / sizeof(entries[0]); i++)
			look_at_page(look, name, first + i * PAGE_BYTES, entries[i]);
		first += got / sizeof(entries[0]) * PAGE_BYTES;
	}
}

static void look_at_process(struct look *look, pid_t pid)
{
	char path[64], line[512];
	FILE *maps;

	look->pagemap = open_pagemap(pid);
	look->flags = open_or_end("/proc/kpageflags");
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), maps)) {
		char name[256] = "anonymous";
		uint64_t first, end;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %255s", &first, &end, name) < 2)
			errx(2, "%s: %s", path, line);
		/* The kernel's own pages. */
		if (strcmp(name, "[vsyscall]") && strcmp(name, "[vdso]") && strncmp(name, "[vvar", 5))
			look_at_area(look, name, first, end);
	}
	fclose(maps);
	close(look->pagemap);
	close(look->flags);
}

struct tally pages_of(pid_t pid, const struct mapping *mapping, const struct wanted *wanted, unsigned int to_tell)
{
	struct look look = { .mapping = mapping, .wanted = wanted, .to_tell = to_tell };

	look_at_process(&look, pid);
	return look.tally;
}

struct tally own_pages(unsigned long pages, const struct mapping *mapping, const struct wanted *wanted,
		       unsigned int to_tell)
{
	struct tally tally = pages_of(gettid(), mapping, wanted, to_tell);

	/*
	 * Beside others, some may be in swap, or on their way to another frame, which looks the same; or there by the time that
	 * it is asked what their frame is used for. What is locked is not swapped out again before it has been looked at; who may
	 * not lock so much tries his luck.
	 */
	for (int tries = 0; tries < 20 && tally.anonymous < pages; tries++) {
		struct look look = { .mapping = mapping, .wanted = wanted, .fetches = true };

		mlockall(MCL_CURRENT | MCL_ONFAULT);
		look_at_process(&look, getpid());
		tally = pages_of(gettid(), mapping, wanted, to_tell);
		munlockall();
	}
	return tally;
}
