// SPDX-License-Identifier: GPL-2.0-only
/*
 * papers MAPPING SCENARIO...: programs that get their colors as in the papers,
 * by color calls or without knowing of it, and what looks at them.
 *
 *	calls			tests of the color calls, as root
 *	llc			the same where the mapping has set colors
 *	refused ERRNO [UID]	a color call that fails with that error
 *	color CLASS PROGRAM...	asks for a memory color and executes a program
 *	switch on|off COLORS LENGTH ERRNO
 *				a call for the programs of this user
 *	as UID CPU PROGRAM...	executes a program as a user, on a CPU (-1: any)
 *	stay FILE		uses memory of all kinds, writes its process id
 *				to a new file, and stays
 *	roam FILE		the same, and more than free pages of a class lie
 *				together
 *	fork FILE		as stay, and its child
 *	spawn FILE PROGRAM...	the same, and its child executes a program
 *	fails PROGRAM FILE	fails to execute a program, and stays
 *	storm SECONDS PROGRAM	forks and executes, from several processes
 *	classes PID PAGES	prints the bank classes of all private pages,
 *				of which there have to be so many
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
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
#include <time.h>
#include <unistd.h>

#include "pages.h"

#define COLOR_ALLOC	(1 << 30)
#define SET_MEM		0x01000000UL
#define SET_LLC		0x02000000UL
#define SET_BOTH	0x03000000UL
#define CLEAR_MEM	0x05000000UL
#define CLEAR_LLC	0x06000000UL
#define CLEAR_BOTH	0x07000000UL
#define AUTO_ON		0x08000000UL
#define AUTO_OFF	0x0c000000UL
#define BOTH(m, l)	((m) | (l) << 12)

#define PAGES 200
/* Memory in which every color that may occur does: free pages of one may lie together. */
#define MANY_PAGES 4000

static struct mapping mapping;
static uint32_t classes;
static int failures;

