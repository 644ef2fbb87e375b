//! Tests of batches of updates: what is made, reported and undone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::p4_data::Data;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use packet::{Frame, Nanos};
use tonic::Code;

use crate::rig::*;

fn one(objects: &Objects, key: u8, port: u8) -> Kind {
    let forward = does(objects.id("forward"), &[&[port]]);
    Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, &[key])],
        forward,
    ))
}

fn codes(expected: &[Code]) -> Vec<i32> {
    expected.iter().map(|code| *code as i32).collect()
}

#[tokio::test]
async fn each_update_has_its_error_in_order_and_the_others_are_made() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let updates = vec![
        (Type::Insert, one(&objects, 1, 1)),
        (Type::Insert, one(&objects, 1, 2)),
        (Type::Modify, one(&objects, 9, 1)),
        (Type::Insert, Kind::TableEntry(rt::TableEntry::default())),
        (Type::Insert, one(&objects, 2, 2)),
    ];
    let told = client.write_all(Atomicity::ContinueOnError, updates).await;
    let expected = [
        Code::Ok,
        Code::AlreadyExists,
        Code::NotFound,
        Code::InvalidArgument,
        Code::Ok,
    ];
    assert_eq!(told, Err(codes(&expected)));
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(
        client.read(all).await,
        [one(&objects, 1, 1), one(&objects, 2, 2)]
    );
}

#[tokio::test]
async fn an_error_names_the_table_the_field_and_the_value() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = does(objects.id("forward"), &[b"\xff\xff"]);
    let wide = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], forward);
    let error = client
        .write(Type::Insert, Kind::TableEntry(wide))
        .await
        .expect_err("too wide");
    for word in ["In.exact_table", "In.forward", "port", "0xffff", "9 bits"] {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    assert_eq!(error.space, "polyplane");
}

/// Reads everything that can be read of a device.
async fn everything(client: &mut Client) -> Vec<Kind> {
    let group = rt::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    let session = rt::packet_replication_engine_entry::Type::CloneSessionEntry(Default::default());
    let replication = |ty| {
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(ty) })
    };
    let all = vec![
        Kind::TableEntry(Default::default()),
        Kind::TableEntry(rt::TableEntry {
            is_default_action: true,
            ..Default::default()
        }),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::MeterEntry(Default::default()),
        Kind::DirectMeterEntry(Default::default()),
        Kind::CounterEntry(Default::default()),
        Kind::DirectCounterEntry(Default::default()),
        replication(group),
        replication(session),
        Kind::ValueSetEntry(Default::default()),
        Kind::RegisterEntry(Default::default()),
        Kind::DigestEntry(Default::default()),
    ];
    client.try_read(all).await.expect("all can be read")
}

fn bits(value: &[u8]) -> Option<rt::P4Data> {
    Some(rt::P4Data {
        data: Some(Data::Bitstring(value.to_vec())),
    })
}

fn index(index: i64) -> Option<rt::Index> {
    Some(rt::Index { index })
}

pub(crate) type Updates = Vec<(Type, Kind)>;

