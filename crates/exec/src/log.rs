//! Messages that programs write (`log_msg`, `assert`): a bounded buffer, filled by packets, emptied by the device.

/// Bytes of text that a packet may write; more is counted, not kept.
const CAPACITY: usize = 16 * 1024;

/// The lines that a packet has written.
#[derive(Clone, Debug, Default)]
pub struct LogBuffer {
    text: String,
    lost: u64,
}

impl LogBuffer {
    /// Whether nothing was written.
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

    /// Appends a number: decimal up to 64 bits, else hexadecimal.
    pub fn push_number(&mut self, limbs: &[u64], signed_width: Option<u32>) {
        use std::fmt::Write;
        if self.text.len() + limbs.len() * 16 + 24 > CAPACITY {
            self.lost += 1;
            return;
        }
        let significant = limbs
            .iter()
            .rposition(|&limb| limb != 0)
            .map_or(1, |i| i + 1);
        let low = limbs.first().copied().unwrap_or(0);
        // Writing to a `String` does not fail.
        let _ = match (significant, signed_width) {
            (1, Some(width)) if width <= 64 => {
                write!(self.text, "{}", bits::one::to_signed(low, width))
            }
            (1, _) => write!(self.text, "{low}"),
            _ => {
                let _ = write!(self.text, "0x{:x}", limbs[significant - 1]);
                limbs[..significant - 1]
                    .iter()
                    .rev()
                    .try_for_each(|limb| write!(self.text, "{limb:016x}"))
            }
        };
    }

    /// Gives each line to `sink` and forgets all.
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
        log.end_line();
        let mut lines = Vec::new();
        log.drain(|line| lines.push(line.to_string()));
        assert_eq!(lines, ["a -1 b 255", "0x20000000000000001"]);
        assert!(log.is_empty());
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
