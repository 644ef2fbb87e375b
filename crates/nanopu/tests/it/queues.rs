//! Contexts, priorities and the message limit, as the CSRs say.

use nanopu::csr;
use nanopu::instruction::Reg;
use nanopu::{CoreState, Output, SingleCore};

use crate::assembler::*;

/// Binds contexts 0 and 1 with priorities, and ends at context 0.
fn bind_two(priorities: [u32; 2]) -> Vec<u32> {
    let bind = |id: u32| {
        [
            csrwi(csr::LCURCONTEXT, id),
            csrwi(csr::LCURPRIORITY, priorities[id as usize]),
            csrwi(csr::LNICCMD, 1),
        ]
    };
    let mut program = bind(1).to_vec();
    program.extend(bind(0));
    program
}

fn run_to_ecall(core: &mut SingleCore) {
    core.run(1_000_000);
    assert!(
        matches!(core.state(), CoreState::Faulted(_)),
        "{:?}",
        core.state()
    );
}

/// Waits for a number of cycles, about: a loop of two instructions.
fn wait(cycles: i32) -> [u32; 3] {
    [addi(T0, ZERO, cycles / 2), addi(T0, T0, -1), bnez(T0, -4)]
}

#[test]
fn ready_counts_the_messages_of_the_current_context_that_are_not_begun() {
    let mut program = bind_two([0, 0]);
    program.extend(wait(200));
    program.extend([
        csrr(10, csr::LMSGSRDY),
        mv(T1, NET_RX),
        csrr(11, csr::LMSGSRDY),
    ]);
    program.extend([csrwi(csr::LCURCONTEXT, 1), csrr(12, csr::LMSGSRDY), ECALL]);
    let mut core = core_of(&program);
    for context in [0, 1, 0, 0] {
        core.deliver(0, message(context, &[0; 8]));
    }
    // Messages of contexts that are not bound yet are not kept: deliver after the binding.
    let mut later = core_of(&program);
    for context in [0, 1, 0, 0] {
        later.deliver(400, message(context, &[0; 8]));
    }
    run_to_ecall(&mut later);
    let register = |number| later.register(Reg::new(number));
    assert_eq!((register(10), register(11), register(12)), (3, 2, 1));
    run_to_ecall(&mut core);
    assert_eq!(core.register(Reg::new(10)), 0);
}

#[test]
fn the_target_is_the_context_of_the_highest_priority_and_then_of_the_oldest_message() {
    for (priorities, order, expected) in [
        ([1, 0], [0, 1], 1),
        ([0, 1], [1, 0], 0),
        ([0, 0], [1, 0], 1),
        ([0, 0], [0, 1], 0),
    ] {
        let mut program = bind_two(priorities);
        program.extend(wait(400));
        program.extend([
            csrr(10, csr::LTARGETCONTEXT),
            csrr(11, csr::LTARGETPRIORITY),
            ECALL,
        ]);
        let mut core = core_of(&program);
        for context in order {
            core.deliver(400, message(context, &[0; 8]));
        }
        run_to_ecall(&mut core);
        assert_eq!(
            core.register(Reg::new(10)),
            expected,
            "{priorities:?} {order:?}"
        );
        let priority = u64::from(priorities[expected as usize]);
        assert_eq!(core.register(Reg::new(11)), priority);
    }
}

#[test]
fn the_message_limit_lowers_the_priority_until_the_message_is_done_and_drops_nothing() {
    let mut program = BIND.to_vec();
    program.extend(wait(300));
    program.extend([mv(T1, NET_RX), mv(T1, NET_RX), csrr(10, csr::LCURPRIORITY)]);
    program.extend(wait(3200));
    program.extend([csrr(11, csr::LCURPRIORITY), csrwi(csr::LNICUCMD, 1)]);
    program.extend([csrr(12, csr::LCURPRIORITY), csrr(13, csr::LMSGSRDY), ECALL]);
    let mut core = core_of(&program);
    for _ in 0..2 {
        core.deliver(300, message(0, &[0; 8]));
    }
    run_to_ecall(&mut core);
    let register = |number| core.register(Reg::new(number));
    assert_eq!((register(10), register(11), register(12)), (0, 1, 0));
    assert_eq!(register(13), 1, "the other message is still there");
    assert_eq!(core.evictions(), 1);
}

#[test]
fn the_scheduler_interrupts_a_context_for_one_of_a_higher_priority() {
    // The handler is at 19 x 4: it takes the target and counts the interrupt in x20.
    let mut program = bind_two([1, 0]);
    program.extend([
        addi(T0, ZERO, 1),
        slli(T0, T0, 31),
        addi(T0, T0, 4 * 19),
        csrw(0x305, T0),
    ]);
    program.extend([
        addi(T0, ZERO, 1),
        slli(T0, T0, 16),
        csrw(0x304, T0),
        csrwi(0x300, 8),
    ]);
    program.extend(wait(600));
    // Without a handler, `ecall` is the end.
    program.extend([csrwi(0x305, 0), ECALL]);
    assert_eq!(program.len(), 19);
    program.extend([
        csrr(21, csr::LTARGETCONTEXT),
        csrw(csr::LCURCONTEXT, 21),
        csrr(22, 0x342),
        mv(23, NET_RX),
        mv(23, NET_RX),
        csrwi(csr::LNICUCMD, 1),
        addi(20, 20, 1),
        MRET,
    ]);
    let mut core = core_of(&program);
    core.deliver(700, message(1, &[7; 8]));
    run_to_ecall(&mut core);
    let register = |number| core.register(Reg::new(number));
    assert_eq!((register(20), register(21)), (1, 1));
    assert_eq!(register(22), 1 << 63 | u64::from(csr::SCHEDULER_INTERRUPT));
    assert_eq!(register(23), 0x0707_0707_0707_0707);
}

#[test]
fn timers_count_cycles_in_process_and_idle() {
    let mut program = BIND.to_vec();
    program.extend([csrwi(csr::LNICCMD, 4)]);
    program.extend([
        csrwi(csr::LNICUCMD, 2),
        csrr(T0, csr::LMSGSRDY),
        beqz(T0, -8),
    ]);
    program.extend([mv(T1, NET_RX), mv(T1, NET_RX)]);
    program.extend(wait(400));
    program.push(csrwi(csr::LNICUCMD, 1));
    program.extend([csrr(10, csr::LMSGCYCLES), csrr(11, csr::LIDLECYCLES), ECALL]);
    let mut core = core_of(&program);
    core.deliver(10_000, message(0, &[0; 8]));
    run_to_ecall(&mut core);
    let register = |number| core.register(Reg::new(number));
    assert!((400..900).contains(&register(10)), "{}", register(10));
    assert!((9000..10_100).contains(&register(11)), "{}", register(11));
}

#[test]
fn removing_a_context_reports_the_messages_that_it_had() {
    let mut program = BIND.to_vec();
    program.extend(wait(400));
    program.extend([csrwi(csr::LNICCMD, 2), ECALL]);
    let mut core = core_of(&program);
    core.deliver(300, message(0, &[0; 8]));
    core.deliver(300, message(0, &[0; 8]));
    let outputs = core.run(1_000_000);
    assert!(
        outputs
            .iter()
            .any(|(_, output)| *output == Output::Removed(0, 2))
    );
}
