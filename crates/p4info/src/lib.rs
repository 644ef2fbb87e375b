//! Crate `p4info`: the protobuf types of P4Runtime, their text format, and the P4Info of a program.
//!
//! **In:** a verified [`ir::Program`]; protobuf text. **Out:** [`P4Info`], or the faults in the
//! program's annotations that prevent it; all messages of P4Runtime as Rust types ([`p4`],
//! [`google`]); protobuf text.
//!
//! Invariants:
//! - Names and numbers of messages, fields and enums are those of the standard (`proto/`, compiled
//!   by `build.rs` without `protoc`).
//! - An object's id depends only on its kind, its name and its `@id`. So it does not change with
//!   other parts of the program, and it equals p4c's id.
//! - Equal programs give equal text, byte for byte.
//!
//! Two parts of p4c's output are omitted. One is actions that no table lists, since P4Runtime
//! requires only those of tables. The other is an empty `type_info`, if no object of the program
//! can refer to a type.
//!
//! The gRPC service is not generated here, but in the crate that uses gRPC.
//!
//! Tests: `tests/` has a program built by hand for each part of P4Info, and checks the text format
//! against protobuf's rules.

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
pub use error::{P4InfoError, P4InfoProblem};
pub use proto::p4::config::v1::P4Info;
pub use proto::{google, p4, polyplane};
pub use text::{TextError, TextMessage, from_text, to_text};
