//! A leader that has cut its log sends no entry that the cut suffix overwrote.

use consensus::{
    ClientId, Entries, Entry, LogIndex, MessageBody, NodeId, Operation, Payload, PeerMessage,
    Request, Term, crc32c,
};

use crate::replica::{CLUSTER, RiscvReplica, Sent, Sizes};

const OWN: NodeId = NodeId(1);

/// Returns an entry that differs from all others.
fn entry(term: u64, index: u64) -> Entry {
    Entry {
        term: Term(term),
        time: 1000,
        payload: Payload::Request(Request {
            client: ClientId(index << 16),
            sequence: index,
            operation: Operation::Get([index as u8; 16]),
        }),
    }
}

/// Returns a leader's message with entries after an index.
fn append(
    from: NodeId,
    term: u64,
    previous: (u64, u64),
    entries: &[Entry],
    commit: u64,
) -> Vec<u8> {
    let body = MessageBody::Append {
        previous: LogIndex(previous.0),
        previous_term: Term(previous.1),
        commit: LogIndex(commit),
        round: 0,
        entries: Entries::NONE,
    };
    let mut bytes = message(from, term, body);
    let place = bytes.len() - 2;
    bytes[place..].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    for entry in entries {
        entry.encode(&mut bytes);
    }
    let length = bytes.len() as u16;
    bytes[6..8].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn message(from: NodeId, term: u64, body: MessageBody<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (to, term) = (OWN, Term(term));
    let message = PeerMessage {
        from,
        to,
        term,
        body,
    };
    message.encode(CLUSTER, &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> PeerMessage<'_> {
    PeerMessage::decode(CLUSTER, bytes).expect("a message")
}

/// A replica with messages to it, 20 us apart.
struct Script {
    replica: RiscvReplica,
    now: u64,
}

impl Script {
    fn give(&mut self, from: NodeId, bytes: &[u8]) -> Vec<Sent> {
        self.replica.receive(self.now, from, bytes);
        self.now += 20_000;
        self.replica.step(self.now).expect("no fault")
    }
}

#[test]
fn a_leader_sends_no_entry_that_a_cut_suffix_overwrote() {
    let nodes = [OWN, NodeId(2), NodeId(3)];
    let sizes = Sizes {
        ring: 16,
        session_life: u64::MAX,
    };
    let mut script = Script {
        replica: RiscvReplica::new(OWN, &nodes, 1, sizes),
        now: 100_000,
    };
    let [_, two, three] = nodes;
    // Ten entries are applied. Then 14 follow, of which 8 overwrite applied ones, and are cut.
    let of = |term, range: std::ops::RangeInclusive<u64>| -> Vec<Entry> {
        range.map(|index| entry(term, index)).collect()
    };
    script.give(two, &append(two, 1, (0, 0), &of(1, 1..=10), 10));
    script.give(two, &append(two, 1, (10, 1), &of(1, 11..=24), 10));
    script.give(three, &append(three, 2, (10, 1), &of(2, 11..=11), 11));
    let asked = script.give(three, &message(three, 2, MessageBody::CampaignNow));
    let campaign = asked
        .iter()
        .find_map(|(_, bytes)| match decoded(bytes).body {
            MessageBody::Vote { campaign, .. } => Some(campaign),
            _ => None,
        });
    let voted = MessageBody::Voted {
        campaign: campaign.expect("it asks for votes"),
        granted: true,
    };
    let mut log = of(1, 1..=10);
    log.extend(of(2, 11..=11));
    let mut sent = script.give(two, &message(two, 3, voted));
    // Node 2 lacks entries that are overwritten, node 3 none.
    for (node, last) in [(two, 5), (three, 10)] {
        let refusal = MessageBody::Appended {
            matches: false,
            index: LogIndex(last),
            previous: LogIndex(11),
            round: 0,
        };
        sent.extend(script.give(node, &message(node, 3, refusal)));
    }
    let mut to_three = 0;
    for (to, bytes) in &sent {
        let MessageBody::Append {
            previous,
            previous_term,
            entries,
            ..
        } = decoded(bytes).body
        else {
            continue;
        };
        let before = log.get(previous.0 as usize - 1).expect("an entry");
        assert_eq!(previous_term, before.term, "{to} {previous}");
        for (index, entry) in (previous.0 as usize..).zip(entries.iter()) {
            match log.get(index) {
                Some(expected) => assert_eq!(entry, *expected, "{to}"),
                None => assert_eq!((index, entry.payload), (log.len(), Payload::Noop)),
            }
            to_three += u64::from(*to == three);
        }
    }
    assert!(to_three >= 2, "{to_three}");
}
