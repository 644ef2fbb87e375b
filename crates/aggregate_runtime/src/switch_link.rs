//! The master's connection to a switch by P4Runtime, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
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

use crate::master::SwitchLoad;
use crate::site::Event;

/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(300);

/// A switch to keep connected.
pub struct SwitchLink {
    /// The switch.
    pub switch: SwitchId,
    /// Its P4Runtime server.
    pub endpoint: Endpoint,
    /// Its device number there.
    pub device: u64,
    /// Election id of the master.
    pub election: u128,
}

/// Sends loads to the thread of a switch.
#[derive(Debug)]
pub struct SwitchHandle {
    loads: Sender<SwitchLoad>,
    wakeup: Arc<WakeupFd>,
}

impl SwitchHandle {
    /// Starts to load the switch. An event has the result.
    pub fn load(&self, load: SwitchLoad) {
        // The thread ends with the process.
        let _ = self.loads.send(load);
        self.wakeup.wake();
    }
}

/// A program that the switch has got by this connection.
struct Loaded {
    program: String,
    catalog: Catalog,
}

/// Failure of a load.
enum LoadError {
    /// The switch takes the load not.
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
        let (loads, received) = channel();
        let own = Arc::clone(&wakeup);
        let thread = std::thread::Builder::new().name("switch".to_owned());
        let run = move || self.run(&received, &own, &events, &is_stopped);
        thread.spawn(run).map_err(failed)?;
        Ok(SwitchHandle { loads, wakeup })
    }

    fn run(
        &self,
        loads: &Receiver<SwitchLoad>,
        wakeup: &WakeupFd,
        events: &Sender<Event>,
        is_stopped: &AtomicBool,
    ) {
        while !is_stopped.load(Relaxed) {
            let Err(why) = self.serve(loads, wakeup, events) else {
                return;
            };
            // Fails if the master has ended.
            if events.send(Event::SwitchLost(self.switch, why)).is_err() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Serves a connection until the master ends.
    fn serve(
        &self,
        loads: &Receiver<SwitchLoad>,
        wakeup: &WakeupFd,
        events: &Sender<Event>,
    ) -> Result<(), String> {
        let mut client = self.connect()?;
        // Those were for an earlier connection.
        while loads.try_recv().is_ok() {}
        let mut event = Event::SwitchConnected(self.switch);
        let mut loaded = None;
        loop {
            if events.send(event).is_err() {
                return Ok(());
            }
            let load = next_load(&mut client, loads, wakeup)?;
            let number = load.number;
            let result = match give(&mut client, &mut loaded, load) {
                Ok(()) => Ok(()),
                Err(LoadError::Refused(why)) => Err(why),
                Err(LoadError::Lost(why)) => return Err(why),
            };
            event = Event::SwitchLoaded(self.switch, number, result);
        }
    }

    /// Connects, and becomes the primary controller.
    fn connect(&self) -> Result<Client, String> {
        let address = &self.endpoint.address;
        let failed = |error: ClientError| match error {
            ClientError::Unreachable { .. } => format!(
                "{error}; start `polyplane serve --p4runtime {address}` there, with its ports"
            ),
            error => error.to_string(),
        };
        let client = Client::connect(&self.endpoint, self.device, "");
        let mut client = client.map_err(failed)?;
        let arbitration = client.arbitrate(Some(self.election)).map_err(failed)?;
        match arbitration.is_primary {
            true => Ok(client),
            false => Err(format!(
                "another controller is primary at {address}, with the election id {}; stop it, or \
                 give a greater --election-id",
                arbitration.highest.unwrap_or(self.election)
            )),
        }
    }
}

/// Waits for the next load.
///
/// # Errors
/// The connection has ended, or another controller has become primary.
fn next_load(
    client: &mut Client,
    loads: &Receiver<SwitchLoad>,
    wakeup: &WakeupFd,
) -> Result<SwitchLoad, String> {
    loop {
        wakeup.rearm();
        if let Ok(load) = loads.try_recv() {
            return Ok(load);
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

/// Gives a switch its program and entries. If it has the program by this connection, only the
/// entries are changed: they have new numbers.
fn give(
    client: &mut Client,
    loaded: &mut Option<Loaded>,
    load: SwitchLoad,
) -> Result<(), LoadError> {
    let has_program = loaded.as_ref().is_some_and(|it| it.program == load.program);
    if !has_program {
        *loaded = None;
        let config = rt::ForwardingPipelineConfig {
            p4info: None,
            p4_device_config: load.program.clone().into_bytes(),
            cookie: None,
        };
        let set = client.set_config(Action::VerifyAndCommit, config, &[]);
        set.map_err(load_error)?;
        let config = client.config(ResponseType::P4infoAndCookie);
        let info = config.map_err(load_error)?.and_then(|it| it.p4info);
        let info = info.ok_or_else(|| LoadError::Refused("it has no program".to_owned()))?;
        let catalog = Catalog::new(info);
        let catalog = catalog.map_err(|error| LoadError::Refused(error.to_string()))?;
        *loaded = Some(Loaded {
            program: load.program,
            catalog,
        });
    }
    let Some(Loaded { catalog, .. }) = loaded else {
        return Ok(());
    };
    let kind = match has_program {
        true => Type::Modify,
        false => Type::Insert,
    };
    let file = catalog.schema.read("entries", &load.entries);
    let file = file.map_err(|errors| {
        let first = errors.first().map(ToString::to_string);
        LoadError::Refused(first.unwrap_or_default())
    })?;
    let updates = file.updates().iter().map(|update| {
        let entity = catalog.entity(update);
        let entity = entity.map_err(|error| LoadError::Refused(error.to_string()))?;
        Ok(rt::Update {
            r#type: kind.into(),
            entity: Some(rt::Entity {
                entity: Some(entity),
            }),
        })
    });
    let updates: Vec<rt::Update> = updates.collect::<Result<_, LoadError>>()?;
    let written = client.write(updates, Atomicity::ContinueOnError);
    written.map_err(|error| {
        // What it has of the entries is not known.
        *loaded = None;
        load_error(error)
    })
}

fn load_error(error: ClientError) -> LoadError {
    match &error {
        ClientError::Refused(refused) if refused.is_refusal() => {
            LoadError::Refused(error.to_string())
        }
        _ => LoadError::Lost(error.to_string()),
    }
}
