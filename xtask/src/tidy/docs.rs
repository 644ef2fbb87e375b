//! The language of docs: one sentence a line, short sentences, words.

use super::words::{self, Word};

/// Words that a sentence has at most.
const MAX_WORDS: usize = 40;

/// Files with several sentences a line: one line is one change there.
const LISTS: &[&str] = &["CHANGELOG.md"];

/// Checks the prose of a page. Headings, tables, code, and link targets are no prose.
pub(super) fn check(path: &str, text: &str, words: &[Word], findings: &mut Vec<String>) {
    let is_list = LISTS.contains(&path);
    let mut is_open = false;
    for (number, line) in prose(text) {
        let mut report = |message: String| findings.push(format!("{path}:{number}: {message}"));
        let Some(line) = line else {
            is_open = false;
            continue;
        };
        let is_item = item(line).len() < line.trim_start().len();
        if is_open && !is_item && !is_list {
            report("a sentence goes on from the line before: one sentence a line".to_owned());
        }
        let text = without_code(item(line));
        let sentences = sentences(&text);
        if sentences.len() > 1 && !is_list {
            report(format!(
                "{} sentences in a line: one sentence a line",
                sentences.len()
            ));
        }
        for sentence in &sentences {
            let count = sentence
                .split_whitespace()
                .filter(|word| is_word(word))
                .count();
            if count > MAX_WORDS {
                report(format!("a sentence of {count} words (at most {MAX_WORDS})"));
            }
        }
        words::find(words, line).into_iter().for_each(report);
        is_open = !line
            .trim_end()
            .ends_with(['.', ':', '!', '?', ')', ']', '"', '*', '`', '>']);
    }
}

/// The lines of a page with their numbers from one; `None` ends a paragraph.
fn prose(text: &str) -> impl Iterator<Item = (usize, Option<&str>)> {
    let mut is_code = false;
    text.lines().zip(1..).map(move |(line, number)| {
        let start = line.trim_start();
        if start.starts_with("```") {
            is_code = !is_code;
            return (number, None);
        }
        let is_skipped = is_code
            || start.is_empty()
            || start.starts_with(['|', '#', '<'])
            || line.starts_with("    ") && item(line).len() == start.len()
            || start.starts_with('[') && start.contains("]: ");
        (number, (!is_skipped).then_some(line))
    })
}

/// A line without the marks of list items and quotations.
fn item(line: &str) -> &str {
    let line = line.trim_start();
    let line = line.strip_prefix("> ").unwrap_or(line);
    for mark in ["- ", "* ", "+ "] {
        if let Some(rest) = line.strip_prefix(mark) {
            return rest.trim_start();
        }
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    match line[digits..].strip_prefix(". ") {
        Some(rest) if digits > 0 => rest.trim_start(),
        _ => line,
    }
}

/// A line with each span of code as one word.
fn without_code(line: &str) -> String {
    let parts = line.split('`').enumerate();
    let parts = parts.map(|(at, part)| if at % 2 == 1 { "Code" } else { part });
    parts.collect()
}

/// Splits a line after each `.`, `!` or `?` that a capital letter follows.
fn sentences(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, _) in line.match_indices(". ").chain(line.match_indices("! ")) {
        let next = line[at + 1..].trim_start();
        let begins = next.starts_with(|c: char| c.is_uppercase() || "*[".contains(c));
        if begins
            && !ABBREVIATIONS
                .iter()
                .any(|short| line[..=at].ends_with(short))
        {
            found.push(at + 1);
        }
    }
    for (at, _) in line.match_indices("? ") {
        if line[at + 2..].starts_with(char::is_uppercase) {
            found.push(at + 1);
        }
    }
    found.sort_unstable();
    let mut sentences = Vec::new();
    for end in found {
        sentences.push(&line[start..end]);
        start = end;
    }
    sentences.push(&line[start..]);
    sentences.retain(|sentence| sentence.split_whitespace().count() > 1);
    sentences
}

/// Ends of words with a full stop that ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "vs.", "cf.", "Fig.", "No.", "Sec."];

/// Returns true if the word has a letter or digit.
fn is_word(word: &str) -> bool {
    word.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, found: &[&str]) {
        let words = words::parse("told: reported").unwrap();
        let mut findings = Vec::new();
        super::check("a.md", text, &words, &mut findings);
        assert_eq!(findings, found, "{text}");
    }

    #[test]
    fn two_sentences_in_a_line_are_found() {
        let found = "a.md:1: 2 sentences in a line: one sentence a line";
        check("One is here. Two is here.", &[found]);
        check("- One is here! Two is here.", &[found]);
        check("One is here.\nTwo is here.", &[]);
        check("A value, e.g. Ethernet, is `a. B`.", &[]);
        check("1. One is here.\n2. Two is here.", &[]);
    }

    #[test]
    fn a_sentence_over_several_lines_is_found() {
        let found = "a.md:2: a sentence goes on from the line before: one sentence a line";
        check("One goes\non here.", &[found]);
        check("One item\n\nand a paragraph.", &[]);
        check("- item\n- item", &[]);
    }

    #[test]
    fn long_sentences_are_found() {
        let words = |count: usize| format!("{}.", vec!["word"; count].join(" "));
        check(&words(40), &[]);
        check(&words(41), &["a.md:1: a sentence of 41 words (at most 40)"]);
    }

    #[test]
    fn words_are_found_in_prose_alone() {
        check("It is told.", &["a.md:1: `told`: write reported"]);
        check(
            "```\nIt is told. It is told.\n```\n\n| told | told |\n\n# told",
            &[],
        );
        check("The key `told` is there.", &[]);
    }
}
