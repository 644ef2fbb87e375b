//! Costs: each parameter changes the cycles of a program that depends on it, and no other.

use nanopu::csr;
use nanopu::instruction::Reg;
use nanopu::{CoreState, CycleParts};

use crate::assembler::*;

fn op(funct7: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x33
}

/// Cycles of a program to its `ecall`, by parts. Fetch misses are not counted: their number
/// depends on the length.
fn parts(words: &[u32], costs: &[&str]) -> CycleParts {
    let mut all = vec!["llc=0", "dram=0"];
    all.extend(costs);
    let mut program = words.to_vec();
    program.push(ECALL);
    let mut core = core_with(&program, &all);
    core.run(1_000_000);
    assert!(matches!(core.state(), CoreState::Faulted(_)));
    assert_eq!(core.parts().total(), core.cycle());
    core.parts()
}

#[test]
fn an_instruction_issues_each_cycle() {
    let parts = parts(&[addi(T0, ZERO, 1), addi(T0, T0, 1), addi(T0, T0, 1)], &[]);
    assert_eq!(
        parts,
        CycleParts {
            issue: 3,
            ..CycleParts::default()
        }
    );
}

#[test]
fn a_result_that_is_used_at_once_is_waited_for() {
    let base = [addi(T1, ZERO, 1), slli(T1, T1, 31)];
    let with = |last: &[u32]| [&base[..], last].concat();
    let stall = |last: &[u32], costs: &[&str]| parts(&with(last), costs).operands;
    let load = [ld(T0, T1, 0), addi(T0, T0, 1)];
    assert_eq!(stall(&load, &[]), 1);
    assert_eq!(stall(&load, &["load-use=4"]), 4);
    // Another instruction between them hides the cycle.
    assert_eq!(
        stall(&[ld(T0, T1, 0), addi(T2, ZERO, 0), addi(T0, T0, 1)], &[]),
        0
    );
}

#[test]
fn products_and_quotients_of_small_numbers_are_there_early() {
    // T1 is 2^31, or 1.
    let stall = |instruction: u32, costs: &[&str], is_small: bool| {
        let mut program = vec![addi(T1, ZERO, 1), slli(T1, T1, 31)];
        program.truncate(2 - usize::from(is_small));
        program.extend([instruction, addi(T0, T0, 1)]);
        parts(&program, costs).operands
    };
    let product = op(1, 0, T0, T1, T1);
    assert_eq!(stall(product, &[], false), 6);
    assert_eq!(stall(product, &[], true), 3);
    for is_small in [false, true] {
        assert_eq!(stall(product, &["multiply-exit=0"], is_small), 9);
        assert_eq!(stall(op(1, 1, T0, T1, T1), &[], is_small), 9);
        assert_eq!(stall(op(1, 5, T0, T1, T1), &[], is_small), 4);
        let costs = ["divide-exit=0", "divide=20"];
        assert_eq!(stall(op(1, 5, T0, T1, T1), &costs, is_small), 19);
    }
    // By zero there is no exit.
    assert_eq!(stall(op(1, 5, T0, T1, ZERO), &[], false), 66);
}

#[test]
fn the_multiplier_and_divider_takes_one_operation_at_a_time() {
    let base = [addi(T1, ZERO, 1), slli(T1, T1, 31)];
    let two = [op(1, 0, T0, T1, T1), op(1, 0, T2, T1, T1)];
    assert_eq!(parts(&[&base[..], &two].concat(), &[]).operands, 6);
    let apart = [two[0], addi(ZERO, ZERO, 0), addi(ZERO, ZERO, 0), two[1]];
    assert_eq!(parts(&[&base[..], &apart].concat(), &[]).operands, 4);
}

#[test]
fn a_late_word_goes_to_the_network_when_it_is_there() {
    let mut program = BIND.to_vec();
    program.extend(crate::faults::header(8));
    program.extend([addi(T1, ZERO, 1), slli(T1, T1, 31), mv(NET_TX, T0)]);
    program.push(ld(NET_TX, T1, 0));
    assert_eq!(parts(&program, &[]).operands, 1);
    assert_eq!(parts(&program, &["load-use=4"]).operands, 4);
    program.pop();
    program.push(op(1, 0, NET_TX, T1, T1));
    assert_eq!(parts(&program, &["multiply-exit=0"]).operands, 9);
}

#[test]
fn a_csr_costs_its_flush_when_written_and_its_use_when_read() {
    let write = [csrwi(csr::LCURCONTEXT, 0)];
    assert_eq!(parts(&write, &[]).system, 4);
    assert_eq!(parts(&write, &["csr-flush=0"]).system, 0);
    // mscratch does not flush, and a read writes nothing.
    assert_eq!(parts(&[csrwi(0x340, 0)], &[]).system, 0);
    let read = [csrr(T0, csr::LCURCONTEXT), addi(T0, T0, 1)];
    assert_eq!(parts(&read, &[]).system, 0);
    assert_eq!(parts(&read, &[]).operands, 2);
    assert_eq!(parts(&read, &["csr-use=7"]).operands, 7);
}

