//! Calls of externs: operands and results are in slots.

use std::sync::Arc;

use ir::{
    Arch, Call, ExternId, ExternKind, FieldId, HashAlgorithm, Op, Operand, Program, ScalarTy,
    limbs_of,
};

use super::SlotValue;
use crate::{NativeFunction, Natives, RemoteHandler};

/// v1model's drop port.
const DROP_PORT: u64 = 511;

/// Smallest and largest value of a `Random` extern.
type Bounds = (Box<[u64]>, Box<[u64]>);

/// A call of an extern.
#[derive(Clone)]
pub struct ExternCall {
    pub(super) op: Op,
    pub(super) instance: ExternId,
    pub(super) values: CallValues,
    pub(super) text: Box<str>,
    pub(super) numbers: [u64; 2],
    pub(super) algorithm: HashAlgorithm,
    pub(super) native: Option<NativeFunction>,
    pub(super) handler: Option<Arc<dyn RemoteHandler>>,
    /// Bounds of a `Random` extern, in the result's number of limbs.
    pub(super) range: Option<Bounds>,
    /// The program's numbers of the colours green, yellow and red.
    pub(super) colors: [u64; 3],
}

impl std::fmt::Debug for ExternCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op.name())
    }
}

/// Slots of the operands and results of a call.
#[derive(Clone, Debug, Default)]
pub struct CallValues {
    /// Values of [`Operand::In`], in order.
    pub ins: Vec<SlotValue>,
    /// Values of [`Operand::Data`]. A varbit has its own limbs. They are consecutive if
    /// [`takes_data_in_a_row`].
    pub data: Vec<SlotValue>,
    /// Results. They are consecutive, come after all of `ins`, and do not overlap `data`. An
    /// operation that may have no result ([`may_keep_result`]) leaves their old contents.
    pub outs: Vec<SlotValue>,
}

/// Returns true if the operation needs its data in consecutive slots.
pub fn takes_data_in_a_row(op: Op) -> bool {
    matches!(op, Op::Native | Op::AddEntry | Op::Remote)
}

/// Returns true if the operation may leave the result's slots unchanged. Engines store the
/// destination's current value there before the call.
pub fn may_keep_result(op: Op) -> bool {
    matches!(op, Op::UpdateChecksum | Op::UpdateChecksumWithPayload)
}

/// Returns true if the operation has no effect unless its first value is true.
pub fn is_conditional(op: Op) -> bool {
    matches!(
        op,
        Op::VerifyChecksum
            | Op::VerifyChecksumWithPayload
            | Op::UpdateChecksum
            | Op::UpdateChecksumWithPayload
    )
}

/// Returns true if the operation may drop the packet or charge work units.
pub fn may_drop(op: Op) -> bool {
    matches!(
        op,
        Op::Assert
            | Op::Assume
            | Op::VerifyChecksumWithPayload
            | Op::UpdateChecksumWithPayload
            | Op::ChecksumGet
            | Op::Remote
            | Op::SendFrame
    )
}

