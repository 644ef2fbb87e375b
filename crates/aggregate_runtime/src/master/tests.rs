//! Tests of the master: reports and times go in, actions come out.

use std::net::Ipv4Addr;
use std::path::Path;

use aggregate::{
    Job, KeyClass, MapperCounts, Operator, Pair, ReducerCounts, Shape, ValueClass, Vector,
};

use super::*;
use crate::engine::{CollectRequest, JoinRequest, StoredPart};
use crate::order::{AttemptId, EngineRequest, ResultTo};
use crate::switch_load::VpdpChange;
use crate::vector_lines::{VectorDigest, VectorPart};

const HOSTS: usize = 4;

/// The host of the reducer.
const REDUCER: HostId = HostId(3);

const TOR: SwitchId = SwitchId(0);

/// A master of three mappers, a reducer and a switch, all connected, and what it has ordered.
struct Harness {
    master: Master,
    now: Nanos,
    /// Actions in order, in words.
    log: Vec<String>,
    /// The last load of the switch.
    load: u32,
    /// The attempt of the last order to a reducer.
    at: AttemptId,
}

fn host_name(host: usize) -> String {
    match host {
        3 => "r".to_owned(),
        _ => format!("w{host}"),
    }
}

impl Harness {
    fn new() -> Harness {
        Harness::with("")
    }

    /// With a switch that has these lines in the topology too.
    fn with(lines: &str) -> Harness {
        let mut text =
            format!("name = \"site\"\n[[switch]]\nname = \"tor\"\nslots = 20000\n{lines}");
        for host in 0..HOSTS {
            let name = host_name(host);
            text += &format!(
                "[[host]]\nname = \"{name}\"\nmac = \"02:00:00:00:46:0{host}\"\nip = \"10.46.0.{}/24\"\n\
                 [[link]]\nends = [\"{name}\", \"tor:{host}\"]\n",
                host + 1
            );
        }
        let topology = Topology::read("site", &text, Path::new("."));
        let topology = topology.unwrap_or_else(|error| panic!("{error}"));
        let mut master = Master::new(topology, 100).unwrap();
        (0..HOSTS).for_each(|host| master.agent_connected(HostId(host)));
        master.switch_connected(TOR);
        let at = AttemptId { job: 0, attempt: 0 };
        let mut harness = Harness {
            master,
            now: Nanos::from_secs(1),
            log: Vec::new(),
            load: 0,
            at,
        };
        harness.turn();
        harness.loaded();
        harness.take();
        harness
    }

    /// Takes all actions that are due.
    fn turn(&mut self) {
        while let Some(action) = self.master.poll(self.now) {
            let word = match action {
                Action::Load(SwitchId(_), load) => {
                    let is_empty = match &load.planes {
                        LoadedPlanes::Whole(text) => !text.program.contains("register"),
                        LoadedPlanes::Vpdps(vpdps) => vpdps.is_empty(),
                    };
                    assert!(load.number > self.load, "numbers of loads grow");
                    self.load = load.number;
                    let what = if is_empty { "empty" } else { "program" };
                    format!("load {what}")
                }
                Action::Ended(job) => format!("ended {job}"),
                Action::Update(_, update) => format!("update {:?}", update.change),
                Action::Updated(number, result) => format!("updated {number} {result:?}"),
                Action::Order(host, order) => {
                    let name = host_name(host.0);
                    match order {
                        AgentOrder::Map(order) => format!("{name} map {}", order.flow),
                        AgentOrder::Reduce(order) => {
                            self.at = AttemptId::of(&order.flows);
                            format!(
                                "{name} reduce{}",
                                if matches!(order.result, ResultTo::Engine { .. }) {
                                    " for engine"
                                } else {
                                    ""
                                }
                            )
                        }
                        AgentOrder::Begin(begin) => match begin.flow {
                            None => format!("{name} begin reducer"),
                            Some(flow) => format!("{name} begin {flow}"),
                        },
                        AgentOrder::Restart { .. } => format!("{name} restart"),
                        AgentOrder::Replace { flow, .. } => format!("{name} replace {flow}"),
                        AgentOrder::Drop { .. } => format!("{name} drop"),
                        AgentOrder::Alive => "alive".to_owned(),
                        AgentOrder::Engine { engine, order } => match order {
                            EngineOrder::Failed { error } => format!("{name}/{engine} {error}"),
                            EngineOrder::Collected { attempts, .. } => {
                                format!("{name}/{engine} collected {attempts}")
                            }
                            EngineOrder::Joined { switches, reducer } => {
                                format!("{name}/{engine} joined {} {reducer}", switches.join(" "))
                            }
                        },
                    }
                }
            };
            self.log.push(word);
        }
    }

