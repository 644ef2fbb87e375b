//! Conversion of values to and from P4Runtime's byte strings (section "Bytestrings").

use bits::Value;
use entries::ValueTy;
use ir::ScalarTy;

/// Decodes a byte string. Bits beyond the width are sign bits, or a server's error, and are
/// ignored.
pub(crate) fn read(ty: ValueTy, bytes: &[u8]) -> Value {
    let given = bytes.len() as u32 * 8;
    let Ok(value) = Value::from_be_bytes(bytes, given) else {
        return Value::zero(ty.width());
    };
    match ty {
        ValueTy::Text => value,
        ValueTy::Scalar(ScalarTy::Int(width)) if given < width && is_negative(&value) => {
            // Sign-extends the value.
            value.not().resized(width).not()
        }
        ValueTy::Scalar(ty) => value.resized(ty.width()),
    }
}

fn is_negative(value: &Value) -> bool {
    let top = Value::prefix_mask(1.min(value.width()), value.width());
    !value.and(&top).is_zero()
}

/// Encodes a value as the shortest byte string. Signed numbers use all bytes of their width,
/// sign-extended.
pub(crate) fn write(ty: ValueTy, value: &Value) -> Vec<u8> {
    match ty {
        ValueTy::Text => value.to_be_bytes(),
        ValueTy::Scalar(ScalarTy::Int(width)) if is_negative(value) => {
            let whole = width.div_ceil(8) * 8;
            value.not().resized(whole).not().to_be_bytes()
        }
        ValueTy::Scalar(ScalarTy::Int(_)) => value.to_be_bytes(),
        ValueTy::Scalar(_) => value.to_p4rt_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers_come_back_from_strings_of_any_length() {
        for width in [4, 8, 12, 16, 33] {
            let ty = ValueTy::Scalar(ScalarTy::Int(width));
            let one = Value::truncated(1, width);
            for value in [one.clone(), one.neg(), Value::zero(width)] {
                assert_eq!(read(ty, &write(ty, &value)), value, "{width} bits");
            }
            assert_eq!(read(ty, &[0xff]), one.neg());
        }
    }
}
