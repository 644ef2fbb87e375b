//! Test rig for migration: builds programs that differ in given parts, and checks a change between
//! them.

use std::sync::Arc;

use interp::Interp;
use ir::Program;
use packet::{Nanos, PortId};
use switch::{AdoptError, Device, DeviceConfig, Fate, MayLose, Migration, MigrationMode};
use testkit::compile_text;

/// Variable parts of a program. Its table `t` forwards to the port that its action `go` gets.
/// Packets that miss are dropped.
pub(crate) struct Parts {
    pub(crate) keys: &'static str,
    /// Parameters of `go`, and the expression for the port.
    pub(crate) go: (&'static str, &'static str),
    pub(crate) more_actions: &'static str,
    pub(crate) listed: &'static str,
    pub(crate) properties: &'static str,
    pub(crate) declarations: &'static str,
    pub(crate) apply: &'static str,
    pub(crate) value_sets: &'static str,
    pub(crate) start: &'static str,
}

pub(crate) const PARTS: Parts = Parts {
    keys: "hdr.h.a : exact @name(\"k\");",
    go: ("bit<9> port", "port"),
    more_actions: "",
    listed: "go; drop;",
    properties: "default_action = drop();",
    declarations: "",
    apply: "",
    value_sets: "",
    start: "transition accept;",
};

pub(crate) fn text(parts: &Parts) -> String {
    let Parts {
        keys,
        go: (params, port),
        more_actions,
        listed,
        properties,
        declarations,
        apply,
        value_sets,
        start,
    } = parts;
    format!(
        r#"
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<16> b; bit<32> c; }}
struct H {{ h_t h; }}
struct M {{ }}
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t s) {{
    {value_sets}
    state start {{ p.extract(hdr.h); {start} }}
}}
control V(inout H hdr, inout M m) {{ apply {{ }} }}
control I(inout H hdr, inout M m, inout standard_metadata_t s) {{
    {declarations}
    {more_actions}
    action drop() {{ mark_to_drop(s); }}
    action go({params}) {{ s.egress_spec = (bit<9>) {port}; }}
    table t {{ key = {{ {keys} }} actions = {{ {listed} }} {properties} }}
    apply {{ t.apply(); {apply} }}
}}
control E(inout H hdr, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H hdr) {{ apply {{ p.emit(hdr.h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#
    )
}

pub(crate) fn program(parts: &Parts) -> Arc<Program> {
    let text = text(parts);
    compile_text(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

pub(crate) fn device(program: &Arc<Program>) -> Device {
    Device::new(Arc::clone(program), &Interp, &DeviceConfig::default()).unwrap()
}

pub(crate) fn with_entries(program: &Arc<Program>, entries: &str) -> Device {
    let mut device = device(program);
    let file = entries::read(program, "entries", entries).unwrap_or_else(|e| panic!("{e:?}"));
    apply_entries::apply_file(&mut device, &file).unwrap();
    device
}

/// Formats the report lines of objects that are changed, or that lose something.
pub(crate) fn told(migration: &Migration) -> Vec<String> {
    let lines = migration.lines.iter();
    let lines = lines.filter(|line| line.fate != Fate::Kept || line.lost > 0);
    let told = lines.map(|line| {
        let name = line.name.rsplit('.').next().unwrap_or_default();
        let kept = line.held - line.lost;
        let (kind, fate, held) = (line.kind.name(), line.fate.name(), line.held);
        let reasons = line.reasons.join("; ");
        format!("{name}: {kind} {fate}, {kept} of {held}: {reasons}")
    });
    told.collect()
}

/// A packet with the header's three fields, and its egress port; 0 means that it is dropped.
pub(crate) type Packet = ((u8, u16, u32), u32);

pub(crate) fn port_of(device: &mut Device, (a, b, c): (u8, u16, u32)) -> u32 {
    let bytes = [&[a][..], &b.to_be_bytes(), &c.to_be_bytes()].concat();
    let now = device.now();
    device.receive(PortId(1), &bytes).unwrap();
    device.step(Nanos(now.0 + 1));
    let mut port = 0;
    device.drain_sent(|out, _, _| port = out.0);
    port
}

/// Changes the program of a device with these entries, checks the report, and sends packets.
/// Without permission to lose state, the change must be refused if something is lost, and change
/// nothing. If nothing is lost, the permission makes no difference.
pub(crate) fn check(
    old: &Parts,
    entries: &str,
    new: &Parts,
    lines: &[&str],
    packets: &[Packet],
) -> Device {
    let (before, after) = (program(old), program(new));
    let mut changed = with_entries(&before, entries);
    let careful = MigrationMode::State(MayLose::Nothing);
    let careful = changed.adopt(device(&after), careful);
    let migration = match &careful {
        Ok(migration) => migration.clone(),
        Err(AdoptError::Exceeded(error)) => panic!("{error}"),
        Err(AdoptError::WouldLose(refused)) => {
            assert!(refused.lines.iter().all(|line| line.lost > 0));
            assert!(Arc::ptr_eq(changed.program(), &before));
            let anything = MigrationMode::State(MayLose::Anything);
            changed.adopt(device(&after), anything).unwrap()
        }
    };
    assert_eq!(told(&migration), lines, "{entries}");
    assert_eq!(careful.is_err(), migration.losses().count() > 0);
    for &(packet, port) in packets {
        assert_eq!(
            port_of(&mut changed, packet),
            port,
            "{packet:?} of {entries}"
        );
    }
    changed.check_conservation().unwrap();
    changed
}

pub(crate) const TWO: &str = "t { k: 1 } -> go(5)\nt { k: 200 } -> go(6)";
