//! Do copy tasks of servers keep short tasks in time, as computed by hand, and is what they ask for asked for?

use memtint_hiding::HidingError;
use memtint_hiding::crs::{
    Copied, Core, Inner, Kind, RankGroup, Refresh, Server, System, TimelineRun, TimelineViolation, What,
    check_timeline, judge, server_proofs, timeline,
};
use memtint_sched::{Effort, TaskIndex, TaskSet, TaskSpec, Verdict};
use memtint_units::Picoseconds;

fn us(value: u64) -> Picoseconds {
    Picoseconds::from_ns(value * 1000)
}

/// Locked for 3 ms: from 32 ms on, and from a phase on.
fn refresh(second: u64) -> Refresh {
    let group = |rank: u32, phase| RankGroup { ranks: vec![rank], phase: us(phase), burst: us(2979) };
    let groups = vec![group(0, 32_000), group(1, second)];
    Refresh { retention: us(64_000), lock: us(20), unlock: us(1), groups }
}

/// Tasks by period and WCET in microseconds; the first one is short.
fn server(group: usize, budget: u64, tasks: &[(u64, u64)], inner: Inner) -> Server {
    let spec = |(index, &(period, wcet))| TaskSpec::new(format!("t{index}"), us(period), us(wcet));
    let tasks = TaskSet::new(tasks.iter().enumerate().map(spec)).unwrap();
    let policy = inner.policy(&tasks);
    Server { group, period: us(500), budget: us(budget), kind: Kind::Deferrable, tasks, policy }
}

fn system(second: u64, servers: [Server; 2]) -> System {
    System::new(2, refresh(second), vec![Core { servers: servers.into() }]).unwrap()
}

/// Bounds by server and task, with the task of [`COPIED`].
fn bounds(system: &System) -> [Vec<Picoseconds>; 2] {
    let system = system.clone().with_copies(COPIED.into()).unwrap();
    let proofs = server_proofs(&system, Effort::default(), 100_000);
    let responses =
        |server: usize| proofs[0][server].as_ref().unwrap_or_else(|why| panic!("{why:?}")).responses.clone();
    [0, 1].map(responses)
}

const COPIED: [Copied; 1] = [Copied { core: 0, instances: [(0, TaskIndex(0)), (1, TaskIndex(0))] }];
const RM: Inner = Inner::RateMonotonic;

#[test]
fn a_job_shorter_than_a_burst_does_not_wait_for_it() {
    let tasks = [(1000, 100), (64_000, 3000)];
    let both = |inner| system(0, [server(0, 150, &tasks, inner), server(1, 500, &tasks, inner)]);
    for inner in [RM, Inner::Edf] {
        let [first, second] = bounds(&both(inner));
        // Nothing for 500 + 150 - 2 150 us, then the budget of 150 us; 100 us, and 20 and 1 us lost to the other group's tasks.
        // With earliest deadlines nobody goes before it: nothing is due before 64 ms, when it has had all its time.
        assert_eq!(first[0], us(350 + 121), "{inner:?}");
        // The second has what the first leaves over: 100 and 21 us, and twice 150 us within 121 to 421 us.
        assert_eq!(second[0], us(100 + 21 + 300), "{inner:?}");
        // As an ordinary task it is late, whichever server it is in.
        let without = both(inner);
        assert!(judge(&without, Effort::default(), 100_000).unwrap().is_unschedulable());
        let proofs = server_proofs(&without, Effort::default(), 100_000);
        assert!(proofs[0].iter().all(Result::is_err), "{proofs:?}");
    }
}

#[test]
fn work_piles_up_behind_the_lock() {
    let tasks = [(8000, 100), (4000, 50)];
    let both = |inner| system(0, [server(0, 250, &tasks, inner), server(1, 500, &tasks[..1], inner)]);
    // Nothing for 250 us, then 250 us in each 500. In 3000 us of lock the server could use 1750 us: with 50 us, 100 us, and 21 us lost to
    // the tasks of the other lock 1921 us are supplied in 250 + 7 500 + 171 us. That is with the lock, and the job comes after it.
    let [first, _] = bounds(&both(RM));
    assert_eq!(first, [us(3921 - 3000), us(3821)], "an ordinary task waits for the lock");
    // Of 8000 us the first has those before or after the lock; a deadline at 4000 us goes before one at 8000 us, and the other way round it does
    // not: of the copied task nothing is due in 4000 us that are locked for 3000.
    let [first, _] = bounds(&both(Inner::Edf));
    assert_eq!(first, [us(3921 - 3000), us(3821)]);
    // Nothing can pile up where all of higher priority are copied.
    let alone = |inner| system(0, [server(0, 250, &tasks[..1], inner), server(1, 500, &tasks[..1], inner)]);
    assert_eq!(bounds(&alone(RM))[0], [us(250 + 121)]);
    assert_eq!(bounds(&alone(Inner::Edf))[0], [us(250 + 121)]);
}

/// A copied task above an ordinary one: in a window with a lock it comes less often.
#[test]
fn jobs_that_the_lock_meets_are_not_counted() {
    let tasks = [(1000, 100), (8000, 1000)];
    let both = system(0, [server(0, 250, &tasks, RM), server(1, 500, &tasks[..1], RM)]);
    // 1750 us of lock, 21 us of the other's tasks, 1000 us, and four jobs of 100 us, not seven: they come in 3421 us beside the lock.
    let needed = 1750 + 21 + 1000 + 400;
    let response = 250 + needed / 250 * 500 + needed % 250;
    assert_eq!((response, (response - 3000u64).div_ceil(1000)), (6421, 4));
    assert_eq!(bounds(&both)[0][1], us(response));
}

