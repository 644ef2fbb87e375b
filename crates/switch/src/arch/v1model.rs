//! v1model, with the semantics of BMv2's simple_switch.
//!
//! The order is: parser, checksum verification, ingress, ingress clones, resubmission, multicast,
//! drop or unicast, queue, egress, egress clones, drop, checksum computation, deparser,
//! recirculation. A rejected packet continues to ingress with `parser_error` set. Port 511 (all
//! ones) drops. Clones, resubmitted and recirculated packets keep the fields of their field list.
//! All other metadata is zero, including the ingress port and timestamp.
//!
//! In a chain ([`chain`]) a packet that its step has not dropped runs that step's egress as if the
//! queue were always free. The next step parses the deparsed packet. Multicast, the queue and its
//! egress follow the last step. A clone made by a step leaves the chain after that step. A packet
//! that is resubmitted or recirculated runs its step again.

mod chain;

use std::collections::BTreeMap;

use exec::{DropDetail, DropReason, FrameRequest, ParserVerdict, PassInput, TraceEvent};
use ir::{BlockRole, Layout, Program};
use packet::PortId;

use crate::arch::fast_path::{FastPathBuilder, FastPathPlan, Resume};
use crate::core::{CloneMode, Core, InFlightPacket, PRIORITIES, PacketPath, Trace};
use crate::drop_report::DropReports;
use crate::pre::Replica;
use crate::queue::QueueTimes;
use crate::snapshot_cell::{Limbs, SnapshotCell, metadata};

/// Values of `standard_metadata.instance_type` in BMv2.
mod instance_type {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATE: u64 = 4;
    pub(super) const REPLICATION: u64 = 5;
    pub(super) const RESUBMIT: u64 = 6;
}

/// `error.NoError`, the first of core.p4's errors.
const NO_ERROR: u64 = 0;

pub(crate) struct V1model {
    ingress_port: SnapshotCell,
    egress_spec: SnapshotCell,
    egress_port: SnapshotCell,
    instance_type: SnapshotCell,
    packet_length: SnapshotCell,
    /// Number of bytes of the packet without the headers that change, if egress reads the length.
    length_rest: SnapshotCell,
    enq_timestamp: SnapshotCell,
    enq_qdepth: SnapshotCell,
    deq_timedelta: SnapshotCell,
    deq_qdepth: SnapshotCell,
    ingress_timestamp: SnapshotCell,
    egress_timestamp: SnapshotCell,
    mcast_grp: SnapshotCell,
    egress_rid: SnapshotCell,
    checksum_error: SnapshotCell,
    parser_error: SnapshotCell,
    priority: SnapshotCell,
    drop_reports: DropReports,
    chain: chain::Chain,
    metadata: Limbs,
    field_lists: BTreeMap<u32, Limbs>,
}

impl V1model {
    pub(super) fn new(program: &Program, layout: &Layout) -> V1model {
        let slot =
            |name: &str| SnapshotCell::of(program, layout, &format!("standard_metadata.{name}"));
        let lists = program.pipeline.field_lists.iter();
        V1model {
            ingress_port: slot("ingress_port"),
            egress_spec: slot("egress_spec"),
            egress_port: slot("egress_port"),
            instance_type: slot("instance_type"),
            packet_length: slot("packet_length"),
            length_rest: slot("packet_length.rest"),
            enq_timestamp: slot("enq_timestamp"),
            enq_qdepth: slot("enq_qdepth"),
            deq_timedelta: slot("deq_timedelta"),
            deq_qdepth: slot("deq_qdepth"),
            ingress_timestamp: slot("ingress_global_timestamp"),
            egress_timestamp: slot("egress_global_timestamp"),
            mcast_grp: slot("mcast_grp"),
            egress_rid: slot("egress_rid"),
            checksum_error: slot("checksum_error"),
            parser_error: slot("parser_error"),
            priority: slot("priority"),
            drop_reports: DropReports::of(program, layout),
            chain: chain::Chain::of(program, layout),
            metadata: metadata(program, layout),
            field_lists: lists
                .map(|(number, fields)| (*number, Limbs::of(program, layout, fields)))
                .collect(),
        }
    }

