//! Real programs beside each other, each in its group: what they say is what they say alone, none gets more than its budget, and none
//! stands still at the end.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{ENDLESS_MS, Guard, Load, Machine, number};
use crate::common::{find_program, pipe, scratch, skip, within};

fn text(path: &Path) -> &str {
    path.to_str().expect("paths here are text")
}

/// A file of lines in no order, always the same.
fn lines() -> std::path::PathBuf {
    let file = scratch("lines-to-sort");
    let (mut text, mut state) = (String::new(), 1u32);
    for line in 0..200_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(text, "{state:010} {line}").expect("strings take everything");
    }
    std::fs::write(&file, text).expect("cargo made the directory");
    file
}

fn sorted(file: &Path, group: Option<&Path>) -> Vec<u8> {
    let sort = format!("exec sort --buffer-size=4M --parallel=2 {}", file.display());
    let script = match group {
        Some(group) => format!("echo $$ >{}/cgroup.procs && {sort}", group.display()),
        None => sort,
    };
    let output = Command::new("sh").args(["-c", &script]).env("LC_ALL", "C").output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A server that is ended for certain.
struct Redis {
    process: Child,
    socket: std::path::PathBuf,
}

impl Redis {
    fn start(name: &str) -> Redis {
        // The path of a socket is short.
        let socket = std::env::temp_dir().join(format!("memtint-{name}-{}", std::process::id()));
        let options = ["--port", "0", "--unixsocket", text(&socket), "--save", "", "--appendonly", "no"];
        let mut command = Command::new("redis-server");
        let process = command.args(options).stdout(Stdio::null()).spawn().expect("found before");
        let redis = Redis { process, socket };
        assert!(within(Duration::from_secs(300), || redis.socket.exists()), "redis does not listen");
        redis
    }

    fn answers(&self, questions: &str) -> Vec<u8> {
        pipe(Command::new("redis-cli").args(["-s", text(&self.socket)]), questions.as_bytes())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn redis_sort_and_a_hog_keep_to_their_budgets_and_say_what_they_say_alone() {
    let Some(machine) = Machine::take() else { return };
    if let Some(missing) = ["redis-server", "redis-cli", "sort"].into_iter().find(|name| find_program(name).is_none()) {
        skip(missing);
        return;
    }
    let file = lines();
    let mut questions: String = (0..10_000).map(|i| format!("SET key:{i} {}\n", "value".repeat(1 + i % 100))).collect();
    questions += "DBSIZE\nGET key:777\nLPUSH list a b c\nLRANGE list 0 -1\nFLUSHALL\nDBSIZE\n";
    let alone = (Redis::start("redis-alone").answers(&questions), sorted(&file, None));
    let both = format!("{},{}", machine.first, machine.cpu);
    let budgets = [("redis", 200u64), ("sort", 100), ("hog", 20)];
    let groups: Vec<String> = budgets.iter().map(|(name, budget)| format!("{name}={budget}ev@{both}")).collect();
    let options: Vec<&str> = groups.iter().flat_map(|group| ["--group", group]).collect();
    let guard = Guard::start(&options);
    let redis = Redis::start("redis-beside");
    std::fs::write(machine.groups.join("redis/cgroup.procs"), redis.process.id().to_string()).expect("it runs");
    let mut hog = Load::start(&machine.cpu, ENDLESS_MS);
    hog.begin_in(&machine, "hog");
    let beside = std::thread::scope(|scope| {
        let answers = scope.spawn(|| redis.answers(&questions));
        let sorted = sorted(&file, Some(&machine.groups.join("sort")));
        (answers.join().expect("it answers"), sorted)
    });
    assert!(alone == beside, "programs say something else under their budgets");
    let (ended, status) = guard.end_with_incidents();
    // A read of a file faults in the kernel, which does not let the regulator run before it is done: that is reported, and nothing else.
    let causes: Vec<&str> = ended.1.iter().map(|one| one["cause"].as_str().expect("text")).collect();
    assert!(causes.iter().all(|cause| ["in-kernel", "skid", "late"].contains(cause)), "{ended:?}");
    assert_eq!(status, i32::from(!causes.is_empty()), "{ended:?}");
    let rows = ended.0["groups"].as_array().expect("a list").len();
    for (index, (name, budget)) in budgets.iter().enumerate() {
        let seats: Vec<usize> = (0..rows).filter(|&seat| ended.0["groups"][seat]["name"] == *name).collect();
        let sum = |field| seats.iter().map(|&seat| number(&ended.0, seat, field)).sum::<u64>();
        let periods = number(&ended.0, seats[0], "periods").max(number(&ended.0, seats[1], "periods"));
        let granted = sum("granted");
        assert!(granted <= budget * (periods + 1), "{name} was granted {granted} in {periods} periods: {ended:?}");
        assert!(sum("used") > 0, "{name}: {ended:?}");
        // The hog wants more than it may have.
        assert!(index != 2 || sum("throttled_periods") > 0, "{ended:?}");
    }
    // Nothing stands still.
    assert!(!machine.groups.exists());
    let path = format!("/proc/{}/cgroup", hog.process.id());
    assert!(std::fs::read_to_string(path).expect("the hog runs").lines().any(|line| line == "0::/"));
    assert_eq!(redis.answers("PING\n"), b"PONG\n");
}
