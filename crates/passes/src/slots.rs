//! Stages of several programs, mapped to the stage slots of a device (HyperVDP, section IV-D).
//!
//! A slot is a condition, a match and an action pipeline in this order (section IV-C), so a condition, the match that it guards and the code behind can
//! share one. Every stage gets a *step* of its control's line: the earliest slot, counted without end, that comes after those of all stages which link to
//! it and that has room. Step `s` of a device with `n` slots is slot `s % n` in pass `s / n`: each pass after the first is one resubmission. Stages that
//! no packet meets on one way (exclusive branches, other programs) share slots freely; what bounds a slot is the capacity that the device declares.

use std::fmt;

use bits::Id;
use ir::{
    Block, BlockCode, BlockRole, Control, ControlId, MatchNext, Next, Program, StageId, StageKind,
    TableId,
};

/// What a device's slots can hold. What is `None` has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotPlan {
    /// How many slots there are.
    pub slots: Option<u32>,
    /// What each slot can hold.
    pub capacity: Capacity,
}

/// What a slot can hold. What is `None` has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Tables.
    pub tables: Option<u64>,
    /// Entries of all its tables, by their declared sizes.
    pub entries: Option<u64>,
    /// Bytes that these entries take.
    pub memory: Option<u64>,
}

/// What stages take, and what a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Tables.
    pub tables: u64,
    /// Entries.
    pub entries: u64,
    /// Bytes of keys, masks and arguments.
    pub memory: u64,
}

/// A bound of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// [`Capacity::tables`].
    Tables,
    /// [`Capacity::entries`].
    Entries,
    /// [`Capacity::memory`].
    Memory,
}

/// Which of a slot's pipelines a stage takes; a packet goes through them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipe {
    /// The condition binding pipeline.
    Condition,
    /// The match pipeline.
    Match,
    /// The action pipeline.
    Action,
}

/// Where a stage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which of the programs.
    pub program: usize,
    /// The stage's control.
    pub control: ControlId,
    /// What the control is in its architecture.
    pub role: BlockRole,
    /// The stage.
    pub stage: StageId,
    /// Its name.
    pub name: String,
    /// The pipeline that it takes.
    pub pipe: Pipe,
    /// The slot.
    pub slot: u32,
    /// How often a packet was resubmitted before it comes here.
    pub pass: u32,
    /// What it takes of the slot.
    pub demand: Demand,
}

/// Stages in slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// The programs' names.
    pub programs: Vec<String>,
    /// Every stage, by program and in the order of its control's line.
    pub placements: Vec<Placement>,
    /// What each slot holds; as many as the device has, or as are used.
    pub slots: Vec<Demand>,
}

/// Why programs do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotError {
    /// The device has no slot.
    NoSlots,
    /// A stage takes more than any slot holds.
    StageTooLarge {
        /// Program and stage.
        stage: String,
        /// Of what.
        resource: Resource,
        /// How much the stage takes.
        wanted: u64,
        /// How much a slot holds.
        capacity: u64,
    },
    /// All slots are too full for a stage.
    Full {
        /// Program and stage.
        stage: String,
        /// Of what the slot with the most room has too little.
        resource: Resource,
        /// How much the stage takes.
        wanted: u64,
        /// The most that a slot has left.
        left: u64,
    },
    /// A control behind the ingress needs more steps than there are slots: a packet can be resubmitted from the ingress only.
    NoResubmission {
        /// Program and control.
        control: String,
        /// Steps that it needs.
        steps: u32,
        /// Slots that there are.
        slots: u32,
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

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::NoSlots => {
                f.write_str("the device has no stage slots; declare at least one")
            }
            SlotError::StageTooLarge {
                stage,
                resource,
                wanted,
                capacity,
            } => write!(
                f,
                "stage {stage} takes {wanted} {resource}, but a slot holds {capacity}; declare a smaller size for its table, or slots of at least {wanted} {resource}"
            ),
            SlotError::Full {
                stage,
                resource,
                wanted,
                left,
            } => write!(
                f,
                "no slot has room for stage {stage}: it takes {wanted} {resource}, and the emptiest slot has {left} left; declare more slots, or delete a program"
            ),
            SlotError::NoResubmission {
                control,
                steps,
                slots,
            } => write!(
                f,
                "{control} takes {steps} slots in a line, and the device has {slots}; a packet is not resubmitted from there, so declare at least {steps} slots"
            ),
        }
    }
}

