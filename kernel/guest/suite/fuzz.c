// SPDX-License-Identifier: GPL-2.0-only
/*
 * fuzz FLOOR MAPPING SECONDS SEED: several processes that write nonsense and
 * nearly right texts to the floor's files at once, whole, in parts, elsewhere
 * than at the start and from memory that is not there, and read them in every
 * size. What comes back does not matter; that the kernel goes on does.
 *
 * Prints "fuzz N calls, M taken": writes that a file accepted.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 4
#define CALLS 200
#define TEXT_MAX 16384

static const char *const names[] = { "map", "task", "fault", "colors", "stat", "check" };
static char mapping[TEXT_MAX];
static size_t mapping_bytes;
static uint64_t seed;

/* Shared by all processes. */
static struct {
	unsigned long calls;
	unsigned long taken;
} *sum;

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t below(uint64_t bound)
{
	return next() % bound;
}

static size_t add(char *text, size_t length, const char *piece)
{
	size_t bytes = strlen(piece);

	if (length + bytes > TEXT_MAX)
		return length;
	memcpy(text + length, piece, bytes);
	return length + bytes;
}

static size_t add_list(char *text, size_t length)
{
	static const char *const odd[] = { "*", "all", "N", "0-N", "-1", "1-", "5-2", "0-10:1/2", "99999999999999999999", "0x3", ",", "" };

	for (unsigned int parts = 1 + below(4); parts; parts--) {
		char piece[64];
		unsigned int first = below(20), last = first + below(20);

		if (below(4))
			snprintf(piece, sizeof(piece), "%u-%u", first, last);
		else
			snprintf(piece, sizeof(piece), "%s", odd[below(sizeof(odd) / sizeof(odd[0]))]);
		length = add(text, length, piece);
		if (parts > 1)
			length = add(text, length, ",");
	}
	return length;
}

static size_t policy_text(char *text)
{
	static const char *const mode[] = { "strict ", "soft ", "none", "strict", "Strict ", " strict ", "", "strict  " };
	size_t length = add(text, 0, mode[below(3) ? below(2) : below(sizeof(mode) / sizeof(mode[0]))]);

	length = add_list(text, length);
	if (!below(3)) {
		length = add(text, length, " ");
		length = add_list(text, length);
	}
	return below(2) ? add(text, length, "\n") : length;
}

static size_t mapping_text(char *text)
{
	size_t length = mapping_bytes;

	if (!below(4))
		return add(text, 0, "none\n");
	memcpy(text, mapping, length);
	for (unsigned int changes = below(3); changes; changes--) {
		size_t at = below(length), bytes = 1 + below(40);

		if (bytes > length - at)
			bytes = length - at;
		switch (below(4)) {
		case 0:
			text[at] = next();
			break;
		case 1:
			text[at] = "0123456789abcdefx-\n "[below(20)];
			break;
		case 2:
			memmove(text + at, text + at + bytes, length - at - bytes);
			length -= bytes;
			break;
		default:
			if (length + bytes > TEXT_MAX)
				break;
			memmove(text + at + bytes, text + at, length - at);
			length += bytes;
		}
		if (!length)
			break;
	}
	return length;
}

/* Mostly of the kind that the file takes. */
static size_t any_text(char *text, const char *name)
{
	size_t length;

	if (below(4))
		return !strcmp(name, "map") ? mapping_text(text) : policy_text(text);
	switch (below(8)) {
	case 0:
		length = below(TEXT_MAX);
		for (size_t i = 0; i < length; i++)
			text[i] = next();
		return length;
	case 1: case 2: case 3:
		return policy_text(text);
	case 4:
		return add(text, 0, "none");
	default:
		return mapping_text(text);
	}
}

static void call(int file, const char *name)
{
	static char text[TEXT_MAX + 1], read_into[TEXT_MAX];
	size_t length = any_text(text, name);
	ssize_t got = -1;

	switch (below(10)) {
	case 0:
		lseek(file, below(3) ? below(100) : next(), below(3));
		break;
	case 1:
		got = pwrite(file, text, length, below(2) ? below(20) : next());
		break;
	case 2:
		got = length ? write(file, text, below(length)) : -1;
		break;
	case 3:
		got = write(file, below(2) ? (void *)0x1000 : text, next());
		break;
	case 4: {
		struct iovec parts[2] = { { text, length / 2 }, { text + length / 2, length - length / 2 } };

		got = writev(file, parts, 2);
		break;
	}
	case 5: case 6:
		(void)!read(file, read_into, below(2) ? below(30) : sizeof(read_into));
		break;
	default:
		/* As it should be; these files take no pwrite(). */
		lseek(file, 0, SEEK_SET);
		got = write(file, text, length);
	}
	__atomic_add_fetch(&sum->calls, 1, __ATOMIC_RELAXED);
	if (got > 0)
		__atomic_add_fetch(&sum->taken, 1, __ATOMIC_RELAXED);
}

static void calls(const char *floor)
{
	const char *name = names[0];
	int file = -1;

	for (unsigned int i = 0; i < CALLS; i++) {
		char path[256];

		if (file < 0 || !below(4)) {
			if (file >= 0)
				close(file);
			/* Most of them to the files that take something. */
			name = names[below(4) ? below(2) : below(sizeof(names) / sizeof(names[0]))];
			snprintf(path, sizeof(path), "%s/%s", floor, name);
			file = open(path, below(8) ? O_RDWR : O_RDONLY);
			if (file < 0)
				file = open(path, O_RDONLY);
		}
		if (file >= 0)
			call(file, name);
		/* Some memory and a child, in whatever colors it has by now. */
		if (!below(50)) {
			char *memory = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			pid_t child = fork();

			if (memory != MAP_FAILED)
				memset(memory, 1, 1 << 18);
			if (!child)
				_exit(0);
			waitpid(child, NULL, 0);
			munmap(memory, 1 << 18);
		}
	}
}

int main(int argc, char **argv)
{
	unsigned long failed = 0;
	FILE *file;
	time_t end;

	if (argc != 5)
		errx(2, "fuzz FLOOR MAPPING SECONDS SEED");
	file = fopen(argv[2], "r");
	if (!file)
		err(2, "%s", argv[2]);
	mapping_bytes = fread(mapping, 1, sizeof(mapping), file);
	sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED || !mapping_bytes)
		err(2, "memory");
	end = time(NULL) + atoi(argv[3]);
	for (unsigned int process = 0; process < PROCESSES; process++) {
		if (fork())
			continue;
		for (uint64_t round = 0; time(NULL) < end; round++) {
			pid_t child = fork();
			int status;

			if (!child) {
				seed = strtoul(argv[4], NULL, 10) + process * 1000003 + round * 7919;
				calls(argv[1]);
				_exit(0);
			}
			/* Killed, when it gave itself colors without memory. */
			if (waitpid(child, &status, 0) != child || (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)))
				_exit(1);
		}
		_exit(0);
	}
	for (unsigned int process = 0; process < PROCESSES; process++) {
		int status;

		failed += wait(&status) < 0 || status;
	}
	printf("fuzz %lu calls, %lu taken\n", sum->calls, sum->taken);
	return failed || !sum->taken;
}
