//! Safe wrappers of the system calls that ports need. This directory has the only `unsafe` code of
//! the crate.
#![allow(unsafe_code, reason = "system calls have no other form")]

pub(super) mod bpf;
pub(super) mod bpf_map;
mod ring;
pub(super) mod shared;
pub(super) mod xsk;

use packet::Frame;
use std::ffi::{CStr, c_int, c_short, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Converts the result of a system call to a value, or to the error in `errno`.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Takes ownership of a descriptor that a system call has just created.
fn own(result: c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: the kernel has just created this descriptor for the caller. Nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Creates a socket.
pub(super) fn socket(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC;
    // SAFETY: takes and returns numbers only.
    own(unsafe { libc::socket(domain, kind, protocol) })
}

/// Binds an AF_PACKET socket to an interface. With `protocol` 0 it can only send.
pub(super) fn bind_packet(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll, which has integers only.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as c_int;
    // SAFETY: pointer and length are those of `address`, which outlives the call.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            socklen::<libc::sockaddr_ll>(),
        )
    })
    .map(drop)
}

/// Binds a netlink socket to an address that the kernel chooses.
pub(super) fn bind_netlink(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_nl, which has integers only.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    // SAFETY: pointer and length are those of `address`, which outlives the call.
    check(unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            socklen::<libc::sockaddr_nl>(),
        )
    })
    .map(drop)
}

fn socklen<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Sets a socket option with an integer value.
pub(super) fn set_option(fd: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_option_to(fd, level, name, &value)
}

/// Makes the interface promiscuous for as long as the socket is open.
pub(super) fn set_promiscuous(fd: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid packet_mreq, which has integers only.
    let mut request: libc::packet_mreq = unsafe { mem::zeroed() };
    request.mr_ifindex = index as c_int;
    request.mr_type = libc::PACKET_MR_PROMISC as u16;
    set_option_to(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets a socket option. `T` must be plain old data as the option defines it.
fn set_option_to<T>(fd: impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY:
    // - Pointer and length are those of `value`, which outlives the call.
    // - The kernel only reads it.
    check(unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            socklen::<T>(),
        )
    })
    .map(drop)
}

/// Socket option flag that the `libc` crate does not define.
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: c_int = 0x4000;

/// Adds a bound AF_PACKET socket to a fanout group, which distributes the interface's frames by
/// flow hash. The group is that of another socket, or a new one. Frames sent by this host are left
/// out if the kernel supports that (Linux 5.16).
pub(super) fn join_fanout(fd: &OwnedFd, of: Option<&OwnedFd>) -> io::Result<()> {
    let kind = libc::PACKET_FANOUT_HASH as c_int | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
    let (group, flags) = match of {
        Some(other) => (fanout_group(other)?, 0),
        None => (0, libc::PACKET_FANOUT_FLAG_UNIQUEID as c_int),
    };
    let value = group | (kind | flags) << 16;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value)
}

/// Returns the id of the group that a socket has joined.
fn fanout_group(fd: &OwnedFd) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = socklen::<c_int>();
    // SAFETY: both pointers refer to local variables, and `len` is the size of the first.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value & 0xffff)
}

