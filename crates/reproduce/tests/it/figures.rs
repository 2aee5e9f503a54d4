//! Are the data files sound, and does what they expect come out?

use memtint_reproduce::figure::{Expectation, FigureKind};
use memtint_reproduce::{Figure, Options, Prepared, Verdict, catalogue, prepare, reproduce};
use memtint_sim::Scenario;
use memtint_system::SystemFile;
use std::path::Path;

#[test]
fn every_file_parses_and_every_scenario_is_accepted() {
    let figures = catalogue::figures().unwrap();
    assert!(!figures.is_empty());
    for figure in &figures {
        for short in [false, true] {
            let runs = prepare(figure, short, None).unwrap();
            assert_eq!(runs.is_empty(), figure.run.is_empty(), "{}", figure.id);
            let last = runs.last().filter(|_| short);
            last.into_iter().for_each(is_written_as_it_is);
        }
    }
}

/// The system file that is kept beside a result is the simulation that was run.
#[track_caller]
fn is_written_as_it_is(run: &Prepared) {
    let read = SystemFile::parse(&run.text, &run.name).unwrap();
    let again = Scenario::of_system(&read, Path::new("system.toml")).unwrap();
    assert_eq!(again.spec(), run.scenario.spec(), "{}", run.name);
}

#[test]
fn a_list_of_densities_makes_a_run_for_each() {
    let figure = catalogue::find("colored-refresh-table4.7").unwrap();
    let runs = prepare(&figure, false, None).unwrap();
    for gbit in ["1", "2", "4", "8", "16", "32", "64"] {
        let run = runs.iter().find(|run| run.name == format!("{gbit} Gb")).unwrap();
        assert_eq!(run.scenario.device().name, format!("ddr3-1600g {gbit}Gb x8"));
    }
}

#[test]
fn every_machine_says_where_its_parameters_are_from() {
    for name in catalogue::machines() {
        catalogue::machine(name).unwrap();
    }
}

#[test]
fn values_are_published_and_claims_have_a_source() {
    for figure in catalogue::figures().unwrap() {
        let id = &figure.id;
        let published = figure.point.iter().any(|point| point.published.is_some() || !point.published_each.is_empty());
        let rows = figure.row.iter().any(|row| row.published.is_some() || !row.published_each.is_empty());
        assert!(published || rows || figure.kind == FigureKind::Claim, "{id}: values without one");
        assert!(figure.kind == FigureKind::Values || !figure.claim.is_empty(), "{id}: no claim");
        for item in figure.row.iter().flat_map(|row| row.published_each.keys()) {
            assert!(figure.lists.values().flatten().any(|known| known == item), "{id}: {item:?} is in no list");
        }
        assert!(figure.claim.iter().all(|claim| !claim.source.trim().is_empty()), "{id}: a claim without source");
        let lists = figure.lists.values().flatten().collect::<Vec<_>>();
        let named = figure.point.iter().flat_map(|point| point.published_each.keys());
        for item in named {
            assert!(lists.contains(&item), "{id}: {item:?} is in no list");
        }
        for (name, items) in &figure.short {
            assert!(items.iter().all(|item| figure.lists[name].contains(item)), "{id}: short {name}");
        }
        for fitted in catalogue::fitted(&figure).unwrap() {
            assert!(!fitted.how.trim().is_empty() && !fitted.value.is_empty(), "{id}: {fitted:?}");
        }
    }
}

const SHORT: Options = Options { threads: 2, short: true, seed: None };

#[test]
fn the_short_form_of_bank_sharing_comes_out() {
    let figures = ["palloc-table1", "palloc-fig4", "palloc-fig5"].map(|id| catalogue::find(id).unwrap());
    let all = reproduce(&figures, SHORT, &|_: f64| true).unwrap();
    assert_eq!(all.len(), figures.len());
    for regenerated in &all {
        let comparison = &regenerated.comparison;
        assert!(comparison.is_as_expected(), "{comparison:#?}");
        // A first look at simulations has no verdict, so that it cannot be another one than that of the whole.
        let figure = figures.iter().find(|figure| figure.id == comparison.id).unwrap();
        assert_eq!(comparison.verdict == Verdict::FirstLook, !figure.short_is_whole(), "{comparison:#?}");
        assert!(comparison.values.iter().all(|value| value.simulated.is_some()), "{comparison:#?}");
    }
    let again = reproduce(&figures, Options { threads: 1, ..SHORT }, &|_: f64| true).unwrap();
    for (one, other) in all.iter().zip(&again) {
        assert_eq!(one.comparison, other.comparison);
    }
}

