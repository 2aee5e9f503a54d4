/*
 * Programs that use for themselves what the runtime uses as well, or that leave it little room. Each check looks at its own
 * results; the test looks at what memtint says of it.
 */
#include "check.h"
#include <dirent.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#define PAGES ((size_t)16)

/* Serves one fault after the other of the memory that it watches. */
static void *serves(void *argument)
{
	int fd = *(int *)argument;
	char page[PAGE] __attribute__((aligned(4096)));
	struct uffd_msg message;
	memset(page, 'x', sizeof(page));
	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (uintptr_t)page, .len = PAGE };
		CHECK(ioctl(fd, UFFDIO_COPY, &copy) == 0);
	}
	return NULL;
}

/* As snapshots, migration and garbage collectors do. */
static void serves_its_own_faults(void)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	char *memory = map(PAGES);
	struct uffdio_register watch = { .range = { (uintptr_t)memory, PAGES * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	CHECK(ioctl(fd, UFFDIO_REGISTER, &watch) == 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, serves, &fd) == 0);
	for (size_t page = 0; page < PAGES; page++)
		CHECK(memory[page * PAGE + 9] == 'x');
}

/* Beside a filter the kernel refuses it. */
static void asks_for_strict_mode(void)
{
	CHECK(prctl(PR_SET_SECCOMP, 1) == -1 && errno == EINVAL);
}

/* As systemd's MemoryDenyWriteExecute=: the next program's code is not copied. */
static void denies_executable_memory(void)
{
	/* PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN */
	CHECK(prctl(65, 1UL, 0L, 0L, 0L) == 0);
	execl("/bin/echo", "echo", "OK", NULL);
	CHECK(0);
}

static void has_few_descriptors(void)
{
	struct rlimit limit = { 64, 64 };
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char *memory = map(PAGES);
		fill(memory, PAGES, 5);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int traces(void *argument)
{
	pid_t parent = *(pid_t *)argument;
	if (ptrace(PTRACE_ATTACH, parent, 0, 0) != 0)
		return 1;
	if (waitpid(parent, NULL, __WALL) != parent)
		return 2;
	return ptrace(PTRACE_DETACH, parent, 0, 0) == 0 ? 0 : 3;
}

/* As LeakSanitizer looks at its own threads. */
static void is_traced_by_itself(void)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	pid_t self = getpid();
	prctl(PR_SET_PTRACER, -1L);
	pid_t child = clone(traces, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, &self);
	CHECK(child > 0);
	int status;
	pid_t ended;
	while ((ended = waitpid(child, &status, __WALL)) == -1 && errno == EINTR)
		;
	CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As a restorer that makes room: nothing seems to be mapped where memtint is. */
static void unmaps_memtint(void)
{
	CHECK(munmap((void *)0x4d0000000000, 32 * PAGE) == 0);
	CHECK(munmap((void *)(0x4d0000000000 - 4 * PAGE), 8 * PAGE) == 0);
	CHECK(munmap((void *)0x4cfff0000000, 0x10020000000) == 0);
	CHECK(mprotect((void *)0x4d0000000000, PAGE, PROT_READ) == -1 && errno == ENOMEM);
	CHECK(madvise((void *)0x4d0000100000, PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
	char *memory = map(64 * PAGES);
	fill(memory, 64 * PAGES, 6);
	CHECK(holds(memory, 64 * PAGES, 6));
}

/* Threads of this user, helpers included. */
static int own_threads(void)
{
	int found = 0;
	DIR *all = opendir("/proc");
	CHECK(all != NULL);
	for (struct dirent *one; (one = readdir(all));) {
		char path[300], line[256];
		unsigned user = -1, threads = 0;
		snprintf(path, sizeof(path), "/proc/%s/status", one->d_name);
		FILE *status = atoi(one->d_name) > 0 ? fopen(path, "r") : NULL;
		while (status && fgets(line, sizeof(line), status)) {
			sscanf(line, "Uid: %u", &user);
			sscanf(line, "Threads: %u", &threads);
		}
		if (status)
			fclose(status);
		found += user == getuid() ? threads : 0;
	}
	closedir(all);
	return found;
}

static void has_no_room_for_another_helper(void)
{
	struct rlimit limit = { own_threads() + 1, own_threads() + 1 };
	CHECK(getuid() != 0 && setrlimit(RLIMIT_NPROC, &limit) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(0);
	int status = child_status(child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Debuggers, profilers and stack traces depend on it. */
static void finds_its_code_by_name(void)
{
	char line[512], name[300];
	unsigned long from, to;
	int files = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx r-xp %*s %*s %*s %299s", &from, &to, name) == 3)
			files += name[0] == '/';
		else
			CHECK(!strstr(line, "r-xp"));
	}
	fclose(maps);
	/* The program, the C library and the loader. */
	CHECK(files >= 3);
}

/* As restorers and preloaders do: unmap everything that is neither data nor named. */
static void unmaps_what_has_no_name(void)
{
	struct { unsigned long from, to; } unknown[64];
	char line[512], rights[8], name[300];
	int count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (count < 64 && fgets(line, sizeof(line), maps)) {
		name[0] = 0;
		sscanf(line, "%lx-%lx %7s %*s %*s %*s %299s", &unknown[count].from, &unknown[count].to, rights, name);
		count += !name[0] && strcmp(rights, "rw-p") != 0;
	}
	fclose(maps);
	for (int i = 0; i < count; i++)
		CHECK(munmap((void *)unknown[i].from, unknown[i].to - unknown[i].from) == 0);
	for (int i = 0; i < 20; i++) {
		char *memory = map(700);
		fill(memory, 700, i);
		CHECK(holds(memory, 700, i) && munmap(memory, 700 * PAGE) == 0);
	}
}

CHECKS({"serves_its_own_faults", serves_its_own_faults},
       {"asks_for_strict_mode", asks_for_strict_mode},
       {"denies_executable_memory", denies_executable_memory},
       {"has_few_descriptors", has_few_descriptors},
       {"is_traced_by_itself", is_traced_by_itself},
       {"has_no_room_for_another_helper", has_no_room_for_another_helper},
       {"finds_its_code_by_name", finds_its_code_by_name},
       {"unmaps_what_has_no_name", unmaps_what_has_no_name},
       {"unmaps_memtint", unmaps_memtint})
