//! Requests of operators to the control loop, and the answers.

use std::sync::Arc;

use p4info::polyplane::tenancy::v1 as wire;
use p4info::polyplane::tenancy::v1::change_request::Change;
use p4rt::{Answer, Code, TenancyError};
use support::name;
use tenancy::{
    Connection, Exported, ExportedState, HypervisorError, Quotas, Rule, Share, Spec, VirtualPort,
    Vpdp, VpdpId,
};

use crate::compile_bounds::denied;
use crate::cpu_port::DEFAULT_CPU;
use crate::tenancy_host::compile_job;
use crate::tenancy_host::control_loop::ControlLoop;
use crate::tenancy_host::packet_processor::controllers_of;

pub(super) type Answered<T> = Result<T, TenancyError>;

/// Returns the error for an invalid request.
pub(super) fn invalid(message: impl ToString) -> TenancyError {
    TenancyError {
        code: Code::InvalidArgument,
        message: message.to_string(),
    }
}

pub(super) fn refused(refusal: HypervisorError) -> TenancyError {
    if let HypervisorError::Compile(error) = refusal {
        return denied(error);
    }
    let code = match &refusal {
        HypervisorError::NoSuchVpdp(_) => Code::NotFound,
        HypervisorError::NumberTaken(_) | HypervisorError::NameTaken(..) => Code::AlreadyExists,
        HypervisorError::NoNumberLeft
        | HypervisorError::Exceeded(..)
        | HypervisorError::Slots(..)
        | HypervisorError::Compile(_) => Code::ResourceExhausted,
        HypervisorError::InUse(..)
        | HypervisorError::HasProgram(_)
        | HypervisorError::NoProgram(_)
        | HypervisorError::NothingBefore(_)
        | HypervisorError::Changed(_)
        | HypervisorError::Update(..) => Code::FailedPrecondition,
        HypervisorError::Wiring(_)
        | HypervisorError::Compose(..)
        | HypervisorError::Edit(..)
        | HypervisorError::Load(..)
        | HypervisorError::Import(_) => Code::InvalidArgument,
    };
    TenancyError {
        code,
        message: refusal.to_string(),
    }
}

/// Returns an answer without further content.
pub(super) fn done(id: VpdpId) -> wire::ChangeResponse {
    wire::ChangeResponse {
        vpdp: id.get().into(),
        lost: Vec::new(),
    }
}

impl ControlLoop {
    /// Executes one change.
    pub(super) fn change(
        &mut self,
        asked: wire::ChangeRequest,
        answer: Answer<wire::ChangeResponse>,
    ) {
        match asked.change {
            // These take time, so they run on other threads.
            Some(Change::SetProgram(asked)) => self.set_program(asked, answer),
            Some(Change::EditStage(asked)) => self.edit_stage(asked, answer),
            Some(Change::RollBack(vpdp)) => self.roll_back(&vpdp, answer),
            Some(Change::RemoveProgram(vpdp)) => self.remove_program(&vpdp, answer),
            Some(Change::Create(asked)) => {
                let made = self.create(asked);
                self.begin(made, answer);
            }
            Some(Change::Import(exported)) => {
                let made = self.import(exported);
                self.begin(made, answer);
            }
            Some(Change::Delete(vpdp)) => self.delete(&vpdp, answer),
            Some(change) => self.change_setting(change, answer),
            None => answer.give(Err(invalid("the request changes nothing"))),
        }
    }

