//! Memory that is shared with a helper.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// An anonymous file.
pub(crate) fn memory_file(name: &str, length: u64) -> io::Result<OwnedFd> {
    let name = CString::new(name).expect("names given here have no zero byte");
    // SAFETY: `name` is a C string.
    let fd =
        check(i64::from(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) }))?;
    // SAFETY: a new descriptor without another owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::ftruncate(file.as_raw_fd(), length as i64) }))?;
    Ok(file)
}

/// Seals the content of a memory file.
pub(crate) fn seal(file: &OwnedFd) -> io::Result<()> {
    let seals = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers.
    check(i64::from(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })).map(|_| ())
}

/// A shared, writable mapping of a file, unmapped when dropped.
pub(crate) struct SharedMapping {
    start: *mut u8,
    length: usize,
}

impl SharedMapping {
    /// Maps the first `length` bytes.
    pub(crate) fn new(file: &OwnedFd, length: usize) -> io::Result<SharedMapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMapping { start: start.cast(), length })
    }

    /// Address `offset` bytes into the mapping, for a value of type `T`.
    ///
    /// Panics when it does not fit. The other side may write at any time: access is by volatile reads and writes.
    fn at<T>(&self, offset: usize) -> *mut T {
        assert!(offset + size_of::<T>() <= self.length && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: in bounds by the assertion.
        unsafe { self.start.add(offset).cast() }
    }

    /// Reads a plain value.
    pub(crate) fn get<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: `at` checked bounds and alignment; the values kept in control areas are plain integers.
        unsafe { self.at::<T>(offset).read_volatile() }
    }

    /// Writes a plain value.
    pub(crate) fn set<T: Copy>(&self, offset: usize, value: T) {
        // SAFETY: as for `get`.
        unsafe { self.at::<T>(offset).write_volatile(value) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which no reference is ever given out.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
