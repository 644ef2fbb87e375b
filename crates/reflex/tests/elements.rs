//! Elements at a device: entries that others delete, and permissions that do not fit.

mod common;

use std::net::Ipv4Addr;
use std::sync::Arc;

use common::{bed, example, read};
use consensus::{ElementChange, ElementId, LogIndex, Term};
use reflex::{
    BindReason, ElementAnswer, ElementIndex, ElementWrite, EntryKey, KeyPart, Loops,
    ManagedElement, ReflexIndex, Setting, WritePlace, WriteResult,
};
use switch::Change;
use telemetry::{FlowKey, L4Ports};

const ALL: [KeyPart; 5] = [
    KeyPart::Source,
    KeyPart::Destination,
    KeyPart::Protocol,
    KeyPart::SourcePort,
    KeyPart::DestinationPort,
];

#[test]
fn an_entry_that_an_operator_deleted_is_written_again_by_the_next_change() {
    let bed = bed("slow_link", |fabric, loops| (fabric, loops));
    let loops = bed.plane.get().plane().loops().clone();
    let leaf = bed.devices.iter().find(|(name, _)| name == "leaf1");
    let device = &leaf.unwrap().1;
    let program = device.with(|device| Arc::clone(device.program()));
    let mut element = ManagedElement::new(&loops, ElementIndex(0), &program).unwrap();
    let mut tables = program.tables.iter();
    let table = tables.find(|(_, table)| table.name == "IntIngress.detour");
    let (table, _) = table.unwrap();
    let flow = FlowKey {
        source: [10, 0, 1, 1].into(),
        destination: [10, 0, 2, 1].into(),
        protocol: 17,
        ports: Some(L4Ports {
            source: 1024,
            destination: 6000,
        }),
    };
    let mut take = |index: u64, port: u32| {
        let write = ElementWrite {
            reflex: ReflexIndex(0),
            place: WritePlace::Entry(EntryKey::of_flow(&flow, &ALL).unwrap()),
            setting: Some(Setting::Action(Some(port))),
        };
        let change = ElementChange {
            element: ElementId(1),
            index: LogIndex(index),
            previous: LogIndex(index - 1),
            key: write.name(),
            change: write.encode(),
        };
        device.with(|device| element.take(device, Term(1), &change))
    };
    let entries = || device.with(|device| device.configuration().tables[table].len());
    let applied = |index| ElementAnswer::Has(LogIndex(index), WriteResult::Applied);
    assert_eq!(take(1, 3), applied(1));
    assert_eq!(entries(), 1);
    device.with(|device| {
        let entry = device.configuration().tables[table].iter().next();
        let id = entry.unwrap().id;
        device.apply(Change::Delete(table, id)).unwrap();
    });
    assert_eq!(take(2, 4), applied(2));
    assert_eq!(entries(), 1);
    assert_eq!(take(3, 3), applied(3));
    assert_eq!(entries(), 1);
}

#[test]
fn a_replaced_route_comes_back_if_its_removal_comes_after_a_restart() {
    let bed = bed("routing_loop", |fabric, loops| (fabric, loops));
    let loops = bed.plane.get().plane().loops().clone();
    let spine = bed.devices.iter().find(|(name, _)| name == "spine1");
    let device = &spine.unwrap().1;
    let program = device.with(|device| Arc::clone(device.program()));
    let flow = FlowKey {
        source: [10, 0, 1, 1].into(),
        destination: [10, 0, 2, 1].into(),
        protocol: 17,
        ports: None,
    };
    let prefixes = [(Ipv4Addr::new(10, 0, 2, 0), 25)];
    let key = EntryKey::of_prefix(&flow, &[KeyPart::Destination], &prefixes).unwrap();
    let write = ElementWrite {
        reflex: ReflexIndex(0),
        place: WritePlace::Entry(key),
        setting: Some(Setting::Action(Some(2))),
    };
    let change = ElementChange {
        element: ElementId(1),
        index: LogIndex(1),
        previous: LogIndex(0),
        key: write.name(),
        change: write.encode(),
    };
    let removal = ElementChange {
        index: LogIndex(2),
        change: None,
        ..change
    };
    let objects = || device.with(|device| device.objects());
    let before = objects();
    // The store may have forgotten the removal.
    for is_sent in [true, false] {
        let mut element = ManagedElement::new(&loops, ElementIndex(0), &program).unwrap();
        let answer = device.with(|device| element.take(device, Term(1), &change));
        assert_eq!(
            answer,
            ElementAnswer::Has(LogIndex(1), WriteResult::Applied)
        );
        let replaced = objects();
        assert_eq!(replaced.len(), before.len());
        assert_ne!(replaced, before);
        element.restart(true);
        if is_sent {
            let answer = device.with(|device| element.take(device, Term(1), &removal));
            assert_eq!(
                answer,
                ElementAnswer::Has(LogIndex(2), WriteResult::Applied)
            );
            assert_eq!(objects(), before);
        }
        device.with(|device| element.remove_others(device));
        assert_eq!(objects(), before);
    }
}

#[test]
fn a_key_in_another_order_than_that_of_the_table_is_refused_if_names_show_it() {
    let loops = read(&example("slow_link").join("loops.toml"));
    let bed = bed("slow_link", |fabric, loops| (fabric, loops));
    let leaf = bed.devices.iter().find(|(name, _)| name == "leaf1");
    let program = leaf.unwrap().1.with(|device| Arc::clone(device.program()));
    let order = r#""ip.src", "ip.dst", "ip.protocol", "l4.src", "l4.dst""#;
    assert!(loops.contains(order));
    let bind = |key: &str| {
        let loops = Loops::read("loops.toml", &loops.replace(order, key)).unwrap();
        let bound = ManagedElement::new(&loops, ElementIndex(0), &program);
        bound.map(|_| ()).map_err(|error| error.reason)
    };
    assert_eq!(bind(order), Ok(()));
    let keys = bed.plane.get().keys(ElementIndex(0));
    let pairs = "detour: hdr.ipv4.src = ip.src, hdr.ipv4.dst = ip.dst, \
                 hdr.ipv4.protocol = ip.protocol, meta.l4_src = l4.src, meta.l4_dst = l4.dst";
    assert_eq!(keys, [pairs]);
    for (key, wrong, part) in [
        (
            r#""ip.dst", "ip.src", "ip.protocol", "l4.src", "l4.dst""#,
            "hdr.ipv4.src",
            KeyPart::Destination,
        ),
        (
            r#""ip.src", "ip.dst", "ip.protocol", "l4.dst", "l4.src""#,
            "meta.l4_src",
            KeyPart::DestinationPort,
        ),
    ] {
        let expected = BindReason::Order(wrong.to_owned(), part);
        assert_eq!(bind(key), Err(expected));
    }
    let width = bind(r#""ip.protocol", "ip.src", "ip.dst", "l4.src", "l4.dst""#);
    assert!(matches!(width, Err(BindReason::Width(_, 32))), "{width:?}");
}
