//! The least supply of servers, and the time until their budgets are used (Pan 2018, 5.3.8).
//!
//! *Interference.* A server of higher priority with budget `e` in each period `p` takes at most `ceil((t + J) / p) e` of any window
//! of length `t`. A deferrable one can use its budget at the end of a period and again at once: `J = p - e`. An
//! idle-consuming one is done by its response time `r`: `J = r - e`. (5.3.8 takes `floor(t / p) e`.)
//!
//! *Blackouts.* No server of a group runs in its locked window, of length `l` every tRET; a window of length `t` holds at most
//! `ceil(t / tRET) l` of that. Lock and unlock tasks of other groups are short blackouts of the same kind.
//!
//! *Supply without blackouts.* If `e + I(r) = r <= p` for the interference `I`, the budget is supplied within `r` of
//! the beginning of each period: the explicit deadline periodic resource (Easwaran, Anand and Lee 2007, RTSS), which
//! supplies nothing for `p + r - 2 e` and then `e` in each period. If the budget is too large for that, a smaller one
//! that satisfies it is a lower bound too. A server whose budget is its period is never out of it, and supplies
//! `t - I(t)`.
//!
//! *Supply with them.* A blackout takes from a budget at most its length, and at most the server's possible use in it,
//! which is the most that a deferrable server takes of a window of that length. So the supply is at least that without
//! blackouts, less the losses of all blackouts that can overlap the window. Phases are not used.

use crate::crs::model::{Core, Kind, System};
use memtint_sched::parts::WINDOW_MAX;
use memtint_sched::{Form, Unsupported};
use memtint_units::Picoseconds;
use num_bigint::{BigInt, BigUint};
use num_rational::Ratio;

/// Rounds of a fixed point before it is given up.
const ROUNDS_MAX: u32 = 1_000_000;

/// A consumer of time in any window: `ceil((t + jitter) / period) budget`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taker {
    jitter: u64,
    period: u64,
    budget: u64,
}

impl Taker {
    fn takes(&self, length: u64) -> u128 {
        let jobs = (u128::from(length) + u128::from(self.jitter)).div_ceil(u128::from(self.period));
        jobs * u128::from(self.budget)
    }
}

/// A recurring time without the server, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blackout {
    length: u64,
    /// The most that the server could have used of it.
    loss: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing for the gap, then the budget in each period.
    Budgeted { gap: u64, period: u64, budget: u64 },
    /// All that is left over.
    Background,
    /// Nothing is guaranteed.
    Nothing,
}

/// The least that a server supplies to its tasks in any window in which they have something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSupply {
    shape: Shape,
    takers: Vec<Taker>,
    blackouts: Vec<Blackout>,
    retention: u64,
}

impl ServerSupply {
    /// Gives a bound from below of the supply in a window of this length.
    ///
    /// Not the best one known for every length: the supply never shrinks as a window grows, this bound may.
    #[must_use]
    pub fn supply(&self, window: Picoseconds) -> Picoseconds {
        let length = window.0;
        let gross = match self.shape {
            Shape::Nothing => 0,
            Shape::Background => u128::from(length).saturating_sub(self.interference(length)),
            Shape::Budgeted { gap, period, budget } => {
                let after = length.saturating_sub(gap);
                u128::from(after / period) * u128::from(budget) + u128::from(budget.min(after % period))
            }
        };
        let net = gross.saturating_sub(self.losses(length));
        Picoseconds(u64::try_from(net).unwrap_or(u64::MAX).min(length))
    }

    /// Gives the length of the shortest window that is surely supplied this demand; `None` when it is longer than the limit.
    #[must_use]
    pub fn completion(&self, demand: Picoseconds, limit: Picoseconds) -> Option<Picoseconds> {
        self.completion_of(u128::from(demand.0), limit.0).map(Picoseconds)
    }

    pub(super) fn completion_of(&self, demand: u128, limit: u64) -> Option<u64> {
        self.completion_from(|_| demand, 0, limit)
    }

