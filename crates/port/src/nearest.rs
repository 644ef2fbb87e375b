//! "Did you mean" suggestions: the name closest to a mistyped one.

use strsim::levenshtein;

/// Returns the candidate with the smallest edit distance from `name`, if the distance is small
/// relative to the length of `name`.
pub(crate) fn nearest<'a>(name: &str, candidates: &'a [String]) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1) + 1;
    candidates
        .iter()
        .map(|candidate| (levenshtein(name, candidate), candidate.as_str()))
        .filter(|(edits, _)| *edits <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_swapped_letters_are_two_edits() {
        let names = ["eth0".to_owned(), "lo".to_owned()];
        assert_eq!(nearest("eht0", &names), Some("eth0"));
        assert_eq!(nearest("lO1", &names), Some("lo"));
        assert_eq!(nearest("", &["eth0".to_owned()]), None);
        assert_eq!(nearest("ol", &["lo".to_owned()]), Some("lo"));
    }

    #[test]
    fn a_name_that_is_like_none_gets_no_suggestion() {
        let names = ["lo".to_owned(), "enp3s0".to_owned()];
        assert_eq!(nearest("enp3s1", &names), Some("enp3s0"));
        assert_eq!(nearest("wireless", &names), None);
    }
}
