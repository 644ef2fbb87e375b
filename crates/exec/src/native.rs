//! Extern functions that a user declares and the host supplies.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A function of the host: its arguments, each starting on its own limb, and places for its results, laid out the same way.
/// Results are cut to their types by the engine.
pub type NativeFunction = Arc<dyn Fn(&[u64], &mut [u64]) + Send + Sync>;

/// The host's functions, by their name in P4.
#[derive(Clone, Default)]
pub struct Natives {
    functions: BTreeMap<String, NativeFunction>,
}

impl fmt::Debug for Natives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

impl Natives {
    /// The functions that come with Polyplane: `ebpf_ipv4_checksum` of the XDP model.
    pub fn standard() -> Natives {
        let mut natives = Natives::default();
        natives.insert("ebpf_ipv4_checksum", |args, results| {
            if let Some(result) = results.first_mut() {
                *result = ipv4_checksum(args);
            }
        });
        natives
    }

    /// Adds or replaces a function.
    pub fn insert(
        &mut self,
        name: &str,
        function: impl Fn(&[u64], &mut [u64]) + Send + Sync + 'static,
    ) {
        self.functions.insert(name.to_string(), Arc::new(function));
    }

    /// The function with this name.
    pub fn get(&self, name: &str) -> Option<&NativeFunction> {
        self.functions.get(name)
    }
}

/// The header checksum of an IPv4 header without options, given as its fields but the checksum, in order.
fn ipv4_checksum(args: &[u64]) -> u64 {
    let at = |i: usize| args.get(i).copied().unwrap_or(0);
    let words = [
        at(0) << 12 | at(1) << 8 | at(2),
        at(3),
        at(4),
        at(5) << 13 | at(6),
        at(7) << 8 | at(8),
        at(9) >> 16,
        at(9) & 0xffff,
        at(10) >> 16,
        at(10) & 0xffff,
    ];
    let mut sum: u64 = words.iter().sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Wikipedia's article on the IPv4 header checksum.
    #[test]
    fn the_ipv4_checksum_is_that_of_the_header() {
        let natives = Natives::standard();
        let mut result = [0];
        let args = [4, 5, 0, 0x73, 0, 2, 0, 0x40, 0x11, 0xc0a8_0001, 0xc0a8_00c7];
        natives.get("ebpf_ipv4_checksum").unwrap()(&args, &mut result);
        assert_eq!(result, [0xb861]);
    }
}
