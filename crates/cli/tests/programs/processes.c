/* Programs that start others. */
#include "check.h"
#include <spawn.h>

extern char **environ;

enum { PAGES = 300 };

static int own_number(char *name)
{
	return (int)readlink("/proc/self/exe", name, 255);
}

static char *self(void)
{
	static char name[256];
	CHECK(own_number(name) > 0);
	return name;
}

static void fork_copies(void)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(holds(memory, PAGES, 1));
		fill(memory, PAGES / 2, 2);
		char *own = map(PAGES);
		fill(own, PAGES, 3);
		CHECK(holds(memory, PAGES / 2, 2) && holds_from(memory + PAGES / 2 * PAGE, PAGES / 2, 1, PAGES / 2));
		CHECK(holds(own, PAGES, 3));
		ready();
		CHECK(holds(memory, PAGES / 2, 2) && holds(own, PAGES, 3));
		_exit(7);
	}
	fill(memory + PAGES / 2 * PAGE, PAGES / 2, 4);
	CHECK(holds(memory, PAGES / 2, 1) && holds(memory + PAGES / 2 * PAGE, PAGES / 2, 4));
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(holds(memory, PAGES / 2, 1) && holds(memory + PAGES / 2 * PAGE, PAGES / 2, 4));
	char *later = map(PAGES);
	fill(later, PAGES, 5);
	ready();
	CHECK(holds(later, PAGES, 5));
}

/* Memory that only the child has is all its own. */
static void fresh_memory_of_a_child(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char *own = map(20 * PAGES);
		fill(own, 20 * PAGES, 1);
		ready();
		CHECK(holds(own, 20 * PAGES, 1));
		_exit(0);
	}
	CHECK(child_status(child) == 0);
}

static void fork_storm(void)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	for (int round = 0; round < 8; round++) {
		pid_t children[8];
		for (int i = 0; i < 8; i++) {
			children[i] = fork();
			CHECK(children[i] >= 0);
			if (children[i] == 0) {
				CHECK(holds(memory, PAGES, 1));
				fill(memory, PAGES, 10 + i);
				CHECK(holds(memory, PAGES, 10 + i));
				if (i % 2) {
					pid_t grandchild = fork();
					CHECK(grandchild >= 0);
					if (grandchild == 0) {
						CHECK(holds(memory, PAGES, 10 + i));
						_exit(i);
					}
					int status = child_status(grandchild);
					CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
				}
				_exit(i);
			}
		}
		for (int i = 0; i < 8; i++) {
			int status = child_status(children[i]);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == i);
		}
		CHECK(holds(memory, PAGES, 1));
	}
	ready();
}

/* Fills memory of its own and is looked at. */
static void is_a_child(void)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	ready();
	CHECK(holds(memory, PAGES, 1));
}

static void vfork_and_exec(void)
{
	char *memory = map(PAGES), *name = self();
	fill(memory, PAGES, 1);
	pid_t child = vfork();
	CHECK(child >= 0);
	if (child == 0) {
		execl(name, name, "is_a_child", NULL);
		_exit(9);
	}
	fill(memory, PAGES, 2);
	CHECK(child_status(child) == 0);
	CHECK(holds(memory, PAGES, 2));
	/* And one that executes nothing. */
	child = vfork();
	if (child == 0) {
		*(volatile uint64_t *)memory = 99;
		_exit(5);
	}
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5 && *(uint64_t *)memory == 99);
	ready();
}

static void spawns(void)
{
	pid_t children[5];
	char *name = self(), *arguments[] = {name, "is_a_child", NULL}, *none[] = {"/no/such/program", NULL};
	for (int i = 0; i < 3; i++) {
		CHECK(posix_spawn(&children[i], name, NULL, NULL, arguments, environ) == 0);
		CHECK(child_status(children[i]) == 0);
	}
	CHECK(posix_spawn(&children[0], none[0], NULL, NULL, none, environ) == ENOENT);
	CHECK(system("exit 3") == 3 << 8);
	FILE *pipe = popen("echo from the shell", "r");
	char line[100];
	CHECK(pipe && fgets(line, sizeof(line), pipe) && strcmp(line, "from the shell\n") == 0);
	CHECK(pclose(pipe) == 0);
	ready();
}

static char *shared;

static int in_the_same_memory(void *unused)
{
	(void)unused;
	CHECK(is_zero(shared + PAGES / 2 * PAGE, 1));
	fill(shared + PAGES / 2 * PAGE, PAGES / 2, 2);
	char *own = map(PAGES);
	fill(own, PAGES, 3);
	CHECK(holds(own, PAGES, 3) && holds(shared, PAGES / 2, 1));
	shared = own;
	_exit(4);
}

/* A process that shares the memory and is no thread. */
static void clone_with_the_same_memory(void)
{
	char *stack = map(64), *memory = map(PAGES);
	shared = memory;
	fill(memory, PAGES / 2, 1);
	pid_t child = clone(in_the_same_memory, stack + 64 * PAGE, CLONE_VM | SIGCHLD, NULL);
	CHECK(child > 0);
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
	CHECK(holds(memory, PAGES / 2, 1) && holds(memory + PAGES / 2 * PAGE, PAGES / 2, 2) && holds(shared, PAGES, 3));
	ready();
	CHECK(holds(shared, PAGES, 3));
	CHECK(munmap(shared, PAGES * PAGE) == 0);
}

