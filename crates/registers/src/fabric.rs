//! The data fabric of Zen: address ranges of memory, and their channels.
//!
//! A *rule* assigns a range of physical addresses to a set of channels. Sources, by name: ATL is Linux
//! `drivers/ras/amd/atl` (`map.c`, `reg_fields.h`, `dehash.c`, `denormalize.c`); illumos is its `zen_umc`.

use memtint_map::Role;

use crate::error::{Origin, RegisterError};
use crate::list::{Fabric, FabricRegisters, ZenDump};
use crate::wires::{bit, field};

/// A range of physical addresses, and its interleave over channels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// Index of its registers.
    pub(crate) index: u16,
    pub(crate) base: u64,
    /// End (excluded).
    pub(crate) end: u64,
    /// The hole below 4 GiB is excluded from it.
    pub(crate) hole: bool,
    /// Lowest of its channels, as the fabric numbers them.
    pub(crate) target: u32,
    pub(crate) spread: Spread,
}

/// An interleave of addresses; must be the same for all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    mode: Mode,
    /// Lowest interleaved address bit.
    start: u32,
    die_bits: u32,
    socket_bits: u32,
    /// Address bits that the hash may use.
    hash: Hash,
}

/// IntLvNumChan, with the base-two logarithm of the number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain(u32),
    Df2Hash,
    /// Named after the cluster-on-die settings of Zen 2 and 3.
    Cod(u32),
    /// Named after the NUMA-per-socket settings of Zen 4.
    Nps(u32),
    /// The same of Zen 5; blocks of 1 KiB or 2 KiB.
    Nps1K(u32),
    Nps2K(u32),
}

/// Enabled parts of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hash {
    at_64k: bool,
    at_2m: bool,
    at_1g: bool,
    at_1t: bool,
}

/// One bit of the channel selection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) role: Role,
    /// The address bit that is removed after the channel is selected.
    pub(crate) own: u32,
    /// All bits in its parity, including `own`.
    pub(crate) mask: u64,
    /// Two published sources disagree about the mask.
    pub(crate) disputed: bool,
}

/// Memory hole below 4 GiB: its base, where valid.
pub(crate) fn hole(dump: &ZenDump, origin: Origin<'_>) -> Result<Option<u64>, RegisterError> {
    let place = if dump.fabric >= Fabric::Df4 { (7, 0x104) } else { (0, 0x104) };
    let value = read(dump, place, origin)?;
    Ok(bit(value, 0).then(|| u64::from(field(value, 31, 24)) << 24))
}

/// Name of the hole's register.
pub(crate) fn hole_name(fabric: Fabric) -> &'static str {
    if fabric >= Fabric::Df4 { "F7x104" } else { "F0x104" }
}

/// The most rules of any part; registers of rules beyond a part's number are absent.
const RULES_MAX: u16 = 20;

/// Reads all enabled rules.
pub(crate) fn rules(dump: &ZenDump, origin: Origin<'_>) -> Result<Vec<Rule>, RegisterError> {
    let mut rules = Vec::new();
    for index in 0..RULES_MAX {
        if let Some(rule) = rule(dump, &dump.common, index, origin)? {
            rules.push(rule);
        }
    }
    if rules.is_empty() {
        return origin.refuse("the data fabric's DRAM base addresses", "without an enabled rule", "at least one");
    }
    Ok(rules)
}

fn missing(origin: Origin<'_>, place: (u8, u16)) -> RegisterError {
    origin.missing(format!("F{}x{:03X}", place.0, place.1), "the mapping of an enabled rule depends on it")
}

fn read(dump: &ZenDump, place: (u8, u16), origin: Origin<'_>) -> Result<u32, RegisterError> {
    dump.common.get(&place).copied().ok_or_else(|| missing(origin, place))
}

