//! Control loop of a switch that hosts virtual data planes. It runs on one thread beside the
//! workers and handles all that concerns several vPDPs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use exec::Engine;
use ir::Program;
use p4rt::{RequestReceiver, Server, TenancyError, TenancyRequest};
use packet::PortId;
use passes::slots::SlotPlan;
use port::{OpenedPort, Poller};
use support::wakeup::WakeupFd;
use tenancy::{Connection, TenantSwitch, VirtualPort, Vpdp, VpdpId};

use crate::control_loop::Ending;
use crate::cpu_port::DEFAULT_CPU;
use crate::metrics::{MetricsRequest, MetricsSource, Source};
use crate::observation::{DeviceObservation, ObservedPorts, ObserverOfVpdps, PacketObservers};
use crate::process_setup::ProcessSetup;
use crate::tenancy_host::audit_log;
use crate::tenancy_host::compile_job::Ready;
use crate::tenancy_host::packet_processor::{CpuPortRouter, Tenants};
use crate::tenancy_host::server::OperatorServer;
use crate::tenancy_host::stored::HostStorage;
use crate::tenancy_host::storing::Storing;
use crate::tenancy_host::vpdp_server::{self, Tenant, Terms};
use crate::tenancy_host::{cycle_accounting, packet_processor};
use crate::worker_pool::WorkerPool;
use crate::worker_thread::{Common, WorkerConfig, WorkerEvent};
use crate::{EMPTY_PROGRAM, RuntimeError, compile_bounds};

/// Maximum sleep of the control loop, and so the maximum delay of the programs' messages.
const MAX_SLEEP: Duration = Duration::from_millis(10);

/// Maximum number of operator requests between two turns of the controllers' packets.
const PETITIONS_A_TURN: usize = 8;

/// Maximum number of changes that are taken out of the operators' queue while another one is being
/// stored.
const MAX_WAITING: usize = 64;

/// Options of a switch that hosts virtual data planes.
pub struct HostOptions {
    /// Engine of all programs. Equal programs share their code.
    pub engine: Arc<dyn Engine>,
    /// Configuration of the workers.
    pub workers: WorkerConfig,
    /// Stage slots of the switch.
    pub slots: SlotPlan,
    /// True if each worker's processor is shared by the weights of vPDPs.
    pub is_fair: bool,
}

/// Event that the observer of a control loop handles at once.
pub enum HostEvent {
    /// A line about a port.
    Notice(String),
    /// A line that a vPDP's program wrote, or a part of it. Of each vPDP, ten lines per second are
    /// passed on.
    Message(VpdpId, String),
}

/// Control loop of a switch that hosts virtual data planes.
pub struct ControlLoop {
    pub(super) hypervisor: TenantSwitch,
    pub(super) crew: WorkerPool<Tenants>,
    pub(super) board: CpuPortRouter,
    first_station: Option<Arc<WakeupFd>>,
    pub(super) server: Server,
    petitions: RequestReceiver,
    /// The switch's ports, each with its packet I/O method.
    pub(super) ports: BTreeMap<PortId, String>,
    /// Ports that are down.
    down: BTreeSet<PortId>,
    pub(super) tenants: BTreeMap<VpdpId, Tenant>,
    /// Program of vPDPs that have none.
    pub(super) empty: Arc<Program>,
    pub(super) ready_in: Sender<Ready>,
    ready: Receiver<Ready>,
    /// Devices of compile threads that are not installed yet.
    made: VecDeque<Ready>,
    /// Storage of the vPDPs, if they are kept.
    pub(super) storage: Option<HostStorage>,
    /// Change that is being stored.
    pub(super) storing: Option<Storing>,
    /// Changes that wait until it is stored.
    waiting: VecDeque<TenancyRequest>,
    /// vPDP with a program that is being stored. Requests of its controllers wait.
    pub(super) held: Option<VpdpId>,
    ask: Sender<MetricsRequest>,
    /// Queue of requests for metrics.
    asked: Receiver<MetricsRequest>,
    /// Observers of the packets of vPDPs.
    vpdp_observers: Arc<PacketObservers>,
}

