//! Generates rules from a profile.

use super::profile::{Lengths, Ports, Profile, Zone};
use super::{FiveTuple, Kind, PortRange, Prefix, Spread};
use std::collections::{HashMap, HashSet};
use support::rng::Rng;

/// Maximum number of attempts to find enough different rules.
const ATTEMPTS: usize = 6;

pub(super) fn rules(kind: Kind, spread: Spread, count: usize, seed: u64) -> Vec<FiveTuple> {
    let profile = Profile::of(kind);
    let mut choices = Rng::new(seed ^ (kind as u64) << 56);
    let mut rules = Vec::new();
    let mut seen = HashSet::new();
    for _ in 0..ATTEMPTS {
        let wanted = count - rules.len();
        if wanted == 0 {
            break;
        }
        let drawn = draw(profile, spread, wanted + wanted / 8 + 8, &mut choices);
        rules.extend(drawn.into_iter().filter(|rule| seen.insert(*rule)));
        rules.truncate(count);
    }
    order(&mut rules, &mut choices);
    rules
}

/// Draws `count` rules, which may contain duplicates.
fn draw(profile: &Profile, spread: Spread, count: usize, choices: &mut Rng) -> Vec<FiveTuple> {
    let mut rules: Vec<FiveTuple> = (0..count).map(|_| application(profile, choices)).collect();
    let growth = count as f64 / profile.scale as f64;
    let tree = |zones| match spread {
        Spread::Scaled => scaled(levels(zones), growth),
        Spread::Copies => copied(levels(zones), growth),
    };
    let source = Tree {
        levels: tree(profile.source),
        nesting: profile.nesting,
        following: None,
    };
    source.assign(&mut rules, choices, |rule| &mut rule.source);
    let destination = Tree {
        levels: tree(profile.destination),
        nesting: profile.nesting,
        following: Some(profile.following),
    };
    destination.assign(&mut rules, choices, |rule| &mut rule.destination);
    rules
}

/// Draws a rule without addresses. Only their prefix lengths are set.
fn application(profile: &Profile, choices: &mut Rng) -> FiveTuple {
    let protocol = choices.weighted(profile.protocols, |protocol| protocol.weight);
    let ports = protocol.and_then(|protocol| choices.weighted(protocol.ports, |pair| pair.2));
    let (source_class, destination_class) =
        ports.map_or((Ports::Any, Ports::Any), |pair| (pair.0, pair.1));
    let is_free = |class| matches!(class, Ports::Any | Ports::High);
    let pairs = if is_free(source_class) && is_free(destination_class) {
        profile.lengths
    } else {
        profile.lengths_of_services
    };
    let (source, destination) = lengths(pairs, choices);
    FiveTuple {
        source: Prefix {
            address: 0,
            len: source,
        },
        destination: Prefix {
            address: 0,
            len: destination,
        },
        source_port: port_range(profile, source_class, choices),
        destination_port: port_range(profile, destination_class, choices),
        protocol: protocol.and_then(|protocol| protocol.number),
    }
}

fn lengths(pairs: &[Lengths], choices: &mut Rng) -> (u8, u8) {
    let Some(pair) = choices.weighted(pairs, |pair| pair.weight) else {
        return (0, 0);
    };
    let mut between = |(lo, hi): (u8, u8)| choices.between(lo.into(), hi.into()) as u8;
    (between(pair.source), between(pair.destination))
}

fn port_range(profile: &Profile, class: Ports, choices: &mut Rng) -> PortRange {
    let range = |lo, hi| PortRange { lo, hi };
    match class {
        Ports::Any => PortRange::ANY,
        Ports::High => range(1024, u16::MAX),
        Ports::Low => range(0, 1023),
        Ports::Range => {
            let which = choices.below(profile.ranges.len() as u64) as usize;
            let (lo, hi) = profile.ranges[which];
            range(lo, hi)
        }
        Ports::Exact => {
            // Two nested uniform draws: the first ports of the list are common, the last ones are
            // rare.
            let count = profile.ports.len() as u64;
            let below = choices.below(count) + 1;
            let port = profile.ports[choices.below(below) as usize];
            range(port, port)
        }
    }
}

/// Parameters of one level of an address tree.
#[derive(Clone, Copy)]
struct Level {
    /// Probability that a node has two children.
    branching: f64,
    /// Imbalance of the children: 0 means halves, 1 means all rules on one side.
    skew: f64,
}

fn levels(zones: &[Zone]) -> [Level; 32] {
    std::array::from_fn(|level| {
        let zone = zones.iter().rev().find(|zone| zone.from <= level as u32);
        zone.map_or(
            Level {
                branching: 0.0,
                skew: 0.0,
            },
            |zone| Level {
                branching: f64::from(zone.branching) / 1000.0,
                skew: f64::from(zone.skew) / 1000.0,
            },
        )
    })
}

/// Scales the trees for larger sets by balancing the upper levels until `growth` is used up.
/// Balancing a level uses up to 2 for a path without branches, and 0 for a level of halves.
fn scaled(mut levels: [Level; 32], growth: f64) -> [Level; 32] {
    let mut left = if growth > 1.0 { growth } else { 0.0 };
    for level in &mut levels {
        let share = 2.0 * (1.0 - level.branching + level.skew * level.branching);
        if share > left {
            let target = (share - left) / 2.0;
            if target <= level.skew {
                *level = Level {
                    branching: 1.0,
                    skew: target,
                };
            } else {
                level.branching = (1.0 - target) / (1.0 - level.skew);
            }
            break;
        }
        left -= share;
        *level = Level {
            branching: 1.0,
            skew: 0.0,
        };
    }
    levels
}

