/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Memory-bandwidth regulation as a pure state machine: the algorithm of
 * crates/guard, function by function, for use in the kernel. That crate
 * documents the terms and the bound B + q + s; `cargo test -p memtint-guard
 * --test it in_c::` compares the two on random events.
 *
 * No I/O, no clock, no allocation: a backend reports what happens on a core
 * and carries out the actions. Functions on different cores may run at the
 * same time; they order each other by compare-and-exchange. On one core they
 * run one at a time. There are at most 0x7fff cores. The predictor is the
 * exponential average.
 *
 * The includer must first define:
 *   u32, u64, bool
 *   guard_load(const u64 *)            read, acquire
 *   guard_exchange(u64 *, old, new)    strong compare and exchange, a full
 *                                      barrier when it succeeds and acquire
 *                                      when it fails; returns the value found
 *   guard_pause()                      wait a moment for another core
 *   guard_retry                        head of a loop that repeats a contended
 *                                      exchange: for (;;)
 * A backend without best-effort sharing may bound that loop. A word stays as
 * it is when the bound is reached: a core may then get less than it could, and
 * never more. With sharing the loop must not be bounded, since the cores that
 * have used their guarantee would be miscounted.
 */
#ifndef MEMTINT_GUARD_H
#define MEMTINT_GUARD_H

/*
 * BPF's verifier looks at each function by itself: it defines these otherwise.
 * guard_require() returns `otherwise` when a pointer is 0, which never happens.
 */
#ifndef guard_function
#define guard_function static inline
#define guard_require(pointers, otherwise)
#endif

enum guard_kind { GUARD_HARD, GUARD_SOFT };

enum guard_sharing { GUARD_NO_SHARING, GUARD_SPARE, GUARD_PROPORTIONAL };

enum guard_source { GUARD_RESERVATION, GUARD_DONATION, GUARD_POOL };

enum guard_phase { GUARD_BARE, GUARD_GRANTED, GUARD_THROTTLED, GUARD_SHARED };

enum guard_do { GUARD_GRANT, GUARD_THROTTLE, GUARD_RELEASE };

enum guard_reason {
	/* of a throttle */
	GUARD_EXHAUSTED,
	GUARD_SHARING_ENDED,
	/* of a release */
	GUARD_PERIOD_START,
	GUARD_SHARING_BEGUN,
	GUARD_RETURNED,
	GUARD_UNREGULATED,
};

/* What other cores have to do: look, or begin the period in the lower half. */
#define GUARD_QUIET	0ull
#define GUARD_LOOK	(1ull << 32)
#define GUARD_NEXT	(2ull << 32)

#define GUARD_BUDGET_MAX	0x7fffffffu

struct guard_action {
	u32 what;	/* enum guard_do */
	u32 why;	/* enum guard_source of a grant, else enum guard_reason */
	u32 grant;	/* number of a grant */
	u32 events;	/* of a grant; shortfall of a throttle */
};

#define GUARD_ACTIONS_MAX	8	/* a power of two; no call has more */

/* By the parity of the period: what happened in the one before remains. */
struct guard_demand {
	u64 granted;
	u64 missing;
};

/*
 * A tally is a number of events that belongs to one period:
 * period << 32 | events. What another period has left has lapsed.
 */
struct guard_group {
	u64 account;	/* tally: events of the budget that can be granted */
	u64 owed;	/* tally: donated events that were not taken back */
	u64 moving;	/* lock: events move between account and pool */
	struct guard_demand demands[2];
	u64 before;	/* period << 32 | soft << 31 | budget */
	u64 after;	/* the same, from that period on */
	u32 quantum;
	u32 is_single;	/* has one core */
};

struct guard_shared {
	u64 pool;	/* tally: donated events that can still be taken */
	u64 roll;	/* period << 32 | met << 31 | exhausted << 16 | active */
	u32 reclaim_step;
	u32 sharing;	/* enum guard_sharing */
};

/* What a core has been granted in its period, in events. */
struct guard_use {
	u32 reserved;
	u32 returned;
	u32 reclaimed;
	u32 donated;
	u32 shortfall;
	u32 throttled;
	u32 shared;
};

