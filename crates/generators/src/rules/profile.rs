//! Statistics of the kinds of rule sets.
//!
//! Kinds and parameters are those of Taylor and Turner ("ClassBench: A Packet Classification
//! Benchmark", IEEE/ACM Transactions on Networking 15(3), 2007): the mix of protocols, classes of
//! port ranges, pairs of prefix lengths, and address trees. Trees are described by the frequency
//! and skew of branches, the nesting of prefixes, and the common length of source and destination.
//! The values are our own round figures. So these sets are comparable with each other, but only
//! roughly with sets of that tool.

use super::Kind;

/// A class of port ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    /// All ports.
    Any,
    /// 1024 to 65535.
    High,
    /// 0 to 1023.
    Low,
    /// One of the profile's ranges.
    Range,
    /// One of the profile's ports.
    Exact,
}

/// Classes of source and destination ports, with the number of rules per thousand.
pub(super) struct PortPair(pub(super) Ports, pub(super) Ports, pub(super) u32);

/// A protocol with its number of rules per thousand, and the ports used with it.
pub(super) struct Protocol {
    pub(super) number: Option<u8>,
    pub(super) weight: u32,
    pub(super) ports: &'static [PortPair],
}

/// Ranges of source and destination prefix lengths, with a weight.
pub(super) struct Lengths {
    pub(super) source: (u8, u8),
    pub(super) destination: (u8, u8),
    pub(super) weight: u32,
}

/// Parameters of an address tree from level `from` on: branching nodes per thousand, and skew (0:
/// halves, 1000: all on one side).
pub(super) struct Zone {
    pub(super) from: u32,
    pub(super) branching: u32,
    pub(super) skew: u32,
}

/// Statistics of one kind.
pub(super) struct Profile {
    /// Size of the set that the trees describe. Larger sets branch more.
    pub(super) scale: usize,
    pub(super) protocols: &'static [Protocol],
    pub(super) lengths: &'static [Lengths],
    /// Prefix lengths of rules for a service port.
    pub(super) lengths_of_services: &'static [Lengths],
    pub(super) ranges: &'static [(u16, u16)],
    pub(super) ports: &'static [u16],
    pub(super) source: &'static [Zone],
    pub(super) destination: &'static [Zone],
    /// Maximum nesting depth of prefixes.
    pub(super) nesting: u32,
    /// Probability, in thousandths, that a destination follows its source for one more level, down
    /// to /21.
    pub(super) following: u32,
}

const fn lengths(source: (u8, u8), destination: (u8, u8), weight: u32) -> Lengths {
    Lengths {
        source,
        destination,
        weight,
    }
}

const fn zone(from: u32, branching: u32, skew: u32) -> Zone {
    Zone {
        from,
        branching,
        skew,
    }
}

const ALL_PORTS: &[PortPair] = &[PortPair(Ports::Any, Ports::Any, 1)];

/// Registered ports of services, the common ones first.
const SERVICES: &[u16] = &[
    80, 443, 22, 25, 53, 123, 161, 389, 21, 110, 143, 514, 445, 139, 23, 69, 162, 179, 636, 993,
    995, 1433, 1521, 3306, 5432, 3389, 8080, 5060, 1812, 1813, 500, 4500, 6379, 9092, 2049, 111,
    137, 88, 464, 873, 1194, 1723, 5222, 5900, 6000, 8443, 9200, 11211, 27017, 50051,
];

impl Profile {
    /// Returns the statistics of a kind.
    pub(super) fn of(kind: Kind) -> &'static Self {
        match kind {
            Kind::Acl => &ACL,
            Kind::Fw => &FW,
            Kind::Ipc => &IPC,
        }
    }
}

/// Access control: long prefixes on both sides, any source port, mostly exact destination ports.
static ACL: Profile = Profile {
    scale: 1000,
    protocols: &[
        Protocol {
            number: Some(6),
            weight: 870,
            ports: &[
                PortPair(Ports::Any, Ports::Any, 210),
                PortPair(Ports::Any, Ports::Range, 130),
                PortPair(Ports::Any, Ports::High, 10),
                PortPair(Ports::Any, Ports::Exact, 650),
            ],
        },
        Protocol {
            number: Some(17),
            weight: 20,
            ports: &[
                PortPair(Ports::Any, Ports::Range, 130),
                PortPair(Ports::Any, Ports::Exact, 870),
            ],
        },
        Protocol {
            number: Some(1),
            weight: 30,
            ports: ALL_PORTS,
        },
        Protocol {
            number: None,
            weight: 80,
            ports: ALL_PORTS,
        },
    ],
    lengths: &[
        lengths((0, 0), (0, 13), 20),
        lengths((21, 24), (0, 8), 70),
        lengths((21, 24), (24, 32), 150),
        lengths((30, 32), (21, 24), 210),
        lengths((30, 32), (30, 31), 50),
        lengths((32, 32), (32, 32), 500),
    ],
    lengths_of_services: &[
        lengths((21, 24), (28, 32), 70),
        lengths((30, 32), (21, 24), 60),
        lengths((30, 32), (30, 31), 40),
        lengths((32, 32), (32, 32), 830),
    ],
    ranges: &[
        (1024, 2047),
        (1300, 1349),
        (1600, 1699),
        (2300, 2400),
        (5000, 65535),
        (5060, 5061),
        (6000, 6063),
        (7500, 7599),
        (8000, 8099),
        (16384, 32767),
        (20000, 20010),
        (32200, 32207),
        (49152, 65535),
        (61000, 61009),
        (62200, 62239),
    ],
    ports: SERVICES,
    source: &[zone(0, 200, 900), zone(24, 700, 400)],
    destination: &[zone(0, 700, 700), zone(4, 200, 600), zone(16, 80, 550)],
    nesting: 4,
    following: 950,
};

