//! P4 programs of monitors: compiled with the macros of their permissions, and loaded with their
//! entries.

use std::path::Path;
use std::rc::Rc;

use ::reflex::{Loops, MonitorIndex, MonitorKind, ReflexPlane};
use command::args::{Setup, Source};
use command::configure;
use packet::Nanos;
use switch::{Device, MayLose, MigrationMode};

use super::run::{self, SharedCapture};
use crate::engine::Choice;

/// Loads the program of a monitor again, with its state. Its entries file is not read again.
///
/// # Errors
/// The program has errors, which have been shown, or would lose state: the one before stays.
pub(super) fn reload(
    plane: &mut ReflexPlane,
    file: &Path,
    choice: Choice,
    start: Nanos,
    monitor: MonitorIndex,
) -> Result<(), String> {
    let all = devices(plane.loops(), file, choice, start)?;
    let new = all.into_iter().find(|(at, _)| *at == monitor);
    let program = plane.program_mut(monitor);
    let device = program.and_then(|program| program.device_mut());
    let (Some((_, new)), Some(device)) = (new, device) else {
        return Err("the monitor has no program".to_owned());
    };
    let adopted = device.adopt(new, MigrationMode::State(MayLose::Nothing));
    adopted.map(|_| ()).map_err(|error| {
        format!(
            "{error}\n  = hint: the program before goes on; start the plane again to lose state"
        )
    })
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
        let path = file.with_file_name("").join(&spec.program);
        let entries = spec.entries.as_ref();
        let setup = Setup {
            entries: entries.map(|entries| file.with_file_name("").join(entries)),
            host_ports: Vec::new(),
            seed: loops.seed,
        };
        let mut source = Source::file(&path);
        let macros = loops.program_macros(MonitorIndex(at)).into_iter();
        let macros: Vec<String> = macros
            .map(|(name, place)| format!("{name}={place}"))
            .collect();
        source.preprocess.define.clone_from(&macros);
        match configure::load(&source, &setup, choice, start) {
            Ok(Some(device)) => devices.push((MonitorIndex(at), device)),
            failed => {
                let why = failed.err();
                let why = why.unwrap_or_else(|| "it has the errors above".to_owned());
                let macros = match &macros[..] {
                    [] => {
                        "the monitor has no `reflex`, so it has no macros of permissions".to_owned()
                    }
                    macros => format!("macros of its permissions: {}", macros.join(", ")),
                };
                mistakes.push(format!(
                    "{}:{}: error: monitor \"{}\": {} cannot be loaded: {why}\n  = hint: correct the program or its entries; {macros}",
                    file.display(),
                    spec.line,
                    monitor.name,
                    path.display(),
                ));
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
