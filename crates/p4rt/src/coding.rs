//! Encoding of a scalar between controller and device: as a number, as the name of a member, or
//! translated (`@p4runtime_translation`; sections "Bytestrings" and "User-defined types").

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bits::Value;
use ir::{ControllerTy, DataTy, NamedTypeKind, Program};
use tonic::Code;

use crate::bytes;
use crate::request_error::{Checked, refuse};

/// Encoding of the values of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Unsigned number with this width in bits.
    Unsigned(u32),
    /// Number in two's complement with this width in bits.
    Signed(u32),
    /// Name of a member of an `error` or of an enum without an underlying type.
    Name(Vec<String>),
    /// String translated to a number that the server chooses, for a type with this URI. The second
    /// field is the number's width in bits.
    Text(String, u32),
}

/// Translations of strings to numbers, by the URI of the type.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<String, Names1>>);

/// Translations of one type. A number without a string is shown in decimal.
#[derive(Debug, Default)]
struct Names1 {
    numbers: HashMap<Vec<u8>, u64>,
    texts: HashMap<u64, Vec<u8>>,
    next: u64,
    /// Numbers that were assigned since [`Names::take_fresh`] was last called.
    fresh: Vec<u64>,
}

impl Names {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Names1>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a string. A new string gets a new number.
    fn number(&self, uri: &str, text: &[u8], width: u32) -> Checked<Value> {
        let mut all = self.all();
        let names = all.entry(uri.to_owned()).or_default();
        let number = match names.numbers.get(text) {
            Some(number) => *number,
            None => names.add(text, width)?,
        };
        Ok(Value::truncated(number.into(), width))
    }

    /// Returns the translations added since the last call, with the URI of the type.
    pub(crate) fn take_fresh(&self) -> Vec<(String, u64, Vec<u8>)> {
        let mut all = self.all();
        let fresh = all.iter_mut().flat_map(|(uri, names)| {
            let fresh = std::mem::take(&mut names.fresh).into_iter();
            fresh
                .filter_map(|number| Some((uri.clone(), number, names.texts.get(&number)?.clone())))
        });
        fresh.collect()
    }

    /// Returns all translations.
    pub(crate) fn every(&self) -> Vec<(String, u64, Vec<u8>)> {
        let all = self.all();
        let texts = all.iter().flat_map(|(uri, names)| {
            let texts = names.texts.iter();
            texts.map(|(number, text)| (uri.clone(), *number, text.clone()))
        });
        texts.collect()
    }

    /// Restores a stored translation.
    pub(crate) fn put(&self, uri: &str, number: u64, text: &[u8]) {
        let mut all = self.all();
        let names = all.entry(uri.to_owned()).or_default();
        names.numbers.insert(text.to_vec(), number);
        names.texts.insert(number, text.to_vec());
    }

    fn text(&self, uri: &str, value: &Value) -> Vec<u8> {
        let all = self.all();
        let number = value.to_u64().unwrap_or(u64::MAX);
        let text = all.get(uri).and_then(|names| names.texts.get(&number));
        text.cloned()
            .unwrap_or_else(|| number.to_string().into_bytes())
    }
}

impl Names1 {
    fn add(&mut self, text: &[u8], width: u32) -> Checked<u64> {
        let most = u64::MAX.checked_shr(64 - width.min(64)).unwrap_or(0);
        let spoken = std::str::from_utf8(text).ok();
        let itself = spoken.and_then(|text| {
            let number: u64 = text.parse().ok()?;
            (number.to_string() == text && number <= most).then_some(number)
        });
        let number = match itself {
            Some(number) if !self.texts.contains_key(&number) => number,
            _ => self.free(most)?,
        };
        self.numbers.insert(text.to_vec(), number);
        self.texts.insert(number, text.to_vec());
        self.fresh.push(number);
        Ok(number)
    }

    /// Returns the next number without a string, starting at 1.
    fn free(&mut self, most: u64) -> Checked<u64> {
        while self.next < most {
            self.next += 1;
            if !self.texts.contains_key(&self.next) {
                return Ok(self.next);
            }
        }
        refuse(
            Code::ResourceExhausted,
            "the type has no number left for another string",
        )
    }
}

