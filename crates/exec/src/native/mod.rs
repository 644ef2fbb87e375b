//! Extern functions that a user declares and the host supplies.

mod conntrack;
mod standard;

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
    /// The functions that come with Polyplane: `ebpf_ipv4_checksum` of the XDP model, and those that published programs for the small
    /// architectures declare (see [`standard`]). State of theirs is new in each set.
    pub fn standard() -> Natives {
        let mut natives = Natives::default();
        standard::insert(&mut natives);
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
