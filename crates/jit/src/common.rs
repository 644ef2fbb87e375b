//! What packets of a device read whatever they are: cache lines that are listed when a state is seen for the first time, and asked for together when few packets come.
//!
//! A packet that comes alone, of a device whose last one came long ago, finds nothing of it in the near caches. What it reads there is many small things, each found by the one before: to wait
//! for one after the other is most of what such a packet takes, and to ask for all of them at once takes a few cycles where they are near. Larger bursts ask ahead ([`exec::Fused::ask_for`]).

use exec::State;
use table::prefetch::{prefetch, prefetch_at, tell_few_lines_of, tell_lines_of};
use table::{Lane, Lookup};

use crate::abi::{Code, LINE};

/// Lines of words that are asked for, and lines that are listed, at most: more than that the processor would not ask for together.
const MOST: usize = 32;

/// Lines of a hash table of which one is likely to be read whatever the key, at most.
const FEW: u64 = 2;

/// Words of a line.
const WORDS: usize = LINE / size_of::<u64>();

/// Adds the lines to the words of a state, and behind them how many they are.
pub(crate) fn list(words: &mut Vec<u64>, state: &State, lane: Lane, code: &Code) {
    let begin = words.len();
    // Other states have other lists: of none of them room is made where packets go.
    words.reserve(MOST + 1);
    let mut tell = |address: usize| {
        let line = (address - address % LINE) as u64;
        let listed = &words[begin..];
        if listed.len() < MOST && !listed.contains(&line) {
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

/// Tells of the index in which native code looks keys up by itself; whether there is one.
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

/// Asks the processor for these words, and for the lines that [`list`] added to them.
#[inline]
pub(crate) fn ask_for(words: &[u64]) {
    (0..words.len().min(MOST * WORDS))
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
    use crate::notes::tests::compiled;
    use exec::Configuration;

    /// The lines of a program with so many tables that are searched, without entries, and its state.
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
        list(&mut words, &state, Lane::new(0), &compiled.code);
        (words, state)
    }

    /// A key that the table looks up: native code does so with prefixes, unless there is something beside.
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
        // The lookup, and the index that it goes to.
        assert!(read.len() >= 4, "{read:?}");
        let is_listed = |address: usize| lines.contains(&((address - address % LINE) as u64));
        assert!(read.into_iter().all(is_listed));
        // Whatever is there.
        ask_for(&words);
        ask_for(&[u64::MAX; 3]);
        ask_for(&[]);
    }

    #[test]
    fn nothing_but_slots_is_listed_where_native_code_looks_up_prefixes() {
        let (words, state) = listed(1, "lpm");
        let (_, lines) = words[5..].split_last().expect("how many they are");
        let lookup = &state.tables[0].lookup;
        // Lines that things beside lie in by chance may be among them: what is told is asked, not what is in its lines.
        let mut told = Vec::new();
        let mut tell = |address: usize| {
            let line = (address - address % LINE) as u64;
            if !told.contains(&line) {
                told.push(line);
            }
        };
        tell_few_lines_of(lookup.totals().lane(Lane::new(0)), &mut tell);
        tell_few_lines_of(lookup.records().limbs(), &mut tell);
        let trie = lookup.trie().expect("it has prefixes alone");
        tell_few_lines_of(trie.slots, &mut tell);
        assert_eq!(lines, told);
    }

    #[test]
    fn what_is_empty_has_no_lines() {
        // Of few rules, none of whose parts has classes.
        let (words, _) = listed(1, "ternary");
        let (_, lines) = words[5..].split_last().expect("how many they are");
        assert!(!lines.is_empty() && !lines.contains(&0), "{lines:?}");
    }

    #[test]
    fn no_more_lines_are_listed_than_are_asked_for_together() {
        let (words, _) = listed(20, SEARCHED);
        assert_eq!(words.len(), 5 + MOST + 1);
        assert_eq!(words.last(), Some(&(MOST as u64)));
    }
}
