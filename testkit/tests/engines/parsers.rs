//! Tests of the semantics of parsers, deparsers and headers, on IR text.

use super::common::{Engines, load, value};
use exec::{ControlVerdict, DropReason, PacketContext, ParserVerdict};
use ir::KeyMatch;

const HEADERS: &str = r#"program t v1model
errors {NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserTimeout, ParserInvalidArgument, Mine}
header_type odd_t {
    a: bit<3>;
    b: int<7>;
    c: bool;
    d: bit<13>;
    e: bit<72>;
}
header_type tag_t {
    id: bit<7>;
    more: bit<1>;
}
header_type opt_t {
    len: bit<8>;
    data: varbit<80>;
}
header odd: odd_t
header tag[0]: tag_t
header tag[1]: tag_t
header tag[2]: tag_t
field tag.$next$: bit<32>
stack tag: 3 from tag[0] next tag.$next$
header opt: opt_t
header opt2: opt_t
field n: bit<32>
field x: bit<8>
field y: bit<16>
field signed: int<8>
field ok: bool
"#;

/// Loads a program with a parser of these states, and a control `c` with this code.
fn parser(states: &str, code: &str) -> Engines {
    load(&format!(
        "{HEADERS}value_set vs size 4 as bit<8> {{\n    '': bit<8> ternary;\n}}\nparser p start start {{\n{states}\n}}\ncontrol c {{\n    stage c.code: action next end {{\n{code}\n    }}\n}}\n"
    ))
}

fn run(loaded: &mut Engines, bytes: &[u8]) -> (ParserVerdict, PacketContext) {
    let mut packet = loaded.packet(bytes);
    let verdict = loaded.parse(&mut packet);
    (verdict, packet)
}

#[test]
fn fields_are_taken_in_wire_order_at_any_bit() {
    let mut loaded = parser("state start { extract odd; goto accept; }", "emit odd;");
    let bytes = [0xb5, 0x5a, 0x12, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    let (verdict, mut packet) = run(&mut loaded, &bytes);
    assert_eq!(verdict, ParserVerdict::Accept);
    let number = |name: &str| loaded.number(&packet, name);
    assert_eq!(number("odd.$valid$"), 1);
    assert_eq!(
        [number("odd.a"), number("odd.b"), number("odd.c")],
        [0b101, 0b1010101, 0]
    );
    assert_eq!(number("odd.d"), 0b1_1010_0001_0010);
    assert_eq!(
        number("odd.e"),
        0x0001_0203_0405_0607_0809 & ((1 << 72) - 1)
    );
    assert_eq!(packet.cursor, 96);
    loaded.control("c", &mut packet);
    packet.finish_deparse().unwrap();
    assert_eq!(packet.bytes.bytes(), bytes);
}

#[test]
fn too_short_a_packet_changes_nothing() {
    let mut loaded = parser("state start { extract odd; goto accept; }", "");
    let (verdict, packet) = run(&mut loaded, &[0xff; 11]);
    assert_eq!(verdict, ParserVerdict::Reject(1));
    assert_eq!(loaded.number(&packet, "odd.$valid$"), 0);
    assert_eq!(loaded.number(&packet, "odd.a"), 0);
    assert_eq!(packet.cursor, 0);
}

#[test]
fn a_stack_is_filled_and_overflows_with_its_error() {
    let states = "state start {
        extract tag[0]{tag.$next$ in 3 by 1};
        tag.$next$ = tag.$next$ + 32w0x1;
        select (tag[0].more{(tag.$next$ - 32w0x1) in 3 by 3}) { (1w0x1): start; (_): accept; }
    }";
    let mut loaded = parser(states, "emit tag[0]; emit tag[1]; emit tag[2];");
    let (verdict, mut packet) = run(&mut loaded, &[0x03, 0x05, 0x08, 0x99]);
    assert_eq!(verdict, ParserVerdict::Accept);
    assert_eq!(loaded.number(&packet, "tag.$next$"), 3);
    assert_eq!(loaded.number(&packet, "tag[1].id"), 2);
    loaded.control("c", &mut packet);
    packet.finish_deparse().unwrap();
    assert_eq!(packet.bytes.bytes(), [3, 5, 8, 0x99]);
    let (verdict, _) = run(&mut loaded, &[1, 1, 1, 1, 0]);
    assert_eq!(verdict, ParserVerdict::Reject(3));
}

