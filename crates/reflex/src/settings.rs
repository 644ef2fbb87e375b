//! Settings: thresholds of monitors, limits of permissions, and links of the topology, which the
//! store has and which change while the plane runs.
//!
//! The loop file has the first values. A setting in the store overrides the file's, at each plane
//! one heartbeat after its node applied it.

use std::fmt;

use consensus::{Key, StoredValue};
use fabric::Topology;
use fabric::topology::{End, NodeId};
use packet::Nanos;
use support::rng::mix;
use toml_file::Quantity;

use crate::loops::{Loops, MonitorIndex, MonitorKind, ReflexIndex};
use crate::monitor::instances::most_instances;

/// Bytes of a setting's value at most.
pub const MAX_SETTING: usize = 64;

/// A value of a monitor that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threshold {
    /// Latency above the average, or bytes in a queue.
    Above,
    /// Peers of a host.
    Peers,
    /// Bytes a second of all edges.
    Limit,
    /// Part of a queue, in thousandths.
    Share,
    /// Time in a queue.
    Objective,
    /// Least room of a queue.
    Least,
    /// Most room of a queue.
    Most,
}

/// A limit of a permission that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionLimit {
    /// Changes a second.
    Rate,
    /// Entries.
    Entries,
    /// Least time between two changes of a place.
    Hold,
    /// Time after which a place is restored.
    Life,
}

/// Object of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingTarget {
    Monitor(MonitorIndex, Threshold),
    /// Number of a monitor's instances, which grows only.
    Instances(MonitorIndex),
    Reflex(ReflexIndex, PermissionLimit),
    /// Use of a link of the topology, by its place in the list.
    Link(usize),
}

/// Form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Time,
    Size,
    /// Bits a second, kept as bytes.
    BitRate,
    /// Changes a second.
    ChangeRate,
    /// A whole number between two.
    Number(u64, u64),
    /// A number up to 100, kept as thousandths.
    Percent,
    /// `up` or `down`.
    LinkState,
}

impl Form {
    fn parse(self, text: &str) -> Option<u64> {
        match self {
            Form::Time => Quantity::Time.parse(text).filter(|time| *time > 0),
            Form::Size => Quantity::Size.parse(text),
            Form::BitRate => {
                let bytes = Quantity::Rate.parse(text).map(|bits| bits / 8);
                bytes.filter(|bytes| *bytes > 0)
            }
            Form::ChangeRate => {
                let number = text.strip_suffix("/s")?.parse().ok();
                number.filter(|number| (1..=1_000_000).contains(number))
            }
            Form::Number(least, most) => {
                let number = text.parse().ok();
                number.filter(|number| (least..=most).contains(number))
            }
            Form::Percent => {
                let number = text.parse::<u64>().ok().filter(|number| *number <= 100);
                number.map(|number| 10 * number)
            }
            Form::LinkState => match text {
                "up" => Some(1),
                "down" => Some(0),
                _ => None,
            },
        }
    }

    fn mend(self) -> String {
        match self {
            Form::Time => Quantity::Time.form().to_owned(),
            Form::Size => Quantity::Size.form().to_owned(),
            Form::BitRate => Quantity::Rate.form().to_owned(),
            Form::ChangeRate => {
                "write a number of changes a second, up to 1000000, as in \"1000/s\"".to_owned()
            }
            Form::Number(least, most) => format!("write a number from {least} to {most}"),
            Form::Percent => "write a number of percent, up to 100".to_owned(),
            Form::LinkState => "write up or down".to_owned(),
        }
    }
}

/// Error of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// There is no setting of this name; those that there are.
    NoSetting(String, Vec<String>),
    /// The setting has no such value, and what to write.
    NoValue(String, String),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::NoSetting(name, all) => {
                let all = all.join(", ");
                write!(
                    f,
                    "no_setting: there is none of the name \"{name}\"; one of: {all}"
                )
            }
            SettingError::NoValue(value, mend) => {
                write!(
                    f,
                    "no_value: \"{value}\" is no value of this setting; {mend}"
                )
            }
        }
    }
}

