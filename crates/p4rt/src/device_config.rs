//! A compiled program as `p4_device_config`: a line that says what it is, and the IR as text. Who receives it verifies it as if anybody had written it.

use std::borrow::Cow;

use ir::Program;
use prost::Message;

/// What a device config of this version begins with. The number changes when the IR's text does.
const HEADER: &str = "polyplane device config 1\n";

/// What a device config of any version begins with.
const ANY_HEADER: &str = "polyplane device config ";

/// The message in which BMv2's server takes a device config.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct P4DeviceConfig {
    #[prost(bool, tag = "1")]
    pub(crate) reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) device_data: Vec<u8>,
}

/// The config in a `p4.tmp.P4DeviceConfig` message, or the bytes themselves. The message begins
/// with the tag of one of its fields; each is a control character, which no text that is a config
/// begins with.
///
/// # Errors
/// It begins as the message does and is none.
pub(crate) fn unwrapped(config: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !matches!(config.first(), Some(0x08 | 0x12 | 0x1a)) {
        return Ok(Cow::Borrowed(config));
    }
    match P4DeviceConfig::decode(config) {
        Ok(message) => Ok(Cow::Owned(message.device_data)),
        Err(error) => Err(format!(
            "p4_device_config begins as a p4.tmp.P4DeviceConfig message and is none: {error}"
        )),
    }
}

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
