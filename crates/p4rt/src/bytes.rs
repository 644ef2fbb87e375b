//! Conversion of numbers to and from byte strings (section "Bytestrings"). They are big-endian.
//! Requests may have any length that holds the number; answers have the shortest.

use bits::Value;
use tonic::Code;

use crate::request_error::{Checked, RequestError, refuse};

/// Decodes an unsigned number.
pub(crate) fn unsigned(bytes: &[u8], width: u32) -> Checked<Value> {
    check_some(bytes)?;
    Value::from_be_bytes(bytes, width).map_err(|_| too_wide(bytes, width))
}

/// Decodes a number in two's complement.
pub(crate) fn signed(bytes: &[u8], width: u32) -> Checked<Value> {
    check_some(bytes)?;
    let is_negative = bytes[0] & 0x80 != 0;
    let fill = if is_negative { 0xff } else { 0 };
    // Bits beyond the width must all equal the sign, and so must the highest bit of the type.
    let spare = (bytes.len() * 8).saturating_sub(width as usize);
    let (whole, rest) = (spare / 8, spare % 8);
    let fits_whole = bytes[..whole].iter().all(|&byte| byte == fill);
    let fits_rest = bytes.get(whole).is_none_or(|&byte| {
        let checked = 0xff_u8.checked_shl(7 - rest as u32).unwrap_or(0);
        spare == 0 || byte & checked == fill & checked
    });
    if width == 0 || !(fits_whole && fits_rest) {
        return Err(too_wide(bytes, width));
    }
    let wanted = width.div_ceil(8) as usize;
    let mut padded = vec![fill; wanted.saturating_sub(bytes.len())];
    padded.extend_from_slice(&bytes[bytes.len().saturating_sub(wanted)..]);
    if let (Some(first), 1..) = (padded.first_mut(), width % 8) {
        *first &= 0xff >> (8 - width % 8);
    }
    Value::from_be_bytes(&padded, width).map_err(|_| too_wide(bytes, width))
}

/// Encodes a number in two's complement as the shortest byte string.
pub(crate) fn from_signed(value: &Value) -> Vec<u8> {
    let width = value.width();
    let mut bytes = value.to_be_bytes();
    let Some(first) = bytes.first_mut() else {
        return vec![0];
    };
    let is_negative = width > 0 && *first >> ((width - 1) % 8) & 1 == 1;
    let fill = if is_negative { 0xff } else { 0 };
    if is_negative && !width.is_multiple_of(8) {
        *first |= 0xff << (width % 8);
    }
    let is_spare = |pair: &[u8]| pair[0] == fill && (pair[1] ^ fill) & 0x80 == 0;
    let spare = bytes.windows(2).take_while(|pair| is_spare(pair)).count();
    bytes.split_off(spare)
}

fn check_some(bytes: &[u8]) -> Checked {
    if bytes.is_empty() {
        return refuse(Code::OutOfRange, "the value is an empty byte string");
    }
    Ok(())
}

fn too_wide(bytes: &[u8], width: u32) -> RequestError {
    let message = format!("the value {} does not fit into {width} bits", hex(bytes));
    RequestError::new(Code::OutOfRange, message)
}

/// Formats bytes for messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().take(32).map(|byte| format!("{byte:02x}"));
    let more = if bytes.len() > 32 { "..." } else { "" };
    format!("0x{}{more}", digits.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: &Checked<Value>) -> Option<u64> {
        value.as_ref().ok().and_then(Value::to_u64)
    }

    /// The specification's table "Examples of Valid Bytestring Encoding".
    #[test]
    fn the_specification_s_valid_strings_are_read() {
        let cases: [(u32, u64, &[u8]); 7] = [
            (8, 99, b"\x63"),
            (16, 99, b"\x00\x63"),
            (16, 99, b"\x63"),
            (16, 12388, b"\x30\x64"),
            (16, 12388, b"\x00\x30\x64"),
            (12, 99, b"\x00\x63"),
            (12, 99, b"\x00\x00\x63"),
        ];
        for (width, expected, bytes) in cases {
            assert_eq!(number(&unsigned(bytes, width)), Some(expected));
        }
        let signed_cases: [(u32, i64, &[u8]); 7] = [
            (8, 99, b"\x63"),
            (8, -99, b"\x9d"),
            (8, -99, b"\xff\x9d"),
            (12, -739, b"\xfd\x1d"),
            (16, 0, b"\x00\x00"),
            (16, 0, b"\x00"),
            (64, -1, b"\xff"),
        ];
        for (width, expected, bytes) in signed_cases {
            let mask = u64::MAX >> (64 - width);
            assert_eq!(number(&signed(bytes, width)), Some(expected as u64 & mask));
        }
    }

    /// The specification's table "Examples of Invalid Bytestring Encoding".
    #[test]
    fn the_specification_s_invalid_strings_are_out_of_range() {
        let cases: [(u32, &[u8]); 6] = [
            (8, b"\x01\x63"),
            (8, b""),
            (16, b"\x01\x00\x63"),
            (12, b"\x10\x63"),
            (12, b"\x01\x00\x63"),
            (12, b"\x00\x40\x63"),
        ];
        let code = |value: Checked<Value>| value.err().map(|fault| fault.code);
        for (width, bytes) in cases {
            assert_eq!(code(unsigned(bytes, width)), Some(Code::OutOfRange));
        }
        let signed_cases: [(u32, &[u8]); 3] = [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")];
        for (width, bytes) in signed_cases {
            assert_eq!(code(signed(bytes, width)), Some(Code::OutOfRange));
        }
    }

    #[test]
    fn answers_have_the_shortest_string() {
        let cases: [(u32, &[u8], &[u8]); 7] = [
            (8, b"\x63", b"\x63"),
            (8, b"\xff\x9d", b"\x9d"),
            (12, b"\xfd\x1d", b"\xfd\x1d"),
            (16, b"\x00\x00", b"\x00"),
            (16, b"\xff\xff", b"\xff"),
            (16, b"\x00\x80", b"\x00\x80"),
            (1, b"\xff", b"\xff"),
        ];
        for (width, bytes, shortest) in cases {
            let value = signed(bytes, width).expect("it fits");
            assert_eq!(from_signed(&value), shortest, "int<{width}>");
        }
    }
}
