//! The program of a text of tables and flows, for `polyplane ir` and `polyplane trace`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use interp::Interp;
use ir::Program;
use pof::model::{Action, Argument, port};
use pof::text::TextReader;
use pof::wire::Body;
use pof::{Forwarder, ForwarderOptions};

use crate::args::{limits, read_text};

/// Returns true if a file has tables and flows, by its name.
pub(crate) fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pof")
}

/// Returns a switch with the tables and flows of a file.
///
/// # Errors
/// A line is wrong, or a switch refuses it: the file, the line and the remedy.
pub(crate) fn forwarder(path: &Path) -> Result<Forwarder, String> {
    let text = read_text(path, limits::ENTRIES)?;
    let name = path.display();
    let made = Forwarder::new(Arc::new(Interp), ForwarderOptions::default());
    let mut forwarder = made.map_err(|error| error.to_string())?;
    let made = forwarder.make_text(&text);
    made.map_err(|error| format!("{name}, {error}"))?;
    Ok(forwarder)
}

/// Returns the program of the tables and flows of a file.
///
/// # Errors
/// As for [`forwarder`].
pub(crate) fn program(path: &Path) -> Result<Arc<Program>, String> {
    let forwarder = forwarder(path)?;
    Ok(Arc::clone(forwarder.program()))
}

/// Returns a switch with the tables and flows of a file, which has this port and all ports to which
/// an action sends.
///
/// # Errors
/// As for [`forwarder`], and if there is no such port.
pub(crate) fn forwarder_at(path: &Path, ingress: u32) -> Result<Forwarder, String> {
    let ingress = u16::try_from(ingress).ok().filter(|id| *id <= port::MAX);
    let ingress = ingress.ok_or_else(|| {
        let last = port::MAX;
        format!("--port: POF has ports up to {last}; give a smaller number")
    })?;
    let mut forwarder = forwarder(path)?;
    let text = read_text(path, limits::ENTRIES)?;
    let mut reader = TextReader::new(forwarder.tables().clone());
    let mut ports = BTreeSet::from([ingress]);
    for line in text.lines() {
        // All lines were read before.
        let actions: Vec<Action> = match reader.read(line) {
            Ok(Some(Body::FlowMod(flow))) => {
                let lists = flow.instructions.iter();
                lists.flat_map(|one| one.actions()).cloned().collect()
            }
            Ok(Some(Body::GroupMod(group))) => group.actions,
            _ => continue,
        };
        ports.extend(actions.iter().filter_map(|action| match action {
            Action::Output {
                port: Argument::Immediate(number),
                ..
            } => u16::try_from(*number).ok().filter(|id| *id <= port::MAX),
            _ => None,
        }));
    }
    let ports: Vec<(u16, bool)> = ports.into_iter().map(|port| (port, true)).collect();
    let made = forwarder.set_ports(&ports);
    made.map_err(|error| format!("ports of the flows: {error}: {}", error.meaning()))?;
    Ok(forwarder)
}