    pub(super) fn ingress(&self, core: &mut Core, job: InFlightPacket, trace: &mut Trace<'_>) {
        self.steps_from(core, Some(job), trace);
    }

    /// Continues with a packet that exited the fast path.
    pub(super) fn resume(
        &self,
        core: &mut Core,
        job: InFlightPacket,
        at: Resume,
        port: PortId,
        trace: &mut Trace<'_>,
    ) {
        let next = match at {
            Resume::EgressDone => self.egress_done(core, job, port, trace),
            Resume::AllDone => self.all_done(core, job, port, trace),
            Resume::IngressDone | Resume::IngressDeparsed => self.ingress_done(core, job, trace),
        };
        self.steps_from(core, next, trace);
    }

    /// Processes a packet from the start of its step to its queue or its end, including all
    /// following steps.
    fn steps_from(&self, core: &mut Core, mut next: Option<InFlightPacket>, trace: &mut Trace<'_>) {
        while let Some(mut job) = next {
            next = match self.ingress_blocks(core, &mut job, trace) {
                Ok(()) => self.ingress_done(core, job, trace),
                Err(reason) => {
                    core.drop(job, reason, DropDetail::None, trace);
                    None
                }
            };
        }
    }

    /// Continues after ingress. Returns the packet if a step follows.
    fn ingress_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Option<InFlightPacket> {
        if let Some(frame) = job.packet.requests.frame.take() {
            send_frame(core, job, frame, trace);
            return None;
        }
        if let Some(clone) = job.packet.requests.clone.take() {
            self.clone_ingress(core, &mut job, clone, trace);
        }
        if let Some(list) = job.packet.requests.resubmit.take() {
            self.resubmit(core, job, list, trace);
            return None;
        }
        if self.chain.goes_on(&job) {
            return self.egress_between(core, job, trace);
        }
        self.leave_ingress(core, job, trace);
        None
    }

    /// Processes a packet from the end of the last ingress to the queue, or to its end.
    fn leave_ingress(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        let group = self.mcast_grp.get(job.packet.frame()) as u32;
        if group != 0 {
            return self.multicast_original(core, job, group, trace);
        }
        if self.is_to_drop(&job) {
            return core.drop(job, DropReason::Ingress, DropDetail::None, trace);
        }
        let spec = self.egress_spec.get(job.packet.frame());
        self.instance_type
            .set(job.packet.frame_mut(), instance_type::NORMAL);
        self.enqueue(core, job, PortId(spec as u32), trace);
    }

    /// Returns true if the packet's port is the drop port.
    fn is_to_drop(&self, job: &InFlightPacket) -> bool {
        let spec = self.egress_spec.get(job.packet.frame());
        self.egress_spec.exists() && spec == self.egress_spec.largest()
    }

    fn ingress_blocks(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        job.packet.length = job.packet.bytes.len() as u32;
        // simple_switch sets these when it receives a packet. A resubmitted or recirculated packet
        // has them only if its field list has them.
        if !job.is_prepared {
            job.packet.begin_pass();
            let (port, length) = (u64::from(job.ingress.0), job.packet.length.into());
            let micros = job.packet.now.as_micros();
            let frame = job.packet.frame_mut();
            self.packet_length.set(frame, length);
            self.ingress_port.set(frame, port);
            self.ingress_timestamp.set(frame, micros);
        }
        let told = [
            self.instance_type,
            self.packet_length,
            self.ingress_port,
            self.ingress_timestamp,
        ];
        trace.given(job.packet.frame(), &told);
        let error = match core.parse(job, BlockRole::Parser, trace) {
            ParserVerdict::Accept => NO_ERROR,
            ParserVerdict::Reject(error) => error.into(),
            ParserVerdict::Drop(reason) => return Err(reason),
        };
        self.parser_error.set(job.packet.frame_mut(), error);
        trace.given(job.packet.frame(), &[self.parser_error]);
        core.control(job, BlockRole::VerifyChecksum, trace)?;
        let is_wrong = job.packet.requests.checksum_error;
        self.checksum_error
            .set(job.packet.frame_mut(), is_wrong.into());
        trace.given(job.packet.frame(), &[self.checksum_error]);
        core.control(job, BlockRole::Ingress, trace)
    }

