//! Splits programs that need more stage slots than a device has. Ingress is cut at the last slot
//! and continues in another round (HyperVDP, section IV-D).
//!
//! A link that does not lead to a later slot of the same round ([`SlotMap`]) is cut. A stage in its
//! place records the number of the target stage, and the control ends. The architecture tests this
//! number ([`ir::RESUME`]) after ingress, and runs ingress again on the same fields. A suspended
//! packet consists of its fields. So all live values are kept, and so are the program's requests to
//! the device. At its start the control continues at the recorded stage:
//!
//! ```text
//! begin:    resume == 0 ? the first stage : take
//! take:     turn = resume; resume = 0
//! choose:   turn < 2 ? stage a : stage b            (binary search for more of them)
//! ...       the program's own stages, in their order
//! to 1:     resume = 1, end                          (where links to stage a were cut)
//! ```
//!
//! `exit` and the control's own end leave the number zero, so the packet is finished. A loop of
//! stages takes one round for each iteration. Parsers, other controls, tables and state are
//! unchanged. A program's own `resubmit` is done after the last round.

use std::collections::{BTreeMap, BTreeSet};

use bits::{Id, IdVec, Value};
use ir::{
    BinOp, BlockRole, Control, ControlId, Expr, Field, FieldId, Next, OF_TURNS, Place, Program,
    RESUME, ScalarTy, Stage, StageId, StageKind, Stmt, StmtKind,
};

use support::work::checkpoint;

use crate::simplify::links;
use crate::slots::{Placement, SlotMap};

/// Returns the program split into rounds by its map. Returns `None` if one round through the slots
/// suffices. The map must belong to the program.
pub fn wrap(program: &Program, map: &SlotMap) -> Option<Program> {
    // With an unlimited number of slots there is always a next one.
    map.slots?;
    let mut controls: BTreeMap<ControlId, Vec<&Placement>> = BTreeMap::new();
    for place in &map.placements {
        checkpoint();
        if place.role == BlockRole::Ingress {
            controls.entry(place.control).or_default().push(place);
        }
    }
    let cut = controls.into_iter().filter_map(|(id, places)| {
        let control = &program.controls[id];
        let targets = targets(control, &places);
        (!targets.is_empty()).then_some((id, places, targets))
    });
    let cut: Vec<_> = cut.collect();
    if cut.is_empty() {
        return None;
    }
    let mut wrapped = program.clone();
    let notes = Notes::new(&mut wrapped);
    for (id, places, targets) in cut {
        let control = &mut wrapped.controls[id];
        let turns = Turns::new(&notes, &control.name, &targets);
        control.stages = turns.cut(std::mem::take(&mut control.stages), &places);
    }
    Some(wrapped)
}

/// Returns the targets of the links that are cut.
fn targets(control: &Control, places: &[&Placement]) -> BTreeSet<StageId> {
    let stages = control.stages.iter();
    let links = stages.flat_map(|(from, stage)| {
        checkpoint();
        let to = crate::slots::links(&stage.kind).into_iter();
        to.map(move |to| (from, to))
    });
    let cut = links.filter(|(from, to)| is_cut(places, *from, *to));
    cut.map(|(_, to)| to).collect()
}

/// Returns true if the link is cut. Places are in the order of the line.
fn is_cut(places: &[&Placement], from: StageId, to: StageId) -> bool {
    !places[from.index()].leads_to(places[to.index()])
}

/// The fields that control the continuation in another round.
struct Notes {
    resume: FieldId,
    turn: FieldId,
}

const NOTE: ScalarTy = ScalarTy::Bit(32);

fn number(number: usize) -> Expr {
    Expr::Const(NOTE, Value::truncated(number as u128, 32))
}

fn read(field: FieldId) -> Box<Expr> {
    Box::new(Expr::Read(Place::from(field)))
}

fn assign(to: FieldId, value: Expr) -> Stmt {
    Stmt {
        kind: StmtKind::Assign(Place::from(to), value),
        loc: None,
    }
}

