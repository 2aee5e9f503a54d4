/* Memory that cannot be written at first, or not always; stacks and what lies below them. */
#include "check.h"
#include <alloca.h>

#include <setjmp.h>

static sigjmp_buf back;

static void leave(int number)
{
	siglongjmp(back, number);
}

static char other_stack[64 << 10];

/* The signal that touching an address raises; 0 = none. */
static int signal_on_touch(volatile char *at, int write)
{
	stack_t other = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	struct sigaction action = {.sa_handler = leave, .sa_flags = SA_ONSTACK};
	CHECK(sigaltstack(&other, NULL) == 0);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	int number = sigsetjmp(back, 1);
	if (number == 0) {
		if (write)
			*at = 1;
		else
			(void)*at;
	}
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	return number;
}

static void reservation_is_opened_piece_by_piece(void)
{
	size_t pages = 4096;
	char *memory = mmap(NULL, pages * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(signal_on_touch(memory, 0) == SIGSEGV && signal_on_touch(memory + PAGE, 1) == SIGSEGV);
	for (size_t at = 0; at < pages; at += 256) {
		CHECK(mprotect(memory + at * PAGE, 200 * PAGE, RW) == 0);
		CHECK(is_zero(memory + at * PAGE, 100));
		fill(memory + at * PAGE, 200, at);
	}
	CHECK(signal_on_touch(memory + 200 * PAGE, 1) == SIGSEGV);
	ready();
	for (size_t at = 0; at < pages; at += 256)
		CHECK(holds(memory + at * PAGE, 200, at));
	/* Closed again, and given up, as allocators do. */
	CHECK(mprotect(memory, 100 * PAGE, PROT_NONE) == 0);
	CHECK(madvise(memory, 100 * PAGE, MADV_DONTNEED) == 0);
	CHECK(signal_on_touch(memory, 0) == SIGSEGV);
	CHECK(mprotect(memory, 100 * PAGE, RW) == 0 && is_zero(memory, 100));
	CHECK(mmap(memory, 100 * PAGE, PROT_NONE, ANON | MAP_FIXED | MAP_NORESERVE, -1, 0) == memory);
	CHECK(signal_on_touch(memory, 0) == SIGSEGV);
	CHECK(holds_from(memory + 100 * PAGE, 100, 0, 100));
}

static void code_is_written_and_run(void)
{
	/* mov eax, 42; ret */
	static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
	char *memory = mmap(NULL, 100 * PAGE, RW | PROT_EXEC, ANON, -1, 0);
	CHECK(memory != MAP_FAILED && is_zero(memory, 50));
	for (int page = 0; page < 100; page++) {
		memcpy(memory + page * PAGE, code, sizeof(code));
		CHECK(((int (*)(void))(memory + page * PAGE))() == 42);
	}
	char *careful = map(100);
	for (int page = 0; page < 100; page++)
		memcpy(careful + page * PAGE, code, sizeof(code));
	CHECK(mprotect(careful, 100 * PAGE, PROT_READ | PROT_EXEC) == 0);
	ready();
	for (int page = 0; page < 100; page++)
		CHECK(((int (*)(void))(careful + page * PAGE))() == 42);
	CHECK(signal_on_touch(careful, 1) == SIGSEGV);
}

static void read_first_and_written_later(void)
{
	size_t pages = 500;
	char *memory = mmap(NULL, pages * PAGE, PROT_READ, ANON, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(is_zero(memory, pages));
	CHECK(signal_on_touch(memory, 1) == SIGSEGV);
	CHECK(mprotect(memory, pages * PAGE, RW) == 0);
	fill(memory, pages, 1);
	char *read = map(pages);
	CHECK(is_zero(read, pages));
	fill(read, pages, 2);
	/* Written, closed for writing, opened again. */
	CHECK(mprotect(read, pages * PAGE, PROT_READ) == 0);
	CHECK(holds(read, pages, 2));
	CHECK(mprotect(read, pages * PAGE, RW) == 0);
	fill(read, pages / 2, 3);
	ready();
	CHECK(holds(memory, pages, 1) && holds(read, pages / 2, 3));
	CHECK(holds_from(read + pages / 2 * PAGE, pages / 2, 2, pages / 2));
}

static int deep(int levels)
{
	volatile char frame[2000];
	for (size_t at = 0; at < sizeof(frame); at += 100)
		frame[at] = (char)levels;
	int below = levels > 0 ? deep(levels - 1) : 0;
	for (size_t at = 0; at < sizeof(frame); at += 100)
		if (frame[at] != (char)levels)
			return -1;
	return below < 0 ? below : below + 1;
}

static void stack_grows_to_4_mib(void)
{
	CHECK(deep(100) == 101);
	CHECK(deep(2000) == 2001);
	/* In one leap, far below what is mapped. */
	volatile char *leap = alloca(3 << 20);
	leap[0] = 1;
	leap[2 << 20] = 2;
	ready();
	CHECK(leap[0] == 1 && leap[2 << 20] == 2 && leap[1 << 20] == leap[1 << 20]);
	CHECK(deep(1000) == 1001);
}

static void *small_thread(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)deep(10);
}

static void guard_pages_guard(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;
	char *stack = map(64);
	CHECK(mprotect(stack, 4 * PAGE, PROT_NONE) == 0);
	CHECK(pthread_attr_init(&attributes) == 0);
	CHECK(pthread_attr_setstack(&attributes, stack + 4 * PAGE, 60 * PAGE) == 0);
	CHECK(pthread_create(&thread, &attributes, small_thread, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0 && (intptr_t)result == 11);
	CHECK(signal_on_touch(stack + 3 * PAGE, 1) == SIGSEGV);
	CHECK(signal_on_touch(stack, 0) == SIGSEGV);
	ready();
	CHECK(signal_on_touch(NULL, 0) == SIGSEGV);
	/* The runtime's own memory is nothing the program was given. */
	CHECK(signal_on_touch((char *)0x4e0000000000, 0) == SIGSEGV);
	char *once = map(1);
	CHECK(munmap(once, PAGE) == 0 && signal_on_touch(once, 1) == SIGSEGV);
}

static void endless(void)
{
	deep(1 << 20);
}

CHECKS({"reservation_is_opened_piece_by_piece", reservation_is_opened_piece_by_piece},
       {"code_is_written_and_run", code_is_written_and_run},
       {"read_first_and_written_later", read_first_and_written_later},
       {"stack_grows_to_4_mib", stack_grows_to_4_mib}, {"guard_pages_guard", guard_pages_guard},
       {"endless", endless})
