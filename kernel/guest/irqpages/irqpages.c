// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes pages in interrupts and in softirqs, while any task runs.
 *
 * On each CPU a timer of each context takes a page that user space might have
 * taken, and keeps the latest of them: what was taken before is given back in
 * that context as well. Knows nothing of colors, and works on any kernel.
 *
 *	irqpages/run	a number of pages that each timer keeps; all begin anew
 *			0: all timers have ended, and no page is kept
 *	irqpages/pages	for each page that is kept "CONTEXT CPU FRAME COMM", with
 *			the context it was taken in, and the name of the task
 *			that was interrupted
 *	irqpages/count	for each timer "CONTEXT CPU TAKEN FAILED ELSEWHERE": how
 *			often it had a page, none, and was in another context
 *	irqpages/ask	"ORDER KIND" takes a block in the writing process and gives
 *			it back, or fails with ENOMEM; KIND says what the caller
 *			would do without: "atomic" cannot wait for one, "noretry"
 *			waits but not long, "waits" does not say that it may fail,
 *			"nofail" may not
 *
 * With the parameter order=N it takes blocks of 2^N pages.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* What a page fault asks for, as far as it may be asked for here. */
#define GFP_TAKEN	(GFP_ATOMIC | __GFP_HIGHMEM | __GFP_MOVABLE | \
			 __GFP_HARDWALL | __GFP_NOWARN)
/* The same of a process. */
#define GFP_WAITS	(GFP_HIGHUSER_MOVABLE | __GFP_NOWARN)
#define KEPT_MAX	4096U
#define PERIOD_NS	(5 * NSEC_PER_MSEC)

enum context { HARD, SOFT, CONTEXTS };

static const char * const context_names[CONTEXTS] = {
	[HARD] = "hard",
	[SOFT] = "soft",
};

struct taken {
	struct page *page;
	char comm[TASK_COMM_LEN];
};

/**
 * struct taker - what takes pages on one CPU in one context
 * @timer: its timer
 * @context: the context it is to run in
 * @lock: protects what follows
 * @ring: the pages that it keeps, the oldest at @taken modulo @room
 * @room: length of @ring
 * @taken: pages it had since the beginning
 * @failed: how often it had none
 * @elsewhere: how often it ran in another context
 */
struct taker {
	struct hrtimer timer;
	enum context context;
	raw_spinlock_t lock;
	struct taken *ring;
	unsigned int room;
	unsigned long taken;
	unsigned long failed;
	unsigned long elsewhere;
};

static unsigned int order;
module_param(order, uint, 0444);
MODULE_PARM_DESC(order, "pages that are taken at a time, as a power of two");

static DEFINE_PER_CPU(struct taker[CONTEXTS], takers);
static DEFINE_MUTEX(lock);
static struct dentry *dir;

static bool is_right(enum context context)
{
	return context == HARD ? in_hardirq() :
				 !in_hardirq() && in_serving_softirq();
}

/* The page that has to go, or NULL. */
static struct page *keep(struct taker *taker, struct page *page)
{
	struct taken *taken;
	struct page *old = NULL;
	unsigned long flags;

	raw_spin_lock_irqsave(&taker->lock, flags);
	if (!is_right(taker->context)) {
		taker->elsewhere++;
		old = page;
	} else if (!page) {
		taker->failed++;
	} else {
		taken = &taker->ring[taker->taken++ % taker->room];
		old = taken->page;
		taken->page = page;
		memcpy(taken->comm, current->comm, sizeof(taken->comm));
	}
	raw_spin_unlock_irqrestore(&taker->lock, flags);
	return old;
}

static enum hrtimer_restart take(struct hrtimer *timer)
{
	struct taker *taker = container_of(timer, struct taker, timer);
	struct page *old = keep(taker, alloc_pages(GFP_TAKEN, order));

	if (old)
		__free_pages(old, order);
	/* A machine that is late leaves some out. */
	hrtimer_forward_now(timer, ns_to_ktime(PERIOD_NS));
	return HRTIMER_RESTART;
}

static void start_here(void *unused)
{
	struct taker *here = this_cpu_ptr(takers);

	hrtimer_start(&here[HARD].timer, ns_to_ktime(PERIOD_NS),
		      HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&here[SOFT].timer, ns_to_ktime(PERIOD_NS),
		      HRTIMER_MODE_REL_PINNED_SOFT);
}

static void stop_one(struct taker *taker)
{
	unsigned int i;

	hrtimer_cancel(&taker->timer);
	for (i = 0; i < taker->room; i++)
		if (taker->ring[i].page)
			__free_pages(taker->ring[i].page, order);
	kvfree(taker->ring);
	taker->ring = NULL;
	taker->room = 0;
}

static void stop(void)
{
	unsigned int cpu, context;

	for_each_possible_cpu(cpu)
		for (context = 0; context < CONTEXTS; context++)
			stop_one(&per_cpu(takers, cpu)[context]);
}