/// Returns updates of every kind: the initial state, and changes to it.
pub(crate) fn of_every_kind(objects: &Objects) -> (Updates, Updates) {
    let member = |id, port: u8| {
        Kind::ActionProfileMember(rt::ActionProfileMember {
            action_profile_id: objects.id("selector"),
            member_id: id,
            action: Some(call(objects.id("forward"), &[&[port]])),
        })
    };
    let group = |id, members: &[u32]| {
        let part = |member_id: &u32| rt::action_profile_group::Member {
            member_id: *member_id,
            weight: 1,
            watch_kind: None,
        };
        Kind::ActionProfileGroup(rt::ActionProfileGroup {
            action_profile_id: objects.id("selector"),
            group_id: id,
            members: members.iter().map(part).collect(),
            max_size: 4,
        })
    };
    let metered = |key: u8, cir, metadata: &[u8]| {
        let action = does(objects.id("read_meter"), &[]);
        let mut one = entry(objects.id("metered"), vec![exact(1, &[key])], action);
        one.metadata = metadata.to_vec();
        one.idle_timeout_ns = 1_000_000_000_000;
        one.meter_config = Some(rt::MeterConfig {
            cir,
            cburst: 1,
            pir: cir,
            pburst: 1,
            eburst: 0,
        });
        Kind::TableEntry(one)
    };
    let counted = |key: u8, packets| {
        let forward = does(objects.id("forward"), &[&[key]]);
        let mut one = entry(objects.id("exact_table"), vec![exact(1, &[key])], forward);
        one.counter_data = Some(rt::CounterData {
            byte_count: packets,
            packet_count: packets,
        });
        Kind::TableEntry(one)
    };
    let default = |port: u8| {
        let mut one = entry(
            objects.id("exact_table"),
            vec![],
            does(objects.id("forward"), &[&[port]]),
        );
        one.is_default_action = true;
        one.metadata = vec![port];
        Kind::TableEntry(one)
    };
    let register = |at: Option<rt::Index>, value: u8| {
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: objects.id("numbers"),
            index: at,
            data: bits(&[value]),
        })
    };
    let counter = |at, packet_count| {
        Kind::CounterEntry(rt::CounterEntry {
            counter_id: objects.id("ports_counter"),
            index: at,
            data: Some(rt::CounterData {
                byte_count: 0,
                packet_count,
            }),
        })
    };
    let meter = |at, cir| {
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: objects.id("ports_meter"),
            index: at,
            config: Some(rt::MeterConfig {
                cir,
                pir: cir,
                ..Default::default()
            }),
            counter_data: None,
        })
    };
    let multicast = |id, port: u8| {
        let replica = rt::Replica {
            instance: 1,
            port_kind: Some(rt::replica::PortKind::Port(vec![port])),
            ..Default::default()
        };
        let group = rt::MulticastGroupEntry {
            multicast_group_id: id,
            replicas: vec![replica],
            metadata: vec![port],
        };
        let ty = rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(ty) })
    };
    let set = |value: &[u8]| {
        Kind::ValueSetEntry(rt::ValueSetEntry {
            value_set_id: objects.id("special"),
            members: vec![rt::ValueSetMember {
                r#match: vec![exact(1, value)],
            }],
        })
    };
    let digest = |max_list_size| {
        Kind::DigestEntry(rt::DigestEntry {
            digest_id: objects.id("learned_t"),
            config: Some(rt::digest_entry::Config {
                max_list_size,
                ..Default::default()
            }),
        })
    };
    let first = vec![
        (Type::Insert, member(1, 1)),
        (Type::Insert, member(2, 2)),
        (Type::Insert, group(1, &[1])),
        (Type::Insert, group(2, &[1, 2])),
        (Type::Insert, metered(1, 10, b"first")),
        (Type::Insert, metered(2, 20, b"second")),
        (Type::Insert, counted(1, 100)),
        (Type::Modify, default(7)),
        (Type::Modify, register(index(1), 5)),
        (Type::Modify, counter(index(2), 6)),
        (Type::Modify, meter(index(3), 8)),
        (Type::Insert, multicast(1, 1)),
        (Type::Insert, multicast(2, 2)),
        (Type::Modify, set(b"\x05")),
        (Type::Insert, digest(1)),
    ];
    let then = vec![
        (Type::Insert, member(3, 3)),
        (Type::Modify, member(1, 9)),
        (Type::Modify, group(1, &[1, 2])),
        (Type::Delete, group(2, &[])),
        (Type::Insert, group(3, &[3])),
        (Type::Modify, metered(1, 11, b"changed")),
        (Type::Delete, metered(1, 0, b"")),
        (Type::Delete, metered(2, 0, b"")),
        (Type::Insert, metered(2, 5, b"other")),
        (Type::Modify, counted(1, 3)),
        (Type::Insert, counted(2, 4)),
        (Type::Modify, default(8)),
        (Type::Modify, register(None, 6)),
        (Type::Modify, counter(None, 7)),
        (Type::Modify, meter(None, 9)),
        (Type::Modify, multicast(1, 5)),
        (Type::Delete, multicast(2, 0)),
        (Type::Insert, multicast(3, 3)),
        (Type::Modify, set(b"\x06")),
        (Type::Modify, digest(2)),
    ];
    (first, then)
}

#[tokio::test]
async fn a_batch_of_all_or_nothing_that_fails_leaves_no_trace() {
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let rig = Rig::empty();
        let (mut client, _stream, objects) = rig.loaded().await;
        let (first, then) = of_every_kind(&objects);
        client.write_all(atomicity, first).await.expect("all fit");
        let before = everything(&mut client).await;
        let count = then.len();
        // First the last update fails in the device, then one is malformed.
        for last in [
            one(&objects, 1, 1),
            Kind::TableEntry(rt::TableEntry::default()),
        ] {
            let mut updates = then.clone();
            updates.push((Type::Insert, last));
            let told = client
                .write_all(atomicity, updates)
                .await
                .expect_err("the last one fails");
            assert_eq!(told[..count], vec![Code::Aborted as i32; count]);
            assert_ne!(told[count], Code::Ok as i32);
            assert_eq!(everything(&mut client).await, before);
        }
        client.write_all(atomicity, then).await.expect("all fit");
        assert_ne!(everything(&mut client).await, before);
    }
}

