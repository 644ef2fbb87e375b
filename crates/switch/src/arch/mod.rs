//! Architectures: the order of a program's blocks, their inputs, and the effect of their outputs.

mod fast_path;
mod filters;
mod pna;
mod psa;
mod v1model;

use exec::{DropDetail, DropReason};
use ir::{Arch, Layout, Program};
use packet::PortId;

pub(crate) use fast_path::{FastPathPlan, Resume};

use crate::core::{Core, InFlightPacket, PacketPath, Trace};
use crate::queue::QueueTimes;

/// Architecture bound to one program's fields.
pub(crate) enum Pipeline {
    V1model(Box<v1model::V1model>),
    Psa(Box<psa::Psa>),
    Pna(Box<pna::Pna>),
    Ebpf(filters::Ebpf),
    Ubpf(filters::Ubpf),
    Xdp(filters::Xdp),
    Own(filters::Own),
}

impl Pipeline {
    pub(crate) fn of(program: &Program, layout: &Layout) -> Pipeline {
        match program.arch {
            Arch::V1model => Pipeline::V1model(Box::new(v1model::V1model::new(program, layout))),
            Arch::Psa => Pipeline::Psa(Box::new(psa::Psa::new(program, layout))),
            Arch::Pna => Pipeline::Pna(Box::new(pna::Pna::new(program, layout))),
            Arch::Ebpf => Pipeline::Ebpf(filters::Ebpf::new(program, layout)),
            Arch::Ubpf => Pipeline::Ubpf(filters::Ubpf::new(program, layout)),
            Arch::Xdp => Pipeline::Xdp(filters::Xdp::new(program, layout)),
            Arch::Own => Pipeline::Own(filters::Own),
        }
    }
}

impl Pipeline {
    /// Returns the fast path, if the architecture has one for this program.
    pub(crate) fn pass(&self, program: &Program) -> Option<FastPathPlan> {
        match self {
            Pipeline::V1model(arch) => arch.pass(program),
            Pipeline::Psa(arch) => arch.pass(program),
            Pipeline::Pna(arch) => arch.pass(program),
            Pipeline::Ebpf(_) | Pipeline::Ubpf(_) | Pipeline::Xdp(_) | Pipeline::Own(_) => None,
        }
    }
}

impl Pipeline {
    /// Returns whether the program can watch packets for drops.
    pub(crate) fn reports_drops(&self) -> bool {
        match self {
            Pipeline::V1model(arch) => arch.reports_drops(),
            Pipeline::Psa(_)
            | Pipeline::Pna(_)
            | Pipeline::Ebpf(_)
            | Pipeline::Ubpf(_)
            | Pipeline::Xdp(_)
            | Pipeline::Own(_) => false,
        }
    }
}

/// Reports the drop of a packet if the program watches it and the rate allows it.
pub(crate) fn report_drop(
    core: &mut Core,
    job: &InFlightPacket,
    reason: DropReason,
    trace: &mut Trace<'_>,
) {
    let root = std::sync::Arc::clone(&job.root);
    if let Pipeline::V1model(arch) = &root.code.pipeline {
        arch.report_drop(core, job, reason, trace);
    }
}

/// Continues with a packet that exited the fast path.
pub(crate) fn resume(
    core: &mut Core,
    mut job: InFlightPacket,
    at: Resume,
    port: PortId,
    trace: &mut Trace<'_>,
) {
    let root = std::sync::Arc::clone(&job.root);
    core.collect(&root.code.program, &mut job.packet, trace);
    if at == Resume::IngressDone
        && let Err(reason) = core.finish_turns(&mut job, trace)
    {
        return core.drop(job, reason, DropDetail::None, trace);
    }
    match (&root.code.pipeline, at) {
        (Pipeline::V1model(arch), at) => arch.resume(core, job, at, port, trace),
        (Pipeline::Psa(arch), Resume::IngressDeparsed) => {
            arch.ingress_deparsed(core, job, None, trace)
        }
        (Pipeline::Psa(arch), Resume::AllDone) => {
            job.path = PacketPath::NormalUnicast;
            arch.all_done(core, job, port, trace)
        }
        (Pipeline::Psa(arch), _) => arch.ingress_done(core, job, trace),
        (Pipeline::Pna(arch), Resume::IngressDone) => arch.ingress_done(core, job, trace),
        (Pipeline::Pna(arch), _) => arch.all_done(core, job, trace),
        (_, _) => core.send(job, port, trace),
    }
}

/// Processes a packet up to its queue, or to its end.
pub(crate) fn ingress(core: &mut Core, job: InFlightPacket, trace: &mut Trace<'_>) {
    let root = std::sync::Arc::clone(&job.root);
    match &root.code.pipeline {
        Pipeline::V1model(arch) => arch.ingress(core, job, trace),
        Pipeline::Psa(arch) => arch.ingress(core, job, trace),
        Pipeline::Pna(arch) => arch.run(core, job, trace),
        Pipeline::Ebpf(arch) => arch.run(core, job, trace),
        Pipeline::Ubpf(arch) => arch.run(core, job, trace),
        Pipeline::Xdp(arch) => arch.run(core, job, trace),
        Pipeline::Own(arch) => arch.run(core, job, trace),
    }
}

/// Processes a dequeued packet to its end.
pub(crate) fn egress(
    core: &mut Core,
    job: InFlightPacket,
    port: PortId,
    times: QueueTimes,
    trace: &mut Trace<'_>,
) {
    let root = std::sync::Arc::clone(&job.root);
    match &root.code.pipeline {
        Pipeline::V1model(arch) => arch.egress(core, job, port, times, trace),
        Pipeline::Psa(arch) => arch.egress(core, job, port, trace),
        Pipeline::Pna(_)
        | Pipeline::Ebpf(_)
        | Pipeline::Ubpf(_)
        | Pipeline::Xdp(_)
        | Pipeline::Own(_) => core.send(job, port, trace),
    }
}
