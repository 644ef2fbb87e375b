//! Test rig: devices with loops, their server, and controllers over real gRPC.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use interp::Interp;
use p4info::google::rpc;
use p4info::p4::config::v1::P4Info;
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action as ConfigAction;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::update::Type;
use p4rt::service::p4_runtime_client::P4RuntimeClient;
use p4rt::{CpuPort, Inbox, KnownPorts, Listen, Loader, Server, ServerConfig, Urgency};
use packet::{Nanos, PortId};
use prost::Message;
use switch::{Device, DeviceConfig, LoadError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// A program with every kind of object.
pub(crate) const ALL: &str = include_str!("all.p4");

/// The CPU port.
pub(crate) const CPU: u32 = 510;

/// Loader that compiles like the command.
pub(crate) struct Compiler;

impl Loader for Compiler {
    fn compile(&self, text: &str) -> Result<ir::Program, String> {
        Ok(driver::compile_text("config.p4", text)?)
    }

    fn ports(&self) -> Option<KnownPorts> {
        Some((0..=9).chain([CPU]).map(PortId).collect())
    }

    fn device(&self, program: Arc<ir::Program>) -> Result<Device, LoadError> {
        Device::new(program, &Interp, &DeviceConfig::default())
    }
}

/// Program of a switch without a program: it drops everything.
const EMPTY: &str = "
#include <core.p4>
#include <v1model.p4>
struct none_t { }
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) { state start { transition accept; } }
control C(inout none_t h, inout none_t m) { apply { } }
control I(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { mark_to_drop(s); } }
control E(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in none_t h) { apply { } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
";

/// A frame with its port, as sent to and from the loop.
type Frames = (u32, Vec<u8>);

/// Devices with their loops and their server.
pub(crate) struct Rig {
    pub(crate) server: Server,
    /// The devices, with ids from 1.
    places: Vec<Place>,
}

/// A device's loop.
struct Place {
    frames: Sender<Frames>,
    sent: Receiver<Frames>,
    stop: Arc<AtomicBool>,
    looping: Option<JoinHandle<()>>,
}

fn run(
    mut inbox: Inbox,
    mut cpu: CpuPort,
    mut device: Device,
    frames: &Receiver<Frames>,
    sent: &Sender<Frames>,
    stop: &AtomicBool,
) {
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let mut is_busy = false;
        while let Ok((port, bytes)) = frames.try_recv() {
            device
                .receive(PortId(port), &bytes)
                .expect("frames are short");
            is_busy = true;
        }
        while let Some((port, bytes)) = cpu.take() {
            device
                .receive(port, &bytes)
                .expect("the server checks lengths");
        }
        let more = inbox.serve(&mut device, is_busy);
        device.step(Nanos::from(start.elapsed()));
        device.drain_sent(|port, bytes, _| {
            if port == cpu.id() {
                cpu.give(bytes);
            } else {
                // The test may have ended.
                let _ = sent.send((port.0, bytes.to_vec()));
            }
        });
        while let Some(digest) = device.take_digest() {
            inbox.digest(digest);
        }
        inbox.look_for_idle(&device);
        if !more && !is_busy {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    device.check_conservation().expect("no packet disappears");
}

/// Returns a device that drops everything.
pub(crate) fn empty_device() -> Device {
    let program = Arc::new(Compiler.compile(EMPTY).expect("it is fine"));
    Compiler.device(program).expect("it runs")
}

impl Place {
    /// Starts the loop of a device. `program` is its program if it does not depend on a controller.
    fn start(id: u64, device: Device, program: Option<Arc<ir::Program>>) -> (Place, ServerConfig) {
        let notes = device.notes().clone();
        let (inbox, cpu, remote) = p4rt::channel(PortId(CPU)).expect("a socket pair");
        let (frames, frames_out) = channel();
        let (sent_in, sent) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let looping =
            std::thread::spawn(move || run(inbox, cpu, device, &frames_out, &sent_in, &stopped));
        let setup = ServerConfig {
            id,
            second_id: None,
            remote,
            loader: Arc::new(Compiler),
            program,
            ports: vec![(PortId(3), "eth3".into()), (PortId(7), "eth7".into())],
            notes,
            extensions: &[],
            allowed: Vec::new(),
        };
        let place = Place {
            frames,
            sent,
            stop,
            looping: Some(looping),
        };
        (place, setup)
    }
}

impl Rig {
    /// Starts a switch without a program.
    pub(crate) fn empty() -> Rig {
        Rig::several(1)
    }

    /// Starts `count` switches without programs, with ids from 1.
    pub(crate) fn several(count: u64) -> Rig {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        Rig::listening(address.into(), count)
    }

    /// Starts switches without programs, with these ids and second ids.
    pub(crate) fn numbered(ids: &[(u64, Option<u64>)]) -> Rig {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let place = |&(id, second_id): &(u64, Option<u64>)| {
            let (place, setup) = Place::start(id, empty_device(), None);
            (place, ServerConfig { second_id, ..setup })
        };
        Rig::behind(address.into(), ids.iter().map(place))
    }

    /// Starts switches without programs, with a server that listens like this.
    pub(crate) fn listening(listen: Listen, count: u64) -> Rig {
        let place = |id| Place::start(id, empty_device(), None);
        Rig::behind(listen, (1..=count).map(place))
    }

    /// Starts a switch with this device. `program` is its program if it does not depend on a
    /// controller.
    pub(crate) fn start(device: Device, program: Option<Arc<ir::Program>>) -> Rig {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        Rig::behind(address.into(), [Place::start(1, device, program)])
    }

    /// Starts a switch without a program that uses this loader.
    pub(crate) fn loading(loader: Arc<dyn Loader>) -> Rig {
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let (place, setup) = Place::start(1, empty_device(), None);
        Rig::behind(address.into(), [(place, ServerConfig { loader, ..setup })])
    }

    fn behind(listen: Listen, places: impl IntoIterator<Item = (Place, ServerConfig)>) -> Rig {
        let (places, setups) = places.into_iter().unzip();
        let server = Server::start(listen, setups, Urgency::AsWorkers).expect("a free port");
        Rig { server, places }
    }

    /// Adds a switch without a program, with its own permissions. Returns its id.
    pub(crate) fn add(&mut self, allowed: &[&str]) -> u64 {
        let id = self.places.len() as u64 + 1;
        let (place, mut setup) = Place::start(id, empty_device(), None);
        let allow = |text: &&str| text.parse().expect("a permission");
        setup.allowed = allowed.iter().map(allow).collect();
        self.server.add(setup).expect("the number is free");
        self.places.push(place);
        id
    }

    /// Connects a controller.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.server.address()).await
    }

    /// Connects a primary and loads the program with every kind of object.
    pub(crate) async fn loaded(&self) -> (Client, Stream, Objects) {
        let mut client = self.client().await;
        let stream = client.open(Some(1), "").await;
        client
            .load(ConfigAction::VerifyAndCommit, ALL)
            .await
            .expect("it loads");
        let objects = Objects::of(&client.config().await);
        (client, stream, objects)
    }

    /// Sends a packet into a port of device 1.
    pub(crate) fn receive(&self, port: u32, bytes: &[u8]) {
        self.receive_at(1, port, bytes);
    }

    /// Sends a packet into a port of a device.
    pub(crate) fn receive_at(&self, device: usize, port: u32, bytes: &[u8]) {
        self.places[device - 1]
            .frames
            .send((port, bytes.to_vec()))
            .expect("the loop runs");
    }

    /// Waits for the next packet that device 1 sends.
    pub(crate) fn sent(&self) -> Option<Frames> {
        self.sent_at(1)
    }

    /// Waits for the next packet that a device sends.
    pub(crate) fn sent_at(&self, device: usize) -> Option<Frames> {
        let sent = &self.places[device - 1].sent;
        sent.recv_timeout(Duration::from_secs(5)).ok()
    }

    /// Returns the next packet that device 1 sends within a short time.
    pub(crate) fn sent_now(&self) -> Option<Frames> {
        let sent = &self.places[0].sent;
        sent.recv_timeout(Duration::from_millis(100)).ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(looping) = self.looping.take() {
            let ended = looping.join();
            if !std::thread::panicking() {
                ended.expect("the loop does not panic");
            }
        }
    }
}

/// A controller.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) grpc: P4RuntimeClient<Channel>,
    pub(crate) device: u64,
    pub(crate) election: Option<u64>,
    pub(crate) role: String,
}

