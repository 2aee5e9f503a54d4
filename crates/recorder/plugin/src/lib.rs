//! What QEMU loads: it writes each memory reference of the program into memory that the recorder reads.
//!
//! The interface is that of QEMU's include/qemu/qemu-plugin.h, version 1 (QEMU 5.1 to 8.2), declared here because no
//! Debian package holds it. Call-backs run in the thread whose instructions they report; the ones for memory run after
//! the access.

mod decode;
#[path = "../../src/wire.rs"]
#[allow(dead_code)]
mod wire;

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use wire::{Shared, Slot};

/// The version of the interface that this is written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

type PluginId = u64;
type VcpuCall = unsafe extern "C" fn(PluginId, u32);
type TranslationCall = unsafe extern "C" fn(PluginId, *mut c_void);
type ExecutionCall = unsafe extern "C" fn(u32, *mut c_void);
type MemoryCall = unsafe extern "C" fn(u32, u32, u64, *mut c_void);
#[rustfmt::skip]
type SystemCall = unsafe extern "C" fn(PluginId, u32, i64, u64, u64, u64, u64, u64, u64, u64, u64);
type ExitCall = unsafe extern "C" fn(PluginId, *mut c_void);

/// The call-back reads no registers.
const NO_REGISTERS: c_int = 0;
const READS_AND_WRITES: c_int = 3;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_init_cb(id: PluginId, call: VcpuCall);
    fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, call: VcpuCall);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, call: TranslationCall);
    fn qemu_plugin_register_vcpu_tb_exec_cb(block: *mut c_void, call: ExecutionCall, flags: c_int, data: *mut c_void);
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut c_void,
        call: MemoryCall,
        flags: c_int,
        kinds: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, call: SystemCall);
    fn qemu_plugin_register_atexit_cb(id: PluginId, call: ExitCall, data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void) -> *const u8;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_mem_size_shift(info: u32) -> u32;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;

    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn mmap(address: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    fn kill(process: c_int, signal: c_int) -> c_int;
    fn nanosleep(time: *const [c_long; 2], left: *mut [c_long; 2]) -> c_int;
}

const O_RDWR: c_int = 2;
const O_CLOEXEC: c_int = 0o2_000_000;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
const MAP_FAILED: *mut c_void = !0usize as *mut c_void;
const MADV_WIPEONFORK: c_int = 18;

/// Processors of QEMU are numbered from 0, a number for each thread alive.
const VCPUS: usize = 1 << 15;

/// What this process knows. It lies in memory that is wiped in a child that is forked: there every pointer is null, the
/// call-backs do nothing, and the parent's rings are left alone.
struct State {
    shared: AtomicPtr<Shared>,
    writers: [AtomicPtr<Writer>; VCPUS],
}

/// Call-backs are given no more than a word by QEMU, and that holds what is known of the instruction.
static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());

/// One thread's side of its slot. Only the thread itself uses it, or whoever runs while all threads stand still.
struct Writer {
    slot: *const Slot,
    shared: *const Shared,
    /// Instructions before the running block.
    block_begin: u64,
    /// Instructions with the running block.
    position: u64,
    /// Instructions that are accounted for by the entries so far.
    accounted: u64,
    recording: bool,
    fetches: bool,
    /// Where recording begins or ends next.
    toggle: u64,
    window_begin: u64,
    head: u64,
    /// As last seen.
    tail: u64,
    /// Registers that the last load filled.
    loaded: u16,
    /// The line that was fetched last.
    line: u64,
}

