//! Assignment of nodes to stages in slots, and translation of stages to entries.
//!
//! A stage starts at a node to which another node links. It also includes nodes that fit into its
//! slot: after a branch the match that it guards, and after a branch or match the primitives on
//! each edge.
//!
//! A stage's slot is after those of all stages that link to it (longest path). After the last slot,
//! ingress continues by resubmission. It also does so at the end of a loop iteration.

use std::collections::{BTreeMap, HashMap, HashSet};

use bits::Value;
use ir::{ActionCall, Program};

use super::contents::Contents;
use super::error::{TranslateError, refuse};
use super::flow::argument_places;
use super::keys;
use super::node::{Match, Node, NodeId, Nodes, Primitive};
use super::pattern::{Bit, Cube, PORT, RETURNS};
use super::words::{self, number, ones, placed};
use crate::entry::{Entry, Key};
use crate::shape::STEPS;
use crate::{FILE_BITS, USER_BITS, WORD_BITS};

/// No slot: the end of the stages.
const NO_SLOT: u32 = 255;
/// Maximum number of stages of a program.
const MAX_STAGES: usize = 4095;

/// Returns the key matches of a table for a pattern.
type KeysOf = fn(&Cube) -> Vec<(&'static str, Key)>;

/// Ingress or egress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Gress {
    Ingress,
    Egress,
}

impl Gress {
    fn control(self) -> &'static str {
        match self {
            Gress::Ingress => "HypervisorIngress",
            Gress::Egress => "HypervisorEgress",
        }
    }
}

/// Link to a stage, as arguments of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    slot: u32,
    stage: u32,
    ask: u32,
    matching: u32,
    run: u32,
    steps: u32,
}

impl Link {
    pub(super) fn args(self) -> Vec<Value> {
        vec![
            number(self.slot, 8),
            number(self.stage, 12),
            number(self.ask, 2),
            number(self.matching, 3),
            number(self.run, 8),
            number(self.steps, STEPS as u32),
        ]
    }
}

/// Position of a stage.
#[derive(Clone, Copy, Debug)]
struct Place {
    stage: u32,
    slot: u32,
    pass: u32,
}

