//! Calls of extern functions and methods.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bits::Value;
use ir::{
    BinOp, Call, DataTy, Expr, ExternId, ExternKind, FieldId, HashAlgorithm, Op, Operand, Place,
    ScalarTy,
};

use super::PrintError;
use super::body::{Body, Out};
use super::expr::Term;
use super::lists::List;
use super::names::quoted;
use super::storage::FieldHome;
use crate::uses::fields_of;

/// Types of the arguments and results of an extern function.
type Signature = (Vec<String>, Vec<String>);

/// Declarations of the user's extern functions, by name.
#[derive(Default)]
pub(super) struct Natives {
    pub(super) known: RefCell<BTreeMap<String, Signature>>,
}

/// Returns the name of an algorithm in v1model.
pub(super) fn algorithm(algorithm: HashAlgorithm) -> Option<&'static str> {
    Some(match algorithm {
        HashAlgorithm::Crc32 => "HashAlgorithm.crc32",
        HashAlgorithm::Crc32Custom => "HashAlgorithm.crc32_custom",
        HashAlgorithm::Crc16 => "HashAlgorithm.crc16",
        HashAlgorithm::Crc16Custom => "HashAlgorithm.crc16_custom",
        HashAlgorithm::Random => "HashAlgorithm.random",
        HashAlgorithm::Identity => "HashAlgorithm.identity",
        HashAlgorithm::Csum16 => "HashAlgorithm.csum16",
        HashAlgorithm::Xor16 => "HashAlgorithm.xor16",
        HashAlgorithm::TargetDefault | HashAlgorithm::Toeplitz => return None,
    })
}

