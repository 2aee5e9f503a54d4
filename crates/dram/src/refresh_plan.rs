//! A refresh engine by its name, with the parameters that a device gives it.

use crate::check::RefreshCheck;
use crate::error::DramError;
use crate::refresh::RefreshKind;
use crate::standard::Device;
use crate::timing::Timing;

/// An engine for a device, the resulting timing, and the duty for a checker.
///
/// ```
/// use memtint_dram::{DeviceChoice, RefreshKind, RefreshPlan, Standard};
///
/// let device = Standard::load("lpddr4-3200")?.device(DeviceChoice::default())?;
/// let plan = RefreshPlan::named("per-bank", &device)?;
/// assert!(matches!(plan.kind, RefreshKind::PerBank { .. }));
/// assert!(RefreshPlan::named("same-bank", &device).is_err(), "LPDDR4 has no REFsb");
/// # Ok::<(), memtint_dram::DramError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshPlan {
    /// For [`ControllerConfig::refresh`](crate::ControllerConfig::refresh).
    pub kind: RefreshKind,
    /// The device's, with the tRFC of finer granularities where one is chosen.
    pub timing: Timing,
    /// `None` without refresh.
    pub duty: Option<RefreshCheck>,
}

impl RefreshPlan {
    /// Every name; the standard of a device decides which of them it supports.
    pub const NAMES: [&str; 9] =
        ["none", "all-bank", "staggered", "fgr2", "fgr4", "per-bank", "same-bank", "burst", "elastic"];

    /// Makes the plan of a name.
    ///
    /// `all-bank` refreshes all ranks together, `staggered` one after the other; `burst` sends all refreshes of a
    /// retention window at its start, which devices tolerate and JEDEC's standards forbid.
    ///
    /// # Errors
    /// [`DramError::Field`] for an unknown name, or one that the device's standard does not support.
    pub fn named(name: &str, device: &Device) -> Result<RefreshPlan, DramError> {
        RefreshPlan::find(name, device).ok_or_else(|| {
            let known = RefreshPlan::NAMES.into_iter().filter(|known| RefreshPlan::find(known, device).is_some());
            DramError::Field {
                origin: device.name.clone(),
                field: "refresh".to_owned(),
                found: format!("{name:?}"),
                accepted: known.collect::<Vec<_>>().join(", "),
            }
        })
    }

    fn find(name: &str, device: &Device) -> Option<RefreshPlan> {
        let all_banks =
            |kind| Some(RefreshPlan { kind, timing: device.timing, duty: Some(RefreshCheck::all_bank(device)) });
        match name {
            "none" => Some(RefreshPlan { kind: RefreshKind::None, timing: device.timing, duty: None }),
            "all-bank" => all_banks(RefreshKind::AllBank { staggered: false }),
            "staggered" => all_banks(RefreshKind::AllBank { staggered: true }),
            "elastic" => all_banks(RefreshKind::Elastic { postponed_max: device.refresh.postponed_max }),
            "fgr2" => RefreshPlan::fine(device, 2),
            "fgr4" => RefreshPlan::fine(device, 4),
            "per-bank" => RefreshPlan::single_banks(device, false),
            "same-bank" => RefreshPlan::single_banks(device, true),
            "burst" => {
                // Each row again within tRET, including the time to close rows: one interval less is enough.
                let commands = device.refresh.commands;
                let window = device.refresh.window_cycles - u64::from(device.refresh.interval);
                let duty = RefreshCheck::window_only(device, u64::from(device.refresh.interval));
                let kind = RefreshKind::Burst { commands, window };
                Some(RefreshPlan { kind, timing: device.timing, duty: Some(duty) })
            }
            _ => None,
        }
    }

    fn fine(device: &Device, factor: u32) -> Option<RefreshPlan> {
        let rfc = device.refresh.fine.iter().find(|fine| fine.factor == factor)?.rfc;
        let kind = RefreshKind::FineGranularity { factor, rfc };
        Some(RefreshPlan { kind, timing: Timing { rfc, ..device.timing }, duty: RefreshCheck::fine(device, factor) })
    }

    fn single_banks(device: &Device, same_bank: bool) -> Option<RefreshPlan> {
        let bank = device.refresh.bank.filter(|bank| bank.same_bank == same_bank)?;
        let interval = bank.interval;
        let kind = if same_bank { RefreshKind::SameBank { interval } } else { RefreshKind::PerBank { interval } };
        Some(RefreshPlan { kind, timing: device.timing, duty: RefreshCheck::single_banks(device) })
    }
}
