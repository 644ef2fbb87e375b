//! Finds where a program is cut, and which stages each half runs.

use std::collections::BTreeSet;

use bits::{Id, IdSet, IdVec};
use ir::{
    Control, ExternId, Loc, MatchKind, MatchNext, Next, Op, Program, Stage, StageId, StageKind,
    Stmt, StmtKind, Table, TableId,
};
use support::work::checkpoint;

use super::error::SplitError;
use super::liveness::FieldSet;
use crate::slots::links;
use crate::uses::Uses;

/// Operations without state and without effect on the device. A server may run them.
const STATELESS: &[Op] = &[
    Op::Hash,
    Op::HashGet,
    Op::HashGetBase,
    Op::ChecksumReplace2,
    Op::ChecksumReplace4,
    Op::MarkToDrop,
    Op::Remote,
];

/// Operations that a packet must not have executed when it leaves: the device carries them out when
/// ingress ends, or the packet carries their state.
const NOT_BEFORE_A_CUT: &[(Op, &str)] = &[
    (Op::Clone, "`clone`"),
    (Op::Resubmit, "`resubmit`"),
    (Op::Recirculate, "`recirculate`"),
    (Op::Truncate, "`truncate`"),
    (Op::HoldAtomic, "`@atomic` code that applies a table"),
    (Op::ChecksumClear, "a running checksum"),
    (Op::ChecksumUpdate, "a running checksum"),
    (Op::InternetChecksumClear, "a running checksum"),
    (Op::InternetChecksumAdd, "a running checksum"),
    (Op::InternetChecksumSubtract, "a running checksum"),
    (Op::InternetChecksumSetState, "a running checksum"),
];

/// Kind of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutKind {
    /// A mirrored table: packets that no entry of the switch matches leave.
    Table(TableId),
    /// A handler: all packets leave.
    Handler(ExternId),
}

/// A stage of ingress at which packets leave the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// The stage.
    pub(super) stage: StageId,
    /// Its kind.
    pub(super) kind: CutKind,
}

/// A place in the switch at which a packet resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resume {
    /// The end of ingress.
    End,
    /// A stage.
    Stage(StageId),
    /// The action of this match stage, which a server has selected and the switch runs: the action
    /// has state.
    Action(StageId),
}

/// Result of the analysis.
pub(super) struct Cuts {
    /// The cuts, in the order of the stages. Their numbers start at 1.
    pub(super) cuts: Vec<Cut>,
    /// Stages that servers run.
    pub(super) at_server: IdSet<StageId>,
    /// Match stages of which the switch runs the action.
    pub(super) captured: IdSet<StageId>,
    /// The places at which packets resume. Their numbers start at 1.
    pub(super) resumes: Vec<Resume>,
    /// Fields that ingress may have written before each stage.
    pub(super) written: IdVec<StageId, FieldSet>,
    /// Fields that ingress may have written where a server gives the packet back, for each of
    /// `resumes`.
    pub(super) written_at_resume: Vec<FieldSet>,
}

/// Returns true if a switch can hold entries of the table. Packets that meet another table always
/// leave.
pub(super) fn is_cached(table: &Table) -> bool {
    let kinds = table.keys.iter().map(|key| key.match_kind);
    let lpm = kinds.clone().filter(|kind| *kind == MatchKind::Lpm).count();
    let exact = kinds.filter(|kind| *kind == MatchKind::Exact).count();
    lpm <= 1 && lpm + exact == table.keys.len() && !table.keys.is_empty()
}

/// Returns the kind of cut of a stage.
fn kind_of(program: &Program, stage: &Stage) -> Option<CutKind> {
    if let Some(call) = stage.kind.remote_call() {
        return call.instance.map(CutKind::Handler);
    }
    match stage.kind {
        StageKind::Match { table, .. } if program.tables[table].mirror.is_some() => {
            Some(CutKind::Table(table))
        }
        _ => None,
    }
}