#[test]
fn a_parser_that_circles_runs_out_of_work() {
    let mut loaded = parser("state start { goto next; } state next { goto start; }", "");
    let mut packet = loaded.packet(&[]);
    packet.work_left = 100;
    let verdict = loaded.parse(&mut packet);
    assert_eq!(verdict, ParserVerdict::Drop(DropReason::WorkBudget));
}

#[test]
fn a_varbit_has_the_length_it_was_extracted_with() {
    let states = "state start {
        lookahead 8 (x at 0);
        extract opt, bit<32>(x);
        n = varbit_len(opt.data);
        goto accept;
    }";
    let code = "varbit opt2.data = opt.data; ok = varbit_eq(opt.data, opt2.data); clear opt2.data; emit opt; emit opt2;";
    let mut loaded = parser(states, code);
    let (verdict, mut packet) = run(&mut loaded, &[24, 1, 2, 3, 4]);
    assert_eq!(verdict, ParserVerdict::Accept);
    assert_eq!(loaded.number(&packet, "n"), 24);
    assert_eq!(loaded.get(&packet, "opt.data"), value(0x0001_0203, 24));
    loaded.control("c", &mut packet);
    assert_eq!(loaded.number(&packet, "ok"), 1);
    packet.finish_deparse().unwrap();
    assert_eq!(packet.bytes.bytes(), [24, 1, 2, 3, 4]);
    let verdicts = |loaded: &mut Engines, bytes: &[u8]| run(loaded, bytes).0;
    assert_eq!(verdicts(&mut loaded, &[0]), ParserVerdict::Accept);
    assert_eq!(verdicts(&mut loaded, &[80; 11]), ParserVerdict::Accept);
    assert_eq!(verdicts(&mut loaded, &[88; 20]), ParserVerdict::Reject(4));
    assert_eq!(verdicts(&mut loaded, &[24, 1]), ParserVerdict::Reject(1));
    assert_eq!(verdicts(&mut loaded, &[7, 1]), ParserVerdict::Reject(6));
}

#[test]
fn what_the_packet_has_not_is_too_short_before_the_header_is() {
    // P4_16, variable-width extraction: PacketTooShort is checked before HeaderTooShort.
    let mut loaded = parser("state start { extract opt, n; goto accept; }", "");
    let mut verdict = |size: u128, bytes: &[u8]| {
        let mut packet = loaded.packet(bytes);
        loaded.set(&mut packet, "n", size);
        loaded.parse(&mut packet)
    };
    let (too_short, header_too_short) = (ParserVerdict::Reject(1), ParserVerdict::Reject(4));
    assert_eq!(verdict(80, &[0; 11]), ParserVerdict::Accept);
    assert_eq!(verdict(88, &[0; 12]), header_too_short);
    assert_eq!(verdict(88, &[0; 11]), too_short);
    assert_eq!(verdict(0xffff_fff8, &[0; 11]), too_short);
}

#[test]
fn select_takes_the_first_case_that_holds() {
    let states = "state start {
        lookahead 8 (x at 0, signed at 0);
        select (x, signed) {
            (8w0x10, _): one;
            (8w0x20 &&& 8w0xf0, _): two;
            (8w0x30 .. 8w0x3f, _): three;
            (_, 8s0xf0 .. 8s0x5): four;
            (value_set vs, _): five;
        }
    }
    state one { x = 8w0x1; goto accept; }
    state two { x = 8w0x2; goto accept; }
    state three { x = 8w0x3; goto accept; }
    state four { x = 8w0x4; goto accept; }
    state five { x = 8w0x5; goto reject; }";
    let mut loaded = parser(states, "");
    let member = |number: u128, mask: u128| {
        let field = table::KeyField {
            width: 8,
            kind: table::MatchKind::Ternary,
        };
        let wanted = KeyMatch::Ternary(value(number, 8), value(mask, 8));
        vec![exec::field_match(&field, &wanted).unwrap()]
    };
    for configuration in loaded.configurations() {
        let set = &mut configuration.value_sets[ir::ValueSetId::new(0)];
        set.set(vec![member(0x77, 0xff), member(0x80, 0xf8)])
            .unwrap();
    }
    let mut check = |byte: u8, verdict: ParserVerdict, x: u128| {
        let (got, packet) = run(&mut loaded, &[byte]);
        assert_eq!(
            (got, loaded.number(&packet, "x")),
            (verdict, x),
            "{byte:#x}"
        );
    };
    check(0x10, ParserVerdict::Accept, 1);
    check(0x2f, ParserVerdict::Accept, 2);
    check(0x30, ParserVerdict::Accept, 3);
    check(0x3f, ParserVerdict::Accept, 3);
    check(0xf0, ParserVerdict::Accept, 4);
    check(0x05, ParserVerdict::Accept, 4);
    check(0x77, ParserVerdict::Reject(0), 5);
    check(0x87, ParserVerdict::Reject(0), 5);
    check(0x40, ParserVerdict::Reject(2), 0x40);
}

