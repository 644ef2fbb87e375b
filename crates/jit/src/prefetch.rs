//! Prefetches in native code. Cranelift's IR has none: a prefetch is a load of two bytes that nobody uses and that alone says what to do if it traps
//! ([`flags`]); when its function has been compiled, [`make`] writes the instruction over it, which is as long. So any place may be prefetched, as it is with that instruction: none of these loads is ever
//! run.
//!
//! Encodings: AMD64 Architecture Programmer's Manual, volume 3, `MOVZX` (0F B7 /r) and `PREFETCHlevel` (0F 18 /1).

use std::fmt;

use cranelift_codegen::ir::{MemFlags, TrapCode};

/// What loads say that are to become prefetches.
pub(crate) const MARK: TrapCode = TrapCode::unwrap_user(1);

/// Whether there are prefetches on this processor.
pub(crate) const ARE_THERE: bool = cfg!(target_arch = "x86_64");

/// How the load of a place that is to be prefetched is marked.
pub(crate) fn flags() -> MemFlags {
    MemFlags::new().with_trap_code(Some(MARK))
}

/// A load that is to become a prefetch is encoded otherwise than it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prefetch in place of an instruction that is not known")
    }
}

/// Makes prefetches of the instructions of a function's code that begin at these places and may trap so.
///
/// # Errors
/// One of them is no such load. The code must not be run.
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

/// Writes a prefetch over a load: its prefix for registers, its opcode, and the byte that tells the operands.
fn write_over(load: &mut [u8; 4]) -> Result<(), Unknown> {
    let [prefix, opcode @ .., operands] = load;
    let is_load = *prefix & 0xf0 == 0x40 && opcode == &[0x0f, 0xb7] && *operands < 0xc0;
    if !is_load {
        return Err(Unknown);
    }
    // Of the prefix, what belongs to the address stays; in place of the register there is the cache's level, the first.
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
        // `movzx r9, word [r12 + 8 * r15 + 0x10]`, twice, one of them marked.
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
        // A load of four bytes, one without a prefix, a move between registers, and one that the code ends in.
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
