//! Placement of entries with exact keys: each flow has an entry of its own.

use std::cmp::Reverse;

use support::rng::Rng;

use crate::held::{HeldItem, HeldItems};
use crate::select::{Candidate, Independent, select};
use crate::threshold::ReportThreshold;
use crate::{Count, Decision, ItemId, Move, OptionsError, PlacementOptions, Plane, Policy};

/// Counts of one window.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowWindow<'a> {
    /// Packets that arrived, in the switch and at servers.
    pub packets: u64,
    /// Flows that servers know.
    pub flows: u64,
    /// Flows that the switch reported, with their packets in the window or an estimate of them.
    /// For the policies `heap` and `random` these are all flows that were counted.
    pub reports: &'a [Count],
    /// Packets of entries in the switch, by their counters.
    pub hits: &'a [Count],
}

/// Placement of entries with exact keys in one switch, window by window.
#[derive(Clone, Debug)]
pub struct FlowPlacement {
    options: PlacementOptions,
    plane: Plane,
    /// Sizes of entries; those beyond the end have size 1.
    sizes: Vec<u32>,
    held: HeldItems,
    /// Sum of the sizes of items in the switch.
    used: u64,
    reports: ReportThreshold,
    rng: Rng,
}

impl FlowPlacement {
    /// Creates the placement of an empty switch. Moves cost nothing.
    ///
    /// # Errors
    /// An option is outside of its range.
    pub fn new(options: PlacementOptions) -> Result<FlowPlacement, OptionsError> {
        options.check()?;
        Ok(FlowPlacement {
            options,
            plane: Plane::new(options.top),
            sizes: Vec::new(),
            held: HeldItems::default(),
            used: 0,
            reports: ReportThreshold::new(&options, 1.0),
            rng: Rng::new(options.seed),
        })
    }

    /// Sets policy and parameters, and the capacity to `top`. The next window follows them, and the
    /// threshold begins again.
    ///
    /// # Errors
    /// An option is outside of its range; then nothing changes.
    pub fn set_options(&mut self, options: PlacementOptions) -> Result<(), OptionsError> {
        options.check()?;
        self.options = options;
        self.plane.capacity = options.top;
        self.reports = ReportThreshold::new(&options, 1.0);
        Ok(())
    }

    /// Sets capacity and costs of the switch. The next window follows them.
    pub fn set_plane(&mut self, plane: Plane) {
        self.plane = plane;
    }

    /// Sets the size of an item that is not in the switch. Other items have size 1.
    pub fn set_size(&mut self, item: ItemId, size: u32) {
        if self.held.contains(item) {
            return;
        }
        if self.sizes.len() <= item.index() {
            self.sizes.resize(item.index() + 1, 1);
        }
        self.sizes[item.index()] = size;
    }

    fn size(&self, item: ItemId) -> u64 {
        u64::from(self.sizes.get(item.index()).copied().unwrap_or(1))
    }

    /// Returns the threshold of the running window: flows with more packets are reported.
    pub fn threshold(&self) -> u64 {
        self.reports.threshold()
    }

    /// Returns true if the entry is in the switch.
    pub fn holds(&self, item: ItemId) -> bool {
        self.held.contains(item)
    }

    /// Returns the items in the switch, in no particular order.
    pub fn items(&self) -> impl Iterator<Item = ItemId> {
        self.held.items().iter().map(|held| held.item)
    }

    /// Returns the move that comes before servers change or delete an entry: the switch then lets
    /// its packets fly. A later window may install the changed entry.
    pub fn change(&mut self, item: ItemId) -> Option<Move> {
        self.forget(item).then_some(Move::Evict(item))
    }

    /// Notes that the switch does not have an entry, for example because it refused it. Returns
    /// false if that is known.
    pub fn forget(&mut self, item: ItemId) -> bool {
        let was_held = self.held.remove(item);
        if was_held {
            self.used -= self.size(item);
        }
        was_held
    }

    fn hold(&mut self, item: ItemId, score: f64) {
        self.held.insert(item, score);
        self.used += self.size(item);
    }

