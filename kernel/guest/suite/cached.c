// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page cache that nobody maps.
 *
 * cached count MAPPING CLASSES FILE: prints how many pages of a file are cached,
 *	and how many of these lie in other classes.
 * cached touch MAPPING CLASSES FILE: maps the file and reads each page.
 * cached opened MAPPING CLASSES FILE: reads the file and keeps it open, gives
 *	itself the policy "strict CLASSES", and prints that before and afterwards.
 * cached opened-beside MAPPING CLASSES FILE: the same while another process has
 *	the file open; after the second count, how many were counted as open elsewhere.
 * cached hugetlb MAPPING CLASSES: the same with a file of hugetlbfs, whose pages
 *	stay; prints what it has read back.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

#define FLOOR "/sys/kernel/debug/memtint/"

/* Maps the file for the time of counting. */
static void count(int file)
{
	unsigned long cached = 0, wrong = 0, pages;
	unsigned char *is_cached;
	struct stat about;
	volatile char *start;

	if (fstat(file, &about))
		err(2, "fstat");
	pages = (about.st_size + PAGE_BYTES - 1) / PAGE_BYTES;
	is_cached = malloc(pages);
	start = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
	/* Looked at, neither collapsed into huge pages meanwhile nor read ahead. */
	if (!is_cached || start == MAP_FAILED || madvise((void *)start, about.st_size, MADV_NOHUGEPAGE) ||
	    madvise((void *)start, about.st_size, MADV_RANDOM) ||
	    mincore((void *)start, about.st_size, is_cached))
		err(2, "a file of %lu pages", pages);
	for (unsigned long page = 0; page < pages; page++) {
		const char *address = (const char *)start + page * PAGE_BYTES;
		struct color color;
		uint64_t frame;

		if (!(is_cached[page] & 1))
			continue;
		(void)*(volatile const char *)address;
		frame = frame_of(getpid(), address);
		cached++;
		wrong += !frame || !mapping_color(&mapping, frame, &color) || !is_wanted(&wanted, color.bank_class);
	}
	munmap((void *)start, about.st_size);
	free(is_cached);
	printf("%lu %lu\n", cached, wrong);
	fflush(stdout);
}

static void touch(int file)
{
	volatile const char *start;
	struct stat about;

	if (fstat(file, &about))
		err(2, "fstat");
	start = mmap(NULL, about.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (start == MAP_FAILED)
		err(2, "mmap");
	for (off_t at = 0; at < about.st_size; at += PAGE_BYTES)
		(void)start[at];
}

static int open_and_read(const char *path)
{
	static char piece[65536];
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		err(2, "%s", path);
	while (read(file, piece, sizeof(piece)) > 0)
		;
	return file;
}

static pid_t open_beside(const char *path)
{
	int there[2];
	char byte;
	pid_t child;

	if (pipe2(there, O_CLOEXEC))
		err(2, "pipe2");
	child = fork();
	if (!child) {
		end_with_parent();
		open_and_read(path);
		if (write(there[1], "", 1) != 1)
			err(2, "write");
		for (;;)
			pause();
	}
	if (read(there[0], &byte, 1) != 1)
		err(2, "read");
	return child;
}

static void take_colors(const char *classes)
{
	char policy[600];

	snprintf(policy, sizeof(policy), "strict %s", classes);
	if (!write_to(FLOOR "task", policy) || number_of(FLOOR "settled", "moving"))
		errx(2, "%s: refused, or never settled", policy);
}

/* Strict as it is, it gets a page of the pool, in whatever colors, but not silently. */
static bool is_counted(void)
{
	long before = number_of(FLOOR "stat", "fallback");
	char *start = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (start == MAP_FAILED)
		err(2, "mmap");
	fill(start, 2 * MIB, 2);
	return number_of(FLOOR "stat", "fallback") >= before + 512 || because("pages of the pool are not counted");
}

static int keep_hugetlb(const char *classes)
{
	int file = memfd_create("cached", MFD_CLOEXEC | MFD_HUGETLB);
	char *start;

	if (file < 0 || ftruncate(file, 2 * MIB) || fallocate(file, 0, 0, 2 * MIB))
		err(2, "hugetlbfs");
	take_colors(classes);
	start = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (start == MAP_FAILED)
		err(2, "mmap");
	fill(start, 2 * MIB, 1);
	if (is_filled(start, 2 * MIB, 1) && is_counted())
		printf("filled, and counted\n");
	else
		printf("%s\n", reason);
	return 0;
}

int main(int argc, char **argv)
{
	pid_t beside = 0;
	long elsewhere;
	int file;

	if (argc != 5 && !(argc == 4 && !strcmp(argv[1], "hugetlb")))
		errx(2, "usage: cached count|touch|opened|opened-beside MAPPING CLASSES FILE; cached hugetlb MAPPING CLASSES");
	mapping = mapping_read(argv[2]);
	wanted = wanted_read(argv[3], mapping_classes(&mapping));
	if (!strcmp(argv[1], "hugetlb"))
		return keep_hugetlb(argv[3]);
	if (!strcmp(argv[1], "count") || !strcmp(argv[1], "touch")) {
		file = open(argv[4], O_RDONLY | O_CLOEXEC);
		if (file < 0)
			err(2, "%s", argv[4]);
		if (!strcmp(argv[1], "count"))
			count(file);
		else
			touch(file);
		return 0;
	}
	if (!strcmp(argv[1], "opened-beside"))
		beside = open_beside(argv[4]);
	file = open_and_read(argv[4]);
	count(file);
	elsewhere = number_of(FLOOR "moving", "open_elsewhere");
	take_colors(argv[3]);
	elsewhere = number_of(FLOOR "moving", "open_elsewhere") - elsewhere;
	count(file);
	if (beside) {
		printf("%ld\n", elsewhere);
		kill(beside, SIGKILL);
		waitpid(beside, NULL, 0);
	}
	return 0;
}
