//! Records of executed instructions.

use std::fmt;

use crate::instruction::{Instruction, Reg};

/// An executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// Cycle in which it issued.
    pub cycle: u64,
    /// Address.
    pub pc: u64,
    /// Encoding; 16 bits for a compressed instruction.
    pub bits: u32,
    /// Decoded form.
    pub instruction: Instruction,
    /// Integer register that it wrote, with the value.
    pub written: Option<(Reg, u64)>,
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cycle,
            pc,
            bits,
            instruction,
            written,
        } = self;
        write!(f, "{cycle:>8} {pc:#010x} {bits:08x} {instruction:?}")?;
        if let Some((rd, value)) = written {
            write!(f, " -> x{}={value:#x}", rd.index())?;
        }
        Ok(())
    }
}
