//! Port specifications of the command line: `0=eth0`, `1=tap:tap0`, `2=ring:reports`.

use packet::PortId;
use std::fmt;
use std::str::FromStr;

/// Maximum length of a Linux interface name, in bytes.
const MAX_NAME: usize = 15;

/// The interface or device of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortTarget {
    /// An existing network interface.
    Interface(String),
    /// A TAP device. It is created if it does not exist.
    Tap(String),
    /// An end of a ring: shared memory with another thread or process.
    Ring(String),
}

/// One switch port and its interface or device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The port number that P4 programs see.
    pub id: PortId,
    /// The interface or device.
    pub target: PortTarget,
}

/// Error in a port specification, or a conflict between several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpecError {
    /// There is no `=`.
    NoNumber {
        /// The whole text.
        spec: String,
    },
    /// The text before `=` is not a port number.
    BadNumber {
        /// The whole text.
        spec: String,
        /// The text before `=`.
        number: String,
    },
    /// The text after `=` is not a valid interface name.
    BadName {
        /// The whole text.
        spec: String,
        /// The name.
        name: String,
    },
    /// Two specifications have the same number.
    SameNumber {
        /// The number.
        id: PortId,
    },
    /// The text after `ring:` is not a valid name of a ring.
    BadRing {
        /// The whole text.
        spec: String,
        /// The name.
        name: String,
    },
    /// Two specifications have the same interface.
    SameInterface {
        /// The interface.
        name: String,
    },
    /// More than two specifications have the same ring.
    SameRing {
        /// The ring.
        name: String,
    },
}

impl PortSpec {
    /// Returns the name of the interface or device.
    pub fn name(&self) -> &str {
        match &self.target {
            PortTarget::Interface(name) | PortTarget::Tap(name) | PortTarget::Ring(name) => name,
        }
    }

    /// Returns the name of the network interface, which a ring has not.
    fn interface(&self) -> Option<&str> {
        match &self.target {
            PortTarget::Interface(name) | PortTarget::Tap(name) => Some(name),
            PortTarget::Ring(_) => None,
        }
    }

    /// Checks that no two specifications have the same number or interface.
    ///
    /// # Errors
    /// [`PortSpecError::SameNumber`] or [`PortSpecError::SameInterface`] for the first conflict.
    /// All numbers are compared before the interfaces.
    pub fn check_distinct(specs: &[PortSpec]) -> Result<(), PortSpecError> {
        for (i, spec) in specs.iter().enumerate() {
            if specs[..i].iter().any(|earlier| earlier.id == spec.id) {
                return Err(PortSpecError::SameNumber { id: spec.id });
            }
        }
        PortSpec::check_interfaces(specs)
    }

    /// Checks that no two specifications, of one device or of several, have the same interface,
    /// and that no ring has more than its two ends.
    ///
    /// # Errors
    /// [`PortSpecError::SameInterface`] or [`PortSpecError::SameRing`] for the first conflict.
    pub fn check_interfaces(specs: &[PortSpec]) -> Result<(), PortSpecError> {
        for (i, spec) in specs.iter().enumerate() {
            let earlier = &specs[..i];
            let name = spec.name().to_owned();
            if let Some(interface) = spec.interface() {
                if earlier.iter().any(|it| it.interface() == Some(interface)) {
                    return Err(PortSpecError::SameInterface { name });
                }
            } else if earlier.iter().filter(|it| it.target == spec.target).count() > 1 {
                return Err(PortSpecError::SameRing { name });
            }
        }
        Ok(())
    }
}

impl FromStr for PortSpec {
    type Err = PortSpecError;

    fn from_str(spec: &str) -> Result<PortSpec, PortSpecError> {
        let Some((number, target)) = spec.split_once('=') else {
            return Err(PortSpecError::NoNumber {
                spec: spec.to_owned(),
            });
        };
        let Some(id) = parse_number(number) else {
            return Err(PortSpecError::BadNumber {
                spec: spec.to_owned(),
                number: number.to_owned(),
            });
        };
        if let Some(name) = target.strip_prefix("ring:") {
            let name = name.to_owned();
            return match is_ring_name(&name) {
                true => Ok(PortSpec {
                    id: PortId(id),
                    target: PortTarget::Ring(name),
                }),
                false => Err(PortSpecError::BadRing {
                    spec: spec.to_owned(),
                    name,
                }),
            };
        }
        let (name, tap) = match target.strip_prefix("tap:") {
            Some(name) => (name, true),
            None => (target, false),
        };
        if !is_interface_name(name) {
            return Err(PortSpecError::BadName {
                spec: spec.to_owned(),
                name: name.to_owned(),
            });
        }
        let name = name.to_owned();
        let target = if tap {
            PortTarget::Tap(name)
        } else {
            PortTarget::Interface(name)
        };
        Ok(PortSpec {
            id: PortId(id),
            target,
        })
    }
}

