//! Translation of expressions and assignments to primitives.

use bits::{Id, Value};
use ir::{BinOp, Dim, Expr, FieldId, Place, ScalarTy, UnOp};

use super::error::{TranslateError, refuse};
use super::frame::Frame;
use super::node::Primitive;
use super::pattern::{self, Bit, Bits, Places};
use super::words::{self, number, ones, placed};
use crate::{FILE_BITS, WORD_BITS};

/// Width of a position in the register file, in bits.
pub(super) const AT: u32 = 11;

/// Operand of a primitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A range of the register file: position and width. It is zero-extended.
    At(u32, u32),
    /// A constant.
    Is(Value),
}

impl Operand {
    fn args(&self) -> Vec<Value> {
        match self {
            Operand::At(at, width) => {
                vec![
                    number(*at, AT),
                    ones(0, *width, WORD_BITS),
                    Value::zero(WORD_BITS),
                ]
            }
            Operand::Is(value) => {
                vec![
                    Value::zero(AT),
                    Value::zero(WORD_BITS),
                    value.resized(WORD_BITS),
                ]
            }
        }
    }
}

/// Code generator of one path.
pub(super) struct Code<'a> {
    pub(super) frame: &'a Frame<'a>,
    pub(super) made: Vec<Primitive>,
}

type Made<T> = Result<T, TranslateError>;

