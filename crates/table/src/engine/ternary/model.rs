//! [`Model`]: where in a sorted list of intervals a number lies, learned from the intervals.
//!
//! A range-query recursive model index (RQ-RMI) of three stages: a submodel's answer chooses the submodel of the next stage, and the answer of
//! the last stage is a place, wrong by a bounded number of places (Rashelbach, Rottenstreich and Silberstein, "A Computational Approach to
//! Packet Classification", SIGCOMM 2020). A network with one hidden layer of rectified units, which a submodel is there, computes a piecewise
//! linear function; here it is kept as that, by its knots, in whole numbers. So training is the choice of knots, with no descent along
//! gradients, and the bound is exact (section 3.5 there): every piece rises, so it is wrong the most at the ends of an interval or where the
//! responsible submodel changes, and all of these are looked at.

/// Pieces of a submodel of the upper stages: hidden units and one.
const PIECES: usize = 8;
/// Submodels of the second stage, at most.
const SECOND_STAGE: usize = 64;
/// Places that a submodel of the last stage is for, on average, as a power of two.
const LEAF_BITS: u32 = 5;
/// Intervals that an upper submodel is trained on, about.
const SAMPLES: usize = 2048;
/// Numbers that a search compares at once.
pub(super) const AT_ONCE: usize = 8;

/// Numbers from the first to the last, both inclusive.
pub(super) type Interval = (u32, u32);

/// The places of intervals that have no number in common, in order.
#[derive(Debug, Clone)]
pub(super) struct Model {
    root: Submodel,
    /// The root's answer in places, shifted by so much, is the number of a submodel of the second stage.
    root_shift: u32,
    second: Box<[Submodel]>,
    leaves: Box<[Leaf]>,
}

/// A function that rises, piece by piece in a line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct Submodel {
    /// Where each piece begins; the last one is there several times if there are fewer.
    knots: [u32; PIECES],
    values: [u32; PIECES],
    /// In parts of 2^32: a place is at least one number wide.
    slopes: [u32; PIECES],
}

/// A submodel of the last stage: one piece, and how far behind its answer the place may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    knot: u32,
    slope: u32,
    value: i32,
    span: u32,
}

#[inline(always)]
fn line(x: u32, knot: u32, slope: u32) -> u32 {
    ((u64::from(x.saturating_sub(knot)) * u64::from(slope)) >> 32) as u32
}

/// `rise / run` in parts of 2^32.
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

    /// The function through some of the points, which rise: again and again the point that is farthest from it.
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

/// The point between two that is farthest from the line through them, and how far, if it is not on it.
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

/// What a leaf is fitted to: sums over points, places and numbers less the first ones.
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

    /// The line with the least squares of errors, without its height.
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
    /// A model of these intervals, which are in order and have no number in common. There are fewer than 2^31.
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

    /// Heights and spans of leaves such that no interval is missed.
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

    /// The numbers for which the root chooses a submodel of the second stage; none if the first is greater than the last.
    fn served_by(&self, which: usize) -> Interval {
        let from = first_where(0, u32::MAX, |x| self.second_of(x) >= which);
        let behind = first_where(0, u32::MAX, |x| self.second_of(x) > which);
        match (from, behind) {
            (Some(from), Some(behind)) => (from, behind.saturating_sub(1)),
            (Some(from), None) => (from, u32::MAX),
            (None, _) => (1, 0),
        }
    }

    /// Calls `each` with the ends of all stretches of numbers that lie in one interval and are served by the same leaf: leaf, number, place.
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

    /// Which leaf serves a number.
    #[inline(always)]
    pub(super) fn leaf(&self, x: u32) -> usize {
        self.leaf_of(self.second_of(x), x)
    }

    /// All leaves, to be asked for before they are read.
    #[inline(always)]
    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + (self.second.len() + 1) * size_of::<Submodel>()
    }
}

impl Leaf {
    /// The first place at which the interval of `x` may be; it is at most [`span`](Self::span) places behind.
    #[inline(always)]
    pub(super) fn place(self, x: u32) -> usize {
        let place = i64::from(line(x, self.knot, self.slope)) + i64::from(self.value);
        place.max(0) as usize
    }

    /// See [`place`](Self::place).
    #[inline(always)]
    pub(super) fn span(self) -> usize {
        self.span as usize
    }
}

/// The ends of some of the intervals with their places, of which the first is `first`.
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

/// The first number of these for which `is_so` holds, which then holds for all greater ones.
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
