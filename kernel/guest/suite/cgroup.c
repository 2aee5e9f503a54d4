// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs for the suite of cgroups. Each prints "ok - NAME" or
 * "not ok - NAME # reason", or ends as what it starts does.
 *
 * cgroup enter GROUP PROGRAM...: starts a program inside a group from its first
 *	instruction (CLONE_INTO_CGROUP).
 * cgroup grow MIB [stay]: writes so much memory, and keeps it until killed.
 * cgroup notified FILE SECONDS: waits until the kernel says that a file of
 *	events has changed; prints "waiting" first.
 * cgroup move MAPPING FROM CLASSES TO CLASSES ROUNDS: goes from group to group
 *	with threads at work; what is new lies in the classes of the group it is in.
 * cgroup hostile GROUP OUTSIDE MAPPING CLASSES: owns the group, without
 *	privileges, and tries to get pages of other classes than those; OUTSIDE
 *	is a group that it does not own.
 * cgroup used MAPPING CLASSES FILE: writes which frames of these classes are in
 *	use by anybody, by /proc/kpageflags; prints how many.
 * cgroup movable MAPPING CLASSES: prints how many of these are of processes and
 *	of files.
 * cgroup lies MAPPING CLASSES SETS NODES [PAGES]: gets memory, and prints how
 *	many pages of it lie in other bank classes, set colors and nodes than those.
 * cgroup newly MAPPING CLASSES FILE: prints how many are in use now that were
 *	not then, and tells what the first ones are used for.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kernel-page-flags.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

#define MIB (1UL << 20)
#define NEW_PAGES 1024
#define LYING_PAGES 4096

static struct mapping mapping;
/* Opened while privileged; it shows frames to whoever holds it. */
static int pagemap;

static void answer(const char *name, const char *reason)
{
	printf(*reason ? "not ok - %s # %s\n" : "ok - %s\n", name, reason);
	fflush(stdout);
}

static char *memory(size_t bytes)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		err(2, "%zu bytes", bytes);
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		start[at] = 1;
	return start;
}

/* Counts pages of other classes among those of an area that is in use. */
static unsigned long wrong_pages(const char *start, size_t bytes, const struct wanted *wanted)
{
	unsigned long wrong = 0;

	for (size_t at = 0; at < bytes; at += PAGE_BYTES) {
		uint64_t entry = own_entry(pagemap, start + at);
		struct color color;

		wrong += !(entry >> 63) || !mapping_color(&mapping, entry & ((1UL << 55) - 1), &color) ||
			!is_wanted(wanted, color.bank_class);
	}
	return wrong;
}

static unsigned long new_wrong(const struct wanted *wanted)
{
	char *start = memory(NEW_PAGES * PAGE_BYTES);
	unsigned long wrong = wrong_pages(start, NEW_PAGES * PAGE_BYTES, wanted);

	munmap(start, NEW_PAGES * PAGE_BYTES);
	return wrong;
}

static int print_elsewhere(char **lists, unsigned long pages)
{
	/* Nodes are numbered as in the mapping, with gaps or without. */
	const uint32_t counts[3] = { mapping_classes(&mapping), mapping.set.cosets, 1024 };
	unsigned long elsewhere[3] = { 0 };
	char *start = memory(pages * PAGE_BYTES);
	struct wanted wanted[3];

	for (int i = 0; i < 3; i++)
		wanted[i] = wanted_read(lists[i], counts[i]);
	for (unsigned long page = 0; page < pages; page++) {
		uint64_t entry = own_entry(pagemap, start + page * PAGE_BYTES);
		struct color color;

		if (!(entry >> 63) || !mapping_color(&mapping, entry & ((1UL << 55) - 1), &color))
			errx(2, "page %lu of %lu is nowhere", page, pages);
		elsewhere[0] += !is_wanted(&wanted[0], color.bank_class);
		elsewhere[1] += !is_wanted(&wanted[1], color.set_color);
		elsewhere[2] += !is_wanted(&wanted[2], color.node);
	}
	printf("bank %lu set %lu node %lu\n", elsewhere[0], elsewhere[1], elsewhere[2]);
	return 0;
}

