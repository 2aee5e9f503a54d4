// SPDX-License-Identifier: GPL-2.0-only
/*
 * balance: who has the machine's page frames, a line "NAME PAGES" each, so that
 * two such accounts can be compared to the page.
 *
 * Frames are told apart one by one by /proc/kpageflags. Those without a flag
 * are the kernel's: of these, lists of CPUs, stacks, per-CPU memory, vmalloc,
 * large objects of kmalloc(), saved stack traces, page directories and page
 * tables of the kernel's own addresses are counted elsewhere; "unnamed" is the
 * rest. "uncounted_anonymous", "uncounted_swap_cache" and "uncounted_files" are
 * pages of processes, of the swap cache and of the page cache beyond those that
 * the kernel counts as such: pages that somebody has forgotten to give back.
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
#include <sys/prctl.h>
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
#define TRIES 30

struct zone {
	int node;
	char name[16];
	uint64_t first;
	uint64_t end;
	long listed[ORDERS];	/* blocks in /proc/buddyinfo */
};

/* What the kernel counts, in pages. Equal ones are equal in each byte. */
struct counters {
	unsigned int zones;
	struct zone zone[ZONES_MAX];
	long per_cpu_lists;
	long slab;
	long stacks;
	long per_cpu_memory;
	long vmalloc;
	long anonymous;
	long swap_cache;
	long files;
};

static struct counters counters;
static long made[ZONES_MAX][ORDERS];	/* blocks that the free frames of each zone make */
static uint64_t *flags;
static uint64_t frames;

enum { FREE, RESERVED, SLAB, TABLES, ANONYMOUS, FILES, OTHER, KINDS };

static const char *const kind_name[KINDS] = {
	"free", "reserved", "slab", "page_tables", "anonymous", "files", "other",
};

/*
 * Files that are read between one look at the frames and the next stay open:
 * each time one is opened the kernel takes memory for what it prints, and KASAN
 * keeps that for a while when the file is closed.
 */
struct source {
	const char *path;
	int file;
};

static struct source zoneinfo = { "/proc/zoneinfo", 0 }, buddyinfo = { "/proc/buddyinfo", 0 };
static struct source meminfo = { "/proc/meminfo", 0 }, kpageflags = { "/proc/kpageflags", 0 };

static int opened(struct source *source)
{
	if (!source->file)
		source->file = open(source->path, O_RDONLY | O_CLOEXEC);
	if (source->file < 0)
		err(2, "%s", source->path);
	return source->file;
}

/* All that a file says now; valid until the next one is read. */
static char *text_of(struct source *source)
{
	static char text[1 << 18];
	size_t length = 0;
	ssize_t got;

	while ((got = pread(opened(source), text + length, sizeof(text) - 1 - length, length)) > 0)
		length += got;
	if (got < 0)
		err(2, "%s", source->path);
	if (length == sizeof(text) - 1)
		errx(2, "%s is too long", source->path);
	text[length] = 0;
	return text;
}

/* The first line of the text, cut off from it; NULL after the last one. */
static char *next_line(char **text)
{
	char *line = strsep(text, "\n");

	return line && *line ? line : NULL;
}

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
		char path[300], program[1];
		long pages = 0;
		FILE *file;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		/* The kernel's own have none. */
		snprintf(path, sizeof(path), "/proc/%s/exe", entry->d_name);
		if (readlink(path, program, sizeof(program)) < 0)
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

static void read_zones(struct counters *now)
{
	char *text = text_of(&zoneinfo), *line;
	struct zone *last = NULL;
	uint64_t spanned = 0, value;

	while ((line = next_line(&text))) {
		struct zone next = { 0 };

		if (sscanf(line, "Node %d, zone %15s", &next.node, next.name) == 2) {
			if (now->zones == ZONES_MAX)
				errx(2, "too many zones");
			last = &now->zone[now->zones++];
			*last = next;
		} else if (sscanf(line, " spanned %lu", &value) == 1) {
			spanned = value;
		} else if (sscanf(line, " count: %lu", &value) == 1) {
			now->per_cpu_lists += value;
		} else if (last && sscanf(line, " start_pfn: %lu", &value) == 1) {
			last->first = value;
			last->end = value + spanned;
		}
	}
}

static void read_free_lists(struct counters *now)
{
	char *text = text_of(&buddyinfo), *rest, name[16];
	int node, at;

	while ((rest = next_line(&text))) {
		struct zone *zone = now->zone;

		if (sscanf(rest, "Node %d, zone %15s%n", &node, name, &at) != 2)
			errx(2, "buddyinfo: %s", rest);
		rest += at;
		while (zone < now->zone + now->zones && (zone->node != node || strcmp(zone->name, name)))
			zone++;
		for (unsigned int order = 0; zone < now->zone + now->zones && order < ORDERS; order++)
			zone->listed[order] = strtol(rest, &rest, 10);
	}
}

