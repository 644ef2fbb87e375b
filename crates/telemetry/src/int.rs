//! INT over TCP and UDP: shim header, INT-MD header with its metadata stack, INT-MX header.
//!
//! INT 2.0 and 2.1 (INT 2.1, sections 5.7.2, 5.8 and 5.9) are read and written. INT 1.0 (sections
//! 4.6.1 and 4.7) and 0.5 (sections 5.3.1 and 5.3.4), which older exporters embed, are read.

use crate::bytes::{split_words, u16_at, whole_words};
use crate::hop::{Hop, IntNodeId};
use crate::metadata::{self, Instructions, MetadataLayout, word_at};

/// Length of the header of INT-MD and INT-MX in words.
const INT_2_WORDS: usize = 3;

/// Contents of the last two bytes of a shim header: NPT (INT 2.1, section 5.7.2), or of the tail
/// header of INT 0.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextProtocol {
    /// NPT 0: the payload of the TCP or UDP header in front of INT. The value is the original
    /// DSCP, if the source keeps it there.
    Payload {
        /// Original DSCP, 6 bits.
        dscp: u8,
    },
    /// NPT 1: the payload of UDP, with its original destination port.
    UdpPayload {
        /// Original destination port.
        port: u16,
    },
    /// NPT 2: the original header of this IP protocol. The UDP header in front of INT is new.
    Header {
        /// Original IP protocol.
        protocol: u8,
    },
}

/// Domain specific part of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DomainInstructions {
    /// Domain Specific ID. 0 is the default domain.
    pub id: u16,
    /// Instruction bitmap of the domain.
    pub instructions: u16,
    /// Flags of the domain.
    pub flags: u16,
}

/// Metadata that only the source of a domain adds: the source's entry is longer than `Hop ML`
/// (INT 2.1, section 5.8). Its length is the domain's agreement and is not in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceOnly {
    /// The domain.
    pub domain: u16,
    /// The bits of the domain's instructions that request source-only metadata.
    pub instructions: u16,
    /// Words that they add together when one of the bits is set.
    pub words: u8,
}

/// Error of a shim header or of what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntError {
    /// The report ends before the INT header does.
    CutHeader,
    /// The type of the shim header is neither INT-MD nor INT-MX.
    HeaderType(u8),
    /// The version of the INT header is not the one of its shim.
    Version(u8),
    /// NPT has a value that its marker does not allow.
    NextProtocol(u8),
    /// The length of the shim has no room for the INT header.
    ShimLength(u8),
    /// `Hop ML` is not the length of the requested metadata.
    HopLength {
        /// Words of `Hop ML`, or instruction count in INT 0.5.
        stated: u8,
        /// Words of the instruction bitmap.
        needed: u8,
    },
    /// The stack is not a whole number of hops.
    StackLength {
        /// Words of the stack.
        words: u8,
        /// Words of a hop.
        hop_words: u8,
    },
}

impl std::fmt::Display for IntError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IntError::CutHeader => {
                f.write_str("the reported packet ends in the INT header: report more bytes of it")
            }
            IntError::HeaderType(kind) => {
                write!(
                    f,
                    "INT header type {kind} is neither 1 (INT-MD) nor 3 (INT-MX)"
                )
            }
            IntError::Version(version) => write!(f, "INT header version {version} is not known"),
            IntError::NextProtocol(npt) => write!(
                f,
                "NPT {npt} of the shim header does not fit the marker of INT packets"
            ),
            IntError::ShimLength(words) => {
                write!(
                    f,
                    "a shim length of {words} words has no room for the INT header"
                )
            }
            IntError::HopLength { stated, needed } => write!(
                f,
                "hops have {stated} words by their length and {needed} by the instruction bitmap"
            ),
            IntError::StackLength { words, hop_words } => write!(
                f,
                "a stack of {words} words is not a number of hops of {hop_words} words"
            ),
        }
    }
}

impl std::error::Error for IntError {}

/// INT headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedInt<'a> {
    /// Kind of the bytes after the INT headers.
    pub next: NextProtocol,
    /// The headers.
    pub contents: IntContents<'a>,
}

/// INT-MD or INT-MX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntContents<'a> {
    /// INT-MD: instructions and the stack of values.
    Md(IntStack<'a>),
    /// INT-MX: instructions.
    Mx(MxHeader<'a>),
}

/// INT-MX header (INT 2.1, section 5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxHeader<'a> {
    /// D bit: the sink discards the packet.
    pub discard: bool,
    /// Values that each node reports.
    pub instructions: Instructions,
    /// Domain specific part.
    pub domain: DomainInstructions,
    /// Domain specific metadata that the source inserted, of whole words.
    pub source_inserted: &'a [u8],
    /// Words of it that the report does not have.
    pub missing_words: u8,
}

