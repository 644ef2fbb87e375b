//! The switch half: the whole program, which leaves at each cut and resumes after it.
//!
//! ```text
//! begin:    is it a response ? take : the first stage
//! take:     values of the frame -> fields; on to the place where the packet resumes
//! ...       the program's own stages; a mirrored table that misses, or a handler, leads to
//! leave n:  flow = hash(..); send a request frame; end
//! ```

use bits::{Id, Value};
use ir::{
    Action, ActionCall, ActionId, ActionScope, BinOp, ControlId, Expr, Field, MatchNext, Next, Op,
    Operand, Program, ScalarTy, Stage, StageId, StageKind, Stmt, StmtKind, TableAction,
};

use super::SplitOptions;
use super::cuts::{Cut, CutKind, Cuts, Resume, after_action};
use super::fixed::Request;
use super::flows::Flows;
use super::layout::{ADDED, CapturedStage, FrameHeader, FrameOption};
use super::line::Line;
use super::owner::OwnerPlan;
use super::parser::{Half, Start, assign, call, constant, read, restore, statement};
use crate::uses::Uses;

const INSTANCE_TYPE: &str = "standard_metadata.instance_type";

/// Builds the switch half from the program with the frame's header. `owners` has a pool and a value
/// for cuts with `@owner`.
pub(super) fn switch_half(
    mut program: Program,
    ingress: ControlId,
    cuts: &Cuts,
    frame: &FrameHeader,
    start: &Start,
    (options, owners): (&SplitOptions, &[Option<(OwnerPlan, Expr)>]),
) -> Program {
    let half = match options.fixed_switch {
        true => Half::FixedSwitch,
        false => Half::Switch,
    };
    start.extend(&mut program, frame, half);
    let miss = miss_action(&mut program);
    cache_tables(&mut program, cuts, miss);
    let flows = Flows::declare(&mut program, ingress, cuts, frame);
    let request = options
        .fixed_switch
        .then(|| Request::declare(&mut program, ingress, frame, flows.hash()));
    if let Some(request) = &request {
        request.extend_parser(&mut program, start.parser(), frame);
    }
    let stages = std::mem::take(&mut program.controls[ingress].stages);
    let name = program.controls[ingress].name.clone();
    let mut stages = stages.into_vec();
    remove_deferred(&mut stages, frame);
    let mut line = Line::new(&name, stages);
    let begin = line.reserve();
    if let Some(request) = &request {
        request.send(&mut program, &mut line, frame, options, Next::Stage(begin));
    }
    let take = line.reserve();
    let is_response = is_response(&mut program, ingress, frame);
    let first = match line.own().is_empty() {
        true => Next::End,
        false => Next::Stage(StageId::new(0)),
    };
    line.before(
        begin,
        "begin",
        StageKind::Condition {
            cond: is_response,
            then: Next::Stage(take),
            otherwise: first,
        },
    );
    let mut place = frame.option(FrameOption::ResumePoint);
    let restored = frame.carried.iter();
    let mut body: Vec<Stmt> = restored
        .map(|carried| restore(&program, carried.field, carried.slot))
        .chain(frame.again.iter().map(|value| value.stmt.clone()))
        .chain(flows.restore(frame))
        .collect();
    if request.is_some() {
        // From here on the packet is as long as it is without the frame's header.
        let copy = program.fields.push(Field {
            name: format!("{ADDED}.resume_point"),
            ty: ScalarTy::Bit(16),
        });
        body.push(assign(copy, read(place)));
        let invalid = Expr::Const(ScalarTy::Bool, Value::truncated(0, 1));
        body.push(assign(frame.valid(&program), invalid));
        place = copy;
    }
    line.before(
        take,
        "take",
        StageKind::Action {
            body,
            next: Next::End,
        },
    );
    let targets: Vec<(Next, Resume)> = cuts
        .resumes
        .iter()
        .map(|&resume| match resume {
            Resume::End => (Next::End, resume),
            Resume::Stage(stage) => (Next::Stage(stage), resume),
            Resume::Action(_) => (Next::Stage(line.reserve()), resume),
        })
        .collect();
    // A request that the switch held goes on at its cut.
    let at_cuts = cuts.cuts.iter().map(|cut| Next::Stage(cut.stage));
    let links = targets.iter().map(|(link, _)| *link);
    let links: Vec<Next> = links.chain(at_cuts).collect();
    let next = line.choose("resume", (place, 16), 1, &links);
    line.set_next_of(take, next);
    for target in targets {
        if let (Next::Stage(begin), Resume::Action(stage)) = target {
            run_action(&program, &mut line, frame, (begin, stage));
        }
    }
    for (index, cut) in cuts.cuts.iter().enumerate() {
        let body = leave(
            &program,
            frame,
            index + 1,
            (cut, owners[index].as_ref().map(|(_, value)| value)),
            (&flows, request.as_ref()),
            options,
        );
        let left = line.after(&format!("leave_{}", index + 1), body, Next::End);
        let stage = &mut line.own()[cut.stage.index()];
        stage.kind = cut_stage(&program, frame, &stage.kind, left);
        let mut before = flows.note(index + 1);
        if options.fixed_switch {
            before.extend(known_hit(&program, &mut stage.kind));
        }
        if !before.is_empty() {
            let name = format!("before_{}", cut.stage.index());
            line.directly_before(cut.stage, &name, before);
        }
    }
    program.controls[ingress].stages = line.finish();
    if let Some(request) = &request {
        request.finish(&mut program, frame);
    }
    program
}

