//! Words that several cores change: one atomic word each, with the period it is about.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rule::{Kind, Reservation};

/// A 64-bit word that changes by compare-and-exchange.
///
/// [`Cell`] serves one thread (simulator, proofs), [`AtomicU64`] several; the algorithm is the same code.
pub trait Word {
    /// Creates a word.
    fn new(value: u64) -> Self;
    /// Reads the word. Sees everything that happened before the exchange that wrote the value.
    fn load(&self) -> u64;
    /// Replaces `current` by `new`.
    ///
    /// # Errors
    /// The value found, if it is not `current`, or if the exchange failed by chance.
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64>;
    /// Waits a moment for another core.
    fn pause() {
        std::hint::spin_loop();
    }
}

impl Word for Cell<u64> {
    fn new(value: u64) -> Self {
        Cell::new(value)
    }

    fn load(&self) -> u64 {
        self.get()
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        if self.get() != current {
            return Err(self.get());
        }
        self.set(new);
        Ok(())
    }
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }

    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

/// Changes a word until the exchange succeeds; `change` returns the new value and a result, or `Err` to leave the word as it
/// is.
fn update<W: Word, R>(word: &W, change: impl Fn(u64) -> Result<(u64, R), R>) -> R {
    let mut found = word.load();
    loop {
        match change(found) {
            Err(result) => return result,
            Ok((new, result)) => match word.exchange(found, new) {
                Ok(()) => return result,
                Err(other) => found = other,
            },
        }
    }
}

fn store<W: Word>(word: &W, value: u64) {
    update(word, |_| Ok((value, ())));
}

/// Whether one period is later than another. Numbers wrap around: the distance is below 2^31 periods (24 days of 1 ms).
pub(crate) fn is_later(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

/// Number of events that belongs to one period. Events left by another period cannot be taken: they have lapsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally<W>(W);

impl<W: Word> Tally<W> {
    const NONE: u64 = 0;

    pub(crate) fn new() -> Tally<W> {
        Tally(W::new(Self::NONE))
    }

    fn pack(period: u32, events: u32) -> u64 {
        u64::from(period) << 32 | u64::from(events)
    }

    fn unpack(word: u64) -> (u32, u32) {
        ((word >> 32) as u32, word as u32)
    }

    /// Begins a period with this many events, unless it has begun already.
    pub(crate) fn open(&self, period: u32, events: u32) {
        update(&self.0, |word| {
            if is_later(period, Self::unpack(word).0) { Ok((Self::pack(period, events), ())) } else { Err(()) }
        });
    }

    /// Takes up to `most` events of a period; returns how many.
    pub(crate) fn take(&self, period: u32, most: u32) -> u32 {
        self.take_if(period, |left| left.min(most))
    }

    /// Takes all events of a period but `kept`; returns how many.
    pub(crate) fn take_above(&self, period: u32, kept: u32) -> u32 {
        self.take_if(period, |left| left.saturating_sub(kept))
    }

    fn take_if(&self, period: u32, taken: impl Fn(u32) -> u32) -> u32 {
        update(&self.0, |word| {
            let (of, left) = Self::unpack(word);
            let taken = taken(left);
            if of != period || taken == 0 { Err(0) } else { Ok((Self::pack(period, left - taken), taken)) }
        })
    }

    /// Adds events to a period. Those of a period that is over lapse.
    pub(crate) fn add(&self, period: u32, events: u32) {
        update(&self.0, |word| {
            let (of, left) = Self::unpack(word);
            if of != period || events == 0 { Err(()) } else { Ok((Self::pack(period, left + events), ())) }
        });
    }

    /// Raises the events of a period to at least this many; returns by how many.
    pub(crate) fn raise(&self, period: u32, least: u32) -> u32 {
        update(&self.0, |word| {
            let (of, events) = Self::unpack(word);
            if of != period || events >= least { Err(0) } else { Ok((Self::pack(period, least), least - events)) }
        })
    }

    /// Events of a period; `None` when the word is about another one.
    pub(crate) fn of(&self, period: u32) -> Option<u32> {
        let (of, left) = Self::unpack(self.0.load());
        (of == period).then_some(left)
    }

    pub(crate) fn raw(&self) -> u64 {
        self.0.load()
    }
}

/// The only lock: one core at a time moves events between a group's account and the pool, so that no member finds both empty
/// while events are on their way. It is held for a few exchanges, and no core of a group of one ever waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock<W>(W);

impl<W: Word> Lock<W> {
    pub(crate) fn new() -> Lock<W> {
        Lock(W::new(0))
    }

    pub(crate) fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        while self.0.exchange(0, 1).is_err() {
            W::pause();
        }
        let result = work();
        while self.0.exchange(1, 0).is_err() {}
        result
    }
}

