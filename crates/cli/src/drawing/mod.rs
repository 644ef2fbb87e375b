//! Pictures of topologies: hosts at the bottom, each switch at a height given by its distance to
//! the nearest host.

mod labels;

use std::collections::BTreeMap;

use fabric::Topology;
use fabric::topology::{HostId, NanopuIndex, NodeId, ServerIndex, SwitchId};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) use labels::Labels;

/// Least horizontal distance of nodes, and half the least size of a node's box.
const WIDTH: i32 = 130;
const BOX: (i32, i32) = (34, 16);
/// Height of a line of text below a node's name.
const LINE: i32 = 11;
const FONT: (&str, u32) = ("sans-serif", 15);
pub(crate) const SMALL: (&str, u32) = ("sans-serif", 11);
const HOST: RGBColor = RGBColor(0, 114, 178);
const SERVER: RGBColor = RGBColor(0, 158, 115);
const SWITCH: RGBColor = RGBColor(213, 94, 0);

/// Colours on a dark page, in place of white and black.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) { [fill=\"#FFFFFF\"] { fill: \
                    #16191d } text { fill: #e6e6e6 } [stroke=\"#000000\"] { stroke: #e6e6e6 } \
                    }</style>\n";

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A point, or half a size, in pixels.
pub(crate) type Point = (i32, i32);

/// The text of nodes below their names.
pub(crate) type Notes = BTreeMap<NodeId, Vec<String>>;

/// The places of a topology's nodes in a picture.
pub(crate) struct Layout<'t> {
    topology: &'t Topology,
    notes: Notes,
    /// Size of the picture.
    size: Point,
    places: BTreeMap<NodeId, Point>,
}

