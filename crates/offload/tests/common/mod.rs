//! The properties that every flow has, checked on a device with any program.

use std::collections::BTreeMap;

use offload::{ChecksumTest, CounterCell, Edit, Flow, FlowTracer, NotOffloadable, PortRole};
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{CounterReading, Device, EntryId};

/// Numbers of what was seen, so that a test can demand that it was enough.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) packets: usize,
    pub(crate) flows: usize,
    pub(crate) with_output: usize,
    pub(crate) with_edits: usize,
    pub(crate) with_checksums: usize,
    /// Other frames of a flow that were compared.
    pub(crate) others: usize,
    pub(crate) reasons: BTreeMap<String, usize>,
}

/// A device and its tracer.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) tracer: FlowTracer,
    role_of: fn(PortId) -> PortRole,
    now: u64,
}

/// Counts of all cells that packets count in.
type Counts = BTreeMap<(u32, Option<u64>, Option<u32>), CounterReading>;

impl Rig {
    pub(crate) fn new(
        device: Device,
        role_of: fn(PortId) -> PortRole,
    ) -> Result<Rig, NotOffloadable> {
        let tracer = FlowTracer::new(device.program(), role_of)?;
        let now = device.now().0;
        Ok(Rig {
            device,
            tracer,
            role_of,
            now,
        })
    }

    /// Returns what the device makes of a frame.
    pub(crate) fn run(&mut self, port: PortId, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.now += 1;
        self.device.receive(port, frame).expect("a short frame");
        self.device.step(Nanos(self.now));
        let mut sent = Vec::new();
        self.device
            .drain_sent(|port, bytes, _| sent.push((port, bytes.to_vec())));
        let role_of = self.role_of;
        sent.retain(|(port, _)| role_of(*port) != PortRole::Nowhere);
        while self.device.take_digest().is_some() {}
        while self.device.take_message().is_some() {}
        sent.sort();
        sent
    }

    fn counts(&self) -> Counts {
        let device = &self.device;
        let program = device.program();
        let mut counts = Counts::new();
        for (id, table) in program.tables.iter() {
            let entries = device.configuration().tables[id]
                .iter()
                .map(|entry| entry.id);
            let entries: Vec<EntryId> = entries.collect();
            for entry in entries
                .into_iter()
                .filter(|_| table.direct_counter.is_some())
            {
                if let Some(reading) = device.read_direct_counter(id, entry) {
                    counts.insert((id.get(), Some(entry.0), None), reading);
                }
            }
        }
        for (id, one) in program.externs.iter() {
            if let ir::ExternKind::Counter { size, .. } = one.kind {
                for index in 0..size.min(64) {
                    let reading = device.read_counter(id, index).unwrap_or_default();
                    counts.insert((id.get(), None, Some(index)), reading);
                }
            }
        }
        counts
    }

    /// Checks that a packet is counted as its flow says.
    fn check_counts(&mut self, flow: &Flow, frame: &[u8]) {
        let before = self.counts();
        let hits: Vec<_> = self.device.table_hits();
        self.run(flow.ingress, frame);
        let mut expected = before;
        let bytes = frame.len() as u64;
        for met in &flow.met.counters {
            let key = match met.cell {
                CounterCell::Index(id, index) => (id.get(), None, Some(index)),
                CounterCell::Direct(table, Some(entry)) => (table.get(), Some(entry.0), None),
                CounterCell::Direct(_, None) => continue,
            };
            if let Some(reading) = expected.get_mut(&key) {
                reading.packets += 1;
                reading.bytes += met.bytes.of(1, bytes);
            }
        }
        let found = self.counts();
        for (key, reading) in &found {
            // A counter of one unit does not count the other.
            let expected = &expected[key];
            let is_packets = reading.packets == expected.packets || reading.packets == 0;
            let is_bytes = reading.bytes == expected.bytes || reading.bytes == 0;
            assert!(is_packets && is_bytes, "{key:?}: {found:?}, {flow:#?}");
        }
        for (before, after) in hits.iter().zip(self.device.table_hits()) {
            let met = flow
                .met
                .lookups
                .iter()
                .filter(|met| met.table == after.table);
            let of_hits = met.clone().filter(|met| met.entry.is_some()).count() as u64;
            assert_eq!(after.hits - before.hits, of_hits, "{flow:#?}");
            let misses = met.count() as u64 - of_hits;
            assert_eq!(after.misses - before.misses, misses, "{flow:#?}");
        }
    }

