//! The epoch of a split program: a number that both halves compute from what they must agree on.

use std::fmt::Write as _;

use ir::{Control, Program, StageKind, Stmt, StmtKind};
use support::crc::crc32;

use super::SplitPlan;
use super::cuts::Resume;

/// Returns the epoch of a program. It depends on what each half assumes of the other one: the
/// values of frames, the cuts and resume points in the order of their numbers, the mirrored tables,
/// and the code of parsers, ingress and actions, since a half goes on where the other one stopped.
/// It does not depend on entries, C code or positions in the source. It is never 0. Two programs
/// have the same one by chance in one of 65,535 cases.
pub(super) fn epoch(
    program: &Program,
    ingress: &Control,
    resumes: &[Resume],
    plan: &SplitPlan,
) -> u16 {
    let text = agreed(program, ingress, resumes, plan);
    (crc32(text.as_bytes()) % u32::from(u16::MAX) + 1) as u16
}

/// Returns what both halves must agree on, one item a line.
fn agreed(program: &Program, ingress: &Control, resumes: &[Resume], plan: &SplitPlan) -> String {
    let mut text = String::new();
    let mut line = |of: std::fmt::Arguments<'_>| {
        // A `String` takes all text.
        let _ = writeln!(text, "{of}");
    };
    let frame = &plan.frame;
    for value in &frame.parameters {
        let (name, offset, width) = (&value.name, value.offset, value.width);
        line(format_args!("value {name:?} {offset} {width}"));
    }
    let (offset, width, bytes) = (frame.key_offset, frame.key_width, frame.header_bytes);
    line(format_args!("key {offset} {width} of {bytes}"));
    for (name, width) in &plan.recomputed {
        line(format_args!("computed {name:?} {width}"));
    }
    for cut in &plan.cuts {
        let owner = cut.owner.as_ref().map(|owner| &owner.pool);
        line(format_args!("cut {:?} {:?}", cut.name, owner));
    }
    for resume in resumes {
        line(format_args!("resume {resume:?}"));
    }
    // Names of stages have lines of the source in them, so they do not count.
    for (_, stage) in ingress.stages.iter() {
        line(format_args!(
            "stage {:?}",
            stage_without_places(&stage.kind)
        ));
    }
    for (_, parser) in program.parsers.iter() {
        for (_, state) in parser.states.iter() {
            let (body, transition) = (without_places(&state.body), &state.transition);
            line(format_args!("state {body:?} {transition:?}"));
        }
    }
    for (_, action) in program.actions.iter() {
        line(format_args!("code {:?}", without_places(&action.body)));
    }
    for mirrored in &plan.mirrored {
        let table = &program.tables[mirrored.table];
        let is_cached = mirrored.entries > 0;
        let (widths, prefix) = (&mirrored.key_widths, mirrored.prefix_key);
        let captured = mirrored.is_captured;
        line(format_args!(
            "table {:?} {is_cached} {captured} {widths:?} {prefix:?}",
            table.name
        ));
        for listed in &table.actions {
            let action = &program.actions[listed.action];
            let widths = action.params.iter().map(|param| param.ty.width());
            let widths: Vec<u32> = widths.collect();
            line(format_args!("action {:?} {widths:?}", action.name));
        }
    }
    text
}

/// Returns the operation of a stage without positions in the source.
fn stage_without_places(kind: &StageKind) -> StageKind {
    let mut kind = kind.clone();
    if let StageKind::Action { body, .. } = &mut kind {
        *body = without_places(body);
    }
    kind
}

/// Returns code without positions in the source.
fn without_places(body: &[Stmt]) -> Vec<Stmt> {
    let statement = |statement: &Stmt| {
        let mut kind = statement.kind.clone();
        match &mut kind {
            StmtKind::If(_, yes, no) => {
                *yes = without_places(yes);
                *no = without_places(no);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                *body = without_places(body);
            }
            _ => {}
        }
        Stmt { kind, loc: None }
    };
    body.iter().map(statement).collect()
}
