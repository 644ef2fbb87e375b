//! Updates of controllers to managed tables: on their way from the switch to the store, and back as
//! commands. A state machine without I/O.
//!
//! An update is checked against the entries of the switch. One of several for the same entry is
//! under way; the others wait. Changes that no controller asked for go the same way: entries that
//! the switch has and the store does not, and the contents of entries that the switch refused to
//! change.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use consensus::{ChangeBytes, Key};
use p4info::p4::v1 as rt;
use p4info::p4::v1::entity::Entity;
use p4info::p4::v1::update::Type as UpdateType;
use p4info::polyplane::reflex::v1::{ProposalResult, ProposedUpdate};
use p4rt::Code;
use prost::Message;
use reflex::{DecisionRefusal, ElementUpdate};

use super::entries::{controller_name, plain};
use super::switch_entries::{SwitchEntries, change};

/// Time for which an update waits. The switch answers its controller then.
const WAIT: Duration = Duration::from_secs(5);
/// Changes without a controller that are under way at most.
const MAX_UNASKED: usize = 64;
/// Time after which a change without a controller is requested again.
const RETRY: Duration = Duration::from_secs(1);

/// Error of an update.
type Refused = (Code, String);

/// Update of a controller, by the switch's number.
struct Asked {
    number: u64,
    kind: UpdateType,
    entry: rt::TableEntry,
    since: Instant,
}

/// Reason of a change that the store was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A controller waits for it: the switch's number, and the name of the queue.
    Asked { number: u64, queue: Key },
    /// The switch has answered its controller that the result is unknown. It is not requested
    /// again: newer updates of the entry may be acknowledged.
    GivenUp,
    /// No controller asked for it: an entry that only the switch has, or a repair. It is requested
    /// until the store takes it.
    Unasked,
}

/// Change that the store was asked for.
struct UnderWay {
    name: Key,
    change: Option<ChangeBytes>,
    origin: Origin,
    since: Instant,
}

/// Updates of controllers of one connection.
pub(super) struct ControllerUpdates {
    /// Those that came before the switch had all of the store. `None` afterwards.
    early: Option<Vec<ProposedUpdate>>,
    /// Those that wait for an update of the same entry, by the names of controllers' entries. An
    /// entry with an update under way has a queue.
    queues: HashMap<Key, VecDeque<Asked>>,
    /// Changes that the store was asked for, by their numbers.
    under_way: HashMap<u64, UnderWay>,
    /// Their numbers by the names of the entries, in their order.
    names: HashMap<Key, VecDeque<u64>>,
    last_token: u64,
    /// Changes without a controller that wait.
    unasked: VecDeque<(Key, Option<ChangeBytes>)>,
    unasked_under_way: usize,
    /// Time before which none of them is requested.
    unasked_after: Option<Instant>,
    /// Requests for the store.
    requests: Vec<ElementUpdate>,
    /// Results for the switch.
    results: Vec<ProposalResult>,
}