/// Returns true if nothing in ingress is cut.
pub(super) fn has_none(program: &Program, ingress: &Control) -> bool {
    let mut stages = ingress.stages.values();
    !stages.any(|stage| kind_of(program, stage).is_some())
}

impl Cuts {
    /// Finds the cuts of an ingress control.
    ///
    /// # Errors
    /// The control has a construct that cannot be cut.
    pub(super) fn of(program: &Program, ingress: &Control) -> Result<Cuts, SplitError> {
        let stages = &ingress.stages;
        let cuts: Vec<Cut> = stages
            .iter()
            .filter_map(|(stage, item)| {
                let kind = kind_of(program, item)?;
                Some(Cut { stage, kind })
            })
            .collect();
        let first = || stages.values().find_map(|stage| stage.loc);
        if cuts.is_empty() {
            return Err(SplitError::new(
                program,
                first(),
                "the program applies no mirrored table in ingress and calls no handler",
                "write `@mirror(N)` before a table of ingress",
            ));
        }
        if cuts.len() > usize::from(u16::MAX) {
            return Err(SplitError::new(
                program,
                first(),
                "ingress has more than 65535 cuts",
                "mirror fewer tables",
            ));
        }
        let uses: IdVec<StageId, Uses> = stages
            .values()
            .map(|stage| Uses::of_stage(program, stage))
            .collect();
        check_reach(program, stages, &cuts, &uses)?;
        let mut captured = IdSet::new();
        for cut in &cuts {
            if let CutKind::Table(table) = cut.kind
                && is_captured(program, table, stages[cut.stage].loc)?
            {
                captured.insert(cut.stage);
            }
        }
        let at_server = server_stages(stages, &cuts, &uses, &captured);
        let resumes = resumes(stages, &at_server, &captured);
        let written = written(stages, &uses);
        let written_at_resume = resumes.iter().map(|resume| {
            let mut fields = FieldSet::new();
            for stage in at_server.iter() {
                if gives_back(stages, &uses, &captured, stage, *resume) {
                    fields.union_with(&written[stage]);
                    for &field in &uses[stage].writes {
                        fields.insert(field);
                    }
                }
            }
            fields
        });
        Ok(Cuts {
            written_at_resume: written_at_resume.collect(),
            cuts,
            at_server,
            captured,
            resumes,
            written,
        })
    }

    /// Returns the number of a place at which packets resume, or 0 for none.
    pub(super) fn number_of(&self, resume: Resume) -> usize {
        self.resumes
            .binary_search(&resume)
            .map_or(0, |index| index + 1)
    }
}

/// Returns the place of the first statement of a stage that has an operation. In an action of a
/// table it is that of the stage.
fn place_of_op(program: &Program, stage: &Stage, op: Op) -> Option<Loc> {
    let mut place = stage.loc;
    let StageKind::Action { body, .. } = &stage.kind else {
        return place;
    };
    let mut open = vec![&body[..]];
    while let Some(body) = open.pop() {
        checkpoint();
        let has = |stmt: &&Stmt| Uses::of_stmt(program, stmt).ops.contains(&op);
        let Some(stmt) = body.iter().find(has) else {
            continue;
        };
        place = stmt.loc.or(place);
        match &stmt.kind {
            StmtKind::If(_, then, otherwise) => open = vec![otherwise, then],
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                open = vec![body];
            }
            _ => {}
        }
    }
    place
}

