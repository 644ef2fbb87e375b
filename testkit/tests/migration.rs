//! The rule of docs/MIGRATION.md, line by line: an old program with entries, a new one, what is told of each object, and what packets find then.

use std::sync::Arc;

use interp::Interp;
use ir::Program;
use packet::{Nanos, PortId};
use switch::{AdoptError, Carry, Device, DeviceConfig, Fate, MayLose, Migration};
use testkit::compile_text;

/// What programs differ in. A table `t` sends by the port that its action `go` gets; what misses it is dropped.
struct Parts {
    keys: &'static str,
    /// Parameters of `go`, and the port in their words.
    go: (&'static str, &'static str),
    more_actions: &'static str,
    listed: &'static str,
    properties: &'static str,
    declarations: &'static str,
    apply: &'static str,
    value_sets: &'static str,
    start: &'static str,
}

const PARTS: Parts = Parts {
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

fn text(parts: &Parts) -> String {
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

fn program(parts: &Parts) -> Arc<Program> {
    let text = text(parts);
    compile_text(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn device(program: &Arc<Program>) -> Device {
    Device::new(Arc::clone(program), &Interp, &DeviceConfig::default()).unwrap()
}

fn with_entries(program: &Arc<Program>, entries: &str) -> Device {
    let mut device = device(program);
    let file = entries::read(program, "entries", entries).unwrap_or_else(|e| panic!("{e:?}"));
    stf::apply_file(&mut device, &file).unwrap();
    device
}

/// Lines of an object that is not simply kept, and all of those that lose something.
fn told(migration: &Migration) -> Vec<String> {
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

/// A packet of the header's three fields, and the port by which it leaves; 0: it is dropped.
type Packet = ((u8, u16, u32), u32);

fn port_of(device: &mut Device, (a, b, c): (u8, u16, u32)) -> u32 {
    let bytes = [&[a][..], &b.to_be_bytes(), &c.to_be_bytes()].concat();
    let now = device.now();
    device.receive(PortId(1), &bytes).unwrap();
    device.step(Nanos(now.0 + 1));
    let mut port = 0;
    device.drain_sent(|out, _, _| port = out.0);
    port
}

/// Makes the change on a device with these entries, and sends packets then. Without the user's word it is refused where something is lost, and
/// nothing is changed; where nothing is lost, the word changes nothing.
fn check(old: &Parts, entries: &str, new: &Parts, lines: &[&str], packets: &[Packet]) -> Device {
    let (before, after) = (program(old), program(new));
    let mut changed = with_entries(&before, entries);
    let careful = Carry::State(MayLose::Nothing);
    let careful = changed.adopt(device(&after), careful);
    let migration = match &careful {
        Ok(migration) => migration.clone(),
        Err(AdoptError::Exceeded(error)) => panic!("{error}"),
        Err(AdoptError::WouldLose(refused)) => {
            assert!(refused.lines.iter().all(|line| line.lost > 0));
            assert!(Arc::ptr_eq(changed.program(), &before));
            let anything = Carry::State(MayLose::Anything);
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

const TWO: &str = "t { k: 1 } -> go(5)\nt { k: 200 } -> go(6)";

#[test]
fn entries_stay_where_key_and_actions_are_the_same() {
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6), ((2, 0, 0), 0)];
    check(&PARTS, TWO, &PARTS, &[], &packets);
    // Actions have other numbers.
    let more = Parts {
        more_actions: "action first() { } action second(bit<48> x) { s.mcast_grp = (bit<16>) x; }",
        listed: "first; second; go; drop;",
        ..PARTS
    };
    check(&PARTS, TWO, &more, &[], &packets);
    let back = check(
        &more,
        TWO,
        &PARTS,
        &[
            "t: entries what fits, 2 of 2: the action `I.first` is gone; the action `I.second` is gone",
        ],
        &packets,
    );
    assert_eq!(
        back.configuration().tables.values().next().unwrap().len(),
        2
    );
    // Places that grow and shrink.
    let large = Parts {
        properties: "default_action = drop(); size = 4096;",
        ..PARTS
    };
    check(
        &PARTS,
        TWO,
        &large,
        &["t: entries converted, 2 of 2: it takes 4096 instead of 1024"],
        &packets,
    );
    check(
        &large,
        TWO,
        &PARTS,
        &["t: entries what fits, 2 of 2: it takes 1024 instead of 4096"],
        &packets,
    );
    let one = Parts {
        properties: "default_action = drop(); size = 1;",
        ..PARTS
    };
    let lines = ["t: entries what fits, 1 of 2: it takes 1 instead of 1024"];
    check(
        &PARTS,
        TWO,
        &one,
        &lines,
        &[((1, 0, 0), 5), ((200, 0, 0), 0)],
    );
}

#[test]
fn a_table_that_is_gone_is_lost_and_a_new_one_is_empty() {
    let renamed = Parts {
        properties: "@name(\"I.u\") default_action = drop();",
        ..PARTS
    };
    let other = Parts {
        declarations: "action nothing() { } table u { key = { hdr.h.b : exact; } actions = { nothing; } }",
        apply: "u.apply();",
        ..renamed
    };
    check(
        &PARTS,
        TWO,
        &other,
        &["u: entries new, 0 of 0: "],
        &[((1, 0, 0), 5)],
    );
    let entries = "t { k: 1 } -> go(5)\nu { b: 3 } -> nothing()";
    let lines = ["u: entries lost, 0 of 1: the new program has no such table"];
    check(&other, entries, &PARTS, &lines, &[((1, 0, 0), 5)]);
}

#[test]
fn keys_change_their_width() {
    let key = |keys| Parts { keys, ..PARTS };
    let wide = key("hdr.h.b : exact @name(\"k\");");
    check(
        &PARTS,
        TWO,
        &wide,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 1, 0), 5), ((0, 200, 0), 6), ((0, 0x101, 0), 0)],
    );
    let entries = "t { k: 1 } -> go(5)\nt { k: 0x101 } -> go(6)";
    check(
        &wide,
        entries,
        &PARTS,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((1, 0, 0), 5)],
    );
    // Prefixes are of the same numbers: the bits in front are 0.
    let (lpm8, lpm16) = (
        key("hdr.h.a : lpm @name(\"k\");"),
        key("hdr.h.b : lpm @name(\"k\");"),
    );
    let entries = "t { k: 0xf0/4 } -> go(5)\nt { k: 0/0 } -> go(6)";
    check(
        &lpm8,
        entries,
        &lpm16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 0xf7, 0), 5), ((0, 0x1f7, 0), 6), ((0, 0x17, 0), 6)],
    );
    let entries = "t { k: 0x00f0/12 } -> go(5)\nt { k: 0x8000/1 } -> go(6)\nt { k: 0/1 } -> go(7)";
    check(
        &lpm16,
        entries,
        &lpm8,
        &["t: entries what fits, 2 of 3: the key `k` has 8 bits instead of 16"],
        &[((0xf7, 0, 0), 5), ((0x17, 0, 0), 7)],
    );
    let (ternary8, ternary16) = (
        key("hdr.h.a : ternary @name(\"k\");"),
        key("hdr.h.b : ternary @name(\"k\");"),
    );
    let entries = "t { k: 0x0f &&& 0x0f } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &ternary8,
        entries,
        &ternary16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 0xff, 0), 5), ((0, 0x1ff, 0), 6)],
    );
    let entries =
        "t { k: 0x0f &&& 0x0f } -> go(5) priority 2\nt { k: 0x100 &&& 0x100 } -> go(6) priority 1";
    check(
        &ternary16,
        entries,
        &ternary8,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((0xff, 0, 0), 5), ((1, 0, 0), 0)],
    );
    let (range8, range16) = (
        key("hdr.h.a : range @name(\"k\");"),
        key("hdr.h.b : range @name(\"k\");"),
    );
    let entries = "t { k: 5..9 } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &range8,
        entries,
        &range16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 9, 0), 5), ((0, 0x109, 0), 6)],
    );
    let entries = "t { k: 5..300 } -> go(5) priority 2\nt { k: 300..400 } -> go(6) priority 1";
    check(
        &range16,
        entries,
        &range8,
        &["t: entries what fits, 1 of 2: the key `k` has 8 bits instead of 16"],
        &[((255, 0, 0), 5), ((1, 0, 0), 0)],
    );
    let (any8, any16) = (
        key("hdr.h.a : optional @name(\"k\");"),
        key("hdr.h.b : optional @name(\"k\");"),
    );
    let entries = "t { k: 5 } -> go(5) priority 2\nt { k: _ } -> go(6) priority 1";
    check(
        &any8,
        entries,
        &any16,
        &["t: entries converted, 2 of 2: the key `k` has 16 bits instead of 8"],
        &[((0, 5, 0), 5), ((0, 0x105, 0), 6)],
    );
    let signed = "(int<8>) hdr.h.a : exact @name(\"k\");";
    let signed16 = "(int<16>) hdr.h.b : exact @name(\"k\");";
    let lines = ["t: entries lost, 0 of 1: the signed key `k` has another width"];
    check(
        &key(signed),
        "t { k: -1 } -> go(5)",
        &key(signed16),
        &lines,
        &[],
    );
}