struct guard_core {
	u32 phase;	/* enum guard_phase */
	u32 period;
	u32 grant;
	u32 source;	/* enum guard_source of the latest grant */
	u32 shift;	/* an observation counts for 1 / 2^shift; 1 to 16 */
	u32 observed;	/* mean is one */
	u64 mean;	/* in 1/65536 of an event */
	struct guard_use used;
	u32 donates;	/* for its group */
	u32 regulated;
	u32 busy;
	u32 started;	/* a period has begun */
	u32 returned;	/* the rest of the account was donated, and taken back */
	u32 nr_actions;	/* since the backend has set it to 0 */
	struct guard_action actions[GUARD_ACTIONS_MAX];
};

/* Numbers wrap around: the distance is below 2^31 periods. */
static inline bool guard_is_later(u32 one, u32 other)
{
	return one != other && one - other < 0x80000000u;
}

static inline u64 guard_pack(u32 period, u32 low)
{
	return (u64)period << 32 | low;
}

static inline u32 guard_period_of(u64 word)
{
	return word >> 32;
}

static inline u32 guard_less(u32 one, u32 other)
{
	return one < other ? one : other;
}

guard_function bool guard_tally_open(u64 *tally, u32 period, u32 events)
{
	guard_require(tally, false)
	u64 found = guard_load(tally), before;

	guard_retry {
		if (!guard_is_later(period, guard_period_of(found)))
			return false;
		before = found;
		found = guard_exchange(tally, before, guard_pack(period, events));
		if (found == before)
			return true;
	}
	return false;
}

/* Takes up to `most` of what is beyond `kept`. */
guard_function u32 guard_tally_take(u64 *tally, u32 period, u32 kept, u32 most)
{
	guard_require(tally, 0)
	u64 found = guard_load(tally), before;

	guard_retry {
		u32 left = found, taken = left > kept ? guard_less(left - kept, most) : 0;

		if (guard_period_of(found) != period || !taken)
			return 0;
		before = found;
		found = guard_exchange(tally, before, guard_pack(period, left - taken));
		if (found == before)
			return taken;
	}
	return 0;
}

guard_function bool guard_tally_add(u64 *tally, u32 period, u32 events)
{
	guard_require(tally, false)
	u64 found = guard_load(tally), before;

	guard_retry {
		if (guard_period_of(found) != period || !events)
			return false;
		before = found;
		found = guard_exchange(tally, before, guard_pack(period, (u32)found + events));
		if (found == before)
			return true;
	}
	return false;
}

/* Raises to at least this many; returns the increase. */
guard_function u32 guard_tally_raise(u64 *tally, u32 period, u32 least)
{
	guard_require(tally, 0)
	u64 found = guard_load(tally), before;

	guard_retry {
		u32 events = found;

		if (guard_period_of(found) != period || events >= least)
			return 0;
		before = found;
		found = guard_exchange(tally, before, guard_pack(period, least));
		if (found == before)
			return least - events;
	}
	return 0;
}

guard_function bool guard_lock(u64 *lock)
{
	guard_require(lock, false)
	guard_retry {
		if (guard_exchange(lock, 0, 1) == 0)
			return true;
		guard_pause();
	}
	return false;
}

static inline void guard_unlock(u64 *lock)
{
	guard_exchange(lock, 1, 0);
}

guard_function bool guard_store(u64 *word, u64 value)
{
	guard_require(word, false)
	u64 found = guard_load(word), before;

	guard_retry {
		before = found;
		found = guard_exchange(word, before, value);
		if (found == before)
			return true;
	}
	return false;
}

/* The reservation of a period: soft << 31 | budget. */
static inline u32 guard_promise_of(struct guard_group *group, u32 period)
{
	u64 after = guard_load(&group->after);

	return guard_is_later(guard_period_of(after), period) ? guard_load(&group->before) : after;
}

static inline u32 guard_budget(u32 promise)
{
	return promise & GUARD_BUDGET_MAX;
}

static inline bool guard_is_soft(u32 promise)
{
	return promise >> 31;
}

static inline u32 guard_reservation(u32 budget, enum guard_kind kind)
{
	return (kind == GUARD_SOFT ? 1u << 31 : 0) | budget;
}

/* Keeps a reservation in force that has been so for long. */
static inline void guard_promise_renew(struct guard_group *group, u32 period)
{
	u64 word = guard_load(&group->after);
	u32 from = guard_period_of(word);

	if (guard_is_later(from, period) || period - from < 1u << 30)
		return;
	if (guard_store(&group->before, guard_pack(period, word)))
		guard_exchange(&group->after, word, guard_pack(period, word));
}

/*
 * Gives a group another reservation from a period on. The caller has checked
 * the rule, and makes one call at a time. Returns false, and changes nothing
 * that binds, when that period has begun.
 */
