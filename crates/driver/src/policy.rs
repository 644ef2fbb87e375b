//! Compilation of a policy: a chain of programs that is used as one program. The policy is a file,
//! or a text of the command line (docs/reference/policy.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ir::Program;
use passes::compose::{Composed, Form, Policy, Position, StepProgram, compose};
use syntax::diag::Diagnostic;
use syntax::files::FileSystem;
use syntax::source::Span;

use crate::{CompileError, Compiled, Options, Source, SourceDiagnostics, compile, compile_text};

/// Maximum size of a policy file in bytes.
pub const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Extension of policy files.
const EXTENSION: &str = "policy";

/// Separator of steps. No file name contains it.
const ARROW: &str = "->";

/// Program name of a policy that is no file.
const TYPED_NAME: &str = "chain";

/// Returns true if an argument of the command line is a policy and not a program: a file
/// `NAME.policy`, or the text itself, as `a.p4 -> b.p4`.
pub fn is_policy(argument: &Path) -> bool {
    let is_file = argument
        .extension()
        .is_some_and(|extension| extension == EXTENSION);
    is_file || policy_text(argument).is_some()
}

/// Returns the name of the program that an argument of the command line compiles to.
pub fn program_name(argument: &Path) -> String {
    match policy_text(argument) {
        Some(_) => TYPED_NAME.to_owned(),
        None => stem(argument),
    }
}

/// Returns the policy, if the argument is its text.
fn policy_text(argument: &Path) -> Option<&str> {
    argument.to_str().filter(|text| text.contains(ARROW))
}

/// Returns a file's name without directory and extension.
pub(crate) fn stem(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// A policy as it is given to the compiler.
#[derive(Clone, Debug)]
pub struct PolicySource<'s> {
    /// Name of the program.
    name: String,
    /// File name in diagnostics.
    file: String,
    text: String,
    /// Directory in which the programs of its steps are searched.
    directory: PathBuf,
    files: &'s FileSystem,
}

impl<'s> PolicySource<'s> {
    /// Returns a policy of this text. The programs of its steps are files of the directory.
    pub fn of_text(text: &str, directory: &Path, files: &'s FileSystem) -> PolicySource<'s> {
        PolicySource {
            name: TYPED_NAME.to_owned(),
            file: "policy".to_owned(),
            text: text.to_owned(),
            directory: directory.to_path_buf(),
            files,
        }
    }

    /// Reads a policy from an argument of the command line: a file, or the text itself. The
    /// programs of its steps are files of the policy file's directory, or of the current one.
    ///
    /// # Errors
    /// The file cannot be read as text, or is larger than [`MAX_POLICY_BYTES`].
    pub fn of_argument(
        argument: &Path,
        files: &'s FileSystem,
    ) -> Result<PolicySource<'s>, CompileError> {
        if let Some(text) = policy_text(argument) {
            return Ok(PolicySource::of_text(text, Path::new(""), files));
        }
        let read = files.read_text(argument, MAX_POLICY_BYTES);
        let text = read.map_err(|error| CompileError::Read {
            file: argument.to_path_buf(),
            error,
        })?;
        Ok(PolicySource {
            name: stem(argument),
            file: argument.display().to_string(),
            text,
            directory: argument.parent().unwrap_or(Path::new("")).to_path_buf(),
            files,
        })
    }

    /// Returns the file of a step's program, with the extension `.p4` if it has none.
    fn step_file(&self, source: &str) -> PathBuf {
        let mut path = self.directory.join(source);
        if path.extension().is_none() {
            path.set_extension("p4");
        }
        path
    }

    /// Returns the reason if this file cannot be the program of a step.
    fn rejects(&self, file: &Path) -> Option<String> {
        let shown = file.display();
        if is_policy(file) {
            return Some(format!(
                "{shown} is a policy, and steps are programs; write its steps here instead"
            ));
        }
        let is_missing = !self.files.exists(file);
        is_missing.then(|| format!("cannot read {shown}: there is no such file"))
    }
}

/// Result of the compilation of a policy.
#[derive(Debug, Default)]
pub struct CompiledPolicy {
    /// Diagnostics of each text: first the policy, if it has errors, then the programs of its
    /// steps.
    pub diagnostics: Vec<SourceDiagnostics>,
    /// The composed program, if there are no errors.
    pub composed: Option<Composed>,
    /// The input of the composition, if the policy and all programs were compiled.
    pub parts: Option<PolicyParts>,
}

/// A policy with its programs.
#[derive(Clone, Debug)]
pub struct PolicyParts {
    /// The policy.
    pub policy: Policy,
    /// The program of each step, by its name in the policy.
    pub programs: Vec<(String, Program)>,
}

impl CompiledPolicy {
    /// Returns the composed program, without warnings.
    ///
    /// # Errors
    /// The diagnostics, if the policy or a program has errors.
    pub fn into_result(self) -> Result<Composed, CompileError> {
        self.composed
            .ok_or(CompileError::Diagnostics(self.diagnostics))
    }
}

