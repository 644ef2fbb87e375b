//! Devices in a network: NDP under incast and loss, JBSQ, and times to the picosecond.

use nanopu::{
    CoreState, Cost, CostTable, Device, LinkFaults, Network, NodeId, Picos, RpcMessage, csr,
};

use crate::assembler::*;

const DEVICE: u32 = 0x0a00_0064;

fn client_address(number: usize) -> u32 {
    0x0a00_0001 + number as u32
}

fn to_device(bytes: usize) -> RpcMessage {
    RpcMessage {
        context: 9,
        peer: DEVICE,
        peer_context: 0,
        bytes: vec![1; bytes],
    }
}

struct Bed {
    network: Network,
    device: NodeId,
    clients: Vec<NodeId>,
}

fn bed(words: &[u32], cores: usize, clients: usize, costs: &CostTable, faults: LinkFaults) -> Bed {
    let mut network = Network::new(costs, faults);
    let device = Device::new(&image_of(words), MEMORY, cores, DEVICE, costs);
    let device = network.add_device(DEVICE, device);
    let clients = (0..clients)
        .map(|i| network.add_client(client_address(i)))
        .collect();
    Bed {
        network,
        device,
        clients,
    }
}

/// A loopback of messages of any length, without the increment of the words.
fn echo() -> Vec<u32> {
    let mut program = BIND.to_vec();
    program.extend([
        csrr(T0, csr::LMSGSRDY),
        beqz(T0, -4),
        mv(T0, NET_RX),
        mv(NET_TX, T0),
        // Words: (length + 7) / 8, of the low 16 bits.
        slli(T0, T0, 48),
        48 << 20 | T0 << 15 | 5 << 12 | T0 << 7 | 0x13,
        addi(T0, T0, 7),
        3 << 20 | T0 << 15 | 5 << 12 | T0 << 7 | 0x13,
        mv(NET_TX, NET_RX),
        addi(T0, T0, -1),
        bnez(T0, -8),
        csrwi(csr::LNICUCMD, 1),
        j(-48),
    ]);
    program
}

fn check_conservation(network: &Network) {
    let counts = network.counts();
    let ended = counts.delivered + counts.lost + counts.unknown + counts.overflow;
    assert_eq!(counts.sent, ended + network.in_flight());
}

#[test]
fn a_round_trip_has_every_part_of_its_time() {
    let costs = CostTable::default();
    let mut bed = bed(&echo(), 1, 1, &costs, LinkFaults::default());
    let start = Picos::from_nanos(10_000);
    bed.network.plan(bed.clients[0], start, to_device(16));
    bed.network.run(Picos::from_nanos(1_000_000));
    let received = bed.network.take_received(bed.clients[0]);
    assert_eq!(received.len(), 1);
    let get = |cost| Picos(costs.get(cost)).0;
    // Client's and device's egress, four links, two passes of the switch, four transmissions of 80
    // bytes, and the device's ingress; the rest is the program.
    let network = 2 * get(Cost::Egress)
        + 4 * get(Cost::Link)
        + 2 * get(Cost::Switch)
        + 4 * costs.wire_time(80).0
        + get(Cost::Ingress);
    let program = received[0].time.since(start).0 - network;
    assert!((1000..20_000).contains(&program), "{program} ps");
    check_conservation(&bed.network);
}

#[test]
fn a_slower_switch_adds_its_passes_to_the_picosecond() {
    let time = |switch: &str| {
        let costs = costs_of(&[switch]);
        let mut bed = bed(&echo(), 1, 1, &costs, LinkFaults::default());
        bed.network
            .plan(bed.clients[0], Picos::from_nanos(10_000), to_device(64));
        bed.network.run(Picos::from_nanos(1_000_000));
        bed.network.take_received(bed.clients[0])[0].time.0
    };
    let difference = time("switch=300000") - time("switch=1000");
    // A message arrives between two polls: one period of the loop is the difference at most.
    let polls = 3000;
    assert!(difference.abs_diff(2 * 299_000) <= polls, "{difference}");
}

#[test]
fn an_incast_of_80_messages_needs_no_timeout() {
    let costs = CostTable::default();
    let mut bed = bed(&echo(), 4, 80, &costs, LinkFaults::default());
    for &client in &bed.clients {
        bed.network
            .plan(client, Picos::from_nanos(10_000), to_device(1024));
    }
    bed.network.run(Picos::from_nanos(1_000_000));
    for &client in &bed.clients {
        assert_eq!(bed.network.take_received(client).len(), 1);
        assert_eq!(bed.network.transport_counts(client).timeouts, 0);
        assert_eq!(bed.network.buffers(client), (0, 0));
    }
    assert!(bed.network.counts().trimmed > 0, "the switch trims");
    assert_eq!(bed.network.buffers(bed.device), (0, 0));
    let device = bed.network.device(bed.device).unwrap();
    assert!(device.counts().most_outstanding <= 2);
    assert_eq!(device.counts().transport.timeouts, 0);
    check_conservation(&bed.network);
}