#[test]
fn keys_change_their_match_kind() {
    let key = |keys| Parts { keys, ..PARTS };
    let (lpm, ternary, range, optional) = (
        key("hdr.h.a : lpm @name(\"k\");"),
        key("hdr.h.a : ternary @name(\"k\");"),
        key("hdr.h.a : range @name(\"k\");"),
        key("hdr.h.a : optional @name(\"k\");"),
    );
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6), ((2, 0, 0), 0)];
    check(
        &PARTS,
        TWO,
        &lpm,
        &["t: entries converted, 2 of 2: the key `k` is lpm instead of exact"],
        &packets,
    );
    for (new, kind) in [
        (&ternary, "ternary"),
        (&range, "range"),
        (&optional, "optional"),
    ] {
        let line = format!(
            "t: entries converted, 2 of 2: the key `k` is {kind} instead of exact; its entries get priorities: the longer prefix goes first"
        );
        check(&PARTS, TWO, new, &[&line], &packets);
    }
    let entries = "t { k: 0x10/4 } -> go(5)\nt { k: 0x12/8 } -> go(6)\nt { k: 0/0 } -> go(7)";
    let line = "t: entries converted, 3 of 3: the key `k` is ternary instead of lpm; its entries get priorities: the longer prefix goes first";
    let by_prefix = [((0x12, 0, 0), 6), ((0x13, 0, 0), 5), ((0x23, 0, 0), 7)];
    check(&lpm, entries, &ternary, &[line], &by_prefix);
    let smallest = Parts {
        properties: "default_action = drop(); largest_priority_wins = false;",
        ..ternary
    };
    check(&lpm, entries, &smallest, &[line], &by_prefix);
    // The smallest priority wins instead of the largest.
    let entries = "t { k: 1 } -> go(5) priority 1";
    let lines = ["t: entries lost, 0 of 1: the opposite priority wins"];
    check(&ternary, entries, &smallest, &lines, &[((1, 0, 0), 0)]);
    let lines =
        ["t: entries lost, 0 of 1: its entries have priorities, and the new ones have none"];
    check(&ternary, entries, &PARTS, &lines, &[((1, 0, 0), 0)]);
    // Between kinds with priorities, what the new one can say stays.
    let entries = "t { k: 1 } -> go(5) priority 1\nt { k: 0x10 &&& 0x10 } -> go(6) priority 2\nt { k: _ } -> go(7) priority 1";
    let lines = ["t: entries what fits, 2 of 3: the key `k` is range instead of ternary"];
    check(
        &ternary,
        entries,
        &range,
        &lines,
        &[((1, 0, 0), 5), ((0x10, 0, 0), 7)],
    );
    let entries = "t { k: 1 } -> go(5) priority 2\nt { k: _ } -> go(7) priority 1";
    let lines = ["t: entries converted, 2 of 2: the key `k` is ternary instead of optional"];
    check(
        &optional,
        entries,
        &ternary,
        &lines,
        &[((1, 0, 0), 5), ((2, 0, 0), 7)],
    );
}

