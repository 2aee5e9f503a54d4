// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/memtint-guard: a process that opens it for writing, and writes a
 * configuration, regulates the machine until the file is closed, however the
 * process ends. Any other may read. README.md describes both.
 */
#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "memguard.h"

/* An observation counts for half. */
#define EWMA_SHIFT 1

/* Between the write and the first period, and before a change is in force. */
#define START_NS	(5 * NSEC_PER_MSEC)
#define CHANGE_NS	(5 * NSEC_PER_MSEC)

/*
 * The one machine. The first lock serializes configuration and release, and is
 * taken before all others, never by the callbacks of CPU hotplug. The second
 * keeps these out while CPUs begin and end; it is taken behind the lock of CPU
 * hotplug. Counters are made and released under the first alone.
 */
static DEFINE_MUTEX(configuration_lock);
static DEFINE_MUTEX(machine_lock);
static struct machine *the_machine;

static void lock_machine(void)
{
	cpus_read_lock();
	mutex_lock(&machine_lock);
}

static void unlock_machine(void)
{
	mutex_unlock(&machine_lock);
	cpus_read_unlock();
}

/* An open file: the machine that it regulates, or NULL for one that only reads. */
struct guard_file {
	struct machine *machine;
	struct request_text refused;	/* why a write was; wrong is NULL if none was */
};

static void alarm(struct irq_work *work)
{
	struct machine *machine = container_of(work, struct machine, alarm);

	wake_up_interruptible_poll(&machine->readers, EPOLLIN | EPOLLPRI);
}

static bool is_running(const struct machine *machine)
{
	return machine->cpus;
}

static int refuse(struct guard_file *file, int error, const char *wrong)
{
	file->refused.line = 0;
	file->refused.wrong = wrong;
	return error;
}

/* All CPUs run before any counter is released, which takes longer. */
static void end_all(struct machine *machine)
{
	struct regulated_cpu *cpus = machine->cpus;
	u32 core;

	lock_machine();
	for (core = 0; core < machine->request.nr_cores; core++)
		regulated_cpu_release(&cpus[core]);
	for (core = 0; core < machine->request.nr_cores; core++)
		regulated_cpu_stop(&cpus[core]);
	machine->cpus = NULL;
	unlock_machine();
	for (core = 0; core < machine->request.nr_cores; core++)
		regulated_cpu_dispose(&cpus[core]);
	kvfree(cpus);
}

/* The state machine at its beginning. */
static void set_up(struct machine *machine, struct regulated_cpu *cpus)
{
	const struct request *request = &machine->request;
	u32 index;

	memset(&machine->shared, 0, sizeof(machine->shared));
	machine->shared.reclaim_step = request->step;
	machine->shared.sharing = request->spare ? GUARD_SPARE : GUARD_NO_SHARING;
	for (index = 0; index < request->nr_groups; index++) {
		const struct request_group *asked = &request->groups[index];
		u32 reservation = guard_reservation(asked->budget, asked->soft ? GUARD_SOFT : GUARD_HARD);

		machine->groups[index] = (struct guard_group){
			.before = reservation,
			.after = reservation,
			.quantum = asked->quantum,
			.is_single = asked->nr_cores == 1,
		};
	}
	for (index = 0; index < request->nr_cores; index++) {
		const struct request_core *asked = &request->cores[index];
		const struct request_group *group = &request->groups[asked->group];
		struct regulated_cpu *cpu = &cpus[index];

		regulated_cpu_init(cpu);
		cpu->machine = machine;
		cpu->group = &machine->groups[asked->group];
		cpu->cpu = asked->cpu;
		cpu->quantum = group->quantum;
		cpu->core.shift = EWMA_SHIFT;
		cpu->core.donates = group->first_core == index && group->soft;
	}
}

static const char *why_not(int error)
{
	switch (error) {
	case -ENOENT:
	case -EOPNOTSUPP:
		return "the event does not exist on this CPU, or does not overflow";
	case -EBUSY:
		return "the counters of a CPU are taken by others";
	default:
		return "a CPU cannot be regulated";
	}
}

