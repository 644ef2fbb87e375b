//! Builds a configured device from a program and its entries.

use std::path::Path;
use std::sync::Arc;

use exec::Engine;
use foreign::CodeText;
use packet::Nanos;
use support::read::TextParts;
use switch::{Device, DeviceConfig};
use terminal::out;

use crate::args::{Setup, Source, limits};
use crate::compile;
use crate::engine::Choice;
use crate::handlers::engine_with;

/// Compiles a program and loads it with its entries, which are added at time `start`. Shows all
/// errors, and returns `None` if there are any.
pub fn load(
    source: &Source,
    setup: &Setup,
    choice: Choice,
    start: Nanos,
) -> Result<Option<Device>, String> {
    let loaded = load_with_handlers(source, setup, choice, start)?;
    Ok(loaded.map(|(device, _)| device))
}

/// Loads as [`load`] does, and returns the C code of the handlers as well.
///
/// # Errors
/// Those of [`load`].
pub fn load_with_handlers(
    source: &Source,
    setup: &Setup,
    choice: Choice,
    start: Nanos,
) -> Result<Option<(Device, Vec<CodeText>)>, String> {
    let Some(compiled) = compile::compile_with_handlers(source)? else {
        return Ok(None);
    };
    let engine = engine_with(choice.engine_before_packets(), compiled.handlers);
    let device = load_on(engine.as_ref(), &Arc::new(compiled.program), setup, start)?;
    Ok(device.map(|device| (device, compiled.texts)))
}

/// Loads a program with its entries on an engine. The entries are added at time `start`. Shows
/// errors in them, and returns `None` if there are any.
pub fn load_on(
    engine: &dyn Engine,
    program: &Arc<ir::Program>,
    setup: &Setup,
    start: Nanos,
) -> Result<Option<Device>, String> {
    let config = device_config(setup);
    let mut device =
        Device::new(Arc::clone(program), engine, &config).map_err(|error| error.to_string())?;
    // Idle time-outs of entries begin when the entries are added.
    device.step(start);
    let Some(path) = &setup.entries else {
        return Ok(Some(device));
    };
    Ok(add_file(&mut device, path)?.then_some(device))
}

/// Reads an entries file and applies it. Shows its errors, and returns true if there are none.
/// After an error the device must not be used.
///
/// # Errors
/// The file cannot be read.
pub fn add_file(device: &mut Device, path: &Path) -> Result<bool, String> {
    let file = path.display().to_string();
    let unread = |error| crate::args::unread(path, &error);
    let mut text = TextParts::open(path, limits::ENTRIES).map_err(unread)?;
    let mut fault = None;
    let mut parts = || {
        let part = text.next_part();
        part.unwrap_or_else(|error| {
            fault = Some(error);
            None
        })
    };
    let applied = runtime::apply_entries_parts(device, &file, &mut parts);
    match fault {
        Some(error) => Err(unread(error)),
        None => Ok(is_applied(applied)),
    }
}

/// Returns the configuration of a device.
pub fn device_config(setup: &Setup) -> DeviceConfig {
    DeviceConfig {
        seed: setup.seed,
        host_ports: setup.host_ports.clone(),
        ..DeviceConfig::default()
    }
}

/// Compiles a program that is given as text, and loads it with its entries. For built-in
/// programs, which have no errors to show.
pub fn load_text(
    name: &str,
    text: &str,
    choice: Choice,
    entries_name: &str,
    entries: &str,
) -> Result<Device, String> {
    let program = Arc::new(driver::compile_text(name, text)?);
    let engine = choice.engine_before_packets();
    let mut device = Device::new(program, engine.as_ref(), &DeviceConfig::default())
        .map_err(|error| error.to_string())?;
    match add_entries(&mut device, entries_name, entries) {
        true => Ok(device),
        false => Err(format!("{entries_name} has errors")),
    }
}

/// Loads a program with the text of an entries file that was made for it.
///
/// # Errors
/// The program or its entries cannot be loaded.
pub fn device_with_entries(
    program: &Arc<ir::Program>,
    engine: &dyn Engine,
    seed: u64,
    entries: &str,
) -> Result<Device, String> {
    let config = DeviceConfig {
        seed,
        ..DeviceConfig::default()
    };
    let device = Device::new(Arc::clone(program), engine, &config);
    let mut device = device.map_err(|error| error.to_string())?;
    match add_entries(&mut device, "entries", entries) {
        true => Ok(device),
        false => Err("the entries have errors".to_owned()),
    }
}

/// Applies the text of an entries file. Shows its errors, and returns true if there are none.
/// After an error the device must not be used: it may have a part of the entries.
fn add_entries(device: &mut Device, file: &str, text: &str) -> bool {
    is_applied(runtime::apply_entries(device, file, text))
}

/// Shows the errors of an entries file, and returns true if there are none.
fn is_applied(applied: Result<(), runtime::EntriesFileError>) -> bool {
    match applied {
        Ok(()) => true,
        Err(error) => {
            out::note(&error.to_string());
            false
        }
    }
}