impl Code<'_> {
    pub(super) fn new<'a>(frame: &'a Frame<'a>) -> Code<'a> {
        Code {
            frame,
            made: Vec::new(),
        }
    }

    pub(super) fn emit(&mut self, action: &'static str, args: Vec<Value>) {
        self.made.push(Primitive { action, args });
    }

    /// Emits a primitive with operands, followed by more arguments.
    pub(super) fn with(&mut self, action: &'static str, operands: &[&Operand], more: Vec<Value>) {
        let args = operands
            .iter()
            .flat_map(|operand| operand.args())
            .chain(more);
        let args = args.collect();
        self.emit(action, args);
    }

    /// Returns the arguments for a destination.
    pub(super) fn to(at: u32, width: u32) -> Vec<Value> {
        vec![number(at, AT), ones(0, width, WORD_BITS)]
    }

    pub(super) fn set(&mut self, at: u32, value: &Value) {
        let width = value.width();
        self.emit(
            "set",
            vec![placed(value, at, FILE_BITS), ones(at, width, FILE_BITS)],
        );
    }

    /// Copies a range.
    pub(super) fn copy(&mut self, from: u32, to: u32, width: u32) {
        if from != to && width > 0 {
            let args = vec![number(from, AT), number(to, AT), ones(0, width, FILE_BITS)];
            self.emit("move", args);
        }
    }

    fn binary(&mut self, action: &'static str, a: &Operand, b: &Operand, to: u32, width: u32) {
        self.with(action, &[a, b], Self::to(to, width));
    }

    fn choose(&mut self, bit: &Operand, a: &Operand, b: &Operand, to: u32, width: u32) {
        match bit {
            Operand::Is(is) => self.write(to, width, if is.is_zero() { b } else { a }),
            Operand::At(at, _) => {
                let operands = [a, b].into_iter().flat_map(Operand::args);
                let args = [number(*at, AT)]
                    .into_iter()
                    .chain(operands)
                    .chain(Self::to(to, width));
                let args = args.collect();
                self.emit("choose", args);
            }
        }
    }

    /// Writes an operand.
    pub(super) fn write(&mut self, to: u32, width: u32, operand: &Operand) {
        match operand {
            Operand::Is(value) => self.set(to, &value.resized(width)),
            Operand::At(from, have) if *have >= width => self.copy(*from, to, width),
            Operand::At(..) => {
                let zero = Operand::Is(Value::zero(1));
                self.binary("bit_or", operand, &zero, to, width);
            }
        }
    }

    pub(super) fn temporary(&self, width: u32) -> Made<u32> {
        self.frame.layout.temporary(width)
    }

    fn width(&self, expr: &Expr) -> Made<u32> {
        Ok(self.ty(expr)?.width())
    }

    fn ty(&self, expr: &Expr) -> Made<ScalarTy> {
        let ty = pattern::ty(self.frame, expr);
        ty.map_or_else(|| refuse("an expression of this kind", None), Ok)
    }

    /// Returns bits as an operand. They are gathered unless they are adjacent already.
    pub(super) fn of_bits(&mut self, bits: &[Bit], to: Option<u32>) -> Made<Operand> {
        let width = bits.len() as u32;
        let found = match pattern::constant(bits) {
            Some(value) => Some(Operand::Is(value)),
            None => range(bits),
        };
        match (found, to) {
            (Some(found), None) => Ok(found),
            (Some(found), Some(to)) => {
                self.write(to, width, &found);
                Ok(Operand::At(to, width))
            }
            (None, to) => {
                let own = self.temporary(width)?;
                self.gather(bits, own)?;
                match to {
                    Some(to) => {
                        self.copy(own, to, width);
                        Ok(Operand::At(to, width))
                    }
                    None => Ok(Operand::At(own, width)),
                }
            }
        }
    }

    /// Gathers bits at a position that does not contain any of them.
    pub(super) fn gather(&mut self, bits: &[Bit], to: u32) -> Made<()> {
        let width = bits.len() as u32;
        let known = |bit: &Bit| matches!(bit, Bit::Is(true));
        let constant: Vec<bool> = bits.iter().map(known).collect();
        self.set(to, &words::from_bits(&constant));
        let mut end = bits.len();
        while end > 0 {
            let start = (0..end)
                .rev()
                .take_while(|at| follows(bits, *at, end))
                .last();
            let start = start.unwrap_or(end - 1);
            if let Bit::At(from) = bits[end - 1] {
                let own = self.standing(&bits[start..end], from)?;
                self.copy(own, to + width - end as u32, (end - start) as u32);
            }
            end = start;
        }
        Ok(())
    }

    /// Returns the position of adjacent bits in the register file. Bits of the ingress port are
    /// first copied there.
    fn standing(&mut self, bits: &[Bit], from: u32) -> Made<u32> {
        if from < pattern::PORT {
            return Ok(from);
        }
        let own = self.temporary(bits.len() as u32)?;
        self.read_standard("ingress_port", from - pattern::PORT, own, bits.len() as u32);
        Ok(own)
    }

    /// Reads standard metadata.
    pub(super) fn read_standard(&mut self, name: &str, from: u32, to: u32, width: u32) {
        let at = super::frame::standard_at(name) + from;
        let args = [
            vec![number(at, 9)],
            vec![ones(0, width, WORD_BITS)],
            vec![number(to, AT)],
        ];
        self.emit("read_standard", args.concat());
    }

    /// Computes an expression, at position `to` if it is given.
    pub(super) fn value(&mut self, expr: &Expr, to: Option<u32>) -> Made<Operand> {
        if let Some(bits) = pattern::bits(self.frame, expr) {
            if to.is_none()
                && bits
                    .iter()
                    .any(|bit| matches!(bit, Bit::At(at) if *at >= pattern::PORT))
            {
                let own = self.temporary(bits.len() as u32)?;
                self.gather(&bits, own)?;
                return Ok(Operand::At(own, bits.len() as u32));
            }
            return self.of_bits(&bits, to);
        }
        match expr {
            Expr::Slice(of, hi, lo) => {
                let of = self.value(of, None)?;
                let part = slice(&of, *hi, *lo);
                self.placed(part, hi - lo + 1, to)
            }
            Expr::Cast(ty, of) => self.cast(*ty, of, to),
            Expr::Read(place) if place.dims.is_empty() => self.read(place.base, to),
            Expr::VarbitLen(place) if place.dims.is_empty() => {
                let bits = self.frame.field(place.base).map(|bits| bits.len() as u32);
                let bits =
                    bits.map_or_else(|| refuse("a varbit field that code sets", None), Ok)?;
                self.placed(Operand::Is(number(bits, 32)), 32, to)
            }
            _ => {
                let width = self.width(expr)?;
                if width > WORD_BITS {
                    return refuse(format!("computation with more than {WORD_BITS} bits"), None);
                }
                let to = match to {
                    Some(to) => to,
                    None => self.temporary(width)?,
                };
                self.compute(expr, to, width)?;
                Ok(Operand::At(to, width))
            }
        }
    }

    fn placed(&mut self, operand: Operand, width: u32, to: Option<u32>) -> Made<Operand> {
        match to {
            Some(to) => {
                self.write(to, width, &operand);
                Ok(Operand::At(to, width))
            }
            None => Ok(operand),
        }
    }

    fn read(&mut self, field: FieldId, to: Option<u32>) -> Made<Operand> {
        let Some(standard) = self.frame.layout.standard(field) else {
            return refuse("a varbit field that code sets", None);
        };
        let to = match to {
            Some(to) => to,
            None => self.temporary(standard.width)?,
        };
        self.read_standard(standard.name, 0, to, standard.width);
        Ok(Operand::At(to, standard.width))
    }

    fn cast(&mut self, ty: ScalarTy, of: &Expr, to: Option<u32>) -> Made<Operand> {
        let (is_signed, have) = (self.ty(of)?.is_signed(), self.width(of)?);
        let operand = self.value(of, None)?;
        let width = ty.width();
        let result = if width <= have {
            slice(&operand, width.max(1) - 1, 0)
        } else if is_signed {
            Operand::At(self.extended(&operand, have, width)?, width)
        } else {
            operand
        };
        self.placed(result, width, to)
    }

    /// Sign-extends a value: `(x ^ sign) - sign`.
    fn extended(&mut self, operand: &Operand, have: u32, width: u32) -> Made<u32> {
        if width > WORD_BITS {
            return refuse(format!("computation with more than {WORD_BITS} bits"), None);
        }
        let own = self.temporary(width)?;
        let sign = Operand::Is(ones(have - 1, 1, WORD_BITS));
        self.binary("bit_xor", operand, &sign, own, width);
        self.binary("subtract", &Operand::At(own, width), &sign, own, width);
        Ok(own)
    }

    /// Emits an operation. Only its last primitive writes to `to`, which may also be an operand.
    fn compute(&mut self, expr: &Expr, to: u32, width: u32) -> Made<()> {
        match expr {
            Expr::Unary(op, of) => {
                let of = self.value(of, None)?;
                match op {
                    UnOp::Neg => {
                        let zero = Operand::Is(Value::zero(WORD_BITS));
                        self.binary("subtract", &zero, &of, to, width);
                    }
                    UnOp::Complement | UnOp::Not => {
                        let ones = Operand::Is(ones(0, width, WORD_BITS));
                        self.binary("bit_xor", &of, &ones, to, width);
                    }
                }
            }
            Expr::Binary(op, left, right) => self.operation(*op, left, right, to, width)?,
            Expr::Concat(left, right) => {
                let low_width = self.width(right)?;
                let (high, low) = (self.value(left, None)?, self.value(right, None)?);
                let own = self.temporary(width)?;
                self.write(own, low_width, &low);
                self.write(own + low_width, width - low_width, &high);
                self.copy(own, to, width);
            }
            Expr::Ternary(cond, then, otherwise) => {
                let cond = self.value(cond, None)?;
                let (then, otherwise) = (self.value(then, None)?, self.value(otherwise, None)?);
                self.choose(&cond, &then, &otherwise, to, width);
            }
            Expr::Read(place) => {
                let own = self.temporary(width)?;
                self.set(own, &Value::zero(width));
                for (bit, element) in self.elements(place)? {
                    let element = self.value(&Expr::Read(Place::from(element)), None)?;
                    self.choose(&bit, &element, &Operand::At(own, width), own, width);
                }
                self.copy(own, to, width);
            }
            _ => return refuse("an expression of this kind (comparing varbits)", None),
        }
        Ok(())
    }

    /// Returns the elements that a place may denote. Each has a bit that is set if it is the one.
    fn elements(&mut self, place: &Place) -> Made<Vec<(Operand, FieldId)>> {
        let always = Operand::Is(Value::all_ones(1));
        let mut all = vec![(always, place.base.get())];
        for Dim { index, len, stride } in &place.dims {
            let index = self.value(index, None)?;
            let mut next = Vec::new();
            for (bit, base) in all {
                for number in 0..*len {
                    let is = self.temporary(1)?;
                    let wanted = Operand::Is(words::number(number, WORD_BITS));
                    self.binary("equal", &index, &wanted, is, 1);
                    if let Operand::At(..) = bit {
                        self.binary("bit_and", &bit, &Operand::At(is, 1), is, 1);
                    }
                    next.push((Operand::At(is, 1), base + number * stride));
                }
            }
            all = next;
        }
        Ok(all
            .into_iter()
            .map(|(bit, field)| (bit, FieldId::from_index(field as usize)))
            .collect())
    }

    fn operation(&mut self, op: BinOp, left: &Expr, right: &Expr, to: u32, width: u32) -> Made<()> {
        let (ty, own) = (self.ty(left)?, self.width(left)?);
        if own > WORD_BITS || self.width(right)? > WORD_BITS {
            return refuse(format!("computation with more than {WORD_BITS} bits"), None);
        }
        let (a, b) = (self.value(left, None)?, self.value(right, None)?);
        let plain = match op {
            BinOp::Add => "add",
            BinOp::Sub => "subtract",
            BinOp::Mul => "multiply",
            BinOp::And | BinOp::LogicalAnd => "bit_and",
            BinOp::Or | BinOp::LogicalOr => "bit_or",
            BinOp::Xor => "bit_xor",
            BinOp::Shl => "shift_left",
            BinOp::Shr if ty.is_signed() => return self.shift_signed(&a, &b, own, to),
            BinOp::Shr => "shift_right",
            BinOp::Div | BinOp::Mod => return self.divide(op, &a, &b, to, width),
            BinOp::AddSaturating | BinOp::SubSaturating => {
                return self.saturate(op, ty, &a, &b, to);
            }
            _ => return self.compare(op, ty, a, b, to),
        };
        self.binary(plain, &a, &b, to, width);
        Ok(())
    }

    fn divide(&mut self, op: BinOp, a: &Operand, b: &Operand, to: u32, width: u32) -> Made<()> {
        let by = match b {
            Operand::Is(by) => by.to_u128().filter(|by| by.is_power_of_two()),
            Operand::At(..) => None,
        };
        let Some(by) = by else {
            return refuse("division but by powers of two", None);
        };
        let (action, by) = match op {
            BinOp::Div => ("shift_right", u128::from(by.trailing_zeros())),
            _ => ("bit_and", by - 1),
        };
        self.binary(
            action,
            a,
            &Operand::Is(Value::truncated(by, WORD_BITS)),
            to,
            width,
        );
        Ok(())
    }

    /// Emits `>>` of a signed value: sign-extends it to twice its width, and shifts by at most its
    /// width.
    fn shift_signed(&mut self, a: &Operand, by: &Operand, width: u32, to: u32) -> Made<()> {
        let long = self.extended(a, width, width * 2)?;
        let most = Operand::Is(number(width, WORD_BITS));
        let (less, own) = (self.temporary(1)?, self.temporary(WORD_BITS)?);
        self.binary("less", by, &most, less, 1);
        self.choose(&Operand::At(less, 1), by, &most, own, WORD_BITS);
        let by = Operand::At(own, WORD_BITS);
        self.binary("shift_right", &Operand::At(long, width * 2), &by, to, width);
        Ok(())
    }

    fn compare(&mut self, op: BinOp, ty: ScalarTy, a: Operand, b: Operand, to: u32) -> Made<()> {
        let (mut a, mut b) = (a, b);
        if ty.is_signed() && !matches!(op, BinOp::Eq | BinOp::Ne) {
            a = self.biased(&a, ty.width())?;
            b = self.biased(&b, ty.width())?;
        }
        if matches!(op, BinOp::Gt | BinOp::Le) {
            std::mem::swap(&mut a, &mut b);
        }
        let action = if matches!(op, BinOp::Eq | BinOp::Ne) {
            "equal"
        } else {
            "less"
        };
        let is_negated = matches!(op, BinOp::Ne | BinOp::Le | BinOp::Ge);
        let own = if is_negated { self.temporary(1)? } else { to };
        self.binary(action, &a, &b, own, 1);
        if is_negated {
            let one = Operand::Is(Value::all_ones(1));
            self.binary("bit_xor", &Operand::At(own, 1), &one, to, 1);
        }
        Ok(())
    }

    /// Inverts the sign bit of a signed value, so that unsigned comparison gives the signed order.
    fn biased(&mut self, operand: &Operand, width: u32) -> Made<Operand> {
        let own = self.temporary(width)?;
        let sign = Operand::Is(ones(width - 1, 1, WORD_BITS));
        self.binary("bit_xor", operand, &sign, own, width);
        Ok(Operand::At(own, width))
    }

    fn saturate(&mut self, op: BinOp, ty: ScalarTy, a: &Operand, b: &Operand, to: u32) -> Made<()> {
        let width = ty.width();
        if width >= WORD_BITS {
            return refuse(
                format!("saturating arithmetic with {WORD_BITS} bits or more"),
                None,
            );
        }
        let action = if op == BinOp::AddSaturating {
            "add"
        } else {
            "subtract"
        };
        let (a, b) = match ty.is_signed() {
            true => (
                Operand::At(self.extended(a, width, width + 1)?, width + 1),
                Operand::At(self.extended(b, width, width + 1)?, width + 1),
            ),
            false => (a.clone(), b.clone()),
        };
        // The additional bit is the carry, the borrow, or the true sign.
        let sum = self.temporary(width + 1)?;
        self.binary(action, &a, &b, sum, width + 1);
        let (top, result) = (Operand::At(sum + width, 1), Operand::At(sum, width));
        if !ty.is_signed() {
            let bound = match op {
                BinOp::AddSaturating => Value::all_ones(width),
                _ => Value::zero(width),
            };
            self.choose(&top, &Operand::Is(bound), &result, to, width);
            return Ok(());
        }
        let (over, bound) = (self.temporary(1)?, self.temporary(width)?);
        self.binary("bit_xor", &top, &Operand::At(sum + width - 1, 1), over, 1);
        let (least, most) = (
            Value::prefix_mask(1, width),
            Value::prefix_mask(1, width).not(),
        );
        self.choose(&top, &Operand::Is(least), &Operand::Is(most), bound, width);
        self.choose(
            &Operand::At(over, 1),
            &Operand::At(bound, width),
            &result,
            to,
            width,
        );
        Ok(())
    }

    /// Assigns bits `hi` down to `lo` of a place, or all of it.
    pub(super) fn assign(
        &mut self,
        place: &Place,
        part: Option<(u32, u32)>,
        value: &Expr,
    ) -> Made<()> {
        if place.dims.is_empty() {
            return self.assign_field(place.base, part, value);
        }
        let width = self.width(value)?;
        let value = match self.value(value, None)? {
            // The value may be read from the location that is written.
            Operand::At(at, have) => {
                let own = self.temporary(width)?;
                self.write(own, width, &Operand::At(at, have));
                Operand::At(own, width)
            }
            is => is,
        };
        for (bit, element) in self.elements(place)? {
            if let Some((at, width)) = self.target(element, part)? {
                self.choose(&bit, &value, &Operand::At(at, width), at, width);
            }
        }
        Ok(())
    }

    fn assign_field(&mut self, field: FieldId, part: Option<(u32, u32)>, value: &Expr) -> Made<()> {
        if let Some(standard) = self.frame.layout.standard(field) {
            if part.is_some() {
                return refuse("assignment to bits of standard metadata", None);
            }
            let action = match standard.name {
                "egress_spec" => "set_port",
                "mcast_grp" => "set_group",
                "priority" => "set_priority",
                name => return refuse(format!("assignment to standard_metadata.{name}"), None),
            };
            if action == "set_port" && pattern::is_ingress_port(self.frame, value) {
                self.emit("reflect", Vec::new());
                return Ok(());
            }
            let value = self.value(value, None)?;
            self.with(action, &[&value], Vec::new());
            return Ok(());
        }
        if let Some((at, width)) = self.target(field, part)? {
            // The bits may overlap. Within one primitive all reads happen before the writes.
            match pattern::bits(self.frame, value) {
                Some(bits) if range(&bits).is_none() && pattern::constant(&bits).is_none() => {
                    let value = self.value(value, None)?;
                    self.write(at, width, &value);
                }
                _ => {
                    self.value(value, Some(at))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the location of a field, or of a part of it; `None` if its header is invalid on this
    /// path.
    pub(super) fn target(
        &self,
        field: FieldId,
        part: Option<(u32, u32)>,
    ) -> Made<Option<(u32, u32)>> {
        if self.frame.is_absent(field) {
            return Ok(None);
        }
        let Some(bits) = self.frame.field(field) else {
            return refuse("assignment to a varbit field", None);
        };
        let (hi, lo) = part.unwrap_or((bits.len() as u32 - 1, 0));
        match range(&bits) {
            Some(Operand::At(at, _)) => Ok(Some((at + lo, hi - lo + 1))),
            _ => refuse(
                "assignment to a field that the parser left with known bits",
                None,
            ),
        }
    }
}

/// Returns true if the bit at `at` and the next one are adjacent, or if the range ends at `end`.
fn follows(bits: &[Bit], at: usize, end: usize) -> bool {
    if at + 1 == end {
        return true;
    }
    match (bits[at], bits[at + 1]) {
        (Bit::At(high), Bit::At(low)) => high == low + 1 && high != pattern::PORT,
        (Bit::Is(_), Bit::Is(_)) => true,
        _ => false,
    }
}

/// Returns bits that are adjacent in the register file, after leading zeros.
fn range(bits: &[Bit]) -> Option<Operand> {
    let zeros = bits
        .iter()
        .take_while(|bit| **bit == Bit::Is(false))
        .count();
    let rest = &bits[zeros..];
    let Some(Bit::At(at)) = rest.last() else {
        return None;
    };
    let is_run = (0..rest.len()).all(|number| follows(rest, number, rest.len()))
        && rest
            .iter()
            .all(|bit| matches!(bit, Bit::At(at) if *at < pattern::PORT));
    is_run.then_some(Operand::At(*at, rest.len() as u32))
}

fn slice(of: &Operand, hi: u32, lo: u32) -> Operand {
    match of {
        Operand::At(_, width) if lo >= *width => Operand::Is(Value::zero(hi - lo + 1)),
        Operand::At(at, width) => Operand::At(at + lo, (hi.min(width - 1)) - lo + 1),
        Operand::Is(value) => {
            let bits: Vec<bool> = (lo..=hi).rev().map(|at| words::bit(value, at)).collect();
            Operand::Is(words::from_bits(&bits))
        }
    }
}

/// Concatenates the bits of a list of values.
pub(super) fn joined(frame: &Frame<'_>, exprs: &[Expr]) -> Option<Bits> {
    let all: Option<Vec<Bits>> = exprs
        .iter()
        .map(|expr| pattern::bits(frame, expr))
        .collect();
    all.map(|all| all.concat())
}
