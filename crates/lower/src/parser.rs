//! Parsers: states, selects, value sets. Sub-parsers are merged into the block's states.

use ir::{BlockCode, State, StateId, Target, Transition};
use sema::hir::{self, Callee, KeySet, Keyset, LocalDecl, Ty};
use support::work::checkpoint;
use syntax::source::Span;

use crate::annotate;
use crate::cx::{Lower, Mode, free_name, plain};
use crate::instance::NodeId;

impl Lower<'_> {
    /// Lowers a parser that is a block of the architecture. Its parameters are bound.
    pub(crate) fn block_parser(&mut self, node: NodeId, id: hir::ParserId) -> BlockCode {
        let name = self.nodes[node].path.clone();
        self.loc = None;
        self.states = bits::IdVec::default();
        self.state_prefix.clear();
        self.state_names.clear();
        let start = self.new_state("$begin", None);
        self.open_state = start;
        self.code.clear();
        self.run_parser(node, id, Target::Accept);
        let states = std::mem::take(&mut self.states);
        let start = match (&states[start].transition, states[start].body.is_empty()) {
            (Transition::Direct(Target::State(first)), true) => *first,
            _ => start,
        };
        BlockCode::Parser(self.out.parsers.push(ir::Parser {
            name,
            states,
            start,
        }))
    }

    fn new_state(&mut self, name: &str, loc: Option<ir::Loc>) -> StateId {
        let name = format!("{}{name}", self.state_prefix);
        let unique = free_name(&mut self.state_names, &name);
        self.states.push(State {
            name: unique,
            body: Vec::new(),
            transition: Transition::Direct(Target::Reject),
            loc,
        })
    }

    /// Ends the open state.
    fn close_state(&mut self, transition: Transition) {
        let code = std::mem::take(&mut self.code);
        let state = &mut self.states[self.open_state];
        // Parsers cannot apply tables, so their code is plain.
        state.body = plain(code).unwrap_or_default();
        state.transition = transition;
    }

    /// Continues in another state.
    fn open_state(&mut self, state: StateId) {
        self.open_state = state;
    }

    /// Lowers a parser from the open state on. Its `accept` leads to `accept`. No state is open
    /// afterwards.
    fn run_parser(&mut self, node: NodeId, id: hir::ParserId, accept: Target) {
        let hir = self.hir;
        let parser = &hir.parsers[id];
        let bound = self.bind_ctor_params(node, &parser.ctor_params);
        self.in_node(node, Mode::Parser, |this| {
            for local in &parser.locals {
                checkpoint();
                if let LocalDecl::Var(var, init) = local {
                    this.loc = this.loc_of(hir.vars[*var].name.span);
                    this.declare_var(*var, init.as_ref());
                }
            }
            let states: Vec<StateId> = parser
                .states
                .values()
                .map(|state| {
                    let loc = this.loc_of(state.name.span);
                    this.new_state(state.name.as_str(), loc)
                })
                .collect();
            let target = |target: hir::Target| match target {
                hir::Target::Accept => accept,
                hir::Target::Reject => Target::Reject,
                hir::Target::State(id) => states
                    .get(bits::Id::index(id))
                    .map_or(Target::Reject, |&state| Target::State(state)),
            };
            this.close_state(Transition::Direct(target(hir::Target::State(parser.start))));
            for (state, &made) in parser.states.values().zip(&states) {
                checkpoint();
                if !this.charge(1) {
                    break;
                }
                this.span = state.name.span;
                this.open_state(made);
                this.loc = this.loc_of(state.name.span);
                this.parser_stmts(&state.body);
                let transition = this.transition(&state.transition, &target);
                this.close_state(transition);
            }
        });
        self.unbind(bound);
    }

    /// Lowers the statements of a state. A statement that applies a sub-parser ends the open state
    /// and opens another.
    fn parser_stmts(&mut self, stmts: &[hir::Stmt]) {
        for stmt in stmts {
            checkpoint();
            match &stmt.kind {
                hir::StmtKind::Block(body, _) if applies_parser(body) => self.parser_stmts(body),
                hir::StmtKind::If(cond, then, otherwise)
                    if applies_parser(then) || applies_parser(otherwise) =>
                {
                    self.parser_if(cond, then, otherwise);
                }
                _ => self.stmt(stmt),
            }
        }
    }

    /// Lowers an `if` with a sub-parser inside: its branches become states.
    fn parser_if(&mut self, cond: &hir::Expr, then: &[hir::Stmt], otherwise: &[hir::Stmt]) {
        let cond = self.scalar_of(cond);
        let yes = self.new_state("$then", self.loc);
        let no = self.new_state("$else", self.loc);
        let join = self.new_state("$join", self.loc);
        let case = |set: ir::KeySet, state: StateId| ir::SelectCase {
            keyset: ir::Keyset::Sets(vec![set]),
            target: Target::State(state),
        };
        let holds = ir::KeySet::Value(passes::fold::bool_const(true));
        let cases = vec![case(holds, yes), case(ir::KeySet::Any, no)];
        self.close_state(Transition::Select {
            keys: vec![cond],
            cases,
        });
        for (state, body) in [(yes, then), (no, otherwise)] {
            self.open_state(state);
            self.parser_stmts(body);
            self.close_state(Transition::Direct(Target::State(join)));
        }
        self.open_state(join);
    }

    /// Merges a sub-parser with bound parameters. The open state ends, and a new one follows the
    /// sub-parser.
    pub(crate) fn run_sub_parser(&mut self, node: NodeId, id: hir::ParserId, span: Span) {
        let loc = self.loc_of(span).or(self.loc);
        let behind = self.states[self.open_state].name.clone();
        let behind = behind.split('$').next().unwrap_or_default().to_owned();
        let behind = behind
            .strip_prefix(self.state_prefix.as_str())
            .unwrap_or(&behind)
            .to_owned();
        let after = self.new_state(&behind, loc);
        let name = self.nodes[node]
            .instance
            .map_or("", |instance| self.hir.instances[instance].name.as_str())
            .to_owned();
        let prefix = format!("{}{name}.", self.state_prefix);
        let outer = std::mem::replace(&mut self.state_prefix, prefix);
        let outer_loc = self.loc;
        self.run_parser(node, id, Target::State(after));
        self.loc = outer_loc;
        self.state_prefix = outer;
        self.open_state(after);
    }

    fn transition(
        &mut self,
        transition: &hir::Transition,
        target: &dyn Fn(hir::Target) -> Target,
    ) -> Transition {
        let (args, cases, span) = match transition {
            hir::Transition::Direct(to) => return Transition::Direct(target(*to)),
            hir::Transition::Select { args, cases, span } => (args, cases, *span),
        };
        self.loc = self.loc_of(span);
        let exprs: Vec<&hir::Expr> = args.iter().collect();
        let values = self.values(&exprs);
        let mut keys = Vec::new();
        let mut counts = Vec::new();
        for (arg, value) in args.iter().zip(values) {
            checkpoint();
            let ty = self.subst(arg.ty);
            let flat = self.flatten(&value, ty, false);
            counts.push(flat.len());
            keys.extend(flat);
        }
        let mut made = Vec::new();
        for case in cases {
            checkpoint();
            if !self.charge(1) {
                break;
            }
            if let Some(keyset) = self.keyset(&case.keyset, args, &counts, case.span) {
                made.push(ir::SelectCase {
                    keyset,
                    target: target(case.target),
                });
            }
        }
        Transition::Select { keys, cases: made }
    }

    fn keyset(
        &mut self,
        keyset: &Keyset,
        args: &[hir::Expr],
        counts: &[usize],
        span: Span,
    ) -> Option<ir::Keyset> {
        let sets = match keyset {
            Keyset::ValueSet(id) => return Some(ir::Keyset::ValueSet(self.value_set(*id))),
            Keyset::Sets(sets) => sets,
        };
        let mut made = Vec::new();
        for ((set, arg), &count) in sets.iter().zip(args).zip(counts) {
            checkpoint();
            let ty = self.subst(arg.ty);
            match set {
                KeySet::Any => made.extend(std::iter::repeat_n(ir::KeySet::Any, count)),
                KeySet::Value(value) => {
                    let value = self.value(value);
                    made.extend(
                        self.flatten(&value, ty, false)
                            .into_iter()
                            .map(ir::KeySet::Value),
                    );
                }
                KeySet::Mask(value, mask) => {
                    let (value, mask) = (self.value(value), self.value(mask));
                    let pairs = self
                        .flatten(&value, ty, false)
                        .into_iter()
                        .zip(self.flatten(&mask, ty, false));
                    made.extend(pairs.map(|(value, mask)| ir::KeySet::Mask(value, mask)));
                }
                KeySet::Range(lo, hi) => {
                    let (lo, hi) = (self.value(lo), self.value(hi));
                    let pairs = self
                        .flatten(&lo, ty, false)
                        .into_iter()
                        .zip(self.flatten(&hi, ty, false));
                    made.extend(pairs.map(|(lo, hi)| ir::KeySet::Range(lo, hi)));
                }
                KeySet::ValueSet(id) if count == 1 => {
                    made.push(ir::KeySet::ValueSet(self.value_set(*id)))
                }
                KeySet::ValueSet(id) if sets.len() == 1 => {
                    return Some(ir::Keyset::ValueSet(self.value_set(*id)));
                }
                KeySet::ValueSet(_) => {
                    self.unsupported(
                        span,
                        "a value set of structs must be the only set of its case",
                    );
                    return None;
                }
            }
        }
        Some(ir::Keyset::Sets(made))
    }

    fn value_set(&mut self, id: hir::ValueSetId) -> ir::ValueSetId {
        if let Some(&known) = self.value_sets.get(&(self.node, id)) {
            return known;
        }
        let hir = self.hir;
        let decl = &hir.value_sets[id];
        let ty = self.subst(decl.element);
        let fields = match self.scalar(ty) {
            Some(scalar) => vec![ir::ValueSetField {
                name: String::new(),
                ty: scalar,
                match_kind: ir::MatchKind::Exact,
                annotations: Vec::new(),
            }],
            None => self.value_set_fields(ty),
        };
        let size = self.constant_u32(&decl.size).unwrap_or(1);
        let name = self.path_in(self.node, decl.name.as_str(), &decl.annotations);
        let made = ir::ValueSet {
            name: self.thing_name("value set", name, true),
            fields,
            size,
            data_ty: self.data_ty(ty),
            annotations: annotate::annotations(self.sources, &decl.annotations),
        };
        let made = self.out.value_sets.push(made);
        self.value_sets.insert((self.node, id), made);
        made
    }

    fn value_set_fields(&mut self, ty: hir::TyId) -> Vec<ir::ValueSetField> {
        let matches: Vec<Option<String>> = match *self.ty(ty) {
            Ty::Record(id, _) => {
                let fields = self.hir.records[id].fields.iter();
                fields
                    .map(|field| annotate::word(&field.annotations, "match"))
                    .collect()
            }
            _ => Vec::new(),
        };
        let annotations = self.member_annotations(ty);
        let members = self.members(ty);
        let mut fields = Vec::new();
        for (index, (name, member)) in members.iter().enumerate() {
            checkpoint();
            let match_kind = match matches.get(index).and_then(|kind| kind.as_deref()) {
                Some("ternary") => ir::MatchKind::Ternary,
                Some("lpm") => ir::MatchKind::Lpm,
                Some("range") => ir::MatchKind::Range,
                Some("optional") => ir::MatchKind::Optional,
                _ => ir::MatchKind::Exact,
            };
            for (number, scalar) in self.flat_types(*member).into_iter().enumerate() {
                checkpoint();
                fields.push(ir::ValueSetField {
                    name: if number == 0 {
                        name.to_string()
                    } else {
                        format!("{name}.{number}")
                    },
                    ty: scalar,
                    match_kind,
                    annotations: annotations.get(index).cloned().unwrap_or_default(),
                });
            }
        }
        fields
    }
}

/// Returns true if code applies a parser. States have no loops and no `switch` (section 13.4).
fn applies_parser(body: &[hir::Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        hir::StmtKind::Call(call, _) => matches!(call.callee, Callee::Apply(_)),
        hir::StmtKind::If(_, then, otherwise) => applies_parser(then) || applies_parser(otherwise),
        hir::StmtKind::Block(body, _) => applies_parser(body),
        _ => false,
    })
}
