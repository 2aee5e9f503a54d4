//! From a machine's counters to the report.

use super::{
    AloneReport, BandwidthReport, BankReport, CounterReport, Distribution, End, EnergyReport, LockReport, PeriodReport,
    RankReport, RegulatorReport, Report, SCHEMA, ServerReport, SlotReport, TableReport, TaskReport,
};
use crate::machine::{CounterConfig, Outcome, PeriodUse, RegulationCounts, ServerCounts, Subject, Table, TableCounts};
use crate::refresh::LockCounts;
use crate::scenario::{Regulators, Scenario, ScenarioServer};
use crate::simulate::Run;
use crate::task::{Ending, TaskCounts};
use memtint_dram::{Device, EnergyCounts, EnergyMeter, RefreshMet};
use memtint_units::Picoseconds;

const PS_PER_SECOND: f64 = 1e12;

pub(crate) fn report(scenario: &Scenario, together: &Run, alone: &[Run]) -> Report {
    let outcome = &together.outcome;
    let duration = outcome.duration;
    let speeds: Vec<f64> = outcome.tasks.iter().map(|task| speed(task, duration)).collect();
    let slowdowns: Vec<Option<f64>> = speeds
        .iter()
        .enumerate()
        .map(|(index, &together)| {
            let run = alone.get(index)?;
            (together > 0.0).then(|| speed(&run.outcome.tasks[0], run.outcome.duration) / together)
        })
        .collect();
    let tasks = (0..outcome.tasks.len()).map(|index| TaskReport {
        slowdown: slowdowns[index],
        alone: alone.get(index).map(|run| alone_report(&run.outcome)),
        ..task_report(scenario, outcome, index)
    });
    let known = !alone.is_empty() && slowdowns.iter().all(Option::is_some);
    let all = || slowdowns.iter().flatten().copied();
    let width = f64::from(scenario.spec().cores.width);
    let slots = duration.0 as f64 / 1e6 * f64::from(scenario.spec().cores.mhz) * width;
    Report {
        schema: SCHEMA,
        scenario: scenario.origin().to_owned(),
        platform: scenario.platform().id().to_owned(),
        device: scenario.device().name.clone(),
        allocator: together.allocator.clone(),
        seed: scenario.seed(),
        assumed: together.assumed.clone(),
        simulated_ns: duration.as_ns(),
        complete: together.complete && alone.iter().all(|run| run.complete),
        tasks: tasks.collect(),
        weighted_speedup: known.then(|| all().map(|slowdown| 1.0 / slowdown).sum()),
        maximum_slowdown: known.then(|| all().fold(0.0, f64::max)),
        core_utilization: outcome.core_slots.iter().map(|&busy| (busy as f64 / slots).min(1.0)).collect(),
        banks: banks(scenario, outcome),
        ranks: ranks(scenario, outcome),
        requests_that_met_a_refresh: outcome.refresh_met.iter().flatten().map(all_met).sum(),
        locks: outcome.locks.as_ref().map(lock_report),
        servers: scenario.spec().servers.iter().zip(&outcome.servers).map(server_report).collect(),
        table: scenario
            .table()
            .zip(outcome.table.as_ref())
            .map(|(table, counts)| table_report(scenario, outcome, &table, counts)),
        bandwidth: outcome.regulation.as_ref().and_then(|counts| {
            // It was found sound when the machine was built.
            let regulators = scenario.regulators_of_machine().ok().flatten()?;
            Some(bandwidth_report(scenario, outcome, &regulators, counts))
        }),
    }
}

