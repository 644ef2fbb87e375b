//! The path of packets: to their virtual data plane, through it, over links, and out.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use common::{forward, frame, hypervisor, id, marker, marks, port, program, spec};
use exec::DropReason;
use ir::Program;
use packet::{Frame, Nanos, PortId};
use support::mac::MacAddress;
use switch::{Device, MayLose, MigrationMode};
use tenancy::{
    Backbone, Condition, EncapHeader, Encapsulation, Function, MAX_HOPS, MacPrefix, Quotas, Rate,
    Rule, Sharing, TenantSwitch, Tunnel, Vlan, Worker,
};

/// Returns two vPDPs on their own ports that mark packets with the vPDP's number.
fn two() -> (TenantSwitch, Vec<Worker>) {
    let mut hypervisor = hypervisor();
    for (number, ports) in [(1, [10, 11]), (2, [20, 21])] {
        hypervisor.create(spec(number, &ports)).unwrap();
        hypervisor.load(id(number), marker(number as u8)).unwrap();
    }
    let workers = hypervisor.workers(1);
    (hypervisor, workers)
}

#[test]
fn whole_ports_lead_to_their_vpdp_and_back() {
    let (hypervisor, mut workers) = two();
    let mut frames: Vec<Frame> = [10, 20, 11, 21, 20, 10]
        .iter()
        .zip(0u8..)
        .map(|(port, number)| frame(*port, &[0, number]))
        .collect();
    let sent = forward(&mut workers[0], &mut frames, 1);
    let expected = vec![
        (11, vec![1, 0]),
        (10, vec![1, 2]),
        (11, vec![1, 5]),
        (21, vec![2, 1]),
        (20, vec![2, 3]),
        (21, vec![2, 4]),
    ];
    assert_eq!(sent, expected);
    hypervisor.check_conservation().unwrap();
    for number in [1, 2] {
        let device = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
        assert_eq!((device.ledger().received, device.ledger().sent), (3, 3));
    }
}

#[test]
fn packets_of_nobody_are_counted() {
    let (hypervisor, mut workers) = two();
    let mut frames = [frame(12, &[0, 0]), frame(9999, &[0, 1]), frame(10, &[0, 2])];
    assert_eq!(forward(&mut workers[0], &mut frames, 1).len(), 1);
    let ledger = hypervisor.ledger();
    assert_eq!(ledger.dropped(DropReason::Unclassified), 2);
    assert_eq!((ledger.received, ledger.sent), (3, 1));
    hypervisor.check_conservation().unwrap();
}

#[test]
fn a_port_that_is_open_drops_what_leaves_there() {
    let (mut hypervisor, mut workers) = two();
    hypervisor.connect(port(1, 1), None).unwrap();
    assert!(forward(&mut workers[0], &mut [frame(10, &[0, 0])], 1).is_empty());
    let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
    assert_eq!(device.ledger().dropped(DropReason::NoSuchPort), 1);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn what_is_loaded_updated_suspended_and_deleted_is_seen_by_the_next_burst() {
    let mut hypervisor = hypervisor();
    let mut workers = hypervisor.workers(1);
    let mut send = |hypervisor: &mut TenantSwitch, now| {
        let sent = forward(&mut workers[0], &mut [frame(10, &[0, 0])], now);
        hypervisor.step(Nanos(now), |_, _, _| {});
        hypervisor.check_conservation().unwrap();
        marks(&sent)
    };
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    assert_eq!(send(&mut hypervisor, 1), []);
    hypervisor.load(id(1), marker(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 2), [(11, 1)]);
    let nothing = switch::MigrationMode::State(switch::MayLose::Nothing);
    hypervisor.update(id(1), marker(2), nothing).unwrap();
    assert_eq!(send(&mut hypervisor, 3), [(11, 2)]);
    let register = |hypervisor: &TenantSwitch| {
        let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
        device.read_register(ir::ExternId::new(0), 0).unwrap()[0].to_u64()
    };
    assert_eq!(register(&hypervisor), Some(2));
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 4), [(11, 1)]);
    assert_eq!(register(&hypervisor), Some(3));
    hypervisor.suspend(id(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 5), []);
    hypervisor.resume(id(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 6), [(11, 1)]);
    hypervisor.unload(id(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 7), []);
    hypervisor.delete(id(1)).unwrap();
    assert_eq!(send(&mut hypervisor, 8), []);
    assert_eq!(hypervisor.departing(), 0);
    let ledger = hypervisor.ledger();
    let drops: Vec<_> = ledger.drops().collect();
    let expected = [
        (DropReason::Unclassified, 1),
        (DropReason::NoProgram, 2),
        (DropReason::Suspended, 1),
    ];
    assert_eq!(drops, expected);
    assert_eq!((ledger.received, ledger.sent), (8, 4));
}

