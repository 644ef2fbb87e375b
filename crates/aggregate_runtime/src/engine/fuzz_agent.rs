//! Fuzzing target: serves connections of engines of which all bytes are given, without a master.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use support::wakeup::WakeupFd;

use super::connection::{EngineNumber, read_engine};
use super::{Engines, PartLimits};
use crate::stream::Stream;

/// The engines of an agent that has no master.
pub struct FuzzAgent {
    engines: Engines,
    last: EngineNumber,
}

/// A connection of an engine that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzConnection {
    /// All that the agent has written.
    pub written: Vec<u8>,
    /// The error for which the agent has ended it.
    pub error: Option<String>,
    /// Number of requests that the master would have got.
    pub reports: usize,
}

impl FuzzAgent {
    /// Creates an agent without stored parts, with these limits of them.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn new(limits: PartLimits) -> io::Result<FuzzAgent> {
        let wakeup = Arc::new(WakeupFd::armed()?);
        Ok(FuzzAgent {
            engines: Engines::new(Ipv4Addr::LOCALHOST, limits, wakeup),
            last: 0,
        })
    }

    /// Serves an engine that sends these bytes and ends its connection. It is served by the
    /// calling thread.
    ///
    /// # Errors
    /// There are too many descriptors or threads.
    pub fn serve(&mut self, bytes: &[u8]) -> io::Result<FuzzConnection> {
        let (mut engine, agent) = UnixStream::pair()?;
        let mut sender = engine.try_clone()?;
        self.last += 1;
        let (number, sink) = (self.last, self.engines.sink());
        thread::scope(|scope| {
            let sending = move || {
                // Fails if the agent has ended the connection.
                let _ = sender.write_all(bytes);
                let _ = sender.shutdown(Shutdown::Write);
            };
            thread::Builder::new().spawn_scoped(scope, sending)?;
            let reading = move || {
                let mut written = Vec::new();
                match engine.read_to_end(&mut written) {
                    // The agent has ended the connection before it had read all.
                    Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
                    Ok(_) | Err(_) => Ok(written),
                }
            };
            let reading = thread::Builder::new().spawn_scoped(scope, reading)?;
            let ended = read_engine(Stream::Unix(agent), number, &sink);
            let written = reading.join();
            let written = written.unwrap_or_else(|_| Err(io::Error::other("no reader")))?;
            Ok(FuzzConnection {
                written,
                error: ended.err().map(|error| error.to_string()),
                reports: self.engines.take_events().len(),
            })
        })
    }

    /// Returns the pairs of a stored part.
    pub fn stored(&self, name: &str) -> Option<BTreeMap<Vec<u8>, i128>> {
        let part = self.engines.store().get(name, Instant::now())?;
        let pairs = part.iter();
        Some(pairs.map(|it| (it.key.to_vec(), it.value)).collect())
    }
}
