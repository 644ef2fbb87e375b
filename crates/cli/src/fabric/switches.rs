//! Switches of a fabric: programs compiled, each text once, and loaded with their entries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use fabric::topology::SwitchSpec;
use fabric::{Node, SwitchNode};
use packet::Nanos;
use switch::Device;

use crate::args::{Setup, Source};
use crate::engine::Choice;
use crate::{compile, configure};

/// Makes the switches of a fabric.
pub(crate) struct Maker {
    choice: Choice,
    seed: u64,
    programs: BTreeMap<PathBuf, Arc<ir::Program>>,
}

impl Maker {
    /// Switches on this engine.
    pub(crate) fn new(choice: Choice, seed: u64) -> Maker {
        Maker {
            choice,
            seed,
            programs: BTreeMap::new(),
        }
    }

    /// A switch with its program and entries, for simulated time.
    ///
    /// # Errors
    /// Its program or its entries are wrong.
    pub(crate) fn make(&mut self, spec: &SwitchSpec) -> Result<Box<dyn Node>, String> {
        let device = self.device(spec)?;
        Ok(Box::new(SwitchNode::new(device, spec.service)))
    }

    /// A switch's device.
    ///
    /// # Errors
    /// As [`Maker::make`].
    pub(crate) fn device(&mut self, spec: &SwitchSpec) -> Result<Device, String> {
        let program = self.program(&spec.program)?;
        let setup = Setup {
            entries: spec.entries.clone(),
            host_ports: Vec::new(),
            seed: self.seed,
        };
        let engine = self.choice.engine();
        let device = configure::load_on(engine.as_ref(), &program, &setup, Nanos::ZERO)?;
        device.ok_or_else(|| "its entries have errors".to_owned())
    }

    fn program(&mut self, path: &PathBuf) -> Result<Arc<ir::Program>, String> {
        if let Some(program) = self.programs.get(path) {
            return Ok(Arc::clone(program));
        }
        let program = compile::compile(&Source::file(path));
        let program = Arc::new(program.ok_or("its program has errors")?);
        self.programs.insert(path.clone(), Arc::clone(&program));
        Ok(program)
    }
}
