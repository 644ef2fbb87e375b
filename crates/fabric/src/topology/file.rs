//! The topology file as written, before names are resolved.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml_file::{Spanned, Text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) seed: u64,
    #[serde(default)]
    pub(super) defaults: Defaults,
    #[serde(default, rename = "switch")]
    pub(super) switches: Vec<Spanned<Switch>>,
    #[serde(default, rename = "host")]
    pub(super) hosts: Vec<Spanned<Host>>,
    #[serde(default, rename = "nanopu")]
    pub(super) nanopus: Vec<Spanned<Nanopu>>,
    pub(super) split: Option<Spanned<Split>>,
    #[serde(default, rename = "server")]
    pub(super) servers: Vec<Spanned<Server>>,
    #[serde(default, rename = "link")]
    pub(super) links: Vec<Spanned<Link>>,
    #[serde(default, rename = "fault")]
    pub(super) faults: Vec<Spanned<Fault>>,
    #[serde(default, rename = "flow")]
    pub(super) flows: Vec<Flow>,
    #[serde(default, rename = "ping")]
    pub(super) pings: Vec<Ping>,
    #[serde(default, rename = "traffic")]
    pub(super) traffic: Vec<Spanned<Traffic>>,
    #[serde(default)]
    pub(super) requests: Vec<Spanned<Requests>>,
    pub(super) workload: Option<Workload>,
    #[serde(default, rename = "command")]
    pub(super) commands: Vec<Command>,
}

/// Defaults for links and switches.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    #[serde(default)]
    pub(super) link: LinkParts,
    #[serde(default)]
    pub(super) switch: SwitchParts,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkParts {
    pub(super) rate: Option<Text>,
    pub(super) delay: Option<Text>,
    pub(super) loss: Option<Spanned<f64>>,
    pub(super) duplicate: Option<Spanned<f64>>,
    pub(super) reorder: Option<Spanned<f64>>,
    pub(super) corrupt: Option<Spanned<f64>>,
    pub(super) queue: Option<Spanned<i64>>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchParts {
    pub(super) program: Option<Text>,
    pub(super) service: Option<Text>,
    pub(super) backlog: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub(super) name: Text,
    pub(super) program: Option<Text>,
    pub(super) entries: Option<Spanned<EntriesFiles>>,
    /// Slots for reductions, of a switch without a program of its own.
    pub(super) slots: Option<Spanned<i64>>,
    /// Its P4Runtime server, if it is a real switch.
    pub(super) p4runtime: Option<Text>,
    /// Its device number there.
    pub(super) device: Option<Spanned<i64>>,
    /// Its port for controllers' packets.
    pub(super) cpu_port: Option<Spanned<i64>>,
    /// True if the real switch hosts tenants, and reductions become virtual data planes there.
    pub(super) tenants: Option<Spanned<bool>>,
    pub(super) service: Option<Text>,
    pub(super) backlog: Option<Spanned<i64>>,
    #[serde(default, rename = "vpdp")]
    pub(super) vpdps: Vec<Spanned<Vpdp>>,
    /// Sharing modes of physical ports, by port number.
    #[serde(default)]
    pub(super) share: BTreeMap<String, Text>,
    #[serde(default)]
    pub(super) rules: Vec<Text>,
}

/// One entries file, or several that are read in this order.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum EntriesFiles {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vpdp {
    pub(super) name: Text,
    pub(super) id: Option<Spanned<i64>>,
    pub(super) ports: Vec<Spanned<VirtualPort>>,
    pub(super) program: Text,
    pub(super) entries: Option<Spanned<EntriesFiles>>,
}

/// Connection of a virtual port: the number of a physical port, or the words of
/// `polyplane tenant`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum VirtualPort {
    Physical(u32),
    Words(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: Text,
    pub(super) mac: Text,
    pub(super) ip: Text,
    /// The address of its agent, if it is a real host.
    pub(super) agent: Option<Text>,
    pub(super) gateway: Option<Text>,
    #[serde(default)]
    pub(super) neighbours: BTreeMap<String, Text>,
    /// Shell commands that set up a host that is a network namespace.
    #[serde(default)]
    pub(super) setup: Vec<String>,
}

