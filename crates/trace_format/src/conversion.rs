//! Conversion of the engine's events, which have ids, to steps, which have the program's names.

use std::borrow::Cow;

use bits::{Id, Value};
use exec::{Configuration, DropDetail, DropReason, TraceEvent};
use ir::{
    Action, ActionId, BlockCode, BlockRole, ControlId, DataTy, Expr, ExternId, ExternKind, FieldId,
    Header, HeaderId, KeySet, Keyset, Loc, MatchKind, NamedTypeKind, ParserId, Program, ScalarTy,
    StageId, StageKind, StateId, StepId, TableId, Target, Transition,
};

use super::entry;
use super::source::{ReadSource, SourceLines};
use super::step::{Bytes, Key, Named, Source, Step};
use super::value::Reading;

/// Converts the events of one packet to steps.
pub(crate) struct Converter<'a> {
    program: &'a Program,
    /// Table entries and other configuration.
    configuration: &'a Configuration,
    sources: SourceLines<'a>,
    /// Current parser state.
    state: Option<(ParserId, StateId)>,
    /// Current stage.
    stage: Option<(ControlId, StageId)>,
    /// The action that runs, or ran last. Its parameters have names in expressions.
    action: Option<&'a Action>,
}

impl<'a> Converter<'a> {
    /// Returns a converter for packets that matched the tables of `configuration`. `read` reads
    /// the program's source.
    pub(crate) fn new(configuration: &'a Configuration, read: ReadSource<'a>) -> Converter<'a> {
        let program = configuration.program();
        Converter {
            program,
            configuration,
            sources: SourceLines::new(&program.files, read),
            state: None,
            stage: None,
            action: None,
        }
    }

    /// Returns all steps, except rounds that only evaluate the end condition of their loop.
    pub(crate) fn steps(&mut self, events: &[TraceEvent]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(events.len());
        for (at, event) in events.iter().enumerate() {
            let is_last = match (event, events.get(at + 1)) {
                (TraceEvent::Round { of, .. }, Some(TraceEvent::LoopLeft { of: left })) => {
                    of == left
                }
                _ => false,
            };
            if !is_last {
                steps.push(self.step(event));
            }
        }
        steps
    }

    fn step(&mut self, event: &TraceEvent) -> Step {
        match event {
            TraceEvent::Received { port, bytes } => Step::Received(Bytes::new(Some(*port), bytes)),
            TraceEvent::Block { step, role } => self.block(*step, *role),
            TraceEvent::State { parser, state } => self.state(*parser, *state),
            TraceEvent::Extracted {
                header,
                offset,
                bits,
                fields,
            } => self.extracted(*header, *offset, *bits, fields),
            TraceEvent::Advanced { bits } => Step::Advanced { bits: *bits },
            TraceEvent::Select { keys, case, target } => self.select(keys, *case, *target),
            TraceEvent::Rejected { error } => Step::Rejected {
                error: self.error(*error),
            },
            TraceEvent::Accepted { consumed } => Step::Accepted {
                consumed_bits: *consumed,
            },
            TraceEvent::Stage { control, stage } => self.stage(*control, *stage),
            TraceEvent::Condition { holds } => self.condition(*holds),
            TraceEvent::Lookup {
                table,
                key,
                hit,
                entry,
                member,
                group,
            } => Step::Lookup {
                table: self.program.tables[*table].name.clone(),
                keys: self.keys(*table, key),
                hit: *hit,
                entry: entry.map(|id| entry::matched_entry(self.configuration, *table, id)),
                member: *member,
                group: *group,
            },
            TraceEvent::Action { action, params } => self.action(*action, params),
            TraceEvent::Written {
                field,
                old,
                new,
                loc,
            } => self.written(*field, old, new, *loc),
            TraceEvent::Call {
                call,
                arguments,
                results,
                loc,
            } => self.call(call, arguments, results, *loc),
            TraceEvent::Round { of, number, loc } => Step::Round {
                number: *number,
                of: *of,
                source: self.sources.at(*loc),
            },
            TraceEvent::LoopLeft { of } => Step::LoopLeft { of: *of },
            TraceEvent::Given { fields } => Step::Given {
                fields: self.given(fields),
            },
            TraceEvent::Emitted { header, bits } => Step::Emitted {
                header: self.header(*header).name.clone(),
                bits: *bits,
            },
            TraceEvent::NotEmitted { header } => Step::NotEmitted {
                header: self.header(*header).name.clone(),
            },
            TraceEvent::Deparsed { bytes } => Step::Deparsed(Bytes::new(None, bytes)),
            TraceEvent::Message { text } => Step::Message { text: text.clone() },
            TraceEvent::Digest { digest, values } => Step::Digest {
                digest: self.program.externs[*digest].name.clone(),
                fields: digest_fields(self.program, *digest, values),
            },
            TraceEvent::Copied {
                why,
                port,
                instance,
            } => Step::Copied {
                why,
                port: *port,
                instance: *instance,
            },
            TraceEvent::CopiesRefused { copies, reason } => Step::CopiesRefused {
                copies: *copies,
                reason: reason.name(),
                text: drop_words(*reason).into_owned(),
            },
            TraceEvent::NoCloneSession { session } => Step::NoCloneSession { session: *session },
            TraceEvent::Queued {
                port,
                priority,
                depth,
            } => Step::Queued {
                port: *port,
                priority: *priority,
                depth: *depth,
            },
            TraceEvent::Dequeued { port } => Step::Dequeued { port: *port },
            TraceEvent::Again { why } => Step::Again { why },
            TraceEvent::Sent { port, bytes } => Step::Sent(Bytes::new(Some(*port), bytes)),
            TraceEvent::Dropped { reason, detail } => Step::Dropped {
                reason: reason.name(),
                text: self.dropped(*reason, detail),
            },
            TraceEvent::Exit => Step::Exit,
        }
    }

    fn block(&self, step: StepId, role: BlockRole) -> Step {
        let block = self
            .program
            .pipeline
            .blocks
            .iter()
            .find(|block| (block.step, block.role) == (step, role));
        let name = block.map(|block| match block.code {
            BlockCode::Parser(id) => &self.program.parsers[id].name,
            BlockCode::Control(id) => &self.program.controls[id].name,
        });
        Step::Block {
            role: role.name(),
            name: name.cloned().unwrap_or_default(),
        }
    }

    fn given(&self, fields: &[(FieldId, Value)]) -> Vec<Named> {
        let fields = fields.iter().map(|(id, value)| {
            let field = &self.program.fields[*id];
            self.named(&field_name(&field.name), field.ty, None, value)
        });
        fields.collect()
    }

    fn state(&mut self, parser: ParserId, state: StateId) -> Step {
        self.state = Some((parser, state));
        let parser = &self.program.parsers[parser];
        let state = &parser.states[state];
        Step::State {
            parser: parser.name.clone(),
            state: state.name.clone(),
            source: self.sources.at(state.loc),
        }
    }

    fn extracted(
        &self,
        id: HeaderId,
        offset: usize,
        bits: usize,
        fields: &[(FieldId, Value)],
    ) -> Step {
        let header = self.header(id);
        let ty = &self.program.header_types[header.ty];
        let fields = fields.iter().map(|(field, value)| {
            // The fields of a header follow its validity field.
            let own = field.index().checked_sub(header.valid.index() + 1);
            match own.and_then(|at| ty.fields.get(at)) {
                Some(own) => self.named(&own.name, own.ty, Some(&own.data_ty), value),
                None => {
                    let field = &self.program.fields[*field];
                    self.named(&field.name, field.ty, None, value)
                }
            }
        });
        Step::Extracted {
            header: header.name.clone(),
            offset_bits: offset,
            bits,
            fields: fields.collect(),
        }
    }

    fn select(&self, values: &[Value], case: Option<usize>, target: Target) -> Step {
        let parser = self.state.map(|(parser, _)| &self.program.parsers[parser]);
        let state = self
            .state
            .map(|(parser, state)| &self.program.parsers[parser].states[state]);
        let (exprs, cases) = match state.map(|state| &state.transition) {
            Some(Transition::Select { keys, cases }) => (&keys[..], &cases[..]),
            _ => (&[][..], &[][..]),
        };
        let keys = exprs.iter().zip(values);
        let keys = keys.map(|(key, value)| {
            self.named(
                &self.expr(key),
                self.ty(key),
                self.field_data_ty(key),
                value,
            )
        });
        let held = case.and_then(|at| cases.get(at));
        Step::Select {
            keys: keys.collect(),
            case,
            keyset: held.map(|case| self.keyset(&case.keyset, exprs)),
            target: match target {
                Target::Accept => "accept".to_owned(),
                Target::Reject => "reject".to_owned(),
                Target::State(id) => parser
                    .and_then(|parser| parser.states.get(id))
                    .map(|state| state.name.clone())
                    .unwrap_or_default(),
            },
        }
    }

    fn keyset(&self, keyset: &Keyset, keys: &[Expr]) -> String {
        let sets = match keyset {
            Keyset::ValueSet(id) => return self.program.value_sets[*id].name.clone(),
            Keyset::Sets(sets) if sets.iter().all(|set| *set == KeySet::Any) => {
                return "default".to_owned();
            }
            Keyset::Sets(sets) => sets,
        };
        let sets = sets.iter().zip(keys);
        let sets: Vec<String> = sets
            .map(|(set, key)| match set {
                KeySet::Any => "_".to_owned(),
                KeySet::Value(value) => self.constant(value, key),
                KeySet::Mask(value, mask) => {
                    format!(
                        "{} &&& {}",
                        self.constant(value, key),
                        self.constant(mask, key)
                    )
                }
                KeySet::Range(lo, hi) => {
                    format!("{} .. {}", self.constant(lo, key), self.constant(hi, key))
                }
                KeySet::ValueSet(id) => self.program.value_sets[*id].name.clone(),
            })
            .collect();
        sets.join(", ")
    }

    /// Formats a select constant, in the notation of its key.
    fn constant(&self, expr: &Expr, key: &Expr) -> String {
        match expr {
            Expr::Const(ty, value) => {
                Reading::new(self.program, *ty, self.field_data_ty(key), value).text
            }
            other => self.expr(other),
        }
    }

    fn stage(&mut self, control: ControlId, stage: StageId) -> Step {
        self.stage = Some((control, stage));
        let control = &self.program.controls[control];
        let stage = &control.stages[stage];
        Step::Stage {
            control: control.name.clone(),
            stage: stage.name.clone(),
            kind: match stage.kind {
                StageKind::Condition { .. } => "condition",
                StageKind::Match { .. } => "match",
                StageKind::Action { .. } => "action",
            },
            source: self.sources.at(stage.loc),
        }
    }

    fn condition(&self, holds: bool) -> Step {
        let stage = self
            .stage
            .map(|(control, stage)| &self.program.controls[control].stages[stage]);
        let condition = match stage.map(|stage| &stage.kind) {
            Some(StageKind::Condition { cond, .. }) => self.expr(cond),
            _ => String::new(),
        };
        Step::Condition { condition, holds }
    }

    /// Returns the matched keys with their values.
    fn keys(&self, table: TableId, values: &[Value]) -> Vec<Key> {
        let keys = &self.program.tables[table].keys;
        let matched = keys
            .iter()
            .filter(|key| key.match_kind != MatchKind::Selector);
        let keys = matched.zip(values).map(|(key, value)| Key {
            name: key.name.clone(),
            match_kind: key.match_kind.name(),
            value: Reading::new(self.program, self.ty(&key.expr), Some(&key.data_ty), value),
        });
        keys.collect()
    }

    fn action(&mut self, id: ActionId, values: &[Value]) -> Step {
        let action = &self.program.actions[id];
        self.action = Some(action);
        let params = action.params.iter().zip(values);
        let params = params
            .map(|(param, value)| self.named(&param.name, param.ty, Some(&param.data_ty), value));
        Step::Action {
            action: action.control_plane_name.clone(),
            params: params.collect(),
            source: self.sources.at(action.loc),
        }
    }

    fn written(&mut self, field: FieldId, old: &Value, new: &Value, loc: Option<Loc>) -> Step {
        let (name, ty) = {
            let field = &self.program.fields[field];
            (field_name(&field.name), field.ty)
        };
        let data_ty = self.header_data_ty(field);
        Step::Written {
            field: name,
            old: Reading::new(self.program, ty, data_ty, old),
            new: Reading::new(self.program, ty, data_ty, new),
            source: self.sources.at(loc),
        }
    }

    /// Formats a drop reason in words.
    fn dropped(&self, reason: DropReason, detail: &DropDetail) -> String {
        let words = drop_words(reason);
        match detail {
            DropDetail::None => words.into_owned(),
            DropDetail::Number(number) => format!("{words} ({number})"),
            DropDetail::ParserError(error) => format!("{words} ({})", self.error(*error)),
        }
    }

    fn error(&self, number: u32) -> String {
        let value = Value::truncated(u128::from(number), 32);
        Reading::new(self.program, ScalarTy::Error, None, &value).text
    }

    fn header(&self, id: HeaderId) -> &'a Header {
        &self.program.headers[id]
    }

    pub(super) fn program(&self) -> &'a Program {
        self.program
    }

    pub(super) fn source(&mut self, loc: Option<Loc>) -> Option<Source> {
        self.sources.at(loc)
    }

    pub(super) fn named(
        &self,
        name: &str,
        ty: ScalarTy,
        data_ty: Option<&DataTy>,
        value: &Value,
    ) -> Named {
        named(self.program, name, ty, data_ty, value)
    }

    pub(super) fn ty(&self, expr: &Expr) -> ScalarTy {
        expr.ty(self.program, self.action)
            .unwrap_or(ScalarTy::Bit(0))
    }

    /// Formats an expression for people: a field by its name, any other expression as IR text.
    pub(super) fn expr(&self, expr: &Expr) -> String {
        match (expr, self.action) {
            (Expr::Param(at), Some(action)) if (*at as usize) < action.params.len() => {
                action.params[*at as usize].name.clone()
            }
            _ => self.expr_of_fields(expr),
        }
    }

    fn expr_of_fields(&self, expr: &Expr) -> String {
        match expr {
            Expr::Read(place) if place.dims.is_empty() => {
                field_name(&self.program.fields[place.base].name)
            }
            other => field_name(&self.program.expr_text(other)),
        }
    }

    /// Returns the control-plane type of the header field that an expression reads.
    pub(super) fn field_data_ty(&self, expr: &Expr) -> Option<&'a DataTy> {
        match expr {
            Expr::Read(place) => self.header_data_ty(place.base),
            _ => None,
        }
    }

    /// Returns the control-plane type of a field, if it belongs to a header.
    pub(super) fn header_data_ty(&self, field: FieldId) -> Option<&'a DataTy> {
        let of = self.program.headers.values().find_map(|header| {
            let at = field.index().checked_sub(header.valid.index() + 1)?;
            self.program.header_types[header.ty].fields.get(at)
        });
        of.map(|field| &field.data_ty)
    }
}

