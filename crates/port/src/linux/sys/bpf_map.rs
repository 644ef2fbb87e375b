//! BPF maps with checked sizes of keys and values.
#![allow(unsafe_code, reason = "system calls have no other form")]

use super::bpf;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// Kind of a BPF map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpfMapKind {
    /// A hash table.
    Hash,
    /// An array; keys are indices of four bytes.
    Array,
    /// An array with elements for each processor. Only programs access it.
    PerCpuArray,
    /// A trie of prefixes; a key begins with the length of its prefix in bits.
    LpmTrie,
    /// A map from port numbers to interfaces, for redirection.
    DevmapHash,
    /// A map from queue numbers to AF_XDP sockets.
    Sockets,
}

impl BpfMapKind {
    /// Returns the number in linux/bpf.h, and the flags that maps of the kind need.
    fn numbers(self) -> (u32, u32) {
        const NO_PREALLOC: u32 = 1;
        match self {
            BpfMapKind::Hash => (1, 0),
            BpfMapKind::Array => (2, 0),
            BpfMapKind::PerCpuArray => (6, 0),
            BpfMapKind::LpmTrie => (11, NO_PREALLOC),
            BpfMapKind::DevmapHash => (25, 0),
            BpfMapKind::Sockets => (17, 0),
        }
    }
}

/// A BPF map. The kernel frees it with the last descriptor or program that refers to it.
#[derive(Debug)]
pub struct BpfMap {
    fd: OwnedFd,
    key: usize,
    value: usize,
    is_per_cpu: bool,
}

impl BpfMap {
    /// Creates a map (Linux 5.9; CAP_BPF).
    ///
    /// # Errors
    /// The system's error: no permission, or no memory.
    pub fn new(kind: BpfMapKind, key: u32, value: u32, entries: u32) -> io::Result<BpfMap> {
        let (number, flags) = kind.numbers();
        Ok(BpfMap {
            fd: bpf::create_map(number, key, value, entries, flags)?,
            key: key as usize,
            value: value as usize,
            is_per_cpu: kind == BpfMapKind::PerCpuArray,
        })
    }

    /// Returns the descriptor, which a program's instructions name.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Stores a value, or replaces it.
    ///
    /// # Errors
    /// The system's error, or `InvalidInput` if a length is not the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check(key.len(), value.len())?;
        // SAFETY: the lengths are the map's.
        unsafe { bpf::update(self.fd.as_fd(), key, value, 0) }
    }

    /// Reads a value. Returns `None` if the map does not have the key.
    ///
    /// # Errors
    /// As [`BpfMap::set`].
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.value];
        self.check(key.len(), value.len())?;
        // SAFETY: the lengths are the map's.
        match unsafe { bpf::lookup(self.fd.as_fd(), key, &mut value) } {
            Ok(()) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a key. Does nothing if the map does not have it.
    ///
    /// # Errors
    /// As [`BpfMap::set`].
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.check(key.len(), self.value)?;
        // SAFETY: the length is the map's.
        match unsafe { bpf::delete(self.fd.as_fd(), key) } {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the first `count` values of an array, one after the other. The array must have as
    /// many.
    ///
    /// # Errors
    /// The system's error.
    pub fn first_values(&self, count: u32) -> io::Result<Vec<u8>> {
        self.check(self.key, self.value)?;
        let mut keys = vec![0; self.key * count as usize];
        let mut values = vec![0; self.value * count as usize];
        if count > 0 {
            // SAFETY: there is room for this number of keys and values.
            unsafe { bpf::lookup_first(self.fd.as_fd(), count, &mut keys, &mut values) }?;
        }
        Ok(values)
    }

    fn check(&self, key: usize, value: usize) -> io::Result<()> {
        // A value for each processor would be longer than `value`.
        match key == self.key && value == self.value && !self.is_per_cpu {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
