//! Seeded instances of placement problems: OVS-POF-TC's of tables II and III with the parameters of
//! its measurements, and random ones of any kind.

use support::rng::{Rng, Weighted};

use super::{
    BatchCharge, ItemSpec, LimitedPlane, Load, MoveCosts, Need, PlaneId, PlanePolicy, Problem,
    ProblemBuilder, ProblemError, SolveError, SolveOptions,
};
use crate::ItemId;

/// Flows that the NIC holds (M^sn, section VI).
pub const NIC_PLACES: u64 = 4800;

/// Latency of a packet in the NIC in us (tau 1). The paper measures 4 (figure 6); its tables are
/// sums with 5.
pub const LATENCY_NIC_US: u32 = 5;

/// Latency in the kernel in us, of a flow that it carries (tau 2; figure 10).
pub const LATENCY_KERNEL_US: u32 = 50;

/// Latency in the kernel in us, of a flow with more packets than it carries (tau 3). The paper
/// measures about 7,000 (figure 10); its tables are sums with 7,500.
pub const LATENCY_OVERLOAD_US: u32 = 7500;

/// Time to offload a batch in us, whatever its size (tau add; figure 8).
pub const BATCH_IN_US: u32 = 22_500;

/// Time to remove a batch in us, whatever its size (tau del; figure 8).
pub const BATCH_OUT_US: u32 = 25_300;

/// Sizes of packets in bytes, alike often (section VI).
pub const PACKET_BYTES: [u64; 5] = [64, 128, 256, 512, 1024];

/// Range of the rates of flows in kbit/s, uniform (section VI).
pub const RATES_KBPS: (u64, u64) = (100_000, 40_000_000);

/// Packets a second that the kernel carries, whatever their size. Recovered from the tables, where
/// 96 % of the flows exceed the kernel; figure 10 has 0.534 million.
pub const KERNEL_PACKETS_PER_SECOND: u64 = 525_000;

/// Throughput of the kernel in kbit/s for packets of each size, in descending order (B, C^kr).
pub const THROUGHPUTS: [u64; 5] = [
    kernel_kbps(1024),
    kernel_kbps(512),
    kernel_kbps(256),
    kernel_kbps(128),
    kernel_kbps(64),
];

/// Returns the throughput of the kernel in kbit/s for packets of this size.
pub const fn kernel_kbps(packet_bytes: u64) -> u64 {
    KERNEL_PACKETS_PER_SECOND * packet_bytes * 8 / 1000
}

/// Rows of table II: flows, and the heuristic's objective in us.
pub const TABLE_2: [(u32, u64); 6] = [
    (100, 23_000),
    (1000, 27_500),
    (10_000, 36_379_400),
    (100_000, 684_611_550),
    (1_000_000, 7_171_470_100),
    (3_000_000, 21_595_875_650),
];

/// Rows of table III: old flows, new flows, and the heuristic's objective in us.
pub const TABLE_3: [(u32, u32, u64); 6] = [
    (60, 40, 23_000),
    (600, 400, 27_500),
    (6000, 4000, 37_440_250),
    (60_000, 40_000, 686_260_950),
    (600_000, 400_000, 7_173_737_850),
    (600_000, 2_400_000, 21_595_200_650),
];

/// Flow of OVS-POF-TC's simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Rates in kbit/s.
    pub load: Load,
    /// Plane that has it now. `None`: it is new.
    pub current: Option<PlaneId>,
}

impl Flow {
    /// Draws a new flow.
    pub fn draw(rng: &mut Rng) -> Flow {
        let bytes = PACKET_BYTES[rng.index(PACKET_BYTES.len())];
        let (least, most) = RATES_KBPS;
        Flow {
            load: Load {
                offered: rng.between(least, most),
                home_limit: kernel_kbps(bytes),
            },
            current: None,
        }
    }

    /// Returns the latency of the flow in the kernel in us.
    pub fn kernel_latency(self) -> u32 {
        match self.load.is_heavy() {
            true => LATENCY_OVERLOAD_US,
            false => LATENCY_KERNEL_US,
        }
    }
}

/// Creates the problem of these flows, a NIC and the kernel: gains are latencies in us with the
/// sign changed.
///
/// # Errors
/// There are more flows than indices.
pub fn nic_problem(flows: &[Flow], charge: BatchCharge) -> Result<Problem, ProblemError> {
    let nic = LimitedPlane {
        name: "nic".to_owned(),
        capacity: vec![NIC_PLACES],
        costs: MoveCosts {
            batch_in: BATCH_IN_US.into(),
            batch_out: BATCH_OUT_US.into(),
            ..MoveCosts::default()
        },
    };
    let mut builder = ProblemBuilder::new(1, vec![nic]);
    builder.charge(charge);
    builder.reserve(flows.len());
    for flow in flows {
        let kernel = -i64::from(flow.kernel_latency());
        builder.add(ItemSpec {
            weights: &[1],
            gains: &[kernel, -i64::from(LATENCY_NIC_US)],
            current: flow.current,
            load: flow.load,
            cover: None,
        });
    }
    builder.build()
}

