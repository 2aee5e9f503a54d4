/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* User-space definitions that guard.h requires. */
#ifndef MEMTINT_GUARD_USER_H
#define MEMTINT_GUARD_USER_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;

static inline u64 guard_load(const u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline u64 guard_exchange(u64 *word, u64 old, u64 new)
{
	__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return old;
}

static inline void guard_pause(void)
{
}

#define guard_retry for (;;)

#include "../guard.h"

#endif
