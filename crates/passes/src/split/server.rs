//! The server half: it continues at a cut, as long as another cut may follow, and answers.
//!
//! ```text
//! begin:     values of the frame -> fields; on to the stage of the cut
//! ...        the program's own stages that servers run
//! resume n:  place where the packet resumes = n; end
//! egress:    send a response frame
//! ```
//!
//! The program's own fields for the architecture are variables here: they belong to the packet as
//! the switch has it. The architecture has fields of its own.

use std::collections::BTreeMap;

use bits::{Id, IdVec};
use ir::{
    Block, BlockCode, BlockRole, Control, ControlId, Expr, Field, FieldId, MatchOutcome, Next, Op,
    Operand, Program, ScalarTy, Stage, StageId, StageKind, StepId, Stmt, StmtKind, TableId,
};

use super::cuts::{Cuts, Resume};
use super::layout::{ADDED, CapturedStage, FrameHeader, FrameOption};
use super::line::Line;
use super::parser::{Half, Start, assign, call, constant, read, restore};
use crate::simplify::{links, simplify};
use crate::uses::Uses;

const EGRESS_SPEC: &str = "standard_metadata.egress_spec";
const INGRESS_PORT: &str = "standard_metadata.ingress_port";
const MULTICAST: &str = "standard_metadata.mcast_grp";
const CHECKSUM_ERROR: &str = "standard_metadata.checksum_error";

/// Intrinsics that are computed again from the packet's bytes.
const COMPUTED: [&str; 2] = ["standard_metadata.parser_error", CHECKSUM_ERROR];

/// v1model's drop port.
const DROP_PORT: u64 = 511;

/// Fields of the server half itself.
struct OwnFields {
    ingress_port: FieldId,
    egress_spec: FieldId,
    resume: FieldId,
}

/// Builds the server half from the program with the frame's header.
pub(super) fn server_half(
    mut program: Program,
    ingress: ControlId,
    cuts: &Cuts,
    frame: &FrameHeader,
    start: &Start,
) -> Program {
    start.extend(&mut program, frame, Half::Server);
    let marks = drop_marks(&program);
    let fields = own_fields(&mut program);
    let fields_of_program = program.fields.values();
    let widths: Vec<u32> = fields_of_program.map(|field| field.ty.width()).collect();
    for (_, action) in program.actions.iter_mut() {
        replace_marks(&mut action.body, &marks, &widths);
    }
    capture_actions(&mut program, ingress, frame);
    let stages = std::mem::take(&mut program.controls[ingress].stages);
    let name = program.controls[ingress].name.clone();
    let mut line = Line::new(&name, stages.into_vec());
    let mut body: Vec<Stmt> = frame
        .carried
        .iter()
        .map(|carried| restore(&program, carried.field, carried.slot))
        .chain(frame.again.iter().map(|value| value.stmt.clone()))
        .chain(frame.deferred.iter().map(|value| value.stmt.clone()))
        .collect();
    let end = cuts.number_of(Resume::End) as u64;
    body.push(assign(fields.egress_spec, read(fields.ingress_port)));
    body.push(assign(fields.resume, constant(end, 16)));
    let begin = line.reserve();
    line.before(
        begin,
        "begin",
        StageKind::Action {
            body,
            next: Next::End,
        },
    );
    let targets: Vec<Next> = cuts.cuts.iter().map(|cut| Next::Stage(cut.stage)).collect();
    let place = (frame.option(FrameOption::ResumePoint), 16);
    let next = line.choose("cut", place, 1, &targets);
    line.set_next_of(begin, next);
    let mut answers: BTreeMap<Resume, Next> = BTreeMap::new();
    for resume in &cuts.resumes {
        let link = match resume {
            Resume::End => Next::End,
            _ => {
                let number = cuts.number_of(*resume) as u64;
                let body = vec![assign(fields.resume, constant(number, 16))];
                line.after(&format!("resume_{number}"), body, Next::End)
            }
        };
        answers.insert(*resume, link);
    }
    for (index, stage) in line.own().iter_mut().enumerate() {
        let id = StageId::from_index(index);
        if !cuts.at_server.contains(id) {
            // No link leads here.
            stage.kind = StageKind::Action {
                body: Vec::new(),
                next: Next::End,
            };
            continue;
        }
        if let StageKind::Action { body, .. } = &mut stage.kind {
            replace_marks(body, &marks, &widths);
        }
        let is_captured = cuts.captured.contains(id);
        for link in links(&mut stage.kind) {
            let resume = match *link {
                _ if is_captured => Resume::Action(id),
                Next::End => Resume::End,
                Next::Stage(to) if cuts.at_server.contains(to) => continue,
                Next::Stage(to) => Resume::Stage(to),
            };
            *link = answers.get(&resume).copied().unwrap_or(Next::End);
        }
    }
    note_outcomes(line.own(), frame);
    program.controls[ingress].stages = line.finish();
    answer(&mut program, ingress, frame, &fields);
    simplify(&mut program);
    program
}

