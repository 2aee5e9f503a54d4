//! Delays of a core besides its tasks, as terms that are added to the same fixed point: refresh, the other cores' use
//! of the memory, and a bandwidth regulator.
//!
//! A term is a function of the length of a window and of the cache lines that the core's own jobs move in it. It bounds the
//! time for which the core stands still in any such window, so terms can be combined: the window of a response
//! time is the least one that holds the work and all delays,
//!
//! ```text
//! w = B + (q + 1) C + sum of ceil((w + J) / T) C  +  refresh(w)  +  banks(w, lines(w))  +  regulator(w, lines(w))
//! ```
//!
//! and under EDF the demand of each window is the work due in it and the delays in it (Jeffay and Stone 1993, who do
//! this for interrupts).
//!
//! Refresh is known to happen: with it alone a no remains a no. The other two are upper bounds: a set that fits with
//! them is schedulable, one that does not is [`Unsupported::Bound`]. A requirement of their theorems that a set or
//! platform does not meet is [`Unsupported::Precondition`] or [`Unsupported::Platform`].
//!
//! [`Form::AsPrinted`] has published forms that are wrong, for comparison only.

use crate::banks::{ParallelBanks, SharedBanks};
use crate::error::SchedError;
use crate::form::Form;
use crate::ranks::{REF_COMMANDS, RankOrder};
use crate::regulator::Regulator;
use crate::task::{TIME_MAX, Task, TaskIndex, TaskSet};
use crate::verdict::{Effort, Steps, Unsupported, window};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_integer::Integer;
use num_rational::Ratio;

/// How fine refresh is: JESD79-4 (DDR4), fine granularity refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// A command each tREFI, of tRFC1.
    #[default]
    One,
    /// Two commands each tREFI, of tRFC2.
    Two,
    /// Four commands each tREFI, of tRFC4.
    Four,
}

impl Granularity {
    /// Gives the commands in one tREFI.
    #[must_use]
    pub fn commands(self) -> u64 {
        match self {
            Granularity::One => 1,
            Granularity::Two => 2,
            Granularity::Four => 4,
        }
    }
}

/// The most refresh commands by which DDR3 and DDR4 can be ahead of and behind their time together (8 and 8).
pub const MOVED_MAX: u64 = 16;

/// Refresh, which stalls the core periodically.
///
/// It is a task of the highest priority: each `period` it takes `stall`, at unknown phase. The model stalls the core
/// for all of it, as if it always needed the rank; this is exact for a core that does.
///
/// The stall includes the time to open rows again. It is tRP + tRCD for each bank in which the core has a row open,
/// given a WCET that was found with rows closed at the start. [Pan18, §5.3.8] has tRP + tRAS, which is no less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    period: u64,
    stall: u64,
    moved: u64,
    form: Form,
}

impl Refresh {
    /// Makes auto-refresh: a command each `t_refi`, of `t_rfc`, after which rows take `t_reopen` to be open again.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] unless `t_refi` and `t_rfc` are 1 ps to [`TIME_MAX`] and `t_reopen` at most that.
    pub fn auto(t_refi: Picoseconds, t_rfc: Picoseconds, t_reopen: Picoseconds) -> Result<Refresh, SchedError> {
        let fields = [("t_refi", t_refi, 1), ("t_rfc", t_rfc, 1), ("t_reopen", t_reopen, 0)];
        for (field, found, least) in fields {
            in_range("refresh", field, found, Picoseconds(least), TIME_MAX)?;
        }
        Ok(Refresh { period: t_refi.0, stall: t_rfc.0 + t_reopen.0, moved: 0, form: Form::Corrected })
    }

    /// Makes fine granularity refresh: `t_refi` is that of [`Granularity::One`] and is divided (rounding down), `t_rfc` is
    /// that of the granularity.
    ///
    /// # Errors
    ///
    /// As [`Refresh::auto`].
    pub fn fine(
        granularity: Granularity,
        t_refi: Picoseconds,
        t_rfc: Picoseconds,
        t_reopen: Picoseconds,
    ) -> Result<Refresh, SchedError> {
        Refresh::auto(Picoseconds(t_refi.0 / granularity.commands()), t_rfc, t_reopen)
    }

