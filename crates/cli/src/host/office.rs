//! The office of a switch that hosts virtual data planes: what concerns them all, on one thread, beside the stations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ir::Program;
use p4rt::{Denial, Petition, Petitions, Server};
use packet::PortId;
use port::{Bell, Poller};
use tenancy::{Connection, Hypervisor, VirtualPort, Vpdp, VpdpId};
use tracing::level_filters::LevelFilter;

use crate::control::USUAL_CPU;
use crate::crew::Crew;
use crate::early::Early;
use crate::forward::Ending;
use crate::host::carrier::{Switchboard, Tenants};
use crate::host::diary;
use crate::host::figures::Ask;
use crate::host::program::Ready;
use crate::host::tenant::{self, Tenant, Terms};
use crate::station::{Common, Told};
use crate::{compile, log, out, serve};

/// The longest that the office sleeps: what programs say is heard this often at least.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// Changes and views that are served before packets of controllers have their turn again.
const PETITIONS_A_TURN: usize = 8;

/// The office.
pub(super) struct Office {
    pub(super) hypervisor: Hypervisor,
    pub(super) crew: Crew<Tenants>,
    pub(super) board: Switchboard,
    first_station: Option<Arc<Bell>>,
    pub(super) server: Server,
    petitions: Petitions,
    /// The switch's ports, and how each carries frames.
    pub(super) ports: BTreeMap<PortId, String>,
    /// Those of them that are down.
    down: BTreeSet<PortId>,
    pub(super) tenants: BTreeMap<VpdpId, Tenant>,
    /// What runs where there is no program.
    pub(super) empty: Arc<Program>,
    pub(super) ready_in: Sender<Ready>,
    ready: Receiver<Ready>,
    /// Who asks for all figures.
    asked: Receiver<Ask>,
}

impl Office {
    pub(super) fn new(
        mut hypervisor: Hypervisor,
        crew: Crew<Tenants>,
        board: Switchboard,
        server: Server,
        petitions: Petitions,
        ports: BTreeMap<PortId, String>,
        asked: Receiver<Ask>,
    ) -> Result<Office, String> {
        let (ready_in, ready) = channel();
        let empty = Arc::new(compile::compile_text("empty.p4", serve::EMPTY)?);
        hypervisor.set_stand_in(Arc::clone(&empty));
        Ok(Office {
            hypervisor,
            first_station: crew.first_bell(),
            crew,
            board,
            server,
            petitions,
            ports,
            down: BTreeSet::new(),
            tenants: BTreeMap::new(),
            empty,
            ready_in,
            ready,
            asked,
        })
    }

    /// Whether a vPDP has no program, and runs what stands in for one. What runs is never the program that was given: each is fitted to the slots.
    pub(super) fn runs_nothing(&self, vpdp: &Vpdp) -> bool {
        !self.hypervisor.is_programmed(vpdp)
    }

    /// What wakes the office.
    pub(super) fn common(&self) -> &Arc<Common> {
        self.crew.common()
    }

    /// Hosts until something ends it.
    ///
    /// # Errors
    /// The operating system gives no threads, or does not let the process wait for its ports.
    pub(super) fn run(&mut self, early: &Early) -> Result<Ending, String> {
        let threads = self.crew.muster();
        threads.run(|has_ended| self.look_after(early, has_ended))
    }

    fn look_after(
        &mut self,
        early: &Early,
        has_ended: &dyn Fn() -> bool,
    ) -> Result<Ending, String> {
        let mut poller = Poller::new();
        loop {
            let mut petitions = 0;
            while petitions < PETITIONS_A_TURN
                && let Some(petition) = self.petitions.take()
            {
                petitions += 1;
                match petition {
                    Petition::Change(asker, asked, answer) => {
                        let answer = diary::noted(asker, &asked, answer);
                        self.change(*asked, answer);
                    }
                    Petition::Show(viewer, asked, answer) => {
                        answer.give(self.show(&viewer, &asked));
                    }
                }
            }
            while let Ok(ready) = self.ready.try_recv() {
                self.programmed(ready);
            }
            let has_more = self.serve() || petitions == PETITIONS_A_TURN;
            // Nothing but a packet of a device that has workers is sent from here: there is none.
            self.hypervisor.step(self.crew.common().now(), |_, _, _| {});
            self.hear();
            self.board.free_retired();
            // One a turn: there may be many vPDPs, and operators and controllers wait.
            if let Ok(ask) = self.asked.try_recv() {
                // Who asked may have gone.
                let _ = ask.send(self.shots());
            }
            if let Some(signal) = early.take_signal() {
                return Ok(Ending::Stopped(signal));
            }
            if self.crew.has_no_port_left() {
                return Ok(Ending::NoPortLeft);
            }
            if has_ended() {
                // Joining says why.
                return Ok(Ending::Done);
            }
            if !has_more && !self.improve() {
                self.sleep(early, &mut poller)?;
            }
        }
    }