/// The entry point. 0: go on; anything else: QEMU gives up.
///
/// # Safety
///
/// Called by QEMU, with as many strings in `argv` as `argc` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's promise; the first argument names the shared memory.
    let path = unsafe {
        if argc < 1 {
            return 1;
        }
        CStr::from_ptr(*argv)
    };
    let Some(path) = path.to_bytes_with_nul().strip_prefix(b"ring=") else { return 1 };
    // SAFETY: `path` ends with a nul, as it did before its beginning was cut off.
    let Some(shared) = (unsafe { map_shared(path.as_ptr().cast()) }) else { return 1 };
    // SAFETY: fresh memory for a State, all of whose fields may be zero.
    let state = unsafe {
        let bytes = size_of::<State>();
        let memory = mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
        if memory == MAP_FAILED || madvise(memory, bytes, MADV_WIPEONFORK) != 0 {
            return 1;
        }
        memory.cast::<State>()
    };
    // SAFETY: just mapped, and never unmapped.
    let (state_ref, shared_ref) = unsafe { (&*state, &*shared) };
    if shared_ref.magic.load(Acquire) != wire::MAGIC {
        return 1;
    }
    state_ref.shared.store(shared.cast_mut(), Relaxed);
    STATE.store(state, Release);
    shared_ref.attached.store(1, Release);
    // SAFETY: these are functions of QEMU, called from where it allows them to be.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, on_thread);
        qemu_plugin_register_vcpu_exit_cb(id, on_thread_end);
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
        qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
    0
}

/// # Safety
///
/// `path` ends with a nul.
unsafe fn map_shared(path: *const c_char) -> Option<*const Shared> {
    // SAFETY: the path is the caller's promise; the file is as long as the recorder made it, and the descriptor is
    // closed once.
    unsafe {
        let fd = open(path, O_RDWR | O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let memory = mmap(ptr::null_mut(), wire::SHARED_BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        (memory != MAP_FAILED).then(|| memory.cast_const().cast())
    }
}

fn state() -> &'static State {
    // SAFETY: set before any call-back is registered, never unmapped.
    unsafe { &*STATE.load(Acquire) }
}

/// The writer of a thread; `None` in a forked child, and for a thread that found no slot.
#[inline(always)]
fn writer(vcpu: u32) -> Option<&'static mut Writer> {
    let place = state().writers.get(vcpu as usize)?;
    // SAFETY: null or a leaked box; of a vCPU's call-backs one runs at a time.
    unsafe { place.load(Acquire).as_mut() }
}

unsafe extern "C" fn on_thread(_: PluginId, vcpu: u32) {
    let state = state();
    let shared = state.shared.load(Relaxed);
    let Some(place) = state.writers.get(vcpu as usize) else { return };
    // A number is used again when its thread has ended.
    end_thread(vcpu);
    // SAFETY: null in a forked child; else mapped for good.
    let Some(shared) = (unsafe { shared.as_ref() }) else { return };
    let stream = shared.threads.fetch_add(1, Relaxed);
    // SAFETY: slots lie behind the page of counters, as many as the constant says.
    let slots = unsafe { std::slice::from_raw_parts(ptr::from_ref(shared).add(1).cast::<Slot>(), wire::SLOTS) };
    let free = |slot: &&Slot| slot.state.compare_exchange(wire::FREE, wire::LIVE, Acquire, Relaxed).is_ok();
    let Some(slot) = slots.iter().find(free) else {
        shared.lost_threads.fetch_add(1, Relaxed);
        return;
    };
    slot.position.store(0, Relaxed);
    slot.stream.store(stream, Release);
    let head = slot.head.0.load(Relaxed);
    let writer = Writer {
        slot,
        shared,
        block_begin: 0,
        position: 0,
        accounted: 0,
        recording: false,
        fetches: shared.fetches.load(Relaxed) != 0,
        toggle: shared.skip.load(Relaxed),
        window_begin: 0,
        head,
        tail: head,
        loaded: 0,
        line: u64::MAX,
    };
    place.store(Box::into_raw(Box::new(writer)), Release);
}

unsafe extern "C" fn on_thread_end(_: PluginId, vcpu: u32) {
    end_thread(vcpu);
}

fn end_thread(vcpu: u32) {
    let Some(writer) = writer(vcpu) else { return };
    writer.end();
    // The box is leaked: a call-back of this thread may be on its way.
    state().writers[vcpu as usize].store(ptr::null_mut(), Release);
}

