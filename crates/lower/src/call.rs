//! Calls: binds arguments by copy-in and copy-out (section 6.8), and inlines bodies.
//!
//! A parameter shares its argument's storage only if this cannot be observed: no other written
//! argument overlaps it, and the body does not access it otherwise. Otherwise it gets separate
//! storage.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use ir::{Expr, ScalarTy, StmtKind};
use sema::hir::{self, Arg, Builtin, Callee, Ty, TyId, VarId, VarKind};
use support::work::checkpoint;
use syntax::ast::Direction;

use crate::cx::{Bound, CopyOut, ExitTo, Frame, Lower, Mode, ReturnTo};
use crate::instance::NodeId;
use crate::lvalue::Lvalue;
use crate::storage::Place;
use crate::value::Rv;

/// An evaluated argument.
#[derive(Clone, Debug)]
pub(crate) enum ArgValue {
    /// Argument of an `in` or directionless parameter.
    In(Rv),
    /// Argument of an `out` parameter.
    Out(Lvalue),
    /// Argument of an `inout` parameter. The value is present if it was saved before later
    /// arguments were evaluated.
    InOut(Lvalue, Option<Rv>),
}

/// Variables that a body can access besides its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// None: functions, parsers and controls.
    Nothing,
    /// These variables: actions.
    Vars(Rc<Vec<VarId>>),
    /// All: bodies of abstract methods.
    Anything,
}

/// Bound parameters. The bindings are undone at the end of the call.
pub(crate) struct BoundArgs {
    saved: Vec<(VarId, Option<Bound>)>,
    copy_outs: Vec<CopyOut>,
}

