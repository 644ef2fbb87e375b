//! Entries files for a device that forwards no packets yet.

use std::fmt;
use std::time::Duration;

use apply_entries::ApplyTextError;
use switch::{Device, Improved};

/// Error: an entries file has errors. The device may have a part of its entries, so it must not be
/// used.
#[derive(Debug)]
pub struct EntriesFileError(ApplyTextError);

impl fmt::Display for EntriesFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ApplyTextError::Text(errors) => {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            ApplyTextError::Refused(refused) => write!(f, "{refused}; nothing is run"),
        }
    }
}

impl std::error::Error for EntriesFileError {}

/// Applies the text of an entries file to a device, and builds the indexes of its tables. `file` is
/// the name of the file in errors.
///
/// # Errors
/// The errors of the text, or the statements that the device refuses.
pub fn apply_entries(device: &mut Device, file: &str, text: &str) -> Result<(), EntriesFileError> {
    apply_entries::apply_text(device, file, text).map_err(EntriesFileError)?;
    build_indexes(device);
    Ok(())
}

/// Applies an entries file as [`apply_entries`] does. `parts` gives the parts of its text, each of
/// whole lines, and then `None`, so that a large file is never in memory as a whole.
///
/// # Errors
/// The errors of the text, or the statements that the device refuses.
pub fn apply_entries_parts(
    device: &mut Device,
    file: &str,
    parts: &mut (dyn FnMut() -> Option<String> + Send),
) -> Result<(), EntriesFileError> {
    apply_entries::apply_parts(device, file, parts).map_err(EntriesFileError)?;
    build_indexes(device);
    Ok(())
}

fn build_indexes(device: &mut Device) {
    // No packets arrive yet, so the time for this is free.
    while device.improve(Duration::MAX) != Improved::NoMore {}
}