impl<'t> Layout<'t> {
    /// Places the nodes, with this distance of their rows and space above them.
    pub(crate) fn new(topology: &'t Topology, notes: Notes, (row, above): Point) -> Layout<'t> {
        let tiers = tiers(topology);
        let mut layout = Layout {
            topology,
            notes,
            size: (0, 0),
            places: BTreeMap::new(),
        };
        let nodes = tiers.iter().flatten();
        let widest = nodes.map(|node| 2 * layout.half(*node).0 + 24).max();
        let width = widest.unwrap_or(0).max(WIDTH);
        let most = tiers.iter().map(Vec::len).max().unwrap_or(1).max(2) as i32;
        layout.size = (most * width, tiers.len() as i32 * row + above);
        layout.places = places(&tiers, layout.size, row);
        layout
    }

    /// Draws a picture and returns it as SVG. `links` draws what is below the nodes' boxes.
    pub(crate) fn draw(
        &self,
        links: impl FnOnce(&Area<'_>) -> Drawn,
        is_filled: impl Fn(NodeId) -> bool,
    ) -> Result<String, Box<dyn std::error::Error>> {
        let mut svg = String::new();
        let size = (self.size.0 as u32, self.size.1 as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        links(&area)?;
        for node in self.places.keys() {
            self.node(&area, *node, is_filled(*node))?;
        }
        area.present()?;
        drop(area);
        let begin = svg.find(">\n").map_or(0, |at| at + 2);
        svg.insert_str(begin, DARK);
        Ok(svg)
    }

    pub(crate) fn size(&self) -> Point {
        self.size
    }

    pub(crate) fn place(&self, node: NodeId) -> Point {
        self.places[&node]
    }

    /// Returns the corners of all boxes.
    pub(crate) fn boxes(&self) -> impl Iterator<Item = [Point; 2]> {
        self.places.iter().map(|(node, place)| {
            let (width, height) = self.half(*node);
            let below = height + LINE * self.notes_of(*node).len() as i32;
            [
                (place.0 - width, place.1 - height),
                (place.0 + width, place.1 + below),
            ]
        })
    }

    fn notes_of(&self, node: NodeId) -> &[String] {
        self.notes.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns half the size of a node's box, without its notes.
    fn half(&self, node: NodeId) -> Point {
        let name = text_width(self.topology.name_of(node), FONT.1);
        let notes = self.notes_of(node).iter();
        let notes = notes.map(|note| text_width(note, SMALL.1));
        let widest = notes.chain([name]).max().unwrap_or(0);
        (BOX.0.max(widest / 2 + 6), BOX.1)
    }

    /// Draws a node's box, with its name and notes.
    fn node(&self, area: &Area<'_>, node: NodeId, is_filled: bool) -> Drawn {
        let colour = match node {
            NodeId::Switch(_) => SWITCH,
            NodeId::Server(_) | NodeId::Nanopu(_) => SERVER,
            NodeId::Host(_) => HOST,
        };
        let (x, y) = self.place(node);
        let (width, height) = self.half(node);
        let notes = self.notes_of(node);
        let below = height + LINE * notes.len() as i32;
        let corners = [(x - width, y - height), (x + width, y + below)];
        area.draw(&Rectangle::new(corners, WHITE.filled()))?;
        if is_filled {
            area.draw(&Rectangle::new(corners, colour.mix(0.25).filled()))?;
        }
        area.draw(&Rectangle::new(corners, colour.stroke_width(2)))?;
        let name = self.topology.name_of(node).to_owned();
        area.draw(&Text::new(name, (x, y), centred(FONT)))?;
        for (number, note) in (0..).zip(notes) {
            let place = (x, y + height + LINE * number);
            area.draw(&Text::new(note.clone(), place, centred(SMALL)))?;
        }
        Ok(())
    }
}

/// Returns the style of text around its place.
pub(crate) fn centred(font: (&'static str, u32)) -> TextStyle<'static> {
    TextStyle::from(font).pos(Pos::new(HPos::Center, VPos::Center))
}

/// Returns the width of a text at most, in the usual fonts without serifs.
pub(crate) fn text_width(text: &str, size: u32) -> i32 {
    text.chars().count() as i32 * size as i32 * 6 / 10
}

/// Groups nodes by their distance in links to the nearest host. Nodes that no host reaches are on
/// top.
fn tiers(topology: &Topology) -> Vec<Vec<NodeId>> {
    let hosts = (0..topology.hosts.len()).map(|n| NodeId::Host(HostId(n)));
    let switches = (0..topology.switches.len()).map(|n| NodeId::Switch(SwitchId(n)));
    let servers = (0..topology.servers.len()).map(|n| NodeId::Server(ServerIndex(n)));
    let nanopus = (0..topology.nanopus.len()).map(|n| NodeId::Nanopu(NanopuIndex(n)));
    let mut left: Vec<NodeId> = switches.chain(servers).collect();
    let mut tiers: Vec<Vec<NodeId>> = vec![hosts.chain(nanopus).collect()];
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
    sort_by_neighbours(topology, &mut tiers);
    tiers
}

/// Sorts the hosts by their switches, then each row by the mean place of what is below it, so that
/// few links cross.
fn sort_by_neighbours(topology: &Topology, tiers: &mut [Vec<NodeId>]) {
    let neighbours = |node: NodeId| {
        topology.links.iter().filter_map(move |link| {
            let [a, b] = link.ends.map(|end| end.node);
            match (a == node, b == node) {
                (true, _) => Some(b),
                (_, true) => Some(a),
                _ => None,
            }
        })
    };
    tiers[0].sort_by_key(|host| neighbours(*host).min());
    for row in 1..tiers.len() {
        let (below, own) = tiers.split_at_mut(row);
        let below = &below[row - 1];
        // In thousandths of the row's width.
        own[0].sort_by_key(|node| {
            let places = neighbours(*node).filter_map(|other| {
                let place = below.iter().position(|node| *node == other)?;
                Some((2 * place + 1) * 1000 / below.len())
            });
            let places: Vec<usize> = places.collect();
            places.iter().sum::<usize>() / places.len().max(1)
        });
    }
}

fn places(tiers: &[Vec<NodeId>], (width, height): Point, row: i32) -> BTreeMap<NodeId, Point> {
    let mut places = BTreeMap::new();
    for (tier, nodes) in tiers.iter().enumerate() {
        let y = height - row / 2 - tier as i32 * row;
        let share = width / nodes.len().max(1) as i32;
        for (column, node) in nodes.iter().enumerate() {
            places.insert(*node, (share / 2 + column as i32 * share, y));
        }
    }
    places
}
