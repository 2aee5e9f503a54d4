//! Parses budgets in units.

use memtint_guard::events_per_period;
use memtint_regulator::Sensor;
use memtint_units::Picoseconds;

/// Why a text is no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text is of another form.
    #[error("events per period (100ev), or a bandwidth (500MB/s, 1.2GB/s)")]
    Form,
    /// A bandwidth, for a sensor whose events move no known number of bytes.
    #[error("events per period (100ev): an event of this sensor is no transfer of known size; --event-bytes sets one")]
    NoTransfer,
}

/// Gives the events per period of a text: `12ev`, `500MB/s` or `1.2 GB/s`. A bandwidth is rounded as [`events_per_period`] does.
///
/// # Errors
/// [`AmountError`], which displays what is accepted.
pub fn events_of(text: &str, sensor: &Sensor, period: Picoseconds) -> Result<u64, AmountError> {
    let digits = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let scale = match unit {
        "ev" => return number.parse().map_err(|_| AmountError::Form),
        "GB/s" => 9,
        "MB/s" => 6,
        "kB/s" => 3,
        _ => return Err(AmountError::Form),
    };
    let bytes_per_second = decimal(number, scale).ok_or(AmountError::Form)?;
    let bytes = sensor.bytes.ok_or(AmountError::NoTransfer)?;
    Ok(events_per_period(bytes_per_second, bytes.into(), period))
}

/// A decimal number times a power of ten, exactly; `None` if that is no whole number.
fn decimal(text: &str, power: usize) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || part.len() > power {
        return None;
    }
    format!("{whole}{part:0<power$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn bandwidths_are_exact() {
        assert_eq!(decimal("137.42", 6), Some(137_420_000));
        assert_eq!(decimal("1.2", 9), Some(1_200_000_000));
        assert_eq!(decimal("500", 6), Some(500_000_000));
        for text in ["", ".5", "1.2.3", "1.2345", "18446744073709551616"] {
            assert_eq!(decimal(text, 3), None, "{text}");
        }
    }
}
