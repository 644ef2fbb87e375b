//! A network of a Mininet topology file, and the detection of the file's format.

use std::net::Ipv4Addr;

use json_text::JsonNode;
use support::mac::MacAddress;
use toml_file::{FileError, FileMistake};

use crate::reader::Reader;
use crate::{p4utils, tutorial};

/// Hint for JSON that is no topology.
const FORMATS: &str = "read are topology.json of the P4 tutorials (hosts, switches, links) and \
                       p4app.json of p4-utils (topology); docs/how-to/from-bmv2.md shows both";

/// A network as a topology file describes it. File names are as written there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MininetNetwork {
    /// Program of switches without one of their own.
    pub program: Option<String>,
    /// The switches.
    pub switches: Vec<ImportedSwitch>,
    /// The hosts.
    pub hosts: Vec<ImportedHost>,
    /// The links.
    pub links: Vec<ImportedLink>,
    /// Keys of the file that have no effect.
    pub warnings: Vec<FileMistake>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedSwitch {
    /// Its name.
    pub name: String,
    /// Its program: P4 text, or JSON that p4c made of it for BMv2.
    pub program: Option<String>,
    /// Its files of entries.
    pub entries: Vec<String>,
    /// The address of its P4Runtime server.
    pub p4runtime: String,
    /// Its device number there.
    pub device: u64,
    /// Its port for controllers.
    pub cpu_port: Option<u32>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedHost {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: MacAddress,
    /// Its address.
    pub address: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_len: u8,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Static ARP entries.
    pub neighbours: Vec<(Ipv4Addr, MacAddress)>,
    /// Shell commands that set it up.
    pub setup: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedLink {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
    /// Rate in bits per second.
    pub bits_per_second: Option<u64>,
    /// Delay in nanoseconds.
    pub delay_ns: u64,
    /// Share of frames that are lost.
    pub loss: f64,
    /// Queue in frames.
    pub queue: Option<u64>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Name of the node.
    pub node: String,
    /// Its port; `None` for a host.
    pub port: Option<u32>,
}

/// Reads a topology file of the P4 tutorials or of p4-utils. `file` is its name in messages.
///
/// # Errors
/// All mistakes of the file.
pub fn read(file: &str, text: &str) -> Result<MininetNetwork, FileError> {
    let mut reader = Reader::new(text);
    let mut network = None;
    match json_text::parse(text) {
        Err(error) => reader.mistake(&error.at, error.message, "correct the JSON"),
        Ok(node) => match other_kind_of_file(&node) {
            Some((message, mend)) => reader.mistake(&(0..1), message.to_owned(), mend),
            None if node.get("topology").is_some() => {
                network = p4utils::network(&mut reader, &node);
            }
            None => network = tutorial::network(&mut reader, &node),
        },
    }
    let (mistakes, warnings) = reader.finish();
    match network {
        Some(network) if mistakes.is_empty() => Ok(MininetNetwork {
            warnings,
            ..network
        }),
        _ => Err(FileError {
            file: file.to_owned(),
            mistakes,
        }),
    }
}

/// Returns a message and advice for JSON of another kind that users have beside topologies.
fn other_kind_of_file(node: &JsonNode) -> Option<(&'static str, &'static str)> {
    let has = |key| node.get(key).is_some();
    if has("header_types") && has("pipelines") {
        let mend = "name the topology; a switch's program is its P4 text";
        return Some(("this is a program that p4c compiled for BMv2", mend));
    }
    if has("table_entries") || has("p4info") && has("bmv2_json") {
        let mend = "name the topology; a switch takes these by \"runtime_json\", or --entries";
        return Some(("these are entries of one switch, not a topology", mend));
    }
    if has("targets") {
        let message = "this is a p4app.json of p4lang/p4app, which is not read";
        let mend = "write its links, hosts and switches as topology.json of the P4 tutorials";
        return Some((message, mend));
    }
    if has("nodes") && has("links") {
        let message = "this is the topology that p4-utils writes when a network runs";
        return Some((message, "name the p4app.json from which it was made"));
    }
    let is_known = has("topology") || has("switches") && has("links");
    (!is_known).then_some(("this JSON is no topology", FORMATS))
}

/// Returns the name of the P4 program of which p4c made JSON for BMv2: `build/basic.json` is made
/// of `basic.p4`. Other names are returned unchanged.
pub fn p4_name(program: &str) -> String {
    match program.strip_suffix(".json") {
        Some(stem) => format!("{}.p4", stem.rsplit('/').next().unwrap_or(stem)),
        None => program.to_owned(),
    }
}

/// Returns the program that a runtime JSON names (`bmv2_json`). A text that is none has none.
pub fn program_of_runtime(text: &str) -> Option<String> {
    let node = json_text::parse(text).ok()?;
    node.get("bmv2_json")?.text().map(str::to_owned)
}
