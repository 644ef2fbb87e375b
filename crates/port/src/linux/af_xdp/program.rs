//! The XDP program that redirects an interface's frames to its AF_XDP sockets. It has fewer than
//! 40 instructions, which are assembled here, so the build needs no BPF compiler.
//!
//! The program is dual-licensed under MIT and GPL version 2, because the kernel provides VLAN tags
//! only to GPL-compatible programs.

use super::super::bpf::{BpfMap, BpfMapKind, set_socket};
use super::super::sys::bpf::{self, XdpProgram};
use super::btf;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// The kernel function that returns a frame's VLAN tag if the sender left it to the interface
/// (Linux 6.8).
const TAG_FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";

/// Program flag: frames may consist of several buffers (Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;
/// Program flag: the program is bound to one interface and may query its driver for metadata
/// (Linux 6.3).
const DEV_BOUND_ONLY: u32 = 1 << 6;

/// Numbers of the kernel helper functions in use.
const ADJUST_HEAD: i32 = 44;
const REDIRECT_MAP: i32 = 51;

/// Return codes of an XDP program.
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;

/// Offsets in the program's argument, `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE: i16 = 16;

// Opcodes, composed as in linux/bpf.h.
const LOAD_MAP: u8 = 0x18;
const LOAD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const STORE: u8 = 0x63;
const STORE_HALF: u8 = 0x6b;
const STORE_ZERO_DOUBLE: u8 = 0x7a;
const SET: u8 = 0xb7;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
const SWAP_TO_BIG: u8 = 0xdc;
const JUMP: u8 = 0x05;
const IF_NOT_ZERO: u8 = 0x55;
const IF_GREATER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Source register of [`LOAD_MAP`]: the immediate is a map's descriptor.
const MAP_DESCRIPTOR: u8 = 1;
/// Source register of [`CALL`]: the immediate is a kernel function's BTF id.
const KERNEL_FUNCTION: u8 = 2;

/// A program attached to an interface for the lifetime of this value.
pub(super) struct Attached {
    /// Only this descriptor keeps the program attached.
    _link: OwnedFd,
    /// True if the program reinserts VLAN tags that the sender left to the interface.
    pub(super) puts_tags_back: bool,
}

/// Map from queue number to AF_XDP socket, the redirect target of the program.
pub(super) struct Sockets {
    map: BpfMap,
}

impl Sockets {
    /// Creates a map for `queues` queues. This is the first call that fails for an unprivileged
    /// user.
    pub(super) fn new(queues: u32) -> io::Result<Sockets> {
        let map = BpfMap::new(BpfMapKind::Sockets, 4, 4, queues)?;
        Ok(Sockets { map })
    }

    pub(super) fn set(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        set_socket(&self.map, queue, socket)
    }

    /// Returns the descriptor of the map.
    pub(super) fn raw_fd(&self) -> RawFd {
        self.map.raw_fd()
    }

    /// Attaches a program of another maker, which redirects some frames to the sockets.
    ///
    /// It is never bound to the interface, and so cannot ask for VLAN tags that are not in the
    /// frame: a Linux 6.18 kernel failed with bound programs.
    pub(super) fn attach_front(
        &self,
        index: u32,
        by_driver: bool,
        code: &[u64],
    ) -> io::Result<Attached> {
        let mut instructions = start(None);
        instructions.extend_from_slice(code);
        let program = XdpProgram {
            instructions: &instructions,
            flags: 0,
            bound_to: 0,
        };
        let program = bpf::load_program(&program, &mut [])?;
        Ok(Attached {
            _link: bpf::attach_program(&program, index, by_driver)?,
            puts_tags_back: false,
        })
    }

