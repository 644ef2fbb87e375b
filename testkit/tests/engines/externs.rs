//! Tests of the effects of extern functions and methods.

use super::common::{Engines, load, load_with};
use exec::{ControlVerdict, DropReason, Natives};
use ir::ExternId;

fn program(externs: &str, code: &str) -> Engines {
    load_with(&text(externs, code), &natives())
}

fn text(externs: &str, code: &str) -> String {
    format!(
        "program t psa\nerrors {{NoError}}\nenum PSA_MeterColor_t {{RED, GREEN, YELLOW}}\nfield a: bit<8>\nfield b: bit<16>\nfield w: bit<32>\nfield wide: bit<128>\nfield ok: bool\nfield colour: enum PSA_MeterColor_t\nfield i: int<8>\n{externs}\ncontrol c {{\n stage c.code: action next end {{\n{code}\n}}\n}}\n"
    )
}

fn natives() -> Natives {
    let mut natives = Natives::default();
    natives.insert("twice", |args, results| {
        results[0] = args[0].wrapping_mul(2);
        results[1] = args[1];
    });
    natives
}

/// Runs code on a packet, with field values before and after.
fn check(externs: &str, code: &str, before: &[(&str, u128)], after: &[(&str, u128)]) {
    let mut loaded = program(externs, code);
    let mut packet = loaded.packet(b"0123456789");
    packet.cursor = 16;
    for (name, value) in before {
        loaded.set(&mut packet, name, *value);
    }
    assert_eq!(loaded.control("c", &mut packet), ControlVerdict::Done);
    for (name, expected) in after {
        assert_eq!(
            loaded.number(&packet, name),
            *expected,
            "{name} after {code}"
        );
    }
}

/// The digits 1 to 9 in two fields: the check input of the CRC catalogue.
const NINE: [(&str, u128); 2] = [("a", 0x31), ("wide", 0x3233_3435_3637_3839)];

#[test]
fn hashes_run_over_the_packed_list() {
    let check = |number: u32, expected: u128| {
        let code =
            format!("call hash (={number}, 32w0x0, 32w0xffffffff, {{a, wide[63:0]}}, out w);");
        check("", &code, &NINE, &[("w", expected)]);
    };
    check(0, 0xcbf4_3926);
    check(1, 0xcbf4_3926);
    check(2, 0xbb3d);
    check(3, 0xbb3d);
    check(5, 0x3132_3334_3536_3738 % 0xffff_ffff);
    check(
        6,
        u128::from(!(0x3132u32 + 0x3334 + 0x3536 + 0x3738 + 0x3900) as u16 - 1),
    );
    check(7, 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900);
}

#[test]
fn a_hash_stays_in_its_range() {
    check(
        "",
        "call hash (=2, 16w0x64, 16w0xa, {a, wide[63:0]}, out b);",
        &NINE,
        &[("b", 100 + 0xbb3d % 10)],
    );
    check(
        "",
        "call hash (=2, 16w0x64, 16w0x0, {a, wide[63:0]}, out b);",
        &NINE,
        &[("b", 100)],
    );
    // Bases, ranges and results of more than 64 bits. The sum may be wider than its base.
    let high = 1u128 << 100;
    check(
        "",
        &format!("call hash (=2, 128w{high:#x}, 128w0xa, {{a, wide[63:0]}}, out wide);"),
        &NINE,
        &[("wide", high + 0xbb3d % 10)],
    );
    check(
        "",
        &format!(
            "call hash (=2, 128w{:#x}, 128w{high:#x}, {{a, wide[63:0]}}, out b);",
            high + 7
        ),
        &NINE,
        &[("b", 0xbb3d + 7)],
    );
    check(
        "",
        "call hash (=2, 64w0xffffffffffffffff, 64w0xa, {a, wide[63:0]}, out wide);",
        &NINE,
        &[("wide", u128::from(u64::MAX) + 0xbb3d % 10)],
    );
    let engine = "extern h: hash width 32 crc32";
    check(
        engine,
        "call hash.get on h ({a, wide[63:0]}, out w);",
        &NINE,
        &[("w", 0xcbf4_3926)],
    );
    check(
        engine,
        "call hash.get on h ({a, wide[63:0]}, out b);",
        &NINE,
        &[("b", 0x3926)],
    );
}

