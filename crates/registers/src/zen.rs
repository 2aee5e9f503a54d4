//! Data fabric and memory controllers of Zen, combined.

use std::collections::BTreeSet;

use memtint_map::{ADDRESS_BITS_MAX, Role, gf2};

use crate::decoded::{Decoded, Function, Parts, Piece, bits_for};
use crate::error::{Origin, RegisterError};
use crate::fabric::{self, Choice, Rule, Spread};
use crate::list::{Fabric, ZenDump};
use crate::umc::{self, Channel};
use crate::wires::Wires;

/// Makes a platform file from a list of Zen's registers.
///
/// Without registers of memory controllers, the functions select channels only. With registers of fewer controllers
/// than channels, the derived functions are marked as assumed for the others. Refused by name are: interleaves over 3,
/// 5, 6, 10, 12 or 24 channels (their hash uses bits of the address before the division, which no function of the
/// quotient can express), rules that interleave differently, and memory controllers that differ.
///
/// # Errors
/// [`RegisterError`]: a register is missing, or is refused.
pub fn decode_zen(dump: &ZenDump, origin: &str) -> Result<Decoded, RegisterError> {
    let origin = Origin(origin);
    let rules = fabric::rules(dump, origin)?;
    let spread = rules[0].spread;
    if let Some(other) = rules.iter().find(|rule| rule.spread != spread) {
        let accepted = "as in the first rule: a platform file has one list of functions";
        return origin.refuse(fabric::rule_name(dump.fabric, other.index), "another interleave", accepted);
    }
    let channel = controllers(dump, origin)?;
    let memory = MemoryLayout::of(dump, &rules, spread, origin)?;
    memory.put_together(dump, &rules, channel, origin)
}

/// Reads all memory controllers of the dump, which must be identical, and counts those in use.
fn controllers(dump: &ZenDump, origin: Origin<'_>) -> Result<Option<(Channel, u32)>, RegisterError> {
    let mut first: Option<(u8, Channel, u32)> = None;
    for (&number, values) in &dump.controllers {
        let layout = dump.layout.expect("a dump with memory controllers contains their layout");
        let Some(channel) = umc::channel(number, values, layout, origin)? else { continue };
        match &mut first {
            None => first = Some((number, channel, 1)),
            Some((_, known, count)) if *known == channel => *count += 1,
            Some((known, ..)) => {
                let accepted = format!("as umc{known}: a platform file has one list of functions for all channels");
                return origin.refuse(
                    format!("umc{number}"),
                    "a memory controller with other modules or settings",
                    accepted,
                );
            }
        }
    }
    Ok(first.map(|(_, channel, count)| (channel, count)))
}

/// A part of a rule's physical memory, on one side of the hole.
struct Stretch {
    rule: usize,
    base: u64,
    end: u64,
    /// DRAM address minus physical address, modulo 2^64.
    to_dram: u64,
    /// Hashed address minus physical address, modulo 2^64.
    to_hash: u64,
}

/// The memory, and the selection of its channels.
struct MemoryLayout {
    stretches: Vec<Stretch>,
    choices: Vec<Choice>,
    spread: Spread,
    /// Address bits of the hash that differ between the DRAM address and the hashed address.
    carried: u64,
    /// Number of bits of DRAM addresses.
    width: u32,
    hole_valid: bool,
}

const FOUR_GIB: u64 = 1 << 32;
/// More pieces of memory than this are refused.
const PIECES_MAX: u64 = 4096;

