//! A packet's path: its hops from source to sink, what is missing of them, and path latency.

use packet::Nanos;
use support::rng;

use crate::flow::{FlowKey, IntDomain, PacketInt};
use crate::hop::{Hop, HopTime, IntNodeId};
use crate::int::{IntContents, IntError, IntStack};
use crate::metadata::ResidencePlaces;
use crate::report::{Exporter, IndividualReport, LocalMetadata, MainContents};

/// Position of the sink's own hop (Report 2.0, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinkHop {
    /// The newest entry of the stack.
    InStack,
    /// The report's main contents.
    InReport,
    /// Both: the values are merged into one hop.
    InBoth,
    /// Neither: the exporter added no values, or sends them in a second report.
    Absent,
}

/// Parts of a path that are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gaps {
    /// The report ends in the stack: the first hops are missing.
    pub cut: bool,
    /// E bit: the last hops are missing.
    pub hops_exceeded: bool,
    /// M bit: some hop is missing.
    pub mtu_exceeded: bool,
    /// I bit: a transit node sent the report: the hops after it are missing.
    pub intermediate: bool,
}

impl Gaps {
    /// Returns whether nothing is missing.
    pub const fn is_complete(self) -> bool {
        !(self.cut || self.hops_exceeded || self.mtu_exceeded || self.intermediate)
    }
}

/// Reason why a path has no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoSample {
    /// Hops are missing.
    Incomplete(Gaps),
    /// The path has no hop.
    NoHops,
    /// A hop has neither a hop latency nor both of its times.
    UnknownLatency,
    /// The first or the last hop has not the time that is compared.
    UnknownTime,
    /// The last time is before the first one, or their widths differ: the clocks are not equal.
    Clocks,
}

/// Promise that the clocks of a network's nodes are equal, up to an error that the monitor
/// accepts. Only an operator can give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EqualClocks;

/// Path of one packet, from a report with an embedded stack.
#[derive(Clone, Copy, Debug)]
pub struct ReportedPath<'a> {
    stack: IntStack<'a>,
    /// The exporter's own values, if the report has any.
    local: Option<LocalMetadata<'a>>,
    position: SinkHop,
    gaps: Gaps,
}

/// Scope of a report: the hops that it is about.
#[derive(Clone, Copy, Debug)]
pub enum ReportedHops<'a> {
    /// All hops of the packet's path up to the exporter (INT-MD).
    Path(ReportedPath<'a>),
    /// The exporter's hop alone (INT-MX, INT-XD, drops, queues, or a sink's second report). It is
    /// no sample of a path.
    Hop(Hop),
    /// No values.
    None,
}

/// Individual report with its packet read: flow and hops.
#[derive(Clone, Copy, Debug)]
pub struct ReportView<'a> {
    /// Flow of the packet.
    pub flow: Option<FlowKey>,
    /// Hops.
    pub hops: ReportedHops<'a>,
    /// Error of the packet's INT headers. They are then not used.
    pub int_error: Option<IntError>,
}

impl<'a> ReportView<'a> {
    /// Reads the packet of an individual report.
    #[inline]
    pub fn new(
        exporter: Exporter,
        report: &IndividualReport<'a>,
        domain: &IntDomain,
    ) -> ReportView<'a> {
        let packet = report.packet(domain);
        let (int, int_error) = match packet.map(|packet| packet.int) {
            Some(PacketInt::Present(int)) => (Some(int.contents), None),
            Some(PacketInt::Malformed(error)) => (None, Some(error)),
            Some(PacketInt::Absent) | None => (None, None),
        };
        let hops = if let Some(IntContents::Md(stack)) = int {
            let local = match report.main {
                MainContents::Metadata(local) => Some(local),
                _ => None,
            };
            let intermediate = report.associations.intermediate;
            ReportedHops::Path(ReportedPath::new(stack, exporter.node, local, intermediate))
        } else {
            match report.local_hop() {
                Some(local) => ReportedHops::Hop(local),
                None => ReportedHops::None,
            }
        };
        ReportView {
            flow: packet.and_then(|packet| packet.flow),
            hops,
            int_error,
        }
    }
}

