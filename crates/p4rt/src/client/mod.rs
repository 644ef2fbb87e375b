//! Controller side of P4Runtime: a connection to any server. It shares no state with the server.
//!
//! Calls block. The connection has its own runtime, which runs only while a call waits.

mod encoded;
mod endpoint;
mod error;
mod observation;
mod operator;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use p4info::p4::v1 as rt;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::write_request::Atomicity;
use p4info::polyplane::ports::v1::{
    ChangeRequest, ListRequest, ListResponse, PortDetails, PortState, WatchRequest, change_request,
};
use p4info::polyplane::settings::v1::{GetRequest, SetRequest};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::pipeline::MAY_LOSE;
use crate::service::p4_runtime_client::P4RuntimeClient;
use crate::service::ports::ports_client::PortsClient;
use crate::service::settings::settings_client::SettingsClient;

pub use encoded::EncodedUpdates;
pub use endpoint::{Endpoint, Tls};
pub use error::{ClientError, UpdateError};
pub use observation::{Observation, Observed};
pub use operator::{Operator, SplitOperator};
pub use tonic::Code;

/// Capacity of the queue of messages to the server.
const MAX_ASKED: usize = 1024;

/// Timeout for the answer to an arbitration update.
const ARBITRATION: Duration = Duration::from_secs(10);

/// A connection to one device of a server.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
    rpc: P4RuntimeClient<Channel>,
    ports: PortsClient<Channel>,
    settings: SettingsClient<Channel>,
    device: u64,
    role: String,
    election: Option<u128>,
    session: Option<Session>,
}

/// The stream to and from the server.
struct Session {
    asked: mpsc::Sender<rt::StreamMessageRequest>,
    told: Streaming<rt::StreamMessageResponse>,
    /// Messages received while the client waited for another one.
    kept: VecDeque<Told>,
}

/// Result of an arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arbitration {
    /// True if this connection is primary and may write.
    pub is_primary: bool,
    /// True if there is a primary.
    pub has_primary: bool,
    /// The highest election id that the server knows.
    pub highest: Option<u128>,
}

impl Arbitration {
    fn of(told: &rt::MasterArbitrationUpdate) -> Arbitration {
        let code = told.status.as_ref().map_or(0, |status| status.code);
        Arbitration {
            is_primary: code == Code::Ok as i32,
            has_primary: code != Code::NotFound as i32,
            highest: told
                .election_id
                .as_ref()
                .map(|id| u128::from(id.high) << 64 | u128::from(id.low)),
        }
    }
}

/// Result of waiting for a message.
#[derive(Debug)]
pub enum Next {
    /// A message from the server.
    Told(Told),
    /// The stop descriptor became readable.
    Stopped,
    /// The timeout expired.
    TimedOut,
}