/// Removes the computations that only servers need.
fn remove_deferred(stages: &mut [Stage], frame: &FrameHeader) {
    let mut places: Vec<(StageId, usize)> = frame.removed.iter().copied().collect();
    // Later positions first: they move the others.
    places.sort_unstable_by(|a, b| b.cmp(a));
    for (stage, position) in places {
        if let StageKind::Action { body, .. } = &mut stages[stage.index()].kind {
            body.remove(position);
        }
    }
}

/// Adds the action of entries that make packets leave.
fn miss_action(program: &mut Program) -> ActionId {
    let mut name = "split_miss".to_owned();
    while program
        .actions
        .values()
        .any(|action| action.control_plane_name == name)
    {
        name.push('_');
    }
    program.actions.push(Action {
        name: format!("{ADDED}.{name}"),
        control_plane_name: name,
        params: Vec::new(),
        body: Vec::new(),
        annotations: Vec::new(),
        loc: None,
    })
}

/// Makes each mirrored table a cache: packets that no entry matches leave, and the switch holds the
/// declared number of entries.
fn cache_tables(program: &mut Program, cuts: &Cuts, miss: ActionId) {
    for cut in &cuts.cuts {
        let CutKind::Table(id) = cut.kind else {
            continue;
        };
        let table = &mut program.tables[id];
        let Some(entries) = table.mirror.take() else {
            // It is applied at several places.
            continue;
        };
        table.entries.clear();
        table.default = ActionCall {
            action: table.actions.len(),
            args: Vec::new(),
        };
        table.default_is_const = true;
        table.size = entries;
        table.size_is_declared = true;
        // The placement of entries counts their hits.
        table.idle_timeout = true;
        table.actions.push(TableAction {
            action: miss,
            scope: ActionScope::TableAndDefault,
            annotations: Vec::new(),
        });
    }
}

/// Returns the condition that the packet is a response, and not one that the program resubmits.
fn is_response(program: &mut Program, ingress: ControlId, frame: &FrameHeader) -> Expr {
    let valid = read(frame.valid(program));
    let uses = Uses::of_control(program, &program.controls[ingress]);
    if !uses.ops.contains(&Op::Resubmit) {
        return valid;
    }
    let known = program.pipeline.intrinsics.get(INSTANCE_TYPE).copied();
    let instance_type = known.unwrap_or_else(|| {
        let field = program.fields.push(Field {
            name: format!("{ADDED}.instance_type"),
            ty: ScalarTy::Bit(32),
        });
        let intrinsics = &mut program.pipeline.intrinsics;
        intrinsics.insert(INSTANCE_TYPE.to_owned(), field);
        field
    });
    let is_new = Expr::Binary(
        BinOp::Eq,
        Box::new(read(instance_type)),
        Box::new(constant(0, 32)),
    );
    Expr::Binary(BinOp::LogicalAnd, Box::new(valid), Box::new(is_new))
}

/// Adds the stages that run the action which a server has selected for a match stage. The first of
/// them has the id `begin`.
fn run_action(
    program: &Program,
    line: &mut Line<'_>,
    frame: &FrameHeader,
    (begin, stage): (StageId, StageId),
) {
    let mut known = frame.captured.iter();
    let captured = known.find(|captured| captured.stage == stage);
    let (
        Some(captured),
        StageKind::Match {
            table,
            outcome,
            next,
        },
    ) = (captured, line.own()[stage.index()].kind.clone())
    else {
        return;
    };
    let CapturedStage {
        hit,
        action_run,
        arguments,
        ..
    } = captured;
    let number = stage.index();
    let mut body = Vec::new();
    body.extend(outcome.hit.map(|to| assign(to, read(*hit))));
    body.extend(outcome.action_run.map(|to| assign(to, read(*action_run))));
    line.before(
        begin,
        &format!("outcome_{number}"),
        StageKind::Action {
            body,
            next: Next::End,
        },
    );
    let runs: Vec<StageId> = arguments.iter().map(|_| line.reserve()).collect();
    let links: Vec<Next> = runs.iter().map(|&run| Next::Stage(run)).collect();
    let chosen = line.choose(&format!("which_{number}"), (*action_run, 32), 0, &links);
    line.set_next_of(begin, chosen);
    let test = match &next {
        MatchNext::ByHit { hit: found, miss } if found != miss => {
            Some((line.reserve(), *found, *miss))
        }
        _ => None,
    };
    for (position, (arguments, run)) in arguments.iter().zip(runs).enumerate() {
        let action = program.tables[table].actions[position].action;
        let arguments = arguments.iter().map(|&field| read(field)).collect();
        let body = vec![statement(StmtKind::CallAction(action, arguments))];
        let next = match test {
            Some((test, ..)) => Next::Stage(test),
            None => after_action(&next, position),
        };
        line.before(
            run,
            &format!("action_{number}_{position}"),
            StageKind::Action { body, next },
        );
    }
    if let Some((test, then, otherwise)) = test {
        let cond = read(*hit);
        line.before(
            test,
            &format!("hit_{number}"),
            StageKind::Condition {
                cond,
                then,
                otherwise,
            },
        );
    }
}

