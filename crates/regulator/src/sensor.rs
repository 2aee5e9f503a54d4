//! The events to count: performance events, by name or by code.

use std::fs;

use serde::Deserialize;

use crate::error::RegulatorError;
use crate::load::Load;
use crate::sys::EventCode;

/// The catalogue of sensors, each with its source.
const CATALOGUE: &str = include_str!("sensors.toml");

/// A performance event, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `config`, `config1` and `config2`.
    pub config: [u64; 3],
}

/// The events that regulation counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Its name, or the event as it was given.
    pub name: String,
    /// The event.
    pub event: Event,
    /// Bytes that each event moves; `None` if events are not memory traffic, so that budgets are numbers of events.
    pub bytes: Option<u32>,
    /// Most events between the overflow and the regulator's answer: the skid s.
    pub skid: u32,
    /// Events in the kernel are not counted.
    pub excludes_kernel: bool,
    /// Traffic that it does not count.
    pub blind: Vec<String>,
    /// Where this is from.
    pub source: String,
    /// The load that causes such events, for the self-test.
    pub load: Load,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    sensor: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// CPUs that it applies to, as lines of /proc/cpuinfo; all if empty.
    #[serde(default)]
    cpus: Vec<String>,
    kind: u32,
    config: u64,
    bytes: Option<u32>,
    skid: u32,
    #[serde(default)]
    excludes_kernel: bool,
    blind: Vec<String>,
    source: String,
    load: Load,
}

impl Sensor {
    /// Names of the catalogue that this machine's CPUs have.
    pub fn names() -> Vec<String> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut names: Vec<String> =
            entries().into_iter().filter(|entry| entry.fits(&cpuinfo)).map(|entry| entry.name).collect();
        names.dedup();
        names
    }

    /// Finds a sensor by its name in the catalogue, or takes an event as perf writes it: the name of a software event,
    /// `rHEX`, a raw code of the CPU, or `PMU/term=value,.../` with a PMU of this machine. With perf's modifier for
    /// user mode, `:u`, or `u` behind the last slash, it excludes events in the kernel.
    ///
    /// # Errors
    /// [`RegulatorError::Event`].
    pub fn find(text: &str) -> Result<Sensor, RegulatorError> {
        let Some(event) = in_user_mode(text) else { return Sensor::find_unmodified(text) };
        let mut sensor = Sensor::find_unmodified(event)?;
        if !sensor.excludes_kernel {
            sensor.excludes_kernel = true;
            sensor.blind.push("events that the kernel causes".to_owned());
        }
        Ok(Sensor { name: text.to_owned(), ..sensor })
    }

    fn find_unmodified(text: &str) -> Result<Sensor, RegulatorError> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if let Some(entry) = entries().into_iter().find(|entry| entry.name == text && entry.fits(&cpuinfo)) {
            return Ok(entry.sensor());
        }
        let event =
            software(text).or_else(|| raw(text)).or_else(|| pmu(text)).ok_or_else(|| RegulatorError::Event {
                event: text.to_owned(),
                reason: "it is neither a sensor of this machine nor an event".to_owned(),
                accepted: format!(
                    "{}, a software event of perf, rHEX, or PMU/term=value,.../, with :u (PMU/.../u) for user mode only",
                    Sensor::names().join(", ")
                ),
            })?;
        Ok(Sensor {
            name: text.to_owned(),
            event,
            bytes: None,
            skid: UNKNOWN_SKID,
            excludes_kernel: false,
            blind: vec!["whatever this event leaves out: memtint does not know it".to_owned()],
            source: "the command line".to_owned(),
            load: Load::Stream,
        })
    }

    pub(crate) fn code(&self) -> EventCode {
        EventCode { kind: self.event.kind, config: self.event.config, excludes_kernel: self.excludes_kernel }
    }
}

/// Skid of an event that the catalogue does not have.
const UNKNOWN_SKID: u32 = 200;

fn entries() -> Vec<Entry> {
    toml::from_str::<Catalogue>(CATALOGUE).expect("the catalogue is tested").sensor
}

impl Entry {
    fn fits(&self, cpuinfo: &str) -> bool {
        self.cpus.is_empty() || self.cpus.iter().any(|cpu| cpuinfo.lines().any(|line| is_field(line, cpu)))
    }

    fn sensor(self) -> Sensor {
        Sensor {
            name: self.name,
            event: Event { kind: self.kind, config: [self.config, 0, 0] },
            bytes: self.bytes,
            skid: self.skid,
            excludes_kernel: self.excludes_kernel,
            blind: self.blind,
            source: self.source,
            load: self.load,
        }
    }
}

/// Whether a line of /proc/cpuinfo is `FIELD: VALUE`, whatever the space around the colon.
fn is_field(line: &str, wanted: &str) -> bool {
    let pair =
        |text: &str| text.split_once(':').map(|(field, value)| (field.trim().to_owned(), value.trim().to_owned()));
    pair(line).is_some() && pair(line) == pair(wanted)
}

