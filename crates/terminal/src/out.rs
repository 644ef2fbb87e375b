//! Terminal output. A closed pipe is not an error, and colours are used only on terminals.

use std::io::{IsTerminal, Write};

/// Writes text to standard output. Ignores a closed pipe.
pub fn text(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Writes a line to standard output.
pub fn line(line: &str) {
    text(&format!("{line}\n"));
}

/// Writes text to standard output. Returns false if the reader has closed it.
pub fn try_text(text: &str) -> bool {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .is_ok()
}

/// Writes a line to standard output. Returns false if the reader has closed it.
pub fn try_line(line: &str) -> bool {
    try_text(&format!("{line}\n"))
}

/// Writes a line to standard error, as JSON if the log is JSON. A diagnostic
/// (`FILE:LINE: error: ..`) and a warning have their level there.
pub fn note(line: &str) {
    if !crate::log::is_json() {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
        return;
    }
    match severity(line) {
        Some(Severity::Error) => tracing::error!(target: "polyplane", "{line}"),
        Some(Severity::Warning) => tracing::warn!(target: "polyplane", "{line}"),
        None => tracing::info!(target: "polyplane", "{line}"),
    }
}

/// Severity of a message, by the word in its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

/// Returns the severity of a message that begins with the word, has it after the name of a switch,
/// or is a diagnostic.
fn severity(message: &str) -> Option<Severity> {
    let first = message.lines().next().unwrap_or_default();
    let after_name = first.split_once(": ").map_or("", |(_, rest)| rest);
    let has = |word: &str| {
        let [colon, code] = [":", "["].map(|mark| format!("{word}{mark}"));
        let begins = |text: &str| text.starts_with(&colon) || text.starts_with(&code);
        // The place of a diagnostic ends with a number.
        let is_placed = |mark: &String| {
            let mark = format!(": {mark}");
            let found = first.split_once(mark.as_str());
            found.is_some_and(|(place, _)| place.ends_with(|c: char| c.is_ascii_digit()))
        };
        begins(first) || begins(after_name) || [colon.clone(), code.clone()].iter().any(is_placed)
    };
    if has("error") {
        Some(Severity::Error)
    } else {
        has("warning").then_some(Severity::Warning)
    }
}

/// Writes an error to standard error. A message that already has the word, because it is or
/// contains a diagnostic (`FILE:LINE: error: ..`), is written without another one.
pub fn error(message: &str) {
    if crate::log::is_json() {
        tracing::error!(target: "polyplane", "{message}");
        return;
    }
    if is_diagnostic(message) {
        return note(message);
    }
    let word = if colours() {
        "\x1b[1;31merror\x1b[0m"
    } else {
        "error"
    };
    note(&format!("{word}: {message}"));
}

/// Returns true if the first line of a message has a place and the word `error`.
fn is_diagnostic(message: &str) -> bool {
    let first = message.lines().next().unwrap_or_default();
    [": error: ", ": error["]
        .iter()
        .any(|mark| first.contains(mark))
}

/// Returns true if standard error takes colours: it is a terminal, and `NO_COLOR` is not set.
pub fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Writes a value to standard output as JSON.
pub fn json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("cannot write JSON: {error}")),
    }
}

/// Writes a value to standard output as one line of JSON.
pub fn json_line(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&text),
        Err(error) => note(&format!("cannot write JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Severity, is_diagnostic, severity};

    #[test]
    fn a_severity_is_known_by_the_first_line() {
        let (error, warning) = (Some(Severity::Error), Some(Severity::Warning));
        for (line, expected) in [
            ("warning: a.pcapng lacks 3 frames", warning),
            ("s1: warning: port 1: eth1 is gone", warning),
            ("error[E0001]: cannot read `a.p4`", error),
            ("a.p4:1:22: error[E0120]: syntax error\n1 | x", error),
            ("vPDP red: a.toml:5: error: there is no host x", error),
            ("a.p4:3:2: warning[W0001]: unused", warning),
            ("reloaded in 2 ms: same program: error: no", None),
            ("port 1: eth1 is up\nerror: none", None),
        ] {
            assert_eq!(severity(line), expected, "{line}");
        }
    }

    #[test]
    fn a_diagnostic_is_known_by_its_first_line() {
        for (message, is_one) in [
            (
                "net.toml:5: error: there is no host x\n  = hint: add it",
                true,
            ),
            ("vPDP red: fw.p4:1:15: error[E0001]: `y` is unknown", true),
            ("cannot read `net.toml`: there is no such file", false),
            (
                "nothing of a.entries is applied\na.entries:1:1: error: no table",
                false,
            ),
            ("error: alone", false),
        ] {
            assert_eq!(is_diagnostic(message), is_one, "{message}");
        }
    }
}
