//! Jobs of engines: reductions of stored parts, and groups.

use std::collections::BTreeMap;

use aggregate::{KeyClass, Operator, ReductionRequest, Shape, ValueClass};
use fabric::topology::HostId;
use packet::Nanos;

use super::{Action, JobState, Master, ReductionReport, Source};
use crate::engine::{CollectRequest, EngineNumber, JoinRequest};
use crate::order::{AgentOrder, EngineOrder, EngineRequest, MapSource};

/// Jobs of engines that have ended and are still listed.
const MAX_LISTED: usize = 200;

/// An engine of the agent of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EngineId {
    pub(super) host: HostId,
    pub(super) number: EngineNumber,
}

/// Those who wait for a job.
#[derive(Debug)]
pub(super) enum Origin {
    /// A client.
    Client,
    /// An engine that collects stored parts. `None`: it has gone, or has its answer.
    Collect(Option<EngineId>),
    /// A group.
    Group(Group),
}

/// A group of ranks.
#[derive(Debug)]
pub(super) struct Group {
    /// Name, size and options, as its first rank gives them.
    first: JoinRequest,
    first_host: HostId,
    since: Nanos,
    /// The engine of each rank. `None`: it has left, or has gone.
    ranks: BTreeMap<u16, (HostId, Option<EngineId>)>,
}

impl Group {
    fn missing(&self) -> Vec<u16> {
        let ranks = 0..self.first.size;
        ranks
            .filter(|rank| !self.ranks.contains_key(rank))
            .collect()
    }

    fn rank_of(&self, engine: EngineId) -> Option<u16> {
        let mut ranks = self.ranks.iter();
        let found = ranks.find(|(_, (_, of))| *of == Some(engine));
        found.map(|(rank, _)| *rank)
    }

    /// Returns the time that ranks have for their next vector after the first one has it.
    pub(super) fn waiting(&self) -> Nanos {
        Nanos::from_secs(self.first.seconds)
    }

    fn has_joined(&self) -> bool {
        self.ranks.len() == usize::from(self.first.size)
    }
}

impl Origin {
    /// Returns true for a collection.
    pub(super) fn is_collection(&self) -> bool {
        matches!(self, Origin::Collect(_))
    }

    /// Returns true for a group.
    pub(super) fn is_group(&self) -> bool {
        matches!(self, Origin::Group(_))
    }

    /// Returns true if its result goes to an engine, and is not reported.
    pub(super) fn is_of_engine(&self) -> bool {
        !matches!(self, Origin::Client)
    }

    /// Returns the engines that wait for an answer.
    fn engines(&self) -> Vec<EngineId> {
        match self {
            Origin::Client => Vec::new(),
            Origin::Collect(engine) => engine.iter().copied().collect(),
            Origin::Group(group) => group.ranks.values().filter_map(|(_, it)| *it).collect(),
        }
    }

    /// Takes the engines that wait for an answer.
    pub(super) fn take_engines(&mut self) -> Vec<EngineId> {
        match self {
            Origin::Client => Vec::new(),
            Origin::Collect(engine) => engine.take().into_iter().collect(),
            Origin::Group(group) => {
                let ranks = group.ranks.values_mut();
                ranks.filter_map(|(_, engine)| engine.take()).collect()
            }
        }
    }

    fn has(&self, engine: EngineId) -> bool {
        self.engines().contains(&engine)
    }
}

/// Lists ranks, at most 16 of them.
fn list(ranks: &[u16]) -> String {
    const MOST: usize = 16;
    let shown = ranks.iter().take(MOST).map(u16::to_string);
    let shown = shown.collect::<Vec<String>>().join(", ");
    let more = ranks.len().saturating_sub(MOST);
    let ranks = if ranks.len() == 1 { "rank" } else { "ranks" };
    match more {
        0 => format!("{ranks} {shown}"),
        more => format!("{ranks} {shown} and {more} more"),
    }
}