#[test]
fn checksums_are_verified_and_updated_with_payload_too() {
    let sum = |data: &[u8]| u128::from(exec::externs::hash::csum16(data));
    let code = "call update_checksum (=6, ok, {a, wide[63:0]}, out b);";
    let nine = sum(b"123456789");
    check(
        "",
        code,
        &[&NINE[..], &[("ok", 1)]].concat(),
        &[("b", nine)],
    );
    check(
        "",
        code,
        &[&NINE[..], &[("ok", 0), ("b", 5)]].concat(),
        &[("b", 5)],
    );
    let code = "call update_checksum_with_payload (=6, true, {a, wide[63:0]}, out b);";
    check("", code, &NINE, &[("b", sum(b"12345678923456789"))]);
    let mut loaded = program("", "call verify_checksum (=6, ok, {a, wide[63:0]}, b);");
    let mut verify = |ok: u128, b: u128| {
        let mut packet = loaded.packet(&[]);
        for (name, value) in NINE.iter().chain(&[("ok", ok), ("b", b)]) {
            loaded.set(&mut packet, name, *value);
        }
        loaded.control("c", &mut packet);
        packet.requests.checksum_error
    };
    assert!(!verify(1, nine));
    assert!(verify(1, nine ^ 1));
    assert!(!verify(0, nine ^ 1));
}

#[test]
fn running_checksums_add_and_subtract() {
    let units = "extern ones: internet_checksum\nextern crc: checksum width 32 crc32";
    let code = "call internet_checksum.add on ones ({b, w});
        call internet_checksum.subtract on ones ({w});
        call internet_checksum.get_state on ones (out w);
        call internet_checksum.get on ones (out b);";
    check(
        units,
        code,
        &[("b", 0x1234), ("w", 0xfedc_ba98)],
        &[("w", 0x1234), ("b", 0xedcb)],
    );
    let code = "call internet_checksum.set_state on ones (b); call internet_checksum.add on ones ({16w0x1}); call internet_checksum.get_state on ones (out b);
        call internet_checksum.clear on ones (); call internet_checksum.get on ones (out w);";
    check(units, code, &[("b", 0xffff)], &[("b", 1), ("w", 0xffff)]);
    let code = "call checksum.clear on crc (); call checksum.update on crc ({a}); call checksum.update on crc ({wide[63:0]}); call checksum.get on crc (out w);";
    check(units, code, &NINE, &[("w", 0xcbf4_3926)]);
    let code = "call csum_replace2 (16w0xdd2f, 16w0x5555, 16w0x3285, out b);";
    check("", code, &[], &[("b", 0)]);
}

#[test]
fn registers_keep_what_packets_write_and_have_bounds() {
    let register = "extern r: register (bit<8>, bit<128>) size 4 initial (8w0x5, 128w0x6) as tuple<bit<8>, bit<128>>";
    let mut loaded = program(
        register,
        "call register.read on r (b, out {a, wide}); call register.write on r (b, {a + 8w0x1, wide << 8w0x40});",
    );
    let mut run = |index: u128| {
        let mut packet = loaded.packet(&[]);
        loaded.set(&mut packet, "b", index);
        loaded.control("c", &mut packet);
        (loaded.number(&packet, "a"), loaded.number(&packet, "wide"))
    };
    assert_eq!(run(2), (5, 6));
    assert_eq!(run(2), (6, 6 << 64));
    assert_eq!(run(3), (5, 6));
    assert_eq!(run(4), (0, 0));
    assert_eq!(run(0xffff), (0, 0));
}

#[test]
fn counters_count_packets_and_bytes_within_bounds() {
    let mut loaded = program(
        "extern n: counter packets_and_bytes size 2",
        "call counter.count on n (b);",
    );
    for index in [1, 1, 2] {
        let mut packet = loaded.packet(b"0123456789");
        loaded.set(&mut packet, "b", index);
        loaded.control("c", &mut packet);
    }
    for configuration in loaded.configurations() {
        let exec::ExternState::Counter(counters) = &configuration.cells[ExternId::new(0)] else {
            panic!("a counter");
        };
        let read: Vec<_> = counters.iter().map(|n| (n.packets, n.bytes)).collect();
        assert_eq!(read, [(0, 0), (2, 20)]);
    }
}

#[test]
fn meters_answer_in_the_program_s_colours() {
    let mut loaded = program(
        "extern m: meter packets size 1",
        "call meter.execute on m (8w0x0, out colour); call meter.execute on m (8w0x0, out a);",
    );
    let config = table::MeterConfig::TwoRate {
        cir: 1,
        cburst: 1,
        pir: 1,
        pburst: 2,
    };
    for configuration in loaded.configurations() {
        let exec::ExternState::Meter(meters) = &configuration.cells[ExternId::new(0)] else {
            panic!("a meter");
        };
        meters.configure(0, config).unwrap();
    }
    let mut packet = loaded.packet(&[]);
    loaded.control("c", &mut packet);
    // PSA's order of colours is RED, GREEN, YELLOW; v1model's is green, yellow, red.
    assert_eq!(loaded.number(&packet, "colour"), 1);
    assert_eq!(loaded.number(&packet, "a"), 1);
    loaded.control("c", &mut packet);
    assert_eq!(loaded.number(&packet, "colour"), 0);
    assert_eq!(loaded.number(&packet, "a"), 2);
}

