//! Messages that programs write (`log_msg`, `assert`): a bounded buffer, filled by packets and
//! drained by the device.

/// Maximum number of bytes of text of a packet. Messages beyond it are counted and dropped.
const CAPACITY: usize = 16 * 1024;

/// Maximum number of decimal digits of a 64-bit limb, and a sign.
const DIGITS_OF_LIMB: usize = 21;

/// Largest power of ten in 64 bits; a chunk has 19 digits.
const CHUNK: u64 = 10_000_000_000_000_000_000;

/// Lines that a packet has written.
#[derive(Clone, Debug, Default)]
pub struct LogBuffer {
    text: String,
    lost: u64,
    /// Rest of a number during its conversion to decimal, and its digits in chunks of 19.
    rest: Vec<u64>,
    chunks: Vec<u64>,
}

/// Divides a number by [`CHUNK`]. Returns the remainder, or `None` if the number is zero.
fn take_chunk(limbs: &mut Vec<u64>) -> Option<u64> {
    while limbs.last() == Some(&0) {
        limbs.pop();
    }
    let mut remainder = None;
    for limb in limbs.iter_mut().rev() {
        let dividend = (u128::from(remainder.unwrap_or(0)) << 64) | u128::from(*limb);
        *limb = (dividend / u128::from(CHUNK)) as u64;
        remainder = Some((dividend % u128::from(CHUNK)) as u64);
    }
    remainder
}

/// Negates a number of this width in two's complement.
fn negate(limbs: &mut [u64], width: u32) {
    let mut carry = true;
    for limb in limbs.iter_mut() {
        (*limb, carry) = (!*limb).overflowing_add(carry.into());
    }
    bits::limbs::truncate_in_place(limbs, width);
}

impl LogBuffer {
    /// Returns true if nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.lost == 0
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= CAPACITY {
            self.text.push_str(text);
        } else {
            self.lost += 1;
        }
    }

    /// Ends the line.
    pub fn end_line(&mut self) {
        self.push("\n");
    }

    /// Appends a number in decimal, as BMv2 does. `signed_width` is the width of a signed number.
    pub fn push_number(&mut self, limbs: &[u64], signed_width: Option<u32>) {
        use std::fmt::Write;
        let significant = limbs.iter().rposition(|&limb| limb != 0);
        let limbs_written = significant.map_or(1, |last| last + 1);
        if self.text.len() + limbs_written * DIGITS_OF_LIMB > CAPACITY {
            self.lost += 1;
            return;
        }
        self.rest.clear();
        self.rest.extend_from_slice(limbs);
        if let Some(width) = signed_width
            && bits::limbs::bit(limbs, width.saturating_sub(1))
        {
            self.text.push('-');
            negate(&mut self.rest, width);
        }
        self.chunks.clear();
        while let Some(chunk) = take_chunk(&mut self.rest) {
            self.chunks.push(chunk);
        }
        let mut chunks = self.chunks.iter().rev();
        // Writing to a `String` does not fail.
        let _ = write!(self.text, "{}", chunks.next().copied().unwrap_or(0));
        for chunk in chunks {
            let _ = write!(self.text, "{chunk:019}");
        }
    }

    /// Passes each line to `sink` and clears the buffer.
    pub fn drain(&mut self, mut sink: impl FnMut(&str)) {
        self.text.lines().for_each(&mut sink);
        if self.lost > 0 {
            sink("(some messages of this packet were lost: it wrote too many)");
        }
        self.text.clear();
        self.lost = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_signed_where_the_type_is() {
        let mut log = LogBuffer::default();
        log.push("a ");
        log.push_number(&[255], Some(8));
        log.push(" b ");
        log.push_number(&[255], None);
        log.end_line();
        log.push_number(&[1, 2], None);
        log.push(" ");
        log.push_number(&[0, 0], None);
        log.push(" ");
        log.push_number(&[1, 1 << 15], Some(80));
        log.push(" ");
        log.push_number(&[0, 1 << 63], Some(128));
        log.end_line();
        let mut lines = Vec::new();
        log.drain(|line| lines.push(line.to_string()));
        assert_eq!(
            lines,
            [
                "a -1 b 255",
                "36893488147419103233 0 -604462909807314587353087 \
                 -170141183460469231731687303715884105728",
            ]
        );
        assert!(log.is_empty());
    }

    #[test]
    fn wide_numbers_have_all_their_digits() {
        // 2^n; the digits are computed by repeated doubling.
        let mut digits = vec![1_u8];
        let mut log = LogBuffer::default();
        for n in 0..1_000_u32 {
            let mut limbs = vec![0_u64; 16];
            limbs[n as usize / 64] = 1 << (n % 64);
            log.push_number(&limbs, None);
            log.end_line();
            let expected: String = digits.iter().rev().map(|&d| char::from(b'0' + d)).collect();
            log.drain(|line| assert_eq!(line, expected, "2^{n}"));
            let mut carry = 0;
            for digit in &mut digits {
                let doubled = 2 * *digit + carry;
                (*digit, carry) = (doubled % 10, doubled / 10);
            }
            digits.extend((carry > 0).then_some(carry));
        }
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_lost() {
        let mut log = LogBuffer::default();
        for _ in 0..CAPACITY {
            log.push("xx");
        }
        let mut lines = 0;
        log.drain(|_| lines += 1);
        assert_eq!(lines, 2);
    }
}
