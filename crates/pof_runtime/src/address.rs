//! Addresses of controllers and switches: `tcp:HOST:PORT`, `tls:HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// Port of a POF controller, if none is given.
const DEFAULT_PORT: u16 = 6633;

/// Address to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerAddress {
    /// A name or an IP address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// True if TLS is spoken.
    pub is_tls: bool,
}

/// Error in the text of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AddressError(text) = self;
        write!(
            f,
            "`{text}` is no address; write tcp:HOST:PORT or tls:HOST:PORT, as in tcp:10.0.0.1:{DEFAULT_PORT} or tcp:[::1]:{DEFAULT_PORT}"
        )
    }
}

impl std::error::Error for AddressError {}

impl FromStr for ControllerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<ControllerAddress, AddressError> {
        let wrong = || AddressError(text.to_owned());
        let (is_tls, rest) = match (text.strip_prefix("tcp:"), text.strip_prefix("tls:")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => (false, text),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(wrong)?;
                (host, after.strip_prefix(':'))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(wrong());
        }
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse);
        Ok(ControllerAddress {
            host: host.to_owned(),
            port: port.map_err(|_| wrong())?,
            is_tls,
        })
    }
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "tls" } else { "tcp" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}:[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}:{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in [
            "tcp:10.0.0.1:6643",
            "tls:control.example:1",
            "tcp:[::1]:6633",
        ] {
            let address: ControllerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for (text, whole) in [
            ("127.0.0.1", "tcp:127.0.0.1:6633"),
            ("host:7", "tcp:host:7"),
            ("tcp:[::1]", "tcp:[::1]:6633"),
        ] {
            let address: ControllerAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), whole);
        }
        for text in [
            "",
            "tcp:",
            "tcp::6633",
            "tcp:host:port",
            "tcp:[::1",
            "a b:1",
            "udp:a:1",
        ] {
            let error = text.parse::<ControllerAddress>().expect_err(text);
            assert!(error.to_string().contains("tcp:HOST:PORT"), "{error}");
        }
    }
}