static void exec_chain(void)
{
	char depth[16], *name = self();
	int left = getenv("DEPTH") ? atoi(getenv("DEPTH")) : 6;
	char *memory = map(PAGES);
	CHECK(is_zero(memory, PAGES));
	fill(memory, PAGES, left);
	ready();
	CHECK(holds(memory, PAGES, left));
	if (left == 0)
		return;
	snprintf(depth, sizeof(depth), "%d", left - 1);
	setenv("DEPTH", depth, 1);
	execl(name, name, "exec_chain", NULL);
	CHECK(!"execl returns");
}

static void *executes(void *name)
{
	execl(name, name, "is_a_child", NULL);
	return NULL;
}

static void *waits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* The new program takes the process id of the first thread. */
static void exec_from_another_thread(void)
{
	pthread_t thread;
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
	ready();
	CHECK(pthread_create(&thread, NULL, executes, self()) == 0);
	for (;;)
		pause();
}

static void exec_that_fails(void)
{
	char *memory = map(PAGES), *argument[] = {"x", NULL};
	fill(memory, PAGES, 1);
	for (int round = 0; round < 50; round++) {
		CHECK(execv("/no/such/program", argument) == -1 && errno == ENOENT);
		CHECK(execv("/etc/passwd", argument) == -1 && errno == EACCES);
		CHECK(execv("/", argument) == -1 && errno == EACCES);
		CHECK(syscall(SYS_execve, 8, argument, NULL) == -1 && errno == EFAULT);
	}
	CHECK(holds(memory, PAGES, 1));
	char *later = map(PAGES);
	fill(later, PAGES, 2);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(execv("/no/such/program", argument) == -1 && holds(later, PAGES, 2) ? 3 : 4);
	int status = child_status(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	ready();
	CHECK(holds(later, PAGES, 2));
}

static void fork_that_fails(void)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	/* Flags that contradict each other. */
	CHECK(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_clone, CLONE_NEWNS | CLONE_FS | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
	char *later = map(PAGES);
	fill(later, PAGES, 2);
	ready();
	CHECK(holds(memory, PAGES, 1) && holds(later, PAGES, 2));
}

static void forks_from_threads_body(int exits)
{
	char *memory = map(PAGES);
	fill(memory, PAGES, 1);
	for (int round = 0; round < 10; round++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0)
			_exit(holds(memory, PAGES, 1) ? exits : 99);
		fill(memory, PAGES, 1);
		int status = child_status(child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == exits);
	}
}

static void *forks_in_thread(void *argument)
{
	forks_from_threads_body((int)(intptr_t)argument);
	return NULL;
}

static void fork_from_threads(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, forks_in_thread, (void *)(intptr_t)(i + 1)) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	ready();
}

/* Leaves a child behind that has nothing to do with it any more; it ends when the file does. */
static void daemonises(void)
{
	char *memory = map(PAGES), *file = getenv("MARK");
	CHECK(file);
	fill(memory, PAGES, 1);
	fflush(NULL);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child != 0)
		return;
	CHECK(setsid() > 0);
	int null = open("/dev/null", O_RDWR);
	for (int standard = 0; standard < 3; standard++)
		dup2(null, standard);
	char *own = map(20 * PAGES);
	fill(own, 20 * PAGES, 2);
	int mark = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dprintf(mark, "%d\n", (int)getpid());
	close(mark);
	while (access(file, F_OK) == 0) {
		usleep(10000);
		char *more = map(50);
		fill(more, 50, 3);
		if (!holds(more, 50, 3) || !holds(own, 20 * PAGES, 2))
			_exit(1);
		munmap(more, 50 * PAGE);
	}
	_exit(0);
}

static void notice(int signal)
{
	(void)signal;
}

/* A handler without SA_RESTART, and a signal while the next fork waits to be looked at: that a child has ended. */
static void forks_among_signals(void)
{
	enum { ROUNDS = 100 };
	struct sigaction action = {.sa_handler = notice};
	CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
	int failed = 0;
	for (int round = 0; round < ROUNDS; round++) {
		for (int each = 0; each < 2; each++) {
			pid_t child = fork();
			if (child == 0)
				_exit(0);
			failed += child < 0;
		}
		while (wait(NULL) > 0 || errno == EINTR)
			;
	}
	/* What the kernel has no remedy for: a signal before anybody could have taken the call. */
	CHECK(failed <= 2 * ROUNDS / 10);
}

CHECKS({"fork_copies", fork_copies}, {"fresh_memory_of_a_child", fresh_memory_of_a_child}, {"fork_storm", fork_storm},
       {"is_a_child", is_a_child}, {"vfork_and_exec", vfork_and_exec}, {"spawns", spawns},
       {"clone_with_the_same_memory", clone_with_the_same_memory}, {"exec_chain", exec_chain},
       {"exec_from_another_thread", exec_from_another_thread}, {"exec_that_fails", exec_that_fails},
       {"fork_that_fails", fork_that_fails}, {"fork_from_threads", fork_from_threads}, {"daemonises", daemonises},
       {"forks_among_signals", forks_among_signals})