/// Locations of a rule's registers: base, limit, and from DF4 on control and interleave.
fn places(fabric: Fabric, index: u16) -> [(u8, u16); 4] {
    match fabric {
        Fabric::Df2 | Fabric::Df3 | Fabric::Df3p5 => {
            let first = 0x110 + 8 * index;
            [(0, first), (0, first + 4), (0, 0x3f8), (0, first)]
        }
        Fabric::Df4 => [0, 4, 8, 12].map(|register| (7, 0xe00 + 16 * index + register)),
        Fabric::Df4p5 => [0, 4, 8, 12].map(|register| (7, 0x200 + 16 * index + register)),
    }
}

/// Names the registers of a rule.
pub(crate) fn rule_name(fabric: Fabric, index: u16) -> String {
    let places = places(fabric, index);
    format!("F{}x{:03X} and F{}x{:03X} (DRAM base and limit)", places[0].0, places[0].1, places[1].0, places[1].1)
}

/// Reads one rule; `None` when it is disabled or absent.
fn rule(
    dump: &ZenDump,
    registers: &FabricRegisters,
    index: u16,
    origin: Origin<'_>,
) -> Result<Option<Rule>, RegisterError> {
    let fabric = dump.fabric;
    let places = places(fabric, index);
    let get = |place: (u8, u16)| registers.get(&place).copied();
    let enabled = if fabric >= Fabric::Df4 { get(places[2]) } else { get(places[0]) };
    if !enabled.is_some_and(|value| bit(value, 0)) {
        return Ok(None);
    }
    let need = |place: (u8, u16)| get(place).ok_or_else(|| missing(origin, place));
    let (base, limit) = (need(places[0])?, need(places[1])?);
    // DF2 has no switches for its hash; those of DF3 are common to all rules.
    let control = if fabric == Fabric::Df2 {
        0
    } else if fabric < Fabric::Df4 {
        dump.common.get(&places[2]).copied().ok_or_else(|| missing(origin, places[2]))?
    } else {
        need(places[2])?
    };
    let interleave = need(places[3])?;
    // ATL reg_fields.h: fields by revision.
    let (address, hole, target) = match fabric {
        Fabric::Df2 => ((31, 12), bit(base, 1), field(limit, 7, 0)),
        Fabric::Df3 => ((31, 12), bit(base, 1), field(limit, 9, 0)),
        Fabric::Df3p5 => ((31, 12), bit(base, 1), field(limit, 11, 0)),
        Fabric::Df4 => ((27, 0), bit(control, 1), field(control, 27, 16)),
        Fabric::Df4p5 => ((27, 0), bit(control, 1), field(control, 23, 16)),
    };
    let (channels, select, die_bits, socket_bits) = match fabric {
        Fabric::Df2 => (field(base, 7, 4), field(base, 10, 8), field(limit, 11, 10), field(limit, 8, 8)),
        Fabric::Df3 => (field(base, 5, 2), field(base, 11, 9), field(base, 7, 6), field(base, 8, 8)),
        Fabric::Df3p5 => (field(base, 6, 2), field(base, 11, 9), field(base, 7, 7), field(base, 8, 8)),
        Fabric::Df4 => {
            (field(interleave, 8, 4), field(interleave, 2, 0), field(interleave, 13, 12), field(interleave, 18, 18))
        }
        Fabric::Df4p5 => {
            (field(interleave, 9, 4), field(interleave, 2, 0), field(interleave, 13, 12), field(interleave, 18, 18))
        }
    };
    let hash = match fabric {
        Fabric::Df2 => Hash { at_64k: true, at_2m: true, at_1g: true, at_1t: false },
        Fabric::Df3 | Fabric::Df3p5 => {
            Hash { at_64k: bit(control, 20), at_2m: bit(control, 21), at_1g: bit(control, 22), at_1t: false }
        }
        Fabric::Df4 | Fabric::Df4p5 => Hash {
            at_64k: bit(control, 8),
            at_2m: bit(control, 9),
            at_1g: bit(control, 10),
            at_1t: fabric == Fabric::Df4p5 && bit(control, 15),
        },
    };
    let name = rule_name(fabric, index);
    let mode = match mode(fabric, channels) {
        Ok(mode) => mode,
        Err(found) => {
            let register = format!("F{}x{:03X} (IntLvNumChan)", places[3].0, places[3].1);
            let accepted = "an interleave over a power of two of channels: the others are neither XOR functions nor a plain \
                            remainder of blocks, which is what a region's interleave is";
            return origin.refuse(register, format!("{channels:#x} ({found})"), accepted);
        }
    };
    let range = |value: u32| u64::from(field(value, address.0, address.1)) << 28;
    let rule = Rule {
        index,
        base: range(base),
        end: range(limit) + (1 << 28),
        hole,
        target,
        spread: Spread { mode, start: select + 8, die_bits, socket_bits, hash },
    };
    if rule.end <= rule.base {
        let found = format!("a limit of {:#x} with a base of {:#x}", rule.end - 1, rule.base);
        return origin.refuse(name, found, "a limit above the base");
    }
    rule.spread.check(fabric, &name, origin)?;
    Ok(Some(rule))
}

