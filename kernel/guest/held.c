// SPDX-License-Identifier: GPL-2.0-only
/*
 * held MAPPING CLASSES SCENARIO...: uses memory in the ways named, and looks
 * whether every private page lies in the bank classes of the list (0-3,8).
 *
 * Knows nothing of how colors are given: whoever starts it sees to that. A line
 * "ok - NAME" or "not ok - NAME # reason" for each scenario; status 1 when one
 * of them is not ok. What a scenario writes it reads back.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

/* Linux 6.1; not in every C library. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static char **arguments;

static void report(const char *name, bool held)
{
	if (held)
		printf("ok - %s\n", name);
	else
		printf("not ok - %s # %s\n", name, reason);
	fflush(stdout);
}

static bool anonymous(void)
{
	char *start = memory(16 * MIB);
	bool held;

	fill(start, 16 * MIB, 1);
	held = is_filled(start, 16 * MIB, 1) && all_in_color(16 * MIB / PAGE_BYTES);
	munmap(start, 16 * MIB);
	return held;
}

static bool heap(void)
{
	size_t bytes = 8 * MIB;
	char *start = sbrk(bytes);

	fill(start, bytes, 2);
	return is_filled(start, bytes, 2) && all_in_color(bytes / PAGE_BYTES);
}

__attribute__((noinline))
static bool stack_of(unsigned int depth)
{
	volatile char frame[16 * PAGE_BYTES];

	for (size_t at = 0; at < sizeof(frame); at += PAGE_BYTES)
		frame[at] = depth;
	if (!depth)
		return all_in_color(1000);
	bool held = stack_of(depth - 1);

	return frame[0] == (char)depth && held;
}

static bool stack(void)
{
	return stack_of(64);
}

static char zeroed[4 * MIB];
static char initialized[4 * MIB] = { 1 };

static bool data(void)
{
	fill(zeroed, sizeof(zeroed), 3);
	fill(initialized, sizeof(initialized), 4);
	return is_filled(zeroed, sizeof(zeroed), 3) && is_filled(initialized, sizeof(initialized), 4) &&
		all_in_color(8 * MIB / PAGE_BYTES);
}

/* Pages come and go, in pieces. */
static bool churn(void)
{
	char *start = memory(16 * MIB);

	for (unsigned int round = 0; round < 20; round++) {
		size_t from = round % 4 * 4 * MIB, bytes = 4 * MIB;

		fill(start + from, bytes, round);
		if (!is_filled(start + from, bytes, round) || !all_in_color(bytes / PAGE_BYTES))
			return false;
		if (madvise(start + from, bytes, MADV_DONTNEED))
			return because("MADV_DONTNEED");
	}
	munmap(start, 16 * MIB);
	return true;
}

static void *thread_of(void *held)
{
	char *start = memory(2 * MIB);

	fill(start, 2 * MIB, 5);
	*(bool *)held = is_filled(start, 2 * MIB, 5);
	munmap(start, MIB);
	return NULL;
}

static bool threads(void)
{
	bool held[8];
	pthread_t thread[8];

	for (unsigned int i = 0; i < 8; i++)
		if (pthread_create(&thread[i], NULL, thread_of, &held[i]))
			return because("pthread_create");
	for (unsigned int i = 0; i < 8; i++)
		if (pthread_join(thread[i], NULL) || !held[i])
			return because("thread %u", i);
	return all_in_color(8 * MIB / PAGE_BYTES);
}

static bool copy_on_write(void)
{
	char *start = memory(8 * MIB);
	pid_t child;

	fill(start, 8 * MIB, 6);
	fflush(stdout);
	child = fork();
	if (!child) {
		uint64_t before = frame_of(getpid(), start);
		bool well = is_filled(start, 8 * MIB, 6);

		fill(start, 8 * MIB, 7);
		if (well && frame_of(getpid(), start) == before)
			well = because("the page was not copied");
		child_end(well && is_filled(start, 8 * MIB, 7) && all_in_color(8 * MIB / PAGE_BYTES));
	}
	return child_was_well(child) && is_filled(start, 8 * MIB, 6) && all_in_color(8 * MIB / PAGE_BYTES);
}

