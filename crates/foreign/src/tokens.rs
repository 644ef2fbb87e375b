//! Identifiers of C text with their places, to locate what the compiler reports by name only.

use crate::compile::CodeText;
use crate::diagnostics::CodePlace;

/// Token of C text: an identifier or a punctuator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token<'t> {
    text: &'t str,
    place: (u32, u32),
}

/// Returns the identifiers and punctuators of a text. Comments, strings, characters, numbers and
/// preprocessor lines are skipped.
fn tokens(code: &CodeText) -> Vec<Token<'_>> {
    let text = code.text.as_str();
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line, mut start) = (0, code.line, 0);
    let mut is_line_start = true;
    while at < bytes.len() {
        let begin = at;
        let byte = bytes[at];
        let rest = &bytes[at..];
        if byte == b'\n' {
            at += 1;
            (line, start, is_line_start) = (line + 1, at, true);
            continue;
        }
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let skipped = if rest.starts_with(b"//") {
            length_of_line(rest)
        } else if rest.starts_with(b"/*") {
            let end = text[at + 2..].find("*/");
            end.map_or(rest.len(), |end| end + 4)
        } else if byte == b'#' && is_line_start {
            length_of_line(rest)
        } else if byte == b'"' || byte == b'\'' {
            length_of_string(rest)
        } else {
            0
        };
        if skipped == 0 {
            is_line_start = false;
            let is_word =
                |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
            let length = rest.iter().take_while(|byte| is_word(byte)).count().max(1);
            at += length;
            if !byte.is_ascii_digit() {
                tokens.push(Token {
                    text: &text[begin..at],
                    place: (line, (begin - start) as u32 + 1),
                });
            }
            continue;
        }
        at = (at + skipped).min(bytes.len());
        for (offset, _) in bytes[begin..at]
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'\n')
        {
            (line, start) = (line + 1, begin + offset + 1);
        }
    }
    tokens
}

/// Returns the length of the rest of a line, with lines that a backslash continues.
fn length_of_line(rest: &[u8]) -> usize {
    let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut ends = ends.map(|(at, _)| at);
    let end = ends.find(|&at| at == 0 || rest[at - 1] != b'\\');
    end.unwrap_or(rest.len())
}

fn length_of_string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if byte == rest[0] => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the place of the first token with this text.
pub(crate) fn place_of(codes: &[CodeText], name: &str) -> Option<CodePlace> {
    codes.iter().find_map(|code| {
        let tokens = tokens(code);
        let found = tokens.iter().find(|token| token.text == name)?;
        Some(CodePlace {
            file: code.file.clone(),
            line: found.place.0,
            column: Some(found.place.1),
        })
    })
}

/// Returns true if the first declaration of this name says that the variable itself is `const`.
pub(crate) fn is_const(codes: &[CodeText], name: &str) -> bool {
    let declared = codes.iter().find_map(|code| {
        let tokens = tokens(code);
        let at = tokens.iter().position(|token| token.text == name)?;
        let before = tokens[..at].iter().rev();
        let declared = before.take_while(|token| ![";", "{", "}"].contains(&token.text));
        // Reversed: what is next to the name comes first.
        let declared: Vec<&str> = declared.map(|token| token.text).collect();
        let constant = declared.iter().position(|&text| text == "const");
        let pointer = declared.iter().position(|&text| text == "*");
        Some(match (constant, pointer) {
            (Some(constant), Some(pointer)) => constant < pointer,
            (constant, _) => constant.is_some(),
        })
    });
    declared.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> [CodeText; 1] {
        [CodeText {
            file: "a.c".to_owned(),
            line: 10,
            text: text.to_owned(),
        }]
    }

    #[test]
    fn names_are_found_outside_comments_and_strings() {
        let text = "/* x\n */ // x\n#define x \\\n x\nchar *s = \"x\\\"x\"; char c = 'x';\n int x;";
        let place = place_of(&code(text), "x").map(|place| place.to_string());
        assert_eq!(place.as_deref(), Some("a.c:15:6"));
        assert_eq!(place_of(&code(text), "y"), None);
    }

    #[test]
    fn constants_are_told_from_pointers_to_constants() {
        for (text, expect) in [
            ("static const int x[] = {1};", true),
            ("int const x = 1;", true),
            ("const char *x;", false),
            ("const char *const x = 0;", true),
            ("const int y; int x;", false),
            ("void f(void) { const int y = 1; static int x; }", false),
        ] {
            assert_eq!(is_const(&code(text), "x"), expect, "{text}");
        }
    }
}