    /// Takes the actions since the last call.
    fn take(&mut self) -> Vec<String> {
        self.turn();
        std::mem::take(&mut self.log)
    }

    /// Checks the actions since the last call.
    fn expect(&mut self, words: &[&str]) {
        assert_eq!(self.take(), words);
    }

    fn loaded(&mut self) {
        self.master.switch_loaded(TOR, self.load, Ok(()));
    }

    fn report(&mut self, host: usize, report: AgentReport) {
        self.master.report(HostId(host), report, self.now);
    }

    fn ready(&mut self) {
        let at = self.at;
        for flow in [Some(0), Some(1), Some(2), None] {
            self.report(0, AgentReport::Ready { at, flow });
        }
    }

    fn reduced(&mut self, failure: Option<ReductionError>) {
        let reduced = AgentReport::Reduced {
            at: self.at,
            failure,
            keys: 1,
            counts: ReducerCounts::default(),
            nanoseconds: 7,
            bytes: 9,
        };
        self.report(3, reduced);
    }

    fn pairs(&mut self) {
        let pairs = vec![("6b".to_owned(), 5)];
        let at = self.at;
        self.report(3, AgentReport::Pairs { at, pairs });
    }

    fn mapped(&mut self, flow: u16, received: Option<VectorDigest>) {
        let mapped = AgentReport::Mapped {
            at: self.at,
            flow,
            counts: MapperCounts::default(),
            received,
        };
        self.report(0, mapped);
    }

    fn submit(&mut self) -> u32 {
        self.submit_with("words", "memory 500")
    }

    /// Submits a job with a map function and options of its reducer.
    fn submit_with(&mut self, function: &str, options: &str) -> u32 {
        let text = format!(
            "data p0 = 10.46.0.1:a\ndata p1 = 10.46.0.2:a\ndata p2 = 10.46.0.3:a\n\
             map m0 = {function}(p0)\nmap m1 = {function}(p1)\nmap m2 = {function}(p2)\n\
             reduce total = add(m0, m1, m2) at 10.46.0.4 {options}\n"
        );
        let job = Job::read(&text).unwrap();
        let line = &job.reducers[0];
        let request = ReductionRequest {
            name: line.name.clone(),
            shape: line.shape,
            mappers: (0..3).map(|host| (HostId(host), 0)).collect(),
            reducer: REDUCER,
            slots: line.slots,
            tiers: line.tiers,
            to_all: line.to_all,
        };
        let directory = PathBuf::from("/data");
        self.master
            .submit("words", (&job, directory), &[request])
            .unwrap()
    }

    /// Submits a job that reduces.
    fn run(&mut self) -> u32 {
        let number = self.submit();
        self.begin();
        number
    }

    /// Lets the submitted job reduce.
    fn begin(&mut self) {
        self.expect(&["r reduce", "w0 map 0", "w1 map 1", "w2 map 2"]);
        self.ready();
        self.expect(&["load program"]);
        self.loaded();
        self.expect(&BEGUN);
    }

    fn ask(&mut self, host: usize, engine: u64, request: EngineRequest) {
        self.report(host, AgentReport::Engine { engine, request });
    }

    /// Collects parts, as the only one that does.
    fn collect(&mut self, addresses: &[u8]) {
        self.collect_as(7, addresses);
        self.later(GATHER);
    }

    fn collect_as(&mut self, engine: u64, addresses: &[u8]) {
        let mappers = addresses.iter().map(|last| StoredPart {
            host: Ipv4Addr::new(10, 46, 0, *last),
            part: format!("part{last}"),
        });
        let request = CollectRequest {
            name: "stage".to_owned(),
            shape: Shape {
                operator: Operator::Add,
                keys: KeyClass::B16,
                values: ValueClass::I64,
            },
            slots: 500,
            tiers: 1,
            mappers: mappers.collect(),
        };
        self.ask(3, engine, EngineRequest::Collect(request));
    }