#[test]
fn lookahead_stays_and_advance_moves() {
    let states = "state start {
        lookahead 24 (x at 4, y at 8);
        advance 32w0x10;
        packet_length n;
        extract tag[0];
        verify x != 8w0x0, error.Mine;
        goto accept;
    }";
    let mut loaded = parser(states, "");
    let (verdict, packet) = run(&mut loaded, &[0x12, 0x34, 0x56]);
    assert_eq!(verdict, ParserVerdict::Accept);
    assert_eq!(loaded.number(&packet, "x"), 0x23);
    assert_eq!(loaded.number(&packet, "y"), 0x3456);
    assert_eq!(loaded.number(&packet, "n"), 3);
    assert_eq!(loaded.number(&packet, "tag[0].id"), 0x56 >> 1);
    assert_eq!(
        run(&mut loaded, &[0x10, 0x04, 0x56]).0,
        ParserVerdict::Reject(7)
    );
    assert_eq!(run(&mut loaded, &[0x12, 0x34]).0, ParserVerdict::Reject(1));
}

#[test]
fn stacks_shift_and_headers_are_copied() {
    let code = "
        tag[0].$valid$ = true; tag[0].id = 7w0x1; tag[1].$valid$ = true; tag[1].id = 7w0x2; tag.$next$ = 32w0x2;
        push_front tag, 2;
        n = tag.$next$;
        header tag[0] = tag[2];
        pop_front tag, 1;";
    let mut loaded = parser("state start { goto accept; }", code);
    let mut packet = loaded.packet(&[]);
    assert_eq!(loaded.control("c", &mut packet), ControlVerdict::Done);
    let number = |name: &str| loaded.number(&packet, name);
    assert_eq!(number("n"), 3);
    assert_eq!(number("tag.$next$"), 2);
    let valid = [
        number("tag[0].$valid$"),
        number("tag[1].$valid$"),
        number("tag[2].$valid$"),
    ];
    assert_eq!(valid, [0, 1, 0]);
    assert_eq!(number("tag[1].id"), 1);
}

#[test]
fn a_header_out_of_range_is_neither_copied_nor_emitted() {
    let code = "tag[0].$valid$ = true; tag[0].id = 7w0x5; n = 32w0x9;
        header tag[0]{n in 3 by 1} = tag[0];
        header tag[1] = tag[0]{n in 3 by 1};
        emit tag[0]{n in 3 by 1};
        emit tag[0];";
    let mut loaded = parser("state start { goto accept; }", code);
    let mut packet = loaded.packet(&[]);
    loaded.control("c", &mut packet);
    assert_eq!(loaded.number(&packet, "tag[1].$valid$"), 0);
    assert_eq!(packet.emitted.bytes(), [0b1010]);
}

#[test]
fn bits_that_do_not_fill_a_byte_are_padded_or_continued() {
    let states = "state start { lookahead 8 (x at 0); advance 32w0x4; goto accept; }";
    let mut loaded = parser(states, "emit_field odd.a; emit_field ok; ");
    // Four bits are consumed and four emitted. The bits after them are unchanged.
    let (_, mut packet) = run(&mut loaded, &[0xab, 0xcd]);
    loaded.set(&mut packet, "odd.a", 0b111);
    loaded.control("c", &mut packet);
    packet.finish_deparse().unwrap();
    assert_eq!(packet.bytes.bytes(), [0xeb, 0xcd]);
    let mut loaded = parser("state start { goto accept; }", "emit_field odd.a;");
    let (_, mut packet) = run(&mut loaded, &[0xab]);
    loaded.set(&mut packet, "odd.a", 0b111);
    loaded.control("c", &mut packet);
    packet.finish_deparse().unwrap();
    assert_eq!(packet.bytes.bytes(), [0xe0, 0xab]);
}
