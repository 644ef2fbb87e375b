//! Small architectures: eBPF filters, uBPF and XDP programs, and packages that the user defines. By
//! default a packet is sent to its ingress port.

use exec::{DropDetail, DropReason, Mark, ParserVerdict};
use ir::{BlockRole, Layout, Program};
use packet::PortId;

use crate::core::{Core, InFlightPacket, Trace};
use crate::snapshot_cell::SnapshotCell;

/// eBPF filter: accepts a packet unchanged, or drops it. A packet that its parser rejects is
/// dropped.
pub(crate) struct Ebpf {
    accept: SnapshotCell,
}

impl Ebpf {
    pub(super) fn new(program: &Program, layout: &Layout) -> Ebpf {
        Ebpf {
            accept: SnapshotCell::of(program, layout, "accept"),
        }
    }

    pub(super) fn run(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        begin(&mut job);
        if let Err((reason, detail)) = parse_and_run(core, &mut job, trace) {
            return core.drop(job, reason, detail, trace);
        }
        if self.accept.get(job.packet.frame()) == 0 {
            return core.drop(job, DropReason::Filtered, DropDetail::None, trace);
        }
        let port = job.ingress;
        core.send(job, port, trace);
    }
}

/// uBPF program: modifies packets and marks those to drop. A packet that its parser rejects passes
/// unchanged.
pub(crate) struct Ubpf {
    input_port: SnapshotCell,
    packet_length: SnapshotCell,
    output_action: SnapshotCell,
    output_port: SnapshotCell,
    clone: SnapshotCell,
    clone_port: SnapshotCell,
}

/// Values of `ubpf_action`.
mod ubpf_action {
    pub(super) const ABORT: u64 = 0;
    pub(super) const DROP: u64 = 1;
    pub(super) const PASS: u64 = 2;
    pub(super) const REDIRECT: u64 = 3;
}

impl Ubpf {
    pub(super) fn new(program: &Program, layout: &Layout) -> Ubpf {
        let slot =
            |name: &str| SnapshotCell::of(program, layout, &format!("standard_metadata.{name}"));
        Ubpf {
            input_port: slot("input_port"),
            packet_length: slot("packet_length"),
            output_action: slot("output_action"),
            output_port: slot("output_port"),
            clone: slot("clone"),
            clone_port: slot("clone_port"),
        }
    }

    pub(super) fn run(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        begin(&mut job);
        let (port, length) = (job.ingress.0, job.packet.length);
        let frame = job.packet.frame_mut();
        self.input_port.set(frame, port.into());
        self.packet_length.set(frame, length.into());
        self.output_action.set(frame, ubpf_action::PASS);
        trace.given(
            frame,
            &[self.input_port, self.packet_length, self.output_action],
        );
        match core.parse(&mut job, BlockRole::Parser, trace) {
            ParserVerdict::Accept => {}
            // The code on such devices returns before it processes the packet, so the packet passes
            // unchanged.
            ParserVerdict::Reject(_) => {
                let port = job.ingress;
                return core.send(job, port, trace);
            }
            ParserVerdict::Drop(reason) => return core.drop(job, reason, DropDetail::None, trace),
        }
        let done = core
            .control(&mut job, BlockRole::Ingress, trace)
            .and_then(|()| deparse_cut(core, &mut job, trace));
        if let Err(reason) = done {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        if self.clone.get(job.packet.frame()) != 0 && core.may_copy(&mut job, 1, trace).is_ok() {
            let copy = core.copy(&job, false);
            let port = PortId(self.clone_port.get(job.packet.frame()) as u32);
            core.send(copy, port, trace);
            job.resume();
        }
        self.act(core, job, trace);
    }

    fn act(&self, core: &mut Core, job: InFlightPacket, trace: &mut Trace<'_>) {
        if job.packet.requests.mark == Some(Mark::Drop) {
            return core.drop(job, DropReason::Ingress, DropDetail::None, trace);
        }
        let frame = job.packet.frame();
        let action = if self.output_action.exists() {
            self.output_action.get(frame)
        } else {
            ubpf_action::PASS
        };
        let (ingress, redirect) = (job.ingress, PortId(self.output_port.get(frame) as u32));
        match action {
            ubpf_action::ABORT => core.drop(job, DropReason::Aborted, DropDetail::None, trace),
            ubpf_action::DROP => core.drop(job, DropReason::Ingress, DropDetail::None, trace),
            ubpf_action::REDIRECT => core.send(job, redirect, trace),
            _ => core.send(job, ingress, trace),
        }
    }
}

/// Runs the deparser. Such devices first make space for the headers before the unparsed bytes, then
/// truncate the packet, then write the headers that still fit. So headers that `truncate` cuts are
/// not written, and the original bytes stay.
fn deparse_cut(
    core: &mut Core,
    job: &mut InFlightPacket,
    trace: &mut Trace<'_>,
) -> Result<(), DropReason> {
    let Some(cut) = job.packet.requests.truncate.take() else {
        return core.deparse(job, BlockRole::Deparser, trace);
    };
    let payload = job.packet.payload().len();
    let original = job.packet.bytes.bytes().to_vec();
    core.deparse(job, BlockRole::Deparser, trace)?;
    let total = job.packet.bytes.len();
    if (cut as usize) < total - payload {
        let room = total.saturating_sub(original.len());
        let kept = original.len() - original.len().min(total);
        let zeros = vec![0; room];
        let parts: [&[u8]; 2] = [&zeros, &original[kept..]];
        job.packet
            .bytes
            .assign_parts(&parts)
            .map_err(|_| DropReason::FrameTooLong)?;
    }
    job.packet.bytes.truncate(cut as usize);
    Ok(())
}

/// XDP program. Packets for the kernel (`XDP_PASS`) and packets sent back (`XDP_TX`) are sent to
/// the ingress port.
pub(crate) struct Xdp {
    input_port: SnapshotCell,
    output_action: SnapshotCell,
    output_port: SnapshotCell,
}

/// Values of `xdp_action`.
mod xdp_action {
    pub(super) const ABORTED: u64 = 0;
    pub(super) const DROP: u64 = 1;
    pub(super) const REDIRECT: u64 = 4;
}

impl Xdp {
    pub(super) fn new(program: &Program, layout: &Layout) -> Xdp {
        Xdp {
            input_port: SnapshotCell::of(program, layout, "input.input_port"),
            output_action: SnapshotCell::of(program, layout, "output.output_action"),
            output_port: SnapshotCell::of(program, layout, "output.output_port"),
        }
    }

