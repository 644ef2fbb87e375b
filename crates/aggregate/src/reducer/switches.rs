//! Switches of a reducer: it collects what they hold of an epoch, and has them forget it.

use packet::Nanos;

use super::progress::{Clearing, Collection, Request};
use super::{Phase, Reducer, total};
use crate::message::{Bank, Body, Flags, Header, Kind, Message};

/// Requests for slots in flight to a switch.
const REQUESTS: usize = 32;

impl Reducer {
    pub(super) fn collect_level(&mut self, level: u16, absorbed: u64, now: Nanos) {
        self.phase = Phase::Collecting { level, absorbed };
        for index in self.of_level(level) {
            self.collections[index].begin(now);
            self.request(index, now);
        }
    }

    /// Returns the indices of the switches of a level.
    pub(super) fn of_level(&self, level: u16) -> Vec<usize> {
        let places = self.config.switches.iter().enumerate();
        let of_level = places.filter(|(_, place)| place.level == level);
        of_level.map(|(index, _)| index).collect()
    }

    /// Requests slots of a switch: the first ones until their number is known, then as many as
    /// may be in flight.
    fn request(&mut self, index: usize, now: Nanos) {
        let step = self.config.flows.pairs_per_message as u32;
        let window = self.config.flows.window;
        loop {
            let collection = &mut self.collections[index];
            let is_more = match collection.used {
                None => collection.next_slot == 0,
                Some(used) => collection.next_slot < used,
            };
            let oldest = collection.requests.keys().next();
            let span = oldest.map_or(0, |oldest| collection.next_sequence - oldest);
            if !is_more || collection.requests.len() >= REQUESTS || span >= window {
                return;
            }
            let sequence = collection.next_sequence;
            let request = Request {
                first: collection.next_slot,
                at: now,
                transmissions: 1,
            };
            collection.next_sequence += 1;
            collection.next_slot += step;
            collection.requests.insert(sequence, request);
            self.send_request(index, sequence, request);
        }
    }

    pub(super) fn send_request(&mut self, index: usize, sequence: u32, request: Request) {
        let flow = self.config.switches[index].flow;
        let mut header = self.header(Kind::Collect, flow, self.base);
        if let Some(layout) = &self.layout {
            // An epoch is of scales or of values.
            header.shape.operator = layout.operator(self.start);
        }
        header.sequence = sequence;
        header.credit = request.transmissions as u16;
        let bank = Bank {
            first: request.first,
            ..Bank::default()
        };
        let body = match self.config.flows.shape.is_vector() {
            true => Body::BlockBank(bank, Vec::new()),
            false => Body::Bank(bank, Vec::new()),
        };
        self.send(flow, Message { header, body });
    }

    /// Takes a reply of a switch.
    pub(super) fn collect(&mut self, message: &Message, bank: Bank, now: Nanos) {
        let (header, pairs) = (&message.header, message.body.pairs());
        let level = match self.phase {
            Phase::Collecting { level, .. } if header.epoch == self.base => level,
            _ => return,
        };
        let mut places = self.config.switches.iter();
        let index = places.position(|place| place.flow == header.flow && place.level == level);
        let Some(index) = index else {
            self.counts.strays += 1;
            return;
        };
        let collection = &mut self.collections[index];
        collection.heard_at = now;
        let Some(request) = collection.requests.remove(&header.sequence) else {
            self.counts.repeats += 1;
            return;
        };
        if request.transmissions == 1 {
            self.round_trip.add(now.since(request.at));
        }
        collection.used = Some(bank.used);
        let counts = match self.layout {
            Some(_) => bank.combined_blocks(),
            None => bank.counts,
        };
        collection.counts = collection.counts.saturating_add(counts);
        let step = self.config.flows.pairs_per_message as u32;
        let expected = bank.used.saturating_sub(request.first).min(step);
        let found = pairs + u64::from(header.absorbed);
        if !self.check(expected.into(), found) {
            return;
        }
        if let Phase::Collecting { absorbed, .. } = &mut self.phase {
            *absorbed = absorbed.saturating_add(header.absorbed.into());
        }
        self.counts.collected += pairs;
        if let Some(epoch) = self.epochs.front_mut() {
            let operator = self.config.flows.shape.operator;
            let layout = self.layout.as_ref();
            epoch
                .partial
                .add(header.flow, &message.body, operator, layout);
        }
        self.request(index, now);
    }

    /// Goes on to the next level, or to the result, when a level is collected. `absorbed` is the
    /// number of pairs that switches took out of messages and replies.
    pub(super) fn finish_level(&mut self, level: u16, absorbed: u64, now: Nanos) -> bool {
        let of_level = self.of_level(level);
        let mut collections = of_level.iter().map(|index| &self.collections[*index]);
        if !collections.all(Collection::is_complete) {
            return false;
        }
        let is_last = self
            .config
            .switches
            .iter()
            .all(|place| place.level <= level);
        if !is_last {
            self.collect_level(level + 1, absorbed, now);
            return true;
        }
        let counts = self.collections.iter().map(|collection| collection.counts);
        if self.check(absorbed, total(counts)) {
            self.commit(now);
        }
        true
    }

    /// Adds the base epoch to the result, and has the switches forget it.
    pub(super) fn commit(&mut self, now: Nanos) {
        let Some(epoch) = self.epochs.pop_front() else {
            return;
        };
        if self.layout.is_none() {
            let width = u64::from(epoch.end) - u64::from(self.start) + 1;
            self.width = self.width_for(epoch.partial.keys(), width);
        }
        // Keys of an epoch are in no other, so nothing is combined here.
        self.result.extend(epoch.partial);
        self.counts.epochs += 1;
        let is_last = epoch.end == u32::MAX;
        if is_last {
            self.phase = Phase::Complete;
            self.completed_at = Some(now);
            for flow in 0..self.config.mappers {
                self.signal(flow);
            }
            if !self.is_group() {
                return;
            }
        }
        self.start = epoch.end.saturating_add(1);
        self.base += 1;
        let clearing = Clearing {
            at: now,
            transmissions: 1,
        };
        let all = 0..self.config.switches.len();
        self.phase = Phase::Clearing(all.clone().map(|index| (index, clearing)).collect());
        for index in all {
            self.collections[index].heard_at = now;
            self.send_clear(index, 1);
        }
    }

    pub(super) fn send_clear(&mut self, index: usize, transmissions: u32) {
        let flow = self.config.switches[index].flow;
        let mut header = self.header(Kind::Clear, flow, self.base.wrapping_sub(1));
        header.credit = transmissions as u16;
        let body = Body::Nothing;
        self.send(flow, Message { header, body });
    }

    /// Takes a switch's answer that it has forgotten an epoch.
    pub(super) fn cleared(&mut self, header: &Header, now: Nanos) {
        let mut places = self.config.switches.iter();
        let index = places.position(|place| place.flow == header.flow);
        let is_answer = header.flags.has(Flags::ACK) && header.epoch.wrapping_add(1) == self.base;
        match (&mut self.phase, index) {
            (Phase::Clearing(left), Some(index)) if is_answer => {
                self.collections[index].heard_at = now;
                left.remove(&index);
            }
            _ => self.counts.strays += 1,
        }
    }
}
