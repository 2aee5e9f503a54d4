//! How well is a program's run time under a budget predicted from its profile?

use crate::common::{CORE_2_QUAD, Machine, run};
use memtint_sched::{Regulator, Stretch, predicted_run_time};
use memtint_sim::Report;
use memtint_units::Picoseconds;

/// A program alone on one core of a Core 2 Quad, with this budget in lines per period.
fn alone(program: &str, references: u64, period_us: u64, budget: u64, more: &str) -> Report {
    let bandwidth = format!(
        "[simulation.bandwidth]\nperiod = \"{period_us} us\"\nquantum = 64\nguaranteed_mb_per_s = 100000\n{more}\n"
    );
    let machine = Machine {
        duration: "400 ms",
        count: 1,
        caches: "latency_cycles = [3, 14, 14, 60, 150]\nl1 = { size = \"32 KiB\", ways = 8 }\n\
                 llc = { size = \"2 MiB\", ways = 8 }",
        tables: &bandwidth,
        ..CORE_2_QUAD
    };
    let group = format!("[[group]]\nname = \"program\"\ncores = \"0\"\nbudget = \"{} B\"\n", budget * 64);
    let task =
        format!("[[task]]\nname = \"program\"\ncores = \"0\"\nprogram = \"{program}\"\nreferences = {references}\n");
    run(&machine.text(&[group, task]))
}

/// Alone and not throttled, in stretches of 20 us.
fn profile(program: &str, references: u64) -> Vec<Stretch> {
    let report = alone(program, references, 20, 20_000, "history = true");
    let bandwidth = report.bandwidth.as_ref().expect("it has a budget");
    assert_eq!(bandwidth.regulators[0].throttled_periods, 0);
    let starts = bandwidth.history.iter().map(|period| period.began_ns);
    let ends = starts.skip(1).chain([report.simulated_ns]);
    let stretch = |(period, end): (&memtint_sim::report::PeriodReport, f64)| Stretch {
        time: Picoseconds(((end - period.began_ns) * 1000.0) as u64),
        lines: period.events,
    };
    bandwidth.history.iter().zip(ends).map(stretch).collect()
}

#[test]
fn run_times_of_programs_under_budgets_are_predicted_from_their_profiles() {
    let models = memtint_workload::catalogue::all().unwrap();
    let (mut errors, mut without_profile) = (Vec::new(), Vec::new());
    for model in &models {
        let program = format!("{}/{}", model.set, model.name);
        let profile = profile(&program, 60_000);
        let time: u64 = profile.iter().map(|stretch| stretch.time.0).sum();
        let lines: u64 = profile.iter().map(|stretch| stretch.lines).sum();
        for share in [0.3, 0.6, 0.9] {
            let budget = (lines as f64 * 100e6 / time as f64 * share) as u64;
            if budget == 0 {
                continue;
            }
            let report = alone(&program, 60_000, 100, budget, "");
            let regulator = Regulator::new(Picoseconds::from_ns(100_000), budget, Picoseconds(0)).unwrap();
            let predicted = predicted_run_time(&profile, &regulator).unwrap().as_ns();
            let error = predicted / report.simulated_ns - 1.0;
            // A program whose lines all come evenly.
            let even = [Stretch { time: Picoseconds(time), lines }];
            let even = predicted_run_time(&even, &regulator).unwrap().as_ns() / report.simulated_ns - 1.0;
            without_profile.push(even.abs());
            println!(
                "{}/{} at {share}: alone {:.3} ms, {lines} lines, budget {budget}: {:.3} ms, predicted {:.3}: {:+.1} %",
                model.set,
                model.name,
                time as f64 / 1e9,
                report.simulated_ns / 1e6,
                predicted / 1e6,
                error * 100.0
            );
            errors.push(error.abs());
        }
    }
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    let greatest = errors.iter().copied().fold(0.0, f64::max);
    let (mean, even) = (mean(&errors), mean(&without_profile));
    println!(
        "{} runs, mean error {:.2} %, greatest {:.1} %, without a profile {:.2} %",
        errors.len(),
        mean * 100.0,
        greatest * 100.0,
        even * 100.0
    );
    assert!(mean < 0.01 && greatest < 0.05, "mean {mean}, greatest {greatest}");
    assert!(even > 5.0 * mean, "a profile says nothing: {even}");
}
