//! Simulation of a switch and servers, window by window: the share of packets that entries in the
//! switch forward, beside the share of the exact top N. Entries work at once.

#![allow(dead_code, reason = "each test file uses a part")]

use placement::{
    Count, Decision, FlowPlacement, FlowWindow, ItemId, Nesting, PlacementOptions, Policy, Prefix,
    PrefixTree, RoutePlacement, RouteWindow, Sketch, SketchSize,
};
use support::rng::{Rng, Weighted};

/// Windows before the measured ones.
pub(crate) const WARM_UP: usize = 10;

/// Windows that are measured.
pub(crate) const MEASURED: usize = 6;

/// Traffic and switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Flows, or prefixes.
    pub(crate) flows: usize,
    /// Exponent of Zipf's distribution.
    pub(crate) alpha: f64,
    pub(crate) policy: Policy,
    /// Entries in the switch at most.
    pub(crate) top: u64,
    /// Columns of the sketch of two rows.
    pub(crate) columns: u32,
    /// Packets in a window.
    pub(crate) packets: u64,
}

impl Setting {
    pub(crate) fn options(&self) -> PlacementOptions {
        PlacementOptions {
            policy: self.policy,
            top: self.top,
            k: 2.0 * self.alpha,
            sketch: SketchSize {
                columns: self.columns,
                rows: 2,
            },
            ..PlacementOptions::default()
        }
    }
}

/// Figures of the measured windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Share of packets in the switch, in percent.
    pub(crate) share: f64,
    /// Share of packets of the N most frequent flows by their probabilities, in percent.
    pub(crate) exact: f64,
    /// Mean number of reports that the switch sends in a window.
    pub(crate) reports: f64,
    /// Reports of the first window with a threshold.
    pub(crate) first_reports: u64,
    /// Minimum and maximum number of flows above the threshold: reported ones and entries.
    pub(crate) candidates: (u64, u64),
    /// Mean number of moves in a window.
    pub(crate) moves: f64,
    /// Factor of the threshold at the end.
    pub(crate) k: f64,
}

/// Flows with their probabilities, and the packets of one window.
struct Traffic {
    weights: Vec<f64>,
    choice: Weighted,
    rng: Rng,
}

impl Traffic {
    /// Creates traffic of flows in random order of their ranks.
    fn new(flows: usize, alpha: f64, seed: u64) -> Traffic {
        let mut rng = Rng::new(seed);
        let mut weights: Vec<f64> = (1..=flows).map(|rank| (rank as f64).powf(-alpha)).collect();
        for at in (1..flows).rev() {
            weights.swap(at, rng.index(at + 1));
        }
        Traffic {
            choice: Weighted::new(&weights),
            weights,
            rng,
        }
    }

    /// Returns the share of the most frequent flows.
    fn exact(&self, top: u64) -> f64 {
        let mut sorted = self.weights.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let all: f64 = sorted.iter().sum();
        sorted.iter().take(top as usize).sum::<f64>() / all * 100.0
    }
}

/// Flows of a window as a switch counts them.
struct Switch<'k> {
    keys: &'k [Vec<u8>],
    sketch: Sketch,
    is_held: Vec<bool>,
    counts: Vec<u64>,
    reported: Vec<usize>,
    is_reported: Vec<bool>,
}

