// SPDX-License-Identifier: GPL-2.0-only
/*
 * moving MAPPING CLASSES SCENARIO: starts without colors and has memory, gives
 * itself the policy "strict CLASSES" by a write to debugfs, and looks what
 * became of the memory that was there; or has colors, and others move its
 * memory or fault it in. One scenario in each run: "ok - NAME", or "not ok -
 * NAME # reason". What a scenario writes it reads back.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
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
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define FLOOR "/sys/kernel/debug/memtint/"
#define SWAP "/dev/ram0"

static char policy[600];
static char **arguments;

/*
 * Memory that lies in all colors. What was freed last is given first, and may
 * well have the colors of the program before: that is kept until this is there.
 */
static char *memory_of_all_colors(size_t bytes)
{
	char *hog = memory(64 * MIB), *start;

	memset(hog, 1, 64 * MIB);
	start = memory(bytes);
	memset(start, 0, bytes);
	munmap(hog, 64 * MIB);
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

/* Gives this process its colors, and waits until what it has is in them. */
static bool take_colors(void)
{
	if (!write_to(FLOOR "task", policy))
		return false;
	return number_of(FLOOR "settled", "moving") == 0 || because("not settled");
}

/* Nothing but this piece: what a child has from its parent is not its own. */
static bool area_in_color(pid_t pid, const char *start, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		struct color color;
		uint64_t frame = frame_of(pid, start + at);

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
	struct tally tally = pages_of(getpid(), &mapping, &wanted, 0);

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
	if (!many_are_wrong(28 * MIB / PAGE_BYTES) || !take_colors())
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
static bool writers(void)
{
	size_t bytes = WRITER_PAGES * PAGE_BYTES;
	char *start = memory_of_all_colors(WRITERS * bytes);
	pthread_t thread[WRITERS];
	bool well;

	if (!many_are_wrong(WRITERS * WRITER_PAGES))
		return false;
	for (unsigned int i = 0; i < WRITERS; i++)
		if (pthread_create(&thread[i], NULL, write_all_the_time, start + i * bytes))
			return because("pthread_create");
	well = take_colors();
	writers_stop = true;
	for (unsigned int i = 0; i < WRITERS; i++) {
		void *wrong = NULL;

		if (pthread_join(thread[i], &wrong) || wrong)
			well = because("%s", wrong ? (char *)wrong : "pthread_join");
	}
	return well && all_in_color(WRITERS * WRITER_PAGES);
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
	return number_of(FLOOR "settled", "moving") == 0 || because("not settled");
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
	for (unsigned int i = 0; i < 100; i++) {
		if (number_of("/proc/self/ksm_stat", "ksm_merging_pages") >= 512)
			return true;
		usleep(100000);
	}
	return because("%ld pages were merged", number_of("/proc/self/ksm_stat", "ksm_merging_pages"));
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
	long scans;
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
	well = !madvise(same, 4 * MIB, MADV_MERGEABLE) && merge(own, 4 * MIB);
	/* Each page has been met often enough. */
	scans = number_of_file("/sys/kernel/mm/ksm/full_scans");
	for (unsigned int i = 0; i < 100 && number_of_file("/sys/kernel/mm/ksm/full_scans") < scans + 4; i++)
		usleep(100000);
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

static uint64_t *frames_of(char *start, size_t pages)
{
	uint64_t *frames = calloc(pages, sizeof(*frames));

	for (size_t page = 0; page < pages; page++)
		frames[page] = frame_of(getpid(), start + page * PAGE_BYTES);
	return frames;
}

/* Where memory comes from, without this, is the scheduler's choice. */
static bool on_first_node(void)
{
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	return !sched_setaffinity(0, sizeof(first), &first) || because("sched_setaffinity");
}

/* Of memory in which any other page is free, compaction moves pages, and each keeps its content. */
static bool compacts(const char *name, size_t at_least)
{
	size_t bytes = 32 * MIB, moved = 0;
	char *start = memory(bytes);
	uint64_t *before, *after;

	fill(start, bytes, 13);
	for (size_t at = 0; at < bytes; at += 2 * PAGE_BYTES)
		madvise(start + at, PAGE_BYTES, MADV_DONTNEED);
	before = frames_of(start, bytes / PAGE_BYTES);
	if (!write_to("/proc/sys/vm/compact_memory", "1"))
		return false;
	after = frames_of(start, bytes / PAGE_BYTES);
	for (size_t page = 1; page < bytes / PAGE_BYTES; page += 2) {
		moved += before[page] != after[page];
		if (*(uint64_t *)(start + page * PAGE_BYTES) != 13 + page * PAGE_BYTES)
			return because("page %zu has another content", page);
	}
	printf("# %s: %zu of %zu pages were moved\n", name, moved, bytes / PAGE_BYTES / 2);
	return moved >= at_least || because("%zu pages were moved", moved);
}

/* They stay in color. */
static bool compaction(void)
{
	return on_first_node() && take_colors() && compacts("compaction", 100) && all_in_color(32 * MIB / PAGE_BYTES / 2);
}

/* Without colors, while others have some for themselves: free blocks with these are no place to move to. */
static bool compaction_beside(void)
{
	return on_first_node() && compacts("compaction-beside", 5);
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

static const struct {
	const char *name;
	bool (*run)(void);
} scenarios[] = {
	{ "everything", everything }, { "writers", writers }, { "shared", shared }, { "family", family },
	{ "races", races }, { "nothing", nothing }, { "huge", huge }, { "merged", merged },
	{ "merged-shared", merged_shared }, { "merging", merging }, { "full", full },
	{ "compaction", compaction }, { "compaction-beside", compaction_beside }, { "nodes", nodes }, { "remote", remote },
};

int main(int argc, char **argv)
{
	if (argc != 4)
		errx(2, "usage: moving MAPPING CLASSES SCENARIO");
	arguments = argv;
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
