//! Mapping of several programs' stages to the stage slots of a device (HyperVDP, section IV-D).
//!
//! A slot is a condition pipeline, a match pipeline and an action pipeline, in this order (section
//! IV-C). So a condition, the match that it guards and the code after it can share one slot.
//!
//! Every stage gets a *step* in its control's line. It is the first step, counted without a limit,
//! that comes after those of all its predecessors and that has room. Step `s` of a device with `n`
//! slots is slot `s % n` in round `s / n`. Each further round takes a resubmission
//! ([`crate::wrap`]).
//!
//! Stages that no packet meets on one path (exclusive branches, other programs) share slots freely.
//! A slot is limited by the capacity that the device declares. A placed program keeps its place
//! when others are added or removed.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU16;

use bits::Id;
use ir::{
    Block, BlockCode, BlockRole, Control, ControlId, MatchNext, Next, OF_TURNS, Program, RESUME,
    Stage, StageId, StageKind, TableId,
};

use support::work::checkpoint;

/// Number and capacity of a device's slots. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotPlan {
    /// Number of slots.
    pub slots: Option<NonZeroU16>,
    /// Capacity of each slot.
    pub capacity: Capacity,
}

/// Capacity of a slot. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum number of tables.
    pub tables: Option<u64>,
    /// Maximum number of entries of all its tables, by their declared sizes.
    pub entries: Option<u64>,
    /// Maximum number of bytes of these entries.
    pub memory: Option<u64>,
}

/// Amount of resources that stages need, or that a slot's stages occupy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Tables.
    pub tables: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of keys, masks and arguments.
    pub memory: u64,
}

/// A limited resource of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// [`Capacity::tables`].
    Tables,
    /// [`Capacity::entries`].
    Entries,
    /// [`Capacity::memory`].
    Memory,
}

/// Pipelines of a slot, in the order in which a packet traverses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipe {
    /// The condition binding pipeline.
    Condition,
    /// The match pipeline.
    Match,
    /// The action pipeline.
    Action,
}

/// Required slots of stages, by the stages' names. A missing stage is ignored: it may come back.
pub type Pins = BTreeMap<String, u32>;

/// Position of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The stage's control.
    pub control: ControlId,
    /// Role of the control in its architecture.
    pub role: BlockRole,
    /// The stage.
    pub stage: StageId,
    /// Its name.
    pub name: String,
    /// The pipeline.
    pub pipe: Pipe,
    /// The slot.
    pub slot: u32,
    /// Number of resubmissions before a packet reaches the stage.
    pub pass: u32,
    /// Resources that the stage needs.
    pub demand: Demand,
}

impl Placement {
    /// Returns true if the other stage of the same control comes later in the same round.
    pub(crate) fn leads_to(&self, other: &Placement) -> bool {
        self.pass == other.pass && (self.slot, self.pipe) < (other.slot, other.pipe)
    }
}

/// A program's stages in slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// Number of slots.
    pub slots: Option<NonZeroU16>,
    /// Every stage that occupies a slot, in the order of its control's line.
    pub placements: Vec<Placement>,
    /// Number of stages without a slot: those of deparsers and checksums, and those that route
    /// packets between the steps of a chain.
    pub slotless: u64,
}

impl SlotMap {
    /// Returns the maximum number of rounds through the slots, apart from the program's own loops.
    pub fn turns(&self) -> u32 {
        let passes = self.placements.iter().map(|place| place.pass);
        1 + passes.max().unwrap_or(0)
    }
}

/// The slots of a device and their occupancy.
#[derive(Clone, Debug)]
pub struct Slots {
    plan: SlotPlan,
    /// One element for each slot, or for each slot used so far.
    held: Vec<Demand>,
}

