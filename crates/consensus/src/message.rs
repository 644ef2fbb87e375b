//! Messages between nodes: a header with CRC-32C and the cluster's name, and a body of each kind.
//!
//! A message is checked once, by [`PeerMessage::decode`]. docs/internals/consensus.md has the
//! layout.

use crate::entry::Entry;
use crate::ids::{LogIndex, NodeId, Term};
use crate::wire::{Reader, Write};

/// Bytes of a keyed tag that the caller may send after a message.
pub const TAG_BYTES: usize = 16;
/// Bytes of a message at most: 2,048 with its tag.
pub const MAX_MESSAGE: usize = 2048 - TAG_BYTES;
/// Bytes of the header.
pub const HEADER: usize = 40;
/// Bytes of the entries of one message at most: what other fields of [`MessageBody::Append`] leave.
pub(crate) const MAX_ENTRIES_BYTES: usize = MAX_MESSAGE - HEADER - 35;
/// Bytes of a piece of a snapshot at most: what other fields of [`MessageBody::Piece`] leave.
pub(crate) const MAX_PIECE: usize = MAX_MESSAGE - HEADER - 50;

const VERSION: u8 = 1;

/// Returns the CRC-32C of the bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Reason to refuse the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Shorter or longer than a message, or than its header says.
    Length,
    /// The checksum differs: bytes changed on their way.
    Checksum,
    /// Another version of this protocol: run the same version on all nodes.
    Version(u8),
    /// Of another cluster: check the address of the sender.
    Cluster(u64),
    /// For another node: check the addresses of the nodes.
    Receiver(NodeId),
    /// The checksum holds, but the fields are not those of a message.
    Fields,
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MessageError::Length => write!(f, "the length is not that of a message"),
            MessageError::Checksum => write!(f, "the checksum differs: the message was damaged"),
            MessageError::Version(version) => write!(
                f,
                "version {version}, this node has {VERSION}: run the same on all nodes"
            ),
            MessageError::Cluster(cluster) => write!(
                f,
                "from cluster {cluster:#x}: check the address of the sender"
            ),
            MessageError::Receiver(node) => {
                write!(f, "for node {node}: check the addresses of the nodes")
            }
            MessageError::Fields => write!(f, "the fields are not those of a message"),
        }
    }
}

impl std::error::Error for MessageError {}

/// Message of one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMessage<'a> {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Term of the sender.
    pub term: Term,
    /// Content.
    pub body: MessageBody<'a>,
}

/// Reason for which a candidate asks for votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// It asks if it would be elected in the next term. No term changes.
    Pre,
    /// It asks for votes in its term.
    Real,
    /// As `Real`, at the leader's own request: nodes that hear the leader answer too.
    Transfer,
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBody<'a> {
    /// A candidate asks for a vote.
    Vote {
        /// Reason.
        kind: VoteKind,
        /// Number of the campaign, never used before by this candidate.
        campaign: u64,
        /// Index of the candidate's last entry.
        last_index: LogIndex,
        /// Term of the candidate's last entry.
        last_term: Term,
    },
    /// The answer to a vote request.
    Voted {
        /// Number of the campaign.
        campaign: u64,
        /// True if the vote is for the candidate.
        granted: bool,
    },
    /// A leader's entries, which may be none: a heartbeat.
    Append {
        /// Index of the entry before the first one.
        previous: LogIndex,
        /// Term of that entry.
        previous_term: Term,
        /// Index of the last committed entry.
        commit: LogIndex,
        /// Number of the newest round.
        round: u64,
        /// The entries.
        entries: Entries<'a>,
    },
    /// The answer to entries or a heartbeat.
    Appended {
        /// True if the log is the leader's up to `index`. Else `index` is where it may be.
        matches: bool,
        /// Last index of the answered message, or a hint.
        index: LogIndex,
        /// Index before the first entry of the answered message.
        previous: LogIndex,
        /// Round of the answered message.
        round: u64,
    },
    /// A piece of a snapshot.
    Piece {
        /// Index of the last entry that the snapshot includes.
        index: LogIndex,
        /// Term of that entry.
        index_term: Term,
        /// Number of the first item of this piece.
        first: u64,
        /// Number of the item after the last one.
        next: u64,
        /// Number of all items.
        items: u64,
        /// Round, as in `Append`.
        round: u64,
        /// The items.
        bytes: &'a [u8],
    },
    /// The answer to a piece of a snapshot.
    Received {
        /// Index of the snapshot.
        index: LogIndex,
        /// Item from which the receiver goes on.
        next: u64,
        /// Round of the answered message.
        round: u64,
    },
    /// A leader asks a node to campaign now.
    CampaignNow,
    /// A node asks the leader for an index to read at.
    ReadIndex {
        /// Number of the request, never used before by this node.
        number: u64,
    },
    /// The answer to `ReadIndex`.
    ReadAt {
        /// Number of the request.
        number: u64,
        /// The index, or `None` if this node cannot confirm one.
        index: Option<LogIndex>,
    },
}