guard_function bool guard_set_reservation(struct guard_shared *shared, struct guard_group *group,
					 u32 from, u32 reservation)
{
	guard_require(shared && group, false)
	u32 latest = guard_period_of(guard_load(&shared->roll));

	return guard_is_later(from, latest) &&
	       guard_store(&group->before, guard_pack(latest, guard_promise_of(group, latest))) &&
	       guard_store(&group->after, guard_pack(from, reservation));
}

/* What a change of the cores that run has brought about. */
enum guard_turn { GUARD_NO_TURN, GUARD_ALL_EXHAUSTED, GUARD_NOT_ALL_EXHAUSTED };

enum guard_roll_change { GUARD_ENTERS, GUARD_LEAVES, GUARD_EXHAUSTS, GUARD_RESUMES };

#define GUARD_MET	(1u << 31)

static inline u64 guard_signal_of(struct guard_shared *shared, enum guard_turn turn, u32 period)
{
	if (shared->sharing == GUARD_NO_SHARING || turn == GUARD_NO_TURN)
		return GUARD_QUIET;
	if (shared->sharing == GUARD_SPARE)
		return GUARD_LOOK;
	return turn == GUARD_ALL_EXHAUSTED ? GUARD_NEXT | (u32)(period + 1) : GUARD_QUIET;
}

/* Both: looking comes first. */
static inline u64 guard_and(u64 one, u64 other)
{
	if (one == GUARD_LOOK || other == GUARD_LOOK)
		return GUARD_LOOK;
	return one == GUARD_QUIET ? other : one;
}

/* `counts`: the core has used its guarantee (of `period`). */
guard_function u64 guard_roll_change(struct guard_shared *shared, enum guard_roll_change change,
				    u32 period, bool counts)
{
	guard_require(shared, GUARD_QUIET)
	u64 found = guard_load(&shared->roll), before;

	guard_retry {
		u32 latest = guard_period_of(found), was = found;
		u32 active = was & 0xffff, exhausted = was >> 16 & 0x7fff, met = was & GUARD_MET;
		u32 one = counts && latest == period, now;
		enum guard_turn turn;

		if (change == GUARD_ENTERS || change == GUARD_EXHAUSTS)
			exhausted += one;
		else
			exhausted -= one;
		active += (change == GUARD_ENTERS) - (change == GUARD_LEAVES);
		/* When the last active core goes idle, nothing changes for the others. */
		if (active)
			met = exhausted >= active ? GUARD_MET : 0;
		now = met | (exhausted & 0x7fff) << 16 | (active & 0xffff);
		turn = met == (was & GUARD_MET) ? GUARD_NO_TURN :
		       met ? GUARD_ALL_EXHAUSTED : GUARD_NOT_ALL_EXHAUSTED;
		if (now == was)
			return guard_signal_of(shared, turn, latest);
		before = found;
		found = guard_exchange(&shared->roll, before, guard_pack(latest, now));
		if (found == before)
			return guard_signal_of(shared, turn, latest);
	}
	return GUARD_QUIET;
}

guard_function u64 guard_roll_open(struct guard_shared *shared, u32 period)
{
	guard_require(shared, GUARD_QUIET)
	u64 found = guard_load(&shared->roll), before;

	guard_retry {
		if (!guard_is_later(period, guard_period_of(found)))
			return GUARD_QUIET;
		before = found;
		found = guard_exchange(&shared->roll, before, guard_pack(period, (u32)before & 0xffff));
		if (found == before)
			return guard_signal_of(shared, (u32)before & GUARD_MET ? GUARD_NOT_ALL_EXHAUSTED :
							GUARD_NO_TURN, period);
	}
	return GUARD_QUIET;
}

static inline void guard_act(struct guard_core *core, u32 what, u32 why, u32 grant, u32 events)
{
	struct guard_action *action = &core->actions[core->nr_actions & (GUARD_ACTIONS_MAX - 1)];

	action->what = what;
	action->why = why;
	action->grant = grant;
	action->events = events;
	core->nr_actions++;
}

static inline struct guard_demand *guard_demand(struct guard_group *group, u32 period)
{
	return &group->demands[period & 1];
}

static inline bool guard_is_exhausted(const struct guard_core *core)
{
	return core->phase == GUARD_THROTTLED || core->phase == GUARD_SHARED;
}

