//! Tags of a set-associative cache with least-recently-used replacement. Data are in memory: the
//! cache decides times only.

/// Bytes of a line.
pub(crate) const LINE_BYTES: u64 = 64;

/// A way that holds no line.
const EMPTY: u64 = u64::MAX;

/// Tags of a cache.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// The lines of each set, the most recently used first.
    lines: Vec<u64>,
    ways: usize,
    set_mask: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl Cache {
    /// Creates an empty cache. The number of sets is rounded down to a power of two, at least 1.
    pub(crate) fn new(bytes: u64, ways: u64) -> Self {
        let sets = (bytes / LINE_BYTES / ways.max(1)).max(1);
        let sets = 1 << sets.ilog2();
        let ways = ways.max(1) as usize;
        Self {
            lines: vec![EMPTY; sets as usize * ways],
            ways,
            set_mask: sets - 1,
            hits: 0,
            misses: 0,
        }
    }

    /// Accesses the line of an address. Returns true if the cache has it; it has it afterwards.
    pub(crate) fn access(&mut self, address: u64) -> bool {
        let line = address / LINE_BYTES;
        let start = (line & self.set_mask) as usize * self.ways;
        let set = &mut self.lines[start..start + self.ways];
        let place = set.iter().position(|&held| held == line);
        let is_hit = place.is_some();
        set[..=place.unwrap_or(self.ways - 1)].rotate_right(1);
        set[0] = line;
        if is_hit {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        is_hit
    }

    /// Removes all lines.
    pub(crate) fn clear(&mut self) {
        self.lines.fill(EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn hits_are_those_of_a_naive_model(accesses in prop::collection::vec(0u64..64, 0..400)) {
            let mut cache = Cache::new(8 * LINE_BYTES, 2);
            let mut sets: HashMap<u64, Vec<u64>> = HashMap::new();
            for line in accesses {
                let set = sets.entry(line % 4).or_default();
                let expected = set.contains(&line);
                set.retain(|&held| held != line);
                set.push(line);
                if set.len() > 2 {
                    set.remove(0);
                }
                prop_assert_eq!(cache.access(line * LINE_BYTES + 7), expected);
            }
        }
    }
}
