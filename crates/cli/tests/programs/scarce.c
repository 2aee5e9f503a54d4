/* Wants more memory than there is in its color. */
#include "check.h"

/* What is wanted, and what one search comes by: one page in 256 of 2 GiB, of which a sixteenth is left to others. */
enum { PAGES = 25600, SEARCHED = 1920 };

static void touches(void)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	ready();
	CHECK(holds(memory, PAGES, 1));
}

static void touches_pages(size_t pages)
{
	char *memory = map(pages);
	fill(memory, pages, 1);
	ready();
	CHECK(holds(memory, pages, 1));
}

static void touches_200_mib(void)
{
	touches_pages(51200);
}

static void touches_little(void)
{
	touches_pages(1600);
}

static void begins(void)
{
}

static volatile sig_atomic_t page;

static void count(int number)
{
	char line[] = "signal 0 at page 00000\n";
	line[7] += number;
	for (int at = 21, left = page; at > 16; at--, left /= 10)
		line[at] += left % 10;
	CHECK(write(1, line, sizeof(line) - 1) == sizeof(line) - 1);
	_exit(0);
}

/* What was given before the first refusal is whole. */
static void touches_until_refused(void)
{
	/* The handler must not need a page that is not there. */
	static char stack[64 << 10];
	stack_t other = {.ss_sp = memset(stack, 1, sizeof(stack)), .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = count, .sa_flags = SA_ONSTACK};
	CHECK(sigaltstack(&other, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	char *memory = map(PAGES);
	for (page = 0; page < PAGES; page++)
		fill(memory + page * PAGE, 1, 1);
}

static void little_is_there(void)
{
	char *little = map(50);
	fill(little, 50, 1);
	CHECK(holds(little, 50, 1));
}

static size_t present(char *memory, size_t pages)
{
	static unsigned char residence[PAGES];
	CHECK(mincore(memory, pages * PAGE, residence) == 0);
	size_t count = 0;
	for (size_t page = 0; page < pages; page++)
		count += residence[page] & 1;
	return count;
}

static int can_have(size_t pages)
{
	char *memory = map(pages);
	int had = mlock(memory, pages * PAGE) == 0;
	if (had) {
		fill(memory, pages, 1);
		CHECK(holds(memory, pages, 1));
	}
	CHECK(munmap(memory, pages * PAGE) == 0);
	return had;
}

/* Calls that bring memory in say that there is none; what was there goes on, and what was found is not lost. */
static void asks(void)
{
	char *memory = map(PAGES);
	little_is_there();
	size_t before = present(memory, PAGES);
	CHECK(mlock(memory, PAGES * PAGE) == -1);
	CHECK(errno == ENOMEM || errno == EAGAIN);
	CHECK(present(memory, PAGES) == before);
	CHECK(munmap(memory, PAGES * PAGE) == 0);
	little_is_there();
	size_t found = PAGES;
	while (!can_have(found))
		found -= found / 4;
	for (int round = 0; round < 3; round++) {
		CHECK(mlockall(MCL_FUTURE) == 0);
		CHECK(mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0) == MAP_FAILED);
		CHECK(errno == ENOMEM || errno == EAGAIN);
		CHECK(munlockall() == 0);
		little_is_there();
	}
	CHECK(can_have(found * 3 / 4));
	ready();
}

/*
 * Much of what a process had that has ended can be had at once, long before memory without such frames is searched again:
 * half of it, or of what one search comes by where several have found it.
 */
static void inherits(void)
{
	int had[2], may_end[2];
	CHECK(pipe(had) == 0 && pipe(may_end) == 0);
	size_t found = PAGES;
	char byte;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		while (!can_have(found))
			found -= found / 4;
		CHECK(mlock(map(found), found * PAGE) == 0);
		CHECK(write(had[1], &found, sizeof(found)) == sizeof(found));
		CHECK(read(may_end[0], &byte, 1) == 1);
		_exit(0);
	}
	CHECK(read(had[0], &found, sizeof(found)) == sizeof(found));
	CHECK(!can_have(found));
	CHECK(write(may_end[1], "x", 1) == 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	size_t wanted = (found < SEARCHED ? found : SEARCHED) / 2;
	int again = 0;
	/* On a busy machine others are given them first: some searches, in less time than would pass without any. */
	for (int round = 0; round < 48 && !again; round++) {
		usleep(100000);
		again = can_have(wanted);
	}
	CHECK(again);
	ready();
}

/* The same calls succeed when any frame will do. */
static void asks_softly(void)
{
	char *memory = map(PAGES);
	CHECK(mlock(memory, PAGES * PAGE) == 0);
	long faults = minor_faults();
	fill(memory, PAGES, 1);
	CHECK(minor_faults() - faults < 20);
	CHECK(mlockall(MCL_FUTURE) == 0);
	char *later = map(PAGES);
	fill(later, PAGES, 2);
	ready();
	CHECK(holds(memory, PAGES, 1) && holds(later, PAGES, 2));
}

CHECKS({"begins", begins}, {"touches_200_mib", touches_200_mib}, {"touches_little", touches_little}, {"touches", touches}, {"touches_until_refused", touches_until_refused}, {"asks", asks}, {"inherits", inherits},
       {"asks_softly", asks_softly})
