//! Data of mappers, made from a seed: in number and distribution as in the paper (section V-A).
//!
//! The paper's data sets are not public. Each mapper has a twelfth of a set, whatever the number
//! of mappers is.

use std::collections::BTreeMap;

use aggregate::{Input, KeyClass, Operator, Pair, Shape, ValueClass};
use support::rng::{Rng, Weighted};

/// Number of parts of a data set.
const PARTS: u64 = 12;

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataSet {
    /// Number of occurrences of words.
    Words,
    /// Number of links to each page.
    Links,
    /// Bytes of flows.
    Flows,
}

impl DataSet {
    pub(super) const ALL: [DataSet; 3] = [DataSet::Words, DataSet::Links, DataSet::Flows];

    pub(super) fn name(self) -> &'static str {
        match self {
            DataSet::Words => "words",
            DataSet::Links => "links",
            DataSet::Flows => "flows",
        }
    }

    /// Returns the number of distinct keys that the paper has.
    fn keys(self) -> f64 {
        match self {
            DataSet::Words => 5_105_919.0,
            DataSet::Links => 875_713.0,
            DataSet::Flows => 20e6,
        }
    }

    /// Returns the number of occurrences of keys. The paper has that of links and of packets;
    /// words occur twenty times each, as packets of flows do.
    fn occurrences(self) -> f64 {
        match self {
            DataSet::Words => 20.0 * 5_105_919.0,
            DataSet::Links => 5_105_039.0,
            DataSet::Flows => 400e6,
        }
    }

    /// Returns the exponent of Zipf's distribution of the occurrences over the keys. That of links
    /// follows from numbers of links with an exponent of 2.1, as those of pages of the Web.
    fn exponent(self) -> f64 {
        match self {
            DataSet::Words | DataSet::Flows => 1.0,
            DataSet::Links => 0.9,
        }
    }

    /// Returns the classes of keys and values, and the operator.
    pub(super) fn shape(self) -> Shape {
        Shape {
            operator: Operator::Add,
            keys: KeyClass::B16,
            values: ValueClass::I64,
        }
    }

    /// Returns the data of `mappers` mappers, of the share `scale` of the data set.
    pub(super) fn inputs(self, scale: f64, mappers: usize, seed: u64) -> Vec<Input> {
        let keys = (self.keys() * scale).ceil().max(1.0) as usize;
        let weights: Vec<f64> = (1..=keys)
            .map(|rank| (rank as f64).powf(-self.exponent()))
            .collect();
        let chosen = Weighted::new(&weights);
        let drawn = (self.occurrences() * scale) as u64 / PARTS;
        let of_mapper = |mapper: usize| {
            let mut rng = Rng::new(seed.wrapping_mul(0x9e37).wrapping_add(mapper as u64));
            let mut sums: BTreeMap<usize, i128> = BTreeMap::new();
            for _ in 0..drawn {
                let value = match self {
                    DataSet::Flows => i128::from(rng.between(64, 1500)),
                    DataSet::Words | DataSet::Links => 1,
                };
                *sums.entry(chosen.choose(&mut rng)).or_default() += value;
            }
            let pairs = sums.into_iter();
            let pairs = pairs.map(|(key, value)| Pair::new(self.key(key), value));
            Input::Pairs(pairs.collect())
        };
        (0..mappers).map(of_mapper).collect()
    }

    fn key(self, number: usize) -> Vec<u8> {
        match self {
            DataSet::Words => word(number),
            DataSet::Links => number.to_string().into_bytes(),
            // Addresses, ports and protocol.
            DataSet::Flows => {
                let mut key = vec![10, 0, 0, 0, 10, 1, 0, 1];
                key.extend_from_slice(&(number as u32).to_be_bytes());
                key.push(6);
                key
            }
        }
    }
}

/// Returns the word with a number: letters, a different word for each number.
fn word(mut number: usize) -> Vec<u8> {
    let mut word = Vec::new();
    loop {
        word.push(b'a' + (number % 26) as u8);
        number /= 26;
        match number.checked_sub(1) {
            Some(rest) => number = rest,
            None => return word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_of_different_numbers_differ() {
        let words: HashSet<Vec<u8>> = (0..100_000).map(word).collect();
        assert_eq!(words.len(), 100_000);
    }

    #[test]
    fn a_mapper_has_a_twelfth_of_the_set_at_every_ratio() {
        for set in [DataSet::Words, DataSet::Links] {
            let few = set.inputs(0.001, 3, 1);
            let many = set.inputs(0.001, 12, 1);
            assert_eq!(few[..], many[..3], "{}", set.name());
            let pairs = many.iter().flat_map(Input::pairs);
            let sum: i128 = pairs.map(|pair| pair.value).sum();
            let all = (set.occurrences() * 0.001) as i128;
            assert!((all - 12..=all).contains(&sum), "{} of {all}", sum);
        }
    }
}
