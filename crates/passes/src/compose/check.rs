//! Whether a step can begin with what the step before sends.
//!
//! A program whose parser begins by extracting a header has an opinion about how packets begin; one that looks ahead, skips bits or extracts nothing has
//! none. What a program sends is known where its own parser extracts a header first and no code of it makes that header invalid or another: then its
//! packets begin with that header or with one that the deparser emits in front of it. If none of those has the layout that the next program expects, the
//! next program could only misread the packet, and the chain is refused. Headers have the same layout if their bits are cut at the same places, or if one
//! cuts further than the other.

use std::collections::BTreeSet;

use ir::{
    BlockCode, BlockRole, Control, HeaderId, HeaderType, Parser, Program, StageKind, StmtKind,
    Target, Transition,
};

use super::error::Problem;
use crate::uses::Uses;

/// What a step expects against what the step before sends.
pub(super) fn expects(before: (&str, &Program), step: (&str, &Program)) -> Result<(), Problem> {
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
    Err(Problem::UnknownHeader {
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

/// Where a header's bits are cut; its size is the last one.
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

/// The header that a program's packets must begin with, if it extracts one first.
fn first_header(program: &Program) -> Option<HeaderId> {
    let parser = parser(program)?;
    let mut state = parser.start;
    // More steps than states are a circle.
    for _ in 0..parser.states.len() {
        let state_here = &parser.states[state];
        for stmt in &state_here.body {
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

/// The headers one of which a program's packets begin with, if that is known.
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

/// What a deparser emits, in order, if it does nothing else: headers known beforehand, each if it is valid.
pub(super) fn emitted(deparser: &Control) -> Option<Vec<HeaderId>> {
    let mut emitted = Vec::new();
    for stage in deparser.stages.values() {
        let StageKind::Action { body, .. } = &stage.kind else {
            return None;
        };
        for stmt in body {
            match &stmt.kind {
                StmtKind::Emit(header) if header.dims.is_empty() => emitted.push(header.base),
                _ => return None,
            }
        }
    }
    Some(emitted)
}
