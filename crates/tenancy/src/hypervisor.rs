//! Control side: creates, changes and deletes virtual data planes while packets are processed. It
//! owns no thread and no clock.

mod connect;
mod deleted;
mod make;
mod migrate;
mod provisional;
mod stages;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;

use exec::{DropReason, Engine};
use ir::Program;
use packet::{Nanos, PortId};
use passes::compose::Joint;
use passes::slots::SlotPlan;
use switch::{Device, DeviceConfig, Ledger, LedgerError, ThreadEpoch};

use crate::compiler::{BoundedCompiler, Cancelled, Compilations, CompileFigures, CompilePool};
use crate::error::{HypervisorError, Use};
use crate::function::Function;
use crate::port_map::{PortMap, PortMapError, Share};
use crate::quota::Quotas;
use crate::rate_limiter::RateLimiter;
use crate::rule::Rule;
use crate::rule_classifier::Classifier;
use crate::share::Fairness;
use crate::slots::SlotBook;
use crate::snapshot::{Admission, SwitchSnapshot, Tenant, VpdpIndex};
use crate::vpdp::{Connection, VirtualPort, VpdpId};
use crate::worker::Worker;
use crate::worker_mailbox::{VpdpWorker, VpdpWorkers, WorkerMailbox};

pub use connect::Wiring;
pub use deleted::Deleted;
pub use make::{Maker, MovedVpdp, NewFunction};
pub use migrate::{Exported, ExportedState};
pub use provisional::ProvisionalUpdate;

/// Configuration of a new vPDP.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The vPDP's number; by default the smallest free one.
    pub id: Option<VpdpId>,
    /// Its name.
    pub name: String,
    /// The owner's name.
    pub owner: String,
    /// Connections of its ports, from port 0 on.
    pub ports: Vec<Connection>,
    /// Quotas.
    pub quotas: Quotas,
    /// Configuration of its device; the limits come from the quotas.
    pub device: DeviceConfig,
}

impl Spec {
    /// Returns the configuration of its device, with the limits of its quotas.
    fn config(&self) -> DeviceConfig {
        DeviceConfig {
            limits: self.quotas.of_device(),
            ..self.device.clone()
        }
    }
}

/// A virtual data plane.
pub struct Vpdp {
    id: VpdpId,
    /// Creation number: unique among all vPDPs ever created.
    birth: u64,
    name: String,
    owner: String,
    quotas: Quotas,
    compiler: BoundedCompiler,
    config: DeviceConfig,
    slot: VpdpIndex,
    gate: Arc<RateLimiter>,
    is_suspended: bool,
    loaded: Option<Loaded>,
}

/// Program and state of a vPDP.
struct Loaded {
    device: Box<Device>,
    /// Generation number of its per-thread states.
    serial: u64,
    /// Number of workers that have not returned the per-thread state.
    seats: usize,
    function: Function,
    /// Joint of each step of a chain with the preceding ones: merged, or parsed again.
    joints: Vec<Joint>,
    /// The function as one program, before it was fitted to the stage slots.
    given: Arc<Program>,
    /// The program that `function` was compiled to. The device runs another one if a controller
    /// has set it there.
    program: Arc<Program>,
    /// The previous function.
    before: Option<Function>,
}

impl Loaded {
    /// Returns true if it runs the stand-in program.
    fn stands_in(&self, stand_in: Option<&Arc<Program>>) -> bool {
        stand_in.is_some_and(|stand_in| Arc::ptr_eq(stand_in, &self.given))
    }

    /// Returns the program that a controller has set on the device meanwhile, before fitting.
    fn set_meanwhile(&self, id: VpdpId, slots: &SlotBook) -> Option<Arc<Program>> {
        let running = self.device.program();
        let given = || {
            slots
                .given(id, running)
                .unwrap_or_else(|| Arc::clone(running))
        };
        (!Arc::ptr_eq(running, &self.program)).then(given)
    }

    /// Returns the current program before fitting, including one that a controller has set.
    fn given_now(&self, id: VpdpId, slots: &SlotBook) -> Arc<Program> {
        let meanwhile = self.set_meanwhile(id, slots);
        meanwhile.unwrap_or_else(|| Arc::clone(&self.given))
    }

