//! Tests of several workers on one device, on every engine: operations that programs declare atomic
//! are atomic.

use std::sync::Arc;
use std::thread;

use exec::Engine;
use ir::ExternId;
use packet::{Frame, Nanos};
use switch::{Device, DeviceConfig, Worker};

const WORKERS: usize = 2;
const BURSTS: u64 = 1500;
const BURST: usize = 16;

/// Counts packets in a register of 96 bits with two equal halves. A table's action runs between the
/// read and the write, and `@atomic` makes them one step.
const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> mixed; }
struct headers_t { h_t h; }
struct metadata_t { bit<96> count; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<96>>(1) counts;
    action add() { meta.count = meta.count + ((96w1 << 48) | 96w1); }
    table t {
        key = { hdr.h.kind : exact; }
        actions = { add; }
        const default_action = add();
    }
    apply {
        standard.egress_spec = 1;
        bit<96> seen;
        counts.read(seen, 0);
        if (seen[95:48] != seen[47:0]) { hdr.h.mixed = 1; }
        @atomic {
            counts.read(meta.count, 0);
            t.apply();
            counts.write(0, meta.count);
        }
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;

fn frames() -> Vec<Frame> {
    let frame = |_| Frame::from_bytes(&[0; 20]).unwrap();
    (0..BURST).map(frame).collect()
}

/// Forwards bursts. Returns the number of packets that saw halves of two different writes.
fn carry(mut worker: Worker) -> u64 {
    let mut mixed = 0;
    for burst in 0..BURSTS {
        worker.forward(&mut frames(), Nanos(burst), |_, frame, _| {
            mixed += u64::from(frame.bytes()[1]);
        });
    }
    mixed
}

fn check(engine: &dyn Engine) {
    let program = testkit::compile_text(PROGRAM).unwrap();
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let threads: Vec<_> = device
        .workers(WORKERS)
        .into_iter()
        .map(|worker| thread::spawn(move || carry(worker)))
        .collect();
    let mixed: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    device.check_conservation().unwrap();
    let name = engine.name();
    assert_eq!(mixed, 0, "{name}: a register was read half written");
    let packets = BURSTS * (BURST * WORKERS) as u64;
    let counted = device.read_register(ExternId::new(0), 0).unwrap();
    let expected = bits::Value::from_limbs(&[packets << 48 | packets, packets >> 16], 96);
    assert_eq!(counted, [expected], "{name}: packets' steps were mixed");
    let [hits] = &device.table_hits()[..] else {
        panic!("one table");
    };
    assert_eq!((hits.hits, hits.misses), (0, packets), "{name}");
    assert_eq!(device.ledger().sent, packets, "{name}");
}

#[test]
fn atomic_code_with_tables_is_one_step_and_wide_registers_are_read_whole() {
    for engine in testkit::engines() {
        check(Arc::as_ref(&engine));
    }
}