/// Checks that no cut is in a loop, and that nothing comes before a cut that must not.
fn check_reach(
    program: &Program,
    stages: &IdVec<StageId, Stage>,
    cuts: &[Cut],
    uses: &IdVec<StageId, Uses>,
) -> Result<(), SplitError> {
    let mut leads_to_cut: IdSet<StageId> = IdSet::new();
    loop {
        let mut has_grown = false;
        for (id, stage) in stages.iter().rev() {
            checkpoint();
            let leads = links(&stage.kind)
                .iter()
                .any(|&to| leads_to_cut.contains(to) || cuts.iter().any(|cut| cut.stage == to));
            has_grown |= leads && leads_to_cut.insert(id);
        }
        if !has_grown {
            break;
        }
    }
    for (id, stage) in stages.iter() {
        if !leads_to_cut.contains(id) {
            continue;
        }
        let mut found = NOT_BEFORE_A_CUT.iter();
        if let Some((op, name)) = found.find(|(op, _)| uses[id].ops.contains(op)) {
            return Err(SplitError::new(
                program,
                place_of_op(program, stage, *op),
                format!("{name} comes before a mirrored table or the call of a handler"),
                "move it after them, or take `@mirror` from the table",
            ));
        }
    }
    for cut in cuts {
        if stages_after(stages, cut.stage).contains(cut.stage) {
            return Err(SplitError::new(
                program,
                stages[cut.stage].loc,
                "a mirrored table or the call of a handler is in a loop",
                "apply it outside of the loop",
            ));
        }
    }
    Ok(())
}

/// Returns the stages that a packet may meet after this one.
pub(super) fn stages_after(stages: &IdVec<StageId, Stage>, stage: StageId) -> IdSet<StageId> {
    let mut reached = IdSet::new();
    let mut open = links(&stages[stage].kind);
    while let Some(stage) = open.pop() {
        checkpoint();
        if reached.insert(stage) {
            open.extend(links(&stages[stage].kind));
        }
    }
    reached
}

/// Returns true if the actions of a mirrored table have state of the switch, so that a server only
/// selects the action.
fn is_captured(program: &Program, id: TableId, loc: Option<Loc>) -> Result<bool, SplitError> {
    let table = &program.tables[id];
    if table.direct_meter.is_some() {
        return Err(SplitError::new(
            program,
            table.loc,
            format!("the mirrored table `{}` has a direct meter", table.name),
            "use a meter array",
        ));
    }
    let mut has_state = false;
    let mut counts = false;
    for listed in &table.actions {
        for op in Uses::of_action(program, listed.action).ops {
            match op {
                Op::DirectCounterCount | Op::DirectCounterCountLength => counts = true,
                op => has_state |= !STATELESS.contains(&op),
            }
        }
    }
    if has_state && counts {
        return Err(SplitError::new(
            program,
            table.loc.or(loc),
            format!(
                "actions of the mirrored table `{}` use its direct counter and other state",
                table.name
            ),
            "move the other state out of the actions",
        ));
    }
    Ok(has_state)
}

/// Returns the stages that servers run: the cuts, and code without state of the switch from which
/// another such stage follows.
fn server_stages(
    stages: &IdVec<StageId, Stage>,
    cuts: &[Cut],
    uses: &IdVec<StageId, Uses>,
    captured: &IdSet<StageId>,
) -> IdSet<StageId> {
    let may_run = |id: StageId, stage: &Stage| match &stage.kind {
        StageKind::Match { .. } => false,
        _ => uses[id].ops.iter().all(|op| STATELESS.contains(op)),
    };
    let mut found: IdSet<StageId> = cuts.iter().map(|cut| cut.stage).collect();
    loop {
        let mut has_grown = false;
        for (id, stage) in stages.iter().rev() {
            checkpoint();
            let leads =
                may_run(id, stage) && links(&stage.kind).iter().any(|&to| found.contains(to));
            has_grown |= leads && found.insert(id);
        }
        if !has_grown {
            break;
        }
    }
    // The front of ingress is not among them unless a packet gets there after a cut.
    let mut reached: IdSet<StageId> = IdSet::new();
    let mut open: Vec<StageId> = cuts.iter().map(|cut| cut.stage).collect();
    while let Some(stage) = open.pop() {
        checkpoint();
        if found.contains(stage) && reached.insert(stage) && !captured.contains(stage) {
            open.extend(links(&stages[stage].kind));
        }
    }
    reached
}

