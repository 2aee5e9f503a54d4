//! Do programs work that use what the runtime uses, or leave it little room? Their own userfaultfds, filters, tracers and
//! limits; process-id namespaces; more processes than fit a message. And does the report say what is not in color then?
//!
//! `cargo test -p memtint-cli --test live live::coexist::`, as root.

use crate::common::{Ended, Launch, Machine, PublicProgram};

/// Runs a check in color; the program's own view must be right.
fn colored(check: &str) -> Option<Ended> {
    let machine = Machine::take(&["cc"])?;
    let program = machine.compile("coexist", &[]);
    let ended = Launch::new(&machine, &[program.to_str().expect("text"), check]).colored().end();
    ended.assert_success();
    Some(ended)
}

fn assert_told(ended: &Ended, what: &str) {
    assert!(ended.problems().iter().any(|problem| problem.contains(what)), "{what}: {:?}", ended.problems());
    assert!(ended.stderr.contains(what), "{what}: {}", ended.stderr);
}

#[test]
fn a_userfaultfd_of_its_own_works_and_is_told() {
    if let Some(ended) = colored("serves_its_own_faults") {
        assert_told(&ended, "the program's own userfaultfd");
    }
}

#[test]
fn strict_mode_is_refused_and_told() {
    if let Some(ended) = colored("asks_for_strict_mode") {
        assert_told(&ended, "SECCOMP_MODE_STRICT is refused");
    }
}

/// ThreadSanitizer aborts a process that has a mapping where it expects none.
#[test]
fn thread_sanitizer_ends_and_the_cause_is_told() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = machine.compile("coexist", &["-fsanitize=thread"]);
    let ended = Launch::new(&machine, &[program.to_str().expect("text"), "unmaps_memtint"]).colored().end();
    assert!(ended.stderr.contains("FATAL: ThreadSanitizer"), "{}", ended.stderr);
    assert_told(&ended, "ThreadSanitizer rejects mappings at memtint's addresses");
}

#[test]
fn code_that_cannot_be_copied_stays_and_is_told() {
    if let Some(ended) = colored("denies_executable_memory") {
        assert_told(&ended, "its code is not in color");
    }
}

#[test]
fn few_descriptors_suffice() {
    if let Some(ended) = colored("has_few_descriptors") {
        assert!(ended.problems().is_empty(), "{:?}", ended.problems());
    }
}

/// Helpers count against RLIMIT_NPROC: a strict run kills a child whose helper cannot be created.
#[test]
fn a_limit_of_processes_is_named() {
    let Some(machine) = Machine::take(&["cc"]) else { return };
    let program = PublicProgram::compile(&machine, "coexist");
    let launch = program.launch(&machine, "has_no_room_for_another_helper");
    let ended = launch.options(&["--user", "nobody"]).colored().end();
    ended.assert_success();
    assert_told(&ended, "the limit on processes (RLIMIT_NPROC");
}

#[test]
fn a_program_can_trace_itself() {
    if let Some(ended) = colored("is_traced_by_itself") {
        ended.assert_clean_report();
    }
}

#[test]
fn memtints_own_mappings_stay() {
    for check in ["unmaps_memtint", "unmaps_what_has_no_name"] {
        let Some(ended) = colored(check) else { return };
        ended.assert_clean_report();
    }
}

#[test]
fn code_keeps_the_name_of_its_file() {
    if let Some(ended) = colored("finds_its_code_by_name") {
        ended.assert_clean_report();
    }
}

/// What is reported of them is larger than a message can be.
#[test]
fn a_run_of_a_thousand_processes_is_reported() {
    let Some(machine) = Machine::take(&[]) else { return };
    let script = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i + 1)); done; exit 7";
    let launch = Launch::new(&machine, &["sh", "-c", script]).options(&["--soft"]);
    let ended = launch.colored().end();
    assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
    assert!(ended.problems().is_empty(), "{:?}", ended.problems());
    let spaces = ended.report["address_spaces"].as_array().expect("a list").len();
    assert!(spaces > 1000, "{spaces} address spaces");
    assert!(ended.report["verdict"].is_string(), "{}", ended.report["verdict"]);
}

/// The end of process 1 of the namespace ends the helpers in it: that is no loss.
#[test]
fn the_end_of_a_namespace_is_no_loss() {
    let Some(machine) = Machine::take(&["unshare", "bash", "seq"]) else { return };
    let script = "(echo sub); ls / | wc -l; seq 1000 | sort -R | sort -n | tail -1";
    let command = ["unshare", "-fp", "--mount-proc", "bash", "-c", script];
    for _ in 0..5 {
        let ended = Launch::new(&machine, &command).options(&["--soft"]).colored().end();
        ended.assert_success();
        assert!(ended.problems().is_empty(), "{:?}", ended.problems());
        assert!(ended.stdout.ends_with("1000\n"), "{}", ended.stdout);
    }
}

/// Where process 1 reaps nothing, memtint leaves nothing to be reaped.
#[test]
fn no_helper_stays_as_a_zombie() {
    let Some(machine) = Machine::take(&["unshare", "python3"]) else { return };
    let own = format!(
        "import subprocess, os\n\
         for _ in range(3):\n    \
             subprocess.run([{:?}, 'run', '--floor', 'user', '--soft', '--platform', {:?}, '--banks', '0-3', '--', 'sh', '-c',\n        \
                 'i=0; while [ $i -lt 10 ]; do /bin/true; i=$((i + 1)); done'], check=True)\n\
         states = [open(f'/proc/{{pid}}/stat').read().rsplit(')')[1].split()[0] for pid in os.listdir('/proc') if pid.isdigit()]\n\
         print('zombies', states.count('Z'))",
        env!("CARGO_BIN_EXE_memtint"),
        machine.platform.to_str().expect("text"),
    );
    let command = ["unshare", "-fp", "--mount-proc", "python3", "-c", &own];
    let ended = Launch::new(&machine, &command).native().end();
    ended.assert_success();
    assert_eq!(ended.stdout, "zombies 0\n", "{}", ended.stderr);
}
