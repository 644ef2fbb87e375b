//! A change of the C code: all servers compile the code of their files, and run it when the last
//! one has.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::code_change::Step;

use crate::control::CoordinatorLoop;
use crate::group_change::GroupMessage;
use crate::remote_plane::first_number;

/// Time within which all servers have compiled, or have exchanged the code.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// A change of the code that has begun.
#[derive(Clone, Debug)]
pub(crate) struct CodeTask {
    number: u64,
    may_lose: bool,
    /// The servers that take part.
    servers: BTreeSet<u16>,
    /// Those that have not answered the step.
    waiting: BTreeSet<u16>,
    stage: Stage,
    /// Cause of the failure; empty if the change has not failed.
    error: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Preparing(Instant),
    Running(Instant),
    Done,
}

impl CodeTask {
    fn begin(
        number: u64,
        servers: BTreeSet<u16>,
        may_lose: bool,
        now: Instant,
    ) -> (CodeTask, Vec<GroupMessage>) {
        let task = CodeTask {
            number,
            may_lose,
            waiting: servers.clone(),
            servers,
            stage: Stage::Preparing(now + ANSWER_TIME),
            error: String::new(),
        };
        let messages = task.to_all(Step::Prepare);
        (task, messages)
    }

    fn to_all(&self, step: Step) -> Vec<GroupMessage> {
        let message = wire::ToPlane {
            code: Some(wire::CodeChange {
                number: self.number,
                step: step.into(),
                may_lose: self.may_lose,
            }),
            ..wire::ToPlane::default()
        };
        let servers = self.servers.iter();
        servers
            .map(|id| GroupMessage::ToServer(*id, Box::new(message.clone())))
            .collect()
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    fn fail(&mut self, error: String) -> Vec<GroupMessage> {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        self.error = error;
        match stage {
            // No server runs the new code.
            Stage::Preparing(_) => self.to_all(Step::Discard),
            Stage::Running(_) | Stage::Done => Vec::new(),
        }
    }

    /// Takes the answer of a server.
    fn take_result(
        &mut self,
        id: u16,
        result: &wire::CodeResult,
        now: Instant,
    ) -> Vec<GroupMessage> {
        let is_expected = match self.stage {
            Stage::Preparing(_) => !result.is_running,
            Stage::Running(_) => result.is_running,
            Stage::Done => false,
        };
        if !is_expected || result.number != self.number || !self.waiting.contains(&id) {
            return Vec::new();
        }
        if !result.error.is_empty() {
            return self.fail(format!("server {id}: {}", result.error));
        }
        self.waiting.remove(&id);
        self.go_on(now)
    }

    /// Begins the next step when all servers have answered.
    fn go_on(&mut self, now: Instant) -> Vec<GroupMessage> {
        if !self.waiting.is_empty() {
            return Vec::new();
        }
        match self.stage {
            Stage::Preparing(_) => {
                self.waiting.clone_from(&self.servers);
                self.stage = Stage::Running(now + ANSWER_TIME);
                self.to_all(Step::Run)
            }
            Stage::Running(_) | Stage::Done => {
                self.stage = Stage::Done;
                Vec::new()
            }
        }
    }

    /// Takes note that the connection to a server is lost. A server that starts again reads its
    /// files.
    fn lost_server(&mut self, id: u16, now: Instant) -> Vec<GroupMessage> {
        match self.stage {
            Stage::Preparing(_) if self.servers.contains(&id) => {
                self.fail(format!("server {id}: the connection is lost"))
            }
            Stage::Running(_) if self.waiting.remove(&id) => {
                self.servers.remove(&id);
                self.go_on(now)
            }
            _ => Vec::new(),
        }
    }

    /// Fails if servers do not answer.
    fn advance(&mut self, now: Instant) -> Vec<GroupMessage> {
        match self.stage {
            Stage::Preparing(until) | Stage::Running(until) if now >= until => {
                let first = self.waiting.first().copied().unwrap_or(0);
                self.fail(format!("server {first}: it does not answer"))
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> wire::CodeState {
        wire::CodeState {
            servers: self.servers.iter().map(|id| (*id).into()).collect(),
            error: self.error.clone(),
            is_complete: self.is_done(),
        }
    }
}

impl CoordinatorLoop {
    /// Lets all connected servers run the C code that their files have now.
    ///
    /// # Errors
    /// Another change of the code goes on, or no server is connected.
    pub(crate) fn reload(&mut self, reload: &wire::ReloadTask) -> Result<(), String> {
        if self.code.as_ref().is_some_and(|task| !task.is_done()) {
            return Err("another change of the C code is not complete: wait".to_owned());
        }
        let servers: BTreeSet<u16> = self.connected_servers().into_iter().collect();
        if servers.is_empty() {
            return Err("no server is connected".to_owned());
        }
        let number = self
            .code
            .as_ref()
            .map_or_else(first_number, |task| task.number)
            + 1;
        let (task, messages) = CodeTask::begin(number, servers, reload.may_lose, Instant::now());
        self.code = Some(task);
        self.send_all(messages);
        Ok(())
    }

    /// Takes the answer of a server to a change of the code.
    pub(crate) fn take_code_result(
        &mut self,
        id: u16,
        result: &wire::CodeResult,
        note: &mut dyn FnMut(&str),
    ) {
        if result.is_running
            && result.error.is_empty()
            && let Some(server) = self.servers.get_mut(&id)
        {
            server.pools.1.clone_from(&result.pools);
            self.send_pools(note);
        }
        self.change_code(|task| task.take_result(id, result, Instant::now()));
    }

    pub(crate) fn lost_server_of_code(&mut self, id: u16) {
        self.change_code(|task| task.lost_server(id, Instant::now()));
    }

    /// Does what is due for the change of the code.
    pub(crate) fn advance_code(&mut self) {
        self.change_code(|task| task.advance(Instant::now()));
    }

    fn change_code(&mut self, change: impl FnOnce(&mut CodeTask) -> Vec<GroupMessage>) {
        let messages = self.code.as_mut().map(change).unwrap_or_default();
        self.send_all(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(messages: Vec<GroupMessage>) -> Vec<(u16, Step)> {
        let step = |message| match message {
            GroupMessage::ToServer(id, message) => (id, message.code.unwrap().step()),
            GroupMessage::ToSwitch(_) => panic!("a switch has no C code"),
        };
        messages.into_iter().map(step).collect()
    }

    fn result(is_running: bool, error: &str) -> wire::CodeResult {
        wire::CodeResult {
            number: 7,
            is_running,
            error: error.to_owned(),
            pools: Vec::new(),
        }
    }

    fn begin(now: Instant) -> CodeTask {
        let (task, messages) = CodeTask::begin(7, BTreeSet::from([1, 2]), false, now);
        assert_eq!(steps(messages), [(1, Step::Prepare), (2, Step::Prepare)]);
        task
    }

    #[test]
    fn servers_run_the_code_when_the_last_one_has_compiled_it() {
        let now = Instant::now();
        let mut task = begin(now);
        assert!(task.take_result(1, &result(false, ""), now).is_empty());
        assert!(task.take_result(1, &result(false, ""), now).is_empty());
        let late = wire::CodeResult {
            number: 6,
            ..result(false, "")
        };
        assert!(task.take_result(2, &late, now).is_empty());
        let messages = task.take_result(2, &result(false, ""), now);
        assert_eq!(steps(messages), [(1, Step::Run), (2, Step::Run)]);
        assert!(task.take_result(2, &result(true, ""), now).is_empty());
        assert!(!task.is_done());
        // Server 1 starts again, and reads its files.
        assert!(task.lost_server(1, now).is_empty());
        assert!(task.is_done() && task.error.is_empty());
        assert_eq!(task.state().servers, [2]);
    }

    #[test]
    fn no_server_runs_code_that_one_refuses() {
        let now = Instant::now();
        let discarded = [(1, Step::Discard), (2, Step::Discard)];
        let mut task = begin(now);
        assert!(task.take_result(1, &result(false, ""), now).is_empty());
        let messages = task.take_result(2, &result(false, "`a` would be lost"), now);
        assert_eq!(steps(messages), discarded);
        assert_eq!(task.error, "server 2: `a` would be lost");
        assert!(task.take_result(1, &result(true, ""), now).is_empty() && task.is_done());
        let mut task = begin(now);
        assert_eq!(steps(task.lost_server(2, now)), discarded);
        let mut task = begin(now);
        assert!(task.advance(now).is_empty());
        assert_eq!(steps(task.advance(now + ANSWER_TIME)), discarded);
        assert!(task.error.contains("server 1"), "{}", task.error);
    }
}
