//! docs/reference/command-line.md names every command and option, and no others.

use std::collections::BTreeSet;
use std::process::Command;

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_polyplane"))
        .args(words)
        .arg("--help")
        .output()
        .expect("the command can be started");
    String::from_utf8(output.stdout).expect("help is text")
}

fn commands() -> Vec<String> {
    let text = help(&[]);
    let (_, rest) = text.split_once("Commands:\n").expect("there are commands");
    let (list, _) = rest.split_once("\n\n").expect("options follow");
    let names = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The long options that lines of a command's help start with.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.lines().filter_map(|line| {
        let line = line.trim_start();
        // `-q, --quiet` has a short form, which is one letter.
        let after_short = line.get(4..).filter(|_| line.get(2..4) == Some(", "));
        let word = after_short.unwrap_or(line);
        let name = word.strip_prefix("--")?;
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        Some(format!("--{}", &name[..end.unwrap_or(name.len())]))
    });
    words
        .filter(|word| word != "--help" && word != "--version")
        .collect()
}

#[test]
fn the_help_of_quota_names_every_setting_of_the_reference() {
    let page = include_str!("../../../docs/reference/quotas.md");
    let text = help(&["tenant", "quota"]);
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names: Vec<&str> = rows.filter_map(|row| row.split('=').next()).collect();
    assert!(names.contains(&"compile-bytes"), "{names:?}");
    for name in names {
        assert!(text.contains(&format!("{name}=N")), "{name}: {text}");
    }
}

#[test]
fn the_reference_has_all_commands_and_options_and_no_others() {
    let page = include_str!("../../../docs/reference/command-line.md");
    let mut known = BTreeSet::new();
    for command in commands() {
        assert!(
            page.contains(&format!("| `{command}")),
            "no row for the command `{command}`"
        );
        let options = options(&help(&[&command]));
        // Those of `bench` alone are in docs/how-to/run-benchmarks.md.
        for option in options.iter().filter(|_| command != "bench") {
            assert!(
                page.contains(&format!("`{option}")),
                "`{option}` of `{command}` is missing"
            );
        }
        known.extend(options);
    }
    for part in page.split('`').skip(1).step_by(2) {
        let word = part.split([' ', '=', '[']).next().unwrap_or(part);
        if word.starts_with("--") {
            assert!(known.contains(word), "no command has `{word}`");
        }
    }
}