impl MemoryLayout {
    fn of(dump: &ZenDump, rules: &[Rule], spread: Spread, origin: Origin<'_>) -> Result<MemoryLayout, RegisterError> {
        let hole = if rules.iter().any(|rule| rule.hole) { fabric::hole(dump, origin)? } else { None };
        let choices = spread.choices();
        let mut stretches = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let shared = rules[..index].iter().any(|other| other.target == rule.target);
            let offset = if shared { fabric::channel_offset(dump, rule, origin)? } else { 0 };
            // The offset applies to the channel's address, without the selecting bits.
            let offset = offset << choices.len();
            let mut add = |base: u64, end: u64, below: u64| {
                let to_hash = if Spread::hashes_physical(dump.fabric) { 0 } else { below.wrapping_neg() };
                let to_dram = offset.wrapping_sub(below);
                stretches.push(Stretch { rule: index, base, end, to_dram, to_hash });
            };
            match hole.filter(|_| rule.hole) {
                Some(hole) if rule.base < hole && hole < rule.end => {
                    add(rule.base, hole, rule.base);
                    if rule.end > FOUR_GIB {
                        add(FOUR_GIB, rule.end, rule.base + (FOUR_GIB - hole));
                    }
                }
                Some(hole) if rule.base >= FOUR_GIB || rule.base >= hole => {
                    let found = format!("a rule at {:#x} with a hole at {hole:#x}", rule.base);
                    let register = format!("LgcyMmioHoleEn of {}", fabric::rule_name(dump.fabric, rule.index));
                    return origin.refuse(register, found, "a hole inside the rule");
                }
                _ => add(rule.base, rule.end, rule.base),
            }
        }
        let used = choices.iter().fold(0, |used, choice| used | choice.mask);
        let carried = stretches.iter().fold(0, |carried, stretch| {
            let difference = stretch.to_dram.wrapping_sub(stretch.to_hash);
            carried
                | if difference == 0 { 0 } else { used >> difference.trailing_zeros() << difference.trailing_zeros() }
        });
        let last = stretches.iter().map(|stretch| (stretch.end - 1).wrapping_add(stretch.to_dram)).max().unwrap_or(0);
        let width = bits_for(last).max(13);
        if width > ADDRESS_BITS_MAX {
            let found = format!("{width} bits of DRAM addresses");
            return origin.refuse("the rules' limits and offsets", found, format!("up to {ADDRESS_BITS_MAX} bits"));
        }
        Ok(MemoryLayout { stretches, choices, spread, carried, width, hole_valid: hole.is_some() })
    }

    /// Choices whose hash uses bits that the DRAM address lacks; each gets an address bit above all others, which the
    /// regions set.
    fn labelled(&self) -> Vec<&Choice> {
        self.choices.iter().filter(|choice| choice.mask & self.carried != 0).collect()
    }

    /// Cuts the memory where such a bit changes.
    fn pieces(&self, dump: &ZenDump, rules: &[Rule], origin: Origin<'_>) -> Result<Vec<Piece>, RegisterError> {
        let targets: Vec<u32> = rules.iter().map(|rule| rule.target).collect::<BTreeSet<_>>().into_iter().collect();
        let node_bits = self.choices.iter().filter(|choice| choice.role == Role::Node).count();
        let block = if self.carried == 0 { u64::MAX } else { 1 << self.carried.trailing_zeros() };
        let total: u64 = self.stretches.iter().map(|stretch| (stretch.end - stretch.base) / block).sum();
        if total > PIECES_MAX {
            let found = format!("a hole or an offset that cuts memory into {total} pieces of {block:#x} bytes");
            let accepted = format!("at most {PIECES_MAX}, each a region of the platform file");
            return origin.refuse(fabric::hole_name(dump.fabric), found, accepted);
        }
        let labelled = self.labelled();
        let mut pieces: Vec<Piece> = Vec::new();
        for stretch in &self.stretches {
            let rule = &rules[stretch.rule];
            let target = targets.iter().position(|&target| target == rule.target).unwrap_or(0);
            let mut registers = fabric::rule_name(dump.fabric, rule.index);
            if rule.hole && self.hole_valid {
                registers.push_str(&format!(", {} (DRAM hole)", fabric::hole_name(dump.fabric)));
            }
            let mut base = stretch.base;
            let mut before = None;
            while base < stretch.end {
                let hashed = base.wrapping_add(stretch.to_hash);
                let end =
                    if block == u64::MAX { stretch.end } else { stretch.end.min(base + (block - hashed % block)) };
                let label = labelled.iter().enumerate().fold(0, |label, (index, choice)| {
                    label | gf2::parity(hashed, choice.mask & self.carried) << (self.width + index as u32)
                });
                match pieces.last_mut() {
                    Some(last) if before == Some(label) => last.end = end,
                    _ => pieces.push(Piece {
                        base,
                        end,
                        node: (target as u32) << node_bits,
                        dram_base: base.wrapping_add(stretch.to_dram) | label,
                        registers: registers.clone(),
                    }),
                }
                before = Some(label);
                base = end;
            }
        }
        Ok(pieces)
    }

    fn put_together(
        &self,
        dump: &ZenDump,
        rules: &[Rule],
        channel: Option<(Channel, u32)>,
        origin: Origin<'_>,
    ) -> Result<Decoded, RegisterError> {
        let pieces = self.pieces(dump, rules, origin)?;
        let labelled = self.labelled();
        let describe = self.spread.describe(dump.fabric, rules[0].index);
        let mut functions: Vec<Function> = Vec::new();
        for choice in &self.choices {
            let label = labelled.iter().position(|other| other.own == choice.own);
            let carried = label.map_or(0, |index| 1 << (self.width + index as u32));
            let mut registers = describe.clone();
            if label.is_some() {
                registers.push_str("; the parity of the hash's high bits is in the regions' DRAM addresses");
            }
            let low = choice.mask & !self.carried & ((1 << self.width) - 1);
            functions.push(Function { role: choice.role, mask: low | carried, registers, assumed: choice.disputed });
        }
        let targets: BTreeSet<u32> = rules.iter().map(|rule| rule.target).collect();
        let channels = self.spread.channels() * targets.len() as u32;
        let mut parts = Parts {
            id: "decoded-zen",
            name: "A machine with AMD Zen, read from its registers".to_owned(),
            uarch: match dump.fabric {
                Fabric::Df2 => "Zen 1",
                Fabric::Df3 | Fabric::Df3p5 => "Zen 2/3",
                Fabric::Df4 => "Zen 4",
                Fabric::Df4p5 => "Zen 5",
            },
            standard: "unknown",
            channels: Some(channels),
            ranks: None,
            banks: None,
            bank_groups: None,
            functions,
            rows: 0,
            columns: 0,
            address_bits: self.width + labelled.len() as u32,
            pieces,
            source: "registers; rules of the data fabric: Linux drivers/ras/amd/atl, illumos zen_umc".to_owned(),
            notes: Vec::new(),
        };
        if self.choices.iter().any(|choice| choice.disputed) {
            parts.notes.push(
                "Linux drivers/ras/amd/atl and illumos zen_umc disagree about the bits of this channel hash; these are \
                 those of atl, and are marked as assumed. A probe can show which is right."
                    .to_owned(),
            );
        }
        match channel {
            None => parts.notes.push(
                "The dump has no registers of memory controllers: functions choose nodes and channels only.".to_owned(),
            ),
            Some((channel, count)) => self.add_channel(&mut parts, &channel, count < channels, origin)?,
        }
        parts.finish(origin)
    }

    /// Adds how the memory controllers decode the remaining address.
    fn add_channel(
        &self,
        parts: &mut Parts,
        channel: &Channel,
        assumed: bool,
        origin: Origin<'_>,
    ) -> Result<(), RegisterError> {
        let mut wires = Wires::straight(self.width);
        let mut own: Vec<u32> = self.choices.iter().map(|choice| choice.own).collect();
        own.sort_unstable();
        for &place in own.iter().rev() {
            wires.remove(place);
        }
        if wires.width() < 64 && 1u64 << wires.width() > channel.end {
            let last = self.stretches.iter().map(|stretch| (stretch.end - 1).wrapping_add(stretch.to_dram)).max();
            if last.is_some_and(|last| wires.derive(last) >= channel.end) {
                let found = format!("chip selects for {:#x} bytes", channel.end);
                return origin.refuse(
                    "umc BaseAddr and AddrMask",
                    found,
                    "chip selects for all of the channel's memory",
                );
            }
        }
        let source = |mask: u64| wires.source(mask);
        parts.functions.extend(channel.functions.iter().filter(|function| source(function.mask) != 0).map(
            |function| {
                let registers = function.registers.clone();
                Function { role: function.role, mask: source(function.mask), registers, assumed }
            },
        ));
        parts.standard = channel.standard;
        parts.ranks = Some(channel.ranks);
        parts.banks = Some(1 << channel.bank_bits);
        parts.bank_groups = Some(1 << channel.group_bits);
        parts.rows = source(channel.rows);
        parts.columns = source(channel.columns);
        parts.source.push_str("; of the memory controllers: illumos umc.h and zen_umc_decode.c");
        if assumed {
            parts.notes.push(
                "The dump has the registers of fewer memory controllers than channels: the others are assumed to be alike."
                    .to_owned(),
            );
        }
        Ok(())
    }
}
