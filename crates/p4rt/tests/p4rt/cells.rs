//! Tests of counters, meters and registers, direct and indexed, and of value sets.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::p4_data::Data;
use p4info::p4::v1::update::Type;
use tonic::Code;

use crate::rig::*;

fn index(index: i64) -> Option<rt::Index> {
    Some(rt::Index { index })
}

fn count(packets: i64, bytes: i64) -> Option<rt::CounterData> {
    Some(rt::CounterData {
        byte_count: bytes,
        packet_count: packets,
    })
}

fn rates(cir: i64, cburst: i64, pir: i64, pburst: i64) -> Option<rt::MeterConfig> {
    Some(rt::MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst: 0,
    })
}

#[tokio::test]
async fn counters_are_counted_by_packets_written_and_read_one_or_all() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let cell = |at, data| {
        Kind::CounterEntry(rt::CounterEntry {
            counter_id: objects.id("ports_counter"),
            index: at,
            data,
        })
    };
    client.modify(cell(index(3), count(10, 0))).await;
    rig.receive(3, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent_now(), None);
    assert_eq!(
        client.read(cell(index(3), None)).await,
        [cell(index(3), count(11, 0))]
    );
    // Without a value nothing changes. Without an index all cells change.
    client.modify(cell(index(3), None)).await;
    assert_eq!(
        client.read(cell(index(3), None)).await,
        [cell(index(3), count(11, 0))]
    );
    client.modify(cell(None, count(4, 0))).await;
    let all = client.read(cell(None, None)).await;
    let expected: Vec<Kind> = (0..8).map(|at| cell(index(at), count(4, 0))).collect();
    assert_eq!(all, expected);
    let everywhere = Kind::CounterEntry(rt::CounterEntry::default());
    assert_eq!(client.read(everywhere).await.len(), 8);
}

#[tokio::test]
async fn arrays_are_only_modified_and_only_within() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let counter = |at| {
        Kind::CounterEntry(rt::CounterEntry {
            counter_id: objects.id("ports_counter"),
            index: index(at),
            data: count(1, 0),
        })
    };
    let meter = |at| {
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: objects.id("ports_meter"),
            index: index(at),
            ..Default::default()
        })
    };
    let register = |at| {
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: objects.id("numbers"),
            index: index(at),
            data: Some(rt::P4Data {
                data: Some(Data::Bitstring(vec![1])),
            }),
        })
    };
    for make in [&counter as &dyn Fn(i64) -> Kind, &meter, &register] {
        for ty in [Type::Insert, Type::Delete] {
            assert_eq!(client.refused(ty, make(0)).await, Code::InvalidArgument);
        }
        assert_eq!(
            client.refused(Type::Modify, make(-1)).await,
            Code::InvalidArgument
        );
        for at in [8, i64::from(u32::MAX) + 1] {
            assert_eq!(
                client.refused(Type::Modify, make(at)).await,
                Code::OutOfRange
            );
            let refused = client
                .try_read(vec![make(at)])
                .await
                .expect_err("it is outside");
            assert_eq!(errors(&refused)[0].canonical_code, Code::OutOfRange as i32);
        }
    }
    let unknown = Kind::CounterEntry(rt::CounterEntry {
        counter_id: 0x1200_0001,
        ..Default::default()
    });
    assert_eq!(client.refused(Type::Modify, unknown).await, Code::NotFound);
    let negative = Kind::CounterEntry(rt::CounterEntry {
        counter_id: objects.id("ports_counter"),
        index: index(0),
        data: count(-1, 0),
    });
    assert_eq!(
        client.refused(Type::Modify, negative).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn meters_are_configured_reset_and_read_back() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let meter = |at, config| {
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: objects.id("ports_meter"),
            index: at,
            config,
            counter_data: None,
        })
    };
    client.modify(meter(index(1), rates(10, 20, 30, 40))).await;
    let all = client.read(meter(None, None)).await;
    let expected: Vec<Kind> = (0..4)
        .map(|at| {
            meter(
                index(at),
                (at == 1).then(|| rates(10, 20, 30, 40)).flatten(),
            )
        })
        .collect();
    assert_eq!(all, expected);
    client.modify(meter(index(1), None)).await;
    assert_eq!(
        client.read(meter(index(1), None)).await,
        [meter(index(1), None)]
    );
    let bad = [rates(-1, 0, 0, 0), rates(30, 0, 10, 0)];
    for config in bad {
        assert_eq!(
            client.refused(Type::Modify, meter(index(0), config)).await,
            Code::InvalidArgument
        );
    }
    // Only single-rate meters have an excess burst.
    let excess = rates(1, 1, 1, 1).map(|config| rt::MeterConfig {
        eburst: 5,
        ..config
    });
    assert_eq!(
        client.refused(Type::Modify, meter(index(0), excess)).await,
        Code::InvalidArgument
    );
}

