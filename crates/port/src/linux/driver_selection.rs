//! Selects the I/O driver of an interface. AF_XDP is used if available and if it takes no traffic
//! from the host. Otherwise AF_PACKET is used, and the reason is reported.

use super::af_packet::AfPacketPort;
use super::af_xdp::{AfXdpPort, FrontProgram, XdpMode};
use super::rtnl::Rtnl;
use super::{link, sys};
use crate::{Port, PortError};
use packet::PortId;
use std::io;
use std::os::fd::AsFd;

/// I/O driver of a port on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortDriver {
    /// The fastest driver that delivers the same frames and leaves the host its own traffic.
    #[default]
    Auto,
    /// AF_XDP, in generic mode if the driver has no XDP. All frames go to the switch, none to the
    /// host.
    Xdp,
    /// Raw sockets. The host also receives every frame.
    Packet,
}

/// An open port with a description of its driver.
pub struct OpenedPort {
    /// The shares of the port, one per worker.
    pub shares: Vec<Box<dyn Port>>,
    /// Driver and reason: `AF_XDP (driver veth, copying, 1 queue)`.
    pub how: String,
}

impl OpenedPort {
    /// Shares a port between `workers` workers. The first worker owns the port and distributes
    /// received frames by flow hash.
    ///
    /// # Errors
    /// [`PortError::System`]: too many descriptors.
    pub fn new(port: Box<dyn Port>, how: &str, workers: usize) -> Result<OpenedPort, PortError> {
        share_out(vec![port], how.to_owned(), workers)
    }
}

/// Opens the interface `name` in the calling thread's network namespace as switch port `id`, for
/// `workers` workers.
///
/// # Errors
/// Those of [`AfPacketPort::open`]. With [`PortDriver::Xdp`], those of [`AfXdpPort::open`].
pub fn open_interface(
    id: PortId,
    name: &str,
    io: PortDriver,
    workers: usize,
) -> Result<OpenedPort, PortError> {
    let open_xdp = |mode| AfXdpPort::open_shares(id, name, mode, workers);
    let packet = |why: &str| packet(id, name, why, workers);
    match io {
        PortDriver::Packet => packet("as asked for"),
        PortDriver::Xdp => match open_xdp(XdpMode::Driver) {
            Ok(shares) => xdp(shares, workers),
            Err(error @ PortError::NoXdp { .. }) => match open_xdp(XdpMode::Generic) {
                Ok(shares) => xdp(shares, workers),
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        },
        PortDriver::Auto => {
            if let Some(used) = machines_use(name)? {
                let why = format!("AF_XDP would take the machine's own traffic: {used}");
                return packet(&why);
            }
            match open_xdp(XdpMode::Driver) {
                Ok(shares) if !shares.iter().any(AfXdpPort::may_lose_tags) => xdp(shares, workers),
                Ok(lossy) => {
                    // Only one program at a time can change the interface's offloads.
                    drop(lossy);
                    let why = "this kernel does not tell AF_XDP the VLAN tags that senders leave to \
                               the interface";
                    packet(why)
                }
                Err(PortError::NoXdp { because, .. }) => packet(&format!("no AF_XDP: {because}")),
                Err(error) => Err(error),
            }
        }
    }
}

/// Opens the interface `name` by AF_XDP, with an XDP program that runs before the port.
///
/// # Errors
/// Those of [`AfXdpPort::open`].
pub fn open_after(
    id: PortId,
    name: &str,
    workers: usize,
    front: &dyn FrontProgram,
) -> Result<OpenedPort, PortError> {
    let open = |mode| AfXdpPort::open_after(id, name, (mode, workers), Some(front));
    match open(XdpMode::Driver) {
        Ok(shares) => xdp(shares, workers),
        Err(error @ PortError::NoXdp { .. }) => match open(XdpMode::Generic) {
            Ok(shares) => xdp(shares, workers),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Returns the name of an interface's driver, and the number of frames that it has sent.
///
/// # Errors
/// The system's error: there is no such interface.
pub fn driver_and_sent(name: &str) -> io::Result<(String, u64)> {
    let socket = link::control_socket()?;
    let driver = sys::ethtool_driver(socket.as_fd(), name)?;
    // The file is of the thread's network namespace.
    let counts = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = counts.lines().find_map(|line| {
        let (interface, counts) = line.split_once(':')?;
        (interface.trim() == name).then_some(counts)
    });
    let sent = line.and_then(|counts| counts.split_whitespace().nth(SENT_COLUMN)?.parse().ok());
    Ok((driver, sent.unwrap_or(0)))
}

/// Column of the frames sent in /proc/net/dev, after the name.
const SENT_COLUMN: usize = 9;

fn xdp(shares: Vec<AfXdpPort>, workers: usize) -> Result<OpenedPort, PortError> {
    let how = shares.first().map(AfXdpPort::to_string);
    let how = format!("AF_XDP ({})", how.unwrap_or_default());
    let boxed = shares
        .into_iter()
        .map(|share| Box::new(share) as Box<dyn Port>);
    share_out(boxed.collect(), how, workers)
}

fn packet(id: PortId, name: &str, why: &str, workers: usize) -> Result<OpenedPort, PortError> {
    let shares = AfPacketPort::open_shares(id, name, workers)?;
    let boxed = shares
        .into_iter()
        .map(|share| Box::new(share) as Box<dyn Port>);
    Ok(OpenedPort {
        shares: boxed.collect(),
        how: format!("AF_PACKET ({why})"),
    })
}

/// Gives each worker a share if the port has fewer shares than workers. Each share of the port is
/// distributed over equally many workers, or one more.
fn share_out(
    ports: Vec<Box<dyn Port>>,
    mut how: String,
    workers: usize,
) -> Result<OpenedPort, PortError> {
    let owners = ports.len();
    if owners < workers {
        how.push_str(&format!(", spread by flow over {workers} workers"));
    }
    let mut shares: Vec<(usize, Box<dyn Port>)> = Vec::with_capacity(workers);
    for (first, port) in ports.into_iter().enumerate() {
        // Workers `first`, `first + owners`, and so on.
        let own = (first..workers.max(owners)).step_by(owners);
        let doing = format!("sharing {}", port.name());
        let spread = super::software_rss::spread(port, own.len());
        let spread = spread.map_err(|source| PortError::System { doing, source })?;
        shares.extend(own.zip(spread));
    }
    shares.sort_by_key(|(worker, _)| *worker);
    Ok(OpenedPort {
        shares: shares.into_iter().map(|(_, share)| share).collect(),
        how,
    })
}

/// Returns what the host uses the interface for, or `None` if it is unused. If this cannot be
/// determined, the interface counts as used.
fn machines_use(name: &str) -> Result<Option<String>, PortError> {
    let interface = link::find(name)?;
    let used = Rtnl::open().and_then(|mut rtnl| rtnl.use_of(interface.index));
    Ok(used.unwrap_or_else(|error| Some(format!("unknown use ({error})"))))
}
