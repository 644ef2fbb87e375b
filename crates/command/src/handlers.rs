//! C handlers of a command's program: compiles them, shows the compiler's messages, and gives them
//! to the engine.
//!
//! C code runs with the rights of the command. It comes only from files that the command line
//! names: a program that arrives from a network has no handlers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::ForeignBlock;
use exec::{
    DropReason, Engine, FastPath, HandlerCall, Loaded, Natives, RemoteHandler, Unsupported,
};
use foreign::{
    CodeDiagnostic, CodeError, CodePlace, CodeText, CompileOptions, Compiled, HandlerState,
    LoadError, LoadOptions, OpenedCode, PoolLeases, Severity,
};
use ir::{ExternKind, Layout, Program};
use placement::ServerId;
use split::PoolOwners;
use terminal::out;

use crate::args::{limits, read_text};

/// Engine that loads programs with the handlers of the command line.
struct WithHandlers {
    engine: Box<dyn Engine>,
    handlers: Natives,
}

impl WithHandlers {
    fn natives(&self, natives: &Natives) -> Natives {
        let mut all = natives.clone();
        all.extend(&self.handlers);
        all
    }
}

impl Engine for WithHandlers {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn load(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        self.engine.load(program, layout, &self.natives(natives))
    }

    fn load_with(
        &self,
        program: &Arc<Program>,
        layout: &Layout,
        natives: &Natives,
        pass: &FastPath,
    ) -> Result<Arc<dyn Loaded>, Unsupported> {
        let natives = self.natives(natives);
        self.engine.load_with(program, layout, &natives, pass)
    }
}

/// Returns the engine, with handlers if there are any.
pub fn engine_with(engine: Box<dyn Engine>, handlers: Natives) -> Box<dyn Engine> {
    match handlers.is_empty() {
        true => engine,
        false => Box::new(WithHandlers { engine, handlers }),
    }
}

fn handlers_of(program: &Program) -> impl Iterator<Item = &ir::Extern> {
    let externs = program.externs.values();
    externs.filter(|instance| matches!(instance.kind, ExternKind::Handler { .. }))
}

/// Handler of a device that gets its own handlers before packets arrive.
struct Placeholder;

impl RemoteHandler for Placeholder {
    fn call(&self, _: HandlerCall<'_>) -> Result<(), DropReason> {
        Err(DropReason::Handler)
    }
}

/// Returns the engine for a device that gets its handlers by [`switch::Device::set_handlers`]. The
/// engine does not keep their code in memory.
pub fn engine_without_code(engine: Box<dyn Engine>, program: &Program) -> Box<dyn Engine> {
    let mut handlers = Natives::default();
    for instance in handlers_of(program) {
        handlers.insert_handler(&instance.name, Arc::new(Placeholder));
    }
    engine_with(engine, handlers)
}

/// Returns the texts in C of a program: its blocks, or the file given with `--c`.
///
/// # Errors
/// The file cannot be read, or the program has blocks as well.
pub fn texts(blocks: Vec<ForeignBlock>, file: Option<&Path>) -> Result<Vec<CodeText>, String> {
    let Some(path) = file else {
        let text = |block: ForeignBlock| CodeText {
            file: block.file,
            line: block.line,
            text: block.text,
        };
        return Ok(blocks.into_iter().map(text).collect());
    };
    if let Some(block) = blocks.first() {
        return Err(format!(
            "{}:{}: the program has C code, and --c {} names more: use one of the two",
            block.file,
            block.line,
            path.display()
        ));
    }
    Ok(vec![CodeText {
        file: path.display().to_string(),
        line: 1,
        text: read_text(path, limits::C_CODE)?,
    }])
}

/// Servers of one process that have leased the values of a pool.
#[derive(Debug)]
struct LeaseOwners(PoolLeases);

impl PoolOwners for LeaseOwners {
    fn owner(&self, value: u32) -> Option<ServerId> {
        let server = self.0.owner(value)?;
        u16::try_from(server).ok().map(ServerId)
    }
}

/// Compiled handlers of a program, which each server loads for itself.
#[derive(Default)]
pub struct Handlers {
    compiled: Option<Compiled>,
    group: HandlerState,
}

impl Handlers {
    /// Reads compiled handlers from a directory in which [`Handlers::write_to`] has written them.
    ///
    /// # Errors
    /// A file cannot be read, or was written for another program or by another version.
    pub fn read_from(directory: &Path, program: &Program) -> Result<Handlers, String> {
        let compiled = match handlers_of(program).next() {
            Some(_) => {
                let compiled = Compiled::read_from(directory, program);
                Some(compiled.map_err(|error| error.to_string())?)
            }
            None => None,
        };
        Ok(Handlers {
            compiled,
            group: HandlerState::default(),
        })
    }

