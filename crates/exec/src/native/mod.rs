//! Native extern functions: declared by the user's program, supplied by the host.

mod conntrack;
mod standard;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ir::{ExternId, ExternKind, Program};

use crate::{DropReason, PacketContext, State};

/// Function of the host. Takes the arguments and the places for its results. Each value starts on a
/// new limb. The engine truncates the results to their types.
pub type NativeFunction = Arc<dyn Fn(&[u64], &mut [u64]) + Send + Sync>;

/// Remote handler: code outside the program that answers a request with a response (CLIP).
pub trait RemoteHandler: Send + Sync {
    /// Answers one request.
    ///
    /// # Errors
    /// The reason, if the handler drops the packet.
    fn call(&self, call: HandlerCall<'_>) -> Result<(), DropReason>;
}

/// One call of a [`RemoteHandler`].
#[derive(Debug)]
pub struct HandlerCall<'c> {
    /// The request's scalars in order ([`ir::HandlerRecord::scalars`]). Each starts on a new limb.
    pub request: &'c [u64],
    /// Places for the response's scalars, in the same form, zero at first. The engine truncates
    /// them to their types.
    pub response: &'c mut [u64],
    /// The packet. Its frame of fields is not for handlers.
    pub packet: &'c mut PacketContext,
    /// Tables and other state of the device.
    pub state: &'c State,
}

/// The host's functions, by their P4 name, and the handlers.
#[derive(Clone, Default)]
pub struct Natives {
    functions: BTreeMap<String, NativeFunction>,
    handlers: BTreeMap<String, Arc<dyn RemoteHandler>>,
}

impl fmt::Debug for Natives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.functions.keys().chain(self.handlers.keys());
        f.debug_set().entries(names).finish()
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

    /// Adds or replaces a handler.
    pub fn insert_handler(&mut self, name: &str, handler: Arc<dyn RemoteHandler>) {
        self.handlers.insert(name.to_string(), handler);
    }

    /// Adds the functions and handlers of `other`. They replace those with the same names.
    pub fn extend(&mut self, other: &Natives) {
        let functions = other.functions.iter();
        self.functions
            .extend(functions.map(|(name, function)| (name.clone(), Arc::clone(function))));
        let handlers = other.handlers.iter();
        self.handlers
            .extend(handlers.map(|(name, handler)| (name.clone(), Arc::clone(handler))));
    }

    /// Returns true if there is no function and no handler.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.handlers.is_empty()
    }

    /// Returns the handler with this name.
    pub fn handler(&self, name: &str) -> Option<&Arc<dyn RemoteHandler>> {
        self.handlers.get(name)
    }

    /// Returns the function with this name.
    pub fn get(&self, name: &str) -> Option<&NativeFunction> {
        self.functions.get(name)
    }
}

/// Handlers of a device in place of those with which its program was loaded. They are part of the
/// state that packets read, so new ones come with a snapshot, between two bursts.
#[derive(Clone, Default)]
pub struct StateHandlers(Arc<[Option<Arc<dyn RemoteHandler>>]>);

impl StateHandlers {
    /// Returns those of `natives` that the program calls.
    pub fn new(program: &Program, natives: &Natives) -> StateHandlers {
        let externs = program.externs.values();
        let handlers = externs.map(|instance| match instance.kind {
            ExternKind::Handler { .. } => natives.handler(&instance.name).cloned(),
            _ => None,
        });
        StateHandlers(handlers.collect())
    }

    /// Returns the handler of an extern instance.
    #[inline]
    pub fn get(&self, id: ExternId) -> Option<&Arc<dyn RemoteHandler>> {
        self.0.get(id.get() as usize)?.as_ref()
    }
}

impl fmt::Debug for StateHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} handlers", self.0.iter().flatten().count())
    }
}
