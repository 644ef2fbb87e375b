//! Edits: what turns the frame that came in into the frames that are sent.
//!
//! The bytes of two frames are aligned at the least cost: bytes that stay cost nothing, a byte that
//! is written costs 1, and a gap costs more. Then each written byte gets the edit that gives it for
//! all packets of the flow. Where there is none, its bits are fixed and it is a constant.

use super::value::{Bit, Knowledge, NodeId, NodeKind, SumWord};
use super::{Bytes, Sent};
use crate::flow::{Edit, NotOffloadable, Step, Summed};

/// A byte, most significant bit first.
type Byte = [Bit; 8];

/// Costs of an alignment.
const WRITTEN: u32 = 1;
const GAP: u32 = 8;
const GAP_BYTE: u32 = 2;

/// Most cells of an alignment's table.
const MAX_CELLS: usize = 1 << 22;

/// Returns the steps that send these packets, in order.
pub(super) fn steps(know: &mut Knowledge<'_>, sent: &[Sent]) -> Result<Vec<Step>, NotOffloadable> {
    let mut steps = Vec::new();
    let mut frame = Bytes::default();
    for packet in sent {
        let edits = Difference::of(know, &frame, &packet.packet).edits()?;
        steps.extend(edits.into_iter().map(Step::Edit));
        steps.push(Step::Output(packet.port));
        frame = packet.packet.clone();
    }
    Ok(steps)
}

/// One byte of an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// The byte stays, or is written.
    Keep,
    /// A byte is inserted.
    Insert,
    /// A byte is deleted.
    Delete,
}

/// Two frames that are equal after these bytes.
struct Difference<'k, 'f> {
    know: &'k mut Knowledge<'f>,
    from: Vec<Byte>,
    to: Vec<Byte>,
    /// Offset in the frame as it came in of the first byte of the rests.
    tail: u32,
}

impl<'k, 'f> Difference<'k, 'f> {
    fn of(know: &'k mut Knowledge<'f>, from: &Bytes, to: &Bytes) -> Difference<'k, 'f> {
        let tail = from.tail.max(to.tail);
        let bytes = |bytes: &Bytes| -> Vec<Byte> {
            let prefix = bytes.prefix.as_chunks::<8>().0.iter().copied();
            let more = (bytes.tail..tail)
                .map(|at| std::array::from_fn(|bit| Bit::Input(at * 8 + bit as u32)));
            prefix.chain(more).collect()
        };
        let (from, to) = (bytes(from), bytes(to));
        Difference {
            know,
            from,
            to,
            tail,
        }
    }

    fn is_same(&self, a: &Byte, b: &Byte) -> bool {
        let is_same = |(a, b): (&Bit, &Bit)| {
            a == b
                || self
                    .know
                    .known(*a)
                    .is_some_and(|a| Some(a) == self.know.known(*b))
        };
        a.iter().zip(b).all(is_same)
    }

    /// Aligns the bytes between the first and the last ones that differ.
    fn alignment(&self) -> Result<Vec<Move>, NotOffloadable> {
        let pairs = self.from.iter().zip(&self.to);
        let start = pairs.take_while(|(a, b)| self.is_same(a, b)).count();
        let (from, to) = (&self.from[start..], &self.to[start..]);
        let pairs = from.iter().rev().zip(to.iter().rev());
        let end = pairs.take_while(|(a, b)| self.is_same(a, b)).count();
        let (from, to) = (&from[..from.len() - end], &to[..to.len() - end]);
        if (from.len() + 1).saturating_mul(to.len() + 1) > MAX_CELLS {
            return Err(NotOffloadable::Work);
        }
        let mut moves = vec![Move::Keep; start];
        moves.extend(self.align(from, to));
        moves.extend(std::iter::repeat_n(Move::Keep, end));
        Ok(moves)
    }

    /// Aligns bytes at the least cost (Gotoh's algorithm). Of equal alignments, it takes the one
    /// with the latest gaps.
    fn align(&self, from: &[Byte], to: &[Byte]) -> Vec<Move> {
        const FAR: u32 = u32::MAX / 2;
        let (n, m) = (from.len(), to.len());
        let place = |i: usize, j: usize| i * (m + 1) + j;
        // Costs from a place to the end, by the move that came before: a gap that goes on does not
        // cost its start again.
        let mut cost = vec![[FAR; 3]; (n + 1) * (m + 1)];
        let mut best = vec![[Move::Keep; 3]; (n + 1) * (m + 1)];
        let moves = [Move::Keep, Move::Insert, Move::Delete];
        for i in (0..=n).rev() {
            for j in (0..=m).rev() {
                if (i, j) == (n, m) {
                    cost[place(n, m)] = [0; 3];
                    continue;
                }
                for before in moves {
                    let gap = |of: Move| GAP_BYTE + if before == of { 0 } else { GAP };
                    let mut found = (FAR, Move::Keep);
                    if i < n && j < m {
                        let written = u32::from(!self.is_same(&from[i], &to[j])) * WRITTEN;
                        let after = cost[place(i + 1, j + 1)][Move::Keep as usize];
                        found = (written + after, Move::Keep);
                    }
                    if j < m {
                        let after = cost[place(i, j + 1)][Move::Insert as usize];
                        let all = gap(Move::Insert) + after;
                        if all < found.0 {
                            found = (all, Move::Insert);
                        }
                    }
                    if i < n {
                        let after = cost[place(i + 1, j)][Move::Delete as usize];
                        let all = gap(Move::Delete) + after;
                        if all < found.0 {
                            found = (all, Move::Delete);
                        }
                    }
                    cost[place(i, j)][before as usize] = found.0;
                    best[place(i, j)][before as usize] = found.1;
                }
            }
        }
        let (mut i, mut j, mut before) = (0, 0, Move::Keep);
        let mut path = Vec::new();
        while (i, j) != (n, m) {
            before = best[place(i, j)][before as usize];
            i += usize::from(before != Move::Insert);
            j += usize::from(before != Move::Delete);
            path.push(before);
        }
        path
    }

