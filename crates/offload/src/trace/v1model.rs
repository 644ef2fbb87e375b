//! The pipeline of v1model, as `switch` runs it.

use std::collections::{BTreeMap, VecDeque};

use bits::{Id, IdSet, Value};
use exec::DropReason;
use ir::{Block, BlockCode, BlockRole, FieldId};
use packet::PortId;
use switch::Replica;

use super::code::zero_of;
use super::value::{Knowledge, Word};
use super::{Bytes, End, Job, Request, Sent, SentPackets, Walk};
use crate::flow::{CountedBytes, NotOffloadable};

/// Values of `standard_metadata.instance_type`.
mod instance_type {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATE: u64 = 4;
    pub(super) const REPLICATION: u64 = 5;
    pub(super) const RESUBMIT: u64 = 6;
}

/// Number of queues of a port.
const PRIORITIES: u64 = 8;

/// Maximum number of rounds and of copies that the walk follows for a packet.
const MAX_ROUNDS: u32 = 64;

/// The packets that wait.
#[derive(Default)]
struct Waiting {
    /// For another round.
    again: VecDeque<Job>,
    /// For their port.
    queued: VecDeque<(Job, PortId)>,
    /// Priorities by which packets wait for each port.
    priorities: BTreeMap<PortId, u64>,
    rounds: u32,
}

