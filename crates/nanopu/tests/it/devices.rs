//! A device alone: blocked cores, buffers of messages that do not become whole, reservations.

use nanopu::wire::{DATA, Packet};
use nanopu::{CoreState, Device, LinkFaults, MEMORY_BASE, Network, Picos, RpcMessage, csr};

use crate::assembler::*;

const DEVICE: u32 = 0x0a00_0002;

fn device_of(words: &[u32], cores: usize, costs: &[&str]) -> Device {
    Device::new(&image_of(words), MEMORY, cores, DEVICE, &costs_of(costs))
}

/// The first part of a message of two parts, to context 0.
fn first_part() -> Packet {
    Packet {
        source: 0x0a00_0001,
        destination: DEVICE,
        flags: DATA,
        source_context: 9,
        destination_context: 0,
        message_bytes: 1030,
        packet_offset: 0,
        pull_offset: 0,
        message_id: 3,
        buffer: 0,
        buffer_class: 1,
        payload: vec![1; 1024],
    }
}

#[test]
fn a_core_that_polled_before_the_device_was_blocked_has_these_cycles_as_polling() {
    let costs = costs_of(&["tx-buffers=1"]);
    let mut network = Network::new(&costs, LinkFaults::default());
    let device = network.add_device(DEVICE, device_of(&loopback(), 2, &["tx-buffers=1"]));
    // The first core takes all messages one by one; answers wait for acknowledgements.
    let clients: Vec<_> = (0..20)
        .map(|i| network.add_client(DEVICE + 1 + i))
        .collect();
    for (number, &client) in (0..).zip(&clients) {
        let message = RpcMessage {
            context: 9,
            peer: DEVICE,
            peer_context: 0,
            bytes: vec![1; 16],
        };
        network.plan(client, Picos::from_nanos(1_000_000 + 50 * number), message);
    }
    network.run(Picos::from_nanos(1_100_000));
    for client in clients {
        assert_eq!(network.take_received(client).len(), 1);
    }
    let device = network.device(device).unwrap();
    // A millisecond has 3,200,000 cycles.
    for parts in device.parts() {
        assert!(parts.transmit < 320_000, "{parts:?}");
        assert!(parts.polling > 3_000_000, "{parts:?}");
    }
    assert!(device.parts().any(|parts| parts.transmit > 0));
}

#[test]
fn a_message_that_does_not_become_whole_frees_its_buffer_after_the_senders_last_try() {
    let mut device = device_of(&loopback(), 1, &["ndp-retries=2"]);
    device.step(Picos::from_nanos(10_000));
    device.receive_packet(first_part(), Picos::from_nanos(11_000));
    device.step(Picos::from_nanos(12_000));
    assert_eq!(device.buffers().1, 1);
    // Four timeouts of 9,375 ns.
    device.step(Picos::from_nanos(60_000));
    assert_eq!(device.buffers().1, 0);
    assert_eq!(device.counts().transport.incomplete, 1);
}

#[test]
fn a_removed_context_frees_the_buffers_of_its_messages_that_are_not_whole() {
    let mut program = BIND.to_vec();
    program.extend([addi(T0, ZERO, 2000), addi(T0, T0, -1), bnez(T0, -4)]);
    program.extend([csrwi(csr::LNICCMD, 2), j(0)]);
    let mut device = device_of(&program, 1, &["yield-limit=5000"]);
    device.receive_packet(first_part(), Picos::from_nanos(500));
    device.step(Picos::from_nanos(600));
    assert_eq!(device.buffers().1, 1);
    device.step(Picos::from_nanos(5000));
    assert_eq!(device.buffers().1, 0);
}

#[test]
fn a_packet_of_a_part_that_its_message_does_not_have_is_foreign() {
    let mut device = device_of(&loopback(), 1, &[]);
    device.step(Picos::from_nanos(10_000));
    let part = Packet {
        packet_offset: 200,
        ..first_part()
    };
    let long = Packet {
        message_bytes: u16::MAX,
        ..first_part()
    };
    device.receive_packet(part, Picos::from_nanos(11_000));
    device.receive_packet(long, Picos::from_nanos(11_000));
    device.step(Picos::from_nanos(20_000));
    assert_eq!(device.counts().transport.foreign, 2);
    assert_eq!(device.buffers().1, 0);
}

#[test]
fn a_store_over_two_lines_ends_the_reservations_of_both() {
    // The instruction at which core 0 stops; t1 is the second line.
    let stopped = |store: u32| {
        let program = [
            addi(T1, ZERO, 1),
            slli(T1, T1, 31),
            addi(T1, T1, 0x440),
            csrr(T0, 0xf14),
            bnez(T0, 8 * 4),
            // Core 0 reserves the line, and stores if it still has it.
            0x1003_33af, // lr.d t2, (t1)
            addi(T0, ZERO, 1000),
            addi(T0, T0, -1),
            bnez(T0, -4),
            0x1803_33af, // sc.d t2, zero, (t1)
            bnez(T2, 6 * 4),
            ECALL,
            // Core 1 stores in between.
            addi(T0, ZERO, 300),
            addi(T0, T0, -1),
            bnez(T0, -4),
            store,
            ECALL,
        ];
        let mut device = device_of(&program, 2, &[]);
        device.step(Picos::from_nanos(10_000));
        match device.states().next() {
            Some(CoreState::Faulted(fault)) => (fault.pc - MEMORY_BASE) / 4,
            state => panic!("{state:?}"),
        }
    };
    let (succeeds, fails) = (11, 16);
    assert_eq!(stopped(sd(ZERO, T1, -64)), succeeds);
    assert_eq!(stopped(sd(ZERO, T1, 8)), fails);
    assert_eq!(stopped(sd(ZERO, T1, -4)), fails);
}
