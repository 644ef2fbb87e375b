//! [`RoutingTable`]: prefixes like those of a router in the default-free zone, and destination
//! addresses for them.
//!
//! Prefix lengths follow public reports on BGP tables of a million IPv4 and two hundred thousand
//! IPv6 prefixes. Most have the maximum length that providers accept, /24 and /48. Addresses
//! follow a multiplicative cascade: each half of a prefix gets an uneven share of the announced
//! prefixes. This gives dense and empty regions on all scales, as measured by Kohler et al.,
//! "Observed structure of addresses in IP traffic" (IMW 2002). Prefixes nest more than on the
//! Internet, where about half are covered by a shorter one.

use bits::Value;
use std::collections::HashSet;
use support::rng::Rng;

use crate::Pattern;

/// Address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// 32 bits.
    V4,
    /// 128 bits.
    V6,
}

/// Prefix lengths with their weights.
type Lengths = &'static [(u8, u32)];

/// IPv4: 59.3 % are /24. A few prefixes, internal to providers, are longer.
const V4_LENGTHS: Lengths = &[
    (8, 17),
    (9, 14),
    (10, 40),
    (11, 105),
    (12, 310),
    (13, 610),
    (14, 1_250),
    (15, 2_150),
    (16, 14_200),
    (17, 8_700),
    (18, 14_300),
    (19, 28_000),
    (20, 48_000),
    (21, 56_000),
    (22, 115_000),
    (23, 105_000),
    (24, 593_000),
    (25, 1_300),
    (26, 1_700),
    (27, 1_500),
    (28, 1_500),
    (29, 2_000),
    (30, 1_700),
    (31, 100),
    (32, 3_504),
];

/// IPv6: most are /48, then /32, /44 and /40.
const V6_LENGTHS: Lengths = &[
    (20, 5),
    (24, 20),
    (28, 60),
    (29, 350),
    (30, 60),
    (31, 30),
    (32, 1300),
    (33, 200),
    (34, 180),
    (35, 100),
    (36, 400),
    (38, 180),
    (40, 900),
    (42, 180),
    (44, 1150),
    (45, 100),
    (46, 300),
    (47, 350),
    (48, 4030),
    (56, 25),
    (64, 60),
    (128, 20),
];

impl Family {
    /// Returns the number of bits of an address.
    pub fn width(self) -> u32 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    fn lengths(self) -> Lengths {
        match self {
            Self::V4 => V4_LENGTHS,
            Self::V6 => V6_LENGTHS,
        }
    }

    /// Returns the common leading bits of all prefixes, and their number.
    fn space(self) -> (u128, u32) {
        match self {
            Self::V4 => (0, 0),
            // 2000::/3, the allocated unicast addresses.
            Self::V6 => (1, 3),
        }
    }

    /// Returns the maximum length of prefixes allocated by registries.
    fn held(self) -> u8 {
        match self {
            Self::V4 => 18,
            Self::V6 => 24,
        }
    }

    /// Returns the minimum and maximum imbalance of halves at this depth. It is smaller between
    /// the blocks of registries and inside a network than between networks.
    fn bias(self, depth: u32) -> (u64, u64) {
        match (self, depth) {
            (Self::V4, 0..8) => (0, 150),
            (Self::V4, 8..18) => (150, 450),
            (Self::V4, _) => (0, 300),
            (Self::V6, 0..12) => (100, 400),
            (Self::V6, 12..32) => (300, 490),
            (Self::V6, _) => (0, 450),
        }
    }

    /// Returns true if the address may be announced. For IPv4, 0/8, 127/8 and 224/3 are excluded.
    fn is_public(self, address: u128) -> bool {
        match self {
            Self::V4 => matches!(address >> 24, 1..=126 | 128..=223),
            Self::V6 => true,
        }
    }
}

/// A prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The address, in the low bits. The bits after the prefix are zero.
    pub address: u128,
    /// Prefix length.
    pub len: u8,
}

