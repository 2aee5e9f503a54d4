//! PCI configuration space, in the formats of common tools.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::{Origin, RegisterError};

/// Address of a function on the PCI buses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain, also called segment; 0 where a dump does not contain it.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, below 32.
    pub device: u8,
    /// Function, below 8.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl FromStr for PciAddress {
    type Err = ();

    /// Reads `00:18.1` or `0000:00:18.1`; domains behind a separate host bridge have more digits.
    fn from_str(text: &str) -> Result<PciAddress, ()> {
        let (buses, function) = text.split_once('.').ok_or(())?;
        let parts: Vec<&str> = buses.split(':').collect();
        let (domain, bus, device) = match parts.as_slice() {
            [bus, device] => ("0", *bus, *device),
            [domain, bus, device] => (*domain, *bus, *device),
            _ => return Err(()),
        };
        let address = PciAddress {
            domain: hex(domain, 8)?,
            bus: hex(bus, 2)? as u8,
            device: hex(device, 2)? as u8,
            function: hex(function, 1)? as u8,
        };
        if address.device < 32 && address.function < 8 { Ok(address) } else { Err(()) }
    }
}

/// A hexadecimal number of 1 to `digits` digits; no sign, no prefix.
fn hex(text: &str, digits: usize) -> Result<u32, ()> {
    if text.is_empty() || text.len() > digits || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(());
    }
    u32::from_str_radix(text, 16).map_err(|_| ())
}

/// Configuration space has this many bytes (PCI Express).
const BYTES: u32 = 4096;

const LINE_ACCEPTED: &str = "a function's head such as 00:18.2, a row such as \"40: 03 00 00 00\" below it, an assignment \
     such as \"00:18.2 110.l=00000a44\" or \"00:18.2 @110 = 00000a44\", a comment behind #, or an empty line";

/// The bytes of configuration space in a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigSpace {
    functions: BTreeMap<PciAddress, BTreeMap<u16, u8>>,
}

impl ConfigSpace {
    /// Reads the output of `lspci -xxx` or `-xxxx` (also with `-v`: indented lines are skipped) or of `setpci -v -s
    /// 00:18.2 110.l`, or assignments in the syntax of `setpci`. All values are hexadecimal.
    ///
    /// # Errors
    /// [`RegisterError::Line`] for anything else, for a row without a header, for a byte that is given twice with
    /// different values, and for a register outside the 4096 bytes.
    pub fn parse(text: &str, origin: &str) -> Result<ConfigSpace, RegisterError> {
        let mut space = ConfigSpace::default();
        let mut current = None;
        for (index, whole) in text.lines().enumerate() {
            let (line, refuse) = (whole.trim_end(), |accepted| Origin(origin).line(index + 1, whole, accepted));
            let content = line.split('#').next().unwrap_or_default().trim_end();
            if content.is_empty() || line.starts_with([' ', '\t']) {
                continue;
            }
            let (first, rest) = content.split_once(' ').unwrap_or((content, ""));
            if let Some(offset) = first.strip_suffix(':').and_then(|offset| hex(offset, 3).ok()) {
                let Some(address) = current else { return refuse("a row below the head of its function") };
                let Some(bytes) = row(rest) else { return refuse(LINE_ACCEPTED) };
                if !space.put(address, offset, &bytes) {
                    return refuse("bytes below 0x1000, each with one value");
                }
            } else if let Ok(address) = first.parse::<PciAddress>() {
                match assignment(rest) {
                    Some((offset, bytes)) if space.put(address, offset, &bytes) => {}
                    Some(_) => return refuse("bytes below 0x1000, each with one value"),
                    // A malformed "110.l=" is not a device name.
                    None if rest.contains('=') => return refuse(LINE_ACCEPTED),
                    None => {
                        space.functions.entry(address).or_default();
                        current = Some(address);
                    }
                }
            } else {
                return refuse(LINE_ACCEPTED);
            }
        }
        Ok(space)
    }

