//! MemGuard's module as released (commit `bcb08a4`, 2022), one counter of it: a model to compare with, not a regulator to use.
//!
//! Each [`Defect`] can be present or fixed independently, so that a test shows its cost. A fixed defect behaves as in
//! this crate's algorithm; the release has no such form. Source: the module's code, `memguard.c`.

mod linux;

use std::collections::BTreeSet;

pub use linux::{Complaint, Kernel, NotCompiled};
use linux::{Handler, Linux};

/// A defect of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// The counter is reloaded with the whole budget before the overflow handler runs; the handler's later write has no
    /// effect. A core that reclaims n events gets a whole budget.
    ReclaimOverGrants,
    /// A core that reclaims from others raises their budgets to the full, and takes the difference as well. The donor's next
    /// overflow is ignored, since its use is below its raised budget.
    RaidedDonor,
    /// The prediction is corrected after an underrun only if less than the budget was used, which is impossible at the
    /// point of the test.
    UnreachableCompensation,
    /// A core that is exempt (`rt`) is throttled like others.
    ExemptionWithoutEffect,
    /// Idle cores count as cores that have budget left: sharing never begins while one is idle.
    IdleBlocksSharing,
    /// A period that begins early (mode 5) does not stop the counters: they go on with a whole budget.
    RestartWithoutStop,
    /// Events in the kernel are not counted.
    KernelUncounted,
    /// A throttled core runs a FIFO thread of priority 50: threads and interrupts that precede it continue to run.
    UrgentUnthrottled,
    /// CPU hotplug is not noticed: a core that goes offline counts as one that has budget left, and a core that comes online is
    /// not regulated.
    HotplugUnseen,
    /// The divisor of the bandwidth that is printed is an `int`, and overflows from periods of 2048 us on.
    DivisorOverflow,
    /// Handlers assert that they run in an interrupt with interrupts off, and are not marked as hard: under PREEMPT_RT, they run in
    /// threads, and the assertions fail.
    AssertedContext,
    /// Sharing calls a function on other cores from a handler with interrupts off.
    CallWithInterruptsOff,
    /// A written text is parsed to the next zero byte, wherever that is.
    UnterminatedText,
    /// A throttled core executes a loop until the period is over.
    SpinningWhileThrottled,
    /// Overflows write to the trace (`trace_printk`) at any time.
    AlwaysTracing,
    /// `hrtimer_init` is called, which Linux 6.15 has removed.
    RemovedFunction,
}

/// The user of memory on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A task in user mode, FIFO priority 50 or less.
    Task,
    /// The kernel, for such a task: system calls, page faults.
    Kernel,
    /// A SCHED_DEADLINE task or one of a FIFO priority above 50, in user mode, or an interrupt handler that is counted.
    Urgent,
}

impl Defect {
    /// All of them: the release.
    pub const ALL: [Defect; 16] = [
        Defect::ReclaimOverGrants,
        Defect::RaidedDonor,
        Defect::UnreachableCompensation,
        Defect::ExemptionWithoutEffect,
        Defect::IdleBlocksSharing,
        Defect::RestartWithoutStop,
        Defect::KernelUncounted,
        Defect::UrgentUnthrottled,
        Defect::HotplugUnseen,
        Defect::DivisorOverflow,
        Defect::AssertedContext,
        Defect::CallWithInterruptsOff,
        Defect::UnterminatedText,
        Defect::SpinningWhileThrottled,
        Defect::AlwaysTracing,
        Defect::RemovedFunction,
    ];
}

/// What happens when all active cores are throttled (`exclusive`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusive {
    /// Mode 0: nothing.
    Off,
    /// Mode 2: all run until the period is over.
    Spare,
    /// Mode 5: a new period begins.
    Proportional,
}

