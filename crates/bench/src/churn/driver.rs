//! Control side of the churn test: two switches with their vPDPs, and the operations.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use ir::Program;
use packet::Nanos;
use passes::slots::{Capacity, SlotPlan};
use support::rng::Rng;
use switch::{MayLose, MigrationMode};
use tenancy::{
    Condition, Connection, Encapsulation, Function, HypervisorError, Quotas, Rate, Rule, Sharing,
    Spec, TenantSwitch, Vpdp, VpdpId,
};

use super::flow::{Expectation, Flow, Home, TenantPorts, fill};
use super::stages::{SLOTS, edit, ingress_stages};
use super::worker::ChurnWorker;
use super::{ChurnError, ChurnTest, VERSIONS};
use crate::tenants::{Entry, Part};

/// Numbers of steady and of changing vPDPs. Each kind of packet assignment ([`Entry`]) has equally
/// many.
const STEADY: usize = 6;
const CHANGING: usize = 6;

/// A control operation on a vPDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Creates it with its ports and rules.
    Create,
    /// Loads its first program, with entries.
    Load,
    /// Replaces a step of its chain by another version.
    Update,
    /// Changes the steps of its chain.
    Recompose,
    /// Returns to the previous program or chain.
    RollBack,
    /// Deletes, inserts or replaces one of its stages.
    EditStage,
    /// Moves one of its stages to another slot, even if that needs recirculation.
    MoveToSlot,
    /// Changes its quotas.
    SetQuotas,
    /// Suspends it: it receives no packets.
    Suspend,
    /// Resumes it.
    Resume,
    /// Migrates it to the other switch.
    Migrate,
    /// Removes its program.
    Unload,
    /// Deletes it with its rules.
    Delete,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 13] = [
        Operation::Create,
        Operation::Load,
        Operation::Update,
        Operation::Recompose,
        Operation::RollBack,
        Operation::EditStage,
        Operation::MoveToSlot,
        Operation::SetQuotas,
        Operation::Suspend,
        Operation::Resume,
        Operation::Migrate,
        Operation::Unload,
        Operation::Delete,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Load => "load",
            Operation::Update => "update",
            Operation::Recompose => "recompose",
            Operation::RollBack => "roll back",
            Operation::EditStage => "edit stage",
            Operation::MoveToSlot => "move to slot",
            Operation::SetQuotas => "set quotas",
            Operation::Suspend => "suspend",
            Operation::Resume => "resume",
            Operation::Migrate => "migrate",
            Operation::Unload => "unload",
            Operation::Delete => "delete",
        }
    }

    /// Returns true if it is possible for a vPDP in this state.
    fn suits(self, state: State) -> bool {
        match (self, state) {
            (Operation::Create, State::Absent)
            | (Operation::Load | Operation::Delete, State::Empty)
            | (Operation::Resume | Operation::Migrate | Operation::Delete, State::Suspended(_)) => {
                true
            }
            (Operation::RollBack, State::Running(running)) => running.before.is_some(),
            (
                Operation::Update
                | Operation::Recompose
                | Operation::EditStage
                | Operation::MoveToSlot
                | Operation::SetQuotas
                | Operation::Suspend
                | Operation::Migrate
                | Operation::Unload
                | Operation::Delete,
                State::Running(_),
            ) => true,
            _ => false,
        }
    }
}

/// Numbers of the current and the previous function of a vPDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    function: usize,
    before: Option<usize>,
}

