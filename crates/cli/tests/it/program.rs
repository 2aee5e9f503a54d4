//! Does the program behave? The real binary: help, shapes of JSON, wrong inputs, exit statuses.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const PLATFORM: &str = "skl-e3-1220v5-4x4g";

fn memtint(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    memtint(arguments).output().expect("the binary was built for this test")
}

/// Standard output of a call that must succeed.
fn text(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text is UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    let text = text(&[&["--format", "json"], arguments].concat());
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    assert!(text.ends_with("}\n"), "JSON ends in a line's end");
    crate::shared::check_printed(arguments, &value);
    value
}

/// Status and message of a call that must fail; on standard output is nothing, or an error where JSON was asked for.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = output(arguments);
    if arguments.contains(&"json") && arguments.first() != Some(&"run") {
        let error: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        crate::shared::check("error", &error);
        assert_eq!(error["status"].as_i64(), output.status.code().map(i64::from), "{error}");
    } else {
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    (output.status.code(), String::from_utf8(output.stderr).expect("messages are UTF-8"))
}

/// A directory of this test's own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("memtint-program-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).expect("the directory was made above");
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process to look at.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let child = Command::new("sleep").arg("3600").stdout(Stdio::null()).spawn().expect("sleep is everywhere");
        let sleeper = Self(child);
        // Until the image is replaced, its own pages are in place, and it sleeps: no other call of it waits.
        while !sleeper.sleeps() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        sleeper
    }

    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        stat.contains("(sleep) S ")
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn privileged() -> bool {
    let visible = std::fs::read_to_string("/proc/iomem").is_ok_and(|text| {
        text.lines().any(|line| line.ends_with(": System RAM") && !line.starts_with("00000000-00000000"))
    });
    if !visible {
        memtint_testing::skip("CAP_SYS_ADMIN to see physical addresses");
    }
    visible
}

#[test]
fn help_and_version_are_answers() {
    assert!(text(&["--version"]).starts_with("memtint 0."));
    let help = text(&["--help"]);
    for verb in ["run", "inspect", "draw", "palette", "platform", "bench"] {
        assert!(help.contains(&format!("\n  {verb}")), "{verb} is missing in {help}");
        assert!(text(&[verb, "--help"]).contains("Usage: memtint"), "{verb}");
    }
    // What is wrapped twice has short lines in the middle of its paragraphs.
    for verb in [["analyze"].as_slice(), &["refresh", "plan"], &["dram", "replay"], &["bench", "probe"]] {
        let help = text(&[verb, &["--help"]].concat());
        let after = help.split_once("Print help").expect("options end with --help").1;
        for lines in after.lines().collect::<Vec<_>>().windows(2) {
            let next = lines[1].split(' ').next().unwrap_or_default();
            let ends = lines[0].is_empty() || lines[0].ends_with('.') || next.is_empty();
            assert!(ends || lines[0].len() + 1 + next.len() > 90, "{verb:?}: {lines:?}");
        }
    }
    let run = text(&["run", "--help"]);
    for option in [
        "--platform",
        "--banks",
        "--sets",
        "--node",
        "--granule",
        "--strict",
        "--soft",
        "--floor",
        "--prefault",
        "--cores",
        "--report",
        "--system",
        "--task",
        "--user",
        "--search-memory",
        "--ignore",
        "--pid-file",
        "--platform-assumed",
    ] {
        assert!(run.contains(option), "{option} is missing in {run}");
    }
}

#[test]
fn misuse_ends_with_2_and_that_of_run_with_125() {
    assert_eq!(refused(&[]).0, Some(2));
    assert_eq!(refused(&["dance"]).0, Some(2));
    assert_eq!(refused(&["inspect"]).0, Some(2));
    assert_eq!(refused(&["inspect", "1", "--cgroup", "/"]).0, Some(2));
    assert_eq!(refused(&["run"]).0, Some(125));
    assert_eq!(refused(&["run", "--strict", "--soft", "--", "true"]).0, Some(125));
    let (status, message) = refused(&["run", "--platform", PLATFORM, "--", "true"]);
    assert_eq!(status, Some(125));
    assert!(message.contains("--banks") && message.contains("--system"), "{message}");
    let (status, message) = refused(&["run", "--banks", "0", "--", "true"]);
    assert_eq!(status, Some(125));
    assert!(message.contains("--platform") && message.contains("MEMTINT_PLATFORM"), "{message}");
}

