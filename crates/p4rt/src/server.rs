//! The gRPC service, on a thread of its own.

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
use crate::fault::{Checked, Fault, refuse};
use crate::figures::Figures;
use crate::incoming::{Door, Listen, ListenError, Peer, connections, refused};
use crate::logged::{self, Limit};
use crate::notes::{self, Notes};
use crate::pipeline;
use crate::ports::{self, PortBoard};
use crate::service::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use crate::service::ports::ports_server::PortsServer;
use crate::service::tenancy::tenancy_server::TenancyServer;
use crate::services::Services;
use crate::site::{Loader, Site};
use crate::stream::Session;
use crate::tenants::{self, Petitioner};

/// The version of the specification that is served.
const API_VERSION: &str = "1.5.0";

/// The largest message: a config with a large program, a batch of many entries.
const MOST_BYTES: usize = 256 << 20;

/// Messages that wait for a session; the next notification is lost.
const MOST_ANSWERS: usize = 4096;

/// Parts of a read that wait for the reader.
const MOST_PARTS: usize = 4;

/// Calls that one connection may have at a time.
const MOST_CALLS: usize = 256;

/// A client that says nothing for so long is asked whether it lives, and is dead without an answer in time: its sessions end, and another controller
/// may be primary.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Threads that have made a program, with what their stacks took, stay for so long.
const KEEP_THREADS: Duration = Duration::from_millis(100);

/// Programs with very deep expressions are legal, and compiling them takes stack.
const STACK_BYTES: usize = 512 << 20;

/// A device to be served.
pub struct Setup {
    /// Its number.
    pub id: u64,
    /// A second number by which controllers may know it while no device has that for its own.
    pub second_id: Option<u64>,
    /// The way to its loop.
    pub remote: Remote,
    /// The compiler and the engine.
    pub loader: Arc<dyn Loader>,
    /// The program that it runs already, and not only until a controller sets one.
    pub program: Option<Arc<Program>>,
    /// Its ports and their names, for who watches them; those of controllers are none.
    pub ports: Vec<(PortId, String)>,
    /// What the device kept for the server before it started again ([`switch::Device::notes`]).
    pub notes: Notes,
    /// What clients with certificates may do at this device, beside what they may do at every one; if there is something, those who are not named do
    /// nothing.
    pub allowed: Vec<Allow>,
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// The server may not listen as it was told.
    Listen(SocketAddr, ListenError),
    /// A device's number is taken.
    DeviceId(u64),
    /// A device's program has no P4Info.
    Program(String),
    /// The operating system's.
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

/// All devices, by number.
pub(crate) struct Sites {
    all: RwLock<BTreeMap<u64, Arc<Site>>>,
    /// What clients may do at every device.
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

    fn get(&self, id: u64) -> Option<Arc<Site>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let second = || all.values().find(|site| site.second_id == Some(id));
        all.get(&id).or_else(second).cloned()
    }

    fn all_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Arc<Site>>> {
        self.all.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, id: u64) -> Checked<Arc<Site>> {
        match self.get(id) {
            Some(site) => Ok(site),
            None => refuse(
                Code::NotFound,
                format!("there is no device with the id {id}"),
            ),
        }
    }

    /// Begins to serve a device. On the server's runtime.
    fn open(&self, setup: Setup) -> Result<(), ServerError> {
        let Setup {
            id,
            second_id,
            mut remote,
            loader,
            program,
            ports,
            notes,
            allowed,
        } = setup;
        let told = |fault: Fault| ServerError::Program(fault.message);
        let noted = match &program {
            Some(program) => notes::read(&notes, program).map_err(told)?,
            None => notes::Noted::default(),
        };
        let config = notes::config(noted, program, &*loader).map_err(told)?;
        let events = remote.take_events();
        let site = Arc::new(Site::new(
            (id, second_id),
            remote,
            loader,
            (allowed, PortBoard::new(ports)),
            config,
        ));
        match self.all_mut().entry(id) {
            Entry::Vacant(place) => place.insert(Arc::clone(&site)),
            _ => return Err(ServerError::DeviceId(id)),
        };
        if !notes.is_empty() {
            let site = Arc::clone(&site);
            // A device that has stopped has no ports.
            tokio::spawn(async move { drop(site.settle().await) });
        }
        if let Some(events) = events {
            tokio::spawn(site.pass_on(events));
        }
        Ok(())
    }

    /// What clients may do at every device.
    pub(crate) fn allowed(&self) -> &[Allow] {
        &self.allowed
    }

    /// Whether a client may do anything at all: who may not is told so before anything that it says is read.
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

    /// A client that is no operator asked for something of operators.
    pub(crate) fn denied_operator(&self, peer: SocketAddr, why: &str) {
        logged::denied_operator(&self.denials, peer, why);
    }

    /// Whether a client may do what it asks of a device; what it may not is logged and counted.
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

/// How urgent a server's threads are beside those that carry packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// As urgent: it has cores that no worker has.
    AsWorkers,
    /// Less urgent: workers come first where they run, and what controllers ask for takes the time that packets leave.
    BelowWorkers,
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    sites: Arc<Sites>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    runtime: tokio::runtime::Handle,
}

impl Server {
    /// Serves these devices. A plain address must be of this machine's own.
    ///
    /// # Errors
    /// The address cannot be had or may not be, or something is wrong with the devices.
    pub fn start(
        listen: impl Into<Listen>,
        setups: Vec<Setup>,
        urgency: Urgency,
    ) -> Result<Server, ServerError> {
        Server::begin(listen.into(), setups, urgency, None)
    }

