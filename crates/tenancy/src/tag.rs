//! IEEE 802.1Q tags: removed and added as at an access port.

use packet::{Frame, FrameError};

use crate::rule_classifier::{TAGS, TYPE_AT};

/// Size of a tag in bytes.
const TAG: usize = 4;

/// TPID of added tags (C-TAG).
const TPID: [u8; 2] = TAGS[0].to_be_bytes();

/// Mask of the TCI bits above the VLAN ID: PCP and DEI.
const PRIORITY: u8 = 0xf0;

/// Error of [`put_on`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagError {
    /// The frame ends before the end of its EtherType.
    NoEthernet,
    /// The frame would exceed the maximum length.
    TooLong,
}

/// Removes the outermost tag. The frame must have one.
#[inline]
pub(crate) fn take_off(frame: &mut Frame) {
    let bytes = frame.bytes_mut();
    if bytes.len() >= TYPE_AT + TAG {
        bytes.copy_within(..TYPE_AT, TAG);
        let taken_off = frame.pull_front(TAG);
        debug_assert!(taken_off.is_ok());
    }
}

/// Adds a tag with this VLAN to an untagged frame. A priority tag (VLAN 0) gets the VLAN, and
/// keeps its priority.
///
/// # Errors
/// The frame cannot have a tag; it is not changed.
#[inline]
pub(crate) fn put_on(frame: &mut Frame, vlan: u16) -> Result<(), TagError> {
    let [high, low] = vlan.to_be_bytes();
    let bytes = frame.bytes_mut();
    let Some(kind) = bytes.get_mut(TYPE_AT..).and_then(|rest| rest.first_chunk()) else {
        return Err(TagError::NoEthernet);
    };
    if TAGS.contains(&u16::from_be_bytes(*kind)) {
        let Some(tag) = bytes[TYPE_AT..].first_chunk_mut::<TAG>() else {
            return Err(TagError::NoEthernet);
        };
        *tag = [TPID[0], TPID[1], tag[2] & PRIORITY | high, low];
        return Ok(());
    }
    let extended = frame.extend_front(TAG).map(|_| ());
    extended.map_err(|error| match error {
        FrameError::TooLong { .. } | FrameError::TooShort { .. } => TagError::TooLong,
    })?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG..TAG + TYPE_AT, 0);
    bytes[TYPE_AT..TYPE_AT + TAG].copy_from_slice(&[TPID[0], TPID[1], high, low]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_on_bytes(bytes: &[u8]) -> Result<Vec<u8>, TagError> {
        let mut frame = Frame::from_bytes(bytes).unwrap();
        put_on(&mut frame, 0x123)?;
        Ok(frame.bytes().to_vec())
    }

    #[test]
    fn a_tag_that_is_put_on_is_taken_off_again() {
        let bytes: Vec<u8> = (0..60).collect();
        let mut frame = Frame::from_bytes(&bytes).unwrap();
        put_on(&mut frame, 7).unwrap();
        assert_eq!(frame.len(), 64);
        assert_eq!(frame.bytes()[..12], bytes[..12]);
        assert_eq!(frame.bytes()[12..16], [0x81, 0, 0, 7]);
        assert_eq!(frame.bytes()[16..], bytes[12..]);
        take_off(&mut frame);
        assert_eq!(frame.bytes(), bytes);
    }

    #[test]
    fn a_tag_of_a_priority_becomes_one_of_the_vlan_and_keeps_the_priority() {
        for tpid in TAGS {
            let mut bytes = vec![0; 60];
            bytes[12..14].copy_from_slice(&tpid.to_be_bytes());
            bytes[14..16].copy_from_slice(&[0xb0, 0]);
            let tagged = put_on_bytes(&bytes).unwrap();
            assert_eq!(tagged.len(), 60);
            assert_eq!(tagged[12..16], [0x81, 0, 0xb1, 0x23]);
        }
    }

    #[test]
    fn a_frame_that_cannot_have_a_tag_gets_none() {
        assert_eq!(put_on_bytes(&[0; 13]), Err(TagError::NoEthernet));
        assert!(put_on_bytes(&[0; 14]).is_ok());
        let longest = vec![0; packet::MAX_FRAME - 3];
        assert_eq!(put_on_bytes(&longest), Err(TagError::TooLong));
        let mut cut = vec![0; 14];
        cut[12] = 0x81;
        assert_eq!(put_on_bytes(&cut), Err(TagError::NoEthernet));
    }
}