/// Returns a digest's fields with the names of its struct, or with numbers.
fn digest_fields(program: &Program, id: ExternId, values: &[Value]) -> Vec<Named> {
    let (tys, data_ty) = match &program.externs[id].kind {
        ExternKind::Digest { fields, data_ty } => (&fields[..], Some(data_ty)),
        _ => (&[][..], None),
    };
    let data_ty = match data_ty {
        Some(DataTy::Named(name)) => program.named_types.iter().find(|ty| ty.name == *name),
        _ => None,
    };
    let members = match data_ty.map(|ty| &ty.kind) {
        Some(NamedTypeKind::Struct(members)) if members.len() == tys.len() => &members[..],
        _ => &[],
    };
    let fields = tys.iter().zip(values).enumerate();
    fields
        .map(|(at, (ty, value))| match members.get(at) {
            Some((name, data_ty)) => named(program, name, *ty, Some(data_ty), value),
            None => named(program, &at.to_string(), *ty, None, value),
        })
        .collect()
}

/// Formats a digest message on one line:
/// `digest learned_t { address: 0x001122334455, port: 0x001 }`. `limbs` has its values, each from
/// a limb boundary.
pub fn digest_line(program: &Program, id: ExternId, limbs: &[u64]) -> String {
    let digest = &program.externs[id];
    let tys = match &digest.kind {
        ExternKind::Digest { fields, .. } => &fields[..],
        _ => &[],
    };
    let fields = digest_fields(program, id, &entry::values(tys.iter().copied(), limbs));
    let fields = tys.iter().zip(&fields).map(|(ty, field)| {
        let value = match ty {
            ScalarTy::Bit(_) => &field.value.value,
            _ => &field.value.text,
        };
        format!("{}: {value}", field.name)
    });
    let fields: Vec<String> = fields.collect();
    format!("digest {} {{ {} }}", digest.name, fields.join(", "))
}

