// SPDX-License-Identifier: GPL-2.0-only
/*
 * balance: who has the machine's page frames, a line "NAME PAGES" each, so that
 * two such accounts can be compared to the page.
 *
 * Frames are told apart one by one by /proc/kpageflags. Those without a flag
 * are the kernel's: of these, lists of CPUs, stacks, per-CPU memory, vmalloc,
 * large objects of kmalloc(), saved stack traces, page directories and page
 * tables of the kernel's own addresses are counted elsewhere; "unnamed" is the
 * rest.
 *
 * Status 1 when /proc/buddyinfo does not show the blocks that the free frames
 * make when each is merged with its neighbours as far as it can be.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORDERS 11
#define ZONES_MAX 32
#define CPUS_MAX 64
/* Linux 4.20; not in every C library. */
#ifndef KPF_PGTABLE
#define KPF_PGTABLE 26
#endif
/* The kernel's own, in include/linux/kernel-page-flags.h. */
#define KPF_RESERVED 32
/* What a last-level page table maps. */
#define TABLE_SPAN (2UL << 20)
/* So often an account is taken again. */
#define TRIES 5

struct zone {
	int node;
	char name[16];
	uint64_t first;
	uint64_t end;
	long made[ORDERS];	/* blocks that its free frames make */
	long listed[ORDERS];	/* blocks in /proc/buddyinfo */
};

static struct zone zone[ZONES_MAX];
static unsigned int zones;
static uint64_t *flags;
static uint64_t frames;
static long per_cpu_lists;

enum { FREE, RESERVED, SLAB, TABLES, ANONYMOUS, FILES, OTHER, KINDS };

static const char *const kind_name[KINDS] = {
	"free", "reserved", "slab", "page_tables", "anonymous", "files", "other",
};

static FILE *open_or_end(const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		err(2, "%s", path);
	return file;
}

/* The sum of the second words of the lines whose first word is this one; 0 without such a file. */
static long number(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[256], word[64];
	long sum = 0, value;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %ld", word, &value) == 2 && !strcmp(word, name))
			sum += value;
	if (file)
		fclose(file);
	return sum;
}

/* Processes that have an address space: each has a page directory, which has no flag. */
static long address_spaces(void)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	long count = 0;

	if (!processes)
		err(2, "/proc");
	while ((entry = readdir(processes))) {
		char path[300];
		long pages = 0;
		FILE *file;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/statm", entry->d_name);
		file = fopen(path, "re");
		if (file) {
			count += fscanf(file, "%ld", &pages) == 1 && pages;
			fclose(file);
		}
	}
	closedir(processes);
	return count;
}

/*
 * The last-level page tables of the kernel's addresses: those of vmalloc() come and stay, those of the direct map come where a
 * page is made read-only, as the programs of seccomp are. The kernel prints ranges, and at which level they end.
 */
static long kernel_tables(void)
{
	FILE *file = open_or_end("/sys/kernel/debug/page_tables/kernel");
	uint64_t first, end, next = 0;
	bool shadow = false;
	char line[256];
	long tables = 0;

	while (fgets(line, sizeof(line), file)) {
		/* KASAN's shadow of what is not there is one table for all of it. */
		if (!strncmp(line, "---[ ", 5))
			shadow = !strncmp(line + 5, "KASAN shadow ]", 14);
		if (shadow || !strstr(line, " pte") || sscanf(line, "%lx-%lx", &first, &end) != 2)
			continue;
		first /= TABLE_SPAN;
		end = (end - 1) / TABLE_SPAN + 1;
		/* Ranges come in order; two may be of one table. */
		first = first < next ? next : first;
		if (end > first) {
			tables += end - first;
			next = end;
		}
	}
	fclose(file);
	return tables;
}

static void read_zones(void)
{
	FILE *file = open_or_end("/proc/zoneinfo");
	char line[256];
	struct zone *last = NULL;
	uint64_t spanned = 0, value;

	zones = 0;
	per_cpu_lists = 0;
	while (fgets(line, sizeof(line), file)) {
		struct zone next = { 0 };

		if (sscanf(line, "Node %d, zone %15s", &next.node, next.name) == 2) {
			if (zones == ZONES_MAX)
				errx(2, "too many zones");
			last = &zone[zones++];
			*last = next;
		} else if (sscanf(line, " spanned %lu", &value) == 1) {
			spanned = value;
		} else if (sscanf(line, " count: %lu", &value) == 1) {
			per_cpu_lists += value;
		} else if (last && sscanf(line, " start_pfn: %lu", &value) == 1) {
			last->first = value;
			last->end = value + spanned;
		}
	}
	fclose(file);
}

