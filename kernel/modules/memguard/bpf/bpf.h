/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* BPF definitions that guard.h requires, and the helpers of the kernel (numbers of linux/bpf.h). */
#ifndef MEMTINT_GUARD_BPF_H
#define MEMTINT_GUARD_BPF_H

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define true	1
#define false	0
#define NULL	((void *)0)

#define section(name)	__attribute__((section(name), used))
#define inlined		static inline __attribute__((always_inline))
/* The verifier looks at a function of this kind once, with any arguments. */
#define verified	__attribute__((noinline))

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static s64 (*const bpf_perf_event_read_value)(void *map, u64 index, void *reading, u32 size) = (void *)55;
static s64 (*const bpf_perf_prog_read_value)(void *context, void *reading, u32 size) = (void *)56;
static u64 (*const bpf_get_attach_cookie)(void *context) = (void *)174;
static s64 (*const bpf_ringbuf_output)(void *ring, void *record, u64 size, u64 flags) = (void *)130;

/* Of linux/bpf.h. */
struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

static inline u64 guard_load(const u64 *word)
{
	return *(const volatile u64 *)word;
}

static inline u64 guard_exchange(u64 *word, u64 old, u64 new)
{
	return __sync_val_compare_and_swap(word, old, new);
}

static inline void guard_pause(void)
{
}

/* Nothing is shared, so that the loop may be bounded. */
#define guard_retry			for (u32 tries = 0; tries < 16; tries++)
#define guard_function			verified
#define guard_require(pointers, other)	if (!(pointers)) return (other);

#include "../guard.h"

#endif
