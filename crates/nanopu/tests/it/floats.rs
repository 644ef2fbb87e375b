//! Exception flags at the ends of the range of exponents, which the host does not show.

use nanopu::CoreState;
use nanopu::instruction::Reg;

use crate::assembler::*;

/// Flags of `f1 op f2` in single precision with a rounding mode.
fn flags(opcode: u32, a: u32, b: u32, rounding: u32) -> u64 {
    let word = |value: u32, rd: u32| {
        let low = (value as i32) << 20 >> 20;
        let high = value.wrapping_sub(low as u32);
        vec![
            high | rd << 7 | 0x37,
            addi(rd, rd, low),
            0x78 << 25 | rd << 15 | rd << 7 | 0x53,
        ]
    };
    let mut program = word(a, 5);
    program.extend(word(b, 6));
    program.push(opcode << 25 | 6 << 20 | 5 << 15 | rounding << 12 | 7 << 7 | 0x53);
    program.extend([csrr(10, 1), ECALL]);
    let mut core = core_of(&program);
    core.run(10_000);
    assert!(matches!(core.state(), CoreState::Faulted(_)));
    core.register(Reg::new(10))
}

const ADD: u32 = 0x00;
const MUL: u32 = 0x08;
const MAX: u32 = 0x7f7f_ffff;
const MIN_NORMAL: u32 = 0x0080_0000;
const ONE: u32 = 0x3f80_0000;
const BELOW_ONE: u32 = 0x3f7f_ffff;
const TWO: u32 = 0x4000_0000;

#[test]
fn overflow_is_flagged_if_the_result_is_the_greatest_finite_number() {
    // Toward zero, the result is finite: overflow and inexact all the same.
    assert_eq!(flags(MUL, MAX, TWO, 1), 5);
    assert_eq!(flags(MUL, MAX, TWO, 0), 5);
    // A sum that rounds to the greatest number from a little above it has not overflowed.
    assert_eq!(flags(ADD, MAX, ONE, 0), 1);
    assert_eq!(flags(MUL, MAX, ONE, 1), 0);
}

#[test]
fn underflow_is_detected_after_rounding() {
    // Just below the least normal number with 24 bits, and the least normal number with fewer.
    assert_eq!(flags(MUL, 0x00ff_ffff, 0x3f00_0000, 0), 3);
    // Rounds up to the least normal number with 24 bits too: not tiny.
    assert_eq!(flags(MUL, 0x0080_0001, BELOW_ONE, 3), 1);
    assert_eq!(flags(MUL, MIN_NORMAL, BELOW_ONE, 0), 3);
    assert_eq!(flags(MUL, MIN_NORMAL, ONE, 0), 0);
}
