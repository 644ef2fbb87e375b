//! Portable Switch Architecture (PSA, section 6): ingress and egress, each with a parser and a
//! deparser.

use exec::{DropDetail, DropReason, ParserVerdict, PassInput, TraceEvent};
use ir::{BlockRole, FieldId, Layout, Program, TransferPath};
use packet::PortId;

use crate::arch::fast_path::{FastPathBuilder, FastPathPlan, Resume};
use crate::core::{Core, InFlightPacket, PRIORITIES, PacketPath, Trace};
use crate::pre::Replica;
use crate::snapshot_cell::{Limbs, SnapshotCell};

/// `PSA_PORT_RECIRCULATE`.
const PORT_RECIRCULATE: u32 = 0xffff_fffa;

/// Returns the value of a path in `PSA_PacketPath_t`.
fn path_number(path: PacketPath) -> u64 {
    match path {
        PacketPath::Normal => 0,
        PacketPath::NormalUnicast => 1,
        PacketPath::NormalMulticast => 2,
        PacketPath::CloneI2E => 3,
        PacketPath::CloneE2E => 4,
        PacketPath::Resubmit => 5,
        PacketPath::Recirculate => 6,
    }
}

fn path(path: PacketPath) -> PassInput {
    PassInput::Constant(path_number(path))
}

/// Values that accompany a packet: read at the end of one part of the pipeline, written at the
/// start of the next.
struct Carried {
    from: Limbs,
    to: Limbs,
    /// The same as pairs of fields: source, destination.
    fields: Vec<(FieldId, FieldId)>,
}

impl Carried {
    fn of(program: &Program, layout: &Layout, path: TransferPath) -> Carried {
        let both: (Vec<FieldId>, Vec<FieldId>) = program
            .pipeline
            .transfers
            .iter()
            .filter(|transfer| transfer.path == path)
            .flat_map(|transfer| {
                transfer
                    .from
                    .iter()
                    .copied()
                    .zip(transfer.to.iter().copied())
            })
            .unzip();
        Carried {
            from: Limbs::of(program, layout, &both.0),
            to: Limbs::of(program, layout, &both.1),
            fields: both.0.into_iter().zip(both.1).collect(),
        }
    }
}

pub(crate) struct Psa {
    parser_port: SnapshotCell,
    parser_path: SnapshotCell,
    ingress_port: SnapshotCell,
    ingress_path: SnapshotCell,
    ingress_time: SnapshotCell,
    ingress_error: SnapshotCell,
    out_class: SnapshotCell,
    out_clone: SnapshotCell,
    out_session: SnapshotCell,
    out_drop: SnapshotCell,
    out_resubmit: SnapshotCell,
    out_group: SnapshotCell,
    out_port: SnapshotCell,
    egress_parser_port: SnapshotCell,
    egress_parser_path: SnapshotCell,
    egress_class: SnapshotCell,
    egress_port: SnapshotCell,
    egress_path: SnapshotCell,
    egress_instance: SnapshotCell,
    egress_time: SnapshotCell,
    egress_error: SnapshotCell,
    egress_clone: SnapshotCell,
    egress_session: SnapshotCell,
    egress_drop: SnapshotCell,
    deparser_port: SnapshotCell,
    normal: Carried,
    resubmit: Carried,
    recirculate: Carried,
    clone_i2e: Carried,
    clone_e2e: Carried,
}

impl Psa {
    pub(super) fn new(program: &Program, layout: &Layout) -> Psa {
        let slot = |name: &str| SnapshotCell::of(program, layout, name);
        let carried = |path| Carried::of(program, layout, path);
        Psa {
            parser_port: slot("ingress_parser_input.ingress_port"),
            parser_path: slot("ingress_parser_input.packet_path"),
            ingress_port: slot("ingress_input.ingress_port"),
            ingress_path: slot("ingress_input.packet_path"),
            ingress_time: slot("ingress_input.ingress_timestamp"),
            ingress_error: slot("ingress_input.parser_error"),
            out_class: slot("ingress_output.class_of_service"),
            out_clone: slot("ingress_output.clone"),
            out_session: slot("ingress_output.clone_session_id"),
            out_drop: slot("ingress_output.drop"),
            out_resubmit: slot("ingress_output.resubmit"),
            out_group: slot("ingress_output.multicast_group"),
            out_port: slot("ingress_output.egress_port"),
            egress_parser_port: slot("egress_parser_input.egress_port"),
            egress_parser_path: slot("egress_parser_input.packet_path"),
            egress_class: slot("egress_input.class_of_service"),
            egress_port: slot("egress_input.egress_port"),
            egress_path: slot("egress_input.packet_path"),
            egress_instance: slot("egress_input.instance"),
            egress_time: slot("egress_input.egress_timestamp"),
            egress_error: slot("egress_input.parser_error"),
            egress_clone: slot("egress_output.clone"),
            egress_session: slot("egress_output.clone_session_id"),
            egress_drop: slot("egress_output.drop"),
            deparser_port: slot("egress_deparser_input.egress_port"),
            normal: carried(TransferPath::Normal),
            resubmit: carried(TransferPath::Resubmit),
            recirculate: carried(TransferPath::Recirculate),
            clone_i2e: carried(TransferPath::CloneI2E),
            clone_e2e: carried(TransferPath::CloneE2E),
        }
    }

