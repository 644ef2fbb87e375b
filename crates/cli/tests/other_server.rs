//! `polyplane ctl` with another server: it supports less, as BMv2's does, and may require TLS.

mod lab;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use lab::authority::Authority;
use lab::{Directory, Said, example, said};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4info::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4info::p4::v1::replica::PortKind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::write_request::Atomicity;
use p4rt::service::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Requests that the server received.
#[derive(Default)]
struct Given {
    config: Option<rt::ForwardingPipelineConfig>,
    entries: Vec<rt::TableEntry>,
    others: Vec<Entity>,
}

/// A server of P4Runtime before 1.4, without extensions of ours.
#[derive(Clone, Default)]
struct Old(Arc<Mutex<Given>>);

fn without<T>(what: &str) -> Result<T, Status> {
    Err(Status::unimplemented(format!("no {what} here")))
}

type Answers<T> = ReceiverStream<Result<T, Status>>;

/// Returns a stream with all answers.
fn answers<T: Send + 'static>(all: Vec<T>) -> Answers<T> {
    let (sender, answers) = mpsc::channel(all.len().max(1));
    for one in all {
        assert!(sender.try_send(Ok(one)).is_ok());
    }
    ReceiverStream::new(answers)
}

#[tonic::async_trait]
impl P4Runtime for Old {
    async fn write(
        &self,
        request: Request<rt::WriteRequest>,
    ) -> Result<Response<rt::WriteResponse>, Status> {
        let request = request.into_inner();
        if request.atomicity() == Atomicity::DataplaneAtomic {
            return without("DATAPLANE_ATOMIC");
        }
        let mut given = self.0.lock().unwrap();
        for update in request.updates {
            match update.entity.and_then(|entity| entity.entity).unwrap() {
                Entity::TableEntry(entry) => given.entries.push(entry),
                other => given.others.push(other),
            }
        }
        Ok(Response::new(rt::WriteResponse {}))
    }

    type ReadStream = Answers<rt::ReadResponse>;

