//! The file as it is written, before names are looked up.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::error::{Lines, Mistake};

/// Text that may be wrong, with its place.
pub(super) type Text = Spanned<String>;

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
    #[serde(default, rename = "link")]
    pub(super) links: Vec<Spanned<Link>>,
    #[serde(default, rename = "flow")]
    pub(super) flows: Vec<Flow>,
    #[serde(default, rename = "ping")]
    pub(super) pings: Vec<Ping>,
    pub(super) workload: Option<Workload>,
    #[serde(default, rename = "command")]
    pub(super) commands: Vec<Command>,
}

/// What links and switches are that do not say it themselves.
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
    pub(super) entries: Option<Text>,
    pub(super) service: Option<Text>,
    pub(super) backlog: Option<Spanned<i64>>,
    #[serde(default, rename = "vpdp")]
    pub(super) vpdps: Vec<Spanned<Vpdp>>,
    /// By port.
    #[serde(default)]
    pub(super) share: BTreeMap<String, Text>,
    #[serde(default)]
    pub(super) rules: Vec<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vpdp {
    pub(super) name: Text,
    pub(super) id: Option<Spanned<i64>>,
    pub(super) ports: Vec<Spanned<VirtualPort>>,
    pub(super) program: Text,
    pub(super) entries: Option<Text>,
}

/// What a virtual port is connected to: a port of the switch by its number, or words as `polyplane tenant` has them.
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
    pub(super) gateway: Option<Text>,
    #[serde(default)]
    pub(super) neighbours: BTreeMap<String, Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub(super) ends: [Text; 2],
    pub(super) rate: Option<Text>,
    pub(super) delay: Option<Text>,
    pub(super) loss: Option<Spanned<f64>>,
    pub(super) queue: Option<Spanned<i64>>,
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

/// Reads the text's form.
pub(super) fn parse(text: &str) -> Result<File, Mistake> {
    toml::from_str(text).map_err(|error| Mistake {
        line: Lines::of(text).of_byte(error.span().map_or(0, |span| span.start)),
        message: error.message().trim_end().to_owned(),
        mend: "docs/FABRIC.md shows what a topology file may say".to_owned(),
    })
}
