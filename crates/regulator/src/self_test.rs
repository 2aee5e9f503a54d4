//! Shows that regulation works on this machine, before anything depends on it.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use memtint_guard::{Kind, Reservation};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::RegulatorError;
use crate::regulator::Regulator;
use crate::settings::Place;
use crate::sys;

/// The result of the self-test of a group on a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tested {
    /// Name of the group.
    pub group: String,
    /// The CPU.
    pub cpu: usize,
    /// With a budget of one event more than the skid, or its own if that is less: any load exceeds it.
    pub least_budget: Seen,
    /// With its own budget, which the load may not reach.
    pub own_budget: Seen,
}

/// The observations under a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Seen {
    /// Budget in events per period.
    pub budget: u32,
    /// Periods.
    pub periods: u64,
    /// Periods in which the load was throttled.
    pub throttled_periods: u64,
    /// Events that were counted.
    pub counted: u64,
    /// Events that the load has caused by its own count; `None` if it has none.
    pub caused: Option<u64>,
}

/// Least number of periods, and least time, of a load.
const PERIODS: u32 = 10;
const TIME: Duration = Duration::from_millis(60);

/// Runs a load in each group on each CPU, one after another, twice: with a budget of hardly more than the skid, in
/// which it must be throttled, and with the group's own budget. In each period it must keep within budget, quantum and
/// skid. The groups' tasks may run meanwhile; they stand still for most of the first load and until the budget is in
/// force again. Gives up when `cancelled` returns true.
///
/// # Errors
/// [`RegulatorError::SelfTest`] with the observations, if the load was not throttled, if any group has gone beyond its
/// bound, if the counter has not counted the load, or if the load has not ended in time.
pub fn self_test(regulator: &Regulator, cancelled: &dyn Fn() -> bool) -> Result<Vec<Tested>, RegulatorError> {
    let seats = 0..regulator.settings().seats().len();
    seats.map(|seat| Test { regulator, seat, cancelled }.run()).collect()
}

/// The test of a group on a CPU.
struct Test<'a> {
    regulator: &'a Regulator,
    seat: usize,
    cancelled: &'a dyn Fn() -> bool,
}

impl Test<'_> {
    fn run(&self) -> Result<Tested, RegulatorError> {
        let (group, cpu) = self.place();
        let settings = &self.regulator.settings().groups[group];
        // With less than the skid, a load may be stopped before it gets on.
        let budget = self.regulator.settings().sensor.skid.saturating_add(1).min(settings.budget);
        let least_budget = self.load(Reservation { budget, kind: Kind::Hard })?;
        if least_budget.throttled_periods == 0 {
            return Err(self.refused(format!(
                "the load was not throttled in {} periods with a budget of {}: the counter has {} events",
                least_budget.periods,
                events(budget),
                least_budget.counted
            )));
        }
        let own_budget = self.load(Reservation { budget: settings.budget, kind: settings.kind })?;
        Ok(Tested { group: settings.name.clone(), cpu, least_budget, own_budget })
    }

    fn place(&self) -> (usize, usize) {
        self.regulator.settings().seats()[self.seat]
    }

    fn refused(&self, reason: String) -> RegulatorError {
        let (group, cpu) = self.place();
        RegulatorError::SelfTest { group: self.regulator.settings().groups[group].name.clone(), cpu, reason }
    }

    /// Runs a load under a reservation, and judges all periods of it.
    fn load(&self, reservation: Reservation) -> Result<Seen, RegulatorError> {
        let (regulator, (group, cpu)) = (self.regulator, self.place());
        let settings = regulator.settings();
        let own = &settings.groups[group];
        // A CPU that is occupied for a second would be given to others.
        let longest = if own.place == Place::Cpus { OCCUPIED } else { Duration::MAX };
        let time = TIME.max(settings.period * PERIODS).min(longest);
        // Its start is not part of the test.
        let mut load = Process::start(self, cpu, time)?;
        regulator.reserve(group, reservation);
        let before = regulator.snapshot()[self.seat];
        let caused = load.run(&own.place, time * 20 + TIMEOUT, self);
        drop(load);
        regulator.await_accounts();
        let passed = regulator.snapshot()[self.seat].since(&before);
        regulator.reserve(group, Reservation { budget: own.budget, kind: own.kind });
        let caused = caused?;
        if let Some(incident) = regulator.take_incidents().first() {
            return Err(self.refused(format!("{} {incident}", settings.groups[incident.group].name)));
        }
        if regulator.is_stopped() {
            return Err(self.refused("the regulation has ended by itself".to_owned()));
        }
        let counted = passed.used;
        let caused = settings.sensor.load.is_counted().then_some(caused);
        match caused {
            Some(caused) if counted < caused => {
                Err(self.refused(format!("the load has caused {caused} events, and the counter has {counted}")))
            }
            _ => Ok(Seen {
                budget: reservation.budget,
                periods: passed.periods,
                throttled_periods: passed.throttled_periods,
                counted,
                caused,
            }),
        }
    }
}