/// Parses a port number, decimal or hexadecimal.
fn parse_number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    // `from_str_radix` also accepts a sign.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// Maximum length of a ring's name, in bytes: an abstract socket has room for 107, with a prefix.
pub(crate) const MAX_RING_NAME: usize = 64;

/// Returns true if `name` is the name of a ring.
pub(crate) fn is_ring_name(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    (1..=MAX_RING_NAME).contains(&name.len()) && name.chars().all(is_plain)
}

/// Returns true if Linux accepts `name` as an interface name. A ':' is refused: it would name an
/// alias, or a target type that this version does not have.
fn is_interface_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != "."
        && name != ".."
        && !name
            .contains(|c: char| c == '/' || c == ':' || c == '%' || c.is_whitespace() || c == '\0')
}

impl fmt::Display for PortSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORM: &str = "write NUMBER=INTERFACE, NUMBER=tap:NAME or NUMBER=ring:NAME, as in \
                            0=eth0, 1=tap:tap0 or 2=ring:reports";
        match self {
            PortSpecError::NoNumber { spec } => {
                write!(f, "\"{spec}\" does not say which port it is: {FORM}")
            }
            PortSpecError::BadNumber { spec, number } => {
                write!(f, "\"{number}\" in \"{spec}\" is no port number: {FORM}")
            }
            PortSpecError::BadName { spec, name } if name.is_empty() => {
                write!(f, "\"{spec}\" names no interface: {FORM}")
            }
            PortSpecError::BadName { spec, name } => write!(
                f,
                "\"{name}\" in \"{spec}\" is no interface name (1 to {MAX_NAME} bytes, no space, \
                 '/', ':' or '%'): {FORM}"
            ),
            PortSpecError::BadRing { spec, name } => write!(
                f,
                "\"{name}\" in \"{spec}\" is no name of a ring: write 1 to {MAX_RING_NAME} \
                 letters, digits, '.', '-' and '_'"
            ),
            PortSpecError::SameRing { name } => write!(
                f,
                "ring \"{name}\" is given more than twice: it has two ends"
            ),
            PortSpecError::SameNumber { id } => {
                write!(
                    f,
                    "port {id} is given twice: give each interface its own number"
                )
            }
            PortSpecError::SameInterface { name } => {
                write!(
                    f,
                    "\"{name}\" is given twice: an interface can be one port only"
                )
            }
        }
    }
}

impl std::error::Error for PortSpecError {}

/// Formats the specification as the text that parses to it.
impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            PortTarget::Interface(name) => write!(f, "{}={name}", self.id),
            PortTarget::Tap(name) => write!(f, "{}=tap:{name}", self.id),
            PortTarget::Ring(name) => write!(f, "{}=ring:{name}", self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let got = match text.parse::<PortSpec>() {
            Ok(spec) => spec.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(got.starts_with(expect), "{text}: {got}");
    }

    #[test]
    fn specifications_parse_or_say_what_is_wrong() {
        check("0=eth0", "0=eth0");
        check("511=tap:t0", "511=tap:t0");
        check("0x1F=eth0.100", "31=eth0.100");
        check("2=ring:reports-1", "2=ring:reports-1");
        check(
            "2=ring:",
            "\"\" in \"2=ring:\" is no name of a ring: write 1 to 64",
        );
        check(
            "2=ring:a/b",
            "\"a/b\" in \"2=ring:a/b\" is no name of a ring",
        );
        check(
            "eth0",
            "\"eth0\" does not say which port it is: write NUMBER=INTERFACE",
        );
        check("a=eth0", "\"a\" in \"a=eth0\" is no port number");
        check("+1=eth0", "\"+1\" in");
        check("-1=eth0", "\"-1\" in");
        check("4294967296=eth0", "\"4294967296\" in");
        check("1=", "\"1=\" names no interface");
        check("1=tap:", "\"1=tap:\" names no interface");
        check(
            "1=pcap:x.pcap",
            "\"pcap:x.pcap\" in \"1=pcap:x.pcap\" is no interface name",
        );
        check("1=an-interface-name", "\"an-interface-name\" in");
    }

    #[test]
    fn a_number_or_an_interface_given_twice_is_refused() {
        let specs = |texts: &[&str]| -> Vec<PortSpec> {
            texts.iter().map(|t| t.parse().unwrap()).collect()
        };
        let distinct = |texts: &[&str]| PortSpec::check_distinct(&specs(texts));
        assert_eq!(distinct(&["0=a", "1=b"]), Ok(()));
        assert_eq!(
            distinct(&["0=a", "0=b"]),
            Err(PortSpecError::SameNumber { id: PortId(0) })
        );
        assert_eq!(
            distinct(&["0=a", "1=tap:a"]),
            Err(PortSpecError::SameInterface { name: "a".into() })
        );
        // A ring has two ends, which may be in one process; its name is no interface.
        assert_eq!(distinct(&["0=a", "1=ring:a", "2=ring:a"]), Ok(()));
        assert_eq!(
            distinct(&["0=ring:a", "1=ring:a", "2=ring:a"]),
            Err(PortSpecError::SameRing { name: "a".into() })
        );
    }
}