    /// Reads a folder in the layout of `/sys/bus/pci/devices`: for each function, a folder named by its address with a
    /// file `config`. Other entries are skipped. Without privileges, the kernel shows only 64 bytes of each.
    ///
    /// # Errors
    /// [`RegisterError::Read`], and [`RegisterError::Line`] for a `config` of more than 4096 bytes.
    pub fn read_folder(folder: &Path) -> Result<ConfigSpace, RegisterError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| RegisterError::Read { path, source }
        };
        let mut space = ConfigSpace::default();
        for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
            let entry = entry.map_err(failed(folder))?;
            let Some(address) = entry.file_name().to_str().and_then(|name| name.parse::<PciAddress>().ok()) else {
                continue;
            };
            let path = entry.path().join("config");
            let bytes = memtint_input::bytes(&path, memtint_input::DOCUMENT_BYTES_MAX).map_err(failed(&path))?;
            if !space.put(address, 0, &bytes) {
                let found = format!("{} bytes", bytes.len());
                return Origin(&path.display().to_string()).line(1, &found, "at most 4096 bytes");
            }
            space.functions.entry(address).or_default();
        }
        Ok(space)
    }

    /// Adds bytes; `false` when they exceed configuration space or contradict existing bytes.
    fn put(&mut self, address: PciAddress, offset: u32, bytes: &[u8]) -> bool {
        if offset + bytes.len() as u32 > BYTES {
            return false;
        }
        let known = self.functions.entry(address).or_default();
        bytes.iter().zip(offset..).all(|(&byte, offset)| *known.entry(offset as u16).or_insert(byte) == byte)
    }

    /// Walks the functions of the dump, by address.
    pub fn functions(&self) -> impl Iterator<Item = PciAddress> + '_ {
        self.functions.keys().copied()
    }

    /// Gives a register of 32 bits; `None` unless the dump has all four bytes.
    #[must_use]
    pub fn register(&self, address: PciAddress, offset: u16) -> Option<u32> {
        let known = self.functions.get(&address)?;
        let bytes = [0, 1, 2, 3].map(|byte| known.get(&(offset + byte)).copied());
        Some(u32::from_le_bytes([bytes[0]?, bytes[1]?, bytes[2]?, bytes[3]?]))
    }

    /// Writes the dump in the format of `lspci -xxxx`, without device names. Parsing it gives an equal value if rows
    /// are complete; unknown bytes end a row and begin another.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (address, known) in &self.functions {
            text.push_str(&format!("{address}\n"));
            let mut row: Vec<u8> = Vec::new();
            let mut start = 0;
            for (&offset, &byte) in known {
                if !row.is_empty() && (offset % 16 == 0 || offset != start + row.len() as u16) {
                    push_row(&mut text, start, &row);
                    row.clear();
                }
                if row.is_empty() {
                    start = offset;
                }
                row.push(byte);
            }
            if !row.is_empty() {
                push_row(&mut text, start, &row);
            }
            text.push('\n');
        }
        text
    }
}

fn push_row(text: &mut String, start: u16, row: &[u8]) {
    let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push_str(&format!("{start:02x}: {}\n", bytes.join(" ")));
}

/// ` 03 00 00 00`: 1 to 16 bytes.
fn row(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text
        .split_whitespace()
        .map(|byte| hex(byte, 2).ok().filter(|_| byte.len() == 2).map(|byte| byte as u8))
        .collect();
    bytes.filter(|bytes| (1..=16).contains(&bytes.len()))
}

/// `110.l=00000a44`, `110=00000a44`, or `@110 = 00000a44`. Without a width, the number of digits determines it.
fn assignment(text: &str) -> Option<(u32, Vec<u8>)> {
    let (place, value) = text.split_once('=')?;
    let (place, value) = (place.trim(), value.trim());
    let place = place.strip_prefix('@').unwrap_or(place);
    let (offset, width) = match place.split_once('.') {
        None => (place, value.len()),
        Some((offset, "b" | "B")) => (offset, 2),
        Some((offset, "w" | "W")) => (offset, 4),
        Some((offset, "l" | "L")) => (offset, 8),
        Some(_) => return None,
    };
    if ![2, 4, 8].contains(&width) {
        return None;
    }
    let bytes = hex(value, width).ok()?.to_le_bytes();
    Some((hex(offset, 3).ok()?, bytes[..width / 2].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "\
00:18.2 Host bridge: Advanced Micro Devices, Inc. [AMD] Family 10h Processor DRAM Controller
\tFlags: fast devsel
00: 22 10 02 12 00 00 00 00 00 00 00 06 00 00 80 00
40: 01 00 00 00

10000:e0:06.0 PCI bridge
0000:00:18.3 110.l=00000a44   # written by hand
00:18.3 @114 = 0000
";

    #[test]
    fn dumps_are_read() {
        let space = ConfigSpace::parse(DUMP, "test").unwrap();
        let two: PciAddress = "00:18.2".parse().unwrap();
        let three: PciAddress = "0000:00:18.3".parse().unwrap();
        let behind: PciAddress = "10000:e0:06.0".parse().unwrap();
        assert_eq!(space.functions().collect::<Vec<_>>(), [two, three, behind]);
        assert_eq!((space.register(two, 0), space.register(two, 0x40)), (Some(0x1202_1022), Some(1)));
        assert_eq!((space.register(three, 0x110), space.register(three, 0x114)), (Some(0xa44), None));
        assert_eq!(ConfigSpace::parse(&space.print(), "printed").unwrap(), space);
    }

    #[test]
    fn bad_lines_are_refused_by_number() {
        let cases = [
            ("00: 22 10\n", 1),
            ("00:18.2 x\n00: 22 1\n", 2),
            ("00:18.2 x\n00: 22 10\n\n00:18.2 00.w=1023\n", 4),
            ("00:18.2 ffe.l=00000000\n", 1),
            ("00:18.2 110.q=00000000\n", 1),
            ("00:18.2 110=123\n", 1),
            ("00:38.2 110=12345678\n", 1),
            ("hello\n", 1),
        ];
        for (text, expected) in cases {
            let error = ConfigSpace::parse(text, "bad").unwrap_err();
            let RegisterError::Line { line, .. } = &error else { panic!("{error}") };
            assert_eq!(*line, expected, "{text:?}: {error}");
            assert!(error.to_string().contains("accepted is"), "{error}");
        }
    }
}
