//! Extern calls in a trace, with the names and values of their arguments and results.

use bits::Value;
use ir::{Call, Expr, ExternKind, HashAlgorithm, Op, Operand, Place, ScalarTy};

use super::conversion::Converter;
use super::step::{Constant, Named, Step};

/// Names of meter colours, for programs that number them.
const COLORS: [&str; 3] = ["green", "yellow", "red"];

impl Converter<'_> {
    /// Returns the step of a call. `arguments` are the values in operand order.
    pub(super) fn call(
        &mut self,
        call: &Call,
        arguments: &[Value],
        results: &[Value],
        loc: Option<ir::Loc>,
    ) -> Step {
        let mut constants: Vec<Constant> = self.algorithm(call).into_iter().collect();
        let (mut taken, mut given) = (Vec::new(), Vec::new());
        let (mut arguments, mut results) = (arguments.iter(), results.iter());
        for (operand, name) in call.operands.iter().zip(call.op.operand_names()) {
            match operand {
                Operand::In(value) => taken.extend(self.argument(name, value, arguments.next())),
                Operand::Data(values) => {
                    for value in values {
                        let name = self.place_name(value).unwrap_or((*name).to_owned());
                        taken.extend(self.argument(&name, value, arguments.next()));
                    }
                }
                Operand::Out(place) => given.extend(self.result(name, place, results.next())),
                Operand::Outs(places) => {
                    for place in places {
                        given.extend(self.result(name, place, results.next()));
                    }
                }
                Operand::Text(text) => constants.push(constant(name, text.clone())),
                Operand::Number(number) => {
                    constants.extend(number_text(name, *number).map(|text| constant(name, text)));
                }
            }
        }
        let found = results.map(|value| {
            let ty = ScalarTy::Bit(value.width());
            self.named("computed", ty, None, value)
        });
        given.extend(found);
        Step::Call {
            function: call.op.name(),
            instance: call
                .instance
                .map(|id| self.program().externs[id].name.clone()),
            constants,
            arguments: taken,
            results: given,
            source: self.source(loc),
        }
    }

    /// Returns the algorithm of the call or of its extern instance.
    fn algorithm(&self, call: &Call) -> Option<Constant> {
        let of_call = || match call.operands.first()? {
            Operand::Number(number) if call.op.operand_names().first() == Some(&"algorithm") => {
                HashAlgorithm::from_number(*number)
            }
            _ => None,
        };
        let of_instance = || match &self.program().externs[call.instance?].kind {
            ExternKind::Hash { algorithm, .. } | ExternKind::Checksum { algorithm, .. } => {
                Some(*algorithm)
            }
            _ => None,
        };
        let is_of_instance = matches!(
            call.op,
            Op::HashGet | Op::HashGetBase | Op::ChecksumGet | Op::ChecksumUpdate
        );
        let algorithm = match is_of_instance {
            true => of_instance(),
            false => of_call(),
        };
        algorithm.map(|algorithm| constant("algorithm", algorithm.name().to_owned()))
    }

    fn argument(&self, name: &str, expr: &Expr, value: Option<&Value>) -> Option<Named> {
        let ty = self.ty(expr);
        let data_ty = self.field_data_ty(expr);
        let named = self.named(name, ty, data_ty, value?);
        Some(with_color(named, ty, value?))
    }

    fn result(&self, name: &str, place: &Place, value: Option<&Value>) -> Option<Named> {
        let ty = place.ty(self.program()).unwrap_or(ScalarTy::Bit(0));
        let data_ty = self.header_data_ty(place.base);
        let named = self.named(name, ty, data_ty, value?);
        Some(with_color(named, ty, value?))
    }

    /// Returns the name of a value that is read unchanged.
    fn place_name(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Read(_) | Expr::Param(_) => Some(self.expr(expr)),
            Expr::Cast(_, inner) => self.place_name(inner),
            _ => None,
        }
    }
}

fn constant(name: &'static str, text: String) -> Constant {
    Constant { name, text }
}

/// Formats a number of a call in words. Algorithms have names: see [`Converter::algorithm`].
fn number_text(name: &str, number: u64) -> Option<String> {
    match (name, number) {
        ("algorithm", _) => None,
        ("field_list", 0) => Some("none".to_owned()),
        ("field_list", number) => Some((number - 1).to_string()),
        ("type", 0) => Some("ingress to egress".to_owned()),
        ("type", _) => Some("egress to egress".to_owned()),
        (_, number) => Some(number.to_string()),
    }
}

/// Adds the colour's name to a numeric colour.
fn with_color(mut named: Named, ty: ScalarTy, value: &Value) -> Named {
    let is_number = matches!(ty, ScalarTy::Bit(_)) && named.name.starts_with("color");
    let color = value
        .to_u64()
        .and_then(|at| COLORS.get(usize::try_from(at).ok()?));
    if let Some(color) = color.filter(|_| is_number) {
        named.value.text += &format!(" ({color})");
    }
    named
}
