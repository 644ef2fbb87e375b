//! Lowers a condition of a policy to an expression over the chain's fields.

use bits::Value;
use ir::{BinOp, Expr, FieldId, HeaderId, Program, ScalarTy};

use support::work::checkpoint;

use super::error::{ComposeError, ComposeProblem};
use super::policy::{Comparison, Condition, Number, Operand, Position};
use crate::fold;
use crate::link::{Places, STANDARD_METADATA};

/// Names that a condition can use: standard metadata, and the fields of the previous step if all
/// packets come from one step.
pub(super) struct Scope<'a> {
    pub(super) chain: &'a Program,
    pub(super) before: Option<(&'a Program, &'a Places)>,
}

type Lowered<T> = Result<T, ComposeError>;

impl Scope<'_> {
    pub(super) fn condition(&self, condition: &Condition) -> Lowered<Expr> {
        let several = |all: &[Condition]| -> Lowered<Vec<Expr>> {
            all.iter().map(|one| self.condition(one)).collect()
        };
        checkpoint();
        match condition {
            Condition::Any(all) => Ok(fold::any(several(all)?)),
            Condition::All(all) => Ok(fold::all(several(all)?)),
            Condition::Not(inner) => Ok(fold::not(self.condition(inner)?)),
            Condition::Holds(operand) => self.typed(operand, ScalarTy::Bool),
            Condition::Compare(left, comparison, right) => self.compare(left, *comparison, right),
        }
    }

    fn compare(&self, left: &Operand, comparison: Comparison, right: &Operand) -> Lowered<Expr> {
        let ty = match (self.ty(left)?, self.ty(right)?) {
            (Some(ty), _) | (None, Some(ty)) => ty,
            (None, None) => {
                return Err(ComposeError::at(
                    position(left),
                    ComposeProblem::ComparesNumbers,
                ));
            }
        };
        let op = match comparison {
            Comparison::Equal => BinOp::Eq,
            Comparison::NotEqual => BinOp::Ne,
            Comparison::Less => BinOp::Lt,
            Comparison::LessOrEqual => BinOp::Le,
            Comparison::Greater => BinOp::Gt,
            Comparison::GreaterOrEqual => BinOp::Ge,
        };
        let (left, right) = (self.typed(left, ty)?, self.typed(right, ty)?);
        Ok(Expr::Binary(op, Box::new(left), Box::new(right)))
    }

    /// Returns the type of an operand. A number has none: it takes the type of the other side.
    fn ty(&self, operand: &Operand) -> Lowered<Option<ScalarTy>> {
        Ok(match operand {
            Operand::Number(_) => None,
            Operand::IsValid { .. } => Some(ScalarTy::Bool),
            Operand::And(left, right) => self.ty(left)?.or(self.ty(right)?),
            Operand::Field {
                bits: Some((high, low)),
                ..
            } => Some(ScalarTy::Bit(high - low + 1)),
            Operand::Field { name, at, .. } => Some(self.chain.fields[self.field(name, *at)?].ty),
        })
    }

    fn typed(&self, operand: &Operand, expected: ScalarTy) -> Lowered<Expr> {
        // The operands of `&` are checked one by one.
        if !matches!(operand, Operand::And(..))
            && let Some(found) = self.ty(operand)?
            && found != expected
        {
            let problem = ComposeProblem::ConditionType { found, expected };
            return Err(ComposeError::at(position(operand), problem));
        }
        match operand {
            Operand::Number(number) => constant(number, expected),
            Operand::Field { name, bits, at } => self.read(name, *bits, *at),
            Operand::IsValid { header, at } => {
                let header = self.header(header, *at)?;
                Ok(Expr::Read(self.chain.headers[header].valid.into()))
            }
            Operand::And(left, right) => {
                let (left, right) = (self.typed(left, expected)?, self.typed(right, expected)?);
                Ok(Expr::Binary(BinOp::And, Box::new(left), Box::new(right)))
            }
        }
    }

    /// Reads a field. A field of an invalid header reads as zero.
    fn read(&self, name: &str, bits: Option<(u32, u32)>, at: Position) -> Lowered<Expr> {
        let field = self.field(name, at)?;
        let ty = self.chain.fields[field].ty;
        let value = match bits {
            None => Expr::Read(field.into()),
            Some((high, low)) if high < ty.width() && matches!(ty, ScalarTy::Bit(_)) => {
                Expr::Slice(Box::new(Expr::Read(field.into())), high, low)
            }
            Some((high, low)) => {
                let name = name.to_owned();
                let problem = ComposeProblem::NoSuchBits {
                    name,
                    ty,
                    high,
                    low,
                };
                return Err(ComposeError::at(at, problem));
            }
        };
        let ty = bits.map_or(ty, |(high, low)| ScalarTy::Bit(high - low + 1));
        let Some(valid) = self.validity(field) else {
            return Ok(value);
        };
        let zero = Expr::Const(ty, Value::zero(ty.width()));
        let valid = Expr::Read(valid.into());
        Ok(Expr::Ternary(valid.into(), value.into(), zero.into()))
    }

    /// Returns the validity field of the header that contains a field.
    fn validity(&self, field: FieldId) -> Option<FieldId> {
        let mut headers = self.chain.headers.values();
        let header = headers.find(|header| {
            checkpoint();
            let fields = self.chain.header_types[header.ty].fields.len() as u32;
            (header.valid.get() + 1..=header.valid.get() + fields).contains(&field.get())
        });
        header.map(|header| header.valid)
    }

    fn field(&self, name: &str, at: Position) -> Lowered<FieldId> {
        let standard = self.chain.pipeline.intrinsics.iter();
        let standard = standard.map(|(name, field)| (name.as_str(), *field));
        let standard = standard.filter(|(name, _)| name.starts_with(STANDARD_METADATA));
        let own = self.before.into_iter().flat_map(|(program, places)| {
            let fields = program.fields.iter();
            fields.map(|(id, field)| (field.name.as_str(), places.fields[id]))
        });
        let all: Vec<_> = standard
            .chain(own)
            .filter(|(name, _)| {
                checkpoint();
                !name.contains('$')
            })
            .collect();
        let field = self.find("field", name, at, &all)?;
        match self.chain.fields[field].ty {
            ScalarTy::Bit(_) | ScalarTy::Int(_) | ScalarTy::Bool => Ok(field),
            ty => {
                let name = name.to_owned();
                Err(ComposeError::at(
                    at,
                    ComposeProblem::NotComparable { name, ty },
                ))
            }
        }
    }

    fn header(&self, name: &str, at: Position) -> Lowered<HeaderId> {
        let own = self.before.into_iter().flat_map(|(program, places)| {
            let headers = program.headers.iter();
            headers.map(|(id, header)| (header.name.as_str(), places.headers[id]))
        });
        self.find("header", name, at, &own.collect::<Vec<_>>())
    }

    /// Finds the item with this name, or the only one with a name that ends in it.
    fn find<I: Copy + PartialEq>(
        &self,
        what: &'static str,
        wanted: &str,
        at: Position,
        all: &[(&str, I)],
    ) -> Lowered<I> {
        if let Some((_, id)) = all.iter().find(|(name, _)| *name == wanted) {
            return Ok(*id);
        }
        let suffix = format!(".{wanted}");
        let mut found: Vec<I> = Vec::new();
        for (name, id) in all {
            checkpoint();
            if name.ends_with(&suffix) && !found.contains(id) {
                found.push(*id);
            }
        }
        match found[..] {
            [id] => Ok(id),
            _ => Err(ComposeError::at(
                at,
                ComposeProblem::UnknownName {
                    what,
                    name: wanted.to_owned(),
                    is_ambiguous: !found.is_empty(),
                    step: self.before.map(|(program, _)| program.name.clone()),
                },
            )),
        }
    }
}

fn constant(number: &Number, ty: ScalarTy) -> Lowered<Expr> {
    let value = match ty {
        ScalarTy::Bit(_) | ScalarTy::Int(_) => Value::parse(&number.text, ty.width()).ok(),
        _ => None,
    };
    match value {
        Some(value) => Ok(Expr::Const(ty, value)),
        None => {
            let text = number.text.clone();
            Err(ComposeError::at(
                number.at,
                ComposeProblem::BadNumber { text, ty },
            ))
        }
    }
}

fn position(operand: &Operand) -> Position {
    match operand {
        Operand::Number(number) => number.at,
        Operand::Field { at, .. } | Operand::IsValid { at, .. } => *at,
        Operand::And(left, _) => position(left),
    }
}
