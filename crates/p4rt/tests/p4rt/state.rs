//! Tests of a device with kept state: what controllers find after a restart, and when the disk is
//! full.

#[path = "../../../store/tests/store/disk.rs"]
#[expect(dead_code, reason = "the store's tests use the rest")]
mod disk;

use std::sync::{Arc, Mutex};

use p4info::p4::v1 as rt;
use p4info::p4::v1::action_profile_group::Member;
use p4info::p4::v1::action_profile_group::member::WatchKind;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action as ConfigAction;
use p4info::p4::v1::table_action::Type as Given;
use p4info::p4::v1::update::Type;
use p4info::p4::v1::write_request::Atomicity;
use packet::Nanos;
use store::{Directory, KeptState};
use switch::{Batch, Change, Device, Done, KeptCells, Storage, StorageError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::Code;

use crate::batches::of_every_kind;
use crate::rig::*;
use disk::SimulatedDisk;

const CELLS: KeptCells = KeptCells {
    counters: true,
    registers: true,
    every: Nanos::from_millis(50),
};

/// Starts a switch with the stored state.
fn start(kept: KeptState) -> Rig {
    start_with(kept, |_| {})
}

/// Same, with a change to the device before it runs.
fn start_with(kept: KeptState, change: impl FnOnce(&mut Device)) -> Rig {
    let program = kept.program().expect("it can be read");
    let mut device = match &program {
        Some(program) => p4rt::Loader::device(&Compiler, Arc::clone(program)).expect("it runs"),
        None => empty_device(),
    };
    if program.is_some() {
        kept.restore(&mut device).expect("it fits");
    }
    let keeper = Box::new(kept.keep().expect("a thread"));
    device.keep_in(keeper, CELLS, program.is_some());
    change(&mut device);
    let is_configured = p4rt::has_config(device.notes());
    let program = is_configured.then(|| Arc::clone(device.program()));
    Rig::start(device, program)
}

fn meter(rate: i64) -> Option<rt::MeterConfig> {
    Some(rt::MeterConfig {
        cir: rate,
        cburst: 10,
        pir: rate,
        pburst: 10,
        ..Default::default()
    })
}

/// Returns an update for everything that a controller can write.
fn everything(objects: &Objects) -> Vec<(Type, Kind)> {
    let id = |name| objects.id(name);
    let table = |name, matches, action| entry(id(name), matches, action);
    let forward = |port: u8| does(id("forward"), &[&[port]]);
    let default = |one: rt::TableEntry| rt::TableEntry {
        is_default_action: true,
        metadata: b"default".to_vec(),
        ..one
    };
    let member = |profile, member_id, port: u8| {
        Kind::ActionProfileMember(rt::ActionProfileMember {
            action_profile_id: id(profile),
            member_id,
            action: Some(call(id("forward"), &[&[port]])),
        })
    };
    let through = |member| {
        Some(rt::TableAction {
            r#type: Some(member),
        })
    };
    let watched = |member_id, port: u8| Member {
        member_id,
        weight: 2,
        watch_kind: Some(WatchKind::WatchPort(vec![port])),
    };
    let group = rt::ActionProfileGroup {
        action_profile_id: id("selector"),
        group_id: 3,
        members: vec![watched(1, 4), watched(2, 5)],
        max_size: 4,
    };
    let replica = |port: u32| rt::Replica {
        instance: port,
        port_kind: Some(rt::replica::PortKind::Port(vec![port as u8])),
        ..Default::default()
    };
    let multicast = rt::MulticastGroupEntry {
        multicast_group_id: 7,
        replicas: vec![replica(1), replica(2)],
        ..Default::default()
    };
    let session = rt::CloneSessionEntry {
        session_id: 9,
        replicas: vec![replica(3)],
        class_of_service: 2,
        packet_length_bytes: 64,
    };
    let replication = |one| {
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(one) })
    };
    let named = exact(1, b"\x03");
    let mixed = rt::TableEntry {
        priority: 5,
        ..table(
            "mixed",
            vec![
                ternary(1, b"\x08\x00", b"\xff\x00"),
                range(2, b"\x00", b"\x07"),
                optional(3, b"\x01"),
                exact(4, b"\x01"),
            ],
            forward(3),
        )
    };
    let metered = rt::TableEntry {
        meter_config: meter(1000),
        idle_timeout_ns: 3_600_000_000_000,
        metadata: b"mine".to_vec(),
        ..table(
            "metered",
            vec![exact(1, b"\x07")],
            does(id("read_meter"), &[]),
        )
    };
    let counted = rt::TableEntry {
        counter_data: Some(rt::CounterData {
            byte_count: 300,
            packet_count: 3,
        }),
        ..table(
            "exact_table",
            vec![exact(1, b"\x02")],
            does(id("forward_by_name"), &[b"second port"]),
        )
    };
    let cell = |at| Some(rt::Index { index: at });
    let number = rt::P4Data {
        data: Some(rt::p4_data::Data::Bitstring(b"\x2a".to_vec())),
    };
    let insert = [
        Kind::TableEntry(counted),
        Kind::TableEntry(metered),
        Kind::TableEntry(mixed),
        Kind::TableEntry(table(
            "lpm_table",
            vec![lpm(1, &[0x12, 0, 0, 0, 0, 0], 8)],
            forward(1),
        )),
        Kind::TableEntry(table(
            "by_name",
            vec![named, exact(2, b"\x01")],
            does(id("forward_by_name"), &[b"third port"]),
        )),
        member("profile", 7, 6),
        member("selector", 1, 4),
        member("selector", 2, 5),
        Kind::ActionProfileGroup(group),
        Kind::TableEntry(table(
            "indirect",
            vec![exact(1, b"\x01")],
            through(Given::ActionProfileMemberId(7)),
        )),
        Kind::TableEntry(table(
            "balanced",
            vec![exact(1, b"\x01")],
            through(Given::ActionProfileGroupId(3)),
        )),
        replication(Replication::MulticastGroupEntry(multicast)),
        replication(Replication::CloneSessionEntry(session)),
        Kind::DigestEntry(rt::DigestEntry {
            digest_id: id("learned_t"),
            config: Some(rt::digest_entry::Config {
                max_timeout_ns: 1000,
                max_list_size: 3,
                ack_timeout_ns: 2000,
            }),
        }),
    ];
    let modify = [
        Kind::TableEntry(default(table("keyless", vec![], forward(8)))),
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: id("ports_meter"),
            index: cell(2),
            config: meter(77),
            ..Default::default()
        }),
        Kind::CounterEntry(rt::CounterEntry {
            counter_id: id("ports_counter"),
            index: cell(5),
            data: Some(rt::CounterData {
                byte_count: 0,
                packet_count: 55,
            }),
        }),
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: id("numbers"),
            index: cell(3),
            data: Some(number),
        }),
        Kind::ValueSetEntry(rt::ValueSetEntry {
            value_set_id: id("special"),
            members: vec![rt::ValueSetMember {
                r#match: vec![exact(1, b"\x12\x34")],
            }],
        }),
    ];
    let insert = insert.map(|one| (Type::Insert, one));
    let begun = table("begun", vec![exact(1, b"\x08\x06")], None);
    let gone = (Type::Delete, Kind::TableEntry(begun));
    let modify = modify.map(|one| (Type::Modify, one));
    insert.into_iter().chain(modify).chain([gone]).collect()
}

