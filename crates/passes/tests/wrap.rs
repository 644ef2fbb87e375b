//! Lines of stages in turns: random ones, with loops, walked beside themselves as they were before they were cut.

use std::collections::HashMap;
use std::num::NonZeroU16;

use bits::{Id, Value};
use ir::{
    Arch, BinOp, Block, BlockCode, BlockRole, Control, Expr, FieldId, Next, Program, ScalarTy,
    Stage, StageId, StageKind, StepId, StmtKind,
};
use passes::slots::{Pins, Pipe, SlotMap, SlotPlan, Slots, links};
use passes::wrap::wrap;
use proptest::prelude::*;

/// A stage to make: whether it is a condition, and where its two links lead; behind the last stage is the end.
type Shape = (bool, usize, usize);

fn program(shapes: &[Shape]) -> Program {
    let next = |to: usize| match to < shapes.len() {
        true => Next::Stage(StageId::from_index(to)),
        false => Next::End,
    };
    let kind = |&(is_condition, one, two): &Shape| match is_condition {
        true => StageKind::Condition {
            cond: Expr::Const(ScalarTy::Bool, Value::zero(1)),
            then: next(one),
            otherwise: next(two),
        },
        false => StageKind::Action {
            body: Vec::new(),
            next: next(one),
        },
    };
    let stages = shapes.iter().enumerate().map(|(at, shape)| Stage {
        name: format!("stage_{at}"),
        kind: kind(shape),
        loc: None,
    });
    let mut program = Program::empty("p", Arch::V1model);
    program.errors.push("NoError".into());
    let control = Control {
        name: "ingress".into(),
        stages: stages.collect(),
    };
    program.pipeline.blocks.push(Block {
        role: BlockRole::Ingress,
        code: BlockCode::Control(program.controls.push(control)),
        step: StepId::new(0),
    });
    program
}

/// Lines of some stages, most of whose links lead forward.
fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let stage = (any::<bool>(), 0usize..5, 0usize..5, 0usize..12);
    let stages = prop::collection::vec(stage, 1..14);
    stages.prop_map(|stages| {
        let stages = stages.into_iter().enumerate();
        let shape = |(at, (is_condition, one, two, back)): (usize, (bool, usize, usize, usize))| {
            let one = if back < 2 {
                at.saturating_sub(one)
            } else {
                at + 1 + one
            };
            (is_condition, one, at + 1 + two)
        };
        stages.map(shape).collect()
    })
}

/// A packet on its way, which decides at each stage by how often it was there.
struct Walk<'w> {
    control: &'w Control,
    decisions: &'w [bool],
    been: HashMap<String, usize>,
    /// The own stages that it met; a turn's end is an empty name.
    met: Vec<String>,
    fields: HashMap<FieldId, u64>,
}

/// Stages that a walk meets at most: loops have no end of their own.
const LONGEST: usize = 200;

