//! The front: the process the user started and waits for. It looks like the program: same status, same signals, same
//! terminal.

use crate::broker::{Broker, Search, listed};
use crate::compaction::{self, Pause};
use crate::kernel::{self, KernelOptions};
use crate::memory::MemoryLimits;
use crate::report::RunReport;
use crate::service_manager::ServiceManager;
use crate::space::{Settings, Supply};
use crate::supervisor::{Channels, Supervisor, word};
use crate::sys::{self, Pid};
use crate::wire::{self, Nodes};
use crate::{FrameChoice, RunError, filter};
use std::ffi::{CStr, CString, OsString};
use std::io::{self, Seek as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What to run, and how.
pub struct RunOptions {
    /// Program and arguments; the program is searched for in PATH.
    pub command: Vec<OsString>,
    /// Frames the program may live in.
    pub choice: Box<dyn FrameChoice>,
    /// Refuse the program a page rather than give it one out of color.
    pub strict: bool,
    /// CPUs to run on; None = those of the caller.
    pub cores: Option<Vec<u32>>,
    /// Group of cgroup v2 to run in, by its folder; None = that of the caller.
    pub cgroup: Option<PathBuf>,
    /// User to run the program as.
    pub user: Option<String>,
    /// The backend that enforces the colors.
    pub floor: Floor,
    /// Called once with the process id of the future program, right after the process has been created.
    pub started: Option<Box<dyn Fn(i32)>>,
    /// Called once with the program's process id when it has ended, before that id can be reused.
    pub ended: Option<Box<dyn Fn(i32)>>,
}

/// The backend that enforces a program's colors.
pub enum Floor {
    /// A runtime beside the program, on a stock kernel.
    User {
        /// Bytes to have in place before `main`.
        prefault_bytes: u64,
        /// Color the processes that the program starts, too.
        children: bool,
        /// Copy every writable private file mapping into color, not only programs and libraries. Copies do not show later writes
        /// to the file.
        copy_files: bool,
        /// Most memory that a search for frames holds at a time, in bytes.
        search_bytes: u64,
    },
    /// Linux itself, for the program and all its descendants.
    Kernel(KernelOptions),
}

/// How the program ended, and the report about its pages.
pub struct RunStatus {
    /// Exit status, or 128 + signal number.
    pub code: i32,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// The kernel has written a core file.
    pub core_dumped: bool,
    /// None when the supervisor was lost; the kernel floor always has one.
    pub report: Option<RunReport>,
}

impl RunStatus {
    /// Ends this process as the program ended: by the same signal, or with the returned status. Before a signal, the limit of core files
    /// and the mounts of this process may change.
    #[must_use]
    pub fn end_like(&self) -> ExitCode {
        if let Some(signal) = self.signal {
            // The program has written its core file, if any. A parent is notified of a core dump only if there is one: this process writes
            // another core file where it vanishes with the process, or none.
            let core_bytes = if self.core_dumped && sys::hide_core_files() { 1 << 16 } else { 0 };
            sys::end_by(signal, core_bytes);
        }
        ExitCode::from(u8::try_from(self.code).unwrap_or(OWN_FAILURE as u8))
    }
}

/// Exit status of the launcher when the program could not be started.
const CANNOT_EXECUTE: i32 = 126;
/// Exit status of the launcher when there is no such program.
const NOT_FOUND: i32 = 127;
/// Exit status when memtint itself fails.
const OWN_FAILURE: i32 = 125;

/// How long a supervisor without a program may take to end.
const SUPERVISOR_ENDS: Duration = Duration::from_secs(5);
/// How long the program may run without a supervisor: it ends by itself if it has not begun.
const ORPHANED_MS: i32 = 1000;

/// Runs a program in color and waits for its end.
///
/// Must be called while the process has a single thread: it forks. Lines for the user go to `tell` as they come. The forwarded signals
/// (SIGINT, SIGTERM and others) stay blocked in this thread.
///
/// # Errors
/// [`RunError`] when the run could not begin; a program that cannot be executed is a [`RunStatus`] with code 126 or 127 as
/// shells have it.
///
/// # Panics
/// When [`KernelOptions::mappings`] is empty.
pub fn run(options: RunOptions, mut tell: impl FnMut(&str)) -> Result<RunStatus, RunError> {
    if options.user.is_none() && sys::Status::of(0).bits("CapAmb") != 0 {
        tell("the program inherits memtint's ambient capabilities; with --user it runs without them");
    }
    match &options.floor {
        &Floor::User { prefault_bytes, children, copy_files, search_bytes } => {
            let amounts = Amounts { prefault_bytes, children, copy_files, search_pages: search_bytes / wire::PAGE };
            run_beside(options, &amounts, &mut tell)
        }
        Floor::Kernel(asked) => kernel::run(&options, asked, &mut tell),
    }
}

/// [`Floor::User`].
struct Amounts {
    prefault_bytes: u64,
    children: bool,
    copy_files: bool,
    search_pages: u64,
}

/// Runs it with the userspace runtime.
fn run_beside(options: RunOptions, amounts: &Amounts, tell: &mut impl FnMut(&str)) -> Result<RunStatus, RunError> {
    check_privileges()?;
    let (front, supervisor_front) = sys::message_pair()?;
    let (launcher, supervisor_launcher) = sys::message_pair()?;
    let identity = options.user.as_deref().map(Identity::find).transpose()?;
    let nodes = nodes(&*options.choice)?;
    let memory = MemoryLimits::of_this_process();
    let kills = memory.kills();
    let settings = Settings {
        strict: options.strict,
        prefault_pages: amounts.prefault_bytes.div_ceil(wire::PAGE),
        children: amounts.children,
        copy_files: amounts.copy_files,
        lane: identity.is_none(),
        hold_max: amounts.search_pages.min(memory.room(None) / 2),
        nodes,
    };
    // Helpers, whose parents end at once, become children of this process: it reaps them, regardless of process 1.
    sys::adopt_orphans();
    let supervisor = sys::fork()?;
    if supervisor == 0 {
        drop((front, launcher));
        supervise(settings, options.choice, amounts.search_pages, supervisor_front, &supervisor_launcher);
    }
    drop((supervisor_front, supervisor_launcher));
    let program = sys::fork()?;
    if program == 0 {
        drop(front);
        if nodes != Nodes::default() {
            sys::take_memory_first_from(&nodes);
        }
        launch(&options, identity.as_ref(), &launcher);
    }
    drop(launcher);
    options.started.iter().for_each(|started| started(program));
    sys::be_killed_for_memory(-1000);
    let mut status = Watch::begin(Some(&front))?.wait_for(program, options.ended.as_deref(), tell);
    let mut report = fetch_report(&front, tell);
    // SIGKILL carries no cause, and the program may be gone before its killed helper is missed.
    let why_killed = if status.code == 128 + libc::SIGKILL { memory.killed_since(kills) } else { None };
    match &mut report {
        Some(report) => {
            report.sum_up(options.strict);
            if status.code == 128 + libc::SIGKILL && options.strict && report.never_began(program) {
                tell("the program did not begin");
                status = End { code: OWN_FAILURE, signal: None, core_dumped: false };
            }
            if let Some(text) = why_killed {
                report.problem(text, tell);
            }
            if let Some(text) = report.why_moved() {
                tell(&text);
            }
        }
        None => {
            why_killed.iter().for_each(|text| tell(text));
            tell("the supervisor is gone, and the program was ended with it");
        }
    }
    // The supervisor runs as long as processes of the run do.
    if report.as_ref().is_none_or(|report| report.still_running == Some(0)) {
        sys::await_child(supervisor, SUPERVISOR_ENDS);
    }
    if report.is_none() {
        // The supervisor's lock ends with its last file, possibly after its socket.
        compaction::clean_up();
    }
    reap_orphans(None);
    Ok(RunStatus { code: status.code, signal: status.signal, core_dumped: status.core_dumped, report })
}

/// Checks that this process has the privileges that the userspace runtime needs.
///
/// # Errors
/// [`RunError::Privileges`].
pub fn check_privileges() -> Result<(), RunError> {
    let has = |capability| sys::has_capability(0, capability);
    if !(has(sys::CAP_SYS_ADMIN) && has(sys::CAP_SYS_PTRACE)) {
        return Err(RunError::Privileges);
    }
    Ok(())
}

/// Checks that this process can have a userfaultfd that moves pages.
///
/// # Errors
/// [`RunError::Userfaultfd`].
pub fn check_userfaultfd() -> Result<(), RunError> {
    sys::try_userfaultfd().map_err(RunError::Userfaultfd)
}

/// NUMA nodes with memory in color that the caller may use; empty where the machine has only one.
pub(crate) fn nodes(choice: &dyn FrameChoice) -> Result<Nodes, RunError> {
    let (in_color, allowed) = (choice.nodes(), sys::allowed_nodes());
    let mut nodes = Nodes::default();
    for &node in &in_color {
        for ((word, one), allowed) in nodes.iter_mut().zip(wire::one_node(node)).zip(allowed) {
            *word |= one & allowed;
        }
    }
    if !in_color.is_empty() && nodes == Nodes::default() {
        let (colors, allowed) = (choice.label(), listed(&allowed).collect());
        return Err(RunError::NodesOutOfBounds { colors, nodes: in_color, allowed });
    }
    Ok(nodes)
}

/// Body of the supervisor process.
fn supervise(
    settings: Settings,
    choice: Box<dyn FrameChoice>,
    search_pages: u64,
    front: OwnedFd,
    launcher: &OwnedFd,
) -> ! {
    let serve = || -> Result<(), RunError> {
        sys::leave_session();
        sys::be_killed_for_memory(-1000);
        sys::allow_most_descriptors();
        let (_pause, compaction) = Pause::begin();
        // Started first, to search for frames during the rest of the setup.
        let search = Search { strict: settings.strict, nodes: settings.nodes, hold_max: search_pages };
        let broker = Broker::start(&*choice, search, front.try_clone().ok())?;
        let supply = Supply { choice, broker };
        let mut greeting = [0u8; 1];
        let message = sys::receive_message(launcher, &mut greeting, true)?;
        let listener = message.descriptor.ok_or(RunError::ProgramGone)?;
        let mut supervisor = Supervisor::new(settings, supply, Channels { listener, front }, compaction)?;
        release_terminal();
        sys::send_message(launcher, b"g", None)?;
        supervisor.serve();
        drop(supervisor);
        // Returns the broker's stock sooner, and leaves no process behind.
        sys::end_children();
        Ok(())
    };
    let code = if let Err(error) = serve() {
        eprintln!("memtint: {error}");
        OWN_FAILURE
    } else {
        0
    };
    std::process::exit(code)
}

/// The supervisor may outlive the program; it must not keep the user's pipes open.
fn release_terminal() {
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: replaces descriptors of this process that nothing here uses any more.
            unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), standard) };
        }
    }
}