/// Makes a socket receive nothing until [`receive_all`].
pub(super) fn receive_none(fd: &OwnedFd) -> io::Result<()> {
    /// Classic BPF: returns a constant, the number of bytes to keep.
    const RETURN: u16 = 0x06;
    let mut nothing = libc::sock_filter {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let filter = libc::sock_fprog {
        len: 1,
        filter: &raw mut nothing,
    };
    // The kernel copies the program, which outlives the call.
    set_option_to(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Undoes [`receive_none`].
pub(super) fn receive_all(fd: &OwnedFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

/// Returns the number of frames that an AF_PACKET socket has dropped since the last call because
/// its queue was full.
pub(super) fn take_packet_drops(fd: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all-zero bytes are a valid tpacket_stats, which has integers only.
    let mut stats: libc::tpacket_stats = unsafe { mem::zeroed() };
    let mut len = socklen::<libc::tpacket_stats>();
    // SAFETY: both pointers refer to local variables, and `len` is the size of the first.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    })?;
    Ok(u64::from(stats.tp_drops))
}

/// Length of the virtio header that precedes a frame if PACKET_VNET_HDR is set, in bytes.
pub(super) const VNET_HEADER: usize = 10;

/// Buffer size for one received frame. Not a power of two, so that the first bytes of the frames
/// do not map to the same cache set.
const SLOT: usize = 65536 + 576;

/// Maximum number of frames received or sent by one system call.
pub(super) const MESSAGES: usize = 64;

/// Buffer for the control message with a frame's auxiliary data.
type Control = [u64; 8];

/// Buffers for receiving many frames of a socket by one call.
pub(super) struct Receiver {
    data: Box<[u8]>,
    frames: [Description; MESSAGES],
}

/// The kernel's metadata of one received frame.
#[derive(Clone, Copy, Default)]
struct Description {
    /// Length of the virtio header and the frame in its buffer.
    len: usize,
    is_cut: bool,
    is_outgoing: bool,
    vlan: Option<(u16, u16)>,
}

/// One received frame with the kernel's metadata.
pub(super) struct Received<'a> {
    /// The virtio header and the frame.
    pub(super) bytes: &'a [u8],
    /// True if the frame was longer than its buffer.
    pub(super) is_cut: bool,
    /// True if this host sent the frame.
    pub(super) is_outgoing: bool,
    /// The VLAN tag removed from the frame: tag protocol and tag control information.
    pub(super) vlan: Option<(u16, u16)>,
}

impl Receiver {
    pub(super) fn new() -> Receiver {
        let data = vec![0; SLOT * MESSAGES].into_boxed_slice();
        Receiver {
            data,
            frames: [Description::default(); MESSAGES],
        }
    }

    /// Receives up to [`MESSAGES`] frames without waiting. Returns their number. If there is none,
    /// the error is of kind `WouldBlock`.
    pub(super) fn receive(&mut self, fd: &OwnedFd) -> io::Result<usize> {
        let mut control: [Control; MESSAGES] = [[0; 8]; MESSAGES];
        // SAFETY: all-zero bytes are valid for these types, which have integers and raw pointers
        // only.
        let (mut names, mut vectors, mut messages): (
            [libc::sockaddr_ll; MESSAGES],
            [libc::iovec; MESSAGES],
            [libc::mmsghdr; MESSAGES],
        ) = unsafe { mem::zeroed() };
        for (i, slot) in self.data.chunks_exact_mut(SLOT).enumerate() {
            vectors[i] = libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: SLOT,
            };
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut names[i]).cast();
            header.msg_namelen = socklen::<libc::sockaddr_ll>();
            header.msg_control = (&raw mut control[i]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY:
        // - Every pointer in `messages` refers to a local array or to `data`, with its length.
        // - All of these outlive the call.
        let received = check(unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                MESSAGES as _,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        })? as usize;
        for i in 0..received {
            let message = &messages[i];
            self.frames[i] = Description {
                len: (message.msg_len as usize).min(SLOT),
                is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                is_outgoing: names[i].sll_pkttype == libc::PACKET_OUTGOING,
                // SAFETY: the kernel has filled in this header, and its control buffer is
                // `control`.
                vlan: unsafe { vlan_of(&message.msg_hdr) },
            };
        }
        Ok(received)
    }

    /// Returns the `i`-th frame of the last [`Receiver::receive`].
    pub(super) fn get(&self, i: usize) -> Received<'_> {
        let Description {
            len,
            is_cut,
            is_outgoing,
            vlan,
        } = self.frames[i];
        let bytes = &self.data[i * SLOT..i * SLOT + len];
        Received {
            bytes,
            is_cut,
            is_outgoing,
            vlan,
        }
    }
}

/// Returns the VLAN tag in a received frame's auxiliary data.
///
/// # Safety
/// The kernel must have filled in `header`, and its control buffer must still exist.
unsafe fn vlan_of(header: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY:
    // - By this function's contract, the `msg_controllen` bytes at `msg_control` are control
    //   messages.
    // - The macros stay within these.
    let aux = unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        loop {
            let head = message.as_ref()?;
            if head.cmsg_level == libc::SOL_PACKET && head.cmsg_type == libc::PACKET_AUXDATA {
                break libc::CMSG_DATA(message)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned();
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    };
    if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_protocol = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let protocol = if has_protocol {
        aux.tp_vlan_tpid
    } else {
        libc::ETH_P_8021Q as u16
    };
    Some((protocol, aux.tp_vlan_tci))
}

/// Sends up to [`MESSAGES`] frames without waiting. Returns the number of frames that the kernel
/// accepted. An error refers to the first frame.
pub(super) fn send_frames(fd: &OwnedFd, frames: &[Frame]) -> io::Result<usize> {
    let frames = &frames[..frames.len().min(MESSAGES)];
    let mut vectors = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; MESSAGES];
    // SAFETY: all-zero bytes are a valid mmsghdr, which has integers and raw pointers only.
    let mut messages: [libc::mmsghdr; MESSAGES] = unsafe { mem::zeroed() };
    for ((frame, vector), message) in frames.iter().zip(&mut vectors).zip(&mut messages) {
        let bytes = frame.bytes();
        // The kernel does not write through the pointers of a sent message.
        vector.iov_base = bytes.as_ptr().cast_mut().cast();
        vector.iov_len = bytes.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `frames.len()` messages refer to vectors and frames, with their lengths,
    // that outlive the call.
    check(unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            frames.len() as _,
            libc::MSG_DONTWAIT as _,
        )
    })
    .map(|n| n as usize)
}

