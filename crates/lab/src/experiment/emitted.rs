//! The P4 hypervisor: a P4 program that runs one function, translated with its table contents to
//! entries of the program. It runs on the interpreter, because native compilation of its tables
//! of wide actions is slow.

use std::path::Path;
use std::sync::Arc;

use command::args::Source;
use command::compile;
use entries::Update;
use hypervisor::{FieldPlace, Shape, emit, translate};
use interp::Interp;
use ir::Program;
use switch::{Device, DeviceConfig};

/// Number of slots. Enough for all of the paper's functions and policies without resubmission.
const SHAPE: Shape = Shape {
    ingress: 10,
    egress: 6,
};

/// An emitted P4 hypervisor program.
pub(super) struct Emitted(Arc<Program>);

impl Emitted {
    pub(super) fn new() -> Result<Emitted, String> {
        let program = driver::compile_text("hypervisor.p4", &emit(SHAPE))?;
        Ok(Emitted(Arc::new(program)))
    }

    /// Returns a switch that runs the P4 hypervisor with this function and its table contents.
    /// The function processes the packets of all ports.
    ///
    /// # Errors
    /// The function has a construct that the P4 hypervisor does not support.
    pub(super) fn host(&self, function: &Program, updates: &[Update]) -> Result<Device, String> {
        let place = FieldPlace {
            vpdp: 1,
            program: 1,
            shape: SHAPE,
            cells: 0,
        };
        let hosted = translate(function, updates, &place);
        let hosted = hosted.map_err(|refusal| refusal.text(function))?;
        let classify = "HypervisorIngress.classify { port: _ } -> assign(1, 1) priority 1";
        let lines = std::iter::once(classify.to_owned());
        let lines = lines.chain(hosted.entries.iter().map(ToString::to_string));
        let lines: Vec<String> = lines.chain(hosted.statements).collect();
        with_updates(&self.0, &read(&self.0, &lines.join("\n"))?)
    }
}

/// Returns a switch with this program and these updates, on the interpreter.
///
/// # Errors
/// The switch refuses an update.
pub(super) fn with_updates(program: &Arc<Program>, updates: &[Update]) -> Result<Device, String> {
    let device = Device::new(Arc::clone(program), &Interp, &DeviceConfig::default());
    let mut device = device.map_err(|error| error.to_string())?;
    for update in updates {
        apply_entries::apply(&mut device, update).map_err(|error| error.to_string())?;
    }
    Ok(device)
}

/// Reads entries that are given as text.
///
/// # Errors
/// The entries are wrong.
pub(super) fn read(program: &Program, text: &str) -> Result<Vec<Update>, String> {
    let file = entries::read(program, "experiment.entries", text);
    let file = file.map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("\n")
    })?;
    Ok(file.updates().to_vec())
}

/// Compiles a program of the examples, or a policy.
///
/// # Errors
/// The program has errors, which are shown.
pub(super) fn program(examples: &Path, name: &str) -> Result<Arc<Program>, String> {
    let path = examples.join(name);
    let program = compile::compile(&Source::file(&path));
    let program = program.ok_or_else(|| {
        format!(
            "{} cannot be run; --examples names the directory with the paper's functions",
            path.display()
        )
    })?;
    Ok(Arc::new(program))
}