const LADDER: &str = r#"
    schema = 1
    id = "ladder"
    paper = "none"
    title = "steps of more and more frames"
    source = "none"
    kind = "claim"
    expects = "trend"
    lists = { frames = ["1", "2", "3"] }
    allocation = [
        { name = "1", platform = "xeon-w3530-palloc", allocator = "buddy", frames = 10 },
        { name = "2", platform = "xeon-w3530-palloc", allocator = "palloc", banks = "0-3", frames = 10 },
        { name = "3", platform = "xeon-w3530-palloc", allocator = "palloc", banks = "0-3", frames = 4000 },
    ]
    [[point]]
    name = "{each}, steps"
    each = "frames"
    unit = "steps"
    of = { run = "{each}", measure = "allocation-steps-max" }
    [[point]]
    name = "{each}, the other way"
    each = "frames"
    unit = "steps"
    of = { run = "{each}", measure = "allocation-steps-max" }
    times = -1
    [[point]]
    name = "with itself"
    unit = "rank correlation"
    rank_correlation_of = ["{each}, steps", "{each}, steps"]
    [[point]]
    name = "with its opposite"
    unit = "rank correlation"
    rank_correlation_of = ["{each}, steps", "{each}, the other way"]
    [[point]]
    name = "in two groups"
    unit = "rank correlation"
    rank_correlation_of = ["{each}, steps", "{each}, the other way"]
    groups = 2
    [[claim]]
    say = "they agree"
    source = "none"
    falling = ["with itself", "with its opposite"]
"#;

#[test]
fn points_correlate_and_references_are_checked() {
    let figure = catalogue::parse(LADDER, "ladder").unwrap();
    let all = reproduce(&[figure], SHORT, &|_: f64| true).unwrap();
    let value = |name: &str| all[0].comparison.values.iter().find(|value| value.name == name).unwrap().simulated;
    assert_eq!((value("with itself"), value("with its opposite")), (Some(1.0), Some(-1.0)));
    assert_eq!(value("in two groups"), Some(-1.0));
    for (from, to) in [("groups = 2", "groups = 1"), ("times = -1", "groups = 2")] {
        let error = catalogue::parse(&LADDER.replace(from, to), "ladder").unwrap_err().to_string();
        assert!(error.contains("groups") && error.contains("2 or more"), "{error}");
    }
    let unknown = LADDER.replace("[\"{each}, steps\", \"{each}, the other way\"]", "[\"{each}, steps\", \"nothing\"]");
    let figure = catalogue::parse(&unknown, "ladder").unwrap();
    assert!(reproduce(&[figure], SHORT, &|_: f64| true).unwrap_err().to_string().contains("rank_correlation_of"));
    for (measure, found) in [("weighted-speedup", "1, alone"), ("ipc", "weighted-speedup or maximum-slowdown")] {
        let text =
            LADDER.replacen("\"allocation-steps-max\"", &format!("\"{measure}\", alone_in = \"{{each}}, alone\""), 1);
        let error = catalogue::parse(&text, "ladder").unwrap_err().to_string();
        assert!(error.contains("alone_in") && error.contains(found), "{error}");
    }
}