    /// The least window, from a start on, whose supply meets its demand; demands grow with the window.
    pub(super) fn completion_from(&self, demand: impl Fn(u64) -> u128, from: u64, limit: u64) -> Option<u64> {
        let mut reached = from;
        for _ in 0..ROUNDS_MAX {
            let needed = demand(reached).checked_add(self.losses(reached))?;
            let next = match self.shape {
                Shape::Nothing => return if needed == 0 { Some(reached) } else { None },
                Shape::Background => needed + self.interference(reached),
                Shape::Budgeted { .. } if needed == 0 => 0,
                Shape::Budgeted { gap, period, budget } => {
                    let whole = (needed - 1) / u128::from(budget);
                    let rest = needed - whole * u128::from(budget);
                    whole.checked_mul(u128::from(period))?.checked_add(u128::from(gap) + rest)?
                }
            };
            if next > u128::from(limit) {
                return None;
            }
            let next = (next as u64).max(reached);
            if next == reached {
                return Some(reached);
            }
            reached = next;
        }
        None
    }

    /// The supply in windows that the lock of the server's own group does not meet.
    pub(super) fn without_own_lock(&self) -> ServerSupply {
        ServerSupply { blackouts: self.blackouts[1..].to_vec(), ..self.clone() }
    }

    fn interference(&self, length: u64) -> u128 {
        self.takers.iter().map(|taker| taker.takes(length)).sum()
    }

    fn losses(&self, length: u64) -> u128 {
        let (length, retention) = (u128::from(length), u128::from(self.retention));
        let loss = |blackout: &Blackout| {
            let all = length.div_ceil(retention) * u128::from(blackout.length);
            let met = (length + u128::from(blackout.length)).div_ceil(retention) * u128::from(blackout.loss);
            match self.shape {
                Shape::Background => all,
                _ => all.min(met),
            }
        };
        self.blackouts.iter().map(loss).sum()
    }

    /// A line below the supply: `rate t - behind`, both in exact numbers.
    pub(super) fn line(&self) -> (Ratio<BigInt>, Ratio<BigInt>) {
        let ratio = |a: u64, b: u64| Ratio::new(BigInt::from(a), BigInt::from(b));
        let whole = |a: u64| Ratio::from_integer(BigInt::from(a));
        let (mut rate, mut behind) = match self.shape {
            Shape::Nothing => (whole(0), whole(0)),
            Shape::Background => (whole(1), whole(0)),
            Shape::Budgeted { gap, period, budget } => (ratio(budget, period), ratio(budget, period) * whole(gap)),
        };
        if self.shape == Shape::Background {
            for taker in &self.takers {
                let bandwidth = ratio(taker.budget, taker.period);
                behind += whole(taker.budget) + &bandwidth * whole(taker.jitter);
                rate -= bandwidth;
            }
        }
        for blackout in &self.blackouts {
            if self.shape == Shape::Background || blackout.length <= blackout.loss {
                rate -= ratio(blackout.length, self.retention);
                behind += whole(blackout.length);
            } else {
                let lost = ratio(blackout.loss, self.retention);
                behind += whole(blackout.loss) + &lost * whole(blackout.length);
                rate -= lost;
            }
        }
        (rate, behind)
    }

    /// Gives the long-run rate of the supply, exact; not more than 0 when nothing is guaranteed.
    #[must_use]
    pub fn rate(&self) -> Ratio<BigInt> {
        self.line().0
    }
}

/// The numbers of a server that supplies depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub(super) group: usize,
    pub(super) period: u64,
    pub(super) budget: u64,
    pub(super) kind: Kind,
}

/// Refresh as numbers only.
#[derive(Clone, Debug)]
pub(super) struct PlainRefresh {
    pub(super) retention: u64,
    pub(super) lock: u64,
    pub(super) unlock: u64,
    /// Bursts of the groups.
    pub(super) bursts: Vec<u64>,
}

impl PlainRefresh {
    pub(super) fn of(system: &System) -> PlainRefresh {
        let refresh = system.refresh();
        PlainRefresh {
            retention: refresh.retention.0,
            lock: refresh.lock.0,
            unlock: refresh.unlock.0,
            bursts: refresh.groups.iter().map(|group| group.burst.0).collect(),
        }
    }

    /// Lengths of the times in which a server of a group cannot run; that for its own lock is the first.
    fn blackouts(&self, group: usize) -> Vec<u64> {
        let mut lengths = vec![self.lock + self.bursts[group] + self.unlock];
        for _ in (0..self.bursts.len()).filter(|&other| other != group) {
            lengths.extend([self.lock, self.unlock].into_iter().filter(|&length| length > 0));
        }
        lengths
    }
}

pub(super) fn plain(core: &Core) -> Vec<Plain> {
    let one = |server: &crate::crs::model::Server| Plain {
        group: server.group,
        period: server.period.0,
        budget: server.budget.0,
        kind: server.kind,
    };
    core.servers.iter().map(one).collect()
}

