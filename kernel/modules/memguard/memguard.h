/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of the module share: a regulated machine, and its CPUs. */
#ifndef MEMTINT_MEMGUARD_H
#define MEMTINT_MEMGUARD_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#ifndef CONFIG_64BIT
#error "the words of the state machine have 64 bits"
#endif

static inline u64 guard_load(const u64 *word)
{
	return smp_load_acquire(word);
}

static inline u64 guard_exchange(u64 *word, u64 old, u64 new)
{
	u64 found = cmpxchg(word, old, new);

	if (found != old)
		smp_acquire__after_ctrl_dep();
	return found;
}

static inline void guard_pause(void)
{
	cpu_relax();
}

#define guard_retry for (;;)

#include "guard.h"
#include "request.h"

/* Why a period does not show that its bound was kept. */
enum broken_by {
	BROKEN_BEYOND,		/* more events than grants, a quantum and a skid */
	BROKEN_COUNTER,		/* the counter did not count */
	BROKEN_LATE,		/* the same, and it ended late by a period or more */
	BROKEN_OFFLINE,		/* the CPU was taken offline */
	NR_BROKEN,
};

extern const char *const broken_names[NR_BROKEN];

/* Since the start. Events, periods where the name says so, nanoseconds. */
struct cpu_sums {
	u64 periods;
	u64 idle_periods;
	u64 used;
	u64 used_max;
	u64 beyond_max;		/* beyond the grants of a period with a throttle */
	u64 granted;
	u64 donated;
	u64 returned;
	u64 reclaimed;
	u64 throttled_periods;
	u64 throttled_ns;
	u64 underruns;
	u64 shortfall;
	u64 reclaims;
	u64 overflows;
	u64 late_periods;	/* begun late by a period or more */
	u64 late_ns_max;
	u64 timer_ns;		/* in the handler of the timer */
	u64 overflow_ns;	/* and in that of overflows */
	u64 broken[NR_BROKEN];
	/* The latest broken period. */
	u32 broken_period;
	u32 broken_by;
	u64 broken_used;
	u64 broken_allowed;
};

struct machine;

/**
 * struct regulated_cpu - a CPU with a budget
 *
 * Written on this CPU, with interrupts off, except for what says otherwise.
 *
 * @core: its state machine
 * @group: whose budget it uses
 * @machine: what it is part of
 * @cpu: its number
 * @quantum: of the group
 * @is_on: it is regulated: from its start until its stop
 * @was_blind: the counter was found stopped in this period
 * @is_throttled: the brake holds this CPU
 * @event: the counter; written by the task that configures, while it is not on
 * @brake: the task that holds the CPU; the same
 * @timer: begins periods
 * @overflow: continues in an interrupt what the counter's handler has begun
 * @look: by which other CPUs ask this one to look
 * @is_asked: a look is on its way; written by the CPUs that ask, too
 * @base: the count when the period began
 * @allowance: events granted in this period
 * @throttled_since: when the throttle of this period began
 * @sums: see there
 */
struct regulated_cpu {
	struct guard_core core;
	struct guard_group *group;
	struct machine *machine;
	unsigned int cpu;
	u32 quantum;
	bool is_on;
	bool was_blind;
	u32 is_throttled;
	struct perf_event *event;
	struct task_struct *brake;
	struct hrtimer timer;
	struct irq_work overflow;
	call_single_data_t look;
	u32 is_asked;
	u64 base;
	u64 allowance;
	u64 throttled_since;
	struct cpu_sums sums;
};

/**
 * struct machine - a regulated machine: one open file
 *
 * @request: what was asked for
 * @shared: the pool, and the turns of sharing
 * @start: the beginning of period 1, which is common to all CPUs
 * @cpus: by the number of the core
 * @groups: by their number
 * @broken: number of broken periods of all CPUs
 * @told: how many of them a reader has been told of
 * @hotplug: follows CPUs that come and go
 * @alarm: wakes readers up
 * @readers: processes that wait for a broken period
 */
struct machine {
	struct request request;
	struct guard_shared shared;
	ktime_t start;
	struct regulated_cpu *cpus;
	struct guard_group groups[REQUEST_GROUPS_MAX];
	atomic64_t broken;
	u64 told;
	struct delayed_work hotplug;
	struct irq_work alarm;
	wait_queue_head_t readers;
};

void regulated_cpu_init(struct regulated_cpu *cpu);
/*
 * Makes the counter and the brake of a CPU, and disposes of them. They sleep;
 * perf takes the lock of CPU hotplug, so that the caller must not hold it.
 */
int regulated_cpu_prepare(struct regulated_cpu *cpu);
void regulated_cpu_dispose(struct regulated_cpu *cpu);
/* Under that lock: begins; lets it run; waits until nothing is under way. */
int regulated_cpu_begin(struct regulated_cpu *cpu);
void regulated_cpu_release(struct regulated_cpu *cpu);
void regulated_cpu_stop(struct regulated_cpu *cpu);
/* On the CPU, interrupts off: takes note of what has been used up to now. */
void regulated_cpu_settle(struct regulated_cpu *cpu);
/* The same, or when nothing else runs on it. */
void regulated_cpu_broken(struct regulated_cpu *cpu, enum broken_by by, u64 used, u64 allowed);
/* The number of the period that the clock is in, which wraps around. */
u32 machine_period(const struct machine *machine);

/* Whether the brake is above everything else that runs, the fair server too. */
#define BRAKE_IS_ABOVE_ALL IS_ENABLED(CONFIG_CPU_FREQ_GOV_SCHEDUTIL)

int brake_start(struct regulated_cpu *cpu);
void brake_stop(struct regulated_cpu *cpu);

#endif
