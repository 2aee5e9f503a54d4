//! The frame pool and what is done with it: faults, fills, copies, recycling.

use crate::kernel::{self, Errno, RawResult};
use crate::wire::{self, Control, PAGE, Reply, Request, Run, op, say};

/// Pages a fault brings in when it belongs to no stream.
const FIRST_BATCH: u64 = 4;
/// Pages brought in at a time into memory that cannot be written.
const READ_ONLY_BATCH: u64 = 16;
/// Frames tried for one page before giving up.
const ATTEMPTS: usize = 8;
/// Bytes brought in together once two faults, of no stream, have hit them.
const BLOCK: u64 = 16 * PAGE;
/// Pages moved by one system call when areas are filled.
const BULK: u64 = 512;
/// Supplies in a row of which nothing arrives before the helper searches by itself.
const LOST_MAX: u64 = 64;
/// The same for pages that are wanted ahead of need.
const LOST_AHEAD_MAX: u64 = 3;
/// Attempts to copy file pages into frames released by the pool.
const FROM_POOL_MAX: u64 = 8;
/// Pages looked at by one question.
const LOOK_MAX: u64 = 8192;
const READY_END: u64 = wire::READY_BASE + wire::READY_CHUNK * wire::READY_CHUNKS;

/// The helper: all of its state is in the control area.
pub(crate) struct Helper {
    pub(crate) control: &'static mut Control,
}

/// What the supervisor knows of a mapping.
pub(crate) struct Protection {
    protection: u64,
    end: u64,
    pub(crate) locked: bool,
}

impl Helper {
    // --- faults ---

    /// Serves one page fault, and brings in neighbours when faults come in a row.
    pub(crate) fn serve_fault(&mut self, at: u64) {
        let (start, pages) = self.batch(at);
        let ready = self.ready(pages);
        let (moved, _) = self.give(start, pages.min(ready));
        if start <= at && at < start + moved * PAGE {
            // Scattered faults that come close to each other: the block around them is in use.
            if pages == FIRST_BATCH && self.is_familiar(at) {
                let block = at & !(BLOCK - 1);
                let _ = self.bring_in(block, block + BLOCK);
            }
            return;
        }
        // The batch did not get as far as the page asked for: that one by itself.
        for _ in 0..ATTEMPTS {
            if self.ready(1) == 0 {
                return self.refuse(at);
            }
            match self.give(at, 1) {
                (1, _) => return,
                // There by now, gone by now, or the address space is being changed: let the thread look again.
                (_, Some(Errno::EXISTS | Errno::NO_ENTRY | Errno::AGAIN)) => return kernel::wake(wire::FD_UFFD, at),
                (_, Some(Errno::INVALID)) if self.give_read_only(at) => return,
                (_, Some(Errno::INVALID)) => break,
                // Somebody holds on to this very frame for the moment: take another.
                (_, why) => {
                    self.control.counters.last_move_error = why.map_or(0, |errno| errno.0 as u64);
                    self.shrink(1);
                }
            }
        }
        self.control.counters.move_refused += 1;
        self.give_out_of_color(at);
    }

    /// Memory that cannot be written cannot take a page either: it is made writable for the moment.
    ///
    /// The shared zero page would do until the memory is made writable, and then the kernel would choose the frame.
    fn give_read_only(&mut self, at: u64) -> bool {
        let Protection { protection, end, .. } = self.protection(at);
        if protection & kernel::PROT_WRITE != 0 || protection == 0 || end <= at {
            return false;
        }
        let pages = ((end - at) / PAGE).min(READ_ONLY_BATCH);
        let ready = self.ready(pages);
        let protect = |flags| kernel::call(kernel::NR_MPROTECT, [at, pages * PAGE, flags, 0, 0, 0]);
        let _ = protect(protection | kernel::PROT_READ | kernel::PROT_WRITE);
        let (moved, _) = self.give(at, pages.min(ready));
        let _ = protect(protection);
        moved > 0
    }

    /// Asks what mapping an address is in.
    pub(crate) fn protection(&mut self, at: u64) -> Protection {
        self.send(Reply { kind: say::PROTECTION, extra: words([at, 0]), ..Reply::default() });
        let [protection, end, locked, ..] = self.answer(op::PROTECTED, 0).args;
        Protection { protection, end, locked: locked == 1 }
    }

