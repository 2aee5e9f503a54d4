//! Color lists of single frames beside the buddy's free blocks: the device that PALLOC, CAMC, TintMalloc and the hybrid
//! allocator share. A frame on a color list is in no block: it does not merge, and only its color can use it.

use std::fmt;

use crate::base::Base;
use crate::blocks::OneFreeList;
use crate::lists::List;
use crate::memory::ORDER_MAX;

/// The variant of a published algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Line by line. Algorithms 1 and 3 of \[Pan18\] examine at most one block of each order in a request, so they find
    /// nothing although frames of the color are free. Algorithms 2 and 4 count to `2^(order-1)`, last included, and
    /// forget the rest of a block of order 2 and above.
    AsPrinted,
    /// As the text beside the algorithms describes it: the whole free list is traversed, and all frames of a block are kept.
    #[default]
    Corrected,
}

/// Lists of frames by number.
#[derive(Clone)]
pub(crate) struct Bins(Vec<List>);

impl fmt::Debug for Bins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames: u64 = self.0.iter().map(|list| u64::from(list.len)).sum();
        write!(f, "Bins({frames} frames on {} lists)", self.0.len())
    }
}

impl Bins {
    pub(crate) fn new(bins: usize) -> Bins {
        Bins(vec![List::EMPTY; bins])
    }

    /// Appends a frame.
    #[inline]
    pub(crate) fn push<T>(&mut self, base: &mut Base<OneFreeList, T>, bin: usize, frame: u32) {
        base.blocks.links.push_back(&mut self.0[bin], frame);
        base.blocks.mark_on_color_list(frame);
        base.blocks.steps.moves += 1;
        base.on_color_lists += 1;
    }

    /// Takes the first frame of a list.
    #[inline]
    pub(crate) fn pop<T>(&mut self, base: &mut Base<OneFreeList, T>, bin: usize) -> Option<u32> {
        base.blocks.steps.lookups += 1;
        let frame = base.blocks.links.pop_front(&mut self.0[bin])?;
        base.blocks.steps.moves += 1;
        base.on_color_lists -= 1;
        Some(frame)
    }

    /// Counts the frames of a list.
    pub(crate) fn len(&self, bin: usize) -> u32 {
        self.0[bin].len
    }

    /// Breaks a block into single frames and sorts them onto the lists: `create_color_list`.
    pub(crate) fn shatter<T>(
        &mut self,
        base: &mut Base<OneFreeList, T>,
        first: u32,
        order: u32,
        form: Form,
        bin_of: impl Fn(&crate::memory::FrameMemory, u32) -> usize,
    ) {
        let frames = 1u32 << order;
        let kept = match form {
            Form::Corrected => frames,
            // for i = 0 ... 2^(order-1), last included; half a frame counts as none.
            Form::AsPrinted => (frames / 2 + 1).min(frames),
        };
        for frame in first..first + kept {
            let bin = bin_of(&base.blocks.memory, frame);
            self.push(base, bin, frame);
        }
        for frame in first + kept..first + frames {
            base.lose(frame);
        }
    }
}

/// Algorithms 1 and 3: finds a frame on a color list, or breaks free blocks of a zone until there is one.
pub(crate) fn select<T>(
    bins: &mut Bins,
    base: &mut Base<OneFreeList, T>,
    zone: u8,
    form: Form,
    find: impl Fn(&mut Bins, &mut Base<OneFreeList, T>) -> Option<u32>,
    bin_of: impl Fn(&crate::memory::FrameMemory, u32) -> usize,
) -> Option<u32> {
    match form {
        // MAX_ORDER is one more than the largest order, and the loop includes it: the lists are examined one last time.
        Form::AsPrinted => (0..=ORDER_MAX + 1).find_map(|order| {
            find(bins, base).or_else(|| {
                let first = if order > ORDER_MAX { None } else { base.blocks.take_exact(zone, order) };
                if let Some(first) = first {
                    bins.shatter(base, first, order, form, &bin_of);
                }
                None
            })
        }),
        Form::Corrected => {
            let mut found = find(bins, base);
            let mut order = 0;
            while found.is_none() && order <= ORDER_MAX {
                match base.blocks.take_exact(zone, order) {
                    None => order += 1,
                    Some(first) => {
                        bins.shatter(base, first, order, form, &bin_of);
                        found = find(bins, base);
                    }
                }
            }
            found
        }
    }
}