static int begin_all(struct guard_file *file)
{
	struct machine *machine = file->machine;
	const struct request *request = &machine->request;
	struct regulated_cpu *cpus;
	u32 core;
	int error = 0;

	for (core = 0; core < request->nr_cores; core++) {
		if (request->cores[core].cpu >= nr_cpu_ids || !cpu_online(request->cores[core].cpu))
			return refuse(file, -ENXIO, "a CPU is not online");
	}
	cpus = kvcalloc(request->nr_cores, sizeof(*cpus), GFP_KERNEL);
	if (!cpus)
		return refuse(file, -ENOMEM, "there is no memory");
	set_up(machine, cpus);
	for (core = 0; core < request->nr_cores && !error; core++)
		error = regulated_cpu_prepare(&cpus[core]);
	lock_machine();
	machine->cpus = cpus;
	machine->start = ktime_add_ns(ktime_get(), START_NS);
	for (core = 0; core < request->nr_cores && !error; core++)
		error = regulated_cpu_begin(&cpus[core]);
	unlock_machine();
	if (!error)
		return 0;
	end_all(machine);
	return refuse(file, error, why_not(error));
}

static void forget_here(void *data)
{
	struct regulated_cpu *cpu = data;

	cpu->sums.used_max = 0;
	cpu->sums.beyond_max = 0;
	cpu->sums.late_ns_max = 0;
}

static int forget(struct machine *machine)
{
	u32 core;

	for (core = 0; core < machine->request.nr_cores; core++) {
		struct regulated_cpu *cpu = &machine->cpus[core];

		/* Nothing else writes the sums of a CPU that is offline. */
		if (smp_call_function_single(cpu->cpu, forget_here, cpu, 1))
			forget_here(cpu);
	}
	return 0;
}

/* In force soon, on all CPUs in the same period. */
static int reserve(struct guard_file *file, const struct request_change *change)
{
	struct machine *machine = file->machine;
	struct request *request = &machine->request;
	struct request_group *group = &request->groups[change->group];
	u32 ahead = 2 + div64_u64(CHANGE_NS, request->period_ns), before = group->budget;
	u32 reservation = guard_reservation(change->budget, change->soft ? GUARD_SOFT : GUARD_HARD);

	if (change->group >= request->nr_groups)
		return refuse(file, -EINVAL, "there is no such group");
	if (change->soft && !group->soft)
		return refuse(file, -EINVAL, "a group that was hard at first cannot become soft");
	file->refused.line = 0;
	group->budget = change->budget;
	if (!request_is_sound(&file->refused, request)) {
		group->budget = before;
		return -EINVAL;
	}
	if (!guard_set_reservation(&machine->shared, &machine->groups[change->group], machine_period(machine) + ahead,
				   reservation)) {
		group->budget = before;
		return refuse(file, -EAGAIN, "the period in which it was to begin has begun");
	}
	return 0;
}

static int change(struct guard_file *file, const struct request_change *change)
{
	int error;

	lock_machine();
	error = change->forget ? forget(file->machine) : reserve(file, change);
	unlock_machine();
	return error;
}

static int write_text(struct guard_file *file, const char *buffer, size_t length)
{
	struct machine *machine = file->machine;
	struct request_text text = { .at = buffer, .end = buffer + length, .line = 1 };
	struct request_change changed;
	bool accepted;

	if (is_running(machine))
		accepted = request_read_change(&text, &changed);
	else
		accepted = request_read(&text, &machine->request);
	file->refused = text;
	if (!accepted)
		return -EINVAL;
	return is_running(machine) ? change(file, &changed) : begin_all(file);
}

static ssize_t device_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct guard_file *mine = ((struct seq_file *)file->private_data)->private;
	char *buffer;
	int error;

	if (length > REQUEST_BYTES_MAX)
		return -EFBIG;
	buffer = memdup_user_nul(from, length);
	if (IS_ERR(buffer))
		return PTR_ERR(buffer);
	mutex_lock(&configuration_lock);
	error = mine->machine ? write_text(mine, buffer, length) : -EBADF;
	mutex_unlock(&configuration_lock);
	kfree(buffer);
	return error ? error : (ssize_t)length;
}

/* On its CPU: sums are of one moment. */
struct copied {
	struct regulated_cpu *cpu;
	struct cpu_sums sums;
	u32 is_throttled;
};

static void copy_here(void *data)
{
	struct copied *copied = data;

	regulated_cpu_settle(copied->cpu);
	copied->sums = copied->cpu->sums;
	copied->is_throttled = copied->cpu->is_throttled;
}

