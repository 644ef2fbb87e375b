//! Addresses and connections: Unix sockets and TCP.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Time within which a TCP connection is established, and a write is taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address of an agent or a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host, by name or address, and a port.
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match port.map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(Address::Tcp(text.to_owned())),
            _ => Err(format!(
                "`{text}` is no address: write unix:PATH or HOST:PORT"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(text) => f.write_str(text),
        }
    }
}

impl Address {
    /// Removes the file of a Unix socket.
    pub(crate) fn remove_file(&self) {
        if let Address::Unix(path) = self {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Returns true if other machines may reach it.
    ///
    /// # Errors
    /// The host has no address.
    pub fn is_beyond_loopback(&self) -> Result<bool, String> {
        match self {
            Address::Unix(_) => Ok(false),
            Address::Tcp(text) => Ok(!resolve(text)?.iter().all(|it| it.ip().is_loopback())),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Nothing listens there.
    pub fn connect(&self) -> Result<Stream, String> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Address::Tcp(text) => {
                let found = resolve(text)?;
                let first = found.first().ok_or("the host has no address")?;
                TcpStream::connect_timeout(first, PATIENCE)
                    .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
                    .map(Stream::Tcp)
            }
        }
        .map_err(|error| error.to_string())
    }
}

fn resolve(text: &str) -> Result<Vec<SocketAddr>, String> {
    let found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(found.collect())
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Returns another handle of the connection.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        })
    }

    /// Sets the time after which a read without bytes fails. Writes fail after some seconds.
    ///
    /// # Errors
    /// The time is 0.
    pub fn set_timeouts(&self, read: Option<Duration>) -> io::Result<()> {
        self.set_patience(read, PATIENCE)
    }

    /// Sets the times after which a read without bytes, and a write of which nothing is taken,
    /// fail.
    ///
    /// # Errors
    /// A time is 0.
    pub(crate) fn set_patience(&self, read: Option<Duration>, write: Duration) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(read)?;
                stream.set_write_timeout(Some(write))
            }
        }
    }

    /// Ends the connection for all of its handles.
    pub fn shut_down(&self) {
        // Fails if the other side has ended it.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// A socket that waits for connections. A Unix socket's file is removed with it.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket, with its file.
    Unix(UnixListener, PathBuf),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at an address. The file of a Unix socket that nothing listens at is replaced.
    ///
    /// # Errors
    /// The address is taken, or not of this machine.
    pub fn bind(address: &Address) -> Result<Listener, String> {
        let listener = match address {
            Address::Tcp(text) => TcpListener::bind(text.as_str()).map(Listener::Tcp),
            Address::Unix(path) => {
                let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| {
                    std::os::unix::fs::FileTypeExt::is_socket(&found.file_type())
                });
                if is_socket && UnixStream::connect(path).is_err() {
                    // Of a process that was killed. If it cannot be removed, binding fails.
                    let _ = std::fs::remove_file(path);
                }
                UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.clone()))
            }
        };
        listener.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("cannot listen at {address}: another process does")
            }
            _ => format!("cannot listen at {address}: {error}"),
        })
    }

    /// Returns the address, with the port that was chosen if 0 was given.
    pub fn address(&self) -> String {
        match self {
            Listener::Unix(_, path) => Address::Unix(path.clone()).to_string(),
            Listener::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
        }
    }

    /// Takes a connection. Call it when the listener is readable.
    ///
    /// # Errors
    /// The connection has ended already, or there are too many descriptors.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept()?.0)),
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Writes a line of JSON.
///
/// # Errors
/// The other side has gone, or takes nothing.
pub fn write_line(stream: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sockets_of_both_kinds() {
        for text in ["unix:/run/a.sock", "127.0.0.1:9580", "host:1", "[::1]:7"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "host",
            ":9",
            "host:x",
            "1.2.3.4:70000",
            "/run/a.sock",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("is no address"), "{error}");
        }
    }

    #[test]
    fn a_unix_socket_of_a_killed_process_is_replaced_and_a_used_one_is_not() {
        let name = format!("polyplane-listener-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        // Its file stays.
        drop(UnixListener::bind(&path).unwrap());
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).unwrap();
        let error = Listener::bind(&address).unwrap_err();
        assert!(error.contains("another process does"), "{error}");
        drop(first);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").unwrap();
        assert!(Listener::bind(&address).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
