// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The regulator's decisions in the kernel. Of each counter, an overflow after
 * each quantum runs regulate_overflow(); of each CPU, a clock runs
 * regulate_period(). They wake the regulator thread only when a group is to be
 * stopped or to run again, and when a period does not show that its bound was
 * kept. crates/regulator/src/bpf.rs loads this file and has the same types.
 *
 * A seat is a group on a CPU. Its functions run on that CPU, one at a time: the
 * kernel starts no such program while another one runs there. What is lost by
 * this is made up for by the next overflow, or by the thread when it looks:
 * both go by the counter and the time.
 *
 * A counter overflows at each multiple of the quantum q, so that the end of a
 * grant is seen less than q late. The counter of a group that does not run
 * cannot be read: when it sleeps as a period begins, its count is taken to be
 * that of its last overflow. It may then get up to q - 1 events less, never
 * more; a first reading that shows more than that is reported.
 */
#include "bpf.h"

#define SEATS_MAX	64
#define INCIDENTS_MAX	8
#define NEVER		(~0ull)
#define CLOCK_SLACK_NS	10000

/* The numbers are those of bpf.rs. */
enum cause { CAUSE_MULTIPLEXED = 1, CAUSE_IN_KERNEL, CAUSE_LATE, CAUSE_BEYOND };

struct incident {
	u64 used;
	u64 allowed;
	u32 period;
	u32 cause;
};

struct sums {
	u64 periods;
	u64 used;
	u64 used_max;
	u64 beyond_max;
	u64 granted;
	u64 donated;
	u64 returned;
	u64 reclaimed;
	u64 throttled;
	u64 throttled_ns;
	u64 underruns;
	u64 shortfall;
	u64 broken;
	/* Grants out of donated events, and those that the thread was woken at. */
	u64 reclaims;
	u64 reclaims_woken;
};

struct seat {
	struct guard_core core;
	u32 group;
	u32 cpu;
	/* Events that its counter may be ahead of its bound. */
	u64 skid;
	u64 count;		/* as far as it is known; does not decrease */
	u64 base;		/* when the period began */
	u64 grant_end;		/* the count at which the grant is consumed */
	u64 consumed_at;	/* of the last grant; NEVER if the next one counts from the present */
	u64 stopped_at;		/* beyond it a throttled group uses more than its skid */
	u64 throttled_since;	/* 0 if it is not */
	u64 signal;		/* of the latest command */
	u64 enabled;
	u64 running;
	u32 multiplexed;
	u32 late;
	u32 leaked;		/* it has used memory while it was throttled */
	u32 unread;		/* the count is that of before the period began */
	u32 ring;		/* the other CPUs are to look */
	u32 entered;		/* one of its functions runs */
	u32 missed;		/* a period has begun meanwhile */
	u32 slot;		/* its counter is in counters_SLOT */
	/* Of the call under way: the stack of programs is small. */
	struct bpf_perf_event_value reading;
	struct guard_use use;
	u32 unused;
	struct sums sums;
	u64 nr_incidents;
	struct incident incidents[INCIDENTS_MAX];
};

struct machine {
	struct guard_shared shared;
	u64 start_ns;		/* of period 1 */
	u64 period_ns;
	struct guard_group groups[SEATS_MAX];
	struct seat seats[SEATS_MAX];
};

/* Of linux/bpf.h: an array that the loader maps. */
struct {
	int (*type)[2];
	int (*max_entries)[1];
	int (*map_flags)[1024];
	u32 *key;
	struct machine *value;
} machines section(".maps");

/* Of linux/bpf.h: a ring of records, for which the regulator waits. */
struct {
	int (*type)[27];
	int (*max_entries)[4096];
} moves section(".maps");

/* Of linux/bpf.h: an array of counters by CPU. The loader gives it as many entries. */
#define COUNTERS(name)					\
	struct {					\
		int (*type)[4];				\
		int (*max_entries)[0];			\
		u32 *key;				\
		u32 *value;				\
	} name section(".maps")

/* The groups of a CPU have one each. */
COUNTERS(counters_0);
COUNTERS(counters_1);
COUNTERS(counters_2);
COUNTERS(counters_3);
COUNTERS(counters_4);
COUNTERS(counters_5);
COUNTERS(counters_6);
COUNTERS(counters_7);

#define THIS_CPU	0xffffffffull

