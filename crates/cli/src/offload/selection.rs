//! The flows of a report that are shown: options, and the choice by them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use offload_runtime::FlowRow;

/// Number of flows that are shown as text without --limit.
const TEXT_LIMIT: usize = 50;

/// Options that choose flows of a running switch. Those that are given must all hold.
#[derive(Args, Default)]
#[group(id = "Selection")]
pub(super) struct Selection {
    /// Show at most this many flows of each device; 0 shows all [default: 50, or all with --json].
    #[arg(long, value_name = "N", requires = "at")]
    limit: Option<usize>,
    /// Order of the flows, the largest number first; `flow`: the smallest first.
    #[arg(long, value_enum, default_value_t, value_name = "KEY", requires = "at")]
    sort: Order,
    /// Only flows on this plane.
    #[arg(long, value_enum, requires = "at")]
    plane: Option<Plane>,
    /// Only flows in this state. Give one for each state.
    #[arg(long = "state", value_enum, value_name = "STATE", requires = "at")]
    states: Vec<State>,
    /// Only flows that look up this table, by its name or the last part of it.
    #[arg(long, value_name = "TABLE", requires = "at")]
    table: Option<String>,
    /// Only flows with these words in the reason why they are not in hardware.
    #[arg(long, value_name = "TEXT", requires = "at")]
    reason: Option<String>,
    /// Only flows of at least this many packets a second.
    #[arg(long, value_name = "PPS", default_value_t = 0, requires = "at")]
    min_rate: u64,
}

/// Order of flows.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Order {
    /// Packets a second.
    #[default]
    Rate,
    /// Packets in the NIC.
    Nic,
    /// Packets in software.
    Software,
    /// Gain in the NIC.
    Gain,
    /// Number of the flow, the smallest first.
    Flow,
}

/// A plane.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Plane {
    /// The NIC has the flow's packets.
    Nic,
    /// The switch has them.
    Software,
}

/// State of a flow.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// No decision has put it into the NIC.
    Software,
    /// It waits for room.
    Wanted,
    /// Its rule is being added.
    Adding,
    /// The NIC has its rule.
    InHw,
    /// The rule was taken, but not by hardware.
    NotInHw,
    /// The rule was refused.
    Refused,
    /// The NIC dropped the rule.
    Evicted,
    /// The rule was removed by others.
    Lost,
}

/// Returns true if a flow looks up the table of this name, or of this last part of it.
fn looks_up(flow: &FlowRow, wanted: &str) -> bool {
    let mut tables = flow.tables.iter();
    tables.any(|table| table == wanted || table.rsplit('.').next() == Some(wanted))
}

