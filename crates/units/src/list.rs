//! The list syntax in which users name colors, cores and nodes.
//!
//! ```text
//! list  = "all" | "none" | items | "!" items
//! items = item { "," item }
//! item  = number | number "-" number          first and last are both included
//! ```
//!
//! `!0-1` is everything but 0 and 1. Spaces around any token are ignored. Relative lists (`+0-1`, as in cpusets) are
//! refused: a plan must mean the same each time it is read.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Holds a set of indices in `0..limit`, sorted, without duplicates.
///
/// The limit is half of the meaning: `!0-1` has none without it, and two equal lists of different limits are different
/// sets. [`Display`](fmt::Display) writes the shortest plain list (`0-3,8`), `none` for the empty set and never `all`
/// or `!`, so that the text means the same under any larger limit; parsing it under the same limit gives the same set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexSet {
    /// Sorted, non-empty, neither overlapping nor touching; first and last included; every last is below `limit`.
    ranges: Vec<(u32, u32)>,
    limit: u32,
}

/// Holds a list as written. `all` and `!` have no meaning before the limit is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexList {
    /// Every index below the limit.
    All,
    /// The indices of these ranges: sorted, neither overlapping nor touching, first and last included.
    Only(Vec<(u32, u32)>),
    /// Every index below the limit except these ranges, which are shaped as in [`IndexList::Only`].
    Except(Vec<(u32, u32)>),
}

/// The reason why a text is not a list of indices, or not one below the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// An unexpected character or word.
    #[error("list {text:?}: found {found} at position {position}, accepted is {accepted}")]
    Syntax {
        /// The whole text.
        text: String,
        /// Byte position in the text, from 0.
        position: usize,
        /// The text at that position.
        found: String,
        /// The text accepted at that position.
        accepted: &'static str,
    },
    /// A relative list.
    #[error(
        "list {text:?}: found \"+\" at position {position}: relative lists are not accepted, \
         write the numbers themselves such as 0-3,8, or all, or !0-1 for all but 0 and 1"
    )]
    Relative {
        /// The whole text.
        text: String,
        /// Byte position of the plus sign, from 0.
        position: usize,
    },
    /// A range whose last is below its first.
    #[error(
        "list {text:?}: the range {first}-{last} at position {position} runs backwards, accepted is {last}-{first}"
    )]
    Backwards {
        /// The whole text.
        text: String,
        /// Byte position of the range, from 0.
        position: usize,
        /// The number before the dash.
        first: u32,
        /// The number after the dash.
        last: u32,
    },
    /// An index at or above the limit.
    #[error("list {text:?}: {found} is out of range, {}", accepted_below(*limit))]
    OutOfRange {
        /// The whole text, in canonical form where the original is not known.
        text: String,
        /// The largest index that is out of range.
        found: u32,
        /// The number of indices there are.
        limit: u32,
    },
}

fn accepted_below(limit: u32) -> String {
    match limit {
        0 => "and there is nothing to choose from".to_owned(),
        1 => "accepted is 0 only".to_owned(),
        _ => format!("accepted is 0-{}", limit - 1),
    }
}

impl IndexSet {
    /// Reads a list and resolves it below `limit` (excluded).
    ///
    /// # Errors
    /// [`ListError`] for text that is not a list, and for an index at or above `limit`, also behind `!`.
    ///
    /// ```
    /// use memtint_units::IndexSet;
    /// let set = IndexSet::parse("0-3,8", 16).unwrap();
    /// assert!(set.contains(8) && !set.contains(4));
    /// assert_eq!(set.len(), 5);
    /// ```
    pub fn parse(text: &str, limit: u32) -> Result<IndexSet, ListError> {
        let list: IndexList = text.parse()?;
        list.resolve(limit).map_err(|error| match error {
            ListError::OutOfRange { found, limit, .. } => ListError::OutOfRange { text: text.to_owned(), found, limit },
            other => other,
        })
    }

    /// Holds every index below `limit`.
    #[must_use]
    pub fn all(limit: u32) -> IndexSet {
        let ranges = if limit == 0 { Vec::new() } else { vec![(0, limit - 1)] };
        IndexSet { ranges, limit }
    }

    /// Holds nothing, below `limit`.
    #[must_use]
    pub fn none(limit: u32) -> IndexSet {
        IndexSet { ranges: Vec::new(), limit }
    }

    /// Holds the given indices, in any order and with duplicates allowed.
    ///
    /// # Errors
    /// [`ListError::OutOfRange`] for an index at or above `limit`.
    pub fn from_indices(indices: impl IntoIterator<Item = u32>, limit: u32) -> Result<IndexSet, ListError> {
        IndexList::Only(normalize(indices.into_iter().map(|index| (index, index)).collect())).resolve(limit)
    }