impl Running {
    /// Returns the state after a change to another function.
    fn then(self, function: usize) -> Running {
        Running {
            function,
            before: Some(self.function),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// It has no program.
    Empty,
    Running(Running),
    Suspended(Running),
}

/// A vPDP that operations affect.
struct Changing {
    seat: TenantPorts,
    /// Index of its flow.
    flow: usize,
    home: Home,
    state: State,
    /// Expected number of entries while it has a program.
    entries: u64,
}

/// The two switches with their vPDPs, and the generator of random operations.
pub struct ChurnDriver<'l> {
    life: &'l ChurnTest<'l>,
    first: TenantSwitch,
    second: TenantSwitch,
    flows: Arc<[Flow]>,
    changing: Vec<Changing>,
    choices: Rng,
    made: BTreeMap<Operation, usize>,
}

/// Waits until packets are processed in the new state.
type Settle<'s> = dyn FnMut() -> Result<(), ChurnError> + 's;

impl<'l> ChurnDriver<'l> {
    /// Creates both switches, all vPDPs with the first function, and the forwarding workers.
    ///
    /// # Errors
    /// A function does not behave as expected.
    pub fn new(
        life: &'l ChurnTest<'l>,
        stations: usize,
    ) -> Result<(ChurnDriver<'l>, Vec<ChurnWorker>), ChurnError> {
        let of = STEADY + CHANGING;
        let switch = || {
            let plan = SlotPlan {
                slots: NonZeroU16::new(SLOTS),
                capacity: Capacity::default(),
            };
            TenantSwitch::with_slots(Arc::clone(&life.engine), plan)
        };
        let begins = Expectation {
            home: Home::First,
            may_drop: false,
            functions: [0, 0],
        };
        let seats = (0..of).filter_map(|number| {
            Some(TenantPorts {
                vpdp: VpdpId::new(number as u16 + 1)?,
                entry: Entry::ALL[number % Entry::ALL.len()],
                part: Part { number, of },
                ports: life.workload.ports(),
            })
        });
        let seats: Vec<TenantPorts> = seats.collect();
        let flows = seats.iter().map(|seat| seat.flow(life, begins));
        let flows: Arc<[Flow]> = flows.collect::<Result<_, _>>()?;
        let mut scene = ChurnDriver {
            life,
            first: switch(),
            second: switch(),
            flows: Arc::clone(&flows),
            changing: Vec::new(),
            choices: Rng::new(life.seed),
            made: BTreeMap::new(),
        };
        scene.share(&seats).map_err(refused(Operation::Create))?;
        for (flow, seat) in seats.into_iter().enumerate() {
            create(&mut scene.first, spec(&seat), &seat).map_err(refused(Operation::Create))?;
            let entries = scene.load(&seat, Home::First, 0)?;
            if flow >= STEADY {
                scene.changing.push(Changing {
                    seat,
                    flow,
                    home: Home::First,
                    state: State::Running(Running {
                        function: 0,
                        before: None,
                    }),
                    entries,
                });
            }
        }
        let pairs = scene.first.workers(stations).into_iter();
        let pairs = pairs.zip(scene.second.workers(stations));
        let stations = pairs.zip(1..).map(|((first, second), number)| {
            let seed = life.seed.wrapping_add(number << 32);
            let ports = life.workload.ports();
            ChurnWorker::new([first, second], Arc::clone(&flows), STEADY, ports, seed)
        });
        let stations = stations.collect();
        Ok((scene, stations))
    }

