//! Cables of a switch under test: pairs of virtual interfaces in a namespace.

use packet::PortId;
use port::{Netns, Port, PortDriver, RtnlError, open_interface};

/// Lays a cable for each pair of names, the switch's end first, and opens the other ends. Their
/// ports are numbered from 0.
///
/// # Errors
/// The kernel refuses a step, as text.
pub(crate) fn lay<S: AsRef<str>>(
    netns: &Netns,
    names: impl IntoIterator<Item = (S, S)>,
) -> Result<Vec<Box<dyn Port>>, String> {
    // The kernel's own frames would be counted as the switch's.
    let quiet = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let quieted = netns.run(quiet).map_err(|error| error.to_string())?;
    quieted.map_err(|error| format!("IPv6 cannot be switched off: {error}"))?;
    let mut rtnl = netns.rtnl().map_err(|error| error.to_string())?;
    let failed = |error: RtnlError| error.to_string();
    let mut ports = Vec::new();
    for (number, (switch, host)) in (0..).zip(names) {
        let (switch, host) = (switch.as_ref(), host.as_ref());
        rtnl.add_veth(switch, host, None).map_err(failed)?;
        rtnl.set_up(switch).map_err(failed)?;
        rtnl.set_up(host).map_err(failed)?;
        let open = || open_interface(PortId(number), host, PortDriver::Packet, 1);
        let opened = netns.run(open).map_err(|error| error.to_string())?;
        let mut shares = opened.map_err(|error| error.to_string())?.shares;
        ports.push(shares.pop().ok_or("a port has no share")?);
    }
    Ok(ports)
}