#[test]
fn random_numbers_stay_in_range() {
    let mut loaded = program(
        "extern dice: random 8w0x1 .. 8w0x6",
        "call random.read on dice (out a); call random (16w0xa, 16w0xc, out b); call random (128w0x5, 128w0x10000000000000000, out wide);",
    );
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..200 {
        let mut packet = loaded.packet(&[]);
        packet.random = exec::RandomStream::new(1, number);
        loaded.control("c", &mut packet);
        seen.insert(loaded.number(&packet, "a"));
        assert!((10..=12).contains(&loaded.number(&packet, "b")));
        assert!((5..=1 << 64).contains(&loaded.number(&packet, "wide")));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn messages_show_values_by_their_type() {
    let mut loaded = program(
        "",
        r#"call log_msg ("a={} i={} wide={} {}", {a, i, wide});"#,
    );
    let mut packet = loaded.packet(&[]);
    for (name, value) in [("a", 200), ("i", 0xff), ("wide", 1 << 64)] {
        loaded.set(&mut packet, name, value);
    }
    loaded.control("c", &mut packet);
    let mut lines = Vec::new();
    packet.log.drain(|line| lines.push(line.to_string()));
    assert_eq!(lines, ["a=200 i=-1 wide=18446744073709551616 {}"]);
}

#[test]
fn asserts_drop_and_assumes_too() {
    let mut loaded = program(
        "",
        r#"call assert (a == 8w0x1, "a is one"); call assume (b == 16w0x1, "b is one");"#,
    );
    let mut run = |a: u128, b: u128| {
        let mut packet = loaded.packet(&[]);
        loaded.set(&mut packet, "a", a);
        loaded.set(&mut packet, "b", b);
        loaded.control("c", &mut packet)
    };
    assert_eq!(run(1, 1), ControlVerdict::Done);
    assert_eq!(run(0, 1), ControlVerdict::Drop(DropReason::AssertFailed));
    assert_eq!(run(1, 0), ControlVerdict::Drop(DropReason::AssumeFailed));
}

#[test]
fn digests_carry_the_values_of_their_moment() {
    let digest = "extern d: digest (bit<8>, bit<128>) as tuple<bit<8>, bit<128>>";
    let mut loaded = program(
        digest,
        "call digest.send on d ({a, wide}); a = 8w0x9; call digest.send on d ({a, wide});",
    );
    let mut packet = loaded.packet(&[]);
    loaded.set(&mut packet, "a", 1);
    loaded.set(&mut packet, "wide", (7 << 64) | 3);
    loaded.control("c", &mut packet);
    let messages: Vec<Vec<u64>> = packet.digests.iter().map(|m| m.limbs.to_vec()).collect();
    assert_eq!(messages, [vec![1, 3, 7], vec![9, 3, 7]]);
}

#[test]
fn native_functions_get_arguments_and_give_results() {
    let code = r#"call native ("twice", {a, b}, out {a, wide});"#;
    check(
        "",
        code,
        &[("a", 200), ("b", 7)],
        &[("a", 400 % 256), ("wide", 7)],
    );
}

#[test]
fn a_native_function_that_nobody_supplies_is_named() {
    let program = ir::read(&text("", r#"call native ("thrice", {a}, out {a});"#)).unwrap();
    let program = std::sync::Arc::new(program);
    let layout = ir::Layout::of(&program);
    for engine in testkit::engines() {
        let refused = engine.load(&program, &layout, &natives());
        let unsupported = refused.err().unwrap();
        assert!(unsupported.construct.contains("thrice"), "{unsupported}");
    }
}

#[test]
fn requests_are_noted_for_the_device() {
    let mut loaded = load(&text(
        "",
        "call truncate (w); call mirror_packet (8w0x1, 16w0x7); call send_to_port (w); call recirculate_packet ();",
    ));
    let mut packet = loaded.packet(&[]);
    loaded.set(&mut packet, "w", 60);
    loaded.control("c", &mut packet);
    let requests = packet.requests;
    assert_eq!(requests.truncate, Some(60));
    assert_eq!(requests.mirrors[..2], [None, Some(7)]);
    assert_eq!(requests.destination, Some(exec::Destination::Port(60)));
    assert!(requests.recirculate_packet);
}
