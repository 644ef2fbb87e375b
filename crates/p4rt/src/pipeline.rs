//! The forwarding pipeline config of a device (section "`SetForwardingPipelineConfig` RPC"). It is
//! running, or saved together with a separate device until it is committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ir::Program;
use p4info::P4Info;
use p4info::p4::v1::ForwardingPipelineConfig;
use packet::Nanos;
use switch::{AdoptError, Device, MayLose};
use tonic::Code;
use tonic::metadata::MetadataMap;

use crate::controller_state::ControllerState;
use crate::device_config;
use crate::device_service::{Loader, Purpose};
use crate::request_error::{Checked, RequestError, invalid, refuse};
use crate::schema::Schema;

/// A program with its P4Info, as the controller sent it.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) schema: Arc<Schema>,
    pub(crate) message: ForwardingPipelineConfig,
}

/// The configs of a device.
#[derive(Default)]
pub(crate) struct Pipeline {
    pub(crate) running: Option<Config>,
    pub(crate) saved: Option<Saved>,
}

/// A program that is not yet committed. Reads and writes go to its separate device, which replaces
/// the running one at the commit.
pub(crate) struct Saved {
    pub(crate) config: Config,
    pub(crate) apart: Arc<Mutex<StagedDevice>>,
}

/// A staged device: it does not process packets.
pub(crate) struct StagedDevice {
    pub(crate) device: Device,
    pub(crate) extras: ControllerState,
    /// Its creation time, on the machine's clock and on the device's.
    pub(crate) begin: (Instant, Nanos),
}

/// Target of reads and writes.
#[derive(Clone)]
pub(crate) enum DeviceTarget {
    /// The device that processes packets.
    Running,
    /// A staged device.
    Saved(Arc<Mutex<StagedDevice>>),
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipeline {
    /// Returns the config to which reads and writes must refer, and their target.
    ///
    /// # Errors
    /// No config is set.
    pub(crate) fn current(&self) -> Checked<(&Config, DeviceTarget)> {
        if let Some(saved) = &self.saved {
            return Ok((&saved.config, DeviceTarget::Saved(Arc::clone(&saved.apart))));
        }
        match &self.running {
            Some(config) => Ok((config, DeviceTarget::Running)),
            None => Err(RequestError::new(
                Code::FailedPrecondition,
                "no forwarding pipeline config is set; set one first (SetForwardingPipelineConfig)",
            )),
        }
    }
}

/// Compiles a config and creates a device for it. This may take long.
///
/// # Errors
/// `INVALID_ARGUMENT` if the program or the P4Info is wrong; `RESOURCE_EXHAUSTED` if there is no
/// space for it.
pub(crate) fn build(
    loader: &dyn Loader,
    message: ForwardingPipelineConfig,
    purpose: Purpose,
) -> Checked<(Config, Device)> {
    let program = Arc::new(program(
        &|text| loader.compile(text),
        &message.p4_device_config,
    )?);
    let fitted = loader.fit(program, purpose);
    let program = fitted.or_else(|why| refuse(Code::ResourceExhausted, why))?;
    let device = loader
        .device(Arc::clone(&program))
        .or_else(|error| invalid(format!("the program cannot be loaded: {error}")))?;
    Ok((config(program, message, loader)?, device))
}

/// Returns a program with the P4Info of the message, or its own P4Info if the message has none.
pub(crate) fn config(
    program: Arc<Program>,
    message: ForwardingPipelineConfig,
    loader: &dyn Loader,
) -> Checked<Config> {
    let own = own_info(&program)?;
    let given = message.p4info.clone().unwrap_or_else(|| own.clone());
    let mut schema = Schema::new(program, &given, &own)?;
    schema.ports = loader.ports();
    Ok(Config {
        schema: Arc::new(schema),
        message: ForwardingPipelineConfig {
            p4info: Some(given),
            ..message
        },
    })
}

fn own_info(program: &Program) -> Checked<P4Info> {
    p4info::p4info(program).or_else(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        invalid(format!("the program has no P4Info: {}", errors.join("; ")))
    })
}

