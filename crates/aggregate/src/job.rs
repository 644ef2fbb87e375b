//! Job files: data, mappers and reducers, as text.
//!
//! ```text
//! data   part0 = 10.0.1.11:/data/part0.txt
//! map    m0 = words(part0)
//! reduce total = add(m0) at 10.0.9.2 keys 16 values i64 memory 100000 tiers 1
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::emit::{MAX_BLOCKS, MAX_SLOTS};
use crate::pair::{KeyClass, Operator, Shape, ValueClass};
use crate::plan::MAX_TIERS;

/// Maximum number of mappers of a job.
pub const MAX_MAPPERS: usize = 1024;

/// Slots of an epoch where a job gives no `memory` (the bound of the paper's testbed).
pub const DEFAULT_SLOTS: u32 = 100_000;

/// Slots of an epoch of a vector, where a job gives no `memory`: blocks with 1 MB of lanes.
pub const DEFAULT_BLOCKS: u32 = 1000;

/// A line of a job file, from 1, and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Error of a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// Its place.
    pub at: Position,
    /// The message.
    pub message: String,
    /// The remedy.
    pub mend: String,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobError { at, message, mend } = self;
        write!(f, "{}:{}: {message}; {mend}", at.line, at.column)
    }
}

impl std::error::Error for JobError {}

/// A part of the data: a file on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPart {
    /// Its name.
    pub name: String,
    /// The host.
    pub host: Ipv4Addr,
    /// The path on the host.
    pub path: String,
    /// Its place in the file.
    pub at: Position,
}

/// Function from a part to pairs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapFunction {
    /// Each word, with its number.
    Words,
    /// The destination of each line `SOURCE DESTINATION`, with its number.
    Links,
    /// Lines `KEY<TAB>VALUE`, values with one key combined.
    Pairs,
    /// A vector: numbers of 4 bytes, little-endian.
    Gradients,
    /// A program that reads the part and writes lines `KEY<TAB>VALUE`.
    Exec(String),
}

/// A mapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperLine {
    /// Its name.
    pub name: String,
    /// Its function.
    pub function: MapFunction,
    /// Index of its part.
    pub part: usize,
}

/// A reducer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReducerLine {
    /// Its name.
    pub name: String,
    /// Indices of its mappers.
    pub mappers: Vec<usize>,
    /// The host.
    pub host: Ipv4Addr,
    /// Operator and classes.
    pub shape: Shape,
    /// Slots of an epoch in each switch.
    pub slots: u32,
    /// Maximum number of switches that reduce on a path.
    pub tiers: u16,
    /// True if each mapper gets the result too.
    pub to_all: bool,
    /// Its place in the file.
    pub at: Position,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The parts.
    pub parts: Vec<DataPart>,
    /// The mappers.
    pub mappers: Vec<MapperLine>,
    /// The reducers.
    pub reducers: Vec<ReducerLine>,
}

impl Job {
    /// Reads a job file.
    ///
    /// # Errors
    /// All errors of the file, in order.
    pub fn read(text: &str) -> Result<Job, Vec<JobError>> {
        let mut reader = JobReader::default();
        for (number, line) in text.lines().enumerate() {
            let mut line = Line::new(line, number + 1);
            if let Err(error) = reader.line(&mut line) {
                reader.errors.push(error);
            }
        }
        reader.finish()
    }
}

#[derive(Default)]
struct JobReader {
    job: Job,
    /// All names with the kind of their statement.
    names: BTreeMap<String, (Name, Position)>,
    /// Number of reducers of each mapper, and its place.
    uses: Vec<(usize, Position)>,
    /// The name of the line's statement, if it has one already.
    named: Option<String>,
    errors: Vec<JobError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Part(usize),
    Mapper(usize),
    Reducer,
    /// Of a statement with an error.
    Wrong,
}

/// The rest of a line.
struct Line<'a> {
    text: &'a str,
    rest: &'a str,
    number: usize,
}

impl<'a> Line<'a> {
    fn new(text: &'a str, number: usize) -> Line<'a> {
        let code = text.split('#').next().unwrap_or_default();
        Line {
            text: code,
            rest: code,
            number,
        }
    }

    /// Returns the place of the next token.
    fn at(&mut self) -> Position {
        self.rest = self.rest.trim_start();
        let read = self.text.len() - self.rest.len();
        Position {
            line: self.number,
            column: self.text[..read].chars().count() + 1,
        }
    }

    fn error(&mut self, message: String, mend: &str) -> JobError {
        JobError {
            at: self.at(),
            message,
            mend: mend.to_owned(),
        }
    }

    fn is_at_end(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.is_empty()
    }

    /// Takes the characters that belong to a word.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn name(&mut self, kind: &str) -> Result<&'a str, JobError> {
        let at = self.at();
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        match name.is_empty() {
            false => Ok(name),
            true => Err(JobError {
                at,
                message: format!("the name of {kind} is missing"),
                mend: "write letters, digits, _ and -".to_owned(),
            }),
        }
    }

