//! The gRPC server, which runs on its own thread.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use ir::Program;
use p4info::p4::v1 as rt;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use packet::PortId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::access::{Allow, Rights};
use crate::arbiter::ClientId;
use crate::caller::Call;
use crate::control::Remote;
use crate::device_service::{DeviceService, Loader};
use crate::figures::Figures;
use crate::incoming::{Acceptor, Door, Listen, ListenError, Peer, connections, refused};
use crate::logged::{self, Limit};
use crate::notes::{self, Notes};
use crate::observation::{self, PacketObservation};
use crate::pipeline;
use crate::ports::{self, PortStates};
use crate::request_error::{Checked, RequestError, refuse};
use crate::service::observation::packet_observation_server::PacketObservationServer;
use crate::service::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::service::ports::ports_server::PortsServer;
use crate::service::settings::settings_server::SettingsServer;
use crate::service::split::operator_server::OperatorServer;
use crate::service::tenancy::tenancy_server::TenancyServer;
use crate::services::Services;
use crate::settings;
use crate::split_control::{self, SplitRequest};
use crate::stream::Session;
use crate::tenants::{self, RequestSender};

/// The version of P4Runtime that the server implements.
const API_VERSION: &str = "1.5.0";

/// Maximum size of a message. A config may contain a large program, and a batch may have many
/// entries.
const MAX_BYTES: usize = 256 << 20;

/// Capacity of a session's message queue. If it is full, notifications are dropped.
const MAX_ANSWERS: usize = 4096;

/// Capacity of the queue of read responses.
const MAX_PARTS: usize = 4;

/// Maximum number of concurrent calls on one connection.
const MAX_CALLS: usize = 256;

/// Keepalive: a client that is silent for `ASK_AFTER` receives a ping. If it does not answer within
/// `ANSWER_WITHIN`, its sessions end, and another controller may become primary.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Idle time after which a compile thread ends and frees its stack.
const KEEP_THREADS: Duration = Duration::from_millis(100);

/// Stack size of compile threads. Programs with deeply nested expressions are legal and need much
/// stack.
const STACK_BYTES: usize = 512 << 20;

/// A device to serve.
pub struct ServerConfig {
    /// Its device id.
    pub id: u64,
    /// A second id for the device. It is used while no other device has that id.
    pub second_id: Option<u64>,
    /// The channel to its loop.
    pub remote: Remote,
    /// The compiler and the engine.
    pub loader: Arc<dyn Loader>,
    /// The program that the device runs permanently. `None` if it runs one only until a controller
    /// sets a program.
    pub program: Option<Arc<Program>>,
    /// Its ports and their names, for watchers. CPU ports are not included.
    pub ports: Vec<(PortId, String)>,
    /// Notes that the device stored for the server before it restarted ([`switch::Device::notes`]).
    pub notes: Notes,
    /// Types of the extension messages that its loop takes ([`crate::Inbox::take_other`]).
    pub extensions: &'static [&'static str],
    /// Permissions at this device, in addition to those at every device. If there are any, clients
    /// without a permission are refused.
    pub allowed: Vec<Allow>,
}

/// Error at the start of a server or a device.
#[derive(Debug)]
pub enum ServerError {
    /// The listening settings are not permitted.
    Listen(SocketAddr, ListenError),
    /// The device id is used by another device.
    DeviceId(u64),
    /// A device's program has no P4Info.
    Program(String),
    /// Error of the operating system.
    Io(SocketAddr, std::io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Listen(address, error) => write!(f, "P4Runtime on {address} {error}"),
            ServerError::DeviceId(id) => {
                write!(
                    f,
                    "the device id {id} is given twice; give each device a number of its own"
                )
            }
            ServerError::Program(error) => f.write_str(error),
            ServerError::Io(address, error) => {
                write!(f, "cannot serve P4Runtime on {address}: {error}")
            }
        }
    }
}

impl std::error::Error for ServerError {}

/// All devices, by device id.
pub(crate) struct Sites {
    all: RwLock<BTreeMap<u64, Arc<DeviceService>>>,
    /// The clients' permissions at every device.
    allowed: Vec<Allow>,
    sessions: AtomicU64,
    denials: Limit,
    refusals: Limit,
}

impl Sites {
    fn new(allowed: Vec<Allow>) -> Sites {
        Sites {
            all: RwLock::default(),
            allowed,
            sessions: AtomicU64::default(),
            denials: Limit::default(),
            refusals: Limit::default(),
        }
    }