    /// Whether memory lies in one mapping that is not locked.
    pub(crate) fn is_unlocked(&mut self, at: u64, length: u64) -> bool {
        let mapping = self.protection(at);
        !mapping.locked && at.saturating_add(length) <= mapping.end
    }

    /// The pool is dry: strict programs get SIGBUS, others a frame of the kernel's choice.
    fn refuse(&mut self, at: u64) {
        if self.control.strict == 0 {
            return self.give_out_of_color(at);
        }
        self.control.counters.pages_refused += 1;
        self.send(Reply { kind: say::REFUSED, extra: words([at, 1]), ..Reply::default() });
        if kernel::poison(wire::FD_UFFD, at).is_err() {
            kernel::wake(wire::FD_UFFD, at);
        }
    }

    /// Lets the kernel choose the frame: counted, never silent.
    fn give_out_of_color(&mut self, at: u64) {
        let zeros = [0u64; 512];
        match kernel::copy_page(wire::FD_UFFD, at, zeros.as_ptr() as u64) {
            Ok(_) => self.control.counters.pages_out_of_color += 1,
            Err(Errno::EXISTS) => kernel::wake(wire::FD_UFFD, at),
            Err(_) => {
                let _ = kernel::zero_page(wire::FD_UFFD, at);
                kernel::wake(wire::FD_UFFD, at);
            }
        }
    }

    /// What to bring in for a fault at `at`: start and number of pages.
    fn batch(&mut self, at: u64) -> (u64, u64) {
        let most = self.control.batch_max.max(1);
        let state = &mut self.control.state;
        for stream in &mut state.streams {
            if stream.batch == 0 || (at != stream.up && at != stream.down) {
                continue;
            }
            stream.batch = (stream.batch * 4).min(most);
            let span = stream.batch * PAGE;
            if at == stream.up {
                stream.up = at + span;
                return (at, stream.batch);
            }
            let start = (at + PAGE).saturating_sub(span);
            stream.down = start.wrapping_sub(PAGE);
            return (start, stream.batch);
        }
        let batch = FIRST_BATCH.min(most);
        let slot = state.next_stream as usize % state.streams.len();
        state.next_stream += 1;
        state.streams[slot] = wire::Stream { up: at + batch * PAGE, down: at.wrapping_sub(PAGE), batch };
        (at, batch)
    }

    // --- giving pages to the program ---

    /// Pages that can be given now, up to `wanted`; builds the pool when there is none.
    fn ready(&mut self, wanted: u64) -> u64 {
        if self.control.counters.pool_pages == 0 {
            let _ = self.grow(wanted);
        }
        self.control.counters.pool_pages.min(wanted)
    }

    /// Moves up to `pages` ready pages to `to`, as far as the destination takes them.
    fn give(&mut self, to: u64, pages: u64) -> (u64, Option<Errno>) {
        let mut done = 0;
        let mut step = pages;
        while done < pages {
            let source = self.head(step.min(pages - done));
            if source.pages == 0 {
                break;
            }
            let (moved, why) = self.give_run(to + done * PAGE, source);
            done += moved;
            match why {
                None => {}
                // The batch reaches past the end of the mapping: halve it. (A page that is there stops it earlier.)
                Some(Errno::NO_ENTRY | Errno::INVALID) if moved == 0 && source.pages > 1 => step = source.pages / 2,
                why => return (done, why),
            }
        }
        (done, None)
    }

    fn give_run(&mut self, to: u64, source: Run) -> (u64, Option<Errno>) {
        let (mut moved, mut why) = kernel::move_pages(wire::FD_UFFD, to, source.start, source.pages);
        if why == Some(Errno::INVALID) && source.pages == 1 {
            (moved, why) = self.give_alike(to, source);
        }
        self.control.counters.pages_in_color += moved;
        self.drop_head(moved);
        (moved, why)
    }

