//! Starts and times a measured program, with a limit on waiting.
//!
//! `memtint run` briefly leaves two processes behind, the supervisor and the broker. [`adopt_orphans`] makes them
//! children of the bench when their parents end, so that their CPU time and memory are counted too.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Output kept as text; all of it is hashed.
const KEPT_BYTES: usize = 1 << 20;
/// How long the processes of a program may outlive it.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// Time of the first reading of the supervisor's memory.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// Resources that a process used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in kernel mode.
    pub system: Duration,
    /// Largest resident set.
    pub max_rss_kib: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Self {
        let time = |value: libc::timeval| {
            Duration::from_secs(value.tv_sec.unsigned_abs()) + Duration::from_micros(value.tv_usec.unsigned_abs())
        };
        let (user, system) = (time(usage.ru_utime), time(usage.ru_stime));
        Usage { user, system, max_rss_kib: usage.ru_maxrss.unsigned_abs() }
    }

    /// Returns the sum of both times.
    pub fn cpu(self) -> Duration {
        self.user + self.system
    }

    /// Adds times, and takes the larger resident set.
    fn join(self, other: Usage) -> Usage {
        Usage {
            user: self.user + other.user,
            system: self.system + other.system,
            max_rss_kib: self.max_rss_kib.max(other.max_rss_kib),
        }
    }
}

/// Resources of the processes that a colored program needs besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entourage {
    /// The supervisor process.
    pub supervisor: Usage,
    /// The broker process, which finds frames.
    pub broker: Usage,
    /// Helpers share the program's memory: only their time counts.
    pub helpers: Usage,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// From just before its start to its end.
    pub wall: Duration,
    /// The program; a colored one includes the front process of `memtint run`.
    pub usage: Usage,
    /// Its supervisor, broker and helpers.
    pub entourage: Entourage,
    /// Its output.
    pub output: Output,
    /// Largest sampled resident set of the supervisor; `None` without a sample.
    pub supervisor_rss_kib: Option<u64>,
}

impl Entourage {
    /// CPU time of all of them.
    pub fn cpu(&self) -> Duration {
        self.supervisor.cpu() + self.broker.cpu() + self.helpers.cpu()
    }
}

/// Standard output of a program.
#[derive(Debug, Default)]
pub struct Output {
    /// Its beginning.
    pub text: Vec<u8>,
    /// Hash of all bytes.
    pub hash: u64,
    /// Number of bytes.
    bytes: u64,
}

impl Output {
    fn has_reached(&self, mark: Mark) -> bool {
        match mark {
            Mark::Line(line) => self
                .text
                .split_inclusive(|&byte| byte == b'\n')
                .any(|found| found.strip_suffix(b"\n") == Some(line.as_bytes())),
            Mark::Bytes(bytes) => self.bytes >= bytes,
            Mark::End => false,
        }
    }
}

/// A place in the output of a program.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// After this line, which must be in the first MiB.
    Line(&'static str),
    /// After this many bytes.
    Bytes(u64),
    /// Its end.
    End,
}

/// The reason why a run gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program does not exist, or resources are exhausted.
    #[error("cannot be started: {0}")]
    Start(io::Error),
    /// It took too long.
    #[error("did not end within {} s and was killed", .0.as_secs())]
    Hung(Duration),
    /// It ended before the measured part.
    #[error("ended its output before {0:?}")]
    Short(Mark),
    /// The kernel does not return its exit status.
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
}

/// Makes this process the parent of orphaned descendants.
pub fn adopt_orphans() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// CPU time of this process and of all children it has waited for.
pub fn own_time() -> Duration {
    let time = |who| {
        // SAFETY: rusage is plain data for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid for the call.
        unsafe { libc::getrusage(who, &raw mut usage) };
        Usage::of(&usage).cpu()
    };
    time(libc::RUSAGE_SELF) + time(libc::RUSAGE_CHILDREN)
}

