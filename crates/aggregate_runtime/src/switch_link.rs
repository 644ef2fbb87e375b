//! The master's connection to a switch, on a thread of its own: by P4Runtime to a switch with one
//! program, and as an operator to one that hosts tenants (`vpdp_link`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use controller::Catalog;
use fabric::topology::SwitchId;
use p4info::p4::v1 as rt;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::client::{Client, ClientError, Endpoint, Next};
use support::wakeup::WakeupFd;

use crate::site::Event;
use crate::switch_load::{LoadedPlanes, ProgramText, SwitchLoad, VpdpUpdate};
use crate::vpdp_link::VpdpLink;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(300);

/// Time between two looks at a switch that hosts tenants.
const LOOK: Duration = Duration::from_millis(500);

/// A switch to keep connected.
pub struct SwitchLink {
    /// The switch.
    pub switch: SwitchId,
    /// Its P4Runtime server.
    pub endpoint: Endpoint,
    /// Kind of the server.
    pub kind: SwitchKind,
    /// Election id of the master.
    pub election: u128,
}

/// Kind of a switch to its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchKind {
    /// One program for all reductions: the device with this number.
    Device(u64),
    /// Tenants, and a virtual data plane for each reduction.
    Host,
}

/// A task of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchTask {
    /// Take a load.
    Load(SwitchLoad),
    /// Change the virtual data plane of a reduction.
    Update(VpdpUpdate),
}

/// Sends tasks to the thread of a switch.
#[derive(Debug)]
pub struct SwitchHandle {
    tasks: Sender<SwitchTask>,
    wakeup: Arc<WakeupFd>,
}

impl SwitchHandle {
    /// Starts a task. An event has the result.
    pub fn change(&self, task: SwitchTask) {
        // The thread ends with the process.
        let _ = self.tasks.send(task);
        self.wakeup.wake();
    }
}

/// A program that the switch has got by this connection.
pub(crate) struct Loaded {
    pub(crate) program: String,
    catalog: Catalog,
    /// The entries that it has.
    pub(crate) entries: String,
}

/// Failure of a task.
pub(crate) enum LoadError {
    /// The switch refuses it.
    Refused(String),
    /// The connection has ended.
    Lost(String),
}

impl SwitchLink {
    /// Starts the thread that keeps the switch connected, until `is_stopped`.
    ///
    /// # Errors
    /// There are too many threads or descriptors.
    pub fn start(
        self,
        events: Sender<Event>,
        is_stopped: Arc<AtomicBool>,
    ) -> Result<SwitchHandle, String> {
        let failed = |error: std::io::Error| format!("cannot start a thread: {error}");
        let wakeup = Arc::new(WakeupFd::armed().map_err(failed)?);
        let (tasks, received) = channel();
        let own = Arc::clone(&wakeup);
        let thread = std::thread::Builder::new().name("switch".to_owned());
        let run = move || self.run(&received, &own, &events, &is_stopped);
        thread.spawn(run).map_err(failed)?;
        Ok(SwitchHandle { tasks, wakeup })
    }