impl Client {
    /// Connects to a server, for one of its devices and one role (empty: the default role).
    ///
    /// # Errors
    /// The server cannot be reached, or the TLS settings are not valid.
    pub fn connect(endpoint: &Endpoint, device: u64, role: &str) -> Result<Client, ClientError> {
        let (runtime, channel) = endpoint.connect()?;
        let ports = PortsClient::new(channel.clone());
        let settings = SettingsClient::new(channel.clone());
        let rpc = P4RuntimeClient::new(channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Ok(Client {
            runtime,
            channel,
            rpc,
            ports,
            settings,
            device,
            role: role.to_owned(),
            election: None,
            session: None,
        })
    }

    /// Returns the version of P4Runtime that the server implements.
    ///
    /// # Errors
    /// Any error that the server returns. This holds for all calls below.
    pub fn capabilities(&mut self) -> Result<String, ClientError> {
        let request = rt::CapabilitiesRequest {
            device_id: self.device,
        };
        let answer = self.runtime.block_on(self.rpc.capabilities(request))?;
        Ok(answer.into_inner().p4runtime_api_version)
    }

    /// Returns the state of the device's ports, by number; `None` if the server does not have the
    /// service.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn port_states(&mut self) -> Result<Option<Vec<PortState>>, ClientError> {
        let request = WatchRequest {
            device_id: self.device,
        };
        let first = self.runtime.block_on(async {
            let mut states = self.ports.watch(request).await?.into_inner();
            states.message().await
        });
        match first {
            Ok(states) => Ok(states.map(|states| states.ports)),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Returns the device's ports with their counts, and its drops; `None` if the server does not
    /// list them.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn port_details(&mut self) -> Result<Option<ListResponse>, ClientError> {
        let request = ListRequest {
            device_id: self.device,
        };
        match self.runtime.block_on(self.ports.list(request)) {
            Ok(answer) => Ok(Some(answer.into_inner())),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Adds, removes or reopens a port. Returns the port after the change.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn change_port(
        &mut self,
        change: change_request::Change,
    ) -> Result<Option<PortDetails>, ClientError> {
        let request = ChangeRequest {
            device_id: self.device,
            change: Some(change),
        };
        let answer = self.runtime.block_on(self.ports.change(request))?;
        Ok(answer.into_inner().port)
    }

    /// Makes settings that P4Runtime has no message for, given as statements of an entries file.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn set(&mut self, statements: &str) -> Result<(), ClientError> {
        let request = SetRequest {
            device_id: self.device,
            statements: statements.to_owned(),
        };
        self.runtime.block_on(self.settings.set(request))?;
        Ok(())
    }

    /// Returns the settings as statements; `None` if the server does not report them.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn settings(&mut self) -> Result<Option<String>, ClientError> {
        let request = GetRequest {
            device_id: self.device,
        };
        match self.runtime.block_on(self.settings.get(request)) {
            Ok(answer) => Ok(Some(answer.into_inner().statements)),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Returns the running program, in the requested parts; `None` if there is no program.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn config(
        &mut self,
        parts: ResponseType,
    ) -> Result<Option<rt::ForwardingPipelineConfig>, ClientError> {
        let request = rt::GetForwardingPipelineConfigRequest {
            device_id: self.device,
            response_type: parts.into(),
        };
        let call = self.rpc.get_forwarding_pipeline_config(request);
        match self.runtime.block_on(call) {
            Ok(answer) => Ok(answer.into_inner().config),
            // Servers without a program answer with this error, or with an empty config.
            Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Sets the program. `may_lose` names the objects (`*`: all) that may lose state with no place
    /// in the new program. Only Polyplane's server uses it (docs/reference/program-change.md).
    ///
    /// # Errors
    /// Any error that the server returns, or a name that cannot be sent as metadata.
    pub fn set_config(
        &mut self,
        action: Action,
        config: rt::ForwardingPipelineConfig,
        may_lose: &[String],
    ) -> Result<(), ClientError> {
        #[allow(deprecated, reason = "role_id is of servers before 1.4")]
        let request = rt::SetForwardingPipelineConfigRequest {
            device_id: self.device,
            role_id: 0,
            role: self.role.clone(),
            election_id: self.election.map(uint128),
            action: action.into(),
            config: Some(config),
        };
        let mut request = Request::new(request);
        if !may_lose.is_empty() {
            let names = may_lose.join(",");
            let word = MetadataValue::try_from(&names).ok();
            // Other bytes could be sent, but servers do not accept them as text.
            let word = word.filter(|word| word.to_str().is_ok());
            let word = word.ok_or(ClientError::Name(names))?;
            request.metadata_mut().insert(MAY_LOSE, word);
        }
        let call = self.rpc.set_forwarding_pipeline_config(request);
        self.runtime.block_on(call)?;
        Ok(())
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// Any error that the server returns. [`UpdateError::updates`] has the result of each update.
    pub fn write(
        &mut self,
        updates: Vec<rt::Update>,
        atomicity: Atomicity,
    ) -> Result<(), ClientError> {
        let request = self.write_request(updates, atomicity);
        self.runtime.block_on(self.rpc.write(request))?;
        Ok(())
    }

    fn write_request(&self, updates: Vec<rt::Update>, atomicity: Atomicity) -> rt::WriteRequest {
        #[allow(deprecated, reason = "role_id is of servers before 1.4")]
        rt::WriteRequest {
            device_id: self.device,
            role_id: 0,
            role: self.role.clone(),
            election_id: self.election.map(uint128),
            updates,
            atomicity: atomicity.into(),
        }
    }

    /// Reads the objects that match any of these entities. Calls `each` for each object as the
    /// answer arrives.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn read(
        &mut self,
        entities: Vec<rt::entity::Entity>,
        mut each: impl FnMut(rt::entity::Entity),
    ) -> Result<(), ClientError> {
        let entities = entities.into_iter().map(|entity| rt::Entity {
            entity: Some(entity),
        });
        let request = rt::ReadRequest {
            device_id: self.device,
            role: self.role.clone(),
            entities: entities.collect(),
        };
        let rpc = &mut self.rpc;
        self.runtime.block_on(async {
            let mut parts = rpc.read(request).await?.into_inner();
            while let Some(part) = parts.message().await? {
                let entities = part.entities.into_iter();
                entities.filter_map(|one| one.entity).for_each(&mut each);
            }
            Ok(())
        })
    }

    /// Sends an arbitration update with an election id, and opens the stream if there is none.
    /// Without an id, the controller stays backup and only receives notifications.
    ///
    /// # Errors
    /// The server ends the stream, or does not answer.
    pub fn arbitrate(&mut self, election: Option<u128>) -> Result<Arbitration, ClientError> {
        let role = (!self.role.is_empty()).then(|| rt::Role {
            name: self.role.clone(),
            ..rt::Role::default()
        });
        let ask = Ask::Arbitration(rt::MasterArbitrationUpdate {
            device_id: self.device,
            role,
            election_id: election.map(uint128),
            status: None,
        });
        match &self.session {
            Some(_) => self.send(ask)?,
            None => self.open(ask)?,
        }
        loop {
            match self.receive(Some(ARBITRATION), None)? {
                Next::Told(Told::Arbitration(told)) => {
                    self.election = election;
                    return Ok(Arbitration::of(&told));
                }
                Next::Told(other) => self.keep(other),
                Next::TimedOut | Next::Stopped => return Err(ClientError::NoArbitration),
            }
        }
    }

    /// Waits until the server has processed all messages of the stream, and returns the errors it
    /// reported so far. A stream is answered in order. So the answer to another arbitration update
    /// follows all errors of earlier messages.
    ///
    /// # Errors
    /// The server ends the stream, or does not answer.
    pub fn settle(&mut self) -> Result<Vec<String>, ClientError> {
        self.arbitrate(self.election)?;
        let Some(session) = &mut self.session else {
            return Ok(Vec::new());
        };
        let mut errors = Vec::new();
        session.kept.retain(|told| match told {
            Told::Error(error) => {
                errors.push(error.message.clone());
                false
            }
            _ => true,
        });
        Ok(errors)
    }

    fn open(&mut self, first: Ask) -> Result<(), ClientError> {
        let (asked, asks) = mpsc::channel(MAX_ASKED);
        let first = rt::StreamMessageRequest {
            update: Some(first),
        };
        // Cannot fail: the channel is new and empty.
        let _ = asked.try_send(first);
        let call = self.rpc.stream_channel(ReceiverStream::new(asks));
        let told = self.runtime.block_on(call)?.into_inner();
        self.session = Some(Session {
            asked,
            told,
            kept: VecDeque::new(),
        });
        Ok(())
    }

    /// Sends a message on the stream.
    ///
    /// # Errors
    /// There is no stream (see [`Client::arbitrate`]), or it has ended.
    pub fn send(&mut self, ask: Ask) -> Result<(), ClientError> {
        let Some(session) = &self.session else {
            return Err(ClientError::NoSession);
        };
        let message = rt::StreamMessageRequest { update: Some(ask) };
        let sent = self.runtime.block_on(session.asked.send(message));
        sent.map_err(|_| ClientError::NoSession)
    }

    fn keep(&mut self, told: Told) {
        if let Some(session) = &mut self.session {
            session.kept.push_back(told);
        }
    }

    /// Returns the next message of the stream. Waits until the time `within` has passed or `stop`
    /// becomes readable.
    ///
    /// # Errors
    /// There is no stream, or the server ends it.
    pub fn next(
        &mut self,
        within: Option<Duration>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Next, ClientError> {
        let kept = self
            .session
            .as_mut()
            .and_then(|session| session.kept.pop_front());
        match kept {
            Some(told) => Ok(Next::Told(told)),
            None => self.receive(within, stop),
        }
    }

    fn receive(
        &mut self,
        within: Option<Duration>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Next, ClientError> {
        let Some(session) = &mut self.session else {
            return Err(ClientError::NoSession);
        };
        let told = &mut session.told;
        let next = self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = readable(stop) => Ok(Some(Next::Stopped)),
                message = told.message() => Ok(match message? {
                    Some(message) => message.update.map(Next::Told),
                    None => return Err(ClientError::NoSession),
                }),
                () = passed(within) => Ok(Some(Next::TimedOut)),
            }
        });
        match next {
            // A message type of a later protocol version is skipped.
            Ok(None) => self.receive(within, stop),
            Ok(Some(next)) => Ok(next),
            Err(error) => {
                self.session = None;
                Err(error)
            }
        }
    }

    /// Waits for a time. Returns false if `stop` became readable first.
    pub fn pause(&mut self, time: Duration, stop: Option<BorrowedFd<'_>>) -> bool {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = readable(stop) => false,
                () = tokio::time::sleep(time) => true,
            }
        })
    }
}

fn uint128(number: u128) -> rt::Uint128 {
    rt::Uint128 {
        high: (number >> 64) as u64,
        low: number as u64,
    }
}

/// Completes when the descriptor is readable. Never completes without a descriptor.
async fn readable(descriptor: Option<BorrowedFd<'_>>) {
    #[allow(
        deprecated,
        reason = "a borrowed descriptor stays open while it is borrowed"
    )]
    let watched = |fd| AsyncFd::with_interest(fd, Interest::READABLE).ok();
    let descriptor = descriptor.and_then(watched);
    match descriptor {
        Some(descriptor) => {
            // An error on the descriptor also ends the wait.
            let _ = descriptor.readable().await;
        }
        None => std::future::pending().await,
    }
}

async fn passed(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
