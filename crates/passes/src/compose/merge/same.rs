//! Comparison of two programs' parsers up to names. Yields the correspondence of their fields and
//! headers.

use std::collections::HashMap;

use bits::Id;
use ir::{
    Expr, FieldId, HeaderId, KeySet, Keyset, LabelId, Parser, Place, Program, ScalarTy, StateId,
    Stmt, StmtKind, Target, Transition,
};

use support::work::checkpoint;

use crate::link::Known;
use crate::uses::fields_of;

/// A difference of two parsers.
pub(super) type Difference = &'static str;

type Same = Result<(), Difference>;

/// Maps the items of `other` to those of `one`, if both parsers do the same.
pub(super) fn parsers(
    (one, one_parser): (&Program, &Parser),
    (other, other_parser): (&Program, &Parser),
) -> Result<Known, Difference> {
    let mut pairs = Pairs {
        one,
        other,
        fields: OneToOne::default(),
        headers: OneToOne::default(),
        states: OneToOne::default(),
        labels: OneToOne::default(),
    };
    for (name, &field) in &other.pipeline.intrinsics {
        if let Some(&there) = one.pipeline.intrinsics.get(name) {
            pairs.fields.pair(there, field);
        }
    }
    let mut open = vec![(one_parser.start, other_parser.start)];
    while let Some((a, b)) = open.pop() {
        checkpoint();
        match pairs.states.known(a, b) {
            Some(true) => continue,
            Some(false) => return Err("their states"),
            None => pairs.states.pair(a, b),
        };
        let (a, b) = (&one_parser.states[a], &other_parser.states[b]);
        pairs.labels = OneToOne::default();
        pairs.body(&a.body, &b.body)?;
        pairs.transition(&a.transition, &b.transition, &mut open)?;
    }
    Ok(Known {
        only: None,
        fields: pairs.fields.there,
        headers: pairs.headers.there,
    })
}

/// A one-to-one correspondence between ids of two programs.
struct OneToOne<I> {
    /// From the other program's ids.
    there: HashMap<I, I>,
    back: HashMap<I, I>,
}

impl<I> Default for OneToOne<I> {
    fn default() -> Self {
        OneToOne {
            there: HashMap::new(),
            back: HashMap::new(),
        }
    }
}

impl<I: Id + std::hash::Hash> OneToOne<I> {
    /// Returns true if the two are known to correspond, false if they are known not to.
    fn known(&self, one: I, other: I) -> Option<bool> {
        match (self.there.get(&other), self.back.get(&one)) {
            (None, None) => None,
            (there, back) => Some(there == Some(&one) && back == Some(&other)),
        }
    }

    fn pair(&mut self, one: I, other: I) {
        self.there.insert(other, one);
        self.back.insert(one, other);
    }

    /// Lets two ids correspond, unless something else is known.
    fn same(&mut self, one: I, other: I) -> bool {
        self.known(one, other).unwrap_or_else(|| {
            self.pair(one, other);
            true
        })
    }
}

fn must(holds: bool, differs: Difference) -> Same {
    match holds {
        true => Ok(()),
        false => Err(differs),
    }
}

struct Pairs<'p> {
    one: &'p Program,
    other: &'p Program,
    fields: OneToOne<FieldId>,
    headers: OneToOne<HeaderId>,
    states: OneToOne<StateId>,
    labels: OneToOne<LabelId>,
}

