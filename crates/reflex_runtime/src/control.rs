//! The control socket of a running plane: lines of JSON over a UNIX socket.
//!
//! A request is one line: `"show"`, `"watch"`, `{"key": {"get": KEY}}`,
//! `{"key": {"put": [KEY, VALUE]}}`, `{"key": {"compare_and_set": [KEY, VALUE or null, NEW]}}`,
//! `{"key": {"delete": KEY}}`, `{"replace": [OLD, NEW]}` with two nodes, `{"set": [NAME, VALUE]}`
//! with a setting and its value or null, `"settings"`, or `{"reload": MONITOR}`. An answer is one
//! line, an object with `error` if the request was refused.
//! After `"watch"` each event is a line.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use consensus::{Key, Operation, RequestAnswer, StoredValue};
use packet::Nanos;
use reflex::{
    MonitorIndex, MonitorKind, PlaneDriver, ReplaceProgress, RequestId, SetError, StoreRefusal,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ProcessError;
use crate::process::{PlaneObserver, ProcessCounts};

/// Connections at most.
const MAX_CLIENTS: usize = 64;
/// Bytes of a line at most.
const MAX_LINE: usize = 4096;
/// Bytes that wait for a client at most. One that does not read them is disconnected.
const MAX_WAITING: usize = 1 << 20;
/// Time after which an operation without an answer is given up.
const TIMEOUT: Nanos = Nanos::from_secs(5);
/// Time after which a replacement is given up: what was done of it stays.
const REPLACE_TIMEOUT: Nanos = Nanos::from_secs(15);
/// Interval of looking whether a program that is loaded again is compiled.
const RELOAD_LOOK: Nanos = Nanos(5_000_000);
/// Time that a client waits for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Operation on a key of the store. Keys have at most 16 bytes, values at most 64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyOperation {
    /// Reads a key.
    Get(String),
    /// Sets a key.
    Put(String, String),
    /// Sets a key if it has this value; without one, if it has none.
    CompareAndSet(String, Option<String>, String),
    /// Removes a key.
    Delete(String),
}

impl KeyOperation {
    /// Returns the operation of the store.
    ///
    /// # Errors
    /// The key or the value is too long.
    pub fn operation(&self) -> Result<Operation, String> {
        Ok(match self {
            KeyOperation::Get(key) => Operation::Get(key_of(key)?),
            KeyOperation::Delete(key) => Operation::Delete(key_of(key)?),
            KeyOperation::Put(key, value) => Operation::Put(key_of(key)?, value_of(value)?),
            KeyOperation::CompareAndSet(key, expected, new) => Operation::CompareAndSet {
                key: key_of(key)?,
                expected: expected.as_deref().map(value_of).transpose()?,
                new: value_of(new)?,
            },
        })
    }
}

fn value_of(text: &str) -> Result<StoredValue, String> {
    let value = StoredValue::new(text.as_bytes());
    value.ok_or_else(|| format!("the value has {} bytes; write at most 64", text.len()))
}

fn text_of(value: &StoredValue) -> String {
    String::from_utf8_lossy(value.get()).into_owned()
}

fn key_of(text: &str) -> Result<Key, String> {
    let mut key = [0; 16];
    let place = key.get_mut(..text.len()).filter(|place| !place.is_empty());
    let place =
        place.ok_or_else(|| format!("key \"{text}\" has {} bytes; write 1 to 16", text.len()))?;
    place.copy_from_slice(text.as_bytes());
    Ok(key)
}

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlRequest {
    Key(KeyOperation),
    /// Replaces a node by another one.
    Replace(String, String),
    /// Gives a setting a value; without one, that of the file.
    Set(String, Option<String>),
    /// All settings that differ from the file, and the names of the others.
    Settings,
    /// Loads the program of a monitor again.
    Reload(String),
    Show,
    Watch,
}