/* Fails when the group does not run. */
inlined s64 read_counter(u32 slot, struct bpf_perf_event_value *reading)
{
	switch (slot) {
	case 0:
		return bpf_perf_event_read_value(&counters_0, THIS_CPU, reading, sizeof(*reading));
	case 1:
		return bpf_perf_event_read_value(&counters_1, THIS_CPU, reading, sizeof(*reading));
	case 2:
		return bpf_perf_event_read_value(&counters_2, THIS_CPU, reading, sizeof(*reading));
	case 3:
		return bpf_perf_event_read_value(&counters_3, THIS_CPU, reading, sizeof(*reading));
	case 4:
		return bpf_perf_event_read_value(&counters_4, THIS_CPU, reading, sizeof(*reading));
	case 5:
		return bpf_perf_event_read_value(&counters_5, THIS_CPU, reading, sizeof(*reading));
	case 6:
		return bpf_perf_event_read_value(&counters_6, THIS_CPU, reading, sizeof(*reading));
	case 7:
		return bpf_perf_event_read_value(&counters_7, THIS_CPU, reading, sizeof(*reading));
	}
	return -1;
}

inlined struct machine *the_machine(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&machines, &zero);
}

inlined struct seat *seat_of(struct machine *machine, u32 index)
{
	return &machine->seats[index & (SEATS_MAX - 1)];
}

/* NULL for a core that is in no group. */
inlined struct guard_group *group_of(struct machine *machine, const struct seat *seat)
{
	return seat->group < SEATS_MAX ? &machine->groups[seat->group & (SEATS_MAX - 1)] : NULL;
}

inlined u32 granted_of(const struct guard_use *use)
{
	return use->reserved + use->returned + use->reclaimed;
}

inlined void note(struct seat *seat, u32 period, u64 used, u64 allowed, enum cause cause)
{
	struct incident *incident = &seat->incidents[seat->nr_incidents & (INCIDENTS_MAX - 1)];

	incident->used = used;
	incident->allowed = allowed;
	incident->period = period;
	incident->cause = cause;
	seat->nr_incidents++;
	seat->sums.broken++;
}

inlined void raise(u64 *most, u64 value)
{
	if (value > *most)
		*most = value;
}

/* Ends the accounts of a period, and judges it. */
verified int close_period(u32 index, u32 period, bool judged)
{
	struct machine *machine = the_machine();
	const struct guard_use *use;
	struct guard_group *group;
	struct seat *seat;
	struct sums *sums;
	u64 used, granted, allowed;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	group = group_of(machine, seat);
	sums = &seat->sums;
	use = &seat->use;
	used = seat->count - seat->base;
	granted = granted_of(use);
	allowed = granted + (group ? group->quantum : 0) + seat->skid;
	if (judged) {
		/* Nothing runs on an idle CPU, and periods pass. */
		sums->periods += seat->core.period - period;
		sums->used += used;
		raise(&sums->used_max, used);
		sums->granted += granted;
		sums->donated += use->donated;
		sums->returned += use->returned;
		sums->reclaimed += use->reclaimed;
		sums->throttled += use->throttled;
		sums->underruns += use->shortfall > 0;
		sums->shortfall += use->shortfall;
		if (use->throttled && used > granted)
			raise(&sums->beyond_max, used - granted);
		if (seat->throttled_since) {
			u64 now = bpf_ktime_get_ns();

			sums->throttled_ns += now - seat->throttled_since;
			seat->throttled_since = now;
		}
		if (seat->multiplexed)
			note(seat, period, used, allowed, CAUSE_MULTIPLEXED);
		else if (used > allowed)
			note(seat, period, used, allowed, seat->leaked ? CAUSE_IN_KERNEL :
							  seat->late ? CAUSE_LATE : CAUSE_BEYOND);
	}
	seat->base = seat->count;
	seat->grant_end = NEVER;
	seat->multiplexed = 0;
	seat->late = 0;
	seat->leaked = 0;
	return 0;
}

verified int carry_out(u32 index, u32 i)
{
	struct machine *machine = the_machine();
	const struct guard_action *action;
	struct seat *seat;
	u64 end;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	action = &seat->core.actions[i & (GUARD_ACTIONS_MAX - 1)];
	switch (action->what) {
	case GUARD_GRANT:
		end = seat->consumed_at == NEVER ? seat->count : seat->consumed_at;
		seat->grant_end = end + action->events;
		seat->consumed_at = NEVER;
		if (action->why != GUARD_RESERVATION)
			seat->sums.reclaims++;
		break;
	case GUARD_THROTTLE:
		end = seat->base + granted_of(&seat->core.used);
		seat->grant_end = NEVER;
		seat->stopped_at = (seat->count > end ? seat->count : end) + seat->skid;
		seat->throttled_since = bpf_ktime_get_ns();
		break;
	case GUARD_RELEASE:
		seat->grant_end = NEVER;
		/* Within a period, what was used beyond a grant is of the next one. */
		if (action->why != GUARD_RETURNED)
			seat->consumed_at = NEVER;
		if (seat->throttled_since)
			seat->sums.throttled_ns += bpf_ktime_get_ns() - seat->throttled_since;
		seat->throttled_since = 0;
		break;
	}
	return 0;
}

