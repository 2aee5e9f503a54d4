//! Published formulas as they stand in print, and as they have to be.

/// Which form of a published formula, rule or algorithm is meant, where print and truth differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// As printed, with its mistakes: for comparison with published values, never for a verdict to rely on.
    AsPrinted,
    /// With published errors corrected.
    #[default]
    Corrected,
}
