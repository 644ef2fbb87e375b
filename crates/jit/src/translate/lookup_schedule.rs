//! Lookup schedule: the tables that are looked up together in prefetch passes, and their order.
//!
//! A table is looked up on level 0 if its key is known after parsing. It is looked up on level `n +
//! 1` if its key is known after the lookups of level `n` and their actions' assignments. A table
//! with small keys is resolved on the level of its lookup, since prefetch passes find its entries
//! without waiting for other packets. Effects that cannot be evaluated ahead (extern calls, stacks,
//! tables that are not applied by their records alone) make the written fields unknown. The fast
//! path itself looks up tables with such keys.

use std::collections::{HashMap, HashSet};

use ir::{
    ActionId, Control, ControlId, Expr, FieldId, MatchKind, MatchNext, Next, Place, Program,
    StageId, StageKind, Stmt, StmtKind, TableId,
};

use support::work::checkpoint;
use table::Directness;

use super::field_allocation::{written_by_stmt, written_in_control};

/// Maximum number of levels. Each level is one more pass over the burst.
pub(crate) const LEVELS: usize = 3;

/// Level on which something is known, at least [`LEVELS`] for never.
pub(super) type Level = usize;

/// Level that means never.
const NEVER: Level = LEVELS;

/// Schedule of a fast path's controls.
#[derive(Debug, Default)]
pub(super) struct LookupSchedule {
    /// Level of the lookup of a match stage.
    asked: HashMap<(ControlId, StageId), Level>,
    /// Level on which the outcome of a stage is known.
    known: HashMap<(ControlId, StageId), Level>,
    /// Stages that decide if tables need a lookup.
    gates: HashSet<(ControlId, StageId)>,
    /// Levels on which fields are known, after the stages that were analyzed.
    fields: HashMap<FieldId, Level>,
}

/// Queries for the parts of a program that a prefetch pass can evaluate.
pub(super) trait Follows {
    /// Returns true if an expression is computed without a helper, from fields in variables.
    fn follows(&self, expr: &Expr) -> bool;
    /// Returns true if an assignment writes a variable.
    fn follows_place(&self, place: &Place) -> bool;
    /// Returns true if prefetch passes can look up a table.
    fn is_scouted(&self, table: TableId, control: &Control) -> bool;
    /// Returns true if a prefetch pass can have a table's result as soon as the key is known.
    fn is_answered_at_once(&self, table: TableId) -> bool;
}

impl LookupSchedule {
    /// Records that the architecture writes a field with a value that prefetch passes do not know.
    pub(super) fn set(&mut self, field: FieldId) {
        self.fields.insert(field, NEVER);
    }

    /// Records that the architecture writes a field with a value that prefetch passes know.
    pub(super) fn tell(&mut self, field: FieldId) {
        self.fields.insert(field, 0);
    }

    /// Returns the level of a match stage's lookup.
    pub(super) fn asked(&self, control: ControlId, stage: StageId) -> Option<Level> {
        self.asked.get(&(control, stage)).copied()
    }

    /// Returns true if the outcome of a stage is known on this level and worth a test.
    pub(super) fn decides(&self, control: ControlId, stage: StageId, level: Level) -> bool {
        let at = (control, stage);
        let is_known = self.known.get(&at).is_some_and(|&known| known <= level);
        is_known && self.gates.contains(&at)
    }

    /// Marks the fields that the next control writes as unknown.
    pub(super) fn forget(&mut self, program: &Program, control: ControlId) {
        for field in written_in_control(program, control) {
            checkpoint();
            self.set(field);
        }
    }

    /// Returns true if an expression is known on this level, at any position.
    pub(super) fn is_known(&self, expr: &Expr, level: Level) -> bool {
        self.level_of(expr) <= level
    }