/// Settings of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Budget of each core, in events per period.
    pub limits: Vec<u64>,
    /// Cores that are exempt from regulation.
    pub exempt: BTreeSet<usize>,
    /// Cores that are offline when the module is loaded.
    pub offline: BTreeSet<usize>,
    /// Predict, donate and reclaim.
    pub reclaim: bool,
    /// Least events worth reclaiming from others (`g_qmin`).
    pub least_reclaim: u64,
    /// Best-effort sharing.
    pub exclusive: Exclusive,
}

/// One core of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Core {
    limit: u64,
    /// Limit from the next period on.
    next_limit: u64,
    /// Budget of this period after donation (`cur_budget`).
    current: u64,
    /// Donated at the start of the period and not yet reclaimed by any core; used when [`Defect::RaidedDonor`] is
    /// fixed.
    lent: u64,
    /// Events counted since the period began.
    used: u64,
    /// Events until the counter overflows.
    until_overflow: u64,
    /// Moving average of the use, in which each period counts for half.
    average: u64,
    throttled: bool,
    idle: bool,
    online: bool,
    /// The module has a counter on it.
    watched: bool,
    sharing: bool,
    /// Shortfall of this period (`prev_throttle_error`).
    shortfall: u64,
}

/// The module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    settings: Settings,
    defects: BTreeSet<Defect>,
    cores: Vec<Core>,
    linux: Linux,
}

impl Released {
    /// Loads the module with these defects. All cores that are online are busy; the first period begins with their limits.
    pub fn new(settings: Settings, defects: impl IntoIterator<Item = Defect>) -> Released {
        let core = |(core, &limit): (usize, &u64)| Core {
            limit,
            next_limit: limit,
            current: limit,
            lent: 0,
            used: 0,
            until_overflow: limit,
            average: limit,
            throttled: false,
            idle: false,
            online: !settings.offline.contains(&core),
            watched: !settings.offline.contains(&core),
            sharing: false,
            shortfall: 0,
        };
        let cores = settings.limits.iter().enumerate().map(core).collect();
        Released { settings, defects: defects.into_iter().collect(), cores, linux: Linux::new() }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defects.contains(&defect)
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Whether the core stands still.
    pub fn is_throttled(&self, core: usize) -> bool {
        self.cores[core].throttled
    }

    /// Budget of the core in this period, after donation.
    pub fn current_budget(&self, core: usize) -> u64 {
        self.cores[core].current
    }

    /// Events until the core's counter overflows.
    pub fn until_overflow(&self, core: usize) -> u64 {
        self.cores[core].until_overflow
    }

    /// A core has no work, or has work again.
    pub fn set_idle(&mut self, core: usize, idle: bool) {
        self.cores[core].idle = idle;
        if idle && !self.has(Defect::IdleBlocksSharing) {
            self.share_if_all_are_throttled();
        }
    }

    /// A core goes offline, or comes online and has work.
    pub fn set_online(&mut self, core: usize, online: bool) {
        self.cores[core].online = online;
        if self.has(Defect::HotplugUnseen) {
            return;
        }
        self.cores[core].watched = online;
        if online {
            self.begin_period(core, true);
        } else {
            self.share_if_all_are_throttled();
        }
    }

    /// A core would use memory: `true` if it does, `false` if it stands still or is offline.
    pub fn access(&mut self, core: usize, by: By) -> bool {
        let this = &self.cores[core];
        if !this.online || self.linux.has_stopped() {
            return false;
        }
        if this.throttled {
            return by == By::Urgent && self.has(Defect::UrgentUnthrottled);
        }
        if !this.watched || by == By::Kernel && self.has(Defect::KernelUncounted) {
            return true;
        }
        let limit = self.cores[core].limit;
        let this = &mut self.cores[core];
        this.used += 1;
        this.until_overflow = this.until_overflow.saturating_sub(1);
        if this.until_overflow == 0 {
            // perf has reloaded the counter when the handler runs.
            this.until_overflow = limit;
            self.overflow(core);
        }
        true
    }

    /// Starts a period on a core.
    pub fn period_start(&mut self, core: usize) {
        if self.enter(Handler::Period, core) {
            self.begin_period(core, true);
        }
    }

    fn begin_period(&mut self, core: usize, stopped: bool) {
        let reclaim = self.settings.reclaim;
        let this = &mut self.cores[core];
        // The average counts a period that fell short as one that used more than its budget, so nothing is donated next.
        let used = if this.shortfall > 0 { this.limit + this.shortfall } else { this.used };
        this.average = if this.shortfall > 0 { used } else { this.average.midpoint(used) };
        this.limit = this.next_limit;
        let surplus = if reclaim { this.limit.saturating_sub(this.average.max(1)) } else { 0 };
        (this.current, this.lent) = (this.limit - surplus, surplus);
        (this.used, this.shortfall, this.throttled, this.sharing) = (0, 0, false, false);
        if stopped {
            this.until_overflow = this.current;
        }
    }

    fn set_period_left(&mut self, core: usize, events: u64) {
        if !self.has(Defect::ReclaimOverGrants) {
            self.cores[core].until_overflow = events;
        }
    }

    fn overflow(&mut self, core: usize) {
        if !self.enter(Handler::Overflow, core) {
            return;
        }
        self.trace();
        let exempt = self.settings.exempt.contains(&core) && !self.has(Defect::ExemptionWithoutEffect);
        let this = &self.cores[core];
        if this.sharing || exempt || this.used < this.current {
            return;
        }
        if self.settings.reclaim && self.reclaim(core) {
            return;
        }
        let this = &mut self.cores[core];
        let (used, limit) = (this.used, this.limit);
        if used < limit && !self.defects.contains(&Defect::UnreachableCompensation) {
            this.shortfall = limit - used;
        }
        this.throttled = true;
        if self.share_if_all_are_throttled() {
            self.call_others();
        }
    }

    /// Takes back the core's own donation, else that of others.
    fn reclaim(&mut self, core: usize) -> bool {
        let raids = self.has(Defect::RaidedDonor);
        let this = &mut self.cores[core];
        let own = if raids { this.limit - this.current } else { this.lent };
        if own > 0 {
            this.current += own;
            this.lent = 0;
            self.set_period_left(core, own);
            return true;
        }
        let mut amount = 0;
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            if amount > self.settings.least_reclaim {
                break;
            }
            let donor = &mut self.cores[other];
            if raids {
                amount += donor.limit - donor.current;
                donor.current = donor.limit;
            } else {
                amount += std::mem::take(&mut donor.lent);
            }
        }
        if amount > 0 {
            if !raids {
                self.cores[core].current += amount;
            }
            self.set_period_left(core, amount);
        }
        amount > 0
    }

