//! Numbers by reason, for a limited number of different reasons.

use std::collections::BTreeMap;

/// Number of different reasons that are counted apart.
const MAX_REASONS: usize = 64;

/// Reason under which all further ones are counted.
const OTHERS: &str = "other reasons";

/// Numbers by reason. Words can have numbers of ports, so there can be many.
#[derive(Debug, Default)]
pub(super) struct ReasonCounts(BTreeMap<String, u64>);

impl ReasonCounts {
    /// Adds a number to that of a reason.
    pub(super) fn add(&mut self, words: &str, number: u64) {
        let is_known = self.0.contains_key(words);
        let words = match is_known || self.0.len() < MAX_REASONS {
            true => words,
            false => OTHERS,
        };
        *self.0.entry(words.to_owned()).or_default() += number;
    }

    /// Returns all reasons with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let reasons = self.0.iter();
        reasons.map(|(reason, number)| (reason.as_str(), *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_reasons_is_limited_and_no_number_is_lost() {
        let mut counts = ReasonCounts::default();
        for port in 0..1_000 {
            counts.add(&format!("port {port}"), 2);
            counts.add("port 0", 1);
        }
        assert_eq!(counts.iter().count(), MAX_REASONS + 1);
        assert_eq!(counts.iter().map(|(_, number)| number).sum::<u64>(), 3_000);
        let of = |words: &str| counts.iter().find(|(reason, _)| *reason == words);
        assert_eq!(of("port 0"), Some(("port 0", 1_002)));
        let apart = MAX_REASONS as u64;
        assert_eq!(of(OTHERS), Some((OTHERS, 2 * (1_000 - apart))));
    }
}
