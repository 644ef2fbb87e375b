//! Packets and digests of a device that a controller keeps like one of its own: conversions between
//! messages and the forms that devices have. [`UpdateEncoder`] converts the state.

use ir::{ExternKind, limbs_of};
use p4info::p4::v1 as rt;
use p4info::p4::v1::digest_entry::Config;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type;

use crate::packet_io;
use crate::update_encoder::UpdateEncoder;

/// Configuration of a digest: each message is sent at once, in a list of its own, and lists need no
/// acknowledgement.
const EACH_AT_ONCE: Config = Config {
    max_timeout_ns: 0,
    max_list_size: 1,
    ack_timeout_ns: 0,
};

impl UpdateEncoder {
    /// Returns the updates by which the other device sends each digest message at once.
    pub fn digest_updates(&self) -> Vec<rt::Update> {
        let mut ids: Vec<u32> = self.schema.digests.keys().copied().collect();
        ids.sort_unstable();
        let update = |digest_id| rt::Update {
            r#type: Type::Insert.into(),
            entity: Some(rt::Entity {
                entity: Some(Entity::DigestEntry(rt::DigestEntry {
                    digest_id,
                    config: Some(EACH_AT_ONCE),
                })),
            }),
        };
        ids.into_iter().map(update).collect()
    }

    /// Returns the name of a list's digest, and the list's messages in limbs. Each value begins at
    /// a limb. Returns `None` for a list that the program does not send.
    pub fn digest_messages(&self, list: &rt::DigestList) -> Option<(String, Vec<Vec<u64>>)> {
        let view = self.schema.digests.get(&list.digest_id)?;
        let digest = self.schema.program.externs.get(view.instance)?;
        let ExternKind::Digest { fields, data_ty } = &digest.kind else {
            return None;
        };
        let mut messages = Vec::new();
        for data in &list.data {
            let mut values = Vec::new();
            self.data_coder().read(data_ty, data, &mut values).ok()?;
            let mut limbs = Vec::new();
            for (ty, value) in fields.iter().zip(&values) {
                let end = limbs.len() + limbs_of(*ty) as usize;
                limbs.extend_from_slice(value.limbs());
                limbs.resize(end, 0);
            }
            messages.push(limbs);
        }
        Some((digest.name.clone(), messages))
    }

    /// Returns a packet-in of the other device as the bytes that left through its CPU port.
    pub fn packet_in(&self, packet: &rt::PacketIn) -> Option<Vec<u8>> {
        packet_io::packet_in_bytes(&self.schema, packet).ok()
    }

    /// Returns the packet-out with which these bytes enter the other device's CPU port. Returns
    /// `None` if they are too few for the program's `packet_out` header.
    pub fn packet_out(&self, bytes: &[u8]) -> Option<rt::PacketOut> {
        packet_io::packet_out_of(&self.schema, bytes)
    }
}
