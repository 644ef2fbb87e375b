//! The transport of the network interface: NDP (Handley et al., SIGCOMM 2017) as the prototype has
//! it. Messages become packets, each packet is acknowledged, a trimmed one is asked for again at
//! the pace of the link, and what is lost is sent again after a timeout.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::cost::{Cost, CostTable};
use crate::queues::RpcMessage;
use crate::time::{Clock, Picos};
use crate::wire::{ACK, CHOP, DATA, HEADER_BYTES, NACK, PULL, Packet, SEGMENT_BYTES};

/// Packets that a sender may send before the first pull (public sources of the prototype).
const RTT_PACKETS: u16 = 5;
/// Finished messages that are known, to acknowledge their packets again.
const HISTORY: usize = 4096;
/// Pulls that wait, at most. More are dropped; the sender's timeout repeats them.
const MAX_PULLS: usize = 4096;
/// Pulls among which one for a buffer in use is searched.
const SEARCHED_PULLS: usize = 16;

/// Message of a sender: its address, context, and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MessageKey {
    source: u32,
    context: u16,
    id: u16,
}

impl MessageKey {
    fn of(packet: &Packet) -> Self {
        Self {
            source: packet.source,
            context: packet.source_context,
            id: packet.message_id,
        }
    }
}

/// A message that is sent.
#[derive(Clone, Debug)]
struct Sending {
    message: RpcMessage,
    id: u16,
    /// Parts that are not acknowledged, one bit each.
    missing: u32,
    /// Parts that wait for a pull.
    trimmed: VecDeque<u8>,
    granted: u16,
    deadline: Picos,
    timeouts: u64,
}

/// A message that is received.
#[derive(Clone, Debug)]
struct Receiving {
    key: MessageKey,
    message: RpcMessage,
    /// Parts that are missing, one bit each. None if the message is whole.
    missing: u32,
    /// Time at which the message is dropped if it is not whole.
    deadline: Picos,
}

/// A pull that waits for the pace of the link, and for a buffer.
#[derive(Clone, Debug)]
struct PendingPull {
    key: MessageKey,
    request: Packet,
}

/// Counters of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCounts {
    /// Messages given to it.
    pub messages_in: u64,
    /// Messages that were acknowledged whole.
    pub messages_sent: u64,
    /// Messages that were received whole.
    pub messages_received: u64,
    /// Messages given up after all timeouts.
    pub abandoned: u64,
    /// Received messages that were dropped, since their other parts did not come.
    pub incomplete: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that arrived without their bytes.
    pub trimmed: u64,
    /// Packets for which there was no buffer.
    pub no_buffer: u64,
    /// Packets of messages that were whole already.
    pub repeated: u64,
    /// Packets for a context that is not bound.
    pub unbound: u64,
    /// Packets for another address, and frames that are none of the transport.
    pub foreign: u64,
}

/// State of the transport of a device or a client.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    address: u32,
    costs: CostTable,
    timeout: Picos,
    /// Time without a packet after which a message that is not whole is dropped. Its sender has
    /// given it up by then.
    patience: Picos,
    sending: Vec<Option<Sending>>,
    waiting: VecDeque<RpcMessage>,
    receiving: Vec<Option<Receiving>>,
    finished: HashSet<MessageKey>,
    finished_order: VecDeque<MessageKey>,
    pulls: VecDeque<PendingPull>,
    pulled: HashMap<MessageKey, u16>,
    next_pull: Picos,
    /// The earliest deadline of messages that are sent, and of received ones that are not whole.
    next_timeout: Option<Picos>,
    next_id: u16,
    link_free: Picos,
    /// Packets with the time of their first bit.
    sent: Vec<(Picos, Packet)>,
    /// Buffers with whole messages, in order.
    whole: Vec<usize>,
    pub(crate) counts: TransportCounts,
}

impl Transport {
    pub(crate) fn new(address: u32, costs: &CostTable) -> Self {
        let clock = Clock::new(costs.get(Cost::ClockRate));
        let timeout = clock.start_of(costs.get(Cost::Timeout));
        let tries = costs.get(Cost::Retries).saturating_add(2);
        Self {
            address,
            timeout,
            patience: Picos(timeout.0.saturating_mul(tries)),
            sending: vec![None; costs.get(Cost::TxBuffers) as usize],
            waiting: VecDeque::new(),
            receiving: vec![None; costs.get(Cost::RxBuffers) as usize],
            finished: HashSet::new(),
            finished_order: VecDeque::new(),
            pulls: VecDeque::new(),
            pulled: HashMap::new(),
            next_pull: Picos(0),
            next_timeout: None,
            next_id: 0,
            link_free: Picos(0),
            sent: Vec::new(),
            whole: Vec::new(),
            counts: TransportCounts::default(),
            costs: costs.clone(),
        }
    }