    pub(super) fn run(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        begin(&mut job);
        let port = job.ingress.0;
        self.input_port.set(job.packet.frame_mut(), port.into());
        trace.given(job.packet.frame(), &[self.input_port]);
        let done = parse_and_run(core, &mut job, trace).and_then(|()| {
            core.deparse(&mut job, BlockRole::Deparser, trace)
                .map_err(|reason| (reason, DropDetail::None))
        });
        if let Err((reason, detail)) = done {
            return core.drop(job, reason, detail, trace);
        }
        let frame = job.packet.frame();
        let (ingress, redirect) = (job.ingress, PortId(self.output_port.get(frame) as u32));
        match self.output_action.get(frame) {
            xdp_action::ABORTED => core.drop(job, DropReason::Aborted, DropDetail::None, trace),
            xdp_action::DROP => core.drop(job, DropReason::Ingress, DropDetail::None, trace),
            xdp_action::REDIRECT => core.send(job, redirect, trace),
            _ => core.send(job, ingress, trace),
        }
    }
}

/// Package that the user defines: parser, controls and deparser in sequence. A packet that its
/// parser rejects is dropped. All others are sent to their ingress port.
pub(crate) struct Own;

impl Own {
    pub(super) fn run(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        begin(&mut job);
        let done = parse_and_run(core, &mut job, trace).and_then(|()| {
            core.control(&mut job, BlockRole::Egress, trace)
                .and_then(|()| core.deparse(&mut job, BlockRole::Deparser, trace))
                .map_err(|reason| (reason, DropDetail::None))
        });
        if let Err((reason, detail)) = done {
            return core.drop(job, reason, detail, trace);
        }
        let port = job.ingress;
        core.send(job, port, trace);
    }
}

fn begin(job: &mut InFlightPacket) {
    job.packet.begin_pass();
    job.packet.length = job.packet.bytes.len() as u32;
}

/// Runs the parser and the main control. A rejected packet is dropped.
fn parse_and_run(
    core: &mut Core,
    job: &mut InFlightPacket,
    trace: &mut Trace<'_>,
) -> Result<(), (DropReason, DropDetail)> {
    match core.parse(job, BlockRole::Parser, trace) {
        ParserVerdict::Accept => {}
        ParserVerdict::Reject(error) => {
            return Err((DropReason::ParserReject, DropDetail::ParserError(error)));
        }
        ParserVerdict::Drop(reason) => return Err((reason, DropDetail::None)),
    }
    core.control(job, BlockRole::Ingress, trace)
        .map_err(|reason| (reason, DropDetail::None))
}
