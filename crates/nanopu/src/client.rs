//! A client: a transport without a program. It sends messages at planned times and keeps what it
//! receives.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cost::CostTable;
use crate::queues::RpcMessage;
use crate::time::Picos;
use crate::transport::{Transport, TransportCounts};
use crate::wire::Packet;

/// Messages of a client at a steady rate. The number of a message, its low 16 bits, is the client's
/// context of it. The client keeps of what it receives the times and the headers.
#[derive(Clone, Debug)]
pub struct SteadyLoad {
    /// Time of the first message.
    pub first: Picos,
    /// Time between two messages.
    pub interval: Picos,
    /// Number of messages.
    pub messages: usize,
    /// IPv4 address of the receiver.
    pub peer: u32,
    /// Context of the receiver.
    pub peer_context: u16,
    /// Contents of the messages, at least one. Message `n` has the contents with the number
    /// `offset + n * stride`, from the front again after the last one.
    pub contents: Arc<[Vec<u8>]>,
    /// Number of the first message's contents.
    pub offset: usize,
    /// Distance of two messages' contents.
    pub stride: usize,
}

impl SteadyLoad {
    /// Returns the time of a message.
    pub fn time_of(&self, message: usize) -> Picos {
        self.first + Picos(self.interval.0.saturating_mul(message as u64))
    }

    fn message(&self, number: usize) -> RpcMessage {
        let place = self.offset.wrapping_add(number.wrapping_mul(self.stride));
        let contents = self.contents.get(place % self.contents.len().max(1));
        RpcMessage {
            context: number as u16,
            peer: self.peer,
            peer_context: self.peer_context,
            bytes: contents.cloned().unwrap_or_else(|| vec![0]),
        }
    }
}

/// A message that a client received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Arrival of the last bit.
    pub time: Picos,
    /// Message.
    pub message: RpcMessage,
}

/// A transport without a program. It accepts messages of every context.
pub struct Client {
    transport: Transport,
    /// Messages that it will send, by time.
    planned: VecDeque<(Picos, RpcMessage)>,
    /// Messages at a steady rate, and how many of them are sent.
    steady: Option<(SteadyLoad, usize)>,
    received: Vec<Received>,
    /// End of the last pause, before which nothing is sent.
    awake: Picos,
}

impl Client {
    /// Creates a client with an IPv4 address.
    pub fn new(address: u32, costs: &CostTable) -> Self {
        Self {
            transport: Transport::new(address, costs),
            planned: VecDeque::new(),
            steady: None,
            received: Vec::new(),
            awake: Picos(0),
        }
    }

    /// Sends nothing from a time until another one, which is now. Messages that were planned for
    /// the pause are sent at its end.
    pub fn pause(&mut self, from: Picos, until: Picos) {
        self.step(from);
        self.awake = until;
        self.transport.pause(until, until.since(from));
    }

    /// Returns true if no message waits, or is sent and not acknowledged.
    pub fn has_sent_all(&self) -> bool {
        let is_sent = self
            .steady
            .as_ref()
            .is_none_or(|(load, sent)| *sent == load.messages);
        is_sent
            && self.planned.is_empty()
            && self.transport.waiting() == 0
            && self.transport.buffers().0 == 0
    }

    /// Returns the number of messages that wait for a buffer of the transport.
    pub fn waiting(&self) -> usize {
        self.transport.waiting()
    }

    /// Plans a message, not before those planned earlier.
    pub fn plan(&mut self, time: Picos, message: RpcMessage) {
        let last = self.planned.back().map_or(Picos(0), |(last, _)| *last);
        self.planned.push_back((time.max(last), message));
    }

    /// Plans messages at a steady rate, instead of single ones.
    pub fn plan_steady(&mut self, load: SteadyLoad) {
        self.steady = Some((load, 0));
    }

    /// Returns the time of the next action, or none if the client waits for a packet.
    pub fn next_time(&self) -> Option<Picos> {
        let planned = self.next_planned().into_iter();
        planned.chain(self.transport.next_time()).min()
    }

    /// The time of the next planned message.
    fn next_planned(&self) -> Option<Picos> {
        let time = match &self.steady {
            Some((load, sent)) if *sent < load.messages => Some(load.time_of(*sent)),
            Some(_) => None,
            None => self.planned.front().map(|(time, _)| *time),
        };
        time.map(|time| time.max(self.awake))
    }

    /// Takes the next planned message.
    fn take_planned(&mut self) -> Option<RpcMessage> {
        match &mut self.steady {
            Some((load, sent)) => {
                let message = load.message(*sent);
                *sent += 1;
                Some(message)
            }
            None => self.planned.pop_front().map(|(_, message)| message),
        }
    }

