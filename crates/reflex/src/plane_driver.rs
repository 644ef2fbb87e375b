//! A plane with its elements: commands and answers take their time.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use consensus::{Admission, ElementChange, Fence, Term};
use packet::Nanos;

use crate::decision::DecisionRefusal;
use crate::element::{ElementAnswer, ElementCounts, WriteResult};
use crate::loops::{ElementIndex, SourceIndex};
use crate::plane::{ElementCommand, ElementUpdate, ReflexPlane};

/// An element as commands reach it.
pub trait CommandTarget {
    /// Takes a command of the leader of a term. `None` if the answer comes later, by
    /// [`CommandTarget::next_answer`].
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer>;

    /// Returns an answer that came later.
    fn next_answer(&mut self) -> Option<ElementAnswer> {
        None
    }

    /// Takes the notice that a leader of this process begins to send commands.
    fn lead(&mut self, term: Term) {
        let _ = term;
    }

    /// Takes the notice that it has all changes of the store, after [`ElementAnswer::Restarted`].
    fn settled(&mut self) {}

    /// Returns an update of a controller, to be requested at the store. It comes back as a command,
    /// or by [`CommandTarget::refuse_update`].
    fn next_update(&mut self) -> Option<ElementUpdate> {
        None
    }

    /// Takes the notice that the store did not take the update with this number.
    fn refuse_update(&mut self, token: u64, refusal: DecisionRefusal) {
        let _ = (token, refusal);
    }

    /// Gives its managed tables back, at the end of the plane.
    fn release(&mut self) {}

    /// Returns whether commands reach it now.
    fn is_connected(&self) -> bool {
        true
    }

    /// Returns its counts.
    fn counts(&self) -> ElementCounts;

    /// Returns the keys of each permission's table with the fields that they get, in words. Empty
    /// if its program is not known.
    fn keys(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the words of its last refusal.
    fn last_refusal(&self) -> Option<String> {
        None
    }
}

/// An element without a switch, which takes each change: for replays.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptingElement {
    fence: Fence,
    counts: ElementCounts,
}

impl CommandTarget for AcceptingElement {
    fn take(&mut self, term: Term, change: &ElementChange) -> Option<ElementAnswer> {
        let admission = self.fence.admit(term, change.previous, change.index);
        self.counts.count(admission);
        self.counts.applied += u64::from(admission == Admission::Apply);
        let answer = ElementAnswer::of(admission, change, WriteResult::Applied);
        Some(answer)
    }

    fn counts(&self) -> ElementCounts {
        self.counts
    }
}

/// An element, with the commands and answers on their way.
struct Attached {
    target: Box<dyn CommandTarget>,
    delay: Nanos,
    commands: VecDeque<(Nanos, ElementCommand)>,
    answers: VecDeque<(Nanos, ElementAnswer)>,
    /// It gets all changes again.
    is_restarted: bool,
}

/// A plane with its elements. It has no thread and no clock.
pub struct PlaneDriver {
    plane: ReflexPlane,
    elements: Vec<Attached>,
}

impl PlaneDriver {
    /// Joins a plane with its elements, in the order of the loop file.
    pub fn new(plane: ReflexPlane, elements: Vec<Box<dyn CommandTarget>>) -> PlaneDriver {
        let specs = plane.loops().elements.iter();
        let elements = elements.into_iter().zip(specs);
        let elements = elements.map(|(target, spec)| Attached {
            target,
            delay: spec.delay,
            commands: VecDeque::new(),
            answers: VecDeque::new(),
            is_restarted: false,
        });
        PlaneDriver {
            elements: elements.collect(),
            plane,
        }
    }

    /// Takes the payload of a datagram that arrived at a source, after all work that was due. The
    /// next step does the rest.
    pub fn receive(&mut self, now: Nanos, source: SourceIndex, from: Ipv4Addr, payload: &[u8]) {
        // A replay does not know what else happened at this time, so it comes first.
        self.run_until(now);
        self.plane.receive(now, source, from, payload);
    }

