//! Does `memtint reproduce` list, regenerate, keep and judge figures, its own and those of others, and refuse wrong ones?

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::scratch::Scratch;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
    command.args(arguments).env_remove("MEMTINT_PLATFORM").stdin(Stdio::null());
    command.output().expect("the binary was built for this test")
}

/// The JSON of a run that ends with this status.
fn json(arguments: &[&str], status: i32) -> Value {
    let output = run(&[&["--format", "json", "reproduce"], arguments].concat());
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
    let result = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    crate::shared::check_printed(&[&["reproduce"], arguments].concat(), &result);
    result
}

impl Scratch {
    /// A file with the text of one of memtint's own figures, some of it replaced.
    fn figure(&self, name: &str, replaced: &[(&str, &str)]) -> String {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reproduce/figures/palloc-fig4.toml");
        let mut text = std::fs::read_to_string(own).expect("the figure is there");
        for (from, to) in replaced {
            assert!(text.contains(from), "{from:?} is not in the file");
            text = text.replace(from, to);
        }
        self.file(name, &text)
    }
}

#[test]
fn the_list_names_every_figure_with_its_paper() {
    let list = json(&["--list"], 0);
    let figures = list["figures"].as_array().expect("figures are a list");
    for id in ["palloc-table1", "palloc-fig10", "bpm-fig1", "hybrid-fig6.7", "camc-table2.6", "tintmalloc-fig3.14"] {
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no {id}"));
        assert!(figure["source"].as_str().is_some_and(|source| !source.is_empty()), "{figure}");
    }
}

#[test]
fn a_figure_is_regenerated_and_its_scenarios_run_by_themselves() {
    let scratch = Scratch::new("own");
    let out = scratch.path("out");
    let result = json(&["--short", "--out", &out, "palloc-fig4"], 0);
    let figure = &result["figures"][0];
    assert_eq!((&figure["id"], &figure["short"]), (&"palloc-fig4".into(), &true.into()));
    assert!(figure["values"].as_array().is_some_and(|values| values.iter().all(|value| value["simulated"].is_f64())));
    let kept = std::fs::read_to_string(scratch.path("out/palloc-fig4.json")).expect("the result is kept");
    assert_eq!(&serde_json::from_str::<Value>(&kept).expect("it is JSON"), figure);
    let scenarios = std::fs::read_dir(scratch.path("out/palloc-fig4")).expect("scenarios are kept");
    let scenarios: Vec<_> = scenarios.map(|entry| entry.expect("the directory can be read").path()).collect();
    assert!(scenarios.len() > 3, "{scenarios:?}");
    let scenario = scenarios[0].to_str().expect("names are text");
    assert!(run(&["sim", "--print-config", scenario]).status.success(), "{scenario}");
}

#[test]
fn a_figure_of_ones_own_is_held_to_what_it_expects() {
    let scratch = Scratch::new("file");
    let named = [("id = \"palloc-fig4\"", "id = \"mine\"")];
    let mine = scratch.figure("mine.toml", &named);
    assert_eq!(json(&["--short", &mine], 0)["figures"][0]["id"], "mine");
    // Claims that are turned around do not hold: a well-founded no.
    let turned = [named[0], ("at_most = ", "at_least = 100")];
    let turned = scratch.figure("mine.toml", &turned);
    let figure = &json(&[&turned], 1)["figures"][0];
    assert_eq!(figure["verdict"], "differs");
    assert!(figure["reason"].as_str().is_some_and(|reason| reason.contains("does not hold")), "{figure}");
    // A first look has no verdict.
    let figure = &json(&["--short", &turned], 0)["figures"][0];
    assert_eq!((&figure["verdict"], figure["reason"].as_str()), (&"first-look".into(), None), "{figure}");
}

#[test]
fn errata_are_told_with_what_shows_them() {
    let scratch = Scratch::new("errata");
    let out = scratch.path("out");
    let id = "crs-example5.3.5";
    let result = json(&["--short", "--out", &out, id], 0);
    let figure = &result["figures"][0];
    assert_eq!(figure["verdict"], "cannot-be-right");
    let errata = figure["errata"].as_array().expect("errata are a list");
    let erratum = errata.iter().find(|erratum| erratum["number"] == "E27").expect("it is in the file");
    assert_eq!(erratum["shown"], true);
    let evidence = erratum["evidence"].as_array().expect("evidence is a list");
    assert!(evidence.iter().any(|one| one["found"] == "11" && one["holds"] == true), "{evidence:?}");
    let value = &figure["values"][0];
    assert_eq!((&value["published"], &value["exact"], &value["errata"][0]), (&6.0.into(), &"11".into(), &"E27".into()));
    let kept = std::fs::read_to_string(scratch.path(&format!("out/{id}.md"))).expect("a document is kept");
    for words in ["published value cannot be right (E27;", "## Erratum E27: shown", "| 6.00 | 11.00 |"] {
        assert!(kept.contains(words), "{words:?} in {kept}");
    }
    let output = run(&["reproduce", "--short", id]);
    let text = String::from_utf8(output.stdout).expect("it is text");
    for words in ["erratum E27, shown: budgets of 6 ms each", "cannot be right: 6 of 16 ms", "verdict: published value"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn wrong_figures_are_refused_with_what_would_do() {
    let scratch = Scratch::new("wrong");
    let refused = |name: &str| {
        let output = run(&["reproduce", "--short", name]);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &[][..]), "{output:?}");
        String::from_utf8(output.stderr).expect("messages are text")
    };
    assert!(refused("palloc-fig44").contains("palloc-fig4"));
    assert!(refused("./palloc-fig4").contains("./palloc-fig4"));
    // What the text about a difference is about has to be in the file.
    let explained = ("id = \"palloc-fig4\"", "id = \"mine\"\nbecause = \"of that\"\nbecause_of = [\"nothing\"]");
    let message = refused(&scratch.figure("mine.toml", &[explained]));
    assert!(message.contains("because_of is \"nothing\"") && message.contains("words of a claim"), "{message}");
    let message = refused(&scratch.figure("other.toml", &[]));
    assert!(message.contains("palloc-fig4") && message.contains("other"), "{message}");
    let message = refused(&scratch.figure("mine.toml", &[("id = \"palloc-fig4\"", "id = \"mine\"\ncolour = 1")]));
    assert!(message.contains("mine") && message.contains("colour"), "{message}");
}
