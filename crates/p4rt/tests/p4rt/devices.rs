//! Tests of several devices in one server.

use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action as ConfigAction;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::polyplane::ports::v1::{PortState, PortStates, WatchRequest};
use p4rt::service::ports::ports_client::PortsClient;
use packet::PortId;
use tonic::transport::Endpoint;
use tonic::{Code, Streaming};

use crate::rig::{ALL, Objects, Rig, arbitration, does, entry, exact, frame};

#[tokio::test]
async fn each_device_has_its_own_primary_program_and_state() {
    let rig = Rig::several(2);
    let mut first = rig.client().await;
    let mut second = first.clone();
    second.device = 2;
    let mut first_stream = first.open(Some(7), "").await;
    // On the same connection, a lower election id can be primary of the other device.
    let _second_stream = second.open(Some(3), "").await;
    let loaded = first.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is primary");
    let objects = Objects::of(&first.config().await);
    let table = objects.id("exact_table");
    let forward = does(objects.id("forward"), &[b"\x05"]);
    let one = Kind::TableEntry(entry(table, vec![exact(1, b"\x07")], forward));
    first.insert(one).await;
    let all = Kind::TableEntry(entry(table, vec![], None));
    // The other device has no program yet.
    let refused = second.try_read(vec![all.clone()]).await;
    assert_eq!(
        refused.expect_err("no program").code(),
        Code::FailedPrecondition
    );
    let loaded = second.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is primary");
    assert_eq!(second.read(all.clone()).await.len(), 0);
    assert_eq!(first.read(all).await.len(), 1);
    // Being primary of one device gives no rights at the other.
    let mut elsewhere = first.clone();
    elsewhere.device = 2;
    let refused = elsewhere.load(ConfigAction::VerifyAndCommit, ALL).await;
    assert_eq!(
        refused.expect_err("not primary there").code(),
        Code::PermissionDenied
    );
    // A session is for one device.
    first_stream.send(arbitration(2, Some(8), "")).await;
    let ended = first_stream.next().await.expect_err("it ends");
    assert_eq!(ended.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn packets_and_figures_stay_with_their_device() {
    let rig = Rig::several(2);
    let mut clients = Vec::new();
    let mut streams = Vec::new();
    for device in [1, 2] {
        let mut client = rig.client().await;
        client.device = device;
        streams.push(client.open(Some(1), "").await);
        let loaded = client.load(ConfigAction::VerifyAndCommit, ALL).await;
        loaded.expect("it is primary");
        clients.push(client);
    }
    let objects = Objects::of(&clients[1].config().await);
    let forward = does(objects.id("forward"), &[b"\x05"]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x07")], forward);
    clients[1].insert(Kind::TableEntry(one)).await;
    // Only the second device forwards it.
    rig.receive_at(1, 1, &frame(7, 1, 0x1234));
    rig.receive_at(2, 1, &frame(7, 1, 0x1234));
    let (port, _) = rig.sent_at(2).expect("it is forwarded");
    assert_eq!(port, 5);
    let updates = [1, 2].map(|device| rig.server.figures(device).expect("it is there").updates);
    assert_eq!(updates, [0, 1]);
    assert!(rig.server.figures(3).is_none());
}

#[tokio::test]
async fn devices_come_and_go_while_others_are_served() {
    let mut rig = Rig::several(1);
    let mut first = rig.client().await;
    let mut first_stream = first.open(Some(1), "").await;
    let mut second = first.clone();
    second.device = 2;
    let refused = second.try_read(Vec::new()).await.expect_err("not yet");
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(rig.add(&[]), 2);
    let mut second_stream = second.open(Some(1), "").await;
    let loaded = second.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is primary");

    assert!(rig.server.remove(2));
    let ended = second_stream.next().await.expect_err("it is gone");
    assert_eq!(ended.code(), Code::Unavailable);
    let refused = second.try_read(Vec::new()).await.expect_err("it is gone");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(!rig.server.remove(2));
    assert!(rig.server.figures(2).is_none());
    // The other device's session continues.
    first_stream.send(arbitration(1, Some(2), "")).await;
    assert_eq!(first_stream.arbitration().await.0, Code::Ok);
}

#[tokio::test]
async fn a_device_has_the_number_0_as_any_other() {
    let rig = Rig::numbered(&[(0, None), (1, None)]);
    let mut client = rig.client().await;
    client.device = 0;
    let _stream = client.open(Some(1), "").await;
    let loaded = client.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is primary");
    let mut other = rig.client().await;
    let refused = other.try_read(Vec::new()).await;
    assert_eq!(
        refused.expect_err("no program").code(),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn a_device_answers_to_its_second_number_by_that_number() {
    let rig = Rig::numbered(&[(1, Some(0))]);
    let (mut own, mut second) = (rig.client().await, rig.client().await);
    let mut backup = own.open(Some(1), "").await;
    second.device = 0;
    let mut stream = second.stream().await;
    stream.send(arbitration(0, Some(2), "")).await;
    let number = |told| match told {
        Told::Arbitration(told) => told.device_id,
        other => panic!("{other:?}"),
    };
    assert_eq!(number(stream.next().await.expect("an answer")), 0);
    assert_eq!(number(backup.next().await.expect("a new primary")), 1);
    second.election = Some(2);
    let loaded = second.load(ConfigAction::VerifyAndCommit, ALL).await;
    loaded.expect("it is primary");
    // A device's own id takes precedence over another device's second id.
    let rig = Rig::numbered(&[(1, Some(0)), (0, None)]);
    let mut client = rig.client().await;
    client.device = 0;
    let mut stream = client.stream().await;
    stream.send(arbitration(0, Some(2), "")).await;
    assert_eq!(number(stream.next().await.expect("an answer")), 0);
    client.device = 1;
    let _first = client.open(Some(1), "").await;
}

/// Starts to watch the ports of a device.
async fn watch(rig: &Rig, device_id: u64) -> Result<Streaming<PortStates>, tonic::Status> {
    let address = format!("http://{}", rig.server.address());
    let endpoint = Endpoint::from_shared(address).expect("an address");
    let channel = endpoint.connect().await.expect("it listens");
    let mut client = PortsClient::new(channel);
    let watching = client.watch(WatchRequest { device_id }).await?;
    Ok(watching.into_inner())
}

fn states(ports: &[(u32, &str, bool)]) -> PortStates {
    let state = |&(port, name, is_up): &(u32, &str, bool)| PortState {
        port,
        name: name.into(),
        is_up,
    };
    PortStates {
        ports: ports.iter().map(state).collect(),
        removed: Vec::new(),
    }
}

#[tokio::test]
async fn who_watches_ports_hears_of_all_and_then_of_what_changes_until_the_device_goes() {
    let rig = Rig::several(2);
    let mut first = watch(&rig, 1).await.expect("it is there");
    let told = first.message().await.expect("told").expect("a message");
    assert_eq!(told, states(&[(3, "eth3", true), (7, "eth7", true)]));
    rig.server.port_changed(1, PortId(7), false);
    let told = first.message().await.expect("told").expect("a message");
    assert_eq!(told, states(&[(7, "eth7", false)]));
    // A state that is set again is not reported. An added port is. Ports of other devices are not.
    rig.server.port_changed(1, PortId(7), false);
    rig.server.port_changed(2, PortId(3), false);
    rig.server.port_changed(1, PortId(9), true);
    let told = first.message().await.expect("told").expect("a message");
    assert_eq!(told, states(&[(9, "", true)]));
    rig.server.port_disconnected(1, PortId(9));
    let told = first.message().await.expect("told").expect("a message");
    assert_eq!(told, states(&[(9, "", false)]));
    let mut second = watch(&rig, 1).await.expect("it is there");
    let told = second.message().await.expect("told").expect("a message");
    let all = [(3, "eth3", true), (7, "eth7", false), (9, "", false)];
    assert_eq!(told, states(&all));
    assert!(rig.server.remove(1));
    for watching in [&mut first, &mut second] {
        let ended = watching.message().await.expect_err("it is gone");
        assert_eq!(ended.code(), Code::Unavailable);
    }
    let refused = watch(&rig, 1).await.expect_err("it is gone");
    assert_eq!(refused.code(), Code::NotFound);
}
