//! The machine that the tests run on, one test at a time.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use memtint_testing::{Alone, alone, make_room, skip};

use super::processes::end_descendants;
use super::run::Launch;

/// Bank functions that this machine is given: they use low and high address bits, and 16 classes follow from them.
const FUNCTIONS: &str = "skl-e3-1220v5-4x4g";

/// Exclusive use of the machine; ends whatever the test leaves running.
pub(crate) struct Machine {
    /// The platform file.
    pub(crate) platform: PathBuf,
    _alone: Alone,
}

impl Machine {
    /// Waits until no other live test runs. Every test of this program begins with it, or with [`alone`]: what is below this
    /// process at its end is killed. `None`, with a line that says why, when something is missing here.
    pub(crate) fn take(programs: &[&str]) -> Option<Machine> {
        if let Some(missing) = missing_capability(programs) {
            skip(&missing);
            return None;
        }
        let alone = alone();
        make_room();
        adopt_orphans();
        let platform = scratch("here.toml");
        if is_outdated(&platform, &[Path::new(env!("CARGO_BIN_EXE_memtint"))]) {
            detect(&platform, &[]);
        }
        Some(Machine { platform, _alone: alone })
    }

    /// The same machine with a cache, whose sets have colors too.
    pub(crate) fn platform_with_cache(&self) -> PathBuf {
        let file = scratch("cached.toml");
        detect(&file, &["--cache-of", FUNCTIONS]);
        file
    }

    /// Compiles a program of `tests/programs` and returns its file.
    pub(crate) fn compile(&self, source: &str, options: &[&str]) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let name = format!("{source}{}", options.concat());
        self.make_from(&name, &[&sources.join(format!("{source}.c")), &sources.join("check.h")], |from, to| {
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(to).arg(from).args(options);
            compiler
        })
    }

    /// Makes a file of the suites' own from a source by a command, if it is not there or older than its source.
    pub(crate) fn make(&self, name: &str, source: &Path, command: impl FnOnce(&Path, &Path) -> Command) -> PathBuf {
        self.make_from(name, &[source], command)
    }

    fn make_from(&self, name: &str, sources: &[&Path], command: impl FnOnce(&Path, &Path) -> Command) -> PathBuf {
        let product = scratch(name);
        if is_outdated(&product, sources) {
            let mut command = command(sources[0], &product);
            let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        product
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        end_descendants();
    }
}

/// A file or directory of the suites' own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn detect(platform: &Path, options: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(["platform", "detect", "--functions-of", FUNCTIONS]).args(options);
    let output = command.output().expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::write(platform, output.stdout).expect("cargo made the directory");
}

fn is_outdated(product: &Path, sources: &[&Path]) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    changed(product).is_none_or(|made| sources.iter().any(|source| changed(source).is_none_or(|time| time > made)))
}

fn missing_capability(programs: &[&str]) -> Option<String> {
    // SAFETY: takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Some("root, to read frame numbers and to stop system calls".to_owned());
    }
    if !kernel_moves_pages() {
        return Some("a kernel with userfaultfd and UFFDIO_MOVE (Linux 6.8)".to_owned());
    }
    let absent = |program: &&&str| find_program(program).is_none();
    programs.iter().find(absent).map(|program| format!("the program {program}"))
}

fn kernel_moves_pages() -> bool {
    const USERFAULTFD_IOC_NEW: u64 = 0xaa00;
    const UFFDIO_API: u64 = 0xc018_aa3f;
    const UFFD_API: u64 = 0xaa;
    const UFFD_FEATURE_MOVE: u64 = 1 << 16;
    let Ok(device) = File::options().read(true).write(true).open("/dev/userfaultfd") else { return false };
    let mut api = [UFFD_API, 0, 0];
    // SAFETY: the first request takes flags by value; the second the three words of `struct uffdio_api`; the descriptor
    // is closed once.
    unsafe {
        let fd = libc::ioctl(device.as_raw_fd(), USERFAULTFD_IOC_NEW, libc::O_CLOEXEC);
        let known = fd >= 0 && libc::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) == 0;
        libc::close(fd);
        known && api[1] & UFFD_FEATURE_MOVE != 0
    }
}

/// Where a program is, in PATH.
///
/// The system's directories come first: a version manager's wrapper is a shell script that starts the program later.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = ["/usr/bin", "/bin"].into_iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    let executable = |file: &PathBuf| file.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    directories.map(|directory| directory.join(OsStr::new(name))).find(executable)
}

/// Makes orphans of a run children of this process, where they are found, instead of children of init.
fn adopt_orphans() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// A copy of a test program that every user may execute; removed on drop.
pub(crate) struct PublicProgram(pub(crate) PathBuf);

impl PublicProgram {
    pub(crate) fn compile(machine: &Machine, name: &str) -> PublicProgram {
        let copy = std::env::temp_dir().join(format!("memtint-{name}-{}", std::process::id()));
        std::fs::copy(machine.compile(name, &[]), &copy).expect("a writable directory");
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("its own file");
        PublicProgram(copy)
    }

    pub(crate) fn launch<'a>(&self, machine: &'a Machine, check: &str) -> Launch<'a> {
        Launch::new(machine, &[self.0.to_str().expect("text"), check]).directory(Path::new("/"))
    }
}

impl Drop for PublicProgram {
    fn drop(&mut self) {
        // It is this test's own.
        let _ = std::fs::remove_file(&self.0);
    }
}