/// An operation that waits for a leader.
enum WaitingOperation {
    Key(Operation),
    Set(String, Option<String>),
}

/// The process as requests need it.
pub(crate) struct ControlHost<'a> {
    pub(crate) observer: &'a mut dyn PlaneObserver,
    pub(crate) counts: ProcessCounts,
}

impl ControlHost<'_> {
    /// Begins to load the program of a monitor again.
    fn reload(&mut self, driver: &PlaneDriver, name: &str) -> Result<(), String> {
        let monitors = driver.plane().loops().monitors.iter().enumerate();
        let mut programs = monitors.filter(|(_, it)| matches!(it.kind, MonitorKind::Program(_)));
        let found = programs.clone().find(|(_, monitor)| monitor.name == name);
        let Some((at, _)) = found else {
            let names: Vec<&str> = programs.by_ref().map(|(_, it)| it.name.as_str()).collect();
            return Err(match &names[..] {
                [] => "no monitor of this plane is a P4 program".to_owned(),
                names => format!(
                    "no monitor \"{name}\" is a P4 program; name one of: {}",
                    names.join(", ")
                ),
            });
        };
        self.observer.reload(driver.plane(), MonitorIndex(at))
    }
}

struct Client {
    stream: UnixStream,
    /// Bytes of a line that is not complete.
    line: Vec<u8>,
    /// Bytes that the client has not taken.
    waiting: Vec<u8>,
    watches: bool,
    is_closed: bool,
    /// The operation under way, and the time at which it is given up.
    operation: Option<(RequestId, Nanos)>,
    /// The operation that waits for a leader, and the time at which it is given up.
    waits: Option<(WaitingOperation, Nanos)>,
    /// The replacement under way: the old and the new node, and the time at which it is given up.
    replaces: Option<(usize, usize, Nanos)>,
    /// True while the program is compiled that it has loaded again.
    reloads: bool,
}

/// Control socket of a plane.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    clients: Vec<Client>,
    /// Next look at the program that is loaded again, if there is one.
    reload_look: Option<Nanos>,
}