    /// Returns the current and the previous function, including a program that a controller has
    /// set.
    fn functions(&self, id: VpdpId, slots: &SlotBook) -> (Function, Option<Function>) {
        match self.set_meanwhile(id, slots) {
            None => (self.function.clone(), self.before.clone()),
            Some(given) => (Function::Program(given), Some(self.function.clone())),
        }
    }

    /// Updates the function if a controller has set a program, once packets may see it.
    fn catch_up(&mut self, id: VpdpId, slots: &SlotBook) {
        if self.device.is_provisional() {
            return;
        }
        if let Some(given) = self.set_meanwhile(id, slots) {
            let function = Function::Program(Arc::clone(&given));
            self.before = Some(std::mem::replace(&mut self.function, function));
            self.given = given;
            self.joints.clear();
            self.program = Arc::clone(self.device.program());
            slots.settle(id, &self.program);
        }
    }
}

impl Vpdp {
    /// Returns its number.
    pub fn id(&self) -> VpdpId {
        self.id
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its owner's name.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns its quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Returns the configuration of its device.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// Returns statistics of its compilations.
    pub fn compile_figures(&self) -> CompileFigures {
        self.compiler.figures()
    }

    /// Charges its compilations to the cycle quota.
    fn settle_compilations(&self, now: Nanos) {
        self.compiler.settle(|cycles| {
            if cycles > 0 {
                self.gate.charge_compilations(cycles, now);
            }
            self.gate.compile_cycles_left(now)
        });
    }

    /// Returns true if it is suspended: it receives no packets.
    pub fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Returns its device, with program, tables, state and counters. `None` before a program is
    /// loaded.
    pub fn device(&self) -> Option<&Device> {
        self.loaded.as_ref().map(|loaded| &*loaded.device)
    }

    /// Returns its program, or the chain that its program was composed from. A program that a
    /// controller has set on the device is included after the next [`TenantSwitch::step`].
    pub fn function(&self) -> Option<&Function> {
        self.loaded.as_ref().map(|loaded| &loaded.function)
    }

    /// Returns the joint of each step of its chain with the preceding ones: merged, or parsed
    /// again. Empty for a single program.
    pub fn joints(&self) -> &[Joint] {
        let loaded = self.loaded.as_ref();
        loaded.map_or(&[], |loaded| &loaded.joints)
    }

    /// Returns its program before fitting to the stage slots; for a chain, the composed program.
    pub fn given(&self) -> Option<&Arc<Program>> {
        self.loaded.as_ref().map(|loaded| &loaded.given)
    }

    /// Returns its admission state. A vPDP with the stand-in program admits no packets.
    fn admission(&self, stand_in: Option<&Arc<Program>>) -> Admission {
        let loaded = self.loaded.as_ref();
        let program = loaded.filter(|loaded| !loaded.stands_in(stand_in));
        match (program, self.is_suspended) {
            (_, true) => Admission::Closed(DropReason::Suspended),
            (None, false) => Admission::Closed(DropReason::NoProgram),
            (Some(_), false) => Admission::Open,
        }
    }
}

/// A device that is no longer needed, but may still hold packets.
struct Departing {
    device: Box<Device>,
    serial: u64,
    /// Number of workers that have not returned the per-thread state.
    seats: usize,
}

/// Control side of the virtual data planes of a switch.
pub struct TenantSwitch {
    engine: Arc<dyn Engine>,
    slots: SlotBook,
    vpdps: BTreeMap<VpdpId, Vpdp>,
    wiring: PortMap,
    classifier: Option<Arc<Classifier>>,
    fairness: Option<Fairness>,
    compilations: Compilations,
    desks: Vec<Arc<WorkerMailbox>>,
    root: Arc<SwitchSnapshot>,
    /// Old roots that workers may still use. The control side frees them, since that takes time.
    retired: Vec<Arc<SwitchSnapshot>>,
    /// Tenant indices of deleted vPDPs, to which links of retired roots may still point. They are
    /// not reused yet.
    barred: Vec<VpdpIndex>,
    departing: Vec<Departing>,
    deleted: deleted::DeletedVpdps,
    /// Number of generations of per-thread states so far.
    serials: u64,
    /// Number of vPDPs created so far.
    births: u64,
    /// Program of vPDPs without one, so that controllers find a device.
    stand_in: Option<Arc<Program>>,
    /// vPDPs that ran it at the last publication.
    unprogrammed: Vec<VpdpId>,
    /// Accounting of packets of removed devices, and of packets that the control side dropped.
    ledger: Ledger,
    /// Number of packets that the control side has delivered over links.
    linked: u64,
    now: Nanos,
}

impl Drop for TenantSwitch {
    /// Cancels running compilations: their results would be discarded.
    fn drop(&mut self) {
        for vpdp in self.vpdps.values() {
            vpdp.compiler.close(Cancelled::Stopped);
        }
    }
}

impl TenantSwitch {
    /// Creates a switch without virtual data planes, with unlimited stage slots. Programs run on
    /// this engine.
    pub fn new(engine: Arc<dyn Engine>) -> TenantSwitch {
        TenantSwitch::with_slots(engine, SlotPlan::default())
    }