    /// Changes a setting in memory.
    pub(super) fn change_now(&mut self, change: Change) -> Answered<wire::ChangeResponse> {
        match change {
            Change::Suspend(vpdp) => {
                let id = self.id(&vpdp)?;
                self.hypervisor.suspend(id).map_err(refused)?;
                Ok(done(id))
            }
            Change::Resume(vpdp) => {
                let id = self.id(&vpdp)?;
                self.hypervisor.resume(id).map_err(refused)?;
                Ok(done(id))
            }
            Change::Connect(asked) => {
                let port = self.virtual_port(asked.port)?;
                let to = asked.physical.map(packet::PortId);
                self.check_port(to.map_or(Connection::Open, Connection::Physical))?;
                let concerned = self.with_peers(&[port]);
                self.hypervisor.connect(port, to).map_err(refused)?;
                self.rewired(&concerned);
                Ok(done(port.vpdp))
            }
            Change::Link(asked) => {
                let one = self.virtual_port(asked.one)?;
                let other = self.virtual_port(asked.other)?;
                let concerned = self.with_peers(&[one, other]);
                self.hypervisor.link(one, other).map_err(refused)?;
                self.rewired(&concerned);
                Ok(done(one.vpdp))
            }
            Change::Unlink(port) => {
                let port = self.virtual_port(Some(port))?;
                let concerned = self.with_peers(&[port]);
                self.hypervisor.unlink(port).map_err(refused)?;
                self.rewired(&concerned);
                Ok(done(port.vpdp))
            }
            Change::Share(asked) => self.share(&asked),
            Change::AddRule(text) => {
                if let Some((name, _)) = text.split_once(':') {
                    name::check("a rule's name", name.trim()).map_err(invalid)?;
                }
                let rule = Rule::read(&text, |word| self.id(word).ok()).map_err(invalid)?;
                let id = rule.vpdp;
                self.hypervisor.add_rule(rule).map_err(refused)?;
                Ok(done(id))
            }
            Change::RemoveRule(name) => {
                let mut rules = self.hypervisor.rules().iter();
                let vpdp = rules.find(|rule| rule.name == name).map(|rule| rule.vpdp);
                self.hypervisor.remove_rule(&name).map_err(refused)?;
                Ok(vpdp.map(done).unwrap_or_default())
            }
            Change::SetQuotas(asked) => {
                let id = self.id(&asked.vpdp)?;
                let quotas = quotas(&asked.quotas)?;
                self.hypervisor.set_quotas(id, quotas).map_err(refused)?;
                self.renew_config(id);
                Ok(done(id))
            }
            // Handled by [`ControlLoop::change`].
            Change::Create(_)
            | Change::Delete(_)
            | Change::Import(_)
            | Change::SetProgram(_)
            | Change::EditStage(_)
            | Change::RollBack(_)
            | Change::RemoveProgram(_) => Err(invalid("this is no change of a setting")),
        }
    }

    /// Returns the vPDP with this name or number.
    pub(super) fn id(&self, word: &str) -> Answered<VpdpId> {
        name::check("the name or the number of a vPDP", word).map_err(invalid)?;
        let mut vpdps = self.hypervisor.vpdps();
        let found = vpdps.find(|vpdp| vpdp.name() == word || vpdp.id().to_string() == word);
        found.map(Vpdp::id).ok_or_else(|| {
            let names: Vec<&str> = self.hypervisor.vpdps().map(Vpdp::name).collect();
            TenancyError {
                code: Code::NotFound,
                message: match names.is_empty() {
                    true => format!("there is no vPDP `{word}`; there is none at all"),
                    false => format!("there is no vPDP `{word}`; there are {}", names.join(", ")),
                },
            }
        })
    }

    fn virtual_port(&self, port: Option<wire::VirtualPort>) -> Answered<VirtualPort> {
        let port = port.ok_or_else(|| invalid("a virtual port is missing"))?;
        let is_free = port.port < DEFAULT_CPU;
        if !is_free {
            return Err(invalid(format!(
                "a vPDP has the ports 0 to {}; {DEFAULT_CPU} is the one for controllers",
                DEFAULT_CPU - 1
            )));
        }
        Ok(VirtualPort {
            vpdp: self.id(&port.vpdp)?,
            port: port.port,
        })
    }

    fn check_port(&self, connection: Connection) -> Answered<()> {
        match self.has_port(connection) {
            true => Ok(()),
            false => {
                let ports: Vec<String> = self.ports.keys().map(ToString::to_string).collect();
                Err(invalid(format!(
                    "the switch has no port {connection}; it has {}",
                    ports.join(", ")
                )))
            }
        }
    }

    fn create(&mut self, asked: wire::Create) -> Answered<VpdpId> {
        let id = match asked.id {
            0 => None,
            number => {
                let id = u16::try_from(number).ok().and_then(VpdpId::new);
                Some(id.ok_or_else(|| {
                    invalid(format!(
                        "numbers of vPDPs are 1 to {}, not {number}",
                        VpdpId::MAX
                    ))
                })?)
            }
        };
        let mut ports = Vec::new();
        for text in &asked.ports {
            let connection = Connection::read(text, |word| self.id(word).ok()).map_err(invalid)?;
            self.check_port(connection)?;
            ports.push(connection);
        }
        let id = self.make(Spec {
            id,
            name: named(asked.name)?,
            owner: owner(asked.owner)?,
            ports,
            quotas: quotas(&asked.quotas)?,
            ..Spec::default()
        })?;
        let empty = Arc::clone(&self.empty);
        let loaded = self.hypervisor.load(id, empty).map_err(refused);
        self.made(id, loaded)
    }

    /// Creates a vPDP. Its CPU port comes after the requested ports.
    fn make(&mut self, mut spec: Spec) -> Answered<VpdpId> {
        if spec.ports.len() > DEFAULT_CPU as usize {
            return Err(invalid(format!("a vPDP has at most {DEFAULT_CPU} ports")));
        }
        spec.ports
            .resize(DEFAULT_CPU as usize + 1, Connection::Open);
        let id = self.hypervisor.create(spec).map_err(refused)?;
        self.lead_to_controllers(id)?;
        Ok(id)
    }

