//! [`Model`]: learned index that predicts the position of a number in a sorted list of intervals.
//!
//! It is a range-query recursive model index (RQ-RMI) of three stages. The result of a submodel
//! selects the submodel of the next stage. The result of the last stage is a position with a
//! bounded error (Rashelbach, Rottenstreich and Silberstein, "A Computational Approach to Packet
//! Classification", SIGCOMM 2020).
//!
//! In the paper, a submodel is a network with one hidden layer of rectified units, which computes a
//! piecewise linear function. Here that function is stored directly, as knots in integers. Training
//! is therefore a choice of knots without gradient descent, and the error bound is exact (section
//! 3.5 of the paper). Each piece is monotone, so the error is largest at the ends of an interval or
//! where the responsible submodel changes. All of these points are checked.

/// Number of pieces of a submodel of the upper stages: the number of hidden units plus one.
const PIECES: usize = 8;
/// Maximum number of submodels of the second stage.
const SECOND_STAGE: usize = 64;
/// Binary logarithm of the average number of positions for a submodel of the last stage.
const LEAF_BITS: u32 = 5;
/// Approximate number of intervals on which an upper submodel is trained.
const SAMPLES: usize = 2048;
/// Number of values that a search compares at once.
pub(super) const AT_ONCE: usize = 8;

/// First and last number, both inclusive.
pub(super) type Interval = (u32, u32);

/// Predictor of the positions of disjoint intervals, in order.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) root: Submodel,
    /// Right shift that converts the root's result, a position, to the index of a submodel of the
    /// second stage.
    pub(super) root_shift: u32,
    pub(super) second: Box<[Submodel]>,
    leaves: Box<[Leaf]>,
}

/// Monotone piecewise linear function.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
pub(super) struct Submodel {
    /// Starts of the pieces. The last one is repeated if there are fewer than [`PIECES`].
    pub(super) knots: [u32; PIECES],
    pub(super) values: [u32; PIECES],
    /// In units of 2^-32. A position is at least one number wide, so slopes are at most 1.
    pub(super) slopes: [u32; PIECES],
}

/// Submodel of the last stage: one linear piece, and the maximum distance from its result to the
/// position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) knot: u32,
    pub(super) slope: u32,
    pub(super) value: i32,
    pub(super) span: u32,
}

#[inline(always)]
fn line(x: u32, knot: u32, slope: u32) -> u32 {
    ((u64::from(x.saturating_sub(knot)) * u64::from(slope)) >> 32) as u32
}

/// Returns `rise / run` in units of 2^-32.
fn slope(rise: f64, run: f64) -> u32 {
    (rise / run * 4_294_967_296.0) as u32
}

impl Submodel {
    #[inline(always)]
    fn at(&self, x: u32) -> u32 {
        let passed: u32 = self.knots.iter().map(|&knot| u32::from(knot <= x)).sum();
        let piece = (passed as usize).saturating_sub(1) % PIECES;
        self.values[piece].saturating_add(line(x, self.knots[piece], self.slopes[piece]))
    }

    /// Fits the function through some of the points, which must be monotone. Repeatedly adds the
    /// point with the largest deviation.
    fn through(points: &[(u32, u32)]) -> Self {
        let Some(last) = points.len().checked_sub(1) else {
            return Self::default();
        };
        let mut corners = vec![0, last];
        let mut worst: Vec<Option<(u64, usize)>> = vec![farthest(points, 0, last)];
        while corners.len() <= PIECES {
            let deviations = worst.iter().enumerate();
            let split =
                deviations.filter_map(|(piece, worst)| worst.map(|(by, at)| (by, at, piece)));
            let Some((_, at, piece)) = split.max() else {
                break;
            };
            let (from, to) = (corners[piece], corners[piece + 1]);
            corners.insert(piece + 1, at);
            worst[piece] = farthest(points, from, at);
            worst.insert(piece + 1, farthest(points, at, to));
        }
        let mut submodel = Self::default();
        for piece in 0..PIECES {
            let piece_or_last = piece.min(corners.len() - 2);
            let (from, to) = (corners[piece_or_last], corners[piece_or_last + 1]);
            let ((x, y), (end_x, end_y)) = (points[from], points[to]);
            submodel.knots[piece] = x;
            submodel.values[piece] = y;
            submodel.slopes[piece] = slope(f64::from(end_y - y), f64::from(end_x - x).max(1.0));
        }
        submodel
    }
}

