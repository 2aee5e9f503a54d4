//! Starts a measured program, takes its time, and never waits for it longer than allowed.
//!
//! `memtint run` leaves two processes behind for a moment, supervisor and broker. [`adopt_orphans`] makes them children
//! of the bench once their parents are gone, so that their processor time and memory are counted too.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Output kept as text; all of it is hashed.
const KEPT_BYTES: usize = 1 << 20;
/// How long processes may outlive the program that they belong to.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// When the supervisor's memory is looked at first.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// What a process used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Time in the program's own code.
    pub(super) user: Duration,
    /// Time in the kernel.
    pub(super) system: Duration,
    /// Largest resident set.
    pub(super) max_rss_kib: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Self {
        let time = |value: libc::timeval| {
            Duration::from_secs(value.tv_sec.unsigned_abs()) + Duration::from_micros(value.tv_usec.unsigned_abs())
        };
        let (user, system) = (time(usage.ru_utime), time(usage.ru_stime));
        Usage { user, system, max_rss_kib: usage.ru_maxrss.unsigned_abs() }
    }

    pub(super) fn cpu(self) -> Duration {
        self.user + self.system
    }

    /// Times add up; of the resident sets the largest counts.
    fn join(self, other: Usage) -> Usage {
        Usage {
            user: self.user + other.user,
            system: self.system + other.system,
            max_rss_kib: self.max_rss_kib.max(other.max_rss_kib),
        }
    }
}

/// What the processes used that a colored program needs beside itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entourage {
    pub(super) supervisor: Usage,
    pub(super) broker: Usage,
    /// Helpers share the program's memory: only their time counts.
    pub(super) helpers: Usage,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// From just before its start to its end.
    pub(super) wall: Duration,
    /// The program (a colored one with the front of `memtint run`).
    pub(super) usage: Usage,
    pub(super) entourage: Entourage,
    pub(super) output: Output,
    /// Largest resident set of the supervisor that was seen now and then; `None` when it was never seen.
    pub(super) supervisor_rss_kib: Option<u64>,
}

impl Entourage {
    /// Processor time of all of them.
    pub(super) fn cpu(&self) -> Duration {
        self.supervisor.cpu() + self.broker.cpu() + self.helpers.cpu()
    }
}

/// Standard output of a program.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Its beginning.
    pub(super) text: Vec<u8>,
    /// Of all bytes.
    pub(super) hash: u64,
    /// When how many bytes had come in total, one entry for each read.
    pub(super) marks: Vec<(Duration, u64)>,
}

impl Output {
    /// Bytes in total.
    pub(super) fn bytes(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.1)
    }

    /// Time from the first read that reached this share of all bytes to the last read; `None` when nothing came.
    pub(super) fn time_from(&self, share: f64) -> Option<Duration> {
        let goal = self.bytes() as f64 * share;
        let from = self.marks.iter().find(|mark| mark.1 as f64 >= goal)?;
        Some(self.marks.last()?.0 - from.0)
    }
}

/// Why a program gave no figures.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("did not end within {} s and was killed", .0.as_secs())]
    Hung(Duration),
    #[error("cannot be waited for: {0}")]
    Wait(io::Error),
}

/// Makes this process the parent of descendants whose own parent has ended.
pub(super) fn adopt_orphans() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Processor time of this process and of all that it has waited for.
pub(super) fn own_time() -> Duration {
    let time = |who| {
        // SAFETY: rusage is plain data for which all zeros is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is valid for the call.
        unsafe { libc::getrusage(who, &raw mut usage) };
        Usage::of(&usage).cpu()
    };
    time(libc::RUSAGE_SELF) + time(libc::RUSAGE_CHILDREN)
}

/// A program under way. Dropped, it is killed and nothing of it is left.
pub(super) struct Running {
    child: Child,
    started: Instant,
    pidfd: OwnedFd,
    stdout: Option<ChildStdout>,
    reading: Reading,
    reaped: bool,
    supervisor_rss_kib: Option<u64>,
}

#[derive(Default)]
struct Reading {
    output: Output,
    hasher: DefaultHasher,
    bytes: u64,
}