    /// Has a mapper and the reducer ready, of the last reduction with one mapper.
    fn ready_alone(&mut self) {
        let at = self.at;
        for flow in [Some(0), None] {
            self.report(0, AgentReport::Ready { at, flow });
        }
    }

    /// Has a load under way for a collection that is ready, while a second one is prepared. Returns
    /// the attempt of the first one; `at` is the second one's.
    fn with_a_load_for_one_of_two() -> (Harness, AttemptId) {
        let mut harness = Harness::new();
        harness.collect_as(1, &[1]);
        harness.expect(&["r reduce for engine", "w0 map 0"]);
        harness.ready_alone();
        harness.expect(&[]);
        let first = harness.at;
        harness.collect_as(2, &[2]);
        harness.expect(&["r reduce for engine", "w1 map 0"]);
        harness.later(MAX_GATHER);
        harness.expect(&["load program"]);
        (harness, first)
    }

    fn later(&mut self, by: Nanos) {
        self.now = Nanos(self.now.0 + by.0);
    }

    fn join(&mut self, host: usize, rank: u16, size: u16) {
        let request = JoinRequest {
            group: "ddp".to_owned(),
            rank,
            size,
            slots: 100,
            tiers: 1,
            seconds: 60,
        };
        self.ask(host, 20 + u64::from(rank), EngineRequest::Join(request));
    }

    /// Lets a group of three ranks begin.
    fn group(&mut self) {
        // The lowest rank's host has the reducer, in whatever order they come.
        for rank in [2, 0, 1] {
            self.expect(&[]);
            self.join(rank, rank as u16, 3);
        }
        self.expect(&["w0 reduce", "w0 map 0", "w1 map 1", "w2 map 2"]);
        self.ready();
        self.expect(&["load program"]);
        self.loaded();
        self.expect(&[
            "w0 begin reducer",
            "w0 begin 0",
            "w1 begin 1",
            "w2 begin 2",
            "w0/20 joined tor 10.46.0.1",
            "w1/21 joined tor 10.46.0.1",
            "w2/22 joined tor 10.46.0.1",
        ]);
    }

    fn state(&self) -> String {
        let last = self.master.jobs().pop().unwrap();
        let step = last.reductions.first().map(|it| it.step.clone());
        format!("{} {}", last.state, step.unwrap_or_default())
    }
}

const BEGUN: [&str; 4] = ["r begin reducer", "w0 begin 0", "w1 begin 1", "w2 begin 2"];

const DROPPED: [&str; 5] = ["w0 drop", "w1 drop", "w2 drop", "r drop", "load empty"];

#[test]
fn a_job_is_prepared_loaded_begun_and_forgotten() {
    let mut harness = Harness::new();
    let number = harness.run();
    assert_eq!(harness.state(), "running reduces");
    harness.pairs();
    harness.reduced(None);
    harness.expect(&[]);
    assert_eq!(harness.state(), "running complete");
    (0..3).for_each(|flow| harness.mapped(flow, None));
    harness.expect(&DROPPED);
    harness.loaded();
    harness.expect(&[&format!("ended {number}")]);
    assert_eq!(harness.state(), "complete ended");
    let outcome = harness.master.take_outcomes(number).remove(0);
    assert!(outcome.is_complete);
    assert_eq!(outcome.result, [Pair::new(*b"k", 5)]);
    assert_eq!(
        (outcome.bytes, outcome.attempts, outcome.retried),
        (9, 1, 0)
    );
}

#[test]
fn mappers_that_get_the_result_are_waited_for_until_their_agent_is_lost() {
    let vector = Vector::Integers(vec![5]);
    // The host of an agent that is lost, and the failure.
    let mapper = (2, "mapper m2 on w2 is not there to get the result");
    let reducer = (
        3,
        "reducer total on r is not there to give all mappers the result",
    );
    for lost in [None, Some(mapper), Some(reducer)] {
        let mut harness = Harness::new();
        let number = harness.submit_with("gradients", "keys none values i32 memory 5 to all");
        harness.begin();
        let values = VectorPart::Integers(vec![5]);
        let at = harness.at;
        harness.report(3, AgentReport::Vector { at, values });
        harness.reduced(None);
        let digest = VectorDigest::of(&vector);
        (0..2).for_each(|flow| harness.mapped(flow, Some(digest)));
        harness.now = Nanos(harness.now.0 + RETURN.0);
        harness.expect(&[]);
        match lost {
            Some((host, _)) => {
                // Also if it comes back at once.
                let why = "its agent is not there".to_owned();
                harness.master.agent_lost(HostId(host), why, harness.now);
                harness.master.agent_connected(HostId(host));
            }
            None => harness.mapped(2, Some(digest)),
        }
        harness.expect(&DROPPED);
        harness.loaded();
        harness.expect(&[&format!("ended {number}")]);
        let outcome = harness.master.take_outcomes(number).remove(0);
        assert_eq!(outcome.is_complete, lost.is_none());
        assert_eq!(outcome.failure.as_deref(), lost.map(|(_, failure)| failure));
        let expected = lost.is_none().then(|| vector.clone());
        assert_eq!(outcome.vector, expected);
        assert_eq!(outcome.received.len(), if lost.is_some() { 0 } else { 3 });
    }
}

