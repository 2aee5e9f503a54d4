/* Calls that create, move and give up memory. */
#include "check.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* --- for suites about whole runs --- */

static void counts_first_touches(void)
{
	size_t pages = 4000;
	long before = minor_faults();
	char *memory = map(pages);
	fill(memory, pages, 1);
	printf("faults %ld\n", minor_faults() - before);
	ready();
	CHECK(holds(memory, pages, 1));
}

static void grows_when_told(void)
{
	ready();
	size_t pages = 10000;
	char *memory = map(pages);
	fill(memory, pages, 1);
	char *heap[64];
	for (int i = 0; i < 64; i++) {
		heap[i] = malloc(16 * PAGE);
		memset(heap[i], i, 16 * PAGE);
	}
	ready();
	CHECK(holds(memory, pages, 1));
	for (int i = 0; i < 64; i++)
		CHECK(heap[i][0] == i && heap[i][16 * PAGE - 1] == i);
}

/* --- brk --- */

static void brk_grows_and_shrinks(void)
{
	char *start = sbrk(0);
	start += -(uintptr_t)start % PAGE;
	CHECK(brk(start) == 0);
	for (int round = 0; round < 20; round++) {
		size_t pages = 1 + 97 * round % 512;
		CHECK(brk(start + pages * PAGE) == 0);
		CHECK(is_zero(start, pages));
		fill(start, pages, round + 1);
		CHECK(holds(start, pages, round + 1));
		if (round == 10)
			ready();
		/* Half of it first: the rest must keep its contents. */
		CHECK(brk(start + pages / 2 * PAGE) == 0);
		CHECK(holds(start, pages / 2, round + 1));
		CHECK(brk(start) == 0);
	}
	CHECK(brk(start + 3 * PAGE + 100) == 0);
	fill(start, 3, 1);
	start[3 * PAGE + 99] = 7;
	CHECK(brk(start + 3 * PAGE + 200) == 0);
	CHECK(start[3 * PAGE + 99] == 7 && start[3 * PAGE + 150] == 0 && holds(start, 3, 1));
	CHECK(sbrk(0) == start + 3 * PAGE + 200);
}

/* The heap cannot end before it begins: nothing of data and text is given up. */
static void brk_stays_where_it_cannot_go(void)
{
	static char data[64 * 4096] = {1};
	char *end = sbrk(0);
	fill(data, 64, 1);
	for (int round = 0; round < 3; round++) {
		char *places[] = {(char *)1, (char *)PAGE, data, data + 32 * PAGE};
		for (int place = 0; place < 4; place++)
			CHECK((char *)syscall(SYS_brk, places[place]) == end);
		CHECK(holds(data, 64, 1));
		if (round == 1)
			ready();
	}
	CHECK(brk(end + 5 * PAGE) == 0 && brk(end) == 0);
	CHECK(holds(data, 64, 1));
}

/* --- mmap and munmap --- */

static void recycled_memory_is_zero(void)
{
	for (int round = 0; round < 200; round++) {
		size_t pages = 16 + round * 7 % 500;
		char *memory = map(pages);
		CHECK(is_zero(memory, pages));
		fill(memory, pages, round + 1);
		CHECK(holds(memory, pages, round + 1));
		if (round == 100)
			ready();
		if (round % 3 == 0) {
			/* A hole in the middle; the rest keeps its contents. */
			size_t hole = pages / 4;
			CHECK(munmap(memory + hole * PAGE, hole * PAGE) == 0);
			CHECK(holds(memory, hole, round + 1));
			CHECK(holds_from(memory + 2 * hole * PAGE, pages - 2 * hole, round + 1, 2 * hole));
		}
		CHECK(munmap(memory, pages * PAGE) == 0);
	}
}