unsafe extern "C" fn on_exit(_: PluginId, _: *mut c_void) {
    let state = state();
    // SAFETY: null in a forked child; else mapped for good.
    let Some(shared) = (unsafe { state.shared.load(Relaxed).as_ref() }) else { return };
    for vcpu in 0..VCPUS as u32 {
        end_thread(vcpu);
    }
    shared.exited.store(1, Release);
}

/// Instructions (bits 0-9), lines of code (10-16), number of the first line (17-63).
fn pack_block(instructions: u64, first_line: u64, lines: u64) -> *mut c_void {
    (instructions.min(1023) | lines.min(127) << 10 | first_line << 17) as *mut c_void
}

/// Index of the instruction in its block (bits 0-15), registers of the address (16-31), registers loaded (32-47).
fn pack_instruction(index: u64, registers: decode::Registers) -> *mut c_void {
    (index | u64::from(registers.address) << 16 | u64::from(registers.loaded) << 32) as *mut c_void
}

unsafe extern "C" fn on_translation(_: PluginId, block: *mut c_void) {
    // SAFETY: QEMU passes a block that is valid during this call; indices are below its number of instructions; an
    // instruction has as many bytes as it says.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        let mut bytes = 0;
        for index in 0..count {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let size = qemu_plugin_insn_size(instruction);
            let code = qemu_plugin_insn_data(instruction);
            let registers = if code.is_null() {
                Default::default()
            } else {
                decode::decode(std::slice::from_raw_parts(code, size))
            };
            bytes += size as u64;
            let data = pack_instruction(index as u64, registers);
            qemu_plugin_register_vcpu_mem_cb(instruction, on_memory, NO_REGISTERS, READS_AND_WRITES, data);
        }
        let begin = qemu_plugin_tb_vaddr(block);
        let lines = (begin + bytes.max(1) - 1) / 64 - begin / 64 + 1;
        let data = pack_block(count as u64, begin / 64, lines);
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, NO_REGISTERS, data);
    }
}

unsafe extern "C" fn on_block(vcpu: u32, data: *mut c_void) {
    let Some(writer) = writer(vcpu) else { return };
    let data = data as u64;
    writer.block_begin = writer.position;
    writer.position += data & 1023;
    // SAFETY: the slot is mapped for good.
    unsafe { &*writer.slot }.position.store(writer.position, Relaxed);
    // SAFETY: mapped for good.
    if unsafe { &*writer.shared }.stop.load(Relaxed) != 0 {
        writer.recording = false;
        return;
    }
    if writer.block_begin >= writer.toggle {
        writer.change();
    }
    if writer.recording && writer.fetches {
        let first = data >> 17;
        (first..first + (data >> 10 & 127)).for_each(|line| writer.fetch(line));
    }
}

unsafe extern "C" fn on_memory(vcpu: u32, info: u32, address: u64, data: *mut c_void) {
    let Some(writer) = writer(vcpu) else { return };
    if writer.recording {
        // SAFETY: functions of QEMU that take the information they are meant for.
        let (shift, store) = unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
        writer.reference(address, shift, store, data as u64);
    }
}

#[rustfmt::skip]
unsafe extern "C" fn on_system_call(
    _: PluginId, _: u32, number: i64, flags: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64,
) {
    const CLONE: i64 = 56;
    const FORK: i64 = 57;
    const VFORK: i64 = 58;
    const EXECVE: i64 = 59;
    const EXECVEAT: i64 = 322;
    const CLONE_THREAD: u64 = 0x10000;
    // SAFETY: null in a forked child; else mapped for good.
    let Some(shared) = (unsafe { state().shared.load(Relaxed).as_ref() }) else { return };
    let counter: &AtomicU32 = match number {
        FORK | VFORK => &shared.forks,
        CLONE if flags & CLONE_THREAD == 0 => &shared.forks,
        EXECVE | EXECVEAT => &shared.execs,
        _ => return,
    };
    counter.fetch_add(1, Relaxed);
}

