//! From C text to a shared object, by the system's C compiler.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use ir::{ExternKind, Program};
use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest, Sha256};

use crate::diagnostics::{self, CodeDiagnostic, CodePlace, Severity};
use crate::header::{self, TCC_MARK};
use crate::interface::Interface;
use crate::object_file::{self, Symbols};
use crate::tokens;

/// Flags of the compilation.
const FLAGS: &[&str] = &["-std=c11", "-O2", "-fPIC", "-ffp-contract=off", "-Wall"];

/// Flags of the linker. A call of one of the code's own functions reaches it, also if libc has one
/// of the same name.
const LINK_FLAGS: &[&str] = &["-shared", "-Wl,-Bsymbolic"];

/// Version of the interface between generated code and this crate. Part of the cache key.
const ABI_VERSION: u32 = 1;

/// Maximum number of bytes of a compiler's messages that are read.
const MAX_OUTPUT: u64 = 256 << 10;

/// Maximum number of bytes of an object file.
const MAX_OBJECT: u64 = 64 << 20;

/// Default time limit of each run of the compiler.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(20);

/// Piece of C text: the content of an `extern "C"` block, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeText {
    /// File that contains it, as messages name it.
    pub file: String,
    /// Line of its first character.
    pub line: u32,
    /// The text.
    pub text: String,
}

/// Options of [`compile`].
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Directory for compiled code. It is created if it does not exist. Code is executed from it,
    /// so only the user may be able to write to it.
    pub cache: PathBuf,
    /// The compiler command; by default `$CC`, or `cc`.
    pub compiler: Option<OsString>,
    /// Time limit of each run of the compiler.
    pub time_limit: Duration,
}

impl CompileOptions {
    /// Returns the default options with this directory.
    pub fn new(cache: &Path) -> CompileOptions {
        CompileOptions {
            cache: cache.to_owned(),
            compiler: None,
            time_limit: DEFAULT_TIME_LIMIT,
        }
    }
}

/// Compiled C code of a program.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The shared object.
    pub(crate) path: PathBuf,
    pub(crate) interface: Interface,
    /// Names of the stateful variables and pools, sorted.
    pub(crate) variables: Vec<String>,
    warnings: Vec<CodeDiagnostic>,
    was_cached: bool,
}

impl Compiled {
    /// Returns the warnings of the compiler.
    pub fn warnings(&self) -> &[CodeDiagnostic] {
        &self.warnings
    }

    /// Returns true if the compiler was not run, because the code was compiled before.
    pub fn was_cached(&self) -> bool {
        self.was_cached
    }
}

/// Name of the notes about an object in a directory of [`Compiled::write_to`].
const NOTES: &str = "handlers.txt";

/// Maximum number of bytes of the notes.
const MAX_NOTES: u64 = 1 << 20;

impl Compiled {
    /// Writes the object and notes about it into a directory, for [`Compiled::read_from`]. Returns
    /// their paths. The name of the object depends on its content: a process may still have the
    /// object of an earlier call in memory.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_to(&self, directory: &Path) -> Result<[PathBuf; 2], CodeError> {
        let key = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("handlers-{}.so", key.get(..16).unwrap_or(&key));
        let (object, notes) = (directory.join(&name), directory.join(NOTES));
        let copy = directory.join(format!("{name}.new"));
        fs::copy(&self.path, &copy).map_err(failed(&copy))?;
        rename(&copy, &object)?;
        let variables = self.variables.join(" ");
        let interface = digest([header::text(&self.interface).as_str()]);
        write(
            &notes,
            &format!("{ABI_VERSION}\n{interface}\n{name}\n{variables}\n"),
        )?;
        Ok([object, notes])
    }

    /// Reads what [`Compiled::write_to`] has written, for a program with the same interface. The
    /// compiler is not run.
    ///
    /// # Errors
    /// A file cannot be read, or the code was compiled for another program or by another version.
    pub fn read_from(directory: &Path, program: &Program) -> Result<Compiled, CodeError> {
        let path = directory.join(NOTES);
        let unread = |message: String| CodeError::Io {
            path: path.clone(),
            error: io::Error::other(message),
        };
        let text = support::read::read_text(&path, MAX_NOTES);
        let text = text.map_err(|error| unread(error.to_string()))?;
        let interface = Interface::of(program);
        let expected = digest([header::text(&interface).as_str()]);
        let lines: Vec<&str> = text.lines().collect();
        match lines[..] {
            [version, interface_of, name, ref rest @ ..]
                if version == ABI_VERSION.to_string()
                    && interface_of == expected
                    && !name.contains('/') =>
            {
                let variables = rest.iter().flat_map(|line| line.split_whitespace());
                Ok(Compiled {
                    path: fs::canonicalize(directory.join(name)).map_err(failed(directory))?,
                    variables: variables.map(str::to_owned).collect(),
                    interface,
                    warnings: Vec::new(),
                    was_cached: true,
                })
            }
            _ => Err(unread(
                "the C code was compiled for another program or by another version: build it again"
                    .to_owned(),
            )),
        }
    }
}

