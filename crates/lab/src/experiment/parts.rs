//! Parts of an experiment: rows for programs, a table for people, pictures.
//!
//! A row says if its values are measured by wall clock, simulated or computed, and has the paper's
//! value.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use support::text_table;
use terminal::out;

use super::{Picture, write};

/// Origin of a row's values.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// Measured by wall clock, or by the counter of the processor's clock.
    Wall,
    /// Simulated with the programs that run for real too.
    Simulated,
    /// Computed from sizes.
    Computed,
}

/// One row.
#[derive(Serialize)]
pub(super) struct Row {
    /// The figure or table.
    place: &'static str,
    /// The measured object.
    subject: String,
    measured: Origin,
    #[serde(flatten)]
    values: Map<String, Value>,
    paper: String,
}

impl Row {
    pub(super) fn new(
        place: &'static str,
        subject: impl Into<String>,
        measured: Origin,
        values: &[(&str, f64)],
        paper: impl Into<String>,
    ) -> Row {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Row {
            place,
            subject: subject.into(),
            measured,
            values: values.collect(),
            paper: paper.into(),
        }
    }
}

/// Result of a part.
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) rows: Vec<Row>,
    /// Lines of the table. The first one is the head.
    pub(super) table: Vec<Vec<String>>,
    /// Text below the table.
    pub(super) note: String,
    pub(super) pictures: Vec<Picture>,
}

impl Part {
    fn text(&self) -> String {
        let table = text_table::align(&self.table);
        format!("{}\n\n{table}\n{}\n", self.title, self.note)
    }
}

/// Results of an experiment so far, and the files that hold them.
pub(super) struct Results {
    directory: PathBuf,
    name: &'static str,
    rows: Vec<Row>,
    text: String,
}

impl Results {
    /// Creates the directory.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn new(directory: &Path, name: &'static str) -> Result<Results, String> {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        Ok(Results {
            directory: directory.to_owned(),
            name,
            rows: Vec::new(),
            text: String::new(),
        })
    }

    /// Adds a part, and writes all files: what is measured stays if a later part is interrupted.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn add(&mut self, part: Part) -> Result<(), String> {
        for picture in &part.pictures {
            write(&self.directory.join(picture.file), &picture.svg)?;
        }
        self.text += &part.text();
        self.text.push('\n');
        self.rows.extend(part.rows);
        let json = serde_json::to_string_pretty(&self.rows);
        let json = json.map_err(|error| format!("cannot write rows as JSON: {error}"))?;
        let csv = csv(&self.rows);
        for (extension, text) in [("json", &json), ("csv", &csv), ("txt", &self.text)] {
            let file = format!("{}.{extension}", self.name);
            write(&self.directory.join(file), text)?;
        }
        Ok(())
    }

    /// Prints the tables, or the rows as JSON.
    pub(super) fn print(&self, json: bool) {
        match json {
            true => out::json(&self.rows),
            false => out::text(&self.text),
        }
    }
}

/// Returns the rows as comma-separated values: one line for each number.
fn csv(rows: &[Row]) -> String {
    let mut text = "place,subject,measured,value,number,paper\n".to_owned();
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for row in rows {
        let measured = match row.measured {
            Origin::Wall => "wall",
            Origin::Simulated => "simulated",
            Origin::Computed => "computed",
        };
        for (name, value) in &row.values {
            let cells = [
                quoted(row.place),
                quoted(&row.subject),
                measured.to_owned(),
                name.clone(),
                value.to_string(),
                quoted(&row.paper),
            ];
            text += &cells.join(",");
            text.push('\n');
        }
    }
    text
}