    /// The kernel moves pages only between areas of equal protection and locking: makes the source like the
    /// destination by trying the combinations a writable destination can have.
    fn give_alike(&mut self, to: u64, source: Run) -> (u64, Option<Errno>) {
        let at = source.start;
        let protect = |flags| kernel::call(kernel::NR_MPROTECT, [at, PAGE, flags, 0, 0, 0]);
        let lock = || kernel::call(kernel::NR_MLOCK2, [at, PAGE, kernel::MLOCK_ONFAULT, 0, 0, 0]);
        let unlock = || kernel::call(kernel::NR_MUNLOCK, [at, PAGE, 0, 0, 0, 0]);
        let (rw, rwx) =
            (kernel::PROT_READ | kernel::PROT_WRITE, kernel::PROT_READ | kernel::PROT_WRITE | kernel::PROT_EXEC);
        let mut result = (0, Some(Errno::INVALID));
        for (locked, flags) in [(true, rw), (false, rwx), (true, rwx), (false, rw)] {
            let _ = if locked { lock() } else { unlock() };
            let _ = protect(flags);
            result = kernel::move_pages(wire::FD_UFFD, to, at, 1);
            if result.1 != Some(Errno::INVALID) {
                break;
            }
        }
        // The page has left; what stays behind is an empty place in the ready ring that is unmapped with its chunk. It
        // must not count as locked memory of the program until then.
        let _ = unlock();
        result
    }

    /// Brings in every missing page of a range of any protection. Memory that cannot be written takes no pages: it is made
    /// writable for the moment.
    pub(crate) fn fill_protected(&mut self, at: u64, length: u64, protection: u64) -> RawResult {
        if protection == 0 || protection & kernel::PROT_WRITE != 0 {
            return self.fill(at, length);
        }
        let writable = kernel::PROT_READ | kernel::PROT_WRITE;
        kernel::call(kernel::NR_MPROTECT, [at, length, protection | writable, 0, 0, 0])?;
        let filled = self.fill(at, length);
        let _ = kernel::call(kernel::NR_MPROTECT, [at, length, protection, 0, 0, 0]);
        filled
    }

    /// Brings in every missing page of a range; for a strict program, none of them when there are not enough.
    pub(crate) fn fill(&mut self, at: u64, length: u64) -> RawResult {
        let ready = self.control.counters.pool_pages;
        if ready < length / PAGE && self.grow(length / PAGE - ready).is_err() && self.control.strict == 1 {
            let missing = kernel::absent_pages(at, length).saturating_sub(self.control.counters.pool_pages);
            if missing > 0 {
                return self.refuse_call(missing);
            }
        }
        let end = at + length;
        let mut from = at;
        while from < end {
            from = self.bring_in(from, end);
            if from < end && self.ready(1) == 0 {
                return self.come_short(from, end);
            }
        }
        Ok(0)
    }

    /// A range cannot be filled in color: strict programs' calls fail, others get the kernel's frames for the rest.
    fn come_short(&mut self, from: u64, end: u64) -> RawResult {
        let missing = (end - from) / PAGE;
        if self.control.strict == 1 {
            return self.refuse_call(missing);
        }
        self.control.counters.missing_pages += missing;
        for index in 0..missing {
            self.give_out_of_color(from + index * PAGE);
        }
        Ok(0)
    }

    fn refuse_call(&mut self, missing: u64) -> RawResult {
        self.control.counters.missing_pages += missing;
        self.send(Reply { kind: say::REFUSED, extra: words([0, missing]), ..Reply::default() });
        Err(Errno::NO_MEMORY)
    }

    /// Brings in missing pages from `from` on while there are ready ones; returns how far it came.
    fn bring_in(&mut self, from: u64, end: u64) -> u64 {
        let mut page = from;
        let mut again = 0;
        while page < end && self.control.counters.pool_pages > 0 {
            let (moved, why) = self.give(page, ((end - page) / PAGE).min(BULK));
            page += moved * PAGE;
            match why {
                None => {}
                // As far as a page that is there; or the address space is being changed.
                Some(Errno::AGAIN) if moved > 0 => {}
                Some(Errno::AGAIN) if again < ATTEMPTS => again += 1,
                // There already, no mapping, or nothing that takes pages.
                Some(_) => (page, again) = (page + PAGE, 0),
            }
        }
        page
    }

    /// Whether this is not the first fault of late in the block of memory around `at`.
    fn is_familiar(&mut self, at: u64) -> bool {
        let block = at / BLOCK;
        let slot = &mut self.control.state.blocks[block as usize % wire::BLOCKS];
        core::mem::replace(slot, block) == block
    }

