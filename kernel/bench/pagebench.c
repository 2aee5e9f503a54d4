// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what single page allocations and frees cost, as the task that asks.
 *
 * For an emulated machine in which the time-stamp counter counts instructions
 * (QEMU, -icount shift=0) and that has one CPU. Knows nothing of colors and
 * uses exported functions only, so that the same module measures a stock
 * kernel: whoever writes the command has the colors that it was given.
 *
 *	pagebench/run	write a command, read what it found
 *	pagebench/free	first frame and number of frames of each block that was
 *			free after the last exhaust, in the largest zone that was had
 *
 *	burst PAGES ROUNDS SEED	allocate all, free all in any order; again
 *	churn PAGES STEPS SEED	of so many pages, replace any; again
 *	exhaust TRIES SEED	allocate all there is, and until so many have
 *				failed, of which each counts; give some back, so
 *				that whoever reads this can live
 *	hold LEFT SEED		allocate all there is, give any LEFT back
 *	halve SEED		allocate all there is, give any half back
 *	release			give back what is held
 *
 * Each allocation and each free is measured by itself, with interrupts off: or
 * the longest ones, which interrupts hit most often, would be missing. Those
 * that are to fail reclaim memory and sleep; of these the ones during which the
 * timer ticked or another task ran are dropped, and counted. They are tried in
 * the FIFO class, so that these are few.
 */
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/msr.h>

/*
 * What page faults ask for, without sleep; the same, to fail above the reserve;
 * and with all that is done before a failure that the caller is prepared for.
 */
#define GFP_WANTED	((GFP_HIGHUSER_MOVABLE & ~__GFP_DIRECT_RECLAIM) | \
			 __GFP_NOWARN)
#define GFP_SPARE	((GFP_HIGHUSER_MOVABLE & ~__GFP_RECLAIM) | \
			 __GFP_NOMEMALLOC | __GFP_NOWARN)
#define GFP_FAILING	(GFP_HIGHUSER_MOVABLE | __GFP_NORETRY | __GFP_NOWARN)

#define SAMPLES_MAX	(1U << 18)
#define BLOCKS_MAX	(1U << 17)
#define ROOM		256UL	/* pages */
#define TAKEN_MAX	4096UL	/* pages */

struct samples {
	u32 *counts;
	unsigned int nr;
	unsigned int dropped;
};

static DEFINE_MUTEX(lock);
static struct dentry *dir;
static struct samples allocs, frees;
static unsigned int failed;
static struct page *pinned;
static struct page **held;	/* by hold and halve */
static unsigned long nr_held;
static struct {
	unsigned long pfn;
	unsigned int order;
} *blocks;			/* free after exhaust */
static unsigned int nr_blocks;
static u64 overhead;		/* of a measurement of nothing */
static u64 state;		/* of the generator */

