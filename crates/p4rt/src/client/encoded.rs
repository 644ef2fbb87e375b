//! Batches of updates that are encoded already: a controller of many devices encodes an update
//! once.

use p4info::p4::v1 as rt;
use p4info::p4::v1::write_request::Atomicity;
use prost::Message;
use prost::bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint};
use tonic::codec::{Codec, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::{Client, ClientError};

/// Field of the updates in a `WriteRequest`.
const UPDATES: u32 = 4;

/// Encoded updates, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedUpdates {
    bytes: Vec<u8>,
    count: usize,
}

impl EncodedUpdates {
    /// Adds an update.
    pub fn push(&mut self, update: &rt::Update) {
        encode_key(UPDATES, WireType::LengthDelimited, &mut self.bytes);
        encode_varint(update.encoded_len() as u64, &mut self.bytes);
        update.encode_raw(&mut self.bytes);
        self.count += 1;
    }

    /// Adds the updates of another batch.
    pub fn extend(&mut self, other: &EncodedUpdates) {
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
    }

    /// Returns the number of updates.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no update.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Codec of write requests that are encoded.
struct EncodedCodec;

struct AsIs;

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Codec for EncodedCodec {
    type Encode = Bytes;
    type Decode = rt::WriteResponse;
    type Encoder = AsIs;
    type Decoder = <ProstCodec<rt::WriteRequest, rt::WriteResponse> as Codec>::Decoder;

    fn encoder(&mut self) -> AsIs {
        AsIs
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<rt::WriteRequest, rt::WriteResponse>::default().decoder()
    }
}

impl Client {
    /// Writes a batch.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub fn write_encoded(
        &mut self,
        updates: EncodedUpdates,
        atomicity: Atomicity,
    ) -> Result<(), ClientError> {
        let request = self.write_request(Vec::new(), atomicity);
        // Fields of a message may come in any order.
        let mut bytes = updates.bytes;
        request.encode_raw(&mut bytes);
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
        self.runtime.block_on(async {
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(error.to_string()))?;
            let request = Request::new(Bytes::from(bytes));
            grpc.unary(request, path, EncodedCodec).await
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_updates_are_those_of_a_write_request() {
        let update = |table_id| rt::Update {
            r#type: rt::update::Type::Insert.into(),
            entity: Some(rt::Entity {
                entity: Some(rt::entity::Entity::TableEntry(rt::TableEntry {
                    table_id,
                    ..rt::TableEntry::default()
                })),
            }),
        };
        let mut first = EncodedUpdates::default();
        first.push(&update(7));
        let mut both = first.clone();
        let mut second = EncodedUpdates::default();
        second.push(&update(300));
        both.extend(&second);
        assert_eq!((both.len(), first.is_empty()), (2, false));
        let request = rt::WriteRequest::decode(&both.bytes[..]).unwrap();
        assert_eq!(request.updates, [update(7), update(300)]);
    }
}