    /// Adds the fields of conditions that are known on this level and under which code ends its
    /// control.
    fn ends_by(&self, program: &Program, body: &[Stmt], level: Level, by: &mut HashSet<FieldId>) {
        for stmt in body {
            checkpoint();
            match &stmt.kind {
                StmtKind::If(cond, then, otherwise) => {
                    let ends = exits(program, then) || exits(program, otherwise);
                    if ends && self.is_known(cond, level) {
                        reads(cond, by);
                        self.ends_by(program, then, level, by);
                        self.ends_by(program, otherwise, level, by);
                    }
                }
                StmtKind::Block(_, body) => self.ends_by(program, body, level, by),
                _ => {}
            }
        }
    }

    /// Analyzes the next control.
    pub(super) fn control(&mut self, program: &Program, id: ControlId, follows: &impl Follows) {
        let Some(control) = program.controls.get(id) else {
            return;
        };
        if goes_back(control) {
            return self.forget(program, id);
        }
        let mut least: HashMap<StageId, Level> = HashMap::new();
        let asked_for = asked_for(program, control);
        for (stage_id, stage) in control.stages.iter() {
            checkpoint();
            let at = (id, stage_id);
            match &stage.kind {
                StageKind::Condition {
                    cond,
                    then,
                    otherwise,
                } => {
                    let level = match follows.follows(cond) {
                        true => self.level_of(cond),
                        false => NEVER,
                    };
                    self.known.insert(at, level);
                    let nexts = [*then, *otherwise];
                    if is_parsed(program, cond)
                        || parts_assignments(program, control, nexts, &asked_for)
                    {
                        self.gates.insert(at);
                    }
                    self.gate(program, at, control, &nexts, level, &mut least);
                }
                StageKind::Action { body, .. } => {
                    let mut walk = Walk::new(self, program, follows);
                    walk.body(body, 0);
                }
                StageKind::Match {
                    table,
                    outcome,
                    next,
                } => {
                    let level = self.level_of_table(program, control, *table, follows);
                    let level = level.max(least.get(&stage_id).copied().unwrap_or(0));
                    let answered = match follows.is_answered_at_once(*table) {
                        true => level,
                        false => (level + 1).min(NEVER),
                    };
                    if level < NEVER {
                        self.asked.insert(at, level);
                    }
                    let outcomes = outcome.hit.into_iter().chain(outcome.action_run);
                    for field in outcomes {
                        checkpoint();
                        self.raise(field, answered);
                    }
                    let listed = program.tables.get(*table);
                    for action in listed.into_iter().flat_map(|table| &table.actions) {
                        checkpoint();
                        let mut walk = Walk::new(self, program, follows);
                        walk.action(action.action, answered);
                    }
                    self.known.insert(at, answered);
                    let nexts = nexts_of(next);
                    self.gate(program, at, control, &nexts, answered, &mut least);
                }
            }
        }
    }

    fn raise(&mut self, field: FieldId, level: Level) {
        let known = self.fields.entry(field).or_insert(0);
        *known = (*known).max(level.min(NEVER));
    }

    fn level_of(&self, expr: &Expr) -> Level {
        let mut read = HashSet::new();
        reads(expr, &mut read);
        let levels = read.iter().filter_map(|field| self.fields.get(field));
        levels.copied().max().unwrap_or(0)
    }

    fn level_of_table(
        &self,
        program: &Program,
        control: &Control,
        table: TableId,
        follows: &impl Follows,
    ) -> Level {
        let Some(declared) = program.tables.get(table) else {
            return NEVER;
        };
        if !follows.is_scouted(table, control) {
            return NEVER;
        }
        let levels = declared.keys.iter().map(|key| match key.match_kind {
            MatchKind::Selector => NEVER,
            _ if follows.follows(&key.expr) => self.level_of(&key.expr),
            _ => NEVER,
        });
        levels.max().unwrap_or(NEVER)
    }

