//! Chains of programs in a virtual data plane, changed under traffic.

mod common;

use std::sync::Arc;

use common::{forward, frame, hypervisor, id, program, spec};
use ir::Program;
use switch::{MayLose, MigrationMode};
use tenancy::{Chain, Function, HypervisorError, Quotas, TenantSwitch};

/// Adds to the mark, counts, and sends between ports 0 and 1.
fn adder(amount: u8) -> Arc<Program> {
    program(&format!(
        "register<bit<32>>(1) seen;
         apply {{
             bit<32> count;
             seen.read(count, 0);
             seen.write(0, count + 1);
             hdr.h.mark = hdr.h.mark + {amount};
             standard.egress_spec = standard.ingress_port ^ 1;
         }}"
    ))
}

fn chain(policy: &str) -> Chain {
    let programs = [("one", adder(1)), ("ten", adder(10)), ("odd", adder(100))];
    let programs = programs.map(|(name, program)| (name.to_owned(), program));
    Chain::read(policy, programs).unwrap()
}

/// Returns the number of packets counted by each step.
fn seen(hypervisor: &TenantSwitch) -> Vec<(String, u64)> {
    let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
    let externs = device.program().externs.iter();
    let counts = externs.map(|(register, declared)| {
        let count = device.read_register(register, 0).unwrap()[0].to_u64();
        let step = declared.name.split('.').next().unwrap_or_default();
        (step.to_owned(), count.unwrap())
    });
    counts.collect()
}

#[test]
fn a_chain_changes_under_traffic_and_steps_keep_their_state() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), chain("one -> ten")).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let mut send = |hypervisor: &TenantSwitch| {
        let sent = forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
        hypervisor.check_conservation().unwrap();
        common::marks(&sent)
    };
    let nothing = || MigrationMode::State(MayLose::Nothing);
    let counts = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        let named = all.iter().map(|(name, count)| (name.to_string(), *count));
        named.collect()
    };
    assert_eq!(send(&hypervisor), [(11, 11)]);
    hypervisor
        .update(id(1), chain("ten -> one -> odd"), nothing())
        .unwrap();
    assert_eq!(send(&hypervisor), [(11, 111)]);
    assert_eq!(
        seen(&hypervisor),
        counts(&[("ten", 2), ("one", 2), ("odd", 1)])
    );
    // A step with a count is removed only with the user's consent.
    let refused = hypervisor.update(id(1), chain("ten -> one"), nothing());
    assert!(refused.unwrap_err().to_string().contains("odd."));
    assert_eq!(send(&hypervisor), [(11, 111)]);
    let anything = MigrationMode::State(MayLose::Anything);
    hypervisor
        .update(id(1), chain("ten -> one"), anything)
        .unwrap();
    assert_eq!(send(&hypervisor), [(11, 11)]);
    assert_eq!(seen(&hypervisor), counts(&[("ten", 4), ("one", 4)]));
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(send(&hypervisor), [(11, 111)]);
    assert_eq!(
        seen(&hypervisor),
        counts(&[("ten", 5), ("one", 5), ("odd", 1)])
    );
}

/// A program with packets that begin with another header than those of all other programs here.
const OTHER: &str = r#"
#include <core.p4>
#include <v1model.p4>
header other_t { bit<3> kind; bit<29> value; }
struct headers_t { other_t other; }
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.other); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control C(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.other); } }
V1Switch(P(), V(), C(), C(), V(), D()) main;
"#;

