//! Values for people: the number, and its meaning.

use std::net::{Ipv4Addr, Ipv6Addr};

use bits::Value;
use ir::{DataTy, NamedTypeKind, Program, ScalarTy};
use serde::Serialize;

/// Maximum number of hexadecimal digits of a value in text. JSON has all.
const MAX_DIGITS: usize = 64;

/// Numbers below this are the same in decimal and hexadecimal.
const ONE_DIGIT: u64 = 10;

/// Minimum 32-bit number that is shown as an address (1.0.0.0).
const MIN_ADDRESS: u64 = 1 << 24;

/// A value, for machines (`value`, `width`) and for people (`text`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    /// `0x` and all digits of its width.
    pub(crate) value: String,
    /// Width in bits.
    width: u32,
    /// Text for people.
    pub(crate) text: String,
}

impl Reading {
    /// Formats a value of a scalar type. `data_ty` is its control-plane type, if it has one.
    pub(crate) fn new(
        program: &Program,
        ty: ScalarTy,
        data_ty: Option<&DataTy>,
        value: &Value,
    ) -> Reading {
        Reading {
            value: hex(value),
            width: value.width(),
            text: text(program, ty, data_ty, value),
        }
    }

    /// Returns true if the number is 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.value.chars().all(|digit| matches!(digit, '0' | 'x'))
    }
}

/// Formats a value as `0x` and all digits of its width.
fn hex(value: &Value) -> String {
    let digits = format!("{value}");
    let digits = digits.trim_start_matches("0x");
    let places = value.width().div_ceil(4).max(1) as usize;
    format!("0x{digits:0>places$}")
}

fn text(program: &Program, ty: ScalarTy, data_ty: Option<&DataTy>, value: &Value) -> String {
    match ty {
        ScalarTy::Bool => (!value.is_zero()).to_string(),
        ScalarTy::Error => match member(&program.errors, value) {
            Some(name) => format!("error.{name}"),
            None => format!("error number {value}"),
        },
        ScalarTy::Enum(id) => {
            let of = program.enums.get(id);
            match of.and_then(|of| Some((&of.name, member(&of.members, value)?))) {
                Some((name, member)) => format!("{name}.{member}"),
                None => format!("enum number {value}"),
            }
        }
        ScalarTy::Varbit(_) if value.width() == 0 => "empty".to_owned(),
        ScalarTy::Varbit(_) => format!("{} ({} bits)", cut(hex(value)), value.width()),
        ScalarTy::Int(_) => signed(value),
        ScalarTy::Bit(_) => unsigned(program, data_ty, value),
    }
}

fn member<'a>(members: &'a [String], value: &Value) -> Option<&'a str> {
    let at = usize::try_from(value.to_u64()?).ok()?;
    members.get(at).map(String::as_str)
}

fn cut(mut hex: String) -> String {
    if hex.len() > 2 + MAX_DIGITS {
        hex.truncate(2 + MAX_DIGITS);
        hex.push_str("...");
    }
    hex
}

/// Formats a two's complement number, if it has at most 64 bits.
fn signed(value: &Value) -> String {
    let width = value.width();
    let (Some(number), 1..=64) = (value.to_u64(), width) else {
        return cut(hex(value));
    };
    let number = ((number << (64 - width)) as i64) >> (64 - width);
    if number.unsigned_abs() < ONE_DIGIT {
        number.to_string()
    } else {
        format!("{number} ({})", hex(value))
    }
}

fn unsigned(program: &Program, data_ty: Option<&DataTy>, value: &Value) -> String {
    let meaning = data_ty.and_then(|ty| enum_member(program, ty, value));
    let number = value.to_u64();
    if let Some(digit) = number.filter(|number| *number < ONE_DIGIT)
        && !is_address(value)
    {
        return match meaning {
            Some(meaning) => format!("{digit} ({meaning})"),
            None => digit.to_string(),
        };
    }
    let decimal = number.filter(|_| !is_address(value) && value.width() <= 64);
    let more = [decimal.map(|n| n.to_string()), address(value), meaning];
    let more: Vec<String> = more.into_iter().flatten().collect();
    match more.is_empty() {
        true => cut(hex(value)),
        false => format!("{} ({})", cut(hex(value)), more.join(", ")),
    }
}