    // --- the ready ring ---

    /// The next `pages` ready pages, as far as they lie together.
    fn head(&mut self, pages: u64) -> Run {
        let state = &self.control.state;
        let chunk_end = (state.head & !(wire::READY_CHUNK - 1)) + wire::READY_CHUNK;
        let together = (chunk_end - state.head) / PAGE;
        Run { start: state.head, pages: pages.min(together).min(self.control.counters.pool_pages) }
    }

    fn drop_head(&mut self, pages: u64) {
        self.control.counters.pool_pages -= pages;
        let state = &mut self.control.state;
        let before = state.head;
        state.head += pages * PAGE;
        if state.head & (wire::READY_CHUNK - 1) == 0 && pages > 0 {
            let chunk = before & !(wire::READY_CHUNK - 1);
            let _ = kernel::call(kernel::NR_MUNMAP, [chunk, wire::READY_CHUNK, 0, 0, 0, 0]);
            if state.head == READY_END {
                state.head = wire::READY_BASE;
            }
        }
    }

    /// Where the next pages of the ring go, and how many fit there; maps the chunk when it is new.
    fn tail(&mut self, pages: u64) -> Option<Run> {
        let start = self.control.state.tail;
        let offset = start & (wire::READY_CHUNK - 1);
        (offset != 0 || map_pool(start, wire::READY_CHUNK, false))
            .then_some(Run { start, pages: pages.min((wire::READY_CHUNK - offset) / PAGE) })
    }

    /// Counts pages that were put at the tail.
    fn push_tail(&mut self, pages: u64) {
        self.control.counters.pool_pages += pages;
        let tail = self.control.state.tail + pages * PAGE;
        self.control.state.tail = if tail == READY_END { wire::READY_BASE } else { tail };
    }

    /// Moves pages to the end of the ring; returns how many went.
    ///
    /// The kernel moves pages only into watched memory; the ring is watched just for that, because pages cannot be
    /// populated in watched memory.
    fn append(&mut self, run: Run) -> (u64, Option<Errno>) {
        let mut done = 0;
        while done < run.pages {
            let Some(place) = self.tail(run.pages - done) else { return (done, Some(Errno::NO_MEMORY)) };
            if let Err(why) = kernel::register(wire::FD_UFFD, place.start, place.pages * PAGE) {
                return (done, Some(why));
            }
            let (moved, why) = take_alike(place, run.start + done * PAGE);
            kernel::unregister(wire::FD_UFFD, place.start, place.pages * PAGE);
            done += moved;
            self.push_tail(moved);
            if moved == 0 {
                return (done, why);
            }
        }
        (done, None)
    }

    // --- building the pool ---

    /// Adds at least `need` pages of the right color.
    pub(crate) fn grow(&mut self, need: u64) -> RawResult {
        let started = kernel::now_ns();
        let ahead = (self.control.counters.pages_in_color / 8).clamp(64, 4096);
        let before = self.control.counters.pool_pages;
        let goal = before + need.max(ahead);
        let least = before + need;
        let (mut lost, mut dry) = (0, false);
        while self.control.counters.pool_pages < goal && !dry {
            let short = self.control.counters.pool_pages < least;
            if lost >= if short { LOST_MAX } else { LOST_AHEAD_MAX } {
                break;
            }
            // Taking few at a time makes little use of a free list that others use too.
            let wanted = (goal - self.control.counters.pool_pages).clamp(64, BULK);
            match self.take_supplied(wanted) {
                None => dry = true,
                // As long as some arrive, the supervisor has more.
                Some(0) => lost += 1,
                Some(_) => lost = 0,
            }
        }
        // There are frames, but others are faster every time.
        if self.control.counters.pool_pages < least && !dry {
            self.search(least);
        }
        self.control.counters.grow_ns += kernel::now_ns() - started;
        self.control.state.scarce = u64::from(self.control.counters.pool_pages < least);
        if self.control.state.scarce == 1 {
            self.control.counters.missing_pages += least - self.control.counters.pool_pages;
            return Err(Errno::NO_MEMORY);
        }
        Ok(self.control.counters.pool_pages)
    }

