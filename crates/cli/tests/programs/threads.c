/* Threads that touch memory at the same time; libraries that come late. */
#include "check.h"
#include <dlfcn.h>
#include <stdatomic.h>

enum { THREADS = 8, PAGES = 2000 };

static char *shared_pages;
static pthread_barrier_t barrier;
static atomic_int failures;

/* Each thread owns one word of every page: none may be lost, whoever brings the page in. */
static void *races(void *argument)
{
	size_t own = (size_t)argument;
	for (int round = 1; round <= 3; round++) {
		pthread_barrier_wait(&barrier);
		for (size_t page = 0; page < PAGES; page++)
			((volatile uint64_t *)(shared_pages + page * PAGE))[own * 8] += own + round;
		pthread_barrier_wait(&barrier);
		for (size_t page = 0; page < PAGES; page++)
			for (size_t other = 0; other < THREADS; other++) {
				uint64_t sum = 0;
				for (int past = 1; past <= round; past++)
					sum += other + past;
				failures += ((volatile uint64_t *)(shared_pages + page * PAGE))[other * 8] != sum;
			}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void in_threads(void *(*body)(void *), int stop_at_ready)
{
	pthread_t threads[THREADS];
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS + stop_at_ready) == 0);
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
	if (stop_at_ready) {
		pthread_barrier_wait(&barrier);
		ready();
		pthread_barrier_wait(&barrier);
	}
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(failures == 0);
}

static void threads_race_for_the_same_pages(void)
{
	for (int round = 0; round < 5; round++) {
		shared_pages = map(PAGES);
		in_threads(races, 0);
		if (round == 3)
			ready();
		CHECK(munmap(shared_pages, PAGES * PAGE) == 0);
	}
}

static void *uses_its_stack(void *argument)
{
	volatile char frame[200 << 10];
	for (size_t at = 0; at < sizeof(frame); at += 512)
		frame[at] = (char)(size_t)argument;
	char *heap[50];
	for (int i = 0; i < 50; i++) {
		heap[i] = malloc(3000 * (i + 1));
		memset(heap[i], i, 3000 * (i + 1));
	}
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (size_t at = 0; at < sizeof(frame); at += 512)
		failures += frame[at] != (char)(size_t)argument;
	for (int i = 0; i < 50; i++) {
		failures += heap[i][0] != i || heap[i][3000 * (i + 1) - 1] != i;
		free(heap[i]);
	}
	return NULL;
}

static void thread_stacks_and_arenas(void)
{
	in_threads(uses_its_stack, 1);
}

/* Maps, fills, gives up and unmaps: what one thread gives up must not show up in another. */
static void *churns(void *argument)
{
	uint64_t seed = (uint64_t)(size_t)argument + 1;
	for (int round = 0; round < 60; round++) {
		size_t pages = 20 + (round * 31 + seed * 17) % 200;
		char *memory = mmap(NULL, pages * PAGE, RW, ANON, -1, 0);
		if (memory == MAP_FAILED || !is_zero(memory, pages)) {
			failures++;
			return NULL;
		}
		fill(memory, pages, seed);
		failures += !holds(memory, pages, seed);
		madvise(memory, pages / 2 * PAGE, MADV_DONTNEED);
		failures += !is_zero(memory, pages / 2);
		failures += !holds_from(memory + pages / 2 * PAGE, pages - pages / 2, seed, pages / 2);
		munmap(memory, pages * PAGE);
	}
	return NULL;
}

static void threads_map_and_unmap_together(void)
{
	in_threads(churns, 0);
	ready();
}

static atomic_int stop;

static void *reads_on(void *unused)
{
	(void)unused;
	while (!stop)
		for (size_t page = 0; page < PAGES && !stop; page++) {
			uint64_t word = *(volatile uint64_t *)(shared_pages + page * PAGE);
			failures += word != 0 && word != word_for(page, 0, 1);
		}
	return NULL;
}

/* One thread gives pages up while others read them: they see the old word or zero, never another. */
static void given_up_while_others_read(void)
{
	pthread_t threads[3];
	shared_pages = map(PAGES);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, reads_on, NULL) == 0);
	for (int round = 0; round < 40; round++) {
		fill(shared_pages, PAGES, 1);
		size_t first = round * 41 % 1000;
		CHECK(madvise(shared_pages + first * PAGE, 800 * PAGE, MADV_DONTNEED) == 0);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(failures == 0);
	fill(shared_pages, PAGES, 1);
	ready();
	CHECK(holds(shared_pages, PAGES, 1));
}

static void library_comes_late(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
	double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
	CHECK(cosine && cosine(0.0) == 1.0);
	for (int i = 0; i < 100; i++)
		CHECK(cosine(i * 6.283185307179586) > 0.999999);
	ready();
	CHECK(cosine(0.0) == 1.0);
	CHECK(dlclose(library) == 0);
	library = dlopen("libm.so.6", RTLD_LAZY);
	CHECK(library && ((double (*)(double))dlsym(library, "sqrt"))(9.0) == 3.0);
}

CHECKS({"threads_race_for_the_same_pages", threads_race_for_the_same_pages},
       {"thread_stacks_and_arenas", thread_stacks_and_arenas},
       {"threads_map_and_unmap_together", threads_map_and_unmap_together},
       {"given_up_while_others_read", given_up_while_others_read}, {"library_comes_late", library_comes_late})