/* Forks down to a depth, two children each; all write what they inherit. */
static bool storm_of(char *start, size_t bytes, unsigned int depth)
{
	pid_t child[2];
	bool well;

	fill(start, bytes, depth);
	if (!depth)
		return is_filled(start, bytes, depth) && all_in_color(bytes / PAGE_BYTES);
	for (unsigned int i = 0; i < 2; i++) {
		child[i] = fork();
		if (!child[i])
			child_end(storm_of(start, bytes, depth - 1));
	}
	well = child_was_well(child[0]);
	well = child_was_well(child[1]) && well;
	return well && is_filled(start, bytes, depth) && all_in_color(bytes / PAGE_BYTES);
}

static bool fork_storm(void)
{
	char *start = memory(MIB);

	fflush(stdout);
	for (unsigned int round = 0; round < 4; round++)
		if (!storm_of(start, MIB, 4))
			return false;
	return true;
}

/* The same program again, as a child: its whole address space is new. */
static bool executed(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], "data", "stack", NULL);
		_exit(127);
	}
	return child_was_well(child);
}

static bool paged_out(void)
{
	char *start = memory(8 * MIB);
	struct tally tally;

	fill(start, 8 * MIB, 8);
	if (madvise(start, 8 * MIB, MADV_PAGEOUT))
		return because("MADV_PAGEOUT");
	tally = pages_of(getpid(), &mapping, &wanted, 4);
	if (tally.swapped < 1000)
		return because("%lu pages were swapped out", tally.swapped);
	return is_filled(start, 8 * MIB, 8) && all_in_color(8 * MIB / PAGE_BYTES);
}

/* Holes everywhere, which compaction would like to fill. */
static bool compacted(void)
{
	char *start = memory(32 * MIB);

	fill(start, 32 * MIB, 9);
	for (size_t at = 0; at < 32 * MIB; at += 2 * PAGE_BYTES)
		madvise(start + at, PAGE_BYTES, MADV_DONTNEED);
	if (!write_to("/proc/sys/vm/compact_memory", "1"))
		return false;
	for (size_t at = PAGE_BYTES; at < 32 * MIB; at += 2 * PAGE_BYTES)
		if (*(uint64_t *)(start + at) != 9 + at)
			return because("page %zu has another content", at / PAGE_BYTES);
	bool held = all_in_color(16 * MIB / PAGE_BYTES);

	munmap(start, 32 * MIB);
	return held;
}

static bool huge(void)
{
	char *start = memory(16 * MIB);
	char *aligned = (char *)(((uint64_t)start + 2 * MIB - 1) & -(2 * MIB));

	if (madvise(aligned, 8 * MIB, MADV_HUGEPAGE))
		return because("MADV_HUGEPAGE");
	fill(aligned, 8 * MIB, 10);
	if (!is_filled(aligned, 8 * MIB, 10) || !all_in_color(8 * MIB / PAGE_BYTES))
		return false;
	/* Now at once, not when khugepaged comes by; it may well refuse. */
	madvise(aligned, 8 * MIB, MADV_COLLAPSE);
	return is_filled(aligned, 8 * MIB, 10) && all_in_color(8 * MIB / PAGE_BYTES);
}

static bool merged(void)
{
	char *start = memory(4 * MIB);

	/* A content of its own: of the same one, what is merged in other colors would stand in the way. */
	for (size_t at = 0; at < 4 * MIB; at += sizeof(pid_t))
		*(pid_t *)(start + at) = getpid();
	if (madvise(start, 4 * MIB, MADV_MERGEABLE) || !write_to("/sys/kernel/mm/ksm/pages_to_scan", "5000") ||
	    !write_to("/sys/kernel/mm/ksm/sleep_millisecs", "0") || !write_to("/sys/kernel/mm/ksm/run", "1"))
		return because("KSM");
	sleep(1);
	bool held = all_in_color(1);

	fill(start, 4 * MIB, 11);
	held = held && is_filled(start, 4 * MIB, 11) && all_in_color(4 * MIB / PAGE_BYTES);
	return write_to("/sys/kernel/mm/ksm/run", "2") && held;
}

