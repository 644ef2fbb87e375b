//! Tables: keys, actions specialised for the table, entries, properties.

use bits::{Value, limbs};
use ir::{
    ActionCall, ActionParam, ActionScope, Entry, Expr, ExternKind, KeyMatch, MatchKind,
    MatchOutcome, ScalarTy, StmtKind, TableAction,
};
use num_traits::ToPrimitive;
use passes::sequence::{Apply, Dispatch, Node};
use sema::hir::{self, ExprKind, KeySet, TyId};
use support::work::checkpoint;
use syntax::ast::{Direction, RecordKind};
use syntax::source::Span;

use crate::annotate;
use crate::call::{ArgValue, steps};
use crate::cx::{ExitTo, Lower, free_name, plain};
use crate::instance::{NodeId, instance_in};
use crate::lvalue::Lvalue;
use crate::value::Rv;

/// Size of a table without a declared size.
const DEFAULT_SIZE: u32 = 1024;

/// Maximum size of a table.
const MAX_SIZE: u32 = i32::MAX as u32;

/// A lowered table.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) id: ir::TableId,
    /// Flag set by an action that exits, if callers must copy out first.
    exited: Option<ir::FieldId>,
    /// Fields that hold the key, if computing it takes code.
    key_fields: Option<Vec<ir::FieldId>>,
}

/// The table for which an action is being lowered.
#[derive(Clone, Debug)]
pub(crate) struct InTable {
    pub(crate) table: hir::TableId,
    /// Its direct counter and meter.
    pub(crate) direct: [Option<ir::ExternId>; 2],
    /// True if packets may add entries to it.
    pub(crate) add_on_miss: bool,
    /// True if the action's code depends on the table.
    pub(crate) used: bool,
}