/// The timeline has whose each job is, and the checker accepts it; what is changed in it is seen.
#[test]
fn a_yes_has_a_witness_with_copies() {
    let tasks = [(1000, 100), (64_000, 3000)];
    for inner in [RM, Inner::Edf] {
        let both = system(0, [server(0, 150, &tasks, inner), server(1, 500, &tasks, inner)]);
        let both = both.with_copies(COPIED.into()).unwrap();
        let Verdict::Schedulable(witness) = judge(&both, Effort::default(), 100_000).unwrap() else {
            panic!("bounds are known")
        };
        // 32 ms and two hyperperiods of 64 ms; the second instance has all from 32 ms on until its own lock at 64 ms.
        let own = |wanted: usize| {
            let of = move |run: &&TimelineRun| matches!(run.what, What::Job { server, task: TaskIndex(0), .. } if server == wanted);
            let jobs = witness.timeline.runs.iter().filter(of).map(|run| match run.what {
                What::Job { job, .. } => job,
                _ => unreachable!(),
            });
            let mut jobs: Vec<u64> = jobs.collect();
            jobs.dedup();
            jobs
        };
        let (first, second) = (own(0), own(1));
        assert_eq!(first, (0..32).chain(64..96).chain(128..160).collect::<Vec<_>>()[..first.len()]);
        assert_eq!(second, (32..64).chain(96..128).collect::<Vec<_>>());
        assert!(witness.accepted.responses[0].iter().zip(&witness.proof.cores[0]).all(|(seen, proof)| {
            seen.iter().zip(&proof.responses).all(|(seen, bound)| seen.is_none_or(|seen| seen <= *bound))
        }));
    }
}

#[test]
fn the_checker_sees_copies_that_are_wrong() {
    let tasks = [(1000, 100), (64_000, 3000)];
    let both = |second| system(second, [server(0, 150, &tasks, RM), server(1, 500, &tasks, RM)]);
    let copied = both(0).with_copies(COPIED.into()).unwrap();
    let right = timeline(&copied, 100_000);
    assert!(check_timeline(&copied, &right).is_ok());
    // Two tasks have all jobs each.
    assert!(matches!(check_timeline(&both(0), &right), Err(TimelineViolation::Job { .. })));
    let found = check_timeline(&copied, &timeline(&both(0), 100_000));
    assert!(matches!(found, Err(TimelineViolation::Job { .. } | TimelineViolation::Instances { .. })), "{found:?}");
    // A job that changes over in the middle.
    let of =
        |job: u64, run: &TimelineRun| matches!(run.what, What::Job { task: TaskIndex(0), job: own, .. } if own == job);
    let mut cut = right.clone();
    let place = cut.runs.iter().position(|run| of(10, run)).unwrap();
    let mut rest = cut.runs[place];
    let middle = Picoseconds(rest.start.0 + 1);
    (rest.start, rest.what) = (middle, What::Job { server: 1, task: TaskIndex(0), job: 10 });
    cut.runs[place].end = middle;
    cut.runs.insert(place + 1, rest);
    let found = check_timeline(&copied, &cut);
    assert_eq!(found, Err(TimelineViolation::Instances { run: place + 1, server: 1, task: TaskIndex(0), job: 10 }));
    // The job from 35 ms on goes back to the first instance, which is unlocked by then, and was not when the job before ran.
    let mut early = right.clone();
    early
        .runs
        .iter_mut()
        .filter(|run| of(35, run))
        .for_each(|run| run.what = What::Job { server: 0, task: TaskIndex(0), job: 35 });
    let run = early.runs.iter().position(|run| of(35, run)).unwrap();
    let found = check_timeline(&copied, &early);
    assert_eq!(found, Err(TimelineViolation::Copy { run, server: 0, task: TaskIndex(0), job: 35, at: us(32_000) }));
    // That from 34 ms on would run while it is locked.
    let mut met = right;
    met.runs
        .iter_mut()
        .filter(|run| of(34, run))
        .for_each(|run| run.what = What::Job { server: 0, task: TaskIndex(0), job: 34 });
    assert!(matches!(check_timeline(&copied, &met), Err(TimelineViolation::Locked { group: 0, .. })));
}

#[test]
fn what_copies_need_is_asked_for() {
    let tasks = [(1000, 100), (64_000, 3000)];
    let pair = |second, wcet| {
        let other = [(1000, wcet), (64_000, 3000)];
        system(second, [server(0, 150, &tasks, RM), server(1, 500, &other, RM)])
    };
    let refused = |system: System, copied: &[Copied], words: &str| match system.with_copies(copied.to_vec()) {
        Err(error @ HidingError::Server { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("{other:?}"),
    };
    let right = pair(0, 100);
    refused(right.clone(), &[Copied { core: 1, ..COPIED[0] }], "instances");
    refused(right.clone(), &[Copied { instances: [(0, TaskIndex(0)), (1, TaskIndex(2))], ..COPIED[0] }], "instances");
    refused(right.clone(), &[Copied { instances: [(0, TaskIndex(0)), (0, TaskIndex(1))], ..COPIED[0] }], "different");
    refused(
        right,
        &[COPIED[0], Copied { instances: [(1, TaskIndex(0)), (0, TaskIndex(0))], ..COPIED[0] }],
        "tasks of no other",
    );
    refused(pair(0, 101), &COPIED, "different");
    // The first is unlocked at 35 ms: 2 ms, a period and a deadline, to 37 ms are enough, and not a microsecond less.
    assert!(pair(37_000, 100).with_copies(COPIED.into()).is_ok());
    refused(pair(36_999, 100), &COPIED, "1.999 ms; accepted is a period and a deadline, 2 ms");
}
