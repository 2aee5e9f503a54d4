/* What the test programs share: patterns in memory, and a place to be looked at. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

#define CHECK(what)                                                                                     \
	do {                                                                                            \
		if (!(what)) {                                                                          \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
			fflush(NULL);                                                                   \
			_exit(1);                                                                       \
		}                                                                                       \
	} while (0)

/* A word that names its place and its writer. */
static inline uint64_t word_for(size_t page, size_t at, uint64_t seed)
{
	return (seed << 48) ^ (page << 12) ^ at ^ 0x5a5a000000000000;
}

/* Writes a pattern into every fourth part of each page. */
static inline void fill(void *memory, size_t pages, uint64_t seed)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t at = 0; at < PAGE; at += PAGE / 4)
			*(volatile uint64_t *)((char *)memory + page * PAGE + at) = word_for(page, at, seed);
}

/* Whether `fill` with this seed was the last to write; `from` is the number that the first page had then. */
static inline int holds_from(const void *memory, size_t pages, uint64_t seed, size_t from)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t at = 0; at < PAGE; at += PAGE / 4)
			if (*(volatile uint64_t *)((char *)memory + page * PAGE + at) != word_for(from + page, at, seed))
				return 0;
	return 1;
}

static inline int holds(const void *memory, size_t pages, uint64_t seed)
{
	return holds_from(memory, pages, seed, 0);
}

/* Whether every byte is zero. */
static inline int is_zero(const void *memory, size_t pages)
{
	const uint64_t *words = memory;
	for (size_t at = 0; at < pages * PAGE / 8; at++)
		if (words[at])
			return 0;
	return 1;
}

static inline void *map(size_t pages)
{
	void *memory = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Lets the test look at this process, until it says a byte. */
static inline void ready(void)
{
	char byte;
	printf("READY %d\n", (int)getpid());
	fflush(stdout);
	CHECK(read(0, &byte, 1) == 1);
}

static inline long minor_faults(void)
{
	struct rusage usage;
	CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt;
}

static inline int child_status(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

struct check {
	const char *name;
	void (*body)(void);
};

/* Runs the check that the first argument names. */
static inline int run_check(const struct check *checks, size_t count, int argc, char **argv)
{
	/* The library must not take heap for it while a check moves the end of the heap. */
	static char buffer[BUFSIZ];
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	for (size_t i = 0; i < count; i++) {
		if (argc > 1 && strcmp(argv[1], checks[i].name) == 0) {
			checks[i].body();
			puts("OK");
			return 0;
		}
	}
	fprintf(stderr, "there is no such check\n");
	return 2;
}

#define CHECKS(...)                                                                                     \
	int main(int argc, char **argv)                                                                 \
	{                                                                                               \
		const struct check checks[] = {__VA_ARGS__};                                            \
		return run_check(checks, sizeof(checks) / sizeof(checks[0]), argc, argv);               \
	}

#endif