    /// Returns whether the index is in the set; logarithmic in the number of ranges.
    #[must_use]
    pub fn contains(&self, index: u32) -> bool {
        let after = self.ranges.partition_point(|&(first, _)| first <= index);
        after > 0 && index <= self.ranges[after - 1].1
    }

    /// Walks the indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Gives the ranges, first and last included: sorted, neither overlapping nor touching.
    #[must_use]
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// Counts the indices.
    #[must_use]
    pub fn len(&self) -> u32 {
        // At most `limit`, so the sum fits.
        self.ranges.iter().map(|&(first, last)| last - first + 1).sum()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Gives the number of indices there are to choose from; every index in the set is below it.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Gives the largest index of the set, `None` when it is empty.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|&(_, last)| last)
    }

    /// Gives the indices that both sets hold, under the smaller of the two limits.
    #[must_use]
    pub fn intersection(&self, other: &IndexSet) -> IndexSet {
        let mut ranges = Vec::new();
        let (mut a, mut b) = (self.ranges.as_slice(), other.ranges.as_slice());
        while let (Some(&(a_first, a_last)), Some(&(b_first, b_last))) = (a.first(), b.first()) {
            let (first, last) = (a_first.max(b_first), a_last.min(b_last));
            if first <= last {
                ranges.push((first, last));
            }
            if a_last < b_last { a = &a[1..] } else { b = &b[1..] }
        }
        IndexSet { ranges, limit: self.limit.min(other.limit) }
    }
}

impl IndexList {
    /// Gives the set this list means below `limit` (excluded).
    ///
    /// # Errors
    /// [`ListError::OutOfRange`] for an index at or above `limit`, also behind `!`.
    pub fn resolve(&self, limit: u32) -> Result<IndexSet, ListError> {
        let (IndexList::Only(ranges) | IndexList::Except(ranges)) = self else {
            return Ok(IndexSet::all(limit));
        };
        if let Some(&(_, last)) = ranges.last().filter(|&&(_, last)| last >= limit) {
            return Err(ListError::OutOfRange { text: self.to_string(), found: last, limit });
        }
        let ranges = match self {
            IndexList::Except(_) => complement(ranges, limit),
            _ => ranges.clone(),
        };
        Ok(IndexSet { ranges, limit })
    }
}

fn complement(ranges: &[(u32, u32)], limit: u32) -> Vec<(u32, u32)> {
    let mut rest = Vec::new();
    let mut next = 0;
    for &(first, last) in ranges {
        if next < first {
            rest.push((next, first - 1));
        }
        next = last + 1; // last < limit, so this fits
    }
    if next < limit {
        rest.push((next, limit - 1));
    }
    rest
}

/// Sorts ranges and joins those that overlap or touch.
fn normalize(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

fn write_ranges(ranges: &[(u32, u32)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if ranges.is_empty() {
        return f.write_str("none");
    }
    for (position, &(first, last)) in ranges.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        if first == last {
            write!(f, "{comma}{first}")?;
        } else {
            write!(f, "{comma}{first}-{last}")?;
        }
    }
    Ok(())
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ranges(&self.ranges, f)
    }
}

impl fmt::Display for IndexList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexList::All => f.write_str("all"),
            IndexList::Only(ranges) => write_ranges(ranges, f),
            // "!none" is not in the syntax; without exceptions the list is "all".
            IndexList::Except(ranges) if ranges.is_empty() => f.write_str("all"),
            IndexList::Except(ranges) => {
                f.write_str("!")?;
                write_ranges(ranges, f)
            }
        }
    }
}

impl FromStr for IndexList {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut cursor = Cursor { text, position: 0 };
        cursor.skip_spaces();
        match text.trim() {
            "all" => return Ok(IndexList::All),
            "none" => return Ok(IndexList::Only(Vec::new())),
            _ => {}
        }
        if cursor.eat('!') {
            return Ok(IndexList::Except(cursor.items()?));
        }
        Ok(IndexList::Only(cursor.items()?))
    }
}

struct Cursor<'a> {
    text: &'a str,
    position: usize,
}

