//! Bursts through a pass that is one native function.

use exec::{Burst, Fused, PacketContext, State};

use crate::abi::{self, BURST, PassBurst};
use crate::backend::CompiledPass;

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
    fn run(
        &self,
        burst: &mut Burst<'_>,
        from: usize,
        context: &mut PacketContext,
        state: &State,
    ) -> usize {
        context.now = burst.now;
        let CompiledPass {
            run,
            scouts,
            code,
            uses,
            ..
        } = &self.compiled;
        let mut done = from;
        while done < burst.frames.len() {
            let end = burst.frames.len().min(done + BURST);
            let some = PassBurst {
                frames: &mut burst.frames[done..end],
                outcomes: &mut burst.outcomes[done..end],
                now: burst.now,
                busy_ports: burst.busy_ports,
                chance: (burst.seed, burst.first_packet + (done - from) as u64),
                work: burst.work,
                uses: *uses,
            };
            let ended = abi::run_pass((*run, scouts), some, context, state, code);
            done += ended.done;
            if ended.stops || ended.done == 0 {
                break;
            }
        }
        done
    }
}