/* splitmix64 */
static u64 draw(void)
{
	u64 x = state += 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static void shuffle(struct page **pages, unsigned long nr)
{
	unsigned long i;

	for (i = nr; i > 1; i--) {
		struct page **other = &pages[draw() % i];

		swap(pages[i - 1], *other);
	}
}

struct moment {
	u64 tsc;
	unsigned long ticks, switches;
};

static __always_inline struct moment now(void)
{
	struct moment at = {
		.ticks = jiffies,
		.switches = current->nvcsw + current->nivcsw,
	};

	at.tsc = rdtsc();
	return at;
}

static void record(struct samples *samples, struct moment from)
{
	u64 tsc = rdtsc();

	if (from.ticks != jiffies ||
	    from.switches != current->nvcsw + current->nivcsw ||
	    samples->nr == SAMPLES_MAX)
		samples->dropped++;
	else
		samples->counts[samples->nr++] =
			min_t(u64, tsc - from.tsc - overhead, U32_MAX);
}

static noinline struct page *tried_alloc(gfp_t gfp)
{
	struct moment from = now();
	struct page *page = alloc_pages(gfp, 0);

	record(&allocs, from);
	return page;
}

static noinline struct page *measured_alloc(void)
{
	struct page *page;

	local_irq_disable();
	page = tried_alloc(GFP_WANTED);
	local_irq_enable();
	return page;
}

static noinline void measured_free(struct page *page)
{
	struct moment from;

	local_irq_disable();
	from = now();
	__free_pages(page, 0);
	record(&frees, from);
	local_irq_enable();
}

/* What two readings in a row differ by. */
static void calibrate(void)
{
	unsigned int i;

	overhead = U64_MAX;
	for (i = 0; i < 16; i++) {
		u64 from = rdtsc();

		overhead = min(overhead, rdtsc() - from);
	}
}

static void start(u64 seed)
{
	state = seed;
	failed = 0;
	allocs.nr = 0;
	allocs.dropped = 0;
	frees.nr = 0;
	frees.dropped = 0;
}

static int burst(unsigned long nr, unsigned long rounds, u64 seed)
{
	struct page **pages = vmalloc_array(nr, sizeof(*pages));
	unsigned long got, i;

	if (!pages)
		return -ENOMEM;
	start(seed);
	while (rounds--) {
		for (got = 0, i = 0; i < nr; i++) {
			pages[got] = measured_alloc();
			if (pages[got])
				got++;
			else
				failed++;
		}
		shuffle(pages, got);
		for (i = 0; i < got; i++)
			measured_free(pages[i]);
		cond_resched();
	}
	vfree(pages);
	return 0;
}

static int churn(unsigned long nr, unsigned long steps, u64 seed)
{
	struct page **pages = vmalloc_array(nr, sizeof(*pages));
	unsigned long i;

	if (!pages)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		pages[i] = alloc_pages(GFP_WANTED, 0);
	start(seed);
	while (steps--) {
		/* Some come, some go, at random, around so many. */
		for (i = draw() % 64; i; i--) {
			struct page **at = &pages[draw() % nr];

			if (*at)
				measured_free(*at);
			*at = NULL;
		}
		for (i = draw() % 64; i; i--) {
			struct page **at = &pages[draw() % nr];

			if (*at)
				continue;
			*at = measured_alloc();
			if (!*at)
				failed++;
		}
		cond_resched();
	}
	for (i = 0; i < nr; i++)
		if (pages[i])
			__free_pages(pages[i], 0);
	vfree(pages);
	return 0;
}

static void release(unsigned long left)
{
	while (nr_held > left)
		__free_pages(held[--nr_held], 0);
}

static int hold(unsigned long spare, bool half, u64 seed)
{
	unsigned long max = totalram_pages();
	struct page *page;

	if (held)
		return -EBUSY;
	held = vmalloc_array(max + TAKEN_MAX, sizeof(*held));
	if (!held)
		return -ENOMEM;
	start(seed);
	for (nr_held = 0; nr_held < max; nr_held++) {
		page = alloc_pages(GFP_SPARE, 0);
		/* Of colors, to the last page; of all memory, to the reserve. */
		if (!page && !half)
			page = alloc_pages(GFP_FAILING, 0);
		if (!page)
			break;
		held[nr_held] = page;
		cond_resched();
	}
	shuffle(held, nr_held);
	release(half ? nr_held / 2 : nr_held - min(nr_held, spare));
	return 0;
}

static void note_free(struct zone *zone)
{
	unsigned long pfn, end = zone_end_pfn(zone);

	nr_blocks = 0;
	/* Nobody else runs on the one CPU; blocks do not overlap. */
	for (pfn = zone->zone_start_pfn; pfn < end && nr_blocks < BLOCKS_MAX;) {
		struct page *page = pfn_to_page(pfn);
		unsigned int order = 0;

		if (PageBuddy(page)) {
			order = page_private(page);
			blocks[nr_blocks].pfn = pfn;
			blocks[nr_blocks++].order = order;
		}
		pfn += 1UL << order;
	}
}

static int exhaust(unsigned long tries, u64 seed)
{
	int err = hold(0, false, seed);
	struct zone *zone;
	unsigned long i;

	if (err)
		return err;
	if (!nr_held)
		return -ENOENT;
	/* Of the small zones, a part is kept for those who need just these. */
	zone = page_zone(held[0]);
	for (i = 1; i < nr_held; i++)
		if (zone_managed_pages(page_zone(held[i])) > zone_managed_pages(zone))
			zone = page_zone(held[i]);
	start(seed);
	/* What reclaim has others do is not to be done in between. */
	sched_set_fifo(current);
	/* What others free meanwhile is taken as well. */
	for (i = nr_held; failed < tries && nr_held < i + TAKEN_MAX;) {
		unsigned int nr = allocs.nr, dropped = allocs.dropped;
		struct page *page = tried_alloc(GFP_FAILING);

		if (!page) {
			failed++;
			continue;
		}
		held[nr_held++] = page;
		allocs.nr = nr;
		allocs.dropped = dropped;
	}
	sched_set_normal(current, 0);
	note_free(zone);
	release(nr_held - min(nr_held, ROOM));
	return 0;
}

static int command(char *text)
{
	unsigned long a, b;
	u64 seed;

	if (sscanf(text, "burst %lu %lu %llu", &a, &b, &seed) == 3)
		return burst(a, b, seed);
	if (sscanf(text, "churn %lu %lu %llu", &a, &b, &seed) == 3)
		return churn(a, b, seed);
	if (sscanf(text, "exhaust %lu %llu", &a, &seed) == 2)
		return exhaust(a, seed);
	if (sscanf(text, "hold %lu %llu", &a, &seed) == 2)
		return hold(a, false, seed);
	if (sscanf(text, "halve %llu", &seed) == 1)
		return hold(0, true, seed);
	if (strcmp(text, "release"))
		return -EINVAL;
	release(0);
	vfree(held);
	held = NULL;
	return 0;
}

static ssize_t run_write(struct file *file, const char __user *from,
			 size_t count, loff_t *at)
{
	char *text = memdup_user_nul(from, min_t(size_t, count, PAGE_SIZE));
	int err;

	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&lock);
	err = command(strim(text));
	mutex_unlock(&lock);
	kfree(text);
	return err ?: count;
}

