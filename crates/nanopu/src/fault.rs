//! Named faults: mistakes of a program that stop its core.

use std::fmt;

/// Reason for which a core stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages have the fields")]
pub enum FaultKind {
    /// A jump, a branch or the entry point leads outside of memory.
    JumpOutsideMemory { target: u64 },
    /// An instruction is not of RV64IMAFDC with Zicsr and Zifencei.
    UnknownInstruction { bits: u32 },
    /// A load or an atomic instruction reads outside of memory.
    LoadOutsideMemory { address: u64, bytes: u8 },
    /// A store or an atomic instruction writes outside of memory.
    StoreOutsideMemory { address: u64, bytes: u8 },
    /// The address of an atomic instruction that writes is not a multiple of its width.
    MisalignedAtomic { address: u64, bytes: u8 },
    /// The address of a load with reservation is not a multiple of its width.
    MisalignedReserved { address: u64, bytes: u8 },
    /// `ecall` without a trap handler.
    EnvironmentCall,
    /// `ebreak` without a trap handler.
    Breakpoint,
    /// `netRX` (x30) is read and the queue of the current context is empty.
    EmptyReceiveQueue { context: u16 },
    /// `netRX` (x30) is written.
    WriteOfNetRx,
    /// `netTX` (x31) is read.
    ReadOfNetTx,
    /// `netRX`, `netTX`, `lmsgdone` or `lidle` is used and the current context is not bound.
    UnboundContext { context: u16 },
    /// The first word of a message announces no bytes, or more than the longest message has.
    BadMessageLength { announced: u16, longest: u16 },
    /// The first word of a message has address 0.
    NoDestination { announced: u16 },
    /// The word after a whole message is not the first word of another one.
    MoreWordsThanAnnounced { announced: u16, extra: u64 },
    /// A message is not whole when the program writes `lmsgdone` or `lidle`.
    IncompleteMessage { announced: u16, written: u16 },
    /// Words of the current message are not read when the program writes `lmsgdone`.
    UnreadWords { words: u16 },
    /// A CSR that the core does not have.
    UnknownCsr { csr: u16 },
    /// A write of a read-only CSR.
    ReadOnlyCsr { csr: u16 },
    /// A value that the CSR does not accept.
    BadCsrValue { csr: u16, value: u64 },
    /// `lniccmd` binds more contexts than the core has queues for.
    TooManyContexts { limit: u16 },
    /// The program neither polls, reads, writes nor waits for a number of instructions.
    NeverYields { instructions: u64 },
}