    fn get(&self, id: u64) -> Option<Arc<DeviceService>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let second = || all.values().find(|site| site.second_id == Some(id));
        all.get(&id).or_else(second).cloned()
    }

    fn all_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Arc<DeviceService>>> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, id: u64) -> Checked<Arc<DeviceService>> {
        match self.get(id) {
            Some(site) => Ok(site),
            None => refuse(
                Code::NotFound,
                format!("there is no device with the id {id}"),
            ),
        }
    }

    /// Starts to serve a device. Must be called on the server's runtime.
    fn open(&self, setup: ServerConfig) -> Result<(), ServerError> {
        let ServerConfig {
            id,
            second_id,
            mut remote,
            loader,
            program,
            ports,
            notes,
            extensions,
            allowed,
        } = setup;
        let told = |fault: RequestError| ServerError::Program(fault.message);
        let noted = match &program {
            Some(program) => notes::read(&notes, program).map_err(told)?,
            None => notes::Noted::default(),
        };
        let config = notes::config(noted, program, &*loader).map_err(told)?;
        let events = remote.take_events();
        let site = Arc::new(DeviceService::new(
            (id, second_id),
            remote,
            loader,
            (allowed, PortStates::new(ports), extensions),
            config,
        ));
        match self.all_mut().entry(id) {
            Entry::Vacant(place) => place.insert(Arc::clone(&site)),
            _ => return Err(ServerError::DeviceId(id)),
        };
        if !notes.is_empty() {
            let site = Arc::clone(&site);
            // Fails only if the device has stopped.
            tokio::spawn(async move { drop(site.settle().await) });
        }
        if let Some((events, others)) = events {
            tokio::spawn(Arc::clone(&site).pass_on_others(others));
            tokio::spawn(site.pass_on(events));
        }
        Ok(())
    }

    /// Returns the clients' permissions at every device.
    pub(crate) fn allowed(&self) -> &[Allow] {
        &self.allowed
    }

    /// Checks that a client has any permission. Otherwise it is refused before its request is read.
    fn admit(&self, peer: &Peer) -> Checked {
        let who = peer.who()?;
        let nothing = match who.rights(&self.allowed, &[]) {
            Ok(_) => return Ok(()),
            Err(fault) => fault,
        };
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let mut own = all.values().map(|site| &site.allowed);
        if own.any(|own| !own.is_empty() && who.rights(&[], own).is_ok()) {
            return Ok(());
        }
        refused(&self.refusals, peer.address, &nothing.message);
        Err(nothing)
    }

    /// Logs that a client without operator rights called an operator function.
    pub(crate) fn denied_operator(&self, peer: SocketAddr, why: &str) {
        logged::denied_operator(&self.denials, peer, why);
    }

    /// Checks that a client may make a request to a device. Refusals are logged and counted.
    pub(crate) fn permit(
        &self,
        device: u64,
        peer: &Peer,
        check: impl FnOnce(&Rights) -> Checked,
    ) -> Checked {
        let site = self.get(device);
        let own = site.as_ref().map_or(&[][..], |site| &site.allowed);
        let rights = peer.who().and_then(|who| who.rights(&self.allowed, own));
        let permitted = rights.and_then(|rights| check(&rights));
        if let Err(fault) = &permitted {
            logged::denied(&self.denials, device, peer.address, &fault.message);
            if let Some(site) = site {
                site.cells.denied.add(1);
            }
        }
        permitted
    }
}

/// Scheduling priority of a server's threads relative to packet threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Same priority. For servers with cores that no worker uses.
    AsWorkers,
    /// Lower priority. On shared cores workers run first, and the server uses the remaining time.
    BelowWorkers,
}

/// Service for operators.
enum ForOperators {
    Nothing,
    Tenancy(RequestSender),
    Split(RequestSender<SplitRequest>),
}

/// A running server. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    sites: Arc<Sites>,
    door: Door,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    runtime: tokio::runtime::Handle,
}

impl Server {
    /// Serves these devices. An address without TLS must be a loopback address.
    ///
    /// # Errors
    /// The server cannot or must not listen on the address, or the settings of a device are wrong.
    pub fn start(
        listen: impl Into<Listen>,
        setups: Vec<ServerConfig>,
        urgency: Urgency,
    ) -> Result<Server, ServerError> {
        Server::begin(listen.into(), setups, urgency, ForOperators::Nothing)
    }