    /// Returns whether other cores are concerned.
    fn share_if_all_are_throttled(&mut self) -> bool {
        let counts_idle = self.has(Defect::IdleBlocksSharing);
        let counts_offline = self.has(Defect::HotplugUnseen);
        let blocks = |core: &Core| {
            let absent = core.idle && !counts_idle || !core.online && !counts_offline || !core.watched;
            !core.throttled && !absent
        };
        if self.cores.iter().any(blocks) {
            return false;
        }
        match self.settings.exclusive {
            Exclusive::Off => return false,
            Exclusive::Spare => {
                for core in self.cores.iter_mut().filter(|core| core.throttled) {
                    (core.throttled, core.sharing) = (false, true);
                }
            }
            Exclusive::Proportional => {
                let stopped = !self.has(Defect::RestartWithoutStop);
                (0..self.cores.len()).for_each(|core| self.begin_period(core, stopped));
            }
        }
        true
    }

    /// Bandwidth in MB/s (2^20 bytes) that the module prints for this number of events of 64 bytes in a period of `period_us`.
    pub fn printed_bandwidth(&self, events: i64, period_us: i32) -> i64 {
        let wide = i64::from(period_us) << 20;
        let divisor = if self.has(Defect::DivisorOverflow) { i64::from(wide as i32) } else { wide };
        if divisor == 0 { 0 } else { events * 64 * 1_000_000 / divisor }
    }
}
