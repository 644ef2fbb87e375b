//! Client arbitration (section "Client Arbitration and Controller Replication"): a state machine
//! without I/O. Its inputs are controllers that connect, send an arbitration update or disconnect.
//! Its outputs are the notifications to send.

use std::collections::BTreeMap;

use p4info::google::rpc::Status;
use p4info::p4::v1::{MasterArbitrationUpdate, Role, Uint128};
use prost_types::Any;
use support::name;
use tonic::Code;

use crate::request_error::{Checked, invalid, refuse};

/// Identifies a controller's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(pub(crate) u64);

/// Arbitration notifications for the controllers of one device and role.
pub(crate) type Notices = Vec<(ClientId, MasterArbitrationUpdate)>;

/// Maximum number of sessions of a role.
const MAX_CLIENTS: usize = 64;

/// Maximum number of roles of a device.
const MAX_ROLES: usize = 1024;

/// Arbitration state of one device.
#[derive(Debug)]
pub(crate) struct Arbiter {
    device_id: u64,
    /// A second device id that sessions may use.
    second_id: Option<u64>,
    roles: BTreeMap<String, RoleElection>,
    /// The role of each session.
    clients: BTreeMap<ClientId, String>,
}

/// Arbitration state (election) of one role.
#[derive(Debug, Default)]
struct RoleElection {
    /// True if controllers have named the role. If not, notifications have no role.
    is_named: bool,
    /// The device id that a session used, if it is not the device's own.
    numbers: BTreeMap<ClientId, u64>,
    config: Option<Any>,
    /// The highest election id ever received.
    highest: Option<u128>,
    live: BTreeMap<ClientId, Option<u128>>,
}