/// Numbers of classes without memory are not counted, and named, in text and JSON.
#[test]
fn a_palette_counts_the_classes_that_have_memory() {
    let directory = Directory::new("empty-classes");
    let all = json(&["palette", PLATFORM]);
    assert_eq!((&all["isolation_classes"], &all["class_numbers"]), (&16.into(), &16.into()));
    assert_eq!(all["classes_without_memory"], "");
    // The highest function bit lies above the memory: half of the numbers have none.
    let file = directory.0.join("half.toml");
    let half = "schema = 1\nid = \"half\"\nname = \"half\"\n[dram]\nstandard = \"DDR4\"\naddress_bits = 34\ncomplete = false\n\
                source = \"none\"\nfunctions = [{ role = \"unknown\", bits = [13] }, { role = \"unknown\", bits = [33] }]\n\
                [[region]]\nbase = 0\nsize = \"4 GiB\"\nsource = \"none\"\n";
    std::fs::write(&file, half).expect("the directory is there");
    let file = file.to_str().expect("its name is text");
    let found = json(&["palette", file]);
    assert_eq!((&found["isolation_classes"], &found["class_numbers"]), (&2.into(), &4.into()), "{found}");
    let without = found["classes_without_memory"].as_str().expect("a list");
    assert_eq!(without.split([',', '-']).count(), 2, "{without}");
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("2 of the 4 class numbers have no memory on this platform"), "{warnings}");
    let text = text(&["palette", file]);
    assert!(text.contains("isolation classes   2, numbered 0-3; 2 numbers have no memory"), "{text}");
}

