//! Tests of packets, digests, idle entries and errors on sessions.

use std::time::{Duration, Instant};

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::p4_data::Data;
use p4info::p4::v1::stream_error::Details;
use p4info::p4::v1::stream_message_request::Update as Ask;
use p4info::p4::v1::stream_message_response::Update as Told;
use p4info::p4::v1::update::Type;
use tonic::Code;

use crate::rig::*;

fn metadata(metadata_id: u32, value: &[u8]) -> rt::PacketMetadata {
    rt::PacketMetadata {
        metadata_id,
        value: value.to_vec(),
    }
}

#[tokio::test]
async fn a_packet_in_comes_to_the_primary_alone_with_its_metadata() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    let mut backup = rig.client().await;
    let mut backup_stream = backup.open(None, "").await;
    let up = does(objects.id("to_controller"), &[]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], up);
    client.insert(Kind::TableEntry(one)).await;
    let bytes = frame(1, 2, 0x9999);
    rig.receive(300, &bytes);
    let expected = rt::PacketIn {
        payload: bytes,
        metadata: vec![metadata(1, b"\x01\x2c"), metadata(2, b"\x05")],
    };
    assert_eq!(
        stream.next().await.expect("it comes"),
        Told::Packet(expected)
    );
    assert!(backup_stream.is_quiet().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_packet_out_enters_by_the_cpu_port_with_its_header() {
    let rig = Rig::empty();
    let (_client, mut stream, _objects) = rig.loaded().await;
    let payload = frame(1, 2, 0x9999);
    for port in [&b"\x01\x2c"[..], b"\x04"] {
        let out = rt::PacketOut {
            payload: payload.clone(),
            metadata: vec![metadata(1, port)],
        };
        stream.send(Ask::Packet(out)).await;
        let (sent, bytes) = rig.sent().expect("it leaves");
        assert_eq!(
            bits::Value::truncated(sent.into(), 32).to_p4rt_bytes(),
            port
        );
        assert_eq!(bytes, payload);
    }
}

#[tokio::test]
async fn malformed_packet_outs_are_dropped_and_reported_with_the_packet() {
    let rig = Rig::empty();
    let (_client, mut stream, _objects) = rig.loaded().await;
    let bad = [
        (vec![], "egress_port"),
        (vec![metadata(7, b"\x01")], "7"),
        (vec![metadata(1, b"\x01"), metadata(1, b"\x01")], "twice"),
        (vec![metadata(1, b"\x02\x00")], "egress_port"),
        (vec![metadata(1, b"")], "egress_port"),
    ];
    for (metadata, word) in bad {
        let out = rt::PacketOut {
            payload: frame(1, 2, 3),
            metadata,
        };
        stream.send(Ask::Packet(out.clone())).await;
        let Ok(Told::Error(error)) = stream.next().await else {
            panic!("no error for {out:?}");
        };
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
        assert!(error.message.contains(word), "{}", error.message);
        let packet_out = Some(out);
        assert_eq!(
            error.details,
            Some(Details::PacketOut(rt::PacketOutError { packet_out }))
        );
    }
    let long = rt::PacketOut {
        payload: vec![0; 70_000],
        metadata: vec![metadata(1, b"\x01")],
    };
    stream.send(Ask::Packet(long)).await;
    assert!(matches!(stream.next().await, Ok(Told::Error(_))));
    assert_eq!(rig.sent_now(), None);
}

#[tokio::test]
async fn who_is_not_primary_sends_no_packets_and_acknowledges_nothing() {
    let rig = Rig::empty();
    let (_client, _stream, objects) = rig.loaded().await;
    let mut backup = rig.client().await;
    let mut stream = backup.open(Some(0), "").await;
    let out = rt::PacketOut {
        payload: frame(1, 2, 3),
        metadata: vec![metadata(1, b"\x01")],
    };
    let ack = rt::DigestListAck {
        digest_id: objects.id("learned_t"),
        list_id: 1,
    };
    for ask in [Ask::Packet(out.clone()), Ask::DigestAck(ack)] {
        stream.send(ask).await;
        let Ok(Told::Error(error)) = stream.next().await else {
            panic!("no error");
        };
        assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
    }
    let mut stranger = rig.client().await;
    let mut stream = stranger.stream().await;
    stream.send(Ask::Packet(out)).await;
    assert!(matches!(stream.next().await, Ok(Told::Error(_))));
    assert_eq!(rig.sent_now(), None);
}

#[tokio::test]
async fn messages_that_mean_nothing_are_reported_in_kind() {
    let rig = Rig::empty();
    let (_client, mut stream, _objects) = rig.loaded().await;
    let other = prost_types::Any::default();
    stream.send(Ask::Other(other.clone())).await;
    let Ok(Told::Error(error)) = stream.next().await else {
        panic!("no error");
    };
    let other = Some(other);
    assert_eq!(
        error.details,
        Some(Details::Other(rt::StreamOtherError { other }))
    );
    let ack = rt::DigestListAck {
        digest_id: 4,
        list_id: 1,
    };
    stream.send(Ask::DigestAck(ack)).await;
    let Ok(Told::Error(error)) = stream.next().await else {
        panic!("no error");
    };
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    let digest_list_ack = Some(ack);
    let details = Details::DigestListAck(rt::DigestListAckError { digest_list_ack });
    assert_eq!(error.details, Some(details));
}

fn digest(objects: &Objects, max_list_size: i32, max_timeout_ns: i64, ack_timeout_ns: i64) -> Kind {
    Kind::DigestEntry(rt::DigestEntry {
        digest_id: objects.id("learned_t"),
        config: Some(rt::digest_entry::Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        }),
    })
}

