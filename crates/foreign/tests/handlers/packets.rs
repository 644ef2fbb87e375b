//! The packet, state, pools, time, random numbers and drops, as handlers see them.

use std::sync::Arc;

use exec::DropReason;
use foreign::{HandlerState, LoadError, LoadOptions};
use ir::Program;
use switch::Device;

use crate::common::{
    compile, compilers, device_with, each_device, engines, forward, program, send,
};

/// The handler gets `op` and two numbers, and gives a number.
fn numbers() -> Arc<Program> {
    let declarations = r#"
extern h: handler request req {op: bit<8>, a: bit<32> @payload_index, b: bit<32> @payload_length} response res {x: bit<64>}
"#;
    let ingress = r#"    stage ingress.call: action next ingress.after {
        call remote on h ({hdr.h.op, hdr.h.a, hdr.h.b}, out {hdr.h.x});
    }
    stage ingress.after: action next end {
        sm.egress_spec = 9w0x1;
    }"#;
    let fields = "    op: bit<8>;
    a: bit<32>;
    b: bit<32>;
    x: bit<64>;";
    program(fields, declarations, ingress)
}

const HEADER: usize = 17;

const CODE: &str = r#"
struct counts { uint64_t calls; uint64_t sums[3]; };
CLIP_STATE(struct counts, counts);
CLIP_SHARED(uint64_t, total);
CLIP_POOL(ports, 2100);
static const int table[] = {3, 1, 2};
static const char *const names[] = {"zero", "one"};

int h(clip_t *c, const struct req *q, struct res *r)
{
    struct counts *mine = clip_state(c, counts);
    uint64_t *total = clip_state(c, total);
    uint32_t first = 0, len = 0;
    uint8_t *bytes;
    const uint8_t *payload;
    switch (q->op) {
    case 0:
        mine->calls++;
        mine->sums[2] += q->a;
        *total += 2;
        r->x = mine->calls << 32 | mine->sums[2] << 16 | *total;
        return CLIP_OK;
    case 1:
        r->x = clip_lease(c, ports, &first);
        r->x = r->x << 32 | first;
        return CLIP_OK;
    case 2:
        r->x = clip_release(c, ports, q->a);
        return CLIP_OK;
    case 3:
        bytes = clip_bytes(c, q->a, q->b);
        r->x = bytes ? (q->b ? bytes[0] : 1) : 0xffff;
        if (bytes && q->b)
            bytes[q->b - 1] = 'Z';
        return CLIP_OK;
    case 4:
        payload = clip_payload(c, &len);
        r->x = (uint64_t)len << 32 | (payload ? (len ? payload[0] : 1) : 0xffff);
        return CLIP_OK;
    case 5:
        r->x = clip_now_ns(c);
        return CLIP_OK;
    case 6:
        r->x = clip_random(c) ^ clip_random(c) << 1;
        return CLIP_OK;
    case 7:
        clip_log(c, "%s %d %s", names[1], (int)q->a, "x\n");
        clip_log(c, "%0500d", 1);
        r->x = table[q->a % 3] + 100 * clip_server(c);
        return CLIP_OK;
    case 8:
        return clip_drop(c, "no_room");
    case 9:
        return clip_drop(c, "");
    case 10:
        return 77;
    case 11:
        return clip_drop(c, "odd \" name\n");
    case 12:
        return -1;
    }
    return CLIP_OK;
}
"#;