/// INT-MD header and metadata stack (INT 2.1, section 5.8; INT 1.0 and 0.5: hop-by-hop header). Its
/// lengths are checked: each entry has the values of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntStack<'a> {
    /// Layout of the entries: [`MetadataLayout::Int2`], `Int1` or `Int05`.
    pub(crate) layout: MetadataLayout,
    /// D bit of INT 2.x: the sink discards the packet. C bit of INT 0.5 and 1.0: it is a copy.
    pub discard: bool,
    /// E bit: a node added nothing, as the maximum number of hops was reached.
    pub hops_exceeded: bool,
    /// M bit: a node added nothing, as the packet would have exceeded its MTU.
    pub mtu_exceeded: bool,
    /// Words that each hop adds, at most 31.
    pub(crate) hop_words: u8,
    /// Hops that may still add values.
    pub remaining_hops: u8,
    /// Values that each hop adds.
    pub instructions: Instructions,
    /// Domain specific part. INT 0.5 and 1.0 have none.
    pub domain: DomainInstructions,
    /// Whole words of the stack that the report has, newest entry first.
    pub(crate) stack: &'a [u8],
    /// Words of the stack in the packet.
    pub(crate) stack_words: u8,
    /// Words that the source added to its entry.
    pub(crate) source_only_words: u8,
}

/// One node's entry of a metadata stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEntry<'a> {
    layout: MetadataLayout,
    instructions: Instructions,
    bytes: &'a [u8],
}

impl<'a> StackEntry<'a> {
    /// Returns the values.
    #[inline]
    pub fn hop(&self) -> Hop {
        metadata::read(self.layout, self.instructions, self.bytes).0
    }

    /// Returns the node ID.
    #[inline]
    pub fn node(&self) -> Option<IntNodeId> {
        self.instructions.node_of(self.bytes)
    }

    /// Returns the domain specific metadata, of whole words, with the source-only ones.
    pub fn domain_metadata(&self) -> &'a [u8] {
        let complement = usize::from(self.instructions.has(Instructions::CHECKSUM_COMPLEMENT));
        let start = self.instructions.words(self.layout) - complement;
        let end = whole_words(self.bytes).saturating_sub(complement);
        self.bytes.get(4 * start..4 * end).unwrap_or(&[])
    }

    /// Returns the checksum complement, the entry's last word. `None` if it was not requested, or
    /// if the node did not use it.
    pub fn checksum_complement(&self) -> Option<u32> {
        let word = word_at(self.bytes, self.bytes.len().checked_sub(4)?);
        let is_requested = self.instructions.has(Instructions::CHECKSUM_COMPLEMENT);
        (is_requested && word != u32::MAX).then_some(word)
    }
}