/// Returns a meter's counters of green, yellow and red: packets and bytes.
fn marked(green: (i64, i64), yellow: (i64, i64), red: (i64, i64)) -> Option<rt::MeterCounterData> {
    Some(rt::MeterCounterData {
        green: count(green.0, green.1),
        yellow: count(yellow.0, yellow.1),
        red: count(red.0, red.1),
    })
}

/// Requests counters by colour, or clears them.
const COLORS: Option<rt::MeterCounterData> = Some(rt::MeterCounterData {
    green: None,
    yellow: None,
    red: None,
});

#[tokio::test]
async fn meters_count_what_they_mark_by_colour_until_it_is_cleared() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let meter = |at, config, colors| {
        Kind::MeterEntry(rt::MeterEntry {
            meter_id: objects.id("ports_meter"),
            index: index(at),
            config,
            counter_data: colors,
        })
    };
    // Buckets of 2 and 3 packets that are never refilled.
    let few = rates(0, 2, 0, 3);
    client.modify(meter(1, few, None)).await;
    let bytes = frame(1, 2, 0x9999);
    let length = bytes.len() as i64;
    for _ in 0..5 {
        rig.receive(1, &bytes);
    }
    rig.receive(2, &bytes);
    assert_eq!(rig.sent_now(), None);
    let expected = marked((2, 2 * length), (1, length), (2, 2 * length));
    let asked = meter(1, None, COLORS);
    assert_eq!(
        client.read(asked.clone()).await,
        [meter(1, few, expected)],
        "2 packets within, 1 between, 2 beyond"
    );
    // A meter without rates marks green.
    let green = marked((1, length), (0, 0), (0, 0));
    assert_eq!(
        client.read(meter(2, None, COLORS)).await,
        [meter(2, None, green)]
    );
    // Counters are read only on request. Setting rates does not change them.
    client.modify(meter(1, few, None)).await;
    assert_eq!(
        client.read(meter(1, None, None)).await,
        [meter(1, few, None)]
    );
    assert_eq!(client.read(asked.clone()).await, [meter(1, few, expected)]);
    // The counters can only be cleared. A failed batch does not clear them.
    let wrong = meter(1, few, marked((0, 0), (1, 0), (0, 0)));
    assert_eq!(
        client.refused(Type::Modify, wrong.clone()).await,
        Code::InvalidArgument
    );
    let missing = Kind::MeterEntry(rt::MeterEntry {
        meter_id: objects.id("ports_meter"),
        index: index(99),
        ..Default::default()
    });
    let member = Kind::ActionProfileMember(rt::ActionProfileMember {
        action_profile_id: objects.id("profile"),
        member_id: 7,
        action: Some(call(objects.id("drop"), &[])),
    });
    for last in [(Type::Modify, missing), (Type::Modify, member)] {
        let updates = vec![(Type::Modify, meter(1, few, COLORS)), last];
        let written = client
            .write_all(rt::write_request::Atomicity::RollbackOnError, updates)
            .await;
        written.expect_err("the last update is refused");
        assert_eq!(client.read(asked.clone()).await, [meter(1, few, expected)]);
    }
    client.modify(meter(1, few, COLORS)).await;
    let none = marked((0, 0), (0, 0), (0, 0));
    assert_eq!(client.read(asked).await, [meter(1, few, none)]);
}

