//! BPF maps and programs with checked sizes, for programs that other crates make.

pub use super::sys::bpf_map::{BpfMap, BpfMapKind};

use super::sys::bpf::{self, XdpProgram};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Length of the buffer for the verifier's messages.
const LOG_BYTES: usize = 1 << 20;

/// Number of lines of the verifier's log in an error.
const LAST_LINES: usize = 8;

/// Room for what a program adds to a frame in a test run.
const TEST_ROOM: usize = 1024;

/// Error of loading a program.
#[derive(Debug)]
pub struct BpfLoadError {
    /// The system's error.
    pub source: io::Error,
    /// The last lines of the verifier's log, if it refused the program.
    pub log: String,
}

impl fmt::Display for BpfLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.raw_os_error() {
            Some(libc::EPERM) => f.write_str(
                "the kernel allows no BPF programs here: the capabilities CAP_BPF and \
                 CAP_NET_ADMIN are needed",
            ),
            _ if self.log.is_empty() => self.source.fmt(f),
            _ => write!(f, "{}; the verifier says: {}", self.source, self.log),
        }
    }
}

impl std::error::Error for BpfLoadError {}

/// A loaded XDP program.
#[derive(Debug)]
pub struct BpfProgram {
    fd: OwnedFd,
}

impl BpfProgram {
    /// Loads a program (Linux 5.9; CAP_BPF and CAP_NET_ADMIN). Its instructions name maps by their
    /// descriptors.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn load(instructions: &[u64]) -> Result<BpfProgram, BpfLoadError> {
        let program = XdpProgram {
            instructions,
            flags: 0,
            bound_to: 0,
        };
        let first = match bpf::load_program(&program, &mut []) {
            Ok(fd) => return Ok(BpfProgram { fd }),
            Err(error) => error,
        };
        // With a log, the verifier takes longer. It is only asked for after a refusal.
        let mut log = vec![0; LOG_BYTES];
        match bpf::load_program(&program, &mut log) {
            Ok(fd) => Ok(BpfProgram { fd }),
            Err(_) => Err(BpfLoadError {
                source: first,
                log: last_lines(&log),
            }),
        }
    }

    /// Runs the program once on a frame of at least 14 bytes, without an interface. Returns its
    /// result, and the frame as it left it.
    ///
    /// # Errors
    /// The system's error.
    pub fn test(&self, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        let mut output = vec![0; frame.len() + TEST_ROOM];
        let (result, len) = bpf::test_run(self.fd.as_fd(), frame, &mut output)?;
        output.truncate(len);
        Ok((result, output))
    }

    /// Runs the program once on a frame of at least 14 bytes, and sends the frame if the program
    /// redirects it (Linux 5.18).
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        bpf::live_run(self.fd.as_fd(), frame)
    }
}

/// Stores a socket in a map of sockets.
pub(super) fn set_socket(map: &BpfMap, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    map.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
}

/// Returns the last lines of a log, which ends at the first zero.
fn last_lines(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::last_lines;

    #[test]
    fn a_refusal_shows_the_end_of_the_log() {
        assert_eq!(last_lines(b"\0\0"), "");
        assert_eq!(last_lines(b"one\ntwo\n\0rest"), "one; two");
        let many: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let last = last_lines(many.as_bytes());
        assert!(last.starts_with("line 12; ") && last.ends_with("line 19"));
    }
}
