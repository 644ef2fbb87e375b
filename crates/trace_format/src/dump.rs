//! Hexadecimal dumps in rows, with marks at bytes that differ from another packet.

use std::ops::Range;

/// Number of bytes per row.
pub(crate) const ROW: usize = 16;

/// Maximum size of the table that compares bytes of different length. Beyond it, everything
/// between the common prefix and the common suffix counts as changed.
const MAX_CELLS: usize = 4 << 20;

/// Minimum length of an equal run between two changes. Shorter runs count as chance.
const SHORTEST_KEPT: usize = 4;

/// Difference between a packet and an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// For each byte of the new packet: true if the old packet has it, too.
    kept: Vec<bool>,
    /// Ranges of the old packet that were removed without a replacement.
    pub(crate) removed: Vec<Range<usize>>,
}

impl Difference {
    /// Compares two packets. Packets of equal length are compared byte for byte, others by their
    /// longest common subsequence.
    pub(crate) fn new(old: &[u8], new: &[u8]) -> Difference {
        if old.len() == new.len() {
            let kept = old.iter().zip(new).map(|(a, b)| a == b).collect();
            return Difference {
                kept,
                removed: Vec::new(),
            };
        }
        let shorter = old.len().min(new.len());
        let same = |(a, b): &(&u8, &u8)| a == b;
        let front = old.iter().zip(new).take_while(same).count();
        let back = old.iter().rev().zip(new.iter().rev()).take_while(same);
        let back = back.count().min(shorter - front);
        let (old_middle, new_middle) = (front..old.len() - back, front..new.len() - back);
        let mut pairs: Vec<(usize, usize)> = (0..front).map(|i| (i, i)).collect();
        pairs.extend(
            common(&old[old_middle.clone()], &new[new_middle.clone()])
                .into_iter()
                .map(|(a, b)| (front + a, front + b)),
        );
        pairs.extend((0..back).map(|i| (old_middle.end + i, new_middle.end + i)));
        Difference::from_pairs(&pairs, old.len(), new.len())
    }

    /// Builds the difference from pairs of equal bytes, ascending on both sides.
    fn from_pairs(pairs: &[(usize, usize)], old_len: usize, new_len: usize) -> Difference {
        let mut kept = vec![false; new_len];
        let mut removed = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        for &(old, new) in pairs.iter().chain([&(old_len, new_len)]) {
            let gone = (old - old_at).saturating_sub(new - new_at);
            if gone > 0 {
                removed.push(old - gone..old);
            }
            if new < new_len {
                kept[new] = true;
            }
            (old_at, new_at) = (old + 1, new + 1);
        }
        Difference { kept, removed }
    }

    /// Returns true if the byte at `at` of the new packet is new.
    pub(crate) fn is_new(&self, at: usize) -> bool {
        !self.kept.get(at).copied().unwrap_or(true)
    }

    /// Returns the number of new bytes in the new packet.
    pub(crate) fn new_bytes(&self) -> usize {
        self.kept.iter().filter(|kept| !**kept).count()
    }

    /// Returns true if a row has new bytes.
    pub(crate) fn touches(&self, row: usize) -> bool {
        (row * ROW..(row + 1) * ROW).any(|at| self.is_new(at))
    }
}

/// Returns the positions of a longest common subsequence, without runs that are short enough to
/// be chance.
fn common(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > MAX_CELLS {
        return Vec::new();
    }
    // longest[i * width + j]: the length of a longest common subsequence of old[i..] and
    // new[j..].
    let mut longest = vec![0u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = if old[i] == new[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    let runs = pairs.chunk_by(|a, b| b.0 == a.0 + 1 && b.1 == a.1 + 1);
    let long = runs.filter(|run| run.len() >= SHORTEST_KEPT);
    long.flatten().copied().collect()
}

/// Formats a row of bytes as hexadecimal digits, with a wider gap in the middle. Each item is the
/// blanks before a byte, and its text.
pub(crate) fn cells(row: &[u8]) -> impl Iterator<Item = (&'static str, String)> + '_ {
    row.iter().enumerate().map(|(i, byte)| {
        let gap = match i {
            0 => "",
            8 => "  ",
            _ => " ",
        };
        (gap, format!("{byte:02x}"))
    })
}

/// Formats a row of bytes as characters, with dots for those that are not printable.
pub(crate) fn characters(row: &[u8]) -> String {
    let shown = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte),
        _ => '.',
    };
    row.iter().map(shown).collect()
}

/// Formats bytes as hexadecimal digits without blanks.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a difference: `^` in `marks` stands for a new byte, `removed` has the removed
    /// ranges.
    fn check(old: &str, new: &str, marks: &str, removed: &str) {
        let difference = Difference::new(old.as_bytes(), new.as_bytes());
        let got: String = (0..new.len())
            .map(|at| if difference.is_new(at) { '^' } else { '.' })
            .collect();
        let gone: Vec<String> = difference
            .removed
            .iter()
            .map(|range| format!("{range:?}"))
            .collect();
        assert_eq!(
            (got.as_str(), gone.join(" ")),
            (marks, removed.to_owned()),
            "{old} -> {new}"
        );
        assert_eq!(difference.new_bytes(), marks.matches('^').count());
    }

    #[test]
    fn what_is_new_is_marked_and_what_is_gone_is_known() {
        check("abcdef", "abcdef", "......", "");
        check("abcdef", "abXdeY", "..^..^", "");
        check("abcdef", "abcdefgh", "......^^", "");
        check("abcdef", "abef", "....", "2..4");
        check("", "ab", "^^", "");
        check("ab", "", "", "0..2");
        // An insertion, and a change after it: the bytes between are kept.
        check("abcdefghij", "abXXcdefghYj", "..^^......^.", "");
        check("abcdefghij", "cdefghYj", "......^.", "0..2");
        // Two equal bytes among changes are chance.
        check("abcdefghij", "aXcdYYYYYYYj", ".^^^^^^^^^^.", "");
    }
}
