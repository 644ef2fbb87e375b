//! Bursts through a pass that is one native function.

use exec::{Burst, Derived, Fused, PacketContext, State};
use table::Lane;

use crate::backend::CompiledPass;
use crate::{abi, view};

/// A pass as native code.
pub(crate) struct FusedPass {
    compiled: CompiledPass,
}

impl FusedPass {
    pub(crate) fn new(compiled: CompiledPass) -> FusedPass {
        FusedPass { compiled }
    }
}

impl Fused for FusedPass {
    fn derive(&self, state: &State, lane: Lane, derived: &mut Derived) {
        view::derive(derived, state, lane, &self.compiled.code);
    }

    fn run(&self, burst: &mut Burst<'_>, context: &mut PacketContext) -> usize {
        let CompiledPass {
            run,
            scouts,
            code,
            uses,
            ..
        } = &self.compiled;
        abi::run_pass((*run, scouts, *uses), burst, context, code)
    }
}