/// The event without perf's modifier for user mode; `None` if it has none.
fn in_user_mode(text: &str) -> Option<&str> {
    match text.strip_suffix(":u") {
        None => text.strip_suffix('u').filter(|event| event.ends_with('/')),
        event => event,
    }
}

/// Software events of linux/perf_event.h that the catalogue does not have, with their names in perf.
fn software(text: &str) -> Option<Event> {
    const NAMES: [(&str, u64); 5] = [
        ("cpu-migrations", 4),
        ("minor-faults", 5),
        ("major-faults", 6),
        ("alignment-faults", 7),
        ("emulation-faults", 8),
    ];
    let (_, config) = NAMES.iter().find(|(name, _)| *name == text)?;
    Some(Event { kind: 1, config: [*config, 0, 0] })
}

/// PERF_TYPE_RAW.
const RAW: u32 = 4;

fn raw(text: &str) -> Option<Event> {
    let code = text.strip_prefix('r').filter(|code| (1..=16).contains(&code.len()))?;
    Some(Event { kind: RAW, config: [u64::from_str_radix(code, 16).ok()?, 0, 0] })
}

/// An event of a PMU in sysfs: `cpu/event=0x2e,umask=0x41/`. Formats: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
fn pmu(text: &str) -> Option<Event> {
    let (name, terms) = text.strip_suffix('/')?.split_once('/')?;
    if name.is_empty() || name.contains(['.', '/']) {
        return None;
    }
    let folder = format!("/sys/bus/event_source/devices/{name}");
    let kind = fs::read_to_string(format!("{folder}/type")).ok()?.trim().parse().ok()?;
    let mut config = [0; 3];
    for term in terms.split(',') {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        let value =
            value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())?;
        if field.contains(['.', '/']) {
            return None;
        }
        place(&fs::read_to_string(format!("{folder}/format/{field}")).ok()?, value, &mut config)?;
    }
    Some(Event { kind, config })
}

/// Puts a value into the bits of a format (`config:0-7,32-35`); `None` if it does not fit.
fn place(format: &str, mut value: u64, config: &mut [u64; 3]) -> Option<()> {
    let (word, ranges) = format.trim().split_once(':')?;
    let word = config.get_mut(match word {
        "config" => 0,
        "config1" => 1,
        "config2" => 2,
        _ => return None,
    })?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        for bit in first..=last {
            *word |= (value & 1).checked_shl(bit)?;
            value >>= 1;
        }
    }
    (value == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_sound() {
        for entry in entries() {
            assert!(!entry.source.trim().is_empty() && !entry.blind.is_empty(), "{}", entry.name);
            assert!(entry.bytes.is_none_or(|bytes| bytes.is_power_of_two()), "{}", entry.name);
            assert!(entry.cpus.iter().all(|cpu| cpu.contains(':')), "{}", entry.name);
        }
    }

    #[test]
    fn fields_of_cpuinfo_are_compared_whole() {
        assert!(is_field("vendor_id\t: GenuineIntel", "vendor_id: GenuineIntel"));
        assert!(!is_field("vendor_id\t: GenuineIntelish", "vendor_id: GenuineIntel"));
        assert!(!is_field("no colon", "no colon"));
    }

    #[test]
    fn raw_codes_are_hexadecimal() {
        assert_eq!(raw("r412e"), Some(Event { kind: RAW, config: [0x412e, 0, 0] }));
        assert_eq!(raw("r"), None);
        assert_eq!(raw("rxyz"), None);
        assert_eq!(raw("r00000000000000001"), None);
    }

    #[test]
    fn the_modifier_for_user_mode_leaves_the_kernel_out() {
        let sensor = Sensor::find("r412e:u").unwrap();
        assert!(sensor.excludes_kernel && sensor.blind.contains(&"events that the kernel causes".to_owned()));
        assert_eq!((sensor.event, &*sensor.name), (raw("r412e").unwrap(), "r412e:u"));
        assert!(
            Sensor::find("page-faults:u").unwrap().excludes_kernel
                && !Sensor::find("page-faults").unwrap().excludes_kernel
        );
        assert_eq!(in_user_mode("cpu/event=0x2e/u"), Some("cpu/event=0x2e/"));
        for wrong in ["page-faults:k", "page-faults:u:u", "page-faultsu", ":u"] {
            assert!(Sensor::find(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_go_where_the_format_says() {
        let mut config = [0; 3];
        place("config:0-7,32-35\n", 0xabc, &mut config).unwrap();
        place("config1:4", 1, &mut config).unwrap();
        assert_eq!(config, [0xa_0000_00bc, 0x10, 0]);
        assert_eq!(place("config:0-3", 16, &mut config), None);
        assert_eq!(place("attr:0-3", 1, &mut config), None);
    }

    #[test]
    fn an_unknown_event_is_refused_with_what_is_accepted() {
        let error = Sensor::find("page-fault").unwrap_err().to_string();
        assert!(error.contains("\"page-fault\"") && error.contains("page-faults, "), "{error}");
    }
}