    /// Ends a window and decides the moves before the next one.
    pub fn end_window(&mut self, window: &FlowWindow) -> Decision {
        self.held.end_window(window.hits);
        let policy = self.options.policy;
        let mut moves = Vec::new();
        let age = self.options.age;
        self.evict(|held| held.idle >= age, &mut moves);
        // A flow may be reported before its entry works, and twice.
        let is_new = |count: &&Count| !self.held.contains(count.item);
        let mut newcomers: Vec<Count> = window.reports.iter().filter(is_new).copied().collect();
        newcomers.sort_unstable_by_key(|count| (count.item, Reverse(count.packets)));
        newcomers.dedup_by_key(|count| count.item);
        let is_above = |held: &&HeldItem| held.hits > self.reports.threshold();
        let above = self.held.items().iter().filter(is_above).count() + newcomers.len();
        match policy {
            Policy::None => self.evict(|_| true, &mut moves),
            Policy::Random => self.install_random(newcomers, &mut moves),
            Policy::Heap | Policy::Threshold => self.install_top(&newcomers, &mut moves),
        }
        let candidates = above as u64;
        let (packets, flows) = (window.packets, window.flows);
        let warning = self.reports.end_window(candidates, packets, flows);
        Decision {
            moves,
            threshold: self.reports.threshold(),
            k: self.reports.k(),
            candidates,
            warning,
        }
    }

    /// Evicts the entries for which `is_victim` holds.
    fn evict(&mut self, is_victim: impl Fn(&HeldItem) -> bool, moves: &mut Vec<Move>) {
        let victims = self.held.items().iter().filter(|held| is_victim(held));
        let mut victims: Vec<ItemId> = victims.map(|held| held.item).collect();
        victims.sort_unstable();
        for item in victims {
            self.forget(item);
            moves.push(Move::Evict(item));
        }
    }

    /// Fills the switch with random newcomers. No entry is a victim.
    fn install_random(&mut self, mut newcomers: Vec<Count>, moves: &mut Vec<Move>) {
        while self.used < self.plane.capacity && !newcomers.is_empty() {
            let count = newcomers.swap_remove(self.rng.index(newcomers.len()));
            if self.used + self.size(count.item) <= self.plane.capacity {
                self.hold(count.item, count.packets as f64);
                moves.push(Move::Install(count.item));
            }
        }
    }

    /// Installs newcomers of more weight than their victims, by margin and costs.
    fn install_top(&mut self, newcomers: &[Count], moves: &mut Vec<Move>) {
        let weight = |packets, is_held| self.plane.weight(packets, is_held, self.options.margin);
        let held = self.held.items().iter().map(|held| Candidate {
            item: held.item,
            weight: weight(held.score, true),
        });
        let newcomers = newcomers.iter().map(|count| Candidate {
            item: count.item,
            weight: weight(count.packets as f64, false),
        });
        let worth = newcomers.filter(|candidate| candidate.weight > 0.0);
        let mut candidates: Vec<Candidate> = held.chain(worth).collect();
        let mut sizes = Independent(|item| self.size(item));
        let selected = select(&mut candidates, self.plane.capacity, &mut sizes);
        let mut kept = selected.clone();
        kept.sort_unstable();
        self.evict(|held| kept.binary_search(&held.item).is_err(), moves);
        for item in selected {
            if self.held.contains(item) {
                continue;
            }
            let at = candidates.binary_search_by_key(&item, |candidate| candidate.item);
            let score = at.map_or(0.0, |at| candidates[at].weight);
            self.hold(item, score + self.plane.install_cost as f64);
            moves.push(Move::Install(item));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(u32, u64)]) -> Vec<Count> {
        let count = |&(item, packets)| Count {
            item: ItemId(item),
            packets,
        };
        all.iter().map(count).collect()
    }

    fn placement(policy: Policy, top: u64) -> FlowPlacement {
        let options = PlacementOptions {
            policy,
            top,
            margin: 0.25,
            age: 3,
            ..PlacementOptions::default()
        };
        FlowPlacement::new(options).unwrap()
    }

    /// Ends a window with these reports and hits, and returns its moves.
    fn moves(
        placement: &mut FlowPlacement,
        reports: &[(u32, u64)],
        hits: &[(u32, u64)],
    ) -> Vec<Move> {
        let (reports, hits) = (counts(reports), counts(hits));
        let window = FlowWindow {
            packets: 1000,
            flows: 100,
            reports: &reports,
            hits: &hits,
        };
        placement.end_window(&window).moves
    }

    use Move::{Evict, Install};

    #[test]
    fn the_top_entries_are_installed() {
        let mut placement = placement(Policy::Heap, 2);
        let all = [(0, 5), (1, 50), (2, 7), (3, 60)];
        let expected = [Install(ItemId(3)), Install(ItemId(1))];
        assert_eq!(moves(&mut placement, &all, &[]), expected);
    }

    #[test]
    fn a_newcomer_beats_the_coldest_entry_by_a_margin() {
        let mut placement = placement(Policy::Heap, 2);
        moves(&mut placement, &[(0, 100), (1, 200)], &[]);
        let hits = [(0, 100), (1, 200)];
        assert_eq!(moves(&mut placement, &[(2, 125)], &hits), []);
        let expected = [Evict(ItemId(0)), Install(ItemId(2))];
        assert_eq!(moves(&mut placement, &[(2, 126)], &hits), expected);
    }