impl ControlSocket {
    /// Opens the socket, for the own user only. A socket that no process serves is replaced.
    pub(crate) fn open(path: &Path) -> Result<ControlSocket, ProcessError> {
        let failed = |error: &dyn std::fmt::Display| {
            ProcessError(format!("control socket {}: {error}", path.display()))
        };
        if UnixStream::connect(path).is_ok() {
            return Err(failed(
                &"another process serves it; stop that one, or give another path",
            ));
        }
        let is_socket = std::fs::symlink_metadata(path)
            .is_ok_and(|it| std::os::unix::fs::FileTypeExt::is_socket(&it.file_type()));
        if is_socket {
            std::fs::remove_file(path).map_err(|error| failed(&error))?;
        }
        let listener = UnixListener::bind(path).map_err(|error| failed(&error))?;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, own).map_err(|error| failed(&error))?;
        listener
            .set_nonblocking(true)
            .map_err(|error| failed(&error))?;
        Ok(ControlSocket {
            listener,
            path: path.to_owned(),
            clients: Vec::new(),
            reload_look: None,
        })
    }

    /// Takes connections and requests, and answers some of them by `host`. Returns the number of
    /// requests.
    pub(crate) fn serve(
        &mut self,
        now: Nanos,
        driver: &mut PlaneDriver,
        host: &mut ControlHost<'_>,
    ) -> usize {
        while self.clients.len() < MAX_CLIENTS
            && let Ok((stream, _)) = self.listener.accept()
        {
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client {
                    stream,
                    line: Vec::new(),
                    waiting: Vec::new(),
                    watches: false,
                    is_closed: false,
                    operation: None,
                    waits: None,
                    replaces: None,
                    reloads: false,
                });
            }
        }
        let mut count = self.finish_reload(now, driver, host);
        for client in &mut self.clients {
            client.read();
            client.go_on(now, driver);
            while client.operation.is_none()
                && client.waits.is_none()
                && client.replaces.is_none()
                && !client.reloads
                && let Some(line) = client.next_line()
            {
                count += 1;
                client.request(now, &line, driver, host);
            }
            if let Some((id, deadline)) = client.operation
                && now >= deadline
            {
                driver.plane_mut().store_mut().forget(id);
                client.operation = None;
                let error = "timeout: no answer within 5 s; the operation may have been done";
                client.send(&json!({ "error": error }));
            }
        }
        if self.reload_look.is_none() && self.clients.iter().any(|client| client.reloads) {
            self.reload_look = Some(now + RELOAD_LOOK);
        }
        while let Some((id, answer)) = driver.plane_mut().next_answer() {
            count += 1;
            let is_own = |it: &&mut Client| it.operation.is_some_and(|(own, _)| own == id);
            if let Some(client) = self.clients.iter_mut().find(is_own) {
                client.operation = None;
                client.send(&shown(answer));
            }
        }
        for client in &mut self.clients {
            client.flush();
            if let Some((id, _)) = client.operation.filter(|_| client.is_closed) {
                driver.plane_mut().store_mut().forget(id);
            }
        }
        self.clients.retain(|client| !client.is_closed);
        count
    }

    /// Answers the client of a program that is loaded again, if it is done. Returns the number of
    /// programs that are.
    fn finish_reload(
        &mut self,
        now: Nanos,
        driver: &mut PlaneDriver,
        host: &mut ControlHost<'_>,
    ) -> usize {
        if self.reload_look.is_none() {
            return 0;
        }
        let Some(result) = host.observer.reloaded(driver.plane_mut()) else {
            self.reload_look = Some(now + RELOAD_LOOK);
            return 0;
        };
        self.reload_look = None;
        // It may have disconnected.
        if let Some(client) = self.clients.iter_mut().find(|client| client.reloads) {
            client.reloads = false;
            client.send(&match result {
                Ok(diagnostics) => json!({ "done": true, "diagnostics": diagnostics }),
                Err(error) => json!({ "error": error }),
            });
        }
        1
    }

    /// Sends an event to the clients that watch.
    pub(crate) fn event(&mut self, event: &Value) {
        for client in self.clients.iter_mut().filter(|client| client.watches) {
            client.send(event);
            client.flush();
        }
    }

    /// Returns the descriptors that are readable when a request waits.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        // The bytes of a full line are not read: they would end each wait at once.
        let clients = self.clients.iter();
        let clients = clients.filter(|client| client.line.len() < MAX_LINE);
        let clients = clients.map(|client| client.stream.as_fd());
        clients.chain([self.listener.as_fd()])
    }

    /// Returns the time at which an operation is given up.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        let ends = |client: &Client| {
            let operation = client.operation.map(|(_, end)| end);
            let waits = client.waits.as_ref().map(|(_, end)| *end);
            let replaces = client.replaces.map(|(_, _, end)| end);
            [operation, waits, replaces]
        };
        let ends = self.clients.iter().flat_map(ends).flatten();
        ends.chain(self.reload_look).min()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn shown(answer: RequestAnswer) -> Value {
    match answer {
        RequestAnswer::Value(value) => {
            let value = value.as_ref().map(text_of);
            json!({ "value": value })
        }
        RequestAnswer::Differs(value) => {
            let words = match &value {
                Some(value) => format!("the key has the value \"{}\"", text_of(value)),
                None => "the key has no value".to_owned(),
            };
            json!({ "error": format!("differs: {words}; nothing was set") })
        }
        RequestAnswer::Full => {
            json!({ "error": "store_full: the store has no room for the key; delete others" })
        }
        RequestAnswer::Stale => json!({ "error": "stale: the operation may have been done" }),
        _ => json!({ "done": true }),
    }
}

