//! Tests of misbehaving clients: floods, crashes, malformed messages and very many connections do
//! not affect other clients.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::update::Type;
use prost::Message;
use support::rng::Xorshift;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Channel;

use crate::batches::of_every_kind;
use crate::rig::*;

fn one(objects: &Objects, key: u8) -> Kind {
    let forward = does(objects.id("forward"), &[b"\x03"]);
    Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, &[key])],
        forward,
    ))
}

/// Checks that packets are forwarded and the primary can write.
async fn check_health(rig: &Rig, client: &mut Client, objects: &Objects, key: u8) {
    client.insert(one(objects, key)).await;
    rig.receive(1, &frame(key.into(), 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 3);
}

#[tokio::test]
async fn bytes_that_are_no_grpc_harm_nobody() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for (at, nonsense) in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[0xff; 4096],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\xff",
    ]
    .into_iter()
    .enumerate()
    {
        let mut raw = TcpStream::connect(rig.server.address()).expect("the server is there");
        raw.write_all(nonsense).expect("it is sent");
        check_health(&rig, &mut client, &objects, at as u8 + 1).await;
    }
}

#[tokio::test]
async fn a_client_that_dies_in_the_middle_of_a_read_or_a_session_harms_nobody() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for key in 1..=8 {
        let mut other = rig.client().await;
        let stream = other.open(Some(0), "").await;
        let request = rt::ReadRequest {
            device_id: 1,
            entities: vec![rt::Entity {
                entity: Some(Kind::CounterEntry(rt::CounterEntry::default())),
            }],
            ..Default::default()
        };
        let parts = other.grpc.read(request).await.expect("a stream");
        drop((parts, stream, other));
        check_health(&rig, &mut client, &objects, key).await;
        // The dead client's election id is free again once the server has noticed.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Number of simultaneous clients, each with its own connection.
const CROWD: usize = 1000;

/// Raises the descriptor limit for both ends of each connection. Returns false if that is not
/// permitted.
fn may_have_a_crowd() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = 2 * CROWD as u64 + 500;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= needed) {
        return true;
    }
    let raised = Rlimit {
        current: Some(needed),
        ..limit
    };
    setrlimit(Resource::Nofile, raised).is_ok()
}

#[tokio::test]
async fn a_thousand_clients_at_once_are_served_or_told_and_packets_go_on() {
    if !may_have_a_crowd() {
        println!("skipped: the process may not have {CROWD} connections");
        return;
    }
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    client.insert(one(&objects, 1)).await;
    let uri = format!("http://{}", rig.server.address());
    // Only some clients connect at the same time, since this test's single thread serves all of
    // them. All stay connected.
    let doors = Arc::new(Semaphore::new(50));
    let mut coming = JoinSet::new();
    for _ in 0..CROWD {
        let (uri, doors) = (uri.clone(), Arc::clone(&doors));
        coming.spawn(async move {
            let _door = doors.acquire_owned().await.expect("it stays open");
            let channel = Channel::from_shared(uri).expect("a uri").connect().await;
            let mut client = Client::of(channel.expect("there is room"));
            let mut stream = client.stream().await;
            stream.send(arbitration(1, None, "")).await;
            let told = stream.next().await.map_err(|status| status.code());
            (client, stream, told)
        });
    }
    let (mut live, mut refused) = (Vec::new(), 0);
    while let Some(come) = coming.join_next().await {
        let (client, stream, told) = come.expect("it does not panic");
        match told {
            Ok(_) => {}
            Err(Code::ResourceExhausted) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
        live.push((client, stream));
        // Packets are forwarded in the meantime.
        rig.receive(1, &frame(1, 2, 0x9999));
        assert!(rig.sent().is_some(), "with {} clients", live.len());
    }
    assert_eq!(
        (live.len(), refused),
        (CROWD, CROWD - 63),
        "one of the role's 64 sessions is the primary's"
    );
    check_health(&rig, &mut client, &objects, 2).await;
    drop(live);
    check_health(&rig, &mut client, &objects, 3).await;
}

#[tokio::test]
async fn a_session_that_takes_no_messages_loses_packets_and_the_device_goes_on() {
    let rig = Rig::empty();
    let (mut client, stream, objects) = rig.loaded().await;
    let up = does(objects.id("to_controller"), &[]);
    let loud = entry(objects.id("exact_table"), vec![exact(1, b"\x09")], up);
    client.insert(Kind::TableEntry(loud)).await;
    for _ in 0..20_000 {
        rig.receive(1, &frame(9, 2, 0x9999));
    }
    check_health(&rig, &mut client, &objects, 1).await;
    drop(stream);
}

#[tokio::test]
async fn a_flood_of_packets_from_a_controller_is_bounded_and_told() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    for _ in 0..3000 {
        let out = rt::PacketOut {
            payload: frame(1, 2, 3),
            metadata: vec![rt::PacketMetadata {
                metadata_id: 1,
                value: vec![4],
            }],
        };
        stream.send(Ask::Packet(out)).await;
    }
    client.insert(one(&objects, 1)).await;
    assert_eq!(rig.sent().expect("they leave").0, 4);
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_the_connection_lives() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let huge = "/".repeat((256 << 20) + 1);
    let refused = client
        .load(Action::Verify, &huge)
        .await
        .expect_err("it is too large");
    assert_eq!(refused.code(), Code::OutOfRange);
    client
        .load(Action::VerifyAndCommit, ALL)
        .await
        .expect("it loads");
}