#[tokio::test]
async fn an_entry_that_was_deleted_in_vain_still_wins_against_others_of_its_priority() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let mixed = |value: &[u8], mask: &[u8], port: u8| {
        let matches = vec![ternary(1, value, mask), exact(4, b"\x01")];
        let action = does(objects.id("forward"), &[&[port]]);
        Kind::TableEntry(rt::TableEntry {
            priority: 5,
            ..entry(objects.id("mixed"), matches, action)
        })
    };
    // A packet of type 0x9999 matches both entries, and the first one wins.
    let first = |port| mixed(b"\x99\x00", b"\xff\x00", port);
    client.insert(first(3)).await;
    client.insert(mixed(b"\x00\x99", b"\x00\xff", 4)).await;
    let packet = frame(0x77, 1, 0x9999);
    rig.receive(1, &packet);
    assert_eq!(rig.sent().map(|(port, _)| port), Some(3));
    for again in [None, Some(first(6))] {
        let mut updates = vec![(Type::Delete, first(3))];
        updates.extend(again.map(|one| (Type::Insert, one)));
        updates.push((Type::Modify, one(&objects, 9, 1)));
        let told = client.write_all(Atomicity::RollbackOnError, updates).await;
        told.expect_err("the last one fails");
        rig.receive(1, &packet);
        assert_eq!(rig.sent().map(|(port, _)| port), Some(3));
    }
    // The next entry gets a new id.
    client.insert(mixed(b"\x99\x90", b"\xff\xf0", 7)).await;
    rig.receive(1, &packet);
    assert_eq!(rig.sent().map(|(port, _)| port), Some(3));
}

#[tokio::test]
async fn every_kind_is_written_one_by_one_as_well() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let (first, then) = of_every_kind(&objects);
    for (ty, kind) in first.into_iter().chain(then) {
        client.write(ty, kind).await.expect("it is accepted");
    }
}

#[tokio::test]
async fn an_unknown_atomicity_is_invalid() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let mut request = client.request(Type::Insert, one(&objects, 1, 1));
    request.atomicity = 9;
    let refused = client.grpc.write(request).await.expect_err("there is none");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn many_controllers_write_at_once_and_each_batch_is_whole() {
    let rig = Rig::empty();
    let (client, _stream, objects) = rig.loaded().await;
    let batch = |port: u8| {
        let updates = (0..8).map(|key| (Type::Modify, one(&objects, key, port)));
        updates.collect::<Vec<_>>()
    };
    let mut writer = client.clone();
    let inserts = (0..8).map(|key| (Type::Insert, one(&objects, key, 0)));
    writer
        .write_all(Atomicity::DataplaneAtomic, inserts.collect())
        .await
        .expect("all fit");
    let mut tasks = Vec::new();
    for port in 1..=4 {
        let (mut writer, updates) = (client.clone(), batch(port));
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let written = writer.write_all(Atomicity::ContinueOnError, updates.clone());
                written.await.expect("all are there");
            }
        }));
    }
    let mut reader = client.clone();
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    for _ in 0..50 {
        let found = reader.read(all.clone()).await;
        let mut actions: Vec<String> = found
            .iter()
            .map(|one| match one {
                Kind::TableEntry(entry) => format!("{:?}", entry.action),
                other => panic!("{other:?}"),
            })
            .collect();
        actions.dedup();
        assert_eq!(actions.len(), 1, "a read sees a batch half made");
    }
    for task in tasks {
        task.await.expect("it ends");
    }
}