/// Returns true if values of this width are shown only as addresses: Ethernet and IPv6.
fn is_address(value: &Value) -> bool {
    matches!(value.width(), 48 | 128)
}

/// Formats the value as an address of its width.
pub(crate) fn address(value: &Value) -> Option<String> {
    let number = value.to_u128()?;
    match value.width() {
        32 => {
            let number = u32::try_from(number).ok()?;
            (u64::from(number) >= MIN_ADDRESS).then(|| Ipv4Addr::from(number).to_string())
        }
        48 => {
            let bytes = value.to_be_bytes();
            let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(bytes.join(":"))
        }
        128 => Some(Ipv6Addr::from(number).to_string()),
        _ => None,
    }
}

/// Returns the member of a serializable enum that has this value.
fn enum_member(program: &Program, ty: &DataTy, value: &Value) -> Option<String> {
    let DataTy::Named(name) = ty else {
        return None;
    };
    let named = program.named_types.iter().find(|ty| ty.name == *name)?;
    match &named.kind {
        NamedTypeKind::SerializableEnum { members, .. } => {
            let (member, _) = members.iter().find(|(_, of)| of == value)?;
            Some(format!("{name}.{member}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_what_their_types_say() {
        let program = ir::read(concat!(
            "program p v1model\n",
            "errors {NoError, NoMatch}\n",
            "enum Color {Red, Green}\n",
            "type serializable_enum EtherType bit<16> {Ip = 16w0x800, One = 16w0x1}\n",
            "field meta.color: enum Color\n",
        ))
        .expect("the program is well formed");
        let color = program.fields.values().next().expect("one field").ty;
        let ether_type = DataTy::Named("EtherType".to_owned());
        let check = |ty: ScalarTy, data_ty: Option<&DataTy>, number: u128, width, expect: &str| {
            let value = Value::truncated(number, width);
            let reading = Reading::new(&program, ty, data_ty, &value);
            assert_eq!(reading.text, expect, "{value:?}");
            assert_eq!(reading.width, width);
        };
        let bit = |number, width, expect: &str| {
            check(ScalarTy::Bit(width), None, number, width, expect);
        };
        bit(0, 0, "0");
        bit(7, 9, "7");
        bit(17, 8, "0x11 (17)");
        bit(64, 9, "0x040 (64)");
        bit(0x800, 16, "0x0800 (2048)");
        bit(1000, 32, "0x000003e8 (1000)");
        bit(0x0a00_0102, 32, "0x0a000102 (167772418, 10.0.1.2)");
        bit(0x0200_0000_0102, 48, "0x020000000102 (02:00:00:00:01:02)");
        bit(0, 48, "0x000000000000 (00:00:00:00:00:00)");
        bit(1, 128, "0x00000000000000000000000000000001 (::1)");
        bit(1, 65, "1");
        bit(0x1f, 65, "0x0000000000000001f");
        check(ScalarTy::Bool, None, 1, 1, "true");
        check(ScalarTy::Error, None, 1, 32, "error.NoMatch");
        check(ScalarTy::Error, None, 2, 32, "error number 0x2");
        check(color, None, 1, 32, "Color.Green");
        check(ScalarTy::Int(8), None, 0xff, 8, "-1");
        check(ScalarTy::Int(8), None, 0x80, 8, "-128 (0x80)");
        check(
            ScalarTy::Int(64),
            None,
            0x7f,
            64,
            "127 (0x000000000000007f)",
        );
        check(ScalarTy::Varbit(32), None, 0, 0, "empty");
        check(ScalarTy::Varbit(32), None, 0xab, 16, "0x00ab (16 bits)");
        let ty = ScalarTy::Bit(16);
        check(
            ty,
            Some(&ether_type),
            0x800,
            16,
            "0x0800 (2048, EtherType.Ip)",
        );
        check(ty, Some(&ether_type), 1, 16, "1 (EtherType.One)");
        check(ty, Some(&ether_type), 2, 16, "2");
    }

    #[test]
    fn a_very_wide_value_is_cut_in_text_but_not_for_machines() {
        let program = ir::read("program p v1model\nerrors {NoError}\n").expect("well formed");
        let reading = Reading::new(&program, ScalarTy::Bit(1024), None, &Value::all_ones(1024));
        assert_eq!(reading.text, format!("0x{}...", "f".repeat(64)));
        assert_eq!(reading.value, format!("0x{}", "f".repeat(256)));
    }
}
