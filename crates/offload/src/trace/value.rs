//! Values with their origins: each bit of a value is a constant, a bit of the frame as it came in,
//! or a bit of a result that was computed from such bits.

use std::cmp::Ordering;
use std::rc::Rc;

use bits::{Value, limbs_for};

use crate::flow::{ChecksumTest, LengthRange, MatchedBits, NotOffloadable, Summed};

/// A bit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit {
    /// A constant.
    Known(bool),
    /// A bit of the frame as it came in: 0 is the most significant bit of its first byte.
    Input(u32),
    /// Bit `1`, counted from the least significant, of a result.
    Of(NodeId, u32),
}

/// Number of a [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(u32);

/// A value: its bits, least significant first.
pub(super) type Word = Vec<Bit>;

/// A result that was computed from bits that the flow has not fixed.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    /// The bits that it was computed from. If they are fixed, so is the result.
    pub(super) inputs: Rc<[Bit]>,
    /// The result for the packet that is traced.
    value: Box<[u64]>,
    /// True if the flow has fixed the inputs.
    is_fixed: bool,
}

/// Form of a result.
#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// The inputs, as a number, plus a constant, modulo 2 to the number of inputs.
    Plus(Rc<[u64]>),
    /// A sum of 16-bit words, in which some carries may be added back: it equals the sum in ones'
    /// complement arithmetic, and is zero only if all words are. It is at most `most`.
    Sum { words: Rc<[SumWord]>, most: u128 },
    /// The Internet checksum of these words, and of the payload from this byte of the frame as it
    /// came in.
    Checksum {
        words: Rc<[SumWord]>,
        payload: Option<u32>,
    },
    /// The length of the frame as it came in, plus a number.
    Length(i64),
    /// One bit: true if the frame as it came in fails one of these tests.
    WrongChecksum(Rc<[ChecksumTest]>),
    /// Anything else.
    Function,
    /// A value that no flow can depend on.
    Never(NotOffloadable),
}

/// A word of a checksum, most significant bit first.
pub(super) type SumWord = [Bit; 16];

/// Returns the offset of the two whole bytes of the frame as it came in that a word is.
fn input_bytes(word: &SumWord) -> Option<u32> {
    let Bit::Input(first) = word[0] else {
        return None;
    };
    let is_next = |(bit, at): (&Bit, u32)| *bit == Bit::Input(at);
    let is_row = word.iter().zip(first..).all(is_next);
    (first % 8 == 0 && is_row).then_some(first / 8)
}

/// Facts that the packets of a flow share, and the packet that is traced.
///
/// Which bit is asked for next depends only on constants and on the answers so far. So the ways of
/// all packets form a decision tree, and flows are disjoint.
pub(super) struct Knowledge<'f> {
    frame: &'f [u8],
    /// Mask of the bits that the flow fixes.
    fixed: Vec<u8>,
    length: LengthRange,
    /// Checksums that are known to be right or wrong, in the order in which they were asked for.
    checksums: Vec<ChecksumTest>,
    nodes: Vec<Node>,
}

