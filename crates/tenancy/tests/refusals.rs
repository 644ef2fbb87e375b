//! Invalid changes are refused with the reason and a hint, and have no effect.

mod common;

use std::net::Ipv4Addr;

use common::{forward, frame, hypervisor, id, marker, port, program, spec};
use packet::PortId;
use switch::{Action, Change, Limits, MayLose, MigrationMode, TableEntry};
use tenancy::{
    Condition, Connection, Encapsulation, HypervisorError, Quotas, Rule, Sharing, Spec,
    TenantSwitch, Vlan,
};

fn rule(name: &str, vpdp: u16, priority: i32, conditions: Vec<Condition>) -> Rule {
    Rule {
        name: name.into(),
        vpdp: id(vpdp),
        priority,
        conditions,
    }
}

/// Returns vPDP 1 with a program on ports 10 and 11, linked to vPDP 2 without a program; both
/// share port 5 by rules.
fn test() -> TenantSwitch {
    let mut hypervisor = hypervisor();
    hypervisor.share(PortId(5), Some(Sharing::Rules)).unwrap();
    for (number, ports) in [(1, [10, 11, 5]), (2, [20, 21, 5])] {
        let mut spec = spec(number, &ports);
        spec.ports.push(Connection::Open);
        if number == 2 {
            spec.quotas.limits = SMALL;
        }
        hypervisor.create(spec).unwrap();
    }
    hypervisor.load(id(1), marker(1)).unwrap();
    hypervisor.link(port(1, 3), port(2, 3)).unwrap();
    let vlan = vec![Condition::Vlan(Vlan::Id(7))];
    hypervisor.add_rule(rule("seven", 1, 0, vlan)).unwrap();
    hypervisor
}

/// Returns all readable state of a hypervisor as text.
fn picture(hypervisor: &TenantSwitch) -> String {
    let vpdps = hypervisor.vpdps().map(|vpdp| {
        let program = vpdp.device().map(|device| device.program().name.clone());
        let objects = vpdp.device().map(switch::Device::objects);
        let ports = hypervisor.ports(vpdp.id());
        let name = vpdp.name();
        format!(
            "{} {name} {ports:?} {:?} {program:?} {objects:?}",
            vpdp.id(),
            vpdp.quotas()
        )
    });
    let vpdps: Vec<String> = vpdps.collect();
    let shared: Vec<_> = hypervisor.shared().collect();
    format!("{vpdps:?} {shared:?} {:?}", hypervisor.rules())
}

const SMALL: Limits = Limits {
    entries: Some(1),
    state_bytes: Some(7),
    stages: Some(2),
    work: None,
};

/// A table with two entries, and one without.
const TABLES: &str = "
    action a() {}
    table two { key = { hdr.h.mark : exact; } actions = { a; } const entries = { 0 : a(); 1 : a(); } }
    table none { key = { hdr.h.mark : exact; } actions = { a; } }";

type Wrong = fn(&mut TenantSwitch) -> Result<(), HypervisorError>;

fn net(a: u8, length: u8) -> Condition {
    Condition::Ipv4Source(Ipv4Addr::new(a, 0, 0, 0), length)
}

