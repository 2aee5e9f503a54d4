//! Processors on which programs cannot flush single cache lines, or for which this is not implemented.

pub(crate) fn missing() -> Option<&'static str> {
    Some("an instruction known to memtint that throws a line out of all caches")
}

pub(crate) fn now() -> u64 {
    unreachable!("a machine without the instructions is refused when it is opened")
}

/// # Safety
/// None: it is never called.
pub(crate) unsafe fn read(_: *const u8) -> u32 {
    unreachable!("a machine without the instructions is refused when it is opened")
}

/// # Safety
/// None: it is never called.
pub(crate) unsafe fn flush(_: *const u8) {
    unreachable!("a machine without the instructions is refused when it is opened")
}

pub(crate) fn settle() {
    unreachable!("a machine without the instructions is refused when it is opened")
}