    /// Makes burst refresh by software (Bhat and Mueller, ECRTS 2010): each `t_ret` a task of the highest priority refreshes everything,
    /// which takes `burst`; see [`burst_length`].
    ///
    /// # Errors
    ///
    /// As [`Refresh::auto`].
    pub fn burst(t_ret: Picoseconds, burst: Picoseconds, t_reopen: Picoseconds) -> Result<Refresh, SchedError> {
        Refresh::auto(t_ret, burst, t_reopen)
    }

    /// Lets commands come early or late, by `commands` places together (0 to [`MOVED_MAX`]): that many more can fall
    /// into a window.
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] beyond [`MOVED_MAX`].
    pub fn moved(self, commands: u64) -> Result<Refresh, SchedError> {
        in_range("refresh", "commands moved", commands, 0, MOVED_MAX)?;
        Ok(Refresh { moved: commands, ..self })
    }

    /// Chooses the form. [`Form::AsPrinted`] is [Pan18, §5.3.8]: `b = floor(r / tREFI) (tRFC + tRP + tRAS)`, which sees nothing
    /// of a refresh that meets a window shorter than tREFI (errata E30).
    #[must_use]
    pub fn form(self, form: Form) -> Refresh {
        Refresh { form, ..self }
    }

    /// Gives the time between commands or bursts.
    #[must_use]
    pub fn period(&self) -> Picoseconds {
        Picoseconds(self.period)
    }

    /// Gives the time for which the core stands still at each.
    #[must_use]
    pub fn stall(&self) -> Picoseconds {
        Picoseconds(self.stall)
    }

    /// Gives its utilization.
    #[must_use]
    pub fn rate(&self) -> Ratio<BigUint> {
        Ratio::new(self.stall.into(), self.period.into())
    }

    fn count(&self, window: u64) -> u64 {
        match self.form {
            Form::AsPrinted => window / self.period,
            Form::Corrected => window.div_ceil(self.period) + self.moved,
        }
    }

    fn delay(&self, window: u64) -> u128 {
        u128::from(self.count(window)) * u128::from(self.stall)
    }

    /// The part of the delay that is over at the end of the window; the last refresh may be incomplete.
    fn within(&self, window: u64) -> u128 {
        if self.form == Form::AsPrinted || window == 0 || self.stall > self.period {
            return self.delay(window);
        }
        let begun = (window - 1) % self.period + 1;
        self.delay(window) - u128::from(self.stall.saturating_sub(begun))
    }

    fn delay_exact(&self, window: &BigUint) -> BigUint {
        let count = match self.form {
            Form::AsPrinted => window / self.period,
            Form::Corrected => window.div_ceil(&self.period.into()) + self.moved,
        };
        count * self.stall
    }
}

/// Gives the time of a burst that refreshes some ranks once, all commands back to back.
///
/// Corrected: [`REF_COMMANDS`] of `t_rfc`, once or for each rank, depending on the order. As printed ([Pan18, §5.3.4]:
/// "less than 0.2 ms for a 2Gb DRAM chip with 8 ranks"), the commands of one rank are shared by all, an eighth of the
/// requirement in Table 5.1.
///
/// # Errors
///
/// [`SchedError::Interference`] for no ranks, more than 1024, or a burst beyond [`TIME_MAX`].
pub fn burst_length(t_rfc: Picoseconds, ranks: u32, order: RankOrder, form: Form) -> Result<Picoseconds, SchedError> {
    in_range("refresh", "ranks", ranks, 1, 1024)?;
    in_range("refresh", "t_rfc", t_rfc, Picoseconds(1), TIME_MAX)?;
    let commands = match form {
        Form::AsPrinted => REF_COMMANDS / u64::from(ranks),
        Form::Corrected => order.commands(ranks),
    };
    let length = u64::try_from(u128::from(commands) * u128::from(t_rfc.0)).unwrap_or(u64::MAX);
    in_range("refresh", "burst", Picoseconds(length), Picoseconds(1), TIME_MAX)?;
    Ok(Picoseconds(length))
}

