//! Tests of slot placement on random lines of stages, against a checker of every link and slot.
//! Errors are tested by hand.

use bits::{Id, Value};
use ir::{
    Arch, Block, BlockCode, BlockRole, Control, Expr, MatchNext, MatchOutcome, Next, Program,
    ScalarTy, Stage, StageId, StageKind, StepId, Table,
};
use passes::slots::{self, Capacity, Demand, Pins, Pipe, SlotError, SlotMap, SlotPlan, Slots};
use proptest::prelude::*;
use std::num::NonZeroU16;

/// A stage: its kind, the distances of its two links, and the size of its table.
type Shape = (u8, usize, usize, u32);

fn program(ingress: &[Shape], egress: &[Shape]) -> Program {
    let mut program = Program::empty("p", Arch::V1model);
    for (role, shapes) in [(BlockRole::Ingress, ingress), (BlockRole::Egress, egress)] {
        let stages = (0..shapes.len())
            .map(|at| stage(&mut program, shapes, at))
            .collect();
        let name = format!("{role:?}").to_lowercase();
        let code = BlockCode::Control(program.controls.push(Control { name, stages }));
        program.pipeline.blocks.push(Block {
            role,
            code,
            step: StepId::new(0),
        });
    }
    program
}

fn stage(program: &mut Program, shapes: &[Shape], at: usize) -> Stage {
    let (kind, one, two, size) = shapes[at];
    let next = |skip: usize| match at + 1 + skip {
        to if to < shapes.len() => Next::Stage(StageId::from_index(to)),
        _ => Next::End,
    };
    let kind = match kind {
        0 => StageKind::Condition {
            cond: Expr::Const(ScalarTy::Bool, Value::zero(1)),
            then: next(one),
            otherwise: next(two),
        },
        1 => StageKind::Action {
            body: Vec::new(),
            next: next(one),
        },
        _ => StageKind::Match {
            table: program.tables.push(table(size)),
            outcome: MatchOutcome::default(),
            next: MatchNext::ByHit {
                hit: next(one),
                miss: next(two),
            },
        },
    };
    Stage {
        name: format!("stage_{at}"),
        kind,
        loc: None,
    }
}

fn table(size: u32) -> Table {
    Table {
        name: "t".into(),
        keys: Vec::new(),
        actions: Vec::new(),
        default: ir::ActionCall {
            action: 0,
            args: Vec::new(),
        },
        default_is_const: false,
        entries: Vec::new(),
        entries_are_const: false,
        largest_priority_wins: true,
        size,
        size_is_declared: true,
        implementation: None,
        direct_counter: None,
        direct_meter: None,
        idle_timeout: false,
        add_on_miss: false,
        mirror: None,
        annotations: Vec::new(),
        loc: None,
    }
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec((0u8..3, 0usize..4, 0usize..4, 1u32..50), 0..14)
}

/// Returns the first violated property of the maps. Checks every link and slot.
fn wrong(
    plan: &SlotPlan,
    programs: &[Program],
    maps: &[SlotMap],
    slots: &[Demand],
) -> Option<String> {
    let mut held = vec![Demand::default(); slots.len()];
    for (program, map) in programs.iter().zip(maps) {
        for place in &map.placements {
            let slot = &mut held[place.slot as usize];
            slot.tables += place.demand.tables;
            slot.entries += place.demand.entries;
            slot.memory += place.demand.memory;
            let stages = &program.controls[place.control].stages;
            for link in slots::links(&stages[place.stage].kind) {
                let mut all = map.placements.iter();
                let to = all.find(|to| (to.control, to.stage) == (place.control, link));
                let Some(to) = to else {
                    return Some(format!("{link:?} has no place"));
                };
                let from = (place.pass, place.slot, place.pipe);
                if (to.pass, to.slot, to.pipe) <= from {
                    return Some(format!("{} does not ascend to {}", place.name, to.name));
                }
            }
            if place.role == BlockRole::Egress && place.pass > 0 {
                return Some(format!(
                    "{} comes after a resubmission from egress",
                    place.name
                ));
            }
        }
    }
    let is_over = |bound: Option<u64>, got: u64| bound.is_some_and(|bound| got > bound);
    if held != slots {
        return Some("the slots hold something else than what is in them".into());
    }
    let Capacity {
        tables,
        entries,
        memory,
    } = plan.capacity;
    let mut all = held.iter();
    let over = all.any(|slot| {
        is_over(tables, slot.tables)
            || is_over(entries, slot.entries)
            || is_over(memory, slot.memory)
    });
    let too_many = plan
        .slots
        .is_some_and(|slots| held.len() > slots.get().into());
    (over || too_many).then(|| "a bound of the device does not hold".into())
}

