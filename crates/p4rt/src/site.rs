//! A device as the server sees it: its loop behind a channel, its program, its sessions.

mod messages;
mod program;
mod requests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use p4info::p4::v1 as rt;
use p4info::p4::v1::StreamMessageResponse;
use p4info::p4::v1::stream_message_response::Update as Notice;
use packet::{Nanos, PortId};
use switch::{Device, LoadError};
use tokio::sync::{RwLock, mpsc, watch};
use tonic::{Code, Status};

use crate::access::Allow;
use crate::arbiter::{Arbiter, ClientId, Notices};
use crate::control::Remote;
use crate::digests::Digests;
use crate::extras::Extras;
use crate::fault::{Checked, refuse};
use crate::figures::{Cells, Figures};
use crate::keeping::Unkept;
use crate::logged::Lines;
use crate::pipeline::{Apart, Config, Ground, Pipeline, lock};
use crate::ports::PortBoard;
use crate::tenants::Denial;

pub(crate) use messages::response;

/// What a device is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run, now or when its config is committed: it keeps its room until then.
    Run,
    /// To see whether it can be made: it takes no room from others.
    Verify,
}

/// The right to make one device.
pub trait Leave: Send + Sync {
    /// Does the work on this thread, within the bounds that there are; waits for its turn, if
    /// others are first.
    ///
    /// # Errors
    /// It was not done, or not to its end: why.
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), Denial>;

    /// Ends the work soon: the client does not wait for it any more.
    fn cancel(&self) {}
}

/// The right to make devices without bounds.
impl Leave for () {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), Denial> {
        work();
        Ok(())
    }
}

/// What makes devices of programs: the compiler and the engine, which the server does not know.
pub trait Loader: Send + Sync + 'static {
    /// Leave to make a device of a config of so many bytes, whatever is in it; it is kept until the device is made.
    ///
    /// # Errors
    /// It is more than is allowed.
    fn admit(&self, _bytes: usize) -> Result<Arc<dyn Leave>, Denial> {
        Ok(Arc::new(()))
    }

    /// Compiles P4 text.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    fn compile(&self, text: &str) -> Result<ir::Program, String>;

    /// The ports that devices have, if it is known: only these can be watched.
    fn ports(&self) -> Option<BTreeSet<PortId>> {
        None
    }

    /// A program as it is to run where a device shares room with others; as it is elsewhere.
    ///
    /// # Errors
    /// There is no room: why, for people.
    fn fit(
        &self,
        program: Arc<ir::Program>,
        _purpose: Purpose,
    ) -> Result<Arc<ir::Program>, String> {
        Ok(program)
    }

    /// A device that runs a program, which was fitted, to take the place of the running one.
    ///
    /// # Errors
    /// The engine does not run it.
    fn device(&self, program: Arc<ir::Program>) -> Result<Device, LoadError>;
}

/// Answers and notifications of one session.
pub(crate) type Answers = mpsc::Sender<Result<StreamMessageResponse, Status>>;

/// Why the server ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It does not take its messages.
    Deaf,
    /// Its device is served no more.
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

/// A session's end in the server.
struct Session {
    answers: Answers,
    /// Set when the session must end.
    end: watch::Sender<Option<End>>,
}

/// Who is there.
struct Sessions {
    arbiter: Arbiter,
    live: HashMap<ClientId, Session>,
    /// The device is served no more: no session begins any more, though its client found the device before.
    is_closed: bool,
}

/// A device.
pub(crate) struct Site {
    /// A second number of the device.
    pub(crate) second_id: Option<u64>,
    remote: Remote,
    loader: Arc<dyn Loader>,
    /// What clients may do here, beside what they may do at every device.
    pub(crate) allowed: Vec<Allow>,
    /// Held for writing while anything of the device is changed, for reading while it is read.
    pipeline: RwLock<Pipeline>,
    extras: Arc<Mutex<Extras>>,
    unkept: Arc<Mutex<Unkept>>,
    sessions: Mutex<Sessions>,
    digests: Mutex<Digests>,
    pub(crate) ports: PortBoard,
    start: Instant,
    pub(crate) cells: Cells,
    pub(crate) lines: Lines,
}

