//! Values of fields as text.

use std::net::Ipv4Addr;

use crate::model::{FieldValue, MAX_FIELD_BITS};

/// Returns the mask of the first `length` bits.
pub(super) fn all_ones(length: u16) -> FieldValue {
    let bits = u128::MAX
        .checked_shl(u32::from(MAX_FIELD_BITS.saturating_sub(length)))
        .unwrap_or(0);
    bits.to_be_bytes()
}

/// Returns the first `length` bits of a value as a number.
pub(super) fn number(value: FieldValue, length: u16) -> u128 {
    let bits = u128::from_be_bytes(value);
    bits.checked_shr(u32::from(MAX_FIELD_BITS.saturating_sub(length)))
        .unwrap_or(0)
}

/// Writes the value of a field.
pub(super) fn write(value: FieldValue, length: u16) -> String {
    format!("{:#x}", number(value, length))
}

/// Reads the value of a field: hexadecimal, decimal, an IPv4 or an Ethernet address.
///
/// # Errors
/// Cause and remedy.
pub(super) fn read(text: &str, length: u16) -> Result<FieldValue, String> {
    if length > MAX_FIELD_BITS {
        return Err(format!(
            "a field with a value has at most {MAX_FIELD_BITS} bits, not {length}; use several fields"
        ));
    }
    let needs = |bits: u16, kind: &str| match length == bits {
        true => Ok(()),
        false => Err(format!(
            "`{text}` is an {kind} address of {bits} bits, and the field has {length}; write the value as 0x..."
        )),
    };
    let number = if let Some(digits) = text.strip_prefix("0x") {
        u128::from_str_radix(digits, 16).ok()
    } else if text.contains(':') {
        needs(48, "Ethernet")?;
        ethernet(text)
    } else if text.contains('.') {
        needs(32, "IPv4")?;
        let address: Option<Ipv4Addr> = text.parse().ok();
        address.map(|address| u32::from(address).into())
    } else {
        text.parse().ok()
    };
    let number = number.ok_or_else(|| {
        format!(
            "`{text}` is no value; write a number (2048 or 0x800), an IPv4 address or an Ethernet address"
        )
    })?;
    let width = u128::BITS - number.leading_zeros();
    if width > u32::from(length) {
        return Err(format!(
            "`{text}` needs {width} bits, and the field has {length}; make the field wider or the value smaller"
        ));
    }
    let free = u32::from(MAX_FIELD_BITS - length);
    Ok(number.checked_shl(free).unwrap_or(0).to_be_bytes())
}

fn ethernet(text: &str) -> Option<u128> {
    let bytes = text.split(':').map(|byte| match byte.len() {
        1 | 2 => u8::from_str_radix(byte, 16).ok(),
        _ => None,
    });
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    let number = bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u128::from(*byte));
    (bytes.len() == 6).then_some(number)
}
