//! Chains of programs in a virtual data plane, changed while packets go through.

mod common;

use std::sync::Arc;

use common::{forward, frame, hypervisor, id, program, spec};
use ir::Program;
use switch::{Carry, MayLose};
use tenancy::{Chain, Hypervisor};

/// Adds to the mark, counts, and sends by the neighbour of the port by which the packet came.
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

/// How many packets each step has seen.
fn seen(hypervisor: &Hypervisor) -> Vec<(String, u64)> {
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
    let mut send = |hypervisor: &Hypervisor| {
        let sent = forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
        hypervisor.check_conservation().unwrap();
        common::marks(&sent)
    };
    let nothing = || Carry::State(MayLose::Nothing);
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
    // A step that has counted goes only by the user's word.
    let refused = hypervisor.update(id(1), chain("ten -> one"), nothing());
    assert!(refused.unwrap_err().to_string().contains("odd."));
    assert_eq!(send(&hypervisor), [(11, 111)]);
    let anything = Carry::State(MayLose::Anything);
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

#[test]
fn a_chain_that_does_not_fit_together_changes_nothing() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), chain("one")).unwrap();
    let mut worker = hypervisor.workers(1).remove(0);
    for (policy, problem) in [("one -> two", "two"), ("one -> ten -> one", "one")] {
        let carry = Carry::State(MayLose::Anything);
        let refusal = hypervisor.update(id(1), chain(policy), carry).unwrap_err();
        let message = refusal.to_string();
        assert!(
            message.starts_with("vPDP 1 cannot run the chain: "),
            "{message}"
        );
        assert!(message.contains(problem), "{message}");
        let sent = forward(&mut worker, &mut [frame(10, &[0, 0])], 1);
        assert_eq!(common::marks(&sent), [(11, 1)]);
    }
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
    let nothing = Carry::State(MayLose::Nothing);
    other.update(id(1), chain("ten -> one"), nothing).unwrap();
    assert_eq!(seen(&other), [("ten".to_owned(), 1), ("one".to_owned(), 1)]);
}
