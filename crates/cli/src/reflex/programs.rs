//! P4 programs of monitors: compiled with the macros of their permissions, and loaded with their
//! entries.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use ::reflex::{Loops, MonitorIndex, MonitorKind, ProgramSpec, ReflexPlane};
use command::args::{Setup, Source};
use command::{compile, configure, handlers, mininet};
use exec::Natives;
use packet::Nanos;
use switch::{Device, MayLose, MigrationMode};

use super::run::{self, SharedCapture};
use crate::engine::Choice;

/// A program that has been compiled to take the place of another one.
struct NewProgram {
    device: Device,
    /// Warnings of the compiler.
    warnings: String,
}

/// Program of a monitor that is loaded again: a thread compiles it.
pub(super) struct Reload {
    monitor: MonitorIndex,
    made: Receiver<Result<NewProgram, String>>,
}

impl Reload {
    /// Begins to compile the program of a monitor. Its entries file is not read.
    ///
    /// # Errors
    /// The monitor has no program, or the operating system provides no thread.
    pub(super) fn begin(
        loops: &Loops,
        file: &Path,
        choice: Choice,
        start: Nanos,
        monitor: MonitorIndex,
    ) -> Result<Reload, String> {
        let MonitorKind::Program(spec) = &loops.monitors[monitor.0].kind else {
            return Err("the monitor has no program".to_owned());
        };
        let source = source(loops, file, monitor, spec);
        let setup = Setup {
            entries: None,
            host_ports: Vec::new(),
            seed: loops.seed,
        };
        let refusal = Refusal::new(loops, file, monitor, spec, &source);
        let (sender, made) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("reload".to_owned())
            .stack_size(crate::STACK_BYTES);
        let started = thread.spawn(move || {
            let new = compiled(&source, &setup, choice, start);
            // The plane may have ended.
            let _ = sender.send(new.map_err(|why| refusal.text(&why)));
        });
        match started {
            Ok(_) => Ok(Reload { monitor, made }),
            Err(error) => Err(format!("cannot start a thread: {error}")),
        }
    }

    /// Lets the plane go on with the program, if it is compiled. Returns the compiler's warnings;
    /// `None` until then. An error has what is wrong with the program, or the state that it would
    /// lose: the one before stays.
    pub(super) fn finish(&self, plane: &mut ReflexPlane) -> Option<Result<String, String>> {
        let new = match self.made.try_recv() {
            Ok(new) => new,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the compiler failed".to_owned()),
        };
        Some(new.and_then(|new| self.adopt(plane, new)))
    }

    fn adopt(&self, plane: &mut ReflexPlane, new: NewProgram) -> Result<String, String> {
        let program = plane.program_mut(self.monitor);
        let Some(device) = program.and_then(|program| program.device_mut()) else {
            return Err("the monitor has no program".to_owned());
        };
        let NewProgram {
            device: new,
            warnings,
        } = new;
        match device.adopt(new, MigrationMode::State(MayLose::Nothing)) {
            Ok(_) => Ok(warnings),
            Err(error) => Err(format!(
                "{error}\n  = hint: the program before goes on; start the plane again to lose state"
            )),
        }
    }
}

/// Compiles a program to a device without entries. Shows nothing but errors of the loader of C.
///
/// # Errors
/// The program has errors, or a file cannot be read.
fn compiled(
    source: &Source,
    setup: &Setup,
    choice: Choice,
    start: Nanos,
) -> Result<NewProgram, String> {
    if let Some(advice) = mininet::advice_on_program(&source.program) {
        return Err(advice);
    }
    let (program, foreign, diagnostics) = match source.is_chain() {
        true => {
            let chain = compile::chain(source)?;
            let program = chain.composed.map(|composed| composed.program);
            (program, Vec::new(), chain.diagnostics)
        }
        false => {
            let one = driver::compile(&source.program(&source.files()), &source.options());
            (one.program, one.foreign, vec![one.diagnostics])
        }
    };
    let texts = diagnostics.iter().filter(|it| !it.list.is_empty());
    let mut lines: Vec<String> = texts
        .map(|text| text.render(false).trim_end().to_owned())
        .collect();
    let errors = |lines: &[String]| format!("it has errors\n{}", lines.join("\n"));
    let Some(program) = program else {
        return Err(errors(&lines));
    };
    let natives = match source.is_chain() {
        // Programs of chains have no handlers.
        true => Natives::default(),
        false => {
            let texts = handlers::texts(foreign, None)?;
            let (code, messages) = handlers::diagnose(&program, &texts);
            lines.extend(messages.iter().map(ToString::to_string));
            match code.and_then(|code| code.load(&program, 0)) {
                Some(natives) => natives,
                None => return Err(errors(&lines)),
            }
        }
    };
    let engine = handlers::engine_with(choice.engine_before_packets(), natives);
    let config = configure::device_config(setup);
    let device = Device::new(Arc::new(program), engine.as_ref(), &config);
    let mut device = device.map_err(|error| error.to_string())?;
    // Idle time-outs of entries begin when the entries are added.
    device.step(start);
    Ok(NewProgram {
        device,
        warnings: lines.join("\n"),
    })
}

