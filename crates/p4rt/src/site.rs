//! A device as the server sees it: its loop behind a channel, its program, its sessions.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use p4info::p4::v1 as rt;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::stream_message_response::Update as Notice;
use p4info::p4::v1::write_request::Atomicity;
use p4info::p4::v1::{ForwardingPipelineConfig, StreamMessageResponse, WriteRequest};
use packet::{Nanos, PortId};
use switch::{AdoptError, Carry, Device, LoadError, MayLose};
use tokio::sync::{RwLock, mpsc, watch};
use tonic::{Code, Status};

use crate::access::Allow;
use crate::arbiter::{Arbiter, ClientId, Notices};
use crate::batch;
use crate::control::{Event, Remote};
use crate::data::{DataCoder, scalars};
use crate::digests::{Digests, List};
use crate::extras::Extras;
use crate::fault::{Checked, Fault, batch_status, invalid, refuse};
use crate::figures::{Cells, Figures};
use crate::keeping::{self, Unkept, Waiting};
use crate::logged::Lines;
use crate::notes;
use crate::packet_io;
use crate::pipeline::{self, Apart, Config, Ground, Pipeline, Saved, lock};
use crate::read;
use crate::schema::Schema;
use crate::undo::{Op, Target};
use crate::write::{self, Seen};

/// Updates of a batch that one job makes, where packets may see the batch half made: with packets behind the job, and without.
const PART: usize = 64;
const PART_APART: usize = 1024;

/// What a device is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To run, now or when its config is committed: it keeps its room until then.
    Run,
    /// To see whether it can be made: it takes no room from others.
    Verify,
}

/// What makes devices of programs: the compiler and the engine, which the server does not know.
pub trait Loader: Send + Sync + 'static {
    /// Leave to make a device of a config of so many bytes, whatever is in it; it is kept until the device is made.
    ///
    /// # Errors
    /// It is more than is allowed: why, for people.
    fn admit(&self, _bytes: usize) -> Result<Box<dyn Send>, String> {
        Ok(Box::new(()))
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

/// What became of a batch's updates, and what tells when they are kept.
type Made = (Vec<Checked>, Option<Waiting>);

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
    start: Instant,
    pub(crate) cells: Cells,
    pub(crate) lines: Lines,
}

