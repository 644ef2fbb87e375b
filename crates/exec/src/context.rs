//! The memory that a packet lives in while its program runs.

use std::sync::Arc;

use ir::{ExternId, ExternKind, HashAlgorithm, Layout, Program, TableId, work};
use packet::{Frame, FrameError, Nanos};
use table::Lane;

use crate::externs::checksum::ChecksumUnit;
use crate::{BitBuffer, DropReason, Found, LogBuffer, RandomStream, Requests, State, WorkBudget};

/// Memory of a context's buffers that is kept: lists, headers and checksums of a jumbo frame have room in it.
const KEPT_BYTES: usize = 256 << 10;

/// A packet being processed: fields, bytes, and what it carries from block to block.
#[derive(Debug)]
pub struct PacketContext {
    /// The frame as [`Layout`] says, then the engine's scratch limbs.
    pub limbs: Vec<u64>,
    frame_limbs: usize,
    /// The packet's bytes, those parsed already included, until [`PacketContext::finish_deparse`].
    pub bytes: Frame,
    /// Bits of [`PacketContext::bytes`] that the parser has consumed.
    pub cursor: usize,
    /// What the deparser has emitted.
    pub emitted: BitBuffer,
    /// The list of values that an operation is being given.
    pub data: BitBuffer,
    /// What the packet asks of the device.
    pub requests: Requests,
    /// Running checksums, by extern instance; `None` for other externs.
    pub checksums: Vec<Option<ChecksumUnit>>,
    /// The packet's random stream.
    pub random: RandomStream,
    /// The device's time at which the current block runs.
    pub now: Nanos,
    /// Where the packet is counted: that of the thread which runs it.
    pub lane: Lane,
    /// Length in bytes that counters and meters count.
    pub length: u32,
    /// Units of work left.
    pub work_left: u32,
    /// The entry of the table being applied.
    pub current: Option<CurrentEntry>,
    /// Parameters of a learned entry that was hit.
    pub learned_params: Vec<u64>,
    /// How deep the packet is in `@atomic` code.
    pub atomic: crate::AtomicDepth,
    /// Messages that the program wrote.
    pub log: LogBuffer,
    /// Digests that the program sent.
    pub digests: Digests,
    /// What the engine notes for a burst.
    pub notes: Vec<u64>,
}

/// What an engine has made of a state, kept from burst to burst.
#[derive(Debug, Default)]
pub struct Derived {
    /// The state and the lane that it was made for. It keeps the state: packets find it here, and nowhere else.
    of: Option<(Arc<State>, Lane)>,
    /// The engine's own: what bursts look at before anything else.
    pub marks: [u64; 2],
    /// All else.
    pub words: Vec<u64>,
}

impl Derived {
    /// Whether it was made of this state and for this lane.
    #[inline]
    pub fn is_of(&self, state: &Arc<State>, lane: Lane) -> bool {
        let is_same =
            |(of, for_lane): &(Arc<State>, Lane)| Arc::ptr_eq(of, state) && *for_lane == lane;
        self.of.as_ref().is_some_and(is_same)
    }

    /// Says what it was made of.
    pub fn is_made_of(&mut self, state: &Arc<State>, lane: Lane) {
        self.of = Some((Arc::clone(state), lane));
    }

    /// What it was made of, for packets that are counted on this lane; none if it was not made, or for another lane.
    #[inline]
    pub fn state(&self, lane: Lane) -> Option<&State> {
        let (state, for_lane) = self.of.as_ref()?;
        (*for_lane == lane).then_some(state)
    }

    /// Lets go of the state. What was made stays until it is made anew, and is of none.
    pub fn let_go(&mut self) {
        self.of = None;
    }
}

/// The entry, or default action, whose action is running.
#[derive(Clone, Copy, Debug)]
pub struct CurrentEntry {
    /// The table.
    pub table: TableId,
    /// What was found.
    pub found: Found,
}

impl PacketContext {
    /// A context for packets of this program; `scratch` limbs follow the frame.
    pub fn new(program: &Program, layout: &Layout, scratch: usize) -> PacketContext {
        let frame_limbs = layout.limbs() as usize;
        PacketContext {
            limbs: vec![0; frame_limbs + scratch],
            frame_limbs,
            bytes: Frame::new(),
            cursor: 0,
            emitted: BitBuffer::with_capacity(256),
            data: BitBuffer::with_capacity(256),
            requests: Requests::default(),
            checksums: program.externs.values().map(checksum_unit).collect(),
            random: RandomStream::default(),
            now: Nanos::ZERO,
            lane: Lane::new(0),
            length: 0,
            work_left: WorkBudget::MOST.units(),
            current: None,
            learned_params: vec![0; most_param_limbs(program)],
            atomic: crate::AtomicDepth::default(),
            log: LogBuffer::default(),
            digests: Digests::default(),
            notes: Vec::new(),
        }
    }