impl FaultKind {
    /// Returns a short name that does not change between versions.
    pub fn name(self) -> &'static str {
        match self {
            Self::JumpOutsideMemory { .. } => "jump-outside-memory",
            Self::UnknownInstruction { .. } => "unknown-instruction",
            Self::LoadOutsideMemory { .. } => "load-outside-memory",
            Self::StoreOutsideMemory { .. } => "store-outside-memory",
            Self::MisalignedAtomic { .. } | Self::MisalignedReserved { .. } => "misaligned-atomic",
            Self::EnvironmentCall => "environment-call",
            Self::Breakpoint => "breakpoint",
            Self::EmptyReceiveQueue { .. } => "empty-receive-queue",
            Self::WriteOfNetRx => "write-of-netrx",
            Self::ReadOfNetTx => "read-of-nettx",
            Self::UnboundContext { .. } => "unbound-context",
            Self::BadMessageLength { .. } => "bad-message-length",
            Self::NoDestination { .. } => "no-destination",
            Self::MoreWordsThanAnnounced { .. } => "more-words-than-announced",
            Self::IncompleteMessage { .. } => "incomplete-message",
            Self::UnreadWords { .. } => "unread-words",
            Self::UnknownCsr { .. } => "unknown-csr",
            Self::ReadOnlyCsr { .. } => "read-only-csr",
            Self::BadCsrValue { .. } => "bad-csr-value",
            Self::TooManyContexts { .. } => "too-many-contexts",
            Self::NeverYields { .. } => "never-yields",
        }
    }

    /// Returns the exception code and `mtval` of the privileged specification (table 14), if a
    /// trap handler can take this fault.
    pub(crate) fn exception(self) -> Option<(u64, u64)> {
        Some(match self {
            Self::JumpOutsideMemory { target } => (1, target),
            Self::UnknownInstruction { bits } => (2, u64::from(bits)),
            Self::UnknownCsr { .. } | Self::ReadOnlyCsr { .. } => (2, 0),
            Self::Breakpoint => (3, 0),
            Self::MisalignedReserved { address, .. } => (4, address),
            Self::LoadOutsideMemory { address, .. } => (5, address),
            Self::MisalignedAtomic { address, .. } => (6, address),
            Self::StoreOutsideMemory { address, .. } => (7, address),
            Self::EnvironmentCall => (11, 0),
            _ => return None,
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = crate::csr::name;
        match *self {
            Self::JumpOutsideMemory { target } => write!(
                f,
                "a jump leads to {target:#x}, outside of memory; link the program for the memory of the core"
            ),
            Self::UnknownInstruction { bits } => write!(
                f,
                "instruction {bits:#010x} is not of RV64IMAFDC; compile with -march=rv64imafdc"
            ),
            Self::LoadOutsideMemory { address, bytes } => {
                write!(
                    f,
                    "a load of {bytes} bytes at {address:#x} is outside of memory"
                )
            }
            Self::StoreOutsideMemory { address, bytes } => {
                write!(
                    f,
                    "a store of {bytes} bytes at {address:#x} is outside of memory"
                )
            }
            Self::MisalignedAtomic { address, bytes }
            | Self::MisalignedReserved { address, bytes } => write!(
                f,
                "an atomic instruction of {bytes} bytes at {address:#x} is not aligned"
            ),
            Self::EnvironmentCall => {
                write!(
                    f,
                    "ecall without a trap handler; write its address to mtvec first"
                )
            }
            Self::Breakpoint => {
                write!(
                    f,
                    "ebreak without a trap handler; write its address to mtvec first"
                )
            }
            Self::EmptyReceiveQueue { context } => write!(
                f,
                "netRX (x30) is read and context {context} has no word; read lmsgsrdy first, and no more words than the message has"
            ),
            Self::WriteOfNetRx => write!(
                f,
                "netRX (x30) is written; compile with -ffixed-x30 and write to netTX (x31)"
            ),
            Self::ReadOfNetTx => write!(
                f,
                "netTX (x31) is read; compile with -ffixed-x31 and read from netRX (x30)"
            ),
            Self::UnboundContext { context } => write!(
                f,
                "context {context} is not bound; write lcurcontext, lcurpriority, and 1 to lniccmd first"
            ),
            Self::BadMessageLength { announced, longest } => write!(
                f,
                "the first word of a message announces {announced} bytes; a message has 1 to {longest}"
            ),
            Self::NoDestination { announced } => write!(
                f,
                "the first word of a message of {announced} bytes has address 0.0.0.0; write the peer's IPv4 address to bits 63 to 32"
            ),
            Self::MoreWordsThanAnnounced { announced, extra } => write!(
                f,
                "a message of {announced} bytes is whole and word {extra:#018x} follows it, which starts no other message"
            ),
            Self::IncompleteMessage { announced, written } => write!(
                f,
                "the message announces {announced} bytes and has {written} when the program is done; write all of its words, or check that the message before it has no more words than it announced"
            ),
            Self::UnreadWords { words } => write!(
                f,
                "lmsgdone is written and {words} words of the message are not read; read them first"
            ),
            Self::UnknownCsr { csr } => write!(f, "the core has no CSR {csr:#05x}"),
            Self::ReadOnlyCsr { csr } => {
                write!(
                    f,
                    "CSR {csr:#05x} ({}) is read-only",
                    name(csr).unwrap_or("?")
                )
            }
            Self::BadCsrValue { csr, value } => write!(
                f,
                "CSR {csr:#05x} ({}) does not accept {value:#x}",
                name(csr).unwrap_or("?")
            ),
            Self::TooManyContexts { limit } => {
                write!(
                    f,
                    "the core has queues for {limit} contexts; remove one first"
                )
            }
            Self::NeverYields { instructions } => write!(
                f,
                "{instructions} instructions without lmsgsrdy, netRX, netTX, lmsgdone, lidle or wfi; poll lmsgsrdy in the main loop"
            ),
        }
    }
}

/// A fault with the place and the time at which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreFault {
    /// Reason.
    pub kind: FaultKind,
    /// Address of the instruction.
    pub pc: u64,
    /// Cycle of the core.
    pub cycle: u64,
}

impl fmt::Display for CoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, pc, cycle } = self;
        write!(
            f,
            "fault {} at pc {pc:#x}, cycle {cycle}: {kind}",
            kind.name()
        )
    }
}

impl std::error::Error for CoreFault {}
