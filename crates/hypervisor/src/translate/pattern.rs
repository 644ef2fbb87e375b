//! Expressions as bit patterns, which ternary tables can match without computation.

use std::collections::BTreeMap;

use bits::Value;
use ir::{Action, BinOp, Expr, FieldId, Place, Program, ScalarTy, UnOp};

use super::words;

/// Bits of a value, the most significant first.
pub(super) type Bits = Vec<Bit>;

/// One bit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Bit {
    /// A constant.
    Is(bool),
    /// The bit at this position of the register file. Positions from [`PORT`] are bits of the
    /// ingress port.
    At(u32),
}

/// Position of the last bit of the ingress port, after the register file.
pub(super) const PORT: u32 = crate::FILE_BITS;

/// Position of the bit that is set if the egress port is the ingress port. It is after the bits of
/// the port.
pub(super) const RETURNS: u32 = PORT + 9;

/// Maximum number of patterns of a condition. Beyond it the condition is computed.
const MAX_CUBES: usize = 24;

/// A conjunction (cube): required values of some bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Cube(pub(super) BTreeMap<u32, bool>);

impl Cube {
    /// Returns the conjunction of both; `None` if it is unsatisfiable.
    pub(super) fn and(&self, other: &Cube) -> Option<Cube> {
        let mut all = self.clone();
        for (&at, &is) in &other.0 {
            if *all.0.entry(at).or_insert(is) != is {
                return None;
            }
        }
        Some(all)
    }

    /// Returns true if `other` implies this cube.
    pub(super) fn is_within(&self, other: &Cube) -> bool {
        self.0.iter().all(|(at, is)| other.0.get(at) == Some(is))
    }

    /// Adds a bit; `None` if the result is unsatisfiable.
    fn with(mut self, bit: Bit, wanted: bool) -> Option<Cube> {
        match bit {
            Bit::Is(is) => (is == wanted).then_some(self),
            Bit::At(at) => (*self.0.entry(at).or_insert(wanted) == wanted).then_some(self),
        }
    }

    /// Replaces the bits that are known in this cube.
    pub(super) fn known(&self, bits: &[Bit]) -> Bits {
        let known = |bit: &Bit| match bit {
            Bit::At(at) => self.0.get(at).map_or(*bit, |is| Bit::Is(*is)),
            Bit::Is(_) => *bit,
        };
        bits.iter().map(known).collect()
    }

    /// Returns the cube under which the bits equal `value` where `mask` is set; `None` if it is
    /// unsatisfiable.
    pub(super) fn masked(bits: &[Bit], value: &Value, mask: &Value) -> Option<Cube> {
        let mut cube = Cube::default();
        for (at, bit) in bits.iter().rev().enumerate() {
            if words::bit(mask, at as u32) {
                cube = cube.with(*bit, words::bit(value, at as u32))?;
            }
        }
        Some(cube)
    }

    /// Returns the cube under which the bits equal this value.
    pub(super) fn equal(bits: &[Bit], value: &Value) -> Option<Cube> {
        Cube::masked(bits, value, &Value::all_ones(bits.len() as u32))
    }
}

/// Returns cubes for `bits <= value` or `bits >= value`: one for each bit at which they may differ,
/// and one for equality.
fn bounded(bits: &[Bit], value: &Value, is_upper: bool) -> Vec<Cube> {
    let width = bits.len() as u32;
    let mut cubes = Vec::new();
    let mut prefix = Some(Cube::default());
    for (number, bit) in bits.iter().enumerate() {
        let Some(own) = prefix else {
            return cubes;
        };
        let is = words::bit(value, width - 1 - number as u32);
        if is == is_upper {
            cubes.extend(own.clone().with(*bit, !is));
        }
        prefix = own.with(*bit, is);
    }
    cubes.extend(prefix);
    cubes
}

/// Returns cubes for `low <= bits <= high`.
pub(super) fn within(bits: &[Bit], low: &Value, high: &Value) -> Vec<Cube> {
    let (above, below) = (bounded(bits, low, false), bounded(bits, high, true));
    let pairs = above.iter().flat_map(|a| below.iter().map(move |b| (a, b)));
    pairs.filter_map(|(a, b)| a.and(b)).collect()
}

/// Returns the value of bits that are all constant.
pub(super) fn constant(bits: &[Bit]) -> Option<Value> {
    let known = bits.iter().map(|bit| match bit {
        Bit::Is(is) => Some(*is),
        Bit::At(_) => None,
    });
    known
        .collect::<Option<Vec<bool>>>()
        .map(|bits| words::from_bits(&bits))
}

/// Returns the bits of a constant.
pub(super) fn of_value(value: &Value) -> Bits {
    (0..value.width())
        .rev()
        .map(|at| Bit::Is(words::bit(value, at)))
        .collect()
}