impl ControlLoop {
    /// Connects the ports, each with a different number, to a switch without vPDPs. The number of
    /// workers is the number of shares of each port.
    ///
    /// # Errors
    /// The operating system provides no descriptors.
    pub fn new(
        opened: Vec<OpenedPort>,
        server: OperatorServer,
        options: HostOptions,
    ) -> Result<ControlLoop, RuntimeError> {
        let ports = methods(&opened);
        let mut hypervisor = TenantSwitch::with_slots(options.engine, options.slots);
        hypervisor.set_compile_pool(compile_bounds::compile_pool());
        if options.is_fair {
            hypervisor.set_fairness(Some(cycle_accounting::fairness()));
        }
        let mut board = None;
        let observers = Arc::<PacketObservers>::default();
        let crew = WorkerPool::new(opened, options.workers, |workers, _| {
            let mut workers = hypervisor.workers(workers);
            for (number, worker) in workers.iter_mut().enumerate() {
                worker.measure_by(cycle_accounting::Cycles::default());
                worker.observe_by(Box::new(ObserverOfVpdps::new(number, &observers)));
            }
            let (tenants, made) = packet_processor::stations(workers, options.is_fair);
            board = Some(made);
            tenants
        })?;
        let board = board.ok_or(RuntimeError::NoPort)?;
        let (ready_in, ready) = channel();
        let (ask, asked) = channel();
        let empty = driver::compile_text("empty.p4", EMPTY_PROGRAM);
        let empty = Arc::new(empty.map_err(RuntimeError::Compile)?);
        hypervisor.set_stand_in(Arc::clone(&empty));
        Ok(ControlLoop {
            hypervisor,
            first_station: crew.first_bell(),
            crew,
            board,
            server: server.server,
            petitions: server.requests,
            ports,
            down: BTreeSet::new(),
            tenants: BTreeMap::new(),
            empty,
            ready_in,
            ready,
            made: VecDeque::new(),
            storage: None,
            storing: None,
            waiting: VecDeque::new(),
            held: None,
            ask,
            asked,
            vpdp_observers: observers,
        })
    }

    /// Returns true if a vPDP has no program and runs the empty one. A comparison with that
    /// program would not work: a running program is always fitted to the stage slots.
    pub(super) fn runs_nothing(&self, vpdp: &Vpdp) -> bool {
        !self.hypervisor.is_programmed(vpdp)
    }

    /// Returns the state shared with the workers. It has the wake-up descriptor of the control
    /// loop.
    pub(super) fn common(&self) -> &Arc<Common> {
        self.crew.common()
    }

    /// Returns the observers of the packets at the switch's ports.
    pub fn observers(&self) -> &Arc<PacketObservers> {
        self.crew.observers()
    }

    /// Returns the source of the metrics of the switch and of its vPDPs.
    pub fn metrics(&self) -> MetricsSource {
        MetricsSource::new(Source::Host(self.ask.clone()), None)
    }

    /// Hosts vPDPs until an event ends it. `observe` receives the events.
    ///
    /// # Errors
    /// The operating system provides no threads, or the process cannot wait for its ports.
    pub fn run(
        &mut self,
        process: &ProcessSetup,
        observe: &mut dyn FnMut(HostEvent),
    ) -> Result<Ending, RuntimeError> {
        let threads = self.crew.take_threads();
        threads.run(|has_ended| self.look_after(process, has_ended, observe))
    }

    fn look_after(
        &mut self,
        process: &ProcessSetup,
        has_ended: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(HostEvent),
    ) -> Result<Ending, RuntimeError> {
        let mut poller = Poller::new();
        loop {
            let has_more = self.turn(observe);
            if let Some(signal) = process.take_signal() {
                return Ok(Ending::Stopped(signal));
            }
            if self.crew.has_no_port_left() {
                return Ok(Ending::NoPortLeft);
            }
            if has_ended() {
                // Joining the threads gives the reason.
                return Ok(Ending::Done);
            }
            if !has_more && !self.improve() {
                self.sleep(process, &mut poller)?;
            }
        }
    }

    /// Does the work that is due: [`ControlLoop::run`] without its workers. `observe` receives the
    /// events. Returns true if there is more.
    pub fn turn(&mut self, observe: &mut dyn FnMut(HostEvent)) -> bool {
        self.finish_storing();
        self.retry_storing();
        let mut petitions = 0;
        while petitions < PETITIONS_A_TURN
            && let Some(petition) = self.next_petition()
        {
            petitions += 1;
            match petition {
                TenancyRequest::Change(asker, asked, answer) => {
                    let answer = audit_log::noted(asker, &asked, answer);
                    self.change(*asked, answer);
                }
                TenancyRequest::Show(viewer, asked, answer) => {
                    answer.give(self.show(&viewer, &asked));
                }
            }
        }
        self.install_made();
        let has_more = self.serve(observe) || petitions == PETITIONS_A_TURN;
        // The sink is never called: all devices have workers, which send their packets.
        self.hypervisor.step(self.crew.now(), |_, _, _| {});
        self.hear(observe);
        self.board.free_retired();
        // One per turn: there may be many vPDPs, and operators and controllers wait.
        if let Ok(ask) = self.asked.try_recv() {
            // The requester may have gone.
            let _ = ask.send(self.shots());
        }
        has_more
    }

