//! The target `frames`: bytes of engines to an agent, right and damaged. Each connection ends well
//! or with a named error, holds bounded memory, and stores what a plain reading of the documented
//! frames stores.

use std::collections::BTreeMap;

use aggregate_runtime::{FuzzAgent, PartLimits};
use support::rng::Rng;

use super::guard::guarded;
use super::{Case, Fault};
use crate::mutate::mutate;

/// Maximum number of frames of a connection.
const MAX_FRAMES: usize = 12;

/// Bytes of memory that a connection may hold, beside a multiple of the bytes that it sends.
const MEMORY: u64 = 1 << 20;

/// This multiple: a pair of few bytes becomes a key and a value of 16 bytes.
const MEMORY_PER_BYTE: u64 = 32;

/// Names of parts.
const NAMES: [&str; 4] = ["a", "a/1", "a/10", "b"];

/// Right bodies with JSON, by kind.
const BODIES: [(u8, &str); 5] = [
    (0, r#"{"protocol":1,"engine":"fuzz 1"}"#),
    (
        2,
        r#"{"group":"ddp","rank":0,"size":3,"slots":1000,"tiers":1,"seconds":300}"#,
    ),
    (2, r#"{"group":"g","rank":1,"size":2}"#),
    (
        9,
        r#"{"name":"a","operator":"add","keys":16,"values":"i64","slots":1000,"tiers":1,"mappers":[{"host":"10.0.1.11","part":"a/1"}]}"#,
    ),
    (
        9,
        r#"{"name":"a","operator":"max","mappers":[{"host":"10.0.1.1","part":"b"}]}"#,
    ),
];

/// Serves the connections of one case. Returns a fault if something is wrong.
pub(crate) fn case(case: &Case<'_>) -> Option<(Fault, String)> {
    let mut choices = Rng::new(case.stream());
    let connections: Vec<Vec<u8>> = (0..1 + choices.index(3))
        .map(|_| sent(&mut choices))
        .collect();
    let given = connections.clone();
    let fault = match guarded(case.limit, move || served(&given)) {
        Ok(Ok(stored)) => {
            (0..stored.min(1)).for_each(|_| case.accept());
            return None;
        }
        Ok(Err(fault)) => fault,
        Err(trouble) => trouble.fault("serving an engine"),
    };
    let lines = connections.iter().map(|bytes| format!("{bytes:02x?}\n"));
    Some((fault, lines.collect()))
}

/// Returns what an engine sends.
fn sent(choices: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !choices.one_in(10) {
        frame(&mut bytes, 0, BODIES[0].1.as_bytes());
    }
    // Most connections are for one purpose.
    let is_member = choices.one_in(3);
    for _ in 0..choices.index(MAX_FRAMES) {
        let (kind, body) = match (choices.index(12), is_member) {
            (0, _) => (choices.bits() as u8, vec![0; choices.index(9)]),
            (1 | 2, _) => json(choices),
            (3, false) => (
                12,
                choices.pick(&NAMES).map_or(Vec::new(), |it| (*it).into()),
            ),
            (_, false) => (7, store(choices)),
            (3 | 4, true) => (2, BODIES[1].1.into()),
            (5, true) => (6, Vec::new()),
            (_, true) => (4, reduce(choices)),
        };
        frame(&mut bytes, kind, &body);
    }
    if choices.one_in(2) {
        damage(choices, &mut bytes);
    }
    bytes
}

fn frame(bytes: &mut Vec<u8>, kind: u8, body: &[u8]) {
    bytes.extend((body.len() as u32 + 1).to_be_bytes());
    bytes.push(kind);
    bytes.extend(body);
}

/// A body with JSON, often mutated.
fn json(choices: &mut Rng) -> (u8, Vec<u8>) {
    let (kind, text) = BODIES[choices.index(BODIES.len())];
    let other = BODIES[choices.index(BODIES.len())].1;
    match choices.one_in(2) {
        true => (kind, mutate(text, other, choices).into()),
        false => (kind, text.into()),
    }
}

fn store(choices: &mut Rng) -> Vec<u8> {
    let name = NAMES[choices.index(NAMES.len())];
    let mut body = (name.len() as u16).to_be_bytes().to_vec();
    body.extend(name.as_bytes());
    for _ in 0..choices.index(20) {
        let key: Vec<u8> = (0..choices.index(4))
            .map(|_| b"ab\0"[choices.index(3)])
            .collect();
        body.extend((key.len() as u16).to_be_bytes());
        body.extend(key);
        body.extend(choices.bits().to_be_bytes());
    }
    body
}

fn reduce(choices: &mut Rng) -> Vec<u8> {
    let mut body = vec![choices.index(4) as u8, 0, 0, u8::from(choices.one_in(20))];
    body.extend((0..4 * choices.index(9)).map(|_| choices.bits() as u8));
    body.extend((0..usize::from(choices.one_in(9))).map(|_| 0));
    body
}

/// Changes, removes or inserts some bytes.
fn damage(choices: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + choices.index(4) {
        let at = choices.index(bytes.len() + 1);
        match choices.index(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, choices.bits() as u8),
            3 if at < bytes.len() => bytes[at] ^= 1 << choices.index(8),
            4 if at + 4 <= bytes.len() => {
                // A length, if it is in the right place.
                let len = [0, 1, 5, 1 << 20, 1 << 30, u32::MAX][choices.index(6)];
                bytes[at..at + 4].copy_from_slice(&len.to_be_bytes());
            }
            _ if at < bytes.len() => bytes[at] = choices.bits() as u8,
            _ => {}
        }
    }
}

/// Serves connections one after the other. Returns the number of parts that were stored.
fn served(connections: &[Vec<u8>]) -> Result<usize, Fault> {
    let agent = FuzzAgent::new(PartLimits::default());
    let mut agent = agent.map_err(|error| Fault::new("no agent", error.to_string()))?;
    let mut model = Model::default();
    let mut stored = 0;
    for bytes in connections {
        let mut ended = None;
        let held = allocation_counter::measure(|| ended = Some(agent.serve(bytes)));
        let most = MEMORY + MEMORY_PER_BYTE * bytes.len() as u64;
        if held.bytes_max > most {
            let detail = format!("{} bytes for {} sent", held.bytes_max, bytes.len());
            return Err(Fault::new("a connection holds too much memory", detail));
        }
        let Some(Ok(ended)) = ended else {
            return Err(Fault::new("no connection", format!("{ended:?}")));
        };
        let answers = frames(&ended.written);
        let answers = answers.map_err(|why| Fault::new("an answer is no frame", why))?;
        let is_greeted = answers.first().is_some_and(|(kind, _)| *kind == 0);
        let has_more = answers[1.min(answers.len())..]
            .iter()
            .any(|(kind, _)| *kind == 0);
        if !is_greeted || has_more {
            return Err(Fault::new("not one HELLO first", format!("{answers:?}")));
        }
        if let Some(why) = &ended.error {
            let last = answers.last().map(|(kind, body)| (*kind, *body));
            if why.is_empty() || last != Some((1, why.as_bytes())) {
                let detail = format!("{why}\n{answers:?}");
                return Err(Fault::new("the error is not the last answer", detail));
            }
        }
        let counts = answers.iter().filter(|(kind, _)| *kind == 8);
        let counts: Vec<Option<u64>> = counts.map(|(_, body)| pairs_of(body)).collect();
        stored += counts.len();
        model.take(bytes, &counts, ended.error.is_some())?;
    }
    for name in NAMES {
        let (found, expected) = (agent.stored(name), model.parts.get(name).cloned());
        if model.is_certain && found != expected {
            let detail = format!("{name}: {found:?}, and not {expected:?}");
            return Err(Fault::new("another part is stored", detail));
        }
    }
    Ok(stored)
}

/// Returns the number of pairs of a STORED.
fn pairs_of(body: &[u8]) -> Option<u64> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    body["pairs"].as_u64()
}

