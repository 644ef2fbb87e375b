//! Portable NIC Architecture (PNA, sections 5 and 6): main parser, pre control, main control, main
//! deparser.
//!
//! Packets of network ports go to the host, and vice versa. The device's configuration defines the
//! host ports. A packet is dropped if the program calls neither `send_to_port` nor `drop_packet`.
//! Mirrors are copies of the deparsed packet.

use exec::{Destination, DropDetail, DropReason, ParserVerdict, PassInput, TraceEvent};
use ir::{BlockRole, Layout, Program};
use packet::PortId;

use crate::arch::fast_path::{FastPathBuilder, FastPathPlan, Resume};
use crate::core::{Core, InFlightPacket, PRIORITIES, PacketPath, Trace};
use crate::snapshot_cell::SnapshotCell;

pub(crate) struct Pna {
    /// Input port, for each block that receives it.
    ports: [SnapshotCell; 3],
    /// True if the packet recirculates.
    recirculated: [SnapshotCell; 6],
    /// `PNA_Direction_t`: 0 for network to host, 1 for host to network.
    directions: [SnapshotCell; 3],
    /// Number of recirculations so far.
    passes: [SnapshotCell; 3],
    errors: [SnapshotCell; 2],
    timestamp: SnapshotCell,
    class_of_service: SnapshotCell,
}

impl Pna {
    pub(super) fn new(program: &Program, layout: &Layout) -> Pna {
        let slot = |name: &str| SnapshotCell::of(program, layout, name);
        let inputs = |field: &str| {
            ["parser_input", "pre_input", "main_input"]
                .map(|block| slot(&format!("{block}.{field}")))
        };
        let [a, b, c] = inputs("recirculated");
        let [d, e, f] = inputs("loopedback");
        Pna {
            ports: inputs("input_port"),
            recirculated: [a, b, c, d, e, f],
            directions: inputs("direction"),
            passes: inputs("pass"),
            errors: [
                slot("pre_input.parser_error"),
                slot("main_input.parser_error"),
            ],
            timestamp: slot("main_input.timestamp"),
            class_of_service: slot("main_output.class_of_service"),
        }
    }

    pub(super) fn run(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        if let Err(reason) = self.blocks(core, &mut job, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        self.ingress_done(core, job, trace);
    }

    /// Continues after the main control.
    pub(super) fn ingress_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        trace: &mut Trace<'_>,
    ) {
        if let Err(reason) = core.deparse(&mut job, BlockRole::Deparser, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        self.all_done(core, job, trace);
    }

    /// Continues after all blocks.
    pub(super) fn all_done(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        self.mirrors(core, &mut job, trace);
        let requests = job.packet.requests;
        if requests.recirculate_packet {
            job.path = PacketPath::Recirculate;
            job.instance += 1;
            return core.start_over(job, "recirculate", trace);
        }
        match requests.destination {
            Some(Destination::Port(port)) => {
                let class = self.class_of_service.get(job.packet.frame());
                core.enqueue(job, PortId(port), queue_of(class), trace);
            }
            Some(Destination::Drop) => core.drop(job, DropReason::Ingress, DropDetail::None, trace),
            None => core.drop(job, DropReason::NoDestination, DropDetail::None, trace),
        }
    }

    /// Returns the fast path: [`Pna::run`] for a packet without requests except its destination.
    pub(super) fn pass(&self, program: &Program) -> Option<FastPathPlan> {
        let mut pass = FastPathBuilder::new(program);
        for slot in self.ports {
            pass.set(slot, PassInput::IngressPort);
        }
        for slot in self.directions {
            pass.set(slot, PassInput::IsHostPort);
        }
        pass.set(self.timestamp, PassInput::Nanos);
        pass.parse(BlockRole::Parser, &self.errors);
        pass.control(BlockRole::PreControl);
        pass.control(BlockRole::Ingress);
        pass.deparse(BlockRole::Deparser);
        pass.resume_at(Resume::AllDone);
        pass.leave_if_asked();
        pass.enqueue_destination();
        pass.send()
    }

    fn blocks(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        job.packet.begin_pass();
        job.packet.length = job.packet.bytes.len() as u32;
        let port = u64::from(job.ingress.0);
        let is_host = job.root.state.is_host_port(port);
        let (pass, again, now) = (
            job.instance,
            job.path == PacketPath::Recirculate,
            job.packet.now.0,
        );
        let frame = job.packet.frame_mut();
        self.ports.iter().for_each(|slot| slot.set(frame, port));
        self.recirculated
            .iter()
            .for_each(|slot| slot.set(frame, again.into()));
        self.directions
            .iter()
            .for_each(|slot| slot.set(frame, is_host.into()));
        self.passes
            .iter()
            .for_each(|slot| slot.set(frame, pass.into()));
        self.timestamp.set(frame, now);
        let told = self.ports.iter().chain(&self.recirculated);
        let told = told.chain(&self.directions).chain(&self.passes);
        trace.given(frame, told.chain([&self.timestamp]));
        match core.parse(job, BlockRole::Parser, trace) {
            ParserVerdict::Accept => {}
            ParserVerdict::Reject(error) => {
                let frame = job.packet.frame_mut();
                self.errors
                    .iter()
                    .for_each(|slot| slot.set(frame, error.into()));
            }
            ParserVerdict::Drop(reason) => return Err(reason),
        }
        trace.given(job.packet.frame(), &self.errors);
        core.control(job, BlockRole::PreControl, trace)?;
        core.control(job, BlockRole::Ingress, trace)
    }

    fn mirrors(&self, core: &mut Core, job: &mut InFlightPacket, trace: &mut Trace<'_>) {
        let root = std::sync::Arc::clone(&job.root);
        for session in job.packet.requests.mirrors.into_iter().flatten() {
            let Some(mode) = core.session(&root, session, trace) else {
                continue;
            };
            let replicas = std::mem::take(&mut core.replicas);
            let may_copy = core.may_copy(job, replicas.len(), trace).is_ok();
            for replica in replicas.iter().filter(|_| may_copy) {
                let mut copy = core.copy(job, false);
                if let Some(length) = mode.truncate {
                    copy.packet.bytes.truncate(length as usize);
                }
                let (port, instance) = (replica.port, replica.instance);
                trace.event(|| TraceEvent::Copied {
                    why: "mirror",
                    port: port.0,
                    instance,
                });
                core.enqueue(copy, port, queue_of(mode.class_of_service.into()), trace);
            }
            core.replicas = replicas;
            job.resume();
        }
    }
}

/// Returns the queue of a class of service. A class that the device does not have is class 0.
fn queue_of(class: u64) -> u8 {
    if class < u64::from(PRIORITIES) {
        class as u8
    } else {
        0
    }
}
