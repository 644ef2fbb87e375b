//! Looks up a program's tables and actions by name, and builds entries with values of the right
//! widths.

use bits::Value;
use ir::{ActionCall, KeyMatch, Program, TableId};
use std::fmt;

/// Error: the program lacks an object that its workload names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    /// The missing object, as in `table routes`.
    pub name: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program has no {}", self.name)
    }
}

impl std::error::Error for NameError {}

/// A match on one key field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Matches any value.
    Any,
    /// Matches one value.
    Is(u64),
    /// Longest prefix match: value and prefix length.
    Lpm(u64, u32),
    /// Matches one value of up to 128 bits.
    Wide(u128),
    /// Longest prefix match of up to 128 bits.
    WideLpm(u128, u32),
    /// Ternary match: value and mask.
    Mask(u64, u64),
    /// Range match: both bounds, inclusive.
    Range(u64, u64),
}

/// A table of a program.
#[derive(Debug, Clone)]
pub struct TableName {
    /// Its id.
    pub id: TableId,
    widths: Vec<u32>,
}

/// An action of a table.
#[derive(Debug, Clone)]
pub struct ActionName {
    /// Index in the table's list of actions.
    position: usize,
    widths: Vec<u32>,
}

/// Returns true if `full` is `name` or ends with a dot and `name`.
fn is_called(full: &str, name: &str) -> bool {
    full.strip_suffix(name)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Returns the last component of a dotted name.
pub(crate) fn last_name(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

impl TableName {
    /// Returns the table with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(program: &Program, name: &str) -> Result<Self, NameError> {
        let found = program
            .tables
            .iter()
            .find(|(_, t)| is_called(&t.name, name));
        let (id, table) = found.ok_or_else(|| NameError {
            name: format!("table {name}"),
        })?;
        let spec = exec::table_spec(program, table);
        let widths = spec.shape.fields().iter().map(|field| field.width);
        Ok(Self {
            id,
            widths: widths.collect(),
        })
    }

    /// Returns the action with this name.
    ///
    /// # Errors
    /// The table has none.
    pub fn action(&self, program: &Program, name: &str) -> Result<ActionName, NameError> {
        let actions = program.tables[self.id].actions.iter();
        let named = actions
            .map(|listed| &program.actions[listed.action])
            .enumerate();
        let mut named = named.filter(|(_, action)| is_called(&action.control_plane_name, name));
        let (position, action) = named.next().ok_or_else(|| NameError {
            name: format!(
                "action {name} in the table {}",
                program.tables[self.id].name
            ),
        })?;
        let widths = action.params.iter().map(|param| param.ty.width());
        Ok(ActionName {
            position,
            widths: widths.collect(),
        })
    }

    /// Returns the id of an action as entries have it.
    ///
    /// # Errors
    /// The table has no such action.
    pub(crate) fn listed(&self, program: &Program, name: &str) -> Result<u32, NameError> {
        let position = self.action(program, name)?.position;
        Ok(program.tables[self.id].actions[position].action.get())
    }

    /// Converts the matches to those of the IR.
    pub(crate) fn keys(&self, keys: &[Key]) -> Vec<KeyMatch> {
        let both = self.widths.iter().zip(keys);
        both.map(|(&width, key)| key_match(*key, width)).collect()
    }
}

impl ActionName {
    /// Returns a call with these arguments.
    pub(crate) fn call(&self, args: &[u64]) -> ActionCall {
        let both = self.widths.iter().zip(args);
        ActionCall {
            action: self.position,
            args: both
                .map(|(&width, &arg)| Value::truncated(arg.into(), width))
                .collect(),
        }
    }
}

fn key_match(key: Key, width: u32) -> KeyMatch {
    let value = |number: u64| Value::truncated(number.into(), width);
    let wide = |number: u128| Value::truncated(number, width);
    match key {
        Key::Any => KeyMatch::Any,
        Key::Is(number) => KeyMatch::Exact(value(number)),
        Key::Lpm(number, len) => KeyMatch::Lpm(value(number), len),
        Key::Wide(number) => KeyMatch::Exact(wide(number)),
        Key::WideLpm(number, len) => KeyMatch::Lpm(wide(number), len),
        Key::Mask(number, mask) => KeyMatch::Ternary(value(number), value(mask)),
        Key::Range(lo, hi) => KeyMatch::Range(value(lo), value(hi)),
    }
}
