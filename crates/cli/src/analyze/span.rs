//! Which part of a schedule a picture shows.

use memtint_units::Picoseconds;

use crate::output::{Failure, time};

/// Options of all verbs that draw schedules.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct SpanArguments {
    /// With --svg: time at which the picture begins, such as 0 or 20ms [default: the beginning of the schedule].
    #[arg(long, value_name = "TIME", requires = "svg", value_parser = instant)]
    from: Option<Picoseconds>,
    /// With --svg: time at which the picture ends, such as 40ms [default: the end of the schedule; without --from, earlier where that
    /// is too dense].
    #[arg(long, value_name = "TIME", requires = "svg", value_parser = instant)]
    to: Option<Picoseconds>,
}

impl SpanArguments {
    /// Refuses times of which no schedule shows anything, before there is one.
    pub(crate) fn check(self) -> Result<(), Failure> {
        match (self.from.unwrap_or_default(), self.to) {
            (from, Some(to)) if to <= from => Err(Failure::Sentence(format!(
                "--to: found {}, where the picture begins at {}; accepted is a later time",
                time(to),
                time(from)
            ))),
            _ => Ok(()),
        }
    }

    /// Gives the span of a schedule that ends at a time; `None` where none was asked for.
    pub(crate) fn of(self, end: Picoseconds) -> Result<Option<(Picoseconds, Picoseconds)>, Failure> {
        self.check()?;
        let (from, to) = (self.from.unwrap_or_default(), self.to.unwrap_or(end));
        let refuse = |option: &str, found: Picoseconds, accepted: String| {
            let (found, end) = (time(found), time(end));
            Err(Failure::Sentence(format!(
                "{option}: found {found}, what can be drawn ends at {end} (a schedule that --jobs cuts ends there); accepted is {accepted}"
            )))
        };
        if from >= end {
            return refuse("--from", from, format!("0 to less than {}", time(end)));
        }
        if to > end {
            return refuse("--to", to, format!("more than {} to {}", from_of(from), time(end)));
        }
        Ok(self.from.or(self.to).map(|_| (from, to)))
    }
}

/// Writes the beginning without a unit, as it may be given.
fn from_of(from: Picoseconds) -> String {
    if from.0 == 0 { "0".to_owned() } else { time(from) }
}

/// Reads a point in time: the beginning needs no unit.
fn instant(text: &str) -> Result<Picoseconds, String> {
    let unit =
        || text.parse().map_err(|_| "accepted is 0, or a number with ps, ns, us, ms or s, such as 20ms".to_owned());
    if text == "0" { Ok(Picoseconds(0)) } else { unit() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: Option<&str>, to: Option<&str>) -> SpanArguments {
        let read = |text: &str| instant(text).unwrap();
        SpanArguments { from: from.map(read), to: to.map(read) }
    }

    #[test]
    fn a_span_lies_in_its_schedule() {
        let end = instant("40 ms").unwrap();
        let of = |from, to| span(from, to).of(end).ok().flatten().map(|(from, to)| format!("{from}-{to}"));
        assert_eq!(of(Some("0"), Some("20ms")).as_deref(), Some("0 ps-20 ms"));
        assert_eq!(of(Some("39.9 ms"), None).as_deref(), Some("39.9 ms-40 ms"));
        assert_eq!((of(None, Some("40ms")).as_deref(), of(None, None)), (Some("0 ps-40 ms"), None));
    }

    #[test]
    fn other_spans_are_refused_with_what_is_accepted() {
        let end = instant("40 ms").unwrap();
        let refused = |from, to| match span(from, to).of(end) {
            Err(Failure::Sentence(sentence)) => sentence,
            _ => panic!("accepted"),
        };
        let late = "found 41 ms, what can be drawn ends at 40 ms (a schedule that --jobs cuts ends there); accepted is";
        assert_eq!(refused(Some("41ms"), None), format!("--from: {late} 0 to less than 40 ms"));
        assert_eq!(refused(Some("2 ms"), Some("41ms")), format!("--to: {late} more than 2 ms to 40 ms"));
        assert_eq!(
            refused(Some("2 ms"), Some("2 ms")),
            "--to: found 2 ms, where the picture begins at 2 ms; accepted is a later time"
        );
        assert!(["20", "-1ms", "x"].iter().all(|text| instant(text).is_err()));
    }
}