fn bandwidth_report(
    scenario: &Scenario,
    outcome: &Outcome,
    regulators: &Regulators,
    counts: &RegulationCounts,
) -> BandwidthReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let seconds = outcome.duration.as_seconds();
    let config = &regulators.config;
    let counters = regulators.counters.iter().zip(&config.counters).zip(&counts.most_in_a_period);
    let counters = counters.map(|(((name, banks, event_bytes), counter), &most_in_a_period)| CounterReport {
        counts: (*name).to_owned(),
        banks: banks.clone(),
        event_bytes: *event_bytes,
        guaranteed: u64::from(counter.guard.guaranteed),
        most_in_a_period,
    });
    let counters: Vec<CounterReport> = counters.collect();
    let regulator = |(subject, place): (usize, &Subject)| {
        let of_counter = move |(index, counter): (usize, &CounterReport)| {
            let seen = &counts.subjects[subject].meters[index];
            let groups = &config.counters[index].guard.groups;
            let group = groups.iter().position(|group| group.cores.contains(&subject)).expect("each is in one");
            RegulatorReport {
                group: regulators.groups[group].clone(),
                subject: subject_name(scenario, *place),
                counts: counter.counts.clone(),
                banks: counter.banks.clone(),
                budget: groups[group].reservation.budget,
                quantum: groups[group].quantum,
                skid: groups[group].skid,
                longest_skid: seen.longest_skid,
                events: seen.events,
                bytes_per_second: if seconds > 0.0 {
                    (seen.events * counter.event_bytes) as f64 / seconds
                } else {
                    0.0
                },
                shared: seen.shared,
                most_in_a_period: seen.most_in_a_period,
                periods: seen.periods,
                reserved: seen.reserved,
                donated: seen.donated,
                returned: seen.returned,
                reclaimed: seen.reclaimed,
                underruns: seen.underruns,
                shortfall: seen.shortfall,
                throttled_periods: seen.throttled,
                throttled_ns: ns(counts.subjects[subject].throttled_ps),
            }
        };
        counters.iter().enumerate().map(of_counter).collect::<Vec<_>>()
    };
    let history = config.subjects.iter().zip(&counts.subjects).flat_map(|(&place, seen)| {
        let of_counter = move |(counter, periods): (&CounterReport, &Vec<PeriodUse>)| {
            let of_period = |period: &PeriodUse| period_report(subject_name(scenario, place), counter, period);
            periods.iter().map(of_period).collect::<Vec<_>>()
        };
        counters.iter().zip(&seen.history).flat_map(of_counter).collect::<Vec<_>>()
    });
    let history = history.collect();
    let is_regulated = |task: usize| {
        let cores = scenario.cores_of(&scenario.spec().tasks[task]).ok();
        let has = |core: u32| config.subjects.contains(&Subject::Core(core as usize));
        config.subjects.contains(&Subject::Task(task)) || cores.is_some_and(|cores| cores.iter().all(has))
    };
    let used_memory = |task: &usize| outcome.tasks[*task].lines_read + outcome.tasks[*task].lines_written > 0;
    let unregulated = (0..outcome.tasks.len()).filter(|&task| !is_regulated(task)).filter(used_memory);
    let counted = |events: fn(&CounterConfig) -> u32| config.counters.iter().any(|counter| events(counter) > 0);
    let (reads, writes) = (counted(|counter| counter.read_events), counted(|counter| counter.write_events));
    BandwidthReport {
        unregulated: unregulated.map(|task| scenario.spec().tasks[task].name.clone()).collect(),
        uncounted: match (reads, writes) {
            (true, false) => Some("lines written"),
            (false, true) => Some("lines read"),
            _ => None,
        },
        period_ns: config.period.as_ns(),
        periods: counts.periods,
        guaranteed_mb_per_s: regulators.guaranteed_mb_per_s,
        interrupts: counts.interrupts,
        overhead_ns: ns(counts.overhead_ps),
        regulators: config.subjects.iter().enumerate().flat_map(regulator).collect(),
        counters,
        history,
    }
}

fn subject_name(scenario: &Scenario, place: Subject) -> String {
    match place {
        Subject::Core(core) => format!("core {core}"),
        Subject::Task(task) => format!("task {}", scenario.spec().tasks[task].name),
    }
}

fn period_report(subject: String, counter: &CounterReport, period: &PeriodUse) -> PeriodReport {
    PeriodReport {
        subject,
        counts: counter.counts.clone(),
        banks: counter.banks.clone(),
        period: period.period,
        began_ns: period.began.as_ns(),
        events: period.events,
        shared: period.shared,
        reserved: period.used.reserved,
        donated: period.used.donated,
        returned: period.used.returned,
        reclaimed: period.used.reclaimed,
        shortfall: period.used.shortfall,
        throttled: period.used.throttled,
    }
}

