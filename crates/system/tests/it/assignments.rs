//! Does a system file become the assignment that it describes, and does each refusal name what would be accepted?

use memtint_system::{Assignment, Mode, SystemError, SystemFile};
use memtint_units::Picoseconds;
use proptest::prelude::*;

const PLATFORM: &str = "nehalem-w3530"; // 16 bank classes at 4 KiB: four plain bits above the page

fn system(tasks: &str) -> String {
    format!("schema = 1\nplatform = \"{PLATFORM}\"\n{tasks}")
}

fn task(name: &str, rest: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\n{rest}\n")
}

fn refusal(text: &str) -> String {
    Assignment::parse(text, "p.toml").map(|_| ()).expect_err("must be refused").to_string()
}

#[test]
fn a_system_gives_each_task_its_colors() {
    let text = system(&format!(
        "granule = \"4K\"\n{}{}",
        task(
            "a",
            "banks = \"0-3\"\ncores = \"1,3\"\nmode = \"strict\"\nbandwidth = { budget = \"1 MiB\", period = \"1 ms\" }"
        ),
        task("b", "banks = \"!0-3\"\nmode = \"soft\"\nrefresh = \"0-1\""),
    ));
    let assignment = Assignment::parse(&text, "p.toml").unwrap_or_else(|error| panic!("{error}"));
    let (a, b) = (assignment.task("a").expect("is there"), assignment.task("b").expect("is there"));
    assert_eq!(a.selection().banks.as_ref().map(ToString::to_string).as_deref(), Some("0-3"));
    assert_eq!(b.selection().banks.as_ref().map(ToString::to_string).as_deref(), Some("4-15"));
    assert_eq!(a.cores(), Some([1, 3].as_slice()));
    assert_eq!((a.mode(), b.mode()), (Mode::Strict, Mode::Soft));
    assert_eq!(a.bandwidth().map(|bandwidth| bandwidth.period.0), Some(Picoseconds::from_ns(1_000_000)));
    assert_eq!(assignment.platform().id(), PLATFORM);
}

#[test]
fn wrong_values_are_refused_by_file_field_found_and_accepted() {
    let cases = [
        (system("").replace("schema = 1", "schema = 2") + &task("a", ""), vec!["schema is 2", "1 to 1"]),
        (system(""), vec!["missing: task", "[[task]]"]),
        (system(&task("a", "bank = \"0\"")), vec!["task \"a\": \"bank\" is no field; the nearest is \"banks\""]),
        (system(&task("a b", "")), vec!["name", "\"a b\"", "letters"]),
        (system(&(task("a", "banks = \"0\"") + &task("a", "banks = \"1\""))), vec!["\"a\" twice"]),
        (system(&task("a", "banks = \"0-99\"")), vec!["task \"a\"", "99", "0-15"]),
        (system(&task("a", "banks = \"!99\"")), vec!["task \"a\"", "99", "0-15"]),
        (system(&task("a", "banks = \"+0-1\"")), vec!["+0-1", "relative"]),
        (system(&task("a", "node = \"7\"")), vec!["node 7"]),
        (system(&task("a", "cores = \"all\"")), vec!["cores", "\"all\"", "0-3,8"]),
        (system(&task("a", "cores = \"0-4294967290\"")), vec!["cores", "8192"]),
        (system(&task("a", "mode = \"hard\"")), vec!["hard", "strict", "soft"]),
        (
            system(&task("a", "bandwidth = { budget = 0, period = \"1 us\" }")),
            vec!["task \"a\": bandwidth.budget is 0"],
        ),
        (
            system(&task("a", "bandwidth = { budget = 1, period = \"0 us\" }")),
            vec!["task \"a\": bandwidth.period is \"0 ps\""],
        ),
        (system("granule = \"3K\"\n") + &task("a", ""), vec!["3", "64K"]),
        (system(&task("a", "")).replace(PLATFORM, "no-such-machine"), vec!["no-such-machine"]),
    ];
    for (text, parts) in cases {
        let message = refusal(&text);
        assert!(message.starts_with("p.toml: ") && !message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{part:?} is missing in {message:?}");
        }
    }
}