    fn run(
        &self,
        tasks: &Receiver<SwitchTask>,
        wakeup: &WakeupFd,
        events: &Sender<Event>,
        is_stopped: &AtomicBool,
    ) {
        while !is_stopped.load(Relaxed) {
            let served = match self.kind {
                SwitchKind::Device(device) => self.serve(device, (tasks, wakeup), events),
                SwitchKind::Host => self.serve_host(tasks, events),
            };
            let Err(why) = served else {
                return;
            };
            // Fails if the master has ended.
            if events.send(Event::SwitchLost(self.switch, why)).is_err() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Serves a connection to a switch with one program until the master ends.
    fn serve(
        &self,
        device: u64,
        (tasks, wakeup): (&Receiver<SwitchTask>, &WakeupFd),
        events: &Sender<Event>,
    ) -> Result<(), String> {
        let mut client = connect(&self.endpoint, device, self.election)?;
        // Those were for an earlier connection.
        while tasks.try_recv().is_ok() {}
        let mut event = Event::SwitchConnected(self.switch);
        let mut loaded = None;
        loop {
            if events.send(event).is_err() {
                return Ok(());
            }
            event = match next_task(&mut client, tasks, wakeup)? {
                SwitchTask::Load(load) => {
                    let text = match load.planes {
                        LoadedPlanes::Whole(text) => Ok(text),
                        LoadedPlanes::Vpdps(_) => Err("it hosts no tenants".to_owned()),
                    };
                    let result = text.and_then(|text| match give(&mut client, &mut loaded, text) {
                        Ok(()) => Ok(Ok(())),
                        Err(LoadError::Refused(why)) => Ok(Err(why)),
                        Err(LoadError::Lost(why)) => Err(why),
                    });
                    Event::SwitchLoaded(self.switch, load.number, result?)
                }
                SwitchTask::Update(update) => {
                    let at = (self.switch, update.reduction);
                    Event::VpdpUpdated(at, Err("it hosts no tenants".to_owned()))
                }
            };
        }
    }

    /// Serves a connection to a switch that hosts tenants until the master ends.
    fn serve_host(
        &self,
        tasks: &Receiver<SwitchTask>,
        events: &Sender<Event>,
    ) -> Result<(), String> {
        let mut link = VpdpLink::connect(&self.endpoint, self.election)?;
        // Those were for an earlier connection.
        while tasks.try_recv().is_ok() {}
        let mut event = Event::SwitchConnected(self.switch);
        loop {
            if events.send(event).is_err() {
                return Ok(());
            }
            let task = loop {
                match tasks.recv_timeout(LOOK) {
                    Ok(task) => break task,
                    Err(RecvTimeoutError::Timeout) => link.check()?,
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            };
            event = match task {
                SwitchTask::Load(load) => {
                    let number = load.number;
                    let refused = match load.planes {
                        LoadedPlanes::Vpdps(vpdps) => link.load(vpdps)?,
                        LoadedPlanes::Whole(_) => return Err("it hosts tenants".to_owned()),
                    };
                    for (reduction, why) in refused {
                        let load = (number, reduction);
                        let refused = Event::ReductionRefused(self.switch, load, why);
                        if events.send(refused).is_err() {
                            return Ok(());
                        }
                    }
                    Event::SwitchLoaded(self.switch, number, Ok(()))
                }
                SwitchTask::Update(update) => {
                    let at = (self.switch, update.reduction);
                    Event::VpdpUpdated(at, link.update(update)?)
                }
            };
        }
    }
}

/// Connects to a device, and becomes its primary controller.
///
/// # Errors
/// The server cannot be reached, or another controller is primary.
pub(crate) fn connect(endpoint: &Endpoint, device: u64, election: u128) -> Result<Client, String> {
    let address = &endpoint.address;
    let failed = |error: ClientError| match error {
        ClientError::Unreachable { .. } => {
            format!("{error}; start `polyplane serve --p4runtime {address}` there, with its ports")
        }
        error => error.to_string(),
    };
    let mut client = Client::connect(endpoint, device, "").map_err(failed)?;
    let arbitration = client.arbitrate(Some(election)).map_err(failed)?;
    match arbitration.is_primary {
        true => Ok(client),
        false => Err(format!(
            "another controller is primary at {address}, with the election id {}; stop it, or \
             give a greater --election-id",
            arbitration.highest.unwrap_or(election)
        )),
    }
}

/// Waits for the next task.
///
/// # Errors
/// The connection has ended, or another controller has become primary.
fn next_task(
    client: &mut Client,
    tasks: &Receiver<SwitchTask>,
    wakeup: &WakeupFd,
) -> Result<SwitchTask, String> {
    loop {
        wakeup.rearm();
        if let Ok(task) = tasks.try_recv() {
            return Ok(task);
        }
        let next = client.next(None, Some(wakeup.fd()));
        let next = next.map_err(|error| format!("its connection has ended: {error}"))?;
        if let Next::Told(rt::stream_message_response::Update::Arbitration(told)) = next
            && told.status.is_some_and(|status| status.code != 0)
        {
            return Err("another controller has become primary".to_owned());
        }
    }
}

/// Gives a device its program and entries. If it has the program by this connection, only the
/// entries that differ are changed: programs without the reduction of a job are alike, and the
/// entries of others come and go.
pub(crate) fn give(
    client: &mut Client,
    loaded: &mut Option<Loaded>,
    text: ProgramText,
) -> Result<(), LoadError> {
    let before = loaded.take().filter(|it| it.program == text.program);
    let mut now = match before {
        Some(before) => before,
        None => set_program(client, (Action::VerifyAndCommit, &[]), text.program)?,
    };
    let updates = updates(&now.catalog, &now.entries, &text.entries)?;
    // What it has of the entries after a failure is not known.
    let written = client.write(updates, Atomicity::ContinueOnError);
    written.map_err(load_error)?;
    now.entries = text.entries;
    *loaded = Some(now);
    Ok(())
}

/// Returns the updates that give a device entries in place of others.
fn updates(catalog: &Catalog, before: &str, after: &str) -> Result<Vec<rt::Update>, LoadError> {
    let read = |text| {
        let file = catalog.schema.read("entries", text);
        file.map_err(|errors| {
            let first = errors.first().map(ToString::to_string);
            LoadError::Refused(first.unwrap_or_default())
        })
    };
    let (before, after) = (read(before)?, read(after)?);
    let (before, after) = (before.updates(), after.updates());
    let old: Vec<_> = before.iter().map(|update| update.target()).collect();
    let new: Vec<_> = after.iter().map(|update| update.target()).collect();
    let made = |kind: Type, entity| rt::Update {
        r#type: kind.into(),
        entity: Some(rt::Entity {
            entity: Some(entity),
        }),
    };
    // Entries that leave make room.
    let gone = old.iter().filter(|target| !new.contains(target)).flatten();
    let gone = gone.map(|target| made(Type::Delete, catalog.target(target)));
    let mut updates: Vec<rt::Update> = gone.collect();
    for (update, target) in after.iter().zip(&new) {
        let place = old.iter().position(|old| old == target);
        let kind = match (target, place) {
            (Some(_), Some(place)) if before[place] == *update => continue,
            (Some(_), None) => Type::Insert,
            _ => Type::Modify,
        };
        let entity = catalog.entity(update);
        let entity = entity.map_err(|error| LoadError::Refused(error.to_string()))?;
        updates.push(made(kind, entity));
    }
    Ok(updates)
}

/// Sets the program of a device, which may lose the state of these names.
pub(crate) fn set_program(
    client: &mut Client,
    (action, may_lose): (Action, &[String]),
    program: String,
) -> Result<Loaded, LoadError> {
    let config = rt::ForwardingPipelineConfig {
        p4info: None,
        p4_device_config: program.clone().into_bytes(),
        cookie: None,
    };
    let set = client.set_config(action, config, may_lose);
    set.map_err(load_error)?;
    let config = client.config(ResponseType::P4infoAndCookie);
    let info = config.map_err(load_error)?.and_then(|it| it.p4info);
    let info = info.ok_or_else(|| LoadError::Refused("it has no program".to_owned()))?;
    let catalog = Catalog::new(info);
    let catalog = catalog.map_err(|error| LoadError::Refused(error.to_string()))?;
    Ok(Loaded {
        program,
        catalog,
        entries: String::new(),
    })
}

pub(crate) fn load_error(error: ClientError) -> LoadError {
    match &error {
        ClientError::Refused(refused) if refused.is_refusal() => {
            LoadError::Refused(error.to_string())
        }
        _ => LoadError::Lost(error.to_string()),
    }
}