    fn token(&mut self, token: &str, mend: &str) -> Result<(), JobError> {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.error(format!("\"{token}\" is missing"), mend)),
        }
    }

    fn end(&mut self, mend: &str) -> Result<(), JobError> {
        match self.is_at_end() {
            true => Ok(()),
            false => {
                let rest = self.rest.to_owned();
                Err(self.error(
                    format!("\"{}\" is not expected here", rest.trim_end()),
                    mend,
                ))
            }
        }
    }
}

const DATA_FORM: &str = "write data NAME = ADDRESS:/PATH";
const MAP_FORM: &str = "write map NAME = FUNCTION(PART), with the function words, links, \
                        pairs, gradients or exec \"PROGRAM\"";
const REDUCE_FORM: &str = "write reduce NAME = max|min|add(MAPPERS) at ADDRESS, then keys, values, \
                           memory, tiers and `to all` as needed";

impl JobReader {
    fn line(&mut self, line: &mut Line<'_>) -> Result<(), JobError> {
        if line.is_at_end() {
            return Ok(());
        }
        let at = line.at();
        self.named = None;
        let read = match line.word(|c| c.is_ascii_alphabetic()) {
            "data" => self.data(line),
            "map" => self.map(line),
            "reduce" => self.reduce(line),
            other => Err(JobError {
                at,
                message: format!("\"{other}\" is no statement"),
                mend: "begin a line with data, map or reduce".to_owned(),
            }),
        };
        if read.is_err()
            && let Some(name) = self.named.take()
            && let Some((kind, _)) = self.names.get_mut(&name)
        {
            *kind = Name::Wrong;
        }
        read
    }

    /// Takes a name that no statement has yet.
    fn new_name(
        &mut self,
        line: &mut Line<'_>,
        kind: &str,
        name: Name,
    ) -> Result<String, JobError> {
        let at = line.at();
        let text = line.name(kind)?.to_owned();
        if let Some((_, first)) = self.names.get(&text) {
            return Err(JobError {
                at,
                message: format!("{text} is the name of two statements"),
                mend: format!("line {} has it already; take another", first.line),
            });
        }
        self.names.insert(text.clone(), (name, at));
        self.named = Some(text.clone());
        Ok(text)
    }

    fn data(&mut self, line: &mut Line<'_>) -> Result<(), JobError> {
        let at = line.at();
        let name = self.new_name(line, "data", Name::Part(self.job.parts.len()))?;
        line.token("=", DATA_FORM)?;
        let host = address(line)?;
        line.token(":", DATA_FORM)?;
        let path = line.rest.trim().to_owned();
        if path.is_empty() {
            return Err(line.error("the path is missing".to_owned(), DATA_FORM));
        }
        self.job.parts.push(DataPart {
            name,
            host,
            path,
            at,
        });
        Ok(())
    }

    fn map(&mut self, line: &mut Line<'_>) -> Result<(), JobError> {
        let at = line.at();
        let name = self.new_name(line, "a mapper", Name::Mapper(self.job.mappers.len()))?;
        line.token("=", MAP_FORM)?;
        let function_at = line.at();
        let function = match line.word(|c| c.is_ascii_alphabetic()) {
            "words" => MapFunction::Words,
            "links" => MapFunction::Links,
            "pairs" => MapFunction::Pairs,
            "gradients" => MapFunction::Gradients,
            "exec" => {
                line.token("\"", MAP_FORM)?;
                let end = line.rest.find('"');
                let end =
                    end.ok_or_else(|| line.error("the \" is not closed".to_owned(), MAP_FORM))?;
                let command = line.rest[..end].to_owned();
                line.rest = &line.rest[end + 1..];
                MapFunction::Exec(command)
            }
            other => {
                return Err(JobError {
                    at: function_at,
                    message: format!("\"{other}\" is no map function"),
                    mend: MAP_FORM.to_owned(),
                });
            }
        };
        line.token("(", MAP_FORM)?;
        let part_at = line.at();
        let part = line.name("the part")?;
        let part = match self.names.get(part) {
            Some((Name::Part(part), _)) => *part,
            // Its own line has the error.
            Some((Name::Wrong, _)) => 0,
            _ => {
                return Err(JobError {
                    at: part_at,
                    message: format!("there is no data {part} above"),
                    mend: DATA_FORM.to_owned(),
                });
            }
        };
        line.token(")", MAP_FORM)?;
        line.end(MAP_FORM)?;
        self.job.mappers.push(MapperLine {
            name,
            function,
            part,
        });
        self.uses.push((0, at));
        Ok(())
    }