/// Reads everything except values that depend on time.
async fn all(client: &mut Client, objects: &Objects) -> Vec<Kind> {
    let replication = |one| {
        Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry { r#type: Some(one) })
    };
    let default = rt::TableEntry {
        is_default_action: true,
        ..Default::default()
    };
    let tables = rt::TableEntry {
        meter_config: meter(0),
        counter_data: Some(rt::CounterData::default()),
        ..Default::default()
    };
    let wanted = vec![
        Kind::TableEntry(tables),
        Kind::TableEntry(default),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::MeterEntry(Default::default()),
        Kind::CounterEntry(Default::default()),
        Kind::RegisterEntry(Default::default()),
        replication(Replication::MulticastGroupEntry(Default::default())),
        replication(Replication::CloneSessionEntry(Default::default())),
        Kind::DigestEntry(rt::DigestEntry {
            digest_id: objects.id("learned_t"),
            config: None,
        }),
        Kind::ValueSetEntry(rt::ValueSetEntry {
            value_set_id: objects.id("special"),
            members: vec![],
        }),
    ];
    client.try_read(wanted).await.expect("it can be read")
}

#[tokio::test]
async fn a_switch_that_starts_again_is_as_controllers_left_it() {
    let at = tempfile::tempdir().expect("a directory");
    let open = || Directory::open(at.path()).and_then(|directory| directory.device(1));
    let rig = start(open().expect("it is new"));
    let (mut client, stream, objects) = rig.loaded().await;
    client
        .write_all(Atomicity::ContinueOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    let (before, config) = (all(&mut client, &objects).await, client.config().await);
    assert!(before.len() > 20, "{before:#?}");
    drop((client, stream, rig));
    for _ in 0..2 {
        let rig = start(open().expect("it is in order"));
        let mut client = rig.client().await;
        let _stream = client.open(Some(1), "").await;
        assert_eq!(client.config().await, config);
        assert_eq!(all(&mut client, &objects).await, before);
        // The switch still accepts writes.
        assert_eq!(
            client
                .refused(Type::Insert, everything(&objects)[0].1.clone())
                .await,
            Code::AlreadyExists
        );
    }
}

#[tokio::test]
async fn a_program_that_takes_another_s_place_is_there_with_its_state_after_a_start() {
    let at = tempfile::tempdir().expect("a directory");
    let open = || Directory::open(at.path()).and_then(|directory| directory.device(1));
    let rig = start(open().expect("it is new"));
    let (mut client, stream, objects) = rig.loaded().await;
    client
        .write_all(Atomicity::RollbackOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    let more = ALL.replace("    table keyless {", "    table added { key = { hdr.ethernet.type : exact; } actions = { NoAction; } }\n    table keyless {")
        .replace("keyless.apply();", "keyless.apply(); added.apply();");
    client
        .load(ConfigAction::ReconcileAndCommit, &more)
        .await
        .expect("it has a place for everything");
    let objects = Objects::of(&client.config().await);
    let before = all(&mut client, &objects).await;
    drop((client, stream, rig));
    let rig = start(open().expect("it is in order"));
    let mut client = rig.client().await;
    let stream = client.open(Some(1), "").await;
    assert_eq!(all(&mut client, &objects).await, before);
    // State that was cleared stays cleared.
    client
        .load(ConfigAction::VerifyAndCommit, ALL)
        .await
        .expect("it loads");
    let cleared = all(&mut client, &objects).await;
    assert!(cleared.len() < before.len());
    drop((client, stream, rig));
    let rig = start(open().expect("it is in order"));
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    assert_eq!(all(&mut client, &objects).await, cleared);
}

#[tokio::test]
async fn what_a_full_disk_cannot_keep_is_refused_and_leaves_no_trace() {
    let disk = SimulatedDisk::new();
    let rig = start(KeptState::open(Box::new(disk.clone())).expect("it is in order"));
    let (mut client, stream, objects) = rig.loaded().await;
    client
        .write_all(Atomicity::ContinueOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    let before = all(&mut client, &objects).await;
    let config = client.config().await;
    let large = |key: u8| {
        Kind::TableEntry(rt::TableEntry {
            metadata: vec![7; 1 << 20],
            ..entry(
                objects.id("exact_table"),
                vec![exact(1, &[key])],
                does(objects.id("forward"), &[b"\x01"]),
            )
        })
    };
    disk.fill(0);
    // One sync stores several concurrent writes.
    let mut writes = Vec::new();
    for key in 100..104 {
        let mut client = client.clone();
        let gone = everything(&objects)[0].1.clone();
        let mut request = client.batch(vec![(Type::Insert, large(key)), (Type::Delete, gone)]);
        request.updates.truncate(if key == 100 { 2 } else { 1 });
        writes.push(tokio::spawn(
            async move { client.grpc.write(request).await },
        ));
    }
    for write in writes {
        let refused = write.await.expect("it ends").expect_err("the disk is full");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert!(
            refused.message().contains("no space is left"),
            "{refused:?}"
        );
    }
    assert_eq!(all(&mut client, &objects).await, before);
    let changed = ALL.replace(
        "size = 16;",
        &format!("size = 17; // {}\n", "x".repeat(1 << 20)),
    );
    let refused = client.load(ConfigAction::VerifyAndCommit, &changed).await;
    assert_eq!(
        refused.expect_err("the disk is full").code(),
        Code::ResourceExhausted
    );
    assert_eq!(client.config().await, config);
    assert_eq!(all(&mut client, &objects).await, before);
    // The switch continues.
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 6);
    disk.make_room();
    client.insert(large(101)).await;
    let after = all(&mut client, &objects).await;
    assert_eq!(after.len(), before.len() + 1);
    drop((client, stream, rig));
    let rig = start(KeptState::open(Box::new(disk.clone())).expect("it is in order"));
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    assert_eq!(all(&mut client, &objects).await, after);
}

/// Storage that stores nothing. The test chooses the result of each batch.
#[derive(Clone)]
struct Clerk {
    says: Arc<Mutex<Says>>,
    left: UnboundedSender<Done>,
}

#[derive(Clone, Copy)]
enum Says {
    Kept,
    Full,
    /// Leaves each result to the test.
    Nothing,
}

fn full() -> Result<(), StorageError> {
    Err(StorageError {
        is_full: true,
        message: "the shelf is full".to_owned(),
    })
}

impl Storage for Clerk {
    fn append(&mut self, _: Batch, done: Done) {
        let says = *self.says.lock().expect("nobody panics");
        match says {
            Says::Kept => done(Ok(())),
            Says::Full => done(full()),
            // The test may have ended.
            Says::Nothing => drop(self.left.send(done)),
        }
    }
}

impl Clerk {
    fn now_says(&self, says: Says) {
        *self.says.lock().expect("nobody panics") = says;
    }

    /// Returns a switch with this storage, and the batches left to the test.
    fn rig() -> (Clerk, UnboundedReceiver<Done>, Rig) {
        let (left, batches) = unbounded_channel();
        let says = Arc::new(Mutex::new(Says::Kept));
        let clerk = Clerk { says, left };
        let mut device = empty_device();
        device.keep_in(Box::new(clerk.clone()), KeptCells::default(), false);
        (clerk, batches, Rig::start(device, None))
    }
}

#[tokio::test]
async fn what_a_batch_aborted_does_not_come_to_life_when_that_cannot_be_kept() {
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let (clerk, _, rig) = Clerk::rig();
        let (mut client, _stream, objects) = rig.loaded().await;
        let (first, mut then) = of_every_kind(&objects);
        // This update fails in the device.
        then.push((Type::Insert, first[6].1.clone()));
        client.write_all(atomicity, first).await.expect("all fit");
        let before = all(&mut client, &objects).await;
        clerk.now_says(Says::Full);
        let mut request = client.batch(then.clone());
        request.atomicity = atomicity.into();
        let refused = client.grpc.write(request).await.expect_err("it is full");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(all(&mut client, &objects).await, before);
        clerk.now_says(Says::Kept);
        then.pop();
        client.write_all(atomicity, then).await.expect("all fit");
    }
}

#[tokio::test]
async fn a_batch_that_fails_behind_another_one_hinders_no_later_one() {
    let (clerk, mut batches, rig) = Clerk::rig();
    let (client, _stream, objects) = rig.loaded().await;
    let one = |key: u8| {
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, &[key])],
            does(objects.id("forward"), &[b"\x01"]),
        ))
    };
    clerk.now_says(Says::Nothing);
    let mut writes = Vec::new();
    for key in 1..=2 {
        let (mut client, request) = (client.clone(), client.request(Type::Insert, one(key)));
        let write = tokio::spawn(async move { client.grpc.write(request).await });
        writes.push((batches.recv().await.expect("it is to be kept"), write));
    }
    clerk.now_says(Says::Kept);
    for (done, write) in writes {
        done(full());
        let refused = write.await.expect("it ends").expect_err("it is full");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    }
    let mut client = client.clone();
    client.insert(one(3)).await;
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(client.read(all).await, [one(3)]);
}