/// Locations of fields and parameters.
pub(super) trait Places {
    /// The program.
    fn program(&self) -> &Program;
    /// Returns the bits of a field, if it is in the register file.
    fn field(&self, field: FieldId) -> Option<Bits>;
    /// Returns the name of a standard metadata field that is not in the register file.
    fn standard(&self, field: FieldId) -> Option<&'static str>;
    /// Returns the bits of a parameter of the action that is being translated.
    fn param(&self, index: u32) -> Option<Bits>;
    /// Returns that action.
    fn action(&self) -> Option<&Action>;
}

/// Returns the type of an expression.
pub(super) fn ty(places: &dyn Places, expr: &Expr) -> Option<ScalarTy> {
    expr.ty(places.program(), places.action())
}

/// Returns an expression as bits, if it only rearranges bits.
pub(super) fn bits(places: &dyn Places, expr: &Expr) -> Option<Bits> {
    let inner = |expr: &Expr| bits(places, expr);
    Some(match expr {
        Expr::Const(_, value) => of_value(value),
        Expr::Read(Place { base, dims }) if dims.is_empty() => places.field(*base)?,
        Expr::Param(index) => places.param(*index)?,
        Expr::Slice(of, hi, lo) => {
            let of = inner(of)?;
            let end = of.len() - *lo as usize;
            of[of.len() - 1 - *hi as usize..end].to_vec()
        }
        Expr::Concat(high, low) => [inner(high)?, inner(low)?].concat(),
        Expr::Cast(ty, of) => resized(inner(of)?, ty.width(), is_signed(places, of))?,
        Expr::Unary(UnOp::Not | UnOp::Complement, of) => {
            let flip = |bit: Bit| match bit {
                Bit::Is(is) => Some(Bit::Is(!is)),
                Bit::At(_) => None,
            };
            inner(of)?.into_iter().map(flip).collect::<Option<Bits>>()?
        }
        Expr::Unary(UnOp::Neg, of) => of_value(&constant(&inner(of)?)?.neg()),
        Expr::Ternary(cond, then, otherwise) => match constant(&inner(cond)?)?.is_zero() {
            false => inner(then)?,
            true => inner(otherwise)?,
        },
        Expr::Binary(op, left, right) => binary(places, *op, left, right)?,
        _ => return None,
    })
}

/// Returns true if the expression is the ingress port.
pub(super) fn is_ingress_port(places: &dyn Places, expr: &Expr) -> bool {
    let whole = (0..9).rev().map(|bit| Bit::At(PORT + bit));
    bits(places, expr).is_some_and(|bits| bits.into_iter().eq(whole))
}

/// Returns true if the expression is the egress port.
fn is_egress_port(places: &dyn Places, expr: &Expr) -> bool {
    matches!(expr, Expr::Read(place) if places.standard(place.base) == Some("egress_port"))
}

/// Returns true for `egress_port == ingress_port`, which condition tables can match.
fn returns(places: &dyn Places, left: &Expr, right: &Expr) -> bool {
    (is_egress_port(places, left) && is_ingress_port(places, right))
        || (is_ingress_port(places, left) && is_egress_port(places, right))
}

fn is_signed(places: &dyn Places, expr: &Expr) -> bool {
    ty(places, expr).is_some_and(ScalarTy::is_signed)
}

fn resized(mut bits: Bits, width: u32, is_signed: bool) -> Option<Bits> {
    let (have, want) = (bits.len(), width as usize);
    if want <= have {
        return Some(bits.split_off(have - want));
    }
    let sign = match (is_signed, bits.first()) {
        (true, Some(Bit::At(_))) => return None,
        (true, Some(sign)) => *sign,
        _ => Bit::Is(false),
    };
    let mut all = vec![sign; want - have];
    all.append(&mut bits);
    Some(all)
}

fn binary(places: &dyn Places, op: BinOp, left: &Expr, right: &Expr) -> Option<Bits> {
    if op.is_predicate() {
        let expr = Expr::Binary(op, Box::new(left.clone()), Box::new(right.clone()));
        return [(true, false), (false, true)]
            .into_iter()
            .find_map(|(wanted, other)| {
                let never = dnf(places, &expr, wanted)?.is_empty();
                never.then(|| vec![Bit::Is(other)])
            });
    }
    let (a, b) = (bits(places, left)?, bits(places, right)?);
    let bitwise = |rule: fn(Bit, Bit) -> Option<Bit>| {
        a.iter()
            .zip(&b)
            .map(|(a, b)| rule(*a, *b))
            .collect::<Option<Bits>>()
    };
    match op {
        BinOp::And => bitwise(|a, b| match (a, b) {
            (Bit::Is(false), _) | (_, Bit::Is(false)) => Some(Bit::Is(false)),
            (Bit::Is(true), other) | (other, Bit::Is(true)) => Some(other),
            _ => None,
        }),
        BinOp::Or => bitwise(|a, b| match (a, b) {
            (Bit::Is(true), _) | (_, Bit::Is(true)) => Some(Bit::Is(true)),
            (Bit::Is(false), other) | (other, Bit::Is(false)) => Some(other),
            _ => None,
        }),
        BinOp::Xor => bitwise(|a, b| match (a, b) {
            (Bit::Is(a), Bit::Is(b)) => Some(Bit::Is(a != b)),
            (Bit::Is(false), other) | (other, Bit::Is(false)) => Some(other),
            _ => None,
        }),
        BinOp::Shl | BinOp::Shr => {
            if op == BinOp::Shr && is_signed(places, left) {
                return None;
            }
            let by = constant(&b)?
                .to_u64()
                .map_or(a.len(), |by| a.len().min(by as usize));
            let zeros = vec![Bit::Is(false); by];
            Some(match op {
                BinOp::Shl => [a[by..].to_vec(), zeros].concat(),
                _ => [zeros, a[..a.len() - by].to_vec()].concat(),
            })
        }
        BinOp::Add | BinOp::Sub | BinOp::Mul => {
            let (a, b) = (constant(&a)?, constant(&b)?);
            Some(of_value(&words::arithmetic(op, &a, &b)?))
        }
        _ => None,
    }
}

