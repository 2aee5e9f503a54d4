// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

struct mapping mapping;
struct wanted wanted;
char reason[256];

bool because(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	return false;
}

char *memory(size_t bytes)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		err(2, "%zu bytes", bytes);
	return start;
}

void fill(char *start, size_t bytes, uint64_t number)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		*(uint64_t *)(start + at) = number + at;
}

bool is_filled(const char *start, size_t bytes, uint64_t number)
{
	for (size_t at = 0; at < bytes; at += PAGE_BYTES)
		if (*(const uint64_t *)(start + at) != number + at)
			return because("page %zu has another content", at / PAGE_BYTES);
	return true;
}

bool all_in_color(unsigned long pages)
{
	struct tally tally = own_pages(pages, &mapping, &wanted, 4);

	if (tally.nowhere)
		return because("%lu pages are in memory without color", tally.nowhere);
	if (tally.anonymous < pages)
		return because("%lu private pages and %lu in swap, %lu were expected", tally.anonymous, tally.swapped, pages);
	if (tally.anonymous_wrong)
		return because("%lu of %lu private pages are out of color", tally.anonymous_wrong, tally.anonymous);
	return true;
}

bool write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);

	if (file >= 0)
		close(file);
	return written ? true : because("%s: %s is refused", path, text);
}

long number_of(const char *path, const char *name)
{
	char line[256], word[64];
	FILE *file = fopen(path, "re");
	long number, found = -1;

	if (!file)
		err(2, "%s", path);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %ld", word, &number) == 2 && !strcmp(word, name))
			found = number;
	fclose(file);
	return found;
}

bool child_was_well(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		return because("fork or wait");
	if (WIFSIGNALED(status))
		return because("a child was ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status) ? because("a child ended with %d", WEXITSTATUS(status)) : true;
}

void end_with_parent(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		err(2, "prctl");
}

void child_end(bool well)
{
	if (!well)
		printf("# in a child: %s\n", reason);
	fflush(stdout);
	_exit(!well);
}
