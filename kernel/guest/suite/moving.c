// SPDX-License-Identifier: GPL-2.0-only
/*
 * moving MAPPING CLASSES SCENARIO [GROUP|FILE|OTHERS]: starts without colors and
 * has memory, gives itself the policy "strict CLASSES" by a write to debugfs, and
 * looks what became of the memory that was there; or has colors, and others move
 * its memory or fault it in; or comes into a cgroup. One scenario in each run:
 * "ok - NAME", or "not ok - NAME # reason". What a scenario writes it reads back.
 * Some want a cgroup; "shared-file" has its pages in FILE, if any; a thread of
 * "threads-differ" has the classes OTHERS.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

#define FLOOR "/sys/kernel/debug/memtint/"
#define SWAP "/dev/ram0"

/* How long the kernel is given to look at who uses what: it does so every second at first, and more seldom in time. */
#define BALANCE_SECONDS 60
/* The kernel's promise: so many pages at most are moved under one hold of an address space. */
#define PIECE_PAGES 128
/* How long KSM is given to look at all pages some times. */
#define MERGE_SECONDS 60

/* Waits for what is on the move, at most. */
#define SETTLED_TRIES 100

static char policy[600];
static char **arguments;
static const char *group;

static size_t pages_out_of_color(const char *start, size_t bytes)
{
	size_t wrong = 0;

	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		struct color color;

		wrong += !mapping_color(&mapping, frame_of(gettid(), start + at), &color) || !is_wanted(&wanted, color.bank_class);
	}
	return wrong;
}

static uint64_t *frames_of(char *start, size_t pages)
{
	uint64_t *frames = calloc(pages, sizeof(*frames));

	for (size_t page = 0; page < pages; page++)
		frames[page] = frame_of(getpid(), start + page * PAGE_BYTES);
	return frames;
}

/* Whether each page is where it was. */
static bool stayed_at(const uint64_t *frames, const char *start, size_t pages)
{
	size_t moved = 0;

	for (size_t page = 0; page < pages; page++)
		moved += frame_of(getpid(), start + page * PAGE_BYTES) != frames[page];
	return !moved || because("%zu of %zu pages have moved", moved, pages);
}

/*
 * Memory that lies in all colors, made by @make. What was freed last is given
 * first, and may well have the colors of the program before: that is kept until
 * this is there.
 */
static char *in_all_colors(size_t bytes, char *(*make)(size_t bytes))
{
	char *hog = memory(64 * MIB), *start, *poor[8];
	unsigned int tries = 0;

	memset(hog, 1, 64 * MIB);
	/* Where others with these colors have just ended, what is free may be in them even so. */
	for (;;) {
		start = make(bytes);
		if (pages_out_of_color(start, bytes) > bytes / PAGE_BYTES / 2 || tries == 8)
			break;
		poor[tries++] = start;
	}
	while (tries)
		munmap(poor[--tries], bytes);
	munmap(hog, 64 * MIB);
	return start;
}

static char *written_memory(size_t bytes)
{
	return memset(memory(bytes), 0, bytes);
}

static char *memory_of_all_colors(size_t bytes)
{
	return in_all_colors(bytes, written_memory);
}

enum { IN_FILE = 24 };

/* Page cache, or memory that is shared, filled with IN_FILE. What is on its disk is not busy later. */
static char *written_file(size_t bytes)
{
	int file;
	char *start;

	/* The one before, if any, is there as long as it is mapped. */
	if (arguments[4])
		unlink(arguments[4]);
	file = arguments[4] ? open(arguments[4], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : memfd_create("moving", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, bytes))
		err(2, "a file");
	start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (start == MAP_FAILED)
		err(2, "mmap");
	fill(start, bytes, IN_FILE);
	if (msync(start, bytes, MS_SYNC) || close(file))
		err(2, "a file");
	return start;
}

/* The number that is all there is in a file. */
static long number_of_file(const char *path)
{
	FILE *file = fopen(path, "re");
	long number;

	if (!file || fscanf(file, "%ld", &number) != 1)
		err(2, "%s", path);
	fclose(file);
	return number;
}

/* Waits until nothing is on the move. The file waits first and counts then: what has begun in between is waited for as well. */
static bool settled(void)
{
	long moving = 1;

	for (unsigned int tries = 0; moving > 0 && tries < SETTLED_TRIES; tries++)
		moving = number_of(FLOOR "settled", "moving");
	return moving == 0 || because("%ld on the move, after %d waits", moving, SETTLED_TRIES);
}

/* Gives this process its colors, and waits until what it has is in them. */
static bool take_colors(void)
{
	return write_to(FLOOR "task", policy) && settled();
}

/* Nothing but this piece: what a child has from its parent is not its own. */
static bool area_in_color(pid_t pid, const char *start, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		struct color color;
		uint64_t frame = pid == getpid() ? own_frame(start + at) : frame_of(pid, start + at);

		if (!frame)
			return because("page %zu is not there", at / PAGE_BYTES);
		if (!mapping_color(&mapping, frame, &color) || !is_wanted(&wanted, color.bank_class))
			return because("page %zu is out of color", at / PAGE_BYTES);
	}
	return true;
}

/* Without colors, many pages must lie elsewhere: else the test shows nothing. */
static bool many_are_wrong(unsigned long pages)
{
	struct tally tally = pages_of(gettid(), &mapping, &wanted, 0);

	if (tally.anonymous_wrong < pages / 4)
		return because("only %lu of %lu pages are out of color before", tally.anonymous_wrong, pages);
	return true;
}

/* Two processes that wait for each other. */
static int pipes[2][2];

static void open_pipes(void)
{
	if (pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC))
		err(2, "pipe2");
}

static void tell(int side)
{
	if (write(pipes[side][1], "", 1) != 1)
		err(2, "write to a pipe");
}

static void hear(int side)
{
	char byte;

	if (read(pipes[side][0], &byte, 1) != 1)
		errx(2, "the other process is gone");
}

static char initialized[2 * MIB] = { 1 };

/*
 * Maps all pages of the program and its libraries: one that was read before and
 * is mapped only after the colors have come would be where it was. Not all are
 * mapped with their neighbours, as those are not that reclaim has looked at.
 */
static bool map_files(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], mode[5];

	if (!maps)
		return because("/proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) == 3 && mode[0] == 'r' && strchr(line, '/') &&
		    madvise((void *)start, end - start, MADV_POPULATE_READ)) {
			fclose(maps);
			return because("MADV_POPULATE_READ of %s", line);
		}
	fclose(maps);
	return true;
}

/* All sorts of memory; with it the page cache that only this program uses. */
static bool everything(void)
{
	int file = memfd_create("moving", 0);
	char *heap = sbrk(8 * MIB), *anonymous = memory_of_all_colors(16 * MIB), *locked = memory(2 * MIB), *shared;
	volatile char stack[64 * PAGE_BYTES];
	long before = number_of(FLOOR "moving", "moved"), moved;
	struct tally tally;

	if (file < 0 || ftruncate(file, 4 * MIB) || mlock(locked, 2 * MIB))
		return because("memfd or mlock");
	shared = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		return because("mmap");
	fill(heap, 8 * MIB, 1);
	fill(anonymous, 16 * MIB, 2);
	fill(initialized, sizeof(initialized), 3);
	fill(locked, 2 * MIB, 4);
	fill(shared, 4 * MIB, 5);
	for (size_t at = 0; at < sizeof(stack); at += PAGE_BYTES)
		stack[at] = at / PAGE_BYTES;
	if (!many_are_wrong(28 * MIB / PAGE_BYTES) || !map_files() || !take_colors())
		return false;
	for (size_t at = 0; at < sizeof(stack); at += PAGE_BYTES)
		if (stack[at] != (char)(at / PAGE_BYTES))
			return because("the stack has another content");
	moved = number_of(FLOOR "moving", "moved") - before;
	if (moved < (long)(16 * MIB / PAGE_BYTES))
		return because("only %ld pages were counted as moved", moved);
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	if (tally.own_file < 1024 || tally.own_file_wrong)
		return because("of %lu pages of files that nobody else uses %lu are out of color", tally.own_file,
			       tally.own_file_wrong);
	printf("# everything: %ld pages were moved\n", moved);
	return is_filled(heap, 8 * MIB, 1) && is_filled(anonymous, 16 * MIB, 2) &&
		is_filled(initialized, sizeof(initialized), 3) && is_filled(locked, 2 * MIB, 4) &&
		is_filled(shared, 4 * MIB, 5) && all_in_color(28 * MIB / PAGE_BYTES);
}