/// Compiles the programs of all steps and composes them into one.
pub fn compile_policy(source: &PolicySource<'_>, options: &Options, form: Form) -> CompiledPolicy {
    let mut compiled = CompiledPolicy::default();
    let mut own = PolicyDiagnostics::new(source);
    let policy = match Policy::read(&source.text) {
        Ok(policy) => policy,
        Err(error) => {
            own.error(Some(error.at), error.message);
            compiled.diagnostics.push(own.diagnostics);
            return compiled;
        }
    };
    let mut programs = Vec::new();
    // Several steps may use the same file.
    let mut by_file: BTreeMap<&str, Option<Program>> = BTreeMap::new();
    for step in policy.steps() {
        let path = source.step_file(&step.source);
        if let Some(reason) = source.rejects(&path) {
            own.error(Some(step.at), format!("the step `{}`: {reason}", step.name));
            continue;
        }
        let program = by_file.entry(&step.source).or_insert_with(|| {
            let files = source.files;
            let path = path.as_path();
            let Compiled {
                program,
                foreign,
                diagnostics,
            } = compile(&Source::File { path, files }, options);
            compiled.diagnostics.push(diagnostics);
            if !foreign.is_empty() {
                own.error(
                    Some(step.at),
                    format!("the step `{}` has C code, and a chain has none", step.name),
                );
            }
            program
        });
        programs.extend(program.clone().map(|program| (step.name.clone(), program)));
    }
    if own.diagnostics.has_errors() {
        compiled.diagnostics.insert(0, own.diagnostics);
        return compiled;
    }
    if programs.len() < policy.steps().len() {
        return compiled;
    }
    match compose(&source.name, &policy, &step_programs(&programs), form) {
        Ok(composed) => compiled.composed = Some(composed),
        Err(error) => {
            own.error(error.at, error.problem.to_string());
            compiled.diagnostics.insert(0, own.diagnostics);
        }
    }
    compiled.parts = Some(PolicyParts { policy, programs });
    compiled
}

fn step_programs(programs: &[(String, Program)]) -> Vec<StepProgram<'_>> {
    let programs = programs.iter();
    programs
        .map(|(step, program)| StepProgram { step, program })
        .collect()
}

/// A step of a chain as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSource {
    /// Its name in the chain.
    pub step: String,
    /// Its program, as P4_16 text.
    pub text: String,
}

/// Compiles programs that are given as texts and composes them, in their order, into a program of
/// this name.
///
/// # Errors
/// The diagnostics of the first text with errors, or the reason why the programs cannot be
/// composed.
pub fn compile_steps(name: &str, steps: &[StepSource]) -> Result<Program, CompileError> {
    let names: Vec<&str> = steps.iter().map(|step| step.step.as_str()).collect();
    let policy = names.join(&format!(" {ARROW} "));
    let policy = Policy::read(&policy).map_err(CompileError::Policy)?;
    let programs = steps.iter().map(|StepSource { step, text }| {
        let program = compile_text(&format!("{step}.p4"), text)?;
        Ok((step.clone(), program))
    });
    let programs = programs.collect::<Result<Vec<_>, CompileError>>()?;
    let composed = compose(name, &policy, &step_programs(&programs), Form::Merged);
    Ok(composed.map_err(CompileError::Compose)?.program)
}

/// Diagnostics of a policy's own text.
struct PolicyDiagnostics<'t> {
    text: &'t str,
    diagnostics: SourceDiagnostics,
    /// Byte offsets at which lines begin.
    lines: Vec<usize>,
}

impl<'t> PolicyDiagnostics<'t> {
    fn new(source: &'t PolicySource<'_>) -> PolicyDiagnostics<'t> {
        let text = source.text.as_str();
        let mut diagnostics = SourceDiagnostics::default();
        diagnostics.sources.add(source.file.as_str(), text);
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        PolicyDiagnostics {
            text,
            diagnostics,
            lines: [0].into_iter().chain(ends).collect(),
        }
    }

    /// Adds an error at a position.
    fn error(&mut self, at: Option<Position>, message: String) {
        let sources = &self.diagnostics.sources;
        let base = sources.files().first().map_or(0, |file| file.base());
        let span = at.map_or(Span::NONE, |at| {
            let lo = base + self.offset(at) as u32;
            Span::new(lo, lo + 1)
        });
        let diagnostic = Diagnostic::error("E1201", span, message);
        self.diagnostics.list.push(diagnostic);
    }

    /// Returns the byte offset of a position.
    fn offset(&self, at: Position) -> usize {
        let line = self.lines.get(at.line as usize - 1);
        let start = line.copied().unwrap_or(self.text.len());
        let mut characters = self.text[start..].char_indices();
        let column = characters.nth(at.column as usize - 1);
        column.map_or(self.text.len(), |(column, _)| start + column)
    }
}