impl<'a> IntStack<'a> {
    /// Returns a stack of INT 2.1 to write. `entries` has the entries of all hops, newest first.
    ///
    /// # Errors
    ///
    /// The errors of a read stack, for lengths that do not fit the instructions.
    pub fn new(
        instructions: Instructions,
        remaining_hops: u8,
        entries: &'a [u8],
    ) -> Result<IntStack<'a>, IntError> {
        let needed = instructions.words(MetadataLayout::Int2) as u8;
        let words = u8::try_from(whole_words(entries))
            .ok()
            .filter(|words| *words <= u8::MAX - INT_2_WORDS as u8)
            .ok_or(IntError::StackLength {
                words: u8::MAX,
                hop_words: needed,
            })?;
        let stack = IntStack {
            layout: MetadataLayout::Int2,
            discard: false,
            hops_exceeded: false,
            mtu_exceeded: false,
            hop_words: needed,
            remaining_hops,
            instructions,
            domain: DomainInstructions::default(),
            stack: entries,
            stack_words: words,
            source_only_words: 0,
        };
        if !entries.len().is_multiple_of(4) {
            return Err(IntError::StackLength {
                words,
                hop_words: needed,
            });
        }
        stack.checked()
    }

    /// Checks the lengths.
    #[inline]
    fn checked(self) -> Result<IntStack<'a>, IntError> {
        let needed = self.instructions.words(self.layout) as u8;
        let has_domain_metadata = self.domain.instructions != 0;
        if self.hop_words < needed || self.hop_words > needed && !has_domain_metadata {
            return Err(IntError::HopLength {
                stated: self.hop_words,
                needed,
            });
        }
        let stack_length = IntError::StackLength {
            words: self.stack_words,
            hop_words: self.hop_words,
        };
        let all = self.stack_words.checked_sub(self.source_only_words);
        let all = all.ok_or(stack_length)?;
        let is_whole = match self.hop_words {
            0 => all == 0,
            hop_words => all % hop_words == 0,
        };
        // Source-only words are the source's: there is an entry.
        let has_source = self.source_only_words == 0 || all > 0 || self.hop_words == 0;
        if is_whole && has_source {
            Ok(self)
        } else {
            Err(stack_length)
        }
    }

    /// Returns the layout of the entries' values.
    pub fn layout(&self) -> MetadataLayout {
        self.layout
    }

    /// Returns the length of the INT headers in the packet, in bytes: shim header, INT header and
    /// the whole stack.
    pub fn length_in_packet(&self) -> u32 {
        // The header with its domain specific part (INT 2.x), two words (1.0), and with the tail
        // header (0.5).
        let header_words = match self.layout {
            MetadataLayout::Int1 => 2,
            _ => 3,
        };
        4 * (1 + header_words + u32::from(self.stack_words))
    }

    /// Returns the number of hops that added values, with those that the report has cut off.
    #[inline]
    pub fn hop_count(&self) -> usize {
        match self.hop_words {
            0 => 0,
            words => usize::from((self.stack_words - self.source_only_words) / words),
        }
    }

    /// Returns whether the report lacks a part of the stack.
    #[inline]
    pub fn is_cut(&self) -> bool {
        whole_words(self.stack) < usize::from(self.stack_words)
    }

    /// Returns the whole entries that the report has, newest first. `rev()` gives them in the
    /// order of the packet's path; if the stack is cut, the first nodes of the path are missing.
    #[inline]
    pub fn entries(
        &self,
    ) -> impl DoubleEndedIterator<Item = StackEntry<'a>> + ExactSizeIterator + use<'a> {
        let IntStack {
            layout,
            instructions,
            stack,
            ..
        } = *self;
        let hop_bytes = 4 * usize::from(self.hop_words);
        let count = self.hop_count();
        // The source's entry has more words.
        let source_bytes = hop_bytes + 4 * usize::from(self.source_only_words);
        (0..self.present(count)).map(move |index| {
            let start = index * hop_bytes;
            let bytes = if index + 1 == count {
                source_bytes
            } else {
                hop_bytes
            };
            StackEntry {
                layout,
                instructions,
                bytes: stack.get(start..start + bytes).unwrap_or(&[]),
            }
        })
    }

    /// Returns the number of whole entries that the report has, of `count` hops.
    #[inline]
    fn present(&self, count: usize) -> usize {
        let hop_bytes = 4 * usize::from(self.hop_words);
        if self.stack.len() == 4 * usize::from(self.stack_words) {
            count
        } else {
            (self.stack.len() / hop_bytes.max(1)).min(count.saturating_sub(1))
        }
    }

    /// Returns the values' bytes of [`IntStack::entries`], without source-only words: faster, for
    /// those that read one value.
    #[inline]
    pub(crate) fn values(
        &self,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + use<'a> {
        let hop_bytes = 4 * usize::from(self.hop_words);
        let entries = self.stack.chunks_exact(hop_bytes.max(1));
        entries.take(self.present(self.hop_count()))
    }

    /// Returns the values of the entries, newest first.
    #[inline]
    pub fn hops(&self) -> impl DoubleEndedIterator<Item = Hop> + ExactSizeIterator + use<'a> {
        self.entries().map(|entry| entry.hop())
    }
}

/// Fields of the shim that its version defines.
enum Shim {
    /// INT 2.x: NPT and header type.
    Two { kind: u8, npt: u8 },
    /// INT 0.5 and 1.0: the hop-by-hop header, of type 1.
    One,
}