#define WRITERS 4
#define WRITER_PAGES 512

static atomic_bool writers_stop;

static void *write_all_the_time(void *arg)
{
	char *start = arg;
	uint64_t round = 0;

	for (bool stop = false; !stop; round++) {
		stop = writers_stop;
		for (size_t page = 0; page < WRITER_PAGES; page++) {
			uint64_t *word = (uint64_t *)(start + page * PAGE_BYTES);

			if (*word != round)
				return "a page lost a write";
			*word = round + 1;
		}
	}
	return NULL;
}

/* The pages move while threads write them. */
static bool start_writers(pthread_t *thread, char *start)
{
	for (unsigned int i = 0; i < WRITERS; i++)
		if (pthread_create(&thread[i], NULL, write_all_the_time, start + i * WRITER_PAGES * PAGE_BYTES))
			return because("pthread_create");
	return true;
}

static bool end_writers(pthread_t *thread)
{
	bool well = true;

	writers_stop = true;
	for (unsigned int i = 0; i < WRITERS; i++) {
		void *wrong = NULL;

		if (pthread_join(thread[i], &wrong) || wrong)
			well = because("%s", wrong ? (char *)wrong : "pthread_join");
	}
	return well;
}

static bool writers(void)
{
	char *start = memory_of_all_colors(WRITERS * WRITER_PAGES * PAGE_BYTES);
	pthread_t thread[WRITERS];
	bool well;

	if (!many_are_wrong(WRITERS * WRITER_PAGES) || !start_writers(thread, start))
		return false;
	well = take_colors();
	return end_writers(thread) && well && all_in_color(WRITERS * WRITER_PAGES);
}

/*
 * To and fro between these colors and any, while its pages are written to and
 * moved: where they end is another test's matter, where others are at work.
 */
static bool changes_of(unsigned int rounds)
{
	char *start = memory_of_all_colors(WRITERS * WRITER_PAGES * PAGE_BYTES);
	pthread_t thread[WRITERS];
	bool well = true;

	if (!start_writers(thread, start))
		return false;
	for (unsigned int round = 0; round < rounds && well; round++) {
		well = write_to(FLOOR "task", round % 2 ? "none" : policy);
		/* Some before all has been moved. */
		if (round % 5 < 2)
			number_of(FLOOR "settled", "moving");
	}
	return end_writers(thread) && well;
}

static bool changes(void)
{
	return changes_of(20);
}

/* For a test that repeats it, beside others. */
static bool some_changes(void)
{
	return changes_of(6);
}

/* What a process without colors has as well stays, until it is gone. */
static bool shared(void)
{
	char *start = memory_of_all_colors(4 * MIB);
	long before = number_of(FLOOR "moving", "shared_anon"), counted;
	struct tally tally;
	unsigned long wrong;
	pid_t child;

	fill(start, 4 * MIB, 6);
	if (!many_are_wrong(1024))
		return false;
	wrong = pages_of(getpid(), &mapping, &wanted, 0).anonymous_wrong;
	open_pipes();
	child = fork();
	if (!child) {
		hear(0);
		child_end(is_filled(start, 4 * MIB, 6));
	}
	if (!take_colors())
		return false;
	counted = number_of(FLOOR "moving", "shared_anon") - before;
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	/* All but a few of the stack and of the program's data, which it has written since: these are its own. */
	if (counted < (long)tally.anonymous_wrong || tally.anonymous_wrong + 32 < wrong)
		return because("%ld pages were counted as shared, %lu are out of color, %lu were", counted, tally.anonymous_wrong,
			       wrong);
	tell(0);
	return child_was_well(child) && take_colors() && is_filled(start, 4 * MIB, 6) && all_in_color(1024);
}

/* The same of page cache, and of memory that is shared: all of it stays that a process without colors has mapped. */
static bool shared_file(void)
{
	size_t bytes = 4 * MIB, pages = bytes / PAGE_BYTES;
	char *start = in_all_colors(bytes, written_file);
	uint64_t *frames = frames_of(start, pages);
	long wrong = pages_out_of_color(start, bytes), counted = -number_of(FLOOR "moving", "shared_file");
	struct tally tally;
	pid_t child;

	if (wrong < (long)pages / 4)
		return because("only %ld of %zu pages are out of color before", wrong, pages);
	open_pipes();
	fflush(stdout);
	child = fork();
	if (!child) {
		bool well;

		end_with_parent();
		/* Shared memory is not mapped by a fork, but when it is used. */
		well = is_filled(start, bytes, IN_FILE);
		tell(1);
		hear(0);
		child_end(well && is_filled(start, bytes, IN_FILE));
	}
	hear(1);
	if (!take_colors())
		return false;
	counted += number_of(FLOOR "moving", "shared_file");
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	printf("# shared-file: %ld pages are out of color, %ld were counted\n", wrong, counted);
	/* More than these are pages of the program, which both have mapped. */
	if (counted < wrong || counted > (long)tally.file_wrong)
		return because("%ld pages were counted as shared, %ld of the file and %lu of all are out of color", counted, wrong,
			       tally.file_wrong);
	if (!stayed_at(frames, start, pages))
		return false;
	tell(0);
	return child_was_well(child) && take_colors() && is_filled(start, bytes, IN_FILE) && area_in_color(getpid(), start, bytes);
}

struct other_thread {
	char policy[600];
	char *start;
	size_t bytes;
	bool well;
};

/* Colors of its own, and memory in them, until it is told to end. */
static void *has_other_colors(void *arg)
{
	struct other_thread *other = arg;

	other->well = write_to(FLOOR "task", other->policy) && number_of(FLOOR "settled", "moving") == 0;
	fill(other->start, other->bytes, 26);
	tell(0);
	hear(1);
	return NULL;
}

/*
 * Whose threads have different colors is left alone, and counted: nobody knows which page is whose. One of them ends, and all is
 * in the colors of the other.
 */