fn plan(slots: Option<u16>, capacity: Capacity) -> SlotPlan {
    let slots = slots.map(|slots| NonZeroU16::new(slots).expect("some slots"));
    SlotPlan { slots, capacity }
}

fn mapped(plan: &SlotPlan, program: &Program) -> Result<SlotMap, SlotError> {
    Slots::new(*plan).place(program, &Pins::new())
}

proptest! {
    #[test]
    fn stages_ascend_along_links_within_the_bounds(
        programs in prop::collection::vec((shapes(), shapes()), 1..4),
        count in prop::option::of(1u16..8),
        tables in prop::option::of(1u64..6),
        entries in prop::option::of(20u64..200),
    ) {
        let programs: Vec<Program> = programs.iter().map(|(i, e)| program(i, e)).collect();
        let plan = plan(count, Capacity { tables, entries, memory: None });
        let mut slots = Slots::new(plan);
        let maps = programs.iter().map(|program| slots.place(program, &Pins::new()));
        if let Ok(maps) = maps.collect::<Result<Vec<SlotMap>, SlotError>>() {
            for (program, map) in programs.iter().zip(&maps) {
                let stages: usize = program.controls.values().map(|c| c.stages.len()).sum();
                prop_assert_eq!(map.placements.len(), stages);
            }
            prop_assert_eq!(wrong(&plan, &programs, &maps, slots.held()), None);
            // Adding placed programs gives the same occupancy as the search.
            let mut again = Slots::new(plan);
            maps.iter().for_each(|map| again.hold(map));
            prop_assert_eq!(again.held(), slots.held());
        }
    }

    #[test]
    fn a_stage_is_in_its_slot_if_that_is_said(
        ingress in shapes(),
        count in 1u16..6,
        stage in 0usize..14,
        slot in 0u32..6,
    ) {
        let (program, plan) = (program(&ingress, &[]), plan(Some(count), Capacity::default()));
        let mut slots = Slots::new(plan);
        let name = format!("stage_{stage}");
        let map = slots.place(&program, &Pins::from([(name.clone(), slot)]));
        if slot >= count.into() && stage < ingress.len() {
            let error = SlotError::NoSuchSlot { stage: name, slot, slots: count.into() };
            prop_assert_eq!(map, Err(error));
            return Ok(());
        }
        let map = map.expect("every slot holds everything");
        let place = map.placements.iter().find(|place| place.name == name);
        prop_assert!(place.is_none_or(|place| place.slot == slot));
        prop_assert_eq!(wrong(&plan, &[program], &[map], slots.held()), None);
    }

    #[test]
    fn every_program_fits_without_bounds_and_is_never_resubmitted(ingress in shapes(), egress in shapes()) {
        let map = mapped(&SlotPlan::default(), &program(&ingress, &egress)).expect("there is no bound");
        prop_assert_eq!(map.turns(), 1);
    }
}

#[test]
fn a_condition_its_match_and_the_code_behind_share_a_slot() {
    let one = program(&[(0, 0, 1, 0), (2, 0, 0, 9), (1, 0, 0, 0)], &[]);
    let map = mapped(&SlotPlan::default(), &one).expect("there is no bound");
    let at: Vec<(u32, Pipe)> = map.placements.iter().map(|p| (p.slot, p.pipe)).collect();
    assert_eq!(
        at,
        [(0, Pipe::Condition), (0, Pipe::Match), (0, Pipe::Action)]
    );
}

