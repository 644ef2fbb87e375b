//! Statements that name an object to be removed.

use super::Reader;
use crate::error::{EntriesError, EntryError};
use crate::resolve::{self, Word};
use crate::schema::Schema;
use crate::update::UpdateTarget;

/// Reads one statement that names an object to be removed. An action or members after the name are
/// permitted and ignored.
pub(crate) fn read_target(
    schema: &Schema,
    file: &str,
    text: &str,
) -> Result<UpdateTarget, EntryError> {
    let mut reader = Reader::new(schema, text);
    reader.skip_to_statement();
    let target = reader.target();
    target.map_err(|fault| fault.locate(file, text))
}

impl<'a> Reader<'a> {
    fn target(&mut self) -> Result<UpdateTarget, EntriesError> {
        let first = self.name("a table, a profile, `multicast` or `clone`")?;
        let target = match first.text {
            "multicast" => UpdateTarget::Multicast(self.group_number()?),
            "clone" => UpdateTarget::Clone(self.session_number()?),
            "register" | "meter" | "counter" | "value_set" | "expire_profile" | "host_ports" => {
                let message = format!("a {} is not taken away, only changed", first.text);
                return Err(EntriesError::new(first.at(), message));
            }
            _ if self.keyword("member") => UpdateTarget::Member {
                profile: self.profile(first)?,
                id: self.number32("a member's number")?,
            },
            _ if self.keyword("group") => UpdateTarget::Group {
                profile: self.profile(first)?,
                id: self.number32("a group's number")?,
            },
            _ if self.keyword("default") => {
                UpdateTarget::Default(resolve::table(self.schema, first)?)
            }
            _ => return self.entry_target(first),
        };
        Ok(target)
    }

    fn entry_target(&mut self, name: Word<'a>) -> Result<UpdateTarget, EntriesError> {
        let table = resolve::open_table(self.schema, name)?;
        let keys = self.keys(table)?;
        self.skip_blanks(true);
        if self.eat("->") {
            self.entry_action(table)?;
        }
        let start = self.at;
        let options = self.entry_options()?;
        self.check_priority(table, name, options.priority, start)?;
        self.skip_blanks(true);
        if !self.rest().is_empty() && !self.eat(";") {
            let message = format!("the end is expected here, not {}", self.found());
            return Err(EntriesError::new(self.here(), message));
        }
        Ok(UpdateTarget::Entry {
            table,
            keys,
            priority: options.priority,
        })
    }
}
