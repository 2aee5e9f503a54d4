// SPDX-License-Identifier: GPL-2.0-only
/*
 * The brake: a kernel thread of each regulated CPU that holds it, halted, while
 * its budget is used up.
 *
 * Nothing but the kernel's own stopper, interrupts and what these do may run
 * meanwhile. A SCHED_FIFO thread would not do: since 6.12 the fair server gives
 * ordinary tasks 50 ms of each second at its cost, and SCHED_DEADLINE tasks are
 * above it anyway. So the brake has the priority of schedutil's threads, which
 * is above all deadlines and reserves no bandwidth. It gives the CPU back in
 * every period in which the CPU gets a grant: a group of one CPU gets one in
 * each.
 */
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <uapi/linux/sched/types.h>

#include "memguard.h"

/* SCHED_FLAG_SUGOV of kernel/sched/sched.h. */
#define ABOVE_ALL_DEADLINES 0x10000000

/* 36 years, an eighth of what deadlines can be apart. */
#define LONG_PAST_NS (1ull << 60)

/* Not on another CPU, to which the kernel moves it when its own goes. */
static bool holds(struct regulated_cpu *cpu)
{
	return READ_ONCE(cpu->is_throttled) && raw_smp_processor_id() == cpu->cpu;
}

#if defined(CONFIG_X86)
/* Enables interrupts and halts in one, so that none is missed between. */
static void hold(struct regulated_cpu *cpu)
{
	local_irq_disable();
	if (holds(cpu) && !need_resched())
		safe_halt();
	else
		local_irq_enable();
}
#elif defined(CONFIG_ARM64)
/* WFE, until the word or the event stream wakes it up. */
static void hold(struct regulated_cpu *cpu)
{
	smp_cond_load_relaxed(&cpu->is_throttled, !VAL || need_resched());
}
#elif defined(CONFIG_RISCV)
#include <asm/processor.h>
/* An interrupt that is pending ends the wait, whether it is enabled or not. */
static void hold(struct regulated_cpu *cpu)
{
	local_irq_disable();
	if (holds(cpu) && !need_resched())
		wait_for_interrupt();
	local_irq_enable();
}
#else
static void hold(struct regulated_cpu *cpu)
{
	cpu_relax();
}
#endif

static int brake(void *data)
{
	struct regulated_cpu *cpu = data;

	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		if (!holds(cpu)) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		hold(cpu);
		cond_resched();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

int brake_start(struct regulated_cpu *cpu)
{
	/*
	 * The runtime is not used. The deadline is relative, and wraps around:
	 * it is long past when the thread wakes up, so it is the earliest of
	 * all, also of tasks that have missed theirs on a CPU that was held.
	 */
	static const struct sched_attr above = {
		.size = sizeof(struct sched_attr),
		.sched_policy = SCHED_DEADLINE,
		.sched_flags = ABOVE_ALL_DEADLINES,
		.sched_runtime = NSEC_PER_MSEC,
		.sched_deadline = -LONG_PAST_NS,
		.sched_period = -LONG_PAST_NS,
	};
	static const struct sched_attr fifo = {
		.size = sizeof(struct sched_attr),
		.sched_policy = SCHED_FIFO,
		.sched_priority = MAX_RT_PRIO - 1,
	};
	struct task_struct *task = kthread_create_on_cpu(brake, cpu, cpu->cpu, "memtint_guard/%u");
	int error;

	if (IS_ERR(task))
		return PTR_ERR(task);
	error = sched_setattr_nocheck(task, BRAKE_IS_ABOVE_ALL ? &above : &fifo);
	if (error) {
		kthread_stop(task);
		return error;
	}
	cpu->brake = task;
	wake_up_process(task);
	return 0;
}

void brake_stop(struct regulated_cpu *cpu)
{
	if (cpu->brake)
		kthread_stop(cpu->brake);
	cpu->brake = NULL;
}
