//! The bpf(2) calls to load and attach one program.
#![allow(unsafe_code, reason = "system calls have no other form")]

use super::own;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// linux/bpf.h
const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Makes a bpf(2) call.
///
/// # Safety
/// - `A` must be the command's part of `union bpf_attr`.
/// - Every pointer in it must point to data that outlives the call.
unsafe fn bpf<A>(command: c_int, attributes: &A) -> io::Result<c_int> {
    // SAFETY: pointer and length are those of `attributes`. The caller guarantees the rest.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            (&raw const *attributes),
            size_of::<A>(),
        )
    };
    super::check(result as c_int)
}

/// Creates a map from queue numbers below `queues` to AF_XDP sockets.
pub(in crate::linux) fn make_socket_map(queues: u32) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    let attributes = Attributes {
        map_type: MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
    };
    // SAFETY: these are the first attributes of MAP_CREATE, without pointers. Missing attributes
    // count as zero.
    own(unsafe { bpf(MAP_CREATE, &attributes) }?)
}

/// Stores the socket of a queue in the map.
pub(in crate::linux) fn set_socket(
    map: &OwnedFd,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map_fd: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let value = socket.as_raw_fd() as u32;
    let attributes = Attributes {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: &raw const queue as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    // SAFETY: these are the attributes of MAP_UPDATE_ELEM. Their pointers refer to local variables
    // of four bytes each.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Loads an XDP program. `bound_to` is the index of the interface that it may query for metadata,
/// or zero.
pub(in crate::linux) fn load_program(
    instructions: &[u64],
    flags: u32,
    bound_to: u32,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        licence: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
        interface: u32,
        attach_type: u32,
    }
    let attributes = Attributes {
        program_type: PROG_TYPE_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: *b"polyplane_port\0\0",
        interface: bound_to,
        attach_type: ATTACH_XDP,
    };
    // SAFETY: these are the first attributes of PROG_LOAD. Instructions and license string outlive
    // the call.
    own(unsafe { bpf(PROG_LOAD, &attributes) }?)
}

/// Attaches an XDP program to an interface for as long as the returned descriptor is open. So the
/// end of the process also detaches the program (Linux 5.9).
pub(in crate::linux) fn attach_program(
    program: &OwnedFd,
    index: u32,
    by_driver: bool,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program_fd: u32,
        interface: u32,
        attach_type: u32,
        flags: u32,
    }
    let attributes = Attributes {
        program_fd: program.as_raw_fd() as u32,
        interface: index,
        attach_type: ATTACH_XDP,
        flags: if by_driver {
            XDP_FLAGS_DRV_MODE
        } else {
            XDP_FLAGS_SKB_MODE
        },
    };
    // SAFETY: these are the first attributes of LINK_CREATE, without pointers.
    own(unsafe { bpf(LINK_CREATE, &attributes) }?)
}
