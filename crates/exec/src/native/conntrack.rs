//! A small TCP connection tracker. A connection begins with the client's SYN. Packets are accepted
//! if they follow the handshake.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::standard::{at, ipv4};
use crate::RandomStream;

/// Maximum number of tracked connections.
const SLOTS: usize = 1 << 14;

/// Number of hash table entries in which a connection may be stored.
const REACH: usize = 16;

/// Tracked connections. Each is one word: a tag, the bit [`SERVER_IS_HIGH`], and the state. Packets
/// read and write the words without locks.
#[derive(Debug)]
pub(super) struct Connections {
    words: Box<[AtomicU64]>,
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            words: (0..SLOTS).map(|_| AtomicU64::new(EMPTY)).collect(),
        }
    }
}

const EMPTY: u64 = 0;
const SYN_SENT: u64 = 1;
const SYN_ACKED: u64 = 2;
const ESTABLISHED: u64 = 3;
const STATE: u64 = 0b011;
/// Set if the server is the endpoint with the larger address.
const SERVER_IS_HIGH: u64 = 0b100;
const TAG: u64 = !0b111;

/// Indices of the TCP header's fields among the arguments that follow its validity.
mod tcp {
    pub(super) const SOURCE: usize = 0;
    pub(super) const DESTINATION: usize = 1;
    pub(super) const ACK: usize = 8;
    pub(super) const SYN: usize = 11;
    pub(super) const FIN: usize = 12;
}

/// Number of arguments of the Ethernet header, including its validity.
const ETHERNET: usize = 4;

impl Connections {
    /// Advances the packet's connection, and returns true if the packet is accepted. Arguments:
    /// Ethernet, IPv4 and TCP headers.
    pub(super) fn accepts(&self, args: &[u64]) -> bool {
        let ip = args.get(ETHERNET + 1..).unwrap_or_default();
        let segment = ip.get(ipv4::FIELDS + 1..).unwrap_or_default();
        let [from, to] = [ipv4::SOURCE, ipv4::DESTINATION].map(|i| at(ip, i));
        let ports = [tcp::SOURCE, tcp::DESTINATION].map(|i| at(segment, i));
        let [syn, ack, fin] = [tcp::SYN, tcp::ACK, tcp::FIN].map(|i| at(segment, i) == 1);
        let ends = from.min(to) << 32 | from.max(to);
        let both_ports = ports[0].min(ports[1]) << 16 | ports[0].max(ports[1]);
        let tag = RandomStream::new(ends, both_ports).next_u64() & TAG;
        let Some((slot, known)) = self.find(tag) else {
            return syn && !ack && self.begin(tag, to >= from);
        };
        let is_from_server = (from > to) == (known & SERVER_IS_HIGH != 0);
        let next = match (known & STATE, is_from_server) {
            (SYN_SENT, true) if syn && ack => SYN_ACKED,
            (SYN_ACKED, false) if ack && !syn => ESTABLISHED,
            (ESTABLISHED, true) => ESTABLISHED,
            (ESTABLISHED, false) if syn && !ack => return false,
            (ESTABLISHED, false) if fin && ack => {
                slot.store(EMPTY, Relaxed);
                return true;
            }
            (ESTABLISHED, false) => ESTABLISHED,
            _ => return false,
        };
        slot.store(known & !STATE | next, Relaxed);
        true
    }

    fn reach(&self, tag: u64) -> impl Iterator<Item = &AtomicU64> {
        let home = (tag >> 3) as usize;
        (0..REACH).filter_map(move |i| self.words.get((home + i) % SLOTS))
    }

    fn find(&self, tag: u64) -> Option<(&AtomicU64, u64)> {
        self.reach(tag)
            .map(|slot| (slot, slot.load(Relaxed)))
            .find(|(_, word)| word & STATE != EMPTY && word & TAG == tag)
    }

    /// Inserts a new connection. Returns false if there is no free entry.
    fn begin(&self, tag: u64, server_is_high: bool) -> bool {
        let side = if server_is_high { SERVER_IS_HIGH } else { 0 };
        let word = tag | side | SYN_SENT;
        self.reach(tag)
            .any(|slot| slot.compare_exchange(EMPTY, word, Relaxed, Relaxed).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(from: u64, to: u64, flags: &[usize]) -> Vec<u64> {
        let mut args = vec![0; ETHERNET + 1];
        let mut ip = vec![0; ipv4::FIELDS];
        ip[ipv4::SOURCE] = from;
        ip[ipv4::DESTINATION] = to;
        args.extend(ip);
        args.push(1);
        let mut tcp = vec![0; 16];
        tcp[tcp::SOURCE] = from;
        tcp[tcp::DESTINATION] = to;
        flags.iter().for_each(|&flag| tcp[flag] = 1);
        args.extend(tcp);
        args
    }

    #[test]
    fn a_connection_is_let_through_as_it_is_set_up() {
        let connections = Connections::default();
        let check = |from, to, flags: &[usize], expected| {
            assert_eq!(connections.accepts(&segment(from, to, flags)), expected);
        };
        check(1, 2, &[tcp::ACK], false);
        check(1, 2, &[tcp::SYN], true);
        check(1, 2, &[tcp::SYN], false);
        check(2, 1, &[tcp::SYN, tcp::ACK], true);
        check(2, 1, &[tcp::SYN, tcp::ACK], false);
        check(1, 2, &[tcp::ACK], true);
        check(2, 1, &[], true);
        check(1, 2, &[tcp::SYN], false);
        check(1, 2, &[tcp::FIN, tcp::ACK], true);
        check(1, 2, &[tcp::ACK], false);
    }
}
