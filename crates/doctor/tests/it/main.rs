//! Does each defect of a machine show in the answer it spoils, and only there?

use std::fs;
use std::path::{Path, PathBuf};

use memtint_doctor::{Answer, Facts, Purpose, Report};

/// Files of a machine, below a folder that goes away with it.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        // Nothing depends on it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FLAGS: &str = "flags\t\t: fpu clflush rdtscp constant_tsc nonstop_tsc cat_l3 mba";
const CONFIGURATION: &str = "CONFIG_USERFAULTFD=y\nCONFIG_SECCOMP_FILTER=y\nCONFIG_PROC_PAGE_MONITOR=y\nCONFIG_PERF_EVENTS=y\n\
                             CONFIG_CGROUPS=y\nCONFIG_BPF_SYSCALL=y\nCONFIG_KCMP=y\nCONFIG_CROSS_MEMORY_ATTACH=y\n# CONFIG_KSM is not set\n";

/// A machine on which nothing is amiss.
const GOOD: [(&str, &str); 17] = [
    ("proc/sys/kernel/osrelease", "6.12.9-amd64"),
    ("boot/config-6.12.9-amd64", CONFIGURATION),
    ("proc/self/status", "Name:\tmemtint\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"),
    ("proc/cpuinfo", FLAGS),
    ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority"),
    ("proc/sys/kernel/seccomp/actions_avail", "kill_process user_notif allow"),
    ("proc/sys/kernel/yama/ptrace_scope", "1"),
    ("proc/sys/kernel/numa_balancing", "1"),
    ("proc/sys/kernel/nmi_watchdog", "1"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000"),
    ("proc/sys/vm/compaction_proactiveness", "20"),
    ("sys/kernel/security/lockdown", "[none] integrity confidentiality"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
    ("sys/kernel/mm/ksm/run", "0"),
    ("sys/devices/system/cpu/smt/active", "0"),
    ("sys/fs/cgroup/cgroup.procs", ""),
];

impl Files {
    fn good(name: &str) -> Files {
        let root = std::env::temp_dir().join(format!("memtint-doctor-{}-{name}", std::process::id()));
        let files = Files(root);
        GOOD.into_iter().for_each(|(path, text)| files.write(path, text));
        for cpu in 0..4 {
            files.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), &cpu.to_string());
            files.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), "0");
        }
        files
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a platform file in which nothing is assumed but what `more` says of its bank functions.
    fn platform(&self, more: &str) -> String {
        let catalogue = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms/nehalem-w3530.toml");
        let text = fs::read_to_string(catalogue).unwrap().replace("assumed = true\n", "");
        self.write("platform.toml", &text.replace("source_kind = \"timing-re\"\n", more));
        self.0.join("platform.toml").to_str().unwrap().to_owned()
    }

    fn facts(&self) -> Facts {
        Facts::of_files(&self.0, Some(self.platform("")))
    }
}

/// Answers in the order color, probe, regulate: `y`, `l` or `n` each.
fn answers(report: &Report) -> String {
    let letter = |answer| match answer {
        Answer::Yes => 'y',
        Answer::Limited => 'l',
        Answer::No => 'n',
    };
    Purpose::ALL.map(|purpose| letter(report.answer(purpose))).iter().collect()
}

#[test]
fn on_a_good_machine_every_answer_is_yes() {
    let report = Report::of(&Files::good("good").facts());
    assert_eq!(answers(&report), "yyy", "{report:#?}");
    assert!(report.purposes.iter().all(|purpose| purpose.because.is_empty()));
    assert!(report.checks.len() > 25, "{} checks", report.checks.len());
}

