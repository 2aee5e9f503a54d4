// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regulates one CPU: what its counter and its timer report goes to the state
 * machine of guard.h, and what that decides is done here.
 *
 * All of it happens on the CPU itself with interrupts off, in the handlers of
 * the timer, of the irq_work that an overflow queues, and of calls from other
 * CPUs. The handlers are hard ones under PREEMPT_RT, too. Tasks run them by
 * smp_call_function_single().
 */
#include <linux/cpu.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>

#include "memguard.h"

const char *const broken_names[NR_BROKEN] = { "beyond", "counter", "late", "offline" };

/* The counter runs on, and says nothing for as long as it can. */
#define SILENT REQUEST_EVENTS_MAX

/* Since the start, the one that the clock is in included. */
static u64 periods_begun(const struct machine *machine)
{
	s64 passed = ktime_to_ns(ktime_sub(ktime_get(), machine->start));

	return passed < 0 ? 0 : div64_u64(passed, machine->request.period_ns) + 1;
}

u32 machine_period(const struct machine *machine)
{
	return periods_begun(machine);
}

/* The beginning of a period; `more` periods behind the next one. */
static ktime_t next_period(const struct machine *machine, u64 more)
{
	return ktime_add_ns(machine->start, (periods_begun(machine) + more) * machine->request.period_ns);
}

static bool is_counting(const struct perf_event *event)
{
	return READ_ONCE(event->state) == PERF_EVENT_STATE_ACTIVE;
}

static bool is_software(const struct perf_event *event)
{
	return event->pmu->task_ctx_nr == perf_sw_context;
}

/*
 * Stops the counter, and returns the events since the period began. Stopped, or
 * in the error state, it has not counted. The counters of other users stand
 * still, too, until counter_start(): some processors switch all at once.
 */
static u64 counter_stop(struct regulated_cpu *cpu)
{
	struct perf_event *event = cpu->event;

	if (is_counting(event)) {
		cpu->was_blind |= event->hw.state & PERF_HES_STOPPED;
		event->pmu->pmu_disable(event->pmu);
		event->pmu->stop(event, PERF_EF_UPDATE);
	} else {
		cpu->was_blind = true;
	}
	return local64_read(&event->count) - cpu->base;
}

/*
 * Lets the counter overflow once, after this many events. perf itself has set the
 * hardware to the sample period before it called the handler of an overflow, so
 * the hardware must be written again, not only the number; and that period is
 * long, since the handler of this module may have to wait for an interrupt.
 */
static void counter_start(struct regulated_cpu *cpu, u64 events)
{
	struct hw_perf_event *hw = &cpu->event->hw;
	u64 after = clamp_t(u64, events, 1, SILENT);

	if (!is_counting(cpu->event))
		return;
	hw->sample_period = SILENT;
	hw->last_period = SILENT;
	/* Software's counters run up to 0, hardware's are set by what is left. */
	local64_set(&hw->period_left, is_software(cpu->event) ? -(s64)after : (s64)after);
	/* Every overflow is asked for: perf must not suspend them. */
	hw->interrupts = 0;
	hw->interrupts_seq = ~0ull;
	cpu->event->pmu->start(cpu->event, PERF_EF_RELOAD);
	cpu->event->pmu->pmu_enable(cpu->event->pmu);
}

void regulated_cpu_broken(struct regulated_cpu *cpu, enum broken_by by, u64 used, u64 allowed)
{
	struct cpu_sums *sums = &cpu->sums;

	sums->broken[by]++;
	sums->broken_period = cpu->core.period;
	sums->broken_by = by;
	sums->broken_used = used;
	sums->broken_allowed = allowed;
	atomic64_inc(&cpu->machine->broken);
	irq_work_queue(&cpu->machine->alarm);
}

static void throttle(struct regulated_cpu *cpu)
{
	if (cpu->is_throttled)
		return;
	cpu->throttled_since = local_clock();
	WRITE_ONCE(cpu->is_throttled, 1);
	/* On a CPU that is about to go, the thread would run on another. */
	if (cpu_active(cpu->cpu))
		wake_up_process(cpu->brake);
}

static void release(struct regulated_cpu *cpu)
{
	if (!cpu->is_throttled)
		return;
	cpu->sums.throttled_ns += local_clock() - cpu->throttled_since;
	/* The interrupt that this runs in ends the brake's halt. */
	WRITE_ONCE(cpu->is_throttled, 0);
}

