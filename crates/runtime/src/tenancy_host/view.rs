//! Answers to operators and owners about virtual data planes.

use p4info::polyplane::tenancy::v1 as wire;
use p4rt::{Code, TenancyError, Viewer};
use packet::PortId;
use switch::{Device, Ledger};
use tenancy::{CompileFigures, Connection, Function, Rule, VirtualPort, Vpdp, VpdpId};

use crate::cpu_port::DEFAULT_CPU;
use crate::tenancy_host::control_loop::ControlLoop;
use crate::tenancy_host::requests::{Answered, invalid};

impl ControlLoop {
    /// Shows one vPDP, or all that the viewer may see.
    pub(super) fn show(
        &self,
        viewer: &Viewer,
        asked: &wire::ShowRequest,
    ) -> Answered<wire::ShowResponse> {
        self.check_viewer(viewer, asked)?;
        let one = match asked.vpdp.as_str() {
            "" => None,
            word => Some(self.id_for(viewer, word)?),
        };
        let exported = match (asked.export, one) {
            (false, _) => None,
            (true, Some(id)) => Some(self.export(id)?),
            (true, None) => return Err(invalid("one vPDP is exported at a time; name it")),
        };
        let vpdps = self.seen(viewer);
        let vpdps = vpdps.filter(|vpdp| one.is_none_or(|id| id == vpdp.id()));
        let shared = self.hypervisor.shared();
        let shared = shared.filter(|(port, _)| self.shares(viewer, *port));
        let shared = shared.map(|(port, share)| wire::Share {
            port: port.0,
            sharing: share.to_string(),
        });
        let rules = self.hypervisor.rules().iter();
        let rules = rules.filter(|rule| self.sees(viewer, rule.vpdp));
        let is_operator = *viewer == Viewer::Operator;
        let all_packets = || {
            let held = self.hypervisor.held() as u64;
            packets(&self.hypervisor.ledger(), held)
        };
        Ok(wire::ShowResponse {
            vpdps: vpdps.map(|vpdp| self.tell(viewer, vpdp)).collect(),
            shared_ports: shared.collect(),
            rules: rules.map(|rule| self.rule_text(rule)).collect(),
            packets: is_operator.then(all_packets),
            exported,
            slots: asked.slots.then(|| self.tell_slots()),
        })
    }

    /// Checks a viewer's rights. Owners see what they own, if that is something; only operators
    /// see switch-wide state.
    fn check_viewer(&self, viewer: &Viewer, asked: &wire::ShowRequest) -> Answered<()> {
        let Viewer::Owner(names) = viewer else {
            return Ok(());
        };
        let refused = |why: &str| {
            Err(TenancyError {
                code: Code::PermissionDenied,
                message: format!("{}: {why}", names.join(", ")),
            })
        };
        if self.seen(viewer).next().is_none() {
            return refused("owns no virtual data plane here, and is no operator");
        }
        match asked.slots || asked.export {
            true => refused(
                "is no operator, who alone sees stage slots and exports; an owner sees its vPDPs \
                 by `tenant list`, `show NAME` and `quota NAME`",
            ),
            false => Ok(()),
        }
    }

    fn seen<'o>(&'o self, viewer: &'o Viewer) -> impl Iterator<Item = &'o Vpdp> {
        let vpdps = self.hypervisor.vpdps();
        vpdps.filter(|vpdp| viewer.sees(vpdp.owner()))
    }

    fn sees(&self, viewer: &Viewer, id: VpdpId) -> bool {
        let vpdp = self.hypervisor.vpdp(id);
        vpdp.is_some_and(|vpdp| viewer.sees(vpdp.owner()))
    }

    /// Returns true if the viewer sees a vPDP with this shared port.
    fn shares(&self, viewer: &Viewer, port: PortId) -> bool {
        let is_it = |to: &Connection| *to == Connection::Physical(port);
        let has = |vpdp: &Vpdp| self.hypervisor.ports(vpdp.id()).iter().any(is_it);
        *viewer == Viewer::Operator || self.seen(viewer).any(has)
    }

