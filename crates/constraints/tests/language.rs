//! Tests of the language: constraints that are true, false, or refused.

use constraints::{Constraint, Int, Name, Number, Type, Value};

fn number(value: u64) -> Number {
    Number::from_u64(value)
}

fn value(name: Name<'_>) -> Option<Value> {
    Some(match name {
        Name::Own("hdr.vlan[0].id") => Value::Exact(12, number(10)),
        Name::Own("hdr.ip.$valid$") => Value::Exact(1, number(1)),
        Name::Own("e") => Value::Exact(8, number(0xff)),
        Name::Own("f") => Value::Exact(8, number(3)),
        Name::Own("ip") => Value::Ternary(32, number(0x0a00_0000), number(0xff00_0000)),
        Name::Own("any") => Value::Ternary(8, number(0), number(0)),
        Name::Own("full") => Value::Ternary(8, number(5), number(0xff)),
        Name::Own("net") => Value::Lpm(32, number(0xc0a8_0000), 16),
        Name::Own("host") => Value::Lpm(48, number(7), 48),
        Name::Own("ports") => Value::Range(16, number(80), number(90)),
        Name::Own("one") => Value::Range(16, number(80), number(80)),
        Name::Own("opt") => Value::Optional(9, number(3), number(511)),
        Name::Own("absent") => Value::Optional(9, number(0), number(0)),
        Name::Own("wide") => Value::Exact(128, Number::from_bytes(&[0xff; 16])),
        Name::Own("param") => Value::Bits(9, number(511)),
        Name::Own("port") => Value::Text("eth0".to_owned()),
        Name::Own("vrf") => Value::OptionalText(Some("red".to_owned())),
        Name::Own("no_vrf") => Value::OptionalText(None),
        Name::Attribute("priority") => Value::Int(Int::new(number(7))),
        _ => return None,
    })
}

fn type_of(name: Name<'_>) -> Option<Type> {
    Some(match value(name)? {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Bits(width, ..) => Type::Bits(width),
        Value::Exact(width, ..) => Type::Exact(width),
        Value::Ternary(width, ..) => Type::Ternary(width),
        Value::Lpm(width, ..) => Type::Lpm(width),
        Value::Range(width, ..) => Type::Range(width),
        Value::Optional(width, ..) => Type::Optional(width),
        Value::Text(_) => Type::Text,
        Value::OptionalText(_) => Type::OptionalText,
    })
}

fn check(text: &str) -> Result<(), String> {
    let constraint = Constraint::read(text)?;
    constraint.check(&type_of)?;
    constraint.holds(&value)
}

