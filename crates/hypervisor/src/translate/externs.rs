//! Translation of calls of extern functions and methods.

use bits::Value;
use ir::{Call, CounterUnit, Expr, ExternKind, HashAlgorithm, Op, Operand as Given, Place};

use super::code::{AT, Code, Operand, joined};
use super::error::{TranslateError, refuse};
use super::flow::Flow;
use super::frame::AGAIN_BITS;
use super::node::NodeId;
use super::pattern::{self, Bit, Bits};
use super::words::{self, number, ones, placed};
use crate::{FILE_BITS, WORD_BITS};

/// Four bytes that take a CRC-32 register from all zeros back to all ones. The data is at the end
/// of a wide word, and the zeros before it would change the CRC. So the input starts with 32 ones,
/// which turn the initial register into zero. The zeros after them leave it zero. Then come these
/// four bytes, which restore the initial register, and the data.
const CRC32_START: u128 = 0x62f5_2692;

type Made<T> = Result<T, TranslateError>;

/// Translates a call, followed by `next`.
pub(super) fn call(flow: &mut Flow<'_>, call: &Call, next: NodeId) -> Made<NodeId> {
    let when = match (call.op, call.operands.as_slice()) {
        (Op::UpdateChecksum | Op::VerifyChecksum, [_, Given::In(when), ..]) => Some(when),
        _ => None,
    };
    let mut code = Code::new(&flow.frame);
    if when
        .is_some_and(|when| pattern::dnf(&flow.frame, when, true).is_some_and(|is| is.is_empty()))
    {
        return Ok(next);
    }
    one(flow, &mut code, call)?;
    let made = code.made;
    let then = flow.nodes.run(made, next);
    match when {
        Some(when) => flow.branch(when, then, next),
        None => Ok(then),
    }
}

fn one(flow: &Flow<'_>, code: &mut Code<'_>, call: &Call) -> Made<()> {
    match (call.op, call.operands.as_slice()) {
        (Op::MarkToDrop, []) => code.emit("drop", Vec::new()),
        // A table's direct counter is the counter of the table that contains its entries.
        (Op::DirectCounterCount, []) => {}
        (Op::Resubmit, [Given::Number(list)]) => {
            if let Some(at) = code.frame.layout.again() {
                code.set(at, &number(*list as u32 + 1, AGAIN_BITS));
            }
        }
        (Op::Truncate, [Given::In(length)]) => {
            let length = code.value(length, None)?;
            code.with("cut", &[&length], Vec::new());
        }
        (Op::CounterCount, [Given::In(index)]) => {
            let cells = cells(flow, call)?;
            let index = code.value(index, None)?;
            ranged(code, "count_packet", cells, &[&index], Vec::new());
        }
        (Op::RegisterRead, [Given::In(index), Given::Outs(outs)]) => {
            register(
                flow,
                call,
                code,
                index,
                outs.len(),
                |code, cells, index, at| read_cell(code, cells, index, &outs[at]),
            )?;
        }
        (Op::RegisterWrite, [Given::In(index), Given::Data(values)]) => {
            register(
                flow,
                call,
                code,
                index,
                values.len(),
                |code, cells, index, at| {
                    let value = code.value(&values[at], None)?;
                    ranged(code, "write_cell", cells, &[index, &value], Vec::new());
                    Ok(())
                },
            )?;
        }
        (Op::MeterExecute, [Given::In(index), Given::Out(color)]) => {
            meter(flow, call, code, index, color)?
        }
        (Op::RandomBetween, [Given::In(low), Given::In(high), Given::Out(out)]) => {
            let bound = |expr: &Expr| {
                let bits = pattern::bits(code.frame, expr);
                bits.and_then(|bits| pattern::constant(&bits))
                    .map(|value| value.resized(64))
            };
            let (Some(low), Some(high)) = (bound(low), bound(high)) else {
                return refuse("random with bounds that are computed", None);
            };
            if let Some((at, width)) = scalar(code, out)? {
                code.emit("draw", [vec![low, high], Code::to(at, width)].concat());
            }
        }
        (Op::DigestSend, [Given::Data(values)]) => digest(flow, call, code, values)?,
        (
            Op::Hash,
            [
                Given::Number(algorithm),
                Given::In(base),
                Given::In(max),
                Given::Data(data),
                Given::Out(out),
            ],
        ) => {
            let (base, max) = (code.value(base, None)?, code.value(max, None)?);
            hash(code, *algorithm, data, &base, &max, out)?;
        }
        (
            Op::UpdateChecksum,
            [
                Given::Number(algorithm),
                _,
                Given::Data(data),
                Given::Out(out),
            ],
        ) => {
            let (base, max) = whole(*algorithm);
            hash(code, *algorithm, data, &base, &max, out)?;
        }
        (
            Op::VerifyChecksum,
            [
                Given::Number(algorithm),
                _,
                Given::Data(data),
                Given::In(sum),
            ],
        ) => {
            verify(flow, code, *algorithm, data, sum)?;
        }
        _ => return refuse(call.op.name(), None),
    }
    Ok(())
}

