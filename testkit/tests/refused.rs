//! Checks that every rule refuses the programs that violate it, at the right line: the cases of
//! `refused/`.

use std::collections::BTreeSet;
use std::path::Path;

use syntax::diag::Severity;

/// One case: its title, its text, and the lines that must be refused.
struct Case {
    title: String,
    text: String,
    marked: BTreeSet<u32>,
}

/// Returns the cases of a file. The text before the first case belongs to all of them. Each case
/// keeps its line numbers.
fn cases(text: &str) -> Vec<Case> {
    let mut prefix = String::new();
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("//#") {
            let skipped = number + 1 - prefix.lines().count();
            cases.push(Case {
                title: title.trim().to_string(),
                text: format!("{prefix}{}", "\n".repeat(skipped)),
                marked: BTreeSet::new(),
            });
        } else if let Some(case) = cases.last_mut() {
            case.text.push_str(line);
            case.text.push('\n');
            if line.contains("//~") {
                case.marked.insert(number as u32 + 1);
            }
        } else {
            prefix.push_str(line);
            prefix.push('\n');
        }
    }
    cases
}

/// Returns the lines of the case's own file with errors, and all errors as text.
fn refused(file: &str, case: &Case) -> (BTreeSet<u32>, String) {
    let source = driver::Source::Text {
        name: file,
        text: &case.text,
    };
    let diagnostics = driver::check(&source, &driver::Options::default()).diagnostics;
    let errors = diagnostics.list.sorted().into_iter();
    let errors = errors.filter(|d| d.severity == Severity::Error);
    let at =
        |span: syntax::source::Span| diagnostics.sources.lookup(span.lo).map(|place| place.line);
    let lines = errors.filter_map(|d| at(d.span)).collect();
    (lines, diagnostics.render(false))
}

#[test]
fn every_broken_rule_is_refused_where_it_is_broken() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("refused");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for entry in std::fs::read_dir(&root).expect("the directory can be read") {
        let path = entry.expect("the entry can be read").path();
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        for case in cases(&text) {
            checked += 1;
            let (lines, shown) = refused(&file, &case);
            if lines != case.marked {
                let title = &case.title;
                let marked = &case.marked;
                wrong.push(format!(
                    "{file}: {title}: errors should be at {marked:?}, are at {lines:?}\n{shown}"
                ));
            }
        }
    }
    assert!(checked > 100, "only {checked} cases");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
