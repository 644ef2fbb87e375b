//! Network interfaces: enumeration, and monitoring of link states.

use super::sys;
use crate::{LinkState, PortError};
use packet::Nanos;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Time between two link queries of a port. A link without carrier drops frames without an error,
/// so the port must query it.
const INTERVAL: Nanos = Nanos::from_millis(50);

/// Number of queries for which a link must be down for another cause before that is reported too.
/// The carrier of an interface that was set up comes with a delay of up to a second.
const QUERIES_OF_NEW_CAUSE: u64 = 30;

/// Hardware types with Ethernet frames: Ethernet itself and the loopback interface.
const ETHERNET: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index in its network namespace.
    pub index: u32,
    /// Its hardware type, an `ARPHRD` number.
    pub hardware: u16,
    /// Its hardware address, or zero if it has none.
    pub address: [u8; 6],
    /// Its MTU: maximum number of bytes after the Ethernet header.
    pub mtu: u32,
}

/// Returns all interfaces in the calling thread's network namespace, in the kernel's order.
///
/// # Errors
/// The kernel refuses the query.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let socket = control_socket()?;
    let described = sys::interface_names()?
        .into_iter()
        .map(|(_, name)| describe(&socket, &name));
    // Skip interfaces that were removed between the two queries.
    Ok(described.filter_map(Result::ok).collect())
}

/// Opens a socket for queries about interfaces of the calling thread's network namespace.
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

/// Returns the Ethernet interface of this name in the calling thread's network namespace.
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

/// Link state of a port. It is queried at intervals, and after errors.
#[derive(Debug)]
pub(super) struct LinkWatch {
    name: String,
    index: u32,
    state: LinkState,
    /// The MTU.
    mtu: u32,
    /// True if the current state has been reported to the caller.
    is_told: bool,
    /// True if the interface is up but has no carrier.
    lacks_carrier: bool,
    /// Value of `lacks_carrier` in the last report.
    told_lacks_carrier: bool,
    /// Value of `looks` when `lacks_carrier` changed.
    changed_at: u64,
    next_check: Nanos,
    /// Number of periodic queries so far.
    looks: u64,
}

impl LinkWatch {
    /// Creates the watch. `socket` must be in the interface's network namespace.
    pub(super) fn new(interface: &Interface, socket: BorrowedFd<'_>) -> LinkWatch {
        let mut watch = LinkWatch {
            name: interface.name.clone(),
            index: interface.index,
            state: LinkState::Up,
            mtu: interface.mtu,
            is_told: true,
            lacks_carrier: false,
            told_lacks_carrier: false,
            changed_at: 0,
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

    /// Returns the interface's index.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns a number that changes with each periodic query.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// Returns true if the link accepts a frame of this length, provided that it has a VLAN tag.
    pub(super) fn has_room_for(&self, frame_len: usize) -> bool {
        frame_len <= self.mtu as usize + 18
    }

    /// Returns true if the frame does not exceed the MTU. One VLAN tag is not counted.
    #[inline]
    pub(super) fn carries(&self, frame: &[u8]) -> bool {
        const ETHERNET: usize = 14;
        const TAG: usize = 4;
        let longest = self.mtu as usize + ETHERNET;
        let is_tagged = || matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
        frame.len() <= longest || frame.len() <= longest + TAG && is_tagged()
    }

    /// Queries the link if a query is due. `socket` must be in the interface's network namespace.
    pub(super) fn check(&mut self, socket: BorrowedFd<'_>, now: Nanos) {
        // If the clock was set back, query at once instead of waiting for the old time.
        let is_early = now < self.next_check && self.next_check.since(now) <= INTERVAL;
        if is_early || self.state == LinkState::Gone {
            return;
        }
        self.next_check = now + INTERVAL;
        self.looks += 1;
        self.refresh(socket);
    }

    /// Queries the link.
    pub(super) fn refresh(&mut self, socket: BorrowedFd<'_>) {
        let mut lacks_carrier = false;
        let state = match sys::if_name(socket, self.index) {
            Ok(name) => {
                self.name = name;
                self.mtu = sys::if_mtu(socket, &self.name).unwrap_or(self.mtu);
                let running = libc::IFF_UP | libc::IFF_RUNNING;
                match sys::if_flags(socket, &self.name) {
                    Ok(flags) if flags & running == running => LinkState::Up,
                    Ok(flags) => {
                        lacks_carrier = flags & libc::IFF_UP != 0;
                        LinkState::Down
                    }
                    Err(_) => LinkState::Down,
                }
            }
            Err(_) => LinkState::Gone,
        };
        if state != self.state {
            self.state = state;
            self.is_told = state == LinkState::Up;
        }
        if lacks_carrier != self.lacks_carrier {
            self.lacks_carrier = lacks_carrier;
            self.changed_at = self.looks;
        }
    }

    /// Returns an error if the link is down or gone. A link that is down is reported once for each
    /// cause, a removed interface every time.
    pub(super) fn tell(&mut self) -> Result<(), PortError> {
        let name = || self.name.clone();
        let is_new_cause = self.lacks_carrier != self.told_lacks_carrier
            && self.looks.saturating_sub(self.changed_at) >= QUERIES_OF_NEW_CAUSE;
        match self.state {
            LinkState::Gone => Err(PortError::Gone { name: name() }),
            LinkState::Down if !self.is_told || is_new_cause => {
                self.is_told = true;
                self.told_lacks_carrier = self.lacks_carrier;
                Err(match self.lacks_carrier {
                    true => PortError::NoCarrier { name: name() },
                    false => PortError::Down { name: name() },
                })
            }
            _ => Ok(()),
        }
    }
}
