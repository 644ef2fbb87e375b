//! Tests of table entries: what is accepted, read back, and seen by packets.

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity as Kind;
use p4info::p4::v1::update::Type;
use tonic::Code;

use crate::rig::*;

/// Returns an entry of the table with exact, ternary, range and optional fields.
fn mixed(objects: &Objects, matches: Vec<rt::FieldMatch>, priority: i32) -> rt::TableEntry {
    rt::TableEntry {
        priority,
        ..entry(
            objects.id("mixed"),
            matches,
            does(objects.id("forward"), &[b"\x01"]),
        )
    }
}

#[tokio::test]
async fn entries_of_all_match_kinds_are_read_back_as_they_were_written() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = || does(objects.id("forward"), &[b"\x01"]);
    let port = || exact(4, b"\x02");
    let entries = [
        entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01\x02")],
            forward(),
        ),
        entry(
            objects.id("lpm_table"),
            vec![lpm(1, b"\x0a\x00\x00\x00\x00\x00", 8)],
            forward(),
        ),
        entry(objects.id("lpm_table"), vec![], forward()),
        mixed(
            &objects,
            vec![
                ternary(1, b"\x08\x00", b"\xff\x00"),
                range(2, b"\x01", b"\x05"),
                optional(3, b"\x00"),
                port(),
            ],
            3,
        ),
        mixed(&objects, vec![port()], 3),
        mixed(&objects, vec![port()], 4),
    ];
    for one in entries {
        client.insert(Kind::TableEntry(one.clone())).await;
        let mut key = one.clone();
        key.action = None;
        let found = client.read(Kind::TableEntry(key)).await;
        assert!(
            found.contains(&Kind::TableEntry(one.clone())),
            "{one:?} in {found:?}"
        );
    }
}

#[tokio::test]
async fn byte_strings_of_any_length_are_one_value_and_read_back_shortest() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |value: &[u8], port: &[u8]| {
        let forward = does(objects.id("forward"), &[port]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, value)],
            forward,
        ))
    };
    client
        .insert(one(b"\x00\x00\x00\x00\x00\x00\x00\x07", b"\x00\x01\x02"))
        .await;
    assert_eq!(
        client.refused(Type::Insert, one(b"\x07", b"\x01")).await,
        Code::AlreadyExists
    );
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(client.read(all).await, [one(b"\x07", b"\x01\x02")]);
    for (value, port) in [
        (&b""[..], &b"\x01"[..]),
        (b"\x01\x00\x00\x00\x00\x00\x00", b"\x01"),
        (b"\x01", b""),
        (b"\x01", b"\x02\x00"),
    ] {
        assert_eq!(
            client.refused(Type::Insert, one(value, port)).await,
            Code::InvalidArgument
        );
    }
}

#[tokio::test]
async fn malformed_matches_are_invalid_and_the_error_names_the_field() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let port = || exact(4, b"\x02");
    let bad = [
        (vec![], "ingress_port"),
        (vec![port(), port()], "twice"),
        (vec![port(), exact(9, b"\x01")], "9"),
        (vec![port(), exact(1, b"\x01")], "TERNARY"),
        (
            vec![port(), ternary(1, b"\x01", b"\x00")],
            "leave the field out",
        ),
        (vec![port(), ternary(1, b"\x03", b"\x01")], "mask"),
        (
            vec![port(), ternary(1, b"\x01\x00\x00", b"\xff")],
            "hdr.ethernet.type",
        ),
        (vec![port(), range(2, b"\x05", b"\x01")], "low bound"),
        (
            vec![port(), range(2, b"\x00", b"\xff")],
            "leave the field out",
        ),
        (vec![port(), optional(3, b"")], "meta.b"),
        (
            vec![
                port(),
                rt::FieldMatch {
                    field_id: 3,
                    field_match_type: None,
                },
            ],
            "field_match_type",
        ),
    ];
    for (matches, word) in bad {
        let one = Kind::TableEntry(mixed(&objects, matches, 1));
        let refused = client.write(Type::Insert, one).await.expect_err(word);
        assert_eq!(Code::from(refused.canonical_code), Code::InvalidArgument);
        assert!(refused.message.contains("In.mixed"), "{}", refused.message);
        assert!(
            refused.message.contains(word),
            "{word}: {}",
            refused.message
        );
    }
    for lpm in [
        lpm(1, b"\x01", 0),
        lpm(1, b"\x01", 8),
        lpm(1, b"\x01", 49),
        lpm(1, b"\x01", -1),
    ] {
        let forward = does(objects.id("forward"), &[b"\x01"]);
        let one = Kind::TableEntry(entry(objects.id("lpm_table"), vec![lpm], forward));
        assert_eq!(
            client.refused(Type::Insert, one).await,
            Code::InvalidArgument
        );
    }
}

