//! Entries of an emitted hypervisor, which can be formatted as entries file statements.

use std::fmt;

use bits::Value;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The table.
    pub table: String,
    /// Its keys, by name.
    pub keys: Vec<(&'static str, Key)>,
    /// Its priority.
    pub priority: Option<i32>,
    /// The action.
    pub action: String,
    /// The action's arguments, in order.
    pub args: Vec<Value>,
    /// Time without a hit after which the controller is notified, in nanoseconds.
    pub idle_timeout_ns: Option<u64>,
}

/// Match of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Exactly this value.
    Is(Value),
    /// A value with a mask.
    Masked(Value, Value),
    /// A range, with both bounds included.
    Between(u32, u32),
}

impl Entry {
    /// Returns the beginning of the entry's statement, which identifies it in its table.
    pub fn target(&self) -> String {
        let keys = self.keys.iter().filter(|(_, key)| !key.is_any());
        let keys: Vec<String> = keys.map(|(name, key)| format!("{name}: {key}")).collect();
        match keys.is_empty() {
            // Every table has a key. An entry that matches everything is written with the first
            // key.
            true => format!(
                "{} {{ {}: _ }}",
                self.table,
                self.keys.first().map_or("", |key| key.0)
            ),
            false => format!("{} {{ {} }}", self.table, keys.join("; ")),
        }
    }
}

impl Key {
    fn is_any(&self) -> bool {
        matches!(self, Key::Masked(_, mask) if mask.is_zero())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Is(value) => write!(f, "{}", short(value)),
            Key::Masked(value, mask) => write!(f, "{} &&& {}", short(value), short(mask)),
            Key::Between(low, high) => write!(f, "{low}..{high}"),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<String> = self.args.iter().map(short).collect();
        write!(
            f,
            "{} -> {}({})",
            self.target(),
            self.action,
            args.join(", ")
        )?;
        if let Some(priority) = self.priority {
            write!(f, " priority {priority}")?;
        }
        match self.idle_timeout_ns {
            Some(ns) => write!(f, " idle_timeout {ns}ns"),
            None => Ok(()),
        }
    }
}

/// Formats a number. Short numbers are decimal, others hexadecimal without leading zeros.
fn short(value: &Value) -> String {
    if let Some(number) = value.to_u64().filter(|number| *number < 1 << 16) {
        return number.to_string();
    }
    let digits: String = value
        .to_be_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("0x{}", digits.trim_start_matches('0'))
}