static int write_file(const char *group, const char *name, const char *text)
{
	char path[512];
	int file, result = 0;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	if (write(file, text, strlen(text)) < 0)
		result = -errno;
	close(file);
	return result;
}

static int enter(const char *group, char **program)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int status;
	pid_t child;

	args.cgroup = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if ((int)args.cgroup < 0)
		err(125, "%s", group);
	child = syscall(SYS_clone3, &args, sizeof(args));
	if (child < 0)
		err(125, "clone3 into %s", group);
	if (!child) {
		execvp(program[0], program);
		err(125, "%s", program[0]);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int notified(const char *path, int seconds)
{
	char text[512];
	struct pollfd file = { .fd = open(path, O_RDONLY), .events = POLLPRI };

	if (file.fd < 0)
		err(2, "%s", path);
	if (read(file.fd, text, sizeof(text)) < 0)
		err(2, "%s", path);
	printf("waiting\n");
	fflush(stdout);
	return poll(&file, 1, seconds * 1000) != 1;
}

/* Prints how many frames of the classes there are of which counts() says so, by their flags. */
static void print_count(const char *classes, bool (*counts)(uint64_t pfn, uint64_t flags))
{
	struct wanted wanted = wanted_read(classes, mapping_classes(&mapping));
	uint64_t flags[512], pfn = 0;
	unsigned long count = 0;
	ssize_t got;
	int file = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		err(2, "kpageflags");
	while ((got = read(file, flags, sizeof(flags))) > 0) {
		for (size_t i = 0; i < got / sizeof(flags[0]); i++, pfn++) {
			struct color color;

			if (!(flags[i] >> KPF_NOPAGE & 1) && mapping_color(&mapping, pfn, &color) &&
			    is_wanted(&wanted, color.bank_class))
				count += counts(pfn, flags[i]);
		}
	}
	close(file);
	printf("%lu\n", count);
}

/* A bit for each frame of up to 32 GiB. */
static uint8_t marks[1 << 20];

static bool is_used(uint64_t pfn, uint64_t flags)
{
	if (pfn / 8 >= sizeof(marks))
		errx(2, "frame %#lx is beyond the table", pfn);
	return !(flags >> KPF_BUDDY & 1);
}

static bool mark_used(uint64_t pfn, uint64_t flags)
{
	if (is_used(pfn, flags))
		marks[pfn / 8] |= 1 << pfn % 8;
	return is_used(pfn, flags);
}

static bool is_newly_used(uint64_t pfn, uint64_t flags)
{
	static int told;
	bool is_new = is_used(pfn, flags) && !(marks[pfn / 8] >> pfn % 8 & 1);

	if (is_new && told++ < 4)
		fprintf(stderr, "# frame %#lx is in use: flags %#lx\n", pfn, flags);
	return is_new;
}

static bool is_movable(uint64_t pfn, uint64_t flags)
{
	(void)pfn;
	return flags >> KPF_LRU & 1;
}

static int census(const char *classes, const char *path, bool mark)
{
	int file = open(path, mark ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);

	if (file < 0 || (!mark && read(file, marks, sizeof(marks)) != sizeof(marks)))
		err(2, "%s", path);
	print_count(classes, mark ? mark_used : is_newly_used);
	if (mark && write(file, marks, sizeof(marks)) != sizeof(marks))
		err(2, "%s", path);
	return 0;
}

static _Atomic bool stop;

static void *churn(void *unused)
{
	(void)unused;
	while (!stop)
		munmap(memory(MIB), MIB);
	return NULL;
}

static int move(char **groups, unsigned int rounds)
{
	struct wanted wanted[2];
	pthread_t threads[3];
	unsigned long wrong = 0;
	char reason[100] = "";

	for (int i = 0; i < 2; i++)
		wanted[i] = wanted_read(groups[2 * i + 1], mapping_classes(&mapping));
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	for (unsigned int round = 0; round < rounds && !wrong; round++) {
		if (write_file(groups[round % 2 * 2], "cgroup.procs", "0"))
			err(2, "%s", groups[round % 2 * 2]);
		wrong = new_wrong(&wanted[round % 2]);
	}
	stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (wrong)
		snprintf(reason, sizeof(reason), "%lu of %u new pages are elsewhere", wrong, NEW_PAGES);
	answer("to and fro with threads", reason);
	return wrong != 0;
}

static void expect_held(const char *what, const struct wanted *wanted)
{
	unsigned long wrong = new_wrong(wanted);
	char reason[100] = "";

	if (wrong)
		snprintf(reason, sizeof(reason), "%lu of %u pages are outside", wrong, NEW_PAGES);
	answer(what, reason);
}

static void expect_error(const char *what, int result)
{
	answer(what, result < 0 ? "" : "it was accepted");
}

static int hostile(const char *group, const char *outside, const struct wanted *wanted)
{
	uint32_t classes = mapping_classes(&mapping);
	char below[512], other[16];

	if (write_file(group, "cgroup.procs", "0"))
		err(2, "%s", group);
	if (setgid(1000) || setuid(1000))
		err(2, "setuid");
	expect_held("in the group", wanted);
	expect_error("the group's colors are not the delegatee's", write_file(group, "memory.colors.bank", "*"));
	expect_error("nor is its mode", write_file(group, "memory.colors.mode", "soft"));
	expect_error("to a group outside", write_file(outside, "cgroup.procs", "0"));
	expect_error("to the root", write_file("/sys/fs/cgroup", "cgroup.procs", "0"));
	/* A group has tasks, or groups below with controllers. */
	snprintf(below, sizeof(below), "%s/below", group);
	if (mkdir(below, 0755) || write_file(below, "cgroup.procs", "0") ||
	    write_file(group, "cgroup.subtree_control", "+memory"))
		err(2, "%s", below);
	expect_held("in a group of its own", wanted);
	answer("asks for all", write_file(below, "memory.colors.bank", "*") ? "refused" : "");
	expect_held("asked for all", wanted);
	for (uint32_t class = 0; class < classes; class++) {
		snprintf(other, sizeof(other), "%u", class);
		if (!is_wanted(wanted, class) && !write_file(below, "memory.colors.bank", other))
			answer("asks for a class outside", other);
	}
	expect_held("asked for classes outside", wanted);
	answer("asks for soft", write_file(below, "memory.colors.mode", "soft") ? "refused" : "");
	expect_held("asked for soft", wanted);
	answer("asks for nothing", write_file(below, "memory.colors.bank", "\n") ? "refused" : "");
	expect_held("asked for nothing", wanted);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "enter") && argc > 3)
		return enter(argv[2], argv + 3);
	if (!strcmp(what, "grow") && argc > 2) {
		memory(strtoul(argv[2], NULL, 10) * MIB);
		printf("grown\n");
		fflush(stdout);
		if (argc > 3)
			pause();
		return 0;
	}
	if (!strcmp(what, "notified") && argc == 4)
		return notified(argv[2], atoi(argv[3]));
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		err(2, "pagemap");
	if (!strcmp(what, "move") && argc == 8) {
		mapping = mapping_read(argv[2]);
		return move(argv + 3, strtoul(argv[7], NULL, 10));
	}
	if ((!strcmp(what, "used") || !strcmp(what, "newly")) && argc == 5) {
		mapping = mapping_read(argv[2]);
		return census(argv[3], argv[4], !strcmp(what, "used"));
	}
	if (!strcmp(what, "lies") && (argc == 6 || argc == 7)) {
		mapping = mapping_read(argv[2]);
		return print_elsewhere(argv + 3, argc == 7 ? strtoul(argv[6], NULL, 10) : LYING_PAGES);
	}
	if (!strcmp(what, "movable") && argc == 4) {
		mapping = mapping_read(argv[2]);
		print_count(argv[3], is_movable);
		return 0;
	}
	if (!strcmp(what, "hostile") && argc == 6) {
		struct wanted wanted;

		mapping = mapping_read(argv[4]);
		wanted = wanted_read(argv[5], mapping_classes(&mapping));
		return hostile(argv[2], argv[3], &wanted);
	}
	errx(2, "see the head of cgroup.c");
}