fn cells(flow: &Flow<'_>, call: &Call) -> Made<super::cells::Range> {
    match call.instance.and_then(|id| flow.cells.of(id)) {
        Some(range) => Ok(range),
        None => refuse(call.op.name(), None),
    }
}

/// Emits a primitive on a cell of a range.
fn ranged(
    code: &mut Code<'_>,
    action: &'static str,
    cells: super::cells::Range,
    operands: &[&Operand],
    more: Vec<Value>,
) {
    let mark = code.made.len();
    code.with(action, operands, more);
    let range = [number(cells.base, 32), number(cells.count, 32)];
    code.made[mark].args.splice(0..0, range);
}

fn scalar(code: &Code<'_>, place: &Place) -> Made<Option<(u32, u32)>> {
    if !place.dims.is_empty() {
        return refuse("a result for an element chosen at run time", None);
    }
    code.target(place.base, None)
}

/// Translates an access to a register. Each scalar of a register cell has a separate cell.
fn register(
    flow: &Flow<'_>,
    call: &Call,
    code: &mut Code<'_>,
    index: &Expr,
    scalars: usize,
    mut each: impl FnMut(&mut Code<'_>, super::cells::Range, &Operand, usize) -> Made<()>,
) -> Made<()> {
    let whole = cells(flow, call)?;
    if let Some(ExternKind::Register { cell, .. }) =
        call.instance.map(|id| &flow.program.externs[id].kind)
        && cell.iter().any(|ty| ty.width() > 64)
    {
        return refuse("register with more than 64 bits", None);
    }
    let index = code.value(index, None)?;
    let count = whole.count / scalars.max(1) as u32;
    for at in 0..scalars {
        let base = whole.base + count * at as u32;
        each(code, super::cells::Range { base, count }, &index, at)?;
    }
    Ok(())
}

fn read_cell(
    code: &mut Code<'_>,
    cells: super::cells::Range,
    index: &Operand,
    out: &Place,
) -> Made<()> {
    if let Some((at, width)) = scalar(code, out)? {
        ranged(code, "read_cell", cells, &[index], Code::to(at, width));
    }
    Ok(())
}

fn meter(
    flow: &Flow<'_>,
    call: &Call,
    code: &mut Code<'_>,
    index: &Expr,
    color: &Place,
) -> Made<()> {
    let cells = cells(flow, call)?;
    let kind = call.instance.map(|id| &flow.program.externs[id].kind);
    let action = match kind {
        Some(ExternKind::Meter {
            unit: CounterUnit::Bytes,
            ..
        }) => "meter_bytes",
        _ => "meter_packet",
    };
    let index = code.value(index, None)?;
    let own = code.temporary(2)?;
    ranged(code, action, cells, &[&index], vec![number(own, AT)]);
    if let Some((at, width)) = scalar(code, color)? {
        code.write(at, width, &Operand::At(own, 2));
    }
    Ok(())
}

fn digest(flow: &Flow<'_>, call: &Call, code: &mut Code<'_>, values: &[Expr]) -> Made<()> {
    let digests = flow.program.externs.iter();
    let mut digests = digests.filter(|(_, own)| matches!(own.kind, ExternKind::Digest { .. }));
    let position = digests
        .position(|(id, _)| Some(id) == call.instance)
        .unwrap_or(0);
    let bits = gathered(code, values, 1)?;
    if bits.len() as u32 > WORD_BITS {
        return refuse(format!("digest with more than {WORD_BITS} bits"), None);
    }
    let data = code.of_bits(&bits, None)?;
    code.with("report", &[&data], Vec::new());
    if let Some(last) = code.made.last_mut() {
        last.args.insert(0, number(position as u32, 8));
    }
    Ok(())
}

/// Returns the bits of all values, padded with zeros to a multiple of `unit`. Computed values are
/// put into temporaries.
fn gathered(code: &mut Code<'_>, values: &[Expr], unit: usize) -> Made<Bits> {
    let mut bits = match joined(code.frame, values) {
        Some(bits) => bits,
        None => {
            let mut all = Vec::new();
            for value in values {
                match pattern::bits(code.frame, value) {
                    Some(bits) => all.extend(bits),
                    None => {
                        let Some(ty) = pattern::ty(code.frame, value) else {
                            return refuse("data of this kind", None);
                        };
                        let own = code.temporary(ty.width())?;
                        code.value(value, Some(own))?;
                        all.extend(super::flow::range(own, ty.width()));
                    }
                }
            }
            all
        }
    };
    let padded = bits.len().next_multiple_of(unit);
    bits.resize(padded, Bit::Is(false));
    Ok(bits)
}

/// Returns base 0, and a limit above every result.
fn whole(algorithm: u64) -> (Operand, Operand) {
    let width = match HashAlgorithm::from_number(algorithm) {
        Some(HashAlgorithm::Crc32) => 32,
        _ => 16,
    };
    (
        Operand::Is(Value::zero(1)),
        Operand::Is(ones(width, 1, WORD_BITS)),
    )
}

fn hash(
    code: &mut Code<'_>,
    algorithm: u64,
    data: &[Expr],
    base: &Operand,
    max: &Operand,
    out: &Place,
) -> Made<()> {
    let Some((at, width)) = scalar(code, out)? else {
        return Ok(());
    };
    hash_to(code, algorithm, data, base, max, (at, width.min(WORD_BITS)))?;
    if width > WORD_BITS {
        code.set(at + WORD_BITS, &Value::zero(width - WORD_BITS));
    }
    Ok(())
}

fn hash_to(
    code: &mut Code<'_>,
    algorithm: u64,
    data: &[Expr],
    base: &Operand,
    max: &Operand,
    (to, width): (u32, u32),
) -> Made<()> {
    let algorithm = HashAlgorithm::from_number(algorithm);
    let (action, unit) = match algorithm {
        Some(HashAlgorithm::Crc32) => ("hash_crc32", 8),
        Some(HashAlgorithm::Crc16) => ("hash_crc16", 8),
        Some(HashAlgorithm::Csum16) => ("hash_csum16", 16),
        Some(HashAlgorithm::Xor16) => ("hash_xor16", 16),
        Some(HashAlgorithm::Identity) => ("hash_identity", 8),
        other => return refuse(format!("hash of this kind ({other:?})"), None),
    };
    let mut bits = gathered(code, data, unit)?;
    if algorithm == Some(HashAlgorithm::Identity) {
        // The first eight bytes are the value.
        bits.truncate(64);
    }
    let length = bits.len() as u32;
    let mut flip = Value::zero(FILE_BITS);
    if algorithm == Some(HashAlgorithm::Crc32) {
        if length > FILE_BITS - 64 {
            return refuse(format!("crc32 of more than {} bits", FILE_BITS - 64), None);
        }
        let start = placed(&Value::truncated(CRC32_START, 32), length, FILE_BITS);
        flip = words::or(&ones(FILE_BITS - 32, 32, FILE_BITS), &start);
    }
    let is_sum = matches!(
        algorithm,
        Some(HashAlgorithm::Csum16 | HashAlgorithm::Xor16)
    );
    let (at, mask) = match aligned(&bits, is_sum) {
        Some(found) => found,
        None => {
            let own = code.temporary(length)?;
            code.gather(&bits, own)?;
            (own, ones(0, length, FILE_BITS))
        }
    };
    let more = [vec![number(at, AT), mask, flip]].concat();
    let mark = code.made.len();
    code.with(action, &[base, max], Code::to(to, width));
    code.made[mark].args.splice(0..0, more);
    Ok(())
}

/// Returns the position at which data can be hashed in place: it is one range. For sums of 16-bit
/// words there may be other words in between, which are masked out.
fn aligned(bits: &[Bit], is_sum: bool) -> Option<(u32, Value)> {
    let mut places = Vec::new();
    for (from_end, bit) in bits.iter().rev().enumerate() {
        match bit {
            Bit::At(at) if *at < pattern::PORT => places.push((from_end as u32, *at)),
            Bit::Is(false) => {}
            _ => return None,
        }
    }
    let (_, first) = places.iter().min_by_key(|(_, at)| *at)?;
    let (from_end, _) = places.iter().find(|(_, at)| at == first)?;
    let offset = if is_sum { from_end % 16 } else { *from_end };
    let start = first.checked_sub(offset)?;
    let is_there = |(from_end, at): &(u32, u32)| match is_sum {
        true => (at - start) % 16 == from_end % 16,
        false => at - start == *from_end,
    };
    let mut seen = std::collections::BTreeSet::new();
    let fits = places
        .iter()
        .all(|place| is_there(place) && seen.insert(place.1));
    // Bits that are masked out must not be between the bits that count.
    let mask = places
        .iter()
        .fold(vec![false; FILE_BITS as usize], |mut mask, (_, at)| {
            mask[(FILE_BITS - 1 - (at - start)) as usize] = true;
            mask
        });
    fits.then(|| (start, words::from_bits(&mask)))
}

fn verify(
    flow: &Flow<'_>,
    code: &mut Code<'_>,
    algorithm: u64,
    data: &[Expr],
    sum: &Expr,
) -> Made<()> {
    let Some(error) = flow
        .program
        .pipeline
        .intrinsics
        .get("standard_metadata.checksum_error")
    else {
        return Ok(());
    };
    let (base, max) = whole(algorithm);
    let own = code.temporary(32)?;
    hash_to(code, algorithm, data, &base, &max, (own, 32))?;
    let sum = code.value(sum, None)?;
    let wrong = code.temporary(1)?;
    code.with("equal", &[&Operand::At(own, 32), &sum], Code::to(wrong, 1));
    if let Some((at, _)) = code.target(*error, None)? {
        let one = Operand::Is(Value::all_ones(1));
        code.with(
            "bit_xor",
            &[&Operand::At(wrong, 1), &one],
            Code::to(wrong, 1),
        );
        code.with(
            "bit_or",
            &[&Operand::At(at, 1), &Operand::At(wrong, 1)],
            Code::to(at, 1),
        );
    }
    Ok(())
}
