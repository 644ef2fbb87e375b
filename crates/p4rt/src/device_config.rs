//! A compiled program as `p4_device_config`: a line that says what it is, and the IR as text. Who receives it verifies it as if anybody had written it.

use ir::Program;

/// What a device config of this version begins with. The number changes when the IR's text does.
const HEADER: &str = "polyplane device config 1\n";

/// What a device config of any version begins with.
const ANY_HEADER: &str = "polyplane device config ";

/// A program as a device config. The same program gives the same bytes.
pub fn device_config(program: &Program) -> Vec<u8> {
    format!("{HEADER}{program}").into_bytes()
}

/// The IR in a device config; `None` if it is none.
///
/// # Errors
/// It is of another version.
pub(crate) fn ir_text(config: &str) -> Option<Result<&str, String>> {
    if let Some(text) = config.strip_prefix(HEADER) {
        return Some(Ok(text));
    }
    let version = config.strip_prefix(ANY_HEADER)?;
    let version = version.lines().next().unwrap_or_default();
    let own = HEADER.trim_start_matches(ANY_HEADER).trim_end();
    Some(Err(format!(
        "the device config has version {version}, this server reads version {own}; compile the program with this server's release (polyplane compile)"
    )))
}