    /// Takes frames that the supervisor puts on top of this CPU's free list; None when it has none.
    ///
    /// The list is last-in first-out: pages populated right away, on the same CPU, get exactly these frames. Now and
    /// then somebody else is faster; such pages are given back.
    fn take_supplied(&mut self, wanted: u64) -> Option<u64> {
        let place = self.tail(wanted)?;
        let pages = self.populate_supplied(place);
        if pages == 0 {
            return None;
        }
        let kept = self.keep_in_place(place.start, pages);
        self.push_tail(kept);
        Some(kept)
    }

    /// Requests frames on top of this CPU's free list and populates as many pages at the start of `place` with them.
    fn populate_supplied(&mut self, place: Run) -> u64 {
        self.send(Reply { kind: say::WANT, extra: words([place.pages]), ..Reply::default() });
        let [supplied, of_one_node, node, ..] = self.answer(op::TAKE, 0).args;
        let pages = supplied.min(place.pages);
        // Each node has a free list of its own on this CPU.
        if of_one_node == 1 {
            kernel::prefer_nodes(&wire::one_node(node as u32));
        }
        populate(place.start, pages);
        if of_one_node == 1 {
            kernel::prefer_nodes(&self.control.nodes);
        }
        pages
    }

    /// Releases ready pages of the pool and populates as many pages of `place`, which then get these frames.
    fn populate_from_pool(&mut self, place: Run) -> u64 {
        let pages = self.ready(place.pages);
        let given_up = self.head(pages).pages;
        self.shrink(given_up);
        populate(place.start, given_up);
        given_up
    }

    /// Leaves the pages of the right color of a range, packed to its front, and returns how many.
    fn keep_in_place(&mut self, at: u64, pages: u64) -> u64 {
        self.control.counters.scanned_pages += pages;
        let runs = self.ask(say::CLASSIFY, at, pages);
        let first = if runs > 0 { run_at(wire::ANSWER_OFFSET, 0) } else { Run::default() };
        let end = at + pages * PAGE;
        let mut packed = if first.start == at { at + first.pages * PAGE } else { at };
        if packed < end {
            // What is not in the first run is moved up to it; the gaps must be empty and watched for that.
            let mut gap = packed;
            for index in 0..runs {
                let run = run_at(wire::ANSWER_OFFSET, index);
                discard(gap, run.start.max(gap));
                gap = run.start + run.pages * PAGE;
            }
            discard(gap.max(packed), end);
            let watched = kernel::register(wire::FD_UFFD, packed, end - packed).is_ok();
            for index in usize::from(first.start == at)..runs {
                let run = run_at(wire::ANSWER_OFFSET, index);
                let target = packed;
                // The places of a run overlap its target: page by page.
                for page in 0..run.pages {
                    let (to, from) = (target + page * PAGE, run.start + page * PAGE);
                    if watched && kernel::move_pages(wire::FD_UFFD, to, from, 1).0 == 1 && packed == to {
                        packed += PAGE;
                    }
                }
            }
            kernel::unregister(wire::FD_UFFD, at, end - at);
            discard(packed, end);
        }
        let kept = (packed - at) / PAGE;
        self.control.counters.kept_pages += kept;
        kept
    }

    /// Takes pages from the kernel and keeps the right ones, until the pool holds `goal` pages.
    ///
    /// The slow way, for when frames cannot be had through the free list. Pages of the wrong color are held until the
    /// end: the kernel would return them at once.
    fn search(&mut self, goal: u64) {
        let mut held = 0;
        while self.control.counters.pool_pages < goal && held < self.control.hold_max {
            let missing = goal - self.control.counters.pool_pages;
            let look = (missing * self.control.looks_per_page_256).div_ceil(256).clamp(512, LOOK_MAX);
            let look = look.min(self.control.hold_max - held);
            let at = wire::INTAKE_BASE + held * PAGE;
            let populate = [at, look * PAGE, kernel::MADV_POPULATE_WRITE, 0, 0, 0];
            held += look;
            if !map_pool(at, look * PAGE, false) || kernel::call(kernel::NR_MADVISE, populate).is_err() {
                break;
            }
            self.control.counters.scanned_pages += look;
            for index in 0..self.ask(say::CLASSIFY, at, look) {
                let (moved, _) = self.append(run_at(wire::ANSWER_OFFSET, index));
                self.control.counters.kept_pages += moved;
            }
        }
        let _ = kernel::call(kernel::NR_MUNMAP, [wire::INTAKE_BASE, held.max(1) * PAGE, 0, 0, 0, 0]);
    }

