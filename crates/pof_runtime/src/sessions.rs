//! The sessions of a switch with its controllers, on the side of the loop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use packet::Nanos;
use pof::session::{Phase, Session};
use pof::wire::Role;
use pof::{ControlledSwitch, Event, SessionId};

use crate::connection::Pipe;
use crate::mailbox::{Mail, Mailbox};
use crate::report::ControllerReport;

/// Time without a byte of a controller, after which it is asked whether it is there.
const ECHO_AFTER: Nanos = Nanos::from_millis(5_000);

/// Time without a byte, after which its connection is closed.
const GONE_AFTER: Nanos = Nanos::from_millis(15_000);

/// Time within which a controller must say HELLO.
const HELLO_WITHIN: Nanos = Nanos::from_millis(5_000);

/// Bytes of a session that wait for the store, above which its further output waits in it.
const MAX_HELD: usize = 1 << 20;

/// A session with its connection.
struct Attached {
    name: String,
    session: Session,
    pipe: Arc<Pipe>,
    opened_at: Nanos,
    heard_at: Nanos,
    echoed_at: Nanos,
    /// Output with the number of the batch of changes that must be stored before it leaves.
    held: VecDeque<(u64, Vec<u8>)>,
    /// True once the user knows of the controller, or of its end.
    is_told: bool,
}

impl Attached {
    fn is_open(&self) -> bool {
        self.session.phase() == Phase::Open
    }
}

/// All sessions.
pub(crate) struct Sessions {
    attached: BTreeMap<SessionId, Attached>,
    /// Lost packet-ins and reports of sessions that have ended.
    past_dropped: (u64, u64),
    /// Packet-ins for which there was no controller.
    pub(crate) without_controller: u64,
    /// Sessions that there have been.
    pub(crate) connections: u64,
}

impl Sessions {
    pub(crate) fn new() -> Sessions {
        Sessions {
            attached: BTreeMap::new(),
            past_dropped: (0, 0),
            without_controller: 0,
            connections: 0,
        }
    }

    /// Returns true if a controller has said HELLO.
    pub(crate) fn has_controller(&self) -> bool {
        self.attached.values().any(Attached::is_open)
    }

    /// Returns true if there are bytes to take, or answers that may leave since batch `stored` is
    /// on the disk.
    pub(crate) fn has_work(&self, stored: u64) -> bool {
        self.attached.values().any(|attached| {
            let first = attached.held.front();
            let may_leave = first.is_some_and(|(number, _)| *number <= stored);
            may_leave || !attached.session.is_full() && attached.pipe.has_inbound()
        })
    }

    /// Takes the news of connections. Returns lines for the user.
    pub(crate) fn take_news(
        &mut self,
        mailbox: &Mailbox,
        switch: &mut ControlledSwitch,
        now: Nanos,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(mail) = mailbox.take() {
            match mail {
                Mail::Opened { id, name, pipe } => {
                    let attached = Attached {
                        name,
                        session: Session::new(id, switch),
                        pipe,
                        opened_at: now,
                        heard_at: now,
                        echoed_at: now,
                        held: VecDeque::new(),
                        is_told: false,
                    };
                    self.attached.insert(id, attached);
                }
                Mail::Closed { id, reason } => {
                    if let Some(attached) = self.remove(id, switch) {
                        let name = &attached.name;
                        lines.push(format!("controller {name} is gone: {reason}"));
                    }
                }
                Mail::Notice(line) => lines.push(line),
            }
        }
        lines
    }

    fn remove(&mut self, id: SessionId, switch: &mut ControlledSwitch) -> Option<Attached> {
        let mut attached = self.attached.remove(&id)?;
        attached.session.leave(switch);
        self.past_dropped.0 += attached.session.dropped_packet_ins();
        self.past_dropped.1 += attached.session.dropped_reports();
        Some(attached)
    }