/* Gives 0, or the error. A wrapper of libc might look at the arguments. */
static int color(unsigned long address)
{
	return syscall(SYS_mmap, address, 0, COLOR_ALLOC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ? errno : 0;
}

static void answer(bool good, const char *name, const char *why)
{
	if (good)
		printf("ok - %s\n", name);
	else
		printf("not ok - %s # %s\n", name, why);
	failures += !good;
	fflush(stdout);
}

static char *use_pages(size_t pages)
{
	char *memory = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		err(2, "mmap");
	for (size_t i = 0; i < pages; i++)
		memory[i * PAGE_BYTES] = i;
	return memory;
}

/* Looks how many pages of memory each class has, and each set color. */
static void count_pages(const char *memory, size_t pages, unsigned int *of_class, unsigned int *of_set)
{
	memset(of_class, 0, 4096 * sizeof(*of_class));
	memset(of_set, 0, 4096 * sizeof(*of_set));
	for (size_t i = 0; i < pages; i++) {
		uint64_t frame = frame_of(getpid(), memory + i * PAGE_BYTES);
		struct color found;

		if (!frame || !mapping_color(&mapping, frame, &found))
			errx(2, "page %zu of %zu is nowhere", i, pages);
		of_class[found.bank_class]++;
		of_set[found.set_color]++;
	}
}

/*
 * Uses new memory, from the heap, and says whether all of it is in the classes
 * (-1: any) and the set color; without set color, whether each class occurs.
 */
static bool new_memory_in(int first, int second, int set)
{
	static unsigned int of_class[4096], of_set[4096];
	size_t pages = set < 0 && (first < 0 || second >= 0) ? MANY_PAGES : PAGES;
	char *memory = sbrk(pages * PAGE_BYTES);
	unsigned int others = 0, wrong = 0;
	bool good = true;

	memory = (char *)(((size_t)memory + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
	pages--;
	for (size_t i = 0; i < pages; i++)
		memory[i * PAGE_BYTES] = i;
	count_pages(memory, pages, of_class, of_set);
	for (int class = 0; class < (int)classes; class++) {
		others += of_class[class] != 0;
		if (first >= 0 && class != first && class != second)
			wrong += of_class[class];
	}
	/* Without colors, so much memory is nearly anywhere. */
	if (first < 0)
		good = others > 2;
	else
		good = !wrong && (set >= 0 || (of_class[first] && (second < 0 || of_class[second])));
	good &= set < 0 || of_set[set] == pages;
	if (!good)
		printf("# classes %d and %d, set %d: %u pages in others, in %u classes; %u and %u, %u\n", first, second, set,
		       wrong, others, first < 0 ? 0 : of_class[first], second < 0 ? 0 : of_class[second],
		       set < 0 ? 0 : of_set[set]);
	fflush(stdout);
	return good;
}

/* Runs a test in a process of its own, so that each starts without colors. */
static void try(const char *name, bool (*test)(void))
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child)
		_exit(!test());
	if (child < 0 || waitpid(child, &status, 0) != child)
		err(2, "%s", name);
	answer(!status, name, WIFSIGNALED(status) ? "killed" : "found otherwise");
}

static bool one_color(void)
{
	return new_memory_in(-1, -1, -1) && !color(SET_MEM + 3) && new_memory_in(3, -1, -1);
}

static bool same_color_twice(void)
{
	return !color(SET_MEM + 3) && !color(SET_MEM + 3) && new_memory_in(3, -1, -1) &&
	       !color(CLEAR_MEM + 3) && new_memory_in(-1, -1, -1);
}

static bool accumulated(void)
{
	return !color(SET_MEM + 1) && !color(SET_MEM + 6) && new_memory_in(1, 6, -1);
}

static bool cleared(void)
{
	return !color(SET_MEM + 1) && !color(SET_MEM + 6) && !color(CLEAR_MEM + 1) && new_memory_in(6, -1, -1) &&
	       !color(CLEAR_MEM + 5) && new_memory_in(6, -1, -1) && !color(CLEAR_MEM + 6) && new_memory_in(-1, -1, -1);
}

static bool last_color(void)
{
	return !color(SET_MEM + classes - 1) && new_memory_in(classes - 1, -1, -1);
}

static bool child_keeps(void)
{
	int status = -1;
	pid_t child;

	if (color(SET_MEM + 2))
		return false;
	child = fork();
	if (!child)
		_exit(!(new_memory_in(2, -1, -1) && !color(SET_MEM + 5) && !color(CLEAR_MEM + 2) &&
			new_memory_in(5, -1, -1)));
	/* What it does with its colors is its own matter. */
	return waitpid(child, &status, 0) == child && !status && new_memory_in(2, -1, -1);
}

static void *thread(void *which)
{
	static unsigned int of_class[2][4096], of_set[2][4096];
	unsigned long class = (unsigned long)which;
	char *memory;

	if (color(SET_MEM + class))
		return "call";
	memory = use_pages(PAGES);
	count_pages(memory, PAGES, of_class[class & 1], of_set[class & 1]);
	return of_class[class & 1][class] == PAGES ? NULL : "pages";
}

static bool each_thread_its_own(void)
{
	pthread_t threads[2];
	void *wrong[2];

	for (unsigned long i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)(4 + i)))
			return false;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], &wrong[i]);
	return !wrong[0] && !wrong[1] && new_memory_in(-1, -1, -1);
}