/// Returns the patterns (disjunctive normal form) under which a condition is `wanted`; `None` if it
/// must be computed.
pub(super) fn dnf(places: &dyn Places, cond: &Expr, wanted: bool) -> Option<Vec<Cube>> {
    let cubes = match cond {
        Expr::Unary(UnOp::Not, of) => dnf(places, of, !wanted)?,
        Expr::Binary(BinOp::LogicalAnd, left, right) => {
            both_or_either(places, left, right, wanted, wanted)?
        }
        Expr::Binary(BinOp::LogicalOr, left, right) => {
            both_or_either(places, left, right, wanted, !wanted)?
        }
        Expr::Binary(op @ (BinOp::Eq | BinOp::Ne), left, right) if returns(places, left, right) => {
            let is = (*op == BinOp::Eq) == wanted;
            vec![Cube([(RETURNS, is)].into_iter().collect())]
        }
        Expr::Binary(op, left, right) if op.is_predicate() => {
            comparison(places, *op, left, right, wanted)?
        }
        other => {
            let bits = bits(places, other)?;
            Cube::default()
                .with(*bits.first()?, wanted)
                .into_iter()
                .collect()
        }
    };
    (cubes.len() <= MAX_CUBES).then_some(cubes)
}

fn both_or_either(
    places: &dyn Places,
    left: &Expr,
    right: &Expr,
    wanted: bool,
    is_both: bool,
) -> Option<Vec<Cube>> {
    let left = dnf(places, left, wanted);
    // One side may decide the result, even if the other one must be computed.
    if left.as_ref().is_some_and(|left| left.is_empty()) && is_both {
        return Some(Vec::new());
    }
    let (left, right) = (left?, dnf(places, right, wanted)?);
    if is_both {
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        return Some(pairs.filter_map(|(a, b)| a.and(b)).collect());
    }
    if left.iter().chain(&right).any(|cube| cube.0.is_empty()) {
        return Some(vec![Cube::default()]);
    }
    Some([left, right].concat())
}

fn comparison(
    places: &dyn Places,
    op: BinOp,
    left: &Expr,
    right: &Expr,
    wanted: bool,
) -> Option<Vec<Cube>> {
    let (mut a, mut b) = (bits(places, left)?, bits(places, right)?);
    if is_signed(places, left) && !matches!(op, BinOp::Eq | BinOp::Ne) {
        return None;
    }
    let mut op = if wanted { op } else { negated(op)? };
    if constant(&b).is_none() {
        std::mem::swap(&mut a, &mut b);
        op = swapped(op);
    }
    let value = constant(&b)?;
    let (one, most) = (
        Value::truncated(1, value.width()),
        Value::all_ones(value.width()),
    );
    Some(match op {
        BinOp::Eq => Cube::equal(&a, &value).into_iter().collect(),
        BinOp::Ne => {
            let differs = |(at, bit): (usize, &Bit)| {
                Cube::default().with(*bit, !words::bit(&value, at as u32))
            };
            a.iter().rev().enumerate().filter_map(differs).collect()
        }
        BinOp::Le => bounded(&a, &value, true),
        BinOp::Ge => bounded(&a, &value, false),
        BinOp::Lt if value.is_zero() => Vec::new(),
        BinOp::Lt => bounded(&a, &words::arithmetic(BinOp::Sub, &value, &one)?, true),
        BinOp::Gt if value == most => Vec::new(),
        BinOp::Gt => bounded(&a, &words::arithmetic(BinOp::Add, &value, &one)?, false),
        _ => return None,
    })
}

fn negated(op: BinOp) -> Option<BinOp> {
    Some(match op {
        BinOp::Eq => BinOp::Ne,
        BinOp::Ne => BinOp::Eq,
        BinOp::Lt => BinOp::Ge,
        BinOp::Ge => BinOp::Lt,
        BinOp::Gt => BinOp::Le,
        BinOp::Le => BinOp::Gt,
        _ => return None,
    })
}

fn swapped(op: BinOp) -> BinOp {
    match op {
        BinOp::Lt => BinOp::Gt,
        BinOp::Gt => BinOp::Lt,
        BinOp::Le => BinOp::Ge,
        BinOp::Ge => BinOp::Le,
        other => other,
    }
}
