//! An engine without code, for a device that holds the whole tables and gets no packets.

use std::sync::Arc;

use exec::{
    ControlVerdict, DropReason, Engine, Loaded, Natives, PacketContext, ParserVerdict, State,
    Tracer, Unsupported,
};
use ir::{ControlId, Layout, ParserId, Program};

/// Engine that accepts every program and drops every packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEngine;

impl Engine for NoEngine {
    fn name(&self) -> &'static str {
        "none"
    }

    fn load(
        &self,
        _: &Arc<Program>,
        _: &Layout,
        _: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        Ok(Arc::new(NoEngine))
    }
}

impl Loaded for NoEngine {
    fn scratch_limbs(&self) -> usize {
        0
    }

    fn prepare(&self, _: &mut PacketContext) {}

    fn run_parser(&self, _: ParserId, _: &mut PacketContext, _: &State) -> ParserVerdict {
        ParserVerdict::Drop(DropReason::NoProgram)
    }

    fn run_control(&self, _: ControlId, _: &mut PacketContext, _: &State) -> ControlVerdict {
        ControlVerdict::Drop(DropReason::NoProgram)
    }

    fn trace_parser(
        &self,
        _: ParserId,
        _: &mut PacketContext,
        _: &State,
        _: &mut dyn Tracer,
    ) -> ParserVerdict {
        ParserVerdict::Drop(DropReason::NoProgram)
    }

    fn trace_control(
        &self,
        _: ControlId,
        _: &mut PacketContext,
        _: &State,
        _: &mut dyn Tracer,
    ) -> ControlVerdict {
        ControlVerdict::Drop(DropReason::NoProgram)
    }
}