static bool threads_differ(void)
{
	size_t bytes = 2 * MIB, pages = bytes / PAGE_BYTES;
	struct other_thread other = { .start = memory(bytes), .bytes = bytes };
	char *start = memory(bytes);
	long differ = -number_of(FLOOR "settled", "threads_differ"), moved;
	uint64_t *frames[2];
	pthread_t thread;

	snprintf(other.policy, sizeof(other.policy), "strict %s", arguments[4]);
	open_pipes();
	if (!take_colors())
		return false;
	fill(start, bytes, 25);
	frames[0] = frames_of(start, pages);
	if (pthread_create(&thread, NULL, has_other_colors, &other))
		return because("pthread_create");
	hear(0);
	if (!other.well || pages_out_of_color(other.start, bytes) != pages)
		return because("the other thread has no colors of its own");
	differ += number_of(FLOOR "settled", "threads_differ");
	if (differ != 1)
		return because("%ld were counted when the other thread got its colors", differ);
	/* Whichever colors were taken for all, half of this would have to move. */
	frames[1] = frames_of(other.start, pages);
	differ = -number_of(FLOOR "settled", "threads_differ"), moved = -number_of(FLOOR "settled", "moved");
	if (!take_colors())
		return false;
	differ += number_of(FLOOR "settled", "threads_differ"), moved += number_of(FLOOR "settled", "moved");
	if (differ != 1 || moved)
		return because("%ld were counted, and %ld pages moved", differ, moved);
	if (!stayed_at(frames[0], start, pages) || !stayed_at(frames[1], other.start, pages))
		return false;
	tell(1);
	pthread_join(thread, NULL);
	return take_colors() && is_filled(start, bytes, 25) && is_filled(other.start, bytes, 26) && all_in_color(2 * pages);
}

/* What the job of this process has moved so far; -1: it has none. */
static long moved_so_far(void)
{
	FILE *file = fopen(FLOOR "moving", "re");
	char line[256];
	long so_far = -1;

	if (!file)
		err(2, FLOOR "moving");
	while (fgets(line, sizeof(line), file)) {
		const char *moved = strstr(line, " moved ");
		int pid;

		if (moved && sscanf(line, "process %d pass", &pid) == 1 && pid == getpid())
			so_far = atol(moved + strlen(" moved "));
	}
	fclose(file);
	return so_far;
}

/* Looks on until all has moved: how many numbers of moved pages were seen on the way, without the first and the last. */
static bool progress(long all, unsigned int *seen)
{
	long so_far, last = 0;

	for (*seen = 0; (so_far = moved_so_far()) >= 0; last = so_far) {
		if (so_far < last)
			return because("%ld pages were moved, then %ld", last, so_far);
		*seen += so_far > last && so_far < all;
	}
	return true;
}

/* The writer of colors does not wait: pages move a few at a time while it goes on, and it can see how far that is. */
static bool by_the_piece(void)
{
	size_t bytes = 64 * MIB;
	char *start = memory_of_all_colors(bytes);
	long wrong, at_once, moved = -number_of(FLOOR "settled", "moved"), largest;
	unsigned int seen;

	fill(start, bytes, 27);
	wrong = pages_out_of_color(start, bytes);
	if (wrong < (long)(bytes / PAGE_BYTES / 4))
		return because("only %ld pages are out of color before", wrong);
	if (!write_to(FLOOR "task", policy))
		return false;
	at_once = moved_so_far();
	if (!progress(wrong, &seen))
		return false;
	moved += number_of(FLOOR "settled", "moved");
	largest = number_of(FLOOR "moving", "largest_piece");
	printf("# by-the-piece: %ld of %ld pages when the write returned, then %u steps were seen; largest piece %ld\n", at_once, moved,
	       seen, largest);
	if (at_once < 0 || at_once > wrong / 4)
		return because("%ld of %ld pages were moved when the write returned", at_once, wrong);
	if (moved < wrong || seen < 3)
		return because("of %ld pages %ld were moved, in %u steps that were seen", wrong, moved, seen);
	if (largest < 1 || largest > PIECE_PAGES)
		return because("%ld pages were moved under one hold", largest);
	return is_filled(start, bytes, 27) && area_in_color(getpid(), start, bytes);
}

/* A parent and a child that both have the colors: the memory they share moves. */
static bool family(void)
{
	char *start = memory_of_all_colors(4 * MIB);
	bool well;
	pid_t child;

	fill(start, 4 * MIB, 7);
	if (!many_are_wrong(1024))
		return false;
	open_pipes();
	fflush(stdout);
	child = fork();
	if (!child) {
		hear(0);
		well = take_colors();
		tell(1);
		hear(0);
		child_end(well && is_filled(start, 4 * MIB, 7) && all_in_color(1024));
	}
	well = take_colors();
	tell(0);
	hear(1);
	well = well && take_colors() && is_filled(start, 4 * MIB, 7) && all_in_color(1024);
	tell(0);
	return child_was_well(child) && well;
}

/* In a child that is about to take colors: what it does before the pages have moved. */
static void do_at_once(unsigned int round)
{
	char *start = memory_of_all_colors(2 * MIB);
	bool well;
	pid_t child;

	fill(start, 2 * MIB, round);
	if (!write_to(FLOOR "task", policy))
		child_end(false);
	switch (round % 4) {
	case 0:
		_exit(0);
	case 1:
		well = !munmap(start, MIB) && !mprotect(start + MIB, MIB / 2, PROT_READ) &&
			is_filled(start + MIB, MIB, round + MIB);
		child_end(well);
		break;
	case 2:
		child = fork();
		fill(start, MIB, round + 1);
		well = is_filled(start + MIB, MIB, round + MIB);
		if (!child)
			child_end(well);
		well = child_was_well(child) && well && number_of(FLOOR "settled", "moving") >= 0;
		child_end(well && is_filled(start, MIB, round + 1));
		break;
	default:
		execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], "nothing", NULL);
		_exit(127);
	}
}

static bool nothing(void)
{
	char *start = memory(MIB);

	fill(start, MIB, 8);
	return is_filled(start, MIB, 8) && all_in_color(256);
}

/* Processes end, exec, fork and unmap while their pages move. */
static bool races(void)
{
	enum { AT_ONCE = 4, ROUNDS = 40 };
	pid_t child[AT_ONCE];

	fflush(stdout);
	for (unsigned int round = 0; round < ROUNDS; round += AT_ONCE) {
		for (unsigned int i = 0; i < AT_ONCE; i++) {
			child[i] = fork();
			if (!child[i])
				do_at_once(round + i);
		}
		for (unsigned int i = 0; i < AT_ONCE; i++)
			if (!child_was_well(child[i]))
				return false;
	}
	return settled();
}

/* Huge pages from before are split; those of hugetlbfs stay, and are counted. */
static bool huge(void)
{
	char *start = memory(8 * MIB), *fixed;
	char *aligned = (char *)(((uint64_t)start + 2 * MIB - 1) & -(2 * MIB));
	long before = number_of(FLOOR "moving", "hugetlb");
	struct tally tally;

	if (madvise(aligned, 4 * MIB, MADV_HUGEPAGE) || !write_to("/proc/sys/vm/nr_hugepages", "1"))
		return because("no huge pages");
	fill(aligned, 4 * MIB, 9);
	fixed = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (fixed == MAP_FAILED)
		return because("no page of hugetlbfs");
	fill(fixed, 2 * MIB, 10);
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	if (tally.huge < 512)
		return because("%lu pages of huge ones", tally.huge);
	if (!take_colors() || !is_filled(aligned, 4 * MIB, 9) || !is_filled(fixed, 2 * MIB, 10))
		return false;
	if (number_of(FLOOR "moving", "hugetlb") - before != 512)
		return because("%ld pages of hugetlbfs were counted", number_of(FLOOR "moving", "hugetlb") - before);
	munmap(fixed, 2 * MIB);
	return write_to("/proc/sys/vm/nr_hugepages", "0") && all_in_color(1024);
}