/// Bank functions as Blacksmith, ZenHammer and TRRespass' DRAMA write them.
#[test]
fn masks_of_other_tools_are_imported() {
    let directory = Directory::new("masks");
    let place = directory.0.join("masks.txt");
    let file = place.to_str().expect("its name is text");
    for (text, bits) in [
        ("0x2040\n0x24000\n0x48000\n0x90000\n", vec![[6, 13], [14, 17], [15, 18], [16, 19]]),
        (
            "   Valid Function: 0x4080\t\t bits: 7 + 14 \n   Valid Function: 0x88000\t\t bits: 15 + 19\n",
            vec![[7, 14], [15, 19]],
        ),
    ] {
        std::fs::write(&place, text).expect("the directory is there");
        let found = json(&["platform", "import", file, "--id", "x", "--size", "16GiB"]);
        let functions = found["dram"]["functions"].as_array().expect("a list");
        let found: Vec<&Value> = functions.iter().map(|function| &function["bits"]).collect();
        assert_eq!(
            found,
            bits.iter().map(|bits| serde_json::json!(bits)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn wrong_inputs_are_answered_with_what_would_be_accepted() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["palette", "no-such-machine"], &["no-such-machine", "catalogue"]),
        (&["palette", "./no-such-file.toml"], &["no-such-file.toml"]),
        (&["palette", PLATFORM, "--granule", "3K"], &["3K", "64K"]),
        (&["palette", PLATFORM, "--kernel"], &["16 bank classes times 128 set colors", "1024", "banks alone"]),
        (&["palette", PLATFORM, "--banks-only"], &["--kernel"]),
        (&["palette", "skx-open-3ch1r", "--kernel"], &["region 0", "3 channels by a modulus", "XOR"]),
        (&["--format", "json", "palette", PLATFORM, "--kernel"], &["--kernel", "--format text"]),
        (&["inspect", "1", "--platform", PLATFORM, "--banks", "0-99"], &["99", "0-15"]),
        (&["inspect", "1", "--platform", PLATFORM, "--banks", "+1"], &["+1", "relative"]),
        (&["inspect", "1", "--platform", PLATFORM, "--banks", "3-1"], &["3-1", "1-3"]),
        (&["inspect", "1", "--system", "p.toml"], &["--task"]),
        (&["inspect", "1", "--system", "./none.toml", "--task", "a"], &["none.toml"]),
        (&["inspect", "one", "--platform", PLATFORM], &["one"]),
        (&["draw", "./none.json"], &["none.json"]),
    ];
    for (arguments, parts) in cases {
        let (status, message) = refused(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {message}");
        for part in *parts {
            assert!(message.contains(part), "{arguments:?}: {part:?} is missing in {message}");
        }
    }
}

#[test]
fn the_catalogue_is_listed_and_every_entry_can_be_shown() {
    let list = json(&["platform", "list"]);
    let platforms = list["platforms"].as_array().expect("a list");
    assert!(platforms.len() >= 50 && list["schema"] == 1);
    let table = text(&["platform", "list"]);
    for platform in platforms {
        let id = platform["id"].as_str().expect("a name");
        assert!(table.contains(id));
        assert!(text(&["platform", "show", id]).starts_with(id));
    }
    assert_eq!(json(&["platform", "show", PLATFORM])["platform"]["id"], PLATFORM);
    let directory = Directory::new("show");
    let copy = directory.write("copy.toml", &text(&["platform", "show", PLATFORM, "--toml"]));
    assert_eq!(json(&["palette", &copy])["platform"], PLATFORM);
}

#[test]
fn a_palette_has_what_scripts_rely_on() {
    let palette = json(&["palette", PLATFORM]);
    assert_eq!((&palette["schema"], &palette["report"]), (&1.into(), &"palette".into()));
    assert_eq!(palette["granule_bytes"], 4096);
    assert_eq!((&palette["banks"], &palette["banks_per_granule"]), (&64.into(), &4.into()));
    assert_eq!(palette["isolation_classes"], 16);
    let (classes, pairs) =
        (palette["classes"].as_array().expect("a list"), palette["pairs"].as_array().expect("a list"));
    assert_eq!(classes.len(), 16);
    let mut members: Vec<u64> = classes
        .iter()
        .flat_map(|class| class["members"].as_array().expect("a list"))
        .filter_map(Value::as_u64)
        .collect();
    members.sort_unstable();
    assert_eq!(members, (0..64).collect::<Vec<u64>>(), "each bank is in one class");
    assert!(!pairs.is_empty() && pairs.iter().all(|pair| pair["granules"].as_u64() > Some(0)));
    assert!(palette["set_colors"].as_u64() > Some(0));
    assert!(palette["warnings"][0].as_str().is_some_and(|warning| warning.contains("raw bank numbers mislead")));
    assert!(text(&["palette", PLATFORM]).contains("warning: raw bank numbers mislead"));
    assert_eq!(json(&["palette", PLATFORM, "--granule", "2M"])["granule_bytes"], 2 << 20);
}

#[test]
fn the_kernel_gets_its_mapping_in_a_text_of_its_own() {
    let text = text(&["palette", PLATFORM, "--kernel", "--banks-only"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["memtint-map 1", "granule 4096", "region 0x0-0x400000000 node 0"]);
    assert!(lines[3..9].iter().all(|line| line.starts_with("bank 0x")) && lines[9..] == ["end"], "{text}");
}

#[test]
fn functions_go_out_to_other_tools_and_come_back() {
    let map = text(&["platform", "export", PLATFORM]);
    let directory = Directory::new("map");
    let file = directory.write("map.txt", &map);
    let platform = text(&["platform", "import", &file, "--id", "came-back", "--size", "16GiB"]);
    let platform = directory.write("came-back.toml", &platform);
    assert_eq!(text(&["platform", "export", &platform]), map);
    assert_eq!(json(&["palette", &platform])["isolation_classes"], 16);
    let wrong = directory.write("wrong.txt", "14 18\nfifteen\n");
    let (status, message) = refused(&["platform", "import", &wrong, "--id", "x", "--size", "16GiB"]);
    assert!(status == Some(2) && message.contains("line 2") && message.contains("fifteen"), "{message}");
}

#[test]
fn this_machine_says_what_it_is_and_lends_itself_to_a_first_try() {
    let report = json(&["platform", "detect"]);
    assert_eq!((&report["schema"], &report["report"]), (&1.into(), &"machine".into()));
    assert!(report["machine"]["cores"]["online_cpus"].as_u64() > Some(0));
    assert!(text(&["platform", "detect"]).contains("--functions-of"));
    if !privileged() {
        return;
    }
    let directory = Directory::new("detect");
    let here = text(&["platform", "detect", "--functions-of", PLATFORM, "--cache-of", PLATFORM]);
    assert!(here.contains("assumed"));
    assert_eq!(json(&["platform", "detect", "--functions-of", PLATFORM])["dram"]["source_kind"], "assumed");
    let here = directory.write("here.toml", &here);
    let palette = json(&["palette", &here]);
    assert_eq!(palette["isolation_classes"], 16);
    assert!(palette["set_colors"].as_u64() > Some(1));
    assert!(palette["warnings"].to_string().contains("assumed"));
}

/// A file with a platform of this machine, so that no frame is outside.
fn here(directory: &Directory) -> String {
    directory.write("here.toml", &text(&["platform", "detect", "--functions-of", PLATFORM]))
}

#[test]
fn inspecting_ends_with_the_verdict() {
    if !privileged() {
        return;
    }
    let directory = Directory::new("inspect");
    let (here, sleeper) = (here(&directory), Sleeper::start());
    let pid = sleeper.pid();
    let held = json(&["inspect", &pid, "--platform", &here, "--banks", "all", "--node", "0"]);
    assert_eq!((&held["verdict"], &held["schema"]), (&"held".into(), &1.into()));
    let unjudged = json(&["inspect", &pid, "--platform", &here]);
    assert_eq!((&unjudged["verdict"], &unjudged["selection"]), (&Value::Null, &Value::Null));

    let svg = directory.path("pages.svg");
    let violated = output(&["inspect", &pid, "--platform", &here, "--banks", "0", "--svg", &svg]);
    let printed = String::from_utf8_lossy(&violated.stdout);
    assert_eq!(violated.status.code(), Some(1), "{printed}");
    assert!(printed.contains("verdict: violated") && printed.contains("out of color"), "{printed}");
    assert!(std::fs::read_to_string(&svg).expect("was asked for").starts_with("<svg"));

    let report = output(&["--format", "json", "inspect", &pid, "--platform", &here, "--banks", "0"]);
    let report = directory.write("report.json", &String::from_utf8_lossy(&report.stdout));
    let both = text(&["draw", &report, &report]);
    assert!(both.starts_with("<svg") && both.matches("sleep").count() >= 2);

    let plan = "schema = 1\nplatform = \"here.toml\"\n[[task]]\nname = \"a\"\nbanks = \"0\"\n";
    let plan = directory.write("plan.toml", plan);
    let planned = output(&["inspect", &pid, "--system", &plan, "--task", "a"]);
    assert_eq!(planned.status.code(), Some(1), "{planned:?}");
    let (status, message) = refused(&["inspect", &pid, "--system", &plan, "--task", "b"]);
    assert!(status == Some(2) && message.contains("\"b\"") && message.contains("\"a\""), "{message}");
}

#[test]
fn the_platform_can_come_from_the_environment() {
    if !privileged() {
        return;
    }
    let directory = Directory::new("environment");
    let (here, sleeper) = (here(&directory), Sleeper::start());
    let output = memtint(&["inspect", &sleeper.pid()]).env("MEMTINT_PLATFORM", here).output();
    let output = output.expect("the binary was built for this test");
    assert!(
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("this-machine-as"),
        "{output:?}"
    );
}

/// The verdict would be about another machine's banks.
#[test]
fn a_platform_of_another_machine_is_refused_by_inspect() {
    if !privileged() {
        return;
    }
    let sleeper = Sleeper::start();
    let arguments = ["inspect", &sleeper.pid(), "--platform", "jetson-nano", "--banks", "0"];
    let (status, message) = refused(&arguments);
    assert_eq!(status, Some(2), "{message}");
    assert!(message.contains("is not this machine's") && message.contains("--platform-assumed"), "{message}");
    let assumed = output(&[&arguments[..], &["--platform-assumed"]].concat());
    assert_eq!(assumed.status.code(), Some(1), "{assumed:?}");
    assert!(String::from_utf8_lossy(&assumed.stderr).contains("not this machine's"), "{assumed:?}");
}

#[test]
fn a_process_that_is_not_there_is_a_failure() {
    if !privileged() {
        return;
    }
    let directory = Directory::new("absent");
    let here = here(&directory);
    let (status, message) = refused(&["inspect", "4194999", "--platform", &here]);
    assert_eq!((status, message.lines().last()), (Some(2), Some("memtint: process 4194999 does not exist")));
    let (status, message) = refused(&["inspect", "--cgroup", "/no/such/group", "--platform", &here]);
    assert!(status == Some(2) && message.contains("not a cgroup"), "{message}");
}

#[test]
fn without_privileges_one_sentence_says_what_is_needed() {
    if !privileged() {
        return;
    }
    // The build directory may be closed to other users; the temporary directory is not.
    let directory = Directory::new("nobody");
    let binary = directory.path("memtint");
    // By another process: a file that any process has open for writing cannot be executed, and what this one has open is
    // for a moment open in each child of the other tests, too.
    let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_memtint"), &binary]).status();
    assert!(copied.expect("cp is everywhere").success());
    let sleeper = Sleeper::start();
    const NOBODY: u32 = 65534;
    let output = Command::new(&binary)
        .args(["inspect", &sleeper.pid(), "--platform", PLATFORM])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir(Path::new("/"))
        .output()
        .expect("the copy can be executed");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("CAP_SYS_ADMIN") && message.trim_end().lines().count() == 1, "{message}");
}

#[test]
fn short_options_are_the_long_ones() {
    let ending = |words: &[&str]| {
        let output = output(words);
        let said = String::from_utf8(output.stderr).expect("messages are UTF-8");
        // Temporary files have the number of the process.
        (output.status.code(), said.replace(|letter: char| letter.is_ascii_digit(), ""))
    };
    let pairs: [(&[&str], &[&str]); 4] = [
        (&["run", "-p", "nowhere", "true"], &["run", "--platform", "nowhere", "true"]),
        (&["run", "-p", PLATFORM, "-C", "99999", "true"], &["run", "--platform", PLATFORM, "--cores", "99999", "true"]),
        (&["trace", "record", "-o", "/nowhere/a", "true"], &["trace", "record", "--output", "/nowhere/a", "true"]),
        (
            &["probe", "--simulate", PLATFORM, "-o", "/nowhere/a"],
            &["probe", "--simulate", PLATFORM, "--out", "/nowhere/a"],
        ),
    ];
    for (short, long) in pairs {
        let found = ending(short);
        assert!(found.0 != Some(0) && !found.1.contains("unexpected argument"), "{short:?}: {found:?}");
        assert_eq!(found, ending(long), "{short:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = memtint(&["--format", "json", "platform", "list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    drop(child.stdout.take());
    let mut message = String::new();
    child.stderr.take().expect("was piped").read_to_string(&mut message).expect("messages are UTF-8");
    let status = child.wait().expect("the child is ours");
    assert!(status.success() && message.is_empty(), "{status:?}: {message}");
}
