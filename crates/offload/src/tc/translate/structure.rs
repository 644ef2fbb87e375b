//! The part of a frame between its addresses and its network header: VLAN tags, the EtherType, and
//! MPLS entries that actions put in front of the network header.

use super::edits::Cell;
use super::layout::{ETHER_TYPE, Layout};
use super::refused;
use crate::flow::NotOffloadable;
use crate::tc::rule::{Action, MPLS, PeditHeader, PeditKey, is_mpls, is_vlan};

/// The parts that the kernel's frame has at this point of the actions.
pub(super) struct Structure {
    now: Parts,
    /// MPLS entries of the frame as it came in that are gone.
    popped: u32,
    /// The kernel takes the frame for one of MPLS. A change of the EtherType by `pedit` does not
    /// count.
    is_mpls: bool,
    has_moved_network: bool,
}

/// The parts, from the front.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    tags: Vec<[Cell; 4]>,
    ether_type: [Cell; 2],
    /// Entries between the EtherType and the network header.
    entries: Vec<[Cell; 4]>,
}

fn constant(cells: [Cell; 2]) -> Option<u16> {
    match cells {
        [Cell::Constant(a), Cell::Constant(b)] => Some(u16::from_be_bytes([a, b])),
        _ => None,
    }
}

impl Parts {
    /// Splits the bytes between the addresses and the network header. Bytes count, not the way in
    /// which they got there.
    fn of(cells: &[Cell]) -> Result<Parts, NotOffloadable> {
        let mut rest = cells;
        let mut tags = Vec::new();
        while let [a, b, c, d, _, _, ..] = *rest {
            if !constant([a, b]).is_some_and(is_vlan) {
                break;
            }
            tags.push([a, b, c, d]);
            rest = &rest[4..];
        }
        let [a, b, ref rest @ ..] = *rest else {
            return Err(refused("the flow deletes the EtherType".to_owned()));
        };
        let (entries, odd) = rest.as_chunks();
        if !odd.is_empty() {
            return Err(refused(
                "the flow inserts bytes that are no VLAN tag and no MPLS entry".to_owned(),
            ));
        }
        Ok(Parts {
            tags,
            ether_type: [a, b],
            entries: entries.to_vec(),
        })
    }
}

impl Structure {
    pub(super) fn new(link: Vec<Cell>, layout: &Layout) -> Structure {
        // Four bytes of a tag, and two of the EtherType.
        let (tags, ether_type) = link.split_at(link.len() - 2);
        let now = Parts {
            tags: tags.as_chunks().0.to_vec(),
            ether_type: [ether_type[0], ether_type[1]],
            entries: Vec::new(),
        };
        let is_mpls = layout.ether_type.is_some_and(is_mpls);
        Structure {
            now,
            popped: 0,
            is_mpls,
            has_moved_network: false,
        }
    }

    /// Returns true if the network header that rules know is no longer where the kernel expects it.
    pub(super) fn has_moved_network(&self) -> bool {
        self.has_moved_network
    }

    /// Appends the actions that make these bytes of what the kernel has.
    pub(super) fn flush(
        &mut self,
        cells: &[Cell],
        layout: &Layout,
        actions: &mut Vec<Action>,
    ) -> Result<(), NotOffloadable> {
        let (link, popped) = link(cells, layout)?;
        let wanted = Parts::of(link)?;
        // A rule for each EtherType also takes tagged frames, where these bytes are elsewhere.
        let is_open = layout.ether_type.is_none() && layout.tag.is_none();
        let is_same = popped == self.popped
            && wanted.entries == self.now.entries
            && wanted.ether_type == self.now.ether_type;
        if is_open && !is_same {
            return Err(refused("the frame's EtherType is not known".to_owned()));
        }
        let ether_type = self.entries(&wanted, popped, actions)?;
        if ether_type != wanted.ether_type {
            // With two tags, one of them is in the frame where the EtherType is otherwise.
            if layout.ether_type.is_none() || self.now.tags.len() > 1 {
                return Err(refused("the frame's EtherType is not known".to_owned()));
            }
            actions.push(write_ether_type(&wanted)?);
        }
        self.tags(&wanted, actions)?;
        self.now = wanted;
        Ok(())
    }

    /// Takes MPLS entries away or adds some. Returns the EtherType that the kernel has written.
    fn entries(
        &mut self,
        wanted: &Parts,
        popped: u32,
        actions: &mut Vec<Action>,
    ) -> Result<[Cell; 2], NotOffloadable> {
        let mut ether_type = self.now.ether_type;
        let to_cells = |protocol: u16| protocol.to_be_bytes().map(Cell::Constant);
        let pops = popped.saturating_sub(self.popped);
        for left in (0..pops).rev() {
            if !self.is_mpls || !self.now.entries.is_empty() {
                return Err(refused(
                    "the flow deletes bytes that are no VLAN tag and no MPLS entry".to_owned(),
                ));
            }
            // Before the last one the kernel must still take the frame for one of MPLS.
            let last = constant(wanted.ether_type).filter(|wanted| *wanted >= 0x0600);
            let protocol = last.filter(|_| left == 0).unwrap_or(MPLS);
            self.is_mpls = is_mpls(protocol);
            ether_type = to_cells(protocol);
            actions.push(Action::MplsPop { protocol });
        }
        self.popped = popped;
        let count = wanted.entries.len().checked_sub(self.now.entries.len());
        let added = count.map(|count| wanted.entries.split_at(count));
        let Some((added, _)) = added.filter(|(_, old)| *old == self.now.entries) else {
            return Err(refused(
                "the flow changes an MPLS entry after an output".to_owned(),
            ));
        };
        for entry in added.iter().rev() {
            actions.push(push(entry)?);
            self.is_mpls = true;
            ether_type = to_cells(MPLS);
        }
        self.has_moved_network |= pops > 0 || !added.is_empty();
        Ok(ether_type)
    }