    fn reduce(&mut self, line: &mut Line<'_>) -> Result<(), JobError> {
        let at = line.at();
        let name = self.new_name(line, "a reducer", Name::Reducer)?;
        line.token("=", REDUCE_FORM)?;
        let operator_at = line.at();
        let word = line.word(|c| c.is_ascii_alphabetic());
        let operator = Operator::from_name(word).ok_or_else(|| JobError {
            at: operator_at,
            message: format!("\"{word}\" is no operator"),
            mend: "take max, min or add".to_owned(),
        })?;
        line.token("(", REDUCE_FORM)?;
        let mappers = self.mappers_of(line)?;
        line.token("at", REDUCE_FORM)?;
        let host = address(line)?;
        let mut reducer = ReducerLine {
            name,
            mappers,
            host,
            shape: Shape {
                operator,
                keys: KeyClass::B16,
                values: ValueClass::I64,
            },
            slots: 0,
            tiers: 1,
            to_all: false,
            at,
        };
        let mut values_at = operator_at;
        while !line.is_at_end() {
            values_at = option(line, &mut reducer)?.unwrap_or(values_at);
        }
        self.check_vector(&mut reducer, values_at)?;
        self.job.reducers.push(reducer);
        Ok(())
    }

    /// Checks that the mappers and classes of a reducer are of pairs or of a vector, and sets the
    /// default of its slots. `values_at` is the place of its class of values.
    fn check_vector(&self, reducer: &mut ReducerLine, values_at: Position) -> Result<(), JobError> {
        let is_vector = reducer.shape.is_vector();
        let of_mappers = reducer
            .mappers
            .iter()
            .map(|mapper| &self.job.mappers[*mapper]);
        let mut others =
            of_mappers.filter(|mapper| (mapper.function == MapFunction::Gradients) != is_vector);
        if let Some(other) = others.next() {
            let (message, mend) = match is_vector {
                true => (
                    "gives pairs, but the keys are none",
                    "leave out `keys none`",
                ),
                false => (
                    "gives a vector",
                    "write `keys none` and `values i32` or `values f32`",
                ),
            };
            return Err(JobError {
                at: reducer.at,
                message: format!("the mapper {} {message}", other.name),
                mend: mend.to_owned(),
            });
        }
        if !reducer.shape.is_possible() {
            let Shape {
                operator, values, ..
            } = reducer.shape;
            let what = if is_vector { "vectors" } else { "pairs" };
            let mend = match (is_vector, values) {
                (false, _) => "take i32, u32, i64 or u64; f32 is for vectors, with `keys none`",
                (true, ValueClass::F32) => "take add, or values i32",
                (true, _) => "take i32 or f32",
            };
            return Err(JobError {
                at: values_at,
                message: format!(
                    "there is no {} of {what} of {}",
                    operator.name(),
                    values.name()
                ),
                mend: mend.to_owned(),
            });
        }
        if reducer.to_all && !is_vector {
            return Err(JobError {
                at: reducer.at,
                message: "pairs go to the reducer alone".to_owned(),
                mend: "leave out `to all`, or reduce vectors with `keys none`".to_owned(),
            });
        }
        if reducer.slots == 0 {
            reducer.slots = match is_vector {
                true => DEFAULT_BLOCKS,
                false => DEFAULT_SLOTS,
            };
        }
        if is_vector && reducer.slots > MAX_BLOCKS {
            return Err(JobError {
                at: reducer.at,
                message: format!("{} blocks of a vector are too many", reducer.slots),
                mend: format!("write memory with at most {MAX_BLOCKS}"),
            });
        }
        Ok(())
    }