/// IntLvNumChan (ATL `internal.h`, `map.c`).
fn mode(fabric: Fabric, value: u32) -> Result<Mode, &'static str> {
    let mode = match (fabric, value) {
        (_, 0) => Mode::Plain(0),
        (_, 1) => Mode::Plain(1),
        (Fabric::Df2, 8) => Mode::Df2Hash,
        (Fabric::Df2, _) => return Err("not published"),
        (_, 3) => Mode::Plain(2),
        (_, 5) => Mode::Plain(3),
        (Fabric::Df3 | Fabric::Df3p5, 6) => return Err("6 channels"),
        (_, 7) => Mode::Plain(4),
        (_, 8) => Mode::Plain(5),
        (Fabric::Df3 | Fabric::Df3p5, 0xc) => Mode::Cod(1),
        (Fabric::Df3 | Fabric::Df3p5, 0xd) => Mode::Cod(2),
        (Fabric::Df3 | Fabric::Df3p5, 0xe) => Mode::Cod(3),
        (Fabric::Df4, 0x10) => Mode::Nps(1),
        (Fabric::Df4, 0x11) => Mode::Nps(2),
        (Fabric::Df4, 0x12) => Mode::Nps(3),
        (Fabric::Df4, 0x13) => return Err("NPS4, 3 channels"),
        (Fabric::Df4, 0x14) => return Err("NPS2, 6 channels"),
        (Fabric::Df4, 0x15) => return Err("NPS1, 12 channels"),
        (Fabric::Df4, 0x16) => return Err("NPS2, 5 channels"),
        (Fabric::Df4, 0x17) => return Err("NPS1, 10 channels"),
        (Fabric::Df4p5, 0x10) => Mode::Nps1K(1),
        (Fabric::Df4p5, 0x11) => Mode::Nps1K(2),
        (Fabric::Df4p5, 0x12) => Mode::Nps1K(3),
        (Fabric::Df4p5, 0x0c) => Mode::Nps1K(4),
        (Fabric::Df4p5, 0x20) => Mode::Nps2K(1),
        (Fabric::Df4p5, 0x21) => Mode::Nps2K(2),
        (Fabric::Df4p5, 0x22) => Mode::Nps2K(3),
        (Fabric::Df4p5, 0x23) => Mode::Nps2K(4),
        (Fabric::Df4p5, 0x13 | 0x24) => return Err("NPS4, 3 channels"),
        (Fabric::Df4p5, 0x14 | 0x25) => return Err("NPS2, 6 channels"),
        (Fabric::Df4p5, 0x15 | 0x26) => return Err("NPS1, 12 channels"),
        (Fabric::Df4p5, 0x16 | 0x28) => return Err("NPS2, 5 channels"),
        (Fabric::Df4p5, 0x17 | 0x29) => return Err("NPS1, 10 channels"),
        (Fabric::Df4p5, 0x0e | 0x27) => return Err("NPS0, 24 channels"),
        (Fabric::Df4p5, 0x18..=0x1a) => return Err("the hash of MI300"),
        _ => return Err("not published"),
    };
    Ok(mode)
}