/// Error: a program does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// A stage needs more than any slot holds.
    StageTooLarge {
        /// The stage.
        stage: String,
        /// The resource.
        resource: Resource,
        /// Amount that the stage needs.
        wanted: u64,
        /// Capacity of a slot.
        capacity: u64,
    },
    /// No slot has room for a stage.
    Full {
        /// The stage.
        stage: String,
        /// The slot with the most room.
        slot: u32,
        /// The resource that it lacks.
        resource: Resource,
        /// Amount that the stage needs.
        wanted: u64,
        /// Amount that is free.
        left: u64,
    },
    /// The slot that a stage is pinned to has no room.
    PinFull {
        /// The stage.
        stage: String,
        /// The slot.
        slot: u32,
        /// The resource that it lacks.
        resource: Resource,
        /// Amount that the stage needs.
        wanted: u64,
        /// Amount that is free.
        left: u64,
    },
    /// A stage is pinned to a slot that does not exist.
    NoSuchSlot {
        /// The stage.
        stage: String,
        /// The slot.
        slot: u32,
        /// Number of slots.
        slots: u32,
    },
    /// A stage is pinned to a slot before those of its predecessors, and the number of slots is
    /// unlimited, so nothing is resubmitted.
    PinTooEarly {
        /// The stage.
        stage: String,
        /// The slot.
        slot: u32,
        /// The first possible slot.
        earliest: u64,
    },
    /// A control after ingress needs more steps than there are slots. Only ingress can resubmit.
    NoResubmission {
        /// The control.
        control: String,
        /// Number of steps that it needs.
        steps: u64,
        /// Slots that there are.
        slots: usize,
    },
    /// A control after ingress has a loop of stages, which would need a resubmission.
    Loop {
        /// The control.
        control: String,
        /// The stage with the back edge.
        stage: String,
    },
    /// The program uses a name or an intrinsic that is reserved for rounds.
    Reserved {
        /// The name.
        name: String,
    },
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Tables => "tables",
            Resource::Entries => "entries",
            Resource::Memory => "bytes of memory",
        })
    }
}

impl Resource {
    /// Formats an amount of the resource.
    fn amount(self, n: u64) -> String {
        match (self, n) {
            (Resource::Tables, 1) => "1 table".to_owned(),
            (Resource::Entries, 1) => "1 entry".to_owned(),
            (Resource::Memory, 1) => "1 byte of memory".to_owned(),
            _ => format!("{n} {self}"),
        }
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::StageTooLarge {
                stage,
                resource,
                wanted,
                capacity,
            } => write!(
                f,
                "stage {stage} takes {0}, but a slot holds {capacity}; declare a smaller size for its table, or slots of at least {0}",
                resource.amount(*wanted)
            ),
            SlotError::Full {
                stage,
                slot,
                resource,
                wanted,
                left,
            } => write!(
                f,
                "no slot has room for stage {stage}: it takes {}, and slot {slot}, which lacks the least, has {left} left; declare more slots, or delete a program",
                resource.amount(*wanted)
            ),
            SlotError::PinFull {
                stage,
                slot,
                resource,
                wanted,
                left,
            } => write!(
                f,
                "slot {slot} has no room for stage {stage}: it takes {}, and the slot has {left} left; choose another slot, or move another stage away",
                resource.amount(*wanted)
            ),
            SlotError::NoSuchSlot { stage, slot, slots } => write!(
                f,
                "there is no slot {slot} for stage {stage}; slots are numbered from 0 to {}",
                slots.saturating_sub(1)
            ),
            SlotError::PinTooEarly {
                stage,
                slot,
                earliest,
            } => write!(
                f,
                "stage {stage} cannot be in slot {slot}: stages that lead to it are there or behind; choose slot {earliest} or a later one, or declare how many slots there are"
            ),
            SlotError::NoResubmission {
                control,
                steps,
                slots,
            } => write!(
                f,
                "{control} takes {steps} slots in a line, and the device has {slots}; a packet is not resubmitted from there, so declare at least {steps} slots"
            ),
            SlotError::Loop { control, stage } => write!(
                f,
                "stage {stage} leads back to an earlier one, and a packet is not resubmitted from {control}; move the loop to the ingress, or do not declare slots"
            ),
            SlotError::Reserved { name } => write!(
                f,
                "the program has `{name}`, and names with {OF_TURNS} and the intrinsic {RESUME} are kept for turns through slots; give the program as it was before it was cut"
            ),
        }
    }
}

impl std::error::Error for SlotError {}

impl Demand {
    fn plus(self, other: Demand) -> Demand {
        Demand {
            tables: self.tables + other.tables,
            entries: self.entries + other.entries,
            memory: self.memory + other.memory,
        }
    }

    fn or(self, other: Demand) -> Demand {
        Demand {
            tables: self.tables.max(other.tables),
            entries: self.entries.max(other.entries),
            memory: self.memory.max(other.memory),
        }
    }

    fn parts(self) -> [(Resource, u64); 3] {
        [
            (Resource::Tables, self.tables),
            (Resource::Entries, self.entries),
            (Resource::Memory, self.memory),
        ]
    }