    /// Same as [`Server::start`], with the service for operators of a split program.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn for_split(
        listen: impl Into<Listen>,
        setups: Vec<ServerConfig>,
        urgency: Urgency,
        requests: RequestSender<SplitRequest>,
    ) -> Result<Server, ServerError> {
        let operators = ForOperators::Split(requests);
        Server::begin(listen.into(), setups, urgency, operators)
    }

    /// Same as [`Server::start`], with the service for virtual data planes, and initially without
    /// devices.
    ///
    /// # Errors
    /// The server cannot or must not listen on the address.
    pub fn for_tenants(
        listen: impl Into<Listen>,
        urgency: Urgency,
        petitioner: RequestSender,
    ) -> Result<Server, ServerError> {
        let operators = ForOperators::Tenancy(petitioner);
        Server::begin(listen.into(), Vec::new(), urgency, operators)
    }

    fn begin(
        listen: Listen,
        setups: Vec<ServerConfig>,
        urgency: Urgency,
        operators: ForOperators,
    ) -> Result<Server, ServerError> {
        let address = listen.address;
        let door = listen.door();
        let door = Door::new(door.map_err(|error| ServerError::Listen(address, error))?);
        let io = |error| ServerError::Io(address, error);
        let listener = TcpListener::bind(address).map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let bound = listener.local_addr().map_err(io)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_stack_size(STACK_BYTES)
            .thread_keep_alive(KEEP_THREADS)
            .build()
            .map_err(io)?;
        let handle = runtime.handle().clone();
        let sites = Arc::new(Sites::new(listen.allowed().to_vec()));
        let entered = runtime.enter();
        setups.into_iter().try_for_each(|setup| sites.open(setup))?;
        drop(entered);
        let (stop, stopped) = oneshot::channel();
        let devices = Service {
            sites: Arc::clone(&sites),
        };
        let own_door = door.clone();
        let thread = std::thread::Builder::new()
            .name("p4runtime".to_owned())
            .spawn(move || {
                if urgency == Urgency::BelowWorkers {
                    // If the system refuses, the thread keeps the normal priority.
                    let _ = rustix::process::nice(LESS_URGENT);
                }
                run(runtime, listener, own_door, (devices, operators), stopped);
            })
            .map_err(io)?;
        Ok(Server {
            address: bound,
            sites,
            door,
            stop: Some(stop),
            thread: Some(thread),
            runtime: handle,
        })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the handle that replaces the certificates.
    pub fn certificates(&self) -> Certificates {
        Certificates(self.door.clone())
    }

    /// Runs work that changes a device apart from its controllers, while none of their requests
    /// reads or changes it. If the work succeeds, the device's state is no longer what controllers
    /// have written, and its program is `program`, if there is one. The work must not run on the
    /// thread of the device's loop, which answers the server meanwhile.
    ///
    /// # Errors
    /// That of the work, or the program has no P4Info; then the work is not run.
    pub fn change_apart<T, E>(
        &self,
        device: u64,
        program: Option<&Arc<Program>>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<Result<T, E>, ServerError> {
        let told = |fault: RequestError| ServerError::Program(fault.message);
        let site = self.sites.find(device).map_err(told)?;
        let config = program.map(|program| site.config_of(Arc::clone(program)));
        let config = config.transpose().map_err(told)?;
        let (begun, begin) = std::sync::mpsc::channel();
        let (done, outcome) = oneshot::channel();
        let (end, ended) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            // The caller waits for both.
            let begin = || {
                let _ = begun.send(());
            };
            site.hold(config, begin, outcome).await;
            let _ = end.send(());
        });
        // If the server has ended, no request is in progress.
        let _ = begin.recv();
        let worked = work();
        let _ = done.send(worked.is_ok());
        let _ = ended.recv();
        Ok(worked)
    }

    /// Starts to serve another device.
    ///
    /// # Errors
    /// Its device id is used, or its program has no P4Info.
    pub fn add(&self, setup: ServerConfig) -> Result<(), ServerError> {
        let _entered = self.runtime.enter();
        self.sites.open(setup)
    }

    /// Stops serving a device and ends its sessions. Earlier requests are still completed. Returns
    /// true if the device existed.
    pub fn remove(&self, device: u64) -> bool {
        let site = self.sites.all_mut().remove(&device);
        if let Some(site) = &site {
            site.close();
        }
        site.is_some()
    }

    /// Returns the counters of a device, if it exists.
    pub fn figures(&self, device: u64) -> Option<Figures> {
        let site = self.sites.find(device).ok()?;
        Some(site.figures())
    }

    /// Lets clients that may read a device observe its packets. Does nothing if they may already.
    pub fn observe_by(&self, device: u64, observation: Arc<dyn PacketObservation>) {
        if let Ok(site) = self.sites.find(device) {
            // A second one would be the same.
            let _ = site.observation.set(observation);
        }
    }

    /// Reports to port watchers that a device has one more port.
    pub fn port_added(&self, device: u64, port: PortId, name: String, is_up: bool) {
        if let Ok(site) = self.sites.find(device) {
            site.ports.add(port, name, is_up);
            self.port_changed(device, port, is_up);
        }
    }

    /// Reports to port watchers that a device has a port no more. Groups that watch it treat it as
    /// down.
    pub fn port_removed(&self, device: u64, port: PortId) {
        self.port_changed(device, port, false);
        if let Ok(site) = self.sites.find(device) {
            site.ports.remove(port);
        }
    }

    /// Processes a port state change of a device. It affects watch ports and backup replicas, and
    /// is reported to port watchers.
    pub fn port_changed(&self, device: u64, port: PortId, is_up: bool) {
        if let Ok(site) = self.sites.find(device) {
            site.ports.set(port, is_up);
            self.runtime.spawn(async move {
                // Fails only if the device has stopped.
                let _ = site.port_changed(port, is_up).await;
            });
        }
    }
}