static int by_size(const void *a, const void *b)
{
	return *(const u32 *)a < *(const u32 *)b ? -1 : *(const u32 *)a > *(const u32 *)b;
}

static void show(struct seq_file *file, const char *name, struct samples *samples)
{
	u64 sum = 0;
	unsigned int i;

	if (!samples->nr)
		return;
	sort(samples->counts, samples->nr, sizeof(u32), by_size, NULL);
	for (i = 0; i < samples->nr; i++)
		sum += samples->counts[i];
	/* The average in hundredths. */
	seq_printf(file, "%s samples %u dropped %u average %llu minimum %u median %u p999 %u maximum %u\n",
		   name, samples->nr, samples->dropped,
		   div_u64(sum * 100 + samples->nr / 2, samples->nr),
		   samples->counts[0], samples->counts[samples->nr / 2],
		   samples->counts[samples->nr - 1 - samples->nr / 1000],
		   samples->counts[samples->nr - 1]);
}

static int run_show(struct seq_file *file, void *unused)
{
	mutex_lock(&lock);
	show(file, "alloc", &allocs);
	show(file, "free", &frees);
	seq_printf(file, "failed %u held %lu overhead %llu pinned %llu\n",
		   failed, nr_held, overhead, (u64)page_to_phys(pinned));
	mutex_unlock(&lock);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_operations = {
	.owner = THIS_MODULE,
	.open = run_open,
	.read = seq_read,
	.write = run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int free_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	mutex_lock(&lock);
	for (i = 0; i < nr_blocks; i++)
		seq_printf(file, "%lu %lu\n", blocks[i].pfn,
			   1UL << blocks[i].order);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(free);

/*
 * Keeps a page in a piece of memory that is neither the first nor the last, so
 * that this piece cannot be taken out of use.
 */
static int pin(void)
{
	unsigned long total = totalram_pages(), pfn;
	struct page *tried = NULL, *page;

	while (!pinned) {
		page = alloc_pages(GFP_KERNEL | __GFP_NORETRY, MAX_PAGE_ORDER);
		if (!page)
			break;
		pfn = page_to_pfn(page);
		if (pfn > total / 4 && pfn < total / 2) {
			pinned = page;
			continue;
		}
		set_page_private(page, (unsigned long)tried);
		tried = page;
	}
	while (tried) {
		page = tried;
		tried = (struct page *)page_private(page);
		set_page_private(page, 0);
		__free_pages(page, MAX_PAGE_ORDER);
	}
	return pinned ? 0 : -ENOMEM;
}

static int __init pagebench_init(void)
{
	int err = pin();

	if (err)
		return err;
	allocs.counts = vmalloc_array(SAMPLES_MAX, sizeof(u32));
	frees.counts = vmalloc_array(SAMPLES_MAX, sizeof(u32));
	blocks = vmalloc_array(BLOCKS_MAX, sizeof(*blocks));
	if (!allocs.counts || !frees.counts || !blocks) {
		__free_pages(pinned, MAX_PAGE_ORDER);
		vfree(blocks);
		vfree(allocs.counts);
		vfree(frees.counts);
		return -ENOMEM;
	}
	calibrate();
	dir = debugfs_create_dir("pagebench", NULL);
	debugfs_create_file("run", 0600, dir, NULL, &run_operations);
	debugfs_create_file("free", 0400, dir, NULL, &free_fops);
	return 0;
}
module_init(pagebench_init);

static void __exit pagebench_exit(void)
{
	debugfs_remove(dir);
	__free_pages(pinned, MAX_PAGE_ORDER);
	release(0);
	vfree(held);
	vfree(blocks);
	vfree(allocs.counts);
	vfree(frees.counts);
}
module_exit(pagebench_exit);

MODULE_DESCRIPTION("Instructions per page allocation and free");
MODULE_LICENSE("GPL");
