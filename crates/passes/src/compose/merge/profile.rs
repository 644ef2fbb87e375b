//! Properties of a program that decide whether it can be merged with other steps.

use std::collections::{BTreeMap, HashSet};

use ir::{
    BlockRole, Control, FieldId, HeaderId, Op, Parser, Program, ScalarTy, StateId, Stmt, StmtKind,
    Target, Transition,
};

use support::work::checkpoint;

use super::reason::Reason;
use crate::compose::check;
use crate::uses::{Uses, fields_of};

/// Operations on the step's own incoming packet or its path. In a merged step they would affect all
/// members.
const OWN_REQUESTS: &[Op] = &[Op::Clone, Op::Resubmit, Op::Recirculate];

/// Standard metadata that the device sets for each step. Merged steps must neither write it nor
/// decide by it.
pub(super) const TOLD: &[&str] = &[
    "packet_length",
    "parser_error",
    "instance_type",
    "checksum_error",
];

/// Metadata that an egress between two steps could change although it no longer drops the packet.
const OF_WAY: &[&str] = &["egress_spec", "mcast_grp"];

/// Queue metadata of an egress between two steps. (`egress_port` is set in the merged form too.)
pub(super) const TIMES_AND_DEPTHS: &[&str] = &[
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "egress_global_timestamp",
];

/// A program and what its blocks access.
pub(super) struct Profile<'p> {
    pub(super) step: &'p str,
    pub(super) program: &'p Program,
    pub(super) parser: &'p Parser,
    parser_uses: Uses,
    verify: Uses,
    ingress: Uses,
    egress: Uses,
    compute: Uses,
    deparser: Option<&'p Control>,
}

fn uses(program: &Program, role: BlockRole) -> Uses {
    let control = check::control(program, role);
    control.map_or_else(Uses::default, |control| Uses::of_control(program, control))
}

