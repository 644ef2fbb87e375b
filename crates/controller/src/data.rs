//! Conversion of values of any P4 type (`P4Data`): register cells to and from scalars, digests to
//! readable values.

use bits::Value;
use entries::{Format, ValueTy};
use ir::ScalarTy;
use p4info::P4Info;
use p4info::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as Bits;
use p4info::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4info::p4::config::v1::p4_new_type_spec::Representation;
use p4info::p4::config::v1::{P4BitstringLikeTypeSpec, P4DataTypeSpec, P4NamedType};
use p4info::p4::v1::p4_data::Data;
use p4info::p4::v1::{P4Data, P4Header, P4StructLike};

use crate::catalog::{self, Catalog};
use crate::number;

/// Maximum nesting depth of types. Real programs stay below it. It ends the recursion if a P4Info
/// has cyclic types.
pub(crate) const DEEPEST: usize = 32;

impl Catalog {
    /// Returns the scalars of a type; `None` if the entries format cannot express it (stacks,
    /// unions, `varbit`).
    pub(crate) fn scalars(&self, info: &P4Info, spec: &P4DataTypeSpec) -> Option<Vec<ValueTy>> {
        let mut all = Vec::new();
        self.add_scalars(info, spec, &mut all, DEEPEST)?;
        Some(all)
    }

