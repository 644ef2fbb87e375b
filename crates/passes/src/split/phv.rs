//! The values that a switch holds for a packet, and its budget for them: the packet header vector
//! (CLIP, section IV-C).
//!
//! A switch holds the fields that code before a cut reads, with the keys and requests of the cuts,
//! and the fields that ingress writes before a cut or in a server and reads later. Each counts
//! once, with its width. Other header fields only pass through.
//!
//! A postponable intermediate value is computed before the cuts from the packet's bytes, and used
//! only after them. If the values do not fit the budget, servers compute it: the switch needs no
//! inputs of it. Then each packet has to go to a server where it needs the value.

use std::collections::BTreeSet;

use bits::IdSet;
use ir::{Control, Expr, FieldId, Operand, Program, Stage, StageId, StageKind, TableId};
use support::work::checkpoint;

use super::cuts::{CutKind, Cuts, name_of};
use super::error::{SplitError, place_of};
use super::liveness::{FieldSet, Liveness};
use super::recompute::{Computations, Recomputed};
use crate::slots::links;
use crate::uses::Uses;

/// Place of a postponable intermediate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PivHome {
    /// Switch and servers compute it again after a cut.
    Recomputed,
    /// Servers compute it, and the switch does not.
    Deferred,
}

/// A postponable intermediate value: computed before the cuts, and used only after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piv {
    /// The field's name.
    pub name: String,
    /// Its width in bits.
    pub width: u32,
    /// Its place.
    pub home: PivHome,
    /// Bits of the fields of which it is computed.
    pub input_bits: u64,
    /// Bits of these fields that the switch needs in any case.
    pub needed_bits: u64,
}

/// The values that a switch holds for a packet.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PhvUse {
    /// The declared budget in bits.
    pub budget_bits: Option<u64>,
    /// Bits of the values of the program as it is.
    pub bits_before: u64,
    /// Bits of the values when servers compute what was deferred.
    pub bits_after: u64,
    /// Postponable intermediate values.
    pub pivs: Vec<Piv>,
    /// Consequences of deferring: one line each, with the place.
    pub warnings: Vec<String>,
}

/// Result of the analysis.
pub(super) struct Phv {
    pub(super) used: PhvUse,
    /// Values that servers compute and the switch does not, each after its inputs.
    pub(super) deferred: Vec<Recomputed>,
    /// Places of the computations that the switch does not need.
    pub(super) removed: Places,
    /// Those of them that travel in responses.
    pub(super) returned: FieldSet,
    /// Mirrored tables of which the switch holds no entry, since all packets need a deferred value.
    pub(super) uncached: IdSet<TableId>,
}

/// Places of computations: stages, and positions in their bodies.
pub(super) type Places = BTreeSet<(StageId, usize)>;

struct Analysis<'p> {
    program: &'p Program,
    ingress: &'p Control,
    cuts: &'p Cuts,
    /// Stages from which a cut follows.
    before: IdSet<StageId>,
    /// Fields that are written before a cut or in a server, and read later.
    written: &'p FieldSet,
}

