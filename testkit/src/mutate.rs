//! Mutation of program texts: typical mistakes of users and fuzzers.

use support::rng::Rng;

/// Words and numbers that are likely to expose faults.
const SPICE: &[&str] = &[
    "bit<0>",
    "bit<65536>",
    "int<1>",
    "varbit<8>",
    "0",
    "-1",
    "255",
    "8w256",
    "0xffffffffffffffffffffffff",
    "1s0",
    "{}",
    "{#}",
    "...",
    "_",
    "default",
    "error.NoError",
    "this",
    ".x",
    "header_union",
    "tuple<bit<8>>",
    "list<bool>",
    "<<",
    "&&&",
    "..",
    "? 1 : 2",
    "++",
    "|+|",
    "[3:0]",
    "[0:3]",
    "[0]",
    ".next",
    ".last",
    ".lastIndex",
    ".isValid()",
    ".setInvalid()",
    ".apply()",
    ".push_front(1)",
    ".minSizeInBits()",
    "exit;",
    "return;",
    "for (bit<8> i in 0..3) {}",
    "switch (1) {}",
    "transition select(1) { _: accept; }",
    "@name(\"x\")",
    "@pragma x\n",
    "#define X X\n",
    "#if 1\n",
    "#include <core.p4>\n",
    "typedef bit<8> T;",
    "type bit<8> N;",
    "const int c = 1;",
    "extern void f<T>(in T x);",
    "é",
    "\"",
    "/*",
];

/// Replacement numbers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "8",
    "9",
    "16",
    "31",
    "32",
    "33",
    "48",
    "63",
    "64",
    "65",
    "128",
    "129",
    "255",
    "256",
    "1000",
    "2048",
    "65535",
    "65536",
    "100000",
    "4294967295",
    "4294967296",
    "8w3",
    "4s2",
    "32w0xffffffff",
];

/// Binary operators.
const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "<", ">", "&", "|", "^"];

/// A changed copy of `text`; `other` is a second text to take pieces from.
pub(crate) fn mutate(text: &str, other: &str, choices: &mut Rng) -> String {
    let is_gentle = choices.one_in(2);
    let mut text = text.to_string();
    for _ in 0..=choices.index(4) {
        text = match is_gentle {
            true => mutate_gently(&text, choices),
            false => mutate_once(&text, other, choices),
        };
    }
    text
}

/// A change after which the text often still is a program: a word for a word, a number for a
/// number, a line less or twice.
fn mutate_gently(text: &str, choices: &mut Rng) -> String {
    if choices.one_in(4) {
        return mutate_lines(text, choices);
    }
    let tokens = tokens(text);
    let kind_of = |&(at, end): &(usize, usize)| kind(&text[at..end]);
    for _ in 0..20 {
        let Some(&(at, end)) = choices.pick(&tokens) else {
            break;
        };
        let new = match kind(&text[at..end]) {
            Kind::Number => choices.pick(NUMBERS).copied(),
            Kind::Operator => choices.pick(OPERATORS).copied(),
            Kind::Word => choices
                .pick(&tokens)
                .filter(|t| kind_of(t) == Kind::Word)
                .map(|&(a, b)| &text[a..b]),
            Kind::Other => None,
        };
        if let Some(new) = new {
            return format!("{}{new}{}", &text[..at], &text[end..]);
        }
    }
    text.to_string()
}

/// One line left out, doubled, or moved elsewhere.
fn mutate_lines(text: &str, choices: &mut Rng) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return String::new();
    }
    let line = lines.remove(choices.index(lines.len()));
    let copies = choices.index(3);
    for _ in 0..copies {
        lines.insert(choices.index(lines.len() + 1), line);
    }
    lines.concat()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Operator,
    Other,
}

fn kind(token: &str) -> Kind {
    match token.chars().next() {
        Some(c) if c.is_ascii_digit() => Kind::Number,
        Some(c) if c.is_alphabetic() || c == '_' => Kind::Word,
        Some(_) if OPERATORS.contains(&token) => Kind::Operator,
        _ => Kind::Other,
    }
}

fn mutate_once(text: &str, other: &str, choices: &mut Rng) -> String {
    let tokens = tokens(text);
    let (at, end) = range(&tokens, text, choices);
    let piece = &text[at..end];
    let middle = match choices.index(7) {
        0 => String::new(),
        1 => format!("{piece}{piece}"),
        2 => choices
            .pick(SPICE)
            .map_or_else(String::new, |word| format!(" {word} ")),
        3 => {
            let others = self::tokens(other);
            let (from, to) = range(&others, other, choices);
            format!(" {} ", &other[from..to])
        }
        4 => tokens
            .get(choices.index(tokens.len()))
            .map_or_else(String::new, |(a, b)| text[*a..*b].to_string()),
        5 => piece.repeat(choices.index(20)),
        _ => piece.chars().rev().collect(),
    };
    format!("{}{middle}{}", &text[..at], &text[end..])
}

/// Returns the byte ranges of words, numbers and single other characters.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let is_word = c.is_alphanumeric() || c == '_';
        if let Some(from) = start.filter(|_| !is_word) {
            all.push((from, at));
            start = None;
        }
        if is_word {
            start = start.or(Some(at));
        } else if !c.is_whitespace() {
            all.push((at, at + c.len_utf8()));
        }
    }
    all.extend(start.map(|from| (from, text.len())));
    all
}

/// A range of one or a few tokens.
fn range(tokens: &[(usize, usize)], text: &str, choices: &mut Rng) -> (usize, usize) {
    if tokens.is_empty() {
        return (text.len(), text.len());
    }
    let first = choices.index(tokens.len());
    let count = if choices.one_in(4) {
        choices.index(30)
    } else {
        choices.index(2)
    };
    let last = (first + count).min(tokens.len() - 1);
    (tokens[first].0, tokens[last].1)
}