impl Lower<'_> {
    /// Applies a table and continues after it.
    pub(crate) fn apply_table(&mut self, table: hir::TableId, outcome: MatchOutcome, span: Span) {
        self.emit_apply(table, outcome, Dispatch::Always, span);
    }

    /// Returns true if code after the table must test whether its action exited.
    pub(crate) fn must_check_exit(&mut self, table: hir::TableId) -> bool {
        self.make_table(table).exited.is_some()
    }

    /// Applies a table and continues depending on the result.
    pub(crate) fn emit_apply(
        &mut self,
        table: hir::TableId,
        outcome: MatchOutcome,
        dispatch: Dispatch,
        span: Span,
    ) {
        let made = self.make_table(table);
        if let Some(fields) = &made.key_fields {
            self.compute_keys(table, fields);
        }
        let name = self.out.tables[made.id].name.clone();
        let loc = self.loc_of(span);
        self.code.push(Node::Apply(Box::new(Apply {
            table: made.id,
            name,
            outcome,
            dispatch,
            loc,
        })));
        if let Some(exited) = made.exited {
            let (code, ()) = self.capture(|this| this.emit_exit());
            self.emit_if(Expr::Read(exited.into()), code, Vec::new());
        }
    }

    fn compute_keys(&mut self, table: hir::TableId, fields: &[ir::FieldId]) {
        let hir = self.hir;
        let keys: Vec<&hir::Expr> = hir.tables[table].keys.iter().map(|key| &key.expr).collect();
        let values = self.values(&keys);
        for ((key, value), &field) in keys.iter().zip(values).zip(fields) {
            checkpoint();
            let value = self.scalar_value(&value, key.ty);
            self.emit(StmtKind::Assign(field.into(), value));
        }
    }

    /// Returns the table in the IR, which is created at the first use.
    pub(crate) fn make_table(&mut self, table: hir::TableId) -> Made {
        let node = self.node;
        if let Some(made) = self.tables.get(&(node, table)) {
            return made.clone();
        }
        let hir = self.hir;
        let decl = &hir.tables[table];
        let outer_loc = self.loc;
        self.loc = self.loc_of(decl.span);
        let (keys, key_fields) = self.keys(decl);
        let name = self.path_in(node, decl.name.as_str(), &decl.annotations);
        let outer_span = std::mem::replace(&mut self.span, decl.span);
        let is_seen = !annotate::has(&decl.annotations, "hidden");
        let name = self.thing_name("table", name, is_seen);
        let attached = self.attached(decl, &name);
        let pending = self.frames.iter().any(|frame| !frame.copy_outs.is_empty());
        let flag = pending.then(|| self.temp_field(ScalarTy::Bool));
        let mut exits = false;
        let mut actions = Vec::new();
        for action in &decl.actions {
            checkpoint();
            if !self.charge(1) {
                break;
            }
            let (id, exited) = self.table_action(table, &attached, action, flag);
            exits |= exited;
            let annotations = annotate::annotations(self.sources, &action.annotations);
            actions.push(TableAction {
                action: id,
                scope: scope(&action.annotations),
                annotations,
            });
        }
        let default = match &decl.default_action {
            Some(call) => self.action_call(decl, &actions, call),
            None => {
                actions.push(TableAction {
                    action: self.no_action(),
                    scope: ActionScope::DefaultOnly,
                    annotations: Vec::new(),
                });
                ActionCall {
                    action: actions.len() - 1,
                    args: Vec::new(),
                }
            }
        };
        let size = decl.size.as_ref().and_then(|expr| {
            let size = self.constant_u32(expr).filter(|&size| size <= MAX_SIZE);
            if size.is_none() {
                let message = format!("the size of a table must be between 0 and {MAX_SIZE}");
                self.unsupported(expr.span, &message);
            }
            size
        });
        let (attached_size, declared) = match attached.size {
            Some(size) => (size, true),
            // As in p4c, a size of 0 counts as undeclared.
            None => match size.filter(|&size| size > 0) {
                Some(size) => (size, true),
                None => (DEFAULT_SIZE, false),
            },
        };
        let mut made = ir::Table {
            name,
            keys,
            entries: Vec::new(),
            actions,
            default,
            default_is_const: decl.default_is_const,
            entries_are_const: decl.entries_are_const,
            largest_priority_wins: decl.largest_priority_wins,
            size: attached_size,
            size_is_declared: declared,
            implementation: attached.implementation,
            direct_counter: attached.direct[0],
            direct_meter: attached.direct[1],
            idle_timeout: attached.idle_timeout,
            add_on_miss: attached.add_on_miss,
            mirror: sema::arch::mirror_of(decl),
            annotations: annotate::annotations(self.sources, &decl.annotations),
            loc: self.loc,
        };
        for entry in &decl.entries {
            checkpoint();
            if !self.charge(1 + decl.keys.len() as u64) {
                break;
            }
            self.span = entry.span;
            made.entries.extend(self.entry(decl, &made, entry));
        }
        self.loc = outer_loc;
        self.span = outer_span;
        let id = self.out.tables.push(made);
        let made = Made {
            id,
            exited: flag.filter(|_| exits),
            key_fields,
        };
        self.tables.insert((node, table), made.clone());
        made
    }

    fn keys(&mut self, decl: &hir::Table) -> (Vec<ir::Key>, Option<Vec<ir::FieldId>>) {
        let exprs: Vec<&hir::Expr> = decl.keys.iter().map(|key| &key.expr).collect();
        let (code, values) = self.capture(|this| this.values(&exprs));
        let mut keys = Vec::new();
        let mut fields = Vec::new();
        for (key, value) in decl.keys.iter().zip(values) {
            checkpoint();
            let Some(scalar) = self.scalar(key.expr.ty) else {
                self.unsupported(key.expr.span, "a key of this type cannot be matched");
                continue;
            };
            let mut expr = self.scalar_value(&value, key.expr.ty);
            if !code.is_empty() {
                let name = self.local_name(&format!("{}.key", decl.name.as_str()));
                let name = self.unique(&name);
                let field = self.out.fields.push(ir::Field { name, ty: scalar });
                fields.push(field);
                expr = Expr::Read(field.into());
            }
            keys.push(ir::Key {
                name: key.control_plane_name.to_string(),
                expr,
                match_kind: self.match_kind(key),
                data_ty: self.data_ty(key.expr.ty),
                annotations: annotate::annotations(self.sources, &key.annotations),
            });
        }
        (keys, (!code.is_empty()).then_some(fields))
    }

    fn match_kind(&mut self, key: &hir::Key) -> MatchKind {
        match self.hir.match_kinds[key.match_kind].as_str() {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            "selector" => MatchKind::Selector,
            other => {
                let message = format!("match kind `{other}` has no implementation on this target");
                self.unsupported(key.expr.span, message);
                MatchKind::Exact
            }
        }
    }

    /// Returns the action, with its directional parameters bound as in the table's list, and true
    /// if it exits through `flag`.
    fn table_action(
        &mut self,
        table: hir::TableId,
        attached: &Attached,
        entry: &hir::TableAction,
        flag: Option<ir::FieldId>,
    ) -> (ir::ActionId, bool) {
        let hir = self.hir;
        let decl = &hir.actions[entry.action];
        let node = if decl.control.is_some() {
            self.node
        } else {
            NodeId::new(0)
        };
        let is_special = entry.args.iter().any(Option::is_some);
        if !is_special && let Some(&known) = self.actions.get(&(node, entry.action)) {
            return (known, false);
        }
        let control_plane_name = self.path_in(node, decl.name.as_str(), &decl.annotations);
        let (params, values) = self.data_params(decl);
        let loc = self.loc_of(decl.name.span);
        let made = ir::Action {
            name: free_name(&mut self.action_names, &control_plane_name),
            control_plane_name,
            params,
            body: Vec::new(),
            annotations: annotate::annotations(self.sources, &decl.annotations),
            loc,
        };
        let outer = self.enter_action(made, flag, loc);
        self.in_table = Some(InTable {
            table,
            direct: attached.direct,
            add_on_miss: attached.add_on_miss,
            used: false,
        });
        let mut values = values.into_iter();
        let (mut code, ()) = self.capture(|this| {
            let mut args: Vec<Option<ArgValue>> = Vec::new();
            for arg in &entry.args {
                checkpoint();
                let from_control_plane = arg.is_none().then(|| values.next()).flatten();
                args.push(from_control_plane.map(ArgValue::In));
            }
            for at in steps(&entry.order, decl.params.len().min(args.len())) {
                checkpoint();
                if let Some(arg) = &entry.args[at] {
                    let param = std::slice::from_ref(&decl.params[at]);
                    args[at] = this
                        .evaluate_args(param, std::slice::from_ref(arg), &[])
                        .pop();
                }
            }
            let args = args
                .into_iter()
                .map(|arg| arg.unwrap_or(ArgValue::Out(Lvalue::Discard)))
                .collect();
            this.run_action(entry.action, args, &entry.order);
        });
        if let ExitTo::Later(_, label) = self.exit {
            (code, ()) = self.capture(|this| this.emit_block(label, code));
        }
        let exits = self.exit_used && flag.is_some();
        let depends = self.in_table.as_ref().is_some_and(|at| at.used);
        let made = self.leave_action(outer, code);
        let is_no_action = made.control_plane_name == "NoAction" && made.body.is_empty();
        let id = self.out.actions.push(made);
        if is_no_action {
            self.no_action.get_or_insert(id);
        }
        if !is_special && !exits && !depends {
            self.actions.insert((node, entry.action), id);
        }
        (id, exits)
    }

    fn enter_action(
        &mut self,
        made: ir::Action,
        flag: Option<ir::FieldId>,
        loc: Option<ir::Loc>,
    ) -> OutsideAction {
        let exit = match flag {
            Some(flag) => ExitTo::Later(flag, self.label()),
            None => ExitTo::Now,
        };
        OutsideAction {
            action: self.action.replace(made),
            frames: std::mem::take(&mut self.frames),
            loops: std::mem::take(&mut self.loops),
            exit: std::mem::replace(&mut self.exit, exit),
            exit_used: std::mem::take(&mut self.exit_used),
            in_table: self.in_table.take(),
            loc: std::mem::replace(&mut self.loc, loc),
        }
    }

    fn leave_action(&mut self, outer: OutsideAction, code: Vec<Node>) -> ir::Action {
        let made = std::mem::replace(&mut self.action, outer.action);
        self.frames = outer.frames;
        self.loops = outer.loops;
        self.exit = outer.exit;
        self.exit_used = outer.exit_used;
        self.in_table = outer.in_table;
        self.loc = outer.loc;
        // Actions cannot apply tables, so their code is plain.
        let body = plain(code).unwrap_or_default();
        made.map_or_else(no_action, |made| ir::Action { body, ..made })
    }

    /// Returns the parameters that the control plane binds, and their values in the action's code.
    fn data_params(&mut self, decl: &hir::Action) -> (Vec<ActionParam>, Vec<Rv>) {
        let mut params = Vec::new();
        let mut values = Vec::new();
        for param in &decl.params {
            checkpoint();
            let var = &self.hir.vars[param.var];
            if var.kind != hir::VarKind::Param(Direction::None) {
                continue;
            }
            let annotations = annotate::annotations(self.sources, &var.annotations);
            let name = annotate::name(&var.annotations);
            let value = self.data_param(
                name.as_deref().unwrap_or(var.name.as_str()),
                var.ty,
                &annotations,
                var.name.span,
                &mut params,
            );
            values.push(value);
        }
        (params, values)
    }

    fn data_param(
        &mut self,
        name: &str,
        ty: TyId,
        annotations: &[ir::Annotation],
        span: Span,
        params: &mut Vec<ActionParam>,
    ) -> Rv {
        match self.scalar(ty) {
            Some(ScalarTy::Varbit(_)) => {
                self.unsupported(span, "the control plane cannot give a `varbit`")
            }
            Some(scalar) => {
                let data_ty = self.data_ty(ty);
                params.push(ActionParam {
                    name: name.to_owned(),
                    ty: scalar,
                    data_ty,
                    annotations: annotations.to_vec(),
                });
                Rv::Scalar(Expr::Param(params.len() as u32 - 1))
            }
            None => {
                let members = self.members(ty);
                let part = |(member, ty): &(std::rc::Rc<str>, TyId)| {
                    self.data_param(&format!("{name}.{member}"), *ty, annotations, span, params)
                };
                let parts = members.iter().map(part).collect();
                if self.record_kind(ty) == Some(RecordKind::Header) {
                    Rv::Header(parts)
                } else {
                    Rv::List(parts)
                }
            }
        }
    }

    /// Returns the action that does nothing, for tables without a default action in their list.
    fn no_action(&mut self) -> ir::ActionId {
        if let Some(known) = self.no_action {
            return known;
        }
        let mut made = no_action();
        made.name = free_name(&mut self.action_names, &made.name);
        let made = self.out.actions.push(made);
        self.no_action = Some(made);
        made
    }

    fn action_call(
        &mut self,
        decl: &hir::Table,
        actions: &[TableAction],
        call: &hir::ActionCall,
    ) -> ActionCall {
        let hir = self.hir;
        let params = hir.actions[decl.actions[call.action].action].params.iter();
        let types = params
            .map(|param| &hir.vars[param.var])
            .filter(|var| var.kind == hir::VarKind::Param(Direction::None));
        let mut args = Vec::new();
        for (arg, var) in call.args.iter().zip(types) {
            checkpoint();
            args.extend(self.constants(arg, var.ty));
        }
        // A constant that could not be computed was reported. The count must still be right.
        let params = &self.out.actions[actions[call.action].action].params;
        args.truncate(params.len());
        for param in &params[args.len()..] {
            checkpoint();
            args.push(Value::zero(param.ty.width()));
        }
        ActionCall {
            action: call.action,
            args,
        }
    }

    /// Returns the scalars of a constant expression.
    pub(crate) fn constants(&mut self, expr: &hir::Expr, ty: TyId) -> Vec<Value> {
        let (_, value) = self.capture(|this| this.value(expr));
        let flat = self.flatten(&value, ty, false);
        let constant = |this: &mut Self, expr_value: Expr| match expr_value {
            Expr::Const(_, value) => value,
            other => {
                this.unsupported(expr.span, "this must be known when the program is compiled");
                Value::zero(this.expr_ty(&other).width())
            }
        };
        flat.into_iter()
            .map(|value| constant(self, value))
            .collect()
    }

    fn entry(&mut self, decl: &hir::Table, made: &ir::Table, entry: &hir::Entry) -> Option<Entry> {
        let mut keys = Vec::new();
        for ((set, key), made) in entry.keys.iter().zip(&decl.keys).zip(&made.keys) {
            checkpoint();
            if made.match_kind != MatchKind::Selector {
                let matched = self.key_match(set, key.expr.ty, made.match_kind)?;
                if !matched.fits(made.match_kind) {
                    let message = format!(
                        "this entry does not fit `{}`, a key of kind `{}`",
                        made.name,
                        self.hir.match_kinds[key.match_kind].as_str()
                    );
                    self.error("E1101", entry.span, message);
                    return None;
                }
                keys.push(matched);
            }
        }
        Some(Entry {
            keys,
            action: self.action_call(decl, &made.actions, &entry.action),
            priority: entry.priority.as_ref().and_then(ToPrimitive::to_i32),
            is_const: entry.is_const || decl.entries_are_const,
        })
    }

    fn key_match(&mut self, set: &KeySet, ty: TyId, kind: MatchKind) -> Option<KeyMatch> {
        let is_signed = self.scalar(ty).is_some_and(ScalarTy::is_signed);
        let mut constant = |expr: &hir::Expr| self.constants(expr, ty).into_iter().next();
        Some(match set {
            KeySet::Any | KeySet::ValueSet(_) => KeyMatch::Any,
            KeySet::Value(value) => {
                let value = constant(value)?;
                let width = value.width();
                match kind {
                    MatchKind::Lpm => KeyMatch::Lpm(value, width),
                    MatchKind::Ternary => KeyMatch::Ternary(value, Value::all_ones(width)),
                    MatchKind::Range => KeyMatch::Range(value.clone(), value),
                    MatchKind::Exact | MatchKind::Optional | MatchKind::Selector => {
                        KeyMatch::Exact(value)
                    }
                }
            }
            KeySet::Mask(value, mask_expr) => {
                let (value, mask) = (constant(value)?, constant(mask_expr)?);
                let value = value.and(&mask);
                match (kind, mask.prefix_len()) {
                    (MatchKind::Lpm, Some(len)) => KeyMatch::Lpm(value, len),
                    (MatchKind::Lpm, None) => {
                        self.unsupported(
                            mask_expr.span,
                            "the mask of an `lpm` key must be ones followed by zeros",
                        );
                        return None;
                    }
                    _ => KeyMatch::Ternary(value, mask),
                }
            }
            KeySet::Range(first, last) => {
                let (lo, hi) = (constant(first)?, constant(last)?);
                let is_reversed = match is_signed {
                    true => limbs::cmp_signed(lo.limbs(), hi.limbs(), lo.width()).is_gt(),
                    false => lo > hi,
                };
                if is_reversed {
                    self.error(
                        "E1101",
                        last.span,
                        "the range ends before it begins, so that no packet can hit the entry",
                    );
                    return None;
                }
                KeyMatch::Range(lo, hi)
            }
        })
    }

    /// Returns the objects and settings of a table's properties.
    fn attached(&mut self, decl: &hir::Table, name: &str) -> Attached {
        let mut attached = Attached::default();
        for property in &decl.properties {
            checkpoint();
            self.property(&mut attached, name, property);
        }
        attached
    }

    fn property(&mut self, attached: &mut Attached, table: &str, property: &hir::Property) {
        match property.name.as_str() {
            "implementation" | "psa_implementation" | "pna_implementation" => {
                match self.property_extern(table, property) {
                    Some((_, &ExternKind::TableKind { size, .. })) => attached.size = Some(size),
                    Some((
                        id,
                        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. },
                    )) => attached.implementation = Some(id),
                    Some(_) => self.wrong_extern(property, "an action profile or selector"),
                    None => {}
                }
            }
            "counters" | "psa_direct_counter" | "pna_direct_counter" => {
                match self.property_extern(table, property) {
                    Some((id, ExternKind::DirectCounter { .. })) => {
                        attached.direct[0] = self.attach(id, property);
                    }
                    Some(_) => self.wrong_extern(property, "a direct counter"),
                    None => {}
                }
            }
            "meters" | "psa_direct_meter" | "pna_direct_meter" => {
                match self.property_extern(table, property) {
                    Some((id, ExternKind::DirectMeter { .. })) => {
                        attached.direct[1] = self.attach(id, property);
                    }
                    Some(_) => self.wrong_extern(property, "a direct meter"),
                    None => {}
                }
            }
            "support_timeout"
            | "psa_idle_timeout"
            | "pna_idle_timeout"
            | "idle_timeout_with_auto_delete" => {
                attached.idle_timeout |= self.property_is_set(property);
            }
            "add_on_miss" => attached.add_on_miss = self.property_is_set(property),
            _ => {}
        }
    }

    /// Returns true if a property's value is `true`, or a member of an enum other than the first
    /// (`NO_TIMEOUT`).
    fn property_is_set(&mut self, property: &hir::Property) -> bool {
        match self.capture(|this| this.value(&property.value)).1 {
            Rv::Scalar(Expr::Const(_, value)) => !value.is_zero(),
            _ => false,
        }
    }

    fn property_extern(
        &mut self,
        table: &str,
        property: &hir::Property,
    ) -> Option<(ir::ExternId, &ExternKind)> {
        let instance = match &property.value.kind {
            ExprKind::Instance(_) | ExprKind::Var(_) => &property.value,
            ExprKind::Aggregate(parts) => parts.first()?,
            _ => return None,
        };
        let Rv::Instance(node) = self.value(instance) else {
            return None;
        };
        let made = self.nodes[node].ir?;
        // An instance constructed in place has a generated name with a dot, which no identifier
        // has.
        let in_place = instance_in(instance)
            .is_some_and(|id| self.hir.instances[id].name.as_str().contains('.'));
        if in_place {
            self.name_in_place(made, table, property);
        }
        Some((made, &self.out.externs[made].kind))
    }
}

