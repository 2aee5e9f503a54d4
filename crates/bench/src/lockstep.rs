//! Runs a program twice natively and once in color at the same time, in turn, a slice of time each.
//!
//! A machine that others use as well changes its speed from second to second, by more than what is to be seen. What
//! happens to one of the three within a slice happens to the others in the next ones. That of two native runs one is
//! called the control shows what is left to chance.
//!
//! The price: what memtint's processes do while their program is stopped costs it nothing. Their processor time is
//! told with the whole runs.

use std::time::{Duration, Instant};

use crate::child::{Mark, Program, Running, finish_entourage};
use crate::series::Side;
use crate::session::{Job, Measured, Session, Started, Trouble};

/// How long a program runs before the next one does.
pub const SLICE: Duration = Duration::from_millis(20);

/// The part of a run that is measured: from one mark of its output to another.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Where it begins.
    pub begin: Mark,
    /// Where it ends.
    pub end: Mark,
}

/// A program that stands still where its measured part begins, and what that has taken so far.
pub struct Lane {
    /// Its side.
    pub side: Side,
    /// The run.
    pub started: Started,
    program: Program,
    /// Time in which it could run.
    pub wall: Duration,
    /// Of it, time in which it ran, all threads together.
    pub cpu: Option<Duration>,
}

impl Lane {
    /// Stops a program.
    pub fn new(side: Side, mut started: Started) -> Result<Lane, Trouble> {
        let program = started.running.program(side == Side::Colored).ok_or("the program is gone")?;
        program.halt();
        Ok(Lane { side, started, program, wall: Duration::ZERO, cpu: None })
    }

    /// Lets the program go to its end by itself.
    pub fn release(&self) {
        self.started.running.go_on(self.program);
    }
}

/// Starts a job on every side, in an order of chance, and takes each as far as `prepare` goes.
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

/// Lets the programs run in turn until `over` says of each that its part is done; `over` waits so long at most.
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

/// How often the programs are started until each stands still within its part.
const STARTS: usize = 5;
/// How long is looked for what a program has said before it was stopped.
const LOOK: Duration = Duration::from_millis(1);

/// A program whose output says where its part begins and ends: what it took on each side, and the ends of the runs.
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
        // On a busy machine one may have come to the end before this process has seen the beginning.
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

/// What a program took for its part, and its end.
pub struct Finished {
    /// Its side.
    pub side: Side,
    /// Time in which it could run.
    pub wall: Duration,
    /// Of it, time in which it ran, all threads together.
    pub cpu: Option<Duration>,
    /// How the run ended.
    pub done: Measured,
}

/// Lets one after the other go to its end.
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
