//! Tests of nodes that crash and are started again, and of hosts without a clock.

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{examples, make, topology};
use fabric::topology::{HostId, NodeId, PlaneSpec, SwitchId, SwitchSpec};
use fabric::{FabricError, LoadDevice, Node, Simulation, SwitchNode};
use interp::Interp;
use packet::Nanos;
use switch::{Device, DeviceConfig};

/// Two hosts at a router, and pings each 10 ms from 5 ms on.
fn routed(faults: &str) -> String {
    let ping =
        "[[ping]]\nfrom = \"h1\"\nto = \"h2\"\ncount = 10\ninterval = \"10 ms\"\nat = \"5 ms\"\n";
    format!(
        r#"
seed = 7

[defaults.link]
delay = "50 us"

[[switch]]
name = "r"
program = "router/router.p4"
entries = "router/router.entries"
service = "2 us"

[[host]]
name = "h1"
mac = "02:00:00:00:01:02"
ip = "10.0.1.2/24"
gateway = "10.0.1.1"

[[host]]
name = "h2"
mac = "02:00:00:00:02:02"
ip = "10.0.2.2/24"
gateway = "10.0.2.1"

[[link]]
ends = ["h1", "r:0"]

[[link]]
ends = ["h2", "r:1"]

{ping}{faults}"#
    )
}

fn load(spec: &SwitchSpec) -> Result<Device, String> {
    let PlaneSpec::Alone(function) = &spec.plane else {
        return Err("the switch has tenants".to_owned());
    };
    let program: PathBuf = examples().join("router/router.p4");
    let program = Arc::new(common::compile(&program)?);
    let device = Device::new(program, &Interp, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    for path in &function.entries {
        common::add_entries(&mut device, path)?;
    }
    Ok(device)
}

/// Runs to the end with a switch that can be loaded again. Returns the answered pings, and the
/// drops of the switch and of the host h2.
fn run(faults: &str) -> (usize, [Vec<(&'static str, u64)>; 2]) {
    let topology = topology(&routed(faults));
    let simulation = Simulation::new(topology, &mut |spec| {
        let again = spec.clone();
        let again: LoadDevice = Box::new(move || load(&again));
        let node = SwitchNode::new(load(spec)?, spec.service).with_loader(again);
        Ok(Box::new(node) as Box<dyn Node>)
    });
    let mut simulation = simulation.unwrap();
    simulation.run_until(Nanos::from_secs(1)).unwrap();
    simulation.check_conservation().unwrap();
    let report = simulation.report();
    let drops = |node| {
        let mut drops = simulation.tally(node).dropped;
        drops.retain(|(_, packets)| *packets > 0);
        drops
    };
    (
        report.pings[0].microseconds.len(),
        [
            drops(NodeId::Switch(SwitchId(0))),
            drops(NodeId::Host(HostId(1))),
        ],
    )
}

#[test]
fn frames_that_arrive_at_a_node_after_its_crash_are_lost_and_it_goes_on_after_its_restart() {
    // The requests of 25, 35 and 45 ms.
    for (node, disk, drops) in [
        ("r", "kept", [3, 0]),
        ("r", "lost", [3, 0]),
        ("h2", "kept", [0, 3]),
    ] {
        let fault = format!(
            "[[fault]]\ncrash = \"{node}\"\nat = \"22 ms\"\nuntil = \"52 ms\"\ndisk = \"{disk}\"\n"
        );
        let (answered, [of_switch, of_host]) = run(&fault);
        assert_eq!(answered, 7, "{node} {disk}");
        let of = |drops: &[(&str, u64)]| {
            let crashed = drops.iter().filter(|(reason, _)| *reason == "crashed");
            crashed.map(|(_, packets)| packets).sum::<u64>()
        };
        assert_eq!([of(&of_switch), of(&of_host)], drops, "{node} {disk}");
    }
}

#[test]
fn a_node_that_is_not_started_again_loses_all_frames() {
    let (answered, [of_switch, _]) = run("[[fault]]\ncrash = \"r\"\nat = \"22 ms\"\n");
    assert_eq!(answered, 2);
    assert_eq!(of_switch, [("crashed", 8)]);
}

#[test]
fn packets_inside_a_switch_that_crashes_are_lost() {
    // The request of 25 ms is with the processor: it takes 2 us.
    let fault = "[[fault]]\ncrash = \"r\"\nat = \"25051 us\"\nuntil = \"26 ms\"\n";
    let (answered, [of_switch, _]) = run(fault);
    assert_eq!(answered, 9);
    assert_eq!(of_switch, [("restart", 1)]);
}

#[test]
fn a_node_without_a_way_to_start_again_is_an_error_with_its_name() {
    let fault = |node: &str| {
        format!("[[fault]]\ncrash = \"{node}\"\nat = \"1 ms\"\nuntil = \"2 ms\"\ndisk = \"lost\"\n")
    };
    for (node, words) in [("h2", "no disk to lose"), ("r", "not one device")] {
        let topology = topology(&routed(&fault(node)));
        let simulation = Simulation::new(topology, &mut |spec| make(spec, &Interp));
        let error = simulation.unwrap().run_until(Nanos::from_secs(1));
        let error = error.expect_err("it cannot be started");
        assert!(matches!(error, FabricError::Restart { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.contains(node) && message.contains(words),
            "{message}"
        );
    }
}

#[test]
fn a_host_without_times_of_its_own_has_no_clock_that_deviates() {
    let fault = "[[fault]]\nclock = \"h1\"\nahead = \"1 ms\"\nat = \"1 ms\"\n";
    let simulation = Simulation::new(topology(&routed(fault)), &mut |spec| make(spec, &Interp));
    let error = simulation.unwrap().run_until(Nanos::from_secs(1));
    let message = error.expect_err("a host takes no times").to_string();
    assert!(message.contains("the clock of h1 deviates"), "{message}");
}
