//! Tests of bursts on every engine: intrinsic metadata of each packet must be set before tables are
//! looked up.

use std::sync::Arc;

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use switch::{Device, DeviceConfig};

/// Packets from the host are sent to port 1, those from the network to port 2.
const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>

header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply {} }
control C(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
          inout pna_main_output_metadata_t ostd) {
    action to(PortId_t port) { send_to_port(port); }
    table ways {
        key = { istd.direction : exact; }
        actions = { to; }
        default_action = to((PortId_t)3);
        const entries = {
            PNA_Direction_t.HOST_TO_NET : to((PortId_t)1);
            PNA_Direction_t.NET_TO_HOST : to((PortId_t)2);
        }
    }
    apply { ways.apply(); }
}
control D(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr); }
}

PNA_NIC(P(), Pre(), C(), D()) main;
"#;

const HOST: u32 = 5;

fn check(engine: &dyn Engine) {
    let program = testkit::compile_text(PROGRAM).unwrap();
    let config = DeviceConfig {
        host_ports: vec![HOST],
        ..DeviceConfig::default()
    };
    let mut device = Device::new(program, engine, &config).unwrap();
    let frame = |number: u32| {
        let mut frame = Frame::from_bytes(&[0; 20]).unwrap();
        frame.ingress = PortId(if number.is_multiple_of(3) { HOST } else { 0 });
        frame
    };
    let mut frames: Vec<Frame> = (0..64).map(frame).collect();
    let mut left = Vec::new();
    device.forward(&mut frames, Nanos(1), |port, _, _| left.push(port.0));
    let expected = (0..64u32).map(|number| if number.is_multiple_of(3) { 1 } else { 2 });
    assert_eq!(left, expected.collect::<Vec<_>>(), "{}", engine.name());
}

#[test]
fn a_table_asks_by_the_direction_that_each_packet_of_a_burst_has() {
    for engine in testkit::engines() {
        check(Arc::as_ref(&engine));
    }
}

/// Tables with keys that depend on results of earlier tables, on parser states after a `verify`,
/// and on registers that earlier packets have written. Each table that is hit writes its number
/// into the packet.
const CHAIN: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> trail; bit<8> last; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> late; }