    /// Makes ingress clones. They are copies of the received packet, parsed again. Their metadata
    /// is zero except for the field list.
    fn clone_ingress(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        clone: exec::CloneRequest,
        trace: &mut Trace<'_>,
    ) {
        let root = std::sync::Arc::clone(&job.root);
        let Some(mode) = core.session(&root, clone.session, trace) else {
            return;
        };
        let replicas = std::mem::take(&mut core.replicas);
        let may_copy = core.may_copy(job, replicas.len(), trace).is_ok();
        for &replica in replicas.iter().filter(|_| may_copy) {
            let mut copy = core.copy(job, false);
            begin_clone(&mut copy, PacketPath::CloneI2E, mode, replica, trace);
            self.ingress_port
                .set(copy.packet.frame_mut(), job.ingress.0.into());
            if let ParserVerdict::Drop(reason) = core.parse(&mut copy, BlockRole::Parser, trace) {
                core.drop(copy, reason, DropDetail::None, trace);
                continue;
            }
            self.metadata.clear(copy.packet.frame_mut());
            let rest = self.length_rest.get(job.packet.frame());
            self.length_rest.set(copy.packet.frame_mut(), rest);
            self.keep_list(core, job, &mut copy, clone.field_list);
            self.finish_clone(
                core,
                copy,
                replica,
                instance_type::INGRESS_CLONE,
                mode,
                trace,
            );
        }
        core.replicas = replicas;
        job.resume();
    }

    /// Makes egress clones. They are copies of the packet after egress.
    fn clone_egress(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        clone: exec::CloneRequest,
        trace: &mut Trace<'_>,
    ) {
        let root = std::sync::Arc::clone(&job.root);
        let Some(mode) = core.session(&root, clone.session, trace) else {
            return;
        };
        let replicas = std::mem::take(&mut core.replicas);
        let may_copy = core.may_copy(job, replicas.len(), trace).is_ok();
        for &replica in replicas.iter().filter(|_| may_copy) {
            let mut copy = core.copy(job, true);
            begin_clone(&mut copy, PacketPath::CloneE2E, mode, replica, trace);
            self.metadata.clear(copy.packet.frame_mut());
            let rest = self.length_rest.get(job.packet.frame());
            self.length_rest.set(copy.packet.frame_mut(), rest);
            self.keep_list(core, job, &mut copy, clone.field_list);
            self.finish_clone(
                core,
                copy,
                replica,
                instance_type::EGRESS_CLONE,
                mode,
                trace,
            );
        }
        core.replicas = replicas;
        job.resume();
    }

    /// Returns whether the program can watch packets for drops.
    pub(super) fn reports_drops(&self) -> bool {
        self.drop_reports.session.exists()
    }

    /// Makes the copies of a watched packet that report its drop. They are copies of the packet as
    /// it was received, or as it started over, parsed again. They have its metadata, and the number
    /// of the reason unless the program wrote one.
    pub(super) fn report_drop(
        &self,
        core: &mut Core,
        job: &InFlightPacket,
        reason: DropReason,
        trace: &mut Trace<'_>,
    ) {
        let reports = &self.drop_reports;
        let session = reports.session.get(job.packet.frame()) as u32;
        if session == 0 || !DropReports::has(reason) {
            return;
        }
        let Some(mode) = core.session(&job.root, session, trace) else {
            return;
        };
        let now = job.packet.now;
        let copies = core.replicas.len() as u64;
        if copies == 0 || !core.report_rate.take(reports, copies, now) {
            return;
        }
        let replicas = std::mem::take(&mut core.replicas);
        for &replica in &replicas {
            let mut copy = core.copy_dropped(job);
            begin_clone(&mut copy, PacketPath::CloneI2E, mode, replica, trace);
            self.ingress_port
                .set(copy.packet.frame_mut(), job.ingress.0.into());
            if let ParserVerdict::Drop(reason) = core.parse(&mut copy, BlockRole::Parser, trace) {
                core.drop(copy, reason, DropDetail::None, trace);
                continue;
            }
            core.scratch.clear();
            self.metadata.save(job.packet.frame(), &mut core.scratch);
            let frame = copy.packet.frame_mut();
            self.metadata.restore(frame, &core.scratch);
            if reports.reason.get(frame) == 0 {
                let number = DropReports::number(reason);
                reports
                    .reason
                    .set(frame, number.min(reports.reason.largest()));
            }
            // The priority of the dropped packet may be the reason for its drop.
            self.priority.set(frame, 0);
            self.finish_clone(
                core,
                copy,
                replica,
                instance_type::INGRESS_CLONE,
                mode,
                trace,
            );
        }
        core.replicas = replicas;
    }

