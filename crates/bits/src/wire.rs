//! Fields in a frame: numbers of any width at any bit offset of a byte string, in network order.
//!
//! Bit 0 of a byte string is the most significant bit of its first byte. A field's first bit is the
//! most significant bit of the number.

use crate::limbs::limbs_for;
use crate::one;
use std::fmt;

/// Error: a field extends beyond the end of the bytes. Nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBounds;

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the field reaches beyond the end of the bytes")
    }
}

impl std::error::Error for OutOfBounds {}

/// Checks that the field is within the bytes. The functions below rely on it.
#[inline]
fn check(bytes: &[u8], bit_offset: usize, width: u32) -> Result<(), OutOfBounds> {
    match bit_offset.checked_add(width as usize) {
        Some(end) if end.div_ceil(8) <= bytes.len() => Ok(()),
        _ => Err(OutOfBounds),
    }
}

/// Returns the field of `width` bits (at most 64) at `bit_offset`.
#[inline]
pub fn read_u64(bytes: &[u8], bit_offset: usize, width: u32) -> Result<u64, OutOfBounds> {
    check(bytes, bit_offset, width)?;
    Ok(load(bytes, bit_offset, width))
}

/// Overwrites the field of `width` bits (at most 64) at `bit_offset` with the canonical `value`.
#[inline]
pub fn write_u64(
    bytes: &mut [u8],
    bit_offset: usize,
    width: u32,
    value: u64,
) -> Result<(), OutOfBounds> {
    check(bytes, bit_offset, width)?;
    store(bytes, bit_offset, width, value);
    Ok(())
}

/// Reads the field of `width` bits at `bit_offset` into `limbs_for(width)` limbs.
#[inline]
pub fn read(
    bytes: &[u8],
    bit_offset: usize,
    width: u32,
    dst: &mut [u64],
) -> Result<(), OutOfBounds> {
    check(bytes, bit_offset, width)?;
    for (limb, (offset, width)) in dst[..limbs_for(width)]
        .iter_mut()
        .zip(pieces(bit_offset, width))
    {
        *limb = load(bytes, offset, width);
    }
    Ok(())
}

/// Overwrites the field of `width` bits at `bit_offset` with the number in `src`.
#[inline]
pub fn write(
    bytes: &mut [u8],
    bit_offset: usize,
    width: u32,
    src: &[u64],
) -> Result<(), OutOfBounds> {
    check(bytes, bit_offset, width)?;
    for (&limb, (offset, width)) in src[..limbs_for(width)]
        .iter()
        .zip(pieces(bit_offset, width))
    {
        store(bytes, offset, width, limb);
    }
    Ok(())
}

/// Returns offset and width of each limb of a field, least significant limb (the last bits) first.
#[inline]
fn pieces(bit_offset: usize, width: u32) -> impl Iterator<Item = (usize, u32)> {
    (0..limbs_for(width)).map(move |limb| {
        let left = width - limb as u32 * 64;
        let piece = left.min(64);
        (bit_offset + (left - piece) as usize, piece)
    })
}

/// Returns the field, which is within `bytes`.
#[inline]
fn load(bytes: &[u8], bit_offset: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (start, skip) = (bit_offset / 8, (bit_offset % 8) as u32);
    if skip + width <= 64
        && let Some(word) = bytes[start..].first_chunk::<8>()
    {
        return u64::from_be_bytes(*word) << skip >> (64 - width);
    }
    let span = (skip + width).div_ceil(8);
    let gathered = bytes[start..start + span as usize]
        .iter()
        .fold(0u128, |gathered, &byte| gathered << 8 | u128::from(byte));
    (gathered >> (span * 8 - skip - width)) as u64 & one::mask(width)
}

/// Overwrites the field, which is within `bytes`.
#[inline]
fn store(bytes: &mut [u8], bit_offset: usize, width: u32, value: u64) {
    if width == 0 {
        return;
    }
    let (start, skip) = (bit_offset / 8, (bit_offset % 8) as u32);
    if skip + width <= 64
        && let Some(word) = bytes[start..].first_chunk_mut::<8>()
    {
        let old = u64::from_be_bytes(*word);
        *word = one::deposit(old, value, 64 - skip - width, width).to_be_bytes();
        return;
    }
    let span = (skip + width).div_ceil(8);
    let shift = span * 8 - skip - width;
    let (field, value) = (
        u128::from(one::mask(width)) << shift,
        u128::from(value) << shift,
    );
    for (i, byte) in bytes[start..start + span as usize].iter_mut().enumerate() {
        let down = (span - 1 - i as u32) * 8;
        *byte = *byte & !((field >> down) as u8) | (value >> down) as u8;
    }
}
