//! The target `raft`: messages between the members of a store.
//!
//! - Bytes that are read as a message are those of what was read, written again.
//! - Members that get lost, repeated, late and damaged messages commit equal entries. Damaged ones
//!   are refused.
//! - Members that also get changed messages with a right checksum never panic, and hold little.

use consensus::{
    Ack, Capacity, ClientId, ClientMessage, Config, Entry, Keep, LogIndex, Membership, NodeId,
    Operation, PeerMessage, RaftNode, ReadMode, Request, StoredValue, crc32c,
};
use support::rng::Rng;

use super::guard::guarded;
use super::{Case, Fault};

const CLUSTER: u64 = 1;
/// Steps of a case.
const STEPS: usize = 2_000;
/// Messages in the network at most: older ones are lost.
const ON_THE_WAY: usize = 64;
const ELECTION: u64 = 100;
/// Entries that the log of a member has in memory.
const LOG_ENTRIES: usize = 256;

/// Runs one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let stream = case.stream();
    let examined = guarded(case.limit, move || run(&mut Rng::new(stream)));
    let fault = match examined {
        Ok(Ok(committed)) => {
            if committed > 0 {
                case.accept();
            }
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("members of a store"),
    };
    Some((fault, format!("case {} of seed {}", case.number, case.seed)))
}

fn member(id: NodeId) -> Option<RaftNode> {
    let members = Membership::of_voters(&[1, 2, 3].map(NodeId))?;
    let config = Config {
        cluster: CLUSTER,
        id,
        seed: id.0,
        election_timeout: ELECTION,
        heartbeat: ELECTION / 10,
        ack: Ack::Majority,
        keep: Keep::Memory,
        log_entries: LOG_ENTRIES,
        window: 32,
        max_batch: 8,
        reads: ReadMode::Index,
        max_reads: 8,
        capacity: Capacity {
            keys: 64,
            reserved: 0,
            sessions: 16,
            session_life: 10 * ELECTION,
        },
    };
    Some(RaftNode::new(config, members, 0))
}

/// Runs three members. Returns the number of entries that all of them committed.
fn run(choices: &mut Rng) -> Result<u64, Fault> {
    let members = [1, 2, 3].map(NodeId).map(member);
    let mut members: Vec<RaftNode> = members.into_iter().flatten().collect();
    let has_forged = choices.one_in(2);
    let mut network: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut committed: Vec<Entry> = Vec::new();
    let mut now = 0;
    for _ in 0..STEPS {
        let at = choices.index(members.len());
        match choices.index(16) {
            0 => {
                now += choices.below(ELECTION / 5);
                members[at].tick(now);
            }
            // A refusal has no effect.
            1 => drop(members[at].propose(now, request(choices), choices.bits())),
            2 => drop(members[at].read(now, [0; 16], choices.bits())),
            3 => drop(members[at].transfer(now, NodeId(1 + choices.below(4)))),
            _ if !network.is_empty() => {
                let number = choices.index(network.len());
                let (to, mut bytes) = match choices.one_in(8) {
                    true => network[number].clone(),
                    false => network.swap_remove(number),
                };
                if has_forged && choices.one_in(8) {
                    forge(&mut bytes, choices);
                    reads_as_written(&bytes)?;
                    let _ = members[to].receive(now, &bytes);
                } else if choices.one_in(16) {
                    let bit = choices.index(8 * bytes.len());
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    if members[to].receive(now, &bytes).is_ok() {
                        return Err(Fault::new("a damaged message is taken", ""));
                    }
                } else if !choices.one_in(16) && members[to].receive(now, &bytes).is_err() {
                    return Err(Fault::new("a message of a member is refused", ""));
                }
            }
            _ => {}
        }
        for (from, member) in members.iter_mut().enumerate() {
            member.flush(now);
            member.send(|to, bytes| {
                let to = (to.0 as usize).wrapping_sub(1);
                // Forged messages may name other members.
                if to < 3 && to != from {
                    network.push((to, bytes.to_vec()));
                }
            });
            while member.next_event().is_some() {}
        }
        let lost = network.len().saturating_sub(ON_THE_WAY);
        network.drain(..lost);
        if !has_forged {
            agree(&members, &mut committed)?;
        }
    }
    let all = members.iter().map(RaftNode::commit).min();
    Ok(all.unwrap_or_default().0)
}

/// Compares what members committed.
fn agree(members: &[RaftNode], committed: &mut Vec<Entry>) -> Result<(), Fault> {
    for member in members {
        for index in member.base().0 + 1..=member.commit().0 {
            let Some(entry) = member.entry(LogIndex(index)) else {
                return Err(Fault::new("a committed entry is missing", ""));
            };
            match committed.get(index as usize - 1) {
                Some(known) if known == entry => {}
                Some(_) => return Err(Fault::new("members committed other entries", "")),
                None => committed.push(*entry),
            }
        }
    }
    Ok(())
}

fn request(choices: &mut Rng) -> Request {
    let mut key = [0; 16];
    key[0] = choices.below(80) as u8;
    let value = StoredValue::new(&[7; 64][..choices.index(65)]).unwrap_or_default();
    let operation = match choices.index(4) {
        0 => Operation::OpenSession,
        1 => Operation::Delete(key),
        _ => Operation::Put(key, value),
    };
    Request {
        client: ClientId(choices.below(20)),
        sequence: choices.below(8),
        operation,
    }
}

/// Changes some bytes of a message, or its length, and makes its checksum right.
fn forge(bytes: &mut Vec<u8>, choices: &mut Rng) {
    for _ in 0..1 + choices.index(4) {
        let at = 4 + choices.index(bytes.len() - 4);
        match choices.index(3) {
            0 => bytes[at] = choices.bits() as u8,
            1 => bytes[at] ^= 1 << choices.index(8),
            _ => bytes[at] = [0, 1, 0x7f, 0xff][choices.index(4)],
        }
    }
    if choices.one_in(4) {
        bytes.truncate((8 + choices.index(bytes.len())).min(bytes.len()));
        let length = bytes.len() as u16;
        bytes[6..8].copy_from_slice(&length.to_le_bytes());
    }
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

fn reads_as_written(bytes: &[u8]) -> Result<(), Fault> {
    let mut again = Vec::new();
    if let Ok(message) = PeerMessage::decode(CLUSTER, bytes) {
        message.encode(CLUSTER, &mut again);
    } else if let Ok(message) = ClientMessage::decode(CLUSTER, bytes) {
        message.encode(CLUSTER, &mut again);
    } else {
        return Ok(());
    }
    match again == bytes {
        true => Ok(()),
        false => Err(Fault::new(
            "a message is written as other bytes",
            format!("{bytes:02x?}\n{again:02x?}"),
        )),
    }
}
