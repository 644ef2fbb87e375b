//! Checks calls of extern functions and methods against their signatures.

use support::count::count_are;
use support::work::checkpoint;

use super::{Check, Verifier, same, there};
use crate::code::*;
use crate::ops::{InstanceKind, Op, OperandKind};
use crate::program::*;
use crate::types::ScalarTy;

impl Verifier<'_> {
    pub(super) fn call(&mut self, call: &Call, action: Option<&Action>) -> Check {
        let checked = self.instance(call).and_then(|()| {
            self.operands(call, action)?;
            self.op_rules(call, action)
        });
        checked.map_err(|e| format!("{}: {e}", call.op.name()))
    }

    fn instance(&self, call: &Call) -> Check {
        use ExternKind as K;
        use InstanceKind as I;
        let kind = match call.instance {
            None => None,
            Some(id) => Some(&there(&self.program.externs, id, "extern")?.kind),
        };
        let fits = match call.op.instance() {
            I::None => kind.is_none(),
            I::Counter => matches!(kind, Some(K::Counter { .. })),
            I::DirectCounter => matches!(kind, Some(K::DirectCounter { .. })),
            I::Meter => matches!(kind, Some(K::Meter { .. })),
            I::DirectMeter => matches!(kind, Some(K::DirectMeter { .. })),
            I::Register => matches!(kind, Some(K::Register { .. })),
            I::Hash => matches!(kind, Some(K::Hash { .. })),
            I::Checksum => matches!(kind, Some(K::Checksum { .. })),
            I::InternetChecksum => matches!(kind, Some(K::InternetChecksum)),
            I::Random => matches!(kind, Some(K::Random { .. })),
            I::Digest => matches!(kind, Some(K::Digest { .. })),
            I::Handler => matches!(kind, Some(K::Handler { .. })),
        };
        if fits {
            Ok(())
        } else {
            Err("the instance is not of the operation's kind".to_owned())
        }
    }

    fn operands(&mut self, call: &Call, action: Option<&Action>) -> Check {
        let signature = call.op.signature();
        if signature.len() != call.operands.len() {
            return Err(format!(
                "{} expected",
                count_are(signature.len() as u64, "operand")
            ));
        }
        for (kind, operand) in signature.iter().zip(&call.operands) {
            checkpoint();
            match (kind, operand) {
                (OperandKind::In, Operand::In(e)) => self.expr(e, action).map(drop)?,
                (OperandKind::Out, Operand::Out(place)) => {
                    self.scalar_place(place, action).map(drop)?;
                }
                (OperandKind::Data, Operand::Data(all)) => {
                    self.data(all, action).map(drop)?;
                }
                (OperandKind::Outs, Operand::Outs(all)) => {
                    for place in all {
                        checkpoint();
                        self.scalar_place(place, action)?;
                    }
                }
                (OperandKind::Text, Operand::Text(_))
                | (OperandKind::Number, Operand::Number(_)) => {}
                _ => return Err(format!("an operand is not {kind:?}")),
            }
        }
        Ok(())
    }

    /// Returns the types of data operands; `varbit`s are allowed.
    fn data(&mut self, all: &[Expr], action: Option<&Action>) -> Check<Vec<ScalarTy>> {
        all.iter()
            .map(|e| match e {
                Expr::Read(place) => self.place(place, action),
                other => self.expr(other, action),
            })
            .collect()
    }

    /// Checks an operation's rules beyond its signature, which the operands match already.
    fn op_rules(&mut self, call: &Call, action: Option<&Action>) -> Check {
        match (call.op, &call.operands[..]) {
            (
                Op::Hash
                | Op::VerifyChecksum
                | Op::VerifyChecksumWithPayload
                | Op::UpdateChecksum
                | Op::UpdateChecksumWithPayload,
                [Operand::Number(algorithm), Operand::In(first), ..],
            ) => {
                if HashAlgorithm::from_number(*algorithm).is_none() {
                    return Err(format!("there is no algorithm {algorithm}"));
                }
                if call.op == Op::Hash {
                    return self.numbers(&call.operands, action);
                }
                self.expr_of(first, ScalarTy::Bool, action)
            }
            (Op::Assert | Op::Assume, [Operand::In(cond), ..]) => {
                self.expr_of(cond, ScalarTy::Bool, action)
            }
            (Op::RegisterRead, [Operand::In(index), Operand::Outs(outs)]) => {
                self.unsigned_expr(index, action)?;
                let outs = outs
                    .iter()
                    .map(|p| self.place(p, action))
                    .collect::<Check<Vec<_>>>()?;
                self.cell(call, &outs)
            }
            (Op::RegisterWrite, [Operand::In(index), Operand::Data(values)]) => {
                self.unsigned_expr(index, action)?;
                let values = self.data(values, action)?;
                self.cell(call, &values)
            }
            (Op::DigestSend, [Operand::Data(values)]) => {
                let values = self.data(values, action)?;
                match self.kind_of(call) {
                    Some(ExternKind::Digest { fields, .. }) => all_same(fields, &values),
                    _ => Ok(()),
                }
            }
            (Op::Remote, [Operand::Data(request), Operand::Outs(response)]) => {
                if action.is_some() {
                    return Err("an action does not call a handler".to_owned());
                }
                let request_types = self.data(request, action)?;
                let response_types = response
                    .iter()
                    .map(|place| self.place(place, action))
                    .collect::<Check<Vec<_>>>()?;
                match self.kind_of(call) {
                    Some(ExternKind::Handler { request, response }) => {
                        all_same(&request.scalars(), &request_types)?;
                        all_same(&response.scalars(), &response_types)
                    }
                    _ => Ok(()),
                }
            }
            (
                Op::CounterCount
                | Op::CounterCountLength
                | Op::CounterAdd
                | Op::MeterExecute
                | Op::MeterExecuteColored
                | Op::MeterExecuteLength,
                [Operand::In(index), ..],
            ) => self.unsigned_expr(index, action),
            (Op::Truncate | Op::SetPacketLength, [Operand::In(length)]) => {
                self.unsigned_expr(length, action)
            }
            (
                Op::SendFrame,
                [
                    Operand::In(port),
                    Operand::In(header_bytes),
                    Operand::Number(ether_type),
                    Operand::Data(_),
                ],
            ) => {
                self.unsigned_expr(port, action)?;
                self.unsigned_expr(header_bytes, action)?;
                match u16::try_from(*ether_type) {
                    Ok(_) => Ok(()),
                    Err(_) => Err(format!("there is no EtherType {ether_type}")),
                }
            }
            (Op::Clone, [Operand::Number(kind), ..]) if *kind > 1 => {
                Err(format!("there is no kind of clone {kind}"))
            }
            (Op::AddEntry, _) if action.is_none() => {
                Err("only the action of a table that is missed adds an entry".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks that all values are `bit` or `int`.
    fn numbers(&mut self, operands: &[Operand], action: Option<&Action>) -> Check {
        for operand in operands {
            checkpoint();
            if let Operand::In(e) = operand {
                super::expr::number(self.expr(e, action)?)?;
            }
        }
        Ok(())
    }

    fn kind_of(&self, call: &Call) -> Option<&ExternKind> {
        let e = self.program.externs.get(call.instance?)?;
        Some(&e.kind)
    }

    fn cell(&self, call: &Call, types: &[ScalarTy]) -> Check {
        match self.kind_of(call) {
            Some(ExternKind::Register { cell, .. }) => all_same(cell, types),
            _ => Ok(()),
        }
    }
}

fn all_same(expected: &[ScalarTy], found: &[ScalarTy]) -> Check {
    if expected.len() != found.len() {
        return Err(format!(
            "{} expected",
            count_are(expected.len() as u64, "scalar")
        ));
    }
    std::iter::zip(expected, found).try_for_each(|(e, f)| same(*e, *f))
}