/// Error of a compilation.
#[derive(Debug)]
pub enum CodeError {
    /// There is no C compiler.
    NoCompiler {
        /// The command.
        command: String,
    },
    /// The code cannot be used.
    Code(Vec<CodeDiagnostic>),
    /// The compiler ran longer than the limit.
    TimeLimit {
        /// The command.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// The compiler failed without a message about the code.
    Failed {
        /// The command.
        command: String,
        /// Its output.
        output: String,
    },
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodeError::NoCompiler { command } => write!(
                f,
                "there is no C compiler `{command}`: install gcc, clang or tcc, or set CC to the \
                 command of one"
            ),
            CodeError::Code(diagnostics) => {
                for (at, diagnostic) in diagnostics.iter().enumerate() {
                    let end = if at == 0 { "" } else { "\n" };
                    write!(f, "{end}{diagnostic}")?;
                }
                Ok(())
            }
            CodeError::TimeLimit { command, limit } => {
                let limit = limit.as_secs_f64();
                write!(f, "the C compiler `{command}` did not end within {limit} s")
            }
            CodeError::Failed { command, output } => {
                write!(f, "the C compiler `{command}` failed: {}", output.trim())
            }
            CodeError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for CodeError {}

/// Returns the text of `clip.h` for a verified program.
pub fn header(program: &Program) -> String {
    header::text(&Interface::of(program))
}

/// Compiles the C code of a verified program.
///
/// # Errors
/// See [`CodeError`]. Nothing is changed.
pub fn compile(
    program: &Program,
    codes: &[CodeText],
    options: &CompileOptions,
) -> Result<Compiled, CodeError> {
    let interface = Interface::of(program);
    let compiler = Compiler::find(options)?;
    let header = header::text(&interface);
    let unit = unit(codes, &interface);
    let key = compiler.key(&header, &unit);
    let file = |ending: &str| options.cache.join(format!("{key}.{ending}"));
    let (object, notes) = (file("so"), file("txt"));
    if let (true, Ok(text)) = (
        object.exists(),
        support::read::read_text(&notes, MAX_OUTPUT),
    ) {
        let mut lines = text.lines();
        let variables = lines.next().unwrap_or("").split_whitespace();
        return Ok(Compiled {
            variables: variables.map(str::to_owned).collect(),
            warnings: diagnostics::read(&lines.collect::<Vec<_>>().join("\n")),
            path: object,
            interface,
            was_cached: true,
        });
    }
    let place = Workplace::new(&options.cache, &key)?;
    let build = Build {
        program,
        codes,
        interface: &interface,
        compiler: &compiler,
        place: &place.path,
    };
    let (variables, warnings) = build.run(&header, &unit)?;
    let lines = warnings.iter().map(|warning| format!("\n{warning}"));
    write(
        &place.path.join("txt"),
        &(variables.join(" ") + &lines.collect::<String>()),
    )?;
    // The object is moved last: with it, the cache has the code.
    rename(&place.path.join("txt"), &notes)?;
    rename(&place.path.join("unit.so"), &object)?;
    Ok(Compiled {
        path: object,
        interface,
        variables,
        warnings,
        was_cached: false,
    })
}

/// Name of the text that calls the handlers, in messages.
const CALLS: &str = "clip_calls.c";

/// Returns the translation unit: the user's text between the header and the wrappers.
fn unit(codes: &[CodeText], interface: &Interface) -> String {
    let mut unit = "#include \"clip.h\"\n".to_owned();
    for code in codes {
        let file = code.file.replace('\\', "\\\\").replace('"', "\\\"");
        let file = file.replace(['\n', '\r'], "?");
        unit += &format!("#line {} \"{file}\"\n{}\n", code.line.max(1), code.text);
    }
    unit + &format!("#line 1 \"{CALLS}\"\n") + &header::wrappers(interface)
}

/// Returns a digest of texts in hexadecimal digits.
fn digest<const N: usize>(parts: [&str; N]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CodeError {
    let path = path.to_owned();
    move |error| CodeError::Io { path, error }
}

fn write(path: &Path, text: &str) -> Result<(), CodeError> {
    fs::write(path, text).map_err(failed(path))
}

fn rename(from: &Path, to: &Path) -> Result<(), CodeError> {
    fs::rename(from, to).map_err(failed(to))
}

/// Directory of one compilation. It is removed at the end.
struct Workplace {
    path: PathBuf,
}

impl Workplace {
    fn new(cache: &Path, key: &str) -> Result<Workplace, CodeError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}-{}-{number}", &key[..16], std::process::id());
        let path = cache.join(name);
        fs::create_dir_all(&path).map_err(failed(&path))?;
        Ok(Workplace { path })
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What is left is harmless.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The C compiler: command and identity.
struct Compiler {
    /// The command as the user gave it.
    command: String,
    words: Vec<OsString>,
    /// Path, size and time of the program, by which another version is recognized.
    identity: String,
    time_limit: Duration,
}

impl Compiler {
    fn find(options: &CompileOptions) -> Result<Compiler, CodeError> {
        let given = options.compiler.clone().or_else(|| env::var_os("CC"));
        let command = given.unwrap_or_default().to_string_lossy().into_owned();
        let command = match command.trim() {
            "" => "cc".to_owned(),
            command => command.to_owned(),
        };
        let words: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
        let path = words.first().and_then(|word| in_path(Path::new(word)));
        let Some((path, metadata)) = path else {
            return Err(CodeError::NoCompiler { command });
        };
        let time = metadata.modified().ok();
        let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanos = time.map_or(0, |time| time.as_nanos());
        Ok(Compiler {
            identity: format!("{} {} {nanos}", path.display(), metadata.len()),
            command,
            words,
            time_limit: options.time_limit,
        })
    }

    /// Returns the name of the compiled code in the cache.
    fn key(&self, header: &str, unit: &str) -> String {
        let version = ABI_VERSION.to_string();
        let flags = [FLAGS, LINK_FLAGS].concat().join(" ");
        digest([
            &version,
            &flags,
            header,
            unit,
            &self.command,
            &self.identity,
        ])
    }

    /// Runs the compiler with these arguments. Returns true if it succeeded, and its messages.
    fn run(&self, place: &Path, arguments: &[&str]) -> Result<(bool, String), CodeError> {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .args(arguments)
            .current_dir(place)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let no_compiler = |_| CodeError::NoCompiler {
            command: self.command.clone(),
        };
        let mut child = command.spawn().map_err(no_compiler)?;
        let messages = child.stderr.take();
        let reader = std::thread::spawn(move || {
            let mut output = Vec::new();
            if let Some(messages) = messages {
                // What was read before an error counts.
                let _ = messages.take(MAX_OUTPUT).read_to_end(&mut output);
            }
            String::from_utf8_lossy(&output).into_owned()
        });
        let status = self.wait(&mut child);
        let output = reader.join().unwrap_or_default();
        match status {
            Some(succeeded) => Ok((succeeded, output)),
            None => Err(CodeError::TimeLimit {
                command: self.command.clone(),
                limit: self.time_limit,
            }),
        }
    }

    /// Waits for the compiler. Returns true if it succeeded, and `None` if it was killed at the
    /// time limit.
    fn wait(&self, child: &mut Child) -> Option<bool> {
        let end = Instant::now() + self.time_limit;
        let mut pause = Duration::from_micros(500);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status.success()),
                Ok(None) if Instant::now() < end => std::thread::sleep(pause),
                _ => {
                    // The compiler is a group of processes. They may have ended just now.
                    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
                    let _ = child.wait();
                    return None;
                }
            }
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}

/// Returns the program that a command starts, as the shell searches it.
fn in_path(command: &Path) -> Option<(PathBuf, fs::Metadata)> {
    let file = |path: PathBuf| {
        let metadata = fs::metadata(&path).ok()?;
        metadata.is_file().then_some((path, metadata))
    };
    if command.components().count() > 1 {
        return file(command.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).find_map(|folder| file(folder.join(command)))
}

/// One compilation.
struct Build<'b> {
    program: &'b Program,
    codes: &'b [CodeText],
    interface: &'b Interface,
    compiler: &'b Compiler,
    place: &'b Path,
}

impl Build<'_> {
    /// Makes `unit.so`. Returns the names of the variables and the warnings.
    fn run(
        &self,
        header: &str,
        unit: &str,
    ) -> Result<(Vec<String>, Vec<CodeDiagnostic>), CodeError> {
        write(&self.place.join("clip.h"), header)?;
        write(&self.place.join("unit.c"), unit)?;
        let compile = ["-c", "unit.c", "-o", "unit.o"];
        let (succeeded, output) = self.compiler.run(self.place, &[FLAGS, &compile].concat())?;
        let messages = diagnostics::read(&output);
        if !succeeded {
            let messages = diagnostics::without_calls(messages, CALLS);
            let has_error = messages.iter().any(|one| one.severity == Severity::Error);
            return Err(match has_error {
                true => CodeError::Code(messages),
                false => self.failed(output),
            });
        }
        let path = self.place.join("unit.o");
        let object = support::read::read_file(&path, MAX_OBJECT);
        let object = object.map_err(|error| self.failed(error.to_string()))?;
        let Some(symbols) = object_file::read(&object) else {
            return Err(self.failed("it does not make 64-bit ELF objects".to_owned()));
        };
        let variables = self.check(&symbols)?;
        let link = ["-o", "unit.so", "unit.o", "-lm"];
        let (succeeded, output) = self
            .compiler
            .run(self.place, &[LINK_FLAGS, &link].concat())?;
        match succeeded {
            true => Ok((variables, messages)),
            false => Err(self.failed(output)),
        }
    }

    fn failed(&self, output: String) -> CodeError {
        CodeError::Failed {
            command: self.compiler.command.clone(),
            output,
        }
    }

    /// Checks the object's symbols. Returns the names of the stateful variables.
    fn check(&self, symbols: &Symbols) -> Result<Vec<String>, CodeError> {
        let mut errors = Vec::new();
        let handlers = || self.interface.handlers.iter();
        for handler in handlers() {
            if !symbols.defined.contains(&handler.function) {
                errors.push(self.missing(&handler.name, &handler.function));
            }
        }
        let is_handler = |name: &str| handlers().any(|handler| handler.function == name);
        for name in &symbols.undefined {
            // Names that begin like this are the implementation's. The loader finds them.
            let is_known = name.starts_with("__") || name.starts_with("_GLOBAL_OFFSET");
            if !is_known && !is_handler(name) && !crate::abi::is_in_system(name) {
                let text = format!("`{name}` is declared, but not defined in the code or in libc");
                errors.push(self.error(name, text));
            }
        }
        let is_tcc = symbols.defined.iter().any(|name| name == TCC_MARK);
        let mut variables = Vec::new();
        for (symbol, size) in &symbols.writable {
            if let (Some(name), 24) = (symbol.strip_prefix("clip_var_"), *size) {
                variables.push(name.to_owned());
                continue;
            }
            // Compilers append a number to the name of a static local variable.
            let name = symbol.split('.').next().unwrap_or(symbol);
            let is_own =
                is_tcc && (symbol.starts_with("L.") || symbol == TCC_MARK || name.is_empty());
            let is_constant = is_tcc && (name == "__func__" || tokens::is_const(self.codes, name));
            if !is_own && !is_constant {
                errors.push(self.error(
                    name,
                    format!(
                        "the variable `{name}` is writable, and workers would race on it: use \
                         CLIP_STATE or CLIP_SHARED, or make it const"
                    ),
                ));
            }
        }
        errors.truncate(diagnostics::MAX_DIAGNOSTICS);
        variables.sort_unstable();
        match errors.is_empty() {
            true => Ok(variables),
            false => Err(CodeError::Code(errors)),
        }
    }

    /// Returns an error at the first use of a name in the user's text.
    fn error(&self, name: &str, text: String) -> CodeDiagnostic {
        CodeDiagnostic {
            place: tokens::place_of(self.codes, name),
            severity: Severity::Error,
            text,
        }
    }

    fn missing(&self, handler: &str, function: &str) -> CodeDiagnostic {
        let declared = self.program.externs.values().find(|instance| {
            instance.name == handler && matches!(instance.kind, ExternKind::Handler { .. })
        });
        let loc = declared.and_then(|instance| instance.loc);
        let place = loc.and_then(|loc| {
            Some(CodePlace {
                file: self.program.files.get(loc.file as usize)?.clone(),
                line: loc.line,
                column: Some(loc.column),
            })
        });
        CodeDiagnostic {
            place,
            severity: Severity::Error,
            text: format!(
                "the handler `{handler}` has no C code: define `{function}` as clip.h declares it"
            ),
        }
    }
}