#[tokio::test]
async fn messages_of_more_than_four_megabytes_are_taken_and_answers_repeat_a_part_of_them() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let Kind::TableEntry(mut large) = one(&objects, 1) else {
        panic!("an entry");
    };
    large.metadata = vec![7; 5 << 20];
    client.insert(Kind::TableEntry(large.clone())).await;
    let all = Kind::TableEntry(entry(large.table_id, vec![], None));
    assert_eq!(client.read(all).await, [Kind::TableEntry(large)]);
    let mut unknown = client.batch(Vec::new());
    unknown.role = "x".repeat(5 << 20);
    let refused = client.grpc.write(unknown).await.expect_err("no such role");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().len() < 8 << 10);
}

#[tokio::test]
async fn two_controllers_contend_and_one_at_a_time_writes() {
    let rig = Rig::empty();
    let (first, first_stream, objects) = rig.loaded().await;
    let mut second = rig.client().await;
    let second_stream = second.open(Some(0), "").await;
    let mut streams = [first_stream, second_stream];
    let mut clients = [first, second];
    for round in 1..=10u64 {
        let (winner, loser) = ((round % 2) as usize, (1 - round % 2) as usize);
        let stream = &mut streams[winner];
        clients[winner].election = Some(round * 10);
        stream.send(arbitration(1, Some(round * 10), "")).await;
        loop {
            let (code, id) = stream.arbitration().await;
            if (code, id) == (Code::Ok, Some(round * 10)) {
                break;
            }
        }
        let key = round as u8;
        clients[winner].insert(one(&objects, key)).await;
        let request = clients[loser].request(Type::Delete, one(&objects, key));
        let refused = clients[loser]
            .grpc
            .write(request)
            .await
            .expect_err("it lost");
        assert_eq!(refused.code(), Code::PermissionDenied);
    }
}

/// A message with some bytes changed, if it is one still.
fn mutated<M: Message + Default>(message: &M, chance: &mut Xorshift) -> Option<M> {
    let mut bytes = message.encode_to_vec();
    for _ in 0..=chance.index(2) {
        let at = chance.index(bytes.len());
        match chance.index(4) {
            0 => bytes[at] = chance.index(256) as u8,
            1 => bytes[at] ^= 1 << chance.index(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][chance.index(5)],
            _ => bytes.insert(at, chance.index(256) as u8),
        }
    }
    M::decode(&*bytes).ok()
}

/// Checks that an error is one of the specification's, and not caused by a broken server.
fn check_status(status: &tonic::Status) {
    match status.code() {
        Code::Unknown => drop(errors(status)),
        code => assert!(
            !matches!(code, Code::Internal | Code::Unavailable | Code::Cancelled),
            "{status:?}"
        ),
    }
}

#[tokio::test]
async fn updates_and_requests_with_changed_bytes_are_made_or_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let (first, then) = of_every_kind(&objects);
    let updates: Vec<(Type, Kind)> = first.iter().cloned().chain(then).collect();
    let mut chance = Xorshift::new(0x9e37_79b9_7f4a_7c15);
    let (mut written, mut read) = (0, 0);
    for round in 0..4000 {
        if round % 400 == 0 {
            client
                .load(Action::VerifyAndCommit, ALL)
                .await
                .expect("it loads");
            let all = client.batch(first.clone());
            client.grpc.write(all).await.expect("all fit");
        }
        let (ty, kind) = updates[chance.index(updates.len())].clone();
        let original = client.request(ty, kind).updates.remove(0);
        let Some(update) = mutated(&original, &mut chance) else {
            continue;
        };
        let entity = update.entity.clone();
        let request = rt::WriteRequest {
            device_id: 1,
            election_id: election(client.election),
            updates: match round % 4 {
                0 => vec![original, update],
                1 => vec![original],
                _ => vec![update],
            },
            atomicity: (round % 3) as i32,
            ..Default::default()
        };
        match client.grpc.write(request).await {
            Ok(_) => written += 1,
            Err(status) => check_status(&status),
        }
        let request = rt::ReadRequest {
            device_id: 1,
            entities: entity.into_iter().collect(),
            ..Default::default()
        };
        let mut parts = client
            .grpc
            .read(request)
            .await
            .expect("a stream")
            .into_inner();
        loop {
            match parts.message().await {
                Ok(Some(part)) => read += part.entities.len(),
                Ok(None) => break,
                Err(status) => break check_status(&status),
            }
        }
        rig.receive(1, &frame(1, round, 0x9999));
    }
    assert!(
        written > 100 && read > 200,
        "{written} batches were made, {read} entities read"
    );
    let everything = Kind::TableEntry(rt::TableEntry::default());
    client
        .try_read(vec![everything])
        .await
        .expect("the server lives");
}

#[tokio::test]
async fn programs_with_changed_bytes_are_set_or_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, _objects) = rig.loaded().await;
    let config = client.config().await;
    let info = config.p4info.clone().expect("it has one");
    let mut chance = Xorshift::new(0x2545_f491_4f6c_dd1d);
    for _ in 0..60 {
        let Some(info) = mutated(&info, &mut chance) else {
            continue;
        };
        let changed = rt::ForwardingPipelineConfig {
            p4info: Some(info),
            ..config.clone()
        };
        if let Err(status) = client.set(Action::VerifyAndCommit, Some(changed)).await {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        }
    }
    client
        .set(Action::VerifyAndCommit, Some(config))
        .await
        .expect("it loads");
}