    /// Ready pages that the pool need not keep while nothing happens: it keeps an eighth of what the program has had,
    /// and everything when there was too little the last time.
    pub(crate) fn surplus(&self) -> u64 {
        if self.control.state.scarce == 1 {
            return 0;
        }
        let keep = (self.control.counters.pages_in_color / 8).clamp(256, 4096) + self.control.prefault_pages;
        self.control.counters.pool_pages.saturating_sub(keep)
    }

    /// Gives ready pages back to the kernel.
    pub(crate) fn shrink(&mut self, pages: u64) {
        let run = self.head(pages);
        discard(run.start, run.start + run.pages * PAGE);
        self.drop_head(run.pages);
    }

    /// Asks the supervisor which pages are in color, or uncopied, and returns the number of runs in the answer list.
    fn ask(&mut self, question: u32, at: u64, pages: u64) -> usize {
        self.control.state.sequence += 1;
        let id = self.control.state.sequence;
        self.send(Reply { kind: question, id, extra: words([at, pages]), ..Reply::default() });
        (self.answer(op::CLASSIFIED, id).args[0] as usize).min(wire::RUNS_MAX)
    }

    /// Waits for the answer to a question; a request that comes in between is kept for later.
    fn answer(&mut self, op: u32, id: u64) -> Request {
        loop {
            let (request, file) = self.receive();
            if request.op == op && request.id == id {
                return request;
            }
            self.defer(request, file);
        }
    }

    /// Keeps a request for later.
    fn defer(&mut self, request: Request, file: i32) {
        let state = &mut self.control.state;
        // More than the supervisor ever has under way means that the control area has been tampered with.
        if state.deferred_count >= wire::DEFERRED as u64 {
            kernel::end_with(self.control.target);
        }
        let slot = (state.deferred_first + state.deferred_count) as usize % wire::DEFERRED;
        state.deferred[slot] = (request, i64::from(file));
        state.deferred_count += 1;
    }

    /// The oldest request that was kept.
    pub(crate) fn next_deferred(&mut self) -> Option<(Request, i32)> {
        let state = &mut self.control.state;
        if state.deferred_count == 0 {
            return None;
        }
        let (request, file) = state.deferred[state.deferred_first as usize % wire::DEFERRED];
        state.deferred_first += 1;
        state.deferred_count -= 1;
        Some((request, file as i32))
    }

    // --- pages that are there already ---

    /// Takes `runs` of the program's pages, which it is about to give up, into the pool.
    pub(crate) fn recycle(&mut self, runs: usize) {
        for index in 0..runs.min(wire::RUNS_MAX) {
            if self.control.counters.pool_pages >= self.control.pool_cap {
                return;
            }
            let run = run_at(wire::RUNS_OFFSET, index);
            let first = self.control.state.tail;
            let (moved, _) = self.append(run);
            self.control.counters.recycled_pages += moved;
            let before_wrap = moved.min((READY_END - first) / PAGE);
            kernel::clear(first, before_wrap * PAGE);
            kernel::clear(wire::READY_BASE, (moved - before_wrap) * PAGE);
        }
    }

    /// Gives the pages of `runs` runs frames of the right color; the program's threads are stopped meanwhile.
    pub(crate) fn recolor(&mut self, runs: usize) -> RawResult {
        let mut done = 0;
        for index in 0..runs.min(wire::RUNS_MAX) {
            let run = run_at(wire::RUNS_OFFSET, index);
            for page in 0..run.pages {
                done += u64::from(self.recolor_page(run.start + page * PAGE));
            }
        }
        self.control.counters.recolored_pages += done;
        Ok(done)
    }

