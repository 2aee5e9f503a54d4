/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What is written to /dev/memtint-guard, read without side effects: README.md
 * has the grammar. The kernel includes it, and unit/request.c, which a fuzzer
 * calls. The includer must first define u32, u64, s32, bool.
 */
#ifndef MEMTINT_REQUEST_H
#define MEMTINT_REQUEST_H

#define REQUEST_BYTES_MAX	65536
#define REQUEST_GROUPS_MAX	64
#define REQUEST_CORES_MAX	1024
#define REQUEST_EVENTS_MAX	0x7fffffffu	/* budgets, quanta and skids */
#define REQUEST_PERIOD_NS_MIN	100000ull
#define REQUEST_PERIOD_NS_MAX	1000000000ull
#define REQUEST_CPU_MAX		8191
#define REQUEST_QUANTA_MAX	4096	/* grants of a period */
#define REQUEST_SKID_MAX	1000000u

struct request_group {
	u32 budget;
	u32 quantum;
	bool soft;
	u32 first_core;
	u32 nr_cores;
};

struct request_core {
	u32 cpu;
	u32 group;
};

/* A whole configuration. */
struct request {
	u64 period_ns;
	u32 type;
	u64 config;
	u64 config1;
	u64 config2;
	bool user;	/* events in the kernel do not count */
	u32 skid;
	u32 step;
	bool spare;
	u32 nr_groups;
	u32 nr_cores;
	struct request_group groups[REQUEST_GROUPS_MAX];
	struct request_core cores[REQUEST_CORES_MAX];
};

/* A change while it runs. */
struct request_change {
	bool forget;	/* the greatest values; else a reservation */
	u32 group;
	u32 budget;
	bool soft;
};

/* Where the reader is, and what it has found wrong. */
struct request_text {
	const char *at;
	const char *end;
	u32 line;
	const char *wrong;	/* 0 if nothing is */
};

static inline bool request_refuse(struct request_text *text, const char *wrong)
{
	if (!text->wrong)
		text->wrong = wrong;
	return false;
}

static inline bool request_is_done(const struct request_text *text)
{
	return text->at == text->end;
}

/* The end of a line, which belongs to it. */
static inline bool request_line_end(struct request_text *text)
{
	if (request_is_done(text) || *text->at != '\n')
		return request_refuse(text, "more on this line than it has, or no newline");
	text->at++;
	text->line++;
	return true;
}

/* `word`, and no more of the same word. Takes nothing if it is another. */
static inline bool request_try(struct request_text *text, const char *word)
{
	const char *at = text->at;

	while (*word) {
		if (at == text->end || *at != *word)
			return false;
		at++;
		word++;
	}
	if (at != text->end && *at != ' ' && *at != '\n')
		return false;
	text->at = at;
	return true;
}

static inline bool request_word(struct request_text *text, const char *word, const char *wrong)
{
	return request_try(text, word) || request_refuse(text, wrong);
}

static inline bool request_space(struct request_text *text)
{
	if (request_is_done(text) || *text->at != ' ')
		return request_refuse(text, "a number or word is missing, or not after one space");
	text->at++;
	return true;
}

static inline s32 request_digit(char letter, u32 base)
{
	s32 digit = letter >= '0' && letter <= '9' ? letter - '0' :
		    letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : 16;

	return digit < (s32)base ? digit : -1;
}

/* A number of the given base behind a space, from `least` to `most`. */
static inline bool request_number(struct request_text *text, u32 base, u64 least, u64 most, u64 *number,
				  const char *wrong)
{
	u64 value = 0;
	bool some = false;
	s32 digit;

	if (!request_space(text))
		return false;
	for (; !request_is_done(text) && (digit = request_digit(*text->at, base)) >= 0; text->at++) {
		/* Of 64 bits in base 16, of less in base 10: no product wraps. */
		if (value > (~0ull - (u32)digit) / base)
			return request_refuse(text, wrong);
		value = value * base + (u32)digit;
		some = true;
	}
	if (!some || value < least || value > most)
		return request_refuse(text, wrong);
	*number = value;
	return true;
}

static inline bool request_events(struct request_text *text, u32 least, u32 most, u32 *events, const char *wrong)
{
	u64 number;

	if (!request_number(text, 10, least, most, &number, wrong))
		return false;
	*events = number;
	return true;
}

static inline bool request_kind(struct request_text *text, bool *soft)
{
	if (!request_space(text))
		return false;
	*soft = request_try(text, "soft");
	return *soft || request_word(text, "hard", "the kind is not hard or soft");
}

static inline bool request_event(struct request_text *text, struct request *request)
{
	u64 type;
	static const char wrong[] = "the event is not: event, all or user, its type, config, config1 and config2 in base 16";

	if (!request_word(text, "event", wrong) || !request_space(text))
		return false;
	request->user = request_try(text, "user");
	if ((!request->user && !request_word(text, "all", wrong)) ||
	    !request_number(text, 16, 0, 0xffffffffu, &type, wrong) ||
	    !request_number(text, 16, 0, ~0ull, &request->config, wrong) ||
	    !request_number(text, 16, 0, ~0ull, &request->config1, wrong) ||
	    !request_number(text, 16, 0, ~0ull, &request->config2, wrong))
		return false;
	request->type = type;
	return request_line_end(text);
}

