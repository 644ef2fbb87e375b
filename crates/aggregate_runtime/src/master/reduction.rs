//! A reduction of a job: its parts, its step, and the orders for its hosts.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use aggregate::{PlannedReduction, ReducerConfig, ReductionError, RunOptions, switch_address};
use fabric::Topology;
use fabric::topology::{HostId, SwitchId};
use packet::Nanos;

use super::RealOutcome;
use super::engines::{EngineId, Origin};
use crate::order::{AttemptId, MapOrder, MapSource, ReduceOrder, ResultTo};

/// Time without a message after which a mapper or a switch of a group counts as failed. A lost
/// switch gets its time to come back before: a group has one attempt.
const GROUP_PATIENCE: Nanos = Nanos::from_secs(20);

/// Time that mappers get to report after their reducer has the result, if they do not get it.
const LAST_REPORTS: Nanos = Nanos::from_secs(2);

/// Reports of the mappers of a reduction with a result.
pub(super) enum LastReports {
    /// Some may come.
    Missing,
    /// All are here that are waited for.
    Here,
    /// A mapper that is to get the result has gone, or the reducer (`None`) that has it.
    Lost(Option<u16>),
}

/// State of a mapper or a reducer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its agent has no order.
    Absent,
    /// Its agent prepares it.
    Preparing,
    /// It waits for its begin.
    Ready,
    /// It has begun.
    Begun,
}

/// Step of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Mappers and the reducer are prepared.
    Preparing,
    /// All are prepared, and the switches must be loaded.
    Ready,
    /// They are at work.
    Running,
    /// The result is here since this time, and mappers may still report.
    Complete(Nanos),
    /// It has ended.
    Ended,
}

/// A mapper's name, and where its input comes from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As it is named in failures, without its host.
    pub(super) who: String,
    pub(super) from: MapSource,
}

/// A reduction of a job.
#[derive(Debug)]
pub(super) struct Reduction {
    pub(super) planned: PlannedReduction,
    pub(super) sources: Vec<Source>,
    pub(super) at: AttemptId,
    pub(super) phase: Phase,
    pub(super) reducer: Part,
    pub(super) parts: Vec<Part>,
    pub(super) mapped: Vec<bool>,
    /// True if a switch was lost in this attempt.
    pub(super) has_lost_switch: bool,
    pub(super) failures: u32,
    pub(super) outcome: RealOutcome,
}

