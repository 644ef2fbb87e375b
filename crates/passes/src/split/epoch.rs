//! The epoch of a split program: a number that both halves compute from what they must agree on.

use std::fmt::Write as _;

use ir::{Control, Program, StageId, StageKind};
use support::crc::crc32;

use super::SplitPlan;
use super::cuts::Resume;

/// Returns the epoch of a program. It depends on what each half assumes of the other one: the
/// values of frames, the cuts and resume points in the order of their numbers, and the mirrored
/// tables with their keys and actions. It does not depend on entries, C code, positions in the
/// source, or tables of the switch alone. It is never 0.
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
    // Names of stages without a table have lines of the source in them.
    let at = |stage: StageId| match &ingress.stages[stage].kind {
        StageKind::Match { table, .. } => program.tables[*table].name.as_str(),
        StageKind::Condition { .. } => "condition",
        StageKind::Action { .. } => "code",
    };
    for resume in resumes {
        match *resume {
            Resume::End => line(format_args!("resume at the end")),
            Resume::Stage(stage) => line(format_args!("resume at {:?}", at(stage))),
            Resume::Action(stage) => line(format_args!("resume in {:?}", at(stage))),
        }
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
