//! Switch halves as P4_16 text for v1model, and what the text means.

use std::collections::{BTreeMap, BTreeSet};

use ir::{ActionId, ExternId, ExternKind, Program, StageKind, Stmt, StmtKind};
use passes::p4::PrintError;
use passes::split::SplitProgram;

/// Error of a switch half that is printed and compiled again.
#[derive(Clone, Debug)]
pub enum SwitchTextError {
    /// The switch half has a construct without P4 text.
    Print(PrintError),
    /// The text does not compile: the diagnostics.
    Compile(String),
    /// The compiled text does not have the tables, actions and externs of the switch half.
    Objects(String),
}

impl std::fmt::Display for SwitchTextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SwitchTextError::Print(error) => write!(f, "{error}"),
            SwitchTextError::Compile(error) => write!(f, "the text does not compile: {error}"),
            SwitchTextError::Objects(error) => write!(f, "the text has other objects: {error}"),
        }
    }
}

impl std::error::Error for SwitchTextError {}

/// Prints a switch half. Returns its text, and the program that the text is.
///
/// # Errors
/// The text cannot be written or does not compile.
pub fn print(switch: &Program, file: &str) -> Result<(String, Program), SwitchTextError> {
    let text = passes::p4::print(switch).map_err(SwitchTextError::Print)?;
    let program = driver::compile_text(file, &text)
        .map_err(|error| SwitchTextError::Compile(error.to_string()))?;
    Ok((text, program))
}

/// Replaces the switch half by its own text, compiled again.
///
/// # Errors
/// The text cannot be written or does not compile, or its tables are others.
pub fn through_text(split: &SplitProgram) -> Result<SplitProgram, SwitchTextError> {
    let file = format!("{}_switch.p4", split.switch.name);
    let (_, switch) = print(&split.switch, &file)?;
    let switch = number_as(&split.switch, switch).map_err(SwitchTextError::Objects)?;
    Ok(SplitProgram {
        switch,
        ..split.clone()
    })
}

/// Numbers the tables, actions and externs of a compiled text as those of the switch half, by their
/// names: changes of the whole program's tables fit the result. Objects of the text alone are last.
fn number_as(half: &Program, mut text: Program) -> Result<Program, String> {
    let Program {
        mut tables,
        mut externs,
        ..
    } = Program::empty(&text.name, text.arch);
    let mut table_ids = BTreeMap::new();
    let mut action_ids: BTreeMap<ActionId, ActionId> = BTreeMap::new();
    let order = |name: &str| text.tables.iter().find(|(_, table)| table.name == name);
    for table in half.tables.values() {
        let found = order(&table.name);
        let Some((id, found)) = found else {
            return Err(format!("no table `{}`", table.name));
        };
        if action_names(half, table) != action_names(&text, found) {
            return Err(format!("the actions of table `{}`", table.name));
        }
        for (own, other) in table.actions.iter().zip(&found.actions) {
            if *action_ids.entry(other.action).or_insert(own.action) != own.action {
                return Err(format!("an action of table `{}`", table.name));
            }
        }
        table_ids.insert(id, tables.push(found.clone()));
    }
    for (id, table) in text.tables.iter() {
        table_ids
            .entry(id)
            .or_insert_with(|| tables.push(table.clone()));
    }
    let mut extern_ids = BTreeMap::new();
    for made in half.externs.values() {
        let mut own = text.externs.iter();
        let found = own.find(|(_, own)| own.name == made.name);
        match found {
            Some((id, own)) => {
                extern_ids.insert(id, externs.push(own.clone()));
            }
            // The switch calls no handler, so the text has none.
            None if matches!(made.kind, ExternKind::Handler { .. }) => {
                externs.push(made.clone());
            }
            None => return Err(format!("no extern `{}`", made.name)),
        }
    }
    for (id, made) in text.externs.iter() {
        extern_ids
            .entry(id)
            .or_insert_with(|| externs.push(made.clone()));
    }
    // Actions of no table only have to differ from the others.
    let mut actions = half.actions.clone();
    for (id, action) in text.actions.iter() {
        match action_ids.get(&id) {
            Some(&own) => actions[own] = action.clone(),
            None => {
                action_ids.insert(id, actions.push(action.clone()));
            }
        }
    }
    let listed: BTreeSet<ActionId> = action_ids.values().copied().collect();
    for (id, action) in actions.iter_mut() {
        if !listed.contains(&id) {
            // The text does not have it.
            action.body.clear();
        }
    }
    let new = |id: &mut Option<ExternId>| {
        if let Some(id) = id {
            *id = extern_ids[id];
        }
    };
    for (_, table) in tables.iter_mut() {
        new(&mut table.implementation);
        new(&mut table.direct_counter);
        new(&mut table.direct_meter);
        for listed in &mut table.actions {
            listed.action = action_ids[&listed.action];
        }
    }
    let change = &|stmt: &mut StmtKind| match stmt {
        StmtKind::Call(call) => new(&mut call.instance),
        StmtKind::CallAction(action, _) => *action = action_ids[action],
        _ => {}
    };
    for (_, action) in actions.iter_mut() {
        each_stmt(&mut action.body, change);
    }
    for (_, parser) in text.parsers.iter_mut() {
        for (_, state) in parser.states.iter_mut() {
            each_stmt(&mut state.body, change);
        }
    }
    for (_, control) in text.controls.iter_mut() {
        for (_, stage) in control.stages.iter_mut() {
            match &mut stage.kind {
                StageKind::Match { table, .. } => *table = table_ids[table],
                StageKind::Action { body, .. } => each_stmt(body, change),
                StageKind::Condition { .. } => {}
            }
        }
    }
    text.tables = tables;
    text.actions = actions;
    text.externs = externs;
    Ok(text)
}

fn action_names<'p>(program: &'p Program, table: &ir::Table) -> Vec<&'p str> {
    let actions = table.actions.iter();
    actions
        .map(|listed| program.actions[listed.action].control_plane_name.as_str())
        .collect()
}

/// Changes all statements.
fn each_stmt(body: &mut [Stmt], change: &impl Fn(&mut StmtKind)) {
    for stmt in body {
        change(&mut stmt.kind);
        match &mut stmt.kind {
            StmtKind::If(_, then, otherwise) => {
                each_stmt(then, change);
                each_stmt(otherwise, change);
            }
            StmtKind::Block(_, body) | StmtKind::Loop(_, body) | StmtKind::Atomic(body) => {
                each_stmt(body, change);
            }
            _ => {}
        }
    }
}