    fn edits(mut self) -> Result<Vec<Edit>, NotOffloadable> {
        let mut edits = Vec::new();
        let mut checksums: Vec<(NodeId, u32)> = Vec::new();
        let (mut i, mut j) = (0, 0);
        for step in self.alignment()? {
            let offset = j as u32;
            match step {
                Move::Delete => {
                    match edits.last_mut() {
                        Some(Edit::Delete { offset: at, len }) if *at == offset => *len += 1,
                        _ => edits.push(Edit::Delete { offset, len: 1 }),
                    }
                    i += 1;
                }
                Move::Insert => {
                    let byte = match self.checksum_at(j, &mut checksums)? {
                        true => 0,
                        false => self.constant(&self.to[j].clone())?,
                    };
                    match edits.last_mut() {
                        Some(Edit::Insert { offset: at, bytes })
                            if *at + bytes.len() as u32 == offset =>
                        {
                            bytes.push(byte);
                        }
                        _ => edits.push(Edit::Insert {
                            offset,
                            bytes: vec![byte],
                        }),
                    }
                    j += 1;
                }
                Move::Keep => {
                    let (from, to) = (self.from[i], self.to[j]);
                    (i, j) = (i + 1, j + 1);
                    if self.is_same(&from, &to) {
                        continue;
                    }
                    if self.checksum_at(j - 1, &mut checksums)? {
                        continue;
                    }
                    if let Some(value) = self.addition(&from, &to) {
                        edits.push(Edit::Add { offset, value });
                        continue;
                    }
                    let (value, mask) = self.written(&from, &to)?;
                    match edits.last_mut() {
                        Some(Edit::Set {
                            offset: at,
                            value: values,
                            mask: masks,
                        }) if *at + values.len() as u32 == offset => {
                            values.push(value);
                            masks.push(mask);
                        }
                        _ => edits.push(Edit::Set {
                            offset,
                            value: vec![value],
                            mask: vec![mask],
                        }),
                    }
                }
            }
        }
        // A checksum may be over another one that was computed before it.
        checksums.sort();
        for (id, offset) in checksums {
            edits.push(self.checksum(id, offset)?);
        }
        Ok(edits)
    }

    /// Fixes a byte.
    fn constant(&mut self, byte: &Byte) -> Result<u8, NotOffloadable> {
        let mut value = 0;
        for bit in byte {
            value = value << 1 | u8::from(self.know.fix(*bit)?);
        }
        Ok(value)
    }

    /// Returns the bits that are written, and their values.
    fn written(&mut self, from: &Byte, to: &Byte) -> Result<(u8, u8), NotOffloadable> {
        let all_known = to.iter().all(|bit| self.know.known(*bit).is_some());
        let (mut value, mut mask) = (0, 0);
        for (from, to) in from.iter().zip(to) {
            (value, mask) = (value << 1, mask << 1);
            if all_known || from != to {
                value |= u8::from(self.know.fix(*to)?);
                mask |= 1;
            }
        }
        Ok((value, mask))
    }

    /// Returns the number that is added to a byte, if its new value is a sum.
    fn addition(&self, from: &Byte, to: &Byte) -> Option<u8> {
        let Bit::Of(id, 0) = to[7] else {
            return None;
        };
        let node = self.know.node(id);
        let NodeKind::Plus(plus) = &node.kind else {
            return None;
        };
        let is_sum = (0..8).all(|at| to[7 - at] == Bit::Of(id, at as u32));
        let is_byte = (0..8).all(|at| node.inputs.get(at) == Some(&from[7 - at]));
        (is_sum && is_byte && self.know.known(to[7]).is_none()).then(|| plus[0] as u8)
    }