/// Enlarges a WCET by the refreshes that can meet the job when it runs alone: the least `x = e + stall ceil(x / tREFI)` (\[Pan18\],
/// 4.3, corrected as in errata E1). A job that is cut into slices pays for each of them.
///
/// # Errors
///
/// [`Unsupported::Load`] when refresh leaves nothing, [`Unsupported::Effort`], [`Unsupported::Window`].
pub fn padded(wcet: Picoseconds, refresh: &Refresh, effort: Effort) -> Result<Picoseconds, Unsupported> {
    if refresh.stall >= refresh.period {
        return Err(Unsupported::Load(refresh.rate()));
    }
    let mut steps = Steps::new(TaskIndex(0), effort);
    let mut reached = wcet.0;
    loop {
        steps.step()?;
        let next = window(u128::from(wcet.0) + refresh.delay(reached), TaskIndex(0))?;
        if next == reached {
            return Ok(Picoseconds(reached));
        }
        reached = next;
    }
}

/// Gives the padding as printed in [Pan18, §4.3], round by round: `e(n) = e(n - 1) + tRFC ceil(e(n - 1) / tREFI)`,
/// which adds all of the padding again in each round and so never ends (errata E1). The first is the padding of one
/// round that the text before it gives, which is too small.
pub fn printed_padding(wcet: Picoseconds, refresh: &Refresh) -> impl Iterator<Item = u128> + use<> {
    let (period, stall) = (u128::from(refresh.period), u128::from(refresh.stall));
    std::iter::successors(Some(u128::from(wcet.0)), move |last| Some(last + stall * last.div_ceil(&period))).skip(1)
}

/// Timings of a device that Kim et al. 2014 use, in clock cycles unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankTimings {
    /// Length of a clock cycle, rounded up.
    pub t_ck: Picoseconds,
    /// ACT to ACT, other bank.
    pub n_rrd: u64,
    /// Window of four ACT.
    pub n_faw: u64,
    /// Write latency.
    pub n_wl: u64,
    /// Read latency.
    pub n_cl: u64,
    /// Burst length, in beats.
    pub bl: u64,
    /// End of written data to RD.
    pub n_wtr: u64,
}

impl BankTimings {
    /// Gives the longest time for which one request to another bank delays a request: one command on the bus, the distance of
    /// ACT, and the turn of the data bus (Kim et al. 2014: L_PRE = tCK, L_ACT = max(tRRD, tFAW - 3 tRRD), L_RW = max(WL +
    /// BL / 2 + tWTR, CL + BL / 2 + 2 - WL)).
    ///
    /// # Errors
    ///
    /// [`SchedError::Interference`] for a clock of 0 or beyond 1 us, or cycles beyond 2^20.
    pub fn request_delay(&self) -> Result<Picoseconds, SchedError> {
        in_range("banks", "t_ck", self.t_ck, Picoseconds(1), Picoseconds(1_000_000))?;
        let cycles = [
            ("n_rrd", self.n_rrd),
            ("n_faw", self.n_faw),
            ("n_wl", self.n_wl),
            ("n_cl", self.n_cl),
            ("bl", self.bl),
            ("n_wtr", self.n_wtr),
        ];
        for (field, found) in cycles {
            in_range("banks", field, found, 0, 1 << 20)?;
        }
        let act = self.n_rrd.max(self.n_faw.saturating_sub(3 * self.n_rrd));
        Ok(Picoseconds((1 + act + self.turn()) * self.t_ck.0))
    }

    /// Cycles of the turn of the data bus, checked before.
    pub(crate) fn turn(&self) -> u64 {
        let half = self.bl.div_ceil(2);
        (self.n_wl + half + self.n_wtr).max((self.n_cl + half + 2).saturating_sub(self.n_wl))
    }
}

/// The memory demand of another core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its tasks, with their lines; `None` when they are unknown. They are assumed to meet their deadlines: the results
    /// hold if each core's tasks are found to do so.
    pub tasks: Option<TaskSet>,
    /// Its regulator, if it has one.
    pub regulator: Option<Regulator>,
    /// Lines of other cores' budgets, including the analyzed core's, that it and its neighbours can have reclaimed in a
    /// period in addition to their own; with a regulator that reclaims.
    pub donated: u64,
}

impl Neighbour {
    /// Lines that its jobs move in any window.
    fn by_jobs(&self, length: u64) -> Option<u128> {
        let set = self.tasks.as_ref()?;
        // A job that overlaps the window has arrived less than its deadline before it.
        let jobs = |task: &Task| (u128::from(length) + u128::from(task.deadline().0)).div_ceil(task.period().0.into());
        Some(
            set.tasks().iter().map(|task| jobs(task).saturating_mul(task.lines().into())).fold(0, u128::saturating_add),
        )
    }

