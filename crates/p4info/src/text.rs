//! Protobuf's text format. It is written as by protobuf's C++ library, with one field per line and
//! maps ordered by key. All forms of the format can be read.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

use crate::P4Info;
use crate::p4::v1::{
    Entity, ForwardingPipelineConfig, ReadRequest, ReadResponse, StreamMessageRequest,
    StreamMessageResponse, WriteRequest,
};
use crate::proto::DESCRIPTORS;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS)
        .expect("build.rs wrote the descriptors from files that compiled")
});

/// A message that can be written as text. Implemented only for messages of this crate, because
/// their descriptors are known.
pub trait TextMessage: Message + Name + Default + sealed::Sealed {}

mod sealed {
    /// Prevents implementations for other messages.
    pub trait Sealed {}
}

macro_rules! text_messages {
    ($($message:ty),+ $(,)?) => {
        $(
            impl sealed::Sealed for $message {}
            impl TextMessage for $message {}
        )+
    };
}

text_messages!(
    P4Info,
    Entity,
    ForwardingPipelineConfig,
    ReadRequest,
    ReadResponse,
    StreamMessageRequest,
    StreamMessageResponse,
    WriteRequest,
);

/// Error: a text is not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The error message.
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not in protobuf's text format: {}", self.message)
    }
}

impl std::error::Error for TextError {}

/// Writes a message as text, after a comment with the message's type.
pub fn to_text<M: TextMessage>(message: &M) -> String {
    let descriptor = descriptor::<M>();
    let mut text = format!(
        "# proto-file: {}\n# proto-message: {}\n\n",
        descriptor.parent_file().name(),
        descriptor.full_name()
    );
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .expect("a generated type and its descriptor come from the same file");
    print_message(&mut text, &dynamic, 0);
    text
}

/// Reads a message from text.
pub fn from_text<M: TextMessage>(text: &str) -> Result<M, TextError> {
    let error = |message: String| TextError { message };
    let dynamic = DynamicMessage::parse_text_format(descriptor::<M>(), text)
        .map_err(|e| error(e.to_string()))?;
    M::decode(dynamic.encode_to_vec().as_slice()).map_err(|e| error(e.to_string()))
}

fn descriptor<M: TextMessage>() -> MessageDescriptor {
    POOL.get_message_by_name(&M::full_name())
        .expect("the descriptors hold every message of this room")
}

/// Prints the fields that are set, in the order of their numbers.
fn print_message(text: &mut String, message: &DynamicMessage, depth: usize) {
    let mut fields: Vec<(FieldDescriptor, &Value)> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    for (field, value) in fields {
        match value {
            Value::List(values) => values
                .iter()
                .for_each(|value| print_field(text, &field, value, depth)),
            Value::Map(entries) => {
                let mut entries: Vec<(&MapKey, &Value)> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    print_map_entry(text, &field, key, value, depth);
                }
            }
            value => print_field(text, &field, value, depth),
        }
    }
}

fn print_field(text: &mut String, field: &FieldDescriptor, value: &Value, depth: usize) {
    indent(text, depth);
    text.push_str(field.name());
    match value {
        Value::Message(message) => {
            print_block(text, depth, |text| print_message(text, message, depth + 1))
        }
        scalar => {
            text.push_str(": ");
            print_scalar(text, field, scalar);
            text.push('\n');
        }
    }
}

fn print_map_entry(
    text: &mut String,
    field: &FieldDescriptor,
    key: &MapKey,
    value: &Value,
    depth: usize,
) {
    let Kind::Message(entry) = field.kind() else {
        return;
    };
    indent(text, depth);
    text.push_str(field.name());
    print_block(text, depth, |text| {
        let key = Value::from(key.clone());
        print_field(text, &entry.map_entry_key_field(), &key, depth + 1);
        print_field(text, &entry.map_entry_value_field(), value, depth + 1);
    });
}

fn print_block(text: &mut String, depth: usize, inside: impl FnOnce(&mut String)) {
    text.push_str(" {\n");
    inside(text);
    indent(text, depth);
    text.push_str("}\n");
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn print_scalar(text: &mut String, field: &FieldDescriptor, value: &Value) {
    match value {
        Value::String(string) => print_bytes(text, string.as_bytes()),
        Value::Bytes(bytes) => print_bytes(text, bytes),
        Value::EnumNumber(number) => match field.kind() {
            Kind::Enum(kind) if kind.get_value(*number).is_some() => {
                text.extend(kind.get_value(*number).map(|value| value.name().to_owned()));
            }
            _ => put(text, number),
        },
        Value::Bool(value) => put(text, value),
        Value::I32(value) => put(text, value),
        Value::I64(value) => put(text, value),
        Value::U32(value) => put(text, value),
        Value::U64(value) => put(text, value),
        Value::F32(value) => put(text, value),
        Value::F64(value) => put(text, value),
        // These are not scalars and are printed above.
        Value::Message(_) | Value::List(_) | Value::Map(_) => {}
    }
}

fn put(text: &mut String, value: &impl fmt::Display) {
    write!(text, "{value}").expect("writing to a String cannot fail");
}

/// Prints bytes with the escapes of C strings, in octal if there is no shorter escape.
fn print_bytes(text: &mut String, bytes: &[u8]) {
    text.push('"');
    for &byte in bytes {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' | b'\'' | b'\\' => text.extend(['\\', char::from(byte)]),
            0x20..0x7f => text.push(char::from(byte)),
            _ => write!(text, "\\{byte:03o}").expect("writing to a String cannot fail"),
        }
    }
    text.push('"');
}