/// Returns the word for a value in reports.
fn word<V: ValueEnum>(value: &V) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Selection {
    /// Returns a line with the tables that there are, if no flow looks up the one that is wanted.
    fn unknown_table(&self, flows: &[FlowRow]) -> Option<String> {
        let wanted = self.table.as_ref()?;
        if flows.iter().any(|flow| looks_up(flow, wanted)) {
            return None;
        }
        let there: BTreeSet<&str> = flows
            .iter()
            .flat_map(|flow| flow.tables.iter().map(String::as_str))
            .collect();
        let there: Vec<&str> = there.into_iter().collect();
        Some(match there.is_empty() {
            true => format!("no flow looks up a table '{wanted}', or any other"),
            false => format!(
                "no flow looks up a table '{wanted}'; flows look up {}",
                there.join(", ")
            ),
        })
    }

    fn has(&self, flow: &FlowRow) -> bool {
        let is_reason = |text: &String| {
            let reason = flow.reason.as_ref();
            reason.is_some_and(|reason| reason.contains(text.as_str()))
        };
        flow.rate >= self.min_rate
            && self.plane.is_none_or(|plane| word(&plane) == flow.plane)
            && (self.states.is_empty() || self.states.iter().any(|one| word(one) == flow.state))
            && self
                .table
                .as_ref()
                .is_none_or(|wanted| looks_up(flow, wanted))
            && self.reason.as_ref().is_none_or(is_reason)
    }

    /// Leaves the flows that are chosen, in order. Returns a line about those that are left out, if
    /// there are any.
    pub(super) fn choose(&self, flows: &mut Vec<FlowRow>, is_text: bool) -> Option<String> {
        let all = flows.len();
        let unknown = self.unknown_table(flows);
        flows.retain(|flow| self.has(flow));
        let key = |flow: &FlowRow| match self.sort {
            Order::Rate => i128::from(flow.rate),
            Order::Nic => i128::from(flow.nic_packets),
            Order::Software => i128::from(flow.software_packets),
            Order::Gain => i128::from(flow.gain),
            Order::Flow => -i128::from(flow.flow),
        };
        flows.sort_by_key(|flow| (Reverse(key(flow)), flow.flow));
        let fitting = flows.len();
        let limit = match self.limit {
            Some(0) => usize::MAX,
            Some(limit) => limit,
            None if is_text => TEXT_LIMIT,
            None => usize::MAX,
        };
        flows.truncate(limit);
        if unknown.is_some() {
            return unknown;
        }
        match (fitting < all, flows.len() < fitting) {
            (_, true) => Some(format!(
                "{} of {fitting} flows are shown; --limit 0 shows all",
                flows.len()
            )),
            (true, false) => Some(format!("{fitting} of {all} flows are chosen")),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u64, rate: u64, state: &str, table: &str, reason: Option<&str>) -> FlowRow {
        FlowRow {
            flow: number,
            matched: String::new(),
            outputs: Vec::new(),
            plane: if state == "in_hw" { "nic" } else { "software" }.to_owned(),
            state: state.to_owned(),
            rate,
            software_packets: 100 - rate,
            nic_packets: 0,
            gain: 0,
            wanted: None,
            tables: vec![table.to_owned()],
            reason: reason.map(str::to_owned),
        }
    }

    fn chosen(selection: &Selection, is_text: bool) -> (Vec<u64>, Option<String>) {
        let mut flows = vec![
            flow(1, 10, "in_hw", "In.routes", None),
            flow(2, 30, "refused", "In.acl", Some("no room for keys")),
            flow(3, 20, "software", "In.routes", Some("it is new")),
        ];
        let line = selection.choose(&mut flows, is_text);
        (flows.iter().map(|flow| flow.flow).collect(), line)
    }

    #[test]
    fn all_conditions_hold_and_what_is_left_out_is_said() {
        let none = Selection::default;
        assert_eq!(chosen(&none(), true), (vec![2, 3, 1], None));
        let by_table = Selection {
            table: Some("routes".to_owned()),
            sort: Order::Software,
            ..none()
        };
        let line = Some("2 of 3 flows are chosen".to_owned());
        assert_eq!(chosen(&by_table, true), (vec![1, 3], line));
        let by_no_table = Selection {
            table: Some("route".to_owned()),
            ..none()
        };
        let line = "no flow looks up a table 'route'; flows look up In.acl, In.routes";
        assert_eq!(chosen(&by_no_table, true), (vec![], Some(line.to_owned())));
        let by_state = Selection {
            states: vec![State::InHw, State::Refused],
            limit: Some(1),
            ..none()
        };
        let (flows, line) = chosen(&by_state, false);
        assert_eq!(flows, [2]);
        assert!(line.unwrap().starts_with("1 of 2 flows"));
        let by_words = Selection {
            reason: Some("room".to_owned()),
            plane: Some(Plane::Software),
            min_rate: 30,
            ..none()
        };
        assert_eq!(chosen(&by_words, true).0, [2]);
        let none_left = Selection {
            plane: Some(Plane::Nic),
            min_rate: 11,
            ..none()
        };
        assert_eq!(chosen(&none_left, true).0, [0; 0]);
    }
}