const CASES: &[(&str, Wrong)] = &[
    ("there is no vPDP 9", |h| h.load(id(9), marker(1))),
    ("there is a vPDP 1 already", |h| {
        h.create(spec(1, &[30])).map(drop)
    }),
    ("vPDP 2 is called `tenant 2` already", |h| {
        let name = "tenant 2".into();
        h.create(Spec {
            name,
            ..Spec::default()
        })
        .map(drop)
    }),
    (
        "port 1 of vPDP 3 cannot have the switch's port 10, which is port 0 of vPDP 1",
        |h| h.create(spec(3, &[30, 10])).map(drop),
    ),
    (
        "cannot have the switch's port 5, which is port 0 of vPDP 1",
        |h| h.connect(port(1, 0), Some(PortId(5))),
    ),
    ("the switch's ports go up to 65535", |h| {
        h.connect(port(1, 0), Some(PortId(65_536)))
    }),
    ("there is no port 4 of vPDP 1", |h| {
        h.link(port(1, 4), port(2, 0))
    }),
    ("port 0 of vPDP 1 is connected already", |h| {
        h.link(port(1, 0), port(2, 0))
    }),
    ("port 3 of vPDP 1 is linked; unlink it first", |h| {
        h.link(port(1, 3), port(2, 0))
    }),
    ("port 3 of vPDP 1 is linked; unlink it first", |h| {
        h.connect(port(1, 3), None)
    }),
    ("port 0 of vPDP 1 has no link", |h| h.unlink(port(1, 0))),
    (
        "vPDP 2 is in use: port 3 of vPDP 2 is linked to port 3 of vPDP 1; remove that first: `polyplane tenant unlink 2:3`",
        |h| h.delete(id(2)),
    ),
    (
        "vPDP 1 is in use: port 3 of vPDP 1 is linked to port 3 of vPDP 2, the rule `seven` leads packets to it; remove that first: `polyplane tenant unlink 1:3`, `polyplane tenant delete-rule 'seven'`",
        |h| h.delete(id(1)),
    ),
    ("vPDP 1 is in use: the rule `seven`", |h| {
        h.unlink(port(1, 3)).and_then(|()| {
            let refused = h.delete(id(1));
            h.link(port(1, 3), port(2, 3)).and(refused)
        })
    }),
    (
        "a packet can meet both the rule `seven` and the rule `net`, which lead it to different vPDPs; give one of them a larger priority",
        |h| h.add_rule(rule("net", 2, 0, vec![net(10, 8)])),
    ),
    ("there is a rule `seven` already", |h| {
        h.add_rule(rule("seven", 1, 9, Vec::new()))
    }),
    (
        "there is no rule `eight`; the rules: `seven` of vPDP",
        |h| h.remove_rule("eight"),
    ),
    ("the rule `x` is for vPDP 9, which is not there", |h| {
        h.add_rule(rule("x", 9, 1, Vec::new()))
    }),
    (
        "about the switch's port 10, which is to be shared by rules",
        |h| h.add_rule(rule("x", 1, 1, vec![Condition::Port(PortId(10))])),
    ),
    ("two conditions are about the IPv4 source", |h| {
        h.add_rule(rule("x", 1, 1, vec![net(10, 8), net(10, 9)]))
    }),
    ("the IPv4 source has a prefix of 33 bits: 0 to 32", |h| {
        h.add_rule(rule("x", 1, 1, vec![net(10, 33)]))
    }),
    ("the rule `x`: VLAN 5000: 1 to 4094", |h| {
        h.add_rule(rule("x", 1, 1, vec![Condition::Vlan(Vlan::Id(5000))]))
    }),
    ("VLAN 0: 1 to 4094, or `none`", |h| {
        h.add_rule(rule("x", 1, 1, vec![Condition::Vlan(Vlan::Id(0))]))
    }),
    ("VLAN 4095: 1 to 4094", |h| {
        h.add_rule(rule("x", 1, 1, vec![Condition::Vlan(Vlan::Id(4095))]))
    }),
    (
        "the L4 source port is in no range 5..4: give the smaller number first",
        |h| {
            #[expect(clippy::reversed_empty_ranges)]
            h.add_rule(rule("x", 1, 1, vec![Condition::L4Source(5..=4)]))
        },
    ),
    ("they ask for two values of the EtherType", |h| {
        let arp = Condition::EtherType(0x806);
        h.add_rule(rule("x", 1, 1, vec![net(10, 8), arp]))
    }),
    (
        "must name a port of the switch that is shared by `rules`",
        |h| h.add_rule(rule("x", 1, 1, vec![Condition::Vlan(Vlan::Access(9))])),
    ),
    ("the rules `x` and `y` are for one vPDP and one port", |h| {
        let at_port = |vlan| vec![Condition::Port(PortId(5)), Condition::Vlan(vlan)];
        h.add_rules([
            rule("x", 1, 1, at_port(Vlan::Access(9))),
            rule("y", 1, 2, at_port(Vlan::Access(8))),
        ])
    }),
    ("all its rules for this VLAN have `untag`", |h| {
        let at_port = |vlan| vec![Condition::Port(PortId(5)), Condition::Vlan(vlan)];
        let also = vec![Condition::Vlan(Vlan::Id(9)), Condition::EtherType(0x806)];
        h.add_rules([
            rule("x", 1, 1, at_port(Vlan::Access(9))),
            rule("y", 1, 2, also),
        ])
    }),
    ("and none has `vlan none`", |h| {
        let at_port = |vlan| vec![Condition::Port(PortId(5)), Condition::Vlan(vlan)];
        h.add_rules([
            rule("x", 1, 1, at_port(Vlan::Access(9))),
            rule("y", 1, 2, at_port(Vlan::Untagged)),
        ])
    }),
    ("VLAN 4095: 1 to 4094", |h| {
        let access = Condition::Vlan(Vlan::Access(4095));
        h.add_rule(rule("x", 1, 1, vec![Condition::Port(PortId(5)), access]))
    }),
    ("`egress any` makes no sense at the switch's port 6", |h| {
        let share = tenancy::Share {
            sharing: Sharing::Described(Encapsulation::Plain),
            egress: tenancy::Egress::Any,
        };
        h.share_as(PortId(6), share)
    }),
    ("has more than 24 bits: 0 to 16777215", |h| {
        let mac = support::mac::MacAddress([2, 0, 0, 0, 0, 1]);
        let tunnel = tenancy::Tunnel {
            backbone: tenancy::Backbone {
                local: mac,
                remote: mac,
            },
            local: Ipv4Addr::LOCALHOST,
            remote: Ipv4Addr::LOCALHOST,
            vni: 1 << 24,
        };
        let sharing = Sharing::Described(Encapsulation::Vxlan(tunnel));
        h.share(PortId(6), Some(sharing))
    }),
    (
        "port 2 of vPDP 2 cannot have the switch's port 5, which is port 2 of vPDP 1",
        |h| h.share(PortId(5), None),
    ),
    ("vPDP 1 has a program", |h| h.load(id(1), marker(2))),
    (
        "the program has 4 stages, but the quota is 2; make it shorter",
        |h| {
            let code = "apply { none.apply(); standard.egress_spec = 1; none.apply(); }";
            h.load(id(2), program(&format!("{TABLES} {code}")))
        },
    ),
    (
        "take 8 bytes, but the quota is 7 bytes; declare fewer cells",
        |h| {
            h.load(
                id(2),
                program("register<bit<32>>(1) r; apply { r.write(0, 1); }"),
            )
        },
    ),
    (
        "0 entries are used and there would be 2, but the quota is 1; delete some first",
        |h| {
            h.load(
                id(2),
                program(&format!("{TABLES} apply {{ two.apply(); }}")),
            )
        },
    ),
    ("vPDP 1 keeps its quotas: counters, meters", |h| {
        let limits = SMALL;
        h.set_quotas(
            id(1),
            Quotas {
                limits,
                ..Quotas::default()
            },
        )
    }),
    ("vPDP 2 has no program", |h| {
        h.update(id(2), marker(2), MigrationMode::Nothing).map(drop)
    }),
    ("vPDP 2 has no program", |h| h.unload(id(2))),
    ("vPDP 1 had no other program", |h| {
        h.roll_back(id(1)).map(drop)
    }),
    ("has no place for 1 register of `In.seen`", |h| {
        let carry = MigrationMode::State(MayLose::Nothing);
        let other = program("apply { standard.egress_spec = 1; }");
        h.update(id(1), other, carry).map(drop)
    }),
];

