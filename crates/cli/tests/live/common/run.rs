//! Starting a program, in color or natively, and ending it for certain.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::machine::{Machine, find_program, scratch};
use super::processes::{Process, alive, kill_descendants, within};
use super::sample::{Colors, Sampler, Samples};
use super::{BANKS, listing};

/// A run that takes longer is killed, and its test fails.
const LIMIT: Duration = Duration::from_secs(1800);
/// So many runs give the sampler a turn.
const RUNS_MAX: usize = 200;
/// How long anything of a run may linger after its end.
const LINGER: Duration = Duration::from_secs(300);

/// A program to be started.
pub(crate) struct Launch<'a> {
    machine: &'a Machine,
    command: Vec<OsString>,
    options: Vec<OsString>,
    platform: PathBuf,
    banks: String,
    colors: Option<Vec<OsString>>,
    input: Vec<u8>,
    interactive: bool,
    sampled: bool,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    available: Option<PathBuf>,
    group: Option<PathBuf>,
}

impl<'a> Launch<'a> {
    /// A program, found in PATH unless it is a path, and its arguments; none where a task's own is to run.
    pub(crate) fn new<W: AsRef<OsStr>>(machine: &'a Machine, command: &[W]) -> Launch<'a> {
        let mut command: Vec<OsString> = command.iter().map(|word| word.as_ref().to_owned()).collect();
        if let Some(first) = command.first_mut()
            && let Some(file) = first.to_str().filter(|name| !name.contains('/')).and_then(find_program)
        {
            *first = file.into();
        }
        Launch {
            machine,
            command,
            options: Vec::new(),
            platform: machine.platform.clone(),
            banks: BANKS.to_owned(),
            colors: None,
            input: Vec::new(),
            interactive: false,
            sampled: false,
            environment: Vec::new(),
            directory: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            available: None,
            group: None,
        }
    }

    /// More options of `memtint run`.
    pub(crate) fn options<W: AsRef<OsStr>>(mut self, options: &[W]) -> Self {
        self.options.extend(options.iter().map(|option| option.as_ref().to_owned()));
        self
    }

    pub(crate) fn banks(mut self, banks: &str) -> Self {
        banks.clone_into(&mut self.banks);
        self
    }

    /// Options that name platform and colors, in the place of those that the suites usually give.
    ///
    /// [`Run::colors`] knows nothing of them: whoever names colors in his own way inspects in his own way.
    pub(crate) fn colors<W: AsRef<OsStr>>(mut self, options: &[W]) -> Self {
        self.colors = Some(options.iter().map(|option| option.as_ref().to_owned()).collect());
        self
    }

    pub(crate) fn platform(mut self, file: &Path) -> Self {
        file.clone_into(&mut self.platform);
        self
    }

    /// What the program reads.
    pub(crate) fn input(mut self, input: &[u8]) -> Self {
        input.clone_into(&mut self.input);
        self
    }

    /// The program reads what [`Run::say`] says.
    pub(crate) fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }

    /// Looks at the pages of all its programs again and again.
    pub(crate) fn sampled(mut self) -> Self {
        self.sampled = true;
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.directory);
        self
    }

    /// Shows the run a machine that has no more than this to give.
    ///
    /// Looking through all memory for frames that are not there takes long on a big machine.
    pub(crate) fn available(mut self, kib: u64) -> Self {
        let file = scratch("meminfo");
        std::fs::write(&file, format!("MemAvailable: {kib} kB\n")).expect("cargo made the directory");
        self.available = Some(file);
        self
    }

    /// Starts it in this cgroup.
    pub(crate) fn group(mut self, directory: &Path) -> Self {
        self.group = Some(directory.to_owned());
        self
    }

    /// Starts the program as it is.
    pub(crate) fn native(self) -> Run<'a> {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        self.start(command, None)
    }

    /// Starts the program with `memtint run`.
    pub(crate) fn colored(self) -> Run<'a> {
        let report = unused_file("report", ".json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        // It is the runtime that these suites are about, whatever the kernel can do.
        command.args(["run", "--floor", "user"]);
        match &self.colors {
            Some(options) => command.args(options),
            None => command.arg("--platform").arg(&self.platform).args(["--banks", &self.banks]),
        };
        command.arg("--report").arg(&report).args(&self.options).arg("--").args(&self.command);
        self.start(command, Some(report))
    }

    fn start(self, mut command: Command, report: Option<PathBuf>) -> Run<'a> {
        command.env("MEMTINT_REGISTRY", registry());
        command.current_dir(&self.directory).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        heed_interrupts(&mut command);
        if let Some(file) = &self.available {
            show_instead(&mut command, c"/proc/meminfo", file);
        }
        if let Some(directory) = &self.group {
            join(&mut command, directory);
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Stream::follow(child.stdout.take().expect("piped"));
        let stderr = Stream::follow(child.stderr.take().expect("piped"));
        let mut input = child.stdin.take();
        if !self.interactive {
            let (mut pipe, text) = (input.take().expect("piped"), self.input.clone());
            // A program need not read all of it.
            std::thread::spawn(move || pipe.write_all(&text));
        }
        let colors = || Colors::new(&self.platform, &self.banks);
        let sampler = self.sampled.then(|| Sampler::start(colors(), child.id()));
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Run {
            machine: self.machine,
            what: words.join(" "),
            deadline: Instant::now() + LIMIT,
            watchdog: Watchdog::start(LIMIT),
            colors: colors(),
            child,
            input,
            stdout,
            stderr,
            report,
            sampler,
        }
    }
}

