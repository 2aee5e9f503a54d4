// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The module's reader of requests, in user space with sanitizers. Without
 * arguments, it reads a request and prints its fields, or the reason of the
 * refusal. With COUNT and SEED, it mutates the request COUNT times: the reader
 * must stay within each text, and accept nothing out of bounds.
 */
#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;

#include "../request.h"

static struct request request;

static void print(void)
{
	u32 group, core;

	printf("period %lu event %s %x %lx %lx %lx skid %u step %u sharing %s\n", request.period_ns,
	       request.user ? "user" : "all", request.type, request.config, request.config1, request.config2,
	       request.skid, request.step, request.spare ? "spare" : "none");
	for (group = 0; group < request.nr_groups; group++) {
		const struct request_group *one = &request.groups[group];

		printf("group %u %s %u", one->budget, one->soft ? "soft" : "hard", one->quantum);
		for (core = one->first_core; core < one->first_core + one->nr_cores; core++)
			printf(" %u", request.cores[core].cpu);
		printf("\n");
	}
}

static void check(const struct request_text *text, bool accepted, const char *bytes, size_t length)
{
	u32 core, lines = 1;
	u64 needed = 0;
	size_t byte;

	for (byte = 0; byte < length; byte++)
		lines += bytes[byte] == '\n';
	if (accepted == !!text->wrong || text->line < 1 || text->line > lines || text->at > text->end)
		errx(1, "line %u of %u, accepted %d: %s", text->line, lines, accepted, text->wrong);
	if (!accepted)
		return;
	for (core = 0; core < request.nr_cores; core++) {
		if (request.cores[core].group >= request.nr_groups || request.cores[core].cpu > REQUEST_CPU_MAX)
			errx(1, "core %u", core);
		needed += request.groups[request.cores[core].group].quantum + request.skid;
	}
	if (request.period_ns < REQUEST_PERIOD_NS_MIN || request.period_ns > REQUEST_PERIOD_NS_MAX || !request.step ||
	    needed > REQUEST_EVENTS_MAX || !request.nr_groups || request.nr_groups > REQUEST_GROUPS_MAX)
		errx(1, "accepted what is out of bounds");
}

/* In memory that ends where it ends. */
static bool read_exactly(const char *bytes, size_t length)
{
	char *copy = malloc(length ? length : 1);
	struct request_text text = { .at = copy, .end = copy + length, .line = 1 }, changed = text;
	struct request_change change;
	bool accepted;

	memcpy(copy, bytes, length);
	accepted = request_read(&text, &request);
	check(&text, accepted, copy, length);
	if (request_read_change(&changed, &change) && !change.forget && change.group >= REQUEST_GROUPS_MAX)
		errx(1, "group %u", change.group);
	free(copy);
	return accepted;
}

static u64 state;

static u32 next(u32 below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % below;
}

static size_t mutate(char *bytes, size_t length, size_t most)
{
	static const char letters[] = "0123456789af \n-x~";
	size_t at = next(length + 1), from, part;

	switch (next(4)) {
	case 0:
		if (at < length)
			bytes[at] = letters[next(sizeof(letters))];
		return length;
	case 1:
		return at;
	case 2:
		if (at < length) {
			memmove(bytes + at, bytes + at + 1, length - at - 1);
			length--;
		}
		return length;
	default:
		from = next(length + 1);
		part = next(length - from + 1);
		if (length + part > most)
			return length;
		memmove(bytes + at + part, bytes + at, length - at);
		memmove(bytes + at, bytes + from, part);
		return length + part;
	}
}

int main(int argc, char **argv)
{
	static char whole[REQUEST_BYTES_MAX], mutated[REQUEST_BYTES_MAX];
	size_t length = fread(whole, 1, sizeof(whole), stdin), now;
	struct request_text text = { .at = whole, .end = whole + length, .line = 1 };
	u32 count, round, accepted = 0;

	if (argc == 1) {
		if (request_read(&text, &request))
			print();
		else
			printf("refused line %u: %s\n", text.line, text.wrong);
		return 0;
	}
	if (argc != 3)
		errx(2, "accepted are no arguments, or COUNT SEED");
	count = strtoul(argv[1], NULL, 10);
	state = strtoul(argv[2], NULL, 10);
	for (round = 0; round < count; round++) {
		u32 changes = next(4);

		memcpy(mutated, whole, length);
		for (now = length; changes; changes--)
			now = mutate(mutated, now, sizeof(mutated));
		accepted += read_exactly(mutated, now);
	}
	printf("%u of %u accepted\n", accepted, count);
	return 0;
}
