//! The loop file as written, before names are resolved.

use serde::Deserialize;
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
    /// The switch of the topology; the element's own name if it is not given.
    pub(super) device: Option<Text>,
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
    pub(super) nodes: Spanned<Vec<Text>>,
    pub(super) ack: Option<Text>,
}
