//! TintMalloc: a matrix of color lists, controller and bank by cache color.
//!
//! Source: Pan's thesis (\[Pan18\]), chapter 3: Algorithms 3 and 4; eq. 1 for MEM_ID (see [`MemIds`]).
//!
//! A task may choose banks (its flag `using_bank`), cache colors (`using_llc`) or both. Of several lists that fit, the first with a frame
//! is used: rows in the order of the task's MEM_IDs, then columns. Frames that a search passes over, and frames freed by a task with
//! colors, lie on color lists and merge no more. Per-CPU lists are disabled for all tasks (section 3.3.3). Requests above order 0, and
//! tasks without colors, use the buddy allocator.

use std::sync::Arc;

use memtint_map::{Palette, TintError, TintNumbering};

use crate::allocator::Promises;
use crate::base::{Base, System, refuse};
use crate::bins::{self, Bins, Form};
use crate::blocks::OneFreeList;
use crate::error::FrameError;
use crate::memory::{FrameMemory, ORDER_MAX};
use crate::task::{Caller, Policy, Profile};

/// The row of each bank class in the matrix of color lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemIds {
    of_class: Vec<u32>,
    rows: u32,
}

impl MemIds {
    /// Numbers classes as they are.
    #[must_use]
    pub fn dense(memory: &FrameMemory) -> MemIds {
        MemIds { of_class: (0..memory.bank_classes()).collect(), rows: memory.bank_classes() }
    }

    /// Numbers classes by eq. 1 of the thesis: corrected, `((node*NC + channel)*NR + rank)*NB + bank`, or as printed with `node*NN*NC`. The
    /// matrix has NN × NC × NR × NB rows either way, as in the thesis (128 on its machine), and the printed numbers lie beyond it (up to
    /// 415 there): [`TintMalloc::new`] refuses those.
    ///
    /// A class whose pages touch several banks (the rank of the thesis's machine is an address bit inside the page) has
    /// the lowest of their numbers.
    ///
    /// # Errors
    /// [`TintError`] if the platform file lacks its functions' roles.
    pub fn of_palette(palette: &Palette, form: Form) -> Result<MemIds, TintError> {
        let numbering = TintNumbering::new(palette.platform())?;
        let mut of_class = Vec::new();
        for class in 0..palette.bank_classes() {
            let mut lowest = u32::MAX;
            for color in numbering.colors_of_class(palette, class)? {
                let number = match form {
                    Form::Corrected => color,
                    Form::AsPrinted => numbering.color_as_printed(numbering.bank_of_color(color)?),
                };
                lowest = lowest.min(number);
            }
            of_class.push(lowest);
        }
        Ok(MemIds { of_class, rows: numbering.colors() })
    }

    /// Gives the rows, one for each class.
    #[must_use]
    pub fn of_classes(&self) -> &[u32] {
        &self.of_class
    }

    /// Counts the rows of the matrix.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }
}

/// Data that TintMalloc keeps for a task: rows and columns it may use; `None` when neither flag is set.
pub(crate) type Tints = Option<(Vec<u32>, Vec<u32>)>;

/// TintMalloc.
#[derive(Clone, Debug)]
pub struct TintMalloc {
    base: Base<OneFreeList, Tints>,
    /// `color_list[MEM_ID][LLC_ID]`, row by row.
    color_list: Bins,
    mem_ids: MemIds,
    llc_ids: u32,
    form: Form,
}

impl TintMalloc {
    /// Starts with all memory in free blocks and empty color lists.
    ///
    /// # Errors
    /// [`FrameError::MemIdCount`] when `mem_ids` is of another memory; [`FrameError::MemIdOutsideMatrix`] when a number has no
    /// row, as with eq. 1 as printed.
    pub fn new(memory: &Arc<FrameMemory>, mem_ids: MemIds, form: Form) -> Result<TintMalloc, FrameError> {
        let (found, classes, lists) = (mem_ids.of_class.len(), memory.bank_classes(), mem_ids.rows);
        if found != classes as usize {
            return Err(FrameError::MemIdCount { found, classes });
        }
        if let Some(class) = mem_ids.of_class.iter().position(|&mem_id| mem_id >= lists) {
            let mem_id = mem_ids.of_class[class];
            return Err(FrameError::MemIdOutsideMatrix { class: class as u32, mem_id, lists });
        }
        let llc_ids = memory.set_colors();
        Ok(TintMalloc {
            base: Base::new(Arc::clone(memory), OneFreeList, ORDER_MAX),
            color_list: Bins::new(lists as usize * llc_ids as usize),
            mem_ids,
            llc_ids,
            form,
        })
    }

