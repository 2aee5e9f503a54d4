//! Do the laws hold when cores run at the same time, in every order of their reads and exchanges that the memory model allows?
//!
//! `loom` runs each model in all of them that change threads a few times before a thread has to wait. The words themselves are
//! checked without this bound, beside their code.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use memtint_guard::{Action, Config, Core, Group, Kind, LastValue, Reservation, Shared, Sharing, Signal, Word, parts};

/// The same orderings as of the word for several threads.
struct Checked(AtomicU64);

impl Word for Checked {
    fn new(value: u64) -> Self {
        Checked(AtomicU64::new(value))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn pause() {
        thread::yield_now();
    }
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

type System = (Arc<Shared<Checked>>, Vec<Core<LastValue>>);

fn system(groups: &[(&[usize], u32)], kind: Kind, sharing: Sharing) -> System {
    let group = |&(cores, budget): &(&[usize], u32)| Group {
        cores: cores.to_vec(),
        reservation: Reservation { budget, kind },
        quantum: 2,
        skid: 0,
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    let cores = groups.iter().map(|group| group.cores.len()).sum();
    let config = Config { cores, groups, guaranteed: 100, reclaim_step: 1, sharing };
    let (shared, cores) = parts(&config, |_| LastValue::default()).expect("a sound system");
    (Arc::new(shared), cores)
}

/// Runs a core until it is stopped; returns what it was granted.
fn use_all(shared: &Shared<Checked>, core: &mut Core<LastValue>, mut out: Vec<Action>) -> u32 {
    while let Some(Action::Grant { grant, .. }) = out.pop() {
        let _ = core.consumed(shared, grant, &mut out);
    }
    core.used().granted()
}

/// Begins a period and uses all there is.
fn begin_and_use(shared: &Shared<Checked>, core: &mut Core<LastValue>, period: u32) -> u32 {
    let mut out = Vec::new();
    let _ = core.period_start(shared, period, 0, &mut out);
    use_all(shared, core, out)
}

/// Both begin a period, one donates, and both use what there is: no event is granted twice, and none is lost.
#[test]
fn a_donation_is_used_once() {
    model(3, || {
        let (shared, mut cores) = system(&[(&[0], 3), (&[1], 2)], Kind::Soft, Sharing::Off);
        let (mut taker, mut donor) = (cores.remove(1), cores.remove(0));
        let _ = donor.period_start(&shared, 1, 0, &mut Vec::new());
        let _ = taker.busy(&shared, &mut Vec::new());
        begin_and_use(&shared, &mut taker, 1);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || (begin_and_use(&shared, &mut taker, 2), taker.used()))
        };
        let mut out = Vec::new();
        let _ = donor.period_start(&shared, 2, 0, &mut out);
        let _ = donor.busy(&shared, &mut out);
        let granted = use_all(&shared, &mut donor, out);
        let (others, used) = other.join().expect("no assertion failed");
        assert_eq!(granted + others + shared.pool(2), 5);
        assert_eq!(donor.used().shortfall, used.reclaimed);
    });
}

/// Two cores of a group use one account.
#[test]
fn a_group_has_one_budget() {
    model(2, || {
        let (shared, mut cores) = system(&[(&[0, 1], 3)], Kind::Hard, Sharing::Off);
        for core in &mut cores {
            let _ = core.busy(&shared, &mut Vec::new());
        }
        let use_it = |mut core: Core<LastValue>| {
            let shared = shared.clone();
            thread::spawn(move || begin_and_use(&shared, &mut core, 1))
        };
        let threads: Vec<_> = cores.into_iter().map(use_it).collect();
        let granted: u32 = threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).sum();
        assert_eq!(granted, 3);
    });
}

/// Two cores of a group take its donation back at the same time: neither is throttled while there are events of it.
#[test]
fn a_group_takes_its_donation_back() {
    model(2, || {
        let (shared, mut cores) = system(&[(&[0, 1], 5)], Kind::Soft, Sharing::Off);
        for core in &mut cores {
            let _ = core.period_start(&shared, 1, 0, &mut Vec::new());
        }
        for core in &mut cores {
            let _ = core.period_start(&shared, 2, 0, &mut Vec::new());
        }
        // One event was kept.
        assert_eq!(shared.pool(2), 4);
        let use_it = |mut core: Core<LastValue>| {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut out = Vec::new();
                let _ = core.busy(&shared, &mut out);
                use_all(&shared, &mut core, out);
                core.used()
            })
        };
        let threads: Vec<_> = cores.into_iter().map(use_it).collect();
        let used: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).collect();
        assert_eq!(used.iter().map(|used| used.reserved + used.returned).sum::<u32>(), 5, "{used:?}");
        assert!(used.iter().all(|used| used.shortfall == 0 && used.reclaimed == 0), "{used:?}");
    });
}

/// The last active core to use its guarantee, or to go idle, signals the others exactly once.
#[test]
fn sharing_begins_once_and_for_all() {
    model(3, || {
        let (shared, mut cores) = system(&[(&[0], 1), (&[1], 1)], Kind::Soft, Sharing::Spare);
        for core in &mut cores {
            let _ = core.busy(&shared, &mut Vec::new());
            let _ = core.period_start(&shared, 1, 0, &mut Vec::new());
        }
        let (mut second, mut first) = (cores.remove(1), cores.remove(0));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || (second.consumed(&shared, 1, &mut Vec::new()), second))
        };
        let mine = first.idle(&shared, 0, &mut Vec::new());
        let (others, mut second) = other.join().expect("no assertion failed");
        let signals = [mine, others].iter().filter(|&&signal| signal == Signal::Look).count();
        assert_eq!(signals, 1, "{mine:?} {others:?}");
        let mut out = Vec::new();
        let _ = second.look(&shared, &mut out);
        assert!(second.is_sharing(), "{out:?}");
        // The idle core has its budget left: when it comes back, sharing is over.
        assert_eq!(first.busy(&shared, &mut out), Signal::Look);
        let _ = second.look(&shared, &mut out);
        assert!(second.is_throttled() && matches!(out.last(), Some(Action::Throttle { core: 1, .. })));
    });
}
