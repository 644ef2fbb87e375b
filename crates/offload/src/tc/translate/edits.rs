//! A flow's changes of a frame as actions.

use super::keys::{Bits, no_ip_options};
use super::layout::{ETHER_TYPE, Layout, Network};
use super::refused;
use super::structure::Structure;
use crate::flow::{Edit, Flow, NotOffloadable, Step, Summed};
use crate::tc::rule::{Action, PeditHeader, PeditKey};

/// A byte of the frame as the flow has made it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// A byte of the frame as it came in, perhaps changed by actions.
    Original(u32),
    /// A byte of a VLAN tag or EtherType as it came in, of which the bits of `mask` have these
    /// values.
    Partial { at: u32, value: u8, mask: u8 },
    /// A byte with this value.
    Constant(u8),
}

/// Translator of changes. Changes inside of headers become actions at once; those of the VLAN tags,
/// of the EtherType and of MPLS entries do so at the next output.
pub(super) struct Editor {
    pub(super) actions: Vec<Action>,
    layout: Layout,
    no_ip_options: bool,
    cells: Vec<Cell>,
    structure: Structure,
    /// The IPv4 header has changed since its checksum was written.
    is_checksum_old: bool,
}

/// Offsets in an IPv4 header.
pub(super) const IPV4_LENGTH: u32 = 20;
pub(super) const IPV4_CHECKSUM: u32 = 10;

impl Editor {
    pub(super) fn new(bits: &Bits, layout: &Layout, no_ip_options: bool, flow: &Flow) -> Editor {
        let touched = |step: &Step| match step {
            Step::Edit(Edit::Set { offset, value, .. }) => offset + value.len() as u32,
            Step::Edit(Edit::Insert { offset, .. } | Edit::Add { offset, .. }) => offset + 1,
            Step::Edit(Edit::Delete { offset, len }) => offset + len,
            Step::Edit(Edit::Checksum { offset, .. }) => offset + 2,
            Step::Output(_) => 0,
        };
        // Deletions move later bytes to the front, by less than all that steps touch together.
        let reach: u32 = flow.steps.iter().map(touched).sum();
        let network = layout.network;
        let cell = |at: u32| match (at, layout.tag, layout.ether_type) {
            (12 | 13, Some(tag), _) => Cell::Constant(tag.to_be_bytes()[at as usize - 12]),
            (at, _, Some(ether_type)) if (network - 2..network).contains(&at) => {
                Cell::Constant(ether_type.to_be_bytes()[(at + 2 - network) as usize])
            }
            (at, ..) if (ETHER_TYPE..network).contains(&at) => merge(at, bits.byte(at), (0, 0)),
            (at, ..) => Cell::Original(at),
        };
        let cells: Vec<Cell> = (0..network + reach + IPV4_LENGTH).map(cell).collect();
        let link = cells[ETHER_TYPE as usize..network as usize].to_vec();
        Editor {
            actions: Vec::new(),
            layout: *layout,
            no_ip_options,
            structure: Structure::new(link, layout),
            cells,
            is_checksum_old: false,
        }
    }

    /// Translates a change.
    pub(super) fn edit(&mut self, edit: &Edit) -> Result<(), NotOffloadable> {
        match edit {
            Edit::Set {
                offset,
                value,
                mask,
            } => {
                for ((at, value), mask) in (*offset..).zip(value).zip(mask) {
                    self.set(at, *value, *mask)?;
                }
                Ok(())
            }
            Edit::Add { offset, value } => self.add(*offset, *value),
            Edit::Insert { offset, bytes } => {
                let at = self.index(*offset)?;
                let bytes = bytes.iter().map(|byte| Cell::Constant(*byte));
                self.cells.splice(at..at, bytes);
                Ok(())
            }
            Edit::Delete { offset, len } => {
                let (start, end) = (self.index(*offset)?, self.index(*offset + *len)?);
                self.cells.drain(start..end);
                Ok(())
            }
            Edit::Checksum { offset, over } => self.checksum(*offset, over),
        }
    }

