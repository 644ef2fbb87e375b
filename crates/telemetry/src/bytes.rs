//! Big-endian fields of byte slices. All reads are checked: a field outside of the slice is `None`.

/// Returns the 16-bit field at this offset.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*field))
}

/// Returns the 32-bit field at this offset.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*field))
}

/// Returns the number of whole words of four bytes.
#[inline(always)]
pub(crate) const fn whole_words(bytes: &[u8]) -> usize {
    bytes.len() / 4
}

/// Splits off this number of words. `None` if there are fewer.
#[inline(always)]
pub(crate) fn split_words(bytes: &[u8], words: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(words * 4)
}