static void read_free_lists(void)
{
	FILE *file = open_or_end("/proc/buddyinfo");
	char line[512], name[16];
	int node, at;

	while (fgets(line, sizeof(line), file)) {
		char *rest = line;

		if (sscanf(line, "Node %d, zone %15s%n", &node, name, &at) != 2)
			errx(2, "buddyinfo: %s", line);
		rest += at;
		for (unsigned int i = 0; i < zones; i++)
			for (unsigned int order = 0; zone[i].node == node && !strcmp(zone[i].name, name) && order < ORDERS;
			     order++)
				zone[i].listed[order] = strtol(rest, &rest, 10);
	}
	fclose(file);
}

static void read_flags(void)
{
	static uint64_t piece[8192];
	int file = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (file < 0)
		err(2, "kpageflags");
	for (unsigned int i = 0; i < zones && !flags; i++)
		frames = zone[i].end > frames ? zone[i].end : frames;
	if (!flags) {
		flags = malloc(frames * sizeof(*flags));
		if (!flags)
			err(2, "%lu frames", frames);
		/* Its own pages are part of the account: none may come while frames are looked at. */
		memset(flags, 0, frames * sizeof(*flags));
	}
	for (uint64_t at = 0; at < frames; at += got / 8) {
		got = read(file, piece, sizeof(piece));
		if (got <= 0) {
			memset(flags + at, 0xff, (frames - at) * 8);
			break;
		}
		for (uint64_t i = 0; i < (uint64_t)got / 8 && at + i < frames; i++)
			flags[at + i] = piece[i];
	}
	close(file);
}

static bool has(uint64_t frame, unsigned int flag)
{
	return flags[frame] >> flag & 1;
}

static bool is_free(uint64_t frame)
{
	return !has(frame, KPF_NOPAGE) && has(frame, KPF_BUDDY);
}

static bool all_free(uint64_t frame, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (!is_free(frame + i))
			return false;
	return true;
}

static unsigned int kind_of(uint64_t frame)
{
	if (has(frame, KPF_BUDDY))
		return FREE;
	if (has(frame, KPF_RESERVED))
		return RESERVED;
	if (has(frame, KPF_SLAB))
		return SLAB;
	if (has(frame, KPF_PGTABLE))
		return TABLES;
	if (has(frame, KPF_ANON))
		return ANONYMOUS;
	/* Pages that have just come are not on the lists of pages to reclaim yet: each CPU gathers some of them first. */
	if (has(frame, KPF_LRU) || has(frame, KPF_UPTODATE) || has(frame, KPF_SWAPBACKED) || has(frame, KPF_MMAP))
		return FILES;
	return OTHER;
}

/* From each free frame upwards, the largest aligned block that is free and in the zone. */
static void make_blocks(struct zone *zone)
{
	for (uint64_t frame = zone->first; frame < zone->end;) {
		unsigned int order = 0;

		if (!is_free(frame)) {
			frame++;
			continue;
		}
		while (order + 1 < ORDERS && !(frame & ((2UL << order) - 1)) && frame + (2UL << order) <= zone->end &&
		       all_free(frame + (1UL << order), 1UL << order))
			order++;
		zone->made[order]++;
		frame += 1UL << order;
	}
	/* A half of the largest block may be set aside for atomic allocations: it is not merged. */
	zone->made[ORDERS - 2] += 2 * zone->made[ORDERS - 1];
	zone->listed[ORDERS - 2] += 2 * zone->listed[ORDERS - 1];
	zone->made[ORDERS - 1] = zone->listed[ORDERS - 1] = 0;
}

static bool fits(bool tell)
{
	bool well = true;

	for (unsigned int i = 0; i < zones; i++) {
		for (unsigned int order = 0; order < ORDERS; order++) {
			if (zone[i].made[order] == zone[i].listed[order])
				continue;
			well = false;
			if (tell)
				printf("# node %d zone %s order %u: %ld blocks in buddyinfo, the free frames make %ld\n",
				       zone[i].node, zone[i].name, order, zone[i].listed[order], zone[i].made[order]);
		}
	}
	return well;
}