#[tokio::test]
async fn direct_meters_count_by_colour_for_as_long_as_their_entry_is_there() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let few = rates(0, 50, 0, 50);
    let one = |colors| {
        let mut one = entry(
            objects.id("metered"),
            vec![exact(1, b"\x02")],
            does(objects.id("read_meter"), &[]),
        );
        (one.meter_config, one.meter_counter_data) = (few, colors);
        one
    };
    client.insert(Kind::TableEntry(one(COLORS))).await;
    let bytes = frame(1, 2, 0x9999);
    let length = bytes.len() as i64;
    assert!(2 * length <= 50 && 3 * length > 50, "2 packets fit");
    let expected = marked((2, 2 * length), (0, 0), (1, length));
    let key = entry(objects.id("metered"), vec![exact(1, b"\x02")], None);
    let direct = |colors| {
        Kind::DirectMeterEntry(rt::DirectMeterEntry {
            table_entry: Some(key.clone()),
            config: few,
            counter_data: colors,
        })
    };
    let mut asked = key.clone();
    (asked.meter_config, asked.meter_counter_data) = (few, COLORS);
    // Clearing through the entry and through the direct meter has the same effect.
    for clear in [Kind::TableEntry(one(COLORS)), direct(COLORS)] {
        for _ in 0..3 {
            rig.receive(1, &bytes);
        }
        assert_eq!(rig.sent_now(), None);
        assert_eq!(client.read(direct(COLORS)).await, [direct(expected)]);
        assert_eq!(client.read(direct(None)).await, [direct(None)]);
        assert_eq!(
            client.read(Kind::TableEntry(asked.clone())).await,
            [Kind::TableEntry(one(expected))]
        );
        // The counters are kept by a modification without them, and by a deletion that fails.
        client.modify(Kind::TableEntry(one(None))).await;
        let twice = vec![
            (Type::Delete, Kind::TableEntry(key.clone())),
            (Type::Delete, Kind::TableEntry(key.clone())),
        ];
        let written = client
            .write_all(rt::write_request::Atomicity::RollbackOnError, twice)
            .await;
        written.expect_err("there is one entry");
        assert_eq!(client.read(direct(COLORS)).await, [direct(expected)]);
        client.modify(clear).await;
        let none = marked((0, 0), (0, 0), (0, 0));
        assert_eq!(client.read(direct(COLORS)).await, [direct(none)]);
    }
    for wrong in [Type::Insert, Type::Modify] {
        let mut elsewhere = entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            does(objects.id("forward"), &[b"\x01"]),
        );
        elsewhere.meter_counter_data = COLORS;
        assert_eq!(
            client.refused(wrong, Kind::TableEntry(elsewhere)).await,
            Code::InvalidArgument,
            "the table has no direct meter"
        );
        let full = one(marked((1, 0), (0, 0), (0, 0)));
        assert_eq!(
            client.refused(wrong, Kind::TableEntry(full)).await,
            Code::InvalidArgument,
            "counts can only be cleared"
        );
    }
}

#[tokio::test]
async fn registers_hold_numbers_signed_numbers_and_structs() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let cell = |name: &str, at, data: Option<Data>| {
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: objects.id(name),
            index: at,
            data: data.map(|data| rt::P4Data { data: Some(data) }),
        })
    };
    let bits = |value: &[u8]| rt::P4Data {
        data: Some(Data::Bitstring(value.to_vec())),
    };
    let pair = |first: &[u8], second: &[u8]| {
        Data::Struct(rt::P4StructLike {
            members: vec![bits(first), bits(second)],
        })
    };
    let written = cell("numbers", index(2), Some(Data::Bitstring(vec![1, 2])));
    client.modify(written.clone()).await;
    assert_eq!(
        client.read(cell("numbers", index(2), None)).await,
        [written]
    );
    let written = cell("pairs", index(0), Some(pair(b"\x07", b"\x01\x00")));
    client.modify(written.clone()).await;
    assert_eq!(client.read(cell("pairs", index(0), None)).await, [written]);
    // A packet writes 7, {1, 2} and -3.
    rig.receive(1, &frame(9, 9, 0x9999));
    assert_eq!(rig.sent_now(), None);
    let read = client.read(cell("numbers", None, None)).await;
    let expected = [&b"\x07"[..], b"\x00", b"\x01\x02", b"\x00"];
    let expected = expected.iter().enumerate().map(|(at, value)| {
        cell(
            "numbers",
            index(at as i64),
            Some(Data::Bitstring(value.to_vec())),
        )
    });
    assert_eq!(read, expected.collect::<Vec<_>>());
    let packet_s = cell("pairs", index(1), Some(pair(b"\x01", b"\x02")));
    assert_eq!(client.read(cell("pairs", index(1), None)).await, [packet_s]);
    let negative = cell(
        "signed_numbers",
        index(0),
        Some(Data::Bitstring(vec![0xfd])),
    );
    assert_eq!(
        client.read(cell("signed_numbers", index(0), None)).await,
        [negative]
    );

    let bad = [
        (cell("numbers", index(0), None), Code::InvalidArgument),
        (
            cell("numbers", index(0), Some(Data::Bool(true))),
            Code::InvalidArgument,
        ),
        (
            cell("numbers", index(0), Some(Data::Bitstring(vec![1; 5]))),
            Code::OutOfRange,
        ),
        (
            cell("pairs", index(0), Some(Data::Bitstring(vec![1]))),
            Code::InvalidArgument,
        ),
        (
            cell(
                "signed_numbers",
                index(0),
                Some(Data::Bitstring(vec![0, 0x80])),
            ),
            Code::OutOfRange,
        ),
    ];
    for (entity, code) in bad {
        assert_eq!(client.refused(Type::Modify, entity).await, code);
    }
}