impl Pairs<'_> {
    fn transition(
        &mut self,
        a: &Transition,
        b: &Transition,
        open: &mut Vec<(StateId, StateId)>,
    ) -> Same {
        match (a, b) {
            (Transition::Direct(a), Transition::Direct(b)) => self.target(*a, *b, open),
            (
                Transition::Select { keys: a, cases },
                Transition::Select {
                    keys: b,
                    cases: other,
                },
            ) => {
                must(a.len() == b.len(), "what they select by")?;
                must(cases.len() == other.len(), "the cases of a select")?;
                a.iter().zip(b).try_for_each(|(a, b)| self.expr(a, b))?;
                cases.iter().zip(other).try_for_each(|(a, b)| {
                    self.keyset(&a.keyset, &b.keyset)?;
                    self.target(a.target, b.target, open)
                })
            }
            _ => Err("their states"),
        }
    }

    fn target(&mut self, a: Target, b: Target, open: &mut Vec<(StateId, StateId)>) -> Same {
        if let (Target::State(a), Target::State(b)) = (a, b) {
            open.push((a, b));
            return Ok(());
        }
        must(a == b, "where a state leads")
    }

    fn keyset(&mut self, a: &Keyset, b: &Keyset) -> Same {
        checkpoint();
        let (Keyset::Sets(a), Keyset::Sets(b)) = (a, b) else {
            return Err("their value sets, which are each one's own");
        };
        must(a.len() == b.len(), "the cases of a select")?;
        a.iter().zip(b).try_for_each(|(a, b)| match (a, b) {
            (KeySet::Any, KeySet::Any) => Ok(()),
            (KeySet::Value(a), KeySet::Value(b)) => self.expr(a, b),
            (KeySet::Mask(a, c), KeySet::Mask(b, d))
            | (KeySet::Range(a, c), KeySet::Range(b, d)) => {
                self.expr(a, b)?;
                self.expr(c, d)
            }
            (KeySet::ValueSet(_), _) | (_, KeySet::ValueSet(_)) => {
                Err("their value sets, which are each one's own")
            }
            _ => Err("the cases of a select"),
        })
    }

    fn body(&mut self, a: &[Stmt], b: &[Stmt]) -> Same {
        must(a.len() == b.len(), "what a state does")?;
        let mut pairs = a.iter().zip(b);
        pairs.try_for_each(|(a, b)| self.stmt(&a.kind, &b.kind))
    }

    fn stmt(&mut self, a: &StmtKind, b: &StmtKind) -> Same {
        checkpoint();
        match (a, b) {
            (StmtKind::Extract(a, c), StmtKind::Extract(b, d)) => {
                must(a.dims.is_empty() && b.dims.is_empty(), "elements of stacks")?;
                self.header(a.base, b.base)?;
                match (c, d) {
                    (None, None) => Ok(()),
                    (Some(c), Some(d)) => self.expr(c, d),
                    _ => Err("the length of a header"),
                }
            }
            (StmtKind::Assign(a, c), StmtKind::Assign(b, d)) => {
                self.place(a, b)?;
                self.expr(c, d)
            }
            (StmtKind::AssignSlice(a, c, e, g), StmtKind::AssignSlice(b, d, f, h)) => {
                must((c, e) == (d, f), "what a state does")?;
                self.place(a, b)?;
                self.expr(g, h)
            }
            (StmtKind::ClearVarbit(a), StmtKind::ClearVarbit(b))
            | (StmtKind::PacketLength(a), StmtKind::PacketLength(b)) => self.place(a, b),
            (StmtKind::AssignVarbit(a, c), StmtKind::AssignVarbit(b, d)) => {
                self.place(a, b)?;
                self.place(c, d)
            }
            (StmtKind::If(a, c, e), StmtKind::If(b, d, f)) => {
                self.expr(a, b)?;
                self.body(c, d)?;
                self.body(e, f)
            }
            (StmtKind::Block(a, c), StmtKind::Block(b, d))
            | (StmtKind::Loop(a, c), StmtKind::Loop(b, d)) => {
                must(self.labels.same(*a, *b), "what a state does")?;
                self.body(c, d)
            }
            (StmtKind::Leave(a), StmtKind::Leave(b))
            | (StmtKind::Continue(a), StmtKind::Continue(b)) => {
                must(self.labels.same(*a, *b), "what a state does")
            }
            (StmtKind::Verify(a, c), StmtKind::Verify(b, d)) => {
                self.expr(a, b)?;
                self.expr(c, d)
            }
            (StmtKind::Fail(a), StmtKind::Fail(b)) => self.error(u64::from(*a), u64::from(*b)),
            _ => Err("what a state does"),
        }
    }

    /// Compares headers by layout.
    fn header(&mut self, a: HeaderId, b: HeaderId) -> Same {
        let types = |program: &Program, header| -> Vec<ScalarTy> {
            fields_of(program, header)
                .map(|field| program.fields[field].ty)
                .collect()
        };
        must(
            types(self.one, a) == types(self.other, b),
            "the layout of a header",
        )?;
        must(self.headers.same(a, b), "their headers")?;
        let (one, other) = (self.one, self.other);
        let mut fields = fields_of(one, a).zip(fields_of(other, b));
        must(fields.all(|(a, b)| self.fields.same(a, b)), "their headers")
    }

    fn place(&mut self, a: &Place, b: &Place) -> Same {
        must(a.dims.is_empty() && b.dims.is_empty(), "elements of arrays")?;
        let (ty, other) = (self.one.fields[a.base].ty, self.other.fields[b.base].ty);
        must(ty == other, "the types of their fields")?;
        must(self.fields.same(a.base, b.base), "the fields that they use")
    }

    fn expr(&mut self, a: &Expr, b: &Expr) -> Same {
        checkpoint();
        match (a, b) {
            (Expr::Const(ScalarTy::Error, a), Expr::Const(ScalarTy::Error, b)) => {
                self.error(a.to_u64().unwrap_or(0), b.to_u64().unwrap_or(0))
            }
            (Expr::Const(..), Expr::Const(..)) => must(a == b, "the numbers that they compare"),
            (Expr::Read(a), Expr::Read(b)) | (Expr::VarbitLen(a), Expr::VarbitLen(b)) => {
                self.place(a, b)
            }
            (Expr::VarbitEq(a, c), Expr::VarbitEq(b, d)) => {
                self.place(a, b)?;
                self.place(c, d)
            }
            (Expr::Unary(op, a), Expr::Unary(other, b)) if op == other => self.expr(a, b),
            (Expr::Slice(a, c, e), Expr::Slice(b, d, f)) if (c, e) == (d, f) => self.expr(a, b),
            (Expr::Cast(ty, a), Expr::Cast(other, b)) if ty == other => self.expr(a, b),
            (Expr::Binary(op, a, c), Expr::Binary(other, b, d)) if op == other => {
                self.expr(a, b)?;
                self.expr(c, d)
            }
            (Expr::Concat(a, c), Expr::Concat(b, d)) => {
                self.expr(a, b)?;
                self.expr(c, d)
            }
            (Expr::Ternary(a, c, e), Expr::Ternary(b, d, f)) => {
                self.expr(a, b)?;
                self.expr(c, d)?;
                self.expr(e, f)
            }
            _ => Err("what they compute"),
        }
    }

    /// Compares error codes by name.
    fn error(&self, a: u64, b: u64) -> Same {
        let name = |program: &Program, code: u64| program.errors.get(code as usize).cloned();
        must(
            name(self.one, a) == name(self.other, b),
            "the errors that they tell",
        )
    }
}
