//! Tests of the migration of counters, meters and registers.

use switch::{Device, MayLose, MigrationMode};

use crate::rig::*;

/// Returns declarations of a register of eight cells of this type, a counter and a meter. Empty
/// arguments are omitted.
fn cells(register: &'static str, counter: &'static str, meter: &'static str) -> String {
    let register = match register {
        "" => String::new(),
        ty => format!("register<{ty}>(8) r;"),
    };
    format!("{register} {counter} {meter}")
}

/// Returns a program with these cells. Its packets use the counter and the meter.
pub(crate) fn with_cells(
    register: &'static str,
    counter: &'static str,
    meter: &'static str,
) -> Parts {
    let declarations = cells(register, counter, meter).leak();
    let apply = [
        ("counter(", "c.count((bit<32>) hdr.h.a);"),
        (
            "meter(",
            "bit<2> colour; m.execute_meter((bit<32>) hdr.h.a, colour);",
        ),
    ];
    let apply = apply.iter().filter(|(what, _)| declarations.contains(what));
    let apply: String = apply.map(|(_, code)| *code).collect();
    Parts {
        declarations,
        apply: apply.leak(),
        ..PARTS
    }
}

pub(crate) const COUNTER: &str = "counter(8, CounterType.packets) c;";
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
    // Losing a counter that is 0 is no loss.
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
    // A meter's colour counters migrate with it.
    for new in [&old, &large, &small] {
        let mut changed = with_entries(&program(&old), RATES);
        for _ in 0..3 {
            port_of(&mut changed, (2, 0, 0));
        }
        let anything = MigrationMode::State(MayLose::Anything);
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