static inline bool request_sharing(struct request_text *text, struct request *request)
{
	static const char wrong[] = "the sharing is not: sharing none, or sharing spare";

	if (!request_word(text, "sharing", wrong) || !request_space(text))
		return false;
	request->spare = request_try(text, "spare");
	return (request->spare || request_word(text, "none", wrong)) && request_line_end(text);
}

static inline bool request_core_of(struct request_text *text, struct request *request, struct request_group *group)
{
	u64 cpu;
	u32 core;

	if (!request_number(text, 10, 0, REQUEST_CPU_MAX, &cpu, "a CPU is not a number up to 8191"))
		return false;
	if (request->nr_cores == REQUEST_CORES_MAX)
		return request_refuse(text, "there are more than 1024 CPUs");
	for (core = 0; core < request->nr_cores; core++) {
		if (request->cores[core].cpu == cpu)
			return request_refuse(text, "a CPU has two budgets");
	}
	request->cores[request->nr_cores].cpu = cpu;
	request->cores[request->nr_cores].group = request->nr_groups;
	request->nr_cores++;
	group->nr_cores++;
	return true;
}

/* Behind the word group: budget, kind, quantum, CPUs. */
static inline bool request_group_of(struct request_text *text, struct request *request)
{
	struct request_group *group = &request->groups[request->nr_groups];

	if (request->nr_groups == REQUEST_GROUPS_MAX)
		return request_refuse(text, "there are more than 64 groups");
	group->first_core = request->nr_cores;
	group->nr_cores = 0;
	if (!request_events(text, 1, REQUEST_EVENTS_MAX, &group->budget, "the budget is not 1 to 2147483647 events") ||
	    !request_kind(text, &group->soft) ||
	    !request_events(text, 1, REQUEST_EVENTS_MAX, &group->quantum, "the quantum is not 1 to 2147483647 events"))
		return false;
	do {
		if (!request_core_of(text, request, group))
			return false;
	} while (!request_is_done(text) && *text->at == ' ');
	request->nr_groups++;
	return request_line_end(text);
}

/*
 * Budgets, quanta and skids add up to what a period counts. No CPU spends all
 * its time on grants, and each gets one in every period: without one, nothing
 * at all would run there.
 */
static inline bool request_is_sound(struct request_text *text, const struct request *request)
{
	u64 needed = 0;
	u32 group;

	if (!request->nr_groups)
		return request_refuse(text, "there is no group");
	for (group = 0; group < request->nr_groups; group++) {
		const struct request_group *one = &request->groups[group];

		needed += one->budget + (u64)one->nr_cores * ((u64)one->quantum + request->skid);
	}
	if (needed > REQUEST_EVENTS_MAX)
		return request_refuse(text, "budgets, quanta and skids add up to more than 2147483647 events");
	for (group = 0; group < request->nr_groups; group++) {
		const struct request_group *one = &request->groups[group];

		if (one->budget / one->quantum > REQUEST_QUANTA_MAX)
			return request_refuse(text, "a budget is more than 4096 quanta");
		if (one->nr_cores > 1 && one->budget < (u64)one->nr_cores * one->quantum)
			return request_refuse(text, "a budget is less than a quantum for each CPU of its group");
	}
	return true;
}

/*
 * Reads a configuration from the start of `text` to its end. False: text->wrong
 * says why, text->line where, and the request is of no use.
 */
static inline bool request_read(struct request_text *text, struct request *request)
{
	static const char period[] = "the period is not: period, and 100000 to 1000000000 nanoseconds";
	static const char skid[] = "the skid is not: skid, and 0 to 1000000 events";
	static const char step[] = "the step is not: step, and 1 to 2147483647 events";

	request->nr_groups = 0;
	request->nr_cores = 0;
	if (!request_word(text, "memtint-guard 1", "the first line is not: memtint-guard 1") || !request_line_end(text) ||
	    !request_word(text, "period", period) ||
	    !request_number(text, 10, REQUEST_PERIOD_NS_MIN, REQUEST_PERIOD_NS_MAX, &request->period_ns, period) ||
	    !request_line_end(text) || !request_event(text, request) || !request_word(text, "skid", skid) ||
	    !request_events(text, 0, REQUEST_SKID_MAX, &request->skid, skid) || !request_line_end(text) ||
	    !request_word(text, "step", step) || !request_events(text, 1, REQUEST_EVENTS_MAX, &request->step, step) ||
	    !request_line_end(text) || !request_sharing(text, request))
		return false;
	while (request_try(text, "group")) {
		if (!request_group_of(text, request))
			return false;
	}
	if (!request_word(text, "end", "neither a group nor the end") || !request_is_sound(text, request) ||
	    !request_line_end(text))
		return false;
	return request_is_done(text) || request_refuse(text, "something follows the end");
}

/* Reads a change: forget; or reserve, a group, a budget, a kind. */
static inline bool request_read_change(struct request_text *text, struct request_change *change)
{
	static const char wrong[] = "not: forget; or reserve, a group, a budget, hard or soft";

	change->forget = request_try(text, "forget");
	if (!change->forget &&
	    (!request_word(text, "reserve", wrong) ||
	     !request_events(text, 0, REQUEST_GROUPS_MAX - 1, &change->group, wrong) ||
	     !request_events(text, 1, REQUEST_EVENTS_MAX, &change->budget, wrong) ||
	     !request_kind(text, &change->soft)))
		return false;
	if (!request_line_end(text))
		return false;
	return request_is_done(text) || request_refuse(text, "something follows the line");
}

#endif
