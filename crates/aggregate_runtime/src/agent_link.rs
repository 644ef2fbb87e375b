//! The master's connection to an agent, on a thread of its own.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::Duration;

use fabric::topology::HostId;

use crate::agent::SILENCE;
use crate::inbox::Inbox;
use crate::order::{Hello, PeerKind};
use crate::site::Event;
use crate::stream::{Stream, write_line};

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(300);

/// A new connection, with what must live as long as it does.
pub struct Connected {
    /// The connection.
    pub stream: Stream,
    /// A process that is ended with it, perhaps.
    pub keep: Option<Box<dyn Send>>,
}

/// An agent to keep connected.
pub struct AgentLink<'a> {
    /// Its host.
    pub host: HostId,
    /// The address of its host.
    pub address: Ipv4Addr,
    /// Connects to it. Returns an error message on failure.
    pub connect: Box<dyn FnMut() -> Result<Connected, String> + Send + 'a>,
}

impl AgentLink<'_> {
    /// Keeps the agent connected and sends its reports, until `is_stopped`.
    pub fn run(mut self, events: &Sender<Event>, is_stopped: &AtomicBool) {
        while !is_stopped.load(Relaxed) {
            let why = match self.serve(events) {
                Ok(()) => "it has ended".to_owned(),
                Err(why) => why,
            };
            // Fails if the master has ended.
            if events.send(Event::AgentLost(self.host, why)).is_err() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Serves a connection to its end.
    fn serve(&mut self, events: &Sender<Event>) -> Result<(), String> {
        let Connected { mut stream, keep } = (self.connect)()?;
        let served = self.read(&mut stream, events);
        stream.shut_down();
        drop(keep);
        served
    }

    fn read(&self, stream: &mut Stream, events: &Sender<Event>) -> Result<(), String> {
        let mut inbox = Inbox::default();
        let hello = greet(stream, &mut inbox, PeerKind::Master, PeerKind::Agent)?;
        if hello.address != Some(self.address) {
            let theirs = hello.address.map_or("none".to_owned(), |it| it.to_string());
            return Err(format!(
                "it has the address {theirs} and not {}; start it with --address {}",
                self.address, self.address
            ));
        }
        let writer = stream.try_clone().map_err(|error| error.to_string())?;
        let mut event = Event::AgentConnected(self.host, writer);
        loop {
            if events.send(event).is_err() {
                return Ok(());
            }
            let Some(line) = next_line(stream, &mut inbox)? else {
                return Ok(());
            };
            let report = serde_json::from_slice(&line);
            let report = report.map_err(|error| format!("a line is no report: {error}"))?;
            event = Event::Report(self.host, report);
        }
    }
}

/// Exchanges first lines: `own` is this side. Returns that of the other side.
///
/// # Errors
/// The other side is no such part, or of another version, or it refuses.
pub fn greet(
    stream: &mut Stream,
    inbox: &mut Inbox,
    own: PeerKind,
    wanted: PeerKind,
) -> Result<Hello, String> {
    let failed = |error: io::Error| error.to_string();
    stream.set_timeouts(Some(SILENCE)).map_err(failed)?;
    write_line(stream, &Hello::own(own)).map_err(failed)?;
    let line = next_line(stream, inbox)?.ok_or("it ends the connection")?;
    let hello: Result<Hello, _> = serde_json::from_slice(&line);
    let hello = hello.map_err(|_| format!("what is there is no {wanted} of polyplane"))?;
    hello.check(wanted)?;
    Ok(hello)
}

/// Reads the next line. `None`: the other side has ended the connection.
///
/// # Errors
/// The other side is silent, or the connection is broken.
pub fn next_line(stream: &mut Stream, inbox: &mut Inbox) -> Result<Option<Vec<u8>>, String> {
    loop {
        if let Some(line) = inbox.next() {
            return Ok(Some(line));
        }
        if inbox.is_closed() {
            return Ok(None);
        }
        match inbox.read(stream) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(format!("it said nothing for {} s", SILENCE.as_secs()));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
    }
}
