//! Main memory: one range of bytes, little-endian.

/// Address of the first byte of memory, as Rocket's default memory map has it.
pub const MEMORY_BASE: u64 = 0x8000_0000;

/// Main memory of a device. All of its cores share it.
#[derive(Clone)]
pub struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    /// Creates memory of a number of bytes, all zero.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
        }
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the place of `count` bytes at an address, or none if one of them is outside.
    #[inline]
    fn place(&self, address: u64, count: usize) -> Option<usize> {
        let place = usize::try_from(address.wrapping_sub(MEMORY_BASE)).ok()?;
        let end = place.checked_add(count)?;
        (end <= self.bytes.len()).then_some(place)
    }

    /// Reads an array of bytes.
    #[inline]
    pub fn read<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let place = self.place(address, N)?;
        self.bytes[place..place + N].try_into().ok()
    }

    /// Writes bytes. Returns none, with nothing written, if one of them is outside.
    #[inline]
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let place = self.place(address, bytes.len())?;
        self.bytes[place..place + bytes.len()].copy_from_slice(bytes);
        Some(())
    }

    /// Reads a slice of bytes.
    pub fn slice(&self, address: u64, count: usize) -> Option<&[u8]> {
        let place = self.place(address, count)?;
        Some(&self.bytes[place..place + count])
    }
}
