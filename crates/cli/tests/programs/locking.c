/* Locked memory: no page fault and the same frame from then on. */
#include "check.h"

enum { PAGES = 1500 };

static uint64_t frames_before[PAGES];

/* Frame numbers of this process; needs privileges, which the suite has. */
static void frames(const void *memory, size_t pages, uint64_t *numbers)
{
	int file = open("/proc/self/pagemap", O_RDONLY);
	CHECK(file >= 0);
	CHECK(pread(file, numbers, pages * 8, (uintptr_t)memory / PAGE * 8) == (ssize_t)(pages * 8));
	for (size_t page = 0; page < pages; page++) {
		if (!(numbers[page] >> 63))
			fprintf(stderr, "page %zu of %zu is not there\n", page, pages);
		CHECK(numbers[page] >> 63);
		numbers[page] &= ((uint64_t)1 << 55) - 1;
		CHECK(numbers[page] != 0);
	}
	close(file);
}

/* Writes for a while; nothing of that faults or moves a page. */
static void stays_in_place(char *memory, size_t pages)
{
	static uint64_t after[PAGES];
	frames(memory, pages, frames_before);
	long faults = minor_faults();
	for (int round = 1; round < 10; round++)
		fill(memory, pages, round);
	faults = minor_faults() - faults;
	if (faults != 0)
		fprintf(stderr, "%ld faults\n", faults);
	CHECK(faults == 0);
	frames(memory, pages, after);
	CHECK(memcmp(frames_before, after, pages * 8) == 0);
}

static long locked_kib(void)
{
	char line[256];
	long value = -1;
	FILE *file = fopen("/proc/self/status", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "VmLck: %ld", &value);
	fclose(file);
	return value;
}

/* Whether every mapping of a range is locked; all of them must be there. */
static int is_locked(const void *memory, size_t pages)
{
	char line[512];
	uintptr_t at = (uintptr_t)memory, end = at + pages * PAGE, from, to;
	int inside = 0, locked = 1;
	FILE *file = fopen("/proc/self/smaps", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			inside = from <= at && at < to && at < end;
			at = inside ? to : at;
		} else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
			locked &= strstr(line, " lo") != NULL;
		}
	}
	fclose(file);
	CHECK(at >= end);
	return locked;
}

static void mlock_brings_in_and_holds(void)
{
	char *memory = map(PAGES);
	CHECK(mlock(memory, PAGES * PAGE) == 0);
	stays_in_place(memory, PAGES);
	CHECK(locked_kib() >= (long)(PAGES * PAGE >> 10));
	ready();
	CHECK(holds(memory, PAGES, 9));
	CHECK(munlock(memory, PAGES * PAGE) == 0);
	CHECK(locked_kib() < (long)(PAGES * PAGE >> 10));
	fill(memory, PAGES, 1);
	CHECK(holds(memory, PAGES, 1));
}

static void mlock_on_fault_brings_in_nothing(void)
{
	char *memory = map(PAGES);
	CHECK(syscall(SYS_mlock2, memory, PAGES * PAGE, MLOCK_ONFAULT) == 0);
	unsigned char present[PAGES];
	CHECK(mincore(memory, PAGES * PAGE, present) == 0);
	for (int page = 0; page < PAGES; page++)
		CHECK((present[page] & 1) == 0);
	fill(memory, PAGES, 1);
	stays_in_place(memory, PAGES);
	ready();
	CHECK(holds(memory, PAGES, 9));
}