/// Packets contain the values of the table and the register, which change together.
const AGREEING: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> key; bit<8> a; bit<8> b; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) {
    register<bit<8>>(1) said;
    action say(bit<8> v) { hdr.h.a = v; }
    table t { key = { hdr.h.key : exact; } actions = { say; NoAction; } default_action = NoAction(); }
    apply { s.egress_spec = 1; t.apply(); said.read(hdr.h.b, 0); }
}
control E(inout H hdr, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

#[tokio::test]
async fn a_dataplane_atomic_batch_of_entries_and_cells_is_seen_whole_by_workers_packets() {
    let mut device = empty_device();
    let mut worker = device.workers(1).pop().expect("they are made once");
    let rig = Rig::start(device, None);
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    client
        .load(Action::VerifyAndCommit, AGREEING)
        .await
        .expect("it loads");
    let objects = Objects::of(&client.config().await);
    let batch = |ty: Type, value: u8| {
        let say = does(objects.id("say"), &[&[value]]);
        let one = entry(objects.id("t"), vec![exact(1, b"\x07")], say);
        let register = rt::RegisterEntry {
            register_id: objects.id("said"),
            index: index(0),
            data: Some(rt::P4Data {
                data: Some(Data::Bitstring(vec![value])),
            }),
        };
        // The cell is first in the batch, but is written last.
        vec![
            (Type::Modify, Kind::RegisterEntry(register)),
            (ty, Kind::TableEntry(one)),
        ]
    };
    let atomic = Atomicity::DataplaneAtomic;
    let inserted = client.write_all(atomic, batch(Type::Insert, 1)).await;
    inserted.expect("workers are no hindrance");
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let forwarding = std::thread::spawn(move || {
        let (mut seen, mut mixed) = ([0u64; 3], 0u64);
        let frame = Frame::from_bytes(&[7, 0, 0]).expect("it is short");
        let mut frames: Vec<_> = (0..16).map(|_| Frame::new()).collect();
        while !ends.load(Ordering::Acquire) {
            frames.iter_mut().for_each(|one| one.copy_from(&frame));
            worker.forward(&mut frames, Nanos::ZERO, |_, frame, _| {
                let said = frame.bytes();
                mixed += u64::from(said[1] != said[2]);
                seen[usize::from(said[1]) % 3] += 1;
            });
        }
        (seen, mixed)
    });
    for round in 0..200 {
        let batch = batch(Type::Modify, 1 + round % 2);
        client.write_all(atomic, batch).await.expect("it is made");
    }
    is_over.store(true, Ordering::Release);
    let (seen, mixed) = forwarding.join().expect("it forwards");
    assert!(seen[1] > 0 && seen[2] > 0, "{seen:?}");
    assert_eq!(mixed, 0);
}

#[tokio::test]
async fn packets_do_not_wait_for_a_batch_of_many_cells() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let many = AGREEING.replace("register<bit<8>>(1)", "register<bit<8>>(100000)");
    let loaded = client.load(Action::VerifyAndCommit, &many).await;
    loaded.expect("it loads");
    let register = rt::RegisterEntry {
        register_id: Objects::of(&client.config().await).id("said"),
        index: None,
        data: Some(rt::P4Data {
            data: Some(Data::Bitstring(vec![1])),
        }),
    };
    let batch = || vec![(Type::Modify, Kind::RegisterEntry(register.clone()))];
    let mut request = client.batch(batch());
    request.atomicity = Atomicity::DataplaneAtomic.into();
    let refused = client.grpc.write(request).await;
    let status = refused.expect_err("packets would wait");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("100000"), "{}", status.message());
    let made = client.write_all(Atomicity::RollbackOnError, batch()).await;
    made.expect("packets may see a part of it");
}

#[tokio::test]
async fn updates_of_a_batch_are_made_in_their_order() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let in_turn = vec![
        (Type::Insert, one(&objects, 1, 3)),
        (Type::Modify, one(&objects, 1, 4)),
        (Type::Delete, one(&objects, 1, 4)),
        (Type::Insert, one(&objects, 1, 5)),
    ];
    let member = Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id("selector"),
        member_id: 7,
        action: Some(call(objects.id("forward"), &[b"\x03"])),
    });
    let group = Kind::ActionProfileGroup(rt::ActionProfileGroup {
        action_profile_id: objects.id("selector"),
        group_id: 9,
        members: vec![rt::action_profile_group::Member {
            member_id: 7,
            weight: 1,
            watch_kind: None,
        }],
        max_size: 4,
    });
    let through = Kind::TableEntry(entry(
        objects.id("balanced"),
        vec![exact(1, b"\x01")],
        Some(rt::TableAction {
            r#type: Some(rt::table_action::Type::ActionProfileGroupId(9)),
        }),
    ));
    let built: Vec<_> = [member, group, through]
        .map(|kind| (Type::Insert, kind))
        .to_vec();
    let upside_down: Vec<_> = built.iter().rev().cloned().collect();
    let taken_down = upside_down.iter().cloned();
    let taken_down: Vec<_> = taken_down.map(|(_, kind)| (Type::Delete, kind)).collect();
    for atomicity in [
        Atomicity::ContinueOnError,
        Atomicity::RollbackOnError,
        Atomicity::DataplaneAtomic,
    ] {
        for updates in [in_turn.clone(), built.clone(), taken_down.clone()] {
            let made = client.write_all(atomicity, updates).await;
            assert_eq!(made, Ok(()), "{atomicity:?}");
        }
        let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
        assert_eq!(client.read(all).await, [one(&objects, 1, 5)]);
        client.delete(one(&objects, 1, 5)).await;
        let refused = client.write_all(atomicity, upside_down.clone()).await;
        assert_eq!(
            refused.expect_err("the entry comes before its group")[0],
            Code::NotFound as i32
        );
        if atomicity == Atomicity::ContinueOnError {
            client.delete(built[0].1.clone()).await;
        }
    }
}