/// A file of a machine that is otherwise good: path, text, the check that tells, and the answers.
fn defects() -> Vec<(&'static str, String, &'static str, &'static str)> {
    let configuration = "boot/config-6.12.9-amd64";
    let without = |option: &str| CONFIGURATION.replace(&format!("{option}=y\n"), "");
    let status = |user: u32, capabilities: &str| format!("Uid:\t{user}\t{user}\nCapEff:\t{capabilities}");
    vec![
        (configuration, without("CONFIG_USERFAULTFD"), "kernel-configuration", "nyy"),
        (configuration, without("CONFIG_KCMP"), "kernel-configuration", "nyy"),
        (configuration, without("CONFIG_PROC_PAGE_MONITOR"), "kernel-configuration", "nny"),
        (configuration, without("CONFIG_PERF_EVENTS"), "kernel-configuration", "yyn"),
        (configuration, without("CONFIG_CGROUPS"), "kernel-configuration", "yyl"),
        ("proc/self/status", status(0, "0"), "privileges", "nln"),
        // CAP_PERFMON, CAP_SYS_NICE and CAP_IPC_LOCK; the same without the last.
        ("proc/self/status", status(0, "4000804000"), "privileges", "nly"),
        ("proc/self/status", status(0, "4000800000"), "privileges", "nln"),
        // CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_IPC_LOCK, with CAP_SYS_NICE and without.
        ("proc/self/status", status(0, "a84000"), "swap", "yyy"),
        ("proc/self/status", status(0, "284000"), "privileges", "lyn"),
        // The same of another user, without CAP_DAC_READ_SEARCH and with it; the folder of the lock is not this user's.
        ("proc/self/status", status(9, "a84000"), "privileges", "nyn"),
        ("proc/self/status", status(9, "a84004"), "lock-folder", "yyn"),
        ("proc/sys/kernel/seccomp/actions_avail", "kill_process allow".to_owned(), "seccomp", "nyy"),
        ("proc/sys/kernel/yama/ptrace_scope", "3".to_owned(), "ptrace-scope", "nyy"),
        ("proc/swaps", "Filename\n/dev/sda2 partition 8 0 -2".to_owned(), "swap", "lyy"),
        ("sys/devices/system/cpu/smt/active", "1".to_owned(), "smt", "lyy"),
        ("proc/cpuinfo", "flags : fpu clflush constant_tsc nonstop_tsc".to_owned(), "clock", "yny"),
        ("proc/cpuinfo", "flags : fpu clflush rdtscp constant_tsc".to_owned(), "clock", "yly"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality".to_owned(), "lockdown", "yyy"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1".to_owned(), "real-time-throttling", "yyy"),
        ("proc/version", "Linux version 6.12 SMP PREEMPT_RT".to_owned(), "preemption", "yyy"),
    ]
}

#[test]
fn each_defect_spoils_its_answer_and_names_its_check() {
    for (number, (path, text, id, expected)) in defects().into_iter().enumerate() {
        let files = Files::good(&format!("defect-{number}"));
        let before = Report::of(&files.facts());
        files.write(path, &text);
        let report = Report::of(&files.facts());
        assert_eq!(answers(&report), expected, "{path}: {report:#?}");
        let check = report.checks.iter().find(|check| check.id == id).expect(id);
        // Enough capabilities are as good as all.
        if id == "swap" && expected == "yyy" {
            continue;
        }
        assert_ne!(Some(check), before.checks.iter().find(|check| check.id == id), "{path} changes nothing");
        if expected != "yyy" {
            assert!(report.purposes.iter().any(|purpose| purpose.because.contains(&id)), "{path}: {report:#?}");
            assert!(check.remedy.is_some(), "{check:?}");
        }
    }
}

#[test]
fn each_failed_trial_and_lacking_part_spoils_its_answer() {
    type Spoil = fn(&mut Facts);
    let trials: [(Spoil, &str, &str); 7] = [
        (|facts| facts.trials.userfaultfd = Err("refused".to_owned()), "userfaultfd", "nyy"),
        (|facts| facts.trials.frame_numbers = Err("refused".to_owned()), "frame-numbers", "nly"),
        (|facts| facts.trials.software_counter = Err("refused".to_owned()), "software-counter", "yyn"),
        (|facts| facts.trials.traffic_counter = Err("refused".to_owned()), "traffic-counter", "yyl"),
        (|facts| facts.trials.programs = Err("refused".to_owned()), "bpf", "yyl"),
        (|facts| facts.trials.cgroup_v2 = Err("refused".to_owned()), "cgroup-v2", "yyl"),
        (|facts| facts.machine.cores.online_cpus = 1, "cpus", "yyl"),
    ];
    for (spoil, id, expected) in trials {
        let files = Files::good(id);
        let mut facts = files.facts();
        spoil(&mut facts);
        let report = Report::of(&facts);
        assert_eq!(answers(&report), expected, "{id}: {report:#?}");
        assert!(report.purposes.iter().any(|purpose| purpose.because.contains(&id)), "{report:#?}");
    }
}

