//! Fuzzing target: applies encoded requests to a device without a server, sessions or a loop.

use std::sync::Arc;

use ir::Program;
use p4info::p4::v1 as rt;
use p4info::p4::v1::write_request::Atomicity;
use prost::Message;
use switch::Device;

use crate::controller_state::ControllerState;
use crate::device_service::Loader;
use crate::pipeline;
use crate::request_error::Checked;
use crate::schema::Schema;
use crate::undo::{Op, Target};
use crate::write::Seen;
use crate::{batch, packet_io, read, write};

/// A device that processes requests of one controller with all permissions.
pub struct FuzzServer {
    schema: Arc<Schema>,
    device: Device,
    extras: ControllerState,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzOutcome {
    /// The bytes do not decode as the message.
    Malformed,
    /// Number of parts that were made or read. Other parts were refused.
    Done(usize),
}

impl FuzzServer {
    /// Creates a device with this program.
    ///
    /// # Errors
    /// The engine cannot run the program, or it has no P4Info. The message has the reason.
    pub fn new(loader: &dyn Loader, program: Arc<Program>) -> Result<FuzzServer, String> {
        let device = loader.device(Arc::clone(&program));
        let device = device.map_err(|error| error.to_string())?;
        let config = pipeline::config(program, rt::ForwardingPipelineConfig::default(), loader);
        let config = config.map_err(|fault| fault.message)?;
        Ok(FuzzServer {
            schema: config.schema,
            device,
            extras: ControllerState::default(),
        })
    }

    /// Returns the device.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Applies a `WriteRequest`.
    pub fn write(&mut self, bytes: &[u8]) -> FuzzOutcome {
        let Ok(request) = rt::WriteRequest::decode(bytes) else {
            return FuzzOutcome::Malformed;
        };
        let updates = request.updates.iter();
        let ops: Vec<Checked<Op>> = updates
            .map(|update| write::convert(&self.schema, &request.role, update))
            .collect();
        let results = match Atomicity::try_from(request.atomicity) {
            Ok(Atomicity::ContinueOnError) => self.make_each(ops),
            Ok(Atomicity::DataplaneAtomic) => {
                let seen = request.updates.iter().map(write::seen);
                self.make_whole(ops, &seen.collect::<Vec<Seen>>())
            }
            _ => {
                let seen = vec![Seen::WhenPublished; ops.len()];
                self.make_whole(ops, &seen)
            }
        };
        // Nothing is stored, so there is nothing to undo.
        self.extras.take_changes();
        self.device.publish();
        FuzzOutcome::Done(results.iter().filter(|result| result.is_ok()).count())
    }

    fn make_each(&mut self, ops: Vec<Checked<Op>>) -> Vec<Checked> {
        let mut target = Target::new(&mut self.device, &mut self.extras, false);
        let made = ops.into_iter().map(|op| op.and_then(|op| op(&mut target)));
        made.collect()
    }

    fn make_whole(&mut self, ops: Vec<Checked<Op>>, seen: &[Seen]) -> Vec<Checked> {
        match batch::well_formed(ops) {
            Ok(ops) => batch::make(&mut self.device, &mut self.extras, ops, seen).0,
            Err(results) => results,
        }
    }

    /// Executes a `ReadRequest`.
    pub fn read(&mut self, bytes: &[u8]) -> FuzzOutcome {
        let Ok(request) = rt::ReadRequest::decode(bytes) else {
            return FuzzOutcome::Malformed;
        };
        let mut told = 0;
        for entity in &request.entities {
            let Ok(mut query) = read::plan(&self.schema, &request.role, entity) else {
                continue;
            };
            while let Ok(Some(part)) = query.collect(&self.schema, &self.device, &self.extras) {
                told += part.entities(&self.schema).len();
            }
        }
        FuzzOutcome::Done(told)
    }

    /// Sends the packet of a `PacketOut` into a port.
    pub fn packet_out(&mut self, port: packet::PortId, bytes: &[u8]) -> FuzzOutcome {
        let Ok(packet) = rt::PacketOut::decode(bytes) else {
            return FuzzOutcome::Malformed;
        };
        match packet_io::packet_out(&self.schema, &packet) {
            Ok(bytes) => FuzzOutcome::Done(self.device.receive(port, &bytes).is_ok().into()),
            Err(_) => FuzzOutcome::Done(0),
        }
    }
}