fn packet(op: u8, a: u32, b: u32) -> Vec<u8> {
    let mut bytes = vec![op];
    bytes.extend(a.to_be_bytes());
    bytes.extend(b.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(b"payload");
    bytes
}

type Send = fn(&mut Device, &[u8], u64) -> Vec<(u32, Vec<u8>)>;

/// The ways of a packet through a device: one by one, and by the fast path.
const WAYS: [Send; 2] = [send, forward];

fn call(way: Send, device: &mut Device, (op, a, b): (u8, u32, u32), now: u64) -> (u64, Vec<u8>) {
    let (_, bytes) = way(device, &packet(op, a, b), now).remove(0);
    let x = u64::from_be_bytes(bytes[9..HEADER].try_into().unwrap());
    (x, bytes[HEADER..].to_vec())
}

#[test]
fn state_and_pools_stay_from_call_to_call() {
    each_device(&numbers(), CODE, |device| {
        let mut ask = |op, a| call(send, device, (op, a, 0), 0).0;
        assert_eq!(ask(0, 5), 1 << 32 | 5 << 16 | 2);
        assert_eq!(ask(0, 6), 2 << 32 | 11 << 16 | 4);
        // 2100 values are in chunks of 2.
        assert_eq!(ask(1, 0), 2 << 32);
        assert_eq!(ask(1, 0), 2 << 32 | 2);
        assert_eq!(ask(2, 3), 0);
        assert_eq!(ask(2, 0), 1);
        assert_eq!(ask(2, 0), 0);
        assert_eq!(ask(1, 0), 2 << 32);
        for chunk in 2..1050 {
            assert_eq!(ask(1, 0), (2 << 32) | (2 * chunk));
        }
        assert_eq!(ask(1, 0), 0);
    });
}

#[test]
fn only_bytes_that_were_not_parsed_are_given() {
    let outside = 0xffff;
    let header = HEADER as u32;
    each_device(&numbers(), CODE, |device| {
        for way in WAYS {
            for (at, len, x, rest) in [
                (header, 7, u64::from(b'p'), "payloaZ"),
                (header + 3, 1, u64::from(b'l'), "payZoad"),
                (header + 7, 0, 1, "payload"),
                (header - 1, 1, outside, "payload"),
                (0, 1, outside, "payload"),
                (header, 8, outside, "payload"),
                (header + 8, 0, outside, "payload"),
                (u32::MAX, u32::MAX, outside, "payload"),
            ] {
                let expect = (x, rest.as_bytes().to_vec());
                assert_eq!(call(way, device, (3, at, len), 0), expect, "{at} {len}");
            }
            for (index, length, x) in [
                (0, 7, 7 << 32 | u64::from(b'p')),
                (0, u32::MAX, 7 << 32 | u64::from(b'p')),
                (2, 3, 3 << 32 | u64::from(b'y')),
                (7, 1, 1),
                (8, 1, outside),
            ] {
                assert_eq!(
                    call(way, device, (4, index, length), 0).0,
                    x,
                    "{index} {length}"
                );
            }
        }
    });
}

#[test]
fn time_and_random_numbers_are_the_packets() {
    let program = numbers();
    let mut runs = Vec::new();
    each_device(&program, CODE, |device| {
        assert_eq!(call(send, device, (5, 0, 0), 1234).0, 1234);
        assert_eq!(call(forward, device, (5, 0, 0), 1240).0, 1240);
        let mut random = |way| call(way, device, (6, 0, 0), 2000).0;
        runs.push([random(send), random(send), random(forward)]);
    });
    assert!(runs.iter().all(|run| *run == runs[0]));
    assert!(runs[0][0] != runs[0][1] && runs[0][1] != runs[0][2]);
}

#[test]
fn messages_are_the_packets_and_bounded() {
    each_device(&numbers(), CODE, |device| {
        for way in WAYS {
            assert_eq!(call(way, device, (7, 1, 0), 0).0, 1);
            assert_eq!(device.take_message().as_deref(), Some("one 1 x"));
            let long = device.take_message().unwrap();
            assert_eq!((long.len(), device.take_message()), (255, None));
        }
    });
}

#[test]
fn drops_are_counted_by_the_handlers_name() {
    each_device(&numbers(), CODE, |device| {
        for way in WAYS {
            for op in 8..13 {
                assert_eq!(way(device, &packet(op, 0, 0), 0), []);
            }
        }
        let drops: Vec<_> = device
            .ledger()
            .drops()
            .map(|(r, n)| (r.name(), n))
            .collect();
        let mut named = drops[1..].to_vec();
        named.sort_unstable();
        assert_eq!(drops[0], ("handler_drop", 6));
        assert_eq!(named, [("no_room", 2), ("odd___name_", 2)]);
        assert_eq!(device.ledger().dropped(DropReason::named(b"no_room")), 2);
    });
}

#[test]
fn later_code_takes_the_state_over_or_is_refused() {
    let program = numbers();
    let other = CODE.replace("uint64_t sums[3];", "uint64_t sums[4];");
    let fewer = CODE.replace("CLIP_SHARED(uint64_t, total);", "").replace(
        "uint64_t *total = clip_state(c, total);",
        "uint64_t zero = 0, *total = &zero;",
    );
    for compiler in compilers() {
        let [engine, _] = engines();
        let state = HandlerState::default();
        let first = compile(&program, CODE, compiler);
        let mut device = device_with(&program, &first, &state, &engine);
        assert_eq!(
            call(send, &mut device, (0, 5, 0), 0).0,
            1 << 32 | 5 << 16 | 2
        );
        let same = compile(&program, &format!("{CODE}/* later */"), compiler);
        let mut device = device_with(&program, &same, &state, &engine);
        assert_eq!(
            call(send, &mut device, (0, 6, 0), 0).0,
            2 << 32 | 11 << 16 | 4
        );
        for (text, name) in [(&other, "counts"), (&fewer, "total")] {
            let compiled = compile(&program, text, compiler);
            let options = LoadOptions::default();
            let error = foreign::load(&compiled, &program, &state, &options).unwrap_err();
            let is_it = matches!(
                &error,
                LoadError::ChangedVariable { name: it, .. } | LoadError::RemovedVariable { name: it }
                    if it == name
            );
            assert!(is_it, "{error}");
            assert_eq!(state.names(), ["counts", "ports", "total"]);
        }
        let options = LoadOptions {
            may_lose: true,
            server: 3,
        };
        let compiled = compile(&program, &fewer, compiler);
        foreign::load(&compiled, &program, &state, &options).unwrap();
        assert_eq!(state.names(), ["counts", "ports"]);
    }
}

#[test]
fn workers_have_state_of_their_own_and_share_the_rest() {
    let program = numbers();
    let compiled = compile(&program, CODE, "cc");
    let state = HandlerState::default();
    let natives = foreign::load(&compiled, &program, &state, &LoadOptions::default()).unwrap();
    let handler = natives.handler("h").unwrap();
    let layout = ir::Layout::of(&program);
    let mut configuration = exec::Configuration::new(Arc::clone(&program)).unwrap();
    let state = configuration.snapshot();
    let ask = |lane: u32| {
        let mut packet = exec::PacketContext::new(&program, &layout, 0);
        packet.lane = table::CounterShard::new(lane);
        let mut response = [0];
        let call = exec::HandlerCall {
            request: &[0, 1, 0],
            response: &mut response,
            packet: &mut packet,
            state: &state,
        };
        handler.call(call).map(|()| response[0])
    };
    assert_eq!(ask(0), Ok(1 << 32 | 1 << 16 | 2));
    assert_eq!(ask(1), Ok(1 << 32 | 1 << 16 | 4));
    assert_eq!(ask(0), Ok(2 << 32 | 2 << 16 | 6));
    assert_eq!(ask(5000), Err(DropReason::Handler));
}