/// Returns the operation of a stage that is cut. `left` leads to the stage that sends the request.
fn cut_stage(program: &Program, frame: &FrameHeader, kind: &StageKind, left: Next) -> StageKind {
    match kind {
        StageKind::Match {
            table,
            outcome,
            next,
        } if frame.is_cached(program, *table) => {
            let actions = program.tables[*table].actions.len();
            let mut after: Vec<Next> = (0..actions - 1)
                .map(|action| after_action(next, action))
                .collect();
            after.push(left);
            StageKind::Match {
                table: *table,
                outcome: *outcome,
                next: MatchNext::ByAction(after),
            }
        }
        // The call of a handler, and a table that no switch caches.
        _ => StageKind::Action {
            body: Vec::new(),
            next: left,
        },
    }
}

/// Takes the result `hit` from a lookup in a cached table: P4 has no text for it beside the choice
/// by the action. A packet that stays has hit. Returns the code that says so before the lookup.
fn known_hit(program: &Program, kind: &mut StageKind) -> Option<Stmt> {
    let StageKind::Match { table, outcome, .. } = kind else {
        return None;
    };
    let hit = outcome.hit?;
    let keys = program.tables[*table].keys.iter();
    let mut keys = keys.map(|key| Uses::of_expr(program, &key.expr));
    if keys.any(|uses| uses.reads.contains(&hit)) {
        return None;
    }
    outcome.hit = None;
    let truth = Expr::Const(ScalarTy::Bool, Value::truncated(1, 1));
    Some(assign(hit, truth))
}

/// Returns the code that sends a request.
fn leave(
    program: &Program,
    frame: &FrameHeader,
    number: usize,
    (cut, owner): (&Cut, Option<&Expr>),
    (flows, request): (&Flows, Option<&Request>),
    options: &SplitOptions,
) -> Vec<Stmt> {
    let kind = cut.kind;
    let mut values = vec![constant(frame.layout.epoch.into(), 16)];
    values.extend(frame.carried.iter().map(|carried| read(carried.field)));
    let before_key = values.len();
    let mut missing = frame.layout.key_width;
    if let CutKind::Table(table) = kind
        && frame.is_cached(program, table)
    {
        for key in &program.tables[table].keys {
            let width = key.expr.ty(program, None).map_or(0, ScalarTy::width);
            missing -= width.min(missing);
            values.push(key.expr.clone());
        }
    }
    let key_parts = values[before_key..].to_vec();
    let zeros = missing + frame.padding;
    if zeros > 0 {
        values.push(constant(0, zeros));
    }
    for (option, width) in frame.each_option() {
        values.push(match option {
            FrameOption::ResumePoint => constant(number as u64, width),
            FrameOption::Flow => read(flows.hash()),
            // The runtime reads it before it numbers the request.
            FrameOption::Sequence => owner.cloned().unwrap_or_else(|| constant(0, width)),
            _ => constant(0, width),
        });
    }
    let valid = frame.valid(program);
    let header = Expr::Ternary(
        Box::new(read(valid)),
        Box::new(constant(u64::from(frame.layout.header_bytes), 32)),
        Box::new(constant(0, 32)),
    );
    let mut body = flows.identify(number);
    if let Some(request) = request {
        let key = (key_parts, missing);
        body.extend(request.leave(program, frame, number, key, owner));
        return body;
    }
    body.push(call(
        Op::SendFrame,
        vec![
            Operand::In(constant(u64::from(options.request_port), 32)),
            Operand::In(header),
            Operand::Number(frame.layout.request_type.into()),
            Operand::Data(values),
        ],
    ));
    body
}

/// Returns the scalars of the request of a handler's call.
pub(super) fn request_of(stage: &Stage) -> Vec<Expr> {
    let call = stage.kind.remote_call();
    let request = call.and_then(|call| match &call.operands[..] {
        [Operand::Data(request), ..] => Some(request.clone()),
        _ => None,
    });
    request.unwrap_or_default()
}
