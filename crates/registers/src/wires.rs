//! Addresses derived from the bits of other addresses.

use memtint_map::gf2;

/// The bits of a derived address: bit `i` is the parity of the DRAM address under mask `i`.
///
/// A controller removes the bits that selected a channel, and moves others, before it decodes the rest. A platform file
/// refers to the address before these steps, so every register mask is translated here.
#[derive(Clone, Debug)]
pub(crate) struct Wires(Vec<u64>);

impl Wires {
    /// The address itself, `width` bits of it.
    pub(crate) fn straight(width: u32) -> Wires {
        Wires((0..width).map(|bit| 1 << bit).collect())
    }

    /// Removes one bit; the bits above move down.
    pub(crate) fn remove(&mut self, bit: u32) {
        if (bit as usize) < self.0.len() {
            self.0.remove(bit as usize);
        }
    }

    /// Exchanges two bits.
    pub(crate) fn swap(&mut self, a: u32, b: u32) {
        self.0.swap(a as usize, b as usize);
    }

    /// Number of bits.
    pub(crate) fn width(&self) -> u32 {
        self.0.len() as u32
    }

    /// The DRAM address bits whose parity is the parity of the derived bits in `mask`. Bits above the width are zero in
    /// every address, so they contribute nothing.
    pub(crate) fn source(&self, mask: u64) -> u64 {
        gf2::bits(mask).filter_map(|bit| self.0.get(bit as usize)).fold(0, |sum, source| sum ^ source)
    }

    /// The derived address of a DRAM address.
    pub(crate) fn derive(&self, addr: u64) -> u64 {
        let values = self.0.iter().enumerate();
        values.fold(0, |derived, (bit, &source)| derived | gf2::parity(addr, source) << bit)
    }
}

/// Bits `high..=low` of a register, as data sheets write them.
pub(crate) fn field(value: u32, high: u32, low: u32) -> u32 {
    value >> low & (u32::MAX >> (31 - (high - low)))
}

/// One bit of a register.
pub(crate) fn bit(value: u32, position: u32) -> bool {
    value >> position & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_bits_close_up() {
        let mut wires = Wires::straight(16);
        wires.remove(8);
        assert_eq!((wires.width(), wires.source(1 << 8), wires.source(0b11 << 7)), (15, 1 << 9, 1 << 7 | 1 << 9));
        assert_eq!(wires.derive(0xff00), 0x7f00);
        wires.swap(0, 14);
        assert_eq!(wires.derive(1), 1 << 14);
        assert_eq!(wires.source(1 << 20), 0);
    }

    #[test]
    fn fields_are_cut_out() {
        assert_eq!(
            (field(0xabcd_1234, 31, 16), field(0xabcd_1234, 7, 4), field(u32::MAX, 31, 0)),
            (0xabcd, 3, u32::MAX)
        );
        assert!(bit(4, 2) && !bit(4, 1));
    }
}