#[tokio::test]
async fn an_object_that_the_program_does_not_have_is_not_found() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let key = || entry(0x0200_0001, vec![exact(1, b"\x01")], None);
    let named = [
        Kind::TableEntry(key()),
        Kind::DirectCounterEntry(rt::DirectCounterEntry {
            table_entry: Some(key()),
            data: None,
        }),
        Kind::DirectMeterEntry(rt::DirectMeterEntry {
            table_entry: Some(key()),
            ..Default::default()
        }),
        Kind::ActionProfileMember(rt::ActionProfileMember {
            action_profile_id: 0x1100_0001,
            member_id: 1,
            action: Some(call(objects.id("drop"), &[])),
        }),
        Kind::ActionProfileGroup(rt::ActionProfileGroup {
            action_profile_id: 0x1100_0001,
            group_id: 1,
            ..Default::default()
        }),
        Kind::CounterEntry(rt::CounterEntry {
            counter_id: 0x1200_0001,
            ..Default::default()
        }),
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: 0x1300_0001,
            ..Default::default()
        }),
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: 0x1600_0001,
            ..Default::default()
        }),
        Kind::ValueSetEntry(rt::ValueSetEntry {
            value_set_id: 0x0300_00ff,
            members: vec![],
        }),
        Kind::DigestEntry(rt::DigestEntry {
            digest_id: 0x1700_0001,
            config: Some(Default::default()),
        }),
    ];
    for kind in named {
        let written = client.write(Type::Modify, kind.clone()).await;
        let refused = written.expect_err("there is none");
        assert_eq!(refused.canonical_code, Code::NotFound as i32, "{kind:?}");
        let read = client.try_read(vec![kind.clone()]).await;
        let refused = errors(&read.expect_err("there is none"));
        assert_eq!(refused[0].canonical_code, Code::NotFound as i32, "{kind:?}");
    }
    let of_others = Kind::ExternEntry(rt::ExternEntry {
        extern_type_id: 0x8100_0000,
        extern_id: 1,
        entry: None,
    });
    assert_eq!(
        client.refused(Type::Modify, of_others).await,
        Code::Unimplemented
    );
}

#[tokio::test]
async fn the_errors_of_a_large_batch_stay_within_what_clients_take() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let missing = |count: usize| vec![(Type::Modify, one(&objects, 9, 1)); count];
    let refused = |status: tonic::Status| {
        let errors = errors(&status);
        let not_found = Code::NotFound as i32;
        assert!(errors.iter().all(|error| error.canonical_code == not_found));
        let messages = errors.iter().map(|error| error.message.len());
        (
            errors.len(),
            status.details().len(),
            messages.collect::<Vec<_>>(),
        )
    };
    let request = client.batch(missing(110));
    let status = client.grpc.write(request).await.expect_err("none is there");
    let (count, bytes, messages) = refused(status);
    assert_eq!(count, 110);
    // Base64 makes them a third longer, and the headers also contain the message.
    assert!(bytes < 6 << 10, "{bytes}");
    assert!(messages[0] > 0, "the first ones say what is wrong");
    // The batch is too large for one code per update.
    let request = client.batch(vec![
        (Type::Modify, Kind::TableEntry(Default::default()));
        100_000
    ]);
    let status = client.grpc.write(request).await.expect_err("none is there");
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.details().is_empty());
    assert!(status.message().starts_with("100000 of 100000 failed"));
}
