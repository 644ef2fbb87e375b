//! Messages: every message is read as it was written, and no bytes make a node panic.

use consensus::{
    Ack, Capacity, ClientId, Config, Entries, Keep, LogIndex, MAX_MESSAGE, Membership, MessageBody,
    MessageError, NodeId, Operation, PeerMessage, RaftNode, ReadMode, Request, StoredValue, Term,
    VoteKind, crc32c,
};
use proptest::prelude::*;
use support::rng::Rng;

const CLUSTER: u64 = 7;

/// Returns a number that is often near a border or small.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(6) {
        0 => u64::MAX - rng.below(3),
        1 => rng.bits(),
        _ => rng.below(40),
    }
}

fn body(rng: &mut Rng) -> MessageBody<'static> {
    let (a, b) = (LogIndex(number(rng)), LogIndex(number(rng)));
    let (round, next) = (number(rng), number(rng));
    match rng.below(9) {
        0 => MessageBody::Vote {
            kind: [VoteKind::Pre, VoteKind::Real, VoteKind::Transfer][rng.index(3)],
            campaign: round,
            last_index: a,
            last_term: Term(number(rng)),
        },
        1 => MessageBody::Voted {
            campaign: round,
            granted: rng.one_in(2),
        },
        2 => MessageBody::Append {
            previous: a,
            previous_term: Term(number(rng)),
            commit: b,
            round,
            entries: Entries::NONE,
        },
        3 => MessageBody::Appended {
            matches: rng.one_in(2),
            index: a,
            previous: b,
            round,
        },
        4 => MessageBody::Piece {
            index: a,
            index_term: Term(number(rng)),
            first: if rng.one_in(2) { 0 } else { number(rng) },
            next,
            items: if rng.one_in(2) {
                1 + 8 + 32
            } else {
                number(rng)
            },
            round,
            bytes: &[],
        },
        5 => MessageBody::Received {
            index: a,
            next,
            round,
        },
        6 => MessageBody::CampaignNow,
        7 => MessageBody::ReadIndex { number: round },
        _ => MessageBody::ReadAt {
            number: round,
            index: rng.one_in(2).then_some(a),
        },
    }
}

fn node() -> RaftNode {
    let config = Config {
        cluster: CLUSTER,
        id: NodeId(1),
        seed: 1,
        election_timeout: 100,
        heartbeat: 10,
        ack: Ack::Majority,
        keep: Keep::Memory,
        log_entries: 16,
        window: 8,
        max_batch: 8,
        reads: ReadMode::Index,
        max_reads: 8,
        capacity: Capacity {
            keys: 16,
            reserved: 0,
            sessions: 8,
            session_life: 1000,
        },
    };
    let members = Membership::of_voters(&[NodeId(1), NodeId(2), NodeId(3)]);
    RaftNode::new(config, members.expect("three are few"), 0)
}

fn encoded(message: &PeerMessage<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(CLUSTER, &mut bytes);
    bytes
}

#[test]
fn the_check_value_of_crc_32c_is_computed() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn messages_are_read_as_written_and_refused_when_damaged() {
    let mut rng = Rng::new(1);
    for _ in 0..2_000 {
        let message = PeerMessage {
            from: NodeId(number(&mut rng)),
            to: NodeId(number(&mut rng)),
            term: Term(number(&mut rng)),
            body: body(&mut rng),
        };
        let mut bytes = encoded(&message);
        assert_eq!(PeerMessage::decode(CLUSTER, &bytes), Ok(message));
        assert_eq!(
            PeerMessage::decode(8, &bytes),
            Err(MessageError::Cluster(CLUSTER))
        );
        bytes[4..]
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(1));
        assert_eq!(
            PeerMessage::decode(CLUSTER, &bytes),
            Err(MessageError::Checksum)
        );
        bytes.resize(MAX_MESSAGE + 1, 0);
        assert_eq!(
            PeerMessage::decode(CLUSTER, &bytes),
            Err(MessageError::Length)
        );
    }
}

/// Messages of correct layout with any fields, in any order, from members and strangers.
#[test]
fn no_sequence_of_fields_makes_a_node_panic() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (mut node, mut now) = (node(), 0);
        for step in 0..400 {
            now += rng.below(60);
            let term = match rng.below(4) {
                0 => Term(number(&mut rng)),
                _ => node.term(),
            };
            let from = NodeId(rng.below(5));
            let message = PeerMessage {
                from,
                to: NodeId(1),
                term,
                body: body(&mut rng),
            };
            let mut bytes = encoded(&message);
            if rng.one_in(3) {
                // Any bytes after the header, with the checksum that belongs to them.
                let at = 40 + rng.index(bytes.len() - 39);
                bytes.truncate(at);
                bytes.extend((0..rng.below(120)).map(|_| rng.below(20) as u8));
                let len = (bytes.len() as u16).to_le_bytes();
                bytes[6..8].copy_from_slice(&len);
                let crc = crc32c(&bytes[4..]).to_le_bytes();
                bytes[..4].copy_from_slice(&crc);
            }
            let _ = node.receive(now, &bytes);
            let operation = Operation::Put([step as u8; 16], StoredValue::default());
            let request = Request {
                client: ClientId(number(&mut rng)),
                sequence: 1,
                operation,
            };
            let _ = node.propose(now, request, step);
            let _ = node.read(now, [0; 16], step);
            node.tick(now);
            node.flush(now);
            node.send(|_, bytes| assert!(bytes.len() <= MAX_MESSAGE));
            while node.next_event().is_some() {}
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut with_crc = bytes.clone();
        if bytes.len() > 8 {
            let crc = crc32c(&bytes[4..]).to_le_bytes();
            with_crc[..4].copy_from_slice(&crc);
        }
        let mut node = node();
        prop_assert!(node.receive(0, &bytes).is_err());
        let _ = node.receive(0, &with_crc);
    }
}
