//! Metadata of packet-in and packet-out messages.

use entries::{Format, Schema};
use p4info::p4::config::v1 as info;
use p4info::p4::v1::PacketMetadata;

use crate::catalog::{Catalog, value_ty};
use crate::number;

/// A field of a controller header, in readable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Catalog {
    fn header(&self, name: &str) -> Option<&info::ControllerPacketMetadata> {
        let mut headers = self.info.controller_packet_metadata.iter();
        headers.find(|header| header.preamble.as_ref().is_some_and(|own| own.name == name))
    }

    /// Decodes the metadata of a packet-in.
    pub fn packet_in(&self, metadata: &[PacketMetadata]) -> Vec<Field> {
        let header = self.header("packet_in");
        let told = metadata.iter().map(|given| {
            let mut fields = header.iter().flat_map(|header| &header.metadata);
            match fields.find(|field| field.id == given.metadata_id) {
                Some(field) => {
                    let ty = value_ty(&self.info, field.bitwidth, field.type_name.as_ref());
                    let value = number::read(ty, &given.value);
                    let format = Format::of(None, &field.name, ty.width());
                    Field {
                        name: field.name.clone(),
                        value: self.schema.value(ty, format, &value),
                    }
                }
                None => Field {
                    name: format!("metadata {}", given.metadata_id),
                    value: format!("{:02x?}", given.value),
                },
            }
        });
        told.collect()
    }

    /// Encodes the metadata of a packet-out from `NAME=VALUE` pairs. Fields that are not given are
    /// 0.
    ///
    /// # Errors
    /// A message of one line that names the wrong name or value.
    pub fn packet_out(&self, given: &[(String, String)]) -> Result<Vec<PacketMetadata>, String> {
        let fields = self
            .header("packet_out")
            .map_or(&[][..], |header| &header.metadata);
        for (name, _) in given {
            if !fields.iter().any(|field| field.name == *name) {
                let all: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                return Err(match all.is_empty() {
                    true => format!("the program's packet-outs have no metadata, so no `{name}`"),
                    false => format!(
                        "packet-outs have no `{name}`; there are: {}",
                        all.join(", ")
                    ),
                });
            }
        }
        let mut metadata = Vec::new();
        for field in fields {
            let ty = value_ty(&self.info, field.bitwidth, field.type_name.as_ref());
            let written = given.iter().find(|(name, _)| *name == field.name);
            let written = written.map_or("0", |(_, value)| value.as_str());
            let value = Schema::read_value(&self.schema, ty, written)?;
            metadata.push(PacketMetadata {
                metadata_id: field.id,
                value: number::write(ty, &value),
            });
        }
        Ok(metadata)
    }
}