#[tokio::test]
async fn priorities_are_needed_by_ternary_range_and_optional_fields_and_by_no_others() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    for priority in [0, -1] {
        let one = Kind::TableEntry(mixed(&objects, vec![exact(4, b"\x02")], priority));
        assert_eq!(
            client.refused(Type::Insert, one).await,
            Code::InvalidArgument
        );
    }
    let one = rt::TableEntry {
        priority: 1,
        ..entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            does(objects.id("drop"), &[]),
        )
    };
    assert_eq!(
        client.refused(Type::Insert, Kind::TableEntry(one)).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn malformed_actions_are_refused_with_the_specification_s_codes() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = objects.id("forward");
    let twice = {
        let mut action = call(forward, &[b"\x01"]);
        action.params.push(action.params[0].clone());
        Some(rt::TableAction {
            r#type: Some(rt::table_action::Type::Action(action)),
        })
    };
    let member = Some(rt::TableAction {
        r#type: Some(rt::table_action::Type::ActionProfileMemberId(1)),
    });
    let bad = [
        (None, Code::InvalidArgument),
        (does(0, &[]), Code::InvalidArgument),
        (does(12345, &[]), Code::InvalidArgument),
        (does(objects.id("read_meter"), &[]), Code::InvalidArgument),
        (does(forward, &[]), Code::InvalidArgument),
        (does(forward, &[b"\x01", b"\x01"]), Code::InvalidArgument),
        (twice, Code::InvalidArgument),
        (member, Code::InvalidArgument),
        (does(objects.id("NoAction"), &[]), Code::PermissionDenied),
    ];
    for (action, code) in bad {
        let one = Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            action,
        ));
        assert_eq!(
            client.refused(Type::Insert, one.clone()).await,
            code,
            "{one:?}"
        );
    }
}

#[tokio::test]
async fn an_entry_lives_from_insert_to_delete() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |port: &[u8]| {
        let forward = does(objects.id("forward"), &[port]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            forward,
        ))
    };
    assert_eq!(
        client.refused(Type::Modify, one(b"\x03")).await,
        Code::NotFound
    );
    assert_eq!(
        client.refused(Type::Delete, one(b"\x03")).await,
        Code::NotFound
    );
    client.insert(one(b"\x03")).await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 3);
    client.modify(one(b"\x04")).await;
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 4);
    // Only the key of an entry to delete is used.
    let mut nonsense = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        does(99, &[b""]),
    );
    nonsense.idle_timeout_ns = -5;
    client.delete(Kind::TableEntry(nonsense)).await;
    assert_eq!(
        client.refused(Type::Delete, one(b"\x03")).await,
        Code::NotFound
    );
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent_now(), None);
}

#[tokio::test]
async fn a_modification_without_action_keeps_the_action_and_sets_the_rest() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let mut one = entry(
        objects.id("metered"),
        vec![exact(1, b"\x01")],
        does(objects.id("read_meter"), &[]),
    );
    one.metadata = b"first".to_vec();
    one.idle_timeout_ns = 1_000_000_000_000;
    client.insert(Kind::TableEntry(one.clone())).await;
    let mut change = entry(objects.id("metered"), vec![exact(1, b"\x01")], None);
    change.metadata = b"second".to_vec();
    client.modify(Kind::TableEntry(change)).await;
    one.metadata = b"second".to_vec();
    one.idle_timeout_ns = 0;
    let all = Kind::TableEntry(entry(objects.id("metered"), vec![], None));
    assert_eq!(client.read(all).await, [Kind::TableEntry(one)]);
}

