//! The broker: a process that keeps frames of the right color in stock and puts them on top of a CPU's free list.
//!
//! The kernel's per-CPU free lists are last-in first-out. If the broker gives up frames on a CPU and a helper
//! immediately populates as many pages on the same CPU, the helper gets exactly these frames. The search for frames
//! thus runs in a separate address space, in parallel with the program, and no thread of the program pays for
//! page-table changes. The frames that the helper got are verified against its page map every time.

use crate::areas::{self, Backing, PageMap};
use crate::memory::{self, MemoryLimits, Zone};
use crate::supervisor::word;
use crate::sys::{self, Pid};
use crate::wire::{Nodes, PAGE, Run};
use crate::{FrameChoice, RunError, SEARCHING};
use memtint_units::Pfn;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Pages examined in one step of a search, a *look*.
const LOOK: u64 = 1024;
/// Pages of a block that is examined as a whole.
const BLOCK: u64 = 512;
/// Interval, in looks or blocks, at which the memory limits are read again.
const LOOKS_UNWATCHED: u64 = 4;
/// How long pages of the wrong color are kept while no request comes.
const IDLE_MS: i32 = 1000;
/// A color is rare if a page of it takes more looks than this on average.
const RARE: f64 = 64.0;
/// A search for a rare color ends after this many times the pages expected from the color's share of memory, unless the program is strict
/// and no other frame is left ...
const SEARCH_MULTIPLE: f64 = 8.0;
/// ... plus this many.
const MANY: u64 = 1 << 16;
/// Pause after a search that found too little; doubled each time, up to [`BARREN_MAX`].
const BARREN: Duration = Duration::from_secs(5);
/// First pause once a process has ended: its address space may take this long to return its frames, and longer if others get them first.
const SETTLED: Duration = Duration::from_millis(300);
/// See [`BARREN`].
const BARREN_MAX: Duration = Duration::from_secs(300);
/// Number and length of the pauses in which the broker of a strict program waits for searches of other runs to return
/// their pages, before a second and last pass.
const WAITS: u32 = 10;
/// See [`WAITS`].
const WAIT: Duration = Duration::from_millis(500);
/// Frames of a zone that are sampled to decide whether the zone has any in color.
const SAMPLES: u64 = 1 << 16;
/// Waiting is worthwhile if searches of other runs hold at least this many pages.
const HELD_BY_OTHERS: u64 = 1 << 14;
/// A pass over all memory keeps this many pages of a rare color, even if fewer are requested: a pass for every few
/// pages would take minutes.
const KEPT_OF_A_PASS: u64 = 1 << 14;
/// A search of this duration is reported to the user, and again at each doubling.
const REPORTED: Duration = Duration::from_secs(3);
/// Longest wait for permission to run on another CPU for a look there.
const TURN: Duration = Duration::from_millis(50);
/// Stock, in pages, below which the idle broker searches for more.
const LOW: u64 = 2048;
/// The same for a program that has taken many pages.
const LOW_MAX: u64 = 1 << 14;

/// How a broker searches.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    /// Refuse the program a page rather than give it one out of color.
    pub(crate) strict: bool,
    /// Nodes with memory in color; empty where the machine has only one.
    pub(crate) nodes: Nodes,
    /// Most pages of any color that a search holds at a time.
    pub(crate) hold_max: u64,
}

/// The supervisor's side.
pub(crate) struct Broker {
    /// None when every frame is in color.
    socket: RefCell<Option<OwnedFd>>,
    search: Search,
    /// Socket for lines to the user.
    front: Option<OwnedFd>,
    /// Why the last search found too little; empty if it found enough.
    shortage: RefCell<String>,
}

/// A helper's request for frames on top of a free list.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// How many, at most.
    pub(crate) pages: u64,
    /// CPU of the free list.
    pub(crate) cpu: u64,
    /// The NUMA node of that CPU: its frames are preferred.
    pub(crate) near: u64,
}

/// Frames on top of a free list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// How many.
    pub(crate) pages: u64,
    /// The NUMA node whose free list it is: a CPU has one for each.
    pub(crate) node: Option<u32>,
}

/// The nodes, or CPUs, of a set, ascending.
pub(crate) fn listed<const WORDS: usize>(set: &[u64; WORDS]) -> impl Iterator<Item = u32> + use<WORDS> {
    let set = *set;
    (0..64 * WORDS as u32).filter(move |&number| set[number as usize / 64] >> (number % 64) & 1 == 1)
}

impl Broker {
    /// Starts the process, unless every frame is in color. Lines about long searches go to `front`.
    ///
    /// Before a strict program is refused, one pass examines all memory that the kernel gives: the pages outside whole blocks of 2 MiB, of
    /// which it holds [`Search::hold_max`] and lends the others, and every whole free block. The kernel gives frames of a lower zone only
    /// when the highest zone of the node has none; until then no search reaches them, and no other process could hand them over.
    pub(crate) fn start(choice: &dyn FrameChoice, search: Search, front: Option<OwnedFd>) -> Result<Broker, RunError> {
        let socket = if choice.looks_per_page() <= 1.0 { None } else { Some(spawn(choice, &search)?) };
        Ok(Broker { socket: RefCell::new(socket), search, front, shortage: RefCell::default() })
    }