fn table_report(scenario: &Scenario, outcome: &Outcome, table: &Table, counts: &TableCounts) -> TableReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let slots = table.slots.iter().zip(&counts.longest_use_ps);
    let slot = slots.map(|(slot, &used)| SlotReport {
        task: scenario.spec().tasks[slot.task].name.clone(),
        core: slot.core,
        start_ns: ns(slot.start.0),
        length_ns: ns((slot.end - slot.start).0),
        longest_use_ns: ns(used),
    });
    let slot: Vec<SlotReport> = slot.collect();
    TableReport {
        slots: table
            .slots
            .iter()
            .map(|slot| outcome.duration.saturating_sub(slot.start).0.div_ceil(table.cycle.0))
            .sum(),
        jobs_beyond_slots: outcome.tasks.iter().map(|task| task.jobs_beyond_slots).sum(),
        longest_use: slot.iter().map(|slot| slot.longest_use_ns / slot.length_ns).fold(0.0, f64::max),
        longest_overrun_ps: counts.longest_overrun_ps,
        slot,
    }
}

fn server_report((section, counts): (&ScenarioServer, &ServerCounts)) -> ServerReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    ServerReport {
        name: section.name.clone(),
        core: section.core,
        replenishments: counts.replenishments,
        consumed_ns: ns(counts.consumed_ps),
        longest_overrun_ps: counts.longest_overrun_ps,
        held_up_ns: ns(counts.held_up_ps),
        unhidden_ns: ns(counts.unhidden_ps),
    }
}

fn all_met(met: &RefreshMet) -> u64 {
    met.ordinary + met.locked + met.caught
}

fn lock_report(counts: &LockCounts) -> LockReport {
    let ns = |ps: u64| ps as f64 / 1000.0;
    LockReport {
        locked_ns: ns(counts.locked_ps),
        hidden_ns: counts.unhidden_ps.iter().map(|&unhidden| ns(counts.locked_ps.saturating_sub(unhidden))).collect(),
        unhidden_ns: counts.unhidden_ps.iter().map(|&unhidden| ns(unhidden)).collect(),
        tasks_ns: ns(counts.tasks_ps),
        locks: counts.locks,
        cleaned_lines: counts.cleaned_lines,
        copies: counts.copies,
        copied_lines: counts.copied_lines,
    }
}

/// Instructions a picosecond.
fn speed(task: &TaskCounts, duration: Picoseconds) -> f64 {
    let time = task.completed_at.unwrap_or(duration).0;
    if time == 0 { 0.0 } else { task.instructions as f64 / time as f64 }
}

/// Bytes a second of this many lines of a task.
fn rate(outcome: &Outcome, task: &TaskCounts, lines: u64) -> f64 {
    let seconds = task.completed_at.unwrap_or(outcome.duration).as_seconds();
    if seconds > 0.0 { (lines * outcome.line_bytes) as f64 / seconds } else { 0.0 }
}

fn alone_report(outcome: &Outcome) -> AloneReport {
    let counts = &outcome.tasks[0];
    AloneReport {
        instructions_per_second: speed(counts, outcome.duration) * PS_PER_SECOND,
        read_bytes_per_second: rate(outcome, counts, counts.lines_read),
        write_bytes_per_second: rate(outcome, counts, counts.lines_written),
        row_hits: counts.rows[0],
        row_misses: counts.rows[1],
        row_conflicts: counts.rows[2],
    }
}