impl Lower<'_> {
    /// Attaches a direct extern, which may belong to one table only.
    fn attach(&mut self, id: ir::ExternId, property: &hir::Property) -> Option<ir::ExternId> {
        if self.attached.insert(id) {
            return Some(id);
        }
        let name = self.out.externs[id].name.clone();
        let message = format!("`{name}` is attached to another table already");
        self.unsupported(property.value.span, message);
        None
    }

    fn wrong_extern(&mut self, property: &hir::Property, wanted: &str) {
        let message = format!("property `{}` wants {wanted}", property.name.as_str());
        self.unsupported(property.value.span, message);
    }

    /// Names an extern that a property constructs: by the property's `@name`, taken literally, else
    /// after the table.
    fn name_in_place(&mut self, made: ir::ExternId, table: &str, property: &hir::Property) {
        let given = annotate::name(&property.annotations)
            .map(|name| name.strip_prefix('.').map_or(name.clone(), str::to_owned));
        let taken = self.thing_names.entry("extern").or_default();
        let is_free = |name: &String| !taken.contains_key(name);
        let own = || format!("{table}.{}", property.name.as_str());
        let name = given.filter(is_free).unwrap_or_else(own);
        taken.insert(name.clone(), 1);
        let annotations = annotate::annotations(self.sources, &property.annotations);
        let made = &mut self.out.externs[made];
        made.name = name;
        made.annotations.extend(annotations);
    }
}

