//! Messages to the service manager by the protocol of `sd_notify`: a datagram of assignments to the
//! socket of `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Connection with the service manager, if there is one.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    socket: Option<UnixDatagram>,
}

impl Notifier {
    /// Connects with the service manager that the environment names. A socket that cannot be
    /// reached is as none: the switch runs all the same.
    pub(super) fn from_environment() -> Notifier {
        let name = std::env::var_os("NOTIFY_SOCKET");
        let socket = name.and_then(|name| connect(&name));
        Notifier { socket }
    }

    /// Reports that the switch forwards packets, with a line for people.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// Reports that a reload begins. [`Notifier::ready`] ends it.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// Reports that the switch stops.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stops");
    }

    /// Reports that the switch is alive.
    pub(super) fn is_alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // A manager that does not read is no reason to stop.
            let _ = socket.send(message.as_bytes());
        }
    }
}

fn connect(name: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    match name.as_bytes() {
        [b'@', name @ ..] => {
            let address = SocketAddr::from_abstract_name(name).ok()?;
            socket.connect_addr(&address).ok()?;
        }
        _ => socket.connect(Path::new(name)).ok()?,
    }
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

/// A status is one line: a further line would be another assignment.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Returns the time within which the service manager wants a sign of life from this process.
pub(super) fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_other = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    let time = number("WATCHDOG_USEC").filter(|time| *time > 0 && !is_other);
    time.map(Duration::from_micros)
}
