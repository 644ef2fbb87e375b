//! Keysets: what the cases of a select and the entries of a table match (section "Operations on sets").

use syntax::ast::{self, BinaryOp, KeysetElement};
use syntax::diag::Diagnostic;

use crate::hir::{KeySet, Keyset, Ty, TyId, ValueSetId};
use crate::scope::Entity;
use crate::{Checker, code};

impl Checker<'_> {
    /// The keyset of a select case for expressions of these types.
    pub(crate) fn select_keyset(&mut self, keyset: &ast::Keyset, types: &[TyId]) -> Option<Keyset> {
        if let [KeysetElement::Expr(e)] = keyset.elements.as_slice()
            && let Some(set) = self.as_value_set(e)
        {
            return self.value_set_case(set, e, types);
        }
        if let [only] = keyset.elements.as_slice()
            && types.len() > 1
        {
            return self.one_for_all(only, keyset, types);
        }
        self.sets(&keyset.elements, keyset, types).map(Keyset::Sets)
    }

    fn value_set_case(&mut self, set: ValueSetId, e: &ast::Expr, types: &[TyId]) -> Option<Keyset> {
        let element = self.p.value_sets[set].element;
        let fields: Vec<TyId> = match self.ty(element).clone() {
            Ty::Record(id, args) => (0..self.p.records[id].fields.len())
                .map(|i| self.field_type(id, &args, i))
                .collect(),
            Ty::Tuple(elements) => elements,
            _ => vec![element],
        };
        let fits = fields.len() == types.len()
            && fields
                .iter()
                .zip(types)
                .all(|(&f, &t)| f == t || f == self.t.error || t == self.t.error);
        if fits {
            return Some(Keyset::ValueSet(set));
        }
        let selected: Vec<String> = types.iter().map(|&ty| self.show(ty)).collect();
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

    /// One element for several expressions: `_`, `default`, or a tuple.
    fn one_for_all(
        &mut self,
        element: &KeysetElement,
        keyset: &ast::Keyset,
        types: &[TyId],
    ) -> Option<Keyset> {
        match element {
            KeysetElement::Default(_) | KeysetElement::DontCare(_) => {
                Some(Keyset::Sets(vec![KeySet::Any; types.len()]))
            }
            KeysetElement::Expr(ast::Expr {
                kind:
                    ast::ExprKind::List {
                        elements,
                        rest_default: false,
                    },
                ..
            }) => {
                let elements: Vec<KeysetElement> = elements
                    .iter()
                    .map(|e| match e.kind {
                        ast::ExprKind::DontCare => KeysetElement::DontCare(e.span),
                        _ => KeysetElement::Expr(e.clone()),
                    })
                    .collect();
                self.sets(&elements, keyset, types).map(Keyset::Sets)
            }
            KeysetElement::Expr(e) => {
                self.expr(e, None);
                self.wrong_count(keyset, 1, types.len());
                None
            }
        }
    }

    fn wrong_count(&mut self, keyset: &ast::Keyset, found: usize, needed: usize) {
        let message = format!(
            "{needed} value{} needed here, but {found} {} given",
            if needed == 1 { " is" } else { "s are" },
            if found == 1 { "is" } else { "are" }
        );
        self.error(code::BAD_SELECT, keyset.span, message);
    }

    /// One set for each type.
    pub(crate) fn sets(
        &mut self,
        elements: &[KeysetElement],
        keyset: &ast::Keyset,
        types: &[TyId],
    ) -> Option<Vec<KeySet>> {
        if elements.len() != types.len() {
            self.wrong_count(keyset, elements.len(), types.len());
            return None;
        }
        let sets: Vec<Option<KeySet>> = elements
            .iter()
            .zip(types)
            .map(|(e, &ty)| self.key_set(e, ty))
            .collect();
        sets.into_iter().collect()
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
        let set = match &e.kind {
            ast::ExprKind::DontCare => return Some(KeySet::Any),
            ast::ExprKind::Binary(op @ (BinaryOp::Mask | BinaryOp::Range), a, b) => {
                let (a, b) = self.endpoints(*op, a, b, ty, e)?;
                if *op == BinaryOp::Mask {
                    KeySet::Mask(a, b)
                } else {
                    KeySet::Range(a, b)
                }
            }
            _ => {
                let value = self.expr_to(e, ty);
                if value.ty == self.t.error {
                    return None;
                }
                KeySet::Value(value)
            }
        };
        Some(set)
    }

    fn endpoints(
        &mut self,
        op: BinaryOp,
        a: &ast::Expr,
        b: &ast::Expr,
        ty: TyId,
        whole: &ast::Expr,
    ) -> Option<(crate::hir::Expr, crate::hir::Expr)> {
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
            self.error(code::BAD_OPERAND, whole.span, message);
            return None;
        }
        if a.ty != b.ty && self.num(a.ty).is_some() && self.num(b.ty).is_some() {
            let set = self.binary_of(op, a.clone(), b.clone(), whole.span);
            if set.ty == self.t.error {
                return None;
            }
        }
        let (a, b) = (self.endpoint(a, ty), self.endpoint(b, ty));
        (a.ty != self.t.error && b.ty != self.t.error).then_some((a, b))
    }

    /// An endpoint of a range or a mask: a mask for an enum is given by number.
    fn endpoint(&mut self, e: crate::hir::Expr, ty: TyId) -> crate::hir::Expr {
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
            ast::ExprKind::Name(path) => match self.peek(path) {
                Some(Entity::ValueSet(set)) => Some(set),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a keyset matches everything.
    pub(crate) fn matches_all(keyset: &Keyset) -> bool {
        match keyset {
            Keyset::Sets(sets) => sets.iter().all(|set| matches!(set, KeySet::Any)),
            Keyset::ValueSet(_) => false,
        }
    }
}
