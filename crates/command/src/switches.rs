//! Switches of a fabric: programs, each compiled once and loaded with its entries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use aggregate::Plan;
use exec::Engine;
use fabric::topology::{
    FunctionSpec, PlaneSpec, ProgramSpec, ServiceSpec, SharedSpec, SplitSpec, SwitchId, SwitchSpec,
    Topology, VpdpSpec,
};
use fabric::{LoadDevice, Node, SplitFabric, SwitchNode, Tenants};
use packet::Nanos;
use passes::split::{SplitOptions, split};
use switch::{Device, DeviceConfig};
use tenancy::{Connection, Spec, TenantSwitch, VirtualPort};
use terminal::out;

use crate::args::{Setup, Source};
use crate::engine::Choice;
use crate::handlers::{self, engine_with};
use crate::{compile, configure};

/// Message for entries with errors. The errors themselves have been shown.
const WRONG_ENTRIES: &str = "its entries have errors";

/// Message for a program with errors. The errors themselves have been shown.
const WRONG_PROGRAM: &str = "its program has errors";

/// Message for C code with errors. The errors themselves have been shown.
const WRONG_CODE: &str = "its C code has errors";

/// Message for a split program in real interfaces.
const NOT_SPLIT: &str = "a split program is simulated: leave --real away, or run its halves by \
                         `polyplane split switch` and `polyplane split server`";

/// Message for a switch that a plan must give its program.
const NOT_PLANNED: &str = "a switch with slots gets its program from a plan";

/// The attempt of reductions that are simulated.
const ATTEMPT: u16 = 1;

/// Creates the switches of a fabric.
pub struct Maker {
    choice: Choice,
    engine: Arc<dyn Engine>,
    seed: u64,
    programs: BTreeMap<ProgramSpec, Arc<ir::Program>>,
    /// Program and entries of each switch without a program of its own, by its name.
    planned: BTreeMap<String, (String, String)>,
    /// Compiled texts.
    texts: BTreeMap<String, Arc<ir::Program>>,
}

/// Data plane of a switch.
pub enum SwitchPlane {
    /// One function.
    Alone(Box<Device>),
    /// Virtual data planes.
    Shared(Box<TenantSwitch>),
}

impl Maker {
    /// Returns a maker of switches on this engine.
    pub fn new(choice: Choice, seed: u64) -> Maker {
        Maker {
            choice,
            engine: Arc::from(choice.engine()),
            seed,
            programs: BTreeMap::new(),
            planned: BTreeMap::new(),
            texts: BTreeMap::new(),
        }
    }

    /// Gives switches without a program of their own the routes of the topology, and no
    /// reductions.
    ///
    /// # Errors
    /// None: a plan without reductions succeeds.
    pub fn set_routes(&mut self, topology: &Topology) -> Result<(), String> {
        let plan = Plan::new(topology, &[]).map_err(|error| error.to_string())?;
        self.set_plan(topology, &plan, 1);
        Ok(())
    }

    /// Sets the programs and entries of switches without a program of their own. A load of these
    /// switches begins with this number.
    pub fn set_plan(&mut self, topology: &Topology, plan: &Plan, incarnation: u32) {
        for (number, switch) in topology.switches.iter().enumerate() {
            let id = SwitchId(number);
            let planned = (plan.program(id), plan.entries(id, ATTEMPT, incarnation));
            self.planned.insert(switch.name.clone(), planned);
        }
    }

    /// Creates a switch with its program and entries, for simulated time.
    ///
    /// # Errors
    /// The program, its entries, or the ingress classification of its virtual data planes is
    /// wrong.
    pub fn make(&mut self, spec: &SwitchSpec) -> Result<Box<dyn Node>, String> {
        if let PlaneSpec::Split(split) = &spec.plane {
            return self.split(split, spec.service);
        }
        Ok(match self.plane(spec)? {
            SwitchPlane::Alone(device) => {
                let node = SwitchNode::new(*device, spec.service);
                Box::new(match self.loader(spec)? {
                    Some(load) => node.with_loader(load),
                    None => node,
                })
            }
            SwitchPlane::Shared(hypervisor) => {
                let tenants = Tenants::new(*hypervisor).ok_or("it has workers already")?;
                Box::new(SwitchNode::new(tenants, spec.service))
            }
        })
    }

    /// Returns the function that loads the device of a switch again, after a crash. `None` if the
    /// switch is not one device with a program of its own.
    ///
    /// # Errors
    /// The program is wrong.
    pub fn loader(&mut self, spec: &SwitchSpec) -> Result<Option<LoadDevice>, String> {
        let PlaneSpec::Alone(function) = &spec.plane else {
            return Ok(None);
        };
        let program = self.program(function)?;
        let (engine, seed) = (Arc::clone(&self.engine), self.seed);
        let entries = function.entries.clone();
        let load = move || load(engine.as_ref(), &program, seed, &entries);
        Ok(Some(Box::new(load)))
    }

