//! `cargo xtask figures`: fills tables of docs/results from the output of `polyplane bench --json`.
//!
//! A table is between `<!-- figures: NAME -->` and `<!-- end -->`. The files hold arrays of
//! objects. The members of an object decide the table that it belongs to. A table without objects
//! stays as it is.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::Outcome;

#[derive(Args)]
pub(crate) struct Options {
    /// Files that `polyplane bench --json` wrote, with --lookups, with --io and without.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// One table: its name, a member that its objects have and others do not, and its columns.
struct Table {
    name: &'static str,
    page: &'static str,
    member: &'static str,
    columns: &'static [Column],
}

/// A heading, and the member of an object below it.
type Column = (&'static str, fn(&Value) -> String);

const TABLES: &[Table] = &[
    Table {
        name: "programs",
        page: "docs/results/programs.md",
        member: "program",
        columns: &[
            ("program", |row| text(row, "program")),
            ("flows", |row| text(row, "flows")),
            ("side", |row| text(row, "engine")),
            ("workers", |row| number(row, "workers", 0)),
            ("Mpps", |row| number(row, "mpps", 2)),
            ("middle half", |row| range(row, "mpps_middle_half", 2)),
            ("cycles a packet", |row| number(row, "cycles_per_packet", 1)),
            ("of hand", |row| number(row, "of_hand", 2)),
        ],
    },
    Table {
        name: "lookups",
        page: "docs/results/lookups.md",
        member: "table",
        columns: &[
            ("table", |row| text(row, "table")),
            ("entries", |row| number(row, "entries", 0)),
            ("loaded in s", |row| number(row, "load_seconds", 3)),
            ("M/s at 2 s", |row| number(row, "mlps_at_2s", 1)),
            ("full after s", |row| number(row, "seconds_to_full", 3)),
            ("bytes an entry", |row| number(row, "bytes_per_entry", 1)),
            ("M/s", |row| number(row, "mlps", 1)),
            ("middle half", |row| range(row, "mlps_middle_half", 1)),
            ("updates at once", |row| number(row, "updates_at_once", 0)),
            ("asked a second", |row| match &row["updates_asked_per_s"] {
                Value::Null => "flat out".to_string(),
                _ => number(row, "updates_asked_per_s", 0),
            }),
            ("updates a second", |row| number(row, "updates_per_s", 0)),
            ("M/s between", |row| number(row, "mlps_between_updates", 1)),
            ("M/s beside", |row| number(row, "mlps_beside_updates", 1)),
        ],
    },
    Table {
        name: "io",
        page: "docs/results/ports.md",
        member: "io",
        columns: &[
            ("ports", |row| text(row, "io")),
            ("bytes", |row| number(row, "packet_bytes", 0)),
            ("Mpps", |row| number(row, "mpps", 3)),
            ("middle half", |row| range(row, "mpps_middle_half", 3)),
            ("ns a packet", |row| number(row, "ns_per_packet", 0)),
            ("of bare", |row| number(row, "of_bare", 2)),
        ],
    },
];

pub(crate) fn run(root: &Path, options: &Options) -> Outcome {
    let mut rows = Vec::new();
    for file in &options.files {
        let parsed: Value = serde_json::from_str(&read(file)?)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        match parsed {
            Value::Array(array) => rows.extend(array),
            _ => return Err(format!("{}: not an array of figures", file.display())),
        }
    }
    for table in TABLES {
        let rows: Vec<&Value> = rows
            .iter()
            .filter(|row| row.get(table.member).is_some())
            .collect();
        if !rows.is_empty() {
            let page = root.join(table.page);
            let text = replaced(&read(&page)?, table, &written(table, &rows))?;
            std::fs::write(&page, text)
                .map_err(|error| format!("cannot write {}: {error}", page.display()))?;
            println!("{}: {} rows in {}", table.name, rows.len(), table.page);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Returns the text with another table between the marks of this name.
fn replaced(text: &str, table: &Table, written: &str) -> Result<String, String> {
    let (name, page) = (table.name, table.page);
    let (begin, end) = (format!("<!-- figures: {name} -->\n"), "<!-- end -->");
    let marks = text.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some(format!("{before}{begin}{written}{end}{after}"))
    });
    marks.ok_or_else(|| format!("{page}: no `{}` with an `{end}`", begin.trim()))
}

/// Formats a Markdown table.
fn written(table: &Table, rows: &[&Value]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = table.columns.iter().map(|(head, _)| head.to_string());
    let rule = table.columns.iter().map(|_| "---".to_string());
    let mut text = line(head.collect()) + &line(rule.collect());
    for row in rows {
        text += &line(table.columns.iter().map(|(_, cell)| cell(row)).collect());
    }
    text
}

fn text(row: &Value, member: &str) -> String {
    row[member].as_str().unwrap_or_default().to_string()
}

/// Formats a number with a number of decimals. Empty if it is missing.
fn number(row: &Value, member: &str, digits: usize) -> String {
    let number = row[member].as_f64();
    number.map_or(String::new(), |number| grouped(number, digits))
}

fn range(row: &Value, member: &str, digits: usize) -> String {
    match (row[member][0].as_f64(), row[member][1].as_f64()) {
        (Some(low), Some(high)) => {
            format!("{} to {}", grouped(low, digits), grouped(high, digits))
        }
        _ => String::new(),
    }
}

/// Formats a number with commas between thousands.
fn grouped(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_between_its_marks_and_nothing_else() {
        let text = "a\n<!-- figures: io -->\nold\n<!-- end -->\nb <!-- end -->\n";
        let new = replaced(text, &TABLES[2], "new\n").unwrap();
        assert_eq!(
            new,
            "a\n<!-- figures: io -->\nnew\n<!-- end -->\nb <!-- end -->\n"
        );
        assert!(replaced(text, &TABLES[1], "").is_err());
    }

    #[test]
    fn rows_have_a_cell_for_each_column_and_none_for_what_is_missing() {
        let row = serde_json::json!({
            "io": "bare", "packet_bytes": 1514, "mpps": 0.9516, "mpps_middle_half": [0.9, 1.0], "ns_per_packet": 1050.9
        });
        let text = written(&TABLES[2], &[&row]);
        let last = text.lines().last().unwrap();
        assert_eq!(last, "| bare | 1,514 | 0.952 | 0.900 to 1.000 | 1,051 |  |");
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(964_000.0, 0), "964,000");
        assert_eq!(grouped(999.5, 1), "999.5");
        assert_eq!(grouped(1234567.25, 2), "1,234,567.25");
    }
}