/// A group's reservation, and the one that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promise<W> {
    before: W,
    /// From a period on: `period << 32 | soft << 31 | budget`.
    after: W,
}

impl<W: Word> Promise<W> {
    /// Largest budget.
    pub(crate) const BUDGET_MAX: u32 = (1 << 31) - 1;

    fn pack(from: u32, Reservation { budget, kind }: Reservation) -> u64 {
        u64::from(from) << 32 | u64::from(kind == Kind::Soft) << 31 | u64::from(budget)
    }

    fn unpack(word: u64) -> (u32, Reservation) {
        let kind = if word >> 31 & 1 == 1 { Kind::Soft } else { Kind::Hard };
        ((word >> 32) as u32, Reservation { budget: word as u32 & Self::BUDGET_MAX, kind })
    }

    pub(crate) fn new(reservation: Reservation) -> Promise<W> {
        let word = Self::pack(0, reservation);
        Promise { before: W::new(word), after: W::new(word) }
    }

    pub(crate) fn of(&self, period: u32) -> Reservation {
        let (from, after) = Self::unpack(self.after.load());
        if is_later(from, period) { Self::unpack(self.before.load()).1 } else { after }
    }

    /// Replaces the reservation from a period on, which is later than `latest`, the latest that has begun.
    pub(crate) fn set(&self, latest: u32, from: u32, reservation: Reservation) {
        store(&self.before, Self::pack(latest, self.of(latest)));
        store(&self.after, Self::pack(from, reservation));
    }

    /// Keeps a reservation in force that has been so for long: period numbers wrap around.
    pub(crate) fn renew(&self, period: u32) {
        const LONG: u32 = 1 << 30;
        let word = self.after.load();
        let (from, reservation) = Self::unpack(word);
        if !is_later(from, period) && period.wrapping_sub(from) >= LONG {
            let renewed = Self::pack(period, reservation);
            store(&self.before, renewed);
            // When it fails, another one is being set, or the next period succeeds.
            let _ = self.after.exchange(word, renewed);
        }
    }

    pub(crate) fn raw(&self) -> [u64; 2] {
        [self.before.load(), self.after.load()]
    }
}

/// Effect of a change of the active cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing.
    None,
    /// Every active core has used its guarantee of this period, the latest.
    AllExhausted(u32),
    /// An active core has guarantee left again.
    NotAllExhausted,
}

/// How many cores are active (regulated and busy), and how many of these have used their guarantee in the latest period.
///
/// `period << 32 | met << 31 | exhausted << 16 | active`, where `met` is set while `exhausted >= active` and was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roll<W>(W);

#[derive(Clone, Copy)]
struct Counts {
    period: u32,
    met: bool,
    exhausted: u16,
    active: u16,
}

impl Counts {
    fn pack(self) -> u64 {
        u64::from(self.period) << 32
            | u64::from(self.met) << 31
            | u64::from(self.exhausted) << 16
            | u64::from(self.active)
    }

    fn unpack(word: u64) -> Counts {
        Counts {
            period: (word >> 32) as u32,
            met: word >> 31 & 1 == 1,
            exhausted: (word >> 16) as u16 & 0x7fff,
            active: word as u16,
        }
    }

    fn settle(&mut self) -> Turn {
        let met = self.active > 0 && self.exhausted >= self.active;
        let before = self.met;
        // When the last active core goes idle, nothing changes for the others.
        if self.active > 0 {
            self.met = met;
        }
        match (before, self.met) {
            (false, true) => Turn::AllExhausted(self.period),
            (true, false) => Turn::NotAllExhausted,
            _ => Turn::None,
        }
    }
}

