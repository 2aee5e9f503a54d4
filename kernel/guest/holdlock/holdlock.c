// SPDX-License-Identifier: GPL-2.0-only
/*
 * Holds the lock of an address space, as a process does that waits for the
 * daemon of a file system that never answers.
 *
 *	holdlock/pid	the number of a process: a thread of the kernel has taken
 *			its lock for writing when the write returns, and keeps it
 *			0: it has given it back
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

static DEFINE_MUTEX(lock);
static DECLARE_COMPLETION(held);
static struct task_struct *holder;
static struct mm_struct *mm;
static struct dentry *dir;

static int hold(void *unused)
{
	mmap_write_lock(mm);
	complete(&held);
	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	mmap_write_unlock(mm);
	return 0;
}

static void give_back(void)
{
	if (!holder)
		return;
	kthread_stop(holder);
	holder = NULL;
	mmput(mm);
}

static int take(pid_t number)
{
	struct pid *pid = find_get_pid(number);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	struct task_struct *thread;

	put_pid(pid);
	if (!task)
		return -ESRCH;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return -ESRCH;
	reinit_completion(&held);
	thread = kthread_run(hold, NULL, "holdlock");
	if (IS_ERR(thread)) {
		mmput(mm);
		return PTR_ERR(thread);
	}
	holder = thread;
	wait_for_completion(&held);
	return 0;
}

static int pid_set(void *unused, u64 number)
{
	int err = 0;

	mutex_lock(&lock);
	give_back();
	if (number)
		err = take(number);
	mutex_unlock(&lock);
	return err;
}
DEFINE_DEBUGFS_ATTRIBUTE(pid_fops, NULL, pid_set, "%llu\n");

static int __init holdlock_init(void)
{
	dir = debugfs_create_dir("holdlock", NULL);
	debugfs_create_file_unsafe("pid", 0200, dir, NULL, &pid_fops);
	return 0;
}

static void __exit holdlock_exit(void)
{
	debugfs_remove(dir);
	give_back();
}

module_init(holdlock_init);
module_exit(holdlock_exit);
MODULE_DESCRIPTION("holds the lock of an address space");
MODULE_LICENSE("GPL");