impl Notes {
    fn new(program: &mut Program) -> Notes {
        let mut field = |name: &str| {
            let name = format!("{OF_TURNS}.{name}");
            program.fields.push(Field { name, ty: NOTE })
        };
        let notes = Notes {
            resume: field("resume"),
            turn: field("turn"),
        };
        let intrinsics = &mut program.pipeline.intrinsics;
        intrinsics.insert(RESUME.to_owned(), notes.resume);
        notes
    }
}

/// A control's rounds under construction.
struct Turns<'t> {
    notes: &'t Notes,
    control: &'t str,
    /// The number of each target stage, starting at 1.
    numbers: BTreeMap<StageId, usize>,
}

impl<'t> Turns<'t> {
    fn new(notes: &'t Notes, control: &'t str, targets: &BTreeSet<StageId>) -> Turns<'t> {
        Turns {
            notes,
            control,
            numbers: targets.iter().copied().zip(1..).collect(),
        }
    }

    /// Returns the number of stages before the program's own: two, and one choice less than there
    /// are target stages.
    fn in_front(&self) -> usize {
        1 + self.numbers.len()
    }

    fn own(&self, stage: StageId) -> Next {
        Next::Stage(StageId::from_index(self.in_front() + stage.index()))
    }

    fn stage(&self, name: &str, kind: StageKind) -> Stage {
        Stage {
            name: format!("{}.{OF_TURNS}.{name}", self.control),
            kind,
            loc: None,
        }
    }

    fn cut(&self, own: IdVec<StageId, Stage>, places: &[&Placement]) -> IdVec<StageId, Stage> {
        let behind = self.in_front() + own.len();
        let mut stages = self.beginning();
        for (from, mut stage) in own.ids().zip(own.values().cloned()) {
            checkpoint();
            for link in links(&mut stage.kind) {
                let Next::Stage(to) = *link else { continue };
                *link = match is_cut(places, from, to) {
                    true => Next::Stage(StageId::from_index(behind + self.numbers[&to] - 1)),
                    false => self.own(to),
                };
            }
            stages.push(stage);
        }
        for at in self.numbers.values() {
            checkpoint();
            let body = vec![assign(self.notes.resume, number(*at))];
            let next = Next::End;
            stages.push(self.stage(&format!("to_{at}"), StageKind::Action { body, next }));
        }
        stages.into_iter().collect()
    }

    /// Builds the stages at the start of a round.
    fn beginning(&self) -> Vec<Stage> {
        let Notes { resume, turn } = self.notes;
        let is_first = Expr::Binary(BinOp::Eq, read(*resume), Box::new(number(0)));
        let take = vec![
            assign(*turn, Expr::Read(Place::from(*resume))),
            assign(*resume, number(0)),
        ];
        let mut stages = vec![
            self.stage(
                "begin",
                StageKind::Condition {
                    cond: is_first,
                    then: self.own(StageId::from_index(0)),
                    otherwise: Next::Stage(StageId::from_index(1)),
                },
            ),
            self.stage(
                "take",
                StageKind::Action {
                    body: take,
                    next: Next::End,
                },
            ),
        ];
        let noted: Vec<StageId> = self.numbers.keys().copied().collect();
        let first = self.choose(&mut stages, &noted, 1);
        if let StageKind::Action { next, .. } = &mut stages[1].kind {
            *next = first;
        }
        stages
    }

    /// Appends choices among these stages. The first one has the number `first`.
    fn choose(&self, stages: &mut Vec<Stage>, noted: &[StageId], first: usize) -> Next {
        checkpoint();
        let [one] = noted else {
            let (left, right) = noted.split_at(noted.len() / 2);
            let middle = first + left.len();
            let at = stages.len();
            let choice = |then, otherwise| {
                let cond = Expr::Binary(BinOp::Lt, read(self.notes.turn), Box::new(number(middle)));
                let kind = StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                };
                self.stage(&format!("choose_{middle}"), kind)
            };
            // Its position comes before those of the choices after it.
            stages.push(choice(Next::End, Next::End));
            let then = self.choose(stages, left, first);
            let otherwise = self.choose(stages, right, middle);
            stages[at] = choice(then, otherwise);
            return Next::Stage(StageId::from_index(at));
        };
        self.own(*one)
    }
}
