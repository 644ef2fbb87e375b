//! Keysets of select cases and table entries (section "Operations on sets").

use syntax::ast::{self, BinaryOp, ExprKind as AstKind, KeysetElement, RecordKind};
use syntax::diag::Diagnostic;
use syntax::source::Span;

use crate::hir::{Expr, ExprKind, KeySet, Keyset, Ty, TyId, ValueSetId};
use crate::scope::Entity;
use crate::{Checker, code};

/// Types of the matched values. Tuples may be nested; the leaves are compared.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// One value.
    Leaf(TyId),
    /// A tuple of values, written in braces.
    Tuple(Vec<Shape>),
}

impl Shape {
    /// Returns the number of values.
    fn leaves(&self) -> usize {
        match self {
            Shape::Leaf(_) => 1,
            Shape::Tuple(shapes) => shapes.iter().map(Shape::leaves).sum(),
        }
    }
}

impl Checker<'_> {
    /// Checks the expressions of a select. Returns the leaves of all tuples, and the shapes.
    pub(crate) fn select_args(&mut self, args: &[ast::Expr]) -> (Vec<Expr>, Vec<Shape>) {
        let mut leaves = Vec::new();
        let shapes = args
            .iter()
            .map(|arg| {
                let value = self.expr(arg, None);
                self.take_apart(value, &mut leaves)
            })
            .collect();
        (leaves, shapes)
    }

    fn take_apart(&mut self, value: Expr, leaves: &mut Vec<Expr>) -> Shape {
        let span = value.span;
        match (self.ty(value.ty).clone(), value.kind) {
            (Ty::Tuple(_), ExprKind::Aggregate(elements)) => Shape::Tuple(
                elements
                    .into_iter()
                    .map(|e| self.take_apart(e, leaves))
                    .collect(),
            ),
            (Ty::Tuple(types), kind) => {
                let whole = Expr {
                    kind,
                    ty: value.ty,
                    span,
                };
                let field = |i: usize, ty: TyId| {
                    let kind = ExprKind::Field(Box::new(whole.clone()), i);
                    Expr { kind, ty, span }
                };
                let fields: Vec<Expr> = types
                    .iter()
                    .enumerate()
                    .map(|(i, &ty)| field(i, ty))
                    .collect();
                Shape::Tuple(
                    fields
                        .into_iter()
                        .map(|e| self.take_apart(e, leaves))
                        .collect(),
                )
            }
            (_, kind) => {
                let leaf = self.select_leaf(Expr {
                    kind,
                    ty: value.ty,
                    span,
                });
                let shape = Shape::Leaf(leaf.ty);
                leaves.push(leaf);
                shape
            }
        }
    }

    fn select_leaf(&mut self, value: Expr) -> Expr {
        use Ty::*;
        if matches!(
            self.ty(value.ty),
            Bit(_) | Int(_) | Bool | Enum(_) | ErrorCode | NewType(_) | Error
        ) {
            return value;
        }
        let message = format!("{} cannot be selected on", self.show(value.ty));
        let diagnostic = Diagnostic::error(code::BAD_SELECT, value.span, message);
        self.report(diagnostic.hint("select on `bit`, `int`, `bool`, `error` or enum values"));
        self.poison(value.span)
    }

    /// Checks the keyset of a select case.
    pub(crate) fn select_keyset(
        &mut self,
        keyset: &ast::Keyset,
        shapes: &[Shape],
    ) -> Option<Keyset> {
        if let [KeysetElement::Expr(e)] = keyset.elements.as_slice()
            && let Some(set) = self.as_value_set(e)
        {
            return self.value_set_case(set, e, shapes);
        }
        self.keyset(keyset, shapes).map(Keyset::Sets)
    }

    /// Checks a keyset with one set for each leaf.
    pub(crate) fn keyset(&mut self, keyset: &ast::Keyset, shapes: &[Shape]) -> Option<Vec<KeySet>> {
        let total = shapes.iter().map(Shape::leaves).sum();
        match keyset.elements.as_slice() {
            [KeysetElement::Default(_) | KeysetElement::DontCare(_)] => {
                Some(vec![KeySet::Any; total])
            }
            // `{ a, b }` for `(a, b)`.
            [KeysetElement::Expr(e)]
                if matches!(
                    &e.kind,
                    AstKind::List {
                        rest_default: false,
                        ..
                    }
                ) && !matches!(shapes, [Shape::Tuple(_)]) =>
            {
                self.sets(&list_elements(e), shapes, keyset.span)
            }
            elements => self.sets(elements, shapes, keyset.span),
        }
    }

    fn sets(
        &mut self,
        elements: &[KeysetElement],
        shapes: &[Shape],
        span: Span,
    ) -> Option<Vec<KeySet>> {
        if elements.len() != shapes.len() {
            self.wrong_count(span, elements.len(), shapes.len());
            return None;
        }
        let mut sets = Vec::new();
        let mut good = true;
        for (element, shape) in elements.iter().zip(shapes) {
            match self.shaped(element, shape) {
                Some(found) => sets.extend(found),
                None => good = false,
            }
        }
        good.then_some(sets)
    }

    fn shaped(&mut self, element: &KeysetElement, shape: &Shape) -> Option<Vec<KeySet>> {
        match (shape, element) {
            (Shape::Leaf(ty), _) => self.key_set(element, *ty).map(|set| vec![set]),
            (_, KeysetElement::Default(_) | KeysetElement::DontCare(_)) => {
                Some(vec![KeySet::Any; shape.leaves()])
            }
            (Shape::Tuple(shapes), KeysetElement::Expr(e)) => {
                if matches!(e.kind, AstKind::DontCare) {
                    return Some(vec![KeySet::Any; shape.leaves()]);
                }
                if matches!(
                    e.kind,
                    AstKind::List {
                        rest_default: false,
                        ..
                    }
                ) {
                    return self.sets(&list_elements(e), shapes, e.span);
                }
                self.expr(e, None);
                self.wrong_count(e.span, 1, shapes.len());
                None
            }
        }
    }

    fn wrong_count(&mut self, span: Span, found: usize, needed: usize) {
        let message = format!(
            "{needed} value{} needed here, but {found} {} given",
            if needed == 1 { " is" } else { "s are" },
            if found == 1 { "is" } else { "are" }
        );
        self.error(code::BAD_SELECT, span, message);
    }

    fn value_set_case(
        &mut self,
        set: ValueSetId,
        e: &ast::Expr,
        shapes: &[Shape],
    ) -> Option<Keyset> {
        let element = self.p.value_sets[set].element;
        let mut fields = Vec::new();
        self.leaf_types(element, &mut fields);
        let mut selected = Vec::new();
        shapes
            .iter()
            .for_each(|shape| shape_types(shape, &mut selected));
        let poison = self.t.error;
        let alike =
            |&(&field, &ty): &(&TyId, &TyId)| field == ty || field == poison || ty == poison;
        if fields.len() == selected.len() && fields.iter().zip(&selected).all(|pair| alike(&pair)) {
            return Some(Keyset::ValueSet(set));
        }
        let selected: Vec<String> = selected.iter().map(|&ty| self.show(ty)).collect();
        let message = format!(
            "the value set holds {}, but {} is selected",
            self.show(element),
            selected.join(", ")
        );
        let declared = self.p.value_sets[set].name.span;
        self.report(
            Diagnostic::error(code::BAD_SELECT, e.span, message).label(declared, "the value set"),
        );
        None
    }

    /// Collects the types of the scalars in a struct or tuple, in order.
    fn leaf_types(&mut self, ty: TyId, out: &mut Vec<TyId>) {
        match self.ty(ty).clone() {
            Ty::Record(id, args) if self.p.records[id].kind == RecordKind::Struct => {
                for i in 0..self.p.records[id].fields.len() {
                    let field = self.field_type(id, &args, i);
                    self.leaf_types(field, out);
                }
            }
            Ty::Tuple(elements) => elements
                .iter()
                .for_each(|&element| self.leaf_types(element, out)),
            _ => out.push(ty),
        }
    }

    fn key_set(&mut self, element: &KeysetElement, ty: TyId) -> Option<KeySet> {
        let e = match element {
            KeysetElement::Default(_) | KeysetElement::DontCare(_) => return Some(KeySet::Any),
            KeysetElement::Expr(e) => e,
        };
        if let Some(set) = self.as_value_set(e) {
            let element = self.p.value_sets[set].element;
            if element != ty && ty != self.t.error {
                self.mismatch(element, ty, e.span);
                return None;
            }
            return Some(KeySet::ValueSet(set));
        }
        match &e.kind {
            AstKind::DontCare => Some(KeySet::Any),
            AstKind::Binary(op @ (BinaryOp::Mask | BinaryOp::Range), a, b) => {
                let (a, b) = self.endpoints(*op, a, b, ty, e.span)?;
                Some(if *op == BinaryOp::Mask {
                    KeySet::Mask(a, b)
                } else {
                    KeySet::Range(a, b)
                })
            }
            _ => {
                let value = self.expr_to(e, ty);
                if value.ty == self.t.error {
                    return None;
                }
                if matches!(&value.kind, ExprKind::Call(_)) && !self.is_compile_time(&value) {
                    self.error(
                        code::BAD_SELECT,
                        e.span,
                        "a call cannot be a label: its value is not known before",
                    );
                    return None;
                }
                Some(KeySet::Value(value))
            }
        }
    }

    fn endpoints(
        &mut self,
        op: BinaryOp,
        a: &ast::Expr,
        b: &ast::Expr,
        ty: TyId,
        span: Span,
    ) -> Option<(Expr, Expr)> {
        let a = self.expr(a, Some(ty));
        let b = self.expr(b, Some(ty));
        if a.ty == self.t.error || b.ty == self.t.error || ty == self.t.error {
            return None;
        }
        let base = self.base(ty);
        if self.num(base).is_none() && self.enum_underlying(base).is_none() {
            let word = if op == BinaryOp::Mask {
                "mask"
            } else {
                "range"
            };
            let message = format!("a {word} needs numbers, but {} is matched", self.show(ty));
            self.error(code::BAD_OPERAND, span, message);
            return None;
        }
        if a.ty != b.ty && self.num(a.ty).is_some() && self.num(b.ty).is_some() {
            let set = self.binary_of(op, a.clone(), b.clone(), span);
            if set.ty == self.t.error {
                return None;
            }
        }
        let (a, b) = (self.endpoint(a, ty), self.endpoint(b, ty));
        (a.ty != self.t.error && b.ty != self.t.error).then_some((a, b))
    }

    /// Converts an endpoint of a range or a mask. For an enum it may be a number.
    fn endpoint(&mut self, e: Expr, ty: TyId) -> Expr {
        match self.enum_underlying(ty) {
            Some(under) if e.ty == self.t.integer || e.ty == under => {
                let value = self.coerce(e, under);
                self.cast_to(value, ty)
            }
            _ => self.coerce(e, ty),
        }
    }

    fn as_value_set(&self, e: &ast::Expr) -> Option<ValueSetId> {
        match &e.kind {
            AstKind::Name(path) => match self.peek(path) {
                Some(Entity::ValueSet(set)) => Some(set),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if a keyset matches everything.
    pub(crate) fn matches_all(keyset: &Keyset) -> bool {
        match keyset {
            Keyset::Sets(sets) => sets.iter().all(|set| matches!(set, KeySet::Any)),
            Keyset::ValueSet(_) => false,
        }
    }
}

/// Returns the elements of `{ a, b }` as elements of a keyset.
fn list_elements(e: &ast::Expr) -> Vec<KeysetElement> {
    let AstKind::List { elements, .. } = &e.kind else {
        return Vec::new();
    };
    let element = |e: &ast::Expr| match e.kind {
        AstKind::DontCare => KeysetElement::DontCare(e.span),
        _ => KeysetElement::Expr(e.clone()),
    };
    elements.iter().map(element).collect()
}

fn shape_types(shape: &Shape, out: &mut Vec<TyId>) {
    match shape {
        Shape::Leaf(ty) => out.push(*ty),
        Shape::Tuple(shapes) => shapes.iter().for_each(|shape| shape_types(shape, out)),
    }
}