/// Scales the trees for larger sets by placing several trees of the described form under fully
/// branching upper levels.
fn copied(mut levels: [Level; 32], growth: f64) -> [Level; 32] {
    let upper = growth.log2().ceil().clamp(0.0, 31.0) as usize;
    levels[..upper].fill(Level {
        branching: 1.0,
        skew: 0.0,
    });
    levels
}

/// Parameters of an address tree. Rules are distributed over it from the root down.
struct Tree {
    levels: [Level; 32],
    nesting: u32,
    /// For destinations: probability, in thousandths, that they follow the source address for one
    /// more level.
    following: Option<u32>,
}

/// Maximum level down to which destinations follow their sources. This covers networks, not hosts.
const FOLLOWS_TO: u32 = 21;

/// A node to process, with the rules below it.
struct Node {
    level: u32,
    address: u32,
    /// Indices of the rules. The flag is true while the destination follows the source.
    rules: Vec<(usize, bool)>,
    nested: u32,
}

impl Tree {
    fn assign(
        &self,
        rules: &mut [FiveTuple],
        choices: &mut Rng,
        field: impl Fn(&mut FiveTuple) -> &mut Prefix,
    ) {
        let all = (0..rules.len())
            .map(|rule| (rule, self.following.is_some()))
            .collect();
        let mut nodes = vec![Node {
            level: 0,
            address: 0,
            rules: all,
            nested: 0,
        }];
        while let Some(mut node) = nodes.pop() {
            let mut ends_here = false;
            node.rules.retain(|&(rule, _)| {
                let prefix = field(&mut rules[rule]);
                let ends = u32::from(prefix.len) == node.level;
                if ends {
                    prefix.address = node.address;
                    ends_here = true;
                }
                !ends
            });
            node.nested += u32::from(ends_here);
            if !node.rules.is_empty() {
                self.split(node, rules, choices, &field, &mut nodes);
            }
        }
    }

    /// Appends the children of a node that have rules.
    fn split(
        &self,
        node: Node,
        rules: &mut [FiveTuple],
        choices: &mut Rng,
        field: &impl Fn(&mut FiveTuple) -> &mut Prefix,
        nodes: &mut Vec<Node>,
    ) {
        let level = self.levels[node.level as usize];
        let bit = 31 - node.level;
        let mut sides: [Vec<(usize, bool)>; 2] = Default::default();
        let heavy = choices.below(2) as usize;
        let mut free = Vec::new();
        for (rule, follows) in node.rules {
            let source = (rules[rule].source.address >> bit & 1) as usize;
            match self
                .following
                .filter(|_| follows && node.level < FOLLOWS_TO)
            {
                Some(further) if choices.per_mille(further) => sides[source].push((rule, true)),
                Some(_) => sides[1 - source].push((rule, false)),
                None => free.push((rule, false)),
            }
        }
        let full = node.nested + 1 >= self.nesting && node.level < 31;
        let ends_next = |prefix: &Prefix| u32::from(prefix.len) == node.level + 1;
        if full
            && free
                .iter()
                .any(|&(rule, _)| ends_next(field(&mut rules[rule])))
        {
            // The nesting limit is reached: prefixes that end at the next level go to one side,
            // all others to the other side.
            for (rule, _) in free {
                let side = heavy ^ usize::from(ends_next(field(&mut rules[rule])));
                sides[side].push((rule, false));
            }
        } else {
            let branches = free.len() > 1 && choices.per_mille((level.branching * 1000.0) as u32);
            let light = if branches {
                free.len() - (free.len() as f64 / (2.0 - level.skew)) as usize
            } else {
                0
            };
            sides[heavy].extend(free.split_off(light));
            sides[1 - heavy].extend(free);
        }
        for (side, rules) in (0u32..).zip(sides) {
            if !rules.is_empty() {
                nodes.push(Node {
                    level: node.level + 1,
                    address: node.address | side << bit,
                    rules,
                    nested: node.nested,
                });
            }
        }
    }
}

/// Orders the rules randomly, but each before all rules that cover it.
fn order(rules: &mut Vec<FiveTuple>, choices: &mut Rng) {
    let breadth = |range: PortRange| u32::from(range.hi - range.lo);
    // This order has covering rules before the rules that they cover.
    rules.sort_by_cached_key(|rule| {
        let lengths = rule.source.len + rule.destination.len;
        let ports = breadth(rule.source_port) + breadth(rule.destination_port);
        (lengths, u32::MAX - ports, rule.protocol.is_some())
    });
    let mut by_prefixes: HashMap<(Prefix, Prefix), Vec<usize>> = HashMap::new();
    let mut lengths: Vec<(u8, u8)> = Vec::new();
    // A rule's position is a random number, with free numbers before it for chains of covered
    // rules.
    let mut places: Vec<u64> = Vec::with_capacity(rules.len());
    for (index, rule) in rules.iter().enumerate() {
        let mut place = choices.below(1 << 40) << 16 | 0xffff;
        for &(source, destination) in &lengths {
            if source > rule.source.len || destination > rule.destination.len {
                continue;
            }
            let key = (
                Prefix::new(rule.source.address, source),
                Prefix::new(rule.destination.address, destination),
            );
            for &other in by_prefixes.get(&key).into_iter().flatten() {
                if places[other] <= place && rules[other].covers_application(rule) {
                    place = places[other].saturating_sub(1);
                }
            }
        }
        places.push(place);
        by_prefixes
            .entry((rule.source, rule.destination))
            .or_default()
            .push(index);
        let pair = (rule.source.len, rule.destination.len);
        if !lengths.contains(&pair) {
            lengths.push(pair);
        }
    }
    let mut order: Vec<usize> = (0..rules.len()).collect();
    order.sort_by_key(|&index| places[index]);
    *rules = order.into_iter().map(|index| rules[index]).collect();
}
