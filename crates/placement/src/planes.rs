//! Placement of items on planes: which plane has each item, for any kinds of planes. A NIC beside
//! the kernel, a switch beside servers and fast cores beside slow ones are instances.
//!
//! [`ProblemBuilder`] takes items with weights, gains, current planes and requirements, and planes
//! with capacities and costs of moves. [`PlanePolicy::solve`] decides. [`Problem`] computes what an
//! assignment is worth and which rules it breaks.
//!
//! ```
//! use placement::planes::{
//!     ItemSpec, Load, PlaneId, PlanePolicy, LimitedPlane, ProblemBuilder, SolveOptions,
//! };
//!
//! // A NIC with room for one flow; packets a second are what a flow gains there.
//! let mut builder = ProblemBuilder::new(1, vec![LimitedPlane::new("nic", vec![1])]);
//! for packets in [10, 700, 30] {
//!     builder.add(ItemSpec {
//!         weights: &[1],
//!         gains: &[0, packets],
//!         current: None,
//!         load: Load::default(),
//!         cover: None,
//!     });
//! }
//! let problem = builder.build()?;
//! let solution = PlanePolicy::Exact.solve(&problem, &SolveOptions::default())?;
//! assert_eq!(solution.planes, [PlaneId::HOME, PlaneId(1), PlaneId::HOME]);
//! assert_eq!((solution.objective, solution.gap()), (700, Some(0.0)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod dense;
mod exact;
mod limit;
mod milp;
mod paper;
mod problem;
mod ranked;
mod solution;
mod state;
pub mod workload;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use problem::{
    BatchCharge, ItemSpec, LimitedPlane, Load, MAX_PLANES, MoveCosts, Need, PlaneId, Problem,
    ProblemBuilder, ProblemError, ResourceId,
};
pub use solution::{PlaneMove, Solution, SolveWarning, Violation};

use crate::ItemId;

/// Way to decide which plane has each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanePolicy {
    /// OVS-POF-TC's heuristics, repaired so that no plane is over-full.
    Paper,
    /// OVS-POF-TC's heuristics as printed. Planes can be over-full: for experiments alone.
    PaperLiteral,
    /// Mixed integer linear program by branch and bound, for any problem of a few hundred items.
    Milp,
    /// A best assignment in linear time, for one plane beside home and items that weigh the same.
    Exact,
    /// First come, first served, as drivers of NICs do it.
    Fcfs,
    /// Random items.
    Random,
    /// The items that gain most, whatever they weigh.
    Top,
    /// The items that gain more than k times the mean. k adapts to the capacity.
    Threshold,
    /// The items that gain most for a unit of capacity, with what they require.
    Dense,
}

impl PlanePolicy {
    /// All policies.
    pub const ALL: [PlanePolicy; 9] = [
        PlanePolicy::Paper,
        PlanePolicy::PaperLiteral,
        PlanePolicy::Milp,
        PlanePolicy::Exact,
        PlanePolicy::Fcfs,
        PlanePolicy::Random,
        PlanePolicy::Top,
        PlanePolicy::Threshold,
        PlanePolicy::Dense,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            PlanePolicy::Paper => "paper",
            PlanePolicy::PaperLiteral => "paper-literal",
            PlanePolicy::Milp => "milp",
            PlanePolicy::Exact => "exact",
            PlanePolicy::Fcfs => "fcfs",
            PlanePolicy::Random => "random",
            PlanePolicy::Top => "top",
            PlanePolicy::Threshold => "threshold",
            PlanePolicy::Dense => "dense",
        }
    }

    /// Decides. The solution of each policy but `paper-literal` breaks no rule of the problem.
    /// Results depend on problem and options alone, except for a search that the time limit ends.
    ///
    /// # Errors
    /// The policy cannot solve problems of this kind, or the solver fails.
    pub fn solve(self, problem: &Problem, options: &SolveOptions) -> Result<Solution, SolveError> {
        options.check()?;
        let unsupported = |why| SolveError::Unsupported { policy: self, why };
        let within_limits = |state: state::State| limit::limited(problem, state.planes());
        let (mut k, mut bound, mut is_interrupted) = (None, None, false);
        let planes = match self {
            PlanePolicy::Paper => {
                let form = paper::Form::Repaired;
                let planes = paper::solve(problem, &options.paper, form).map_err(unsupported)?;
                limit::limited(problem, &planes)
            }
            PlanePolicy::PaperLiteral => {
                let form = paper::Form::Literal;
                paper::solve(problem, &options.paper, form).map_err(unsupported)?
            }
            PlanePolicy::Milp => {
                let start = dense::solve(problem, options.seed);
                let found = milp::solve(problem, &start, options.time_limit)?;
                (bound, is_interrupted) = (found.bound, found.is_interrupted);
                found.planes
            }
            PlanePolicy::Exact => exact::solve(problem).map_err(unsupported)?,
            PlanePolicy::Fcfs => within_limits(ranked::fcfs(problem)),
            PlanePolicy::Random => within_limits(ranked::random(problem, options.seed)),
            PlanePolicy::Top => within_limits(ranked::top(problem)),
            PlanePolicy::Threshold => {
                let (state, found) = ranked::threshold(problem, options);
                k = Some(found);
                within_limits(state)
            }
            PlanePolicy::Dense => dense::solve(problem, options.seed),
        };
        let mut solution = problem.solution(planes);
        solution.k = k;
        solution.bound = match self {
            PlanePolicy::Exact => Some(solution.objective),
            _ => bound,
        };
        let (_, mut warnings) = problem.move_limits();
        if is_interrupted {
            warnings.push(SolveWarning::TimeLimit);
        }
        if self == PlanePolicy::PaperLiteral {
            let found = problem.violations(&solution.planes);
            warnings.extend(found.into_iter().map(SolveWarning::Violation));
        }
        solution.warnings = warnings;
        Ok(solution)
    }
}

