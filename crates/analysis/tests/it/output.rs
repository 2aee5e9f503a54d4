//! Does the schema of a report say all that a report for programs has?

use memtint_analysis::output::TaskClass;
use memtint_analysis::{AnalysisReport, Question, Scheduler, TaskSystem, answer};
use memtint_sched::{AnalysisLimits, Form, Refresh};
use memtint_testing::StrictSchema;
use memtint_units::Picoseconds;
use schemars::generate::SchemaSettings;

/// The schema of what is printed.
fn strict() -> StrictSchema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    StrictSchema::new(settings.into_generator().into_root_schema_for::<AnalysisReport>().to_value())
}

/// Answers about a file by these schedulers: corrected, and without preemption or as printed.
fn reports(name: &str, text: &str, schedulers: &[Scheduler]) -> Vec<AnalysisReport> {
    let file = TaskSystem::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
    let us = |us: u64| Picoseconds(us * 1_000_000);
    let refresh = Refresh::auto(us(8), us(1), Picoseconds(0)).unwrap();
    let derived = file.memory.is_some().then_some(refresh);
    let limits = AnalysisLimits::of_steps(Some(5000));
    let ask = |scheduler: Scheduler, other: bool| {
        let nonpreemptive = other && scheduler.is_policy();
        let form = if other && scheduler.refreshes() { Form::AsPrinted } else { Form::Corrected };
        let question =
            Question { form, nonpreemptive, derived, limits, witness_jobs_max: 20, ..Question::new(&file, scheduler) };
        // A file need not have what each scheduler asks for.
        answer(&question).ok().map(|report| AnalysisReport::from(&report))
    };
    schedulers.iter().flat_map(|&scheduler| [ask(scheduler, false), ask(scheduler, true)]).flatten().collect()
}

fn tasks(rows: &[(&str, u32, u32)]) -> String {
    let one = |(name, period, wcet): &(&str, u32, u32)| {
        format!("[[task]]\nname = \"{name}\"\nperiod = \"{period} ms\"\nwcet = \"{wcet} ms\"\n")
    };
    rows.iter().map(one).collect()
}

#[test]
fn each_key_of_a_report_is_a_property_of_its_schema() {
    let memory = |ranks: u32| format!("[memory]\nranks = {ranks}\ndensity = 1\n");
    let apart = "deadline = \"2 ms\"\nphase = \"2 ms\"\n";
    let written = [
        ("overload.toml", tasks(&[("a", 5, 4), ("b", 7, 4)])),
        ("cut.toml", tasks(&[("a", 8, 6), ("b", 16, 5)]) + &memory(8)),
        ("refuted.toml", tasks(&[("a", 64, 33), ("b", 64, 30)]) + &memory(2)),
        ("burst.toml", tasks(&[("a", 64, 10)]) + "[memory]\nranks = 8\nt_rfc = \"8 us\"\n"),
        ("phases.toml", tasks(&[("a", 4, 2)]) + "deadline = \"2 ms\"\n" + &tasks(&[("b", 4, 2)]) + apart),
        ("fraction.toml", tasks(&[("a", 8, 1)]).replace("1 ms", "1001 ns") + "ranks = 8\n" + &memory(8)),
    ];
    let mut reports: Vec<AnalysisReport> =
        written.iter().flat_map(|(name, text)| reports(name, text, &Scheduler::ALL)).collect();
    for (name, scheduler) in [
        ("crs.toml", Scheduler::Crs),
        ("crs-copies.toml", Scheduler::Crs),
        ("crs-published.toml", Scheduler::Crs),
        ("colored-refresh.toml", Scheduler::ColoredRefresh),
    ] {
        let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        reports.extend(self::reports(name, &std::fs::read_to_string(path).unwrap(), &[scheduler]));
    }
    let schema = strict();
    for report in &reports {
        let found = schema.differences(&serde_json::to_value(report).unwrap());
        assert!(found.is_empty(), "{found:#?}");
    }
    // All kinds of facts are among them.
    let any = |is: &dyn Fn(&AnalysisReport) -> bool| assert!(reports.iter().any(is));
    any(&|report| report.facts.refresh_derived.is_some());
    any(&|report| report.facts.phases_window_ps.is_some());
    any(&|report| report.facts.wcet_factor_max_of_all.is_some());
    any(&|report| report.facts.color_count.is_some());
    any(&|report| report.facts.as_printed.is_some());
    any(&|report| report.facts.copied_tasks.is_some());
    any(&|report| report.facts.refresh_with_busy_servers.is_some());
    any(&|report| report.tasks[0].facts.padded_wcet_ns.is_some());
    any(&|report| report.schedulable == Some(false) && report.overload.is_some());
    for place in ["/overload/refuted", "/overload/frame_ps", "/overload/job"] {
        any(&|report| serde_json::to_value(report).unwrap().pointer(place).is_some());
    }
}

#[test]
fn a_key_beside_the_schema_is_found() {
    let report = reports("two.toml", &tasks(&[("a", 5, 1)]), &[Scheduler::Edf]).remove(0);
    let schema = strict();
    for place in ["", "/tasks/0", "/witness/lanes/0"] {
        let mut value = serde_json::to_value(&report).unwrap();
        value.pointer_mut(place).unwrap()["extra"] = 1.into();
        let found = schema.differences(&value);
        assert!(!found.is_empty(), "{place}: {value}");
    }
}

#[test]
fn names_are_what_programs_get() {
    for scheduler in Scheduler::ALL {
        assert_eq!(serde_json::to_value(scheduler).unwrap(), scheduler.name());
    }
    for class in [TaskClass::Huge, TaskClass::Long, TaskClass::Short] {
        assert_eq!(serde_json::to_value(class).unwrap(), class.name());
    }
}
