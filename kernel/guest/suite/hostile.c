// SPDX-License-Identifier: GPL-2.0-only
/*
 * hostile MAPPING CLASSES FLOOR POLICY ATTEMPT...: attempts to get memory of
 * other colors, each by a program that has been given the policy, and judged
 * from outside, by one that has none and helps where it is asked to.
 *
 * A line "ATTEMPT WORD DETAIL" for each: "held", every page that the attempt
 * was about is in the classes; "refused", the kernel did not do it; "killed";
 * "out", some page is in another class.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

#define PAGES 512UL
#define BYTES (PAGES * PAGE_BYTES)
#define HUGE_BYTES (2UL << 20)
#define CROWD_BYTES (64UL << 20)
/* Where the attempt speaks to who started it. */
#define ASK 100
#define TOLD 101
#define REFUSED 3
#define NOBODY 1000

/* Linux 6.4; not in every C library. */
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

/* Asked over a pipe: look at a process, and each page of a piece of its memory; or help it. */
struct request {
	enum { LOOK, HELP } what;
	pid_t pid;
	uint64_t start;
	uint64_t bytes;
	int file;
};

static char *memory_with(int flags, int file)
{
	char *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, 0);

	if (start == MAP_FAILED)
		err(REFUSED, "mmap");
	return start;
}

static char *memory(void)
{
	return memory_with(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void fill(char *start, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		*(uint64_t *)(start + at) = at + 1;
}

static char *filled(void)
{
	char *start = memory();

	fill(start, BYTES);
	return start;
}

static void ask(int what, const void *start, size_t bytes, int file)
{
	struct request request = { .what = what, .start = (uint64_t)start, .bytes = bytes, .file = file };
	char self[64] = "", answer;

	/* The thread's number outside, whatever namespace it is in; the first thread may have ended. */
	if (readlink("/proc/thread-self", self, sizeof(self) - 1) < 0)
		err(2, "/proc/thread-self");
	request.pid = atoi(strrchr(self, '/') + 1);
	if (write(ASK, &request, sizeof(request)) != sizeof(request) || read(TOLD, &answer, 1) != 1)
		err(2, "asking");
}

static void look_at(const void *start, size_t bytes)
{
	ask(LOOK, start, bytes, -1);
}

static void help(const void *start, int file)
{
	ask(HELP, start, BYTES, file);
}

static void touch(void)
{
	look_at(filled(), BYTES);
}

static void must(bool done, const char *what)
{
	if (!done)
		err(REFUSED, "%s", what);
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, __WALL) != child)
		err(2, "child");
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	if (WEXITSTATUS(status))
		exit(WEXITSTATUS(status));
}

static void in_child(void (*run)(void))
{
	pid_t child = fork();

	if (!child) {
		run();
		_exit(0);
	}
	wait_for(child);
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	must(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(file);
}

/* Namespaces and kinds of children. */

static const int namespaces[] = {
	CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWCGROUP, CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWPID,
	CLONE_FS, CLONE_FILES, CLONE_SYSVSEM,
};

static void try_unshare(void)
{
	unsigned int done = 0;

	for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
		done += !unshare(namespaces[i]);
	must(done, "unshare");
	touch();
	in_child(touch);
}

static void try_setns(void)
{
	static const char *const name[] = { "mnt", "uts", "ipc", "cgroup", "net", "pid", "user" };
	char path[64];

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		int file;

		snprintf(path, sizeof(path), "/proc/1/ns/%s", name[i]);
		file = open(path, O_RDONLY);
		if (file >= 0)
			setns(file, 0);
	}
	touch();
	in_child(touch);
}

static int run_touch(void *unused)
{
	(void)unused;
	touch();
	return 0;
}

static void try_clone(void)
{
	static const int flags[] = {
		0, CLONE_FS, CLONE_FILES, CLONE_VM, CLONE_VM | CLONE_VFORK, CLONE_VM | CLONE_SIGHAND,
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_IO, CLONE_UNTRACED, CLONE_NEWPID, CLONE_NEWNS,
	};
	char *stack = memory();

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		pid_t child = clone(run_touch, stack + BYTES, flags[i] | SIGCHLD, NULL);

		if (child >= 0)
			wait_for(child);
	}
}

/* Nobody waits for it, and it belongs to init. */
static void try_daemon(void)
{
	if (fork())
		_exit(0);
	setsid();
	if (fork())
		_exit(0);
	usleep(50000);
	touch();
}