#[tokio::test]
async fn a_full_table_is_exhausted() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |number: u8| {
        let forward = does(objects.id("forward"), &[b"\x01"]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, &[number])],
            forward,
        ))
    };
    for number in 0..16 {
        client.insert(one(number)).await;
    }
    assert_eq!(
        client.refused(Type::Insert, one(16)).await,
        Code::ResourceExhausted
    );
}

#[tokio::test]
async fn tables_that_are_not_there_and_tables_without_key_are_refused() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let forward = || does(objects.id("forward"), &[b"\x01"]);
    let in_table = |id| Kind::TableEntry(entry(id, vec![], forward()));
    assert_eq!(
        client.refused(Type::Insert, in_table(0)).await,
        Code::InvalidArgument
    );
    assert_eq!(
        client.refused(Type::Insert, in_table(0x0200_0001)).await,
        Code::NotFound
    );
    let keyless = in_table(objects.id("keyless"));
    assert_eq!(
        client.refused(Type::Insert, keyless).await,
        Code::InvalidArgument
    );
    let mut constant = entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x01")],
        forward(),
    );
    constant.is_const = true;
    for ty in [Type::Insert, Type::Modify, Type::Delete] {
        let one = Kind::TableEntry(constant.clone());
        assert_eq!(client.refused(ty, one).await, Code::InvalidArgument);
    }
    let request = client.request(Type::Unspecified, in_table(objects.id("exact_table")));
    let refused = client.grpc.write(request).await.expect_err("no type");
    assert_eq!(
        errors(&refused)[0].canonical_code,
        Code::InvalidArgument as i32
    );
}

#[tokio::test]
async fn the_default_entry_is_modified_and_reset_and_nothing_else() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let default = |table: &str, action| rt::TableEntry {
        is_default_action: true,
        ..entry(objects.id(table), vec![], action)
    };
    let forward = || does(objects.id("forward"), &[b"\x05"]);
    for ty in [Type::Insert, Type::Delete] {
        let one = Kind::TableEntry(default("exact_table", forward()));
        assert_eq!(client.refused(ty, one).await, Code::InvalidArgument);
    }
    let mut matching = default("exact_table", forward());
    matching.r#match = vec![exact(1, b"\x01")];
    assert_eq!(
        client
            .refused(Type::Modify, Kind::TableEntry(matching))
            .await,
        Code::InvalidArgument
    );
    let mut urgent = default("exact_table", forward());
    urgent.priority = 1;
    assert_eq!(
        client.refused(Type::Modify, Kind::TableEntry(urgent)).await,
        Code::InvalidArgument
    );
    let mut idle = default("metered", None);
    idle.idle_timeout_ns = 1;
    assert_eq!(
        client.refused(Type::Modify, Kind::TableEntry(idle)).await,
        Code::InvalidArgument
    );
    let constant = Kind::TableEntry(default("lpm_table", forward()));
    assert_eq!(
        client.refused(Type::Modify, constant).await,
        Code::PermissionDenied
    );
    let only_table = Kind::TableEntry(default("exact_table", does(objects.id("drop"), &[])));
    assert_eq!(
        client.refused(Type::Modify, only_table).await,
        Code::PermissionDenied
    );
    let indirect = Kind::TableEntry(default("indirect", forward()));
    assert_eq!(
        client.refused(Type::Modify, indirect).await,
        Code::PermissionDenied
    );

    let mut set = default("exact_table", forward());
    set.metadata = b"mine".to_vec();
    client.modify(Kind::TableEntry(set.clone())).await;
    let asked = || Kind::TableEntry(default("exact_table", None));
    assert_eq!(client.read(asked()).await, [Kind::TableEntry(set)]);
    rig.receive(1, &frame(77, 2, 0x9999));
    assert_eq!(rig.sent().expect("the default forwards").0, 5);
    client.modify(asked()).await;
    let original = default("exact_table", does(objects.id("NoAction"), &[]));
    assert_eq!(client.read(asked()).await, [Kind::TableEntry(original)]);
}

