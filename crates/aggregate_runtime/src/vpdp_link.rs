//! The master's connection to a switch that hosts tenants: each reduction is a virtual data plane
//! (vPDP) with quotas, and a rule gives it the messages of the reduction.
//!
//! The master is an operator there (`polyplane tenant`), and the P4Runtime controller of its vPDPs.
//! Their names say that they are of a master; it deletes those that no load has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::polyplane::tenancy::v1 as wire;
use p4rt::client::{Client, ClientError, Endpoint, Operator};
use wire::change_request::Change;
use wire::edit_stage::Edit;

use crate::switch_link::{LoadError, Loaded, connect, give, load_error, set_program};
use crate::switch_load::{VpdpChange, VpdpLoad, VpdpUpdate};

/// Beginning of the names of vPDPs and rules.
const PREFIX: &str = "reduction-";

/// Priority of the rules. Those of tenants are below.
const PRIORITY: i32 = 1_000_000;

/// Units of work of a packet: a vector's block takes the most.
const WORK: u32 = 65_536;

/// Milliseconds of a compilation.
const COMPILE: u32 = 20_000;

/// Time from the connection on in which the operator may still share ports.
const SET_UP: Duration = Duration::from_secs(5);

/// Pause before the switch is shown again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A connection to a switch that hosts tenants.
pub(crate) struct VpdpLink {
    endpoint: Endpoint,
    election: u128,
    operator: Operator,
    connected: Instant,
    /// The vPDPs of this connection, by the number of the reduction.
    own: BTreeMap<u16, OwnVpdp>,
}

/// A vPDP of this connection.
struct OwnVpdp {
    id: u32,
    client: Client,
    loaded: Option<Loaded>,
}

fn name_of(reduction: u16) -> String {
    format!("{PREFIX}{reduction}")
}

impl VpdpLink {
    /// Connects as an operator.
    ///
    /// # Errors
    /// The switch cannot be reached, or hosts no tenants.
    pub(crate) fn connect(endpoint: &Endpoint, election: u128) -> Result<VpdpLink, String> {
        let address = &endpoint.address;
        let failed = |error: ClientError| match error {
            ClientError::Refused(error) if error.is_missing() => format!(
                "{address} hosts no tenants; start `polyplane host` there, or leave out `tenants` \
                 in the topology"
            ),
            error => format!(
                "{error}; start `polyplane host --p4runtime {address}` there, with its ports"
            ),
        };
        let mut operator = Operator::connect(endpoint).map_err(failed)?;
        operator
            .show(wire::ShowRequest::default())
            .map_err(failed)?;
        Ok(VpdpLink {
            endpoint: endpoint.clone(),
            election,
            operator,
            connected: Instant::now(),
            own: BTreeMap::new(),
        })
    }

