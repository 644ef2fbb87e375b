//! Limits on the size of a function during translation.
//!
//! Cranelift compiles a function in one step that cannot be interrupted. Its time and memory grow
//! with the number of instructions, and with the number of variables times blocks. Both are counted
//! during translation, so that it ends early when a limit is exceeded.

use exec::Unsupported;
use ir::{Control, Loc, Parser, Program, StageKind, Transition};
use support::work::checkpoint;

use super::{Body, Translator};

/// Maximum number of instructions and values of one function.
pub(crate) const MAX_INSTS: usize = 150_000;

/// Maximum number of instructions and values of all functions of a program together.
pub(crate) const MAX_INSTS_TOGETHER: usize = 400_000;

/// Maximum product of the number of variables and the number of blocks of a function. SSA
/// construction stores a word for each pair.
const MAX_PLACES: usize = 16 << 20;

impl Translator<'_> {
    /// Checks the current size of the function. Each loop of the translation calls it once per
    /// iteration.
    ///
    /// # Errors
    /// The function exceeds a limit.
    pub(super) fn check_size(&self) -> Result<(), Unsupported> {
        self.check_room(0)
    }

    /// Checks that `insts` more instructions are allowed, before they are created.
    ///
    /// # Errors
    /// The function would exceed a limit.
    pub(super) fn check_room(&self, insts: usize) -> Result<(), Unsupported> {
        checkpoint();
        let dfg = &self.b.func.dfg;
        let size = dfg.num_insts().max(dfg.num_values()).saturating_add(insts);
        let limit = MAX_INSTS.min(self.insts_left);
        if size > limit {
            return Err(self.too_large(&match limit < MAX_INSTS {
                true => together(),
                false => format!("its function has more than {MAX_INSTS} instructions"),
            }));
        }
        let places = dfg.num_blocks().saturating_mul(self.variables);
        if places > MAX_PLACES {
            return Err(self.too_large(&format!(
                "its function has {} variables in {} blocks, and at most {MAX_PLACES} of one \
                 times the other are possible",
                self.variables,
                dfg.num_blocks(),
            )));
        }
        Ok(())
    }

    fn too_large(&self, reason: &str) -> Unsupported {
        let (body, what, loc) = largest(self.program, self.body);
        let loc = loc.or(self.loc);
        let file = |loc: &Loc| self.program.files.get(loc.file as usize);
        let at = loc.as_ref().and_then(|loc| {
            let Loc { line, column, .. } = loc;
            Some(format!(" at {}:{line}:{column}", file(loc)?))
        });
        let at = at.unwrap_or_default();
        Unsupported {
            construct: format!("{body} ({what}{at}): {reason}; the interpreter runs it"),
            loc,
        }
    }
}

/// Returns the error text for a program with too much code.
fn together() -> String {
    format!("the program's functions have more than {MAX_INSTS_TOGETHER} instructions together")
}

/// Returns the name of the body, a description of its largest construct, and the location of that.
fn largest(program: &Program, body: Body<'_>) -> (String, String, Option<Loc>) {
    let of_parser = |id| {
        let parser: &Parser = program.parsers.get(id)?;
        let name = format!("parser `{}`", parser.name);
        Some((name, largest_of_parser(parser)))
    };
    let of_control = |id| {
        let control: &Control = program.controls.get(id)?;
        let name = format!("control `{}`", control.name);
        Some((name, largest_of_control(program, control)))
    };
    let found = match body {
        Body::Parser(id) => of_parser(id),
        Body::Control(id) => of_control(id),
        Body::FastPath(_) | Body::Prefetch(..) | Body::Answers(..) => None,
    };
    let whole = || ("the program".to_owned(), (0, "all of it".to_owned(), None));
    let (name, (_, what, loc)) = found.unwrap_or_else(whole);
    (name, what, loc)
}

/// Size of a construct, its description, and its location.
type Counted = (usize, String, Option<Loc>);

/// Returns the first construct with the largest size.
fn most(first: Counted, others: impl Iterator<Item = Counted>) -> Counted {
    others.fold(first, |most, one| match most.0 >= one.0 {
        true => most,
        false => one,
    })
}

fn largest_of_parser(parser: &Parser) -> Counted {
    let count = parser.states.len();
    let start = parser.states.get(parser.start);
    let states = (count, format!("{count} states"), start.and_then(|s| s.loc));
    let inner = parser.states.values().flat_map(|state| {
        let statements = state.body.len();
        let cases = match &state.transition {
            Transition::Select { cases, .. } => cases.len(),
            Transition::Direct(_) => 0,
        };
        let name = &state.name;
        [
            (
                statements,
                format!("{statements} statements in state `{name}`"),
                state.loc,
            ),
            (
                cases,
                format!("{cases} select cases in state `{name}`"),
                state.loc,
            ),
        ]
    });
    most(states, inner)
}

fn largest_of_control(program: &Program, control: &Control) -> Counted {
    let count = control.stages.len();
    let first = control.stages.values().next().and_then(|stage| stage.loc);
    let stages = (count, format!("{count} stages"), first);
    let inner = control.stages.values().flat_map(|stage| {
        let mut found: Vec<Counted> = Vec::new();
        match &stage.kind {
            StageKind::Action { body, .. } => {
                let count = body.len();
                found.push((count, format!("{count} statements in a stage"), stage.loc));
            }
            StageKind::Match { table, .. } => {
                if let Some(table) = program.tables.get(*table) {
                    let (actions, keys) = (table.actions.len(), table.keys.len());
                    let name = &table.name;
                    found.push((
                        actions,
                        format!("{actions} actions of table `{name}`"),
                        table.loc,
                    ));
                    found.push((keys, format!("{keys} keys of table `{name}`"), table.loc));
                    let actions = table.actions.iter();
                    let actions = actions.filter_map(|one| program.actions.get(one.action));
                    found.extend(actions.map(|action| {
                        let (count, name) = (action.body.len(), &action.name);
                        let what = format!("{count} statements in action `{name}`");
                        (count, what, action.loc)
                    }));
                }
            }
            StageKind::Condition { .. } => {}
        }
        found
    });
    most(stages, inner)
}