#[tokio::test]
async fn const_entries_are_read_with_their_priorities_and_stay() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let constant = |matches, priority, port: &[u8]| rt::TableEntry {
        priority,
        is_const: true,
        ..entry(
            objects.id("const_table"),
            matches,
            does(objects.id("forward"), &[port]),
        )
    };
    let expected = [
        constant(vec![ternary(1, b"\x08\x00", b"\xff\x00")], 2, b"\x01"),
        constant(vec![ternary(1, b"\x08\x06", b"\xff\xff")], 1, b"\x02"),
    ];
    let all = Kind::TableEntry(entry(objects.id("const_table"), vec![], None));
    let found = client.read(all).await;
    assert_eq!(found, expected.clone().map(Kind::TableEntry));
    let mut written = expected[0].clone();
    written.is_const = false;
    for ty in [Type::Insert, Type::Delete, Type::Modify] {
        let one = Kind::TableEntry(written.clone());
        assert_eq!(
            client.refused(ty, one).await,
            Code::PermissionDenied,
            "{ty:?}"
        );
    }
    // An update without action and direct resources is allowed and changes nothing.
    written.action = None;
    client.modify(Kind::TableEntry(written)).await;
}

#[tokio::test]
async fn of_initial_entries_only_the_const_ones_stay() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |ty: &[u8], port: &[u8]| {
        entry(
            objects.id("begun"),
            vec![exact(1, ty)],
            does(objects.id("forward"), &[port]),
        )
    };
    let constant = Kind::TableEntry(one(b"\x08\x00", b"\x04"));
    assert_eq!(
        client.refused(Type::Modify, constant.clone()).await,
        Code::PermissionDenied
    );
    assert_eq!(
        client.refused(Type::Delete, constant).await,
        Code::PermissionDenied
    );
    client
        .modify(Kind::TableEntry(one(b"\x08\x06", b"\x04")))
        .await;
    client
        .delete(Kind::TableEntry(one(b"\x08\x06", b"\x04")))
        .await;
    client.insert(Kind::TableEntry(one(b"\x01", b"\x04"))).await;
    let all = Kind::TableEntry(entry(objects.id("begun"), vec![], None));
    assert_eq!(client.read(all).await.len(), 2);
}

#[tokio::test]
async fn translated_strings_are_accepted_and_read_back() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = |port: &[u8]| {
        let action = does(objects.id("forward_by_name"), &[port]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, port)],
            action,
        ))
    };
    for port in [&b"eth0"[..], b"eth1", b"5"] {
        client.insert(one(port)).await;
    }
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    let found = client.read(all).await;
    for port in [&b"eth0"[..], b"eth1"] {
        assert!(found.contains(&one(port)), "{found:?}");
    }
    // The address 0x35 is the string "5", which is translated to the number 5.
    rig.receive(1, &frame(0x35, 2, 0x9999));
    assert_eq!(rig.sent_now().map(|(port, _)| port), Some(5));
    assert_eq!(
        client.refused(Type::Insert, one(b"")).await,
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn idle_timeouts_are_for_tables_that_have_them() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let with = |table: &str, timeout| rt::TableEntry {
        idle_timeout_ns: timeout,
        ..entry(
            objects.id(table),
            vec![exact(1, b"\x01")],
            does(objects.id("NoAction"), &[]),
        )
    };
    let other = rt::TableEntry {
        action: does(objects.id("forward"), &[b"\x01"]),
        ..with("exact_table", 5)
    };
    assert_eq!(
        client.refused(Type::Insert, Kind::TableEntry(other)).await,
        Code::InvalidArgument
    );
    let mut asked = with("metered", 0);
    asked.time_since_last_hit = Some(rt::table_entry::IdleTimeout { elapsed_ns: 0 });
    assert_eq!(
        client
            .refused(Type::Insert, Kind::TableEntry(asked.clone()))
            .await,
        Code::InvalidArgument
    );
    client
        .insert(Kind::TableEntry(with("metered", 10_000_000_000_000)))
        .await;
    asked.action = None;
    match &client.read(Kind::TableEntry(asked)).await[..] {
        [Kind::TableEntry(found)] => {
            assert_eq!(found.idle_timeout_ns, 10_000_000_000_000);
            assert!(
                found
                    .time_since_last_hit
                    .as_ref()
                    .expect("it was asked for")
                    .elapsed_ns
                    >= 0
            );
        }
        other => panic!("{other:?}"),
    }
    let mut elsewhere = entry(objects.id("exact_table"), vec![], None);
    elsewhere.time_since_last_hit = Some(rt::table_entry::IdleTimeout { elapsed_ns: 0 });
    let refused = client
        .try_read(vec![Kind::TableEntry(elsewhere)])
        .await
        .expect_err("no time-outs");
    assert_eq!(
        errors(&refused)[0].canonical_code,
        Code::InvalidArgument as i32
    );
}

