//! Numbers from reports.

use crate::allocation::Steps;
use crate::figure::Measure;
use memtint_sim::Report;
use memtint_sim::report::TaskReport;

const NS_PER_MS: f64 = 1e6;

/// Takes a measure from a report; `None` when the report has no such task, or the measure is not defined (a mean of
/// nothing).
pub(crate) fn of_report(report: &Report, task: Option<&str>, measure: Measure) -> Option<f64> {
    match task {
        Some(name) => of_task(report.tasks.iter().find(|task| task.name == name)?, report, measure),
        None => of_all(report, measure),
    }
}

fn share(part: u64, rest: u64) -> Option<f64> {
    (part + rest > 0).then(|| part as f64 / (part + rest) as f64)
}

fn of_task(task: &TaskReport, report: &Report, measure: Measure) -> Option<f64> {
    let response = || task.response_ns.filter(|response| response.count > 0);
    let execution = || task.execution_ns.filter(|execution| execution.count > 0);
    let value = match measure {
        Measure::ReadLatencyNs => Some(task.read_latency_ns).filter(|latency| latency.count > 0)?.mean,
        Measure::ReferenceNs => task.completed_ns.unwrap_or(report.simulated_ns) / task.references as f64,
        Measure::Ipc => task.ipc,
        Measure::Mips => task.instructions_per_second / 1e6,
        Measure::BandwidthMbPerS => (task.read_bytes_per_second + task.write_bytes_per_second) / 1e6,
        Measure::UnderrunPercent => {
            let regulators = &report.bandwidth.as_ref()?.regulators;
            let own = regulators.iter().find(|regulator| regulator.group == task.name)?;
            100.0 * own.underruns as f64 / own.periods as f64
        }
        Measure::WriteShare => task.write_bytes_per_second / task.read_bytes_per_second,
        Measure::LlcMpki => task.llc_misses_per_kilo_instruction,
        Measure::LlcMisses => task.llc_misses as f64,
        Measure::LlcMissPercent => 100.0 * share(task.llc_misses, task.llc_hits + task.peer_hits)?,
        Measure::RowMissPercent => 100.0 * share(task.row_misses + task.row_conflicts, task.row_hits)?,
        Measure::ResponseMeanMs => response()?.mean / NS_PER_MS,
        Measure::ResponseP99Ms => response()?.p99 / NS_PER_MS,
        Measure::ResponseDeviationMs => response().filter(|response| response.count > 1)?.deviation / NS_PER_MS,
        Measure::ResponseMaxMs => response()?.max / NS_PER_MS,
        Measure::ResponseSpreadPercent => {
            let response = response()?;
            100.0 * (response.max - response.min) / response.mean
        }
        Measure::ExecutionMeanMs => execution()?.mean / NS_PER_MS,
        Measure::ExecutionMinMs => execution()?.min / NS_PER_MS,
        Measure::ExecutionMaxMs => execution()?.max / NS_PER_MS,
        Measure::ExecutionDeviationMs => execution().filter(|execution| execution.count > 1)?.deviation / NS_PER_MS,
        Measure::DeadlineMissPercent => {
            100.0 * task.deadline_misses as f64 / (task.response_ns?.count + task.jobs_given_up) as f64
        }
        Measure::CompletedMs => task.completed_ns? / NS_PER_MS,
        Measure::BarrierIdleMs => task.barrier_idle_ns / NS_PER_MS,
        Measure::RequestsThatMetARefresh => task.met_refresh as f64,
        Measure::DeadlineMisses => task.deadline_misses as f64,
        _ => return None,
    };
    value.is_finite().then_some(value)
}

