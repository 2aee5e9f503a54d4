//! Random task sets, computed with integers only.

use memtint_sched::{TaskSet, TaskSpec};
use memtint_units::{Picoseconds, Random};

/// Periods are in this range, in whole nanoseconds.
pub(super) const PERIOD_MIN_NS: u64 = 10_000;
pub(super) const PERIOD_MAX_NS: u64 = 1_000_000;
/// Utilizations are drawn in parts of this.
const PARTS: u64 = 1 << 40;

/// Draws a task set with implicit deadlines. Its utilization is `percent`, reduced slightly because each WCET is
/// rounded down to whole nanoseconds.
pub(super) fn draw(random: &mut Random, tasks: usize, percent: u64) -> TaskSet {
    let shares = shares(random, tasks, PARTS / 100 * percent);
    let specs = shares.into_iter().enumerate().map(|(index, share)| {
        let period = log_uniform(random);
        let wcet = (u128::from(period) * u128::from(share) / u128::from(PARTS)) as u64;
        TaskSpec::new(format!("t{index}"), Picoseconds::from_ns(period), Picoseconds::from_ns(wcet.max(1)))
    });
    TaskSet::new(specs.collect::<Vec<_>>()).expect("all times are in range")
}

/// Splits a sum at random positions, so that all splits are equally probable: the distribution of UUniFast (Bini and
/// Buttazzo 2005) without its roots.
fn shares(random: &mut Random, count: usize, sum: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (1..count).map(|_| random.index(sum as usize + 1) as u64).collect();
    cuts.push(sum);
    cuts.sort_unstable();
    let before = [0].into_iter().chain(cuts.clone());
    cuts.iter().zip(before).map(|(cut, before)| cut - before).collect()
}

/// Draws a period whose logarithm is uniform, by rejection: a uniform number is kept with probability minimum / number.
fn log_uniform(random: &mut Random) -> u64 {
    loop {
        let period = PERIOD_MIN_NS + random.index((PERIOD_MAX_NS - PERIOD_MIN_NS) as usize + 1) as u64;
        if (random.index(period as usize) as u64) < PERIOD_MIN_NS {
            return period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_up_the_sum_and_periods_are_log_uniform() {
        let mut random = Random::new(5);
        for _ in 0..100 {
            assert_eq!(shares(&mut random, 10, 1_000_003).into_iter().sum::<u64>(), 1_000_003);
        }
        // Half of them are below the geometric mean, 100 us.
        let below = (0..10_000).filter(|_| log_uniform(&mut random) < 100_000).count();
        assert!((4_800..5_200).contains(&below), "{below} of 10000");
        // The mean of the first share is a tenth.
        let firsts: u64 = (0..10_000).map(|_| shares(&mut random, 10, 1000)[0]).sum();
        assert!((960_000..1_040_000).contains(&firsts), "{firsts}");
    }
}
