//! Programs that forge headers: in a vPDP, in chains and over links.

use std::sync::Arc;

use ir::Program;
use packet::PortId;
use switch::Replica;
use tenancy::{Chain, Connection, TenantSwitch, Worker};

use crate::common::{forward, frame, id, port, program, spec};
use crate::frames::{Random, SHARED};
use crate::{VPDPS, Way, by_any_rules, by_vlans, frames, switch};

/// Compiles a program that interprets the first bytes of packets from its own port as commands. It
/// writes addresses, adds tags and bytes like a description header, truncates, copies and
/// resubmits.
pub(crate) fn forger() -> Arc<Program> {
    let text = r#"
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> what; bit<8> length; bit<16> vlan; bit<48> mac; bit<32> front; }
header front_t { bit<32> word; }
header macs_t { bit<48> destination; bit<48> source; }
header tag_t { bit<16> tpid; bit<16> tci; }
struct headers_t { op_t op; front_t front; macs_t macs; tag_t outer; tag_t inner; }
struct metadata_t { @field_list(1) bit<8> passes; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port, meta.passes) {
            (1, _): own;
            (_, 1): own;
            default: accept;
        }
    }
    state own { packet.extract(hdr.op); packet.extract(hdr.macs); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = standard.ingress_port ^ 1;
        if (hdr.op.isValid()) {
            standard.egress_spec = 0;
            if (hdr.op.what[0:0] == 1) { hdr.macs.source = hdr.op.mac; }
            if (hdr.op.what[1:1] == 1) { hdr.macs.destination = hdr.op.mac; }
            if (hdr.op.what[2:2] == 1) { hdr.outer = { 0x8100, hdr.op.vlan }; }
            if (hdr.op.what[3:3] == 1) { hdr.inner = { 0x88a8, hdr.op.vlan ^ 30 }; }
            if (hdr.op.what[4:4] == 1) { hdr.front = { hdr.op.front }; }
            if (hdr.op.what[5:5] == 1) { standard.mcast_grp = 1; }
            if (hdr.op.what[6:6] == 1) { truncate((bit<32>) hdr.op.length); }
            if (hdr.op.what[7:7] == 1 && meta.passes == 0) {
                meta.passes = 1;
                resubmit_preserving_field_list(1);
            }
            hdr.op.setInvalid();
        }
    }
}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.front);
        packet.emit(hdr.macs);
        packet.emit(hdr.outer);
        packet.emit(hdr.inner);
    }
}

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#;
    testkit::compile_text(text).unwrap()
}

/// Number of frames of each vPDP for the forger.
const FORGED: usize = 60;

/// Returns a packet with random commands for the forger.
fn asking(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let what = random.next() as u8;
    let length = 2 + random.below(100) as u8;
    let vlan = random.of(&[0u16, 10, 20, 30, 4094]) | random.of(&[0, 0x2000]);
    let [a, b, c] = frames::PREFIX;
    let mac = [a, b, c, 0, random.of(&[0x10, 0x20, 0x30]), 1];
    let front = crate::model::description(random.of(&VPDPS), bytes.len());
    let parts = [
        &[what, length][..],
        &vlan.to_be_bytes(),
        &mac,
        &front,
        bytes,
    ];
    parts.concat()
}

fn copy_to_shared_port(hypervisor: &mut TenantSwitch, number: u16) {
    let copy = |instance| Replica {
        port: PortId(0),
        instance,
    };
    let device = hypervisor.device_mut(id(number)).unwrap();
    let group = (0..2).map(copy).collect();
    device
        .apply(switch::Change::SetMulticast(1, group))
        .unwrap();
    device.publish();
}

/// Sends a vPDP's frames, and checks that a receiver assigns all that leave by the shared port to
/// it.
fn check_from(
    worker: &mut Worker,
    way: &Way,
    (sender, by): (u16, u32),
    all: impl IntoIterator<Item = Vec<u8>>,
) -> u64 {
    let mut left = 0;
    for bytes in all {
        for (port, sent) in forward(worker, &mut [frame(by, &bytes)], 1) {
            assert_eq!(port, SHARED);
            let receivers = [way.model.is_from(&sent), way.model.is_from_padded(&sent)];
            assert_eq!(receivers, [Some(sender); 2], "{:?}: {sent:x?}", way.model);
            left += 1;
        }
    }
    left
}

