// SPDX-License-Identifier: GPL-2.0-only
/*
 * failures FLOOR MAPPING POLICY: makes the first allocation of memory fail that
 * a system call needs, then the second, and so on until it needs no more: for a
 * policy, a mapping, a child and memory with that policy. Each call either does
 * what it should or fails, and leaves everything as it was.
 *
 * Wants a kernel with CONFIG_FAULT_INJECTION. Prints "ok - NAME" with how many
 * allocations were made to fail, or "not ok - NAME".
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOCATIONS_MAX 3000
#define BYTES (1UL << 18)

static char *floor_path, *policy;
static char mapping[16384];
static size_t mapping_bytes;
static int nth, task_file, map_file;

/* From the next system call on, the allocation of this number fails; 0: none does. */
static void fail_at(unsigned int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	if (pwrite(nth, text, strlen(text), 0) < 0)
		err(2, "fail-nth");
}

/* Whether there was one of this number. */
static bool failed_there(void)
{
	char text[16] = "";

	if (pread(nth, text, sizeof(text) - 1, 0) < 0)
		err(2, "fail-nth");
	return atoi(text) == 0;
}

/* These files take no pwrite(). */
static bool put(int file, const char *text, size_t length)
{
	return !lseek(file, 0, SEEK_SET) && write(file, text, length) == (ssize_t)length;
}

static bool reads(const char *name, const char *expected, size_t length)
{
	static char text[16384];
	char path[256];
	ssize_t got;
	int file;

	snprintf(path, sizeof(path), "%s/%s", floor_path, name);
	file = open(path, O_RDONLY);
	got = file < 0 ? -1 : read(file, text, sizeof(text));
	close(file);
	return got >= (ssize_t)length && !memcmp(text, expected, length);
}

static bool none_then(bool done, const char *name, const char *text, size_t length)
{
	return done ? reads(name, text, length) : reads(name, "none\n", 5);
}

static bool give_policy(bool *done)
{
	*done = put(task_file, policy, strlen(policy));
	return true;
}

static bool policy_given(bool done)
{
	bool well = none_then(done, "task", policy, strlen(policy));

	return put(task_file, "none", 4) && well;
}

static bool load(bool *done)
{
	*done = put(map_file, mapping, mapping_bytes);
	return true;
}

static bool loaded(bool done)
{
	bool well = none_then(done, "map", mapping, mapping_bytes);

	return put(map_file, "none\n", 5) && well;
}

/* In place of one that is loaded: when it fails, that one is left, or none. */
static bool reload(bool *done)
{
	*done = put(map_file, mapping, mapping_bytes);
	return true;
}

static bool reloaded(bool done)
{
	bool well = reads("map", mapping, mapping_bytes) || (!done && reads("map", "none\n", 5));

	return put(map_file, mapping, mapping_bytes) && well;
}

static bool make_child(bool *done)
{
	pid_t child = syscall(SYS_fork);
	int status;

	if (!child)
		_exit(0);
	*done = child > 0;
	return child < 0 || (waitpid(child, &status, 0) == child && !status);
}

static bool has_policy(bool done)
{
	(void)done;
	return reads("task", policy, strlen(policy));
}

/* Pages are asked for by the kernel on behalf of read(), which can fail. */
static bool use_memory(bool *done)
{
	int zero = open("/dev/zero", O_RDONLY);
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*done = zero >= 0 && memory != MAP_FAILED && read(zero, memory, BYTES) == (ssize_t)BYTES;
	if (memory != MAP_FAILED)
		munmap(memory, BYTES);
	if (zero >= 0)
		close(zero);
	return true;
}

/* Its first failures in turn, until nothing fails any more and the call does what it should. */
static bool in_turn(const char *name, bool (*call)(bool *done), bool (*judge)(bool done))
{
	unsigned int number, refused = 0;

	for (number = 1; number <= ALLOCATIONS_MAX; number++) {
		bool done, well, failed;

		fail_at(number);
		well = call(&done);
		failed = failed_there();
		fail_at(0);
		refused += failed && !done;
		if (!well || !judge(done)) {
			printf("not ok - %s # when allocation %u failed\n", name, number);
			return false;
		}
		if (!failed && !done) {
			printf("not ok - %s # refused without a failure: %s\n", name, strerror(errno));
			return false;
		}
		if (!failed)
			break;
	}
	/* One may do without: kvmalloc() takes single pages then, and a page fault is repeated. */
	if (number > ALLOCATIONS_MAX || number == 1)
		printf("not ok - %s # %u allocations failed, %u calls did\n", name, number - 1, refused);
	else
		printf("ok - %s\n# %s: %u allocations failed in turn, %u calls did\n", name, name, number - 1, refused);
	fflush(stdout);
	return number <= ALLOCATIONS_MAX && number > 1;
}

/*
 * On its way back to user space, a preempted thread has its CPU written into the
 * area that glibc has registered. After a fork that page is copied first, and
 * when the allocation for that fails the kernel kills the program with SIGSEGV.
 */
static void end_restartable_sequences(void)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	if (__rseq_size && syscall(SYS_rseq, area, sizeof(struct rseq), RSEQ_FLAG_UNREGISTER, RSEQ_SIG))
		err(2, "rseq");
}

static int open_in(const char *name)
{
	char path[256];
	int file;

	snprintf(path, sizeof(path), "%s/%s", floor_path, name);
	file = open(path, O_WRONLY);
	if (file < 0)
		err(2, "%s", path);
	return file;
}

int main(int argc, char **argv)
{
	FILE *file;
	bool well;

	if (argc != 4)
		errx(2, "failures FLOOR MAPPING POLICY");
	end_restartable_sequences();
	floor_path = argv[1];
	policy = argv[3];
	file = fopen(argv[2], "r");
	mapping_bytes = file ? fread(mapping, 1, sizeof(mapping), file) : 0;
	nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (nth < 0 || !mapping_bytes)
		err(2, "fail-nth, or %s", argv[2]);
	task_file = open_in("task");
	map_file = open_in("map");
	well = in_turn("a policy", give_policy, policy_given);
	if (!put(task_file, policy, strlen(policy)))
		err(2, "policy");
	well = in_turn("a child with a policy", make_child, has_policy) && well;
	well = in_turn("memory with a policy", use_memory, has_policy) && well;
	if (!put(task_file, "none", 4))
		err(2, "policy");
	well = in_turn("a mapping in place of another", reload, reloaded) && well;
	if (!put(map_file, "none\n", 5))
		err(2, "mapping");
	well = in_turn("a mapping", load, loaded) && well;
	return !well;
}
