//! Reading and writing of numbers in network order.

/// Reader of a message's body. After the end it reads zeros and notes that, so that the length is
/// checked once, by [`Reader::is_complete`].
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    is_short: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            bytes,
            is_short: false,
        }
    }

    /// Returns false if more was read than there was.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_short
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.bytes.split_first_chunk() {
            Some((read, rest)) => {
                self.bytes = rest;
                *read
            }
            None => {
                self.bytes = &[];
                self.is_short = true;
                [0; N]
            }
        }
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.take(count);
    }

    /// Returns the next bytes, or fewer if there are not as many.
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        self.is_short |= count > self.bytes.len();
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Returns a reader of the next bytes, and skips them.
    pub(super) fn part(&mut self, count: usize) -> Reader<'a> {
        Reader::new(self.take(count))
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }
}

/// Writer of a message.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn pad(&mut self, count: usize) {
        self.pad_to(self.len() + count);
    }

    /// Appends zeros up to this length.
    pub(super) fn pad_to(&mut self, length: usize) {
        self.bytes.resize(length.max(self.bytes.len()), 0);
    }

    /// Writes a number over two bytes that were written before.
    pub(super) fn set_u16(&mut self, at: usize, number: u16) {
        self.bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
    }

    pub(super) fn u8(&mut self, number: u8) {
        self.put(&[number]);
    }

    pub(super) fn u16(&mut self, number: u16) {
        self.put(&number.to_be_bytes());
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.put(&number.to_be_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.put(&number.to_be_bytes());
    }
}