    /// Does all work that is due at `now`.
    pub fn step(&mut self, now: Nanos) {
        loop {
            let mut is_changed = false;
            for (at, attached) in self.elements.iter_mut().enumerate() {
                while let Some((due, command)) = take_due(&mut attached.commands, now) {
                    let answer = attached.target.take(command.term, &command.change);
                    let answer = answer.map(|answer| (due + attached.delay, answer));
                    attached.answers.extend(answer);
                }
                while let Some(answer) = attached.target.next_answer() {
                    is_changed = true;
                    attached.is_restarted |= answer == ElementAnswer::Restarted;
                    self.plane.answer(now, ElementIndex(at), answer);
                }
                while let Some((_, answer)) = take_due(&mut attached.answers, now) {
                    is_changed = true;
                    self.plane.answer(now, ElementIndex(at), answer);
                }
                while let Some(update) = attached.target.next_update() {
                    is_changed = true;
                    let requested = self.plane.request_update(ElementIndex(at), &update);
                    if let Err(refusal) = requested {
                        attached.target.refuse_update(update.token, refusal);
                    }
                }
            }
            self.plane.step(now);
            while let Some((element, token)) = self.plane.next_refused_update() {
                let target = &mut self.elements[element.0].target;
                target.refuse_update(token, DecisionRefusal::StoreFull);
            }
            if let Some(term) = self.plane.take_leading() {
                for attached in &mut self.elements {
                    attached.target.lead(term);
                }
            }
            for (at, attached) in self.elements.iter_mut().enumerate() {
                if attached.is_restarted && self.plane.is_settled(ElementIndex(at)) {
                    attached.is_restarted = false;
                    attached.target.settled();
                }
            }
            let elements = &mut self.elements;
            self.plane.drain_commands(|command| {
                is_changed = true;
                let attached = &mut elements[command.element.0];
                attached.commands.push_back((now + attached.delay, command));
            });
            if !is_changed {
                return;
            }
        }
    }

    /// Returns the time of the next action without a report.
    pub fn next_time(&self) -> Nanos {
        let due = self.elements.iter().flat_map(|attached| {
            let command = attached.commands.front().map(|(due, _)| *due);
            let answer = attached.answers.front().map(|(due, _)| *due);
            [command, answer].into_iter().flatten()
        });
        due.fold(self.plane.next_time(), Nanos::min)
    }

    /// Does all work up to a time, each at its own time.
    pub fn run_until(&mut self, end: Nanos) {
        while self.next_time() <= end {
            let now = self.next_time();
            self.step(now);
        }
    }

    /// Returns the plane.
    pub fn plane(&self) -> &ReflexPlane {
        &self.plane
    }

    /// Returns the plane, to change it.
    pub fn plane_mut(&mut self) -> &mut ReflexPlane {
        &mut self.plane
    }

    /// Returns the counts of an element.
    pub fn element_counts(&self, element: ElementIndex) -> ElementCounts {
        self.elements[element.0].target.counts()
    }

    /// Returns whether commands reach an element now.
    pub fn is_connected(&self, element: ElementIndex) -> bool {
        self.elements[element.0].target.is_connected()
    }

    /// Returns whether each element has all changes that a leader of this process committed.
    pub fn is_settled(&self) -> bool {
        let mut all = 0..self.elements.len();
        let mut idle = self.elements.iter().map(|it| it.commands.is_empty());
        idle.all(|is_idle| is_idle) && all.all(|at| self.plane.is_settled(ElementIndex(at)))
    }

    /// Gives all managed tables back, at the end of the plane.
    pub fn release(&mut self) {
        for attached in &mut self.elements {
            attached.target.release();
        }
    }

    /// Returns the keys of each permission's table at an element with the fields that they get.
    pub fn keys(&self, element: ElementIndex) -> Vec<String> {
        self.elements[element.0].target.keys()
    }

    /// Returns the words of an element's last refusal.
    pub fn last_refusal(&self, element: ElementIndex) -> Option<String> {
        self.elements[element.0].target.last_refusal()
    }
}

/// Removes and returns the first item if its time has come.
fn take_due<T>(items: &mut VecDeque<(Nanos, T)>, now: Nanos) -> Option<(Nanos, T)> {
    let is_due = items.front().is_some_and(|(due, _)| *due <= now);
    is_due.then(|| items.pop_front()).flatten()
}
