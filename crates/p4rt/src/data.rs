//! Conversion of values of any P4 type to and from `P4Data` (section "Representation of Arbitrary
//! P4 Types"). It is used for register cells and digests. In the device such a value is a sequence
//! of scalars in the order of declaration. A header's validity precedes its fields.

use bits::Value;
use ir::{DataTy, NamedTypeKind, Program, ScalarTy, limbs_of};
use p4info::p4::v1::p4_data::Data;
use p4info::p4::v1::{
    P4Data, P4Header, P4HeaderStack, P4HeaderUnion, P4HeaderUnionStack, P4StructLike, P4Varbit,
};
use support::count::{are, count};

use crate::coding::{Coding, Names};
use crate::request_error::{Checked, invalid};

/// A scalar of a value. A `varbit` has a length in bits.
pub(crate) type Scalar = (Value, Option<u32>);

/// Returns the scalars stored in limbs. Each scalar begins at a limb. The length of a `varbit`
/// precedes its bits.
pub(crate) fn scalars(types: &[ScalarTy], mut limbs: &[u64]) -> Vec<Scalar> {
    let mut all = Vec::with_capacity(types.len());
    for ty in types {
        let (own, rest) = limbs.split_at(limbs.len().min(limbs_of(*ty) as usize));
        limbs = rest;
        all.push(match (ty, own.split_first()) {
            (ScalarTy::Varbit(most), Some((len, bits))) => {
                let len = (*len as u32).min(*most);
                (Value::from_limbs(bits, len), Some(len))
            }
            _ => (Value::from_limbs(own, ty.width()), None),
        });
    }
    all
}

/// Converter between the device's scalars and messages.
#[derive(Clone, Copy)]
pub(crate) struct DataCoder<'a> {
    pub(crate) program: &'a Program,
    pub(crate) names: &'a Names,
}