/// A controller's session.
pub(crate) struct Stream {
    ask: mpsc::Sender<rt::StreamMessageRequest>,
    told: Streaming<rt::StreamMessageResponse>,
}

pub(crate) fn election(id: Option<u64>) -> Option<rt::Uint128> {
    id.map(|low| rt::Uint128 { high: 0, low })
}

/// Returns an arbitration update.
pub(crate) fn arbitration(device_id: u64, id: Option<u64>, role: &str) -> Ask {
    let role = (!role.is_empty()).then(|| rt::Role {
        name: role.to_owned(),
        ..Default::default()
    });
    Ask::Arbitration(rt::MasterArbitrationUpdate {
        device_id,
        role,
        election_id: election(id),
        status: None,
    })
}

impl Client {
    /// Connects to a server.
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let uri = format!("http://{address}");
        let channel = Channel::from_shared(uri).expect("a uri").connect().await;
        Client::of(channel.expect("the server is there"))
    }

    /// Returns a controller of device 1 on this connection.
    pub(crate) fn of(channel: Channel) -> Client {
        let grpc = P4RuntimeClient::new(channel);
        Client {
            grpc: grpc.max_decoding_message_size(64 << 20),
            device: 1,
            election: None,
            role: String::new(),
        }
    }

    /// Opens a session and awaits the answer to its arbitration update.
    pub(crate) async fn open(&mut self, id: Option<u64>, role: &str) -> Stream {
        let mut stream = self.stream().await;
        stream.send(arbitration(self.device, id, role)).await;
        let told = stream.next().await.expect("an answer");
        assert!(matches!(told, Told::Arbitration(_)), "{told:?}");
        self.election = id;
        self.role = role.to_owned();
        stream
    }

    /// Opens a session without an arbitration update.
    pub(crate) async fn stream(&mut self) -> Stream {
        let (ask, asked) = mpsc::channel(64);
        let told = self.grpc.stream_channel(ReceiverStream::new(asked)).await;
        Stream {
            ask,
            told: told.expect("a session").into_inner(),
        }
    }

    /// Sets a program, with its own P4Info.
    pub(crate) async fn load(&mut self, action: ConfigAction, text: &str) -> Result<(), Status> {
        let config = rt::ForwardingPipelineConfig {
            p4info: None,
            p4_device_config: text.as_bytes().to_vec(),
            cookie: Some(rt::forwarding_pipeline_config::Cookie { cookie: 77 }),
        };
        self.set(action, Some(config)).await
    }

    pub(crate) async fn set(
        &mut self,
        action: ConfigAction,
        config: Option<rt::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        self.set_with(action, config, None).await
    }

    /// Sets a program with the list of objects that may lose state.
    pub(crate) async fn set_with(
        &mut self,
        action: ConfigAction,
        config: Option<rt::ForwardingPipelineConfig>,
        may_lose: Option<&'static str>,
    ) -> Result<(), Status> {
        let request = rt::SetForwardingPipelineConfigRequest {
            device_id: self.device,
            role: self.role.clone(),
            election_id: election(self.election),
            action: action.into(),
            config,
            ..Default::default()
        };
        let mut request = tonic::Request::new(request);
        if let Some(names) = may_lose {
            let word = tonic::metadata::MetadataValue::from_static(names);
            request.metadata_mut().insert("polyplane-may-lose", word);
        }
        self.grpc
            .set_forwarding_pipeline_config(request)
            .await
            .map(drop)
    }

    /// Returns the program that is set.
    pub(crate) async fn config(&mut self) -> rt::ForwardingPipelineConfig {
        let request = rt::GetForwardingPipelineConfigRequest {
            device_id: self.device,
            response_type: 0,
        };
        let got = self.grpc.get_forwarding_pipeline_config(request).await;
        got.expect("an answer")
            .into_inner()
            .config
            .expect("a config")
    }

    /// Returns a request with one update.
    pub(crate) fn request(&self, ty: Type, entity: Kind) -> rt::WriteRequest {
        self.batch(vec![(ty, entity)])
    }

    /// Returns a request with updates.
    pub(crate) fn batch(&self, updates: Vec<(Type, Kind)>) -> rt::WriteRequest {
        let update = |(ty, entity): (Type, Kind)| rt::Update {
            r#type: ty.into(),
            entity: Some(rt::Entity {
                entity: Some(entity),
            }),
        };
        rt::WriteRequest {
            device_id: self.device,
            role: self.role.clone(),
            election_id: election(self.election),
            updates: updates.into_iter().map(update).collect(),
            ..Default::default()
        }
    }

    /// Makes one update. Returns the error of the update itself.
    pub(crate) async fn write(&mut self, ty: Type, entity: Kind) -> Result<(), rt::Error> {
        let request = self.request(ty, entity);
        match self.grpc.write(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(errors(&status).remove(0)),
        }
    }

    /// Makes updates. If one fails, returns a code for each.
    pub(crate) async fn write_all(
        &mut self,
        atomicity: rt::write_request::Atomicity,
        updates: Vec<(Type, Kind)>,
    ) -> Result<(), Vec<i32>> {
        let mut request = self.batch(updates);
        request.atomicity = atomicity.into();
        match self.grpc.write(request).await {
            Ok(_) => Ok(()),
            Err(status) => Err(errors(&status).iter().map(|e| e.canonical_code).collect()),
        }
    }

    /// Makes an update that must be refused, and returns the error's code.
    pub(crate) async fn refused(&mut self, ty: Type, entity: Kind) -> Code {
        let refused = self.write(ty, entity).await.expect_err("it is refused");
        assert!(!refused.message.is_empty());
        Code::from(refused.canonical_code)
    }

    /// Inserts an entity. It must be accepted.
    pub(crate) async fn insert(&mut self, entity: Kind) {
        self.write(Type::Insert, entity)
            .await
            .expect("it is accepted");
    }

    /// Modifies an entity. It must be accepted.
    pub(crate) async fn modify(&mut self, entity: Kind) {
        self.write(Type::Modify, entity)
            .await
            .expect("it is accepted");
    }

    /// Deletes an entity. It must exist.
    pub(crate) async fn delete(&mut self, entity: Kind) {
        self.write(Type::Delete, entity)
            .await
            .expect("it is accepted");
    }

    /// Reads entities.
    pub(crate) async fn try_read(&mut self, entities: Vec<Kind>) -> Result<Vec<Kind>, Status> {
        let entity = |entity| rt::Entity {
            entity: Some(entity),
        };
        let request = rt::ReadRequest {
            device_id: self.device,
            role: self.role.clone(),
            entities: entities.into_iter().map(entity).collect(),
        };
        let mut parts = self.grpc.read(request).await?.into_inner();
        let mut all = Vec::new();
        while let Some(part) = parts.message().await? {
            all.extend(part.entities.into_iter().filter_map(|entity| entity.entity));
        }
        Ok(all)
    }

    /// Reads an entity. It must be readable.
    pub(crate) async fn read(&mut self, entity: Kind) -> Vec<Kind> {
        self.try_read(vec![entity]).await.expect("it can be read")
    }
}