/// Finds the values that a switch holds, and the postponable ones among them. Defers as many of
/// these as the budget needs.
///
/// # Errors
/// The values do not fit: all of them by their widths.
pub(super) fn fit(
    program: &Program,
    ingress: &Control,
    cuts: &Cuts,
    written: &FieldSet,
    computations: &mut Computations<'_>,
    budget_bits: Option<u64>,
) -> Result<Phv, SplitError> {
    let analysis = Analysis {
        program,
        ingress,
        cuts,
        before: leading_to_cuts(ingress, cuts),
        written,
    };
    let live = Liveness::of(program, ingress);
    let mut candidates: Vec<Recomputed> = Vec::new();
    for field in written.iter() {
        checkpoint();
        if let Some(found) = computations.of(field)
            && analysis.is_used_only_after(&found, &live)
        {
            candidates.push(found);
        }
    }
    let bits = |fields: &FieldSet| -> u64 {
        let widths = fields.iter().map(|field| program.fields[field].ty.width());
        widths.map(u64::from).sum()
    };
    let bits_before = bits(&analysis.values(&Places::new()));
    let mut bits_after = bits_before;
    let mut deferred: Vec<FieldId> = Vec::new();
    let mut removed = Places::new();
    while budget_bits.is_some_and(|budget| bits_after > budget) {
        // The value that saves most comes first.
        let open = candidates.iter().filter(|c| !deferred.contains(&c.field));
        let best = open
            .map(|candidate| {
                let last: Vec<FieldId> =
                    deferred.iter().copied().chain([candidate.field]).collect();
                let all = computations.closure(last.iter().copied());
                let places = analysis.removable(&last, &all);
                (bits(&analysis.values(&places)), candidate.field, places)
            })
            .min_by_key(|(bits, field, _)| (*bits, *field));
        match best {
            Some((bits, field, places)) if bits < bits_after => {
                deferred.push(field);
                removed = places;
                bits_after = bits;
            }
            _ => {
                let budget = budget_bits.unwrap_or(0);
                return Err(analysis.does_not_fit(&analysis.values(&removed), budget));
            }
        }
    }
    let without_any: Places = {
        let last: Vec<FieldId> = candidates.iter().map(|one| one.field).collect();
        let all = computations.closure(last.iter().copied());
        analysis.removable(&last, &all)
    };
    let needed = analysis.values(&without_any);
    let pivs = candidates.iter().map(|candidate| {
        let mut inputs = FieldSet::new();
        for part in computations.closure([candidate.field]) {
            for field in Uses::of_stmt(program, &part.stmt).reads {
                if !part.inputs.contains(&field) {
                    inputs.insert(field);
                }
            }
        }
        let field = &program.fields[candidate.field];
        let both = inputs.iter().filter(|&input| needed.contains(input));
        Piv {
            name: field.name.clone(),
            width: field.ty.width(),
            home: match deferred.contains(&candidate.field) {
                true => PivHome::Deferred,
                false => PivHome::Recomputed,
            },
            input_bits: bits(&inputs),
            needed_bits: both.map(|f| u64::from(program.fields[f].ty.width())).sum(),
        }
    });
    let pivs: Vec<Piv> = pivs.collect();
    let returned: FieldSet = deferred.iter().copied().collect();
    let moved = candidates.iter().filter(|one| returned.contains(one.field));
    let (uncached, warnings) = analysis.flying(moved, &live, budget_bits.unwrap_or(0));
    let deferred = match deferred.is_empty() {
        true => Vec::new(),
        false => computations.closure(deferred),
    };
    Ok(Phv {
        used: PhvUse {
            budget_bits,
            bits_before,
            bits_after,
            pivs,
            warnings,
        },
        deferred,
        removed,
        returned,
        uncached,
    })
}

/// Returns the stages from which a cut follows.
fn leading_to_cuts(ingress: &Control, cuts: &Cuts) -> IdSet<StageId> {
    let mut before: IdSet<StageId> = IdSet::new();
    loop {
        let mut has_grown = false;
        for (id, stage) in ingress.stages.iter().rev() {
            checkpoint();
            let leads = links(&stage.kind)
                .iter()
                .any(|&to| before.contains(to) || cuts.cuts.iter().any(|cut| cut.stage == to));
            has_grown |= leads && before.insert(id);
        }
        if !has_grown {
            return before;
        }
    }
}