impl Coding {
    /// Returns the encoding of a control-plane type; `None` if the type is not a scalar.
    pub(crate) fn of(program: &Program, ty: &DataTy) -> Option<Coding> {
        match ty {
            DataTy::Bit(width) | DataTy::Varbit(width) => Some(Coding::Unsigned(*width)),
            DataTy::Int(width) => Some(Coding::Signed(*width)),
            DataTy::Bool => Some(Coding::Unsigned(1)),
            DataTy::Error => Some(Coding::Name(program.errors.clone())),
            DataTy::Tuple(_) | DataTy::Stack(..) => None,
            DataTy::Named(name) => {
                let named = program
                    .named_types
                    .iter()
                    .find(|named| named.name == *name)?;
                Coding::of_named(program, &named.kind)
            }
        }
    }

    fn of_named(program: &Program, kind: &NamedTypeKind) -> Option<Coding> {
        match kind {
            NamedTypeKind::Enum(members) => Some(Coding::Name(members.clone())),
            NamedTypeKind::SerializableEnum { width, signed, .. } => Some(match signed {
                true => Coding::Signed(*width),
                false => Coding::Unsigned(*width),
            }),
            NamedTypeKind::NewType {
                underlying,
                translation,
            } => {
                let inner = Coding::of(program, underlying)?;
                let text = translation
                    .as_ref()
                    .filter(|translation| translation.controller == ControllerTy::String);
                Some(match text {
                    Some(translation) => {
                        Coding::Text(translation.uri.clone(), inner.width().unwrap_or(0))
                    }
                    // Numbers have the same meaning on both sides. Values too wide for the device
                    // are refused.
                    None => inner,
                })
            }
            NamedTypeKind::Struct(_) | NamedTypeKind::Header(_) | NamedTypeKind::HeaderUnion(_) => {
                None
            }
        }
    }

    /// Returns the width of a value in the device, in bits.
    pub(crate) fn width(&self) -> Option<u32> {
        match self {
            Coding::Unsigned(width) | Coding::Signed(width) | Coding::Text(_, width) => {
                Some(*width)
            }
            Coding::Name(_) => Some(32),
        }
    }

    /// Decodes a value from a controller.
    pub(crate) fn read(&self, names: &Names, given: &[u8]) -> Checked<Value> {
        match self {
            Coding::Unsigned(width) => bytes::unsigned(given, *width),
            Coding::Signed(width) => bytes::signed(given, *width),
            Coding::Name(members) => member(members, given),
            Coding::Text(..) if given.is_empty() => {
                refuse(Code::OutOfRange, "the value is an empty string")
            }
            Coding::Text(uri, width) => names.number(uri, given, *width),
        }
    }

    /// Encodes a value for controllers.
    pub(crate) fn write(&self, names: &Names, value: &Value) -> Vec<u8> {
        match self {
            Coding::Unsigned(_) => value.to_p4rt_bytes(),
            Coding::Signed(_) => bytes::from_signed(value),
            Coding::Name(members) => {
                let at = value.to_u64().unwrap_or(u64::MAX) as usize;
                members
                    .get(at)
                    .map_or_else(Vec::new, |name| name.clone().into_bytes())
            }
            Coding::Text(uri, _) => names.text(uri, value),
        }
    }
}

/// Returns the number of an enum member or an error.
pub(crate) fn member(members: &[String], given: &[u8]) -> Checked<Value> {
    let at = members.iter().position(|name| name.as_bytes() == given);
    match at {
        Some(at) => Ok(Value::truncated(at as u128, 32)),
        None => refuse(
            Code::OutOfRange,
            format!(
                "`{}` is none of {}",
                String::from_utf8_lossy(given),
                members.join(", ")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_get_numbers_of_their_own_and_are_read_back() {
        let names = Names::default();
        let port = Coding::Text("example/port".to_owned(), 9);
        let number = |text: &str| {
            let value = port.read(&names, text.as_bytes()).expect("there is room");
            assert_eq!(port.write(&names, &value), text.as_bytes());
            value.to_u64().expect("9 bits fit")
        };
        let (a, b, c) = (number("eth0"), number("2"), number("eth1"));
        assert_eq!((a, b, c), (1, 2, 3));
        assert_eq!(number("eth0"), 1);
        let unknown = Value::truncated(77, 9);
        assert_eq!(port.write(&names, &unknown), b"77");
    }

    #[test]
    fn a_type_without_numbers_left_is_exhausted() {
        let names = Names::default();
        let narrow = Coding::Text("example/narrow".to_owned(), 1);
        assert!(narrow.read(&names, b"a").is_ok());
        let refused = narrow
            .read(&names, b"b")
            .expect_err("1 is taken, 0 is never given");
        assert_eq!(refused.code, Code::ResourceExhausted);
    }
}