/// Decodes the errors of a batch.
pub(crate) fn errors(status: &Status) -> Vec<rt::Error> {
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let details = rpc::Status::decode(status.details()).expect("a google.rpc.Status");
    assert_eq!(details.code, Code::Unknown as i32);
    assert_eq!(details.message, status.message());
    let error = |any: &prost_types::Any| {
        assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
        rt::Error::decode(&*any.value).expect("a p4.v1.Error")
    };
    details.details.iter().map(error).collect()
}

impl Stream {
    pub(crate) async fn send(&mut self, ask: Ask) {
        let request = rt::StreamMessageRequest { update: Some(ask) };
        self.ask.send(request).await.expect("the session lives");
    }

    /// Awaits the next message, or the status that ends the session.
    pub(crate) async fn next(&mut self) -> Result<Told, Status> {
        let wait = Duration::from_secs(10);
        let message = tokio::time::timeout(wait, self.told.message()).await;
        let message = message.map_err(|_| Status::deadline_exceeded("nothing came"))??;
        let message = message.ok_or_else(|| Status::aborted("the session is over"))?;
        Ok(message.update.expect("an update"))
    }

    /// Returns true if no message arrives within a short time.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let wait = Duration::from_millis(200);
        tokio::time::timeout(wait, self.told.message())
            .await
            .is_err()
    }

    /// Returns the code and the election id of the next arbitration notification.
    pub(crate) async fn arbitration(&mut self) -> (Code, Option<u64>) {
        match self.next().await {
            Ok(Told::Arbitration(update)) => {
                let code = Code::from(update.status.expect("a status").code);
                (code, update.election_id.map(|id| id.low))
            }
            other => panic!("no arbitration: {other:?}"),
        }
    }
}