/// Firewalls: often a wildcard on one side and hosts on the other, ports of all classes.
static FW: Profile = Profile {
    scale: 300,
    protocols: &[
        Protocol {
            number: Some(6),
            weight: 570,
            ports: &[
                PortPair(Ports::Any, Ports::Any, 180),
                PortPair(Ports::High, Ports::High, 70),
                PortPair(Ports::Any, Ports::Exact, 750),
            ],
        },
        Protocol {
            number: Some(17),
            weight: 320,
            ports: &[
                PortPair(Ports::High, Ports::High, 70),
                PortPair(Ports::High, Ports::Range, 10),
                PortPair(Ports::Range, Ports::High, 10),
                PortPair(Ports::Low, Ports::Low, 10),
                PortPair(Ports::Any, Ports::Exact, 420),
                PortPair(Ports::Exact, Ports::Any, 300),
                PortPair(Ports::High, Ports::Exact, 60),
                PortPair(Ports::Exact, Ports::High, 60),
                PortPair(Ports::Exact, Ports::Exact, 60),
            ],
        },
        Protocol {
            number: Some(1),
            weight: 40,
            ports: ALL_PORTS,
        },
        Protocol {
            number: Some(47),
            weight: 50,
            ports: ALL_PORTS,
        },
        Protocol {
            number: None,
            weight: 20,
            ports: ALL_PORTS,
        },
    ],
    lengths: &[
        lengths((0, 0), (0, 0), 110),
        lengths((8, 16), (0, 0), 50),
        lengths((21, 30), (0, 0), 370),
        lengths((32, 32), (0, 0), 200),
        lengths((28, 30), (32, 32), 130),
        lengths((32, 32), (28, 30), 140),
    ],
    lengths_of_services: &[
        lengths((0, 0), (0, 0), 60),
        lengths((0, 0), (27, 32), 620),
        lengths((32, 32), (0, 0), 180),
        lengths((26, 28), (21, 28), 20),
        lengths((32, 32), (32, 32), 120),
    ],
    ranges: &[
        (33434, 33600),
        (5000, 5100),
        (6000, 6063),
        (16384, 32767),
        (20, 21),
    ],
    ports: SERVICES,
    source: &[
        zone(0, 400, 850),
        zone(10, 20, 600),
        zone(21, 180, 500),
        zone(30, 70, 350),
    ],
    destination: &[zone(0, 350, 900), zone(9, 20, 600), zone(21, 200, 550)],
    nesting: 4,
    following: 900,
};

/// IP chains: prefixes of medium length and hosts, exact ports on either side.
static IPC: Profile = Profile {
    scale: 1700,
    protocols: &[
        Protocol {
            number: None,
            weight: 340,
            ports: ALL_PORTS,
        },
        Protocol {
            number: Some(6),
            weight: 260,
            ports: &[
                PortPair(Ports::Any, Ports::Any, 90),
                PortPair(Ports::Any, Ports::Range, 70),
                PortPair(Ports::Range, Ports::Any, 60),
                PortPair(Ports::Any, Ports::Exact, 500),
                PortPair(Ports::Exact, Ports::Any, 270),
                PortPair(Ports::Exact, Ports::Exact, 10),
            ],
        },
        Protocol {
            number: Some(17),
            weight: 380,
            ports: &[
                PortPair(Ports::Any, Ports::Any, 10),
                PortPair(Ports::Any, Ports::High, 170),
                PortPair(Ports::High, Ports::Any, 10),
                PortPair(Ports::Any, Ports::Range, 20),
                PortPair(Ports::Any, Ports::Exact, 580),
                PortPair(Ports::Exact, Ports::Any, 200),
                PortPair(Ports::Exact, Ports::Exact, 10),
            ],
        },
        Protocol {
            number: Some(1),
            weight: 10,
            ports: ALL_PORTS,
        },
        Protocol {
            number: Some(47),
            weight: 5,
            ports: ALL_PORTS,
        },
        Protocol {
            number: Some(50),
            weight: 5,
            ports: ALL_PORTS,
        },
    ],
    lengths: &[
        lengths((0, 0), (0, 16), 20),
        lengths((0, 0), (22, 29), 45),
        lengths((16, 24), (0, 0), 45),
        lengths((32, 32), (0, 0), 10),
        lengths((16, 17), (16, 26), 130),
        lengths((22, 24), (16, 17), 110),
        lengths((22, 24), (22, 24), 400),
        lengths((22, 26), (22, 28), 200),
        lengths((26, 28), (24, 28), 40),
        lengths((32, 32), (32, 32), 10),
    ],
    lengths_of_services: &[
        lengths((0, 0), (16, 32), 100),
        lengths((16, 24), (0, 24), 90),
        lengths((23, 26), (32, 32), 230),
        lengths((32, 32), (16, 26), 170),
        lengths((30, 31), (32, 32), 20),
        lengths((32, 32), (32, 32), 390),
    ],
    ranges: &[
        (20, 21),
        (20, 23),
        (109, 110),
        (1645, 1646),
        (1812, 1813),
        (5000, 5001),
        (20, 2511),
    ],
    ports: SERVICES,
    source: &[
        zone(0, 800, 300),
        zone(2, 300, 500),
        zone(10, 80, 600),
        zone(16, 100, 500),
    ],
    destination: &[zone(0, 700, 550), zone(6, 60, 600), zone(16, 110, 450)],
    nesting: 5,
    following: 800,
};