struct account {
	long kind[KINDS];
	long named[8];
	long unnamed;
};

static const char *const name[8] = {
	"lists_of_cpus", "stacks", "per_cpu_memory", "vmalloc", "large_kmalloc", "stack_traces", "page_directories",
	"kernel_tables",
};

/* Each CPU counts for itself until it is asked. */
static void fold_counters(void)
{
	int file = open("/proc/sys/vm/stat_refresh", O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, "1", 1) != 1)
		err(2, "stat_refresh");
	close(file);
}

static long slab_pages(void)
{
	const char *vmstat = "/proc/vmstat";

	fold_counters();
	return number(vmstat, "nr_slab_reclaimable") + number(vmstat, "nr_slab_unreclaimable");
}

static struct account account(void)
{
	const char *vmstat = "/proc/vmstat", *meminfo = "/proc/meminfo";
	struct account account = { 0 };
	unsigned int try = 0;
	long slab;

	/* KASAN keeps freed objects, and gives many of them back at once: not between one look and the next. */
	do {
		slab = slab_pages();
		read_zones();
		read_flags();
	} while (slab_pages() != slab && ++try < TRIES);
	read_free_lists();
	for (unsigned int i = 0; i < zones; i++)
		make_blocks(&zone[i]);
	for (uint64_t frame = 0; frame < frames; frame++)
		if (!has(frame, KPF_NOPAGE))
			account.kind[kind_of(frame)]++;
	account.named[0] = per_cpu_lists;
	account.named[1] = number(vmstat, "nr_kernel_stack") / 4;
	account.named[2] = number(meminfo, "Percpu:") / 4;
	account.named[3] = number(meminfo, "VmallocUsed:") / 4;
	account.named[4] = slab - account.kind[SLAB];
	account.named[5] = number("/sys/kernel/debug/stackdepot/stats", "pools:") * 4;
	account.named[6] = address_spaces();
	account.named[7] = kernel_tables() + number(vmstat, "direct_map_level3_splits");
	account.unnamed = account.kind[OTHER];
	for (unsigned int i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		account.unnamed -= account.named[i];
	return account;
}

/*
 * A CPU without work keeps the address space of who ran there last, and the page
 * directory of a process that has ended with it. A process that waits on each
 * CPU makes them as many at all times.
 */
static pid_t waiting[CPUS_MAX];
static long cpus;

static void wait_on_each_cpu(void)
{
	int there[2];
	char one;

	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > CPUS_MAX || pipe(there))
		err(2, "%ld CPUs", cpus);
	for (long cpu = 0; cpu < cpus; cpu++) {
		cpu_set_t set;

		waiting[cpu] = fork();
		if (waiting[cpu] < 0)
			err(2, "fork");
		if (waiting[cpu])
			continue;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set) || write(there[1], "", 1) != 1)
			err(2, "CPU %ld", cpu);
		for (;;)
			pause();
	}
	for (long cpu = 0; cpu < cpus; cpu++)
		if (read(there[0], &one, 1) != 1)
			err(2, "waiting");
}

static void wait_no_longer(void)
{
	for (long cpu = 0; cpu < cpus; cpu++) {
		kill(waiting[cpu], SIGKILL);
		waitpid(waiting[cpu], NULL, 0);
	}
}

int main(void)
{
	struct account now, last;
	unsigned int try = 0;
	bool well;

	/* Once, so that what it needs itself is there. */
	now = account();
	wait_on_each_cpu();
	/* Of a machine at work nobody can say it: not before what has no name is the same twice in a row. */
	do {
		last = now;
		usleep(100000);
		now = account();
		well = fits(false);
	} while (++try < TRIES && (!well || now.unnamed != last.unnamed));
	wait_no_longer();
	if (!well)
		fits(true);
	for (unsigned int kind = 0; kind < OTHER; kind++)
		printf("%s %ld\n", kind_name[kind], now.kind[kind]);
	for (unsigned int i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		printf("%s %ld\n", name[i], now.named[i]);
	printf("unnamed %ld\n", now.unnamed);
	return !well;
}