#[test]
fn keys_come_go_and_change_places() {
    let key = |keys| Parts { keys, ..PARTS };
    let two = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : exact @name(\"l\");");
    let turned = key("hdr.h.b : exact @name(\"l\"); hdr.h.a : exact @name(\"k\");");
    let entries = "t { k: 1; l: 2 } -> go(5)";
    check(
        &two,
        entries,
        &turned,
        &["t: entries converted, 1 of 1: its keys come in another order"],
        &[((1, 2, 0), 5), ((2, 1, 0), 0)],
    );
    check(
        &PARTS,
        TWO,
        &two,
        &["t: entries lost, 0 of 2: the key `l` is new, and it is exact"],
        &[],
    );
    check(
        &two,
        entries,
        &PARTS,
        &["t: entries lost, 0 of 1: the key `l` is gone, and it was exact"],
        &[],
    );
    let loose = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : ternary @name(\"l\");");
    let line = "t: entries converted, 2 of 2: the key `l` is new: entries match any value of it; its entries get priorities: the longer prefix goes first";
    check(
        &PARTS,
        TWO,
        &loose,
        &[line],
        &[((1, 77, 0), 5), ((200, 0, 0), 6)],
    );
    let long = key("hdr.h.a : exact @name(\"k\"); hdr.h.b : lpm @name(\"l\");");
    let line = "t: entries converted, 2 of 2: the key `l` is new: entries match any value of it";
    check(
        &PARTS,
        TWO,
        &long,
        &[line],
        &[((1, 77, 0), 5), ((200, 0, 0), 6)],
    );
    let entries = "t { k: 1; l: 0/0 } -> go(5)\nt { k: 2; l: 0x100/8 } -> go(6)";
    let line = "t: entries what fits, 1 of 2: the key `l` is gone: entries stay that match any value of it";
    check(
        &long,
        entries,
        &PARTS,
        &[line],
        &[((1, 77, 0), 5), ((2, 0x100, 0), 0)],
    );
    // Another name is another key, unless `@name` says otherwise.
    let renamed = key("hdr.h.a : exact @name(\"other\");");
    check(
        &PARTS,
        TWO,
        &renamed,
        &["t: entries lost, 0 of 2: the key `other` is new, and it is exact"],
        &[],
    );
}

