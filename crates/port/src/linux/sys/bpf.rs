//! The bpf(2) calls: maps, programs, their attachment, and runs for tests.
#![allow(unsafe_code, reason = "system calls have no other form")]

use super::own;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// linux/bpf.h
const MAP_CREATE: c_int = 0;
const MAP_LOOKUP_ELEM: c_int = 1;
const MAP_UPDATE_ELEM: c_int = 2;
const MAP_DELETE_ELEM: c_int = 3;
const PROG_LOAD: c_int = 5;
const PROG_TEST_RUN: c_int = 10;
const MAP_LOOKUP_BATCH: c_int = 24;
const LINK_CREATE: c_int = 28;
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

/// Creates a map. `kind` is a number of `enum bpf_map_type`.
pub(in crate::linux) fn create_map(
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        flags: u32,
    }
    let attributes = Attributes {
        map_type: kind,
        key_size,
        value_size,
        max_entries,
        flags,
    };
    // SAFETY: these are the first attributes of MAP_CREATE, without pointers. Missing attributes
    // count as zero.
    own(unsafe { bpf(MAP_CREATE, &attributes) }?)
}

/// Attributes of the calls for one element of a map.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Stores a value in a map.
///
/// # Safety
/// `key` and `value` must be at least as long as the map's keys and values.
pub(in crate::linux) unsafe fn update(
    map: BorrowedFd<'_>,
    key: &[u8],
    value: &[u8],
    flags: u64,
) -> io::Result<()> {
    let attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags,
    };
    // SAFETY: these are the attributes of MAP_UPDATE_ELEM. The kernel reads a key and a value,
    // which are long enough by this function's contract.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Reads the value of a key.
///
/// # Safety
/// `key` and `value` must be at least as long as the map's keys and values.
pub(in crate::linux) unsafe fn lookup(
    map: BorrowedFd<'_>,
    key: &[u8],
    value: &mut [u8],
) -> io::Result<()> {
    let attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: these are the attributes of MAP_LOOKUP_ELEM. The kernel reads a key and writes a
    // value, which are long enough by this function's contract.
    unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }.map(drop)
}

/// Deletes a key from a map.
///
/// # Safety
/// `key` must be at least as long as the map's keys.
pub(in crate::linux) unsafe fn delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let attributes = Element {
        map_fd: map.as_raw_fd() as u32,
        padding: 0,
        key: key.as_ptr() as u64,
        value: 0,
        flags: 0,
    };
    // SAFETY: these are the attributes of MAP_DELETE_ELEM. The kernel reads a key, which is long
    // enough by this function's contract.
    unsafe { bpf(MAP_DELETE_ELEM, &attributes) }.map(drop)
}

/// Reads the first `count` values of an array map (Linux 5.6). Returns the number of values read.
///
/// # Safety
/// `keys` must hold `count` keys, `values` as many values.
pub(in crate::linux) unsafe fn lookup_first(
    map: BorrowedFd<'_>,
    count: u32,
    keys: &mut [u8],
    values: &mut [u8],
) -> io::Result<u32> {
    #[repr(C)]
    struct Attributes {
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: u32,
        map_fd: u32,
        element_flags: u64,
        flags: u64,
    }
    // The place at which a next call would go on: an index of four bytes.
    let mut next = 0u64;
    let attributes = Attributes {
        in_batch: 0,
        out_batch: &raw mut next as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count,
        map_fd: map.as_raw_fd() as u32,
        element_flags: 0,
        flags: 0,
    };
    // SAFETY: these are the attributes of MAP_LOOKUP_BATCH. The kernel writes at most `count` keys
    // and values, for which there is room by this function's contract, and the index.
    match unsafe { bpf(MAP_LOOKUP_BATCH, &attributes) } {
        Ok(_) => Ok(count),
        // All elements were read, and there are no more.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(count),
        Err(error) => Err(error),
    }
}

/// Attributes of PROG_TEST_RUN.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program_fd: u32,
    result: u32,
    input_len: u32,
    output_len: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration: u32,
    context_input_len: u32,
    context_output_len: u32,
    context_input: u64,
    context_output: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// Runs an XDP program once on `input` without an interface, and writes the frame that it leaves to
/// `output`. Returns the program's result and the length of that frame.
pub(in crate::linux) fn test_run(
    program: BorrowedFd<'_>,
    input: &[u8],
    output: &mut [u8],
) -> io::Result<(u32, usize)> {
    let mut attributes = TestRun {
        program_fd: program.as_raw_fd() as u32,
        input_len: input.len() as u32,
        output_len: output.len() as u32,
        input: input.as_ptr() as u64,
        output: output.as_mut_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: `output` is a slice that outlives the call, and its length is given.
    unsafe { run(&mut attributes) }?;
    Ok((attributes.result, attributes.output_len as usize))
}

/// Runs an XDP program once on `input`, and does what it says: the frame is sent, if the program
/// redirects it (Linux 5.18).
pub(in crate::linux) fn live_run(program: BorrowedFd<'_>, input: &[u8]) -> io::Result<()> {
    const LIVE_FRAMES: u32 = 1 << 1;
    let mut attributes = TestRun {
        program_fd: program.as_raw_fd() as u32,
        input_len: input.len() as u32,
        input: input.as_ptr() as u64,
        repeat: 1,
        batch_size: 1,
        flags: LIVE_FRAMES,
        ..TestRun::default()
    };
    // SAFETY: the kernel writes no output.
    unsafe { run(&mut attributes) }
}

/// Makes the call.
///
/// # Safety
/// The pointers must be to memory of the given lengths that outlives the call.
unsafe fn run(attributes: &mut TestRun) -> io::Result<()> {
    let pointer = &raw mut *attributes;
    // SAFETY: these are the attributes of PROG_TEST_RUN, which the kernel also writes. The caller
    // guarantees the rest.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, pointer, size_of::<TestRun>()) };
    super::check(result as c_int).map(drop)
}

/// Program to load.
pub(in crate::linux) struct XdpProgram<'p> {
    /// The instructions.
    pub(in crate::linux) instructions: &'p [u64],
    /// Program flags.
    pub(in crate::linux) flags: u32,
    /// Index of the interface that it may query for metadata, or zero.
    pub(in crate::linux) bound_to: u32,
}

/// Loads an XDP program. The verifier writes to `log`, unless that is empty.
pub(in crate::linux) fn load_program(
    program: &XdpProgram<'_>,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let XdpProgram {
        instructions,
        flags,
        bound_to,
    } = *program;
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
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() {
            0
        } else {
            log.as_mut_ptr() as u64
        },
        kernel_version: 0,
        flags,
        name: *b"polyplane_port\0\0",
        interface: bound_to,
        attach_type: ATTACH_XDP,
    };
    // SAFETY: these are the first attributes of PROG_LOAD. Instructions, license string and log
    // outlive the call.
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
