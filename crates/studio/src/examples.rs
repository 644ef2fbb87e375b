//! Programs to begin with: examples of the repository, embedded.

use serde::Serialize;

use crate::playground::Packet;

/// Number of packets of an example's test that the page begins with.
const PACKETS: usize = 6;

/// Example of the page's list.
#[derive(Serialize)]
pub(crate) struct Example {
    name: &'static str,
    program: &'static str,
    entries: &'static str,
    /// The first packets of its test.
    packets: Vec<Packet>,
}

macro_rules! texts {
    ($name:literal, $stem:literal) => {
        (
            $name,
            include_str!(concat!("../../../examples/", $stem, "/", $stem, ".p4")),
            include_str!(concat!("../../../examples/", $stem, "/", $stem, ".entries")),
            include_str!(concat!("../../../examples/", $stem, "/", $stem, ".stf")),
        )
    };
}

/// Name, program, entries and test of each example. The page shows the first one first.
const TEXTS: [(&str, &str, &str, &str); 5] = [
    texts!("IPv4 router", "router"),
    texts!("Access control list", "acl"),
    texts!("Equal-cost paths", "ecmp"),
    texts!("Load balancer", "load_balancer"),
    texts!("Network address translation", "nat"),
];

/// Returns the examples.
pub(crate) fn examples() -> Vec<Example> {
    let made = TEXTS.iter().map(|(name, program, entries, test)| Example {
        name,
        program,
        entries,
        packets: packets(test),
    });
    made.collect()
}

/// Returns the first packets of an STF test.
fn packets(test: &str) -> Vec<Packet> {
    let lines = test.lines().filter_map(|line| line.strip_prefix("packet "));
    let packets = lines.filter_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let (port, bytes) = line.trim().split_once(' ')?;
        Some(Packet {
            port: port.parse().ok()?,
            bytes: bytes.split_whitespace().collect(),
        })
    });
    packets.take(PACKETS).collect()
}