/// Longest time of a load on a CPU that is occupied.
const OCCUPIED: Duration = Duration::from_millis(500);
/// The time that a load may take on a busy machine, on top of twenty times its duration.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A load that is killed when this is dropped.
struct Process {
    child: Child,
    output: ChildStdout,
}

impl Process {
    /// Starts the load of the sensor on a CPU, and waits until it is ready.
    fn start(test: &Test<'_>, cpu: usize, time: Duration) -> Result<Process, RegulatorError> {
        let (regulator, programs) = (test.regulator, test.regulator.programs());
        let mut child = Command::new(&programs.program)
            .args(&programs.load)
            .args([regulator.settings().sensor.load.name(), &cpu.to_string(), &time.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let output = child.stdout.take().ok_or_else(|| failed("it has no pipe".to_owned()))?;
        let mut process = Process { child, output };
        match process.line(TIMEOUT, test)? {
            Some(line) if line == "ready" => Ok(process),
            Some(line) => Err(failed(format!("it has answered {line:?}"))),
            None => Err(test.refused(format!("the load was not ready within {TIMEOUT:?}"))),
        }
    }

    /// Lets it cause events in its group. Returns how many it has caused by its own count.
    fn run(&mut self, place: &Place, time: Duration, test: &Test<'_>) -> Result<u64, RegulatorError> {
        if let Place::Cgroup(cgroup) = place {
            cgroup.add(self.child.id())?;
        }
        let written = self.child.stdin.as_mut().map(|input| input.write_all(b"\n"));
        if !matches!(written, Some(Ok(()))) {
            return Err(failed("it has ended".to_owned()));
        }
        match self.line(time, test)? {
            Some(line) => line
                .strip_prefix("caused ")
                .and_then(|count| count.parse().ok())
                .ok_or_else(|| failed(format!("it has answered {line:?}"))),
            None => Err(test.refused(format!("the load has not ended within {time:?}"))),
        }
    }

    /// A line of its output; `None` if there is none in time.
    fn line(&mut self, time: Duration, test: &Test<'_>) -> Result<Option<String>, RegulatorError> {
        let (end, mut line) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            if (test.cancelled)() {
                return Err(test.refused("it was interrupted".to_owned()));
            }
            if test.regulator.is_stopped() {
                return Err(test.refused("the regulation has ended by itself".to_owned()));
            }
            let read = sys::read_some(self.output.as_fd(), Duration::from_millis(100), &mut line);
            match read.map_err(|error| failed(error.to_string()))? {
                Some(0) => return Err(failed("it has ended".to_owned())),
                _ if line.ends_with(b"\n") => {
                    line.pop();
                    return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn failed(reason: String) -> RegulatorError {
    RegulatorError::Process { what: "self-test's load", reason }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn events(number: u32) -> String {
    if number == 1 { "one event".to_owned() } else { format!("{number} events") }
}
