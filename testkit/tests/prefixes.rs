//! Tests of LPM tables, from no prefix to some thousands of nested ones. Results must not depend on
//! the engine, or on whether packets of other devices share the burst. Native code looks prefixes
//! up inline if few packets arrive, and in batches if many do.

use std::sync::Arc;

use bits::Value;
use ir::{ActionCall, KeyMatch, TableId};
use packet::{Frame, Nanos, PortId};
use switch::{
    Action, Change, Contexts, Device, DeviceConfig, SegmentRun, TableEntry, Worker, WorkerSet,
    forward_shared_burst,
};
use table::EntryId;

/// Key widths in bits, below, at and above one limb.
const WIDTHS: [u32; 8] = [1, 6, 31, 32, 48, 63, 64, 65];

/// Number of prefixes added before packets are sent. In the last step half of them are removed.
const ADDED: [usize; 6] = [0, 1, 3, 60, 400, 2500];

/// Number of packets after each step.
const PACKETS: usize = 300;

/// Pseudo-random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }

    /// Returns a key that shares its prefix with many others.
    fn key(&mut self, width: u32) -> u128 {
        let bits = (0..16).fold(0, |bits, byte| {
            let byte = match byte {
                0 | 4.. => [0, 0x80, 0xff][self.below(3)],
                _ => self.below(256),
            };
            bits << 8 | byte as u128
        });
        bits >> (128 - width)
    }
}

fn program(width: u32) -> String {
    let pad = 8 - width % 8;
    format!(
        "#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<{width}> key; bit<{pad}> pad; bit<32> found; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
 state start {{ packet.extract(hdr.h); transition accept; }}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
 action found(bit<32> number) {{ hdr.h.found = number; }}
 table prefixes {{ key = {{ hdr.h.key : lpm; }} actions = {{ found; NoAction; }} size = 8192; }}
 apply {{ sm.egress_spec = 1; prefixes.apply(); }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ }} }}
control U(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"
    )
}

fn packet(key: u128, width: u32) -> Frame {
    let pad = 8 - width % 8;
    let bytes = (width + pad) / 8;
    let key = (key << pad).to_be_bytes();
    let bytes = [&key[16 - bytes as usize..], &[0; 20]].concat();
    Frame::from_bytes(&bytes).expect("it is short")
}

fn prefix(key: u128, len: u32, width: u32, number: usize) -> Change {
    let open = width - len;
    let value = Value::truncated(key >> open << open, width);
    let args = vec![Value::truncated(number as u128, 32)];
    let entry = TableEntry {
        keys: vec![KeyMatch::Lpm(value, len)],
        priority: None,
        action: Action::Call(ActionCall { action: 0, args }),
        idle_timeout: None,
        meter: None,
        counter: None,
    };
    Change::Insert(TableId::new(0), entry)
}

/// Returns the packets that a device sends, with `at_once` packets per burst.
fn leaving(
    device: &mut Device,
    keys: &[u128],
    width: u32,
    at_once: usize,
) -> Vec<(PortId, Vec<u8>)> {
    let mut left = Vec::new();
    for keys in keys.chunks(at_once) {
        let mut frames: Vec<Frame> = keys.iter().map(|&key| packet(key, width)).collect();
        device.forward(&mut frames, Nanos(1), |port, frame, _| {
            left.push((port, frame.bytes().to_vec()));
        });
    }
    left
}

/// Makes a change on all devices, and checks that all return the same.
fn change(devices: &mut [Device], change: &Change) -> Option<EntryId> {
    let said = devices
        .iter_mut()
        .map(|device| device.apply(change.clone()));
    let said: Vec<_> = said.map(|said| said.ok().flatten()).collect();
    assert!(said.windows(2).all(|two| two[0] == two[1]), "{change:?}");
    said[0]
}