/// A fault in a job that reduces.
type Fault = fn(&mut Harness);

#[test]
fn each_fault_of_a_job_has_its_answer() {
    let lose = |harness: &mut Harness, host: usize| {
        let why = "its agent is not there".to_owned();
        harness.master.agent_lost(HostId(host), why, harness.now);
    };
    let cases: Vec<(&str, Fault, &[&str])> = vec![
        (
            "a lost switch",
            |harness| {
                harness
                    .master
                    .switch_lost(TOR, "gone".to_owned(), harness.now);
            },
            &["r restart"],
        ),
        (
            "a lost switch that is back",
            |harness| {
                harness
                    .master
                    .switch_lost(TOR, "gone".to_owned(), harness.now);
                harness.turn();
                harness.master.switch_connected(TOR);
                harness.turn();
                harness.loaded();
            },
            &["r restart", "load program", "r restart"],
        ),
        (
            "a switch that does not come back",
            |harness| {
                harness
                    .master
                    .switch_lost(TOR, "gone".to_owned(), harness.now);
                harness.turn();
                harness.now = Nanos(harness.now.0 + RETURN.0 + 1);
            },
            &[
                "r restart",
                "w0 drop",
                "w1 drop",
                "w2 drop",
                "r drop",
                "ended 1",
            ],
        ),
        (
            "a first silence",
            |harness| {
                harness.reduced(Some(ReductionError::MapperSilent { flow: 1 }));
            },
            &[
                "w0 drop", "w1 drop", "w2 drop", "r drop", "r reduce", "w0 map 0", "w1 map 1",
                "w2 map 2",
            ],
        ),
        (
            "counts that differ",
            |harness| {
                harness.reduced(Some(ReductionError::Unbalanced {
                    epoch: 0,
                    expected: 1,
                    found: 2,
                }));
            },
            &DROPPED,
        ),
        (
            "a refused load",
            |harness| {
                harness.master.switch_connected(TOR);
                harness.turn();
                harness
                    .master
                    .switch_loaded(TOR, harness.load, Err("no".to_owned()));
            },
            &["load program", "w0 drop", "w1 drop", "w2 drop", "r drop"],
        ),
        (
            "a result with a lost line",
            |harness| harness.reduced(None),
            &DROPPED,
        ),
        (
            "a cancel",
            |harness| harness.master.cancel(1).unwrap(),
            &DROPPED,
        ),
    ];
    for (name, fault, words) in cases {
        let mut harness = Harness::new();
        harness.run();
        fault(&mut harness);
        assert_eq!(harness.take(), words, "{name}");
    }
    // A mapper's agent that comes back has its mapper replaced, one a load.
    let mut harness = Harness::new();
    harness.run();
    lose(&mut harness, 1);
    harness.expect(&[]);
    assert_eq!(harness.state(), "running waits for mapper m1 on w1");
    harness.master.agent_connected(HostId(1));
    harness.expect(&["w1 map 1"]);
    let (at, flow) = (harness.at, Some(1));
    harness.report(1, AgentReport::Ready { at, flow });
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&["r replace 1", "w1 begin 1"]);
    // The reducer's begins another attempt, and a stale report changes nothing.
    lose(&mut harness, 3);
    let old = harness.at;
    harness.expect(&[
        "w0 drop", "w1 drop", "w2 drop", "w0 map 0", "w1 map 1", "w2 map 2",
    ]);
    harness.master.agent_connected(REDUCER);
    harness.expect(&["r reduce"]);
    assert!(harness.at.attempt != old.attempt);
    harness.report(
        0,
        AgentReport::Ready {
            at: old,
            flow: None,
        },
    );
    harness.expect(&[]);
    // An agent that stays away is named.
    lose(&mut harness, 0);
    harness.now = Nanos(harness.now.0 + RETURN.0 + 1);
    harness.expect(&["w1 drop", "w2 drop", "r drop", "load empty"]);
    let job = harness.master.job(1).unwrap();
    let failure = job.reductions[0].failure.clone().unwrap();
    assert_eq!(failure, "mapper m0 on w0: its agent is not there");
}