static bool bad_calls(void)
{
	static const unsigned long bad[] = {
		0, 3, 0x04000003, 0x10000003, 0x80000003, 0x7fff00000000, -1UL, SET_MEM | 1 << 12, SET_LLC | 1 << 12,
		SET_MEM | AUTO_ON, SET_MEM + 4096, (SET_MEM + 3) | 1UL << 32,
	};
	bool good = !color(SET_MEM + 3);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		good &= color(bad[i]) == EINVAL;
	good &= color(SET_MEM + classes) == EINVAL && color(CLEAR_MEM + classes) == EINVAL;
	good &= color(SET_LLC + mapping.set.cosets) == EINVAL;
	good &= color(SET_BOTH + BOTH(2, mapping.set.cosets)) == EINVAL;
	/* A length, or no mark in the protection: no such call. */
	good &= syscall(SYS_mmap, SET_MEM + 2, PAGE_BYTES, COLOR_ALLOC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 &&
		errno == EINVAL;
	good &= syscall(SYS_mmap, SET_MEM + 2, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == -1 &&
		errno == EINVAL;
	return good && new_memory_in(3, -1, -1);
}

static bool llc_color(void)
{
	return !color(SET_LLC + 1) && new_memory_in(-1, -1, 1);
}

static bool llc_and_memory_colors(void)
{
	return !color(SET_MEM + 3) && !color(SET_LLC + 2) && !color(SET_MEM + 7) && new_memory_in(3, 7, 2) &&
	       !color(CLEAR_LLC + 2) && new_memory_in(3, 7, -1) && !new_memory_in(3, 7, 2);
}

static bool both_at_once(void)
{
	return !color(SET_BOTH + BOTH(5, 3)) && new_memory_in(5, -1, 3) && !color(CLEAR_BOTH + BOTH(5, 3)) &&
	       new_memory_in(-1, -1, -1);
}

static int calls(void)
{
	try("one color", one_color);
	try("a color twice is a color once", same_color_twice);
	try("colors accumulate", accumulated);
	try("colors are cleared", cleared);
	try("the last color", last_color);
	try("a child keeps them, and changes its own", child_keeps);
	try("each thread its own", each_thread_its_own);
	try("bad calls fail and change nothing", bad_calls);
	return failures != 0;
}

static int llc(void)
{
	try("LLC color", llc_color);
	try("LLC color and memory colors", llc_and_memory_colors);
	try("LLC and memory color at once", both_at_once);
	return failures != 0;
}

/* For a user: only the effective id changes, and only for the call. */
static int refused(int expected, uid_t uid)
{
	int found;

	if (uid && seteuid(uid))
		err(2, "seteuid");
	found = color(SET_MEM + 1);
	if (found != expected)
		printf("error %d, expected %d\n", found, expected);
	return found != expected;
}

static int switch_programs(const char *what, unsigned long colors, size_t length, int expected)
{
	unsigned long action = (strcmp(what, "on") ? AUTO_OFF : AUTO_ON) + colors;
	long result = syscall(SYS_mmap, action, length, PROT_READ | PROT_WRITE | COLOR_ALLOC,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int found = result == -1 ? errno : 0;

	if (found != expected) {
		printf("error %d, expected %d\n", found, expected);
		return 1;
	}
	/* With a length, there is a mapping of it as well. */
	if (!found && length)
		memset((void *)result, 1, length);
	if (!found && !length && result) {
		printf("gave %#lx\n", result);
		return 1;
	}
	return 0;
}

static int call_and_execute(unsigned long class, char **program)
{
	int error = color(SET_MEM + class);

	if (error)
		errx(2, "error %d", error);
	execv(program[0], program);
	err(2, "%s", program[0]);
}

static int as(uid_t uid, int cpu, char **program)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0)
		CPU_SET(cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		err(2, "CPU %d", cpu);
	if (uid && (setgid(uid) || setuid(uid)))
		err(2, "user %u", uid);
	execv(program[0], program);
	err(2, "%s", program[0]);
}

static volatile char data[16 * PAGE_BYTES] = { 1 };
static volatile char bss[16 * PAGE_BYTES];

static __attribute__((noinline, aligned(4096))) int text_to_copy(void)
{
	return 42;
}

static void use_stack(unsigned int pages)
{
	char page[PAGE_BYTES];

	/* Seen by the compiler as used, before and after. */
	__asm__ volatile("movb $1, (%0)" : : "r"(page) : "memory");
	if (pages)
		use_stack(pages - 1);
	__asm__ volatile("movb $1, (%0)" : : "r"(page) : "memory");
}

/* Private pages of all kinds, more than 205 of them. */
static void use_memory(void)
{
	char *code = (char *)((size_t)text_to_copy & ~(PAGE_BYTES - 1));
	char *heap = sbrk(64 * PAGE_BYTES);

	for (size_t at = 0; at < sizeof(data); at += PAGE_BYTES)
		data[at] = bss[at] = 1;
	for (size_t at = 0; at < 64 * PAGE_BYTES; at += PAGE_BYTES)
		heap[at] = 1;
	use_stack(48);
	use_pages(64);
	if (mprotect(code, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC))
		err(2, "text");
	*(volatile char *)code = *(volatile char *)code;
	if (text_to_copy() != 42)
		errx(2, "text");
}

static void tell_and_stay(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	if (file < 0 || dprintf(file, "%d\n", getpid()) < 0)
		err(2, "%s", path);
	close(file);
	for (;;)
		pause();
}

static void stay(const char *path)
{
	use_memory();
	tell_and_stay(path);
}

static void roam(const char *path)
{
	use_pages(MANY_PAGES);
	stay(path);
}

static int with_child(const char *path, char **program)
{
	char name[256];
	pid_t child;

	use_memory();
	child = fork();
	if (child < 0)
		err(2, "fork");
	if (!child && program) {
		execv(program[0], program);
		err(2, "%s", program[0]);
	}
	if (!child) {
		use_memory();
		snprintf(name, sizeof(name), "%s.child", path);
		tell_and_stay(name);
	}
	tell_and_stay(path);
	return 1;
}

static int fails(char *program, const char *path)
{
	char *arguments[] = { program, NULL };

	for (int i = 0; i < 20; i++)
		if (execv(program, arguments) != -1 || errno != ENOEXEC)
			err(2, "%s", program);
	stay(path);
	return 1;
}

static int storm(int seconds, char *program)
{
	char *arguments[] = { program, "-", "nothing", NULL };
	time_t end = time(NULL) + seconds;
	unsigned long done = 0;
	int status;

	for (int i = 0; i < 3; i++)
		if (!fork())
			break;
	/* However slow the machine is. */
	while (time(NULL) < end || done < 8) {
		pid_t child = fork();

		if (!child) {
			execv(program, arguments);
			_exit(99);
		}
		if (child < 0)
			err(2, "fork");
		/* Some are killed in the middle of it. */
		if (done++ % 4 == 0) {
			sched_yield();
			kill(child, SIGKILL);
		}
		if (waitpid(child, &status, 0) != child ||
		    !(WIFEXITED(status) ? !WEXITSTATUS(status) : WTERMSIG(status) == SIGKILL))
			errx(1, "status %#x", status);
	}
	while (wait(&status) > 0)
		if (status)
			errx(1, "a storm ended with %#x", status);
	return 0;
}

/* Prints the classes from first to before end that a process has private pages of, by halves; gives all its pages. */
static unsigned long print_classes_between(pid_t pid, uint32_t first, uint32_t end)
{
	static const char *separator = "";
	struct wanted wanted = { 0 };
	struct tally tally;

	for (uint32_t class = first; class < end; class++)
		wanted.class[class / 64] |= 1UL << (class % 64);
	tally = pages_of(pid, &mapping, &wanted, 0);
	if (tally.nowhere)
		errx(2, "%lu pages are nowhere", tally.nowhere);
	if (tally.anonymous == tally.anonymous_wrong)
		return tally.anonymous;
	if (end - first > 1) {
		print_classes_between(pid, first, (first + end) / 2);
		print_classes_between(pid, (first + end) / 2, end);
	} else {
		printf("%s%u", separator, first);
		separator = " ";
	}
	return tally.anonymous;
}

static int print_classes(pid_t pid, unsigned long at_least)
{
	unsigned long all = print_classes_between(pid, 0, classes);

	if (all < at_least)
		printf(" of %lu pages only", all);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 2 ? argv[2] : "";

	if (!strcmp(scenario, "nothing"))
		return 0;
	if (argc > 5 && !strcmp(scenario, "as"))
		return as(atoi(argv[3]), atoi(argv[4]), argv + 5);
	if (argc > 4 && !strcmp(scenario, "color"))
		return call_and_execute(atoi(argv[3]), argv + 4);
	if (argc > 3 && !strcmp(scenario, "stay"))
		stay(argv[3]);
	if (argc > 3 && !strcmp(scenario, "roam"))
		roam(argv[3]);
	if (argc > 3 && !strcmp(scenario, "fork"))
		return with_child(argv[3], NULL);
	if (argc > 4 && !strcmp(scenario, "spawn"))
		return with_child(argv[3], argv + 4);
	if (argc > 4 && !strcmp(scenario, "fails"))
		return fails(argv[3], argv[4]);
	if (argc > 4 && !strcmp(scenario, "storm"))
		return storm(atoi(argv[3]), argv[4]);
	if (argc > 3 && !strcmp(scenario, "refused"))
		return refused(atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
	if (argc > 6 && !strcmp(scenario, "switch"))
		return switch_programs(argv[3], atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
	if (argc < 3)
		errx(2, "papers MAPPING SCENARIO...");
	mapping = mapping_read(argv[1]);
	classes = mapping_classes(&mapping);
	if (classes > 1024)
		errx(2, "%u classes are too many", classes);
	if (!strcmp(scenario, "calls"))
		return calls();
	if (!strcmp(scenario, "llc"))
		return llc();
	if (argc > 4 && !strcmp(scenario, "classes"))
		return print_classes(atoi(argv[3]), atoi(argv[4]));
	errx(2, "%s is no scenario", scenario);
}