    /// Returns the next request of an operator that can be served. Changes wait while one is being
    /// stored.
    fn next_petition(&mut self) -> Option<TenancyRequest> {
        loop {
            if !self.is_storing()
                && let Some(change) = self.waiting.pop_front()
            {
                return Some(change);
            }
            if self.waiting.len() >= MAX_WAITING {
                return None;
            }
            match self.petitions.take()? {
                change @ TenancyRequest::Change(..) if self.is_storing() => {
                    self.waiting.push_back(change);
                }
                petition => return Some(petition),
            }
        }
    }

    /// Installs the devices of compile threads, one after the other.
    fn install_made(&mut self) {
        while let Ok(ready) = self.ready.try_recv() {
            self.made.push_back(ready);
        }
        while !self.is_storing()
            && let Some(place) = self.made.iter().position(|ready| !self.must_wait(ready))
            && let Some(ready) = self.made.remove(place)
        {
            self.programmed(ready);
        }
    }

    /// Returns true if a program that a controller has set is being stored for the same vPDP.
    fn must_wait(&self, ready: &Ready) -> bool {
        let vpdp = ready.vpdp().and_then(|id| self.hypervisor.vpdp(id));
        let device = vpdp.and_then(Vpdp::device);
        device.is_some_and(|device| device.is_provisional())
    }

    /// Executes the controllers' requests. Returns true if there are more.
    fn serve(&mut self, observe: &mut dyn FnMut(HostEvent)) -> bool {
        let mut has_more = false;
        let held = self.held;
        let tenants = self.tenants.iter_mut();
        for (id, tenant) in tenants.filter(|(id, _)| held != Some(**id)) {
            let Some(device) = self.hypervisor.device_mut(*id) else {
                continue;
            };
            tenant.summaries.turn(device);
            tenant.inbox.look_for_idle(device);
            has_more |= tenant.inbox.serve(device, false);
            let mut note = |line: String| observe(HostEvent::Message(*id, line));
            has_more |= tenant.hear(device, &mut note);
        }
        has_more
    }

    /// Optimizes the index of one table that is not being changed. Returns true if there is more
    /// work.
    fn improve(&mut self) -> bool {
        let now = self.crew.now();
        let (hypervisor, held) = (&mut self.hypervisor, self.held);
        let mut tenants = self.tenants.iter_mut();
        tenants.any(|(id, tenant)| {
            if held == Some(*id) {
                return false;
            }
            let device = hypervisor.device_mut(*id);
            device.is_some_and(|device| tenant.spare.turn(device, now))
        })
    }

    /// Handles the events of the workers.
    fn hear(&mut self, observe: &mut dyn FnMut(HostEvent)) {
        while let Some(told) = self.crew.next_event() {
            match told {
                WorkerEvent::Notice(line) => observe(HostEvent::Notice(line)),
                WorkerEvent::Link(port, is_up) => self.link_changed(port, is_up),
                // Tracing is never enabled here.
                WorkerEvent::Observed(observed) => {
                    let vpdp = observed.vpdp.and_then(|id| self.hypervisor.vpdp(id));
                    if let Some(device) = vpdp.and_then(Vpdp::device) {
                        observed.send(device);
                    }
                }
                WorkerEvent::Traced(_) => {}
            }
        }
    }

    /// Handles a link change of a switch port. It changes the virtual ports that are connected to
    /// the port.
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

    /// Returns the connection of a virtual port.
    fn connection(&self, port: VirtualPort) -> Connection {
        let ports = self.hypervisor.ports(port.vpdp);
        let to = usize::try_from(port.port).ok().and_then(|n| ports.get(n));
        to.copied().unwrap_or(Connection::Open)
    }

    /// Returns the virtual ports that are affected by a new connection of these ports: the ports
    /// and their link peers.
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

    /// Reports the link states of virtual ports to the server after their connections may have
    /// changed.
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

    /// Reports the ports of a vPDP that are down to the server, which assumes that they are up.
    fn tell_down(&self, id: VpdpId) {
        for port in self.connected_to(id, |to| self.down.contains(&to)) {
            self.tell_port(id, port, false);
        }
    }

    fn tell_port(&self, id: VpdpId, port: PortId, is_up: bool) {
        self.server.port_changed(id.get().into(), port, is_up);
    }

    /// Returns the connected ports of a vPDP, without its CPU port.
    fn connected(&self, id: VpdpId) -> Vec<(PortId, String)> {
        let ports = (0..DEFAULT_CPU).map(PortId).zip(self.hypervisor.ports(id));
        let connected = ports.filter(|(_, to)| **to != Connection::Open);
        connected.map(|(port, _)| (port, String::new())).collect()
    }