#[test]
fn stages_of_other_controls_are_counted_and_take_no_slots() {
    let mut one = program(&[(2, 0, 0, 9), (1, 0, 0, 0)], &[(1, 0, 0, 0)]);
    one.pipeline.blocks[1].role = BlockRole::Deparser;
    let map = mapped(&SlotPlan::default(), &one).expect("there is no bound");
    assert_eq!((map.placements.len(), map.slotless), (2, 1));
}

#[test]
fn exclusive_branches_share_a_slot() {
    // One match on each branch of a condition.
    let one = program(&[(0, 0, 1, 0), (2, 9, 9, 5), (2, 9, 9, 6)], &[]);
    let mut slots = Slots::new(SlotPlan::default());
    slots.place(&one, &Pins::new()).expect("there is no bound");
    assert_eq!(slots.held().len(), 1);
    assert_eq!(slots.held()[0].tables, 2);
}

#[test]
fn a_line_longer_than_the_slots_goes_on_by_resubmission() {
    let line = [(2, 0, 0, 1); 7];
    let plan = plan(Some(3), Capacity::default());
    let map = mapped(&plan, &program(&line, &[])).expect("ingress is resubmitted");
    assert_eq!(map.turns(), 3);
    let error = mapped(&plan, &program(&[], &line)).expect_err("egress is not");
    assert!(
        matches!(error, SlotError::NoResubmission { slots: 3, .. }),
        "{error}"
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let plan = |slots, entries| {
        let entries = Some(entries);
        plan(
            slots,
            Capacity {
                entries,
                ..Capacity::default()
            },
        )
    };
    let two = program(&[(2, 0, 0, 60), (2, 0, 0, 60)], &[]);
    let pinned = |plan, slot| {
        let pins = Pins::from([("stage_1".to_owned(), slot)]);
        let error = Slots::new(plan)
            .place(&two, &pins)
            .expect_err("it does not fit");
        error.to_string()
    };
    let error = |plan| {
        mapped(&plan, &two)
            .expect_err("it does not fit")
            .to_string()
    };
    assert_eq!(
        error(plan(Some(1), 100)),
        "no slot has room for stage stage_1: it takes 60 entries, and slot 0, which lacks the least, has 40 left; declare more slots, or delete a program"
    );
    assert_eq!(
        error(plan(Some(4), 50)),
        "stage stage_0 takes 60 entries, but a slot holds 50; declare a smaller size for its table, or slots of at least 60 entries"
    );
    assert_eq!(
        pinned(plan(Some(2), 100), 0),
        "slot 0 has no room for stage stage_1: it takes 60 entries, and the slot has 40 left; choose another slot, or move another stage away"
    );
    assert_eq!(
        pinned(plan(Some(2), 100), 2),
        "there is no slot 2 for stage stage_1; slots are numbered from 0 to 1"
    );
    assert_eq!(
        pinned(plan(None, 100), 0),
        "stage stage_1 cannot be in slot 0: stages that lead to it are there or behind; choose slot 1 or a later one, or declare how many slots there are"
    );
}

#[test]
fn what_is_kept_for_turns_is_nobody_elses() {
    let mut cut = program(&[(1, 0, 0, 0)], &[]);
    cut.controls.iter_mut().for_each(|(_, control)| {
        control
            .stages
            .iter_mut()
            .for_each(|(_, stage)| stage.name = "i.$slots$.to_1".into());
    });
    let error = mapped(&SlotPlan::default(), &cut).expect_err("it plays one that was cut");
    assert_eq!(
        error.to_string(),
        "the program has `i.$slots$.to_1`, and names with $slots$ and the intrinsic slots.resume are kept for turns through slots; give the program as it was before it was cut"
    );
}