    /// Does what controllers want done; whether there is more of it.
    fn serve(&mut self) -> bool {
        let mut has_more = false;
        for (id, tenant) in &mut self.tenants {
            let Some(device) = self.hypervisor.device_mut(*id) else {
                continue;
            };
            tenant.inbox.look_for_idle(device);
            has_more |= tenant.inbox.serve(device, false);
            let vpdp = format!("vPDP {id}: ");
            let mut note = |line: String| {
                if log::says(LevelFilter::ERROR) {
                    out::note(&format!("{vpdp}{line}"));
                }
            };
            has_more |= tenant.hear(device, &mut note);
        }
        has_more
    }

    /// Lets a table of one vPDP that nobody changes find entries faster; whether there is more of it.
    fn improve(&mut self) -> bool {
        let now = self.crew.common().now();
        let hypervisor = &mut self.hypervisor;
        self.tenants.iter_mut().any(|(id, tenant)| {
            let device = hypervisor.device_mut(*id);
            device.is_some_and(|device| tenant.spare.turn(device, now))
        })
    }

    /// Takes what stations say.
    fn hear(&mut self) {
        while let Some(told) = self.crew.hear() {
            match told {
                Told::Notice(line) => out::note(&line),
                Told::Link(port, is_up) => self.link_changed(port, is_up),
                // Nobody has asked for traces.
                Told::Traced(_) => {}
            }
        }
    }

    /// A port of the switch went down or came up: so did the virtual ports that are connected to it.
    fn link_changed(&mut self, port: PortId, is_up: bool) {
        match is_up {
            true => self.down.remove(&port),
            false => self.down.insert(port),
        };
        for vpdp in self.hypervisor.vpdps() {
            for number in self.connected_to(vpdp.id(), |to| to == port) {
                self.tell_port(vpdp.id(), number, is_up);
            }
        }
    }

    /// What a virtual port is connected to.
    fn connection(&self, port: VirtualPort) -> Connection {
        let ports = self.hypervisor.ports(port.vpdp);
        let to = usize::try_from(port.port).ok().and_then(|n| ports.get(n));
        to.copied().unwrap_or(Connection::Open)
    }

    /// The virtual ports that a change of what these are connected to concerns: they, and those
    /// that they are linked to.
    pub(super) fn with_peers(&self, ports: &[VirtualPort]) -> Vec<VirtualPort> {
        let mut all = ports.to_vec();
        all.extend(
            ports
                .iter()
                .filter_map(|port| match self.connection(*port) {
                    Connection::Link(peer) => Some(peer),
                    Connection::Physical(_) | Connection::Open => None,
                }),
        );
        all
    }

    /// Virtual ports may be connected to something else: they may be down there.
    pub(super) fn rewired(&self, ports: &[VirtualPort]) {
        for port in ports {
            let connection = self.connection(*port);
            let is_down = matches!(connection, Connection::Physical(to) if self.down.contains(&to));
            let (vpdp, number) = (port.vpdp, PortId(port.port));
            match connection {
                Connection::Open => self.server.port_disconnected(vpdp.get().into(), number),
                _ => self.tell_port(vpdp, number, !is_down),
            }
        }
    }

    /// The server learns which ports of a vPDP are down; it takes them to be up.
    fn tell_down(&self, id: VpdpId) {
        for port in self.connected_to(id, |to| self.down.contains(&to)) {
            self.tell_port(id, port, false);
        }
    }

    fn tell_port(&self, id: VpdpId, port: PortId, is_up: bool) {
        self.server.port_changed(id.get().into(), port, is_up);
    }

    /// The ports of a vPDP that are connected to something, but for that of its controllers.
    fn connected(&self, id: VpdpId) -> Vec<(PortId, String)> {
        let ports = (0..USUAL_CPU).map(PortId).zip(self.hypervisor.ports(id));
        let connected = ports.filter(|(_, to)| **to != Connection::Open);
        connected.map(|(port, _)| (port, String::new())).collect()
    }

