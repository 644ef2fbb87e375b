//! Values of all types go through P4 and C unchanged.

use std::sync::Arc;

use ir::Program;

use crate::common::{each_device, forward, program, send};

const FIELDS: &str = "    a: bit<32>;
    s: int<24>;
    n: bit<16>;
    w: bit<80>;
    x: int<72>;
    f: bit<32>;
    d: bit<64>;
    flag: bit<8>;
    color: bit<8>;";

fn values() -> Arc<Program> {
    let declarations = r#"
field meta.flag: bool
field meta.color: enum Color
field meta.n: bit<9>
extern ingress.change: handler request req_t {a: bit<32>, s: int<24>, n: bit<9>, w: bit<80>, x: int<72>, inner: record floats_t {f: float bit<32>, d: float bit<64>}, flag: bool, color: enum Color} response res_t {inner: record floats_t {f: float bit<32>, d: float bit<64>}, a: bit<32>, s: int<24>, n: bit<9>, w: bit<80>, x: int<72>, flag: bool, color: enum Color}
"#;
    let ingress = r#"    stage ingress.before: action next ingress.call {
        meta.n = hdr.h.n[8:0];
        meta.flag = hdr.h.flag == 8w0x1;
        meta.color = (hdr.h.color == 8w0x1) ? enum Color::Green : enum Color::Red;
    }
    stage ingress.call: action next ingress.after {
        call remote on ingress.change ({hdr.h.a, hdr.h.s, meta.n, hdr.h.w, hdr.h.x, hdr.h.f, hdr.h.d, meta.flag, meta.color}, out {hdr.h.f, hdr.h.d, hdr.h.a, hdr.h.s, meta.n, hdr.h.w, hdr.h.x, meta.flag, meta.color});
    }
    stage ingress.after: action next end {
        hdr.h.n = bit<16>(meta.n);
        hdr.h.flag = meta.flag ? 8w0x1 : 8w0x0;
        hdr.h.color = (meta.color == enum Color::Green) ? 8w0x1 : 8w0x0;
        sm.egress_spec = 9w0x3;
    }"#;
    program(FIELDS, declarations, ingress)
}

const COPY: &str = r#"
int change(clip_t *c, const struct req_t *q, struct res_t *r)
{
    (void)c;
    r->a = ~q->a;
    r->s = -q->s;
    r->n = q->n + 1;
    for (unsigned i = 0; i < sizeof q->w; i++)
        r->w[i] = q->w[sizeof q->w - 1 - i];
    memcpy(r->x, q->x, sizeof r->x);
    r->inner = q->inner;
    r->flag = !q->flag;
    r->color = q->color == Color_Green ? Color_Red : Color_Green;
    return CLIP_OK;
}
"#;

/// Returns the packet with these values, and the one that the handler makes of it.
fn packets(a: u32, s: i32, n: u16, wide: [u8; 10], f: u32, d: u64, flag: bool) -> [Vec<u8>; 2] {
    let packet = |a: u32, s: i32, n: u16, w: [u8; 10], flag: bool| {
        let mut bytes = a.to_be_bytes().to_vec();
        bytes.extend(&s.to_be_bytes()[1..]);
        bytes.extend(n.to_be_bytes());
        bytes.extend(w);
        bytes.extend(&wide[..9]);
        bytes.extend(f.to_be_bytes());
        bytes.extend(d.to_be_bytes());
        bytes.extend([u8::from(flag), u8::from(flag)]);
        bytes.extend(b"payload");
        bytes
    };
    let mut reversed = wide;
    reversed.reverse();
    let changed = packet(!a, s.wrapping_neg(), (n + 1) & 0x1ff, reversed, !flag);
    [packet(a, s, n, wide, flag), changed]
}

#[test]
fn values_of_all_types_reach_c_and_come_back() {
    let cases = [
        packets(0, 0, 0, [0; 10], 0, 0, false),
        packets(7, -1, 0x1ff, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1, 2, true),
        packets(
            u32::MAX,
            -0x7f_ffff,
            1,
            [0xff; 10],
            u32::MAX,
            u64::MAX,
            true,
        ),
        packets(
            1 << 31,
            0x7f_ffff,
            0x100,
            [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            9,
            9,
            false,
        ),
    ];
    each_device(&values(), COPY, |device| {
        for [packet, expect] in &cases {
            assert_eq!(send(device, packet, 0), [(3, expect.clone())]);
            assert_eq!(forward(device, packet, 0), [(3, expect.clone())]);
        }
    });
}

#[test]
fn floats_go_through_bit_for_bit() {
    let mut floats = vec![
        (0x8000_0000, 1 << 63),
        (0x7f80_0001, 0x7ff0_0000_0000_0001),
        (0xffc1_2345, 0xfff8_dead_beef_0001),
        (1, 1),
        (0x807f_ffff, 0x800f_ffff_ffff_ffff),
        (0x7f80_0000, 0xfff0_0000_0000_0000),
    ];
    let mut random = 1;
    for _ in 0..2_000 {
        random = support::rng::mix(random + 1);
        floats.push((random as u32, support::rng::mix(random)));
    }
    each_device(&values(), COPY, |device| {
        for &(f, d) in &floats {
            let [packet, expect] = packets(1, 1, 1, [0; 10], f, d, false);
            assert_eq!(send(device, &packet, 0), [(3, expect)], "{f:x} {d:x}");
        }
    });
}

#[test]
fn results_with_floats_equal_those_of_the_same_operations_here() {
    let text = r#"
#include <math.h>
int change(clip_t *c, const struct req_t *q, struct res_t *r)
{
    (void)c;
    r->inner.f = q->inner.f * 0.1f + 1.0f;
    r->inner.d = sqrt(fabs(q->inner.d)) / 3.0;
    return CLIP_OK;
}
"#;
    let mut random = 5;
    let numbers: Vec<(f32, f64)> = (0..500)
        .map(|_| {
            random = support::rng::mix(random + 1);
            (
                f32::from_bits(random as u32),
                f64::from_bits(support::rng::mix(random)),
            )
        })
        .filter(|(f, d)| f.is_finite() && d.is_finite())
        .collect();
    each_device(&values(), text, |device| {
        for &(f, d) in &numbers {
            let [packet, _] = packets(0, 0, 0, [0; 10], f.to_bits(), d.to_bits(), false);
            let (_, bytes) = send(device, &packet, 0).remove(0);
            let result = f32::from_bits(u32::from_be_bytes(bytes[28..32].try_into().unwrap()));
            let root = f64::from_bits(u64::from_be_bytes(bytes[32..40].try_into().unwrap()));
            assert_eq!(result, f * 0.1 + 1.0, "{f}");
            assert_eq!(root, d.abs().sqrt() / 3.0, "{d}");
        }
    });
}