#[test]
fn a_wrong_change_says_what_is_wrong_and_changes_nothing() {
    for (expected, change) in CASES {
        let mut hypervisor = test();
        let mut worker = hypervisor.workers(1).remove(0);
        // Creates state that can be lost.
        assert_eq!(forward(&mut worker, &mut [frame(10, &[0, 0])], 1).len(), 1);
        let before = picture(&hypervisor);
        let refusal = change(&mut hypervisor).expect_err(expected);
        let message = refusal.to_string();
        assert!(message.contains(expected), "{message}, not {expected}");
        assert_eq!(picture(&hypervisor), before, "{message}");
        assert_eq!(forward(&mut worker, &mut [frame(10, &[0, 0])], 2).len(), 1);
        hypervisor.check_conservation().unwrap();
    }
}

#[test]
fn rules_that_overlap_are_told_apart_by_priority() {
    let mut hypervisor = test();
    hypervisor
        .add_rule(rule("net", 2, 1, vec![net(10, 8)]))
        .unwrap();
    hypervisor
        .add_rule(rule("part", 2, 1, vec![net(10, 16)]))
        .unwrap();
    hypervisor
        .add_rule(rule("other", 1, 1, vec![net(11, 8)]))
        .unwrap();
    let refused = hypervisor.add_rule(rule("half", 1, 1, vec![net(8, 6)]));
    assert!(refused.is_err());
    assert_eq!(hypervisor.rules().len(), 4);
}

