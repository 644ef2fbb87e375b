//! Calls of extern functions and methods.

use std::rc::Rc;

use bits::{Id, Value};
use exec::BitBuffer;
use exec::externs::hash;
use exec::slots::call::marks;
use ir::{Call, Expr, ExternKind, FieldId, HashAlgorithm, Op, Operand, Place};

use super::expr::malformed;
use super::value::{Bit, Knowledge, NodeKind, SumWord, Word};
use super::{End, Request, Walk};
use crate::flow::{ChecksumTest, CountedBytes, CounterCell, MetCounter, NotOffloadable};

/// Operands of a call that runs.
#[derive(Default)]
struct Operands<'c> {
    ins: Vec<Word>,
    data: Vec<Bit>,
    outs: Vec<&'c Place>,
    numbers: Vec<u64>,
}

impl Walk<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Result<(), End> {
        let operands = self.operands(call)?;
        let mut results: Vec<Word> = Vec::new();
        match call.op {
            Op::CounterCount | Op::CounterCountLength => {
                let index = self
                    .know
                    .fix_number(operands.ins.first().ok_or_else(malformed)?)?;
                let bytes = match call.op {
                    Op::CounterCount => self.job.length,
                    _ => self.counted(operands.ins.get(1))?,
                };
                self.count(call, index, bytes)?;
            }
            Op::DirectCounterCount | Op::DirectCounterCountLength => {
                let bytes = match call.op {
                    Op::DirectCounterCount => self.job.length,
                    _ => self.counted(operands.ins.first())?,
                };
                if let Some((table, entry)) = self.job.current
                    && !self.sites.get(table).is_some_and(|site| site.counts_hits)
                {
                    let cell = CounterCell::Direct(table, entry);
                    self.met.counters.push(MetCounter { cell, bytes });
                }
            }
            Op::MeterExecute
            | Op::MeterExecuteColored
            | Op::MeterExecuteLength
            | Op::DirectMeterExecute
            | Op::DirectMeterExecuteColored
            | Op::DirectMeterExecuteLength => {
                return Err(NotOffloadable::Meter(self.instance(call)).into());
            }
            Op::RegisterRead => {
                // Reading has no effect; only a packet that depends on the value stays.
                let reason = NotOffloadable::Register(self.instance(call));
                results = self.never(&operands, &reason)?;
            }
            Op::RegisterWrite => return Err(NotOffloadable::Register(self.instance(call)).into()),
            Op::Hash | Op::HashGet | Op::HashGetBase => {
                results.push(self.hash(call, &operands)?);
            }
            Op::VerifyChecksum | Op::VerifyChecksumWithPayload => {
                let with_payload = call.op == Op::VerifyChecksumWithPayload;
                self.verify_checksum(&operands, with_payload)?;
            }
            Op::UpdateChecksum | Op::UpdateChecksumWithPayload => {
                let with_payload = call.op == Op::UpdateChecksumWithPayload;
                let [condition, ..] = &operands.ins[..] else {
                    return Err(malformed());
                };
                if self.know.fix_number(condition)? != 0 {
                    let width = self.width_of(operands.outs.first().copied())?;
                    let sum = self.checksum(&operands, with_payload)?;
                    results.push(resized(sum, width));
                }
            }
            Op::RandomBetween | Op::RandomRead => {
                results = self.never(&operands, &NotOffloadable::Random)?;
            }
            Op::TimeNs => results = self.never(&operands, &NotOffloadable::Time)?,
            Op::DigestSend => return Err(NotOffloadable::Digest(self.instance(call)).into()),
            Op::LogMessage => return Err(NotOffloadable::Message.into()),
            Op::MarkToDrop => {}
            Op::Clone => {
                let session = operands.ins.first().ok_or_else(malformed)?;
                self.job.clone = Some(Request {
                    session: self.know.fix_number(session)? as u32,
                    list: field_list(operands.numbers.get(1)),
                });
            }
            Op::Resubmit => self.job.resubmit = Some(field_list(operands.numbers.first())),
            Op::Recirculate => self.job.recirculate = Some(field_list(operands.numbers.first())),
            Op::Truncate => {
                let bytes = operands.ins.first().ok_or_else(malformed)?;
                let bytes = self.know.fix_number(bytes)?.min(u32::MAX.into());
                let before = self.job.truncate.unwrap_or(u64::MAX);
                self.job.truncate = Some(bytes.min(before));
            }
            Op::Assert | Op::Assume => {
                let holds = operands.ins.first().ok_or_else(malformed)?;
                if self.know.fix_number(holds)? == 0 {
                    return Err(NotOffloadable::Message.into());
                }
            }
            Op::SetPacketLength => self.job.length = self.counted(operands.ins.first())?,
            // One packet's walk is atomic.
            Op::HoldAtomic => {}
            Op::Native | Op::Remote | Op::SendFrame => return Err(NotOffloadable::Handler.into()),
            op => return Err(NotOffloadable::Operation(op.name()).into()),
        }
        for (field, value) in marks(self.program, call.op) {
            self.set_field(field, value);
        }
        for (place, value) in operands.outs.into_iter().zip(results) {
            self.write(place, value)?;
        }
        Ok(())
    }

    fn set_field(&mut self, field: FieldId, value: u64) {
        if let Some(word) = self.job.fields.get_mut(field.index()) {
            let width = word.len() as u32;
            *word = Knowledge::word(&Value::truncated(value.into(), width));
        }
    }

    fn operands<'c>(&mut self, call: &'c Call) -> Result<Operands<'c>, End> {
        let mut operands = Operands::default();
        for operand in &call.operands {
            match operand {
                Operand::In(value) => operands.ins.push(self.eval(value)?),
                Operand::Out(place) => operands.outs.push(place),
                Operand::Data(values) => {
                    for value in values {
                        operands.data.extend(self.data(value)?.iter().rev());
                    }
                }
                Operand::Outs(places) => operands.outs.extend(places),
                Operand::Text(_) => {}
                Operand::Number(number) => operands.numbers.push(*number),
            }
        }
        Ok(operands)
    }

    fn data(&mut self, value: &Expr) -> Result<Word, End> {
        match value {
            Expr::Read(place) => self.read(place),
            value => self.eval(value),
        }
    }

    fn width_of(&self, place: Option<&Place>) -> Result<u32, End> {
        let ty = place.and_then(|place| place.ty(self.program));
        Ok(ty.ok_or_else(malformed)?.width())
    }

    /// Returns the name of a call's instance.
    fn instance(&self, call: &Call) -> String {
        let instance = call.instance.and_then(|id| self.program.externs.get(id));
        instance.map_or_else(String::new, |instance| instance.name.clone())
    }

    fn never(
        &mut self,
        operands: &Operands<'_>,
        reason: &NotOffloadable,
    ) -> Result<Vec<Word>, End> {
        let mut results = Vec::new();
        for place in &operands.outs {
            let width = self.width_of(Some(place))?;
            results.push(self.know.never(reason.clone(), width));
        }
        Ok(results)
    }

    /// Returns the bytes that a length makes a counter count.
    fn counted(&mut self, length: Option<&Word>) -> Result<CountedBytes, End> {
        let length = length.ok_or_else(malformed)?;
        if let Some(plus) = self.know.as_length(length) {
            return Ok(CountedBytes::Frame(plus));
        }
        Ok(CountedBytes::Fixed(self.know.fix_number(length)?))
    }

    fn count(&mut self, call: &Call, index: u64, bytes: CountedBytes) -> Result<(), End> {
        let instance = call.instance.ok_or_else(malformed)?;
        let kind = self.program.externs.get(instance).map(|one| &one.kind);
        let Some(ExternKind::Counter { size, .. }) = kind else {
            return Err(malformed());
        };
        if index < u64::from(*size) {
            let cell = CounterCell::Index(instance, index as u32);
            self.met.counters.push(MetCounter { cell, bytes });
        }
        Ok(())
    }

    fn algorithm(&self, call: &Call, numbers: &[u64]) -> Result<HashAlgorithm, End> {
        if call.op == Op::Hash {
            let number = numbers.first().copied();
            return number
                .and_then(HashAlgorithm::from_number)
                .ok_or_else(malformed);
        }
        let instance = call.instance.and_then(|id| self.program.externs.get(id));
        match instance.map(|instance| &instance.kind) {
            Some(ExternKind::Hash { algorithm, .. }) => Ok(*algorithm),
            _ => Err(malformed()),
        }
    }

    fn hash(&mut self, call: &Call, operands: &Operands<'_>) -> Result<Word, End> {
        let algorithm = self.algorithm(call, &operands.numbers)?;
        let width = self.width_of(operands.outs.first().copied())?;
        if algorithm == HashAlgorithm::Random {
            return Ok(self.know.never(NotOffloadable::Random, width));
        }
        // Data that is not a whole number of bytes is padded at its end for v1model's `hash`, at
        // its start for `Hash` objects.
        let missing = operands.data.len().wrapping_neg() % 8;
        let front = if call.op == Op::Hash { 0 } else { missing };
        let padding = std::iter::repeat_n(Bit::Known(false), front);
        let data: Vec<Bit> = padding.chain(operands.data.iter().copied()).collect();
        let bytes = self.bytes_of(&data);
        let random = &mut exec::RandomStream::default();
        let hash = hash::hash(algorithm, &bytes, &self.state.hash, random);
        let mut inputs = data;
        let value = match call.op {
            Op::HashGet => Value::truncated(hash.into(), width),
            _ => {
                let [base, max] = &operands.ins[..] else {
                    return Err(malformed());
                };
                inputs.extend(base.iter().chain(max));
                let (base, max) = (self.know.concrete(base), self.know.concrete(max));
                let mut result = vec![0; bits::limbs_for(width).max(1)];
                hash::in_range(&mut result, hash, base.limbs(), max.limbs());
                Value::from_limbs(&result, width)
            }
        };
        Ok(self.know.function(&inputs, &value))
    }

    /// Returns the bytes of the packet that is traced. The last one is padded with zeros.
    fn bytes_of(&self, data: &[Bit]) -> Vec<u8> {
        let mut buffer = BitBuffer::default();
        for bit in data {
            buffer.push_u64(self.know.value_of(*bit).into(), 1);
        }
        buffer.bytes().to_vec()
    }

    fn verify_checksum(&mut self, operands: &Operands<'_>, payload: bool) -> Result<(), End> {
        let [condition, wanted] = &operands.ins[..] else {
            return Err(malformed());
        };
        if self.know.fix_number(condition)? == 0 {
            return Ok(());
        }
        let width = wanted.len() as u32;
        let sum = resized(self.checksum(operands, payload)?, width);
        if let Some(tests) = self.checksum_tests(&sum, wanted) {
            let is_wrong = tests.iter().any(|test| !test.holds(self.know.frame()));
            let value = Value::truncated(is_wrong.into(), 1);
            let kind = NodeKind::WrongChecksum(tests);
            // The bits that the tests read are not fixed by their result.
            self.job.checksum_error = Some(self.know.result(kind, &[], &value)[0]);
            return Ok(());
        }
        let differs = self.know.concrete(&sum) != self.know.concrete(wanted);
        let mut inputs: Vec<Bit> = sum.into_iter().chain(wanted.iter().copied()).collect();
        let mut is_wrong = differs;
        if let Some(before) = self.job.checksum_error {
            is_wrong |= self.know.value_of(before);
            inputs.push(before);
        }
        let value = Value::truncated(is_wrong.into(), 1);
        self.job.checksum_error = Some(self.know.function(&inputs, &value)[0]);
        Ok(())
    }

    /// Returns the tests that a frame must pass to have no checksum error: those before this one,
    /// and that of a checksum and the field that it is compared with. `None` if these are not all.
    fn checksum_tests(&self, sum: &[Bit], wanted: &[Bit]) -> Option<Rc<[ChecksumTest]>> {
        let kind = |bit: Option<&Bit>| match bit {
            Some(Bit::Of(id, 0)) => Some(&self.know.node(*id).kind),
            _ => None,
        };
        let before: &[ChecksumTest] = match self.job.checksum_error {
            None => &[],
            Some(error) => match kind(Some(&error)) {
                Some(NodeKind::WrongChecksum(tests)) => tests,
                _ => return None,
            },
        };
        let Some(NodeKind::Checksum {
            words,
            payload: None,
        }) = kind(sum.first())
        else {
            return None;
        };
        let mut field: SumWord = wanted.try_into().ok()?;
        field.reverse();
        let test = self.know.checksum_test(words, &field)?;
        Some(before.iter().cloned().chain([test]).collect())
    }

    /// Returns the checksum of the call's data.
    fn checksum(&mut self, operands: &Operands<'_>, with_payload: bool) -> Result<Word, End> {
        let number = operands.numbers.first().copied().ok_or_else(malformed)?;
        let algorithm = HashAlgorithm::from_number(number).ok_or_else(malformed)?;
        if with_payload {
            self.spend_on_payload(algorithm)?;
        }
        if algorithm == HashAlgorithm::Random {
            return Ok(self.know.never(NotOffloadable::Random, 64));
        }
        let mut bytes = self.bytes_of(&operands.data);
        let payload = match with_payload {
            false => None,
            true => {
                let bits = self.job.cursor;
                let parsed = self.job.bytes.prefix.len();
                let is_whole = bits.is_multiple_of(8) && operands.data.len().is_multiple_of(16);
                if !is_whole || bits < parsed || algorithm != HashAlgorithm::Csum16 {
                    return Ok(self.know.never(NotOffloadable::Payload, 64));
                }
                let start = self.job.bytes.tail as usize + (bits - parsed) / 8;
                bytes.extend(self.know.frame().get(start..).unwrap_or_default());
                Some(start as u32)
            }
        };
        let random = &mut exec::RandomStream::default();
        let sum = hash::hash(algorithm, &bytes, &self.state.hash, random);
        let value = Value::truncated(sum.into(), 64);
        if algorithm != HashAlgorithm::Csum16 {
            return Ok(self.know.function(&operands.data, &value));
        }
        if payload.is_none() && self.know.constant(&operands.data).is_some() {
            return Ok(Knowledge::word(&value));
        }
        let words = operands.data.chunks(16).map(|bits| {
            let mut word: SumWord = [Bit::Known(false); 16];
            word[..bits.len()].copy_from_slice(bits);
            word
        });
        let words: Rc<[SumWord]> = words.collect();
        let kind = NodeKind::Checksum { words, payload };
        let value = Value::truncated(sum.into(), 16);
        let mut word = self.know.result(kind, &operands.data, &value);
        word.resize(64, Bit::Known(false));
        Ok(word)
    }
}

fn resized(mut word: Word, width: u32) -> Word {
    word.resize(width as usize, Bit::Known(false));
    word
}

/// Returns the field list's index from the number in a call.
fn field_list(number: Option<&u64>) -> Option<u32> {
    u32::try_from(*number?).ok()?.checked_sub(1)
}