impl Spread {
    /// The combinations that ATL and illumos accept.
    fn check(self, fabric: Fabric, name: &str, origin: Origin<'_>) -> Result<(), RegisterError> {
        let hashed = !matches!(self.mode, Mode::Plain(_));
        if hashed && self.die_bits > 0 {
            return origin.refuse(format!("IntLvNumDies of {name}"), self.die_bits, "0 with a hash");
        }
        let sockets = matches!(self.mode, Mode::Plain(_) | Mode::Nps(_) | Mode::Nps1K(_) | Mode::Nps2K(_));
        if !sockets && self.socket_bits > 0 {
            return origin.refuse(format!("IntLvNumSockets of {name}"), self.socket_bits, "0 with this hash");
        }
        let starts = match self.mode {
            Mode::Plain(_) => 8..=15,
            Mode::Df2Hash | Mode::Cod(_) => 8..=9,
            Mode::Nps(_) | Mode::Nps1K(_) | Mode::Nps2K(_) => 8..=8,
        };
        if !starts.contains(&self.start) {
            let accepted = format!("{} to {} for this interleave", starts.start() - 8, starts.end() - 8);
            return origin.refuse(format!("IntLvAddrSel of {name}"), self.start - 8, accepted);
        }
        let places = match self.mode {
            Mode::Nps(channels) => channels + self.socket_bits <= 4,
            Mode::Nps1K(channels) => channels + self.socket_bits <= 5,
            Mode::Nps2K(channels) => channels + self.socket_bits <= 4,
            _ => true,
        };
        if !places {
            let found = format!("one socket bit more than the hash has places for ({fabric:?})");
            return origin.refuse(format!("IntLvNumSockets of {name}"), found, "0 with this number of channels");
        }
        Ok(())
    }

    /// Returns whether the hash applies to the physical address rather than to the address after removal of base and
    /// hole (ATL `late_hole_remove`, illumos `zen_umc_determine_ileave_addr`).
    pub(crate) fn hashes_physical(fabric: Fabric) -> bool {
        matches!(fabric, Fabric::Df2 | Fabric::Df3 | Fabric::Df4p5)
    }

    /// The bits of the channel selection, lowest first.
    pub(crate) fn choices(self) -> Vec<Choice> {
        let plain = |role, own| Choice { role, own, mask: 1 << own, disputed: false };
        match self.mode {
            Mode::Plain(channels) => {
                let roles = std::iter::repeat_n(Role::Channel, channels as usize)
                    .chain(std::iter::repeat_n(Role::Node, (self.die_bits + self.socket_bits) as usize));
                roles.zip(self.start..).map(|(role, own)| plain(role, own)).collect()
            }
            Mode::Df2Hash => {
                let mask = [self.start, 12, 18, 21, 30].into_iter().fold(0, |mask, bit| mask | 1 << bit);
                vec![Choice { role: Role::Channel, own: self.start, mask, disputed: false }]
            }
            // ATL: bit 0 takes bit 14 and the third of each group. illumos gives bit i the i-th of each group and no
            // 14.
            Mode::Cod(channels) => {
                let choice = |index: u32| {
                    let own = [self.start, 12, 13][index as usize];
                    let group = [2, 0, 1][index as usize];
                    let mask = 1 << own | self.hash.mask(group, false) | if index == 0 { 1 << 14 } else { 0 };
                    Choice { role: Role::Channel, own, mask, disputed: true }
                };
                (0..channels).map(choice).collect()
            }
            Mode::Nps(channels) => self.hashed(channels, &[(8, 0), (12, 1), (13, 2), (14, 3)], true),
            Mode::Nps1K(channels) => self.hashed(channels, &[(8, 0), (9, 1), (12, 2), (13, 3), (14, 4)], false),
            Mode::Nps2K(channels) => self.hashed(channels, &[(8, 0), (12, 2), (13, 3), (14, 4)], false),
        }
    }