impl Master {
    /// Takes a request of an engine.
    pub(super) fn engine_asks(&mut self, engine: EngineId, request: EngineRequest, now: Nanos) {
        let asked = match request {
            EngineRequest::Collect(request) => self.collect(engine, request, now),
            EngineRequest::Join(request) => self.join(engine, request, now),
            EngineRequest::Left => {
                self.leave(engine);
                return;
            }
            EngineRequest::Gone { why } => {
                self.engine_failed(engine, &format!("its engine: {why}"), true);
                return;
            }
            EngineRequest::Failed { why } => {
                self.engine_failed(engine, &why, false);
                return;
            }
        };
        if let Err(error) = asked {
            self.answer(engine, EngineOrder::Failed { error });
        }
    }

    /// Sends an answer to an engine. A lost agent has answered its engines itself.
    pub(super) fn answer(&mut self, engine: EngineId, order: EngineOrder) {
        let EngineId { host, number } = engine;
        if !self.agents[host.0].is_connected {
            return;
        }
        let order = AgentOrder::Engine {
            engine: number,
            order,
        };
        self.actions.push_back(Action::Order(host, order));
    }

    fn collect(
        &mut self,
        engine: EngineId,
        request: CollectRequest,
        now: Nanos,
    ) -> Result<(), String> {
        let name = &request.name;
        // One mapper for all parts of a host.
        let mut parts: BTreeMap<HostId, Vec<String>> = BTreeMap::new();
        for mapper in request.mappers {
            let mut all = self.topology.hosts.iter();
            let host = all.position(|host| host.address == mapper.host);
            let host = host.ok_or_else(|| {
                format!(
                    "{name}: {} is no host of the topology {}; use the address of one of its \
                     [[host]] sections",
                    mapper.host, self.topology.name
                )
            })?;
            parts.entry(HostId(host)).or_default().push(mapper.part);
        }
        let hosts = parts.keys().map(|host| (*host, 0)).collect();
        let sources = parts.into_values().map(|names| Source {
            who: match &names[..] {
                [name] => format!("mapper {name}"),
                [name, others @ ..] => format!("mapper {name} and {} more", others.len()),
                [] => "no mapper".to_owned(),
            },
            from: MapSource::Stored { names },
        });
        let sources = sources.collect();
        let planned = ReductionRequest {
            name: name.clone(),
            shape: request.shape,
            mappers: hosts,
            reducer: engine.host,
            slots: request.slots,
            tiers: request.tiers,
            to_all: false,
        };
        let name = name.clone();
        self.admit(
            name,
            &[planned],
            vec![sources],
            Origin::Collect(Some(engine)),
        )?;
        self.last_collection = Some(now);
        Ok(())
    }

    /// Returns the number and the state of the group with this name that has not ended.
    fn group(&mut self, name: &str) -> Option<(u32, &mut Group)> {
        self.jobs.iter_mut().find_map(|(number, job)| {
            let is_open = job.cleaned_by.is_none();
            match &mut job.origin {
                Origin::Group(group) if is_open && group.first.group == name => {
                    Some((*number, group))
                }
                _ => None,
            }
        })
    }

