//! Messages between a client at one node and the leader at another one: requests and answers.
//!
//! They have the header of [`crate::PeerMessage`], with term 0. A message may be lost or repeated:
//! the client repeats its request in its session, which gets its first answer.

use crate::entry::{Request, decode_request, encode_request};
use crate::ids::{NodeId, Term};
use crate::message::{MessageError, MessageHeader};
use crate::state::RequestAnswer;
use crate::wire::Write;

/// First kind of these messages. Smaller kinds are of [`crate::MessageBody`].
const FIRST_KIND: u8 = 16;

/// Message between a client and a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientMessage {
    /// Node that sends it.
    pub from: NodeId,
    /// Node that takes it.
    pub to: NodeId,
    /// Number by which the client knows the request.
    pub token: u64,
    /// Content.
    pub body: ClientBody,
}

/// Content of a [`ClientMessage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientBody {
    /// A request, for the leader.
    Request(Request),
    /// The request was committed and applied.
    Answer(RequestAnswer),
    /// The node does not lead: ask this one, if it is known. This copy of the request had no
    /// effect; an earlier one may have.
    NotLeader(Option<NodeId>),
}

impl ClientMessage {
    /// Returns true if bytes, when they are a message, are one of these.
    pub fn is_client_kind(bytes: &[u8]) -> bool {
        bytes.get(5).is_some_and(|kind| *kind >= FIRST_KIND)
    }

    /// Appends the encoded message, at most [`crate::MAX_MESSAGE`] bytes.
    pub fn encode(&self, cluster: u64, out: &mut Vec<u8>) {
        let kind = match self.body {
            ClientBody::Request(_) => FIRST_KIND,
            ClientBody::Answer(_) => FIRST_KIND + 1,
            ClientBody::NotLeader(_) => FIRST_KIND + 2,
        };
        let header = MessageHeader {
            kind,
            from: self.from,
            to: self.to,
            term: crate::Term(0),
        };
        header.encode(cluster, out, |out| {
            out.put_u64(self.token);
            match &self.body {
                ClientBody::Request(request) => encode_request(request, out),
                ClientBody::Answer(answer) => answer.encode(out),
                ClientBody::NotLeader(leader) => out.put_u64(leader.unwrap_or_default().0),
            }
        });
    }

    /// Reads and checks a message.
    ///
    /// # Errors
    /// The bytes are no message of this cluster.
    pub fn decode(cluster: u64, bytes: &[u8]) -> Result<ClientMessage, MessageError> {
        let (header, mut from) = MessageHeader::decode(cluster, bytes, true)?;
        let mut fields = || {
            let token = from.u64()?;
            let body = match header.kind.checked_sub(FIRST_KIND)? {
                0 => {
                    let kind = from.u8()?;
                    ClientBody::Request(decode_request(kind, &mut from)?)
                }
                1 => ClientBody::Answer(RequestAnswer::decode(&mut from)?),
                2 => {
                    let leader = NodeId(from.u64()?);
                    ClientBody::NotLeader((leader != NodeId(0)).then_some(leader))
                }
                _ => return None,
            };
            // They have no term.
            (from.is_empty() && header.term == Term(0)).then_some((token, body))
        };
        let (token, body) = fields().ok_or(MessageError::Fields)?;
        Ok(ClientMessage {
            from: header.from,
            to: header.to,
            token,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Operation, StoredValue};
    use crate::ids::ClientId;

    #[test]
    fn a_message_with_a_term_is_refused() {
        let message = ClientMessage {
            from: NodeId(1),
            to: NodeId(2),
            token: 77,
            body: ClientBody::NotLeader(None),
        };
        let mut bytes = Vec::new();
        message.encode(5, &mut bytes);
        bytes[32] = 4;
        let checksum = crate::message::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(ClientMessage::decode(5, &bytes), Err(MessageError::Fields));
    }

    #[test]
    fn a_message_is_the_same_after_its_bytes_and_a_damaged_one_is_refused() {
        let value = StoredValue::new(b"value").unwrap();
        let request = Request {
            client: ClientId(7 << 16 | 3),
            sequence: 9,
            operation: Operation::Put([5; 16], value),
        };
        let bodies = [
            ClientBody::Request(request),
            ClientBody::Answer(RequestAnswer::Value(Some(value))),
            ClientBody::Answer(RequestAnswer::Done),
            ClientBody::NotLeader(None),
            ClientBody::NotLeader(Some(NodeId(2))),
        ];
        for body in bodies {
            let message = ClientMessage {
                from: NodeId(1),
                to: NodeId(2),
                token: 77,
                body,
            };
            let mut bytes = Vec::new();
            message.encode(5, &mut bytes);
            assert!(ClientMessage::is_client_kind(&bytes));
            assert_eq!(ClientMessage::decode(5, &bytes), Ok(message));
            let of_another = ClientMessage::decode(6, &bytes);
            assert_eq!(of_another, Err(MessageError::Cluster(5)));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert!(ClientMessage::decode(5, &damaged).is_err(), "byte {at}");
                assert!(ClientMessage::decode(5, &bytes[..at]).is_err(), "cut {at}");
            }
        }
    }
}