    /// Its regulator, if that limits it.
    fn limit(&self) -> Option<&Regulator> {
        self.regulator.as_ref().filter(|own| !own.shares_spare())
    }

    /// Whether donations can raise what its regulator allows.
    fn reclaims(&self) -> bool {
        self.limit().is_some_and(Regulator::reclaims)
    }
}

/// Another core as a cause of delay: the most requests that it has on their way at once, and the time of each of its
/// lines.
#[derive(Clone, Copy)]
pub(crate) struct Rival<'a> {
    pub(crate) core: &'a Neighbour,
    pub(crate) at_once: u32,
    pub(crate) each: u64,
}

/// The longest time of the lines of some cores in any window; `None` when one of them has no limit.
///
/// A core that does not reclaim is limited by its jobs and by its budget; those that do, together by the jobs of all
/// and by the budgets of all with donations of others: budget donated to one of them is not used by another.
pub(crate) fn by_lines(rivals: &[Rival<'_>], length: u64) -> Option<u128> {
    let (together, alone): (Vec<_>, Vec<_>) = rivals.iter().partition(|rival| rival.core.reclaims());
    let jobs = |rival: &Rival<'_>| Some(rival.core.by_jobs(length)?.saturating_mul(rival.each.into()));
    // Periods that the window touches, each with what is on its way when the budget is used up, and what is on its way when
    // the window begins.
    let lines = |rival: &Rival<'_>| {
        let (own, at_once) = (rival.core.limit()?, u128::from(rival.at_once));
        let periods = own.periods(length);
        let on_the_way = at_once.saturating_sub(1).saturating_mul(periods).saturating_add(at_once);
        Some(own.most_in(periods).saturating_add(on_the_way))
    };
    let own = alone.iter().map(|rival| {
        let budget = lines(rival).map(|lines| lines.saturating_mul(rival.each.into()));
        least(jobs(rival), budget)
    });
    let own = own.chain((!together.is_empty()).then(|| {
        let all_jobs = together.iter().try_fold(0, |sum: u128, rival| Some(sum.saturating_add(jobs(rival)?)));
        let budgets = together.iter().try_fold(0, |sum: u128, rival| Some(sum.saturating_add(lines(rival)?)));
        let donated = together.iter().filter_map(|rival| {
            let periods = rival.core.limit()?.periods(length);
            Some(periods.saturating_mul(rival.core.donated.into()))
        });
        let budgets = budgets.map(|lines| lines.saturating_add(donated.max().unwrap_or(0)));
        let longest = together.iter().map(|rival| rival.each).max().unwrap_or(0);
        least(all_jobs, budgets.map(|lines| lines.saturating_mul(longest.into())))
    }));
    own.into_iter().try_fold(0, |sum: u128, delay| Some(sum.saturating_add(delay?)))
}

/// The same in the long run, as a part of the time.
pub(crate) fn rate_by_lines(rivals: &[Rival<'_>]) -> Option<Ratio<BigUint>> {
    let (together, alone): (Vec<_>, Vec<_>) = rivals.iter().partition(|rival| rival.core.reclaims());
    let zero = || Ratio::from_integer(BigUint::ZERO);
    let jobs =
        |rival: &Rival<'_>| Some(line_rate(rival.core.tasks.as_ref()?.tasks().iter()) * BigUint::from(rival.each));
    let lines = |rival: &Rival<'_>| {
        let own = rival.core.limit()?;
        Some(Ratio::new(BigUint::from(own.each_period()) + rival.at_once - 1u8, own.period().0.into()))
    };
    let own = alone.iter().map(|rival| least(jobs(rival), lines(rival).map(|lines| lines * BigUint::from(rival.each))));
    let own = own.chain((!together.is_empty()).then(|| {
        let all_jobs = together.iter().try_fold(zero(), |sum, rival| Some(sum + jobs(rival)?));
        let budgets = together.iter().try_fold(zero(), |sum, rival| Some(sum + lines(rival)?));
        let donated = together.iter().filter_map(|rival| {
            Some(Ratio::new(BigUint::from(rival.core.donated), rival.core.limit()?.period().0.into()))
        });
        let budgets = budgets.map(|lines| lines + donated.max().unwrap_or_else(zero));
        let longest = together.iter().map(|rival| rival.each).max().unwrap_or(0);
        least(all_jobs, budgets.map(|lines| lines * BigUint::from(longest)))
    }));
    own.into_iter().try_fold(zero(), |sum, delay| Some(sum + delay?))
}

