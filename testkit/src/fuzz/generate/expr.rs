//! Generation of expressions of a given type.

use super::{Generator, Ty, width_of};

impl Generator<'_> {
    /// Returns an expression of this type, nested up to `depth`.
    pub(super) fn expr(&mut self, ty: Ty, depth: u32) -> String {
        if depth == 0 || self.choices.one_in(5) {
            return self.leaf(ty);
        }
        match ty {
            Ty::Bool => self.boolean(depth - 1),
            _ => self.number(ty, depth - 1),
        }
    }

    /// Returns a variable of this type, a converted variable, or a literal.
    fn leaf(&mut self, ty: Ty) -> String {
        let same: Vec<usize> = self.readable(|other| other == ty);
        if let Some(&at) = self.choices.pick(&same)
            && !self.choices.one_in(4)
        {
            return self.variables[at].path.clone();
        }
        let bits: Vec<usize> = self.readable(|other| matches!(other, Ty::Bit(_)));
        match (ty, self.choices.pick(&bits)) {
            (Ty::Bit(width), Some(&at)) if !self.choices.one_in(3) => {
                format!("((bit<{width}>){})", self.variables[at].path)
            }
            (Ty::Int(width), Some(&at)) if !self.choices.one_in(3) => {
                format!("((int<{width}>)(bit<{width}>){})", self.variables[at].path)
            }
            _ => self.literal(ty),
        }
    }

    fn readable(&self, fits: impl Fn(Ty) -> bool) -> Vec<usize> {
        let all = self.variables.iter().enumerate();
        all.filter(|(_, variable)| fits(variable.ty))
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns a literal, often a boundary value.
    pub(super) fn literal(&mut self, ty: Ty) -> String {
        let width = width_of(ty);
        match ty {
            Ty::Bool => ["false", "true"][self.choices.index(2)].to_string(),
            Ty::Bit(_) => format!("{width}w{}", self.digits(width)),
            Ty::Int(_) => format!("{width}s{}", self.digits(width - 1)),
        }
    }

    /// Returns a number of at most this width.
    fn digits(&mut self, width: u32) -> String {
        match self.choices.index(4) {
            0 => self.choices.index(2).min(width as usize).to_string(),
            1 => format!("0b{}", "1".repeat(width.max(1) as usize)),
            _ => {
                let bits: String = (0..width.max(1))
                    .map(|_| ['0', '1'][self.choices.index(2)])
                    .collect();
                format!("0b{bits}")
            }
        }
    }

    /// Returns a small literal, which packets are likely to contain.
    pub(super) fn literal_small(&mut self, ty: Ty) -> String {
        let width = width_of(ty);
        let most = 1usize << width.min(5);
        format!("{width}w{}", self.choices.index(most))
    }

    fn number(&mut self, ty: Ty, depth: u32) -> String {
        let width = width_of(ty);
        let is_bit = matches!(ty, Ty::Bit(_));
        match self.choices.index(10) {
            0..4 => {
                let op = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"][self.choices.index(8)];
                let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
                format!("({a} {op} {b})")
            }
            4 => {
                let op = ["<<", ">>"][self.choices.index(2)];
                let a = self.expr(ty, depth);
                let amount = match self.choices.one_in(2) {
                    true => format!("{}", self.choices.index(width as usize + 2)),
                    false => self.expr(Ty::Bit(8), depth),
                };
                format!("({a} {op} {amount})")
            }
            5 => {
                let op = ["-", "~"][self.choices.index(2)];
                format!("({op}{})", self.expr(ty, depth))
            }
            6 => {
                let condition = self.expr(Ty::Bool, depth);
                let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
                format!("({condition} ? {a} : {b})")
            }
            7 if is_bit => {
                let extra = self.choices.index(70) as u32;
                let low = self.choices.index(extra as usize + 1) as u32;
                let whole = self.expr(Ty::Bit(width + extra), depth);
                format!("({whole})[{}:{low}]", low + width - 1)
            }
            8 if is_bit && width > 1 => {
                let high = 1 + self.choices.index(width as usize - 1) as u32;
                let (a, b) = (
                    self.expr(Ty::Bit(high), depth),
                    self.expr(Ty::Bit(width - high), depth),
                );
                format!("({a} ++ {b})")
            }
            8 if !is_bit => format!("((int<{width}>){})", self.expr(Ty::Bit(width), depth)),
            _ if is_bit => {
                let other = match self.choices.index(3) {
                    0 => Ty::Int(width.max(2)),
                    _ => Ty::Bit(self.width()),
                };
                let inner = self.expr(other, depth);
                match other {
                    Ty::Int(inner_width) if inner_width != width => self.leaf(ty),
                    _ => format!("((bit<{width}>){inner})"),
                }
            }
            _ => {
                let other = Ty::Int(self.width().max(2));
                format!("((int<{width}>){})", self.expr(other, depth))
            }
        }
    }

    fn boolean(&mut self, depth: u32) -> String {
        match self.choices.index(7) {
            0 => format!("(!{})", self.expr(Ty::Bool, depth)),
            1 => {
                let op = ["&&", "||", "==", "!="][self.choices.index(4)];
                let (a, b) = (self.expr(Ty::Bool, depth), self.expr(Ty::Bool, depth));
                format!("({a} {op} {b})")
            }
            2 => self.header_valid(),
            _ => {
                let ty = match self.choices.one_in(4) {
                    true => Ty::Int(self.width().max(2)),
                    false => Ty::Bit(self.width()),
                };
                let op = ["==", "!=", "<", "<=", ">", ">="][self.choices.index(6)];
                let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
                format!("({a} {op} {b})")
            }
        }
    }
}
