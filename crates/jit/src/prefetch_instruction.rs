//! Prefetch instructions in native code. Cranelift's IR has no prefetch, so the translator emits a
//! two-byte load with an unused result and a unique trap code ([`flags`]). After compilation,
//! [`make`] overwrites it with the prefetch instruction, which has the same length. These loads are
//! never executed, so any address may be prefetched.
//!
//! Encodings: AMD64 Architecture Programmer's Manual, volume 3, `MOVZX` (0F B7 /r) and
//! `PREFETCHlevel` (0F 18 /1).

use std::fmt;

use cranelift_codegen::ir::{MemFlags, TrapCode};

/// Trap code of loads that become prefetches.
pub(crate) const MARK: TrapCode = TrapCode::unwrap_user(1);

/// True if prefetches are supported on this processor.
pub(crate) const ARE_THERE: bool = cfg!(target_arch = "x86_64");

/// Returns the flags of a load that becomes a prefetch.
pub(crate) fn flags() -> MemFlags {
    MemFlags::new().with_trap_code(Some(MARK))
}

/// Error: a load that should become a prefetch has an unexpected encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prefetch in place of an instruction that is not known")
    }
}

/// Replaces the marked loads in a function's code by prefetches. `traps` lists the offsets and trap
/// codes of all instructions that may trap.
///
/// # Errors
/// A marked instruction is not such a load. The code must not be run.
pub(crate) fn make(
    code: &mut [u8],
    traps: impl Iterator<Item = (usize, TrapCode)>,
) -> Result<(), Unknown> {
    for (at, _) in traps.filter(|&(_, trap)| trap == MARK) {
        let load = code.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
        write_over(load.ok_or(Unknown)?)?;
    }
    Ok(())
}

/// Overwrites a load with a prefetch. The bytes are the REX prefix, the opcode, and the ModRM byte.
fn write_over(load: &mut [u8; 4]) -> Result<(), Unknown> {
    let [prefix, opcode @ .., operands] = load;
    let is_load = *prefix & 0xf0 == 0x40 && opcode == &[0x0f, 0xb7] && *operands < 0xc0;
    if !is_load {
        return Err(Unknown);
    }
    // Keep the bits of the prefix that belong to the address. The register field of ModRM becomes
    // the cache level, which is 1 for `prefetcht0`.
    *prefix &= 0x43;
    *opcode = [0x0f, 0x18];
    *operands = *operands & 0xc7 | 1 << 3;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_load_becomes_a_prefetch_of_the_same_place() {
        // `movzx r9, word [r12 + 8 * r15 + 0x10]`, twice. One of them is marked.
        let load = [0x4f, 0x0f, 0xb7, 0x4c, 0xfc, 0x10];
        let mut code = [load, load].concat();
        let other = TrapCode::unwrap_user(2);
        let made = make(&mut code, [(0, other), (6, MARK)].into_iter());
        assert_eq!(made, Ok(()));
        assert_eq!(code[..6], load);
        // `prefetcht0 [r12 + 8 * r15 + 0x10]`.
        assert_eq!(code[6..], [0x43, 0x0f, 0x18, 0x4c, 0xfc, 0x10]);
    }

    #[test]
    fn what_is_no_such_load_is_refused() {
        // A four-byte load, one without a prefix, a register move, and a load that is cut off.
        let others: [&[u8]; 4] = [
            &[0x48, 0x8b, 0x07, 0x90],
            &[0x0f, 0xb7, 0x07, 0x90],
            &[0x48, 0x0f, 0xb7, 0xc7],
            &[0x48, 0x0f, 0xb7],
        ];
        for other in others {
            let mut code = other.to_vec();
            let made = make(&mut code, [(0, MARK)].into_iter());
            assert_eq!((made, &*code), (Err(Unknown), other));
        }
    }
}
