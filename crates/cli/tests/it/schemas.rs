//! What verbs print as JSON is as its published schema says: `memtint system schema OF`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// The schema of a form, as the program prints it.
fn schema(form: &str) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_memtint")).args(["system", "schema", form]).output().expect("it runs");
    assert!(output.status.success(), "{form}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a schema is JSON")
}

/// The forms that the program names.
fn forms() -> BTreeSet<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_memtint")).args(["system", "schema", "no such form"]).output();
    let errors = String::from_utf8(help.expect("it runs").stderr).expect("text");
    let (_, list) = errors.split_once("[possible values: ").expect("clap lists them");
    let (list, _) = list.split_once(']').expect("the list ends");
    list.split(", ").map(str::to_owned).collect()
}

/// Refuses properties that a schema does not name, wherever it describes an object: readers may be sent more in a later version, but
/// what is sent now must be described.
fn close(schema: &mut Value, composed: bool) {
    match schema {
        Value::Object(object) => {
            let parts = ["allOf", "anyOf", "oneOf"].into_iter().any(|key| object.contains_key(key));
            if object.contains_key("properties") && !composed && !object.contains_key("additionalProperties") {
                let key = if parts { "unevaluatedProperties" } else { "additionalProperties" };
                object.insert(key.to_owned(), Value::Bool(false));
            }
            // What composes an object has a part of its properties each.
            let whole = object.contains_key("properties");
            for (key, inner) in object.iter_mut() {
                let of_parts = whole && matches!(key.as_str(), "allOf" | "anyOf" | "oneOf");
                close(inner, of_parts);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| close(item, composed)),
        _ => {}
    }
}

/// What in a document is not as the schema of a form says.
fn differences(form: &str, document: &Value) -> Vec<String> {
    let mut schema = schema(form);
    close(&mut schema, false);
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{form}: {error}"));
    validator.iter_errors(document).map(|error| format!("{form}: {}: {error}", error.instance_path())).collect()
}

/// Holds a document against the schema of a form.
pub(crate) fn check(form: &str, document: &Value) {
    let differences = differences(form, document);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The form that a command line prints: of its words and options those that name one, the longest.
fn form<'a>(forms: &'a BTreeSet<String>, words: &[String]) -> Option<&'a String> {
    let plain: Vec<&str> = words.iter().map(|word| word.trim_start_matches("--")).collect();
    forms
        .iter()
        .filter(|form| {
            let (mut rest, mut all) = (plain.iter(), true);
            form.split('-').for_each(|part| all &= rest.any(|word| *word == part));
            all
        })
        .max_by_key(|form| form.len())
}

#[test]
fn golden_json_is_as_its_schema_says() {
    let forms = forms();
    let cases = std::fs::read_to_string(format!("{GOLDEN}/cases")).expect("it is there");
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words = shlex::split(line).unwrap_or_else(|| panic!("{line}: quotes"));
        if !words.windows(2).any(|pair| pair == ["--format", "json"]) {
            continue;
        }
        let Some(form) = form(&forms, &words[2..]) else {
            wrong.push(format!("{line}: no form is named like this"));
            continue;
        };
        let text = std::fs::read_to_string(format!("{GOLDEN}/{}.out", words[0])).expect("a case has an output");
        wrong.extend(differences(form, &serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}"))));
        seen.insert(form.clone());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unseen: Vec<&String> = forms.difference(&seen).collect();
    assert_eq!(unseen, ELSEWHERE, "each form has a golden case, or a test that reads what the machine says");
}

/// Forms of what depends on the machine or takes time: other tests hold them against their schemas.
const ELSEWHERE: [&str; 0] = [];

#[test]
fn a_property_that_no_schema_names_is_refused() {
    let mut document = serde_json::json!({"schema": 1, "report": "map", "functions": [[6, 13]]});
    check("platform-export", &document);
    document["more"] = Value::from(1);
    assert!(std::panic::catch_unwind(|| check("platform-export", &document)).is_err());
}
