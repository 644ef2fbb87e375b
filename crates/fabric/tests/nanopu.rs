//! NanoPUs in a fabric: requests through a switch program, trimming, faults, and times beside those
//! of the model's own network.

mod common;

use common::{examples, finish, simulation, topology};
use fabric::{Report, Topology};
use nanopu::{Cost, CostTable, Image, Load, Picos, run_load};
use packet::Nanos;

fn loaded(text: &str) -> Topology {
    let mut topology = topology(text);
    let load = topology.load_images(&mut |path, memory| {
        let file = std::fs::read(path).map_err(|error| error.to_string())?;
        Image::parse(&file, memory).map_err(|error| error.to_string())
    });
    load.unwrap();
    topology
}

/// A nanoPU at port 1 of a switch that trims, and hosts at the ports from 2 on.
fn star(hosts: usize, link: &str, nanopu: &str, requests: &str) -> String {
    let entries = "nanopu/ndp.entries";
    let mut text = format!(
        "[defaults.link]\nrate = \"200 Gbit/s\"\n{link}\n[[switch]]\nname = \"s\"\n\
         program = \"nanopu/ndp.p4\"\nentries = \"{entries}\"\n[[nanopu]]\nname = \"n\"\n\
         ip = \"10.0.0.1/24\"\n{nanopu}\n[[link]]\nends = [\"n\", \"s:1\"]\n"
    );
    for number in 2..hosts + 2 {
        text += &format!(
            "[[host]]\nname = \"h{number}\"\nmac = \"02:00:00:00:01:{number:02x}\"\n\
             ip = \"10.0.0.{number}/24\"\n[[link]]\nends = [\"h{number}\", \"s:{number}\"]\n\
             [[requests]]\nfrom = \"h{number}\"\nto = \"n\"\n{requests}\n"
        );
    }
    text
}

const LOOPBACK: &str = "image = \"nanopu/loopback.elf\"";