static bool merge(char *start, size_t bytes)
{
	if (madvise(start, bytes, MADV_MERGEABLE) || !write_to("/sys/kernel/mm/ksm/pages_to_scan", "5000") ||
	    !write_to("/sys/kernel/mm/ksm/sleep_millisecs", "0") || !write_to("/sys/kernel/mm/ksm/run", "1"))
		return because("KSM");
	for (time_t end = time(NULL) + MERGE_SECONDS; time(NULL) < end; usleep(100000))
		if (number_of("/proc/self/ksm_stat", "ksm_merging_pages") >= 512)
			return true;
	return because("%ld pages were merged", number_of("/proc/self/ksm_stat", "ksm_merging_pages"));
}

static long full_scans(void)
{
	return number_of_file("/sys/kernel/mm/ksm/full_scans");
}

/* Each page is met so often again. */
static bool scans(long count)
{
	long before = full_scans();

	for (time_t end = time(NULL) + MERGE_SECONDS; time(NULL) < end; usleep(100000))
		if (full_scans() >= before + count)
			return true;
	return because("KSM looked at all pages %ld times", full_scans() - before);
}

/* Sixteen of each, so that there are 64 frames. */
static void repeat(char *start, unsigned int first)
{
	for (size_t at = 0; at < 4 * MIB; at += 16 * PAGE_BYTES)
		memset(start + at, first + at / (16 * PAGE_BYTES), 16 * PAGE_BYTES);
}

static bool is_repeated(const char *start, unsigned int first)
{
	for (size_t at = 0; at < 4 * MIB; at += PAGE_BYTES)
		if (start[at] != (char)(first + at / (16 * PAGE_BYTES)) || start[at] != start[at + PAGE_BYTES - 1])
			return because("page %zu has another content", at / PAGE_BYTES);
	return true;
}

/* Merged pages that nobody else has move, and stay merged. */
static bool merged(void)
{
	char *start = memory_of_all_colors(4 * MIB);
	long merging;

	repeat(start, 1);
	if (!merge(start, 4 * MIB) || !write_to("/sys/kernel/mm/ksm/run", "0") || !many_are_wrong(1024) || !take_colors())
		return false;
	merging = number_of("/proc/self/ksm_stat", "ksm_merging_pages");
	if (merging < 512)
		return because("%ld pages are merged still", merging);
	return is_repeated(start, 1) && all_in_color(1024);
}

/* Those that others have as well stay, and are counted; written, they get a color. */
static bool merged_shared(void)
{
	char *start = memory_of_all_colors(4 * MIB);
	long before = number_of(FLOOR "moving", "ksm"), counted;
	struct tally tally;
	pid_t child;

	repeat(start, 1);
	if (!merge(start, 4 * MIB) || !write_to("/sys/kernel/mm/ksm/run", "0"))
		return false;
	open_pipes();
	fflush(stdout);
	child = fork();
	if (!child) {
		hear(0);
		child_end(is_repeated(start, 1));
	}
	if (!take_colors())
		return false;
	counted = number_of(FLOOR "moving", "ksm") - before;
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	if (counted < 256 || tally.anonymous_wrong < 256)
		return because("%ld merged pages were counted, %lu are out of color", counted, tally.anonymous_wrong);
	fill(start, 4 * MIB, 11);
	tell(0);
	return child_was_well(child) && is_filled(start, 4 * MIB, 11) && take_colors() && all_in_color(1024);
}

/*
 * A process without colors has merged pages. One with colors has the same
 * content, and gets none of these; what it has alone is merged, in color.
 */
static bool merging(void)
{
	char *same, *own;
	pid_t child;
	bool well;

	open_pipes();
	fflush(stdout);
	child = fork();
	if (!child) {
		same = memory_of_all_colors(4 * MIB);
		repeat(same, 1);
		well = merge(same, 4 * MIB);
		tell(1);
		hear(0);
		child_end(well && is_repeated(same, 1));
	}
	hear(1);
	if (!take_colors())
		return false;
	same = memory(4 * MIB);
	own = memory(4 * MIB);
	repeat(same, 1);
	repeat(own, 65);
	well = !madvise(same, 4 * MIB, MADV_MERGEABLE) && merge(own, 4 * MIB) && scans(4);
	well = well && area_in_color(getpid(), same, 4 * MIB) && area_in_color(getpid(), own, 4 * MIB);
	well = well && is_repeated(same, 1) && is_repeated(own, 65);
	/* Out to swap and back, what was one page may be several: in color. */
	well = well && !madvise(own, 4 * MIB, MADV_PAGEOUT) && is_repeated(own, 65) && area_in_color(getpid(), own, 4 * MIB);
	/* Each page on its own again. */
	well = write_to("/sys/kernel/mm/ksm/run", "2") && well && area_in_color(getpid(), same, 4 * MIB) &&
		area_in_color(getpid(), own, 4 * MIB) && write_to("/sys/kernel/mm/ksm/run", "0");
	tell(0);
	return child_was_well(child) && well;
}

/* More than the colors have free: what finds no room stays and is counted. */
static bool full(void)
{
	/* Classes of a 16th each: the list has one, and this is more. */
	size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * PAGE_BYTES / 10;
	char *start = memory(bytes);
	long no_room = -number_of(FLOOR "moving", "no_room"), busy = -number_of(FLOOR "moving", "busy");
	struct tally tally;

	fill(start, bytes, 12);
	if (!take_colors())
		return false;
	no_room += number_of(FLOOR "moving", "no_room");
	/* A page that somebody holds at the time has not come as far as to find no room. */
	busy += number_of(FLOOR "moving", "busy");
	tally = pages_of(getpid(), &mapping, &wanted, 0);
	if (no_room < 100 || tally.anonymous_wrong > (unsigned long)(no_room + busy))
		return because("%ld pages found no room, %ld were busy, %lu are out of color", no_room, busy,
			       tally.anonymous_wrong);
	return is_filled(start, bytes, 12);
}

/* Where memory comes from, without this, is the scheduler's choice. */
static bool on_cpu(unsigned int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return !sched_setaffinity(0, sizeof(one), &one) || because("sched_setaffinity");
}

static bool on_first_node(void)
{
	return on_cpu(0);
}

/* Of memory in which any other page is free, compaction moves pages, and each keeps its content. */
static bool compacts(const char *name, char *start, size_t bytes, size_t *moved)
{
	uint64_t *before, *after;

	fill(start, bytes, 13);
	for (size_t at = 0; at < bytes; at += 2 * PAGE_BYTES)
		madvise(start + at, PAGE_BYTES, MADV_DONTNEED);
	before = frames_of(start, bytes / PAGE_BYTES);
	if (!write_to("/proc/sys/vm/compact_memory", "1"))
		return false;
	after = frames_of(start, bytes / PAGE_BYTES);
	*moved = 0;
	for (size_t page = 1; page < bytes / PAGE_BYTES; page += 2) {
		*moved += before[page] != after[page];
		if (*(uint64_t *)(start + page * PAGE_BYTES) != 13 + page * PAGE_BYTES)
			return because("page %zu has another content", page);
	}
	printf("# %s: %zu of %zu pages were moved\n", name, *moved, bytes / PAGE_BYTES / 2);
	return true;
}

/* They stay in color. */
static bool compaction(void)
{
	size_t moved;

	return on_first_node() && take_colors() && compacts("compaction", memory(32 * MIB), 32 * MIB, &moved) &&
		(moved >= 100 || because("%zu pages were moved", moved)) && all_in_color(32 * MIB / PAGE_BYTES / 2);
}

/*
 * Without colors, while others have some for themselves: free blocks with these are no place to move to. Where memory is already
 * where compaction would move it, it moves next to nothing: other memory, then.
 */
