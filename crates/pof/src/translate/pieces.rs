//! The parts of the bytes that a program holds.
//!
//! If the place of all that a program reads and writes is known, the packet's first bytes are
//! headers, and the fields that are read or written are fields of these headers. So an engine can
//! leave what no instruction changes where it is, and need not copy the packet.
//!
//! Each place up to which an instruction needs the packet is the end of a header. A packet that is
//! too short for a header is too short for all instructions that need more of it than the headers
//! before: what is left of it stays unparsed.

use std::collections::BTreeSet;

use super::layout::{At, MAX_PACKET};

/// Maximum number of bytes of a header. Longer ones are slower in native code.
const MAX_HEADER: u32 = 128;
/// Maximum number of headers and of fields. With more, the bytes are one number.
const MAX_HEADERS: usize = 48;
const MAX_FIELDS: usize = 192;
/// Maximum width of a field that no instruction names.
const WORD: u32 = 64;

/// Set of numbers of bytes by which a packet may have grown: bit `n` is `n - 64` bytes. It is empty
/// if they are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growths(u128);

impl Growths {
    const ZERO: i64 = 64;
    /// The packet is as it came.
    pub(super) const NONE: Growths = Growths(1 << Growths::ZERO);
    /// Nothing is known.
    pub(super) const UNKNOWN: Growths = Growths(0);

    pub(super) fn join(self, other: Growths) -> Growths {
        match self == Growths::UNKNOWN || other == Growths::UNKNOWN {
            true => Growths::UNKNOWN,
            false => Growths(self.0 | other.0),
        }
    }

    /// Returns the numbers after the packet has grown by some more bytes, or shrunk.
    pub(super) fn moved(self, by: i64) -> Growths {
        let distance = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
        let lost = match by < 0 {
            true => self.0.trailing_zeros(),
            false => self.0.leading_zeros(),
        };
        match (distance > lost, by < 0) {
            (true, _) => Growths::UNKNOWN,
            (false, _) if self == Growths::UNKNOWN => self,
            (false, true) => Growths(self.0 >> distance),
            (false, false) => Growths(self.0 << distance),
        }
    }

    /// Returns all numbers.
    fn all(self) -> impl Iterator<Item = i64> {
        let has = move |bit: &i64| self.0 >> bit & 1 == 1;
        (0..128).filter(has).map(|bit| bit - Growths::ZERO)
    }

    /// Returns the number, if there is one only.
    pub(super) fn only(self) -> Option<i64> {
        let mut all = self.all();
        all.next().filter(|_| all.next().is_none())
    }
}

/// Bounds of what instructions read and write, as the walk over a program finds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    /// Numbers of bytes that instructions need, of the packet as it came.
    ends: BTreeSet<u32>,
    /// Bits at which a field begins or ends, in the packet as it is then.
    cuts: BTreeSet<u32>,
    /// Growths of packets that are sent.
    sent: BTreeSet<i64>,
    /// True if some place is not known.
    is_unknown: bool,
}

impl Bounds {
    /// Notes that an instruction needs the packet up to this bit after the packet offset.
    pub(super) fn touch(&mut self, at: At, growths: Growths, end: u32) {
        let (At::Known(at), false) = (at, growths == Growths::UNKNOWN) else {
            self.is_unknown = true;
            return;
        };
        let end = i64::from(at) + i64::from(end.div_ceil(8));
        let ends = growths.all().map(|growth| end - growth);
        let ends = ends.filter(|end| (1..=i64::from(MAX_PACKET)).contains(end));
        self.ends.extend(ends.map(|end| end as u32));
    }

    /// Notes that a field begins or ends at this bit after the packet offset.
    pub(super) fn cut(&mut self, at: At, bit: u32) {
        if let At::Known(at) = at {
            self.cuts.insert(bit.saturating_add(8 * at));
        }
    }

    /// Notes that a packet is sent.
    pub(super) fn send(&mut self, growths: Growths) {
        self.sent.extend(growths.all());
    }

    /// Returns the parts of the bytes, of which `parsed` are of the packet as it comes. Returns
    /// `None` if they are not known, or are too many.
    pub(super) fn pieces(&self, parsed: u32, held: u32) -> Option<Pieces> {
        if self.is_unknown {
            return None;
        }
        let mut ends: BTreeSet<u32> = self.ends.range(..parsed).copied().collect();
        ends.extend([parsed, held]);
        let sent = self.sent.iter().map(|growth| i64::from(parsed) + growth);
        let sent = sent.filter(|end| (1..=i64::from(held)).contains(end));
        ends.extend(sent.map(|end| end as u32));
        let ends = with_at_most(MAX_HEADER, ends.into_iter());
        let mut cuts: BTreeSet<u32> = self.cuts.range(1..8 * held).copied().collect();
        cuts.extend(ends.iter().map(|end| 8 * end));
        let cuts = with_at_most(WORD, cuts.into_iter());
        let headers = ends.len();
        (headers <= MAX_HEADERS && cuts.len() <= MAX_FIELDS).then_some(Pieces {
            headers: ends,
            fields: cuts,
        })
    }
}

/// Adds bounds where two are further apart than `most`.
fn with_at_most(most: u32, bounds: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut all = Vec::new();
    let mut before = 0;
    for bound in bounds {
        while bound - before > most {
            before += most;
            all.push(before);
        }
        all.push(bound);
        before = bound;
    }
    all
}

/// The parts of the bytes that a program holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The ends of the headers in bytes, ascending. One is at the last byte that is parsed, and the
    /// last one at the last byte that the program holds.
    pub(super) headers: Vec<u32>,
    /// The ends of the fields in bits, ascending. Each end of a header is the end of a field.
    pub(super) fields: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growths_are_followed_until_they_leave_the_range() {
        let grown = Growths::NONE.moved(4);
        assert_eq!(grown.only(), Some(4));
        assert_eq!(grown.moved(-4), Growths::NONE);
        let both = grown.join(Growths::NONE);
        assert_eq!(both.only(), None);
        assert_eq!(both.all().collect::<Vec<_>>(), [0, 4]);
        assert_eq!(both.moved(63), Growths::UNKNOWN);
        assert_eq!(both.moved(59).all().collect::<Vec<_>>(), [59, 63]);
        assert_eq!(both.moved(-65), Growths::UNKNOWN);
        assert_eq!(Growths::UNKNOWN.moved(1), Growths::UNKNOWN);
        assert_eq!(Growths::UNKNOWN.only(), None);
    }

    #[test]
    fn headers_end_where_instructions_need_the_packet() {
        let mut bounds = Bounds::default();
        let at = At::Known(0);
        bounds.touch(at, Growths::NONE, 48);
        bounds.cut(at, 40);
        bounds.touch(At::Known(14), Growths::NONE.moved(4), 161);
        bounds.send(Growths::NONE.moved(4));
        let pieces = bounds.pieces(31, 35).expect("all places are known");
        assert_eq!(pieces.headers, [6, 31, 35]);
        assert_eq!(pieces.fields, [40, 48, 112, 176, 240, 248, 280]);
    }

    #[test]
    fn bytes_are_one_number_where_a_place_is_unknown() {
        let mut bounds = Bounds::default();
        bounds.touch(At::UpTo(3), Growths::NONE, 8);
        assert_eq!(bounds.pieces(4, 4), None);
    }
}
