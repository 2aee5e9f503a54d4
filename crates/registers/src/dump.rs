//! A dump of any kind: its memory controller, its content, and the report.

use std::path::Path;

use memtint_map::{Platform, PlatformFile, gf2};
use schemars::JsonSchema;
use serde::Serialize;

use crate::dct::{Family, decode_family};
use crate::decoded::Decoded;
use crate::error::RegisterError;
use crate::list::ZenDump;
use crate::pci::ConfigSpace;
use crate::zen::decode_zen;

/// The supported memory controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// AMD family 10h or 15h.
    Family(Family),
    /// AMD Zen.
    Zen,
}

impl Controller {
    /// Gives its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Controller::Family(Family::F10h) => "f10h",
            Controller::Family(Family::F15h) => "f15h",
            Controller::Zen => "zen",
        }
    }
}

/// Decodes a folder in the layout of `/sys/bus/pci/devices`; without `controller`, the controller is detected.
///
/// # Errors
/// [`RegisterError`]; [`RegisterError::Folder`] for Zen, whose registers are not in configuration space.
pub fn decode_folder(path: &Path, controller: Option<Controller>) -> Result<(Controller, Decoded), RegisterError> {
    let origin = path.display().to_string();
    if controller == Some(Controller::Zen) {
        return Err(RegisterError::Folder { origin });
    }
    of_space(&ConfigSpace::read_folder(path)?, controller, &origin)
}

/// Decodes the text of a dump; without `controller`, the controller is detected. `origin` names the dump in messages.
///
/// # Errors
/// [`RegisterError`] for a text of another form, and for registers that are missing, refused or unknown.
pub fn decode_text(
    text: &str,
    controller: Option<Controller>,
    origin: &str,
) -> Result<(Controller, Decoded), RegisterError> {
    // Only a list of Zen's registers has a line `fabric ...`; no dump of configuration space has such a line.
    let zen = text.lines().any(|line| line.trim_start().starts_with("fabric "));
    if controller.map_or(zen, |controller| controller == Controller::Zen) {
        return Ok((Controller::Zen, decode_zen(&ZenDump::parse(text, origin)?, origin)?));
    }
    of_space(&ConfigSpace::parse(text, origin)?, controller, origin)
}

fn of_space(
    space: &ConfigSpace,
    controller: Option<Controller>,
    origin: &str,
) -> Result<(Controller, Decoded), RegisterError> {
    let family = match controller {
        Some(Controller::Family(family)) => family,
        Some(Controller::Zen) | None => Family::of(space, origin)?,
    };
    Ok((Controller::Family(family), decode_family(space, family, origin)?))
}

/// Output of `memtint platform decode`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DecodeReport<'a> {
    schema: u32,
    report: &'static str,
    dump: String,
    kind: &'static str,
    functions: Vec<FunctionRow>,
    platform: &'a PlatformFile,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FunctionRow {
    role: &'static str,
    /// Bit position in that role's number.
    role_bit: u32,
    /// DRAM address bits.
    bits: Vec<u32>,
    /// Inferred from another, dumped part of the machine, or one of several published rules.
    assumed: bool,
    /// Register bits that define it.
    registers: String,
}

impl DecodeReport<'_> {
    /// Makes the report of a dump; `platform` is made from the decoded file.
    #[must_use]
    pub fn of<'a>(dump: &str, controller: Controller, decoded: &'a Decoded, platform: &Platform) -> DecodeReport<'a> {
        let rows = platform.functions().iter().zip(&decoded.registers).map(|(function, registers)| FunctionRow {
            role: function.role.name(),
            role_bit: function.role_bit,
            bits: gf2::bits(function.mask).collect(),
            assumed: function.assumed,
            registers: registers.clone(),
        });
        DecodeReport {
            schema: 1,
            report: "decoded",
            dump: dump.to_owned(),
            kind: controller.name(),
            functions: rows.collect(),
            platform: &decoded.file,
        }
    }
}