fn task_report(scenario: &Scenario, outcome: &Outcome, index: usize) -> TaskReport {
    let section = &scenario.spec().tasks[index];
    let has_jobs = scenario.job_of(section).is_some();
    let counts = &outcome.tasks[index];
    let rate = |lines: u64| rate(outcome, counts, lines);
    let per = |count: u64, of: f64| if of > 0.0 { count as f64 / of } else { 0.0 };
    let cycles = counts.slots as f64 / f64::from(scenario.spec().cores.width);
    let slot_ns = 1000.0 / f64::from(scenario.spec().cores.mhz * scenario.spec().cores.width);
    let end = match &outcome.endings[index] {
        Ending::Running => End::Running,
        Ending::Completed => End::Completed,
        Ending::OutOfMemory(_) => End::OutOfMemory,
        Ending::Failed(_) => End::Failed,
    };
    let is_whole = matches!(end, End::Running | End::Completed);
    TaskReport {
        name: section.name.clone(),
        cores: scenario.cores_of(section).map_or_else(|_| String::new(), |cores| cores.to_string()),
        allocator: scenario.allocator_of(section).name().to_owned(),
        ending: match &outcome.endings[index] {
            Ending::Running => "running".to_owned(),
            Ending::Completed => "completed".to_owned(),
            Ending::OutOfMemory(reason) | Ending::Failed(reason) => reason.clone(),
        },
        end,
        completed_ns: counts.completed_at.filter(|_| is_whole).map(Picoseconds::as_ns),
        instructions: counts.instructions,
        references: counts.references,
        ipc: per(counts.instructions, cycles),
        l1_hits: counts.answered[0],
        l2_hits: counts.answered[1],
        llc_hits: counts.answered[2],
        peer_hits: counts.answered[3],
        llc_misses: counts.answered[4],
        llc_misses_per_kilo_instruction: per(counts.answered[4], counts.instructions as f64 / 1000.0),
        llc_displaced_by_others: outcome.displaced_by_others[index],
        read_bytes_per_second: rate(counts.lines_read),
        write_bytes_per_second: rate(counts.lines_written),
        row_hits: counts.rows[0],
        row_misses: counts.rows[1],
        row_conflicts: counts.rows[2],
        read_latency_ns: Distribution::of_ps(&counts.latency_ps),
        met_refresh: outcome.refresh_met_by_task[index],
        page_faults: counts.page_faults,
        frames: counts.frames,
        frames_out_of_color: counts.frames_out_of_color,
        jobs: counts.jobs,
        deadline_misses: counts.deadline_misses,
        jobs_given_up: counts.jobs_given_up,
        jobs_beyond_slots: counts.jobs_beyond_slots,
        period_ns: scenario.job_of(section).map(|job| job.period.0.as_ns()),
        copy_of: section.copy_of.clone(),
        response_ns: has_jobs.then(|| Distribution::of_ps(&counts.response_ps)),
        execution_ns: has_jobs.then(|| Distribution::of(&counts.execution_slots, slot_ns)),
        preemptions: counts.preemptions,
        migrations: counts.migrations,
        taken_over: counts.taken_over,
        barrier_idle_ns: counts.barrier_ps as f64 / 1000.0,
        instructions_per_second: speed(counts, outcome.duration) * PS_PER_SECOND,
        slowdown: None,
        alone: None,
    }
}

fn banks(scenario: &Scenario, outcome: &Outcome) -> Vec<BankReport> {
    let burst_bytes = f64::from(scenario.device().geometry.burst_bytes());
    let seconds = outcome.duration.as_seconds();
    let mut used = Vec::new();
    for (channel, (banks, latencies)) in (0..).zip(outcome.banks.iter().zip(&outcome.bank_latencies_ps)) {
        for (bank, (counts, latency)) in (0..).zip(banks.iter().zip(latencies)) {
            let bursts = counts.hits + counts.misses + counts.conflicts;
            if bursts > 0 {
                used.push(BankReport {
                    channel,
                    bank,
                    row_hits: counts.hits,
                    row_misses: counts.misses,
                    row_conflicts: counts.conflicts,
                    bytes_per_second: if seconds > 0.0 { bursts as f64 * burst_bytes / seconds } else { 0.0 },
                    read_latency_ns: Distribution::of_ps(latency),
                });
            }
        }
    }
    used
}

fn ranks(scenario: &Scenario, outcome: &Outcome) -> Vec<RankReport> {
    // A finer granularity has a different tRFC.
    let timing = scenario.channels().map_or(scenario.device().timing, |channels| channels.timing);
    let device = &Device { timing, ..scenario.device().clone() };
    let meter = EnergyMeter::of(device);
    let cycles = device.clock.cycles_covering(outcome.duration);
    let channels = outcome.ranks.iter().zip(&outcome.refresh_met);
    let all = (0..).zip(channels).flat_map(|(channel, (ranks, met))| {
        (0..).zip(ranks.iter().zip(met)).map(move |(rank, (counts, met))| {
            // The formula of a REF counts from the current with open rows upwards.
            let refreshing = counts.refreshes * u64::from(device.timing.rfc);
            let open = (counts.cycles_open + refreshing).min(cycles);
            let energy = meter.map(|meter| {
                meter.energy(&EnergyCounts {
                    activates: counts.activates,
                    reads: counts.reads,
                    writes: counts.writes,
                    refreshes: counts.refreshes,
                    bank_refreshes: counts.bank_refreshes,
                    cycles_open: open,
                    cycles_closed: cycles - open,
                })
            });
            RankReport {
                channel,
                rank,
                activates: counts.activates,
                reads: counts.reads,
                writes: counts.writes,
                refreshes: counts.refreshes + counts.bank_refreshes,
                met_refresh: met.ordinary,
                met_lock: met.locked,
                caught_by_lock: met.caught,
                energy_pj: energy.map(EnergyReport::from),
            }
        })
    });
    all.collect()
}