    /// Puts frames on top of a free list: at most as many as requested, possibly none. The broker touches no memory
    /// until [`Broker::go_on`]: it would get its own frames back.
    pub(crate) fn release(&self, choice: &dyn FrameChoice, wish: Wish) -> Released {
        if self.socket.borrow().is_none() {
            return Released { pages: wish.pages, node: None };
        }
        if let Some(released) = self.try_release(wish) {
            return released;
        }
        // Another process has killed it. Without room, a new one would find nothing and be killed next.
        if MemoryLimits::of_this_process().room(None) < LOOK {
            return Released::default();
        }
        let Ok(socket) = spawn(choice, &self.search) else { return Released::default() };
        self.socket.replace(Some(socket));
        self.try_release(wish).unwrap_or_default()
    }

    /// Why there are no more frames: text for the middle of a sentence, in brackets and with a leading blank.
    pub(crate) fn shortage(&self) -> String {
        let told = self.shortage.borrow();
        match (told.as_str(), MemoryLimits::of_this_process().tight_limit()) {
            ("", limit) if !limit.is_empty() => limit,
            ("", _) => " (other programs took the frames while they were handed over)".to_owned(),
            (cause, _) => format!(" ({cause})"),
        }
    }

    fn try_release(&self, wish: Wish) -> Option<Released> {
        let socket = self.socket.borrow();
        let socket = socket.as_ref()?;
        sys::send_message(socket, &message([wish.pages, wish.cpu, wish.near]), None).ok()?;
        loop {
            let mut answer = [0u8; ANSWER];
            let received = sys::receive_message(socket, &mut answer, true).ok()?;
            let (numbers, text) = answer[..received.length].split_first_chunk::<24>()?;
            let ([pages, of_one_node, node], text) = (words(numbers), String::from_utf8_lossy(text));
            if pages == GOES_ON {
                self.tell(&text);
                continue;
            }
            self.shortage.replace(text.into_owned());
            return Some(Released { pages, node: (of_one_node == 1).then_some(node as u32) });
        }
    }

    /// Sends a line to the user.
    fn tell(&self, text: &str) {
        if let Some(front) = &self.front {
            let line: Vec<u8> = std::iter::once(word::TELL).chain(text.bytes()).collect();
            // If the front has ended, the line has no reader.
            let _ = sys::send_message(front, &line, None);
        }
    }

    /// The helper has taken the frames: the broker may search for more.
    pub(crate) fn go_on(&self) {
        self.order([0; 3]);
    }

    /// An address space is gone: its frames may now be free.
    pub(crate) fn stir(&self) {
        self.order(STIR);
    }

    fn order(&self, words: [u64; 3]) {
        if let Some(socket) = &*self.socket.borrow() {
            let _ = sys::send_message(socket, &message(words), None);
        }
    }
}

/// Starts the broker's process and returns the socket to it.
fn spawn(choice: &dyn FrameChoice, search: &Search) -> Result<OwnedFd, RunError> {
    let (socket, theirs) = sys::message_pair()?;
    if sys::fork()? == 0 {
        drop(socket);
        sys::die_with_parent();
        // The copy must not keep the user's pipes or the supervisor's sockets open.
        sys::close_all_but(&theirs);
        // If memory runs out nevertheless, the kernel kills this process before the program.
        sys::be_killed_for_memory(1000);
        let failed = Store::new(choice, search).serve(&theirs).is_err();
        std::process::exit(i32::from(failed));
    }
    Ok(socket)
}

/// The message of [`Broker::stir`].
const STIR: [u64; 3] = [0, 1, 0];

/// In the place of the released pages: the search continues, and the text after the numbers is for the user.
const GOES_ON: u64 = u64::MAX;
/// Longest answer: three numbers and a text.
const ANSWER: usize = 1024;

/// Three numbers as a message: a wish, no pages to go on, or what was released.
fn message(words: [u64; 3]) -> [u8; 24] {
    let mut bytes = [0u8; 24];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    bytes
}

/// Three numbers, and as much of a text as fits.
fn answer(numbers: [u64; 3], text: &str) -> Vec<u8> {
    let mut bytes = message(numbers).to_vec();
    bytes.extend(text.bytes().take(ANSWER - bytes.len()));
    bytes
}

fn words(message: &[u8; 24]) -> [u64; 3] {
    std::array::from_fn(|index| u64::from_le_bytes(message[8 * index..8 * index + 8].try_into().expect("eight bytes")))
}

/// The broker's frames: a stock for each NUMA node with memory in color.
///
/// A CPU has a free list for each node, and a released frame goes to the list of its node. The helper can only take
/// from the top of one list, so frames released together come from one node.
struct Store<'a> {
    /// Never empty.
    stocks: Vec<Stock<'a>>,
    /// The stock that served the last request, and will probably serve the next.
    latest: usize,
}