impl<'w> Walk<'w> {
    fn new(program: &'w Program, decisions: &'w [bool]) -> Walk<'w> {
        Walk {
            control: &program.controls.as_slice()[0],
            decisions,
            been: HashMap::new(),
            met: Vec::new(),
            fields: HashMap::new(),
        }
    }

    fn number(&self, expr: &Expr) -> u64 {
        match expr {
            Expr::Const(_, value) => value.to_u64().expect("it is small"),
            Expr::Read(place) => self.fields.get(&place.base).copied().unwrap_or(0),
            Expr::Binary(BinOp::Eq, a, b) => (self.number(a) == self.number(b)).into(),
            Expr::Binary(BinOp::Lt, a, b) => (self.number(a) < self.number(b)).into(),
            other => panic!("turns have no {other:?}"),
        }
    }

    /// Where a stage that was made for turns leads.
    fn turn(&mut self, kind: &StageKind) -> Next {
        match kind {
            StageKind::Condition {
                cond,
                then,
                otherwise,
            } => match self.number(cond) {
                0 => *otherwise,
                _ => *then,
            },
            StageKind::Action { body, next } => {
                for stmt in body {
                    let StmtKind::Assign(place, value) = &stmt.kind else {
                        panic!("turns have no {stmt:?}");
                    };
                    self.fields.insert(place.base, self.number(value));
                }
                *next
            }
            StageKind::Match { .. } => panic!("turns look nothing up"),
        }
    }

    fn own(&mut self, stage: &Stage) -> Next {
        self.met.push(stage.name.clone());
        let been = self.been.entry(stage.name.clone()).or_insert(0);
        *been += 1;
        let decided = self.decisions[(*been + self.met.len()) % self.decisions.len()];
        match &stage.kind {
            StageKind::Condition {
                then, otherwise, ..
            } => [*otherwise, *then][usize::from(decided)],
            StageKind::Action { next, .. } => *next,
            StageKind::Match { .. } => panic!("no stage looks anything up"),
        }
    }

    /// One run of the control.
    fn run(&mut self) {
        let mut next = Next::Stage(StageId::from_index(0));
        while let Next::Stage(id) = next
            && self.met.len() < LONGEST
        {
            let stage = &self.control.stages[id];
            next = match stage.is_of_turns() {
                true => self.turn(&stage.kind),
                false => self.own(stage),
            };
        }
    }

    /// Runs the control as long as the note says so: the stages met in each turn.
    fn turns(mut self, resume: FieldId) -> Vec<Vec<String>> {
        let mut turns = Vec::new();
        let mut all = 0;
        loop {
            self.run();
            let met = self.met[all..].to_vec();
            all = self.met.len();
            turns.push(met);
            if self.fields.get(&resume).copied().unwrap_or(0) == 0 || all >= LONGEST {
                return turns;
            }
        }
    }
}

fn map(program: &Program, slots: u16) -> SlotMap {
    let plan = SlotPlan {
        slots: NonZeroU16::new(slots),
        ..SlotPlan::default()
    };
    let map = Slots::new(plan).place(program, &Pins::new());
    map.expect("slots without bounds hold every ingress")
}

proptest! {
    #[test]
    fn packets_meet_the_same_stages_each_turn_in_ascending_slots(
        shapes in shapes(),
        slots in 1u16..6,
        decisions in prop::collection::vec(any::<bool>(), 1..9),
    ) {
        let program = program(&shapes);
        let map = map(&program, slots);
        let mut alone = Walk::new(&program, &decisions);
        alone.run();
        let is_ahead = |from: &str, to: &str| {
            let place = |name: &str| map.placements.iter().find(|place| place.name == name).expect("it is mapped");
            (place(from).slot, place(from).pipe) < (place(to).slot, place(to).pipe)
        };
        let Some(wrapped) = wrap(&program, &map) else {
            prop_assert!(alone.met.windows(2).all(|two| is_ahead(&two[0], &two[1])));
            return Ok(());
        };
        prop_assert_eq!(ir::verify(&wrapped), Ok(()));
        let read = ir::read(&wrapped.to_string());
        prop_assert_eq!(read.as_ref(), Ok(&wrapped));
        let resume = wrapped.pipeline.intrinsics[ir::RESUME];
        let turns = Walk::new(&wrapped, &decisions).turns(resume);
        prop_assert_eq!(turns.concat(), alone.met);
        for turn in &turns {
            prop_assert!(turn.windows(2).all(|two| is_ahead(&two[0], &two[1])), "{:?}", turn);
        }
        let has_loop = program.controls.as_slice()[0].stages.iter().any(|(id, stage)| {
            links(&stage.kind).iter().any(|to| *to <= id)
        });
        prop_assert!(has_loop || turns.len() <= map.turns() as usize);
    }
}

#[test]
fn what_fits_is_left_as_it_is() {
    let program = program(&[(true, 1, 2), (false, 2, 0), (false, 3, 0)]);
    let map = map(&program, 2);
    assert_eq!(map.placements[2].pipe, Pipe::Action);
    assert_eq!(map.turns(), 1);
    assert_eq!(wrap(&program, &map), None);
}
