//! Naming colors, and matching frames against the names.

use crate::enumerate::Granules;
use crate::evaluate::Evaluator;
use crate::palette::{FrameColor, Palette};
use memtint_units::{IndexSet, Pfn, PhysAddr};
use std::ops::Range;
use std::sync::Arc;

/// Names colors: a frame is selected when its bank class, its set color and its node are each in the set given for it.
///
/// `None` accepts any. The default selects every frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selection {
    /// Bank classes.
    pub banks: Option<IndexSet>,
    /// Set colors.
    pub sets: Option<IndexSet>,
    /// NUMA nodes.
    pub node: Option<IndexSet>,
}

/// The reason why no frame can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// A bank class that does not exist.
    #[error("bank class {asked} does not exist, {}", accepted("classes are", *count))]
    NoSuchBankClass {
        /// The class asked for.
        asked: u32,
        /// The number of classes.
        count: u32,
    },
    /// A set color that does not exist.
    #[error("set color {asked} does not exist, {}", accepted("set colors are", *count))]
    NoSuchSetColor {
        /// The color asked for.
        asked: u32,
        /// The number of colors.
        count: u32,
    },
    /// A node that does not exist.
    #[error("node {asked} does not exist, nodes are {nodes}")]
    NoSuchNode {
        /// The node asked for.
        asked: u32,
        /// The existing nodes.
        nodes: IndexSet,
    },
    /// An empty set, which no frame can be in.
    #[error("the set of {of} is empty, so no frame is selected; name at least one, or leave it out to accept any")]
    Empty {
        /// The kind of the set's elements.
        of: &'static str,
    },
    /// A granule lies in several nodes.
    #[error(
        "a granule of this platform lies in several nodes at once, so no node can be asked for; leave the node out"
    )]
    NodeNotHonored,
    /// Every color exists, but no frame has all of them.
    #[error("no frame has {together}{}", hint(partners.as_ref()))]
    NoFrames {
        /// The colors, as a text.
        together: String,
        /// The set colors that frames of the selected bank classes (and nodes) do have, where sets were asked for.
        partners: Option<IndexSet>,
    },
}

fn accepted(words: &str, count: u32) -> String {
    match count {
        1 => format!("{words} 0 only: there is nothing to isolate"),
        _ => format!("{words} 0-{}", count - 1),
    }
}

fn hint(partners: Option<&IndexSet>) -> String {
    match partners {
        Some(partners) if !partners.is_empty() => format!("; the set colors it can have are {partners}"),
        _ => String::new(),
    }
}

/// Decides in a few nanoseconds whether a frame is selected. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Matcher {
    evaluator: Arc<Evaluator>,
    selected: Arc<Selected>,
    shape: Arc<crate::enumerate::Shape>,
    granules: u64,
    granules_total: u64,
}

/// Selected bank classes and set colors, one bit each.
#[derive(Debug)]
pub(crate) struct Selected {
    pub(crate) classes: Vec<u64>,
    pub(crate) colors: Vec<u64>,
}

impl Selected {
    #[inline]
    pub(crate) fn holds(&self, bank_class: u32, set_color: u32) -> bool {
        // Tests both without a branch: a frame's color is unpredictable.
        test(&self.classes, bank_class) & test(&self.colors, set_color)
    }
}

#[inline]
pub(crate) fn test(bits: &[u64], index: u32) -> bool {
    bits.get((index / 64) as usize).copied().unwrap_or(0) >> (index % 64) & 1 == 1
}

fn bit_table(count: u32, wanted: impl Fn(u32) -> bool) -> Vec<u64> {
    let mut table = vec![0; count.div_ceil(64) as usize];
    for index in (0..count).filter(|&index| wanted(index)) {
        table[(index / 64) as usize] |= 1 << (index % 64);
    }
    table
}

