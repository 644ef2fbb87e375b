//! The action set: actions that WRITE_ACTIONS stores and that run when no table follows.
//!
//! The set holds one action of each type, and one of each type and field for those that write a
//! field. Each instruction that stores an action is a *site* with a number. A field of the program
//! has the number of the site that stored the action last, and another one its immediates.

use std::collections::BTreeMap;

use ir::{FieldId, ScalarTy};

use super::ShapesByTable;
use super::expr::NUMBER;
use super::shape::{Operation, REAL_PORT, Step, Written};
use crate::model::{Action, Field, Place, VALUE_BYTES};
use crate::tables::TableNumber;

/// Place of an action in the set. Actions run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SlotKey {
    order: u8,
    field: Option<(Place, u16, u16)>,
}

impl SlotKey {
    /// Order of a group. If there is one, outputs do not run.
    const GROUP: u8 = 9;
    /// Order of an output.
    const OUTPUT: u8 = 10;

    fn of(written: &Written) -> SlotKey {
        let action = match &written.operations[..] {
            [Operation::Action(action)] if !written.is_group => action,
            _ => {
                return SlotKey {
                    order: SlotKey::GROUP,
                    field: None,
                };
            }
        };
        let of = |field: &Field| Some((field.place(), field.offset, field.length));
        let (order, field) = match action {
            Action::DeleteField { .. } => (0, None),
            Action::AddField { .. } => (1, None),
            Action::ModifyField { field, .. } => (2, of(field)),
            Action::SetField(set) => (3, of(&set.field)),
            Action::SetFieldFromMetadata { field, .. } => (4, of(field)),
            Action::CalculateChecksum { .. } => (5, None),
            Action::Counter(_) => (6, None),
            Action::Drop { .. } => (7, None),
            Action::PacketIn { .. } => (8, None),
            Action::Output { .. } => (SlotKey::OUTPUT, None),
            Action::Group(_) => (SlotKey::GROUP, None),
        };
        SlotKey { order, field }
    }
}

/// Position of an action in the lists: table, shape, step, action.
pub(super) type SitePosition = (TableNumber, usize, usize, usize);

/// An instruction that stores an action.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Its number, from 1.
    pub(super) number: u32,
    /// Its table.
    pub(super) table: TableNumber,
    /// The action.
    pub(super) written: Written,
    /// Widths of its immediates.
    pub(super) widths: Vec<u32>,
}

/// A place of the set.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// If this field is not 0, the action does not run.
    pub(super) unless: Option<FieldId>,
    /// Number of the site that stored the action; 0 for none.
    pub(super) chosen: FieldId,
    /// The immediates, left-aligned.
    pub(super) values: FieldId,
    /// Width of the immediates.
    pub(super) width: u32,
    /// The sites that store actions in this place.
    pub(super) sites: Vec<Site>,
}

/// The action set of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct ActionSet {
    /// Its places, in the order in which they run.
    pub(super) slots: Vec<Slot>,
    /// Number of the site that stored a group.
    group: Option<FieldId>,
    /// Slot and site of each position.
    at: BTreeMap<SitePosition, (usize, usize)>,
}

impl ActionSet {
    /// Collects all sites, and declares the fields of the program.
    pub(super) fn declare(program: &mut ir::Program, shapes: &ShapesByTable) -> ActionSet {
        let mut places: BTreeMap<SlotKey, Vec<(SitePosition, Site)>> = BTreeMap::new();
        for ((position, written), number) in sites(shapes).into_iter().zip(1..) {
            let actions = written.operations.iter().flat_map(Operation::actions);
            let site = Site {
                number,
                table: position.0,
                written: written.clone(),
                widths: actions.flat_map(widths).collect(),
            };
            let place = places.entry(SlotKey::of(written)).or_default();
            place.push((position, site));
        }
        let mut set = ActionSet::default();
        for (at, (key, sites)) in places.into_iter().enumerate() {
            let width = |(_, site): &(SitePosition, Site)| site.widths.iter().sum();
            let width = sites.iter().map(width).max().unwrap_or(0).max(1);
            let mut field = |name: &str, width| {
                program.fields.push(ir::Field {
                    name: format!("set[{at}].{name}"),
                    ty: ScalarTy::Bit(width),
                })
            };
            let (chosen, values) = (field("chosen", NUMBER), field("values", width));
            for (index, (position, _)) in sites.iter().enumerate() {
                set.at.insert(*position, (at, index));
            }
            if key.order == SlotKey::GROUP {
                set.group = Some(chosen);
            }
            set.slots.push(Slot {
                unless: set.group.filter(|_| key.order == SlotKey::OUTPUT),
                chosen,
                values,
                width,
                sites: sites.into_iter().map(|(_, site)| site).collect(),
            });
        }
        set
    }

    /// Returns the place and the site of a position.
    pub(super) fn site(&self, position: SitePosition) -> Option<(&Slot, &Site)> {
        let (slot, site) = self.at.get(&position)?;
        let slot = self.slots.get(*slot)?;
        Some((slot, slot.sites.get(*site)?))
    }
}

fn sites(shapes: &ShapesByTable) -> Vec<(SitePosition, &Written)> {
    let mut sites = Vec::new();
    for (table, shapes) in shapes {
        for (shape, (_, one)) in shapes.iter().enumerate() {
            for (step, one) in one.steps.iter().enumerate() {
                let Step::Write(written) = one else {
                    continue;
                };
                for (at, written) in written.iter().enumerate() {
                    sites.push(((*table, shape, step, at), written));
                }
            }
        }
    }
    sites
}

/// Returns the widths of the immediates that an action of a shape has, in the order of
/// `Shape::of`.
fn widths(action: &Action) -> Vec<u32> {
    match action {
        Action::Output {
            port: REAL_PORT, ..
        } => vec![16],
        Action::SetField(set) => {
            let width = u32::from(set.field.length);
            match set.mask == [0xFF; VALUE_BYTES] {
                true => vec![width],
                false => vec![width, width],
            }
        }
        Action::ModifyField { .. } | Action::Counter(_) => vec![32],
        Action::AddField { length, .. } => vec![*length],
        Action::PacketIn { .. } => vec![8, 64],
        Action::Output { .. }
        | Action::SetFieldFromMetadata { .. }
        | Action::DeleteField { .. }
        | Action::CalculateChecksum { .. }
        | Action::Group(_)
        | Action::Drop { .. } => Vec::new(),
    }
}