impl std::error::Error for SlotError {}

impl SlotMap {
    /// How often packets of a program are resubmitted, at most and but for its own loops.
    pub fn resubmissions(&self, program: usize) -> u32 {
        let own = self.placements.iter().filter(|p| p.program == program);
        own.map(|p| p.pass).max().unwrap_or(0)
    }
}

impl Demand {
    fn plus(self, other: Demand) -> Demand {
        Demand {
            tables: self.tables + other.tables,
            entries: self.entries + other.entries,
            memory: self.memory + other.memory,
        }
    }

    fn parts(self) -> [(Resource, u64); 3] {
        [
            (Resource::Tables, self.tables),
            (Resource::Entries, self.entries),
            (Resource::Memory, self.memory),
        ]
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

    /// What there is too little of for this demand, with how much is wanted.
    fn lacks(self, demand: Demand) -> Option<(Resource, u64)> {
        let mut parts = demand.parts().into_iter();
        parts.find(|(resource, wanted)| *wanted > self.of(*resource))
    }
}

/// Maps the stages of these programs to a device's slots, one program after the other.
///
/// # Errors
/// The first stage or control that has no place.
pub fn map(plan: &SlotPlan, programs: &[(&str, &Program)]) -> Result<SlotMap, SlotError> {
    if plan.slots == Some(0) {
        return Err(SlotError::NoSlots);
    }
    let mut mapper = Mapper {
        plan: *plan,
        held: vec![Demand::default(); plan.slots.unwrap_or(0) as usize],
        map: SlotMap::default(),
    };
    for (number, (name, program)) in programs.iter().enumerate() {
        mapper.map.programs.push((*name).to_owned());
        for block in &program.pipeline.blocks {
            mapper.control(number, name, program, *block)?;
        }
    }
    mapper.map.slots = mapper.held;
    Ok(mapper.map)
}

struct Mapper {
    plan: SlotPlan,
    held: Vec<Demand>,
    map: SlotMap,
}

/// A slot, counted without end, and the pipeline in it.
type Step = (u32, Pipe);

impl Mapper {
    fn control(
        &mut self,
        number: usize,
        name: &str,
        program: &Program,
        block: Block,
    ) -> Result<(), SlotError> {
        let BlockCode::Control(control) = block.code else {
            return Ok(());
        };
        // Deparsers and checksums are no match-action pipelines.
        let takes_slots = matches!(
            block.role,
            BlockRole::PreControl | BlockRole::Ingress | BlockRole::Egress
        );
        if !takes_slots {
            return Ok(());
        }
        let stages = &program.controls[control].stages;
        let mut steps: Vec<Option<Step>> = vec![None; stages.len()];
        for (id, stage) in stages.iter() {
            let pipe = pipe_of(&stage.kind);
            let demand = demand_of(program, &stage.kind);
            let earliest = earliest(&program.controls[control], &steps, id, pipe);
            let step = self.room(&format!("{name}: {}", stage.name), earliest, demand)?;
            steps[id.index()] = Some((step, pipe));
            let slots = self.plan.slots.unwrap_or(u32::MAX);
            if step >= slots && block.role != BlockRole::Ingress {
                let control = format!("{name}: {}", program.controls[control].name);
                return Err(SlotError::NoResubmission {
                    control,
                    steps: step + 1,
                    slots,
                });
            }
            self.map.placements.push(Placement {
                program: number,
                control,
                role: block.role,
                stage: id,
                name: stage.name.clone(),
                pipe,
                slot: step % slots,
                pass: step / slots,
                demand,
            });
        }
        Ok(())
    }