/// CPU time of this thread, in seconds.
///
/// # Panics
///
/// Never: this thread has a clock.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists since Linux 2.6.12, and the pointer is to a timespec of ours.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "this thread has a clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A running program. Dropping it kills the program and all its processes.
pub struct Running {
    child: Child,
    started: Instant,
    pidfd: OwnedFd,
    /// The program itself, once [`Running::program`] was called.
    program: Option<OwnedFd>,
    stdout: Option<ChildStdout>,
    reading: Reading,
    reaped: bool,
    supervisor_rss_kib: Option<u64>,
}

#[derive(Default)]
struct Reading {
    output: Output,
    hasher: DefaultHasher,
}

impl Running {
    /// Starts a program with its standard output piped to the bench. It is killed when the bench ends.
    pub fn start(mut command: Command) -> Result<Running, ChildError> {
        command.stdout(Stdio::piped());
        // SAFETY: the closure runs between fork and exec and makes one system call that takes numbers.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let started = Instant::now();
        let mut child = command.spawn().map_err(ChildError::Start)?;
        let pidfd = match open_process(child.id().cast_signed()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(ChildError::Wait(error));
            }
        };
        let stdout = child.stdout.take();
        if let Some(stdout) = &stdout {
            // SAFETY: takes numbers; the descriptor is open and is the bench's end of the pipe only.
            unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Ok(Running {
            child,
            started,
            pidfd,
            program: None,
            stdout,
            reading: Reading::default(),
            reaped: false,
            supervisor_rss_kib: None,
        })
    }

    /// Waits for the end of the program, and kills it after `limit`. Its supervisor, broker and helpers are left to
    /// [`finish_entourage`].
    pub fn finish_alone(mut self, limit: Duration) -> Result<Ended, ChildError> {
        let Some(wall) = self.watch(limit) else { return Err(ChildError::Hung(limit)) };
        let (status, usage) =
            reap(self.child.id().cast_signed()).ok_or_else(|| ChildError::Wait(io::Error::last_os_error()))?;
        self.reaped = true;
        self.read();
        let supervisor_rss_kib = self.supervisor_rss_kib;
        let mut output = std::mem::take(&mut self.reading.output);
        output.hash = self.reading.hasher.finish();
        Ok(Ended { status, wall, usage, entourage: Entourage::default(), output, supervisor_rss_kib })
    }

    /// Reads until the program ends; `None` when it does not end in time.
    fn watch(&mut self, limit: Duration) -> Option<Duration> {
        // At growing intervals, so as not to disturb the measurement.
        let mut next_look = FIRST_LOOK;
        loop {
            let left = limit.checked_sub(self.started.elapsed())?;
            if self.started.elapsed() >= next_look {
                next_look = self.started.elapsed() * 2;
                self.look_at_supervisor();
            }
            let left = left.min(next_look.saturating_sub(self.started.elapsed()));
            let stdout = self.stdout.as_ref().map_or(-1, |stdout| stdout.as_raw_fd());
            let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let mut entries = [entry(self.pidfd.as_raw_fd()), entry(stdout)];
            let wait = i32::try_from(left.as_millis()).unwrap_or(i32::MAX).saturating_add(1);
            // SAFETY: the array is valid for the call and has the given length; negative descriptors are skipped.
            unsafe { libc::poll(entries.as_mut_ptr(), 2, wait) };
            if entries[0].revents != 0 {
                return Some(self.started.elapsed());
            }
            if entries[1].revents != 0 {
                self.read();
            }
        }
    }

    /// Samples the resident set of the supervisor, if there is one. After its end, the kernel's figure includes the
    /// helpers that it waited for, and thereby the program.
    fn look_at_supervisor(&mut self) {
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let mut children = children.split_whitespace().filter_map(|word| word.parse().ok());
        let Some(supervisor) = children.find(|&child: &i32| session_of(child) == Some(child)) else { return };
        let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap_or_default();
        let peak =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        self.supervisor_rss_kib = self.supervisor_rss_kib.max(peak);
    }

    /// Reads everything that is in the pipe now.
    fn read(&mut self) {
        while self.read_once() {}
    }