    /// As [`Server::start`], with the service for virtual data planes, and without a device at first.
    ///
    /// # Errors
    /// The address cannot be had or may not be.
    pub fn for_tenants(
        listen: impl Into<Listen>,
        urgency: Urgency,
        petitioner: Petitioner,
    ) -> Result<Server, ServerError> {
        Server::begin(listen.into(), Vec::new(), urgency, Some(petitioner))
    }

    fn begin(
        listen: Listen,
        setups: Vec<Setup>,
        urgency: Urgency,
        petitioner: Option<Petitioner>,
    ) -> Result<Server, ServerError> {
        let address = listen.address;
        let door = listen.door();
        let door = door.map_err(|error| ServerError::Listen(address, error))?;
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
        let tenancy = petitioner.map(|petitioner| tenants::Service {
            sites: Arc::clone(&sites),
            petitioner,
        });
        let devices = Service {
            sites: Arc::clone(&sites),
        };
        let thread = std::thread::Builder::new()
            .name("p4runtime".to_owned())
            .spawn(move || {
                if urgency == Urgency::BelowWorkers {
                    // On a system that refuses, it is as urgent as they are.
                    let _ = rustix::process::nice(LESS_URGENT);
                }
                run(runtime, listener, door, (devices, tenancy), stopped);
            })
            .map_err(io)?;
        Ok(Server {
            address: bound,
            sites,
            stop: Some(stop),
            thread: Some(thread),
            runtime: handle,
        })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves one more device from now on.
    ///
    /// # Errors
    /// Its number is taken, or its program has no P4Info.
    pub fn add(&self, setup: Setup) -> Result<(), ServerError> {
        let _entered = self.runtime.enter();
        self.sites.open(setup)
    }

    /// Serves a device no longer: its sessions end. What was asked of it before is done. Whether there was one.
    pub fn remove(&self, device: u64) -> bool {
        let site = self.sites.all_mut().remove(&device);
        if let Some(site) = &site {
            site.close();
        }
        site.is_some()
    }

    /// What was counted of a device, if there is one with this number.
    pub fn figures(&self, device: u64) -> Option<Figures> {
        let site = self.sites.find(device).ok()?;
        Some(site.figures())
    }

    /// A port of a device went down or came up: watch ports and backup replicas depend on it, and
    /// who watches ports hears of it.
    pub fn port_changed(&self, device: u64, port: PortId, is_up: bool) {
        if let Ok(site) = self.sites.find(device) {
            site.ports.set(port, is_up);
            self.runtime.spawn(async move {
                // A device that has stopped has no ports.
                let _ = site.port_changed(port, is_up).await;
            });
        }
    }
}

impl Server {
    /// A port of a device is connected to nothing: clients that watch ports receive that it is
    /// down. For groups it counts as up, as a port that never was connected.
    pub fn port_disconnected(&self, device: u64, port: PortId) {
        if let Ok(site) = self.sites.find(device) {
            site.ports.set(port, false);
            self.runtime.spawn(async move {
                // A device that has stopped has no ports.
                let _ = site.port_changed(port, true).await;
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// [`Urgency::BelowWorkers`], for nice(2), Linux 2.6.
const LESS_URGENT: i32 = 10;

fn run(
    runtime: Runtime,
    listener: TcpListener,
    door: Door,
    (devices, tenancy): (Service, Option<tenants::Service>),
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async move {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
            return;
        };
        let incoming = connections(listener, door);
        let sites = Arc::clone(&devices.sites);
        let devices = P4RuntimeServer::new(devices)
            .max_decoding_message_size(MOST_BYTES)
            .max_encoding_message_size(usize::MAX);
        let tenancy = tenancy.map(|service| {
            TenancyServer::new(service)
                .max_decoding_message_size(MOST_BYTES)
                .max_encoding_message_size(usize::MAX)
        });
        let ports = PortsServer::new(ports::Service {
            sites: Arc::clone(&sites),
        });
        let services = Services {
            devices,
            ports,
            tenancy,
        };
        // Who may do nothing is told so before anything of a request is read.
        let services = InterceptedService::new(services, move |request: Request<()>| {
            sites.admit(Peer::of(&request)?)?;
            Ok(request)
        });
        let served = tonic::transport::Server::builder()
            .concurrency_limit_per_connection(MOST_CALLS)
            .http2_keepalive_interval(Some(ASK_AFTER))
            .http2_keepalive_timeout(Some(ANSWER_WITHIN))
            .serve_with_incoming(services, incoming);
        tokio::select! {
            // A listener that fails for good leaves the switch running without control.
            _ = served => {}
            _ = stopped => {}
        }
    });
    // Sessions end with the runtime.
    runtime.shutdown_background();
}

/// Does something to its end, also if the client that asked for it is gone: half of it is no state to be in.
async fn to_its_end(
    work: impl Future<Output = Result<(), Status>> + Send + 'static,
) -> Result<(), Status> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|_| Err(Status::internal("the server failed on this request")))
}

struct Service {
    sites: Arc<Sites>,
}

/// Who asks, and what.
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
        let (answers, parts) = mpsc::channel(MOST_PARTS);
        tokio::spawn(async move {
            if let Err(status) = site.read(request, &answers).await {
                // Who has gone does not hear it.
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
        // What is made for a client that has gone is not made to its end; what was made takes its
        // place to its end.
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
        // Whatever a client may do at the device, it needs to know the program.
        self.sites.permit(request.device_id, &peer, |_| Ok(()))?;
        let site = self.sites.find(request.device_id)?;
        let Ok(wanted) = ResponseType::try_from(request.response_type) else {
            let message = format!("there is no response type {}", request.response_type);
            return Err(Fault::new(Code::InvalidArgument, message).into());
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
        let (answers, messages) = mpsc::channel(MOST_ANSWERS);
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
