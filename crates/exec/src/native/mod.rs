//! Native extern functions: declared by the user's program, supplied by the host.

mod conntrack;
mod standard;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Function of the host. Takes the arguments and the places for its results. Each value starts on a
/// new limb. The engine truncates the results to their types.
pub type NativeFunction = Arc<dyn Fn(&[u64], &mut [u64]) + Send + Sync>;

/// The host's functions, by their P4 name.
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
    /// Returns the functions that come with Polyplane: `ebpf_ipv4_checksum` of the XDP model, and
    /// those that published programs for the small architectures declare (see [`standard`]). Each
    /// set has a separate state.
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

    /// Returns the function with this name.
    pub fn get(&self, name: &str) -> Option<&NativeFunction> {
        self.functions.get(name)
    }
}