    /// Takes a message for its peer. It waits if no buffer is free.
    pub(crate) fn send(&mut self, now: Picos, message: RpcMessage) {
        self.counts.messages_in += 1;
        self.waiting.push_back(message);
        self.start_waiting(now);
        self.find_timeout();
    }

    /// Returns the number of messages that wait for a buffer.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of buffers in use, of messages that are sent and of received ones.
    pub(crate) fn buffers(&self) -> (usize, usize) {
        let sending = self.sending.iter().flatten().count();
        (sending, self.receiving.iter().flatten().count())
    }

    fn start_waiting(&mut self, now: Picos) {
        while !self.waiting.is_empty() {
            let Some(buffer) = self.sending.iter().position(Option::is_none) else {
                return;
            };
            let Some(message) = self.waiting.pop_front() else {
                return;
            };
            let parts = message.bytes.len().div_ceil(SEGMENT_BYTES) as u32;
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            self.sending[buffer] = Some(Sending {
                message,
                id,
                missing: (1 << parts) - 1,
                trimmed: VecDeque::new(),
                granted: RTT_PACKETS,
                deadline: now + self.timeout,
                timeouts: 0,
            });
            for part in 0..parts as u8 {
                self.send_part(now, buffer, part);
            }
        }
    }

    /// Sends a part of a message. A message has at most two: all are within the first packets that
    /// need no pull.
    fn send_part(&mut self, now: Picos, buffer: usize, part: u8) {
        let Some(sending) = &self.sending[buffer] else {
            return;
        };
        let message = &sending.message;
        let start = usize::from(part) * SEGMENT_BYTES;
        let end = message.bytes.len().min(start + SEGMENT_BYTES);
        let packet = Packet {
            source: self.address,
            destination: message.peer,
            flags: DATA,
            source_context: message.context,
            destination_context: message.peer_context,
            message_bytes: message.bytes.len() as u16,
            packet_offset: part,
            pull_offset: 0,
            message_id: sending.id,
            buffer: buffer as u16,
            buffer_class: u8::from(message.bytes.len() > SEGMENT_BYTES),
            payload: message.bytes[start..end].to_vec(),
        };
        self.emit(now, packet);
    }

    /// Puts a packet on the link, after those before it.
    fn emit(&mut self, now: Picos, packet: Packet) {
        let egress = Picos(self.costs.get(Cost::Egress));
        let start = (now + egress).max(self.link_free);
        self.link_free = start + self.costs.wire_time(packet.frame_bytes());
        let serial = Picos(self.costs.get(Cost::SerialIo));
        self.counts.packets_sent += 1;
        self.sent.push((start + serial, packet));
    }

    /// Takes the packets with the times of their first bits.
    pub(crate) fn take_sent(&mut self) -> Vec<(Picos, Packet)> {
        std::mem::take(&mut self.sent)
    }