    /// Returns the vPDP that a name or number denotes for the viewer.
    fn id_for(&self, viewer: &Viewer, word: &str) -> Answered<VpdpId> {
        let found = match viewer {
            Viewer::Operator => return self.id(word),
            Viewer::Owner(_) => self.id(word).ok(),
        };
        let seen = found.filter(|id| self.sees(viewer, *id));
        seen.ok_or_else(|| {
            let own: Vec<&str> = self.seen(viewer).map(Vpdp::name).collect();
            TenancyError {
                code: Code::NotFound,
                message: format!(
                    "there is no vPDP `{word}` of yours; there are {}",
                    own.join(", ")
                ),
            }
        })
    }

    fn tell(&self, viewer: &Viewer, vpdp: &Vpdp) -> wire::Vpdp {
        let id = vpdp.id();
        let ports = self.hypervisor.ports(id);
        let own = &ports[..ports.len().min(DEFAULT_CPU as usize)];
        let last = own.iter().rposition(|to| *to != Connection::Open);
        let own = own[..last.map_or(0, |last| last + 1)].iter();
        let device = vpdp.device();
        let programmed = device.filter(|_| !self.runs_nothing(vpdp));
        wire::Vpdp {
            id: id.get().into(),
            name: vpdp.name().to_owned(),
            owner: vpdp.owner().to_owned(),
            ports: own.map(|to| self.connection_text(viewer, *to)).collect(),
            quotas: vpdp.quotas().settings(),
            is_suspended: vpdp.is_suspended(),
            program: programmed.map(|device| tell_program(vpdp, device)),
            packets: device.map(|device| packets(&device.ledger(), device.held() as u64)),
            compilations: Some(compilations(&vpdp.compile_figures())),
        }
    }

    /// Formats the connection of a virtual port, with names. For a peer of another owner, only
    /// that it is a link.
    fn connection_text(&self, viewer: &Viewer, to: Connection) -> String {
        let Connection::Link(VirtualPort { vpdp, port }) = to else {
            return to.to_string();
        };
        match self.hypervisor.vpdp(vpdp) {
            Some(peer) if viewer.sees(peer.owner()) => format!("{}:{port}", peer.name()),
            Some(_) => "a link".to_owned(),
            None => to.to_string(),
        }
    }

    fn rule_text(&self, rule: &Rule) -> String {
        match self.hypervisor.vpdp(rule.vpdp) {
            Some(vpdp) => rule.leading_to(vpdp.name()).to_string(),
            None => rule.to_string(),
        }
    }
}

fn tell_program(vpdp: &Vpdp, device: &Device) -> wire::Program {
    let program = vpdp.given().unwrap_or_else(|| device.program());
    let tables = device.configuration().tables.values();
    let policy = match vpdp.function() {
        Some(Function::Chain(chain)) => Some(chain.policy.to_string()),
        Some(Function::Program(_)) | None => None,
    };
    wire::Program {
        name: program.name.clone(),
        stages: switch::stages(program),
        entries: tables.map(|table| table.len() as u64).sum(),
        policy,
        joints: vpdp.joints().iter().map(ToString::to_string).collect(),
    }
}

fn compilations(figures: &CompileFigures) -> wire::Compilations {
    wire::Compilations {
        begun: figures.begun,
        refused: figures.refused,
        microseconds: u64::try_from(figures.time.as_micros()).unwrap_or(u64::MAX),
        is_running: figures.is_running,
    }
}

fn packets(ledger: &Ledger, held: u64) -> wire::Packets {
    let drops = ledger.drops().filter(|(_, packets)| *packets > 0);
    wire::Packets {
        received: ledger.received,
        generated: ledger.generated,
        replicated: ledger.replicated,
        sent: ledger.sent,
        held,
        dropped: drops
            .map(|(reason, packets)| (reason.name().to_owned(), packets))
            .collect(),
    }
}
