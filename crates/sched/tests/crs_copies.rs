//! Do copy tasks of servers keep short tasks in time, as computed by hand, and is what they ask for asked for?

use memtint_sched::crs::{
    Copied, Core, Inner, Kind, RankGroup, Refresh, Server, System, copied_responses, judge, server_proofs,
};
use memtint_sched::{Effort, SchedError, TaskSet, TaskSpec, Unsupported};
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

const COPIED: [Copied; 1] = [Copied { core: 0, instances: [(0, 0), (1, 0)] }];
const RM: Inner = Inner::RateMonotonic;

#[test]
fn a_job_shorter_than_a_burst_does_not_wait_for_it() {
    let tasks = [(1000, 100), (64_000, 3000)];
    let both = system(0, [server(0, 150, &tasks, RM), server(1, 500, &tasks, RM)]);
    let bounds = copied_responses(&both, &COPIED).unwrap().unwrap();
    // Nothing for 500 + 150 - 2 150 us, then the budget of 150 us; 100 us, and 20 and 1 us lost to the other group's tasks.
    assert_eq!(bounds[0][0][0], us(350 + 121));
    // The second has what the first leaves over: 100 and 21 us, and twice 150 us within 121 to 421 us.
    assert_eq!(bounds[0][1][0], us(100 + 21 + 300));
    // As an ordinary task it is late, whichever server it is in.
    assert!(judge(&both, Effort::default(), 100_000).is_unschedulable());
    let proofs = server_proofs(&both, Effort::default(), 100_000);
    assert!(proofs[0].iter().all(Result::is_err), "{proofs:?}");
}

#[test]
fn work_piles_up_behind_the_lock() {
    let tasks = [(8000, 100), (4000, 50)];
    let both = system(0, [server(0, 250, &tasks, RM), server(1, 500, &tasks[..1], RM)]);
    let bounds = copied_responses(&both, &COPIED).unwrap().unwrap();
    // Nothing for 250 us, then 250 us in each 500. In 3000 us of lock the server could use 1750 us: with 50 us, 100 us, and 21 us lost to
    // the tasks of the other lock 1921 us are supplied in 250 + 7 500 + 171 us. That is with the lock, and the job comes after it;
    // work that piles up while it is locked, 171 us after 250 us, takes less.
    assert_eq!(bounds[0][0][0], us(3921 - 3000));
    assert_eq!(bounds[0][0][1], us(3821), "an ordinary task waits for the lock");
    // Nothing can pile up where all of higher priority are copied.
    let alone = system(0, [server(0, 250, &tasks[..1], RM), server(1, 500, &tasks[..1], RM)]);
    assert_eq!(copied_responses(&alone, &COPIED).unwrap().unwrap()[0][0][0], us(250 + 121));
}

#[test]
fn what_copies_need_is_asked_for() {
    let tasks = [(1000, 100), (64_000, 3000)];
    let pair = |second, wcet, inner| {
        let other = [(1000, wcet), (64_000, 3000)];
        system(second, [server(0, 150, &tasks, inner), server(1, 500, &other, RM)])
    };
    let refused = |system: &System, copied: Copied, words: &str| match copied_responses(system, &[copied]) {
        Err(error @ SchedError::Crs { .. }) => assert!(error.to_string().contains(words), "{error}"),
        other => panic!("{other:?}"),
    };
    let right = pair(0, 100, RM);
    refused(&right, Copied { core: 1, ..COPIED[0] }, "instances");
    refused(&right, Copied { instances: [(0, 0), (1, 2)], ..COPIED[0] }, "instances");
    refused(&right, Copied { instances: [(0, 0), (0, 1)], ..COPIED[0] }, "different");
    refused(&pair(0, 101, RM), COPIED[0], "different");
    // The first is unlocked at 35 ms: 2 ms, a period and a deadline, to 37 ms are enough, and not a microsecond less.
    assert!(copied_responses(&pair(37_000, 100, RM), &COPIED).is_ok());
    refused(&pair(36_999, 100, RM), COPIED[0], "1999000000 ps; accepted is a period and a deadline, 2000000000 ps");
    let edf = copied_responses(&pair(0, 100, Inner::Edf), &COPIED).unwrap();
    assert!(matches!(edf, Err(Unsupported::Precondition { task: 0, .. })), "{edf:?}");
}
