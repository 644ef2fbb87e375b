//! Figure 7: number of tables that a P4 hypervisor declares, by the number of primitives per
//! action and by the number of slots.

use hypervisor::{STEPS, Shape, tables_in_paper};
use serde::Serialize;

use super::plot::{self, Axes, Curve, Marks};
use super::{Figure, More, Picture, Row, cell, head};

/// Figure 7(a) has 5 slots and up to 9 primitives, 7(b) 9 primitives and up to 8 slots.
const SLOTS_OF_A: u32 = 5;
const MAX_PRIMITIVES: u32 = 9;
const MAX_SLOTS: u32 = 8;

/// Size of a P4 hypervisor.
#[derive(Serialize)]
pub(super) struct Declared {
    slots: u32,
    /// Maximum number of primitives per action.
    primitives: u32,
    tables: u32,
    paper_tables: u32,
}

/// Counts the tables.
///
/// # Errors
/// A picture cannot be drawn.
pub(super) fn measure() -> Result<Figure, String> {
    let a = (1..=MAX_PRIMITIVES).map(|primitives| declared("7a", SLOTS_OF_A, primitives));
    let b = (1..=MAX_SLOTS).map(|slots| declared("7b", slots, MAX_PRIMITIVES));
    let all: Vec<(&'static str, Declared)> = a.chain(b).collect();
    let mut table = vec![head(&["figure", "slots", "primitives", "here", "HyperVDP"])];
    table.extend(all.iter().map(|(figure, declared)| line(figure, declared)));
    let pictures = vec![
        picture("7a", "figure7a.svg", &all, |declared| declared.primitives)?,
        picture("7b", "figure7b.svg", &all, |declared| declared.slots)?,
    ];
    let rows = all
        .into_iter()
        .map(|(figure, declared)| Row::new(figure, "emitted hypervisor", More::Declared(declared)));
    Ok(Figure {
        title: "Figure 7: tables declared",
        rows: rows.collect(),
        table,
        note: format!(
            "HyperVDP: 24 tables a slot and 5 more (section IV-E, figure 6), which is figure 7(b)'s 197 for 8 slots. Hyper4 needs more than 650 there.\n\
             Here a run has up to {STEPS} primitives; an action with more is several runs, so the declaration does not depend on it."
        ),
        pictures,
    })
}

fn declared(figure: &'static str, slots: u32, primitives: u32) -> (&'static str, Declared) {
    let declared = Declared {
        slots,
        primitives,
        tables: Shape::of(slots).tables(),
        paper_tables: tables_in_paper(slots),
    };
    (figure, declared)
}

fn line(figure: &str, declared: &Declared) -> Vec<String> {
    let numbers = [
        declared.slots,
        declared.primitives,
        declared.tables,
        declared.paper_tables,
    ];
    let numbers = numbers.map(|number| cell(Some(number)));
    [vec![figure.to_owned()], numbers.to_vec()].concat()
}

fn picture(
    figure: &str,
    file: &'static str,
    all: &[(&'static str, Declared)],
    x: fn(&Declared) -> u32,
) -> Result<Picture, String> {
    let own = || all.iter().filter(|(other, _)| *other == figure);
    let points = |y: fn(&Declared) -> u32| {
        let points = own().map(|(_, declared)| (f64::from(x(declared)), f64::from(y(declared))));
        points.collect()
    };
    let axes = Axes {
        caption: "Tables declared",
        x: if figure == "7a" {
            "primitives of an action"
        } else {
            "slots"
        },
        y: "tables",
    };
    let curves = [
        Curve {
            marks: Marks::Line,
            name: "here",
            colour: plot::HERE,
            points: points(|declared| declared.tables),
        },
        Curve {
            marks: Marks::Line,
            name: "HyperVDP",
            colour: plot::PAPER,
            points: points(|declared| declared.paper_tables),
        },
    ];
    Ok(Picture {
        file,
        svg: plot::curves(&axes, &curves)?,
    })
}