#[tokio::test]
async fn a_direct_counter_is_set_counted_and_read_in_both_ways() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = || does(objects.id("forward"), &[b"\x01"]);
    let mut one = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        forward(),
    );
    one.counter_data = count(5, 100);
    client.insert(Kind::TableEntry(one)).await;
    let bytes = frame(1, 2, 0x9999);
    rig.receive(1, &bytes);
    rig.sent().expect("it is forwarded");
    let expected = count(6, 100 + bytes.len() as i64);
    let key = entry(objects.id("exact_table"), vec![exact(1, b"\x01")], None);
    let direct = |key: &rt::TableEntry, data| {
        Kind::DirectCounterEntry(rt::DirectCounterEntry {
            table_entry: Some(key.clone()),
            data,
        })
    };
    assert_eq!(
        client.read(direct(&key, None)).await,
        [direct(&key, expected)]
    );
    let mut asked = key.clone();
    asked.counter_data = count(0, 0);
    match &client.read(Kind::TableEntry(asked)).await[..] {
        [Kind::TableEntry(found)] => assert_eq!(found.counter_data, expected),
        other => panic!("{other:?}"),
    }
    match &client.read(Kind::TableEntry(key.clone())).await[..] {
        [Kind::TableEntry(found)] => assert_eq!(found.counter_data, None),
        other => panic!("{other:?}"),
    }
    client.modify(direct(&key, count(1, 2))).await;
    client.modify(direct(&key, None)).await;
    assert_eq!(
        client.read(direct(&key, None)).await,
        [direct(&key, count(1, 2))]
    );
    // Modifying an entry without a value keeps the counter.
    let again = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        forward(),
    );
    client.modify(Kind::TableEntry(again)).await;
    let whole_table = entry(objects.id("exact_table"), vec![], None);
    assert_eq!(
        client.read(direct(&whole_table, None)).await,
        [direct(&key, count(1, 2))]
    );
    let everywhere = Kind::DirectCounterEntry(rt::DirectCounterEntry::default());
    assert_eq!(client.read(everywhere).await, [direct(&key, count(1, 2))]);

    let missing = entry(objects.id("exact_table"), vec![exact(1, b"\x02")], None);
    assert_eq!(
        client.refused(Type::Modify, direct(&missing, None)).await,
        Code::NotFound
    );
    let refused = client
        .try_read(vec![direct(&missing, None)])
        .await
        .expect_err("no such entry");
    assert_eq!(errors(&refused)[0].canonical_code, Code::NotFound as i32);
    for ty in [Type::Insert, Type::Delete] {
        assert_eq!(
            client.refused(ty, direct(&key, None)).await,
            Code::InvalidArgument
        );
    }
    let without = entry(objects.id("metered"), vec![exact(1, b"\x02")], None);
    assert_eq!(
        client.refused(Type::Modify, direct(&without, None)).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn a_direct_meter_is_set_reset_and_read_in_both_ways() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let action = || does(objects.id("read_meter"), &[]);
    let mut one = entry(objects.id("metered"), vec![exact(1, b"\x01")], action());
    one.meter_config = rates(10, 20, 30, 40);
    client.insert(Kind::TableEntry(one.clone())).await;
    let key = entry(objects.id("metered"), vec![exact(1, b"\x01")], None);
    let direct = |config| {
        Kind::DirectMeterEntry(rt::DirectMeterEntry {
            table_entry: Some(key.clone()),
            config,
            counter_data: None,
        })
    };
    assert_eq!(
        client.read(direct(None)).await,
        [direct(rates(10, 20, 30, 40))]
    );
    let mut asked = key.clone();
    asked.meter_config = rates(0, 0, 0, 0);
    assert_eq!(
        client.read(Kind::TableEntry(asked.clone())).await,
        [Kind::TableEntry(one)]
    );
    client.modify(direct(rates(1, 2, 3, 4))).await;
    assert_eq!(client.read(direct(None)).await, [direct(rates(1, 2, 3, 4))]);
    // A modification without rates resets the meter.
    let plain = entry(objects.id("metered"), vec![exact(1, b"\x01")], action());
    client.modify(Kind::TableEntry(plain.clone())).await;
    assert_eq!(client.read(direct(None)).await, [direct(None)]);
    assert_eq!(
        client.read(Kind::TableEntry(asked)).await,
        [Kind::TableEntry(plain)]
    );
    for ty in [Type::Insert, Type::Delete] {
        assert_eq!(
            client.refused(ty, direct(None)).await,
            Code::InvalidArgument
        );
    }
    let mut idle = entry(
        objects.id("metered"),
        vec![exact(1, b"\x09")],
        does(objects.id("NoAction"), &[]),
    );
    idle.meter_config = rates(1, 1, 1, 1);
    let refused = client.write(Type::Insert, Kind::TableEntry(idle)).await;
    let refused = refused.expect_err("NoAction does not execute the meter");
    assert_eq!(refused.canonical_code, Code::InvalidArgument as i32);
    assert!(refused.message.contains("NoAction"), "{}", refused.message);
    let mut elsewhere = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(objects.id("forward"), &[b"\x01"]),
    );
    elsewhere.meter_config = rates(1, 1, 1, 1);
    assert_eq!(
        client
            .refused(Type::Insert, Kind::TableEntry(elsewhere))
            .await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn a_value_set_s_members_are_replaced_and_the_parser_follows() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let set = |members: &[&[u8]]| {
        let member = |value: &&[u8]| rt::ValueSetMember {
            r#match: vec![exact(1, value)],
        };
        Kind::ValueSetEntry(rt::ValueSetEntry {
            value_set_id: objects.id("special"),
            members: members.iter().map(member).collect(),
        })
    };
    rig.receive(1, &frame(1, 2, 0x1234));
    assert_eq!(rig.sent_now(), None);
    client.modify(set(&[b"\x12\x34", b"\x01"])).await;
    assert_eq!(client.read(set(&[])).await, [set(&[b"\x12\x34", b"\x01"])]);
    rig.receive(1, &frame(1, 2, 0x1234));
    assert_eq!(rig.sent().expect("it is special").0, 9);
    client.modify(set(&[])).await;
    assert_eq!(client.read(set(&[])).await, [set(&[])]);
    for ty in [Type::Insert, Type::Delete] {
        assert_eq!(client.refused(ty, set(&[])).await, Code::InvalidArgument);
    }
    let too_many = set(&[b"\x01", b"\x02", b"\x03"]);
    assert_eq!(
        client.refused(Type::Modify, too_many).await,
        Code::ResourceExhausted
    );
    assert_eq!(
        client.refused(Type::Modify, set(&[b"\x01", b"\x01"])).await,
        Code::AlreadyExists
    );
}