#[test]
fn actions_go_and_change_their_parameters() {
    let go = |params, port| Parts {
        go: (params, port),
        ..PARTS
    };
    let packets = [((1, 0, 0), 5), ((200, 0, 0), 6)];
    let wide = go("bit<70> port", "port");
    check(
        &PARTS,
        TWO,
        &wide,
        &[
            "t: entries converted, 2 of 2: the parameter `port` of the action `I.go` has 70 bits instead of 9",
        ],
        &packets,
    );
    let entries = "t { k: 1 } -> go(5)\nt { k: 200 } -> go(0x100000006)";
    check(
        &wide,
        entries,
        &PARTS,
        &[
            "t: entries what fits, 1 of 2: the parameter `port` of the action `I.go` has 9 bits instead of 70",
        ],
        &[((1, 0, 0), 5), ((200, 0, 0), 0)],
    );
    let (two, turned) = (
        go("bit<9> port, bit<48> x", "port + (bit<9>) x"),
        go("bit<48> x, bit<9> port", "port + (bit<9>) x"),
    );
    let entries = "t { k: 1 } -> go(port: 4, x: 1)";
    check(
        &two,
        entries,
        &turned,
        &[
            "t: entries converted, 1 of 1: the parameters of the action `I.go` come in another order",
        ],
        &[((1, 0, 0), 5)],
    );
    check(
        &PARTS,
        TWO,
        &two,
        &["t: entries what fits, 0 of 2: the parameter `x` of the action `I.go` is new"],
        &[],
    );
    check(
        &two,
        entries,
        &PARTS,
        &["t: entries what fits, 0 of 1: the parameter `x` of the action `I.go` is gone"],
        &[],
    );
    let (signed, more) = (
        go("int<8> n", "((bit<8>) (n + 10))"),
        go("int<16> n", "((bit<16>) (n + 10))"),
    );
    check(
        &signed,
        "t { k: 1 } -> go(-5)",
        &more,
        &[
            "t: entries converted, 1 of 1: the parameter `n` of the action `I.go` has 16 bits instead of 8",
        ],
        &[((1, 0, 0), 5)],
    );
    let entries = "t { k: 1 } -> go(-5)\nt { k: 2 } -> go(-500)";
    check(
        &more,
        entries,
        &signed,
        &[
            "t: entries what fits, 1 of 2: the parameter `n` of the action `I.go` has 8 bits instead of 16",
        ],
        &[((1, 0, 0), 5)],
    );
    check(
        &signed,
        "t { k: 1 } -> go(5)",
        &go("bit<9> n", "n"),
        &["t: entries what fits, 0 of 1: the parameter `n` of the action `I.go` has another type"],
        &[],
    );
    // An action that the table has no more, or only as default.
    let copy = Parts {
        more_actions: "action copy(bit<9> to) { s.egress_spec = to; }",
        listed: "go; copy; drop;",
        ..PARTS
    };
    let entries = "t { k: 1 } -> copy(5)\nt { k: 2 } -> go(6)";
    check(
        &copy,
        entries,
        &PARTS,
        &["t: entries what fits, 1 of 2: the action `I.copy` is gone"],
        &[((1, 0, 0), 0), ((2, 0, 0), 6)],
    );
    let only = Parts {
        listed: "go; @defaultonly copy; drop;",
        ..copy
    };
    check(
        &copy,
        entries,
        &only,
        &["t: entries what fits, 1 of 2: the action `I.copy` is gone"],
        &[((1, 0, 0), 0), ((2, 0, 0), 6)],
    );
}

#[test]
fn default_actions_stay_where_they_were_set() {
    let set = "t default -> go(9)";
    let other = Parts {
        properties: "default_action = go(3);",
        ..PARTS
    };
    check(&PARTS, set, &other, &[], &[((1, 0, 0), 9)]);
    check(&PARTS, "", &other, &[], &[((1, 0, 0), 3)]);
    let fixed = Parts {
        properties: "const default_action = drop();",
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &fixed,
        &["t: default action lost, 0 of 1: the default action is const"],
        &[((1, 0, 0), 0)],
    );
    let only = Parts {
        listed: "@tableonly go; drop;",
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &only,
        &["t: default action lost, 0 of 1: the action `I.go` is gone"],
        &[((1, 0, 0), 0)],
    );
    let wide = Parts {
        go: ("bit<32> port", "port"),
        ..PARTS
    };
    check(
        &PARTS,
        set,
        &wide,
        &[
            "t: default action converted, 1 of 1: the parameter `port` of the action `I.go` has 32 bits instead of 9",
            "t: entries converted, 0 of 0: the parameter `port` of the action `I.go` has 32 bits instead of 9",
        ],
        &[((1, 0, 0), 9)],
    );
}

#[test]
fn const_entries_are_the_program_s_and_initial_ones_the_device_s() {
    let ternary = "hdr.h.a : ternary @name(\"k\");";
    let consts = |properties| Parts {
        keys: ternary,
        properties,
        ..PARTS
    };
    let one = consts("default_action = drop(); const entries = { 1 : go(5); }");
    let two = consts("default_action = drop(); const entries = { 1 : go(6); 2 : go(7); }");
    check(&one, "", &two, &[], &[((1, 0, 0), 6), ((2, 0, 0), 7)]);
    check(&two, "", &one, &[], &[((1, 0, 0), 5), ((2, 0, 0), 0)]);
    // Initial entries that both programs have are the control plane's: those that it changed stay changed.
    let begin = |properties| Parts {
        properties,
        ..PARTS
    };
    let first = begin("default_action = drop(); entries = { 1 : go(5); 2 : go(6); }");
    let second = begin("default_action = drop(); entries = { 1 : go(7); 2 : go(6); 3 : go(8); }");
    let packets = [((1, 0, 0), 5), ((2, 0, 0), 6), ((3, 0, 0), 8)];
    check(&first, "", &second, &[], &packets);
    // An entry of the control plane in the place of a const one is lost, unless it is the same.
    let mixed = begin("default_action = drop(); entries = { const 1 : go(9); }");
    check(
        &PARTS,
        TWO,
        &mixed,
        &["t: entries what fits, 1 of 2: the program has a const entry in its place"],
        &[((1, 0, 0), 9), ((200, 0, 0), 6)],
    );
    let same = begin("default_action = drop(); entries = { const 1 : go(5); }");
    check(&PARTS, TWO, &same, &[], &[((1, 0, 0), 5), ((200, 0, 0), 6)]);
}

