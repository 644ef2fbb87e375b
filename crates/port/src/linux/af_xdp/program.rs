//! The XDP program that gives the frames of an interface to its AF_XDP sockets: some twenty
//! instructions, written out here so that building needs no compiler for them.
//!
//! The program may be used under the MIT licence or the GPL, version 2, as well: the kernel lets only
//! such programs ask about VLAN tags.

use super::super::sys::bpf;
use super::btf;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The kernel function that tells a frame's VLAN tag where the sender left it to the interface (Linux
/// 6.8).
const TAG_FUNCTION: &str = "bpf_xdp_metadata_rx_vlan_tag";

/// Frames may be in several buffers (Linux 5.18).
const HAS_FRAGS: u32 = 1 << 5;
/// The program asks one interface's driver about frames (Linux 6.3).
const DEV_BOUND_ONLY: u32 = 1 << 6;

/// The kernel's helper functions that are called.
const ADJUST_HEAD: i32 = 44;
const REDIRECT_MAP: i32 = 51;

/// What a program tells the kernel to do with a frame.
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;

/// Places in the program's argument, `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE: i16 = 16;

// Operations, as linux/bpf.h composes them.
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

/// In the source register of [`LOAD_MAP`]: the number is a map's descriptor.
const MAP_DESCRIPTOR: u8 = 1;
/// In the source register of [`CALL`]: the number is a kernel function's.
const KERNEL_FUNCTION: u8 = 2;

/// A program attached to an interface for as long as this lives.
pub(super) struct Attached {
    /// Nothing else keeps the program at the interface.
    _link: OwnedFd,
    /// Whether it puts VLAN tags back that the sender left to the interface.
    pub(super) puts_tags_back: bool,
}

/// The sockets of an interface's queues, by number, for a program to redirect to.
pub(super) struct Sockets {
    map: OwnedFd,
}

impl Sockets {
    /// Room for the sockets of so many queues. This is the first that a user without rights is refused.
    pub(super) fn new(queues: u32) -> io::Result<Sockets> {
        let map = bpf::make_socket_map(queues)?;
        Ok(Sockets { map })
    }

    pub(super) fn set(&mut self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        bpf::set_socket(&self.map, queue, socket)
    }

    /// Attaches a program that gives the frames of each queue to its socket, and those of other queues
    /// to the kernel as before. It can do as much as this kernel and the driver let it.
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

/// Whether a program that can do less would be refused as well.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EBUSY | libc::ENODEV)
    )
}

fn attach_one(
    index: u32,
    by_driver: bool,
    map: &OwnedFd,
    tag_function: Option<u32>,
    fragments: bool,
) -> io::Result<OwnedFd> {
    let mut flags = if fragments { HAS_FRAGS } else { 0 };
    let mut bound_to = 0;
    if tag_function.is_some() {
        flags |= DEV_BOUND_ONLY;
        bound_to = index;
    }
    let instructions = instructions(map.as_raw_fd(), tag_function);
    let program = bpf::load_program(&instructions, flags, bound_to)?;
    bpf::attach_program(&program, index, by_driver)
}

/// One instruction: operation, destination and source registers, offset, number.
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

/// The whole program.
fn instructions(map: i32, tag_function: Option<u32>) -> Vec<u64> {
    // The argument stays in register 6, which calls keep.
    let mut program = vec![instruction(COPY, 6, 1, 0, 0)];
    if let Some(function) = tag_function {
        program.extend(put_tag_back(function as i32));
    }
    program.extend([
        instruction(LOAD_MAP, 1, MAP_DESCRIPTOR, 0, map),
        0,
        instruction(LOAD, 2, 6, RX_QUEUE, 0),
        // What happens to the frames of a queue without a socket.
        instruction(SET, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    program
}

/// Asks for a tag that is not in the frame, and inserts it behind the addresses.
fn put_tag_back(function: i32) -> Vec<u64> {
    // On the stack: the tag protocol, in network order, and the control information, in the machine's.
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
        // Both checks above come here: there is no room for the tag, or no Ethernet header.
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
        // An error says that there is no tag, or that the driver does not tell.
        instruction(IF_NOT_ZERO, 0, 0, insert.len() as i16, 0),
    ];
    program.extend(insert);
    program
}