/// Draws the flows of a row of table II.
pub fn placement_flows(flows: u32, seed: u64) -> Vec<Flow> {
    let mut rng = Rng::new(seed);
    (0..flows).map(|_| Flow::draw(&mut rng)).collect()
}

/// Draws the flows of a row of table III: the old ones have been placed by the policy `exact`
/// before.
///
/// # Errors
/// There are more flows than indices.
pub fn replacement_flows(old: u32, new: u32, seed: u64) -> Result<Vec<Flow>, WorkloadError> {
    let mut flows = placement_flows(old, seed);
    let problem = nic_problem(&flows, BatchCharge::NewAndFewer)?;
    let placed = PlanePolicy::Exact.solve(&problem, &SolveOptions::default())?;
    for (flow, &plane) in flows.iter_mut().zip(&placed.planes) {
        flow.current = Some(plane);
    }
    let mut rng = Rng::new(!seed);
    flows.extend((0..new).map(|_| Flow::draw(&mut rng)));
    Ok(flows)
}

/// Packets of flows with frequencies by Zipf's distribution. Ranks are random.
pub struct ZipfTraffic {
    choice: Weighted,
    flows: usize,
    rng: Rng,
}

impl ZipfTraffic {
    /// Creates the traffic of this number of flows, with this exponent.
    pub fn new(flows: usize, alpha: f64, seed: u64) -> ZipfTraffic {
        let mut rng = Rng::new(seed);
        let mut weights: Vec<f64> = (1..=flows).map(|rank| (rank as f64).powf(-alpha)).collect();
        for at in (1..flows).rev() {
            weights.swap(at, rng.index(at + 1));
        }
        let choice = Weighted::new(&weights);
        ZipfTraffic { choice, flows, rng }
    }

    /// Draws the next packets. Returns the number of each flow.
    pub fn window(&mut self, packets: u64) -> Vec<i64> {
        let mut counts = vec![0; self.flows];
        for _ in 0..packets {
            counts[self.choice.choose(&mut self.rng)] += 1;
        }
        counts
    }
}

/// Creates the problem of flows with these packets and a NIC: a flow gains its packets there, and a
/// move into it costs one.
///
/// # Errors
/// There are more flows than indices.
pub fn traffic_problem(
    counts: &[i64],
    current: Option<&[PlaneId]>,
) -> Result<Problem, ProblemError> {
    let mut nic = LimitedPlane::new("nic", vec![NIC_PLACES]);
    nic.costs.item_in = 1;
    let mut builder = ProblemBuilder::new(1, vec![nic]);
    builder.reserve(counts.len());
    for (flow, &packets) in counts.iter().enumerate() {
        builder.add(ItemSpec {
            weights: &[1],
            gains: &[0, packets],
            current: current.map(|planes| planes[flow]),
            load: Load::default(),
            cover: None,
        });
    }
    builder.build()
}

/// Returns the share of these packets that the NIC carries, of those that it would carry by a
/// choice that knows them.
pub fn share_of_clairvoyant(planes: &[PlaneId], counts: &[i64]) -> f64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let best: i64 = sorted.iter().take(NIC_PLACES as usize).sum();
    let pairs = planes.iter().zip(counts);
    let carried = pairs.filter(|(plane, _)| **plane != PlaneId::HOME);
    carried.map(|(_, count)| count).sum::<i64>() as f64 / best as f64
}

/// Error of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadError {
    /// The problem is refused.
    Problem(ProblemError),
    /// The first placement fails.
    Solve(SolveError),
}

impl std::fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkloadError::Problem(error) => error.fmt(f),
            WorkloadError::Solve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl From<ProblemError> for WorkloadError {
    fn from(error: ProblemError) -> Self {
        WorkloadError::Problem(error)
    }
}

impl From<SolveError> for WorkloadError {
    fn from(error: SolveError) -> Self {
        WorkloadError::Solve(error)
    }
}

/// Kind of random problems: the greatest numbers that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemShape {
    /// Items, at least one.
    pub items: usize,
    /// Planes with limits, at least one.
    pub planes: usize,
    /// Resources, at least one.
    pub resources: usize,
    /// Weight of an item in each resource. With 1 all items weigh 1.
    pub weight: u64,
    /// Requirements, for each 100 items. Half of them can be covers.
    pub needs: usize,
    /// Cost of a batch.
    pub batch: u64,
    /// Cost of the move of an item.
    pub move_cost: u64,
    /// Limits of moves are drawn, too.
    pub has_limits: bool,
}

