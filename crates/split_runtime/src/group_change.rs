//! A change of the group: the switch begins it, servers list the flows that they know, and the
//! switch pins those that would move and completes it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::group_change::Change;

use crate::messages::MAX_ITEMS;

/// Time within which switch and servers answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Time after which servers list their flows again, if too few pins are free.
const PAUSE: Duration = Duration::from_secs(1);

/// Message of a change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupMessage {
    ToSwitch(Box<wire::ToPlane>),
    ToServer(u16, Box<wire::ToPlane>),
}

fn to_switch(message: wire::ToPlane) -> GroupMessage {
    GroupMessage::ToSwitch(Box::new(message))
}

/// Origin of a change of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An operator asks for it and waits for its end.
    Operator,
    /// The coordinator begins it: a server is back, or flows of servers that left are counted.
    Coordinator,
}

/// A change of the group that has begun.
#[derive(Clone, Debug)]
pub(crate) struct GroupTask {
    /// Number of the last question to switch and servers.
    number: u64,
    /// Name for operators, such as `server 2 joins`.
    pub(crate) name: String,
    change: Change,
    origin: Origin,
    stage: Stage,
    /// Flows that servers know.
    pub(crate) known: u64,
    /// Flows that were pinned.
    pub(crate) pinned: u64,
    /// Flows for which no pin is free.
    pub(crate) waiting: u64,
    /// Cause of the failure; empty if the change has not failed.
    pub(crate) error: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Stage {
    /// The switch begins the change.
    Beginning(Instant),
    /// These servers list their flows.
    Listing(BTreeSet<u16>, Instant),
    /// The switch completes the change.
    Completing(Instant),
    /// Flows must end before the change goes on.
    Pausing(Instant),
    Done,
}

impl GroupTask {
    /// Begins a change. `number` is larger than the numbers of all changes before.
    pub(crate) fn begin(
        name: String,
        change: Change,
        number: u64,
        origin: Origin,
        now: Instant,
    ) -> (GroupTask, GroupMessage) {
        let message = wire::ToPlane {
            change: Some(wire::GroupChange {
                number,
                change: Some(change),
            }),
            ..wire::ToPlane::default()
        };
        let task = GroupTask {
            number,
            name,
            change,
            origin,
            stage: Stage::Beginning(now + ANSWER_TIME),
            known: 0,
            pinned: 0,
            waiting: 0,
            error: String::new(),
        };
        (task, to_switch(message))
    }