#[test]
fn a_program_that_a_controller_sets_on_the_device_is_what_is_exported_and_rolled_back() {
    let (mut hypervisor, mut workers) = two();
    let program_of = |function: &Function| match function {
        Function::Program(program) => Arc::clone(program),
        Function::Chain(_) => panic!("it is no chain"),
    };
    let set = |hypervisor: &mut TenantSwitch, program: &Arc<Program>| {
        let new = Device::new(Arc::clone(program), &interp::Interp, &Default::default()).unwrap();
        let device = hypervisor.device_mut(id(1)).unwrap();
        let carry = MigrationMode::State(MayLose::Anything);
        device.adopt(new, carry).unwrap();
        device.publish();
    };
    let mut mark = |now| marks(&forward(&mut workers[0], &mut [frame(10, &[0, 0])], now))[0].1;
    let [third, fourth] = [marker(3), marker(4)];
    set(&mut hypervisor, &third);
    assert_eq!(mark(1), 3);
    let state = hypervisor.export(id(1)).unwrap().state.unwrap();
    assert!(Arc::ptr_eq(&program_of(&state.function), &third));
    assert!(state.before.is_some());
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(mark(2), 1);

    set(&mut hypervisor, &fourth);
    let carry = MigrationMode::State(MayLose::Anything);
    hypervisor.update(id(1), marker(5), carry).unwrap();
    assert_eq!(mark(4), 5);
    hypervisor.roll_back(id(1)).unwrap();
    assert_eq!(mark(5), 4);

    set(&mut hypervisor, &third);
    hypervisor.step(Nanos(6), |_, _, _| {});
    let function = hypervisor.vpdp(id(1)).unwrap().function().unwrap();
    assert!(Arc::ptr_eq(&program_of(function), &third));
}

#[test]
fn packets_in_the_queues_of_a_deleted_vpdp_leave_at_their_time() {
    let (mut hypervisor, mut workers) = two();
    shape(&mut hypervisor, 1);
    let mut frames: Vec<Frame> = (0..5).map(|number| frame(10, &[0, number])).collect();
    assert_eq!(forward(&mut workers[0], &mut frames, 1).len(), 1);
    assert_eq!(hypervisor.held(), 4);
    hypervisor.delete(id(1)).unwrap();
    let mut now = 2;
    let mut sent = forward(&mut workers[0], &mut [], now);
    while let Some(next) = workers[0].next_time() {
        assert!(next.0 > now && next.0 < 5_000_000);
        now = next.0;
        sent.extend(forward(&mut workers[0], &mut [], now));
        hypervisor.step(next, |_, _, _| {});
        hypervisor.check_conservation().unwrap();
    }
    let expected: Vec<_> = (1..5).map(|number| (11, vec![1, number])).collect();
    assert_eq!(sent, expected);
    assert_eq!((hypervisor.held(), hypervisor.departing()), (0, 0));
    assert_eq!(hypervisor.ledger().sent, 5);
}

#[test]
fn a_vpdp_is_deleted_and_unloaded_when_its_workers_are_gone() {
    let (mut hypervisor, workers) = two();
    drop(workers);
    // The dropped workers return all per-thread states, and vPDP 3 is created after that.
    hypervisor.step(Nanos(1), |_, _, _| {});
    hypervisor.create(spec(3, &[30, 31])).unwrap();
    hypervisor.load(id(3), marker(3)).unwrap();
    hypervisor.delete(id(1)).unwrap();
    hypervisor.unload(id(2)).unwrap();
    hypervisor.delete(id(3)).unwrap();
    hypervisor.step(Nanos(2), |_, _, _| {});
    assert_eq!(hypervisor.departing(), 0);
    hypervisor.check_conservation().unwrap();
}