    fn of(self, resource: Resource) -> u64 {
        match resource {
            Resource::Tables => self.tables,
            Resource::Entries => self.entries,
            Resource::Memory => self.memory,
        }
    }
}

impl Capacity {
    fn of(self, resource: Resource) -> u64 {
        let bound = match resource {
            Resource::Tables => self.tables,
            Resource::Entries => self.entries,
            Resource::Memory => self.memory,
        };
        bound.unwrap_or(u64::MAX)
    }

    /// Returns a resource that does not suffice for this demand, and the amount needed.
    fn lacks(self, demand: Demand) -> Option<(Resource, u64)> {
        let mut parts = demand.parts().into_iter();
        parts.find(|(resource, wanted)| *wanted > self.of(*resource))
    }

    fn left(self, held: Demand, resource: Resource) -> u64 {
        self.of(resource).saturating_sub(held.of(resource))
    }
}

impl Slots {
    /// Creates empty slots.
    pub fn new(plan: SlotPlan) -> Slots {
        let slots: u16 = plan.slots.map_or(0, NonZeroU16::get);
        Slots {
            plan,
            held: vec![Demand::default(); slots.into()],
        }
    }

    /// Returns their number and capacity.
    pub fn plan(&self) -> &SlotPlan {
        &self.plan
    }

    /// Returns the occupancy of each slot.
    pub fn held(&self) -> &[Demand] {
        &self.held
    }

    /// Adds the stages of a placed program.
    pub fn hold(&mut self, map: &SlotMap) {
        for place in &map.placements {
            checkpoint();
            let slot = self.slot(place.slot.into());
            self.held[slot] = self.held[slot].plus(place.demand);
        }
    }