/// Returns the frames that bytes begin with, and the reason for which the rest is none.
fn whole(mut rest: &[u8]) -> (Vec<(u8, &[u8])>, Option<&'static str>) {
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let Some((len, after)) = rest.split_first_chunk::<4>() else {
            return (frames, Some("a length is cut"));
        };
        let frame = after.split_at_checked(u32::from_be_bytes(*len) as usize);
        let Some((Some((kind, body)), after)) = frame.map(|(it, after)| (it.split_first(), after))
        else {
            return (frames, Some("a frame is cut or empty"));
        };
        frames.push((*kind, body));
        rest = after;
    }
    (frames, None)
}

fn frames(bytes: &[u8]) -> Result<Vec<(u8, &[u8])>, String> {
    match whole(bytes) {
        (frames, None) => Ok(frames),
        (_, Some(why)) => Err(format!("{why}: {bytes:02x?}")),
    }
}

/// Stored parts by a plain reading of docs/AGGREGATE.md.
struct Model {
    parts: BTreeMap<String, BTreeMap<Vec<u8>, i128>>,
    /// False after a connection with a FORGET that an error has ended: the FORGET may have come
    /// after the error.
    is_certain: bool,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            parts: BTreeMap::new(),
            is_certain: true,
        }
    }
}

impl Model {
    /// Takes a connection with the numbers of pairs that were answered.
    fn take(
        &mut self,
        bytes: &[u8],
        counts: &[Option<u64>],
        has_failed: bool,
    ) -> Result<(), Fault> {
        let (frames, cut) = whole(bytes);
        let is_known = frames.iter().all(|(kind, _)| *kind <= 12);
        if !has_failed && (cut.is_some() || !is_known) {
            return Err(Fault::new("damaged frames end well", format!("{cut:?}")));
        }
        let mut counts = counts.iter();
        for (kind, body) in frames {
            match kind {
                7 => {
                    let Some((name, pairs)) = part(body) else {
                        continue;
                    };
                    let expected = pairs.len() as u64;
                    match counts.next() {
                        Some(Some(count)) if *count == expected => {
                            self.parts.insert(name, pairs);
                        }
                        // It comes after an error.
                        None if has_failed => return Ok(()),
                        found => {
                            let detail = format!("{name}: {found:?}, and not {expected}");
                            return Err(Fault::new("another STORED", detail));
                        }
                    }
                }
                12 => match std::str::from_utf8(body) {
                    Ok(prefix) => {
                        self.is_certain &= !has_failed;
                        self.parts.retain(|name, _| !name.starts_with(prefix));
                    }
                    Err(_) => return Ok(()),
                },
                _ => {}
            }
        }
        match counts.next() {
            None => Ok(()),
            Some(_) => Err(Fault::new("a STORED without a right STORE", "")),
        }
    }
}

/// Reads the body of a STORE. `None`: it is wrong.
fn part(body: &[u8]) -> Option<(String, BTreeMap<Vec<u8>, i128>)> {
    let mut rest = body;
    let mut take = |len: usize| {
        let (taken, after) = rest.split_at_checked(len)?;
        rest = after;
        Some((taken, after.is_empty()))
    };
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    let len = number(take(2)?.0);
    let (name, mut is_end) = take(len)?;
    let name = String::from_utf8(name.to_vec()).ok()?;
    let mut pairs = BTreeMap::new();
    while !is_end {
        let len = number(take(2)?.0);
        let key = take(len)?.0.to_vec();
        let (value, last) = take(8)?;
        let value = i64::from_be_bytes(value.try_into().ok()?);
        is_end = last;
        if pairs.insert(key, value.into()).is_some() {
            return None;
        }
    }
    (1..=1024).contains(&name.len()).then_some((name, pairs))
}