/* From node to node and back, where there are two; the kernel may refuse, but not move pages out of color. */
static bool moved(void)
{
	char *start = memory(4 * MIB);
	unsigned long first = 1, second = 2;

	fill(start, 4 * MIB, 12);
	syscall(SYS_migrate_pages, 0, 8 * sizeof(first), &first, &second);
	if (!is_filled(start, 4 * MIB, 12) || !all_in_color(4 * MIB / PAGE_BYTES))
		return false;
	syscall(SYS_migrate_pages, 0, 8 * sizeof(first), &second, &first);
	return is_filled(start, 4 * MIB, 12) && all_in_color(4 * MIB / PAGE_BYTES);
}

static bool grown(void)
{
	size_t bytes = 4 * MIB;
	char *start = memory(bytes);

	fill(start, bytes, 13);
	start = mremap(start, bytes, 4 * bytes, MREMAP_MAYMOVE);
	if (start == MAP_FAILED || !is_filled(start, bytes, 13))
		return because("mremap");
	fill(start, 4 * bytes, 14);
	return is_filled(start, 4 * bytes, 14) && all_in_color(4 * bytes / PAGE_BYTES);
}

/* A private mapping of a file: what is written is the program's own. */
static bool private_file(void)
{
	char path[] = "/tmp/held-XXXXXX";
	int file = mkstemp(path);
	char *start;

	if (file < 0 || unlink(path) || ftruncate(file, 4 * MIB))
		return because("%s", path);
	start = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	if (start == MAP_FAILED)
		return because("mmap");
	fill(start, 4 * MIB, 15);
	close(file);
	return is_filled(start, 4 * MIB, 15) && all_in_color(4 * MIB / PAGE_BYTES);
}

/* A file in memory that nobody else has. */
static bool own_file(void)
{
	int file = memfd_create("held", 0);
	struct tally tally;
	char *start;

	if (file < 0 || ftruncate(file, 4 * MIB))
		return because("memfd");
	start = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (start == MAP_FAILED)
		return because("mmap");
	fill(start, 4 * MIB, 16);
	tally = pages_of(getpid(), &mapping, &wanted, 4);
	/* The program's own text is a file as well, and was there before it. */
	munmap(start, 4 * MIB);
	struct tally without = pages_of(getpid(), &mapping, &wanted, 4);

	close(file);
	if (tally.file - without.file < 1024)
		return because("%lu pages", tally.file - without.file);
	if (tally.file_wrong != without.file_wrong)
		return because("%lu of %lu pages are out of color", tally.file_wrong - without.file_wrong,
			       tally.file - without.file);
	return true;
}

/* The program itself, where nobody has executed it before: no other file is mapped. */
static bool text(void)
{
	struct tally tally = pages_of(getpid(), &mapping, &wanted, 0);

	if (tally.file < 32)
		return because("%lu pages", tally.file);
	if (tally.file_wrong)
		return because("%lu of %lu pages are out of color", tally.file_wrong, tally.file);
	return true;
}

/* A child that takes pages and gives them back, those of a file or private ones; on CPU 0, in turn with who else is there. */
static pid_t taker_of(char *start, size_t bytes, int file)
{
	pid_t child = fork();
	cpu_set_t first;

	if (child < 0)
		err(2, "fork");
	if (child)
		return child;
	end_with_parent();
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		_exit(1);
	for (;;) {
		fill(start, bytes, 19);
		sched_yield();
		if (file < 0 ? madvise(start, bytes, MADV_DONTNEED) :
			       fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes))
			_exit(1);
		sched_yield();
	}
}

static bool was_at_work(pid_t taker)
{
	int status;

	return !kill(taker, SIGKILL) && waitpid(taker, &status, 0) == taker && WIFSIGNALED(status);
}

