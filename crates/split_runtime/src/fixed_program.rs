//! Loader of a device with a program that controllers cannot replace.

use std::collections::BTreeSet;
use std::sync::Arc;

use ir::Program;
use p4rt::{Code, KnownPorts, Loader, ProgramPermit, TenancyError};
use packet::PortId;
use switch::{Device, LoadError};

/// Loader that refuses every program: all processes of a split program must run the same one.
pub struct FixedProgram {
    /// The ports of the device.
    ports: BTreeSet<PortId>,
}

impl FixedProgram {
    /// Creates the loader of a device with these ports.
    pub fn new(ports: impl IntoIterator<Item = PortId>) -> FixedProgram {
        FixedProgram {
            ports: ports.into_iter().collect(),
        }
    }
}

impl Loader for FixedProgram {
    fn admit(&self, _: usize) -> Result<Arc<dyn ProgramPermit>, TenancyError> {
        Err(TenancyError {
            code: Code::FailedPrecondition,
            message: "the program of a split device is fixed: restart the switch, the servers and \
                      the coordinator with another one"
                .to_owned(),
        })
    }

    fn compile(&self, _: &str) -> Result<Program, String> {
        Err("the program of a split device is fixed".to_owned())
    }

    fn ports(&self) -> Option<KnownPorts> {
        Some(self.ports.iter().copied().collect())
    }

    fn device(&self, _: Arc<Program>) -> Result<Device, LoadError> {
        // `admit` refuses all programs.
        Err(LoadError::Verify(Vec::new()))
    }
}
