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

/// Writes a line to standard error, as JSON if the log is JSON. A line that begins with `warning:`,
/// also after the name of a switch, has that level.
pub fn note(line: &str) {
    if !crate::log::is_json() {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    } else if is_warning(line) {
        tracing::warn!(target: "polyplane", "{line}");
    } else {
        tracing::info!(target: "polyplane", "{line}");
    }
}

/// Returns true if a line has the word `warning`, alone or after one name.
fn is_warning(line: &str) -> bool {
    let rest = line.split_once(": ").map_or("", |(_, rest)| rest);
    [line, rest].iter().any(|text| text.starts_with("warning:"))
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
    use super::{is_diagnostic, is_warning};

    #[test]
    fn a_warning_is_known_by_its_first_word() {
        for (line, is_one) in [
            ("warning: a.pcapng lacks 3 frames", true),
            ("s1: warning: port 1: eth1 is gone", true),
            ("the warning: is late", false),
            ("port 1: eth1 is up", false),
        ] {
            assert_eq!(is_warning(line), is_one, "{line}");
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