/// Limits virtual port 1 of a vPDP to a thousand packets per second.
fn shape(hypervisor: &mut TenantSwitch, number: u16) {
    let slow = switch::QueueConfig {
        packets_per_second: Some(1000),
        ..Default::default()
    };
    let device = hypervisor.device_mut(id(number)).unwrap();
    device
        .apply(switch::Change::SetQueue(PortId(1), slow))
        .unwrap();
    device.publish();
}

fn received(hypervisor: &TenantSwitch, number: u16) -> u64 {
    let device = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
    device.ledger().received
}

#[test]
fn packets_of_a_deleted_vpdp_go_over_its_links_to_no_other_one() {
    let (mut hypervisor, mut workers) = two();
    hypervisor.connect(port(1, 1), None).unwrap();
    hypervisor.connect(port(2, 0), None).unwrap();
    hypervisor.link(port(1, 1), port(2, 0)).unwrap();
    shape(&mut hypervisor, 1);
    let mut frames: Vec<Frame> = (0..5).map(|number| frame(10, &[0, number])).collect();
    forward(&mut workers[0], &mut frames, 1);
    assert_eq!(hypervisor.held(), 4);
    hypervisor.unlink(port(1, 1)).unwrap();
    for (gone, comes) in [(1, 3), (2, 4)] {
        hypervisor.delete(id(gone)).unwrap();
        let ports = [10 * u32::from(comes), 10 * u32::from(comes) + 1];
        hypervisor.create(spec(comes, &ports)).unwrap();
        hypervisor.load(id(comes), marker(comes as u8)).unwrap();
    }
    for now in [2, 10_000_000, 20_000_000] {
        forward(&mut workers[0], &mut [], now);
        hypervisor.step(Nanos(now), |_, _, _| {});
    }
    hypervisor.check_conservation().unwrap();
    assert_eq!((hypervisor.held(), hypervisor.departing()), (0, 0));
    assert_eq!([3, 4].map(|number| received(&hypervisor, number)), [0, 0]);
}