    /// Connects a vPDP's CPU port.
    pub(super) fn lead_to_controllers(&mut self, id: VpdpId) -> Answered<()> {
        let port = VirtualPort {
            vpdp: id,
            port: DEFAULT_CPU,
        };
        let connected = self.hypervisor.connect(port, Some(controllers_of(id)));
        connected.map_err(refused)
    }

    /// Returns a new vPDP. After an error it is deleted.
    fn made(&mut self, id: VpdpId, made: Answered<()>) -> Answered<VpdpId> {
        if let Err(denial) = made {
            self.hypervisor.delete(id).map_err(refused)?;
            return Err(denial);
        }
        Ok(id)
    }

    fn share(&mut self, asked: &wire::Share) -> Answered<wire::ChangeResponse> {
        let port = packet::PortId(asked.port);
        self.check_port(Connection::Physical(port))?;
        let shared = match asked.sharing.as_str() {
            "" => self.hypervisor.share(port, None),
            text => {
                let share: Share = text.parse().map_err(invalid)?;
                self.hypervisor.share_as(port, share)
            }
        };
        shared.map_err(refused)?;
        Ok(wire::ChangeResponse::default())
    }

    fn import(&mut self, exported: wire::Exported) -> Answered<VpdpId> {
        let unreadable =
            || invalid("what was exported cannot be read; export it with this release");
        let function = |function: Option<wire::Function>| {
            let function = function.and_then(|function| function.function);
            let function = function.ok_or_else(unreadable)?;
            let not_p4 = |_: &str| Err(String::new());
            compile_job::read(&function, &not_p4).map_err(|_| unreadable())
        };
        let objects = exported.objects.iter();
        let objects = objects.map(|kept| store::read_object(&kept.place, &kept.object));
        let objects: Option<Vec<_>> = objects.collect();
        let quotas = quotas(&exported.quotas)?;
        let compile = quotas.compile;
        // Parsing the texts is as expensive as compiling them, so the compile quota applies.
        let bounded = |of: Option<wire::Function>| {
            let read = compile.run(|| function(of));
            read.map_err(denied)?
        };
        let spec = Spec {
            name: named(exported.name)?,
            owner: owner(exported.owner)?,
            quotas,
            ports: vec![Connection::Open; DEFAULT_CPU as usize + 1],
            ..Spec::default()
        };
        let exported = Exported {
            spec,
            is_suspended: exported.is_suspended,
            state: Some(ExportedState {
                function: bounded(exported.function)?,
                before: match exported.before {
                    None => None,
                    before => Some(bounded(before)?),
                },
                objects: objects.ok_or_else(unreadable)?,
            }),
        };
        let notes = self.notes_of(exported.state.as_ref());
        let id = self.hypervisor.import(exported).map_err(refused)?;
        if let Some(device) = self.hypervisor.device_mut(id) {
            p4rt::put_back_notes(device, notes);
        }
        let connected = self.lead_to_controllers(id);
        self.made(id, connected)
    }

    pub(super) fn export(&self, id: VpdpId) -> Answered<wire::Exported> {
        let exported = self.hypervisor.export(id).map_err(refused)?;
        let state = exported
            .state
            .ok_or_else(|| refused(HypervisorError::NoProgram(id)))?;
        let kept = |(place, object)| {
            let (place, object) = store::write_object(&place, &object);
            wire::Kept { place, object }
        };
        Ok(wire::Exported {
            name: exported.spec.name,
            owner: exported.spec.owner,
            quotas: exported.spec.quotas.settings(),
            is_suspended: exported.is_suspended,
            function: Some(compile_job::write(&state.function)),
            before: state.before.as_ref().map(compile_job::write),
            objects: state.objects.into_iter().map(kept).collect(),
        })
    }
}

/// Checks a vPDP's name: it must not be a number.
fn named(name: String) -> Answered<String> {
    name::check("a vPDP's name", &name).map_err(invalid)?;
    let is_word = name
        .chars()
        .all(|c| c.is_alphanumeric() || "-_.".contains(c));
    match is_word && name.starts_with(char::is_alphabetic) {
        true => Ok(name),
        false => Err(invalid(format!(
            "`{name}` is no name for a vPDP: it begins with a letter and has letters, digits, `-`, `_` and `.`"
        ))),
    }
}

/// Checks a vPDP's owner: a name as in certificates, or empty.
fn owner(owner: String) -> Answered<String> {
    match owner.as_str() {
        "" => Ok(owner),
        "*" => Err(invalid(
            "`*` is no owner: everybody with a certificate would control the vPDP; name one, or allow everybody on the whole switch (--allow '*=*')",
        )),
        _ => {
            name::check("a vPDP's owner", &owner).map_err(invalid)?;
            Ok(owner)
        }
    }
}

fn quotas(settings: &[String]) -> Answered<Quotas> {
    Quotas::read(settings.iter().map(String::as_str)).map_err(invalid)
}