    /// Reads one piece of what is in the pipe now; returns whether there was any.
    fn read_once(&mut self) -> bool {
        let mut buffer = [0u8; 1 << 16];
        let Some(stdout) = &mut self.stdout else { return false };
        match stdout.read(&mut buffer) {
            Ok(0) => self.stdout = None,
            Ok(count) => self.reading.take(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => self.stdout = None,
        }
        true
    }

    /// Reads until the output reaches a mark, for at most `limit`; returns whether it did.
    pub fn reads_to(&mut self, mark: Mark, limit: Duration) -> Result<bool, ChildError> {
        let until = Instant::now() + limit;
        loop {
            match (&self.stdout, mark) {
                (None, Mark::End) => return Ok(true),
                _ if self.reading.output.has_reached(mark) => return Ok(true),
                (None, _) => return Err(ChildError::Short(mark)),
                (Some(stdout), _) => {
                    let left = until.saturating_duration_since(Instant::now());
                    let program = self.program.as_ref().map_or(-1, |program| program.as_raw_fd());
                    let [output, ended] = wait_for([stdout.as_raw_fd(), program], left);
                    // The front of `memtint run` holds the output open while it is stopped.
                    if ended && !output && matches!(mark, Mark::End) {
                        return Ok(true);
                    }
                    if left.is_zero() {
                        return Ok(false);
                    }
                }
            }
            self.read_once();
        }
    }

    /// Returns whether the program ends within `limit`.
    pub fn ends_within(&self, limit: Duration) -> bool {
        wait_for([self.pidfd.as_raw_fd(), -1], limit)[0]
    }

    /// Continues a program stopped by [`Program::halt`], and the front process of `memtint run`, which stops with its
    /// program.
    pub fn go_on(&self, program: Program) {
        program.go();
        Program(self.child.id().cast_signed()).go();
    }

    /// Returns the program itself; with `memtint run`, the child that does not lead a session.
    pub fn program(&mut self, colored: bool) -> Option<Program> {
        let front = self.child.id().cast_signed();
        let pid = if colored {
            let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).ok()?;
            let mut children = children.split_whitespace().filter_map(|word| word.parse().ok());
            children.find(|&child: &i32| session_of(child) != Some(child))?
        } else {
            front
        };
        self.program = Some(open_process(pid).ok()?);
        Some(Program(pid))
    }
}

impl Reading {
    fn take(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.output.bytes += bytes.len() as u64;
        let room = KEPT_BYTES - self.output.text.len().min(KEPT_BYTES);
        self.output.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.kill();
            // Bounded: a process that does not even die must not hang the bench.
            let until = Instant::now() + AFTERLIFE;
            while reap(self.child.id().cast_signed()).is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            reap_orphans(AFTERLIFE);
        }
    }
}

/// A process that can be stopped and continued. It has not been waited for, so its PID is not reused.
#[derive(Clone, Copy, Debug)]
pub struct Program(i32);

impl Program {
    /// Stops it.
    pub fn halt(self) {
        self.signal(libc::SIGSTOP);
    }

    /// Continues it.
    pub fn go(self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(self, signal: i32) {
        // SAFETY: takes numbers.
        unsafe { libc::kill(self.0, signal) };
    }

    /// CPU time of all its live threads; `None` when the kernel does not report it.
    pub fn cpu(self) -> Option<Duration> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0)).ok()?;
        let of = |thread: io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        };
        threads.map(of).sum()
    }
}

/// Opens a descriptor that becomes readable when the process ends. The process must not have been waited for.
fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just created this descriptor, so nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits until one of two descriptors is readable, for at most `limit`; returns which are. Negative ones are skipped.
fn wait_for(descriptors: [i32; 2], limit: Duration) -> [bool; 2] {
    let mut entries = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time = libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: two entries and one time, valid for the call.
    unsafe { libc::ppoll(entries.as_mut_ptr(), 2, &raw const time, std::ptr::null()) };
    entries.map(|entry| entry.revents != 0)
}

/// Waits for the processes that ended programs left behind. No other child may be running.
pub fn finish_entourage() -> Entourage {
    reap_orphans(AFTERLIFE)
}

/// Reaps a child, if it has ended.
fn reap(pid: i32) -> Option<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let found = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
    (found == pid).then(|| (ExitStatus::from_raw(status), Usage::of(&usage)))
}

