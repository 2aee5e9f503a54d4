//! Runs a program twice natively and once in color, concurrently, in alternating time slices.
//!
//! On a shared machine, speed drifts from second to second by more than the effect measured. A disturbance of one of
//! the three in a slice also hits the others in the next slices. The second native run, the control, shows the
//! influence of chance.
//!
//! The drawback: work of memtint's processes while their program is stopped does not count against it. The figures of
//! whole runs include their CPU time.

use std::time::{Duration, Instant};

use crate::child::{Mark, Program, Running, finish_entourage};
use crate::series::Side;
use crate::session::{Job, Measured, Session, Started, Trouble};

/// How long a program runs before the next one gets its turn.
pub const SLICE: Duration = Duration::from_millis(20);

/// The part of a run that is measured: from one mark of its output to another.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Where it begins.
    pub begin: Mark,
    /// Where it ends.
    pub end: Mark,
}

/// A program stopped at the beginning of its measured part, and the time that part has taken so far.
pub struct Lane {
    /// Its side.
    pub side: Side,
    /// The run.
    pub started: Started,
    program: Program,
    /// Time in which it could run.
    pub wall: Duration,
    /// Time of it in which it ran, all threads together.
    pub cpu: Option<Duration>,
}

impl Lane {
    /// Stops a program.
    pub fn new(side: Side, mut started: Started) -> Result<Lane, Trouble> {
        let program = started.running.program(side == Side::Colored).ok_or("the program is gone")?;
        program.halt();
        Ok(Lane { side, started, program, wall: Duration::ZERO, cpu: None })
    }

    /// Lets the program run to its end.
    pub fn release(&self) {
        self.started.running.go_on(self.program);
    }
}

/// Starts a job on every side, in random order, and runs `prepare` on each.
pub fn line_up(
    session: &mut Session,
    job: impl Fn(Side) -> Job,
    mut prepare: impl FnMut(&Session, Side, &mut Running) -> Result<(), Trouble>,
) -> Result<Vec<Lane>, Trouble> {
    let mut order = Side::ALL;
    session.random.shuffle(&mut order);
    let start = |side| {
        let mut started = session.start(&job(side), side)?;
        prepare(session, side, &mut started.running)?;
        Lane::new(side, started)
    };
    order.into_iter().map(start).collect()
}

/// Runs the programs in turn until `over` returns true for each. `over` waits for the part's end, for at most the given
/// time.
pub fn take_turns(
    session: &Session,
    lanes: &mut [Lane],
    mut over: impl FnMut(&mut Lane, Duration) -> Result<bool, Trouble>,
) -> Result<(), Trouble> {
    let started = Instant::now();
    let before: Vec<Option<Duration>> = lanes.iter().map(|lane| lane.program.cpu()).collect();
    let mut under_way: Vec<usize> = (0..lanes.len()).collect();
    while !under_way.is_empty() {
        if started.elapsed() > session.extent.limit {
            return Err(Trouble { hung: true, reason: "the three did not get through in time".to_owned() });
        }
        let mut left = Vec::new();
        for index in under_way {
            let lane = &mut lanes[index];
            let turn = Instant::now();
            lane.program.go();
            let done = over(lane, SLICE)?;
            lane.program.halt();
            lane.wall += turn.elapsed();
            if done {
                lane.cpu = lane.program.cpu().zip(before[index]).map(|(after, before)| after.saturating_sub(before));
            } else {
                left.push(index);
            }
        }
        under_way = left;
    }
    Ok(())
}

/// The most attempts to stop each program within its part.
const STARTS: usize = 5;
/// How long to read output that a program wrote before it was stopped.
const LOOK: Duration = Duration::from_millis(1);

/// Measures a program whose output marks the beginning and end of its part: the time on each side, and the ends of the
/// runs.
pub fn race(session: &mut Session, job: &Job, stretch: Stretch) -> Result<Vec<Finished>, Trouble> {
    for _ in 0..STARTS {
        let mut lanes = line_up(
            session,
            |_| job.clone(),
            |session, _, running| match running.reads_to(stretch.begin, session.extent.limit)? {
                true => Ok(()),
                false => Err(Trouble { hung: true, reason: "the steady part did not begin in time".to_owned() }),
            },
        )?;
        // On a busy machine, a program may reach the end before this process sees the beginning.
        let mut is_late = false;
        for lane in &mut lanes {
            is_late |= lane.started.running.reads_to(stretch.end, LOOK)?;
        }
        if is_late {
            finish(session, lanes)?;
            continue;
        }
        take_turns(session, &mut lanes, |lane, limit| Ok(lane.started.running.reads_to(stretch.end, limit)?))?;
        return finish(session, lanes);
    }
    Err(Trouble { hung: false, reason: "the steady part was over before the program could be stopped".to_owned() })
}

/// The time that a program took for its part, and the end of the run.
pub struct Finished {
    /// Its side.
    pub side: Side,
    /// Time in which it could run.
    pub wall: Duration,
    /// Time of it in which it ran, all threads together.
    pub cpu: Option<Duration>,
    /// How the run ended.
    pub done: Measured,
}

/// Lets the programs run to their ends, one after the other.
pub fn finish(session: &mut Session, lanes: Vec<Lane>) -> Result<Vec<Finished>, Trouble> {
    let mut finished = Vec::new();
    for lane in lanes {
        lane.release();
        let Lane { side, started, wall, cpu, .. } = lane;
        finished.push(Finished { side, wall, cpu, done: session.finish_alone(started)? });
    }
    finish_entourage();
    Ok(finished)
}
