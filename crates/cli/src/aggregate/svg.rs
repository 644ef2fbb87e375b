//! Draws a plan: the switches that reduce with their memory, and the bytes over each link.

use aggregate::{Plan, PredictedBytes};
use fabric::Topology;
use fabric::topology::{NodeId, SwitchId};
use plotters::prelude::*;

use crate::amount;
use crate::drawing::{Area, Drawn, Labels, Layout, Notes, centred};

/// Vertical distance of nodes, and space for the text above them.
const ROW: i32 = 170;
const ABOVE: i32 = 30;
const FONT: (&str, u32) = ("sans-serif", 13);
const DATA: RGBColor = RGBColor(0, 114, 178);

/// Draws the picture and returns it as SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn draw(topology: &Topology, plan: &Plan) -> Result<String, String> {
    let layout = Layout::new(topology, notes(topology, plan), (ROW, ABOVE));
    let is_filled = |node| match node {
        NodeId::Switch(switch) => plan.used_slots(switch) > 0,
        NodeId::Host(_) | NodeId::Server(_) | NodeId::Nanopu(_) => false,
    };
    let drawn = layout.draw(|area| links(area, topology, plan, &layout), is_filled);
    drawn.map_err(|error| format!("cannot draw the plan: {error}"))
}

/// Returns what hosts and switches do, and the memory of the switches.
fn notes(topology: &Topology, plan: &Plan) -> Notes {
    let mut notes = Notes::new();
    for number in 0..topology.switches.len() {
        let switch = SwitchId(number);
        let slots = plan.used_slots(switch);
        if slots > 0 {
            let own = notes.entry(NodeId::Switch(switch)).or_default();
            own.push(amount::count(slots, "slot"));
            own.push(amount::bytes(plan.state_bytes(switch)));
        }
    }
    for planned in &plan.reductions {
        let request = &planned.request;
        let mut add = |host, text: String| {
            let own: &mut Vec<String> = notes.entry(NodeId::Host(host)).or_default();
            if !own.contains(&text) {
                own.push(text);
            }
        };
        for (host, _) in &request.mappers {
            add(*host, format!("maps {}", request.name));
        }
        add(request.reducer, format!("reduces {}", request.name));
    }
    notes
}

fn links(area: &Area<'_>, topology: &Topology, plan: &Plan, layout: &Layout<'_>) -> Drawn {
    let predicted = plan.predicted_links(topology);
    for link in &topology.links {
        let ends = link.ends.map(|end| layout.place(end.node));
        let carries = predicted.iter().any(|own| {
            let from = (own.from, own.port);
            link.ends.iter().any(|end| (end.node, end.port) == from)
        });
        match carries {
            true => area.draw(&PathElement::new(ends, DATA.stroke_width(2)))?,
            false => area.draw(&PathElement::new(ends, BLACK.mix(0.2)))?,
        }
    }
    let mut labels = Labels::new(layout.boxes());
    for link in predicted {
        let (from, to) = (layout.place(link.from), layout.place(link.to));
        let arrow = match (to.1.cmp(&from.1), to.0 < from.0) {
            (std::cmp::Ordering::Less, _) => "↑",
            (std::cmp::Ordering::Greater, _) => "↓",
            (std::cmp::Ordering::Equal, true) => "←",
            (std::cmp::Ordering::Equal, false) => "→",
        };
        labels.add(format!("{arrow} {}", range(link.bytes)), (from, to));
    }
    labels.draw(area)?;
    let text = "bytes of data: all mappers have the same keys, to no key in common";
    let place = (layout.size().0 / 2, ABOVE / 2);
    area.draw(&Text::new(text, place, centred(FONT)))?;
    Ok(())
}

/// Formats predicted bytes.
pub(super) fn range(bytes: PredictedBytes) -> String {
    let (least, most) = (amount::bytes(bytes.least), amount::bytes(bytes.most));
    match least == most {
        true => most,
        false => format!("{least} to {most}"),
    }
}