/// Reaps all remaining children, and kills those that run longer than `timeout`.
fn reap_orphans(timeout: Duration) -> Entourage {
    let mut entourage = Entourage::default();
    let mut deadline = Instant::now() + timeout;
    let mut killed = false;
    loop {
        match next_ended() {
            Next::NoChildren => return entourage,
            Next::Ended(pid) => {
                let session = session_of(pid);
                let Some((_, usage)) = reap(pid) else { continue };
                // The supervisor leads a separate session, which the broker is in.
                let place = match session {
                    Some(session) if session == pid => &mut entourage.supervisor,
                    Some(session) if !same_session(session) => &mut entourage.broker,
                    _ => &mut entourage.helpers,
                };
                *place = place.join(usage);
            }
            Next::AllRunning if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(500)),
            Next::AllRunning if killed => return entourage,
            Next::AllRunning => {
                kill_children();
                killed = true;
                deadline = Instant::now() + timeout;
            }
        }
    }
}

enum Next {
    NoChildren,
    AllRunning,
    Ended(i32),
}

/// A child that has ended, left for [`reap`].
fn next_ended() -> Next {
    // SAFETY: siginfo_t is plain data for which all zeros is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the pointer is valid for the call.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
    if result != 0 {
        return Next::NoChildren;
    }
    // SAFETY: waitid has filled the structure in as for SIGCHLD, or left it zero.
    match unsafe { info.si_pid() } {
        0 => Next::AllRunning,
        pid => Next::Ended(pid),
    }
}

fn session_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name: state, parent, process group, session.
    stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}

fn same_session(session: i32) -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getsid(0) == session }
}

fn kill_children() {
    let list = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or_default();
    for pid in list.split_whitespace().filter_map(|word| word.parse().ok()) {
        // SAFETY: takes numbers; these are unreaped children of this process, so their PIDs are not reused.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for anything that is certain to happen, even on a busy machine.
    const LONG: Duration = Duration::from_secs(3600);

    fn shell(script: &str, limit: Duration) -> Result<Ended, ChildError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(command)?.finish_alone(limit)
    }

    /// A single test, because a bench reaps every child of its process.
    #[test]
    fn output_is_kept_and_what_hangs_is_killed_and_a_stopped_program_waits() {
        adopt_orphans();
        let ended = shell("echo one; sleep 0.05; echo two; exit 3", LONG).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.output.text, b"one\ntwo\n");
        assert!(ended.wall >= Duration::from_millis(50));

        let before = Instant::now();
        // The shell's child must end with it.
        let forever = format!("sleep 7200{}", std::process::id());
        let error = shell(&format!("{forever}; true"), Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, ChildError::Hung(_)));
        assert!(before.elapsed() < LONG, "it was waited for");
        let named = forever.replace(' ', "\0") + "\0";
        let processes = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
        assert_eq!(processes.filter(|line| *line == named.as_bytes()).count(), 0, "left running");

        let mut command = Command::new("sh");
        command.args(["-c", "echo begin; while read line; do :; done </dev/zero; echo never"]);
        let mut running = Running::start(command).unwrap();
        let second = Duration::from_secs(1);
        assert!(running.reads_to(Mark::Bytes(3), LONG).unwrap());
        assert!(running.reads_to(Mark::Line("begin"), LONG).unwrap());
        assert!(!running.reads_to(Mark::Line("beg"), second / 100).unwrap());
        assert!(!running.reads_to(Mark::End, second / 100).unwrap());
        let program = running.program(false).unwrap();
        program.halt();
        // On a busy machine, stopping it may take long.
        let until = Instant::now() + LONG;
        let mut stopped = program.cpu().unwrap();
        loop {
            std::thread::sleep(second / 10);
            let now = program.cpu().unwrap();
            if now == stopped {
                break;
            }
            assert!(Instant::now() < until, "it does not stop");
            stopped = now;
        }
        running.go_on(program);
        let until = Instant::now() + LONG;
        while program.cpu().unwrap() == stopped {
            assert!(Instant::now() < until, "it does not go on");
        }
        assert!(!running.ends_within(second / 100));
        drop(running);
        let ended = shell("echo end", LONG).unwrap();
        assert!(!ended.output.has_reached(Mark::Line("begin")));
    }
}
