//! A chain of programs used as one program. The policy that defines it is a file, or is typed on
//! the command line (docs/COMPOSITION.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bench::tenants::Step;
use ir::Program;
use passes::compose::{Composed, Form, Joint, Policy, Position, StepProgram, compose};
use syntax::diag::{Diagnostic, Diagnostics};
use syntax::source::{SourceMap, Span};

use crate::args::{Preprocess, Source, limits, read_text};
use crate::compile::{self, Lowered};

/// Extension of policy files.
const ENDING: &str = "policy";

/// Separator of steps. No file name contains it.
const ARROW: &str = "->";

/// Name of a chain that was typed.
const TYPED: &str = "chain";

/// Returns true if the argument is a policy, not a program.
pub(crate) fn is_policy(program: &Path) -> bool {
    let is_typed = program.to_str().is_some_and(|text| text.contains(ARROW));
    is_typed || program.extension().is_some_and(|ending| ending == ENDING)
}

/// Returns the name of the chain.
pub(crate) fn name(program: &Path) -> String {
    match typed(program) {
        Some(_) => TYPED.to_owned(),
        None => stem(program),
    }
}

/// Returns a file's name without directory and extension.
fn stem(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Returns the policy, if it was typed.
fn typed(program: &Path) -> Option<&str> {
    program.to_str().filter(|text| text.contains(ARROW))
}

/// Result of compiling a policy.
pub(crate) struct Chained {
    /// Diagnostics of each text: first the policy, then the programs of its steps.
    pub(crate) told: Vec<(Diagnostics, SourceMap)>,
    /// The composed program, if there are no errors.
    pub(crate) composed: Option<Composed>,
    /// The input of the composition, if all of it could be read.
    pub(crate) parts: Option<Parts>,
}

/// Input of a composition.
pub(crate) struct Parts {
    pub(crate) policy: Policy,
    /// The program of each step, by its name in the policy.
    pub(crate) programs: Vec<(String, Program)>,
}

/// Compiles the programs of all steps and composes them into one.
pub(crate) fn chain(source: &Source) -> Result<Chained, String> {
    let text = Text::of(&source.program)?;
    Ok(chained(&name(&source.program), &text, &source.preprocess))
}

/// Compiles a typed policy, as [`chain`] does. Its programs are searched in this directory.
pub(crate) fn typed_chain(policy: &str, directory: &Path) -> Chained {
    let text = Text::typed(policy, directory);
    chained(TYPED, &text, &Preprocess::default())
}

/// Composes programs that are given as texts, in their order.
///
/// # Errors
/// The errors of the first wrong text, or the reason why the programs cannot be composed.
pub(crate) fn compile_steps(name: &str, steps: &[Step]) -> Result<Program, String> {
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    let policy =
        Policy::read(&names.join(&format!(" {ARROW} "))).map_err(|error| error.to_string())?;
    let programs = steps.iter().map(|step| {
        let program = compile::compile_text(&format!("{}.p4", step.name), &step.source)?;
        Ok((step.name, program))
    });
    let programs: Vec<(&str, Program)> = programs.collect::<Result<_, String>>()?;
    let given = programs.iter();
    let given: Vec<_> = given
        .map(|(step, program)| StepProgram { step, program })
        .collect();
    let composed = compose(name, &policy, &given, Form::Merged);
    Ok(composed.map_err(|error| error.to_string())?.program)
}

fn chained(name: &str, text: &Text, preprocess: &Preprocess) -> Chained {
    let mut chained = Chained {
        told: Vec::new(),
        composed: None,
        parts: None,
    };
    let mut own = Own::new(text);
    let policy = match Policy::read(&text.text) {
        Ok(policy) => policy,
        Err(error) => {
            own.wrong(Some(error.at), error.message);
            chained.told.push(own.told());
            return chained;
        }
    };
    let mut programs = Vec::new();
    // Several steps may use the same file.
    let mut compiled: BTreeMap<&str, Option<Program>> = BTreeMap::new();
    for step in policy.steps() {
        let source = text.step(&step.source, preprocess);
        if let Some(why) = no_program(&source.program) {
            own.wrong(Some(step.at), format!("the step `{}`: {why}", step.name));
            continue;
        }
        let program = compiled.entry(&step.source).or_insert_with(|| {
            let Lowered { program, told } = compile::lowered(&source);
            chained.told.push(told);
            program
        });
        programs.extend(program.clone().map(|program| (step.name.clone(), program)));
    }
    if own.has_errors() {
        chained.told.insert(0, own.told());
        return chained;
    }
    if programs.len() < policy.steps().len() {
        return chained;
    }
    let given = programs.iter();
    let given: Vec<_> = given
        .map(|(step, program)| StepProgram { step, program })
        .collect();
    match compose(name, &policy, &given, Form::Merged) {
        Ok(composed) => chained.composed = Some(composed),
        Err(error) => {
            own.wrong(error.at, error.problem.to_string());
            chained.told.insert(0, own.told());
        }
    }
    chained.parts = Some(Parts { policy, programs });
    chained
}

/// Returns the reason if this file cannot be the program of a step.
fn no_program(file: &Path) -> Option<String> {
    let file_name = file.display();
    if is_policy(file) {
        return Some(format!(
            "{file_name} is a policy, and steps are programs; write its steps here instead"
        ));
    }
    let is_missing = !file.exists();
    is_missing.then(|| format!("cannot read {file_name}: there is no such file"))
}

/// Formats as a line how a step is joined to the step before it.
pub(crate) fn told(joint: &Joint) -> String {
    let Joint { step, apart } = joint;
    match apart {
        None => format!("{step} goes on with the headers as they are"),
        Some(reason) => format!("{step} parses packets anew: {reason}"),
    }
}

/// Text of a policy.
struct Text {
    /// File name, for messages.
    file: String,
    text: String,
    /// Directory in which the programs of its steps are searched.
    directory: PathBuf,
}

impl Text {
    fn typed(text: &str, directory: &Path) -> Text {
        Text {
            file: "policy".to_owned(),
            text: text.to_owned(),
            directory: directory.to_path_buf(),
        }
    }

    fn of(program: &Path) -> Result<Text, String> {
        if let Some(text) = typed(program) {
            return Ok(Text::typed(text, Path::new("")));
        }
        let text = read_text(program, limits::POLICY)?;
        let file = program.display().to_string();
        let directory = program.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(Text {
            file,
            text,
            directory,
        })
    }

    /// Returns the source of a step's program: a file beside the policy, with the extension `.p4`
    /// if it has none.
    fn step(&self, source: &str, preprocess: &Preprocess) -> Source {
        let mut program = self.directory.join(source);
        if program.extension().is_none() {
            program.set_extension("p4");
        }
        Source {
            program,
            preprocess: preprocess.clone(),
        }
    }
}

/// Diagnostics of a policy's own text.
struct Own<'t> {
    text: &'t Text,
    sources: SourceMap,
    diagnostics: Diagnostics,
    /// Byte offsets at which lines begin.
    lines: Vec<usize>,
}