impl Writer {
    /// Begins or ends a window.
    #[cold]
    fn change(&mut self) {
        // SAFETY: mapped for good.
        let shared = unsafe { &*self.shared };
        if self.recording {
            self.push(self.block_begin, wire::WINDOW_ENDS);
            self.recording = false;
            let period = shared.period.load(Relaxed);
            self.toggle = self.window_begin.saturating_add(period);
        } else {
            // The next window's place, however late the block is: windows do not drift.
            self.window_begin = self.toggle;
            self.toggle = self.window_begin.saturating_add(shared.sample.load(Relaxed));
            self.recording = true;
            self.accounted = self.block_begin;
            self.loaded = 0;
            self.push(self.block_begin, wire::WINDOW_BEGINS);
        }
    }

    fn end(&mut self) {
        // SAFETY: mapped for good.
        let slot = unsafe { &*self.slot };
        if self.recording {
            self.push(self.position, wire::WINDOW_ENDS);
        }
        self.recording = false;
        self.toggle = u64::MAX;
        slot.state.store(wire::ENDED, Release);
    }

    fn fetch(&mut self, line: u64) {
        if line != self.line {
            self.line = line;
            let gap = self.block_begin - self.accounted;
            self.accounted = self.block_begin;
            self.push(line * 64, gap_bits(gap) | 64 << wire::BYTES_SHIFT | 2 << wire::KIND_SHIFT | wire::SHARES);
        }
    }

    #[inline(always)]
    fn reference(&mut self, address: u64, shift: u32, store: bool, data: u64) {
        let before = self.block_begin + (data & 0xffff);
        let mut word = 1 << (wire::BYTES_SHIFT + shift.min(6)) | u64::from(store) << wire::KIND_SHIFT;
        if before < self.accounted {
            word |= wire::SHARES;
        } else {
            word |= gap_bits(before - self.accounted);
            self.accounted = before + 1;
            if (data >> 16) as u16 & self.loaded != 0 {
                word |= wire::DEPENDS;
            }
        }
        if !store {
            self.loaded = (data >> 32) as u16;
        }
        self.push(address, word);
    }

    #[inline(always)]
    fn push(&mut self, first: u64, second: u64) {
        if self.head - self.tail == wire::RING as u64 {
            self.wait();
        }
        // SAFETY: mapped for good.
        let slot = unsafe { &*self.slot };
        let entry = &slot.ring.0[self.head as usize % wire::RING];
        entry[0].store(first, Relaxed);
        entry[1].store(second, Relaxed);
        self.head += 1;
        slot.head.0.store(self.head, Release);
    }

    /// Waits until the recorder has read something. When it is gone or wants no more, nothing is recorded any more.
    #[cold]
    fn wait(&mut self) {
        // SAFETY: both are mapped for good.
        let (slot, shared) = unsafe { (&*self.slot, &*self.shared) };
        let mut rounds = 0u32;
        loop {
            self.tail = slot.tail.0.load(Acquire);
            if self.head - self.tail < wire::RING as u64 {
                return;
            }
            rounds += 1;
            // SAFETY: signal 0 is only a question; the time is on the stack.
            unsafe {
                if rounds.is_multiple_of(4096) && kill(shared.recorder.load(Relaxed) as c_int, 0) != 0 {
                    self.recording = false;
                    self.toggle = u64::MAX;
                    // Nobody reads any more: what is overwritten is nobody's.
                    self.tail = self.head - 1;
                    return;
                }
                nanosleep(&[0, 50_000], ptr::null_mut());
            }
        }
    }
}

/// More than 2^32 instructions without a reference are told as 2^32 - 1.
#[inline(always)]
fn gap_bits(gap: u64) -> u64 {
    gap.min(u64::from(u32::MAX))
}
