//! Tests of loop detection: a loop in which no time passes ends with an error that lists its
//! links. A long path within one instant is not an error.

mod common;

use fabric::topology::{LinkSpec, PlaneSpec, SwitchSpec};
use fabric::{FabricError, Node, NodeCounts, Simulation};
use packet::{Nanos, PortId};

/// A switch that forwards each packet by its ingress port, immediately or at its next wake-up.
struct Patch {
    to: fn(u32) -> &'static [u32],
    waits: bool,
    held: Vec<(u32, Vec<u8>)>,
    now: Nanos,
    sent: Vec<(u32, Vec<u8>)>,
    tally: NodeCounts,
}

impl Patch {
    fn new(to: fn(u32) -> &'static [u32], waits: bool) -> Patch {
        Patch {
            to,
            waits,
            held: Vec::new(),
            now: Nanos::ZERO,
            sent: Vec::new(),
            tally: NodeCounts::default(),
        }
    }

    fn send(&mut self) {
        for (port, bytes) in std::mem::take(&mut self.held) {
            let ports = (self.to)(port);
            self.tally.sent += ports.len() as u64;
            self.tally.made += ports.len().saturating_sub(1) as u64;
            if ports.is_empty() {
                self.tally.delivered += 1;
            }
            let copies = ports.iter().map(|port| (*port, bytes.clone()));
            self.sent.extend(copies);
        }
    }
}

impl Node for Patch {
    fn attach(&mut self, _: PortId, _: &LinkSpec) {}

    fn receive(&mut self, port: PortId, bytes: &[u8], now: Nanos) {
        self.tally.received += 1;
        self.now = now;
        if !self.waits {
            self.held.push((port.0, bytes.to_vec()));
            return self.send();
        }
        self.held.push((port.0, bytes.to_vec()));
    }

    fn step(&mut self, _: Nanos) {
        // The step after the arrival keeps the packet for the wake-up at the same time.
        match std::mem::replace(&mut self.waits, false) {
            true => {}
            false => self.send(),
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(self.now)
    }

    fn drain_sent(&mut self, take: &mut dyn FnMut(PortId, &[u8], Nanos)) {
        for (port, bytes) in self.sent.drain(..) {
            take(PortId(port), &bytes, self.now);
        }
    }

    fn tally(&self) -> NodeCounts {
        let mut tally = self.tally.clone();
        tally.held = self.held.len() as u64;
        tally
    }
}

/// Returns a topology of two switches with three links between them, a host at each, and pings
/// from one to the other.
fn text(delay: &str) -> String {
    let links =
        (1..4).map(|port| format!("[[link]]\nends = [\"a:{port}\", \"b:{port}\"]\n{delay}\n"));
    let host = |name: &str, n: u8| {
        format!(
            "[[host]]\nname = \"{name}\"\nmac = \"02:00:00:00:00:0{n}\"\nip = \"10.0.0.{n}/24\"\n\
             [[link]]\nends = [\"{name}\", \"{}:0\"]\n",
            ["a", "b"][usize::from(n) - 1]
        )
    };
    let switches = "[[switch]]\nname = \"a\"\n[[switch]]\nname = \"b\"\n";
    "[defaults.switch]\nprogram = \"router/router.p4\"\n".to_owned()
        + switches
        + &links.collect::<String>()
        + &host("h", 1)
        + &host("k", 2)
        + "[[ping]]\nfrom = \"h\"\nto = \"k\"\ncount = 2\ninterval = \"1 ms\"\n"
}

/// Simulates one second with these switches. Returns the number of frames.
fn ended(
    delay: &str,
    a: fn(u32) -> &'static [u32],
    b: fn(u32) -> &'static [u32],
    waits: bool,
) -> Result<u64, String> {
    let topology = common::topology(&text(delay));
    let mut make = |spec: &SwitchSpec| {
        assert!(matches!(spec.plane, PlaneSpec::Alone(_)));
        let to = if spec.name == "a" { a } else { b };
        Ok(Box::new(Patch::new(to, waits)) as Box<dyn Node>)
    };
    let mut simulation = Simulation::new(topology, &mut make).unwrap();
    let second = Nanos::from_secs(1);
    let ran = simulation.run(second, &mut |_| true);
    ran.map_err(|error: FabricError| error.to_string())?;
    simulation.check_conservation().unwrap();
    Ok(simulation.progress().frames)
}

/// Forwards to port 2 if the packet came from port 1, otherwise to port 1: an endless loop.
fn one_and_two(port: u32) -> &'static [u32] {
    match port {
        1 => &[2],
        _ => &[1],
    }
}

#[test]
fn a_circle_without_delay_is_an_error_that_names_its_links() {
    for waits in [false, true] {
        let error = ended("", one_and_two, one_and_two, waits).unwrap_err();
        assert!(
            error.starts_with("packets go in a circle for ever at "),
            "{error}"
        );
        let links = ["a:1 -> b:1, b:2 -> a:2;", "b:2 -> a:2, a:1 -> b:1;"];
        assert!(links.iter().any(|links| error.contains(links)), "{error}");
    }
}

#[test]
fn a_circle_with_delay_ends_with_the_simulated_time() {
    let frames = ended("delay = \"1 ms\"", one_and_two, one_and_two, false).unwrap();
    assert!((900..5000).contains(&frames), "{frames}");
}

#[test]
fn packets_that_multiply_at_one_instant_are_an_error() {
    let copies = |port: u32| -> &'static [u32] {
        match port {
            0 => &[1],
            _ => &[1, 2, 3],
        }
    };
    let error = ended("", copies, copies, false).unwrap_err();
    assert!(
        error.contains("more than 50000 packets are on their way"),
        "{error}"
    );
}

#[test]
fn a_path_without_delay_that_ends_is_no_circle() {
    // Path: from the host, by link 1, back by link 2, by link 3, and to the other host.
    let a = |port: u32| -> &'static [u32] {
        match port {
            0 => &[1],
            2 => &[3],
            _ => &[0],
        }
    };
    let b = |port: u32| -> &'static [u32] {
        match port {
            1 => &[2],
            3 => &[0],
            _ => &[3],
        }
    };
    assert!(ended("", a, b, false).unwrap() > 4);
}
