//! A request to the metrics server of a switch on this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time for the connection, and without a byte.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum length of an answer in bytes.
const MAX_ANSWER: u64 = 256 << 20;

/// Returns the body of the answer to a GET.
///
/// # Errors
/// There is no answer, or the answer is not 200: cause and remedy.
pub(crate) fn get(at: SocketAddr, path: &str) -> Result<String, String> {
    let unreached = |error| {
        format!("{at}: {error}; does a switch with --offload and --metrics {at} run there?")
    };
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE).map_err(unreached)?;
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