#[test]
fn the_shipped_star_answers_all_requests() {
    let path = examples().join("nanopu/star.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut topology = Topology::read("star.toml", &text, path.parent().unwrap()).unwrap();
    topology
        .load_images(&mut |path, memory| {
            let file = std::fs::read(path).map_err(|error| error.to_string())?;
            Image::parse(&file, memory).map_err(|error| error.to_string())
        })
        .unwrap();
    let report = finish(&mut simulation(topology));
    for requests in &report.requests {
        assert_eq!((requests.sent, requests.answered), (1000, 1000));
    }
    assert_eq!(report.nanopus[0].messages_received, 2000);
    assert_eq!(report.nanopus[0].timeouts, 0);
    assert_eq!(report.dropped, []);
}

#[test]
fn latencies_are_those_of_the_models_own_network_but_for_the_rounding_of_nanoseconds() {
    let text = star(
        1,
        "delay = \"193 ns\"",
        LOOPBACK,
        "messages = 300\ninterval = \"3 us\"\nat = \"10 us\"",
    );
    let report = finish(&mut simulation(loaded(&text)));
    let found = report.requests[0].latency.unwrap();
    let costs = CostTable::default();
    assert_eq!(2 * 43_000 + costs.get(Cost::Switch), 2 * 193_000);
    let file = std::fs::read(examples().join("nanopu/loopback.elf")).unwrap();
    let memory = 1 << 24;
    let image = Image::parse(&file, memory).unwrap();
    let load = Load {
        messages: 300,
        interval: Picos::from_nanos(3000),
        ..Load::default()
    };
    let expected = run_load(&image, memory, &load, &costs);
    let expected = expected.latency(500).unwrap().as_nanos();
    // A frame starts at a whole nanosecond, and its time on the link is cut to one: four links.
    let difference = found.p50_ns - expected;
    assert!((-4.0..=4.0).contains(&difference), "{found:?} {expected}");
}

#[test]
fn a_program_that_trims_saves_an_incast_from_timeouts() {
    let requests = "messages = 20\ninterval = \"1 ns\"\nbytes = \"1024 B\"\nat = \"10 us\"";
    let text = star(2, "delay = \"193 ns\"\nqueue = 400", LOOPBACK, requests);
    let report = finish(&mut simulation(loaded(&text)));
    for requests in &report.requests {
        assert_eq!((requests.sent, requests.answered), (20, 20));
    }
    let nanopu = &report.nanopus[0];
    assert!(nanopu.trimmed > 0, "{nanopu:?}");
    assert_eq!(nanopu.timeouts, 0);
    assert_eq!(report.dropped, []);
}

#[test]
fn lost_packets_are_sent_again_and_each_request_is_answered() {
    let requests = "messages = 50\ninterval = \"2 us\"\nbytes = \"1500 B\"";
    let text = star(2, "delay = \"193 ns\"\nloss = 0.1", LOOPBACK, requests);
    let report = finish(&mut simulation(loaded(&text)));
    for requests in &report.requests {
        assert_eq!((requests.sent, requests.answered), (50, 50));
    }
    assert!(report.links.iter().any(|link| link.lost > 0));
}

#[test]
fn a_fault_of_a_program_is_in_the_report_and_the_fabric_goes_on() {
    // One instruction without the network interface is too much for any program.
    let nanopu = format!("{LOOPBACK}\ncosts = {{ yield-limit = 1 }}");
    let mut text = star(
        2,
        "delay = \"193 ns\"",
        &nanopu,
        "messages = 3\ninterval = \"1 us\"",
    );
    text += "[[ping]]\nfrom = \"h2\"\nto = \"h3\"\ncount = 1\n";
    let mut topology = loaded(&text);
    for (host, other) in [(0, 3u8), (1, 2)] {
        let address = std::net::Ipv4Addr::new(10, 0, 0, other);
        let mac = [2, 0, 0, 0, 1, other];
        topology.hosts[host].neighbours.push((address, mac));
    }
    let mut simulation = simulation(topology);
    simulation
        .run(Nanos::from_millis(50), &mut |_| true)
        .unwrap();
    simulation.check_conservation().unwrap();
    let report = simulation.report();
    let fault = report.nanopus[0].cores[0].fault.as_ref().unwrap();
    assert!(fault.contains("never-yields"), "{fault}");
    assert_eq!(report.requests[0].answered, 0);
    assert_eq!(report.pings[0].microseconds.len(), 1);
}

#[test]
fn the_report_does_not_depend_on_the_steps_of_time() {
    let requests = "messages = 20\ninterval = \"700 ns\"\nbytes = \"1400 B\"";
    let text = star(2, "delay = \"193 ns\"\nloss = 0.05", LOOPBACK, requests);
    let run = |step: u64| {
        let mut simulation = simulation(loaded(&text));
        for end in (0..1_000_000).step_by(step as usize) {
            simulation.run_until(Nanos(end)).unwrap();
        }
        simulation.run_until(Nanos(1_000_000)).unwrap();
        simulation.report()
    };
    let whole = run(1_000_000);
    assert_eq!(whole, run(1_000));
    assert_eq!(whole, run(777));
}

/// Returns the cycles of the first nanoPU's first core, and those of one part.
fn cycles(report: &Report, part: &str) -> (u64, u64) {
    let parts = &report.nanopus[0].cores[0].parts;
    let own = parts.iter().find(|(name, _)| *name == part);
    (parts.iter().map(|(_, cycles)| cycles).sum(), own.unwrap().1)
}

#[test]
fn a_core_that_waits_has_all_cycles_of_the_time_of_the_report() {
    let requests = "messages = 3\ninterval = \"1 us\"";
    let mut simulation = simulation(loaded(&star(1, "delay = \"193 ns\"", LOOPBACK, requests)));
    simulation.run_until(Nanos(1_000_000)).unwrap();
    let (all, polling) = cycles(&simulation.report(), "polling");
    // Less than a round of the polling loop is missing.
    assert!((3_199_950..3_200_050).contains(&all), "{all}");
    assert!(polling > 3_000_000, "{polling}");
}

#[test]
fn a_nanopu_that_pauses_executes_nothing_and_repeats_nothing() {
    let requests = "messages = 40\ninterval = \"1 us\"";
    let fault = "[[fault]]\npause = \"n\"\nat = \"20 us\"\nuntil = \"40 us\"\n";
    let run = |fault: &str| {
        let text = star(1, "delay = \"193 ns\"", LOOPBACK, requests) + fault;
        let mut simulation = simulation(loaded(&text));
        simulation.run_until(Nanos(1_000_000)).unwrap();
        simulation.check_conservation().unwrap();
        simulation.report()
    };
    let (without, report) = (run(""), run(fault));
    let (all, paused) = cycles(&report, "paused");
    assert_eq!(cycles(&without, "paused").1, 0);
    assert!((63_950..64_050).contains(&paused), "{paused}");
    assert!((3_199_950..3_200_050).contains(&all), "{all}");
    assert_eq!(report.requests[0].answered, 40);
    assert_eq!(report.nanopus[0].timeouts, 0);
    // The requests of the pause wait for its end.
    let latency = report.requests[0].latency.unwrap();
    assert!(latency.max_ns > 19_000.0, "{latency:?}");
}

#[test]
fn a_run_above_the_capacity_goes_on_until_all_requests_are_sent() {
    // A core of 100 MHz takes more than 200 ns for a request.
    let nanopu = format!("{LOOPBACK}\ncosts = {{ clock = 100 }}");
    let requests = "messages = 10000\ninterval = \"1 ns\"";
    let mut simulation = simulation(loaded(&star(1, "delay = \"193 ns\"", &nanopu, requests)));
    simulation.run_until(Nanos(50_000)).unwrap();
    let early = &simulation.report().requests[0];
    assert!(early.waiting > 1000 && early.sent < 9000, "{early:?}");
    assert_eq!(early.sent + early.waiting, 10_000);
    let late = &finish(&mut simulation).requests[0];
    assert_eq!((late.sent, late.waiting), (10_000, 0));
}