/// Returns the fields that an operation sets implicitly, with their values: the drop or pass mark
/// of the architecture. Engines write them.
pub fn marks(program: &Program, op: Op) -> Vec<(FieldId, u64)> {
    let intrinsic = |name: &str| program.pipeline.intrinsics.get(name).copied();
    let member = |name: &str| -> Option<(FieldId, u64)> {
        let field = intrinsic("standard_metadata.output_action")?;
        let ScalarTy::Enum(id) = program.fields.get(field)?.ty else {
            return None;
        };
        let members = &program.enums.get(id)?.members;
        let at = members.iter().position(|member| member == name)?;
        Some((field, at as u64))
    };
    match (program.arch, op) {
        (Arch::V1model, Op::MarkToDrop) => [
            ("standard_metadata.egress_spec", DROP_PORT),
            ("standard_metadata.mcast_grp", 0),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((intrinsic(name)?, value)))
        .collect(),
        (Arch::Ubpf, Op::MarkToDrop) => member("DROP").into_iter().collect(),
        (Arch::Ubpf, Op::MarkToPass) => member("PASS").into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Result of a call, apart from its result values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// Computed checksum of a verification.
    pub checksum: Option<u64>,
}

impl ExternCall {
    /// Returns true if the call is to a function of the host.
    pub fn is_native(&self) -> bool {
        self.native.is_some() || self.handler.is_some()
    }

    /// Returns the slots of the operands and results.
    pub fn values(&self) -> &CallValues {
        &self.values
    }

    /// Creates a call of a verified program.
    ///
    /// # Errors
    /// A message in the user's terms: the host does not supply the function, or the hash algorithm
    /// is unknown.
    pub fn new(
        program: &Program,
        natives: &Natives,
        call: &Call,
        values: CallValues,
    ) -> Result<ExternCall, String> {
        let numbers = call.operands.iter().filter_map(|operand| match operand {
            Operand::Number(number) => Some(*number),
            _ => None,
        });
        let mut code = ExternCall {
            op: call.op,
            instance: call.instance.unwrap_or(ExternId::new(u32::MAX)),
            text: text(call).into(),
            numbers: [0; 2],
            algorithm: instance_algorithm(program, call.instance),
            native: None,
            handler: None,
            range: range(program, call.instance, values.outs.first()),
            colors: colors(program, values.outs.first().or(values.ins.last())),
            values,
        };
        for (place, number) in code.numbers.iter_mut().zip(numbers) {
            *place = number;
        }
        match call.op {
            Op::Hash
            | Op::VerifyChecksum
            | Op::VerifyChecksumWithPayload
            | Op::UpdateChecksum
            | Op::UpdateChecksumWithPayload => {
                code.algorithm = HashAlgorithm::from_number(code.numbers[0])
                    .ok_or_else(|| "this hash algorithm".to_string())?;
            }
            Op::Native => {
                let function = natives.get(&code.text).cloned();
                let missing = || {
                    let name = &code.text;
                    format!("extern function {name}, which the host does not supply")
                };
                code.native = Some(function.ok_or_else(missing)?);
            }
            Op::Remote => {
                let instance = call.instance.and_then(|id| program.externs.get(id));
                let name = instance.map_or("", |instance| instance.name.as_str());
                let handler = natives.handler(name).cloned();
                let missing = || format!("the handler {name}, for which there is no C code");
                code.handler = Some(handler.ok_or_else(missing)?);
            }
            _ => {}
        }
        Ok(code)
    }
}

fn text(call: &Call) -> &str {
    let text = call.operands.iter().find_map(|operand| match operand {
        Operand::Text(text) => Some(text.as_str()),
        _ => None,
    });
    text.unwrap_or_default()
}

fn instance_algorithm(program: &Program, instance: Option<ExternId>) -> HashAlgorithm {
    match instance.and_then(|id| program.externs.get(id)) {
        Some(instance) => match &instance.kind {
            ExternKind::Hash { algorithm, .. } | ExternKind::Checksum { algorithm, .. } => {
                *algorithm
            }
            _ => HashAlgorithm::Csum16,
        },
        None => HashAlgorithm::Csum16,
    }
}

/// Returns the bounds of a `Random` extern.
fn range(program: &Program, instance: Option<ExternId>, out: Option<&SlotValue>) -> Option<Bounds> {
    let ExternKind::Random { min, max } = &program.externs.get(instance?)?.kind else {
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

/// Returns the numbers of green, yellow and red in the type of this operand.
fn colors(program: &Program, operand: Option<&SlotValue>) -> [u64; 3] {
    let Some(ScalarTy::Enum(id)) = operand.map(|operand| operand.ty) else {
        return [0, 1, 2];
    };
    let members = program.enums.get(id).map(|ty| &ty.members[..]);
    let number = |name: &str, otherwise: u64| {
        let members = members.unwrap_or_default();
        let at = members.iter().position(|m| m.eq_ignore_ascii_case(name));
        at.map_or(otherwise, |at| at as u64)
    };
    [number("GREEN", 0), number("YELLOW", 1), number("RED", 2)]
}