#[test]
fn without_a_network_x31_is_waited_for_like_the_others() {
    let program = [
        addi(T1, ZERO, 1),
        slli(T1, T1, 31),
        ld(NET_TX, T1, 0),
        addi(T0, NET_TX, 1),
        ECALL,
    ];
    let mut core = core_with(&program, &["llc=0", "dram=0"]).without_network();
    core.run(1000);
    assert_eq!(core.parts().operands, 1);
}

#[test]
fn branches_cost_until_they_are_learned() {
    // A loop of 1000 rounds: the first rounds and the last are not predicted.
    let program = [addi(T0, ZERO, 1000), addi(T0, T0, -1), bnez(T0, -4)];
    let control = parts(&program, &[]).control;
    assert!((6..=60).contains(&control), "{control}");
    assert_eq!(parts(&program, &["mispredict=6"]).control, 2 * control);
    assert_eq!(parts(&program, &["mispredict=0"]).control, 0);
}

#[test]
fn misses_cost_the_shared_cache_and_then_memory() {
    let base = [addi(T1, ZERO, 1), slli(T1, T1, 31), addi(T1, T1, 1024)];
    let with = |last: &[u32]| [&base[..], last].concat();
    let cold = with(&[ld(T0, T1, 0), addi(T0, T0, 1)]);
    let stall = |costs: &[&str]| parts(&cold, costs).operands;
    assert_eq!(stall(&["llc=20"]), 21);
    // 10 ns are 32 cycles.
    assert_eq!(stall(&["llc=20", "dram=10000"]), 1 + 20 + 32);
    let warm = with(&[
        ld(T2, T1, 0),
        addi(T2, T2, 1),
        ld(T0, T1, 8),
        addi(T0, T0, 1),
    ]);
    assert_eq!(parts(&warm, &["llc=20"]).operands, 21 + 1);
}

#[test]
fn the_paper_loopback_takes_its_instructions_and_no_stall_when_it_is_warm() {
    let mut core = core_of(&loopback());
    for number in 1..=100 {
        core.deliver(number * 1000, message(0, &[1; 16]));
    }
    let outputs = core.run(101_000);
    let last = outputs
        .iter()
        .rev()
        .find(|(_, o)| matches!(o, nanopu::Output::Message(_)));
    let (cycle, _) = last.unwrap();
    // The poll, the branch that leaves the loop, and three words.
    let latency = cycle - 100_000;
    assert!((6..=14).contains(&latency), "{latency}");
    assert_eq!(core.register(Reg::ZERO), 0);
}

/// Times from the last bit of a request to the first bit of its answer, over all phases of the
/// polling loop.
fn wire_to_wire(image: &nanopu::Image, memory: usize) -> Vec<f64> {
    use nanopu::wire::{DATA, Packet};
    use nanopu::{Device, Picos};
    let costs = costs_of(&[]);
    let mut device = Device::new(image, memory, 1, 0x0a00_0002, &costs);
    let mut times = Vec::new();
    for number in 0..200u64 {
        // 101 is no multiple of a cycle: the phases are spread.
        let arrival = Picos(10_000_000 + number * 1_000_101);
        let request = Packet {
            source: 0x0a00_0001,
            destination: 0x0a00_0002,
            flags: DATA,
            source_context: 9,
            destination_context: 0,
            message_bytes: 16,
            packet_offset: 0,
            pull_offset: 0,
            message_id: number as u16,
            buffer: 0,
            buffer_class: 0,
            payload: vec![1; 16],
        };
        device.receive(&request.to_frame(), arrival);
        device.step(arrival + Picos(900_000));
        let sent = device.take_sent();
        let answer = sent
            .iter()
            .find(|(_, packet)| packet.flags == DATA)
            .unwrap();
        // The first bit of the request is the transmission earlier.
        times.push(answer.0.since(arrival).as_nanos());
        // Without an acknowledgement it is sent again, after the end of this round.
        let mut ack = answer.1.clone();
        std::mem::swap(&mut ack.source, &mut ack.destination);
        std::mem::swap(&mut ack.source_context, &mut ack.destination_context);
        (ack.flags, ack.payload) = (nanopu::wire::ACK, Vec::new());
        device.receive_packet(ack, arrival + Picos(950_000));
    }
    // The first is slower: nothing is in the caches.
    times.split_off(1)
}

#[test]
fn a_loopback_takes_65_nanoseconds_from_wire_to_wire() {
    let times = wire_to_wire(&image_of(&loopback()), MEMORY);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let most = times.iter().copied().fold(0.0, f64::max);
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    assert!((mean - 65.0).abs() < 0.5, "{least} {mean} {most}");
    assert!(
        most - least < 4.0,
        "the phase of the loop: {least} to {most}"
    );
}
