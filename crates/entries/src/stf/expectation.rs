//! What STF expects: patterns of packets, comparisons of counters.

/// How two numbers compare.
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
    /// Whether it holds.
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

    /// How it is written.
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

/// What an expected packet looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Its nibbles; `None` is `*`.
    pub nibbles: Vec<Option<u8>>,
    /// Whether it must end there (`$`).
    pub exact: bool,
}

/// How a packet differs from a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// A byte differs: position, expected (with `*` nibbles as 0), got.
    Byte(usize, u8, u8),
    /// The packet ends before the pattern: length expected and got, in bytes.
    Short(usize, usize),
    /// The packet goes on behind the pattern.
    Long(usize, usize),
}

impl Pattern {
    /// Where a packet differs first.
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

    /// The pattern as text: nibbles, `*` and `$`.
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