/*
 * A period has ended. `use` is the state machine's record of it before the
 * events `returned` were given back.
 */
static void account(struct regulated_cpu *cpu, u32 passed, const struct guard_use *use, u32 returned, u64 used)
{
	struct cpu_sums *sums = &cpu->sums;
	u64 allowed = cpu->allowance + cpu->quantum + cpu->machine->request.skid;

	sums->periods += passed;
	sums->idle_periods += cpu->core.busy ? 0 : passed;
	sums->used += used;
	sums->used_max = max(sums->used_max, used);
	if (use->throttled && used > cpu->allowance)
		sums->beyond_max = max(sums->beyond_max, used - cpu->allowance);
	sums->granted += use->reserved + use->returned + use->reclaimed - returned;
	sums->donated += use->donated;
	sums->returned += use->returned;
	sums->reclaimed += use->reclaimed;
	sums->throttled_periods += !!use->throttled;
	sums->underruns += !!use->shortfall;
	sums->shortfall += use->shortfall;
	/* Best-effort sharing binds nothing. */
	if (cpu->was_blind)
		regulated_cpu_broken(cpu, BROKEN_COUNTER, used, allowed);
	else if (used > allowed && !use->shared)
		regulated_cpu_broken(cpu, passed > 1 ? BROKEN_LATE : BROKEN_BEYOND, used, allowed);
	cpu->was_blind = false;
}

/* What the state machine has decided. */
static void carry_out(struct regulated_cpu *cpu)
{
	struct guard_core *core = &cpu->core;
	u32 index;

	for (index = 0; index < core->nr_actions; index++) {
		const struct guard_action *action = &core->actions[index];

		if (action->what == GUARD_GRANT) {
			cpu->allowance += action->events;
			cpu->sums.reclaims += action->why != GUARD_RESERVATION;
		} else if (action->what == GUARD_THROTTLE) {
			throttle(cpu);
		} else {
			release(cpu);
		}
	}
}

/* Other CPUs look at what has changed. One that is about to look will do. */
static void tell_others(struct regulated_cpu *cpu, u64 signal)
{
	struct machine *machine = cpu->machine;
	u32 core;

	if (signal != GUARD_LOOK)
		return;
	for (core = 0; core < machine->request.nr_cores; core++) {
		struct regulated_cpu *other = &machine->cpus[core];

		/* Several CPUs may ask at once, and one call is sent at a time. */
		if (other != cpu && READ_ONCE(other->is_on) && !xchg(&other->is_asked, 1) &&
		    smp_call_function_single_async(other->cpu, &other->look))
			xchg(&other->is_asked, 0);
	}
}

enum step { STEP_PERIOD, STEP_CONSUMED, STEP_IDLE, STEP_BUSY, STEP_LOOK, STEP_REGULATE, STEP_EXEMPT };

/* Events of the latest grant that are not used. */
static u32 left_over(const struct regulated_cpu *cpu, u64 used)
{
	return cpu->core.phase == GUARD_GRANTED && cpu->allowance > used ? cpu->allowance - used : 0;
}

/*
 * A step of the state machine, which may begin a period as well. The counter
 * stands still meanwhile. Returns what has been used in the period since it
 * began: `used`, or 0 if it begins now.
 */
static u64 step(struct regulated_cpu *cpu, enum step what, u32 period, u64 used)
{
	struct guard_core *core = &cpu->core;
	struct guard_shared *shared = &cpu->machine->shared;
	struct guard_group *group = cpu->group;
	const struct guard_use use = core->used;
	const u32 before = core->period, left = left_over(cpu, used);
	const bool had_begun = core->started;
	u32 returned = 0;
	u64 signal = GUARD_QUIET;

	core->nr_actions = 0;
	switch (what) {
	case STEP_PERIOD:
		signal = guard_period_start(core, shared, group, period, left);
		break;
	case STEP_CONSUMED:
		signal = guard_consumed(core, shared, group, core->grant);
		break;
	case STEP_IDLE:
		signal = guard_idle(core, shared, group, left);
		returned = left;
		break;
	case STEP_BUSY:
		signal = guard_busy(core, shared, group);
		break;
	case STEP_LOOK:
		signal = guard_look(core, shared, group);
		break;
	case STEP_REGULATE:
		signal = guard_regulate(core, shared, group);
		break;
	case STEP_EXEMPT:
		signal = guard_exempt(core, shared, group, left);
		returned = left;
		break;
	}
	cpu->allowance -= returned;
	if (core->period != before) {
		if (had_begun)
			account(cpu, core->period - before, &use, returned, used);
		cpu->base += used;
		cpu->allowance = 0;
		used = 0;
	}
	carry_out(cpu);
	tell_others(cpu, signal);
	return used;
}

