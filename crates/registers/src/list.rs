//! Registers of Zen, as a list in this project's text format.
//!
//! The data fabric is reached through an index and data pair in PCI configuration space, and the memory controllers
//! (UMC) through the system management network, so dumps of configuration space do not contain them. The list has one
//! register per line, hexadecimal values with `0x`, and comments after `#`:
//!
//! ```text
//! fabric df4              revision of the data fabric: df2, df3, df3.5, df4 or df4.5
//! memory ddr5             how the UMC registers are laid out: ddr4 or ddr5 (what the controller can, not what is plugged)
//! F7xE00 = 0x00000000     register of the data fabric as a core's station sees it: function 7, offset 0xe00
//! cs0.F7xE00 = 0x0        the same register of coherent station 0, which is in front of a memory channel
//! umc0.0x030 = 0x0        register of memory controller 0, by offset
//! smn 0x150030 = 0x0      the same of memory controller 1, by address in the system management network
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::error::{Origin, RegisterError};

/// Revision of the data fabric, as Linux `drivers/ras/amd/atl` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fabric {
    /// Zen 1.
    Df2,
    /// Zen 2 and Zen 3.
    Df3,
    /// Later parts of that generation.
    Df3p5,
    /// Zen 4.
    Df4,
    /// Zen 5.
    Df4p5,
}

/// Layout of the registers of a memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Controllers for DDR4.
    Ddr4,
    /// Controllers that support DDR5.
    Ddr5,
}

const FABRICS: [(&str, Fabric); 5] = [
    ("df2", Fabric::Df2),
    ("df3", Fabric::Df3),
    ("df3.5", Fabric::Df3p5),
    ("df4", Fabric::Df4),
    ("df4.5", Fabric::Df4p5),
];
const LAYOUTS: [(&str, Layout); 2] = [("ddr4", Layout::Ddr4), ("ddr5", Layout::Ddr5)];

/// Registers of the data fabric: values by function and offset.
pub(crate) type FabricRegisters = BTreeMap<(u8, u16), u32>;

/// A list of registers of a Zen machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZenDump {
    pub(crate) fabric: Fabric,
    pub(crate) layout: Option<Layout>,
    pub(crate) common: FabricRegisters,
    pub(crate) stations: BTreeMap<u16, FabricRegisters>,
    pub(crate) controllers: BTreeMap<u8, BTreeMap<u16, u32>>,
}

/// Registers of memory controller `n` begin at this address plus `n << 20` (illumos `umc.h`).
const UMC_BASE: u32 = 0x5_0000;
const UMC_BYTES: u32 = 0x2000;
const UMC_MAX: u32 = 12;
const STATIONS_MAX: u32 = 256;

const LINE_ACCEPTED: &str = "\"fabric df4\", \"memory ddr5\", \"F7xE00 = 0x0\", \"cs0.F7xE00 = 0x0\", \"umc0.0x30 = 0x0\" \
     or \"smn 0x50030 = 0x0\"";

enum Place {
    Common(u8, u16),
    Station(u16, u8, u16),
    Controller(u8, u16),
}

impl ZenDump {
    /// Reads a list.
    ///
    /// # Errors
    /// [`RegisterError::Line`] for a line of another form, and for a register that is given twice with different values;
    /// [`RegisterError::Missing`] without `fabric`, and without `memory` when there are registers of memory controllers.
    pub fn parse(text: &str, origin: &str) -> Result<ZenDump, RegisterError> {
        let (mut fabric, mut layout) = (None, None);
        let mut dump = ZenDump {
            fabric: Fabric::Df2,
            layout: None,
            common: BTreeMap::new(),
            stations: BTreeMap::new(),
            controllers: BTreeMap::new(),
        };
        for (index, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or_default().trim();
            let refuse = |accepted| Origin(origin).line(index + 1, whole, accepted);
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix("fabric ") {
                let Some(found) = named(&FABRICS, name) else { return refuse("fabric df2, df3, df3.5, df4 or df4.5") };
                if fabric.replace(found).is_some_and(|before| before != found) {
                    return refuse("one fabric");
                }
            } else if let Some(name) = line.strip_prefix("memory ") {
                let Some(found) = named(&LAYOUTS, name) else { return refuse("memory ddr4 or ddr5") };
                if layout.replace(found).is_some_and(|before| before != found) {
                    return refuse("one layout");
                }
            } else {
                let Some((place, value)) = register(line) else { return refuse(LINE_ACCEPTED) };
                if !dump.put(place, value) {
                    return refuse("one value for each register");
                }
            }
        }
        dump.fabric = fabric.ok_or_else(|| {
            Origin(origin)
                .missing("the line \"fabric\"", "where fields lie differs between revisions of the data fabric")
        })?;
        if layout.is_none() && !dump.controllers.is_empty() {
            let reason = "registers of memory controllers lie elsewhere in those that can DDR5";
            return Err(Origin(origin).missing("the line \"memory\"", reason));
        }
        dump.layout = layout;
        Ok(dump)
    }