impl ProblemShape {
    /// Small problems of all kinds.
    pub const SMALL: ProblemShape = ProblemShape {
        items: 9,
        planes: 2,
        resources: 2,
        weight: 5,
        needs: 80,
        batch: 40,
        move_cost: 3,
        has_limits: true,
    };

    /// Small problems that the policy `exact` solves.
    pub const COUNTED: ProblemShape = ProblemShape {
        items: 14,
        planes: 1,
        resources: 1,
        weight: 1,
        needs: 0,
        batch: 60,
        move_cost: 3,
        has_limits: false,
    };
}

/// Draws a problem. Some items are on planes already, as far as they fit; the rule of batches is
/// drawn where moves have no limit.
///
/// # Errors
/// The shape has numbers that no problem may have.
pub fn random_problem(seed: u64, shape: &ProblemShape) -> Result<Problem, ProblemError> {
    let mut rng = Rng::new(seed);
    let items = rng.between(1, shape.items.max(1) as u64) as usize;
    let planes = rng.between(1, shape.planes.max(1) as u64) as usize;
    let resources = rng.between(1, shape.resources.max(1) as u64) as usize;
    let weights: Vec<Vec<u64>> = (0..items)
        .map(|_| {
            (0..resources)
                .map(|_| draw_weight(&mut rng, shape))
                .collect()
        })
        .collect();
    let gain = [10, 100, 1000][rng.index(3)];
    let spec = |rng: &mut Rng, at: usize| LimitedPlane {
        name: format!("plane {}", at + 1),
        capacity: (0..resources)
            .map(|resource| {
                let sum: u64 = weights.iter().map(|weights| weights[resource]).sum();
                rng.between(sum / 10, sum * 7 / 10 + 1)
            })
            .collect(),
        costs: MoveCosts {
            batch_in: rng.between(0, shape.batch),
            batch_out: rng.between(0, shape.batch),
            item_in: rng.between(0, shape.move_cost),
            item_out: rng.between(0, shape.move_cost),
            items_per_second: (shape.has_limits && rng.one_in(3))
                .then(|| rng.between(0, items as u64)),
        },
    };
    let specs: Vec<LimitedPlane> = (0..planes).map(|at| spec(&mut rng, at)).collect();
    let has_limit = |spec: &LimitedPlane| spec.costs.items_per_second.is_some();
    let can_exchange = !specs.iter().any(has_limit) && rng.one_in(2);
    let mut left: Vec<Vec<u64>> = specs.iter().map(|spec| spec.capacity.clone()).collect();
    let mut builder = ProblemBuilder::new(resources, specs);
    if can_exchange {
        builder.charge(BatchCharge::NewAndFewer);
    }
    let old = [0, 2, 5][rng.index(3)];
    for weights in &weights {
        let mut gains = vec![rng.between(0, gain / 5) as i64];
        for _ in 0..planes {
            // Some items are better at home.
            gains.push(rng.between(0, gain) as i64);
        }
        let mut current = None;
        if rng.index(6) < old {
            let plane = rng.index(planes + 1);
            let mut free = plane.checked_sub(1).map(|at| &mut left[at]);
            let fits = free.as_ref().is_none_or(|free| {
                free.iter()
                    .zip(weights)
                    .all(|(free, weight)| free >= weight)
            });
            for (free, weight) in free
                .iter_mut()
                .flat_map(|free| free.iter_mut())
                .zip(weights)
            {
                *free -= if fits { *weight } else { 0 };
            }
            current = Some(PlaneId(if fits { plane as u16 } else { 0 }));
        }
        let cover: Vec<u64> = weights.iter().map(|weight| weight.div_ceil(2)).collect();
        builder.add(ItemSpec {
            weights,
            gains: &gains,
            current,
            load: Load {
                offered: rng.between(0, 2 * THROUGHPUTS[0]),
                home_limit: *rng.pick(&THROUGHPUTS).unwrap_or(&THROUGHPUTS[0]),
            },
            cover: Some(&cover),
        });
    }
    for _ in 0..items * shape.needs / 100 {
        // Only earlier items need later ones, so there is no cycle.
        let item = rng.index(items);
        let other = item + 1 + rng.index(3);
        if other < items {
            let other = ItemId(other as u32);
            let need = match rng.one_in(2) {
                true => Need::Item(other),
                false => Need::ItemOrCover(other),
            };
            builder.require(ItemId(item as u32), need);
        }
    }
    builder.build()
}

fn draw_weight(rng: &mut Rng, shape: &ProblemShape) -> u64 {
    rng.between(1, shape.weight.max(1))
}