static bool compaction_beside(void)
{
	size_t moved = 0;

	for (int attempt = 0; attempt < 6 && moved < 5; attempt++)
		if (!on_first_node() || !compacts("compaction-beside", memory(32 * MIB), 32 * MIB, &moved))
			return false;
	return moved >= 5 || because("next to nothing was moved");
}

/* The node of each page; negative: an error. */
static bool nodes_are(char *start, size_t pages, int node, size_t at_least)
{
	size_t there = 0;

	for (size_t page = 0; page < pages; page++) {
		void *address = start + page * PAGE_BYTES;
		int status = -1;

		if (syscall(SYS_move_pages, 0, 1, &address, NULL, &status, 0))
			return because("move_pages");
		there += status == node;
	}
	return there >= at_least || because("%zu of %zu pages are on node %d", there, pages, node);
}

static size_t pages_on(const char *start, size_t pages, unsigned int node)
{
	size_t there = 0;

	for (size_t page = 0; page < pages; page++) {
		struct color color;
		uint64_t frame = frame_of(getpid(), start + page * PAGE_BYTES);

		there += frame && mapping_color(&mapping, frame, &color) && color.node == node;
	}
	return there;
}

/* The node of the CPU that it runs on. */
static unsigned int node_here(void)
{
	unsigned int cpu, node;

	if (syscall(SYS_getcpu, &cpu, &node, NULL))
		err(2, "getcpu");
	return node;
}

/* Fills memory on the first node, and goes to the last one, where it is used from now on. */
static bool goes_away(char *start, size_t pages)
{
	unsigned int first;

	if (!on_first_node() || !take_colors())
		return false;
	first = node_here();
	fill(start, pages * PAGE_BYTES, 23);
	if (pages_on(start, pages, first) < pages * 9 / 10)
		return because("%zu of %zu pages are on the first node", pages_on(start, pages, first), pages);
	if (!on_cpu(sysconf(_SC_NPROCESSORS_ONLN) - 1))
		return false;
	return node_here() != first || because("one node only");
}

/* The kernel looks at what has run for a second or more. */
static bool use(const char *start, size_t pages)
{
	for (unsigned int round = 0; round < 1000; round++)
		if (!is_filled(start, pages * PAGE_BYTES, 23))
			return false;
	return all_in_color(pages);
}

/* With numa_balancing, memory follows who uses it to another node: in color, too. */
static bool balancing(void)
{
	size_t pages = 2048, there = 0;
	char *start = memory(pages * PAGE_BYTES);
	long migrated = -number_of("/proc/vmstat", "numa_pages_migrated");

	if (!goes_away(start, pages))
		return false;
	for (time_t end = time(NULL) + BALANCE_SECONDS; time(NULL) < end && there < pages / 2;) {
		if (!use(start, pages))
			return false;
		there = pages_on(start, pages, node_here());
	}
	migrated += number_of("/proc/vmstat", "numa_pages_migrated");
	printf("# balancing: %ld pages were migrated, %zu of %zu are there\n", migrated, there, pages);
	return (there >= pages / 2 && migrated >= (long)pages / 4) || because("%ld pages were migrated, %zu of %zu are there",
									  migrated, there, pages);
}

/* All of its colors are on the first node: it does not follow. */
static bool balancing_in_vain(void)
{
	size_t pages = 2048;
	char *start = memory(pages * PAGE_BYTES);
	long before = number_of(FLOOR "moving", "stayed"), stayed = 0;

	if (!goes_away(start, pages))
		return false;
	for (time_t end = time(NULL) + BALANCE_SECONDS; time(NULL) < end && stayed < (long)pages / 2;) {
		if (!use(start, pages))
			return false;
		stayed = number_of(FLOOR "moving", "stayed") - before;
	}
	printf("# balancing-in-vain: %ld times a page stayed\n", stayed);
	return stayed >= (long)pages / 2 || because("%ld pages were to go", stayed);
}

/* From node to node, by migrate_pages() and by move_pages(): in color all the way. */
static bool nodes(void)
{
	size_t pages = 1024;
	unsigned long first = 1, second = 2;
	char *start;

	if (access("/sys/devices/system/node/node1", F_OK)) {
		printf("# one node only: nothing to move between\n");
		return true;
	}
	if (!on_first_node() || !take_colors())
		return false;
	start = memory(pages * PAGE_BYTES);
	fill(start, pages * PAGE_BYTES, 14);
	syscall(SYS_migrate_pages, 0, 8 * sizeof(first), &second, &first);
	syscall(SYS_migrate_pages, 0, 8 * sizeof(first), &first, &second);
	if (!nodes_are(start, pages, 1, pages * 9 / 10) || !all_in_color(pages))
		return false;
	for (size_t page = 0; page < pages; page++) {
		void *address = start + page * PAGE_BYTES;
		int node = 0, status;

		if (syscall(SYS_move_pages, 0, 1, &address, &node, &status, MPOL_MF_MOVE))
			return because("move_pages of page %zu", page);
	}
	return nodes_are(start, pages, 0, pages * 9 / 10) && is_filled(start, pages * PAGE_BYTES, 14) &&
		all_in_color(pages);
}

static void send_file(int socket, int file)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &file, sizeof(int));
	if (sendmsg(socket, &message, 0) != 1)
		err(2, "sendmsg");
}

static int receive_file(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int file;

	if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		errx(2, "recvmsg");
	memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return file;
}

static int user_faults(char *start, size_t bytes)
{
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .range = { (uint64_t)start, bytes }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &area))
		err(2, "userfaultfd");
	return faults;
}

/* Somebody wants a page. When nobody ever does, that ends this program. */
static bool await_fault(int faults)
{
	struct uffd_msg message;
	ssize_t got;

	alarm(120);
	got = read(faults, &message, sizeof(message));
	alarm(0);
	return (got == sizeof(message) && message.event == UFFD_EVENT_PAGEFAULT) || because("no fault");
}

/*
 * A process without colors faults pages in for one that has them: as a
 * debugger does, by process_vm_writev(), as its userfaultfd handler, by
 * process_madvise() and by swapoff.
 */
static bool remote(void)
{
	char *start = memory(5 * MIB), *copy = memory(MIB);
	int sockets[2], faults, file, status;
	char path[64];
	struct iovec from = { copy, MIB }, to = { start + MIB, MIB };
	struct uffdio_copy one = { .dst = (uint64_t)start + 2 * MIB, .src = (uint64_t)copy, .len = MIB };
	struct iovec swapped = { start + 3 * MIB, 2 * MIB };
	pid_t child;
	bool well;

	open_pipes();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return because("socketpair");
	fflush(stdout);
	child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		well = take_colors();
		send_file(sockets[0], user_faults(start + 2 * MIB, MIB));
		fill(start + 3 * MIB, 2 * MIB, 16);
		well = well && !madvise(start + 3 * MIB, 2 * MIB, MADV_PAGEOUT);
		tell(1);
		raise(SIGSTOP);
		/* Untouched so far: all of it has been written by the parent. */
		for (size_t part = 0; part < 3; part++)
			well = well && is_filled(start + part * MIB, MIB, 15);
		child_end(well && is_filled(start + 3 * MIB, 2 * MIB, 16));
	}
	fill(copy, MIB, 15);
	faults = receive_file(sockets[1]);
	hear(1);
	if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
		return because("the child did not stop");
	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	file = open(path, O_RDWR);
	well = file >= 0 && pwrite(file, copy, MIB, (off_t)start) == (ssize_t)MIB;
	well = well ? process_vm_writev(child, &from, 1, &to, 1, 0) == (ssize_t)MIB || because("process_vm_writev")
		: because("%s", path);
	well = well && (!ioctl(faults, UFFDIO_COPY, &one) || because("UFFDIO_COPY"));
	well = well && (pages_of(child, &mapping, &wanted, 0).swapped >= 500 || because("nothing was swapped out"));
	if (well) {
		int pidfd = syscall(SYS_pidfd_open, child, 0);

		swapped.iov_len = MIB;
		well = syscall(SYS_process_madvise, pidfd, &swapped, 1, MADV_WILLNEED, 0) == (long)MIB ||
			because("process_madvise: %s", strerror(errno));
		close(pidfd);
	}
	well = well && (!swapoff(SWAP) || because("swapoff")) && (!swapon(SWAP, 0) || because("swapon"));
	well = well && area_in_color(child, start, 5 * MIB) &&
		(!pages_of(child, &mapping, &wanted, 0).swapped || because("pages are swapped out still"));
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	kill(child, SIGCONT);
	return child_was_well(child) && well;
}