error { Odd }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.kind != 7, error.Odd);
        meta.late = hdr.h.b;
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<8>>(2) seen;
    bit<8> key = 0;
    bit<8> again = 0;

    action leave(bit<8> number) {
        hdr.h.trail = hdr.h.trail ^ number;
        hdr.h.last = number;
    }
    action choose(bit<8> value) { key = value; }
    action choose_odd(bit<8> value) {
        if (hdr.h.b[0:0] == 1) { key = value; } else { key = value + 1; }
    }
    action stop() {
        leave(0x80);
        standard_metadata.egress_spec = 9;
        exit;
    }
    action follow(bit<8> value, bit<8> number) {
        again = value;
        leave(number);
    }
    table first {
        key = { hdr.h.a : exact; }
        actions = { choose; choose_odd; stop; NoAction; }
        default_action = NoAction();
        const entries = { 1 : choose(1); 2 : choose(2); 3 : choose_odd(1); 4 : stop(); 5 : choose(9); }
    }
    table another {
        key = { hdr.h.a : exact; }
        actions = { choose; choose_odd; stop; NoAction; }
        default_action = NoAction();
        const entries = { 1 : choose(3); 3 : choose_odd(2); 5 : stop(); }
    }
    table second {
        key = { key : exact; hdr.h.b : ternary; }
        actions = { follow; NoAction; }
        default_action = NoAction();
        const entries = { (1, 0 &&& 1) : follow(1, 1); (1, _) : follow(2, 2); (2, _) : follow(3, 4); (7, _) : follow(2, 8); }
    }
    table third {
        key = { again : exact; }
        actions = { leave; NoAction; }
        default_action = leave(0x40);
        const entries = { 1 : leave(16); 2 : leave(32); }
    }
    table late {
        key = { meta.late : exact; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        const entries = { 0 : leave(3); 1 : leave(5); 2 : leave(6); 3 : leave(7); }
    }
    table odd {
        key = { hdr.h.last : exact; }
        actions = { leave; NoAction; }
        default_action = leave(0x21);
        const entries = { 3 : leave(0x22); 5 : leave(0x23); 16 : leave(0x24); }
    }
    table fourth {
        key = { again : exact; key : exact; }
        actions = { leave; NoAction; }
        default_action = leave(0x41);
        const entries = { (1, 2) : leave(17); (2, 3) : leave(33); }
    }
    table fifth {
        key = { hdr.h.last : exact; }
        actions = { leave; NoAction; }
        default_action = leave(0x51);
        const entries = { 4 : leave(0x52); 6 : leave(0x53); 17 : leave(0x54); }
    }
    apply {
        standard_metadata.egress_spec = 1;
        late.apply();
        first.apply();
        if (hdr.h.kind == 2) { seen.read(key, 0); }
        seen.write(0, hdr.h.a + 5);
        if (second.apply().hit) {
            if (hdr.h.b == 3 && again == 2) { exit; }
            third.apply();
        } else if (key == 9) {
            odd.apply();
        }
        switch (another.apply().action_run) {
            choose: { standard_metadata.egress_spec = 2; }
            choose_odd: { fourth.apply(); }
            default: { hdr.h.last = hdr.h.last + 1; fifth.apply(); }
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

/// Returns packets of all kinds, in an order that puts different ones side by side.
fn chain_frames() -> Vec<Frame> {
    let kinds = [0u8, 2, 7, 1];
    let frame = |number: u32| {
        let (kind, a, b) = (
            kinds[number as usize % 4],
            (number / 3 % 7) as u8,
            (number / 5 % 5) as u8,
        );
        Frame::from_bytes(&[kind, a, b, 0, 0, number as u8]).unwrap()
    };
    (0..320).map(frame).collect()
}

/// Returns the packets sent if frames arrive in bursts of this length.
fn leaves(
    engine: &dyn Engine,
    program: &str,
    mut frames: Vec<Frame>,
    burst: usize,
) -> Vec<(u32, Vec<u8>)> {
    let program = testkit::compile_text(program).unwrap();
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let mut left = Vec::new();
    for frames in frames.chunks_mut(burst) {
        device.forward(frames, Nanos(1), |port, frame, _| {
            left.push((port.0, frame.bytes().to_vec()));
        });
    }
    left
}

/// Checks that the length of bursts changes nothing on any engine.
fn check_bursts(program: &str, frames: impl Fn() -> Vec<Frame>) {
    let engines = testkit::engines();
    let expected = leaves(engines[0].as_ref(), program, frames(), 1);
    assert!(!expected.is_empty());
    for engine in &engines {
        for burst in [1, 5, 64, 320] {
            let left = leaves(engine.as_ref(), program, frames(), burst);
            assert_eq!(left, expected, "{} {burst}", engine.name());
        }
    }
}

#[test]
fn keys_that_answers_write_are_those_of_one_packet_after_the_other() {
    check_bursts(CHAIN, chain_frames);
}

/// Consecutive tables with small keys. Some keys are too sparse for an index by slots. A table
/// between them, `ends`, is prefetched for a whole burst.
const SCATTERED: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<16> a; bit<32> b; bit<16> trail; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> key = 0;
    bit<16> way = 0;

    action choose(bit<16> value) { key = value; }
    action refuse() {
        hdr.h.trail = 0xdead;
        standard_metadata.egress_spec = 9;
        exit;
    }
    action lead(bit<16> value) {
        way = way + value;
        hdr.h.trail = hdr.h.trail ^ key;
    }
    table first {
        key = { hdr.h.a : exact; }
        actions = { choose; refuse; NoAction; }
        default_action = NoAction();
        const entries = { 0 : choose(0x8000); 1 : choose(3); 0xfff2 : choose(0x8001); 0xfff3 : refuse(); }
    }
    table second {
        key = { key : exact; }
        actions = { choose; refuse; }
        default_action = choose(7);
        const entries = { 0x8000 : choose(0xa000); 3 : choose(4); 0x8001 : refuse(); }
    }
    table third {
        key = { key : exact; }
        actions = { lead; NoAction; }
        default_action = NoAction();
        const entries = { 0xa000 : lead(0xb000); 4 : lead(5); 7 : lead(6); }
    }
    table never {
        key = { key : exact; }
        actions = { lead; NoAction; }
        default_action = NoAction();
    }
    table ends {
        key = { way : exact; hdr.h.b : exact; }
        actions = { lead; NoAction; }
        default_action = NoAction();
        const entries = { (0xb000, 0x12345678) : lead(1); (5, 0x12345678) : lead(2); (6, 0x9abcdef0) : lead(0xff00); }
    }
    table last {
        key = { way : exact; key : exact; }
        actions = { choose; NoAction; }
        default_action = NoAction();
        const entries = { (0xb001, 0xa000) : choose(1); (7, 4) : choose(2); (0xff06, 7) : choose(3); (6, 7) : choose(4); }
    }
    apply {
        standard_metadata.egress_spec = 1;
        first.apply();
        if (hdr.h.b != 5) { second.apply(); }
        if (third.apply().hit) { never.apply(); }
        ends.apply();
        switch (last.apply().action_run) {
            choose: { hdr.h.a = key; }
            default: { standard_metadata.egress_spec = 2; }
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

#[test]
fn answers_that_scouts_find_by_themselves_are_those_of_one_packet_after_the_other() {
    let words = [0x1234_5678u32, 5, 0x9abc_def0];
    let frame = |number: u32| {
        let a = [0u16, 1, 0xfff2, 2, 0xfff3][number as usize % 5];
        let b = words[(number / 2) as usize % 3];
        let bytes = [&a.to_be_bytes()[..], &b.to_be_bytes(), &[0, 0]].concat();
        Frame::from_bytes(&bytes).unwrap()
    };
    check_bursts(SCATTERED, || (0..320).map(frame).collect());
}

/// Headers that helper functions extract, and that prefetch passes skip. The first has a varbit
/// with a size that may be no multiple of a byte, or exceed the varbit or the packet. The second is
/// wide, and the transition depends on its first field. The third is extracted repeatedly. Table
/// keys are fields before and after these headers.
const PASSED_BY: &str = r#"
#include <core.p4>
#include <v1model.p4>

header front_t { bit<8> kind; bit<8> size; bit<8> a; }
header options_t { varbit<64> data; }
header wide_t { bit<8> next; bit<640> rest; }
header again_t { bit<8> next; varbit<32> data; }
header behind_t { bit<8> b; bit<8> c; bit<16> trail; bit<16> sum; }
struct headers_t { front_t front; options_t options; wide_t wide; again_t again; behind_t behind; }
struct metadata_t { bit<8> early; bit<8> late; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.front);
        meta.early = hdr.front.a;
        transition select(hdr.front.kind) { 0: behind; 1: wide; 2: options; 3: again; default: accept; }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)hdr.front.size * 4);
        meta.late = hdr.front.a + 1;
        transition select(hdr.front.a) { 5: accept; default: behind; }
    }
    state wide {
        packet.extract(hdr.wide);
        transition select(hdr.wide.next) { 0: accept; default: behind; }
    }
    state again {
        packet.extract(hdr.again, 8 + (bit<32>)(hdr.again.next) * 8);
        meta.early = meta.early + 1;
        transition select(hdr.again.next) { 2: again; 3: again; 4: accept; default: behind; }
    }
    state behind {
        packet.extract(hdr.behind);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<8> way = 0;

    action leave(bit<16> number) { hdr.behind.trail = hdr.behind.trail ^ number; }
    action lead(bit<8> value, bit<16> number) {
        way = value;
        hdr.behind.trail = hdr.behind.trail ^ number;
    }
    action without_options(bit<16> number) {
        hdr.options.setInvalid();
        leave(number);
    }
    table before {
        key = { hdr.front.a : exact; }
        actions = { leave; without_options; }
        default_action = leave(1);
        const entries = { 0 : leave(2); 1 : leave(4); 2 : without_options(8); }
    }
    table early {
        key = { meta.early : exact; hdr.front.kind : ternary; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        const entries = { (1, 2) : leave(0x10); (3, 0 &&& 1) : leave(0x20); (4, _) : leave(0x30); }
    }
    table behind {
        key = { hdr.behind.b : lpm; }
        actions = { lead; leave; }
        default_action = leave(0x40);
        const entries = { 0 &&& 0xfe : lead(1, 0x80); 2 &&& 0xff : lead(2, 0x100); 4 &&& 0xfc : lead(3, 0x180); }
    }
    table late {
        key = { meta.late : exact; }
        actions = { leave; NoAction; }
        default_action = leave(0x200);
        const entries = { 0 : leave(0x400); 1 : leave(0x600); 3 : leave(0x800); }
    }
    table last {
        key = { way : exact; hdr.behind.c : exact; hdr.front.a : exact; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        const entries = { (1, 1, 1) : leave(0x1000); (2, 2, 2) : leave(0x2000); (0, 0, 0) : leave(0x4000); (3, 0, 3) : leave(0x8000); }
    }
    apply {
        standard_metadata.egress_spec = 1;
        before.apply();
        early.apply();
        if (behind.apply().hit) { last.apply(); }
        late.apply();
        if (standard_metadata.parser_error != error.NoError) { standard_metadata.egress_spec = 2; }
        if (hdr.front.a == 6) { hdr.front.setInvalid(); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.behind.isValid() && !hdr.options.isValid(), { hdr.behind.b, hdr.behind.c, hdr.behind.trail }, hdr.behind.sum, HashAlgorithm.csum16);
        update_checksum(hdr.behind.isValid() && hdr.options.isValid(), { hdr.behind.b, hdr.behind.c, hdr.behind.trail, hdr.options.data }, hdr.behind.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

#[test]
fn headers_that_scouts_go_past_change_nothing_for_what_stands_behind_them() {
    let frame = |number: u32| {
        let [kind, size, a, b] =
            [(1, 5), (5, 19), (95, 7), (7, 6)].map(|(per, of)| (number / per % of) as u8);
        // Some sizes are a multiple of four bits, and one is beyond every packet.
        let size = if size == 18 { 255 } else { size };
        let length = 12 + number as usize % 97;
        let mut bytes: Vec<u8> = (0..length).map(|at| (at as u8 ^ b) % 5).collect();
        bytes[..3].copy_from_slice(&[kind, size, a]);
        Frame::from_bytes(&bytes).unwrap()
    };
    check_bursts(PASSED_BY, || (0..2660).map(frame).collect());
}

/// An action with a parameter of more limbs than native code holds in registers.
const WIDE: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<640> wide; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action put(bit<640> value) { hdr.h.wide = value; }
    table wides {
        key = { hdr.h.kind : exact; }
        actions = { put; NoAction; }
        default_action = NoAction();
        const entries = { 1 : put(1 << 600 | 0xabcd); 2 : put(2); }
    }
    apply { wides.apply(); standard_metadata.egress_spec = 1; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply {} }
control U(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
"#;

#[test]
fn parameters_of_many_limbs_reach_the_packets_of_a_burst() {
    let frame = |number: u8| {
        let mut bytes = [7; 81];
        bytes[0] = number % 3;
        Frame::from_bytes(&bytes).unwrap()
    };
    check_bursts(WIDE, || (0..64).map(frame).collect());
}

/// A table with a constant key that is too large for an index by slots.
#[test]
fn a_key_that_never_changes_is_looked_up_where_there_is_an_index() {
    let key = "key = { istd.direction : exact; }";
    let constant = "key = { 32w0x12345678 : exact @name(\"word\"); }";
    let entries = "PNA_Direction_t.HOST_TO_NET : to((PortId_t)1);";
    let program = PROGRAM
        .replace(key, constant)
        .replace(entries, "0x12345678 : to((PortId_t)1);")
        .replace("PNA_Direction_t.NET_TO_HOST", "0x9abcdef0");
    let program = testkit::compile_text(&program).unwrap();
    for engine in testkit::engines() {
        let config = DeviceConfig::default();
        let mut device = Device::new(Arc::clone(&program), engine.as_ref(), &config).unwrap();
        let frame = |_| Frame::from_bytes(&[0; 20]).unwrap();
        let mut frames: Vec<Frame> = (0..64).map(frame).collect();
        let mut left = Vec::new();
        device.forward(&mut frames, Nanos(1), |port, _, _| left.push(port.0));
        assert_eq!(left, [1; 64], "{}", engine.name());
    }
}

/// A new header is emitted in front of the packet, before the parsed one.
const IN_FRONT: &str = r#"
#include <core.p4>
#include <v1model.p4>

header h_t { bit<64> a; bit<64> b; }
header parsed_t { bit<16> kind; }
struct headers_t { h_t h; parsed_t parsed; }
struct metadata_t { bit<32> length; bit<9> port; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start { packet.extract(hdr.parsed); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.h.setValid();
        hdr.h.a = (bit<64>)standard_metadata.packet_length;
        hdr.h.b = (bit<64>)standard_metadata.ingress_port;
        standard_metadata.egress_spec = 1;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) { apply {} }
control C(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); packet.emit(hdr.parsed); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Forwards frames of these lengths, each from a different port, in bursts of `burst` frames. This
/// is done twice, so that the second time frames have been used before.
fn check_in_front(engine: &dyn Engine, lens: &[usize], burst: usize) {
    let program = testkit::compile_text(IN_FRONT).unwrap();
    let mut device = Device::new(program, engine, &DeviceConfig::default()).unwrap();
    let mut frames: Vec<Frame> = lens.iter().map(|_| Frame::new()).collect();
    for _ in 0..2 {
        let mut expected = Vec::new();
        for (number, (frame, &len)) in frames.iter_mut().zip(lens).enumerate() {
            let bytes: Vec<u8> = (0..len).map(|at| (at + number) as u8).collect();
            frame.assign(&bytes).unwrap();
            frame.ingress = PortId(number as u32);
            let header = [len as u64, number as u64].map(u64::to_be_bytes).concat();
            expected.push([header, bytes].concat());
        }
        let mut left = Vec::new();
        for frames in frames.chunks_mut(burst) {
            device.forward(frames, Nanos(1), |_, frame, _| {
                left.push(frame.bytes().to_vec())
            });
        }
        assert_eq!(left, expected, "{} {burst}", engine.name());
    }
}

#[test]
fn headers_come_in_front_of_frames_of_any_length() {
    let lens = [0, 1, 2, 3, 0, 60, 1500, 0, 17, 2048, 4, 0];
    for engine in testkit::engines() {
        for burst in [1, 3, lens.len()] {
            check_in_front(Arc::as_ref(&engine), &lens, burst);
        }
    }
}
