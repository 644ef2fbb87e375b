//! Connection to a plane by P4Runtime, on a thread of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ir::Program;
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Notice;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::Any;
use p4rt::client::{Client, ClientError, Code, EncodedUpdates, Endpoint, Next};
use support::wakeup::WakeupFd;

use crate::messages::{program_hash, read_from_plane, to_plane};
use p4info::polyplane::split::v1 as wire;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(500);

/// Time within which a plane answers.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Time within which a plane reports itself.
const HELLO: Duration = Duration::from_secs(5);

/// Maximum number of packets and digest lists of a plane that wait for the coordinator, and of
/// packets that wait for a plane.
const MAX_QUEUED: usize = 1024;

/// Number of messages of a server that wait for the coordinator, from which on no more are read;
/// and of messages that wait for a server, from which on it has no room for changes.
const MANY_MESSAGES: usize = 64;

/// Time after which a connection of which many messages wait looks again.
const FULL_WAIT: Duration = Duration::from_millis(1);

/// Address and program of a plane.
#[derive(Clone)]
pub(crate) struct PlaneAddress {
    /// Name for messages, such as `server 2`.
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
    /// Device id at that address.
    pub(crate) device: u64,
    /// Election id of the coordinator.
    pub(crate) election: u128,
    /// The half that the plane must run.
    pub(crate) program: Arc<Program>,
    /// Number of the server that must answer; `None` for the switch.
    pub(crate) server: Option<u16>,
}

/// Event of a plane.
pub(crate) enum PlaneEvent {
    /// The coordinator is the primary controller of the plane. One of our planes has reported
    /// itself.
    Connected(Option<wire::Hello>),
    /// The connection has ended, or cannot be established. It is tried again.
    Disconnected(String),
    /// Writes or activations have results.
    Answered,
    /// A message of our planes.
    Message(Queued<Box<wire::FromPlane>>),
    /// A packet for controllers.
    Packet(Queued<rt::PacketIn>),
    /// Digest messages for controllers.
    Digest(Queued<rt::DigestList>),
}

/// Message in a queue of which the length is counted, until it is dropped.
pub(crate) struct Queued<T> {
    pub(crate) message: T,
    _place: Place,
}

/// Place in a queue, counted in the queue's number of taken places.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl<T> Queued<T> {
    /// Takes a place for a message; `None` if all are taken.
    fn within_bound(message: T, taken: &Arc<AtomicUsize>) -> Option<Queued<T>> {
        let place = |count: usize| (count < MAX_QUEUED).then_some(count + 1);
        taken.fetch_update(Relaxed, Relaxed, place).ok()?;
        let _place = Place(Arc::clone(taken));
        Some(Queued { message, _place })
    }

    /// Takes a place for a message that must not be lost.
    fn new(message: T, taken: &Arc<AtomicUsize>) -> Queued<T> {
        taken.fetch_add(1, Relaxed);
        let _place = Place(Arc::clone(taken));
        Queued { message, _place }
    }
}

/// Request to the thread of a connection.
enum Command {
    Write(EncodedUpdates, Sender<Result<(), WriteError>>),
    Activate(wire::Activation, Sender<wire::Activated>),
    Read(Vec<Entity>, Sender<Result<Vec<Entity>, String>>),
    Send(Queued<Box<wire::ToPlane>>),
    Packet(Queued<rt::PacketOut>),
    Reconnect,
    Stop,
}

/// Result of a batch that a plane does not have as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// Refused updates: their places in the batch, codes and reasons.
    Updates(Vec<(usize, Code, String)>),
    /// The whole batch is refused.
    Batch(String),
    /// There is no connection.
    NotConnected,
}

