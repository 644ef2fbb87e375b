//! Disables receive offloads that change frames while a port is open.
//!
//! A program must see each frame separately, at its own time. If merging cannot be disabled,
//! [`super::segment`] segments merged frames. VLAN tags removed by the interface are reinserted if
//! the kernel reports them. Otherwise their removal is disabled.

use super::sys;
use std::os::fd::{AsFd, OwnedFd};

// linux/ethtool.h
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETH_FLAG_LRO: u32 = 1 << 15;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// The disabled offloads. They are enabled again when this is dropped.
#[derive(Debug)]
pub(super) struct OffloadsOff {
    socket: OwnedFd,
    name: String,
    generic: bool,
    flags: u32,
}

impl OffloadsOff {
    /// Disables merging (GRO and LRO), if it is enabled and can be disabled.
    pub(super) fn new(socket: OwnedFd, name: &str) -> OffloadsOff {
        let fd = socket.as_fd();
        let generic = sys::ethtool_get(fd, name, ETHTOOL_GGRO).is_ok_and(|on| on != 0)
            && sys::ethtool_set(fd, name, ETHTOOL_SGRO, 0).is_ok();
        let mut off = OffloadsOff {
            socket,
            name: name.to_owned(),
            generic,
            flags: 0,
        };
        off.flags_off(ETH_FLAG_LRO);
        off
    }

    /// Also disables the removal of VLAN tags.
    pub(super) fn leave_tags(&mut self) {
        self.flags_off(ETH_FLAG_RXVLAN);
    }

    fn flags_off(&mut self, wanted: u32) {
        let fd = self.socket.as_fd();
        let Ok(flags) = sys::ethtool_get(fd, &self.name, ETHTOOL_GFLAGS) else {
            return;
        };
        let on = flags & wanted;
        if on != 0 && sys::ethtool_set(fd, &self.name, ETHTOOL_SFLAGS, flags & !on).is_ok() {
            self.flags |= on;
        }
    }
}

impl Drop for OffloadsOff {
    /// Enables the offloads again. If the interface was removed or renamed, there is nothing to
    /// restore.
    fn drop(&mut self) {
        let fd = self.socket.as_fd();
        if self.generic {
            let _ = sys::ethtool_set(fd, &self.name, ETHTOOL_SGRO, 1);
        }
        if self.flags != 0
            && let Ok(flags) = sys::ethtool_get(fd, &self.name, ETHTOOL_GFLAGS)
        {
            let _ = sys::ethtool_set(fd, &self.name, ETHTOOL_SFLAGS, flags | self.flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::{link, netns::Netns};

    #[test]
    fn merging_is_off_while_the_port_is_open_and_on_again_after() {
        let netns = match Netns::create() {
            Ok(netns) => netns,
            Err(error) => return println!("skipped: {error}"),
        };
        netns.rtnl().unwrap().add_veth("a", "b", None).unwrap();
        let socket = || netns.run(link::control_socket).unwrap().unwrap();
        let ask = socket();
        let merges = || sys::ethtool_get(ask.as_fd(), "a", ETHTOOL_GGRO).unwrap() != 0;
        sys::ethtool_set(ask.as_fd(), "a", ETHTOOL_SGRO, 1).unwrap();
        let off = OffloadsOff::new(socket(), "a");
        assert!(!merges());
        drop(off);
        assert!(merges());
        sys::ethtool_set(ask.as_fd(), "a", ETHTOOL_SGRO, 0).unwrap();
        drop(OffloadsOff::new(socket(), "a"));
        assert!(!merges(), "what was off stays off");
        let takes_tags =
            || sys::ethtool_get(ask.as_fd(), "a", ETHTOOL_GFLAGS).unwrap() & ETH_FLAG_RXVLAN != 0;
        assert!(takes_tags());
        let mut off = OffloadsOff::new(socket(), "a");
        assert!(takes_tags());
        off.leave_tags();
        assert!(!takes_tags());
        drop(off);
        assert!(takes_tags());
    }
}