    /// Adds placed programs of which only one runs at a time. Each slot is charged the maximum over
    /// them.
    pub fn hold_one_of<'m>(&mut self, maps: impl IntoIterator<Item = &'m SlotMap>) {
        let mut most = Slots::new(self.plan);
        for map in maps {
            let mut alone = Slots::new(self.plan);
            alone.hold(map);
            most.held
                .resize(most.held.len().max(alone.held.len()), Demand::default());
            for (most, held) in most.held.iter_mut().zip(alone.held) {
                *most = most.or(held);
            }
        }
        for (slot, held) in (0..).zip(most.held) {
            let slot = self.slot(slot);
            self.held[slot] = self.held[slot].plus(held);
        }
    }

    /// Returns true if there is room at a program's given positions.
    pub fn have_room_for(&self, map: &SlotMap) -> bool {
        let mut filled = self.clone();
        filled.hold(map);
        let mut held = filled.held.iter();
        held.all(|held| self.plan.capacity.lacks(*held).is_none())
    }

    /// Finds positions for all stages of a program and adds them.
    ///
    /// # Errors
    /// The first stage or control that cannot be placed. The occupancy is then unspecified.
    pub fn place(&mut self, program: &Program, pins: &Pins) -> Result<SlotMap, SlotError> {
        check_names(program)?;
        let mut map = SlotMap {
            slots: self.plan.slots,
            placements: Vec::new(),
            slotless: 0,
        };
        for block in &program.pipeline.blocks {
            self.control(program, *block, pins, &mut map)?;
        }
        let stages = program.controls.values().map(|c| c.stages.len());
        let slotless = stages.sum::<usize>().saturating_sub(map.placements.len());
        map.slotless = slotless as u64;
        Ok(map)
    }

    fn control(
        &mut self,
        program: &Program,
        block: Block,
        pins: &Pins,
        map: &mut SlotMap,
    ) -> Result<(), SlotError> {
        let BlockCode::Control(id) = block.code else {
            return Ok(());
        };
        // Deparsers and checksums are not match-action pipelines.
        let takes_slots = matches!(
            block.role,
            BlockRole::PreControl | BlockRole::Ingress | BlockRole::Egress
        );
        if !takes_slots {
            return Ok(());
        }
        let control = &program.controls[id];
        if block.role != BlockRole::Ingress && self.plan.slots.is_some() {
            check_loops(control)?;
        }
        // For each stage the first step after those of its predecessors. Back edges are loops,
        // which are resubmitted anyway.
        let mut earliest = vec![0; control.stages.len()];
        for (at, stage) in control.stages.iter() {
            checkpoint();
            let pipe = pipe_of(&stage.kind);
            let demand = demand_of(program, &stage.kind);
            let first = earliest[at.index()];
            let step = match pins.get(&stage.name) {
                Some(slot) => self.pinned(stage, *slot, first, demand)?,
                None => self.room(stage, first, demand)?,
            };
            for to in links(&stage.kind) {
                // One slot holds both if the other's pipeline comes later.
                let behind = step + u64::from(pipe >= pipe_of(&control.stages[to].kind));
                let first = &mut earliest[to.index()];
                *first = behind.max(*first);
            }
            let (pass, slot) = self.pass_and_slot(step);
            if pass > 0 && block.role != BlockRole::Ingress {
                return Err(SlotError::NoResubmission {
                    control: control.name.clone(),
                    steps: step + 1,
                    slots: self.held.len(),
                });
            }
            map.placements.push(Placement {
                control: id,
                role: block.role,
                stage: at,
                name: stage.name.clone(),
                pipe,
                slot,
                pass,
                demand,
            });
        }
        Ok(())
    }

    /// Returns the first step from `earliest` on with room in its slot, and occupies it.
    fn room(&mut self, stage: &Stage, earliest: u64, demand: Demand) -> Result<u64, SlotError> {
        let capacity = self.plan.capacity;
        if let Some((resource, wanted)) = capacity.lacks(demand) {
            return Err(SlotError::StageTooLarge {
                stage: stage.name.clone(),
                resource,
                wanted,
                capacity: capacity.of(resource),
            });
        }
        // Without a limit an empty slot always exists.
        let last = match self.plan.slots {
            Some(slots) => earliest + u64::from(slots.get()),
            None => u64::MAX,
        };
        for step in earliest..last {
            checkpoint();
            if self.fill(step, demand).is_ok() {
                return Ok(step);
            }
        }
        Err(self.full(stage, demand))
    }

    /// Returns the first step from `earliest` on that maps to this slot.
    fn pinned(
        &mut self,
        stage: &Stage,
        slot: u32,
        earliest: u64,
        demand: Demand,
    ) -> Result<u64, SlotError> {
        let name = || stage.name.clone();
        let slots = self
            .plan
            .slots
            .map_or(MAX_PINNED, |slots| slots.get().into());
        if slot >= slots {
            let stage = name();
            return Err(SlotError::NoSuchSlot { stage, slot, slots });
        }
        let (wanted, slots) = (u64::from(slot), u64::from(slots));
        let step = match self.plan.slots {
            Some(_) => earliest + (wanted + slots - earliest % slots) % slots,
            None if wanted < earliest => {
                return Err(SlotError::PinTooEarly {
                    stage: name(),
                    slot,
                    earliest,
                });
            }
            None => wanted,
        };
        match self.fill(step, demand) {
            Ok(()) => Ok(step),
            Err((resource, wanted)) => Err(SlotError::PinFull {
                stage: name(),
                slot,
                resource,
                wanted,
                left: self.plan.capacity.left(self.held[slot as usize], resource),
            }),
        }
    }

    /// Adds a stage to the slot of a step, if there is room.
    ///
    /// # Errors
    /// The resource that does not suffice, and the amount that the stage needs.
    fn fill(&mut self, step: u64, demand: Demand) -> Result<(), (Resource, u64)> {
        let slot = self.slot(step);
        let filled = self.held[slot].plus(demand);
        match self.plan.capacity.lacks(filled) {
            Some((resource, _)) => Err((resource, demand.of(resource))),
            None => {
                self.held[slot] = filled;
                Ok(())
            }
        }
    }

    fn slot(&mut self, step: u64) -> usize {
        let slot = self.pass_and_slot(step).1 as usize;
        if self.held.len() <= slot {
            self.held.resize(slot + 1, Demand::default());
        }
        slot
    }

    fn pass_and_slot(&self, step: u64) -> (u32, u32) {
        match self.plan.slots.map(|slots| u64::from(slots.get())) {
            Some(slots) => ((step / slots) as u32, (step % slots) as u32),
            None => (0, step as u32),
        }
    }

    /// Builds the error for a stage that no slot can take. It names the slot that comes closest.
    fn full(&self, stage: &Stage, demand: Demand) -> SlotError {
        let capacity = self.plan.capacity;
        let lacking = (0..).zip(&self.held).filter_map(|(slot, held)| {
            let (resource, _) = capacity.lacks(held.plus(demand))?;
            let (wanted, left) = (demand.of(resource), capacity.left(*held, resource));
            Some((slot, resource, wanted, left))
        });
        let part = |wanted: u64, left: u64| u128::from(left) * 1000 / u128::from(wanted.max(1));
        let best = lacking.max_by_key(|&(_, _, wanted, left)| part(wanted, left));
        let (slot, resource, wanted, left) = best.unwrap_or((0, Resource::Tables, 0, 0));
        SlotError::Full {
            stage: stage.name.clone(),
            slot,
            resource,
            wanted,
            left,
        }
    }
}