    /// Returns true if the byte at this place is one of a checksum that can be written. The
    /// checksum's place is noted once.
    fn checksum_at(
        &mut self,
        at: usize,
        checksums: &mut Vec<(NodeId, u32)>,
    ) -> Result<bool, NotOffloadable> {
        let Bit::Of(id, place) = self.to[at][7] else {
            return Ok(false);
        };
        let is_known = self.know.known(self.to[at][7]).is_some();
        let first = match place {
            8 => at,
            0 if at > 0 => at - 1,
            _ => return Ok(false),
        };
        let is_byte = |at: usize, low: u32| {
            let byte = self.to.get(at);
            byte.is_some_and(|byte| {
                (0..8).all(|bit| byte[7 - bit] == Bit::Of(id, low + bit as u32))
            })
        };
        if is_known || !is_byte(first, 8) || !is_byte(first + 1, 0) {
            return Ok(false);
        }
        let noted = (id, first as u32);
        if checksums.contains(&noted) {
            return Ok(true);
        }
        // The second byte follows in the alignment unless it stays: then it is written once more.
        let NodeKind::Checksum { payload, .. } = self.know.node(id).kind else {
            return Ok(false);
        };
        let has_payload = payload.is_none_or(|payload| self.rest(payload).is_some());
        if place == 8 && has_payload {
            checksums.push(noted);
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the place in the frame that is sent of all bytes from this one of the frame as it
    /// came in.
    fn rest(&self, payload: u32) -> Option<u32> {
        let bytes = self.to.iter().rev();
        let mut tail = self.tail;
        let mut place = self.to.len() as u32;
        for byte in bytes {
            if tail == payload {
                break;
            }
            let expected = tail.checked_sub(1)?;
            let is_it = (0..8).all(|bit| byte[bit as usize] == Bit::Input(expected * 8 + bit));
            if !is_it {
                return None;
            }
            (tail, place) = (expected, place - 1);
        }
        (tail == payload).then_some(place)
    }

    /// Returns the places of a checksum's words in the frame that is sent, `None` for those that it
    /// does not have.
    fn places(&self, words: &[SumWord], own: usize) -> Vec<Option<u32>> {
        // Most words are those of one header, with or without the checksum itself.
        let in_row = |start: usize, skips: bool| {
            move |at: usize| {
                let place = start + 2 * at;
                let is_after = skips && start < own && place >= own;
                place + if is_after { 2 } else { 0 }
            }
        };
        let row = |start: usize, skips: bool| -> Vec<Option<u32>> {
            let place = in_row(start, skips);
            let places = words.iter().enumerate().map(|(at, word)| {
                let place = place(at);
                self.has_word(place, word, own).then_some(place as u32)
            });
            places.collect()
        };
        let starts = (0..self.to.len()).flat_map(|start| [(start, true), (start, false)]);
        let rows = starts.map(|(start, skips)| row(start, skips));
        // The first of those with the most words.
        let count = |row: &[Option<u32>]| row.iter().flatten().count();
        let best = rows.reduce(|best, row| {
            if count(&row) > count(&best) {
                row
            } else {
                best
            }
        });
        let mut best = best.unwrap_or_else(|| vec![None; words.len()]);
        for (place, word) in best.iter_mut().zip(words) {
            let is_open = word.iter().any(|bit| self.know.known(*bit).is_none());
            if place.is_none() && is_open {
                let mut all = 0..self.to.len();
                *place = all
                    .find(|at| self.has_word(*at, word, own))
                    .map(|at| at as u32);
            }
        }
        best
    }

    /// Returns true if a word is at a place in the frame that is sent.
    fn has_word(&self, place: usize, word: &SumWord, own: usize) -> bool {
        let [high, low] = word.as_chunks::<8>().0 else {
            return false;
        };
        let is_at =
            |at: usize, byte: &Byte| self.to.get(at).is_some_and(|to| self.is_same(to, byte));
        place.abs_diff(own) >= 2 && is_at(place, high) && is_at(place + 1, low)
    }

    fn checksum(&mut self, id: NodeId, offset: u32) -> Result<Edit, NotOffloadable> {
        let NodeKind::Checksum { words, payload } = self.know.node(id).kind.clone() else {
            return Err(NotOffloadable::Disagreement);
        };
        let mut over: Vec<Summed> = Vec::new();
        let mut sum = 0u32;
        let places = self.places(&words, offset as usize);
        for (word, place) in words.iter().zip(places) {
            match place {
                Some(at) => match over.last_mut() {
                    Some(Summed::Bytes { offset, len }) if *offset + *len == at => *len += 2,
                    _ => over.push(Summed::Bytes { offset: at, len: 2 }),
                },
                None => {
                    let mut value = 0;
                    for bit in word {
                        value = value << 1 | u32::from(self.know.fix(*bit)?);
                    }
                    sum += value;
                    sum = (sum & 0xFFFF) + (sum >> 16);
                }
            }
        }
        if sum != 0 {
            over.push(Summed::Word(sum as u16));
        }
        if let Some(payload) = payload {
            let offset = self.rest(payload).ok_or(NotOffloadable::Payload)?;
            over.push(Summed::Rest { offset });
        }
        Ok(Edit::Checksum { offset, over })
    }
}
