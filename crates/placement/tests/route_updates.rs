//! Random route updates, windows and moves: after each single move, each address finds the right
//! prefix in the switch or flies.

use std::collections::BTreeMap;

use placement::{
    Count, ItemId, Move, Nesting, PlacementOptions, Policy, Prefix, RoutePlacement, RouteWindow,
};
use support::rng::Rng;

/// Content of the switch under a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    /// The entry, with the version of its route.
    Entry(u64),
    Cover,
}

/// Naive tables of the servers and the switch: maps that are searched as a whole.
struct Model {
    placement: RoutePlacement<u32>,
    options: PlacementOptions,
    nesting: Nesting,
    /// Routes of the servers: item and version. A changed route has another version.
    servers: BTreeMap<Prefix<u32>, (ItemId, u64)>,
    switch: BTreeMap<Prefix<u32>, Held>,
    prefixes: BTreeMap<ItemId, Prefix<u32>>,
    capacity: u64,
    rng: Rng,
    version: u64,
    /// Packets that found their entry in the switch.
    hits: u64,
}

fn longest<V: Copy>(table: &BTreeMap<Prefix<u32>, V>, address: u32) -> Option<V> {
    let matching = table.iter().filter(|(prefix, _)| prefix.matches(address));
    let longest = matching.max_by_key(|(prefix, _)| prefix.len());
    longest.map(|(_, value)| *value)
}

impl Model {
    fn new(nesting: Nesting, capacity: u64, reserve: u64, seed: u64) -> Model {
        let options = PlacementOptions {
            policy: Policy::Heap,
            top: capacity,
            reserve,
            ..PlacementOptions::default()
        };
        Model {
            placement: RoutePlacement::new(options, nesting).unwrap(),
            options,
            nesting,
            servers: BTreeMap::new(),
            switch: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            capacity,
            rng: Rng::new(seed),
            version: 0,
            hits: 0,
        }
    }

    /// Draws an address in a small space, in which prefixes nest.
    fn address(&mut self) -> u32 {
        (self.rng.below(1 << 8) as u32) << 24
    }

    fn prefix(&mut self) -> Prefix<u32> {
        let len = self.rng.below(9) as u8;
        Prefix::new(self.address(), len)
    }

    /// Compares the answers of the switch with those of the servers.
    fn check_packets(&mut self, count: usize) {
        for _ in 0..count {
            let address = self.address();
            let Some(Held::Entry(version)) = longest(&self.switch, address) else {
                continue;
            };
            let right = longest(&self.servers, address).map(|(_, version)| version);
            assert_eq!(Some(version), right, "{:?}, {address:#x}", self.nesting);
            self.hits += 1;
        }
    }

    fn apply(&mut self, moves: &[Move]) {
        for &change in moves {
            let (Move::Install(item) | Move::Cover(item) | Move::Evict(item)) = change;
            let prefix = self.prefixes[&item];
            match change {
                Move::Install(_) => {
                    let version = self.servers[&prefix].1;
                    self.switch.insert(prefix, Held::Entry(version));
                }
                Move::Cover(_) => {
                    assert_eq!(self.nesting, Nesting::Cover);
                    self.switch.insert(prefix, Held::Cover);
                }
                Move::Evict(_) => assert!(self.switch.remove(&prefix).is_some()),
            }
            assert!(self.switch.len() as u64 <= self.capacity);
            self.check_packets(4);
        }
        let held = self.switch.iter().map(|(prefix, held)| (*prefix, *held));
        let is_entry = |held: &(Prefix<u32>, Held)| matches!(held.1, Held::Entry(_));
        assert_eq!(
            held.filter(is_entry).count(),
            self.placement.items().count()
        );
        assert_eq!(self.switch.len() as u64, self.placement.used());
    }

    fn insert(&mut self) {
        let prefix = self.prefix();
        let inserted = self.placement.insert(prefix);
        assert_eq!(inserted.is_new, !self.servers.contains_key(&prefix));
        if inserted.is_new {
            self.prefixes.insert(inserted.item, prefix);
            self.apply(&inserted.moves);
            self.check_packets(8);
            self.version += 1;
            self.servers.insert(prefix, (inserted.item, self.version));
            self.check_packets(8);
        }
    }

    fn drawn(&mut self) -> Option<(Prefix<u32>, ItemId)> {
        let at = self.rng.index(self.servers.len());
        let route = self.servers.iter().nth(at)?;
        Some((*route.0, route.1.0))
    }

    fn delete(&mut self) {
        let Some((prefix, item)) = self.drawn() else {
            return;
        };
        let moves = self.placement.begin_change(item);
        self.apply(&moves);
        if self.rng.one_in(4) {
            self.window();
        }
        self.servers.remove(&prefix);
        self.check_packets(8);
        let moves = self.placement.delete(item);
        self.apply(&moves);
        self.prefixes.remove(&item);
    }

    fn change(&mut self) {
        let Some((prefix, item)) = self.drawn() else {
            return;
        };
        let moves = self.placement.begin_change(item);
        self.apply(&moves);
        if self.rng.one_in(4) {
            self.window();
        }
        if self.rng.one_in(4) {
            self.insert();
        }
        self.version += 1;
        self.servers.insert(prefix, (item, self.version));
        self.check_packets(8);
        let moves = self.placement.end_change(item);
        self.apply(&moves);
    }

    fn window(&mut self) {
        let mut reports = Vec::new();
        for _ in 0..self.rng.below(30) {
            reports.push((self.address(), self.rng.below(100)));
        }
        let held: Vec<ItemId> = self.placement.items().collect();
        let hits = held.into_iter().map(|item| Count {
            item,
            packets: self.rng.below(100),
        });
        let hits: Vec<Count> = hits.collect();
        let decision = self.placement.end_window(&RouteWindow {
            packets: 1000,
            flows: 256,
            reports: &reports,
            hits: &hits,
        });
        self.apply(&decision.moves);
    }

    /// Sets another policy or capacity.
    fn reconfigure(&mut self) {
        self.options.policy = *self.rng.pick(&Policy::ALL).unwrap_or(&Policy::Heap);
        self.options.top = self.rng.between(1, self.capacity);
        self.placement.set_options(self.options).unwrap();
        self.window();
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0..4 => self.insert(),
            4..7 => self.delete(),
            7..9 => self.change(),
            _ if self.rng.one_in(20) => self.reconfigure(),
            _ => self.window(),
        }
        self.check_packets(4);
    }
}

/// Runs 10,000 random steps with switches of several sizes.
fn check(nesting: Nesting) {
    for (seed, (capacity, reserve)) in (1..).zip([(1, 0), (4, 1), (12, 0), (12, 4), (200, 20)]) {
        let mut model = Model::new(nesting, capacity, reserve, seed);
        for _ in 0..2_000 {
            model.step();
        }
        assert!(
            model.hits > 100,
            "{nesting:?} {capacity}: {} hits",
            model.hits
        );
    }
}

#[test]
fn leaf_prefixes_are_right_beside_route_updates() {
    check(Nesting::Leaf);
}

#[test]
fn dependent_sets_are_right_beside_route_updates() {
    check(Nesting::Dependents);
}

#[test]
fn cover_sets_are_right_beside_route_updates() {
    check(Nesting::Cover);
}
