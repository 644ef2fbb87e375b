//! The check of permissions.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use packet::Nanos;
use toml_file::{Quantity, Spanned, Text};

use super::check::{Check, Names};
use super::file;
use super::{ChangeSpec, ElementIndex, EntrySpec, KeyPart, ReflexSpec};
use crate::classify::prefix;
use crate::write::MAX_KEYS;

/// Changes a second by default.
const RATE: u64 = 1000;
/// Most changes a second.
const MAX_RATE: u64 = 1_000_000_000;
/// Entries of a reflex by default.
const ENTRIES: usize = 1024;
/// Least time between two changes of one key by default.
const HOLD: Nanos = Nanos::from_millis(1);
/// Entries of a reflex at most.
const MAX_ENTRIES: usize = 16_384;
/// Burst of a meter by default, in bytes.
const BURST: u64 = 15_000;

/// Fields of a flow.
pub(super) const KEY_PARTS: [(&str, KeyPart); 5] = [
    ("ip.src", KeyPart::Source),
    ("ip.dst", KeyPart::Destination),
    ("ip.protocol", KeyPart::Protocol),
    ("l4.src", KeyPart::SourcePort),
    ("l4.dst", KeyPart::DestinationPort),
];

impl Check {
    pub(super) fn reflex(&mut self, reflex: &file::Reflex, elements: &Names<'_>) -> ReflexSpec {
        ReflexSpec {
            name: reflex.name.get_ref().clone(),
            element: ElementIndex(self.resolve(&reflex.element, elements, "element")),
            change: self.change(reflex),
            line: match &reflex.ports {
                Some(ports) => self.mistakes.line(ports),
                None => self.mistakes.line(&reflex.name),
            },
            rate: self.rate(reflex.rate.as_ref()),
            entries: self.bounded(&reflex.entries, ENTRIES, MAX_ENTRIES),
            hold: self.hold(reflex.hold.as_ref()),
            life: reflex.life.as_ref().map(|life| self.life(life)),
        }
    }

    fn change(&mut self, reflex: &file::Reflex) -> ChangeSpec {
        let objects = [&reflex.table, &reflex.meter, &reflex.register];
        let given = objects.into_iter().flatten().count() + reflex.queue.iter().count();
        if given != 1 {
            let message = match given {
                0 => "the reflex changes nothing".to_owned(),
                _ => "the reflex changes several objects".to_owned(),
            };
            let mend = "give it one of `table`, `meter`, `register` and `queue`";
            self.mistakes.at(&reflex.name, message, mend);
        }
        if reflex.table.is_some() || given == 0 {
            self.refuse(&reflex.cell, "cell", "`meter` or `register`");
            if reflex.meter_rate.is_none() {
                self.refuse(&reflex.burst, "burst", "`meter` or `meter_rate`");
            }
            return ChangeSpec::Entry(self.entry(reflex));
        }
        self.refuse(&reflex.key, "key", "`table`");
        self.refuse(&reflex.prefixes, "prefixes", "`table`");
        self.refuse(&reflex.action, "action", "`table`");
        self.refuse(&reflex.ports, "ports", "`table`");
        self.refuse(&reflex.replace, "replace", "`table`");
        self.refuse(&reflex.meter_rate, "meter_rate", "`table`");
        if let Some(queue) = &reflex.queue {
            self.refuse(&reflex.cell, "cell", "`meter` or `register`");
            self.refuse(&reflex.burst, "burst", "`meter`");
            return ChangeSpec::Queue(self.mistakes.number(&Some(queue.clone()), 0, 0));
        }
        let cell = self.mistakes.number(&reflex.cell, 0, 0u32);
        match (&reflex.meter, &reflex.register) {
            (Some(meter), _) => ChangeSpec::Meter {
                name: meter.get_ref().clone(),
                cell,
                burst: self.burst(reflex.burst.as_ref()),
            },
            (None, register) => {
                self.refuse(&reflex.burst, "burst", "`meter`");
                let register = register.as_ref();
                ChangeSpec::Register {
                    name: register.map_or_else(String::new, |it| it.get_ref().clone()),
                    cell,
                }
            }
        }
    }

    /// Reads the size of a meter's burst.
    fn burst(&mut self, given: Option<&Text>) -> u64 {
        let read = given.and_then(|text| self.mistakes.quantity(text, Quantity::Size));
        let burst = read.unwrap_or(BURST);
        if let (Some(given), 0) = (given, burst) {
            let message = "a meter without a burst lets no packet pass".to_owned();
            let mend = "write the size of a packet or more, as in burst = \"15 KB\"";
            self.mistakes.at(given, message, mend);
        }
        burst
    }

    /// Adds a mistake if a setting is given.
    fn refuse<T>(&mut self, given: &Option<Spanned<T>>, name: &str, of: &str) {
        if let Some(given) = given {
            let message = format!("the reflex has `{name}` without {of}");
            self.mistakes.at(given, message, "remove it");
        }
    }