struct reader {
	pid_t process;
	char *from, *to;
	size_t bytes;
};

/* Holds on to the memory of the process, and pins these pages, until somebody serves the fault. */
static void *read_process(void *arg)
{
	struct reader *reader = arg;
	struct iovec to = { reader->to, reader->bytes }, from = { reader->from, reader->bytes };

	return process_vm_readv(reader->process, &to, 1, &from, 1, 0) == (ssize_t)reader->bytes ? arg : NULL;
}

/* Pages that are in use by the kernel stay, and are counted, until they are in use no more. */
static bool pinned(void)
{
	size_t bytes = 2 * MIB, pages = bytes / PAGE_BYTES;
	char *start = memory_of_all_colors(bytes);
	struct reader reader = { .process = getpid(), .from = start, .to = memory(bytes), .bytes = bytes };
	struct uffdio_zeropage served = { .range = { (uint64_t)reader.to, bytes } };
	int faults = user_faults(reader.to, bytes);
	long wrong, counted = -number_of(FLOOR "settled", "pinned");
	uint64_t *frames;
	struct uffd_msg fault;
	pthread_t thread;
	void *was_read;
	bool well;

	fill(start, bytes, 28);
	wrong = pages_out_of_color(start, bytes);
	frames = frames_of(start, pages);
	if (wrong < (long)pages / 4)
		return because("only %ld of %zu pages are out of color before", wrong, pages);
	if (pthread_create(&thread, NULL, read_process, &reader) || read(faults, &fault, sizeof(fault)) != sizeof(fault))
		return because("nobody reads");
	well = take_colors();
	counted += number_of(FLOOR "settled", "pinned");
	well = well && (counted == wrong || because("%ld pages were counted, %ld are out of color", counted, wrong));
	well = well && stayed_at(frames, start, pages);
	well = (!ioctl(faults, UFFDIO_ZEROPAGE, &served) || because("UFFDIO_ZEROPAGE")) && well;
	pthread_join(thread, &was_read);
	return well && (was_read || because("process_vm_readv")) && take_colors() && is_filled(start, bytes, 28) &&
		is_filled(reader.to, bytes, 28) && area_in_color(getpid(), start, bytes);
}

/*
 * Parent and child have the same pages in swap; the child reads them back, and ends, while its memory is still looked at: nobody
 * with colors maps these pages then, but the parent will. Compaction, which would like to have them elsewhere, leaves them.
 */
static bool swapped_twice(void)
{
	/* More than fits between others' pages, which would not be moved. */
	size_t bytes = 24 * MIB;
	char *start = memory(bytes);
	struct reader reader = { .from = start, .to = memory(PAGE_BYTES), .bytes = PAGE_BYTES };
	struct uffdio_zeropage served = { .range = { (uint64_t)reader.to, PAGE_BYTES } };
	int faults = user_faults(reader.to, PAGE_BYTES);
	struct uffd_msg fault;
	pthread_t thread;
	void *was_read;
	long stayed;
	bool well;

	open_pipes();
	if (!on_first_node() || !take_colors())
		return false;
	fill(start, bytes, 21);
	if (madvise(start, bytes, MADV_PAGEOUT) || pages_of(getpid(), &mapping, &wanted, 0).swapped < bytes / PAGE_BYTES / 2)
		return because("little was swapped out");
	fflush(stdout);
	reader.process = fork();
	if (!reader.process) {
		for (size_t at = 0; at < bytes; at += PAGE_BYTES)
			*(volatile char *)(start + at);
		tell(1);
		hear(0);
		_exit(0);
	}
	hear(1);
	if (pthread_create(&thread, NULL, read_process, &reader) || read(faults, &fault, sizeof(fault)) != sizeof(fault))
		return because("the child is not read");
	tell(0);
	well = child_was_well(reader.process);
	stayed = number_of(FLOOR "settled", "stayed");
	well = write_to("/proc/sys/vm/compact_memory", "1") && well;
	stayed = number_of(FLOOR "settled", "stayed") - stayed;
	well = (!ioctl(faults, UFFDIO_ZEROPAGE, &served) || because("UFFDIO_ZEROPAGE")) && well;
	pthread_join(thread, &was_read);
	printf("# swapped-twice: %ld pages stayed\n", stayed);
	return well && (was_read || because("process_vm_readv")) && is_filled(start, bytes, 21) &&
		area_in_color(getpid(), start, bytes) && (stayed >= 16 || because("%ld pages were to move", stayed));
}

static bool write_to_group(const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", group, name);
	return write_to(path, text);
}

/* Writes to a file of the cgroup, and waits until what is there has moved. */
static bool give_group(const char *name, const char *text)
{
	return write_to_group(name, text) && settled();
}

/* Memory from before moves into the colors of the cgroup that a process comes into. */
static bool joins(void)
{
	char *heap = sbrk(2 * MIB), *start = memory_of_all_colors(8 * MIB);

	fill(heap, 2 * MIB, 17);
	fill(start, 8 * MIB, 18);
	return many_are_wrong(10 * MIB / PAGE_BYTES) && give_group("cgroup.procs", "0") && is_filled(heap, 2 * MIB, 17) &&
		is_filled(start, 8 * MIB, 18) && all_in_color(10 * MIB / PAGE_BYTES);
}

/* Ends as the process does: the first thread, which reports otherwise, has ended. */
static void *without_first(void *nothing_given)
{
	char state;

	(void)nothing_given;
	do {
		FILE *file = fopen("/proc/self/stat", "re");

		if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
			err(2, "/proc/self/stat");
		fclose(file);
	} while (state != 'Z');
	if (joins())
		puts("ok - headless");
	else
		printf("not ok - headless # %s\n", reason);
	exit(0);
}

/* The same, of a process whose first thread has ended. */
static bool headless(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, without_first, NULL))
		errx(2, "no thread");
	pthread_exit(NULL);
}

/* In a cgroup with other colors, which is then given these. */
static bool rewritten(void)
{
	char *start;

	if (!give_group("cgroup.procs", "0"))
		return false;
	start = memory(8 * MIB);
	fill(start, 8 * MIB, 19);
	return many_are_wrong(8 * MIB / PAGE_BYTES) && give_group("memory.colors.bank", arguments[2]) &&
		is_filled(start, 8 * MIB, 19) && all_in_color(8 * MIB / PAGE_BYTES);
}

static pid_t fork_into_group(void)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	pid_t child;

	args.cgroup = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if ((int)args.cgroup < 0)
		err(2, "%s", group);
	child = syscall(SYS_clone3, &args, sizeof(args));
	close(args.cgroup);
	return child;
}