    /// Writes the compiled handlers into a directory. Returns the paths of the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_to(&self, directory: &Path) -> Result<Vec<PathBuf>, String> {
        let compiled = self.compiled.as_ref();
        let written = compiled.map(|compiled| compiled.write_to(directory));
        let written = written.transpose().map_err(|error| error.to_string())?;
        Ok(written.into_iter().flatten().collect())
    }

    /// Lets the servers of this process lease only one of `of` equal parts of each pool.
    pub fn set_part(&mut self, part: u32, of: u32) {
        self.group = HandlerState::of_part(part, of);
    }

    /// Returns the servers of this process that have leased the values of a pool, after handlers
    /// were loaded.
    pub fn owners(&self, pool: &str) -> Option<Arc<dyn PoolOwners>> {
        let leases = self
            .pools()
            .into_iter()
            .find(|leases| leases.name() == pool)?;
        Some(Arc::new(LeaseOwners(leases)))
    }

    /// Returns the pools of the group, after handlers were loaded.
    pub fn pools(&self) -> Vec<PoolLeases> {
        self.group.pools()
    }

    /// Returns the state of a server of the group, before handlers were loaded.
    pub fn server_state(&self) -> HandlerState {
        self.group.of_same_group()
    }

    /// Loads the handlers into the server with this number, or into the only device. The interface
    /// of `program` is that of the compiled one. Shows errors, and returns `None` if there are any.
    pub fn load(&self, program: &Program, server: u32) -> Option<Natives> {
        self.load_into(&self.server_state(), program, server)
    }

    /// Loads the handlers as [`Handlers::load`] does. They take over this state.
    pub fn load_into(
        &self,
        state: &HandlerState,
        program: &Program,
        server: u32,
    ) -> Option<Natives> {
        let opened = match self.open(program) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Some(Natives::default()),
            Err(error) => {
                out::error(&error.to_string());
                return None;
            }
        };
        let options = LoadOptions {
            server,
            ..LoadOptions::default()
        };
        let natives = opened.take_over(state, &options);
        natives
            .inspect_err(|error| out::error(&error.to_string()))
            .ok()
    }

    /// Loads the code into memory; `None` if the program has none.
    ///
    /// # Errors
    /// The loader refuses it.
    pub fn open(&self, program: &Program) -> Result<Option<OpenedCode>, LoadError> {
        let compiled = self.compiled.as_ref();
        compiled
            .map(|compiled| foreign::open(compiled, program))
            .transpose()
    }
}

/// Compiles and loads the handlers of a program. Shows the messages of the C compiler, and returns
/// `None` if there are errors. A program without handlers and C code has no handlers to load.
pub fn load(program: &Program, texts: &[CodeText]) -> Option<Natives> {
    compile(program, texts)?.load(program, 0)
}

/// Compiles the handlers of a program, as [`load`] does.
pub fn compile(program: &Program, texts: &[CodeText]) -> Option<Handlers> {
    let (handlers, messages) = diagnose(program, texts);
    for message in &messages {
        out::note(&message.to_string());
    }
    handlers
}

/// Compiles the handlers of a program. Returns them if there are no errors, and the messages.
pub fn diagnose(program: &Program, texts: &[CodeText]) -> (Option<Handlers>, Vec<CodeDiagnostic>) {
    let group = HandlerState::default();
    let mut handlers = handlers_of(program);
    let error = |place: Option<CodePlace>, text: String| CodeDiagnostic {
        place,
        severity: Severity::Error,
        text,
    };
    let first = match (handlers.next(), texts) {
        (None, []) => {
            let compiled = None;
            return (Some(Handlers { compiled, group }), Vec::new());
        }
        (Some(handler), []) => {
            let place = handler.loc.and_then(|loc| {
                Some(CodePlace {
                    file: program.files.get(loc.file as usize)?.clone(),
                    line: loc.line,
                    column: Some(loc.column),
                })
            });
            let name = &handler.name;
            let text = format!(
                "the handler `{name}` has no C code: write it in `extern \"C\" {{ .. }}`, or give \
                 --c FILE.c"
            );
            return (None, vec![error(place, text)]);
        }
        (_, [first, ..]) => first,
    };
    let compiled = match foreign::compile(program, texts, &CompileOptions::new(&cache())) {
        Ok(compiled) => compiled,
        Err(CodeError::Code(mut messages)) => {
            messages.extend(header_hint(program, &messages));
            return (None, messages);
        }
        Err(other) => {
            let place = CodePlace {
                file: first.file.clone(),
                line: first.line,
                column: None,
            };
            return (None, vec![error(Some(place), other.to_string())]);
        }
    };
    let warnings = compiled.warnings().to_vec();
    let compiled = Some(compiled);
    (Some(Handlers { compiled, group }), warnings)
}

/// Parts of the messages of GCC, Clang and TinyCC about names that the code does not declare.
const UNKNOWN_NAME: [&str; 9] = [
    "unknown type name",
    "undeclared",
    "implicit declaration",
    "incomplete type",
    "isn't known",
    "undefined type",
    "no member named",
    "field not found",
    "not defined",
];

/// Returns a note on what `clip.h` declares, if errors may come from names that it does not have.
fn header_hint(program: &Program, messages: &[CodeDiagnostic]) -> Option<CodeDiagnostic> {
    let has_tables = program.tables.values().any(|table| table.mirror.is_some());
    let is_bare = !has_tables && handlers_of(program).next().is_none();
    let is_of_name = |message: &CodeDiagnostic| {
        let mut parts = UNKNOWN_NAME.iter();
        message.severity == Severity::Error && parts.any(|part| message.text.contains(part))
    };
    if !is_bare && !messages.iter().any(is_of_name) {
        return None;
    }
    let has = match is_bare {
        true => {
            "the program has no `@remote` handler and no `@mirror` table, so `clip.h` declares none"
        }
        false => "`clip.h` declares the handlers and mirrored tables of this program",
    };
    Some(CodeDiagnostic {
        place: None,
        severity: Severity::Note,
        text: format!("{has}: `polyplane split header PROGRAM` prints it"),
    })
}

/// Returns the directory of compiled C code: the user's cache, else a directory of this process.
fn cache() -> PathBuf {
    let of = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
    let user = of("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(of("HOME")?).join(".cache")));
    match user {
        Some(cache) => cache.join("polyplane").join("c"),
        None => std::env::temp_dir().join(format!("polyplane-c-{}", std::process::id())),
    }
}