impl Cursor<'_> {
    fn items(&mut self) -> Result<Vec<(u32, u32)>, ListError> {
        let mut ranges = vec![self.item()?];
        while self.eat(',') {
            ranges.push(self.item()?);
        }
        if self.position < self.text.len() {
            return Err(self.unexpected("a comma, a dash or the end of the list"));
        }
        Ok(normalize(ranges))
    }

    fn item(&mut self) -> Result<(u32, u32), ListError> {
        self.skip_spaces();
        let position = self.position;
        let first = self.number()?;
        let last = if self.eat('-') { self.number()? } else { first };
        if last < first {
            return Err(ListError::Backwards { text: self.text.to_owned(), position, first, last });
        }
        Ok((first, last))
    }

    fn number(&mut self) -> Result<u32, ListError> {
        const ACCEPTED: &str = "a number below 4294967295 (the forms are 0-3,8 and all and !0-1)";
        self.skip_spaces();
        if self.rest().starts_with('+') {
            return Err(ListError::Relative { text: self.text.to_owned(), position: self.position });
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        // u32::MAX itself is left out so that a limit above every index exists.
        let number = rest[..end].parse().ok().filter(|&number| number < u32::MAX);
        let number = number.ok_or_else(|| self.unexpected(ACCEPTED))?;
        self.position += end;
        self.skip_spaces();
        Ok(number)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.position += wanted.len_utf8();
        }
        found
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn skip_spaces(&mut self) {
        self.position += self.rest().len() - self.rest().trim_start().len();
    }

    fn unexpected(&self, accepted: &'static str) -> ListError {
        let rest = self.rest();
        let word_end = rest.find([',', '-']).filter(|&end| end > 0).unwrap_or(rest.len());
        let word: String = rest[..word_end].chars().take(24).collect();
        let found = if word.is_empty() { "the end".to_owned() } else { format!("{word:?}") };
        ListError::Syntax { text: self.text.to_owned(), position: self.position, found, accepted }
    }
}

impl Serialize for IndexSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IndexSet {
    /// Reads the canonical text; the limit becomes one more than the largest index, because the text has no other.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match IndexList::deserialize(deserializer)? {
            IndexList::Only(ranges) => {
                let limit = ranges.last().map_or(0, |&(_, last)| last + 1);
                Ok(IndexSet { ranges, limit })
            }
            relative => Err(D::Error::custom(format!(
                "list {:?} needs to know how many indices there are, accepted here is a plain list such as 0-3,8",
                relative.to_string()
            ))),
        }
    }
}

impl Serialize for IndexList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IndexList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(list: &str, limit: u32) -> String {
        IndexSet::parse(list, limit).map_or_else(|error| error.to_string(), |set| set.to_string())
    }

    #[test]
    fn lists_are_brought_into_canonical_form() {
        for (list, canonical) in [
            ("0-3,8", "0-3,8"),
            (" 8 , 0 - 3 ", "0-3,8"),
            ("3,2,1,0,2", "0-3"),
            ("all", "0-15"),
            ("none", "none"),
            ("!0-1", "2-15"),
            ("!15", "0-14"),
            ("!0-15", "none"),
            ("!3,7-9", "0-2,4-6,10-15"),
        ] {
            assert_eq!(text_of(list, 16), canonical, "{list}");
        }
    }

    #[test]
    fn refusals_say_where_what_and_what_else() {
        for (list, message) in [
            ("", "list \"\": found the end at position 0, accepted is a number"),
            ("0-3,", "found the end at position 4"),
            ("0,x", "found \"x\" at position 2"),
            ("1 2", "found \"2\" at position 2, accepted is a comma, a dash or the end of the list"),
            ("+0-1", "found \"+\" at position 0: relative lists are not accepted"),
            ("0,+1", "found \"+\" at position 2: relative"),
            ("3-1", "the range 3-1 at position 0 runs backwards, accepted is 1-3"),
            ("0-16", "list \"0-16\": 16 is out of range, accepted is 0-15"),
            ("!16", "list \"!16\": 16 is out of range"),
            ("-1", "found \"-1\" at position 0"),
            ("!all", "found \"all\" at position 1"),
            ("4294967295", "accepted is a number below 4294967295"),
        ] {
            let found = text_of(list, 16);
            assert!(found.contains(message), "{list:?}: {found}");
        }
    }

    #[test]
    fn sets_answer_questions() {
        let set = IndexSet::parse("1,4-6", 8).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 4, 5, 6]);
        assert_eq!((0..9).filter(|&i| set.contains(i)).collect::<Vec<_>>(), [1, 4, 5, 6]);
        assert_eq!((set.len(), set.limit(), set.last(), set.is_empty()), (4, 8, Some(6), false));
        let other = IndexSet::parse("0,5-7", 8).unwrap();
        assert_eq!(set.intersection(&other).to_string(), "5-6");
        assert!(IndexSet::none(8).is_empty() && IndexSet::all(0).is_empty());
        assert_eq!(IndexSet::from_indices([6, 4, 1, 5], 8).unwrap(), set);
    }
}
