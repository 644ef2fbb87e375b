//! Packet context: all memory of a packet while its program runs.

use std::sync::Arc;

use ir::{ExternId, ExternKind, HashAlgorithm, Layout, Program, TableId, work};
use packet::{Frame, FrameError, Nanos};
use table::CounterShard;

use crate::externs::checksum::ChecksumUnit;
use crate::{
    BitBuffer, DropReason, Found, FrameRequest, LogBuffer, RandomStream, Requests, State,
    WorkBudget,
};

/// Maximum number of buffer bytes of a context that is reused. Field lists, headers and checksums
/// of a jumbo frame fit.
const KEPT_BYTES: usize = 256 << 10;

/// Packet being processed: its fields, its bytes, and the state that it keeps from block to block.
#[derive(Debug)]
pub struct PacketContext {
    /// The fields in the order of [`Layout`], followed by the engine's scratch limbs.
    pub limbs: Vec<u64>,
    frame_limbs: usize,
    /// The packet's bytes. Until [`PacketContext::finish_deparse`] they include the parsed ones.
    pub bytes: Frame,
    /// Number of bits of [`PacketContext::bytes`] that the parser has consumed.
    pub cursor: usize,
    /// Bits that the deparser has emitted.
    pub emitted: BitBuffer,
    /// Packed field list, the input of a hash or checksum.
    pub data: BitBuffer,
    /// Requests to the device.
    pub requests: Requests,
    /// Running checksums, by extern instance; `None` for other externs.
    pub checksums: Vec<Option<ChecksumUnit>>,
    /// The packet's random stream.
    pub random: RandomStream,
    /// Device time at which the current block runs.
    pub now: Nanos,
    /// Counter shard of the thread that processes the packet.
    pub lane: CounterShard,
    /// Length in bytes that counters and meters use.
    pub length: u32,
    /// Units of work left.
    pub work_left: u32,
    /// The table being applied and its lookup result.
    pub current: Option<CurrentEntry>,
    /// Action parameters of a learned entry that was hit.
    pub learned_params: Vec<u64>,
    /// Nesting depth in `@atomic` code.
    pub atomic: crate::AtomicDepth,
    /// Messages that the program wrote.
    pub log: LogBuffer,
    /// Digests that the program sent.
    pub digests: Digests,
    /// Scratch memory of the engine for a burst.
    pub notes: Vec<u64>,
}

/// Data that an engine derived from a state. It is kept from burst to burst.
#[derive(Debug, Default)]
pub struct Derived {
    /// State and counter shard from which the data was derived. This is the only reference through
    /// which packets reach the state, and it keeps the state alive.
    of: Option<(Arc<State>, CounterShard)>,
    /// Engine-specific words that a burst reads first.
    pub marks: [u64; 2],
    /// All other engine-specific words.
    pub words: Vec<u64>,
}

impl Derived {
    /// Returns true if the data was derived from this state and for this counter shard.
    #[inline]
    pub fn is_of(&self, state: &Arc<State>, lane: CounterShard) -> bool {
        let is_same = |(of, for_lane): &(Arc<State>, CounterShard)| {
            Arc::ptr_eq(of, state) && *for_lane == lane
        };
        self.of.as_ref().is_some_and(is_same)
    }

    /// Sets the state and counter shard from which the data was derived.
    pub fn is_made_of(&mut self, state: &Arc<State>, lane: CounterShard) {
        self.of = Some((Arc::clone(state), lane));
    }

    /// Returns the state, for packets that count in this shard. `None` if nothing was derived, or
    /// if it was derived for another shard.
    #[inline]
    pub fn state(&self, lane: CounterShard) -> Option<&State> {
        let (state, for_lane) = self.of.as_ref()?;
        (*for_lane == lane).then_some(state)
    }

    /// Releases the state. The derived data stays allocated until the next derivation, but is no
    /// longer valid.
    pub fn let_go(&mut self) {
        self.of = None;
    }
}

/// Entry or default action of which the action is running.
#[derive(Clone, Copy, Debug)]
pub struct CurrentEntry {
    /// The table.
    pub table: TableId,
    /// Result of the lookup.
    pub found: Found,
}