#[test]
fn stored_parts_are_collected_by_the_engine_that_asked() {
    let mut harness = Harness::new();
    harness.collect(&[1, 2, 3]);
    harness.expect(&["r reduce for engine", "w0 map 0", "w1 map 1", "w2 map 2"]);
    harness.ready();
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&BEGUN);
    // A new attempt has the same engine.
    harness.reduced(Some(ReductionError::MapperSilent { flow: 0 }));
    let again = harness.take();
    assert_eq!(
        &again[4..],
        ["r reduce for engine", "w0 map 0", "w1 map 1", "w2 map 2"]
    );
    harness.ready();
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&BEGUN);
    harness.reduced(None);
    harness.expect(&["r/7 collected 2"]);
    (0..3).for_each(|flow| harness.mapped(flow, None));
    harness.expect(&DROPPED);
    harness.loaded();
    harness.expect(&["ended 1"]);
    assert_eq!(harness.master.job(1).unwrap().reductions[0].keys, 1);
}

#[test]
fn collections_that_come_together_share_a_load_and_its_end() {
    let mut harness = Harness::new();
    harness.collect_as(1, &[1]);
    harness.expect(&["r reduce for engine", "w0 map 0"]);
    let first = harness.at;
    harness.ready_alone();
    harness.later(Nanos(GATHER.0 - 1));
    harness.expect(&[]);
    // It comes in time, so the first one waits until it is prepared.
    harness.collect_as(2, &[2]);
    harness.expect(&["r reduce for engine", "w1 map 0"]);
    harness.later(GATHER);
    harness.expect(&[]);
    harness.ready_alone();
    harness.expect(&["load program"]);
    harness.loaded();
    let begun = [
        "r begin reducer",
        "w0 begin 0",
        "r begin reducer",
        "w1 begin 0",
    ];
    harness.expect(&begun);
    // The end of one waits for the other, which would have to replay.
    let second = std::mem::replace(&mut harness.at, first);
    harness.reduced(None);
    harness.mapped(0, None);
    harness.expect(&["r/1 collected 1", "w0 drop", "r drop"]);
    harness.at = second;
    harness.reduced(None);
    harness.mapped(0, None);
    harness.expect(&["r/2 collected 1", "w1 drop", "r drop", "load empty"]);
    harness.loaded();
    harness.expect(&["ended 1", "ended 2"]);
}

#[test]
fn loads_for_others_and_for_an_end_wait_a_bounded_time() {
    let (mut harness, first) = Harness::with_a_load_for_one_of_two();
    harness.loaded();
    harness.expect(&["r begin reducer", "w0 begin 0"]);
    harness.ready_alone();
    harness.later(GATHER);
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&["r restart", "r begin reducer", "w1 begin 0"]);
    harness.at = first;
    harness.reduced(None);
    harness.mapped(0, None);
    harness.expect(&["r/1 collected 1", "w0 drop", "r drop"]);
    harness.later(MAX_UNCLEAN);
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&["r restart", "ended 1"]);
}

#[test]
fn a_load_begins_what_is_prepared_while_it_is_under_way() {
    let (mut harness, _) = Harness::with_a_load_for_one_of_two();
    harness.ready_alone();
    harness.expect(&[]);
    harness.loaded();
    let begun = [
        "r begin reducer",
        "w0 begin 0",
        "r begin reducer",
        "w1 begin 0",
    ];
    harness.expect(&begun);
    harness.later(MAX_GATHER);
    harness.expect(&[]);
}