    /// Analyzes a stage with several successors. Its outcome is tested if it separates the tables
    /// on different paths, or if a table with a long lookup depends on it. These tables are looked
    /// up after the outcome is known.
    fn gate(
        &mut self,
        program: &Program,
        at: (ControlId, StageId),
        control: &Control,
        nexts: &[Next],
        level: Level,
        least: &mut HashMap<StageId, Level>,
    ) {
        if level >= NEVER {
            return;
        }
        let ways: Vec<HashSet<StageId>> = nexts
            .iter()
            .map(|next| tables_behind(control, *next))
            .collect();
        let is_shut_out = |stage: &StageId| ways.iter().any(|way| !way.contains(stage));
        let alone: Vec<Vec<StageId>> = ways
            .iter()
            .map(|way| way.iter().copied().filter(is_shut_out).collect())
            .collect();
        let sides = alone.iter().filter(|alone| !alone.is_empty()).count();
        let is_long = |stage: &StageId| match control.stages.get(*stage).map(|s| &s.kind) {
            Some(StageKind::Match { table, .. }) => is_long(program, *table),
            _ => false,
        };
        for stage in alone.into_iter().flatten() {
            checkpoint();
            if sides > 1 || is_long(&stage) {
                self.gates.insert(at);
                let least = least.entry(stage).or_insert(0);
                *least = (*least).max(level);
            }
        }
    }

    /// Returns the fields on which keys of a level depend, and those that decide if lookups are
    /// needed. Results of native lookups are recomputed on each level. A table that native code
    /// always searches itself has no lookups.
    pub(super) fn needed(
        &self,
        program: &Program,
        controls: &[ControlId],
        level: Level,
        nearness: impl Fn(TableId) -> Option<Directness>,
    ) -> HashSet<FieldId> {
        let mut needed = HashSet::new();
        let mut flows: Vec<(FieldId, HashSet<FieldId>)> = Vec::new();
        for &id in controls {
            checkpoint();
            let Some(control) = program.controls.get(id) else {
                continue;
            };
            for (stage_id, stage) in control.stages.iter() {
                checkpoint();
                match &stage.kind {
                    StageKind::Condition { cond, .. } => {
                        if self.decides(id, stage_id, level) {
                            reads(cond, &mut needed);
                        }
                    }
                    StageKind::Action { body, .. } => {
                        self.ends_by(program, body, level, &mut needed);
                        flows_of(program, body, &HashSet::new(), &mut flows);
                    }
                    StageKind::Match { table, outcome, .. } => {
                        let Some(declared) = program.tables.get(*table) else {
                            continue;
                        };
                        let mut key = HashSet::new();
                        for part in &declared.keys {
                            checkpoint();
                            reads(&part.expr, &mut key);
                        }
                        let nearness = nearness(*table);
                        let may_be_near = nearness.is_some();
                        let is_asked = self.asked(id, stage_id) == Some(level)
                            && nearness.is_none_or(|it| it == Directness::Sometimes);
                        let decides = may_be_near && self.decides(id, stage_id, level);
                        if decides || is_asked {
                            needed.extend(&key);
                        }
                        let from = match may_be_near {
                            true => key,
                            false => HashSet::new(),
                        };
                        let told = outcome.hit.into_iter().chain(outcome.action_run);
                        flows.extend(told.map(|field| (field, from.clone())));
                        for action in &declared.actions {
                            checkpoint();
                            let action = program.actions.get(action.action);
                            let body = action.map_or(&[][..], |action| &action.body);
                            flows_of(program, body, &from, &mut flows);
                        }
                    }
                }
            }
        }
        loop {
            checkpoint();
            let before = needed.len();
            for (to, from) in &flows {
                checkpoint();
                if needed.contains(to) {
                    needed.extend(from.iter().copied());
                }
            }
            if needed.len() == before {
                return needed;
            }
        }
    }
}

/// Analysis of the effects of code on known fields.
struct Walk<'l, 'p, F> {
    levels: &'l mut LookupSchedule,
    program: &'p Program,
    follows: &'p F,
    /// Nesting depth of action calls. Actions are not recursive.
    depth: usize,
}

/// Maximum nesting depth of action calls. Fields that deeper actions write count as unknown.
const MAX_CALLS: usize = 8;

