//! The control side: creates, changes and deletes virtual data planes while packets go through them. It owns no thread and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use exec::{DropReason, Engine};
use ir::Program;
use packet::{Frame, Nanos, PortId};
use switch::{Carry, Device, DeviceConfig, Ledger, Migration, Unbalanced};

use crate::classifier::Classifier;
use crate::compiler::BoundedCompiler;
use crate::desk::{Desk, Seat};
use crate::function::Function;
use crate::gate::Gate;
use crate::quota::Quotas;
use crate::refusal::{Refusal, Use};
use crate::root::{Admission, Exit, Inlet, Root, Slot, Tenant};
use crate::rule::Rule;
use crate::share::Fairness;
use crate::vpdp::{Connection, VirtualPort, VpdpId};
use crate::wiring::{Sharing, Wiring};
use crate::worker::{MAX_HOPS, MOST_LINKED, Worker};

/// What a vPDP is made of.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Its number; the least that is free without it.
    pub id: Option<VpdpId>,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub owner: String,
    /// What its ports are connected to, from port 0 on.
    pub ports: Vec<Connection>,
    /// What it may use.
    pub quotas: Quotas,
    /// How its device is set up; its limits are those of the quotas.
    pub device: DeviceConfig,
}

impl Spec {
    /// How its device is set up, with the limits of its quotas.
    fn config(&self) -> DeviceConfig {
        DeviceConfig {
            limits: self.quotas.limits,
            ..self.device.clone()
        }
    }
}

/// A virtual data plane.
pub struct Vpdp {
    id: VpdpId,
    name: String,
    owner: String,
    quotas: Quotas,
    compiler: BoundedCompiler,
    config: DeviceConfig,
    slot: Slot,
    gate: Arc<Gate>,
    is_suspended: bool,
    loaded: Option<Loaded>,
}

/// A vPDP's program and state.
struct Loaded {
    device: Box<Device>,
    /// Of its seats.
    serial: u64,
    /// Workers that have not given back its seat.
    seats: usize,
    function: Function,
    /// What the function was made: another one runs if a controller has set it on the device itself.
    program: Arc<Program>,
    /// What it did before.
    before: Option<Function>,
}

impl Loaded {
    /// What it does, and what it did before: also if a controller has set a program meanwhile.
    fn functions(&self) -> (Function, Option<Function>) {
        let running = self.device.program();
        match Arc::ptr_eq(running, &self.program) {
            true => (self.function.clone(), self.before.clone()),
            false => (
                Function::Program(Arc::clone(running)),
                Some(self.function.clone()),
            ),
        }
    }

    /// Notices a program that a controller has set.
    fn catch_up(&mut self) {
        if !Arc::ptr_eq(self.device.program(), &self.program) {
            (self.function, self.before) = self.functions();
            self.program = Arc::clone(self.device.program());
        }
    }
}

impl Vpdp {
    /// Its number.
    pub fn id(&self) -> VpdpId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What it may use.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// How its device is set up.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// Whether it takes no packets for now.
    pub fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Its program, tables, state and counts; nothing before a program is loaded.
    pub fn device(&self) -> Option<&Device> {
        self.loaded.as_ref().map(|loaded| &*loaded.device)
    }

    /// Its program, or the chain of which its program was made. A program that a controller has set on the device is noticed by
    /// [`Hypervisor::step`].
    pub fn function(&self) -> Option<&Function> {
        self.loaded.as_ref().map(|loaded| &loaded.function)
    }

    fn admission(&self) -> Admission {
        match (&self.loaded, self.is_suspended) {
            (_, true) => Admission::Closed(DropReason::Suspended),
            (None, false) => Admission::Closed(DropReason::NoProgram),
            (Some(_), false) => Admission::Open,
        }
    }
}

