//! Words that comments and docs do not use, from `xtask/words.txt`.

use std::path::Path;

/// A word or phrase, in lower case, and the words to use.
#[derive(Debug)]
pub(super) struct Word {
    word: String,
    replacement: String,
}

/// Reads `xtask/words.txt`.
///
/// # Errors
/// The file cannot be read, or a line is not of the form `word: replacement`.
pub(super) fn read(root: &Path) -> Result<Vec<Word>, String> {
    let path = "xtask/words.txt";
    let text = std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
    parse(&text).map_err(|line| format!("{path}: `{line}` is not `word: replacement`"))
}

/// Parses lines of the form `word: replacement`. Empty lines and lines with `#` are skipped.
pub(super) fn parse(text: &str) -> Result<Vec<Word>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let word = |line: &str| {
        let (word, replacement) = line.split_once(": ").ok_or_else(|| line.to_owned())?;
        Ok(Word {
            word: word.to_lowercase(),
            replacement: replacement.to_owned(),
        })
    };
    lines.map(word).collect()
}

/// Returns a message for each of the words in a text. Text in backquotes is code, and skipped.
pub(super) fn find(words: &[Word], text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    let prose = prose.join("`").to_lowercase();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |at: usize, word: &str| {
        let before = prose[..at].chars().next_back();
        let after = prose[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    let is_used = |word: &&Word| {
        let found = prose.match_indices(&word.word);
        found.into_iter().any(|(at, found)| stands_alone(at, found))
    };
    let message = |word: &Word| format!("`{}`: write {}", word.word, word.replacement);
    words.iter().filter(is_used).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, found: &[&str]) {
        let words = parse("# comment\n\ntold: reported\nso many: a number of\n").unwrap();
        assert_eq!(find(&words, text), found, "{text}");
    }

    #[test]
    fn words_are_found_whole_and_outside_code() {
        check("It was Told.", &["`told`: write reported"]);
        check("Retold and told_of stay.", &[]);
        check("The type `told` stays.", &[]);
        check(
            "So many, told",
            &["`told`: write reported", "`so many`: write a number of"],
        );
    }

    #[test]
    fn a_line_without_a_replacement_is_refused() {
        assert_eq!(parse("told").unwrap_err(), "told");
    }
}
