//! Determines the drop reason of frames that the kernel accepted but did not send. The kernel
//! itself gives no reason.

use super::link::LinkWatch;
use super::rtnl::{LinkFacts, Rtnl};
use crate::{LinkState, TxDrop};
use std::os::fd::BorrowedFd;

/// Length of an Ethernet header and one VLAN tag, in bytes. The peer of a veth pair adds this to
/// its MTU.
const LINK_HEADER: usize = 14 + 4;

/// Determines why an interface did not send a frame.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Socket in the interface's network namespace, if the kernel has rtnetlink.
    rtnl: Option<Rtnl>,
    /// Cached result, with the value of [`LinkWatch::looks`] at that time. The result is valid
    /// until the next periodic query of the link.
    found: Option<(u64, Found)>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    link: LinkFacts,
    /// The peer of a veth pair, if the kernel reports it.
    peer: Option<LinkFacts>,
}

impl Found {
    fn is_up(&self) -> bool {
        self.link.is_up && self.peer.is_none_or(|peer| peer.is_up)
    }
}

impl Refusals {
    /// Creates the state for interfaces of the calling thread's network namespace.
    pub(super) fn new() -> Refusals {
        Refusals {
            rtnl: Rtnl::open().ok(),
            found: None,
        }
    }

    /// Returns true if the kernel has no transmit queue (qdisc) for the interface.
    pub(super) fn is_direct(&mut self, index: u32) -> bool {
        let facts = self.rtnl.as_mut().map(|rtnl| rtnl.facts(index));
        facts.is_some_and(|facts| facts.is_ok_and(|facts| facts.is_direct()))
    }

    /// Returns the reason for which a frame of this length was not sent. Refreshes `watch` by
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
            // The kernel's interface flags report a carrier change with a delay.
            Some(found) if !found.is_up() => TxDrop::LinkDown,
            Some(Found { link, .. }) if link.has_queue => TxDrop::QueueFull,
            Some(Found {
                peer: Some(peer), ..
            }) if frame_len > peer.mtu as usize + LINK_HEADER => TxDrop::TooLong,
            // The peer is up and its MTU suffices, so its queue is full.
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
