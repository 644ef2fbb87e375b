//! Engines of agents over their Unix sockets: stored parts and groups, with all processes of a
//! site, each host in a network namespace. The client here speaks the frames of
//! docs/AGGREGATE.md by hand.

mod lab;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lab::site::{NAMED, REDUCER, Site, address};
use serde_json::{Value, json};
use support::rng::Rng;

const HELLO: u8 = 0;
const ERROR: u8 = 1;
const JOIN: u8 = 2;
const JOINED: u8 = 3;
const REDUCE: u8 = 4;
const REDUCED: u8 = 5;
const LEAVE: u8 = 6;
const STORE: u8 = 7;
const STORED: u8 = 8;
const COLLECT: u8 = 9;
const PAIRS: u8 = 10;
const COLLECTED: u8 = 11;
const FORGET: u8 = 12;

/// Bits per second of fast links, and of those on which a job takes some seconds.
const FAST: u64 = 100_000_000;
const SLOW: u64 = 2_000_000;

/// Time within which the others hear of a rank that has gone.
const HEARD: Duration = Duration::from_secs(1);

type Part = BTreeMap<Vec<u8>, i64>;

/// An engine at the agent of a host.
struct Engine(UnixStream);

impl Engine {
    /// Connects, and exchanges HELLO.
    fn new(site: &Site, host: usize) -> Engine {
        let mut engine = Engine::silent(site, host);
        engine.send(HELLO, br#"{"protocol":1,"engine":"test"}"#);
        let hello = engine.expect(HELLO);
        let hello: Value = serde_json::from_slice(&hello).unwrap();
        assert_eq!(hello["protocol"], 1, "{hello}");
        assert_eq!(hello["host"], address(host).to_string(), "{hello}");
        engine
    }

    /// Connects alone.
    fn silent(site: &Site, host: usize) -> Engine {
        let path = site.directory.file(&format!("engines{host}.sock"));
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(NAMED)).unwrap();
        Engine(stream)
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let mut frame = (body.len() as u32 + 1).to_be_bytes().to_vec();
        frame.push(kind);
        frame.extend(body);
        self.0.write_all(&frame).unwrap();
    }

    /// Reads a frame. `None`: the agent has ended the connection.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        match self.0.read(&mut head[..1]) {
            Ok(1) => {}
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
        self.0.read_exact(&mut head[1..]).unwrap();
        let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let mut body = vec![0; len as usize - 1];
        self.0.read_exact(&mut body).unwrap();
        Some((head[4], body))
    }

    fn expect(&mut self, kind: u8) -> Vec<u8> {
        let (found, body) = self.receive().unwrap();
        assert_eq!(found, kind, "{}", body.escape_ascii());
        body
    }

    /// Checks that an error comes with these words.
    fn expect_error(&mut self, words: &[&str]) {
        let text = String::from_utf8(self.expect(ERROR)).unwrap();
        println!("{text}");
        for word in words {
            assert!(text.contains(word), "{text}");
        }
    }

    /// Checks that an error comes with these words, and then the end.
    fn expect_end(&mut self, words: &[&str]) {
        self.expect_error(words);
        assert_eq!(self.receive(), None);
    }

    fn store(&mut self, name: &str, part: &Part) {
        self.send(STORE, &store_body(name, part));
        let stored: Value = serde_json::from_slice(&self.expect(STORED)).unwrap();
        assert_eq!(stored["pairs"], part.len());
    }

    fn ask(&mut self, operator: &str, parts: &[(usize, String)]) {
        let mappers = parts.iter().map(|(host, part)| {
            let host = address(*host).to_string();
            json!({ "host": host, "part": part })
        });
        let mappers: Vec<Value> = mappers.collect();
        let request = json!({
            "name": "app-1/3/7", "operator": operator, "slots": 300, "mappers": mappers,
        });
        self.send(COLLECT, request.to_string().as_bytes());
    }

    /// Reads the pairs of a result, and what is said of them.
    fn result(&mut self) -> (Part, Value) {
        let mut part = Part::new();
        loop {
            let (kind, body) = self.receive().unwrap();
            match kind {
                PAIRS => {
                    let mut rest = &body[..];
                    while let Some((len, after)) = rest.split_first_chunk::<2>() {
                        let (key, after) = after.split_at(u16::from_be_bytes(*len).into());
                        let (value, after) = after.split_first_chunk::<8>().unwrap();
                        part.insert(key.to_vec(), i64::from_be_bytes(*value));
                        rest = after;
                    }
                }
                COLLECTED => return (part, serde_json::from_slice(&body).unwrap()),
                other => panic!("{other}: {}", body.escape_ascii()),
            }
        }
    }

    fn join(&mut self, group: &str, rank: u16, size: u16, seconds: u64) {
        let join = json!({ "group": group, "rank": rank, "size": size, "seconds": seconds });
        self.send(JOIN, join.to_string().as_bytes());
    }

    /// Joins a group on host 0 and up, one rank a host, and waits until all are there.
    fn joined(site: &Site, group: &str, size: u16) -> Vec<Engine> {
        let ranks = (0..size).map(|rank| {
            let mut engine = Engine::new(site, rank.into());
            engine.join(group, rank, size, 30);
            engine
        });
        let mut ranks: Vec<Engine> = ranks.collect();
        for engine in &mut ranks {
            let joined: Value = serde_json::from_slice(&engine.expect(JOINED)).unwrap();
            assert_eq!(joined["switches"], json!(["tor"]), "{joined}");
            assert_eq!(joined["reducer"], address(0).to_string(), "{joined}");
        }
        ranks
    }
}