/* Has the kernel do what a file of its settings is for. It stays open, as those that are read. */
static void ask(struct source *source)
{
	if (!source->file)
		source->file = open(source->path, O_WRONLY | O_CLOEXEC);
	if (source->file < 0 || pwrite(source->file, "1", 1, 0) != 1)
		err(2, "%s", source->path);
}

/* Each CPU counts for itself until it is asked. Then it also shortens its lists of pages, where they have not been used. */
static void fold_counters(void)
{
	static struct source refresh = { "/proc/sys/vm/stat_refresh", 0 };

	ask(&refresh);
}

static void read_memory(struct counters *now)
{
	char *text, *line, word[64];
	long value;

	fold_counters();
	text = text_of(&meminfo);
	while ((line = next_line(&text))) {
		if (sscanf(line, "%63s %ld", word, &value) != 2)
			continue;
		if (!strcmp(word, "Slab:"))
			now->slab = value / 4;
		else if (!strcmp(word, "KernelStack:"))
			now->stacks = value / 4;
		else if (!strcmp(word, "Percpu:"))
			now->per_cpu_memory = value / 4;
		else if (!strcmp(word, "VmallocUsed:"))
			now->vmalloc = value / 4;
		else if (!strcmp(word, "AnonPages:"))
			now->anonymous = value / 4;
		else if (!strcmp(word, "SwapCached:"))
			now->swap_cache = value / 4;
		else if (!strcmp(word, "Cached:") || !strcmp(word, "Buffers:"))
			now->files += value / 4;
	}
}