impl Analysis<'_> {
    /// Returns the values that the switch holds without these computations.
    fn values(&self, without: &Places) -> FieldSet {
        let mut values = self.written.clone();
        let mut read = |uses: Uses| {
            for field in uses.reads {
                values.insert(field);
            }
        };
        for (id, stage) in self.ingress.stages.iter() {
            checkpoint();
            if let Some(cut) = self.cuts.cuts.iter().find(|cut| cut.stage == id) {
                read(self.inputs_of_cut(stage, cut.kind));
                continue;
            }
            if !self.before.contains(id) {
                continue;
            }
            match &stage.kind {
                StageKind::Action { body, .. } => {
                    for (position, stmt) in body.iter().enumerate() {
                        if !without.contains(&(id, position)) {
                            read(Uses::of_stmt(self.program, stmt));
                        }
                    }
                }
                _ => read(Uses::of_stage(self.program, stage)),
            }
        }
        values
    }

    /// Returns what a packet needs to leave at a cut: the table's key or the handler's request.
    fn inputs_of_cut(&self, stage: &Stage, kind: CutKind) -> Uses {
        let of_expr = |uses: Uses, expr: &Expr| uses.and(Uses::of_expr(self.program, expr));
        match kind {
            CutKind::Table(table) => {
                let keys = self.program.tables[table].keys.iter();
                keys.fold(Uses::default(), |uses, key| of_expr(uses, &key.expr))
            }
            CutKind::Handler(_) => match stage.kind.remote_call().map(|call| &call.operands[..]) {
                Some([Operand::Data(request), ..]) => request.iter().fold(Uses::default(), of_expr),
                _ => Uses::of_stage(self.program, stage),
            },
        }
    }

    /// Returns the places of the computations that the switch does not need if servers compute
    /// `last`: theirs, and those of inputs that nothing else in the switch reads.
    fn removable(&self, last: &[FieldId], all: &[Recomputed]) -> Places {
        let mut places: Places = all.iter().map(|one| one.place).collect();
        loop {
            checkpoint();
            let needed = self.values(&places);
            let mut inputs = all.iter().filter(|one| !last.contains(&one.field));
            let kept = inputs
                .find(|one| places.contains(&one.place) && needed.contains(one.field))
                .map(|one| one.place);
            match kept {
                Some(place) => places.remove(&place),
                None => return places,
            };
        }
    }

    /// Returns true if nothing reads a value before a cut or without one, and no cut needs it.
    fn is_used_only_after(&self, one: &Recomputed, live: &Liveness) -> bool {
        let (stage, position) = one.place;
        let reads = |uses: Uses| uses.reads.contains(&one.field);
        if let StageKind::Action { body, .. } = &self.ingress.stages[stage].kind {
            let mut rest = body.iter().skip(position + 1);
            if rest.any(|stmt| reads(Uses::of_stmt(self.program, stmt))) {
                return false;
            }
        }
        let mut reached = BTreeSet::new();
        let mut open = vec![stage];
        while let Some(at) = open.pop() {
            checkpoint();
            let own = &self.ingress.stages[at];
            if at != stage {
                if let Some(cut) = self.cuts.cuts.iter().find(|cut| cut.stage == at) {
                    if reads(self.inputs_of_cut(own, cut.kind)) {
                        return false;
                    }
                    continue;
                }
                if reads(Uses::of_stage(self.program, own)) {
                    return false;
                }
            }
            let ends = Uses::of_stage(self.program, own).exits || super::cuts::ends(&own.kind);
            if ends && live.at_end.contains(one.field) {
                return false;
            }
            for to in links(&own.kind) {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        true
    }

    /// Returns the mirrored tables at which all packets have to leave, since they need a deferred
    /// value, and a warning for each value.
    fn flying<'c>(
        &self,
        deferred: impl Iterator<Item = &'c Recomputed>,
        live: &Liveness,
        budget_bits: u64,
    ) -> (IdSet<TableId>, Vec<String>) {
        let mut uncached = IdSet::new();
        let mut warnings = Vec::new();
        for one in deferred {
            let field = one.field;
            let mut names = BTreeSet::new();
            for cut in &self.cuts.cuts {
                let CutKind::Table(table) = cut.kind else {
                    continue;
                };
                if live.before[cut.stage].contains(field) {
                    uncached.insert(table);
                    names.insert(format!("`{}`", name_of(self.program, cut.kind)));
                }
            }
            let name = &self.program.fields[field].name;
            let names: Vec<String> = names.into_iter().collect();
            let effect = match names.is_empty() {
                true => "all packets already go there".to_owned(),
                false => format!(
                    "all packets of {} go there, also those with an entry in the switch",
                    names.join(", ")
                ),
            };
            let place = place_of(self.program, one.stmt.loc);
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            warnings.push(format!(
                "{place}warning: servers compute `{name}`, to keep the switch's budget of {}: {effect}",
                bytes(budget_bits)
            ));
        }
        (uncached, warnings)
    }

    fn does_not_fit(&self, values: &FieldSet, budget_bits: u64) -> SplitError {
        let fields = &self.program.fields;
        let mut all: Vec<(u32, &str)> = values
            .iter()
            .map(|field| (fields[field].ty.width(), fields[field].name.as_str()))
            .collect();
        all.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let sum: u64 = all.iter().map(|(width, _)| u64::from(*width)).sum();
        let list: Vec<String> = all
            .iter()
            .map(|(width, name)| format!("{name} {width}"))
            .collect();
        let first = self.cuts.cuts.first().map(|cut| cut.stage);
        let loc = first.and_then(|stage| self.ingress.stages[stage].loc);
        SplitError::new(
            self.program,
            loc,
            format!(
                "packets need {} of values in the switch, and its budget is {}; bits: {}",
                bytes(sum),
                bytes(budget_bits),
                list.join(", ")
            ),
            "declare a larger budget, or read and write fewer fields before the cuts",
        )
    }
}

/// Formats a number of bits.
fn bytes(bits: u64) -> String {
    match bits % 8 {
        0 => format!("{} B", bits / 8),
        rest => format!("{} B and {rest} bits", bits / 8),
    }
}
