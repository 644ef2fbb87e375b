//! The program and the entries of a device, read again from the files of the command line. Nothing
//! is printed: an error is one line, with its place.

use std::sync::{Mutex, MutexGuard, PoisonError};

use command::mininet;
use driver::SourceDiagnostics;
use entries::Update;
use exec::{Lookups, Natives};
use foreign::{CodeText, Severity};
use ir::Program;
use runtime::NewDevice;
use switch::{Device, DeviceConfig};

use crate::args::{Setup, Source, limits, read_text};
use crate::engine::Choice;
use crate::handlers::{self, engine_with};
use crate::{compile, configure};

/// Files of a device.
pub(crate) struct DeviceFiles {
    source: Source,
    setup: Setup,
    choice: Choice,
    /// C code of the handlers that run.
    handlers: Mutex<Vec<CodeText>>,
}

/// Content of the files of a device.
pub(crate) struct ReadFiles {
    pub(crate) device: NewDevice,
    /// C code of the handlers of the device.
    pub(crate) handlers: Vec<CodeText>,
}

impl DeviceFiles {
    /// `handlers` is the C code of the handlers that run.
    pub(crate) fn new(
        source: &Source,
        setup: &Setup,
        choice: Choice,
        handlers: Vec<CodeText>,
    ) -> DeviceFiles {
        DeviceFiles {
            source: source.clone(),
            setup: setup.clone(),
            choice,
            handlers: Mutex::new(handlers),
        }
    }

    /// Records the C code of the handlers that run now.
    pub(crate) fn set_handlers(&self, handlers: Vec<CodeText>) {
        *self.running_handlers() = handlers;
    }

    fn running_handlers(&self) -> MutexGuard<'_, Vec<CodeText>> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and checks the files.
    ///
    /// # Errors
    /// The first error, with its file and line, and the number of the others.
    pub(crate) fn read(&self) -> Result<ReadFiles, String> {
        let (program, texts) = self.program()?;
        let natives = natives(&program, &texts)?;
        let config = configure::device_config(&self.setup);
        let engine = engine_with(Choice::INTERP.engine(), natives.clone());
        let no_lookups = DeviceConfig {
            lookups: Lookups::None,
            ..config.clone()
        };
        let wanted = Device::new(program.into(), engine.as_ref(), &no_lookups);
        let mut wanted = wanted.map_err(|error| error.to_string())?;
        let mut registers = Vec::new();
        if let Some(path) = &self.setup.entries {
            let text = read_text(path, limits::ENTRIES)?;
            let name = path.display().to_string();
            let file = entries::read(wanted.program(), &name, &text);
            let file = file.map_err(|errors| {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                first_of(&lines)
            })?;
            let applied = apply_entries::apply_file(&mut wanted, &file);
            applied.map_err(|refused| {
                let lines: Vec<String> = refused.errors.iter().map(ToString::to_string).collect();
                first_of(&lines)
            })?;
            registers.extend(file.updates().iter().filter_map(|update| match update {
                Update::Register {
                    register, index, ..
                } => Some((*register, *index)),
                _ => None,
            }));
        }
        let device = NewDevice {
            wanted,
            registers,
            engine: engine_with(self.choice.engine(), natives),
            config,
            has_new_handlers: *self.running_handlers() != texts,
        };
        Ok(ReadFiles {
            device,
            handlers: texts,
        })
    }

    fn program(&self) -> Result<(Program, Vec<CodeText>), String> {
        let source = &self.source;
        if let Some(advice) = mininet::advice_on_program(&source.program) {
            return Err(advice);
        }
        if source.is_chain() {
            let chain = compile::chain(source)?;
            let program = chain.composed.map(|composed| composed.program);
            let program = program.ok_or_else(|| first_error(&chain.diagnostics))?;
            return Ok((program, Vec::new()));
        }
        let compiled = driver::compile(&source.program(&source.files()), &source.options());
        let Some(program) = compiled.program else {
            return Err(first_error(&[compiled.diagnostics]));
        };
        let texts = handlers::texts(compiled.foreign, source.c_file.as_deref())?;
        Ok((program, texts))
    }
}

fn natives(program: &Program, texts: &[CodeText]) -> Result<Natives, String> {
    let (compiled, messages) = handlers::diagnose(program, texts);
    let errors = messages.iter();
    let errors = errors.filter(|message| message.severity == Severity::Error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    let loaded = compiled.and_then(|compiled| compiled.load(program, 0));
    loaded.ok_or_else(|| match errors.is_empty() {
        true => "the handlers in C cannot be loaded".to_owned(),
        false => first_of(&errors),
    })
}

fn first_error(all: &[SourceDiagnostics]) -> String {
    let rendered = all.iter().map(|one| one.render(false));
    let errors: Vec<String> = rendered
        .flat_map(|text| {
            let lines = text.lines().map(str::to_owned).collect::<Vec<_>>();
            lines.into_iter()
        })
        // An error without a place has no file name before the word.
        .filter(|line| {
            let marks = [": error: ", ": error["];
            line.starts_with("error") || marks.iter().any(|mark| line.contains(mark))
        })
        .collect();
    first_of(&errors)
}

/// Returns the first line of the first error, and the number of the others.
fn first_of(errors: &[String]) -> String {
    let first = errors.first().and_then(|error| error.lines().next());
    let first = first.unwrap_or("the files have errors").to_owned();
    match errors.len() {
        0 | 1 => first,
        2 => format!("{first} (and another error)"),
        all => format!("{first} (and {} other errors)", all - 1),
    }
}
