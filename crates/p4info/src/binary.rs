//! Binary encoding of messages, for files.

use crate::text::{TextError, TextMessage};

/// Encodes a message. Equal messages give equal bytes.
pub fn to_bytes<M: TextMessage>(message: &M) -> Vec<u8> {
    message.encode_to_vec()
}

/// Decodes a message.
///
/// # Errors
/// The bytes are not such a message, or are truncated.
pub fn from_bytes<M: TextMessage>(bytes: &[u8]) -> Result<M, TextError> {
    M::decode(bytes).map_err(|error| TextError {
        message: error.to_string(),
    })
}