static void show_cpu(struct seq_file *out, struct regulated_cpu *cpu, u32 core)
{
	struct copied copied = { .cpu = cpu };
	const struct cpu_sums *sums = &copied.sums;
	bool is_online = cpu->is_on && !smp_call_function_single(cpu->cpu, copy_here, &copied, 1);
	int by;

	if (!is_online)
		copied.sums = cpu->sums;
	seq_printf(out, "core %u group %u cpu %u online %d throttled %u", core,
		   cpu->machine->request.cores[core].group, cpu->cpu, is_online, copied.is_throttled);
#define SHOW(name) seq_printf(out, " " #name " %llu", sums->name)
	SHOW(periods);
	SHOW(idle_periods);
	SHOW(used);
	SHOW(used_max);
	SHOW(beyond_max);
	SHOW(granted);
	SHOW(donated);
	SHOW(returned);
	SHOW(reclaimed);
	SHOW(throttled_periods);
	SHOW(throttled_ns);
	SHOW(underruns);
	SHOW(shortfall);
	SHOW(reclaims);
	SHOW(overflows);
	SHOW(late_periods);
	SHOW(late_ns_max);
	SHOW(timer_ns);
	SHOW(overflow_ns);
#undef SHOW
	for (by = 0; by < NR_BROKEN; by++)
		seq_printf(out, " broken_%s %llu", broken_names[by], sums->broken[by]);
	seq_printf(out, " latest_broken %s %u %llu %llu\n", broken_names[sums->broken_by], sums->broken_period,
		   sums->broken_used, sums->broken_allowed);
}

static int device_show(struct seq_file *out, void *unused)
{
	struct guard_file *file = out->private;
	struct machine *machine;
	u32 core;

	lock_machine();
	machine = the_machine && is_running(the_machine) ? the_machine : NULL;
	seq_printf(out, "memtint-guard 1\nbrake %s\nrunning %d\n", BRAKE_IS_ABOVE_ALL ? "deadline" : "fifo", !!machine);
	if (file->refused.wrong && file->refused.line)
		seq_printf(out, "refused line %u: %s\n", file->refused.line, file->refused.wrong);
	else if (file->refused.wrong)
		seq_printf(out, "refused %s\n", file->refused.wrong);
	if (machine) {
		if (file->machine)
			WRITE_ONCE(machine->told, atomic64_read(&machine->broken));
		seq_printf(out, "period %u\n", machine_period(machine));
		for (core = 0; core < machine->request.nr_cores; core++)
			show_cpu(out, &machine->cpus[core], core);
	}
	unlock_machine();
	return 0;
}

static __poll_t device_poll(struct file *file, poll_table *table)
{
	struct guard_file *mine = ((struct seq_file *)file->private_data)->private;
	struct machine *machine = mine->machine;

	if (!machine)
		return EPOLLERR;
	poll_wait(file, &machine->readers, table);
	return (u64)atomic64_read(&machine->broken) != READ_ONCE(machine->told) ? EPOLLIN | EPOLLPRI : 0;
}

static void follow_hotplug(struct work_struct *work);

/* There is one machine, and one file that regulates it. */
static int take_machine(struct guard_file *mine)
{
	int error = -EBUSY;

	mine->machine = kvzalloc(sizeof(*mine->machine), GFP_KERNEL);
	if (!mine->machine)
		return -ENOMEM;
	init_waitqueue_head(&mine->machine->readers);
	init_irq_work(&mine->machine->alarm, alarm);
	INIT_DELAYED_WORK(&mine->machine->hotplug, follow_hotplug);
	mutex_lock(&machine_lock);
	if (!the_machine) {
		the_machine = mine->machine;
		error = 0;
	}
	mutex_unlock(&machine_lock);
	if (error)
		kvfree(mine->machine);
	return error;
}

static void give_machine_back(struct machine *machine)
{
	mutex_lock(&configuration_lock);
	if (is_running(machine))
		end_all(machine);
	lock_machine();
	the_machine = NULL;
	unlock_machine();
	mutex_unlock(&configuration_lock);
	cancel_delayed_work_sync(&machine->hotplug);
	irq_work_sync(&machine->alarm);
	kvfree(machine);
}