    fn entry(&mut self, reflex: &file::Reflex) -> EntrySpec {
        let given = reflex.key.as_ref();
        let key = given.into_iter().flat_map(|it| it.get_ref());
        let key = key.filter_map(|part| self.key_part(part));
        let key: Vec<KeyPart> = key.collect();
        let needed = [
            (given.is_none(), "key", "key = [\"ip.src\"]"),
            (reflex.action.is_none(), "action", "action = \"drop\""),
        ];
        for (is_missing, name, example) in needed {
            if let (true, Some(table)) = (is_missing, &reflex.table) {
                let message = format!("the reflex has a table and no `{name}`");
                self.mistakes
                    .at(table, message, format!("add one, as in {example}"));
            }
        }
        if let Some(given) = given
            && (key.len() > MAX_KEYS || given.get_ref().is_empty())
        {
            let message = format!("there are {} keys", given.get_ref().len());
            let mend = format!("name each field of a flow once, at most {MAX_KEYS}");
            self.mistakes.at(given, message, mend);
        }
        let prefixes = reflex.prefixes.iter().flat_map(|it| it.get_ref());
        let prefixes = prefixes.filter_map(|text| self.prefix(text));
        let prefixes: Vec<(Ipv4Addr, u8)> = prefixes.collect();
        if let (Some(given), false) = (&reflex.prefixes, key.contains(&KeyPart::Destination)) {
            let message = "prefixes are of ip.dst, which is no key".to_owned();
            self.mistakes
                .at(given, message, "add \"ip.dst\" to `key`, or remove them");
        }
        let rate = reflex.meter_rate.as_ref();
        let rate = rate.and_then(|text| self.mistakes.quantity(text, Quantity::Rate));
        let meter = rate.map(|rate| (rate / 8, self.burst(reflex.burst.as_ref())));
        let text = |text: &Option<Text>| text.as_ref().map(|it| it.get_ref().clone());
        EntrySpec {
            table: text(&reflex.table).unwrap_or_default(),
            key,
            prefixes,
            action: text(&reflex.action).unwrap_or_default(),
            ports: self.ports(reflex.ports.as_ref()),
            replace: reflex.replace.as_ref().is_some_and(|it| *it.get_ref()),
            meter,
        }
    }

    fn ports(&mut self, given: Option<&Spanned<Vec<Spanned<i64>>>>) -> Vec<u32> {
        let Some(given) = given else {
            return Vec::new();
        };
        let ports = given.get_ref().iter();
        let ports = ports.map(|port| self.mistakes.number(&Some(port.clone()), 0, 0u32));
        let ports: Vec<u32> = ports.collect();
        let distinct: BTreeSet<&u32> = ports.iter().collect();
        if distinct.len() < 2 || distinct.len() < ports.len() {
            let message = "a detour needs two ports, each once".to_owned();
            let mend = "list the ports that a flow may be sent to, as in ports = [3, 4]";
            self.mistakes.at(given, message, mend);
        }
        ports
    }

    /// Reads a prefix without bits after it.
    fn prefix(&mut self, text: &Text) -> Option<(Ipv4Addr, u8)> {
        let read = prefix(text.get_ref());
        let Some((address, length)) = read else {
            let message = format!("\"{}\" is no prefix", text.get_ref());
            self.mistakes
                .at(text, message, "write a prefix, as in \"10.0.2.0/24\"");
            return None;
        };
        let inside = u32::MAX.checked_shr(length.into()).unwrap_or(0);
        if address.to_bits() & inside != 0 {
            let message = format!("\"{}\" has bits after the prefix", text.get_ref());
            let network = Ipv4Addr::from(address.to_bits() & !inside);
            self.mistakes
                .at(text, message, format!("write \"{network}/{length}\""));
        }
        Some((address, length))
    }

    /// Reads a number of changes a second, as in "1000/s".
    fn rate(&mut self, given: Option<&Text>) -> u64 {
        let Some(given) = given else {
            return RATE;
        };
        let number = given.get_ref().strip_suffix("/s");
        let number = number.and_then(|number| number.trim().parse().ok());
        match number {
            Some(rate @ 1..=MAX_RATE) => rate,
            _ => {
                let message = match number {
                    Some(0u64) => "a rate of 0 changes a second allows no change".to_owned(),
                    Some(_) => format!("\"{}\" is too large a rate of changes", given.get_ref()),
                    None => format!("\"{}\" is no rate of changes", given.get_ref()),
                };
                let mend = format!(
                    "write the changes that the reflex may make in a second, from 1 to \
                     {MAX_RATE}, with /s, as in rate = \"1000/s\""
                );
                self.mistakes.at(given, message, mend);
                RATE
            }
        }
    }

    /// Reads the least time between two changes of a place.
    fn hold(&mut self, given: Option<&Text>) -> Nanos {
        let Some(given) = given else {
            return HOLD;
        };
        let hold = Quantity::Time.parse(given.get_ref()).map(Nanos);
        hold.unwrap_or_else(|| {
            let message = format!("\"{}\" is no time between changes", given.get_ref());
            let mend = "write the least time between two changes of one entry or cell, with its \
                        unit (ns, us, ms, s), as in hold = \"1 ms\"";
            self.mistakes.at(given, message, mend);
            HOLD
        })
    }

    /// Reads the time after which a place is restored.
    fn life(&mut self, given: &Text) -> Nanos {
        let life = Quantity::Time.parse(given.get_ref());
        life.filter(|life| *life > 0).map_or_else(
            || {
                let message = format!("\"{}\" is no life of an entry", given.get_ref());
                let mend = "write the time after which the entry is removed, with its unit (ns, \
                            us, ms, s), as in life = \"10 s\"; without `life` it stays";
                self.mistakes.at(given, message, mend);
                HOLD
            },
            Nanos,
        )
    }
}