    /// Creates a switch for simulated time. If it has no program of its own, it gets the given
    /// program and entries.
    ///
    /// # Errors
    /// As for [`Maker::make`].
    pub fn make_with(
        &mut self,
        spec: &SwitchSpec,
        program: &str,
        entries: &str,
    ) -> Result<Box<dyn Node>, String> {
        match spec.plane {
            PlaneSpec::Aggregate { .. } => {
                let device = self.text_device(program, entries)?;
                Ok(Box::new(SwitchNode::new(device, spec.service)))
            }
            _ => self.make(spec),
        }
    }

    /// Creates the data plane of a switch.
    ///
    /// # Errors
    /// As for [`Maker::make`].
    pub fn plane(&mut self, spec: &SwitchSpec) -> Result<SwitchPlane, String> {
        Ok(match &spec.plane {
            PlaneSpec::Alone(function) => SwitchPlane::Alone(Box::new(self.device(function)?)),
            PlaneSpec::Shared(shared) => SwitchPlane::Shared(Box::new(self.hypervisor(shared)?)),
            PlaneSpec::Split(_) => return Err(NOT_SPLIT.to_owned()),
            PlaneSpec::Aggregate { .. } => {
                let (program, entries) = self.planned.get(&spec.name).ok_or(NOT_PLANNED)?;
                let (program, entries) = (program.clone(), entries.clone());
                self.text_plane(&program, &entries)?
            }
        })
    }

    /// Creates the data plane of a switch with a program and entries that are given as text.
    ///
    /// # Errors
    /// The program or its entries are wrong.
    pub fn text_plane(&mut self, program: &str, entries: &str) -> Result<SwitchPlane, String> {
        let device = self.text_device(program, entries)?;
        Ok(SwitchPlane::Alone(Box::new(device)))
    }

    /// Creates the switch and the servers of a split program, with its entries.
    fn split(&self, spec: &SplitSpec, service: ServiceSpec) -> Result<Box<dyn Node>, String> {
        let mut source = Source::file(&spec.program);
        source.c_file.clone_from(&spec.c_file);
        let compiled = compile::compile_with_foreign(&source);
        let (program, blocks) = compiled.ok_or(WRONG_PROGRAM)?;
        let options = SplitOptions {
            mirror_all: spec.mirror_all,
            phv_bits: spec.phv_bits,
            ..SplitOptions::default()
        };
        let program = split(&program, &options).map_err(|error| error.to_string())?;
        for warning in &program.plan.phv.warnings {
            out::note(warning);
        }
        let texts = handlers::texts(blocks, source.c_file.as_deref())?;
        let handlers = handlers::compile(&program.whole, &texts).ok_or(WRONG_CODE)?;
        let mut natives = Vec::new();
        for server in 0..spec.servers.len() as u32 {
            let loaded = handlers.load(&program.server, server);
            natives.push(loaded.ok_or(WRONG_CODE)?);
        }
        let choice = self.choice;
        let mut engine_of = |plane: Option<u16>| {
            let handlers = plane.map(|server| natives[usize::from(server)].clone());
            engine_with(choice.engine_before_packets(), handlers.unwrap_or_default())
        };
        let port = options.request_port;
        let fabric = SplitFabric::new(&program, spec, port, self.seed, &mut engine_of);
        let mut fabric = fabric.map_err(|error| error.to_string())?;
        fabric.set_owners(|pool| handlers.owners(pool));
        if let Some(path) = &spec.entries
            && !configure::add_file(fabric.coordinator_mut().whole_mut(), path)?
        {
            return Err(WRONG_ENTRIES.to_owned());
        }
        let node = fabric.into_node(spec, service);
        node.map_err(|error| error.to_string())
    }

    /// Creates a device with a program and entries that are given as text. Each text is compiled
    /// once.
    fn text_device(&mut self, program: &str, entries: &str) -> Result<Device, String> {
        let compiled = match self.texts.get(program) {
            Some(compiled) => Arc::clone(compiled),
            None => {
                let compiled = driver::compile_text("switch.p4", program);
                let compiled = Arc::new(compiled.map_err(|error| error.to_string())?);
                self.texts.insert(program.to_owned(), Arc::clone(&compiled));
                compiled
            }
        };
        configure::device_with_entries(&compiled, self.engine.as_ref(), self.seed, entries)
    }

    fn device(&mut self, function: &FunctionSpec) -> Result<Device, String> {
        let program = self.program(function)?;
        load(self.engine.as_ref(), &program, self.seed, &function.entries)
    }

