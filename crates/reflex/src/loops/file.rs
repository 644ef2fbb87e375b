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
    #[serde(default, rename = "element")]
    pub(super) elements: Vec<Spanned<Element>>,
    #[serde(default, rename = "source")]
    pub(super) sources: Vec<Spanned<Source>>,
    #[serde(default, rename = "monitor")]
    pub(super) monitors: Vec<Spanned<Monitor>>,
    #[serde(default, rename = "reflex")]
    pub(super) reflexes: Vec<Spanned<Reflex>>,
    pub(super) store: Option<Spanned<Store>>,
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
    pub(super) kind: Text,
    #[serde(rename = "match")]
    pub(super) matches: Spanned<Vec<Text>>,
    pub(super) window: Option<Spanned<i64>>,
    pub(super) above: Option<Text>,
    pub(super) compare: Option<Text>,
    pub(super) latency: Option<Text>,
    pub(super) flows: Option<Spanned<i64>>,
    pub(super) forget: Option<Text>,
    pub(super) reflex: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reflex {
    pub(super) name: Text,
    pub(super) element: Text,
    pub(super) table: Text,
    pub(super) key: Spanned<Vec<Text>>,
    pub(super) action: Text,
    pub(super) ports: Spanned<Vec<Spanned<i64>>>,
    pub(super) rate: Option<Text>,
    pub(super) entries: Option<Spanned<i64>>,
    pub(super) hold: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    pub(super) nodes: Spanned<Vec<Spanned<StoreNode>>>,
    pub(super) ack: Option<Text>,
    pub(super) keep: Option<Text>,
    pub(super) dir: Option<Text>,
    pub(super) election_timeout: Option<Text>,
}

/// A node of the store: its name alone, or a table with its address.
pub(super) struct StoreNode {
    pub(super) name: String,
    pub(super) address: Option<String>,
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
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoreNode, A::Error> {
        let (mut name, mut address) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = Some(map.next_value()?),
                "address" => address = Some(map.next_value()?),
                other => return Err(A::Error::unknown_field(other, &["name", "address"])),
            }
        }
        Ok(StoreNode {
            name: name.ok_or_else(|| A::Error::missing_field("name"))?,
            address,
        })
    }
}