/// The lesser of two limits, of which there may be one.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Interference of other cores in the DRAM, of Kim et al. 2014 (RTAS, "Bounding memory interference delay in COTS-based
/// multi-core systems"): the lesser of a bound by the requests of this core (each waits for one request of each other
/// core) and a bound by the jobs of the others (all that they request in the window).
///
/// It covers only the interference between cores with disjoint banks: in banks that cores share, requests are
/// reordered, see [`SharedBanks`]. Cores must have one request at a time: the bound is too small for caches that do not
/// block (Yun, Pellizzoni and Valsan 2015), see [`ParallelBanks`]. The requests of this core include one more: that of
/// a lower priority which the core still waits for when a window begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banks {
    /// Longest delay of one request by one of another core: see [`BankTimings::request_delay`].
    pub request_delay: Picoseconds,
    /// The other cores.
    pub neighbours: Vec<Neighbour>,
    /// Whether each core has banks that no other uses.
    pub private_banks: bool,
    /// The most requests that a core has on their way at once.
    pub requests_at_once_max: u32,
}

impl Banks {
    /// What the platform does not have.
    fn needs(&self) -> Option<&'static str> {
        if !self.private_banks {
            return Some("banks that no other core uses");
        }
        (self.requests_at_once_max != 1).then_some("cores with one request to memory at a time")
    }

    fn delay(&self, length: u64, lines: u128) -> u128 {
        let each = u128::from(self.request_delay.0);
        let by_requests = lines.saturating_add(1).saturating_mul(self.neighbours.len() as u128).saturating_mul(each);
        by_lines(&self.rivals(), length).map_or(by_requests, |delay| delay.min(by_requests))
    }

    fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        let each = BigUint::from(self.request_delay.0);
        let by_requests = lines * (each * BigUint::from(self.neighbours.len()));
        match rate_by_lines(&self.rivals()) {
            Some(by_lines) => by_requests.min(by_lines),
            None => by_requests,
        }
    }

    fn rivals(&self) -> Vec<Rival<'_>> {
        self.neighbours.iter().map(|core| Rival { core, at_once: 1, each: self.request_delay.0 }).collect()
    }
}

/// One cause of delay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interference {
    /// Refresh.
    Refresh(Refresh),
    /// The other cores, in the DRAM; of this and the two that follow one is enough.
    Banks(Banks),
    /// The other cores, some of them in the same banks.
    SharedBanks(SharedBanks),
    /// The other cores, with several requests at once.
    ParallelBanks(ParallelBanks),
    /// The regulator of this core.
    Regulator(Regulator),
}

impl Interference {
    /// Gives the longest time for which this cause stalls the core in any window of a length in which it moves `lines`
    /// lines (saturating).
    #[must_use]
    pub fn delay(&self, length: Picoseconds, lines: u128) -> u128 {
        match self {
            Interference::Refresh(refresh) => refresh.delay(length.0),
            Interference::Banks(banks) => banks.delay(length.0, lines),
            Interference::SharedBanks(banks) => banks.delay(length.0, lines),
            Interference::ParallelBanks(banks) => banks.delay(length.0, lines),
            Interference::Regulator(regulator) => regulator.delay(length.0, lines),
        }
    }

    /// Gives its largest utilization in the long run, when `lines` lines are moved per picosecond.
    #[must_use]
    pub fn rate(&self, lines: &Ratio<BigUint>) -> Ratio<BigUint> {
        match self {
            Interference::Refresh(refresh) => refresh.rate(),
            Interference::Banks(banks) => banks.rate(lines),
            Interference::SharedBanks(banks) => banks.rate(lines),
            Interference::ParallelBanks(banks) => banks.rate(lines),
            Interference::Regulator(regulator) => regulator.rate(lines),
        }
    }

    /// As [`Interference::delay`], without the part after the end of the window.
    pub(crate) fn within(&self, length: u64, lines: u128) -> u128 {
        match self {
            Interference::Refresh(refresh) => refresh.within(length),
            other => other.delay(Picoseconds(length), lines),
        }
    }

    /// As [`Interference::delay`], of any size; only refresh occurs with windows beyond 64 bits.
    pub(crate) fn delay_exact(&self, length: &BigUint, lines: &BigUint) -> BigUint {
        match self {
            Interference::Refresh(refresh) => refresh.delay_exact(length),
            other => {
                let length = Picoseconds(u64::try_from(length).expect("a window within the limit"));
                other.delay(length, u128::try_from(lines).unwrap_or(u128::MAX)).into()
            }
        }
    }

