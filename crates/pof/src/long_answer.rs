//! Answers that may be long: they are sent in parts, as fast as the controller reads.

use packet::Nanos;

use crate::forwarder::Forwarder;
use crate::objects::{ObjectKey, flow_message, group_message, meter_message, table_message};
use crate::tables::{Entry, TableNumber};
use crate::wire::{Body, Counter, CounterCommand, FlowStats, Stats, StatsReply, StatsRequest};

/// Maximum number of entries in one part of their statistics.
const FLOWS_IN_PART: usize = 28;
/// Maximum number of entries that are looked at for one part, so that other work waits no longer.
const LOOKED_AT_FOR_PART: usize = 4_096;
/// Maximum number of objects in one part of the answer to QUERYALL.
const OBJECTS_IN_PART: usize = 32;

/// Rest of an answer. Objects that go meanwhile are left out, and those that come are not in it.
#[derive(Debug)]
pub(crate) struct LongAnswer {
    /// Number of the request.
    pub(crate) xid: u32,
    left: std::vec::IntoIter<ObjectKey>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All objects.
    Objects,
    /// Statistics of the entries with these bits in their cookie.
    Flows { cookie: u64, cookie_mask: u64 },
}

impl LongAnswer {
    /// Begins the answer to QUERYALL: all objects as answers to queries, and the end of them.
    pub(crate) fn objects(xid: u32, switch: &Forwarder) -> LongAnswer {
        LongAnswer {
            xid,
            left: ObjectKey::all(switch.tables()).into_iter(),
            kind: Kind::Objects,
        }
    }

    /// Begins the statistics of the entries of a table, or of all.
    pub(crate) fn flows(
        xid: u32,
        wanted: u8,
        (cookie, cookie_mask): (u64, u64),
        switch: &Forwarder,
    ) -> LongAnswer {
        let tables = switch.tables().tables();
        let is_wanted =
            |number: TableNumber| wanted == StatsRequest::ALL || number == TableNumber(wanted);
        let tables = tables.filter(|(number, _)| is_wanted(*number));
        let entries = tables.flat_map(|(number, table)| {
            let entry = move |index| ObjectKey::Entry(number, index);
            table.indices().map(entry)
        });
        LongAnswer {
            xid,
            left: entries.collect::<Vec<_>>().into_iter(),
            kind: Kind::Flows {
                cookie,
                cookie_mask,
            },
        }
    }

    /// Returns the messages of the next part; none if no entry that was looked at is wanted.
    /// Nothing is left after the last one, which alone may be without entries.
    pub(crate) fn part(&mut self, switch: &Forwarder) -> Vec<Body> {
        match self.kind {
            Kind::Objects => {
                let part = self.left.by_ref().take(OBJECTS_IN_PART);
                let mut part: Vec<Body> = part.filter_map(|key| reply(key, switch)).collect();
                if self.is_over() {
                    part.push(Body::QueryAllFin);
                }
                part
            }
            Kind::Flows {
                cookie,
                cookie_mask,
            } => {
                let has_cookie = |entry: &Entry| (entry.cookie ^ cookie) & cookie_mask == 0;
                let entry = |key| {
                    let ObjectKey::Entry(number, index) = key else {
                        return None;
                    };
                    let entry = switch.tables().table(number)?.entry(index);
                    flow_stats(switch, number, entry.filter(has_cookie)?)
                };
                let looked_at = self.left.by_ref().take(LOOKED_AT_FOR_PART);
                let part: Vec<_> = looked_at.filter_map(entry).take(FLOWS_IN_PART).collect();
                let has_more = !self.is_over();
                if has_more && part.is_empty() {
                    return Vec::new();
                }
                let stats = Stats::Flows(part);
                vec![Body::MultipartReply(StatsReply { has_more, stats })]
            }
        }
    }

    /// Returns true if nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.left.as_slice().is_empty()
    }
}

/// Returns an object as the answer to a query.
fn reply(key: ObjectKey, switch: &Forwarder) -> Option<Body> {
    let tables = switch.tables();
    Some(match key {
        ObjectKey::Table(number) => Body::TableMod(table_message(tables, number)?),
        ObjectKey::Meter(id) => Body::MeterMod(meter_message(tables, id)?),
        ObjectKey::Group(id) => Body::GroupMod(group_message(tables, id)?),
        ObjectKey::Entry(number, index) => {
            let entry = tables.table(number)?.entry(index)?;
            Body::FlowMod(flow_message(tables, number, entry)?)
        }
        ObjectKey::Counter(id) if tables.has_counter(id) => {
            let count = switch.counter(id);
            Body::CounterReply(Counter {
                command: CounterCommand::QueryResult,
                slot: 0,
                id,
                packets: count.packets,
                bytes: count.bytes,
            })
        }
        ObjectKey::Counter(_) => return None,
    })
}

fn flow_stats(switch: &Forwarder, number: TableNumber, entry: Entry) -> Option<FlowStats> {
    let (count, age) = switch.usage(number, entry.index).unwrap_or_default();
    let (seconds, nanoseconds) = split_seconds(age);
    Some(FlowStats {
        seconds,
        nanoseconds,
        packets: count.packets,
        bytes: count.bytes,
        flow: flow_message(switch.tables(), number, entry)?,
    })
}

/// Returns seconds and nanoseconds.
pub(crate) fn split_seconds(time: Nanos) -> (u32, u32) {
    let seconds = time.0 / 1_000_000_000;
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    (seconds, (time.0 % 1_000_000_000) as u32)
}
