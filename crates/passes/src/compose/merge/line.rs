//! Controls put one behind the other.

use bits::{Id, IdVec};
use ir::{Control, Next, Stage, StageId};

use crate::simplify::links;

/// A point between stages: where one begins, or the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point(u32);

/// Until the line is finished, links to points are stage ids from here on.
const POINTS: u32 = 1 << 31;

impl Point {
    /// A link to it.
    pub(super) fn link(self) -> Next {
        Next::Stage(StageId::new(POINTS + self.0))
    }
}

/// What a point has turned out to be.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Stage(StageId),
    Same(Point),
    End,
}

/// Stages of several controls, in order.
pub(super) struct Line {
    stages: Vec<Stage>,
    points: Vec<Found>,
}

impl Line {
    pub(super) fn new() -> Line {
        Line {
            stages: Vec::new(),
            points: Vec::new(),
        }
    }

    /// A point that is nowhere yet.
    pub(super) fn point(&mut self) -> Point {
        self.points.push(Found::Nothing);
        Point(self.points.len() as u32 - 1)
    }

    /// The point is here: before the next stage.
    pub(super) fn here(&mut self, point: Point) {
        self.points[point.0 as usize] = Found::Stage(StageId::from_index(self.stages.len()));
    }

    /// The point is the same as another.
    pub(super) fn same(&mut self, point: Point, other: Point) {
        self.points[point.0 as usize] = Found::Same(other);
    }

    /// The point is the end of the line.
    pub(super) fn end(&mut self, point: Point) {
        self.points[point.0 as usize] = Found::End;
    }

    /// A name that no other stage has: this one, with the stage's number.
    pub(super) fn unique(&self, name: &str) -> String {
        format!("{name}{}", self.stages.len())
    }

    /// A stage, whose links may lead to points.
    pub(super) fn stage(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// All stages of a control, from `entry` on; behind them comes `after`.
    pub(super) fn control(&mut self, control: &Control, entry: Point, after: Point) {
        if control.stages.is_empty() {
            return self.same(entry, after);
        }
        self.here(entry);
        let first = self.stages.len() as u32;
        for stage in control.stages.values() {
            let mut stage = stage.clone();
            for link in links(&mut stage.kind) {
                *link = match *link {
                    Next::Stage(id) => Next::Stage(StageId::new(first + id.get())),
                    Next::End => after.link(),
                };
            }
            self.stages.push(stage);
        }
    }

    /// All stages, with links to points resolved.
    pub(super) fn finish(mut self) -> IdVec<StageId, Stage> {
        let mut stages = std::mem::take(&mut self.stages);
        for stage in &mut stages {
            for link in links(&mut stage.kind) {
                if let Next::Stage(id) = *link
                    && let Some(point) = id.get().checked_sub(POINTS)
                {
                    *link = self.resolve(Point(point));
                }
            }
        }
        stages.into_iter().collect()
    }

    fn resolve(&self, mut point: Point) -> Next {
        // As many as there are would be a circle of points, which nothing makes.
        for _ in 0..self.points.len() {
            match self.points[point.0 as usize] {
                Found::Stage(id) => return Next::Stage(id),
                Found::Same(other) => point = other,
                Found::End | Found::Nothing => return Next::End,
            }
        }
        Next::End
    }
}
