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
    let value = match measure {
        Measure::ReadLatencyNs => Some(task.read_latency_ns).filter(|latency| latency.count > 0)?.mean,
        Measure::ReferenceNs => task.completed_ns.unwrap_or(report.simulated_ns) / task.references as f64,
        Measure::Ipc => task.ipc,
        Measure::BandwidthMbPerS => (task.read_bytes_per_second + task.write_bytes_per_second) / 1e6,
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
        Measure::DeadlineMissPercent => 100.0 * task.deadline_misses as f64 / response()?.count as f64,
        Measure::CompletedMs => task.completed_ns? / NS_PER_MS,
        Measure::BarrierIdleMs => task.barrier_idle_ns / NS_PER_MS,
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
        Measure::WeightedSpeedup => report.weighted_speedup?,
        Measure::MaximumSlowdown => report.maximum_slowdown?,
        Measure::EnergyPjPerByte => {
            let energy: Option<Vec<f64>> = report.ranks.iter().map(|rank| Some(rank.energy_pj?.total)).collect();
            let lines: u64 = report.ranks.iter().map(|rank| rank.reads + rank.writes).sum();
            energy?.iter().sum::<f64>() / (lines * 64) as f64
        }
        _ => return None,
    };
    value.is_finite().then_some(value)
}

/// Takes a measure from an allocation.
pub(crate) fn of_allocation(steps: &Steps, measure: Measure) -> Option<f64> {
    match measure {
        Measure::AllocationStepsMean => Some(steps.total as f64 / f64::from(steps.frames)),
        Measure::AllocationStepsMax => Some(steps.most as f64),
        _ => None,
    }
}
