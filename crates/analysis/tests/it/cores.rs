//! Are tasks of other cores entered where, and only where, their requests are bounded?

use memtint_analysis::{TaskSystem, enter_neighbours, on_core};
use memtint_sched::Interference;
use memtint_system::SystemFile;

const BANKS: &str = "[banks]\nrequest_delay = \"40 ns\"\nprivate_banks = true\nrequests_at_once_max = 1\n";
const SHARED: &str = "[shared_banks]\nrequest_delay = \"40 ns\"\nhit = \"20 ns\"\nconflict = \"60 ns\"\n\
    overtaking_each_request = 4\nrequests_at_once_max = 1\n";

fn task(name: &str, core: u32, banks: &str, lines: u32) -> String {
    format!(
        "[[task]]\nname = {name:?}\nperiod = \"10 ms\"\nwcet = \"1 ms\"\ndeadline = \"5 ms\"\ncores = \"{core}\"\n\
         banks = {banks:?}\nlines = {lines}\n"
    )
}

/// Three cores, with two tasks on the second.
fn three_cores() -> String {
    [task("a", 0, "0-3", 1000), task("b", 1, "4-5", 10), task("c", 1, "6-7", 20), task("d", 2, "8-15", 30)].concat()
}

/// The file of core 0, and why no other core was entered.
fn entered(text: &str) -> (SystemFile, Result<(), String>) {
    let file = SystemFile::parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
    let (mut own, elsewhere) = on_core(&file, "test", Some(0)).unwrap();
    let found = enter_neighbours(&mut own, &elsewhere, "test").unwrap();
    (own, found)
}

/// Jobs that each neighbour may have, as lines of its tasks.
fn lines(file: &SystemFile) -> Vec<Vec<u64>> {
    let system = TaskSystem::of(file, "test").unwrap();
    let neighbours = match &system.terms[..] {
        [Interference::Banks(banks)] => &banks.neighbours,
        [Interference::SharedBanks(banks)] => {
            assert!(banks.others.is_empty(), "which banks they share is not known");
            &banks.sharers
        }
        other => panic!("{other:?}"),
    };
    let tasks = neighbours.iter().map(|core| core.tasks.as_ref().expect("they are known").tasks());
    tasks.map(|tasks| tasks.iter().map(memtint_sched::Task::lines).collect()).collect()
}

#[test]
fn each_core_is_entered_with_all_of_its_tasks() {
    for table in [BANKS, SHARED] {
        let (file, found) = entered(&(three_cores() + table));
        assert_eq!((found, lines(&file)), (Ok(()), vec![vec![10, 20], vec![30]]), "{table}");
        let tables = (file.banks, file.shared_banks);
        let cores = tables.0.map(|own| own.core).or(tables.1.map(|own| own.sharer)).unwrap();
        let kept = &cores[0].tasks[0];
        assert_eq!((&kept.cores, &kept.banks), (&None, &None), "what bounds no request is left out");
        assert_eq!(kept.deadline.map(|time| time.0.0), Some(5_000_000_000));
    }
}

#[test]
fn nothing_is_entered_without_a_bound_or_a_table() {
    let parallel = "[parallel_banks]\nread_delay = \"40 ns\"\nwrite_delay = \"40 ns\"\nturn = \"10 ns\"\nwrite_entries = 8\n\
        drain_at = 6\ndrain_to = 2\nrequests_at_once_max = 1\nprivate_banks = true\nwrite_back = true\n";
    let one = format!("{BANKS}[[banks.core]]\n");
    for (text, words) in [
        (three_cores(), "neither [banks] nor [shared_banks]"),
        (three_cores() + parallel, "neither [banks] nor [shared_banks]"),
        (three_cores() + &one, "the table lists fewer cores"),
        (three_cores().replace("lines = 20\n", "") + BANKS, "lines of task \"c\" is missing"),
        (three_cores().replace("\"8-15\"", "\"3-15\"") + BANKS, "tasks \"a\" and \"d\" may have banks in common"),
        (three_cores().replace("banks = \"0-3\"\n", "") + BANKS, "tasks \"a\" and \"b\" may have banks in common"),
        (three_cores().replace("\"4-5\"", "\"!0-3\"") + BANKS, "tasks \"a\" and \"b\" may have banks in common"),
    ] {
        let (file, found) = entered(&text);
        assert!(found.as_ref().is_err_and(|reason| reason.contains(words)), "{found:?}, not {words}");
        let listed = file.banks.iter().flat_map(|own| &own.core).count();
        assert_eq!(listed, usize::from(text.contains("[[banks.core]]")), "nothing is entered");
    }
    // Where banks are shared, so may be those of the tasks.
    assert_eq!(entered(&(three_cores().replace("\"8-15\"", "\"0-15\"") + SHARED)).1, Ok(()));
}