    /// The packet's fields.
    #[inline]
    pub fn frame(&self) -> &[u64] {
        &self.limbs[..self.frame_limbs]
    }

    /// The packet's fields, to be changed; values must stay canonical.
    #[inline]
    pub fn frame_mut(&mut self) -> &mut [u64] {
        &mut self.limbs[..self.frame_limbs]
    }

    /// Starts a pass over the packet's bytes: all fields zero, nothing parsed, nothing asked.
    #[inline]
    pub fn begin_pass(&mut self) {
        self.frame_mut().fill(0);
        self.cursor = 0;
        self.emitted.clear();
        self.requests = Requests::default();
        self.begin_block();
        self.clear_checksums();
    }

    /// Whether the program has asked something of the device that the usual way of a packet does not answer ([`crate::PassTest::Asked`]). What it only tells, digests and messages, is taken from
    /// the context when the packet has gone its way.
    pub fn has_asked(&self) -> bool {
        let usual = Requests {
            checksum_error: self.requests.checksum_error,
            destination: self.requests.destination,
            mark: self.requests.mark,
            ..Requests::default()
        };
        self.requests != usual
    }

    /// Whether the program has told something that nobody has taken: messages, digests.
    #[inline]
    pub fn has_told(&self) -> bool {
        !self.log.is_empty() || !self.digests.is_empty()
    }

    /// Running checksums begin anew.
    pub fn clear_checksums(&mut self) {
        for unit in self.checksums.iter_mut().flatten() {
            unit.clear();
        }
    }

    /// Before each block: no table is being applied.
    #[inline]
    pub fn begin_block(&mut self) {
        self.current = None;
    }

    /// Takes units of work from the budget; whether there were enough.
    #[inline]
    pub fn spend(&mut self, units: u32) -> bool {
        match self.work_left.checked_sub(units) {
            Some(left) => {
                self.work_left = left;
                true
            }
            None => {
                self.work_left = 0;
                false
            }
        }
    }

    /// Takes the work of hashing so many bytes.
    ///
    /// # Errors
    /// The reason to drop the packet: its budget does not have that much.
    #[inline]
    pub fn spend_on_hash(
        &mut self,
        algorithm: HashAlgorithm,
        bytes: usize,
    ) -> Result<(), DropReason> {
        match self.spend(work::units(work::hash_steps(algorithm, bytes as u64))) {
            true => Ok(()),
            false => Err(DropReason::WorkBudget),
        }
    }

    /// Whether the deparser has emitted more than any frame holds: engines drop the packet there and then, as too long.
    #[inline]
    pub fn has_emitted_too_much(&self) -> bool {
        self.emitted.bits() > packet::MAX_FRAME * 8
    }

    /// The bytes behind what was parsed; a byte that was parsed in part is not one of them.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.bytes();
        &bytes[self.cursor.div_ceil(8).min(bytes.len())..]
    }

    /// The packet becomes what was emitted, followed by what was not parsed.
    ///
    /// Where both end inside a byte at the same bit, the rest of that byte stays behind the emitted bits; otherwise emitted bits are padded
    /// with zeros to a byte, and a byte that was parsed in part is gone.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; the bytes are unchanged.
    pub fn finish_deparse(&mut self) -> Result<(), FrameError> {
        let mut bytes = std::mem::replace(&mut self.bytes, Frame::without_buffer());
        let finished = self.finish_deparse_of(&mut bytes);
        self.bytes = bytes;
        finished
    }

    /// The same for a packet whose bytes are in another place.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; the bytes are unchanged.
    pub fn finish_deparse_of(&mut self, frame: &mut Frame) -> Result<(), FrameError> {
        let within = self.cursor % 8;
        if within != 0 && self.emitted.bits() % 8 == within {
            let rest = frame.bytes().get(self.cursor / 8).copied().unwrap_or(0);
            let width = 8 - within as u32;
            self.emitted
                .push_u64(u64::from(rest) & bits::one::mask(width), width);
        }
        let parsed = self.cursor.div_ceil(8).min(frame.len());
        let longer = frame.len() - parsed + self.emitted.bytes().len();
        if longer > packet::MAX_FRAME {
            return Err(FrameError::TooLong { len: longer });
        }
        frame.pull_front(parsed)?;
        frame.push_front(self.emitted.bytes())?;
        self.cursor = 0;
        self.emitted.clear();
        Ok(())
    }

    /// Whether a packet has made the buffers so large that the context had better be given up than kept for another packet.
    pub fn is_oversized(&self) -> bool {
        let checksums = self.checksums.iter().flatten().map(ChecksumUnit::capacity);
        let buffers = [&self.emitted, &self.data].map(BitBuffer::capacity);
        let all = checksums.chain(buffers).chain([self.digests.capacity()]);
        all.sum::<usize>() > KEPT_BYTES
    }

    /// The running checksum of an instance; `None` for an extern that has none.
    #[inline]
    pub fn checksum(&mut self, instance: ExternId) -> Option<&mut ChecksumUnit> {
        self.checksums.get_mut(instance.get() as usize)?.as_mut()
    }
}

