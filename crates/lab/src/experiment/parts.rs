//! Parts of an experiment: rows for programs, a table for people, pictures.
//!
//! A row says if its values are measured by wall clock, simulated, computed by a model, or the
//! paper's own. A [`Sheet`] makes rows and their table, in which no column has values of two
//! sources.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use support::text_table;
use terminal::out;

use super::{Picture, write};

/// Origin of a row's values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// Measured by wall clock, by the counter of the processor's clock, or by a thread's processor
    /// time.
    Measured,
    /// Simulated with the programs that run for real too.
    Simulated,
    /// Computed from parameters: sizes, or latencies of a device that is not here.
    Model,
    /// The paper's.
    Paper,
}

impl Origin {
    /// Returns its name in rows and tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Simulated => "simulated",
            Origin::Model => "model",
            Origin::Paper => "paper",
        }
    }
}

/// One row.
#[derive(Serialize)]
pub(super) struct Row {
    /// The figure or table.
    place: &'static str,
    /// The measured object.
    subject: String,
    source: Origin,
    #[serde(flatten)]
    values: Map<String, Value>,
    paper: String,
}

impl Row {
    pub(super) fn new(
        place: &'static str,
        subject: impl Into<String>,
        source: Origin,
        values: &[(&str, f64)],
        paper: impl Into<String>,
    ) -> Row {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        Row {
            place,
            subject: subject.into(),
            source,
            values: values.collect(),
            paper: paper.into(),
        }
    }
}

/// Rows of a part, and their table: a line for each subject, a column for each value and source.
pub(super) struct Sheet {
    place: &'static str,
    rows: Vec<Row>,
    subjects: Vec<String>,
    columns: Vec<(&'static str, Origin)>,
    cells: HashMap<(usize, usize), String>,
}

impl Sheet {
    pub(super) fn new(place: &'static str) -> Sheet {
        Sheet {
            place,
            rows: Vec::new(),
            subjects: Vec::new(),
            columns: Vec::new(),
            cells: HashMap::new(),
        }
    }

    /// Sets the place of the rows that follow.
    pub(super) fn place(&mut self, place: &'static str) {
        self.place = place;
    }

    /// Adds values of a subject: a row, and cells of its line.
    pub(super) fn add(&mut self, subject: &str, source: Origin, values: &[(&'static str, f64)]) {
        self.row(subject, source, values);
        for (name, value) in values {
            self.cell((subject, name, source), amount(*value));
        }
    }

    /// Adds a row that the table does not have.
    pub(super) fn row(&mut self, subject: &str, source: Origin, values: &[(&str, f64)]) {
        self.rows
            .push(Row::new(self.place, subject, source, values, ""));
    }

    /// Adds words of a subject, to its last row if that is of this source. Words of more than a
    /// line have no cell.
    pub(super) fn say(&mut self, subject: &str, source: Origin, name: &'static str, words: &str) {
        let is_own = |row: &&mut Row| row.subject == subject && row.source == source;
        if self.rows.last_mut().filter(is_own).is_none() {
            self.add(subject, source, &[]);
        }
        if let Some(row) = self.rows.last_mut() {
            row.values.insert(name.to_owned(), Value::from(words));
        }
        if !words.contains('\n') {
            self.cell((subject, name, source), words.to_owned());
        }
    }

    fn cell(&mut self, (subject, name, source): (&str, &'static str, Origin), text: String) {
        let line = self.subjects.iter().position(|one| one == subject);
        let line = line.unwrap_or_else(|| {
            self.subjects.push(subject.to_owned());
            self.subjects.len() - 1
        });
        let column = self.columns.iter().position(|one| *one == (name, source));
        let column = column.unwrap_or_else(|| {
            self.columns.push((name, source));
            self.columns.len() - 1
        });
        self.cells.insert((line, column), text);
    }

    /// Returns the part.
    pub(super) fn part(self, title: &'static str, note: String, pictures: Vec<Picture>) -> Part {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|column| self.columns[*column].1);
        let heads = order.iter().map(|column| {
            let (name, source) = self.columns[*column];
            format!("{name} ({})", source.name())
        });
        let mut table = vec![std::iter::once(String::new()).chain(heads).collect()];
        for (line, subject) in self.subjects.iter().enumerate() {
            let cells = order.iter().map(|&column| {
                let cell = self.cells.get(&(line, column));
                cell.cloned().unwrap_or_else(|| "-".to_owned())
            });
            table.push(std::iter::once(subject.clone()).chain(cells).collect());
        }
        Part {
            title,
            rows: self.rows,
            table,
            note,
            pictures,
        }
    }
}

/// Returns a number with four digits, or all of a whole number.
fn amount(value: f64) -> String {
    let digits = 3 - value.abs().max(1e-3).log10().floor() as i32;
    match value.fract() == 0.0 {
        true => format!("{value}"),
        false => format!("{value:.*}", digits.clamp(0, 6) as usize),
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
    let mut text = "place,subject,source,value,number,paper\n".to_owned();
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for row in rows {
        for (name, value) in &row.values {
            let cells = [
                quoted(row.place),
                quoted(&row.subject),
                row.source.name().to_owned(),
                match name.contains(',') {
                    true => quoted(name),
                    false => name.clone(),
                },
                value.to_string(),
                quoted(&row.paper),
            ];
            text += &cells.join(",");
            text.push('\n');
        }
    }
    text
}
