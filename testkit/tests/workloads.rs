//! Tests that every workload's loop has the same results as its program for every packet, on every
//! engine.

use std::sync::Arc;

use bench::{OnDevice, SentFrames, Workload, compare, workloads, workloads::Size};
use packet::{Frame, Nanos};
use support::rng::Rng;

/// Compiles the workload's program.
fn program(workload: &dyn Workload) -> Arc<ir::Program> {
    let name = format!("{}.p4", workload.name());
    let program = driver::compile_text(&name, workload.source());
    Arc::new(program.unwrap_or_else(|errors| panic!("{errors}")))
}

fn check(workload: &dyn Workload, packets: u64) {
    let program = program(workload);
    for engine in testkit::engines() {
        let name = format!("{} on {}", workload.name(), engine.name());
        let mut hand = workload.hand(&program).expect(&name);
        let mut device = OnDevice::load(&program, engine.as_ref(), workload).expect(&name);
        let compared = compare(workload, packets, &mut device, &mut *hand);
        compared.unwrap_or_else(|difference| panic!("{name}: {difference}"));
        device
            .0
            .check_conservation()
            .expect("packets are conserved");
    }
}

/// Checks code made for the tables of a workload as they are. Returns true if there is such code.
fn check_specialised(workload: &dyn Workload, packets: u64) -> bool {
    let program = program(workload);
    let name = workload.name();
    let engine = jit::Jit::new(Arc::new(interp::Interp));
    let mut hand = workload.hand(&program).expect(name);
    let mut device = OnDevice::load(&program, &engine, workload).expect(name);
    let job = device.0.specialisation_job().expect(name);
    let Some(job) = job else {
        return false;
    };
    let made = job.run().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(device.0.adopt_specialised(made), "{name}");
    let compared = compare(workload, packets, &mut device, &mut *hand);
    compared.unwrap_or_else(|difference| panic!("{name}, specialised: {difference}"));
    assert!(device.0.specialisation().is_running, "{name}");
    true
}

#[test]
fn code_made_for_the_tables_of_a_workload_does_what_its_loop_does() {
    let workloads = workloads::ALL.iter().map(|(_, make)| make(Size::Small));
    let specialised = workloads.filter(|workload| check_specialised(&**workload, 5_000));
    assert!(specialised.count() > 1);
}

/// Checks that all packets of the normal traffic are forwarded.
fn forwards_all(workload: &dyn Workload) {
    let mut hand = workload.hand(&program(workload)).expect("a loop");
    let mut choices = Rng::new(7);
    let mut frames: Vec<Frame> = (0..1000).map(|_| Frame::new()).collect();
    for frame in &mut frames {
        workload.packet(&mut choices, frame);
    }
    let mut out = SentFrames::new();
    hand.forward(&mut frames, Nanos::ZERO, &mut out);
    assert_eq!(out.flush(), 1000, "{}", workload.name());
}

#[test]
fn every_loop_does_what_its_program_does() {
    for (name, make) in workloads::ALL {
        let workload = make(Size::Small);
        assert_eq!(workload.name(), *name);
        check(&*workload, 20_000);
        forwards_all(&*workload);
    }
}
