//! Records of executed instructions.

use std::fmt;
use std::net::Ipv4Addr;

use support::count::count;

use crate::instruction::{Instruction, Reg};
use crate::queues::Output;

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
        let assembly = instruction.assembly(*pc);
        match written {
            Some((rd, value)) => write!(
                f,
                "{cycle:>8} {pc:#010x} {bits:08x} {assembly:<28} {rd}={value:#x}"
            ),
            None => write!(f, "{cycle:>8} {pc:#010x} {bits:08x} {assembly}"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => {
                let peer = Ipv4Addr::from(message.peer);
                write!(
                    f,
                    "message from context {} to {peer}, context {}: {}",
                    message.context,
                    message.peer_context,
                    hex(&message.bytes)
                )
            }
            Self::Done(context) => write!(f, "done with a message of context {context}"),
            Self::Bound(context) => write!(f, "context {context} is bound"),
            Self::Removed(context, messages) => {
                let messages = count(*messages as u64, "unread message");
                write!(f, "context {context} is removed with {messages}")
            }
        }
    }
}

/// Returns bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