impl std::error::Error for SettingError {}

/// A setting with its value in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneSetting {
    /// Its name, as in `monitor/slow paths/above`.
    pub name: String,
    /// Value in the store; `None` is that of the file.
    pub value: Option<String>,
}

/// A known setting.
struct KnownSetting {
    name: String,
    key: Key,
    target: SettingTarget,
    form: Form,
    /// Value of the file.
    default: u64,
    /// Value in the store that is in force.
    stored: Option<StoredValue>,
}

/// All settings of a plane.
#[derive(Default)]
pub(crate) struct Settings {
    all: Vec<KnownSetting>,
    /// Time at which the store is looked at again.
    next_look: Nanos,
}

/// Returns the key of a setting: two bytes that no text has, and 112 bits of a hash of its name.
fn key_of(name: &str) -> Key {
    let hash = |start: u64| {
        let bytes = name.bytes().map(u64::from);
        bytes
            .chain([256])
            .fold(mix(start), |hash, byte| mix(hash ^ byte))
    };
    let mut key = [0xff; 16];
    key[2..8].copy_from_slice(&hash(1).to_le_bytes()[..6]);
    key[8..].copy_from_slice(&hash(2).to_le_bytes());
    key
}

impl Settings {
    pub(crate) fn new(loops: &Loops) -> Settings {
        let mut settings = Settings::default();
        for (at, monitor) in loops.monitors.iter().enumerate() {
            let mut add = |threshold, word: &str, form, default| {
                settings.add(
                    format!("monitor/{}/{word}", monitor.name),
                    SettingTarget::Monitor(MonitorIndex(at), threshold),
                    (form, default),
                );
            };
            match &monitor.kind {
                MonitorKind::PathLatency(spec) => {
                    add(Threshold::Above, "above", Form::Time, spec.above.0);
                }
                MonitorKind::Spreader(spec) => {
                    // Its memory has room for the file's number.
                    let most = spec.limit as u64;
                    add(Threshold::Peers, "peers", Form::Number(1, most), most);
                }
                MonitorKind::RateLimit(spec) => {
                    add(Threshold::Limit, "limit", Form::BitRate, spec.limit);
                }
                MonitorKind::Microburst(spec) => {
                    add(Threshold::Above, "above", Form::Size, spec.above);
                    add(Threshold::Share, "share", Form::Percent, spec.share.into());
                }
                MonitorKind::Tuning(spec) => {
                    let room = Form::Number(1, u32::MAX.into());
                    add(
                        Threshold::Objective,
                        "objective",
                        Form::Time,
                        spec.objective.0,
                    );
                    add(Threshold::Least, "least", room, spec.least.into());
                    add(Threshold::Most, "most", room, spec.most.into());
                }
                MonitorKind::Loops(_) | MonitorKind::Program(_) => {}
            }
            let most = most_instances(&monitor.kind) as u64;
            if most > 1 {
                settings.add(
                    format!("monitor/{}/instances", monitor.name),
                    SettingTarget::Instances(MonitorIndex(at)),
                    (Form::Number(1, most), monitor.instances as u64),
                );
            }
        }
        for (at, reflex) in loops.reflexes.iter().enumerate() {
            let mut add = |limit, word: &str, form, default| {
                settings.add(
                    format!("reflex/{}/{word}", reflex.name),
                    SettingTarget::Reflex(ReflexIndex(at), limit),
                    (form, default),
                );
            };
            let most = Form::Number(0, 1 << 24);
            add(PermissionLimit::Rate, "rate", Form::ChangeRate, reflex.rate);
            add(
                PermissionLimit::Entries,
                "entries",
                most,
                reflex.entries as u64,
            );
            add(PermissionLimit::Hold, "hold", Form::Time, reflex.hold.0);
            if let Some(life) = reflex.life {
                add(PermissionLimit::Life, "life", Form::Time, life.0);
            }
        }
        settings
    }