    /// Sends a copy of the frame as it is now.
    pub(super) fn output(&mut self, interface: u32) -> Result<(), NotOffloadable> {
        if self.is_checksum_old {
            return Err(refused(
                "the flow changes an IPv4 header and leaves its checksum as it was, and some NICs \
                 correct the checksum of a header that they change"
                    .to_owned(),
            ));
        }
        self.structure
            .flush(&self.cells, &self.layout, &mut self.actions)?;
        self.actions.push(Action::Mirror(interface));
        Ok(())
    }

    fn index(&self, offset: u32) -> Result<usize, NotOffloadable> {
        let at = offset as usize;
        match at <= self.cells.len() {
            true => Ok(at),
            false => Err(refused(format!(
                "the flow needs offset {offset} of the changed frame, which is in no header that \
                 actions change"
            ))),
        }
    }

    fn cell(&self, offset: u32) -> Result<Cell, NotOffloadable> {
        let cell = self.cells.get(offset as usize).copied();
        cell.ok_or_else(|| {
            refused(format!(
                "the flow needs offset {offset} of the changed frame, which is in no header that \
                 actions change"
            ))
        })
    }

    fn set(&mut self, offset: u32, value: u8, mask: u8) -> Result<(), NotOffloadable> {
        let changed = match self.cell(offset)? {
            Cell::Constant(old) => Cell::Constant(old & !mask | value & mask),
            Cell::Partial {
                at,
                value: old,
                mask: known,
            } => merge(at, (old, known), (value, mask)),
            Cell::Original(at) if (ETHER_TYPE..self.layout.network).contains(&at) => {
                merge(at, (0, 0), (value, mask))
            }
            Cell::Original(at) => {
                let (header, at) = self.header(at)?;
                self.pedit(header, at, value & mask, mask, false);
                return Ok(());
            }
        };
        self.cells[offset as usize] = changed;
        Ok(())
    }

    fn add(&mut self, offset: u32, value: u8) -> Result<(), NotOffloadable> {
        match self.cell(offset)? {
            Cell::Constant(old) => {
                self.cells[offset as usize] = Cell::Constant(old.wrapping_add(value));
            }
            Cell::Partial { .. } => return Err(part_of_tag()),
            Cell::Original(at) if (ETHER_TYPE..self.layout.network).contains(&at) => {
                return Err(part_of_tag());
            }
            Cell::Original(at) => {
                let (header, at) = self.header(at)?;
                self.pedit(header, at, value, u8::MAX, true);
            }
        }
        Ok(())
    }

    /// Returns the header of a byte that an action can change, and the byte's offset in it.
    fn header(&mut self, at: u32) -> Result<(PeditHeader, u32), NotOffloadable> {
        if at < ETHER_TYPE {
            return Ok((PeditHeader::Ethernet, at));
        }
        if self.structure.has_moved_network() {
            return Err(refused(
                "the flow changes the network header after it has sent a copy with another \
                 MPLS entry"
                    .to_owned(),
            ));
        }
        let at = at - self.layout.network;
        match self.layout.header() {
            Network::Ipv4 if at == 0 => Err(refused(
                "the flow changes the IPv4 header's length".to_owned(),
            )),
            Network::Ipv4 if (IPV4_CHECKSUM..IPV4_CHECKSUM + 2).contains(&at) => Err(refused(
                "the flow writes a value of its own as checksum".to_owned(),
            )),
            Network::Ipv4 if at < IPV4_LENGTH => {
                self.is_checksum_old = true;
                Ok((PeditHeader::Ipv4, at))
            }
            // The other bytes count for checksums of the payload, and no action is for those.
            Network::Ipv6 if at < 4 || at == 7 => Ok((PeditHeader::Ipv6, at)),
            Network::Ipv6 if at < 40 => Err(payload_checksum()),
            Network::Ipv4 | Network::Ipv6 => Err(payload_checksum()),
            Network::Mpls | Network::Unknown => Err(refused(format!(
                "the flow changes byte {}, which is in no header that actions change",
                at + self.layout.network
            ))),
        }
    }

