//! Egress of ports that several virtual data planes share by rules or by MAC addresses: a frame
//! leaves only if the packets that answer it would be for the vPDP that sends it.
//!
//! The condition is the classification of the other direction. Sources of a frame that leaves are
//! destinations of the frames that answer it: a rule on a destination is a condition on the source
//! of frames that leave, and one on a source a condition on their destination. VLAN, EtherType and
//! protocol are the same in both directions. docs/TENANCY.md has it in full.

use std::collections::BTreeMap;
use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, PortId};

use crate::classifier::{Classifier, outer_vlan};
use crate::entrance::of_vlan;
use crate::rule::{Condition, Rule};
use crate::tag::{self, TagError};
use crate::vpdp::VpdpId;
use crate::wiring::{Egress, MacPrefix, Sharing, Wiring};

/// The least bytes of an Ethernet frame, without its check sequence: network cards fill shorter
/// ones up with zeros.
const LEAST_FRAME: usize = 60;

/// The condition on what leaves a vPDP by one shared port.
#[derive(Debug)]
pub(crate) struct Guard {
    vpdp: VpdpId,
    port: PortId,
    /// The VLAN of the tag that untagged frames get.
    access: Option<u16>,
    owned: Owned,
}

/// The frames that are the vPDP's own.
#[derive(Debug)]
enum Owned {
    /// All.
    All,
    /// Those of these VLANs, ascending.
    Vlans(Box<[(u16, ())]>),
    /// Those of a source address with this prefix and the vPDP's number; rules decide about other
    /// addresses.
    Sources(MacPrefix, Option<Arc<Classifier>>),
    /// Those that rules say.
    Ruled(Arc<Classifier>),
}

impl Guard {
    /// The VLAN of all frames that may leave, and the port, if there is no other condition and no
    /// frame gets a tag.
    pub(crate) fn one_vlan(&self) -> Option<(u16, PortId)> {
        match (&self.owned, self.access) {
            (Owned::Vlans(vlans), None) => match **vlans {
                [(vlan, ())] => Some((vlan, self.port)),
                _ => None,
            },
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_one_vlan(port: PortId, vlan: u16) -> Guard {
        Guard {
            vpdp: VpdpId::all().next().unwrap(),
            port,
            access: None,
            owned: Owned::Vlans(Box::new([(vlan, ())])),
        }
    }

    /// Makes a frame ready to leave; returns the port of the switch.
    ///
    /// # Errors
    /// It may not leave, for this reason. It may have a tag then.
    pub(crate) fn pass(&self, frame: &mut Frame) -> Result<PortId, DropReason> {
        if let Some(vlan) = self.access
            && outer_vlan(frame.bytes()) == 0
        {
            tag::put_on(frame, vlan).map_err(|error| match error {
                TagError::TooLong => DropReason::FrameTooLong,
                TagError::NoEthernet => DropReason::ForeignEgress,
            })?;
        }
        match self.owns(frame.bytes()) {
            true => Ok(self.port),
            false => Err(DropReason::ForeignEgress),
        }
    }

    fn owns(&self, bytes: &[u8]) -> bool {
        match &self.owned {
            Owned::All => true,
            Owned::Vlans(vlans) => of_vlan(vlans, outer_vlan(bytes)).is_some(),
            _ if bytes.len() < LEAST_FRAME => self.owns_short(bytes),
            _ => self.is_answered(bytes),
        }
    }

    /// True if a short frame is the vPDP's both as it is and as a network card sends it.
    #[cold]
    fn owns_short(&self, bytes: &[u8]) -> bool {
        let mut padded = [0; LEAST_FRAME];
        padded[..bytes.len()].copy_from_slice(bytes);
        self.is_answered(bytes) && self.is_answered(&padded)
    }

    /// True if the packets that answer a frame are the vPDP's.
    fn is_answered(&self, bytes: &[u8]) -> bool {
        let by_rules = |classifier: &Classifier| classifier.find_mirrored(self.port, bytes);
        let owner = match &self.owned {
            Owned::All | Owned::Vlans(_) => return self.owns(bytes),
            Owned::Sources(prefix, classifier) => prefix
                .vpdp_of_source(bytes)
                .or_else(|| by_rules(classifier.as_deref()?)),
            Owned::Ruled(classifier) => by_rules(classifier),
        };
        owner == Some(self.vpdp)
    }
}

/// Makes the guards of a wiring that was checked.
pub(crate) struct Guards<'w> {
    wiring: &'w Wiring,
    classifier: Option<Arc<Classifier>>,
    /// Ports that have all packets of one vPDP.
    sole: BTreeMap<PortId, VpdpId>,
    /// By vPDP and port, the VLAN of an access rule.
    access: BTreeMap<(VpdpId, PortId), u16>,
}

impl<'w> Guards<'w> {
    pub(crate) fn new(wiring: &'w Wiring, classifier: Option<Arc<Classifier>>) -> Guards<'w> {
        let access = wiring.rules.iter();
        let access = access.filter_map(|rule| Some(((rule.vpdp, rule.port()?), rule.access()?)));
        Guards {
            sole: sole_owners(&wiring.rules),
            access: access.collect(),
            wiring,
            classifier,
        }
    }

    /// The guard of what leaves this vPDP by this port of the switch; none where all may leave.
    pub(crate) fn of(&self, vpdp: VpdpId, port: PortId) -> Option<Guard> {
        let shared = self.wiring.shared.get(&port)?;
        let classifier = self.classifier.clone();
        let owned = match shared.sharing {
            // The description is the switch's own.
            Sharing::Described(_) => return None,
            _ if shared.egress == Egress::Any => Owned::All,
            Sharing::Destination(prefix) => Owned::Sources(prefix, classifier),
            Sharing::Rules if self.sole.get(&port) == Some(&vpdp) => Owned::All,
            Sharing::Rules => match classifier {
                None => Owned::Vlans(Box::default()),
                Some(classifier) => match &*classifier {
                    Classifier::Vlans(vlans) => {
                        let all = vlans.of_port(port).iter();
                        let own = all.filter(|(_, owner)| owner.vpdp == vpdp);
                        Owned::Vlans(own.map(|(vlan, _)| (*vlan, ())).collect())
                    }
                    Classifier::Rules(_) => Owned::Ruled(classifier),
                },
            },
        };
        let access = self.access.get(&(vpdp, port)).copied();
        let lets_all_pass = access.is_none() && matches!(owned, Owned::All);
        (!lets_all_pass).then_some(Guard {
            vpdp,
            port,
            access,
            owned,
        })
    }
}

/// Ports that rules of one vPDP alone are about, of which one asks for nothing more.
fn sole_owners(rules: &[Rule]) -> BTreeMap<PortId, VpdpId> {
    let mut ports: BTreeMap<Option<PortId>, Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        ports.entry(rule.port()).or_default().push(rule);
    }
    let of_all_ports = ports.remove(&None).unwrap_or_default();
    let sole = |port: Option<PortId>, rules: Vec<&Rule>| {
        let owner = rules.first()?.vpdp;
        let asks_for_port_alone = |rule: &&Rule| {
            let mut conditions = rule.conditions.iter();
            conditions.all(|condition| matches!(condition, Condition::Port(_)))
        };
        let are_own = of_all_ports
            .iter()
            .chain(&rules)
            .all(|rule| rule.vpdp == owner);
        let is_sole = are_own && rules.iter().any(asks_for_port_alone);
        Some((port?, owner)).filter(|_| is_sole)
    };
    let ports = ports.into_iter();
    ports
        .filter_map(|(port, rules)| sole(port, rules))
        .collect()
}