/// Sends all of `bytes` as one message.
pub(super) fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length are those of `bytes`.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Waits for one message and receives it. Returns its length.
pub(super) fn receive(fd: &OwnedFd, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are those of `buf`.
    let got = unsafe { libc::recv(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), 0) };
    if got < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(got as usize)
    }
}

/// Returns the argument of an interface request, with the interface's name filled in.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid ifreq: integers, and a union of integers and raw
    // pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte must stay zero.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    Ok(request)
}

/// Makes an interface request that reads and fills in an `ifreq`.
///
/// # Safety
/// - The argument of `code` must be an `ifreq`.
/// - A pointer in its union must refer to data that outlives the call.
unsafe fn interface_request(
    fd: BorrowedFd<'_>,
    code: c_ulong,
    request: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: by this function's contract, `request` is the expected argument.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), code as _, &raw mut *request) }).map(drop)
}

/// Returns the interface's index.
pub(super) fn if_index(fd: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFINDEX takes an ifreq without pointers and fills in the index.
    unsafe {
        interface_request(fd, libc::SIOCGIFINDEX, &mut request)?;
        Ok(request.ifr_ifru.ifru_ifindex as u32)
    }
}

/// Returns the name of the interface with this index.
pub(super) fn if_name(fd: BorrowedFd<'_>, index: u32) -> io::Result<String> {
    // SAFETY: all-zero bytes are a valid ifreq: integers, and a union of integers and raw
    // pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = index as c_int;
    // SAFETY: SIOCGIFNAME takes an ifreq without pointers and fills in the name.
    unsafe { interface_request(fd, libc::SIOCGIFNAME, &mut request)? };
    Ok(name_of(&request))
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request
        .ifr_name
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Returns the interface's flags, such as IFF_UP and IFF_RUNNING.
pub(super) fn if_flags(fd: BorrowedFd<'_>, name: &str) -> io::Result<c_int> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFFLAGS takes an ifreq without pointers and fills in the flags.
    unsafe {
        interface_request(fd, libc::SIOCGIFFLAGS, &mut request)?;
        Ok(c_int::from(request.ifr_ifru.ifru_flags))
    }
}

/// Sets the interface's flags.
pub(super) fn set_if_flags(fd: BorrowedFd<'_>, name: &str, flags: c_int) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = flags as c_short;
    // SAFETY: SIOCSIFFLAGS takes an ifreq without pointers.
    unsafe { interface_request(fd, libc::SIOCSIFFLAGS, &mut request) }
}

/// Returns the interface's MTU in bytes, without the Ethernet header.
pub(super) fn if_mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFMTU takes an ifreq without pointers and fills in the MTU.
    unsafe {
        interface_request(fd, libc::SIOCGIFMTU, &mut request)?;
        Ok(request.ifr_ifru.ifru_mtu as u32)
    }
}

/// Returns the interface's hardware type and address.
pub(super) fn if_hardware(fd: BorrowedFd<'_>, name: &str) -> io::Result<(u16, [u8; 6])> {
    let mut request = request(name)?;
    // SAFETY: SIOCGIFHWADDR takes an ifreq without pointers and fills in the address.
    let address = unsafe {
        interface_request(fd, libc::SIOCGIFHWADDR, &mut request)?;
        request.ifr_ifru.ifru_hwaddr
    };
    Ok((
        address.sa_family,
        std::array::from_fn(|i| address.sa_data[i] as u8),
    ))
}

