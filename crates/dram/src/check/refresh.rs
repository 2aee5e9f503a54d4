//! Requirements on refresh.

use crate::standard::Device;

/// How often each bank must be refreshed, by any command.
///
/// A device counts the refreshes of a bank and refreshes the next rows at each: `commands` of them in a row reach
/// every row. So no refresh of a bank may come later than `window + slack` after the one `commands` before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshCheck {
    /// Refreshes of a bank that reach all its rows.
    pub commands: u32,
    /// Retention window in cycles.
    pub window: u64,
    /// Cycles by which the standard lets a refresh come later, because others were postponed.
    pub slack: u64,
    /// The rule on postponed refreshes; `None` if only the window counts, as for burst refresh.
    pub pace: Option<RefreshPace>,
}

/// Permitted deviation from one refresh each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshPace {
    /// Average interval between two refreshes of a bank, in cycles: tREFI.
    pub interval: u32,
    /// Refreshes that may be postponed (8 for DDR2 to DDR4 and LPDDR4, 4 for DDR5; in finer granularities a multiple of
    /// that): the next must then come within the interval.
    pub postponed_max: u32,
    /// Refreshes that count when they come early; further ones are allowed but do not count.
    pub pulled_in_max: u32,
}

impl RefreshCheck {
    /// All-bank refresh at its ordinary granularity.
    #[must_use]
    pub fn all_bank(device: &Device) -> RefreshCheck {
        let refresh = &device.refresh;
        RefreshCheck::paced(device, refresh.commands, refresh.interval, 1)
    }

    /// Fine granularity refresh; `None` when the device has no such factor. The [`Timing`](crate::timing::Timing) given to the checker must
    /// hold the shorter tRFC.
    #[must_use]
    pub fn fine(device: &Device, factor: u32) -> Option<RefreshCheck> {
        let fine = device.refresh.fine.iter().find(|fine| fine.factor == factor)?;
        Some(RefreshCheck::paced(device, device.refresh.commands * factor, fine.interval, factor))
    }

    /// Refresh of single banks; `None` when the device has none.
    #[must_use]
    pub fn single_banks(device: &Device) -> Option<RefreshCheck> {
        let bank = device.refresh.bank?;
        let factor = (bank.commands / device.refresh.commands).max(1);
        Some(RefreshCheck::paced(device, bank.commands, bank.interval, factor))
    }

    /// Gives the standard's requirements beyond this duty: its limits of postponed or pulled-in REF commands, if this duty only requires
    /// that each row is refreshed within the window (one burst, a timetable of software). `None` if the duty includes them.
    #[must_use]
    pub fn beyond(&self, device: &Device) -> Option<RefreshCheck> {
        self.pace.is_none().then(|| RefreshCheck::all_bank(device))
    }

    /// Only the window counts, as for burst refresh (JEDEC's standards forbid that, devices do it).
    #[must_use]
    pub fn window_only(device: &Device, slack: u64) -> RefreshCheck {
        let refresh = &device.refresh;
        RefreshCheck { commands: refresh.commands, window: refresh.window_cycles, slack, pace: None }
    }

    fn paced(device: &Device, commands: u32, interval: u32, factor: u32) -> RefreshCheck {
        let refresh = &device.refresh;
        let (postponed_max, pulled_in_max) = (refresh.postponed_max * factor, refresh.pulled_in_max * factor);
        let slack = u64::from(postponed_max + pulled_in_max + 1) * u64::from(interval);
        let pace = RefreshPace { interval, postponed_max, pulled_in_max };
        RefreshCheck { commands, window: refresh.window_cycles, slack, pace: Some(pace) }
    }
}
