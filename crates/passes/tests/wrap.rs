//! Tests of programs split into rounds. Random lines of stages, with loops, are walked in both
//! forms.

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

/// A stage: true if it is a condition, and the targets of its two links. Beyond the last stage is
/// the end.
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

/// Returns lines of a few stages. Most links lead forward.
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

/// A packet that decides at each stage by the number of its visits.
struct Walk<'w> {
    control: &'w Control,
    decisions: &'w [bool],
    been: HashMap<String, usize>,
    /// The program's own stages that it visited. An empty name marks the end of a round.
    met: Vec<String>,
    fields: HashMap<FieldId, u64>,
}

/// Maximum number of stages in a walk: loops do not end by themselves.
const MAX: usize = 200;

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

    /// Executes a stage that was added for rounds and returns its successor.
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

    /// Runs the control once.
    fn run(&mut self) {
        let mut next = Next::Stage(StageId::from_index(0));
        while let Next::Stage(id) = next
            && self.met.len() < MAX
        {
            let stage = &self.control.stages[id];
            next = match stage.is_of_turns() {
                true => self.turn(&stage.kind),
                false => self.own(stage),
            };
        }
    }

    /// Runs the control for as long as `resume` is set. Returns the stages visited in each round.
    fn turns(mut self, resume: FieldId) -> Vec<Vec<String>> {
        let mut turns = Vec::new();
        let mut all = 0;
        loop {
            self.run();
            let met = self.met[all..].to_vec();
            all = self.met.len();
            turns.push(met);
            if self.fields.get(&resume).copied().unwrap_or(0) == 0 || all >= MAX {
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
