//! Bursts through a pass that is one native function.

use exec::{Burst, Fused, PacketContext, PassOutcome, RandomStream, Requests, State, WORK_BUDGET};
use ir::{ExternKind, Program};

use crate::abi::{self, Ended, PassInputs};
use crate::backend::CompiledPass;

/// A pass as native code.
pub(crate) struct FusedPass {
    compiled: CompiledPass,
    /// Whether the program may leave messages, digests or requests with the packet.
    may_ask: bool,
    /// Whether the program may draw random numbers.
    may_draw: bool,
    /// Whether the program has running checksums.
    has_checksums: bool,
}

impl FusedPass {
    pub(crate) fn new(compiled: CompiledPass, program: &Program) -> FusedPass {
        let has = |kind: fn(&ExternKind) -> bool| program.externs.values().any(|e| kind(&e.kind));
        FusedPass {
            may_ask: compiled.uses.may_ask,
            may_draw: compiled.uses.may_draw
                || program.tables.values().any(|t| t.implementation.is_some()),
            has_checksums: has(|kind| {
                matches!(
                    kind,
                    ExternKind::Checksum { .. } | ExternKind::InternetChecksum
                )
            }),
            compiled,
        }
    }

    /// The context begins with another packet. Native code sets the fields.
    fn begin(&self, context: &mut PacketContext, seed: u64, number: u64) {
        if self.may_draw {
            context.random = RandomStream::new(seed, number);
        }
        context.work_left = WORK_BUDGET;
        context.length = context.bytes.len() as u32;
        context.cursor = 0;
        context.emitted.clear();
        context.current = None;
        if self.has_checksums {
            context.clear_checksums();
        }
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
        context.requests = Requests::default();
        for at in from..burst.frames.len() {
            std::mem::swap(&mut context.bytes, &mut burst.frames[at]);
            let number = burst.first_packet + (at - from) as u64;
            self.begin(context, burst.seed, number);
            let inputs = PassInputs {
                now: burst.now,
                ingress: context.bytes.ingress,
                busy: burst.busy_ports,
            };
            let ended = abi::run_pass(
                self.compiled.run,
                context,
                state,
                &self.compiled.code,
                inputs,
            );
            let outcome = match ended {
                Ended::Sent(port) => PassOutcome::Sent(port),
                Ended::Dropped(reason) => PassOutcome::Dropped(reason),
                Ended::Left { step, egress } => PassOutcome::Left { step, egress },
            };
            burst.outcomes[at] = outcome;
            if matches!(outcome, PassOutcome::Left { .. }) {
                if !self.may_draw {
                    context.random = RandomStream::new(burst.seed, number);
                }
                return at + 1;
            }
            std::mem::swap(&mut context.bytes, &mut burst.frames[at]);
            if self.may_ask {
                context.requests = Requests::default();
                if !context.log.is_empty() || !context.digests.is_empty() {
                    return at + 1;
                }
            } else {
                context.requests.checksum_error = false;
                context.requests.destination = None;
            }
        }
        burst.frames.len()
    }
}
