//! The room of P4Runtime's messages: the protobuf types, their text format, and the P4Info of a program.
//!
//! **In:** a verified [`ir::Program`]; protobuf text. **Out:** [`P4Info`], or what in the program's annotations forbids one; all messages of
//! P4Runtime as Rust types ([`p4`], [`google`]); protobuf text.
//! **May import:** `ir`, `bits`.
//!
//! Invariants: message, field and enum names and numbers are the standard's (`proto/`, compiled by `build.rs` without `protoc`); an object's id
//! depends on its kind, its name and its `@id` only, so that it outlives changes elsewhere in the program, and is the one that p4c gives;
//! the same program gives the same text, byte for byte. What p4c shows and this room does not: actions that no table lists (P4Runtime wants
//! those of tables only) and a `type_info` without types where the program has nothing that could mention one. The gRPC service is not here: it belongs to the room that speaks gRPC.
//!
//! Tests: `tests/` (a program built by hand for each part of P4Info, the text format against protobuf's own rules).

mod annotation;
mod binary;
mod convert;
mod data_type;
mod error;
mod extern_object;
mod object;
mod proto;
mod text;

pub use binary::{from_bytes, to_bytes};
pub use convert::p4info;
pub use error::{P4InfoError, Problem};
pub use proto::p4::config::v1::P4Info;
pub use proto::{google, p4, polyplane};
pub use text::{TextError, TextMessage, from_text, to_text};