    /// The first step from `earliest` on whose slot has room, which it then has no more.
    fn room(&mut self, stage: &str, earliest: u32, demand: Demand) -> Result<u32, SlotError> {
        let capacity = self.plan.capacity;
        if let Some((resource, wanted)) = capacity.lacks(demand) {
            let stage = stage.to_owned();
            let capacity = capacity.of(resource);
            return Err(SlotError::StageTooLarge {
                stage,
                resource,
                wanted,
                capacity,
            });
        }
        // Without a bound there is always a slot that nothing is in yet.
        let last = match self.plan.slots {
            Some(slots) => earliest + slots,
            None => u32::MAX,
        };
        for step in earliest..last {
            let slot = self.slot(step);
            let filled = self.held[slot].plus(demand);
            if capacity.lacks(filled).is_none() {
                self.held[slot] = filled;
                return Ok(step);
            }
        }
        Err(self.full(stage, demand))
    }

    fn slot(&mut self, step: u32) -> usize {
        match self.plan.slots {
            Some(slots) => (step % slots) as usize,
            None => {
                let wanted = step as usize + 1;
                if self.held.len() < wanted {
                    self.held.resize(wanted, Demand::default());
                }
                step as usize
            }
        }
    }

    /// What all slots have too little of, by the slot that has the most of it left.
    fn full(&self, stage: &str, demand: Demand) -> SlotError {
        let capacity = self.plan.capacity;
        let left = |resource| {
            let held = self.held.iter().map(|held| {
                let parts = held.parts().into_iter().find(|part| part.0 == resource);
                capacity.of(resource) - parts.map_or(0, |part| part.1)
            });
            held.max().unwrap_or(0)
        };
        let parts = demand.parts().into_iter();
        let tight = parts.max_by_key(|(resource, wanted)| wanted.saturating_sub(left(*resource)));
        let (resource, wanted) = tight.unwrap_or((Resource::Tables, demand.tables));
        let (stage, left) = (stage.to_owned(), left(resource));
        SlotError::Full {
            stage,
            resource,
            wanted,
            left,
        }
    }
}

/// The earliest step for a stage: in the slot of each stage that links to it if that one's pipeline comes before, in the next slot otherwise. Links back are
/// loops, which are resubmissions anyway.
fn earliest(control: &Control, steps: &[Option<Step>], id: StageId, pipe: Pipe) -> u32 {
    let links_here = |stage: &StageId| links(&control.stages[*stage].kind).contains(&id);
    let before = control.stages.ids().take(id.index()).filter(links_here);
    let after = before
        .filter_map(|stage| steps[stage.index()])
        .map(|(slot, own)| if own < pipe { slot } else { slot + 1 });
    after.max().unwrap_or(0)
}

/// The stages that a stage links to.
pub fn links(kind: &StageKind) -> Vec<StageId> {
    let nexts: Vec<Next> = match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        StageKind::Action { next, .. } => vec![*next],
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => vec![*next],
            MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
            MatchNext::ByAction(nexts) => nexts.clone(),
        },
    };
    let stage = |next| match next {
        Next::Stage(stage) => Some(stage),
        Next::End => None,
    };
    nexts.into_iter().filter_map(stage).collect()
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

/// What a table takes: for each entry the key, its mask where it has one, and the arguments of the action with the most of them.
pub fn table_demand(program: &Program, id: TableId) -> Demand {
    let table = &program.tables[id];
    let keys = table.keys.iter().map(|key| {
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

/// A drawing: a line a slot, with what is in it.
impl fmt::Display for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, held) in self.slots.iter().enumerate() {
            let Demand {
                tables,
                entries,
                memory,
            } = held;
            writeln!(
                f,
                "slot {number}: {tables} tables, {entries} entries, {memory} bytes"
            )?;
            for place in self.placements.iter().filter(|p| p.slot as usize == number) {
                let pipe = match place.pipe {
                    Pipe::Condition => "condition",
                    Pipe::Match => "match",
                    Pipe::Action => "action",
                };
                let program = &self.programs[place.program];
                write!(f, "  {pipe:<9} {program}: {}", place.name)?;
                match place.pass {
                    0 => writeln!(f)?,
                    pass => writeln!(f, " (after resubmission {pass})")?,
                }
            }
        }
        Ok(())
    }
}