#[test]
fn packets_of_a_vpdp_that_a_worker_never_saw_leave_by_no_port_of_another_one() {
    let mut hypervisor = hypervisor();
    let mut workers = hypervisor.workers(2);
    hypervisor.create(spec(1, &[10, 11])).unwrap();
    hypervisor.load(id(1), marker(1)).unwrap();
    shape(&mut hypervisor, 1);
    // The second worker must send them, but runs late.
    let mut frames: Vec<Frame> = (0..5).map(|number| frame(10, &[0, number])).collect();
    assert!(forward(&mut workers[0], &mut frames, 1).is_empty());
    hypervisor.delete(id(1)).unwrap();
    forward(&mut workers[0], &mut [], 2);
    hypervisor.step(Nanos(2), |_, _, _| {});
    hypervisor.create(spec(2, &[20, 21])).unwrap();
    hypervisor.load(id(2), marker(2)).unwrap();
    for now in [3, 10_000_000] {
        assert_eq!(forward(&mut workers[1], &mut [], now), []);
        hypervisor.step(Nanos(now), |_, _, _| {});
    }
    let ledger = hypervisor.ledger();
    assert_eq!(ledger.dropped(DropReason::NoSuchPort), 5);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn links_lead_from_one_vpdp_to_another_until_the_hops_are_over() {
    let (mut hypervisor, mut workers) = two();
    hypervisor.connect(port(1, 1), None).unwrap();
    hypervisor.connect(port(2, 0), None).unwrap();
    hypervisor.link(port(1, 1), port(2, 0)).unwrap();
    let mut frames = [frame(10, &[0, 0]), frame(10, &[0, 1]), frame(21, &[0, 2])];
    let sent = forward(&mut workers[0], &mut frames, 1);
    let expected = vec![(21, vec![2, 0]), (21, vec![2, 1]), (10, vec![1, 2])];
    assert_eq!(sent, expected);
    let ledger = hypervisor.ledger();
    assert_eq!((ledger.received, ledger.sent), (3, 3));
    hypervisor.check_conservation().unwrap();

    hypervisor.unlink(port(2, 0)).unwrap();
    assert!(forward(&mut workers[0], &mut [frame(10, &[0, 3])], 2).is_empty());
    let device = hypervisor.vpdp(id(1)).unwrap().device().unwrap();
    assert_eq!(device.ledger().dropped(DropReason::NoSuchPort), 1);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn a_loop_of_links_ends() {
    let mut hypervisor = hypervisor();
    let mut workers = hypervisor.workers(1);
    for number in [1, 2] {
        let mut spec = spec(number, &[u32::from(number)]);
        spec.ports.push(tenancy::Connection::Open);
        hypervisor.create(spec).unwrap();
        let always =
            program("apply { hdr.h.number = hdr.h.number + 1; standard.egress_spec = 1; }");
        hypervisor.load(id(number), always).unwrap();
    }
    hypervisor.link(port(1, 1), port(2, 1)).unwrap();
    assert!(forward(&mut workers[0], &mut [frame(1, &[0, 0])], 1).is_empty());
    let ledger = hypervisor.ledger();
    assert_eq!(
        (ledger.received, ledger.dropped(DropReason::LinkHops)),
        (1, 1)
    );
    let passed: u64 = [1, 2]
        .iter()
        .map(|number| hypervisor.vpdp(id(*number)).unwrap().device().unwrap())
        .map(|device| device.ledger().sent)
        .sum();
    assert_eq!(passed, MAX_HOPS as u64 + 1);
    hypervisor.check_conservation().unwrap();
}

#[test]
fn what_the_last_of_too_many_vpdps_refuses_is_told() {
    let mut hypervisor = hypervisor();
    let mut workers = hypervisor.workers(1);
    let last = MAX_HOPS as u16 + 2;
    for number in 1..=last {
        let mut spec = spec(number, &[]);
        spec.ports = vec![tenancy::Connection::Open; 2];
        if number == 1 {
            spec.ports[0] = tenancy::Connection::Physical(PortId(1));
        }
        hypervisor.create(spec).unwrap();
        hypervisor.load(id(number), marker(number as u8)).unwrap();
        if number > 1 {
            hypervisor
                .link(port(number - 1, 1), port(number, 0))
                .unwrap();
        }
    }
    for sent in 1..=2 {
        assert!(forward(&mut workers[0], &mut [frame(1, &[0, 0])], sent).is_empty());
        let refused = |number| {
            let device = hypervisor.vpdp(id(number)).unwrap().device().unwrap();
            device.ledger().dropped(DropReason::LinkHops)
        };
        assert_eq!((refused(last - 1), refused(last)), (0, sent));
        hypervisor.check_conservation().unwrap();
    }
}

/// Returns vPDPs 1 and 2: port 0 is the shared port 5 of the switch, port 1 a port of one vPDP.
fn sharing(sharing: Sharing) -> (TenantSwitch, Vec<Worker>) {
    let mut hypervisor = hypervisor();
    hypervisor.share(PortId(5), Some(sharing)).unwrap();
    for number in [1, 2] {
        let own = u32::from(number) * 10;
        hypervisor.create(spec(number, &[5, own])).unwrap();
        hypervisor.load(id(number), marker(number as u8)).unwrap();
    }
    let workers = hypervisor.workers(1);
    (hypervisor, workers)
}

fn carriages() -> [Encapsulation; 3] {
    let mac = MacAddress([2, 0, 0, 0, 0, 1]);
    let backbone = Backbone {
        local: mac,
        remote: mac,
    };
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let tunnel = Tunnel {
        backbone,
        local: address,
        remote: address,
        vni: 7,
    };
    [
        Encapsulation::Plain,
        Encapsulation::MacInMac(backbone),
        Encapsulation::Vxlan(tunnel),
    ]
}

#[test]
fn descriptions_lead_in_and_are_put_back_on_the_way_out() {
    for carriage in carriages() {
        let (hypervisor, mut workers) = sharing(Sharing::Described(carriage));
        let described = |number: u16, bytes: &[u8]| {
            let mut frame = frame(5, bytes);
            EncapHeader::new(id(number), carriage)
                .put_on(&mut frame)
                .unwrap();
            frame
        };
        let mut damaged = described(1, &[0, 9]);
        let at = carriage.bytes() - 1;
        damaged.bytes_mut()[at] ^= 1;
        let mut frames = [
            described(2, &[0, 0]),
            described(1, &[0, 1]),
            described(3, &[0, 2]),
            damaged,
            frame(20, &[0, 3]),
        ];
        let sent = forward(&mut workers[0], &mut frames, 1);
        let out = described(2, &[2, 3]).bytes().to_vec();
        let expected = vec![(20, vec![2, 0]), (5, out), (10, vec![1, 1])];
        assert_eq!(sent, expected, "{carriage:?}");
        let ledger = hypervisor.ledger();
        assert_eq!(ledger.dropped(DropReason::BadDescription), 1);
        assert_eq!(ledger.dropped(DropReason::Unclassified), 1);
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn a_packet_that_is_too_long_with_its_description_is_dropped() {
    for carriage in carriages() {
        let (hypervisor, mut workers) = sharing(Sharing::Described(carriage));
        let most = packet::MAX_FRAME - carriage.bytes();
        let frames = [most, most + 1].map(|len| frame(20, &vec![0; len]));
        let sent = forward(&mut workers[0], &mut { frames }, 1);
        let lengths: Vec<usize> = sent.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lengths, [packet::MAX_FRAME], "{carriage:?}");
        let ledger = hypervisor.ledger();
        assert_eq!(ledger.dropped(DropReason::FrameTooLong), 1);
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn destination_addresses_lead_in_and_others_go_by_rules() {
    let prefix = MacPrefix::new([0x02, 0xaa, 0xbb]).unwrap();
    assert_eq!(MacPrefix::new([0x00, 0xaa, 0xbb]), None);
    assert_eq!(MacPrefix::new([0x03, 0xaa, 0xbb]), None);
    let (mut hypervisor, mut workers) = sharing(Sharing::Destination(prefix));
    let to = |mac: MacAddress| frame(5, &[&mac.0[..], &[0; 8]].concat());
    let other = MacAddress([2, 0, 0, 0, 0, 1]);
    hypervisor
        .add_rule(rule("rest", 1, 0, vec![Condition::Destination(other)]))
        .unwrap();
    let mut frames = [
        to(prefix.address(id(2), 0x123)),
        to(prefix.address(id(1), 0xfff)),
        to(prefix.address(id(3), 0)),
        to(other),
        to(MacAddress([2, 0, 0, 0, 0, 2])),
    ];
    let ports: Vec<u32> = forward(&mut workers[0], &mut frames, 1)
        .iter()
        .map(|(port, _)| *port)
        .collect();
    assert_eq!(ports, [20, 10, 10]);
    assert_eq!(hypervisor.ledger().dropped(DropReason::Unclassified), 2);
}

fn rule(name: &str, vpdp: u16, priority: i32, conditions: Vec<Condition>) -> Rule {
    Rule {
        name: name.into(),
        vpdp: id(vpdp),
        priority,
        conditions,
    }
}

/// Returns an Ethernet frame with a VLAN tag, an IP header and L4 ports, if given.
fn ip_frame(vlan: Option<u16>, ip: &[u8], ports: Option<(u16, u16)>) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    if let Some(vlan) = vlan {
        bytes.extend([0x81, 0x00]);
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend(if ip[0] >> 4 == 4 {
        [0x08, 0x00]
    } else {
        [0x86, 0xdd]
    });
    bytes.extend(ip);
    if let Some((source, destination)) = ports {
        bytes.extend(source.to_be_bytes());
        bytes.extend(destination.to_be_bytes());
    }
    frame(5, &bytes)
}

fn ipv4(protocol: u8, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes.extend(source);
    bytes.extend(destination);
    bytes
}

fn ipv6(next: u8, destination: Ipv6Addr) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 4, next, 64];
    bytes.extend([0; 16]);
    bytes.extend(destination.octets());
    bytes
}

#[test]
fn rules_lead_by_what_they_name() {
    let v6 = |text: &str| text.parse::<Ipv6Addr>().unwrap();
    let net = Ipv4Addr::new(10, 0, 0, 0);
    let to_net = ipv4(17, [192, 0, 2, 1], [10, 1, 2, 3]);
    let elsewhere = ipv4(6, [10, 1, 2, 3], [192, 0, 2, 1]);
    let cases: Vec<(Condition, Frame, Frame)> = vec![
        (
            Condition::Vlan(Vlan::Id(7)),
            ip_frame(Some(7), &to_net, None),
            ip_frame(Some(8), &to_net, None),
        ),
        (
            Condition::Vlan(Vlan::Untagged),
            ip_frame(None, &to_net, None),
            ip_frame(Some(7), &to_net, None),
        ),
        (
            Condition::EtherType(0x86dd),
            ip_frame(None, &ipv6(17, v6("2001:db8::1")), None),
            ip_frame(None, &to_net, None),
        ),
        (
            Condition::Ipv4Destination(net, 8),
            ip_frame(Some(7), &to_net, None),
            ip_frame(None, &elsewhere, None),
        ),
        (
            Condition::Ipv4Source(net, 8),
            ip_frame(None, &elsewhere, None),
            ip_frame(None, &to_net, None),
        ),
        (
            Condition::Ipv4Source(Ipv4Addr::UNSPECIFIED, 0),
            ip_frame(None, &to_net, None),
            ip_frame(None, &ipv6(17, v6("::1")), None),
        ),
        (
            Condition::Ipv6Destination(v6("2001:db8::"), 32),
            ip_frame(None, &ipv6(17, v6("2001:db8:5::1")), None),
            ip_frame(None, &ipv6(17, v6("2001:db9::1")), None),
        ),
        (
            Condition::Protocol(17),
            ip_frame(None, &to_net, None),
            ip_frame(None, &elsewhere, None),
        ),
        (
            Condition::L4Destination(4000..=5000),
            ip_frame(None, &to_net, Some((1, 4500))),
            ip_frame(None, &to_net, Some((4500, 1))),
        ),
        (
            Condition::L4Source(0..=u16::MAX),
            ip_frame(None, &to_net, Some((1, 1))),
            // A packet without L4 ports.
            ip_frame(None, &to_net, None),
        ),
    ];
    for (condition, meets, misses) in cases {
        let (mut hypervisor, mut workers) = sharing(Sharing::Rules);
        let what = format!("{condition:?}");
        hypervisor
            .add_rule(rule("own", 2, 1, vec![condition]))
            .unwrap();
        hypervisor
            .add_rule(rule("rest", 1, 0, vec![Condition::Port(PortId(5))]))
            .unwrap();
        let sent = forward(&mut workers[0], &mut [meets, misses], 1);
        let ports: Vec<u32> = sent.iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [20, 10], "{what}");
    }
}

#[test]
fn rules_of_ports_and_their_vlans_lead_as_they_say() {
    let vlan = |id| vec![Condition::Port(PortId(5)), Condition::Vlan(id)];
    let (mut hypervisor, mut workers) = sharing(Sharing::Rules);
    let ip = ipv4(17, [192, 0, 2, 1], [10, 1, 2, 3]);
    let mut sent_by = |hypervisor: &TenantSwitch| {
        let mut frames = [Some(7), Some(8), None, Some(7)].map(|vlan| ip_frame(vlan, &ip, None));
        let sent = forward(&mut workers[0], &mut frames, 1);
        hypervisor.check_conservation().unwrap();
        sent.iter().map(|(port, _)| *port).collect::<Vec<u32>>()
    };
    let seven = rule("seven", 2, 0, vlan(Vlan::Id(7)));
    hypervisor.add_rule(seven).unwrap();
    assert_eq!(sent_by(&hypervisor), [20, 20]);
    let rest = rule("rest", 1, 0, vlan(Vlan::Untagged));
    hypervisor.add_rule(rest).unwrap();
    assert_eq!(sent_by(&hypervisor), [20, 20, 10]);
    // A vPDP that no longer has the port gets none of its packets.
    hypervisor.connect(port(2, 0), None).unwrap();
    assert_eq!(sent_by(&hypervisor), [10]);
}

#[test]
fn packets_above_their_rate_are_counted_drops_of_their_vpdp() {
    let (mut hypervisor, mut workers) = two();
    let quotas = Quotas {
        packets: Some(Rate {
            per_second: 1_000,
            burst: 10,
        }),
        ..Quotas::default()
    };
    hypervisor.set_quotas(id(1), quotas).unwrap();
    let mut sent = [0, 0];
    for round in 0..100 {
        let mut frames: Vec<Frame> = (0..4)
            .map(|number| frame(if number % 2 == 0 { 10 } else { 20 }, &[0, number]))
            .collect();
        for (port, _) in forward(&mut workers[0], &mut frames, round * 1_000_000) {
            sent[usize::from(port == 21)] += 1;
        }
    }
    // 10 at once and 99 later; all of the neighbour's packets are sent.
    assert_eq!(sent, [109, 200]);
    let ledger = hypervisor.vpdp(id(1)).unwrap().device().unwrap().ledger();
    assert_eq!(ledger.dropped(DropReason::RateQuota), 91);
    hypervisor.check_conservation().unwrap();
}
