//! Strict validation of JSON output against its schema.

use jsonschema::Validator;
use serde_json::Value;

/// A schema that names all that there is: a property that it does not name is refused, although readers must accept one that a later
/// version adds.
#[derive(Debug)]
pub struct StrictSchema(Validator);

impl StrictSchema {
    /// Takes a JSON Schema.
    ///
    /// # Panics
    ///
    /// When it is none.
    #[must_use]
    pub fn new(mut schema: Value) -> StrictSchema {
        close(&mut schema);
        StrictSchema(jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{error}: {schema}")))
    }

    /// The differences between a document and the schema: a place and a sentence for each.
    #[must_use]
    pub fn differences(&self, document: &Value) -> Vec<String> {
        self.0.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }
}

/// Refuses properties that a schema does not name, wherever it describes an object.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let whole = object.contains_key("properties");
            for (key, inner) in object.iter_mut() {
                match (key.as_str(), inner) {
                    // Each of these describes a part of the object that is described here.
                    ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) if whole => {
                        parts.iter_mut().filter_map(|part| part.get_mut("properties")).for_each(close);
                    }
                    (_, inner) => close(inner),
                }
            }
            if whole {
                object.entry("unevaluatedProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_named_is_refused_at_each_depth() {
        let inner = json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]});
        let part = json!({"properties": {"kind": {"const": "x"}}, "required": ["kind"]});
        let schema = StrictSchema::new(json!({"type": "object", "properties": {"a": inner}, "oneOf": [part]}));
        assert!(schema.differences(&json!({"kind": "x", "a": {"b": 1}})).is_empty());
        for wrong in [
            json!({"kind": "x", "a": {"b": 1, "c": 1}}),
            json!({"kind": "x", "c": 1}),
            json!({"kind": "x", "a": {}}),
            json!({"kind": "y"}),
        ] {
            assert!(!schema.differences(&wrong).is_empty(), "{wrong}");
        }
    }
}