impl fmt::Display for PlanePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Name of no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlanePolicy(String);

impl fmt::Display for UnknownPlanePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = PlanePolicy::ALL.map(PlanePolicy::name).join(", ");
        write!(f, "`{}` is no policy: write one of {names}", self.0)
    }
}

impl std::error::Error for UnknownPlanePolicy {}

impl FromStr for PlanePolicy {
    type Err = UnknownPlanePolicy;

    fn from_str(name: &str) -> Result<PlanePolicy, UnknownPlanePolicy> {
        let mut all = PlanePolicy::ALL.into_iter();
        let found = all.find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPlanePolicy(name.to_owned()))
    }
}

/// Parameters of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Time of the policy `milp`. Other policies do a bounded amount of work.
    pub time_limit: Duration,
    /// Seed of random choices.
    pub seed: u64,
    /// First factor of the policy `threshold`: that of the last solution, or 2.
    pub k: f64,
    /// Coefficients of the policies `paper` and `paper-literal`.
    pub paper: PaperCoefficients,
}

impl Default for SolveOptions {
    fn default() -> Self {
        SolveOptions {
            time_limit: Duration::from_secs(10),
            seed: 1,
            k: 2.0,
            paper: PaperCoefficients::default(),
        }
    }
}

impl SolveOptions {
    fn check(&self) -> Result<(), SolveError> {
        match self.k.is_finite() && self.k > 0.0 {
            true => Ok(()),
            false => Err(SolveError::Factor(self.k)),
        }
    }
}

/// Coefficients of OVS-POF-TC's heuristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperCoefficients {
    /// Throughputs of home for packets of some sizes, in descending order and in the unit of
    /// [`Load`] (B).
    pub throughputs: [u64; 5],
    /// All flows move if more light ones than this are found, and they fit (n1).
    pub n1: usize,
    /// All flows move if more heavy ones than this are found, and they fit (n2).
    pub n2: usize,
    /// Flows are exchanged if more than this leave and enter (n3).
    pub n3: usize,
}

impl Default for PaperCoefficients {
    fn default() -> Self {
        PaperCoefficients {
            throughputs: workload::THROUGHPUTS,
            n1: 500,
            n2: 3,
            n3: 6,
        }
    }
}

/// Property of a problem that a policy cannot handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// There are several planes beside home.
    Planes,
    /// Items have requirements.
    Requirements,
    /// An item does not weigh what the first one does.
    Weights(ItemId),
    /// Moves are limited, and exchanges of old items are not charged.
    MoveLimit,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Planes => f.write_str("several planes beside home"),
            Unsupported::Requirements => f.write_str("requirements between items"),
            Unsupported::Weights(item) => {
                write!(
                    f,
                    "items of different weights (item {} and the first one)",
                    item.0
                )
            }
            Unsupported::MoveLimit => {
                f.write_str("a limit of moves where exchanges of old items are not charged")
            }
        }
    }
}

/// Error of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum SolveError {
    /// The policy cannot solve problems of this kind.
    Unsupported {
        /// The policy.
        policy: PlanePolicy,
        /// The property that it cannot handle.
        why: Unsupported,
    },
    /// The factor k is no positive number.
    Factor(f64),
    /// The solver of linear programs failed.
    Solver(String),
}

impl fmt::Display for SolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SolveError::Unsupported { policy, why } => write!(
                f,
                "the policy {policy} cannot handle {why}: use the policy dense, or milp for a few \
                 hundred items"
            ),
            SolveError::Factor(k) => write!(f, "k is {k}: write a number above 0"),
            SolveError::Solver(message) => write!(
                f,
                "the solver of linear programs failed ({message}): use the policy dense"
            ),
        }
    }
}

impl std::error::Error for SolveError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_and_read() {
        for policy in PlanePolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "hot".parse::<PlanePolicy>().unwrap_err().to_string();
        let text = "`hot` is no policy: write one of paper, paper-literal, milp, exact, fcfs, \
                    random, top, threshold, dense";
        assert_eq!(error, text);
    }
}
