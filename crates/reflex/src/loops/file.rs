//! The loop file as written, before names are resolved.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml_file::{Spanned, Text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) seed: u64,
    /// File of the topology that detours are checked against.
    pub(super) topology: Option<Text>,
    #[serde(default, rename = "element")]
    pub(super) elements: Vec<Spanned<Element>>,
    #[serde(default, rename = "source")]
    pub(super) sources: Vec<Spanned<Source>>,
    #[serde(default, rename = "monitor")]
    pub(super) monitors: Vec<Spanned<Monitor>>,
    #[serde(default, rename = "reflex")]
    pub(super) reflexes: Vec<Spanned<Reflex>>,
    #[serde(default, rename = "output")]
    pub(super) outputs: Vec<Spanned<Output>>,
    pub(super) store: Option<Spanned<Store>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub(super) to: Text,
    /// Form of events.
    pub(super) events: Option<Text>,
    /// Node of events that are reports.
    pub(super) node: Option<Spanned<i64>>,
    /// Rules of reports that are passed on.
    pub(super) reports: Option<Spanned<Vec<Text>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Element {
    pub(super) name: Text,
    /// The switch of the topology, or a P4Runtime server; the element's own name if it is not
    /// given.
    pub(super) device: Option<Text>,
    /// Number of the device at its P4Runtime server.
    pub(super) device_id: Option<Spanned<i64>>,
    /// High half of the election ID at the P4Runtime server.
    pub(super) election_id: Option<Spanned<i64>>,
    /// Role at the P4Runtime server.
    pub(super) role: Option<Text>,
    /// File of the authorities that sign the P4Runtime server's certificate.
    pub(super) tls_ca: Option<Text>,
    /// File of the plane's own certificate, and that of its key.
    pub(super) tls_cert: Option<Text>,
    pub(super) tls_key: Option<Text>,
    /// Name in the server's certificate, if it is not that of the address.
    pub(super) tls_name: Option<Text>,
    /// Its node ID in reports.
    pub(super) node: Option<Spanned<i64>>,
    /// Time of a command on its way, and of its answer.
    pub(super) delay: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    pub(super) listen: Text,
    pub(super) udp_port: Option<Spanned<i64>>,
    pub(super) from: Spanned<Vec<Spanned<Exporter>>>,
    /// The store's node in the process that listens; all if it is not given.
    pub(super) node: Option<Text>,
    /// DSCP of packets with INT.
    pub(super) int_dscp: Option<Spanned<i64>>,
    /// UDP destination port of packets with INT.
    pub(super) int_port: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exporter {
    pub(super) node: Spanned<i64>,
    pub(super) address: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Monitor {
    pub(super) name: Text,
    pub(super) kind: Option<Text>,
    /// File of a P4 program, in place of a kind.
    pub(super) program: Option<Text>,
    /// File of the program's entries.
    pub(super) entries: Option<Text>,
    pub(super) instances: Option<Spanned<i64>>,
    #[serde(rename = "match")]
    pub(super) matches: Spanned<Vec<Text>>,
    pub(super) window: Option<Spanned<i64>>,
    pub(super) above: Option<Text>,
    pub(super) compare: Option<Text>,
    pub(super) latency: Option<Text>,
    pub(super) detour: Option<Text>,
    pub(super) flows: Option<Spanned<i64>>,
    pub(super) forget: Option<Text>,
    pub(super) reflex: Option<Text>,
    pub(super) reflexes: Option<Spanned<Vec<Text>>>,
    pub(super) host: Option<Text>,
    pub(super) distinct: Option<Spanned<Vec<Text>>>,
    pub(super) peers: Option<Spanned<i64>>,
    pub(super) within: Option<Text>,
    pub(super) hosts: Option<Spanned<i64>>,
    pub(super) ttl_reason: Option<Spanned<i64>>,
    pub(super) limit: Option<Text>,
    pub(super) every: Option<Text>,
    pub(super) flows_of: Option<Text>,
    pub(super) share: Option<Spanned<i64>>,
    pub(super) entitled: Option<Spanned<Vec<Text>>>,
    pub(super) recent: Option<Text>,
    pub(super) queues: Option<Spanned<i64>>,
    pub(super) packets: Option<Spanned<i64>>,
    pub(super) node: Option<Spanned<i64>>,
    pub(super) port: Option<Spanned<i64>>,
    pub(super) objective: Option<Text>,
    pub(super) least: Option<Spanned<i64>>,
    pub(super) most: Option<Spanned<i64>>,
}

impl Monitor {
    /// Returns the place that mistakes of its kind are at.
    pub(super) fn place(&self) -> &Text {
        let kind = self.kind.as_ref().or(self.program.as_ref());
        kind.unwrap_or(&self.name)
    }

    /// Returns the settings that are given, with their places, but for those of all kinds.
    pub(super) fn given(&self) -> Vec<(&'static str, Span)> {
        fn span<T>(given: &Option<Spanned<T>>) -> Option<Span> {
            given.as_ref().map(Spanned::span)
        }
        let all = [
            ("entries", span(&self.entries)),
            ("window", span(&self.window)),
            ("above", span(&self.above)),
            ("compare", span(&self.compare)),
            ("latency", span(&self.latency)),
            ("detour", span(&self.detour)),
            ("flows", span(&self.flows)),
            ("forget", span(&self.forget)),
            ("host", span(&self.host)),
            ("distinct", span(&self.distinct)),
            ("peers", span(&self.peers)),
            ("within", span(&self.within)),
            ("hosts", span(&self.hosts)),
            ("ttl_reason", span(&self.ttl_reason)),
            ("limit", span(&self.limit)),
            ("every", span(&self.every)),
            ("flows_of", span(&self.flows_of)),
            ("share", span(&self.share)),
            ("entitled", span(&self.entitled)),
            ("recent", span(&self.recent)),
            ("queues", span(&self.queues)),
            ("packets", span(&self.packets)),
            ("node", span(&self.node)),
            ("port", span(&self.port)),
            ("objective", span(&self.objective)),
            ("least", span(&self.least)),
            ("most", span(&self.most)),
        ];
        let given = all
            .into_iter()
            .filter_map(|(name, span)| Some((name, span?)));
        given.collect()
    }
}

/// Place of a value in the text, in bytes.
pub(super) type Span = std::ops::Range<usize>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reflex {
    pub(super) name: Text,
    pub(super) element: Text,
    pub(super) table: Option<Text>,
    pub(super) key: Option<Spanned<Vec<Text>>>,
    pub(super) prefixes: Option<Spanned<Vec<Text>>>,
    pub(super) action: Option<Text>,
    pub(super) ports: Option<Spanned<Vec<Spanned<i64>>>>,
    pub(super) replace: Option<Spanned<bool>>,
    pub(super) meter_rate: Option<Text>,
    pub(super) meter: Option<Text>,
    pub(super) register: Option<Text>,
    pub(super) queue: Option<Spanned<i64>>,
    pub(super) cell: Option<Spanned<i64>>,
    pub(super) burst: Option<Text>,
    pub(super) rate: Option<Text>,
    pub(super) entries: Option<Spanned<i64>>,
    pub(super) hold: Option<Text>,
    pub(super) life: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) nodes: Spanned<Vec<Spanned<StoreNode>>>,
    /// Nodes that may replace others.
    pub(super) spares: Option<Spanned<Vec<Spanned<StoreNode>>>>,
    /// First part of the names of the rings between nodes in several processes.
    pub(super) ring: Option<Text>,
    pub(super) key_file: Option<Text>,
    pub(super) reads: Option<Text>,
    /// Deviation of clocks from true time, in thousandths.
    pub(super) clock_drift: Option<Spanned<i64>>,
    pub(super) ack: Option<Text>,
    pub(super) keep: Option<Text>,
    pub(super) dir: Option<Text>,
    pub(super) election_timeout: Option<Text>,
}

/// A node of the store: its name alone, or a table with its address.
#[derive(Clone)]
pub(super) struct StoreNode {
    pub(super) name: String,
    pub(super) address: Option<String>,
    /// Interface of its frames, as in `xdp:eth2`.
    pub(super) interface: Option<String>,
}

impl<'de> Deserialize<'de> for StoreNode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StoreNode, D::Error> {
        from.deserialize_any(StoreNodeVisitor)
    }
}

struct StoreNodeVisitor;

impl<'de> Visitor<'de> for StoreNodeVisitor {
    type Value = StoreNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node's name, or a table with its name and address")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<StoreNode, E> {
        Ok(StoreNode {
            name: name.to_owned(),
            address: None,
            interface: None,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoreNode, A::Error> {
        let (mut name, mut address, mut interface) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "address" => address = Some(map.next_value()?),
                "interface" => interface = Some(map.next_value()?),
                other => {
                    let known = &["name", "address", "interface"];
                    return Err(A::Error::unknown_field(other, known));
                }
            }
        }
        Ok(StoreNode {
            name: name.ok_or_else(|| A::Error::missing_field("name"))?,
            address,
            interface,
        })
    }
}
