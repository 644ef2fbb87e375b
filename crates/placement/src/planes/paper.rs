//! Policies `paper` and `paper-literal`: the two heuristics of OVS-POF-TC ("Adaptive SmartNIC
//! Offloading for Unleashing the Performance of Protocol-Oblivious Forwarding", section V-B).
//!
//! As printed, algorithm 1 offloads all flows (line 15, and line 32) although they may be more than
//! the NIC has places, and algorithm 2 removes flows that the NIC does not have (lines 16 and 17)
//! and takes all old flows for offloaded ones (line 28). The repaired form offloads heavy flows
//! first and stops when the NIC is full, and counts the flows that are in the NIC.

use super::exact::places;
use super::problem::{PlaneId, Problem};
use super::{PaperCoefficients, Unsupported};
use crate::ItemId;

/// The NIC.
const PLANE: PlaneId = PlaneId(1);

/// Form of the algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// No plane is over-full.
    Repaired,
    /// As printed.
    Literal,
}

/// Flows above a throughput of the kernel, in descending order of their rates.
struct Split {
    /// Flows that the kernel carries: P1 or Q1.
    light: Vec<ItemId>,
    /// Flows that it does not carry: P2 or Q2.
    heavy: Vec<ItemId>,
}

impl Split {
    /// Splits the flows above a throughput. `flows` are in descending order of their rates.
    fn new(problem: &Problem, flows: &[ItemId], throughput: u64) -> Split {
        let above = flows.partition_point(|&flow| problem.load(flow).offered > throughput);
        let is_heavy = |flow: &ItemId| problem.load(*flow).is_heavy();
        let (heavy, light) = flows[..above].iter().copied().partition(is_heavy);
        Split { light, heavy }
    }
}

/// Returns the plane of each item.
pub(crate) fn solve(
    problem: &Problem,
    coefficients: &PaperCoefficients,
    form: Form,
) -> Result<Vec<PlaneId>, Unsupported> {
    let run = Run {
        problem,
        coefficients,
        form,
        places: places(problem)?,
    };
    let (old, new): (Vec<ItemId>, Vec<ItemId>) =
        (problem.item_ids()).partition(|&item| problem.current(item).is_some());
    let offloaded = match old.is_empty() {
        true => run.place(&run.sorted(new), run.places),
        false => run.replace(run.sorted(old), run.sorted(new)),
    };
    let mut planes = vec![PlaneId::HOME; problem.items()];
    for item in offloaded {
        planes[item.index()] = PLANE;
    }
    Ok(planes)
}

/// Run of an algorithm.
struct Run<'a> {
    problem: &'a Problem,
    coefficients: &'a PaperCoefficients,
    form: Form,
    /// Flows that the NIC holds (M^sn).
    places: usize,
}

impl Run<'_> {
    /// Returns the flows in descending order of their rates.
    fn sorted(&self, flows: Vec<ItemId>) -> Vec<ItemId> {
        let mut keys: Vec<(u64, u32)> = (flows.iter())
            .map(|&flow| (!self.problem.load(flow).offered, flow.0))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(_, flow)| ItemId(flow)).collect()
    }

    /// Runs algorithm 1 and returns the flows to offload.
    fn place(&self, flows: &[ItemId], places: usize) -> Vec<ItemId> {
        let PaperCoefficients { n1, n2, .. } = *self.coefficients;
        let mut last = None;
        for &throughput in &self.coefficients.throughputs {
            let split = Split::new(self.problem, flows, throughput);
            let (p1, p2) = (split.light.len(), split.heavy.len());
            if (n2 < p2 && p2 <= places) || (n1 < p1 && p1 <= places) {
                return self.all(flows, &split, places);
            }
            if p2 > places {
                return split.heavy[..places].to_vec();
            }
            if p1 + p2 > places {
                let light = split.light.iter().take(places - p2);
                return split.heavy.iter().chain(light).copied().collect();
            }
            last = Some(split);
        }
        let Some(split) = last else {
            return Vec::new();
        };
        let both = split.light.iter().chain(&split.heavy);
        let saved: i64 = both.map(|&flow| self.saved(flow)).sum();
        if saved > self.problem.costs(PLANE).batch_in as i64 {
            return self.all(flows, &split, places);
        }
        Vec::new()
    }

    /// Returns what a flow gains in the NIC.
    fn saved(&self, flow: ItemId) -> i64 {
        self.problem.gain(flow, PLANE) - self.problem.gain(flow, PlaneId::HOME)
    }

    /// Returns all flows. The repaired form has those that fit, heavy ones first.
    fn all(&self, flows: &[ItemId], split: &Split, places: usize) -> Vec<ItemId> {
        if self.form == Form::Literal || flows.len() <= places {
            return flows.to_vec();
        }
        let rest = &flows[split.light.len() + split.heavy.len()..];
        let (heavy, light): (Vec<ItemId>, Vec<ItemId>) =
            (rest.iter()).partition(|&&flow| self.problem.load(flow).is_heavy());
        let parts = [&split.heavy, &heavy, &split.light, &light];
        let ordered = parts.into_iter().flatten();
        ordered.take(places).copied().collect()
    }

    /// Runs algorithm 2 and returns the flows in the NIC afterwards.
    fn replace(&self, old: Vec<ItemId>, new: Vec<ItemId>) -> Vec<ItemId> {
        let is_repaired = self.form == Form::Repaired;
        let is_offloaded = |flow: &ItemId| self.problem.current(*flow) == Some(PLANE);
        let mut after: Vec<ItemId> = old.iter().copied().filter(is_offloaded).collect();
        if is_repaired {
            after.truncate(self.places);
        }
        for &throughput in &self.coefficients.throughputs {
            if old.len() <= self.places {
                break;
            }
            let mut removed = Split::new(self.problem, &old, throughput).light;
            if is_repaired {
                removed.retain(is_offloaded);
            }
            let entering = Split::new(self.problem, &new, throughput).heavy;
            let n3 = self.coefficients.n3;
            if removed.len() > n3 && entering.len() > n3 {
                let count = removed.len().min(entering.len());
                removed.truncate(count);
                removed.sort_unstable();
                after.retain(|flow| removed.binary_search(flow).is_err());
                after.extend(&entering[..count]);
                if is_repaired {
                    after.truncate(self.places);
                }
                return after;
            }
        }
        if after.is_empty() {
            let all = self.sorted(old.into_iter().chain(new).collect());
            return self.place(&all, self.places);
        }
        let occupied = if is_repaired { after.len() } else { old.len() };
        if occupied < self.places {
            after.extend(self.place(&new, self.places - occupied));
        }
        after
    }
}