impl Client {
    fn read(&mut self) {
        let mut buffer = [0; MAX_LINE];
        while self.line.len() < MAX_LINE {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.is_closed = true;
                    return;
                }
                Ok(length) => self.line.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.line.iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            if self.line.len() >= MAX_LINE {
                self.line.clear();
                self.send(&json!({ "error": "the line is too long" }));
                self.is_closed = true;
            }
            return None;
        };
        let rest = self.line.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.line, rest);
        line.truncate(end);
        Some(line)
    }

    fn request(
        &mut self,
        now: Nanos,
        line: &[u8],
        driver: &mut PlaneDriver,
        host: &mut ControlHost<'_>,
    ) {
        let request = serde_json::from_slice(line).map_err(|error| error.to_string());
        let answer = request.and_then(|request| match request {
            ControlRequest::Show => Ok(Some(host.observer.state(driver, host.counts, now))),
            ControlRequest::Reload(name) => {
                host.reload(driver, &name)?;
                self.reloads = true;
                Ok(None)
            }
            ControlRequest::Watch => {
                self.watches = true;
                Ok(Some(json!({ "watching": true })))
            }
            ControlRequest::Key(operation) => {
                let operation = operation.operation()?;
                self.waits = Some((WaitingOperation::Key(operation), now + TIMEOUT));
                self.go_on(now, driver);
                Ok(None)
            }
            ControlRequest::Set(name, value) => {
                self.waits = Some((WaitingOperation::Set(name, value), now + TIMEOUT));
                self.go_on(now, driver);
                Ok(None)
            }
            ControlRequest::Settings => {
                let settings = driver.plane().settings();
                let settings = settings.map(|it| (it.name, it.value.into()));
                let settings: serde_json::Map<String, Value> = settings.collect();
                Ok(Some(json!({ "settings": settings })))
            }
            ControlRequest::Replace(old, new) => {
                let store = &driver.plane().loops().store;
                let place = |name: &String| {
                    let place = store.nodes.iter().position(|node| node == name);
                    place.ok_or_else(|| {
                        let all = store.nodes.join(", ");
                        format!("the store has no node \"{name}\"; name one of: {all}")
                    })
                };
                let (old, new) = (place(&old)?, place(&new)?);
                if old == new {
                    return Err("a node cannot replace itself: name another one".to_owned());
                }
                self.replaces = Some((old, new, now + REPLACE_TIMEOUT));
                self.go_on(now, driver);
                Ok(None)
            }
        });
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.send(&answer),
            Err(error) => self.send(&json!({ "error": error })),
        }
    }

    /// Goes on with an operation that waits for a leader, or with a replacement.
    fn go_on(&mut self, now: Nanos, driver: &mut PlaneDriver) {
        if let Some((operation, end)) = self.waits.take() {
            let plane = driver.plane_mut();
            let requested = match &operation {
                WaitingOperation::Key(operation) => {
                    plane.request(*operation).map_err(SetError::Store)
                }
                WaitingOperation::Set(name, value) => plane.set(name, value.as_deref()),
            };
            match requested {
                Ok(id) => self.operation = Some((id, end)),
                // An election takes less.
                Err(SetError::Store(StoreRefusal::NoLeader)) if now < end => {
                    self.waits = Some((operation, end));
                }
                Err(refusal) => self.send(&json!({ "error": refusal.to_string() })),
            }
        }
        if let Some((old, new, end)) = self.replaces {
            let answer = match driver.plane_mut().store_mut().replace(now, old, new) {
                ReplaceProgress::Done => json!({ "done": true }),
                ReplaceProgress::NoMember => {
                    let nodes = &driver.plane().loops().store.nodes;
                    let voters = driver.plane().store().voters().into_iter();
                    let voters: Vec<&str> = voters.map(|at| nodes[at].as_str()).collect();
                    let (old, voters) = (&nodes[old], voters.join(", "));
                    json!({ "error": format!("no_member: node {old} is no member of the store, so nothing is replaced; name one of {voters}") })
                }
                ReplaceProgress::WasMember => {
                    let name = &driver.plane().loops().store.nodes[new];
                    json!({ "error": format!("was_member: node {name} was a member and was replaced, so it may have forgotten its votes; name a node that never was one") })
                }
                ReplaceProgress::UnderWay | ReplaceProgress::LedBy(None) if now < end => return,
                ReplaceProgress::UnderWay | ReplaceProgress::LedBy(None) => {
                    let name = &driver.plane().loops().store.nodes[new];
                    let error = format!(
                        "timeout: node {name} has not all entries yet; start it, and ask again"
                    );
                    json!({ "error": error })
                }
                ReplaceProgress::LedBy(Some(leader)) => {
                    let leader = &driver.plane().loops().store.nodes[leader];
                    let error = format!("node {leader} leads: ask at its control socket");
                    json!({ "error": error, "leader": leader })
                }
            };
            self.replaces = None;
            self.send(&answer);
        }
    }

    fn send(&mut self, answer: &Value) {
        if self.waiting.len() > MAX_WAITING {
            self.is_closed = true;
            return;
        }
        self.waiting
            .extend_from_slice(answer.to_string().as_bytes());
        self.waiting.push(b'\n');
    }

    fn flush(&mut self) {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }
}