static int device_open(struct inode *inode, struct file *file)
{
	struct guard_file *mine;
	int error = 0;

	if (!perfmon_capable() || !capable(CAP_SYS_NICE))
		return -EPERM;
	mine = kzalloc(sizeof(*mine), GFP_KERNEL);
	if (!mine)
		return -ENOMEM;
	if (file->f_mode & FMODE_WRITE)
		error = take_machine(mine);
	if (error) {
		kfree(mine);
		return error;
	}
	/* Where misc_open() has left the device. */
	file->private_data = NULL;
	error = single_open(file, device_show, mine);
	if (error) {
		if (mine->machine)
			give_machine_back(mine->machine);
		kfree(mine);
	}
	return error;
}

static int device_release(struct inode *inode, struct file *file)
{
	struct guard_file *mine = ((struct seq_file *)file->private_data)->private;

	if (mine->machine)
		give_machine_back(mine->machine);
	kfree(mine);
	return single_release(inode, file);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.read = seq_read,
	.write = device_write,
	.llseek = seq_lseek,
	.poll = device_poll,
	.release = device_release,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "memtint-guard",
	.fops = &operations,
	.mode = 0600,
};

static struct regulated_cpu *regulated(unsigned int number)
{
	u32 core;

	if (!the_machine || !is_running(the_machine))
		return NULL;
	for (core = 0; core < the_machine->request.nr_cores; core++) {
		if (the_machine->cpus[core].cpu == number)
			return &the_machine->cpus[core];
	}
	return NULL;
}

/* A CPU that was away; false if it is to be tried again. */
static bool resume(struct regulated_cpu *cpu)
{
	int error;

	regulated_cpu_dispose(cpu);
	if (!cpu_online(cpu->cpu))
		return true;
	error = regulated_cpu_prepare(cpu);
	lock_machine();
	if (!error)
		error = regulated_cpu_begin(cpu);
	if (error)
		regulated_cpu_broken(cpu, BROKEN_COUNTER, 0, 0);
	unlock_machine();
	if (error)
		regulated_cpu_dispose(cpu);
	return !error;
}

/*
 * Counters cannot be made or released by the callbacks below: perf takes the
 * lock of CPU hotplug for some. So the CPU that comes is regulated a moment
 * later, and its promise was broken when it went. Without a counter, it is
 * tried again, and broken again, each second.
 */
static void follow_hotplug(struct work_struct *work)
{
	struct machine *machine = container_of(to_delayed_work(work), struct machine, hotplug);
	bool again = false;
	u32 core;

	mutex_lock(&configuration_lock);
	for (core = 0; is_running(machine) && core < machine->request.nr_cores; core++) {
		if (!machine->cpus[core].is_on)
			again |= !resume(&machine->cpus[core]);
	}
	if (again)
		schedule_delayed_work(&machine->hotplug, HZ);
	mutex_unlock(&configuration_lock);
}

static int cpu_comes(unsigned int number)
{
	mutex_lock(&machine_lock);
	if (regulated(number))
		mod_delayed_work(system_wq, &the_machine->hotplug, 0);
	mutex_unlock(&machine_lock);
	return 0;
}

static int cpu_goes(unsigned int number)
{
	struct regulated_cpu *cpu;

	mutex_lock(&machine_lock);
	cpu = regulated(number);
	if (cpu && cpu->is_on) {
		regulated_cpu_stop(cpu);
		regulated_cpu_broken(cpu, BROKEN_OFFLINE, 0, 0);
		mod_delayed_work(system_wq, &the_machine->hotplug, 0);
	}
	mutex_unlock(&machine_lock);
	return 0;
}

static int hotplug_state;

static int __init device_init(void)
{
	int error;

	hotplug_state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "memtint/guard:online", cpu_comes, cpu_goes);
	if (hotplug_state < 0)
		return hotplug_state;
	error = misc_register(&device);
	if (error)
		cpuhp_remove_state_nocalls(hotplug_state);
	return error;
}
module_init(device_init);

static void __exit device_exit(void)
{
	misc_deregister(&device);
	cpuhp_remove_state_nocalls(hotplug_state);
}
module_exit(device_exit);

MODULE_DESCRIPTION("Memory-bandwidth regulation: MemGuard's algorithm with a bound that is checked");
MODULE_LICENSE("GPL");
