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
        assert_eq!(there_are(1, "cell"), "there is 1 cell");
        assert_eq!(there_are(0, "cell"), "there are 0 cells");
    }
}
