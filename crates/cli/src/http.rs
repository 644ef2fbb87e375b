//! A request to the metrics server of a switch.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Time for the connection, and without a byte.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum length of an answer in bytes.
const MAX_ANSWER: u64 = 256 << 20;

/// Address of a metrics server: `HOST:PORT`, or the URL that a switch prints at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricsAddress(String);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        let address = text.strip_prefix("http://").unwrap_or(text);
        let address = address.strip_suffix("/metrics").unwrap_or(address);
        let address = address.strip_suffix('/').unwrap_or(address);
        let port = address.rsplit_once(':').map(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains('/');
            is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        match port {
            Some(true) => Ok(MetricsAddress(address.to_owned())),
            _ => Err(format!(
                "`{text}` is no address of a metrics server; write HOST:PORT as in localhost:9100"
            )),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Connects to the first of the addresses of a name that answers.
fn connect(at: &MetricsAddress) -> std::io::Result<TcpStream> {
    let mut last = None;
    for address in at.0.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("the name has no address")))
}

/// Returns the body of the answer to a GET.
///
/// # Errors
/// There is no answer, or the answer is not 200: cause and remedy.
pub(crate) fn get(at: &MetricsAddress, path: &str) -> Result<String, String> {
    let unreached = |error| {
        format!("{at}: {error}; does a switch with --offload and --metrics {at} run there?")
    };
    let mut stream = connect(at).map_err(unreached)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreached)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(unreached)?;
    let mut answer = String::new();
    let mut limited = stream.take(MAX_ANSWER);
    limited.read_to_string(&mut answer).map_err(unreached)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1);
    match status {
        Some("200") => Ok(body.to_owned()),
        _ => Err(format!(
            "{at} does not serve {path}: {}; does a switch with --offload run there?",
            body.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_names_and_be_the_url_of_the_metrics() {
        for (text, address) in [
            ("127.0.0.1:9100", "127.0.0.1:9100"),
            ("localhost:9100", "localhost:9100"),
            ("[::1]:9100", "[::1]:9100"),
            ("http://127.0.0.1:9100/metrics", "127.0.0.1:9100"),
            ("http://router/", ""),
            ("localhost", ""),
            (":9100", ""),
            ("localhost:0", ""),
            ("localhost:http", ""),
        ] {
            let found = text.parse::<MetricsAddress>();
            let found = found.map_or(String::new(), |address| address.to_string());
            assert_eq!(found, address, "{text}");
        }
    }
}
