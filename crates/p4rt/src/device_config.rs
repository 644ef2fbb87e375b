//! A compiled program as `p4_device_config`: a header line with the version, then the IR as text.
//! The receiver does not trust the text and verifies it.

use std::borrow::Cow;

use ir::Program;
use prost::Message;

/// Header of a device config of this version. The number changes with the format of the IR text.
const HEADER: &str = "polyplane device config 1\n";

/// Beginning of the header in every version.
const ANY_HEADER: &str = "polyplane device config ";

/// The message in which BMv2's server expects a device config.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct P4DeviceConfig {
    #[prost(bool, tag = "1")]
    pub(crate) reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) device_data: Vec<u8>,
}

/// Returns the config inside a `p4.tmp.P4DeviceConfig` message, or the bytes unchanged. Such a
/// message begins with the tag of one of its fields. These tags are control characters, with which
/// no text config begins.
///
/// # Errors
/// The bytes begin like the message, but cannot be decoded as one.
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

/// Returns a program as a device config. Equal programs give equal bytes.
pub fn device_config(program: &Program) -> Vec<u8> {
    format!("{HEADER}{program}").into_bytes()
}

/// Returns the IR in a device config; `None` if the text has no config header.
///
/// # Errors
/// The config has another version.
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