/// Encoded entries, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// No entries.
    pub const NONE: Entries<'static> = Entries {
        count: 0,
        bytes: &[],
    };

    /// Returns encoded entries. Their bytes are what [`Entry::encode`] wrote.
    pub(crate) const fn of(count: u16, bytes: &'a [u8]) -> Entries<'a> {
        Entries { count, bytes }
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> u64 {
        self.count as u64
    }

    /// Returns true if there are no entries.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the entries in their order.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| Entry::decode(&mut reader))
    }

    fn decode(from: &mut Reader<'a>) -> Option<Entries<'a>> {
        let count = from.u16()?;
        let bytes = from.rest();
        for _ in 0..count {
            Entry::decode(from)?;
        }
        Some(Entries { count, bytes })
    }
}

/// Header of a message, without what its checks need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageHeader {
    pub(crate) kind: u8,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) term: Term,
}

impl MessageHeader {
    /// Appends a message with this header and the body that `body` appends.
    pub(crate) fn encode(&self, cluster: u64, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let begin = out.len();
        out.put_u32(0);
        out.put_u8(VERSION);
        out.put_u8(self.kind);
        out.put_u16(0);
        out.put_u64(cluster);
        out.put_u64(self.from.0);
        out.put_u64(self.to.0);
        out.put_u64(self.term.0);
        body(out);
        let len = (out.len() - begin) as u16;
        out[begin + 6..begin + 8].copy_from_slice(&len.to_le_bytes());
        let crc = crc32c(&out[begin + 4..]);
        out[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Checks a message up to its body, which is the rest of the reader.
    pub(crate) fn decode(
        cluster: u64,
        bytes: &[u8],
        checks_crc: bool,
    ) -> Result<(MessageHeader, Reader<'_>), MessageError> {
        let mut from = Reader::new(bytes);
        if bytes.len() < HEADER || bytes.len() > MAX_MESSAGE {
            return Err(MessageError::Length);
        }
        let crc = from.u32().ok_or(MessageError::Length)?;
        if checks_crc && crc != crc32c(from.rest()) {
            return Err(MessageError::Checksum);
        }
        let version = from.u8().ok_or(MessageError::Length)?;
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        let kind = from.u8().ok_or(MessageError::Length)?;
        if from.u16().map(usize::from) != Some(bytes.len()) {
            return Err(MessageError::Length);
        }
        let sender = from.u64().ok_or(MessageError::Length)?;
        if sender != cluster {
            return Err(MessageError::Cluster(sender));
        }
        let mut number = || from.u64().ok_or(MessageError::Length);
        let header = MessageHeader {
            kind,
            from: NodeId(number()?),
            to: NodeId(number()?),
            term: Term(number()?),
        };
        Ok((header, from))
    }
}

impl<'a> PeerMessage<'a> {
    /// Appends the encoded message, at most [`MAX_MESSAGE`] bytes.
    pub fn encode(&self, cluster: u64, out: &mut Vec<u8>) {
        let header = MessageHeader {
            kind: self.body.kind(),
            from: self.from,
            to: self.to,
            term: self.term,
        };
        header.encode(cluster, out, |out| self.body.encode(out));
    }

    /// Reads and checks a message.
    ///
    /// # Errors
    /// The bytes are no message of this cluster.
    pub fn decode(cluster: u64, bytes: &'a [u8]) -> Result<PeerMessage<'a>, MessageError> {
        PeerMessage::decode_checked(cluster, bytes, true)
    }

    pub(crate) fn decode_checked(
        cluster: u64,
        bytes: &'a [u8],
        checks_crc: bool,
    ) -> Result<PeerMessage<'a>, MessageError> {
        let (header, mut from) = MessageHeader::decode(cluster, bytes, checks_crc)?;
        let body = MessageBody::decode(header.kind, &mut from);
        let body = body.filter(|_| from.is_empty());
        Ok(PeerMessage {
            from: header.from,
            to: header.to,
            term: header.term,
            body: body.ok_or(MessageError::Fields)?,
        })
    }
}

impl<'a> MessageBody<'a> {
    const fn kind(&self) -> u8 {
        match self {
            MessageBody::Vote { .. } => 1,
            MessageBody::Voted { .. } => 2,
            MessageBody::Append { .. } => 3,
            MessageBody::Appended { .. } => 4,
            MessageBody::Piece { .. } => 5,
            MessageBody::Received { .. } => 6,
            MessageBody::CampaignNow => 7,
            MessageBody::ReadIndex { .. } => 8,
            MessageBody::ReadAt { .. } => 9,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MessageBody::Vote {
                kind,
                campaign,
                last_index,
                last_term,
            } => {
                out.put_u8(match kind {
                    VoteKind::Pre => 0,
                    VoteKind::Real => 1,
                    VoteKind::Transfer => 2,
                });
                out.put_u64(*campaign);
                out.put_u64(last_index.0);
                out.put_u64(last_term.0);
            }
            MessageBody::Voted { campaign, granted } => {
                out.put_u64(*campaign);
                out.put_u8(u8::from(*granted));
            }
            MessageBody::Append {
                previous,
                previous_term,
                commit,
                round,
                entries,
            } => {
                out.put_u64(previous.0);
                out.put_u64(previous_term.0);
                out.put_u64(commit.0);
                out.put_u64(*round);
                out.put_u16(entries.count);
                out.put(entries.bytes);
            }
            MessageBody::Appended {
                matches,
                index,
                previous,
                round,
            } => {
                out.put_u8(u8::from(*matches));
                out.put_u64(index.0);
                out.put_u64(previous.0);
                out.put_u64(*round);
            }
            MessageBody::Piece {
                index,
                index_term,
                first,
                next,
                items,
                round,
                bytes,
            } => {
                for number in [index.0, index_term.0, *first, *next, *items, *round] {
                    out.put_u64(number);
                }
                out.put_u16(bytes.len() as u16);
                out.put(bytes);
            }
            MessageBody::Received { index, next, round } => {
                for number in [index.0, *next, *round] {
                    out.put_u64(number);
                }
            }
            MessageBody::CampaignNow => {}
            MessageBody::ReadIndex { number } => out.put_u64(*number),
            MessageBody::ReadAt { number, index } => {
                out.put_u64(*number);
                out.put_u8(u8::from(index.is_some()));
                out.put_u64(index.map_or(0, |index| index.0));
            }
        }
    }

    fn decode(kind: u8, from: &mut Reader<'a>) -> Option<MessageBody<'a>> {
        let body = match kind {
            1 => MessageBody::Vote {
                kind: match from.u8()? {
                    0 => VoteKind::Pre,
                    1 => VoteKind::Real,
                    2 => VoteKind::Transfer,
                    _ => return None,
                },
                campaign: from.u64()?,
                last_index: LogIndex(from.u64()?),
                last_term: Term(from.u64()?),
            },
            2 => MessageBody::Voted {
                campaign: from.u64()?,
                granted: from.flag()?,
            },
            3 => MessageBody::Append {
                previous: LogIndex(from.u64()?),
                previous_term: Term(from.u64()?),
                commit: LogIndex(from.u64()?),
                round: from.u64()?,
                entries: Entries::decode(from)?,
            },
            4 => MessageBody::Appended {
                matches: from.flag()?,
                index: LogIndex(from.u64()?),
                previous: LogIndex(from.u64()?),
                round: from.u64()?,
            },
            5 => MessageBody::Piece {
                index: LogIndex(from.u64()?),
                index_term: Term(from.u64()?),
                first: from.u64()?,
                next: from.u64()?,
                items: from.u64()?,
                round: from.u64()?,
                bytes: {
                    let len = from.u16()?;
                    from.bytes(usize::from(len))?
                },
            },
            6 => MessageBody::Received {
                index: LogIndex(from.u64()?),
                next: from.u64()?,
                round: from.u64()?,
            },
            7 => MessageBody::CampaignNow,
            8 => MessageBody::ReadIndex {
                number: from.u64()?,
            },
            9 => {
                let (number, is_some) = (from.u64()?, from.flag()?);
                let index = LogIndex(from.u64()?);
                if !is_some && index != LogIndex(0) {
                    return None;
                }
                MessageBody::ReadAt {
                    number,
                    index: is_some.then_some(index),
                }
            }
            _ => return None,
        };
        Some(body)
    }
}
