//! Extreme values of all classes and operators in the emitted program, on all engines, compared
//! with a plain model of a switch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use aggregate::datagram::{self, Endpoint};
use aggregate::{
    Bank, Body, Flags, Header, KeyClass, Kind, Message, Operator, Pair, Shape, SwitchReduction,
    ValueClass, emit,
};
use exec::Engine;
use packet::{Nanos, PortId};
use support::rng::Rng;
use switch::{Device, DeviceConfig};

const FLOWS: u32 = 3;

/// Flow of the switch.
const OWN_FLOW: u16 = 2;

const PAIRS: usize = 3;

const MESSAGES: u32 = 300;

const HOST: Endpoint = Endpoint {
    mac: [2, 0, 0, 0, 0, 1],
    address: Ipv4Addr::new(10, 0, 0, 1),
    port: 9570,
};

fn device(shape: Shape, engine: &dyn Engine) -> Device {
    let text = emit(&[SwitchReduction {
        job: 1,
        shape,
        slots: 8,
        window: 4,
        flows: FLOWS,
        pairs_per_message: PAIRS,
        is_multicast: false,
    }]);
    let program = driver::compile_text("switch.p4", &text);
    let program = Arc::new(program.unwrap_or_else(|error| panic!("{error}")));
    let device = Device::new(Arc::clone(&program), engine, &DeviceConfig::default());
    let mut device = device.unwrap_or_else(|error| panic!("{error}"));
    let mut entries = format!(
        "SwitchIngress.routes {{ hdr.ipv4.dst: 10.0.0.1/32; }} -> \
         forward(port: 1, mac: 02:00:00:00:00:01)\n\
         SwitchIngress.reductions {{ hdr.agg.job: 1; }} -> \
         take_part(attempt: 1, incarnation: 1, own_flow: {OWN_FLOW}, own_port: 1, \
         own_mac: 02:00:00:00:00:01)\n"
    );
    for flow in (0..FLOWS as u16).filter(|flow| *flow != OWN_FLOW) {
        entries += &format!(
            "SwitchIngress.flows {{ standard_metadata.ingress_port: 0; hdr.ipv4.dst: 10.0.0.1; \
             hdr.agg.job: 1; hdr.agg.flow: {flow}; }} -> \
             pass(port: 1, mac: 02:00:00:00:00:01, reduces: 1)\n"
        );
    }
    let file = entries::read(&program, "entries", &entries);
    let file = file.unwrap_or_else(|errors| panic!("{}", errors[0]));
    apply_entries::apply_file(&mut device, &file).unwrap_or_else(|error| panic!("{error}"));
    device
}

/// Sends a message through the switch.
fn pass(device: &mut Device, message: &Message) -> Message {
    let frame = datagram::write(HOST, HOST, &message.write());
    device.receive(PortId(0), &frame).expect("the frame fits");
    device.step(Nanos::ZERO);
    let mut sent = Vec::new();
    device.drain_sent(|_, bytes, _| sent.push(bytes.to_vec()));
    assert_eq!(sent.len(), 1);
    let datagram = datagram::read(&sent[0]).expect("the checksums are correct");
    Message::read(datagram.payload).expect("the datagram is a message")
}

fn header(shape: Shape, kind: Kind, flow: u16, sequence: u32, credit: u16) -> Header {
    Header {
        kind,
        flags: Flags::VALID,
        shape,
        job: 1,
        attempt: 1,
        flow,
        epoch: 0,
        sequence,
        incarnation: 1,
        pairs: 0,
        absorbed: 0,
        credit,
    }
}

