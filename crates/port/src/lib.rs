//! The room `port`: packet I/O, by which frames enter and leave a device.
//!
//! - **In:** interface names, capture files, and on transmission [`packet::Frame`]s.
//! - **Out:** frames as they are on the wire: VLAN tags where they were, checksums complete,
//!   nothing longer than what the link carries, none that this machine sent itself. A [`Generator`]
//!   makes frames up for benches.
//! - **May import:** `packet`.
//! - **Invariants:** no call waits, except [`Poller::wait`]; every frame that a port was asked to carry
//!   is counted as sent or as dropped for a named reason; a capture is delivered up to its last whole
//!   packet before an error is; `unsafe` is in `linux/sys` and nowhere else.
//! - **Tests:** beside the code; `tests/` on real kernels, in network namespaces of their own, skipped
//!   with a line that says so where a machine forbids them.
#![deny(unsafe_code)]

mod chance;
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

pub use chance::{SplitMix, scale};
pub use error::PortError;
pub use fault::{FaultCounts, FaultPort, FaultRates, PerMillion};
pub use flow::flow_hash;
pub use generate::{Flows, Generator, GeneratorError, MAX_FLOWS, Order, Sizes, Template, Values};
#[cfg(target_os = "linux")]
pub use linux::{
    AfPacketPort, AfXdpPort, Bell, Cores, EchoSocket, Interface, Netns, NetnsError, OpenedPort,
    Poller, PortIo, Privilege, Rtnl, RtnlError, Signal, StopSignals, TapPort, Testbed,
    TestbedError, Tunnel, XdpMode, enter_private, interfaces, open_interface, open_kept,
    pin_to_core, spread,
};
pub use memory::MemoryPort;
pub use pcap::{CapturedPacket, PcapError, PcapErrorKind, PcapReader, PcapWriteError, PcapWriter};
pub use spec::{PortSpec, PortSpecError, PortTarget};
pub use stats::{DropCounts, LinkState, PortStats, Reason, RxDrop, TxDrop, TxOutcome};

use packet::{Batch, Frame, Nanos, PortId};
use std::os::fd::BorrowedFd;

/// A switch port: where frames come in and go out. It never waits; to wait for several ports, poll
/// their descriptors.
///
/// Where several workers have one port, each has a share of it that is a port too: frames of a flow
/// come by one share, and each share sends. The shares' statistics add up to the port's; frames that
/// still wait between shares, as those in the kernel's queues, are in none.
pub trait Port: Send {
    /// The switch port number that received frames carry.
    fn id(&self) -> PortId;

    /// A second number: frames that are sent to it leave by this port, too.
    fn second_id(&self) -> Option<PortId> {
        None
    }

    /// The port's name for reports: an interface, a device, a file.
    fn name(&self) -> &str;

    /// Appends frames that have arrived to `batch`, as many as fit, with `now` as their arrival, and
    /// says how many. A batch that came back full means: ask again before waiting.
    ///
    /// # Errors
    /// [`PortError::Down`] once each time that the link goes down, after the frames that came before
    /// it: the port recovers by itself. [`PortError::Gone`] if it does not,
    /// but for [`Port::comes_back`]. No frame is lost by an
    /// error.
    fn rx(&mut self, batch: &mut Batch, now: Nanos) -> Result<usize, PortError>;

    /// Sends the frames, in order. Each is accounted for in the outcome; what a link that is down,
    /// or a full queue, does not take, is dropped under that name.
    fn tx(&mut self, frames: &[Frame]) -> TxOutcome;

    /// What the port has carried and dropped since it was opened.
    fn stats(&mut self) -> PortStats;

    /// Whether the link carries frames, as far as the port knows.
    fn link(&self) -> LinkState;

    /// Takes a port back whose interface was made again, and returns how it carries frames. Workers
    /// call it now and then while the port is gone, for each share. It carries frames from then on. Most ports never come back.
    fn comes_back(&mut self, now: Nanos) -> Option<String> {
        let _ = now;
        None
    }

    /// The descriptor that becomes readable when frames arrive, if the port has one. To be asked for right before waiting for it.
    fn poll_fd(&self) -> Option<BorrowedFd<'_>>;
}
