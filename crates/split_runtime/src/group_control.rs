//! The group of servers, as the coordinator changes it: joins and leaves of operators, failed
//! servers and those that return.

use std::time::{Duration, Instant};

use p4info::polyplane::split::v1 as wire;
use p4info::polyplane::split::v1::group_change::Change as GroupChange;
use p4rt::client::Endpoint;

use crate::control::{CoordinatorLoop, PlaneSpec};
use crate::group_change::{GroupMessage, GroupTask, Origin};
use crate::remote_plane::first_number;

/// Interval of new generations while servers leave.
const RENEW: Duration = Duration::from_secs(10);

/// Time after the start within which servers must be connected.
const START_TIME: Duration = Duration::from_secs(5);

/// Server that joins when it is connected.
pub(crate) struct Joining {
    server: u16,
    /// The switch's port to it.
    port: Option<u32>,
    /// Time at which the join ends without it.
    until: Instant,
    /// The address of this server before, if the join gave another one.
    before: Option<Option<String>>,
}

impl CoordinatorLoop {
    /// Reports a failed server to the switch.
    pub(crate) fn fail_server(&self, id: u16) {
        self.to_switch(wire::ToPlane {
            failed_servers: vec![id.into()],
            ..wire::ToPlane::default()
        });
    }

    pub(crate) fn send_all(&self, messages: Vec<GroupMessage>) {
        for message in messages {
            match message {
                GroupMessage::ToSwitch(message) => self.to_switch(*message),
                GroupMessage::ToServer(id, message) => {
                    if let Some(server) = self.servers.get(&id) {
                        server.plane.connection.send(*message);
                    }
                }
            }
        }
    }

    pub(crate) fn connected_servers(&self) -> Vec<u16> {
        let connected = self.servers.iter();
        let connected = connected.filter(|(_, server)| server.plane.is_connected());
        connected.map(|(id, _)| *id).collect()
    }