/// Runs a program in color and samples it, again and again until enough was seen: on a busy machine a short run may end before
/// the sampler gets its turn.
pub(crate) fn sampled_until<'a>(enough: impl Fn(&Samples) -> bool, prepare: impl Fn() -> Launch<'a>) -> Ended {
    let mut seen = Samples::default();
    for _ in 0..RUNS_MAX {
        let mut ended = prepare().sampled().colored().end();
        seen.add(std::mem::take(&mut ended.samples));
        if enough(&seen) || !ended.status.success() {
            ended.samples = seen;
            return ended;
        }
    }
    panic!("{RUNS_MAX} runs, and only {} samples of {} pages at most", seen.count, seen.most_pages)
}

/// A program that runs.
pub(crate) struct Run<'a> {
    #[expect(dead_code, reason = "nothing runs without it")]
    machine: &'a Machine,
    what: String,
    deadline: Instant,
    watchdog: Watchdog,
    /// For [`Colors::inspect`].
    pub(crate) colors: Colors,
    child: Child,
    input: Option<ChildStdin>,
    stdout: Stream,
    stderr: Stream,
    report: Option<PathBuf>,
    sampler: Option<Sampler>,
}

/// A program that has ended.
pub(crate) struct Ended {
    what: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    /// What `stdout` is made of.
    output: Vec<u8>,
    /// Standard error without [`Ended::beginning`].
    pub(crate) stderr: String,
    /// The lines about platform and colors with which a run begins.
    pub(crate) beginning: String,
    /// What `--report` wrote; `Null` for a native run, or when nothing was written.
    pub(crate) report: Value,
    pub(crate) samples: Samples,
}