impl Site {
    pub(crate) fn new(
        (id, second_id): (u64, Option<u64>),
        remote: Remote,
        loader: Arc<dyn Loader>,
        (allowed, ports): (Vec<Allow>, PortBoard),
        (running, mut extras): (Option<Config>, Extras),
    ) -> Site {
        extras.take_changes();
        Site {
            remote,
            loader,
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
            ports,
            start: Instant::now(),
            cells: Cells::default(),
            lines: Lines::of(id),
            second_id,
        }
    }

    /// A notification that no session took fast enough.
    fn lose(&self) {
        self.cells.lost.add(1);
    }

    /// What was counted.
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

    /// A session begins; told when it must end.
    ///
    /// # Errors
    /// The device is served no more.
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

    /// A controller asks to be primary or backup.
    ///
    /// # Errors
    /// What ends its session.
    pub(crate) async fn arbitrate(
        &self,
        client: ClientId,
        update: &rt::MasterArbitrationUpdate,
    ) -> Checked {
        // Writes of the old primary finish first.
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

    /// A session is over.
    pub(crate) fn leave(&self, client: ClientId) {
        let mut sessions = lock(&self.sessions);
        sessions.live.remove(&client);
        if let Some(role) = sessions.arbiter.role_of_primary(client) {
            self.lines.gone(client, role);
        }
        let notices = sessions.arbiter.leave(client);
        sessions.tell(notices);
    }

    /// The role of a session that is primary.
    fn role_of_primary(&self, client: ClientId) -> Option<String> {
        let sessions = lock(&self.sessions);
        sessions.arbiter.role_of_primary(client).map(str::to_owned)
    }

    /// Whether a request may change the device (sections "`Write` RPC", "`SetForwardingPipelineConfig` RPC").
    fn check_primary(&self, role: &str, id: Option<&rt::Uint128>) -> Checked {
        match lock(&self.sessions).arbiter.is_primary(role, id) {
            Some(true) => Ok(()),
            Some(false) => refuse(
                Code::PermissionDenied,
                format!("the election id is not that of the primary of the role `{role}`"),
            ),
            None if role.is_empty() => refuse(
                Code::PermissionDenied,
                "there is no primary: open a StreamChannel and send a MasterArbitrationUpdate first",
            ),
            None => refuse(Code::NotFound, format!("the device has no role `{role}`")),
        }
    }

    // The device.

    /// Does something to a device, where reads and writes go.
    async fn on<T: Send + 'static>(
        &self,
        ground: &Ground,
        job: impl FnOnce(&mut Device, &mut Extras) -> T + Send + 'static,
    ) -> Checked<T> {
        match ground {
            Ground::Running => {
                let extras = Arc::clone(&self.extras);
                let job = move |device: &mut Device| job(device, &mut lock(&extras));
                self.remote.ask(job).await
            }
            Ground::Saved(apart) => {
                let mut apart = lock(apart);
                let Apart {
                    device,
                    extras,
                    begin: (then, time),
                } = &mut *apart;
                device.step(*time + Nanos::from(then.elapsed()));
                Ok(job(device, extras))
            }
        }
    }

    /// A start: gives the device the members and replicas whose ports are up, of those that have not gone with a program.
    pub(crate) async fn settle(&self) -> Checked {
        let _pipeline = self.pipeline.write().await;
        self.on(&Ground::Running, |device, extras| {
            extras.forget_lost(device);
            let forgotten = extras.take_changes();
            extras.note(device, &forgotten);
            extras.settle(device);
            device.publish();
        })
        .await
    }

    /// Ends all sessions: the device is served no more.
    pub(crate) fn close(&self) {
        self.ports.close();
        let mut sessions = lock(&self.sessions);
        sessions.is_closed = true;
        for session in sessions.live.values() {
            session.end.send_replace(Some(End::DeviceGone));
        }
    }

    /// A port went down or came up: members and replicas that depend on it change.
    pub(crate) async fn port_changed(&self, port: PortId, is_up: bool) -> Checked {
        let _pipeline = self.pipeline.write().await;
        self.on(&Ground::Running, move |device, extras| {
            extras.port_changed(device, port, is_up);
            device.publish();
        })
        .await
    }
}

impl Sessions {
    /// A session that does not take an arbitration's outcome has to end: it would go on with a wrong idea of who is primary.
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