/* A child that is made in the cgroup has its colors in what is new and in what it copies; the parent keeps what it has. */
static bool born(void)
{
	char *start = memory_of_all_colors(4 * MIB), *new;
	bool well;
	pid_t child;

	fill(start, 4 * MIB, 20);
	if (!many_are_wrong(4 * MIB / PAGE_BYTES))
		return false;
	fflush(stdout);
	child = fork_into_group();
	if (!child) {
		/* What programs with these colors have just freed is given first, colors or not. */
		fill(memory(64 * MIB), 64 * MIB, 23);
		new = memory(4 * MIB);
		fill(new, 4 * MIB, 21);
		well = is_filled(start, 4 * MIB, 20);
		fill(start, 4 * MIB, 22);
		child_end(well && is_filled(new, 4 * MIB, 21) && is_filled(start, 4 * MIB, 22) &&
			  area_in_color(getpid(), new, 4 * MIB) && area_in_color(getpid(), start, 4 * MIB));
	}
	return child_was_well(child) && is_filled(start, 4 * MIB, 20) && many_are_wrong(4 * MIB / PAGE_BYTES);
}

/*
 * A fork takes long from here on: it copies thousands of mounts, when the address space of the child is there, and others find
 * it, but the child is in no cgroup yet.
 */
static bool slow_forks(void)
{
	const char *place = "/tmp/mounts", *inside = "/tmp/mounts/inside";

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return because("no mounts of its own");
	if ((mkdir(place, 0700) || mkdir(inside, 0700)) && errno != EEXIST)
		return because("%s", place);
	if (mount(place, place, NULL, MS_BIND, NULL))
		return because("%s is not mounted", place);
	/* Each time twice as many. */
	for (int doubled = 0; doubled < 14; doubled++)
		if (mount(place, inside, NULL, MS_BIND | MS_REC, NULL))
			return because("%s is not mounted %d times", inside, 1 << doubled);
	return true;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* What a slow fork is, and what happens meanwhile: memory that parent and child share. */
struct slow {
	double called, returned;
	long scans_called, scans_returned;
	_Atomic bool has_returned;
	double began, ended;
	_Atomic bool has_ended;
};

static struct slow *slow_room(void)
{
	struct slow *slow = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (slow == MAP_FAILED)
		err(2, "a page");
	return slow;
}

/* One that fails does so at its end: there is no place for the new process's file. */
static pid_t slow_fork(struct slow *slow, bool fails)
{
	pid_t child;
	int why;

	fflush(stdout);
	slow->has_returned = false;
	slow->scans_called = full_scans();
	slow->called = now();
	child = syscall(SYS_clone, CLONE_NEWNS | (fails ? CLONE_PIDFD : 0) | SIGCHLD, NULL, NULL, NULL, 0);
	why = errno;
	if (!child) {
		end_with_parent();
		return 0;
	}
	slow->returned = now();
	slow->scans_returned = full_scans();
	slow->has_returned = true;
	errno = why;
	return child;
}

enum { NOT_TRIED = 3, SLOW_FORKS = 3, MORE_FORKS = 30 };

/* Waits for the child of a slow fork; counts it when it has seen what was to be tried. */
static bool slow_child_was_well(pid_t child, unsigned int *tried)
{
	siginfo_t how = { 0 };

	if (child > 0 && !waitid(P_PID, child, &how, WEXITED | WNOWAIT) && how.si_code == CLD_EXITED && how.si_status == NOT_TRIED)
		return waitpid(child, NULL, 0) == child;
	*tried += 1;
	return child_was_well(child);
}

/*
 * A process without colors has merged pages, of all classes. One of the cgroup has each content once, and its children do. KSM sees
 * their memory before they are in the cgroup: the pages of the other process are none for them.
 */
static bool merging_in_fork(void)
{
	struct slow *slow = slow_room();
	unsigned int tried = 0, forks;
	char *start = NULL;
	bool well, known;
	pid_t child;

	open_pipes();
	fflush(stdout);
	child = fork();
	if (!child) {
		start = memory_of_all_colors(4 * MIB);
		fill(start, 2 * MIB, 25);
		fill(start + 2 * MIB, 2 * MIB, 25);
		well = merge(start, 4 * MIB) && scans(2);
		tell(1);
		hear(0);
		child_end(well && is_filled(start, 2 * MIB, 25));
	}
	hear(1);
	known = give_group("cgroup.procs", "0") && slow_forks();
	if (known) {
		start = memory(2 * MIB);
		fill(start, 2 * MIB, 25);
		known = !madvise(start, 2 * MIB, MADV_MERGEABLE) || because("KSM");
	}
	for (forks = 0, well = known; well && tried < SLOW_FORKS && forks < MORE_FORKS; forks++) {
		pid_t made = slow_fork(slow, false);

		if (!made) {
			long scans = full_scans();

			while (!slow->has_returned)
				usleep(1000);
			if (slow->scans_returned < scans)
				scans = slow->scans_returned;
			/* The first and the last one were not all of it in time. */
			if (scans < slow->scans_called + 3)
				_exit(NOT_TRIED);
			child_end(area_in_color(getpid(), start, 2 * MIB) && is_filled(start, 2 * MIB, 25));
		}
		well = slow_child_was_well(made, &tried);
	}
	printf("# merging-in-fork: %u of %u children were seen by KSM\n", tried, forks);
	well = write_to("/sys/kernel/mm/ksm/run", "2") && write_to("/sys/kernel/mm/ksm/run", "0") && well;
	tell(0);
	if (well && tried < SLOW_FORKS)
		well = because("%u of %u children were seen by KSM", tried, forks);
	return child_was_well(child) && well;
}

/* What is done while a child is made: other colors, and then half of the pages are the child's alone, moved or not. */
struct rewriting {
	struct slow *slow;
	char *start;
	useconds_t delay;
	int faults;
};

static void *rewrite_meanwhile(void *argument)
{
	struct rewriting *rewriting = argument;
	struct slow *slow = rewriting->slow;
	bool well;

	usleep(rewriting->delay);
	slow->began = now();
	well = write_to_group("memory.colors.bank", arguments[2]);
	slow->ended = now();
	fill(rewriting->start, MIB, 26);
	slow->has_ended = true;
	return well ? slow : NULL;
}

static bool settled_in_color(const char *start)
{
	return settled() && area_in_color(getpid(), start, 2 * MIB) && is_filled(start, 2 * MIB, 26);
}

/*
 * The cgroup gets these colors while a child is made in it, or almost: what the child has from its parent moves, and what the
 * parent has.
 */
static bool rewritten_meanwhile(bool fails)
{
	struct rewriting rewriting = { .slow = slow_room() };
	char before[sizeof(policy)], *start;
	struct slow *slow = rewriting.slow;
	unsigned int tried = 0, forks;
	bool well = true;
	FILE *file;

	snprintf(before, sizeof(before), "%s/memory.colors.bank", group);
	file = fopen(before, "re");
	if (!file || !fgets(before, sizeof(before), file) || fclose(file))
		return because("%s", group);
	if (!give_group("cgroup.procs", "0") || !slow_forks())
		return false;
	start = memory(2 * MIB);
	fill(start, 2 * MIB, 26);
	rewriting.start = start;
	for (forks = 0; well && tried < SLOW_FORKS && forks < MORE_FORKS; forks++) {
		unsigned int tried_before = tried;
		pthread_t thread;
		void *written;
		pid_t made;

		if (!give_group("memory.colors.bank", before) || !many_are_wrong(2 * MIB / PAGE_BYTES))
			return false;
		/* Some milliseconds at first; shorter when that was too long, or the machine is fast. */
		rewriting.delay = 32000 >> forks % 8;
		slow->has_ended = false;
		if (pthread_create(&thread, NULL, rewrite_meanwhile, &rewriting))
			errx(2, "no thread");
		made = slow_fork(slow, fails);
		if (!made) {
			double born = now();

			while (!slow->has_returned || !slow->has_ended)
				usleep(1000);
			if (slow->began < slow->called || slow->ended > born || slow->ended > slow->returned)
				_exit(NOT_TRIED);
			child_end(settled_in_color(start));
		}
		if (!fails)
			well = slow_child_was_well(made, &tried);
		else
			well = (made < 0 && errno == EFAULT) || because("a fork was to fail");
		pthread_join(thread, &written);
		tried += fails && slow->began > slow->called && slow->ended < slow->returned;
		well = well && (written || because("colors are refused")) && settled_in_color(start) &&
			all_in_color(2 * MIB / PAGE_BYTES);
		if (tried > tried_before)
			printf("# %s: colors came in %u ms\n", arguments[3], rewriting.delay / 1000);
	}
	if (well && tried < SLOW_FORKS)
		return because("colors came during %u of %u forks", tried, forks);
	return well;
}

static bool rewritten_in_fork(void)
{
	return rewritten_meanwhile(false);
}

static bool rewritten_in_failed_fork(void)
{
	return rewritten_meanwhile(true);
}

/* Is executed by the next one: all that it has is in the colors that its cgroup has now. */
static bool executed(void)
{
	return settled() && all_in_color(MIB / PAGE_BYTES);
}

static void *rewrite_and_serve(void *argument)
{
	struct rewriting *rewriting = argument;
	struct uffdio_copy word = { .dst = (uint64_t)rewriting->start, .src = (uint64_t)memory(PAGE_BYTES), .len = PAGE_BYTES };

	snprintf((char *)word.src, PAGE_BYTES, "executed");
	if (!await_fault(rewriting->faults) || !give_group("memory.colors.bank", arguments[2]) ||
	    ioctl(rewriting->faults, UFFDIO_COPY, &word))
		errx(2, "while the argument is read: %s", reason);
	return NULL;
}

/*
 * The cgroup gets these colors while a program is executed in it: its environment is copied, and nobody finds where; the last
 * argument is not there yet.
 */
static bool rewritten_in_exec(void)
{
	struct rewriting rewriting = { .start = memory(PAGE_BYTES) };
	char *words[] = { arguments[0], arguments[1], arguments[2], rewriting.start, NULL }, *environment[17], *word;
	pthread_t thread;

	if (!give_group("cgroup.procs", "0"))
		return false;
	for (int i = 0; i < 16; i++) {
		environment[i] = word = memory(MIB / 8);
		memset(word, 'a' + i, MIB / 8 - PAGE_BYTES);
	}
	environment[16] = NULL;
	rewriting.faults = user_faults(rewriting.start, PAGE_BYTES);
	if (pthread_create(&thread, NULL, rewrite_and_serve, &rewriting))
		errx(2, "no thread");
	execve("/proc/self/exe", words, environment);
	return because("exec: %s", strerror(errno));
}

/* A child that is made while its parent's pages are on the move: those that are the child's alone soon after are so, too. */
static bool forked_on_the_move(void)
{
	char *start = memory_of_all_colors(32 * MIB);
	pid_t child;
	bool moves;

	fill(start, 32 * MIB, 27);
	if (!many_are_wrong(32 * MIB / PAGE_BYTES))
		return false;
	open_pipes();
	fflush(stdout);
	if (!write_to(FLOOR "task", policy))
		return false;
	child = fork();
	if (!child) {
		end_with_parent();
		hear(1);
		child_end(settled() && area_in_color(getpid(), start, 32 * MIB) && is_filled(start, 32 * MIB, 27));
	}
	moves = number_of(FLOOR "moving", "moving") > 0;
	/* From the end on: the worker has begun at the other one. */
	for (size_t at = 32 * MIB; at; at -= PAGE_BYTES)
		start[at - 1] = 1;
	tell(1);
	return child_was_well(child) && all_in_color(32 * MIB / PAGE_BYTES) &&
		(moves || because("nothing was on the move any more"));
}

/* A child that has ended, but whose memory somebody is reading: it is nobody's any more, and holds no page where it was. */
static bool ended_but_read(void)
{
	char *start = memory_of_all_colors(4 * MIB), *unread = memory(PAGE_BYTES), *copy = memory(PAGE_BYTES);
	struct reader reader = { .from = unread, .to = copy, .bytes = PAGE_BYTES };
	int sockets[2], faults;
	pthread_t thread;
	bool well, reads;

	fill(start, 4 * MIB, 29);
	if (!many_are_wrong(4 * MIB / PAGE_BYTES))
		return false;
	open_pipes();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return because("socketpair");
	fflush(stdout);
	reader.process = fork();
	if (!reader.process) {
		end_with_parent();
		send_file(sockets[0], user_faults(unread, PAGE_BYTES));
		hear(0);
		child_end(true);
	}
	faults = receive_file(sockets[1]);
	if (pthread_create(&thread, NULL, read_process, &reader))
		errx(2, "no thread");
	/* Nobody answers until the end. */
	well = await_fault(faults);
	tell(0);
	well = child_was_well(reader.process) && well;
	well = well && take_colors() && is_filled(start, 4 * MIB, 29) && area_in_color(getpid(), start, 4 * MIB);
	reads = pthread_tryjoin_np(thread, NULL) == EBUSY;
	close(faults);
	if (reads)
		pthread_join(thread, NULL);
	return well && (reads || because("nobody reads any more"));
}

static const struct {
	const char *name;
	bool (*run)(void);
} scenarios[] = {
	{ "everything", everything }, { "writers", writers }, { "shared", shared },
	{ "shared-file", shared_file }, { "threads-differ", threads_differ }, { "by-the-piece", by_the_piece }, { "pinned", pinned },
	{ "family", family }, { "races", races }, { "nothing", nothing }, { "huge", huge }, { "merged", merged },
	{ "merged-shared", merged_shared }, { "merging", merging }, { "full", full },
	{ "changes", changes }, { "some-changes", some_changes },
	{ "compaction", compaction }, { "compaction-beside", compaction_beside }, { "nodes", nodes },
	{ "balancing", balancing }, { "balancing-in-vain", balancing_in_vain }, { "remote", remote },
	{ "swapped-twice", swapped_twice },
	{ "joins", joins }, { "headless", headless }, { "rewritten", rewritten }, { "born", born },
	{ "merging-in-fork", merging_in_fork }, { "rewritten-in-fork", rewritten_in_fork },
	{ "rewritten-in-failed-fork", rewritten_in_failed_fork }, { "forked-on-the-move", forked_on_the_move },
	{ "ended-but-read", ended_but_read }, { "rewritten-in-exec", rewritten_in_exec }, { "executed", executed },
};

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 5)
		errx(2, "usage: moving MAPPING CLASSES SCENARIO [GROUP|FILE|OTHERS]");
	arguments = argv;
	group = argv[4];
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	snprintf(policy, sizeof(policy), "strict %s", argv[2]);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[3]))
			continue;
		bool well = scenarios[i].run();

		/* This one is a part of another one. */
		if (well && scenarios[i].run != nothing)
			printf("ok - %s\n", argv[3]);
		else if (!well)
			printf("not ok - %s # %s\n", argv[3], reason);
		return !well;
	}
	errx(2, "%s is no scenario", argv[3]);
}
