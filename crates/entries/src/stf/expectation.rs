//! Expectations of STF: packet patterns and comparisons of counters.

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Comparison {
    /// Returns true if the comparison holds.
    pub fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    }

    /// Returns the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Eq => "==",
            Comparison::Ne => "!=",
            Comparison::Lt => "<",
            Comparison::Le => "<=",
            Comparison::Gt => ">",
            Comparison::Ge => ">=",
        }
    }
}

/// Pattern of an expected packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Its hexadecimal digits; `None` is `*`.
    pub nibbles: Vec<Option<u8>>,
    /// True if the packet must end there (`$`).
    pub exact: bool,
}

/// Difference between a packet and a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// A byte differs: its position, the expected value (with `*` digits as 0), and the actual
    /// value.
    Byte(usize, u8, u8),
    /// The packet is shorter than the pattern: expected and actual length in bytes.
    Short(usize, usize),
    /// The packet is longer than the pattern: expected and actual length in bytes.
    Long(usize, usize),
}

impl Pattern {
    /// Returns the first difference of a packet.
    pub fn compare(&self, packet: &[u8]) -> Option<Mismatch> {
        let wanted = self.nibbles.len().div_ceil(2);
        for (at, pair) in self.nibbles.chunks(2).enumerate() {
            let Some(&got) = packet.get(at) else {
                return Some(Mismatch::Short(wanted, packet.len()));
            };
            let halves = [got >> 4, got & 15];
            if pair
                .iter()
                .zip(halves)
                .any(|(want, half)| want.is_some_and(|want| want != half))
            {
                let nibble = |i: usize| pair.get(i).copied().flatten().unwrap_or(0);
                return Some(Mismatch::Byte(at, nibble(0) << 4 | nibble(1), got));
            }
        }
        (self.exact && packet.len() > wanted).then_some(Mismatch::Long(wanted, packet.len()))
    }

    /// Returns the pattern as text: hexadecimal digits, `*` and `$`.
    pub fn text(&self) -> String {
        let digit = |n: &Option<u8>| {
            n.and_then(|n| char::from_digit(n.into(), 16))
                .unwrap_or('*')
        };
        let mut text: String = self.nibbles.iter().map(digit).collect();
        if self.exact {
            text.push('$');
        }
        text
    }
}