impl<'k> Switch<'k> {
    fn new(keys: &'k [Vec<u8>], size: SketchSize) -> Switch<'k> {
        Switch {
            keys,
            sketch: Sketch::new(size),
            is_held: vec![false; keys.len()],
            counts: vec![0; keys.len()],
            reported: Vec::new(),
            is_reported: vec![false; keys.len()],
        }
    }

    /// Forwards the packets of a window, and returns how many the switch's entries matched.
    fn run(&mut self, traffic: &mut Traffic, setting: &Setting, threshold: u64) -> u64 {
        self.sketch.clear();
        self.counts.fill(0);
        self.reported.clear();
        self.is_reported.fill(false);
        let is_sketched = setting.policy == Policy::Threshold;
        let mut hits = 0;
        for _ in 0..setting.packets {
            let flow = traffic.choice.choose(&mut traffic.rng);
            self.counts[flow] += 1;
            if self.is_held[flow] {
                hits += 1;
            } else if is_sketched {
                let estimate = self.sketch.count(&self.keys[flow]);
                if u64::from(estimate) > threshold && !self.is_reported[flow] {
                    self.is_reported[flow] = true;
                    self.reported.push(flow);
                }
            }
        }
        if !is_sketched && setting.policy != Policy::None {
            let is_seen = |flow: &usize| self.counts[*flow] > 0;
            self.reported = (0..self.keys.len()).filter(is_seen).collect();
        }
        hits
    }

    /// Returns the packets of a reported flow, as the control side knows them.
    fn known(&self, flow: usize, policy: Policy) -> u64 {
        match policy {
            Policy::Threshold => u64::from(self.sketch.estimate(&self.keys[flow])),
            _ => self.counts[flow],
        }
    }
}

/// Collects the figures of windows.
struct Collected {
    window: usize,
    figures: Figures,
}

impl Collected {
    fn new(exact: f64) -> Collected {
        Collected {
            window: 0,
            figures: Figures {
                share: 0.0,
                exact,
                reports: 0.0,
                first_reports: 0,
                candidates: (u64::MAX, 0),
                moves: 0.0,
                k: 0.0,
            },
        }
    }

