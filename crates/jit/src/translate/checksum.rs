//! Ones' complement sums (Internet checksum), computed inline.
//!
//! RFC 1071: the sum of 16-bit words does not depend on the grouping of the additions, if carries
//! are added at the low end. So each value is added at its position in a word, up to 32 bits at a
//! time, and the sum is folded once. The sum also does not depend on the byte order, if that is the
//! same in all words. So fields that are unchanged in the packet are summed as they are loaded, and
//! their sum is byte-swapped.

use std::collections::hash_map::Entry;
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use exec::Unsupported;
use ir::{Call, Expr, ExternId, ExternKind, HashAlgorithm, HeaderId, Op, Operand, ScalarTy};

use super::emit::pieces_of;
use super::expr::is_wide;
use super::{Translator, in_bytes};
use crate::abi::flags;
use crate::helpers::Helper;

/// Maximum number of data bits that are summed inline: more than a packet of 1,500 bytes has.
const INLINE_BITS: u32 = 16_384;

/// Part of the data, `at` bits after its start, that is in the packet, `bit` bits after the start
/// of its header.
struct Part {
    header: HeaderId,
    bit: u32,
    at: u32,
    width: u32,
}

/// Bytes of a header that are loaded as one little-endian number and added after a left shift by
/// `shift` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    first: u32,
    bytes: u32,
    shift: u32,
}

impl Chunk {
    /// Returns the number of bits by which a byte of the chunk is shifted in the sum.
    fn shift_of(self, byte: u32) -> u32 {
        8 * (byte - self.first) + self.shift
    }

    fn holds(self, byte: u32) -> bool {
        (self.first..self.first + self.bytes).contains(&byte)
    }

    fn each_byte(self) -> Range<u32> {
        self.first..self.first + self.bytes
    }
}

/// Returns the maximum sum of chunks.
fn most_of(chunks: &[Chunk]) -> u64 {
    let most = |chunk: &Chunk| bits::one::mask((8 * chunk.bytes + chunk.shift).min(48));
    chunks.iter().map(most).sum()
}

/// Returns the chunks of a header in the packet, or none if its parts are not whole bytes.
fn chunks_of(parts: &[Part], header: HeaderId) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    for part in parts.iter().filter(|part| part.header == header) {
        let bit = part.bit;
        if [bit, part.at, part.width].iter().any(|bits| bits % 8 != 0) {
            return None;
        }
        let mut done = 0;
        while done < part.width {
            let is_odd = (part.at + done) % 16 != 0;
            let bits = match part.width - done {
                _ if is_odd => 8,
                32.. => 32,
                16.. => 16,
                _ => 8,
            };
            chunks.push(Chunk {
                first: (bit + done) / 8,
                bytes: bits / 8,
                shift: if is_odd { 8 } else { 0 },
            });
            done += bits;
        }
    }
    Some(chunks)
}

/// Variables that cache the sum of a header in the packet. `is_known` says if the header was summed
/// on the packet's path, which is mostly a constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderSum {
    pub(super) sum: super::Variable,
    pub(super) is_known: super::Variable,
}

/// Cached sum of a header, and the chunks in it.
#[derive(Debug)]
pub(super) struct Summed {
    kept: HeaderSum,
    chunks: Vec<Chunk>,
}

/// Returns the chunks to subtract from the sum of `all` to get the sum of `wanted`, shifted as they
/// were added. Returns none if `wanted` has other bytes, or bytes at another position in their
/// words.
fn without(all: &[Chunk], wanted: &[Chunk]) -> Option<Vec<Chunk>> {
    let place = |byte: u32, chunks: &[Chunk]| {
        let mut holding = chunks.iter().filter(|chunk| chunk.holds(byte));
        let place = holding.next().map(|chunk| chunk.shift_of(byte) % 16);
        // Bytes that were added twice cannot be separated.
        place.filter(|_| holding.next().is_none())
    };
    let mut bytes = wanted.iter().flat_map(|chunk| chunk.each_byte());
    let is_part = |byte: u32| place(byte, wanted).is_some_and(|at| place(byte, all) == Some(at));
    if !bytes.all(is_part) {
        return None;
    }
    let mut gone: Vec<Chunk> = Vec::new();
    for chunk in all {
        for byte in chunk
            .each_byte()
            .filter(|&byte| place(byte, wanted).is_none())
        {
            let shift = chunk.shift_of(byte);
            match gone.last_mut() {
                // Two bytes that were loaded together are loaded together again. There is no
                // three-byte load.
                Some(last)
                    if last.bytes == 1 && last.first + 1 == byte && last.shift + 8 == shift =>
                {
                    last.bytes = 2;
                }
                _ => gone.push(Chunk {
                    first: byte,
                    bytes: 1,
                    shift,
                }),
            }
        }
    }
    Some(gone)
}

