//! Agents on addresses of the loopback interface, without switches.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;

use aggregate::{FlowConfig, KeyClass, MapFunction, Operator, Shape, ValueClass};

use super::*;
use crate::Agent;

const REDUCER: Ipv4Addr = Ipv4Addr::new(127, 46, 0, 9);

fn flows(job: u16) -> FlowConfig {
    FlowConfig {
        job,
        attempt: 1,
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B16,
            values: ValueClass::I64,
        },
        window: 128,
        pairs_per_message: 40,
        datagram_bytes: 1400,
    }
}

/// Starts an agent in a thread. Its mappers have the pairs `0..keys` with value 1; the part's name
/// is the number of keys.
fn start(attempt: &mut Attempt, host: &str, address: Ipv4Addr) -> AgentIndex {
    let (mut orders, our_orders) = UnixStream::pair().unwrap();
    let (mut reports, our_reports) = UnixStream::pair().unwrap();
    let mut agent = Agent::new(address).unwrap();
    thread::spawn(move || {
        let ended = agent.run(&mut orders, &mut reports, &mut |order| {
            let keys: u32 = order
                .part
                .to_str()
                .unwrap()
                .parse()
                .map_err(|_| "no part")?;
            let pairs = (0..keys).map(|key| Pair::new(key.to_string().into_bytes(), 1));
            Ok(pairs.collect())
        });
        ended.unwrap();
    });
    attempt.add_agent(host, our_orders, our_reports).unwrap()
}

fn mapper(name: &str, agent: AgentIndex, (job, flow): (u16, u16), part: &str) -> MapperTask {
    MapperTask {
        name: name.to_owned(),
        agent,
        order: MapOrder {
            flows: flows(job),
            flow,
            function: MapFunction::Words,
            part: part.into(),
            reducer: REDUCER,
        },
    }
}

fn reduction(agent: AgentIndex, job: u16, mappers: Vec<MapperTask>) -> ReductionTask {
    ReductionTask {
        name: "total".to_owned(),
        agent,
        order: ReduceOrder {
            flows: flows(job),
            mappers: mappers.len() as u16,
            switches: Vec::new(),
            slots: 1000,
            open_epochs: 2,
            patience_ms: 1000,
            incarnation: 1,
            addresses: (0..mappers.len() as u8)
                .map(|n| Ipv4Addr::new(127, 46, 0, n + 1))
                .collect(),
        },
        mappers,
        switches: Vec::new(),
    }
}

#[test]
fn a_reducer_that_reports_nothing_is_named() {
    let mut attempt = Attempt {
        patience: Duration::from_millis(100),
        ..Attempt::default()
    };
    let (_orders, our_orders) = UnixStream::pair().unwrap();
    let (mut reports, our_reports) = UnixStream::pair().unwrap();
    let agent = attempt.add_agent("r", our_orders, our_reports).unwrap();
    let ready = AgentReport::Ready { job: 1, flow: None };
    writeln!(reports, "{}", serde_json::to_string(&ready).unwrap()).unwrap();
    attempt.add_reduction(reduction(agent, 1, Vec::new()));
    let outcomes = attempt.run(Duration::from_secs(60), &mut || false);
    let failure = outcomes.unwrap().remove(0).failure;
    assert_eq!(
        failure.as_deref(),
        Some("reducer total on r does not answer")
    );
}

#[test]
fn a_result_that_was_not_reported_whole_is_a_failure() {
    let mut attempt = Attempt::default();
    let (_orders, our_orders) = UnixStream::pair().unwrap();
    let (mut reports, our_reports) = UnixStream::pair().unwrap();
    let agent = attempt.add_agent("r", our_orders, our_reports).unwrap();
    let mut report = |report: &AgentReport| {
        writeln!(reports, "{}", serde_json::to_string(report).unwrap()).unwrap();
    };
    report(&AgentReport::Ready { job: 1, flow: None });
    let pairs = vec![("61".to_owned(), 1), ("no digits".to_owned(), 2)];
    report(&AgentReport::Pairs { job: 1, pairs });
    report(&AgentReport::Reduced {
        job: 1,
        failure: None,
        keys: 2,
        counts: ReducerCounts::default(),
        nanoseconds: 1,
    });
    attempt.add_reduction(reduction(agent, 1, Vec::new()));
    let outcomes = attempt.run(Duration::from_secs(60), &mut || false);
    let failure = outcomes.unwrap().remove(0).failure;
    let expected = "1 of the 2 keys of the result were reported";
    assert_eq!(failure.as_deref(), Some(expected));
}

/// One test, since the agents' port is fixed and tests run at once.
#[test]
fn agents_reduce_over_sockets_and_failures_have_names() {
    let mut attempt = Attempt::default();
    let reducer = start(&mut attempt, "r", REDUCER);
    let hosts = [1, 2].map(|n| {
        let host = format!("h{n}");
        start(&mut attempt, &host, Ipv4Addr::new(127, 46, 0, n))
    });
    let both = |job, parts: [&str; 2]| {
        vec![
            mapper("m0", hosts[0], (job, 0), parts[0]),
            mapper("m1", hosts[1], (job, 1), parts[1]),
        ]
    };
    attempt.add_reduction(reduction(reducer, 1, both(1, ["5000", "3000"])));
    // Its second mapper waits for the messages of another flow.
    let mut silent = both(2, ["10", "10"]);
    silent[1].order.flow = 7;
    attempt.add_reduction(reduction(reducer, 2, silent));
    let mut outcomes = attempt.run(Duration::from_secs(60), &mut || false).unwrap();
    let failed = outcomes.pop().unwrap();
    assert_eq!(
        failed.failure.as_deref(),
        Some("mapper m1 on h2 does not answer")
    );
    let outcome = outcomes.pop().unwrap();
    assert!(outcome.is_complete, "{:?}", outcome.failure);
    assert_eq!(outcome.result.len(), 5000);
    let sum: i128 = outcome.result.iter().map(|pair| pair.value).sum();
    assert_eq!((sum, outcome.reducer.pairs), (8000, 8000));
    assert!(outcome.mappers.iter().all(|mapper| mapper.messages > 0));

    // The ends of the streams have ended the agents.
    thread::sleep(Duration::from_millis(100));
    let mut attempt = Attempt::default();
    let reducer = start(&mut attempt, "r", REDUCER);
    let host = start(&mut attempt, "h1", Ipv4Addr::new(127, 46, 0, 1));
    let wrong = vec![mapper("m0", host, (1, 0), "wrong")];
    attempt.add_reduction(reduction(reducer, 1, wrong));
    let error = attempt.run(Duration::from_secs(60), &mut || false);
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "mapper m0 on h1: no part");
}