fn named(
    program: &Program,
    name: &str,
    ty: ScalarTy,
    data_ty: Option<&DataTy>,
    value: &Value,
) -> Named {
    Named {
        name: name.to_owned(),
        value: Reading::new(program, ty, data_ty, value),
    }
}

/// Replaces internal field names by P4 expressions.
fn field_name(name: &str) -> String {
    name.replace(".$valid$", ".isValid()")
        .replace(".$next$", ".nextIndex")
}

/// Formats a drop reason in words.
fn drop_words(reason: DropReason) -> Cow<'static, str> {
    Cow::Borrowed(match reason {
        DropReason::Ingress => "the program dropped it in ingress",
        DropReason::Egress => "the program dropped it in egress",
        DropReason::ParserReject => "the parser rejected it",
        DropReason::Filtered => "the filter did not accept it",
        DropReason::Aborted => "the program aborted",
        DropReason::NoDestination => "the program gave it no destination",
        DropReason::NoReplicas => "its multicast group has no members or does not exist",
        DropReason::TailDrop => "the queue was full",
        DropReason::NoSuchQueue => "the program asked for a priority that has no queue",
        DropReason::NoSuchPort => "the device has no such port",
        DropReason::WorkBudget => {
            "it used up its work budget: the program loops or recirculates without end, or its virtual data plane has a small quota of work"
        }
        DropReason::CopyBudget => "its copies made more copies than a packet may have",
        DropReason::AssertFailed => "an assert failed",
        DropReason::AssumeFailed => "an assume failed",
        DropReason::FrameTooLong => "the program made it longer than a frame may be",
        DropReason::FrameTooShort => "it is too short to be sent to a server",
        DropReason::Unclassified => "no virtual data plane takes it",
        DropReason::BadDescription => "the header that describes its virtual data plane is wrong",
        DropReason::NoProgram => "its virtual data plane has no program",
        DropReason::Suspended => "its virtual data plane is suspended",
        DropReason::RateQuota => "its virtual data plane had its packets of this moment",
        DropReason::PassQuota => "packets of its virtual data plane started over too often",
        DropReason::CycleQuota => "its virtual data plane has used up its cycles",
        DropReason::FairShare => "its virtual data plane had its share of a busy processor",
        DropReason::LinkHops => "it went over too many links between virtual data planes",
        DropReason::ForeignEgress => "it is not its virtual data plane's own at a shared port",
        DropReason::Handler => "a handler dropped it",
        DropReason::Named(_) => return Cow::Owned(format!("a handler dropped it ({reason})")),
    })
}
