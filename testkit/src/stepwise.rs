//! Reference model of fast paths: runs their steps one after the other with the blocks of another
//! engine.

use std::sync::Arc;

use exec::{
    Burst, BurstSegment, CompiledFastPath, ControlVerdict, Derived, Destination, DeviceView,
    DropReason, Engine, FastPath, FastPathPort, FastPathStep, FastPathTest, Loaded, Natives,
    PacketContext, ParserVerdict, PassInput, PassOutcome, PrefetchStage, RandomStream, Requests,
    State, Tracer, Unsupported,
};
use ir::{ControlId, FieldId, Layout, ParserId, Program};
use packet::PortId;
use table::CounterShard;

/// Engine that implements fast paths by running their steps on the blocks of `E`.
pub struct Stepwise<E>(pub E);

impl<E: Engine> Engine for Stepwise<E> {
    fn name(&self) -> &'static str {
        match self.0.name() {
            "jit" => "stepwise-jit",
            _ => "stepwise",
        }
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        Ok(Arc::new(StepwiseProgram {
            blocks: self.0.load(program, layout, natives)?,
            slots: slots(program, layout),
        }))
    }
}

/// Position of each field: its first limb, the number of limbs, and the mask of the first limb.
type Slots = Arc<[(usize, usize, u64)]>;

fn slots(program: &Program, layout: &Layout) -> Slots {
    let slot = |(id, field): (FieldId, &ir::Field)| {
        let at = layout.offset(id) as usize;
        let mask = bits::one::mask(field.ty.width().min(64));
        (at, ir::limbs_of(field.ty) as usize, mask)
    };
    program.fields.iter().map(slot).collect()
}

struct StepwiseProgram {
    blocks: Arc<dyn Loaded>,
    slots: Slots,
}

impl Loaded for StepwiseProgram {
    fn scratch_limbs(&self) -> usize {
        self.blocks.scratch_limbs()
    }

    fn prepare(&self, packet: &mut PacketContext) {
        self.blocks.prepare(packet);
    }

    fn run_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ParserVerdict {
        self.blocks.run_parser(parser, packet, state)
    }

    fn run_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
    ) -> ControlVerdict {
        self.blocks.run_control(control, packet, state)
    }

    fn fuse(&self, pass: &FastPath) -> Option<Arc<dyn CompiledFastPath>> {
        Some(Arc::new(StepwisePass {
            blocks: Arc::clone(&self.blocks),
            slots: Arc::clone(&self.slots),
            pass: pass.clone(),
        }))
    }

    fn trace_parser(
        &self,
        parser: ParserId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ParserVerdict {
        self.blocks.trace_parser(parser, packet, state, tracer)
    }

    fn trace_control(
        &self,
        control: ControlId,
        packet: &mut PacketContext,
        state: &State,
        tracer: &mut dyn Tracer,
    ) -> ControlVerdict {
        self.blocks.trace_control(control, packet, state, tracer)
    }
}

struct StepwisePass {
    blocks: Arc<dyn Loaded>,
    slots: Slots,
    pass: FastPath,
}

impl CompiledFastPath for StepwisePass {
    fn derive(&self, state: &Arc<State>, lane: CounterShard, derived: &mut Derived) {
        derived.is_made_of(state, lane);
    }

    fn prefetch(&self, _: PrefetchStage, _: &DeviceView) {}

    fn run(&self, burst: &mut Burst<'_>, context: &mut PacketContext) -> usize {
        let mut done = 0;
        for lot in burst.segments {
            for number in (lot.first_packet..).take(lot.frames) {
                let frame = burst.order[done] as usize;
                std::mem::swap(&mut context.bytes, &mut burst.frames[frame]);
                context.random = RandomStream::new(lot.owner.seed, number);
                context.now = burst.now;
                context.lane = lot.owner.lane;
                context.work_left = lot.owner.work.units();
                context.requests = Requests::default();
                context.begin_pass();
                context.length = context.bytes.len() as u32;
                let outcome = self.packet(lot, context);
                burst.outcomes[done] = outcome.into();
                done += 1;
                let has_told = context.has_told();
                if matches!(outcome, PassOutcome::Left { .. }) {
                    return done;
                }
                std::mem::swap(&mut context.bytes, &mut burst.frames[frame]);
                if has_told {
                    return done;
                }
            }
        }
        done
    }
}