impl Server {
    /// Records that a port is not connected. Port watchers see it as down. Groups treat it as up,
    /// like a port that was never connected.
    pub fn port_disconnected(&self, device: u64, port: PortId) {
        if let Ok(site) = self.sites.find(device) {
            site.ports.set(port, false);
            self.runtime.spawn(async move {
                // Fails only if the device has stopped.
                let _ = site.port_changed(port, true).await;
            });
        }
    }
}

/// Handle that replaces the certificates of a server.
pub struct Certificates(Door);

/// Certificates that were checked and are not yet in use.
pub struct NewCertificates<'c>(&'c Door, Acceptor);

impl Certificates {
    /// Checks certificates.
    ///
    /// # Errors
    /// A certificate is wrong. The server uses those before.
    pub fn check(&self, listen: &Listen) -> Result<NewCertificates<'_>, ServerError> {
        let door = listen.door();
        let door = door.map_err(|error| ServerError::Listen(listen.address, error))?;
        Ok(NewCertificates(&self.0, door))
    }
}

impl NewCertificates<'_> {
    /// Uses them for connections from now on. Open connections stay, and the permissions of
    /// clients do not change.
    pub fn put_in_use(self) {
        self.0.set(self.1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may already have ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The nice(2) value of [`Urgency::BelowWorkers`], per thread since Linux 2.6.
const LESS_URGENT: i32 = 10;

fn run(
    runtime: Runtime,
    listener: TcpListener,
    door: Door,
    (devices, operators): (Service, ForOperators),
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async move {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
            return;
        };
        let incoming = connections(listener, door);
        let sites = Arc::clone(&devices.sites);
        let devices = P4RuntimeServer::new(devices)
            .max_decoding_message_size(MAX_BYTES)
            .max_encoding_message_size(usize::MAX);
        let (mut tenancy, mut split) = (None, None);
        match operators {
            ForOperators::Nothing => {}
            ForOperators::Tenancy(petitioner) => {
                let sites = Arc::clone(&sites);
                let service = TenancyServer::new(tenants::Service { sites, petitioner })
                    .max_decoding_message_size(MAX_BYTES)
                    .max_encoding_message_size(usize::MAX);
                tenancy = Some(service);
            }
            ForOperators::Split(requests) => {
                let sites = Arc::clone(&sites);
                split = Some(OperatorServer::new(split_control::Service {
                    sites,
                    requests,
                }));
            }
        }
        let ports = PortsServer::new(ports::Service {
            sites: Arc::clone(&sites),
        });
        let observation = PacketObservationServer::new(observation::Service {
            sites: Arc::clone(&sites),
        });
        let settings = SettingsServer::new(settings::Service {
            sites: Arc::clone(&sites),
        });
        let services = Services {
            devices,
            ports,
            observation,
            settings,
            tenancy,
            split,
        };
        // Clients without any permission are refused before their request is read.
        let services = InterceptedService::new(services, move |request: Request<()>| {
            sites.admit(Peer::of(&request)?)?;
            Ok(request)
        });
        let served = tonic::transport::Server::builder()
            .concurrency_limit_per_connection(MAX_CALLS)
            .http2_keepalive_interval(Some(ASK_AFTER))
            .http2_keepalive_timeout(Some(ANSWER_WITHIN))
            .serve_with_incoming(services, incoming);
        tokio::select! {
            // If the listener fails permanently, the switch keeps running without P4Runtime.
            _ = served => {}
            _ = stopped => {}
        }
    });
    // This also ends all sessions.
    runtime.shutdown_background();
}