    fn tags(&self, wanted: &Parts, actions: &mut Vec<Action>) -> Result<(), NotOffloadable> {
        let (old, new) = (self.now.tags.as_slice(), wanted.tags.as_slice());
        match (old, new) {
            _ if old == new => {}
            ([_, kept @ ..], new) if kept == new => actions.push(Action::VlanPop),
            (old, [tag, kept @ ..]) if old == kept => {
                let (protocol, control) = tag_values(tag)?;
                if control & 0x1000 != 0 {
                    return Err(drop_eligible());
                }
                let (id, priority) = (control & 0x0FFF, (control >> 13) as u8);
                if id == 0x0FFF {
                    return Err(refused(
                        "the kernel refuses the VLAN identifier 4095".to_owned(),
                    ));
                }
                actions.push(Action::VlanPush {
                    protocol,
                    id,
                    priority,
                });
            }
            ([from], [to]) => actions.push(modify(from, to)?),
            _ => {
                return Err(refused(
                    "the flow changes more than one VLAN tag".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

/// Returns the action that changes a tag. The kernel keeps the bit 'drop eligible', and drivers
/// write the identifier and the priority.
fn modify(from: &[Cell; 4], to: &[Cell; 4]) -> Result<Action, NotOffloadable> {
    let [a, b, high, low] = *to;
    let original = match from[2] {
        Cell::Original(at) | Cell::Partial { at, .. } => Some(at),
        Cell::Constant(_) => None,
    };
    let (protocol, low) = match (constant([a, b]), low) {
        (Some(protocol), Cell::Constant(low)) => (protocol, low),
        _ => return Err(refused("a VLAN tag's bytes are not known".to_owned())),
    };
    let high = match high {
        Cell::Partial {
            at,
            value,
            mask: 0xEF,
        } if original == Some(at) => value,
        Cell::Constant(_) => return Err(drop_eligible()),
        _ => {
            return Err(refused(
                "the flow changes a part of a VLAN tag, and does not match the rest".to_owned(),
            ));
        }
    };
    let id = u16::from_be_bytes([high & 0x0F, low]);
    if id == 0x0FFF {
        return Err(refused(
            "the kernel refuses the VLAN identifier 4095".to_owned(),
        ));
    }
    Ok(Action::VlanModify {
        protocol,
        id,
        priority: high >> 5,
    })
}

fn drop_eligible() -> NotOffloadable {
    refused("no action writes the bit 'drop eligible' of a VLAN tag".to_owned())
}

/// Returns the bytes between the addresses and the network header, and the number of MPLS entries
/// that are gone from the network header's front.
fn link<'a>(cells: &'a [Cell], layout: &Layout) -> Result<(&'a [Cell], u32), NotOffloadable> {
    let other = || refused("the flow moves bytes that no action moves".to_owned());
    let is_network = |cell: &Cell| matches!(cell, Cell::Original(at) if *at >= layout.network);
    let start = cells.iter().position(is_network).ok_or_else(other)?;
    let Some(Cell::Original(first)) = cells.get(start) else {
        return Err(other());
    };
    let follow = |cells: &[Cell], first: u32| {
        (first..)
            .zip(cells)
            .all(|(at, cell)| *cell == Cell::Original(at))
    };
    let addresses = cells.get(..ETHER_TYPE as usize).ok_or_else(other)?;
    let gone = first - layout.network;
    if !follow(addresses, 0) || !follow(&cells[start..], *first) || !gone.is_multiple_of(4) {
        return Err(other());
    }
    let link = cells.get(ETHER_TYPE as usize..start).ok_or_else(other)?;
    Ok((link, gone / 4))
}

fn write_ether_type(wanted: &Parts) -> Result<Action, NotOffloadable> {
    let Some(ether_type) = constant(wanted.ether_type) else {
        return Err(refused("the frame's EtherType is not known".to_owned()));
    };
    let [a, b] = ether_type.to_be_bytes();
    Ok(Action::Pedit(vec![PeditKey {
        header: PeditHeader::Ethernet,
        offset: ETHER_TYPE,
        keep: [0, 0, u8::MAX, u8::MAX],
        value: [a, b, 0, 0],
        add: false,
    }]))
}

/// Returns the EtherType and the control word of a tag.
fn tag_values(tag: &[Cell; 4]) -> Result<(u16, u16), NotOffloadable> {
    let [a, b, c, d] = *tag;
    let values = constant([a, b]).zip(constant([c, d]));
    values.ok_or_else(|| refused("a VLAN tag's bytes are not known".to_owned()))
}

fn push(entry: &[Cell; 4]) -> Result<Action, NotOffloadable> {
    let bytes = entry.map(|cell| match cell {
        Cell::Constant(byte) => Some(byte),
        Cell::Original(_) | Cell::Partial { .. } => None,
    });
    let [Some(a), Some(b), Some(c), Some(d)] = bytes else {
        return Err(refused(
            "the flow moves bytes that no action moves".to_owned(),
        ));
    };
    let word = u32::from_be_bytes([a, b, c, d]);
    let (label, ttl) = (word >> 12, d);
    if label == 3 {
        return Err(refused("the kernel refuses the MPLS label 3".to_owned()));
    }
    if ttl == 0 {
        return Err(refused(
            "the kernel refuses an MPLS entry with time to live 0".to_owned(),
        ));
    }
    let (tc, bos) = ((word >> 9 & 7) as u8, word >> 8 & 1 != 0);
    Ok(Action::MplsPush {
        protocol: MPLS,
        label,
        tc,
        bos,
        ttl,
    })
}