#[test]
fn a_contradicted_claim_is_a_difference_with_its_reason() {
    let mut figure = catalogue::find("palloc-table1").unwrap();
    let claim = figure.claim.iter_mut().find(|claim| !claim.falling.is_empty()).unwrap();
    claim.falling.reverse();
    let say = claim.say.clone();
    figure.because = Some("it was turned around".to_owned());
    figure.because_of = vec![say.clone()];
    let compared = |figure: &Figure| {
        let all = reproduce(std::slice::from_ref(figure), SHORT, &|_: f64| true).unwrap();
        all.into_iter().next().unwrap().comparison
    };
    let comparison = compared(&figure);
    assert_eq!((comparison.verdict, comparison.is_as_expected()), (Verdict::Differs, false));
    assert_eq!(comparison.reason.as_deref(), Some("it was turned around"));
    // The text is for what it names, and not for anything else that differs.
    let other = figure.clone();
    figure.because_of = vec!["something else".to_owned()];
    let reason = compared(&figure).reason.unwrap();
    assert_eq!(reason, format!("{say:?} does not hold"));
    // And none is told where nothing differs: an explanation of what agrees is stale.
    let mut figure = other;
    figure.claim.iter_mut().find(|claim| claim.say == say).unwrap().falling.reverse();
    let comparison = compared(&figure);
    assert_eq!((&comparison.reason, &comparison.stale), (&None, &vec![say]));
    assert!(!comparison.is_as_expected(), "{comparison:#?}");
}

/// A walk through 16 MiB in colors that hold 8 MiB.
const CROWDED: &str = r#"
    schema = 1
    id = "crowded"
    paper = "none"
    title = "a task that gets no more frames"
    source = "none"
    kind = "claim"
    expects = "trend"
    [system]
    platform = "skl-e3-1220v5-4x4g"
    [system.simulation]
    device = "ddr4-2400"
    duration = "20 ms"
    cores = { count = 2, mhz = 3000 }
    caches = { l1 = { size = "32 KiB", ways = 8 }, l2 = { size = "256 KiB", ways = 4 }, latency_cycles = [4, 12, 42, 60, 120] }
    [[run]]
    name = "crowded"
    tasks = [
        { name = "walk", cores = "0", banks = "0", sets = "0", shared = true, references = 4096, workload = { kind = "bandwidth", size = "16 MiB", step = "4 KiB" } },
        { name = "other", cores = "1", banks = "1", shared = true, references = 10, workload = { kind = "latency", size = "1 MiB" } },
    ]
    [[point]]
    name = "time"
    unit = "ms"
    of = { run = "crowded", measure = "all-completed-ms" }
    [[point]]
    name = "speed of the other"
    unit = "instructions a cycle"
    of = { run = "crowded", task = "other", measure = "ipc" }
    [[claim]]
    say = "it takes some time"
    source = "none"
    point = "time"
    at_least = 0
"#;

/// Numbers of a part of the work are not those of the whole: nothing is judged by them.
#[test]
fn a_run_whose_task_ends_early_fails_the_figure() {
    let compared = |text: &str, short: bool| {
        let figure = catalogue::parse(text, "crowded").unwrap();
        let all = reproduce(&[figure], Options { short, ..SHORT }, &|_: f64| true).unwrap();
        all.into_iter().next().unwrap().comparison
    };
    let failed = compared(CROWDED, false);
    assert_eq!((failed.verdict, failed.is_as_expected()), (Verdict::Failed, false), "{failed:#?}");
    let reason = failed.reason.as_deref().unwrap();
    assert!(reason.starts_with("run \"crowded\": task \"walk\" ended before its work was done"), "{reason}");
    assert_eq!(failed.claims[0].holds, None, "{failed:#?}");
    assert!(failed.values.iter().all(|value| value.simulated.is_none()), "{failed:#?}");
    let enough = compared(&CROWDED.replace("sets = \"0\"", "sets = \"0-3\""), false);
    assert_eq!((enough.verdict, enough.claims[0].holds), (Verdict::SameOrderAndTrend, Some(true)), "{enough:#?}");
}

/// What a file says that its figure comes to. What differs is explained, and nothing else is.
fn pinned(figure: &Figure) -> Option<&'static str> {
    match (figure.is_regenerated(), figure.because_of.is_empty(), figure.expects) {
        (false, ..) => None,
        (true, false, _) => Some("differs"),
        (true, true, Some(Expectation::Errata)) => Some("cannot be right"),
        (true, true, _) => Some("agrees"),
    }
}