    async fn read(
        &self,
        request: Request<rt::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let mut entities = Vec::new();
        for entity in request.into_inner().entities {
            match entity.entity.unwrap() {
                Entity::TableEntry(entry) if entry.is_default_action => {
                    return without("default entries");
                }
                Entity::TableEntry(entry) => {
                    let given = self.0.lock().unwrap();
                    let own = given.entries.iter();
                    let own = own.filter(|one| one.table_id == entry.table_id);
                    entities.extend(own.cloned().map(|one| rt::Entity {
                        entity: Some(Entity::TableEntry(one)),
                    }));
                }
                _ => return without("such entities"),
            }
        }
        let response = rt::ReadResponse { entities };
        Ok(Response::new(answers(vec![response])))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<rt::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<rt::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        if request.action() == Action::ReconcileAndCommit {
            return without("RECONCILE_AND_COMMIT");
        }
        self.0.lock().unwrap().config = request.config;
        Ok(Response::new(rt::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<rt::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<rt::GetForwardingPipelineConfigResponse>, Status> {
        if request.into_inner().response_type() != ResponseType::All {
            return without("parts of a config");
        }
        let config = self.0.lock().unwrap().config.clone();
        let config = config.ok_or_else(|| Status::failed_precondition("no config"))?;
        Ok(Response::new(rt::GetForwardingPipelineConfigResponse {
            config: Some(config),
        }))
    }

    type StreamChannelStream = Answers<rt::StreamMessageResponse>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<rt::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut asks = request.into_inner();
        let Some(first) = asks.message().await? else {
            return Ok(Response::new(answers(Vec::new())));
        };
        let Some(Ask::Arbitration(asked)) = first.update else {
            return Err(Status::invalid_argument("who are you?"));
        };
        if asked.election_id.is_none() {
            return Err(Status::invalid_argument("no election id"));
        }
        let (answer, told) = mpsc::channel(1);
        tokio::spawn(async move {
            let first = rt::StreamMessageResponse {
                update: Some(Told::Arbitration(asked)),
            };
            // Fails if the client has gone. Otherwise the client keeps the stream open.
            let _ = answer.send(Ok(first)).await;
            while let Ok(Some(_)) = asks.message().await {}
        });
        Ok(Response::new(ReceiverStream::new(told)))
    }

    async fn capabilities(
        &self,
        _: Request<rt::CapabilitiesRequest>,
    ) -> Result<Response<rt::CapabilitiesResponse>, Status> {
        without("capabilities")
    }
}

/// The server, on a runtime that ends with the test.
struct Running {
    address: SocketAddr,
    given: Old,
    _runtime: tokio::runtime::Runtime,
}

impl Running {
    fn start(tls: Option<ServerTlsConfig>) -> Running {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let given = Old::default();
        let service = P4RuntimeServer::new(given.clone());
        let incoming =
            runtime.block_on(async { TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap() });
        let address = incoming.local_addr().unwrap();
        let mut server = tonic::transport::Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        runtime.spawn(server.serve_with_incoming(service, incoming));
        Running {
            address,
            given,
            _runtime: runtime,
        }
    }

    fn ctl(&self, arguments: &[&str]) -> Said {
        let address = format!("localhost:{}", self.address.port());
        said(&[&["ctl"], arguments, &["--addr", &address]].concat())
    }
}

fn well(said: &Said) {
    assert_eq!(said.status, Some(0), "{}{}", said.err, said.out);
}

fn wrong(said: &Said, parts: &[&str]) {
    assert_eq!(said.status, Some(1), "{}{}", said.err, said.out);
    for part in parts {
        assert!(
            said.one_line().contains(part),
            "\"{part}\" in: {}",
            said.err
        );
    }
}

#[test]
fn what_a_server_does_not_have_is_done_without() {
    let dir = Directory::new("other-server");
    let server = Running::start(None);
    wrong(&server.ctl(&["tables"]), &["has no program"]);
    let program = example("router/router.p4");
    wrong(
        &server.ctl(&["load", &program]),
        &["no RECONCILE_AND_COMMIT here", "--clear"],
    );
    well(&server.ctl(&["load", &program, "--clear"]));
    let text =
        "ipv4_lpm { hdr.ipv4.dst: 10.9.0.0/16 } -> connected(port: 3)\nmulticast 5 { port 4 }\n";
    let file = dir.with("some.entries", text);
    let atomic = server.ctl(&["apply", "--atomic", &file]);
    assert_eq!(atomic.status, Some(1), "{}", atomic.out);
    assert!(
        atomic.err.contains("no DATAPLANE_ATOMIC here") && atomic.err.contains("--atomic=rollback"),
        "{}",
        atomic.err
    );
    let applied = server.ctl(&["apply", &file]);
    well(&applied);
    assert!(
        applied
            .err
            .contains("warning: the server does not tell multicast groups"),
        "{}",
        applied.err
    );
    let given = server.given.0.lock().unwrap();
    let [Entity::PacketReplicationEngineEntry(group)] = &given.others[..] else {
        panic!("{:?}", given.others);
    };
    let Some(Replication::MulticastGroupEntry(group)) = &group.r#type else {
        panic!("{group:?}");
    };
    #[allow(deprecated, reason = "it is what the server knows")]
    let port = PortKind::EgressPort(4);
    assert_eq!(group.replicas[0].port_kind, Some(port));
    drop(given);
    let dump = server.ctl(&["dump"]);
    well(&dump);
    assert_eq!(
        dump.out,
        "RouterIngress.ipv4_lpm { hdr.ipv4.dst: 10.9.0.0/16 } -> RouterIngress.connected(port: 3)\n"
    );
    well(&server.ctl(&["tables"]));
    wrong(
        &server.ctl(&["capabilities"]),
        &["no capabilities here", "this server does not have it"],
    );
}

#[test]
fn tls_is_spoken_with_certificates_of_both_sides() {
    let dir = Directory::new("ctl-tls");
    let authority = Authority::new();
    let (certificate, key) = authority.of_host("localhost");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(&authority.pem));
    let server = Running::start(Some(tls));
    let (certificate, key) = authority.of_host("someone");
    let ca = dir.with("ca.pem", &authority.pem);
    let certificate = dir.with("me.pem", certificate);
    let key = dir.with("me.key", key);
    let own = ["--tls-cert", &certificate, "--tls-key", &key];
    let load = ["load", &example("router/router.p4"), "--clear"];
    well(&server.ctl(&[&load, &["--tls-ca", &ca][..], &own].concat()));
    well(&server.ctl(&[&["tables", "--tls-ca", &ca][..], &own].concat()));
    // Without a certificate, with one of another authority, with swapped files, and without TLS.
    let plain = server.ctl(&["tables"]);
    wrong(&plain, &["does it want TLS (--tls-ca)?"]);
    let alone = server.ctl(&["tables", "--tls-ca", &ca]);
    assert_eq!(alone.status, Some(1), "{}", alone.out);
    assert!(alone.one_line().contains("--tls-"), "{}", alone.err);
    let other = dir.with("other.pem", &Authority::new().pem);
    wrong(
        &server.ctl(&["tables", "--tls-ca", &other]),
        &["with TLS", "do --tls-ca, --tls-cert and --tls-key fit it?"],
    );
    let swapped = [
        "tables",
        "--tls-ca",
        &ca,
        "--tls-cert",
        &key,
        "--tls-key",
        &certificate,
    ];
    wrong(&server.ctl(&swapped), &["me.key has no certificate in PEM"]);
    let name = ["tables", "--tls-ca", &ca, "--tls-name", "elsewhere"];
    wrong(&server.ctl(&[&name[..], &own].concat()), &["with TLS"]);
    // TLS with a server that does not support it.
    let server = Running::start(None);
    wrong(
        &server.ctl(&["tables", "--tls-ca", &ca]),
        &["with TLS", "does it speak TLS"],
    );
}
