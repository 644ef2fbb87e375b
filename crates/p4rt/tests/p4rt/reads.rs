//! Tests of reads: wildcards, filters, errors of batches, large tables.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::update::Type;
use tonic::Code;

use crate::rig::*;

#[tokio::test]
async fn entries_are_filtered_by_match_priority_action_and_metadata() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |ty: &[u8], priority, action: &str, metadata: &[u8]| {
        let args: &[&[u8]] = if action == "forward" { &[b"\x01"] } else { &[] };
        let mut one = entry(
            objects.id("mixed"),
            vec![ternary(1, ty, b"\xff\xff"), exact(4, b"\x01")],
            does(objects.id(action), args),
        );
        one.priority = priority;
        one.metadata = metadata.to_vec();
        one
    };
    let entries = [
        one(b"\x08\x00", 1, "forward", b"a"),
        one(b"\x08\x00", 2, "NoAction", b"b"),
        one(b"\x08\x06", 2, "forward", b"b"),
    ];
    for entry in &entries {
        client.insert(Kind::TableEntry(entry.clone())).await;
    }
    let all = || entry(objects.id("mixed"), vec![], None);
    let by_priority = rt::TableEntry {
        priority: 2,
        ..all()
    };
    let by_metadata = rt::TableEntry {
        metadata: b"a".to_vec(),
        ..all()
    };
    let by_action = rt::TableEntry {
        action: does(objects.id("forward"), &[]),
        ..all()
    };
    let by_match = rt::TableEntry {
        r#match: entries[0].r#match.clone(),
        ..all()
    };
    let by_key = rt::TableEntry {
        priority: 2,
        ..by_match.clone()
    };
    let expected: [(rt::TableEntry, &[usize]); 6] = [
        (all(), &[0, 1, 2]),
        (by_priority, &[1, 2]),
        (by_metadata, &[0]),
        (by_action, &[0, 2]),
        (by_match, &[0, 1]),
        (by_key, &[1]),
    ];
    for (request, expected) in expected {
        let found = client.read(Kind::TableEntry(request.clone())).await;
        let wanted = expected
            .iter()
            .map(|at| Kind::TableEntry(entries[*at].clone()));
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{request:?}");
    }
    let by_argument = rt::TableEntry {
        action: does(objects.id("forward"), &[b"\x01"]),
        ..all()
    };
    let refused = client
        .try_read(vec![Kind::TableEntry(by_argument)])
        .await
        .expect_err("no filter");
    assert_eq!(
        errors(&refused)[0].canonical_code,
        Code::InvalidArgument as i32
    );
}

#[tokio::test]
async fn all_tables_are_read_at_once_const_ones_among_them() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = does(objects.id("forward"), &[b"\x01"]);
    let one = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], forward);
    client.insert(Kind::TableEntry(one.clone())).await;
    let found = client
        .read(Kind::TableEntry(rt::TableEntry::default()))
        .await;
    // Two const entries, two initial ones, and the inserted one.
    assert_eq!(found.len(), 5);
    assert!(found.contains(&Kind::TableEntry(one)));
    let filtered = rt::TableEntry {
        priority: 1,
        ..Default::default()
    };
    let refused = client
        .try_read(vec![Kind::TableEntry(filtered)])
        .await
        .expect_err("no filter");
    assert_eq!(
        errors(&refused)[0].canonical_code,
        Code::InvalidArgument as i32
    );
}

#[tokio::test]
async fn requests_that_fail_are_told_beside_those_that_are_answered() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let request = rt::ReadRequest {
        device_id: 1,
        entities: [
            Some(Kind::TableEntry(entry(
                objects.id("const_table"),
                vec![],
                None,
            ))),
            None,
            Some(Kind::CounterEntry(rt::CounterEntry {
                counter_id: 5,
                ..Default::default()
            })),
            Some(Kind::ExternEntry(rt::ExternEntry::default())),
        ]
        .map(|entity| rt::Entity { entity })
        .to_vec(),
        ..Default::default()
    };
    let mut parts = client
        .grpc
        .read(request)
        .await
        .expect("a stream")
        .into_inner();
    let first = parts
        .message()
        .await
        .expect("answers come first")
        .expect("one");
    assert_eq!(first.entities.len(), 2);
    let status = parts.message().await.expect_err("then the errors");
    let codes: Vec<i32> = errors(&status)
        .iter()
        .map(|error| error.canonical_code)
        .collect();
    let expected = [Code::Ok, Code::InvalidArgument, Code::NotFound, Code::Ok];
    assert_eq!(codes, expected.map(|code| code as i32));
    assert_eq!(
        client
            .try_read(vec![])
            .await
            .expect("nothing asked, nothing told"),
        []
    );
    let mut elsewhere = rt::ReadRequest {
        device_id: 9,
        ..Default::default()
    };
    elsewhere.entities.clear();
    let refused = client
        .grpc
        .read(elsewhere)
        .await
        .expect_err("no such device");
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn the_whole_state_is_read_with_one_request_of_each_kind() {
    let rig = Rig::empty();
    let (mut client, _stream, _objects) = rig.loaded().await;
    let group = rt::packet_replication_engine_entry::Type::MulticastGroupEntry(Default::default());
    let found = client
        .try_read(vec![
            Kind::ExternEntry(Default::default()),
            Kind::TableEntry(Default::default()),
            Kind::ActionProfileMember(Default::default()),
            Kind::ActionProfileGroup(Default::default()),
            Kind::MeterEntry(Default::default()),
            Kind::DirectMeterEntry(Default::default()),
            Kind::CounterEntry(Default::default()),
            Kind::DirectCounterEntry(Default::default()),
            Kind::PacketReplicationEngineEntry(rt::PacketReplicationEngineEntry {
                r#type: Some(group),
            }),
            Kind::ValueSetEntry(Default::default()),
            Kind::RegisterEntry(Default::default()),
            Kind::DigestEntry(Default::default()),
        ])
        .await
        .expect("all can be read");
    // 4 entries, 4 meters, 8 counters, 1 value set, 9 register cells.
    assert_eq!(found.len(), 26);
}

#[tokio::test]
async fn a_table_of_many_thousands_is_written_and_read_whole() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = {
        let mut client = rig.client().await;
        let stream = client.open(Some(1), "").await;
        let large = ALL.replace("size = 16;", "size = 20000;");
        let action = rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
        client.load(action, &large).await.expect("it loads");
        let objects = Objects::of(&client.config().await);
        (client, stream, objects)
    };
    let forward = does(objects.id("forward"), &[b"\x01"]);
    for batch in 0..10u32 {
        let updates = (0..1000u32).map(|number| {
            let key = bits_of(batch * 1000 + number);
            let one = entry(
                objects.id("exact_table"),
                vec![exact(1, &key)],
                forward.clone(),
            );
            (Type::Insert, Kind::TableEntry(one))
        });
        let request = client.batch(updates.collect());
        client.grpc.write(request).await.expect("all fit");
    }
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let found = client.read(all).await;
    assert_eq!(found.len(), 10_000);
    let mut seen: Vec<_> = found.iter().map(|one| format!("{one:?}")).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10_000);
}

/// Encodes a number as the shortest byte string.
fn bits_of(number: u32) -> Vec<u8> {
    bits::Value::truncated(number.into(), 32).to_p4rt_bytes()
}
