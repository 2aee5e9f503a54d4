//! Do tasks get their frames from the allocator that they name, and of the colors that it honors?

use crate::common::{DESKTOP_WITH_LAST_LEVEL, Machine, parse, refused};
use memtint_map::{Granule, Palette, Platform};
use memtint_sim::{Report, simulate};
use memtint_units::Picoseconds;
use std::collections::BTreeSet;

const DESKTOP: Machine = Machine { duration: "5 ms", ..DESKTOP_WITH_LAST_LEVEL };

/// A desktop with tasks given by name, core and further lines.
fn text(system: &str, tasks: &[(&str, u32, &str)]) -> String {
    let task = |&(name, core, lines): &(&str, u32, &str)| {
        format!(
            "[[task]]\nname = \"{name}\"\ncores = \"{core}\"\n{lines}\nreferences = 40000\n\
             workload = {{ kind = \"uniform\", size = \"16 MiB\" }}\n"
        )
    };
    Machine { system, ..DESKTOP }.text(&tasks.iter().map(task).collect::<Vec<_>>())
}

fn run(system: &str, tasks: &[(&str, u32, &str)]) -> Report {
    simulate(&parse(&text(system, tasks)).unwrap(), 1, &|_: f64| true).unwrap()
}

fn palette() -> Palette {
    Palette::new(&Platform::load(DESKTOP.platform).unwrap(), Granule::PAGE).unwrap()
}

fn banks(report: &Report) -> BTreeSet<(u32, u32)> {
    report.banks.iter().map(|bank| (bank.channel, bank.bank)).collect()
}

const ONE: (&str, u32, &str) = ("one", 0, "allocator = \"palloc\"\nbanks = \"0-3\"");
const TWO: (&str, u32, &str) = ("two", 1, "allocator = \"bpm\"\nbanks = \"4-7\"");
/// Of an allocator that knows no colors.
const BLIND: (&str, u32, &str) = ("blind", 2, "allocator = \"buddy\"\nbanks = \"8\"");

#[test]
fn two_tasks_have_two_allocators_and_the_banks_they_asked_for() {
    let together = run("", &[ONE, TWO]);
    assert_eq!(together.allocator, "palloc, bpm");
    for (task, allocator) in together.tasks.iter().zip(["palloc", "bpm"]) {
        assert_eq!((task.allocator.as_str(), task.frames_out_of_color), (allocator, 0), "{}", task.name);
        assert!(task.frames > 3900, "{task:?}");
    }
    let palette = palette();
    let four = 4 * palette.banks_per_granule() as usize;
    let (one, two) = (banks(&run("", &[ONE])), banks(&run("", &[TWO])));
    assert_eq!((one.len(), two.len()), (four, four));
    assert!(one.is_disjoint(&two), "{one:?} {two:?}");
    assert_eq!(banks(&together), &one | &two);
}

#[test]
fn what_an_allocator_without_colors_gives_is_counted() {
    let report = run("", &[ONE, TWO, BLIND]);
    let classes = 16;
    let blind = &report.tasks[2];
    // One class of 16 by chance, in blocks that hold all of them alike.
    let expected = blind.frames * (classes - 1) / classes;
    assert!(blind.frames_out_of_color.abs_diff(expected) < expected / 10, "{blind:?}");
    assert!(report.tasks[..2].iter().all(|task| task.frames_out_of_color == 0));
}

#[test]
fn every_frame_is_with_one_task() {
    let mut machine = parse(&text("taken_per_1024 = 100", &[ONE, TWO, BLIND])).unwrap().machine().unwrap();
    machine.run_until(Picoseconds(5_000_000_000));
    let outcome = machine.outcome();
    let allocators = machine.allocators();
    assert_eq!(allocators.faults(), 0);
    let counts: Vec<_> = allocators.systems().map(|system| (system.name(), system.counts())).collect();
    let names: Vec<_> = counts.iter().map(|&(name, _)| name).collect();
    // Others have theirs from the machine's.
    assert_eq!(names, ["tinted", "palloc", "bpm", "buddy"]);
    let frames = outcome.tasks.iter().map(|task| task.frames);
    assert!(frames.eq(counts[1..].iter().map(|(_, counts)| counts.held)));
    let taken = counts[0].1.held as f64 / counts[0].1.frames as f64;
    assert!((taken * 1024.0 - 100.0).abs() < 2.0, "{taken}");
}

#[test]
fn naming_the_machine_s_allocator_changes_nothing() {
    let plain = ("one", 0, "banks = \"0-3\"");
    let named = ("one", 0, "banks = \"0-3\"\nallocator = \"hybrid\"");
    let of_machine = run("allocator = \"hybrid\"", &[plain]);
    assert_eq!(of_machine, run("allocator = \"hybrid\"", &[named]));
    assert_eq!(of_machine, run("", &[named]), "nobody has frames of the default");
}

/// CAMC is told whom to color: those who ask for a number of bank classes.
#[test]
fn camc_colors_tasks_with_bank_classes() {
    let one = ("one", 0, "banks = \"0-3\"");
    let report = run("allocator = \"camc\"", &[one]);
    let palette = palette();
    assert_eq!(banks(&report).len(), 4 * palette.banks_per_granule() as usize);
    let two = ("two", 1, "banks = \"0-3\"");
    let both = run("allocator = \"camc\"", &[one, two]);
    assert_eq!(banks(&both).len(), 8 * palette.banks_per_granule() as usize, "it chooses, and gives no class twice");
    let plain = run("allocator = \"camc\"", &[("one", 0, "")]);
    assert_eq!(banks(&plain).len(), palette.banks() as usize);
}

#[test]
fn what_an_allocator_cannot_do_is_refused_with_the_field() {
    let cases = [
        ("", "allocator = \"slab\"", "task \"two\": allocator is \"slab\"; accepted is one of \"buddy\""),
        ("", "allocator = 3", "task \"two\": allocator is 3"),
        ("", "allocator = \"bpm\"\nsets = \"0\"", "task \"two\": allocator is bpm; bpm cannot honor a choice of set"),
        (
            "",
            "allocator = \"palloc\"\nbanks = \"0\"\nmode = \"soft\"",
            "task \"two\": allocator is palloc; palloc cannot honor soft",
        ),
        ("allocator = \"hybrid\"", "node = \"0\"", "task \"two\": allocator is hybrid; hybrid cannot honor"),
        ("", "banks = \"\"", "task \"two\": "),
    ];
    for (system, lines, expected) in cases {
        refused(&text(system, &[("one", 0, ""), ("two", 1, lines)]), &["\"test\": ", expected]);
    }
}
