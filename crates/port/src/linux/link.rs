//! Interfaces: which there are, and whether their links carry frames.

use super::sys;
use crate::{LinkState, PortError};
use packet::Nanos;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How often a port asks whether its link is still up. A link without carrier swallows frames without
/// an error, so that asking is the only way to know.
const INTERVAL: Nanos = Nanos::from_millis(50);

/// Hardware types that carry Ethernet frames: Ethernet itself, and the loopback interface.
const ETHERNET: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in its network namespace.
    pub index: u32,
    /// Its hardware type, an ARPHRD number.
    pub hardware: u16,
    /// Its hardware address; zero where it has none.
    pub address: [u8; 6],
    /// The most bytes behind an Ethernet header.
    pub mtu: u32,
}

/// All interfaces in the thread's network namespace, in the kernel's order.
///
/// # Errors
/// The kernel does not answer.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let socket = control_socket()?;
    let described = sys::interface_names()?
        .into_iter()
        .map(|(_, name)| describe(&socket, &name));
    // One that vanishes between the two questions is none.
    Ok(described.filter_map(Result::ok).collect())
}

/// A socket through which to ask about interfaces of the thread's network namespace.
pub(super) fn control_socket() -> io::Result<OwnedFd> {
    sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
}

fn describe(socket: &OwnedFd, name: &str) -> io::Result<Interface> {
    let fd = socket.as_fd();
    let (hardware, address) = sys::if_hardware(fd, name)?;
    let index = sys::if_index(fd, name)?;
    Ok(Interface {
        name: name.to_owned(),
        index,
        hardware,
        address,
        mtu: sys::if_mtu(fd, name)?,
    })
}

/// The Ethernet interface of this name in the thread's network namespace.
pub(super) fn find(name: &str) -> Result<Interface, PortError> {
    let system = |source| PortError::System {
        doing: format!("asking about {name}"),
        source,
    };
    let socket = control_socket().map_err(system)?;
    let interface = match describe(&socket, name) {
        Ok(interface) => interface,
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
            let existing = sys::interface_names().map_err(system)?;
            let existing = existing.into_iter().map(|(_, name)| name).collect();
            return Err(PortError::NoSuchInterface {
                name: name.to_owned(),
                existing,
            });
        }
        Err(e) => return Err(system(e)),
    };
    if !ETHERNET.contains(&interface.hardware) {
        let hardware = interface.hardware;
        return Err(PortError::NotEthernet {
            name: name.to_owned(),
            hardware,
        });
    }
    Ok(interface)
}

/// What a port knows about its link: asked for now and then, and told by errors.
#[derive(Debug)]
pub(super) struct LinkWatch {
    name: String,
    index: u32,
    state: LinkState,
    /// The most bytes behind an Ethernet header.
    mtu: u32,
    /// Whether the caller has been told of the present state.
    is_told: bool,
    next_check: Nanos,
    /// How often it was time to ask.
    looks: u64,
}

impl LinkWatch {
    /// `socket` must be of the interface's network namespace.
    pub(super) fn new(interface: &Interface, socket: BorrowedFd<'_>) -> LinkWatch {
        let mut watch = LinkWatch {
            name: interface.name.clone(),
            index: interface.index,
            state: LinkState::Up,
            mtu: interface.mtu,
            is_told: true,
            next_check: Nanos::ZERO,
            looks: 0,
        };
        watch.refresh(socket);
        watch
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn state(&self) -> LinkState {
        self.state
    }

    /// The interface's number.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// A number that changes each time it is due to ask about the link.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Whether the link carries a frame of this length, if it has a VLAN tag.
    pub(super) fn has_room_for(&self, frame_len: usize) -> bool {
        frame_len <= self.mtu as usize + 18
    }

    /// Whether the link carries a frame of these bytes: a VLAN tag does not count.
    #[inline]
    pub(super) fn carries(&self, frame: &[u8]) -> bool {
        const ETHERNET: usize = 14;
        const TAG: usize = 4;
        let longest = self.mtu as usize + ETHERNET;
        let is_tagged = || matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
        frame.len() <= longest || frame.len() <= longest + TAG && is_tagged()
    }

    /// Asks about the link if it is time to. `socket` must be of the interface's network namespace.
    pub(super) fn check(&mut self, socket: BorrowedFd<'_>, now: Nanos) {
        // A clock that was set back must not stop the questions.
        let is_early = now < self.next_check && self.next_check.since(now) <= INTERVAL;
        if is_early || self.state == LinkState::Gone {
            return;
        }
        self.next_check = now + INTERVAL;
        self.looks += 1;
        self.refresh(socket);
    }

    /// Asks about the link.
    pub(super) fn refresh(&mut self, socket: BorrowedFd<'_>) {
        let state = match sys::if_name(socket, self.index) {
            Ok(name) => {
                self.name = name;
                self.mtu = sys::if_mtu(socket, &self.name).unwrap_or(self.mtu);
                let running = libc::IFF_UP | libc::IFF_RUNNING;
                match sys::if_flags(socket, &self.name) {
                    Ok(flags) if flags & running == running => LinkState::Up,
                    _ => LinkState::Down,
                }
            }
            Err(_) => LinkState::Gone,
        };
        if state != self.state {
            self.state = state;
            self.is_told = state == LinkState::Up;
        }
    }

    /// The error that says that the link is down or gone: down once, gone every time.
    pub(super) fn tell(&mut self) -> Result<(), PortError> {
        let name = || self.name.clone();
        match self.state {
            LinkState::Gone => Err(PortError::Gone { name: name() }),
            LinkState::Down if !self.is_told => {
                self.is_told = true;
                Err(PortError::Down { name: name() })
            }
            _ => Ok(()),
        }
    }
}