    /// Sockets come first. `bit_14`: the first bit takes address bit 14 too, unless sockets are interleaved.
    fn hashed(self, channels: u32, places: &[(u32, u32)], bit_14: bool) -> Vec<Choice> {
        let count = channels + self.socket_bits;
        let choice = |(index, &(own, group)): (usize, &(u32, u32))| {
            let first = index == 0;
            let extra = if first && bit_14 && self.socket_bits == 0 { 1 << 14 } else { 0 };
            Choice {
                role: if (index as u32) < self.socket_bits { Role::Node } else { Role::Channel },
                own,
                mask: 1 << own | self.hash.mask(group, self.hash.at_1t) | extra,
                disputed: false,
            }
        };
        places.iter().take(count as usize).enumerate().map(choice).collect()
    }

    /// Describes the register fields that select this interleave.
    pub(crate) fn describe(self, fabric: Fabric, index: u16) -> String {
        let places = places(fabric, index);
        let (interleave, control) = (places[3], places[2]);
        let mut text =
            format!("F{}x{:03X} IntLvNumChan, IntLvAddrSel = {}", interleave.0, interleave.1, self.start - 8);
        if !matches!(self.mode, Mode::Plain(_) | Mode::Df2Hash) {
            let Hash { at_64k, at_2m, at_1g, at_1t } = self.hash;
            let on = [(at_64k, "64K"), (at_2m, "2M"), (at_1g, "1G"), (at_1t, "1T")];
            let on: Vec<&str> = on.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
            let on = if on.is_empty() { "none".to_owned() } else { on.join(" ") };
            text.push_str(&format!(", F{}x{:03X} HashIntlvCtl {on}", control.0, control.1));
        }
        text
    }

    /// Number of interleaved channels, over all dies and sockets.
    pub(crate) fn channels(self) -> u32 {
        1 << self.choices().len()
    }
}

impl Hash {
    /// Those of bits 16, 21, 30 and 40 that are enabled, each plus `group`.
    fn mask(self, group: u32, at_1t: bool) -> u64 {
        let parts = [(self.at_64k, 16), (self.at_2m, 21), (self.at_1g, 30), (at_1t, 40)];
        parts.into_iter().fold(0, |mask, (on, first)| mask | u64::from(on) << (first + group))
    }
}

/// The shift of a rule's memory in channels shared with another rule: DramOffset, which only the coherent stations
/// have. All stations with the rule must agree.
pub(crate) fn channel_offset(dump: &ZenDump, wanted: &Rule, origin: Origin<'_>) -> Result<u64, RegisterError> {
    let mut found = None;
    for (station, registers) in &dump.stations {
        for index in 1..4 {
            let Some(own) = rule(dump, registers, index, origin)? else { continue };
            if (own.base, own.end) != (wanted.base, wanted.end) {
                continue;
            }
            let place =
                if dump.fabric >= Fabric::Df4 { (7, 0x140 + 4 * (index - 1)) } else { (0, 0x1b4 + 4 * (index - 1)) };
            let name = format!("cs{station}.F{}x{:03X} (DRAM offset)", place.0, place.1);
            let Some(&value) = registers.get(&place) else {
                return Err(origin.missing(name, "it shifts the second rule of a channel"));
            };
            let offset = match dump.fabric {
                Fabric::Df2 => field(value, 31, 20),
                Fabric::Df3 | Fabric::Df3p5 => field(value, 31, 12),
                Fabric::Df4 | Fabric::Df4p5 => field(value, 24, 1),
            };
            let offset = if bit(value, 0) { u64::from(offset) << 28 } else { 0 };
            if found.replace(offset).is_some_and(|other| other != offset) {
                return origin.refuse(name, format!("{offset:#x}"), "the same offset in all channels of the rule");
            }
        }
    }
    found.ok_or_else(|| {
        let reason =
            "two rules use the same channels, and the offset between them is in the coherent stations' registers";
        origin.missing(format!("cs0.{} and its DRAM offset", rule_name(dump.fabric, wanted.index)), reason)
    })
}
