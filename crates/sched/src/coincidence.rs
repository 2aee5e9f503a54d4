//! Windows at whose end deadlines of all tasks nearly coincide, found without a walk from deadline to deadline.
//!
//! *The windows that determine a budget under EDF.* Let `y_i` be the last deadline of task `i` at or before `t`,
//! `r_i = t - y_i`, `u_i = C_i / T_i`, `U` their sum, `f_i = D_i - J_i`. From the latest `f_i` on,
//! `dbf(t) = sum u_i (y_i + T_i - f_i) + blocking`. A resource of bandwidth `v = U + e` falls short in `t` only if its
//! linear supply `v t - 2 v (1 - v) P` does, that is, if
//!
//! ```text
//! sum u_i r_i + e t < c      with c = 2 v (1 - v) P + sum u_i (T_i - f_i) + the largest blocking
//! ```
//!
//! So each `r_i` is less than `c / u_i`. Five tasks with a load of 0.9 can need 10^8 periods to come as near to each other.
//!
//! *A simplex.* For some tasks, called tight, with `U` and `S = sum u_i y_i` now of these alone, the above holds all the more, and
//! `t` is not before any `y_i`, so that
//!
//! ```text
//! a_i = u_i (c + S - (U + e) y_i) > 0   for each of k tight tasks, and   a_0 = e (c + S) > 0
//! ```
//!
//! (the last because `c + S > (U + e) t`). These k + 1 numbers add up to `(U + e) c`: the points `y` are in a simplex. They are also on
//! a grid, `y_i = f_i - T_i + n_i T_i`. In the coordinates `n` the simplex is long and thin. The grid gets another basis, reduced in
//! the metric of the `a`, in which the points of the simplex have small coordinates `x`.
//!
//! *All of its points.* Coordinates are fixed one after the other. Those after coordinate `l` bound it by sums of the inequalities in
//! which the coordinates before it cancel: the weights are minors of the basis (Cramer), good where none is negative. Each inequality is
//! loosened by as much as roundings can do to it, so that a window may be visited for nothing, and none is left out. The
//! basis only decides how long it takes.

use crate::edf::Demand;
use crate::task::{Task, TaskIndex};
use crate::verdict::{Steps, Unsupported, window};
use num_bigint::BigUint;
use num_rational::Ratio;

/// Tight tasks there can be.
const TIGHT_MAX: usize = 8;
/// Bits of a minor of the basis, without what sums add.
const MINOR_BITS: u32 = 96;
/// Roundings are less than `2^-7` of what they are compared with.
const FINE_BITS: u32 = 7;
/// Bits of squared numbers.
const FACTOR_BITS: u32 = 58;
/// Steps after which a basis is taken as it is; a hundred are many.
const REDUCTION_MAX: u32 = 1000;
/// Excess bandwidths `e` are in parts of this.
const EXCESS_ONE: u128 = 1 << 64;
/// Binary places of a job, of a job by picosecond, of a coordinate at a corner, and of a quotient.
const SHIFT_BITS: u32 = 60;
const SLOPE_BITS: u32 = 80;
const CORNER_BITS: u32 = 12;
const QUOTIENT_BITS: u32 = 6;

type Coordinates = [i64; TIGHT_MAX];
type Shares = [i128; TIGHT_MAX + 1];

/// A vector of the basis.
#[derive(Clone, Copy)]
struct Vector {
    /// How many jobs of each tight task it is.
    jobs: Coordinates,
    /// Its coordinate of a point, as a sum of the point's jobs: a row of the inverse matrix.
    dual: Coordinates,
    /// Its contribution to each `a`.
    shares: Shares,
    /// Its coordinate at each corner of the simplex, less the mean of them; only for the choice of a basis.
    corners: Shares,
}

/// A bound of one coordinate from those after it: `constant + sum factors x >= 0`.
struct Bound {
    constant: i128,
    factors: Shares,
}

/// The tasks of a set, and a basis of the grid of their deadlines.
pub(crate) struct Coincidences<'a> {
    /// Those of the longest jobs, as long as each makes the simplex smaller.
    tight: Vec<&'a Task>,
    loose: Vec<&'a Task>,
    /// Utilization in parts of [`EXCESS_ONE`], of all tasks, rounded up.
    load: u128,
    /// Of tight tasks alone.
    tight_load: u128,
    period: u64,
    /// `sum u_i (T_i - f_i)` and the largest blocking, rounded up.
    ahead: i128,
    basis: Vec<Vector>,
}