    /// As [`Interference::within`], of whatever size.
    pub(crate) fn within_exact(&self, length: &BigUint, lines: &BigUint) -> BigUint {
        match self {
            Interference::Refresh(refresh)
                if refresh.form == Form::Corrected && *length > BigUint::ZERO && refresh.stall <= refresh.period =>
            {
                let begun = (length - 1u8) % refresh.period + 1u8;
                refresh.delay_exact(length) + BigUint::from(refresh.stall).min(begun) - refresh.stall
            }
            other => other.delay_exact(length, lines),
        }
    }

    /// Whether the delay happens, and is not only bounded.
    pub(crate) fn happens(&self) -> bool {
        matches!(self, Interference::Refresh(Refresh { form: Form::Corrected, .. }))
    }

    /// Whether no commands are moved, so that windows repeat.
    pub(crate) fn regular(&self) -> bool {
        matches!(self, Interference::Refresh(Refresh { form: Form::Corrected, moved: 0, .. }))
    }

    /// The time after which it repeats.
    pub(crate) fn repeats(&self) -> u64 {
        match self {
            Interference::Refresh(refresh) => refresh.period,
            Interference::Banks(_) | Interference::SharedBanks(_) | Interference::ParallelBanks(_) => 1,
            Interference::Regulator(regulator) => regulator.period().0,
        }
    }

    /// Gives the other cores that it takes into account.
    #[must_use]
    pub fn neighbours(&self) -> Vec<&Neighbour> {
        match self {
            Interference::Banks(banks) => banks.neighbours.iter().collect(),
            Interference::SharedBanks(banks) => banks.neighbours(),
            Interference::ParallelBanks(banks) => banks.neighbours.iter().map(|own| &own.core).collect(),
            Interference::Refresh(_) | Interference::Regulator(_) => Vec::new(),
        }
    }

    /// A requirement of the theorem that the set or the platform does not meet.
    fn refused(&self, set: &TaskSet, preemptive: bool) -> Option<Unsupported> {
        let needs = match self {
            Interference::Refresh(_) => return None,
            Interference::Banks(banks) => banks.needs(),
            Interference::SharedBanks(banks) => banks.needs(),
            Interference::ParallelBanks(banks) => banks.needs(),
            Interference::Regulator(_) => None,
        };
        if let Some(needs) = needs {
            return Some(Unsupported::Platform { needs });
        }
        if !preemptive {
            return Some(Unsupported::Platform { needs: "jobs that can be preempted, with interference in memory" });
        }
        let needs = |task: &Task| {
            let blocked = (task.blocking().0 > 0).then_some("no blocking, whose lines are unknown");
            blocked.or((task.lines() == 0).then_some("the lines that a job moves"))
        };
        let silent = |set: &TaskSet| set.tasks().iter().any(|task| task.lines() == 0);
        if self.neighbours().iter().filter_map(|core| core.tasks.as_ref()).any(silent) {
            return Some(Unsupported::Platform { needs: "the lines that a job moves, for each task of another core" });
        }
        let own = set.indexed();
        own.filter_map(|(task, own)| needs(own).map(|needs| Unsupported::Precondition { task, needs })).next()
    }
}

/// Gives the first reason for which some terms cannot be used for a set.
pub(crate) fn refused(terms: &[Interference], set: &TaskSet, preemptive: bool) -> Option<Unsupported> {
    terms.iter().find_map(|term| term.refused(set, preemptive))
}

/// Lines per picosecond of some tasks.
pub(crate) fn line_rate<'a>(tasks: impl Iterator<Item = &'a Task>) -> Ratio<BigUint> {
    tasks.map(|task| Ratio::new(BigUint::from(task.lines()), task.period().0.into())).sum()
}

pub(crate) fn in_range<T: PartialOrd + std::fmt::Display>(
    what: &'static str,
    field: &'static str,
    found: T,
    least: T,
    most: T,
) -> Result<(), SchedError> {
    if (&least..=&most).contains(&&found) {
        return Ok(());
    }
    let accepted = format!("{least} to {most}");
    Err(SchedError::Interference { what, field, found: found.to_string(), accepted })
}
