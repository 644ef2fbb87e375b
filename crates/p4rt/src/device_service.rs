//! Server-side state of one device: the channel to its loop, its program and its sessions.

mod managed;
mod messages;
mod program;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use p4info::p4::v1 as rt;
use p4info::p4::v1::StreamMessageResponse;
use p4info::p4::v1::stream_message_response::Update as Notice;
use p4info::polyplane::ports::v1::ListResponse;
use packet::{Nanos, PortId};
use switch::{Device, LoadError};
use tokio::sync::{RwLock, mpsc, watch};
use tonic::{Code, Status};

use crate::access::Allow;
use crate::arbiter::{Arbiter, ClientId, Notices};
use crate::control::{PortAction, Remote, SettingsAction};
use crate::controller_state::ControllerState;
use crate::digests::Digests;
use crate::figures::{Cells, Figures};
use crate::logged::Lines;
use crate::managed::{ManagedTables, role_name};
use crate::notes::Notes;
use crate::observation::PacketObservation;
use crate::pending_commits::PendingCommits;
use crate::pipeline::{Config, DeviceTarget, Pipeline, StagedDevice, lock};
use crate::ports::{KnownPorts, PortStates};
use crate::request_error::{Checked, refuse};
use crate::tenants::TenancyError;

pub(crate) use messages::response;

/// Purpose of creating a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run it, now or when its config is committed. Its space stays reserved until then.
    Run,
    /// To verify that it can be created. It reserves no space.
    Verify,
}

/// Permit to create one device.
pub trait ProgramPermit: Send + Sync {
    /// Runs the work on this thread within the limits. Blocks while others are first.
    ///
    /// # Errors
    /// The work was not done or not finished. The error has the reason.
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), TenancyError>;

    /// Cancels the work, because the client no longer waits for it.
    fn cancel(&self) {}
}

/// Permit without limits.
impl ProgramPermit for () {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), TenancyError> {
        work();
        Ok(())
    }
}

/// Creates devices from programs. Implemented outside the server, which does not depend on the
/// compiler or the engine.
pub trait Loader: Send + Sync + 'static {
    /// Returns a permit to create a device from a config of this size. The permit is held until the
    /// device is created.
    ///
    /// # Errors
    /// The size exceeds a limit.
    fn admit(&self, _bytes: usize) -> Result<Arc<dyn ProgramPermit>, TenancyError> {
        Ok(Arc::new(()))
    }

    /// Compiles P4 text.
    ///
    /// # Errors
    /// A message for users that describes the fault.
    fn compile(&self, text: &str) -> Result<ir::Program, String>;

    /// Returns the ports of devices, if known. Only these ports can be watch ports.
    fn ports(&self) -> Option<KnownPorts> {
        None
    }

    /// Adapts a program to run on a device with shared resources. By default the program is
    /// returned unchanged.
    ///
    /// # Errors
    /// There is no space. The message is for users.
    fn fit(
        &self,
        program: Arc<ir::Program>,
        _purpose: Purpose,
    ) -> Result<Arc<ir::Program>, String> {
        Ok(program)
    }

    /// Returns notes that the device stores together with a program that a controller has set, in
    /// addition to those of the server. `before` has the notes of the program before.
    fn notes(&self, _program: &Arc<ir::Program>, _before: &Notes) -> Notes {
        Notes::new()
    }

    /// Creates a device that runs an adapted program, to replace the running device.
    ///
    /// # Errors
    /// The engine cannot run the program.
    fn device(&self, program: Arc<ir::Program>) -> Result<Device, LoadError>;
}

/// Send queue of one session, for answers and notifications.
pub(crate) type Answers = mpsc::Sender<Result<StreamMessageResponse, Status>>;

/// Reason why the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The session does not read its messages.
    Deaf,
    /// The device is no longer served.
    DeviceGone,
}

impl End {
    pub(crate) fn status(self) -> Status {
        match self {
            End::Deaf => Status::resource_exhausted("the session does not take its messages"),
            End::DeviceGone => Status::unavailable("the device is served no more"),
        }
    }
}

/// Server side of a session.
struct Session {
    answers: Answers,
    /// Set when the session must end.
    end: watch::Sender<Option<End>>,
}