    /// Traces frames and checks their flows.
    pub(crate) fn check(&mut self, rng: &mut Rng, frames: &[(PortId, Vec<u8>)], tally: &mut Tally) {
        let mut flows: Vec<Flow> = Vec::new();
        for (port, frame) in frames {
            tally.packets += 1;
            let flow = match self.tracer.trace_in(&mut self.device, *port, frame) {
                Ok(flow) => flow,
                Err(NotOffloadable::Disagreement) => panic!("{frame:02x?} at {port}"),
                Err(reason) => {
                    *tally.reasons.entry(reason.to_string()).or_default() += 1;
                    continue;
                }
            };
            tally.flows += 1;
            let has_output = flow
                .steps
                .iter()
                .any(|s| matches!(s, offload::Step::Output(_)));
            tally.with_output += usize::from(has_output);
            let has_edits = flow
                .steps
                .iter()
                .any(|s| matches!(s, offload::Step::Edit(_)));
            tally.with_edits += usize::from(has_edits);
            tally.with_checksums += usize::from(!flow.checksums.is_empty());
            self.check_frame(&flow, frame);
            for _ in 0..4 {
                let other = of_flow(rng, &flow, frame);
                assert!(flow.matches(*port, &other));
                self.check_frame(&flow, &other);
                let again = self.tracer.trace_in(&mut self.device, *port, &other);
                assert_eq!(again.as_ref(), Ok(&flow), "{other:02x?}\n{frame:02x?}");
                tally.others += 1;
            }
            self.check_counts(&flow, frame);
            for other in &flows {
                let is_fine = *other == flow || other.is_disjoint_from(&flow);
                assert!(is_fine, "{other:#?}\n{flow:#?}");
            }
            flows.push(flow);
        }
    }

    fn check_frame(&mut self, flow: &Flow, frame: &[u8]) {
        let mut made = flow.apply(frame);
        made.sort();
        let sent = self.run(flow.ingress, frame);
        assert_eq!(made, sent, "{frame:02x?}\n{flow:#?}");
    }
}

/// Returns a random frame of a flow: its bits that the flow does not fix, and its length, change.
fn of_flow(rng: &mut Rng, flow: &Flow, frame: &[u8]) -> Vec<u8> {
    let mut other = frame.to_vec();
    if rng.one_in(2) {
        let (min, max) = (flow.length.min as usize, flow.length.max as usize);
        let length = rng.between(min as u64, max.min(frame.len() + 40).max(min) as u64);
        other.resize(length as usize, rng.bits() as u8);
    }
    let mut free = vec![0xFF; other.len()];
    for bits in &flow.matched {
        for (at, mask) in bits.mask.iter().enumerate() {
            free[bits.offset as usize + at] &= !mask;
        }
    }
    let few = rng.one_in(2);
    for (byte, free) in other.iter_mut().zip(free) {
        if !few || rng.one_in(8) {
            *byte ^= rng.bits() as u8 & free;
        }
    }
    for test in flow.checksums.iter().filter(|test| test.is_right) {
        write_checksum(&mut other, test);
    }
    // A written checksum may have changed bits that the flow fixes.
    match flow.matches(flow.ingress, &other) {
        true => other,
        false => frame.to_vec(),
    }
}

/// Writes the checksum of a test into a frame, by steps of the flow's own words.
fn write_checksum(frame: &mut Vec<u8>, test: &ChecksumTest) {
    let edit = Edit::Checksum {
        offset: test.offset,
        over: test.over.clone(),
    };
    edit.apply(frame);
}
