//! Virtual cables between network namespaces and switch ports.

use std::time::{Duration, Instant};

use packet::{Batch, Nanos, PortId};
use port::{LinkState, OpenedPort, PortIo, open_interface};

/// How long a cable may take to come up.
const LINK_TIMEOUT: Duration = Duration::from_secs(5);

/// Switches IPv6 off for interfaces still to come in the thread's namespace. Where that is not allowed, a few packets more are dropped.
pub(crate) fn be_silent() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
}

/// Opens a port and waits until its cable carries frames: a kernel takes its time to notice.
///
/// # Errors
/// There is no such interface, or it does not come up.
pub(crate) fn open_port(port: PortId, name: &str, io: PortIo) -> Result<OpenedPort, String> {
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
            // Asking for frames makes the port look at its link; nobody sends any yet.
            let _ = share.rx(&mut unused, Nanos::from(start.elapsed()));
            unused.clear();
        }
    }
    Ok(opened)
}