/// `count` packets that write the cells, and a program that keeps them in a register, a counter and a meter of `size` cells.
fn cells(register: &'static str, counter: &'static str, meter: &'static str) -> String {
    let register = match register {
        "" => String::new(),
        ty => format!("register<{ty}>(8) r;"),
    };
    format!("{register} {counter} {meter}")
}

fn with_cells(register: &'static str, counter: &'static str, meter: &'static str) -> Parts {
    let declarations = cells(register, counter, meter).leak();
    let apply = [
        ("register", "r.write(0, 1);"),
        ("counter(", "c.count((bit<32>) hdr.h.a);"),
        (
            "meter(",
            "bit<2> colour; m.execute_meter((bit<32>) hdr.h.a, colour);",
        ),
    ];
    let apply = apply
        .iter()
        .filter(|(what, _)| declarations.contains(what) && *what != "register");
    let apply: String = apply.map(|(_, code)| *code).collect();
    Parts {
        declarations,
        apply: apply.leak(),
        ..PARTS
    }
}

const COUNTER: &str = "counter(8, CounterType.packets) c;";
const METER: &str = "meter(8, MeterType.packets) m;";
const RATES: &str =
    "meter m[2] cir 1 cburst 1 pir 2 pburst 2\nmeter m[6] cir 1 cburst 1 pir 2 pburst 2";
const COUNTED: &str = "counter c[1] = packets 5 bytes 0\ncounter c[6] = packets 7 bytes 0";

#[test]
fn counters_change_their_size_and_unit() {
    let of = |counter| with_cells("", counter, "");
    let (old, small) = (of(COUNTER), of("counter(4, CounterType.packets) c;"));
    let large = of("counter(16, CounterType.packets) c;");
    let both = of("counter(8, CounterType.packets_and_bytes) c;");
    let bytes = of("counter(8, CounterType.bytes) c;");
    let count = |device: &Device, index| {
        let mut externs = device.program().externs.iter();
        let (id, _) = externs.find(|(_, one)| one.name.ends_with('c')).unwrap();
        device
            .read_counter(id, index)
            .map(|reading| reading.packets)
    };
    let kept = check(&old, COUNTED, &old, &[], &[((1, 0, 0), 0)]);
    assert_eq!((count(&kept, 1), count(&kept, 6)), (Some(6), Some(7)));
    let kept = check(
        &old,
        COUNTED,
        &large,
        &["c: counters converted, 2 of 2: it takes 16 instead of 8"],
        &[],
    );
    assert_eq!(
        (count(&kept, 1), count(&kept, 6), count(&kept, 15)),
        (Some(5), Some(7), Some(0))
    );
    let kept = check(
        &old,
        COUNTED,
        &small,
        &["c: counters what fits, 1 of 2: it takes 4 instead of 8"],
        &[],
    );
    assert_eq!((count(&kept, 1), count(&kept, 6)), (Some(5), None));
    let kept = check(
        &old,
        COUNTED,
        &both,
        &["c: counters converted, 2 of 2: it counts packets and bytes, of which one begins at 0"],
        &[],
    );
    assert_eq!(count(&kept, 6), Some(7));
    check(
        &old,
        COUNTED,
        &bytes,
        &["c: counters what fits, 0 of 2: it counts another unit"],
        &[],
    );
    check(
        &old,
        COUNTED,
        &PARTS,
        &["c: counters lost, 0 of 2: the new program has no such counter"],
        &[],
    );
    // One that has counted nothing is no loss.
    check(
        &old,
        "",
        &PARTS,
        &["c: counters lost, 0 of 0: the new program has no such counter"],
        &[],
    );
    check(&PARTS, "", &old, &["c: counters new, 0 of 0: "], &[]);
}

