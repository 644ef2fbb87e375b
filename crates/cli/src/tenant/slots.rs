//! Shows the stage slots of a switch, as text and as JSON.

use std::fmt::Write;

use p4info::polyplane::tenancy::v1 as wire;
use serde::Serialize;

use crate::amount;

/// All slots.
#[derive(Serialize)]
pub(super) struct Map<'w> {
    /// Number of slots. `None`: as many as programs take.
    slots: Option<u32>,
    /// Capacity of one slot.
    capacity: Capacity,
    held: Vec<Held<'w>>,
    programs: Vec<Turns<'w>>,
}

#[derive(Clone, Copy, Serialize)]
struct Capacity {
    tables: Option<u64>,
    entries: Option<u64>,
    memory: Option<u64>,
}

/// One slot.
#[derive(Serialize)]
struct Held<'w> {
    slot: u32,
    used: Amounts,
    /// Free amounts. `None` where there is no limit.
    free: Capacity,
    stages: Vec<Stage<'w>>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Amounts {
    tables: u64,
    entries: u64,
    memory: u64,
}

#[derive(Serialize)]
struct Stage<'w> {
    vpdp: u32,
    vpdp_name: &'w str,
    name: &'w str,
    kind: &'w str,
    block: &'w str,
    /// The turn through the slots in which a packet reaches it, from 1.
    turn: u32,
    /// True if its program does not run yet.
    is_coming: bool,
    takes: Amounts,
}

/// Maximum number of turns of a vPDP's packets through the slots.
#[derive(Serialize)]
struct Turns<'w> {
    vpdp: u32,
    name: &'w str,
    turns: u32,
    /// True if it does not run yet.
    is_coming: bool,
    /// Number of all its stages, as `show` and the quota count them.
    all_stages: u64,
    /// Number of its stages that take no slots.
    slotless: u64,
}

impl Amounts {
    fn of(demand: Option<&wire::Demand>) -> Amounts {
        demand.map_or_else(Amounts::default, |demand| Amounts {
            tables: demand.tables,
            entries: demand.entries,
            memory: demand.memory,
        })
    }
}

impl Capacity {
    fn without(self, used: Amounts) -> Capacity {
        let left = |bound: Option<u64>, used| bound.map(|bound| bound.saturating_sub(used));
        Capacity {
            tables: left(self.tables, used.tables),
            entries: left(self.entries, used.entries),
            memory: left(self.memory, used.memory),
        }
    }
}

impl<'w> Map<'w> {
    pub(super) fn of(slots: &'w wire::Slots) -> Map<'w> {
        let capacity = Capacity {
            tables: slots.tables,
            entries: slots.entries,
            memory: slots.memory,
        };
        let held = (0..).zip(&slots.held).map(|(slot, held)| {
            let used = Amounts::of(Some(held));
            Held {
                slot,
                used,
                free: capacity.without(used),
                stages: stages(slots, slot).collect(),
            }
        });
        let programs = slots.programs.iter().map(|program| Turns {
            vpdp: program.vpdp,
            name: &program.name,
            turns: program.turns,
            is_coming: program.is_coming,
            all_stages: program.stages.len() as u64 + program.slotless,
            slotless: program.slotless,
        });
        Map {
            slots: slots.count,
            capacity,
            held: held.collect(),
            programs: programs.collect(),
        }
    }

    /// Formats one line per slot with its content, then notes on the programs.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = match self.slots {
            Some(slots) => writeln!(text, "{}", amount::count(slots.into(), "stage slot")),
            None => writeln!(text, "as many stage slots as programs take"),
        };
        for held in &self.held {
            let Amounts {
                tables,
                entries,
                memory,
            } = held.used;
            let free = |left: Option<u64>| left.map_or(String::new(), |n| format!(" ({n} free)"));
            let _ = writeln!(
                text,
                "slot {}: {}{}, {}{}, {}{}",
                held.slot,
                amount::count(tables, "table"),
                free(held.free.tables),
                amount::count(entries, "entry"),
                free(held.free.entries),
                amount::count(memory, "byte"),
                free(held.free.memory)
            );
            for stage in &held.stages {
                let (kind, vpdp, name, block) =
                    (stage.kind, stage.vpdp_name, stage.name, stage.block);
                let _ = write!(text, "  {kind:<9} {vpdp}: {name} ({block}");
                let _ = match stage.turn {
                    1 => Ok(()),
                    turn => write!(text, ", turn {turn}"),
                };
                let _ = match stage.is_coming {
                    false => writeln!(text, ")"),
                    true => writeln!(text, ", coming)"),
                };
            }
        }
        for program in self.programs.iter().filter(|program| !program.is_coming) {
            program.tell(&mut text);
        }
        text
    }
}

impl Turns<'_> {
    /// Writes the number of turns if it is more than one, and the reason if stages are not
    /// listed.
    fn tell(&self, text: &mut String) {
        let Turns {
            name,
            turns,
            all_stages,
            slotless,
            ..
        } = self;
        // Writing to a string never fails.
        if *turns > 1 {
            let _ = writeln!(text, "{name} takes {turns} turns through the slots");
        }
        if *slotless > 0 {
            let _ = writeln!(
                text,
                "{name} has {}, {slotless} of which take{} no slots: those of deparsers, checksums and what leads from step to step of a chain",
                amount::count(*all_stages, "stage"),
                if *slotless == 1 { "s" } else { "" }
            );
        }
    }
}

fn stages(slots: &wire::Slots, slot: u32) -> impl Iterator<Item = Stage<'_>> {
    slots.programs.iter().flat_map(move |program| {
        let own = program
            .stages
            .iter()
            .filter(move |stage| stage.slot == slot);
        own.map(|stage| Stage {
            vpdp: program.vpdp,
            vpdp_name: &program.name,
            name: &stage.name,
            kind: &stage.kind,
            block: &stage.block,
            turn: stage.turn,
            is_coming: program.is_coming,
            takes: Amounts::of(stage.takes.as_ref()),
        })
    })
}
