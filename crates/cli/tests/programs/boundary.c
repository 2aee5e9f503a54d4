/*
 * Attacks on the runtime by the program that it colors, or by another process of the same user.
 */
#include "check.h"
#include <dirent.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* One message of a helper: kind, id, value, ten words. Layout of `wire::Reply`. */
struct reply {
	uint32_t kind, reserved;
	uint64_t id;
	int64_t value;
	uint64_t extra[10];
};

enum { HELLO = 1, DONE, CLASSIFY, REFUSED, WANT, FORWARD, PROTECTION };

static int is_helper(pid_t pid)
{
	char path[64], name[32] = "";
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	CHECK(read(fd, name, sizeof(name) - 1) >= 0);
	close(fd);
	return strcmp(name, "memtint-helper\n") == 0;
}

/* The helper that shares this process's memory. */
static pid_t helper(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;
	CHECK(proc);
	while (!found && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);
		if (pid > 0 && is_helper(pid) && syscall(SYS_kcmp, getpid(), pid, 1, 0, 0) == 0)
			found = pid;
	}
	closedir(proc);
	CHECK(found);
	return found;
}

/* From within the run: every way to the helper's descriptors is closed. */
static void takes_descriptors_of(pid_t target)
{
	int process = syscall(SYS_pidfd_open, target, 0);
	CHECK(process >= 0);
	for (int fd = 0; fd < 64; fd++) {
		CHECK(syscall(SYS_pidfd_getfd, process, fd, 0) == -1 && errno == EPERM);
		/* The same call by the 32-bit convention: its filter must not have a gap either. */
		long result;
		__asm__ volatile("int $0x80" : "=a"(result) : "a"(438), "b"((long)process), "c"((long)fd), "d"(0L) : "memory");
		CHECK(result == -EPERM || result == -ENOSYS);
		char path[64];
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", target, fd);
		CHECK(open(path, O_RDWR) == -1);
	}
	CHECK(ptrace(PTRACE_SEIZE, target, 0, 0) == -1 && errno == EPERM);
	CHECK(ptrace(PTRACE_ATTACH, target, 0, 0) == -1 && errno == EPERM);
}

static void takes_descriptors(void)
{
	takes_descriptors_of(helper());
}

