//! Tests of TLS, client certificates and permissions.

use std::net::SocketAddr;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action as ConfigAction;
use p4rt::{Clients, Listen, Reach, Server, Tls, Urgency};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Status};

use crate::rig::{ALL, Client, Objects, Rig, arbitration, does, entry, exact};

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new() -> Authority {
        let mut params = named("an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Returns a certificate and its key, as PEM texts.
    fn sign(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server with TLS, and the authority that signs its certificate and its clients'.
struct Guarded {
    rig: Rig,
    authority: Authority,
}

impl Guarded {
    fn new(allowed: &[&str]) -> Guarded {
        let authority = Authority::new();
        let allow = |text: &&str| text.parse().expect("a permission");
        let clients = Clients {
            ca: authority.pem.clone().into(),
            allowed: allowed.iter().map(allow).collect(),
        };
        let rig = Rig::listening(listen(&authority, Some(clients)), 1);
        Guarded { rig, authority }
    }

    /// Connects a client with this certificate.
    async fn connect(&self, identity: Option<(String, String)>) -> Result<Client, Status> {
        connect(&self.rig, &self.authority, identity).await
    }

    /// Connects a client with this name in its certificate.
    async fn client(&self, name: &str) -> Client {
        let identity = self.authority.sign(named(name));
        self.connect(Some(identity)).await.expect("it may connect")
    }
}

fn listen(authority: &Authority, clients: Option<Clients>) -> Listen {
    let names = vec!["localhost".to_owned()];
    let params = CertificateParams::new(names).expect("a name");
    let (certificate, key) = authority.sign(params);
    Listen {
        address: "127.0.0.1:0".parse().expect("an address"),
        tls: Some(Tls {
            certificate: certificate.into(),
            key: key.into(),
            clients,
        }),
        reach: Reach::Loopback,
    }
}

async fn connect(
    rig: &Rig,
    authority: &Authority,
    identity: Option<(String, String)>,
) -> Result<Client, Status> {
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&authority.pem))
        .domain_name("localhost");
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let unavailable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let channel = Channel::from_shared(format!("https://{}", rig.server.address()))
        .expect("a uri")
        .tls_config(tls)
        .map_err(unavailable)?;
    Ok(Client::of(channel.connect().await.map_err(unavailable)?))
}

async fn capabilities(client: &mut Client) -> Result<(), Status> {
    let request = rt::CapabilitiesRequest::default();
    client.grpc.capabilities(request).await.map(drop)
}

/// Returns the code of each call of a client without permissions.
async fn all_calls(client: &mut Client) -> Vec<Code> {
    let code = |status: Status| {
        assert!(!status.message().is_empty());
        status.code()
    };
    let config = rt::GetForwardingPipelineConfigRequest {
        device_id: 1,
        response_type: 0,
    };
    // The client cannot find out which devices exist either.
    let absent = rt::CapabilitiesRequest { device_id: 9 };
    let grpc = &mut client.grpc;
    vec![
        grpc.capabilities(absent).await.map(drop).map_err(code),
        grpc.write(rt::WriteRequest::default())
            .await
            .map(drop)
            .map_err(code),
        grpc.read(rt::ReadRequest::default())
            .await
            .map(drop)
            .map_err(code),
        grpc.get_forwarding_pipeline_config(config)
            .await
            .map(drop)
            .map_err(code),
        grpc.set_forwarding_pipeline_config(rt::SetForwardingPipelineConfigRequest::default())
            .await
            .map(drop)
            .map_err(code),
        grpc.stream_channel(tokio_stream::empty())
            .await
            .map(drop)
            .map_err(code),
    ]
    .into_iter()
    .map(|called| called.expect_err("it is refused"))
    .collect()
}

#[tokio::test]
async fn a_client_with_a_certificate_of_the_ca_controls_the_switch() {
    let guarded = Guarded::new(&[]);
    let mut client = guarded.client("anyone").await;
    let _stream = client.open(Some(1), "").await;
    let loaded = client.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it may");
}

#[tokio::test]
async fn without_a_certificate_every_call_is_unauthenticated() {
    let guarded = Guarded::new(&[]);
    let mut client = guarded.connect(None).await.expect("TLS works");
    assert_eq!(all_calls(&mut client).await, [Code::Unauthenticated; 6]);
}

#[tokio::test]
async fn a_name_that_is_not_allowed_may_do_nothing() {
    let guarded = Guarded::new(&["alice=*"]);
    let mut client = guarded.client("mallory").await;
    assert_eq!(all_calls(&mut client).await, [Code::PermissionDenied; 6]);
    let refused = capabilities(&mut client).await.expect_err("it may not");
    assert!(refused.message().contains("mallory"), "{refused}");
}

#[tokio::test]
async fn certificates_of_another_ca_and_expired_ones_are_refused_and_others_are_served() {
    let guarded = Guarded::new(&[]);
    let of_another = Authority::new().sign(named("alice"));
    let mut expired = named("alice");
    expired.not_before = rcgen::date_time_ymd(2000, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let expired = guarded.authority.sign(expired);
    for identity in [of_another, expired] {
        // In TLS 1.3 the client is connected before it is refused.
        if let Ok(mut client) = guarded.connect(Some(identity)).await {
            capabilities(&mut client).await.expect_err("it is refused");
        }
    }
    let mut good = guarded.client("alice").await;
    capabilities(&mut good).await.expect("it is served");
}

#[tokio::test]
async fn a_server_whose_certificate_is_of_another_ca_is_not_trusted() {
    let guarded = Guarded::new(&[]);
    let refused = connect(&guarded.rig, &Authority::new(), None).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn plain_text_to_a_tls_port_and_tls_to_a_plain_port_fail_and_harm_nobody() {
    let guarded = Guarded::new(&[]);
    let uri = format!("http://{}", guarded.rig.server.address());
    let channel = Channel::from_shared(uri).expect("a uri").connect().await;
    if let Ok(channel) = channel {
        let mut client = Client::of(channel);
        capabilities(&mut client).await.expect_err("it is refused");
    }
    let mut good = guarded.client("alice").await;
    capabilities(&mut good).await.expect("it is served");

    let plain = Rig::empty();
    let refused = connect(&plain, &guarded.authority, None).await;
    assert!(refused.is_err());
    let mut good = plain.client().await;
    capabilities(&mut good).await.expect("it is served");
}

#[tokio::test]
async fn with_tls_but_without_a_ca_clients_need_no_certificate() {
    let authority = Authority::new();
    let rig = Rig::listening(listen(&authority, None), 1);
    let mut client = connect(&rig, &authority, None).await.expect("TLS works");
    let _stream = client.open(Some(1), "").await;
}

#[tokio::test]
async fn names_are_bound_to_roles_and_to_reading() {
    let guarded = Guarded::new(&["root=*", "bob=ops", "carol"]);
    let mut root = guarded.client("root").await;
    let _root_stream = root.open(Some(1), "").await;
    let loaded = root.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it may");
    let objects = Objects::of(&root.config().await);
    let table = objects.id("exact_table");
    let forward = does(objects.id("forward"), &[b"\x01"]);
    let one = Kind::TableEntry(entry(table, vec![exact(1, b"\x07")], forward));
    root.insert(one.clone()).await;
    let all = Kind::TableEntry(entry(table, vec![], None));

    // A client with the permission for one role can be primary of that role only.
    let mut bob = guarded.client("bob").await;
    let mut stream = bob.open(Some(1), "ops").await;
    let denied = Code::PermissionDenied;
    let count = || guarded.rig.server.figures(1).expect("it is served").denied;
    assert_eq!(count(), 0);
    // A role other than the default one may verify a program, but not set it.
    let set = ConfigAction::VerifyAndCommit;
    let changes = [
        set,
        ConfigAction::VerifyAndSave,
        ConfigAction::Commit,
        ConfigAction::ReconcileAndCommit,
        ConfigAction::Unspecified,
    ];
    for action in changes {
        let refused = bob.load(action, ALL).await.expect_err("not root");
        assert_eq!(refused.code(), denied, "{action:?}");
        assert!(refused.message().contains("all roles"), "{refused}");
    }
    assert_eq!(count(), changes.len() as u64);
    let verified = bob.load(ConfigAction::Verify, ALL).await;
    verified.expect("it may");
    assert_eq!(root.read(all.clone()).await.len(), 1);
    let refused = bob.grpc.write(root.request(rt::update::Type::Delete, one));
    // Using root's role and election id does not help.
    assert_eq!(refused.await.expect_err("not root").code(), denied);
    let mut as_root = bob.clone();
    (as_root.role, as_root.election) = (String::new(), Some(1));
    let refused = as_root.load(set, ALL).await;
    assert_eq!(refused.expect_err("not root").code(), denied);
    let refused = as_root.try_read(vec![all.clone()]).await;
    assert_eq!(refused.expect_err("not root").code(), denied);
    stream.send(arbitration(1, Some(9), "")).await;
    assert_eq!(stream.next().await.expect_err("not root").code(), denied);

    // A client with read permission receives arbitration notifications, but cannot be primary.
    let mut carol = guarded.client("carol").await;
    assert_eq!(carol.read(all.clone()).await.len(), 1);
    let mut stream = carol.stream().await;
    stream.send(arbitration(1, None, "")).await;
    let (code, highest) = stream.arbitration().await;
    assert_eq!((code, highest), (Code::AlreadyExists, Some(1)));
    stream.send(arbitration(1, Some(9), "")).await;
    assert_eq!(stream.next().await.expect_err("only reads").code(), denied);
    // Each refusal is counted: bob's write with root's role, his program, his read, his
    // arbitration, and carol's.
    assert_eq!(count(), changes.len() as u64 + 5);
    assert_eq!(root.read(all).await.len(), 1);
}

#[tokio::test]
async fn a_device_has_permissions_of_its_own_and_nobody_else_learns_of_it() {
    let mut guarded = Guarded::new(&["root=*"]);
    let device = guarded.rig.add(&["alice=*"]);
    let other = guarded.rig.add(&["bob=*"]);
    let mut alice = guarded.client("alice").await;
    alice.device = device;
    let _stream = alice.open(Some(1), "").await;
    let loaded = alice.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is hers");
    let denied = Code::PermissionDenied;
    for elsewhere in [1, other, 99] {
        let mut alice = guarded.client("alice").await;
        alice.device = elsewhere;
        let refused = alice.try_read(Vec::new()).await.expect_err("not hers");
        assert_eq!(refused.code(), denied, "device {elsewhere}");
        let config = rt::GetForwardingPipelineConfigRequest {
            device_id: elsewhere,
            response_type: 0,
        };
        let refused = alice.grpc.get_forwarding_pipeline_config(config).await;
        assert_eq!(refused.expect_err("not hers").code(), denied);
        let asked = rt::CapabilitiesRequest {
            device_id: elsewhere,
        };
        let refused = alice.grpc.capabilities(asked).await;
        assert_eq!(refused.expect_err("not hers").code(), denied);
    }
    // A client with permissions at every device has them here too.
    let mut root = guarded.client("root").await;
    root.device = device;
    let _root_stream = root.open(Some(2), "").await;
    let mut mallory = guarded.client("mallory").await;
    assert_eq!(all_calls(&mut mallory).await, [denied; 6]);
}

#[tokio::test]
async fn a_device_with_permissions_of_its_own_is_closed_where_others_are_open() {
    let mut guarded = Guarded::new(&[]);
    let device = guarded.rig.add(&["alice=*"]);
    let mut bob = guarded.client("bob").await;
    let _stream = bob.open(Some(1), "").await;
    bob.device = device;
    let refused = bob.try_read(Vec::new()).await.expect_err("not his");
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[test]
fn an_address_that_other_machines_reach_needs_to_be_meant_and_certificates() {
    let authority = Authority::new();
    let clients = Clients {
        ca: authority.pem.clone().into(),
        allowed: Vec::new(),
    };
    let tls = |clients| listen(&authority, clients).tls;
    let start = |tls, reach| {
        let address: SocketAddr = "0.0.0.0:0".parse().expect("an address");
        let listen = Listen {
            address,
            tls,
            reach,
        };
        let refused = Server::start(listen, Vec::new(), Urgency::AsWorkers).map(drop);
        refused.map_err(|error| error.to_string())
    };
    let refused = |tls, reach, word: &str| {
        let message = start(tls, reach).expect_err("it is refused");
        assert!(message.contains(word), "{message}");
    };
    refused(tls(Some(clients.clone())), Reach::Loopback, "127.0.0.1");
    refused(None, Reach::Anyone, "--tls-cert");
    refused(tls(None), Reach::Certified, "--tls-client-ca");
    start(tls(Some(clients)), Reach::Certified).expect("it is safe");
    start(tls(None), Reach::Anyone).expect("it is meant");
}

#[test]
fn what_is_wrong_with_certificates_is_told() {
    let authority = Authority::new();
    let good = listen(&authority, None);
    let refused = |change: fn(&mut Tls), word: &str| {
        let mut listen = good.clone();
        listen.tls.as_mut().map(change);
        let refused = Server::start(listen, Vec::new(), Urgency::AsWorkers).map(drop);
        let message = refused.expect_err("it is refused").to_string();
        assert!(message.contains(word), "{message}");
    };
    refused(|tls| tls.certificate.clear(), "server's certificate");
    refused(|tls| tls.key = b"no key".to_vec(), "server's key");
    let no_ca = |tls: &mut Tls| {
        tls.clients = Some(Clients {
            ca: Vec::new(),
            allowed: Vec::new(),
        });
    };
    refused(no_ca, "clients' CA");
}