/// Returns an election id as a number.
pub(crate) fn number(id: &Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

impl RoleElection {
    fn primary(&self) -> Option<ClientId> {
        let highest = self.highest?;
        let mut live = self.live.iter();
        live.find(|(_, id)| **id == Some(highest))
            .map(|(id, _)| *id)
    }

    /// Returns the notification for one controller (section "Client Arbitration Notifications").
    fn notice(&self, device_id: u64, role: &str, client: ClientId) -> MasterArbitrationUpdate {
        let (code, message) = match self.primary() {
            Some(primary) if primary == client => (Code::Ok, "you are primary"),
            Some(_) => (
                Code::AlreadyExists,
                "you are backup: another controller is primary",
            ),
            None => (Code::NotFound, "you are backup: there is no primary"),
        };
        let role = self.is_named.then(|| Role {
            name: role.to_owned(),
            config: self.config.clone(),
            ..Role::default()
        });
        MasterArbitrationUpdate {
            device_id: self.numbers.get(&client).copied().unwrap_or(device_id),
            role,
            election_id: self.highest.map(|id| Uint128 {
                high: (id >> 64) as u64,
                low: id as u64,
            }),
            status: Some(Status {
                code: code as i32,
                message: message.to_owned(),
                details: Vec::new(),
            }),
        }
    }

    /// Returns the notifications for all controllers. The primary's is last, because it may begin
    /// to write at once.
    fn tell_all(&self, device_id: u64, role: &str) -> Notices {
        let primary = self.primary();
        let others = self.live.keys().copied().filter(|id| Some(*id) != primary);
        others
            .chain(primary)
            .map(|id| (id, self.notice(device_id, role, id)))
            .collect()
    }
}

impl Arbiter {
    pub(crate) fn new(device_id: u64, second_id: Option<u64>) -> Arbiter {
        Arbiter {
            device_id,
            second_id,
            roles: BTreeMap::new(),
            clients: BTreeMap::new(),
        }
    }

    /// Processes a controller's arbitration update (section "Rules for Handling
    /// `MasterArbitrationUpdate` Messages Received from Controllers").
    ///
    /// # Errors
    /// The error with which the session must be closed.
    pub(crate) fn ask(
        &mut self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
    ) -> Checked<Notices> {
        let given = update.role.as_ref();
        let name = given.map_or("", |role| role.name.as_str());
        if !name.is_empty() {
            name::check("a role's name", name).or_else(|error| invalid(error.to_string()))?;
        }
        self.check(client, update, name)?;
        let id = update.election_id.as_ref().map(number);
        let is_new_role = !self.roles.contains_key(name);
        if is_new_role && self.roles.len() >= MAX_ROLES {
            return refuse(Code::ResourceExhausted, "the device has too many roles");
        }
        let contest = self.roles.entry(name.to_owned()).or_default();
        let taken = |(other, theirs): (&ClientId, &Option<u128>)| {
            *other != client && id.is_some() && *theirs == id
        };
        if contest.live.iter().any(taken) {
            return refuse(
                Code::InvalidArgument,
                format!(
                    "the election id {} is used by another live controller of this role",
                    id.unwrap_or_default()
                ),
            );
        }
        if !contest.live.contains_key(&client) && contest.live.len() >= MAX_CLIENTS {
            return refuse(
                Code::ResourceExhausted,
                format!("the role has {MAX_CLIENTS} sessions, as many as it may"),
            );
        }
        contest.is_named |= given.is_some();
        let before = contest.primary();
        contest.live.insert(client, id);
        if update.device_id != self.device_id {
            contest.numbers.insert(client, update.device_id);
        }
        self.clients.insert(client, name.to_owned());
        if id.is_some() && id >= contest.highest {
            contest.highest = id;
            contest.config = given.and_then(|role| role.config.clone());
            return Ok(contest.tell_all(self.device_id, name));
        }
        if before == Some(client) {
            return Ok(contest.tell_all(self.device_id, name));
        }
        Ok(vec![(client, contest.notice(self.device_id, name, client))])
    }

    /// Checks an update against the device and the session's role.
    fn check(&self, client: ClientId, update: &MasterArbitrationUpdate, name: &str) -> Checked {
        if let Some(role) = &update.role
            && role.config.is_some()
        {
            // P4Runtime leaves role definitions to an agreement outside it. Here `@p4runtime_role`
            // in the program defines what a role may do.
            return refuse(
                Code::InvalidArgument,
                "role.config is set, but this server knows no role definitions; use @p4runtime_role in the program",
            );
        }
        if update.device_id != self.device_id && Some(update.device_id) != self.second_id {
            return refuse(
                Code::FailedPrecondition,
                format!(
                    "the session is for device {}, not {}",
                    self.device_id, update.device_id
                ),
            );
        }
        match self.clients.get(&client) {
            Some(role) if role != name => refuse(
                Code::FailedPrecondition,
                format!("the session is for the role `{role}`, not `{name}`; open another one"),
            ),
            _ => Ok(()),
        }
    }

    /// Removes the session of a controller that has disconnected.
    pub(crate) fn leave(&mut self, client: ClientId) -> Notices {
        let Some(role) = self.clients.remove(&client) else {
            return Notices::new();
        };
        let Some(contest) = self.roles.get_mut(&role) else {
            return Notices::new();
        };
        let was_primary = contest.primary() == Some(client);
        contest.live.remove(&client);
        contest.numbers.remove(&client);
        match was_primary {
            true => contest.tell_all(self.device_id, &role),
            false => Notices::new(),
        }
    }

    /// Returns true if a request with this role and election id comes from the primary; `None` if
    /// the role was never used.
    pub(crate) fn is_primary(&self, role: &str, id: Option<&Uint128>) -> Option<bool> {
        let contest = self.roles.get(role)?;
        let id = id.map(number);
        Some(contest.primary().is_some() && id.is_some() && id == contest.highest)
    }

    /// Returns the primaries of all roles.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = (&str, ClientId)> {
        self.roles
            .iter()
            .filter_map(|(role, contest)| Some((role.as_str(), contest.primary()?)))
    }

    /// Returns the primary of a role.
    pub(crate) fn primary(&self, role: &str) -> Option<ClientId> {
        self.roles.get(role)?.primary()
    }

    /// Returns the role of a session if the session is its primary.
    pub(crate) fn role_of_primary(&self, client: ClientId) -> Option<&str> {
        let role = self.clients.get(&client)?;
        let contest = self.roles.get(role)?;
        (contest.primary() == Some(client)).then_some(role.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn asks(id: Option<u64>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 1,
            election_id: id.map(|low| Uint128 { high: 0, low }),
            ..MasterArbitrationUpdate::default()
        }
    }

    fn with_role(id: u64, name: &str) -> MasterArbitrationUpdate {
        let name = name.to_owned();
        MasterArbitrationUpdate {
            role: Some(Role {
                name,
                ..Role::default()
            }),
            ..asks(Some(id))
        }
    }

    /// Summarizes notifications: session, code, highest election id.
    fn told(notices: &Notices) -> Vec<(u64, i32, Option<u64>)> {
        let short = |(client, update): &(ClientId, MasterArbitrationUpdate)| {
            let code = update.status.as_ref().map_or(-1, |status| status.code);
            (client.0, code, update.election_id.as_ref().map(|id| id.low))
        };
        notices.iter().map(short).collect()
    }

    const OK: i32 = Code::Ok as i32;
    const EXISTS: i32 = Code::AlreadyExists as i32;
    const NONE: i32 = Code::NotFound as i32;

    #[test]
    fn the_highest_election_id_is_primary_and_all_hear_of_a_change() {
        let mut arbiter = Arbiter::new(1, None);
        let ask = |arbiter: &mut Arbiter, who, id| arbiter.ask(who, &asks(id)).map(|n| told(&n));
        assert_eq!(ask(&mut arbiter, A, Some(5)), Ok(vec![(1, OK, Some(5))]));
        // Only the new backup is notified.
        assert_eq!(
            ask(&mut arbiter, B, Some(3)),
            Ok(vec![(2, EXISTS, Some(5))])
        );
        // The old primary is notified before the new one.
        let both = vec![(1, EXISTS, Some(7)), (2, OK, Some(7))];
        assert_eq!(ask(&mut arbiter, B, Some(7)), Ok(both.clone()));
        // The same update again counts as a new election.
        assert_eq!(ask(&mut arbiter, B, Some(7)), Ok(both));
    }

    #[test]
    fn a_primary_that_leaves_or_steps_down_leaves_none_until_someone_asks_as_high() {
        let mut arbiter = Arbiter::new(1, None);
        arbiter.ask(A, &asks(Some(5))).expect("the first");
        arbiter.ask(B, &asks(Some(3))).expect("a backup");
        assert_eq!(told(&arbiter.leave(A)), [(2, NONE, Some(5))]);
        let id = Uint128 { high: 0, low: 5 };
        assert_eq!(arbiter.is_primary("", Some(&id)), Some(false));
        let notices = arbiter.ask(B, &asks(Some(4))).expect("still lower");
        assert_eq!(told(&notices), [(2, NONE, Some(5))]);
        let notices = arbiter.ask(B, &asks(Some(5))).expect("as high");
        assert_eq!(told(&notices), [(2, OK, Some(5))]);
        arbiter.ask(A, &asks(Some(1))).expect("a backup");
        let notices = arbiter.ask(B, &asks(Some(2))).expect("steps down");
        assert_eq!(told(&notices), [(1, NONE, Some(5)), (2, NONE, Some(5))]);
    }

    #[test]
    fn without_an_election_id_a_controller_is_backup_and_zero_is_an_id() {
        let mut arbiter = Arbiter::new(1, None);
        let notices = arbiter.ask(A, &asks(None)).expect("a standby");
        assert_eq!(told(&notices), [(1, NONE, None)]);
        assert_eq!(arbiter.is_primary("", None), Some(false));
        let notices = arbiter.ask(B, &asks(Some(0))).expect("the lowest id");
        assert_eq!(told(&notices), [(1, EXISTS, Some(0)), (2, OK, Some(0))]);
    }

    #[test]
    fn an_election_id_in_use_another_role_and_another_device_end_the_session() {
        let mut arbiter = Arbiter::new(1, None);
        arbiter.ask(A, &asks(Some(5))).expect("the first");
        let code = |asked: Checked<Notices>| asked.err().map(|fault| fault.code);
        assert_eq!(
            code(arbiter.ask(B, &asks(Some(5)))),
            Some(Code::InvalidArgument)
        );
        let other = with_role(5, "other");
        assert_eq!(code(arbiter.ask(A, &other)), Some(Code::FailedPrecondition));
        let mut elsewhere = asks(Some(5));
        elsewhere.device_id = 2;
        assert_eq!(
            code(arbiter.ask(A, &elsewhere)),
            Some(Code::FailedPrecondition)
        );
        let mut configured = with_role(6, "other");
        configured.role.as_mut().expect("it has one").config = Some(Any::default());
        assert_eq!(
            code(arbiter.ask(B, &configured)),
            Some(Code::InvalidArgument)
        );
    }

    #[test]
    fn roles_are_elected_independently() {
        let mut arbiter = Arbiter::new(1, None);
        arbiter.ask(A, &with_role(5, "one")).expect("the first");
        let notices = arbiter.ask(B, &with_role(5, "two")).expect("the same id");
        assert_eq!(told(&notices), [(2, OK, Some(5))]);
        assert_eq!(arbiter.primaries().count(), 2);
        assert_eq!(arbiter.is_primary("three", None), None);
    }

    #[test]
    fn a_role_has_a_limited_number_of_sessions() {
        let mut arbiter = Arbiter::new(1, None);
        for client in 0..MAX_CLIENTS as u64 {
            arbiter
                .ask(ClientId(client), &asks(None))
                .expect("there is room");
        }
        let more = arbiter.ask(ClientId(1000), &asks(None));
        assert_eq!(
            more.map_err(|fault| fault.code),
            Err(Code::ResourceExhausted)
        );
    }
}