impl<'a> Store<'a> {
    fn new(choice: &'a dyn FrameChoice, search: &Search) -> Store<'a> {
        let of_node = |node| Stock { hold_max: search.hold_max, ..Stock::new(choice, search.strict, node) };
        let mut stocks: Vec<Stock> = listed(&search.nodes).map(|node| of_node(Some(node))).collect();
        if stocks.is_empty() {
            stocks.push(of_node(None));
        }
        Store { stocks, latest: 0 }
    }

    fn serve(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut may_look = true;
        loop {
            let stock = &self.stocks[self.latest];
            let (in_stock, low) = (stock.pages.len() as u64, stock.low());
            let wait = !may_look || in_stock >= low;
            let holds = self.stocks.iter().any(|stock| stock.held > 0 || !stock.lent.is_empty());
            if wait && may_look && holds && !sys::is_readable(socket, IDLE_MS) {
                self.stocks.iter_mut().for_each(Stock::give_back);
            }
            let mut order = [0u8; 24];
            match sys::receive_message(socket, &mut order, wait) {
                Ok(received) if received.length == order.len() && words(&order) == STIR => {
                    self.stocks.iter_mut().for_each(Stock::hope);
                }
                Ok(received) if received.length == order.len() => {
                    let [pages, cpu, near] = words(&order);
                    may_look = pages == 0;
                    if !may_look {
                        let wish = Wish { pages: pages.min(1 << 20), cpu, near };
                        self.stocks.iter_mut().try_for_each(|stock| stock.report_to(socket))?;
                        let released = self.release(wish);
                        self.stocks.iter_mut().for_each(|stock| stock.report = None);
                        let node = released.node.map_or([0, 0], |node| [1, u64::from(node)]);
                        let short = released.pages < wish.pages;
                        let shortage = if short { self.stocks[self.latest].shortage.as_str() } else { "" };
                        let numbers = [released.pages, node[0], node[1]];
                        sys::send_message(socket, &answer(numbers, shortage), None)?;
                    }
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // If there are none, wait for the next request.
                    may_look = self.stocks[self.latest].look_ahead(low - in_stock);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Releases frames to the kernel on the CPU of the wish: those of the nearest node if it has enough, else those of
    /// the node with the largest stock.
    fn release(&mut self, wish: Wish) -> Released {
        let near = self.stocks.iter().position(|stock| stock.node.map(u64::from) == Some(wish.near));
        let order = near.into_iter().chain((0..self.stocks.len()).filter(|&index| Some(index) != near));
        // Search all memory of a node only if no node has enough nearby.
        let order = [false, true].into_iter().flat_map(|all| order.clone().map(move |index| (all, index)));
        let enough = order.into_iter().find(|&(all, index)| self.stocks[index].has(wish.pages, all));
        let enough = enough.map(|(_, index)| index);
        let fullest = || (0..self.stocks.len()).max_by_key(|&index| self.stocks[index].pages.len()).unwrap_or(0);
        self.latest = enough.unwrap_or_else(fullest);
        let stock = &mut self.stocks[self.latest];
        Released { pages: stock.release(wish.pages, wish.cpu), node: stock.node }
    }
}

/// Limits of a search through single pages.
#[derive(Clone, Copy)]
struct Extent {
    /// Most pages of the wrong color to hold.
    hold_max: u64,
    /// Most looks.
    looks: u64,
    /// The search continues beyond `hold_max`, lending what it holds, while the kernel has more free pages than this;
    /// `None`: it stops there.
    lends_above: Option<u64>,
}

/// Frames of the right color of one node, in the broker's address space.
struct Stock<'a> {
    /// Pages of the right color, all present: frame number and address, by frame number.
    pages: Vec<(u64, u64)>,
    /// Pages given away so far.
    given: u64,
    /// Pages of the wrong color found by searches, held so that the next search does not get them again.
    wrong: Vec<Run>,
    /// Pages in `wrong`.
    held: u64,
    /// Pages of the wrong color beyond `hold_max`: the kernel reclaims them first when it needs memory.
    lent: Vec<Run>,
    /// When a search last ended without enough, and the pause until the next one.
    barren: Option<(Instant, Duration)>,
    /// When a pass over all memory last ended short of its goal, and how many pages it examined: it has found all there were.
    seen_all: Option<(Instant, u64)>,
    choice: &'a dyn FrameChoice,
    /// The node of its pages; `None` if the machine has only one.
    node: Option<u32>,
    strict: bool,
    memory: MemoryLimits,
    /// CPUs it may run on, except while it puts frames on another CPU's list.
    cpus: [u64; 128],
    /// Most pages a search may hold.
    hold_max: u64,
    /// Pages examined by the latest search.
    looked: u64,
    /// Free pages in pieces below a block when the latest pass over all memory began.
    pieces: u64,
    /// Why the latest search found too little, in words.
    shortage: String,
    /// Frames of the node's highest zone: the kernel gives no others while it has free ones.
    zone: Zone,
    /// The latest look at single pages got a frame of a lower zone: the highest has no free ones.
    lower_zone: bool,
    /// Socket for reports of a search that a request waits for.
    report: Option<Report>,
}

/// Reports of a search that takes long.
struct Report {
    socket: OwnedFd,
    began: Instant,
    lines: u32,
}

impl<'a> Stock<'a> {
    fn new(choice: &'a dyn FrameChoice, strict: bool, node: Option<u32>) -> Stock<'a> {
        Stock {
            pages: Vec::new(),
            given: 0,
            wrong: Vec::new(),
            held: 0,
            lent: Vec::new(),
            barren: None,
            seen_all: None,
            choice,
            node,
            strict,
            memory: MemoryLimits::of_this_process(),
            cpus: sys::affinity(0),
            hold_max: u64::MAX,
            looked: 0,
            pieces: 0,
            shortage: String::new(),
            zone: memory::highest_zone(node),
            lower_zone: false,
            report: None,
        }
    }

    /// From now on, a request waits for the result of searches.
    fn report_to(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.report = Some(Report { socket: socket.try_clone()?, began: Instant::now(), lines: 0 });
        Ok(())
    }

    /// Counts examined pages, and reports the progress of a long search.
    fn count(&mut self, pages: u64, goal: u64) {
        self.looked += pages;
        let Some(report) = &mut self.report else { return };
        if report.began.elapsed() < REPORTED * (1 << report.lines.min(16)) {
            return;
        }
        report.lines += 1;
        let line = format!(
            "{SEARCHING} in {} for {} s: {} MiB searched, {} of {goal} pages found",
            self.choice.label(),
            report.began.elapsed().as_secs(),
            mib(self.looked),
            self.pages.len()
        );
        // The report is informative only: ignore a failure to send it.
        let _ = sys::send_message(&report.socket, &answer([GOES_ON, 0, 0], &line), None);
    }

    /// Shortens the pause after a search that found too little, since more frames are expected soon.
    fn hope(&mut self) {
        self.barren = self.barren.map(|_| (Instant::now(), SETTLED));
        self.seen_all = None;
    }

    /// Stock below which to search for more: the more a program has taken, the more it may take next.
    fn low(&self) -> u64 {
        (self.given / 8).clamp(LOW, LOW_MAX)
    }

    /// Whether the stock has this many pages, after a search for the missing ones: nearby, or everywhere.
    fn has(&mut self, pages: u64, everywhere: bool) -> bool {
        let in_stock = self.pages.len() as u64;
        in_stock >= pages || self.look_for(pages - in_stock, everywhere)
    }

    /// Searches for pages ahead of any request. Memory below a limit is for the program first.
    fn look_ahead(&mut self, pages: u64) -> bool {
        let few = pages.min(self.memory.room(self.node) / 8);
        few > 0 && self.look_for(few, false)
    }

    /// Gives up to `pages` frames to the kernel on `cpu`.
    fn release(&mut self, pages: u64, cpu: u64) -> u64 {
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
        sys::set_affinity(0, &self.cpus);
        self.given += released;
        released
    }

    /// Gives the pages of the wrong color back to the kernel.
    fn give_back(&mut self) {
        for run in self.wrong.drain(..).chain(self.lent.drain(..)) {
            sys::give_up(run.start, run.pages * PAGE);
        }
        self.held = 0;
    }

    /// Lends the held pages to the kernel.
    fn lend(&mut self) {
        for run in &self.wrong {
            sys::lend(run.start, run.pages * PAGE);
        }
        self.lent.append(&mut self.wrong);
        self.held = 0;
    }

    /// Searches for at least `need` pages; false if it does not find them. With `everywhere`, false means that there
    /// are none.
    ///
    /// A search first gets the pages that earlier ones returned. While requests continue, little is returned. A search
    /// that starts anew looks further ahead the more was needed so far, so that all searches together cost at most a
    /// few times the last.
    fn look_for(&mut self, need: u64, everywhere: bool) -> bool {
        // Memory without such a frame a moment ago has none now: searching again would only stall the program.
        if self.barren.is_some_and(|(when, pause)| when.elapsed() < pause) {
            return false;
        }
        let in_stock = self.pages.len() as u64;
        let enough = in_stock + need;
        let ahead = if self.held == 0 { self.given / 4 } else { 0 };
        let room = self.memory.room(self.node);
        let looks = self.choice.looks_per_page();
        let left = self.choice.frames().map_or(u64::MAX, |frames| frames.saturating_sub(self.given + in_stock));
        let kept = KEPT_OF_A_PASS.min(room / 8).min(left);
        let least = if everywhere && looks > RARE { need.max(kept) } else { need };
        let goal = in_stock + least.max(ahead.min(room / 8));
        let search_max = (SEARCH_MULTIPLE * looks * (goal - in_stock) as f64) as u64 + MANY;
        let Ok(map) = PageMap::open(std::process::id() as Pid) else { return false };
        if let Some(node) = self.node {
            sys::take_memory_only_from(node);
        }
        // Pages held already count toward the limit.
        let most = (self.held + room).min(self.hold_max);
        self.looked = 0;
        if everywhere {
            let nothing_new = self.seen_all.is_some_and(|(when, _)| when.elapsed() < BARREN)
                && memory::held_by_other_searches() < HELD_BY_OTHERS;
            if !nothing_new {
                self.pass(&map, goal, enough, most);
            }
            if self.strict && (self.pages.len() as u64) < enough && self.wait_for_others(enough) {
                self.pass(&map, goal, enough, most);
            }
        } else {
            // A common color is always somewhere: the pages on top may be those that other searches, of this run or
            // another, gave back.
            let hold_max = if looks > RARE { search_max.min(most / 2) } else { most / 2 };
            self.look_at_pages(&map, goal, Extent { hold_max, looks: u64::MAX, lends_above: None }, Vec::new());
        }
        self.pages.sort_unstable();
        if self.held > most / 2 || !self.lent.is_empty() {
            self.give_back();
        }
        let found = self.pages.len() as u64 >= enough;
        if found {
            self.barren = None;
        } else if everywhere {
            self.shortage = self.cause(most);
            let pause = self.barren.map_or(BARREN, |(_, pause)| (pause * 2).min(BARREN_MAX));
            self.barren = Some((Instant::now(), pause));
        }
        found
    }

    /// Searches all memory that the kernel gives for `goal` pages; blocks as well if single pages have not brought `enough`.
    fn pass(&mut self, map: &PageMap, goal: u64, enough: u64, most: u64) {
        self.give_back();
        if !self.lower_zone && !self.zone_has_color() {
            return;
        }
        // A soft program can run without a rare color, and must not be delayed for it.
        let worth_it = self.strict || self.choice.looks_per_page() <= RARE;
        let may_run = |cpu: &u32| listed(&self.cpus).any(|own| own == *cpu);
        let waiting = memory::waiting_pages(self.node).into_iter().filter(|(cpu, _)| may_run(cpu));
        let turns = waiting.flat_map(|(cpu, pages)| std::iter::repeat_n(cpu, pages.div_ceil(LOOK) as usize));
        let turns: Vec<u32> = turns.collect();
        self.pieces = memory::in_small_pieces(self.node);
        // The kernel serves single pages from its smallest free piece. An examined block leaves pieces, which would be served first: so
        // blocks come last. Under a memory limit blocks come first, since the held pieces would leave no room for them.
        let limited = self.memory.has_limit();
        if limited {
            self.look_at_blocks(map, goal, memory::machine_room(self.node));
        }
        if worth_it && (self.pages.len() as u64) < enough {
            let looks = self.pieces.div_ceil(LOOK) + turns.len() as u64;
            let looks = if limited { u64::MAX } else { looks };
            let lends_above = (self.strict && !limited).then(|| memory::left_free(self.node));
            self.look_at_pages(map, goal, Extent { hold_max: most, looks, lends_above }, turns);
        }
        self.seen_all = None;
        if (self.pages.len() as u64) < enough {
            if !limited {
                self.look_at_blocks(map, goal, memory::machine_room(self.node));
            }
            self.seen_all = ((self.pages.len() as u64) < goal).then(|| (Instant::now(), self.looked));
        }
    }

    /// Waits until searches of other runs hold little, if they hold much and the color has enough frames at all;
    /// returns false if waiting cannot help.
    fn wait_for_others(&mut self, enough: u64) -> bool {
        let may_be = self.choice.frames().is_none_or(|frames| frames > self.given + enough);
        if !may_be || memory::held_by_other_searches() < HELD_BY_OTHERS {
            return false;
        }
        self.give_back();
        for _ in 0..WAITS {
            std::thread::sleep(WAIT);
            if memory::held_by_other_searches() < HELD_BY_OTHERS {
                break;
            }
        }
        true
    }

    /// Whether a sample of the highest zone has frames in color.
    fn zone_has_color(&self) -> bool {
        let Zone { start, end } = self.zone;
        let step = (end.saturating_sub(start) / SAMPLES).max(1);
        // An odd step meets every value of the low bits.
        start >= end || (start..end).step_by(step as usize | 1).any(|frame| self.choice.contains(Pfn(frame)))
    }

    /// Why a pass over all memory has found too little, in words.
    fn cause(&self, most: u64) -> String {
        if let Some(limit) = self.memory.limit_in_words() {
            return limit;
        }
        if !self.lower_zone && !self.zone_has_color() {
            return "all of them are in a lower zone of memory, from which the kernel gives nothing while the highest \
                    zone has free pages"
                .to_owned();
        }
        let had = mib(self.given + self.pages.len() as u64);
        let color = self.choice.frames().map_or(String::new(), |frames| {
            format!("these colors hold {} MiB in all, of which the run has had {had} MiB; ", mib(frames))
        });
        let looked = mib(self.seen_all.map_or(self.looked, |(_, looked)| looked));
        let others = memory::held_by_other_searches();
        let search = if others >= HELD_BY_OTHERS {
            format!("{looked} MiB were searched, and searches of other runs hold {} MiB", mib(others))
        } else if !self.strict && self.pieces + LOOK > most && most == self.hold_max {
            format!(
                "{looked} MiB were searched, {} MiB of free memory are in pieces below 2 MiB, and a search may hold {} MiB \
                 of such; --search-memory allows more",
                mib(self.pieces),
                mib(most)
            )
        } else {
            format!("all {looked} MiB that the kernel gives were searched, and have no more of them")
        };
        color + &search
    }

    /// Examines single pages, and holds those of the wrong color, until `goal` pages are in stock or a limit of
    /// `extent` is reached.
    ///
    /// The first looks run on the CPUs of `turns`, the last of them first; later looks run on any CPU. The list of each
    /// CPU keeps thousands of the pages that were last freed there, and serves them on that CPU only. A CPU that is
    /// reserved for others is left out.
    fn look_at_pages(&mut self, map: &PageMap, goal: u64, extent: Extent, mut turns: Vec<u32>) {
        for look in 1.. {
            let watched = look % LOOKS_UNWATCHED == 0;
            let full = self.held + LOOK > extent.hold_max;
            // Lent pages do not reduce the room: the kernel counts them as available.
            let ends = if full || !self.lent.is_empty() {
                extent.lends_above.is_none_or(|least| memory::free(self.node) < least + LOOK)
            } else {
                watched && self.memory.room(self.node) < LOOKS_UNWATCHED * LOOK
            };
            if self.pages.len() as u64 >= goal || look > extent.looks || ends {
                return;
            }
            if full {
                self.lend();
            }
            let elsewhere = turns.pop().and_then(|cpu| {
                let start = sys::fresh_pages_on(cpu, LOOK * PAGE, TURN);
                if start.is_none() {
                    turns.retain(|other| *other != cpu);
                }
                start
            });
            let fresh = elsewhere.map_or_else(|| sys::fresh_pages(LOOK * PAGE), Ok);
            let Ok(start) = fresh else { return };
            let backing = map.read(start, LOOK);
            self.lower_zone = backing.iter().any(|page| self.is_below_zone(*page));
            self.keep(start, &backing);
            self.count(LOOK, goal);
            let rest = areas::runs(start, &backing, |page| !is_right(self.choice, page));
            self.held += rest.iter().map(|run| run.pages).sum::<u64>();
            self.wrong.extend(rest);
        }
    }

    /// Examines free blocks, at most `pages` pages.
    ///
    /// At least one page of each block is kept, so that the kernel cannot give it as a whole again: all memory can be
    /// examined with next to none of it held. This costs more than examining single pages.
    fn look_at_blocks(&mut self, map: &PageMap, goal: u64, pages: u64) {
        for block in 0..pages / BLOCK {
            let watched = block % LOOKS_UNWATCHED == 0;
            let may_go_on =
                || memory::has_free_blocks(self.node) && self.memory.room(self.node) > LOOKS_UNWATCHED * BLOCK;
            if self.pages.len() as u64 >= goal || (watched && !may_go_on()) {
                return;
            }
            let Ok(start) = sys::fresh_block() else { return };
            let backing = map.read(start, BLOCK);
            if !is_whole(&backing) || self.is_below_zone(backing[0]) {
                // The kernel has no block, or gives none: these are single pages. Or the block is below the highest
                // zone, which has none: a request for single pages would not reach it.
                return sys::give_up(start, BLOCK * PAGE);
            }
            let before = self.pages.len();
            self.keep(start, &backing);
            self.count(BLOCK, goal);
            let mut rest = areas::runs(start, &backing, |page| !is_right(self.choice, page));
            if self.pages.len() == before {
                self.wrong.push(Run { start, pages: 1 });
                self.held += 1;
                rest = vec![Run { start: start + PAGE, pages: BLOCK - 1 }];
            }
            for run in rest {
                sys::give_up(run.start, run.pages * PAGE);
            }
        }
    }

    fn is_below_zone(&self, page: Backing) -> bool {
        matches!(page, Backing::Private(frame) if frame < self.zone.start)
    }

    /// Takes the pages of the right color into stock.
    fn keep(&mut self, start: u64, backing: &[Backing]) {
        for (page, address) in backing.iter().zip((start..).step_by(PAGE as usize)) {
            if let Backing::Private(frame) = *page
                && self.choice.contains(Pfn(frame))
            {
                self.pages.push((frame, address));
            }
        }
    }
}

/// Pages in MiB.
fn mib(pages: u64) -> u64 {
    (pages * PAGE) >> 20
}

fn is_right(choice: &dyn FrameChoice, page: Backing) -> bool {
    matches!(page, Backing::Private(frame) if choice.contains(Pfn(frame)))
}

/// Whether these frames form one aligned block.
fn is_whole(backing: &[Backing]) -> bool {
    let Some(&Backing::Private(first)) = backing.first() else { return false };
    let next = |(page, frame): (&Backing, u64)| *page == Backing::Private(frame);
    backing.len() as u64 == BLOCK && first % BLOCK == 0 && backing.iter().zip(first..).all(next)
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::wire;
    use memtint_testing::{alone, make_room, skip};
    use std::collections::BTreeSet;

    // Which frames are free, and which process takes them first, depends on everything else that runs. These tests assert what always
    // holds: the accounting of found pages. That a CPU's free list is last-in first-out, the broker's premise, is asserted in the guest of
    // `stock_kernel`, where nothing else runs, and measured here by `memtint bench run`.

    /// Every page in stock is in color, in the recorded frame, and in stock once.
    fn assert_accounted(stock: &Stock) {
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        let frames: BTreeSet<u64> = stock.pages.iter().map(|(frame, _)| *frame).collect();
        assert_eq!(frames.len(), stock.pages.len(), "a frame is in stock twice");
        for &(frame, address) in &stock.pages {
            assert!(stock.choice.contains(Pfn(frame)), "{frame:#x} is not among {}", stock.choice.label());
            assert_eq!(map.read(address, 1), [Backing::Private(frame)]);
        }
    }

    /// Releases 256 pages and counts how many of the next 256 taken on that CPU are in color: chance would give a quarter.
    fn release_256(stock: &mut Stock) {
        let before = (stock.pages.clone(), stock.given);
        assert_eq!(stock.release(256, 0), 256);
        assert_eq!((&stock.pages[..], stock.given), (&before.0[..before.0.len() - 256], before.1 + 256));
        assert_eq!(sys::affinity(0), stock.cpus, "it runs where it may");
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        let released = &before.0[stock.pages.len()..];
        assert!(released.iter().all(|(_, address)| map.read(*address, 1) == [Backing::Missing]), "they are given up");
        sys::pin_to_cpu(0, 0);
        let start = sys::fresh_pages(256 * PAGE).unwrap();
        sys::set_affinity(0, &stock.cpus);
        let got = map.read(start, 256);
        let right = got.iter().filter(|page| is_right(stock.choice, **page)).count();
        println!("{right} of 256 pages taken are in color");
        assert_accounted(stock);
    }

    struct LowBits;

    impl FrameChoice for LowBits {
        fn contains(&self, Pfn(frame): Pfn) -> bool {
            frame & 3 == 1
        }

        fn looks_per_page(&self) -> f64 {
            4.0
        }

        fn label(&self) -> String {
            "frames with bits 0x3 = 0x1".to_owned()
        }
    }

    /// Frames by number.
    struct These(BTreeSet<u64>);

    impl FrameChoice for These {
        fn contains(&self, Pfn(frame): Pfn) -> bool {
            self.0.contains(&frame)
        }

        fn looks_per_page(&self) -> f64 {
            1e6
        }

        fn label(&self) -> String {
            format!("{} frames", self.0.len())
        }
    }

    #[test]
    fn nodes_are_listed_by_number() {
        let mut nodes = wire::one_node(3);
        nodes[1] = wire::one_node(64)[1] | wire::one_node(127)[1];
        assert_eq!(listed(&nodes).collect::<Vec<_>>(), [3, 64, 127]);
        assert_eq!(wire::one_node(1024), Nodes::default());
    }

    #[test]
    fn frames_given_up_leave_the_account_and_the_others_stay() {
        let _alone = alone();
        let mut stock = Stock::new(&LowBits, true, None);
        assert!(stock.has(512, false));
        assert_accounted(&stock);
        release_256(&mut stock);
    }

    /// A search for frames that are nowhere else looks on each CPU: some frames can be had on one CPU only. It begins
    /// on a CPU whose list does not have them.
    #[test]
    fn a_search_on_each_cpu_finds_what_was_asked_for_and_nothing_else() {
        let _alone = alone();
        let all = sys::affinity(0);
        let mut cpus = listed(&all);
        let (Some(first), Some(second)) = (cpus.next(), cpus.next()) else { return skip("two CPUs") };
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        sys::pin_to_cpu(0, first.into());
        let start = sys::fresh_pages(256 * PAGE).unwrap();
        let frame = |page| if let Backing::Private(frame) = page { Some(frame) } else { None };
        let these = These(map.read(start, 256).into_iter().filter_map(frame).collect());
        sys::give_up(start, 256 * PAGE);
        sys::pin_to_cpu(0, second.into());
        let mut stock = Stock::new(&these, true, None);
        let extent = Extent { hold_max: 8 * LOOK, looks: u64::MAX, lends_above: None };
        stock.look_at_pages(&map, 256, extent, vec![first, second]);
        println!("{} of {} frames are found on another CPU", stock.pages.len(), these.0.len());
        assert!(stock.held <= 8 * LOOK && stock.held == stock.wrong.iter().map(|run| run.pages).sum::<u64>());
        assert_eq!((stock.held + stock.pages.len() as u64) % LOOK, 0, "each page looked at is kept or held");
        assert_accounted(&stock);
        stock.give_back();
        assert_eq!((stock.held, stock.wrong.len()), (0, 0));
        sys::set_affinity(0, &all);
    }

    /// All free memory is examined, each frame once, though hardly any of it may be held.
    #[test]
    fn a_strict_search_sees_many_times_what_it_may_hold() {
        const HELD: u64 = 8;
        const LOOKS: u64 = 64;
        let _alone = alone();
        make_room();
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        if memory::free(None) < memory::left_free(None) + 8 * LOOKS * LOOK
            || MemoryLimits::of_this_process().has_limit()
        {
            return skip("free memory without a limit");
        }
        let seen = Seen::default();
        let mut stock = Stock::new(&seen, true, None);
        let mut extent = Extent { hold_max: HELD * LOOK, looks: LOOKS, lends_above: Some(memory::left_free(None)) };
        stock.look_at_pages(&map, 1, extent, Vec::new());
        assert_eq!(stock.looked, LOOKS * LOOK);
        assert!(stock.held <= HELD * LOOK, "{} pages are held", stock.held);
        let lent: u64 = stock.lent.iter().map(|run| run.pages).sum();
        assert_eq!(stock.held + lent, LOOKS * LOOK);
        // The kernel accounts for all lent pages except those in per-CPU lists.
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let kib = text.lines().find_map(|line| line.strip_prefix("LazyFree:")).expect("the kernel has that account");
        let kib: u64 = kib.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        assert!(kib * 1024 / PAGE > lent / 2, "{kib} KiB of {lent} pages");
        let frames = seen.0.borrow().len() as u64;
        assert!(frames > LOOKS * LOOK * 9 / 10, "{frames} frames in {} looks", LOOKS * LOOK);
        stock.give_back();
        assert!(stock.wrong.is_empty() && stock.lent.is_empty());
        // The search leaves the given amount free. Some of the pages it examines were in per-CPU lists, which count as in use.
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let free = memory::free(None);
            extent = Extent { looks: u64::MAX, lends_above: Some(free.saturating_sub(LOOKS / 2 * LOOK)), ..extent };
            stock.looked = 0;
            stock.look_at_pages(&map, 1, extent, Vec::new());
            stock.give_back();
            assert!(stock.looked < free / 2, "{} pages of {free}", stock.looked);
            if stock.looked > HELD * LOOK {
                break;
            }
            // Other processes may have taken the rest meanwhile.
            assert!(Instant::now() < until, "{} pages of {free}", stock.looked);
            std::thread::sleep(Duration::from_millis(100));
        }
        // A soft search stops at the limit.
        let mut stock = Stock::new(&seen, false, None);
        extent.lends_above = None;
        stock.look_at_pages(&map, 1, extent, Vec::new());
        assert!(stock.looked <= HELD * LOOK && stock.lent.is_empty());
    }

    /// Records the frames it was asked about; all are of the wrong color.
    #[derive(Default)]
    struct Seen(RefCell<BTreeSet<u64>>);

    impl FrameChoice for Seen {
        fn contains(&self, Pfn(frame): Pfn) -> bool {
            self.0.borrow_mut().insert(frame);
            false
        }

        fn looks_per_page(&self) -> f64 {
            1e6
        }

        fn label(&self) -> String {
            "no frames".to_owned()
        }
    }

    /// No block is examined twice, released pages return to the kernel, and kept pages can be released one by one.
    #[test]
    fn blocks_are_looked_at_once_and_hardly_held() {
        let _alone = alone();
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        let mut stock = Stock::new(&LowBits, true, None);
        // Other processes may take the free blocks at the same time.
        let until = Instant::now() + Duration::from_secs(300);
        while stock.pages.len() < 512 {
            if !memory::has_free_blocks(None) {
                if Instant::now() > until {
                    return skip("free blocks of 2 MiB");
                }
                make_room();
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            assert!(Instant::now() < until, "{} pages are in stock", stock.pages.len());
            stock.look_at_blocks(&map, 40 * BLOCK / 4, 50 * BLOCK);
        }
        assert_eq!(stock.held, 0, "each block has pages in color");
        let blocks: BTreeSet<u64> = stock.pages.iter().map(|(frame, _)| frame / BLOCK).collect();
        assert_eq!(stock.pages.len() as u64, blocks.len() as u64 * BLOCK / 4);
        assert!(blocks.len() <= 40, "{} blocks", blocks.len());
        assert_accounted(&stock);
        release_256(&mut stock);
    }

    /// Frames that the kernel does not give while there are others.
    struct Below(u64);

    impl FrameChoice for Below {
        fn contains(&self, Pfn(frame): Pfn) -> bool {
            frame < self.0
        }

        fn looks_per_page(&self) -> f64 {
            8.0
        }

        fn label(&self) -> String {
            format!("frames below {}", self.0)
        }
    }

    #[test]
    fn a_color_of_a_lower_zone_is_refused_with_that_cause_and_without_a_search() {
        let zone = memory::highest_zone(None);
        if zone.start <= BLOCK {
            return skip("two zones of memory");
        }
        let below = Below(zone.start);
        let mut stock = Stock::new(&below, true, None);
        assert!(!stock.has(64, true));
        assert_eq!(stock.looked, 0);
        assert!(stock.shortage.contains("a lower zone of memory"), "{}", stock.shortage);
    }
}
