//! Fault injection on a link: lost frames and bit errors.
//!
//! Bit errors are independent. A frame with any bit error gets a bad FCS, and one stored bit is inverted, for
//! receivers that keep bad frames. The CRC detects every single-bit error; the few errors that a CRC misses
//! are not modelled. Decisions compare integers: probabilities are converted once to 64-bit fixed point, with
//! the same result on every host.

use doorbell_sim::frame::Frame;
use doorbell_sim::rng::Rng;

/// A probability in units of 2^-64, from 0 to 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chance(u128);

impl Chance {
    const ONE: u128 = 1 << 64;

    fn new(share: f64) -> Chance {
        // Multiplying by a power of two is exact; the conversion truncates below 2^-64.
        Chance(((share * 18_446_744_073_709_551_616.0) as u128).min(Self::ONE))
    }

    /// The probability that at least one of `count` independent trials succeeds.
    fn of_any(self, count: u64) -> Chance {
        let (mut none, mut power, mut left) = (Self::ONE, Self::ONE - self.0, count);
        while left > 0 {
            if left & 1 == 1 {
                none = multiply(none, power);
            }
            power = multiply(power, power);
            left >>= 1;
        }
        Chance(Self::ONE - none)
    }

    fn draw(self, rng: &mut Rng) -> bool {
        u128::from(rng.next_u64()) < self.0
    }
}

/// Product of two numbers from 0 to 1 in units of 2^-64.
fn multiply(a: u128, b: u128) -> u128 {
    if a == Chance::ONE {
        b
    } else if b == Chance::ONE {
        a
    } else {
        (a * b) >> 64
    }
}

/// Draws a link's faults.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    loss: Chance,
    bit_error: Chance,
    /// The last frame length in bits and its error probability (a cache).
    frame_error: (u64, Chance),
    rng: Rng,
}

impl Faults {
    pub(crate) fn new(frame_loss: f64, bit_error_rate: f64, rng: Rng) -> Faults {
        let (loss, bit_error) = (Chance::new(frame_loss), Chance::new(bit_error_rate));
        Faults { loss, bit_error, frame_error: (0, Chance(0)), rng }
    }

    pub(crate) fn are_possible(&self) -> bool {
        self.loss.0 != 0 || self.bit_error.0 != 0
    }

    pub(crate) fn rng(&self) -> &Rng {
        &self.rng
    }

    pub(crate) fn set_rng(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// Draws whether the next frame is lost.
    pub(crate) fn lose(&mut self) -> bool {
        self.loss.0 != 0 && self.loss.draw(&mut self.rng)
    }

    /// Draws bit errors for a frame of `bits` bits; returns whether there was one.
    pub(crate) fn corrupt(&mut self, frame: &mut Frame, bits: u64) -> bool {
        if self.bit_error.0 == 0 {
            return false;
        }
        if self.frame_error.0 != bits {
            self.frame_error = (bits, self.bit_error.of_any(bits));
        }
        if !self.frame_error.1.draw(&mut self.rng) {
            return false;
        }
        frame.fcs_bad = true;
        // The error may be in padding or FCS, which are not stored.
        let bit = self.rng.below(bits.max(1));
        if let Some(byte) = frame.bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_error_probability_matches_closed_form() {
        for (rate, bits) in [(1e-12, 512), (1e-9, 12_144), (1e-4, 512), (0.5, 3), (1e-3, 100_000)] {
            let chance = Chance::new(rate).of_any(bits).0 as f64 / Chance::ONE as f64;
            let expected = -f64::exp_m1(bits as f64 * f64::ln_1p(-rate));
            assert!((chance / expected - 1.0).abs() < 1e-6, "{rate} × {bits}: {chance} for {expected}");
        }
    }

    #[test]
    fn probabilities_zero_and_one_are_exact() {
        let mut rng = Rng::stream(1, "faults");
        assert_eq!((Chance::new(0.0), Chance::new(1.0)), (Chance(0), Chance(Chance::ONE)));
        assert_eq!(Chance::new(1.0).of_any(7), Chance(Chance::ONE));
        assert_eq!(Chance::new(0.3).of_any(0), Chance(0));
        assert!((0..1000).all(|_| Chance::new(1.0).draw(&mut rng) && !Chance::new(0.0).draw(&mut rng)));
    }
}