    /// Adds the links between switches of a topology.
    pub(crate) fn add_links(&mut self, topology: &Topology) {
        self.all
            .retain(|it| !matches!(it.target, SettingTarget::Link(_)));
        for (at, link) in topology.links.iter().enumerate() {
            let is_switch = |end: &End| matches!(end.node, NodeId::Switch(_));
            if link.ends.iter().all(is_switch) {
                let end = topology.end_text(link.ends[0]);
                let target = SettingTarget::Link(at);
                self.add(format!("link/{end}/state"), target, (Form::LinkState, 1));
            }
        }
    }

    fn add(&mut self, name: String, target: SettingTarget, (form, default): (Form, u64)) {
        self.all.push(KnownSetting {
            key: key_of(&name),
            name,
            target,
            form,
            default,
            stored: None,
        });
    }

    /// Returns key and value of a setting as the store has them. `None` is the value of the file.
    pub(crate) fn encode(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<(Key, Option<StoredValue>), SettingError> {
        let Some(known) = self.all.iter().find(|it| it.name == name) else {
            let all = self.all.iter().map(|it| it.name.clone()).collect();
            return Err(SettingError::NoSetting(name.to_owned(), all));
        };
        let Some(value) = value else {
            return Ok((known.key, None));
        };
        let is_value = known.form.parse(value).is_some();
        let stored = StoredValue::new(value.as_bytes()).filter(|_| is_value);
        match stored {
            Some(stored) => Ok((known.key, Some(stored))),
            None => Err(SettingError::NoValue(value.to_owned(), known.form.mend())),
        }
    }

    /// Returns all settings.
    pub(crate) fn all(&self) -> impl Iterator<Item = PlaneSetting> + '_ {
        self.all.iter().map(|known| PlaneSetting {
            name: known.name.clone(),
            value: known
                .stored
                .map(|stored| String::from_utf8_lossy(stored.get()).into_owned()),
        })
    }

    /// Passes each setting with another value than before to `change`, at most once a heartbeat.
    pub(crate) fn look(
        &mut self,
        now: Nanos,
        heartbeat: Nanos,
        read: impl Fn(&Key) -> Option<StoredValue>,
        mut change: impl FnMut(SettingTarget, u64),
    ) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + heartbeat;
        for known in &mut self.all {
            let stored = read(&known.key);
            if stored == known.stored {
                continue;
            }
            known.stored = stored;
            let text = stored
                .as_ref()
                .and_then(|it| std::str::from_utf8(it.get()).ok());
            // What is no value was written by another version: the file's value is in force.
            let value = text.and_then(|text| known.form.parse(text));
            change(known.target, value.unwrap_or(known.default));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_takes_its_values_and_no_other() {
        for (form, good, bad) in [
            (Form::Time, "20 us", "20"),
            (Form::Size, "10 KB", "10 us"),
            (Form::BitRate, "1 Gbit/s", "0 bit/s"),
            (Form::ChangeRate, "1000/s", "0/s"),
            (Form::Number(1, 8), "8", "9"),
            (Form::Percent, "100", "101"),
            (Form::LinkState, "down", "off"),
        ] {
            assert!(form.parse(good).is_some(), "{good}");
            assert_eq!(form.parse(bad), None, "{bad}");
            assert!(form.mend().starts_with("write "));
        }
        assert_eq!(Form::BitRate.parse("8 kbit/s"), Some(1000));
    }

    #[test]
    fn keys_are_reserved_and_differ() {
        let keys = ["a/b/above", "a/b/rate", "a/c/above"].map(key_of);
        assert!(keys.iter().all(consensus::is_reserved));
        assert!(keys[0] != keys[1] && keys[0] != keys[2]);
        // They are no notes of nodes that left.
        assert!(keys.iter().all(|key| &key[2..8] != b"left: "));
    }
}
