//! "Did you mean" suggestions: the name closest to a mistyped one.

/// Returns the candidate with the smallest edit distance from `name`, if the distance is small
/// relative to the length of `name`.
pub(crate) fn nearest<'a>(name: &str, candidates: &'a [String]) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1) + 1;
    candidates
        .iter()
        .map(|candidate| (edits(name, candidate), candidate.as_str()))
        .filter(|(edits, _)| *edits <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance of two words: the number of insertions, deletions and
/// substitutions.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_one_would() {
        for (a, b, n) in [
            ("", "", 0),
            ("eth0", "", 4),
            ("eth0", "eht0", 2),
            ("lo", "lO1", 2),
        ] {
            assert_eq!(edits(a, b), n, "{a} {b}");
        }
    }

    #[test]
    fn a_name_that_is_like_none_gets_no_suggestion() {
        let names = ["lo".to_owned(), "enp3s0".to_owned()];
        assert_eq!(nearest("enp3s1", &names), Some("enp3s0"));
        assert_eq!(nearest("wireless", &names), None);
    }
}
