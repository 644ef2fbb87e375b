//! [`Improvement`]: background construction of an index with independent sets, which replaces the
//! current index if it is faster.
//!
//! The benefit of independent sets depends on the rules, the processor and its caches. It is
//! therefore measured: both indexes search the same keys, drawn from the rules, alternately.
//! NuevoMatch leaves this choice to the user (Rashelbach et al., SIGCOMM 2020, section 5.2).

use super::form::Form;
use super::index::Index;
use super::isets::{Independent, Iset, Partition};
use super::layout::Layout;
use super::learned::Learned;
use super::plan::Stream;
use super::records::FlatRule;
use super::search::GROUP;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of key groups in a round of measurement.
const TURN: usize = 64;
/// Number of rounds, each with other keys.
const TURNS: usize = 17;
/// Minimum saving of time in thousandths. A smaller one does not pay, because later updates reduce
/// the benefit of the sets.
const MIN_GAIN: u64 = 100;

/// Index under construction.
#[derive(Debug)]
pub(super) struct Improvement {
    /// Current search structure.
    from: Arc<Form>,
    rules: Vec<FlatRule>,
    stage: Stage,
}

/// Next stage of the work.
#[derive(Debug)]
enum Stage {
    Collect,
    Partition(Partition),
    Train {
        left: Vec<Independent>,
        sets: Vec<Iset>,
        taken: Vec<bool>,
    },
    Others {
        learned: Learned,
        others: Vec<FlatRule>,
    },
    Measure(Box<Index>),
    Done,
}

/// Result of a step.
pub(super) enum Progress {
    More,
    Better(Box<Index>),
    NoBetter,
}

impl Improvement {
    /// Starts the improvement of an index. Returns `None` for other forms, which stay as they are.
    pub(super) fn new(from: Arc<Form>) -> Option<Self> {
        from.index().is_some().then(|| Self {
            from,
            rules: Vec::new(),
            stage: Stage::Collect,
        })
    }

    fn from(&self) -> &Index {
        self.from.index().expect("it was made from an index")
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.from().layout
    }

    /// Does one step of the work.
    pub(super) fn step(&mut self) -> Progress {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Collect => {
                self.rules = self.from().rules();
                Stage::Partition(Partition::new(self.layout(), self.rules.len()))
            }
            Stage::Partition(mut partition) => {
                if partition.step(&self.rules) {
                    Stage::Partition(partition)
                } else {
                    let (mut left, taken) = partition.finish();
                    left.reverse();
                    let sets = Vec::new();
                    Stage::Train { left, sets, taken }
                }
            }
            Stage::Train {
                mut left,
                mut sets,
                taken,
            } => match left.pop() {
                Some(set) => {
                    sets.push(Iset::new(self.layout(), &self.rules, &set));
                    Stage::Train { left, sets, taken }
                }
                None => self.others(sets, &taken),
            },
            Stage::Others { learned, others } => {
                let index = Index::new(self.layout(), learned, others, &self.rules);
                Stage::Measure(Box::new(index))
            }
            Stage::Measure(index) => {
                return if self.is_faster(&index) {
                    Progress::Better(index)
                } else {
                    Progress::NoBetter
                };
            }
            Stage::Done => return Progress::NoBetter,
        };
        Progress::More
    }

    fn others(&self, sets: Vec<Iset>, taken: &[bool]) -> Stage {
        if sets.is_empty() {
            return Stage::Done;
        }
        let others = self.rules.iter().zip(taken).filter(|(_, taken)| !**taken);
        Stage::Others {
            learned: Learned::new(sets),
            others: others.map(|(rule, _)| rule.clone()).collect(),
        }
    }

    /// Returns true if this index takes less time than the current one, in the median round.
    fn is_faster(&self, index: &Index) -> bool {
        let mut stream = Stream(0x6a09_e667_f3bc_c909);
        let mut shares: Vec<u64> = (0..TURNS)
            .map(|turn| {
                let keys = self.keys(&mut stream);
                // The second index finds the keys in the cache, so the order alternates.
                let (old, new) = if turn % 2 == 0 {
                    let old = time(self.from(), &keys);
                    (old, time(index, &keys))
                } else {
                    let new = time(index, &keys);
                    (time(self.from(), &keys), new)
                };
                (new.as_nanos() * 1000 / old.as_nanos().max(1)) as u64
            })
            .collect();
        shares.sort_unstable();
        shares[TURNS / 2] + MIN_GAIN <= 1000
    }

    /// Returns the index that would be measured.
    #[cfg(test)]
    pub(super) fn unmeasured(mut self) -> Option<Index> {
        loop {
            if let Stage::Measure(index) = self.stage {
                return Some(*index);
            }
            if !matches!(self.step(), Progress::More) {
                return None;
            }
        }
    }

    /// Returns packed keys for one round.
    fn keys(&self, stream: &mut Stream) -> Vec<u64> {
        let mut keys = Vec::with_capacity(TURN * GROUP * self.layout().words);
        for _ in 0..TURN * GROUP {
            let rule = &self.rules[stream.below(self.rules.len())];
            keys.extend_from_slice(&self.layout().key_in(rule, || stream.next()));
        }
        keys
    }
}

/// Measures the time that an index takes for these keys.
fn time(index: &Index, keys: &[u64]) -> Duration {
    let start = Instant::now();
    for keys in keys.chunks(GROUP * index.layout.words) {
        black_box(index.search_words(keys));
    }
    start.elapsed()
}