    /// Counts the frames on a color list.
    #[must_use]
    pub fn list_frames(&self, mem_id: u32, llc_id: u32) -> u32 {
        self.color_list.len((mem_id * self.llc_ids + llc_id) as usize)
    }

    fn take_normal(&mut self, cpu: u32, order: u32) -> Option<u32> {
        (0..self.base.memory().zone_list(cpu).len()).find_map(|place| {
            let zone = self.base.memory().zone_list(cpu)[place];
            self.base.blocks.take_any(zone, order)
        })
    }

    /// Algorithm 3 on every zone that the caller may use.
    fn select(&mut self, cpu: u32, rows: &[u32], columns: &[u32]) -> Option<u32> {
        let (bins, base, form) = (&mut self.color_list, &mut self.base, self.form);
        let (mem_ids, llc_ids) = (&self.mem_ids.of_class, self.llc_ids);
        let find = |bins: &mut Bins, base: &mut Base<OneFreeList, Tints>| {
            rows.iter()
                .find_map(|&row| columns.iter().find_map(|&column| bins.pop(base, (row * llc_ids + column) as usize)))
        };
        let bin_of = |memory: &FrameMemory, frame| {
            (mem_ids[memory.bank_of(frame) as usize] * llc_ids + memory.set_of(frame)) as usize
        };
        (0..base.memory().zone_list(cpu).len()).find_map(|place| {
            let zone = base.memory().zone_list(cpu)[place];
            bins::select(bins, base, zone, form, find, bin_of)
        })
    }
}

impl System for TintMalloc {
    type Lists = OneFreeList;
    type Own = Tints;

    const NAME: &'static str = "tintmalloc";
    const PROMISES: Promises = Promises { banks: true, sets: true, ..Promises::NONE };

    fn base(&self) -> &Base<OneFreeList, Tints> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<OneFreeList, Tints> {
        &mut self.base
    }

    fn accept(&mut self, profile: &Profile) -> Result<(Policy, Tints), FrameError> {
        let policy = &profile.policy;
        refuse(
            Self::NAME,
            &Self::PROMISES,
            policy,
            "lists of bank classes (each has its node) and set colors, strict",
        )?;
        let rows = match &policy.banks {
            Some(banks) => banks.iter().map(|class| self.mem_ids.of_class[class as usize]).collect(),
            None => (0..self.mem_ids.rows).collect(),
        };
        let columns = match &policy.sets {
            Some(sets) => sets.iter().collect(),
            None => (0..self.llc_ids).collect(),
        };
        Ok((policy.clone(), (!policy.is_any()).then_some((rows, columns))))
    }

    fn take(&mut self, caller: Caller, order: u32) -> Option<u32> {
        let tints = self.base.tasks.get_mut(caller.task).expect("the caller was checked").own.take_if(|_| order == 0);
        let Some((rows, columns)) = tints else { return self.take_normal(caller.cpu, order) };
        let page = self.select(caller.cpu, &rows, &columns);
        self.base.tasks.get_mut(caller.task).expect("the caller was checked").own = Some((rows, columns));
        page
    }

    fn give(&mut self, caller: Caller, first: u32, order: u32) {
        if order > 0 || self.base.task(caller.task).own.is_none() {
            return self.base.blocks.put(first, order);
        }
        let memory = self.base.memory();
        let row = self.mem_ids.of_class[memory.bank_of(first) as usize];
        let bin = (row * self.llc_ids + memory.set_of(first)) as usize;
        self.color_list.push(&mut self.base, bin, first);
    }
}
