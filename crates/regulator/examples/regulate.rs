//! Regulates a load in a group on one CPU, and prints what has come of it: `regulate EVENT BACKEND CPU BUDGET PERIOD_US SKID SECONDS`, as
//! root. With the backend `kernel`, the whole CPU is regulated. The library's use in small, and what the tests run on other architectures.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use memtint_guard::Kind;
use memtint_regulator::{
    Backend, CgroupRoot, GroupSettings, Load, Place, Programs, Regulator, Sensor, Settings, run_guardian, run_load,
    self_test,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        // How the regulator runs its helper processes.
        ["guardian"] => run_guardian().map_err(Into::into),
        ["load", name, cpu, ms] => load(name, cpu, ms),
        [event, backend, cpu, budget, period_us, skid, seconds] => {
            settings(event, backend, [cpu, budget, period_us, skid]).and_then(|settings| regulate(settings, seconds))
        }
        _ => Err("accepted is EVENT BACKEND CPU BUDGET PERIOD_US SKID SECONDS".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {error}");
            ExitCode::FAILURE
        }
    }
}

fn load(name: &str, cpu: &str, ms: &str) -> Outcome<()> {
    let (_, load) = Load::NAMES.iter().find(|(known, _)| *known == name).ok_or("no such load")?;
    Ok(run_load(*load, cpu.parse()?, Duration::from_millis(ms.parse()?))?)
}

fn settings(event: &str, backend: &str, [cpu, budget, period_us, skid]: [&str; 4]) -> Outcome<Settings> {
    let budget: u32 = budget.parse()?;
    let backend = match backend {
        "bpf" => Backend::Bpf,
        "threads" => Backend::Threads,
        "kernel" => Backend::Kernel,
        _ => return Err("accepted backends are bpf, threads and kernel".into()),
    };
    let group = GroupSettings {
        name: "hog".to_owned(),
        place: match backend {
            Backend::Kernel => Place::Cpus,
            _ => Place::Cgroup(CgroupRoot::find()?.group("hog")?),
        },
        cpus: vec![cpu.parse()?],
        budget,
        kind: Kind::Hard,
        quantum: budget.div_ceil(10),
    };
    Ok(Settings {
        period: Duration::from_micros(period_us.parse()?),
        sensor: Sensor { skid: skid.parse()?, ..Sensor::find(event)? },
        groups: vec![group],
        guaranteed: None,
        peak: None,
        backend,
    })
}

fn regulate(settings: Settings, seconds: &str) -> Outcome<()> {
    let seconds: u64 = seconds.parse()?;
    let group = settings.groups[0].clone();
    let load = settings.sensor.load.name();
    let program = std::env::current_exe()?;
    let programs =
        Programs { program: program.clone(), guardian: vec!["guardian".into()], load: vec![OsString::from("load")] };
    let mut regulator = Regulator::start(settings, programs)?;
    for tested in self_test(&regulator, &|| false)? {
        let seen = tested.least_budget;
        println!("tested {} of {} periods throttled, {} events", seen.throttled_periods, seen.periods, seen.counted);
    }
    regulator.reset_maxima();
    let before = regulator.snapshot();
    let ms = (seconds * 1000).to_string();
    let mut child = Command::new(program)
        .args(["load", load, &group.cpus[0].to_string(), &ms])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
    lines.next().ok_or("the load has ended")??;
    if let Place::Cgroup(cgroup) = &group.place {
        std::fs::write(cgroup.path().join("cgroup.procs"), child.id().to_string())?;
    }
    child.stdin.take().ok_or("no pipe")?.write_all(b"\n")?;
    let until = Instant::now() + Duration::from_secs(seconds) * 4;
    while child.try_wait()?.is_none() && Instant::now() < until && !regulator.has_ended() {
        regulator.wait(Duration::from_millis(100));
        for incident in regulator.take_incidents() {
            println!("incident {incident}");
        }
    }
    regulator.finish();
    for incident in regulator.take_incidents() {
        println!("incident {incident}");
    }
    let sums = regulator.snapshot()[0].since(&before[0]);
    for (word, number) in [
        ("periods", sums.periods),
        ("throttled", sums.throttled_periods),
        ("used", sums.used),
        ("most", sums.used_max),
        ("beyond", sums.beyond_max),
        ("broken", sums.broken),
    ] {
        println!("{word} {number}");
    }
    Ok(())
}