    /// Attaches a program that redirects each queue's frames to its socket. Frames of queues
    /// without a socket go to the kernel as before. Features that the kernel or the driver does
    /// not support are left out.
    pub(super) fn attach(&self, index: u32, by_driver: bool) -> io::Result<Attached> {
        let tags = if by_driver {
            btf::kernel_function(TAG_FUNCTION)
        } else {
            None
        };
        let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        for (function, fragments) in [(tags, true), (None, true), (None, false)] {
            match attach_one(index, by_driver, &self.map, function, fragments) {
                Ok(link) => {
                    return Ok(Attached {
                        _link: link,
                        puts_tags_back: function.is_some(),
                    });
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Returns true if a program with fewer features would fail too.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EBUSY | libc::ENODEV)
    )
}

fn attach_one(
    index: u32,
    by_driver: bool,
    map: &BpfMap,
    tag_function: Option<u32>,
    fragments: bool,
) -> io::Result<OwnedFd> {
    let mut flags = if fragments { HAS_FRAGS } else { 0 };
    let mut bound_to = 0;
    if tag_function.is_some() {
        flags |= DEV_BOUND_ONLY;
        bound_to = index;
    }
    let instructions = instructions(map.raw_fd(), tag_function);
    let program = XdpProgram {
        instructions: &instructions,
        flags,
        bound_to,
    };
    let program = bpf::load_program(&program, &mut [])?;
    bpf::attach_program(&program, index, by_driver)
}

/// Encodes one instruction: opcode, destination and source registers, offset, immediate.
fn instruction(operation: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    u64::from_ne_bytes([operation, registers, o0, o1, n0, n1, n2, n3])
}

/// Returns the start of a program. The argument stays in register 6, which calls preserve.
fn start(tag_function: Option<u32>) -> Vec<u64> {
    let mut program = vec![instruction(COPY, 6, 1, 0, 0)];
    if let Some(function) = tag_function {
        program.extend(put_tag_back(function as i32));
    }
    program
}

/// Returns the complete program.
fn instructions(map: i32, tag_function: Option<u32>) -> Vec<u64> {
    let mut program = start(tag_function);
    program.extend([
        instruction(LOAD_MAP, 1, MAP_DESCRIPTOR, 0, map),
        0,
        instruction(LOAD, 2, 6, RX_QUEUE, 0),
        // Action for frames of a queue without a socket.
        instruction(SET, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    program
}

/// Returns the instructions that query a tag that is not in the frame, and insert it after the
/// addresses.
fn put_tag_back(function: i32) -> Vec<u64> {
    // Stack offsets of the tag protocol, in network byte order, and of the tag control
    // information, in host byte order.
    const PROTOCOL: i16 = -8;
    const CONTROL: i16 = -4;
    let insert = [
        instruction(COPY, 1, 6, 0, 0),
        instruction(SET, 2, 0, 0, -4),
        instruction(CALL, 0, 0, 0, ADJUST_HEAD),
        instruction(IF_NOT_ZERO, 0, 0, 14, 0),
        instruction(LOAD, 2, 6, DATA, 0),
        instruction(LOAD, 3, 6, DATA_END, 0),
        instruction(COPY, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, 16),
        instruction(IF_GREATER, 4, 3, 9, 0),
        instruction(LOAD, 5, 2, 4, 0),
        instruction(STORE, 2, 5, 0, 0),
        instruction(LOAD, 5, 2, 8, 0),
        instruction(STORE, 2, 5, 4, 0),
        instruction(LOAD, 5, 2, 12, 0),
        instruction(STORE, 2, 5, 8, 0),
        instruction(LOAD_HALF, 5, 10, PROTOCOL, 0),
        instruction(STORE_HALF, 2, 5, 12, 0),
        instruction(JUMP, 0, 0, 2, 0),
        // Target of both checks above: no headroom for the tag, or no Ethernet header.
        instruction(SET, 0, 0, 0, XDP_DROP),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(LOAD_HALF, 5, 10, CONTROL, 0),
        instruction(SWAP_TO_BIG, 5, 0, 0, 16),
        instruction(STORE_HALF, 2, 5, 14, 0),
    ];
    let mut program = vec![
        instruction(STORE_ZERO_DOUBLE, 10, 0, PROTOCOL, 0),
        instruction(COPY, 1, 6, 0, 0),
        instruction(COPY, 2, 10, 0, 0),
        instruction(ADD, 2, 0, 0, i32::from(PROTOCOL)),
        instruction(COPY, 3, 10, 0, 0),
        instruction(ADD, 3, 0, 0, i32::from(CONTROL)),
        instruction(CALL, 0, KERNEL_FUNCTION, 0, function),
        // An error means that there is no tag, or that the driver does not report it.
        instruction(IF_NOT_ZERO, 0, 0, insert.len() as i16, 0),
    ];
    program.extend(insert);
    program
}
