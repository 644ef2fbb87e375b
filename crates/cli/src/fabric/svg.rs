//! Draws a topology, with the numbers of ports and the names of virtual data planes.

use fabric::Topology;
use fabric::topology::{NodeId, PlaneSpec, SwitchId};
use plotters::prelude::*;

use crate::drawing::{Area, Drawn, Layout, Notes, Point, SMALL, centred};

/// Vertical distance of nodes.
const ROW: i32 = 110;

/// Draws the picture and returns it as SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn draw(topology: &Topology) -> Result<String, String> {
    let layout = Layout::new(topology, vpdps(topology), (ROW, 0));
    let drawn = layout.draw(|area| links(area, topology, &layout), |_| false);
    drawn.map_err(|error| format!("cannot draw the topology: {error}"))
}

fn links(area: &Area<'_>, topology: &Topology, layout: &Layout<'_>) -> Drawn {
    for link in &topology.links {
        let [a, b] = link.ends.map(|end| layout.place(end.node));
        area.draw(&PathElement::new([a, b], BLACK.mix(0.4)))?;
        for (end, (from, to)) in link.ends.iter().zip([(a, b), (b, a)]) {
            if let NodeId::Switch(_) = end.node {
                port(area, end.port.to_string(), from, to)?;
            }
        }
    }
    Ok(())
}

/// Draws a port's number, near its switch on the line to the other end.
fn port(area: &Area<'_>, number: String, from: Point, to: Point) -> Drawn {
    let near = |a: i32, b: i32| a + (b - a) * 3 / 10;
    let place = (near(from.0, to.0) + 7, near(from.1, to.1));
    area.draw(&Text::new(number, place, centred(SMALL)))?;
    Ok(())
}

/// Returns the names of virtual data planes.
fn vpdps(topology: &Topology) -> Notes {
    let switches = topology.switches.iter().enumerate();
    let notes = switches.filter_map(|(number, switch)| match &switch.plane {
        PlaneSpec::Alone(_) | PlaneSpec::Split(_) | PlaneSpec::Aggregate { .. } => None,
        PlaneSpec::Shared(shared) => {
            let names = shared.vpdps.iter().map(|vpdp| vpdp.name.clone());
            Some((NodeId::Switch(SwitchId(number)), names.collect()))
        }
    });
    notes.collect()
}
