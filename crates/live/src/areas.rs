//! The mappings of a process and the frames behind them.

use crate::sys::{self, Pid};
use crate::wire::{self, PAGE, Run};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// One line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// First address.
    pub(crate) start: u64,
    /// First address past it.
    pub(crate) end: u64,
    /// `PROT_*` bits.
    pub(crate) protection: u64,
    /// MAP_PRIVATE.
    pub(crate) private: bool,
    /// Inode; 0 = no file.
    pub(crate) inode: u64,
    /// File or pseudo name, may be empty.
    pub(crate) name: String,
}

/// The end of the user half of the address space: the kernel rejects addresses beyond it.
pub(crate) const USER_END: u64 = 0x7fff_ffff_f000;

/// Where the heap of a process begins.
pub(crate) fn heap_start(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 47, of which the third is the first behind the name in brackets.
    stat.rsplit_once(')')?.1.split_whitespace().nth(44)?.parse().ok()
}

impl Area {
    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        self.end - self.start
    }

    /// The program's private memory without a file.
    pub(crate) fn is_anonymous(&self) -> bool {
        let special = self.name.starts_with("[v") || self.name == "[uprobes]";
        self.private && self.inode == 0 && !special && !self.is_ours()
    }

    /// A private mapping of a file.
    pub(crate) fn is_private_file(&self) -> bool {
        self.private && self.inode != 0 && !self.is_ours()
    }

    /// A mapping of memtint itself: code, control area, pool.
    pub(crate) fn is_ours(&self) -> bool {
        (wire::BLOB_BASE..wire::POOL_END).contains(&self.start)
    }

    fn parse(line: &str) -> Option<Area> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let flags = fields.next()?.as_bytes();
        let inode = fields.nth(2)?.parse().ok()?;
        let bit = |at: usize, letter: u8, value: u64| if flags.get(at) == Some(&letter) { value } else { 0 };
        Some(Area {
            start: u64::from_str_radix(start, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            protection: bit(0, b'r', 1) | bit(1, b'w', 2) | bit(2, b'x', 4),
            private: flags.get(3) == Some(&b'p'),
            inode,
            name: fields.next().unwrap_or("").trim_start().to_owned(),
        })
    }
}

/// All mappings of a process, by address.
pub(crate) fn of(pid: Pid) -> io::Result<Vec<Area>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(Area::parse).collect())
}

/// Whether the address space has an executable private mapping of this file.
pub(crate) fn has_code(areas: &[Area], inode: u64, name: &str) -> bool {
    let code = |area: &&Area| area.is_private_file() && area.protection & libc::PROT_EXEC as u64 != 0;
    areas.iter().filter(code).any(|area| area.inode == inode && area.name == name)
}

/// Whether a mapping is locked in memory.
pub(crate) fn is_locked(pid: Pid, area: &Area) -> bool {
    let text = std::fs::read(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let head = format!("{:x}-{:x} ", area.start, area.end);
    let lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let flags = lines.skip(1).find_map(|line| line.strip_prefix("VmFlags:"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "lo"))
}

/// The frame behind a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// No page.
    Missing,
    /// A private page that is being migrated or swapped out.
    Elsewhere,
    /// A private page (or the shared zero page) and its frame number.
    Private(u64),
    /// A page of a file or of shared memory.
    Shared,
}

/// The page map of one address space.
pub(crate) struct PageMap(File);

impl PageMap {
    /// Opens the page map of `pid`'s address space.
    pub(crate) fn open(pid: Pid) -> io::Result<PageMap> {
        Ok(PageMap(File::open(format!("/proc/{pid}/pagemap"))?))
    }