fn learned(address: &[u8], port: &[u8]) -> rt::P4Data {
    let member = |bytes: &[u8]| rt::P4Data {
        data: Some(Data::Bitstring(bytes.to_vec())),
    };
    rt::P4Data {
        data: Some(Data::Struct(rt::P4StructLike {
            members: vec![member(address), member(port)],
        })),
    }
}

async fn list(stream: &mut Stream) -> rt::DigestList {
    match stream.next().await {
        Ok(Told::Digest(list)) => list,
        other => panic!("no digest: {other:?}"),
    }
}

#[tokio::test]
async fn digests_come_in_lists_and_again_only_after_the_acknowledgement() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    let learn = does(objects.id("learn"), &[]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], learn);
    client.insert(Kind::TableEntry(one)).await;
    let seen = |source| rig.receive(3, &frame(1, source, 0x9999));
    seen(1);
    assert!(
        stream.is_quiet().await,
        "digests are off until they are configured"
    );
    let hour = 3_600_000_000_000;
    client.insert(digest(&objects, 2, hour, hour)).await;
    seen(1);
    seen(1);
    seen(2);
    let first = list(&mut stream).await;
    assert_eq!(first.digest_id, objects.id("learned_t"));
    assert_eq!(
        first.data,
        [learned(b"\x01", b"\x03"), learned(b"\x02", b"\x03")]
    );
    seen(1);
    seen(2);
    assert!(stream.is_quiet().await, "they are not acknowledged");
    let ack = rt::DigestListAck {
        digest_id: first.digest_id,
        list_id: first.list_id,
    };
    stream.send(Ask::DigestAck(ack)).await;
    // When a later message has been answered, the acknowledgement has been processed.
    stream.send(Ask::Other(prost_types::Any::default())).await;
    assert!(matches!(stream.next().await, Ok(Told::Error(_))));
    seen(2);
    seen(1);
    let second = list(&mut stream).await;
    assert!(second.list_id > first.list_id);
    assert_eq!(
        second.data,
        [learned(b"\x02", b"\x03"), learned(b"\x01", b"\x03")]
    );
}

