//! Virtual cables (veth pairs) between network namespaces and switch ports.

use std::time::{Duration, Instant};

use packet::{Batch, Nanos, PortId};
use port::{LinkState, OpenedPort, PortDriver, open_interface};

/// Maximum time for a link to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// Switches IPv6 off for new interfaces in the thread's namespace. Where that is not allowed, a
/// few more packets are dropped.
pub(crate) fn disable_ipv6_autoconf() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

/// Opens a port and waits until its link is up: the kernel reports it with a delay.
///
/// # Errors
/// There is no such interface, or it does not come up.
pub(crate) fn open_port(port: PortId, name: &str, io: PortDriver) -> Result<OpenedPort, String> {
    let opened = open_interface(port, name, io, 1);
    let mut opened = opened.map_err(|e| e.to_string())?;
    let start = Instant::now();
    let mut unused = Batch::with_capacity(1);
    for share in &mut opened.shares {
        while share.link() != LinkState::Up {
            if start.elapsed() > LINK_TIMEOUT {
                return Err(format!("{name} did not come up"));
            }
            std::thread::sleep(Duration::from_millis(1));
            // Receiving makes the port check its link. No frames are sent yet.
            let _ = share.rx(&mut unused, Nanos::from(start.elapsed()));
            unused.clear();
        }
    }
    Ok(opened)
}
