//! Receive offloads that merge frames, switched off while a port is open.
//!
//! A program should see frames one by one, at their own times. Where switching off is not allowed or
//! has no effect, what arrives merged is taken apart by [`super::segment`].

use super::sys;
use std::os::fd::{AsFd, OwnedFd};

// linux/ethtool.h
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// What was on, to be switched on again when this is dropped.
#[derive(Debug)]
pub(super) struct OffloadsOff {
    socket: OwnedFd,
    name: String,
    generic: bool,
    large: bool,
}

impl OffloadsOff {
    /// Switches off what is on and can be switched off.
    pub(super) fn new(socket: OwnedFd, name: &str) -> OffloadsOff {
        let fd = socket.as_fd();
        let generic = sys::ethtool_get(fd, name, ETHTOOL_GGRO).is_ok_and(|on| on != 0)
            && sys::ethtool_set(fd, name, ETHTOOL_SGRO, 0).is_ok();
        let large = match sys::ethtool_get(fd, name, ETHTOOL_GFLAGS) {
            Ok(flags) if flags & ETH_FLAG_LRO != 0 => {
                sys::ethtool_set(fd, name, ETHTOOL_SFLAGS, flags & !ETH_FLAG_LRO).is_ok()
            }
            _ => false,
        };
        OffloadsOff {
            socket,
            name: name.to_owned(),
            generic,
            large,
        }
    }
}

impl Drop for OffloadsOff {
    /// The interface may be gone or renamed by now: then there is nothing to restore.
    fn drop(&mut self) {
        let fd = self.socket.as_fd();
        if self.generic {
            let _ = sys::ethtool_set(fd, &self.name, ETHTOOL_SGRO, 1);
        }
        if self.large
            && let Ok(flags) = sys::ethtool_get(fd, &self.name, ETHTOOL_GFLAGS)
        {
            let _ = sys::ethtool_set(fd, &self.name, ETHTOOL_SFLAGS, flags | ETH_FLAG_LRO);
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
    }
}