    fn finish_clone(
        &self,
        core: &mut Core,
        mut copy: InFlightPacket,
        replica: Replica,
        kind: u64,
        mode: CloneMode,
        trace: &mut Trace<'_>,
    ) {
        let Replica { port, instance } = replica;
        let frame = copy.packet.frame_mut();
        self.instance_type.set(frame, kind);
        self.egress_rid.set(frame, instance.into());
        // The session's class of service has precedence (P4Runtime). Without one, the priority in
        // the field list counts, as in BMv2.
        let priority = match mode.class_of_service {
            0 => self.priority.get(frame),
            class => class.into(),
        };
        self.priority.set(frame, priority);
        // The session's length limits the transmitted packet. A later `truncate` of the program may
        // reduce it further.
        if let Some(length) = mode.truncate {
            copy.packet.requests.truncate_to(length);
        }
        self.enqueue_at(core, copy, port, priority, trace);
    }

    /// Copies the fields of a field list.
    fn keep_list(
        &self,
        core: &mut Core,
        from: &InFlightPacket,
        to: &mut InFlightPacket,
        list: Option<u32>,
    ) {
        let Some(fields) = list.and_then(|list| self.field_lists.get(&list)) else {
            return;
        };
        core.scratch.clear();
        fields.save(from.packet.frame(), &mut core.scratch);
        fields.restore(to.packet.frame_mut(), &core.scratch);
    }

    /// Prepares another round of the packet: all fields are zero except those of the field list.
    fn begin_again(&self, core: &mut Core, job: &mut InFlightPacket, list: Option<u32>, kind: u64) {
        let fields = list.and_then(|list| self.field_lists.get(&list));
        core.scratch.clear();
        if let Some(fields) = fields {
            fields.save(job.packet.frame(), &mut core.scratch);
        }
        job.packet.begin_pass();
        let length = job.packet.bytes.len() as u64;
        let frame = job.packet.frame_mut();
        if let Some(fields) = fields {
            fields.restore(frame, &core.scratch);
        }
        self.instance_type.set(frame, kind);
        self.packet_length.set(frame, length);
        job.is_prepared = true;
    }

    fn resubmit(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        list: Option<u32>,
        trace: &mut Trace<'_>,
    ) {
        job.path = PacketPath::Resubmit;
        self.begin_again(core, &mut job, list, instance_type::RESUBMIT);
        core.start_over(job, "resubmit", trace);
    }

    fn recirculate(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        list: Option<u32>,
        trace: &mut Trace<'_>,
    ) {
        job.path = PacketPath::Recirculate;
        self.begin_again(core, &mut job, list, instance_type::RECIRCULATE);
        core.start_over(job, "recirculate", trace);
    }

    /// Replaces the packet by the copies of its multicast group.
    fn multicast_original(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        group: u32,
        trace: &mut Trace<'_>,
    ) {
        self.instance_type
            .set(job.packet.frame_mut(), instance_type::REPLICATION);
        job.path = PacketPath::NormalMulticast;
        job.packet.requests = exec::Requests::default();
        let root = std::sync::Arc::clone(&job.root);
        let replicas = root.replication.group(group);
        let Some((last, others)) = replicas.split_last() else {
            return core.drop(
                job,
                DropReason::NoReplicas,
                DropDetail::Number(group),
                trace,
            );
        };
        if let Err(reason) = core.may_copy(&mut job, others.len(), trace) {
            return core.drop(job, reason, DropDetail::Number(group), trace);
        }
        for &replica in others {
            let copy = core.copy(&job, true);
            self.replicate(core, copy, replica, trace);
        }
        self.replicate(core, job, *last, trace);
    }

