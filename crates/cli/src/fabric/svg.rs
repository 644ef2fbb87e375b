//! Draws a topology: hosts at the bottom, each switch at a height given by its distance to the
//! nearest host.

use std::collections::BTreeMap;

use fabric::Topology;
use fabric::topology::{HostId, NodeId, PlaneSpec, ServerIndex, SwitchId};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Horizontal and vertical distance of nodes, and half the size of a node's box.
const WIDTH: i32 = 130;
const HEIGHT: i32 = 110;
const BOX: (i32, i32) = (34, 16);
/// Height of the name of a virtual data plane below its switch's name.
const LINE: i32 = 11;
const FONT: (&str, u32) = ("sans-serif", 15);
const SMALL: (&str, u32) = ("sans-serif", 11);
const HOST: RGBColor = RGBColor(0, 114, 178);
const SERVER: RGBColor = RGBColor(0, 158, 115);
const SWITCH: RGBColor = RGBColor(213, 94, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws the picture and returns it as SVG.
///
/// # Errors
/// An error of the plotting library, as text.
pub(super) fn draw(topology: &Topology) -> Result<String, String> {
    let mut svg = String::new();
    drawn(topology, &mut svg).map_err(|error| format!("cannot draw the topology: {error}"))?;
    Ok(svg)
}

fn drawn(topology: &Topology, svg: &mut String) -> Drawn {
    let tiers = tiers(topology);
    let widest = tiers.iter().map(Vec::len).max().unwrap_or(1).max(2) as i32;
    let size = (widest * WIDTH, tiers.len() as i32 * HEIGHT);
    let places = places(&tiers, size);
    let area = SVGBackend::with_string(svg, (size.0 as u32, size.1 as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    for link in &topology.links {
        let [a, b] = link.ends.map(|end| places[&end.node]);
        area.draw(&PathElement::new([a, b], BLACK.mix(0.4)))?;
        for (end, (from, to)) in link.ends.iter().zip([(a, b), (b, a)]) {
            if let NodeId::Switch(_) = end.node {
                port(&area, end.port.to_string(), from, to)?;
            }
        }
    }
    for (node, place) in &places {
        name(&area, topology, *node, *place)?;
    }
    area.present()?;
    Ok(())
}

/// Groups nodes by their distance in links to the nearest host. Nodes that no host reaches are on
/// top.
fn tiers(topology: &Topology) -> Vec<Vec<NodeId>> {
    let hosts = (0..topology.hosts.len()).map(|n| NodeId::Host(HostId(n)));
    let switches = (0..topology.switches.len()).map(|n| NodeId::Switch(SwitchId(n)));
    let servers = (0..topology.servers.len()).map(|n| NodeId::Server(ServerIndex(n)));
    let mut left: Vec<NodeId> = switches.chain(servers).collect();
    let mut tiers: Vec<Vec<NodeId>> = vec![hosts.collect()];
    while !left.is_empty() {
        let below = tiers.last().map_or(&[][..], Vec::as_slice);
        let is_next = |node: &NodeId| {
            topology.links.iter().any(|link| {
                let [a, b] = link.ends.map(|end| end.node);
                (a == *node && below.contains(&b)) || (b == *node && below.contains(&a))
            })
        };
        let (next, rest): (Vec<NodeId>, Vec<NodeId>) = left.iter().partition(|node| is_next(node));
        left = match next.is_empty() {
            true => {
                tiers.push(rest);
                Vec::new()
            }
            false => {
                tiers.push(next);
                rest
            }
        };
    }
    tiers
}

fn places(tiers: &[Vec<NodeId>], (width, height): (i32, i32)) -> BTreeMap<NodeId, (i32, i32)> {
    let mut places = BTreeMap::new();
    for (tier, nodes) in tiers.iter().enumerate() {
        let y = height - HEIGHT / 2 - tier as i32 * HEIGHT;
        let share = width / nodes.len().max(1) as i32;
        for (column, node) in nodes.iter().enumerate() {
            places.insert(*node, (share / 2 + column as i32 * share, y));
        }
    }
    places
}

/// Draws a port's number, near its switch on the line to the other end.
fn port(area: &Area<'_>, number: String, from: (i32, i32), to: (i32, i32)) -> Drawn {
    let near = |a: i32, b: i32| a + (b - a) * 3 / 10;
    let place = (near(from.0, to.0) + 7, near(from.1, to.1));
    let style = TextStyle::from(SMALL).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(number, place, style))?;
    Ok(())
}

/// Draws a node's box, with the names of its virtual data planes.
fn name(area: &Area<'_>, topology: &Topology, node: NodeId, (x, y): (i32, i32)) -> Drawn {
    let colour = match node {
        NodeId::Switch(_) => SWITCH,
        NodeId::Server(_) => SERVER,
        NodeId::Host(_) => HOST,
    };
    let vpdps = vpdps_of(topology, node);
    let (width, height) = BOX;
    let below = height + LINE * vpdps.len() as i32;
    let corners = [(x - width, y - height), (x + width, y + below)];
    area.draw(&Rectangle::new(corners, WHITE.filled()))?;
    area.draw(&Rectangle::new(corners, colour.stroke_width(2)))?;
    let centred = Pos::new(HPos::Center, VPos::Center);
    let style = TextStyle::from(FONT).pos(centred);
    area.draw(&Text::new(topology.name_of(node).to_owned(), (x, y), style))?;
    for (number, vpdp) in (0..).zip(vpdps) {
        let place = (x, y + height + LINE * number);
        let style = TextStyle::from(SMALL).pos(centred);
        area.draw(&Text::new(vpdp.to_owned(), place, style))?;
    }
    Ok(())
}

fn vpdps_of(topology: &Topology, node: NodeId) -> Vec<&str> {
    let NodeId::Switch(id) = node else {
        return Vec::new();
    };
    match &topology.switches[id.0].plane {
        PlaneSpec::Alone(_) | PlaneSpec::Split(_) | PlaneSpec::Aggregate { .. } => Vec::new(),
        PlaneSpec::Shared(shared) => shared.vpdps.iter().map(|v| v.name.as_str()).collect(),
    }
}