impl Walk<'_> {
    /// Runs the packet and all its copies.
    pub(super) fn run(&mut self, ingress: PortId) -> Result<SentPackets, NotOffloadable> {
        let mut sent = SentPackets {
            packets: Vec::new(),
            drop: None,
        };
        let mut waiting = Waiting::default();
        waiting.again.push_back(Job {
            fields: self.fresh_fields(),
            ingress,
            ..Job::default()
        });
        loop {
            let done = if let Some(job) = waiting.again.pop_front() {
                self.job = job;
                self.ingress(&mut waiting)
            } else if let Some((job, port)) = waiting.queued.pop_front() {
                self.job = job;
                self.egress(port, &mut waiting, &mut sent)
            } else {
                return Ok(sent);
            };
            match done {
                Ok(()) => {}
                Err(End::Drop(reason)) => {
                    sent.drop.get_or_insert(reason);
                }
                Err(End::Not(reason)) => return Err(reason),
                // Only parsers reject, and what runs them takes the error.
                Err(End::Reject(_)) => return Err(NotOffloadable::Disagreement),
            }
        }
    }

    fn fresh_fields(&self) -> Vec<Word> {
        let fields = self.program.fields.values();
        fields.map(|field| zero_of(field.ty)).collect()
    }

    fn metadata(&self, name: &str) -> Option<usize> {
        let intrinsics = &self.program.pipeline.intrinsics;
        let field = intrinsics.get(&format!("standard_metadata.{name}"))?;
        Some(field.index())
    }

    fn set(&mut self, name: &str, value: u64) {
        if let Some(at) = self.metadata(name) {
            let width = self.job.fields[at].len() as u32;
            self.job.fields[at] = Knowledge::word(&Value::truncated(value.into(), width));
        }
    }

    fn set_never(&mut self, name: &str, reason: NotOffloadable) {
        if let Some(at) = self.metadata(name) {
            let width = self.job.fields[at].len() as u32;
            self.job.fields[at] = self.know.never(reason, width);
        }
    }

    /// Returns a field of the standard metadata, fixed; 0 if the program does not have it.
    fn get(&mut self, name: &str) -> Result<u64, End> {
        match self.metadata(name) {
            Some(at) => {
                let word = self.job.fields[at].clone();
                Ok(self.know.fix_number(&word)?)
            }
            None => Ok(0),
        }
    }

    /// Sets the packet's length, as counters count it.
    fn set_length(&mut self) -> Result<(), End> {
        let Some(at) = self.metadata("packet_length") else {
            return Ok(());
        };
        let width = self.job.fields[at].len() as u32;
        self.job.fields[at] = match self.job.length {
            CountedBytes::Frame(plus) => self.know.length_plus(plus, width)?,
            CountedBytes::Fixed(bytes) => Knowledge::word(&Value::truncated(bytes.into(), width)),
        };
        Ok(())
    }

    fn block(&self, role: BlockRole) -> Option<BlockCode> {
        let blocks = self.program.pipeline.blocks.iter();
        let found = |block: &&Block| block.role == role;
        blocks.clone().find(found).map(|block| block.code)
    }

    /// Runs the parser, if there is one. Returns the number of its error.
    fn parse(&mut self) -> Result<u32, End> {
        self.job.current = None;
        let Some(BlockCode::Parser(parser)) = self.block(BlockRole::Parser) else {
            return Ok(0);
        };
        let program = self.program;
        self.parser(parser, &program.parsers[parser])
    }

    fn run_control(&mut self, role: BlockRole) -> Result<(), End> {
        self.job.current = None;
        let Some(BlockCode::Control(control)) = self.block(role) else {
            return Ok(());
        };
        let program = self.program;
        self.control(control, &program.controls[control])
    }

    fn ingress(&mut self, waiting: &mut Waiting) -> Result<(), End> {
        self.job.length = CountedBytes::Frame(self.job.bytes.growth());
        if !self.job.is_prepared {
            self.set_length()?;
            self.set("ingress_port", self.job.ingress.0.into());
            self.set_never("ingress_global_timestamp", NotOffloadable::Time);
        }
        let error = self.parse()?;
        self.set("parser_error", error.into());
        self.run_control(BlockRole::VerifyChecksum)?;
        if let Some(at) = self.metadata("checksum_error") {
            let is_wrong = self.job.checksum_error;
            let mut word = zero_of(self.program.fields[FieldId::from_index(at)].ty);
            if let (Some(low), Some(is_wrong)) = (word.first_mut(), is_wrong) {
                *low = is_wrong;
            }
            self.job.fields[at] = word;
        }
        self.run_control(BlockRole::Ingress)?;
        if self.program.pipeline.intrinsics.contains_key(ir::RESUME) {
            return Err(NotOffloadable::Operation("more rounds through stage slots").into());
        }
        if let Some(request) = self.job.clone.take() {
            self.clone_ingress(request, waiting)?;
        }
        if let Some(list) = self.job.resubmit.take() {
            return self.start_over(list, instance_type::RESUBMIT, waiting);
        }
        let group = self.get("mcast_grp")?;
        if group != 0 {
            return self.multicast(group as u32, waiting);
        }
        if self.is_to_drop()? {
            return Err(End::Drop(DropReason::Ingress));
        }
        let port = PortId(self.get("egress_spec")? as u32);
        self.set("instance_type", instance_type::NORMAL);
        let job = std::mem::take(&mut self.job);
        self.enqueue(job, port, None, waiting)
    }

    /// Returns true if the packet's port is the drop port.
    fn is_to_drop(&mut self) -> Result<bool, End> {
        let Some(at) = self.metadata("egress_spec") else {
            return Ok(false);
        };
        let word = self.job.fields[at].clone();
        Ok(self.know.fix_all(&word)? == Value::all_ones(word.len() as u32))
    }

    fn enqueue(
        &mut self,
        job: Job,
        port: PortId,
        priority: Option<u64>,
        waiting: &mut Waiting,
    ) -> Result<(), End> {
        let current = std::mem::replace(&mut self.job, job);
        let priority = match priority {
            Some(priority) => priority,
            None => self.get("priority")?,
        };
        let job = std::mem::replace(&mut self.job, current);
        if priority >= PRIORITIES {
            return Err(End::Drop(DropReason::NoSuchQueue));
        }
        if *waiting.priorities.entry(port).or_insert(priority) != priority {
            return Err(NotOffloadable::QueueOrder(port).into());
        }
        waiting.queued.push_back((job, port));
        Ok(())
    }

    /// Counts a copy or round.
    fn round(&mut self, waiting: &mut Waiting) -> Result<(), End> {
        self.spend_on_packet()?;
        waiting.rounds += 1;
        match waiting.rounds > MAX_ROUNDS {
            true => Err(NotOffloadable::Recirculation.into()),
            false => Ok(()),
        }
    }

    fn multicast(&mut self, group: u32, waiting: &mut Waiting) -> Result<(), End> {
        self.met.multicast_groups.push(group);
        self.set("instance_type", instance_type::REPLICATION);
        self.job.clone = None;
        self.job.resubmit = None;
        self.job.recirculate = None;
        self.job.truncate = None;
        let replicas: &[Replica] = self.replication.group(group);
        if replicas.is_empty() {
            return Err(End::Drop(DropReason::NoReplicas));
        }
        for replica in replicas {
            self.round(waiting)?;
            self.set("egress_rid", replica.instance.into());
            let copy = self.job.clone();
            self.enqueue(copy, replica.port, None, waiting)?;
        }
        Ok(())
    }

    fn kept(&self, list: Option<u32>) -> Vec<(usize, Word)> {
        let lists = &self.program.pipeline.field_lists;
        let fields = list.and_then(|list| lists.get(&list));
        let fields = fields.into_iter().flatten().map(|field| field.index());
        fields.map(|at| (at, self.job.fields[at].clone())).collect()
    }

    fn start_over(
        &mut self,
        list: Option<u32>,
        kind: u64,
        waiting: &mut Waiting,
    ) -> Result<(), End> {
        self.round(waiting)?;
        let kept = self.kept(list);
        self.job = Job {
            fields: self.fresh_fields(),
            bytes: std::mem::take(&mut self.job.bytes),
            ingress: self.job.ingress,
            is_prepared: true,
            ..Job::default()
        };
        for (at, value) in kept {
            self.job.fields[at] = value;
        }
        self.set("instance_type", kind);
        self.job.length = CountedBytes::Frame(self.job.bytes.growth());
        self.set_length()?;
        waiting.again.push_back(std::mem::take(&mut self.job));
        Ok(())
    }

    /// Zeroes all fields that belong to no header.
    fn clear_metadata(&mut self) {
        let mut of_headers = IdSet::default();
        for header in self.program.headers.values() {
            let fields = self.program.header_types[header.ty].fields.len() as u32;
            for index in 0..=fields {
                of_headers.insert(FieldId::new(header.valid.get() + index));
            }
        }
        for stack in self.program.stacks.values() {
            of_headers.insert(stack.next_index);
        }
        for (id, field) in self.program.fields.iter() {
            if !of_headers.contains(id) {
                self.job.fields[id.index()] = zero_of(field.ty);
            }
        }
    }

    fn clone_ingress(&mut self, request: Request, waiting: &mut Waiting) -> Result<(), End> {
        let Some(replicas) = self.session(request.session)? else {
            return Ok(());
        };
        let original = self.job.clone();
        for replica in replicas {
            self.round(waiting)?;
            self.job = Job {
                fields: self.fresh_fields(),
                bytes: original.bytes.clone(),
                ingress: original.ingress,
                length: original.length,
                ..Job::default()
            };
            self.set("ingress_port", original.ingress.0.into());
            // A parser error of a clone is not noted anywhere.
            match self.parse() {
                Ok(_) => {}
                // It drops this copy only, and the walk would end the packet.
                Err(End::Drop(_)) => return Err(NotOffloadable::Clone.into()),
                Err(end) => return Err(end),
            }
            self.finish_clone(
                &original,
                request,
                replica,
                instance_type::INGRESS_CLONE,
                waiting,
            )?;
        }
        self.job = original;
        Ok(())
    }

    fn clone_egress(&mut self, request: Request, waiting: &mut Waiting) -> Result<(), End> {
        let Some(replicas) = self.session(request.session)? else {
            return Ok(());
        };
        let original = self.job.clone();
        for replica in replicas {
            self.round(waiting)?;
            self.job = Job {
                fields: original.fields.clone(),
                bytes: original.bytes.clone(),
                cursor: original.cursor,
                ingress: original.ingress,
                length: original.length,
                ..Job::default()
            };
            self.finish_clone(
                &original,
                request,
                replica,
                instance_type::EGRESS_CLONE,
                waiting,
            )?;
        }
        self.job = original;
        Ok(())
    }

    fn finish_clone(
        &mut self,
        original: &Job,
        request: Request,
        replica: Replica,
        kind: u64,
        waiting: &mut Waiting,
    ) -> Result<(), End> {
        self.clear_metadata();
        if let Some(at) = self.metadata("packet_length.rest") {
            self.job.fields[at] = original.fields[at].clone();
        }
        let copy = std::mem::replace(&mut self.job, original.clone());
        let kept = self.kept(request.list);
        self.job = copy;
        for (at, value) in kept {
            self.job.fields[at] = value;
        }
        self.set("instance_type", kind);
        self.set("egress_rid", replica.instance.into());
        let session = self.replication.session(request.session);
        let class = session.map_or(0, |session| session.class_of_service);
        let priority = match class {
            0 => self.get("priority")?,
            class => class.into(),
        };
        let width = self
            .metadata("priority")
            .map(|at| self.job.fields[at].len());
        self.set("priority", priority);
        debug_assert!(width.is_none_or(|width| width >= 1));
        self.job.truncate = session.and_then(|session| session.truncate).map(u64::from);
        let copy = std::mem::take(&mut self.job);
        self.enqueue(copy, replica.port, Some(priority), waiting)
    }

    /// Returns the copies of a clone session; `None` if it is not configured.
    fn session(&mut self, id: u32) -> Result<Option<Vec<Replica>>, End> {
        self.met.clone_sessions.push(id);
        let Some(session) = self.replication.session(id) else {
            return Ok(None);
        };
        self.met.multicast_groups.extend(session.group);
        Ok(Some(self.replication.clones(session).collect()))
    }

    fn egress(
        &mut self,
        port: PortId,
        waiting: &mut Waiting,
        sent: &mut SentPackets,
    ) -> Result<(), End> {
        self.set_never("enq_timestamp", NotOffloadable::Time);
        self.set_never("egress_global_timestamp", NotOffloadable::Time);
        for name in ["enq_qdepth", "deq_timedelta", "deq_qdepth"] {
            self.set_never(name, NotOffloadable::Queue);
        }
        self.set("egress_port", port.0.into());
        self.set("egress_spec", 0);
        self.set_length()?;
        self.run_control(BlockRole::Egress)?;
        if let Some(request) = self.job.clone.take() {
            self.clone_egress(request, waiting)?;
        }
        if self.is_to_drop()? {
            return Err(End::Drop(DropReason::Egress));
        }
        self.run_control(BlockRole::ComputeChecksum)?;
        self.run_control(BlockRole::Deparser)?;
        self.finish_deparse()?;
        if let Some(list) = self.job.recirculate.take() {
            return self.start_over(list, instance_type::RECIRCULATE, waiting);
        }
        if let Some(most) = self.job.truncate {
            let growth = self.job.bytes.growth();
            let most = i64::try_from(most).unwrap_or(i64::MAX >> 1);
            if self.know.has_length(most - growth + 1) {
                return Err(NotOffloadable::Truncated.into());
            }
        }
        let packet: Bytes = std::mem::take(&mut self.job.bytes);
        sent.packets.push(Sent { port, packet });
        Ok(())
    }
}