    fn mappers_of(&mut self, line: &mut Line<'_>) -> Result<Vec<usize>, JobError> {
        let mut mappers = Vec::new();
        loop {
            let at = line.at();
            let name = line.name("a mapper")?;
            let mapper = match self.names.get(name) {
                Some((Name::Mapper(mapper), _)) => Some(*mapper),
                Some((Name::Wrong, _)) => None,
                _ => {
                    return Err(JobError {
                        at,
                        message: format!("there is no mapper {name} above"),
                        mend: MAP_FORM.to_owned(),
                    });
                }
            };
            if mapper.is_some_and(|mapper| mappers.contains(&mapper)) {
                return Err(JobError {
                    at,
                    message: format!("{name} is twice in one reducer"),
                    mend: "name it once".to_owned(),
                });
            }
            if let Some(mapper) = mapper {
                mappers.push(mapper);
                self.uses[mapper].0 += 1;
            }
            if line.token(",", "").is_err() {
                line.token(")", REDUCE_FORM)?;
                return Ok(mappers);
            }
        }
    }

    fn finish(mut self) -> Result<Job, Vec<JobError>> {
        let first = Position { line: 1, column: 1 };
        if self.errors.is_empty() {
            if self.job.reducers.is_empty() {
                self.errors.push(JobError {
                    at: first,
                    message: "the job has no reducer".to_owned(),
                    mend: REDUCE_FORM.to_owned(),
                });
            }
            for (mapper, (uses, at)) in self.job.mappers.iter().zip(&self.uses) {
                if *uses == 0 {
                    self.errors.push(JobError {
                        at: *at,
                        message: format!("the mapper {} is in no reducer", mapper.name),
                        mend: "name it in a reduce statement, or remove it".to_owned(),
                    });
                }
            }
            if self.job.mappers.len() > MAX_MAPPERS {
                let count = self.job.mappers.len();
                self.errors.push(JobError {
                    at: first,
                    message: format!("the job has {count} mappers; it may have {MAX_MAPPERS}"),
                    mend: "give mappers larger parts".to_owned(),
                });
            }
        }
        match self.errors.is_empty() {
            true => Ok(self.job),
            false => Err(self.errors),
        }
    }
}

fn address(line: &mut Line<'_>) -> Result<Ipv4Addr, JobError> {
    let at = line.at();
    let word = line.word(|c| c.is_ascii_digit() || c == '.');
    word.parse().map_err(|_| JobError {
        at,
        message: format!("\"{word}\" is no IPv4 address"),
        mend: "write the address of a host of the topology, as in 10.0.1.11".to_owned(),
    })
}

/// Reads an option of a reducer. Returns the place of a class of values.
fn option(line: &mut Line<'_>, reducer: &mut ReducerLine) -> Result<Option<Position>, JobError> {
    let at = line.at();
    let name = line.word(|c| c.is_ascii_alphabetic());
    let value_at = line.at();
    let value = line.word(|c| c.is_ascii_alphanumeric());
    let wrong = |mend: String| JobError {
        at: value_at,
        message: format!("\"{value}\" is no value of {name}"),
        mend,
    };
    match name {
        "keys" => {
            let class = match value {
                "none" => Some(KeyClass::Block),
                _ => value.parse().ok().and_then(KeyClass::from_bytes),
            };
            let mend = || wrong("take 8, 16, 32 or 64, or none for vectors".to_owned());
            reducer.shape.keys = class.ok_or_else(mend)?;
        }
        "values" => {
            let class = ValueClass::from_name(value);
            let mend = || wrong("take i32, u32, i64, u64 or f32".to_owned());
            reducer.shape.values = class.ok_or_else(mend)?;
            return Ok(Some(value_at));
        }
        "memory" => {
            let slots = value
                .parse()
                .ok()
                .filter(|slots| (1..=MAX_SLOTS).contains(slots));
            let mend = || wrong(format!("write a number of slots from 1 to {MAX_SLOTS}"));
            reducer.slots = slots.ok_or_else(mend)?;
        }
        "tiers" => {
            let tiers = value.parse().ok().filter(|tiers| *tiers <= MAX_TIERS);
            let mend = || wrong(format!("write a number from 0 to {MAX_TIERS}"));
            reducer.tiers = tiers.ok_or_else(mend)?;
        }
        "to" => {
            let mend = || wrong("write `to all`, for vectors".to_owned());
            reducer.to_all = (value == "all").then_some(true).ok_or_else(mend)?;
        }
        _ => {
            return Err(JobError {
                at,
                message: format!("\"{name}\" is no option of a reducer"),
                mend: REDUCE_FORM.to_owned(),
            });
        }
    }
    Ok(None)
}
