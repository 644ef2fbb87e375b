//! Topologies of the paper's figure 5, as texts of topology files.

use std::fmt::Write;
use std::path::Path;

use fabric::Topology;
use fabric::topology::HostId;
use packet::Nanos;

/// Hosts of the first topology: six below each of two switches.
const RACK_HOSTS: usize = 6;

/// Servers with mappers of the second topology.
pub(super) const SERVERS: usize = 3;

/// A topology with the hosts of mappers, in the order in which mappers take them, and the host of
/// the reducer.
pub(super) struct Fabric {
    pub(super) topology: Topology,
    pub(super) mappers: Vec<HostId>,
    pub(super) reducer: HostId,
}

/// Properties of all links and switches.
#[derive(Clone, Copy)]
pub(super) struct Links {
    /// Rate in Gbit/s.
    pub(super) gigabits: u64,
    /// Probability of a frame's loss.
    pub(super) loss: f64,
    /// Service time of a switch.
    pub(super) service: Nanos,
}

/// Slots of a switch: enough for all reductions.
const SLOTS: u32 = u32::MAX;

struct Text {
    text: String,
    hosts: usize,
    links: Links,
}

impl Text {
    fn new(name: &str, seed: u64, links: Links) -> Text {
        let Links { gigabits, loss, .. } = links;
        let text = format!(
            "name = \"{name}\"\nseed = {seed}\n\n[defaults.link]\nrate = \"{gigabits} Gbit/s\"\n\
             delay = \"2 us\"\nqueue = 200\nloss = {loss}\n"
        );
        Text {
            text,
            hosts: 0,
            links,
        }
    }

    fn switch(&mut self, name: &str) {
        // Writes to a string do not fail.
        let _ = write!(
            self.text,
            "\n[[switch]]\nname = \"{name}\"\nslots = {SLOTS}\nservice = \"{} ns\"\n",
            self.links.service.0
        );
    }

    fn link(&mut self, one: &str, other: &str) {
        let _ = write!(self.text, "\n[[link]]\nends = [\"{one}\", \"{other}\"]\n");
    }

    /// Adds a host at the port of a switch.
    fn host(&mut self, name: &str, end: &str) -> HostId {
        self.hosts += 1;
        let number = self.hosts;
        let _ = write!(
            self.text,
            "\n[[host]]\nname = \"{name}\"\nmac = \"02:00:00:00:00:{number:02x}\"\n\
             ip = \"10.0.{number}.1/24\"\n"
        );
        self.link(name, end);
        HostId(number - 1)
    }

    fn read(&self, name: &str) -> Result<Topology, String> {
        let topology = Topology::read(name, &self.text, Path::new(""));
        topology.map_err(|error| error.to_string())
    }
}

/// Returns figure 5 (a): two racks of six hosts, their switches, and two switches between them. The
/// last host has the reducer, and the last of twelve mappers.
///
/// # Errors
/// A value is outside of the range of topology files.
pub(super) fn racks(seed: u64, links: Links) -> Result<Fabric, String> {
    let mut text = Text::new("racks", seed, links);
    for switch in ["tor1", "tor2", "aggregation1", "aggregation2"] {
        text.switch(switch);
    }
    for (at, aggregation) in ["aggregation1", "aggregation2"].into_iter().enumerate() {
        for (number, tor) in ["tor1", "tor2"].into_iter().enumerate() {
            let port = RACK_HOSTS + at;
            text.link(&format!("{tor}:{port}"), &format!("{aggregation}:{number}"));
        }
    }
    let mut mappers = Vec::new();
    // One of each rack in turn.
    for at in 0..RACK_HOSTS {
        for rack in 1..=2 {
            let name = format!("h{rack}{at}");
            mappers.push(text.host(&name, &format!("tor{rack}:{at}")));
        }
    }
    let reducer = HostId(2 * RACK_HOSTS - 1);
    Ok(Fabric {
        topology: text.read("racks.toml")?,
        mappers,
        reducer,
    })
}

/// Returns figure 5 (b): four servers at a switch. Three of them have mappers.
///
/// # Errors
/// As for [`racks`].
pub(super) fn star(seed: u64, links: Links) -> Result<Fabric, String> {
    let mut text = Text::new("star", seed, links);
    text.switch("switch");
    let mut server = |number: usize| text.host(&format!("s{number}"), &format!("switch:{number}"));
    let mappers: Vec<HostId> = (0..SERVERS).map(&mut server).collect();
    let reducer = server(SERVERS);
    Ok(Fabric {
        topology: text.read("star.toml")?,
        mappers,
        reducer,
    })
}