/// The ids of a program's objects, by the last part of their names.
pub(crate) struct Objects(HashMap<String, u32>);

impl Objects {
    pub(crate) fn of(config: &rt::ForwardingPipelineConfig) -> Objects {
        let info = config.p4info.clone().unwrap_or_default();
        let mut ids = HashMap::new();
        for preamble in preambles(&info) {
            let short = preamble.name.rsplit('.').next().unwrap_or_default();
            ids.insert(short.to_owned(), preamble.id);
        }
        Objects(ids)
    }

    pub(crate) fn id(&self, name: &str) -> u32 {
        self.0[name]
    }
}

fn preambles(info: &P4Info) -> Vec<p4info::p4::config::v1::Preamble> {
    let tables = info.tables.iter().map(|one| &one.preamble);
    let all = tables
        .chain(info.actions.iter().map(|one| &one.preamble))
        .chain(info.action_profiles.iter().map(|one| &one.preamble))
        .chain(info.counters.iter().map(|one| &one.preamble))
        .chain(info.meters.iter().map(|one| &one.preamble))
        .chain(info.registers.iter().map(|one| &one.preamble))
        .chain(info.digests.iter().map(|one| &one.preamble))
        .chain(info.value_sets.iter().map(|one| &one.preamble));
    all.flatten().cloned().collect()
}