    /// Does all that is due up to a time.
    pub fn step(&mut self, until: Picos) {
        loop {
            let planned = self.next_planned();
            let timer = self.transport.next_time();
            match (planned, timer) {
                (Some(time), timer) if time <= until && timer.is_none_or(|t| time <= t) => {
                    if let Some(message) = self.take_planned() {
                        self.transport.send(time, message);
                    }
                }
                (_, Some(time)) if time <= until => self.transport.step(time),
                _ => break,
            }
        }
    }

    /// Takes a packet, of which the last bit arrives at a time that is not in the past.
    pub fn receive_packet(&mut self, packet: &Packet, last_bit: Picos) {
        self.transport.receive(last_bit, packet, |_| true);
        for buffer in self.transport.take_whole() {
            if let Some(mut message) = self.transport.take_message(last_bit, buffer) {
                if self.steady.is_some() {
                    message.bytes = Vec::new();
                }
                let time = last_bit;
                self.received.push(Received { time, message });
            }
        }
    }

    /// Takes the packets that were sent, with the times of their first bits.
    pub fn take_sent(&mut self) -> Vec<(Picos, Packet)> {
        self.transport.take_sent()
    }

    /// Takes the messages that were received.
    pub fn take_received(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.received)
    }

    /// Returns the number of messages that were received and not taken.
    pub fn received_count(&self) -> usize {
        self.received.len()
    }

    /// Returns the number of messages that were sent of the steady load.
    pub fn steady_sent(&self) -> usize {
        self.steady.as_ref().map_or(0, |(_, sent)| *sent)
    }

    /// Returns the messages of the steady load that are answered, each once, with the times of
    /// their answers. An answer goes to the client's context of its message; other messages, and
    /// second answers, are left out.
    pub fn steady_answers(&self) -> Vec<(usize, Picos)> {
        match &self.steady {
            Some((load, sent)) => answers(&self.received, *sent, |message| load.time_of(message)),
            None => Vec::new(),
        }
    }

    /// Returns the counters of the transport.
    pub fn counts(&self) -> TransportCounts {
        self.transport.counts
    }

    /// Returns the transport's buffers in use, of messages that are sent and of received ones.
    pub fn buffers(&self) -> (usize, usize) {
        self.transport.buffers()
    }
}

/// Returns the turns of a client that are answered, each once, with the times of their answers. An
/// answer has the low 16 bits of its turn as context; of the turns that have them, it belongs to
/// the one next to the turn that was answered before. `time_of` has the time of a turn's message.
fn answers(
    received: &[Received],
    turns: usize,
    time_of: impl Fn(usize) -> Picos,
) -> Vec<(usize, Picos)> {
    let mut is_answered = vec![false; turns];
    let mut answers = Vec::new();
    let mut before = 0;
    for answer in received {
        let Some(turn) = turn_near(before, answer.message.context) else {
            continue;
        };
        match is_answered.get_mut(turn) {
            Some(is_answered) if !*is_answered && time_of(turn) <= answer.time => {
                *is_answered = true;
                before = turn;
                answers.push((turn, answer.time));
            }
            // Of no message, of a later one, or a second answer.
            _ => {}
        }
    }
    answers
}

/// Returns the turn nearest to another one that has these low bits, or none if it is below zero.
fn turn_near(before: usize, bits: u16) -> Option<usize> {
    let forward = bits.wrapping_sub(before as u16) as i16;
    before.checked_add_signed(isize::from(forward))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(answers: &[(u64, u16)]) -> Vec<Received> {
        let message = |context| RpcMessage {
            context,
            peer: 1,
            peer_context: 0,
            bytes: Vec::new(),
        };
        let one = |&(time, context)| Received {
            time: Picos(time),
            message: message(context),
        };
        answers.iter().map(one).collect()
    }

    #[test]
    fn an_answer_belongs_to_the_message_of_its_context() {
        let time_of = |turn: usize| Picos(100 * turn as u64);
        // Turn 0 is lost, turns 1 and 2 are answered in the other order, 2 twice, and 9 too early.
        let received = received(&[(210, 2), (260, 1), (270, 2), (280, 9), (500, 30)]);
        assert_eq!(
            answers(&received, 20, time_of),
            [(2, Picos(210)), (1, Picos(260))]
        );
    }

    #[test]
    fn contexts_that_come_again_belong_to_later_messages() {
        let time_of = |turn: usize| Picos(turn as u64);
        let turns = 150_000;
        // Every seventh is lost, and neighbours change places.
        let mut sent: Vec<usize> = (0..turns).filter(|turn| turn % 7 != 3).collect();
        sent.as_chunks_mut::<2>()
            .0
            .iter_mut()
            .for_each(|pair| pair.swap(0, 1));
        let received: Vec<_> = sent.iter().map(|&turn| (1_000_000, turn as u16)).collect();
        let found = answers(&self::received(&received), turns, time_of);
        let found: Vec<usize> = found.into_iter().map(|(turn, _)| turn).collect();
        assert_eq!(found, sent);
    }
}