    /// Configures the sharing of ports, on both switches.
    fn share(&mut self, seats: &[TenantPorts]) -> Result<(), HypervisorError> {
        for seat in seats {
            let sharing = match seat.entry {
                Entry::Whole => continue,
                Entry::Described => Sharing::Described(Encapsulation::Plain),
                Entry::Rules => Sharing::Rules,
            };
            for port in 0..seat.ports {
                for switch in [&mut self.first, &mut self.second] {
                    switch.share(seat.physical(port), Some(sharing))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the number of operations by kind.
    pub fn operations(&self) -> &BTreeMap<Operation, usize> {
        &self.made
    }

    /// Makes a random operation. `settle` waits until packets are processed in the new state.
    ///
    /// # Errors
    /// The operation is refused, or changed state that it must preserve. Either is a bug.
    pub fn operate(&mut self, settle: &mut Settle<'_>) -> Result<Operation, ChurnError> {
        let (operation, at) = loop {
            let operation = Operation::ALL[self.choose(Operation::ALL.len())];
            let at = self.choose(CHANGING);
            if operation.suits(self.changing[at].state) {
                break (operation, at);
            }
        };
        self.make(operation, at, settle)?;
        *self.made.entry(operation).or_default() += 1;
        for switch in [&mut self.first, &mut self.second] {
            switch.step(Nanos::ZERO, |_, _, _| {});
        }
        self.check_entries(operation, at)?;
        Ok(operation)
    }

    fn choose(&mut self, bound: usize) -> usize {
        self.choices.below(bound as u64) as usize
    }

    fn switch(&mut self, home: Home) -> &mut TenantSwitch {
        match home {
            Home::First => &mut self.first,
            Home::Second => &mut self.second,
        }
    }

    fn expect(&self, at: usize, may_drop: bool, functions: [usize; 2]) {
        let changing = &self.changing[at];
        self.flows[changing.flow].expect(Expectation {
            home: changing.home,
            may_drop,
            functions: functions.map(|function| function as u8),
        });
    }

    fn make(
        &mut self,
        operation: Operation,
        at: usize,
        settle: &mut Settle<'_>,
    ) -> Result<(), ChurnError> {
        let Changing {
            seat, home, state, ..
        } = self.changing[at];
        let refused = refused(operation);
        let id = seat.vpdp;
        self.changing[at].state = match (operation, state) {
            (Operation::Create, _) => {
                create(self.switch(home), spec(&seat), &seat).map_err(refused)?;
                State::Empty
            }
            (Operation::Load, _) => {
                let function = self.choose(self.life.functions.len());
                self.expect(at, true, [function; 2]);
                self.load(&seat, home, function)?;
                settle()?;
                self.expect(at, false, [function; 2]);
                State::Running(Running {
                    function,
                    before: None,
                })
            }
            (Operation::Update, State::Running(running)) => {
                let policy = running.function / VERSIONS;
                let next = policy * VERSIONS + (running.function + 1) % VERSIONS;
                self.update(operation, at, running, next, settle)?
            }
            (Operation::Recompose, State::Running(running)) => {
                let others = self.life.functions.len() - VERSIONS;
                let hop = VERSIONS + self.choose(others);
                let next =
                    (running.function / VERSIONS * VERSIONS + hop) % self.life.functions.len();
                self.update(operation, at, running, next, settle)?
            }
            (Operation::RollBack, State::Running(running)) => {
                let next = running.before.unwrap_or(running.function);
                self.update(operation, at, running, next, settle)?
            }
            (Operation::EditStage, State::Running(running)) => {
                self.edit_stage(at, running, settle)?
            }
            (Operation::MoveToSlot, state) => {
                self.move_to_slot(at)?;
                settle()?;
                state
            }
            (Operation::SetQuotas, state) => {
                let quotas = self.quotas();
                self.switch(home).set_quotas(id, quotas).map_err(refused)?;
                settle()?;
                state
            }
            (Operation::Suspend, State::Running(running)) => {
                self.expect(at, true, [running.function; 2]);
                self.switch(home).suspend(id).map_err(refused)?;
                settle()?;
                State::Suspended(running)
            }
            (Operation::Resume, State::Suspended(running)) => {
                self.switch(home).resume(id).map_err(refused)?;
                settle()?;
                self.expect(at, false, [running.function; 2]);
                State::Running(running)
            }
            (Operation::Migrate, state) => {
                self.migrate(at, settle).map_err(|error| match error {
                    Stopped::Refused(refusal) => refused(refusal),
                    Stopped::Life(error) => error,
                })?;
                state
            }
            (Operation::Unload, State::Running(running)) => {
                self.expect(at, true, [running.function; 2]);
                self.switch(home).unload(id).map_err(refused)?;
                settle()?;
                State::Empty
            }
            (Operation::Delete, state) => {
                if let State::Running(running) = state {
                    self.expect(at, true, [running.function; 2]);
                }
                delete(self.switch(home), &seat).map_err(refused)?;
                settle()?;
                State::Absent
            }
            // Not reached: the operation is not possible in this state, so it was not chosen.
            (_, state) => state,
        };
        Ok(())
    }

    /// Loads a function with its entries. Returns the number of entries.
    fn load(&mut self, seat: &TenantPorts, home: Home, function: usize) -> Result<u64, ChurnError> {
        let life = self.life;
        let function: Function = life
            .functions
            .get(function)
            .ok_or(ChurnError::Function)?
            .clone();
        let switch = self.switch(home);
        switch
            .load(seat.vpdp, function)
            .map_err(refused(Operation::Load))?;
        let device = switch.device_mut(seat.vpdp).ok_or(ChurnError::Function)?;
        fill(device, life, seat.part)?;
        Ok(device.entries())
    }

    /// Changes to another function. No packet may be lost, and each must be processed by the old
    /// or the new function.
    fn update(
        &mut self,
        operation: Operation,
        at: usize,
        running: Running,
        next: usize,
        settle: &mut Settle<'_>,
    ) -> Result<State, ChurnError> {
        let (id, home) = (self.changing[at].seat.vpdp, self.changing[at].home);
        let function = self.life.functions.get(next).ok_or(ChurnError::Function)?;
        self.expect(at, false, [running.function, next]);
        let carry = MigrationMode::State(MayLose::Anything);
        let switch = self.switch(home);
        let updated = match operation {
            Operation::RollBack => switch.roll_back(id),
            _ => switch.update(id, function.clone(), carry),
        };
        updated.map_err(refused(operation))?;
        settle()?;
        self.expect(at, false, [next; 2]);
        Ok(State::Running(running.then(next)))
    }

    /// Returns the program as it was loaded, before slot assignment.
    fn given(&mut self, at: usize) -> Result<Arc<Program>, ChurnError> {
        let (id, home) = (self.changing[at].seat.vpdp, self.changing[at].home);
        let given = self.switch(home).vpdp(id).and_then(Vpdp::given);
        given.map(Arc::clone).ok_or(ChurnError::Function)
    }

    /// Edits one of its stages. Each packet is processed by the function before or after the edit.
    fn edit_stage(
        &mut self,
        at: usize,
        running: Running,
        settle: &mut Settle<'_>,
    ) -> Result<State, ChurnError> {
        let (id, home) = (self.changing[at].seat.vpdp, self.changing[at].home);
        let given = self.given(at)?;
        // Objects inserted by earlier edits may still exist, so each edit needs a unique prefix.
        let prefix = format!("edit{}", self.made.values().sum::<usize>());
        let from = (self.life.functions, running.function);
        let edited = edit(from, &given, &prefix, |next, edit| {
            self.expect(at, false, [running.function, next]);
            self.switch(home).edit(id, edit).map(drop)
        });
        let next = edited
            .ok_or(ChurnError::Function)?
            .map_err(refused(Operation::EditStage))?;
        settle()?;
        self.expect(at, false, [next; 2]);
        Ok(State::Running(running.then(next)))
    }

    /// Moves a random ingress stage to a random slot.
    fn move_to_slot(&mut self, at: usize) -> Result<(), ChurnError> {
        let (id, home) = (self.changing[at].seat.vpdp, self.changing[at].home);
        let given = self.given(at)?;
        let stages = ingress_stages(&given).concat();
        let stage = self.choose(stages.len());
        let slot = self.choose(SLOTS.into()) as u32;
        let moved = self
            .switch(home)
            .move_to_slot(id, stages[stage], Some(slot));
        moved.map(drop).map_err(refused(Operation::MoveToSlot))
    }

    /// Migrates it: creates it on the other switch, redirects its packets, and deletes it here.
    fn migrate(&mut self, at: usize, settle: &mut Settle<'_>) -> Result<(), Stopped> {
        let Changing { seat, home, .. } = self.changing[at];
        let mut exported = self.switch(home).export(seat.vpdp)?;
        exported.spec.ports = spec(&seat).ports;
        let there = self.switch(home.other());
        there.import(exported)?;
        lead(there, &seat)?;
        settle()?;
        self.changing[at].home = home.other();
        let flow = &self.flows[self.changing[at].flow];
        flow.expect(Expectation {
            home: home.other(),
            ..flow.expectation()
        });
        settle()?;
        delete(self.switch(home), &seat)?;
        settle()?;
        Ok(())
    }

    /// Returns random quotas that do not limit its packets. The burst exceeds any difference
    /// between the workers' clocks.
    fn quotas(&mut self) -> Quotas {
        Quotas {
            packets: Some(Rate {
                per_second: 1_000_000_000,
                burst: 1 << 40,
            }),
            weight: self.choose(8) as u32 + 1,
            ..Quotas::default()
        }
    }

    /// Checks that no operation has changed the number of entries.
    fn check_entries(&mut self, operation: Operation, at: usize) -> Result<(), ChurnError> {
        let Changing {
            seat,
            home,
            state,
            entries,
            ..
        } = self.changing[at];
        let device = self.switch(home).device_mut(seat.vpdp);
        let has = device.map(|device| device.entries());
        let wanted = match state {
            State::Absent | State::Empty => None,
            State::Running(_) | State::Suspended(_) => Some(entries),
        };
        match has == wanted {
            true => Ok(()),
            false => Err(ChurnError::State(operation)),
        }
    }

    /// Checks packet conservation in both switches, and the number of packets received. Must be
    /// called after the forwarding threads have ended.
    ///
    /// # Errors
    /// A violation, which is a bug.
    pub fn check(&mut self, came: u64) -> Result<(), ChurnError> {
        let mut counted = 0;
        for switch in [&mut self.first, &mut self.second] {
            switch.step(Nanos::ZERO, |_, _, _| {});
            let checked = switch.check_conservation();
            checked.map_err(ChurnError::Unbalanced)?;
            counted += switch.ledger().received;
        }
        match counted == came {
            true => Ok(()),
            false => Err(ChurnError::Miscounted(counted, came)),
        }
    }
}

/// Error of an operation with several steps.
enum Stopped {
    Refused(HypervisorError),
    Life(ChurnError),
}

impl From<HypervisorError> for Stopped {
    fn from(refusal: HypervisorError) -> Self {
        Stopped::Refused(refusal)
    }
}

impl From<ChurnError> for Stopped {
    fn from(error: ChurnError) -> Self {
        Stopped::Life(error)
    }
}

fn refused(operation: Operation) -> impl Fn(HypervisorError) -> ChurnError + Copy {
    move |refusal| ChurnError::Refusal(operation, refusal)
}

fn spec(seat: &TenantPorts) -> Spec {
    let ports = (0..seat.ports).map(|port| Connection::Physical(seat.physical(port)));
    Spec {
        id: Some(seat.vpdp),
        name: format!("vpdp {}", seat.vpdp),
        ports: ports.collect(),
        ..Spec::default()
    }
}

fn create(
    switch: &mut TenantSwitch,
    spec: Spec,
    seat: &TenantPorts,
) -> Result<(), HypervisorError> {
    switch.create(spec)?;
    lead(switch, seat)
}

/// Returns the names of the vPDP's rules, with their ports.
fn rules(seat: &TenantPorts) -> impl Iterator<Item = (String, packet::PortId)> {
    let seat = *seat;
    let ports = match seat.entry {
        Entry::Rules => 0..seat.ports,
        Entry::Whole | Entry::Described => 0..0,
    };
    ports.map(move |port| {
        let port = seat.physical(port);
        (format!("port {port}"), port)
    })
}

/// Adds the rules that assign packets to the vPDP, if it uses rules.
fn lead(switch: &mut TenantSwitch, seat: &TenantPorts) -> Result<(), HypervisorError> {
    rules(seat).try_for_each(|(name, port)| {
        switch.add_rule(Rule {
            name,
            vpdp: seat.vpdp,
            priority: 0,
            conditions: vec![Condition::Port(port)],
        })
    })
}

fn delete(switch: &mut TenantSwitch, seat: &TenantPorts) -> Result<(), HypervisorError> {
    rules(seat).try_for_each(|(name, _)| switch.remove_rule(&name))?;
    switch.delete(seat.vpdp)
}
