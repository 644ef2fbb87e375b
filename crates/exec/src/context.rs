//! The memory that a packet lives in while its program runs.

use ir::{ExternId, ExternKind, Layout, Program, TableId};
use packet::{Frame, FrameError, Nanos};

use crate::externs::checksum::ChecksumUnit;
use crate::{BitBuffer, Found, LogBuffer, RandomStream, Requests};

/// Units of work that a packet has unless its device says otherwise: parser states entered, loop rounds, back edges, and so on.
pub const WORK_BUDGET: u32 = 1 << 16;

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
            length: 0,
            work_left: WORK_BUDGET,
            current: None,
            learned_params: vec![0; most_param_limbs(program)],
            atomic: crate::AtomicDepth::default(),
            log: LogBuffer::default(),
            digests: Digests::default(),
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
        let within = self.cursor % 8;
        if within != 0 && self.emitted.bits() % 8 == within {
            let rest = self
                .bytes
                .bytes()
                .get(self.cursor / 8)
                .copied()
                .unwrap_or(0);
            let width = 8 - within as u32;
            self.emitted
                .push_u64(u64::from(rest) & bits::one::mask(width), width);
        }
        let parsed = self.cursor.div_ceil(8).min(self.bytes.len());
        let longer = self.bytes.len() - parsed + self.emitted.bytes().len();
        if longer > packet::MAX_FRAME {
            return Err(FrameError::TooLong { len: longer });
        }
        self.bytes.pull_front(parsed)?;
        self.bytes.push_front(self.emitted.bytes())?;
        self.cursor = 0;
        self.emitted.clear();
        Ok(())
    }

    /// Starts the running checksum of an instance; `None` for an extern that has none.
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

/// Digest messages of one packet: packed values.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    messages: Vec<(ExternId, usize)>,
    limbs: Vec<u64>,
}

/// A digest message: the values of its fields, each starting on its own limb, a `varbit`'s length in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestMessage<'d> {
    /// The digest.
    pub digest: ExternId,
    /// The values.
    pub limbs: &'d [u64],
}

impl Digests {
    /// Whether there is no message.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Starts a message; [`Digests::push`] appends its values.
    pub fn begin(&mut self, digest: ExternId) {
        self.messages.push((digest, self.limbs.len()));
    }

    /// Appends limbs of a value to the last message.
    pub fn push(&mut self, limbs: &[u64]) {
        self.limbs.extend_from_slice(limbs);
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
    }
}
