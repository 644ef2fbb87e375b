//! Faults of links and nodes in a simulation.

use packet::Nanos;

use super::{Event, FabricError, LineId, Pause, Simulation};
use crate::topology::{FaultKind, NodeId};

impl Simulation {
    pub(super) fn set_fault(&mut self, number: usize, begins: bool) -> Result<(), FabricError> {
        let fault = &self.topology.faults[number];
        match &fault.kind {
            FaultKind::Clock { node, ahead, drift } => {
                let (ahead, drift) = match begins {
                    true => (*ahead, *drift),
                    false => (Nanos::ZERO, 0),
                };
                let (now, node) = (self.now, *node);
                if !self.node(node).has_clock() {
                    let name = self.topology.name_of(node).to_owned();
                    return Err(FabricError::NoClock { name });
                }
                let changes = self.clock_changes.entry(node).or_default();
                changes.push((now, ahead, drift));
                self.node(node).set_clock(now, ahead, drift);
                // What is due by the new time is due now.
                self.wake(node)?;
            }
            FaultKind::Link { link, from, during } => {
                let spec = match begins {
                    true => during,
                    false => &self.topology.links[*link].spec,
                };
                // Each link is laid in both directions, that of its first end first.
                let lines = self.wires.lines[2 * link..][..2].iter_mut().enumerate();
                for (_, line) in lines.filter(|(at, _)| from.is_none_or(|from| from == *at)) {
                    line.line.set(spec);
                }
            }
            FaultKind::Crash(node, _) if begins => {
                let node = *node;
                // What is due by now is done.
                self.wake(node)?;
                self.node(node).crash();
                self.crashed.insert(node, self.now);
            }
            FaultKind::Crash(node, disk) => {
                let (node, disk, now) = (*node, *disk, self.now);
                let restarted = self.node(node).restart(disk, now);
                restarted.map_err(|why| FabricError::Restart {
                    name: self.topology.name_of(node).to_owned(),
                    why,
                })?;
                if let Some(since) = self.crashed.remove(&node) {
                    // It does nothing at times at which it was down.
                    self.node(node).resume(since, now);
                }
                self.wakes.remove(&node);
                self.wake(node)?;
            }
            FaultKind::Pause(node) if begins => {
                // A pause without an end: after all events.
                let until = fault.until.unwrap_or(Nanos(u64::MAX));
                let (node, since) = (*node, self.now);
                // What is due by now is done.
                self.wake(node)?;
                self.paused.insert(node, Pause { since, until });
            }
            FaultKind::Pause(node) => {
                let (node, now) = (*node, self.now);
                if let Some(Pause { since, .. }) = self.paused.remove(&node) {
                    self.node(node).resume(since, now);
                    self.schedule(node);
                }
            }
        }
        Ok(())
    }

    /// Returns the end of the pause of the node that a link direction leads to.
    pub(super) fn pause_of(&self, line: LineId) -> Option<Nanos> {
        let pause = self.paused.get(&self.wires.lines[line.0].to.node);
        pause.map(|pause| pause.until)
    }

    /// Returns true if a link direction leads to a node that crashed.
    pub(super) fn is_crashed(&self, line: LineId) -> bool {
        self.crashed.contains_key(&self.wires.lines[line.0].to.node)
    }

    /// Loses a frame that arrives at a node that crashed.
    pub(super) fn lose(&mut self, id: LineId) {
        self.moment.coming = self.moment.coming.saturating_sub(1);
        let laid = &mut self.wires.lines[id.0];
        let Some(frame) = laid.line.take() else {
            return;
        };
        *self.unreceived.entry(laid.to.node).or_default() += 1;
        self.wires.frames += 1;
        self.wires.pool.put(frame);
    }

    /// Lets a frame arrive after the pause of its node. Frames stay in order.
    pub(super) fn defer(&mut self, line: LineId) {
        self.moment.coming = self.moment.coming.saturating_sub(1);
        if let Some(until) = self.pause_of(line) {
            self.wires.events.push(until, Event::Arrival(line, 0));
        }
    }

    /// Lets a node do after its pause what is due now.
    pub(super) fn defer_wake(&mut self, node: NodeId, now: Nanos) {
        if self.wakes.get(&node) == Some(&now)
            && let Some(Pause { until, .. }) = self.paused.get(&node).copied()
        {
            self.wakes.insert(node, until);
            self.wires.events.push(until, Event::Wake(node));
        }
    }
}
