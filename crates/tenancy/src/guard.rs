//! Egress filter of ports that several vPDPs share by rules or by MAC address: a frame is sent
//! only if the packets that answer it would be assigned to the sending vPDP.
//!
//! The filter classifies the frame in the reverse direction. Sources of the frame are destinations
//! of its answers: a rule on a destination is a condition on the frame's source, and one on a
//! source a condition on its destination. VLAN, EtherType and protocol are the same in both
//! directions. docs/reference/port-sharing.md describes it in full.

use std::collections::BTreeMap;
use std::sync::Arc;

use exec::DropReason;
use packet::{Frame, PortId};

use crate::port_classifier::of_vlan;
use crate::port_map::{Egress, MacPrefix, PortMap, Sharing};
use crate::rule::{Condition, Rule};
use crate::rule_classifier::{Classifier, outer_vlan};
use crate::tag::{self, TagError};
use crate::vpdp::VpdpId;

/// Minimum length of an Ethernet frame in bytes, without FCS. Network cards pad shorter frames
/// with zeros.
const MIN_FRAME: usize = 60;

/// Egress filter of one vPDP at one shared port.
#[derive(Debug)]
pub(crate) struct Guard {
    vpdp: VpdpId,
    port: PortId,
    /// VLAN of the tag that is added to untagged frames.
    access: Option<u16>,
    owned: Owned,
}

/// Set of frames that the vPDP may send.
#[derive(Debug)]
enum Owned {
    /// All frames.
    All,
    /// Frames of these VLANs, sorted.
    Vlans(Box<[(u16, ())]>),
    /// Frames with a source address of this prefix and the vPDP's number. Rules decide about other
    /// addresses.
    Sources(MacPrefix, Option<Arc<Classifier>>),
    /// Frames that the rules assign to the vPDP.
    Ruled(Arc<Classifier>),
}

impl Guard {
    /// Returns the VLAN and the port, if the filter admits frames of exactly one VLAN and adds no
    /// tag.
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

    /// Applies the filter, adds a tag if necessary, and returns the physical port.
    ///
    /// # Errors
    /// The drop reason, if the frame may not be sent. A tag may have been added.
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
            _ if bytes.len() < MIN_FRAME => self.owns_short(bytes),
            _ => self.is_answered(bytes),
        }
    }

    /// Returns true if a short frame is the vPDP's both as it is and padded by a network card.
    #[cold]
    fn owns_short(&self, bytes: &[u8]) -> bool {
        let mut padded = [0; MIN_FRAME];
        padded[..bytes.len()].copy_from_slice(bytes);
        self.is_answered(bytes) && self.is_answered(&padded)
    }

    /// Returns true if the packets that answer a frame are assigned to the vPDP.
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

/// Builder of egress filters from a checked port map.
pub(crate) struct Guards<'w> {
    wiring: &'w PortMap,
    classifier: Option<Arc<Classifier>>,
    /// Ports with one vPDP that gets all packets.
    sole: BTreeMap<PortId, VpdpId>,
    /// VLAN of the access rule, by vPDP and port.
    access: BTreeMap<(VpdpId, PortId), u16>,
}

impl<'w> Guards<'w> {
    pub(crate) fn new(wiring: &'w PortMap, classifier: Option<Arc<Classifier>>) -> Guards<'w> {
        let access = wiring.rules.iter();
        let access = access.filter_map(|rule| Some(((rule.vpdp, rule.port()?), rule.access()?)));
        Guards {
            sole: sole_owners(&wiring.rules),
            access: access.collect(),
            wiring,
            classifier,
        }
    }

    /// Returns the egress filter of a vPDP at a physical port, or `None` if all frames may be
    /// sent.
    pub(crate) fn of(&self, vpdp: VpdpId, port: PortId) -> Option<Guard> {
        let shared = self.wiring.shared.get(&port)?;
        let classifier = self.classifier.clone();
        let owned = match shared.sharing {
            // The switch itself writes the description header.
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

/// Returns ports that only one vPDP's rules name, and one of these rules has no other condition.
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
