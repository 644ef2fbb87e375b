//! Bytes that a plan is expected to send over each link, from the bytes of the mappers.

use std::collections::{BTreeMap, BTreeSet};

use fabric::topology::{NodeId, SwitchId, Topology};
use packet::PortId;

use crate::place::PredictedBytes;
use crate::plan::Plan;

/// Bytes of the mappers' data over a link in one direction, without headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedLink {
    /// The sender.
    pub from: NodeId,
    /// The sender's port.
    pub port: PortId,
    /// The receiver.
    pub to: NodeId,
    /// The bytes.
    pub bytes: PredictedBytes,
}

impl Plan {
    /// Returns the predicted bytes of all links that carry data, sorted by names of their ends.
    pub fn predicted_links(&self, topology: &Topology) -> Vec<PredictedLink> {
        let mut links: BTreeMap<(NodeId, PortId, NodeId), PredictedBytes> = BTreeMap::new();
        for flow in self.reductions.iter().flat_map(|planned| &planned.flows) {
            for link in &flow.links {
                *links.entry(*link).or_default() += flow.bytes;
            }
        }
        let links = links.into_iter();
        let mut links: Vec<PredictedLink> = links
            .map(|((from, port, to), bytes)| PredictedLink {
                from,
                port,
                to,
                bytes,
            })
            .collect();
        let name = |node| topology.name_of(node);
        links.sort_by_key(|link| (name(link.from), name(link.to), link.port));
        links
    }

    /// Returns the reason for a switch of a reduction, by their indices in the plan.
    pub fn reason(&self, topology: &Topology, reduction: usize, switch: usize) -> String {
        let planned = &self.reductions[reduction];
        let own = &planned.switches[switch];
        let name = |switch: SwitchId| topology.switches[switch.0].name.as_str();
        let inputs = own.inputs.iter().map(|node| topology.name_of(*node));
        let inputs = inputs.collect::<BTreeSet<&str>>().into_iter();
        let inputs = shortened(inputs.map(str::to_owned), SHOWN_INPUTS);
        let sum = planned.byte_hops;
        let role = match own.next {
            Some(next) => format!("flows of {inputs} meet before {}", name(next)),
            None => format!("flows of {inputs} meet here last"),
        };
        let others = own.others.iter();
        let others = others.map(|it| format!("{} {}", name(it.switch), amounts(it.byte_hops)));
        let others = shortened(others, SHOWN_OTHERS);
        let full = own.full.iter().map(|switch| name(*switch).to_owned());
        let full = shortened(full, SHOWN_OTHERS);
        let mut parts = vec![role];
        if let Some(without) = own.without {
            parts.push(format!("{} without it", amounts(without)));
        }
        match (own.others.is_empty(), own.full.is_empty()) {
            (true, true) => parts.push("no other switch could be in its place".to_owned()),
            (true, false) => parts.push(format!("no room in {full}")),
            (false, is_alone) => {
                parts.push(format!("{} with it, in its place {others}", amounts(sum)));
                if !is_alone {
                    parts.push(format!("no room in {full}"));
                }
            }
        }
        parts.join("; ")
    }
}

/// Names and other switches that a reason shows.
const SHOWN_INPUTS: usize = 4;
const SHOWN_OTHERS: usize = 3;

/// Formats bytes times hops of a reduction.
fn amounts(sum: PredictedBytes) -> String {
    match sum.least == sum.most {
        true => sum.most.to_string(),
        false => format!("{} to {}", sum.least, sum.most),
    }
}

/// Joins some items, with the number of further ones.
fn shortened(items: impl Iterator<Item = String>, shown: usize) -> String {
    let items: Vec<String> = items.collect();
    let mut text = items[..items.len().min(shown)].join(", ");
    if items.len() > shown {
        text += &format!(" and {} more", items.len() - shown);
    }
    text
}
