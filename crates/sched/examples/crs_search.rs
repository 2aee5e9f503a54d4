//! How much faster the optimizer is than Algorithm 7, corrected, on the task set of table 5.2 (Pan 2018), and what it takes for 50
//! tasks. Prints a table; both find the same cost, which is asserted.
//!
//! `cargo run --release -p memtint-sched --example crs_search [unit in microseconds] [longest period in units]`

use memtint_sched::crs::{
    Algorithm7, Density, Form, Inner, Kind, RankOrder, Refresh, Space, algorithm_7, burst, optimize,
};
use memtint_sched::{Effort, TaskSet, TaskSpec};
use memtint_units::Picoseconds;
use std::time::Instant;

fn us(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1000)
}

fn space(density: Density, unit: u64, steps: u64) -> Space {
    let length = burst(density, 4, 8, RankOrder::Parallel, Form::Corrected);
    let refresh = Refresh::two_colors(8, us(64_000), length);
    let phases = vec![[us(32_000), us(0)]];
    Space::new(8, refresh, phases, us(unit), us(unit * steps), Kind::Deferrable, Inner::Edf).expect("a space")
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let (unit, steps) = (arguments.next().unwrap_or(100), arguments.next().unwrap_or(40));
    let table = [("cnt", 20_000, 3000), ("compress", 10_000, 1200), ("lms", 10_000, 1600), ("matmult", 40_000, 10_000)];
    let table = table.into_iter().chain([("st", 8000, 2000)]);
    let set = TaskSet::new(table.map(|(name, period, wcet)| TaskSpec::new(name, us(period), us(wcet)))).expect("a set");
    let second = [false, true, false, true, false];
    let effort = Effort::default();
    for density in [Density::Gb1, Density::Gb2, Density::Gb4] {
        let space = space(density, unit, steps);
        let begin = Instant::now();
        let ours = optimize(&set, Some(&second), &space, effort).expect("an answer");
        let quick = begin.elapsed();
        let begin = Instant::now();
        let free = optimize(&set, None, &space, effort).expect("an answer");
        let assigned = begin.elapsed();
        let cost = |best: &Option<memtint_sched::crs::Optimum>| best.as_ref().map(|best| best.unhidden.clone());
        println!("{density:?}: optimizer {quick:?}, with assignment {assigned:?} (cost {:?})", cost(&free));
        if let Some(best) = &ours {
            println!("  periods {:?} budgets {:?}, {} costed", best.choice.periods, best.choice.budgets, best.costed);
        }
        let begin = Instant::now();
        let Ok(Algorithm7::Best(theirs)) = algorithm_7(&set, &second, &space, Form::Corrected, effort) else {
            println!("  algorithm 7 refuses");
            continue;
        };
        let slow = begin.elapsed();
        assert_eq!(cost(&ours), cost(&theirs), "both are optimal");
        println!("  algorithm 7 {slow:?}, {}x (cost {:?})", slow.as_nanos() / quick.as_nanos().max(1), cost(&theirs));
    }
    for load in [500, 750, 900] {
        let (begin, set) = (Instant::now(), fifty(load));
        let best = optimize(&set, None, &space(Density::Gb2, 500, 16), effort);
        println!(
            "50 tasks, load {load}/1000: {:?}, {:?}",
            begin.elapsed(),
            best.map(|best| best.map(|best| best.unhidden))
        );
    }
}

/// Fifty tasks of 10 to 100 ms with a load in thousandths.
fn fifty(load: u64) -> TaskSet {
    let periods = [10_000, 12_500, 16_000, 20_000, 25_000, 32_000, 40_000, 50_000, 80_000, 100_000];
    let task = |index: u64| {
        let period = periods[(index * 7 % 10) as usize];
        let share = load * (5 + index % 11) / (50 * 10);
        TaskSpec::new(format!("t{index}"), us(period), us(period * share / 1000))
    };
    TaskSet::new((0..50).map(task)).expect("a set")
}