#[test]
fn each_failure_of_a_collection_is_an_answer_and_an_engine_that_has_gone_gets_none() {
    let mut harness = Harness::new();
    harness.collect(&[1, 99]);
    let said = harness.take();
    assert!(
        said[0].contains("r/7 stage: 10.46.0.99 is no host of the topology site"),
        "{said:?}"
    );
    let cases: Vec<(&str, Fault, &[&str])> = vec![
        (
            "a refusal",
            |harness| {
                let at = harness.at;
                let error = "no part part2 is stored".to_owned();
                harness.report(
                    1,
                    AgentReport::Refused {
                        at,
                        flow: Some(1),
                        error,
                    },
                );
            },
            &[
                "r/7 stage: mapper part2 on w1: no part part2 is stored",
                "load empty",
            ],
        ),
        (
            "a cancel",
            |harness| harness.master.cancel(1).unwrap(),
            &["r/7 stage: job 1 was cancelled", "load empty"],
        ),
        (
            "a value that does not fit",
            |harness| {
                harness.ask(
                    3,
                    7,
                    EngineRequest::Failed {
                        why: "it does not fit".to_owned(),
                    },
                );
            },
            &["r/7 stage, collected on r: it does not fit", "load empty"],
        ),
        (
            "an agent that does not come back",
            |harness| {
                harness
                    .master
                    .agent_lost(HostId(0), "no".to_owned(), harness.now);
                harness.now = Nanos(harness.now.0 + RETURN.0 + 1);
            },
            &["r/7 stage: mapper part1 on w0: no", "load empty"],
        ),
    ];
    for (name, fault, words) in cases {
        let mut harness = Harness::new();
        harness.collect(&[1, 2, 3]);
        harness.ready_to_run();
        fault(&mut harness);
        let said = harness.take();
        let said: Vec<&String> = said.iter().filter(|it| !it.ends_with("drop")).collect();
        assert_eq!(said, words, "{name}");
        // It has one answer.
        harness.ask(
            3,
            7,
            EngineRequest::Gone {
                why: "gone".to_owned(),
            },
        );
        harness.expect(&[]);
    }
    for is_agent in [false, true] {
        let mut harness = Harness::new();
        harness.collect(&[1, 2, 3]);
        harness.ready_to_run();
        match is_agent {
            true => harness
                .master
                .agent_lost(REDUCER, "lost".to_owned(), harness.now),
            false => harness.ask(
                3,
                7,
                EngineRequest::Gone {
                    why: "gone".to_owned(),
                },
            ),
        }
        let said = harness.take();
        assert!(said.contains(&"load empty".to_owned()), "{said:?}");
        harness.loaded();
        harness.expect(&["ended 1"]);
        assert_eq!(harness.state(), "failed ended");
    }
}

impl Harness {
    /// Lets the last reduction begin.
    fn ready_to_run(&mut self) {
        self.turn();
        self.ready();
        self.turn();
        self.loaded();
        self.take();
    }
}

#[test]
fn a_group_begins_with_its_last_rank_and_ends_when_all_have_left() {
    let mut harness = Harness::new();
    harness.join(2, 2, 3);
    harness.expect(&[]);
    assert_eq!(harness.state(), "running waits for ranks 0, 1");
    harness.ask(
        2,
        22,
        EngineRequest::Gone {
            why: "gone".to_owned(),
        },
    );
    harness.expect(&["ended 1"]);
    assert_eq!(harness.state(), "failed ended");
    harness.group();
    // A load is answered with a restart.
    let at = harness.at;
    harness.report(0, AgentReport::LoadWanted { at });
    harness.expect(&["load program"]);
    harness.loaded();
    harness.expect(&["w0 restart"]);
    for rank in [1, 0] {
        harness.ask(rank, 20 + rank as u64, EngineRequest::Left);
        harness.expect(&[]);
    }
    // One that has left may end its connection.
    harness.ask(
        1,
        21,
        EngineRequest::Gone {
            why: "gone".to_owned(),
        },
    );
    harness.expect(&[]);
    harness.ask(2, 22, EngineRequest::Left);
    harness.expect(&["w0 drop", "w1 drop", "w2 drop", "load empty"]);
    harness.loaded();
    harness.expect(&["ended 2"]);
    assert_eq!(harness.state(), "complete ended");
    // The name is free again.
    harness.group();
}