impl<W: Word> Roll<W> {
    /// Most cores that can be counted.
    pub(crate) const CORES_MAX: usize = 0x7fff;

    pub(crate) fn new() -> Roll<W> {
        Roll(W::new(0))
    }

    fn change(&self, change: impl Fn(&mut Counts)) -> Turn {
        update(&self.0, |word| {
            let mut counts = Counts::unpack(word);
            change(&mut counts);
            let turn = counts.settle();
            if counts.pack() == word { Err(turn) } else { Ok((counts.pack(), turn)) }
        })
    }

    /// Begins a period, unless it has begun: no core has used its guarantee yet.
    pub(crate) fn open(&self, period: u32) -> Turn {
        update(&self.0, |word| {
            let counts = Counts::unpack(word);
            if !is_later(period, counts.period) {
                return Err(Turn::None);
            }
            let turn = if counts.met { Turn::NotAllExhausted } else { Turn::None };
            Ok((Counts { period, met: false, exhausted: 0, ..counts }.pack(), turn))
        })
    }

    /// A core becomes active; `exhausted`: it has used its guarantee of `period`.
    pub(crate) fn enter(&self, period: u32, exhausted: bool) -> Turn {
        self.change(|counts| {
            counts.active += 1;
            counts.exhausted += u16::from(exhausted && counts.period == period);
        })
    }

    /// An active core is no longer active.
    pub(crate) fn leave(&self, period: u32, exhausted: bool) -> Turn {
        self.change(|counts| {
            counts.active -= 1;
            counts.exhausted -= u16::from(exhausted && counts.period == period);
        })
    }

    /// An active core has used its guarantee.
    pub(crate) fn exhaust(&self, period: u32) -> Turn {
        self.change(|counts| counts.exhausted += u16::from(counts.period == period))
    }

    /// An active core that had used its guarantee has events again.
    pub(crate) fn resume(&self, period: u32) -> Turn {
        self.change(|counts| counts.exhausted -= u16::from(counts.period == period))
    }

    /// Whether every active core has used its guarantee of this period; `None` when a later one has begun.
    pub(crate) fn all_exhausted(&self, period: u32) -> Option<bool> {
        let counts = Counts::unpack(self.0.load());
        (counts.period == period).then_some(counts.met)
    }

    /// The latest period that has begun on any core.
    pub(crate) fn period(&self) -> u32 {
        Counts::unpack(self.0.load()).period
    }

    pub(crate) fn raw(&self) -> u64 {
        self.0.load()
    }
}

