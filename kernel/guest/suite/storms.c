// SPDX-License-Identifier: GPL-2.0-only
/*
 * storms MAPPING CLASSES SECONDS SEED: as many short processes as the machine
 * makes in that time, a few at once, that fork, execute, share pages and copy
 * them, make threads, or are killed at work. Each that comes to its end looks
 * whether its memory is as written and in its classes.
 *
 * Prints "storms N" processes, and why each that failed has failed.
 */
#define _GNU_SOURCE
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pages.h"

#define AT_ONCE 6
#define SHARED_PAGES 256UL

static struct mapping mapping;
static struct wanted wanted;
static char **arguments;
static uint64_t *shared;
static uint64_t seed;

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t *words_of(unsigned long pages)
{
	uint64_t *words = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (words == MAP_FAILED)
		err(2, "mmap");
	return words;
}

static void number(uint64_t *words, unsigned long pages, uint64_t from)
{
	for (unsigned long i = 0; i < pages; i++)
		words[i * PAGE_BYTES / sizeof(*words)] = from + i;
}

/* As numbered, except by those who have a copy. */
static bool is_numbered(const uint64_t *words, unsigned long pages, uint64_t from)
{
	for (unsigned long i = 0; i < pages; i++)
		if (words[i * PAGE_BYTES / sizeof(*words)] != from + i)
			return false;
	return true;
}

static bool in_color(unsigned long pages)
{
	struct tally tally = own_pages(pages, &mapping, &wanted, 2);

	if (tally.anonymous >= pages && !tally.anonymous_wrong && !tally.nowhere)
		return true;
	printf("failed: of %lu pages, %lu expected, %lu are out of color, %lu without; %lu are in swap\n", tally.anonymous,
	       pages, tally.anonymous_wrong, tally.nowhere, tally.swapped);
	return false;
}

static bool content(bool well)
{
	if (!well)
		printf("failed: another content\n");
	return well;
}

static bool copies(void)
{
	unsigned long first = next() % SHARED_PAGES, pages = 1 + next() % (SHARED_PAGES - first);
	uint64_t *part = shared + first * PAGE_BYTES / sizeof(*shared);

	if (!content(is_numbered(shared, SHARED_PAGES, 1)))
		return false;
	number(part, pages, 1000);
	return content(is_numbered(part, pages, 1000)) && in_color(pages);
}

static bool writes(void)
{
	unsigned long pages = 1 + next() % 512;
	uint64_t *words = words_of(pages);

	number(words, pages, 5);
	return content(is_numbered(words, pages, 5)) && in_color(pages);
}

static bool is_well(pid_t child)
{
	int status;

	return child > 0 && waitpid(child, &status, 0) == child && !status;
}

static bool descends(void)
{
	pid_t child = fork();

	if (!child) {
		bool well = next() % 3 ? descends() : copies();

		fflush(stdout);
		_exit(!well);
	}
	number(shared, SHARED_PAGES / 2, 7);
	return is_well(child) && content(is_numbered(shared, SHARED_PAGES / 2, 7)) && in_color(SHARED_PAGES / 2);
}

static bool executes(void)
{
	execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], "once", arguments[4], NULL);
	err(2, "exec");
}

static bool executes_another(void)
{
	pid_t child = vfork();

	if (!child) {
		execl("/bin/busybox", "true", NULL);
		_exit(2);
	}
	return is_well(child);
}

static void *in_thread(void *unused)
{
	unsigned long pages = 64;
	uint64_t *words = words_of(pages);

	number(words, pages, 9);
	return is_numbered(words, pages, 9) ? unused : "wrong";
}

static bool threads(void)
{
	pthread_t thread[4];
	void *wrong;
	bool well = true;

	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, in_thread, NULL))
			errx(2, "thread");
	for (int i = 0; i < 4; i++)
		well = !pthread_join(thread[i], &wrong) && !wrong && well;
	return content(well) && in_color(256);
}

/* Killed from outside, wherever it is. */
static bool lingers(void)
{
	for (;;)
		writes();
	return false;
}

static bool (*const doings[])(void) = {
	copies, writes, descends, executes, executes_another, threads, copies, writes, lingers,
};

#define DOINGS (sizeof(doings) / sizeof(doings[0]))

/* Starts one; a lingering one is killed a little later, which is how it ends well. */
static pid_t start(bool *lingering)
{
	uint64_t number = next(), childs = next();
	pid_t child;

	*lingering = doings[number % DOINGS] == lingers;
	fflush(stdout);
	child = fork();
	if (child < 0)
		err(2, "fork");
	if (!child) {
		bool well;

		seed = childs;
		well = doings[number % DOINGS]();
		fflush(stdout);
		_exit(!well);
	}
	return child;
}

int main(int argc, char **argv)
{
	struct { pid_t child; bool lingering; } running[AT_ONCE] = { 0 };
	unsigned long count = 0, failed = 0;
	time_t end;

	if (argc != 5)
		errx(2, "storms MAPPING CLASSES SECONDS SEED");
	arguments = argv;
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	seed = strtoul(argv[4], NULL, 10);
	if (!strcmp(argv[3], "once"))
		return !writes();
	shared = words_of(SHARED_PAGES);
	number(shared, SHARED_PAGES, 1);
	end = time(NULL) + atoi(argv[3]);
	for (bool busy = true; busy;) {
		busy = false;
		for (int i = 0; i < AT_ONCE; i++) {
			int status;

			if (!running[i].child && time(NULL) < end) {
				running[i].child = start(&running[i].lingering);
				count++;
			}
			if (!running[i].child)
				continue;
			busy = true;
			if (running[i].lingering) {
				usleep(20000);
				kill(running[i].child, SIGKILL);
			}
			if (waitpid(running[i].child, &status, running[i].lingering ? 0 : WNOHANG) != running[i].child)
				continue;
			if (running[i].lingering ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status) {
				printf("failed: a child ended with status %#x\n", status);
				failed++;
			}
			running[i].child = 0;
		}
		usleep(1000);
	}
	if (!is_numbered(shared, SHARED_PAGES, 1))
		printf("failed: somebody has written into what was not shared\n"), failed++;
	printf("storms %lu\n", count);
	return failed > 0;
}