impl<'a> EmbeddedInt<'a> {
    /// Reads INT headers from their shim header. Returns them, and the bytes after them, which are
    /// empty if the headers are cut.
    ///
    /// # Errors
    ///
    /// Headers that are cut before the metadata stack, and headers with contradictory lengths.
    #[inline]
    pub fn parse(
        bytes: &'a [u8],
        source_only: Option<&SourceOnly>,
    ) -> Result<(EmbeddedInt<'a>, &'a [u8]), IntError> {
        let ([first, second, third, fourth], rest) =
            bytes.split_first_chunk().ok_or(IntError::CutHeader)?;
        let shim = match first >> 4 {
            0 if *first == 1 => Shim::One,
            kind => Shim::Two {
                kind,
                npt: first >> 2 & 3,
            },
        };
        match shim {
            Shim::Two { kind, npt } => {
                let next = match npt {
                    0 => NextProtocol::Payload { dscp: fourth >> 2 },
                    1 => NextProtocol::UdpPayload {
                        port: u16::from_be_bytes([*third, *fourth]),
                    },
                    2 => NextProtocol::Header { protocol: *fourth },
                    _ => return Err(IntError::NextProtocol(npt)),
                };
                let (contents, rest) = parse_2(kind, *second, rest, source_only)?;
                Ok((EmbeddedInt { next, contents }, rest))
            }
            Shim::One => {
                let version = *rest.first().ok_or(IntError::CutHeader)? >> 4;
                match version {
                    0 => parse_05(*third, rest),
                    1 => parse_1(*third, fourth >> 2, rest),
                    _ => Err(IntError::Version(version)),
                }
            }
        }
    }

    /// Appends the headers, shim header first.
    ///
    /// # Errors
    ///
    /// [`IntError::Version`] for INT 0.5 and 1.0, which are only read;
    /// [`IntError::CutHeader`] for cut headers.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), IntError> {
        let (kind, body) = match &self.contents {
            IntContents::Md(stack) => (1, stack.body()?),
            IntContents::Mx(header) => (3, header.body()?),
        };
        let (npt, [third, fourth]) = match self.next {
            NextProtocol::Payload { dscp } => (0, [0, dscp << 2]),
            NextProtocol::UdpPayload { port } => (1, port.to_be_bytes()),
            NextProtocol::Header { protocol } => (2, [0, protocol]),
        };
        let length = INT_2_WORDS + whole_words(body.rest);
        out.extend_from_slice(&[kind << 4 | npt << 2, length as u8, third, fourth]);
        out.extend_from_slice(&body.first);
        for field in [
            body.instructions.0,
            body.domain.id,
            body.domain.instructions,
            body.domain.flags,
        ] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(body.rest);
        Ok(())
    }
}

/// Fields of an INT 2.1 header to write.
struct Body<'a> {
    first: [u8; 4],
    instructions: Instructions,
    domain: DomainInstructions,
    rest: &'a [u8],
}

impl<'a> IntStack<'a> {
    fn body(&self) -> Result<Body<'a>, IntError> {
        match self.layout {
            MetadataLayout::Int2 => {}
            MetadataLayout::Int1 => return Err(IntError::Version(1)),
            _ => return Err(IntError::Version(0)),
        }
        if self.is_cut() {
            return Err(IntError::CutHeader);
        }
        let flags = u8::from(self.discard) << 3
            | u8::from(self.hops_exceeded) << 2
            | u8::from(self.mtu_exceeded) << 1;
        Ok(Body {
            first: [2 << 4 | flags, 0, self.hop_words, self.remaining_hops],
            instructions: self.instructions,
            domain: self.domain,
            rest: self.stack,
        })
    }
}

impl<'a> MxHeader<'a> {
    fn body(&self) -> Result<Body<'a>, IntError> {
        let words = whole_words(self.source_inserted);
        if self.missing_words > 0 || !self.source_inserted.len().is_multiple_of(4) {
            return Err(IntError::CutHeader);
        }
        if words > usize::from(u8::MAX) - INT_2_WORDS {
            return Err(IntError::ShimLength(u8::MAX));
        }
        Ok(Body {
            first: [2 << 4 | u8::from(self.discard) << 3, 0, 0, 0],
            instructions: self.instructions,
            domain: self.domain,
            rest: self.source_inserted,
        })
    }
}

/// Splits off this number of words, or the whole words that are there, then with nothing after.
#[inline]
fn split_available(bytes: &[u8], words: usize) -> (&[u8], &[u8]) {
    match split_words(bytes, words) {
        Some(parts) => parts,
        None => (&bytes[..whole_words(bytes) * 4], &[]),
    }
}

