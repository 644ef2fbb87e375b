//! The decision: which flows the target should have.

use std::collections::BTreeSet;
use std::time::Duration;

use packet::Nanos;
use placement::planes::{
    ItemSpec, LimitedPlane, Load, MoveCosts, PlaneId, ProblemBuilder, SolveOptions,
};

use super::known::{FlowId, Known};
use super::{FlowState, Offloader, OffloaderOptions, Override};

/// Gain of a flow that must be in the target. Rates are far below it.
const ALWAYS: i64 = 1 << 40;

/// Flows that the target should have, of those that can be in it.
pub(super) struct Choice {
    pub(super) wanted: BTreeSet<FlowId>,
    /// Reason for which nothing was decided.
    pub(super) error: Option<String>,
}

impl Offloader {
    /// Decides which flows the target should have. `most` is its number of rules.
    pub(super) fn choose(&self, now: Nanos, most: u32) -> Choice {
        let options = &self.options;
        let candidates: Vec<(FlowId, &Known)> = self
            .known
            .iter()
            .filter(|(id, known)| self.may_be_offloaded(*id, known, now))
            .collect();
        let plane = LimitedPlane {
            name: "target".to_owned(),
            capacity: vec![most.into()],
            costs: MoveCosts {
                items_per_second: options.moves_a_second,
                ..MoveCosts::default()
            },
        };
        let mut problem = ProblemBuilder::new(1, vec![plane]);
        problem.period(Duration::from_nanos(options.period.0));
        problem.reserve(candidates.len());
        for (id, known) in &candidates {
            let is_there = known.state.is_in_target();
            problem.add(ItemSpec {
                weights: &[1],
                gains: &[0, self.gain(*id, known)],
                current: Some(if is_there { PlaneId(1) } else { PlaneId::HOME }),
                load: Load {
                    offered: known.rate,
                    home_limit: options.home_limit,
                },
                cover: None,
            });
        }
        let solve = || -> Result<Vec<PlaneId>, String> {
            let problem = problem.build().map_err(|error| error.to_string())?;
            let options = SolveOptions {
                seed: now.0,
                ..SolveOptions::default()
            };
            let solution = self.options.policy.solve(&problem, &options);
            Ok(solution.map_err(|error| error.to_string())?.planes)
        };
        let stay = |known: &Known| known.state.is_in_target();
        match solve() {
            Ok(planes) => {
                let chosen = candidates.iter().zip(planes);
                let chosen = chosen.filter(|(_, plane)| *plane != PlaneId::HOME);
                Choice {
                    wanted: chosen.map(|((id, _), _)| *id).collect(),
                    error: None,
                }
            }
            Err(error) => Choice {
                wanted: candidates
                    .iter()
                    .filter(|(_, known)| stay(known))
                    .map(|(id, _)| *id)
                    .collect(),
                error: Some(error),
            },
        }
    }

    fn may_be_offloaded(&self, id: FlowId, known: &Known, now: Nanos) -> bool {
        let is_new = !known.state.is_in_target();
        let is_refused = is_new && now < known.not_before;
        let is_slow = is_new && known.rate < self.options.least_rate;
        match self.override_of(id) {
            Some(Override::Never) => false,
            Some(Override::Always) => !is_refused,
            None => !is_refused && !is_slow,
        }
    }

    /// Returns what it is worth to have a flow in the target.
    fn gain(&self, id: FlowId, known: &Known) -> i64 {
        match self.override_of(id) {
            Some(Override::Always) => ALWAYS,
            _ => self.gain_by_rate(known),
        }
    }

    /// Returns what it is worth without a choice of the owner. A flow that is in the target is
    /// worth more, so that two flows of like rates do not take turns.
    pub(super) fn gain_by_rate(&self, known: &Known) -> i64 {
        let OffloaderOptions { hysteresis, .. } = self.options;
        let rate = i64::try_from(known.rate)
            .unwrap_or(i64::MAX)
            .min(ALWAYS / 4);
        let kept = match known.state {
            FlowState::InHardware | FlowState::Adding => rate * i64::from(hysteresis) / 100 + 1,
            _ => 0,
        };
        rate + kept
    }
}