/// Operations of a REDUCE.
const SUM_F32: u8 = 0;
const SUM_I32: u8 = 1;
const MAX_I32: u8 = 2;

/// Returns the values that a rank submits, as 32 bits each, and what all ranks get.
fn vectors(rng: &mut Rng, operation: u8, ranks: u16, len: u64) -> (Vec<Vec<u8>>, Vec<u8>) {
    let integers = (0..ranks).map(|_| {
        let values = (0..len).map(|_| match operation {
            // Sums of these are exact in floats.
            SUM_F32 => rng.below(2001) as i32 - 1000,
            _ => rng.bits() as i32,
        });
        values.collect::<Vec<i32>>()
    });
    let integers: Vec<Vec<i32>> = integers.collect();
    let bytes = |value: i32| match operation {
        SUM_F32 => (value as f32).to_le_bytes(),
        _ => value.to_le_bytes(),
    };
    let body = |values: &Vec<i32>| {
        let values = values.iter().flat_map(|value| bytes(*value));
        [operation, 0, 0, 0].into_iter().chain(values).collect()
    };
    let combined = (0..len as usize).map(|lane| {
        let lanes = integers.iter().map(|values| values[lane]);
        match operation {
            MAX_I32 => lanes.max().unwrap_or(0),
            _ => lanes.fold(0, i32::wrapping_add),
        }
    });
    let result = combined.flat_map(bytes).collect();
    (integers.iter().map(body).collect(), result)
}

fn store_body(name: &str, part: &Part) -> Vec<u8> {
    let mut body = (name.len() as u16).to_be_bytes().to_vec();
    body.extend(name.as_bytes());
    for (key, value) in part {
        body.extend((key.len() as u16).to_be_bytes());
        body.extend(key);
        body.extend(value.to_be_bytes());
    }
    body
}

/// Returns a part with keys of any bytes and lengths, many of them in all parts.
fn part(rng: &mut Rng, keys: u64) -> Part {
    let pairs = (0..keys).map(|_| {
        let number = rng.below(keys * 2);
        let mut key = number.to_be_bytes().to_vec();
        key.truncate(8 - (number % 3) as usize);
        key.extend(vec![b'x'; (number % 40) as usize]);
        (key, rng.below(1 << 40) as i64 - (1 << 39))
    });
    pairs.collect()
}

fn combine(parts: &[Part], combine: impl Fn(i64, i64) -> i64) -> Part {
    let mut all = Part::new();
    for (key, value) in parts.iter().flatten() {
        let old = all.get(key).copied();
        all.insert(key.clone(), old.map_or(*value, |old| combine(old, *value)));
    }
    all
}