    /// Frames of `pages` pages from `start`; short when the address space ends or is gone.
    pub(crate) fn read(&self, start: u64, pages: u64) -> Vec<Backing> {
        const PRESENT: u64 = 1 << 63;
        const SWAPPED_OR_MOVING: u64 = 1 << 62;
        const FILE_OR_SHARED: u64 = 1 << 61;
        let mut bytes = vec![0u8; pages as usize * 8];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.0.read_at(&mut bytes[filled..], start / PAGE * 8 + filled as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => filled += more,
            }
        }
        let entry = |chunk: &[u8]| match u64::from_le_bytes(chunk.try_into().expect("chunks of eight")) {
            entry if entry & (PRESENT | SWAPPED_OR_MOVING) == 0 => Backing::Missing,
            entry if entry & FILE_OR_SHARED != 0 => Backing::Shared,
            entry if entry & PRESENT == 0 => Backing::Elsewhere,
            entry => Backing::Private(entry & ((1 << 55) - 1)),
        };
        bytes[..filled / 8 * 8].chunks_exact(8).map(entry).collect()
    }

    /// Private pages between two addresses that are, or are not, chosen by `contains`; at most `limit` runs.
    ///
    /// Unmapped parts cost nothing, so a reservation of terabytes can be queried.
    pub(crate) fn private(&self, start: u64, end: u64, limit: usize, contains: impl Fn(u64) -> bool) -> Vec<Run> {
        const PAGES_AT_ONCE: u64 = 1 << 14;
        let end = end.min(USER_END);
        let mut found: Vec<Run> = Vec::new();
        for (from, to) in sys::scan_private(&self.0, start & !(PAGE - 1), end).unwrap_or_default() {
            for at in (from..to).step_by((PAGES_AT_ONCE * PAGE) as usize) {
                let backing = self.read(at, ((to - at) / PAGE).min(PAGES_AT_ONCE));
                found.extend(runs(at, &backing, |page| matches!(page, Backing::Private(frame) if contains(frame))));
                if found.len() >= limit {
                    found.truncate(limit);
                    return found;
                }
            }
        }
        found
    }
}

/// Runs of pages of `backing` (which begins at `start`) that `wanted` chooses.
pub(crate) fn runs(start: u64, backing: &[Backing], wanted: impl Fn(Backing) -> bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, &page) in backing.iter().enumerate() {
        if !wanted(page) {
            continue;
        }
        let at = start + index as u64 * PAGE;
        match runs.last_mut() {
            Some(run) if run.start + run.pages * PAGE == at => run.pages += 1,
            _ => runs.push(Run { start: at, pages: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_understood() {
        let line = "7ffc1000-7ffc3000 rw-p 00000000 00:00 0                          [stack]";
        let area = Area::parse(line).unwrap();
        assert_eq!((area.start, area.length(), area.protection), (0x7ffc_1000, 0x2000, 3));
        assert!(area.is_anonymous() && !area.is_private_file());
        let text = Area::parse("55d0-55e0 r-xp 00001000 fe:00 1234 /usr/bin/with space").unwrap();
        assert!(text.is_private_file());
        assert_eq!(text.name, "/usr/bin/with space");
        assert!(!Area::parse("7fff1000-7fff3000 r-xp 00000000 00:00 0 [vdso]").unwrap().is_anonymous());
        assert!(Area::parse("nonsense").is_none());
    }

    #[test]
    fn runs_join_neighbours() {
        let backing = [Backing::Private(1), Backing::Private(2), Backing::Missing, Backing::Private(4)];
        let found = runs(0x1000, &backing, |page| matches!(page, Backing::Private(_)));
        assert_eq!(found, [Run { start: 0x1000, pages: 2 }, Run { start: 0x4000, pages: 1 }]);
    }

    #[test]
    fn the_page_map_of_this_process_can_be_read() {
        let page = [1u8; 8192];
        let at = (page.as_ptr() as u64).next_multiple_of(PAGE);
        let map = PageMap::open(std::process::id() as Pid).unwrap();
        let [Backing::Private(frame)] = map.read(at, 1)[..] else { panic!("a private page") };
        let found = map.private(at, at + PAGE, 10, |candidate| candidate == frame);
        assert_eq!(found, [Run { start: at, pages: 1 }]);
        assert!(map.private(at, at + PAGE, 10, |candidate| candidate != frame).is_empty());
    }
}