fn of_all(report: &Report, measure: Measure) -> Option<f64> {
    let value = match measure {
        Measure::RowMissPercent => {
            let hits = report.banks.iter().map(|bank| bank.row_hits).sum();
            let others = report.banks.iter().map(|bank| bank.row_misses + bank.row_conflicts).sum();
            100.0 * share(others, hits)?
        }
        Measure::LlcMisses => report.tasks.iter().map(|task| task.llc_misses).sum::<u64>() as f64,
        Measure::LlcMissPercent => {
            let hits = report.tasks.iter().map(|task| task.llc_hits + task.peer_hits).sum();
            100.0 * share(report.tasks.iter().map(|task| task.llc_misses).sum(), hits)?
        }
        Measure::BandwidthMbPerS => {
            report.tasks.iter().map(|task| task.read_bytes_per_second + task.write_bytes_per_second).sum::<f64>() / 1e6
        }
        Measure::Ipc => report.tasks.iter().map(|task| task.ipc).sum(),
        Measure::AllCompletedMs => {
            let ends: Option<Vec<f64>> = report.tasks.iter().map(|task| task.completed_ns).collect();
            ends?.into_iter().fold(0.0, f64::max) / NS_PER_MS
        }
        Measure::BarrierIdleMs => report.tasks.iter().map(|task| task.barrier_idle_ns).sum::<f64>() / NS_PER_MS,
        Measure::ThreadsSlowestMs => threads(report)?.slowest / NS_PER_MS,
        Measure::ThreadsSpreadMs => {
            let threads = threads(report)?;
            (threads.slowest - threads.fastest) / NS_PER_MS
        }
        Measure::ThreadsIdleMs => threads(report)?.idle / NS_PER_MS,
        Measure::ThreadsIdleLongestMs => {
            let threads = threads(report)?;
            (threads.end - threads.fastest) / NS_PER_MS
        }
        Measure::WeightedSpeedup => report.weighted_speedup?,
        Measure::MaximumSlowdown => report.maximum_slowdown?,
        Measure::AloneBandwidthMbPerS => Alone::of(report)?.bandwidth / 1e6,
        Measure::AloneRowHitPercent => 100.0 * Alone::of(report)?.mean,
        Measure::AloneRowHitDeviationPercent => 100.0 * Alone::of(report)?.deviation,
        Measure::AloneBandwidthTimesDeviation => {
            let alone = Alone::of(report)?;
            alone.bandwidth / 1e6 * 100.0 * alone.deviation
        }
        Measure::RequestsThatMetARefresh => report.requests_that_met_a_refresh as f64,
        Measure::Utilization => utilization(report)?,
        Measure::DeadlineMisses => report.tasks.iter().map(|task| task.deadline_misses).sum::<u64>() as f64,
        Measure::UnhiddenMs => report.locks.as_ref()?.unhidden_ns.iter().sum::<f64>() / NS_PER_MS,
        Measure::EnergyPjPerByte => {
            let energy: Option<Vec<f64>> = report.ranks.iter().map(|rank| Some(rank.energy_pj?.total)).collect();
            let lines: u64 = report.ranks.iter().map(|rank| rank.reads + rank.writes).sum();
            energy?.iter().sum::<f64>() / (lines * 64) as f64
        }
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// Share of a core that the tasks with jobs need; `None` when there are none, or one of them has finished no job.
fn utilization(report: &Report) -> Option<f64> {
    let jobs_of =
        |task: &TaskReport| task.execution_ns.map_or((0, 0.0), |jobs| (jobs.count, jobs.count as f64 * jobs.mean));
    let originals = report.tasks.iter().filter(|task| task.period_ns.is_some() && task.copy_of.is_none());
    let share = |original: &TaskReport| {
        let copies = report.tasks.iter().filter(|task| task.copy_of.as_ref() == Some(&original.name));
        let (count, time) =
            copies.chain([original]).map(jobs_of).fold((0, 0.0), |all, of| (all.0 + of.0, all.1 + of.1));
        (count > 0).then(|| time / count as f64 / original.period_ns.expect("asked before"))
    };
    let shares = originals.map(share).collect::<Option<Vec<f64>>>()?;
    (!shares.is_empty()).then(|| shares.iter().sum())
}

/// Statistics of a workload's programs alone (BPM, section 5.3).
struct Alone {
    /// Bytes a second, all together.
    bandwidth: f64,
    /// Share of row hits: mean, weighted with bandwidth, and standard deviation.
    mean: f64,
    deviation: f64,
}

impl Alone {
    fn of(report: &Report) -> Option<Alone> {
        let of_task = |task: &TaskReport| {
            let alone = task.alone?;
            let weight = alone.read_bytes_per_second + alone.write_bytes_per_second;
            // A task that read nothing weighs nothing.
            let hits = share(alone.row_hits, alone.row_misses + alone.row_conflicts).unwrap_or_default();
            Some((weight, hits))
        };
        Alone::of_weighted(&report.tasks.iter().map(of_task).collect::<Option<Vec<_>>>()?)
    }

    fn of_weighted(weights_and_values: &[(f64, f64)]) -> Option<Alone> {
        let weight: f64 = weights_and_values.iter().map(|(weight, _)| weight).sum();
        let mean = weights_and_values.iter().map(|(weight, value)| weight * value).sum::<f64>() / weight;
        let squares = weights_and_values.iter().map(|(weight, value)| weight * (value - mean).powi(2)).sum::<f64>();
        (weight > 0.0).then(|| Alone { bandwidth: weight, mean, deviation: (squares / weight).sqrt() })
    }
}

/// Takes weighted speedup or maximum slowdown of a run, with the speeds alone of another; `None` for other measures, and
/// where a task has none alone there.
pub(crate) fn beside(report: &Report, alone_in: &Report, measure: Measure) -> Option<f64> {
    let relative = |task: &TaskReport| {
        let alone = alone_in.tasks.iter().find(|other| other.name == task.name)?.alone?;
        Some(task.instructions_per_second / alone.instructions_per_second)
    };
    let speeds = report.tasks.iter().map(relative).collect::<Option<Vec<f64>>>()?;
    let value = match measure {
        Measure::WeightedSpeedup => speeds.into_iter().sum(),
        Measure::MaximumSlowdown => 1.0 / speeds.into_iter().fold(f64::INFINITY, f64::min),
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// Tasks as threads of a program, which the last of them ends; in nanoseconds.
struct Threads {
    end: f64,
    /// Longest and shortest time without waiting at barriers.
    slowest: f64,
    fastest: f64,
    /// Waited at barriers and for the end, all together.
    idle: f64,
}

fn threads(report: &Report) -> Option<Threads> {
    let times = |task: &TaskReport| Some((task.completed_ns?, task.completed_ns? - task.barrier_idle_ns));
    let times: Vec<(f64, f64)> = report.tasks.iter().map(times).collect::<Option<_>>()?;
    let end = times.iter().map(|&(completed, _)| completed).fold(0.0, f64::max);
    let busy = || times.iter().map(|&(_, busy)| busy);
    Some(Threads {
        end,
        slowest: busy().fold(0.0, f64::max),
        fastest: busy().fold(f64::INFINITY, f64::min),
        idle: busy().map(|busy| end - busy).sum(),
    })
}

/// Takes a measure from an allocation.
pub(crate) fn of_allocation(steps: &Steps, measure: Measure) -> Option<f64> {
    match measure {
        Measure::AllocationStepsMean => Some(steps.total as f64 / f64::from(steps.frames)),
        Measure::AllocationStepsMax => Some(steps.most as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memtint_sim::report::Distribution;
    use memtint_sim::{Scenario, simulate};

    #[test]
    fn indicators_are_weighted() {
        let alone = Alone::of_weighted(&[(3.0, 0.9), (1.0, 0.5)]).unwrap();
        assert_eq!(alone.bandwidth, 4.0);
        assert!((alone.mean - 0.8).abs() < 1e-12);
        // (3 * 0.1^2 + 1 * 0.3^2) / 4 = 0.03.
        assert!((alone.deviation - 0.03_f64.sqrt()).abs() < 1e-12);
        assert!(Alone::of_weighted(&[(0.0, 0.9)]).is_none());
    }

    const TWO: &str = r#"
        platform = "xeon-w3530-palloc"
        [simulation]
        device = "ddr3-1333"
        duration = "200 us"
        alone = ALONE
        cores = { count = 2, mhz = 2800 }
        [[task]]
        name = "chase"
        cores = "0"
        BANKS
        workload = { kind = "latency", size = "16 MiB" }
        [[task]]
        name = "walk"
        cores = "1"
        workload = { kind = "bandwidth", size = "16 MiB" }
    "#;

    fn run(alone: &str, banks: &str) -> Report {
        let text = TWO.replace("ALONE", alone).replace("BANKS", banks);
        let scenario = Scenario::parse(&text, std::path::Path::new("two.toml")).unwrap();
        simulate(&scenario, 1, &|_: f64| true).unwrap()
    }

    /// Times of jobs, in nanoseconds, so that no two of them are alike.
    fn times(count: u64, base: f64) -> Distribution {
        let [mean, deviation, min, max] = [2e6, 5e5, 1e6, 5e6].map(|ns| ns * base);
        Distribution { count, mean, deviation, min, p99: max * 0.9, max, ..Distribution::default() }
    }

    #[test]
    fn execution_is_taken_from_the_task_s_own_jobs() {
        let mut report = run("false", "");
        report.tasks[0].response_ns = Some(times(9, 3.0));
        let all = [
            (Measure::ExecutionMeanMs, 2.0),
            (Measure::ExecutionMinMs, 1.0),
            (Measure::ExecutionMaxMs, 5.0),
            (Measure::ExecutionDeviationMs, 0.5),
        ];
        let of = |report: &Report, task: &str, measure| of_report(report, Some(task), measure);
        for (measure, expected) in all {
            assert_eq!(of(&report, "chase", measure), None, "{measure:?} without jobs");
            report.tasks[0].execution_ns = Some(times(0, 1.0));
            assert_eq!(of(&report, "chase", measure), None, "{measure:?} of no job");
            report.tasks[0].execution_ns = Some(times(1, 1.0));
            let of_one = (measure != Measure::ExecutionDeviationMs).then_some(expected);
            assert_eq!(of(&report, "chase", measure), of_one, "{measure:?} of one job");
            report.tasks[0].execution_ns = Some(times(2, 1.0));
            assert_eq!(of(&report, "chase", measure), Some(expected), "{measure:?}");
            let others = [of(&report, "walk", measure), of(&report, "run", measure), of_report(&report, None, measure)];
            assert_eq!(others, [None; 3], "{measure:?} of others");
            report.tasks[0].execution_ns = None;
        }
        // The response has separate numbers.
        report.tasks[0].execution_ns = Some(times(2, 1.0));
        assert_eq!(of(&report, "chase", Measure::ResponseMeanMs), Some(6.0));
        assert_eq!(of(&report, "chase", Measure::ResponseSpreadPercent), Some(200.0));
    }

    #[test]
    fn utilization_is_of_jobs_with_their_instances() {
        let mut report = run("false", "");
        let of = |report: &Report| of_report(report, None, Measure::Utilization);
        assert_eq!(of(&report), None, "no jobs");
        // 2 of 8 ms, and 4 of 10 ms in three jobs of one instance beside 2 ms in one job of another.
        report.tasks.push(report.tasks[1].clone());
        let jobs = [(5, 1.0, 8e6), (3, 2.0, 10e6), (1, 1.0, 10e6)];
        for (task, (count, base, period)) in report.tasks.iter_mut().zip(jobs) {
            (task.execution_ns, task.period_ns) = (Some(times(count, base)), Some(period));
        }
        (report.tasks[2].name, report.tasks[2].copy_of) = ("copy".to_owned(), Some("walk".to_owned()));
        let expected = 2.0 / 8.0 + (3.0 * 4.0 + 2.0) / 4.0 / 10.0;
        assert!((of(&report).unwrap() - expected).abs() < 1e-12, "{:?}", of(&report));
        assert_eq!(of_report(&report, Some("walk"), Measure::Utilization), None, "of all only");
        report.tasks[1].execution_ns = None;
        assert!(of(&report).is_some(), "its other instance has finished jobs");
        report.tasks[2].execution_ns = Some(times(0, 1.0));
        assert_eq!(of(&report), None, "a task without a finished job");
        // A task that has no jobs takes no part.
        report.tasks.truncate(2);
        report.tasks[1].period_ns = None;
        assert_eq!(of(&report), Some(0.25));
    }

    #[test]
    fn what_refresh_did_is_taken_from_the_report() {
        let mut report = run("false", "");
        report.requests_that_met_a_refresh = 7;
        (report.tasks[0].met_refresh, report.tasks[0].deadline_misses) = (3, 2);
        (report.tasks[1].met_refresh, report.tasks[1].deadline_misses) = (4, 1);
        let of = |report: &Report, task, measure| of_report(report, task, measure);
        for (measure, all, walk) in [(Measure::RequestsThatMetARefresh, 7.0, 4.0), (Measure::DeadlineMisses, 3.0, 1.0)]
        {
            assert_eq!((of(&report, None, measure), of(&report, Some("walk"), measure)), (Some(all), Some(walk)));
        }
        assert_eq!(of(&report, None, Measure::UnhiddenMs), None, "nothing was locked");
        report.locks = Some(memtint_sim::report::LockReport {
            locked_ns: 9e6,
            hidden_ns: vec![8e6, 7e6],
            unhidden_ns: vec![1e6, 2e6],
            tasks_ns: 0.0,
            locks: 1,
            cleaned_lines: 0,
            copies: 0,
            copied_lines: 0,
        });
        assert_eq!(of(&report, None, Measure::UnhiddenMs), Some(3.0));
    }

    #[test]
    fn threads_are_judged_by_the_last_of_them() {
        let mut report = run("false", "");
        let measures = [
            Measure::ThreadsSlowestMs,
            Measure::ThreadsSpreadMs,
            Measure::ThreadsIdleMs,
            Measure::ThreadsIdleLongestMs,
            Measure::AllCompletedMs,
            Measure::BarrierIdleMs,
        ];
        let found = |report: &Report| measures.map(|measure| of_report(report, None, measure));
        // The first works 7 ms and ends last, as it waits for 3; the second works 7.5 ms and has 2 left at the end.
        for (task, (completed, waited)) in report.tasks.iter_mut().zip([(10e6, 3e6), (8e6, 0.5e6)]) {
            (task.completed_ns, task.barrier_idle_ns) = (Some(completed), waited);
        }
        assert_eq!(found(&report), [7.5, 0.5, 3.0 + 2.5, 3.0, 10.0, 3.5].map(Some));
        report.tasks.swap(0, 1);
        assert_eq!(found(&report), [7.5, 0.5, 3.0 + 2.5, 3.0, 10.0, 3.5].map(Some), "in any order");
        assert!(
            measures
                .iter()
                .all(|&measure| of_report(&report, Some("chase"), measure).is_none()
                    || measure == Measure::BarrierIdleMs)
        );
        report.tasks[1].completed_ns = None;
        assert_eq!(found(&report)[..5], [None; 5], "one has not ended");
    }

    #[test]
    fn speeds_alone_of_another_run_are_the_reference() {
        let whole = run("true", "");
        for (measure, own) in
            [(Measure::WeightedSpeedup, whole.weighted_speedup), (Measure::MaximumSlowdown, whole.maximum_slowdown)]
        {
            let found = beside(&whole, &whole, measure).unwrap();
            assert!((found / own.unwrap() - 1.0).abs() < 1e-12, "{measure:?}: {found}, {own:?}");
        }
        // With one bank for the chase, both are slower than alone with all; the slowest counts.
        let one_bank = run("false", "banks = \"0\"");
        let slowdown = |task: usize| {
            let alone = whole.tasks[task].alone.unwrap().instructions_per_second;
            alone / one_bank.tasks[task].instructions_per_second
        };
        let found = beside(&one_bank, &whole, Measure::MaximumSlowdown).unwrap();
        assert!((found / slowdown(0).max(slowdown(1)) - 1.0).abs() < 1e-12 && found > 1.0, "{found}");
        let found = beside(&one_bank, &whole, Measure::WeightedSpeedup).unwrap();
        assert!((found - 1.0 / slowdown(0) - 1.0 / slowdown(1)).abs() < 1e-12, "{found}");
        assert!(one_bank.weighted_speedup.is_none() && beside(&whole, &one_bank, Measure::WeightedSpeedup).is_none());
        assert!(beside(&whole, &whole, Measure::Ipc).is_none());
    }
}
