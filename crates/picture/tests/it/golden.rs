//! Each kind of picture is drawn as before.
//!
//! With `SNAPSHOTS=overwrite cargo test -p memtint-picture --test it golden::`, what is drawn now is accepted: look at it first.

use std::path::Path;

use snapbox::{Assert, Data, data::DataFormat};

use crate::samples;

#[test]
fn pictures_are_drawn_as_before() {
    let assert = Assert::new().action_env("SNAPSHOTS");
    let differences: Vec<String> = samples::all()
        .into_iter()
        .filter_map(|(name, svg)| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.svg"));
            let before = Data::read_from(&path, Some(DataFormat::Text)).raw();
            assert.try_eq(Some(&name), Data::text(svg), before).err().map(|difference| difference.to_string())
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.concat());
}