impl Lower<'_> {
    /// Lowers a call in an expression or statement. `ty` is its result type.
    pub(crate) fn call(&mut self, call: &hir::Call, ty: TyId) -> Rv {
        match &call.callee {
            Callee::Function(id) => self.call_function(*id, call, Reach::Nothing),
            Callee::Action(id) => {
                self.deeper(call.span, (), |this| this.call_action(*id, call));
                Rv::Default
            }
            Callee::ExternFunction(id) => self.call_extern_function(*id, call, ty),
            Callee::ExternMethod {
                object,
                extern_id,
                method,
            } => self.call_extern_method(object, *extern_id, *method, call, ty),
            Callee::Table(table) => {
                self.apply_table(*table, ir::MatchOutcome::default(), call.span);
                Rv::Default
            }
            Callee::Apply(object) => {
                self.deeper(call.span, (), |this| this.apply_block(object, call));
                Rv::Default
            }
            Callee::Builtin(builtin, object) => self.call_builtin(*builtin, object, call),
        }
    }

    fn direction(&self, var: VarId) -> Direction {
        match self.hir.vars[var].kind {
            VarKind::Param(direction) => direction,
            VarKind::CtorParam | VarKind::Local => Direction::None,
        }
    }

    /// Evaluates arguments from left to right as written (`order` as in [`hir::Call::order`]). The
    /// result is in the order of the parameters.
    pub(crate) fn evaluate_args(
        &mut self,
        params: &[hir::Param],
        args: &[Arg],
        order: &[usize],
    ) -> Vec<ArgValue> {
        let has_effects =
            |at: &usize| matches!(&args[*at], Arg::Expr(expr) if self.has_effects(expr));
        let steps = steps(order, params.len().min(args.len()));
        let last = steps.iter().skip(1).rposition(has_effects);
        let last = last.map(|last| last + 1);
        let mut values: Vec<Option<ArgValue>> = args.iter().map(|_| None).collect();
        for (step, at) in steps.into_iter().enumerate() {
            checkpoint();
            let disturbed = last.is_some_and(|last| last > step);
            values[at] = Some(self.evaluate_arg(&params[at], &args[at], disturbed));
        }
        values.into_iter().flatten().collect()
    }

    fn evaluate_arg(&mut self, param: &hir::Param, arg: &Arg, disturbed: bool) -> ArgValue {
        let direction = self.direction(param.var);
        if matches!(direction, Direction::Out | Direction::InOut) {
            let lvalue = self.arg_lvalue(arg);
            let lvalue = self.settle_lvalue(lvalue);
            if direction == Direction::Out {
                return ArgValue::Out(lvalue);
            }
            let value = disturbed.then(|| {
                let value = self.load_lvalue(&lvalue);
                self.save_value(value, self.hir.vars[param.var].ty)
            });
            return ArgValue::InOut(lvalue, value);
        }
        let Arg::Expr(expr) = arg else {
            return ArgValue::In(Rv::Omitted);
        };
        let mut value = self.value(expr);
        // A header literal may be a list if the parameter is a header.
        if let (Rv::Int(_), Some(_)) = (&value, self.scalar(self.hir.vars[param.var].ty)) {
            value = Rv::Scalar(self.scalar_value(&value, self.hir.vars[param.var].ty));
        }
        ArgValue::In(if disturbed {
            self.save_value(value, expr.ty)
        } else {
            value
        })
    }

    /// Binds parameters to evaluated arguments.
    pub(crate) fn bind_args(
        &mut self,
        params: &[hir::Param],
        args: Vec<ArgValue>,
        order: &[usize],
        reach: &Reach,
        own: Option<NodeId>,
    ) -> BoundArgs {
        let shared: Vec<bool> = match own {
            Some(_) => vec![false; args.len()],
            None => {
                let touched = self.touched(&args, reach);
                args.iter()
                    .map(|arg| self.may_share(arg, &touched))
                    .collect()
            }
        };
        let mut bound = BoundArgs {
            saved: Vec::new(),
            copy_outs: Vec::new(),
        };
        let mut bindings = Vec::new();
        let mut args: Vec<Option<ArgValue>> = args.into_iter().map(Some).collect();
        for at in steps(order, params.len().min(args.len())) {
            checkpoint();
            let (var, Some(arg)) = (params[at].var, args[at].take()) else {
                continue;
            };
            let binding = self.bind_arg(var, arg, shared[at], own, &mut bound.copy_outs);
            bindings.push((var, binding));
        }
        for (var, binding) in bindings {
            checkpoint();
            bound.saved.push((var, self.vars.insert(var, binding)));
        }
        bound
    }

    fn bind_arg(
        &mut self,
        var: VarId,
        arg: ArgValue,
        shared: bool,
        own: Option<NodeId>,
        copy_outs: &mut Vec<CopyOut>,
    ) -> Bound {
        let ty = self.subst(self.hir.vars[var].ty);
        match arg {
            ArgValue::In(value) => {
                if shared || !self.is_stored(ty) {
                    return Bound::Value(value);
                }
                let place = self.param_storage(var, ty, own);
                self.assign(&place, &value, ty);
                Bound::Place(place)
            }
            ArgValue::Out(Lvalue::Place(place)) if shared => {
                self.reset_headers(&place);
                Bound::Place(Place { ty, ..place })
            }
            ArgValue::InOut(Lvalue::Place(place), None) if shared => {
                Bound::Place(Place { ty, ..place })
            }
            ArgValue::Out(to) => {
                let from = self.param_storage(var, ty, own);
                self.reset_headers(&from);
                copy_outs.push(CopyOut {
                    to,
                    from: from.clone(),
                });
                Bound::Place(from)
            }
            ArgValue::InOut(to, value) => {
                let value = value.unwrap_or_else(|| self.load_lvalue(&to));
                let from = self.param_storage(var, ty, own);
                self.assign(&from, &value, ty);
                copy_outs.push(CopyOut {
                    to,
                    from: from.clone(),
                });
                Bound::Place(from)
            }
        }
    }

    /// Returns true if values of a type have storage.
    fn is_stored(&mut self, ty: TyId) -> bool {
        self.scalar(ty).is_some()
            || matches!(self.ty(ty), Ty::Record(..) | Ty::Tuple(_) | Ty::Stack(..))
    }

    fn param_storage(&mut self, var: VarId, ty: TyId, own: Option<NodeId>) -> Place {
        if let Some(node) = own
            && let Some(place) = self.nodes[node].own_params.get(&var)
        {
            return place.clone();
        }
        let name = self.hir.vars[var].name.as_str().to_owned();
        let name = match own {
            Some(node) => format!("{}.{name}", self.nodes[node].path),
            None => self.local_name(&name),
        };
        let place = self.allocate(&name, ty);
        if let Some(node) = own {
            self.nodes[node].own_params.insert(var, place.clone());
        }
        place
    }

    /// Returns the storage that the arguments of a call, and its body, read and write.
    fn touched(&self, args: &[ArgValue], reach: &Reach) -> Touched {
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for arg in args {
            checkpoint();
            match arg {
                ArgValue::In(value) => self.value_ranges(value, &mut read),
                ArgValue::Out(Lvalue::Place(place) | Lvalue::Slice(place, ..))
                | ArgValue::InOut(Lvalue::Place(place) | Lvalue::Slice(place, ..), _) => {
                    written.push(place.extent());
                }
                ArgValue::Out(Lvalue::Discard) | ArgValue::InOut(Lvalue::Discard, _) => {}
            }
        }
        let reached = match reach {
            Reach::Vars(vars) => vars
                .iter()
                .filter_map(|var| match self.vars.get(var) {
                    Some(Bound::Place(place)) => Some(place.extent()),
                    _ => None,
                })
                .collect(),
            Reach::Nothing | Reach::Anything => Vec::new(),
        };
        Touched {
            written: Ranges::of(written),
            read: Ranges::of(read),
            reached: Ranges::of(reached),
            is_anything: matches!(reach, Reach::Anything),
        }
    }

    /// Returns true if a parameter can use its argument's storage or value in place. No other
    /// written argument may overlap it. It must not write what another argument reads. The body
    /// must not access it otherwise.
    fn may_share(&self, arg: &ArgValue, touched: &Touched) -> bool {
        match arg {
            ArgValue::In(Rv::Scalar(Expr::Const(..) | Expr::Param(_))) => true,
            // An operation would be evaluated again at each use.
            ArgValue::In(Rv::Scalar(expr)) if !matches!(expr, Expr::Read(_)) => false,
            ArgValue::In(value) => {
                if touched.is_anything {
                    return is_constant(value);
                }
                let mut own = Vec::new();
                self.value_ranges(value, &mut own);
                own.iter()
                    .all(|own| !touched.written.meet(own) && !touched.reached.meet(own))
            }
            ArgValue::Out(Lvalue::Place(place)) | ArgValue::InOut(Lvalue::Place(place), None) => {
                let own = place.extent();
                !touched.is_anything
                    && touched.written.count(&own) <= 1
                    && !touched.read.meet(&own)
                    && !touched.reached.meet(&own)
            }
            _ => false,
        }
    }

    /// Ends a call: copies out values and restores the meaning of names.
    pub(crate) fn finish_args(&mut self, bound: BoundArgs) {
        self.unbind(bound.saved);
        self.copy_out(&bound.copy_outs);
    }

    pub(crate) fn copy_out(&mut self, copy_outs: &[CopyOut]) {
        for copy in copy_outs {
            checkpoint();
            let value = self.load(&copy.from);
            self.store(&copy.to, &value, copy.from.ty);
        }
    }

    /// Inlines a function.
    pub(crate) fn call_function(
        &mut self,
        id: hir::FunctionId,
        call: &hir::Call,
        reach: Reach,
    ) -> Rv {
        self.deeper(call.span, Rv::Default, |this| {
            this.inline_function(id, call, reach)
        })
    }

    fn inline_function(&mut self, id: hir::FunctionId, call: &hir::Call, reach: Reach) -> Rv {
        let hir = self.hir;
        let function = &hir.functions[id];
        let args = self.evaluate_args(&function.proto.params, &call.args, &call.order);
        let type_args: Vec<TyId> = call.type_args.iter().map(|&ty| self.subst(ty)).collect();
        let mut outer = Vec::new();
        for (&param, arg) in function.proto.type_params.iter().zip(type_args) {
            checkpoint();
            outer.push((param, self.ty_vars.insert(param, arg)));
        }
        let ret = self.subst(function.proto.ret);
        let bound = self.bind_args(&function.proto.params, args, &call.order, &reach, None);
        self.frames.push(Frame {
            copy_outs: bound.copy_outs.clone(),
        });
        let result = self.inline_body(&function.body, ret);
        self.frames.pop();
        self.finish_args(bound);
        for (param, before) in outer.into_iter().rev() {
            checkpoint();
            match before {
                Some(before) => self.ty_vars.insert(param, before),
                None => self.ty_vars.remove(&param),
            };
        }
        result
    }

    /// Inlines a body that may return a value of type `ret`.
    pub(crate) fn inline_body(&mut self, body: &[hir::Stmt], ret: TyId) -> Rv {
        let loc = self.loc;
        let loops = std::mem::take(&mut self.loops);
        let result = match body.split_last() {
            Some((last, before)) if !before.iter().any(returns) && !nested_return(last) => {
                self.returns.push(ReturnTo::Nowhere);
                self.stmts(before);
                let result = match &last.kind {
                    hir::StmtKind::Return(value) => {
                        self.loc = self.loc_of(last.span);
                        match value {
                            Some(value) => {
                                let result = self.value(value);
                                let is_plain = before.is_empty()
                                    && self.frames.last().is_some_and(|f| f.copy_outs.is_empty());
                                // A computed result must not be read from the body's variables
                                // later.
                                if is_plain {
                                    result
                                } else {
                                    self.save_value(result, ret)
                                }
                            }
                            None => Rv::Default,
                        }
                    }
                    _ => {
                        self.stmt(last);
                        Rv::Default
                    }
                };
                self.returns.pop();
                result
            }
            None => Rv::Default,
            Some(_) => {
                let label = self.label();
                let place = self.is_stored(ret).then(|| self.temp(ret));
                self.returns.push(ReturnTo::Label(label, place.clone()));
                let (code, ()) = self.capture(|this| this.stmts(body));
                self.returns.pop();
                self.emit_block(label, code);
                place.map_or(Rv::Default, |place| self.load(&place))
            }
        };
        self.loops = loops;
        self.loc = loc;
        result
    }

    /// Inlines an action in a direct call.
    fn call_action(&mut self, id: hir::ActionId, call: &hir::Call) {
        let hir = self.hir;
        let action = &hir.actions[id];
        let node = match action.control {
            Some(_) => self.node,
            None => NodeId::new(0),
        };
        let name = self.path_in(node, action.name.as_str(), &action.annotations);
        self.called_actions.insert(name, id);
        let args = self.evaluate_args(&action.params, &call.args, &call.order);
        self.run_action(id, args, &call.order);
    }

    /// Inlines an action with evaluated arguments.
    pub(crate) fn run_action(&mut self, id: hir::ActionId, args: Vec<ArgValue>, order: &[usize]) {
        let hir = self.hir;
        let action = &hir.actions[id];
        let reach = Reach::Vars(self.free_vars(id));
        let bound = self.bind_args(&action.params, args, order, &reach, None);
        self.frames.push(Frame {
            copy_outs: bound.copy_outs.clone(),
        });
        let void = self.types.intern(Ty::Void);
        self.inline_body(&action.body, void);
        self.frames.pop();
        self.finish_args(bound);
    }

    /// Applies a parser or control.
    fn apply_block(&mut self, object: &hir::Expr, call: &hir::Call) {
        let Rv::Instance(node) = self.value(object) else {
            self.unsupported(
                call.span,
                "this is not an instance that is known when the program is compiled",
            );
            return;
        };
        let hir = self.hir;
        match self.nodes[node].ty.map(|ty| self.ty(ty).clone()) {
            Some(Ty::Control(id)) => {
                let args = self.evaluate_args(&hir.controls[id].params, &call.args, &call.order);
                let own = (self.nodes[node].applied > 1).then_some(node);
                let bound = self.bind_args(
                    &hir.controls[id].params,
                    args,
                    &call.order,
                    &Reach::Nothing,
                    own,
                );
                self.frames.push(Frame {
                    copy_outs: bound.copy_outs.clone(),
                });
                self.run_control(node, id);
                self.frames.pop();
                self.finish_args(bound);
            }
            Some(Ty::Parser(id)) => {
                let args = self.evaluate_args(&hir.parsers[id].params, &call.args, &call.order);
                let own = (self.nodes[node].applied > 1).then_some(node);
                let bound = self.bind_args(
                    &hir.parsers[id].params,
                    args,
                    &call.order,
                    &Reach::Nothing,
                    own,
                );
                self.run_sub_parser(node, id, call.span);
                self.finish_args(bound);
            }
            _ => {
                self.unsupported(call.span, "this instance has no body");
            }
        }
    }

    /// Lowers `exit`: all callers copy out, then the block ends.
    pub(crate) fn emit_exit(&mut self) {
        let frames = self.frames.clone();
        for frame in frames.iter().rev() {
            checkpoint();
            self.copy_out(&frame.copy_outs);
        }
        self.exit_used = true;
        match self.exit {
            ExitTo::Now => self.emit(StmtKind::Exit),
            ExitTo::Later(flag, label) => {
                self.emit(StmtKind::Assign(
                    flag.into(),
                    passes::fold::bool_const(true),
                ));
                self.emit(StmtKind::Leave(label));
            }
        }
    }

    /// Returns the variables that an action uses but does not declare.
    fn free_vars(&mut self, id: hir::ActionId) -> Rc<Vec<VarId>> {
        if let Some(known) = self.free_vars.get(&id) {
            return known.clone();
        }
        let mut found = HashSet::new();
        let mut seen = HashSet::new();
        crate::stmt::mentioned_vars(self.hir, id, &mut seen, &mut found);
        let vars = Rc::new(found.into_iter().collect::<Vec<_>>());
        self.free_vars.insert(id, vars.clone());
        vars
    }

    fn call_builtin(&mut self, builtin: Builtin, object: &hir::Expr, call: &hir::Call) -> Rv {
        match builtin {
            Builtin::IsValid => {
                let value = self.value(object);
                Rv::Scalar(self.validity(&value))
            }
            Builtin::SetValid | Builtin::SetInvalid => {
                if let Lvalue::Place(place) = self.lvalue(object) {
                    let place = self.settle(&place);
                    self.set_valid(&place, builtin == Builtin::SetValid);
                }
                Rv::Default
            }
            Builtin::PushFront | Builtin::PopFront => {
                let Lvalue::Place(place) = self.lvalue(object) else {
                    return Rv::Default;
                };
                let count = match call.args.first() {
                    Some(Arg::Expr(expr)) => self.constant_u32(expr),
                    _ => None,
                };
                match count {
                    Some(count) => self.shift_stack(&place, builtin == Builtin::PushFront, count),
                    None => {
                        self.unsupported(
                            call.span,
                            "the count must be known when the program is compiled",
                        );
                    }
                }
                Rv::Default
            }
            Builtin::MinSizeInBits
            | Builtin::MaxSizeInBits
            | Builtin::MinSizeInBytes
            | Builtin::MaxSizeInBytes => {
                let is_max = matches!(builtin, Builtin::MaxSizeInBits | Builtin::MaxSizeInBytes);
                let bits = self.size_in_bits(object.ty, is_max);
                let in_bytes = matches!(builtin, Builtin::MinSizeInBytes | Builtin::MaxSizeInBytes);
                Rv::Int(if in_bytes { bits.div_ceil(8) } else { bits }.into())
            }
        }
    }

    /// Computes `minSizeInBits` or `maxSizeInBits` (section 9.1). A `varbit` counts zero or its
    /// maximum.
    fn size_in_bits(&mut self, ty: TyId, is_max: bool) -> u64 {
        match self.scalar(ty) {
            Some(ScalarTy::Varbit(_)) if !is_max => 0,
            Some(scalar) => u64::from(scalar.width()),
            None => {
                let is_union = self.record_kind(ty) == Some(syntax::ast::RecordKind::HeaderUnion);
                let parts = self.part_types(ty);
                let sizes: Vec<u64> = parts
                    .into_iter()
                    .map(|part| self.size_in_bits(part, is_max))
                    .collect();
                match (is_union, is_max) {
                    (false, _) => sizes.into_iter().sum(),
                    (true, true) => sizes.into_iter().max().unwrap_or(0),
                    (true, false) => sizes.into_iter().min().unwrap_or(0),
                }
            }
        }
    }

    /// Lowers `push_front` and `pop_front` (section 8.18).
    fn shift_stack(&mut self, stack: &Place, push: bool, count: u32) {
        self.for_each_choice(stack, &mut |this, stack| match stack.slot.kind {
            crate::storage::SlotKind::Stack { id: Some(id), .. } => {
                this.emit(if push {
                    StmtKind::PushFront(id, count)
                } else {
                    StmtKind::PopFront(id, count)
                });
            }
            _ => this.shift_unions(stack, push, count),
        });
    }

    /// Sets the fields of a union's headers to zero.
    fn clear_members(&mut self, union: &Place, ty: TyId) {
        for (index, member_ty) in self.part_types(ty).into_iter().enumerate() {
            checkpoint();
            if let Some(member) = self.place_part(union, ty, index) {
                self.write_parts(&member, &Rv::Default, member_ty);
            }
        }
    }

    /// Lowers `push_front` and `pop_front` of a stack of unions, which the IR does not have.
    fn shift_unions(&mut self, stack: &Place, push: bool, count: u32) {
        let Ty::Stack(element_ty, len) = *self.ty(stack.ty) else {
            return;
        };
        let element = |index: u32| {
            stack
                .parts()
                .get(index as usize)
                .map(|slot| stack.part(slot, element_ty))
        };
        let indices: Vec<u32> = if push {
            (0..len).rev().collect()
        } else {
            (0..len).collect()
        };
        for index in indices {
            checkpoint();
            let from = if push {
                index.checked_sub(count)
            } else {
                index.checked_add(count).filter(|&i| i < len)
            };
            let Some(to) = element(index) else { continue };
            match from.and_then(element) {
                Some(from) => self.assign(&to, &Rv::Place(from), element_ty),
                None => {
                    self.set_valid(&to, false);
                    if push {
                        self.clear_members(&to, element_ty);
                    }
                }
            }
        }
        let Some(next) = stack.next_index() else {
            return;
        };
        let old = Expr::Read(next.clone());
        let count_expr = crate::cx::bits_const(u64::from(count.min(len)), 32);
        let (op, limit) = if push {
            (ir::BinOp::Add, crate::cx::bits_const(u64::from(len), 32))
        } else {
            (
                ir::BinOp::SubSaturating,
                crate::cx::bits_const(u64::from(len), 32),
            )
        };
        let moved = Expr::Binary(op, Box::new(old), Box::new(count_expr));
        let over = Expr::Binary(
            ir::BinOp::Gt,
            Box::new(moved.clone()),
            Box::new(limit.clone()),
        );
        self.emit(StmtKind::Assign(
            next,
            Expr::Ternary(Box::new(over), Box::new(limit), Box::new(moved)),
        ));
    }

    /// Evaluates a number that must be known at compile time.
    pub(crate) fn constant_u32(&mut self, expr: &hir::Expr) -> Option<u32> {
        match self.value(expr) {
            Rv::Int(number) => u32::try_from(&number).ok(),
            Rv::Scalar(Expr::Const(_, value)) => {
                value.to_u64().and_then(|value| u32::try_from(value).ok())
            }
            _ => None,
        }
    }

    /// Runs code in the context of another node, with separate loops.
    pub(crate) fn in_node<R>(
        &mut self,
        node: NodeId,
        mode: Mode,
        f: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let outer_node = std::mem::replace(&mut self.node, node);
        let outer_mode = std::mem::replace(&mut self.mode, mode);
        let result = f(self);
        self.node = outer_node;
        self.mode = outer_mode;
        result
    }
}