/// Every order of reads and exchanges that the memory model allows.
// The interpreter (`make miri`) does not know the system calls with which loom makes its stacks.
#[cfg(all(test, not(miri)))]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Checked(loom::sync::atomic::AtomicU64);

    impl Word for Checked {
        fn new(value: u64) -> Self {
            Checked(loom::sync::atomic::AtomicU64::new(value))
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

    /// Runs both at the same time; returns what they return.
    fn both<T, R: 'static>(shared: &Arc<T>, one: impl Fn(&T) -> R + 'static, other: impl Fn(&T) -> R) -> (R, R)
    where
        T: 'static,
    {
        let theirs = {
            let shared = shared.clone();
            thread::spawn(move || one(&shared))
        };
        let mine = other(shared);
        (theirs.join().expect("no assertion failed"), mine)
    }

    #[test]
    fn what_is_taken_and_added_at_the_same_time_adds_up() {
        loom::model(|| {
            let pool = Arc::new(Tally::<Checked>::new());
            pool.open(1, 3);
            let take = |pool: &Tally<Checked>| pool.take(1, 2);
            let (theirs, mine) = both(&pool, take, |pool| {
                pool.add(1, 1);
                pool.take(1, 2)
            });
            assert_eq!(theirs + mine + pool.of(1).expect("period 1"), 4);
            assert_eq!((theirs, mine), (2, 2));
        });
    }

    #[test]
    fn a_period_is_opened_once_and_what_is_left_of_the_one_before_lapses() {
        loom::model(|| {
            let pool = Arc::new(Tally::<Checked>::new());
            pool.open(1, 2);
            let begin = |pool: &Tally<Checked>| {
                pool.open(2, 3);
                pool.take(2, 2)
            };
            let late = |pool: &Tally<Checked>| {
                let late = pool.take(1, 1);
                pool.add(1, 1);
                pool.open(2, 3);
                late + 10 * pool.take(2, 2)
            };
            let (theirs, mine) = both(&pool, begin, late);
            assert_eq!(theirs + mine / 10, 3);
            assert_eq!(pool.of(2), Some(0));
            assert_eq!(pool.take(1, 9), 0);
        });
    }

    /// A core that sees the result of an exchange sees everything done before it.
    #[test]
    fn a_debt_is_seen_after_the_donation() {
        loom::model(|| {
            let words = Arc::new((Tally::<Checked>::new(), Tally::<Checked>::new()));
            words.0.open(1, 0);
            words.1.open(1, 0);
            let donate = |(pool, owed): &(Tally<Checked>, Tally<Checked>)| {
                pool.add(1, 2);
                owed.add(1, 2);
                0
            };
            let (_, back) = both(&words, donate, |(pool, owed)| match owed.take(1, 2) {
                0 => 2,
                owed => pool.take(1, owed),
            });
            assert_eq!(back, 2);
        });
    }

    #[test]
    fn the_last_core_is_found() {
        loom::model(|| {
            let roll = Arc::new(Roll::<Checked>::new());
            let _ = roll.open(1);
            assert_eq!([roll.enter(1, false), roll.enter(1, false)], [Turn::None; 2]);
            let (theirs, mine) = both(&roll, |roll| roll.exhaust(1), |roll| roll.leave(1, false));
            let mut turns = [theirs, mine];
            turns.sort_by_key(|turn| *turn == Turn::None);
            assert_eq!(turns, [Turn::AllExhausted(1), Turn::None]);
            assert_eq!(roll.all_exhausted(1), Some(true));
        });
    }

    #[test]
    fn late_exhaustion_does_not_count_in_the_next_period() {
        loom::model(|| {
            let roll = Arc::new(Roll::<Checked>::new());
            let _ = (roll.open(1), roll.enter(1, false));
            let (opened, exhausted) = both(&roll, |roll| roll.open(2), |roll| roll.exhaust(1));
            let before = [Turn::NotAllExhausted, Turn::AllExhausted(1)];
            assert!([opened, exhausted] == before || [opened, exhausted] == [Turn::None; 2]);
            assert_eq!(roll.all_exhausted(2), Some(false));
            assert_eq!(roll.all_exhausted(1), None);
        });
    }

    /// Two cores move events from one word to another under the lock: neither finds both words empty.
    #[test]
    fn events_that_move_are_not_missed() {
        loom::model(|| {
            let words = Arc::new((Tally::<Checked>::new(), Tally::<Checked>::new(), Lock::<Checked>::new()));
            words.0.open(1, 2);
            words.1.open(1, 0);
            type Words = (Tally<Checked>, Tally<Checked>, Lock<Checked>);
            let take = |(from, to, lock): &Words| {
                lock.hold(|| {
                    to.add(1, from.take(1, 2));
                    to.take(1, 1)
                })
            };
            assert_eq!(both(&words, take, take), (1, 1));
        });
    }

    #[test]
    fn a_reservation_stays_in_force_when_period_numbers_wrap_around() {
        let soft = |budget| Reservation { budget, kind: Kind::Soft };
        let promise = Promise::<Cell<u64>>::new(Reservation { budget: 7, kind: Kind::Hard });
        promise.set(1, 2, soft(9));
        assert_eq!([1, 2, 3].map(|period| promise.of(period).budget), [7, 9, 9]);
        let mut period = 2u32;
        for _ in 0..20 {
            period = period.wrapping_add(1 << 29);
            promise.renew(period);
            assert_eq!(promise.of(period), soft(9), "period {period}");
        }
        promise.set(period, period.wrapping_add(1), soft(5));
        promise.set(period, period.wrapping_add(1), soft(4));
        assert_eq!((promise.of(period), promise.of(period.wrapping_add(1))), (soft(9), soft(4)));
    }

    #[test]
    fn periods_wrap_around() {
        assert!(is_later(0, u32::MAX) && is_later(1, 0) && !is_later(u32::MAX, 0) && !is_later(7, 7));
    }
}
