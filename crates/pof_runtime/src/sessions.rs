//! The sessions of a switch with its controllers, on the side of the loop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use packet::Nanos;
use pof::session::{Phase, Session};
use pof::wire::Role;
use pof::{ControlledSwitch, Event, SessionId};

use crate::connection::{MAX_INBOUND, Pipe};
use crate::mailbox::{Mail, Mailbox};
use crate::program_maker::ProgramMaker;
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
    /// Reason for which the connection has ended. What came before is handled first.
    ended: Option<String>,
    /// True once the user knows of the controller, or of its end.
    is_told: bool,
}

impl Attached {
    fn is_open(&self) -> bool {
        self.session.phase() == Phase::Open
    }

    /// Returns true if something that came waits.
    fn has_input(&self) -> bool {
        self.session.has_message() || self.pipe.has_inbound()
    }

    /// Returns true if more input may be taken. More would be a backlog without a limit: the pipe
    /// makes the controller wait.
    fn takes_input(&self, switch: &ControlledSwitch) -> bool {
        let session = &self.session;
        let may_wait = session.waits_for_program(switch) && session.waiting_bytes() < MAX_INBOUND;
        !session.is_full() && (may_wait || !session.has_message())
    }

    /// Returns true if there is something to do for its input.
    fn has_work(&self, switch: &ControlledSwitch) -> bool {
        match self.session.waits_for_program(switch) {
            true => self.takes_input(switch) && self.pipe.has_inbound(),
            false => !self.session.is_full() && self.has_input(),
        }
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

    /// Returns true if there is input to handle, or answers that may leave since batch `stored` is
    /// on the disk.
    pub(crate) fn has_work(&self, switch: &ControlledSwitch, stored: u64) -> bool {
        self.attached.values().any(|attached| {
            let first = attached.held.front();
            let may_leave = first.is_some_and(|(number, _)| *number <= stored);
            may_leave || attached.has_work(switch)
        })
    }

    /// Takes the news of connections, and programs that were made. Returns lines for the user.
    pub(crate) fn take_news(
        &mut self,
        mailbox: &Mailbox,
        programs: &ProgramMaker,
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
                        ended: None,
                        is_told: false,
                    };
                    self.attached.insert(id, attached);
                }
                Mail::Closed { id, reason } => {
                    if let Some(attached) = self.attached.get_mut(&id) {
                        attached.ended = Some(reason);
                    }
                }
                Mail::Notice(line) => lines.push(line),
                Mail::Made(made) => {
                    if let Some(rest) = switch.forwarder.finish(*made) {
                        programs.free(rest);
                    }
                    for group in switch.forwarder.take_failed_groups() {
                        lines.push(format!(
                            "group {group}: its entries keep their ports: there is no room, or no program, for others"
                        ));
                    }
                }
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
            if attached.session.waits_for_program(switch) {
                // It is the switch that lets the controller wait.
                attached.heard_at = now;
            }
            if !attached.takes_input(switch) {
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
                if attached.ended.is_some() {
                    // The output has no reader.
                    attached.session.take_output();
                }
                if attached.session.handle_next(switch) {
                    is_worked_on = true;
                    attached.heard_at = now;
                }
                if attached.is_open() && !attached.is_told {
                    attached.is_told = true;
                    attached.pipe.greet();
                    self.connections += 1;
                    lines.push(format!("controller {} is connected", attached.name));
                }
            }
            has_worked |= is_worked_on;
        }
        let over = self.attached.iter().filter_map(|(id, attached)| {
            let reason = attached.ended.clone()?;
            (!attached.has_input()).then_some((*id, reason))
        });
        for (id, reason) in over.collect::<Vec<_>>() {
            if let Some(attached) = self.remove(id, switch) {
                let name = &attached.name;
                lines.push(format!("controller {name} is gone: {reason}"));
            }
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
            if attached.pipe.take_progress() {
                attached.heard_at = now;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use pof::model::{Field, ObjectName, TableType};
    use pof::wire::{Body, Command, Message, TableMod, encode};
    use pof::{Forwarder, ForwarderOptions};

    use crate::connection::carry;
    use crate::link::Link;

    fn switch() -> ControlledSwitch {
        let options = ForwarderOptions::default();
        let forwarder = Forwarder::new(Arc::new(interp::Interp), options).unwrap();
        ControlledSwitch::new(forwarder, 1, Vec::new()).unwrap()
    }

    fn sockets() -> (TcpStream, Link) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (far, Link::new(listener.accept().unwrap().0, None).unwrap())
    }

    fn bytes(body: Body) -> Vec<u8> {
        encode(&Message { xid: 1, body })
    }

    #[test]
    fn what_came_before_the_end_of_a_connection_is_handled() {
        let (mut far, near) = sockets();
        far.write_all(&bytes(Body::Hello)).unwrap();
        let fields = vec![Field::packet(96, 16)];
        let table = Body::TableMod(TableMod {
            command: Command::Add,
            id: 0,
            table_type: TableType::Masked,
            size: 1,
            key_length: 16,
            slot: 0,
            name: ObjectName::new(""),
            fields,
        });
        far.write_all(&bytes(table)).unwrap();
        drop(far);
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let programs = ProgramMaker::start(&mailbox).unwrap();
        carry(near, "test", &mailbox);
        let mut switch = switch();
        let mut sessions = Sessions::new();
        let now = Nanos::ZERO;
        let lines = sessions.take_news(&mailbox, &programs, &mut switch, now);
        assert!(lines.is_empty());
        let (_, lines) = sessions.handle(&mut switch, now, || false);
        assert_eq!(switch.forwarder.tables().tables().count(), 1);
        assert!(lines[1].contains("is gone"), "{lines:?}");
        assert!(sessions.attached.is_empty());
    }

    #[test]
    fn no_more_is_taken_while_messages_wait() {
        let (mut far, near) = sockets();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let programs = ProgramMaker::start(&mailbox).unwrap();
        let of_thread = Arc::clone(&mailbox);
        std::thread::spawn(move || carry(near, "test", &of_thread));
        let mut switch = switch();
        let mut sessions = Sessions::new();
        let now = Nanos::ZERO;
        while sessions.attached.is_empty() {
            sessions.take_news(&mailbox, &programs, &mut switch, now);
        }
        let pipe = Arc::clone(&sessions.attached.values().next().unwrap().pipe);
        for _ in 0..2 {
            far.write_all(&bytes(Body::Hello)).unwrap();
            while !pipe.has_inbound() {
                std::thread::yield_now();
            }
            // There is no time for messages.
            sessions.handle(&mut switch, now, || true);
        }
        assert!(pipe.has_inbound(), "the second message waits in the pipe");
        assert!(sessions.has_work(&switch, 0));
        while sessions.has_work(&switch, 0) {
            sessions.handle(&mut switch, now, || false);
        }
        assert!(!pipe.has_inbound());
    }
}