impl Running {
    /// Starts a program; its standard output comes to the bench. It dies with the bench.
    pub(super) fn start(mut command: Command) -> Result<Running, ChildError> {
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
        // SAFETY: takes numbers; the child has not been waited for, so the number is its own.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        let pidfd = i32::try_from(pidfd).unwrap_or(-1);
        if pidfd < 0 {
            let error = io::Error::last_os_error();
            let _ = child.kill();
            let _ = child.wait();
            return Err(ChildError::Wait(error));
        }
        // SAFETY: the kernel has just made this descriptor and nobody else knows it.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let stdout = child.stdout.take();
        if let Some(stdout) = &stdout {
            // SAFETY: takes numbers; the descriptor is open and is the bench's end of the pipe only.
            unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        Ok(Running {
            child,
            started,
            pidfd,
            stdout,
            reading: Reading::default(),
            reaped: false,
            supervisor_rss_kib: None,
        })
    }

    /// Waits for the end of the program and of what belongs to it; kills both when `limit` is over. No other child
    /// may be under way: it would be taken for an orphan.
    pub(super) fn finish(self, limit: Duration) -> Result<Ended, ChildError> {
        let mut ended = self.finish_alone(limit)?;
        ended.entourage = reap_orphans(AFTERLIFE);
        Ok(ended)
    }

    /// Waits for the end of the program only.
    pub(super) fn finish_alone(mut self, limit: Duration) -> Result<Ended, ChildError> {
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
        // Ever more rarely, so as not to disturb what is measured.
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
            // SAFETY: the array is valid for the call and as long as said; negative descriptors are skipped.
            unsafe { libc::poll(entries.as_mut_ptr(), 2, wait) };
            if entries[0].revents != 0 {
                return Some(self.started.elapsed());
            }
            if entries[1].revents != 0 {
                self.read();
            }
        }
    }

    /// Notes the resident set of the supervisor, if there is one. What the kernel says about it when it has ended
    /// includes the helpers that it waited for, and so the program.
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

    /// Takes what is in the pipe now.
    fn read(&mut self) {
        let mut buffer = [0u8; 1 << 16];
        while let Some(stdout) = &mut self.stdout {
            match stdout.read(&mut buffer) {
                Ok(0) => self.stdout = None,
                Ok(count) => self.reading.take(&buffer[..count], self.started.elapsed()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.stdout = None,
            }
        }
    }
}

impl Reading {
    fn take(&mut self, bytes: &[u8], when: Duration) {
        self.hasher.write(bytes);
        self.bytes += bytes.len() as u64;
        self.output.marks.push((when, self.bytes));
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

/// Takes the end of a child, if it has ended.
fn reap(pid: i32) -> Option<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: rusage is plain data for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let found = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG | libc::__WALL, &raw mut usage) };
    (found == pid).then(|| (ExitStatus::from_raw(status), Usage::of(&usage)))
}

/// Takes the ends of all children that are left, and kills those that stay longer than `patience`.
fn reap_orphans(patience: Duration) -> Entourage {
    let mut entourage = Entourage::default();
    let mut deadline = Instant::now() + patience;
    let mut killed = false;
    loop {
        match next_ended() {
            Next::NoChildren => return entourage,
            Next::Ended(pid) => {
                let session = session_of(pid);
                let Some((_, usage)) = reap(pid) else { continue };
                // The supervisor leads a session of its own, and the broker is in it.
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
                deadline = Instant::now() + patience;
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
    // Behind the name: state, parent, process group, session.
    stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}

fn same_session(session: i32) -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getsid(0) == session }
}

fn kill_children() {
    let list = std::fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id())).unwrap_or_default();
    for pid in list.split_whitespace().filter_map(|word| word.parse().ok()) {
        // SAFETY: takes numbers; these are unreaped children of this process, so the numbers are their own.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Ended, ChildError> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(command)?.finish(limit)
    }

    /// One test: each bench takes the end of every child of its process.
    #[test]
    fn output_is_kept_and_timed_and_what_hangs_is_killed() {
        let ended = shell("echo one; sleep 0.05; echo two; exit 3", Duration::from_secs(10)).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(ended.output.text, b"one\ntwo\n");
        assert!(ended.output.time_from(0.0).unwrap() >= Duration::from_millis(40));
        assert!(ended.wall >= Duration::from_millis(50));

        let before = Instant::now();
        let error = shell("sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, ChildError::Hung(_)));
        assert!(before.elapsed() < Duration::from_secs(20));
    }
}