/* The numbers are those of unit/replay.c. */
enum what { PERIOD_START, CONSUMED, IDLE, BUSY, REGULATE, EXEMPT, LOOK, RESERVE, CHECK, BEGIN };

/* Lets the state machine act. It begins a period with whatever it does next, when another CPU has begun that. */
verified u64 act(u32 index, u32 what, u32 first, u32 second)
{
	struct machine *machine = the_machine();
	struct guard_shared *shared;
	struct guard_group *group;
	struct guard_core *core;
	struct seat *seat;
	u64 signal = GUARD_QUIET;
	u32 period, started;

	if (!machine)
		return signal;
	seat = seat_of(machine, index);
	group = group_of(machine, seat);
	shared = &machine->shared;
	if (what == RESERVE)
		return group && guard_set_reservation(shared, group, first, second);
	core = &seat->core;
	seat->use = core->used;
	period = core->period;
	started = core->started;
	core->nr_actions = 0;
	switch (what) {
	case PERIOD_START:
		signal = guard_period_start(core, shared, group, first, second);
		break;
	case CONSUMED:
		signal = guard_consumed(core, shared, group, first);
		break;
	case IDLE:
		signal = guard_idle(core, shared, group, first);
		break;
	case BUSY:
		signal = guard_busy(core, shared, group);
		break;
	case REGULATE:
		signal = guard_regulate(core, shared, group);
		break;
	case EXEMPT:
		signal = guard_exempt(core, shared, group, first);
		break;
	case LOOK:
		signal = guard_look(core, shared, group);
		break;
	}
	if (core->period != period)
		close_period(index, period, started);
	if (signal != GUARD_QUIET)
		seat->ring = 1;
	for (u32 i = 0; i < GUARD_ACTIONS_MAX && i < core->nr_actions; i++)
		carry_out(index, i);
	return signal;
}

/* Takes note of grants that are consumed, and of use without one. Returns 1 when the thread has something to do. */
verified int check(u32 index)
{
	struct machine *machine = the_machine();
	struct seat *seat;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	/* The group was idle: its first event is the first of its next grant. */
	if (!seat->core.busy && seat->count > seat->consumed_at)
		act(index, BUSY, 0, 0);
	/* A grant is a quantum, but for what is left of a budget, a donation and the pool. */
	for (u32 i = 0; i < 8 && seat->core.phase != GUARD_THROTTLED && seat->count >= seat->grant_end; i++) {
		seat->consumed_at = seat->grant_end;
		seat->grant_end = NEVER;
		act(index, CONSUMED, seat->core.grant, 0);
	}
	if (seat->core.phase == GUARD_THROTTLED && seat->count > seat->stopped_at)
		seat->leaked = 1;
	return 0;
}

/* What a thread has to see changes: it compares these before and after. */
inlined u64 state_of(const struct seat *seat)
{
	return seat->nr_incidents << 8 | seat->ring << 2 | seat->leaked << 1 | (seat->core.phase == GUARD_THROTTLED);
}

/* Takes over a reading of the counter. */
verified int take(u32 index)
{
	struct machine *machine = the_machine();
	const struct bpf_perf_event_value *reading;
	struct guard_group *group;
	struct seat *seat;
	u32 quantum;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	reading = &seat->reading;
	group = group_of(machine, seat);
	quantum = group ? group->quantum : 0;
	if (reading->running - seat->running < reading->enabled - seat->enabled)
		seat->multiplexed = 1;
	if (seat->unread && reading->counter > seat->base + quantum + seat->skid)
		note(seat, seat->core.period - 1, reading->counter - seat->base, quantum + seat->skid, CAUSE_BEYOND);
	seat->unread = 0;
	seat->running = reading->running;
	seat->enabled = reading->enabled;
	if (reading->counter > seat->count)
		seat->count = reading->counter;
	return 0;
}

inlined bool enter(struct seat *seat)
{
	return __sync_val_compare_and_swap(&seat->entered, 0, 1) == 0;
}

inlined void leave(struct seat *seat)
{
	__sync_val_compare_and_swap(&seat->entered, 1, 0);
}

/* Whether periods have begun at a time. */
inlined bool have_begun(const struct machine *machine, u64 now)
{
	return machine->period_ns && now >= machine->start_ns;
}

