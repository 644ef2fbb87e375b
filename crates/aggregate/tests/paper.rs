//! The paper's algorithm 1: exact without faults, wrong with loss, where the product is exact.

use std::fmt::Write;
use std::path::Path;

use aggregate::{
    Input, KeyClass, Operator, Pair, PaperRun, Plan, ReductionRequest, SequenceReading, Shape,
    ValueClass, WrongKeys,
};
use fabric::Topology;
use fabric::topology::HostId;
use packet::Nanos;

const MAPPERS: usize = 3;

/// Returns a topology of one switch with lossy links.
fn topology(loss: f64) -> Topology {
    let mut text = format!(
        "seed = 7\n[defaults.link]\nrate = \"1 Gbit/s\"\ndelay = \"2 us\"\nqueue = 20000\n\
         loss = {loss}\n[[switch]]\nname = \"tor\"\nslots = 200_000\n"
    );
    for host in 0..=MAPPERS {
        writeln!(
            text,
            "[[host]]\nname = \"h{host}\"\nmac = \"02:00:00:00:01:{host:02x}\"\n\
             ip = \"10.0.0.{}/16\"\n[[link]]\nends = [\"h{host}\", \"tor:{host}\"]",
            host + 1
        )
        .expect("writing to a string succeeds");
    }
    Topology::read("case", &text, Path::new(".")).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a sum by the paper's algorithm. Returns the number of keys with too little and with too
/// much.
fn wrong_keys(loss: f64, reading: SequenceReading) -> (usize, usize) {
    let topology = topology(loss);
    let request = ReductionRequest {
        name: "r".to_owned(),
        shape: Shape {
            operator: Operator::Add,
            keys: KeyClass::B64,
            values: ValueClass::I64,
        },
        mappers: (0..MAPPERS).map(|host| (HostId(host), 1)).collect(),
        reducer: HostId(MAPPERS),
        slots: 30_000,
        tiers: 1,
        to_all: false,
    };
    let plan = Plan::new(&topology, &[request]).unwrap_or_else(|error| panic!("{error}"));
    let of_mapper = |mapper: usize| {
        let keys = (0..20_000).filter(|key| key % (mapper + 1) == 0);
        let pairs = keys.map(|key| Pair::new(format!("{key}").into_bytes(), 1));
        Input::Pairs(pairs.collect())
    };
    let inputs: Vec<Input> = (0..MAPPERS).map(of_mapper).collect();
    let mut run = PaperRun::new(topology, plan, std::slice::from_ref(&inputs), reading)
        .unwrap_or_else(|error| panic!("{error}"));
    run.run(Nanos::from_secs(60), &mut |_| true)
        .unwrap_or_else(|error| panic!("{error}"));
    run.simulation()
        .check_conservation()
        .unwrap_or_else(|error| panic!("{error}"));
    let outcome = run.outcomes().remove(0);
    assert!(outcome.is_complete);
    let wrong = WrongKeys::of(Operator::Add, &inputs, &outcome.result);
    (wrong.missing, wrong.doubled)
}

#[test]
fn the_papers_algorithm_is_exact_without_loss() {
    for reading in [SequenceReading::AddsOne, SequenceReading::TakesNumber] {
        assert_eq!(wrong_keys(0.0, reading), (0, 0), "{reading:?}");
    }
}

#[test]
fn the_papers_algorithm_misses_and_doubles_keys_under_loss() {
    let (missing, twice) = wrong_keys(0.02, SequenceReading::AddsOne);
    assert!(missing > 0 && twice > 0, "{missing} missing, {twice} twice");
    let (missing, twice) = wrong_keys(0.02, SequenceReading::TakesNumber);
    assert!(
        missing > 0 && twice == 0,
        "{missing} missing, {twice} twice"
    );
}

#[test]
fn a_lost_value_is_missing_whatever_the_operator() {
    let pair = |value| Pair::new(b"key".to_vec(), value);
    let inputs = [Input::Pairs(vec![pair(3)]), Input::Pairs(vec![pair(5)])];
    for (operator, whole, part) in [
        (Operator::Add, 8, 5),
        (Operator::Max, 5, 3),
        (Operator::Min, 3, 5),
    ] {
        let equal = WrongKeys::of(operator, &inputs, &[pair(whole)]);
        assert_eq!(equal, WrongKeys::default());
        let wrong = WrongKeys::of(operator, &inputs, &[pair(part)]);
        assert_eq!((wrong.missing, wrong.doubled), (1, 0), "{operator:?}");
    }
}