/// Body of the process that becomes the program.
fn launch(options: &RunOptions, identity: Option<&Identity>, supervisor: &OwnedFd) -> ! {
    become_program(&options.command, || {
        // A supervisor or front that dies must not leave the program behind.
        sys::die_with_parent();
        // SAFETY: takes numbers.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        options.take_place()?;
        let listener = sys::install_filter(&filter::program())?;
        sys::send_message(supervisor, b"l", Some(listener.as_fd()))?;
        drop(listener);
        let mut go = [0u8; 1];
        if sys::receive_message(supervisor, &mut go, true)?.length == 0 {
            return Err(io::Error::other("the supervisor did not start"));
        }
        identity.map_or(Ok(()), Identity::assume)
    })
}

/// Prepares this process, and becomes the program.
pub(crate) fn become_program(command: &[OsString], prepare: impl FnOnce() -> io::Result<()>) -> ! {
    // Preparing may empty the environment, for another user.
    let service_manager = ServiceManager::of_this_process();
    if let Err(error) = prepare() {
        eprintln!("memtint: cannot prepare the program: {error}");
        std::process::exit(OWN_FAILURE);
    }
    service_manager.set();
    let error = execute(command);
    eprintln!("memtint: cannot run {:?}: {error}", command[0]);
    std::process::exit(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE })
}