#[test]
fn a_rule_without_conditions_stands_alone_and_beside_others() {
    let mut hypervisor = test();
    hypervisor.remove_rule("seven").unwrap();
    hypervisor.add_rule(rule("rest", 1, 0, Vec::new())).unwrap();
    hypervisor
        .add_rule(rule("net", 2, 1, vec![net(10, 8)]))
        .unwrap();
    hypervisor.remove_rule("net").unwrap();
    let names: Vec<String> = hypervisor
        .rules()
        .iter()
        .map(|rule| rule.name.clone())
        .collect();
    assert_eq!(names, ["rest"]);
}

#[test]
fn an_import_that_is_refused_leaves_nothing_behind() {
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[1, 2])).unwrap();
    let tables = program(&format!("{TABLES} apply {{ two.apply(); }}"));
    hypervisor.load(id(1), tables).unwrap();
    let mut exported = hypervisor.export(id(1)).unwrap();
    hypervisor.unload(id(1)).unwrap();
    hypervisor.connect(port(1, 0), None).unwrap();
    exported.spec.name = "another".into();
    exported.spec.id = Some(id(2));
    exported.spec.quotas.limits = SMALL;
    exported.spec.ports = vec![Connection::Link(port(1, 0))];
    let refusal = hypervisor.import(exported.clone()).unwrap_err();
    let message = "vPDP 2 cannot run the program: 0 entries are used and there would be 2";
    assert!(refusal.to_string().starts_with(message), "{refusal}");
    assert_eq!(hypervisor.vpdps().count(), 1);
    assert_eq!(hypervisor.ports(id(1))[0], Connection::Open);

    exported.spec.quotas.limits = Limits::default();
    hypervisor.import(exported).unwrap();
    assert_eq!(hypervisor.ports(id(1))[0], Connection::Link(port(2, 0)));
}