/// Handle of the thread of a connection. The thread ends when it is dropped.
pub(crate) struct Connection {
    commands: Sender<Command>,
    wakeup: Arc<WakeupFd>,
    /// Packets to the plane that wait.
    packets: Arc<AtomicUsize>,
    /// Messages to the plane that wait.
    messages: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Connection {
    /// Starts to connect to a plane. Its events go to `report`.
    ///
    /// # Errors
    /// The operating system provides no thread or descriptor.
    pub(crate) fn start(
        address: PlaneAddress,
        report: impl Fn(PlaneEvent) + Send + 'static,
    ) -> std::io::Result<Connection> {
        let wakeup = Arc::new(WakeupFd::armed()?);
        let (commands, received) = channel();
        let own = Arc::clone(&wakeup);
        let thread = std::thread::Builder::new()
            .name("plane".to_owned())
            .spawn(move || serve(&address, &received, &own, &report))?;
        Ok(Connection {
            commands,
            wakeup,
            packets: Arc::default(),
            messages: Arc::default(),
            thread: Some(thread),
        })
    }

    fn send_command(&self, command: Command) {
        // The thread ends only when this handle is dropped.
        let _ = self.commands.send(command);
        self.wakeup.wake();
    }

    /// Starts to write a batch. The receiver gets the result.
    pub(crate) fn write(&self, updates: EncodedUpdates) -> Receiver<Result<(), WriteError>> {
        let (sender, receiver) = channel();
        self.send_command(Command::Write(updates, sender));
        receiver
    }

    /// Starts to activate an entry of one of our switches. The receiver gets the result.
    pub(crate) fn activate(&self, activation: wire::Activation) -> Receiver<wire::Activated> {
        let (sender, receiver) = channel();
        self.send_command(Command::Activate(activation, sender));
        receiver
    }

    /// Reads all objects that match one of these entities.
    ///
    /// # Errors
    /// The plane is not connected or refuses the request.
    pub(crate) fn read(&self, entities: Vec<Entity>) -> Result<Vec<Entity>, String> {
        let (sender, receiver) = channel();
        self.send_command(Command::Read(entities, sender));
        match receiver.recv_timeout(ANSWER_TIME) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => Err("the plane does not answer".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err(not_connected()),
        }
    }

    /// Ends the connection and begins another one.
    pub(crate) fn reconnect(&self) {
        self.send_command(Command::Reconnect);
    }

    /// Sends a message to one of our planes.
    pub(crate) fn send(&self, message: wire::ToPlane) {
        let message = Queued::new(Box::new(message), &self.messages);
        self.send_command(Command::Send(message));
    }

    /// Returns false while many messages wait for the plane: what can wait does not go to it then.
    pub(crate) fn has_room(&self) -> bool {
        self.messages.load(Relaxed) < MANY_MESSAGES
    }

    /// Sends a packet into the plane's CPU port. It is lost if too many packets wait.
    pub(crate) fn send_packet(&self, packet: rt::PacketOut) {
        if let Some(packet) = Queued::within_bound(packet, &self.packets) {
            self.send_command(Command::Packet(packet));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.send_command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn not_connected() -> String {
    "the plane is not connected".to_owned()
}

/// Refuses a command while there is no connection. Returns false if the thread must stop.
fn refuse(command: Command) -> bool {
    // The requester may have gone.
    match command {
        Command::Write(_, result) => {
            let _ = result.send(Err(WriteError::NotConnected));
        }
        Command::Read(_, result) => {
            let _ = result.send(Err(not_connected()));
        }
        // Without a sender the requester knows that there is no result.
        Command::Activate(..) | Command::Send(_) | Command::Packet(..) | Command::Reconnect => {}
        Command::Stop => return false,
    }
    true
}

fn serve(
    address: &PlaneAddress,
    commands: &Receiver<Command>,
    wakeup: &WakeupFd,
    report: &dyn Fn(PlaneEvent),
) {
    loop {
        let ended = match connect(address) {
            Ok((client, hello)) => {
                let mut link = Link {
                    client,
                    is_ours: hello.is_some(),
                    activations: HashMap::new(),
                    relayed: Arc::default(),
                    waiting: Arc::default(),
                    is_bounded: address.server.is_some(),
                };
                report(PlaneEvent::Connected(hello));
                match link.run(commands, wakeup, report) {
                    Ok(()) => return,
                    Err(error) => format!("{}: {error}", address.name),
                }
            }
            Err(error) => error,
        };
        report(PlaneEvent::Disconnected(ended));
        loop {
            match commands.recv_timeout(RETRY) {
                Ok(command) => {
                    if !refuse(command) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// Connects to a plane and becomes its primary controller. Also returns what one of our planes
/// reports of itself; `None` for another P4Runtime switch.
///
/// # Errors
/// The cause and the remedy.
fn connect(address: &PlaneAddress) -> Result<(Client, Option<wire::Hello>), String> {
    let name = &address.name;
    let failed = |error: ClientError| format!("{name}: {error}");
    let mut client = Client::connect(&address.endpoint, address.device, "").map_err(failed)?;
    let arbitration = client.arbitrate(Some(address.election)).map_err(failed)?;
    if !arbitration.is_primary {
        let highest = arbitration.highest.unwrap_or(address.election);
        return Err(format!(
            "{name}: another controller, with the election id {highest}, is primary; stop it, or take \
             its place with --election-id {}",
            highest.saturating_add(1)
        ));
    }
    let config = client.config(ResponseType::All).map_err(failed)?;
    let info = config.and_then(|config| config.p4info);
    let Some(info) = info else {
        return Err(format!("{name}: it runs no program"));
    };
    let compared = p4rt::compare_p4info(&address.program, &info);
    compared.map_err(|error| format!("{name}: it runs another program: {error}"))?;
    let hello = introduce(address, &mut client)?;
    if hello.is_none() && address.server.is_some() {
        return Err(format!(
            "{name}: it is no `polyplane split server`: it does not report the entries of handlers"
        ));
    }
    Ok((client, hello))
}

/// Asks a plane to report itself. Returns `None` if it does not know the message.
fn introduce(address: &PlaneAddress, client: &mut Client) -> Result<Option<wire::Hello>, String> {
    let name = &address.name;
    let failed = |error: ClientError| format!("{name}: {error}");
    let hello = wire::ToPlane {
        hello: true,
        ..wire::ToPlane::default()
    };
    client.send(Ask::Other(to_plane(&hello))).map_err(failed)?;
    loop {
        match client.next(Some(HELLO), None).map_err(failed)? {
            Next::Told(Notice::Other(message)) => {
                let Some(found) = read_from_plane(&message).and_then(|message| message.hello)
                else {
                    continue;
                };
                let server = address.server.unwrap_or(0);
                if found.server != u32::from(server) {
                    return Err(match found.server {
                        0 => format!("{name}: there is a switch at that address"),
                        other => format!("{name}: server {other} is at that address"),
                    });
                }
                if found.program != program_hash(&address.program) {
                    return Err(format!(
                        "{name}: it runs another program or has other options: start all processes \
                         with the same program and the same options of the split"
                    ));
                }
                return Ok(Some(found));
            }
            Next::Told(Notice::Error(_)) | Next::TimedOut => return Ok(None),
            Next::Told(_) => {}
            Next::Stopped => return Ok(None),
        }
    }
}

/// Connection that is established.
struct Link {
    client: Client,
    /// True for one of our planes.
    is_ours: bool,
    /// Requesters of activations that have no result yet, by number.
    activations: HashMap<u64, Sender<wire::Activated>>,
    /// Packets and digests that wait for the coordinator.
    relayed: Arc<AtomicUsize>,
    /// Messages that wait for the coordinator.
    waiting: Arc<AtomicUsize>,
    /// True if no messages are read while many wait, so that the plane keeps what it reports. The
    /// coordinator waits for answers of a switch among its messages, so these are always read.
    is_bounded: bool,
}

impl Link {
    /// Serves the connection until it is stopped.
    ///
    /// # Errors
    /// The connection has ended.
    fn run(
        &mut self,
        commands: &Receiver<Command>,
        wakeup: &WakeupFd,
        report: &dyn Fn(PlaneEvent),
    ) -> Result<(), ClientError> {
        loop {
            if self.is_bounded && self.waiting.load(Relaxed) >= MANY_MESSAGES {
                match commands.recv_timeout(FULL_WAIT) {
                    Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Ok(command) => self.execute_and_report(command, report)?,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                continue;
            }
            match self.client.next(None, Some(wakeup.fd()))? {
                Next::Told(Notice::Other(message)) => self.receive(&message, report),
                // Beyond the bound they are lost, as P4Runtime allows.
                Next::Told(Notice::Packet(packet)) => {
                    if let Some(packet) = Queued::within_bound(packet, &self.relayed) {
                        report(PlaneEvent::Packet(packet));
                    }
                }
                Next::Told(Notice::Digest(list)) => {
                    if let Some(list) = Queued::within_bound(list, &self.relayed) {
                        report(PlaneEvent::Digest(list));
                    }
                }
                // Timers of entries run at the coordinator.
                Next::Told(_) | Next::TimedOut => {}
                Next::Stopped => {
                    wakeup.rearm();
                    while let Ok(command) = commands.try_recv() {
                        match command {
                            Command::Stop => return Ok(()),
                            command => self.execute_and_report(command, report)?,
                        }
                    }
                }
            }
        }
    }

    fn receive(&mut self, message: &Any, report: &dyn Fn(PlaneEvent)) {
        let Some(mut message) = read_from_plane(message) else {
            return;
        };
        let is_report = !message.activated.is_empty();
        for activated in message.activated.drain(..) {
            if let Some(requester) = self.activations.remove(&activated.number) {
                // The requester may have gone.
                let _ = requester.send(activated);
            }
        }
        if !is_report || message != wire::FromPlane::default() {
            let message = Queued::new(Box::new(message), &self.waiting);
            report(PlaneEvent::Message(message));
        } else {
            report(PlaneEvent::Answered);
        }
    }

    fn execute_and_report(
        &mut self,
        command: Command,
        report: &dyn Fn(PlaneEvent),
    ) -> Result<(), ClientError> {
        let has_answer = matches!(command, Command::Write(..));
        let executed = self.execute(command);
        if has_answer {
            report(PlaneEvent::Answered);
        }
        executed
    }

    fn execute(&mut self, command: Command) -> Result<(), ClientError> {
        // The requester may have gone.
        match command {
            Command::Write(updates, result) => {
                match self
                    .client
                    .write_encoded(updates, Atomicity::ContinueOnError)
                {
                    Err(error) if !is_refusal(&error) => {
                        // The plane gets its state when it is connected again.
                        let _ = result.send(Ok(()));
                        return Err(error);
                    }
                    written => {
                        let _ = result.send(written.map_err(|error| write_error(&error)));
                    }
                }
            }
            Command::Activate(activation, result) => {
                self.activations.insert(activation.number, result);
                let message = wire::ToPlane {
                    activations: vec![activation],
                    ..wire::ToPlane::default()
                };
                self.client.send(Ask::Other(to_plane(&message)))?;
            }
            Command::Read(entities, result) => {
                let mut found = Vec::new();
                let read = self.client.read(entities, |entity| found.push(entity));
                let _ = result.send(read.map(|()| found).map_err(|error| error.to_string()));
            }
            Command::Send(message) if self.is_ours => {
                self.client.send(Ask::Other(to_plane(&message.message)))?;
            }
            Command::Packet(packet) => self.client.send(Ask::Packet(packet.message))?,
            Command::Reconnect => return Err(ClientError::NoSession),
            Command::Send(_) | Command::Stop => {}
        }
        Ok(())
    }
}

/// Returns true if the server has refused a write; false if the connection failed.
fn is_refusal(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refused) if refused.is_refusal())
}

/// Returns the refused updates of a batch.
fn write_error(error: &ClientError) -> WriteError {
    let ClientError::Refused(refused) = error else {
        return WriteError::Batch(error.to_string());
    };
    let updates = refused.updates.iter().enumerate();
    let updates = updates.filter(|(_, update)| update.canonical_code != Code::Ok as i32);
    let updates = updates.map(|(at, update)| {
        let code = Code::from_i32(update.canonical_code);
        (at, code, update.message.clone())
    });
    let updates: Vec<_> = updates.collect();
    match updates.is_empty() {
        true => WriteError::Batch(error.to_string()),
        false => WriteError::Updates(updates),
    }
}