impl StepwisePass {
    fn packet(&self, lot: &BurstSegment<'_>, context: &mut PacketContext) -> PassOutcome {
        let state = lot.state();
        let mut egress = PortId(0);
        for (step, what) in self.pass.steps.iter().enumerate() {
            let left = PassOutcome::Left {
                step: step as u32,
                egress,
            };
            match what {
                FastPathStep::Set(field, input) => {
                    let value = self.input(*input, context, state, egress);
                    self.write(context, *field, value);
                }
                FastPathStep::Copy { from, to } => {
                    let value = self.read(context, *from);
                    self.write(context, *to, value);
                }
                FastPathStep::Parse { parser, errors } => {
                    context.begin_block();
                    let error = match self.blocks.run_parser(*parser, context, state) {
                        ParserVerdict::Accept => 0,
                        ParserVerdict::Reject(error) => error.into(),
                        ParserVerdict::Drop(reason) => return PassOutcome::Dropped(reason),
                    };
                    for field in errors {
                        self.write(context, *field, error);
                    }
                }
                FastPathStep::Control(control) => {
                    if let Err(reason) = self.control(*control, context, state) {
                        return PassOutcome::Dropped(reason);
                    }
                }
                FastPathStep::Deparse(control) => {
                    let deparsed = self.control(*control, context, state);
                    let finished = deparsed.and_then(|()| {
                        let finished = context.finish_deparse();
                        finished.map_err(|_| DropReason::FrameTooLong)
                    });
                    if let Err(reason) = finished {
                        return PassOutcome::Dropped(reason);
                    }
                    if let Some(length) = context.requests.truncate {
                        context.bytes.truncate(length as usize);
                    }
                }
                FastPathStep::Carry(pairs) => self.carry(context, pairs),
                FastPathStep::DropIf(test, reason) => {
                    if self.holds(*test, context) {
                        return PassOutcome::Dropped(*reason);
                    }
                }
                FastPathStep::LeaveIf(test) => {
                    if self.holds(*test, context) {
                        return left;
                    }
                }
                FastPathStep::SendFrame => {
                    if let Some(frame) = context.requests.frame {
                        return match context.finish_frame(frame) {
                            Ok(()) => PassOutcome::Sent(PortId(frame.port)),
                            Err(_) => PassOutcome::Dropped(DropReason::FrameTooLong),
                        };
                    }
                }
                FastPathStep::Enqueue(port) => {
                    let port = match port {
                        FastPathPort::Field(field) => PortId(self.read(context, *field) as u32),
                        FastPathPort::Destination => match context.requests.destination {
                            Some(Destination::Port(port)) => PortId(port),
                            Some(Destination::Drop) => {
                                return PassOutcome::Dropped(DropReason::Ingress);
                            }
                            None => return PassOutcome::Dropped(DropReason::NoDestination),
                        },
                    };
                    if lot.owner.busy_ports.binary_search(&port.0).is_ok() {
                        return left;
                    }
                    egress = port;
                }
                FastPathStep::Send => return PassOutcome::Sent(egress),
            }
        }
        PassOutcome::Sent(egress)
    }

    fn control(
        &self,
        control: ControlId,
        context: &mut PacketContext,
        state: &State,
    ) -> Result<(), DropReason> {
        context.begin_block();
        match self.blocks.run_control(control, context, state) {
            ControlVerdict::Done => Ok(()),
            ControlVerdict::Drop(reason) => Err(reason),
        }
    }

    /// Copies fields, including those of more than one limb.
    fn carry(&self, context: &mut PacketContext, pairs: &[(FieldId, FieldId)]) {
        let limbs = |field: FieldId| {
            let (at, count, _) = self.slots[field.get() as usize];
            at..at + count
        };
        let saved: Vec<Vec<u64>> = pairs
            .iter()
            .map(|(from, _)| context.frame()[limbs(*from)].to_vec())
            .collect();
        let requests = context.requests;
        context.begin_pass();
        context.requests = Requests {
            checksum_error: false,
            ..requests
        };
        for ((_, to), values) in pairs.iter().zip(saved) {
            context.frame_mut()[limbs(*to)].copy_from_slice(&values);
        }
        context.length = context.bytes.len() as u32;
    }

    fn holds(&self, test: FastPathTest, context: &PacketContext) -> bool {
        match test {
            FastPathTest::Equals(field, value) => self.read(context, field) == value,
            FastPathTest::Differs(field, value) => self.read(context, field) != value,
            FastPathTest::Asked => context.has_asked(),
        }
    }

    fn input(
        &self,
        input: PassInput,
        context: &PacketContext,
        state: &State,
        egress: PortId,
    ) -> u64 {
        match input {
            PassInput::Constant(value) => value,
            PassInput::IngressPort => context.bytes.ingress.0.into(),
            PassInput::IsHostPort => state.is_host_port(context.bytes.ingress.0.into()).into(),
            PassInput::EgressPort => egress.0.into(),
            PassInput::ReceivedLength => context.length.into(),
            PassInput::Length => context.bytes.len() as u64,
            PassInput::Nanos => context.now.0,
            PassInput::Micros => context.now.as_micros(),
            PassInput::ChecksumError => context.requests.checksum_error.into(),
        }
    }

    fn read(&self, context: &PacketContext, field: FieldId) -> u64 {
        context.frame()[self.slots[field.get() as usize].0]
    }

    fn write(&self, context: &mut PacketContext, field: FieldId, value: u64) {
        let (at, _, mask) = self.slots[field.get() as usize];
        context.frame_mut()[at] = value & mask;
    }
}
