//! Bytes that a plan is expected to send over each link, from the bytes of the mappers.

use std::collections::BTreeMap;

use fabric::topology::{NodeId, SwitchId, Topology};

use crate::plan::{Graph, Plan};

/// Bytes of the mappers' data over a link in one direction, without headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictedLink {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// Bytes if all mappers have the same keys and all fit into the switches.
    pub least: u64,
    /// Bytes if no two mappers have the same key.
    pub most: u64,
}

impl Plan {
    /// Returns the predicted bytes of all links that carry data, sorted by names of their ends.
    pub fn predicted_links(&self, topology: &Topology) -> Vec<PredictedLink> {
        let graph = Graph::new(topology);
        let mut links: BTreeMap<(NodeId, NodeId), (u64, u64)> = BTreeMap::new();
        for planned in &self.reductions {
            let request = &planned.request;
            let reducer = NodeId::Host(request.reducer);
            let tree = graph.tree(reducer);
            let reduces = |node: NodeId| {
                let mut switches = planned.switches.iter();
                switches.any(|planned| NodeId::Switch(planned.switch) == node)
            };
            // What each node sends on, by its inputs; those farthest from the reducer first.
            let mut inputs: BTreeMap<NodeId, Vec<(u64, u64)>> = BTreeMap::new();
            let mut add = |from: NodeId, to: NodeId, amount: (u64, u64)| {
                let link = links.entry((from, to)).or_default();
                *link = (link.0 + amount.0, link.1 + amount.1);
            };
            for (host, bytes) in &request.mappers {
                let host = NodeId::Host(*host);
                let mut first = host;
                if host == reducer
                    && let Some(path) = graph.path((host, host), &tree)
                    && let Some(switch) = path.first()
                {
                    first = NodeId::Switch(*switch);
                    add(host, first, (*bytes, *bytes));
                }
                inputs.entry(first).or_default().push((*bytes, *bytes));
            }
            let mut nodes: Vec<NodeId> = tree.keys().copied().collect();
            nodes.sort_by_key(|node| (std::cmp::Reverse(tree[node].2), *node));
            for node in nodes {
                let Some(amounts) = inputs.remove(&node) else {
                    continue;
                };
                let least = amounts.iter().map(|(least, _)| *least);
                let least = match reduces(node) {
                    true => least.max().unwrap_or(0),
                    false => least.sum(),
                };
                let amount = (least, amounts.iter().map(|(_, most)| most).sum());
                let (_, next, _) = tree[&node];
                add(node, next, amount);
                inputs.entry(next).or_default().push(amount);
            }
        }
        let links = links.into_iter();
        let mut links: Vec<PredictedLink> = links
            .map(|((from, to), (least, most))| PredictedLink {
                from,
                to,
                least,
                most,
            })
            .collect();
        links.sort_by_key(|link| (topology.name_of(link.from), topology.name_of(link.to)));
        links
    }

    /// Returns the reason for a switch of a reduction, by the index of the reduction.
    pub fn reason(&self, topology: &Topology, reduction: usize, switch: SwitchId) -> String {
        let planned = &self.reductions[reduction];
        let name = |switch: SwitchId| topology.switches[switch.0].name.as_str();
        let mut candidates = planned.candidates.iter();
        if planned.candidates.first().map(|c| c.switch) != Some(switch) {
            return format!(
                "flows meet before {}",
                candidates.next().map_or("it", |first| name(first.switch))
            );
        }
        let others: Vec<String> = candidates
            .skip(1)
            .map(|other| format!("{} {}", name(other.switch), other.cost))
            .collect();
        let cost = planned.cost;
        match others.is_empty() {
            true => format!("{cost} bytes times hops; no other switch on the paths has room"),
            false => format!(
                "{cost} bytes times hops, the least; others: {}",
                others.join(", ")
            ),
        }
    }
}