static void map_locked_brings_in(void)
{
	char *memory = mmap(NULL, PAGES * PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	CHECK(memory != MAP_FAILED);
	stays_in_place(memory, PAGES);
	CHECK(locked_kib() >= (long)(PAGES * PAGE >> 10));
	ready();
	CHECK(holds(memory, PAGES, 9));
	CHECK(munmap(memory, PAGES * PAGE) == 0);
}

static char zeroes[64 * 4096], data[64 * 4096] = {1};

static void mlockall_is_all_and_for_ever(void)
{
	char *before = map(PAGES);
	fill(before, PAGES / 2, 1);
	CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
	CHECK(holds(before, PAGES / 2, 1));
	stays_in_place(before, PAGES);
	stays_in_place(zeroes, 64);
	stays_in_place(data, 64);
	char *later = map(PAGES);
	stays_in_place(later, PAGES);
	char *heap = sbrk(PAGES * PAGE);
	heap += -(uintptr_t)heap % PAGE;
	stays_in_place(heap, PAGES - 1);
	ready();
	CHECK(holds(later, PAGES, 9) && holds(before, PAGES, 9) && holds(heap, PAGES - 1, 9));
	CHECK(munlockall() == 0);
	char *unlocked = map(PAGES);
	fill(unlocked, PAGES, 1);
	CHECK(holds(unlocked, PAGES, 1));
	CHECK(locked_kib() == 0);
}

static void locked_memory_grows_locked(void)
{
	CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
	char *memory = mremap(map(100), 100 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
	CHECK(memory != MAP_FAILED);
	stays_in_place(memory, PAGES);
	ready();
	CHECK(holds(memory, PAGES, 9));
}

/* Grows locked memory, there or elsewhere: what was there keeps its frames, what comes is there and locked. */
static char *grow_locked(char *memory, size_t from, size_t to, int moves)
{
	static uint64_t before[PAGES], after[PAGES];
	fill(memory, from, 3);
	frames(memory, from, before);
	char *grown;
	if (moves) {
		char *place = map(to);
		grown = mremap(memory, from * PAGE, to * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		CHECK(grown == place);
	} else {
		grown = mremap(memory, from * PAGE, to * PAGE, 0);
		CHECK(grown == memory);
	}
	frames(grown, to, after);
	CHECK(memcmp(before, after, from * 8) == 0);
	CHECK(is_locked(grown, to));
	CHECK(holds(grown, from, 3) && is_zero(grown + from * PAGE, to - from));
	stays_in_place(grown, to);
	return grown;
}

/* Memory that can grow where it is. */
static char *map_with_room(size_t pages, size_t room)
{
	char *memory = map(pages + room);
	CHECK(munmap(memory + pages * PAGE, room * PAGE) == 0);
	return memory;
}

static void mlocked_memory_grows(void)
{
	char *memory = map_with_room(100, 600);
	CHECK(mlock(memory, 100 * PAGE) == 0);
	memory = grow_locked(memory, 100, 700, 0);
	memory = grow_locked(memory, 700, PAGES, 1);
	CHECK(locked_kib() == (long)(PAGES * PAGE >> 10));
	ready();
	CHECK(holds(memory, PAGES, 9));
	CHECK(munmap(memory, PAGES * PAGE) == 0);
	CHECK(locked_kib() == 0);
}

static void all_locked_memory_grows(void)
{
	char *before = map_with_room(100, 600);
	CHECK(mlockall(MCL_CURRENT) == 0);
	before = grow_locked(before, 100, 700, 0);
	/* Not mapped yet when all was locked: not locked when it grows either. */
	char *later = map(10);
	later = mremap(later, 10 * PAGE, 500 * PAGE, MREMAP_MAYMOVE);
	CHECK(later != MAP_FAILED && !is_locked(later, 500));
	unsigned char present[500];
	CHECK(mincore(later, 500 * PAGE, present) == 0);
	for (int page = 0; page < 500; page++)
		CHECK((present[page] & 1) == 0);
	before = grow_locked(before, 700, PAGES, 1);
	CHECK(mlockall(MCL_FUTURE) == 0);
	char *future = grow_locked(map(50), 50, 400, 1);
	ready();
	CHECK(holds(before, PAGES, 9) && holds(future, 400, 9));
}

static void locked_on_fault_it_grows(void)
{
	char *memory = map(100);
	CHECK(syscall(SYS_mlock2, memory, 100 * PAGE, MLOCK_ONFAULT) == 0);
	memory = mremap(memory, 100 * PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
	CHECK(memory != MAP_FAILED);
	CHECK(locked_kib() == (long)(PAGES * PAGE >> 10));
	fill(memory, PAGES, 1);
	stays_in_place(memory, PAGES);
	ready();
	CHECK(holds(memory, PAGES, 9));
}

enum { MANY = 20000 };

static void locked_memory_grows_page_by_page(void)
{
	size_t pages = MANY;
	char *memory = map_with_room(pages, 200);
	CHECK(mlock(memory, pages * PAGE) == 0);
	for (int round = 0; round < 200; round++, pages++)
		CHECK(mremap(memory, pages * PAGE, (pages + 1) * PAGE, 0) == memory);
	long faults = minor_faults();
	fill(memory, pages, 1);
	CHECK(minor_faults() == faults);
	ready();
	CHECK(holds(memory, pages, 1));
}

static void locked_memory_can_be_released_and_taken_again(void)
{
	CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
	for (int round = 1; round < 30; round++) {
		char *memory = map(PAGES);
		CHECK(is_zero(memory, PAGES));
		fill(memory, PAGES, round);
		CHECK(holds(memory, PAGES, round));
		if (round == 15)
			ready();
		CHECK(munmap(memory, PAGES * PAGE) == 0);
	}
}

/* What the kernel refuses has done nothing. */
static void locked_memory_is_not_given_up(void)
{
	CHECK(mlockall(MCL_FUTURE) == 0);
	char *memory = map(PAGES);
	fill(memory, PAGES, 5);
	CHECK(madvise(memory, PAGES * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(holds(memory, PAGES, 5));
	CHECK(munlock(memory + 10 * PAGE, 10 * PAGE) == 0);
	CHECK(madvise(memory + 10 * PAGE, (PAGES - 10) * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(is_zero(memory + 10 * PAGE, 10) && holds_from(memory + 20 * PAGE, PAGES - 20, 5, 20));
	ready();
	CHECK(holds_from(memory + 20 * PAGE, PAGES - 20, 5, 20));
	CHECK(munlockall() == 0);
	CHECK(madvise(memory, PAGES * PAGE, MADV_DONTNEED) == 0);
	CHECK(is_zero(memory, PAGES));
}

static void limits_of_locked_memory_hold(void)
{
	struct rlimit limit = {64 << 10, 64 << 10};
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	char *memory = map(PAGES);
	if (geteuid() != 0) {
		CHECK(mlock(memory, PAGES * PAGE) == -1 && errno == ENOMEM);
		CHECK(mlock(memory, 8 * PAGE) == 0);
	}
	CHECK(mlock(memory, (size_t)1 << 46) == -1 && errno == ENOMEM);
	fill(memory, PAGES, 1);
	ready();
	CHECK(holds(memory, PAGES, 1));
}

/* Memory that nobody has touched and that cannot be written: to bring it in takes the helper. */
static void untouched_read_only_memory_is_brought_in(void)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ, ANON, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(madvise(memory, PAGES * PAGE, MADV_POPULATE_READ) == 0);
	CHECK(madvise(memory, PAGES * PAGE, MADV_POPULATE_WRITE) == -1);
	char *other = map(PAGES);
	CHECK(mprotect(other, PAGES * PAGE, PROT_READ) == 0);
	CHECK(mlock(other, PAGES * PAGE) == 0);
	char *third = mmap(NULL, PAGES * PAGE, PROT_READ, ANON, -1, 0);
	CHECK(third != MAP_FAILED);
	CHECK(mlockall(MCL_CURRENT) == 0);
	ready();
	CHECK(is_zero(memory, PAGES) && is_zero(other, PAGES) && is_zero(third, PAGES));
	CHECK(mprotect(other, PAGES * PAGE, RW) == 0);
	fill(other, PAGES, 4);
	CHECK(holds(other, PAGES, 4));
}

static char *contended;
static volatile int done;

static void *gives_up(void *nothing)
{
	while (!done)
		madvise(contended, PAGE, MADV_DONTNEED);
	return nothing;
}

static void populating_goes_on_while_others_give_up(void)
{
	pthread_t thread;
	contended = map(PAGES);
	CHECK(pthread_create(&thread, NULL, gives_up, NULL) == 0);
	for (int round = 0; round < 200; round++)
		CHECK(madvise(contended, PAGES * PAGE, MADV_POPULATE_WRITE) == 0);
	done = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	ready();
	CHECK(is_zero(contended, PAGES));
}

CHECKS({"mlock_brings_in_and_holds", mlock_brings_in_and_holds},
       {"mlock_on_fault_brings_in_nothing", mlock_on_fault_brings_in_nothing},
       {"map_locked_brings_in", map_locked_brings_in},
       {"mlockall_is_all_and_for_ever", mlockall_is_all_and_for_ever},
       {"locked_memory_grows_locked", locked_memory_grows_locked},
       {"mlocked_memory_grows", mlocked_memory_grows},
       {"all_locked_memory_grows", all_locked_memory_grows},
       {"locked_on_fault_it_grows", locked_on_fault_it_grows},
       {"locked_memory_grows_page_by_page", locked_memory_grows_page_by_page},
       {"locked_memory_can_be_released_and_taken_again", locked_memory_can_be_released_and_taken_again},
       {"locked_memory_is_not_given_up", locked_memory_is_not_given_up},
       {"untouched_read_only_memory_is_brought_in", untouched_read_only_memory_is_brought_in},
       {"populating_goes_on_while_others_give_up", populating_goes_on_while_others_give_up},
       {"limits_of_locked_memory_hold", limits_of_locked_memory_hold})
