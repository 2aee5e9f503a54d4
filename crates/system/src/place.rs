//! Places in a file, for messages.

use std::error::Error;

use toml::Value;

use crate::error::SystemError;

/// A place in a system file: the file, and a table in it.
#[derive(Clone, Debug)]
pub struct Place(String);

impl Place {
    /// The file itself.
    #[must_use]
    pub fn new(file: &str) -> Place {
        Place(file.to_owned())
    }

    /// A table of this place.
    #[must_use]
    pub fn table(&self, name: &str) -> Place {
        Place(format!("{}: {name}", self.0))
    }

    /// A table of a list of this place: by its name, or by its index where it has none.
    #[must_use]
    pub fn item(&self, list: &str, index: usize, name: Option<&str>) -> Place {
        match name {
            Some(name) => self.table(&format!("{list} {name:?}")),
            None => self.table(&format!("{list} {index} (counted from 0)")),
        }
    }

    /// Refuses the value of a field; `found` is how the file writes it, `None` where the field is absent.
    pub fn refuse(&self, field: &str, found: Option<&dyn std::fmt::Display>, accepted: &str) -> SystemError {
        let found = found.map_or_else(|| "missing".to_owned(), ToString::to_string);
        SystemError::Value { place: self.0.clone(), field: field.to_owned(), found, accepted: accepted.to_owned() }
    }

    /// Refuses a text.
    pub fn refuse_text(&self, field: &str, found: &str, accepted: &str) -> SystemError {
        self.refuse(field, Some(&format!("{found:?}")), accepted)
    }

    /// Refuses values by a rule of another crate.
    pub fn range(&self, cause: impl Error + Send + Sync + 'static) -> SystemError {
        SystemError::Range { place: self.0.clone(), cause: Box::new(cause) }
    }

    /// Refuses absent fields, all at once: of each its name, whether the file has it, and the values accepted.
    ///
    /// # Errors
    ///
    /// [`SystemError::Missing`] when a field is absent.
    pub fn need(&self, fields: &[(&str, bool, &str)]) -> Result<(), SystemError> {
        let absent = fields.iter().filter(|(_, given, _)| !given);
        let absent: Vec<String> = absent.map(|(field, _, accepted)| format!("{field} ({accepted})")).collect();
        match absent.is_empty() {
            true => Ok(()),
            false => Err(SystemError::Missing { place: self.0.clone(), fields: absent.join(", ") }),
        }
    }

    /// Follows the path of an error into a document: the innermost table of a list, or the top-level table, and the field in it.
    pub(crate) fn follow(&self, document: &Value, path: &serde_path_to_error::Path) -> (Place, String, Option<Value>) {
        use serde_path_to_error::Segment;
        let (mut place, mut keys, mut value, mut nested) = (self.clone(), Vec::new(), Some(document), false);
        for segment in path {
            match segment {
                Segment::Map { key } => {
                    keys.push(key.clone());
                    value = value.and_then(|value| value.get(key));
                }
                Segment::Seq { index } => {
                    value = value.and_then(|value| value.get(index));
                    if !value.is_some_and(Value::is_table) {
                        keys.last_mut().into_iter().for_each(|key| *key += &format!("[{index}]"));
                        continue;
                    }
                    let name = value.and_then(|value| value.get("name")).and_then(Value::as_str);
                    place = place.item(&keys.join("."), *index, name);
                    (keys, nested) = (Vec::new(), true);
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        if !nested && keys.len() > 1 {
            place = place.table(&keys.remove(0));
        }
        (place, keys.join("."), value.cloned())
    }

    /// Refuses a text with the sentence of its type's reader.
    pub(crate) fn form(&self, field: &str, message: String) -> SystemError {
        SystemError::Form { place: self.0.clone(), field: field.to_owned(), message }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}
