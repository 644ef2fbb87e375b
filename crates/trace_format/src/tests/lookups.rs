//! Output of tables: keys, entries, actions and action profiles.

use super::*;

#[test]
fn a_lookup_shows_the_key_the_entry_and_the_action_with_its_parameters() {
    let via = TraceEvent::Action {
        action: ActionId::new(1),
        params: vec![v(1, 9), v(0x0200_0000_0202, 48)],
    };
    let key = || vec![v(0x0a00_0205, 32)];
    check_after(
        &[stage(1)],
        &[lookup(0, key(), Some(0)), via],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    hit: entry 0
      ingress.routes { hdr.ipv4.dst: 10.0.2.0/24; } -> ingress.via(port: 1, mac: 02:00:00:00:02:02)
    action ingress.via(port: 1, mac: 0x020000000202 (02:00:00:00:02:02))  router.p4:7  action via(\n",
    );
    let drop = TraceEvent::Action {
        action: ActionId::new(2),
        params: vec![],
    };
    check_after(
        &[stage(1)],
        &[lookup(0, key(), None), drop],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    miss: the default action runs
    action ingress.drop()                                       router.p4:9\n",
    );
    check_after(
        &[stage(1)],
        &[lookup(0, key(), Some(99))],
        "    table ingress.routes
    key hdr.ipv4.dst  lpm  0x0a000205 (167772677, 10.0.2.5)
    hit: entry 99
      (added by a packet: it matches this key)\n",
    );
}

#[test]
fn the_text_of_an_entry_can_be_read_back() {
    let program = program();
    for (table, entry) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)] {
        let steps = steps_of(&[lookup(table, vec![], Some(entry))]);
        let [
            Step::Lookup {
                entry: Some(entry), ..
            },
        ] = &steps[..]
        else {
            panic!("{steps:?}");
        };
        let text = entry.text.as_deref().expect("the entry is there");
        if let Err(errors) = entries::read(&program, "trace", text) {
            panic!("{}", errors[0]);
        }
    }
}

#[test]
fn entries_are_written_as_entries_files_write_them() {
    let key = || vec![v(0x800, 16), v(3, 9), v(1, 1), v(9, 8)];
    for (entry, expect) in [
        (
            0,
            "    hit: entry 0 of the program
      ingress.acl { hdr.ethernet.type: 2048; port: 1..5; ok: true; ttl: _; } -> ingress.drop() priority 10\n",
        ),
        (
            1,
            "    hit: entry 1
      ingress.acl { hdr.ethernet.type: _; port: 1; ok: _; ttl: 16 &&& 240; } -> NoAction() priority 5\n",
        ),
    ] {
        let keys = "    table ingress.acl
    key hdr.ethernet.type  ternary   0x0800 (2048, EtherType.Ipv4)
    key port               range     3
    key ok                 optional  true
    key ttl                ternary   9\n";
        let expect = format!("{keys}{expect}");
        check_after(&[stage(1)], &[lookup(1, key(), Some(entry))], &expect);
    }
}

#[test]
fn an_action_profile_shows_the_group_and_the_member() {
    for (entry, group, member, expect) in [
        (
            0,
            Some(7),
            Some(2),
            "{ dst: 5; } -> group 7\n    group 7 chooses member 2\n",
        ),
        (
            0,
            Some(7),
            None,
            "{ dst: 5; } -> group 7\n    group 7 has no member\n",
        ),
        (
            1,
            None,
            Some(3),
            "{ dst: 10.0.0.6; } -> member 3\n    member 3\n",
        ),
        (
            2,
            None,
            Some(1 << 31 | 1),
            "{ dst: 6; } -> { ingress.via(port: 1, mac: 02:00:00:00:00:01) }\n",
        ),
        (
            3,
            Some(1 << 31 | 4),
            Some(1 << 31 | 2),
            "{ dst: 7; } -> { ingress.via(port: 1, mac: 02:00:00:00:00:01), \
             ingress.via(port: 2, mac: 02:00:00:00:00:01) weight 4 }\n    one of its actions is chosen\n",
        ),
    ] {
        let found = TraceEvent::Lookup {
            table: TableId::new(2),
            key: vec![v(5, 32)],
            hit: true,
            entry: Some(EntryId(entry)),
            member,
            group,
        };
        let expect = format!(
            "    table ingress.choose\n    key dst  exact  5\n    hit: entry {entry}\n      ingress.choose {expect}"
        );
        check_after(&[stage(1)], &[found], &expect);
    }
}
