//! Places of drops in a program: table and action of the last lookup of packets that were dropped.
//!
//! Programs run as native code, which notes no places. So while packets are dropped, a worker now
//! and then processes one packet step by step, and counts where it was dropped if it was.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exec::TraceEvent;
use ir::Program;
use packet::{Nanos, PortId};
use serde::Serialize;

use super::paths::{PacketPath, PathEnd};

/// Maximum number of places that are counted apart. Later ones have the table and action
/// [`OTHER`].
const MAX_SITES: usize = 64;

/// Table and action of places beyond the maximum.
const OTHER: &str = "other";

/// Interval of samples while packets are dropped, and packets that are sampled then.
const EVERY: Nanos = Nanos::from_millis(10);
const SAMPLES: u32 = 4;

/// Time of samples is followed by so much more time without.
const SHARE: u32 = 100;

/// Factor that spreads samples over a burst.
const SPREAD: usize = 7_919;

/// Number of sampled drops at a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampledDrops {
    /// Drop reason.
    pub reason: String,
    /// The table of the last lookup; empty if there was none.
    pub table: String,
    /// Its action; empty if there was none.
    pub action: String,
    /// Number of sampled packets.
    pub packets: u64,
}

/// Drop reason, table and action.
type Site = (&'static str, String, String);

/// Counts of sampled drops by place, shared by all workers.
#[derive(Default)]
pub(crate) struct DropSites(Mutex<BTreeMap<Site, u64>>);

impl DropSites {
    /// Counts the drops of a packet with these steps.
    fn count(&self, program: &Program, steps: &[TraceEvent]) {
        let path = PacketPath::new(PortId(0), steps);
        let last = path.lookups.last();
        let table = last.map(|lookup| program.tables[lookup.table].name.clone());
        let action = last.and_then(|lookup| lookup.action);
        let action = action.map(|action| program.actions[action].control_plane_name.clone());
        let (table, action) = (table.unwrap_or_default(), action.unwrap_or_default());
        for end in path.ends {
            if let PathEnd::Dropped(reason) = end {
                self.add((reason.name(), table.clone(), action.clone()));
            }
        }
    }

    fn add(&self, site: Site) {
        let mut sites = self.lock();
        let site = match sites.len() < MAX_SITES || sites.contains_key(&site) {
            true => site,
            false => (site.0, OTHER.to_owned(), OTHER.to_owned()),
        };
        *sites.entry(site).or_default() += 1;
    }

    /// Returns the counts.
    pub(crate) fn read(&self) -> Vec<SampledDrops> {
        let sites = self.lock();
        let one = |((reason, table, action), packets): (&Site, &u64)| SampledDrops {
            reason: (*reason).to_owned(),
            table: table.clone(),
            action: action.clone(),
            packets: *packets,
        };
        sites.iter().map(one).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Site, u64>> {
        // Each change leaves the counts as they should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's choice of the packets to sample.
#[derive(Default)]
pub(super) struct DropSampler {
    /// Number of drops at the last interval.
    dropped: u64,
    next: Nanos,
    /// Packets that are still sampled in this interval.
    left: u32,
    /// Number of all samples so far.
    sampled: usize,
}

impl DropSampler {
    /// Begins an interval if one is due. `dropped` returns the number of drops so far.
    #[inline]
    pub(super) fn look(&mut self, now: Nanos, dropped: impl FnOnce() -> u64) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let dropped = dropped();
        self.left = if dropped > self.dropped { SAMPLES } else { 0 };
        self.dropped = dropped;
    }

    /// Returns the index of the frame of a burst that is sampled, if one is.
    #[inline]
    pub(super) fn choose(&mut self, frames: usize) -> Option<usize> {
        if self.left == 0 || frames == 0 {
            return None;
        }
        self.left -= 1;
        self.sampled = self.sampled.wrapping_add(1);
        Some(self.sampled.wrapping_mul(SPREAD) % frames)
    }

    /// Notes the time that a sample took. Samples take at most about a hundredth of all time.
    pub(super) fn took(&mut self, time: Duration) {
        self.next += Nanos::from(time * SHARE);
    }

    /// Counts a sampled packet that was dropped.
    pub(super) fn count(&self, sites: &DropSites, program: &Program, steps: &[TraceEvent]) {
        sites.count(program, steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_all_drops_are_counted() {
        let sites = DropSites::default();
        let add = |n: usize| sites.add(("ingress_drop", format!("t{n}"), "drop".to_owned()));
        (0..MAX_SITES + 10).for_each(add);
        (0..MAX_SITES + 10).for_each(add);
        let counts = sites.read();
        assert_eq!(counts.len(), MAX_SITES + 1);
        let of = |table: &str| {
            counts
                .iter()
                .find(|site| site.table == table)
                .unwrap()
                .packets
        };
        assert_eq!((of("t0"), of(OTHER)), (2, 20));
    }

    #[test]
    fn packets_are_sampled_while_packets_are_dropped() {
        let mut sampler = DropSampler::default();
        let mut samples = |at: u64, dropped: u64| {
            sampler.look(Nanos::from_millis(at), || dropped);
            (0..10).filter(|_| sampler.choose(32).is_some()).count()
        };
        assert_eq!(samples(0, 0), 0);
        assert_eq!(samples(10, 1), SAMPLES as usize);
        assert_eq!(samples(15, 2), 0);
        assert_eq!(samples(20, 2), SAMPLES as usize);
        assert_eq!(samples(30, 2), 0);
        assert_eq!(sampler.choose(0), None);
        sampler.took(Duration::from_millis(1));
        sampler.look(Nanos::from_millis(100), || 3);
        assert_eq!(sampler.choose(32), None);
        sampler.look(Nanos::from_millis(140), || 4);
        assert!(sampler.choose(32).is_some());
    }
}
