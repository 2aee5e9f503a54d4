//! Does the comparison of a division say what the simulations of each side say, and does it see what is bought and paid?

use std::path::Path;

use memtint_sim::scenario::Workload;
use memtint_sim::{Scenario, simulate, simulate_division};

use memtint_units::ByteSize;

use crate::common::{DESKTOP_WITH_LAST_LEVEL, Machine};

/// A task that reads what fits the last-level cache, beside two that stream through it.
fn scenario(parts: [&str; 3]) -> Scenario {
    let machine = Machine { duration: "8 ms", cores: "window = 224", ..DESKTOP_WITH_LAST_LEVEL };
    let task = |(core, part): (usize, &str)| {
        let workload = match core {
            0 => "{ kind = \"latency\", size = \"2 MiB\" }",
            _ => "{ kind = \"bandwidth\", size = \"64 MiB\", write = true }",
        };
        format!("[[task]]\nname = \"task-{core}\"\ncores = \"{core}\"\n{part}\nworkload = {workload}\n")
    };
    Scenario::parse(
        &machine.text(&parts.into_iter().enumerate().map(task).collect::<Vec<_>>()),
        Path::new("three.toml"),
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

const PARTS: [&str; 3] =
    ["banks = \"0-7\"\nsets = \"0-63\"", "banks = \"8-11\"\nsets = \"64-95\"", "banks = \"12-15\"\nsets = \"96-127\""];

#[test]
fn the_comparison_is_that_of_both_sides_and_shows_the_gain() {
    let scenario = scenario(PARTS);
    let (own, comparison) = simulate_division(&scenario, 2, &|_| true).unwrap_or_else(|error| panic!("{error}"));
    let undivided = scenario.undivided().unwrap().changed(|spec| spec.alone = true).unwrap();
    let undivided = simulate(&undivided, 2, &|_| true).unwrap();
    for (index, row) in comparison.tasks.iter().enumerate() {
        let base = undivided.tasks[index].alone.unwrap().instructions_per_second;
        let slowdown = |speed: f64| Some(base / speed);
        assert_eq!(row.alone_instructions_per_second, base);
        assert_eq!(row.shared_slowdown, slowdown(undivided.tasks[index].instructions_per_second));
        assert_eq!(row.divided_slowdown, slowdown(own.tasks[index].instructions_per_second));
        assert_eq!(row.alone_in_part_slowdown, slowdown(own.tasks[index].alone.unwrap().instructions_per_second));
    }
    // Streams evict the reader's lines and close its rows; in its part it has them for itself, and pays no more than that part costs.
    let reader = &comparison.tasks[0];
    let [shared, divided, cost] =
        [reader.shared_slowdown, reader.divided_slowdown, reader.alone_in_part_slowdown].map(Option::unwrap);
    assert!(shared > 3.0 && divided < 1.5 && cost <= divided, "{comparison:?}");
    assert!(comparison.greatest(|task| task.shared_slowdown) >= Some(shared) && comparison.complete);
}

#[test]
fn what_is_not_divided_is_refused() {
    let error = simulate_division(&scenario([""; 3]), 1, &|_| true).expect_err("nothing to compare").to_string();
    assert!(error.contains("three.toml") && error.contains("banks") && error.contains("given for none"), "{error}");
}

#[test]
fn what_is_stopped_is_not_complete() {
    assert!(!simulate_division(&scenario(PARTS), 1, &|_| false).unwrap().1.complete);
}

#[test]
fn what_belongs_to_a_schedule_or_a_budget_is_refused() {
    let machine = Machine { duration: "1 ms", ..DESKTOP_WITH_LAST_LEVEL };
    let task = |more: &str| {
        format!(
            "[[task]]\nname = \"a\"\ncores = \"0\"\nbanks = \"0-3\"\n{more}\nworkload = {{ kind = \"latency\", size = \"1 MiB\" }}\n"
        )
    };
    let refused = |parts: &[String]| {
        let scenario =
            Scenario::parse(&machine.text(parts), Path::new("one.toml")).unwrap_or_else(|error| panic!("{error}"));
        simulate_division(&scenario, 1, &|_| true).expect_err("refused").to_string()
    };
    let budget = refused(&[task(""), "[[group]]\nname = \"g\"\ncores = \"0\"\nmb_per_s = 100\n".to_owned()]);
    assert!(budget.contains("bandwidth is budgeted") && budget.contains("--ignore bandwidth"), "{budget}");
    let periodic = refused(&[task("period = \"1 ms\"\nreferences = 10")]);
    assert!(periodic.contains("period is given for every task"), "{periodic}");
}

#[test]
fn a_task_that_runs_out_of_frames_is_named() {
    // A bank class has 1 GiB, and four of its 128 set colors hold 32 MiB.
    let small = "banks = \"0\"\nsets = \"0-3\"";
    let scenario = scenario([small, "banks = \"1-8\"\nsets = \"4-63\"", "banks = \"9-15\"\nsets = \"64-127\""])
        .changed(|spec| {
            spec.tasks[0].workload = Workload::Latency { size: ByteSize(64 << 20), gap: 2 };
        });
    let (_, comparison) = simulate_division(&scenario.unwrap(), 2, &|_| true).unwrap();
    assert!(
        comparison.failures.len() == 1 && comparison.failures[0].starts_with("divided: task task-0: "),
        "{comparison:?}"
    );
}