fn came_out(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Within | Verdict::SameOrderAndTrend => "agrees",
        Verdict::CannotBeRight => "cannot be right",
        Verdict::Differs => "differs",
        Verdict::PublishedOnly | Verdict::FirstLook | Verdict::Failed => "no verdict",
    }
}

/// Regenerates figures in full and holds each to its file.
fn assert_pinned(figures: &[Figure]) {
    for regenerated in reproduce(figures, Options { short: false, ..SHORT }, &|_: f64| true).unwrap() {
        let comparison = regenerated.comparison;
        let figure = figures.iter().find(|figure| figure.id == comparison.id).unwrap();
        assert_eq!(Some(came_out(comparison.verdict)), pinned(figure), "{comparison:#?}");
        assert!(comparison.stale.is_empty(), "{comparison:#?}");
        let reason = comparison.reason.as_deref().unwrap_or_default();
        assert!(!reason.contains("not understood yet"), "{comparison:#?}");
    }
}

/// The counts that the README gives. A figure that changes its verdict changes its file, and these.
#[test]
fn the_counts_of_verdicts_are_pinned() {
    let figures = catalogue::figures().unwrap();
    let count = |verdict| figures.iter().filter(|figure| pinned(figure) == Some(verdict)).count();
    assert_eq!(["agrees", "differs", "cannot be right"].map(count), [36, 33, 13]);
}

/// The quickest of the simulated figures, in full.
#[test]
fn quick_figures_come_out_as_their_files_say() {
    let mut figures = catalogue::figures().unwrap();
    figures.retain(|figure| !figure.run.is_empty() && figure.seconds <= 2);
    assert!(!figures.is_empty());
    assert_pinned(&figures);
}

/// All of them, in full: twenty minutes of a processor.
///
/// `cargo test -p memtint-reproduce --test it -- --ignored`
#[test]
#[ignore = "takes twenty minutes of a processor"]
fn every_figure_comes_out_as_its_file_says() {
    let mut figures = catalogue::figures().unwrap();
    figures.retain(Figure::is_regenerated);
    assert_pinned(&figures);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let text = std::fs::read_to_string("figures/palloc-fig4.toml").unwrap();
    let refusal = |from: &str, to: &str| {
        assert!(text.contains(from), "{from:?} is not in the file");
        catalogue::parse(&text.replacen(from, to, 1), "palloc-fig4").unwrap_err().to_string()
    };
    assert!(refusal("schema = 1", "schema = 2").contains("schema is 2"));
    assert!(refusal("kind = \"claim\"", "kind = \"guess\"").contains("guess"));
    assert!(refusal("seconds = ", "second = ").contains("second"));
    assert!(refusal("expects = \"trend\"\n", "").contains("expects"));
    assert!(refusal("by = 1.1", "rank = 0.5\npoint = \"alone\"").contains("several forms"));
    let unknown = catalogue::find("palloc-fig44").unwrap_err().to_string();
    assert!(unknown.contains("\"palloc-fig44\"") && unknown.contains("palloc-fig4"), "{unknown}");
}

#[test]
fn a_stopped_figure_is_left_out() {
    let figures = ["palloc-fig4", "palloc-table1"].map(|id| catalogue::find(id).unwrap());
    let all = reproduce(&figures, SHORT, &|_: f64| false).unwrap();
    assert_eq!(all.len(), 1, "an allocation needs no simulation");
}

/// As the program is given it, a file is found from the current directory.
#[test]
fn files_of_a_figure_are_relative_to_the_current_directory() {
    let text = CROWDED.replace("\"skl-e3-1220v5-4x4g\"", "\"../../platforms/skl-e3-1220v5-4x4g.toml\"");
    let runs = prepare(&catalogue::parse(&text, "crowded").unwrap(), false, None).unwrap();
    assert_eq!(runs[0].scenario.platform().id(), "skl-e3-1220v5-4x4g");
}