/// Becomes the program; returns only on failure, with the reason.
fn execute(command: &[OsString]) -> io::Error {
    let strings: Result<Vec<CString>, _> = command.iter().map(|word| CString::new(word.as_bytes())).collect();
    let Ok(strings) = strings else { return io::Error::from(io::ErrorKind::InvalidInput) };
    let mut pointers: Vec<*const libc::c_char> = strings.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // Rust ignores SIGPIPE at start; programs expect the default.
    // SAFETY: `pointers` is a null-terminated array of C strings that outlive the call.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execvp(pointers[0], pointers.as_ptr());
    }
    io::Error::last_os_error()
}

impl RunOptions {
    /// Moves this process to the program's cgroup and CPUs.
    pub(crate) fn take_place(&self) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            let tasks = cgroup.join("cgroup.procs");
            // 0 stands for the writing process. Nothing is created if the cgroup is gone.
            std::fs::File::options()
                .write(true)
                .open(&tasks)
                .and_then(|mut file| io::Write::write_all(&mut file, b"0"))
                .map_err(|error| io::Error::other(format!("{}: {error}", tasks.display())))?;
        }
        self.cores.as_deref().map_or(Ok(()), pin)
    }
}

fn pin(cores: &[u32]) -> io::Result<()> {
    // SAFETY: all-zero is the empty set; CPU_SET is bounds-checked below.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &core in cores {
            if core as usize >= libc::CPU_SETSIZE as usize {
                return Err(io::Error::other(format!("core {core} is beyond {}", libc::CPU_SETSIZE)));
            }
            libc::CPU_SET(core as usize, &mut set);
        }
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) < 0 {
            return Err(io::Error::other(format!("cannot run on cores {cores:?}: {}", io::Error::last_os_error())));
        }
    }
    Ok(())
}