fn check(width: u32) {
    let program = testkit::compile_text(&program(width)).expect("the program is right");
    let devices = testkit::engines().into_iter().map(|engine| {
        Device::new(Arc::clone(&program), &*engine, &DeviceConfig::default())
            .expect("each engine runs it")
    });
    let mut devices: Vec<Device> = devices.collect();
    let random = &mut Random(u64::from(width));
    let (mut ids, mut keys) = (Vec::new(), Vec::new());
    for (step, added) in ADDED.into_iter().enumerate() {
        for number in 0..added {
            let (key, len) = (random.key(width), random.below(width as usize + 1) as u32);
            let here = change(&mut devices, &prefix(key, len, width, step << 16 | number));
            ids.extend(here);
            keys.push(key);
        }
        if step + 1 == ADDED.len() {
            for id in ids.drain(..).step_by(2) {
                change(&mut devices, &Change::Delete(TableId::new(0), id));
            }
        }
        devices.iter_mut().for_each(Device::publish);
        let asked = (0..PACKETS).map(|_| match random.below(keys.len() + 1) {
            at if at < keys.len() => keys[at] ^ (random.below(4) / 3) as u128,
            _ => random.key(width),
        });
        let asked: Vec<u128> = asked.collect();
        let meant = leaving(&mut devices[0], &asked, width, 1);
        assert_eq!(meant.len(), PACKETS);
        for device in &mut devices[1..] {
            for at_once in [1, 3, 64] {
                let left = leaving(device, &asked, width, at_once);
                assert_eq!(left, meant, "{width} bits, step {step}, {at_once} at once");
            }
        }
    }
}

#[test]
fn prefixes_are_found_alike_by_all_engines_and_however_many_packets_come_at_once() {
    WIDTHS.into_iter().for_each(check);
}

/// The workers of devices, by index.
struct Crew(Vec<Worker>);

impl WorkerSet for Crew {
    type Number = usize;

    fn worker(&self, at: usize) -> Option<&Worker> {
        self.0.get(at)
    }

    fn worker_mut(&mut self, at: usize) -> Option<&mut Worker> {
        self.0.get_mut(at)
    }

    fn passes(&self, _: usize) -> u32 {
        1
    }
}

/// Number of devices that run one program and have different prefixes.
const DEVICES: usize = 3;

/// Numbers of packets in a shared burst: too few for prefetching, and more.
const TOGETHER: [usize; 4] = [2, 3, 5, 60];

/// Number of shared bursts.
const BURSTS: usize = 300;

fn check_together(width: u32) {
    let program = testkit::compile_text(&program(width)).expect("the program is right");
    let engines = testkit::engines();
    let jit = engines.iter().find(|engine| engine.name() == "jit");
    let engine = &**jit.expect("it is one of the engines");
    let random = &mut Random(u64::from(width));
    let mut meant = Vec::new();
    let mut devices = Vec::new();
    let mut keys = Vec::new();
    for number in 0..DEVICES {
        let [interpreted, compiled] = [&*engines[0], engine].map(|engine| {
            Device::new(Arc::clone(&program), engine, &DeviceConfig::default())
                .expect("each engine runs it")
        });
        let mut both = [interpreted, compiled];
        for at in 0..200 {
            let (key, len) = (random.key(width), random.below(width as usize + 1) as u32);
            change(&mut both, &prefix(key, len, width, number << 16 | at));
            keys.push(key);
        }
        both.iter_mut().for_each(Device::publish);
        let [interpreted, compiled] = both;
        meant.push(interpreted);
        devices.push(compiled);
    }
    let workers = devices
        .iter_mut()
        .filter_map(|device| device.workers(1).pop());
    let mut crew = Crew(workers.collect());
    let mut contexts = Contexts::default();
    for count in TOGETHER.into_iter().cycle().take(BURSTS) {
        let asked = (0..count).map(|_| keys[random.below(keys.len())]);
        let asked: Vec<u128> = asked.collect();
        let runs = (0..count).map(|at| SegmentRun {
            whose: at % DEVICES,
            frames: 1,
        });
        let runs: Vec<SegmentRun<usize>> = runs.collect();
        assert!(crew.0.iter_mut().all(|worker| worker.may_join(Nanos(1))));
        let mut frames: Vec<Frame> = asked.iter().map(|&key| packet(key, width)).collect();
        let order: Vec<u32> = (0..count as u32).collect();
        let mut left = Vec::new();
        let through = forward_shared_burst(
            &mut crew,
            &runs,
            &mut contexts,
            (&mut frames, &order),
            Nanos(1),
            |whose| whose,
            |whose, port, frame, _| left.push((whose, port, frame.bytes().to_vec())),
        );
        assert_eq!(through.frames, count);
        let expected = asked.iter().zip(&runs).flat_map(|(&key, run)| {
            let left = leaving(&mut meant[run.whose], &[key], width, 1);
            left.into_iter()
                .map(|(port, bytes)| (run.whose, port, bytes))
        });
        let expected: Vec<_> = expected.collect();
        assert_eq!(left, expected, "{width} bits, {count} together");
    }
}

#[test]
fn each_device_has_its_own_prefixes_where_packets_of_several_come_together() {
    [6, 32, 64].into_iter().for_each(check_together);
}