// Messages.

pub(crate) fn exact(field_id: u32, value: &[u8]) -> rt::FieldMatch {
    let exact = rt::field_match::Exact {
        value: value.to_vec(),
    };
    rt::FieldMatch {
        field_id,
        field_match_type: Some(rt::field_match::FieldMatchType::Exact(exact)),
    }
}

pub(crate) fn lpm(field_id: u32, value: &[u8], prefix_len: i32) -> rt::FieldMatch {
    let lpm = rt::field_match::Lpm {
        value: value.to_vec(),
        prefix_len,
    };
    rt::FieldMatch {
        field_id,
        field_match_type: Some(rt::field_match::FieldMatchType::Lpm(lpm)),
    }
}

pub(crate) fn ternary(field_id: u32, value: &[u8], mask: &[u8]) -> rt::FieldMatch {
    let ternary = rt::field_match::Ternary {
        value: value.to_vec(),
        mask: mask.to_vec(),
    };
    rt::FieldMatch {
        field_id,
        field_match_type: Some(rt::field_match::FieldMatchType::Ternary(ternary)),
    }
}

pub(crate) fn range(field_id: u32, low: &[u8], high: &[u8]) -> rt::FieldMatch {
    let range = rt::field_match::Range {
        low: low.to_vec(),
        high: high.to_vec(),
    };
    rt::FieldMatch {
        field_id,
        field_match_type: Some(rt::field_match::FieldMatchType::Range(range)),
    }
}

pub(crate) fn optional(field_id: u32, value: &[u8]) -> rt::FieldMatch {
    let optional = rt::field_match::Optional {
        value: value.to_vec(),
    };
    rt::FieldMatch {
        field_id,
        field_match_type: Some(rt::field_match::FieldMatchType::Optional(optional)),
    }
}

/// Returns an action call with values for the parameters 1, 2, ...
pub(crate) fn call(action_id: u32, values: &[&[u8]]) -> rt::Action {
    let param = |(at, value): (usize, &&[u8])| rt::action::Param {
        param_id: at as u32 + 1,
        value: value.to_vec(),
    };
    rt::Action {
        action_id,
        params: values.iter().enumerate().map(param).collect(),
    }
}

pub(crate) fn does(action_id: u32, values: &[&[u8]]) -> Option<rt::TableAction> {
    Some(rt::TableAction {
        r#type: Some(rt::table_action::Type::Action(call(action_id, values))),
    })
}

/// Returns an entry.
pub(crate) fn entry(
    table_id: u32,
    matches: Vec<rt::FieldMatch>,
    action: Option<rt::TableAction>,
) -> rt::TableEntry {
    rt::TableEntry {
        table_id,
        r#match: matches,
        action,
        ..Default::default()
    }
}

/// Returns a frame with these addresses and type.
pub(crate) fn frame(dst: u64, src: u64, ether_type: u16) -> Vec<u8> {
    let mut bytes = dst.to_be_bytes()[2..].to_vec();
    bytes.extend_from_slice(&src.to_be_bytes()[2..]);
    bytes.extend_from_slice(&ether_type.to_be_bytes());
    bytes.extend_from_slice(b"payload");
    bytes
}
