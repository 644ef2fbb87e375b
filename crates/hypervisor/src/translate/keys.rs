//! Conversion of the matches of an entry to patterns.

use bits::Value;
use ir::KeyMatch;

use super::pattern::{self, Bits, Cube};

/// Returns the patterns under which all keys match.
pub(super) fn cubes(keys: &[Bits], wanted: &[KeyMatch]) -> Vec<Cube> {
    let mut all = vec![Cube::default()];
    for (bits, wanted) in keys.iter().zip(wanted) {
        let own = one(bits, wanted);
        let pairs = all.iter().flat_map(|a| own.iter().map(move |b| (a, b)));
        all = pairs.filter_map(|(a, b)| a.and(b)).collect();
    }
    all
}

fn one(bits: &Bits, wanted: &KeyMatch) -> Vec<Cube> {
    let width = bits.len() as u32;
    match wanted {
        KeyMatch::Any => vec![Cube::default()],
        KeyMatch::Exact(value) => Cube::equal(bits, value).into_iter().collect(),
        KeyMatch::Lpm(value, len) => Cube::masked(bits, value, &Value::prefix_mask(*len, width))
            .into_iter()
            .collect(),
        KeyMatch::Ternary(value, mask) => Cube::masked(bits, value, mask).into_iter().collect(),
        // A signed range around zero. Negative numbers are the larger unsigned ones.
        KeyMatch::Range(low, high) if low > high => {
            let (most, zero) = (Value::all_ones(width), Value::zero(width));
            [
                pattern::within(bits, low, &most),
                pattern::within(bits, &zero, high),
            ]
            .concat()
        }
        KeyMatch::Range(low, high) => pattern::within(bits, low, high),
    }
}
