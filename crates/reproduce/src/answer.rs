//! Results of analyses, under names that points, rows, claims and errata refer to.

use crate::figure::{Answered, Is};
use num_bigint::BigUint;
use num_rational::Ratio;
use std::collections::BTreeMap;

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// A number, exact.
    Number(Ratio<BigUint>),
    /// Yes, no, or undecided by the analysis.
    Is(Is),
    /// A list, in its order.
    List(Vec<String>),
}

/// The results of one analysis.
pub(crate) type Results = BTreeMap<String, Found>;

/// The results of all analyses of a figure, by the name of the analysis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(pub(crate) BTreeMap<String, Results>);

impl Answers {
    pub(crate) fn get(&self, answered: &Answered) -> Option<&Found> {
        self.0.get(&answered.analysis)?.get(&answered.result)
    }
}

impl Found {
    /// As a point takes it; an answer in words or a list is no number.
    pub(crate) fn number(&self) -> Option<&Ratio<BigUint>> {
        match self {
            Found::Number(exact) => Some(exact),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[String]> {
        match self {
            Found::List(items) => Some(items),
            _ => None,
        }
    }

    /// In words; a number that is not whole with its exact fraction.
    pub(crate) fn text(&self) -> String {
        match self {
            Found::Number(exact) if exact.is_integer() => exact.to_string(),
            Found::Number(exact) => format!("{} (exactly {exact})", rounded(exact)),
            Found::Is(is) => is.text().to_owned(),
            Found::List(items) if items.is_empty() => "none".to_owned(),
            Found::List(items) => items.join(", "),
        }
    }
}

/// The bounds of a result. All given bounds must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) is: Option<Is>,
    pub(crate) exactly: Option<String>,
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
    pub(crate) equals: Option<Vec<String>>,
}

impl Bound {
    /// How many forms are given; bounds from both sides are one.
    pub(crate) fn forms(&self) -> usize {
        let ranged = self.at_least.is_some() || self.at_most.is_some();
        [self.is.is_some(), self.exactly.is_some(), ranged, self.equals.is_some()].iter().filter(|&&is| is).count()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let mut texts = Vec::new();
        texts.extend(self.is.map(|is| format!("{name}: {}", is.text())));
        texts.extend(self.exactly.as_ref().map(|exact| format!("{name} exactly {exact}")));
        texts.extend(self.at_least.map(|least| format!("{name} at least {least}")));
        texts.extend(self.at_most.map(|most| format!("{name} at most {most}")));
        texts.extend(self.equals.as_ref().map(|items| format!("{name}: {}", Found::List(items.clone()).text())));
        texts.join(", ")
    }

    /// Whether a result is within the bounds; a result of another kind is not.
    pub(crate) fn holds(&self, found: &Found) -> bool {
        let number = || found.number();
        self.is.is_none_or(|is| *found == Found::Is(is))
            && self.exactly.as_ref().is_none_or(|text| exact(text).as_ref() == number())
            && self.at_least.is_none_or(|least| number().is_some_and(|number| float(number) >= least))
            && self.at_most.is_none_or(|most| number().is_some_and(|number| float(number) <= most))
            && self.equals.as_ref().is_none_or(|items| found.list().is_some_and(|found| alike(found, items)))
    }
}

/// Whether two lists hold the same, in whatever order.
pub(crate) fn alike(one: &[String], other: &[String]) -> bool {
    let sorted = |items: &[String]| {
        let mut items = items.to_vec();
        items.sort();
        items
    };
    sorted(one) == sorted(other)
}

/// Reads a whole number, a decimal number or a fraction, of at most 40 characters; `None` for anything else.
pub(crate) fn exact(text: &str) -> Option<Ratio<BigUint>> {
    let whole = |text: &str| -> Option<BigUint> {
        let plain = !text.is_empty() && text.len() <= 40 && text.bytes().all(|letter| letter.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    if let Some((above, below)) = text.split_once('/') {
        let below = whole(below)?;
        return (below != BigUint::from(0u8)).then(|| Some(Ratio::new(whole(above)?, below)))?;
    }
    match text.split_once('.') {
        None => Some(Ratio::from_integer(whole(text)?)),
        Some((before, after)) => {
            whole(before).and(whole(after))?;
            let scale = BigUint::from(10u8).pow(u32::try_from(after.len()).ok()?);
            Some(Ratio::new(whole(&format!("{before}{after}"))?, scale))
        }
    }
}

/// The nearest number that fits, to a unit in the last place or two.
pub(crate) fn float(exact: &Ratio<BigUint>) -> f64 {
    // Every parser of numbers reads digits correctly, whatever their count.
    let of = |whole: &BigUint| whole.to_string().parse::<f64>().unwrap_or(f64::INFINITY);
    of(exact.numer()) / of(exact.denom())
}

/// At most six decimal places.
fn rounded(exact: &Ratio<BigUint>) -> String {
    let text = format!("{:.6}", float(exact));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(above: u32, below: u32) -> Ratio<BigUint> {
        Ratio::new(above.into(), below.into())
    }

    #[test]
    fn numbers_are_read_exactly() {
        assert_eq!(exact("74/45"), Some(ratio(74, 45)));
        assert_eq!(exact("0.9625"), Some(ratio(77, 80)));
        assert_eq!(exact("16"), Some(ratio(16, 1)));
        for wrong in ["", "-1", "1e3", "1/0", "1/", ".5", "5.", "1.2.3", "1/2/3", " 1", &"1".repeat(41)] {
            assert_eq!(exact(wrong), None, "{wrong:?}");
        }
        assert!((float(&ratio(1, 3)) - 1.0 / 3.0).abs() < 1e-15);
    }

    #[test]
    fn results_are_told_in_words() {
        assert_eq!(Found::Number(ratio(74, 45)).text(), "1.644444 (exactly 74/45)");
        assert_eq!(Found::Number(ratio(8, 1)).text(), "8");
        assert_eq!(Found::List(vec![]).text(), "none");
    }

    #[test]
    fn bounds_hold_for_their_kind_only() {
        let number = Found::Number(ratio(3, 2));
        let least = Bound { at_least: Some(1.5), ..Bound::default() };
        assert!(least.holds(&number) && !least.holds(&Found::Is(Is::Yes)));
        assert!(Bound { exactly: Some("1.5".to_owned()), ..Bound::default() }.holds(&number));
        assert!(!Bound { exactly: Some("1.4".to_owned()), ..Bound::default() }.holds(&number));
        let yes = Bound { is: Some(Is::Yes), ..Bound::default() };
        assert!(yes.holds(&Found::Is(Is::Yes)) && !yes.holds(&Found::Is(Is::Open)) && !yes.holds(&number));
        let items = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let list = Bound { equals: Some(items(&["c2", "c1"])), ..Bound::default() };
        assert!(list.holds(&Found::List(items(&["c1", "c2"]))) && !list.holds(&Found::List(items(&["c1"]))));
    }
}
