//! Commands for packet replication: `mc_*` for multicast groups, `mirroring_*` for clone sessions.

use super::{COMMANDS, CommandKind, Line, number32};
use crate::error::EntriesError;
use crate::ports;
use crate::resolve::Word;

/// Kind of a number in a command.
#[derive(Clone, Copy)]
enum Number {
    Group,
    Session,
    Instance,
    Handle,
    Port,
}

/// Returns the kinds of a command's numbers. The last kind applies to all further numbers.
fn numbers_of(keyword: &str) -> &'static [Number] {
    use Number::{Group, Handle, Instance, Port, Session};
    match keyword {
        "mc_mgrp_create" | "mc_mgrp_destroy" => &[Group],
        "mc_node_create" => &[Instance, Port],
        "mc_node_update" => &[Handle, Port],
        "mc_node_associate" | "mc_node_dissociate" => &[Group, Handle],
        "mirroring_add" => &[Session, Port],
        "mirroring_add_mc" => &[Session, Group],
        "mirroring_delete" | "mirroring_get" => &[Session],
        _ => &[Handle],
    }
}

impl<'a> Line<'a> {
    pub(super) fn replication(
        &self,
        keyword: &str,
        name: Word<'a>,
        args: &[Word<'a>],
    ) -> Result<CommandKind, EntriesError> {
        let numbers: Result<Vec<u32>, EntriesError> =
            args.iter().map(|word| number32(*word)).collect();
        let numbers = numbers?;
        self.check_numbers(keyword, args, &numbers)?;
        Ok(match (keyword, &numbers[..]) {
            ("mc_mgrp_create", &[group]) => CommandKind::GroupCreate(group),
            ("mc_mgrp_destroy", &[group]) => CommandKind::GroupDestroy(group),
            ("mc_node_create", [rid, ports @ ..]) => CommandKind::NodeCreate {
                rid: *rid,
                ports: ports.to_vec(),
            },
            ("mc_node_update", [handle, ports @ ..]) => CommandKind::NodeUpdate {
                handle: *handle,
                ports: ports.to_vec(),
            },
            ("mc_node_destroy", &[handle]) => CommandKind::NodeDestroy(handle),
            ("mc_node_associate", &[group, handle]) => CommandKind::NodeAssociate { group, handle },
            ("mc_node_dissociate", &[group, handle]) => {
                CommandKind::NodeDissociate { group, handle }
            }
            ("mirroring_add", &[session, port]) => CommandKind::MirrorToPort { session, port },
            ("mirroring_add_mc", &[session, group]) => {
                CommandKind::MirrorToGroup { session, group }
            }
            ("mirroring_delete", &[session]) => CommandKind::MirrorDelete(session),
            ("mirroring_get", &[session]) => CommandKind::MirrorGet(session),
            _ if COMMANDS.contains(&keyword) => return Err(self.usage(keyword)),
            _ => return Err(self.unknown(name)),
        })
    }

    /// Checks that the architecture has such ports, groups and sessions.
    fn check_numbers(
        &self,
        keyword: &str,
        args: &[Word<'a>],
        numbers: &[u32],
    ) -> Result<(), EntriesError> {
        let arch = self.schema.arch;
        let kinds = numbers_of(keyword);
        let last = kinds.last().copied().unwrap_or(Number::Handle);
        for (at, (word, &number)) in args.iter().zip(numbers).enumerate() {
            match kinds.get(at).copied().unwrap_or(last) {
                Number::Group => ports::check_group(arch, number, word.at())?,
                Number::Session => {
                    ports::check_session(arch, number, word.at())?;
                }
                Number::Instance => {
                    ports::check_instance(arch, number, word.at())?;
                }
                Number::Port => {
                    ports::check_copy(arch, number, word.at())?;
                    // The first number is the instance or handle, not a port.
                    if at > 1 && numbers[1..at].contains(&number) {
                        let message = format!("port {number} is given twice");
                        return Err(EntriesError::new(word.at(), message));
                    }
                }
                Number::Handle => {}
            }
        }
        Ok(())
    }
}