static inline void guard_share(struct guard_core *core)
{
	core->phase = GUARD_SHARED;
	core->used.shared = 1;
	guard_act(core, GUARD_RELEASE, GUARD_SHARING_BEGUN, 0, 0);
}

static inline u64 guard_exhaust(struct guard_core *core, struct guard_shared *shared,
				struct guard_group *group, u32 shortfall)
{
	u64 signal;

	shortfall = guard_tally_raise(&guard_demand(group, core->period)->missing, core->period, shortfall);
	core->used.throttled = 1;
	core->used.shortfall += shortfall;
	core->phase = GUARD_THROTTLED;
	guard_act(core, GUARD_THROTTLE, GUARD_EXHAUSTED, 0, shortfall);
	signal = guard_roll_change(shared, GUARD_EXHAUSTS, core->period, true);
	if (signal == GUARD_LOOK)
		guard_share(core);
	return signal;
}

static inline u64 guard_grant(struct guard_core *core, struct guard_group *group, u32 events,
			      enum guard_source source, u64 signal)
{
	if (source == GUARD_RESERVATION)
		core->used.reserved += events;
	else if (source == GUARD_DONATION)
		core->used.returned += events;
	else
		core->used.reclaimed += events;
	guard_tally_add(&guard_demand(group, core->period)->granted, core->period, events);
	core->phase = GUARD_GRANTED;
	core->grant++;
	core->source = source;
	guard_act(core, GUARD_GRANT, source, core->grant, events);
	return signal;
}

static inline enum guard_source guard_own_source(const struct guard_core *core)
{
	return core->returned ? GUARD_DONATION : GUARD_RESERVATION;
}

/* Of the budget, of the group's own donation, of the pool, in this order. */
guard_function u64 guard_next_grant(struct guard_core *core, struct guard_shared *shared,
				   struct guard_group *group)
{
	guard_require(core && shared && group, GUARD_QUIET)
	u32 period = core->period, events, owed, back = 0, missing = 0;
	enum guard_source source = guard_own_source(core);

	if (!core->regulated)
		return GUARD_QUIET;
	events = guard_tally_take(&group->account, period, 0, group->quantum);
	if (events)
		return guard_grant(core, group, events, source, GUARD_QUIET);
	if (!guard_is_soft(guard_promise_of(group, period)))
		return guard_exhaust(core, shared, group, 0);
	if (!guard_lock(&group->moving))
		return guard_exhaust(core, shared, group, 0);
	events = guard_tally_take(&group->account, period, 0, group->quantum);
	if (!events) {
		/* All of it at once: what stays in the pool may be gone when it is needed. */
		owed = guard_tally_take(&group->owed, period, 0, ~0u);
		back = guard_tally_take(&shared->pool, period, 0, owed);
		missing = owed - back;
		guard_tally_add(&group->owed, period, missing);
		guard_tally_add(&group->account, period, back);
		source = GUARD_DONATION;
		events = guard_tally_take(&group->account, period, 0, group->quantum);
		if (!events) {
			source = GUARD_POOL;
			events = guard_tally_take(&shared->pool, period, 0, shared->reclaim_step);
		}
	}
	guard_unlock(&group->moving);
	if (back)
		core->returned = 1;
	if (!events)
		return guard_exhaust(core, shared, group, missing);
	/* Another core of the group may have been throttled before there was anything to take back. */
	return guard_grant(core, group, events, source,
			   back > events && !group->is_single ? GUARD_LOOK : GUARD_QUIET);
}

#define GUARD_SCALE	16

static inline void guard_observe(struct guard_core *core, u64 used)
{
	used <<= GUARD_SCALE;
	core->mean = core->observed ? core->mean - (core->mean >> core->shift) + (used >> core->shift) : used;
	core->observed = 1;
}

/*
 * Puts into the pool what the group is not expected to use, but for one event.
 * After an underrun nothing is donated.
 */
guard_function bool guard_donate(struct guard_core *core, struct guard_shared *shared, struct guard_group *group)
{
	guard_require(core && shared && group, false)
	u32 before = core->period - 1, kept;
	u64 granted = guard_load(&guard_demand(group, before)->granted);
	u64 missing = guard_load(&guard_demand(group, before)->missing), expected;

	/* A period that this core has missed says nothing about the next. */
	if (guard_period_of(granted) != before || guard_period_of(missing) != before)
		return false;
	guard_observe(core, (u64)(u32)granted + (u32)missing);
	if (!guard_is_soft(guard_promise_of(group, core->period)) || (u32)missing)
		return false;
	expected = (core->mean + (1ull << GUARD_SCALE) - 1) >> GUARD_SCALE;
	kept = expected == 0 ? 1 : expected > ~0u ? ~0u : expected;
	if (!guard_lock(&group->moving))
		return false;
	core->used.donated = guard_tally_take(&group->account, core->period, kept, ~0u);
	guard_tally_add(&shared->pool, core->period, core->used.donated);
	guard_tally_add(&group->owed, core->period, core->used.donated);
	guard_unlock(&group->moving);
	return true;
}