#[tokio::test]
async fn registers_hold_values_of_every_type() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let data = |data: Data| rt::P4Data { data: Some(data) };
    let bits = |value: &[u8]| data(Data::Bitstring(value.to_vec()));
    let rich = |kind: &[u8], problem: &str, header: rt::P4Header| {
        let both = rt::P4StructLike {
            members: vec![bits(b"\x05"), bits(b"\xff")],
        };
        let members = vec![
            data(Data::Bool(true)),
            data(Data::Enum("green".to_owned())),
            data(Data::EnumValue(kind.to_vec())),
            data(Data::Error(problem.to_owned())),
            data(Data::Header(header)),
            data(Data::Tuple(both)),
        ];
        Kind::RegisterEntry(rt::RegisterEntry {
            register_id: objects.id("rich"),
            index: index(0),
            data: Some(data(Data::Struct(rt::P4StructLike { members }))),
        })
    };
    let header = |is_valid| rt::P4Header {
        is_valid,
        bitstrings: match is_valid {
            true => [&b"\x01"[..], b"\x02", b"\x08\x00"]
                .map(<[u8]>::to_vec)
                .to_vec(),
            false => Vec::new(),
        },
    };
    let asked = Kind::RegisterEntry(rt::RegisterEntry {
        register_id: objects.id("rich"),
        ..Default::default()
    });
    for valid in [false, true] {
        let written = rich(b"\x01", "PacketTooShort", header(valid));
        client.modify(written.clone()).await;
        assert_eq!(client.read(asked.clone()).await, [written]);
    }
    // A packet in which the header is valid changes the enum and the error.
    rig.receive(1, &frame(9, 9, 0x9999));
    assert_eq!(rig.sent_now(), None);
    let changed = rich(b"\x07", "NoMatch", header(true));
    assert_eq!(client.read(asked).await, [changed]);

    let short = rt::P4Header {
        is_valid: true,
        bitstrings: vec![vec![1]],
    };
    assert_eq!(
        client
            .refused(Type::Modify, rich(b"\x01", "NoMatch", short))
            .await,
        Code::InvalidArgument
    );
    let unknown = rich(b"\x01", "NoSuchError", header(true));
    assert_eq!(
        client.refused(Type::Modify, unknown).await,
        Code::OutOfRange
    );
    let wide = rich(b"\x01\x01", "NoMatch", header(true));
    assert_eq!(client.refused(Type::Modify, wide).await, Code::OutOfRange);
}
