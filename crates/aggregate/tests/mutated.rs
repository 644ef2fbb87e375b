//! Job text and messages with changed bytes: they are read or refused, and what is read is written
//! as it was.

use aggregate::{Job, Message};
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
