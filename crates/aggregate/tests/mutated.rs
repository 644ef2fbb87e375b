//! Job text and messages with changed bytes: they are read or refused, and what is read is written
//! as it was.

use aggregate::{
    Bank, Body, EpochCounts, Flags, FlowConfig, Header, Job, KeyClass, Kind, Message, Operator,
    Reducer, ReducerConfig, ReductionError, Shape, SwitchPlace, ValueClass,
};
use packet::Nanos;
use support::rng::Rng;

const JOB: &str = "# a job\n\
    data part0 = 10.0.1.11:part0.txt\n\
    data part1 = 10.0.1.12:part1.txt\n\
    map m0 = words(part0)\n\
    map m1 = exec \"./mine --flag\"(part1)\n\
    reduce total = add(m0, m1) at 10.0.9.2 keys 16 values i64 memory 100 tiers 2\n";

/// Changes, removes, doubles or inserts some bytes.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.between(1, 6) {
        let at = rng.index(bytes.len() + 1);
        match rng.below(4) {
            0 if at < bytes.len() => bytes[at] = rng.bits() as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.truncate(bytes.len().max(at)),
            _ => bytes.insert(at, b" \n=()\",.:#09am\xff\0"[rng.index(16)]),
        }
    }
}

#[test]
fn changed_job_text_is_read_or_refused_with_places() {
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        let mut bytes = JOB.as_bytes().to_vec();
        mutate(&mut rng, &mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        if let Err(errors) = Job::read(&text) {
            let lines = text.lines().count().max(1) + 1;
            assert!(
                errors
                    .iter()
                    .all(|error| (1..=lines).contains(&error.at.line))
            );
            assert!(!errors.is_empty());
        }
    }
}

#[test]
fn changed_messages_are_refused_or_written_as_they_were() {
    let mut rng = Rng::new(2);
    let mut read = 0;
    for _ in 0..200_000 {
        // Header of a small message of each type.
        let mut bytes = vec![0x10 | rng.below(9) as u8, (rng.bits() as u8) & 0xfc, 0, 0];
        bytes.extend((0..16).map(|_| rng.bits() as u8));
        bytes.extend([rng.below(3) as u8, 0, 0, 1]);
        let body = rng.below(44);
        bytes.extend((0..body).map(|_| if rng.one_in(4) { rng.bits() as u8 } else { 0 }));
        if let Some(message) = Message::read(&bytes) {
            read += 1;
            let written = message.write();
            let again = Message::read(&written).expect("what is written can be read");
            assert_eq!(again.body, message.body);
        }
    }
    assert!(read > 1_000, "{read} read");
}

const SHAPE: Shape = Shape {
    operator: Operator::Add,
    keys: KeyClass::B16,
    values: ValueClass::I64,
};

/// A reducer of two mappers and a switch, of which the flow is 2.
fn reducer() -> Reducer {
    let flows = FlowConfig {
        job: 1,
        attempt: 1,
        shape: SHAPE,
        window: 64,
        pairs_per_message: 2,
        datagram_bytes: 1472,
        receivers: 0,
    };
    let config = ReducerConfig {
        flows,
        mappers: 2,
        switches: vec![SwitchPlace { flow: 2, level: 0 }],
        slots: 10,
        open_epochs: 2,
        patience: Nanos::from_secs(5),
        waiting: Nanos::from_secs(5),
    };
    Reducer::new(config, 1)
}

fn message(kind: Kind, flow: u16, sequence: u32, body: Body) -> Message {
    let header = Header {
        kind,
        flags: Flags::VALID,
        shape: SHAPE,
        job: 1,
        attempt: 1,
        flow,
        epoch: 0,
        sequence,
        incarnation: 1,
        pairs: 0,
        absorbed: 0,
        credit: 1,
    };
    Message { header, body }
}

#[test]
fn counts_beyond_64_bits_are_a_named_failure() {
    let most = u64::MAX;
    let question = |pairs| Body::Question {
        pairs,
        since: 0,
        submission: 1,
        lanes: None,
    };
    let end = |pairs, taken| {
        let messages = 0;
        Body::End(EpochCounts {
            messages,
            pairs,
            taken,
        })
    };
    // Pairs of each mapper, of them taken by the switch, and the counts of its replies.
    for (pairs, taken, counts) in [
        (most, 0, 0),
        (most - 1, most, 0),
        (0, most, 0),
        (2, 2, most),
    ] {
        let mut reducer = reducer();
        for flow in 0..2 {
            let asked = message(Kind::Signal, flow, 0, question(pairs));
            reducer.receive(&asked, Nanos::ZERO);
        }
        for flow in 0..2 {
            let ended = message(Kind::End, flow, 0, end(pairs, taken));
            reducer.receive(&ended, Nanos::ZERO);
        }
        for sequence in 0..3 {
            while reducer.poll(Nanos::ZERO).is_some() {}
            let bank = Bank {
                first: 2 * sequence,
                used: 5,
                counts,
            };
            let mut reply = message(Kind::Reply, 2, sequence, Body::Bank(bank, Vec::new()));
            // Two, two and one.
            reply.header.absorbed = 2 - u8::from(sequence == 2);
            reducer.receive(&reply, Nanos::ZERO);
        }
        let failure = reducer.failure();
        let is_named = matches!(failure, Some(ReductionError::Unbalanced { epoch: 0, .. }));
        assert!(is_named, "{pairs} {taken} {counts}: {failure:?}");
    }
}