/// All sessions of a device.
struct Sessions {
    arbiter: Arbiter,
    live: HashMap<ClientId, Session>,
    /// True if the device is no longer served. A client that found the device earlier cannot open a
    /// session then.
    is_closed: bool,
}

/// Server-side state of a device.
pub(crate) struct DeviceService {
    /// A second device id.
    pub(crate) second_id: Option<u64>,
    remote: Remote,
    loader: Arc<dyn Loader>,
    /// Types of the extension messages that the device's loop takes.
    extensions: &'static [&'static str],
    /// Permissions at this device, in addition to those at every device.
    pub(crate) allowed: Vec<Allow>,
    /// Locked for writing while the device is changed, and for reading while it is read.
    pipeline: RwLock<Pipeline>,
    extras: Arc<Mutex<ControllerState>>,
    unkept: Arc<Mutex<PendingCommits>>,
    sessions: Mutex<Sessions>,
    digests: Mutex<Digests>,
    managed: Mutex<ManagedTables>,
    pub(crate) ports: PortStates,
    /// Observation of the device's packets, if there is one.
    pub(crate) observation: OnceLock<Arc<dyn PacketObservation>>,
    start: Instant,
    pub(crate) cells: Cells,
    pub(crate) lines: Lines,
}

impl DeviceService {
    pub(crate) fn new(
        (id, second_id): (u64, Option<u64>),
        remote: Remote,
        loader: Arc<dyn Loader>,
        (allowed, ports, extensions): (Vec<Allow>, PortStates, &'static [&'static str]),
        (running, mut extras): (Option<Config>, ControllerState),
    ) -> DeviceService {
        extras.take_changes();
        DeviceService {
            remote,
            loader,
            extensions,
            allowed,
            pipeline: RwLock::new(Pipeline {
                running,
                saved: None,
            }),
            extras: Arc::new(Mutex::new(extras)),
            unkept: Arc::default(),
            sessions: Mutex::new(Sessions {
                arbiter: Arbiter::new(id, second_id),
                live: HashMap::new(),
                is_closed: false,
            }),
            digests: Mutex::default(),
            managed: Mutex::default(),
            ports,
            observation: OnceLock::new(),
            start: Instant::now(),
            cells: Cells::default(),
            lines: Lines::of(id),
            second_id,
        }
    }

    /// Counts a dropped notification.
    fn lose(&self) {
        self.cells.lost.add(1);
    }

    /// Returns the counters.
    pub(crate) fn figures(&self) -> Figures {
        let digests_waiting = lock(&self.digests).waiting() as u64;
        let sessions = lock(&self.sessions);
        Figures {
            sessions: sessions.live.len() as u64,
            primaries: sessions.arbiter.primaries().count() as u64,
            digests_waiting,
            ..self.cells.read()
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    // Sessions.

    /// Starts a session. The returned receiver reports when the session must end.
    ///
    /// # Errors
    /// The device is no longer served.
    pub(crate) fn join(
        &self,
        client: ClientId,
        answers: Answers,
    ) -> Result<watch::Receiver<Option<End>>, End> {
        let mut sessions = lock(&self.sessions);
        if sessions.is_closed {
            return Err(End::DeviceGone);
        }
        let (end, ended) = watch::channel(None);
        sessions.live.insert(client, Session { answers, end });
        Ok(ended)
    }

    /// Processes an arbitration update of a controller.
    ///
    /// # Errors
    /// The error with which the session must be closed.
    pub(crate) async fn arbitrate(
        &self,
        client: ClientId,
        update: &rt::MasterArbitrationUpdate,
    ) -> Checked {
        let _arbitrating = self.end_proposals(update).await;
        // The lock waits for the old primary's writes.
        let _pipeline = self.pipeline.write().await;
        let mut sessions = lock(&self.sessions);
        let before = sessions.arbiter.role_of_primary(client).is_some();
        let notices = sessions.arbiter.ask(client, update)?;
        let after = sessions.arbiter.role_of_primary(client);
        if !before && after.is_some() {
            lock(&self.digests).clear();
        }
        if before != after.is_some() {
            self.lines.elected(client, update, after.is_some());
        }
        sessions.tell(notices);
        Ok(())
    }

    /// Ends a session.
    pub(crate) fn leave(&self, client: ClientId) {
        let mut sessions = lock(&self.sessions);
        sessions.live.remove(&client);
        if let Some(role) = sessions.arbiter.role_of_primary(client) {
            self.lines.gone(client, role);
        }
        let notices = sessions.arbiter.leave(client);
        sessions.tell(notices);
        lock(&self.managed).leave(client);
    }

    /// Returns the role of a session that is primary.
    fn role_of_primary(&self, client: ClientId) -> Option<String> {
        let sessions = lock(&self.sessions);
        sessions.arbiter.role_of_primary(client).map(str::to_owned)
    }

    /// Checks that a request may change the device (sections "`Write` RPC",
    /// "`SetForwardingPipelineConfig` RPC").
    fn check_primary(&self, role: &str, id: Option<&rt::Uint128>) -> Checked {
        match lock(&self.sessions).arbiter.is_primary(role, id) {
            Some(true) => Ok(()),
            Some(false) => refuse(
                Code::PermissionDenied,
                format!(
                    "the election id is not that of the primary of {}",
                    role_name(role)
                ),
            ),
            None if role.is_empty() => refuse(
                Code::PermissionDenied,
                "there is no primary: open a StreamChannel and send a MasterArbitrationUpdate first",
            ),
            None => refuse(Code::NotFound, format!("the device has no role `{role}`")),
        }
    }

    // The device.

    /// Runs a job on the target of reads and writes.
    async fn on<T: Send + 'static>(
        &self,
        ground: &DeviceTarget,
        job: impl FnOnce(&mut Device, &mut ControllerState) -> T + Send + 'static,
    ) -> Checked<T> {
        match ground {
            DeviceTarget::Running => {
                let extras = Arc::clone(&self.extras);
                let job = move |device: &mut Device| job(device, &mut lock(&extras));
                self.remote.ask(job).await
            }
            DeviceTarget::Saved(apart) => {
                let mut apart = lock(apart);
                let StagedDevice {
                    device,
                    extras,
                    begin: (then, time),
                } = &mut *apart;
                device.step(*time + Nanos::from(then.elapsed()));
                Ok(job(device, extras))
            }
        }
    }

    /// Prepares the device at start. Removes data of lost groups, and gives the device the members
    /// and replicas with live ports.
    pub(crate) async fn settle(&self) -> Checked {
        let _pipeline = self.pipeline.write().await;
        self.on(&DeviceTarget::Running, |device, extras| {
            extras.forget_lost(device);
            let forgotten = extras.take_changes();
            extras.note(device, &forgotten);
            extras.settle(device);
            device.publish();
        })
        .await
    }

    /// Ends all sessions, because the device is no longer served.
    pub(crate) fn close(&self) {
        self.ports.close();
        let mut sessions = lock(&self.sessions);
        sessions.is_closed = true;
        for session in sessions.live.values() {
            session.end.send_replace(Some(End::DeviceGone));
        }
    }

    /// Asks the device's loop about its ports, or to change them.
    pub(crate) async fn ask_ports(&self, action: PortAction) -> Checked<ListResponse> {
        self.remote.ask_ports(action).await
    }

    /// Asks the device's loop for its settings, or to change them.
    pub(crate) async fn ask_settings(&self, action: SettingsAction) -> Checked<String> {
        // A request that changes nothing does not stop others.
        match action {
            SettingsAction::Get => {
                let _pipeline = self.pipeline.read().await;
                self.remote.ask_settings(action).await
            }
            SettingsAction::Set(_) => {
                let _pipeline = self.pipeline.write().await;
                self.remote.ask_settings(action).await
            }
        }
    }

    /// Processes a port state change: updates the members and replicas that depend on it.
    pub(crate) async fn port_changed(&self, port: PortId, is_up: bool) -> Checked {
        let _pipeline = self.pipeline.write().await;
        self.on(&DeviceTarget::Running, move |device, extras| {
            extras.port_changed(device, port, is_up);
            device.publish();
        })
        .await
    }
}

impl Sessions {
    /// Sends arbitration notifications. A session with a full queue must end, since it would not
    /// know which controller is primary.
    fn tell(&mut self, notices: Notices) {
        for (client, update) in notices {
            let Some(session) = self.live.get(&client) else {
                continue;
            };
            let answer = Ok(response(Notice::Arbitration(update)));
            if session.answers.try_send(answer).is_err() {
                session.end.send_replace(Some(End::Deaf));
            }
        }
    }
}
