//! Calls of extern functions and methods.

use exec::Unsupported;
use ir::{
    Arch, Call, Expr, ExternId, ExternKind, FieldId, HashAlgorithm, Op, Operand, Place, ScalarTy,
    limbs_of,
};

use super::place::Located;
use super::{Compiler, Mode};
use crate::code::{Bounds, CallCode, In, Inst, NONE, Slot, Tell};

/// v1model's port that means dropping.
const DROP_PORT: u64 = 511;

impl Compiler<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Result<(), Unsupported> {
        let mut code = CallCode {
            op: call.op,
            instance: call.instance.unwrap_or(ExternId::new(NONE)),
            ins: Box::default(),
            data: Box::default(),
            outs: Box::default(),
            text: Box::default(),
            numbers: [0; 2],
            algorithm: self.instance_algorithm(call.instance),
            marks: self.marks(call.op),
            native: None,
            range: None,
            colors: [0, 1, 2],
        };
        let (mut ins, mut data, mut outs) = (Vec::new(), Vec::new(), Vec::new());
        let mut moves: Vec<(Located, Slot)> = Vec::new();
        let mut numbers = 0;
        for operand in &call.operands {
            match operand {
                Operand::In(value) => ins.push(self.input(value)?),
                Operand::Data(values) => {
                    for value in values {
                        data.push(self.input(value)?);
                    }
                }
                Operand::Out(place) => self.output(place, &mut outs, &mut moves)?,
                Operand::Outs(places) => {
                    for place in places {
                        self.output(place, &mut outs, &mut moves)?;
                    }
                }
                Operand::Text(text) => code.text = text.as_str().into(),
                Operand::Number(number) => {
                    if let Some(place) = code.numbers.get_mut(numbers) {
                        *place = *number;
                    }
                    numbers += 1;
                }
            }
        }
        if matches!(
            call.op,
            Op::Hash
                | Op::VerifyChecksum
                | Op::VerifyChecksumWithPayload
                | Op::UpdateChecksum
                | Op::UpdateChecksumWithPayload
        ) {
            code.algorithm = HashAlgorithm::from_number(code.numbers[0])
                .ok_or_else(|| self.unsupported("this hash algorithm"))?;
        }
        if call.op == Op::Native {
            let function = self.natives.get(&code.text).cloned();
            code.native = Some(function.ok_or_else(|| {
                self.unsupported(&format!(
                    "extern function {}, which the host does not supply",
                    code.text
                ))
            })?);
            // Native functions take and give values one behind the other.
            data = self.contiguous(&data);
        }
        if call.op == Op::AddEntry {
            data = self.contiguous(&data);
        }
        if matches!(call.op, Op::UpdateChecksum | Op::UpdateChecksumWithPayload) {
            for &(to, slot) in &moves {
                self.load(to, slot);
            }
        }
        code.range = self.range(call.instance, outs.first());
        code.colors = self.colors(outs.first().or(ins.last()));
        code.ins = ins.into();
        code.data = data.into();
        code.outs = outs.into();
        self.code.calls.push(code);
        let at = self.code.calls.len() as u32 - 1;
        // What ends the run is told before it does.
        let ends = matches!(call.op, Op::Assert | Op::Assume);
        if ends {
            self.tell_call(at, call);
        }
        self.emit(Inst::Call(at));
        if !ends {
            self.tell_call(at, call);
        }
        for (to, from) in moves {
            self.store(to, from);
        }
        Ok(())
    }

    fn tell_call(&mut self, at: u32, call: &Call) {
        if self.mode == Mode::Traced {
            self.tell(Tell::Call(at, Box::new(call.clone()), self.loc));
        }
    }

    fn input(&mut self, value: &Expr) -> Result<In, Unsupported> {
        let ty = self.ty(value)?;
        let slot = match (value, ty) {
            (Expr::Read(place), ScalarTy::Varbit(_)) => self.varbit(place)?,
            _ => self.operand(value)?,
        };
        Ok(In { slot, ty })
    }

    /// A temporary for a result; all of a call's stand one behind the other.
    fn output(
        &mut self,
        place: &Place,
        outs: &mut Vec<In>,
        moves: &mut Vec<(Located, Slot)>,
    ) -> Result<(), Unsupported> {
        let to = self.locate(place)?;
        outs.push(In {
            slot: NONE,
            ty: to.ty,
        });
        moves.push((to, NONE));
        // An address takes temporaries too, so places are given when all addresses are known.
        let limbs: u32 = outs.iter().map(|out| limbs_of(out.ty)).sum();
        let mut slot = self.temporary(limbs);
        for (out, moved) in outs.iter_mut().zip(moves) {
            out.slot = slot;
            moved.1 = slot;
            slot += limbs_of(out.ty);
        }
        Ok(())
    }

    /// The same values one behind the other.
    fn contiguous(&mut self, data: &[In]) -> Vec<In> {
        let limbs = data.iter().map(|value| limbs_of(value.ty)).sum();
        let mut slot = self.temporary(limbs);
        let mut made = Vec::new();
        for value in data {
            self.copy(slot, value.slot, limbs_of(value.ty));
            made.push(In { slot, ty: value.ty });
            slot += limbs_of(value.ty);
        }
        made
    }

    fn instance_algorithm(&self, instance: Option<ExternId>) -> HashAlgorithm {
        match instance.and_then(|id| self.program.externs.get(id)) {
            Some(instance) => match &instance.kind {
                ExternKind::Hash { algorithm, .. } | ExternKind::Checksum { algorithm, .. } => {
                    *algorithm
                }
                _ => HashAlgorithm::Csum16,
            },
            None => HashAlgorithm::Csum16,
        }
    }

    /// The bounds of a random source.
    fn range(&self, instance: Option<ExternId>, out: Option<&In>) -> Option<Bounds> {
        let ExternKind::Random { min, max } = &self.program.externs.get(instance?)?.kind else {
            return None;
        };
        let ty = out?.ty;
        let limbs = |value: &bits::Value| {
            let mut limbs = value.resized(ty.width()).limbs().to_vec();
            limbs.resize(limbs_of(ty) as usize, 0);
            limbs.into_boxed_slice()
        };
        Some((limbs(min), limbs(max)))
    }

    /// The fields that the architecture's mark sets.
    fn marks(&self, op: Op) -> Box<[(Slot, u64)]> {
        let intrinsic = |name: &str| -> Option<(Slot, FieldId)> {
            let field = *self.program.pipeline.intrinsics.get(name)?;
            Some((self.slot(field), field))
        };
        let member = |name: &str| -> Option<(Slot, u64)> {
            let (slot, field) = intrinsic("standard_metadata.output_action")?;
            let ScalarTy::Enum(id) = self.program.fields.get(field)?.ty else {
                return None;
            };
            let members = &self.program.enums.get(id)?.members;
            let at = members.iter().position(|member| member == name)?;
            Some((slot, at as u64))
        };
        match (self.program.arch, op) {
            (Arch::V1model, Op::MarkToDrop) => [
                ("standard_metadata.egress_spec", DROP_PORT),
                ("standard_metadata.mcast_grp", 0),
            ]
            .into_iter()
            .filter_map(|(name, value)| Some((intrinsic(name)?.0, value)))
            .collect(),
            (Arch::Ubpf, Op::MarkToDrop) => member("DROP").into_iter().collect(),
            (Arch::Ubpf, Op::MarkToPass) => member("PASS").into_iter().collect(),
            _ => Box::default(),
        }
    }

    /// How the type of this operand numbers green, yellow and red.
    fn colors(&self, operand: Option<&In>) -> [u64; 3] {
        let Some(ScalarTy::Enum(id)) = operand.map(|operand| operand.ty) else {
            return [0, 1, 2];
        };
        let members = self.program.enums.get(id).map(|ty| &ty.members[..]);
        let number = |name: &str, otherwise: u64| {
            let members = members.unwrap_or_default();
            let at = members.iter().position(|m| m.eq_ignore_ascii_case(name));
            at.map_or(otherwise, |at| at as u64)
        };
        [number("GREEN", 0), number("YELLOW", 1), number("RED", 2)]
    }
}