#[tokio::test]
async fn a_saved_config_that_cannot_be_kept_stays_saved_with_what_was_written() {
    let (clerk, _, rig) = Clerk::rig();
    let (mut client, _stream, objects) = rig.loaded().await;
    client
        .load(ConfigAction::VerifyAndSave, ALL)
        .await
        .expect("it is saved");
    client
        .write_all(Atomicity::ContinueOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    let written = all(&mut client, &objects).await;
    let frame = frame(2, 2, 0x9999);
    for says in [Says::Full, Says::Full, Says::Kept] {
        clerk.now_says(says);
        rig.receive(1, &frame);
        assert_eq!(rig.sent_now(), None, "the running program drops it");
        let committed = client.set(ConfigAction::Commit, None).await;
        match says {
            Says::Kept => committed.expect("it is kept"),
            _ => assert_eq!(
                committed.expect_err("it is full").code(),
                Code::ResourceExhausted
            ),
        }
        assert_eq!(all(&mut client, &objects).await, written);
    }
    rig.receive(1, &frame);
    assert!(rig.sent().is_some(), "the saved program forwards it");
}

#[tokio::test]
async fn a_program_that_cannot_be_kept_leaves_what_it_would_have_lost() {
    let (clerk, _, rig) = Clerk::rig();
    let (mut client, _stream, objects) = rig.loaded().await;
    client
        .write_all(Atomicity::ContinueOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    let before = all(&mut client, &objects).await;
    // The selector's members are removed, and with them its group. The new selector has the id that
    // the profile had.
    let profile = "action_profile(4) profile;";
    let selector = "@max_group_size(4) action_selector(HashAlgorithm.crc16, 16, 14) selector;";
    let changed = ALL
        .replace(
            "actions = { forward; drop; NoAction; }\n        implementation = selector;",
            "actions = { drop; NoAction; }\n        implementation = selector;",
        )
        .replace(selector, "")
        .replace(profile, &format!("{selector} {profile}"));
    let config = rt::ForwardingPipelineConfig {
        p4_device_config: changed.into_bytes(),
        ..Default::default()
    };
    let action = ConfigAction::ReconcileAndCommit;
    clerk.now_says(Says::Full);
    let set = client.set_with(action, Some(config.clone()), Some("*"));
    let refused = set.await.expect_err("it is full");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(all(&mut client, &objects).await, before);
    clerk.now_says(Says::Kept);
    client
        .set_with(action, Some(config), Some("*"))
        .await
        .expect("it is kept");
    let groups = client.read(Kind::ActionProfileGroup(Default::default()));
    assert_eq!(groups.await, []);
}

#[tokio::test]
async fn groups_that_went_with_a_program_do_not_come_back_at_a_start() {
    let disk = SimulatedDisk::new();
    let open = || KeptState::open(Box::new(disk.clone())).expect("it is in order");
    let rig = start(open());
    let (mut client, stream, objects) = rig.loaded().await;
    client
        .write_all(Atomicity::ContinueOnError, everything(&objects))
        .await
        .expect("all of it is accepted");
    drop((client, stream, rig));
    // The state after a program that has no place for the group.
    let lose = |device: &mut Device| {
        let program = Arc::clone(device.program());
        let mut externs = program.externs.iter();
        let (profile, _) = externs
            .find(|(_, one)| one.name == "In.selector")
            .expect("it is there");
        let mut tables = program.tables.iter();
        let (table, _) = tables
            .find(|(_, one)| one.name == "In.balanced")
            .expect("it is there");
        for change in [Change::Clear(table), Change::DeleteGroup(profile, 3)] {
            device.apply(change).expect("nothing has it");
        }
    };
    let rig = start_with(open(), lose);
    let mut client = rig.client().await;
    let stream = client.open(Some(1), "").await;
    let groups = Kind::ActionProfileGroup(Default::default());
    assert_eq!(client.read(groups.clone()).await, []);
    drop((client, stream, rig));
    let rig = start(open());
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    assert_eq!(client.read(groups).await, []);
}