impl<'l, 'p, F: Follows> Walk<'l, 'p, F> {
    fn new(
        levels: &'l mut LookupSchedule,
        program: &'p Program,
        follows: &'p F,
    ) -> Walk<'l, 'p, F> {
        Walk {
            levels,
            program,
            follows,
            depth: 0,
        }
    }

    fn action(&mut self, id: ActionId, least: Level) {
        let least = if self.depth > MAX_CALLS { NEVER } else { least };
        self.depth += 1;
        if let Some(action) = self.program.actions.get(id) {
            self.body(&action.body, least);
        }
        self.depth -= 1;
    }

    fn body(&mut self, body: &[Stmt], least: Level) {
        for stmt in body {
            checkpoint();
            self.stmt(stmt, least);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, least: Level) {
        match &stmt.kind {
            StmtKind::Assign(to, value) | StmtKind::AssignSlice(to, _, _, value) => {
                let follows = self.follows.follows_place(to) && self.follows.follows(value);
                let level = match follows {
                    true => least.max(self.levels.level_of(value)),
                    false => NEVER,
                };
                self.levels.raise(to.base, level);
            }
            StmtKind::If(cond, then, otherwise) => {
                let level = match self.follows.follows(cond) {
                    true => least.max(self.levels.level_of(cond)),
                    false => NEVER,
                };
                self.body(then, level);
                self.body(otherwise, level);
            }
            StmtKind::Block(_, body) => self.body(body, least),
            StmtKind::CallAction(action, args) => {
                let follows = args.iter().all(|arg| self.follows.follows(arg));
                let args = args.iter().map(|arg| self.levels.level_of(arg)).max();
                let level = match follows {
                    true => least.max(args.unwrap_or(0)),
                    false => NEVER,
                };
                self.action(*action, level);
            }
            StmtKind::Leave(_) | StmtKind::Exit => {}
            _ => {
                for field in written_by_stmt(self.program, stmt) {
                    checkpoint();
                    self.levels.set(field);
                }
            }
        }
    }
}

/// Appends the written fields of code, each with the fields on which its value depends.
fn flows_of(
    program: &Program,
    body: &[Stmt],
    around: &HashSet<FieldId>,
    flows: &mut Vec<(FieldId, HashSet<FieldId>)>,
) {
    for stmt in body {
        checkpoint();
        match &stmt.kind {
            StmtKind::Assign(to, value) | StmtKind::AssignSlice(to, _, _, value) => {
                let mut from = around.clone();
                reads(value, &mut from);
                flows.push((to.base, from));
            }
            StmtKind::If(cond, then, otherwise) => {
                let mut inside = around.clone();
                reads(cond, &mut inside);
                flows_of(program, then, &inside, flows);
                flows_of(program, otherwise, &inside, flows);
            }
            StmtKind::Block(_, body) => flows_of(program, body, around, flows),
            StmtKind::CallAction(action, args) => {
                let mut inside = around.clone();
                args.iter().for_each(|arg| reads(arg, &mut inside));
                if let Some(action) = program.actions.get(*action) {
                    flows_of(program, &action.body, &inside, flows);
                }
            }
            _ => {}
        }
    }
}

/// Returns true if code, including the actions that it calls, assigns one of these fields.
pub(super) fn assigns(program: &Program, body: &[Stmt], fields: &HashSet<FieldId>) -> bool {
    let mut flows = Vec::new();
    flows_of(program, body, &HashSet::new(), &mut flows);
    flows.iter().any(|(to, _)| fields.contains(to))
}

/// Returns true if code may end its control.
pub(super) fn exits(program: &Program, body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Exit => true,
        StmtKind::If(_, then, otherwise) => exits(program, then) || exits(program, otherwise),
        StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
            exits(program, body)
        }
        StmtKind::CallAction(action, _) => {
            let action = program.actions.get(*action);
            action.is_some_and(|action| exits(program, &action.body))
        }
        _ => false,
    })
}

