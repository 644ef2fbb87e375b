//! Choosing how a port on an interface works: AF_XDP where it can be had and takes nothing from the
//! machine, else AF_PACKET, with the reason.

use super::af_packet::AfPacketPort;
use super::af_xdp::{AfXdpPort, XdpMode};
use super::link;
use super::rtnl::Rtnl;
use crate::{Port, PortError};
use packet::PortId;

/// How a port on an interface is to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortIo {
    /// In the fastest way that gives the same frames and leaves the machine its own traffic.
    #[default]
    Auto,
    /// By AF_XDP, in generic mode if the driver has no XDP. All frames go to the switch, none to the
    /// machine.
    Xdp,
    /// By raw sockets. The machine receives every frame, too.
    Packet,
}

/// A port, and how it works.
pub struct OpenedPort {
    /// The port.
    pub port: Box<dyn Port>,
    /// How it works and why: `AF_XDP (driver veth, copying, 1 queue)`.
    pub how: String,
}

/// Opens the interface `name` of the thread's network namespace as switch port `id`.
///
/// # Errors
/// Those of [`AfPacketPort::open`]; with [`PortIo::Xdp`] those of [`AfXdpPort::open`].
pub fn open_interface(id: PortId, name: &str, io: PortIo) -> Result<OpenedPort, PortError> {
    match io {
        PortIo::Packet => packet(id, name, "as asked for"),
        PortIo::Xdp => match AfXdpPort::open(id, name, XdpMode::Driver) {
            Ok(port) => Ok(xdp(port)),
            Err(error @ PortError::NoXdp { .. }) => {
                let generic = AfXdpPort::open(id, name, XdpMode::Generic);
                generic.map(xdp).map_err(|_| error)
            }
            Err(error) => Err(error),
        },
        PortIo::Auto => {
            if let Some(used) = machines_use(name)? {
                let why = format!("AF_XDP would take the machine's own traffic: {used}");
                return packet(id, name, &why);
            }
            match AfXdpPort::open(id, name, XdpMode::Driver) {
                Ok(port) if !port.may_lose_tags() => Ok(xdp(port)),
                Ok(lossy) => {
                    // Only one program at a time can have the interface's offloads.
                    drop(lossy);
                    let why = "this kernel does not tell AF_XDP the VLAN tags that senders leave to \
                               the interface";
                    packet(id, name, why)
                }
                Err(PortError::NoXdp { because, .. }) => {
                    packet(id, name, &format!("no AF_XDP: {because}"))
                }
                Err(error) => Err(error),
            }
        }
    }
}

fn xdp(port: AfXdpPort) -> OpenedPort {
    let how = format!("AF_XDP ({port})");
    OpenedPort {
        port: Box::new(port),
        how,
    }
}

fn packet(id: PortId, name: &str, why: &str) -> Result<OpenedPort, PortError> {
    Ok(OpenedPort {
        port: Box::new(AfPacketPort::open(id, name)?),
        how: format!("AF_PACKET ({why})"),
    })
}

/// What the machine uses the interface for. Where that cannot be told, it is used.
fn machines_use(name: &str) -> Result<Option<String>, PortError> {
    let interface = link::find(name)?;
    let used = Rtnl::open().and_then(|mut rtnl| rtnl.use_of(interface.index));
    Ok(used.unwrap_or_else(|error| Some(format!("unknown use ({error})"))))
}
