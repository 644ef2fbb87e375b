//! Updates of counters, meters and registers (sections "`CounterEntry`", "`MeterEntry`",
//! "`RegisterEntry`").

use std::sync::Arc;

use p4info::p4::v1 as rt;
use p4info::p4::v1::update::Type;
use switch::{Change, ColorCounts, Device};

use super::entry::{clears_colors, meter_config, reading};
use super::{check_modify, check_role, index};
use crate::data::DataCoder;
use crate::request_error::{Checked, invalid};
use crate::schema::{CellsView, Schema, lookup};
use crate::undo::Op;

/// Checks an update of an array. Returns its description for messages and the cell's index; `None`
/// means all cells.
fn cell(
    what: &str,
    view: &CellsView,
    role: &str,
    ty: Type,
    at: Option<&rt::Index>,
) -> Checked<(String, Option<u32>)> {
    check_role(what, &view.name, view.role.as_deref(), role)?;
    check_modify(what, &view.name, ty)?;
    let place = format!("the {what} `{}`", view.name);
    let index = index(&place, at, view.size)?;
    Ok((place, index))
}

/// Returns the range of cells that an index means.
fn cells_of(index: Option<u32>, size: u32) -> std::ops::Range<u32> {
    match index {
        Some(index) => index..index + 1,
        None => 0..size,
    }
}

/// Returns the changes that restore the current values of cells.
fn backs(cells: std::ops::Range<u32>, back: impl Fn(u32) -> Option<Change>) -> Vec<Change> {
    cells.filter_map(back).collect()
}

/// Returns an operation that applies one change, which several changes undo.
fn with_backs(change: Change, backs: impl Fn(&Device) -> Vec<Change> + Send + 'static) -> Op {
    Box::new(move |target| {
        let backs = match target.may_undo() {
            true => backs(target.device),
            false => Vec::new(),
        };
        target.change(change)?;
        target.remember(move |device| {
            for back in backs {
                let _ = device.apply(back);
            }
        });
        Ok(())
    })
}

/// Returns an operation without effect, for a valid update that changes nothing.
fn nothing() -> Op {
    Box::new(|_| Ok(()))
}

/// Converts an update of counters.
pub(super) fn counter(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::CounterEntry,
) -> Checked<Op> {
    let view = lookup(&schema.counters, "counter", entry.counter_id)?;
    let (place, at) = cell("counter", view, role, ty, entry.index.as_ref())?;
    let Some(value) = reading(&place, entry.data.as_ref())? else {
        return Ok(nothing());
    };
    let (id, size) = (view.instance, view.size);
    Ok(with_backs(
        Change::WriteCounter(id, at, value),
        move |device| {
            backs(cells_of(at, size), |index| {
                let value = device.read_counter(id, index)?;
                Some(Change::WriteCounter(id, Some(index), value))
            })
        },
    ))
}

/// Converts an update of meters.
pub(super) fn meter(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::MeterEntry,
) -> Checked<Op> {
    let view = lookup(&schema.meters, "meter", entry.meter_id)?;
    let (place, at) = cell("meter", view, role, ty, entry.index.as_ref())?;
    let clears_colors = clears_colors(&place, entry.counter_data.as_ref())?;
    let config = meter_config(&place, view.meter, entry.config.as_ref())?;
    let (id, size) = (view.instance, view.size);
    let set = move |index: Option<u32>, config| match config {
        Some(config) => Change::SetMeter(id, index, config),
        None => Change::ResetMeter(id, index),
    };
    let configure = with_backs(set(at, config), move |device| {
        backs(cells_of(at, size), |index| {
            Some(set(Some(index), device.read_meter(id, index)))
        })
    });
    if !clears_colors {
        return Ok(configure);
    }
    let none = Change::WriteColorCounts(id, at, ColorCounts::default());
    let clear = with_backs(none, move |device| {
        backs(cells_of(at, size), |index| {
            let counts = device.read_color_counts(id, index)?;
            Some(Change::WriteColorCounts(id, Some(index), counts))
        })
    });
    Ok(Box::new(move |target| {
        configure(target)?;
        clear(target)
    }))
}

/// Converts an update of a register's cells.
pub(super) fn register(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &rt::RegisterEntry,
) -> Checked<Op> {
    let view = lookup(&schema.registers, "register", entry.register_id)?;
    let (place, at) = cell("register", view, role, ty, entry.index.as_ref())?;
    let (Some(data), Some(data_ty)) = (&entry.data, &view.data_ty) else {
        return invalid(format!("{place}: the data is not set"));
    };
    let coder = DataCoder {
        program: &schema.program,
        names: &schema.names,
    };
    let mut values = Vec::new();
    coder
        .read(data_ty, data, &mut values)
        .map_err(|fault| fault.within(&place))?;
    let (id, size) = (view.instance, view.size);
    Ok(with_backs(
        Change::WriteRegister(id, at, values),
        move |device| {
            backs(cells_of(at, size), |index| {
                let values = device.read_register(id, index)?;
                Some(Change::WriteRegister(id, Some(index), values))
            })
        },
    ))
}