impl Run<'_> {
    /// The process that was started: for a run in color, `memtint`.
    pub(crate) fn front(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has been looked at so many times.
    pub(crate) fn is_sampled(&self, samples: usize) {
        let sampler = self.sampler.as_ref().expect("it was asked for");
        assert!(within(LIMIT, || sampler.count() >= samples), "{}: only {} samples", self.what, sampler.count());
    }

    /// memtint's own processes and those of the program.
    pub(crate) fn members(&self) -> (Vec<Process>, Vec<Process>) {
        alive().into_iter().partition(Process::is_memtint)
    }

    /// The next whole line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let line = self.stdout.line(self.deadline);
        line.unwrap_or_else(|| {
            panic!("{}: no line; {:?}; standard error: {}", self.what, alive(), text(&self.stderr.so_far()))
        })
    }

    /// The next whole line of standard output; `None` when there is no more.
    pub(crate) fn line_or_end(&mut self) -> Option<String> {
        self.stdout.line(self.deadline)
    }

    /// The process id in the line `READY PID` that is to come next.
    pub(crate) fn ready(&mut self) -> u32 {
        let line = self.line();
        let pid = line.strip_prefix("READY ").and_then(|pid| pid.parse().ok());
        pid.unwrap_or_else(|| panic!("{}: {line:?}; standard error: {}", self.what, text(&self.stderr.so_far())))
    }

    /// Writes to the program's standard input.
    pub(crate) fn say(&mut self, text: &str) {
        let input = self.input.as_mut().expect("an interactive run");
        input.write_all(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.what));
    }

    /// Sends a signal to a process of the run.
    pub(crate) fn signal(&self, pid: u32, signal: i32) {
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "{}: there is no process {pid}", self.what);
    }

    /// Waits for the end, after which nothing of the run may be left.
    pub(crate) fn end(self) -> Ended {
        let what = self.what.clone();
        let ended = self.end_with_survivors();
        let nothing_left = || alive().is_empty();
        assert!(within(LINGER, nothing_left), "{what}: left behind: {:?}", alive());
        ended
    }

    /// Waits for the end of what was started; the program's children may go on.
    pub(crate) fn end_with_survivors(mut self) -> Ended {
        let status = self.child.wait().expect("a child can be waited for");
        let (output, stderr) = (self.stdout.rest(self.deadline), self.stderr.rest(self.deadline));
        let (stdout, stderr) = (text(&output), text(&stderr));
        let (beginning, stderr) = beginning(&stderr);
        let samples = self.sampler.map(Sampler::stop).unwrap_or_default();
        assert!(!self.watchdog.stop(), "{}: took too long; it said {stdout}{stderr}", self.what);
        let found = self.report.and_then(|file| {
            let found = std::fs::read_to_string(&file).ok();
            // It has been read.
            let _ = std::fs::remove_file(&file);
            found
        });
        let report: Value = found.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default();
        if !report.is_null() {
            crate::shared::check("run", &report);
        }
        Ended { what: self.what, status, stdout, output, beginning, stderr, report, samples }
    }
}

impl Ended {
    /// Fails unless the program ended well and nothing was said.
    pub(crate) fn assert_success(&self) {
        assert!(self.status.success(), "{}: {}; {}{}", self.what, self.status, self.stdout, self.stderr);
    }

    /// Fails unless standard output and standard error are the same, byte by byte.
    pub(crate) fn assert_said_the_same_as(&self, other: &Ended) {
        assert_eq!(self.stderr, other.stderr, "{}", self.what);
        let lengths = (self.output.len(), other.output.len());
        assert!(self.output == other.output, "{}: the outputs ({lengths:?} bytes) differ", self.what);
    }

    /// Fails unless every sample had its pages in color, and there were at least so many.
    pub(crate) fn assert_held(&self, samples: usize) {
        let violations: Vec<String> = self.samples.violations.iter().map(listing).collect();
        assert!(violations.is_empty(), "{}: {}", self.what, violations.join("\n"));
        assert!(self.samples.count >= samples, "{}: only {} samples", self.what, self.samples.count);
    }

    /// Sum of a counter over all address spaces of the report.
    pub(crate) fn total(&self, counter: &str) -> u64 {
        let spaces = self.report["address_spaces"].as_array();
        let spaces = spaces.unwrap_or_else(|| panic!("{}: no report; {}", self.what, self.stderr));
        let of = |space: &Value| space[counter].as_u64();
        spaces.iter().map(|space| of(space).unwrap_or_else(|| panic!("no {counter} in {space}"))).sum()
    }