/// Maximum slot for a pin where the number of slots is unlimited. It bounds the list of slots that
/// a request can create.
const MAX_PINNED: u32 = 1 << 16;

/// Rejects programs with reserved names: one that was split already, or imitates one, could
/// resubmit packets at will.
fn check_names(program: &Program) -> Result<(), SlotError> {
    let stages = program.controls.values().flat_map(|c| c.stages.values());
    let mut stages = stages.filter(|stage| {
        checkpoint();
        stage.is_of_turns()
    });
    let mut fields = program.fields.values().map(|field| &field.name);
    let stage = stages.next().map(|stage| &stage.name);
    let intrinsic = program.pipeline.intrinsics.contains_key(RESUME);
    let found = stage.or_else(|| {
        fields.find(|name| {
            checkpoint();
            name.contains(OF_TURNS)
        })
    });
    match found.cloned().or(intrinsic.then(|| RESUME.to_owned())) {
        Some(name) => Err(SlotError::Reserved { name }),
        None => Ok(()),
    }
}

fn check_loops(control: &Control) -> Result<(), SlotError> {
    let mut stages = control.stages.iter();
    let back = stages.find(|(id, stage)| {
        checkpoint();
        links(&stage.kind).iter().any(|to| to <= id)
    });
    match back {
        None => Ok(()),
        Some((_, stage)) => Err(SlotError::Loop {
            control: control.name.clone(),
            stage: stage.name.clone(),
        }),
    }
}

/// Returns the links of a stage.
pub(crate) fn nexts(kind: &StageKind) -> Vec<Next> {
    match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        StageKind::Action { next, .. } => vec![*next],
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => vec![*next],
            MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
            MatchNext::ByAction(nexts) => nexts.clone(),
        },
    }
}

/// Returns the stages that a stage links to.
pub fn links(kind: &StageKind) -> Vec<StageId> {
    let stage = |next| match next {
        Next::Stage(stage) => Some(stage),
        Next::End => None,
    };
    nexts(kind).into_iter().filter_map(stage).collect()
}

fn pipe_of(kind: &StageKind) -> Pipe {
    match kind {
        StageKind::Condition { .. } => Pipe::Condition,
        StageKind::Match { .. } => Pipe::Match,
        StageKind::Action { .. } => Pipe::Action,
    }
}

fn demand_of(program: &Program, kind: &StageKind) -> Demand {
    match kind {
        StageKind::Match { table, .. } => table_demand(program, *table),
        StageKind::Condition { .. } | StageKind::Action { .. } => Demand::default(),
    }
}

/// Returns the demand of a table: for each entry the key, its mask if it has one, and the arguments
/// of the action with the most of them.
pub fn table_demand(program: &Program, id: TableId) -> Demand {
    let table = &program.tables[id];
    let keys = table.keys.iter().map(|key| {
        checkpoint();
        let width = key.expr.ty(program, None).map_or(0, ir::ScalarTy::width);
        let parts = match key.match_kind {
            ir::MatchKind::Exact => 1,
            ir::MatchKind::Selector => 0,
            ir::MatchKind::Lpm
            | ir::MatchKind::Ternary
            | ir::MatchKind::Range
            | ir::MatchKind::Optional => 2,
        };
        u64::from(width.div_ceil(8)) * parts
    });
    let bytes_of = |action: &ir::TableAction| -> u64 {
        checkpoint();
        let params = program.actions[action.action].params.iter();
        params
            .map(|param| u64::from(param.ty.width().div_ceil(8)))
            .sum()
    };
    let arguments = table.actions.iter().map(bytes_of).max().unwrap_or(0);
    let entries = u64::from(table.size);
    Demand {
        tables: 1,
        entries,
        memory: entries * (keys.sum::<u64>() + arguments),
    }
}
