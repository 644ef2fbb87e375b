//! The example router with its entries, and packets for it. Benches and tests of the packet path
//! use it.

use support::checksum::internet_checksum;
use switch::{Device, DeviceConfig};

use crate::compile;

/// Path of the example's files without extension.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/router/router");

/// Returns the example router, configured.
///
/// # Errors
/// The example does not compile, or its entries do not fit. The error is a text.
pub fn router(engine: &dyn exec::Engine) -> Result<Device, String> {
    let program = compile(std::path::Path::new(&format!("{PATH}.p4")))?;
    let mut device = Device::new(program, engine, &DeviceConfig::default())
        .map_err(|error| error.to_string())?;
    configure_router(&mut device)?;
    Ok(device)
}

/// Applies the example's entries to a device that runs the router.
///
/// # Errors
/// The entries do not fit. The error is a text.
pub fn configure_router(device: &mut Device) -> Result<(), String> {
    let file = format!("{PATH}.entries");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let entries = entries::read(device.program(), &file, &text)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    apply_entries::apply_file(device, &entries).map_err(|error| error.to_string())?;
    Ok(())
}

/// Returns a frame of `len` bytes (at least 34) that the router forwards from port 0 to port 1. It
/// has a valid IPv4 checksum, and `number` as identification.
pub fn routed_frame(len: usize, number: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2, 8, 0];
    let mut ipv4 = vec![0x45, 0];
    ipv4.extend(((len - 14) as u16).to_be_bytes());
    ipv4.extend(number.to_be_bytes());
    ipv4.extend([0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2]);
    let checksum = internet_checksum(&ipv4);
    ipv4[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ipv4);
    frame.resize(len, 0);
    frame
}