    /// Handles messages, each session's in their order, one of each session after the other, until
    /// none is left or `is_over` is true. Returns true if there were any, and lines for the user.
    pub(crate) fn handle(
        &mut self,
        switch: &mut ControlledSwitch,
        now: Nanos,
        is_over: impl Fn() -> bool,
    ) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        let mut has_worked = false;
        for attached in self.attached.values_mut() {
            if attached.session.is_full() {
                continue;
            }
            let bytes = attached.pipe.take_inbound();
            if !bytes.is_empty() {
                attached.heard_at = now;
                attached.session.push(&bytes);
            }
        }
        let mut is_worked_on = true;
        while is_worked_on && !is_over() {
            is_worked_on = false;
            for attached in self.attached.values_mut() {
                is_worked_on |= attached.session.handle_next(switch);
                if attached.is_open() && !attached.is_told {
                    attached.is_told = true;
                    attached.pipe.greet();
                    self.connections += 1;
                    lines.push(format!("controller {} is connected", attached.name));
                }
            }
            has_worked |= is_worked_on;
        }
        (has_worked, lines)
    }

    /// Reports an event to the controllers.
    pub(crate) fn notify(&mut self, event: &Event, switch: &ControlledSwitch, now: Nanos) {
        let mut has_reader = false;
        for attached in self.attached.values_mut() {
            let is_slave = attached.session.role(switch) == Role::Slave;
            has_reader |= attached.is_open() && !is_slave;
            attached.session.notify(event, switch, now);
        }
        if !has_reader && matches!(event, Event::PacketIn { .. }) {
            self.without_controller += 1;
        }
    }

    /// Asks controllers that have been silent whether they are there, and closes the connections
    /// of those that do not answer.
    pub(crate) fn watch(&mut self, switch: &mut ControlledSwitch, now: Nanos) -> Vec<String> {
        let mut lines = Vec::new();
        for attached in self.attached.values_mut() {
            let (since, most) = match attached.session.phase() {
                Phase::Closed => continue,
                Phase::Hello => (attached.opened_at, HELLO_WITHIN),
                Phase::Open => (attached.heard_at, GONE_AFTER),
            };
            if now.since(since) >= most {
                let seconds = Duration::from(most).as_secs();
                lines.push(format!(
                    "controller {} has been silent for {seconds} s, its connection is closed",
                    attached.name
                ));
                attached.is_told = true;
                attached.session.leave(switch);
            } else if now.since(attached.heard_at.max(attached.echoed_at)) >= ECHO_AFTER {
                attached.session.echo();
                attached.echoed_at = now;
            }
        }
        lines
    }

    /// Lets output leave: what was made up to now once the batch `appended` is stored. `stored` is
    /// the number of the last batch that is. Returns lines for the user.
    pub(crate) fn send(
        &mut self,
        switch: &mut ControlledSwitch,
        appended: u64,
        stored: u64,
    ) -> Vec<String> {
        let mut over = Vec::new();
        let mut lines = Vec::new();
        for (id, attached) in &mut self.attached {
            let held: usize = attached.held.iter().map(|(_, bytes)| bytes.len()).sum();
            if held < MAX_HELD && attached.pipe.has_room() {
                let output = attached.session.take_output();
                if !output.is_empty() {
                    attached.held.push_back((appended, output));
                }
            }
            while let Some((number, _)) = attached.held.front()
                && *number <= stored
                && let Some((_, bytes)) = attached.held.pop_front()
            {
                attached.pipe.send(&bytes);
            }
            if attached.session.phase() == Phase::Closed && attached.held.is_empty() {
                attached.pipe.close();
                over.push(*id);
            }
        }
        for id in over {
            let ended = self.remove(id, switch);
            // One that has said HELLO has its line already.
            if let Some(attached) = ended.filter(|attached| !attached.is_told) {
                let name = &attached.name;
                lines.push(format!(
                    "controller {name} does not begin with HELLO of POF, its connection is closed"
                ));
            }
        }
        lines
    }

    /// Closes all connections.
    pub(crate) fn close(&mut self, switch: &mut ControlledSwitch) {
        let ids: Vec<SessionId> = self.attached.keys().copied().collect();
        for id in ids {
            if let Some(attached) = self.remove(id, switch) {
                attached.pipe.close();
            }
        }
    }

    /// Returns the number of packet-ins and of other reports that were lost since controllers did
    /// not read.
    pub(crate) fn dropped(&self) -> (u64, u64) {
        let sessions = self.attached.values().map(|attached| &attached.session);
        sessions.fold(self.past_dropped, |(packets, reports), session| {
            let packets = packets + session.dropped_packet_ins();
            (packets, reports + session.dropped_reports())
        })
    }

    pub(crate) fn reports(&self, switch: &ControlledSwitch) -> Vec<ControllerReport> {
        let open = self.attached.values().filter(|attached| attached.is_open());
        let reports = open.map(|attached| ControllerReport {
            address: attached.name.clone(),
            role: match attached.session.role(switch) {
                Role::Master => "master",
                Role::Slave => "slave",
                Role::Equal | Role::NoChange => "equal",
            },
        });
        reports.collect()
    }
}
