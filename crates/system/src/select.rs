//! From lists as written to a selection on a palette.

use memtint_map::{Palette, Role, Selection, SelectionError};
use memtint_units::{IndexList, IndexSet, ListError};

/// Resolves lists of bank classes, set colors and nodes on a palette: the meaning of `all` and `!`.
///
/// `None` and `all` do not restrict. Colors that do not exist are left to [`Selection::compile`], which names those that do.
///
/// # Errors
///
/// [`SelectionError`] for a color behind `!` that does not exist.
pub fn select(
    palette: &Palette,
    banks: Option<&IndexList>,
    sets: Option<&IndexList>,
    node: Option<&IndexList>,
) -> Result<Selection, SelectionError> {
    let (classes, colors) = (palette.bank_classes(), palette.set_colors());
    let nodes = node_limit(palette);
    Ok(Selection {
        banks: resolve(banks, classes).map_err(|asked| SelectionError::NoSuchBankClass { asked, count: classes })?,
        sets: resolve(sets, colors).map_err(|asked| SelectionError::NoSuchSetColor { asked, count: colors })?,
        node: resolve(node, nodes)
            .map_err(|asked| SelectionError::NoSuchNode { asked, nodes: IndexSet::all(nodes) })?,
    })
}

/// The error is the index that is out of range.
fn resolve(list: Option<&IndexList>, limit: u32) -> Result<Option<IndexSet>, u32> {
    let (list, limit) = match list {
        None | Some(IndexList::All) => return Ok(None),
        Some(list @ IndexList::Only(_)) => (list, u32::MAX),
        Some(list @ IndexList::Except(_)) => (list, limit),
    };
    list.resolve(limit).map(Some).map_err(|error| match error {
        ListError::OutOfRange { found, .. } => found,
        // A parsed list can only be out of range.
        _ => u32::MAX,
    })
}

/// One more than the largest node number that any address can have.
fn node_limit(palette: &Palette) -> u32 {
    let platform = palette.platform();
    let functions = platform.functions().iter().filter(|function| function.role == Role::Node).count();
    let largest = platform.domains().iter().map(|domain| domain.node).max().unwrap_or(0);
    largest.saturating_add(1 << functions.min(20))
}
