//! Hostile neighbours with packets that are large, many or long to parse.

use std::sync::Arc;

use exec::{DropReason, WorkBudget};
use packet::Frame;
use tenancy::{Quotas, TenantSwitch};

use crate::common;
use crate::common::{frame, id, marker, program, spec};
use crate::harness::*;

#[test]
fn the_largest_packets_at_full_rate_leave_the_victim_its_share() {
    let mut test = HostileTest::new(marker(2));
    check(&test.run(54, packet::MAX_FRAME, |_, _| {}));
    assert!(test.dropped(2, DropReason::FairShare) > 0);
}

#[test]
fn hammered_registers_leave_the_victim_its_own() {
    let hammer = program(
        "register<bit<32>>(64) r;
         apply {
             bit<32> v;
             r.read(v, 0); r.write(0, v + 1);
             r.read(v, 1); r.write(1, v + 1);
             r.read(v, 2); r.write(2, v + 1);
             standard.egress_spec = 1;
         }",
    );
    let mut test = HostileTest::new(hammer);
    let outcome = test.run(54, 60, |_, _| {});
    check(&outcome);
    let device = test.hypervisor.vpdp(id(1)).unwrap().device().unwrap();
    let seen = device.read_register(ir::ExternId::new(0), 0).unwrap();
    assert_eq!(seen[0].to_u64(), Some(outcome.victim));
}

/// Compiles a program with these parser states.
fn parsing(states: &str) -> Arc<ir::Program> {
    let text = format!(
        r#"
#include <core.p4>
#include <v1model.p4>

header h_t {{ bit<8> mark; }}
struct headers_t {{ h_t[256] h; }}
struct metadata_t {{}}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ {states} }}
control Verify(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{ standard.egress_spec = 1; }} }}
control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {{ apply {{}} }}
control Compute(inout headers_t hdr, inout metadata_t meta) {{ apply {{}} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
"#
    );
    testkit::compile_text(&text).unwrap()
}

#[test]
fn packets_that_are_long_to_parse_leave_the_victim_its_own() {
    let stack = parsing(
        "state start {
             packet.extract(hdr.h.next);
             transition select(hdr.h.last.mark) { 0: start; default: accept; }
         }",
    );
    let mut test = HostileTest::metered(stack);
    let outcome = test.run(20, 250, |_, _| {});
    check(&outcome);
    assert!(test.dropped(2, DropReason::FairShare) > 0);
    // Each packet took its 250 states.
    let vpdp = test.hypervisor.vpdp(id(2)).unwrap();
    let sent = vpdp.device().unwrap().ledger().sent;
    let hog = outcome.cycles - outcome.victim * 1000;
    assert!(sent > 0 && hog > sent * 250 * ir::work::STEPS_PER_UNIT);
}

/// Parses the first byte for ever.
fn endless_parser() -> Arc<ir::Program> {
    parsing(
        "state start { transition select(packet.lookahead<bit<8>>()) { 0: start; default: accept; } }",
    )
}

/// Returns quotas with this work budget per packet.
fn work(budget: WorkBudget) -> Quotas {
    let mut quotas = Quotas::default();
    quotas.limits.work = Some(budget);
    quotas
}

#[test]
fn a_parser_without_end_leaves_the_victim_its_own_where_packets_may_do_little() {
    for packets in [1, 20] {
        let mut test = HostileTest::metered(endless_parser());
        let quotas = work(WorkBudget::MIN);
        test.hypervisor.set_quotas(id(2), quotas).unwrap();
        check(&test.run(packets, 60, |_, _| {}));
        assert!(test.dropped(2, DropReason::WorkBudget) > 0);
    }
}

#[test]
fn a_parser_without_end_takes_what_packets_of_vpdps_may_do_and_no_more() {
    let mut test = HostileTest::metered(endless_parser());
    let outcome = test.run(20, 60, |_, _| {});
    check_share(&outcome);
    assert!(test.dropped(2, DropReason::FairShare) > 0);
    let (hog, packets) = (
        outcome.cycles - outcome.victim * 1000,
        test.dropped(2, DropReason::WorkBudget),
    );
    let most = u64::from(tenancy::WORK_OF_A_PACKET.units()) * ir::work::STEPS_PER_UNIT;
    assert!(hog <= packets * (most + 1000), "{hog} for {packets}");
    assert!(hog > packets * most / 2, "{hog} for {packets}");
}

#[test]
fn a_packet_has_the_work_that_its_quota_says_on_every_engine() {
    let skipping = parsing(
        "state start { packet.advance(8); transition select(packet.lookahead<bit<8>>()) { 0: start; default: accept; } }",
    );
    // One parser state per byte.
    let mut bytes = [0; 600];
    bytes[599] = 1;
    for engine in testkit::engines() {
        let name = engine.name();
        let mut hypervisor = TenantSwitch::new(engine);
        hypervisor.create(spec(2, &[20, 21])).unwrap();
        hypervisor.load(id(2), Arc::clone(&skipping)).unwrap();
        let mut worker = hypervisor.workers(1).remove(0);
        let mut sent = |hypervisor: &mut TenantSwitch, quotas| {
            hypervisor.set_quotas(id(2), quotas).unwrap();
            let mut frames: Vec<Frame> = (0..8).map(|_| frame(20, &bytes)).collect();
            common::forward(&mut worker, &mut frames, 0).len()
        };
        let enough = WorkBudget::new(1024).unwrap();
        assert_eq!(sent(&mut hypervisor, Quotas::default()), 8, "{name}");
        assert_eq!(sent(&mut hypervisor, work(WorkBudget::MIN)), 0, "{name}");
        assert_eq!(sent(&mut hypervisor, work(enough)), 8, "{name}");
        let device = hypervisor.vpdp(id(2)).unwrap().device().unwrap();
        let dropped = device.ledger().dropped(DropReason::WorkBudget);
        assert_eq!(dropped, 8, "{name}");
        // The next program gets the same budget.
        hypervisor.set_quotas(id(2), work(WorkBudget::MIN)).unwrap();
        hypervisor.unload(id(2)).unwrap();
        hypervisor.load(id(2), Arc::clone(&skipping)).unwrap();
        let kept = work(WorkBudget::MIN);
        assert_eq!(sent(&mut hypervisor, kept), 0, "{name}");
    }
}

#[test]
fn without_contention_nobody_is_limited() {
    let mut test = HostileTest::new(marker(2));
    let outcome = test.run(9, 60, |_, _| {});
    assert_eq!(outcome.victim, GUARANTEED);
    assert_eq!(test.hypervisor.ledger().sent, 19 * BURSTS);
}