/// Sum that is not folded yet.
#[derive(Clone, Copy)]
struct Sum {
    value: Value,
    /// Upper bound of the sum.
    most: u64,
}

/// Sum of words as numbers, and sum of byte-swapped words.
struct Sums {
    numbers: Sum,
    swapped: Sum,
}

impl Sums {
    fn of(zero: Value) -> Sums {
        let nothing = Sum {
            value: zero,
            most: 0,
        };
        Sums {
            numbers: nothing,
            swapped: nothing,
        }
    }
}

impl Translator<'_> {
    /// Translates an operation on ones' complement sums inline, if possible. Returns false if it is
    /// not.
    pub(super) fn checksum_call(&mut self, call: &Call) -> Result<bool, Unsupported> {
        match (call.op, &call.operands[..]) {
            (
                Op::VerifyChecksum,
                [
                    Operand::Number(algorithm),
                    Operand::In(cond),
                    Operand::Data(data),
                    Operand::In(given),
                ],
            ) if self.is_summed(*algorithm, data)? && !is_wide(self.ty(given)?) => {
                self.verify_checksum(cond, data, given)?;
            }
            (
                Op::UpdateChecksum,
                [
                    Operand::Number(algorithm),
                    Operand::In(cond),
                    Operand::Data(data),
                    Operand::Out(to),
                ],
            ) if self.is_summed(*algorithm, data)? => {
                self.if_holds(cond, |this| {
                    let to = this.locate(to)?;
                    let sum = this.sum(data)?;
                    let sum = this.ones_complement(sum);
                    this.store_number(to, sum);
                    Ok(())
                })?;
            }
            (Op::VerifyChecksum | Op::VerifyChecksumWithPayload, _) => {
                if let Some(fusing) = self.fused.as_mut() {
                    fusing.verifies_by_helper = true;
                }
                return Ok(false);
            }
            (op, operands) => return self.running_call(op, call.instance, operands),
        }
        Ok(true)
    }

    fn verify_checksum(
        &mut self,
        cond: &Expr,
        data: &[Expr],
        given: &Expr,
    ) -> Result<(), Unsupported> {
        let (yes, after) = (self.b.create_block(), self.b.create_block());
        self.decide(cond, yes, after)?;
        self.start_sealed(yes);
        let sum = self.sum(data)?;
        let sum = self.ones_complement(sum);
        let width = self.ty(given)?.width();
        let sum = self.cut(sum, width);
        let given = self.small(given)?;
        let differs = self.b.ins().icmp(IntCC::NotEqual, sum, given);
        match self.fused.as_ref().map(|fusing| fusing.is_wrong) {
            Some(is_wrong) => {
                let before = self.b.use_var(is_wrong);
                let differs = self.b.ins().uextend(I64, differs);
                let either = self.b.ins().bor(before, differs);
                self.b.def_var(is_wrong, either);
            }
            None => {
                let wrong = self.cold_block();
                self.branch(differs, wrong, after);
                self.start_sealed(wrong);
                self.help(Helper::WrongChecksum, &[]);
            }
        }
        self.jump(after);
        self.start_sealed(after);
        Ok(())
    }

    /// Writes a checksum error that is held in a variable to the context.
    pub(super) fn show_wrong(&mut self) {
        let Some(is_wrong) = self.fused.as_ref().map(|fusing| fusing.is_wrong) else {
            return;
        };
        let is_wrong = self.b.use_var(is_wrong);
        let (wrong, after) = (self.cold_block(), self.b.create_block());
        self.branch(is_wrong, wrong, after);
        self.start_sealed(wrong);
        self.help(Helper::WrongChecksum, &[]);
        self.jump(after);
        self.start_sealed(after);
    }

    /// Returns 1 if a checksum did not verify.
    pub(super) fn checksum_error(&mut self) -> Value {
        let Some(fusing) = &self.fused else {
            return self.help(Helper::ChecksumError, &[]);
        };
        let (is_wrong, by_helper) = (fusing.is_wrong, fusing.verifies_by_helper);
        let is_wrong = self.b.use_var(is_wrong);
        if !by_helper {
            return is_wrong;
        }
        let told = self.told_error();
        self.b.ins().bor(is_wrong, told)
    }

    /// Returns 1 if a helper found a checksum error, which is possible only if the context has
    /// begun.
    fn told_error(&mut self) -> Value {
        let flags = self.flags();
        let has_begun = self.b.ins().band_imm(flags, flags::BEGUN as i64);
        let ask = self.cold_block();
        let (after, result) = self.block_with(1);
        let zero = self.number(0);
        self.b
            .ins()
            .brif(has_begun, ask, &[], after, &[zero.into()]);
        self.start_sealed(ask);
        let error = self.help(Helper::ChecksumError, &[]);
        self.jump_with(after, &[error]);
        self.start_sealed(after);
        result[0]
    }

    /// Translates calls of running sums, which are held in variables on the fast path.
    fn running_call(
        &mut self,
        op: Op,
        instance: Option<ExternId>,
        operands: &[Operand],
    ) -> Result<bool, Unsupported> {
        let running = instance.and_then(|id| self.fused.as_ref()?.sums.get(&id));
        let Some(&running) = running else {
            return Ok(false);
        };
        match (op, operands) {
            (Op::InternetChecksumClear, _) => {
                let zero = self.number(0);
                self.b.def_var(running, zero);
            }
            (Op::InternetChecksumAdd, [Operand::Data(data)]) => {
                let more = self.sums(data)?;
                self.add_running(running, more);
            }
            (Op::InternetChecksumSubtract, [Operand::Data(data)]) => {
                // RFC 1624: subtraction adds the complement.
                let less = self.sum(data)?;
                let value = self.ones_complement(less);
                let mut sums = Sums::of(self.number(0));
                sums.numbers = Sum {
                    value,
                    most: 0xffff,
                };
                self.add_running(running, sums);
            }
            (Op::InternetChecksumGet, [Operand::Out(to)]) => {
                let sum = self.running_sum(running);
                let sum = self.ones_complement(sum);
                let to = self.locate(to)?;
                self.store_number(to, sum);
            }
            (Op::InternetChecksumGetState, [Operand::Out(to)]) => {
                let sum = self.running_sum(running);
                let to = self.locate(to)?;
                self.store_number(to, sum);
            }
            (Op::InternetChecksumSetState, [Operand::In(state)]) => {
                let state = self.small(state)?;
                let state = self.cut(state, 16);
                let state = self.swapped(state);
                self.b.def_var(running, state);
            }
            _ => return Err(self.unsupported("a checksum called so")),
        }
        Ok(true)
    }

    /// Adds to a running sum, which has at most 32 bits and consists of byte-swapped words.
    fn add_running(&mut self, running: super::Variable, more: Sums) {
        let Sums { numbers, swapped } = more;
        let mut sum = swapped;
        if numbers.most > 0 {
            let folded = self.folded(numbers);
            let folded = self.swapped(folded);
            self.add_word(&mut sum, folded, 16);
        }
        let before = self.b.use_var(running);
        self.add_word(&mut sum, before, 32);
        let sum = self.halves_added(sum.value, I64);
        self.b.def_var(running, sum);
    }

    /// Returns a running sum folded to 16 bits, as a number.
    fn running_sum(&mut self, running: super::Variable) -> Value {
        let value = self.b.use_var(running);
        let most = u32::MAX.into();
        let folded = self.folded(Sum { value, most });
        self.swapped(folded)
    }

    /// Swaps the bytes of a 16-bit number.
    fn swapped(&mut self, number: Value) -> Value {
        let half = self.b.ins().ireduce(I16, number);
        let half = self.b.ins().bswap(half);
        self.b.ins().uextend(I64, half)
    }

    /// Declares variables for running sums that only the operations of [`Self::running_call`] use.
    pub(super) fn running_sums(&mut self) {
        let program = self.program;
        let Some(fusing) = self.fused.as_mut() else {
            return;
        };
        for (id, instance) in program.externs.iter() {
            let is_sum = matches!(instance.kind, ExternKind::InternetChecksum);
            if is_sum && !fusing.homes.sums_by_helper.contains(&id) {
                fusing.sums.insert(id, self.b.declare_var(super::I64));
            }
        }
    }

    /// Clears the running sums.
    pub(super) fn clear_sums(&mut self) {
        let zero = self.number(0);
        for sum in self.fused.iter().flat_map(|fusing| fusing.sums.values()) {
            self.b.def_var(*sum, zero);
        }
    }

    /// Writes the running sums to the context.
    pub(super) fn show_sums(&mut self) {
        let sums = self.fused.iter().flat_map(|fusing| &fusing.sums);
        let mut sums: Vec<_> = sums.map(|(id, sum)| (*id, *sum)).collect();
        sums.sort_by_key(|(id, _)| id.get());
        for (id, sum) in sums {
            let (id, sum) = (self.number(id.get().into()), self.running_sum(sum));
            self.help(Helper::SetSum, &[id, sum]);
        }
    }

    fn store_number(&mut self, to: super::place::Located, value: Value) {
        let value = self.cut(value, to.ty.width().min(64));
        let mut limbs = vec![value];
        let zero = self.number(0);
        limbs.resize(to.limbs() as usize, zero);
        self.store(to, &limbs);
    }

    fn is_summed(&self, algorithm: u64, data: &[Expr]) -> Result<bool, Unsupported> {
        let is_sum = HashAlgorithm::from_number(algorithm) == Some(HashAlgorithm::Csum16);
        Ok(is_sum && is_inline(data, |expr| self.ty(expr).ok()))
    }

    /// Returns the complement of a folded sum.
    fn ones_complement(&mut self, sum: Value) -> Value {
        self.b.ins().bxor_imm(sum, 0xffff)
    }

    /// Folds a sum of words as numbers, and returns its complement.
    pub(super) fn complement_of_sum(&mut self, value: Value, most: u64) -> Value {
        let folded = self.folded(Sum { value, most });
        self.ones_complement(folded)
    }

    /// Returns the ones' complement sum of data, folded to 16 bits. The sum of swapped words is
    /// swapped after folding (RFC 1071, 2 (B)).
    fn sum(&mut self, data: &[Expr]) -> Result<Value, Unsupported> {
        let Sums { numbers, swapped } = self.sums(data)?;
        let mut sum = numbers;
        if swapped.most > 0 {
            let folded = self.folded(swapped);
            let folded = self.swapped(folded);
            self.add_word(&mut sum, folded, 16);
        }
        Ok(self.folded(sum))
    }

    fn sums(&mut self, data: &[Expr]) -> Result<Sums, Unsupported> {
        let mut sums = Sums::of(self.number(0));
        let parts = self.add_values(&mut sums, data)?;
        let mut headers: Vec<HeaderId> = Vec::new();
        for part in &parts {
            if !headers.contains(&part.header) {
                headers.push(part.header);
            }
        }
        for header in headers {
            self.add_header(&mut sums, header, &parts);
        }
        Ok(sums)
    }

    /// Adds the parts of a header in the packet. A header that was not extracted adds nothing,
    /// since its fields are zero.
    fn add_header(&mut self, sums: &mut Sums, header: HeaderId, parts: &[Part]) {
        let site = self.code.headers.get(header.get() as usize);
        let Some(total) = site.map(|site| site.fixed_bits) else {
            return;
        };
        let Some(offset) = self.offset_of(header) else {
            return;
        };
        let there = self.b.create_block();
        let (after, after_sums) = self.block_with(2);
        let is_there = self.is_there(offset);
        let before = [sums.numbers.value.into(), sums.swapped.value.into()];
        self.b.ins().brif(is_there, there, &[], after, &before);
        self.start_sealed(there);
        match chunks_of(parts, header) {
            Some(chunks) => {
                let sum = self.sum_in_packet(header, &chunks);
                self.add_sum(&mut sums.swapped, sum);
            }
            None => self.add_bits_in_packet(sums, header, total, parts),
        }
        self.jump_with(after, &[sums.numbers.value, sums.swapped.value]);
        self.start_sealed(after);
        sums.numbers.value = after_sums[0];
        sums.swapped.value = after_sums[1];
    }

    /// Returns the sum of chunks of a header as they are loaded. If the header was summed before,
    /// the parts that are not wanted are subtracted from the cached sum, as in RFC 1624. The
    /// unfolded sum is an ordinary number with a single zero.
    fn sum_in_packet(&mut self, header: HeaderId, chunks: &[Chunk]) -> Sum {
        let kept = self.fused.as_ref().and_then(|fusing| {
            let summed = fusing.summed.get(&header)?;
            let gone = without(&summed.chunks, chunks)?;
            let is_less = gone.len() + 1 < chunks.len();
            // The bound covers both paths. Bytes that were added separately may now be loaded
            // together and have a larger sum, where nothing was cached.
            let most = most_of(&summed.chunks).max(most_of(chunks));
            is_less.then_some((summed.kept, most, gone))
        });
        let Some((kept, most, gone)) = kept else {
            let value = self.add_chunks(header, chunks);
            self.keep_sum(header, chunks, value);
            let most = most_of(chunks);
            return Sum { value, most };
        };
        let (again, anew) = (self.b.create_block(), self.cold_block());
        let (after, sum) = self.block_with(1);
        let is_known = self.b.use_var(kept.is_known);
        self.branch(is_known, again, anew);
        self.start_sealed(again);
        let kept = self.b.use_var(kept.sum);
        let less = self.add_chunks(header, &gone);
        let value = self.b.ins().isub(kept, less);
        self.jump_with(after, &[value]);
        self.start_sealed(anew);
        let value = self.add_chunks(header, chunks);
        self.jump_with(after, &[value]);
        self.start_sealed(after);
        let value = sum[0];
        Sum { value, most }
    }

    /// Adds the chunks of a header as they are loaded.
    fn add_chunks(&mut self, header: HeaderId, chunks: &[Chunk]) -> Value {
        let bytes = self.bytes_of_header(header);
        let mut sum = None;
        for chunk in chunks {
            let (flags, first) = (in_bytes(), chunk.first as i32);
            let number = match chunk.bytes {
                4 => self.b.ins().uload32(flags, bytes, first),
                2 => self.b.ins().uload16(I64, flags, bytes, first),
                _ => self.b.ins().uload8(I64, flags, bytes, first),
            };
            let number = match chunk.shift {
                0 => number,
                shift => self.b.ins().ishl_imm(number, i64::from(shift)),
            };
            sum = Some(match sum {
                Some(sum) => self.b.ins().iadd(sum, number),
                None => number,
            });
        }
        match sum {
            Some(sum) => sum,
            None => self.number(0),
        }
    }

    /// Caches the sum of a header's chunks for later sums of a part of them. Only the first one is
    /// cached: a packet might not reach a later one, and the variable would have the old sum.
    fn keep_sum(&mut self, header: HeaderId, chunks: &[Chunk], value: Value) {
        let Some(fusing) = self.fused.as_mut() else {
            return;
        };
        let Some(&kept) = fusing.header_sums.get(&header) else {
            return;
        };
        if let Entry::Vacant(none) = fusing.summed.entry(header) {
            let chunks = chunks.to_vec();
            none.insert(Summed { kept, chunks });
            let yes = self.number(1);
            self.b.def_var(kept.sum, value);
            self.b.def_var(kept.is_known, yes);
        }
    }

    /// Adds parts of a header of `total` bits that are not whole bytes.
    fn add_bits_in_packet(
        &mut self,
        sums: &mut Sums,
        header: HeaderId,
        total: u32,
        parts: &[Part],
    ) {
        let bytes = self.bytes_of_header(header);
        for part in parts.iter().filter(|part| part.header == header) {
            let mut done = 0;
            while done < part.width {
                let (at, left) = (part.at + done, part.width - done);
                // Takes as many whole words as possible.
                let size = (64 - at % 16).min(left);
                let value = self.load_bits(bytes, part.bit + done, size, total)[0];
                self.add(&mut sums.numbers, value, (at, size));
                done += size;
            }
        }
    }

    fn add_sum(&mut self, sum: &mut Sum, more: Sum) {
        sum.value = match sum.most {
            0 => more.value,
            _ => self.b.ins().iadd(sum.value, more.value),
        };
        sum.most += more.most;
    }

    /// Adds bytes at a bit position of the data, as a little-endian number.
    fn add_swapped(&mut self, sum: &mut Sum, value: Value, (at, width): (u32, u32)) {
        match at % 16 {
            0 => self.add_word(sum, value, width),
            _ => {
                let value = self.b.ins().ishl_imm(value, 8);
                self.add_word(sum, value, width + 8);
            }
        }
    }

    fn add_value(&mut self, sums: &mut Sums, value: Value, (at, width): (u32, u32)) {
        match (at % 8, width) {
            (0, 8) => self.add_swapped(&mut sums.swapped, value, (at, width)),
            _ => self.add(&mut sums.numbers, value, (at, width)),
        }
    }

    /// Adds the data that is not in the packet. Returns the parts of the other. Adjacent fields in
    /// the packet become one part.
    fn add_values(&mut self, sums: &mut Sums, data: &[Expr]) -> Result<Vec<Part>, Unsupported> {
        let mut parts: Vec<Part> = Vec::new();
        let mut at = 0;
        for expr in data {
            self.check_size()?;
            let width = self.ty(expr)?.width();
            let stands = match expr {
                Expr::Read(place) if place.dims.is_empty() => self.stands_in_packet(place.base),
                _ => None,
            };
            let is_next = |part: &Part, header, bit| {
                part.header == header && (part.bit + part.width, part.at + part.width) == (bit, at)
            };
            match (stands, parts.last_mut()) {
                (Some((header, bit)), Some(last)) if is_next(last, header, bit) => {
                    last.width += width;
                }
                (Some((header, bit)), _) => parts.push(Part {
                    header,
                    bit,
                    at,
                    width,
                }),
                (None, _) => {
                    let value = self.value(expr)?;
                    let mut at = at;
                    for (value, width) in pieces_of(&value, width) {
                        self.add_value(sums, value, (at, width));
                        at += width;
                    }
                }
            }
            at += width;
        }
        Ok(parts)
    }

    /// Adds a value at a bit position of the data.
    fn add(&mut self, sum: &mut Sum, value: Value, (at, width): (u32, u32)) {
        if width == 0 {
            return;
        }
        let behind = (at + width).next_multiple_of(16) - (at + width);
        if width + behind <= 32 {
            let value = self.b.ins().ishl_imm(value, i64::from(behind));
            return self.add_word(sum, value, width + behind);
        }
        // Adds the low 32 bits and the rest separately.
        let low = self.b.ins().ishl_imm(value, i64::from(behind));
        let low = self.cut(low, 32);
        self.add_word(sum, low, 32);
        let high = self.b.ins().ushr_imm(value, i64::from(32 - behind));
        self.add_word(sum, high, width + behind - 32);
    }

    fn add_word(&mut self, sum: &mut Sum, value: Value, bits: u32) {
        sum.value = match sum.most {
            0 => value,
            _ => self.b.ins().iadd(sum.value, value),
        };
        sum.most += bits::one::mask(bits.min(48));
    }

    /// Folds the sum to 16 bits. The result is zero only if all summands are.
    fn folded(&mut self, sum: Sum) -> Value {
        let Sum { mut value, most } = sum;
        if most > u32::MAX.into() {
            value = self.halves_added(value, I64);
        }
        if most > 0xffff {
            value = self.b.ins().ireduce(I32, value);
            let half = self.halves_added(value, I32);
            value = self.b.ins().uextend(I64, half);
        }
        value
    }

    /// Returns the ones' complement sum of a value's halves. The sum with the rotated value has it
    /// in its upper half, since the carry of the lower halves is added there.
    fn halves_added(&mut self, value: Value, ty: Type) -> Value {
        let half = i64::from(ty.bits() / 2);
        let swapped = self.b.ins().rotl_imm(value, half);
        let sum = self.b.ins().iadd(value, swapped);
        self.b.ins().ushr_imm(sum, half)
    }
}