    fn replicate(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        replica: Replica,
        trace: &mut Trace<'_>,
    ) {
        let Replica { port, instance } = replica;
        trace.event(|| TraceEvent::Copied {
            why: "multicast",
            port: port.0,
            instance,
        });
        self.egress_rid.set(job.packet.frame_mut(), instance.into());
        self.enqueue(core, job, port, trace);
    }

    fn enqueue(&self, core: &mut Core, job: InFlightPacket, port: PortId, trace: &mut Trace<'_>) {
        let priority = self.priority.get(job.packet.frame());
        self.enqueue_at(core, job, port, priority, trace);
    }

    fn enqueue_at(
        &self,
        core: &mut Core,
        job: InFlightPacket,
        port: PortId,
        priority: u64,
        trace: &mut Trace<'_>,
    ) {
        if priority >= u64::from(PRIORITIES) {
            return core.drop(
                job,
                DropReason::NoSuchQueue,
                DropDetail::Number(priority as u32),
                trace,
            );
        }
        core.enqueue(job, port, priority as u8, trace);
    }

    pub(super) fn egress(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        times: QueueTimes,
        trace: &mut Trace<'_>,
    ) {
        self.enter_egress(&mut job, port, times, trace);
        if let Err(reason) = core.control(&mut job, BlockRole::Egress, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        let next = self.egress_done(core, job, port, trace);
        self.steps_from(core, next, trace);
    }

    /// Continues after egress. Returns the packet if a step follows.
    fn egress_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) -> Option<InFlightPacket> {
        if let Some(frame) = job.packet.requests.frame.take() {
            send_frame(core, job, frame, trace);
            return None;
        }
        if let Some(clone) = job.packet.requests.clone.take() {
            self.clone_egress(core, &mut job, clone, trace);
        }
        if self.is_to_drop(&job) {
            core.drop(job, DropReason::Egress, DropDetail::None, trace);
            return None;
        }
        self.deparse(core, job, port, trace)
    }

    fn deparse(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) -> Option<InFlightPacket> {
        let deparsed = core
            .control(&mut job, BlockRole::ComputeChecksum, trace)
            .and_then(|()| self.route(core, &mut job, trace))
            .and_then(|()| core.deparse(&mut job, BlockRole::Deparser, trace));
        if let Err(reason) = deparsed {
            core.drop(job, reason, DropDetail::None, trace);
            return None;
        }
        self.all_done(core, job, port, trace)
    }

