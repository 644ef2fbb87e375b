//! Names that operators give to objects of a switch. They appear in lists, logs, metrics and
//! messages that other users read.

use std::fmt;

/// Maximum length of a name in bytes: that of a DNS name in a certificate, and of a file name.
pub const MAX: usize = 255;

/// Reason why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty(&'static str),
    /// It is too long.
    TooLong(&'static str, usize),
    /// It has a character that is not displayed as itself.
    Unprintable(&'static str, char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty(what) => write!(f, "{what} is empty; it has 1 to {MAX} bytes"),
            NameError::TooLong(what, bytes) => {
                write!(f, "{what} has {bytes} bytes; it has 1 to {MAX}")
            }
            NameError::Unprintable(what, c) => write!(
                f,
                "{what} has the character U+{:04X}, which is not shown as itself; take printable ones",
                u32::from(*c)
            ),
        }
    }
}

impl std::error::Error for NameError {}

/// Checks a name. `what` describes the named object.
///
/// # Errors
/// It is empty or too long, or has a control character or one that changes the display of others.
pub fn check(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty(what));
    }
    if name.len() > MAX {
        return Err(NameError::TooLong(what, name.len()));
    }
    match name.chars().find(|c| is_unprintable(*c)) {
        Some(c) => Err(NameError::Unprintable(what, c)),
        None => Ok(()),
    }
}

/// Returns true for control characters and invisible ones: line and paragraph separators, marks
/// that change the direction of text (Unicode Standard Annex #9), and characters without width.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        let cases = [
            ("a", true),
            ("spiffe://lab/switch?unit=7", true),
            ("J\u{f6}rg of \u{5317}\u{4eac}", true),
            (&"x".repeat(MAX), true),
            (&"x".repeat(MAX + 1), false),
            (&"\u{e4}".repeat(MAX), false),
            ("", false),
            ("a\nb", false),
            ("a\u{0}", false),
            ("\u{1b}[2J", false),
            ("a\u{85}", false),
            ("a\u{202e}b", false),
            ("a\u{2066}b", false),
            ("a\u{200b}", false),
        ];
        for (name, is_good) in cases {
            let checked = check("a name", name);
            assert_eq!(checked.is_ok(), is_good, "{name:?}: {checked:?}");
            // The message is short and printable, whatever the name.
            let told = checked.map_or_else(|error| error.to_string(), |()| String::new());
            assert!(
                told.len() < 120 && !told.contains(char::is_control),
                "{told}"
            );
        }
    }
}
