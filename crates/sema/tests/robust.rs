//! Robustness tests: programs with tokens removed, doubled, swapped and replaced never cause a
//! panic.

use std::path::Path;

use support::rng::Xorshift;
use syntax::ParseOptions;

/// Splits a text into words, numbers, blanks and single characters, which joined are the text
/// again.
fn pieces(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| c.is_alphanumeric() || c == '_';
        let length = if same(first) {
            rest.find(|c| !same(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (piece, tail) = rest.split_at(length);
        out.push(piece);
        rest = tail;
    }
    out
}

fn mutate(text: &str, random: &mut Xorshift) -> String {
    let mut pieces = pieces(text);
    for _ in 0..=random.index(4) {
        let (at, other) = (random.index(pieces.len()), random.index(pieces.len()));
        match random.index(5) {
            0 => _ = pieces.remove(at),
            1 => pieces.insert(at, pieces[other]),
            2 => pieces.swap(at, other),
            3 => pieces[at] = pieces[other],
            _ => {
                pieces[at] =
                    ["0", "-1", "bit<8>", "{", "}", "(", ";", "...", "{#}", "_"][random.index(10)]
            }
        }
    }
    pieces.concat()
}

fn check(text: &str) {
    let options = ParseOptions {
        builtin: Some(sema::arch::builtin_include),
        ..ParseOptions::default()
    };
    let parsed = syntax::parse_str("test.p4", text, &options);
    // Also trees with syntax errors, as an editor would pass them.
    let checked = sema::check(&parsed.program, &sema::CheckOptions::default());
    let mut all = parsed.diagnostics;
    all.extend(checked.diagnostics);
    all.render(&parsed.sources, false);
}

#[test]
fn no_text_makes_the_checker_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let texts: Vec<String> = std::fs::read_dir(folder)
        .expect("tests/cases is a folder")
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    let rounds = std::env::var("SEMA_ROBUST_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12);
    let run = move || {
        for seed in 0..rounds {
            for (index, text) in texts.iter().enumerate() {
                let mut random = Xorshift::new(0x9E37_79B9_7F4A_7C15 ^ (seed << 8) ^ index as u64);
                let mutated = mutate(text, &mut random);
                let caught = std::panic::catch_unwind(|| check(&mutated));
                assert!(caught.is_ok(), "seed {seed}, text {index}:\n{mutated}");
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(run);
    let result = thread.expect("a thread can be started").join();
    assert!(result.is_ok(), "a mutated program made the checker panic");
}
