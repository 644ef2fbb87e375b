//! Tests that both sides of the vPDP benchmark produce the same packets.

use std::sync::Arc;
use std::time::Duration;

use bench::arrival::Arrival;
use bench::measure::Plan;
use bench::tenants::{Entry, ShardableWorkload, Tenants, TenantsError};
use bench::workloads::{self, Size};
use ir::Program;
use testkit::engines;

const PLAN: Plan = Plan {
    time: Duration::from_millis(20),
    burst: 64,
    seed: 3,
};

fn program(function: &dyn ShardableWorkload) -> Arc<Program> {
    let program = driver::compile_steps(function.name(), &function.steps());
    Arc::new(program.unwrap())
}

fn tenants<'f>(
    function: &'f dyn ShardableWorkload,
    program: &Arc<Program>,
    vpdps: usize,
    (entry, arrival): (Entry, Arrival),
) -> Tenants<'f> {
    Tenants {
        function,
        program: Arc::clone(program),
        engine: engines().remove(0),
        vpdps,
        entry,
        arrival,
    }
}

fn sends_all(
    function: &dyn ShardableWorkload,
    program: &Arc<Program>,
    vpdps: usize,
    (entry, arrival): (Entry, Arrival),
) {
    let measured = tenants(function, program, vpdps, (entry, arrival))
        .measure(&PLAN, None, &mut |_| {})
        .unwrap();
    let sent = (measured.native.sent, measured.hosted.sent);
    let name = function.name();
    let (by, arrival) = (entry.name(), arrival.name());
    assert_eq!(sent, (1.0, 1.0), "{name}: {vpdps} by {by}, {arrival}");
    assert!(measured.ratio() > 0.0);
    assert!(measured.latencies.ratio > 0.0 && measured.at_half.ratio > 0.0);
}

#[test]
fn virtual_data_planes_send_all_packets_that_the_program_alone_sends() {
    for name in workloads::divisibles() {
        let function = workloads::divisible(name, Size::Small).unwrap();
        for arrival in [Arrival::Mixed, Arrival::Queues] {
            sends_all(&*function, &program(&*function), 4, (Entry::Whole, arrival));
        }
    }
}

#[test]
fn packets_find_their_virtual_data_plane_by_each_entry() {
    let function = workloads::divisible("l2", Size::Small).unwrap();
    let program = program(&*function);
    for entry in Entry::ALL {
        for vpdps in [1, 4] {
            for arrival in [Arrival::Mixed, Arrival::Queues] {
                sends_all(&*function, &program, vpdps, (entry, arrival));
            }
        }
    }
}

#[test]
fn there_is_at_least_one_virtual_data_plane() {
    let function = workloads::divisible("l2", Size::Small).unwrap();
    let program = program(&*function);
    let whole = (Entry::Whole, Arrival::Mixed);
    let none = tenants(&*function, &program, 0, whole).measure(&PLAN, None, &mut |_| {});
    assert!(matches!(none, Err(TenantsError::Count(0))));
}
