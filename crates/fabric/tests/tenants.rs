//! Tests of virtual data planes in simulated time.

mod common;

use std::sync::Arc;

use fabric::{Plane, Tenants};
use interp::Interp;
use packet::{Frame, Nanos, PortId};
use switch::Change;
use tenancy::{Connection, Spec, TenantSwitch};

const NETWORK: PortId = PortId(0);
const HOST: PortId = PortId(1);

/// Idle timeout of a connection. Shorter than the interval of the control work.
const IDLE: Nanos = Nanos::from_micros(300);

/// Creates a vPDP that tracks connections opened by the host.
fn firewall() -> Tenants {
    let directory = common::examples().join("pna_firewall");
    let program = common::compile(&directory.join("pna_firewall.p4")).unwrap();
    let mut hypervisor = TenantSwitch::new(Arc::new(Interp));
    let vpdp = hypervisor.create(Spec {
        ports: vec![Connection::Physical(NETWORK), Connection::Physical(HOST)],
        ..Spec::default()
    });
    let vpdp = vpdp.unwrap();
    hypervisor.load(vpdp, Arc::new(program)).unwrap();
    let device = hypervisor.device_mut(vpdp).unwrap();
    common::add_entries(device, &directory.join("pna_firewall.entries")).unwrap();
    let profile = Change::SetExpireProfile(0, Some(IDLE));
    device.apply(profile).unwrap();
    device.publish();
    Tenants::new(hypervisor).unwrap()
}

/// Builds a UDP datagram between 10.0.0.2:5353 and 198.51.100.9:53, in the format that the
/// firewall parses.
fn datagram(from: PortId) -> Frame {
    let (host, remote) = ([10, 0, 0, 2, 0x14, 0xe9], [198, 51, 100, 9, 0, 53]);
    let [source, destination] = match from {
        HOST => [host, remote],
        _ => [remote, host],
    };
    let mut bytes = vec![0; 12];
    bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0]);
    bytes.extend([&source[..4], &destination[..4]].concat());
    bytes.extend([&source[4..], &destination[4..], &[0, 8, 0, 0]].concat());
    Frame::from_bytes(&bytes).unwrap()
}

/// Forwards a datagram at this time. Returns its egress port, if it is not dropped.
fn forward(plane: &mut Tenants, from: PortId, now: Nanos) -> Option<PortId> {
    plane.forward(from, &mut datagram(from), now).unwrap();
    let mut left = None;
    plane.drain_sent(&mut |port, _, _| left = Some(port));
    left
}

#[test]
fn an_entry_that_packets_added_goes_at_its_time() {
    let mut plane = firewall();
    let [opened, answered] = [Nanos::from_micros(1), Nanos::from_micros(300)];
    assert_eq!(forward(&mut plane, NETWORK, Nanos::ZERO), None);
    assert_eq!(forward(&mut plane, HOST, opened), Some(NETWORK));
    assert_eq!(plane.next_time(), Some(opened + IDLE));
    assert_eq!(forward(&mut plane, NETWORK, answered), Some(HOST));
    plane.step(opened + IDLE);
    assert_eq!(plane.next_time(), Some(answered + IDLE));
    // The packet arrives exactly when the entry expires, without an event in between.
    assert_eq!(forward(&mut plane, NETWORK, answered + IDLE), None);
    assert_eq!(plane.next_time(), None);
}