/// Storage that the arguments of a call, and its body, read and write.
struct Touched {
    written: Ranges,
    read: Ranges,
    reached: Ranges,
    is_anything: bool,
}

/// A set of field ranges, for counting overlaps.
struct Ranges {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Ranges {
    fn of(ranges: Vec<Range<u32>>) -> Ranges {
        let ranges = ranges.into_iter().filter(|range| !range.is_empty());
        let (mut starts, mut ends): (Vec<u32>, Vec<u32>) =
            ranges.map(|range| (range.start, range.end)).unzip();
        starts.sort_unstable();
        ends.sort_unstable();
        Ranges { starts, ends }
    }

    /// Returns the number of ranges that overlap `range`: those that begin before its end, minus
    /// those that end before its start.
    fn count(&self, range: &Range<u32>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let begun = self.starts.partition_point(|&start| start < range.end);
        let ended = self.ends.partition_point(|&end| end <= range.start);
        begun - ended
    }

    fn meet(&self, range: &Range<u32>) -> bool {
        self.count(range) > 0
    }
}

/// Returns the parameter indices in the order of a call: `order`, or all in ascending order.
pub(crate) fn steps(order: &[usize], count: usize) -> Vec<usize> {
    match order {
        [] => (0..count).collect(),
        given => given.iter().copied().filter(|&at| at < count).collect(),
    }
}

fn is_constant(value: &Rv) -> bool {
    match value {
        Rv::Scalar(expr) => matches!(expr, Expr::Const(..)),
        Rv::List(parts) | Rv::Header(parts) => parts.iter().all(is_constant),
        Rv::Place(_) => false,
        _ => true,
    }
}

/// Returns true if a statement contains a `return`, at any depth.
pub(crate) fn returns(stmt: &hir::Stmt) -> bool {
    matches!(stmt.kind, hir::StmtKind::Return(_)) || nested_return(stmt)
}

fn nested_return(stmt: &hir::Stmt) -> bool {
    let any = |body: &[hir::Stmt]| body.iter().any(returns);
    match &stmt.kind {
        hir::StmtKind::If(_, then, otherwise) => any(then) || any(otherwise),
        hir::StmtKind::Block(body, _)
        | hir::StmtKind::For { body, .. }
        | hir::StmtKind::ForIn { body, .. } => any(body),
        hir::StmtKind::SwitchAction { cases, .. } => cases.iter().any(|case| any(&case.body)),
        hir::StmtKind::SwitchValue { cases, .. } => cases.iter().any(|case| any(&case.body)),
        _ => false,
    }
}