#[test]
fn tasks_share_colors_only_if_both_say_so() {
    let both = |first: &str, second: &str| system(&(task("a", first) + &task("b", second)));
    let accepted = |text: &str| Assignment::parse(text, "p.toml").is_ok();
    let message = refusal(&both("banks = \"0-3\"", "banks = \"2-5\""));
    assert!(
        message.contains("\"a\"") && message.contains("\"b\"") && message.contains("bank classes 2-3"),
        "{message}"
    );
    assert!(!accepted(&both("banks = \"0-3\"\nshared = true", "banks = \"2-5\"")), "only one says so");
    assert!(accepted(&both("banks = \"0-3\"\nshared = true", "banks = \"2-5\"\nshared = true")));
    assert!(accepted(&both("banks = \"0-3\"", "banks = \"4-15\"")));
    assert!(!accepted(&both("banks = \"0-3\"", "")), "a task that names nothing may be anywhere");
    assert!(!accepted(&both("", "")));
}

#[test]
fn a_task_that_does_not_exist_is_answered_with_those_that_do() {
    let assignment = Assignment::parse(&system(&task("a", "")), "p.toml").expect("is valid");
    let message = assignment.task("z").expect_err("is not there").to_string();
    assert!(message.contains("\"z\"") && message.contains("\"a\""), "{message}");
}

#[test]
fn a_platform_file_is_found_beside_the_plan() {
    let directory = std::env::temp_dir().join(format!("memtint-plan-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let text = memtint_map::catalogue::text(PLATFORM).expect("is in the catalogue");
    std::fs::write(directory.join("here.toml"), text).expect("is writable");
    std::fs::write(directory.join("p.toml"), system(&task("a", "")).replace(PLATFORM, "here.toml"))
        .expect("is writable");
    let loaded = Assignment::load(&directory.join("p.toml"));
    let missing = Assignment::load(&directory.join("q.toml"));
    std::fs::remove_dir_all(&directory).expect("was made above");
    assert_eq!(loaded.unwrap_or_else(|error| panic!("{error}")).platform_spec(), "here.toml");
    assert!(matches!(missing, Err(SystemError::Read { .. })));
}

/// Text near enough to a plan that some of it gets past the first checks.
fn near_plan() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("schema = 1\n".to_owned()),
        Just(format!("platform = \"{PLATFORM}\"\n")),
        Just("granule = \"64K\"\n".to_owned()),
        Just("[[task]]\n".to_owned()),
        Just("[task]\n".to_owned()),
        "name = \"[a-c]{1,2}\"\n",
        "(banks|sets|node|cores|refresh) = \"[!0-9,\\-al]{0,8}\"\n",
        "mode = \"(strict|soft|x)\"\n",
        "shared = (true|false|1)\n",
        "bandwidth = \\{ budget = [0-9]{1,3}, period = \"[0-9]{1,3} us\" \\}\n",
        "\\PC{0,12}\n",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_refused_and_never_panics(text in near_plan()) {
        if let Err(error) = Assignment::parse(&text, "p.toml") {
            let message = error.to_string();
            prop_assert!(message.contains("p.toml"), "{}", message);
        }
    }

    #[test]
    fn bytes_of_any_kind_never_panic(text in "\\PC{0,200}") {
        let _ = Assignment::parse(&text, "p.toml");
    }

    #[test]
    fn writing_and_reading_again_changes_nothing(
        banks in proptest::option::of("(all|none|!?[0-9]{1,2}(,[0-9]{1,2}){0,3})"),
        sets in proptest::option::of("[0-9]{1,2}"),
        soft in any::<bool>(),
        shared in any::<bool>(),
        budget in proptest::option::of(1u64..1 << 40),
    ) {
        let mut rest = String::new();
        if let Some(banks) = &banks { rest += &format!("banks = \"{banks}\"\n"); }
        if let Some(sets) = &sets { rest += &format!("sets = \"{sets}\"\n"); }
        if soft { rest += "mode = \"soft\"\n"; }
        rest += &format!("shared = {shared}\n");
        if let Some(budget) = budget { rest += &format!("bandwidth = {{ budget = {budget}, period = \"7 us\" }}\n"); }
        let file = SystemFile::parse(&system(&task("a", &rest)), "p.toml").map_err(|e| TestCaseError::fail(e.to_string()))?;
        let again = SystemFile::parse(&file.to_text(), "again").map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(file, again);
    }
}