/// Reads a header of INT 2.x after its shim.
#[inline]
fn parse_2<'a>(
    kind: u8,
    length: u8,
    bytes: &'a [u8],
    source_only: Option<&SourceOnly>,
) -> Result<(IntContents<'a>, &'a [u8]), IntError> {
    if kind != 1 && kind != 3 {
        return Err(IntError::HeaderType(kind));
    }
    let words = usize::from(length)
        .checked_sub(INT_2_WORDS)
        .ok_or(IntError::ShimLength(length))?;
    let (header, rest) = split_words(bytes, INT_2_WORDS).ok_or(IntError::CutHeader)?;
    let [first, _, third, remaining_hops] = *header.first_chunk().ok_or(IntError::CutHeader)?;
    if first >> 4 != 2 {
        return Err(IntError::Version(first >> 4));
    }
    let field = |at| u16_at(header, at).unwrap_or(0);
    let instructions = Instructions(field(4));
    let domain = DomainInstructions {
        id: field(6),
        instructions: field(8),
        flags: field(10),
    };
    let (stack, rest) = split_available(rest, words);
    if kind == 3 {
        let header = MxHeader {
            discard: first & 8 != 0,
            instructions,
            domain,
            source_inserted: stack,
            missing_words: (words - whole_words(stack)) as u8,
        };
        return Ok((IntContents::Mx(header), rest));
    }
    let source_only_words = match source_only {
        Some(only) if only.domain == domain.id && only.instructions & domain.instructions != 0 => {
            only.words
        }
        _ => 0,
    };
    let stack = IntStack {
        layout: MetadataLayout::Int2,
        discard: first & 8 != 0,
        hops_exceeded: first & 4 != 0,
        mtu_exceeded: first & 2 != 0,
        hop_words: third & 0x1f,
        remaining_hops,
        instructions,
        domain,
        stack,
        stack_words: words as u8,
        source_only_words,
    };
    Ok((IntContents::Md(stack.checked()?), rest))
}

/// Reads a header of INT 1.0 after its shim, the length of which counts the shim.
fn parse_1(length: u8, dscp: u8, bytes: &[u8]) -> Result<(EmbeddedInt<'_>, &[u8]), IntError> {
    let words = usize::from(length)
        .checked_sub(3)
        .ok_or(IntError::ShimLength(length))?;
    let (header, rest) = split_words(bytes, 2).ok_or(IntError::CutHeader)?;
    let [first, second, third, remaining_hops] =
        *header.first_chunk().ok_or(IntError::CutHeader)?;
    let (stack, rest) = split_available(rest, words);
    let stack = IntStack {
        layout: MetadataLayout::Int1,
        discard: first & 2 != 0,
        hops_exceeded: first & 1 != 0,
        mtu_exceeded: second & 0x80 != 0,
        hop_words: third & 0x1f,
        remaining_hops,
        instructions: Instructions(u16_at(header, 4).unwrap_or(0)),
        domain: DomainInstructions::default(),
        stack,
        stack_words: words as u8,
        source_only_words: 0,
    };
    let contents = IntContents::Md(stack.checked()?);
    let next = NextProtocol::Payload { dscp };
    Ok((EmbeddedInt { next, contents }, rest))
}

/// Reads a header of INT 0.5 after its shim, the length of which counts the shim and the tail.
fn parse_05(length: u8, bytes: &[u8]) -> Result<(EmbeddedInt<'_>, &[u8]), IntError> {
    let words = usize::from(length)
        .checked_sub(4)
        .ok_or(IntError::ShimLength(length))?;
    let (header, rest) = split_words(bytes, 2).ok_or(IntError::CutHeader)?;
    let [first, second, max_hops, total_hops] = *header.first_chunk().ok_or(IntError::CutHeader)?;
    let hop_words = second & 0x1f;
    let (stack, rest) = split_available(rest, words);
    if usize::from(hop_words) * usize::from(total_hops) != words {
        return Err(IntError::StackLength {
            words: words as u8,
            hop_words,
        });
    }
    let stack = IntStack {
        layout: MetadataLayout::Int05,
        discard: first & 2 != 0,
        hops_exceeded: first & 1 != 0,
        mtu_exceeded: false,
        hop_words,
        remaining_hops: max_hops.saturating_sub(total_hops),
        instructions: Instructions(u16_at(header, 4).unwrap_or(0)),
        domain: DomainInstructions::default(),
        stack,
        stack_words: words as u8,
        source_only_words: 0,
    };
    let contents = IntContents::Md(stack.checked()?);
    // Protocol, original destination port, original DSCP.
    let (next, rest) = match rest.split_first_chunk() {
        Some(([_, high, low, _], rest)) => {
            let port = u16::from_be_bytes([*high, *low]);
            (NextProtocol::UdpPayload { port }, rest)
        }
        None => (NextProtocol::Payload { dscp: 0 }, &[][..]),
    };
    Ok((EmbeddedInt { next, contents }, rest))
}