    fn add_scalars(
        &self,
        info: &P4Info,
        spec: &P4DataTypeSpec,
        all: &mut Vec<ValueTy>,
        depth: usize,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let types = info.type_info.as_ref();
        let scalar = |ty| ValueTy::Scalar(ty);
        match spec.type_spec.as_ref()? {
            TypeSpec::Bitstring(bits) => all.push(bit_ty(bits)?),
            TypeSpec::Bool(_) => all.push(scalar(ScalarTy::Bool)),
            TypeSpec::Error(_) => all.push(scalar(ScalarTy::Error)),
            TypeSpec::Enum(named) => {
                let mut enums = self.schema.enums.iter();
                let (id, _) = enums.find(|(_, own)| own.name == named.name)?;
                all.push(scalar(ScalarTy::Enum(id)));
            }
            TypeSpec::SerializableEnum(named) => {
                let mut enums = self.schema.serializable.iter();
                let own = enums.find(|own| own.name == named.name)?;
                all.push(scalar(ScalarTy::Bit(own.width)));
            }
            TypeSpec::NewType(named) => match new_type(info, named)? {
                Representation::OriginalType(spec) => {
                    self.add_scalars(info, spec, all, depth)?;
                }
                Representation::TranslatedType(_) => {
                    all.push(catalog::value_ty(info, 0, Some(named)));
                }
            },
            TypeSpec::Tuple(tuple) => {
                for member in &tuple.members {
                    self.add_scalars(info, member, all, depth)?;
                }
            }
            TypeSpec::Struct(named) => {
                for member in &types?.structs.get(&named.name)?.members {
                    self.add_scalars(info, member.type_spec.as_ref()?, all, depth)?;
                }
            }
            TypeSpec::Header(named) => {
                all.push(scalar(ScalarTy::Bool));
                for member in &types?.headers.get(&named.name)?.members {
                    all.push(bit_ty(member.type_spec.as_ref()?)?);
                }
            }
            TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_) => {
                return None;
            }
        }
        Some(())
    }

    /// Encodes a value, given as scalars, as a message.
    pub(crate) fn write_data(
        &self,
        spec: &P4DataTypeSpec,
        values: &mut dyn Iterator<Item = &Value>,
        depth: usize,
    ) -> Option<P4Data> {
        let depth = depth.checked_sub(1)?;
        let types = self.info.type_info.as_ref();
        let data = match spec.type_spec.as_ref()? {
            TypeSpec::Bitstring(bits) => {
                Data::Bitstring(number::write(bit_ty(bits)?, values.next()?))
            }
            TypeSpec::Bool(_) => Data::Bool(!values.next()?.is_zero()),
            TypeSpec::Error(_) => {
                let at = values.next()?.to_u64()? as usize;
                Data::Error(self.schema.errors.get(at)?.clone())
            }
            TypeSpec::Enum(named) => {
                let at = values.next()?.to_u64()? as usize;
                let mut enums = self.schema.enums.values();
                let own = enums.find(|own| own.name == named.name)?;
                Data::Enum(own.members.get(at)?.clone())
            }
            TypeSpec::SerializableEnum(_) => Data::EnumValue(values.next()?.to_p4rt_bytes()),
            TypeSpec::NewType(named) => match new_type(&self.info, named)? {
                Representation::OriginalType(spec) => return self.write_data(spec, values, depth),
                Representation::TranslatedType(_) => {
                    let ty = catalog::value_ty(&self.info, 0, Some(named));
                    Data::Bitstring(number::write(ty, values.next()?))
                }
            },
            TypeSpec::Tuple(tuple) => {
                let mut members = Vec::new();
                for member in &tuple.members {
                    members.push(self.write_data(member, values, depth)?);
                }
                Data::Tuple(P4StructLike { members })
            }
            TypeSpec::Struct(named) => {
                let mut members = Vec::new();
                for member in &types?.structs.get(&named.name)?.members {
                    members.push(self.write_data(member.type_spec.as_ref()?, values, depth)?);
                }
                Data::Struct(P4StructLike { members })
            }
            TypeSpec::Header(named) => {
                let is_valid = !values.next()?.is_zero();
                let mut bitstrings = Vec::new();
                for member in &types?.headers.get(&named.name)?.members {
                    let ty = bit_ty(member.type_spec.as_ref()?)?;
                    bitstrings.push(number::write(ty, values.next()?));
                }
                if !is_valid {
                    bitstrings.clear();
                }
                Data::Header(P4Header {
                    is_valid,
                    bitstrings,
                })
            }
            TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_) => {
                return None;
            }
        };
        Some(P4Data { data: Some(data) })
    }

    /// Decodes a message into scalars, of the types that [`Catalog::scalars`] returns.
    pub(crate) fn read_data(&self, spec: &P4DataTypeSpec, data: &P4Data) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        self.add_data(spec, data, &mut all, DEEPEST)?;
        Some(all)
    }

    fn add_data(
        &self,
        spec: &P4DataTypeSpec,
        data: &P4Data,
        all: &mut Vec<Value>,
        depth: usize,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let types = self.info.type_info.as_ref();
        let member = |name: &str, names: &[String]| {
            let at = names.iter().position(|own| own == name)?;
            Some(Value::truncated(at as u128, 32))
        };
        match (spec.type_spec.as_ref()?, data.data.as_ref()?) {
            (TypeSpec::Bitstring(bits), Data::Bitstring(bytes)) => {
                all.push(number::read(bit_ty(bits)?, bytes));
            }
            (TypeSpec::Bool(_), Data::Bool(value)) => {
                all.push(Value::truncated((*value).into(), 1));
            }
            (TypeSpec::Error(_), Data::Error(name)) => {
                all.push(member(name, &self.schema.errors)?);
            }
            (TypeSpec::Enum(named), Data::Enum(name)) => {
                let mut enums = self.schema.enums.values();
                let own = enums.find(|own| own.name == named.name)?;
                all.push(member(name, &own.members)?);
            }
            (TypeSpec::SerializableEnum(named), Data::EnumValue(bytes)) => {
                let mut enums = self.schema.serializable.iter();
                let own = enums.find(|own| own.name == named.name)?;
                all.push(number::read(
                    ValueTy::Scalar(ScalarTy::Bit(own.width)),
                    bytes,
                ));
            }
            (TypeSpec::NewType(named), _) => match (new_type(&self.info, named)?, &data.data) {
                (Representation::OriginalType(spec), _) => {
                    self.add_data(spec, data, all, depth)?;
                }
                (Representation::TranslatedType(_), Some(Data::Bitstring(bytes))) => {
                    let ty = catalog::value_ty(&self.info, 0, Some(named));
                    all.push(number::read(ty, bytes));
                }
                _ => return None,
            },
            (TypeSpec::Tuple(tuple), Data::Tuple(like)) => {
                let members = tuple.members.iter().map(Some);
                self.add_members(members, like, all, depth)?;
            }
            (TypeSpec::Struct(named), Data::Struct(like)) => {
                let members = types?.structs.get(&named.name)?.members.iter();
                let members = members.map(|member| member.type_spec.as_ref());
                self.add_members(members, like, all, depth)?;
            }
            (TypeSpec::Header(named), Data::Header(header)) => {
                all.push(Value::truncated(header.is_valid.into(), 1));
                let members = &types?.headers.get(&named.name)?.members;
                for (at, member) in members.iter().enumerate() {
                    let ty = bit_ty(member.type_spec.as_ref()?)?;
                    all.push(match header.bitstrings.get(at) {
                        Some(bytes) => number::read(ty, bytes),
                        // The fields of an invalid header are omitted.
                        None if !header.is_valid => Value::zero(ty.width()),
                        None => return None,
                    });
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn add_members<'t>(
        &self,
        types: impl ExactSizeIterator<Item = Option<&'t P4DataTypeSpec>>,
        like: &P4StructLike,
        all: &mut Vec<Value>,
        depth: usize,
    ) -> Option<()> {
        if types.len() != like.members.len() {
            return None;
        }
        let mut pairs = types.zip(&like.members);
        pairs.try_for_each(|(spec, member)| self.add_data(spec?, member, all, depth))
    }
}

fn bit_ty(spec: &P4BitstringLikeTypeSpec) -> Option<ValueTy> {
    let width = |bits: i32| u32::try_from(bits).ok().map(|bits| bits.min(ir::MAX_WIDTH));
    Some(ValueTy::Scalar(match spec.type_spec.as_ref()? {
        Bits::Bit(bit) => ScalarTy::Bit(width(bit.bitwidth)?),
        Bits::Int(int) => ScalarTy::Int(width(int.bitwidth)?),
        Bits::Varbit(_) => return None,
    }))
}

fn new_type<'i>(info: &'i P4Info, named: &P4NamedType) -> Option<&'i Representation> {
    let spec = info.type_info.as_ref()?.new_types.get(&named.name)?;
    spec.representation.as_ref()
}

