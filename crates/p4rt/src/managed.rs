//! Managed tables: writes to them by other controllers go to the controller that manages them, as
//! proposals over its session, and are answered with its result.
//!
//! The primary of a role becomes the manager of tables by a message of its session. The tables stay
//! managed when it goes, so that no write passes its store: writes are refused until the primary of
//! the role manages them again, or gives them back.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::table_action::Type as ActionType;
use p4info::polyplane::reflex::v1 as wire;
use prost::{Message, Name};
use prost_types::Any;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use crate::arbiter::ClientId;
use crate::request_error::{Checked, RequestError, refuse};

/// Time after which a proposal without a result is answered as unknown.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of proposals without a result.
const MAX_PROPOSALS: usize = 1024;

/// Packs an extension message of a session.
pub fn pack<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}

/// Reads an extension message of a session. `None` if it is of another type or malformed.
pub fn unpack<M: Message + Name + Default>(message: &Any) -> Option<M> {
    let name = message.type_url.rsplit('/').next()?;
    let is_own = name == M::full_name();
    is_own.then(|| M::decode(&message.value[..]).ok()).flatten()
}

/// Result of a proposal; dropped without one if its manager goes.
type Answer = oneshot::Sender<Checked>;

/// Managed tables of a device, with the proposals that have no result yet.
#[derive(Debug, Default)]
pub(crate) struct ManagedTables {
    /// Managers by their roles.
    managers: BTreeMap<String, Manager>,
    proposals: HashMap<u64, Proposal>,
    last_number: u64,
    /// Notified when a proposal has ended.
    ended: Arc<Notify>,
    /// Roles of which a controller asks to be primary, with their number.
    arbitrating: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Manager {
    /// Its session; `None` if it has gone.
    session: Option<ClientId>,
    tables: BTreeSet<u32>,
}

#[derive(Debug)]
struct Proposal {
    manager: ClientId,
    /// Role of the controller that writes.
    role: String,
    /// Closed if the write does not wait for it any more.
    answer: Answer,
}

/// A write's wait for the result of its proposal. The proposal ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingResult {
    number: u64,
    answer: oneshot::Receiver<Checked>,
    deadline: Instant,
    ended: Arc<Notify>,
}

impl PendingResult {
    /// Returns the number of the proposal.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for the result until the deadline, which is fixed when the update is proposed.
    async fn result(mut self) -> Checked {
        match timeout_at(self.deadline, &mut self.answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => refuse(
                Code::Unavailable,
                "unknown: the reflex plane that took the write has gone, and the write may be done; read the entry",
            ),
            Err(_) => {
                let seconds = TIMEOUT.as_secs();
                let message = format!(
                    "unknown: no answer of the reflex plane within {seconds} s, and the write may be done later; read the entry"
                );
                refuse(Code::DeadlineExceeded, message)
            }
        }
    }
}

impl Drop for PendingResult {
    fn drop(&mut self) {
        self.answer.close();
        self.ended.notify_waiters();
    }
}

/// Manager of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ManagerOf<'a> {
    /// Its role.
    pub(crate) role: &'a str,
    /// Its session; `None` if it has gone.
    pub(crate) session: Option<ClientId>,
}

impl ManagedTables {
    /// Makes the primary of a role the manager of these tables, and of no others. Proposals at its
    /// role's last manager get no result.
    ///
    /// # Errors
    /// A controller of another role manages one of them.
    pub(crate) fn manage(
        &mut self,
        role: &str,
        session: ClientId,
        tables: BTreeSet<u32>,
    ) -> Checked {
        let mut others = self.managers.iter().filter(|(other, _)| *other != role);
        let taken = others.find_map(|(other, manager)| {
            let mut both = manager.tables.intersection(&tables);
            both.next().map(|table| (other, *table))
        });
        if let Some((other, table)) = taken {
            return refuse(
                Code::FailedPrecondition,
                format!("{} manages the table with the id {table}", role_name(other)),
            );
        }
        if let Some(before) = self.managers.remove(role) {
            self.forget(before.session);
        }
        if !tables.is_empty() {
            let session = Some(session);
            let manager = Manager { session, tables };
            self.managers.insert(role.to_owned(), manager);
        }
        Ok(())
    }