/// Reads a program from a device config: the output of `polyplane compile`, IR text, or P4 text,
/// which is compiled.
///
/// # Errors
/// A message for users that describes the fault.
pub fn read_program(
    compile: &dyn Fn(&str) -> Result<Program, String>,
    text: &str,
) -> Result<Program, String> {
    program(compile, text.as_bytes()).map_err(|fault: RequestError| fault.message)
}

/// Checks that controllers can be served with a program, which needs a P4Info.
///
/// # Errors
/// A message for users that explains why the program has no P4Info.
pub fn check_p4info(program: &Arc<Program>) -> Result<(), String> {
    let schema = own_schema(Arc::clone(program));
    schema.map(drop).map_err(|fault| fault.message)
}

/// Returns the schema of a program with its own P4Info.
pub(crate) fn own_schema(program: Arc<Program>) -> Checked<Schema> {
    let own = own_info(&program)?;
    Schema::new(program, &own, &own)
}

/// Checks that a P4Info belongs to a program: all that controllers write by it has the same meaning
/// there. Ids may differ, and objects may be missing.
///
/// # Errors
/// A message for users that describes the difference.
pub fn compare_p4info(program: &Arc<Program>, given: &P4Info) -> Result<(), String> {
    let compared = own_info(program).and_then(|own| Schema::new(Arc::clone(program), given, &own));
    compared.map(drop).map_err(|fault| fault.message)
}

/// Reads the program of a device config: a compiled program, IR text, which begins with the word
/// `program`, or P4 text.
fn program(compile: &dyn Fn(&str) -> Result<Program, String>, config: &[u8]) -> Checked<Program> {
    let config = device_config::unwrapped(config).or_else(invalid)?;
    let text = match std::str::from_utf8(&config) {
        Ok("") => {
            return invalid(
                "p4_device_config is empty; put what `polyplane compile` writes, the P4 program's text, or its IR into it",
            );
        }
        Ok(text) => text,
        Err(_) => {
            return invalid(
                "p4_device_config is no text; put what `polyplane compile` writes, the P4 program's text, or its IR into it",
            );
        }
    };
    if text.trim_start().starts_with('{') {
        return invalid(
            "p4_device_config is JSON, as p4c makes it for BMv2, and this server runs none; put what `polyplane compile PROGRAM.p4` writes \
             (PROGRAM.device), the P4 program's text, or its IR into it",
        );
    }
    let compiled = device_config::ir_text(text).transpose().or_else(invalid)?;
    if let Some(text) = compiled.or_else(|| text.starts_with("program ").then_some(text)) {
        return ir::read(text).or_else(|error| invalid(format!("p4_device_config: {error}")));
    }
    compile(text).or_else(invalid)
}

/// The gRPC metadata key of `SetForwardingPipelineConfig` that lists objects that may lose state
/// (docs/reference/program-change.md).
pub(crate) const MAY_LOSE: &str = "polyplane-may-lose";

/// Returns the user's list: names of objects separated by commas, or `*` for all.
///
/// # Errors
/// The metadata is not text.
pub(crate) fn may_lose(metadata: &MetadataMap) -> Checked<MayLose> {
    let Some(word) = metadata.get(MAY_LOSE) else {
        return Ok(MayLose::Nothing);
    };
    let Ok(word) = word.to_str() else {
        return invalid(format!("the metadata {MAY_LOSE} is no text"));
    };
    let names = word.split(',').map(str::trim);
    let names: Vec<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(match names.iter().any(|name| name == "*") {
        true => MayLose::Anything,
        false => MayLose::These(names),
    })
}

/// Formats the reason why a program cannot replace the running one.
pub(crate) fn told(refused: &AdoptError) -> String {
    let AdoptError::WouldLose(refused) = refused else {
        return refused.to_string();
    };
    let mut names: Vec<&str> = refused
        .lines
        .iter()
        .map(|line| line.name.as_str())
        .collect();
    names.dedup();
    let names = names.join(",");
    format!("{refused}; to let it go, send the gRPC metadata {MAY_LOSE}: {names}")
}