    /// Takes the buffers of messages that became whole.
    pub(crate) fn take_whole(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.whole)
    }

    /// Returns the context of a received message.
    pub(crate) fn context_of(&self, buffer: usize) -> Option<u16> {
        self.receiving[buffer].as_ref().map(|r| r.message.context)
    }

    /// Takes a received message and frees its buffer.
    pub(crate) fn take_message(&mut self, now: Picos, buffer: usize) -> Option<RpcMessage> {
        // A pull that waits for this buffer is not sent before it is free.
        self.next_pull = self.next_pull.max(now);
        self.receiving[buffer].take().map(|r| r.message)
    }

    /// Frees the buffers of messages of a context that are not whole, since no core has it.
    pub(crate) fn forget_context(&mut self, now: Picos, context: u16) {
        self.pulls
            .retain(|pull| pull.request.destination_context != context);
        self.drop_partial(now, |receiving| receiving.message.context == context);
    }

    /// Frees the buffers of some of the messages that are not whole.
    fn drop_partial(&mut self, now: Picos, is_dropped: impl Fn(&Receiving) -> bool) {
        for buffer in &mut self.receiving {
            let partial = |r: &mut Receiving| r.missing != 0 && is_dropped(r);
            if let Some(receiving) = buffer.take_if(partial) {
                self.pulled.remove(&receiving.key);
                self.counts.incomplete += 1;
                // A pull that waits for this buffer is not sent before it is free.
                self.next_pull = self.next_pull.max(now);
            }
        }
    }

    /// Returns the time of the next pull or timeout.
    pub(crate) fn next_time(&self) -> Option<Picos> {
        let timeout = self.next_timeout;
        let pull = self.pullable().map(|_| self.next_pull);
        timeout.into_iter().chain(pull).min()
    }

    /// The first pull of a message that has a buffer, or can get one.
    fn pullable(&self) -> Option<usize> {
        if self.pulls.is_empty() {
            return None;
        }
        if self.receiving.iter().any(Option::is_none) {
            return Some(0);
        }
        // Of the oldest pulls only: the others wait for a buffer, or for their sender's timeout.
        let mut oldest = self.pulls.iter().take(SEARCHED_PULLS);
        let is_partial = |key| {
            let mut held = self.receiving.iter().flatten();
            held.any(|r| r.missing != 0 && r.key == key)
        };
        oldest.position(|pull| is_partial(pull.key))
    }

    /// Sends the pulls and the repetitions that are due.
    pub(crate) fn step(&mut self, now: Picos) {
        self.drop_partial(now, |receiving| receiving.deadline <= now);
        while self.next_pull <= now
            && let Some(place) = self.pullable()
        {
            let Some(PendingPull { key, request }) = self.pulls.remove(place) else {
                break;
            };
            if self.finished.contains(&key) {
                continue;
            }
            // The buffer is the message's from now on.
            if self.buffer_for(now, key, &request).is_none() {
                continue;
            }
            let offset = self.pulled.entry(key).or_insert(RTT_PACKETS);
            *offset = offset.saturating_add(1);
            let pull_offset = *offset;
            self.reply(now, &request, PULL, pull_offset);
            let packet = HEADER_BYTES + SEGMENT_BYTES;
            self.next_pull = now + self.costs.wire_time(packet);
        }
        for buffer in 0..self.sending.len() {
            let Some(sending) = &mut self.sending[buffer] else {
                continue;
            };
            if sending.deadline > now {
                continue;
            }
            self.counts.timeouts += 1;
            sending.timeouts += 1;
            if sending.timeouts > self.costs.get(Cost::Retries) {
                self.counts.abandoned += 1;
                self.sending[buffer] = None;
                continue;
            }
            sending.deadline = now + self.timeout;
            sending.trimmed.clear();
            let missing = sending.missing;
            for part in (0..32).filter(|part| missing & 1 << part != 0) {
                self.send_part(now, buffer, part);
            }
        }
        self.start_waiting(now);
        self.find_timeout();
    }

    /// Makes all deadlines later by the length of a pause, which ends now.
    pub(crate) fn pause(&mut self, now: Picos, length: Picos) {
        for sending in self.sending.iter_mut().flatten() {
            sending.deadline += length;
        }
        for receiving in self.receiving.iter_mut().flatten() {
            receiving.deadline += length;
        }
        self.next_pull = self.next_pull.max(now);
        self.link_free = self.link_free.max(now);
        self.find_timeout();
    }

    fn find_timeout(&mut self) {
        let sending = self.sending.iter().flatten().map(|s| s.deadline);
        let partial = self.receiving.iter().flatten().filter(|r| r.missing != 0);
        self.next_timeout = sending.chain(partial.map(|r| r.deadline)).min();
    }

    /// Processes a packet. `is_bound` is true for a context that a core has bound.
    pub(crate) fn receive(&mut self, now: Picos, packet: &Packet, is_bound: impl Fn(u16) -> bool) {
        self.counts.packets_received += 1;
        if packet.destination != self.address || !packet.is_consistent() {
            self.counts.foreign += 1;
            return;
        }
        if packet.flags & DATA != 0 {
            self.receive_data(now, packet, is_bound);
            if usize::from(packet.message_bytes) > SEGMENT_BYTES {
                self.find_timeout();
            }
        } else {
            self.receive_control(now, packet);
            self.find_timeout();
        }
    }

    fn receive_data(&mut self, now: Picos, packet: &Packet, is_bound: impl Fn(u16) -> bool) {
        let key = MessageKey::of(packet);
        if self.finished.contains(&key) {
            self.counts.repeated += 1;
            self.reply(now, packet, ACK, 0);
            return;
        }
        if !is_bound(packet.destination_context) {
            self.counts.unbound += 1;
            return;
        }
        let is_trimmed = packet.flags & CHOP != 0;
        let buffer = if is_trimmed {
            self.counts.trimmed += 1;
            None
        } else {
            let buffer = self.buffer_for(now, key, packet);
            self.counts.no_buffer += u64::from(buffer.is_none());
            buffer
        };
        let Some(buffer) = buffer else {
            self.reply(now, packet, NACK, 0);
            if self.pulls.len() < MAX_PULLS {
                let mut request = packet.clone();
                request.payload.clear();
                self.pulls.push_back(PendingPull { key, request });
                self.next_pull = self.next_pull.max(now);
            }
            return;
        };
        if let Some(receiving) = &mut self.receiving[buffer] {
            let part = packet.packet_offset;
            let start = usize::from(part) * SEGMENT_BYTES;
            let room = receiving
                .message
                .bytes
                .get_mut(start..start + packet.payload.len());
            if let Some(room) = room {
                room.copy_from_slice(&packet.payload);
                let was_missing = receiving.missing;
                receiving.missing &= !(1 << part);
                if was_missing != 0 && receiving.missing == 0 {
                    self.counts.messages_received += 1;
                    self.whole.push(buffer);
                    self.finish(key);
                }
            }
        }
        self.reply(now, packet, ACK, 0);
    }

    /// Returns the buffer of a message. A new message gets a free one, if there is one.
    fn buffer_for(&mut self, now: Picos, key: MessageKey, packet: &Packet) -> Option<usize> {
        let deadline = now + self.patience;
        let is_same = |r: &Option<Receiving>| {
            r.as_ref().is_some_and(|r| {
                r.key == key && r.message.bytes.len() == usize::from(packet.message_bytes)
            })
        };
        if let Some(buffer) = self.receiving.iter().position(is_same) {
            if let Some(receiving) = &mut self.receiving[buffer] {
                receiving.deadline = deadline;
            }
            return Some(buffer);
        }
        let buffer = self.receiving.iter().position(Option::is_none)?;
        let bytes = usize::from(packet.message_bytes);
        self.receiving[buffer] = Some(Receiving {
            key,
            message: RpcMessage {
                context: packet.destination_context,
                peer: packet.source,
                peer_context: packet.source_context,
                bytes: vec![0; bytes],
            },
            missing: (1 << bytes.div_ceil(SEGMENT_BYTES)) - 1,
            deadline,
        });
        Some(buffer)
    }

    fn finish(&mut self, key: MessageKey) {
        self.pulled.remove(&key);
        self.finished.insert(key);
        self.finished_order.push_back(key);
        if self.finished_order.len() > HISTORY
            && let Some(oldest) = self.finished_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }

    fn reply(&mut self, now: Picos, packet: &Packet, flags: u8, pull_offset: u16) {
        self.emit(
            now,
            Packet {
                source: packet.destination,
                destination: packet.source,
                flags,
                source_context: packet.destination_context,
                destination_context: packet.source_context,
                pull_offset,
                payload: Vec::new(),
                ..packet.clone()
            },
        );
    }

    fn receive_control(&mut self, now: Picos, packet: &Packet) {
        let buffer = usize::from(packet.buffer);
        let sending = self.sending.get_mut(buffer).and_then(Option::as_mut);
        let Some(sending) = sending.filter(|sending| {
            sending.id == packet.message_id
                && sending.message.context == packet.destination_context
                && sending.message.peer == packet.source
        }) else {
            // Of a message that is acknowledged already.
            return;
        };
        let part = packet.packet_offset;
        let is_missing = sending.missing & 1 << part != 0;
        sending.deadline = now + self.timeout;
        if packet.flags & ACK != 0 {
            sending.missing &= !(1 << part);
            sending.trimmed.retain(|&trimmed| trimmed != part);
            if sending.missing == 0 {
                self.counts.messages_sent += 1;
                self.sending[buffer] = None;
                self.start_waiting(now);
            }
            return;
        }
        if packet.flags & NACK != 0 && is_missing && !sending.trimmed.contains(&part) {
            sending.trimmed.push_back(part);
        }
        if packet.flags & PULL != 0 {
            let granted = packet.pull_offset.saturating_sub(sending.granted);
            sending.granted = sending.granted.max(packet.pull_offset);
            let count = usize::from(granted).min(sending.trimmed.len());
            let parts: Vec<u8> = sending.trimmed.drain(..count).collect();
            for part in parts {
                self.send_part(now, buffer, part);
            }
        }
    }
}
