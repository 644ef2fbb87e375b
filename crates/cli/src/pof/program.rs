//! The program of a text of tables and flows, for `polyplane ir`.

use std::path::Path;
use std::sync::Arc;

use interp::Interp;
use ir::Program;
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
