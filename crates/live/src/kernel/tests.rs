use super::*;
use std::fs;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};

const ONE: &str = "memtint-map 1\ngranule 4096\nregion 0x0-0x40000000 node 0\nbank 0x22000\nend\n";
const OTHER: &str = "memtint-map 1\ngranule 4096\nregion 0x0-0x40000000 node 0\nbank 0x44000\nend\n";
const STAT: &str = "colored 4711\nfallback 0\nrefused 3\nexhausted 0\nkilled 0\n";

/// A folder that stands in for debugfs and a cgroup. Behavior that plain files lack is tested in `kernel/guest`.
struct Stand(PathBuf);

impl Stand {
    fn new(name: &str, map: &str) -> Stand {
        let folder = std::env::temp_dir().join(format!("memtint-kernel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("group")).unwrap();
        for (file, text) in [("map", map), ("stat", "policies 0\n"), ("group/cgroup.subtree_control", "cpu memory\n")] {
            fs::write(folder.join(file), text).unwrap();
        }
        Stand(folder)
    }

    fn asked(&self, mappings: &[&str]) -> KernelOptions {
        KernelOptions {
            floor: KernelFloor::at(self.0.clone(), Some(self.0.join("group"))),
            platform: "here".to_owned(),
            mappings: mappings.iter().map(|&text| text.to_owned()).collect(),
            banks: Some("0-3,8".to_owned()),
            sets: None,
        }
    }

    fn map(&self) -> String {
        fs::read_to_string(self.0.join("map")).unwrap()
    }

    /// Without a mapping; policies are written to a file that has counters after its first line.
    fn with_policies(name: &str) -> Stand {
        let stand = Stand::new(name, "none\n");
        fs::write(stand.0.join("task"), format!("{}\n{STAT}", ".".repeat(60))).unwrap();
        stand
    }
}

/// The content after ONE was loaded and unloaded: a plain file keeps the text after the first five bytes.
fn unloaded() -> String {
    format!("none\n{}", &ONE[5..])
}

struct Any;

impl FrameChoice for Any {
    fn contains(&self, _: memtint_units::Pfn) -> bool {
        true
    }
    fn looks_per_page(&self) -> f64 {
        1.0
    }
    fn label(&self) -> String {
        "any".to_owned()
    }
}

fn options(asked: &KernelOptions, command: &[&str]) -> RunOptions {
    RunOptions {
        command: command.iter().map(Into::into).collect(),
        choice: Box::new(Any),
        strict: true,
        cores: None,
        cgroup: None,
        user: None,
        floor: crate::Floor::Kernel(asked.clone()),
        started: None,
        ended: None,
    }
}

/// Runs a test in a separate process: a run blocks signals, waits for children and needs a single thread.
fn in_a_process(test: impl FnOnce()) {
    const SECONDS_MAX: u32 = 60;
    let process = sys::fork().unwrap();
    if process == 0 {
        // SAFETY: takes a number.
        unsafe { libc::alarm(SECONDS_MAX) };
        let ended = panic::catch_unwind(AssertUnwindSafe(test));
        if let Err(panic) = &ended {
            // The test harness captures the usual output of its process.
            let _ = writeln!(io::stderr(), "{:?}", panic.downcast_ref::<String>());
        }
        // SAFETY: ends this copy, which has nothing to leave behind.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
    assert_eq!(status, 0, "the process of the run ended so");
}

impl Drop for Stand {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_absent_floor_says_why() {
    let stand = Stand::new("absent", "none\n");
    let floor = stand.asked(&[ONE]).floor;
    assert_eq!(floor.absence(), None);
    fs::remove_file(stand.0.join("map")).unwrap();
    let why = floor.absence().unwrap();
    assert!(why.contains("map does not exist") && why.contains("debugfs"), "{why}");
}

#[test]
fn a_mapping_is_loaded_where_there_is_none() {
    let stand = Stand::new("loads", "none\n");
    let loaded = mapping::have(&stand.asked(&[ONE])).unwrap();
    assert!(loaded.by_us);
    assert_eq!(stand.map(), ONE);
}

#[test]
fn a_mapping_that_fits_is_used_and_stays() {
    for mappings in [&[ONE, OTHER], &[OTHER, ONE]] {
        let stand = Stand::new("fits", ONE);
        let loaded = mapping::have(&stand.asked(mappings)).unwrap();
        assert!(!loaded.by_us && !loaded.unload(&mut |line| panic!("{line}")));
        assert_eq!(stand.map(), ONE);
    }
}

#[test]
fn another_mapping_is_never_replaced() {
    let stand = Stand::new("other", ONE);
    let error = mapping::have(&stand.asked(&[OTHER])).unwrap_err().to_string();
    assert!(error.contains(r#"line 4 is "bank 0x22000", wanted is "bank 0x44000""#), "{error}");
    assert!(error.contains("\"here\"") && error.contains("it is not in use"), "{error}");
    fs::write(stand.0.join("stat"), "policies 2\n").unwrap();
    let error = mapping::have(&stand.asked(&[OTHER])).unwrap_err().to_string();
    assert!(error.contains("it is in use"), "{error}");
    let longer = ONE.replace("end\n", "bank 0x88000\nend\n");
    let error = mapping::have(&stand.asked(&[&longer])).unwrap_err().to_string();
    assert!(error.contains(r#"line 5 is "end", wanted is "bank 0x88000""#), "{error}");
    assert_eq!(stand.map(), ONE);
}

#[test]
fn turns_exclude_each_other() {
    let stand = Stand::new("turns", "none\n");
    let floor = stand.asked(&[ONE]).floor;
    let turn = mapping::take_turn(&floor).unwrap();
    let second = fs::File::open(floor.file("map")).unwrap();
    assert!(second.try_lock().is_err());
    drop(turn);
    second.try_lock().unwrap();
}

#[test]
fn policies_are_written_in_the_kernels_words() {
    let stand = Stand::new("words", "none\n");
    let text = |banks: Option<&str>, sets: Option<&str>, strict| {
        let asked =
            KernelOptions { banks: banks.map(str::to_owned), sets: sets.map(str::to_owned), ..stand.asked(&[ONE]) };
        policy::text(&asked, strict)
    };
    assert_eq!(text(Some("0-3,8"), None, true).unwrap(), "strict 0-3,8");
    assert_eq!(text(Some("0"), Some("1-2"), false).unwrap(), "soft 0 1-2");
    assert_eq!(text(None, Some("1"), true).unwrap(), "strict * 1");
    let long = vec!["0"; 300].join(",");
    assert!(matches!(text(Some(&long), None, true), Err(RunError::ListTooLong { accepted: 511, .. })));
}

#[test]
fn a_run_that_cannot_begin_leaves_no_mapping() {
    let stand = Stand::new("cannot", "none\n");
    let asked = KernelOptions { banks: Some(vec!["0"; 300].join(",")), ..stand.asked(&[ONE]) };
    in_a_process(|| {
        let error = run(&options(&asked, &["true"]), &asked, &mut |line| panic!("{line}")).err().unwrap();
        assert!(matches!(error, RunError::ListTooLong { .. }), "{error}");
    });
    assert_eq!(stand.map(), unloaded());
}

#[test]
fn a_run_loads_reports_and_unloads() {
    let stand = Stand::with_policies("whole");
    let asked = stand.asked(&[ONE]);
    in_a_process(|| {
        let mut told = Vec::new();
        let command = ["sh", "-c", "exit 7"];
        let status = run(&options(&asked, &command), &asked, &mut |line| told.push(line.to_owned())).unwrap();
        assert_eq!((status.code, status.signal), (7, None));
        assert_eq!(told, ["kernel floor (policy, mapping loaded): strict, any"]);
        let report = status.report.unwrap();
        assert_eq!((report.verdict, report.pages_in_color), (Some(crate::RunVerdict::Held), 4711));
        let kernel = report.kernel.unwrap();
        assert!(kernel.mapping_loaded && kernel.mapping_unloaded && kernel.counters["refused"] == 3, "{kernel:?}");
    });
    assert_eq!(stand.map(), unloaded());
    assert!(fs::read_to_string(stand.0.join("task")).unwrap().starts_with("strict 0-3,8."));
}

#[test]
fn a_signal_before_there_is_a_program_is_the_programs() {
    let stand = Stand::with_policies("interrupted");
    let asked = stand.asked(&[ONE]);
    in_a_process(|| {
        let interrupt = |_: &str| {
            // SAFETY: takes a number.
            unsafe { libc::raise(libc::SIGTERM) };
        };
        let status = run(&options(&asked, &["sleep", "60"]), &asked, &mut { interrupt }).unwrap();
        assert_eq!((status.code, status.signal), (143, Some(libc::SIGTERM)));
    });
    assert_eq!(stand.map(), unloaded());
}

#[test]
fn a_mapping_that_cannot_be_unloaded_is_told() {
    let stand = Stand::with_policies("stays");
    let asked = stand.asked(&[ONE]);
    let file = stand.0.join("map");
    in_a_process(|| {
        let mut told = Vec::new();
        let command = ["rm", file.to_str().unwrap()];
        let status = run(&options(&asked, &command), &asked, &mut |line| told.push(line.to_owned())).unwrap();
        let kernel = status.report.unwrap().kernel.unwrap();
        assert!(kernel.mapping_loaded && !kernel.mapping_unloaded);
        let why = told.last().unwrap();
        assert!(why.contains("stays") && why.contains(command[1]) && why.contains("No such file"), "{why}");
    });
}

#[test]
fn an_older_fault_is_no_reason() {
    let stand = Stand::new("fault", "none\n");
    let fault = stand.0.join("fault");
    let reason = |code| mapping::reason(&io::Error::from_raw_os_error(code), &fault);
    assert!(reason(libc::EINVAL).contains("Invalid argument"), "without the file it is the system's error");
    fs::write(&fault, "line 3: a bank function is 0\n").unwrap();
    assert_eq!(reason(libc::EINVAL), "line 3: a bank function is 0");
    assert!(reason(libc::E2BIG).contains("too long"), "{}", reason(libc::E2BIG));
}

#[test]
fn a_refusal_names_file_and_text() {
    let refused = |code| refused(Path::new("/here/task"), "strict 9", io::Error::from_raw_os_error(code)).to_string();
    for (code, words) in
        [(libc::EPERM, "memory.colors.effective"), (libc::ENODEV, "unloaded"), (libc::EIO, "Input/output")]
    {
        let error = refused(code);
        assert!(error.starts_with("/here/task did not take \"strict 9\": ") && error.contains(words), "{error}");
    }
}

#[test]
fn counters_are_read_behind_the_policy_and_missed_when_they_are_not_there() {
    let found = counters(&format!("strict 0-3\n{STAT}")).unwrap();
    assert_eq!((found["colored"], found["refused"], found.len()), (4711, 3, 5));
    assert_eq!(counters("none\n"), None);
    assert_eq!(counters(&STAT.replace("fallback", "fall")), None);
}

#[test]
fn a_cgroup_without_colors_is_no_way_and_leaves_nothing() {
    let stand = Stand::new("group", ONE);
    let (asked, parent) = (stand.asked(&[ONE]), stand.0.join("group"));
    // No kernel makes files in this folder.
    assert!(Group::below(&parent, &asked, true).unwrap().is_none());
    fs::write(parent.join("cgroup.subtree_control"), "cpu\n").unwrap();
    assert!(Group::below(&parent, &asked, true).unwrap().is_none());
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 1, "only cgroup.subtree_control is left");
}