/// Least fixed point of `own + takers + ceil(r / tRET) blackouts`; `None` beyond the limit.
fn response(own: u64, takers: &[Taker], blackouts: &[u64], retention: u64, limit: u64) -> Option<u64> {
    let mut reached = own;
    for _ in 0..ROUNDS_MAX {
        let taken: u128 = takers.iter().map(|taker| taker.takes(reached)).sum();
        let dark: u128 = blackouts.iter().map(|&length| u128::from(length)).sum();
        let next = u128::from(own) + taken + u128::from(reached.div_ceil(retention)) * dark;
        if next > u128::from(limit) {
            return None;
        }
        if next as u64 == reached {
            return Some(reached);
        }
        reached = next as u64;
    }
    None
}

/// Adds a server to those that take time of the ones below.
fn add_taker(takers: &mut Vec<Taker>, server: &Plain, refresh: &PlainRefresh) {
    let deferred = server.period - server.budget;
    let jitter = match server.kind {
        Kind::Deferrable => deferred,
        Kind::IdleConsuming => {
            let dark = refresh.blackouts(server.group);
            let done = response(server.budget, takers, &dark, refresh.retention, server.period);
            done.map_or(deferred, |done| done - server.budget)
        }
    };
    takers.push(Taker { jitter, period: server.period, budget: server.budget });
}

/// The most that a server with this budget in each period uses of a window.
pub(super) fn used(period: u64, budget: u64, length: u64) -> u64 {
    if length <= budget {
        return length;
    }
    let after = length - budget;
    let most = u128::from(budget) * (u128::from(after / period) + 1) + u128::from(budget.min(after % period));
    u64::try_from(most).unwrap_or(u64::MAX).min(length)
}

pub(super) fn supply_of(servers: &[Plain], refresh: &PlainRefresh, index: usize) -> ServerSupply {
    let mut takers = Vec::new();
    for server in &servers[..index] {
        add_taker(&mut takers, server, refresh);
    }
    let own = servers[index];
    let shape = shape(&own, &takers);
    let budget = match shape {
        Shape::Budgeted { budget, .. } => budget,
        _ => own.budget,
    };
    let blackout = |length| Blackout { length, loss: used(own.period, budget, length) };
    let blackouts = refresh.blackouts(own.group).into_iter().map(blackout).collect();
    ServerSupply { shape, takers, blackouts, retention: refresh.retention }
}

fn shape(own: &Plain, takers: &[Taker]) -> Shape {
    if own.budget == own.period {
        return Shape::Background;
    }
    let done = |budget: u64| response(budget, takers, &[], 1, own.period);
    let budgeted =
        |budget: u64, done: u64| Shape::Budgeted { gap: own.period + done - 2 * budget, period: own.period, budget };
    if let Some(response) = done(own.budget) {
        return budgeted(own.budget, response);
    }
    let (mut fits, mut exceeds) = (0, own.budget);
    while exceeds - fits > 1 {
        let middle = fits + (exceeds - fits) / 2;
        if done(middle).is_some() { fits = middle } else { exceeds = middle }
    }
    match fits {
        0 => Shape::Nothing,
        fits => budgeted(fits, done(fits).expect("just seen")),
    }
}

/// Bounds the supply of each server of a core, in the core's order.
///
/// # Panics
///
/// When the system has no such core.
#[must_use]
pub fn supplies(system: &System, core: usize) -> Vec<ServerSupply> {
    let (servers, refresh) = (plain(&system.cores()[core]), PlainRefresh::of(system));
    (0..servers.len()).map(|index| supply_of(&servers, &refresh, index)).collect()
}

/// Bounds the time from the beginning of a period until each server of a core has used its budget, when its tasks can use
/// it from the beginning: 5.3.8, corrected.
///
/// `r = e + sum ceil((r + J) / p) e + ceil(r / tRET) (lock + burst + unlock + lock and unlock of each other group)`,
/// the sum over servers of higher priority. The locked window of the server's own group counts in full, hidden or not:
/// it does not help this server that another uses the processor. `ceil` stands for the printed `floor`, and `J` for the
/// deferral. A value above the period means that the budget may not be used up in its period; `None` means that there
/// is no value below 2^62 ps.
///
/// # Panics
///
/// When the system has no such core.
#[must_use]
pub fn server_responses(system: &System, core: usize) -> Vec<Option<Picoseconds>> {
    let (servers, refresh) = (plain(&system.cores()[core]), PlainRefresh::of(system));
    let mut takers = Vec::new();
    let mut responses = Vec::new();
    for server in &servers {
        let dark = refresh.blackouts(server.group);
        let found = response(server.budget, &takers, &dark, refresh.retention, WINDOW_MAX);
        responses.push(found.map(Picoseconds));
        add_taker(&mut takers, server, &refresh);
    }
    responses
}