#[test]
fn constraints_hold() {
    for text in [
        "",
        "true",
        "// a comment alone",
        "/* nothing */ true /* at */;",
        "/*/ one comment */ true",
        "hdr.vlan[0].id == 10",
        "hdr . vlan [0] . id == 10",
        "hdr.ip.$valid$ == 1",
        "hdr.vlan[0].id == 0x0A && !(hdr.vlan[0].id != 0b1010)",
        "e == 0o377 && e == 0O377 && e == 0d255 && e == 0D255 && e == 0XFf && e == 0B11111111",
        "e == 255 && e == -1 && e == 511 && e == -257",
        "e > f; e::value > f::value; e >= f && f < e && f <= e",
        "e > 254 && f < -1",
        "ip::mask != 0 -> ip::value == 0x0a000000; // all of ten",
        "ip::mask == -16777216",
        "any::mask == 0 && full::mask == -1 && full == 5 && any != 0",
        "full == full::value && full::value == 5",
        "(ip)::mask == 0xff000000",
        "(false -> false) -> true",
        "1 < 2 || false && false",
        "true || false -> true; false || false -> false",
        "false && (true -> false) || true",
        "::priority > 5; ::priority <= 7;",
        "::priority > -1 && -::priority == -7 && - -::priority == 7",
        "-5 < -4 && -1 < 0 && -0 == 0 && --2 == 2",
        "(true; 1 == 1;) && (true;)",
        "true; true; true",
        "true == true && false != true && (1 == 1) == true",
        "!false && !!true && !(1 == 2) && !false == true",
        "net::prefix_length == 16 && net::value == ipv4('192.168.0.0') && net != 0xc0a80000",
        "host == 7 && host == mac('00:00:00:00:00:07') && host == mac('0:0:0:0:0:7')",
        "-net::prefix_length < -15",
        "ports::low >= 80 && ports::high <= 90 && ports != 80 && one == 80 && one::high == one::low",
        "opt == 3 && opt::mask == -1 && absent::mask == 0 && absent != 0 && opt::value == 3",
        "wide == -1 && wide == ipv6('ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff')",
        "wide != ipv6('::') && wide::value > ipv6('::1')",
        "param == -1 && param > 510 && param == 0x1ff",
        "port == 'eth0' && 'eth0' == port && port != 'eth1'",
        "vrf == 'red' && no_vrf != 'red' && vrf::value == 'red' && no_vrf != ''",
        "ip != 10; /* it has a mask */ ip::value >= 0xffffff",
        "340282366920938463463374607431768211456 > 0xffffffffffffffffffffffffffffffff",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn a_statement_that_does_not_hold_is_named_with_its_values() {
    for (text, error) in [
        (
            "true; hdr.vlan[0].id == 11; false",
            "`hdr.vlan[0].id == 11` does not hold, with hdr.vlan[0].id = 0x0a",
        ),
        (
            "ip == 0x0a000000",
            "`ip == 0x0a000000` does not hold, with ip = 0x0a000000 &&& 0xff000000",
        ),
        (
            "net::prefix_length < 16",
            "`net::prefix_length < 16` does not hold, with net::prefix_length = 0x10",
        ),
        (
            "any::mask == -1 || ::priority < -7",
            "`any::mask == -1 || ::priority < -7` does not hold, with any::mask = 0x0, \
             ::priority = 0x07",
        ),
        ("true -> false", "`true -> false` does not hold"),
        ("(true; false)", "`(true; false)` does not hold"),
        (
            "false && true || false",
            "`false && true || false` does not hold",
        ),
    ] {
        assert_eq!(check(text), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn texts_and_types_without_meaning_are_refused() {
    for (text, words) in [
        ("(true", "`)` is missing at the end"),
        ("true true", "`;` or an operator is missing before `true`"),
        ("true;; true", "is missing before `;"),
        ("; true", "is missing before `;"),
        ("nothing == 1", "there is no `nothing`"),
        ("true || nothing == 1", "there is no `nothing`"),
        ("(true || nothing == 1) == true", "there is no `nothing`"),
        ("::size == 1", "there is no `::size`"),
        ("1", "type bool is needed, not of int"),
        ("e -> true", "type bool is needed, not of exact<8>"),
        ("!e", "type bool is needed"),
        ("!-1", "type bool is needed"),
        ("-true == true", "type int is needed, not of bool"),
        ("-e == 1", "type int is needed, not of exact<8>"),
        ("-param == 1", "type int is needed, not of bit<9>"),
        ("ip < 3", "no order"),
        ("net > 3", "no order"),
        ("ports > 3", "no order"),
        ("opt > 3", "no order"),
        ("true < false", "no order"),
        ("port < 'x'", "no order"),
        ("port == 3", "of different kinds"),
        ("e == true", "of different kinds"),
        ("hdr.ip.$valid$ == true", "are 0 or 1"),
        ("e == hdr.vlan[0].id", "exact<8> and exact<12>"),
        ("ip == net", "ternary<32> and lpm<32>"),
        ("ip::value == e::value", "bit<32> and bit<8>"),
        ("ip::low == 1", "no `::low` of type ternary<32>"),
        ("net::mask == 1", "no `::mask` of type lpm<32>"),
        ("ports::value == 1", "no `::value` of type range<16>"),
        ("e::mask == 1", "no `::mask` of type exact<8>"),
        ("param::value == 1", "no `::value` of type bit<9>"),
        ("::priority::value == 1", "no `::value` of type int"),
        ("e == f == true", "use parentheses"),
        ("1 < 2 < 3", "use parentheses"),
        ("true -> true -> true", "use parentheses"),
        ("1 == #", "`#`"),
        ("1 + 1 == 2", "`+`"),
        ("0xyz == 1", "0xyz"),
        ("0x == 1", "0x"),
        ("12ab == 1", "12ab"),
        ("0b12 == 1", "0b12"),
        ("0o8 == 1", "0o8"),
        ("ip:: == 1", "a name after `::`"),
        ("hdr. == 1", "a name after `.`"),
        ("hdr.vlan[x].id == 1", "a number and `]`"),
        ("'open", "closed"),
        ("e == ipv4('1.2.3')", "no ipv4 address"),
        ("e == ipv4('1.2.3.256')", "no ipv4 address"),
        ("e == ipv4('1.2.3.+4')", "no ipv4 address"),
        ("e == mac('0:0:0:0:0')", "no mac address"),
        ("e == mac('000:0:0:0:0:0')", "no mac address"),
        ("e == ipv6('1::2::3')", "no ipv6 address"),
        ("e == ipv5('1')", "`ipv5(...)` is no address"),
        ("e == ipv4(1)", "an address in quotes"),
    ] {
        let refused = check(text).expect_err(text);
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn large_texts_are_read_or_refused() {
    assert!(check(&"!".repeat(100_000)).is_err());
    assert!(check(&"-".repeat(100_000)).is_err());
    assert!(check(&"(".repeat(100_000)).is_err());
    assert!(check(&format!("ip{}", "::value".repeat(100_000))).is_err());
    assert!(check(&format!("0x{} == 1", "f".repeat(1_000_000))).is_err());
    for row in ["true && ", "false || ", "true; "] {
        assert_eq!(
            check(&format!("{}true", row.repeat(7_000))),
            Ok(()),
            "{row}"
        );
    }
    let refused = check(&"true; ".repeat(20_000)).unwrap_err();
    assert!(refused.contains("at most 65536"), "{refused}");
    let long = format!("{} == 1", ["a"; 30_000].join("."));
    assert!(check(&long).is_err());
}