    /// Creates a switch with these stage slots.
    pub fn with_slots(engine: Arc<dyn Engine>, plan: SlotPlan) -> TenantSwitch {
        TenantSwitch {
            engine,
            slots: SlotBook::new(plan),
            vpdps: BTreeMap::new(),
            wiring: PortMap::default(),
            classifier: None,
            fairness: None,
            compilations: Compilations::new(CompilePool::default()),
            desks: Vec::new(),
            root: Arc::default(),
            retired: Vec::new(),
            barred: Vec::new(),
            departing: Vec::new(),
            deleted: deleted::DeletedVpdps::default(),
            serials: 0,
            births: 0,
            stand_in: None,
            unprogrammed: Vec::new(),
            ledger: Ledger::default(),
            linked: 0,
            now: Nanos::ZERO,
        }
    }

    /// Sets the program that runs in vPDPs without one: their controllers find a device, and
    /// packets are dropped as [`DropReason::NoProgram`].
    pub fn set_stand_in(&mut self, program: Arc<Program>) {
        self.stand_in = Some(program);
        self.publish(Vec::new());
    }

    /// Returns true if a vPDP runs a program other than the stand-in.
    pub fn is_programmed(&self, vpdp: &Vpdp) -> bool {
        let loaded = vpdp.loaded.as_ref();
        loaded.is_some_and(|loaded| !loaded.stands_in(self.stand_in.as_ref()))
    }

    /// Returns the vPDPs that run the stand-in program, by number.
    fn unprogrammed(&self) -> impl Iterator<Item = VpdpId> {
        let runs_stand_in = |vpdp: &&Vpdp| vpdp.loaded.is_some() && !self.is_programmed(vpdp);
        self.vpdps.values().filter(runs_stand_in).map(Vpdp::id)
    }

    /// Publishes to workers which vPDPs have a program, if that has changed.
    fn admit_programmed(&mut self) {
        if self.stand_in.is_some() && !self.unprogrammed().eq(self.unprogrammed.iter().copied()) {
            self.publish(Vec::new());
        }
    }

    /// Returns the most recently deleted vPDPs, oldest first.
    pub fn deleted(&self) -> Vec<Deleted> {
        self.deleted.list(&self.departing)
    }

    /// Returns the number of vPDPs deleted before those, and the sum of their ledgers.
    pub fn deleted_before(&self) -> (u64, Ledger) {
        self.deleted.others().clone()
    }

    /// Returns all virtual data planes, by number.
    pub fn vpdps(&self) -> impl Iterator<Item = &Vpdp> {
        self.vpdps.values()
    }

    /// Returns a vPDP.
    pub fn vpdp(&self, id: VpdpId) -> Option<&Vpdp> {
        self.vpdps.get(&id)
    }

    /// Returns the device of a vPDP with a program, to change its state. Workers see changes after
    /// the device publishes them.
    pub fn device_mut(&mut self, id: VpdpId) -> Option<&mut Device> {
        let loaded = self.vpdps.get_mut(&id)?.loaded.as_mut()?;
        Some(&mut loaded.device)
    }