/// All of a vPDP's own, to be taken to another switch.
#[derive(Clone, Debug)]
pub struct Exported {
    /// What it is made of; its number is a wish no more, and its ports are open.
    pub spec: Spec,
    /// Whether it takes no packets for now.
    pub is_suspended: bool,
    /// Its program and state.
    pub state: Option<ExportedState>,
}

/// A program and its state.
#[derive(Clone, Debug)]
pub struct ExportedState {
    /// The program or chain.
    pub function: Function,
    /// What it was before.
    pub before: Option<Function>,
    /// Its state, object by object.
    pub objects: Vec<(switch::Place, switch::Object)>,
}

/// A device that is not needed any more, as long as packets are in it.
struct Departing {
    device: Box<Device>,
    serial: u64,
    /// Workers that have not given back its seat.
    seats: usize,
}

/// The virtual data planes of a switch.
pub struct Hypervisor {
    engine: Arc<dyn Engine>,
    vpdps: BTreeMap<VpdpId, Vpdp>,
    wiring: Wiring,
    classifier: Option<Arc<Classifier>>,
    fairness: Option<Fairness>,
    desks: Vec<Arc<Desk>>,
    root: Arc<Root>,
    /// Roots that workers may still refer to: freeing one takes time that packets do not have.
    retired: Vec<Arc<Root>>,
    /// Slots of vPDPs that are no more, to which links of retired roots may still lead: no other vPDP gets them yet.
    barred: Vec<Slot>,
    departing: Vec<Departing>,
    /// How many devices had seats.
    serials: u64,
    /// Packets of devices that are gone, and those that the control side refused.
    ledger: Ledger,
    /// Packets that the control side has taken over links.
    linked: u64,
    now: Nanos,
}

impl Hypervisor {
    /// A switch without virtual data planes. Their programs run on this engine.
    pub fn new(engine: Arc<dyn Engine>) -> Hypervisor {
        Hypervisor {
            engine,
            vpdps: BTreeMap::new(),
            wiring: Wiring::default(),
            classifier: None,
            fairness: None,
            desks: Vec::new(),
            root: Arc::default(),
            retired: Vec::new(),
            barred: Vec::new(),
            departing: Vec::new(),
            serials: 0,
            ledger: Ledger::default(),
            linked: 0,
            now: Nanos::ZERO,
        }
    }

    /// All virtual data planes, by their numbers.
    pub fn vpdps(&self) -> impl Iterator<Item = &Vpdp> {
        self.vpdps.values()
    }

    /// One of them.
    pub fn vpdp(&self, id: VpdpId) -> Option<&Vpdp> {
        self.vpdps.get(&id)
    }

    /// The device of a vPDP with a program, to be written to; workers see what was written once it is published.
    pub fn device_mut(&mut self, id: VpdpId) -> Option<&mut Device> {
        let loaded = self.vpdps.get_mut(&id)?.loaded.as_mut()?;
        Some(&mut loaded.device)
    }