/// Gives the response times of the servers of a core as printed in 5.3.8: `floor` everywhere, no lock, no deferral, and an
/// unhidden overhead `eps` for each server that has to be given. Not a bound.
///
/// # Panics
///
/// When the system has no such core, or fewer overheads are given than it has servers.
#[must_use]
pub fn printed_responses(system: &System, core: usize, overhead: &[Picoseconds]) -> Vec<Option<Picoseconds>> {
    let (servers, refresh) = (plain(&system.cores()[core]), PlainRefresh::of(system));
    let tasks = 2 * (u128::from(refresh.lock) + u128::from(refresh.unlock));
    let one = |index: usize| {
        let own = u128::from(servers[index].budget) + u128::from(overhead[index].0);
        let mut reached = u64::try_from(own).ok()?;
        for _ in 0..ROUNDS_MAX {
            let higher =
                servers[..index].iter().map(|other| u128::from(reached / other.period) * u128::from(other.budget));
            let next = own + higher.sum::<u128>() + u128::from(reached / refresh.retention) * tasks;
            let next = u64::try_from(next).ok().filter(|&next| next <= WINDOW_MAX)?;
            if next == reached {
                return Some(Picoseconds(reached));
            }
            reached = next;
        }
        None
    };
    (0..servers.len()).map(one).collect()
}

/// Gives the response time of work with a budget, below higher servers, under auto-refresh (5.3.8):
/// `r = e + sum floor(r / p) e + floor(r / tREFI) cost` as printed, `ceil` corrected. `higher` are period and budget of
/// each server above; `cost` is tRFC and the time to open a row again. `None` when there is no fixed point below 2^62
/// ps.
///
/// # Panics
///
/// When a period or `t_refi` is 0.
#[must_use]
pub fn auto_refresh_response(
    budget: Picoseconds,
    higher: &[(Picoseconds, Picoseconds)],
    t_refi: Picoseconds,
    cost: Picoseconds,
    form: Form,
) -> Option<Picoseconds> {
    let times = |length: u64, period: u64| match form {
        Form::AsPrinted => u128::from(length / period),
        Form::Corrected => u128::from(length.div_ceil(period)),
    };
    let mut reached = budget.0;
    for _ in 0..ROUNDS_MAX {
        let above: u128 = higher.iter().map(|(period, budget)| times(reached, period.0) * u128::from(budget.0)).sum();
        let next = u128::from(budget.0) + above + times(reached, t_refi.0) * u128::from(cost.0);
        let next = u64::try_from(next).ok().filter(|&next| next <= WINDOW_MAX)?;
        if next == reached {
            return Some(Picoseconds(reached));
        }
        reached = next;
    }
    None
}

/// Gives the total utilization of requirement (2) of 5.3.8 for a core: `sum e / p` of its servers and `(e_rl + e_ru) / tRET` for
/// each group, exact. The dissertation asks that it be at most 1.
///
/// [`judge`](super::judge()) does not require this: a server of lowest priority whose budget equals its period
/// guarantees it to no task.
///
/// # Panics
///
/// When the system has no such core.
#[must_use]
pub fn total_utilization(system: &System, core: usize) -> Ratio<BigUint> {
    let refresh = system.refresh();
    let ratio = |a: u64, b: u64| Ratio::new(BigUint::from(a), BigUint::from(b));
    let tasks = ratio(refresh.lock.0 + refresh.unlock.0, refresh.retention.0) * BigUint::from(refresh.groups.len());
    system.cores()[core].servers.iter().fold(tasks, |sum, server| sum + ratio(server.budget.0, server.period.0))
}

/// The reason when a test that is only sufficient does not say yes.
pub(super) fn inconclusive(demand: u128, supplied: Picoseconds) -> Unsupported {
    let whole = |value: u128| Ratio::from_integer(BigUint::from(value));
    Unsupported::Inconclusive { found: whole(demand), most: whole(supplied.0.into()) }
}
