//! A virtual data plane's side of P4Runtime, in the office.

use std::collections::BTreeSet;
use std::sync::Arc;

use ir::Program;
use p4rt::{Allow, CpuPort, Inbox, Loader, Setup};
use packet::PortId;
use switch::{Device, DeviceConfig, LoadError};
use tenancy::BoundedCompiler;

use crate::compile;
use crate::control::{Compiler, USUAL_CPU};
use crate::engine::Choice;
use crate::heard::Heard;

/// Where controllers leave what is to be done, and what the device has told.
pub(super) struct Tenant {
    pub(super) inbox: Inbox,
    pub(super) heard: Heard,
}

/// What makes devices of the programs that a vPDP's controllers set.
struct TenantLoader {
    texts: BoundedCompiler,
    compiler: Compiler,
}

impl Loader for TenantLoader {
    fn compile(&self, text: &str) -> Result<Program, String> {
        bounded(&self.texts, text)
    }

    fn ports(&self) -> Option<BTreeSet<PortId>> {
        self.compiler.ports()
    }

    fn device(&self, program: Arc<Program>) -> Result<Device, LoadError> {
        self.compiler.device(program)
    }
}

/// Compiles a text within the bounds of a vPDP.
pub(super) fn bounded(texts: &BoundedCompiler, text: &str) -> Result<Program, String> {
    let compile = |text: &str| compile::compile_text("program.p4", text);
    let compiled = texts.compile(text.to_owned(), compile);
    compiled.map_err(|error| error.to_string())
}

/// Whose a vPDP is, and what it is made of.
pub(super) struct Terms<'t> {
    pub(super) id: u64,
    /// The name in the certificates of those who control it; empty: operators alone.
    pub(super) owner: &'t str,
    pub(super) config: DeviceConfig,
    pub(super) texts: BoundedCompiler,
    /// The program that it runs, if controllers need not set one first.
    pub(super) program: Option<Arc<Program>>,
}

/// A new connection between a device and controllers; what was under way on the one before is gone.
///
/// # Errors
/// The operating system has no socket pair left.
pub(super) fn connect(
    terms: Terms<'_>,
    device: &Device,
    choice: Choice,
) -> Result<(Tenant, CpuPort, Setup), String> {
    let made = p4rt::channel(PortId(USUAL_CPU));
    let (inbox, cpu, remote) =
        made.map_err(|e| format!("cannot make a channel for P4Runtime: {e}"))?;
    let owner = (!terms.owner.is_empty()).then(|| Allow::all(terms.owner));
    let setup = Setup {
        id: terms.id,
        remote,
        loader: Arc::new(TenantLoader {
            texts: terms.texts,
            compiler: Compiler {
                choice,
                config: terms.config,
                ports: (0..=USUAL_CPU).map(PortId).collect(),
            },
        }),
        program: terms.program,
        notes: device.notes().clone(),
        allowed: owner.into_iter().collect(),
    };
    let heard = Heard::default();
    Ok((Tenant { inbox, heard }, cpu, setup))
}