    /// Notes the end of a session.
    pub(crate) fn leave(&mut self, session: ClientId) {
        for manager in self.managers.values_mut() {
            if manager.session == Some(session) {
                manager.session = None;
            }
        }
        self.forget(Some(session));
    }

    /// Ends the proposals at a session without a result.
    fn forget(&mut self, session: Option<ClientId>) {
        self.proposals
            .retain(|_, proposal| Some(proposal.manager) != session);
    }

    /// Returns the manager of the table that an update changes.
    pub(crate) fn manager_of(&self, update: &rt::Update) -> Option<ManagerOf<'_>> {
        let table = table_entry(update)?.table_id;
        let mut managers = self.managers.iter();
        let (role, manager) = managers.find(|(_, it)| it.tables.contains(&table))?;
        Some(ManagerOf {
            role,
            session: manager.session,
        })
    }

    /// Returns the notice of ends of proposals.
    pub(crate) fn ended(&self) -> Arc<Notify> {
        Arc::clone(&self.ended)
    }

    /// Keeps only these tables managed, after the program changed. Returns the sessions of all
    /// managers, with the tables that they keep. The proposals there get no result.
    pub(crate) fn keep_tables(
        &mut self,
        stays: impl Fn(u32) -> bool,
    ) -> Vec<(ClientId, BTreeSet<u32>)> {
        let mut sessions = Vec::new();
        for manager in self.managers.values_mut() {
            manager.tables.retain(|table| stays(*table));
            let session = manager.session.into_iter();
            sessions.extend(session.map(|session| (session, manager.tables.clone())));
        }
        self.managers
            .retain(|_, manager| !manager.tables.is_empty());
        for (session, _) in &sessions {
            self.forget(Some(*session));
        }
        sessions
    }

    /// Adds a proposal.
    ///
    /// # Errors
    /// Too many have no result, or a controller asks to be primary of the role.
    pub(crate) fn propose(&mut self, manager: ClientId, role: &str) -> Checked<PendingResult> {
        if self.arbitrating.contains_key(role) {
            return refuse(
                Code::Unavailable,
                "another controller asks to be primary of the role; write again if this one stays primary",
            );
        }
        if self.proposals.len() >= MAX_PROPOSALS {
            self.forget_ended();
        }
        if self.proposals.len() >= MAX_PROPOSALS {
            return refuse(
                Code::ResourceExhausted,
                format!("busy: {MAX_PROPOSALS} writes to managed tables wait; write again soon"),
            );
        }
        self.last_number += 1;
        let (answer, answered) = oneshot::channel();
        let proposal = Proposal {
            manager,
            role: role.to_owned(),
            answer,
        };
        self.proposals.insert(self.last_number, proposal);
        Ok(PendingResult {
            number: self.last_number,
            answer: answered,
            deadline: Instant::now() + TIMEOUT,
            ended: self.ended(),
        })
    }

    /// Takes a result. One without a proposal came too late and is ignored.
    pub(crate) fn answer(&mut self, session: ClientId, result: wire::ProposalResult) {
        let own = self.proposals.get(&result.number);
        if own.is_some_and(|own| own.manager == session)
            && let Some(proposal) = self.proposals.remove(&result.number)
        {
            let checked = match Code::from_i32(result.canonical_code) {
                Code::Ok => Ok(()),
                code => refuse(code, result.message),
            };
            // The call may have ended.
            let _ = proposal.answer.send(checked);
        }
    }

    /// Forgets the proposals of which no write awaits the result.
    fn forget_ended(&mut self) {
        self.proposals
            .retain(|_, proposal| !proposal.answer.is_closed());
    }

    /// Begins or ends to refuse proposals of a role, while a controller asks to be its primary.
    pub(crate) fn arbitrate(&mut self, role: &str, begins: bool) {
        let count = self.arbitrating.entry(role.to_owned()).or_default();
        match begins {
            true => *count += 1,
            false => *count -= 1,
        }
        self.arbitrating.retain(|_, count| *count > 0);
    }

    /// Returns true if a write of a role awaits the result of its proposal.
    pub(crate) fn has_proposal_of(&mut self, role: &str) -> bool {
        self.forget_ended();
        let mut proposals = self.proposals.values();
        proposals.any(|proposal| proposal.role == role)
    }
}