impl<'a> ReportedPath<'a> {
    /// Joins a stack with the exporter's own values. The exporter's hop is in the stack if the
    /// newest entry has the exporter's node ID or, where entries have no node ID, the ingress time
    /// of the exporter's values.
    #[inline]
    pub fn new(
        stack: IntStack<'a>,
        exporter: Option<IntNodeId>,
        local: Option<LocalMetadata<'a>>,
        intermediate: bool,
    ) -> ReportedPath<'a> {
        let local = local.filter(LocalMetadata::has_values);
        let is_in_stack =
            stack
                .entries()
                .next()
                .is_some_and(|newest| match (newest.node(), exporter) {
                    (Some(node), Some(exporter)) => node == exporter,
                    _ => {
                        let time = local.and_then(|local| local.read().0.ingress_time);
                        time.is_some() && time == newest.hop().ingress_time
                    }
                });
        let position = match (is_in_stack, local) {
            (true, None) => SinkHop::InStack,
            (true, Some(_)) => SinkHop::InBoth,
            (false, Some(_)) => SinkHop::InReport,
            (false, None) => SinkHop::Absent,
        };
        ReportedPath {
            stack,
            local,
            position,
            gaps: Gaps {
                cut: stack.is_cut(),
                hops_exceeded: stack.hops_exceeded,
                mtu_exceeded: stack.mtu_exceeded,
                intermediate,
            },
        }
    }

    /// Returns the stack.
    pub fn stack(&self) -> &IntStack<'a> {
        &self.stack
    }

    /// Returns the missing parts.
    pub fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Returns the position of the sink's own hop in the report.
    pub fn sink_hop(&self) -> SinkHop {
        self.position
    }

    /// Returns the hops that the report has, from the source to the sink. The sink's own hop is
    /// once among them.
    #[inline]
    pub fn hops(&self) -> impl Iterator<Item = Hop> + use<'a> {
        let replaced = usize::from(self.position == SinkHop::InBoth);
        let entries = self.stack.hops().skip(replaced).rev();
        entries.chain(self.own_hop())
    }

    /// The sink's hop, unless the stack alone has it.
    fn own_hop(&self) -> Option<Hop> {
        let own = self.local?.read().0;
        Some(match self.position {
            SinkHop::InBoth => self.stack.hops().next().unwrap_or_default().or(own),
            _ => own,
        })
    }

    /// Returns the sum of the times in all nodes, the sink's included. Links are not in it, and no
    /// clock is compared with another.
    ///
    /// # Errors
    ///
    /// Paths that lack a hop, or the time in one.
    #[inline]
    pub fn summed_hop_latency(&self) -> Result<Nanos, NoSample> {
        let (sum, count) = self.sum_entries(usize::from(self.position == SinkHop::InBoth))?;
        let own = match (self.position, &self.local) {
            (SinkHop::InReport, Some(local)) => Some(local.residence()),
            (SinkHop::InBoth, _) => self.own_hop().map(|hop| hop.residence()),
            _ => None,
        };
        match own {
            Some(residence) => Ok(sum + residence.ok_or(NoSample::UnknownLatency)?),
            None if count == 0 => Err(NoSample::NoHops),
            None => Ok(sum),
        }
    }

    /// Returns the sum of the times in the nodes of the stack alone: without the sink's, where it
    /// reports its own values in the main contents and cannot know its latency yet.
    ///
    /// # Errors
    ///
    /// Paths that lack a hop, or the time in one of the stack.
    #[inline]
    pub fn summed_stack_latency(&self) -> Result<Nanos, NoSample> {
        match self.sum_entries(0)? {
            (_, 0) => Err(NoSample::NoHops),
            (sum, _) => Ok(sum),
        }
    }

    /// The sum of the times of the stack's entries after the newest `skipped`, and their number.
    #[inline]
    fn sum_entries(&self, skipped: usize) -> Result<(Nanos, usize), NoSample> {
        self.complete()?;
        let places = ResidencePlaces::new(self.stack.layout(), self.stack.instructions);
        let mut sum = Nanos::ZERO;
        let mut count = 0;
        for values in self.stack.values().skip(skipped) {
            sum += places.read(values).ok_or(NoSample::UnknownLatency)?;
            count += 1;
        }
        Ok((sum, count))
    }

    /// Returns the span from the first hop's ingress to the last hop's egress, links between
    /// included. It is valid only where the nodes' clocks are equal.
    ///
    /// # Errors
    ///
    /// Paths that lack a hop or one of the two times, and times that run backwards.
    #[inline]
    pub fn first_ingress_to_last_egress(&self, clocks: EqualClocks) -> Result<Nanos, NoSample> {
        self.span(clocks, |last| last.egress_time)
    }

    /// Returns the span from the first hop's ingress to the last hop's ingress: all links between
    /// the nodes, and all nodes but the last. It is valid only where the nodes' clocks are equal.
    ///
    /// # Errors
    ///
    /// Paths that lack a hop or one of the two times, and times that run backwards.
    #[inline]
    pub fn first_to_last_ingress(&self, clocks: EqualClocks) -> Result<Nanos, NoSample> {
        self.span(clocks, |last| last.ingress_time)
    }

    #[inline]
    fn span(
        &self,
        _clocks: EqualClocks,
        end: impl Fn(&Hop) -> Option<HopTime>,
    ) -> Result<Nanos, NoSample> {
        self.complete()?;
        let mut hops = self.hops();
        let first = hops.next().ok_or(NoSample::NoHops)?;
        let last = hops.last().unwrap_or(first);
        let start = first.ingress_time.ok_or(NoSample::UnknownTime)?;
        let end = end(&last).ok_or(NoSample::UnknownTime)?;
        end.since(start).ok_or(NoSample::Clocks)
    }

    fn complete(&self) -> Result<(), NoSample> {
        if self.gaps.is_complete() {
            Ok(())
        } else {
            Err(NoSample::Incomplete(self.gaps))
        }
    }

    /// Returns a seeded hash of the path's node IDs in their order. Paths of unequal hash are
    /// unequal. `None` if a hop has no node ID, or if hops are missing.
    #[inline]
    pub fn path_hash(&self, seed: u64) -> Option<u64> {
        self.complete().ok()?;
        // Each step hides the one before, so a product is enough; the last step mixes.
        let hash = self.nodes().try_fold(rng::mix(seed), |hash, node| {
            Some(rng::folded_product(
                hash.wrapping_add(rng::INCREMENT) ^ u64::from(node?.0),
                rng::INCREMENT,
            ))
        });
        hash.map(rng::mix)
    }

    /// The nodes of [`ReportedPath::hops`], without their other values.
    #[inline]
    fn nodes(&self) -> impl Iterator<Item = Option<IntNodeId>> + use<'a> {
        let is_in_both = self.position == SinkHop::InBoth;
        let instructions = self.stack.instructions;
        let mut entries = self.stack.values();
        // Newest entries come first.
        let merged = is_in_both.then(|| entries.next()).flatten();
        let own = self.local.map(|local| {
            let in_stack = merged.and_then(|values| instructions.node_of(values));
            in_stack.or(local.node)
        });
        let nodes = entries.rev();
        nodes
            .map(move |values| instructions.node_of(values))
            .chain(own)
    }

    /// Returns the first node that the path visits a second time.
    pub fn revisited(&self) -> Option<IntNodeId> {
        let hops = self.hops().enumerate();
        let mut nodes = hops.filter_map(|(index, hop)| Some((index, hop.node?)));
        nodes
            .find(|(index, node)| self.hops().take(*index).any(|hop| hop.node == Some(*node)))
            .map(|(_, node)| node)
    }
}