/* A page of a file that goes while one looks is no private one, though its frame may be one's when its flags are read. */
static bool is_told_apart(void)
{
	size_t bytes = 2 * MIB;
	int file = memfd_create("taken", 0);
	struct wanted all = wanted_read("all", mapping_classes(&mapping));
	unsigned long before, most = 0;
	pid_t of_file, of_private;
	char *pages;

	if (file < 0 || ftruncate(file, bytes))
		return because("memfd");
	pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (pages == MAP_FAILED)
		return because("mmap");
	before = pages_of(getpid(), &mapping, &all, 0).anonymous;
	fflush(stdout);
	of_private = taker_of(memory(bytes), bytes, -1);
	of_file = taker_of(pages, bytes, file);
	for (unsigned int look = 0; look < 1000; look++) {
		unsigned long private_pages = pages_of(of_file, &mapping, &all, 0).anonymous;

		if (private_pages > most)
			most = private_pages;
	}
	if (!was_at_work(of_private) || !was_at_work(of_file))
		return because("who was to take pages did not");
	return most <= before ? true : because("of %lu private pages, %lu are seen while pages of a file go", before, most);
}

/*
 * Is the observer one? Without any color given: the frame of a page in two
 * places is one, that of a copy another; what is planted is found, to the page.
 */
static bool observer(void)
{
	unsigned int classes = mapping_classes(&mapping);
	unsigned long of_class[1024] = { 0 }, private_pages = 0;
	int file = memfd_create("observer", 0);
	struct wanted all = wanted_read("all", classes), but_one;
	char *pages = memory(8 * MIB), *one, *other;
	struct tally tally;

	if (file < 0 || ftruncate(file, PAGE_BYTES))
		return because("memfd");
	one = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	other = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	*one = 1;
	if (*other != 1 || frame_of(getpid(), one) != frame_of(getpid(), other))
		return because("one page has two frames");
	*other = 2;
	if (frame_of(getpid(), one) == frame_of(getpid(), other) || frame_of(getpid(), pages))
		return because("a copy has the frame of what it was copied from, or a page without content has one");
	fill(pages, 8 * MIB, 17);
	for (size_t at = 0; at < 8 * MIB; at += PAGE_BYTES) {
		struct color color;

		if (!mapping_color(&mapping, frame_of(getpid(), pages + at), &color))
			return because("memory without color");
		of_class[color.bank_class]++;
	}
	tally = pages_of(getpid(), &mapping, &all, 0);
	private_pages = tally.anonymous;
	if (private_pages < 2048 || tally.anonymous_wrong || tally.nowhere)
		return because("%lu pages, %lu wrong, %lu nowhere", private_pages, tally.anonymous_wrong, tally.nowhere);
	for (unsigned int class = 0; class < classes; class++) {
		but_one = all;
		but_one.class[class / 64] &= ~(1UL << (class % 64));
		tally = pages_of(getpid(), &mapping, &but_one, 0);
		/* The rest of the program is there as well. */
		if (tally.anonymous_wrong < of_class[class] || tally.anonymous_wrong > of_class[class] + private_pages - 2048)
			return because("class %u has %lu pages, %lu were found", class, of_class[class],
				       tally.anonymous_wrong);
	}
	munmap(pages, 8 * MIB);
	return is_told_apart();
}

/* All the memory of its colors, and more: it is killed before the end. */
static bool exhausted(void)
{
	for (unsigned long mib = 0; mib < 1UL << 20; mib++) {
		char *start = memory(MIB);

		fill(start, MIB, 18);
		printf("# filled %lu MiB\n", mib + 1);
		fflush(stdout);
	}
	return because("there was no end of memory");
}

static const struct {
	const char *name;
	bool (*run)(void);
} scenarios[] = {
	{ "observer", observer }, { "anonymous", anonymous }, { "heap", heap }, { "stack", stack },
	{ "data", data }, { "churn", churn }, { "threads", threads }, { "copy-on-write", copy_on_write },
	{ "fork-storm", fork_storm }, { "exec", executed }, { "swap", paged_out }, { "compaction", compacted },
	{ "huge", huge }, { "ksm", merged }, { "migrate", moved }, { "mremap", grown },
	{ "private-file", private_file }, { "own-file", own_file }, { "text", text }, { "exhausted", exhausted },
};

static bool run(const char *name)
{
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, name))
			continue;
		bool held = scenarios[i].run();

		report(name, held);
		return held;
	}
	errx(2, "%s is no scenario", name);
}

int main(int argc, char **argv)
{
	bool held = true;

	if (argc < 4)
		errx(2, "usage: held MAPPING CLASSES SCENARIO...");
	arguments = argv;
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	for (int i = 3; i < argc; i++)
		held = run(argv[i]) && held;
	return !held;
}