/* As many grants as the events that have been counted have consumed. */
static u64 consume(struct regulated_cpu *cpu, u64 used)
{
	while (cpu->core.phase == GUARD_GRANTED && used >= cpu->allowance)
		used = step(cpu, STEP_CONSUMED, 0, used);
	return used;
}

/* Lets the counter run until there is something to decide. */
static void count_on(struct regulated_cpu *cpu, u64 used)
{
	const struct guard_core *core = &cpu->core;

	if (!cpu->is_on || (core->phase != GUARD_GRANTED && core->busy))
		counter_start(cpu, SILENT);
	else if (!core->busy)
		/* The first event of a CPU that was idle asks for a grant. */
		counter_start(cpu, 1);
	else
		counter_start(cpu, cpu->allowance - used);
}

static void await_period(struct regulated_cpu *cpu)
{
	hrtimer_start(&cpu->timer, next_period(cpu->machine, 0), HRTIMER_MODE_ABS_PINNED_HARD);
}

/* Begins the period that the clock is in, if that has not happened. */
static u64 catch_up(struct regulated_cpu *cpu, u64 used)
{
	u32 period = machine_period(cpu->machine);

	if (guard_is_later(period, cpu->core.period))
		used = step(cpu, STEP_PERIOD, period, used);
	return used;
}

static void on_overflow(struct irq_work *work)
{
	struct regulated_cpu *cpu = container_of(work, struct regulated_cpu, overflow);
	u64 begin = local_clock(), used;

	if (!cpu->is_on)
		return;
	used = catch_up(cpu, counter_stop(cpu));
	if (!cpu->core.busy) {
		used = step(cpu, STEP_BUSY, 0, used);
		await_period(cpu);
	}
	used = consume(cpu, used);
	count_on(cpu, used);
	cpu->sums.overflows++;
	cpu->sums.overflow_ns += local_clock() - begin;
}

/* May be an NMI: it only asks for an interrupt. */
static void overflow_handler(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct regulated_cpu *cpu = event->overflow_handler_context;

	irq_work_queue(&cpu->overflow);
}

static void on_look(void *data)
{
	struct regulated_cpu *cpu = data;
	u64 used;

	/* Before it looks: what changes later asks again. */
	xchg(&cpu->is_asked, 0);
	if (!cpu->is_on)
		return;
	used = step(cpu, STEP_LOOK, 0, counter_stop(cpu));
	used = consume(cpu, used);
	count_on(cpu, used);
}

/* Numbers of periods wrap around: no CPU may miss 2^31 of them. */
static u64 periods_of_a_second(const struct machine *machine)
{
	return div64_u64(NSEC_PER_SEC, machine->request.period_ns);
}

/*
 * An idle CPU is woken up once a second, and not for each period, unless its
 * group donates: its next event begins the period in which that happens.
 */
static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct regulated_cpu *cpu = container_of(timer, struct regulated_cpu, timer);
	struct cpu_sums *sums = &cpu->sums;
	u64 begin = local_clock(), used;
	s64 late = ktime_to_ns(ktime_sub(ktime_get(), hrtimer_get_expires(timer)));
	bool sleeps;

	if (!cpu->is_on)
		return HRTIMER_NORESTART;
	sums->late_ns_max = max_t(u64, sums->late_ns_max, max_t(s64, late, 0));
	sums->late_periods += late >= (s64)cpu->machine->request.period_ns;
	used = counter_stop(cpu);
	if (is_idle_task(current) && cpu->core.busy)
		used = step(cpu, STEP_IDLE, 0, used);
	used = catch_up(cpu, used);
	used = consume(cpu, used);
	count_on(cpu, used);
	sleeps = !cpu->core.busy && !cpu->core.donates;
	hrtimer_set_expires(timer, next_period(cpu->machine, sleeps ? periods_of_a_second(cpu->machine) : 0));
	sums->timer_ns += local_clock() - begin;
	return HRTIMER_RESTART;
}

void regulated_cpu_settle(struct regulated_cpu *cpu)
{
	u64 used;

	if (!cpu->is_on)
		return;
	used = catch_up(cpu, counter_stop(cpu));
	used = consume(cpu, used);
	count_on(cpu, used);
}

