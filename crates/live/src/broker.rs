//! The broker: a process that keeps frames of the right color in stock and puts them on top of a CPU's free list.
//!
//! The kernel's per-CPU free lists are last-in first-out. When the broker gives up frames on a CPU and a helper
//! populates as many pages on the same CPU right away, the helper gets exactly these frames. Looking for frames thus
//! happens in an address space of its own, where no thread of the program pays for page-table changes, and in parallel
//! with the program. What the helper really got is verified against its page map every time.

use crate::areas::{self, Backing, PageMap};
use crate::sys::{self, Pid};
use crate::wire::{PAGE, Run};
use crate::{FrameChoice, RunError};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Pages looked at in one go.
const LOOK: u64 = 1024;
/// How long pages of the wrong color are kept while nobody asks for any.
const IDLE_MS: i32 = 1000;
/// A color is rare when it takes more looks than this to find a page of it.
const RARE: f64 = 64.0;
/// A search for a rare color ends after this many times the pages it should take by the share of the color in memory ...
const PATIENCE: f64 = 8.0;
/// ... and these.
const MANY: u64 = 1 << 16;
/// How long the broker does not search after it has found too little; twice as long each time, up to the second.
const BARREN: Duration = Duration::from_secs(5);
/// See [`BARREN`].
const BARREN_MAX: Duration = Duration::from_secs(300);
/// Pages of stock below which the broker looks for more while it is not asked for anything.
const LOW: u64 = 2048;
/// The same for a program that has taken many.
const LOW_MAX: u64 = 1 << 14;

/// The supervisor's side.
pub(crate) struct Broker {
    /// None when every frame is in color.
    socket: RefCell<Option<OwnedFd>>,
    hold_max: u64,
}

impl Broker {
    /// Starts the process. Nothing to look for: no process.
    pub(crate) fn start(choice: &dyn FrameChoice, hold_max: u64) -> Result<Broker, RunError> {
        let socket = if choice.looks_per_page() <= 1.0 { None } else { Some(spawn(choice, hold_max)?) };
        Ok(Broker { socket: RefCell::new(socket), hold_max })
    }

    /// Frames put on top of the free list of `cpu`: at most `pages`, 0 when there are none. The broker touches no
    /// memory until [`Broker::go_on`]: it would get its own frames back.
    pub(crate) fn release(&self, choice: &dyn FrameChoice, pages: u64, cpu: u64) -> u64 {
        if self.socket.borrow().is_none() {
            return pages;
        }
        if let Some(released) = self.try_release(pages, cpu) {
            return released;
        }
        // Somebody has ended it: a new one starts from nothing.
        let Ok(socket) = spawn(choice, self.hold_max) else { return 0 };
        self.socket.replace(Some(socket));
        self.try_release(pages, cpu).unwrap_or(0)
    }

    fn try_release(&self, pages: u64, cpu: u64) -> Option<u64> {
        let socket = self.socket.borrow();
        let socket = socket.as_ref()?;
        let mut answer = [0u8; 8];
        sys::send_message(socket, &order(pages, cpu), None).ok()?;
        let message = sys::receive_message(socket, &mut answer, true).ok()?;
        (message.length == 8).then(|| u64::from_le_bytes(answer))
    }

    /// The frames have been taken: the broker may look for more.
    pub(crate) fn go_on(&self) {
        if let Some(socket) = &*self.socket.borrow() {
            let _ = sys::send_message(socket, &order(0, 0), None);
        }
    }
}

/// Starts the broker's process and returns the socket to it.
fn spawn(choice: &dyn FrameChoice, hold_max: u64) -> Result<OwnedFd, RunError> {
    let (socket, theirs) = sys::message_pair()?;
    if sys::fork()? == 0 {
        drop(socket);
        sys::die_with_parent();
        // It must keep neither the user's pipes nor the supervisor's sockets open.
        sys::close_all_but(&theirs);
        let mut stock =
            Stock { pages: Vec::new(), given: 0, wrong: Vec::new(), held: 0, hold_max, barren: None, choice };
        let failed = stock.serve(&theirs).is_err();
        std::process::exit(i32::from(failed));
    }
    Ok(socket)
}

fn order(pages: u64, cpu: u64) -> [u8; 16] {
    let mut order = [0u8; 16];
    order[..8].copy_from_slice(&pages.to_le_bytes());
    order[8..].copy_from_slice(&cpu.to_le_bytes());
    order
}

/// Frames of the right color, in an address space of their own.
struct Stock<'a> {
    /// Pages of the right color, all present: frame number and address, by frame number.
    pages: Vec<(u64, u64)>,
    /// Pages given away so far.
    given: u64,
    /// Pages of the wrong color that came up in searches, held so that the next search does not meet them again.
    wrong: Vec<Run>,
    /// Pages in `wrong`.
    held: u64,
    /// Most pages of the wrong color to hold at a time.
    hold_max: u64,
    /// When a search last ended without enough, and for how long there will be no other.
    barren: Option<(Instant, Duration)>,
    choice: &'a dyn FrameChoice,
}

