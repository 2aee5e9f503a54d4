/*
 * A service that speaks to systemd itself: "notify READY_FILE PAGES" fills memory, and sends READY=1 as soon as READY_FILE exists.
 *
 * SIGTERM ends it with status 0, SIGHUP with status 3, SIGUSR1 by SIGABRT. SIGUSR2 makes it send its own process id as MAINPID. It keeps
 * the watchdog alive, if WATCHDOG_PID names it; else it says so and ends with status 4.
 */
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void receive(int signal)
{
	received = signal;
}

static void notify(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (!name || strlen(name) >= sizeof(address.sun_path)) {
		fprintf(stderr, "notify: NOTIFY_SOCKET is not set\n");
		exit(5);
	}
	strcpy(address.sun_path, name);
	if (*name == '@')
		address.sun_path[0] = 0;
	if (sendto(fd, state, strlen(state), 0, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + strlen(name)) < 0) {
		perror("notify: sendto");
		exit(5);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const char *watched = getenv("WATCHDOG_PID");
	char text[64];
	size_t bytes;
	char *memory;
	int ready = 0;

	if (argc != 3) {
		fprintf(stderr, "notify: found %d arguments; accepted are READY_FILE PAGES\n", argc - 1);
		return 2;
	}
	for (int signal = 1; signal < SIGSYS; signal++)
		if (signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1 || signal == SIGUSR2)
			sigaction(signal, &(struct sigaction){ .sa_handler = receive }, NULL);
	if (watched && atoi(watched) != getpid()) {
		fprintf(stderr, "notify: WATCHDOG_PID is %s, and this process is %d\n", watched, getpid());
		return 4;
	}
	bytes = strtoul(argv[2], NULL, 10) * 4096;
	memory = malloc(bytes);
	memset(memory, 1, bytes);
	printf("notify: process %d of user %d\n", getpid(), getuid());
	fflush(stdout);
	for (;;) {
		if (!ready && access(argv[1], F_OK) == 0) {
			notify("READY=1\nSTATUS=colored");
			ready = 1;
		}
		if (watched)
			notify("WATCHDOG=1");
		poll(NULL, 0, 100);
		if (received == SIGTERM)
			return memory[bytes - 1] - 1;
		if (received == SIGHUP)
			return 3;
		if (received == SIGUSR1)
			abort();
		if (received == SIGUSR2) {
			snprintf(text, sizeof(text), "MAINPID=%d", getpid());
			notify(text);
			received = 0;
		}
	}
}
