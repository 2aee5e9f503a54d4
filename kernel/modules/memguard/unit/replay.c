// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Replays logs of events and prints what the state machine does. Input and
 * output are 32-bit numbers in the machine's order.
 *
 * Input, again and again until it ends: the numbers of cores, groups and
 * events, reclaim step, sharing, shift of the predictor; of each group budget,
 * soft, quantum, is_single; of each core its group + 1 (or 0), whether it
 * donates; of each event what, core and two arguments.
 *
 * Output for each event: the signal in two halves, the number of actions, the
 * actions (what, why, grant, events); the core's books, whether it is throttled
 * and shares, its period, whether it is busy and regulated; the latest period,
 * whether every active core has used its guarantee, the pool; account and debt
 * of the core's group in the core's period.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "user.h"

enum what { PERIOD_START, CONSUMED, IDLE, BUSY, REGULATE, EXEMPT, LOOK, RESERVE };

#define CORES_MAX 64

static struct guard_shared shared;
static struct guard_group groups[CORES_MAX];
static struct guard_core cores[CORES_MAX];
static u32 group_of[CORES_MAX];

static bool get(u32 *number)
{
	return fread(number, sizeof(*number), 1, stdin) == 1;
}

static u32 want(void)
{
	u32 number;

	if (!get(&number))
		errx(2, "the log ends early");
	return number;
}

static u32 want_at_most(u32 most)
{
	u32 number = want();

	if (number > most)
		errx(2, "%u in the log; accepted is up to %u", number, most);
	return number;
}

static void put(u32 number)
{
	if (fwrite(&number, sizeof(number), 1, stdout) != 1)
		err(2, "stdout");
}

static void put_long(u64 number)
{
	put(number >> 32);
	put(number);
}

static void build(u32 nr_cores, u32 nr_groups)
{
	u32 shift;

	shared = (struct guard_shared){ .reclaim_step = want() };
	shared.sharing = want_at_most(GUARD_PROPORTIONAL);
	shift = want_at_most(GUARD_SCALE);
	if (!shift)
		errx(2, "shift is 0; accepted is 1 to %u", GUARD_SCALE);
	for (u32 i = 0; i < nr_groups; i++) {
		u32 budget = want(), soft = want_at_most(1), promise;

		promise = guard_reservation(budget, soft ? GUARD_SOFT : GUARD_HARD);
		groups[i] = (struct guard_group){ .before = promise, .after = promise };
		groups[i].quantum = want();
		groups[i].is_single = want_at_most(1);
	}
	for (u32 i = 0; i < nr_cores; i++) {
		group_of[i] = want_at_most(nr_groups);
		cores[i] = (struct guard_core){ .shift = shift, .regulated = group_of[i] > 0 };
		cores[i].donates = want_at_most(1);
	}
}

static u64 on(enum what what, struct guard_core *core, struct guard_group *group, u32 first, u32 second)
{
	switch (what) {
	case PERIOD_START:
		return guard_period_start(core, &shared, group, first, second);
	case CONSUMED:
		return guard_consumed(core, &shared, group, first);
	case IDLE:
		return guard_idle(core, &shared, group, first);
	case BUSY:
		return guard_busy(core, &shared, group);
	case REGULATE:
		return guard_regulate(core, &shared, group);
	case EXEMPT:
		return guard_exempt(core, &shared, group, first);
	case LOOK:
		return guard_look(core, &shared, group);
	case RESERVE:
		if (group && !guard_set_reservation(&shared, group, first, second))
			errx(1, "period %u has begun", first);
		return GUARD_QUIET;
	}
	abort();
}

static u32 of_period(u64 tally, u32 period)
{
	return guard_period_of(tally) == period ? tally : 0;
}

static void tell(u64 signal, const struct guard_core *core, const struct guard_group *group)
{
	put_long(signal);
	put(core->nr_actions);
	for (u32 i = 0; i < core->nr_actions; i++) {
		put(core->actions[i].what);
		put(core->actions[i].why);
		put(core->actions[i].grant);
		put(core->actions[i].events);
	}
	put(core->used.reserved);
	put(core->used.returned);
	put(core->used.reclaimed);
	put(core->used.donated);
	put(core->used.shortfall);
	put(core->used.throttled);
	put(core->used.shared);
	put(core->phase == GUARD_THROTTLED);
	put(core->phase == GUARD_SHARED);
	put(core->period);
	put(core->busy);
	put(core->regulated);
	put(guard_period_of(shared.roll));
	put(((u32)shared.roll & GUARD_MET) != 0);
	put(of_period(shared.pool, guard_period_of(shared.roll)));
	put(group ? of_period(group->account, core->period) : 0);
	put(group ? of_period(group->owed, core->period) : 0);
}

int main(void)
{
	u32 nr_cores;

	/* A lock that is not released ends the test. */
	alarm(300);
	while (get(&nr_cores)) {
		u32 nr_groups = want_at_most(CORES_MAX), events = want();

		if (nr_cores > CORES_MAX)
			errx(2, "%u cores in the log; accepted are up to %u", nr_cores, CORES_MAX);
		build(nr_cores, nr_groups);
		while (events--) {
			enum what what = want_at_most(RESERVE);
			u32 index = want_at_most(nr_cores - 1), first = want(), second = want();
			struct guard_group *group = group_of[index] ? &groups[group_of[index] - 1] : NULL;
			struct guard_core *core = &cores[index];
			u64 signal;

			core->nr_actions = 0;
			signal = on(what, core, group, first, second);
			if (core->nr_actions > GUARD_ACTIONS_MAX)
				errx(1, "%u actions at once", core->nr_actions);
			tell(signal, core, group);
		}
	}
	return 0;
}