    fn join(&mut self, engine: EngineId, request: JoinRequest, now: Nanos) -> Result<(), String> {
        let (name, rank) = (request.group.clone(), request.rank);
        let host_name = |master: &Master, host: HostId| master.topology.hosts[host.0].name.clone();
        let own_host = host_name(self, engine.host);
        let Some((number, group)) = self.group(&name) else {
            let group = Group {
                since: now,
                first_host: engine.host,
                ranks: BTreeMap::from([(rank, (engine.host, Some(engine)))]),
                first: request,
            };
            let number = self.new_job(format!("group {name}"), Origin::Group(group));
            self.begin_group(number);
            return Ok(());
        };
        if let Some((host, _)) = group.ranks.get(&rank).copied() {
            let host = host_name(self, host);
            return Err(format!(
                "group {name}: an engine on {host} has rank {rank}; give each engine another rank, \
                 or this group another name"
            ));
        }
        let JoinRequest {
            size,
            slots,
            tiers,
            seconds,
            ..
        } = request;
        let first = &group.first;
        let options = [
            ("size", u64::from(size), u64::from(first.size)),
            ("slots", slots.into(), first.slots.into()),
            ("tiers", tiers.into(), first.tiers.into()),
            ("seconds", seconds, first.seconds),
        ];
        let first = (first.rank, group.first_host);
        group.ranks.insert(rank, (engine.host, Some(engine)));
        let mut options = options.iter();
        if let Some((option, theirs, ours)) = options.find(|(_, theirs, ours)| theirs != ours) {
            let first_host = host_name(self, first.1);
            let failure = format!(
                "group {name}: rank {rank} on {own_host} has {option} {theirs}, but rank {} on \
                 {first_host} has {ours}; give all ranks the same",
                first.0
            );
            self.fail_job(number, failure);
            return Ok(());
        }
        self.begin_group(number);
        Ok(())
    }

    /// Admits the reduction of a group if all ranks are there.
    fn begin_group(&mut self, number: u32) {
        let Some(Origin::Group(group)) = self.jobs.get(&number).map(|job| &job.origin) else {
            return;
        };
        if !group.has_joined() {
            return;
        }
        let ranks = group.ranks.iter();
        let ranks = ranks.filter_map(|(rank, (host, engine))| Some((*rank, *host, (*engine)?)));
        let ranks: Vec<(u16, HostId, EngineId)> = ranks.collect();
        let Some((_, reducer, _)) = ranks.first().copied() else {
            return;
        };
        let request = ReductionRequest {
            name: group.first.group.clone(),
            shape: Shape {
                operator: Operator::Add,
                keys: KeyClass::Block,
                values: ValueClass::F32,
            },
            mappers: ranks.iter().map(|(_, host, _)| (*host, 0)).collect(),
            reducer,
            slots: group.first.slots,
            tiers: group.first.tiers,
            to_all: true,
        };
        let name = format!("group {}", group.first.group);
        let sources = ranks.iter().map(|(rank, _, engine)| Source {
            who: format!("rank {rank}"),
            from: MapSource::Engine {
                engine: engine.number,
            },
        });
        let sources = vec![sources.collect()];
        match self.plan(&[request], sources) {
            Ok(reductions) => self.begin_reductions(number, reductions),
            Err(error) => self.fail_job(number, format!("{name}: {error}")),
        }
    }

    /// Notifies the ranks of a group that it has begun.
    pub(super) fn report_joined(&mut self, number: u32) {
        let Some(job) = self.jobs.get(&number) else {
            return;
        };
        let (Origin::Group(_), Some(reduction)) = (&job.origin, job.reductions.first()) else {
            return;
        };
        let joined = EngineOrder::Joined {
            switches: self.switches_of(reduction),
            reducer: self.topology.hosts[reduction.planned.request.reducer.0].address,
        };
        for engine in job.origin.engines() {
            self.answer(engine, joined.clone());
        }
    }