/// A routing table without duplicates, in random order.
#[derive(Debug, Clone)]
pub struct RoutingTable {
    family: Family,
    routes: Vec<Route>,
}

impl RoutingTable {
    /// Generates a table of `size` prefixes. The same seed gives the same table.
    pub fn generate(family: Family, size: usize, seed: u64) -> Self {
        let mut choices = Rng::new(seed);
        let cascade = Cascade {
            secret: choices.bits(),
        };
        let mut seen = HashSet::with_capacity(size);
        let mut routes = Vec::with_capacity(size);
        while routes.len() < size {
            let lengths = family.lengths();
            let Some(&(len, _)) = choices.weighted(lengths, |(_, weight)| *weight) else {
                break;
            };
            // Retry with the same length, so that lengths keep their frequencies as long as there
            // are unused prefixes.
            let mut tries = (0..1000).map(|_| Route {
                address: cascade.address(family, len, &mut choices),
                len,
            });
            let new = |route: &Route| family.is_public(route.address) && seen.insert(*route);
            routes.extend(tries.find(new));
        }
        Self { family, routes }
    }

    /// Returns the prefixes.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the pattern of a route's entry on its one key field.
    pub fn pattern(&self, route: Route) -> Pattern {
        Pattern::Prefix {
            value: Value::truncated(route.address, self.family.width()),
            len: route.len.into(),
        }
    }

    /// Returns the pattern of the default route.
    pub fn default_route(&self) -> Pattern {
        self.pattern(Route { address: 0, len: 0 })
    }

    /// Returns `count` random addresses, each inside a random route.
    pub fn destinations(&self, count: usize, seed: u64) -> Vec<u128> {
        let mut choices = Rng::new(seed);
        (0..count).map(|_| self.destination(&mut choices)).collect()
    }

    /// Returns a random address inside a random route, or 0 if there is no route.
    pub fn destination(&self, choices: &mut Rng) -> u128 {
        let which = choices.below(self.routes.len() as u64) as usize;
        let route = self.routes.get(which);
        route.map_or(0, |&route| self.destination_in(route, choices))
    }

    /// Returns a random address inside this route.
    pub fn destination_in(&self, route: Route, choices: &mut Rng) -> u128 {
        let host_bits = self.family.width() - u32::from(route.len);
        let host = u128::from(choices.bits()) << 64 | u128::from(choices.bits());
        route.address | host & !u128::MAX.checked_shl(host_bits).unwrap_or(0)
    }

    /// Returns the concatenated limbs of the lookup keys of these addresses.
    pub fn keys(&self, addresses: &[u128]) -> Vec<u64> {
        let limbs = bits::limbs_for(self.family.width());
        let key = |address: &u128| [*address as u64, (*address >> 64) as u64];
        let keys = addresses
            .iter()
            .flat_map(|a| key(a).into_iter().take(limbs));
        keys.collect()
    }
}

/// The shares of both halves of each prefix, derived from a seed.
struct Cascade {
    secret: u64,
}

impl Cascade {
    /// Draws a prefix of `len` bits by the shares.
    fn address(&self, family: Family, len: u8, choices: &mut Rng) -> u128 {
        let (mut prefix, bits) = family.space();
        for depth in bits..u32::from(len) {
            let bias = self.bias(family, prefix, depth);
            // Short prefixes depend more on early allocation than on the number of announcements.
            let bias = if len <= family.held() { bias / 4 } else { bias };
            let upper = choices.per_mille((500 + bias) as u32);
            prefix = prefix << 1 | u128::from(upper);
        }
        prefix << (family.width() - u32::from(len))
    }

    /// Returns the excess of the upper half's share over one half, in thousandths.
    fn bias(&self, family: Family, prefix: u128, depth: u32) -> i32 {
        let name = prefix as u64 ^ (prefix >> 64) as u64 ^ u64::from(depth) << 56;
        let mut choices = Rng::new(self.secret ^ name.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (least, most) = family.bias(depth);
        let bias = choices.between(least, most) as i32;
        if choices.per_mille(500) { bias } else { -bias }
    }
}