    /// Returns the compiler of a vPDP, with its quotas. For threads that may block.
    ///
    /// # Errors
    /// The vPDP does not exist.
    pub fn compiler(&self, id: VpdpId) -> Result<BoundedCompiler, HypervisorError> {
        Ok(self.find(id)?.compiler.clone())
    }

    /// Sets the compilation limits and the clock for vPDPs that are created from now on.
    pub fn set_compile_pool(&mut self, pool: CompilePool) {
        self.compilations = Compilations::new(pool);
    }

    /// Charges compilations to cycle quotas.
    fn charge_compilations(&self) {
        for vpdp in self.vpdps.values() {
            if vpdp.quotas.cycles.is_some() {
                vpdp.settle_compilations(self.now);
            }
        }
    }

    /// Returns the engine that runs the programs.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Returns the connections of a vPDP's ports.
    pub fn ports(&self, id: VpdpId) -> &[Connection] {
        self.wiring.ports.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the shared physical ports.
    pub fn shared(&self) -> impl Iterator<Item = (PortId, Share)> {
        self.wiring
            .shared
            .iter()
            .map(|(port, share)| (*port, *share))
    }

    /// Returns all rules, in order of creation.
    pub fn rules(&self) -> &[Rule] {
        &self.wiring.rules
    }

    fn find(&self, id: VpdpId) -> Result<&Vpdp, HypervisorError> {
        self.vpdps.get(&id).ok_or(HypervisorError::NoSuchVpdp(id))
    }

    fn find_mut(&mut self, id: VpdpId) -> Result<&mut Vpdp, HypervisorError> {
        self.vpdps
            .get_mut(&id)
            .ok_or(HypervisorError::NoSuchVpdp(id))
    }

    fn loaded_mut(&mut self, id: VpdpId) -> Result<&mut Loaded, HypervisorError> {
        let loaded = self.find_mut(id)?.loaded.as_mut();
        loaded.ok_or(HypervisorError::NoProgram(id))
    }

    /// Creates a vPDP without a program.
    ///
    /// # Errors
    /// Its number, its name or one of its ports is already taken, or the port map would be
    /// invalid.
    pub fn create(&mut self, spec: Spec) -> Result<VpdpId, HypervisorError> {
        let id = self.free_number(spec.id)?;
        if let Some(other) = self.vpdps.values().find(|vpdp| vpdp.name == spec.name) {
            return Err(HypervisorError::NameTaken(spec.name, other.id));
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
                // For a link within the vPDP, the other end has created it.
                if let Connection::Link(other) = connection
                    && wiring.connection(port)? != Connection::Link(other)
                {
                    wiring.link(port, other)?;
                }
            }
            Ok(())
        })?;
        self.births += 1;
        let vpdp = Vpdp {
            id,
            birth: self.births,
            config,
            name: spec.name,
            owner: spec.owner,
            gate: Arc::new(RateLimiter::new(&spec.quotas, self.now)),
            compiler: BoundedCompiler::new(spec.quotas.compile, &self.compilations),
            quotas: spec.quotas,
            slot: self.free_slot(),
            is_suspended: false,
            loaded: None,
        };
        vpdp.settle_compilations(self.now);
        self.vpdps.insert(id, vpdp);
        self.rewire(wiring, classifier);
        Ok(id)
    }

    /// Returns the number of a new vPDP: the requested one, or the smallest free one.
    fn free_number(&self, wanted: Option<VpdpId>) -> Result<VpdpId, HypervisorError> {
        let is_free = |id: &VpdpId| !self.vpdps.contains_key(id);
        match wanted {
            Some(id) if is_free(&id) => Ok(id),
            Some(id) => Err(HypervisorError::NumberTaken(id)),
            None => VpdpId::all()
                .find(is_free)
                .ok_or(HypervisorError::NoNumberLeft),
        }
    }

    fn free_slot(&self) -> VpdpIndex {
        let slots = self.vpdps.values().map(|vpdp| vpdp.slot);
        let slots = slots.chain(self.barred.iter().copied());
        let mut taken: Vec<u32> = slots.map(|slot| slot.0).collect();
        taken.sort_unstable();
        let free = (0..).zip(&taken).find(|(slot, taken)| slot != *taken);
        VpdpIndex(free.map_or(taken.len() as u32, |(slot, _)| slot))
    }