    fn add(&mut self, hits: u64, packets: u64, reports: usize, decision: &Decision) {
        let all = &mut self.figures;
        if self.window == 1 {
            all.first_reports = reports as u64;
        }
        if self.window >= WARM_UP {
            let part = 1.0 / MEASURED as f64;
            all.share += hits as f64 / packets as f64 * 100.0 * part;
            all.reports += reports as f64 * part;
            all.moves += decision.moves.len() as f64 * part;
            let (least, most) = all.candidates;
            let candidates = decision.candidates;
            all.candidates = (least.min(candidates), most.max(candidates));
            all.k = decision.k;
        }
        self.window += 1;
    }
}

/// Runs flows with exact keys.
pub(crate) fn flows(setting: &Setting) -> Figures {
    let mut traffic = Traffic::new(setting.flows, setting.alpha, 1);
    let mut rng = Rng::new(2);
    // Random five-tuples.
    let keys: Vec<Vec<u8>> = (0..setting.flows).map(|_| random_key(&mut rng)).collect();
    let options = setting.options();
    let mut placement = FlowPlacement::new(options).unwrap();
    let mut switch = Switch::new(&keys, options.sketch);
    let mut collected = Collected::new(traffic.exact(setting.top));
    for _ in 0..WARM_UP + MEASURED {
        let hits = switch.run(&mut traffic, setting, placement.threshold());
        let count = |item: ItemId, packets| Count { item, packets };
        let reported = switch.reported.iter().map(|&flow| {
            let packets = switch.known(flow, setting.policy);
            count(ItemId(flow as u32), packets)
        });
        let reports: Vec<Count> = reported.collect();
        let held = placement.items();
        let entries: Vec<Count> = held
            .map(|item| count(item, switch.counts[item.0 as usize]))
            .collect();
        let decision = placement.end_window(&FlowWindow {
            packets: setting.packets,
            flows: setting.flows as u64,
            reports: &reports,
            hits: &entries,
        });
        collected.add(hits, setting.packets, reports.len(), &decision);
        switch.is_held.fill(false);
        for item in placement.items() {
            switch.is_held[item.0 as usize] = true;
        }
    }
    collected.figures
}

fn random_key(rng: &mut Rng) -> Vec<u8> {
    let mut key = vec![0; 13];
    rng.fill(&mut key);
    key
}

/// IPv4 prefix lengths with their weights, as announced: 59.3 % are /24.
const LENGTHS: [(u8, u32); 12] = [
    (8, 2),
    (12, 3),
    (14, 13),
    (16, 142),
    (17, 87),
    (18, 143),
    (19, 280),
    (20, 480),
    (21, 560),
    (22, 1150),
    (23, 1050),
    (24, 5930),
];

/// Draws different prefixes. At least half of those that can are inside one drawn before, as on
/// the Internet.
fn nested_prefixes(count: usize, seed: u64) -> Vec<Prefix<u32>> {
    let mut rng = Rng::new(seed);
    let mut tree = PrefixTree::default();
    let mut all = vec![Prefix::new(0, 0)];
    tree.insert(all[0]);
    while all.len() < count {
        let len = rng.weighted(&LENGTHS, |&(_, weight)| weight);
        let len = len.map_or(24, |&(len, _)| len);
        let mut address = rng.bits() as u32;
        if rng.one_in(2) {
            let mut outers = (0..100).filter_map(|_| rng.pick(&all).copied());
            let outer = outers.find(|outer| outer.len() < len);
            let outer = outer.unwrap_or(all[0]);
            address = outer.address() | address.checked_shr(outer.len().into()).unwrap_or(0);
        }
        let prefix = Prefix::new(address, len);
        if tree.insert(prefix).1 {
            all.push(prefix);
        }
    }
    all
}

/// Runs flows to prefixes that nest: a flow for each prefix, to an address of which it is the
/// longest prefix.
pub(crate) fn routes(setting: &Setting, nesting: Nesting) -> Figures {
    let mut traffic = Traffic::new(setting.flows, setting.alpha, 1);
    let mut placement = RoutePlacement::new(setting.options(), nesting).unwrap();
    let prefixes = nested_prefixes(setting.flows, 3);
    let items: Vec<ItemId> = prefixes.iter().map(|p| placement.insert(*p).item).collect();
    let mut rng = Rng::new(4);
    // A prefix that longer ones cover has no address of its own: its flow goes to one of those.
    let addresses: Vec<u32> = (prefixes.iter().zip(&items))
        .map(|(prefix, item)| {
            let inside = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let draw = |rng: &mut Rng| prefix.address() | rng.bits() as u32 & inside;
            let is_own = |address: &u32| placement.tree().lookup(*address) == Some(*item);
            let own = (0..1000).map(|_| draw(&mut rng)).find(is_own);
            own.unwrap_or(prefix.address())
        })
        .collect();
    let lookup = |placement: &RoutePlacement<u32>, flow: usize| {
        let found = placement.tree().lookup(addresses[flow]);
        found.unwrap_or(items[flow])
    };
    let item_of: Vec<ItemId> = (0..setting.flows)
        .map(|flow| lookup(&placement, flow))
        .collect();
    let keys: Vec<Vec<u8>> = addresses.iter().map(|a| a.to_be_bytes().to_vec()).collect();
    let mut switch = Switch::new(&keys, setting.options().sketch);
    let mut collected = Collected::new(traffic.exact(setting.top));
    for _ in 0..WARM_UP + MEASURED {
        let hits = switch.run(&mut traffic, setting, placement.threshold());
        let reported = switch.reported.iter();
        let reports: Vec<(u32, u64)> = reported
            .map(|&flow| (addresses[flow], switch.known(flow, setting.policy)))
            .collect();
        let mut packets = vec![0; setting.flows];
        for (flow, item) in item_of.iter().enumerate() {
            packets[item.0 as usize] += switch.counts[flow];
        }
        let entries: Vec<Count> = placement
            .items()
            .map(|item| Count {
                item,
                packets: packets[item.0 as usize],
            })
            .collect();
        let decision = placement.end_window(&RouteWindow {
            packets: setting.packets,
            flows: setting.flows as u64,
            reports: &reports,
            hits: &entries,
        });
        assert!(placement.used() <= setting.top);
        collected.add(hits, setting.packets, reports.len(), &decision);
        for (flow, item) in item_of.iter().enumerate() {
            switch.is_held[flow] = placement.holds(*item);
        }
    }
    collected.figures
}