/* The first thread ends, and its policy with it; the process goes on. */
static void *second(void *unused)
{
	usleep(50000);
	touch();
	exit(0);
	return unused;
}

static void try_leaderless(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, second, NULL), "thread");
	syscall(SYS_exit, 0);
}

static void execute(int file, const char *path)
{
	char *arguments[] = { "hostile", "do", "touch", NULL }, *environment[] = { NULL };

	if (path)
		execve(path, arguments, environment);
	else
		fexecve(file, arguments, environment);
	err(REFUSED, "exec");
}

static void try_vfork(void)
{
	pid_t child = vfork();

	if (!child)
		execute(-1, "/proc/self/exe");
	wait_for(child);
}

static void copy_of_itself(int to)
{
	int from = open("/proc/self/exe", O_RDONLY);

	must(from >= 0 && to >= 0 && sendfile(to, from, NULL, 64UL << 20) > 0, "a copy of the program");
}

static void try_set_uid(void)
{
	const char *path = "/root/set-uid";
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0755);

	copy_of_itself(file);
	must(!fchmod(file, 04755) && !close(file) && !chmod("/root", 0755) && !setuid(NOBODY), "set-uid");
	execute(-1, path);
}

static void try_memfd_exec(void)
{
	int file = memfd_create("program", 0);

	copy_of_itself(file);
	execute(file, NULL);
}

static void try_script(void)
{
	int file = open("/root/script", O_RDWR | O_CREAT | O_TRUNC, 0755);

	dprintf(file, "#!/bin/busybox sh\nexec /bin/hostile do touch\n");
	close(file);
	execute(-1, "/root/script");
}

static void try_unprivileged(void)
{
	must(!setuid(NOBODY), "setuid");
	put("/sys/kernel/debug/memtint/task", "none");
	touch();
}

/* Opened by root, who gives its privileges up, but not the file. */
static void try_inherited_file(void)
{
	int file = open("/sys/kernel/debug/memtint/task", O_WRONLY);

	must(file >= 0 && !setuid(NOBODY), "open");
	must(write(file, "none", 4) == 4, "write");
	/* From here on it cannot look into /proc/self any more. */
	must(!prctl(PR_SET_DUMPABLE, 1), "dumpable");
	touch();
}

static void try_cgroup(void)
{
	mkdir("/sys/fs/cgroup/hostile", 0755);
	put("/sys/fs/cgroup/hostile/cgroup.procs", "0");
	touch();
	in_child(touch);
	put("/sys/fs/cgroup/cgroup.procs", "0");
	touch();
	rmdir("/sys/fs/cgroup/hostile");
}

static void try_affinity(void)
{
	for (int cpu = 0; cpu < 16; cpu++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (!sched_setaffinity(0, sizeof(set), &set))
			touch();
	}
}