static inline void guard_open(struct guard_group *group, u32 period)
{
	struct guard_demand *demand = guard_demand(group, period);

	guard_tally_open(&demand->granted, period, 0);
	guard_tally_open(&demand->missing, period, 0);
	guard_tally_open(&group->owed, period, 0);
	guard_promise_renew(group, period);
	guard_tally_open(&group->account, period, guard_budget(guard_promise_of(group, period)));
}

/*
 * A period begins. `unused`: events of the last grant that the core has not
 * used; 0 if unknown. `group` is 0 for a core that belongs to none, in this
 * function and those below.
 */
guard_function u64 guard_period_start(struct guard_core *core, struct guard_shared *shared,
				     struct guard_group *group, u32 period, u32 unused)
{
	guard_require(core && shared, GUARD_QUIET)
	const struct guard_use none = {};
	u32 latest = guard_period_of(guard_load(&shared->roll)), before = core->phase, first = !core->started;
	u64 signal;

	if (guard_is_later(latest, period))
		period = latest;
	if (!guard_is_later(period, core->period))
		return GUARD_QUIET;
	if (before == GUARD_GRANTED && group)
		guard_tally_take(&guard_demand(group, core->period)->granted, core->period, 0, unused);
	signal = guard_roll_open(shared, period);
	guard_tally_open(&shared->pool, period, 0);
	core->period = period;
	core->started = 1;
	core->used = none;
	core->returned = 0;
	core->phase = GUARD_BARE;
	if (!group)
		return signal;
	guard_open(group, period);
	if (!core->regulated)
		return signal;
	if (core->donates && !first)
		guard_donate(core, shared, group);
	if (before == GUARD_THROTTLED)
		guard_act(core, GUARD_RELEASE, GUARD_PERIOD_START, 0, 0);
	return core->busy ? guard_and(signal, guard_next_grant(core, shared, group)) : signal;
}

/* Begins the period that others have begun. */
static inline u64 guard_catch_up(struct guard_core *core, struct guard_shared *shared,
				 struct guard_group *group)
{
	if (!core->started)
		return GUARD_QUIET;
	return guard_period_start(core, shared, group, guard_period_of(guard_load(&shared->roll)), 0);
}

/* A grant is consumed. Ignored unless it is the core's latest. */
guard_function u64 guard_consumed(struct guard_core *core, struct guard_shared *shared,
				 struct guard_group *group, u32 grant)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal;

	if (core->phase != GUARD_GRANTED || core->grant != grant || !group)
		return GUARD_QUIET;
	core->phase = GUARD_BARE;
	signal = guard_catch_up(core, shared, group);
	if (core->phase != GUARD_BARE || !core->busy)
		return signal;
	return guard_and(signal, guard_next_grant(core, shared, group));
}

/* Ends a throttle if another core of the group has returned events. */
static inline bool guard_end_throttle(struct guard_core *core, struct guard_group *group)
{
	u64 account;

	if (core->phase != GUARD_THROTTLED || !group)
		return false;
	account = guard_load(&group->account);
	if (guard_period_of(account) != core->period || !(u32)account)
		return false;
	core->phase = GUARD_BARE;
	guard_act(core, GUARD_RELEASE, GUARD_RETURNED, 0, 0);
	return true;
}

static inline u64 guard_enter(struct guard_core *core, struct guard_shared *shared,
			      struct guard_group *group)
{
	u64 signal;

	guard_end_throttle(core, group);
	signal = guard_roll_change(shared, GUARD_ENTERS, core->period, guard_is_exhausted(core));
	/* Before the first period nothing is counted. */
	if (core->phase != GUARD_BARE || !core->started || !group)
		return signal;
	return guard_and(signal, guard_next_grant(core, shared, group));
}

/* Returns events of a grant that the core does not use now. */
static inline u64 guard_give_back(struct guard_core *core, struct guard_shared *shared,
				  struct guard_group *group, u32 unused)
{
	u32 *place;