    /// Returns true while a change of the group goes on.
    fn is_changing(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_done()) || self.joining.is_some()
    }

    /// Returns the last change of the group that an operator asked for, complete or not. Without
    /// one it is the last change that the coordinator began.
    pub(crate) fn change(&self) -> Option<wire::ChangeState> {
        if let Some(joining) = &self.joining {
            return Some(wire::ChangeState {
                name: format!("server {} joins", joining.server),
                ..wire::ChangeState::default()
            });
        }
        let task = self.task.as_ref();
        match &self.asked_change {
            Some(asked) if task.is_none_or(|task| task.origin() == Origin::Coordinator) => {
                Some(asked.clone())
            }
            _ => task.map(GroupTask::state),
        }
    }

    fn begin_task(&mut self, name: String, change: GroupChange, origin: Origin) {
        let message = self.replace_task(name, change, origin);
        self.send_all(vec![message]);
    }

    /// Makes a new task in place of the last one, and returns its first message.
    fn replace_task(&mut self, name: String, change: GroupChange, origin: Origin) -> GroupMessage {
        let last = self.task.as_ref();
        let number = last.map_or_else(first_number, GroupTask::number) + 1;
        let asked = last.filter(|last| last.origin() == Origin::Operator);
        if let Some(state) = asked.map(GroupTask::state) {
            self.asked_change = Some(state);
        }
        let (task, message) = GroupTask::begin(name, change, number, origin, Instant::now());
        self.task = Some(task);
        message
    }

    /// Lets a server join.
    ///
    /// # Errors
    /// Another change goes on, or the coordinator does not know the address of the server.
    pub(crate) fn join(&mut self, join: &wire::JoinTask) -> Result<(), String> {
        self.check_idle()?;
        let id = u16::try_from(join.server).unwrap_or(0);
        if !(1..=64).contains(&id) {
            return Err(format!(
                "there is no server {}: servers have numbers from 1 to 64",
                join.server
            ));
        }
        let members = self.group.members.iter();
        if members.clone().any(|member| member.server == join.server)
            && !self.group.down.contains(&join.server)
        {
            return Err(format!("server {id} is in the group"));
        }
        let is_known = self.servers.get(&id);
        let is_same =
            is_known.is_some_and(|known| join.address.is_empty() || join.address == known.address);
        let mut before = None;
        if !is_same {
            if join.address.is_empty() {
                return Err(format!(
                    "the coordinator does not know server {id}: give --address HOST:PORT"
                ));
            }
            let spec = self.spec_of(id, join.address.clone());
            let server = self.halves.connect_server(spec);
            let server = server.map_err(|error| format!("server {id}: {error}"))?;
            let replaced = self.servers.insert(id, server);
            before = Some(replaced.map(|server| server.address));
        }
        self.joining = Some(Joining {
            server: id,
            port: join.port,
            until: Instant::now() + START_TIME * 2,
            before,
        });
        Ok(())
    }

    /// Lets a server leave.
    ///
    /// # Errors
    /// Another change goes on, or the server is not in the group or the last one.
    pub(crate) fn leave(&mut self, server: u32) -> Result<(), String> {
        self.check_idle()?;
        let mut members = self.group.members.iter();
        if !members.any(|member| member.server == server) {
            return Err(format!("server {server} is not in the group"));
        }
        if self.group.members.len() == 1 {
            return Err(format!(
                "server {server} is the last one of the group: another one must join first"
            ));
        }
        self.begin_task(
            format!("server {server} leaves"),
            GroupChange::Leave(server),
            Origin::Operator,
        );
        Ok(())
    }

    fn check_idle(&self) -> Result<(), String> {
        if !self.switch.is_connected() {
            return Err("the switch is not connected".to_owned());
        }
        if !self.switch.is_ours {
            return Err(
                "the switch is no `polyplane split switch`: its group cannot change".to_owned(),
            );
        }
        match self.is_changing() {
            true => Err("another change of the group is not complete: wait".to_owned()),
            false => Ok(()),
        }
    }

    /// Does what is due for the change of the group.
    pub(crate) fn advance_group(&mut self) {
        let now = Instant::now();
        if let Some(joining) = &self.joining {
            let (id, port, until) = (joining.server, joining.port, joining.until);
            let server = self.servers.get(&id);
            let is_connected = server.is_some_and(|server| server.plane.is_connected());
            if is_connected && self.switch.is_connected() {
                self.joining = None;
                self.left.remove(&id);
                let server = u32::from(id);
                let join = wire::ServerPort { server, port };
                let name = format!("server {id} joins");
                self.begin_task(name, GroupChange::Join(join), Origin::Operator);
            } else if now >= until {
                let reason = server.map_or_else(String::new, |server| server.reason.clone());
                self.give_up_joining();
                let join = GroupChange::Join(wire::ServerPort::default());
                // Nothing is sent: the change fails before it begins.
                let _ = self.replace_task(format!("server {id} joins"), join, Origin::Operator);
                if let Some(task) = &mut self.task {
                    let _ = task.fail(format!("it is not connected: {reason}"));
                }
            }
        }
        let servers = self.connected_servers();
        if let Some(task) = &mut self.task {
            let messages = task.advance(&servers, now);
            self.send_all(messages);
        }
    }

    /// Ends a join of a server that did not connect. The list of servers is as before.
    fn give_up_joining(&mut self) {
        let Some(joining) = self.joining.take() else {
            return;
        };
        let id = joining.server;
        match joining.before {
            // The address was known.
            None => {}
            Some(None) => {
                self.servers.remove(&id);
            }
            Some(Some(address)) => {
                // Without a thread or a descriptor it stays at the new address.
                if let Ok(server) = self.halves.connect_server(self.spec_of(id, address)) {
                    self.servers.insert(id, server);
                }
            }
        }
    }

    fn spec_of(&self, server: u16, address: String) -> PlaneSpec {
        PlaneSpec {
            server: Some(server),
            endpoint: Endpoint {
                address,
                ..self.halves.endpoint.clone()
            },
            device: self.halves.device,
        }
    }

    /// Compares the group with the connections: failed servers get no requests, and servers that
    /// are back get them again.
    pub(crate) fn reconcile(&mut self, group: wire::GroupState) {
        self.group = group;
        let group = &self.group;
        let is_member = |id: u32| group.members.iter().any(|member| member.server == id);
        let is_started = self.start.elapsed() >= START_TIME;
        let mut failed = Vec::new();
        let mut back = None;
        let mut gone = Vec::new();
        for (&id, server) in &self.servers {
            let number = u32::from(id);
            let is_used = is_member(number) || group.leaving.contains(&number);
            let is_down = group.down.contains(&number);
            match server.plane.is_connected() {
                true if is_down => back = back.or(Some(id)),
                false if is_used && !is_down && is_started => failed.push(id),
                _ => {}
            }
            let has_left = self.left.contains(&id);
            if !is_used && !is_down && has_left && !self.is_changing() {
                gone.push(id);
            }
        }
        let has_leaving = !group.leaving.is_empty();
        for id in failed {
            self.fail_server(id);
        }
        // Servers that left keep no connection.
        for id in gone {
            self.servers.remove(&id);
            self.left.remove(&id);
            self.coordinator.is_back(id);
        }
        if self.group.is_changing && !self.is_changing() {
            // It began before the coordinator or its connection did.
            self.to_switch(wire::ToPlane {
                cancel: true,
                ..wire::ToPlane::default()
            });
        }
        if self.is_changing() {
            return;
        }
        if let Some(id) = back {
            let join = wire::ServerPort {
                server: id.into(),
                port: None,
            };
            let name = format!("server {id} returns");
            self.begin_task(name, GroupChange::Join(join), Origin::Coordinator);
        } else if has_leaving && Instant::now() >= self.next_renew {
            self.next_renew = Instant::now() + RENEW;
            let name = "flows of servers that left are counted".to_owned();
            self.begin_task(name, GroupChange::Renew(true), Origin::Coordinator);
        }
    }
}
