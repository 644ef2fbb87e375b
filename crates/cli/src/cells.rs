//! Contents of registers, counters and meters at the end of a replay, as the statements that would
//! set them or as JSON.

use entries::{CounterValue, Schema, Update};
use ir::{CounterUnit, ExternId, ExternKind};
use serde::Serialize;
use switch::{CELLS, Device, Object, ObjectPlace};
use table::{CounterReading, MeterConfig};

use crate::out;
use support::amount;

/// Maximum number of cells of one array shown as text. JSON has all.
const MAX_SHOWN: usize = 1000;

/// A cell that is not zero.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    kind: &'static str,
    /// The register, counter or meter. For a direct counter: its table.
    name: String,
    /// Index of the cell. A direct counter has `entry` instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// Value of a register or rates of a meter, formatted as in a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip)]
    line: String,
}

/// Returns all cells of registers and counters that are not zero, and all meters that are set.
pub(crate) fn cells(device: &Device) -> Vec<Cell> {
    let program = device.program();
    let schema = Schema::of(program);
    let mut cells = Vec::new();
    for (place, object) in device.cell_objects() {
        match (place, object) {
            (ObjectPlace::Registers(register, chunk), Object::Registers(values)) => {
                for (index, values) in (chunk * CELLS..).zip(values) {
                    if values.iter().any(|value| !value.is_zero()) {
                        cells.push(register_cell(&schema, register, index, values));
                    }
                }
            }
            (ObjectPlace::Counters(counter, chunk), Object::Counters(readings)) => {
                let unit = match &program.externs[counter].kind {
                    ExternKind::Counter { unit, .. } => *unit,
                    _ => CounterUnit::Both,
                };
                for (index, reading) in (chunk * CELLS..).zip(readings) {
                    if reading != CounterReading::default() {
                        cells.push(counter_cell(&schema, (counter, unit), index, reading));
                    }
                }
            }
            (ObjectPlace::Meters(meter, chunk), Object::Meters(configs)) => {
                let configs = (chunk * CELLS..).zip(configs);
                let set = configs.filter_map(|(index, config)| Some((index, config?)));
                cells.extend(set.map(|(index, config)| meter_cell(&schema, meter, index, &config)));
            }
            (ObjectPlace::DirectCounter(table, entry), Object::Counter(reading)) => {
                if reading == CounterReading::default() {
                    continue;
                }
                let named = match entry {
                    Some(entry) => trace_format::entry_line(device.configuration(), table, entry),
                    None => Some(format!("table {} default", program.tables[table].name)),
                };
                let Some(named) = named else { continue };
                let CounterReading { packets, bytes } = reading;
                cells.push(Cell {
                    kind: "direct_counter",
                    name: program.tables[table].name.clone(),
                    index: None,
                    line: format!("{named} counter packets {packets} bytes {bytes}"),
                    entry: Some(named),
                    value: None,
                    packets: Some(packets),
                    bytes: Some(bytes),
                });
            }
            _ => {}
        }
    }
    cells
}

fn register_cell(
    schema: &Schema,
    register: ExternId,
    index: u32,
    values: Vec<bits::Value>,
) -> Cell {
    let line = schema.statement(&Update::Register {
        register,
        index: Some(index),
        values,
    });
    let value = line.split_once(" = ").map(|(_, value)| value.to_owned());
    Cell {
        kind: "register",
        name: schema.externs[register].name.clone(),
        index: Some(index),
        entry: None,
        value,
        packets: None,
        bytes: None,
        line,
    }
}

fn counter_cell(
    schema: &Schema,
    (counter, unit): (ExternId, CounterUnit),
    index: u32,
    CounterReading { packets, bytes }: CounterReading,
) -> Cell {
    let line = schema.statement(&Update::Counter {
        counter,
        index,
        value: CounterValue { packets, bytes },
    });
    Cell {
        kind: "counter",
        name: schema.externs[counter].name.clone(),
        index: Some(index),
        entry: None,
        value: None,
        packets: (unit != CounterUnit::Bytes).then_some(packets),
        bytes: (unit != CounterUnit::Packets).then_some(bytes),
        line,
    }
}

fn meter_cell(schema: &Schema, meter: ExternId, index: u32, config: &MeterConfig) -> Cell {
    let name = schema.externs[meter].name.clone();
    let config = match *config {
        MeterConfig::TwoRate {
            cir,
            cburst,
            pir,
            pburst,
        } => entries::MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            eburst: None,
        },
        MeterConfig::SingleRate {
            cir,
            cburst,
            eburst,
        } => entries::MeterConfig::single_rate(cir, cburst, eburst),
    };
    let line = schema.statement(&Update::Meter {
        meter,
        index: Some(index),
        config,
    });
    let value = line.split_once("] ").map(|(_, value)| value.to_owned());
    Cell {
        kind: "meter",
        name,
        index: Some(index),
        entry: None,
        value,
        packets: None,
        bytes: None,
        line,
    }
}

/// Returns the cells as the statements of an entries file. Direct counters belong to entries and
/// are comments.
pub(crate) fn statements(cells: &[Cell]) -> String {
    let line = |cell: &Cell| match cell.entry {
        Some(_) => format!("# {}\n", cell.line),
        None => format!("{}\n", cell.line),
    };
    cells.iter().map(line).collect()
}

/// Shows cells as text: the first ones of each array.
pub(crate) fn show(cells: &[Cell]) {
    for array in cells.chunk_by(|one, next| one.kind == next.kind && one.name == next.name) {
        for cell in array.iter().take(MAX_SHOWN) {
            out::line(&cell.line);
        }
        if array.len() > MAX_SHOWN {
            let more = amount::count((array.len() - MAX_SHOWN) as u64, "more cell");
            let name = &array[0].name;
            out::line(&format!(
                "({more} of {name} that hold something; --json has all)"
            ));
        }
    }
}