    /// What the report says could not be colored.
    pub(crate) fn problems(&self) -> Vec<&str> {
        self.report["problems"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Fails unless the report says that every page was in color and nothing went wrong.
    pub(crate) fn assert_clean_report(&self) {
        assert_eq!(self.problems(), [""; 0], "{}", self.what);
        for counter in ["pages_out_of_color", "pages_refused"] {
            assert_eq!(self.total(counter), 0, "{}: {counter}: {}", self.what, self.report);
        }
    }
}

/// The registry of the suites' runs: what runs on this machine besides must not meet them.
pub(crate) fn registry() -> PathBuf {
    scratch("registry")
}

/// Standard error of a run: the lines about platform and colors with which it begins, and the rest.
pub(crate) fn beginning(stderr: &str) -> (String, String) {
    let about = |line: &&str| {
        line.starts_with("memtint: platform ")
            || (line.starts_with("memtint: ") && line.contains(" of this machine's memory"))
    };
    let length = stderr.split_inclusive('\n').take_while(about).map(str::len).sum();
    let (beginning, rest) = stderr.split_at(length);
    (beginning.to_owned(), rest.to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a program that must succeed, given its standard input.
pub(crate) fn pipe(command: &mut Command, input: &[u8]) -> Vec<u8> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (mut stdin, input) = (child.stdin.take().expect("piped"), input.to_vec());
    // It need not read all of it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("a child can be waited for");
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    let _ = writer.join();
    output.stdout
}

/// Has a program begin with the interrupts that a shell in the foreground gives it.
///
/// Tests may run in the background of a script, where both are ignored, and remain so in whatever is executed.
fn heed_interrupts(command: &mut Command) {
    // SAFETY: system calls between fork and exec, without pointers.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT] {
                if libc::signal(signal, libc::SIG_DFL) == libc::SIG_ERR {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Has a program begin in a cgroup.
fn join(command: &mut Command, directory: &Path) {
    let processes = File::options().write(true).open(directory.join("cgroup.procs")).expect("a cgroup");
    // SAFETY: one system call between fork and exec, on a descriptor that the closure owns; 0 is the caller.
    unsafe {
        command.pre_exec(move || (&processes).write_all(b"0"));
    }
}

/// Has a program see one file in the place of another.
fn show_instead(command: &mut Command, place: &'static CStr, file: &Path) {
    let file = CString::new(file.as_os_str().as_encoded_bytes()).expect("no path holds a zero byte");
    let recursive = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: only system calls between fork and exec, with C strings that the closure owns; the mount namespace is
    // the new program's own.
    unsafe {
        command.pre_exec(move || {
            let done = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), recursive, std::ptr::null()) == 0
                && libc::mount(file.as_ptr(), place.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

/// No two runs of this process write the same file, even at the same time.
fn unused_file(stem: &str, extension: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut numbers = std::iter::repeat_with(|| NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut files = numbers.by_ref().map(|number| scratch(&format!("{stem}{number}{extension}")));
    files.find(|path| !path.exists()).expect("endless")
}

/// What a pipe has brought so far.
struct Stream {
    shared: Arc<(Mutex<Held>, Condvar)>,
    taken: usize,
}

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    ended: bool,
}

impl Stream {
    fn follow(mut pipe: impl Read + Send + 'static) -> Stream {
        let shared = Arc::new((Mutex::new(Held::default()), Condvar::new()));
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut held = ours.0.lock().expect("nobody panics with it");
                held.bytes.extend_from_slice(&buffer[..count]);
                held.ended = count == 0;
                ours.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Stream { shared, taken: 0 }
    }

    /// Waits until `find` finds something in what is new, the pipe is closed or time is up.
    fn wait<T>(&self, deadline: Instant, find: impl Fn(&Held) -> Option<T>) -> Option<T> {
        let mut held = self.shared.0.lock().expect("nobody panics with it");
        loop {
            let found = find(&held);
            if found.is_some() || held.ended || Instant::now() >= deadline {
                return found;
            }
            held = self.shared.1.wait_timeout(held, Duration::from_millis(100)).expect("nobody panics with it").0;
        }
    }

    fn line(&mut self, deadline: Instant) -> Option<String> {
        let from = self.taken;
        let line = self.wait(deadline, |held| {
            let new = &held.bytes[from..];
            let end = new.iter().position(|&byte| byte == b'\n')?;
            Some(new[..end].to_vec())
        })?;
        self.taken += line.len() + 1;
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Everything that was not taken as a line, once the pipe is closed.
    fn rest(&self, deadline: Instant) -> Vec<u8> {
        self.wait(deadline, |held| held.ended.then_some(()));
        self.so_far()
    }

    fn so_far(&self) -> Vec<u8> {
        self.shared.0.lock().expect("nobody panics with it").bytes[self.taken..].to_vec()
    }
}

/// Kills everything below this process when time is up.
struct Watchdog {
    /// Dropped to stop it.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    fn start(limit: Duration) -> Watchdog {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let late = stopped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if late {
                kill_descendants();
            }
            late
        });
        Watchdog { stop: Some(stop), thread: Some(thread) }
    }

    /// Whether it had to kill.
    fn stop(&mut self) -> bool {
        self.stop = None;
        self.thread.take().is_some_and(|thread| thread.join().expect("the watchdog does not panic"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // It must not meet the next run.
        self.stop();
    }
}