impl Selection {
    /// Describes the colors as text; empty where any is accepted.
    ///
    /// ```
    /// use memtint_map::Selection;
    /// use memtint_units::IndexSet;
    ///
    /// let list = |text| IndexSet::parse(text, 16).ok();
    /// let selection = Selection { banks: list("0-3"), sets: list("1"), ..Selection::default() };
    /// assert_eq!(selection.label(), "bank classes 0-3, set colors 1");
    /// ```
    #[must_use]
    pub fn label(&self) -> String {
        let named = [("bank classes", &self.banks), ("set colors", &self.sets), ("nodes", &self.node)];
        let parts = named.iter().filter_map(|(name, list)| list.as_ref().map(|list| format!("{name} {list}")));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Resolves the names on a palette.
    ///
    /// # Errors
    /// [`SelectionError`] when a color or node does not exist, a set is empty, or no granule has all of the colors.
    pub fn compile(&self, palette: &Palette) -> Result<Matcher, SelectionError> {
        self.check_names(palette)?;
        let in_set = |set: &Option<IndexSet>, index| set.as_ref().is_none_or(|set| set.contains(index));
        let class_wanted = |class| {
            in_set(&self.banks, class) && (self.node.is_none() || in_set(&self.node, palette.node_of_class(class)))
        };
        let selected = Selected {
            classes: bit_table(palette.bank_classes(), class_wanted),
            colors: bit_table(palette.set_colors(), |color| in_set(&self.sets, color)),
        };
        let held = palette.pairs().iter().filter(|pair| selected.holds(pair.bank_class, pair.set_color));
        let granules = held.map(|pair| pair.granules).sum();
        if granules == 0 {
            return Err(self.no_frames(palette, &selected));
        }
        Ok(Matcher {
            evaluator: Arc::clone(palette.evaluator()),
            selected: Arc::new(selected),
            shape: Arc::clone(palette.shape()),
            granules,
            granules_total: palette.granules(),
        })
    }

    fn check_names(&self, palette: &Palette) -> Result<(), SelectionError> {
        for (of, set) in [("bank classes", &self.banks), ("set colors", &self.sets), ("nodes", &self.node)] {
            if set.as_ref().is_some_and(IndexSet::is_empty) {
                return Err(SelectionError::Empty { of });
            }
        }
        let beyond =
            |set: &Option<IndexSet>, count| set.as_ref().and_then(IndexSet::last).filter(|&last| last >= count);
        if let Some(asked) = beyond(&self.banks, palette.bank_classes()) {
            return Err(SelectionError::NoSuchBankClass { asked, count: palette.bank_classes() });
        }
        if let Some(asked) = beyond(&self.sets, palette.set_colors()) {
            return Err(SelectionError::NoSuchSetColor { asked, count: palette.set_colors() });
        }
        let Some(asked) = &self.node else { return Ok(()) };
        if !palette.node_is_honored() {
            return Err(SelectionError::NodeNotHonored);
        }
        let nodes = (0..palette.bank_classes()).map(|class| palette.node_of_class(class));
        let nodes = IndexSet::from_indices(nodes, u32::MAX).expect("nodes are below the largest number");
        match asked.ranges().iter().find(|&&(first, last)| {
            // Not one by one: a list may contain billions.
            nodes.intersection(&range_set(first, last)).len() <= last - first
        }) {
            None => Ok(()),
            Some(&(first, last)) => {
                let missing = (first..=last).find(|&node| !nodes.contains(node)).unwrap_or(first);
                Err(SelectionError::NoSuchNode { asked: missing, nodes })
            }
        }
    }

    fn no_frames(&self, palette: &Palette, selected: &Selected) -> SelectionError {
        let named = |one: &str, many: &str, set: &IndexSet| match set.len() {
            1 => format!("{one} {set}"),
            _ => format!("any of {many} {set}"),
        };
        let parts: Vec<String> = [
            self.banks.as_ref().map(|set| named("bank class", "bank classes", set)),
            self.sets.as_ref().map(|set| named("set color", "set colors", set)),
            self.node.as_ref().map(|set| named("node", "nodes", set)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let together = match parts.as_slice() {
            [a, b] => format!("both {a} and {b}"),
            _ => parts.join(" and "),
        };
        let partners = self.sets.as_ref().map(|_| {
            let reachable = palette.pairs().iter().filter(|pair| test(&selected.classes, pair.bank_class));
            IndexSet::from_indices(reachable.map(|pair| pair.set_color), palette.set_colors())
                .unwrap_or_else(|_| IndexSet::none(palette.set_colors()))
        });
        SelectionError::NoFrames { together, partners }
    }
}

fn range_set(first: u32, last: u32) -> IndexSet {
    memtint_units::IndexList::Only(vec![(first, last)]).resolve(u32::MAX).unwrap_or_else(|_| IndexSet::none(0))
}

impl Matcher {
    /// Returns whether the frame is selected; a frame outside every region is not.
    #[inline]
    #[must_use]
    pub fn matches(&self, pfn: Pfn) -> bool {
        self.color(pfn).is_some_and(|color| self.selected.holds(color.bank_class, color.set_color))
    }

    /// Evaluates the frame's color; `None` outside every region.
    #[inline]
    #[must_use]
    pub fn color(&self, pfn: Pfn) -> Option<FrameColor> {
        self.evaluator.color(pfn)
    }

    /// Returns whether a frame of this color would be selected.
    #[inline]
    #[must_use]
    pub fn matches_color(&self, color: FrameColor) -> bool {
        self.selected.holds(color.bank_class, color.set_color)
    }

    /// Gives the share of the platform's whole granules that are selected, above 0 and up to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.granules as f64 / self.granules_total as f64
    }

    /// Counts the platform's whole granules that are selected; at least 1.
    #[must_use]
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// Walks, ascending, the base addresses of the selected whole granules inside `range` (end excluded).
    ///
    /// Jumps from one to the next: other granules are not visited. (With a modulo interleave, those of the right bank class
    /// but the wrong set color are.) Starting costs time linear in the number of colors.
    #[must_use]
    pub fn enumerate(&self, range: Range<PhysAddr>) -> Granules {
        Granules::new(Arc::clone(&self.shape), Arc::clone(&self.selected), range)
    }
}