/// Client of the control socket of a running plane.
#[derive(Debug)]
pub struct ControlClient {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl ControlClient {
    /// Connects to a running plane.
    ///
    /// # Errors
    /// No process serves the socket.
    pub fn connect(path: &Path) -> Result<ControlClient, ProcessError> {
        let stream = UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
            Ok(stream)
        });
        let stream = stream.map_err(|error| {
            ProcessError(format!(
                "no plane serves {}: {error}; start one with `polyplane reflex run LOOPS.toml --control {}`, or with `polyplane reflex member LOOPS.toml --name NODE --control {}` if the nodes of the file have addresses or a ring",
                path.display(),
                path.display(),
                path.display()
            ))
        })?;
        Ok(ControlClient {
            stream: BufReader::new(stream),
            path: path.to_owned(),
        })
    }

    /// Does an operation on a key. Returns the value of the key that is read.
    ///
    /// # Errors
    /// The operation was refused, or the plane ended.
    pub fn operate(&mut self, operation: KeyOperation) -> Result<Option<String>, ProcessError> {
        let answer = self.ask(&ControlRequest::Key(operation))?;
        Ok(answer["value"].as_str().map(str::to_owned))
    }

    /// Replaces a node of the store by another one, at the process that leads.
    ///
    /// # Errors
    /// Another node leads, or the new node does not get the log. What was done stays: ask again.
    pub fn replace(&mut self, old: &str, new: &str) -> Result<(), ProcessError> {
        let request = ControlRequest::Replace(old.to_owned(), new.to_owned());
        self.ask(&request).map(|_| ())
    }

    /// Gives a setting a value in the store; without one, that of the file.
    ///
    /// # Errors
    /// There is no such setting or value, the store took no request, or the plane ended.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), ProcessError> {
        let value = value.map(str::to_owned);
        self.ask(&ControlRequest::Set(name.to_owned(), value))
            .map(|_| ())
    }

    /// Has the program of a monitor loaded again, with its state. Returns the compiler's warnings.
    ///
    /// # Errors
    /// The program has errors or would lose state, so the one before stays, or the plane ended.
    pub fn reload(&mut self, monitor: &str) -> Result<String, ProcessError> {
        let answer = self.ask(&ControlRequest::Reload(monitor.to_owned()))?;
        Ok(answer["diagnostics"].as_str().unwrap_or("").to_owned())
    }

    /// Returns all settings with their values in the store; null is that of the file.
    ///
    /// # Errors
    /// The plane ended.
    pub fn settings(&mut self) -> Result<Value, ProcessError> {
        let mut answer = self.ask(&ControlRequest::Settings)?;
        Ok(answer["settings"].take())
    }

    /// Returns the state of the plane.
    ///
    /// # Errors
    /// The plane ended.
    pub fn show(&mut self) -> Result<Value, ProcessError> {
        self.ask(&ControlRequest::Show)
    }

    /// Begins to receive events, by [`ControlClient::next_event`].
    ///
    /// # Errors
    /// The plane ended.
    pub fn watch(&mut self) -> Result<(), ProcessError> {
        let timeout = self.stream.get_ref().set_read_timeout(None);
        timeout.map_err(|error| self.failed(&error))?;
        self.ask(&ControlRequest::Watch).map(|_| ())
    }

    /// Waits for the next event. `None` when the plane ends.
    ///
    /// # Errors
    /// The connection failed.
    pub fn next_event(&mut self) -> Result<Option<Value>, ProcessError> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|error| self.failed(&error)),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Returns the descriptor that is readable when an event waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }

    /// Returns true if an event was received and not taken.
    pub fn has_event(&self) -> bool {
        !self.stream.buffer().is_empty()
    }

    fn ask(&mut self, request: &ControlRequest) -> Result<Value, ProcessError> {
        let line = serde_json::to_string(request).map_err(|error| self.failed(&error))?;
        let sent = writeln!(self.stream.get_ref(), "{line}");
        sent.map_err(|error| self.failed(&error))?;
        let answer = self.next_event()?;
        let answer = answer.ok_or_else(|| self.failed(&"the plane ended"))?;
        match answer["error"].as_str() {
            Some(error) => Err(ProcessError::new(error)),
            None => Ok(answer),
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> ProcessError {
        ProcessError(format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_and_values_are_refused_with_their_limits() {
        let refused = |operation: KeyOperation| operation.operation().unwrap_err();
        let long = "a".repeat(17);
        assert!(refused(KeyOperation::Get(long)).contains("17 bytes; write 1 to 16"));
        assert!(refused(KeyOperation::Get(String::new())).contains("0 bytes"));
        let value = KeyOperation::Put("key".to_owned(), "v".repeat(65));
        assert!(refused(value).contains("65 bytes; write at most 64"));
        let compare = |expected: &str, new: &str| {
            let expected = Some(expected.to_owned());
            KeyOperation::CompareAndSet("key".to_owned(), expected, new.to_owned())
        };
        let long = "v".repeat(65);
        assert!(refused(compare(&long, "v")).contains("65 bytes"));
        assert!(refused(compare("v", &long)).contains("65 bytes"));
        let operation = KeyOperation::Delete("key".to_owned()).operation().unwrap();
        let mut key = [0; 16];
        key[..3].copy_from_slice(b"key");
        assert_eq!(operation, Operation::Delete(key));
    }

    #[test]
    fn a_client_with_a_full_line_does_not_end_a_wait() {
        let name = format!("reflex-control-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut socket = ControlSocket::open(&path).unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        socket.clients.push(Client {
            stream,
            line: vec![0; MAX_LINE - 1],
            waiting: Vec::new(),
            watches: false,
            is_closed: false,
            operation: None,
            waits: None,
            replaces: None,
            reloads: false,
        });
        assert_eq!(socket.fds().count(), 2);
        socket.clients[0].line.push(0);
        assert_eq!(socket.fds().count(), 1);
    }

    #[test]
    fn a_request_is_one_line_of_json() {
        let request = ControlRequest::Key(KeyOperation::Put("a".to_owned(), "1".to_owned()));
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(line, r#"{"key":{"put":["a","1"]}}"#);
        assert_eq!(
            serde_json::from_str::<ControlRequest>(&line).unwrap(),
            request
        );
        assert_eq!(
            serde_json::to_string(&ControlRequest::Show).unwrap(),
            "\"show\""
        );
    }
}