#[test]
fn each_failure_of_a_group_is_told_to_all_of_its_ranks() {
    let all = |text: &str| {
        let ranks = (0..3).map(|rank| format!("w{rank}/2{rank} {text}"));
        ranks.collect::<Vec<String>>()
    };
    let but = |rank: usize, text: &str| {
        let mut said = all(text);
        said.remove(rank);
        said
    };
    let cases: Vec<(Fault, Vec<String>)> = vec![
        (
            |harness| {
                harness.ask(
                    1,
                    21,
                    EngineRequest::Gone {
                        why: "it has gone".to_owned(),
                    },
                )
            },
            but(1, "group ddp: rank 1 on w1: its engine: it has gone"),
        ),
        (
            |harness| {
                harness.ask(
                    1,
                    21,
                    EngineRequest::Failed {
                        why: "no".to_owned(),
                    },
                )
            },
            all("group ddp: rank 1 on w1: no"),
        ),
        (
            |harness| {
                harness
                    .master
                    .agent_lost(HostId(2), "lost".to_owned(), harness.now)
            },
            but(2, "group ddp: rank 2 on w2: lost"),
        ),
        (
            |harness| harness.reduced(Some(ReductionError::MapperSilent { flow: 2 })),
            all("group ddp: rank 2 on w2 does not answer"),
        ),
        (
            |harness| {
                let (flow, expected, found) = (1, 8, 9);
                harness.reduced(Some(ReductionError::Lengths {
                    flow,
                    expected,
                    found,
                }));
            },
            all(
                "group ddp: rank 1 on w1 has a vector of 9 values, but rank 0 on w0 one of 8; give all \
                 vectors one length",
            ),
        ),
        (
            |harness| {
                harness
                    .master
                    .switch_lost(TOR, "lost".to_owned(), harness.now);
                harness.now = Nanos(harness.now.0 + RETURN.0 + 1);
            },
            all("group ddp: switch tor: lost"),
        ),
        (
            |harness| harness.master.cancel(1).unwrap(),
            all("group ddp: job 1 was cancelled"),
        ),
    ];
    for (fault, words) in cases {
        let mut harness = Harness::new();
        harness.group();
        fault(&mut harness);
        let said = harness.take().into_iter();
        let said: Vec<String> = said.filter(|it| it.contains('/')).collect();
        assert_eq!(said, words);
        harness.loaded();
        harness.turn();
        assert!(harness.state().ends_with(" ended"), "{}", harness.state());
    }
}

#[test]
fn ranks_that_differ_or_do_not_come_end_the_group() {
    let mut harness = Harness::new();
    harness.join(0, 0, 3);
    harness.join(1, 0, 3);
    let said = harness.take();
    assert!(
        said[0].starts_with("w1/20 group ddp: an engine on w0 has rank 0;"),
        "{said:?}"
    );
    assert_eq!(harness.state(), "running waits for ranks 1, 2");
    harness.join(1, 1, 2);
    let text =
        "group ddp: rank 1 on w1 has size 2, but rank 0 on w0 has 3; give all ranks the same";
    let words = [
        format!("w0/20 {text}"),
        format!("w1/21 {text}"),
        "ended 1".to_owned(),
    ];
    assert_eq!(harness.take(), words);
    harness.join(0, 0, 3);
    harness.now = Nanos(harness.now.0 + Nanos::from_secs(60).0);
    harness.expect(&[]);
    harness.now = Nanos(harness.now.0 + 1);
    let said = harness.take();
    assert!(
        said[0].contains("ranks 1, 2 did not join within 60 s"),
        "{said:?}"
    );
    // One that no switch has room for.
    let request = JoinRequest {
        group: "big".to_owned(),
        rank: 0,
        size: 1,
        slots: 15_000,
        tiers: 1,
        seconds: 60,
    };
    harness.ask(0, 30, EngineRequest::Join(request));
    let said = harness.take();
    let refusal = said.iter().find(|it| it.starts_with("w0/30")).unwrap();
    assert!(refusal.contains("no room"), "{refusal}");
}

/// Lines of a switch that hosts tenants.
const TENANTS: &str = "p4runtime = \"127.0.0.1:9559\"\ntenants = true\n";

