//! A virtual data plane's side of P4Runtime, in the office.

use std::sync::Arc;

use ir::Program;
use p4rt::{Allow, CpuPort, Inbox, Setup};
use packet::PortId;
use switch::{Device, DeviceConfig};

use crate::control::{Compiler, USUAL_CPU};
use crate::engine::Choice;
use crate::heard::Heard;

/// Where controllers leave what is to be done, and what the device has told.
pub(super) struct Tenant {
    pub(super) inbox: Inbox,
    pub(super) heard: Heard,
}

/// Whose a vPDP is, and what it is made of.
pub(super) struct Terms<'t> {
    pub(super) id: u64,
    /// The name in the certificates of those who control it; empty: operators alone.
    pub(super) owner: &'t str,
    pub(super) config: DeviceConfig,
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
        loader: Arc::new(Compiler {
            choice,
            config: terms.config,
            ports: (0..=USUAL_CPU).map(PortId).collect(),
        }),
        program: terms.program,
        notes: device.notes().clone(),
        allowed: owner.into_iter().collect(),
    };
    let heard = Heard::default();
    Ok((Tenant { inbox, heard }, cpu, setup))
}