/* Not without a counter: pinned, it is in the error state if there is none. */
static void begin_here(void *data)
{
	struct regulated_cpu *cpu = data;
	u64 used;

	if (!is_counting(cpu->event))
		return;
	cpu->base = 0;
	cpu->base = counter_stop(cpu);
	cpu->allowance = 0;
	cpu->was_blind = false;
	cpu->core.busy = 1;
	/* A CPU that was away has missed more periods than it may. */
	if (cpu->core.started)
		cpu->core.period = machine_period(cpu->machine) - 1;
	cpu->is_on = true;
	used = step(cpu, STEP_REGULATE, 0, 0);
	used = catch_up(cpu, used);
	count_on(cpu, used);
	await_period(cpu);
}

static void end_here(void *data)
{
	struct regulated_cpu *cpu = data;
	u64 used;

	if (!cpu->is_on)
		return;
	used = catch_up(cpu, counter_stop(cpu));
	step(cpu, STEP_EXEMPT, 0, used);
	cpu->is_on = false;
	count_on(cpu, used);
	hrtimer_try_to_cancel(&cpu->timer);
}

static void nothing(void *data)
{
}

/* Whether perf counts it by itself, event by event. Its clocks do not. */
static bool is_accepted(const struct request *request)
{
	return request->type != PERF_TYPE_SOFTWARE ||
	       (request->config != PERF_COUNT_SW_CPU_CLOCK && request->config != PERF_COUNT_SW_TASK_CLOCK &&
		request->config != PERF_COUNT_SW_DUMMY && request->config < PERF_COUNT_SW_BPF_OUTPUT);
}

/* PMUs that do not interrupt, or count for several CPUs on one of them. */
static bool is_usable(const struct perf_event *event, const struct regulated_cpu *cpu)
{
	const int unfit = PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_EXCLUSIVE | PERF_PMU_CAP_ITRACE;

	return !(event->pmu->capabilities & unfit) && event->cpu == cpu->cpu;
}

int regulated_cpu_prepare(struct regulated_cpu *cpu)
{
	const struct request *request = &cpu->machine->request;
	struct perf_event_attr attr = {
		.type = request->type,
		.size = sizeof(attr),
		.config = request->config,
		.config1 = request->config1,
		.config2 = request->config2,
		.sample_period = SILENT,
		.pinned = 1,
		.exclude_kernel = request->user,
	};
	struct perf_event *event;
	int error;

	if (!is_accepted(request))
		return -EOPNOTSUPP;
	event = perf_event_create_kernel_counter(&attr, cpu->cpu, NULL, overflow_handler, cpu);
	if (IS_ERR(event))
		return PTR_ERR(event);
	error = is_usable(event, cpu) ? brake_start(cpu) : -EOPNOTSUPP;
	if (error) {
		perf_event_release_kernel(event);
		return error;
	}
	cpu->event = event;
	return 0;
}

int regulated_cpu_begin(struct regulated_cpu *cpu)
{
	if (!cpu_online(cpu->cpu))
		return -ENXIO;
	smp_call_function_single(cpu->cpu, begin_here, cpu, 1);
	return cpu->is_on ? 0 : -EBUSY;
}

void regulated_cpu_release(struct regulated_cpu *cpu)
{
	if (cpu->is_on)
		smp_call_function_single(cpu->cpu, end_here, cpu, 1);
}

void regulated_cpu_stop(struct regulated_cpu *cpu)
{
	regulated_cpu_release(cpu);
	hrtimer_cancel(&cpu->timer);
	irq_work_sync(&cpu->overflow);
	/* Behind the calls that others may have sent. */
	smp_call_function_single(cpu->cpu, nothing, NULL, 1);
}

void regulated_cpu_dispose(struct regulated_cpu *cpu)
{
	if (cpu->event)
		perf_event_release_kernel(cpu->event);
	cpu->event = NULL;
	/* What its handler may have asked for meanwhile. */
	irq_work_sync(&cpu->overflow);
	brake_stop(cpu);
}

void regulated_cpu_init(struct regulated_cpu *cpu)
{
	hrtimer_init(&cpu->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	cpu->timer.function = on_timer;
	cpu->overflow = IRQ_WORK_INIT_HARD(on_overflow);
	INIT_CSD(&cpu->look, on_look, cpu);
}