#[test]
fn no_write_and_no_program_goes_beyond_the_quota_of_entries() {
    let mut hypervisor = hypervisor();
    let mut spec = spec(1, &[1, 2]);
    spec.quotas.limits.entries = Some(4);
    hypervisor.create(spec).unwrap();
    let tables = |code: &str| program(&format!("{TABLES} apply {{ {code} }}"));
    hypervisor.load(id(1), tables("none.apply();")).unwrap();
    let insert = |mark: u8| {
        let call = ir::ActionCall {
            action: 0,
            args: Vec::new(),
        };
        let entry = TableEntry {
            keys: vec![ir::KeyMatch::Exact(bits::Value::truncated(mark.into(), 8))],
            priority: None,
            action: Action::Call(call),
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        Change::Insert(ir::TableId::new(0), entry)
    };
    let device = hypervisor.device_mut(id(1)).unwrap();
    for mark in 0..2 {
        device.apply(insert(mark)).unwrap();
    }
    let copy = switch::Replica {
        port: PortId(1),
        instance: 0,
    };
    device.apply(Change::SetMulticast(1, vec![copy])).unwrap();
    let refused = [
        insert(9),
        Change::SetMulticast(1, vec![copy; 2]),
        Change::SetMulticast(2, Vec::new()),
        Change::SetCloneSession(1, switch::CloneSession::default()),
    ];
    for change in refused {
        let changes = device.changes();
        let refusal = device.apply(change).unwrap_err();
        assert_eq!(refusal.code, switch::ControlCode::ResourceExhausted);
        let told = refusal.message.contains("4 entries are used")
            && refusal.message.contains("the quota is 4");
        assert!(told, "{refusal}");
        assert_eq!((device.entries(), device.changes()), (4, changes));
    }
    // A table with two entries, beside the table that is migrated.
    let more = tables("two.apply(); none.apply();");
    let nothing = MigrationMode::State(MayLose::Nothing);
    let refusal = hypervisor.update(id(1), more, nothing).unwrap_err();
    let message =
        "vPDP 1 keeps its program: 4 entries are used and there would be 6, but the quota is 4";
    assert!(refusal.to_string().starts_with(message), "{refusal}");
    assert_eq!(hypervisor.device_mut(id(1)).unwrap().entries(), 4);
    let mut quotas = Quotas::default();
    quotas.limits.entries = Some(3);
    let refusal = hypervisor.set_quotas(id(1), quotas).unwrap_err();
    let message = "vPDP 1 keeps its quotas: 4 entries are used, but the quota is 3; delete some";
    assert!(refusal.to_string().starts_with(message), "{refusal}");
}

#[test]
fn all_that_takes_memory_counts_as_entries() {
    let selected = program(
        "action a() { standard.egress_spec = 1; }
         action_selector(HashAlgorithm.crc16, 32w64, 32w4) several;
         table t { key = { hdr.h.mark : exact; hdr.h.number : selector; } actions = { a; } implementation = several; }
         apply { t.apply(); }",
    );
    let call = || ir::ActionCall {
        action: 0,
        args: Vec::new(),
    };
    let insert = |mark: u8, action| {
        let entry = TableEntry {
            keys: vec![ir::KeyMatch::Exact(bits::Value::truncated(mark.into(), 8))],
            priority: None,
            action,
            idle_timeout: None,
            meter: None,
            counter: None,
        };
        Change::Insert(ir::TableId::new(0), entry)
    };
    let profile = ir::ExternId::new(0);
    let member = |id| Change::SetMember {
        profile,
        id,
        action: selected.tables[ir::TableId::new(0)].actions[0].action,
        args: Vec::new(),
    };
    let group = |id, members: &[u32]| Change::SetGroup {
        profile,
        id,
        members: members.iter().map(|member| (*member, 1)).collect(),
    };
    let session = switch::CloneSession::default;
    // Each adds this number of entries, and has no other effect.
    let cases = [
        (member(1), 1),
        (member(2), 1),
        (group(1, &[1]), 2),
        (group(1, &[1, 2]), 1),
        (group(2, &[]), 1),
        (insert(1, Action::Group(1)), 1),
        (insert(2, Action::Call(call())), 2),
        (insert(3, Action::OneShot(vec![(call(), 1); 2])), 1 + 2 + 3),
        (Change::SetMulticast(1, Vec::new()), 1),
        (Change::SetCloneSession(1, session()), 1),
    ];
    let mut hypervisor = hypervisor();
    hypervisor.create(spec(1, &[1, 2])).unwrap();
    hypervisor.load(id(1), selected.clone()).unwrap();
    let device = hypervisor.device_mut(id(1)).unwrap();
    for (change, more) in cases {
        let entries = device.entries();
        let limit = |entries| Limits {
            entries: Some(entries),
            ..Limits::default()
        };
        device.set_limits(limit(entries + more - 1)).unwrap();
        let refusal = device.apply(change.clone()).unwrap_err();
        assert_eq!(refusal.code, switch::ControlCode::ResourceExhausted);
        device.set_limits(limit(entries + more)).unwrap();
        device.apply(change.clone()).unwrap();
        assert_eq!(device.entries(), entries + more, "{change:?}");
    }
    let table = ir::TableId::new(0);
    let entry = device.configuration().tables[table].iter().next();
    let entry = entry.unwrap().id;
    let mut keep = |bytes| device.apply(Change::SetMetadata(table, entry, vec![0; bytes].into()));
    keep(switch::MAX_METADATA).unwrap();
    let refusal = keep(switch::MAX_METADATA + 1).unwrap_err();
    assert_eq!(refusal.code, switch::ControlCode::ResourceExhausted);
}
