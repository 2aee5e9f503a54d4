// SPDX-License-Identifier: GPL-2.0-only
/*
 * fuzz FLOOR MAPPING SECONDS SEED [GROUP]: several processes that write nonsense
 * and nearly right texts to the floor's files at once, whole, in parts, elsewhere
 * than at the start and from memory that is not there, and read them in every
 * size; with a cgroup, to its files as well, and some of them are in it. What
 * comes back does not matter; that the kernel goes on does.
 *
 * Prints "fuzz N calls, M taken": writes that a file accepted; and for each file
 * that takes texts, "NAME M". Goes on for up to ten times as long when one of
 * those that it is about has taken none: of "exclusive", what switches it on.
 *
 * fuzz nothing: ends well, for those who execute a program.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
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

static const char *const names[] = {
	"map", "task", "auto", "compat", "fault", "auto_fault", "auto_use", "colors", "stat", "check", "moving", "settled",
	"exclusive",
};
/* Of these there are texts, and most calls are to the first two. */
#define TAKING 4
#define MOST 2
static const char *const group_names[] = {
	"memory.colors.bank", "memory.colors.set", "memory.colors.node", "memory.colors.mode", "memory.colors.exclusive",
	"memory.colors.effective", "memory.colors.stat", "memory.colors.events",
};
#define GROUP_TAKING 5
static const char *group;
static char mapping[TEXT_MAX];
static size_t mapping_bytes;
static uint64_t seed;

/* Shared by all processes. */
static struct {
	unsigned long calls;
	unsigned long taken;
	unsigned long taken_by[TAKING];
	unsigned long taken_by_group[GROUP_TAKING];
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
	size_t length;