#[test]
fn ten_percent_of_loss_delivers_each_message_once_and_loses_no_buffer() {
    for seed in 0..5 {
        let costs = CostTable::default();
        let faults = LinkFaults {
            lost_per_mille: 100,
            seed,
        };
        let mut bed = bed(&echo(), 2, 4, &costs, faults);
        for &client in &bed.clients {
            for number in 0..50 {
                let time = Picos::from_nanos(10_000 + 300 * number);
                bed.network
                    .plan(client, time, to_device(1 + (number as usize * 41) % 2048));
            }
        }
        bed.network.run(Picos::from_nanos(50_000_000));
        assert_eq!(bed.network.next_time(), None, "nothing is left to do");
        assert!(bed.network.counts().lost > 0);
        for &client in &bed.clients {
            assert_eq!(bed.network.take_received(client).len(), 50);
            assert_eq!(bed.network.buffers(client), (0, 0));
        }
        assert_eq!(bed.network.buffers(bed.device), (0, 0));
        check_conservation(&bed.network);
    }
}

#[test]
fn jbsq_gives_no_core_more_than_its_bound_and_uses_all_cores() {
    for bound in [1, 2, 3] {
        let costs = costs_of(&["csr=500", &format!("jbsq={bound}")]);
        let mut bed = bed(&echo(), 3, 6, &costs, LinkFaults::default());
        for &client in &bed.clients {
            for number in 0..20 {
                bed.network
                    .plan(client, Picos::from_nanos(10_000 + number), to_device(512));
            }
        }
        bed.network.run(Picos::from_nanos(10_000_000));
        let device = bed.network.device(bed.device).unwrap();
        assert_eq!(device.counts().most_outstanding, bound);
        let busy: Vec<u64> = device.parts().map(|parts| parts.issue).collect();
        assert!(busy.iter().all(|&issue| issue > 1000), "{busy:?}");
    }
}

#[test]
fn the_result_does_not_depend_on_the_steps_of_time() {
    let run = |step: u64| {
        let costs = CostTable::default();
        let faults = LinkFaults {
            lost_per_mille: 50,
            seed: 3,
        };
        let mut bed = bed(&echo(), 2, 3, &costs, faults);
        for &client in &bed.clients {
            for number in 0..10 {
                bed.network.plan(
                    client,
                    Picos::from_nanos(10_000 + 77 * number),
                    to_device(1500),
                );
            }
        }
        let end = 2_000_000_000;
        let mut time = 0;
        while time < end {
            time += step;
            bed.network.run(Picos(time.min(end)));
        }
        let received: Vec<_> = bed
            .clients
            .iter()
            .map(|&client| bed.network.take_received(client))
            .collect();
        (received, bed.network.counts())
    };
    let once = run(2_000_000_000);
    assert_eq!(once, run(1_234_567));
}

#[test]
fn a_faulted_core_leaves_the_network_running() {
    // The program faults at its first message.
    let mut program = BIND.to_vec();
    program.extend([csrr(T0, csr::LMSGSRDY), beqz(T0, -4), ECALL]);
    let costs = costs_of(&["ndp-retries=3"]);
    let mut bed = bed(&program, 1, 2, &costs, LinkFaults::default());
    let healthy = Device::new(&image_of(&echo()), MEMORY, 1, DEVICE + 1, &costs);
    bed.network.add_device(DEVICE + 1, healthy);
    bed.network
        .plan(bed.clients[0], Picos::from_nanos(10_000), to_device(16));
    let other = RpcMessage {
        peer: DEVICE + 1,
        ..to_device(16)
    };
    bed.network
        .plan(bed.clients[1], Picos::from_nanos(20_000), other);
    bed.network.run(Picos::from_nanos(1_000_000));
    let device = bed.network.device(bed.device).unwrap();
    assert!(matches!(
        device.states().next(),
        Some(CoreState::Faulted(_))
    ));
    assert_eq!(bed.network.take_received(bed.clients[1]).len(), 1);
    assert!(bed.network.take_received(bed.clients[0]).is_empty());
}