    fn hypervisor(&mut self, shared: &SharedSpec) -> Result<TenantSwitch, String> {
        let mut hypervisor = TenantSwitch::new(Arc::clone(&self.engine));
        for sharing in &shared.sharings {
            let (port, how) = sharing.it;
            let done = hypervisor.share_as(port, how);
            done.map_err(|why| at_line(sharing.line, &why))?;
        }
        for vpdp in &shared.vpdps {
            let made = self.add_vpdp(&mut hypervisor, vpdp);
            made.map_err(|why| format!("vPDP {}: {why}", vpdp.name))?;
        }
        for vpdp in &shared.vpdps {
            link(&mut hypervisor, vpdp)?;
        }
        for rule in &shared.rules {
            let added = hypervisor.add_rule(rule.it.clone());
            added.map_err(|why| at_line(rule.line, &why))?;
        }
        Ok(hypervisor)
    }

    fn add_vpdp(&mut self, hypervisor: &mut TenantSwitch, vpdp: &VpdpSpec) -> Result<(), String> {
        let program = self.program(&vpdp.function)?;
        let created = hypervisor.create(Spec {
            id: Some(vpdp.id),
            name: vpdp.name.clone(),
            ports: vpdp.ports.iter().map(unlinked).collect(),
            device: DeviceConfig {
                seed: self.seed,
                ..DeviceConfig::default()
            },
            ..Spec::default()
        });
        let loaded = created.and_then(|id| hypervisor.load(id, program).map(|()| id));
        let id = loaded.map_err(|why| at_line(vpdp.line, &why))?;
        if let Some(device) = hypervisor.device_mut(id) {
            add_files(device, &vpdp.function.entries)?;
            device.publish();
        }
        Ok(())
    }

    fn program(&mut self, function: &FunctionSpec) -> Result<Arc<ir::Program>, String> {
        let (spec, at) = (&function.program, &function.program_at);
        if let Some(program) = self.programs.get(spec) {
            return Ok(Arc::clone(program));
        }
        let program = match spec {
            ProgramSpec::File(path) if !path.is_file() => {
                return Err(format!(
                    "{at}: cannot read the program {}: there is no such file\n  = hint: file \
                     names are searched from the folder of the topology; copy the program there, \
                     or correct its name",
                    path.display()
                ));
            }
            ProgramSpec::File(path) => compile::compile(&Source::file(path)),
            ProgramSpec::Policy { text, directory } => {
                compile::compile_policy_text(text, directory)
            }
        };
        let program = program.ok_or_else(|| format!("{WRONG_PROGRAM} ({at})"))?;
        let program = Arc::new(program);
        self.programs.insert(spec.clone(), Arc::clone(&program));
        Ok(program)
    }
}

/// Loads a device with its entries.
fn load(
    engine: &dyn Engine,
    program: &Arc<ir::Program>,
    seed: u64,
    entries: &[PathBuf],
) -> Result<Device, String> {
    let setup = Setup {
        entries: None,
        host_ports: Vec::new(),
        seed,
    };
    let device = configure::load_on(engine, program, &setup, Nanos::ZERO)?;
    let mut device = device.ok_or_else(|| WRONG_ENTRIES.to_owned())?;
    add_files(&mut device, entries)?;
    Ok(device)
}

/// Reads entries files and applies them, in this order.
fn add_files(device: &mut Device, files: &[PathBuf]) -> Result<(), String> {
    for path in files {
        if !configure::add_file(device, path)? {
            return Err(WRONG_ENTRIES.to_owned());
        }
    }
    Ok(())
}

fn at_line(line: usize, why: &dyn std::fmt::Display) -> String {
    format!("line {line}: {why}")
}

/// Returns a port's connection without links, which may lead to vPDPs that do not exist yet.
fn unlinked(connection: &Connection) -> Connection {
    match connection {
        Connection::Link(_) => Connection::Open,
        Connection::Open | Connection::Physical(_) => *connection,
    }
}

/// Creates a vPDP's links, except those that the other end has created.
fn link(hypervisor: &mut TenantSwitch, vpdp: &VpdpSpec) -> Result<(), String> {
    for (port, connection) in (0..).zip(&vpdp.ports) {
        let Connection::Link(other) = *connection else {
            continue;
        };
        let own = VirtualPort {
            vpdp: vpdp.id,
            port,
        };
        let is_made = hypervisor.ports(own.vpdp).get(port as usize) == Some(connection);
        if !is_made {
            let linked = hypervisor.link(own, other);
            linked.map_err(|why| at_line(vpdp.line, &why))?;
        }
    }
    Ok(())
}
