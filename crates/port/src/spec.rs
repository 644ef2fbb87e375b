//! Port specifications of the command line: `0=eth0`, `1=tap:tap0`.

use packet::PortId;
use std::fmt;
use std::str::FromStr;

/// The longest interface name that Linux takes, in bytes.
const MAX_NAME: usize = 15;

/// What a switch port is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortTarget {
    /// An existing network interface.
    Interface(String),
    /// A TAP device, made if it does not exist.
    Tap(String),
}

/// One switch port and what it is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The number that programs see.
    pub id: PortId,
    /// What it is attached to.
    pub target: PortTarget,
}

/// Why a text is no port specification, or several do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpecError {
    /// There is no `=`.
    NoNumber {
        /// The whole text.
        spec: String,
    },
    /// What stands before `=` is no port number.
    BadNumber {
        /// The whole text.
        spec: String,
        /// What stands before `=`.
        number: String,
    },
    /// What stands behind `=` is no name that an interface can have.
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
    /// Two specifications have the same interface.
    SameInterface {
        /// The interface.
        name: String,
    },
}

impl PortSpec {
    /// The name of the interface or device.
    pub fn name(&self) -> &str {
        match &self.target {
            PortTarget::Interface(name) | PortTarget::Tap(name) => name,
        }
    }

    /// Checks that no two specifications have a number or an interface in common.
    ///
    /// # Errors
    /// The first pair that has, as [`PortSpecError::SameNumber`] or [`PortSpecError::SameInterface`].
    pub fn check_distinct(specs: &[PortSpec]) -> Result<(), PortSpecError> {
        for (i, spec) in specs.iter().enumerate() {
            if specs[..i].iter().any(|earlier| earlier.id == spec.id) {
                return Err(PortSpecError::SameNumber { id: spec.id });
            }
        }
        PortSpec::check_interfaces(specs)
    }

    /// Checks that no two specifications, of one device or of several, have an interface in common.
    ///
    /// # Errors
    /// [`PortSpecError::SameInterface`].
    pub fn check_interfaces(specs: &[PortSpec]) -> Result<(), PortSpecError> {
        for (i, spec) in specs.iter().enumerate() {
            let name = spec.name();
            if specs[..i].iter().any(|earlier| earlier.name() == name) {
                let name = name.to_owned();
                return Err(PortSpecError::SameInterface { name });
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

/// A port number, decimal or hexadecimal.
fn parse_number(text: &str) -> Option<u32> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    // `from_str_radix` takes a sign as well.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// What Linux takes as an interface name; ':' is left out, which would name an alias or a target
/// that this version does not know.
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
        const FORM: &str = "write NUMBER=INTERFACE or NUMBER=tap:NAME, as in 0=eth0 or 1=tap:tap0";
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

/// The text that parses to this specification.
impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            PortTarget::Interface(name) => write!(f, "{}={name}", self.id),
            PortTarget::Tap(name) => write!(f, "{}=tap:{name}", self.id),
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
    }
}
