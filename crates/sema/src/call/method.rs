//! Calls of the form `x.f(..)`: methods of externs, `apply`, and direct application.

use syntax::ast::{self, Name, TypeRef};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use super::builtin::is_size_method;
use super::{ProtoRef, Written, args};
use crate::hir::{
    Annotation, AnnotationBody, BlockTypeKind, Call, Callee, Expr, ExprKind, ExternId, Instance,
    LocalDecl, Param, Ty, TyId,
};
use crate::types::Subst;
use crate::unify::Bindings;
use crate::{Checker, Deprecated, Place, code};

impl Checker<'_> {
    pub(super) fn call_member(
        &mut self,
        base: &ast::Expr,
        name: &Name,
        written: Written<'_>,
    ) -> Expr {
        if is_size_method(name.as_str()) && self.as_type_name(base).is_none() {
            let base = self.with_cx(|cx| cx.evaluated = false, |this| this.expr(base, None));
            if base.ty == self.t.error {
                return self.poison_args(written);
            }
            if !matches!(self.ty(base.ty), Ty::Extern(..)) {
                return self.call_builtin(base, name, written);
            }
        }
        if let Some(ty) = self.as_type_name(base) {
            return self.call_on_type(&ty, base, name, written);
        }
        let base = self.receiver(base);
        match self.ty(base.ty).clone() {
            Ty::Error => self.poison_args(written),
            Ty::Table(table) if name.as_str() == "apply" => self.apply_table(table, written),
            Ty::Parser(_) | Ty::Control(_) | Ty::BlockType(..) if name.as_str() == "apply" => {
                self.apply_block(base, written)
            }
            Ty::Extern(id, type_args) => self.call_method(base, id, type_args, name, written),
            _ => self.call_builtin(base, name, written),
        }
    }

    /// Checks the receiver of a method. An extern may be constructed in place.
    fn receiver(&mut self, base: &ast::Expr) -> Expr {
        let constructed = match &base.kind {
            ast::ExprKind::Call { callee, .. } => self.as_type_name(callee).is_some(),
            _ => false,
        };
        let in_code = matches!(
            self.cx.place,
            Place::ParserState | Place::ControlApply | Place::Action
        );
        if !constructed || !in_code {
            return self.expr(base, None);
        }
        let value = self.with_cx(|cx| cx.constructors = true, |this| this.expr(base, None));
        let ExprKind::Instance(id) = value.kind else {
            return value;
        };
        if !matches!(self.ty(value.ty), Ty::Extern(..)) {
            let message = "only externs can be constructed where they are used";
            return self.fail(code::BAD_INSTANCE, base.span, message);
        }
        let text = format!("{}_{}", self.show(value.ty).trim_matches('`'), id);
        self.p.instances[id].name.text = text.into();
        self.cx.pending.push(LocalDecl::Instance(id));
        value
    }

    fn call_on_type(
        &mut self,
        ty: &TypeRef,
        base: &ast::Expr,
        name: &Name,
        written: Written<'_>,
    ) -> Expr {
        if matches!(ty, TypeRef::Error(_) | TypeRef::MatchKind(_)) {
            let message = format!("`{}` cannot be called", name.as_str());
            return self.fail(code::BAD_CALL, written.span, message);
        }
        let id = self.resolve_type(ty);
        match self.ty(id).clone() {
            Ty::Error => self.poison_args(written),
            Ty::Parser(_) | Ty::Control(_) if name.as_str() == "apply" => {
                match self.direct_instance(id, base, written) {
                    Some(object) => self.apply_block(object, written),
                    None => self.poison_args(written),
                }
            }
            _ => self.size_method_of_type(id, name, written),
        }
    }

    /// Returns the instance that a direct application `C.apply(..)` denotes (section "Direct type
    /// invocation").
    fn direct_instance(
        &mut self,
        ty: TyId,
        base: &ast::Expr,
        written: Written<'_>,
    ) -> Option<Expr> {
        let (name, ctor_params) = match *self.ty(ty) {
            Ty::Parser(id) => (
                self.p.parsers[id].name.clone(),
                &self.p.parsers[id].ctor_params,
            ),
            Ty::Control(id) => (
                self.p.controls[id].name.clone(),
                &self.p.controls[id].ctor_params,
            ),
            _ => return None,
        };
        if ctor_params
            .iter()
            .any(|p| p.default.is_none() && !p.optional)
        {
            let message = format!(
                "`{}` has constructor parameters: it must be instantiated first",
                name.as_str()
            );
            self.error(code::BAD_CALL, written.span, message);
            return None;
        }
        let args = ctor_params
            .iter()
            .map(|p| {
                p.default
                    .clone()
                    .map_or(crate::hir::Arg::Omitted, crate::hir::Arg::Expr)
            })
            .collect();
        let annotations = vec![direct_name(&name)];
        let instance = Instance {
            name,
            ty,
            constructor: 0,
            args,
            methods: Vec::new(),
            inner: Vec::new(),
            annotations,
            span: base.span,
        };
        let id = self.p.instances.push(instance);
        self.cx.pending.push(LocalDecl::Instance(id));
        Some(Expr {
            kind: ExprKind::Instance(id),
            ty,
            span: base.span,
        })
    }

    fn apply_table(&mut self, table: crate::hir::TableId, written: Written<'_>) -> Expr {
        if self.cx.place != Place::ControlApply {
            let message = match self.cx.place {
                Place::Action => "a table cannot be applied in an action",
                Place::Function | Place::Method => "a table cannot be applied in a function",
                _ => "a table can only be applied in the `apply` block of its control",
            };
            return self.fail(code::WRONG_PLACE, written.span, message);
        }
        if !self.cx.tables {
            return self.fail(
                code::WRONG_PLACE,
                written.span,
                "a table cannot be applied in an argument of an action",
            );
        }
        if !written.args.is_empty() || !written.type_args.is_empty() {
            return self.fail(
                code::BAD_ARGS,
                written.span,
                "`apply` of a table takes no arguments",
            );
        }
        let ty = self.intern(Ty::ApplyResult(table));
        let call = Call {
            callee: Callee::Table(table),
            type_args: Vec::new(),
            args: Vec::new(),
            order: Vec::new(),
            span: written.span,
        };
        Expr {
            kind: ExprKind::Call(call),
            ty,
            span: written.span,
        }
    }

    fn apply_block(&mut self, object: Expr, written: Written<'_>) -> Expr {
        let Some((kind, params, subst)) = self.block_params(object.ty) else {
            return self.poison_args(written);
        };
        let place = self.cx.place;
        let allowed = match kind {
            BlockTypeKind::Parser => place == Place::ParserState,
            BlockTypeKind::Control => place == Place::ControlApply,
            BlockTypeKind::Package => false,
        };
        if !allowed {
            let message = match (kind, place) {
                (BlockTypeKind::Package, _) => "a package cannot be applied".to_string(),
                (BlockTypeKind::Parser, _) => {
                    "a parser can only be applied in a parser state".to_string()
                }
                (_, Place::Action) => "a control cannot be applied in an action".to_string(),
                _ => "a control can only be applied in the `apply` block of a control".to_string(),
            };
            self.error(code::WRONG_PLACE, written.span, message);
            return self.poison_args(written);
        }
        if !written.type_args.is_empty() {
            self.type_arg_count("apply", written.span, 0, written.type_args.len());
            return self.poison_args(written);
        }
        let mut b = Bindings::default();
        let Some(args) =
            self.bind_args(&params, &subst, &mut b, None, args::Rule::Constant, written)
        else {
            return self.poison(written.span);
        };
        let order = self.order_of_args(&params, written.args);
        let callee = Callee::Apply(Box::new(object));
        let call = Call {
            callee,
            type_args: Vec::new(),
            args,
            order,
            span: written.span,
        };
        Expr {
            kind: ExprKind::Call(call),
            ty: self.t.void,
            span: written.span,
        }
    }

    fn block_params(&self, ty: TyId) -> Option<(BlockTypeKind, Vec<Param>, Subst)> {
        match self.ty(ty) {
            Ty::Parser(id) => Some((
                BlockTypeKind::Parser,
                self.p.parsers[*id].params.clone(),
                Subst::new(),
            )),
            Ty::Control(id) => Some((
                BlockTypeKind::Control,
                self.p.controls[*id].params.clone(),
                Subst::new(),
            )),
            Ty::BlockType(id, args) => {
                let block = &self.p.block_types[*id];
                let subst = block
                    .type_params
                    .iter()
                    .copied()
                    .zip(args.iter().copied())
                    .collect();
                Some((block.kind, block.params.clone(), subst))
            }
            _ => None,
        }
    }

    fn call_method(
        &mut self,
        object: Expr,
        extern_id: ExternId,
        type_args: Vec<TyId>,
        name: &Name,
        written: Written<'_>,
    ) -> Expr {
        let methods = &self.p.externs[extern_id].methods;
        let candidates: Vec<ProtoRef> = (0..methods.len())
            .filter(|&i| methods[i].proto.name.text == name.text)
            .map(|i| ProtoRef::Method(extern_id, i))
            .collect();
        if candidates.is_empty() {
            let message = format!("{} has no method `{}`", self.show(object.ty), name.as_str());
            let names = methods.iter().map(|m| m.proto.name.as_str());
            self.report(
                Diagnostic::error(code::NO_MEMBER, name.span, message)
                    .suggest(name.as_str(), names),
            );
            return self.poison_args(written);
        }
        let object_subst: Subst = self.p.externs[extern_id]
            .type_params
            .iter()
            .copied()
            .zip(type_args)
            .collect();
        let Some(chosen) = self.select(&candidates, "method", written) else {
            return self.poison_args(written);
        };
        if self.cx.place == Place::TopLevel {
            let message = format!(
                "`{}` cannot be called here: there is no run time at the top level",
                name.as_str()
            );
            self.error(code::WRONG_PLACE, written.span, message);
            return self.poison_args(written);
        }
        let Some((args, subst)) = self.instantiate(chosen, &object_subst, written) else {
            return self.poison(written.span);
        };
        let ProtoRef::Method(_, method) = chosen else {
            return self.poison(written.span);
        };
        if !self.check_core_method(extern_id, chosen, &args, &subst, written) {
            return self.poison(written.span);
        }
        self.warn_deprecated(Deprecated::Extern(extern_id), written.span);
        let callee = Callee::ExternMethod {
            object: Box::new(object),
            extern_id,
            method,
        };
        self.finish_call(callee, chosen, args, &object_subst, &subst, written)
    }

    /// Checks the core library's rules for headers that are extracted, looked ahead and emitted.
    fn check_core_method(
        &mut self,
        extern_id: ExternId,
        proto: ProtoRef,
        args: &[crate::hir::Arg],
        subst: &Subst,
        written: Written<'_>,
    ) -> bool {
        let object = self.p.externs[extern_id].name.as_str().to_string();
        let Some(&(_, ty)) = subst.first() else {
            return true;
        };
        if self.is_open(ty) {
            return true;
        }
        if object == "packet_in"
            && written.name == "extract"
            && !self.check_varbits(ty, written.span)
        {
            return false;
        }
        let span = Self::given(args, 0).map_or(written.span, |e| e.span);
        let params = self.proto(proto).params.len();
        let problem = match (object.as_str(), written.name, params) {
            ("packet_in", "extract", 1) if !self.is_header(ty) => Some("must be a header"),
            ("packet_in", "extract", 1) if self.has_varbit(ty) => {
                Some("has a varbit field: its size must be given as a second argument")
            }
            ("packet_in", "extract", 2) if !self.is_header(ty) => Some("must be a header"),
            ("packet_in", "extract", 2) if !self.has_varbit(ty) => Some("must have a varbit field"),
            ("packet_in", "lookahead", _)
                if self
                    .size_in_bits(ty)
                    .is_none_or(|(least, most)| least != most) =>
            {
                Some("must have a fixed size")
            }
            ("packet_out", "emit", _) if !self.is_emittable(ty) => {
                Some("must be a header, a header stack, a header union or a struct of those")
            }
            _ => None,
        };
        match problem {
            Some(problem) => {
                let message = format!(
                    "what `{}` is given {problem}; this is {}",
                    written.name,
                    self.show(ty)
                );
                self.error(code::BAD_ARGS, span, message);
                false
            }
            None => true,
        }
    }

    /// Checks that an extracted header has at most one `varbit` field.
    fn check_varbits(&mut self, ty: TyId, call: Span) -> bool {
        let Ty::Record(id, _) = *self.ty(ty) else {
            return true;
        };
        let is_varbit = |ty: TyId| matches!(self.ty(ty), Ty::Varbit(_));
        let fields = &self.p.records[id].fields;
        let mut varbits = fields
            .iter()
            .filter(|field| is_varbit(field.ty))
            .map(|field| field.name.span);
        let (Some(first), Some(second)) = (varbits.next(), varbits.next()) else {
            return true;
        };
        let message = "a header with two varbit fields cannot be extracted";
        let diagnostic = Diagnostic::error(code::BAD_TYPE, second, message);
        self.report(
            diagnostic
                .label(first, "the first varbit field")
                .label(call, "extracted here"),
        );
        false
    }

    fn is_emittable(&mut self, ty: TyId) -> bool {
        match self.ty(ty).clone() {
            Ty::Record(id, args) => {
                self.p.records[id].kind != ast::RecordKind::Struct
                    || (0..self.p.records[id].fields.len()).all(|i| {
                        let field = self.field_type(id, &args, i);
                        self.is_emittable(field)
                    })
            }
            Ty::Stack(element, _) => self.is_emittable(element),
            Ty::Tuple(elements) => elements.iter().all(|&element| self.is_emittable(element)),
            Ty::Var(_) | Ty::Error => true,
            _ => false,
        }
    }
}

/// Returns `@name("C")` for the instance of a direct application.
fn direct_name(name: &Name) -> Annotation {
    let token = ast::AnnotationToken {
        kind: ast::AnnotationTokenKind::String,
        text: name.text.clone(),
        span: name.span,
    };
    Annotation {
        name: Name {
            text: "name".into(),
            span: name.span,
        },
        body: AnnotationBody::Tokens(vec![token]),
        span: name.span,
    }
}
