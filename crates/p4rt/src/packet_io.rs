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
    let Some(header) = &schema.packet_in else {
        return Some(PacketIn {
            payload: bytes.to_vec(),
            metadata: Vec::new(),
        });
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
                value: field.coding.write(&schema.names, &value),
            });
        }
    }
    Some(PacketIn {
        payload: payload.to_vec(),
        metadata,
    })
}

fn field_at(bytes: &[u8], offset: usize, width: u32) -> Option<Value> {
    let mut limbs = vec![0; bits::limbs_for(width).max(1)];
    bits::wire::read(bytes, offset, width, &mut limbs).ok()?;
    Some(Value::from_limbs(&limbs, width))
}

/// Converts a packet-out message to the bytes that enter the CPU port.
pub(crate) fn packet_out(schema: &Schema, packet: &PacketOut) -> Checked<Vec<u8>> {
    let mut bytes = match &schema.packet_out {
        Some(header) => header_bytes(&schema.names, header, &packet.metadata)?,
        None => match packet.metadata.first() {
            None => Vec::new(),
            Some(given) => {
                return invalid(format!(
                    "the packet-out has the metadata {}, but the program has no packet_out header",
                    given.metadata_id
                ));
            }
        },
    };
    bytes.extend_from_slice(&packet.payload);
    if bytes.len() > MAX_FRAME {
        return invalid(format!(
            "the packet-out has {} bytes with its header; a frame has {MAX_FRAME} at most",
            bytes.len()
        ));
    }
    Ok(bytes)
}

fn header_bytes(names: &Names, header: &HeaderView, given: &[PacketMetadata]) -> Checked<Vec<u8>> {
    for (at, one) in given.iter().enumerate() {
        let id = one.metadata_id;
        if id == 0 || header.fields.iter().all(|field| field.id != id) {
            return invalid(format!(
                "the packet_out header has no metadata field with the id {id}"
            ));
        }
        if given[..at].iter().any(|other| other.metadata_id == id) {
            return invalid(format!(
                "the metadata {id} of the packet-out is given twice"
            ));
        }
    }
    let mut bytes = vec![0; length(header)];
    let mut offset = 0;
    for field in &header.fields {
        let value = value(names, field, given)?;
        let written = bits::wire::write(&mut bytes, offset, field.width, value.limbs());
        if written.is_err() {
            return invalid(format!("the metadata `{}` does not fit", field.name));
        }
        offset += field.width as usize;
    }
    Ok(bytes)
}

fn value(names: &Names, field: &ParamView, given: &[PacketMetadata]) -> Checked<Value> {
    if field.id == 0 {
        return Ok(Value::zero(field.width));
    }
    match given.iter().find(|one| one.metadata_id == field.id) {
        Some(one) => field.coding.read(names, &one.value).map_err(|fault| {
            let place = format!("the metadata `{}` of the packet-out", field.name);
            fault.within(&place).coded(Code::InvalidArgument)
        }),
        None => invalid(format!(
            "the packet-out has no metadata `{}` (id {})",
            field.name, field.id
        )),
    }
}