    fn pedit(&mut self, header: PeditHeader, at: u32, value: u8, mask: u8, add: bool) {
        let (offset, index) = (at & !3, (at % 4) as usize);
        let mut key = PeditKey {
            header,
            offset,
            keep: [u8::MAX; 4],
            value: [0; 4],
            add,
        };
        key.keep[index] = !mask;
        key.value[index] = value;
        let Some(Action::Pedit(keys)) = self.actions.last_mut() else {
            self.actions.push(Action::Pedit(vec![key]));
            return;
        };
        match keys.last_mut() {
            // One word for bytes of one word. A summand has a word of its own.
            Some(last) if (last.header, last.offset, last.add) == (header, offset, add) && !add => {
                last.keep[index] &= !mask;
                last.value[index] = last.value[index] & !mask | value;
            }
            _ => keys.push(key),
        }
    }

    fn checksum(&mut self, offset: u32, over: &[Summed]) -> Result<(), NotOffloadable> {
        let base = self.layout.network;
        let is_ipv4 = self.layout.header() == Network::Ipv4
            && self.cell(offset)? == Cell::Original(base + IPV4_CHECKSUM)
            && self.cell(offset + 1)? == Cell::Original(base + IPV4_CHECKSUM + 1);
        if !is_ipv4 {
            return Err(payload_checksum());
        }
        let mut covered = Vec::new();
        for piece in over {
            match *piece {
                Summed::Word(0) => {}
                Summed::Bytes { offset, len } => {
                    for at in offset..offset + len {
                        covered.push(self.cell(at)?);
                    }
                }
                Summed::Word(_) | Summed::Rest { .. } => return Err(payload_checksum()),
            }
        }
        // Words of the header in any order, each at an even offset.
        let mut words: Vec<_> = covered.chunks(2).map(<[Cell]>::to_vec).collect();
        let header = (0..IPV4_LENGTH)
            .step_by(2)
            .filter(|at| *at != IPV4_CHECKSUM);
        for at in header {
            let word = [Cell::Original(base + at), Cell::Original(base + at + 1)];
            match words.iter().position(|there| *there == word) {
                Some(found) => words.swap_remove(found),
                None => return Err(another_checksum()),
            };
        }
        if !words.is_empty() {
            return Err(another_checksum());
        }
        // The kernel sums the header with its options.
        if !self.no_ip_options {
            return Err(no_ip_options());
        }
        if self.structure.has_moved_network() {
            return Err(refused(
                "the checksum is in a header that has moved".to_owned(),
            ));
        }
        self.is_checksum_old = false;
        self.actions.push(Action::Ipv4Checksum);
        Ok(())
    }
}

/// Returns a byte with known bits of which some are written: pairs of value and mask.
fn merge(at: u32, known: (u8, u8), written: (u8, u8)) -> Cell {
    let value = known.0 & !written.1 | written.0 & written.1;
    match known.1 | written.1 {
        0 => Cell::Original(at),
        u8::MAX => Cell::Constant(value),
        mask => Cell::Partial { at, value, mask },
    }
}

fn part_of_tag() -> NotOffloadable {
    refused("the flow adds to a byte of a VLAN tag or EtherType".to_owned())
}

fn another_checksum() -> NotOffloadable {
    refused("the flow's checksum is not that of the whole IPv4 header".to_owned())
}

fn payload_checksum() -> NotOffloadable {
    refused(
        "the flow changes bytes that the checksum of TCP, UDP or ICMP covers, or writes such a \
         checksum, and the action 'csum' makes other frames: it leaves a UDP checksum of zero and \
         does not sum padding"
            .to_owned(),
    )
}