    /// The ports of a vPDP that are connected to such ports of the switch.
    fn connected_to(&self, id: VpdpId, is_such: impl Fn(PortId) -> bool) -> Vec<PortId> {
        let ports = (0..).map(PortId).zip(self.hypervisor.ports(id));
        let such = ports.filter(|(_, to)| matches!(to, Connection::Physical(to) if is_such(*to)));
        such.map(|(port, _)| port).collect()
    }

    fn sleep(&self, early: &Early, poller: &mut Poller) -> Result<(), String> {
        let office = &self.crew.common().office;
        let inboxes = self.tenants.values().map(|tenant| tenant.inbox.wake_fd());
        let fds = early.signal_fd().into_iter().chain(inboxes);
        let fds = fds.chain([self.petitions.wake_fd(), office.before_sleep()]);
        let waited = poller.wait(fds, LONGEST_SLEEP);
        office.after_sleep();
        waited
            .map(drop)
            .map_err(|e| format!("cannot wait for signals: {e}"))
    }

    /// Lets controllers of a vPDP in, anew where they were in: another program runs there now.
    pub(super) fn connect(&mut self, id: VpdpId) -> Result<(), Denial> {
        self.disconnect(id);
        let Some(vpdp) = self.hypervisor.vpdp(id) else {
            return Ok(());
        };
        let Some(device) = vpdp.device() else {
            return Ok(());
        };
        let Ok(texts) = self.hypervisor.compiler(id) else {
            return Ok(());
        };
        let terms = Terms {
            texts,
            id,
            slots: self.hypervisor.slot_book().clone(),
            engine: Arc::clone(self.hypervisor.engine()),
            owner: vpdp.owner(),
            config: vpdp.config().clone(),
            program: (!self.runs_nothing(vpdp)).then(|| Arc::clone(device.program())),
            ports: self.connected(id),
        };
        let internal = |message: String| Denial {
            code: p4rt::Code::Internal,
            message,
        };
        let (tenant, cpu, setup) = tenant::connect(terms, device).map_err(internal)?;
        let added = self.server.add(setup);
        added.map_err(|error| internal(error.to_string()))?;
        self.tell_down(id);
        self.board.connect(id, cpu);
        self.wake_first_station();
        self.tenants.insert(id, tenant);
        Ok(())
    }

    /// What a vPDP runs is in other slots than what it ran before: nothing else has changed for its controllers.
    pub(super) fn replaced_by_like(&mut self, id: VpdpId, before: Option<Arc<Program>>) {
        let after = self.running(id);
        if let (Some(tenant), Some(before), Some(after)) =
            (self.tenants.get_mut(&id), before, after)
        {
            tenant.inbox.replaced_by_like(&before, after);
        }
    }

    /// Lets controllers of a vPDP in no longer.
    pub(super) fn disconnect(&mut self, id: VpdpId) {
        if self.tenants.remove(&id).is_some() {
            self.server.remove(id.get().into());
            self.board.disconnect(id);
            self.wake_first_station();
        }
    }

    /// Has devices of a vPDP's programs be set up as it is said now.
    pub(super) fn renew_config(&self, id: VpdpId) {
        if let (Some(tenant), Some(vpdp)) = (self.tenants.get(&id), self.hypervisor.vpdp(id)) {
            tenant.set_config(vpdp.config().clone());
        }
    }

    fn wake_first_station(&self) {
        if let Some(bell) = &self.first_station {
            bell.ring();
        }
    }

    /// Whether the switch has what a virtual port is to be connected to; links are looked at by the hypervisor.
    pub(super) fn has_port(&self, connection: Connection) -> bool {
        match connection {
            Connection::Physical(port) => self.ports.contains_key(&port),
            Connection::Open | Connection::Link(VirtualPort { .. }) => true,
        }
    }

    /// Whether all packets are accounted for; once nothing runs any more.
    ///
    /// # Errors
    /// They are not: a defect.
    pub(super) fn check_conservation(&mut self) -> Result<(), String> {
        self.hypervisor.step(self.crew.common().now(), |_, _, _| {});
        let checked = self.hypervisor.check_conservation();
        checked.map_err(|unbalanced| unbalanced.to_string())
    }
}
