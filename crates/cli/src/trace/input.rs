//! Packet to trace, from a capture.

use std::path::Path;

use packet::Frame;
use port::PcapReader;
use support::amount;

/// A packet of a capture with its time stamp, and a note for the user.
pub(crate) struct Captured {
    pub(crate) frame: Frame,
    pub(crate) note: Option<String>,
}

/// Returns packet `number` of a capture, from 1.
///
/// # Errors
/// The file cannot be read, is not a capture, or has fewer packets.
pub(crate) fn from_capture(file: &Path, number: u64) -> Result<Captured, String> {
    let mut reader = PcapReader::open(file).map_err(|e| e.to_string())?;
    let mut frame = Frame::new();
    let mut packets = 0;
    loop {
        match reader.read(&mut frame) {
            Ok(Some(packet)) => {
                packets = packet.number;
                if packets == number {
                    let name = file.display();
                    let note = packet.is_cut.then(|| {
                        format!(
                            "packet {number} of {name} was captured in part: {} of {} bytes",
                            frame.len(),
                            packet.original_len
                        )
                    });
                    return Ok(Captured { frame, note });
                }
            }
            Ok(None) => return Err(too_few(file, number, packets)),
            Err(error) if error.is_recoverable() && error.packet != number => {
                packets = error.packet
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn too_few(file: &Path, number: u64, packets: u64) -> String {
    let file = file.display();
    match packets {
        0 => format!("{file} has no packets"),
        packets => format!(
            "{file} has no packet {number}: it has {}, --number goes from 1 to {packets}",
            amount::count(packets, "packet")
        ),
    }
}
