//! Crate `port`: packet I/O. Receives and transmits the frames of a device.
//!
//! - **In:** interface names, names of rings, capture files, and [`packet::Frame`]s to transmit.
//! - **Out:** received frames in wire format. VLAN tags are in place, checksums are complete, no
//!   frame exceeds the MTU, and frames sent by this host are filtered out. A [`Generator`] makes
//!   frames for benchmarks.
//! - **Invariants:** only [`Poller::wait`] blocks. Every frame given to a port is counted as sent
//!   or as dropped for a named reason. A damaged capture is delivered up to its last whole packet
//!   before the error is returned. `unsafe` code is in `linux/sys` only.
//! - **Tests:** unit tests beside the code. `tests/` runs on real kernels in private network
//!   namespaces; where a machine forbids these, a test prints a line and is skipped.
#![deny(unsafe_code)]

mod crc32c;
mod error;
mod fault;
mod flow;
mod generate;
mod inet;
mod layers;
#[cfg(target_os = "linux")]
mod linux;
mod memory;
mod nearest;
#[cfg(test)]
mod nest;
mod pcap;
mod spec;
mod stats;

pub use error::PortError;
pub use fault::{FaultCounts, FaultPort, FaultRates, PerMillion};
pub use flow::flow_hash;
pub use generate::{Flows, Generator, GeneratorError, MAX_FLOWS, Order, Sizes, Template, Values};
#[cfg(target_os = "linux")]
pub use linux::{
    AfPacketPort, AfXdpPort, BpfLoadError, BpfMap, BpfMapKind, BpfProgram, Cores, EchoSocket,
    FrontProgram, Interface, Netns, NetnsError, OpenedPort, Poller, PortDriver, Privilege,
    ProcessGroup, RingLink, RingPort, Rtnl, RtnlError, Signal, StopSignals, TapPort, Testbed,
    TestbedError, Tunnel, XdpMode, bind_datagrams, driver_and_sent, enter_private, interfaces,
    open_after, open_awaited, open_interface, open_kept, pin_to_core, spread, start_in_foreground,
};
pub use memory::MemoryPort;
pub use pcap::{
    CapturedPacket, FrameDirection, FrameRecord, PcapError, PcapErrorKind, PcapReader,
    PcapWriteError, PcapWriter, PcapngWriter,
};
pub use spec::{PortSpec, PortSpecError, PortTarget};
pub use stats::{DropCounts, LinkState, PortStats, Reason, RxDrop, TxDrop, TxOutcome};

use packet::{Batch, Frame, Nanos, PortId};
use std::os::fd::BorrowedFd;

/// A switch port: receives and transmits frames. No method blocks. To wait for several ports, poll
/// their descriptors.
///
/// If several workers use one port, each has a *share* of it, which is a port too. All frames of a
/// flow are received by one share. Every share can transmit. The port's statistics are the sums
/// over its shares. Frames queued between shares or in the kernel are not yet counted.
pub trait Port: Send {
    /// Returns the switch port number that received frames get as their ingress port.
    fn id(&self) -> PortId;

    /// Returns a second port number. Frames sent to it are transmitted by this port, too.
    fn second_id(&self) -> Option<PortId> {
        None
    }

    /// Returns the port's name for reports: an interface, a device, or a file.
    fn name(&self) -> &str;

    /// Appends received frames to `batch` until it is full, with `now` as their arrival time.
    /// Returns their number. If the batch is full afterwards, call again before waiting.
    ///
    /// # Errors
    /// [`PortError::Down`], [`PortError::NoCarrier`] or [`PortError::RingEnded`] once
    /// each time that the link goes down, after the frames received before. The port recovers by
    /// itself. [`PortError::Gone`] or [`PortError::Awaited`] if it does not recover, except by
    /// [`Port::comes_back`]. An error loses no frame.
    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError>;

    /// Sends the frames, in order. The outcome accounts for each. Frames that cannot be sent,
    /// because the link is down or a queue is full, are dropped for that reason.
    fn tx(&mut self, frames: &[Frame]) -> TxOutcome;

    /// Returns the port's counters since it was opened.
    fn stats(&mut self) -> PortStats;

    /// Returns the link state, as far as the port knows it.
    fn link(&self) -> LinkState;

    /// Reopens a port after its interface was created again. Returns a description of its I/O
    /// driver. While the port is gone, workers call this for each share at intervals. Afterwards
    /// the port works again. Most ports never come back: the default returns `None`.
    fn comes_back(&mut self, now: Nanos) -> Option<String> {
        let _ = now;
        None
    }

    /// Closes this share of the port, so that [`Port::comes_back`] opens it again as soon as all
    /// shares are closed. Returns false, and does nothing, if the port cannot be reopened.
    fn close(&mut self, now: Nanos) -> bool {
        let _ = now;
        false
    }

    /// Ends the use of this share: sends or drops the frames that other shares have queued here,
    /// and counts them. It may wait for milliseconds. Called when no share is used any more,
    /// before the counts are read for the last time.
    fn finish(&mut self) {
        self.tx(&[]);
    }

    /// Returns the descriptor that becomes readable when frames arrive, if the port has one. Call
    /// this immediately before waiting for the descriptor.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn id(&self) -> PortId {
        (**self).id()
    }

    fn second_id(&self) -> Option<PortId> {
        (**self).second_id()
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError> {
        (**self).rx(batch, now)
    }

    fn tx(&mut self, frames: &[Frame]) -> TxOutcome {
        (**self).tx(frames)
    }

    fn stats(&mut self) -> PortStats {
        (**self).stats()
    }

    fn link(&self) -> LinkState {
        (**self).link()
    }

    fn comes_back(&mut self, now: Nanos) -> Option<String> {
        (**self).comes_back(now)
    }

    fn close(&mut self, now: Nanos) -> bool {
        (**self).close(now)
    }

    fn finish(&mut self) {
        (**self).finish();
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).poll_fd()
    }
}