#[test]
fn meters_change_their_size_and_unit() {
    let of = |meter| with_cells("", "", meter);
    let (old, small) = (of(METER), of("meter(4, MeterType.packets) m;"));
    let (large, bytes) = (
        of("meter(16, MeterType.packets) m;"),
        of("meter(8, MeterType.bytes) m;"),
    );
    check(&old, RATES, &old, &[], &[]);
    check(
        &old,
        RATES,
        &large,
        &["m: meters converted, 2 of 2: it takes 16 instead of 8"],
        &[],
    );
    check(
        &old,
        RATES,
        &small,
        &["m: meters what fits, 1 of 2: it takes 4 instead of 8"],
        &[],
    );
    // What a meter has marked goes with it.
    for new in [&old, &large, &small] {
        let mut changed = with_entries(&program(&old), RATES);
        for _ in 0..3 {
            port_of(&mut changed, (2, 0, 0));
        }
        let anything = Carry::State(MayLose::Anything);
        changed.adopt(device(&program(new)), anything).unwrap();
        let mut externs = changed.program().externs.iter();
        let (id, _) = externs.find(|(_, one)| one.name.ends_with('m')).unwrap();
        let counts = changed.read_color_counts(id, 2).unwrap();
        let all = [counts.green, counts.yellow, counts.red];
        assert_eq!(all.map(|one| one.packets), [1, 1, 1]);
    }
    check(
        &old,
        RATES,
        &bytes,
        &["m: meters lost, 0 of 2: it meters another unit"],
        &[],
    );
    check(
        &old,
        RATES,
        &PARTS,
        &["m: meters lost, 0 of 2: the new program has no such meter"],
        &[],
    );
}

#[test]
fn registers_change_their_size_and_width() {
    let of = |register: &'static str| Parts {
        declarations: format!("{register} r;").leak(),
        apply: "r.write(7, 0);",
        ..PARTS
    };
    let old = of("register<bit<16>>(8)");
    let cells = "register r[1] = 5\nregister r[6] = 300";
    let read = |device: &Device, index| {
        let mut externs = device.program().externs.iter();
        let (id, _) = externs.find(|(_, one)| one.name.ends_with('r')).unwrap();
        device
            .read_register(id, index)
            .map(|cell| cell[0].to_u64().unwrap())
    };
    check(&old, cells, &old, &[], &[]);
    let kept = check(
        &old,
        cells,
        &of("register<bit<64>>(8)"),
        &["r: registers converted, 2 of 2: a cell has 64 bits instead of 16"],
        &[],
    );
    assert_eq!(
        (read(&kept, 1), read(&kept, 6), read(&kept, 2)),
        (Some(5), Some(300), Some(0))
    );
    let kept = check(
        &old,
        cells,
        &of("register<bit<8>>(8)"),
        &["r: registers what fits, 1 of 2: a cell has 8 bits instead of 16"],
        &[],
    );
    assert_eq!((read(&kept, 1), read(&kept, 6)), (Some(5), Some(0)));
    check(
        &old,
        cells,
        &of("register<bit<16>>(4)"),
        &["r: registers what fits, 1 of 2: it takes 4 instead of 8"],
        &[],
    );
    check(
        &old,
        cells,
        &of("register<bit<16>>(9)"),
        &["r: registers converted, 2 of 2: it takes 9 instead of 8"],
        &[],
    );
    check(&old, cells, &of("register<int<16>>(8)"), &[], &[]);
    check(
        &old,
        cells,
        &of("register<int<32>>(8)"),
        &["r: registers lost, 0 of 2: a cell has another type"],
        &[],
    );
    check(
        &old,
        cells,
        &PARTS,
        &["r: registers lost, 0 of 2: the new program has no such register"],
        &[],
    );
    let signed = of("register<int<8>>(8)");
    let kept = check(
        &signed,
        "register r[1] = -5",
        &of("register<int<16>>(8)"),
        &["r: registers converted, 1 of 1: a cell has 16 bits instead of 8"],
        &[],
    );
    assert_eq!(read(&kept, 1), Some(0xfffb));
}

#[test]
fn direct_counters_and_meters_come_and_go() {
    let with = |declarations, properties| Parts {
        declarations,
        properties,
        ..PARTS
    };
    let plain = with("", "default_action = drop();");
    let counted = with(
        "direct_counter(CounterType.packets) d;",
        "default_action = drop(); counters = d;",
    );
    let bytes = with(
        "direct_counter(CounterType.bytes) d;",
        "default_action = drop(); counters = d;",
    );
    let entries = "t { k: 1 } -> go(5) counter packets 9 bytes 0";
    let packets = [((1, 0, 0), 5)];
    let count = |device: &Device| {
        let (table, entries) = device.configuration().tables.iter().next().unwrap();
        let entry = entries.iter().next().unwrap().id;
        device
            .read_direct_counter(table, entry)
            .map(|reading| reading.packets)
    };
    assert_eq!(
        count(&check(&counted, entries, &counted, &[], &packets)),
        Some(10)
    );
    let wide = Parts {
        keys: "hdr.h.b : exact @name(\"k\");",
        ..counted
    };
    let lines = ["t: entries converted, 1 of 1: the key `k` has 16 bits instead of 8"];
    assert_eq!(
        count(&check(&counted, entries, &wide, &lines, &[((0, 1, 0), 5)])),
        Some(10)
    );
    check(
        &counted,
        entries,
        &plain,
        &["d: direct counters lost, 0 of 1: the table has no direct counter any more"],
        &packets,
    );
    check(
        &counted,
        entries,
        &bytes,
        &["d: direct counters what fits, 0 of 1: it counts another unit"],
        &packets,
    );
    assert_eq!(count(&check(&plain, TWO, &counted, &[], &packets)), Some(1));
    let metered = |ty: &str| Parts {
        declarations: format!("direct_meter<bit<2>>(MeterType.{ty}) d;").leak(),
        properties: "default_action = drop(); meters = d;",
        go: ("bit<9> port", "port; bit<2> colour; d.read(colour)"),
        ..PARTS
    };
    let entries = "t { k: 1 } -> go(5) meter cir 1 cburst 1 pir 2 pburst 2";
    let kept = check(
        &metered("packets"),
        entries,
        &metered("packets"),
        &[],
        &packets,
    );
    let entry = kept
        .configuration()
        .tables
        .values()
        .next()
        .unwrap()
        .iter()
        .next()
        .unwrap()
        .clone();
    assert!(entry.meter.as_ref().unwrap().config().is_some());
    check(
        &metered("packets"),
        entries,
        &metered("bytes"),
        &["d: direct meters lost, 0 of 1: it meters another unit"],
        &packets,
    );
    check(
        &metered("packets"),
        entries,
        &plain,
        &["d: direct meters lost, 0 of 1: the table has no direct meter any more"],
        &packets,
    );
}