impl<'p> Profile<'p> {
    /// Returns the profile of a program that has a parser.
    pub(super) fn of(step: &'p str, program: &'p Program) -> Option<Profile<'p>> {
        let parser = check::parser(program)?;
        Some(Profile {
            step,
            program,
            parser,
            parser_uses: Uses::of_parser(program, parser),
            verify: uses(program, BlockRole::VerifyChecksum),
            ingress: uses(program, BlockRole::Ingress),
            egress: uses(program, BlockRole::Egress),
            compute: uses(program, BlockRole::ComputeChecksum),
            deparser: check::deparser(program),
        })
    }

    fn standard(&self, name: &str) -> Option<FieldId> {
        let name = format!("standard_metadata.{name}");
        self.program.pipeline.intrinsics.get(&name).copied()
    }

    fn controls(&self) -> [&Uses; 4] {
        [&self.verify, &self.ingress, &self.egress, &self.compute]
    }

    fn written(&self) -> HashSet<FieldId> {
        let writes = self.controls().into_iter().flat_map(|uses| &uses.writes);
        writes.copied().collect()
    }

    fn name_of(&self, field: FieldId) -> String {
        self.program.fields[field].name.clone()
    }

    fn step(&self) -> String {
        self.step.to_owned()
    }

    /// Checks that the program can be merged with other steps at all.
    pub(super) fn can_merge(&self) -> Result<(), Reason> {
        for uses in self.controls() {
            if let Some(&op) = OWN_REQUESTS.iter().find(|op| uses.ops.contains(op)) {
                let step = self.step();
                return Err(Reason::Asks { step, op });
            }
        }
        Ok(())
    }

    /// Checks that the program can continue with the fields of the step before.
    pub(super) fn can_follow(&self) -> Result<(), Reason> {
        self.can_merge()?;
        if self.verify.exits {
            return Err(Reason::Exits { step: self.step() });
        }
        let mut controls = self.controls().into_iter();
        match self.standard("checksum_error") {
            Some(field) if controls.any(|uses| uses.reads.contains(&field)) => Err(Reason::Reads {
                step: self.step(),
                field: self.name_of(field),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the next step can continue with the program's fields.
    pub(super) fn can_be_followed(&self) -> Result<(), Reason> {
        self.can_merge()?;
        for uses in self.controls() {
            if uses.exits {
                return Err(Reason::Exits { step: self.step() });
            }
            if uses.ops.contains(&Op::Truncate) {
                let (step, op) = (self.step(), Op::Truncate);
                return Err(Reason::Asks { step, op });
            }
        }
        self.plain_parser()?;
        let emitted = self.emits_what_is_extracted()?;
        self.keeps_what_decides(&emitted)?;
        self.keeps_what_is_told()
    }

    fn plain_parser(&self) -> Result<(), Reason> {
        let does = |does| {
            let step = self.step();
            Err(Reason::Parser { step, does })
        };
        if !self.parser_uses.ops.is_empty() || !self.parser_uses.actions.is_empty() {
            return does("calls functions");
        }
        if !self.parser_uses.indexed.is_empty() {
            return does("extracts elements of stacks");
        }
        let intrinsics = self.program.pipeline.intrinsics.values();
        for field in intrinsics {
            if self.parser_uses.writes.contains(field) {
                return does("writes standard metadata");
            }
        }
        for name in TOLD {
            let field = self.standard(name);
            if field.is_some_and(|field| self.parser_uses.reads.contains(&field)) {
                return does("reads what each step is told anew");
            }
        }
        let states = self.parser.states.values();
        for stmt in states.flat_map(|state| &state.body) {
            checkpoint();
            if let Some(what) = unrepeatable(stmt) {
                return does(what);
            }
            if extracted(stmt).is_none() && self.writes_headers(stmt) {
                return does("writes headers otherwise than by extracting them");
            }
        }
        Ok(())
    }

    /// Returns true if the statement writes headers. Such a value is not the packet's, and such a
    /// header may be valid without having been extracted.
    fn writes_headers(&self, stmt: &Stmt) -> bool {
        let writes = Uses::of_stmt(self.program, stmt).writes;
        let headers = self.program.headers.ids();
        let mut fields = headers.flat_map(|header| fields_of(self.program, header));
        fields.any(|field| {
            checkpoint();
            writes.contains(&field)
        })
    }

    /// Checks that headers are extracted in the order in which the deparser emits them, each at
    /// most once, on every path through the parser. Returns the emitted headers.
    fn emits_what_is_extracted(&self) -> Result<Vec<HeaderId>, Reason> {
        let wrong = || Reason::Deparser { step: self.step() };
        let emitted = self.deparser.and_then(check::emitted).ok_or_else(wrong)?;
        let mut positions = BTreeMap::new();
        for (position, header) in emitted.iter().enumerate() {
            checkpoint();
            if positions.insert(header.get(), position).is_some() {
                return Err(wrong());
            }
        }
        // One more than the highest position on any path to a state.
        let mut latest: BTreeMap<StateId, usize> = BTreeMap::new();
        let mut open = vec![(self.parser.start, 0)];
        while let Some((id, mut at)) = open.pop() {
            checkpoint();
            if latest.get(&id).is_some_and(|&known| known >= at) {
                continue;
            }
            latest.insert(id, at);
            let state = &self.parser.states[id];
            for header in state.body.iter().filter_map(extracted) {
                let position = positions.get(&header.get()).copied();
                match position.filter(|&position| position >= at) {
                    Some(position) => at = position + 1,
                    None => return Err(wrong()),
                }
            }
            open.extend(targets(&state.transition).map(|target| (target, at)));
        }
        Ok(emitted)
    }

    /// Checks that the controls do not change the input of the next parser's decisions: values that
    /// it selects by, verifies or computes, header validity, and `varbit` lengths.
    fn keeps_what_decides(&self, emitted: &[HeaderId]) -> Result<(), Reason> {
        let mut data = HashSet::new();
        for &header in emitted {
            checkpoint();
            let fields = fields_of(self.program, header).skip(1);
            let is_varbit = |f: &FieldId| matches!(self.program.fields[*f].ty, ScalarTy::Varbit(_));
            data.extend(fields.filter(|field| !is_varbit(field)));
        }
        let parsed = self.parser_uses.writes.difference(&data);
        let sizes = emitted
            .iter()
            .flat_map(|&header| fields_of(self.program, header))
            .filter(|field| !data.contains(field));
        let decides = self.parser_uses.reads.iter().chain(parsed).copied();
        self.keeps(decides.chain(sizes))
    }

    /// Checks that the controls do not write metadata which the device sets for each step, and that
    /// egress does not use queue metadata.
    fn keeps_what_is_told(&self) -> Result<(), Reason> {
        self.keeps(TOLD.iter().filter_map(|name| self.standard(name)))?;
        let asked = OF_WAY.iter().chain(TIMES_AND_DEPTHS);
        for field in asked.filter_map(|name| self.standard(name)) {
            if self.egress.reads.contains(&field) || self.egress.writes.contains(&field) {
                return Err(Reason::Reads {
                    step: self.step(),
                    field: self.name_of(field),
                });
            }
        }
        Ok(())
    }

    fn keeps(&self, fields: impl Iterator<Item = FieldId>) -> Result<(), Reason> {
        let written = self.written();
        let mut changed: Vec<FieldId> = fields.filter(|field| written.contains(field)).collect();
        changed.sort();
        match changed.first() {
            None => Ok(()),
            Some(&field) => Err(Reason::Changes {
                step: self.step(),
                field: self.name_of(field),
            }),
        }
    }

    /// Returns true if some of these fields are accessed by an index known only at run time.
    pub(super) fn indexes(&self, fields: impl Iterator<Item = FieldId>) -> bool {
        let parser = [&self.parser_uses];
        let all: Vec<&Uses> = self.controls().into_iter().chain(parser).collect();
        let mut fields = fields;
        fields.any(|field| all.iter().any(|uses| uses.indexed.contains(&field)))
    }
}

/// Returns the header that a statement extracts.
fn extracted(stmt: &Stmt) -> Option<HeaderId> {
    match &stmt.kind {
        StmtKind::Extract(header, _) => Some(header.base),
        _ => None,
    }
}

/// Describes a parser statement that may act differently a second time, or that depends on the path
/// through the parser.
fn unrepeatable(stmt: &Stmt) -> Option<&'static str> {
    let inside = |body: &[Stmt]| {
        let nested = |stmt: &Stmt| {
            checkpoint();
            match stmt.kind {
                StmtKind::Extract(..) => Some("extracts inside of a condition"),
                _ => unrepeatable(stmt),
            }
        };
        body.iter().find_map(nested)
    };
    match &stmt.kind {
        StmtKind::Advance(_) => Some("skips bits"),
        StmtKind::Lookahead { .. } => Some("looks ahead"),
        StmtKind::PushFront(..) | StmtKind::PopFront(..) => Some("shifts a stack"),
        StmtKind::If(_, then, otherwise) => inside(then).or_else(|| inside(otherwise)),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => inside(body),
        _ => None,
    }
}

fn targets(transition: &Transition) -> impl Iterator<Item = StateId> {
    let targets: Vec<Target> = match transition {
        Transition::Direct(target) => vec![*target],
        Transition::Select { cases, .. } => cases.iter().map(|case| case.target).collect(),
    };
    targets.into_iter().filter_map(|target| match target {
        Target::State(id) => Some(id),
        Target::Accept | Target::Reject => None,
    })
}
