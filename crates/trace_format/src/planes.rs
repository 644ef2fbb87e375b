//! The planes of a packet through a split program: where it leaves the switch and where it resumes.

use std::collections::{BTreeMap, BTreeSet};

use super::PacketTrace;
use super::step::Step;

/// Function of the extern call that calls a handler.
const REMOTE: &str = "remote";

/// The cuts of a split program, by the names of its stages.
#[derive(Clone, Debug, Default)]
pub struct Planes {
    /// Stages at which packets leave the switch: number and name of the table or handler.
    pub cuts: BTreeMap<String, (usize, String)>,
    /// Stages that servers run.
    pub server_stages: BTreeSet<String>,
    /// Stages of which the switch runs the action that a server selects.
    pub captured: BTreeSet<String>,
}

impl PacketTrace {
    /// Adds where the packet leaves the switch and where it resumes, if the switch holds no entry
    /// of a mirrored table.
    pub fn over_planes(mut self, planes: &Planes) -> PacketTrace {
        let mut steps = Vec::with_capacity(self.steps.len());
        let mut is_at_server = false;
        let mut stage = String::new();
        let resumes = |place: &str| Step::Plane {
            plane: "switch",
            text: format!("the packet comes back and resumes in the switch at {place}"),
        };
        for step in std::mem::take(&mut self.steps) {
            match &step {
                Step::Stage { stage: name, .. } => {
                    stage.clone_from(name);
                    if is_at_server && !planes.server_stages.contains(name) {
                        is_at_server = false;
                        steps.push(resumes(name));
                    }
                    if let (false, Some((number, cut))) = (is_at_server, planes.cuts.get(name)) {
                        is_at_server = true;
                        steps.push(Step::Plane {
                            plane: "server",
                            text: format!(
                                "cut {number}: the packet leaves the switch for a server, at {cut}"
                            ),
                        });
                    }
                }
                Step::Action { .. } if is_at_server && planes.captured.contains(&stage) => {
                    is_at_server = false;
                    steps.push(resumes(&format!("the action of {stage}")));
                }
                Step::Block { .. }
                | Step::Queued { .. }
                | Step::Dropped { .. }
                | Step::Copied { .. }
                    if is_at_server =>
                {
                    is_at_server = false;
                    steps.push(resumes("the end of ingress"));
                }
                _ => {}
            }
            steps.push(step);
        }
        self.steps = steps;
        self
    }

    /// Adds the entries that handlers have inserted, changed or deleted, after the last call of a
    /// handler: a word and the entry for each.
    pub fn with_learned(mut self, entries: Vec<(&'static str, String)>) -> PacketTrace {
        let is_call =
            |step: &Step| matches!(step, Step::Call { function, .. } if *function == REMOTE);
        let last = self.steps.iter().rposition(is_call);
        let at = last.map_or(self.steps.len(), |at| at + 1);
        let learned = entries
            .into_iter()
            .map(|(change, entry)| Step::Learned { change, entry });
        self.steps.splice(at..at, learned);
        self
    }
}
