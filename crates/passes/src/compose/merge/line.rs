//! Concatenation of controls into one line of stages.

use bits::{Id, IdVec};
use ir::{Control, Next, Stage, StageId};

use support::work::checkpoint;

use crate::simplify::links;

/// A join point: the start of a stage, or the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point(u32);

/// Base of the stage ids that stand for links to points until the line is finished.
const POINTS: u32 = 1 << 31;

impl Point {
    /// Returns a link to the point.
    pub(super) fn link(self) -> Next {
        Next::Stage(StageId::new(POINTS + self.0))
    }
}

/// Location of a point.
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

    /// Creates a point without a location.
    pub(super) fn point(&mut self) -> Point {
        self.points.push(Found::Nothing);
        Point(self.points.len() as u32 - 1)
    }

    /// Places the point before the next stage.
    pub(super) fn here(&mut self, point: Point) {
        self.points[point.0 as usize] = Found::Stage(StageId::from_index(self.stages.len()));
    }

    /// Makes the point an alias of another.
    pub(super) fn same(&mut self, point: Point, other: Point) {
        self.points[point.0 as usize] = Found::Same(other);
    }

    /// Places the point at the end of the line.
    pub(super) fn end(&mut self, point: Point) {
        self.points[point.0 as usize] = Found::End;
    }

    /// Returns a unique stage name: this one, followed by the stage's number.
    pub(super) fn unique(&self, name: &str) -> String {
        format!("{name}{}", self.stages.len())
    }

    /// Appends a stage. Its links may name points.
    pub(super) fn stage(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// Appends all stages of a control, which starts at `entry` and continues at `after`.
    pub(super) fn control(&mut self, control: &Control, entry: Point, after: Point) {
        if control.stages.is_empty() {
            return self.same(entry, after);
        }
        self.here(entry);
        let first = self.stages.len() as u32;
        for stage in control.stages.values() {
            checkpoint();
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

    /// Returns all stages, with links to points resolved.
    pub(super) fn finish(mut self) -> IdVec<StageId, Stage> {
        let mut stages = std::mem::take(&mut self.stages);
        for stage in &mut stages {
            checkpoint();
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
        // A longer chain of aliases would be a cycle, which no caller builds.
        for _ in 0..self.points.len() {
            checkpoint();
            match self.points[point.0 as usize] {
                Found::Stage(id) => return Next::Stage(id),
                Found::Same(other) => point = other,
                Found::End | Found::Nothing => return Next::End,
            }
        }
        Next::End
    }
}