    fn recolor_page(&mut self, at: u64) -> bool {
        let stash = wire::STAGE_BASE;
        if self.ready(1) == 0 || !map_pool(stash, PAGE, true) {
            return false;
        }
        let (out, _) = kernel::move_pages(wire::FD_UFFD, stash, at, 1);
        if out == 1 {
            let fresh = self.head(1).start;
            kernel::copy(fresh, stash, PAGE);
            let (back, _) = self.give(at, 1);
            if back == 0 {
                // The content must not be lost whatever happened: the old frame goes back.
                kernel::clear(fresh, PAGE);
                let _ = kernel::move_pages(wire::FD_UFFD, at, stash, 1);
            }
            let _ = kernel::call(kernel::NR_MUNMAP, [stash, PAGE, 0, 0, 0, 0]);
            return back == 1;
        }
        let _ = kernel::call(kernel::NR_MUNMAP, [stash, PAGE, 0, 0, 0, 0]);
        self.control.counters.move_refused += 1;
        false
    }

    // --- private mappings of files ---

    /// Breaks copy-on-write for all pages of a private file mapping that are not private yet, so that each gets a frame in color
    /// and the file's current content. Pages past the end of the file remain unmapped.
    ///
    /// The mapping stays a file mapping: its name, truncation and `madvise` behave as usual.
    pub(crate) fn copy_file(&mut self, at: u64, length: u64, protection: u64) -> RawResult {
        if protection & kernel::PROT_READ == 0 {
            return Err(Errno::INVALID);
        }
        // Read the file first: page-cache allocations would take the frames meant for the copies.
        let end = readable_end(at, length);
        let protect = |flags| kernel::call(kernel::NR_MPROTECT, [at, length, flags, 0, 0, 0]);
        let writable = protection & kernel::PROT_WRITE != 0;
        if !writable {
            // Fails under MDWE, or a seccomp filter that forbids writable and executable memory.
            protect(protection | kernel::PROT_WRITE)?;
        }
        let copied = self.copy_pages(at, end);
        if !writable {
            let _ = protect(protection);
        }
        copied
    }

    fn copy_pages(&mut self, at: u64, end: u64) -> RawResult {
        let (mut page, mut lost) = (at, 0);
        while let Some(run) = self.next_uncopied(page, end) {
            if kernel::call(kernel::NR_MADVISE, [run.start, PAGE, kernel::MADV_POPULATE_READ, 0, 0, 0]).is_err() {
                // The file was truncated meanwhile.
                return Ok(0);
            }
            let mut taken = if lost < LOST_MAX { self.populate_supplied(run) } else { 0 };
            if taken == 0 {
                // There are no frames, or other processes win every race for them.
                taken = self.populate_from_pool(run);
            }
            if taken == 0 || lost >= LOST_MAX + FROM_POOL_MAX {
                let missing = (end - run.start) / PAGE;
                self.control.counters.missing_pages += missing;
                self.control.counters.pages_refused += missing;
                return Err(Errno::NO_MEMORY);
            }
            let (kept, first_gap) = self.keep_copies(run.start, taken);
            self.control.counters.copied_pages += kept;
            self.control.counters.pages_in_color += kept;
            lost = if kept == 0 { lost + 1 } else { 0 };
            page = first_gap;
        }
        Ok(0)
    }

    /// The next run of uncopied pages, at most [`BULK`].
    fn next_uncopied(&mut self, from: u64, end: u64) -> Option<Run> {
        let mut at = from;
        while at < end {
            let pages = ((end - at) / PAGE).min(LOOK_MAX);
            if self.ask(say::UNCOPIED, at, pages) > 0 {
                let run = run_at(wire::ANSWER_OFFSET, 0);
                return Some(Run { pages: run.pages.min(BULK), ..run });
            }
            at += pages * PAGE;
        }
        None
    }

    /// Discards new copies that are out of color. Returns the number of copies kept and the first page discarded.
    fn keep_copies(&mut self, at: u64, pages: u64) -> (u64, u64) {
        let (mut kept, mut gap, mut first_gap) = (0, at, None);
        for index in 0..self.ask(say::CLASSIFY, at, pages) {
            let run = run_at(wire::ANSWER_OFFSET, index);
            if run.start > gap {
                discard(gap, run.start);
                first_gap = first_gap.or(Some(gap));
            }
            kept += run.pages;
            gap = run.start + run.pages * PAGE;
        }
        discard(gap, at + pages * PAGE);
        (kept, first_gap.unwrap_or(gap))
    }