/// A nanoPU.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nanopu {
    pub(super) name: Text,
    pub(super) ip: Text,
    pub(super) mac: Option<Text>,
    pub(super) gateway: Option<Text>,
    #[serde(default)]
    pub(super) neighbours: BTreeMap<String, Text>,
    /// Its program.
    pub(super) image: Option<Text>,
    pub(super) cores: Option<Spanned<i64>>,
    pub(super) memory: Option<Text>,
    #[serde(default)]
    pub(super) costs: BTreeMap<String, Spanned<i64>>,
}

/// Messages of a host to a nanoPU.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requests {
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) context: Option<Spanned<i64>>,
    pub(super) messages: Spanned<i64>,
    pub(super) interval: Text,
    pub(super) at: Option<Text>,
    pub(super) bytes: Option<Text>,
    pub(super) contents: Option<Spanned<Vec<String>>>,
}

/// A program over a switch and servers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Split {
    pub(super) program: Text,
    pub(super) entries: Option<Text>,
    /// File with the C code of its handlers.
    pub(super) c: Option<Text>,
    pub(super) mirror_all: Option<Spanned<i64>>,
    pub(super) phv: Option<Text>,
    pub(super) install: Option<Text>,
    pub(super) order: Option<Text>,
    pub(super) placement: Option<Text>,
    pub(super) top: Option<Spanned<i64>>,
    pub(super) window: Option<Text>,
    pub(super) epsilon: Option<Spanned<f64>>,
    pub(super) sketch: Option<Text>,
    pub(super) k: Option<Spanned<f64>>,
    pub(super) age: Option<Spanned<i64>>,
    pub(super) margin: Option<Spanned<f64>>,
    pub(super) lpm: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) name: Text,
    pub(super) workers: Option<Spanned<i64>>,
    pub(super) service: Option<Text>,
    pub(super) backlog: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Traffic {
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) packets: Spanned<i64>,
    pub(super) interval: Text,
    pub(super) flows: Option<Spanned<i64>>,
    pub(super) alpha: Option<Spanned<f64>>,
    pub(super) bytes: Option<Text>,
    pub(super) at: Option<Text>,
    pub(super) destinations: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) ends: [Text; 2],
    pub(super) rate: Option<Text>,
    pub(super) delay: Option<Text>,
    pub(super) loss: Option<Spanned<f64>>,
    pub(super) duplicate: Option<Spanned<f64>>,
    pub(super) reorder: Option<Spanned<f64>>,
    pub(super) corrupt: Option<Spanned<f64>>,
    pub(super) queue: Option<Spanned<i64>>,
}

/// Other properties of a link for a time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    pub(super) link: Option<[Text; 2]>,
    pub(super) from: Option<Text>,
    pub(super) pause: Option<Text>,
    /// Switch or host that stops at once.
    pub(super) crash: Option<Text>,
    /// State of its disk when it is started again.
    pub(super) disk: Option<Text>,
    /// Switch with a clock that deviates.
    pub(super) clock: Option<Text>,
    /// Time that a clock is set ahead.
    pub(super) ahead: Option<Text>,
    /// Share of the time that a clock gains.
    pub(super) drift: Option<Spanned<f64>>,
    /// Nodes of one side of a partition.
    pub(super) partition: Option<Vec<Text>>,
    /// Way of the frames that a partition loses.
    pub(super) way: Option<Text>,
    pub(super) at: Text,
    pub(super) until: Option<Text>,
    pub(super) delay: Option<Text>,
    pub(super) loss: Option<Spanned<f64>>,
    pub(super) duplicate: Option<Spanned<f64>>,
    pub(super) reorder: Option<Spanned<f64>>,
    pub(super) corrupt: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flow {
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) bytes: Text,
    pub(super) at: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ping {
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) count: Option<Spanned<i64>>,
    pub(super) interval: Option<Text>,
    pub(super) at: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Workload {
    pub(super) elephants: Option<Spanned<i64>>,
    pub(super) elephant_bytes: Option<Text>,
    pub(super) mice: Option<Spanned<i64>>,
    pub(super) mouse_bytes: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    pub(super) host: Text,
    pub(super) run: Spanned<Vec<String>>,
    #[serde(default)]
    pub(super) server: bool,
}
