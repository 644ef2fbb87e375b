//! Hashes of field lists. The fields are joined to words in native code, and a helper computes a
//! CRC of the words. Other sums are computed inline.

use cranelift_codegen::ir::{InstBuilder, Value};
use exec::Unsupported;
use ir::{BinOp, Call, Expr, ExternKind, HashAlgorithm, Op, Operand, Place, ScalarTy, limbs_of};

use super::Translator;
use super::emit::pieces_of;
use super::expr::is_wide;
use crate::helpers::Helper;

/// Maximum number of data bits that are joined inline.
const INLINE_BITS: u32 = 4096;

/// Operands of a hash.
struct Hash<'c> {
    algorithm: HashAlgorithm,
    /// Base and maximum of the result.
    range: Option<(&'c Expr, &'c Expr)>,
    data: &'c [Expr],
    to: &'c Place,
    /// True if bits that are missing in the first byte come before the data, else after them.
    pads_front: bool,
}

/// Number with an upper bound.
struct Bounded {
    value: Value,
    most: u64,
}

impl Translator<'_> {
    /// Translates a hash inline, if possible. Returns false if it is not.
    pub(super) fn hash_call(&mut self, call: &Call) -> Result<bool, Unsupported> {
        let value = match self.hash_ahead(call) {
            None => self.hash_value(call)?,
            known => known,
        };
        let (Some(value), Some(hash)) = (value, self.operands_of_hash(call)) else {
            return Ok(false);
        };
        let to = self.locate(hash.to)?;
        let mut limbs = self.zeros(to.limbs() as usize);
        limbs[0] = value;
        self.store(to, &limbs);
        Ok(true)
    }

    /// Returns the result of a hash that is computed inline, or none if it is not.
    pub(super) fn hash_value(&mut self, call: &Call) -> Result<Option<Value>, Unsupported> {
        let Some(hash) = self.operands_of_hash(call) else {
            return Ok(None);
        };
        let Some(bits) = self.bits_of_data(hash.data)? else {
            return Ok(None);
        };
        let to = self.locate(hash.to)?;
        if to.is_wide() || !is_inline(hash.algorithm) {
            return Ok(None);
        }
        if let Some((base, max)) = hash.range {
            let limbs = [self.ty(base)?, self.ty(max)?, to.ty].map(limbs_of);
            if limbs != [1; 3] {
                return Ok(None);
            }
        }
        let words = self.words_of_data(&hash, bits)?;
        let Bounded { value, most } = self.hash_of_words(hash.algorithm, &words, bits);
        let value = match hash.range {
            Some((base, max)) => {
                let rest = self.remainder(value, most, max)?;
                let base = self.small(base)?;
                self.b.ins().iadd(base, rest)
            }
            None => value,
        };
        Ok(Some(self.cut(value, to.ty.width().min(64))))
    }

    fn operands_of_hash<'c>(&self, call: &'c Call) -> Option<Hash<'c>> {
        let of_instance = || match self.program.externs.get(call.instance?)?.kind {
            ExternKind::Hash { algorithm, .. } => Some(algorithm),
            _ => None,
        };
        match (call.op, &call.operands[..]) {
            (
                Op::Hash,
                [
                    Operand::Number(algorithm),
                    Operand::In(base),
                    Operand::In(max),
                    Operand::Data(data),
                    Operand::Out(to),
                ],
            ) => Some(Hash {
                algorithm: HashAlgorithm::from_number(*algorithm)?,
                range: Some((base, max)),
                data,
                to,
                pads_front: false,
            }),
            (
                Op::HashGetBase,
                [
                    Operand::In(base),
                    Operand::In(max),
                    Operand::Data(data),
                    Operand::Out(to),
                ],
            ) => Some(Hash {
                algorithm: of_instance()?,
                range: Some((base, max)),
                data,
                to,
                pads_front: true,
            }),
            (Op::HashGet, [Operand::Data(data), Operand::Out(to)]) => Some(Hash {
                algorithm: of_instance()?,
                range: None,
                data,
                to,
                pads_front: true,
            }),
            _ => None,
        }
    }

    /// Returns the number of bits of the data, or none if they are not joined inline.
    fn bits_of_data(&self, data: &[Expr]) -> Result<Option<u32>, Unsupported> {
        let mut bits = 0;
        for expr in data {
            let ty = self.ty(expr)?;
            if is_wide(ty) || matches!(ty, ScalarTy::Varbit(_)) {
                return Ok(None);
            }
            bits += ty.width();
        }
        Ok((bits <= INLINE_BITS).then_some(bits))
    }

    /// Returns the data as words, most significant bit first, with zeros after them.
    fn words_of_data(&mut self, hash: &Hash<'_>, bits: u32) -> Result<Vec<Value>, Unsupported> {
        let mut pieces = Vec::new();
        if hash.pads_front {
            pieces.push((self.number(0), bits.wrapping_neg() % 8));
        }
        for expr in hash.data {
            let width = self.ty(expr)?.width();
            let value = self.value(expr)?;
            pieces.extend(pieces_of(&value, width));
        }
        Ok(self.words(&pieces))
    }

    fn hash_of_words(&mut self, algorithm: HashAlgorithm, words: &[Value], bits: u32) -> Bounded {
        let bytes = bits.div_ceil(8);
        match algorithm {
            HashAlgorithm::Xor16 => Bounded {
                value: self.xor_of_words(words),
                most: 0xffff,
            },
            HashAlgorithm::Csum16 => Bounded {
                value: self.sum_of_words(words),
                most: 0xffff,
            },
            HashAlgorithm::Identity => Bounded {
                value: match words {
                    [] => self.number(0),
                    [first, ..] => {
                        let unused = 64 - 8 * bytes.min(8);
                        self.b.ins().ushr_imm(*first, i64::from(unused))
                    }
                },
                most: bits::one::mask((8 * bytes).min(64)),
            },
            HashAlgorithm::Crc16 => Bounded {
                value: self.crc_of_words(Helper::Crc16, words, bytes),
                most: 0xffff,
            },
            _ => Bounded {
                value: self.crc_of_words(Helper::Crc32, words, bytes),
                most: u32::MAX.into(),
            },
        }
    }

    fn crc_of_words(&mut self, helper: Helper, words: &[Value], bytes: u32) -> Value {
        let slot = self.temporary(words.len() as u32);
        for (&word, slot) in words.iter().zip(slot..) {
            self.store_in_frame(slot, word);
        }
        self.compute_with(helper, &[slot.into(), bytes.into()])
    }

    /// Returns the XOR of all 16-bit words.
    fn xor_of_words(&mut self, words: &[Value]) -> Value {
        let mut xor = self.number(0);
        for &word in words {
            xor = self.b.ins().bxor(xor, word);
        }
        for half in [32, 16] {
            let high = self.b.ins().ushr_imm(xor, half);
            xor = self.b.ins().bxor(xor, high);
        }
        self.cut(xor, 16)
    }

    /// Returns RFC 1071's checksum.
    fn sum_of_words(&mut self, words: &[Value]) -> Value {
        let mut sum = self.number(0);
        for &word in words {
            let (high, low) = (self.b.ins().ushr_imm(word, 32), self.cut(word, 32));
            let both = self.b.ins().iadd(high, low);
            sum = self.b.ins().iadd(sum, both);
        }
        let most = words.len() as u64 * 2 * u64::from(u32::MAX);
        self.complement_of_sum(sum, most)
    }

    /// Returns a number's remainder, 0 if the divisor is 0.
    fn remainder(&mut self, value: Value, most: u64, divisor: &Expr) -> Result<Value, Unsupported> {
        let known = match divisor {
            Expr::Const(_, number) => number.to_u64(),
            _ => None,
        };
        match known {
            Some(number) if number > most => Ok(value),
            Some(number) if number.is_power_of_two() => {
                Ok(self.b.ins().band_imm(value, number as i64 - 1))
            }
            _ => {
                let divisor = self.small(divisor)?;
                Ok(self.narrow_binary(BinOp::Mod, 64, false, value, divisor))
            }
        }
    }
}

/// Returns true if an algorithm has no parameter that the control plane sets.
fn is_inline(algorithm: HashAlgorithm) -> bool {
    match algorithm {
        HashAlgorithm::Crc32
        | HashAlgorithm::TargetDefault
        | HashAlgorithm::Crc16
        | HashAlgorithm::Identity
        | HashAlgorithm::Csum16
        | HashAlgorithm::Xor16 => true,
        HashAlgorithm::Crc32Custom
        | HashAlgorithm::Crc16Custom
        | HashAlgorithm::Random
        | HashAlgorithm::Toeplitz => false,
    }
}