    pub(super) fn ingress(&self, core: &mut Core, mut job: InFlightPacket, trace: &mut Trace<'_>) {
        if let Err(reason) = self.ingress_blocks(core, &mut job, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        self.ingress_done(core, job, trace);
    }

    /// Continues after ingress.
    pub(super) fn ingress_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        trace: &mut Trace<'_>,
    ) {
        // The deparser rewrites the packet, but clones and resubmission need the received one.
        let wants_original = self.flag(self.out_clone, &job) || self.flag(self.out_resubmit, &job);
        let original = if wants_original {
            Some(job.packet.bytes.bytes().to_vec())
        } else {
            None
        };
        let original = original.as_deref();
        if let Err(reason) = core.deparse(&mut job, BlockRole::IngressDeparser, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        if self.flag(self.out_clone, &job) {
            self.clone_ingress(core, &mut job, original.unwrap_or_default(), trace);
        }
        self.ingress_deparsed(core, job, original, trace);
    }

    /// Continues after the ingress deparser, when the clones are made. `original` is the received
    /// packet, if it must be resubmitted.
    pub(super) fn ingress_deparsed(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        original: Option<&[u8]>,
        trace: &mut Trace<'_>,
    ) {
        job.class_of_service = self.out_class.get(job.packet.frame()) as u32;
        if self.flag(self.out_drop, &job) {
            return core.drop(job, DropReason::Ingress, DropDetail::None, trace);
        }
        if self.flag(self.out_resubmit, &job) {
            return self.start_over(core, job, PacketPath::Resubmit, original, trace);
        }
        let group = self.out_group.get(job.packet.frame()) as u32;
        let port = self.out_port.get(job.packet.frame()) as u32;
        self.carry(core, &mut job, &self.normal);
        match group {
            0 => {
                job.path = PacketPath::NormalUnicast;
                self.enqueue(
                    core,
                    job,
                    Replica {
                        port: PortId(port),
                        instance: 0,
                    },
                    trace,
                );
            }
            group => self.multicast(core, job, group, trace),
        }
    }

    fn flag(&self, slot: SnapshotCell, job: &InFlightPacket) -> bool {
        slot.get(job.packet.frame()) != 0
    }

    fn ingress_blocks(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        if !job.is_prepared {
            job.packet.begin_pass();
        }
        job.packet.length = job.packet.bytes.len() as u32;
        let (port, path, now) = (
            u64::from(job.ingress.0),
            path_number(job.path),
            job.packet.now.0,
        );
        let frame = job.packet.frame_mut();
        self.parser_port.set(frame, port);
        self.parser_path.set(frame, path);
        self.ingress_port.set(frame, port);
        self.ingress_path.set(frame, path);
        self.ingress_time.set(frame, now);
        self.out_drop.set(frame, 1);
        let told = [
            self.parser_port,
            self.parser_path,
            self.ingress_port,
            self.ingress_path,
            self.ingress_time,
            self.out_drop,
        ];
        trace.given(frame, &told);
        match core.parse(job, BlockRole::Parser, trace) {
            ParserVerdict::Accept => {}
            ParserVerdict::Reject(error) => {
                self.ingress_error.set(job.packet.frame_mut(), error.into())
            }
            ParserVerdict::Drop(reason) => return Err(reason),
        }
        trace.given(job.packet.frame(), &[self.ingress_error]);
        core.control(job, BlockRole::Ingress, trace)
    }

    /// Clears the frame, except for the inputs of the next blocks.
    fn carry(&self, core: &mut Core, job: &mut InFlightPacket, carried: &Carried) {
        core.scratch.clear();
        carried.from.save(job.packet.frame(), &mut core.scratch);
        let requests = job.packet.requests;
        job.packet.begin_pass();
        job.packet.requests = requests;
        carried.to.restore(job.packet.frame_mut(), &core.scratch);
        job.is_prepared = true;
    }

    fn start_over(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        path: PacketPath,
        original: Option<&[u8]>,
        trace: &mut Trace<'_>,
    ) {
        job.path = path;
        let (carried, why) = match path {
            PacketPath::Resubmit => (&self.resubmit, "resubmit"),
            _ => (&self.recirculate, "recirculate"),
        };
        self.carry(core, &mut job, carried);
        job.packet.requests = exec::Requests::default();
        if let Some(bytes) = original
            && job.packet.bytes.assign(bytes).is_err()
        {
            return core.drop(job, DropReason::FrameTooLong, DropDetail::None, trace);
        }
        core.start_over(job, why, trace);
    }

    fn multicast(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        group: u32,
        trace: &mut Trace<'_>,
    ) {
        job.path = PacketPath::NormalMulticast;
        let root = std::sync::Arc::clone(&job.root);
        let Some((last, others)) = root.replication.group(group).split_last() else {
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
            let mut copy = core.copy(&job, true);
            copy.class_of_service = job.class_of_service;
            self.enqueue_copy(core, copy, replica, "multicast", trace);
        }
        self.enqueue_copy(core, job, *last, "multicast", trace);
    }

    fn enqueue_copy(
        &self,
        core: &mut Core,
        job: InFlightPacket,
        replica: Replica,
        why: &'static str,
        trace: &mut Trace<'_>,
    ) {
        let Replica { port, instance } = replica;
        trace.event(|| TraceEvent::Copied {
            why,
            port: port.0,
            instance,
        });
        self.enqueue(core, job, replica, trace);
    }

    fn enqueue(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        replica: Replica,
        trace: &mut Trace<'_>,
    ) {
        job.instance = replica.instance;
        // PSA: a class of service that the device does not have is class 0.
        if job.class_of_service >= PRIORITIES {
            job.class_of_service = 0;
        }
        let priority = job.class_of_service as u8;
        core.enqueue(job, replica.port, priority, trace);
    }

    /// Makes clones of the received packet.
    fn clone_ingress(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        original: &[u8],
        trace: &mut Trace<'_>,
    ) {
        let session = self.out_session.get(job.packet.frame()) as u32;
        self.clones(
            core,
            job,
            session,
            PacketPath::CloneI2E,
            Some(original),
            trace,
        );
    }

    fn clones(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        session: u32,
        path: PacketPath,
        original: Option<&[u8]>,
        trace: &mut Trace<'_>,
    ) {
        let root = std::sync::Arc::clone(&job.root);
        let Some(mode) = core.session(&root, session, trace) else {
            return;
        };
        let carried = if path == PacketPath::CloneI2E {
            &self.clone_i2e
        } else {
            &self.clone_e2e
        };
        let why = if path == PacketPath::CloneI2E {
            "clone of ingress"
        } else {
            "clone of egress"
        };
        let replicas = std::mem::take(&mut core.replicas);
        let may_copy = core.may_copy(job, replicas.len(), trace).is_ok();
        for &replica in replicas.iter().filter(|_| may_copy) {
            let mut copy = core.copy(job, true);
            self.carry(core, &mut copy, carried);
            copy.packet.requests = exec::Requests::default();
            copy.path = path;
            copy.class_of_service = mode.class_of_service;
            if let Some(bytes) = original
                && copy.packet.bytes.assign(bytes).is_err()
            {
                core.drop(copy, DropReason::FrameTooLong, DropDetail::None, trace);
                continue;
            }
            if let Some(length) = mode.truncate {
                copy.packet.bytes.truncate(length as usize);
            }
            self.enqueue_copy(core, copy, replica, why, trace);
        }
        core.replicas = replicas;
        job.resume();
    }

    pub(super) fn egress(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) {
        if let Err(reason) = self.egress_blocks(core, &mut job, port, trace) {
            return core.drop(job, reason, DropDetail::None, trace);
        }
        self.all_done(core, job, port, trace);
    }

    /// Continues after all blocks.
    pub(super) fn all_done(
        &self,
        core: &mut Core,
        mut job: InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) {
        if self.flag(self.egress_clone, &job) {
            let session = self.egress_session.get(job.packet.frame()) as u32;
            self.clones(core, &mut job, session, PacketPath::CloneE2E, None, trace);
        }
        if self.flag(self.egress_drop, &job) {
            return core.drop(job, DropReason::Egress, DropDetail::None, trace);
        }
        if port.0 == PORT_RECIRCULATE {
            job.ingress = port;
            return self.start_over(core, job, PacketPath::Recirculate, None, trace);
        }
        core.send(job, port, trace);
    }

    /// Returns the fast path: [`Psa::ingress`] and [`Psa::egress`] for a packet without requests.
    pub(super) fn pass(&self, program: &Program) -> Option<FastPathPlan> {
        let mut pass = FastPathBuilder::new(program);
        pass.set(self.parser_port, PassInput::IngressPort);
        pass.set(self.parser_path, path(PacketPath::Normal));
        pass.set(self.ingress_port, PassInput::IngressPort);
        pass.set(self.ingress_path, path(PacketPath::Normal));
        pass.set(self.ingress_time, PassInput::Nanos);
        pass.set(self.out_drop, PassInput::Constant(1));
        pass.parse(BlockRole::Parser, &[self.ingress_error]);
        pass.control(BlockRole::Ingress);
        pass.leave_if_set(self.out_clone);
        pass.leave_if_set(self.out_resubmit);
        pass.deparse(BlockRole::IngressDeparser);
        pass.resume_at(Resume::IngressDeparsed);
        pass.leave_if_asked();
        pass.leave_if_set(self.out_class);
        pass.drop_if_set(self.out_drop, DropReason::Ingress);
        pass.leave_if_set(self.out_group);
        pass.leave_if_equal(self.out_port, PORT_RECIRCULATE.into());
        pass.enqueue(self.out_port);
        pass.resume_at(Resume::AllDone);
        pass.carry(self.normal.fields.clone());
        pass.set(self.egress_parser_port, PassInput::EgressPort);
        pass.set(self.egress_parser_path, path(PacketPath::NormalUnicast));
        pass.set(self.egress_port, PassInput::EgressPort);
        pass.set(self.egress_path, path(PacketPath::NormalUnicast));
        pass.set(self.egress_time, PassInput::Nanos);
        pass.set(self.deparser_port, PassInput::EgressPort);
        pass.parse(BlockRole::EgressParser, &[self.egress_error]);
        pass.control(BlockRole::Egress);
        pass.deparse(BlockRole::Deparser);
        pass.leave_if_asked();
        pass.leave_if_set(self.egress_clone);
        pass.drop_if_set(self.egress_drop, DropReason::Egress);
        pass.send()
    }

    fn egress_blocks(
        &self,
        core: &mut Core,
        job: &mut InFlightPacket,
        port: PortId,
        trace: &mut Trace<'_>,
    ) -> Result<(), DropReason> {
        job.packet.length = job.packet.bytes.len() as u32;
        let (path, now) = (path_number(job.path), job.packet.now.0);
        let (class, instance) = (job.class_of_service, job.instance);
        let frame = job.packet.frame_mut();
        self.egress_parser_port.set(frame, port.0.into());
        self.egress_parser_path.set(frame, path);
        self.egress_class.set(frame, class.into());
        self.egress_port.set(frame, port.0.into());
        self.egress_path.set(frame, path);
        self.egress_instance.set(frame, instance.into());
        self.egress_time.set(frame, now);
        self.deparser_port.set(frame, port.0.into());
        let told = [
            self.egress_parser_port,
            self.egress_parser_path,
            self.egress_class,
            self.egress_port,
            self.egress_path,
            self.egress_instance,
            self.egress_time,
            self.deparser_port,
        ];
        trace.given(frame, &told);
        match core.parse(job, BlockRole::EgressParser, trace) {
            ParserVerdict::Accept => {}
            ParserVerdict::Reject(error) => {
                self.egress_error.set(job.packet.frame_mut(), error.into())
            }
            ParserVerdict::Drop(reason) => return Err(reason),
        }
        trace.given(job.packet.frame(), &[self.egress_error]);
        core.control(job, BlockRole::Egress, trace)?;
        core.deparse(job, BlockRole::Deparser, trace)
    }
}
