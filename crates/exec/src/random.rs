//! Random numbers that depend only on the seed, the packet number and the draw.

use bits::{limbs, limbs_for, one};
use support::rng::{INCREMENT, mix};

/// Random stream of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomStream {
    key: u64,
    draws: u64,
    number: u64,
}

impl RandomStream {
    /// Creates the stream of packet `number` of a device with this seed.
    pub fn new(seed: u64, number: u64) -> RandomStream {
        RandomStream {
            key: mix(mix(seed.wrapping_add(INCREMENT)) ^ number.wrapping_mul(INCREMENT)),
            draws: 0,
            number,
        }
    }

    /// Returns the number of the packet: the device numbers those that it processes from 1.
    pub fn packet_number(&self) -> u64 {
        self.number
    }

    /// Returns the next draw.
    pub fn next_u64(&mut self) -> u64 {
        self.draws += 1;
        mix(self.key.wrapping_add(self.draws.wrapping_mul(INCREMENT)))
    }

    /// Returns a number from `low` to `high`, both included, or `low` if the bounds are reversed.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let draw = self.next_u64();
        if high <= low {
            return low;
        }
        match (high - low).checked_add(1) {
            None => draw,
            Some(span) => low + (((u128::from(draw)) * u128::from(span)) >> 64) as u64,
        }
    }

    /// Fills `dst` with a value of any width from `low` to `high`, both included, or with `low` if
    /// the bounds are reversed.
    pub fn between_wide(&mut self, dst: &mut [u64], low: &[u64], high: &[u64], width: u32) {
        let n = limbs_for(width).max(1).min(dst.len());
        if n == 1 {
            dst[0] = self.between(low[0], high[0]) & one::mask(width.min(64));
            return;
        }
        if limbs::cmp(&high[..n], &low[..n]).is_le() {
            dst[..n].copy_from_slice(&low[..n]);
            return;
        }
        // Rejection sampling: draws numbers below the next power of two of the span until one is in
        // range. After 128 failed draws the result is `low`.
        limbs::sub(dst, high, low, width);
        let top = dst[..n].iter().rposition(|&limb| limb != 0).unwrap_or(0);
        let mask = u64::MAX >> dst[top].leading_zeros();
        for _ in 0..128 {
            limbs::sub(dst, high, low, width);
            let mut below = false;
            let mut decided = false;
            for i in (0..=top).rev() {
                let draw = self.next_u64() & if i == top { mask } else { u64::MAX };
                if !decided && draw != dst[i] {
                    decided = true;
                    below = draw < dst[i];
                }
                dst[i] = draw;
            }
            if below || !decided {
                let mut carry = false;
                for i in 0..n {
                    let (sum, over) = dst[i].overflowing_add(low[i]);
                    let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
                    dst[i] = sum;
                    carry = over || over_carry;
                }
                return;
            }
        }
        dst[..n].copy_from_slice(&low[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_number_and_draw_only() {
        let draws = |seed, number| {
            let mut stream = RandomStream::new(seed, number);
            [stream.next_u64(), stream.next_u64()]
        };
        assert_eq!(draws(1, 2), draws(1, 2));
        assert_ne!(draws(1, 2), draws(1, 3));
        assert_ne!(draws(1, 2), draws(2, 2));
        assert_ne!(draws(1, 2)[0], draws(1, 2)[1]);
    }

    #[test]
    fn numbers_stay_between_and_reach_both_ends() {
        let mut stream = RandomStream::new(7, 7);
        let drawn: Vec<u64> = (0..1000).map(|_| stream.between(3, 6)).collect();
        assert!((3..=6).all(|n| drawn.contains(&n)));
        assert!(drawn.iter().all(|n| (3..=6).contains(n)));
        assert_eq!(stream.between(9, 2), 9);
        stream.between(0, u64::MAX);
    }

    #[test]
    fn wide_numbers_stay_between() {
        let mut stream = RandomStream::new(1, 1);
        let (low, high) = ([u64::MAX, 0], [4, 3]);
        for _ in 0..500 {
            let mut dst = [0; 2];
            stream.between_wide(&mut dst, &low, &high, 100);
            assert!(limbs::cmp(&dst, &low).is_ge() && limbs::cmp(&dst, &high).is_le());
        }
    }
}
