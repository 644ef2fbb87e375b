//! Natural order of names, by which Mininet and p4-utils number switches.

use crate::network::ImportedSwitch;

/// First port of P4Runtime servers for which the file names none.
const FIRST_SERVER: u64 = 50_051;

/// Position of a name in natural order: h2 comes before h10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NaturalKey {
    /// Parts of the name: text, and the number after it.
    parts: Vec<(String, u64)>,
    /// The whole name, so that h1 and h01 differ.
    name: String,
}

impl NaturalKey {
    pub(crate) fn new(name: &str) -> NaturalKey {
        let mut parts = Vec::new();
        let mut rest = name;
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (text, numbered) = rest.split_at(digits);
            let end = numbered
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(numbered.len());
            parts.push((text.to_owned(), numbered[..end].parse().unwrap_or(0)));
            rest = &numbered[end..];
        }
        NaturalKey {
            parts,
            name: name.to_owned(),
        }
    }

    /// Returns the number of a name that consists of `text` and a number.
    pub(crate) fn number_after(&self, text: &str) -> Option<u64> {
        match &self.parts[..] {
            [(own, number)] if own == text => Some(*number),
            _ => None,
        }
    }
}

/// Gives switches their device numbers, from `first` on, in natural order of their names. Those
/// without a P4Runtime server get the next port in the same order.
pub(crate) fn number_switches(switches: &mut [ImportedSwitch], first: u64) {
    let mut order: Vec<usize> = (0..switches.len()).collect();
    order.sort_by_cached_key(|at| NaturalKey::new(&switches[*at].name));
    for (number, at) in (0..).zip(order) {
        let switch = &mut switches[at];
        switch.device = first + number;
        if switch.p4runtime.is_empty() {
            switch.p4runtime = format!("127.0.0.1:{}", FIRST_SERVER + number);
        }
    }
}
