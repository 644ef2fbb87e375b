//! A control's stages under construction: the program's own stages, and others before and after
//! them.

use std::collections::BTreeMap;

use bits::{Id, IdVec};
use ir::{BinOp, Expr, FieldId, Next, Stage, StageId, StageKind, Stmt};

use super::layout::ADDED;
use super::parser::{constant, read};
use crate::simplify::links;

/// Stages before, of and after a program's own ones. Links refer to stages by temporary ids; the
/// program's own stages keep theirs.
pub(super) struct Line<'c> {
    control: &'c str,
    own: Vec<Stage>,
    /// Temporary ids and stages before and after the own ones.
    before: Vec<(u32, Stage)>,
    after: Vec<(u32, Stage)>,
    /// Stages directly before own ones, by the ids of these.
    between: BTreeMap<u32, (u32, Stage)>,
    next_id: u32,
}

impl<'c> Line<'c> {
    pub(super) fn new(control: &'c str, own: Vec<Stage>) -> Line<'c> {
        Line {
            control,
            next_id: own.len() as u32,
            own,
            before: Vec::new(),
            after: Vec::new(),
            between: BTreeMap::new(),
        }
    }

    /// Returns the program's own stages.
    pub(super) fn own(&mut self) -> &mut Vec<Stage> {
        &mut self.own
    }

    /// Returns the id of a new stage, to be added by [`Line::before`] or [`Line::after`].
    pub(super) fn reserve(&mut self) -> StageId {
        self.next_id += 1;
        StageId::new(self.next_id - 1)
    }

    fn stage(&self, name: &str, kind: StageKind) -> Stage {
        Stage {
            name: format!("{}.{ADDED}.{name}", self.control),
            kind,
            loc: None,
        }
    }

    /// Adds a stage before the own ones, after those added before it.
    pub(super) fn before(&mut self, id: StageId, name: &str, kind: StageKind) {
        let stage = self.stage(name, kind);
        self.before.push((id.get(), stage));
    }

    /// Sets the successor of an action stage that was added before the own ones.
    pub(super) fn set_next_of(&mut self, stage: StageId, to: Next) {
        let mut stages = self.before.iter_mut();
        if let Some((_, stage)) = stages.find(|(id, _)| *id == stage.get())
            && let StageKind::Action { next, .. } = &mut stage.kind
        {
            *next = to;
        }
    }

    /// Adds a stage after the own ones. Returns a link to it.
    pub(super) fn after(&mut self, name: &str, body: Vec<Stmt>, next: Next) -> Next {
        let id = self.reserve();
        let stage = self.stage(name, StageKind::Action { body, next });
        self.after.push((id.get(), stage));
        Next::Stage(id)
    }

    /// Adds code directly before an own stage: all links to the stage lead to the code first.
    pub(super) fn directly_before(&mut self, stage: StageId, name: &str, body: Vec<Stmt>) {
        let id = self.reserve();
        let next = Next::Stage(stage);
        let made = self.stage(name, StageKind::Action { body, next });
        self.between.insert(stage.get(), (id.get(), made));
    }

    /// Adds a choice by the number in a field: `targets[n]` for the number `first + n`, and the
    /// last one for all larger numbers. Returns a link to it.
    pub(super) fn choose(
        &mut self,
        name: &str,
        field: (FieldId, u32),
        first: usize,
        targets: &[Next],
    ) -> Next {
        let [one] = targets else {
            let (left, right) = targets.split_at(targets.len() / 2);
            if left.is_empty() {
                return Next::End;
            }
            let middle = first + left.len();
            let id = self.reserve();
            let place = self.before.len();
            // Its position comes before those of the choices that it leads to.
            self.before(
                id,
                &format!("{name}_{middle}"),
                StageKind::Action {
                    body: Vec::new(),
                    next: Next::End,
                },
            );
            let then = self.choose(name, field, first, left);
            let otherwise = self.choose(name, field, middle, right);
            let cond = Expr::Binary(
                BinOp::Lt,
                Box::new(read(field.0)),
                Box::new(constant(middle as u64, field.1)),
            );
            self.before[place].1.kind = StageKind::Condition {
                cond,
                then,
                otherwise,
            };
            return Next::Stage(id);
        };
        *one
    }

    /// Returns the stages in their order. The control starts at the first.
    pub(super) fn finish(self) -> IdVec<StageId, Stage> {
        let between = self.between;
        let own = self.own.into_iter().enumerate();
        let own = own.flat_map(|(number, stage)| {
            let number = number as u32;
            let before = between.get(&number).cloned();
            before.into_iter().chain([(number, stage)])
        });
        let all: Vec<(u32, Stage)> = self
            .before
            .into_iter()
            .chain(own)
            .chain(self.after)
            .collect();
        let mut places = vec![0; self.next_id as usize];
        for (place, (id, _)) in all.iter().enumerate() {
            places[*id as usize] = place;
        }
        let placed = all.into_iter().map(|(id, mut stage)| {
            for link in links(&mut stage.kind) {
                if let Next::Stage(to) = link {
                    let before = between.get(&to.get()).map(|(before, _)| *before);
                    if let Some(before) = before.filter(|&before| before != id) {
                        *to = StageId::new(before);
                    }
                    *to = StageId::from_index(places[to.index()]);
                }
            }
            stage
        });
        placed.collect()
    }
}