static int prepare(struct taker *taker, unsigned int room)
{
	taker->ring = kvcalloc(room, sizeof(*taker->ring), GFP_KERNEL);
	if (!taker->ring)
		return -ENOMEM;
	taker->room = room;
	taker->taken = 0;
	taker->failed = 0;
	taker->elsewhere = 0;
	return 0;
}

static int start(unsigned int room)
{
	unsigned int cpu, context;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		for (context = 0; context < CONTEXTS; context++) {
			if (prepare(&per_cpu(takers, cpu)[context], room)) {
				cpus_read_unlock();
				stop();
				return -ENOMEM;
			}
		}
	}
	on_each_cpu(start_here, NULL, 1);
	cpus_read_unlock();
	return 0;
}

static ssize_t run_write(struct file *file, const char __user *from,
			 size_t count, loff_t *at)
{
	unsigned int room;
	int err = kstrtouint_from_user(from, count, 0, &room);

	if (err)
		return err;
	if (room > KEPT_MAX)
		return -EINVAL;
	mutex_lock(&lock);
	stop();
	err = room ? start(room) : 0;
	mutex_unlock(&lock);
	return err ?: count;
}

static const struct file_operations run_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

/* What a process asks for that would do so without a block; 0: no such word. */
static gfp_t gfp_of(const char *kind)
{
	if (!strcmp(kind, "atomic"))
		return GFP_TAKEN;
	if (!strcmp(kind, "noretry"))
		return GFP_WAITS | __GFP_NORETRY;
	if (!strcmp(kind, "waits"))
		return GFP_WAITS;
	if (!strcmp(kind, "nofail"))
		return GFP_WAITS | __GFP_NOFAIL;
	return 0;
}

static ssize_t ask_write(struct file *file, const char __user *from,
			 size_t count, loff_t *at)
{
	char text[32] = "", kind[16];
	unsigned int asked;
	struct page *page;
	gfp_t gfp;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, count))
		return -EFAULT;
	if (sscanf(text, "%u %15s", &asked, kind) != 2)
		return -EINVAL;
	gfp = gfp_of(kind);
	if (!gfp || asked > MAX_PAGE_ORDER)
		return -EINVAL;
	page = alloc_pages(gfp, asked);
	if (!page)
		return -ENOMEM;
	__free_pages(page, asked);
	return count;
}

static const struct file_operations ask_operations = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = ask_write,
};

/* One at a time, so that printing does not keep interrupts waiting. */
static void show_pages(struct seq_file *file, unsigned int cpu,
		       struct taker *taker)
{
	struct taken taken;
	unsigned int i;

	for (i = 0; i < taker->room; i++) {
		raw_spin_lock_irq(&taker->lock);
		taken = taker->ring[i];
		raw_spin_unlock_irq(&taker->lock);
		if (taken.page)
			seq_printf(file, "%s %u %lu %s\n",
				   context_names[taker->context], cpu,
				   page_to_pfn(taken.page), taken.comm);
	}
}

static int pages_show(struct seq_file *file, void *unused)
{
	unsigned int cpu, context;

	mutex_lock(&lock);
	for_each_online_cpu(cpu)
		for (context = 0; context < CONTEXTS; context++)
			show_pages(file, cpu, &per_cpu(takers, cpu)[context]);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pages);

static int count_show(struct seq_file *file, void *unused)
{
	unsigned int cpu, context;

	mutex_lock(&lock);
	for_each_online_cpu(cpu) {
		for (context = 0; context < CONTEXTS; context++) {
			struct taker *taker = &per_cpu(takers, cpu)[context];

			seq_printf(file, "%s %u %lu %lu %lu\n",
				   context_names[context], cpu,
				   READ_ONCE(taker->taken),
				   READ_ONCE(taker->failed),
				   READ_ONCE(taker->elsewhere));
		}
	}
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(count);

static void init_one(struct taker *taker, enum context context)
{
	hrtimer_init(&taker->timer, CLOCK_MONOTONIC,
		     context == HARD ? HRTIMER_MODE_REL_PINNED_HARD :
				       HRTIMER_MODE_REL_PINNED_SOFT);
	taker->timer.function = take;
	taker->context = context;
	raw_spin_lock_init(&taker->lock);
}

static int __init irqpages_init(void)
{
	unsigned int cpu, context;

	for_each_possible_cpu(cpu)
		for (context = 0; context < CONTEXTS; context++)
			init_one(&per_cpu(takers, cpu)[context], context);
	dir = debugfs_create_dir("irqpages", NULL);
	debugfs_create_file("run", 0200, dir, NULL, &run_operations);
	debugfs_create_file("pages", 0400, dir, NULL, &pages_fops);
	debugfs_create_file("count", 0400, dir, NULL, &count_fops);
	debugfs_create_file("ask", 0200, dir, NULL, &ask_operations);
	return 0;
}
module_init(irqpages_init);

static void __exit irqpages_exit(void)
{
	debugfs_remove(dir);
	stop();
}
module_exit(irqpages_exit);

MODULE_DESCRIPTION("Pages that interrupts take");
MODULE_LICENSE("GPL");
