//! Records as Parquet files.
//!
//! What it is for: a list of records that serialize as JSON objects becomes one table, with a column for each field.
//!
//! What it deliberately does not do: it reads nothing and handles no particular report. A list inside a record becomes its JSON text.
//!
//! ```
//! #[derive(serde::Serialize)]
//! struct Row {
//!     name: &'static str,
//!     jobs: u64,
//! }
//!
//! let path = std::env::temp_dir().join(format!("memtint-parquet-doc-{}", std::process::id()));
//! memtint_parquet::write(&path, &[Row { name: "control", jobs: 50 }, Row { name: "vision", jobs: 7 }])?;
//! assert!(std::fs::read(&path)?.starts_with(b"PAR1"));
//! std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use serde::Serialize;
use serde_json::Value;

/// One row: fields inside fields are named `outer_inner`.
type Row = BTreeMap<String, Value>;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    Decimal,
    Text,
}

/// Writes records, one a row, with their fields as columns; a field that a record lacks is null.
///
/// # Errors
/// A record that does not serialize, and a file that cannot be created or written.
pub fn write<T: Serialize>(path: &Path, records: &[T]) -> io::Result<()> {
    let rows = records.iter().map(row).collect::<Result<Vec<Row>, _>>()?;
    write_rows(File::create(path)?, &rows).map_err(io::Error::other)
}

fn row<T: Serialize>(record: &T) -> Result<Row, serde_json::Error> {
    let mut row = Row::new();
    flatten("", serde_json::to_value(record)?, &mut row);
    Ok(row)
}

fn flatten(name: &str, value: Value, row: &mut Row) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field } else { format!("{name}_{field}") };
                flatten(&name, value, row);
            }
        }
        Value::Null => {}
        value => {
            row.insert(name.to_owned(), value);
        }
    }
}

fn columns(rows: &[Row]) -> BTreeMap<String, Kind> {
    let mut columns = BTreeMap::new();
    for (name, value) in rows.iter().flatten() {
        let kind = match value {
            Value::Number(number) if number.is_i64() || number.is_u64() => Kind::Whole,
            Value::Number(_) => Kind::Decimal,
            _ => Kind::Text,
        };
        let known = columns.entry(name.clone()).or_insert(kind);
        // A decimal that happens to be whole in one row.
        if *known == Kind::Whole && kind == Kind::Decimal {
            *known = kind;
        }
    }
    columns
}

fn write_rows(file: File, rows: &[Row]) -> Result<(), ParquetError> {
    let columns = columns(rows);
    let field = |(name, kind): (&String, &Kind)| match kind {
        Kind::Whole => format!("optional int64 {name};"),
        Kind::Decimal => format!("optional double {name};"),
        Kind::Text => format!("optional binary {name} (UTF8);"),
    };
    let schema = format!("message row {{ {} }}", columns.iter().map(field).collect::<Vec<_>>().join(" "));
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    for (name, kind) in &columns {
        let column = group.next_column()?.expect("the schema has as many");
        write_column(column, *kind, rows.iter().map(|row| row.get(name)))?;
    }
    group.close()?;
    writer.close().map(|_| ())
}

fn write_column<'a>(
    mut column: SerializedColumnWriter<'_>,
    kind: Kind,
    values: impl Iterator<Item = Option<&'a Value>> + Clone,
) -> Result<(), ParquetError> {
    let present: Vec<i16> = values.clone().map(|value| i16::from(value.is_some())).collect();
    let values = values.flatten();
    match kind {
        Kind::Whole => {
            // Counts beyond 2^63 do not occur.
            let numbers: Vec<i64> = values.map(|value| value.as_i64().unwrap_or(i64::MAX)).collect();
            column.typed::<Int64Type>().write_batch(&numbers, Some(&present), None)?;
        }
        Kind::Decimal => {
            let numbers: Vec<f64> = values.map(|value| value.as_f64().unwrap_or(f64::NAN)).collect();
            column.typed::<DoubleType>().write_batch(&numbers, Some(&present), None)?;
        }
        Kind::Text => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let texts: Vec<ByteArray> = values.map(|value| ByteArray::from(text(value).into_bytes())).collect();
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&present), None)?;
        }
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    #[derive(Serialize)]
    struct Inner {
        mean: f64,
    }

    #[derive(Serialize)]
    struct Record {
        name: &'static str,
        count: u64,
        latency: Inner,
        #[serde(skip_serializing_if = "Option::is_none")]
        late: Option<u64>,
    }

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("memtint-parquet-{}", std::process::id()));
        let record = |name, count, late| Record { name, count, latency: Inner { mean: count as f64 / 2.0 }, late };
        write(&path, &[record("one", 3, None), record("two", 4, Some(7))]).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let names: Vec<String> = reader
            .metadata()
            .file_metadata()
            .schema()
            .get_fields()
            .iter()
            .map(|field| field.name().to_owned())
            .collect();
        assert_eq!(names, ["count", "late", "latency_mean", "name"]);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!((rows[0].get_long(0).unwrap(), rows[0].get_double(2).unwrap()), (3, 1.5));
        assert_eq!((rows[1].get_long(1).unwrap(), rows[1].get_string(3).unwrap().as_str()), (7, "two"));
        assert!(rows[0].get_long(1).is_err(), "null");
    }
}