    #[test]
    fn costs_of_moves_count_as_packets() {
        let mut placement = placement(Policy::Heap, 1);
        placement.set_plane(Plane {
            capacity: 1,
            install_cost: 10,
            evict_cost: 20,
        });
        assert_eq!(moves(&mut placement, &[(0, 10)], &[]), []);
        assert_eq!(
            moves(&mut placement, &[(0, 100)], &[]),
            [Install(ItemId(0))]
        );
        assert_eq!(moves(&mut placement, &[(1, 155)], &[(0, 100)]), []);
        let expected = [Evict(ItemId(0)), Install(ItemId(1))];
        assert_eq!(moves(&mut placement, &[(1, 156)], &[(0, 100)]), expected);
    }

    #[test]
    fn an_entry_without_packets_leaves_after_its_age() {
        let mut placement = placement(Policy::Heap, 2);
        moves(&mut placement, &[(0, 100)], &[]);
        assert_eq!(moves(&mut placement, &[], &[]), []);
        assert_eq!(moves(&mut placement, &[], &[]), []);
        assert_eq!(moves(&mut placement, &[], &[]), [Evict(ItemId(0))]);
        assert!(!placement.holds(ItemId(0)));
    }

    #[test]
    fn a_smaller_capacity_evicts_the_coldest() {
        let mut placement = placement(Policy::Heap, 3);
        moves(&mut placement, &[(0, 30), (1, 20), (2, 10)], &[]);
        placement.set_plane(Plane::new(1));
        let hits = [(0, 30), (1, 20), (2, 10)];
        let expected = [Evict(ItemId(1)), Evict(ItemId(2))];
        assert_eq!(moves(&mut placement, &[], &hits), expected);
    }

    #[test]
    fn sizes_count_against_the_capacity() {
        let mut placement = placement(Policy::Heap, 4);
        placement.set_size(ItemId(0), 4);
        let all = [(0, 100), (1, 40), (2, 30), (3, 20)];
        let expected = [1, 2, 3].map(|item| Install(ItemId(item)));
        assert_eq!(moves(&mut placement, &all, &[]), expected);
    }

    #[test]
    fn random_entries_depend_on_the_seed_alone() {
        let installed = |seed| {
            let options = PlacementOptions {
                policy: Policy::Random,
                top: 5,
                seed,
                ..PlacementOptions::default()
            };
            let all: Vec<(u32, u64)> = (0..100).map(|item| (item, 1)).collect();
            moves(&mut FlowPlacement::new(options).unwrap(), &all, &[])
        };
        assert_eq!(installed(1), installed(1));
        assert_ne!(installed(1), installed(2));
        assert_eq!(installed(1).len(), 5);
    }

    #[test]
    fn without_a_policy_nothing_is_installed_and_all_entries_leave() {
        let mut placement = placement(Policy::Heap, 5);
        moves(&mut placement, &[(0, 100), (1, 100)], &[]);
        let none = PlacementOptions {
            policy: Policy::None,
            ..placement.options
        };
        placement.set_options(none).unwrap();
        let expected = [Evict(ItemId(0)), Evict(ItemId(1))];
        assert_eq!(moves(&mut placement, &[(2, 100)], &[]), expected);
        assert_eq!(moves(&mut placement, &[(2, 100)], &[]), []);
        let wrong = PlacementOptions { k: 0.0, ..none };
        assert!(placement.set_options(wrong).is_err());
    }

    #[test]
    fn the_threshold_follows_the_mean_of_the_window_before() {
        let mut placement = placement(Policy::Threshold, 1);
        assert_eq!(placement.threshold(), u64::MAX);
        moves(&mut placement, &[], &[]);
        assert_eq!(placement.threshold(), 20);
    }

    #[test]
    fn too_few_columns_are_a_warning() {
        let mut placement = placement(Policy::Threshold, 1);
        let mut warning = |flows| {
            let window = FlowWindow {
                flows,
                ..FlowWindow::default()
            };
            placement.end_window(&window).warning.map(|w| w.to_string())
        };
        assert_eq!(warning(1024), None);
        let text = "the sketch has 1024 columns for 10000 flows, so small flows look large and \
                    take the place of large ones: use at least 16384 columns";
        assert_eq!(warning(10_000).as_deref(), Some(text));
    }

    #[test]
    fn a_changed_entry_leaves_the_switch_first() {
        let mut placement = placement(Policy::Heap, 1);
        moves(&mut placement, &[(0, 100)], &[]);
        assert_eq!(placement.change(ItemId(0)), Some(Evict(ItemId(0))));
        assert_eq!(placement.change(ItemId(0)), None);
        assert_eq!(moves(&mut placement, &[(0, 50)], &[]), [Install(ItemId(0))]);
    }
}