impl ControllerUpdates {
    /// Creates the state of a connection. `last_token` is the greatest number of earlier ones.
    pub(super) fn new(last_token: u64) -> ControllerUpdates {
        ControllerUpdates {
            early: Some(Vec::new()),
            queues: HashMap::new(),
            under_way: HashMap::new(),
            names: HashMap::new(),
            last_token,
            unasked: VecDeque::new(),
            unasked_under_way: 0,
            unasked_after: None,
            requests: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Returns the greatest number of a request.
    pub(super) fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Returns whether the switch has all of the store.
    pub(super) fn is_settled(&self) -> bool {
        self.early.is_none()
    }

    /// Takes the requests for the store.
    pub(super) fn take_requests(&mut self) -> Vec<ElementUpdate> {
        std::mem::take(&mut self.requests)
    }

    /// Takes the results for the switch.
    pub(super) fn take_results(&mut self) -> Vec<ProposalResult> {
        std::mem::take(&mut self.results)
    }

    /// Takes an update of a controller.
    pub(super) fn propose(
        &mut self,
        update: ProposedUpdate,
        entries: &SwitchEntries,
        now: Instant,
    ) {
        if let Some(early) = &mut self.early {
            early.push(update);
            return;
        }
        let number = update.number;
        let Some((kind, entry)) = read(update) else {
            let refused = (
                Code::InvalidArgument,
                "it is no update of an entry".to_owned(),
            );
            return self.result(number, Err(refused));
        };
        let queue = controller_name(&entry);
        let asked = Asked {
            number,
            kind,
            entry,
            since: now,
        };
        match self.queues.get_mut(&queue) {
            Some(waiting) => waiting.push_back(asked),
            None => {
                self.queues.insert(queue, VecDeque::from([asked]));
                self.next_of(&queue, entries, now);
            }
        }
    }

    /// Takes the notice that the switch has all of the store.
    pub(super) fn settle(&mut self, entries: &SwitchEntries, now: Instant) {
        for update in self.early.take().unwrap_or_default() {
            self.propose(update, entries, now);
        }
    }

    /// Takes a change that no controller asked for.
    pub(super) fn request_unasked(&mut self, name: Key, change: Option<ChangeBytes>) {
        self.unasked.push_back((name, change));
    }

    /// Requests changes that no controller asked for, some at a time. Gives up updates of which the
    /// switch has answered the controller: they are made later if the store has taken them.
    pub(super) fn step(&mut self, entries: &SwitchEntries, now: Instant) {
        let mut queues = Vec::new();
        for under_way in self.under_way.values_mut() {
            if now > under_way.since + WAIT
                && let Origin::Asked { queue, .. } = under_way.origin
            {
                under_way.origin = Origin::GivenUp;
                queues.push(queue);
            }
        }
        for queue in queues {
            self.next_of(&queue, entries, now);
        }
        if self.unasked_after.is_some_and(|after| now < after) {
            return;
        }
        while self.unasked_under_way < MAX_UNASKED
            && let Some((name, change)) = self.unasked.pop_front()
        {
            self.unasked_under_way += 1;
            self.request((name, change), Origin::Unasked, now);
        }
    }

    /// Takes the result of a committed change at the switch, after it is noted in `entries`.
    pub(super) fn done(
        &mut self,
        (name, change): (Key, Option<ChangeBytes>),
        result: Result<(), Refused>,
        entries: &SwitchEntries,
        now: Instant,
    ) {
        let mut tokens = self.names.get(&name).into_iter().flatten();
        let own = tokens.find(|token| {
            let under_way = self.under_way.get(token);
            under_way.is_some_and(|under_way| under_way.change == change)
        });
        let own = own.copied();
        // What the store has and the switch refused is put right, so that both are equal.
        if result.is_err()
            && own.is_some()
            && let Some(there) = entries.change_of(&name)
            && there != change
        {
            self.request_unasked(name, there);
        }
        if let Some(token) = own {
            self.end(token, result, entries, now);
        }
    }

    /// Takes the notice that the store did not take a request.
    pub(super) fn refuse(
        &mut self,
        token: u64,
        refusal: DecisionRefusal,
        entries: &SwitchEntries,
        now: Instant,
    ) {
        let Some(under_way) = self.under_way.get(&token) else {
            return;
        };
        if under_way.origin == Origin::Unasked {
            self.unasked.push_front((under_way.name, under_way.change));
            self.unasked_after = Some(now + RETRY);
        }
        self.end(token, Err(refused_by_store(refusal)), entries, now);
    }

    fn end(
        &mut self,
        token: u64,
        result: Result<(), Refused>,
        entries: &SwitchEntries,
        now: Instant,
    ) {
        let Some(ended) = self.under_way.remove(&token) else {
            return;
        };
        if let Some(tokens) = self.names.get_mut(&ended.name) {
            tokens.retain(|it| *it != token);
            if tokens.is_empty() {
                self.names.remove(&ended.name);
            }
        }
        match ended.origin {
            Origin::Asked { number, queue } => {
                self.result(number, result);
                self.next_of(&queue, entries, now);
            }
            Origin::GivenUp => {}
            Origin::Unasked => self.unasked_under_way -= 1,
        }
    }

    /// Requests the first update of a queue that is allowed, and answers those before it.
    fn next_of(&mut self, queue: &Key, entries: &SwitchEntries, now: Instant) {
        while let Some(asked) = self.queues.get_mut(queue).and_then(VecDeque::pop_front) {
            if now > asked.since + WAIT {
                // The switch answered its controller.
                continue;
            }
            match decide(&asked, entries) {
                Ok(change) => {
                    let (number, queue) = (asked.number, *queue);
                    return self.request(change, Origin::Asked { number, queue }, asked.since);
                }
                Err(refused) => self.result(asked.number, Err(refused)),
            }
        }
        self.queues.remove(queue);
    }

    fn request(
        &mut self,
        (name, change): (Key, Option<ChangeBytes>),
        origin: Origin,
        since: Instant,
    ) {
        self.last_token += 1;
        let token = self.last_token;
        let under_way = UnderWay {
            name,
            change,
            origin,
            since,
        };
        self.under_way.insert(token, under_way);
        self.names.entry(name).or_default().push_back(token);
        self.requests.push(ElementUpdate {
            token,
            name,
            change,
        });
    }

    fn result(&mut self, number: u64, result: Result<(), Refused>) {
        let (code, message) = result.err().unwrap_or((Code::Ok, String::new()));
        self.results.push(ProposalResult {
            number,
            canonical_code: code as i32,
            message,
        });
    }
}

/// Reads the entry of an update, in the form of the store.
fn read(update: ProposedUpdate) -> Option<(UpdateType, rt::TableEntry)> {
    let update = update.update?;
    match update.entity.as_ref()?.entity.as_ref()? {
        Entity::TableEntry(entry) => Some((update.r#type(), plain(entry))),
        _ => None,
    }
}

/// Returns the change that an update is, with the name of its entry.
fn decide(asked: &Asked, entries: &SwitchEntries) -> Result<(Key, Option<ChangeBytes>), Refused> {
    let found = entries.find(&asked.entry);
    let own = controller_name(&asked.entry);
    let written = |entry: &rt::TableEntry| {
        let too_long = || {
            let most = consensus::MAX_CHANGE - 3;
            let bytes = entry.encoded_len();
            let message = format!(
                "too_long: the entry has {bytes} bytes, and the store of the reflex plane keeps {most}; shorten its metadata"
            );
            (Code::ResourceExhausted, message)
        };
        change(entry).map(Some).ok_or_else(too_long)
    };
    match (asked.kind, found) {
        (UpdateType::Insert, Some((_, entry))) => {
            let message = format!(
                "the table has the entry already, of {}",
                entries.owner(entry)
            );
            Err((Code::AlreadyExists, message))
        }
        (UpdateType::Insert, None) => Ok((own, written(&asked.entry)?)),
        (UpdateType::Delete, Some((name, _))) => Ok((name, None)),
        (UpdateType::Modify, Some((_, entry))) if entry.reflex.is_some() => {
            let message = format!(
                "the entry is of {}; delete it, and insert one of yours",
                entries.owner(entry)
            );
            Err((Code::PermissionDenied, message))
        }
        (UpdateType::Modify, Some((name, entry))) => {
            let mut changed = asked.entry.clone();
            // An update without an action leaves it (P4Runtime, section 9.1).
            if changed.action.is_none() && !changed.is_default_action {
                changed.action.clone_from(&entry.message.action);
            }
            Ok((name, written(&changed)?))
        }
        (UpdateType::Modify, None) if asked.entry.is_default_action => {
            Ok((own, written(&asked.entry)?))
        }
        (UpdateType::Modify | UpdateType::Delete, None) => {
            Err((Code::NotFound, "the table has no such entry".to_owned()))
        }
        (UpdateType::Unspecified, _) => {
            let message = "the update's type is not set: INSERT, MODIFY or DELETE".to_owned();
            Err((Code::InvalidArgument, message))
        }
    }
}

/// Returns the error of an update that the store did not take.
fn refused_by_store(refusal: DecisionRefusal) -> Refused {
    let code = match refusal {
        DecisionRefusal::NoQuorum | DecisionRefusal::Disk => Code::Unavailable,
        _ => Code::ResourceExhausted,
    };
    let reason = match refusal {
        DecisionRefusal::NoQuorum => "the store of the reflex plane has no leader",
        DecisionRefusal::Disk => "the store of the reflex plane cannot keep entries on its disk",
        DecisionRefusal::StoreFull => "the store of the reflex plane has no room for the entry",
        _ => "too many requests wait at the store of the reflex plane",
    };
    let message = format!("{}: {reason}; nothing was written", refusal.name());
    (code, message)
}

#[cfg(test)]
mod tests {
    use consensus::{ElementChange, ElementId, LogIndex};
    use p4info::p4::v1::field_match::{Exact, FieldMatchType};
    use p4info::p4::v1::table_action::Type as ActionType;

    use super::super::entries::BoundTable;
    use super::super::switch_entries::{Planned, update_of};
    use super::*;

    /// A switch with its entries, and the updates of controllers to it.
    struct Rig {
        entries: SwitchEntries,
        updates: ControllerUpdates,
        now: Instant,
        last_number: u64,
    }

    /// Returns an entry with this key and argument.
    fn entry(key: u8, argument: u8, metadata: &str) -> rt::TableEntry {
        let field = |field_id, value| rt::FieldMatch {
            field_id,
            field_match_type: Some(FieldMatchType::Exact(Exact { value: vec![value] })),
        };
        let param = rt::action::Param {
            param_id: 1,
            value: vec![argument],
        };
        let action = rt::Action {
            action_id: 9,
            params: vec![param],
        };
        rt::TableEntry {
            table_id: 7,
            r#match: vec![field(1, key), field(2, 80)],
            action: Some(rt::TableAction {
                r#type: Some(ActionType::Action(action)),
            }),
            metadata: metadata.as_bytes().to_vec(),
            ..rt::TableEntry::default()
        }
    }

    impl Rig {
        fn new() -> Rig {
            let table = BoundTable::for_test(false, Some(1));
            let mut rig = Rig {
                entries: SwitchEntries::new(vec![Some(table)]),
                updates: ControllerUpdates::new(0),
                now: Instant::now(),
                last_number: 0,
            };
            rig.updates.settle(&rig.entries, rig.now);
            rig
        }

        fn propose(&mut self, kind: UpdateType, entry: rt::TableEntry) {
            self.last_number += 1;
            let update = ProposedUpdate {
                number: self.last_number,
                update: Some(update_of(kind, entry)),
            };
            self.updates.propose(update, &self.entries, self.now);
        }

        /// Commits all requests, of which the switch refuses with this code.
        fn commit(&mut self, code: Option<Code>) -> Vec<ElementUpdate> {
            self.updates.step(&self.entries, self.now);
            let requests = self.updates.take_requests();
            for request in &requests {
                let change = ElementChange {
                    element: ElementId(1),
                    key: request.name,
                    change: request.change,
                    previous: LogIndex(0),
                    index: LogIndex(1),
                };
                let planned = self.entries.plan(&change);
                let mut result = Ok(());
                if let (Planned::Write(write), Some(code)) = (planned, code) {
                    let (_, former) = *write;
                    self.entries.put_back(request.name, former, code as i32);
                    result = Err((code, "refused".to_owned()));
                }
                let change = (request.name, request.change);
                self.updates.done(change, result, &self.entries, self.now);
            }
            requests
        }

        /// Returns the codes of the results since the last call, by number.
        fn codes(&mut self) -> Vec<(u64, Code)> {
            let results = self.updates.take_results().into_iter();
            let codes = results.map(|it| (it.number, Code::from_i32(it.canonical_code)));
            codes.collect()
        }
    }

    #[test]
    fn updates_of_one_entry_follow_each_other_and_see_its_last_state() {
        let mut rig = Rig::new();
        rig.propose(UpdateType::Insert, entry(1, 3, "mine"));
        rig.propose(UpdateType::Insert, entry(1, 4, "mine"));
        rig.propose(UpdateType::Modify, entry(1, 5, "mine"));
        rig.propose(UpdateType::Delete, entry(2, 5, ""));
        assert_eq!(rig.codes(), [(4, Code::NotFound)]);
        assert_eq!(rig.commit(None).len(), 1);
        assert_eq!(rig.codes(), [(1, Code::Ok), (2, Code::AlreadyExists)]);
        let modified = rig.commit(None);
        assert_eq!(modified[0].change, change(&entry(1, 5, "mine")));
        assert_eq!(rig.codes(), [(3, Code::Ok)]);
        // An update without an action leaves it.
        let without = rt::TableEntry {
            action: None,
            ..entry(1, 0, "other")
        };
        rig.propose(UpdateType::Modify, without);
        let modified = rig.commit(None);
        assert_eq!(modified[0].change, change(&entry(1, 5, "other")));
        rig.propose(UpdateType::Delete, entry(1, 0, ""));
        assert_eq!(rig.commit(None)[0].change, None);
        assert_eq!(rig.codes(), [(5, Code::Ok), (6, Code::Ok)]);
        assert!(rig.updates.under_way.is_empty() && rig.updates.names.is_empty());
        assert!(rig.updates.queues.is_empty());
    }

    #[test]
    fn an_entry_of_a_loop_is_deleted_by_its_own_name_and_not_modified() {
        let mut rig = Rig::new();
        rig.entries.read(&entry(1, 3, "reflex detour"));
        rig.propose(UpdateType::Insert, entry(1, 3, "mine"));
        rig.propose(UpdateType::Modify, entry(1, 4, "mine"));
        let refused = [(1, Code::AlreadyExists), (2, Code::PermissionDenied)];
        assert_eq!(rig.codes(), refused);
        rig.propose(UpdateType::Delete, entry(1, 0, ""));
        let table = BoundTable::for_test(false, Some(1));
        let name = table.name(0, &entry(1, 0, "")).unwrap();
        let requests = rig.commit(None);
        assert_eq!((requests[0].name, requests[0].change), (name, None));
        assert_eq!(rig.codes(), [(3, Code::Ok)]);
        assert_eq!(rig.entries.find(&entry(1, 0, "")), None);
    }

    #[test]
    fn what_the_store_refuses_is_answered_by_name_and_the_next_one_is_requested() {
        let mut rig = Rig::new();
        rig.propose(UpdateType::Insert, entry(1, 3, ""));
        rig.propose(UpdateType::Insert, entry(1, 4, ""));
        let first = rig.updates.take_requests();
        let refusal = DecisionRefusal::NoQuorum;
        let token = first[0].token;
        rig.updates.refuse(token, refusal, &rig.entries, rig.now);
        let results = rig.updates.take_results();
        assert_eq!(results[0].canonical_code, Code::Unavailable as i32);
        let words = &results[0].message;
        assert!(words.starts_with("no_quorum: "), "{words}");
        assert_eq!(rig.commit(None)[0].change, change(&entry(1, 4, "")));
        assert_eq!(rig.codes(), [(2, Code::Ok)]);
        // One that waits for longer than the switch does is not requested.
        rig.propose(UpdateType::Modify, entry(1, 5, ""));
        rig.propose(UpdateType::Modify, entry(1, 6, ""));
        rig.now += WAIT + Duration::from_millis(1);
        rig.updates.step(&rig.entries, rig.now);
        rig.propose(UpdateType::Modify, entry(1, 7, ""));
        let changes: Vec<_> = rig.commit(None).iter().map(|it| it.change).collect();
        assert_eq!(
            changes,
            [change(&entry(1, 5, "")), change(&entry(1, 7, ""))]
        );
        assert_eq!(rig.codes(), [(5, Code::Ok)]);
        assert_eq!(rig.updates.unasked_under_way, 0);
        assert!(rig.updates.take_requests().is_empty());
    }

    #[test]
    fn an_update_that_was_given_up_and_refused_is_not_requested_again() {
        let mut rig = Rig::new();
        rig.entries.read(&entry(1, 3, ""));
        rig.propose(UpdateType::Modify, entry(1, 4, ""));
        let old = rig.updates.take_requests()[0].token;
        rig.now += WAIT + Duration::from_millis(1);
        rig.updates.step(&rig.entries, rig.now);
        rig.propose(UpdateType::Modify, entry(1, 5, ""));
        let refusal = DecisionRefusal::NoQuorum;
        rig.updates.refuse(old, refusal, &rig.entries, rig.now);
        assert_eq!(rig.commit(None)[0].change, change(&entry(1, 5, "")));
        assert_eq!(rig.codes(), [(2, Code::Ok)]);
        rig.now += 2 * RETRY;
        assert!(rig.commit(None).is_empty());
        assert!(rig.updates.under_way.is_empty());
    }

    #[test]
    fn what_the_switch_refuses_is_put_right_in_the_store() {
        let mut rig = Rig::new();
        rig.propose(UpdateType::Insert, entry(1, 3, ""));
        let name = rig.commit(Some(Code::ResourceExhausted))[0].name;
        assert_eq!(rig.codes(), [(1, Code::ResourceExhausted)]);
        let repair = rig.commit(None);
        assert_eq!((repair[0].name, repair[0].change), (name, None));
        rig.entries.read(&entry(1, 3, ""));
        for kind in [UpdateType::Modify, UpdateType::Delete] {
            rig.propose(kind, entry(1, 4, ""));
            rig.commit(Some(Code::PermissionDenied));
            let repair = rig.commit(None);
            assert_eq!(repair[0].change, change(&entry(1, 3, "")));
        }
        assert_eq!(rig.updates.unasked_under_way, 0);
        assert!(rig.updates.under_way.is_empty());
    }

    #[test]
    fn entries_that_the_store_does_not_have_are_requested_a_few_at_a_time_and_again() {
        let mut rig = Rig::new();
        for key in 0..100 {
            rig.entries.read(&entry(key, 3, ""));
        }
        rig.entries.read(&entry(200, 3, "reflex detour"));
        rig.entries.read(&entry(201, 3, "reflex of another file"));
        rig.entries.read(&entry(202, 3, &"long ".repeat(30)));
        for (name, change) in rig.entries.unknown() {
            rig.updates.request_unasked(name, Some(change));
        }
        rig.updates.step(&rig.entries, rig.now);
        let first = rig.updates.take_requests();
        assert_eq!(first.len(), MAX_UNASKED);
        for request in &first {
            let (busy, entries) = (DecisionRefusal::Busy, &rig.entries);
            rig.updates.refuse(request.token, busy, entries, rig.now);
        }
        assert!(rig.commit(None).is_empty());
        rig.now += RETRY;
        assert_eq!(rig.commit(None).len(), MAX_UNASKED);
        assert_eq!(rig.commit(None).len(), 100 - MAX_UNASKED);
        assert!(rig.entries.unknown().is_empty());
        assert!(rig.codes().is_empty());
    }

    #[test]
    fn updates_wait_until_the_switch_has_all_of_the_store() {
        let mut rig = Rig::new();
        rig.updates = ControllerUpdates::new(5);
        rig.propose(UpdateType::Modify, entry(1, 4, ""));
        assert!(rig.updates.take_requests().is_empty() && rig.codes().is_empty());
        rig.entries.read(&entry(1, 3, ""));
        rig.updates.settle(&rig.entries, rig.now);
        assert_eq!(rig.commit(None)[0].token, 6);
        assert_eq!(rig.codes(), [(1, Code::Ok)]);
    }

    #[test]
    fn an_entry_that_is_too_long_is_refused_with_its_length() {
        let mut rig = Rig::new();
        let long = entry(1, 3, &"m".repeat(200));
        rig.propose(UpdateType::Insert, long);
        let results = rig.updates.take_results();
        let words = &results[0].message;
        assert!(words.starts_with("too_long: the entry has 2"), "{words}");
        assert!(words.contains("keeps 125"), "{words}");
    }
}