/// A readable value, with the names of its parts.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// A number, formatted.
    Number(String),
    /// The name of a member or an error, or a string.
    Word(String),
    /// A Boolean.
    Bool(bool),
    /// Parts with names. The names are empty in tuples and stacks.
    Parts(Vec<(String, Datum)>),
    /// No value: an invalid header, or a value that is not set.
    Nothing,
}

/// Converts a value to a readable form.
pub fn datum(catalog: &Catalog, spec: Option<&P4DataTypeSpec>, name: &str, data: &P4Data) -> Datum {
    tell(catalog, spec, name, data, DEEPEST)
}

fn tell(
    catalog: &Catalog,
    spec: Option<&P4DataTypeSpec>,
    name: &str,
    data: &P4Data,
    depth: usize,
) -> Datum {
    let Some(depth) = depth.checked_sub(1) else {
        return Datum::Nothing;
    };
    let spec = spec.and_then(|spec| spec.type_spec.as_ref());
    let types = catalog.info.type_info.as_ref();
    if let Some(TypeSpec::NewType(named)) = spec
        && let Some(Representation::OriginalType(inner)) = new_type(&catalog.info, named)
    {
        return tell(catalog, Some(inner), name, data, depth);
    }
    let Some(data) = &data.data else {
        return Datum::Nothing;
    };
    let members = |like: &P4StructLike, names: &[(String, Option<&P4DataTypeSpec>)]| {
        let parts = like.members.iter().enumerate().map(|(at, member)| {
            let (name, spec) = names.get(at).cloned().unwrap_or_default();
            let told = tell(catalog, spec, &name, member, depth);
            (name, told)
        });
        Datum::Parts(parts.collect())
    };
    match (spec, data) {
        (_, Data::Bool(value)) => Datum::Bool(*value),
        (_, Data::Enum(word) | Data::Error(word)) => Datum::Word(word.clone()),
        (Some(TypeSpec::NewType(named)), Data::Bitstring(bytes)) => {
            let ty = catalog::value_ty(&catalog.info, 0, Some(named));
            number_of(catalog, ty, name, bytes)
        }
        (Some(TypeSpec::Bitstring(bits)), Data::Bitstring(bytes)) => {
            let ty = bit_ty(bits).unwrap_or(untyped(bytes));
            number_of(catalog, ty, name, bytes)
        }
        (Some(TypeSpec::SerializableEnum(named)), Data::EnumValue(bytes)) => {
            let own = catalog
                .schema
                .serializable
                .iter()
                .find(|own| own.name == named.name);
            let value = own.map(|own| {
                let ty = ValueTy::Scalar(ScalarTy::Bit(own.width));
                (own, number::read(ty, bytes))
            });
            let word = value.and_then(|(own, value)| {
                let mut members = own.members.iter();
                members
                    .find(|(_, of)| *of == value)
                    .map(|(name, _)| name.clone())
            });
            word.map_or_else(
                || number_of(catalog, untyped(bytes), name, bytes),
                Datum::Word,
            )
        }
        (_, Data::Bitstring(bytes) | Data::EnumValue(bytes)) => {
            number_of(catalog, untyped(bytes), name, bytes)
        }
        (_, Data::Varbit(bits)) => {
            let width = u32::try_from(bits.bitwidth).unwrap_or(0).min(ir::MAX_WIDTH);
            let ty = ValueTy::Scalar(ScalarTy::Bit(width));
            number_of(catalog, ty, name, &bits.bitstring)
        }
        (Some(TypeSpec::Struct(named)), Data::Struct(like)) => {
            let own = types.and_then(|types| types.structs.get(&named.name));
            let names: Vec<_> = (own.iter().flat_map(|own| &own.members))
                .map(|member| (member.name.clone(), member.type_spec.as_ref()))
                .collect();
            members(like, &names)
        }
        (Some(TypeSpec::Tuple(tuple)), Data::Tuple(like)) => {
            let names: Vec<_> = tuple
                .members
                .iter()
                .map(|spec| (String::new(), Some(spec)))
                .collect();
            members(like, &names)
        }
        (_, Data::Struct(like) | Data::Tuple(like)) => members(like, &[]),
        (Some(TypeSpec::Header(named)), Data::Header(header)) => {
            let own = types.and_then(|types| types.headers.get(&named.name));
            let names = own.map_or(&[][..], |own| &own.members);
            header_of(catalog, header, |at| {
                let member = names.get(at);
                let ty = member.and_then(|one| bit_ty(one.type_spec.as_ref()?));
                (member.map_or_else(String::new, |one| one.name.clone()), ty)
            })
        }
        (_, Data::Header(header)) => header_of(catalog, header, |_| (String::new(), None)),
        (_, Data::HeaderStack(stack)) => {
            let all = stack.entries.iter();
            let all = all.map(|header| header_of(catalog, header, |_| (String::new(), None)));
            Datum::Parts(all.map(|one| (String::new(), one)).collect())
        }
        (_, Data::HeaderUnion(_) | Data::HeaderUnionStack(_)) => Datum::Nothing,
    }
}

fn header_of(
    catalog: &Catalog,
    header: &P4Header,
    member: impl Fn(usize) -> (String, Option<ValueTy>),
) -> Datum {
    if !header.is_valid {
        return Datum::Nothing;
    }
    let parts = header.bitstrings.iter().enumerate().map(|(at, bytes)| {
        let (name, ty) = member(at);
        let told = number_of(catalog, ty.unwrap_or(untyped(bytes)), &name, bytes);
        (name, told)
    });
    Datum::Parts(parts.collect())
}

/// Returns the type of a number if only its bytes are known.
fn untyped(bytes: &[u8]) -> ValueTy {
    ValueTy::Scalar(ScalarTy::Bit(bytes.len() as u32 * 8))
}

fn number_of(catalog: &Catalog, ty: ValueTy, name: &str, bytes: &[u8]) -> Datum {
    if ty == ValueTy::Text {
        return Datum::Word(String::from_utf8_lossy(bytes).into_owned());
    }
    let value = number::read(ty, bytes);
    let format = Format::of(None, name, ty.width());
    Datum::Number(catalog.schema.value(ty, format, &value))
}
