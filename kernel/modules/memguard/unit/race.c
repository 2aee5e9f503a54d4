// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * race PERIODS SEED: runs each core on a thread, which uses what it is granted
 * and begins periods on its own schedule. Checks that in no period all groups
 * together are granted more than the sum of their budgets, and the hard group
 * no more than its budget. Built with the thread sanitizer.
 */
#include <err.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "user.h"

#define CORES	4
#define GROUPS	3

/* Cores 0 and 1 share a soft group; 2 is soft, 3 is hard. */
static const u32 group_of[CORES] = { 0, 0, 1, 2 };
static const u32 budgets[GROUPS] = { 60, 40, 30 };
static const enum guard_kind kinds[GROUPS] = { GUARD_SOFT, GUARD_SOFT, GUARD_HARD };

static struct guard_shared shared = { .reclaim_step = 3, .sharing = GUARD_NO_SHARING };
static struct guard_group groups[GROUPS];
static u32 periods, seed;
/* Events granted in each period, by group. */
static u64 (*granted)[GROUPS];

static u64 next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Counts what is granted; gives the number of the grant, or 0 when throttled. */
static u32 count(const struct guard_core *core, u32 group)
{
	u32 grant = 0;

	for (u32 i = 0; i < core->nr_actions; i++) {
		const struct guard_action *action = &core->actions[i];

		if (action->what != GUARD_GRANT)
			continue;
		grant = action->grant;
		__atomic_fetch_add(&granted[core->period][group], action->events, __ATOMIC_RELAXED);
	}
	return grant;
}

static void *run(void *argument)
{
	u32 index = (u32)(uintptr_t)argument, of = group_of[index];
	struct guard_group *group = &groups[of];
	struct guard_core core = { .shift = 1, .regulated = 1, .donates = index != 1 };
	u64 state = seed * 1000003ull + index;

	guard_busy(&core, &shared, group);
	while (core.period < periods - 1) {
		u32 wanted = next(&state) % 12, grant;

		core.nr_actions = 0;
		guard_period_start(&core, &shared, group, core.period + 1, 0);
		grant = count(&core, of);
		while (grant && wanted--) {
			core.nr_actions = 0;
			guard_consumed(&core, &shared, group, grant);
			grant = count(&core, of);
			if (next(&state) % 4 == 0)
				sched_yield();
		}
		core.nr_actions = 0;
		if (next(&state) % 8 == 0) {
			guard_idle(&core, &shared, group, 0);
			guard_busy(&core, &shared, group);
			count(&core, of);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[CORES];
	u64 all = 0, most = 0;

	/* A lock that is not released ends the test. */
	alarm(300);
	if (argc != 3)
		errx(2, "usage: race PERIODS SEED");
	periods = strtoul(argv[1], NULL, 10);
	seed = strtoul(argv[2], NULL, 10);
	granted = calloc(periods, sizeof(*granted));
	if (!granted || !periods)
		errx(2, "no room for %u periods", periods);
	for (u32 i = 0; i < GROUPS; i++) {
		u32 promise = guard_reservation(budgets[i], kinds[i]);

		groups[i] = (struct guard_group){ .before = promise, .after = promise, .quantum = 7, .is_single = i > 0 };
	}
	for (u32 i = 0; i < CORES; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)i))
			errx(2, "no thread");
	for (u32 i = 0; i < CORES; i++)
		pthread_join(threads[i], NULL);
	for (u32 period = 0; period < periods; period++) {
		u64 sum = granted[period][0] + granted[period][1] + granted[period][2];

		if (sum > 60 + 40 + 30 || granted[period][2] > 30)
			errx(1, "period %u: %llu events granted of 130", period, (unsigned long long)sum);
		all += sum;
		most = sum > most ? sum : most;
	}
	printf("%llu events in %u periods, at most %llu of 130\n", (unsigned long long)all, periods, (unsigned long long)most);
	return 0;
}