/// The simplex of one excess bandwidth.
struct Simplex {
    /// `c`, rounded up.
    room: u128,
    /// Excess bandwidth.
    excess: u128,
    /// No window of it is longer.
    longest: u64,
}

/// Utilization in parts of [`EXCESS_ONE`], rounded up.
fn load(task: &Task) -> u128 {
    (u128::from(task.wcet().0) * EXCESS_ONE).div_ceil(task.period().0.into())
}

/// `u r`, rounded down.
fn lost(task: &Task, since: i128) -> u128 {
    since.unsigned_abs() * u128::from(task.wcet().0) / u128::from(task.period().0)
}

/// `f - T`: the deadline of the job before the first.
fn origin(task: &Task) -> i128 {
    i128::from(Demand::first(task).unwrap_or(0)) - i128::from(task.period().0)
}

impl<'a> Coincidences<'a> {
    /// Prepares to look for windows in which a resource of this period falls short; `None` where they are not rare.
    pub(crate) fn new(tasks: &'a [Task], period: u64) -> Option<Coincidences<'a>> {
        let load = tasks.iter().map(self::load).sum();
        let ahead = |task: &Task| {
            let (wcet, period) = (i128::from(task.wcet().0), i128::from(task.period().0));
            -(wcet * origin(task)).div_euclid(period)
        };
        let blocking = tasks.iter().map(|task| task.blocking().0).max().unwrap_or(0);
        let ahead = tasks.iter().map(ahead).sum::<i128>() + i128::from(blocking);
        let (tight, loose, basis) = (tasks.iter().collect(), Vec::new(), Vec::new());
        let mut all = Coincidences { tight, loose, load, tight_load: 0, period, ahead, basis };
        let room = all.room(0)?;
        all.tight.sort_by_key(|task| std::cmp::Reverse(task.wcet()));
        let smaller = |(task, dimension): &(&&Task, u128)| u128::from(task.wcet().0) * dimension > room;
        let count = all.tight.iter().zip(1..=TIGHT_MAX as u128).take_while(smaller).count();
        if count == 0 {
            return None;
        }
        all.loose = all.tight.split_off(count);
        all.tight_load = all.tight.iter().map(|task| self::load(task)).sum();
        let unit = |index: usize| {
            let mut jobs = [0; TIGHT_MAX];
            jobs[index] = 1;
            Vector { jobs, dual: jobs, shares: [0; TIGHT_MAX + 1], corners: [0; TIGHT_MAX + 1] }
        };
        all.basis = (0..count).map(unit).collect();
        Some(all)
    }

    /// `c` for an excess bandwidth, rounded up; `None` where it is not more than 0: then no window falls short.
    fn room(&self, excess: u128) -> Option<u128> {
        // Of the load at most one part for each task is rounded; 32 bits keep the product below 128.
        let above = ((self.load + excess) >> 32) + 1;
        let below = ((self.load + excess) >> 32).saturating_sub(1);
        let gaps = (2 * u128::from(self.period) * above * (1u128 << 32).saturating_sub(below)) >> 64;
        u128::try_from(i128::try_from(gaps).ok()? + 1 + self.ahead).ok().filter(|&room| room > 0)
    }

    /// `None` where no window falls short.
    fn simplex(&self, excess: u128) -> Result<Option<Simplex>, Unsupported> {
        let Some(room) = self.room(excess) else { return Ok(None) };
        let longest = room.checked_mul(EXCESS_ONE).map_or(u128::MAX, |room| room / excess + 1);
        Ok(Some(Simplex { room, excess, longest: window(longest, TaskIndex(0))? }))
    }

    /// The excess bandwidth whose simplex has `points` points, by its volume.
    pub(crate) fn excess_of(&self, points: u128) -> Option<u128> {
        let room = self.room(0)?;
        let corner = |excess: u128, (task, dimension): (&&Task, u128)| {
            Some(excess.checked_mul(room)? / u128::from(task.wcet().0) / dimension)
        };
        Some((self.tight.iter().zip(1..).try_fold(self.tight_load, corner)? / points).clamp(1, EXCESS_ONE))
    }

    /// By how much the bandwidth of a budget exceeds the utilization, rounded down.
    pub(crate) fn excess_below(&self, budget_ps: &Ratio<BigUint>) -> u128 {
        let bandwidth = (budget_ps.numer() * EXCESS_ONE) / (budget_ps.denom() * self.period);
        u128::try_from(bandwidth).expect("a budget within the period").saturating_sub(self.load)
    }

    /// No window longer than this can fall short of a bandwidth that exceeds the utilization by `excess`.
    pub(crate) fn longest(&self, excess: u128) -> Result<u64, Unsupported> {
        Ok(self.simplex(excess)?.map_or(0, |simplex| simplex.longest))
    }

    /// Visits all windows beyond `from` in which a resource whose bandwidth exceeds the utilization by `excess` can
    /// fall short, and some others. `false` if numbers do not fit.
    ///
    /// `from` is not before the first deadline of any task.
    pub(crate) fn each(
        &mut self,
        excess: u128,
        from: u64,
        steps: &mut Steps,
        visit: &mut impl FnMut(u64),
    ) -> Result<bool, Unsupported> {
        let Some(simplex) = self.simplex(excess)? else { return Ok(true) };
        let Some((constants, slack, bits)) = self.measure(&simplex) else { return Ok(false) };
        if !self.reduce(steps)? {
            return Ok(false);
        }
        let Some(reach) = self.reach(&simplex) else { return Ok(false) };
        let Some(levels) = self.levels(constants, slack, bits, &reach) else { return Ok(false) };
        let mut point = [0; TIGHT_MAX];
        self.descend(&levels, &reach, &mut point, steps, &mut |jobs, steps| {
            self.windows(&simplex, jobs, from, steps, visit)
        })?;
        Ok(true)
    }

    /// Gives each vector its shares, in parts of 1 ps, and its corners; also finds the constants of the inequalities, by how much
    /// rounding can make them too small, and the bits of their sum.
    fn measure(&mut self, simplex: &Simplex) -> Option<(Shares, i128, u32)> {
        let count = self.tight.len();
        let jobs: u128 = self.tight.iter().map(|task| u128::from(simplex.longest / task.period().0) + 2).sum();
        // Of each job, a share on the diagonal is a sum of as many roundings as there are tasks.
        let slack = (count as u128 + 1).checked_mul(jobs)?;
        let sum = (((self.tight_load + simplex.excess) >> 32) * simplex.room) >> 32;
        let bits = |value: u128| u128::BITS - value.leading_zeros();
        let finer = (bits(slack) + FINE_BITS).saturating_sub(bits(sum)).min(64);
        let part = 1u128 << finer;
        let times = |task: &Task, time: u128| {
            Some(u128::from(task.wcet().0).checked_mul(time)?.checked_mul(part)? / u128::from(task.period().0))
        };
        let over = |time: u128| Some(simplex.excess.checked_mul(time)?.checked_mul(part)? / EXCESS_ONE);
        let mut columns = [[0i128; TIGHT_MAX + 1]; TIGHT_MAX];
        for (index, own) in self.tight.iter().enumerate() {
            let (column, wcet) = (&mut columns[index], u128::from(own.wcet().0));
            column[0] = i128::try_from(over(wcet)?).ok()?;
            for (other, task) in self.tight.iter().enumerate().filter(|&(other, _)| other != index) {
                column[other + 1] = i128::try_from(times(task, wcet)?).ok()?;
            }
            // What a job adds to all is 0.
            column[index + 1] = -column.iter().try_fold(0i128, |sum, &share| sum.checked_add(share))?;
        }
        let mut constants = [0; TIGHT_MAX + 1];
        constants[0] = i128::try_from(over(simplex.room)?).ok()?;
        for (constant, task) in constants[1..].iter_mut().zip(&self.tight) {
            *constant = i128::try_from(times(task, simplex.room)?).ok()?;
        }
        for (task, column) in self.tight.iter().zip(&columns) {
            for (constant, share) in constants.iter_mut().zip(column) {
                let before = share.checked_mul(origin(task))?.div_euclid(task.period().0.into());
                *constant = constant.checked_add(before)?;
            }
        }
        for vector in &mut self.basis {
            vector.shares = [0; TIGHT_MAX + 1];
            for (column, &jobs) in columns.iter().zip(&vector.jobs) {
                for (sum, share) in vector.shares.iter_mut().zip(column) {
                    *sum = sum.checked_add(share.checked_mul(jobs.into())?)?;
                }
            }
            vector.corners = corners(&self.tight, simplex, &vector.dual)?;
            if !fits(&vector.shares) || !fits(&vector.corners) {
                return None;
            }
        }
        Some((constants, i128::try_from(slack).ok()? + count as i128 + 2, bits(sum) + finer))
    }

    /// Takes multiples of vectors from each other until no pair gets better, and sorts them by length.
    ///
    /// Better is a smaller sum of all `|b|^2 |d|^2`, where `d` is the row of the inverse matrix that belongs to `b` (Seysen 1993). Lengths
    /// alone end too early: three vectors in nearly one plane need not shorten each other in pairs.
    fn reduce(&mut self, steps: &mut Steps) -> Result<bool, Unsupported> {
        let count = self.basis.len();
        let pairs = || (0..count).flat_map(|long| (0..count).map(move |short| (long, short)));
        let (mut settled, mut taken) = (0, 0);
        for (long, short) in pairs().cycle() {
            settled += 1;
            if settled > count * count || taken == REDUCTION_MAX {
                break;
            }
            if long == short {
                continue;
            }
            let (mut to, mut from) = (self.basis[long], self.basis[short]);
            let (length, inverse) = (product(&from.shares, &from.shares), product(&to.corners, &to.corners));
            if length == 0 || inverse == 0 {
                return Ok(false);
            }
            let twice = (product(&to.shares, &from.shares) << QUOTIENT_BITS) / length
                - (product(&to.corners, &from.corners) << QUOTIENT_BITS) / inverse;
            // A little more than half, or there might be many steps for nothing.
            if twice.abs() <= (1 << QUOTIENT_BITS) + (1 << (QUOTIENT_BITS - 3)) {
                continue;
            }
            steps.step()?;
            let times = (twice + (1 << QUOTIENT_BITS)) >> (QUOTIENT_BITS + 1);
            if take(&mut to, &mut from, times).is_none() {
                return Ok(false);
            }
            (self.basis[long], self.basis[short]) = (to, from);
            (settled, taken) = (0, taken + 1);
        }
        self.basis.sort_by_key(|vector| product(&vector.shares, &vector.shares));
        Ok(true)
    }

    /// The largest absolute value of each coordinate of a window of the simplex.
    ///
    /// `n_j = (t - r_j - origin_j) / T_j`, so a coordinate `sum d_j n_j` is at most `t |sum d_j / T_j|`, what the origins add, and the most
    /// that `sum u_j r_j < c` allows: `c |d_j| / C_j` for one of the tasks.
    fn reach(&self, simplex: &Simplex) -> Option<Coordinates> {
        let mut reach = [0; TIGHT_MAX];
        for (most, vector) in reach.iter_mut().zip(&self.basis) {
            let (mut slope, mut shift, mut rounded, mut rest) = (0i128, 0i128, 0u128, 0u128);
            for (task, &jobs) in self.tight.iter().zip(&vector.dual) {
                let period = i128::from(task.period().0);
                slope = slope.checked_add(((1 << SLOPE_BITS) / period).checked_mul(jobs.into())?)?;
                shift = shift.checked_add((origin(task) << SHIFT_BITS).div_euclid(period).checked_mul(jobs.into())?)?;
                rounded = rounded.checked_add(jobs.unsigned_abs().into())?;
                let tasks = simplex.room.checked_mul(jobs.unsigned_abs().into())?;
                rest = rest.max(tasks.div_ceil(task.wcet().0.into()));
            }
            let along = (slope.unsigned_abs() + rounded).checked_mul(simplex.longest.into())? >> SLOPE_BITS;
            let shift = (shift.unsigned_abs() + rounded) >> SHIFT_BITS;
            *most = i64::try_from(along.checked_add(shift)?.checked_add(rest)? + 2).ok()?;
        }
        // So that the jobs of a point fit.
        for job in 0..self.tight.len() {
            self.basis.iter().zip(&reach).try_fold(0i64, |sum, (vector, most)| {
                sum.checked_add(vector.jobs[job].checked_abs()?.checked_mul(*most)?)
            })?;
        }
        Some(reach)
    }

    /// The bounds of each coordinate.
    fn levels(&self, constants: Shares, slack: i128, bits: u32, reach: &Coordinates) -> Option<Vec<Vec<Bound>>> {
        let count = self.basis.len();
        let coarser = bits.saturating_sub((MINOR_BITS / count as u32).min(30));
        let shares: Vec<Shares> = self.basis.iter().map(|vector| vector.shares.map(|share| share >> coarser)).collect();
        let total: i128 = reach[..count].iter().map(|&most| i128::from(most)).sum();
        let constants = constants.map(|constant| ((constant + slack) >> coarser) + 1 + total);
        // Of the first vectors, as many as there are rows in the mask.
        let mut minors = vec![0i128; 1 << (count + 1)];
        minors[0] = 1;
        let mut levels: Vec<Vec<Bound>> = (0..count).map(|_| Vec::new()).collect();
        for mask in 1usize..minors.len() {
            let level = mask.count_ones() as usize - 1;
            if level == count {
                continue;
            }
            let rows = || (0..=count).filter(|row| mask >> row & 1 == 1);
            let mut weights = [0i128; TIGHT_MAX + 1];
            let mut minor = 0i128;
            for (place, row) in rows().enumerate() {
                let sign = if (place + level).is_multiple_of(2) { 1 } else { -1 };
                weights[row] = sign * minors[mask & !(1 << row)];
                minor = minor.checked_add(weights[row].checked_mul(shares[level][row])?)?;
            }
            minors[mask] = minor;
            if weights.iter().all(|&weight| weight <= 0) {
                weights = weights.map(|weight| -weight);
            }
            if minor == 0 || weights.iter().any(|&weight| weight < 0) {
                continue;
            }
            let mut bound = Bound { constant: 0, factors: [0; TIGHT_MAX + 1] };
            let mut most = 0i128;
            for row in rows() {
                bound.constant = bound.constant.checked_add(weights[row].checked_mul(constants[row])?)?;
            }
            for later in level..count {
                for row in rows() {
                    let add = weights[row].checked_mul(shares[later][row])?;
                    bound.factors[later] = bound.factors[later].checked_add(add)?;
                }
                let add = i128::try_from(bound.factors[later].unsigned_abs()).ok()?.checked_mul(reach[later].into())?;
                most = most.checked_add(add)?;
            }
            bound.constant.checked_abs()?.checked_add(most)?;
            levels[level].push(bound);
        }
        Some(levels)
    }

    /// Finds all points whose last coordinates are those of `point`; `levels` are those of the others.
    fn descend(
        &self,
        levels: &[Vec<Bound>],
        reach: &Coordinates,
        point: &mut Coordinates,
        steps: &mut Steps,
        found: &mut impl FnMut(&Coordinates, &mut Steps) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let Some((bounds, before)) = levels.split_last() else {
            let mut jobs = [0; TIGHT_MAX];
            for (vector, &times) in self.basis.iter().zip(&*point) {
                for (sum, &jobs) in jobs.iter_mut().zip(&vector.jobs) {
                    *sum += jobs * times;
                }
            }
            return found(&jobs, steps);
        };
        let own = before.len();
        let (mut least, mut most) = (-i128::from(reach[own]), i128::from(reach[own]));
        for bound in bounds {
            let later = own + 1..self.basis.len();
            let rest = later.fold(bound.constant, |sum, later| sum + bound.factors[later] * i128::from(point[later]));
            let factor = bound.factors[own];
            let limit = rest.div_euclid(factor.abs());
            if factor > 0 { least = least.max(-limit) } else { most = most.min(limit) }
        }
        for value in least..=most {
            steps.step()?;
            point[own] = value as i64;
            self.descend(before, reach, point, steps, found)?;
        }
        Ok(())
    }

    /// Visits the windows in which these are the last jobs of tight tasks.
    fn windows(
        &self,
        simplex: &Simplex,
        jobs: &Coordinates,
        from: u64,
        steps: &mut Steps,
        visit: &mut impl FnMut(u64),
    ) -> Result<(), Unsupported> {
        let mut lasts = [0; TIGHT_MAX];
        for ((last, task), &jobs) in lasts.iter_mut().zip(&self.tight).zip(jobs) {
            *last = origin(task) + i128::from(task.period().0) * i128::from(jobs);
        }
        let lasts = &lasts[..self.tight.len()];
        let ends = self.tight.iter().zip(lasts);
        let next = ends.clone().map(|(task, last)| last + i128::from(task.period().0)).min().expect("a tight task");
        let mut end = lasts.iter().copied().max().expect("a tight task");
        let longest = i128::from(simplex.longest);
        while end < next && end <= longest {
            let lost = ends.clone().map(|(task, last)| lost(task, end - last)).sum::<u128>();
            // For a negative end the room left is only larger.
            let over = (simplex.excess >> 2).saturating_mul(end.max(0) as u128) >> 62;
            if lost + over > simplex.room {
                break;
            }
            let since = |task: &Task| (end - origin(task)).rem_euclid(task.period().0.into());
            let rest = self.loose.iter().map(|task| self::lost(task, since(task)));
            if end > i128::from(from) && lost + over + rest.sum::<u128>() <= simplex.room {
                visit(end as u64);
            }
            let later = |task: &&Task| {
                let first = i128::from(Demand::first(task).unwrap_or(0));
                let period = i128::from(task.period().0);
                first + ((end.max(from.into()) - first).div_euclid(period) + 1) * period
            };
            let Some(after) = self.loose.iter().map(later).min() else { break };
            steps.step()?;
            end = after;
        }
        Ok(())
    }
}

/// Whether a scalar product of such vectors fits.
fn fits(vector: &Shares) -> bool {
    vector.iter().all(|value| value.unsigned_abs() >> FACTOR_BITS == 0)
}

fn product(a: &Shares, b: &Shares) -> i128 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Takes a multiple of one vector from another. What points have less of the one, they have more of the other.
fn take(to: &mut Vector, from: &mut Vector, times: i128) -> Option<()> {
    let few = i64::try_from(times).ok()?;
    for job in 0..TIGHT_MAX {
        to.jobs[job] = to.jobs[job].checked_sub(from.jobs[job].checked_mul(few)?)?;
        from.dual[job] = from.dual[job].checked_add(to.dual[job].checked_mul(few)?)?;
    }
    for row in 0..=TIGHT_MAX {
        to.shares[row] = to.shares[row].checked_sub(from.shares[row].checked_mul(times)?)?;
        from.corners[row] = from.corners[row].checked_add(to.corners[row].checked_mul(times)?)?;
    }
    (fits(&to.shares) && fits(&from.corners)).then_some(())
}

/// What a coordinate is at each corner, less the mean: at one corner only `t` is not 0, at each other only one `r_i`.
fn corners(tight: &[&Task], simplex: &Simplex, dual: &Coordinates) -> Option<Shares> {
    let mut corners = [0; TIGHT_MAX + 1];
    let mut slope = 0i128;
    let room = i128::try_from(simplex.room).ok()?;
    for (index, (task, &jobs)) in tight.iter().zip(dual).enumerate() {
        slope = slope.checked_add(((1 << SLOPE_BITS) / i128::from(task.period().0)).checked_mul(jobs.into())?)?;
        let at = room.checked_mul(jobs.into())?.checked_mul(1 << CORNER_BITS)? / i128::from(task.wcet().0);
        corners[index + 1] = at.checked_neg()?;
    }
    corners[0] = slope.checked_mul(simplex.longest.into())? >> (SLOPE_BITS - CORNER_BITS);
    let corners_used = &mut corners[..=tight.len()];
    let count = corners_used.len() as i128;
    let sum = corners_used.iter().try_fold(0i128, |sum, &corner| sum.checked_add(corner))?;
    for corner in corners_used {
        *corner = corner.checked_mul(count)?.checked_sub(sum)?;
    }
    Some(corners)
}