impl Stock<'_> {
    fn serve(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut may_look = true;
        loop {
            let in_stock = self.pages.len() as u64;
            // The more a program has taken, the more it may take next.
            let low = (self.given / 8).clamp(LOW, LOW_MAX);
            let wait = !may_look || in_stock >= low;
            if wait && may_look && self.held > 0 && !sys::is_readable(socket, IDLE_MS) {
                self.give_back();
            }
            let mut order = [0u8; 16];
            match sys::receive_message(socket, &mut order, wait) {
                Ok(message) if message.length == order.len() => {
                    let word = |at: usize| u64::from_le_bytes(order[at..at + 8].try_into().expect("eight bytes"));
                    may_look = word(0) == 0;
                    if !may_look {
                        let released = self.release(word(0).min(1 << 20), word(8));
                        sys::send_message(socket, &released.to_le_bytes(), None)?;
                    }
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // When there are none, it waits to be asked again.
                    may_look = self.look_for(low - in_stock);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives up to `pages` frames to the kernel on `cpu`.
    fn release(&mut self, pages: u64, cpu: u64) -> u64 {
        let in_stock = self.pages.len() as u64;
        if in_stock < pages {
            self.look_for(pages - in_stock);
        }
        sys::pin_to_cpu(0, cpu);
        sys::set_realtime(0, true);
        // The highest first: the helper gets them in the opposite order, so that neighbouring frames become neighbours
        // in the program's memory, as the kernel's own allocation tends to have them.
        let kept = self.pages.len().saturating_sub(pages as usize);
        let released = (self.pages.len() - kept) as u64;
        for (_, address) in self.pages.drain(kept..).rev() {
            sys::give_up(address, PAGE);
        }
        sys::set_realtime(0, false);
        sys::unpin(0);
        self.given += released;
        released
    }

    /// Gives the pages of the wrong color back to the kernel.
    fn give_back(&mut self) {
        for run in self.wrong.drain(..) {
            sys::give_up(run.start, run.pages * PAGE);
        }
        self.held = 0;
    }

    /// Looks for at least `need` pages; false when the machine has none.
    ///
    /// A search first meets what earlier ones gave back. As long as pages keep being asked for, nothing much is given
    /// back; when a search starts anew, it looks the further ahead the more was needed so far, so that all searches
    /// together cost at most a few times the last.
    fn look_for(&mut self, need: u64) -> bool {
        // Memory that had no such frame a moment ago has none now: searching it again would only stall the program.
        if self.barren.is_some_and(|(when, pause)| when.elapsed() < pause) {
            return false;
        }
        let in_stock = self.pages.len() as u64;
        let enough = in_stock + need;
        let ahead = if self.held == 0 { self.given / 4 } else { 0 };
        let goal = in_stock + need.max(ahead);
        let looks = self.choice.looks_per_page();
        let patience = (PATIENCE * looks * (goal - in_stock) as f64) as u64 + MANY;
        // A common color is somewhere: what lies on top may be what other searches, of this run or another, gave back.
        let hold_max = if looks > RARE { self.hold_max.min(patience) } else { self.hold_max };
        let Ok(map) = PageMap::open(std::process::id() as Pid) else { return false };
        while (self.pages.len() as u64) < goal && self.held < hold_max {
            let Ok(start) = sys::fresh_pages(LOOK * PAGE) else { break };
            let backing = map.read(start, LOOK);
            let right = |page| matches!(page, Backing::Private(frame) if self.choice.contains(frame));
            for (page, address) in backing.iter().zip((start..).step_by(PAGE as usize)) {
                if let Backing::Private(frame) = *page
                    && right(*page)
                {
                    self.pages.push((frame, address));
                }
            }
            let rest = areas::runs(start, &backing, |page| !right(page));
            self.held += rest.iter().map(|run| run.pages).sum::<u64>();
            self.wrong.extend(rest);
        }
        self.pages.sort_unstable();
        if self.held > self.hold_max / 2 {
            self.give_back();
        }
        let pause = self.barren.map_or(BARREN, |(_, pause)| (pause * 2).min(BARREN_MAX));
        self.barren = ((self.pages.len() as u64) < enough).then(|| (Instant::now(), pause));
        self.barren.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LowBits;

    impl FrameChoice for LowBits {
        fn contains(&self, frame: u64) -> bool {
            frame & 3 == 1
        }

        fn looks_per_page(&self) -> f64 {
            4.0
        }

        fn label(&self) -> String {
            "frames with bits 0x3 = 0x1".to_owned()
        }
    }

    /// The premise of the broker: what is given up on a CPU is what the next populate there gets. Others may take a
    /// page in between, so the test asks for most, where chance would give a quarter.
    #[test]
    fn frames_given_up_on_a_cpu_are_the_next_ones_taken_there() {
        let mut stock = Stock {
            pages: Vec::new(),
            given: 0,
            wrong: Vec::new(),
            held: 0,
            hold_max: 1 << 18,
            barren: None,
            choice: &LowBits,
        };
        let mut best = 0;
        for _ in 0..5 {
            assert_eq!(stock.release(256, 0), 256);
            sys::pin_to_cpu(0, 0);
            let start = sys::fresh_pages(256 * PAGE).unwrap();
            sys::unpin(0);
            let got = PageMap::open(std::process::id() as Pid).unwrap().read(start, 256);
            let right = |page: &&Backing| matches!(page, Backing::Private(frame) if LowBits.contains(*frame));
            best = best.max(got.iter().filter(right).count());
        }
        assert!(best > 200, "{best} of 256");
    }
}
