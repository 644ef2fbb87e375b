//! Managed tables: their managers, and writes that become proposals.

use std::collections::BTreeSet;

use p4info::p4::v1 as rt;
use p4info::p4::v1::WriteRequest;
use p4info::p4::v1::stream_message_response::Update as Notice;
use p4info::p4::v1::write_request::Atomicity;
use p4info::polyplane::reflex::v1 as wire;
use prost_types::Any;
use tokio::time::{Instant, timeout_at};
use tonic::Code;

use super::{DeviceService, response};
use crate::arbiter::ClientId;
use crate::managed::{self, ProposedUpdates, TIMEOUT, pack, unpack};
use crate::pipeline::lock;
use crate::request_error::{Checked, refuse};
use crate::schema::Schema;
use crate::undo::Op;

/// Messages of a session that proposals leave room for: answers and notices.
const ROOM: usize = 256;

/// Guard of an arbitration: proposals of its role are refused as long as it lives.
pub(super) struct Arbitrating<'a> {
    service: &'a DeviceService,
    role: &'a str,
}

impl Drop for Arbitrating<'_> {
    fn drop(&mut self) {
        lock(&self.service.managed).arbitrate(self.role, false);
    }
}

impl DeviceService {
    /// Processes an extension message about managed tables. Returns false if it is another one.
    ///
    /// # Errors
    /// The session is not primary, or may not manage the tables.
    pub(super) async fn manage(&self, client: ClientId, message: &Any) -> Checked<bool> {
        if let Some(result) = unpack::<wire::ProposalResult>(message) {
            lock(&self.managed).answer(client, result);
            return Ok(true);
        }
        let Some(request) = unpack::<wire::ManageTables>(message) else {
            return Ok(false);
        };
        // Writes end before it.
        let pipeline = self.pipeline.write().await;
        let Some(role) = self.role_of_primary(client) else {
            return refuse(Code::PermissionDenied, "only the primary may manage tables");
        };
        let (config, _) = pipeline.current()?;
        for table in &request.table_ids {
            let view = config.schema.table_of(*table)?;
            crate::write::check_role("table", &view.name, view.role.as_deref(), &role)?;
        }
        let tables: BTreeSet<u32> = request.table_ids.iter().copied().collect();
        self.lines.managed(client, &role, tables.len());
        lock(&self.managed).manage(&role, client, tables)?;
        let sessions = lock(&self.sessions);
        if let Some(session) = sessions.live.get(&client) {
            // A session that takes no messages is ended by the next arbitration.
            let _ = session
                .answers
                .try_send(Ok(response(Notice::Other(pack(&request)))));
        }
        Ok(true)
    }

    /// Sends each manager a notice of a new program, with the tables that it still manages.
    pub(super) fn program_changed(&self, schema: &Schema) {
        let sessions = lock(&self.sessions);
        let stays = |table| schema.table_of(table).is_ok();
        for (session, tables) in lock(&self.managed).keep_tables(stays) {
            let notice = wire::ManageTables {
                table_ids: tables.into_iter().collect(),
            };
            if let Some(session) = sessions.live.get(&session) {
                // A session that takes no messages is ended by the next arbitration.
                let _ = session
                    .answers
                    .try_send(Ok(response(Notice::Other(pack(&notice)))));
            }
        }
    }

    /// Waits until the proposals of a role have ended, before an arbitration of it. Each ends after
    /// a time without a result, so this time is the longest wait. Others are refused as long as the
    /// guard lives.
    pub(super) async fn end_proposals<'a>(
        &'a self,
        update: &'a rt::MasterArbitrationUpdate,
    ) -> Arbitrating<'a> {
        let role = update.role.as_ref().map_or("", |role| role.name.as_str());
        lock(&self.managed).arbitrate(role, true);
        let service = self;
        let guard = Arbitrating { service, role };
        let (ends, limit) = (lock(&self.managed).ended(), Instant::now() + TIMEOUT);
        loop {
            let ended = ends.notified();
            tokio::pin!(ended);
            // From now on no notification is missed.
            ended.as_mut().enable();
            if !lock(&self.managed).has_proposal_of(role) {
                return guard;
            }
            if timeout_at(limit, ended).await.is_err() {
                return guard;
            }
        }
    }

    /// Refuses the updates of managed tables in a batch for a config that is saved.
    pub(super) fn refuse_managed(
        &self,
        schema: &Schema,
        request: &WriteRequest,
        ops: &mut [Checked<Op>],
    ) {
        let managed = lock(&self.managed);
        for (op, update) in ops.iter_mut().zip(&request.updates) {
            if op.is_ok() && managed.manager_of(update).is_some() {
                *op = Err(managed::is_saved(table_name(schema, update)));
            }
        }
    }

    /// Takes the updates of managed tables out of a batch, and proposes each to the manager of its
    /// table. `ops` has an element for each update.
    ///
    /// # Errors
    /// The batch is atomic.
    pub(super) fn propose(
        &self,
        schema: &Schema,
        request: &WriteRequest,
        ops: &mut Vec<Checked<Op>>,
    ) -> Checked<ProposedUpdates> {
        let sessions = lock(&self.sessions);
        let mut managed = lock(&self.managed);
        let mut proposed = ProposedUpdates::default();
        let mut others = Vec::with_capacity(ops.len());
        for ((place, op), update) in ops.drain(..).enumerate().zip(&request.updates) {
            let Some(manager) = managed.manager_of(update) else {
                others.push(op);
                continue;
            };
            let primary = sessions.arbiter.primary(manager.role);
            if manager.role == request.role && manager.session == primary {
                // The manager's own write.
                others.push(op);
                continue;
            }
            let table = table_name(schema, update);
            let is_alone = request.updates.len() == 1;
            if request.atomicity != Atomicity::ContinueOnError as i32 && !is_alone {
                return refuse(
                    Code::Unimplemented,
                    format!(
                        "the batch is atomic, and the table `{table}` is managed by a reflex plane, of which the store takes each update by itself; use CONTINUE_ON_ERROR"
                    ),
                );
            }
            let role = manager.role.to_owned();
            let session = manager.session.filter(|own| primary == Some(*own));
            let sent = op
                .and_then(|_| managed::check(table, update))
                .and_then(|()| {
                    let session = session.ok_or_else(|| managed::no_manager(table, &role))?;
                    let pending = managed.propose(session, &request.role)?;
                    let proposal = wire::ProposedUpdate {
                        number: pending.number(),
                        update: Some(update.clone()),
                    };
                    let message = Ok(response(Notice::Other(pack(&proposal))));
                    let to = sessions.live.get(&session);
                    let to = to.filter(|to| to.answers.capacity() > ROOM);
                    if to.is_some_and(|to| to.answers.try_send(message).is_ok()) {
                        return Ok(pending);
                    }
                    refuse(
                        Code::Unavailable,
                        "busy: the reflex plane does not take its messages; write again soon",
                    )
                });
            proposed.push(place, sent);
        }
        *ops = others;
        Ok(proposed)
    }
}

/// Returns the name of the table that an update changes.
fn table_name<'a>(schema: &'a Schema, update: &rt::Update) -> &'a str {
    let entity = update.entity.as_ref();
    let entry = match entity.and_then(|entity| entity.entity.as_ref()) {
        Some(rt::entity::Entity::TableEntry(entry)) => entry,
        _ => return "",
    };
    let view = schema.table_of(entry.table_id);
    view.map_or("", |view| view.name.as_str())
}