/// Returns the places at which packets resume, in order. The end of ingress is always one, since
/// `exit` leads there.
fn resumes(
    stages: &IdVec<StageId, Stage>,
    at_server: &IdSet<StageId>,
    captured: &IdSet<StageId>,
) -> Vec<Resume> {
    let mut found = BTreeSet::from([Resume::End]);
    for stage in at_server.iter() {
        if captured.contains(stage) {
            found.insert(Resume::Action(stage));
            continue;
        }
        for to in links(&stages[stage].kind) {
            if !at_server.contains(to) {
                found.insert(Resume::Stage(to));
            }
        }
    }
    found.into_iter().collect()
}

/// Returns true if a server gives a packet back from this stage to this place.
fn gives_back(
    stages: &IdVec<StageId, Stage>,
    uses: &IdVec<StageId, Uses>,
    captured: &IdSet<StageId>,
    stage: StageId,
    resume: Resume,
) -> bool {
    let kind = &stages[stage].kind;
    match resume {
        Resume::Action(of) => of == stage,
        _ if captured.contains(stage) => false,
        Resume::Stage(to) => links(kind).contains(&to),
        Resume::End => uses[stage].exits || ends(kind),
    }
}

/// Returns true if a link of a stage leads to the end of the control.
pub(super) fn ends(kind: &StageKind) -> bool {
    let is_end = |next: &Next| *next == Next::End;
    match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => is_end(then) || is_end(otherwise),
        StageKind::Action { next, .. } => is_end(next),
        StageKind::Match { next, .. } => match next {
            MatchNext::Always(next) => is_end(next),
            MatchNext::ByHit { hit, miss } => is_end(hit) || is_end(miss),
            MatchNext::ByAction(all) => all.iter().any(is_end),
        },
    }
}

/// Returns the fields that ingress may have written before each stage.
fn written(
    stages: &IdVec<StageId, Stage>,
    uses: &IdVec<StageId, Uses>,
) -> IdVec<StageId, FieldSet> {
    let mut before: IdVec<StageId, FieldSet> = stages.ids().map(|_| FieldSet::new()).collect();
    loop {
        let mut has_grown = false;
        for (id, stage) in stages.iter() {
            checkpoint();
            let mut after = before[id].clone();
            for &field in &uses[id].writes {
                after.insert(field);
            }
            for to in links(&stage.kind) {
                has_grown |= before[to].union_with(&after);
            }
        }
        if !has_grown {
            return before;
        }
    }
}

/// Returns the link of a match stage after an action of its table.
pub(super) fn after_action(next: &MatchNext, action: usize) -> Next {
    match next {
        MatchNext::Always(next) => *next,
        MatchNext::ByHit { hit, .. } => *hit,
        MatchNext::ByAction(all) => all.get(action).copied().unwrap_or(Next::End),
    }
}

/// Returns the name of the table or handler of a cut.
pub(super) fn name_of(program: &Program, kind: CutKind) -> &str {
    match kind {
        CutKind::Table(table) => &program.tables[table].name,
        CutKind::Handler(handler) => &program.externs[handler].name,
    }
}

/// Marks the tables that [`SplitOptions::mirror_all`](super::SplitOptions::mirror_all) mirrors.
pub(super) fn mirror_all(program: &mut Program, ingress: &Control, entries: u32) {
    let applied: BTreeSet<usize> = ingress
        .stages
        .values()
        .filter_map(|stage| match stage.kind {
            StageKind::Match { table, .. } => Some(table.index()),
            _ => None,
        })
        .collect();
    for (id, table) in program.tables.iter_mut() {
        let fits = is_cached(table)
            && table.implementation.is_none()
            && table.direct_meter.is_none()
            && !table.entries_are_const
            && !table.entries.iter().any(|entry| entry.is_const);
        if fits && applied.contains(&id.index()) {
            table.mirror = Some(entries);
        }
    }
}