static void try_prctl(void)
{
	static const int option[] = {
		PR_SET_THP_DISABLE, PR_SET_CHILD_SUBREAPER, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_SET_TIMERSLACK,
		PR_SET_MEMORY_MERGE, PR_SET_IO_FLUSHER,
	};

	for (size_t i = 0; i < sizeof(option) / sizeof(option[0]); i++)
		prctl(option[i], 1, 0, 0, 0);
	put("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	put("/sys/kernel/mm/ksm/sleep_millisecs", "0");
	put("/sys/kernel/mm/ksm/run", "1");
	char *start = memory();

	memset(start, 7, BYTES);
	madvise(start, BYTES, MADV_MERGEABLE);
	usleep(500000);
	look_at(start, BYTES);
	put("/sys/kernel/mm/ksm/run", "2");
	touch();
}

/* What the kernel is told about memory. */

static void try_mempolicy(void)
{
	static const int mode[] = { MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, MPOL_DEFAULT, MPOL_PREFERRED_MANY };

	for (size_t i = 0; i < sizeof(mode) / sizeof(mode[0]); i++) {
		for (int node = 0; node < 4; node++) {
			bool bare = mode[i] == MPOL_LOCAL || mode[i] == MPOL_DEFAULT;
			unsigned long nodes = 1UL << node;
			char *start;

			if (!syscall(SYS_set_mempolicy, mode[i], bare ? NULL : &nodes, bare ? 0 : 8 * sizeof(nodes)))
				touch();
			syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
			start = filled();
			syscall(SYS_mbind, start, BYTES, mode[i], bare ? NULL : &nodes, bare ? 0 : 8 * sizeof(nodes),
				MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
			look_at(start, BYTES);
			munmap(start, BYTES);
		}
	}
}

static void try_move_pages(void)
{
	static void *page[PAGES];
	static int node[PAGES], status[PAGES];
	char *start = filled();
	unsigned long all = 0xf;

	for (int to = 3; to >= 0; to--) {
		unsigned long one = 1UL << to;

		for (size_t i = 0; i < PAGES; i++) {
			page[i] = start + i * PAGE_BYTES;
			node[i] = to;
		}
		syscall(SYS_move_pages, 0, PAGES, page, node, status, MPOL_MF_MOVE_ALL);
		look_at(start, BYTES);
		syscall(SYS_migrate_pages, 0, 8 * sizeof(all), &all, &one);
		look_at(start, BYTES);
	}
}

static void try_madvise(void)
{
	char *start = filled();

	/* All there are; KSM is left on by nobody. */
	for (int advice = 0; advice <= 25; advice++) {
		madvise(start, BYTES, advice);
		fill(start, BYTES);
		look_at(start, BYTES);
	}
	for (int advice = 100; advice <= 101; advice++)
		madvise(start, PAGE_BYTES, advice);
	touch();
}

static void try_populate(void)
{
	look_at(memory_with(MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_LOCKED, -1), BYTES);
	must(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall");
	look_at(memory(), BYTES);
}

static void try_mremap(void)
{
	char *start = filled(), *shared = memory_with(MAP_SHARED | MAP_ANONYMOUS, -1), *moved;

	moved = mremap(start, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	must(moved != MAP_FAILED, "mremap");
	fill(start, BYTES);
	look_at(start, BYTES);
	look_at(moved, BYTES);
	moved = mremap(moved, BYTES, 4 * BYTES, MREMAP_MAYMOVE);
	must(moved != MAP_FAILED, "mremap");
	fill(moved, 4 * BYTES);
	look_at(moved, 4 * BYTES);
	fill(shared, BYTES / 2);
	moved = mremap(shared, 0, BYTES, MREMAP_MAYMOVE);
	must(moved != MAP_FAILED, "mremap");
	fill(moved, BYTES);
	look_at(shared, BYTES);
}

static void try_huge_pages_of_tmpfs(void)
{
	int file;

	mkdir("/root/huge", 0755);
	must(!mount("tmpfs", "/root/huge", "tmpfs", 0, "huge=always"), "mount");
	file = open("/root/huge", O_RDWR | O_TMPFILE, 0600);
	must(file >= 0 && !ftruncate(file, BYTES), "file");
	char *start = memory_with(MAP_SHARED, file);

	fill(start, BYTES);
	look_at(start, BYTES);
	munmap(start, BYTES);
	close(file);
	umount("/root/huge");
}

static void try_hugetlb(void)
{
	char *start = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	must(start != MAP_FAILED, "mmap");
	fill(start, HUGE_BYTES);
	look_at(start, HUGE_BYTES);
}

/* Memory that files and other processes have as well. */

static void fill_file(int file)
{
	static char page[PAGE_BYTES];

	for (unsigned long i = 0; i < PAGES; i++)
		must(write(file, page, sizeof(page)) == sizeof(page), "write");
}

static void try_own_files(void)
{
	static const char *const directory[] = { "/tmp", "/root" };
	int file, identifier, pipes[2];
	char *start;

	for (int i = 0; i < 2; i++) {
		file = open(directory[i], O_RDWR | O_TMPFILE, 0600);
		must(file >= 0, "O_TMPFILE");
		fill_file(file);
		start = memory_with(MAP_SHARED | MAP_POPULATE, file);
		look_at(start, BYTES);
		start = memory_with(MAP_PRIVATE, file);
		fill(start, BYTES);
		look_at(start, BYTES);
	}
	file = memfd_create("fallocate", 0);
	must(file >= 0 && !fallocate(file, 0, 0, BYTES), "fallocate");
	look_at(memory_with(MAP_SHARED | MAP_POPULATE, file), BYTES);
	identifier = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
	start = shmat(identifier, NULL, 0);
	must(start != (void *)-1, "shmat");
	fill(start, BYTES);
	look_at(start, BYTES);
	shmctl(identifier, IPC_RMID, NULL);
	/* Its own pages as a gift to a pipe, and from there to a file. */
	file = memfd_create("splice", 0);
	start = filled();
	must(!pipe(pipes), "pipe");
	for (size_t at = 0; at < BYTES; at += 4 * PAGE_BYTES) {
		struct iovec piece = { start + at, 4 * PAGE_BYTES };

		must(vmsplice(pipes[1], &piece, 1, SPLICE_F_GIFT) > 0 &&
		     splice(pipes[0], NULL, file, NULL, 4 * PAGE_BYTES, SPLICE_F_MOVE) > 0, "splice");
	}
	look_at(memory_with(MAP_SHARED | MAP_POPULATE, file), BYTES);
	fill(start, BYTES);
	look_at(start, BYTES);
}

/* The kernel writes into memory that has no page yet. */
static void try_reads(void)
{
	int zero = open("/dev/zero", O_RDONLY), pipes[2], self;
	char *start = memory();

	must(zero >= 0 && !pipe(pipes), "open");
	must(read(zero, start, BYTES) == (ssize_t)BYTES, "read");
	look_at(start, BYTES);
	start = memory();
	for (size_t at = 0; at < BYTES; at += PAGE_BYTES)
		must(write(pipes[1], "memtint", 8) == 8 && read(pipes[0], start + at, 8) == 8, "pipe");
	look_at(start, BYTES);
	start = memory();
	self = open("/proc/self/mem", O_RDWR);
	for (size_t at = 0; at < BYTES; at += PAGE_BYTES)
		must(pwrite(self, "memtint", 8, (off_t)(start + at)) == 8, "/proc/self/mem");
	look_at(start, BYTES);
}

static int faults_of(char *start)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .range = { (uint64_t)start, BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int file = syscall(SYS_userfaultfd, O_CLOEXEC);

	must(file >= 0 && !ioctl(file, UFFDIO_API, &api) && !ioctl(file, UFFDIO_REGISTER, &area), "userfaultfd");
	return file;
}

static bool copy_in(int faults, uint64_t start)
{
	static char page[PAGE_BYTES] __attribute__((aligned(4096))) = { 1 };

	for (uint64_t at = 0; at < BYTES; at += PAGE_BYTES) {
		struct uffdio_copy copy = { .dst = start + at, .src = (uint64_t)page, .len = PAGE_BYTES };

		if (ioctl(faults, UFFDIO_COPY, &copy))
			return false;
	}
	return true;
}

static void try_userfaultfd(void)
{
	char *start = memory();
	int faults = faults_of(start);

	must(copy_in(faults, (uint64_t)start), "UFFDIO_COPY");
	look_at(start, BYTES);
}

static void try_userfaultfd_of_another(void)
{
	char *start = memory();

	help(start, faults_of(start));
	look_at(start, BYTES);
}

static void try_written_by_another(void)
{
	char *start = memory();

	help(start, -1);
	look_at(start, BYTES);
}

/* Swapped out by itself, back in by another. */
static void try_swapped_in_by_another(void)
{
	char *start = filled();

	must(!madvise(start, BYTES, MADV_PAGEOUT), "MADV_PAGEOUT");
	help(start, -1);
	for (size_t at = 0; at < BYTES; at += PAGE_BYTES)
		must(*(uint64_t *)(start + at) == at + 1, "content");
	look_at(start, BYTES);
}

/* A file that the helper has made, which is the first that it has open behind these. */
static void file_of_another(int flags)
{
	char path[64], *start;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/fd/102", getppid());
	help(NULL, -1);
	file = open(path, O_RDWR);
	must(file >= 0, path);
	start = memory_with(flags, file);
	fill(start, BYTES);
	look_at(start, BYTES);
}

static void try_file_of_another(void)
{
	file_of_another(MAP_SHARED);
}

/* What is its own of such a file. */
static void try_copy_of_file_of_another(void)
{
	file_of_another(MAP_PRIVATE);
}

static void try_aio_ring(void)
{
	aio_context_t ring = 0;

	must(!syscall(SYS_io_setup, 8192, &ring), "io_setup");
	for (size_t at = 0; at < 4 * PAGE_BYTES; at += PAGE_BYTES)
		(void)*(volatile char *)(ring + at);
	look_at((void *)ring, 4 * PAGE_BYTES);
}

/* Help, by who has no colors. */

static bool help_write_mem(const struct request *request)
{
	char path[64];
	bool done = true;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/mem", request->pid);
	file = open(path, O_RDWR);
	for (uint64_t at = 0; at < request->bytes; at += PAGE_BYTES)
		done = done && pwrite(file, "memtint", 8, request->start + at) == 8;
	close(file);
	return done;
}

static bool help_ptrace(const struct request *request)
{
	bool done = !ptrace(PTRACE_ATTACH, request->pid, NULL, NULL) && waitpid(request->pid, NULL, __WALL) == request->pid;

	for (uint64_t at = 0; at < request->bytes; at += PAGE_BYTES)
		done = done && !ptrace(PTRACE_POKEDATA, request->pid, request->start + at, 1UL);
	return !ptrace(PTRACE_DETACH, request->pid, NULL, NULL) && done;
}

static bool help_process_vm(const struct request *request)
{
	bool done = true;
	char text[8] = "memtint";

	for (uint64_t at = 0; at < request->bytes; at += PAGE_BYTES) {
		struct iovec here = { text, sizeof(text) }, there = { (void *)(request->start + at), sizeof(text) };

		done = done && process_vm_writev(request->pid, &here, 1, &there, 1, 0) == sizeof(text);
	}
	return done;
}

static bool help_faults(const struct request *request)
{
	int pidfd = syscall(SYS_pidfd_open, request->pid, 0);
	int faults = syscall(SYS_pidfd_getfd, pidfd, request->file, 0);
	bool done = faults >= 0 && copy_in(faults, request->start);

	close(faults);
	close(pidfd);
	return done;
}

static bool help_process_madvise(const struct request *request)
{
	struct iovec there = { (void *)request->start, request->bytes };
	int pidfd = syscall(SYS_pidfd_open, request->pid, 0);
	bool done = syscall(SYS_process_madvise, pidfd, &there, 1, MADV_WILLNEED, 0) == (long)request->bytes;

	close(pidfd);
	return done;
}

static bool help_swapoff(const struct request *request)
{
	(void)request;
	return !swapoff("/dev/ram0") && !swapon("/dev/ram0", 0);
}

static bool help_file(const struct request *request)
{
	int file = memfd_create("helper", 0);

	(void)request;
	if (file < 0 || ftruncate(file, BYTES) || dup2(file, 102) != 102)
		return false;
	fill(memory_with(MAP_SHARED, 102), BYTES);
	if (file != 102)
		close(file);
	return true;
}

static const struct attempt {
	const char *name;
	void (*run)(void);
	bool (*help)(const struct request *request);
} attempts[] = {
	{ "touch", touch, NULL },
	{ "unshare", try_unshare, NULL },
	{ "setns", try_setns, NULL },
	{ "clone", try_clone, NULL },
	{ "daemon", try_daemon, NULL },
	{ "leaderless", try_leaderless, NULL },
	{ "vfork", try_vfork, NULL },
	{ "set-uid", try_set_uid, NULL },
	{ "memfd-exec", try_memfd_exec, NULL },
	{ "script", try_script, NULL },
	{ "unprivileged", try_unprivileged, NULL },
	{ "inherited-file", try_inherited_file, NULL },
	{ "cgroup", try_cgroup, NULL },
	{ "affinity", try_affinity, NULL },
	{ "prctl", try_prctl, NULL },
	{ "mempolicy", try_mempolicy, NULL },
	{ "move-pages", try_move_pages, NULL },
	{ "madvise", try_madvise, NULL },
	{ "populate", try_populate, NULL },
	{ "mremap", try_mremap, NULL },
	{ "tmpfs-huge", try_huge_pages_of_tmpfs, NULL },
	{ "own-files", try_own_files, NULL },
	{ "reads", try_reads, NULL },
	{ "userfaultfd", try_userfaultfd, NULL },
	{ "copy-of-file-of-another", try_copy_of_file_of_another, help_file },
	{ "file-of-another", try_file_of_another, help_file },
	{ "userfaultfd-of-another", try_userfaultfd_of_another, help_faults },
	{ "mem-by-another", try_written_by_another, help_write_mem },
	{ "ptrace-by-another", try_written_by_another, help_ptrace },
	{ "process-vm-by-another", try_written_by_another, help_process_vm },
	{ "process-madvise-by-another", try_swapped_in_by_another, help_process_madvise },
	{ "swapoff-by-another", try_swapped_in_by_another, help_swapoff },
	{ "hugetlb", try_hugetlb, NULL },
	{ "aio-ring", try_aio_ring, NULL },
};

static const struct attempt *attempt_of(const char *name)
{
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		if (!strcmp(attempts[i].name, name))
			return &attempts[i];
	errx(2, "%s is no attempt", name);
}

/* Private pages of the process, and pages of any kind of its piece: those there are, those out of color. */
static void judge(const struct request *request, const struct mapping *mapping, const struct wanted *wanted,
		  unsigned long *seen, unsigned long *out)
{
	struct tally tally = pages_of(request->pid, mapping, wanted, 3);
	unsigned long here = 0, wrong = 0;

	for (uint64_t at = 0; at < request->bytes; at += PAGE_BYTES) {
		uint64_t frame = frame_of(request->pid, (void *)(request->start + at));
		struct color color;

		if (!frame)
			continue;
		here++;
		wrong += !mapping_color(mapping, frame, &color) || !is_wanted(wanted, color.bank_class);
	}
	*seen += here;
	*out += wrong > tally.anonymous_wrong + tally.nowhere ? wrong : tally.anonymous_wrong + tally.nowhere;
}

/* Takes what lies on the lists of CPUs: pages that an earlier attempt has left, in color. */
static void *crowd(void)
{
	void *start = mmap(NULL, CROWD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (start == MAP_FAILED)
		err(2, "mmap");
	return start;
}

static void try(char **arguments, const struct attempt *attempt, const struct mapping *mapping, const struct wanted *wanted)
{
	unsigned long seen = 0, out = 0, looks = 0;
	int asked[2], told[2], status = 0, helped = 1;
	void *crowded = crowd();
	char path[256], policy[256];
	struct request request;
	pid_t child;

	if (pipe2(asked, O_CLOEXEC) || pipe2(told, O_CLOEXEC))
		err(2, "pipe");
	child = fork();
	if (!child) {
		int file;

		dup2(asked[1], ASK);
		dup2(told[0], TOLD);
		snprintf(path, sizeof(path), "%s/task", arguments[3]);
		snprintf(policy, sizeof(policy), "%s", arguments[4]);
		file = open(path, O_WRONLY | O_CLOEXEC);
		if (file < 0 || write(file, policy, strlen(policy)) < 0)
			err(2, "%s", path);
		execl("/proc/self/exe", "hostile", "do", attempt->name, NULL);
		err(2, "exec");
	}
	close(asked[1]);
	close(told[0]);
	/* Until the last of its children has ended. */
	while (read(asked[0], &request, sizeof(request)) == sizeof(request)) {
		if (request.what == HELP) {
			helped = attempt->help && attempt->help(&request);
		} else {
			/* Pages that are being moved are not there for the moment: a look that sees none is no look. */
			for (int tries = 0; tries < 100; tries++) {
				judge(&request, mapping, wanted, &seen, &out);
				if (seen)
					break;
				usleep(20000);
			}
			looks++;
		}
		if (write(told[1], "", 1) != 1)
			break;
	}
	waitpid(child, &status, 0);
	munmap(crowded, CROWD_BYTES);
	close(asked[0]);
	close(told[1]);
	close(102);
	printf("%s %s %lu pages out of color, %lu seen in %lu looks%s\n", attempt->name,
	       out ? "out" : WIFSIGNALED(status) ? "killed" : WEXITSTATUS(status) == REFUSED || !helped ? "refused" :
	       WEXITSTATUS(status) ? "failed" : seen ? "held" : "nothing", out, seen, looks, helped ? "" : ", no help");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct mapping mapping;
	struct wanted wanted;

	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "do")) {
		attempt_of(argv[2])->run();
		return 0;
	}
	if (argc < 5)
		errx(2, "hostile MAPPING CLASSES FLOOR POLICY [ATTEMPT...]");
	mapping = mapping_read(argv[1]);
	wanted = wanted_read(argv[2], mapping_classes(&mapping));
	if (argc > 5)
		for (int i = 5; i < argc; i++)
			try(argv, attempt_of(argv[i]), &mapping, &wanted);
	else
		for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
			try(argv, &attempts[i], &mapping, &wanted);
	return 0;
}
