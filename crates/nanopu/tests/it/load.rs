//! Loads: what `run_load` reports, and the paper's figures beside those of the model.

use nanopu::{CostTable, Image, LinkFaults, Load, Output, Picos, SingleCore, run_load};

use crate::assembler::*;

const MEMORY: usize = 1 << 24;

fn loopback_image() -> Image {
    Image::parse(
        include_bytes!("../../../../examples/nanopu/loopback.elf"),
        MEMORY,
    )
    .unwrap()
}

fn detector_image() -> Image {
    Image::parse(
        include_bytes!("../../../../examples/nanopu/path_latency.elf"),
        MEMORY,
    )
    .unwrap()
}

#[test]
fn each_message_of_a_light_load_is_answered_in_the_same_time() {
    let load = Load {
        messages: 300,
        ..Load::default()
    };
    let report = run_load(&loopback_image(), MEMORY, &load, &CostTable::default());
    assert_eq!(report.latencies.len(), 300);
    assert!(report.faults.is_empty());
    let spread = report
        .latency(990)
        .unwrap()
        .since(report.latency(0).unwrap());
    assert!(spread < Picos(3000), "{spread}");
    assert_eq!(report.device.transport.messages_received, 300);
    assert_eq!(report.network.sent, report.network.delivered);
}

#[test]
fn a_changed_cost_changes_the_latency_by_its_share() {
    let p50 = |costs: &[&str]| {
        let load = Load {
            messages: 200,
            ..Load::default()
        };
        let report = run_load(&loopback_image(), MEMORY, &load, &costs_of(costs));
        report.latency(500).unwrap().0 as i64
    };
    let base = p50(&[]);
    // A message and its answer cross four links, and the switch twice. The rest is the phase of
    // the polling loop.
    for (cost, share) in [("link=51600", 4 * 8600), ("switch=1000", -2 * 299_000)] {
        let difference = p50(&[cost]) - base;
        assert!((difference - share).abs() < 2000, "{cost}: {difference}");
    }
    assert!(p50(&["csr=10"]) > base);
}

#[test]
fn a_load_with_losses_is_answered_whole() {
    let load = Load {
        messages: 400,
        clients: 4,
        cores: 2,
        faults: LinkFaults {
            lost_per_mille: 20,
            seed: 9,
        },
        ..Load::default()
    };
    let report = run_load(&loopback_image(), MEMORY, &load, &CostTable::default());
    assert!(report.network.lost > 0);
    assert_eq!(report.latencies.len(), 400);
    assert_eq!(report.device.transport.abandoned, 0);
}

#[test]
fn lost_messages_leave_the_latencies_of_the_others_as_they_are() {
    // A message is given up after one timeout: some are never answered.
    let load = Load {
        messages: 400,
        clients: 2,
        cores: 2,
        faults: LinkFaults {
            lost_per_mille: 100,
            seed: 5,
        },
        ..Load::default()
    };
    let costs = costs_of(&["ndp-retries=1"]);
    let report = run_load(&loopback_image(), MEMORY, &load, &costs);
    let answered = report.latencies.len();
    assert!((200..400).contains(&answered), "{answered}");
    // Two messages and their answers with a timeout of 9.4 us each, and no shift by a message.
    let (least, most) = (report.latency(0).unwrap(), report.latency(1000).unwrap());
    assert!(least > Picos::from_nanos(800), "{least}");
    assert!(most < Picos::from_nanos(25_000), "{most}");
}

#[test]
fn cores_without_a_stack_take_no_message() {
    let issue = |messages| {
        let load = Load {
            cores: 20,
            messages,
            interval: Picos(5000),
            ..Load::default()
        };
        let report = run_load(&loopback_image(), MEMORY, &load, &costs_of(&["csr=1000"]));
        assert!(report.faults.is_empty());
        assert_eq!(report.latencies.len(), messages);
        let issue = report.cores.iter().map(|(parts, _)| parts.issue);
        issue.collect::<Vec<u64>>()
    };
    let (idle, busy) = (issue(0), issue(400));
    assert!(
        (0..16).all(|core| busy[core] > idle[core]),
        "{idle:?} {busy:?}"
    );
    assert_eq!(idle[16..], busy[16..]);
}

/// A report of a flow with a latency in each hop.
fn report(latencies: &[u64]) -> nanopu::RpcMessage {
    let mut bytes = 7u64.to_be_bytes().to_vec();
    bytes.extend(latencies.iter().flat_map(|latency| latency.to_be_bytes()));
    message(0, &bytes)
}

/// Millions of reports a second, for 100 reports on a core that has not run before (paper, 3.2.2).
fn report_rate(hops: usize) -> f64 {
    let mut core = SingleCore::new(&detector_image(), MEMORY, &CostTable::default());
    for number in 0..100 {
        core.deliver(3000, report(&vec![400 + number % 7; hops]));
    }
    let outputs = core.run(1_000_000);
    let done = outputs
        .iter()
        .filter(|(_, output)| matches!(output, Output::Done(_)));
    let done: Vec<u64> = done.map(|(cycle, _)| *cycle).collect();
    assert_eq!(done.len(), 100);
    3200.0 * 100.0 / (done[99] - 3000) as f64
}

#[test]
fn a_core_processes_reports_at_the_rate_of_the_paper_within_a_factor_of_two() {
    // The paper has 20 M reports a second (table 1), and does not say how many hops a report has.
    let (one, five) = (report_rate(1), report_rate(5));
    println!("{one} M/s with one hop, {five} M/s with five");
    assert!(five < one, "{one} {five}");
    assert!((10.0..=40.0).contains(&five), "{five} M/s");
}