/// Checks that a receiver assigns no forged frame to another vPDP. Returns the number of frames
/// that leave.
pub(crate) fn check_forger(random: &mut Random, way: &Way, forger: &Arc<Program>) -> [u64; 2] {
    let (mut hypervisor, mut worker) = switch(&way.model, way.how, forger);
    let mut left = 0;
    for number in VPDPS {
        copy_to_shared_port(&mut hypervisor, number);
        let all: Vec<Vec<u8>> = (0..FORGED)
            .map(|_| {
                let bytes = frames::frame(random);
                asking(random, &bytes)
            })
            .collect();
        left += check_from(&mut worker, way, (number, u32::from(number) * 10), all);
    }
    hypervisor.check_conservation().unwrap();
    [left, 0]
}

/// Returns both sharing modes by rules.
fn ways(random: &mut Random) -> [Way; 2] {
    [by_vlans(random), by_any_rules(random)]
}

#[test]
fn what_comes_over_a_link_leaves_as_the_vpdps_whose_port_it_leaves_by() {
    let mut random = Random::new(11);
    let wire = crate::wire();
    let onward = program(
        "apply {
             standard.egress_spec = 0;
             if (standard.ingress_port == 1) { standard.egress_spec = 2; }
         }",
    );
    let mut left = 0;
    for _ in 0..crate::count().div_ceil(crate::BURST) {
        for way in ways(&mut random) {
            let (mut hypervisor, mut worker) = switch(&way.model, way.how, &wire);
            // vPDP 4 has no shared port: it sends everything to vPDP 2.
            let mut first = spec(4, &[41, 40]);
            first.ports.push(Connection::Open);
            hypervisor.create(first).unwrap();
            hypervisor.load(id(4), Arc::clone(&onward)).unwrap();
            hypervisor.connect(port(2, 1), None).unwrap();
            hypervisor.link(port(4, 2), port(2, 1)).unwrap();
            let all = (0..FORGED).map(|_| frames::frame(&mut random));
            let all: Vec<Vec<u8>> = all.collect();
            let expected = all.iter().filter_map(|bytes| way.model.goes_out(2, bytes));
            let expected = expected.count() as u64;
            let sent = check_from(&mut worker, &way, (2, 40), all);
            assert_eq!(sent, expected);
            left += sent;
            hypervisor.check_conservation().unwrap();
        }
    }
    assert!(left > 0);
}

#[test]
fn what_goes_through_a_chain_leaves_as_its_vpdps() {
    let mut random = Random::new(12);
    // The first two bytes are part of an address.
    let step = |mark: &str| {
        program(&format!(
            "apply {{ {mark} standard.egress_spec = standard.ingress_port ^ 1; }}"
        ))
    };
    let programs = [
        ("one", step("")),
        ("two", step("hdr.h.mark = hdr.h.mark ^ 2;")),
    ];
    let programs = programs.map(|(name, program)| (name.to_owned(), program));
    let chain = Chain::read("one -> two", programs);
    let wire = crate::wire();
    let mut left = 0;
    for _ in 0..crate::count().div_ceil(crate::BURST) {
        for way in ways(&mut random) {
            let (mut hypervisor, mut worker) = switch(&way.model, way.how, &wire);
            let anything = switch::MigrationMode::State(switch::MayLose::Anything);
            let chain = chain.as_ref().unwrap().clone();
            hypervisor.update(id(1), chain, anything).unwrap();
            let all = (0..FORGED).map(|_| frames::frame(&mut random));
            left += check_from(&mut worker, &way, (1, 10), all.collect::<Vec<_>>());
            hypervisor.check_conservation().unwrap();
        }
    }
    assert!(left > 0);
}
