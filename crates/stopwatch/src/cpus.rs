//! Which CPU the calling thread runs on.

use std::fs::read_to_string;
use std::io;
use std::marker::PhantomData;

use memtint_units::IndexSet;

/// CPUs a thread may run on, one bit each: 8192, the most that Linux supports.
type Mask = [u64; 128];

fn affinity() -> io::Result<Mask> {
    let mut mask: Mask = [0; 128];
    // SAFETY: the kernel writes at most the given size, into a buffer of that size that we own.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    if result == 0 { Ok(mask) } else { Err(io::Error::last_os_error()) }
}

fn set_affinity(mask: &Mask) -> io::Result<()> {
    // SAFETY: the kernel reads at most the given size, from a buffer of that size.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPUs that the calling thread may run on, ascending.
pub(crate) fn allowed() -> io::Result<Vec<u32>> {
    let mask = affinity()?;
    Ok((0..8192).filter(|&cpu| mask[cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Keeps the thread that created it on one CPU until dropped.
pub(crate) struct Pinned {
    before: Mask,
    of_this_thread: PhantomData<*const ()>,
}

impl Pinned {
    pub(crate) fn to(cpu: u32) -> io::Result<Pinned> {
        let before = affinity()?;
        let mut mask: Mask = [0; 128];
        mask[cpu as usize / 64] |= 1 << (cpu % 64);
        set_affinity(&mask)?;
        Ok(Pinned { before, of_this_thread: PhantomData })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // When the former CPUs are offline by now, the thread stays where it is.
        let _ = set_affinity(&self.before);
    }
}

/// Returns one CPU of each core among `allowed`, except the core of `cpu`.
pub(crate) fn of_other_cores(allowed: &[u32], cpu: u32) -> Vec<u32> {
    let of_one_core = |one: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list");
        let siblings = read_to_string(path).ok().and_then(|list| IndexSet::parse(list.trim(), 8192).ok());
        move |other: u32| other == one || siblings.as_ref().is_some_and(|siblings| siblings.contains(other))
    };
    let mut taken = vec![of_one_core(cpu)];
    let mut found = Vec::new();
    for &other in allowed {
        if taken.iter().all(|of_core| !of_core(other)) {
            taken.push(of_one_core(other));
            found.push(other);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_let_go() {
        let before = allowed().unwrap();
        let last = *before.last().unwrap();
        let pinned = Pinned::to(last).unwrap();
        assert_eq!(allowed().unwrap(), [last]);
        drop(pinned);
        assert_eq!(allowed().unwrap(), before);
        assert!(Pinned::to(8191).is_err(), "there is no such CPU");
    }

    #[test]
    fn other_cores_are_others() {
        let allowed = allowed().unwrap();
        for &cpu in &allowed {
            assert!(of_other_cores(&[cpu], cpu).is_empty());
            let others = of_other_cores(&allowed, cpu);
            assert!(!others.contains(&cpu) && others.is_sorted() && others.len() < allowed.len());
        }
    }
}
