//! One half of a program as a side of a measurement.

use std::sync::Arc;

use exec::Engine;
use packet::{Frame, Nanos, PortId};
use passes::split::{SplitOptions, SplitProgram};
use placement::ServerId;
use split::{Requests, ServerFilter, ServerHalf, ServerPort, SwitchHalf, SwitchOptions};
use switch::{Device, DeviceConfig, PacketProcessor};

use super::SplitFunction;
use crate::device::change;
use crate::forward::{Forward, Reading, SentFrames};
use crate::setup::{ItemSink, SetupError};

/// Port of the switch for the server. No function uses it.
const SERVER_PORT: PortId = PortId(0x1_0000);

/// The switch half. Packets that leave to the server are sent at its port, and nothing answers.
pub struct SwitchSide(SwitchHalf<Device>);

impl SwitchSide {
    /// Loads the switch half with the function's entries, of the mirrored tables with those of the
    /// first `flows` flows.
    ///
    /// # Errors
    /// The half cannot be loaded, or an entry does not fit.
    pub fn load(
        function: &dyn SplitFunction,
        program: &SplitProgram,
        engine: &dyn Engine,
        flows: u32,
    ) -> Result<SwitchSide, SetupError> {
        let switch = Arc::new(program.switch.clone());
        let mut device = Device::new(Arc::clone(&switch), engine, &DeviceConfig::default())
            .map_err(|error| SetupError::Entry(error.to_string()))?;
        function.setup(&switch, &mut into(&mut device))?;
        function.entries_of(&switch, flows, &mut into(&mut device))?;
        let options = SwitchOptions {
            servers: vec![ServerPort {
                server: ServerId(0),
                port: SERVER_PORT,
            }],
            request_port: SplitOptions::default().request_port,
            ..SwitchOptions::default()
        };
        let requests = Arc::new(Requests::new(&program.plan, options));
        Ok(SwitchSide(SwitchHalf::new(device, requests)))
    }
}

/// Returns a sink that adds items to a device.
pub(super) fn into(
    device: &mut Device,
) -> impl FnMut(crate::Item) -> Result<(), SetupError> + use<'_> {
    |item| {
        let applied = device.apply(change(item));
        applied.map_err(|error| SetupError::Entry(error.to_string()))?;
        Ok(())
    }
}

impl Forward for SwitchSide {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.0
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// The server half.
pub struct ServerSide(ServerHalf<Device>);

impl ServerSide {
    /// Loads the server half with the entries that `fill` adds.
    ///
    /// # Errors
    /// The half cannot be loaded, or an entry does not fit.
    pub fn load(
        program: &SplitProgram,
        engine: &dyn Engine,
        fill: impl FnOnce(&ir::Program, &mut ItemSink<'_>) -> Result<(), SetupError>,
    ) -> Result<ServerSide, SetupError> {
        let server = Arc::new(program.server.clone());
        let mut device = Device::new(Arc::clone(&server), engine, &DeviceConfig::default())
            .map_err(|error| SetupError::Entry(error.to_string()))?;
        fill(&server, &mut into(&mut device))?;
        let filter = ServerFilter::new(&program.plan.frame);
        Ok(ServerSide(ServerHalf::new(device, filter)))
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.0.inner()
    }
}

impl Forward for ServerSide {
    fn forward(&mut self, frames: &mut [Frame], now: Nanos, out: &mut SentFrames) {
        self.0
            .forward(frames, now, |port, frame, _| out.take(port, frame));
    }

    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// Returns the requests that packets become in a switch without entries in its mirrored tables.
///
/// # Errors
/// The switch half cannot be loaded, or a packet does not leave to the server.
pub fn requests_of(
    function: &dyn SplitFunction,
    program: &SplitProgram,
    engine: &dyn Engine,
    packets: impl Iterator<Item = Frame>,
) -> Result<Vec<Vec<u8>>, SetupError> {
    let mut switch = SwitchSide::load(function, program, engine, 0)?;
    let mut requests = Vec::new();
    let mut now = Nanos(1_000_000);
    for mut packet in packets {
        now += Nanos(1000);
        let before = requests.len();
        switch
            .0
            .forward(std::slice::from_mut(&mut packet), now, |port, frame, _| {
                if port == SERVER_PORT {
                    requests.push(frame.bytes().to_vec());
                }
            });
        if requests.len() == before {
            return Err(SetupError::Entry(format!(
                "{}: a packet does not leave to the server",
                function.name()
            )));
        }
    }
    Ok(requests)
}