/// The stages of a function.
pub(super) struct Stages<'a> {
    pub(super) program: &'a Program,
    pub(super) nodes: &'a Nodes,
    pub(super) contents: &'a Contents,
    pub(super) vpdp: u32,
    pub(super) number: u32,
    places: HashMap<(Gress, NodeId), Place>,
    order: Vec<(Gress, NodeId)>,
    entries: Vec<Entry>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(
        program: &'a Program,
        nodes: &'a Nodes,
        contents: &'a Contents,
        vpdp: u32,
        number: u32,
    ) -> Self {
        Stages {
            program,
            nodes,
            contents,
            vpdp,
            number,
            places: HashMap::new(),
            order: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Assigns slots to all stages that are reachable from these nodes.
    pub(super) fn place(
        &mut self,
        gress: Gress,
        roots: &[NodeId],
        slots: u32,
    ) -> Result<(), TranslateError> {
        let mut line = Line {
            stages: self,
            back: HashSet::new(),
            open: HashSet::new(),
            done: Vec::new(),
        };
        for root in roots {
            let entry = line.stages.linked(*root);
            line.visit(entry);
        }
        let (mut order, back) = (line.done, line.back);
        order.reverse();
        if gress == Gress::Egress && !back.is_empty() {
            return refuse(
                "loop in the egress (a packet is resubmitted from the ingress only)",
                None,
            );
        }
        let mut steps: HashMap<NodeId, u32> = HashMap::new();
        for node in &order {
            let own = *steps.entry(*node).or_insert(0);
            for next in self.successors(*node) {
                if !back.contains(&(*node, next)) {
                    let step = steps.entry(next).or_insert(0);
                    *step = (*step).max(own + 1);
                }
            }
        }
        let needed = steps.values().max().map_or(0, |last| last + 1);
        if needed > slots && (gress == Gress::Egress || slots == 0) {
            return refuse(
                format!("code of {needed} slots in the {gress:?}, where there is room for {slots}; emit it with more (--slots, --egress-slots)").to_lowercase(),
                None,
            );
        }
        for node in order {
            let step = steps[&node];
            let stage = self.order.len() as u32 + 1;
            self.places.insert(
                (gress, node),
                Place {
                    stage,
                    slot: step % slots,
                    pass: step / slots,
                },
            );
            self.order.push((gress, node));
        }
        if self.order.len() > MAX_STAGES {
            return refuse(format!("more than {MAX_STAGES} stages"), None);
        }
        Ok(())
    }

    /// Returns the number of resubmissions of a packet, not counting loops.
    pub(super) fn resubmissions(&self) -> u32 {
        self.places
            .values()
            .map(|place| place.pass)
            .max()
            .unwrap_or(0)
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the node of the stage to which a link to this node goes.
    fn linked(&self, node: NodeId) -> NodeId {
        self.nodes.resolve(node)
    }

    /// Returns the node after the primitives at a node, or the node itself if there are none.
    fn behind(&self, node: NodeId) -> NodeId {
        match self.nodes.get(node) {
            Node::Run(_, next) => self.nodes.resolve(*next),
            _ => self.nodes.resolve(node),
        }
    }

    /// Returns the match that a branch includes, and true if it is on the edge where the condition
    /// holds.
    fn guarded(&self, then: NodeId, otherwise: NodeId) -> Option<(&Match, bool)> {
        match (self.nodes.get(then), self.nodes.get(otherwise)) {
            (Node::Match(own), _) => Some((own, true)),
            (_, Node::Match(own)) => Some((own, false)),
            _ => None,
        }
    }

    /// Returns the nodes to which a stage links.
    fn successors(&self, node: NodeId) -> Vec<NodeId> {
        let of_match = |own: &Match| {
            let edges = own.edges.iter().flat_map(|edge| [edge.hit, edge.miss]);
            edges.map(|node| self.behind(node)).collect::<Vec<_>>()
        };
        let mut all = match self.nodes.get(node) {
            Node::End | Node::Loop(_) => Vec::new(),
            Node::Run(_, next) => vec![self.nodes.resolve(*next)],
            Node::Match(own) => of_match(own),
            Node::Branch(_, then, otherwise) => match self.guarded(*then, *otherwise) {
                Some((own, true)) => [of_match(own), vec![self.behind(*otherwise)]].concat(),
                Some((own, false)) => [of_match(own), vec![self.behind(*then)]].concat(),
                None => vec![self.behind(*then), self.behind(*otherwise)],
            },
        };
        all.retain(|node| !matches!(self.nodes.get(*node), Node::End));
        all
    }

    /// Returns the link to a node.
    pub(super) fn link(&self, gress: Gress, node: NodeId) -> Link {
        let node = self.nodes.resolve(node);
        let none = Link {
            slot: NO_SLOT,
            stage: 0,
            ask: 0,
            matching: 0,
            run: 0,
            steps: 0,
        };
        let Some(place) = self.places.get(&(gress, node)) else {
            return none;
        };
        let link = Link {
            slot: place.slot,
            stage: place.stage,
            ..none
        };
        match self.nodes.get(node) {
            Node::Run(primitives, _) => Link {
                run: 1,
                steps: steps(primitives),
                ..link
            },
            Node::Branch(cubes, ..) => Link {
                ask: ask(cubes),
                ..link
            },
            Node::Match(own) => Link {
                matching: kind(own),
                ..link
            },
            Node::End | Node::Loop(_) => none,
        }
    }

    /// Returns the entries of all stages.
    pub(super) fn entries(mut self) -> Vec<Entry> {
        for (gress, node) in std::mem::take(&mut self.order) {
            self.stage(gress, node);
        }
        self.entries
    }

    fn stage(&mut self, gress: Gress, node: NodeId) {
        let place = self.places[&(gress, node)];
        let mut stage = Stage {
            stages: self,
            gress,
            place,
            runs: Vec::new(),
            made: Vec::new(),
        };
        match stage.stages.nodes.get(node) {
            Node::Run(primitives, next) => {
                let link = stage.stages.link(gress, *next).args();
                stage.run(primitives.clone());
                stage.add(
                    "link",
                    vec![("run", Key::Is(number(1, 8)))],
                    None,
                    "go",
                    link,
                );
            }
            Node::Branch(cubes, then, otherwise) => stage.branch(cubes, *then, *otherwise),
            Node::Match(own) => stage.matching(own),
            Node::End | Node::Loop(_) => {}
        }
        stage.steps();
        let made = stage.made;
        self.entries.extend(made);
    }
}

/// Topological sort: each stage comes after all that link to it.
struct Line<'s, 'a> {
    stages: &'s Stages<'a>,
    back: HashSet<(NodeId, NodeId)>,
    open: HashSet<NodeId>,
    done: Vec<NodeId>,
}

impl Line<'_, '_> {
    fn visit(&mut self, root: NodeId) {
        if matches!(self.stages.nodes.get(root), Node::End) || self.done.contains(&root) {
            return;
        }
        // Programs may have many stages, so the walk uses an explicit stack.
        self.open.insert(root);
        let mut way = vec![(root, self.stages.successors(root))];
        let mut seen: HashSet<NodeId> = self.done.iter().copied().collect();
        while let Some((node, left)) = way.last_mut() {
            let node = *node;
            match left.pop() {
                Some(next) if self.open.contains(&next) => {
                    self.back.insert((node, next));
                }
                Some(next) if seen.contains(&next) => {}
                Some(next) => {
                    self.open.insert(next);
                    way.push((next, self.stages.successors(next)));
                }
                None => {
                    self.open.remove(&node);
                    seen.insert(node);
                    self.done.push(node);
                    way.pop();
                }
            }
        }
    }
}

/// A stage while its entries are built.
struct Stage<'s, 'a> {
    stages: &'s Stages<'a>,
    gress: Gress,
    place: Place,
    runs: Vec<Vec<Primitive>>,
    made: Vec<Entry>,
}

impl Stage<'_, '_> {
    fn add(
        &mut self,
        table: &str,
        keys: Vec<(&'static str, Key)>,
        priority: Option<i32>,
        action: &str,
        args: Vec<Value>,
    ) {
        let ids = [
            ("vpdp", Key::Is(number(self.stages.vpdp, 16))),
            ("program", Key::Is(number(self.stages.number, 8))),
            ("stage", Key::Is(number(self.place.stage, 12))),
        ];
        self.made.push(Entry {
            table: format!("{}.slot_{}.{table}", self.gress.control(), self.place.slot),
            keys: ids.into_iter().chain(keys).collect(),
            priority,
            action: action.to_owned(),
            args,
            idle_timeout_ns: None,
        });
    }

    /// Returns the number of a sequence of primitives.
    fn run(&mut self, primitives: Vec<Primitive>) -> u32 {
        let known = self.runs.iter().position(|run| *run == primitives);
        let at = known.unwrap_or_else(|| {
            self.runs.push(primitives);
            self.runs.len() - 1
        });
        at as u32 + 1
    }

    /// Returns the arguments for the primitives at a node and the link after them.
    fn follow(&mut self, node: NodeId) -> Vec<Value> {
        let (run, mask, next) = match self.stages.nodes.get(node) {
            Node::Run(primitives, next) => (self.run(primitives.clone()), steps(primitives), *next),
            _ => (0, 0, node),
        };
        let own = vec![number(run, 8), number(mask, STEPS as u32)];
        [own, self.stages.link(self.gress, next).args()].concat()
    }

    fn branch(&mut self, cubes: &[Cube], then: NodeId, otherwise: NodeId) {
        let guarded = self.stages.guarded(then, otherwise);
        let (table, keys): (_, KeysOf) = match ask(cubes) {
            1 => ("condition_header", header_keys),
            2 => ("condition_metadata", metadata_keys),
            _ => ("condition_both", both_keys),
        };
        let side = |stage: &mut Self, cube: &Cube, priority, node, holds| {
            let (action, args) = match guarded {
                Some((own, guards)) if guards == holds => ("guard", vec![number(kind(own), 3)]),
                _ => ("branch", stage.follow(node)),
            };
            stage.add(table, keys(cube), Some(priority), action, args);
        };
        for cube in cubes {
            side(self, cube, 2, then, true);
        }
        side(self, &Cube::default(), 1, otherwise, false);
        if let Some((own, _)) = guarded {
            self.matching(own);
        }
    }

    fn matching(&mut self, own: &Match) {
        let (table, keys): (_, KeysOf) = match kind(own) {
            1 => ("match_header", header_keys),
            2 => ("match_standard", port_keys),
            3 => ("match_user", user_keys),
            _ => ("match_combined", file_keys),
        };
        let contents = self.stages.contents;
        // If several entries become the same pattern, the function would take the first one.
        let mut seen: BTreeMap<(Cube, i32), ()> = BTreeMap::new();
        for entry in contents.entries(own.table) {
            let Some(edge) = own.edges.get(entry.call.action) else {
                continue;
            };
            let args = self.entry_args(own, &entry.call, edge.hit);
            for cube in keys::cubes(&own.keys, &entry.keys) {
                if seen.insert((cube.clone(), entry.rank), ()).is_none() {
                    let priority = entry.rank.saturating_add(2);
                    self.add(table, keys(&cube), Some(priority), "entry", args.clone());
                    if let Some(made) = self.made.last_mut() {
                        made.idle_timeout_ns = entry.idle_timeout_ns;
                    }
                }
            }
        }
        let default = contents.default(own.table);
        if let Some(edge) = own.edges.get(default.action) {
            let args = self.entry_args(own, default, edge.miss);
            self.add(table, keys(&Cube::default()), Some(1), "entry", args);
        }
    }

    /// Returns the arguments of an entry: those of the function's action, its primitives, and the
    /// link.
    fn entry_args(&mut self, own: &Match, call: &ActionCall, node: NodeId) -> Vec<Value> {
        let action = self.stages.program.tables[own.table].actions[call.action].action;
        let places = argument_places(self.stages.program, action);
        let (mut value, mut mask) = (Value::zero(WORD_BITS), Value::zero(WORD_BITS));
        for ((at, width), arg) in places.into_iter().zip(&call.args) {
            value = words::or(&value, &placed(arg, at, WORD_BITS));
            mask = words::or(&mask, &ones(at, width, WORD_BITS));
        }
        [vec![value, mask], self.follow(node)].concat()
    }

    /// Adds the entries for the primitives of all sequences.
    fn steps(&mut self) {
        for (run, primitives) in std::mem::take(&mut self.runs).into_iter().enumerate() {
            for (step, primitive) in primitives.into_iter().enumerate() {
                let keys = vec![("run", Key::Is(number(run as u32 + 1, 8)))];
                self.add(
                    &format!("step_{step}"),
                    keys,
                    None,
                    primitive.action,
                    primitive.args,
                );
            }
        }
    }
}

fn steps(primitives: &[Primitive]) -> u32 {
    (1 << primitives.len()) - 1
}

/// Returns the number of the condition table that the patterns require.
fn ask(cubes: &[Cube]) -> u32 {
    let places = cubes.iter().flat_map(|cube| cube.0.keys().copied());
    match needs(places) {
        Needs {
            header: true,
            user: false,
            port: false,
        } => 1,
        Needs { header: false, .. } => 2,
        _ => 3,
    }
}

/// Returns the number of the match table that a function's table requires.
fn kind(own: &Match) -> u32 {
    let places = own.keys.iter().flatten().filter_map(|bit| match bit {
        Bit::At(at) => Some(*at),
        Bit::Is(_) => None,
    });
    match needs(places) {
        Needs {
            header: true,
            user: false,
            port: false,
        } => 1,
        Needs {
            header: false,
            user: false,
            ..
        } => 2,
        Needs {
            header: false,
            user: true,
            port: false,
        } => 3,
        _ => 4,
    }
}

#[derive(Default)]
struct Needs {
    header: bool,
    user: bool,
    port: bool,
}

fn needs(places: impl Iterator<Item = u32>) -> Needs {
    let mut needs = Needs::default();
    for at in places {
        match at {
            at if at >= PORT => needs.port = true,
            at if at >= USER_BITS => needs.header = true,
            _ => needs.user = true,
        }
    }
    needs
}

/// Returns the part of a pattern in a range of the register file.
fn part(cube: &Cube, lo: u32, width: u32) -> Key {
    let own = cube.0.range(lo..lo + width);
    let (mut value, mut mask) = (vec![false; width as usize], vec![false; width as usize]);
    for (at, is) in own {
        let number = (width - 1 - (at - lo)) as usize;
        value[number] = *is;
        mask[number] = true;
    }
    Key::Masked(words::from_bits(&value), words::from_bits(&mask))
}

pub(super) fn header_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    vec![("header", part(cube, USER_BITS, FILE_BITS - USER_BITS))]
}

fn user_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    vec![("user", part(cube, 0, USER_BITS))]
}

fn port_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    vec![("port", part(cube, PORT, 9))]
}

fn returns_key(cube: &Cube) -> (&'static str, Key) {
    ("returns", part(cube, RETURNS, 1))
}

fn metadata_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    [user_keys(cube), port_keys(cube), vec![returns_key(cube)]].concat()
}

fn file_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    vec![
        ("file", part(cube, 0, FILE_BITS)),
        ("port", part(cube, PORT, 9)),
    ]
}

fn both_keys(cube: &Cube) -> Vec<(&'static str, Key)> {
    [file_keys(cube), vec![returns_key(cube)]].concat()
}