/* The helper's own system calls: jumps to its `syscall` instruction get no descriptor either. */
static void jumps_into_the_helper(void)
{
	int process = syscall(SYS_pidfd_open, helper(), 0);
	CHECK(process >= 0);
	/* The first two bytes are `syscall`, the third is `int3`. */
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	CHECK(sigaction(SIGTRAP, &ignore, NULL) == 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		signal(SIGTRAP, SIG_DFL);
		long result;
		process = syscall(SYS_pidfd_open, helper(), 0);
		__asm__ volatile("call *%1\n" : "=a"(result) : "r"(0x4d0000000000L), "a"((long)SYS_pidfd_getfd), "D"((long)process), "S"(4L), "d"(0L)
				 : "rcx", "r11", "memory");
		/* Not reached: the breakpoint ends it. */
		_exit(3);
	}
	int status = child_status(child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
}

/* Overwrites everything that the helper keeps where the program can write. */
static void tramples_on_the_control_area(void)
{
	volatile uint64_t *control = (void *)0x4d0000100000;
	uint64_t seed = 88172645463325252u;
	for (int round = 0; round < 200; round++) {
		for (size_t at = 0; at < 0x8000 / 8; at++) {
			seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
			control[at] = round % 2 ? seed : ~(uint64_t)0;
		}
		void *memory = mmap(NULL, 64 * PAGE, RW, ANON, -1, 0);
		if (memory != MAP_FAILED)
			munmap(memory, 64 * PAGE);
	}
}

/* Stops and continues the helper while it is needed. */
static void stops_the_helper(void)
{
	pid_t target = helper();
	for (int round = 0; round < 50; round++) {
		CHECK(kill(target, SIGSTOP) == 0);
		char *memory = map(16);
		fill(memory, 16, round);
		CHECK(holds(memory, 16, round));
		munmap(memory, 16 * PAGE);
	}
}

static void kills_the_helper(void)
{
	CHECK(kill(helper(), SIGKILL) == 0);
	for (;;) {
		volatile char *memory = map(16);
		memory[0] = 1;
	}
}

/* A program that began as root and is an ordinary user's now: its helper began as root as well. */
static void gives_up_privileges(void)
{
	pid_t target = helper();
	CHECK(getuid() == 0);
	CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	/* As after an execve: readable for those of the same user. */
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	takes_descriptors_of(target);
	char *memory = map(16);
	fill(memory, 16, 3);
	CHECK(holds(memory, 16, 3));
}

static void waits(void)
{
	ready();
}

/* Does what a program with fewer privileges does all the time. */
static void survives(void)
{
	char *memory = map(256);
	fill(memory, 256, 7);
	CHECK(holds(memory, 256, 7));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(holds(memory, 256, 7) ? 0 : 1);
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
	return *seed;
}

/* A message that is served, whatever it asks for. */
static struct reply acceptable(uint64_t *seed)
{
	static const uint32_t kinds[] = { DONE, DONE, DONE, CLASSIFY, CLASSIFY, REFUSED, PROTECTION };
	struct reply reply;
	for (size_t at = 0; at < sizeof(reply) / 8; at++)
		((uint64_t *)&reply)[at] = next(seed) % 3 ? next(seed) : next(seed) % 64;
	reply.kind = next(seed) % 10000 ? kinds[next(seed) % 7] : WANT;
	if (reply.kind == CLASSIFY) {
		reply.extra[0] = 0x4d1000000000 + next(seed) % (1 << 20) * PAGE;
		reply.extra[1] = next(seed) % 512;
	}
	return reply;
}

/*
 * From outside of the run, as the same user: a process that is not filtered takes the helper's socket, and says what is
 * served. Then, unless the victim is 0, the attack that once made a foreign thread memtint's tracee: an `execve` "of" that
 * thread. Arguments: the program's process id, the number of messages, a seed, the victim.
 */
static int says_anything(int argc, char **argv)
{
	CHECK(argc == 6);
	pid_t program = atoi(argv[2]), victim = atoi(argv[5]), target = 0;
	long messages = atol(argv[3]), sent = 0;
	uint64_t seed = strtoull(argv[4], NULL, 0) | 1;
	for (pid_t pid = 2; !target && pid < 1 << 22; pid++)
		if (is_helper(pid) && syscall(SYS_kcmp, program, pid, 1, 0, 0) == 0)
			target = pid;
	CHECK(target);
	int process = syscall(SYS_pidfd_open, target, 0);
	CHECK(process >= 0);
	int fd = syscall(SYS_pidfd_getfd, process, 3, 0);
	CHECK(fd >= 0);
	while (sent < messages) {
		struct reply reply = acceptable(&seed);
		/* Descriptors that come along must not fill the supervisor. */
		char control[CMSG_SPACE(16 * sizeof(int))] = { 0 };
		struct iovec part = { .iov_base = &reply, .iov_len = sizeof(reply) };
		struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
		if (sent % 64 == 0) {
			header.msg_control = control;
			header.msg_controllen = sizeof(control);
			*CMSG_FIRSTHDR(&header) = (struct cmsghdr){ CMSG_LEN(16 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		}
		if (sendmsg(fd, &header, MSG_NOSIGNAL) < 0)
			break;
		sent++;
		/* A helper with more answers than it takes would be given up, and its program with it. */
		while (recv(fd, control, sizeof(control), MSG_DONTWAIT) > 0)
			;
	}
	if (victim) {
		struct reply reply = { .kind = FORWARD, .extra = { 1, victim, (uint64_t)0xc000003e << 32 | 59 } };
		CHECK(send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply));
	}
	printf("sent %ld\n", sent);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct check checks[] = {
		{ "takes_descriptors", takes_descriptors },
		{ "jumps_into_the_helper", jumps_into_the_helper },
		{ "tramples_on_the_control_area", tramples_on_the_control_area },
		{ "stops_the_helper", stops_the_helper },
		{ "kills_the_helper", kills_the_helper },
		{ "gives_up_privileges", gives_up_privileges },
		{ "waits", waits },
		{ "survives", survives },
	};
	if (argc > 1 && strcmp(argv[1], "says_anything") == 0)
		return says_anything(argc, argv);
	return run_check(checks, sizeof(checks) / sizeof(checks[0]), argc, argv);
}
