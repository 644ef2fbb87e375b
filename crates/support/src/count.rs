//! Counts with their nouns, for messages.

/// Returns a count with its noun: `1 packet`, `2 packets`, `2 entries`, `0 switches`.
pub fn count(n: u64, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        _ => format!("{n} {}", plural(noun)),
    }
}

/// Returns the plural of a noun, by spelling rules.
fn plural(noun: &str) -> String {
    let is_vowel = |c: char| "aeiou".contains(c);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{stem}ies"),
        _ if ["s", "x", "z", "ch", "sh"]
            .iter()
            .any(|end| noun.ends_with(end)) =>
        {
            format!("{noun}es")
        }
        _ => format!("{noun}s"),
    }
}

/// Returns a count with its verb: `1 is`, `2 are`.
pub fn are(n: u64) -> String {
    match n {
        1 => "1 is".to_owned(),
        _ => format!("{n} are"),
    }
}

/// Returns a count with its noun and verb: `1 cell is`, `2 cells are`.
pub fn count_are(n: u64, noun: &str) -> String {
    let verb = if n == 1 { "is" } else { "are" };
    format!("{} {verb}", count(n, noun))
}

/// Returns a part of a count with its verb: `1 of 3 changes is`, `2 of 3 changes are`, `1 change
/// is`.
pub fn are_of(part: u64, all: u64, noun: &str) -> String {
    let verb = if part == 1 { "is" } else { "are" };
    format!("{} {verb}", part_of(part, all, noun))
}

/// Returns a part of a count with its verb in the past: `1 of 3 changes was`, `1 change was`.
pub fn were_of(part: u64, all: u64, noun: &str) -> String {
    let verb = if part == 1 { "was" } else { "were" };
    format!("{} {verb}", part_of(part, all, noun))
}

/// Returns a part of a count: `1 of 3 changes`, `1 change`.
pub fn part_of(part: u64, all: u64, noun: &str) -> String {
    match (part, all) {
        (1, 1) => count(1, noun),
        _ => format!("{part} of {}", count(all, noun)),
    }
}

/// Returns a count with its noun and verb: `there is 1 cell`, `there are 2 cells`.
pub fn there_are(n: u64, noun: &str) -> String {
    let is_or_are = if n == 1 { "is" } else { "are" };
    format!("there {is_or_are} {}", count(n, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_the_noun_in_singular_or_plural() {
        for (n, noun, text) in [
            (0, "packet", "0 packets"),
            (1, "table entry", "1 table entry"),
            (22, "table entry", "22 table entries"),
            (2, "switch", "2 switches"),
            (2, "key", "2 keys"),
            (2, "process", "2 processes"),
        ] {
            assert_eq!(count(n, noun), text);
        }
        assert_eq!([are(0), are(1), are(2)], ["0 are", "1 is", "2 are"]);
        for (part, all, text) in [
            (1, 1, "1 change was"),
            (1, 3, "1 of 3 changes was"),
            (2, 3, "2 of 3 changes were"),
            (3, 3, "3 of 3 changes were"),
            (0, 1, "0 of 1 change were"),
        ] {
            assert_eq!(were_of(part, all, "change"), text);
        }
        assert_eq!(count_are(1, "entry"), "1 entry is");
        assert_eq!(count_are(0, "entry"), "0 entries are");
        assert_eq!(are_of(1, 2, "entry"), "1 of 2 entries is");
        assert_eq!(are_of(2, 2, "entry"), "2 of 2 entries are");
        assert_eq!(there_are(1, "cell"), "there is 1 cell");
        assert_eq!(there_are(0, "cell"), "there are 0 cells");
    }
}
