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
}

fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(check);
}

type System = (Arc<Shared<Checked>>, Vec<Core<LastValue>>);

fn system(groups: &[(&[usize], u32)], sharing: Sharing) -> System {
    let group = |&(cores, budget): &(&[usize], u32)| Group {
        cores: cores.to_vec(),
        reservation: Reservation { budget, kind: Kind::Soft },
        quantum: 2,
        skid: 0,
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    let cores = groups.iter().map(|group| group.cores.len()).sum();
    let config = Config { cores, groups, guaranteed: 100, reclaim_step: 1, sharing };
    let (shared, cores) = parts(&config, |_| LastValue::default()).expect("a sound system");
    (Arc::new(shared), cores)
}

/// Runs a core until it is stopped, or does not count any more; returns what it was granted.
fn use_all(shared: &Shared<Checked>, core: &mut Core<LastValue>) -> u32 {
    let mut out = Vec::new();
    while !core.is_throttled() && !core.is_sharing() {
        let _ = core.consumed(shared, &mut out);
    }
    core.used().granted()
}

fn begin(shared: &Shared<Checked>, core: &mut Core<LastValue>, period: u32) -> Signal {
    core.period_start(shared, period, 0, &mut Vec::new())
}

/// Both begin a period, one donates, and both use what there is: no event is granted twice, and none is lost.
#[test]
fn a_donation_is_used_once() {
    model(3, || {
        let (shared, cores) = system(&[(&[0], 3), (&[1], 2)], Sharing::Off);
        let mut cores = cores.into_iter();
        let (mut donor, mut taker) = (cores.next().expect("two"), cores.next().expect("two"));
        for core in [&mut donor, &mut taker] {
            let _ = begin(&shared, core, 1);
        }
        let _ = taker.set_busy(&shared, true, &mut Vec::new());
        use_all(&shared, &mut taker);
        let _ = donor.set_busy(&shared, true, &mut Vec::new());
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let _ = begin(&shared, &mut taker, 2);
                let granted = use_all(&shared, &mut taker);
                (granted, taker.used())
            })
        };
        let _ = begin(&shared, &mut donor, 2);
        let granted = use_all(&shared, &mut donor);
        let (others, used) = other.join().expect("no assertion failed");
        assert!(granted + others <= 5, "{granted} {others}");
        assert_eq!(granted + others + shared.pool(2), 5);
        assert_eq!(donor.used().shortfall, used.reclaimed);
    });
}

/// Two cores of a group use one account.
#[test]
fn a_group_has_one_budget() {
    model(2, || {
        let (shared, mut cores) = system(&[(&[0, 1], 3)], Sharing::Off);
        for core in &mut cores {
            let _ = core.set_busy(&shared, true, &mut Vec::new());
        }
        let threads: Vec<_> = cores
            .into_iter()
            .map(|mut core| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let _ = begin(&shared, &mut core, 1);
                    use_all(&shared, &mut core)
                })
            })
            .collect();
        let granted: u32 = threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).sum();
        assert_eq!(granted, 3);
    });
}

/// The last active core to use its guarantee, or to go idle, signals the others exactly once.
#[test]
fn sharing_begins_once_and_for_all() {
    model(3, || {
        let (shared, mut cores) = system(&[(&[0], 1), (&[1], 1)], Sharing::Spare);
        for core in &mut cores {
            let _ = core.set_busy(&shared, true, &mut Vec::new());
            let _ = begin(&shared, core, 1);
        }
        let mut cores = cores.into_iter();
        let (mut first, mut second) = (cores.next().expect("two"), cores.next().expect("two"));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || (second.consumed(&shared, &mut Vec::new()), second))
        };
        let mine = first.set_busy(&shared, false, &mut Vec::new());
        let (others, mut second) = other.join().expect("no assertion failed");
        let signals = [mine, others].iter().filter(|&&signal| signal == Signal::Look).count();
        assert_eq!(signals, 1, "{mine:?} {others:?}");
        let mut out = Vec::new();
        second.look(&shared, &mut out);
        assert!(second.is_sharing(), "{out:?}");
        // The idle core has its budget left: when it comes back, sharing is over.
        assert_eq!(first.set_busy(&shared, true, &mut out), Signal::Look);
        second.look(&shared, &mut out);
        assert!(second.is_throttled() && matches!(out.last(), Some(Action::Throttle { core: 1, .. })));
    });
}
