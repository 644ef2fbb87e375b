//! Ports on Linux: network interfaces, TAP devices, rings in shared memory, and network namespaces
//! for tests.

mod af_packet;
mod af_xdp;
mod bpf;
mod core;
mod datagram;
mod driver_selection;
mod echo;
mod keep;
mod link;
mod netns;
mod offload;
mod poll;
mod process;
mod refusal;
mod ring;
mod rtnl;
mod segment;
mod signal;
mod software_rss;
mod sys;
mod tap;
mod testbed;

pub use af_packet::AfPacketPort;
pub use af_xdp::{AfXdpPort, FrontProgram, XdpMode};
pub use bpf::{BpfLoadError, BpfMap, BpfMapKind, BpfProgram};
pub use core::{Cores, pin_to_core};
pub use datagram::bind_datagrams;
pub use driver_selection::{OpenedPort, PortDriver, driver_and_sent, open_after, open_interface};
pub use echo::EchoSocket;
pub use keep::{open_awaited, open_kept};
pub use link::{Interface, interfaces};
pub use netns::{Netns, NetnsError, Privilege, enter_private};
pub use poll::Poller;
pub use process::{ProcessGroup, start_in_foreground};
pub use ring::{RingLink, RingPort};
pub use rtnl::{Rtnl, RtnlError, Tunnel};
pub use signal::{Signal, StopSignals};
pub use software_rss::spread;
pub use tap::TapPort;
pub use testbed::{Testbed, TestbedError};
