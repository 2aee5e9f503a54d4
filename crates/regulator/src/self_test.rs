//! Shows that regulation works on this machine, before anything depends on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use memtint_guard::{Kind, Reservation};
use serde::Serialize;

use crate::error::RegulatorError;
use crate::promise::Incident;
use crate::regulator::Regulator;
use crate::settings::Place;

/// What the self-test of a group on a CPU has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tested {
    /// Name of the group.
    pub group: String,
    /// The CPU.
    pub cpu: usize,
    /// With a budget of one event, which any load exceeds.
    pub least_budget: Seen,
    /// With its own budget, which the load may not reach.
    pub own_budget: Seen,
}

/// What a load has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// Periods.
    pub periods: u64,
    /// Periods in which the load was throttled.
    pub throttled_periods: u64,
    /// Events that were counted.
    pub counted: u64,
    /// Events that the load has caused by its own count; `None` if it does not know.
    pub caused: Option<u64>,
}

/// Least number of periods, and least time, of a load.
const PERIODS: u32 = 40;
const TIME: Duration = Duration::from_millis(60);

/// Runs a load in each group on each CPU, one after another, twice: with a budget of one event per period, in which it must be
/// throttled, and with the group's own budget. In each period it must keep within budget, quantum and skid. The groups' own tasks
/// may run meanwhile, and stand still for most of the time of the first load.
///
/// # Errors
/// [`RegulatorError::SelfTest`] with what was seen, if the load was not throttled, if a period has gone beyond its bound, or if
/// the counter has not counted the load.
pub fn self_test(regulator: &Regulator) -> Result<Vec<Tested>, RegulatorError> {
    (0..regulator.settings().seats().len()).map(|seat| test_seat(regulator, seat)).collect()
}

fn test_seat(regulator: &Regulator, seat: usize) -> Result<Tested, RegulatorError> {
    let (group, cpu) = regulator.settings().seats()[seat];
    let settings = &regulator.settings().groups[group];
    regulator.reserve(group, Reservation { budget: 1, kind: Kind::Hard });
    let least_budget = load(regulator, seat)?;
    if least_budget.throttled_periods == 0 {
        return Err(RegulatorError::SelfTest {
            group: settings.name.clone(),
            cpu,
            reason: format!(
                "the load was not throttled in {} periods with a budget of one event: the counter has {} events",
                least_budget.periods, least_budget.counted
            ),
        });
    }
    regulator.reserve(group, Reservation { budget: settings.budget, kind: settings.kind });
    let own_budget = load(regulator, seat)?;
    Ok(Tested { group: settings.name.clone(), cpu, least_budget, own_budget })
}

/// Runs a load with the reservation that is in force, and judges all periods of it.
fn load(regulator: &Regulator, seat: usize) -> Result<Seen, RegulatorError> {
    let settings = regulator.settings();
    let before = regulator.snapshot()[seat];
    regulator.take_incidents();
    let caused = run_load(regulator, before.group, before.cpu)?;
    // The period of the load's last event has ended.
    let periods = regulator.snapshot()[seat].periods;
    while regulator.snapshot()[seat].periods < periods + 2 && !regulator.is_stopped() {
        std::thread::sleep(settings.period);
    }
    let passed = regulator.snapshot()[seat].since(&before);
    let seen = Seen {
        periods: passed.periods,
        throttled_periods: passed.throttled_periods,
        counted: passed.used,
        caused: settings.sensor.load.is_counted().then_some(caused),
    };
    let name = &settings.groups[before.group].name;
    let refused = |reason: String| RegulatorError::SelfTest { group: name.clone(), cpu: before.cpu, reason };
    if let Some(one) = regulator.take_incidents().iter().find(|one| (one.group, one.cpu) == (before.group, before.cpu))
    {
        let Incident { period, used, allowed, cause, .. } = one;
        return Err(refused(format!("period {period} had {used} events, and {allowed} were allowed: {cause}")));
    }
    match seen.caused {
        Some(caused) if seen.counted < caused => {
            Err(refused(format!("the load has caused {caused} events, and the counter has {}", seen.counted)))
        }
        _ => Ok(seen),
    }
}

/// Runs the load of the sensor in a group, on a CPU. Returns the events that it has caused by its own count.
fn run_load(regulator: &Regulator, group: usize, cpu: usize) -> Result<u64, RegulatorError> {
    let settings = regulator.settings();
    let failed = |reason: String| RegulatorError::Process { what: "self-test's load", reason };
    let time = TIME.max(settings.period * PERIODS);
    let mut process = Command::new(&regulator.programs().program)
        .args(&regulator.programs().load)
        .args([settings.sensor.load.name(), &cpu.to_string(), &time.as_millis().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let result = talk(&mut process, &settings.groups[group].place);
    // A load that has not answered is of no use.
    if result.is_err() {
        let _ = process.kill();
    }
    let status = process.wait().map_err(|error| failed(error.to_string()))?;
    match result? {
        Some(caused) if status.success() => Ok(caused),
        _ => Err(failed(format!("it ended with {status}"))),
    }
}

/// Moves a load into its group once it is ready, and reads its count; `None` if it has ended without one.
fn talk(process: &mut std::process::Child, place: &Place) -> Result<Option<u64>, RegulatorError> {
    let (Some(mut input), Some(output)) = (process.stdin.take(), process.stdout.take()) else { return Ok(None) };
    let mut lines = BufReader::new(output).lines();
    let mut line = || lines.next().and_then(Result::ok);
    if line().as_deref() != Some("ready") {
        return Ok(None);
    }
    if let Place::Cgroup(cgroup) = place {
        cgroup.add(process.id())?;
    }
    if input.write_all(b"\n").is_err() {
        return Ok(None);
    }
    drop(input);
    Ok(line().and_then(|line| line.strip_prefix("caused ")?.parse().ok()))
}