/// Returns true if data is summed inline.
pub(super) fn is_inline(data: &[Expr], ty: impl Fn(&Expr) -> Option<ScalarTy>) -> bool {
    let widths = data.iter().map(|expr| match ty(expr) {
        Some(ScalarTy::Varbit(_)) | None => None,
        Some(ty) => (!is_wide(ty)).then_some(ty.width()),
    });
    let total: Option<u32> = widths.sum();
    total.is_some_and(|total| total <= INLINE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the sum of a header's bytes as native code does.
    fn sum(chunks: &[Chunk], header: &[u8]) -> u64 {
        let number = |chunk: &Chunk| {
            let bytes = chunk.each_byte().rev();
            bytes.fold(0, |number, byte| {
                number << 8 | u64::from(header[byte as usize])
            }) << chunk.shift
        };
        chunks.iter().map(number).sum()
    }

    fn folded(mut sum: u64) -> u64 {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    /// Returns parts of a header that are runs of whole bytes, at the same position in the data.
    fn parts(runs: &[(u32, u32)]) -> Vec<Part> {
        let part = |&(first, bytes): &(u32, u32)| Part {
            header: HeaderId::new(0),
            bit: 8 * first,
            at: 8 * first,
            width: 8 * bytes,
        };
        runs.iter().map(part).collect()
    }

    fn chunks(runs: &[(u32, u32)]) -> Vec<Chunk> {
        chunks_of(&parts(runs), HeaderId::new(0)).expect("whole bytes")
    }

    #[test]
    fn a_sum_without_some_bytes_is_the_sum_of_the_others_also_if_that_is_zero() {
        let all = chunks(&[(0, 10), (12, 8)]);
        let subsets: [&[(u32, u32)]; 5] = [
            &[(0, 8), (9, 1), (12, 8)],
            &[(0, 10), (16, 4)],
            &[(0, 1), (3, 5), (9, 1), (13, 6)],
            &[(12, 8)],
            &[(1, 1)],
        ];
        for wanted in subsets.map(chunks) {
            let gone = without(&all, &wanted).expect("it is a part");
            for seed in 0..300u32 {
                // One byte in three is zero. In some cases all wanted bytes are.
                let mut header: Vec<u8> = (0..20u32)
                    .map(|i| {
                        (seed.wrapping_mul(0x9e37_79b9).rotate_left(i * 3) as u8)
                            * u8::from((seed + i) % 3 > 0)
                    })
                    .collect();
                if seed % 5 == 0 {
                    for byte in wanted.iter().flat_map(|chunk| chunk.each_byte()) {
                        header[byte as usize] = 0;
                    }
                }
                let left = sum(&all, &header) - sum(&gone, &header);
                assert_eq!(folded(left), folded(sum(&wanted, &header)));
                assert!(sum(&all, &header) <= most_of(&all));
            }
        }
    }

    #[test]
    fn a_sum_is_not_used_for_bytes_that_it_has_not_or_has_elsewhere_or_twice() {
        let all = chunks(&[(0, 8)]);
        assert_eq!(without(&all, &chunks(&[(4, 6)])), None);
        let mut moved = parts(&[(2, 4)]);
        moved[0].at += 8;
        let moved = chunks_of(&moved, HeaderId::new(0)).expect("whole bytes");
        assert_eq!(without(&all, &moved), None);
        let twice = chunks(&[(0, 8), (0, 2)]);
        assert_eq!(without(&twice, &chunks(&[(0, 4)])), None);
        assert_eq!(without(&all, &chunks(&[(0, 4), (0, 4)])), None);
    }
}