#[test]
fn a_chain_that_does_not_fit_together_changes_nothing() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), chain("one")).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    let other = testkit::compile_text(OTHER).unwrap();
    let cases = [
        ("one -> two", "1:8: there is no program for the step `two`"),
        // In a chain, a step cannot precede itself.
        (
            "one -> ten -> one",
            "1:15: a step `one` stands at 1:1 already, and its tables would have the same names; name this one, as in `one2 = one`",
        ),
        (
            "one -> other",
            "1:8: the step `other` expects packets to begin with `other_t` (bits 3 29), but those that `one` sends begin with `h_t` (bits 8 8); \
             put a step between that adds or removes the headers which differ",
        ),
    ];
    for (policy, problem) in cases {
        let mut chain = chain(policy);
        if policy.contains("other") {
            chain
                .programs
                .insert("other".to_owned(), Arc::clone(&other));
        }
        let carry = MigrationMode::State(MayLose::Anything);
        let refusal = hypervisor.update(id(1), chain, carry).unwrap_err();
        let message = refusal.to_string();
        let begins = format!("vPDP 1 cannot run the chain: {problem}");
        assert!(message.starts_with(&begins), "{message}");
        let sent = forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
        assert_eq!(common::marks(&sent), [(11, 1)]);
        let refusal = hypervisor.roll_back(id(1)).unwrap_err();
        assert_eq!(refusal, HypervisorError::NothingBefore(id(1)));
    }
}

#[test]
fn a_chain_is_told_as_it_was_given_and_how_it_was_made_one_also_behind_a_roll_back() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), chain("one -> ten")).unwrap();
    let told = |hypervisor: &TenantSwitch| {
        let vpdp = hypervisor.vpdp(id(1)).unwrap();
        let policy = match vpdp.function() {
            Some(Function::Chain(chain)) => chain.policy.to_string(),
            other => panic!("{other:?}"),
        };
        let joints = vpdp.joints().iter().map(|joint| joint.step.clone());
        (policy, joints.collect::<Vec<_>>())
    };
    let first = ("one -> ten".to_owned(), vec!["ten".to_owned()]);
    assert_eq!(told(&hypervisor), first);
    let longer = chain("odd -> one -> ten");
    let carry = MigrationMode::State(MayLose::Nothing);
    hypervisor.update(id(1), longer, carry).unwrap();
    assert_eq!(told(&hypervisor).1, ["one", "ten"]);
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(told(&hypervisor), first);
}

#[test]
fn what_was_made_for_a_vpdp_that_is_gone_or_smaller_by_now_is_refused() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), adder(1)).unwrap();
    let make = |hypervisor: &TenantSwitch| {
        let maker = hypervisor.maker(id(1)).unwrap();
        // On any thread.
        let made = std::thread::spawn(move || maker.make(chain("one -> ten")));
        made.join().unwrap().unwrap()
    };
    let nothing = || MigrationMode::State(MayLose::Anything);
    let made = make(&hypervisor);
    let mut quotas = Quotas::default();
    quotas.limits.stages = Some(3);
    hypervisor.set_quotas(id(1), quotas).unwrap();
    let refusal = hypervisor.adopt(made, nothing()).unwrap_err();
    assert!(matches!(refusal, HypervisorError::Update(..)), "{refusal}");
    hypervisor.set_quotas(id(1), Quotas::default()).unwrap();
    let made = make(&hypervisor);
    hypervisor.delete(id(1)).unwrap();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), adder(1)).unwrap();
    // It has the same number, but is another vPDP.
    let refusal = hypervisor.adopt(made, nothing()).unwrap_err();
    assert_eq!(refusal, HypervisorError::NoSuchVpdp(id(1)));
    let made = make(&hypervisor);
    hypervisor.adopt(made, nothing()).unwrap();
}

#[test]
fn a_chain_is_migrated_with_its_state() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), chain("one -> ten")).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
    let exported = hypervisor.export(id(1)).unwrap();
    let mut other = common::hypervisor();
    other.import(exported).unwrap();
    assert_eq!(seen(&other), seen(&hypervisor));
    let nothing = MigrationMode::State(MayLose::Nothing);
    other.update(id(1), chain("ten -> one"), nothing).unwrap();
    assert_eq!(seen(&other), [("ten".to_owned(), 1), ("one".to_owned(), 1)]);
}