impl<'f> Knowledge<'f> {
    pub(super) fn new(frame: &'f [u8]) -> Knowledge<'f> {
        Knowledge {
            frame,
            fixed: vec![0; frame.len()],
            length: LengthRange {
                min: 0,
                max: packet::MAX_FRAME as u32,
            },
            checksums: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Returns the frame of the packet that is traced.
    pub(super) fn frame(&self) -> &'f [u8] {
        self.frame
    }

    /// Returns the length of the frame of the packet that is traced.
    fn len(&self) -> u32 {
        self.frame.len() as u32
    }

    pub(super) fn length(&self) -> LengthRange {
        self.length
    }

    /// Returns the checksums that the flow has right or wrong.
    pub(super) fn take_checksums(&mut self) -> Vec<ChecksumTest> {
        std::mem::take(&mut self.checksums)
    }

    /// Returns the test that the frame as it came in has these words' checksum in a field. `None`
    /// if one of them is not two whole bytes of that frame, or a constant.
    pub(super) fn checksum_test(&self, words: &[SumWord], field: &SumWord) -> Option<ChecksumTest> {
        let offset = input_bytes(field)?;
        let (mut over, mut sum) = (Vec::new(), 0u32);
        for word in words {
            if let Some(at) = input_bytes(word) {
                match over.last_mut() {
                    Some(Summed::Bytes { offset, len }) if *offset + *len == at => *len += 2,
                    _ => over.push(Summed::Bytes { offset: at, len: 2 }),
                }
                continue;
            }
            let bits = word.iter().map(|bit| match bit {
                Bit::Known(value) => Some(u32::from(*value)),
                _ => None,
            });
            let value = bits.reduce(|high, low| Some(high? << 1 | low?))??;
            sum += value;
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        if sum != 0 {
            over.push(Summed::Word(sum as u16));
        }
        Some(ChecksumTest {
            offset,
            over,
            is_right: true,
        })
    }

    /// Finds out whether the frame fails one of some tests, one after the other up to the first
    /// that it fails, and fixes these results.
    fn test_checksums(&mut self, tests: &[ChecksumTest]) {
        for test in tests {
            let is_right = test.holds(self.frame);
            let found = ChecksumTest {
                is_right,
                ..test.clone()
            };
            if !self.checksums.contains(&found) {
                self.checksums.push(found);
            }
            if !is_right {
                return;
            }
        }
    }

    /// Returns the bits that the flow fixes.
    pub(super) fn matched(&self) -> Vec<MatchedBits> {
        let mut matched: Vec<MatchedBits> = Vec::new();
        for (at, (byte, mask)) in self.frame.iter().zip(&self.fixed).enumerate() {
            if *mask == 0 {
                continue;
            }
            let at = at as u32;
            match matched.last_mut() {
                Some(last) if last.end() == at => {
                    last.value.push(byte & mask);
                    last.mask.push(*mask);
                }
                _ => matched.push(MatchedBits {
                    offset: at,
                    value: vec![byte & mask],
                    mask: vec![*mask],
                }),
            }
        }
        matched
    }

    /// Decides whether the frame has at least `bytes` bytes.
    pub(super) fn has_length(&mut self, bytes: i64) -> bool {
        let has = i64::from(self.len()) >= bytes;
        let bytes = bytes.clamp(0, i64::from(packet::MAX_FRAME as u32) + 1) as u32;
        match has {
            true => self.length.min = self.length.min.max(bytes),
            false => self.length.max = self.length.max.min(bytes.saturating_sub(1)),
        }
        has
    }

    /// Returns a bit of the frame as it came in. The frame has it.
    pub(super) fn input(&self, bit: u32) -> Bit {
        debug_assert!(bit / 8 < self.length.min);
        Bit::Input(bit)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns the value of a bit for the packet that is traced. It may differ for other packets of
    /// the flow.
    pub(super) fn value_of(&self, bit: Bit) -> bool {
        match bit {
            Bit::Known(value) => value,
            Bit::Input(at) => {
                let byte = self.frame.get(at as usize / 8).copied().unwrap_or(0);
                byte >> (7 - at % 8) & 1 == 1
            }
            Bit::Of(node, at) => bits::limbs::bit(&self.node(node).value, at),
        }
    }

    /// Returns the value that a bit has for all packets of the flow, if there is one.
    pub(super) fn known(&self, bit: Bit) -> Option<bool> {
        let is_known = match bit {
            Bit::Known(_) => true,
            Bit::Input(at) => {
                let mask = self.fixed.get(at as usize / 8).copied().unwrap_or(0);
                mask >> (7 - at % 8) & 1 == 1
            }
            Bit::Of(node, _) => self.node(node).is_fixed,
        };
        is_known.then(|| self.value_of(bit))
    }

    /// Fixes a bit: the flow has only packets in which it has its value. Returns the value.
    pub(super) fn fix(&mut self, bit: Bit) -> Result<bool, NotOffloadable> {
        let mut open = vec![bit];
        while let Some(bit) = open.pop() {
            if self.known(bit).is_some() {
                continue;
            }
            match bit {
                Bit::Known(_) => {}
                Bit::Input(at) => self.fixed[at as usize / 8] |= 0x80 >> (at % 8),
                Bit::Of(id, _) => self.fix_node(id, &mut open)?,
            }
        }
        Ok(self.value_of(bit))
    }

    fn fix_node(&mut self, id: NodeId, open: &mut Vec<Bit>) -> Result<(), NotOffloadable> {
        let exact = self.len();
        let node = &mut self.nodes[id.0 as usize];
        match &node.kind {
            NodeKind::Never(reason) => return Err(reason.clone()),
            NodeKind::Length(_) => {
                self.length = LengthRange {
                    min: exact,
                    max: exact,
                }
            }
            NodeKind::Checksum {
                payload: Some(_), ..
            } => return Err(NotOffloadable::Payload),
            NodeKind::WrongChecksum(tests) => {
                let tests = Rc::clone(tests);
                node.is_fixed = true;
                self.test_checksums(&tests);
                return Ok(());
            }
            _ => {}
        }
        node.is_fixed = true;
        open.extend(node.inputs.iter());
        Ok(())
    }

    /// Fixes all bits of a value, and returns it.
    pub(super) fn fix_all(&mut self, word: &[Bit]) -> Result<Value, NotOffloadable> {
        for bit in word.iter().rev() {
            self.fix(*bit)?;
        }
        Ok(self.concrete(word))
    }

    /// Fixes a number. One that does not fit becomes the largest.
    pub(super) fn fix_number(&mut self, word: &[Bit]) -> Result<u64, NotOffloadable> {
        Ok(self.fix_all(word)?.to_u64().unwrap_or(u64::MAX))
    }

    /// Returns the value for the packet that is traced.
    pub(super) fn concrete(&self, word: &[Bit]) -> Value {
        let mut limbs = vec![0; limbs_for(word.len() as u32)];
        for (at, bit) in word.iter().enumerate() {
            limbs[at / 64] |= u64::from(self.value_of(*bit)) << (at % 64);
        }
        Value::from_limbs(&limbs, word.len() as u32)
    }

    /// Returns the value that a word has for all packets of the flow, if there is one.
    pub(super) fn constant(&self, word: &[Bit]) -> Option<Value> {
        let is_known = word.iter().all(|bit| self.known(*bit).is_some());
        is_known.then(|| self.concrete(word))
    }

    /// Returns the constant with this value.
    pub(super) fn word(value: &Value) -> Word {
        let limbs = value.limbs();
        (0..value.width())
            .map(|at| Bit::Known(bits::limbs::bit(limbs, at)))
            .collect()
    }

    /// Adds a result of `width` bits.
    pub(super) fn result(&mut self, kind: NodeKind, inputs: &[Bit], value: &Value) -> Word {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            kind,
            inputs: inputs.into(),
            value: value.limbs().into(),
            is_fixed: false,
        });
        (0..value.width()).map(|at| Bit::Of(id, at)).collect()
    }

    /// Adds a result that is some function of its inputs. It is a constant if they are.
    pub(super) fn function(&mut self, inputs: &[Bit], value: &Value) -> Word {
        let open: Vec<Bit> = inputs
            .iter()
            .filter(|bit| self.known(**bit).is_none())
            .copied()
            .collect();
        match open.is_empty() {
            true => Self::word(value),
            false => self.result(NodeKind::Function, &open, value),
        }
    }

    /// Returns a value of `width` bits that no flow can depend on.
    pub(super) fn never(&mut self, reason: NotOffloadable, width: u32) -> Word {
        self.result(NodeKind::Never(reason), &[], &Value::zero(width))
    }

    /// Returns the frame's length plus a number, as a value of `width` bits.
    pub(super) fn length_plus(&mut self, plus: i64, width: u32) -> Result<Word, NotOffloadable> {
        let LengthRange { min, max } = self.length;
        let of = |length: u32| i64::from(length) + plus;
        let is_in = |number: i64| number >= 0 && (width >= 63 || number >> width == 0);
        if min == max || !is_in(of(min)) || !is_in(of(max)) {
            let exact = self.len();
            self.length = LengthRange {
                min: exact,
                max: exact,
            };
            let value = Value::truncated(i128::from(of(exact)) as u128, width.min(128));
            return match of(exact) < 0 && width > 128 {
                true => Err(NotOffloadable::Length),
                false => Ok(Self::word(&value.resized(width))),
            };
        }
        let value = Value::truncated(of(self.len()) as u128, width);
        Ok(self.result(NodeKind::Length(plus), &[], &value))
    }

    /// Returns the number that is added to the frame's length, if a value is their sum.
    pub(super) fn as_length(&self, word: &[Bit]) -> Option<i64> {
        let Bit::Of(id, 0) = *word.first()? else {
            return None;
        };
        let NodeKind::Length(plus) = self.node(id).kind else {
            return None;
        };
        let taken = word.iter().zip(0..);
        let taken = taken.take_while(|(bit, at)| **bit == Bit::Of(id, *at));
        let taken = taken.count();
        let are_zero = word[taken..].iter().all(|bit| *bit == Bit::Known(false));
        let most = i64::from(self.length.max) + plus;
        let fits = taken >= 63 || most >> taken == 0;
        (are_zero && fits).then_some(plus)
    }

    /// Compares two unsigned numbers of one width.
    pub(super) fn compare(&mut self, a: &[Bit], b: &[Bit]) -> Result<Ordering, NotOffloadable> {
        if let Some(ordering) = self.compare_lengths(a, b) {
            return Ok(ordering);
        }
        for (a, b) in a.iter().zip(b).rev() {
            if a == b {
                continue;
            }
            let (a, b) = (self.fix(*a)?, self.fix(*b)?);
            if a != b {
                return Ok(a.cmp(&b));
            }
        }
        Ok(Ordering::Equal)
    }

    fn compare_lengths(&mut self, a: &[Bit], b: &[Bit]) -> Option<Ordering> {
        match (self.as_length(a), self.as_length(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (Some(plus), None) => {
                let than = self.constant(b)?;
                Some(self.compare_length(plus, &than))
            }
            (None, Some(plus)) => {
                let than = self.constant(a)?;
                Some(self.compare_length(plus, &than).reverse())
            }
            (None, None) => None,
        }
    }

    fn compare_length(&mut self, plus: i64, than: &Value) -> Ordering {
        let limit = 1 << 40;
        let than = than
            .to_u64()
            .map_or(limit, |than| than.min(limit as u64) as i64);
        match self.has_length(than - plus) {
            false => Ordering::Less,
            true => match self.has_length(than - plus + 1) {
                false => Ordering::Equal,
                true => Ordering::Greater,
            },
        }
    }

    /// Returns true if a number is at least another one. It fixes no more than that needs.
    pub(super) fn is_at_least(&mut self, a: &[Bit], b: &[Bit]) -> Result<bool, NotOffloadable> {
        let limit = |value: Value| value.to_u64().unwrap_or(u64::MAX).min(1 << 40) as i64;
        if let (Some(plus), Some(than)) = (self.as_length(a), self.constant(b)) {
            return Ok(self.has_length(limit(than) - plus));
        }
        if let (Some(than), Some(plus)) = (self.constant(a), self.as_length(b)) {
            return Ok(!self.has_length(limit(than) - plus + 1));
        }
        Ok(self.compare(a, b)?.is_ge())
    }

    /// Returns true if two values of one width are equal.
    pub(super) fn is_equal(&mut self, a: &[Bit], b: &[Bit]) -> Result<bool, NotOffloadable> {
        let differs = |(a, b): (&Bit, &Bit)| match (self.known(*a), self.known(*b)) {
            (Some(a), Some(b)) => a != b,
            _ => false,
        };
        if a.len() != b.len() || a.iter().zip(b).any(differs) {
            return Ok(false);
        }
        Ok(self.compare(a, b)?.is_eq())
    }
}