#[tokio::test]
async fn constraints_of_tables_and_actions_are_enforced_and_the_part_that_fails_is_told() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let port = || exact(4, b"\x02");
    let ninth = mixed(&objects, vec![port(), optional(3, b"\x09")], 1);
    let error = client
        .write(Type::Insert, Kind::TableEntry(ninth.clone()))
        .await
        .expect_err("it is forbidden");
    assert_eq!(Code::from(error.canonical_code), Code::InvalidArgument);
    for word in ["In.mixed", "@entry_restriction", "`meta.b != 9`", "0x09"] {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    let part = || {
        vec![
            port(),
            ternary(1, b"\x08\x00", b"\xff\x00"),
            range(2, b"\x01", b"\x02"),
        ]
    };
    let low = Kind::TableEntry(mixed(&objects, part(), 2));
    assert_eq!(
        client.refused(Type::Insert, low).await,
        Code::InvalidArgument
    );
    client
        .insert(Kind::TableEntry(mixed(&objects, part(), 3)))
        .await;
    // An entry to delete need not satisfy the constraint.
    assert_eq!(
        client.refused(Type::Delete, Kind::TableEntry(ninth)).await,
        Code::NotFound
    );
    let flood = |group: &[u8]| {
        let action = does(objects.id("flood"), &[group]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            action,
        ))
    };
    for group in [&b"\x00"[..], b"\xff\xff"] {
        assert_eq!(
            client.refused(Type::Insert, flood(group)).await,
            Code::InvalidArgument
        );
    }
    client.insert(flood(b"\x01")).await;
}

#[tokio::test]
async fn a_mask_is_compared_with_minus_one() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let text = ALL.replace(
        "meta.b != 9",
        "hdr.ethernet.type::mask == -1 && meta.b::mask == -(-0)",
    );
    let action = rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    client.load(action, &text).await.expect("it is accepted");
    let objects = Objects::of(&client.config().await);
    let with_mask = |mask: &[u8]| {
        let fields = vec![exact(4, b"\x02"), ternary(1, b"\x08\x00", mask)];
        Kind::TableEntry(mixed(&objects, fields, 3))
    };
    let refused = client.refused(Type::Insert, with_mask(b"\xff\x00")).await;
    assert_eq!(refused, Code::InvalidArgument);
    client.insert(with_mask(b"\xff\xff")).await;
}

#[tokio::test]
async fn a_constraint_that_cannot_be_read_is_told_when_the_program_is_set() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    for (bad, word) in [
        ("meta.z != 9", "meta.z"),
        ("meta.b !=", "is missing before `;`"),
        (
            "meta.b::low != 9",
            "there is no `::low` of type optional<8>",
        ),
        ("meta.b == true", "of different kinds"),
        ("meta.b + 1 == 9", "`+` is not part of the language"),
    ] {
        let text = ALL.replace("meta.b != 9", bad);
        let action = rt::set_forwarding_pipeline_config_request::Action::Verify;
        let refused = client.load(action, &text).await.expect_err(bad);
        assert_eq!(refused.code(), Code::InvalidArgument);
        for word in ["In.mixed", word] {
            assert!(refused.message().contains(word), "{}", refused.message());
        }
    }
}