impl DataCoder<'_> {
    /// Encodes a value as a message; `None` if there are too few scalars.
    pub(crate) fn write(
        self,
        ty: &DataTy,
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<P4Data> {
        let data = match ty {
            DataTy::Tuple(members) => Data::Tuple(self.write_members(members.iter(), scalars)?),
            DataTy::Stack(name, size) => self.write_stack(name, *size, scalars)?,
            DataTy::Named(name) => match self.kind(name)? {
                NamedTypeKind::Struct(members) => {
                    let types = members.iter().map(|(_, ty)| ty);
                    Data::Struct(self.write_members(types, scalars)?)
                }
                NamedTypeKind::Header(fields) => Data::Header(self.write_header(fields, scalars)?),
                NamedTypeKind::HeaderUnion(members) => {
                    Data::HeaderUnion(self.write_union(members, scalars)?)
                }
                NamedTypeKind::NewType { underlying, .. }
                    if Coding::of(self.program, ty).is_none() =>
                {
                    return self.write(underlying, scalars);
                }
                kind => {
                    let is_unsafe = matches!(kind, NamedTypeKind::SerializableEnum { .. });
                    self.write_scalar(ty, is_unsafe, scalars)?
                }
            },
            _ => self.write_scalar(ty, false, scalars)?,
        };
        Some(P4Data { data: Some(data) })
    }

    fn kind(&self, name: &str) -> Option<&NamedTypeKind> {
        let mut named = self.program.named_types.iter();
        Some(&named.find(|ty| ty.name == name)?.kind)
    }

    fn write_scalar(
        self,
        ty: &DataTy,
        is_unsafe_enum: bool,
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<Data> {
        let (value, length) = scalars.next()?;
        if let Some(length) = length {
            return Some(Data::Varbit(P4Varbit {
                bitstring: value.to_p4rt_bytes(),
                bitwidth: length as i32,
            }));
        }
        let coding = Coding::of(self.program, ty)?;
        let bytes = coding.write(self.names, &value);
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        Some(match (ty, &coding) {
            (DataTy::Bool, _) => Data::Bool(!value.is_zero()),
            (DataTy::Error, _) => Data::Error(text()),
            (_, Coding::Name(_)) => Data::Enum(text()),
            _ if is_unsafe_enum => Data::EnumValue(bytes),
            _ => Data::Bitstring(bytes),
        })
    }

    fn write_members<'t>(
        self,
        types: impl Iterator<Item = &'t DataTy>,
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<P4StructLike> {
        let members = types.map(|ty| self.write(ty, scalars));
        Some(P4StructLike {
            members: members.collect::<Option<_>>()?,
        })
    }

    /// Encodes a header. The fields of an invalid header are omitted.
    fn write_header(
        self,
        fields: &[(String, DataTy)],
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<P4Header> {
        let is_valid = !scalars.next()?.0.is_zero();
        let mut bitstrings = Vec::new();
        for (_, ty) in fields {
            let (value, _) = scalars.next()?;
            let coding = Coding::of(self.program, ty)?;
            bitstrings.push(coding.write(self.names, &value));
        }
        if !is_valid {
            bitstrings.clear();
        }
        Some(P4Header {
            is_valid,
            bitstrings,
        })
    }

    fn header_fields(&self, name: &str) -> Option<&[(String, DataTy)]> {
        match self.kind(name)? {
            NamedTypeKind::Header(fields) => Some(fields),
            _ => None,
        }
    }

    fn write_union(
        self,
        members: &[(String, String)],
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<P4HeaderUnion> {
        let mut union = P4HeaderUnion::default();
        for (member, header) in members {
            let fields = self.header_fields(header)?.to_vec();
            let header = self.write_header(&fields, scalars)?;
            if header.is_valid {
                union.valid_header_name = member.clone();
                union.valid_header = Some(header);
            }
        }
        Some(union)
    }

    fn write_stack(
        self,
        name: &str,
        size: u32,
        scalars: &mut dyn Iterator<Item = Scalar>,
    ) -> Option<Data> {
        Some(match self.kind(name)?.clone() {
            NamedTypeKind::Header(fields) => {
                let entries = (0..size).map(|_| self.write_header(&fields, scalars));
                Data::HeaderStack(P4HeaderStack {
                    entries: entries.collect::<Option<_>>()?,
                })
            }
            NamedTypeKind::HeaderUnion(members) => {
                let entries = (0..size).map(|_| self.write_union(&members, scalars));
                Data::HeaderUnionStack(P4HeaderUnionStack {
                    entries: entries.collect::<Option<_>>()?,
                })
            }
            _ => return None,
        })
    }

    /// Appends the scalars of a message to `all`.
    pub(crate) fn read(self, ty: &DataTy, data: &P4Data, all: &mut Vec<Value>) -> Checked {
        let Some(data) = &data.data else {
            return invalid("a value (P4Data) is not set");
        };
        match (ty, data) {
            (DataTy::Tuple(types), Data::Tuple(like)) => {
                self.read_members(types.iter().map(|ty| ("", ty)), like, all)
            }
            (DataTy::Named(name), data) => match (self.kind(name), data) {
                (Some(NamedTypeKind::Struct(members)), Data::Struct(like)) => {
                    let types = members.iter().map(|(name, ty)| (name.as_str(), ty));
                    self.read_members(types, like, all)
                }
                (Some(NamedTypeKind::Header(fields)), Data::Header(header)) => {
                    self.read_header(fields, header, all)
                }
                (Some(NamedTypeKind::SerializableEnum { .. }), Data::EnumValue(bytes)) => {
                    self.read_scalar(ty, bytes, all)
                }
                (Some(NamedTypeKind::Enum(_)), Data::Enum(name)) => {
                    self.read_scalar(ty, name.as_bytes(), all)
                }
                (Some(NamedTypeKind::NewType { underlying, .. }), data) => match data {
                    Data::Bitstring(bytes) => self.read_scalar(ty, bytes, all),
                    _ => self.read(
                        underlying,
                        &P4Data {
                            data: Some(data.clone()),
                        },
                        all,
                    ),
                },
                _ => self.wrong_kind(ty),
            },
            (DataTy::Bit(_) | DataTy::Int(_), Data::Bitstring(bytes)) => {
                self.read_scalar(ty, bytes, all)
            }
            (DataTy::Bool, Data::Bool(value)) => {
                all.push(Value::truncated((*value).into(), 1));
                Ok(())
            }
            (DataTy::Error, Data::Error(name)) => self.read_scalar(ty, name.as_bytes(), all),
            (DataTy::Stack(name, size), Data::HeaderStack(stack))
                if stack.entries.len() == *size as usize =>
            {
                let Some(fields) = self.header_fields(name) else {
                    return self.wrong_kind(ty);
                };
                stack
                    .entries
                    .iter()
                    .try_for_each(|header| self.read_header(fields, header, all))
            }
            _ => self.wrong_kind(ty),
        }
    }

    fn wrong_kind(self, ty: &DataTy) -> Checked {
        invalid(format!(
            "the value (P4Data) is not of the type {}",
            told(ty)
        ))
    }

    fn read_scalar(self, ty: &DataTy, bytes: &[u8], all: &mut Vec<Value>) -> Checked {
        let Some(coding) = Coding::of(self.program, ty) else {
            return self.wrong_kind(ty);
        };
        all.push(coding.read(self.names, bytes)?);
        Ok(())
    }

    fn read_members<'t>(
        self,
        types: impl ExactSizeIterator<Item = (&'t str, &'t DataTy)>,
        like: &P4StructLike,
        all: &mut Vec<Value>,
    ) -> Checked {
        if types.len() != like.members.len() {
            return invalid(format!(
                "the value has {}, its type {}",
                count(like.members.len() as u64, "member"),
                types.len()
            ));
        }
        for ((name, ty), member) in types.zip(&like.members) {
            self.read(ty, member, all)
                .map_err(|fault| fault.within(&format!("member `{name}`")))?;
        }
        Ok(())
    }

    fn read_header(
        self,
        fields: &[(String, DataTy)],
        header: &P4Header,
        all: &mut Vec<Value>,
    ) -> Checked {
        all.push(Value::truncated(header.is_valid.into(), 1));
        if header.bitstrings.is_empty() && !header.is_valid {
            let widths = fields.iter().map(|(_, ty)| {
                Coding::of(self.program, ty)
                    .and_then(|coding| coding.width())
                    .unwrap_or(0)
            });
            all.extend(widths.map(Value::zero));
            return Ok(());
        }
        if header.bitstrings.len() != fields.len() {
            return invalid(format!(
                "the header has {}, but {} given",
                count(fields.len() as u64, "field"),
                are(header.bitstrings.len() as u64)
            ));
        }
        for ((name, ty), bytes) in fields.iter().zip(&header.bitstrings) {
            self.read_scalar(ty, bytes, all)
                .map_err(|fault| fault.within(&format!("field `{name}`")))?;
        }
        Ok(())
    }
}

/// Formats a type for messages.
fn told(ty: &DataTy) -> String {
    match ty {
        DataTy::Bit(width) => format!("bit<{width}>"),
        DataTy::Int(width) => format!("int<{width}>"),
        DataTy::Varbit(width) => format!("varbit<{width}>"),
        DataTy::Bool => "bool".to_owned(),
        DataTy::Error => "error".to_owned(),
        DataTy::Tuple(_) => "tuple".to_owned(),
        DataTy::Named(name) => name.clone(),
        DataTy::Stack(name, size) => format!("{name}[{size}]"),
    }
}