    /// Returns the ports of a vPDP that are connected to these ports of the switch.
    fn connected_to(&self, id: VpdpId, is_such: impl Fn(PortId) -> bool) -> Vec<PortId> {
        let ports = (0..).map(PortId).zip(self.hypervisor.ports(id));
        let such = ports.filter(|(_, to)| matches!(to, Connection::Physical(to) if is_such(*to)));
        such.map(|(port, _)| port).collect()
    }

    fn sleep(&self, process: &ProcessSetup, poller: &mut Poller) -> Result<(), RuntimeError> {
        let office = &self.crew.common().office;
        let tenants = self.tenants.iter();
        let served = tenants.filter(|(id, _)| self.held != Some(**id));
        let inboxes = served.map(|(_, tenant)| tenant.inbox.wake_fd());
        let fds = process.signal_fd().into_iter().chain(inboxes);
        let has_room = self.waiting.len() < MAX_WAITING;
        let petitions = has_room.then(|| self.petitions.wake_fd());
        let fds = fds.chain(petitions).chain([office.before_sleep()]);
        let waited = poller.wait(fds, MAX_SLEEP);
        office.after_sleep();
        waited
            .map(drop)
            .map_err(RuntimeError::system("wait for signals"))
    }

    /// Connects the controllers of a vPDP. Existing connections are replaced, because another
    /// program runs now.
    pub(super) fn connect(&mut self, id: VpdpId) -> Result<(), TenancyError> {
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
        let internal = |message: String| TenancyError {
            code: p4rt::Code::Internal,
            message,
        };
        let (tenant, cpu, setup) =
            vpdp_server::connect(terms, device).map_err(|error| internal(error.to_string()))?;
        let ports = setup.ports.clone();
        let added = self.server.add(setup);
        added.map_err(|error| internal(error.to_string()))?;
        let observation = DeviceObservation {
            observers: Arc::clone(&self.vpdp_observers),
            events: self.crew.events().clone(),
            summaries: tenant.summaries.clone(),
            ports: Arc::new(ObservedPorts::new(&ports)),
            vpdp: Some(id),
        };
        let device = id.get().into();
        self.server.observe_by(device, Arc::new(observation));
        self.tell_down(id);
        self.board.connect(id, cpu);
        self.wake_first_station();
        self.tenants.insert(id, tenant);
        Ok(())
    }

    /// Reports that a vPDP's program was moved to other stage slots. Nothing else changes for its
    /// controllers.
    pub(super) fn replaced_by_like(&mut self, id: VpdpId, before: Option<Arc<Program>>) {
        let after = self.running(id);
        if let (Some(tenant), Some(before), Some(after)) =
            (self.tenants.get_mut(&id), before, after)
        {
            tenant.inbox.replaced_by_like(&before, after);
        }
    }

    /// Disconnects the controllers of a vPDP.
    pub(super) fn disconnect(&mut self, id: VpdpId) {
        if self.tenants.remove(&id).is_some() {
            self.server.remove(id.get().into());
            self.board.disconnect(id);
            self.wake_first_station();
        }
    }

    /// Updates the device configuration for future programs of a vPDP.
    pub(super) fn renew_config(&self, id: VpdpId) {
        if let (Some(tenant), Some(vpdp)) = (self.tenants.get(&id), self.hypervisor.vpdp(id)) {
            tenant.set_config(vpdp.config().clone());
        }
    }

    fn wake_first_station(&self) {
        if let Some(bell) = &self.first_station {
            bell.wake();
        }
    }

    /// Returns true if the switch has the target of a connection. The hypervisor checks links.
    pub(super) fn has_port(&self, connection: Connection) -> bool {
        match connection {
            Connection::Physical(port) => self.ports.contains_key(&port),
            Connection::Open | Connection::Link(VirtualPort { .. }) => true,
        }
    }

    /// Checks packet conservation after all workers have ended.
    ///
    /// # Errors
    /// The counts do not add up, which is a defect.
    pub fn check_conservation(&mut self) -> Result<(), RuntimeError> {
        self.hypervisor.step(self.crew.now(), |_, _, _| {});
        let checked = self.hypervisor.check_conservation();
        checked.map_err(RuntimeError::Conservation)
    }
}

/// Returns the packet I/O method of each port.
fn methods(opened: &[OpenedPort]) -> BTreeMap<PortId, String> {
    let ports = opened.iter().filter_map(|OpenedPort { shares, how }| {
        let port = shares.first()?;
        Some((port.id(), how.clone()))
    });
    ports.collect()
}
