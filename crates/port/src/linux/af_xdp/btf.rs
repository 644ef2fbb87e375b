//! Finds the BTF id of a kernel function in the kernel's type information. A BPF program calls the
//! function by this id.
//!
//! The kernel's Documentation/bpf/btf.rst defines the format. Only function names are parsed.
//! Other types are skipped by their sizes.

use std::fs;

/// File with the kernel's type information.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;

/// Length of the common header of all types, in bytes: name, information, and size or type.
const TYPE: usize = 12;

const KIND_FUNC: u32 = 12;

/// Returns the BTF id of the kernel function `name`. Returns `None` if this kernel does not have
/// the function or provides no BTF.
pub(super) fn kernel_function(name: &str) -> Option<u32> {
    find_function(&fs::read(KERNEL).ok()?, name)
}

fn find_function(btf: &[u8], name: &str) -> Option<u32> {
    if u16::from_ne_bytes(btf.get(..2)?.try_into().ok()?) != MAGIC {
        return None;
    }
    let [header, types, types_len, strings, strings_len] =
        [4, 8, 12, 16, 20].map(|at| word(btf, at));
    let header = header? as usize;
    let section = |at: Option<u32>, len: Option<u32>| {
        let start = header.checked_add(at? as usize)?;
        btf.get(start..start.checked_add(len? as usize)?)
    };
    let types = section(types, types_len)?;
    let strings = section(strings, strings_len)?;
    // Type 0 is void and has no entry.
    let mut number = 1;
    let mut at = 0;
    while let Some(information) = word(types, at + 4) {
        let kind = information >> 24 & 0x1f;
        if kind == KIND_FUNC && has_name(strings, word(types, at)?, name) {
            return Some(number);
        }
        at += TYPE + behind(kind, information & 0xffff)?;
        number += 1;
    }
    None
}

/// Returns the number of bytes that follow the header of a type with this kind and number of
/// members. Returns `None` for an unknown kind.
fn behind(kind: u32, members: u32) -> Option<usize> {
    let members = members as usize;
    match kind {
        // Pointers, forwards, typedefs, volatile, const, restrict, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => Some(0),
        // Integers, variables, declaration tags.
        1 | 14 | 17 => Some(4),
        // Arrays.
        3 => Some(12),
        // Structures, unions, data sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => Some(members * 12),
        // Enumerations, function prototypes.
        6 | 13 => Some(members * 8),
        _ => None,
    }
}

fn has_name(strings: &[u8], at: u32, name: &str) -> bool {
    let found = strings.get(at as usize..).unwrap_or_default();
    found.starts_with(name.as_bytes()) && found.get(name.len()) == Some(&0)
}

/// Returns the 32-bit number at `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Builds type information with an integer, a prototype with two parameters, and two
    /// functions.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0first\0second\0";
        let types: Vec<u32> = [
            &[1, 1 << 24, 4, 32][..],
            &[0, 13 << 24 | 2, 1, 0, 1, 0, 1][..],
            &[5, 12 << 24, 2][..],
            &[11, 12 << 24 | 1, 2][..],
        ]
        .concat();
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        let types_len = types.len() as u32 * 4;
        let header = [24, 0, types_len, types_len, strings.len() as u32];
        let words = header.iter().chain(&types);
        btf.extend(words.flat_map(|word| word.to_ne_bytes()));
        btf.extend(strings);
        btf
    }

    #[test]
    fn functions_are_found_by_their_whole_name() {
        let find = |name| find_function(&sample(), name);
        assert_eq!(find("first"), Some(3));
        assert_eq!(find("second"), Some(4));
        assert_eq!(find("firs"), None);
        assert_eq!(find("int"), None, "no function");
    }

    proptest! {
        #[test]
        fn damaged_information_finds_nothing_or_something_but_never_panics(
            damage in prop::collection::vec((0usize..120, any::<u8>()), 0..8),
            len in 0usize..120,
        ) {
            let mut btf = sample();
            for (at, byte) in damage {
                if let Some(place) = btf.get_mut(at) {
                    *place = byte;
                }
            }
            btf.truncate(len);
            let _ = find_function(&btf, "second");
        }
    }
}
