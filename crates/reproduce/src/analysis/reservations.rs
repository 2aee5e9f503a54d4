//! Does the guaranteed bandwidth cover the budgets of cores? For figures about the reservation rule.

use crate::answer::{Found, Results};
use crate::error::{ReproduceError, refuse};
use memtint_guard::{Config, Group, GuardError, Kind, Reservation, Sharing, bandwidth, events_per_period};
use memtint_units::Picoseconds;
use num_bigint::BigUint;
use num_rational::Ratio;
use serde::Deserialize;
use toml::Value;

/// The most of each number that is given.
const NUMBER_MAX: u64 = 1_000_000;

/// Cores with a budget each, and the bandwidth that the memory guarantees.
pub(super) struct Reservations {
    /// In events per period, as all that follows.
    budgets: Vec<u32>,
    guaranteed: u32,
    quantum: u32,
    skid: u32,
    period: Picoseconds,
    line_bytes: u64,
}

/// The fields of [`Method::ReservationRule`](crate::figure::Method).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    budgets_mb_per_s: Vec<u64>,
    guaranteed_mb_per_s: u64,
    quantum: u64,
    skid: u64,
    period_us: u64,
    line_bytes: u64,
}

impl Reservations {
    /// Reads the parameters, in events per period.
    pub(super) fn read(id: &str, field: &str, with: &Value) -> Result<Reservations, ReproduceError> {
        let wrong = |found: String, accepted: &str| refuse(id, field, found, accepted);
        let accepted = "budgets_mb_per_s, guaranteed_mb_per_s, quantum, skid, period_us and line_bytes";
        let with: With =
            with.clone().try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned(), accepted))?;
        if with.budgets_mb_per_s.is_empty() {
            return Err(wrong("no budgets_mb_per_s".to_owned(), "one of each core"));
        }
        let numbers = [
            ("guaranteed_mb_per_s", with.guaranteed_mb_per_s, 1),
            ("quantum", with.quantum, 1),
            ("skid", with.skid, 0),
            ("period_us", with.period_us, 1),
            ("line_bytes", with.line_bytes, 1),
        ];
        let budgets = with.budgets_mb_per_s.iter().map(|&budget| ("budgets_mb_per_s", budget, 1));
        for (name, number, least) in numbers.into_iter().chain(budgets) {
            if !(least..=NUMBER_MAX).contains(&number) {
                return Err(wrong(format!("{name} {number}"), &format!("{least} to {NUMBER_MAX}")));
            }
        }
        let period = Picoseconds(with.period_us * 1_000_000);
        let events = |mb_per_s: u64| {
            let events = events_per_period(mb_per_s * 1_000_000, with.line_bytes, period);
            u32::try_from(events).map_err(|_| wrong(format!("{events} events in a period"), "up to 4294967295"))
        };
        let reservations = Reservations {
            budgets: with.budgets_mb_per_s.iter().map(|&budget| events(budget)).collect::<Result<_, _>>()?,
            guaranteed: events(with.guaranteed_mb_per_s)?,
            quantum: with.quantum as u32,
            skid: with.skid as u32,
            period,
            line_bytes: with.line_bytes,
        };
        // A sum that is too great is an answer.
        match reservations.config(reservations.guaranteed).check() {
            Ok(()) | Err(GuardError::OverReserved { .. }) => Ok(reservations),
            Err(error) => Err(wrong(error.to_string(), "a system that can be regulated")),
        }
    }

    /// The system to regulate.
    fn config(&self, guaranteed: u32) -> Config {
        let group = |(core, &budget): (usize, &u32)| Group {
            cores: vec![core],
            reservation: Reservation { budget, kind: Kind::Hard },
            quantum: self.quantum,
            skid: self.skid,
        };
        Config {
            cores: self.budgets.len(),
            groups: self.budgets.iter().enumerate().map(group).collect(),
            guaranteed,
            reclaim_step: 1,
            sharing: Sharing::Off,
        }
    }

    pub(super) fn run(&self, found: &mut Results) {
        let cores = self.budgets.len() as u64;
        let budgets: u64 = self.budgets.iter().map(|&budget| u64::from(budget)).sum();
        let needed = budgets + cores * u64::from(self.quantum + self.skid);
        let accepted =
            |guaranteed: u64| u32::try_from(guaranteed).is_ok_and(|guaranteed| self.config(guaranteed).check().is_ok());
        let guaranteed = u64::from(self.guaranteed);
        for (name, number) in [("cores", cores), ("terms of a sum from 0 to their number", cores + 1)] {
            found.insert(name.to_owned(), super::count(number));
        }
        for (name, events) in [("budgets", budgets), ("budgets, quanta and skids", needed)] {
            let bytes_per_s = bandwidth(events, self.line_bytes, self.period);
            let mb_per_s = Ratio::new(BigUint::from(bytes_per_s), BigUint::from(1_000_000_u32));
            found.insert(format!("{name} MB/s"), Found::Number(mb_per_s));
        }
        let questions = [
            ("below", budgets < guaranteed),
            ("at most", budgets <= guaranteed),
            ("accepted", accepted(guaranteed)),
            ("accepted at equality", accepted(needed)),
            ("accepted below equality", accepted(needed - 1)),
        ];
        for (name, is) in questions {
            found.insert(name.to_owned(), super::yes(is));
        }
    }
}