/// Objects and settings of a table's properties.
#[derive(Clone, Debug, Default)]
struct Attached {
    implementation: Option<ir::ExternId>,
    /// A direct counter and a direct meter.
    direct: [Option<ir::ExternId>; 2],
    /// The size of the implementation (eBPF).
    size: Option<u32>,
    idle_timeout: bool,
    add_on_miss: bool,
}

/// State that is saved while an action is lowered.
struct OutsideAction {
    action: Option<ir::Action>,
    frames: Vec<crate::cx::Frame>,
    loops: Vec<crate::cx::LoopLabels>,
    exit: ExitTo,
    exit_used: bool,
    in_table: Option<InTable>,
    loc: Option<ir::Loc>,
}

fn no_action() -> ir::Action {
    ir::Action {
        name: "NoAction".to_owned(),
        control_plane_name: "NoAction".to_owned(),
        params: Vec::new(),
        body: Vec::new(),
        annotations: Vec::new(),
        loc: None,
    }
}

fn scope(annotations: &[hir::Annotation]) -> ActionScope {
    if annotate::has(annotations, "defaultonly") {
        ActionScope::DefaultOnly
    } else if annotate::has(annotations, "tableonly") {
        ActionScope::TableOnly
    } else {
        ActionScope::TableAndDefault
    }
}