#[test]
fn members_and_groups_stay_where_their_actions_do() {
    let spread = |size: u32, listed: &'static str| {
        Parts {
        declarations: format!("action_selector(HashAlgorithm.crc16, {size}, 16) s1; action other(bit<9> p) {{ s.egress_spec = p; }}").leak(),
        keys: "hdr.h.a : exact @name(\"k\"); hdr.h.c : selector;",
        listed,
        properties: "implementation = s1;",
        ..PARTS
    }
    };
    let both = spread(64, "go; other; drop;");
    let entries = "s1 member 1 -> go(5)\ns1 member 2 -> other(6)\ns1 group 1 { 1 } max_size 4\ns1 group 2 { 1, 2 } max_size 4\n\
        t { k: 1 } -> member 1\nt { k: 2 } -> member 2\nt { k: 3 } -> group 1\nt { k: 4 } -> group 2\nt { k: 5 } -> { go(7) }\nt { k: 6 } -> { other(8), go(8) }";
    let all = [
        ((1, 0, 0), 5),
        ((2, 0, 0), 6),
        ((3, 0, 0), 5),
        ((5, 0, 0), 7),
        ((6, 0, 0), 8),
    ];
    check(&both, entries, &both, &[], &all);
    check(
        &both,
        entries,
        &spread(128, "go; other; drop;"),
        &["s1: members converted, 2 of 2: it takes 128 instead of 64"],
        &all,
    );
    let gone = "the action `I.other` is gone";
    let lines = [
        format!("s1: members what fits, 1 of 2: {gone}"),
        "s1: groups what fits, 1 of 2: groups stay that keep all their members".to_owned(),
        format!("t: entries what fits, 3 of 6: {gone}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(
        &both,
        entries,
        &spread(64, "go; drop;"),
        &lines,
        &[
            ((1, 0, 0), 5),
            ((2, 0, 0), 0),
            ((3, 0, 0), 5),
            ((5, 0, 0), 7),
            ((6, 0, 0), 0),
        ],
    );
    let reason = "the new program has no such action profile or selector";
    let lines = [
        format!("s1: members lost, 0 of 2: {reason}"),
        format!("s1: groups lost, 0 of 2: {reason}"),
        "t: entries lost, 0 of 6: its actions are in no profile any more".to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(&both, entries, &PARTS, &lines, &[((1, 0, 0), 0)]);
    let lines = [
        "t: entries lost, 0 of 2: its actions are in a profile now",
        "s1: members new, 0 of 0: ",
    ];
    check(&PARTS, TWO, &spread(64, "go; drop;"), &lines, &[]);
    // The hash takes other fields: groups may choose other members.
    let other = Parts {
        keys: "hdr.h.a : exact @name(\"k\"); hdr.h.b : selector;",
        ..spread(64, "go; other; drop;")
    };
    check(
        &both,
        entries,
        &other,
        &["t: entries converted, 6 of 6: its selector hashes other fields"],
        &all,
    );
}

#[test]
fn value_sets_keep_members_that_fit() {
    let with = |value_sets, start| Parts {
        value_sets,
        start,
        properties: "default_action = go(3);",
        ..PARTS
    };
    let of8 = with(
        "value_set<bit<8>>(4) vs;",
        "transition select(hdr.h.a) { vs: accept; default: reject; }",
    );
    let of16 = with(
        "value_set<bit<16>>(4) vs;",
        "transition select(hdr.h.b) { vs: accept; default: reject; }",
    );
    let two = with(
        "value_set<bit<8>>(2) vs;",
        "transition select(hdr.h.a) { vs: accept; default: reject; }",
    );
    let entries = "value_set vs { 1, 2, 3 }";
    check(&of8, entries, &of8, &[], &[]);
    check(
        &of8,
        entries,
        &of16,
        &["vs: value set members converted, 3 of 3: the key `P.vs` has 16 bits instead of 8"],
        &[],
    );
    check(
        &of16,
        "value_set vs { 1, 0x101 }",
        &of8,
        &["vs: value set members what fits, 1 of 2: the key `P.vs` has 8 bits instead of 16"],
        &[],
    );
    check(
        &of8,
        entries,
        &two,
        &["vs: value set members what fits, 2 of 3: it takes 2 instead of 4"],
        &[],
    );
    check(
        &of8,
        entries,
        &PARTS,
        &["vs: value set members lost, 0 of 3: the new program has no such value set"],
        &[],
    );
    check(
        &PARTS,
        "",
        &of8,
        &["vs: value set members new, 0 of 0: "],
        &[],
    );
}

#[test]
fn groups_and_sessions_are_the_device_s() {
    let multicast = Parts {
        listed: "go; many; drop;",
        more_actions: "action many() { s.mcast_grp = 4; }",
        ..PARTS
    };
    let entries = "multicast 4 { port 7 }\nclone 3 { port 8 }\nt { k: 1 } -> many()";
    let kept = check(&multicast, entries, &multicast, &[], &[((1, 0, 0), 7)]);
    assert!(kept.replication().session(3).is_some());
    let mut kept = check(
        &multicast,
        entries,
        &PARTS,
        &["t: entries what fits, 0 of 1: the action `I.many` is gone"],
        &[],
    );
    assert!(kept.replication().session(3).is_some());
    kept.adopt(device(&program(&multicast)), Carry::Nothing)
        .unwrap();
    assert!(kept.replication().session(3).is_none());
}

#[test]
fn actions_that_go_to_another_profile_leave_their_entries_and_members_behind() {
    // `t` chooses `go` and, at first, `other` by its profile; `u` has another profile.
    let with = |of_t: &'static str, of_u: &'static str, listed, listed_by_u: &str| {
        Parts {
        declarations: format!(
            "action_profile(8) s1; action_profile(8) s2; action other(bit<9> p) {{ s.egress_spec = p; }}
             action none() {{ }}
             table u {{ key = {{ hdr.h.b : exact @name(\"k\"); }} actions = {{ {listed_by_u} }} implementation = {of_u}; }}"
        )
        .leak(),
        apply: "u.apply();",
        listed,
        properties: match of_t {
            "s1" => "implementation = s1;",
            _ => "implementation = s2;",
        },
        ..PARTS
    }
    };
    let before = with("s1", "s2", "go; other;", "none;");
    let entries = "s1 member 1 -> go(5)\ns1 member 2 -> other(6)\ns2 member 1 -> none()\n\
        t { k: 1 } -> member 1\nt { k: 2 } -> member 2\nu { k: 9 } -> member 1";
    // The action moves from the profile of `t` to that of `u`.
    check(
        &before,
        entries,
        &with("s1", "s2", "go;", "none; other;"),
        &[
            "s1: members what fits, 1 of 2: the action `I.other` is gone",
            "s1: groups what fits, 0 of 0: groups stay that keep all their members",
            "t: entries what fits, 1 of 2: the action `I.other` is gone",
        ],
        &[((1, 0, 0), 5), ((2, 0, 0), 0)],
    );
    // The tables change profiles: members stay where their profile has their action, entries do not follow.
    let elsewhere = "its actions are in another profile";
    let no_groups = "groups what fits, 0 of 0: groups stay that keep all their members";
    let lines = [
        "s1: members what fits, 0 of 2: the action `I.go` is gone; the action `I.other` is gone"
            .to_owned(),
        format!("s1: {no_groups}"),
        "s2: members what fits, 0 of 1: the action `I.none` is gone".to_owned(),
        format!("s2: {no_groups}"),
        format!("t: entries lost, 0 of 2: {elsewhere}"),
        format!("u: entries lost, 0 of 1: {elsewhere}"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let exchanged = with("s2", "s1", "go; other;", "none;");
    check(&before, entries, &exchanged, &lines, &[((1, 0, 0), 0)]);
}

#[test]
fn what_belongs_to_no_object_of_a_program_is_the_device_s() {
    let (before, after) = (program(&PARTS), program(&with_cells("", COUNTER, "")));
    let mut changed = device(&before);
    let hash = exec::HashParameters {
        toeplitz_key: vec![7; 40],
        ..changed.configuration().hash.as_ref().clone()
    };
    for change in [
        switch::Change::SetHostPorts(vec![4, 2]),
        switch::Change::SetExpireProfile(3, Some(Nanos(77))),
        switch::Change::SetHashParameters(hash.clone()),
    ] {
        changed.apply(change).unwrap();
    }
    changed
        .adopt(device(&after), Carry::State(MayLose::Nothing))
        .unwrap();
    let kept = changed.configuration();
    assert_eq!(kept.host_ports[..], [2, 4]);
    assert_eq!(kept.expire_profiles.timeout_ns(3), Some(77));
    assert_eq!(*kept.hash, hash);
}
