//! Checks that a step can parse what the step before it sends.
//!
//! The check applies to a program with a parser that begins by extracting a header. A parser that
//! looks ahead, skips bits or extracts nothing is not checked.
//!
//! The first header that a program sends is known in one case: its own parser extracts a header
//! first, and no control writes that header's validity. Its packets then begin with that
//! header or with one that the deparser emits before it. If none of these has the layout that the
//! next program expects, the chain is refused.
//!
//! Two headers have the same layout if their bits are cut at the same offsets, or if one is cut
//! more finely than the other.

use std::collections::BTreeSet;

use ir::{
    BlockCode, BlockRole, Control, HeaderId, HeaderType, Parser, Program, StageKind, StmtKind,
    Target, Transition,
};

use support::work::checkpoint;

use super::error::ComposeProblem;
use crate::uses::Uses;

/// Checks the first header that a step extracts against what the step before it sends.
pub(super) fn expects(
    before: (&str, &Program),
    step: (&str, &Program),
) -> Result<(), ComposeProblem> {
    let Some(expected) = first_header(step.1) else {
        return Ok(());
    };
    let Some(sent) = first_sent(before.1) else {
        return Ok(());
    };
    let expected = header_type(step.1, expected);
    let sent: Vec<&HeaderType> = sent.iter().map(|&h| header_type(before.1, h)).collect();
    if sent.iter().any(|sent| have_same_layout(sent, expected)) {
        return Ok(());
    }
    Err(ComposeProblem::UnknownHeader {
        step: step.0.to_owned(),
        expected: described(expected),
        before: before.0.to_owned(),
        sent: sent.into_iter().map(described).collect(),
    })
}

fn header_type(program: &Program, header: HeaderId) -> &HeaderType {
    &program.header_types[program.headers[header].ty]
}

fn described(ty: &HeaderType) -> String {
    let widths = ty.fields.iter().map(|field| field.ty.width().to_string());
    let widths: Vec<String> = widths.collect();
    format!("`{}` (bits {})", ty.name, widths.join(" "))
}

/// Returns the bit offsets at which a header is cut into fields. The last one is its size.
fn cuts(ty: &HeaderType) -> BTreeSet<u32> {
    let mut at = 0;
    let cut = |field: &ir::HeaderField| {
        at += field.ty.width();
        at
    };
    ty.fields.iter().map(cut).collect()
}

fn have_same_layout(a: &HeaderType, b: &HeaderType) -> bool {
    let (a, b) = (cuts(a), cuts(b));
    a.last() == b.last() && (a.is_subset(&b) || b.is_subset(&a))
}

/// Returns the header that a program extracts first, if it always extracts one first.
fn first_header(program: &Program) -> Option<HeaderId> {
    let parser = parser(program)?;
    let mut state = parser.start;
    // A longer path than the number of states is a cycle.
    for _ in 0..parser.states.len() {
        checkpoint();
        let state_here = &parser.states[state];
        for stmt in &state_here.body {
            checkpoint();
            match &stmt.kind {
                StmtKind::Extract(header, None) => return Some(header.base),
                StmtKind::Assign(..) | StmtKind::ClearVarbit(_) => {}
                _ => return None,
            }
        }
        match state_here.transition {
            Transition::Direct(Target::State(next)) => state = next,
            _ => return None,
        }
    }
    None
}

/// Returns the headers that a program's packets can begin with, if they are known.
fn first_sent(program: &Program) -> Option<Vec<HeaderId>> {
    let first = first_header(program)?;
    let controls = program.controls.values();
    let writes = controls.flat_map(|control| Uses::of_control(program, control).writes);
    let writes: BTreeSet<_> = writes.collect();
    if writes.contains(&program.headers[first].valid) {
        return None;
    }
    let emitted = emitted(deparser(program)?)?;
    let at = emitted.iter().position(|&header| header == first)?;
    Some(emitted[..=at].to_vec())
}

pub(super) fn parser(program: &Program) -> Option<&Parser> {
    program
        .pipeline
        .blocks
        .iter()
        .find_map(|block| match block.code {
            BlockCode::Parser(id) if block.role == BlockRole::Parser => program.parsers.get(id),
            _ => None,
        })
}

pub(super) fn deparser(program: &Program) -> Option<&Control> {
    control(program, BlockRole::Deparser)
}

pub(super) fn control(program: &Program, role: BlockRole) -> Option<&Control> {
    program
        .pipeline
        .blocks
        .iter()
        .find_map(|block| match block.code {
            BlockCode::Control(id) if block.role == role => program.controls.get(id),
            _ => None,
        })
}

/// Returns the headers that a deparser emits, in order, if it does nothing else. The headers are
/// constants, and each is emitted if it is valid.
pub(super) fn emitted(deparser: &Control) -> Option<Vec<HeaderId>> {
    let mut emitted = Vec::new();
    for stage in deparser.stages.values() {
        checkpoint();
        let StageKind::Action { body, .. } = &stage.kind else {
            return None;
        };
        for stmt in body {
            checkpoint();
            match &stmt.kind {
                StmtKind::Emit(header) if header.dims.is_empty() => emitted.push(header.base),
                _ => return None,
            }
        }
    }
    Some(emitted)
}
