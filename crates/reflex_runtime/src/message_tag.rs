//! Keyed tag of messages between members: HMAC-SHA-256 (RFC 2104), cut to 16 bytes, after the
//! message.
//!
//! The tag covers the whole message: cluster, sender, receiver, term and contents. A process
//! without the key can change or invent no message. It can hold messages up or repeat them, as a
//! network does, which the protocol of the store allows for.

use std::fmt;
use std::path::Path;

use consensus::TAG_BYTES;
use ring::hmac;

use crate::error::ProcessError;

/// Bytes of a key file: at least 128 bits, and no file that was named by mistake.
const MIN_KEY: usize = 16;
const MAX_KEY: u64 = 4096;

/// Key of the tags.
#[derive(Clone)]
pub(crate) struct MessageTag(hmac::Key);

impl fmt::Debug for MessageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageTag")
    }
}

impl MessageTag {
    /// Reads the key from a file: all of its bytes.
    pub(crate) fn read(file: &Path) -> Result<MessageTag, ProcessError> {
        let failed = |error: &dyn fmt::Display| {
            ProcessError(format!(
                "key_file {}: {error}; make a key of 32 bytes by 'head -c 32 /dev/urandom', and give all nodes the same",
                file.display()
            ))
        };
        let bytes = support::read::read_file(file, MAX_KEY).map_err(|error| failed(&error))?;
        if bytes.len() < MIN_KEY {
            return Err(failed(&format!("a key has at least {MIN_KEY} bytes")));
        }
        Ok(MessageTag::new(&bytes))
    }

    fn new(key: &[u8]) -> MessageTag {
        MessageTag(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Appends the tag of a message.
    pub(crate) fn append(&self, message: &mut Vec<u8>) {
        let tag = hmac::sign(&self.0, message);
        message.extend_from_slice(&tag.as_ref()[..TAG_BYTES]);
    }

    /// Returns the message in front of its tag, or `None` if the tag is not that of the message.
    pub(crate) fn checked<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (message, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG_BYTES)?)?;
        let right = hmac::sign(&self.0, message);
        // All bytes are looked at, so the time does not depend on how many are right.
        let differences = right.as_ref().iter().zip(tag);
        let difference = differences.fold(0, |all, (one, other)| all | (one ^ other));
        (std::hint::black_box(difference) == 0).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().collect();
        let pair = |pair: &[char]| {
            let text: String = pair.iter().collect();
            u8::from_str_radix(&text, 16).expect("two digits")
        };
        digits.chunks(2).map(pair).collect()
    }

    #[test]
    fn tags_are_those_of_rfc_4231() {
        for (key, message, tag) in [
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c7",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "773ea91e36800e46854db8ebd09181a7",
            ),
        ] {
            let mut bytes = message.clone();
            let key = MessageTag::new(&key);
            key.append(&mut bytes);
            assert_eq!(bytes[message.len()..], hex(tag));
            assert_eq!(key.checked(&bytes), Some(&message[..]));
        }
    }

    #[test]
    fn a_changed_bit_another_key_or_a_short_message_is_refused() {
        let key = MessageTag::new(b"sixteen bytes ok");
        let mut bytes = vec![7; 60];
        key.append(&mut bytes);
        for at in 0..8 * bytes.len() {
            bytes[at / 8] ^= 1 << (at % 8);
            assert_eq!(key.checked(&bytes), None, "bit {at}");
            bytes[at / 8] ^= 1 << (at % 8);
        }
        assert!(
            MessageTag::new(b"sixteen bytes on")
                .checked(&bytes)
                .is_none()
        );
        for length in 0..bytes.len() {
            assert_eq!(key.checked(&bytes[..length]), None);
        }
        assert!(key.checked(&bytes).is_some());
    }
}