fn checksum_unit(instance: &ir::Extern) -> Option<ChecksumUnit> {
    match instance.kind {
        ExternKind::Checksum { .. } => Some(ChecksumUnit::Data(BitBuffer::default())),
        ExternKind::InternetChecksum => Some(ChecksumUnit::Sum(0)),
        _ => None,
    }
}

/// Limbs of the longest parameter list.
fn most_param_limbs(program: &Program) -> usize {
    let limbs = |action: &ir::Action| -> usize {
        let params = action.params.iter();
        params.map(|param| ir::limbs_of(param.ty) as usize).sum()
    };
    program.actions.values().map(limbs).max().unwrap_or(0)
}

/// Digest messages of one packet: packed values, up to a limit; what does not fit is counted.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    messages: Vec<(ExternId, usize)>,
    limbs: Vec<u64>,
    lost: u64,
    /// Whether the last message is one of the lost.
    is_losing: bool,
}

/// Messages that a packet may send.
const MAX_MESSAGES: usize = 1 << 10;

/// Limbs of all messages of a packet.
const MAX_MESSAGE_LIMBS: usize = 1 << 15;

/// A digest message: the values of its fields, each starting on its own limb, a `varbit`'s length in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMessage<'d> {
    /// The digest.
    pub digest: ExternId,
    /// The values.
    pub limbs: &'d [u64],
}

impl Digests {
    /// Whether no message was sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.lost == 0
    }

    /// How many messages did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn capacity(&self) -> usize {
        self.limbs.capacity() * size_of::<u64>()
    }

    /// Starts a message; [`Digests::push`] appends its values.
    pub fn begin(&mut self, digest: ExternId) {
        self.is_losing = self.messages.len() >= MAX_MESSAGES;
        match self.is_losing {
            true => self.lost += 1,
            false => self.messages.push((digest, self.limbs.len())),
        }
    }

    /// Appends limbs of a value to the last message.
    pub fn push(&mut self, limbs: &[u64]) {
        if self.is_losing {
            return;
        }
        if self.limbs.len() + limbs.len() <= MAX_MESSAGE_LIMBS {
            return self.limbs.extend_from_slice(limbs);
        }
        // A message is whole or lost.
        self.is_losing = true;
        self.lost += 1;
        if let Some((_, start)) = self.messages.pop() {
            self.limbs.truncate(start);
        }
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = DigestMessage<'_>> {
        let ends = self.messages.iter().skip(1).map(|message| message.1);
        let ends = ends.chain([self.limbs.len()]);
        self.messages
            .iter()
            .zip(ends)
            .map(|(&(digest, start), end)| DigestMessage {
                digest,
                limbs: &self.limbs[start..end],
            })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.limbs.clear();
        self.lost = 0;
        self.is_losing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_beyond_the_limit_are_lost_whole_and_counted() {
        let digest = ExternId::new(0);
        let mut digests = Digests::default();
        digests.begin(digest);
        digests.push(&[1]);
        digests.begin(digest);
        digests.push(&[2; MAX_MESSAGE_LIMBS - 10]);
        digests.push(&[3; 10]);
        digests.push(&[4]);
        digests.begin(digest);
        digests.push(&[5]);
        let kept: Vec<Vec<u64>> = digests.iter().map(|m| m.limbs.to_vec()).collect();
        assert_eq!(kept, [[1], [5]]);
        assert_eq!(digests.lost(), 1);
        for _ in 0..MAX_MESSAGES {
            digests.begin(digest);
            digests.push(&[6]);
        }
        assert_eq!(digests.iter().count(), MAX_MESSAGES);
        assert_eq!(digests.lost(), 3);
        digests.clear();
        assert!(digests.is_empty());
    }
}