    /// What compiles a vPDP's texts within its quotas, for a thread that may wait.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn compiler(&self, id: VpdpId) -> Result<BoundedCompiler, Refusal> {
        Ok(self.find(id)?.compiler.clone())
    }

    /// What a vPDP's ports are connected to.
    pub fn ports(&self, id: VpdpId) -> &[Connection] {
        self.wiring.ports.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Ports of the switch that several vPDPs share, and how.
    pub fn shared(&self) -> impl Iterator<Item = (PortId, Sharing)> {
        self.wiring
            .shared
            .iter()
            .map(|(port, sharing)| (*port, *sharing))
    }

    /// All rules, in the order in which they came.
    pub fn rules(&self) -> &[Rule] {
        &self.wiring.rules
    }

    fn find(&self, id: VpdpId) -> Result<&Vpdp, Refusal> {
        self.vpdps.get(&id).ok_or(Refusal::NoSuchVpdp(id))
    }

    fn find_mut(&mut self, id: VpdpId) -> Result<&mut Vpdp, Refusal> {
        self.vpdps.get_mut(&id).ok_or(Refusal::NoSuchVpdp(id))
    }

    fn loaded_mut(&mut self, id: VpdpId) -> Result<&mut Loaded, Refusal> {
        let loaded = self.find_mut(id)?.loaded.as_mut();
        loaded.ok_or(Refusal::NoProgram(id))
    }

    /// Makes a vPDP without a program.
    ///
    /// # Errors
    /// Its number, its name or one of its ports is another one's.
    pub fn create(&mut self, spec: Spec) -> Result<VpdpId, Refusal> {
        let id = self.free_number(spec.id)?;
        if let Some(other) = self.vpdps.values().find(|vpdp| vpdp.name == spec.name) {
            return Err(Refusal::NameTaken(spec.name, other.id));
        }
        let config = spec.config();
        let (links, ports): (Vec<_>, Vec<_>) = {
            let ports = (0..).zip(spec.ports);
            ports.partition(|(_, connection)| matches!(connection, Connection::Link(_)))
        };
        let count = links.len() + ports.len();
        let (wiring, classifier) = self.rewired(|wiring| {
            wiring.ports.insert(id, vec![Connection::Open; count]);
            for (port, connection) in ports {
                wiring.connect(VirtualPort { vpdp: id, port }, connection)?;
            }
            for (port, connection) in links {
                let port = VirtualPort { vpdp: id, port };
                // Of a link within the vPDP the other end has made it.
                if let Connection::Link(other) = connection
                    && wiring.connection(port)? != Connection::Link(other)
                {
                    wiring.link(port, other)?;
                }
            }
            Ok(())
        })?;
        let vpdp = Vpdp {
            id,
            config,
            name: spec.name,
            owner: spec.owner,
            gate: Arc::new(Gate::new(&spec.quotas, self.now)),
            compiler: BoundedCompiler::new(spec.quotas.compile),
            quotas: spec.quotas,
            slot: self.free_slot(),
            is_suspended: false,
            loaded: None,
        };
        self.vpdps.insert(id, vpdp);
        self.rewire(wiring, classifier);
        Ok(id)
    }

    /// The number of a vPDP that is to have this one, or any.
    fn free_number(&self, wanted: Option<VpdpId>) -> Result<VpdpId, Refusal> {
        let is_free = |id: &VpdpId| !self.vpdps.contains_key(id);
        match wanted {
            Some(id) if is_free(&id) => Ok(id),
            Some(id) => Err(Refusal::NumberTaken(id)),
            None => VpdpId::all().find(is_free).ok_or(Refusal::NoNumberLeft),
        }
    }

    fn free_slot(&self) -> Slot {
        let slots = self.vpdps.values().map(|vpdp| vpdp.slot);
        let slots = slots.chain(self.barred.iter().copied());
        let mut taken: Vec<u32> = slots.map(|slot| slot.0).collect();
        taken.sort_unstable();
        let free = (0..).zip(&taken).find(|(slot, taken)| slot != *taken);
        Slot(free.map_or(taken.len() as u32, |(slot, _)| slot))
    }

    /// Deletes a vPDP. Packets inside finish.
    ///
    /// # Errors
    /// Links or rules lead to it.
    pub fn delete(&mut self, id: VpdpId) -> Result<(), Refusal> {
        self.find(id)?;
        if let Some((port, other)) = self.wiring.links_of(id).next() {
            return Err(Refusal::InUse(id, Use::Link(port, other)));
        }
        if let Some(rule) = self.wiring.rules.iter().find(|rule| rule.vpdp == id) {
            return Err(Refusal::InUse(id, Use::Rule(rule.name.clone())));
        }
        let (wiring, classifier) = self.rewired(|wiring| {
            wiring.ports.remove(&id);
            Ok(())
        })?;
        if let Some(vpdp) = self.vpdps.remove(&id) {
            self.barred.push(vpdp.slot);
            if let Some(loaded) = vpdp.loaded {
                self.depart(loaded);
            }
        }
        self.rewire(wiring, classifier);
        Ok(())
    }

    fn depart(&mut self, loaded: Loaded) {
        self.departing.push(Departing {
            device: loaded.device,
            serial: loaded.serial,
            seats: loaded.seats,
        });
    }

    /// Lets no packets in for now; those inside finish.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn suspend(&mut self, id: VpdpId) -> Result<(), Refusal> {
        self.find_mut(id)?.is_suspended = true;
        self.publish(Vec::new());
        Ok(())
    }

    /// Lets packets in again.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn resume(&mut self, id: VpdpId) -> Result<(), Refusal> {
        self.find_mut(id)?.is_suspended = false;
        self.publish(Vec::new());
        Ok(())
    }

    /// Gives a vPDP other quotas. What it has used of its rates is forgotten.
    ///
    /// # Errors
    /// There is no such vPDP, or it holds more already.
    pub fn set_quotas(&mut self, id: VpdpId, quotas: Quotas) -> Result<(), Refusal> {
        let now = self.now;
        let vpdp = self.find_mut(id)?;
        if let Some(loaded) = &mut vpdp.loaded {
            let set = loaded.device.set_limits(quotas.limits);
            set.map_err(|error| Refusal::Exceeded(id, error))?;
        }
        vpdp.config.limits = quotas.limits;
        vpdp.compiler.set_quota(quotas.compile);
        vpdp.gate = Arc::new(Gate::new(&quotas, now));
        vpdp.quotas = quotas;
        self.publish(Vec::new());
        Ok(())
    }

    /// Shares processors fairly among vPDPs while they ask for more than there is; or no longer.
    pub fn set_fairness(&mut self, fairness: Option<Fairness>) {
        self.fairness = fairness;
        self.publish(Vec::new());
    }

    /// Loads a vPDP's first program or chain.
    ///
    /// # Errors
    /// It has one; the chain does not fit together; the engine does not run it; it does not fit the vPDP's quotas.
    pub fn load(&mut self, id: VpdpId, function: impl Into<Function>) -> Result<(), Refusal> {
        let function = function.into();
        let vpdp = self.find(id)?;
        if vpdp.loaded.is_some() {
            return Err(Refusal::HasProgram(id));
        }
        let device = self.device(id, &vpdp.name, &vpdp.config, &function)?;
        self.seat(id, device, function, None)
    }

    fn device(
        &self,
        id: VpdpId,
        name: &str,
        config: &DeviceConfig,
        function: &Function,
    ) -> Result<Device, Refusal> {
        let composed = function.program(name);
        let program = composed.map_err(|error| Refusal::Compose(id, Box::new(error)))?;
        let made = Device::new(program, &*self.engine, config);
        made.map_err(|error| Refusal::load(id, &error))
    }

    /// Gives a vPDP a device, with a seat on each worker.
    fn seat(
        &mut self,
        id: VpdpId,
        mut device: Device,
        function: Function,
        before: Option<Function>,
    ) -> Result<(), Refusal> {
        self.serials += 1;
        let serial = self.serials;
        device.step(self.now);
        let workers = device.workers(self.desks.len());
        let vpdp = self.find_mut(id)?;
        vpdp.loaded = Some(Loaded {
            program: Arc::clone(device.program()),
            device: Box::new(device),
            serial,
            seats: workers.len(),
            function,
            before,
        });
        let slot = vpdp.slot;
        let seats = workers.into_iter().zip(&self.desks);
        let seats = seats.map(|(worker, desk)| vec![new_seat(slot, serial, worker, desk)]);
        self.publish(seats.collect());
        Ok(())
    }

    /// Runs another program or chain in place of a vPDP's; packets inside finish on the old one. What becomes of the state is as docs/MIGRATION.md tells.
    ///
    /// # Errors
    /// It has none; the chain does not fit together; the engine does not run the new one, which does not fit the vPDP's quotas, or would lose state that it may not.
    pub fn update(
        &mut self,
        id: VpdpId,
        function: impl Into<Function>,
        carry: Carry,
    ) -> Result<Migration, Refusal> {
        let function = function.into();
        self.loaded_mut(id)?.catch_up();
        let vpdp = self.find(id)?;
        let new = self.device(id, &vpdp.name, &vpdp.config, &function)?;
        let loaded = self.loaded_mut(id)?;
        let adopted = loaded.device.adopt(new, carry);
        let migration = adopted.map_err(|error| Refusal::Update(id, error))?;
        loaded.device.publish();
        loaded.program = Arc::clone(loaded.device.program());
        loaded.before = Some(std::mem::replace(&mut loaded.function, function));
        Ok(migration)
    }

    /// Goes back to the program or chain before the last update, with what of the state has a place there.
    ///
    /// # Errors
    /// There was none.
    pub fn roll_back(&mut self, id: VpdpId) -> Result<Migration, Refusal> {
        let (_, before) = self.loaded_mut(id)?.functions();
        let before = before.ok_or(Refusal::NothingBefore(id))?;
        self.update(id, before, Carry::State(switch::MayLose::Anything))
    }

    /// Removes a vPDP's program and its state. Packets inside finish.
    ///
    /// # Errors
    /// It has none.
    pub fn unload(&mut self, id: VpdpId) -> Result<(), Refusal> {
        let loaded = self.find_mut(id)?.loaded.take();
        let loaded = loaded.ok_or(Refusal::NoProgram(id))?;
        self.depart(loaded);
        self.publish(Vec::new());
        Ok(())
    }

    /// All that is a vPDP's own. It goes on here.
    ///
    /// # Errors
    /// There is no such vPDP.
    pub fn export(&self, id: VpdpId) -> Result<Exported, Refusal> {
        let vpdp = self.find(id)?;
        let state = vpdp.loaded.as_ref().map(|loaded| {
            let (function, before) = loaded.functions();
            ExportedState {
                function,
                before,
                objects: loaded.device.objects(),
            }
        });
        Ok(Exported {
            spec: Spec {
                id: Some(id),
                name: vpdp.name.clone(),
                owner: vpdp.owner.clone(),
                ports: vec![Connection::Open; self.ports(id).len()],
                quotas: vpdp.quotas.clone(),
                device: vpdp.config.clone(),
            },
            is_suspended: vpdp.is_suspended,
            state,
        })
    }

    /// Makes a vPDP of what was exported, with its state.
    ///
    /// # Errors
    /// As of [`Hypervisor::create`] and [`Hypervisor::load`].
    pub fn import(&mut self, exported: Exported) -> Result<VpdpId, Refusal> {
        let Exported {
            mut spec,
            is_suspended,
            state,
        } = exported;
        let id = self.free_number(spec.id)?;
        spec.id = Some(id);
        // All that may be refused comes before the first change, or is refused by it.
        let restored = match state {
            Some(state) => {
                let mut device = self.device(id, &spec.name, &spec.config(), &state.function)?;
                device.restore(state.objects).map_err(Refusal::Import)?;
                Some((device, state.function, state.before))
            }
            None => None,
        };
        self.create(spec)?;
        if is_suspended {
            self.suspend(id)?;
        }
        if let Some((device, function, before)) = restored {
            self.seat(id, device, function, before)?;
        }
        Ok(id)
    }

    /// Connects a virtual port to a port of the switch, or to nothing.
    ///
    /// # Errors
    /// It is linked; the port of the switch is another one's.
    pub fn connect(&mut self, port: VirtualPort, to: Option<PortId>) -> Result<(), Refusal> {
        self.find(port.vpdp)?;
        let (wiring, classifier) = self.rewired(|wiring| {
            if let Connection::Link(_) = wiring.connection(port)? {
                return Err(crate::WiringError::Connected(port));
            }
            wiring.connect(port, to.map_or(Connection::Open, Connection::Physical))
        })?;
        self.rewire(wiring, classifier);
        Ok(())
    }

    /// Connects two open virtual ports by a link: what leaves at one comes in at the other.
    ///
    /// # Errors
    /// One of them is not there, or not open.
    pub fn link(&mut self, one: VirtualPort, other: VirtualPort) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.link(one, other))
    }

    /// Removes the link of a virtual port; both ends are open then.
    ///
    /// # Errors
    /// It has none.
    pub fn unlink(&mut self, port: VirtualPort) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.unlink(port))
    }

    /// Says how several vPDPs share a port of the switch; or that one has it for itself.
    ///
    /// # Errors
    /// Several have it; a rule is about it.
    pub fn share(&mut self, port: PortId, sharing: Option<Sharing>) -> Result<(), Refusal> {
        self.share_ports([port], sharing)
    }

    /// [`Hypervisor::share`] of several ports, checked and published as one change.
    ///
    /// # Errors
    /// Several vPDPs have one of them; a rule is about it.
    pub fn share_ports(
        &mut self,
        ports: impl IntoIterator<Item = PortId>,
        sharing: Option<Sharing>,
    ) -> Result<(), Refusal> {
        self.change_wiring(|wiring| {
            for port in ports {
                match sharing {
                    Some(sharing) => wiring.shared.insert(port, sharing),
                    None => wiring.shared.remove(&port),
                };
            }
            Ok(())
        })
    }

    /// Adds a rule that leads packets of shared ports to a vPDP.
    ///
    /// # Errors
    /// It makes no sense, or overlaps with another one.
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), Refusal> {
        self.add_rules([rule])
    }

    /// Adds rules, all or none of them, as one change.
    ///
    /// # Errors
    /// One makes no sense, or overlaps with another one.
    pub fn add_rules(&mut self, rules: impl IntoIterator<Item = Rule>) -> Result<(), Refusal> {
        self.change_wiring(|wiring| rules.into_iter().try_for_each(|rule| wiring.add_rule(rule)))
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn remove_rule(&mut self, name: &str) -> Result<(), Refusal> {
        self.change_wiring(|wiring| wiring.remove_rule(name))
    }

    fn change_wiring(
        &mut self,
        change: impl FnOnce(&mut Wiring) -> Result<(), crate::WiringError>,
    ) -> Result<(), Refusal> {
        let (wiring, classifier) = self.rewired(change)?;
        self.rewire(wiring, classifier);
        Ok(())
    }

    /// A changed copy of the wiring, checked as a whole, and the table of its rules.
    fn rewired(
        &self,
        change: impl FnOnce(&mut Wiring) -> Result<(), crate::WiringError>,
    ) -> Result<(Wiring, Option<Classifier>), Refusal> {
        let mut wiring = self.wiring.clone();
        change(&mut wiring)?;
        let classifier = wiring.check()?;
        Ok((wiring, classifier))
    }

    fn rewire(&mut self, wiring: Wiring, classifier: Option<Classifier>) {
        self.wiring = wiring;
        self.classifier = classifier.map(Arc::new);
        self.publish(Vec::new());
    }

    /// Lets workers see what was changed, with new seats for each of them.
    fn publish(&mut self, seats: Vec<Vec<Seat>>) {
        let tenants: Vec<Tenant> = self
            .vpdps
            .values()
            .map(|vpdp| Tenant {
                vpdp: vpdp.id,
                slot: vpdp.slot,
                serial: vpdp.loaded.as_ref().map_or(0, |loaded| loaded.serial),
                admission: vpdp.admission(),
                gate: Arc::clone(&vpdp.gate),
            })
            .collect();
        let root = Root::new(&self.wiring, self.classifier.clone(), &tenants);
        let old = std::mem::replace(&mut self.root, Arc::new(root));
        self.retired.push(old);
        let mut seats = seats.into_iter();
        for desk in &self.desks {
            let new = seats.next().unwrap_or_default();
            desk.publish(|published| {
                published.root = Arc::clone(&self.root);
                published.fairness = self.fairness;
                published.arrivals.extend(new);
            });
        }
        self.free_retired();
    }

    fn free_retired(&mut self) {
        self.retired.retain(|root| Arc::strong_count(root) > 1);
        if self.retired.is_empty() {
            self.barred.clear();
        }
    }

    /// Workers for the switch's packets. They are made once; later calls give none.
    pub fn workers(&mut self, count: usize) -> Vec<Worker> {
        if !self.desks.is_empty() {
            return Vec::new();
        }
        self.desks = (0..count).map(|_| Arc::default()).collect();
        let mut seats: Vec<Vec<Seat>> = (0..count).map(|_| Vec::new()).collect();
        for vpdp in self.vpdps.values_mut() {
            let Some(loaded) = &mut vpdp.loaded else {
                continue;
            };
            let workers = loaded.device.workers(count);
            loaded.seats = workers.len();
            let workers = workers.into_iter().zip(&self.desks);
            for (seats, (worker, desk)) in seats.iter_mut().zip(workers) {
                seats.push(new_seat(vpdp.slot, loaded.serial, worker, desk));
            }
        }
        self.publish(seats);
        self.desks.iter().cloned().map(Worker::new).collect()
    }

    /// Does what needs no packet: time-outs, what packets have learned, packets that the control side itself sends, and frees what is not needed any
    /// more. To be called now and then. Time never goes back.
    pub fn step(&mut self, now: Nanos, mut sent: impl FnMut(PortId, &mut Frame, Nanos)) {
        self.now = self.now.max(now);
        let now = self.now;
        self.free_retired();
        let departing = self.departing.iter_mut().map(|one| &mut one.device);
        let vpdps = self.vpdps.values_mut();
        let loaded = vpdps.filter_map(|vpdp| vpdp.loaded.as_mut()).map(|loaded| {
            loaded.catch_up();
            &mut loaded.device
        });
        for device in departing.chain(loaded) {
            device.publish();
            device.step(now);
        }
        let mut hops = 0;
        let mut allowances = vec![MOST_LINKED; self.root.slots()];
        loop {
            let linked = self.hand_out(&mut allowances, &mut sent);
            if linked.is_empty() {
                break;
            }
            hops += 1;
            for (inlet, frame) in linked {
                self.deliver(inlet, &frame, hops > MAX_HOPS);
            }
        }
        self.say_farewell();
    }

    /// Hands out what devices themselves have sent; what goes over links comes back, no more of each slot's than it is allowed.
    fn hand_out(
        &mut self,
        allowances: &mut [usize],
        sent: &mut impl FnMut(PortId, &mut Frame, Nanos),
    ) -> Vec<(Inlet, Frame)> {
        let mut linked = Vec::new();
        let root = &self.root;
        for vpdp in self.vpdps.values_mut() {
            let (Some(loaded), Some(place)) = (&mut vpdp.loaded, root.place(vpdp.slot)) else {
                continue;
            };
            let allowance = &mut allowances[vpdp.slot.index()];
            let mut lost = Vec::new();
            loaded.device.drain_sent(|port, bytes, time| {
                let mut frame = Frame::new();
                // Another frame's bytes are as many as a frame may have.
                let _ = frame.assign(bytes);
                match place.exit(port) {
                    Exit::Port(port) => sent(*port, &mut frame, time),
                    Exit::Described(port, envelope) => match envelope.put_on(&mut frame) {
                        Ok(()) => sent(*port, &mut frame, time),
                        Err(_) => lost.push(DropReason::FrameTooLong),
                    },
                    Exit::Link(_) if *allowance == 0 => lost.push(DropReason::LinkHops),
                    Exit::Link(inlet) => {
                        *allowance -= 1;
                        linked.push((*inlet, frame));
                    }
                    Exit::Open => lost.push(DropReason::NoSuchPort),
                }
            });
            for reason in lost {
                loaded.device.count_drop(reason);
            }
        }
        linked
    }

    /// Takes a packet in at the other end of a link.
    fn deliver(&mut self, inlet: Inlet, frame: &Frame, is_too_far: bool) {
        self.linked += 1;
        let now = self.now;
        let vpdp = self.vpdps.values_mut().find(|vpdp| vpdp.slot == inlet.slot);
        let Some(vpdp) = vpdp else {
            return self.ledger.refuse(1, DropReason::Unclassified);
        };
        let reason = match vpdp.admission() {
            Admission::Closed(reason) => Some(reason),
            Admission::Open if is_too_far => Some(DropReason::LinkHops),
            Admission::Open => None,
        };
        match (reason, &mut vpdp.loaded) {
            (None, Some(loaded)) => {
                // The frame was sent by a device: it is not too long.
                let _ = loaded.device.receive(inlet.port, frame.bytes());
                loaded.device.step(now);
            }
            (reason, _) => {
                let reason = reason.unwrap_or(DropReason::NoProgram);
                self.ledger.refuse(1, reason);
            }
        }
    }

    /// Frees devices that have no packets any more.
    fn say_farewell(&mut self) {
        for seat in self.desks.iter().flat_map(|desk| desk.come_back()) {
            let departing = self.departing.iter_mut();
            let departing = departing.map(|one| (one.serial, &mut one.seats));
            let vpdps = self.vpdps.values_mut();
            // A worker that goes gives back those of vPDPs that stay, too.
            let loaded = vpdps.filter_map(|vpdp| vpdp.loaded.as_mut());
            let loaded = loaded.map(|one| (one.serial, &mut one.seats));
            let mut all = departing.chain(loaded);
            if let Some((_, seats)) = all.find(|(serial, _)| *serial == seat.serial) {
                *seats -= 1;
            }
        }
        let ledger = &mut self.ledger;
        self.departing.retain_mut(|one| {
            // What it still sends by itself has no port any more.
            let device = &mut one.device;
            let mut lost = 0;
            device.drain_sent(|_, _, _| lost += 1);
            (0..lost).for_each(|_| device.count_drop(DropReason::NoSuchPort));
            let stays = one.seats > 0 || device.held() > 0;
            if !stays {
                ledger.add(&device.ledger());
            }
            stays
        });
    }

    /// Devices that are not needed any more and still have packets, or seats that no worker has given back.
    pub fn departing(&self) -> usize {
        self.departing.len()
    }

    /// What became of all packets of the switch: links between virtual ports are inside. With workers it counts what they have told.
    pub fn ledger(&self) -> Ledger {
        let mut whole = self.ledger.clone();
        let mut linked = self.linked;
        for desk in &self.desks {
            let told = desk.told();
            whole.add(&told.ledger);
            linked += told.linked;
        }
        for device in self.devices() {
            whole.add(&device.ledger());
        }
        whole.received = whole.received.saturating_sub(linked);
        whole.sent = whole.sent.saturating_sub(linked);
        whole
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        let departing = self.departing.iter().map(|one| &*one.device);
        departing.chain(self.vpdps.values().filter_map(Vpdp::device))
    }

    /// Packets inside.
    pub fn held(&self) -> usize {
        self.devices().map(Device::held).sum()
    }

    /// Whether all packets are accounted for, of each vPDP and of all. It counts while no worker has packets in hand, or anything to tell.
    ///
    /// # Errors
    /// They are not: a defect.
    pub fn check_conservation(&self) -> Result<(), Unbalanced> {
        self.devices().try_for_each(Device::check_conservation)?;
        self.ledger().check(self.held())
    }
}

fn new_seat(slot: Slot, serial: u64, worker: switch::Worker, desk: &Arc<Desk>) -> Seat {
    let desk = Arc::clone(desk);
    worker.wake_by(move || desk.call());
    Seat::new(slot, serial, worker)
}