    fn put(&mut self, place: Place, value: u32) -> bool {
        let slot = match place {
            Place::Common(function, offset) => self.common.entry((function, offset)),
            Place::Station(station, function, offset) => {
                self.stations.entry(station).or_default().entry((function, offset))
            }
            Place::Controller(controller, offset) => {
                return *self.controllers.entry(controller).or_default().entry(offset).or_insert(value) == value;
            }
        };
        *slot.or_insert(value) == value
    }

    /// Writes the list; parsing it gives an equal value.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        let name = FABRICS.iter().find(|(_, fabric)| *fabric == self.fabric).expect("every revision has a name").0;
        // Writing to a String does not fail.
        let _ = writeln!(text, "fabric {name}");
        if let Some((name, _)) = LAYOUTS.iter().find(|(_, layout)| Some(*layout) == self.layout) {
            let _ = writeln!(text, "memory {name}");
        }
        for ((function, offset), value) in &self.common {
            let _ = writeln!(text, "F{function}x{offset:03X} = {value:#010x}");
        }
        for (station, registers) in &self.stations {
            for ((function, offset), value) in registers {
                let _ = writeln!(text, "cs{station}.F{function}x{offset:03X} = {value:#010x}");
            }
        }
        for (controller, registers) in &self.controllers {
            for (offset, value) in registers {
                let _ = writeln!(text, "umc{controller}.{offset:#05x} = {value:#010x}");
            }
        }
        text
    }
}

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name.trim()).map(|&(_, value)| value)
}

fn register(line: &str) -> Option<(Place, u32)> {
    let (place, value) = line.split_once('=')?;
    let (place, value) = (place.trim(), prefixed(value.trim())?);
    let place = if let Some(address) = place.strip_prefix("smn ") {
        let address = prefixed(address.trim())?;
        let offset = (address & 0xf_ffff).checked_sub(UMC_BASE).filter(|&offset| offset < UMC_BYTES)?;
        controller(address >> 20, offset)?
    } else if let Some((number, offset)) = place.strip_prefix("umc").and_then(|rest| rest.split_once('.')) {
        controller(number.parse().ok()?, prefixed(offset)?)?
    } else if let Some((number, rest)) = place.strip_prefix("cs").and_then(|rest| rest.split_once('.')) {
        let (function, offset) = fabric_place(rest)?;
        let number: u32 = number.parse().ok().filter(|&number| number < STATIONS_MAX)?;
        Place::Station(number as u16, function, offset)
    } else {
        let (function, offset) = fabric_place(place)?;
        Place::Common(function, offset)
    };
    Some((place, value))
}

fn controller(number: u32, offset: u32) -> Option<Place> {
    let known = number < UMC_MAX && offset < UMC_BYTES && offset.is_multiple_of(4);
    known.then_some(Place::Controller(number as u8, offset as u16))
}

/// `F7xE00`: function, then offset in hexadecimal; a multiple of 4.
fn fabric_place(text: &str) -> Option<(u8, u16)> {
    let (function, offset) = text.strip_prefix('F')?.split_once('x')?;
    let function = function.parse::<u8>().ok().filter(|&function| function < 8)?;
    let offset = digits(offset).filter(|&offset| offset < 0x1000 && offset.is_multiple_of(4))?;
    Some((function, offset as u16))
}

fn prefixed(text: &str) -> Option<u32> {
    digits(text.strip_prefix("0x")?)
}

fn digits(text: &str) -> Option<u32> {
    let well_formed = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    well_formed.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed() {
        let text =
            "fabric df3\nmemory ddr4 # Zen 2\nF0x110 = 0x1\ncs2.F0x1B4=0x3\numc1.0x030 = 0x20\nsmn 0x150030 = 0x20\n";
        let dump = ZenDump::parse(text, "test").unwrap();
        assert_eq!((dump.fabric, dump.layout), (Fabric::Df3, Some(Layout::Ddr4)));
        assert_eq!(dump.common[&(0, 0x110)], 1);
        assert_eq!(dump.stations[&2][&(0, 0x1b4)], 3);
        assert_eq!(dump.controllers[&1][&0x30], 0x20);
        assert_eq!(ZenDump::parse(&dump.print(), "printed").unwrap(), dump);
    }

    #[test]
    fn bad_lines_are_refused_by_number() {
        let cases = [
            "fabric df9",
            "memory ddr3",
            "F8x110 = 0x0",
            "F0x111 = 0x0",
            "F0x110 = 12",
            "F0x110 = 0x123456789",
            "cs300.F0x110 = 0x0",
            "umc12.0x0 = 0x0",
            "smn 0x60000 = 0x0",
            "hello",
            "F0x104 = 0x1",
        ];
        for case in cases {
            let text = format!("fabric df3\nF0x104 = 0x0\n{case}\n");
            let error = ZenDump::parse(&text, "bad").unwrap_err();
            assert!(matches!(error, RegisterError::Line { line: 3, .. }), "{case}: {error}");
        }
        assert!(matches!(ZenDump::parse("", "bad"), Err(RegisterError::Missing { .. })));
        let without = ZenDump::parse("fabric df3\numc0.0x0 = 0x0\n", "bad");
        assert!(matches!(without, Err(RegisterError::Missing { .. })));
    }
}