impl PacketContext {
    /// Creates a context for packets of this program. `scratch` limbs follow the frame.
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
            lane: CounterShard::new(0),
            length: 0,
            work_left: WorkBudget::MAX.units(),
            current: None,
            learned_params: vec![0; most_param_limbs(program)],
            atomic: crate::AtomicDepth::default(),
            log: LogBuffer::default(),
            digests: Digests::default(),
            notes: Vec::new(),
        }
    }

    /// Returns the packet's fields.
    #[inline]
    pub fn frame(&self) -> &[u64] {
        &self.limbs[..self.frame_limbs]
    }

    /// Returns the packet's fields for writing. Values must stay canonical.
    #[inline]
    pub fn frame_mut(&mut self) -> &mut [u64] {
        &mut self.limbs[..self.frame_limbs]
    }

    /// Starts processing the packet from its first byte: all fields are zero, nothing is parsed,
    /// and there are no requests.
    #[inline]
    pub fn begin_pass(&mut self) {
        self.frame_mut().fill(0);
        self.cursor = 0;
        self.emitted.clear();
        self.requests = Requests::default();
        self.begin_block();
        self.clear_checksums();
    }

    /// Returns true if the program has made a request that the fast path does not serve
    /// ([`crate::PassTest::Asked`]). Digests and messages are no such requests: the device takes
    /// them from the context after the packet is processed.
    pub fn has_asked(&self) -> bool {
        let usual = Requests {
            checksum_error: self.requests.checksum_error,
            destination: self.requests.destination,
            mark: self.requests.mark,
            ..Requests::default()
        };
        self.requests != usual
    }

    /// Returns true if the context holds messages or digests that the device has not yet taken.
    #[inline]
    pub fn has_told(&self) -> bool {
        !self.log.is_empty() || !self.digests.is_empty()
    }

    /// Resets all running checksums.
    pub fn clear_checksums(&mut self) {
        for unit in self.checksums.iter_mut().flatten() {
            unit.clear();
        }
    }

    /// Prepares for the next block: no table is being applied.
    #[inline]
    pub fn begin_block(&mut self) {
        self.current = None;
    }

    /// Charges work units to the budget. Returns false if there were too few.
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

    /// Charges the work of hashing `bytes` bytes.
    ///
    /// # Errors
    /// The reason to drop the packet, if its work budget is too small.
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

    /// Returns true if the deparser has emitted more than the longest frame holds. Engines then
    /// drop the packet at once as too long.
    #[inline]
    pub fn has_emitted_too_much(&self) -> bool {
        self.emitted.bits() > packet::MAX_FRAME * 8
    }

    /// Returns the bytes after the parsed ones. A partly parsed byte is not included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.bytes();
        &bytes[self.cursor.div_ceil(8).min(bytes.len())..]
    }

    /// Replaces the packet's parsed bytes by the emitted ones.
    ///
    /// If the parsed and the emitted bits end at the same bit within a byte, the rest of that byte
    /// follows the emitted bits. Otherwise the emitted bits are zero-padded to a byte, and a partly
    /// parsed byte is removed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; the bytes are unchanged.
    pub fn finish_deparse(&mut self) -> Result<(), FrameError> {
        let mut bytes = std::mem::replace(&mut self.bytes, Frame::without_buffer());
        let finished = self.finish_deparse_of(&mut bytes);
        self.bytes = bytes;
        finished
    }

    /// Does the same as [`PacketContext::finish_deparse`] for a frame outside the context.
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

    /// Replaces the first bytes of the packet by those of the requested frame.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]; the bytes are unchanged.
    pub fn finish_frame(&mut self, frame: FrameRequest) -> Result<(), FrameError> {
        let replaced = (frame.replaced as usize).min(self.bytes.len());
        let longer = self.bytes.len() - replaced + self.data.bytes().len();
        if longer > packet::MAX_FRAME {
            return Err(FrameError::TooLong { len: longer });
        }
        self.bytes.pull_front(replaced)?;
        self.bytes.push_front(self.data.bytes())
    }

    /// Returns true if the buffers have grown so large that the context should be freed, not
    /// reused.
    pub fn is_oversized(&self) -> bool {
        let checksums = self.checksums.iter().flatten().map(ChecksumUnit::capacity);
        let buffers = [&self.emitted, &self.data].map(BitBuffer::capacity);
        let all = checksums.chain(buffers).chain([self.digests.capacity()]);
        all.sum::<usize>() > KEPT_BYTES
    }

    /// Returns the running checksum of an instance; `None` for an extern without one.
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

/// Returns the number of limbs of the longest parameter list.
fn most_param_limbs(program: &Program) -> usize {
    let limbs = |action: &ir::Action| -> usize {
        let params = action.params.iter();
        params.map(|param| ir::limbs_of(param.ty) as usize).sum()
    };
    program.actions.values().map(limbs).max().unwrap_or(0)
}

/// Digest messages of one packet: packed values, up to a limit. Messages beyond the limit are
/// counted.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    messages: Vec<(ExternId, usize)>,
    limbs: Vec<u64>,
    lost: u64,
    /// True if the last message was lost.
    is_losing: bool,
}

/// Maximum number of messages of a packet.
const MAX_MESSAGES: usize = 1 << 10;

/// Maximum number of limbs of all messages of a packet.
const MAX_MESSAGE_LIMBS: usize = 1 << 15;

/// Digest message: the values of its fields. Each value starts on a new limb. A `varbit`'s length
/// precedes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMessage<'d> {
    /// The digest.
    pub digest: ExternId,
    /// The values.
    pub limbs: &'d [u64],
}

impl Digests {
    /// Returns true if no message was sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.lost == 0
    }

    /// Returns the number of messages that did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn capacity(&self) -> usize {
        self.limbs.capacity() * size_of::<u64>()
    }

    /// Starts a message. [`Digests::push`] appends its values.
    pub fn begin(&mut self, digest: ExternId) {
        self.is_losing = self.messages.len() >= MAX_MESSAGES;
        match self.is_losing {
            true => self.lost += 1,
            false => self.messages.push((digest, self.limbs.len())),
        }
    }

    /// Appends the limbs of a value to the last message.
    pub fn push(&mut self, limbs: &[u64]) {
        if self.is_losing {
            return;
        }
        if self.limbs.len() + limbs.len() <= MAX_MESSAGE_LIMBS {
            return self.limbs.extend_from_slice(limbs);
        }
        // A message is stored whole or not at all.
        self.is_losing = true;
        self.lost += 1;
        if let Some((_, start)) = self.messages.pop() {
            self.limbs.truncate(start);
        }
    }

    /// Returns the messages, in order.
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

    /// Removes all messages and resets the count of lost ones.
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