/// Returns the least and the largest value of a class.
fn range(class: ValueClass) -> (i128, i128) {
    let bits = class.bytes() as u32 * 8;
    match class.is_signed() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

fn check(shape: Shape, engine: &dyn Engine) {
    let mut device = device(shape, engine);
    let mut rng = Rng::new(u64::from(shape.operator.code()) << 8 | u64::from(shape.values.code()));
    let (least, largest) = range(shape.values);
    let mut slots: BTreeMap<Box<[u8]>, (u64, i128)> = BTreeMap::new();
    let mut overflows = 0;
    for sequence in 0..MESSAGES {
        let flow = u32::from(rng.one_in(2));
        let pairs: Vec<Pair> = (0..rng.between(1, PAIRS as u64))
            .map(|_| {
                let near = i128::from(rng.below(3));
                let value = match rng.below(4) {
                    0 => least + near,
                    1 => largest - near,
                    2 => (near - 1).max(least),
                    _ => (i128::from(rng.bits()) & largest).max(least),
                };
                Pair::new(
                    [b"", &b"\0"[..], b"a", b"a\0", b"zzzzzzz"][rng.index(5)],
                    value,
                )
            })
            .collect();
        let mut left = Vec::new();
        for pair in &pairs {
            let Some((count, value)) = slots.get_mut(&pair.key) else {
                slots.insert(pair.key.clone(), (1, pair.value));
                continue;
            };
            let combined = shape.operator.combine(*value, pair.value);
            if shape.values.fits(combined) {
                (*count, *value) = (*count + 1, combined);
            } else {
                overflows += 1;
                left.push(pair.clone());
            }
        }
        let message = Message {
            header: header(shape, Kind::Data, flow as u16, sequence, 1),
            body: Body::Pairs(pairs),
        };
        let passed = pass(&mut device, &message);
        // A message without pairs returns as a receipt.
        let expected = match left.is_empty() {
            true => Body::Taken,
            false => Body::Pairs(left),
        };
        assert_eq!(passed.body, expected, "{shape:?}, {message:?}");
        // A repeat loses the same pairs.
        let mut again = message.clone();
        again.header.credit = 2;
        assert_eq!(pass(&mut device, &again).body, passed.body, "{again:?}");
    }
    assert_eq!(overflows > 0, shape.operator == Operator::Add);
    let mut found = BTreeMap::new();
    let mut counts = 0;
    for first in (0..8).step_by(PAIRS) {
        let bank = Bank {
            first,
            ..Bank::default()
        };
        let request = Message {
            header: header(shape, Kind::Collect, OWN_FLOW, first, 1),
            body: Body::Bank(bank, Vec::new()),
        };
        let Body::Bank(bank, pairs) = pass(&mut device, &request).body else {
            panic!("the answer has no slots");
        };
        counts += bank.counts;
        found.extend(pairs.into_iter().map(|pair| (pair.key, pair.value)));
    }
    assert_eq!(counts, slots.values().map(|(count, _)| count).sum::<u64>());
    let expected: BTreeMap<_, _> = slots.into_iter().map(|(k, (_, v))| (k, v)).collect();
    assert_eq!(found, expected, "{shape:?}");
}

/// Sends messages with a sum of 0, which hosts send as 0xffff (RFC 768): one that the switch
/// reduces, and two that it passes as they are.
fn check_zero_sums(engine: &dyn Engine) {
    let shape = Shape {
        operator: Operator::Max,
        keys: KeyClass::B8,
        values: ValueClass::I32,
    };
    let question = Body::Question {
        pairs: 1,
        since: 0,
        submission: 1,
        lanes: None,
    };
    let bodies = [
        (Kind::Data, Body::Pairs(vec![Pair::new(*b"a", 7)])),
        (Kind::End, Body::End(Default::default())),
        (Kind::Signal, question),
    ];
    for (kind, body) in bodies {
        let mut messages = (0..=u16::MAX).map(|credit| Message {
            header: header(shape, kind, 0, 0, credit),
            body: body.clone(),
        });
        let has_zero_sum = |message: &Message| {
            let frame = datagram::write(HOST, HOST, &message.write());
            frame[40..42] == [0xff, 0xff]
        };
        let message = messages.find(has_zero_sum).expect("a credit makes it 0");
        let passed = pass(&mut device(shape, engine), &message);
        let expected = match kind {
            Kind::Data => Body::Taken,
            _ => message.body.clone(),
        };
        assert_eq!(passed.body, expected, "{message:?}");
    }
}

#[test]
fn datagrams_with_a_sum_of_0_pass_on_all_engines() {
    check_zero_sums(&interp::Interp);
    check_zero_sums(&jit::Jit::new(Arc::new(interp::Interp)));
}

fn check_all(engine: &dyn Engine) {
    for operator in Operator::ALL {
        for values in ValueClass::ALL {
            let keys = KeyClass::B8;
            check(
                Shape {
                    operator,
                    keys,
                    values,
                },
                engine,
            );
        }
    }
}

#[test]
fn extreme_values_are_exact_in_the_interpreter() {
    check_all(&interp::Interp);
}

#[test]
fn extreme_values_are_exact_in_native_code() {
    check_all(&jit::Jit::new(Arc::new(interp::Interp)));
}