    /// Notifies an engine that its result is complete.
    pub(super) fn report_collected(&mut self, number: u32) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let engines = job.origin.take_engines();
        let Some(reduction) = self
            .jobs
            .get(&number)
            .and_then(|job| job.reductions.first())
        else {
            return;
        };
        let collected = EngineOrder::Collected {
            switches: self.switches_of(reduction),
            attempts: reduction.outcome.attempts,
            retried: reduction.outcome.retried,
        };
        for engine in engines {
            self.answer(engine, collected.clone());
        }
    }

    /// Returns the number of the job of an engine.
    fn job_of(&self, engine: EngineId) -> Option<u32> {
        let mut jobs = self.jobs.iter();
        let found = jobs.find(|(_, job)| job.cleaned_by.is_none() && job.origin.has(engine));
        found.map(|(number, _)| *number)
    }

    /// Notes that a rank has left. A group without ranks ends.
    fn leave(&mut self, engine: EngineId) {
        let Some(number) = self.job_of(engine) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let Origin::Group(group) = &mut job.origin else {
            return;
        };
        if let Some(rank) = group.rank_of(engine)
            && let Some((_, engine)) = group.ranks.get_mut(&rank)
        {
            *engine = None;
        }
        let is_over = group.ranks.values().all(|(_, engine)| engine.is_none());
        if is_over && group.has_joined() {
            for reduction in &mut job.reductions {
                reduction.outcome.is_complete = true;
            }
            self.end_all(number);
        }
    }

    /// Ends the job of an engine that has gone or cannot go on.
    fn engine_failed(&mut self, engine: EngineId, why: &str, has_gone: bool) {
        let Some(number) = self.job_of(engine) else {
            return;
        };
        let host = self.topology.hosts[engine.host.0].name.clone();
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        let failure = match &mut job.origin {
            Origin::Client => return,
            Origin::Collect(collector) => {
                collector.take_if(|_| has_gone);
                format!("{}, collected on {host}: {why}", job.name)
            }
            Origin::Group(group) => {
                let rank = group.rank_of(engine).unwrap_or_default();
                if has_gone && let Some((_, engine)) = group.ranks.get_mut(&rank) {
                    *engine = None;
                }
                format!("group {}: rank {rank} on {host}: {why}", group.first.group)
            }
        };
        self.fail_job(number, failure);
    }

    /// Fails the jobs of the engines of a host, since its agent is not there.
    pub(super) fn engines_lost(&mut self, host: HostId, why: &str) {
        let jobs = self.jobs.iter();
        let engines = jobs.filter(|(_, job)| job.cleaned_by.is_none());
        let engines = engines.flat_map(|(_, job)| job.origin.engines());
        let lost: Vec<EngineId> = engines.filter(|engine| engine.host == host).collect();
        for engine in lost {
            self.engine_failed(engine, why, true);
        }
    }

    /// Fails groups that are not complete in time.
    pub(super) fn end_late_groups(&mut self, now: Nanos) {
        let mut late = Vec::new();
        for (number, job) in &self.jobs {
            if let Origin::Group(group) = &job.origin
                && job.cleaned_by.is_none()
                && !group.has_joined()
                && now.since(group.since) > Nanos::from_secs(group.first.seconds)
            {
                let (name, seconds) = (&group.first.group, group.first.seconds);
                let missing = list(&group.missing());
                let failure = format!(
                    "group {name}: {missing} did not join within {seconds} s; start them, or give \
                     a longer time"
                );
                late.push((*number, failure));
            }
        }
        for (number, failure) in late {
            self.fail_job(number, failure);
        }
    }

    /// Reports a group that has not begun.
    pub(super) fn report_of_group(&self, job: &JobState) -> Option<ReductionReport> {
        let Origin::Group(group) = &job.origin else {
            return None;
        };
        let step = match (&job.failure, group.missing()) {
            (Some(_), _) => "ended".to_owned(),
            (None, missing) => format!("waits for {}", list(&missing)),
        };
        job.reductions.is_empty().then(|| ReductionReport {
            name: group.first.group.clone(),
            job: 0,
            step,
            attempts: 0,
            retried: 0,
            switches: Vec::new(),
            keys: 0,
            failure: job.failure.clone(),
        })
    }

    /// Forgets the oldest jobs of engines that have ended.
    pub(super) fn forget_old_jobs(&mut self) {
        let ended = self.jobs.iter();
        let ended = ended.filter(|(_, job)| job.has_ended && job.origin.is_of_engine());
        let ended: Vec<u32> = ended.map(|(number, _)| *number).collect();
        for number in &ended[..ended.len().saturating_sub(MAX_LISTED)] {
            self.jobs.remove(number);
        }
    }
}
