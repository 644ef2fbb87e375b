//! Errors of opening and using a port, with advice in their texts.

use std::{fmt, io};

/// An error of a port. Its text names the interface and says what to do.
#[derive(Debug)]
pub enum PortError {
    /// No interface has this name.
    NoSuchInterface {
        /// The requested name.
        name: String,
        /// The existing interfaces.
        existing: Vec<String>,
    },
    /// The process lacks the capability.
    NoPermission {
        /// The attempted operation, as in "opening a raw socket on eth0".
        doing: String,
        /// The missing capability, as in `CAP_NET_RAW`.
        capability: &'static str,
    },
    /// The interface was set down. The port works again when the link comes up.
    Down {
        /// The interface.
        name: String,
    },
    /// The interface is up, but has no carrier: its other end is down. The port works again when
    /// the link comes up.
    NoCarrier {
        /// The interface.
        name: String,
    },
    /// The interface was removed, or moved to another network namespace.
    Gone {
        /// Its former name.
        name: String,
    },
    /// The port was opened before there was an interface of its name, and waits for it.
    Awaited {
        /// The name.
        name: String,
        /// The existing interfaces.
        existing: Vec<String>,
    },
    /// The interface is not an Ethernet interface.
    NotEthernet {
        /// The interface.
        name: String,
        /// Its hardware type, an `ARPHRD` number.
        hardware: u16,
    },
    /// A TAP device of this name is in use, or the interface is not a TAP device.
    TapUnavailable {
        /// The device.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// AF_XDP is not available on the interface.
    NoXdp {
        /// The interface.
        name: String,
        /// The reason, and advice.
        because: String,
    },
    /// The text is not the name of a ring.
    RingName {
        /// The text.
        name: String,
    },
    /// The other end of a ring is gone. The port works again when there is another one.
    RingEnded {
        /// The ring.
        name: String,
    },
    /// A system call failed for another reason.
    System {
        /// The attempted operation.
        doing: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl PortError {
    /// Returns true if the port still works, or will recover by itself. The caller goes on polling
    /// it.
    pub fn is_recoverable(&self) -> bool {
        matches!(
            self,
            PortError::Down { .. } | PortError::NoCarrier { .. } | PortError::RingEnded { .. }
        )
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortError::NoSuchInterface { name, existing } => missing(f, name, existing),
            PortError::Awaited { name, existing } => {
                missing(f, name, existing)?;
                f.write_str("; the port waits for it, and its frames are dropped until then")
            }
            PortError::NoPermission { doing, capability } => {
                let program = program();
                write!(
                    f,
                    "{doing} needs the capability {capability}: run with sudo, or give it to the \
                     program once by 'sudo setcap cap_net_raw,cap_net_admin+ep {program}'"
                )
            }
            PortError::Down { name } => write!(
                f,
                "{name} is down: its frames are missed until it comes up \
                 ('ip link set {name} up')"
            ),
            PortError::NoCarrier { name } => write!(
                f,
                "{name} is up but has no carrier, because its other end is down: its frames are \
                 missed until that end comes up ('ip link set PEER up' there; of a veth pair, \
                 'ip link show {name}' names the peer after '@')"
            ),
            PortError::Gone { name } => write!(
                f,
                "{name} is gone: it was removed or moved to another network namespace; its frames \
                 are dropped until it is back"
            ),
            PortError::NotEthernet { name, hardware } => write!(
                f,
                "{name} does not carry Ethernet frames (its hardware type is {hardware}): use an \
                 Ethernet, veth or TAP interface"
            ),
            PortError::TapUnavailable { name, source } => write!(
                f,
                "cannot use \"{name}\" as a TAP device: {source}; another program may have it \
                 open, or an interface of another kind may have this name"
            ),
            PortError::NoXdp { name, because } => {
                write!(f, "{name} cannot be used by AF_XDP: {because}")
            }
            PortError::RingName { name } => write!(
                f,
                "\"{name}\" is no name of a ring: write 1 to {} letters, digits, '.', '-' and '_'",
                crate::spec::MAX_RING_NAME
            ),
            PortError::RingEnded { name } => write!(
                f,
                "{name} has no other end any more: frames to it are dropped until a process opens \
                 it again"
            ),
            PortError::System { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PortError::TapUnavailable { source, .. } | PortError::System { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }
}

fn missing(f: &mut fmt::Formatter<'_>, name: &str, existing: &[String]) -> fmt::Result {
    write!(f, "there is no network interface \"{name}\"")?;
    if let Some(near) = crate::nearest::nearest(name, existing) {
        write!(f, "; did you mean \"{near}\"?")?;
    }
    write!(f, " (there is: {})", existing.join(", "))
}

/// Returns the running program's path, for a command that can be pasted.
fn program() -> String {
    match std::env::current_exe() {
        Ok(path) => path.display().to_string(),
        Err(_) => "$(command -v polyplane)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_interface_name_is_answered_with_the_right_ones() {
        let error = PortError::NoSuchInterface {
            name: "eht0".into(),
            existing: vec!["lo".into(), "eth0".into()],
        };
        assert_eq!(
            error.to_string(),
            "there is no network interface \"eht0\"; did you mean \"eth0\"? (there is: lo, eth0)"
        );
    }

    #[test]
    fn a_missing_permission_says_what_to_do() {
        let text = PortError::NoPermission {
            doing: "opening a raw socket on eth0".into(),
            capability: "CAP_NET_RAW",
        }
        .to_string();
        assert!(text.starts_with("opening a raw socket on eth0 needs the capability CAP_NET_RAW"));
        assert!(
            text.contains("sudo setcap cap_net_raw,cap_net_admin+ep /"),
            "{text}"
        );
    }
}