static void read_flags(void)
{
	static uint64_t piece[8192];
	ssize_t got;

	for (unsigned int i = 0; i < counters.zones && !flags; i++)
		frames = counters.zone[i].end > frames ? counters.zone[i].end : frames;
	if (!flags) {
		flags = malloc(frames * sizeof(*flags));
		if (!flags)
			err(2, "%lu frames", frames);
		/* Its own pages are part of the account: none may come while frames are looked at. */
		memset(flags, 0, frames * sizeof(*flags));
	}
	for (uint64_t at = 0; at < frames; at += got / 8) {
		got = pread(opened(&kpageflags), piece, sizeof(piece), at * 8);
		if (got <= 0) {
			memset(flags + at, 0xff, (frames - at) * 8);
			break;
		}
		for (uint64_t i = 0; i < (uint64_t)got / 8 && at + i < frames; i++)
			flags[at + i] = piece[i];
	}
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
static void make_blocks(struct zone *zone, long *made)
{
	memset(made, 0, ORDERS * sizeof(*made));
	for (uint64_t frame = zone->first; frame < zone->end;) {
		unsigned int order = 0;

		if (!is_free(frame)) {
			frame++;
			continue;
		}
		while (order + 1 < ORDERS && !(frame & ((2UL << order) - 1)) && frame + (2UL << order) <= zone->end &&
		       all_free(frame + (1UL << order), 1UL << order))
			order++;
		made[order]++;
		frame += 1UL << order;
	}
	/* A half of the largest block may be set aside for atomic allocations: it is not merged. */
	made[ORDERS - 2] += 2 * made[ORDERS - 1];
	zone->listed[ORDERS - 2] += 2 * zone->listed[ORDERS - 1];
	made[ORDERS - 1] = zone->listed[ORDERS - 1] = 0;
}

static bool fits(bool tell)
{
	bool well = true;

	for (unsigned int i = 0; i < counters.zones; i++) {
		const struct zone *zone = &counters.zone[i];

		for (unsigned int order = 0; order < ORDERS; order++) {
			if (made[i][order] == zone->listed[order])
				continue;
			well = false;
			if (tell)
				printf("# node %d zone %s order %u: %ld blocks in buddyinfo, the free frames make %ld\n",
				       zone->node, zone->name, order, zone->listed[order], made[i][order]);
		}
	}
	return well;
}

struct account {
	long kind[KINDS];
	long named[8];
	long unnamed;
	long swap_cache;
	long also[KINDS];	/* of these, pages that are counted there only */
};

static const char *const name[8] = {
	"lists_of_cpus", "stacks", "per_cpu_memory", "vmalloc", "large_kmalloc", "stack_traces", "page_directories",
	"kernel_tables",
};

/*
 * Once a second the kernel shortens lists of CPUs that have not been used, by
 * some pages: seldom less often than all frames can be looked at on a slow
 * machine. This is done at once, until there is nothing to shorten.
 */
static void shorten_lists(void)
{
	static struct counters now;
	unsigned int same = 0;
	long last = -1;

	for (unsigned int try = 0; try < 500 && same < 20; try++) {
		fold_counters();
		memset(&now, 0, sizeof(now));
		read_zones(&now);
		same = now.per_cpu_lists == last ? same + 1 : 0;
		last = now.per_cpu_lists;
	}
}

/*
 * Pages on their way to a list of the LRU wait on each CPU, those of processes
 * that have ended among them: they are there, and counted as nobody's. Whoever
 * has page cache dropped has these lists emptied first.
 */
static void empty_batches(void)
{
	static struct source drop = { "/proc/sys/vm/drop_caches", 0 };

	ask(&drop);
}

/*
 * The counters before and after all frames have been looked at, which takes
 * seconds on a slow machine; true when they are the same.
 */
static bool look(void)
{
	struct counters before;

	empty_batches();
	shorten_lists();
	memset(&before, 0, sizeof(before));
	read_memory(&before);
	read_zones(&before);
	read_free_lists(&before);
	counters = before;
	read_flags();
	memset(&counters, 0, sizeof(counters));
	/* First what is exact at all times: reading the others changes it. */
	read_zones(&counters);
	read_free_lists(&counters);
	read_memory(&counters);
	return !memcmp(&before, &counters, sizeof(before));
}

/* What takes memory to be read: before and after the looks, and not between them. */
struct costly {
	long stack_traces;
	long page_directories;
	long kernel_tables;
};

static struct costly costly_counters(void)
{
	return (struct costly){
		.stack_traces = number("/sys/kernel/debug/stackdepot/stats", "pools:") * 4,
		.page_directories = address_spaces(),
		.kernel_tables = kernel_tables() + number("/proc/vmstat", "direct_map_level3_splits"),
	};
}

/* quiet: whether nothing has moved meanwhile. */
static struct account account(const struct costly *costly, bool *quiet)
{
	struct account account = { 0 };

	*quiet = look();
	for (unsigned int i = 0; i < counters.zones; i++)
		make_blocks(&counters.zone[i], made[i]);
	for (uint64_t frame = 0; frame < frames; frame++)
		if (!has(frame, KPF_NOPAGE)) {
			unsigned int kind = kind_of(frame);
			bool in_swap_cache = (kind == ANONYMOUS || kind == FILES) && has(frame, KPF_SWAPCACHE);

			account.kind[kind]++;
			account.swap_cache += in_swap_cache;
			account.also[kind] += in_swap_cache && (kind == FILES || !has(frame, KPF_MMAP));
		}
	account.named[0] = counters.per_cpu_lists;
	account.named[1] = counters.stacks;
	account.named[2] = counters.per_cpu_memory;
	account.named[3] = counters.vmalloc;
	account.named[4] = counters.slab - account.kind[SLAB];
	account.named[5] = costly->stack_traces;
	account.named[6] = costly->page_directories;
	account.named[7] = costly->kernel_tables;
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
		/* Not left behind by who gives up. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL))
			err(2, "prctl");
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
	struct costly costly = costly_counters(), after;
	unsigned int try = 0, same = 0;
	struct account now;
	long unnamed = 0;
	bool quiet, well;

	/* Once, so that what it needs itself is there. */
	now = account(&costly, &quiet);
	wait_on_each_cpu();
	costly = costly_counters();
	/*
	 * Of a machine at work nobody can say it: not before nothing has moved at two looks, the free lists were what the free
	 * frames make, and both agree about what has no name.
	 */
	do {
		usleep(100000);
		now = account(&costly, &quiet);
		well = fits(false);
		if (!quiet || !well)
			continue;
		same = same && now.unnamed == unnamed ? 2 : 1;
		unnamed = now.unnamed;
		if (same < 2)
			continue;
		after = costly_counters();
		if (memcmp(&costly, &after, sizeof(costly)))
			same = 0;
		costly = after;
	} while (++try < TRIES && same < 2);
	wait_no_longer();
	if (!well)
		fits(true);
	else if (same < 2)
		printf("# no two quiet looks agree\n");
	for (unsigned int kind = 0; kind < OTHER; kind++)
		printf("%s %ld\n", kind_name[kind], now.kind[kind]);
	for (unsigned int i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		printf("%s %ld\n", name[i], now.named[i]);
	printf("unnamed %ld\n", now.unnamed);
	printf("uncounted_anonymous %ld\n", now.kind[ANONYMOUS] - now.also[ANONYMOUS] - counters.anonymous);
	printf("uncounted_swap_cache %ld\n", now.swap_cache - counters.swap_cache);
	printf("uncounted_files %ld\n", now.kind[FILES] - now.also[FILES] - counters.files);
	return !well || same < 2;
}
