//! Does every file of the catalogue load, and does it say what its source says?

use memtint_map::{Granule, Palette, Platform, catalogue};

#[test]
fn every_file_loads_under_its_own_name() {
    assert!(catalogue::names().len() >= 53);
    for name in catalogue::names() {
        let platform = Platform::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(platform.id(), name);
        for granule in Granule::every() {
            match Palette::new(&platform, granule) {
                Ok(palette) => assert!(palette.granules() > 0, "{name} {granule}"),
                Err(error) => assert_eq!(name, "skx-open-3ch1r", "{error}"),
            }
        }
    }
}
