//! Packet I/O: packets between controllers and the device's CPU port, with their controller headers
//! (section "Packet I/O").

use bits::Value;
use p4info::p4::v1::{PacketIn, PacketMetadata, PacketOut};
use packet::MAX_FRAME;
use tonic::Code;

use crate::coding::Names;
use crate::request_error::{Checked, invalid};
use crate::schema::{HeaderView, ParamView, Schema};

/// Returns the length of a header in bytes.
fn length(header: &HeaderView) -> usize {
    let bits: u32 = header.fields.iter().map(|field| field.width).sum();
    bits.div_ceil(8) as usize
}

/// Converts a packet sent to the CPU port to a message. Returns `None` if it is too short for the
/// program's `packet_in` header.
pub(crate) fn packet_in(schema: &Schema, bytes: &[u8]) -> Option<PacketIn> {
    let (metadata, payload) = split(&schema.names, schema.packet_in.as_ref(), bytes)?;
    Some(PacketIn { payload, metadata })
}

/// Converts bytes that enter the CPU port to a packet-out message. Returns `None` if they are too
/// few for the program's `packet_out` header.
pub(crate) fn packet_out_of(schema: &Schema, bytes: &[u8]) -> Option<PacketOut> {
    let (metadata, payload) = split(&schema.names, schema.packet_out.as_ref(), bytes)?;
    Some(PacketOut { payload, metadata })
}

/// Splits a packet into the metadata of its controller header and its payload.
fn split(
    names: &Names,
    header: Option<&HeaderView>,
    bytes: &[u8],
) -> Option<(Vec<PacketMetadata>, Vec<u8>)> {
    let Some(header) = header else {
        return Some((Vec::new(), bytes.to_vec()));
    };
    let (own, payload) = bytes.split_at_checked(length(header))?;
    let mut offset = 0;
    let mut metadata = Vec::new();
    for field in &header.fields {
        let value = field_at(own, offset, field.width)?;
        offset += field.width as usize;
        if field.id != 0 {
            metadata.push(PacketMetadata {
                metadata_id: field.id,
                value: field.coding.write(names, &value),
            });
        }
    }
    Some((metadata, payload.to_vec()))
}

fn field_at(bytes: &[u8], offset: usize, width: u32) -> Option<Value> {
    let mut limbs = vec![0; bits::limbs_for(width).max(1)];
    bits::wire::read(bytes, offset, width, &mut limbs).ok()?;
    Some(Value::from_limbs(&limbs, width))
}

/// Converts a packet-out message to the bytes that enter the CPU port.
pub(crate) fn packet_out(schema: &Schema, packet: &PacketOut) -> Checked<Vec<u8>> {
    let header = schema.packet_out.as_ref();
    let parts = (packet.metadata.as_slice(), packet.payload.as_slice());
    joined(&schema.names, ("packet-out", "packet_out"), header, parts)
}

/// Converts a packet-in message to the bytes that have left through the CPU port.
pub(crate) fn packet_in_bytes(schema: &Schema, packet: &PacketIn) -> Checked<Vec<u8>> {
    let header = schema.packet_in.as_ref();
    let parts = (packet.metadata.as_slice(), packet.payload.as_slice());
    joined(&schema.names, ("packet-in", "packet_in"), header, parts)
}

/// Joins metadata and payload of a message. `named` are the names of the message and of the header
/// for errors.
fn joined(
    names: &Names,
    named: (&str, &str),
    header: Option<&HeaderView>,
    (metadata, payload): (&[PacketMetadata], &[u8]),
) -> Checked<Vec<u8>> {
    let (message, header_name) = named;
    let mut bytes = match header {
        Some(header) => header_bytes(names, named, header, metadata)?,
        None => match metadata.first() {
            None => Vec::new(),
            Some(given) => {
                return invalid(format!(
                    "the {message} has the metadata {}, but the program has no {header_name} header",
                    given.metadata_id
                ));
            }
        },
    };
    bytes.extend_from_slice(payload);
    if bytes.len() > MAX_FRAME {
        return invalid(format!(
            "the {message} has {} bytes with its header; a frame has {MAX_FRAME} at most",
            bytes.len()
        ));
    }
    Ok(bytes)
}

fn header_bytes(
    names: &Names,
    (message, header_name): (&str, &str),
    header: &HeaderView,
    given: &[PacketMetadata],
) -> Checked<Vec<u8>> {
    for (at, one) in given.iter().enumerate() {
        let id = one.metadata_id;
        if id == 0 || header.fields.iter().all(|field| field.id != id) {
            return invalid(format!(
                "the {header_name} header has no metadata field with the id {id}"
            ));
        }
        if given[..at].iter().any(|other| other.metadata_id == id) {
            return invalid(format!("the metadata {id} of the {message} is given twice"));
        }
    }
    let mut bytes = vec![0; length(header)];
    let mut offset = 0;
    for field in &header.fields {
        let value = value(names, message, field, given)?;
        let written = bits::wire::write(&mut bytes, offset, field.width, value.limbs());
        if written.is_err() {
            return invalid(format!("the metadata `{}` does not fit", field.name));
        }
        offset += field.width as usize;
    }
    Ok(bytes)
}

fn value(
    names: &Names,
    message: &str,
    field: &ParamView,
    given: &[PacketMetadata],
) -> Checked<Value> {
    if field.id == 0 {
        return Ok(Value::zero(field.width));
    }
    match given.iter().find(|one| one.metadata_id == field.id) {
        Some(one) => field.coding.read(names, &one.value).map_err(|fault| {
            let place = format!("the metadata `{}` of the {message}", field.name);
            fault.within(&place).coded(Code::InvalidArgument)
        }),
        None => invalid(format!(
            "the {message} has no metadata `{}` (id {})",
            field.name, field.id
        )),
    }
}
