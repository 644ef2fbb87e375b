//! The flows that a change of the control plane may affect.

use std::collections::BTreeSet;

use ir::{Program, TableId};
use switch::{Change, Record};

use super::known::{FlowId, Known, KnownFlows};

/// Returns the flows that must be traced again after a change. Those that are traced again anyway
/// may be left out.
pub(super) fn affected(
    known: &KnownFlows,
    is_suspect: &BTreeSet<FlowId>,
    program: &Program,
    record: &Record,
) -> Vec<FlowId> {
    let all = |test: &dyn Fn(&Known) -> bool| -> Vec<FlowId> {
        let flows = known.iter().filter(|(_, flow)| test(flow));
        flows.map(|(id, _)| id).collect()
    };
    let of_profile = |profile, test: &dyn Fn(&crate::flow::MetLookup) -> bool| {
        let uses = |id: TableId| {
            let table = program.tables.get(id);
            table.is_some_and(|table| table.implementation == Some(profile))
        };
        all(&|flow| {
            let mut met = flow.flow().met.lookups.iter();
            met.any(|met| uses(met.table) && test(met))
        })
    };
    match &record.change {
        Change::Insert(table, entry) => {
            let may_meet = |id: &FlowId| {
                // The comparison is slow where an entry has many keys.
                if is_suspect.contains(id) {
                    return false;
                }
                let flow = known.get(*id);
                flow.is_some_and(|flow| flow.traced.may_meet(program, *table, &entry.keys))
            };
            known.of_table(*table).filter(may_meet).collect()
        }
        Change::Modify(table, entry, ..) | Change::Delete(table, entry) => {
            known.of_entry(*table, Some(*entry)).collect()
        }
        Change::Clear(table) => known.of_table(*table).collect(),
        // An entry without a member to run runs the default action, too.
        Change::SetDefault(table, _) | Change::ResetDefault(table) => {
            let runs_default = |id: &FlowId| {
                let met = known.get(*id).map(|flow| &flow.flow().met.lookups[..]);
                let mut met = met.unwrap_or_default().iter();
                met.any(|met| {
                    let is_direct = met.group.is_none() && met.member.is_none();
                    met.table == *table && (met.entry.is_none() || !is_direct)
                })
            };
            known.of_table(*table).filter(runs_default).collect()
        }
        Change::SetMember { profile, id, .. } | Change::DeleteMember(profile, id) => {
            of_profile(*profile, &|met| met.member == Some(*id))
        }
        Change::SetGroup { profile, id, .. } | Change::DeleteGroup(profile, id) => {
            of_profile(*profile, &|met| met.group == Some(*id))
        }
        Change::SetMulticast(id, _) | Change::DeleteMulticast(id) => {
            all(&|flow| flow.flow().met.multicast_groups.contains(id))
        }
        Change::SetCloneSession(id, _) | Change::DeleteCloneSession(id) => {
            all(&|flow| flow.flow().met.clone_sessions.contains(id))
        }
        Change::SetValueSet(id, _) => all(&|flow| flow.flow().met.value_sets.contains(id)),
        Change::SetHashParameters(_) | Change::Program => all(&|_| true),
        // No flow depends on these.
        Change::WriteRegister(..)
        | Change::ResetRegister(_)
        | Change::SetMeter(..)
        | Change::ResetMeter(..)
        | Change::SetDirectMeter(..)
        | Change::WriteColorCounts(..)
        | Change::WriteDirectColorCounts(..)
        | Change::WriteCounter(..)
        | Change::WriteDirectCounter(..)
        | Change::SetMetadata(..)
        | Change::SetQueue(..)
        | Change::SetNote(..)
        | Change::SetHostPorts(_)
        | Change::SetExpireProfile(..)
        | Change::Learn(..)
        | Change::Expire(..)
        | Change::Relearn(..)
        | Change::Forget(..) => Vec::new(),
    }
}