#[tokio::test]
async fn entries_may_share_a_priority_and_a_higher_one_wins() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let to = |port: u8, priority, matches| rt::TableEntry {
        action: does(objects.id("forward"), &[&[port]]),
        ..mixed(&objects, matches, priority)
    };
    // Both match packets of port 2. So does the third, with a higher priority.
    let of_type = |ty: &[u8], mask: &[u8]| vec![exact(4, b"\x02"), ternary(1, ty, mask)];
    let entries = [
        to(3, 5, of_type(b"\x99\x00", b"\xff\x00")),
        to(3, 5, of_type(b"\x00\x99", b"\x00\xff")),
        to(4, 6, vec![exact(4, b"\x02")]),
    ];
    for one in &entries {
        client.insert(Kind::TableEntry(one.clone())).await;
    }
    rig.receive(2, &frame(0x77, 1, 0x9999));
    assert_eq!(rig.sent().map(|(port, _)| port), Some(4));
    client.delete(Kind::TableEntry(entries[2].clone())).await;
    rig.receive(2, &frame(0x77, 1, 0x9999));
    assert_eq!(rig.sent().map(|(port, _)| port), Some(3));
}

#[tokio::test]
async fn the_time_since_the_last_hit_is_told_without_a_time_out_too() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let one = entry(
        objects.id("metered"),
        vec![exact(1, b"\x01")],
        does(objects.id("NoAction"), &[]),
    );
    client.insert(Kind::TableEntry(one)).await;
    let mut asked = entry(objects.id("metered"), vec![exact(1, b"\x01")], None);
    let silent = client.read(Kind::TableEntry(asked.clone())).await;
    asked.time_since_last_hit = Some(rt::table_entry::IdleTimeout { elapsed_ns: 0 });
    let told = client.read(Kind::TableEntry(asked)).await;
    let time = |found: &[Kind]| match found {
        [Kind::TableEntry(found)] => found.time_since_last_hit.as_ref().map(|t| t.elapsed_ns),
        other => panic!("{other:?}"),
    };
    assert_eq!(time(&silent), None);
    assert!(time(&told).is_some_and(|elapsed| elapsed >= 0));
}

#[tokio::test]
async fn zero_is_a_value_as_others() {
    let rig = Rig::empty();
    let (mut client, _stream, objects) = rig.loaded().await;
    let zero = Kind::TableEntry(entry(
        objects.id("exact_table"),
        vec![exact(1, b"\x00")],
        does(objects.id("forward"), &[b"\x00"]),
    ));
    client.insert(zero.clone()).await;
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(client.read(all).await, [zero]);
    rig.receive(1, &frame(0, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 0);
}

#[tokio::test]
async fn translated_numbers_have_the_controller_s_width_and_the_device_s_room() {
    let rig = Rig::empty();
    let mut client = rig.client().await;
    let _stream = client.open(Some(1), "").await;
    let text = ALL.replace(
        r#"@p4runtime_translation("test/port_name", string)"#,
        r#"@p4runtime_translation("test/port", 32)"#,
    );
    let action = rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    client.load(action, &text).await.expect("it loads");
    let config = client.config().await;
    let objects = Objects::of(&config);
    let info = config.p4info.expect("it has one");
    let forward = info.actions.iter().find(|action| {
        let preamble = action.preamble.as_ref();
        preamble.is_some_and(|one| one.id == objects.id("forward_by_name"))
    });
    assert_eq!(forward.expect("it is there").params[0].bitwidth, 32);
    let one = |port: &[u8]| {
        let action = does(objects.id("forward_by_name"), &[port]);
        Kind::TableEntry(entry(
            objects.id("exact_table"),
            vec![exact(1, b"\x01")],
            action,
        ))
    };
    // The device's ports have 9 bits.
    for port in [&b"\x02\x00"[..], b"\x01\x00\x00\x00\x00"] {
        assert_eq!(
            client.refused(Type::Insert, one(port)).await,
            Code::InvalidArgument
        );
    }
    client.insert(one(b"\x00\x00\x01\x02")).await;
    let all = Kind::TableEntry(entry(objects.id("exact_table"), vec![], None));
    assert_eq!(client.read(all).await, [one(b"\x01\x02")]);
    rig.receive(1, &frame(1, 2, 0x9999));
    assert_eq!(rig.sent().expect("it is forwarded").0, 0x102);
}