#[test]
fn a_strict_level_of_performance_events_takes_more_than_cap_perfmon() {
    let files = Files::good("paranoid");
    // CAP_IPC_LOCK, CAP_SYS_NICE and CAP_PERFMON.
    files.write("proc/self/status", "Uid:\t0\t0\nCapEff:\t0000004000804000");
    for (level, expected) in [("2", Answer::Yes), ("3", Answer::No)] {
        files.write("proc/sys/kernel/perf_event_paranoid", level);
        let report = Report::of(&files.facts());
        assert_eq!(report.answer(Purpose::Regulate), expected, "{level}: {report:#?}");
    }
}

#[test]
fn an_old_kernel_matters_where_its_userfaultfd_moves_no_pages() {
    let files = Files::good("old");
    files.write("proc/sys/kernel/osrelease", "6.6.1-lts");
    let mut facts = files.facts();
    assert_eq!(answers(&Report::of(&facts)), "yyy", "a backport");
    facts.trials.userfaultfd = Err("refused".to_owned());
    let report = Report::of(&facts);
    assert_eq!(report.purposes[0].because, ["kernel-version", "userfaultfd"], "{report:#?}");
}

#[test]
fn the_kernel_series_needs_no_userspace_runtime() {
    let files = Files::good("floor");
    files.write("boot/config-6.12.9-amd64", "CONFIG_PERF_EVENTS=y\nCONFIG_CGROUPS=y\nCONFIG_BPF_SYSCALL=y");
    files.write("proc/self/status", "Uid:\t0\t0\nCapEff:\t0");
    files.write("proc/swaps", "Filename\n/dev/sda2 partition 8 0 -2");
    files.write("proc/sys/kernel/seccomp/actions_avail", "allow");
    files.write("proc/sys/kernel/yama/ptrace_scope", "3");
    let mut facts = files.facts();
    facts.trials.userfaultfd = Err("refused".to_owned());
    facts.trials.frame_numbers = Err("hidden".to_owned());
    assert_eq!(Report::of(&facts).answer(Purpose::Color), Answer::No);
    facts.trials.kernel_series = Ok(());
    let report = Report::of(&facts);
    assert_eq!(report.answer(Purpose::Color), Answer::Yes, "{report:#?}");
}

#[test]
fn without_freezing_what_takes_an_occupied_cpu_away_limits_regulation() {
    let files = Files::good("occupied");
    let mut facts = files.facts();
    facts.trials.cgroup_v2 = Err("not mounted".to_owned());
    let report = Report::of(&facts);
    let because = &report.purposes[2].because;
    assert_eq!(because, &["cgroup-v2", "real-time-throttling", "fair-server"], "{report:#?}");
}

#[test]
fn platforms_are_compared_with_the_machine() {
    let files = Files::good("platform");
    let with = |platform: Option<&str>| Report::of(&Facts::of_files(&files.0, platform.map(str::to_owned)));
    let none = with(None);
    assert_eq!(none.answer(Purpose::Color), Answer::Limited, "{none:#?}");
    let absent = with(Some("/nowhere/platform.toml"));
    assert_eq!(absent.answer(Purpose::Color), Answer::No, "{absent:#?}");
    let assumed = with(Some(&files.platform("source_kind = \"assumed\"\n")));
    let check = assumed.checks.iter().find(|check| check.id == "platform").unwrap();
    assert!(check.found.contains("assumed"), "{check:?}");
    assert_eq!(assumed.purposes[0].because, ["platform"], "{assumed:#?}");
}
