/* Programs that end, wait or are signalled. */
#include "check.h"

static void stays(void)
{
	char *memory = map(256);
	fill(memory, 256, 1);
	ready();
	CHECK(holds(memory, 256, 1));
}

static void tell(int number)
{
	char line[] = "signal 00\n";
	line[7] += number / 10;
	line[8] += number % 10;
	CHECK(write(1, line, sizeof(line) - 1) == sizeof(line) - 1);
}

/* Says which signals come. */
static void listens(void)
{
	struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
	int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		CHECK(sigaction(signals[i], &action, NULL) == 0);
	ready();
}

static volatile sig_atomic_t continuations;

static void count(int number)
{
	(void)number;
	continuations++;
}

/* Says how often it was continued, a moment after the last time. */
static void counts_continuations(void)
{
	struct sigaction action = {.sa_handler = count};
	CHECK(sigaction(SIGCONT, &action, NULL) == 0);
	printf("READY %d\n", (int)getpid());
	for (int told = 0;; told = continuations) {
		fflush(stdout);
		while (told == continuations)
			usleep(1000000);
		/* One that comes twice comes at once. */
		int before;
		do {
			before = continuations;
			usleep(50000);
		} while (before != continuations);
		printf("continued %d\n", (int)continuations);
	}
}

static void spins(void)
{
	char *memory = map(64);
	printf("READY %d\n", (int)getpid());
	fflush(stdout);
	for (uint64_t round = 0;; round++)
		fill(memory, 64, round);
}

/* Under a limit of address space, allocations fail and nothing else happens. */
static void limited(void)
{
	struct rlimit limit;
	size_t got = 0;
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY);
	for (;;) {
		char *piece = malloc(1 << 20);
		if (!piece)
			break;
		memset(piece, 1, 1 << 20);
		got++;
		CHECK(got < limit.rlim_cur >> 20);
	}
	CHECK(errno == ENOMEM);
	CHECK(mmap(NULL, limit.rlim_cur, RW, ANON, -1, 0) == MAP_FAILED && errno == ENOMEM);
	CHECK(got > 8);
}

/* Without privileges, frame numbers are hidden. */
static void knows_no_frames(void)
{
	uint64_t entry = 0;
	char *memory = map(1);
	fill(memory, 1, 1);
	CHECK(getuid() != 0 && geteuid() != 0 && getgid() != 0);
	int file = open("/proc/self/pagemap", O_RDONLY);
	if (file >= 0) {
		CHECK(pread(file, &entry, 8, (uintptr_t)memory / PAGE * 8) == 8);
		CHECK((entry & (((uint64_t)1 << 55) - 1)) == 0);
	}
	ready();
}

static void says_its_cores(void)
{
	cpu_set_t set;
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &set))
			printf("core %d\n", core);
}

CHECKS({"stays", stays}, {"counts_continuations", counts_continuations}, {"listens", listens}, {"spins", spins}, {"limited", limited},
       {"knows_no_frames", knows_no_frames}, {"says_its_cores", says_its_cores})