/// Adds the fields that an expression reads.
pub(super) fn reads(expr: &Expr, read: &mut HashSet<FieldId>) {
    match expr {
        Expr::Const(..) | Expr::Param(_) => {}
        Expr::Read(place) | Expr::VarbitLen(place) => {
            read.insert(place.base);
        }
        Expr::Unary(_, a) | Expr::Slice(a, ..) | Expr::Cast(_, a) => reads(a, read),
        Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
            reads(a, read);
            reads(b, read);
        }
        Expr::Ternary(a, b, c) => {
            reads(a, read);
            reads(b, read);
            reads(c, read);
        }
        Expr::VarbitEq(a, b) => read.extend([a.base, b.base]),
    }
}

/// Returns true if a condition reads only header validity, which a prefetch pass knows from the
/// parser's path.
fn is_parsed(program: &Program, cond: &Expr) -> bool {
    let mut read = HashSet::new();
    reads(cond, &mut read);
    let is_validity = |field: &FieldId| program.headers.values().any(|h| h.valid == *field);
    read.iter().all(is_validity)
}

/// Returns true if a lookup takes long enough that a useless one matters.
fn is_long(program: &Program, table: TableId) -> bool {
    let keys = program
        .tables
        .get(table)
        .map_or(&[][..], |table| &table.keys);
    let mut kinds = keys.iter().map(|key| key.match_kind);
    kinds.any(|kind| !matches!(kind, MatchKind::Exact | MatchKind::Lpm))
}

fn nexts_of(next: &MatchNext) -> Vec<Next> {
    match next {
        MatchNext::Always(next) => vec![*next],
        MatchNext::ByHit { hit, miss } => vec![*hit, *miss],
        MatchNext::ByAction(nexts) => nexts.clone(),
    }
}

fn nexts(kind: &StageKind) -> Vec<Next> {
    match kind {
        StageKind::Condition {
            then, otherwise, ..
        } => vec![*then, *otherwise],
        StageKind::Action { next, .. } => vec![*next],
        StageKind::Match { next, .. } => nexts_of(next),
    }
}

fn goes_back(control: &Control) -> bool {
    control.stages.iter().any(|(id, stage)| {
        let nexts = nexts(&stage.kind);
        nexts
            .iter()
            .any(|next| matches!(next, Next::Stage(to) if *to <= id))
    })
}

/// Returns true if code on only one of two paths assigns a field that is needed. A prefetch pass
/// that follows both paths would use the last assignment.
fn parts_assignments(
    program: &Program,
    control: &Control,
    ways: [Next; 2],
    asked_for: &HashSet<FieldId>,
) -> bool {
    let [one, other] = ways.map(|way| stages_behind(control, way));
    let mut alone = one.symmetric_difference(&other);
    alone.any(|stage| match control.stages.get(*stage).map(|s| &s.kind) {
        Some(StageKind::Action { body, .. }) => assigns(program, body, asked_for),
        _ => false,
    })
}

/// Returns the fields that conditions and keys of a control read.
fn asked_for(program: &Program, control: &Control) -> HashSet<FieldId> {
    let mut read = HashSet::new();
    for stage in control.stages.values() {
        checkpoint();
        match &stage.kind {
            StageKind::Condition { cond, .. } => reads(cond, &mut read),
            StageKind::Match { table, .. } => {
                let declared = program.tables.get(*table);
                let keys = declared.map_or(&[][..], |table| &table.keys);
                keys.iter().for_each(|key| reads(&key.expr, &mut read));
            }
            StageKind::Action { .. } => {}
        }
    }
    read
}

/// Returns the match stages that are reachable through a link.
fn tables_behind(control: &Control, next: Next) -> HashSet<StageId> {
    let mut stages = stages_behind(control, next);
    let is_match = |id: &StageId| {
        let stage = control.stages.get(*id);
        stage.is_some_and(|stage| matches!(stage.kind, StageKind::Match { .. }))
    };
    stages.retain(is_match);
    stages
}