/// Returns the program of a monitor, with the macros of its permissions.
fn source(loops: &Loops, file: &Path, monitor: MonitorIndex, spec: &ProgramSpec) -> Source {
    let mut source = Source::file(&file.with_file_name("").join(&spec.program));
    let macros = loops.program_macros(monitor).into_iter();
    source.preprocess.define = macros
        .map(|(name, place)| format!("{name}={place}"))
        .collect();
    source
}

/// Message about a program that is refused, without the reason.
struct Refusal {
    /// The part before the reason.
    what: String,
    macros: String,
}

impl Refusal {
    fn new(
        loops: &Loops,
        file: &Path,
        monitor: MonitorIndex,
        spec: &ProgramSpec,
        source: &Source,
    ) -> Refusal {
        let macros = match &source.preprocess.define[..] {
            [] => "the monitor has no `reflex`, so it has no macros of permissions".to_owned(),
            macros => format!("macros of its permissions: {}", macros.join(", ")),
        };
        let what = format!(
            "{}:{}: error: monitor \"{}\": {} cannot be loaded",
            file.display(),
            spec.line,
            loops.monitors[monitor.0].name,
            source.program.display(),
        );
        Refusal { what, macros }
    }

    fn text(&self, why: &str) -> String {
        format!(
            "{}: {why}\n  = hint: correct the program or its entries; {}",
            self.what, self.macros
        )
    }
}

/// Compiles the programs of all monitors that are one.
///
/// # Errors
/// Programs and entries with errors, each with its line in the loop file. The errors themselves
/// have been shown.
pub(super) fn devices(
    loops: &Loops,
    file: &Path,
    choice: Choice,
    start: Nanos,
) -> Result<Vec<(MonitorIndex, Device)>, String> {
    let (mut devices, mut mistakes) = (Vec::new(), Vec::new());
    for (at, monitor) in loops.monitors.iter().enumerate() {
        let MonitorKind::Program(spec) = &monitor.kind else {
            continue;
        };
        let at = MonitorIndex(at);
        let entries = spec.entries.as_ref();
        let setup = Setup {
            entries: entries.map(|entries| file.with_file_name("").join(entries)),
            host_ports: Vec::new(),
            seed: loops.seed,
        };
        let source = source(loops, file, at, spec);
        match configure::load(&source, &setup, choice, start) {
            Ok(Some(device)) => devices.push((at, device)),
            failed => {
                let why = failed.err();
                let why = why.unwrap_or_else(|| "it has the errors above".to_owned());
                mistakes.push(Refusal::new(loops, file, at, spec, &source).text(&why));
            }
        }
    }
    match mistakes.is_empty() {
        true => Ok(devices),
        false => Err(mistakes.join("\n")),
    }
}

/// Has the packets of programs written to captures, from texts as `bursts=packets.pcap`.
///
/// # Errors
/// A text without a monitor that is a program, or a file that cannot be created.
pub(super) fn capture(
    plane: &mut ReflexPlane,
    given: &[String],
) -> Result<Vec<SharedCapture>, String> {
    let mut captures = Vec::new();
    for text in given {
        let Some((name, file)) = text.rsplit_once('=').filter(|(_, file)| !file.is_empty()) else {
            return Err(format!(
                "\"{text}\" is no monitor with a file: write MONITOR=FILE, as in bursts=packets.pcap"
            ));
        };
        let mut monitors = plane.loops().monitors.iter();
        let at = monitors.position(|monitor| monitor.name == name);
        let program = at.and_then(|at| plane.program_mut(MonitorIndex(at)));
        let Some(program) = program else {
            let monitors = plane.loops().monitors.iter();
            let programs = monitors.filter(|it| matches!(it.kind, MonitorKind::Program(_)));
            let names: Vec<&str> = programs.map(|it| it.name.as_str()).collect();
            return Err(match &names[..] {
                [] => format!("no monitor is a P4 program: take --packets {text} away"),
                names => format!(
                    "no monitor \"{name}\" is a P4 program; name one of: {}",
                    names.join(", ")
                ),
            });
        };
        let capture = run::create(Path::new(file))?;
        program.set_observer(run::observer(Some(Rc::clone(&capture))));
        captures.push(capture);
    }
    Ok(captures)
}

/// Gives the monitors of a plane their programs.
///
/// # Errors
/// As [`devices`].
pub(super) fn set(
    plane: &mut ReflexPlane,
    file: &Path,
    choice: Choice,
    start: Nanos,
) -> Result<(), String> {
    for (monitor, device) in devices(plane.loops(), file, choice, start)? {
        if let Some(program) = plane.program_mut(monitor) {
            program.set_device(device);
        }
    }
    Ok(())
}