impl Site {
    pub(crate) fn new(
        id: u64,
        remote: Remote,
        loader: Arc<dyn Loader>,
        allowed: Vec<Allow>,
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
                arbiter: Arbiter::new(id),
                live: HashMap::new(),
                is_closed: false,
            }),
            digests: Mutex::default(),
            start: Instant::now(),
            cells: Cells::default(),
            lines: Lines::of(id),
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

    // The program.

    /// Sets the program; where state is kept, all of it is but what `may_lose` names.
    pub(crate) async fn set_config(
        &self,
        request: rt::SetForwardingPipelineConfigRequest,
        may_lose: MayLose,
    ) -> Checked {
        let (action, begin) = (request.action(), Instant::now());
        let set = self.try_set_config(request, may_lose).await;
        if set.is_ok() {
            self.cells.configs.add(1);
        }
        self.lines.configured(action, &set, begin.elapsed());
        set
    }

    async fn try_set_config(
        &self,
        request: rt::SetForwardingPipelineConfigRequest,
        may_lose: MayLose,
    ) -> Checked {
        self.check_primary(&request.role, request.election_id.as_ref())?;
        let action = request.action();
        let (role, election) = (request.role, request.election_id);
        match (action, request.config) {
            (Action::Unspecified, _) => invalid("the action is not set"),
            (Action::Commit, Some(_)) => {
                invalid("COMMIT takes no config: it commits the saved one")
            }
            (Action::Commit, None) => {
                let mut pipeline = self.pipeline.write().await;
                self.check_primary(&role, election.as_ref())?;
                self.commit(&mut pipeline).await
            }
            (_, None) => invalid("the config is not set"),
            (action, Some(config)) => {
                let purpose = match action {
                    Action::Verify => Purpose::Verify,
                    _ => Purpose::Run,
                };
                let (config, device) = self.build(config, purpose).await?;
                let mut pipeline = self.pipeline.write().await;
                // Another controller may have become primary meanwhile.
                self.check_primary(&role, election.as_ref())?;
                match action {
                    Action::ReconcileAndCommit => {
                        self.reconcile(&mut pipeline, config, device, may_lose)
                            .await
                    }
                    action => self.put(&mut pipeline, action, config, device).await,
                }
            }
        }
    }

    async fn build(
        &self,
        config: ForwardingPipelineConfig,
        purpose: Purpose,
    ) -> Checked<(Config, Device)> {
        let loader = Arc::clone(&self.loader);
        let built = tokio::task::spawn_blocking(move || pipeline::build(&*loader, config, purpose));
        built
            .await
            .unwrap_or_else(|_| refuse(Code::Internal, "the compiler failed on this program"))
    }

    async fn put(
        &self,
        pipeline: &mut Pipeline,
        action: Action,
        config: Config,
        mut device: Device,
    ) -> Checked {
        match action {
            Action::VerifyAndSave => {
                // Idle time-outs of what is written meanwhile begin now.
                let now = self.remote.ask(|running| running.now()).await?;
                device.step(now);
                let extras = Extras {
                    down: lock(&self.extras).down.clone(),
                    ..Extras::default()
                };
                let apart = Apart {
                    device,
                    extras,
                    begin: (Instant::now(), now),
                };
                let apart = Arc::new(Mutex::new(apart));
                pipeline.saved = Some(Saved { config, apart });
            }
            Action::VerifyAndCommit => {
                self.adopt(device, Carry::Nothing, &config, Extras::cleared)
                    .await?;
                pipeline.saved = None;
                pipeline.running = Some(config);
            }
            Action::Verify | Action::Commit | Action::ReconcileAndCommit | Action::Unspecified => {}
        }
        Ok(())
    }

    /// Runs a program with the state of the running one (section "`SetForwardingPipelineConfig` RPC", `RECONCILE_AND_COMMIT`).
    async fn reconcile(
        &self,
        pipeline: &mut Pipeline,
        mut config: Config,
        device: Device,
        may_lose: MayLose,
    ) -> Checked {
        let running = pipeline.running.as_ref();
        let before = running.map(|config| Arc::clone(&config.schema));
        if let (Some(before), Some(after)) = (&before, Arc::get_mut(&mut config.schema)) {
            after.names = Arc::clone(&before.names);
        }
        let after = Arc::clone(&config.schema);
        let carry = Carry::State(may_lose);
        self.adopt(device, carry, &config, move |extras| match before {
            Some(before) => extras.moved(&before.program, &after.program),
            None => extras.cleared(),
        })
        .await?;
        pipeline.saved = None;
        pipeline.running = Some(config);
        Ok(())
    }

    /// Lets a new device take the running one's place.
    async fn adopt(
        &self,
        device: Device,
        carry: Carry,
        config: &Config,
        extras: impl FnOnce(Extras) -> Extras + Send + 'static,
    ) -> Checked {
        let adopted = self.try_adopt(device, carry, config, extras).await?;
        adopted.map_err(|(fault, _)| fault)
    }

    async fn commit(&self, pipeline: &mut Pipeline) -> Checked {
        let Some(Saved { config, apart }) = pipeline.saved.take() else {
            return refuse(
                Code::NotFound,
                "no config is saved; save one first (VERIFY_AND_SAVE)",
            );
        };
        // Nobody else has it: reads and writes hold the lock that this one holds.
        let Some(Apart {
            device,
            extras,
            begin,
        }) = Arc::into_inner(apart).map(|apart| {
            apart
                .into_inner()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        })
        else {
            return refuse(Code::Internal, "the saved config is in use");
        };
        let own = extras.clone();
        let committed = self.try_adopt(device, Carry::Nothing, &config, move |_| own);
        match committed.await? {
            Ok(()) => {
                pipeline.running = Some(config);
                Ok(())
            }
            Err((fault, device)) => {
                // It waits, with what was written to it, to be committed again.
                let apart = Apart {
                    device,
                    extras,
                    begin,
                };
                let apart = Arc::new(Mutex::new(apart));
                pipeline.saved = Some(Saved { config, apart });
                Err(fault)
            }
        }
    }

    /// Lets a device take the running one's place, and what is kept beside it. If that is to outlive the switch, packets meet it when it is kept; if it
    /// cannot be kept, the device comes back as it was.
    async fn try_adopt(
        &self,
        device: Device,
        carry: Carry,
        config: &Config,
        extras: impl FnOnce(Extras) -> Extras + Send + 'static,
    ) -> Checked<Result<(), (Fault, Device)>> {
        let (kept, unkept, config) = (
            Arc::clone(&self.extras),
            Arc::clone(&self.unkept),
            config.clone(),
        );
        let adopted = self.remote.ask(move |running| {
            let (mut other, mut kept) = (Box::new(device), lock(&kept));
            let exchange = running.exchange(&mut other, carry)?;
            let before = (kept.clone(), running.notes().clone());
            *kept = extras(std::mem::take(&mut kept));
            kept.forget_lost(running);
            // It is taken back as a whole, and objects had other numbers before.
            kept.take_changes();
            if !running.is_kept() {
                running.publish();
                return Ok((other, exchange, before, None));
            }
            notes::renew(running, &config, &kept);
            let names = &config.schema.names;
            let waiting = keeping::commit(running, &mut kept, names, Vec::new(), &unkept);
            Ok((other, exchange, before, waiting))
        });
        let adopted: Result<_, AdoptError> = adopted.await?;
        let (mut other, exchange, (extras, notes), waiting) =
            adopted.or_else(|refused| invalid(pipeline::told(&refused)))?;
        if let Some(waiting) = waiting {
            if let Err(fault) = keeping::check(waiting.await) {
                let (kept, unkept) = (Arc::clone(&self.extras), Arc::clone(&self.unkept));
                let taken_back = self.remote.ask(move |running| {
                    running.go_back(&mut other, exchange);
                    let mut kept = lock(&kept);
                    *kept = extras;
                    notes::put_back(running, notes);
                    keeping::take_back(running, &mut kept, &unkept);
                    *other
                });
                return Ok(Err((fault, taken_back.await?)));
            }
            self.remote.ask(Device::stay).await?;
        }
        // What was there before may take its time to go.
        tokio::task::spawn_blocking(move || drop(other));
        lock(&self.digests).clear();
        Ok(Ok(()))
    }

    /// The program, as it was set.
    pub(crate) async fn config(&self) -> Option<ForwardingPipelineConfig> {
        let pipeline = self.pipeline.read().await;
        let config = pipeline.current().ok()?.0;
        Some(config.message.clone())
    }

    // Writes and reads.

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

    /// Makes a batch of updates, and has it kept.
    pub(crate) async fn write(&self, request: WriteRequest) -> Result<(), Status> {
        let begin = Instant::now();
        let count = request.updates.len();
        let results = self.make_and_keep(&request).await;
        self.cells.wrote(begin.elapsed());
        let refused = match &results {
            Ok(results) => results.iter().filter(|result| result.is_err()).count(),
            Err(_) => count,
        };
        self.cells.refused.add(refused);
        self.cells.updates.add(count - refused);
        let status = results.and_then(|results| batch_status(&results));
        self.lines.wrote(count, refused, begin.elapsed(), &status);
        status
    }

    async fn make_and_keep(&self, request: &WriteRequest) -> Result<Vec<Checked>, Status> {
        let (results, waiting) = self.make(request).await?;
        // Others write meanwhile, and one sync keeps what they have written.
        if let Some(waiting) = waiting
            && let Err(fault) = keeping::check(waiting.await)
        {
            self.take_back().await?;
            return Err(fault.into());
        }
        Ok(results)
    }

    async fn make(&self, request: &WriteRequest) -> Result<Made, Status> {
        let pipeline = self.pipeline.write().await;
        self.check_primary(&request.role, request.election_id.as_ref())?;
        let (config, ground) = pipeline.current()?;
        let schema = &config.schema;
        let updates = request.updates.iter();
        let ops: Vec<Checked<Op>> = updates
            .map(|update| write::convert(schema, &request.role, update))
            .collect();
        match Atomicity::try_from(request.atomicity) {
            Ok(Atomicity::ContinueOnError) => Ok(self.write_each(schema, &ground, ops).await?),
            Ok(Atomicity::RollbackOnError) => Ok(self.write_all(schema, &ground, ops).await?),
            Ok(Atomicity::DataplaneAtomic) => {
                write::check_at_once(schema, &request.updates)?;
                let seen = request.updates.iter().map(write::seen);
                let made = self.write_at_once(schema, &ground, ops, seen.collect());
                Ok(made.await?)
            }
            Err(_) => {
                let message = format!("there is no atomicity {}", request.atomicity);
                Err(Status::invalid_argument(message))
            }
        }
    }

    /// Takes back what could not be kept.
    async fn take_back(&self) -> Checked {
        let _pipeline = self.pipeline.write().await;
        let unkept = Arc::clone(&self.unkept);
        self.on(&Ground::Running, move |device, extras| {
            keeping::take_back(device, extras, &unkept);
        })
        .await
    }

    /// Makes what can be made.
    async fn write_each(
        &self,
        schema: &Arc<Schema>,
        ground: &Ground,
        ops: Vec<Checked<Op>>,
    ) -> Checked<Made> {
        let mut results = Vec::with_capacity(ops.len());
        let mut undos = Vec::new();
        let mut ops = ops.into_iter().peekable();
        let mut most = PART;
        loop {
            let part: Vec<Checked<Op>> = ops.by_ref().take(most).collect();
            let is_last = ops.peek().is_none();
            let (names, unkept) = (Arc::clone(&schema.names), Arc::clone(&self.unkept));
            let made = self.on(ground, move |device, extras| {
                device.hold();
                let is_kept = device.is_kept();
                let mut target = Target::new(device, extras, is_kept);
                let made = part.into_iter().map(|op| op.and_then(|op| op(&mut target)));
                let made: Vec<Checked> = made.collect();
                undos.append(&mut target.into_undos());
                if !is_last {
                    return (made, undos, None, device.has_workers());
                }
                let waiting = keeping::commit(device, extras, &names, undos, &unkept);
                device.publish();
                (made, Vec::new(), waiting, false)
            });
            let (made, rest, waiting, is_apart) = made.await?;
            undos = rest;
            most = if is_apart { PART_APART } else { PART };
            results.extend(made);
            if is_last {
                return Ok((results, waiting));
            }
        }
    }

    /// Makes all or nothing, between two packets of the device's own. Workers see cells at once, all else when it is published.
    async fn write_all(
        &self,
        schema: &Arc<Schema>,
        ground: &Ground,
        ops: Vec<Checked<Op>>,
    ) -> Checked<Made> {
        let seen = vec![Seen::WhenPublished; ops.len()];
        self.write_at_once(schema, ground, ops, seen).await
    }

    /// Makes all or nothing. What packets see at once is written while no worker has a packet in hand, so that every packet sees all or nothing
    /// (section "Batch Atomicity").
    async fn write_at_once(
        &self,
        schema: &Arc<Schema>,
        ground: &Ground,
        ops: Vec<Checked<Op>>,
        seen: Vec<Seen>,
    ) -> Checked<Made> {
        let ops = match batch::well_formed(ops) {
            Ok(ops) => ops,
            Err(results) => return Ok((results, None)),
        };
        let (names, unkept) = (Arc::clone(&schema.names), Arc::clone(&self.unkept));
        let made = self.on(ground, move |device, extras| {
            device.hold();
            let (results, undos) = batch::make(device, extras, ops, &seen);
            let waiting = keeping::commit(device, extras, &names, undos, &unkept);
            device.publish();
            (results, waiting)
        });
        made.await
    }

    /// Reads entities; each part is sent as soon as it is made.
    pub(crate) async fn read(
        &self,
        request: rt::ReadRequest,
        answers: &mpsc::Sender<Result<rt::ReadResponse, Status>>,
    ) -> Result<(), Status> {
        self.cells.reads.add(1);
        let (schema, results, found) = self.collect(&request).await?;
        for found in found {
            let entities = found.entities(&schema);
            for part in entities.chunks(1024) {
                let response = rt::ReadResponse {
                    entities: part.to_vec(),
                };
                if answers.send(Ok(response)).await.is_err() {
                    return Ok(());
                }
            }
            tokio::task::yield_now().await;
        }
        batch_status(&results)
    }

    /// Collects what requests ask for, between two writes.
    async fn collect(
        &self,
        request: &rt::ReadRequest,
    ) -> Checked<(Arc<Schema>, Vec<Checked>, Vec<read::Found>)> {
        let pipeline = self.pipeline.read().await;
        let (config, ground) = pipeline.current()?;
        let schema = Arc::clone(&config.schema);
        let mut found = Vec::new();
        let mut results = Vec::new();
        for entity in &request.entities {
            let mut query = match read::plan(&schema, &request.role, entity) {
                Ok(query) => query,
                Err(fault) => {
                    results.push(Err(fault));
                    continue;
                }
            };
            let result = loop {
                let own = Arc::clone(&schema);
                let part = self.on(&ground, move |device, extras| {
                    let part = query.collect(&own, device, extras);
                    (query, part)
                });
                let (rest, part) = part.await?;
                query = rest;
                match part {
                    Ok(Some(part)) => found.push(part),
                    Ok(None) => break Ok(()),
                    Err(fault) => break Err(fault),
                }
            };
            results.push(result);
        }
        Ok((schema, results, found))
    }

    // What sessions send.

    /// A packet of a controller for the device.
    pub(crate) async fn packet_out(&self, client: ClientId, packet: &rt::PacketOut) -> Checked {
        if self.role_of_primary(client).is_none() {
            return refuse(Code::PermissionDenied, "only the primary may send packets");
        }
        let bytes = {
            let pipeline = self.pipeline.read().await;
            let Some(running) = &pipeline.running else {
                return refuse(
                    Code::FailedPrecondition,
                    "no forwarding pipeline config is set",
                );
            };
            packet_io::packet_out(&running.schema, packet)?
        };
        self.remote.send(bytes)?;
        self.cells.packet_outs.add(1);
        Ok(())
    }

    /// An acknowledgement of digests.
    pub(crate) async fn acknowledge(&self, client: ClientId, ack: &rt::DigestListAck) -> Checked {
        if self.role_of_primary(client).is_none() {
            return refuse(
                Code::PermissionDenied,
                "only the primary acknowledges digests",
            );
        }
        let pipeline = self.pipeline.read().await;
        let (config, _) = pipeline.current()?;
        let Some(view) = config.schema.digests.get(&ack.digest_id) else {
            return invalid(format!("there is no digest with the id {}", ack.digest_id));
        };
        lock(&self.digests).acknowledge(view.instance, ack.list_id);
        Ok(())
    }

    // What the device tells.

    /// Passes on what the device tells, until it has stopped.
    pub(crate) async fn pass_on(self: Arc<Self>, mut events: mpsc::Receiver<Event>) {
        loop {
            let next = lock(&self.digests).next_time(&lock(&self.extras).digests);
            let wait = next.map(|at| Duration::from_nanos(at.saturating_sub(self.now())));
            let event = match wait {
                None => events.recv().await,
                Some(wait) => match tokio::time::timeout(wait, events.recv()).await {
                    Ok(event) => event,
                    Err(_) => {
                        self.send_due().await;
                        continue;
                    }
                },
            };
            match event {
                Some(event) => self.tell(event).await,
                None => return,
            }
        }
    }

    async fn tell(&self, event: Event) {
        let pipeline = self.pipeline.read().await;
        let Some(running) = &pipeline.running else {
            return;
        };
        let schema = &running.schema;
        match event {
            Event::PacketIn(bytes) => match packet_io::packet_in(schema, &bytes) {
                Some(packet) => {
                    let told = self.notify(None, Notice::Packet(packet));
                    self.cells.packet_ins.add(told);
                }
                None => self.lose(),
            },
            Event::Digest(digest) if Arc::ptr_eq(&digest.program, &schema.program) => {
                let config = lock(&self.extras).digests.get(&digest.digest).copied();
                let Some(config) = config else { return };
                let now = self.now();
                let list = lock(&self.digests).take(digest.digest, digest.limbs, now, &config);
                if let Some(list) = list {
                    self.send_list(schema, &list);
                }
            }
            Event::Idle(program, table, entries) if Arc::ptr_eq(&program, &schema.program) => {
                let Some(view) = schema.tables.values().find(|view| view.table == table) else {
                    return;
                };
                let entries = entries
                    .iter()
                    .map(|entry| read::idle_entry(schema, view, entry));
                let notice = rt::IdleTimeoutNotification {
                    table_entry: entries.collect(),
                    timestamp: since_epoch(),
                };
                self.notify(
                    view.role.as_deref(),
                    Notice::IdleTimeoutNotification(notice),
                );
            }
            // Of a program that is gone.
            Event::Digest(..) | Event::Idle(..) => {}
        }
    }

    async fn send_due(&self) {
        let pipeline = self.pipeline.read().await;
        let configs = lock(&self.extras).digests.clone();
        let due = lock(&self.digests).due(self.now(), &configs);
        if let Some(running) = &pipeline.running {
            for list in &due {
                self.send_list(&running.schema, list);
            }
        }
    }

    fn send_list(&self, schema: &Schema, list: &List) {
        let mut views = schema.digests.values();
        let Some(view) = views.find(|view| view.instance == list.digest) else {
            return;
        };
        let ir::ExternKind::Digest { fields, data_ty } = &schema.program.externs[list.digest].kind
        else {
            return;
        };
        let coder = DataCoder {
            program: &schema.program,
            names: &schema.names,
        };
        let messages = list.messages.iter();
        let data = messages.filter_map(|limbs| {
            let mut scalars = scalars(fields, limbs).into_iter();
            coder.write(data_ty, &mut scalars)
        });
        let notice = rt::DigestList {
            digest_id: view.id,
            list_id: list.id,
            data: data.collect(),
            timestamp: since_epoch(),
        };
        let told = self.notify(view.role.as_deref(), Notice::Digest(notice));
        self.cells.digest_lists.add(told);
    }

    /// Tells the primaries: of all roles, or of what belongs to one (`@p4runtime_role`) that role's and the default role's. How many were told.
    fn notify(&self, owner: Option<&str>, notice: Notice) -> usize {
        let mut told = 0;
        let sessions = lock(&self.sessions);
        let is_told = |role: &str| owner.is_none_or(|owner| role.is_empty() || role == owner);
        for (role, client) in sessions.arbiter.primaries() {
            let session = sessions.live.get(&client).filter(|_| is_told(role));
            let Some(session) = session else { continue };
            match session.answers.try_send(Ok(response(notice.clone()))) {
                Ok(()) => told += 1,
                Err(_) => self.lose(),
            }
        }
        told
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

/// A message of a session.
pub(crate) fn response(update: Notice) -> StreamMessageResponse {
    StreamMessageResponse {
        update: Some(update),
    }
}

/// Nanoseconds since 1970, for time stamps of messages; they decide nothing.
fn since_epoch() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
