//! What is printed as JSON, held against its published schema: `memtint system schema OF`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use memtint_testing::StrictSchema;
use serde_json::Value;

/// The schema of each form that was asked for.
static SCHEMAS: LazyLock<Mutex<BTreeMap<String, Arc<StrictSchema>>>> = LazyLock::new(Mutex::default);

fn schema_of(form: &str) -> Arc<StrictSchema> {
    let mut all = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(all.entry(form.to_owned()).or_insert_with(|| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memtint"));
        let output = command.args(["system", "schema", form]).output().expect("it runs");
        assert!(output.status.success(), "{form}: {}", String::from_utf8_lossy(&output.stderr));
        Arc::new(StrictSchema::new(serde_json::from_slice(&output.stdout).expect("a schema is JSON")))
    }))
}

/// The forms that the program names.
pub(crate) fn forms() -> BTreeSet<String> {
    let refused = Command::new(env!("CARGO_BIN_EXE_memtint")).args(["system", "schema", "no such form"]).output();
    let errors = String::from_utf8(refused.expect("it runs").stderr).expect("text");
    let (_, list) = errors.split_once("[possible values: ").expect("it lists them");
    let (list, _) = list.split_once(']').expect("the list ends");
    list.split(',').map(|form| form.trim().to_owned()).collect()
}

/// The form that a command line prints: the longest name that its words and options spell, in order.
pub(crate) fn form_of(words: &[impl AsRef<str>]) -> String {
    static FORMS: LazyLock<BTreeSet<String>> = LazyLock::new(forms);
    let named = |form: &&String| {
        let without = |rest, word: &str| match str::strip_prefix(rest, word.trim_start_matches("--")) {
            Some("") => "",
            Some(more) => more.strip_prefix('-').unwrap_or(rest),
            None => rest,
        };
        words.iter().fold(form.as_str(), |rest, word| without(rest, word.as_ref())).is_empty()
    };
    let said = || words.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
    let form = FORMS.iter().filter(named).max_by_key(|form| form.len());
    form.unwrap_or_else(|| panic!("{}: no form is named like this", said())).clone()
}

/// What a verb printed as JSON; null where that is nothing, or an error in place of a report.
pub(crate) fn report_of(stdout: &[u8]) -> Value {
    let printed: Value = serde_json::from_slice(stdout).unwrap_or_default();
    if printed["report"] == "error" {
        check("error", &printed);
        return Value::Null;
    }
    printed
}

/// Holds what a command line prints against its schema.
pub(crate) fn check_printed(words: &[impl AsRef<str>], document: &Value) {
    let form = if document["report"] == "error" { "error".to_owned() } else { form_of(words) };
    check(&form, document);
}

/// Holds a document against the schema of a form.
pub(crate) fn check(form: &str, document: &Value) {
    let differences = schema_of(form).differences(document);
    assert!(differences.is_empty(), "{form}: {}", differences.join("\n"));
}
