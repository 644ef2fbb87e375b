//! Each mistake of a program has a named fault with program counter and cycle.

use nanopu::csr;
use nanopu::{CoreFault, CoreState, FaultKind, MEMORY_BASE, SingleCore};

use crate::assembler::*;

/// Runs a program after binding context 0, and returns its fault.
fn fault_of(words: &[u32]) -> CoreFault {
    let mut program = BIND.to_vec();
    program.extend(words);
    end(core_of(&program))
}

fn end(mut core: SingleCore) -> CoreFault {
    core.run(100_000);
    match core.state() {
        CoreState::Faulted(fault) => fault,
        state => panic!("no fault: {state:?}"),
    }
}

#[test]
fn an_unknown_instruction_has_its_bits_and_its_place() {
    let fault = fault_of(&[mv(T0, ZERO), 0xffff_ffff]);
    assert_eq!(
        fault.kind,
        FaultKind::UnknownInstruction { bits: 0xffff_ffff }
    );
    assert_eq!(fault.pc, MEMORY_BASE + 16);
    assert!(fault.cycle > 0);
    let text = fault.to_string();
    assert!(
        text.contains("unknown-instruction at pc 0x80000010"),
        "{text}"
    );
}

#[test]
fn a_jump_outside_of_memory_has_its_target() {
    let fault = fault_of(&[addi(T0, ZERO, 0x40), jr(T0)]);
    assert_eq!(fault.kind, FaultKind::JumpOutsideMemory { target: 0x40 });
}

#[test]
fn accesses_outside_of_memory_have_their_address() {
    let load = fault_of(&[ld(T0, ZERO, 8)]).kind;
    assert_eq!(
        load,
        FaultKind::LoadOutsideMemory {
            address: 8,
            bytes: 8
        }
    );
    let store = fault_of(&[sd(T0, ZERO, -8)]).kind;
    assert_eq!(
        store,
        FaultKind::StoreOutsideMemory {
            address: u64::MAX - 7,
            bytes: 8
        }
    );
}

#[test]
fn reading_an_empty_queue_is_a_fault() {
    let kind = fault_of(&[mv(T0, NET_RX)]).kind;
    assert_eq!(kind, FaultKind::EmptyReceiveQueue { context: 0 });
}

#[test]
fn the_network_registers_have_one_direction() {
    assert_eq!(
        fault_of(&[addi(NET_RX, ZERO, 1)]).kind,
        FaultKind::WriteOfNetRx
    );
    assert_eq!(fault_of(&[mv(T0, NET_TX)]).kind, FaultKind::ReadOfNetTx);
}

/// t0 = a header for 10.0.0.1, context 9, with a length.
pub(crate) fn header(length: i32) -> Vec<u32> {
    let mut words = vec![
        addi(T0, ZERO, 10),
        slli(T0, T0, 24),
        addi(T0, T0, 1),
        slli(T0, T0, 16),
    ];
    words.extend([
        addi(T0, T0, 9),
        slli(T0, T0, 16),
        addi(T1, ZERO, 1),
        slli(T1, T1, 11),
    ]);
    // 2048 does not fit in an immediate.
    words.extend([addi(T0, T0, length)]);
    words
}

#[test]
fn more_words_than_announced_is_a_fault() {
    let mut program = header(8);
    program.extend([mv(NET_TX, T0), mv(NET_TX, ZERO), addi(NET_TX, ZERO, 7)]);
    let kind = fault_of(&program).kind;
    assert_eq!(
        kind,
        FaultKind::MoreWordsThanAnnounced {
            announced: 8,
            extra: 7
        }
    );
}

#[test]
fn fewer_words_than_announced_is_a_fault_at_the_end() {
    let mut program = header(24);
    program.extend([mv(NET_TX, T0), mv(NET_TX, ZERO), csrwi(csr::LNICUCMD, 1)]);
    let kind = fault_of(&program).kind;
    assert_eq!(
        kind,
        FaultKind::IncompleteMessage {
            announced: 24,
            written: 8
        }
    );
}

#[test]
fn a_message_without_bytes_or_with_too_many_is_a_fault() {
    for length in [0, 2047] {
        let mut program = header(length);
        program.extend([
            addi(T0, T0, if length == 0 { 0 } else { 2 }),
            mv(NET_TX, T0),
        ]);
        let kind = fault_of(&program).kind;
        let announced = if length == 0 { 0 } else { 2049 };
        assert_eq!(
            kind,
            FaultKind::BadMessageLength {
                announced,
                longest: 2048
            }
        );
    }
}