/// A user to become.
pub(crate) struct Identity {
    name: CString,
    user: libc::uid_t,
    group: libc::gid_t,
    home: CString,
    shell: CString,
}

impl Identity {
    pub(crate) fn find(name: &str) -> Result<Identity, RunError> {
        let unknown = || RunError::NoUser(name.to_owned());
        let name_c = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: the name is a C string; the result is read before any other call that could overwrite it, and its texts
        // are C strings.
        unsafe {
            let entry = libc::getpwnam(name_c.as_ptr()).as_ref().ok_or_else(unknown)?;
            let text = |text: *const libc::c_char| CStr::from_ptr(text).to_owned();
            let shell = if *entry.pw_shell == 0 { c"/bin/sh".to_owned() } else { text(entry.pw_shell) };
            let home = text(entry.pw_dir);
            Ok(Identity { name: name_c, user: entry.pw_uid, group: entry.pw_gid, home, shell })
        }
    }

    /// Becomes the user, with the user's groups and environment, as `setpriv --init-groups --reset-env` does.
    pub(crate) fn assume(&self) -> io::Result<()> {
        // SAFETY: numbers and a C string. Groups first: they need the privilege that setuid gives up.
        let done = unsafe {
            libc::initgroups(self.name.as_ptr(), self.group) == 0
                && libc::setgid(self.group) == 0
                && libc::setuid(self.user) == 0
                // setuid clears it.
                && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
        };
        if done && self.reset_environment() { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn reset_environment(&self) -> bool {
        const PATH: &CStr = c"/usr/local/bin:/bin:/usr/bin";
        const PATH_OF_ROOT: &CStr = c"/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin";
        let terminal = std::env::var_os("TERM").and_then(|term| CString::new(term.into_vec()).ok());
        let path = if self.user == 0 { PATH_OF_ROOT } else { PATH };
        let set = |name: &CStr, value: &CStr| {
            // SAFETY: two C strings, which are copied. The process has one thread.
            unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) == 0 }
        };
        let own = [(c"HOME", &*self.home), (c"SHELL", &self.shell), (c"USER", &self.name), (c"LOGNAME", &self.name)];
        // SAFETY: takes nothing; the process has one thread, and holds no reference into its environment.
        (unsafe { libc::clearenv() } == 0)
            && own.into_iter().chain([(c"PATH", path)]).all(|(name, value)| set(name, value))
            && terminal.is_none_or(|terminal| set(c"TERM", &terminal))
    }
}

/// Signals that are sent to the front and meant for the program.
const FORWARDED: [i32; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGWINCH,
];

/// How the program ended; see [`RunStatus`].
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) core_dumped: bool,
}

/// The events that the front waits for while the program runs. From its creation on, signals for the program are blocked in this process,
/// and in its children.
pub(crate) struct Watch<'s> {
    signals: OwnedFd,
    poller: sys::Poller,
    supervisor: Option<&'s OwnedFd>,
    before: libc::sigset_t,
}

