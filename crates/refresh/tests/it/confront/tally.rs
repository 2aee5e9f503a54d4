//! What many confrontations came to.

use std::fmt;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sets: u64,
    /// The analysis says yes, with every cost; no, with the least.
    pub(crate) yes: u64,
    pub(crate) no: u64,
    /// A job that misses its deadline was found where the analysis says no.
    pub(crate) witnesses: u64,
    /// Responses compared with their bounds, and the largest of a bound in thousandths.
    pub(crate) compared: u64,
    pub(crate) largest_permille: u64,
}

impl Tally {
    pub(crate) fn verdict(&mut self, yes: bool, no: bool) {
        assert!(!(yes && no), "a yes with every cost, a no with the least");
        self.sets += 1;
        self.yes += u64::from(yes);
        self.no += u64::from(no);
    }

    pub(crate) fn compare(&mut self, seen: u64, bound: u64) {
        self.compared += 1;
        self.largest_permille = self.largest_permille.max(seen * 1000 / bound);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { sets, yes, no, witnesses, compared, largest_permille } = self;
        write!(f, "{sets} sets, {yes} yes, {no} no, {witnesses} witnesses, {compared} compared, ")?;
        write!(f, "largest simulated / bound {largest_permille} / 1000")
    }
}