/* The number of the period at a time. */
inlined u32 period_at(const struct machine *machine, u64 now)
{
	return have_begun(machine, now) ? (now - machine->start_ns) / machine->period_ns + 1 : 0;
}

/* Begins a period on a seat. Returns whether the thread has something to do. */
verified int begin_period(u32 index, u32 period)
{
	struct machine *machine = the_machine();
	struct seat *seat;
	u64 before, left;
	u32 unread;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	if (!enter(seat)) {
		seat->missed = 1;
		return 0;
	}
	if (seat->core.started && !guard_is_later(period, seat->core.period)) {
		leave(seat);
		return 0;
	}
	before = state_of(seat);
	unread = read_counter(seat->slot, &seat->reading) != 0;
	if (!unread)
		take(index);
	if (seat->core.started && period - seat->core.period - 2 < 1u << 31)
		seat->late = 1;
	if (seat->count == seat->base && seat->core.busy && seat->core.phase != GUARD_THROTTLED) {
		act(index, IDLE, 0, 0);
		seat->consumed_at = seat->count;
	}
	left = seat->grant_end == NEVER || seat->count >= seat->grant_end ? 0 : seat->grant_end - seat->count;
	act(index, PERIOD_START, period, left > ~0u ? ~0u : left);
	seat->unread = unread;
	leave(seat);
	return state_of(seat) != before;
}

section("perf_event") int regulate_period(void *context)
{
	struct machine *machine = the_machine();
	u32 cpu = bpf_get_attach_cookie(context), period;
	int wake = 0;
	u64 now;

	if (!machine)
		return 0;
	/* The clock is not early, but two clocks are compared. */
	now = bpf_ktime_get_ns() + CLOCK_SLACK_NS;
	if (!have_begun(machine, now))
		return 0;
	period = period_at(machine, now);
	/* All seats are regulated. */
	for (u32 i = 0; i < SEATS_MAX && machine->seats[i].core.regulated; i++)
		if (machine->seats[i].cpu == cpu && machine->seats[i].core.period != period)
			wake |= begin_period(i, period);
	return wake;
}

section("perf_event") int regulate_overflow(void *context)
{
	struct machine *machine = the_machine();
	u32 index = bpf_get_attach_cookie(context);
	u64 before, reclaims, now;
	struct seat *seat;
	int wake = 0;
	u32 late;

	if (!machine || !machine->period_ns)
		return 0;
	seat = seat_of(machine, index);
	/*
	 * The clock is to come, has found another program running, or stands
	 * still: perf suspends it while an idle CPU has no scheduler ticks.
	 */
	now = bpf_ktime_get_ns();
	late = period_at(machine, now);
	if (have_begun(machine, now) && seat->core.started && guard_is_later(late, seat->core.period))
		wake = begin_period(index, late);
	/* The next overflow goes by the counter, too. */
	if (!enter(seat))
		return wake;
	before = state_of(seat);
	reclaims = seat->sums.reclaims;
	if (!bpf_perf_prog_read_value(context, &seat->reading, sizeof(seat->reading)))
		take(index);
	check(index);
	leave(seat);
	if (state_of(seat) == before)
		return wake;
	seat->sums.reclaims_woken += seat->sums.reclaims - reclaims;
	return 1;
}

/* The thread, or a test, has the state machine act: index of the seat, what, and its arguments. */
section("raw_tp") int regulate_command(u64 *arguments)
{
	struct machine *machine = the_machine();
	u32 index = arguments[0], what = arguments[1];
	struct seat *seat;

	if (!machine)
		return 0;
	seat = seat_of(machine, index);
	/* From another CPU: nothing of the seat is touched. */
	if (what == RESERVE)
		return act(index, RESERVE, arguments[2], arguments[3]) ? 0 : 2;
	if (what == BEGIN) {
		begin_period(index, arguments[2]);
	} else {
		if (!enter(seat))
			return 1;
		if (what == CHECK)
			check(index);
		else
			seat->signal = act(index, what, arguments[2], arguments[3]);
		leave(seat);
	}
	if (seat->missed) {
		seat->missed = 0;
		begin_period(index, period_at(machine, bpf_ktime_get_ns() + CLOCK_SLACK_NS));
	}
	return 0;
}

/*
 * A process has come into a cgroup, and may have left one that is regulated: the
 * regulator compares. When the ring is full, it is about to look anyway.
 */
section("raw_tp") int regulate_moved(void)
{
	u64 now = bpf_ktime_get_ns();

	bpf_ringbuf_output(&moves, &now, sizeof(now), 0);
	return 0;
}

_Static_assert(sizeof(struct seat) == 712, "bpf.rs has the same types");

char license_text[] section("license") = "Dual MIT/GPL";