    /// Checks that a vPDP can be deleted.
    ///
    /// # Errors
    /// A link or a rule uses it.
    pub fn check_unused(&self, id: VpdpId) -> Result<(), HypervisorError> {
        self.find(id)?;
        let links = self.wiring.links_of(id);
        let links = links.map(|(port, other)| Use::Link(port, other));
        let rules = self.wiring.rules.iter().filter(|rule| rule.vpdp == id);
        let rules = rules.map(|rule| Use::Rule(rule.name.clone()));
        let uses: Vec<Use> = links.chain(rules).collect();
        match uses.is_empty() {
            true => Ok(()),
            false => Err(HypervisorError::InUse(id, uses)),
        }
    }

    /// Deletes a vPDP. Packets in flight finish.
    ///
    /// # Errors
    /// A link or a rule uses it.
    pub fn delete(&mut self, id: VpdpId) -> Result<(), HypervisorError> {
        self.check_unused(id)?;
        let (wiring, classifier) = self.rewired(|wiring| {
            wiring.ports.remove(&id);
            Ok(())
        })?;
        self.slots.free(id);
        if let Some(vpdp) = self.vpdps.remove(&id) {
            vpdp.compiler.close(Cancelled::Deleted);
            self.barred.push(vpdp.slot);
            let serial = vpdp.loaded.as_ref().map(|loaded| loaded.serial);
            self.deleted.add(id, vpdp.name, serial);
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

    /// Suspends a vPDP: it admits no packets. Packets in flight finish.
    ///
    /// # Errors
    /// The vPDP does not exist.
    pub fn suspend(&mut self, id: VpdpId) -> Result<(), HypervisorError> {
        self.find_mut(id)?.is_suspended = true;
        self.publish(Vec::new());
        Ok(())
    }

    /// Resumes a vPDP: it admits packets again.
    ///
    /// # Errors
    /// The vPDP does not exist.
    pub fn resume(&mut self, id: VpdpId) -> Result<(), HypervisorError> {
        self.find_mut(id)?.is_suspended = false;
        self.publish(Vec::new());
        Ok(())
    }

    /// Sets a vPDP's quotas. What it has used of its rates stays used.
    ///
    /// # Errors
    /// The vPDP does not exist, or already holds more than the quotas allow.
    pub fn set_quotas(&mut self, id: VpdpId, quotas: Quotas) -> Result<(), HypervisorError> {
        let (now, limits) = (self.now, quotas.of_device());
        let vpdp = self.find_mut(id)?;
        if let Some(loaded) = &mut vpdp.loaded {
            let set = loaded.device.set_limits(limits);
            set.map_err(|error| HypervisorError::Exceeded(id, error))?;
            loaded.device.publish();
        }
        vpdp.config.limits = limits;
        vpdp.compiler.set_quota(quotas.compile);
        // Compilations that have ended are charged to the old quota, which is carried over.
        vpdp.settle_compilations(now);
        vpdp.gate = Arc::new(vpdp.gate.with_quotas(&quotas, now));
        vpdp.settle_compilations(now);
        vpdp.quotas = quotas;
        self.publish(Vec::new());
        Ok(())
    }

    /// Sets or removes fair sharing of processors, which applies while vPDPs demand more than
    /// there is.
    pub fn set_fairness(&mut self, fairness: Option<Fairness>) {
        self.fairness = fairness;
        self.publish(Vec::new());
    }

    /// Removes a vPDP's program and its state. Packets in flight finish.
    ///
    /// # Errors
    /// It has no program.
    pub fn unload(&mut self, id: VpdpId) -> Result<(), HypervisorError> {
        let loaded = self.find_mut(id)?.loaded.take();
        let loaded = loaded.ok_or(HypervisorError::NoProgram(id))?;
        self.slots.free(id);
        self.depart(loaded);
        self.publish(Vec::new());
        Ok(())
    }

    fn change_wiring(
        &mut self,
        change: impl FnOnce(&mut PortMap) -> Result<(), PortMapError>,
    ) -> Result<(), HypervisorError> {
        let (wiring, classifier) = self.rewired(change)?;
        self.rewire(wiring, classifier);
        Ok(())
    }

    /// Returns a changed copy of the port map, checked as a whole, and its rule table.
    fn rewired(
        &self,
        change: impl FnOnce(&mut PortMap) -> Result<(), PortMapError>,
    ) -> Result<(PortMap, Option<Classifier>), HypervisorError> {
        let mut wiring = self.wiring.clone();
        change(&mut wiring)?;
        let classifier = wiring.check()?;
        Ok((wiring, classifier))
    }

    fn rewire(&mut self, wiring: PortMap, classifier: Option<Classifier>) {
        self.wiring = wiring;
        self.classifier = classifier.map(Arc::new);
        self.publish(Vec::new());
    }

    /// Publishes the current state to workers, with new per-thread states for each of them.
    fn publish(&mut self, seats: Vec<VpdpWorkers>) {
        let tenants: Vec<Tenant> = self
            .vpdps
            .values()
            .map(|vpdp| Tenant {
                vpdp: vpdp.id,
                birth: vpdp.birth,
                slot: vpdp.slot,
                serial: vpdp.loaded.as_ref().map_or(0, |loaded| loaded.serial),
                admission: vpdp.admission(self.stand_in.as_ref()),
                gate: Arc::clone(&vpdp.gate),
            })
            .collect();
        self.unprogrammed = self.unprogrammed().collect();
        let root = SwitchSnapshot::new(&self.wiring, self.classifier.clone(), &tenants);
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

    /// Creates the workers for the switch's packets. Only the first call returns any.
    pub fn workers(&mut self, count: usize) -> Vec<Worker> {
        if !self.desks.is_empty() {
            return Vec::new();
        }
        self.desks = (0..count).map(|_| Arc::default()).collect();
        let mut seats: Vec<VpdpWorkers> = (0..count).map(|_| Vec::new()).collect();
        for vpdp in self.vpdps.values_mut() {
            let Some(loaded) = &mut vpdp.loaded else {
                continue;
            };
            let workers = loaded
                .device
                .workers_with(bells(&self.desks), vpdp.slot.mark());
            loaded.seats = workers.len();
            let workers = workers.into_iter().zip(&self.desks);
            for (seats, (worker, desk)) in seats.iter_mut().zip(workers) {
                seats.push(new_seat(vpdp.slot, loaded.serial, worker, desk));
            }
        }
        self.publish(seats);
        self.desks.iter().cloned().map(Worker::new).collect()
    }

    /// Returns the number of devices that are no longer needed, but hold packets or per-thread
    /// states that workers have not returned.
    pub fn departing(&self) -> usize {
        self.departing.len()
    }

    /// Returns the accounting of all packets of the switch; packets on links are internal. With
    /// workers, it covers what they have reported.
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

    /// Returns the number of packets in all devices.
    pub fn held(&self) -> usize {
        self.devices().map(Device::held).sum()
    }

    /// Checks packet conservation, in each vPDP and in total. Only valid while workers have no
    /// packets in flight and no pending reports.
    ///
    /// # Errors
    /// The counts do not match: a defect.
    pub fn check_conservation(&self) -> Result<(), LedgerError> {
        self.devices().try_for_each(Device::check_conservation)?;
        self.ledger().check(self.held())
    }
}

/// Returns the epochs of the workers' threads.
fn bells(desks: &[Arc<WorkerMailbox>]) -> Vec<Arc<ThreadEpoch>> {
    desks.iter().map(|desk| Arc::clone(&desk.bell)).collect()
}

fn new_seat(
    slot: VpdpIndex,
    serial: u64,
    worker: switch::Worker,
    desk: &Arc<WorkerMailbox>,
) -> Box<VpdpWorker> {
    // Weak: the mailbox owns returned states, and this one must not own the mailbox.
    let desk = Arc::downgrade(desk);
    worker.wake_by(move || {
        if let Some(desk) = desk.upgrade() {
            desk.call();
        }
    });
    debug_assert!(
        worker.mark() == slot.mark(),
        "threads tell a device by its slot"
    );
    Box::new(VpdpWorker::new(slot, serial, worker))
}