#[tokio::test]
async fn a_list_that_is_not_full_goes_when_its_time_has_come() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    let learn = does(objects.id("learn"), &[]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], learn);
    client.insert(Kind::TableEntry(one)).await;
    client.insert(digest(&objects, 100, 150_000_000, 0)).await;
    let begin = Instant::now();
    rig.receive(3, &frame(1, 1, 0x9999));
    assert_eq!(list(&mut stream).await.data, [learned(b"\x01", b"\x03")]);
    assert!(begin.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn digests_are_switched_on_changed_and_off() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let config = |size| digest(&objects, size, 5, 6);
    assert_eq!(
        client.refused(Type::Modify, config(1)).await,
        Code::NotFound
    );
    assert_eq!(
        client.refused(Type::Delete, config(1)).await,
        Code::NotFound
    );
    client.insert(config(1)).await;
    assert_eq!(
        client.refused(Type::Insert, config(1)).await,
        Code::AlreadyExists
    );
    client.modify(config(2)).await;
    assert_eq!(client.read(config(0)).await, [config(2)]);
    assert_eq!(
        client.refused(Type::Modify, config(-1)).await,
        Code::InvalidArgument
    );
    client.delete(config(0)).await;
    assert_eq!(client.read(config(0)).await, []);
}

#[tokio::test]
async fn an_idle_entry_is_told_again_after_each_time_out() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    let mut one = entry(
        objects.id("metered"),
        vec![exact(1, b"\x01")],
        does(objects.id("read_meter"), &[]),
    );
    one.idle_timeout_ns = 200_000_000;
    one.metadata = b"mine".to_vec();
    client.insert(Kind::TableEntry(one.clone())).await;
    one.action = None;
    let begin = Instant::now();
    for round in 1..=2 {
        let Ok(Told::IdleTimeoutNotification(told)) = stream.next().await else {
            panic!("no notification");
        };
        assert_eq!(told.table_entry, [one.clone()]);
        assert!(told.timestamp > 0);
        assert!(begin.elapsed() >= Duration::from_millis(200 * round - 20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn packets_of_a_session_stay_in_their_order() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    for number in 0..200u16 {
        let out = rt::PacketOut {
            payload: frame(1, 2, number),
            metadata: vec![metadata(1, b"\x04")],
        };
        stream.send(Ask::Packet(out)).await;
    }
    for number in 0..200u16 {
        let (_, bytes) = rig.sent().expect("it leaves");
        assert_eq!(bytes, frame(1, 2, number));
    }
    let up = does(objects.id("to_controller"), &[]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], up);
    client.insert(Kind::TableEntry(one)).await;
    for number in 0..200u16 {
        rig.receive(3, &frame(1, 2, number));
    }
    for number in 0..200u16 {
        match stream.next().await {
            Ok(Told::Packet(packet)) => assert_eq!(packet.payload, frame(1, 2, number)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn digests_stay_on_by_name_when_another_program_takes_over_and_what_waited_is_dropped() {
    let rig = Rig::empty();
    let (mut client, mut stream, objects) = rig.loaded().await;
    let learn = does(objects.id("learn"), &[]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], learn);
    client.insert(Kind::TableEntry(one)).await;
    let hour = 3_600_000_000_000;
    client.insert(digest(&objects, 2, hour, hour)).await;
    // The message waits for another one in its list.
    rig.receive(3, &frame(1, 1, 0x9999));
    assert!(stream.is_quiet().await);
    let reconcile = rt::set_forwarding_pipeline_config_request::Action::ReconcileAndCommit;
    let wider = ALL.replace("Mac     address;", "bit<64>  address;");
    let wider = wider.replace(
        "{ hdr.ethernet.src, sm.ingress_port }",
        "{ (bit<64>) hdr.ethernet.src, sm.ingress_port }",
    );
    client.load(reconcile, &wider).await.expect("it is kept");
    let objects = Objects::of(&client.config().await);
    let asked = Kind::DigestEntry(rt::DigestEntry::default());
    assert_eq!(
        client.read(asked.clone()).await,
        [digest(&objects, 2, hour, hour)]
    );
    for source in [1, 2] {
        rig.receive(3, &frame(1, source, 0x9999));
    }
    assert_eq!(
        list(&mut stream).await.data,
        [learned(b"\x01", b"\x03"), learned(b"\x02", b"\x03")],
        "two of the new program's, none of the old one's"
    );
    // A digest with another name is a different one, which is disabled.
    let renamed = ALL.replace("learned_t", "seen_t");
    client.load(reconcile, &renamed).await.expect("it is kept");
    assert_eq!(client.read(asked).await, []);
}