#[test]
fn reductions_are_virtual_data_planes_of_a_switch_with_tenants() {
    let mut harness = Harness::with(TENANTS);
    let number = harness.submit();
    harness.submit();
    harness.take();
    let jobs: Vec<u16> = harness
        .master
        .plan
        .reductions
        .iter()
        .map(|it| it.job)
        .collect();
    let topology = harness.master.topology.clone();
    let vpdps: Vec<VpdpLoad> = match harness.master.planes(TOR, &|_| 5) {
        LoadedPlanes::Vpdps(vpdps) => vpdps,
        LoadedPlanes::Whole(_) => panic!("one program for all"),
    };
    assert_eq!(
        vpdps.iter().map(|it| it.reduction).collect::<Vec<_>>(),
        jobs
    );
    for vpdp in &vpdps {
        let (other, own) = match vpdp.reduction == jobs[0] {
            true => (jobs[1], jobs[0]),
            false => (jobs[0], jobs[1]),
        };
        let has = |number: u16| {
            vpdp.text
                .entries
                .contains(&format!("hdr.agg.job: {number};"))
        };
        assert!(has(own) && !has(other), "{}", vpdp.text.entries);
        assert_eq!(vpdp.ports.len(), HOSTS);
        let plan = harness.master.plan.alone(own, &topology);
        assert_eq!(vpdp.state_bytes, plan.state_bytes(TOR));
    }

    // One is refused, the other one goes on.
    harness.ready();
    harness.take();
    let refused = (harness.load, jobs[0]);
    harness.master.reduction_refused(TOR, refused, "no room");
    let failure = harness.master.job(number).unwrap().reductions[0]
        .failure
        .clone();
    assert_eq!(failure.as_deref(), Some("switch tor: no room"));
    let other = harness.master.job(number + 1).unwrap();
    assert_eq!(other.reductions[0].failure, None);
}

#[test]
fn an_update_gives_no_load_and_is_in_the_next_one() {
    let mut harness = Harness::with(TENANTS);
    let number = harness.run();
    let all = VpdpChoice::default();
    let program = harness.master.program(number, &all).unwrap();
    let text = format!("{program}// Another one.\n");
    let losing = |names: &[&str]| VpdpChange::Program {
        text: text.clone(),
        may_lose: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let other = losing(&["SwitchIngress.routed"]);
    let update = |harness: &mut Harness, change: &VpdpChange| {
        harness.master.update(9, (number, &all), change)
    };
    let at = (TOR, harness.at.job);
    for name in [
        "*",
        "SwitchIngress.reduction_0.cells_0",
        "SwitchIngress.flows",
    ] {
        let refused = update(&mut harness, &losing(&[name])).unwrap_err();
        assert!(refused.contains("may not be lost"), "{refused}");
    }
    assert_eq!(update(&mut harness, &other), Ok(()));
    let again = update(&mut harness, &other).unwrap_err();
    assert!(again.contains("under way"), "{again}");
    // A load waits for it.
    harness.report(0, AgentReport::LoadWanted { at: harness.at });
    harness.expect(&[&format!("update {other:?}")]);
    harness.master.vpdp_updated(at, Ok(()));
    harness.expect(&["updated 9 Ok(1)", "load program"]);
    assert!(
        harness
            .master
            .program(number, &all)
            .unwrap()
            .ends_with("// Another one.\n")
    );
    harness.loaded();
    harness.expect(&["r restart"]);

    // A refused one changes nothing; a lost switch ends it.
    let slot = VpdpChange::Slot(Some(3));
    assert_eq!(update(&mut harness, &slot), Ok(()));
    harness.expect(&["update Slot(Some(3))"]);
    harness.master.vpdp_updated(at, Err("no slot 3".to_owned()));
    harness.expect(&["updated 9 Err(\"switch tor: no slot 3\")"]);
    assert_eq!(update(&mut harness, &slot), Ok(()));
    harness.take();
    harness
        .master
        .switch_lost(TOR, "gone".to_owned(), harness.now);
    harness.expect(&["updated 9 Err(\"switch tor: gone\")", "r restart"]);

    // What cannot be updated.
    let one = |switch: &str| VpdpChoice {
        switch: Some(switch.to_owned()),
        reduction: None,
    };
    let cases = [
        (number, one("spine"), "reduces in no such switch"),
        (number + 1, all.clone(), "there is no job"),
    ];
    for (job, choice, words) in cases {
        let refused = harness.master.update(9, (job, &choice), &slot).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
    harness.master.cancel(number).unwrap();
    let refused = update(&mut harness, &slot).unwrap_err();
    assert!(refused.contains("has ended"), "{refused}");

    // A switch with one program for all jobs.
    let mut harness = Harness::new();
    let number = harness.run();
    let refused = harness.master.update(9, (number, &all), &slot).unwrap_err();
    assert!(refused.contains("tenants = true"), "{refused}");
}