/// Gives the architecture fields of its own.
fn own_fields(program: &mut Program) -> OwnFields {
    let mut field = |name: &str, width: u32| {
        program.fields.push(Field {
            name: format!("{ADDED}.{name}"),
            ty: ScalarTy::Bit(width),
        })
    };
    let fields = OwnFields {
        ingress_port: field("ingress_port", 9),
        egress_spec: field("egress_spec", 9),
        resume: field("resume", 16),
    };
    let intrinsics = &mut program.pipeline.intrinsics;
    intrinsics.retain(|name, _| COMPUTED.contains(&name.as_str()));
    intrinsics.insert(INGRESS_PORT.to_owned(), fields.ingress_port);
    intrinsics.insert(EGRESS_SPEC.to_owned(), fields.egress_spec);
    fields
}

/// Returns the fields that `mark_to_drop` sets, with their values.
fn drop_marks(program: &Program) -> Vec<(FieldId, u64)> {
    let intrinsics = &program.pipeline.intrinsics;
    [(EGRESS_SPEC, DROP_PORT), (MULTICAST, 0)]
        .into_iter()
        .filter_map(|(name, value)| Some((*intrinsics.get(name)?, value)))
        .collect()
}

/// Replaces `mark_to_drop` by assignments to the program's own fields. `widths` are those of all
/// fields.
fn replace_marks(body: &mut Vec<Stmt>, marks: &[(FieldId, u64)], widths: &[u32]) {
    let mut replaced = Vec::with_capacity(body.len());
    for mut stmt in std::mem::take(body) {
        match &mut stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                replace_marks(then, marks, widths);
                replace_marks(otherwise, marks, widths);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                replace_marks(body, marks, widths);
            }
            StmtKind::Call(call) if call.op == Op::MarkToDrop => {
                replaced.extend(
                    marks.iter().map(|&(field, value)| {
                        assign(field, constant(value, widths[field.index()]))
                    }),
                );
                continue;
            }
            _ => {}
        }
        replaced.push(stmt);
    }
    *body = replaced;
}

/// Replaces the actions of tables of which the switch runs the actions: here they only note their
/// parameters.
fn capture_actions(program: &mut Program, ingress: ControlId, frame: &FrameHeader) {
    let mut stages: BTreeMap<usize, Vec<&CapturedStage>> = BTreeMap::new();
    for captured in &frame.captured {
        let kind = &program.controls[ingress].stages[captured.stage].kind;
        if let StageKind::Match { table, .. } = kind {
            stages.entry(table.index()).or_default().push(captured);
        }
    }
    for (table, captured) in stages {
        let table = TableId::from_index(table);
        for position in 0..program.tables[table].actions.len() {
            let own = program.tables[table].actions[position].action;
            let mut action = program.actions[own].clone();
            action.name = format!("{ADDED}.{}.{position}", program.tables[table].name);
            action.body = captured
                .iter()
                .flat_map(|stage| stage.arguments[position].iter().enumerate())
                .map(|(param, &field)| assign(field, Expr::Param(param as u32)))
                .collect();
            let action = program.actions.push(action);
            program.tables[table].actions[position].action = action;
        }
    }
}

/// Makes captured match stages note their results.
fn note_outcomes(stages: &mut [Stage], frame: &FrameHeader) {
    for captured in &frame.captured {
        if let StageKind::Match { outcome, .. } = &mut stages[captured.stage.index()].kind {
            *outcome = MatchOutcome {
                hit: Some(captured.hit),
                action_run: Some(captured.action_run),
            };
        }
    }
}

/// Replaces the blocks after ingress by one that answers.
fn answer(program: &mut Program, ingress: ControlId, frame: &FrameHeader, fields: &OwnFields) {
    let mut values = vec![constant(frame.layout.epoch.into(), 16)];
    values.extend(frame.carried.iter().map(|carried| read(carried.field)));
    values.extend(frame.key.map(read));
    if frame.padding > 0 {
        values.push(constant(0, frame.padding));
    }
    for (option, _) in frame.each_option() {
        values.push(match option {
            FrameOption::ResumePoint => read(fields.resume),
            option => read(frame.option(option)),
        });
    }
    let send = call(
        Op::SendFrame,
        vec![
            Operand::In(read(fields.ingress_port)),
            Operand::In(constant(u64::from(frame.layout.header_bytes), 32)),
            Operand::Number(frame.layout.response_type.into()),
            Operand::Data(values),
        ],
    );
    let name = format!("{ADDED}.answer");
    let stage = Stage {
        name: format!("{name}.send"),
        kind: StageKind::Action {
            body: vec![send],
            next: Next::End,
        },
        loc: None,
    };
    let stages: IdVec<StageId, Stage> = [stage].into_iter().collect();
    let answer = program.controls.push(Control { name, stages });
    // No packet reaches it, but programs without a deparser have no fast path.
    let deparser = program.controls.push(Control {
        name: format!("{ADDED}.deparser"),
        stages: IdVec::default(),
    });
    let checksum_error = program.pipeline.intrinsics.get(CHECKSUM_ERROR).copied();
    let reads = Uses::of_control(program, &program.controls[ingress]).reads;
    let verifies = checksum_error.is_some_and(|field| reads.contains(&field));
    program.pipeline.field_lists.clear();
    let blocks = &mut program.pipeline.blocks;
    blocks.retain(|block| match block.role {
        BlockRole::Parser | BlockRole::Ingress => true,
        BlockRole::VerifyChecksum => verifies,
        _ => false,
    });
    for (role, control) in [(BlockRole::Egress, answer), (BlockRole::Deparser, deparser)] {
        blocks.push(Block {
            step: StepId::new(0),
            role,
            code: BlockCode::Control(control),
        });
    }
}