/// Runs work to completion even if the client disconnects, so that it is never left half done.
async fn to_its_end(
    work: impl Future<Output = Result<(), Status>> + Send + 'static,
) -> Result<(), Status> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|_| Err(Status::internal("the server failed on this request")))
}

struct Service {
    sites: Arc<Sites>,
}

/// Returns the peer and the message of a request.
fn open_request<T>(request: Request<T>) -> Result<(Peer, T), Status> {
    let peer = Peer::of(&request)?.clone();
    Ok((peer, request.into_inner()))
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<rt::WriteRequest>,
    ) -> Result<Response<rt::WriteResponse>, Status> {
        let (peer, request) = open_request(request)?;
        let device = request.device_id;
        self.sites
            .permit(device, &peer, |rights| rights.check_role(&request.role))?;
        let site = self.sites.find(request.device_id)?;
        to_its_end(async move { site.write(request).await }).await?;
        Ok(Response::new(rt::WriteResponse {}))
    }

    type ReadStream = ReceiverStream<Result<rt::ReadResponse, Status>>;

    async fn read(
        &self,
        request: Request<rt::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let (peer, request) = open_request(request)?;
        let device = request.device_id;
        self.sites
            .permit(device, &peer, |rights| rights.check_read(&request.role))?;
        let site = self.sites.find(request.device_id)?;
        let (answers, parts) = mpsc::channel(MAX_PARTS);
        tokio::spawn(async move {
            if let Err(status) = site.read(request, &answers).await {
                // The client may have gone.
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(parts)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<rt::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<rt::SetForwardingPipelineConfigResponse>, Status> {
        let may_lose = pipeline::may_lose(request.metadata())?;
        let (peer, request) = open_request(request)?;
        self.sites.permit(request.device_id, &peer, |rights| {
            rights.check_config(&request.role, request.action())
        })?;
        let site = self.sites.find(request.device_id)?;
        // If the client disconnects, the program's compilation is cancelled. A commit that has
        // started is completed.
        let call = Call::default();
        let caller = call.caller();
        to_its_end(async move { Ok(site.set_config(request, may_lose, &caller).await?) }).await?;
        Ok(Response::new(rt::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<rt::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<rt::GetForwardingPipelineConfigResponse>, Status> {
        let (peer, request) = open_request(request)?;
        // Any permission at the device includes reading the program.
        self.sites.permit(request.device_id, &peer, |_| Ok(()))?;
        let site = self.sites.find(request.device_id)?;
        let Ok(wanted) = ResponseType::try_from(request.response_type) else {
            let message = format!("there is no response type {}", request.response_type);
            return Err(RequestError::new(Code::InvalidArgument, message).into());
        };
        let config = site.config().await.map(|mut config| {
            if !matches!(wanted, ResponseType::All | ResponseType::P4infoAndCookie) {
                config.p4info = None;
            }
            if !matches!(
                wanted,
                ResponseType::All | ResponseType::DeviceConfigAndCookie
            ) {
                config.p4_device_config.clear();
            }
            config
        });
        Ok(Response::new(rt::GetForwardingPipelineConfigResponse {
            config,
        }))
    }

    type StreamChannelStream = ReceiverStream<Result<rt::StreamMessageResponse, Status>>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<rt::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let (peer, requests) = open_request(request)?;
        let (answers, messages) = mpsc::channel(MAX_ANSWERS);
        let session = Session {
            sites: Arc::clone(&self.sites),
            client: ClientId(self.sites.sessions.fetch_add(1, Ordering::Relaxed)),
            answers,
            peer,
        };
        tokio::spawn(session.run(requests));
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn capabilities(
        &self,
        request: Request<rt::CapabilitiesRequest>,
    ) -> Result<Response<rt::CapabilitiesResponse>, Status> {
        let (peer, request) = open_request(request)?;
        if request.device_id != 0 {
            self.sites.permit(request.device_id, &peer, |_| Ok(()))?;
            self.sites.find(request.device_id)?;
        }
        Ok(Response::new(rt::CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.to_owned(),
            experimental: None,
        }))
    }
}