/// Stores a part in each mapper's agent, and returns their hosts and names.
fn store_parts(site: &Site, parts: &[Part]) -> Vec<(usize, String)> {
    let stored = parts.iter().enumerate().map(|(host, part)| {
        let name = format!("app-1/3/{host}/7");
        Engine::new(site, host).store(&name, part);
        (host, name)
    });
    stored.collect()
}

/// Returns the last job of the master.
fn last_job(site: &Site) -> Value {
    let jobs = site.ask(&["jobs", "--json"]).json();
    jobs.as_array().unwrap().last().cloned().unwrap_or_default()
}

/// Waits until the last job of the master is in a state or at a step.
fn wait_for(site: &Site, wanted: &str) -> Value {
    let start = Instant::now();
    loop {
        let last = last_job(site);
        if last["state"] == wanted || last["reductions"][0]["step"] == wanted {
            return last;
        }
        assert!(start.elapsed() < NAMED, "{last}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn stored_parts_of_three_agents_are_reduced_as_in_one_map() {
    let Some(mut site) = Site::start("engine-parts", FAST, &[]) else {
        return;
    };
    site.wait_for_all();
    let mut rng = Rng::new(46);
    let parts: Vec<Part> = (0..REDUCER).map(|_| part(&mut rng, 1500)).collect();
    let stored = store_parts(&site, &parts);
    let mut engine = Engine::new(&site, REDUCER);
    let sums = combine(&parts, |a, b| a + b);
    let operators = [
        ("add", sums.clone()),
        ("max", combine(&parts, i64::max)),
        ("min", combine(&parts, i64::min)),
    ];
    for (operator, expected) in operators {
        engine.ask(operator, &stored);
        let (found, said) = engine.result();
        assert_eq!(found, expected, "{operator}");
        println!("{operator}: {said}");
        assert_eq!(said["keys"], expected.len());
        assert_eq!(said["switches"], json!(["tor"]));
        assert_eq!(
            (&said["attempts"], &said["retried"]),
            (&json!(1), &json!(0))
        );
        assert!(said["bytes"].as_u64() > Some(0));
    }
    wait_for(&site, "complete");
    site.is_clean();

    // Errors of a request leave the connection as it is.
    engine.ask("sub", &stored);
    engine.expect_error(&["operator \"sub\"", "add, max or min"]);
    let mut unknown = stored.clone();
    unknown[1].0 = 98;
    engine.ask("add", &unknown);
    engine.expect_error(&["app-1/3/7", "10.46.0.99 is no host of the topology site"]);
    engine.send(
        STORE,
        &[
            store_body("a", &parts[0]),
            store_body("", &parts[0])[2..].to_vec(),
        ]
        .concat(),
    );
    engine.expect_error(&["is there twice"]);
    let huge = Part::from([(b"k".to_vec(), i64::MAX)]);
    let all = (0..2).map(|host| {
        Engine::new(&site, host).store("huge", &huge);
        (host, "huge".to_owned())
    });
    let all: Vec<_> = all.collect();
    engine.ask("add", &all);
    engine.expect_error(&["\"k\"", "does not fit into 64 bits"]);
    Engine::new(&site, 1).send(FORGET, b"app-1/3/1/");
    std::thread::sleep(Duration::from_millis(200));
    engine.ask("add", &stored);
    engine.expect_error(&["mapper app-1/3/1/7 on w1", "no part app-1/3/1/7 is stored"]);
    engine.ask("add", &[stored[0].clone(), stored[2].clone()]);
    let two = [parts[0].clone(), parts[2].clone()];
    assert_eq!(engine.result().0, combine(&two, |a, b| a + b));

    // Two at once, from one host.
    store_parts(&site, &parts);
    let mut other = Engine::new(&site, REDUCER);
    engine.ask("add", &stored);
    other.ask("add", &stored);
    assert_eq!(other.result().0, sums);
    assert_eq!(engine.result().0, sums);

    // The parts of an agent that was started again are not there.
    drop(site.agents[0].take());
    site.start_agent(0);
    site.wait_for_all();
    engine.ask("add", &stored);
    engine.expect_error(&["mapper app-1/3/0/7 on w0", "no part"]);
    site.is_clean();
}

#[test]
fn parts_have_a_limit_of_memory_and_end_by_age() {
    let Some(mut site) = Site::lay("engine-limits", FAST) else {
        return;
    };
    let options = ["--parts-memory", "1", "--parts-age", "4"];
    site.agent_options = options.iter().map(|it| (*it).to_owned()).collect();
    site.start_agent(0);
    let mut rng = Rng::new(49);
    let (small, large) = (part(&mut rng, 20), part(&mut rng, 20_000));
    let mut engine = Engine::new(&site, 0);
    engine.store("killed/1", &large);
    engine.send(STORE, &store_body("next/1", &large));
    engine.expect_error(&[
        "next/1",
        "of the agent's 1048576",
        "--parts-memory",
        "FORGET",
    ]);
    // The connection goes on, and a part that replaces another one has its room.
    engine.store("killed/1", &large);
    engine.store("used", &small);
    drop(engine);
    // The agent has no master: the age ends parts all the same, and makes room.
    let start = Instant::now();
    let mut other = Engine::new(&site, 0);
    loop {
        other.send(STORE, &store_body("next/1", &large));
        let (kind, body) = other.receive().unwrap();
        if kind == STORED {
            break;
        }
        assert_eq!(kind, ERROR, "{}", body.escape_ascii());
        assert!(start.elapsed() < NAMED);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(
        start.elapsed() > Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn an_engine_that_goes_away_cancels_its_reduction() {
    let Some(mut site) = Site::start("engine-gone", SLOW, &[]) else {
        return;
    };
    site.wait_for_all();
    let mut rng = Rng::new(47);
    let parts: Vec<Part> = (0..REDUCER).map(|_| part(&mut rng, 20_000)).collect();
    let stored = store_parts(&site, &parts);
    let mut engine = Engine::new(&site, REDUCER);
    engine.ask("add", &stored);
    wait_for(&site, "reduces");
    assert!(site.registers() > Some(0));
    drop(engine);
    let job = wait_for(&site, "failed");
    let failure = job["reductions"][0]["failure"].to_string();
    assert!(failure.contains("collected on r: its engine"), "{job}");
    site.is_clean();

    // So do `cancel` and the end of the master, with a name.
    let mut engine = Engine::new(&site, REDUCER);
    engine.ask("add", &stored);
    let number = wait_for(&site, "reduces")["number"].to_string();
    let cancelled = site.ask(&["cancel", &number]);
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.err);
    engine.expect_error(&["was cancelled"]);
    engine.ask("add", &stored);
    wait_for(&site, "reduces");
    drop(site.master.take());
    engine.expect_error(&["app-1/3/7", "the master has gone"]);
    engine.ask("add", &stored);
    engine.expect_error(&["the agent has no master", "polyplane aggregate serve"]);
    site.start_master();
    site.is_clean();
}

#[test]
fn a_group_begins_when_all_ranks_are_there_and_ends_when_they_have_left() {
    let Some(site) = Site::start("engine-group", FAST, &[]) else {
        return;
    };
    site.wait_for_all();
    let mut ranks = Engine::joined(&site, "ddp", 3);
    let job = wait_for(&site, "reduces");
    assert_eq!(job["name"], "group ddp");
    assert!(site.registers() > Some(0));
    for engine in &mut ranks {
        engine.send(LEAVE, &[]);
        assert_eq!(engine.receive(), None);
    }
    wait_for(&site, "complete");
    site.is_clean();

    // A group of one host, with another name at the same time.
    let mut first = Engine::new(&site, 1);
    let mut second = Engine::new(&site, 1);
    first.join("one", 0, 2, 30);
    wait_for(&site, "waits for rank 1");
    second.join("one", 1, 2, 30);
    first.expect(JOINED);
    second.expect(JOINED);
    let mut other = Engine::new(&site, 2);
    other.join("other", 0, 1, 30);
    other.expect(JOINED);
    for engine in [&mut first, &mut second, &mut other] {
        engine.send(LEAVE, &[]);
        assert_eq!(engine.receive(), None);
    }
    site.is_clean();
}

#[test]
fn vectors_of_ranks_are_reduced_one_after_the_other() {
    vectors_of_ranks("engine-vectors", false);
}

#[test]
fn vectors_of_ranks_are_reduced_one_after_the_other_also_when_the_switch_is_lost() {
    vectors_of_ranks("engine-lost", true);
}

/// Reduces vectors of three ranks. If `loses_switch`, the switch is started again in some rounds.
fn vectors_of_ranks(name: &str, loses_switch: bool) {
    let Some(mut site) = Site::start(name, FAST, &[]) else {
        return;
    };
    site.wait_for_all();
    let mut rng = Rng::new(46);
    let mut ranks = Engine::joined(&site, "ddp", 3);
    for round in 0..6u64 {
        let submissions = (0..4).map(|number| {
            let operation = [SUM_F32, SUM_I32, MAX_I32][rng.index(3)];
            let len = match number {
                0 => 300_000,
                _ => rng.below(3000),
            };
            vectors(&mut rng, operation, 3, len)
        });
        let submissions: Vec<(Vec<Vec<u8>>, Vec<u8>)> = submissions.collect();
        for (bodies, _) in &submissions {
            for (engine, body) in ranks.iter_mut().zip(bodies) {
                engine.send(REDUCE, body);
            }
        }
        if loses_switch && round % 3 == 1 {
            std::thread::sleep(Duration::from_millis(20 * round));
            drop(site.switch.take());
            site.start_switch();
        }
        for (number, (_, expected)) in submissions.iter().enumerate() {
            for engine in &mut ranks {
                let reduced = engine.expect(REDUCED);
                assert!(reduced == *expected, "round {round}, vector {number}");
            }
        }
    }
    // Ranks that differ.
    ranks[0].send(REDUCE, &[SUM_I32, 0, 0, 0, 1, 0, 0, 0]);
    ranks[1].send(REDUCE, &[SUM_I32, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    ranks[2].send(REDUCE, &[SUM_I32, 0, 0, 0, 1, 0, 0, 0]);
    for engine in &mut ranks {
        engine.expect_end(&[
            "rank 1 on w1 has a vector of 2 values",
            "rank 0 on w0 one of 1",
        ]);
    }
    let mut ranks = Engine::joined(&site, "ddp", 3);
    for (engine, operation) in ranks.iter_mut().zip([SUM_I32, SUM_I32, SUM_F32]) {
        engine.send(REDUCE, &[operation, 0, 0, 0, 1, 0, 0, 0]);
    }
    for engine in &mut ranks {
        engine.expect_end(&["rank 2 on w2 wants add of f32", "rank 0 on w0 add of i32"]);
    }
    site.is_clean();
    // A rank that has no vector while others wait.
    let mut ranks: Vec<Engine> = (0..2).map(|host| Engine::new(&site, host)).collect();
    for (rank, engine) in (0..).zip(&mut ranks) {
        engine.join("late", rank, 2, 2);
    }
    ranks.iter_mut().for_each(|engine| {
        engine.expect(JOINED);
    });
    ranks[0].send(REDUCE, &[SUM_I32, 0, 0, 0, 1, 0, 0, 0]);
    for engine in &mut ranks {
        engine.expect_end(&["rank 1 on w1 does not answer"]);
    }
    site.is_clean();
}

#[test]
fn what_ends_a_group_is_named_on_all_other_ranks() {
    let Some(mut site) = Site::start("engine-failures", FAST, &[]) else {
        return;
    };
    site.wait_for_all();
    // A rank that goes, before and after all are there.
    let mut ranks: Vec<Engine> = (0..3).map(|host| Engine::new(&site, host)).collect();
    ranks[0].join("ddp", 0, 3, 30);
    ranks[2].join("ddp", 2, 3, 30);
    wait_for(&site, "waits for rank 1");
    ranks.pop();
    let gone = Instant::now();
    ranks[0].expect_end(&["group ddp", "rank 2 on w2"]);
    assert!(gone.elapsed() < HEARD, "{:?}", gone.elapsed());
    let mut ranks = Engine::joined(&site, "ddp", 4);
    ranks.remove(1);
    let gone = Instant::now();
    for engine in &mut ranks {
        engine.expect_end(&["group ddp", "rank 1 on w1", "ended its connection"]);
    }
    assert!(gone.elapsed() < HEARD, "{:?}", gone.elapsed());
    site.is_clean();

    // Ranks that do not come, that are there twice, and that differ.
    let mut lonely = Engine::new(&site, 0);
    lonely.join("late", 1, 4, 1);
    lonely.expect_end(&["group late", "ranks 0, 2, 3 did not join within 1 s"]);
    let mut first = Engine::new(&site, 0);
    let mut second = Engine::new(&site, 1);
    first.join("twice", 0, 2, 30);
    wait_for(&site, "waits for rank 1");
    second.join("twice", 0, 2, 30);
    second.expect_end(&["group twice", "an engine on w0 has rank 0"]);
    let mut second = Engine::new(&site, 1);
    second.join("twice", 1, 3, 30);
    for engine in [&mut first, &mut second] {
        engine.expect_end(&["rank 1 on w1 has size 3", "rank 0 on w0 has 2"]);
    }

    // A cancelled one.
    let mut ranks = Engine::joined(&site, "ddp", 3);
    let number = wait_for(&site, "reduces")["number"].to_string();
    let cancelled = site.ask(&["cancel", &number]);
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.err);
    for engine in &mut ranks {
        engine.expect_end(&["group ddp", "was cancelled"]);
    }
    assert_eq!(site.registers(), Some(0));

    // The agent of a rank, and that of the reducer.
    for host in [2, 0] {
        let mut ranks = Engine::joined(&site, "ddp", 3);
        drop(site.agents[host].take());
        let killed = Instant::now();
        let name = format!("rank {host} on w{host}: its agent is not there");
        for (rank, engine) in ranks.iter_mut().enumerate() {
            match rank == host {
                true => assert_eq!(engine.receive(), None),
                false => engine.expect_end(&["group ddp", &name]),
            }
        }
        assert!(killed.elapsed() < NAMED);
        site.is_clean();
        site.start_agent(host);
        site.wait_for_all();
    }

    // The master.
    let mut ranks = Engine::joined(&site, "ddp", 3);
    drop(site.master.take());
    for engine in &mut ranks {
        engine.expect_end(&["group ddp", "the master has gone"]);
    }
    site.start_master();
    site.is_clean();
}

#[test]
fn wrong_frames_end_one_connection_and_nothing_else() {
    let Some(site) = Site::start("engine-frames", FAST, &[]) else {
        return;
    };
    let mut early = Engine::silent(&site, 0);
    early.send(LEAVE, &[]);
    early.expect(HELLO);
    early.expect_end(&["LEAVE", "send HELLO first"]);
    let mut old = Engine::silent(&site, 0);
    old.send(HELLO, br#"{"protocol":9}"#);
    old.expect(HELLO);
    old.expect_end(&["version 9"]);
    let mut kept = Engine::new(&site, 0);
    for (kind, body, words) in [
        (99, &b""[..], &["no frame of kind 99"][..]),
        (PAIRS, b"", &["PAIRS"]),
        (REDUCE, b"", &["REDUCE", "joined no group"]),
        (JOIN, b"{}", &["JOIN", "group"]),
        (JOIN, br#"{"group":"g","rank":2,"size":2}"#, &["rank 2"]),
        (FORGET, b"\xff", &["FORGET", "UTF-8"]),
    ] {
        let mut engine = Engine::new(&site, 0);
        engine.send(kind, body);
        engine.expect_end(words);
    }
    let mut long = Engine::new(&site, 0);
    long.0.write_all(&[0xff, 0xff, 0xff, 0xff, STORE]).unwrap();
    long.expect_end(&["STORE", "too long"]);
    let mut rng = Rng::new(5);
    for _ in 0..100 {
        let mut engine = Engine::new(&site, 0);
        let bytes: Vec<u8> = (0..rng.below(200))
            .map(|_| rng.bits() as u8 & 0x0f)
            .collect();
        // The agent may have ended the connection.
        let _ = engine.0.write_all(&bytes);
    }
    kept.store("kept", &Part::from([(b"k".to_vec(), 1)]));
}
