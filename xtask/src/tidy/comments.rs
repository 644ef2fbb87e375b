//! The language of comments: columns, words, and how a doc comment begins.

use super::words::{self, Word};

/// Columns that a line with a comment has at most.
const MAX_COLUMNS: usize = 100;

/// First words of a doc comment that define an item by a clause.
const CLAUSES: &[&str] = &[
    "What", "Whether", "How", "Where", "Which", "Why", "Who", "Whose",
];

/// Checks all lines that are comments.
pub(super) fn check(path: &str, text: &str, words: &[Word], findings: &mut Vec<String>) {
    let mut is_in_doc = false;
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let is_doc = comment.starts_with("///");
        let begins = is_doc && !is_in_doc;
        is_in_doc = is_doc;
        if !comment.starts_with("//") {
            continue;
        }
        let mut report = |message: String| {
            findings.push(format!("{path}:{}: {message}", number + 1));
        };
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            report(format!(
                "{columns} columns in a comment (at most {MAX_COLUMNS})"
            ));
        }
        if begins
            && let Some(word) = first_word(comment)
            && CLAUSES.contains(&word)
        {
            report(format!(
                "a doc comment begins with `{word}`: name the kind of thing"
            ));
        }
        words::find(words, comment).into_iter().for_each(report);
    }
}

/// The first word of a doc comment, without marks around it.
fn first_word(comment: &str) -> Option<&str> {
    let text = comment.trim_start_matches('/');
    let is_mark = |c: char| !c.is_alphanumeric();
    Some(text.split_whitespace().next()?.trim_matches(is_mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, found: &[&str]) {
        let words = words::parse("told: reported").unwrap();
        let mut findings = Vec::new();
        super::check("a.rs", text, &words, &mut findings);
        assert_eq!(findings, found, "{text}");
    }

    #[test]
    fn long_lines_are_found_in_comments_alone() {
        let line = "x".repeat(100);
        check(&line, &[]);
        check(&format!("// {}", &line[3..]), &[]);
        check(
            &format!("    // {line}"),
            &["a.rs:1: 107 columns in a comment (at most 100)"],
        );
    }

    #[test]
    fn words_are_found_in_comments_alone() {
        check("let told = 1;", &[]);
        check(
            "let a = 1;\n// It is told.",
            &["a.rs:2: `told`: write reported"],
        );
    }

    #[test]
    fn openings_are_found_at_the_start_of_a_doc_comment() {
        let found = "a.rs:1: a doc comment begins with `Whether`: name the kind of thing";
        check("/// Whether it is so.", &[found]);
        check("/// A flag.\n/// Where it is set, packets wait.", &[]);
        check("// Where it is set, packets wait.", &[]);
    }
}