/// Makes an ethtool request.
///
/// # Safety
/// `A` must be the argument of the command in its first field, and must consist of integers only.
unsafe fn ethtool<A>(fd: BorrowedFd<'_>, name: &str, argument: &mut A) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut *argument).cast();
    // SAFETY:
    // - SIOCETHTOOL takes an ifreq with a pointer to the command's argument.
    // - By this function's contract, that is `argument`, which outlives the call.
    unsafe { interface_request(fd, libc::SIOCETHTOOL, &mut request) }
}

/// Argument of ethtool commands with one number.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Reads a number by ethtool. `command` must be one that returns one number.
pub(super) fn ethtool_get(fd: BorrowedFd<'_>, name: &str, command: u32) -> io::Result<u32> {
    let mut argument = EthtoolValue { command, value: 0 };
    // SAFETY: this is the argument of such commands.
    unsafe { ethtool(fd, name, &mut argument)? };
    Ok(argument.value)
}

/// Writes a number by ethtool. `command` must be one that takes one number.
pub(super) fn ethtool_set(
    fd: BorrowedFd<'_>,
    name: &str,
    command: u32,
    value: u32,
) -> io::Result<()> {
    // SAFETY: this is the argument of such commands.
    unsafe { ethtool(fd, name, &mut EthtoolValue { command, value }) }
}

/// Returns the name of an interface's driver.
pub(super) fn ethtool_driver(fd: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    const ETHTOOL_GDRVINFO: u32 = 0x03;
    /// `struct ethtool_drvinfo`.
    #[repr(C)]
    struct Information {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 4 * 32 + 12],
        counts: [u32; 5],
    }
    let mut information = Information {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        rest: [0; 4 * 32 + 12],
        counts: [0; 5],
    };
    // SAFETY: this is the argument of the command.
    unsafe { ethtool(fd, name, &mut information)? };
    let driver = information.driver.split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(driver.unwrap_or_default()).into_owned())
}

/// Returns the number of receive queues of an interface.
pub(super) fn ethtool_rx_queues(fd: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    /// `struct ethtool_channels`.
    #[repr(C)]
    struct Channels {
        command: u32,
        most: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        most: [0; 4],
        rx: 0,
        tx: 0,
        other: 0,
        combined: 0,
    };
    // SAFETY: this is the argument of the command.
    unsafe { ethtool(fd, name, &mut channels)? };
    Ok(channels.rx.saturating_add(channels.combined))
}

/// Returns the names of all interfaces in the calling thread's network namespace, with their
/// indices.
pub(super) fn interface_names() -> io::Result<Vec<(u32, String)>> {
    // SAFETY: returns null, or an array that ends with an entry of index zero.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    // SAFETY:
    // - Each entry before the last has a valid string.
    // - All entries are valid until they are freed, once, after the loop.
    unsafe {
        let mut entry = list;
        while (*entry).if_index != 0 && !(*entry).if_name.is_null() {
            let name = CStr::from_ptr((*entry).if_name)
                .to_string_lossy()
                .into_owned();
            names.push(((*entry).if_index, name));
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// Attaches `tun` to the TAP device `name`, which is created if it does not exist.
pub(super) fn attach_tap(tun: &File, name: &str) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as c_short;
    // SAFETY: TUNSETIFF takes an ifreq without pointers.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    // An earlier user of a persistent device may have enabled offloads, with which the kernel
    // passes unfinished frames.
    // SAFETY: TUNSETOFFLOAD takes a number.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) }).map(drop)
}

/// Moves the thread to new namespaces. CLONE_NEWUSER affects the process, which must then be
/// single-threaded.
pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number only. Descriptors and memory stay shared.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the thread to the network namespace.
pub(super) fn enter_netns(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Returns the cores on which the calling thread may run.
pub(super) fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero bytes are a valid cpu_set_t, which has integers only.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: pointer and length are those of `set`.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    let cores = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: the number is below the set's size.
    Ok(cores
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect())
}

/// Restricts the calling thread, and threads that it starts later, to these cores.
pub(super) fn keep_to_cores(cores: &[usize]) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid cpu_set_t, which has integers only.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &core in cores {
        if core >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::NotFound.into());
        }
        // SAFETY: the number is below the set's size.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: pointer and length are those of `set`.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop)
}

