//! Minimization of failing inputs: removes parts while the input still fails.

/// Returns the smallest list of `parts` found for which `fails` is still true, in order. `fails` is
/// called at most `attempts` times.
pub(crate) fn minimise<T: Clone>(
    mut parts: Vec<T>,
    attempts: usize,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut left = attempts;
    let mut size = parts.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut is_smaller = false;
        while at < parts.len() {
            if left == 0 {
                return parts;
            }
            left -= 1;
            let end = (at + size).min(parts.len());
            let fewer = [&parts[..at], &parts[end..]].concat();
            if fails(&fewer) {
                parts = fewer;
                is_smaller = true;
            } else {
                at = end;
            }
        }
        if size == 1 && !is_smaller {
            break;
        }
        size = size.div_ceil(2).min(parts.len());
    }
    parts
}

/// Returns the shortest text found for which `fails` is still true. First lines are removed, then
/// words.
pub(crate) fn minimise_text(
    text: &str,
    attempts: usize,
    mut fails: impl FnMut(&str) -> bool,
) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let lines = minimise(lines, attempts / 2, |lines| fails(&lines.concat()));
    let text = lines.concat();
    let words = minimise(words(&text), attempts / 2, |words| fails(&words.concat()));
    words.concat()
}

/// Returns the words, numbers and single other characters, each with the white space after it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let is_word = c.is_alphanumeric() || c == '_';
        let goes_on = c.is_whitespace()
            || (is_word && before.is_some_and(|b: char| b.is_alphanumeric() || b == '_'));
        if !goes_on && at > start {
            words.push(&text[start..at]);
            start = at;
        }
        before = Some(c);
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parts_that_fail_together_stay() {
        let fails = |parts: &[u32]| parts.contains(&3) && parts.contains(&17);
        assert_eq!(minimise((0..40).collect(), 1000, fails), [3, 17]);
    }

    #[test]
    fn a_text_shrinks_to_the_words_that_matter() {
        let text = "header h {\n  bit<8> x;\n}\ncontrol c() {\n  apply { bad(x, y); }\n}\n";
        let fails = |text: &str| text.contains("bad") && text.contains('}');
        assert_eq!(
            minimise_text(text, 1000, fails).replace(char::is_whitespace, ""),
            "bad}"
        );
    }
}