impl<'t> Own<'t> {
    fn new(text: &'t Text) -> Own<'t> {
        let mut sources = SourceMap::new();
        sources.add(text.file.as_str(), text.text.as_str());
        let ends = text.text.match_indices('\n').map(|(end, _)| end + 1);
        Own {
            text,
            sources,
            diagnostics: Diagnostics::new(),
            lines: [0].into_iter().chain(ends).collect(),
        }
    }

    fn has_errors(&self) -> bool {
        self.diagnostics.has_errors()
    }

    fn told(self) -> (Diagnostics, SourceMap) {
        (self.diagnostics, self.sources)
    }

    /// Adds an error at a position.
    fn wrong(&mut self, at: Option<Position>, message: String) {
        let base = self.sources.files().first().map_or(0, |file| file.base());
        let span = at.map_or(Span::NONE, |at| {
            let lo = base + self.offset(at) as u32;
            Span::new(lo, lo + 1)
        });
        let diagnostic = Diagnostic::error("E1201", span, message);
        self.diagnostics.push(diagnostic);
    }

    /// Returns the byte offset of a position.
    fn offset(&self, at: Position) -> usize {
        let text = self.text.text.as_str();
        let line = self.lines.get(at.line as usize - 1);
        let start = line.copied().unwrap_or(text.len());
        let mut characters = text[start..].char_indices();
        let column = characters.nth(at.column as usize - 1);
        column.map_or(text.len(), |(column, _)| start + column)
    }
}