    /// Continues after all blocks. Returns the packet if a step follows.
    fn all_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) -> Option<InFlightPacket> {
        if let Some(list) = job.packet.requests.recirculate.take() {
            self.recirculate(core, job, list, trace);
            return None;
        }
        // A packet that starts again is not truncated. Only a transmitted one is.
        if let Some(length) = job.packet.requests.truncate {
            job.packet.bytes.truncate(length as usize);
        }
        if self.chain.goes_on(&job) {
            self.go_on(&mut job);
            return Some(job);
        }
        core.send(job, port, trace);
        None
    }

    /// Returns the fast path: [`V1model::ingress`] and [`V1model::egress`] for a packet without
    /// requests, or with the request to leave as a frame of a split program.
    pub(super) fn pass(&self, program: &Program) -> Option<FastPathPlan> {
        let mut pass = FastPathBuilder::new(program);
        pass.set(self.packet_length, PassInput::ReceivedLength);
        pass.set(self.ingress_port, PassInput::IngressPort);
        pass.set(self.ingress_timestamp, PassInput::Micros);
        self.pass_between(&mut pass)?;
        self.pass_ingress(&mut pass);
        // A free port sends at once, whatever the queue. Packets to busy ports exit at the enqueue
        // step.
        if self.priority.largest() >= u64::from(PRIORITIES) {
            pass.leave_if_set(self.priority);
        }
        pass.enqueue(self.egress_spec);
        self.pass_egress(&mut pass, |pass, port| {
            pass.set(port, PassInput::EgressPort)
        });
        pass.control(BlockRole::ComputeChecksum);
        pass.deparse(BlockRole::Deparser);
        pass.resume_at(Resume::AllDone);
        pass.leave_if_asked();
        pass.send()
    }

    /// Adds the steps from the parser to the end of ingress, for a unicast packet.
    fn pass_ingress(&self, pass: &mut FastPathBuilder<'_>) {
        pass.parse(BlockRole::Parser, &[self.parser_error]);
        pass.control(BlockRole::VerifyChecksum);
        pass.set(self.checksum_error, PassInput::ChecksumError);
        pass.control(BlockRole::Ingress);
        pass.send_frame();
        pass.leave_if_asked();
        pass.leave_if_set(self.mcast_grp);
        self.pass_drop(pass, DropReason::Ingress);
        pass.set(
            self.instance_type,
            PassInput::Constant(instance_type::NORMAL),
        );
    }

    /// Adds the egress steps. `set_port` sets the program's egress port.
    fn pass_egress(
        &self,
        pass: &mut FastPathBuilder<'_>,
        set_port: impl FnOnce(&mut FastPathBuilder<'_>, SnapshotCell),
    ) {
        pass.resume_at(Resume::EgressDone);
        set_port(pass, self.egress_port);
        for slot in [self.enq_timestamp, self.egress_timestamp] {
            pass.set(slot, PassInput::Micros);
        }
        for slot in [
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.egress_spec,
        ] {
            pass.set(slot, PassInput::Constant(0));
        }
        pass.set(self.packet_length, pass.length());
        pass.control(BlockRole::Egress);
        pass.send_frame();
        pass.leave_if_asked();
        self.pass_drop(pass, DropReason::Egress);
    }

    /// Adds the step that drops packets for the drop port. If they may be watched, they exit, and
    /// the general code drops and reports them.
    fn pass_drop(&self, pass: &mut FastPathBuilder<'_>, reason: DropReason) {
        let port = self.egress_spec.largest();
        match self.reports_drops() {
            true => pass.leave_if_equal(self.egress_spec, port),
            false => pass.drop_if_equal(self.egress_spec, port, reason),
        }
    }

    fn enter_egress(
        &self,
        job: &mut InFlightPacket,
        port: PortId,
        times: QueueTimes,
        trace: &mut Trace<'_>,
    ) {
        let length = u64::from(job.packet.length);
        let frame = job.packet.frame_mut();
        self.enq_timestamp.set(frame, times.enqueued.as_micros());
        self.enq_qdepth.set(frame, times.enqueue_depth.into());
        self.deq_timedelta
            .set(frame, times.dequeued.since(times.enqueued).as_micros());
        self.deq_qdepth.set(frame, times.dequeue_depth.into());
        self.egress_timestamp.set(frame, times.dequeued.as_micros());
        self.egress_port.set(frame, port.0.into());
        // Any value except the drop port, so that only egress itself can drop the packet now.
        self.egress_spec.set(frame, 0);
        self.packet_length.set(frame, length);
        let told = [
            self.instance_type,
            self.egress_port,
            self.egress_rid,
            self.packet_length,
            self.enq_timestamp,
            self.enq_qdepth,
            self.deq_timedelta,
            self.deq_qdepth,
            self.egress_timestamp,
            self.egress_spec,
        ];
        trace.given(job.packet.frame(), &told);
    }
}

/// Sends a packet as a frame of a split program. It passes no further block and no queue.
fn send_frame(
    core: &mut Core,
    mut job: InFlightPacket,
    frame: FrameRequest,
    trace: &mut Trace<'_>,
) {
    match job.packet.finish_frame(frame) {
        Ok(()) => core.send(job, PortId(frame.port), trace),
        Err(_) => core.drop(job, DropReason::FrameTooLong, DropDetail::None, trace),
    }
}

/// Marks a copy as a clone.
fn begin_clone(
    copy: &mut InFlightPacket,
    path: PacketPath,
    mode: CloneMode,
    replica: Replica,
    trace: &mut Trace<'_>,
) {
    let why = match path {
        PacketPath::CloneI2E => "clone of ingress",
        _ => "clone of egress",
    };
    trace.event(|| TraceEvent::Copied {
        why,
        port: replica.port.0,
        instance: replica.instance,
    });
    copy.path = path;
    copy.class_of_service = mode.class_of_service;
}