#[test]
fn misuse_of_csrs_is_a_fault() {
    assert_eq!(
        fault_of(&[csrwi(0x7ff, 1)]).kind,
        FaultKind::UnknownCsr { csr: 0x7ff }
    );
    let read_only = [
        csr::LMSGSRDY,
        csr::LNICRDY,
        csr::LTARGETCONTEXT,
        csr::LTARGETPRIORITY,
        csr::LMSGCYCLES,
        csr::LIDLECYCLES,
    ];
    for csr in read_only {
        assert_eq!(
            fault_of(&[csrwi(csr, 1)]).kind,
            FaultKind::ReadOnlyCsr { csr }
        );
    }
    let bad = fault_of(&[csrwi(csr::LNICCMD, 9)]).kind;
    assert_eq!(
        bad,
        FaultKind::BadCsrValue {
            csr: csr::LNICCMD,
            value: 9
        }
    );
    let bad = fault_of(&[csrwi(csr::LNICUCMD, 3)]).kind;
    assert_eq!(
        bad,
        FaultKind::BadCsrValue {
            csr: csr::LNICUCMD,
            value: 3
        }
    );
    let unbound = fault_of(&[csrwi(csr::LCURCONTEXT, 5), csrwi(csr::LNICUCMD, 1)]).kind;
    assert_eq!(unbound, FaultKind::UnboundContext { context: 5 });
}

#[test]
fn a_fifth_context_is_a_fault() {
    let program: Vec<u32> = (1..=4)
        .flat_map(|id| [csrwi(csr::LCURCONTEXT, id), csrwi(csr::LNICCMD, 1)])
        .collect();
    let fault = fault_of(&program);
    assert_eq!(fault.kind, FaultKind::TooManyContexts { limit: 4 });
    assert_eq!(fault.pc, MEMORY_BASE + 4 * (3 + 7));
}

#[test]
fn a_program_that_never_yields_is_stopped() {
    let mut core = core_with(&[j(0)], &["yield-limit=1000"]);
    core.run(u64::MAX);
    let CoreState::Faulted(fault) = core.state() else {
        panic!("{:?}", core.state());
    };
    assert_eq!(fault.kind, FaultKind::NeverYields { instructions: 1000 });
}

#[test]
fn words_that_are_not_read_are_a_fault_when_the_message_is_done() {
    let mut program = BIND.to_vec();
    program.extend([
        csrr(T0, csr::LMSGSRDY),
        beqz(T0, -4),
        mv(T1, NET_RX),
        mv(T1, NET_RX),
    ]);
    program.push(csrwi(csr::LNICUCMD, 1));
    let mut core = core_of(&program);
    core.deliver(500, message(0, &[0; 24]));
    assert_eq!(end(core).kind, FaultKind::UnreadWords { words: 2 });
}

#[test]
fn a_trap_handler_takes_exceptions_with_their_cause() {
    // mtvec = the instruction after the load.
    let program = [
        addi(T0, ZERO, 1),
        slli(T0, T0, 31),
        addi(T0, T0, 5 * 4),
        csrw(0x305, T0),
        ld(T1, ZERO, 16),
        csrr(T1, 0x342),
        csrr(T2, 0x343),
        csrr(9, 0x341),
        ECALL,
    ];
    let mut core = core_with(&program, &["yield-limit=100"]);
    for _ in 0..8 {
        core.step();
    }
    let register = |number| core.register(nanopu::instruction::Reg::new(number));
    assert_eq!((register(T1), register(T2)), (5, 16));
    assert_eq!(register(9), MEMORY_BASE + 16);
    let _ = MRET;
}

#[test]
fn a_misaligned_atomic_has_the_cause_of_a_load_or_of_a_store() {
    // lr.d t1, (t2) and amoadd.d t1, zero, (t2).
    for (atomic, cause) in [(0x1003_b32f, 4), (0x0003_b32f, 6)] {
        let program = [
            addi(T0, ZERO, 1),
            slli(T0, T0, 31),
            addi(T2, T0, 0x101),
            addi(T0, T0, 6 * 4),
            csrw(0x305, T0),
            atomic,
            csrr(T1, 0x342),
        ];
        let mut core = core_of(&program);
        for _ in 0..7 {
            core.step();
        }
        assert_eq!(core.register(nanopu::instruction::Reg::new(T1)), cause);
    }
}

#[test]
fn a_message_to_no_address_is_a_fault() {
    let kind = fault_of(&[addi(NET_TX, ZERO, 8)]).kind;
    assert_eq!(kind, FaultKind::NoDestination { announced: 8 });
    assert!(kind.to_string().contains("0.0.0.0"), "{kind}");
}
