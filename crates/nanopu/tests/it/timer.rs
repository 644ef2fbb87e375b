//! The timer: `mtimecmp` and `mtime`, `mip`, the interrupt, and that waiting costs no host time.

use nanopu::instruction::Reg;
use nanopu::{CoreState, FaultKind, SingleCore};

use crate::assembler::*;

const MIE: u16 = 0x304;
const MTVEC: u16 = 0x305;
const MSTATUS: u16 = 0x300;
const MCAUSE: u16 = 0x342;
const MIP: u16 = 0x344;
const TIMER: u32 = 1 << 7;

/// Puts `mtimecmp` into t1 and a time in nanoseconds into it.
fn set_timer(nanoseconds: i32) -> [u32; 6] {
    [
        // 0x0200_4000
        addi(T1, ZERO, 0x400),
        slli(T1, T1, 3),
        addi(T1, T1, 4),
        slli(T1, T1, 12),
        addi(T0, ZERO, nanoseconds),
        sd(T0, T1, 0),
    ]
}

fn run(core: &mut SingleCore, cycles: u64) {
    core.run(cycles);
    assert!(
        matches!(core.state(), CoreState::Faulted(fault) if fault.kind == FaultKind::EnvironmentCall),
        "{:?}",
        core.state()
    );
}

#[test]
fn the_timer_is_pending_from_its_time_on_and_until_it_is_set_again() {
    let mut program = set_timer(2000).to_vec();
    program.extend([csrr(10, MIP), csrr(T2, MIP), beqz(T2, -4)]);
    // The time is in the address after it, 0x0200_bff8: 0x7ff8 more.
    program.extend([addi(T2, ZERO, 0x7ff), slli(T2, T2, 4), addi(T2, T2, 8)]);
    program.push(0x0073_03b3); // add t2, t1, t2
    program.extend([
        ld(11, T2, 0),
        addi(T0, ZERO, -1),
        sd(T0, T1, 0),
        csrr(12, MIP),
    ]);
    program.extend([ld(13, T1, 0), ECALL]);
    let mut core = core_of(&program);
    run(&mut core, 100_000);
    let register = |number| core.register(Reg::new(number));
    assert_eq!((register(10), register(12)), (0, 0));
    assert!((2000..2300).contains(&register(11)), "{}", register(11));
    assert_eq!(register(13), u64::MAX);
}

#[test]
fn the_interrupt_of_the_timer_goes_to_the_handler() {
    let mut program = set_timer(1000).to_vec();
    // The handler is the last two instructions.
    program.extend([0x0000_0297, addi(T0, T0, 28), csrw(MTVEC, T0)]); // auipc t0, 0
    program.extend([addi(T0, ZERO, TIMER as i32), csrw(MIE, T0)]);
    program.extend([csrwi(MSTATUS, 8), j(0), csrr(10, MCAUSE), j(0)]);
    let mut core = core_of(&program);
    core.run(3_100);
    assert_eq!(core.register(Reg::new(10)), 0);
    core.run(3_300);
    assert_eq!(core.register(Reg::new(10)), 1 << 63 | 7);
}

#[test]
fn waiting_for_the_timer_is_skipped_and_ends_at_its_time() {
    let mut program = BIND.to_vec();
    // 2047 us from now on: a loop of instructions would be five million.
    program.extend(set_timer(2047));
    program.extend([
        slli(T0, T0, 10),
        sd(T0, T1, 0),
        csrr(T2, nanopu::csr::LMSGSRDY),
        csrr(11, MIP),
        csrwi(nanopu::csr::LNICUCMD, 2),
        beqz(11, -12),
        ECALL,
    ]);
    let mut core = core_of(&program);
    run(&mut core, 10_000_000);
    let expected = 2047 * 1024 * 16 / 5;
    assert!(core.cycle().abs_diff(expected) < 100, "{}", core.cycle());
    let parts = core.parts();
    assert!(parts.polling * 100 > parts.total() * 99, "{parts:?}");
}

#[test]
fn other_accesses_near_the_timer_are_faults() {
    // Another core's timer, and a word of this one's.
    for access in [sd(T0, T1, 8), ld(T0, T1, 8), 0x0003_2283] {
        let mut program = set_timer(1).to_vec();
        program.push(access);
        let mut core = core_of(&program);
        core.run(10_000);
        let CoreState::Faulted(fault) = core.state() else {
            panic!("{:?}", core.state());
        };
        let name = fault.kind.name();
        assert!(name.ends_with("outside-memory"), "{name}");
    }
}