/// Returns the point between two others with the largest deviation from the line through them, and
/// the deviation, if it is not 0.
fn farthest(points: &[(u32, u32)], from: usize, to: usize) -> Option<(u64, usize)> {
    let ((x, y), (end_x, end_y)) = (points[from], points[to]);
    let slope = f64::from(end_y - y) / f64::from(end_x - x).max(1.0);
    let off = |at: usize| {
        let (at_x, at_y) = points[at];
        let line = f64::from(y) + f64::from(at_x - x) * slope;
        (f64::from(at_y) - line).abs() as u64
    };
    let inner = (from + 1..to).map(|at| (off(at), at));
    inner.max().filter(|&(by, _)| by > 0)
}

/// Accumulator of sums for a linear regression. Coordinates are relative to the first point.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    first: Option<(u32, u32)>,
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Fit {
    fn add(&mut self, x: u32, place: u32) {
        let (first_x, first_place) = *self.first.get_or_insert((x, place));
        let (x, y) = (
            f64::from(x) - f64::from(first_x),
            f64::from(place) - f64::from(first_place),
        );
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Returns the least-squares line, without its offset.
    fn leaf(&self) -> Leaf {
        let run = self.xx * self.count - self.x * self.x;
        let rise = self.xy * self.count - self.x * self.y;
        Leaf {
            knot: self.first.map_or(0, |(x, _)| x),
            slope: if run > 0.0 { slope(rise, run) } else { 0 },
            value: 0,
            span: 0,
        }
    }
}

impl Model {
    /// Trains a model for these intervals, which must be in order and disjoint. There must be fewer
    /// than 2^31.
    pub(super) fn train(intervals: &[Interval]) -> Self {
        let root = Submodel::through(&points(intervals, 0));
        let places = intervals.len();
        let root_shift = places.div_ceil(SECOND_STAGE).next_power_of_two().ilog2();
        let mut model = Self {
            root,
            root_shift,
            second: vec![Submodel::default(); (places >> root_shift) + 1].into(),
            leaves: vec![Leaf::default(); (places >> LEAF_BITS) + 1].into(),
        };
        for which in 0..model.second.len() {
            let (from, to) = model.served_by(which);
            let first = intervals.partition_point(|interval| interval.1 < from);
            let end = intervals.partition_point(|interval| interval.0 <= to);
            model.second[which] =
                Submodel::through(&points(&intervals[first..end.max(first)], first));
        }
        let mut fits = vec![Fit::default(); model.leaves.len()];
        model.for_each_end(intervals, |leaf, x, place| fits[leaf].add(x, place));
        model.leaves = fits.iter().map(Fit::leaf).collect();
        model.bound(intervals);
        model
    }

    /// Sets the offsets and spans of the leaves so that no interval is missed.
    fn bound(&mut self, intervals: &[Interval]) {
        let mut errors = vec![(i64::MAX, i64::MIN); self.leaves.len()];
        self.for_each_end(intervals, |at, x, place| {
            let leaf = self.leaves[at];
            let error = i64::from(place) - i64::from(line(x, leaf.knot, leaf.slope));
            errors[at] = (errors[at].0.min(error), errors[at].1.max(error));
        });
        for (leaf, (least, most)) in self.leaves.iter_mut().zip(errors) {
            if least <= most {
                leaf.value = least as i32;
                leaf.span = (most - least) as u32;
            }
        }
    }

    /// Returns the range of numbers for which the root selects a submodel of the second stage. It
    /// is empty if its start is greater than its end.
    fn served_by(&self, which: usize) -> Interval {
        let from = first_where(0, u32::MAX, |x| self.second_of(x) >= which);
        let behind = first_where(0, u32::MAX, |x| self.second_of(x) > which);
        match (from, behind) {
            (Some(from), Some(behind)) => (from, behind.saturating_sub(1)),
            (Some(from), None) => (from, u32::MAX),
            (None, _) => (1, 0),
        }
    }

    /// Calls `each(leaf, number, position)` with both ends of each maximal range of numbers that is
    /// in one interval and has the same leaf.
    fn for_each_end(&self, intervals: &[Interval], mut each: impl FnMut(usize, u32, u32)) {
        for which in 0..self.second.len() {
            let (from, to) = self.served_by(which);
            if from > to {
                continue;
            }
            let first = intervals.partition_point(|interval| interval.1 < from);
            let inside = intervals[first..].iter().zip(first as u32..);
            for (&(lo, hi), place) in inside.take_while(|((lo, _), _)| *lo <= to) {
                let (mut lo, hi) = (lo.max(from), hi.min(to));
                let last = self.leaf_of(which, hi);
                loop {
                    let leaf = self.leaf_of(which, lo);
                    each(leaf, lo, place);
                    if leaf == last {
                        each(leaf, hi, place);
                        break;
                    }
                    let behind =
                        first_where(lo, hi, |x| self.leaf_of(which, x) > leaf).unwrap_or(hi);
                    each(leaf, behind - 1, place);
                    lo = behind;
                }
            }
        }
    }

    #[inline(always)]
    fn second_of(&self, x: u32) -> usize {
        (self.root.at(x) >> self.root_shift) as usize
    }

    #[inline(always)]
    fn leaf_of(&self, second: usize, x: u32) -> usize {
        let place = self.second.get(second).map_or(0, |submodel| submodel.at(x));
        ((place >> LEAF_BITS) as usize).min(self.leaves.len() - 1)
    }

    /// Returns the index of the leaf for a number.
    #[inline(always)]
    pub(super) fn leaf(&self, x: u32) -> usize {
        self.leaf_of(self.second_of(x), x)
    }

    /// Returns all leaves, for prefetching.
    #[inline(always)]
    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + (self.second.len() + 1) * size_of::<Submodel>()
    }
}