    /// Checks that the switch has all vPDPs of this connection.
    ///
    /// # Errors
    /// It has not, or the connection has ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let shown = self.show(false)?;
        for (reduction, own) in &self.own {
            let mut vpdps = shown.vpdps.iter();
            let name = name_of(*reduction);
            if !vpdps.any(|vpdp| vpdp.id == own.id && vpdp.name == name) {
                return Err(format!("its vPDP {name} is gone"));
            }
        }
        Ok(())
    }

    fn show(&mut self, slots: bool) -> Result<wire::ShowResponse, String> {
        let request = wire::ShowRequest {
            slots,
            ..wire::ShowRequest::default()
        };
        let shown = self.operator.show(request);
        shown.map_err(|error| format!("its connection has ended: {error}"))
    }

    /// Shows the switch when all ports are shared by rules. One that was started again gets its
    /// ports from its operator, for which it has some time from the connection on.
    fn show_shared(&mut self, vpdps: &[VpdpLoad]) -> Result<wire::ShowResponse, String> {
        loop {
            let shown = self.show(false)?;
            let is_missing = vpdps.iter().any(|it| missing_port(it, &shown).is_some());
            if !is_missing || self.connected.elapsed() > SET_UP {
                return Ok(shown);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn change(&mut self, change: Change) -> Result<wire::ChangeResponse, LoadError> {
        self.operator.change(change).map_err(load_error)
    }

    /// Gives the switch these vPDPs, and deletes all others of a master. Returns the reductions
    /// that it refuses, and why.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn load(&mut self, vpdps: Vec<VpdpLoad>) -> Result<Vec<(u16, String)>, String> {
        let shown = self.show_shared(&vpdps)?;
        let wanted: BTreeSet<u16> = vpdps.iter().map(|vpdp| vpdp.reduction).collect();
        self.own.retain(|reduction, _| wanted.contains(reduction));
        for vpdp in &shown.vpdps {
            let is_own = self.own.values().any(|own| own.id == vpdp.id);
            let number = vpdp.name.strip_prefix(PREFIX);
            let is_of_master =
                vpdp.owner.is_empty() && number.is_some_and(|it| it.parse::<u16>().is_ok());
            if is_of_master && !is_own {
                self.delete(&vpdp.name, &shown.rules)?;
            }
        }
        let mut refusals = Vec::new();
        for vpdp in vpdps {
            let reduction = vpdp.reduction;
            match self.give(vpdp, &shown) {
                Ok(()) => continue,
                Err(LoadError::Refused(why)) => refusals.push((reduction, why)),
                Err(LoadError::Lost(why)) => return Err(why),
            }
            self.own.remove(&reduction);
            let shown = self.show(false)?;
            let name = name_of(reduction);
            if shown.vpdps.iter().any(|vpdp| vpdp.name == name) {
                self.delete(&name, &shown.rules)?;
            }
        }
        Ok(refusals)
    }

    /// Deletes a vPDP and its rule.
    fn delete(&mut self, name: &str, rules: &[String]) -> Result<(), String> {
        let begin = format!("{name}:");
        if rules.iter().any(|rule| rule.starts_with(&begin)) {
            let removed = self.operator.change(Change::RemoveRule(name.to_owned()));
            removed.map_err(|error| format!("its rule {name} cannot be deleted: {error}"))?;
        }
        let deleted = self.operator.change(Change::Delete(name.to_owned()));
        deleted.map_err(|error| format!("its vPDP {name} cannot be deleted: {error}"))?;
        Ok(())
    }

    /// Gives a reduction's vPDP its program and entries. A new one gets packets when it has them.
    fn give(&mut self, vpdp: VpdpLoad, shown: &wire::ShowResponse) -> Result<(), LoadError> {
        let reduction = vpdp.reduction;
        let is_new = !self.own.contains_key(&reduction);
        if is_new {
            let own = self.create(&vpdp, shown)?;
            self.own.insert(reduction, own);
        }
        self.retried(reduction, |own| {
            let text = vpdp.text.clone();
            give(&mut own.client, &mut own.loaded, text)
        })?;
        if is_new {
            let name = name_of(reduction);
            let rule = format!("{name}: reduction {reduction} -> {name} priority {PRIORITY}");
            self.change(Change::AddRule(rule))?;
        }
        Ok(())
    }

    /// Does something as the controller of a reduction's vPDP. An operator's change of the vPDP
    /// ends the stream of its controller, so it is tried again with another one.
    fn retried(
        &mut self,
        reduction: u16,
        task: impl Fn(&mut OwnVpdp) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let name = name_of(reduction);
        let own = self.own.get_mut(&reduction);
        let own = own.ok_or_else(|| LoadError::Refused(format!("it has no vPDP {name}")))?;
        let done = task(own);
        if done.is_ok() || own.client.arbitrate(Some(self.election)).is_ok() {
            return done;
        }
        let client = connect(&self.endpoint, own.id.into(), self.election);
        own.client = client.map_err(LoadError::Lost)?;
        task(own)
    }

    /// Creates the vPDP of a reduction, without a program and packets.
    fn create(
        &mut self,
        vpdp: &VpdpLoad,
        shown: &wire::ShowResponse,
    ) -> Result<OwnVpdp, LoadError> {
        let mut ports = vpdp.ports.iter().map(|port| port.0);
        if let Some(port) = missing_port(vpdp, shown) {
            return Err(LoadError::Refused(format!(
                "its port {port} is not shared by rules; run `polyplane tenant share {port} rules` \
                 there, and give each tenant a rule"
            )));
        }
        let count = ports.clone().max().map_or(0, |last| last + 1);
        let open = |port: u32| match ports.any(|own| own == port) {
            true => port.to_string(),
            false => "open".to_owned(),
        };
        let create = wire::Create {
            id: 0,
            name: name_of(vpdp.reduction),
            owner: String::new(),
            ports: (0..count).map(open).collect(),
            quotas: quotas(vpdp),
        };
        let id = self.change(Change::Create(create))?.vpdp;
        let client = connect(&self.endpoint, id.into(), self.election);
        Ok(OwnVpdp {
            id,
            client: client.map_err(LoadError::Lost)?,
            loaded: None,
        })
    }

    /// Changes the vPDP of a running reduction. Its state stays. Returns why it is refused.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn update(&mut self, update: VpdpUpdate) -> Result<Result<(), String>, String> {
        let VpdpUpdate { reduction, change } = update;
        let changed = match change {
            VpdpChange::Program { text, may_lose } => self.retried(reduction, |own| {
                let action = Action::ReconcileAndCommit;
                let mut loaded = set_program(&mut own.client, (action, &may_lose), text.clone())?;
                // Entries stay. Without those from before, the next load sets the program again.
                own.loaded = own.loaded.take().map(|before| {
                    loaded.entries = before.entries;
                    loaded
                });
                Ok(())
            }),
            VpdpChange::Slot(slot) => self.move_to(reduction, slot),
        };
        match changed {
            Ok(()) => Ok(Ok(())),
            Err(LoadError::Refused(why)) => Ok(Err(why)),
            Err(LoadError::Lost(why)) => Err(why),
        }
    }

    /// Moves the program of a reduction: the first stage of its ingress gets this slot, and the
    /// others follow. `None`: any slot.
    fn move_to(&mut self, reduction: u16, slot: Option<u32>) -> Result<(), LoadError> {
        let name = name_of(reduction);
        let own = self.own.get(&reduction).map(|own| own.id);
        let shown = self.show(true).map_err(LoadError::Lost)?;
        let programs = shown.slots.map(|slots| slots.programs).unwrap_or_default();
        let mut programs = programs.iter();
        let program = programs.find(|it| Some(it.vpdp) == own && !it.is_coming);
        let mut stages = program.into_iter().flat_map(|program| &program.stages);
        let stage = stages.find(|stage| stage.block == "ingress");
        let stage = stage.ok_or_else(|| LoadError::Refused(format!("{name} has no stages")))?;
        let edit = wire::EditStage {
            vpdp: name,
            stage: stage.name.clone(),
            edit: Some(match slot {
                Some(slot) => Edit::MoveToSlot(slot),
                None => Edit::MoveToAnySlot(wire::AnySlot {}),
            }),
        };
        self.change(Change::EditStage(edit)).map(|_| ())
    }
}

/// Returns a port of a vPDP that rules do not share.
fn missing_port(vpdp: &VpdpLoad, shown: &wire::ShowResponse) -> Option<u32> {
    let is_shared = |port: u32| {
        let mut shared = shown.shared_ports.iter();
        shared.any(|share| share.port == port && is_by_rules(&share.sharing))
    };
    let mut ports = vpdp.ports.iter().map(|port| port.0);
    ports.find(|port| !is_shared(*port))
}

/// Returns true if rules give packets of a port to vPDPs.
fn is_by_rules(sharing: &str) -> bool {
    let kind = sharing.split_whitespace().next();
    matches!(kind, Some("rules" | "mac"))
}

/// Returns the quotas of a reduction's vPDP.
fn quotas(vpdp: &VpdpLoad) -> Vec<String> {
    vec![
        format!("state-bytes={}", vpdp.state_bytes + vpdp.state_bytes / 10),
        format!("entries={}", vpdp.text.entry_count()),
        format!("work={WORK}"),
        format!("compile-ms={COMPILE}"),
    ]
}