/// Returns the effective user and group of the process.
pub(super) fn user_and_group() -> (u32, u32) {
    // SAFETY: these calls cannot fail and access no memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Waits until a descriptor is ready, or until the timeout. Returns the number of ready
/// descriptors, which is 0 after a signal.
pub(super) fn poll(fds: &mut [libc::pollfd], timeout: Duration) -> io::Result<usize> {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: timeout.subsec_nanos() as _,
    };
    // SAFETY:
    // - Pointer and length are those of `fds`.
    // - `timeout` outlives the call.
    // - There is no signal mask.
    let ready = check(unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as _,
            &raw const timeout,
            std::ptr::null(),
        )
    });
    match ready {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
        other => other.map(|n| n as usize),
    }
}

/// Blocks the signals for this thread and threads that it starts later. Returns a descriptor that
/// delivers them.
pub(super) fn signal_fd(signals: &[c_int]) -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY:
    // - sigemptyset initializes the set that the other calls read.
    // - The numbers are valid signals.
    unsafe {
        check(libc::sigemptyset(set.as_mut_ptr()))?;
        for &signal in signals {
            check(libc::sigaddset(set.as_mut_ptr(), signal))?;
        }
        let failed = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        own(libc::signalfd(
            -1,
            set.as_ptr(),
            libc::SFD_NONBLOCK | libc::SFD_CLOEXEC,
        ))
    }
}

/// Returns the number of a signal received by a descriptor of [`signal_fd`], if any.
pub(super) fn read_signal(fd: &OwnedFd) -> io::Result<Option<u32>> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let len = size_of::<libc::signalfd_siginfo>();
    // SAFETY: pointer and length are those of `info`.
    let got = unsafe { libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast::<c_void>(), len) };
    if got < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: the structure has integers only, so all-zero bytes are already valid.
    Ok(Some(unsafe { info.assume_init() }.ssi_signo))
}

/// Lets a program that `command` starts receive all signals.
pub(super) fn unblock_signals(command: &mut Command) {
    let unblock = || {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY:
        // - sigemptyset initializes the set that the other call reads.
        // - Both may be called between fork and exec.
        check(unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
        })
        .map(drop)
    };
    // SAFETY: the closure calls only functions that are safe after a signal, and allocates nothing.
    unsafe { command.pre_exec(unblock) };
}

/// Kills all processes of a group.
pub(super) fn kill_group(group: u32) -> io::Result<()> {
    let group = libc::pid_t::try_from(group).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(-group, libc::SIGKILL) }).map(drop)
}

/// Returns true if a group has a process.
pub(super) fn has_group(group: u32) -> bool {
    let group = libc::pid_t::try_from(group);
    // SAFETY: takes numbers only, and signal 0 is none.
    group.is_ok_and(|group| unsafe { libc::kill(-group, 0) } == 0)
}

/// Number of the loopback interface in each network namespace.
const LOOPBACK: u32 = 1;

/// Place of the checksum in a UDP header.
const UDP_CHECKSUM: u32 = 6;

/// Makes a UDP socket drop datagrams without a checksum. On the loopback interface, which damages
/// nothing, the kernel leaves checksums incomplete.
pub(super) fn refuse_without_checksum(fd: BorrowedFd<'_>) -> io::Result<()> {
    let load_index = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let load_half = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    let is_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let end = (libc::BPF_RET | libc::BPF_K) as u16;
    let index = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let program = [
        (load_index, 0, 0, index),
        (is_equal, 2, 0, LOOPBACK),
        (load_half, 0, 0, UDP_CHECKSUM),
        (is_equal, 1, 0, 0),
        (end, 0, 0, u32::MAX),
        (end, 0, 0, 0),
    ];
    let mut filter = program.map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    set_option_to(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Sets the number of bytes that may wait in a socket: beyond the limit of the system if the
/// process may, else up to it.
pub(super) fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = bytes as c_int;
    set_option_to(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
        .or_else(|_| set_option_to(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
}

/// Sets the number of bytes that may wait in a socket to be sent.
pub(super) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_option_to(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &(bytes as c_int))
}