    /// Moves written pages of a writable file mapping into color. The program's threads must be stopped.
    pub(crate) fn rewrite(&mut self, runs: usize, protection: u64) -> RawResult {
        let stash = wire::STAGE_BASE;
        if !map_pool(stash, PAGE, false) {
            return Err(Errno::NO_MEMORY);
        }
        for index in 0..runs.min(wire::RUNS_MAX) {
            let run = run_at(wire::RUNS_OFFSET, index);
            for at in (0..run.pages).map(|page| run.start + page * PAGE) {
                kernel::copy(stash, at, PAGE);
                discard(at, at + PAGE);
                // On failure, the write below allocates a frame of the kernel's choice.
                let _ = self.copy_file(at, PAGE, protection);
                kernel::copy(at, stash, PAGE);
            }
        }
        kernel::call(kernel::NR_MUNMAP, [stash, PAGE, 0, 0, 0, 0])
    }
}

/// Discards pages.
fn discard(from: u64, to: u64) {
    if from < to {
        let _ = kernel::call(kernel::NR_MADVISE, [from, to - from, kernel::MADV_DONTNEED_LOCKED, 0, 0, 0]);
    }
}

/// Faults pages in for writing, without changing their content.
fn populate(at: u64, pages: u64) {
    let _ = kernel::call(kernel::NR_MADVISE, [at, pages * PAGE, kernel::MADV_POPULATE_WRITE, 0, 0, 0]);
}

/// Reads a file mapping into the page cache and returns the end of its readable part.
fn readable_end(at: u64, length: u64) -> u64 {
    let read =
        |pages| kernel::call(kernel::NR_MADVISE, [at, pages * PAGE, kernel::MADV_POPULATE_READ, 0, 0, 0]).is_ok();
    let all = length / PAGE;
    if read(all) {
        return at + length;
    }
    let (mut readable, mut not) = (0, all);
    while not - readable > 1 {
        let middle = readable.midpoint(not);
        if read(middle) { readable = middle } else { not = middle }
    }
    at + readable * PAGE
}

/// Moves pages, which will not be needed where they are, to a place in the ring.
///
/// The kernel moves pages only between areas that are locked alike. The ring is as the program's calls of `mlockall`
/// have left it: when the two differ, neither stays locked.
fn take_alike(place: Run, from: u64) -> (u64, Option<Errno>) {
    let result = kernel::move_pages(wire::FD_UFFD, place.start, from, place.pages);
    if result != (0, Some(Errno::INVALID)) {
        return result;
    }
    for start in [place.start, from] {
        let _ = kernel::call(kernel::NR_MUNLOCK, [start, place.pages * PAGE, 0, 0, 0, 0]);
    }
    kernel::move_pages(wire::FD_UFFD, place.start, from, place.pages)
}

/// The words of a message.
fn words<const N: usize>(first: [u64; N]) -> [u64; 10] {
    let mut words = [0; 10];
    words[..N].copy_from_slice(&first);
    words
}

/// The `index`th run of a list in the control area.
fn run_at(list: u64, index: usize) -> Run {
    let lists = (wire::CONTROL_BASE + list) as *const Run;
    // SAFETY: both lists hold RUNS_MAX runs, callers stay below, and any bit pattern is a Run. The supervisor has
    // finished writing: the message that announced the runs came through a socket after it.
    unsafe { lists.add(index).read_volatile() }
}

/// Maps private memory at a pool address; forked children and core dumps do not see it.
fn map_pool(at: u64, length: u64, watched: bool) -> bool {
    let advise = |advice| kernel::call(kernel::NR_MADVISE, [at, length, advice, 0, 0, 0]).is_ok();
    map_plain(at, length)
        && advise(kernel::MADV_DONTFORK)
        && advise(kernel::MADV_DONTDUMP)
        && (!watched || kernel::register(wire::FD_UFFD, at, length).is_ok())
}

fn map_plain(at: u64, length: u64) -> bool {
    let protection = kernel::PROT_READ | kernel::PROT_WRITE;
    let flags = kernel::MAP_PRIVATE | kernel::MAP_ANONYMOUS | kernel::MAP_FIXED | kernel::MAP_NORESERVE;
    kernel::call(kernel::NR_MMAP, [at, length, protection, flags, u64::MAX, 0]).is_ok()
}
