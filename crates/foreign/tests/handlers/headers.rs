//! Texts of `clip.h`.

use crate::common::program;

#[test]
fn the_header_has_structs_constants_tables_and_prototypes() {
    let declarations = r#"
constant PORT: bit<16> = 16w0x1f90
constant LARGE: bit<64> = 64w0xffffffffffffffff
constant LEAST: int<64> = 64w0x8000000000000000
constant MINUS: int<8> = 8w0xff
constant YES: bool = 1w0x1
constant WIDE: bit<72> = 72w0x10203
constant 'while': bit<8> = 8w0x1
extern h: handler request req {'int': bit<9>, wide: bit<65>, c: enum Color, in_: record pair {x: int<33>, y: float bit<64>}} response res {}
action ingress.set(port: bit<9>, mac: bit<48>) {
    sm.egress_spec = %port;
}
action NoAction() {
}
action ingress.miss() {
}
table ingress.nat {
    key hdr.h.a: exact as bit<8> = hdr.h.a;
    key 'hdr.h.$valid$': exact as bool = hdr.h.$valid$;
    action ingress.set table_and_default;
    action NoAction tableonly;
    action ingress.miss defaultonly;
    default ingress.miss();
    size 8;
    mirror 4;
}
table ingress.fib {
    key hdr.h.a: lpm as bit<8> = hdr.h.a;
    action NoAction table_and_default;
    default NoAction();
    size 8;
    mirror 4;
}
"#;
    let ingress = "    stage ingress.code: action next end {
        sm.egress_spec = 9w0x1;
    }";
    let text = foreign::header(&program("    a: bit<8>;", declarations, ingress));
    for expect in [
        "enum Color { Color_Red, Color_Green, Color_odd_colour };",
        "enum { PORT = 8080 };",
        "#define LARGE ((uint64_t)18446744073709551615ULL)",
        "#define LEAST INT64_MIN",
        "enum { MINUS = -1 };",
        "#define YES true",
        "static const uint8_t WIDE[9] = {0, 0, 0, 0, 0, 0, 1, 2, 3};",
        "enum { while_ = 1 };",
        "struct pair {\n    int64_t x;\n    double y;\n};",
        "struct req {\n    uint16_t int_;\n    uint8_t wide[9];\n    enum Color c;\n    \
         struct pair in_;\n};",
        "struct res {\n    uint8_t unused_;\n};",
        "struct nat_key {\n    uint8_t a;\n    bool valid;\n};",
        "enum { NAT_SET = 0, NAT_NOACTION = 1 };",
        "struct nat_entry {\n    uint32_t action;\n    union {\n        struct {\n            \
         uint16_t port;\n            uint64_t mac;\n        } set;\n    } u;\n};",
        "static inline int nat_insert(clip_t *c, const struct nat_key *k, \
         const struct nat_entry *e, uint64_t idle_ns)",
        "static inline int nat_modify(",
        "static inline int nat_delete(clip_t *c, const struct nat_key *k)",
        "static inline int fib_find(clip_t *c, const struct fib_key *k, struct fib_entry *e)",
        "int h(clip_t *c, const struct req *q, struct res *r);",
    ] {
        assert!(text.contains(expect), "{expect}\n{text}");
    }
    assert!(!text.contains("fib_insert"));
    assert!(!text.contains("NAT_MISS"));
}