impl Body<'_> {
    /// Appends a call.
    pub(super) fn call(&mut self, call: &Call, out: &mut Vec<Out>) -> Result<(), PrintError> {
        use Operand::{Data, In, Number, Out as To, Outs, Text};
        let name = match call.instance {
            Some(id) => self.externs[id].clone(),
            None => String::new(),
        };
        let line = |out: &mut Vec<Out>, text: String| out.push(Out::Line(text));
        match (call.op, call.operands.as_slice()) {
            (Op::CounterCount, [In(index)]) => {
                let index = self.index(call.instance, index)?;
                line(out, format!("{name}.count({index});"));
            }
            (Op::MeterExecute, [In(index), To(color)]) => {
                let at = self.index(call.instance, index)?;
                self.zero_outside(call.instance, index, std::slice::from_ref(color), out)?;
                self.out(color, out, |arg| {
                    format!("{name}.execute_meter({at}, {arg});")
                })?;
            }
            (Op::DirectMeterExecute, [To(color)]) => {
                self.out(color, out, |arg| format!("{name}.read({arg});"))?;
            }
            (Op::RegisterRead, [In(index), Outs(places)]) => {
                let at = self.index(call.instance, index)?;
                self.zero_outside(call.instance, index, places, out)?;
                self.register_read(call.instance, &at, places, out)?;
            }
            (Op::RegisterWrite, [In(index), Data(values)]) => {
                let at = self.index(call.instance, index)?;
                let value = self.cell(call.instance, values)?;
                line(out, format!("{name}.write({at}, {value});"));
            }
            (Op::Hash, [Number(number), In(base), In(max), Data(data), To(place)]) => {
                let algorithm = self.algorithm(*number)?;
                let (base, max) = (self.text(base)?, self.text(max)?);
                let data = self.data_list(data)?;
                self.out(place, out, |arg| {
                    format!("hash({arg}, {algorithm}, {base}, {data}, {max});")
                })?;
            }
            (
                op @ (Op::VerifyChecksum | Op::VerifyChecksumWithPayload),
                [Number(number), In(cond), Data(data), In(sum)],
            ) => {
                let algorithm = self.algorithm(*number)?;
                let (cond, sum) = (self.text(cond)?, self.text(sum)?);
                let data = self.data_list(data)?;
                let name = op.name();
                line(out, format!("{name}({cond}, {data}, {sum}, {algorithm});"));
            }
            (
                op @ (Op::UpdateChecksum | Op::UpdateChecksumWithPayload),
                [Number(number), In(cond), Data(data), To(sum)],
            ) => {
                let algorithm = self.algorithm(*number)?;
                let cond = self.text(cond)?;
                let data = self.data_list(data)?;
                let name = op.name();
                self.inout(sum, out, |arg| {
                    format!("{name}({cond}, {data}, {arg}, {algorithm});")
                })?;
            }
            (Op::RandomBetween, [In(low), In(high), To(place)]) => {
                let (low, high) = (self.text(low)?, self.text(high)?);
                self.out(place, out, |arg| format!("random({arg}, {low}, {high});"))?;
            }
            (Op::DigestSend, [Data(values)]) => self.digest(call.instance, values, out)?,
            (Op::MarkToDrop, []) => {
                line(out, "mark_to_drop(standard_metadata);".to_owned());
            }
            (Op::Clone, [Number(kind), Number(list), In(session)]) => {
                let kind = match kind {
                    0 => "CloneType.I2E",
                    _ => "CloneType.E2E",
                };
                let session = self.text(session)?;
                let text = match self.field_list(*list)? {
                    None => format!("clone({kind}, {session});"),
                    Some(Ok(number)) => {
                        format!("clone_preserving_field_list({kind}, {session}, 8w{number});")
                    }
                    Some(Err(fields)) => format!("clone3({kind}, {session}, {fields});"),
                };
                line(out, text);
            }
            (op @ (Op::Resubmit | Op::Recirculate), [Number(list)]) => {
                let name = op.name();
                let text = match self.field_list(*list)? {
                    None => format!("{name}_preserving_field_list(8w{});", self.lists.empty),
                    Some(Ok(number)) => format!("{name}_preserving_field_list(8w{number});"),
                    Some(Err(fields)) => format!("{name}({fields});"),
                };
                line(out, text);
            }
            (Op::Truncate, [In(length)]) => {
                line(out, format!("truncate({});", self.text(length)?));
            }
            (op @ (Op::Assert | Op::Assume), [In(cond), Text(_)]) => {
                line(out, format!("{}({});", op.name(), self.text(cond)?));
            }
            (Op::LogMessage, [Text(text), Data(values)]) => {
                let text = quoted(text);
                line(
                    out,
                    match values.is_empty() {
                        true => format!("log_msg({text});"),
                        false => format!("log_msg({text}, {});", self.data_list(values)?),
                    },
                );
            }
            (Op::Native, [Text(name), Data(args), Outs(results)]) => {
                self.native(name, args, results, out)?;
            }
            (Op::Remote, _) => return Err(self.error("the call of a remote handler")),
            (op, _) => return Err(self.error(format!("the operation `{}`", op.name()))),
        }
        Ok(())
    }

    fn algorithm(&self, number: u64) -> Result<&'static str, PrintError> {
        let known = HashAlgorithm::from_number(number).and_then(algorithm);
        known.ok_or_else(|| self.error("a hash algorithm that v1model does not have"))
    }

    /// Returns a list of values.
    pub(super) fn data_list(&self, values: &[Expr]) -> Result<String, PrintError> {
        let texts: Result<Vec<String>, PrintError> =
            values.iter().map(|value| self.value(value)).collect();
        Ok(format!("{{ {} }}", texts?.join(", ")))
    }

    /// Returns a value that may be a `varbit`.
    fn value(&self, value: &Expr) -> Result<String, PrintError> {
        match value {
            Expr::Read(place)
                if matches!(self.program.fields[place.base].ty, ScalarTy::Varbit(_)) =>
            {
                self.varbit(place)
            }
            value => self.text(value),
        }
    }

    /// Returns the type of an instance's index as the control plane sees it.
    fn index_ty(&self, id: Option<ExternId>) -> Option<&DataTy> {
        match &self.program.externs[id?].kind {
            ExternKind::Counter { index_ty, .. }
            | ExternKind::Meter { index_ty, .. }
            | ExternKind::Register { index_ty, .. } => index_ty.as_ref(),
            _ => None,
        }
    }

    /// Returns an index of the type that the instance requires.
    fn index(&self, id: Option<ExternId>, index: &Expr) -> Result<String, PrintError> {
        let from = self.ty(index)?.width();
        let term = self.term(index)?;
        let sized = |term: Term, width: u32| match width == from {
            true => term,
            false => Term::primary(format!("(bit<{width}>){}", term.tight())),
        };
        Ok(match self.index_ty(id) {
            None => sized(term, 32).text,
            Some(ty) => match self.types.scalar_width(ty) {
                Some((width, false)) => self.value_of_named(ty, sized(term, width)).text,
                Some((width, true)) => {
                    let bits = sized(term, width).tight();
                    let term = Term::primary(format!("(int<{width}>){bits}"));
                    self.value_of_named(ty, term).text
                }
                None => return Err(self.error("an index that is no number")),
            },
        })
    }

    /// Writes zeros to the results of a read that is not known to be inside its array. v1model
    /// leaves them as they are.
    fn zero_outside(
        &self,
        id: Option<ExternId>,
        index: &Expr,
        places: &[Place],
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let size = match id.map(|id| &self.program.externs[id].kind) {
            Some(ExternKind::Register { size, .. } | ExternKind::Meter { size, .. }) => *size,
            _ => return Ok(()),
        };
        let width = self.ty(index)?.width();
        let is_inside = match index {
            Expr::Const(_, value) => value.to_u64().is_some_and(|at| at < u64::from(size)),
            _ => width < 32 && 1 << width <= size || self.is_guarded(index, size),
        };
        if is_inside {
            return Ok(());
        }
        for place in places {
            let ty = self.program.fields[place.base].ty;
            if !matches!(ty, ScalarTy::Varbit(_)) {
                let zero = self.constant(ty, &Value::zero(ty.width()))?;
                self.write(place, zero, out)?;
            }
        }
        Ok(())
    }

    /// Returns true if the branch around the code tests that an index is less than a size.
    fn is_guarded(&self, index: &Expr, size: u32) -> bool {
        self.guards.last().is_some_and(|guard| match guard {
            Expr::Binary(BinOp::Lt, left, right) => {
                let most = match &**right {
                    Expr::Const(_, most) => most.to_u64(),
                    _ => None,
                };
                **left == *index && most.is_some_and(|most| most <= u64::from(size))
            }
            _ => false,
        })
    }

    /// Appends a call with an `out` argument: a place of just this type, or a variable.
    fn out(
        &mut self,
        place: &Place,
        out: &mut Vec<Out>,
        call: impl FnOnce(&str) -> String,
    ) -> Result<(), PrintError> {
        self.written_argument(place, false, out, call)
    }

    /// Appends a call with an `inout` argument.
    fn inout(
        &mut self,
        place: &Place,
        out: &mut Vec<Out>,
        call: impl FnOnce(&str) -> String,
    ) -> Result<(), PrintError> {
        self.written_argument(place, true, out, call)
    }

    /// Appends a call that writes its argument. A variable in place of it has the place's value
    /// first if the call reads the argument, too.
    fn written_argument(
        &mut self,
        place: &Place,
        is_read: bool,
        out: &mut Vec<Out>,
        call: impl FnOnce(&str) -> String,
    ) -> Result<(), PrintError> {
        if let Some(path) = self.direct(place)? {
            self.check_write(&path)?;
            out.push(Out::Line(call(&path)));
            return Ok(());
        }
        let ty = self.types.scalar(self.program.fields[place.base].ty);
        let name = self.names.fresh("result");
        let declaration = match is_read {
            true => format!("{ty} {name} = {};", self.text(&Expr::Read(place.clone()))?),
            false => format!("{ty} {name};"),
        };
        out.push(Out::Line(declaration));
        out.push(Out::Line(call(&name)));
        self.write(place, Term::primary(name), out)
    }

    fn cell_ty(&self, id: Option<ExternId>) -> Result<&DataTy, PrintError> {
        match id.map(|id| &self.program.externs[id].kind) {
            Some(ExternKind::Register { data_ty, .. } | ExternKind::Digest { data_ty, .. }) => {
                Ok(data_ty)
            }
            _ => Err(self.error("an operation on an object of another kind")),
        }
    }

    /// Returns the value of a register's cell or a digest's message.
    fn cell(&self, id: Option<ExternId>, values: &[Expr]) -> Result<String, PrintError> {
        let ty = self.cell_ty(id)?;
        let mut values = values.iter();
        let text = self.aggregate(ty, &mut values)?;
        match values.next() {
            None => Ok(text),
            Some(_) => Err(self.error("more values than the type has members")),
        }
    }

    /// Takes the values of a type from a flat list.
    fn aggregate<'e>(
        &self,
        ty: &DataTy,
        values: &mut std::slice::Iter<'e, Expr>,
    ) -> Result<String, PrintError> {
        if let DataTy::Tuple(parts) = ty {
            let mut texts = Vec::new();
            for part in parts {
                texts.push(self.aggregate(part, values)?);
            }
            return Ok(format!("{{ {} }}", texts.join(", ")));
        }
        if let Some(members) = self.types.struct_members(ty) {
            let mut texts = Vec::new();
            for (_, member) in members {
                texts.push(self.aggregate(member, values)?);
            }
            return Ok(format!("{{ {} }}", texts.join(", ")));
        }
        if let Some(header) = self.types.header_of(ty) {
            let count = self.program.header_types[header].fields.len() + 1;
            let all = values.as_slice();
            let whole = all.get(..count).and_then(|all| self.whole_header(all));
            *values = all.get(count..).unwrap_or(&[]).iter();
            return whole.ok_or_else(|| self.error("a header made of values in an aggregate"));
        }
        let value = values
            .next()
            .ok_or_else(|| self.error("fewer values than the type has members"))?;
        if let Expr::Read(place) = value
            && matches!(self.program.fields[place.base].ty, ScalarTy::Varbit(_))
        {
            return self.varbit(place);
        }
        match ty {
            DataTy::Stack(..) => Err(self.error("a header stack in an aggregate")),
            _ => {
                let term = self.term(value)?;
                Ok(self.value_of_named(ty, term).text)
            }
        }
    }

    /// Returns the header that these values are the validity and fields of.
    fn whole_header(&self, values: &[Expr]) -> Option<String> {
        let Expr::Read(first) = values.first()? else {
            return None;
        };
        let FieldHome::Valid(header) = self.storage.field(first.base) else {
            return None;
        };
        let fields = fields_of(self.program, *header);
        let is_whole = fields
            .zip(values)
            .all(|(field, value)| *value == Expr::Read(field.into()));
        is_whole.then(|| self.storage.header(*header).to_owned())
    }

    /// Reads a register. A cell of several scalars is read into a variable first.
    fn register_read(
        &mut self,
        id: Option<ExternId>,
        at: &str,
        places: &[Place],
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let name = id.map_or("", |id| self.externs[id].as_str()).to_owned();
        let ty = self.cell_ty(id)?.clone();
        if let [place] = places
            && !matches!(ty, DataTy::Tuple(_))
            && self.types.struct_members(&ty).is_none()
            && !self.types.is_named_scalar(&ty)
        {
            return self.out(place, out, |arg| format!("{name}.read({arg}, {at});"));
        }
        let cell = self.names.fresh("cell");
        out.push(Out::Line(format!("{} {cell};", self.types.data(&ty))));
        // The cell keeps the old values if the index is out of range.
        out.push(Out::Line(format!("{name}.read({cell}, {at});")));
        let mut leaves = Vec::new();
        self.leaves(&ty, &cell, &mut leaves)?;
        if leaves.len() != places.len() {
            return Err(self.error("a register cell with other members than its type"));
        }
        for (place, leaf) in places.iter().zip(leaves) {
            self.write(place, leaf, out)?;
        }
        Ok(())
    }

    /// Collects the scalars of a variable.
    fn leaves(&self, ty: &DataTy, path: &str, all: &mut Vec<Term>) -> Result<(), PrintError> {
        if let DataTy::Tuple(parts) = ty {
            for (at, part) in parts.iter().enumerate() {
                self.leaves(part, &format!("{path}[{at}]"), all)?;
            }
        } else if let Some(members) = self.types.struct_members(ty) {
            for (name, member) in members {
                self.leaves(member, &format!("{path}.{name}"), all)?;
            }
        } else if let Some(header) = self.types.header_of(ty) {
            all.push(Term::primary(format!("{path}.isValid()")));
            for at in 0..self.program.header_types[header].fields.len() {
                let member = self.types.member(header, at);
                let text = format!("{path}.{member}");
                all.push(self.scalar_of_named(self.types.member_ty(header, at), text));
            }
        } else if matches!(ty, DataTy::Stack(..)) {
            return Err(self.error("a header stack in an aggregate"));
        } else {
            all.push(self.scalar_of_named(ty, path.to_owned()));
        }
        Ok(())
    }

    fn digest(
        &mut self,
        id: Option<ExternId>,
        values: &[Expr],
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let value = self.cell(id, values)?;
        let ty = match id {
            Some(id) => self.types.digest(id, self.cell_ty(Some(id))?),
            None => return Err(self.error("a digest without a type")),
        };
        out.push(Out::Line(format!("digest<{ty}>(32w1, {value});")));
        Ok(())
    }

    /// Returns the number of a field list, or its fields; `None` for none.
    fn field_list(&self, number: u64) -> Result<Option<Result<u32, String>>, PrintError> {
        let Some(number) = number.checked_sub(1) else {
            return Ok(None);
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Some(match self.lists.list(number) {
            List::Number(number) => Ok(number),
            List::Fields(fields) => {
                let fields = fields
                    .iter()
                    .map(|&field: &FieldId| Expr::Read(field.into()));
                let fields: Vec<Expr> = fields.collect();
                Err(self.data_list(&fields)?)
            }
        }))
    }

    /// Calls a function that the user declares and the host implements.
    fn native(
        &mut self,
        name: &str,
        args: &[Expr],
        results: &[Place],
        out: &mut Vec<Out>,
    ) -> Result<(), PrintError> {
        let mut types = (Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for arg in args {
            let ty = match arg {
                Expr::Read(place) => self.program.fields[place.base].ty,
                arg => self.ty(arg)?,
            };
            types.0.push(self.types.scalar(ty));
            texts.push(self.value(arg)?);
        }
        let mut after = Vec::new();
        for place in results {
            let ty = self.types.scalar(self.program.fields[place.base].ty);
            match self.direct(place)? {
                Some(path) => texts.push(path),
                None => {
                    let name = self.names.fresh("result");
                    out.push(Out::Line(format!("{ty} {name};")));
                    self.write(place, Term::primary(name.clone()), &mut after)?;
                    texts.push(name);
                }
            }
            types.1.push(ty);
        }
        let mut known = self.natives.known.borrow_mut();
        let declared = known
            .entry(name.to_owned())
            .or_insert_with(|| types.clone());
        if *declared != types {
            let message = format!("calls of `{name}` with several types");
            return Err(self.error(message));
        }
        out.push(Out::Line(format!("{name}({});", texts.join(", "))));
        out.extend(after);
        Ok(())
    }
}
