//! Tests of parsers.

use crate::rig::*;

#[test]
fn parsers_read_what_they_may() {
    let state = |from: &str, to: &str, message: &str| {
        refused(from, to, "parser MyParser, state options", message)
    };
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.options;",
        "a size is given exactly",
    );
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.ethernet, 32w0x20;",
        "a size is given exactly",
    );
    state(
        "extract hdr.options, 32w0x20;",
        "extract hdr.options, 8w0x20;",
        "Bit(32) is expected",
    );
    state(
        "meta.array[0] at 8",
        "meta.array[0] at 9",
        "bits up to 25 of 24",
    );
    state(
        "meta.array[0] at 8",
        "meta.array[0] at 4294967295",
        "bits up to 4294967295 of 24",
    );
    state("lookahead 24", "lookahead 131073", "131073 bits");
    state(
        "packet_length meta.i",
        "packet_length meta.a",
        "Bit(32) is expected",
    );
    state("advance 32w0x8", "advance 8w0x8", "Bit(32) is expected");
    let vlan = "parser MyParser, state vlan";
    refused(
        "verify hdr.vlan.$next$ < 32w0x3",
        "verify meta.a",
        vlan,
        "Bool is expected",
    );
    refused(
        "32w0x3, error.StackOutOfBounds",
        "32w0x3, meta.a",
        vlan,
        "Error is expected",
    );
}

#[test]
fn select_cases_fit_their_keys() {
    let start = |from: &str, to: &str, message: &str| {
        refused(from, to, "parser MyParser, state start", message)
    };
    start("(16w0x800, _)", "(16w0x800)", "1 set for 2 keys");
    start("(16w0x800, _)", "(8w0x8, _)", "Bit(16) is expected");
    start("&&& 16w0xfff0", "&&& 8w0xf0", "Bit(16) is expected");
    start("9w0x1 .. 9w0x5", "9w0x1 .. 8w0x5", "Bit(9) is expected");
    start(
        "value_set types, (",
        "value_set pairs, (",
        "value set pairs has 2 fields",
    );
    start(
        "value_set pairs: reject",
        "value_set types: reject",
        "value set types has 1 field",
    );
    start(
        "value_set pairs: reject",
        "value_set #9: reject",
        "no value set 9",
    );
    start(
        "select (hdr.ethernet.type, meta.port)",
        "select (meta.port, hdr.ethernet.type)",
        "is expected",
    );
}
