//! An index of flows by what they compare, to find the flow of a frame among many.

use std::collections::{BTreeSet, HashMap};

use packet::PortId;

use crate::flow::Flow;

/// Ranges of bytes with their masks: what a flow compares.
type Shape = Vec<(u32, Vec<u8>)>;

/// Ingress port and bytes that flows of a shape require.
type Values = (PortId, Vec<u8>);

/// An index of flows. Keys are the caller's.
///
/// A search takes time in the number of different shapes, and not in that of flows.
#[derive(Debug)]
pub struct FlowIndex<K> {
    by_shape: HashMap<Shape, HashMap<Values, BTreeSet<K>>>,
}

impl<K> Default for FlowIndex<K> {
    fn default() -> FlowIndex<K> {
        FlowIndex {
            by_shape: HashMap::new(),
        }
    }
}

fn shape_of(flow: &Flow) -> Shape {
    let matched = flow.matched.iter();
    matched
        .map(|bits| (bits.offset, bits.mask.clone()))
        .collect()
}

fn values_of(flow: &Flow) -> Values {
    let values = flow.matched.iter().flat_map(|bits| &bits.value);
    (flow.ingress, values.copied().collect())
}

/// Returns the values of a frame that flows of this shape compare.
fn masked(shape: &Shape, frame: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    for (offset, mask) in shape {
        let bytes = frame.get(*offset as usize..)?.get(..mask.len())?;
        values.extend(bytes.iter().zip(mask).map(|(byte, mask)| byte & mask));
    }
    Some(values)
}

impl<K: Copy + Ord> FlowIndex<K> {
    /// Adds a flow.
    pub fn insert(&mut self, flow: &Flow, key: K) {
        let flows = self.by_shape.entry(shape_of(flow)).or_default();
        flows.entry(values_of(flow)).or_default().insert(key);
    }

    /// Removes a flow.
    pub fn remove(&mut self, flow: &Flow, key: K) {
        let (shape, values) = (shape_of(flow), values_of(flow));
        let Some(flows) = self.by_shape.get_mut(&shape) else {
            return;
        };
        if let Some(keys) = flows.get_mut(&values) {
            keys.remove(&key);
            if keys.is_empty() {
                flows.remove(&values);
            }
        }
        if flows.is_empty() {
            self.by_shape.remove(&shape);
        }
    }

    /// Returns the flows of which the bits are those of a frame. Its length is not compared.
    pub fn candidates(&self, ingress: PortId, frame: &[u8]) -> impl Iterator<Item = K> {
        let of_shape = self.by_shape.iter().filter_map(move |(shape, flows)| {
            let values = masked(shape, frame)?;
            flows.get(&(ingress, values))
        });
        of_shape.flatten().copied()
    }

    /// Returns the flows that compare the same bits with the same values.
    pub fn with_match_of(&self, flow: &Flow) -> impl Iterator<Item = K> {
        let flows = self.by_shape.get(&shape_of(flow));
        let keys = flows.and_then(|flows| flows.get(&values_of(flow)));
        keys.into_iter().flatten().copied()
    }
}