/// Returns the entry that an update changes, if it is one of a table.
fn table_entry(update: &rt::Update) -> Option<&rt::TableEntry> {
    match update.entity.as_ref()?.entity.as_ref()? {
        Entity::TableEntry(entry) => Some(entry),
        _ => None,
    }
}

/// Checks that an update of a managed table is one that the store can keep.
pub(crate) fn check(table: &str, update: &rt::Update) -> Checked {
    let Some(entry) = table_entry(update) else {
        return Ok(());
    };
    let action = entry.action.as_ref();
    let action = action.and_then(|action| action.r#type.as_ref());
    let unfit = if !matches!(action, None | Some(ActionType::Action(_))) {
        "members and groups of action profiles are not in the store: give an action"
    } else if entry.counter_data.is_some() || entry.meter_counter_data.is_some() {
        "counts are not in the store: write them as DirectCounterEntry"
    } else {
        return Ok(());
    };
    refuse(
        Code::Unimplemented,
        format!("the table `{table}` is managed by a reflex plane, and {unfit}"),
    )
}

/// Returns the error of a write to a table of which the manager has gone.
pub(crate) fn no_manager(table: &str, role: &str) -> RequestError {
    let role = role_name(role);
    let message = format!(
        "no_quorum: a reflex plane of {role} manages the table `{table}`, and no leader of its store is connected; write again when one is"
    );
    RequestError::new(Code::Unavailable, message)
}

/// Returns the error of a write to a managed table while the config that is saved, and not the one
/// that runs, takes writes.
pub(crate) fn is_saved(table: &str) -> RequestError {
    let message = format!(
        "a config is saved, and the table `{table}` is managed by a reflex plane, of which the store holds the entries of the config that runs; commit the saved config first (COMMIT)"
    );
    RequestError::new(Code::FailedPrecondition, message)
}

/// Result of an update that is proposed, or the error with which it was not.
type Proposed = Checked<PendingResult>;

/// Updates of a batch that are proposed, by their places in it.
#[derive(Debug, Default)]
pub(crate) struct ProposedUpdates(Vec<(usize, Proposed)>);

impl ProposedUpdates {
    pub(crate) fn push(&mut self, place: usize, proposed: Proposed) {
        self.0.push((place, proposed));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for the results, and puts them to those of the other updates, by place.
    pub(crate) async fn complete(self, others: Vec<Checked>) -> Vec<Checked> {
        let mut results = others;
        // Places increase: each result moves those after it.
        for (place, proposed) in self.0 {
            let result = match proposed {
                Ok(pending) => pending.result().await,
                Err(fault) => Err(fault),
            };
            results.insert(place.min(results.len()), result);
        }
        results
    }
}

/// Returns a role for messages. The default role has no name.
pub(crate) fn role_name(role: &str) -> String {
    match role {
        "" => "the default role".to_owned(),
        role => format!("the role `{role}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn write_to(table_id: u32) -> rt::Update {
        let entry = rt::TableEntry {
            table_id,
            ..rt::TableEntry::default()
        };
        rt::Update {
            entity: Some(rt::Entity {
                entity: Some(Entity::TableEntry(entry)),
            }),
            ..rt::Update::default()
        }
    }

    #[test]
    fn tables_stay_managed_when_their_manager_goes_until_they_are_given_back() {
        let mut managed = ManagedTables::default();
        assert_eq!(managed.manager_of(&write_to(7)), None);
        managed.manage("", A, BTreeSet::from([7, 8])).unwrap();
        let session = |managed: &ManagedTables| managed.manager_of(&write_to(7)).unwrap().session;
        assert_eq!(session(&managed), Some(A));
        assert_eq!(managed.manager_of(&write_to(9)), None);
        let taken = managed.manage("other", B, BTreeSet::from([8]));
        assert_eq!(taken.unwrap_err().code, Code::FailedPrecondition);
        managed.leave(A);
        assert_eq!(session(&managed), None);
        managed.manage("", B, BTreeSet::from([7])).unwrap();
        assert_eq!(session(&managed), Some(B));
        assert_eq!(managed.manager_of(&write_to(8)), None);
        managed.manage("", B, BTreeSet::new()).unwrap();
        assert_eq!(managed.manager_of(&write_to(7)), None);
    }

    #[test]
    fn a_proposal_gets_its_result_from_its_manager_only() {
        let mut managed = ManagedTables::default();
        managed.manage("", A, BTreeSet::from([7])).unwrap();
        let mut pending = managed.propose(A, "other").unwrap();
        let number = pending.number();
        assert!(managed.has_proposal_of("other"));
        let result = wire::ProposalResult {
            number,
            canonical_code: Code::AlreadyExists as i32,
            message: "there".to_owned(),
        };
        managed.answer(B, result.clone());
        assert!(pending.answer.try_recv().is_err());
        managed.answer(A, result);
        let refused = pending.answer.try_recv().unwrap().unwrap_err();
        assert_eq!(refused.code, Code::AlreadyExists);
        assert!(!managed.has_proposal_of("other"));
        // Of a manager that goes, or is replaced, there is none.
        for goes in [true, false] {
            let mut pending = managed.propose(A, "other").unwrap();
            match goes {
                true => managed.leave(A),
                false => managed.manage("", B, BTreeSet::from([7])).unwrap(),
            }
            let closed = oneshot::error::TryRecvError::Closed;
            assert_eq!(pending.answer.try_recv(), Err(closed));
            managed.manage("", A, BTreeSet::from([7])).unwrap();
        }
    }

    #[test]
    fn proposals_are_refused_while_they_are_too_many_or_the_role_is_contested() {
        let mut managed = ManagedTables::default();
        managed.manage("", A, BTreeSet::from([7])).unwrap();
        managed.arbitrate("other", true);
        managed.arbitrate("other", true);
        managed.arbitrate("other", false);
        let contested = managed.propose(A, "other").unwrap_err();
        assert_eq!(contested.code, Code::Unavailable);
        managed.arbitrate("other", false);
        let mut waiting: Vec<_> = (0..MAX_PROPOSALS)
            .map(|_| managed.propose(A, "other").unwrap())
            .collect();
        let full = managed.propose(A, "third").unwrap_err();
        assert_eq!(full.code, Code::ResourceExhausted);
        // A write that does not wait any more ends its proposal.
        drop(waiting.pop());
        assert!(managed.propose(A, "third").is_ok());
        drop(waiting);
        assert!(!managed.has_proposal_of("other"));
    }

    #[test]
    fn tables_that_a_new_program_lacks_are_not_managed() {
        let mut managed = ManagedTables::default();
        managed.manage("", A, BTreeSet::from([7, 8])).unwrap();
        managed.manage("other", B, BTreeSet::from([9])).unwrap();
        let mut pending = managed.propose(A, "third").unwrap();
        let sessions = managed.keep_tables(|table| table == 7);
        assert_eq!(sessions, [(A, BTreeSet::from([7])), (B, BTreeSet::new())]);
        let closed = oneshot::error::TryRecvError::Closed;
        assert_eq!(pending.answer.try_recv(), Err(closed));
        let is_managed = [7, 8, 9].map(|table| managed.manager_of(&write_to(table)).is_some());
        assert_eq!(is_managed, [true, false, false]);
    }

    #[test]
    fn results_are_at_the_places_of_their_updates() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let mut proposed = ProposedUpdates::default();
        let refused = |code| refuse(code, "");
        proposed.push(0, refused(Code::Aborted));
        proposed.push(2, refused(Code::NotFound));
        let others = vec![Ok(()), refuse(Code::AlreadyExists, "")];
        let all = runtime.unwrap().block_on(proposed.complete(others));
        let codes: Vec<Code> = all
            .into_iter()
            .map(|it| it.map_or_else(|fault| fault.code, |()| Code::Ok))
            .collect();
        let expected = [Code::Aborted, Code::Ok, Code::NotFound, Code::AlreadyExists];
        assert_eq!(codes, expected);
    }
}
