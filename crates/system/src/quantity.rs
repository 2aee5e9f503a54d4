//! Values of fields: each type parses its text form, and its error names the accepted values.

use std::fmt;

use memtint_units::{IndexList, Picoseconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time, for [`Place::need`](crate::Place::need).
pub const TIME: &str = "a time such as \"20 ms\"";
/// The accepted form of a time.
const SPAN: &str = "a text with a number and its unit, ps, ns, us, ms or s, in whole picoseconds, less than 53 days, such as \"20 ms\" or \"7.8 us\"";
/// Times are less than this, so that sums of a few do not overflow.
const TIME_END: u64 = 1 << 62;
/// The accepted form of a text that must not be empty.
pub(crate) const TEXT: &str = "a text that is not empty";

/// A channel has at most this many ranks.
const RANKS_MAX: u32 = 64;

/// A span of time, written with its unit (`"7.8 us"`); exact, in whole picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Picoseconds);

/// A whole number from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<const MIN: u64, const MAX: u64 = { u64::MAX }>(u64);

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

/// Ranks of a channel: a count or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// A number of ranks.
    Count(Count<1, 64>),
    /// A list of ranks, such as `0-3`.
    List(IndexList),
}

impl Ranks {
    /// Gives their number; that of a list is the number of ranks below 64 that it names.
    #[must_use]
    pub fn count(&self) -> u32 {
        match self {
            Ranks::Count(count) => count.get() as u32,
            Ranks::List(list) => list.resolve(RANKS_MAX).map_or(0, |ranks| ranks.len()),
        }
    }
}

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// Makes a count.
    ///
    /// # Panics
    ///
    /// When the number is out of range.
    #[must_use]
    pub fn new(number: u64) -> Self {
        assert!((MIN..=MAX).contains(&number), "{number} is not {}", Self::accepted());
        Self(number)
    }

    /// Gives the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Describes the accepted numbers.
    #[must_use]
    pub fn accepted() -> String {
        match MAX {
            u64::MAX => format!("a whole number from {MIN} on"),
            _ => format!("a whole number, {MIN} to {MAX}"),
        }
    }
}

impl<const MIN: u64> Count<MIN, { u32::MAX as u64 }> {
    /// Gives the number.
    #[must_use]
    pub fn get_u32(self) -> u32 {
        // MAX bounds it.
        self.0 as u32
    }
}

impl Text {
    /// Makes a text.
    ///
    /// # Panics
    ///
    /// When it is empty.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Text {
        let text = text.into();
        assert!(!text.is_empty(), "the text is empty");
        Text(text)
    }

    /// Gives the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Time;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(SPAN)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                let refuse = || E::invalid_value(de::Unexpected::Str(text), &self);
                match text.parse::<Picoseconds>() {
                    Ok(time) if time.0 < TIME_END => Ok(Time(time)),
                    _ => Err(refuse()),
                }
            }
        }
        deserializer.deserialize_str(Reads)
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?(ps|ns|us|ms|s)$", "description": format!("A span of time: {SPAN}.")})
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Count<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads<const MIN: u64, const MAX: u64>;
        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Reads<MIN, MAX> {
            type Value = Count<MIN, MAX>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&Count::<MIN, MAX>::accepted())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                let fits = (MIN..=MAX).contains(&number);
                if fits { Ok(Count(number)) } else { Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)) }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                let refuse = |_| E::invalid_value(de::Unexpected::Signed(number), &self);
                u64::try_from(number).map_err(refuse).and_then(|number| self.visit_u64(number))
            }
        }
        deserializer.deserialize_u64(Reads::<MIN, MAX>)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Count_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MAX {
            u64::MAX => json_schema!({"type": "integer", "minimum": MIN}),
            _ => json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX}),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Text;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(TEXT)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                let refuse = || E::invalid_value(de::Unexpected::Str(text), &self);
                if text.is_empty() { Err(refuse()) } else { Ok(Text(text.to_owned())) }
            }
        }
        deserializer.deserialize_str(Reads)
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1})
    }
}

impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Ranks::Count(count) => count.serialize(serializer),
            Ranks::List(list) => list.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Ranks;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a whole number, 1 to 64, or a list of ranks below 64 such as \"0-3\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Ranks, E> {
                let fits = u64::try_from(number).ok().filter(|number| (1..=64).contains(number));
                let refuse = || E::invalid_value(de::Unexpected::Signed(number), &self);
                fits.map(|number| Ranks::Count(Count(number))).ok_or_else(refuse)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Ranks, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ranks, E> {
                let list: Option<IndexList> = text.parse().ok();
                let named = list.filter(|list| list.resolve(RANKS_MAX).is_ok_and(|ranks| !ranks.is_empty()));
                let refuse = || E::invalid_value(de::Unexpected::Str(text), &self);
                named.map(Ranks::List).ok_or_else(refuse)
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

impl JsonSchema for Ranks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ranks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 64}, {"type": "string", "minLength": 1}]})
    }
}
