//! `memtint system schema`: the JSON Schema of system files, and of each form of JSON that verbs print.

use serde_json::Value;

use crate::output::{Ending, JsonForm, done_json};

/// Arguments of `memtint system schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: memtint system schema sim\nExit status: 0, or 2 when there is no such form.")]
pub(super) struct SchemaArguments {
    /// Form to describe: the words of a verb and its option, joined by dashes; default: the system file.
    #[arg(value_name = "OF", value_parser = clap::builder::PossibleValuesParser::new(forms().map(|form| form.name)))]
    of: Option<String>,
}

/// Files that a verb prints in place of its report.
const WRITTEN: &[JsonForm] = &[JsonForm::of::<memtint_map::PlatformFile>("platform-detect-functions-of")];

/// All forms of JSON that verbs print.
fn forms() -> impl Iterator<Item = &'static JsonForm> {
    let verbs = [
        crate::analyze::FORMS,
        crate::bench::FORMS,
        crate::decode::FORMS,
        crate::detect::FORMS,
        crate::doctor::FORMS,
        crate::dram::FORMS,
        crate::guard::FORMS,
        crate::init::FORMS,
        crate::inspect::FORMS,
        crate::output::FORMS,
        crate::palette::FORMS,
        crate::platform::FORMS,
        crate::probe::FORMS,
        crate::progress::FORMS,
        crate::refresh::FORMS,
        crate::reproduce::FORMS,
        crate::run::FORMS,
        crate::sim::FORMS,
        super::FORMS,
        crate::trace::FORMS,
        WRITTEN,
    ];
    verbs.into_iter().flatten()
}

pub(super) fn main(arguments: &SchemaArguments) -> Ending {
    match &arguments.of {
        None => done_json(&memtint_system::json_schema()),
        Some(name) => {
            let form = forms().find(|form| form.name == name).expect("the parser accepts no other names");
            done_json(&published(form))
        }
    }
}

/// The schema of a form, for readers who do not know the program's code.
fn published(form: &JsonForm) -> Value {
    let mut schema = (form.schema)().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), Value::from(format!("memtint {}", form.name.replace('-', " "))));
    }
    plain(&mut schema);
    schema
}

/// Takes links into the code out of descriptions.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, inner) in object.iter_mut() {
                match (key.as_str(), inner) {
                    ("description", Value::String(text)) => *text = text.replace("[`", "`").replace("`]", "`"),
                    (_, inner) => plain(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_forms_are_told_apart_and_descriptions_are_plain() {
        let mut names = BTreeSet::new();
        for form in forms() {
            assert!(names.insert(form.name), "{} occurs twice", form.name);
            let schema = published(form);
            assert!(!schema.to_string().contains("[`"), "{}", form.name);
            assert!(schema["title"].as_str().is_some_and(|title| title.starts_with("memtint ")), "{schema}");
        }
    }
}
