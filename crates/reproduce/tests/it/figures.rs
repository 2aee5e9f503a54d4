//! Are the data files sound, and does what they expect come out?

use memtint_reproduce::figure::FigureKind;
use memtint_reproduce::{Options, Verdict, catalogue, prepare, reproduce};

#[test]
fn every_file_parses_and_every_scenario_is_accepted() {
    let figures = catalogue::figures().unwrap();
    assert!(!figures.is_empty());
    for figure in &figures {
        for short in [false, true] {
            let runs = prepare(figure, short, None).unwrap();
            assert_eq!(runs.is_empty(), figure.run.is_empty(), "{}", figure.id);
        }
    }
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
        assert_ne!(comparison.verdict, Verdict::PublishedOnly);
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
    figure.because = Some("it was turned around".to_owned());
    let all = reproduce(&[figure.clone()], SHORT, &|_: f64| true).unwrap();
    let comparison = &all[0].comparison;
    assert_eq!((comparison.verdict, comparison.is_as_expected()), (Verdict::Differs, false));
    assert_eq!(comparison.reason.as_deref(), Some("it was turned around"));
    // And none is told where nothing differs.
    figure.claim[0].falling.reverse();
    let all = reproduce(&[figure], SHORT, &|_: f64| true).unwrap();
    assert_eq!(all[0].comparison.reason, None);
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