impl Reduction {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Preparing | Phase::Ready | Phase::Running)
    }

    /// Returns the state of the last reports. Mappers that get the result are waited for, as long
    /// as they and the reducer are those that have begun.
    pub(super) fn last_reports(&self, now: Nanos) -> LastReports {
        let Phase::Complete(at) = self.phase else {
            return LastReports::Missing;
        };
        let mappers = (0..).zip(&self.mapped).zip(&self.parts);
        let mut missing = mappers
            .filter(|((_, is_mapped), _)| !**is_mapped)
            .peekable();
        let is_late = now.since(at) > LAST_REPORTS;
        let is_to_all = self.planned.request.to_all;
        if missing.peek().is_none() || !is_to_all && is_late {
            return LastReports::Here;
        }
        let lost = missing.find(|(_, part)| **part != Part::Begun);
        match (lost, self.reducer) {
            (Some(((flow, _), _)), _) if is_to_all => LastReports::Lost(Some(flow)),
            (None, Part::Absent) if is_to_all => LastReports::Lost(None),
            _ => LastReports::Missing,
        }
    }

    /// Returns the hosts of the reducer and the mappers.
    pub(super) fn hosts(&self) -> BTreeSet<HostId> {
        let request = &self.planned.request;
        let mappers = request.mappers.iter().map(|(host, _)| *host);
        mappers.chain([request.reducer]).collect()
    }

    /// Returns true if the switch reduces it, so that it has state of it.
    pub(super) fn uses(&self, switch: SwitchId) -> bool {
        let mut switches = self.planned.switches.iter();
        switches.any(|planned| planned.switch == switch)
    }

    /// Returns the name of a mapper, of a switch, or of the reducer.
    pub(super) fn who(&self, topology: &Topology, flow: Option<u16>) -> String {
        let request = &self.planned.request;
        let host = |host: HostId| &topology.hosts[host.0].name;
        let Some(flow) = flow else {
            return format!("reducer {} on {}", request.name, host(request.reducer));
        };
        let index = usize::from(flow);
        match (self.sources.get(index), request.mappers.get(index)) {
            (Some(source), Some((at, _))) => format!("{} on {}", source.who, host(*at)),
            _ => {
                let mut switches = self.planned.switches.iter();
                let found = switches.find(|planned| planned.place.flow == flow);
                found.map_or(format!("flow {flow}"), |planned| {
                    format!("switch {}", topology.switches[planned.switch.0].name)
                })
            }
        }
    }

    /// Returns the name of the first mapper, or of the reducer, on a host.
    pub(super) fn role_on(&self, topology: &Topology, host: HostId) -> String {
        let mut mappers = self.planned.request.mappers.iter();
        let flow = match self.planned.request.reducer == host {
            true => None,
            false => mappers.position(|(at, _)| *at == host),
        };
        self.who(topology, flow.map(|flow| flow as u16))
    }

    /// Returns a failure with names in place of numbers.
    pub(super) fn explain(&self, topology: &Topology, failure: ReductionError) -> String {
        match failure {
            ReductionError::MapperSilent { flow } | ReductionError::SwitchSilent { flow } => {
                format!("{} does not answer", self.who(topology, Some(flow)))
            }
            ReductionError::Lengths {
                flow,
                expected,
                found,
            } => format!(
                "{} has a vector of {found} values, but {} one of {expected}; give all vectors one \
                 length",
                self.who(topology, Some(flow)),
                self.who(topology, Some(0))
            ),
            ReductionError::Operations {
                flow,
                expected,
                found,
            } => format!(
                "{} wants {found}, but {} {expected}; give all vectors one operation",
                self.who(topology, Some(flow)),
                self.who(topology, Some(0))
            ),
            other @ ReductionError::Unbalanced { .. } => other.to_string(),
        }
    }
}

/// Returns the order for a mapper.
pub(super) fn map_order(reduction: &Reduction, flow: usize) -> MapOrder {
    MapOrder {
        flows: reduction.planned.flow_config(reduction.at.attempt),
        flow: flow as u16,
        source: reduction.sources[flow].from.clone(),
        reducer: reduction.planned.destination(flow),
    }
}

/// Returns the order for a reducer.
pub(super) fn reduce_order(
    (reduction, origin): (&Reduction, &Origin),
    topology: &Topology,
    options: &RunOptions,
) -> ReduceOrder {
    let planned = &reduction.planned;
    let RunOptions {
        open_epochs,
        patience,
        ..
    } = *options;
    let mappers = planned.request.mappers.iter();
    let mappers = mappers.map(|(host, _)| topology.hosts[host.0].address);
    let switches = planned.switches.iter();
    let switches = switches.map(|it| switch_address(it.switch));
    let addresses: Vec<Ipv4Addr> = mappers.chain(switches).collect();
    let config = planned.reducer_config(reduction.at.attempt, open_epochs, patience);
    match origin {
        Origin::Client => ReduceOrder::new(config, addresses),
        Origin::Collect(collector) => ReduceOrder {
            result: collector.map_or(ResultTo::Master, |EngineId { number, .. }| {
                ResultTo::Engine { engine: number }
            }),
            ..ReduceOrder::new(config, addresses)
        },
        Origin::Group(group) => {
            let config = ReducerConfig {
                patience: GROUP_PATIENCE,
                waiting: group.waiting(),
                ..config
            };
            ReduceOrder {
                result: ResultTo::Ranks,
                ..ReduceOrder::new(config, addresses)
            }
        }
    }
}