static void fixed_maps_replace_what_was_there(void)
{
	size_t pages = 256;
	char *memory = map(pages);
	fill(memory, pages, 1);
	char *again = mmap(memory + 64 * PAGE, 64 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	CHECK(again == memory + 64 * PAGE);
	CHECK(is_zero(again, 64));
	CHECK(holds(memory, 64, 1) && holds_from(memory + 128 * PAGE, 128, 1, 128));
	fill(again, 64, 2);
	ready();
	CHECK(holds(again, 64, 2) && holds(memory, 64, 1));

	char *none = mmap(memory, pages * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(none == MAP_FAILED && errno == EEXIST);
	CHECK(holds(again, 64, 2) && holds(memory, 64, 1));
	CHECK(munmap(memory, pages * PAGE) == 0);
	none = mmap(memory, pages * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(none == memory && is_zero(memory, pages));
}

static void mmap_fails_as_ever(void)
{
	CHECK(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, RW, MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap((void *)123, PAGE, RW, ANON | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, (size_t)1 << 60, RW, ANON | MAP_NORESERVE, -1, 0) == MAP_FAILED && errno == ENOMEM);
	CHECK(mmap(NULL, PAGE, RW, MAP_PRIVATE, 12345, 0) == MAP_FAILED && errno == EBADF);
	CHECK(munmap((void *)123, PAGE) == -1 && errno == EINVAL);
	CHECK(munmap(NULL, 0) == -1 && errno == EINVAL);
	char *memory = map(4);
	CHECK(mremap(memory, 4 * PAGE, 0, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
	CHECK(munmap(memory, 4 * PAGE) == 0);
	CHECK(mremap(memory, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
	CHECK(madvise(memory, 4 * PAGE, 9999) == -1 && errno == EINVAL);
	CHECK(madvise(memory, 4 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
	enum { PAGES = 300 };
	memory = map(PAGES);
	fill(memory, PAGES, 1);
	CHECK(munmap(memory + 1, PAGES * PAGE) == -1 && errno == EINVAL);
	CHECK(munmap(memory, SIZE_MAX - PAGE) == -1 && errno == EINVAL);
	CHECK(madvise(memory + 1, PAGES * PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(madvise(memory, SIZE_MAX - PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(holds(memory, PAGES, 1));
	/* An odd length counts whole pages. */
	memory = mmap(NULL, 2 * PAGE + 1, RW, ANON, -1, 0);
	CHECK(memory != MAP_FAILED);
	fill(memory, 3, 1);
	CHECK(holds(memory, 3, 1));
	ready();
}

static void ten_thousand_small_maps(void)
{
	enum { COUNT = 10000 };
	static char *maps[COUNT];
	for (int i = 0; i < COUNT; i++) {
		/* Neighbours differ in protection, so that the kernel cannot merge them. */
		maps[i] = mmap(NULL, 2 * PAGE, i % 2 ? RW : RW | PROT_EXEC, ANON, -1, 0);
		CHECK(maps[i] != MAP_FAILED);
		fill(maps[i], 1, i & 0xfff);
	}
	ready();
	for (int i = 0; i < COUNT; i++) {
		CHECK(holds(maps[i], 1, i & 0xfff) && is_zero(maps[i] + PAGE, 1));
		CHECK(munmap(maps[i], 2 * PAGE) == 0);
	}
}

static void sparse_touch_of_64_gib(void)
{
	size_t length = (size_t)64 << 30, step = (size_t)16 << 20;
	char *memory = mmap(NULL, length, RW, ANON | MAP_NORESERVE, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (size_t at = 0; at < length; at += step)
		fill(memory + at, 1, at / step & 0xfff);
	ready();
	for (size_t at = 0; at < length; at += step)
		CHECK(holds(memory + at, 1, at / step & 0xfff) && is_zero(memory + at + 100 * PAGE, 1));
	CHECK(munmap(memory, length) == 0);
}

static void populated_memory_takes_no_faults(void)
{
	size_t pages = 2000;
	char *memory = mmap(NULL, pages * PAGE, RW, ANON | MAP_POPULATE, -1, 0);
	CHECK(memory != MAP_FAILED);
	long before = minor_faults();
	fill(memory, pages, 1);
	CHECK(minor_faults() - before < 20);
	char *later = map(pages);
	CHECK(madvise(later, pages * PAGE, MADV_POPULATE_WRITE) == 0);
	before = minor_faults();
	fill(later, pages, 2);
	CHECK(minor_faults() - before < 20);
	char *read = map(pages);
	CHECK(madvise(read, pages * PAGE, MADV_POPULATE_READ) == 0);
	fill(read, pages, 3);
	ready();
	CHECK(holds(memory, pages, 1) && holds(later, pages, 2) && holds(read, pages, 3));
}

/* --- mremap --- */

static void mremap_grows_moves_and_shrinks(void)
{
	char *memory = map(100);
	fill(memory, 100, 1);
	char *grown = mremap(memory, 100 * PAGE, 1000 * PAGE, MREMAP_MAYMOVE);
	CHECK(grown != MAP_FAILED);
	CHECK(holds(grown, 100, 1) && is_zero(grown + 100 * PAGE, 900));
	fill(grown, 1000, 2);
	/* A wall behind it: it must move. */
	char *wall = mmap(grown + 1000 * PAGE, PAGE, PROT_NONE, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	char *moved = mremap(grown, 1000 * PAGE, 1500 * PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && (wall != grown + 1000 * PAGE || moved != grown));
	CHECK(holds(moved, 1000, 2) && is_zero(moved + 1000 * PAGE, 500));
	fill(moved, 1500, 3);
	ready();
	CHECK(mremap(moved, 1500 * PAGE, 200 * PAGE, 0) == moved);
	CHECK(holds(moved, 200, 3));
	CHECK(mremap(moved, 200 * PAGE, 600 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED);
}

static void mremap_to_a_fixed_place(void)
{
	char *target = map(300), *memory = map(200);
	fill(target, 300, 1);
	fill(memory, 200, 2);
	CHECK(mremap(memory, 200 * PAGE, 250 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
	CHECK(holds(target, 200, 2) && is_zero(target + 200 * PAGE, 50));
	CHECK(holds_from(target + 250 * PAGE, 50, 1, 250));
	fill(target, 250, 3);
	/* The old place is free again. */
	char *again = mmap(memory, 200 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(again == memory && is_zero(memory, 200));
	fill(memory, 200, 4);
	ready();
	CHECK(holds(target, 250, 3) && holds(memory, 200, 4));
}

static void mremap_leaves_the_old_place_mapped(void)
{
	size_t pages = 200;
	char *memory = map(pages);
	fill(memory, pages, 1);
	char *moved = mremap(memory, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	CHECK(moved != MAP_FAILED && moved != memory);
	CHECK(holds(moved, pages, 1));
	CHECK(is_zero(memory, pages));
	fill(memory, pages, 2);
	ready();
	CHECK(holds(moved, pages, 1) && holds(memory, pages, 2));
}

static void mremap_of_what_is_not_there_yet(void)
{
	char *memory = map(512);
	fill(memory + 100 * PAGE, 1, 1);
	char *wall = mmap(memory + 512 * PAGE, PAGE, PROT_NONE, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(wall != MAP_FAILED || errno == EEXIST);
	char *moved = mremap(memory, 512 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED && holds(moved + 100 * PAGE, 1, 1) && is_zero(moved, 100));
	fill(moved, 1024, 2);
	ready();
	CHECK(holds(moved, 1024, 2));
}

/* --- madvise --- */

static void dontneed_reads_zero_afterwards(void)
{
	size_t pages = 1000;
	char *memory = map(pages);
	for (int round = 1; round < 20; round++) {
		fill(memory, pages, round);
		size_t first = 37 * round % 500, count = 1 + 53 * round % 400;
		CHECK(madvise(memory + first * PAGE, count * PAGE, MADV_DONTNEED) == 0);
		CHECK(is_zero(memory + first * PAGE, count));
		CHECK(holds(memory, first, round));
		CHECK(holds_from(memory + (first + count) * PAGE, pages - first - count, round, first + count));
		if (round == 10) {
			fill(memory, pages, round);
			ready();
			CHECK(holds(memory, pages, round));
		}
	}
}

static void freed_pages_hold_old_data_or_zero(void)
{
	size_t pages = 1000;
	char *memory = map(pages);
	fill(memory, pages, 1);
	CHECK(madvise(memory, pages * PAGE, MADV_FREE) == 0);
	for (size_t page = 0; page < pages; page++)
		CHECK(is_zero(memory + page * PAGE, 1) || holds_from(memory + page * PAGE, 1, 1, page));
	fill(memory, pages / 2, 2);
	ready();
	CHECK(holds(memory, pages / 2, 2));
	fill(memory, pages, 3);
	CHECK(holds(memory, pages, 3));
}

static long kib_in_smaps(const char *field)
{
	char line[256];
	long sum = 0, value;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, field, strlen(field)) == 0 && sscanf(line + strlen(field), "%ld", &value) == 1)
			sum += value;
	fclose(file);
	return sum;
}

static void huge_pages_are_asked_for_and_not_given(void)
{
	size_t length = (size_t)16 << 20, huge = (size_t)2 << 20;
	char *memory = mmap(NULL, length, RW, ANON, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(madvise(memory, length, MADV_HUGEPAGE) == 0);
	fill(memory, length / PAGE, 1);
	char *aligned = memory + -(uintptr_t)memory % huge;
	/* Whatever the answer, nothing is collapsed. */
	madvise(aligned, huge, MADV_COLLAPSE);
	CHECK(holds(memory, length / PAGE, 1));
	ready();
	CHECK(holds(memory, length / PAGE, 1));
	CHECK(madvise(memory, length, MADV_NOHUGEPAGE) == 0);
}

static void no_huge_pages(void)
{
	huge_pages_are_asked_for_and_not_given();
	CHECK(kib_in_smaps("AnonHugePages:") == 0);
}

/* --- files --- */

/* The flags that the C library's loader uses. */
#define LOADED (MAP_PRIVATE | MAP_DENYWRITE)

static int new_file(size_t pages, size_t more)
{
	char name[] = "memory-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0);
	char *block = malloc(PAGE);
	for (size_t page = 0; page < pages; page++) {
		fill(block, 1, page);
		CHECK(pwrite(file, block, PAGE, page * PAGE) == (ssize_t)PAGE);
	}
	CHECK(ftruncate(file, pages * PAGE + more) == 0);
	free(block);
	return file;
}

static void data_of_a_library_is_changed_for_oneself_only(void)
{
	size_t pages = 50;
	int file = new_file(pages, 0);
	char block[PAGE];
	char *memory = mmap(NULL, pages * PAGE, RW, LOADED, file, 0);
	CHECK(memory != MAP_FAILED);
	for (size_t page = 0; page < pages; page++)
		CHECK(holds(memory + page * PAGE, 1, page));
	fill(memory + 10 * PAGE, 10, 99);
	ready();
	CHECK(holds(memory + 10 * PAGE, 10, 99));
	for (size_t page = 0; page < pages; page++) {
		CHECK(pread(file, block, PAGE, page * PAGE) == (ssize_t)PAGE);
		CHECK(holds(block, 1, page));
		CHECK((page >= 10 && page < 20) || holds(memory + page * PAGE, 1, page));
	}
}

/*
 * 300 MiB of nothing, mapped privately; half of the pages are written: more than other runs can just have given back in
 * color.
 */
static void large_private_files(void)
{
	size_t length = (size_t)300 << 20, pages = 40000;
	FILE *file = tmpfile();
	CHECK(file && ftruncate(fileno(file), length) == 0);
	char *at_once = mmap(NULL, length, RW, LOADED, fileno(file), 0);
	char *later = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	CHECK(at_once != MAP_FAILED && later != MAP_FAILED);
	CHECK(mprotect(later, length, RW) == 0);
	fill(at_once, pages, 1);
	fill(later, pages, 2);
	ready();
	CHECK(holds(at_once, pages, 1) && holds(later, pages, 2));
}

static void library_is_made_writable_later(void)
{
	size_t pages = 50;
	int file = new_file(pages, 0);
	char block[PAGE];
	char *memory = mmap(NULL, pages * PAGE, PROT_READ, LOADED, file, 0);
	CHECK(memory != MAP_FAILED && holds(memory, 1, 0));
	CHECK(mmap(memory + 40 * PAGE, 10 * PAGE, PROT_READ | PROT_EXEC, LOADED | MAP_FIXED, file, 40 * PAGE) != MAP_FAILED);
	CHECK(mprotect(memory, 20 * PAGE, RW) == 0);
	fill(memory, 10, 98);
	ready();
	CHECK(holds(memory, 10, 98) && holds(memory + 10 * PAGE, 1, 10) && holds(memory + 30 * PAGE, 1, 30));
	CHECK(pread(file, block, PAGE, 0) == (ssize_t)PAGE && holds(block, 1, 0));
	CHECK(mprotect(memory, 50 * PAGE, RW) == 0 && holds(memory, 10, 98) && holds(memory + 40 * PAGE, 1, 40));
	ready();
}

/* As musl's loader does, without MAP_DENYWRITE: first the whole file, then data over a part of it. */
static void data_is_mapped_beside_code(void)
{
	size_t pages = 40;
	int file = new_file(pages, 0);
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	CHECK(memory != MAP_FAILED);
	char *data = mmap(memory + 20 * PAGE, 20 * PAGE, RW, MAP_PRIVATE | MAP_FIXED, file, 20 * PAGE);
	CHECK(data == memory + 20 * PAGE && holds(data, 1, 20));
	fill(data, 20, 7);
	ready();
	CHECK(holds(memory, 1, 0) && holds(data, 20, 7));
	/* Discarding private pages brings back the file's content. */
	CHECK(madvise(data, 20 * PAGE, MADV_DONTNEED) == 0 && holds(data, 1, 20) && holds(data + 19 * PAGE, 1, 39));
	CHECK(madvise(memory, PAGE, MADV_DONTNEED) == 0 && holds(memory, 1, 0));
}

/* A private mapping of an ordinary file shows every later change of the file. */
static void private_files_follow_their_files(void)
{
	size_t pages = 50;
	int file = new_file(pages, 0);
	char *memory = mmap(NULL, pages * PAGE, RW, MAP_PRIVATE, file, 0);
	char *later = mmap(NULL, pages * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	CHECK(memory != MAP_FAILED && later != MAP_FAILED && mprotect(later, pages * PAGE, RW) == 0);
	char *both[] = { memory, later };
	CHECK(pwrite(file, "X", 1, PAGE) == 1);
	for (int i = 0; i < 2; i++)
		CHECK(both[i][PAGE] == 'X');
	CHECK(ftruncate(file, PAGE) == 0 && ftruncate(file, pages * PAGE) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(both[i][PAGE] == 0);
	CHECK(pwrite(file, "Y", 1, PAGE) == 1);
	CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(both[i][PAGE] == 0);
	for (int i = 0; i < 2; i++)
		both[i][0] = 'Q';
	CHECK(pwrite(file, "Z", 1, 0) == 1);
	for (int i = 0; i < 2; i++) {
		CHECK(both[i][0] == 'Q' && madvise(both[i], PAGE, MADV_DONTNEED) == 0);
		CHECK(both[i][0] == 'Z');
	}
	fill(memory + 10 * PAGE, 30, 5);
	ready();
	CHECK(holds(memory + 10 * PAGE, 30, 5));
}

/* A private mapping of /dev/zero is anonymous memory. */
static void dev_zero_is_plain_memory(void)
{
	size_t pages = 50;
	int file = open("/dev/zero", O_RDWR);
	char *memory = mmap(NULL, pages * PAGE, RW, MAP_PRIVATE, file, 0);
	CHECK(file >= 0 && memory != MAP_FAILED && is_zero(memory, 2));
	fill(memory, pages, 3);
	ready();
	CHECK(holds(memory, pages, 3));
}

static char *volatile allowed_page;
static volatile int raised;

static void note_and_allow(int number, siginfo_t *info, void *context)
{
	(void)context;
	raised = number;
	char *page = (char *)((uintptr_t)info->si_addr & -PAGE);
	if (page != allowed_page || mmap(page, PAGE, RW, ANON | MAP_FIXED, -1, 0) != page)
		_exit(3);
}

/* Which signal a touch raises; 0 = none. The page is replaced by an ordinary one. */
static int signal_on_touch(char *page, int write)
{
	static char stack[64 << 10];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_sigaction = note_and_allow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	CHECK(sigaltstack(&other, NULL) == 0);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	allowed_page = page;
	raised = 0;
	if (write)
		*(volatile char *)page = 1;
	else
		(void)*(volatile char *)page;
	allowed_page = NULL;
	return raised;
}

static void beyond_the_end_of_a_file_is_sigbus(void)
{
	int file = new_file(3, 100);
	char *memory = mmap(NULL, 8 * PAGE, RW, LOADED, file, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(holds(memory + 2 * PAGE, 1, 2) && is_zero(memory + 3 * PAGE, 1));
	memory[3 * PAGE + 99] = 1;
	ready();
	CHECK(signal_on_touch(memory + 4 * PAGE, 0) == SIGBUS);
	CHECK(signal_on_touch(memory + 6 * PAGE, 1) == SIGBUS);
	CHECK(memory[3 * PAGE + 99] == 1);
}

static void shared_memory_is_left_alone(void)
{
	size_t pages = 500;
	char *memory = mmap(NULL, pages * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	fill(memory, pages, 1);
	int file = memfd_create("shared", 0);
	CHECK(file >= 0 && ftruncate(file, pages * PAGE) == 0);
	char *one = mmap(NULL, pages * PAGE, RW, MAP_SHARED, file, 0);
	char *other = mmap(NULL, pages * PAGE, RW, MAP_SHARED, file, 0);
	CHECK(one != MAP_FAILED && other != MAP_FAILED);
	fill(one, pages, 2);
	CHECK(holds(other, pages, 2));
	CHECK(mremap(one, pages * PAGE, 2 * pages * PAGE, MREMAP_MAYMOVE) != MAP_FAILED);
	CHECK(madvise(other, pages * PAGE, MADV_DONTNEED) == 0 && holds(other, pages, 2));
	ready();
	CHECK(holds(memory, pages, 1));
}

static void kernel_writes_into_fresh_memory(void)
{
	size_t pages = 600;
	int file = new_file(pages, 0);
	char *memory = map(pages);
	CHECK(pread(file, memory, pages * PAGE, 0) == (ssize_t)(pages * PAGE));
	for (size_t page = 0; page < pages; page++)
		CHECK(holds(memory + page * PAGE, 1, page));
	/* And through a pipe, from memory nobody has touched. */
	char *source = map(64), *sink = map(64);
	int ends[2];
	CHECK(pipe(ends) == 0);
	for (int page = 0; page < 64; page++) {
		if (page % 2)
			fill(source + page * PAGE, 1, page);
		CHECK(write(ends[1], source + page * PAGE, PAGE) == (ssize_t)PAGE);
		CHECK(read(ends[0], sink + page * PAGE, PAGE) == (ssize_t)PAGE);
	}
	ready();
	for (int page = 0; page < 64; page++)
		CHECK(page % 2 ? holds(sink + page * PAGE, 1, page) : is_zero(sink + page * PAGE, 1));
}

CHECKS({"counts_first_touches", counts_first_touches}, {"grows_when_told", grows_when_told}, {"brk_grows_and_shrinks", brk_grows_and_shrinks}, {"brk_stays_where_it_cannot_go", brk_stays_where_it_cannot_go},
       {"recycled_memory_is_zero", recycled_memory_is_zero},
       {"fixed_maps_replace_what_was_there", fixed_maps_replace_what_was_there},
       {"mmap_fails_as_ever", mmap_fails_as_ever}, {"ten_thousand_small_maps", ten_thousand_small_maps},
       {"sparse_touch_of_64_gib", sparse_touch_of_64_gib},
       {"populated_memory_takes_no_faults", populated_memory_takes_no_faults},
       {"mremap_grows_moves_and_shrinks", mremap_grows_moves_and_shrinks},
       {"mremap_to_a_fixed_place", mremap_to_a_fixed_place},
       {"mremap_leaves_the_old_place_mapped", mremap_leaves_the_old_place_mapped},
       {"mremap_of_what_is_not_there_yet", mremap_of_what_is_not_there_yet},
       {"dontneed_reads_zero_afterwards", dontneed_reads_zero_afterwards},
       {"freed_pages_hold_old_data_or_zero", freed_pages_hold_old_data_or_zero},
       {"huge_pages_are_asked_for_and_not_given", huge_pages_are_asked_for_and_not_given},
       {"no_huge_pages", no_huge_pages},
       {"data_of_a_library_is_changed_for_oneself_only", data_of_a_library_is_changed_for_oneself_only},
       {"dev_zero_is_plain_memory", dev_zero_is_plain_memory},
       {"data_is_mapped_beside_code", data_is_mapped_beside_code},
       {"private_files_follow_their_files", private_files_follow_their_files},
       {"large_private_files", large_private_files},
       {"library_is_made_writable_later", library_is_made_writable_later},
       {"beyond_the_end_of_a_file_is_sigbus", beyond_the_end_of_a_file_is_sigbus},
       {"shared_memory_is_left_alone", shared_memory_is_left_alone},
       {"kernel_writes_into_fresh_memory", kernel_writes_into_fresh_memory})