	if (core->phase != GUARD_GRANTED || !group || !unused)
		return GUARD_QUIET;
	core->phase = GUARD_BARE;
	place = core->source == GUARD_RESERVATION ? &core->used.reserved :
		core->source == GUARD_DONATION ? &core->used.returned : &core->used.reclaimed;
	unused = guard_less(unused, *place);
	*place -= unused;
	guard_tally_take(&guard_demand(group, core->period)->granted, core->period, 0, unused);
	guard_tally_add(core->source == GUARD_POOL ? &shared->pool : &group->account, core->period, unused);
	return group->is_single ? GUARD_QUIET : GUARD_LOOK;
}

/*
 * The core has no work. `unused`: events of its grant that it has not used, by
 * its counter, which stops; 0 if unknown: the counter stays armed.
 */
guard_function u64 guard_idle(struct guard_core *core, struct guard_shared *shared,
			     struct guard_group *group, u32 unused)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal = GUARD_QUIET;

	if (!core->busy)
		return GUARD_QUIET;
	core->busy = 0;
	if (core->regulated) {
		signal = guard_give_back(core, shared, group, unused);
		signal = guard_and(guard_roll_change(shared, GUARD_LEAVES, core->period, guard_is_exhausted(core)), signal);
	}
	return guard_and(signal, guard_catch_up(core, shared, group));
}

/* The core has work. */
guard_function u64 guard_busy(struct guard_core *core, struct guard_shared *shared,
			     struct guard_group *group)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal = guard_catch_up(core, shared, group);
	u32 was = core->busy;

	core->busy = 1;
	if (was || !core->regulated)
		return signal;
	return guard_and(signal, guard_enter(core, shared, group));
}

/* The core is regulated from now on. One without a group never is. */
guard_function u64 guard_regulate(struct guard_core *core, struct guard_shared *shared,
				 struct guard_group *group)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal = guard_catch_up(core, shared, group);
	u32 was = core->regulated;

	if (!group)
		return signal;
	core->regulated = 1;
	if (was || !core->busy)
		return signal;
	return guard_and(signal, guard_enter(core, shared, group));
}

/* The core is regulated no longer. `unused`: as for guard_idle(). */
guard_function u64 guard_exempt(struct guard_core *core, struct guard_shared *shared,
			       struct guard_group *group, u32 unused)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal, turn = GUARD_QUIET;

	if (!core->regulated)
		return GUARD_QUIET;
	signal = guard_give_back(core, shared, group, unused);
	if (core->busy)
		turn = guard_roll_change(shared, GUARD_LEAVES, core->period, guard_is_exhausted(core));
	core->regulated = 0;
	core->phase = GUARD_BARE;
	guard_act(core, GUARD_RELEASE, GUARD_UNREGULATED, 0, 0);
	return guard_and(guard_and(turn, signal), guard_catch_up(core, shared, group));
}

/*
 * Looks what others have changed: whether a period has begun, best-effort
 * sharing has begun or ended, a core of the group has returned events.
 */
guard_function u64 guard_look(struct guard_core *core, struct guard_shared *shared,
			     struct guard_group *group)
{
	guard_require(core && shared, GUARD_QUIET)
	u64 signal = guard_catch_up(core, shared, group), roll;
	bool met;

	if (!core->regulated || !group)
		return signal;
	if (core->busy && guard_end_throttle(core, group)) {
		signal = guard_and(signal, guard_roll_change(shared, GUARD_RESUMES, core->period, true));
		return guard_and(signal, guard_next_grant(core, shared, group));
	}
	roll = guard_load(&shared->roll);
	if (guard_period_of(roll) != core->period)
		return signal;
	met = (u32)roll & GUARD_MET;
	if (shared->sharing == GUARD_SPARE && core->phase == GUARD_THROTTLED && met) {
		guard_share(core);
	} else if (shared->sharing == GUARD_SPARE && core->phase == GUARD_SHARED && !met) {
		core->phase = GUARD_THROTTLED;
		core->used.throttled = 1;
		guard_act(core, GUARD_THROTTLE, GUARD_SHARING_ENDED, 0, 0);
	} else if (shared->sharing == GUARD_PROPORTIONAL && core->phase == GUARD_THROTTLED && met) {
		return guard_and(signal, GUARD_NEXT | (u32)(core->period + 1));
	}
	return signal;
}

#endif