    /// Returns true if the change is complete or has failed.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Returns the server that leaves, if one does.
    pub(crate) fn leaving(&self) -> Option<u16> {
        match self.change {
            Change::Leave(server) => u16::try_from(server).ok(),
            _ => None,
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the last number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn state(&self) -> wire::ChangeState {
        wire::ChangeState {
            name: self.name.clone(),
            known: self.known,
            pinned: self.pinned,
            waiting: self.waiting,
            error: self.error.clone(),
            is_complete: self.is_done(),
        }
    }

    /// Ends the change. The switch forgets it.
    pub(crate) fn fail(&mut self, error: String) -> Vec<GroupMessage> {
        if self.is_done() {
            return Vec::new();
        }
        self.stage = Stage::Done;
        self.error = error;
        vec![to_switch(wire::ToPlane {
            cancel: true,
            ..wire::ToPlane::default()
        })]
    }

    /// Asks the connected servers for their flows.
    fn list(&mut self, servers: &[u16], now: Instant) -> Vec<GroupMessage> {
        self.number += 1;
        self.known = 0;
        let number = self.number;
        self.stage = Stage::Listing(servers.iter().copied().collect(), now + ANSWER_TIME);
        let query = |server: &u16| {
            let message = wire::ToPlane {
                list_flows: Some(wire::FlowQuery { number }),
                ..wire::ToPlane::default()
            };
            GroupMessage::ToServer(*server, Box::new(message))
        };
        let mut messages: Vec<GroupMessage> = servers.iter().map(query).collect();
        messages.extend(self.complete(now));
        messages
    }

    /// Lets the switch complete the change when all servers have listed their flows.
    fn complete(&mut self, now: Instant) -> Option<GroupMessage> {
        if !matches!(&self.stage, Stage::Listing(open, _) if open.is_empty()) {
            return None;
        }
        self.stage = Stage::Completing(now + ANSWER_TIME);
        let number = self.number;
        Some(to_switch(wire::ToPlane {
            complete: Some(wire::FlowQuery { number }),
            ..wire::ToPlane::default()
        }))
    }

    /// Takes over flows of a server.
    pub(crate) fn take_flows(
        &mut self,
        server: u16,
        list: &wire::FlowList,
        now: Instant,
    ) -> Vec<GroupMessage> {
        let Stage::Listing(open, _) = &mut self.stage else {
            return Vec::new();
        };
        if list.number != self.number || !open.contains(&server) {
            return Vec::new();
        }
        if list.is_complete {
            open.remove(&server);
        }
        self.known += list.flows.len() as u64;
        let known = |flow: &u32| wire::KnownFlow {
            flow: *flow,
            server: server.into(),
        };
        let parts = list.flows.chunks(MAX_ITEMS).map(|part| {
            to_switch(wire::ToPlane {
                known_flows: part.iter().map(known).collect(),
                ..wire::ToPlane::default()
            })
        });
        let mut messages: Vec<GroupMessage> = parts.collect();
        messages.extend(self.complete(now));
        messages
    }

    /// Notes that the connection to a server has ended.
    pub(crate) fn lost_server(&mut self, server: u16, now: Instant) -> Vec<GroupMessage> {
        if let Stage::Listing(open, _) = &mut self.stage {
            open.remove(&server);
        }
        self.complete(now).into_iter().collect()
    }

    /// Takes over an answer of the switch. `servers` are the connected ones.
    pub(crate) fn take_result(
        &mut self,
        result: &wire::GroupResult,
        servers: &[u16],
        now: Instant,
    ) -> Vec<GroupMessage> {
        if result.number != self.number {
            return Vec::new();
        }
        if !result.error.is_empty() {
            return self.fail(result.error.clone());
        }
        match &self.stage {
            Stage::Beginning(_) => self.list(servers, now),
            Stage::Completing(_) if result.is_completed => {
                self.pinned += u64::from(result.pinned);
                self.waiting = result.waiting.into();
                self.stage = match result.waiting {
                    0 => Stage::Done,
                    _ => Stage::Pausing(now + PAUSE),
                };
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Does what is due.
    pub(crate) fn advance(&mut self, servers: &[u16], now: Instant) -> Vec<GroupMessage> {
        match &self.stage {
            Stage::Pausing(until) if now >= *until => self.list(servers, now),
            Stage::Beginning(until) | Stage::Completing(until) if now >= *until => {
                self.fail("the switch does not answer".to_owned())
            }
            Stage::Listing(open, until) if now >= *until => {
                let names: Vec<String> = open.iter().map(ToString::to_string).collect();
                self.fail(format!(
                    "server {} does not answer",
                    names.join(", server ")
                ))
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(now: Instant) -> GroupTask {
        let change = Change::Leave(2);
        let (task, message) = GroupTask::begin(
            "server 2 leaves".to_owned(),
            change,
            7,
            Origin::Operator,
            now,
        );
        assert!(matches!(message, GroupMessage::ToSwitch(message) if message.change.is_some()));
        task
    }

    fn result(number: u64, is_completed: bool, waiting: u32) -> wire::GroupResult {
        wire::GroupResult {
            number,
            is_completed,
            waiting,
            pinned: 3,
            error: String::new(),
        }
    }

    fn flows(number: u64, flows: &[u32], is_complete: bool) -> wire::FlowList {
        wire::FlowList {
            number,
            flows: flows.to_vec(),
            is_complete,
        }
    }

    #[test]
    fn the_switch_completes_a_change_after_all_servers_have_listed_their_flows() {
        let now = Instant::now();
        let mut task = begun(now);
        assert_eq!(
            task.take_result(&result(7, false, 0), &[1, 2], now).len(),
            2
        );
        assert_eq!(
            task.take_flows(1, &flows(8, &[10, 11], false), now).len(),
            1
        );
        // An answer to an older question does not count.
        assert!(task.take_flows(1, &flows(7, &[12], true), now).is_empty());
        assert!(task.take_flows(1, &flows(8, &[], true), now).is_empty());
        let last = task.take_flows(2, &flows(8, &[20], true), now);
        assert_eq!(last.len(), 2);
        assert!(matches!(&last[1], GroupMessage::ToSwitch(last) if last.complete.is_some()));
        assert_eq!(task.known, 3);
        assert!(
            task.take_result(&result(8, true, 0), &[1, 2], now)
                .is_empty()
        );
        assert!(task.is_done() && task.error.is_empty());
        assert_eq!(task.pinned, 3);
    }

    #[test]
    fn flows_without_a_pin_are_listed_again_after_a_pause() {
        let now = Instant::now();
        let mut task = begun(now);
        task.take_result(&result(7, false, 0), &[1], now);
        task.take_flows(1, &flows(8, &[1], true), now);
        task.take_result(&result(8, true, 5), &[1], now);
        assert!(!task.is_done());
        assert!(task.advance(&[1], now).is_empty());
        assert_eq!(task.advance(&[1], now + PAUSE).len(), 1);
        task.take_flows(1, &flows(9, &[1], true), now);
        task.take_result(&result(9, true, 0), &[1], now);
        assert!(task.is_done());
        assert_eq!((task.pinned, task.waiting), (6, 0));
    }

    #[test]
    fn a_server_that_is_lost_is_not_waited_for() {
        let now = Instant::now();
        let mut task = begun(now);
        task.take_result(&result(7, false, 0), &[1, 2], now);
        task.take_flows(1, &flows(8, &[], true), now);
        assert_eq!(task.lost_server(2, now).len(), 1);
    }

    #[test]
    fn a_change_without_answers_fails_and_is_cancelled() {
        let now = Instant::now();
        let mut task = begun(now);
        assert!(task.advance(&[1], now).is_empty());
        let messages = task.advance(&[1], now + ANSWER_TIME);
        assert!(matches!(&messages[..], [GroupMessage::ToSwitch(message)] if message.cancel));
        assert_eq!(task.error, "the switch does not answer");
        assert!(task.advance(&[1], now + ANSWER_TIME * 2).is_empty());
    }
}