impl Leaf {
    /// Returns the first possible position of the interval with `x`. The actual position is at most
    /// [`span`](Self::span) further.
    #[inline(always)]
    pub(super) fn place(self, x: u32) -> usize {
        let place = i64::from(line(x, self.knot, self.slope)) + i64::from(self.value);
        place.max(0) as usize
    }

    /// Returns the maximum distance from [`place`](Self::place) to the actual position.
    #[inline(always)]
    pub(super) fn span(self) -> usize {
        self.span as usize
    }
}

/// Returns the ends of some of the intervals with their positions. The first interval has position
/// `first`.
fn points(intervals: &[Interval], first: usize) -> Vec<(u32, u32)> {
    let step = intervals.len().div_ceil(SAMPLES).max(1);
    let last = intervals.len().saturating_sub(1);
    let chosen = (0..last).step_by(step).chain(last..intervals.len());
    let ends = |at: usize| {
        let ((lo, hi), place) = (intervals[at], (first + at) as u32);
        [(lo, place), (hi, place)]
    };
    let mut points: Vec<(u32, u32)> = chosen.flat_map(ends).collect();
    points.dedup();
    points
}

/// Returns the first number in the range for which `is_so` holds. It must then hold for all greater
/// ones.
fn first_where(from: u32, to: u32, is_so: impl Fn(u32) -> bool) -> Option<u32> {
    if !is_so(to) {
        return None;
    }
    let (mut from, mut to) = (from, to);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_so(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    Some(to)
}