impl<'s> Watch<'s> {
    pub(crate) fn begin(supervisor: Option<&'s OwnedFd>) -> io::Result<Watch<'s>> {
        let mut caught = FORWARDED.to_vec();
        caught.push(libc::SIGCHLD);
        let (signals, before) = sys::signals_as_file(&caught)?;
        let poller = sys::Poller::new()?;
        poller.add(&signals, 0)?;
        if let Some(supervisor) = supervisor {
            poller.add(supervisor, 1)?;
        }
        Ok(Watch { signals, poller, supervisor, before })
    }

    /// Starts a copy of this process, which gets the signals that came while there was no program. Returns 0 in the copy, which calls
    /// [`Watch::leave`] once signals may end it.
    pub(crate) fn fork(&self) -> io::Result<Pid> {
        let early: Vec<i32> =
            std::iter::from_fn(|| sys::next_signal(&self.signals)).map(|(signal, _)| signal).collect();
        let program = sys::fork()?;
        if program != 0 {
            early.into_iter().filter(|signal| FORWARDED.contains(signal)).for_each(|signal| pass_on(program, signal));
        }
        Ok(program)
    }

    /// In the process that becomes the program: restores the signal mask.
    pub(crate) fn leave(&self) {
        sys::set_signal_mask(&self.before);
    }

    /// Waits for the program's end; forwards signals and stops, and lines from the supervisor if there is one.
    pub(crate) fn wait_for(mut self, program: Pid, ended: Option<&dyn Fn(i32)>, tell: &mut impl FnMut(&str)) -> End {
        let (mut stopped, mut timeout_ms, mut orphaned_ms) = (false, -1, 0);
        loop {
            if let Some(end) = reap(program, ended, &mut stopped) {
                return end;
            }
            reap_orphans(Some(program));
            orphaned_ms += timeout_ms.max(0);
            if orphaned_ms > ORPHANED_MS {
                // No process serves its faults and calls.
                pass_on(program, libc::SIGKILL);
            }
            for (token, _) in self.poller.wait(timeout_ms) {
                if token == 0 {
                    while let Some((signal, sender)) = sys::next_signal(&self.signals) {
                        // Signals that the terminal or the program itself sends to the job have reached the program. So has, as a rule, the
                        // signal that continues a stopped job; a second one would confuse a program that counts them.
                        let brings_back = signal == libc::SIGCONT && std::mem::take(&mut stopped);
                        let meant =
                            sender.is_some_and(|sender| sender != program) && (!brings_back || is_stopped(program));
                        if FORWARDED.contains(&signal) && meant {
                            pass_on(program, signal);
                        }
                    }
                } else if self.supervisor.is_some_and(|supervisor| hear(supervisor, tell).is_none()) {
                    (self.supervisor, timeout_ms) = (None, 100);
                }
            }
        }
    }
}

fn pass_on(program: Pid, signal: i32) {
    // SAFETY: takes numbers; the program has not been reaped, so the number is still its own.
    unsafe { libc::kill(program, signal) };
}

/// One message of the supervisor; None when it is gone, Some(Some(report)) when it was the report.
fn hear(front: &OwnedFd, tell: &mut impl FnMut(&str)) -> Option<Option<RunReport>> {
    // Wait before the allocation: the supervisor reports an out-of-memory kill once there is memory again.
    sys::is_readable(front, -1);
    let mut bytes = vec![0u8; word::LINE_MAX + 1];
    let message = sys::receive_message(front, &mut bytes, true).ok()?;
    let (first, rest) = bytes[..message.length].split_first()?;
    match *first {
        word::TELL => {
            tell(&String::from_utf8_lossy(rest));
            Some(None)
        }
        word::REPORT => {
            let mut file = std::fs::File::from(message.descriptor?);
            file.rewind().ok()?;
            Some(serde_json::from_reader(io::BufReader::new(file)).ok())
        }
        _ => None,
    }
}

/// The program's end, if it has come; mirrors its stops, and records that there was one.
fn reap(program: Pid, ended: Option<&dyn Fn(i32)>, stopped: &mut bool) -> Option<End> {
    while !sys::has_ended(program) {
        // The shell must see the front stopped as it would see the program.
        let signal = sys::stopping_signal(program)?;
        *stopped = true;
        stop_by(signal);
    }
    ended.iter().for_each(|ended| ended(program));
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    if unsafe { libc::waitpid(program, &raw mut status, libc::WNOHANG) } <= 0 {
        return None;
    }
    if libc::WIFSIGNALED(status) {
        let signal = libc::WTERMSIG(status);
        return Some(End { code: 128 + signal, signal: Some(signal), core_dumped: libc::WCOREDUMP(status) });
    }
    Some(End { code: libc::WEXITSTATUS(status), signal: None, core_dumped: false })
}

/// Reaps other children: helpers, and processes whose parents have ended.
fn reap_orphans(program: Option<Pid>) {
    while let Some(ended) = sys::ended_child()
        && Some(ended) != program
    {
        sys::wait_for_end(ended);
    }
}

/// Stops this process by a signal; returns when it continues.
fn stop_by(signal: i32) {
    // SAFETY: numbers, and signal sets that are initialized before they are read. SIGSTOP cannot be blocked or caught;
    // both calls leave it as it is.
    unsafe {
        let (mut only, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, &raw mut before);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
}

/// Whether the program is stopped now.
fn is_stopped(program: Pid) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{program}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}

/// Asks the supervisor for its report.
fn fetch_report(front: &OwnedFd, tell: &mut impl FnMut(&str)) -> Option<RunReport> {
    sys::send_message(front, &[word::ENDED], None).ok()?;
    loop {
        if let Some(report) = hear(front, tell)? {
            return Some(report);
        }
    }
}