	/* A mapping comes and goes when nobody has colors. */
	if (!group && below(2))
		return add(text, 0, "none\n");
	length = add(text, 0, mode[below(3) ? below(2) : below(sizeof(mode) / sizeof(mode[0]))]);
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

static size_t add_one_of(char *text, size_t length, const char *const *words, unsigned int count)
{
	return add(text, length, words[below(count)]);
}
#define ADD_ONE_OF(text, length, words) add_one_of(text, length, words, sizeof(words) / sizeof((words)[0]))

/* Rules of the automatic mode. Most are of a pool that leaves some to others. */
static size_t rules_text(char *text)
{
	static const char *const first[] = { "", "", "pool 0-7\n", "pool 3\n", "pool 0-3,8\n", "pool *\n", "pool \n", "pool 1024\n" };
	static const char *const word[] = { "rule ", "rule ", "rule ", "rule ", "Rule ", "rule", "pool 1\nrule " };
	static const char *const user[] = { "*", "0", "0", "1000", "registered", "4294967295", "-1", "00", "root", "" };
	static const char *const pattern[] = {
		" *", " /*", " *fuzz*", " /bin/f?zz", " /proc/*", " /[a-z]*/[!x]*", " /[", " /\\", " tmp", " /a /b", " ", "",
	};
	static const char *const colors[] = {
		"", "", " 1", " 2", " 1-2", " 1-4", " 1-64", " 2-1", " 0", " 65", " 1-65", " 1-", " -1", " x", " 99999999999999999999", " ",
	};
	static const char *const mode[] = { "", "", " strict", " soft", " soft ", " lenient" };
	size_t length;

	if (!below(group ? 3 : 2))
		return add(text, 0, "none\n");
	length = ADD_ONE_OF(text, 0, first);
	for (unsigned int rules = 1 + (below(20) ? below(4) : below(100)); rules; rules--) {
		length = ADD_ONE_OF(text, length, word);
		length = ADD_ONE_OF(text, length, user);
		length = ADD_ONE_OF(text, length, pattern);
		length = ADD_ONE_OF(text, length, colors);
		length = ADD_ONE_OF(text, length, mode);
		if (below(50))
			length = add(text, length, "\n");
	}
	return length;
}

static size_t compat_text(char *text)
{
	static const char *const words[] = { "off", "privileged", "all", "of", "offf", "", "OFF", "all all", "0" };
	size_t length = ADD_ONE_OF(text, 0, words);

	return below(2) ? add(text, length, "\n") : length;
}

/* What a cgroup asks for: a class or two in which it can be alone are tried often enough for that to come about. */
static size_t group_text(char *text, const char *name)
{
	static const char *const modes[] = { "strict", "soft", "strict\n", "soft\n", "stric", "softer", " soft ", "" };
	static const char *const switches[] = { "0", "1", "1", "1\n", "0\n", "2", "y", "n", "on", "of", "", " 1" };
	static const char *const lists[] = { "0", "1", "0-1", "0,1\n", "*", "", "\n", " 1 ", "0-1:1/2", "1023", "1024" };

	if (strstr(name, "mode"))
		return ADD_ONE_OF(text, 0, modes);
	if (strstr(name, "exclusive"))
		return ADD_ONE_OF(text, 0, switches);
	return below(2) ? ADD_ONE_OF(text, 0, lists) : add_list(text, 0);
}

static size_t right_text(char *text, const char *name)
{
	if (!strcmp(name, "map"))
		return mapping_text(text);
	if (!strcmp(name, "auto"))
		return rules_text(text);
	if (!strcmp(name, "compat"))
		return compat_text(text);
	if (!strncmp(name, "memory.", 7))
		return group_text(text, name);
	return policy_text(text);
}

/* Mostly of the kind that the file takes. */
static size_t any_text(char *text, const char *name)
{
	size_t length;

	if (below(4))
		return right_text(text, name);
	switch (below(10)) {
	case 0:
		length = below(TEXT_MAX);
		for (size_t i = 0; i < length; i++)
			text[i] = next();
		return length;
	case 1: case 2: case 3:
		return policy_text(text);
	case 4:
		return add(text, 0, "none");
	case 5:
		return rules_text(text);
	case 6:
		return group_text(text, group_names[below(GROUP_TAKING)]);
	default:
		return mapping_text(text);
	}
}

/* Counts a text that a file has accepted. */
static void took(const char *name, const char *text)
{
	__atomic_add_fetch(&sum->taken, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < TAKING; i++)
		if (!strcmp(name, names[i]))
			__atomic_add_fetch(&sum->taken_by[i], 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < GROUP_TAKING; i++)
		if (!strcmp(name, group_names[i]) && (!strstr(name, "exclusive") || *text == '1'))
			__atomic_add_fetch(&sum->taken_by_group[i], 1, __ATOMIC_RELAXED);
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
		took(name, text);
}

/*
 * Chooses a file, most often one that takes something. Who reads "settled" waits
 * for the others: seldom.
 */
static const char *any_name(const char **folder, const char *floor)
{
	const char *name;

	if (group && below(2)) {
		*folder = group;
		return group_names[below(4) ? below(GROUP_TAKING) : below(sizeof(group_names) / sizeof(group_names[0]))];
	}
	*folder = floor;
	name = names[below(4) ? below(below(3) ? MOST : TAKING) : below(sizeof(names) / sizeof(names[0]))];
	return !strcmp(name, "settled") && below(4) ? "moving" : name;
}

/* Programs that are executed have colors by the rules that there are at that moment. */
static void have_child(void)
{
	bool executes = below(2);
	pid_t child = fork();

	if (!child) {
		if (executes)
			execl("/proc/self/exe", "fuzz", "nothing", NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void join_group(void)
{
	char path[256];
	int file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1)
		err(2, "%s", path);
	close(file);
}

static void calls(const char *floor)
{
	const char *name = names[0], *folder = floor;
	int file = -1;

	if (group && !below(4))
		join_group();
	for (unsigned int i = 0; i < CALLS; i++) {
		char path[256];

		if (file < 0 || !below(4)) {
			if (file >= 0)
				close(file);
			name = any_name(&folder, floor);
			snprintf(path, sizeof(path), "%s/%s", folder, name);
			file = open(path, below(8) ? O_RDWR : O_RDONLY);
			if (file < 0)
				file = open(path, O_RDONLY);
		}
		if (file >= 0)
			call(file, name);
		/* Some memory and a child, in whatever colors it has by now. */
		if (!below(50)) {
			char *memory = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (memory != MAP_FAILED)
				memset(memory, 1, 1 << 18);
			have_child();
			munmap(memory, 1 << 18);
		}
	}
}

static bool all_have_taken(void)
{
	const unsigned long *taken = group ? sum->taken_by_group : sum->taken_by;

	for (unsigned int i = 0; i < (group ? GROUP_TAKING : TAKING); i++)
		if (!__atomic_load_n(&taken[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

/* However slow the machine is. */
static bool goes_on(time_t start, int seconds)
{
	time_t now = time(NULL);

	return now < start + seconds || (now < start + 10 * seconds && !all_have_taken());
}

int main(int argc, char **argv)
{
	unsigned long failed = 0;
	FILE *file;
	time_t start;

	if (argc == 2 && !strcmp(argv[1], "nothing"))
		return 0;
	if (argc != 5 && argc != 6)
		errx(2, "fuzz FLOOR MAPPING SECONDS SEED [GROUP]");
	group = argv[5];
	file = fopen(argv[2], "r");
	if (!file)
		err(2, "%s", argv[2]);
	mapping_bytes = fread(mapping, 1, sizeof(mapping), file);
	sum = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED || !mapping_bytes)
		err(2, "memory");
	start = time(NULL);
	for (unsigned int process = 0; process < PROCESSES; process++) {
		if (fork())
			continue;
		for (uint64_t round = 0; goes_on(start, atoi(argv[3])); round++) {
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
	for (unsigned int i = 0; !group && i < TAKING; i++)
		printf("%s %lu\n", names[i], sum->taken_by[i]);
	for (unsigned int i = 0; group && i < GROUP_TAKING; i++)
		printf("%s %lu\n", group_names[i], sum->taken_by_group[i]);
	return failed || !sum->taken;
}