/// Returns the stages that are reachable through a link.
fn stages_behind(control: &Control, next: Next) -> HashSet<StageId> {
    let mut seen = HashSet::new();
    let mut waiting = vec![next];
    while let Some(next) = waiting.pop() {
        checkpoint();
        if let Next::Stage(id) = next
            && seen.insert(id)
            && let Some(stage) = control.stages.get(id)
        {
            waiting.extend(nexts(&stage.kind));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates everything. Tables with one key are resolved at once.
    struct All<'p>(&'p Program);

    impl Follows for All<'_> {
        fn follows(&self, _: &Expr) -> bool {
            true
        }
        fn follows_place(&self, _: &Place) -> bool {
            true
        }
        fn is_scouted(&self, _: TableId, _: &Control) -> bool {
            true
        }
        fn is_answered_at_once(&self, table: TableId) -> bool {
            self.0.tables.get(table).is_some_and(|t| t.keys.len() == 1)
        }
    }

    /// Generates a table with these key fields. Its action writes the field named by its parameter.
    fn table(name: &str, keys: &[&str], writes: &str) -> String {
        let keys: String = keys
            .iter()
            .map(|key| format!(" key {key}: exact as bit<16> = {key};\n"))
            .collect();
        format!(
            "table {name} {{\n{keys} action to_{writes} table_and_default;\n default to_{writes}(16w0x0);\n size 16 declared;\n}}\n"
        )
    }

    #[test]
    fn keys_that_depend_on_small_tables_are_asked_for_on_the_level_of_those() {
        let fields = ["mac", "port", "vlan", "id", "way", "hop", "goal"];
        let declared: String = fields.map(|f| format!("field {f}: bit<16>\n")).concat();
        let actions: String = fields
            .map(|f| format!("action to_{f}(to: bit<16>) {{\n {f} = %to;\n}}\n"))
            .concat();
        let tables: [(&str, &[&str], &str, Level); 6] = [
            ("ports", &["port"], "vlan", 0),
            ("vlans", &["vlan"], "id", 0),
            ("routes", &["id", "mac"], "way", 0),
            ("ways", &["way"], "hop", 1),
            ("stations", &["hop", "mac"], "goal", 1),
            ("members", &["goal", "id"], "goal", 2),
        ];
        let all: String = tables
            .map(|(name, keys, writes, _)| table(name, keys, writes))
            .concat();
        let names = tables.map(|(name, ..)| name);
        let nexts = names[1..].iter().copied().chain(["end"]);
        let stages: String = names
            .iter()
            .zip(nexts)
            .map(|(name, next)| format!(" stage {name}: match {name} next {next};\n"))
            .collect();
        let text = format!("program p v1model\n{declared}{actions}{all}control c {{\n{stages}}}\n");
        let program = ir::read(&text).expect("the text is IR");
        let mut levels = LookupSchedule::default();
        let control = ControlId::new(0);
        levels.control(&program, control, &All(&program));
        for (stage, (name, _, _, level)) in tables.iter().enumerate() {
            let asked = levels.asked(control, StageId::new(stage as u32));
            assert_eq!(asked, Some(*level), "{name}");
        }
    }

    #[test]
    fn a_condition_is_looked_at_where_code_of_one_side_assigns_what_is_asked_for_behind() {
        let looked_at = |assigned: &str| {
            let text = format!(
                "program p v1model\nfield ttl: bit<16>\nfield port: bit<16>\nfield other: bit<16>\naction to_port(to: bit<16>) {{\n port = %to;\n}}\n{}{}\
                 control c {{\n stage may: condition ttl == 16w0x1 then way else drop;\n stage way: match way next gone;\n\
                 stage drop: action next gone {{\n {assigned} = 16w0x1ff;\n}}\n\
                 stage gone: condition port == 16w0x1ff then end else last;\n stage last: match last next end;\n}}\n",
                table("way", &["ttl"], "port"),
                table("last", &["ttl"], "port"),
            );
            let program = ir::read(&text).expect("the text is IR");
            let mut levels = LookupSchedule::default();
            levels.control(&program, ControlId::new(0), &All(&program));
            levels.decides(ControlId::new(0), StageId::new(0), 0)
        };
        assert!(looked_at("port"));
        assert!(!looked_at("other"));
    }
}
