//! Does a shell's job control treat `memtint run` like the program it runs? Stopped from the keyboard, stopped for
//! reading in the background, continued, interrupted: an interactive shell on a terminal of its own says the same of both.
//!
//! `cargo test -p memtint-cli --test live live::job_control::`, as root.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::{BANKS, Machine, Process, alive, find_program, within};

/// No answer of the shell takes longer.
const TIMEOUT: Duration = Duration::from_secs(300);

/// An interactive shell on a terminal.
struct Shell<'a> {
    #[expect(dead_code, reason = "it ends the shell")]
    machine: &'a Machine,
    process: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What was shown and has not been looked at.
    shown: String,
}

impl<'a> Shell<'a> {
    fn start(machine: &'a Machine) -> Shell<'a> {
        let (master, terminal) = terminal();
        let mut command = Command::new(find_program("bash").expect("found before"));
        command.args(["--norc", "--noprofile", "--noediting", "-i"]).env("PS1", "").env("TERM", "dumb");
        let end = || Stdio::from(terminal.try_clone().expect("descriptors are left"));
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: only system calls between fork and exec; the terminal is descriptor 0 by then.
        unsafe {
            command.pre_exec(|| {
                // What runs in the background of a script ignores these, and so would everything below.
                for signal in [libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                let done = libc::setsid() > 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0;
                if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let process = command.spawn().expect("bash starts");
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().expect("descriptors are left");
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails when the last process of the terminal has ended.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Shell { machine, process, keyboard, screen, shown: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the shell lives");
    }

    /// Waits until the terminal shows a text, and returns what it showed up to its end.
    fn shows(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.shown += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("the terminal does not show {text:?} but {:?}; {:?}", self.shown, alive()),
            }
        }
    }

    /// Asks for the jobs until the shell has noticed what has happened to the only one; its line. That is one with a process
    /// id: what the shell says of its own accord, between two commands, has none, and no reason.
    fn sees_it_stopped(&mut self) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.types("jobs -l\n");
            self.shows("[1]+");
            let line = self.shows("\n");
            if line.trim_start().starts_with(|first: char| first.is_ascii_digit()) && line.contains("Stopped") {
                return line;
            }
            assert!(Instant::now() < deadline, "{line:?}; {:?}", alive());
        }
    }

    /// The number in the line that the shell prints for `echo NAME=VALUE`.
    fn asks(&mut self, name: &str, value: &str) -> i32 {
        self.types(&format!("echo {name}={value}\n"));
        self.shows(&format!("\n{name}="));
        let line = self.shows("\n");
        line.trim().parse().unwrap_or_else(|_| panic!("{name} is {line:?}"))
    }

    fn ends(mut self) {
        self.types("exit\n");
        assert!(within(TIMEOUT, || alive().is_empty()), "left behind: {:?}", alive());
        self.process.wait().expect("a child can be waited for");
    }
}

/// A new terminal without echo: both ends.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut master, mut terminal) = (-1, -1);
    let (nothing, none, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: two places for descriptors, which are new and owned here alone; the settings are read before they are
    // changed and written back.
    unsafe {
        assert_eq!(libc::openpty(&raw mut master, &raw mut terminal, nothing, none, size), 0);
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal, &raw mut settings), 0);
        settings.c_lflag &= !(libc::ECHO | libc::ECHOCTL);
        settings.c_oflag &= !libc::OPOST;
        assert_eq!(libc::tcsetattr(terminal, libc::TCSANOW, &raw const settings), 0);
        let ends = (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(terminal));
        // The shell must not keep the keyboard's end open.
        libc::fcntl(ends.0.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
        ends
    }
}

/// Command lines for a check of `programs/manners.c`: natively, and in color.
fn both(machine: &Machine, check: &str) -> [String; 2] {
    let program = machine.compile("manners", &[]);
    let native = format!("{} {check}", program.display());
    let memtint = env!("CARGO_BIN_EXE_memtint");
    let colored = format!("{memtint} run --platform {} --banks {BANKS} -- {native}", machine.platform.display());
    [native, colored]
}

/// What `$?` is for a job that a signal has stopped or ended.
fn by(signal: i32) -> i32 {
    128 + signal
}

/// Whether the program runs and its front, if it has one, has dealt with what brought it back: a stop before that would be
/// undone.
fn goes_on() -> bool {
    let shells: Vec<_> = alive().into_iter().filter(|process| process.name == "bash").collect();
    let is_front =
        |process: &Process| process.name == "memtint" && shells.iter().any(|shell| shell.pid == process.parent);
    states('S')
        && alive().iter().filter(|process| is_front(process)).all(|front| front.state == 'S' && is_idle(front.pid))
}

/// Whether no signal waits for a process.
fn is_idle(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut waiting = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    waiting.all(|set| set.trim().bytes().all(|digit| digit == b'0'))
}

fn states(wanted: char) -> bool {
    // Supervisor, broker and helper are no part of the job: they wait or work, whatever the job does.
    let named = |name: &str| matches!(name, "manners" | "memtint");
    let jobs: Vec<_> = alive().into_iter().filter(|process| named(&process.name)).collect();
    jobs.iter().any(|process| process.name == "manners" && process.state == wanted)
}

#[test]
fn stopped_from_the_keyboard_and_brought_back() {
    let Some(machine) = Machine::take(&["cc", "bash"]) else { return };
    for command in both(&machine, "stays") {
        let mut shell = Shell::start(&machine);
        shell.types(&format!("{command}\n"));
        shell.shows("READY ");
        for _ in 0..3 {
            shell.types("\x1a");
            shell.shows("Stopped");
            assert!(states('T'), "{command}: {:?}", alive());
            assert_eq!(shell.asks("stop", "$?"), by(libc::SIGTSTP), "{command}");
            shell.types("fg\n");
            shell.shows("manners stays");
            assert!(within(TIMEOUT, goes_on), "{command}: {:?}", alive());
        }
        shell.types("x\n");
        shell.shows("OK");
        assert_eq!(shell.asks("end", "$?"), 0, "{command}");
        shell.ends();
    }
}

#[test]
fn stopped_for_reading_in_the_background() {
    let Some(machine) = Machine::take(&["cc", "bash"]) else { return };
    for command in both(&machine, "stays") {
        let mut shell = Shell::start(&machine);
        shell.types(&format!("{command} &\n"));
        shell.shows("READY ");
        assert!(within(TIMEOUT, || states('T')), "{command}: {:?}", alive());
        assert!(shell.sees_it_stopped().contains("tty input"), "{command}");
        shell.types("fg\n");
        shell.shows("manners stays");
        shell.types("x\n");
        shell.shows("OK");
        assert_eq!(shell.asks("end", "$?"), 0, "{command}");
        shell.ends();
    }
}

#[test]
fn interrupted_from_the_keyboard() {
    let Some(machine) = Machine::take(&["cc", "bash"]) else { return };
    for command in both(&machine, "stays") {
        for (key, signal) in [("\x03", libc::SIGINT), ("\x1c", libc::SIGQUIT)] {
            let mut shell = Shell::start(&machine);
            shell.types(&format!("{command}\n"));
            shell.shows("READY ");
            shell.types(key);
            // The terminal forgets what is typed before the signal is on its way.
            assert!(within(TIMEOUT, || !alive().iter().any(|process| process.name == "manners")), "{command}");
            assert_eq!(shell.asks("end", "$?"), by(signal), "{command}");
            shell.ends();
        }
    }
}

/// `kill %1` and its like reach the front alone when they name a process, and both when they name a job.
#[test]
fn stopped_and_continued_by_other_commands() {
    let Some(machine) = Machine::take(&["cc", "bash"]) else { return };
    for command in both(&machine, "counts_continuations") {
        for target in ["%1", "$!"] {
            let mut shell = Shell::start(&machine);
            shell.types(&format!("{command} </dev/null &\n"));
            shell.shows("READY ");
            for round in 1..=3 {
                shell.types(&format!("kill -TSTP {target}\n"));
                assert!(within(TIMEOUT, || states('T')), "{command}, {target}: {:?}", alive());
                shell.sees_it_stopped();
                shell.types(&format!("kill -CONT {target}\n"));
                shell.shows(&format!("continued {round}"));
                assert!(within(TIMEOUT, goes_on), "{command}, {target}: {:?}", alive());
            }
            shell.types(&format!("kill -TERM {target}; wait {target}\n"));
            assert_eq!(shell.asks("end", "$?"), by(libc::SIGTERM), "{command}, {target}");
            shell.ends();
        }
    }
}
