//! Prefetch list: cache lines that every packet of a device reads. They are listed when a state is
//! first used. They are prefetched together when a burst has few packets.
//!
//! A single packet of a device that was idle finds none of the device's data in the near caches. It
//! reads many small structures, each found through the one before, so most of its time is spent
//! waiting for memory. Prefetching all lines at once takes a few cycles if they are in a near
//! cache. Larger bursts are prefetched in stages ([`exec::Fused::prefetch`]).

use exec::State;
use table::prefetch::{prefetch, prefetch_at, tell_few_lines_of, tell_lines_of};
use table::{CounterShard, Lookup};

use crate::abi::{Code, LINE};

/// Maximum number of lines of words that are prefetched, and of lines that are listed. The
/// processor does not fetch more lines in parallel.
const MAX: usize = 32;

/// Maximum number of lines of a hash table for which all lines are listed. With so few lines each
/// is likely to be read.
const FEW: u64 = 2;

/// Number of words of a cache line.
const WORDS: usize = LINE / size_of::<u64>();

/// Appends the lines to the words of a state, followed by their number.
pub(crate) fn list(words: &mut Vec<u64>, state: &State, lane: CounterShard, code: &Code) {
    let begin = words.len();
    // Reserves the capacity here. The list must not reallocate while packets are processed.
    words.reserve(MAX + 1);
    let mut tell = |address: usize| {
        let line = (address - address % LINE) as u64;
        let listed = &words[begin..];
        if listed.len() < MAX && !listed.contains(&line) {
            words.push(line);
        }
    };
    for (table, site) in state.tables.iter().zip(code.tables.values()) {
        tell_few_lines_of(table.lookup.totals().lane(lane), &mut tell);
        tell_few_lines_of(table.lookup.records().limbs(), &mut tell);
        let trie = table.lookup.trie();
        if let Some(trie) = trie.filter(|_| code.trie_tables.contains(&site.id)) {
            tell_few_lines_of(trie.slots, &mut tell);
        } else if !tell_native_index(&table.lookup, &mut tell) && code.is_searched(site.id) {
            tell_lines_of(&state.tables, &mut tell);
            tell_lines_of(table, &mut tell);
            table.lookup.tell_common(&mut tell);
        }
    }
    words.push((words.len() - begin) as u64);
}

/// Lists the lines of the index that native code searches itself. Returns false if there is none.
fn tell_native_index(lookup: &Lookup, tell: &mut dyn FnMut(usize)) -> bool {
    if let Some(direct) = lookup.direct() {
        tell_few_lines_of(direct.slots, tell);
    } else if let Some(vectors) = lookup.vectors() {
        for part in vectors.parts() {
            tell_few_lines_of(part.starts, tell);
            tell(part.rows.addr());
        }
    } else if let Some(hashed) = lookup.hashed() {
        if hashed.count <= FEW {
            let lines = 0..hashed.count as usize;
            lines.for_each(|line| tell(hashed.lines + line * LINE));
        }
    } else {
        return false;
    }
    true
}

/// Prefetches these words, and the lines that [`list`] appended to them.
#[inline]
pub(crate) fn prefetch_all(words: &[u64]) {
    (0..words.len().min(MAX * WORDS))
        .step_by(WORDS)
        .for_each(|at| prefetch(words, at));
    let Some((&count, words)) = words.split_last() else {
        return;
    };
    let lines = words.iter().rev().take(count as usize);
    lines.for_each(|&line| prefetch_at(line as usize));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lookup_buffer::tests::compiled;
    use exec::Configuration;

    /// Returns the list of a program with this number of searched tables without entries, and its
    /// state.
    fn listed(tables: usize, kind: &str) -> (Vec<u64>, State) {
        let name = |number: usize| match number {
            number if number < tables => format!("t{number}"),
            _ => "end".to_owned(),
        };
        let declared = (0..tables).map(|number| {
            format!(
                "table {} {{\n key a: {kind} as bit<32> = h.a;\n action none table_and_default;\n default none();\n size 4096 declared;\n}}\n",
                name(number)
            )
        });
        let stages = (0..tables).map(|number| {
            format!(
                " stage {0}: match {0} next {1};\n",
                name(number),
                name(number + 1)
            )
        });
        let text = format!(
            "program t own\nheader_type h_t {{\n a: bit<32>;\n}}\nheader h: h_t\nparser p start s {{\n state s {{\n extract h;\n goto accept;\n }}\n}}\n\
            action none() {{\n}}\n{}control c {{\n{}}}\n",
            declared.collect::<String>(),
            stages.collect::<String>(),
        );
        let (program, compiled) = compiled(&text);
        let configuration = Configuration::new(Arc::new(program));
        let state = configuration.expect("it has no entries").snapshot();
        let mut words = vec![7; 5];
        list(&mut words, &state, CounterShard::new(0), &compiled.code);
        (words, state)
    }

    /// Key that the table's own code looks up. Native code would search a key that is only a
    /// prefix.
    const SEARCHED: &str = "lpm as bit<32> = h.a;\n key b: exact";

    #[test]
    fn lines_that_every_lookup_reads_are_listed_once_each() {
        let (words, state) = listed(1, SEARCHED);
        let mut read = Vec::new();
        let lookup = &state.tables[0].lookup;
        lookup.tell_common(&mut |address| read.push(address));
        let (count, lines) = words[5..].split_last().expect("how many they are");
        assert_eq!(*count as usize, lines.len());
        assert!(lines.iter().all(|line| line % LINE as u64 == 0));
        let mut once = lines.to_vec();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), lines.len());
        // The lookup structure, and the index that it refers to.
        assert!(read.len() >= 4, "{read:?}");
        let is_listed = |address: usize| lines.contains(&((address - address % LINE) as u64));
        assert!(read.into_iter().all(is_listed));
        // Any contents are accepted.
        prefetch_all(&words);
        prefetch_all(&[u64::MAX; 3]);
        prefetch_all(&[]);
    }

    #[test]
    fn nothing_but_slots_is_listed_where_native_code_looks_up_prefixes() {
        let (words, state) = listed(1, "lpm");
        let (_, lines) = words[5..].split_last().expect("how many they are");
        let lookup = &state.tables[0].lookup;
        // Unrelated data may share a listed line. So the check uses the reported addresses, not the
        // contents of the lines.
        let mut told = Vec::new();
        let mut tell = |address: usize| {
            let line = (address - address % LINE) as u64;
            if !told.contains(&line) {
                told.push(line);
            }
        };
        tell_few_lines_of(lookup.totals().lane(CounterShard::new(0)), &mut tell);
        tell_few_lines_of(lookup.records().limbs(), &mut tell);
        let trie = lookup.trie().expect("it has prefixes alone");
        tell_few_lines_of(trie.slots, &mut tell);
        assert_eq!(lines, told);
    }

    #[test]
    fn what_is_empty_has_no_lines() {
        // A table with few rules, none of which has equivalence classes.
        let (words, _) = listed(1, "ternary");
        let (_, lines) = words[5..].split_last().expect("how many they are");
        assert!(!lines.is_empty() && !lines.contains(&0), "{lines:?}");
    }

    #[test]
    fn no_more_lines_are_listed_than_are_asked_for_together() {
        let (words, _) = listed(20, SEARCHED);
        assert_eq!(words.len(), 5 + MAX + 1);
        assert_eq!(words.last(), Some(&(MAX as u64)));
    }
}
