//! Reasons of frames that the kernel has taken and not sent: it says no more than that.

use super::link::LinkWatch;
use super::rtnl::{LinkFacts, Rtnl};
use crate::{LinkState, TxDrop};
use std::os::fd::BorrowedFd;

/// Bytes of an Ethernet header and one VLAN tag: what the other end of a veth pair adds to its MTU.
const LINK_HEADER: usize = 14 + 4;

/// Finds out why an interface has not sent a frame.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Of the interface's network namespace, if there is any.
    rtnl: Option<Rtnl>,
    /// What was found, and at which look of the watch: it may change.
    found: Option<(u64, Found)>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    link: LinkFacts,
    /// The other end of a veth pair, where the kernel tells of it.
    peer: Option<LinkFacts>,
}

impl Found {
    fn is_up(&self) -> bool {
        self.link.is_up && self.peer.is_none_or(|peer| peer.is_up)
    }
}

impl Refusals {
    /// For interfaces of the thread's network namespace.
    pub(super) fn new() -> Refusals {
        Refusals {
            rtnl: Rtnl::open().ok(),
            found: None,
        }
    }

    /// Whether the kernel has no queue of frames to be sent by the interface.
    pub(super) fn is_direct(&mut self, index: u32) -> bool {
        let facts = self.rtnl.as_mut().map(|rtnl| rtnl.facts(index));
        facts.is_some_and(|facts| facts.is_ok_and(|facts| facts.is_direct()))
    }

    /// Why a frame of this length was not sent. `watch` is made to look at the link through
    /// `socket`.
    #[cold]
    pub(super) fn why(
        &mut self,
        frame_len: usize,
        watch: &mut LinkWatch,
        socket: BorrowedFd<'_>,
    ) -> TxDrop {
        watch.refresh(socket);
        if watch.state() != LinkState::Up {
            return TxDrop::LinkDown;
        }
        if !watch.has_room_for(frame_len) {
            return TxDrop::TooLong;
        }
        match self.find(watch) {
            // The kernel's flags tell of a carrier a moment later.
            Some(found) if !found.is_up() => TxDrop::LinkDown,
            Some(Found { link, .. }) if link.has_queue => TxDrop::QueueFull,
            Some(Found {
                peer: Some(peer), ..
            }) if frame_len > peer.mtu as usize + LINK_HEADER => TxDrop::TooLong,
            // The other end's link is up, and carries such frames: it has no room.
            Some(Found { peer: Some(_), .. }) => TxDrop::QueueFull,
            _ => TxDrop::Refused,
        }
    }

    fn find(&mut self, watch: &LinkWatch) -> Option<Found> {
        if let Some((look, found)) = self.found
            && look == watch.looks()
        {
            return Some(found);
        }
        let rtnl = self.rtnl.as_mut()?;
        let link = rtnl.facts(watch.index()).ok()?;
        let peer = rtnl.facts_of_peer(&link).ok();
        let found = Found { link, peer };
        self.found = Some((watch.looks(), found));
        Some(found)
    }
}
