//! The shipped loop against a wrong route: the entry that closes a loop is replaced.

mod common;

use common::{Bed, Generator, bed, check_counts, udp_frame, without_traffic};
use packet::Nanos;
use reflex::{
    Decision, DecisionRefusal, ElementIndex, Measured, MonitorIndex, Outcome, ReflexIndex, Setting,
};
use telemetry::IntNodeId;

/// First packet.
const START: Nanos = Nanos::from_millis(20);
/// Time between packets.
const INTERVAL: u64 = 20_000;
const PACKETS: u64 = 300;

fn decisions(bed: &Bed) -> Vec<Decision> {
    bed.plane.get().plane().decisions().copied().collect()
}

/// Routes of a switch: prefix, length and port.
fn routes(bed: &Bed, switch: &str) -> Vec<(u128, u32, u128, Vec<u8>)> {
    let mut devices = bed.devices.iter();
    let (_, device) = devices.find(|(name, _)| name == switch).expect("a switch");
    device.with(|device| {
        let mut tables = device.program().tables.iter();
        let found = tables.find(|(_, table)| table.name == "IntIngress.routes");
        let (table, _) = found.expect("the program has the table");
        let entries = device.configuration().tables[table].iter();
        let entries = entries.map(|entry| {
            let written = device.written(table, &entry).expect("it can be written");
            let ir::KeyMatch::Lpm(value, length) = &written.keys[0] else {
                panic!("{written:?}");
            };
            let switch::Action::Call(call) = &written.action else {
                panic!("{written:?}");
            };
            let number = |value: &bits::value::Value| value.to_u128().expect("it is short");
            (
                number(value),
                *length,
                number(&call.args[0]),
                entry.metadata.to_vec(),
            )
        });
        entries.collect()
    })
}

/// Sends packets to both destinations, 10.0.2.1 first.
fn run(edit: impl Fn(String) -> String) -> (Bed, [usize; 2]) {
    let mut bed = bed("routing_loop", |fabric, loops| {
        (without_traffic(&fabric), edit(loops))
    });
    let frames = |port: u16, host: u8, to: [u8; 4]| {
        let frames = (0..PACKETS).map(move |at| {
            let frame = udp_frame(
                [2, 0, 0, 0, 2, host],
                ([10, 0, 1, 1], port),
                (to, 6000),
                200,
            );
            (START + Nanos(at * INTERVAL), frame)
        });
        frames.collect()
    };
    Generator::new(frames(1, 1, [10, 0, 2, 1])).replace(&mut bed, "h1");
    Generator::new(frames(2, 2, [10, 0, 2, 129])).replace(&mut bed, "h2");
    let received = ["h3", "h4"].map(|host| Generator::new(Vec::new()).replace(&mut bed, host));
    bed.simulation.run_until(Nanos::from_millis(40)).unwrap();
    bed.simulation.check_conservation().unwrap();
    check_counts(bed.plane.get().plane());
    let received = received.map(|frames| frames.borrow().len());
    (bed, received)
}

const TO_LEAF2: u128 = 2;

#[test]
fn the_first_packet_that_comes_round_replaces_the_route_of_its_prefix_only() {
    let (bed, received) = run(|loops| loops);
    let decisions = decisions(&bed);
    let [decision] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    // The first report about the first packet.
    let reports = bed.reports.borrow();
    let first = reports.iter().map(|(at, _, _)| *at).min();
    assert_eq!(Some(decision.at), first);
    assert!(decision.at < START + Nanos(INTERVAL));
    assert_eq!(decision.measured, Measured::Revisit(IntNodeId(1)));
    let path: Vec<u32> = decision.path.get().iter().map(|node| node.0).collect();
    assert_eq!(path, [1, 11, 1]);
    let ports = decision.subject.flow().and_then(|flow| flow.ports);
    assert_eq!(ports.map(|ports| ports.source), Some(1));
    let Outcome::Made(made) = decision.outcome else {
        panic!("{decision:?}");
    };
    assert_eq!(made.setting, Setting::Action(Some(2)));
    assert!(made.answered.is_some());
    let driver = bed.plane.get();
    let element = driver.element_counts(ElementIndex(0));
    assert_eq!((element.applied, element.refused), (1, 0));
    assert_eq!(driver.plane().entries(ReflexIndex(0)), 1);
    let routes = routes(&bed, "spine1");
    assert_eq!(
        routes,
        [
            (0x0a00_0200, 25, TO_LEAF2, b"reflex reroute".to_vec()),
            (0x0a00_0280, 25, TO_LEAF2, Vec::new()),
        ]
    );
    // The packet that came round arrives, too: it gets out of the loop.
    assert_eq!(received, [PACKETS as usize, PACKETS as usize]);
}

#[test]
fn at_the_end_of_its_life_the_operators_route_is_back() {
    let life = "hold = \"1 ms\"\nlife = \"4 ms\"";
    let (bed, _) = run(|loops| loops.replace("hold = \"1 ms\"", life));
    let made = decisions(&bed);
    let made = made
        .iter()
        .filter(|it| matches!(it.outcome, Outcome::Made(_)));
    // It loops again, and is replaced again: packets come for 6 ms.
    assert_eq!(made.count(), 2);
    assert_eq!(bed.plane.get().plane().counts().ended, 2);
    let routes = routes(&bed, "spine1");
    assert_eq!(routes[0], (0x0a00_0200, 25, 1, Vec::new()));
}

#[test]
fn a_route_that_may_not_be_changed_stays() {
    for (from, to, refusal) in [
        ("\"10.0.2.0/25\", ", "", DecisionRefusal::NoKey),
        ("node = 11", "node = 12", DecisionRefusal::NotOnPath),
        (
            "replace = true",
            "replace = false",
            DecisionRefusal::SwitchRefused,
        ),
    ] {
        let (bed, received) = run(|loops| {
            assert!(loops.contains(from));
            loops.replace(from, to)
        });
        let refused = Outcome::Refused(refusal);
        let decisions = decisions(&bed);
        assert!(!decisions.is_empty());
        assert!(
            decisions.iter().all(|it| it.outcome == refused),
            "{refusal:?}"
        );
        assert_eq!(routes(&bed, "spine1")[0].2, 1);
        assert_eq!(received, [0, PACKETS as usize]);
        let counts = bed.plane.get().plane().monitor_counts(MonitorIndex(0));
        assert_eq!(counts.made, 0);
    }
}
