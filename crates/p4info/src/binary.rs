//! Messages as bytes, for files.

use crate::text::{TextError, TextMessage};

/// A message as bytes. The same message gives the same bytes.
pub fn to_bytes<M: TextMessage>(message: &M) -> Vec<u8> {
    message.encode_to_vec()
}

/// The message in bytes.
///
/// # Errors
/// They are of none, or cut off.
pub fn from_bytes<M: TextMessage>(bytes: &[u8]) -> Result<M, TextError> {
    M::decode(bytes).map_err(|error| TextError {
        message: error.to_string(),
    })
}
