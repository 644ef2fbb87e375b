//! Stream messages of sessions, and events of the device.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use p4info::p4::v1 as rt;
use p4info::p4::v1::StreamMessageResponse;
use p4info::p4::v1::stream_message_response::Update as Notice;
use prost_types::Any;
use tokio::sync::mpsc;
use tonic::Code;

use super::DeviceService;
use crate::arbiter::ClientId;
use crate::control::Event;
use crate::data::{DataCoder, scalars};
use crate::digests::List;
use crate::packet_io;
use crate::pipeline::lock;
use crate::read;
use crate::request_error::{Checked, invalid, refuse};
use crate::schema::Schema;

/// Number of messages that wait for a primary, from which on extension messages wait too.
const MANY_ANSWERS: usize = 64;

/// Time after which a slow primary is checked again.
const BEHIND_WAIT: Duration = Duration::from_millis(1);

impl DeviceService {
    /// Processes a packet-out of a controller.
    pub(crate) async fn packet_out(&self, client: ClientId, packet: &rt::PacketOut) -> Checked {
        if self.role_of_primary(client).is_none() {
            return refuse(Code::PermissionDenied, "only the primary may send packets");
        }
        let (arch, bytes) = {
            let pipeline = self.pipeline.read().await;
            let Some(running) = &pipeline.running else {
                return refuse(
                    Code::FailedPrecondition,
                    "no forwarding pipeline config is set",
                );
            };
            let schema = &running.schema;
            (schema.program.arch, packet_io::packet_out(schema, packet)?)
        };
        self.remote.send(arch, bytes)?;
        self.cells.packet_outs.add(1);
        Ok(())
    }

    /// Processes an acknowledgement of a digest list.
    pub(crate) async fn acknowledge(&self, client: ClientId, ack: &rt::DigestListAck) -> Checked {
        if self.role_of_primary(client).is_none() {
            return refuse(
                Code::PermissionDenied,
                "only the primary acknowledges digests",
            );
        }
        let pipeline = self.pipeline.read().await;
        let (config, _) = pipeline.current()?;
        let Some(view) = config.schema.digests.get(&ack.digest_id) else {
            return invalid(format!("there is no digest with the id {}", ack.digest_id));
        };
        lock(&self.digests).acknowledge(view.instance, ack.list_id);
        Ok(())
    }

    /// Processes an extension message of a controller. Waits while many wait for the device.
    pub(crate) async fn extend(&self, client: ClientId, message: &Any) -> Checked {
        if self.manage(client, message).await? {
            return Ok(());
        }
        if !self.extensions.iter().any(|url| *url == message.type_url) {
            let message = format!(
                "messages of the type `{}` mean nothing here",
                message.type_url
            );
            return refuse(Code::Unimplemented, message);
        }
        if self.role_of_primary(client).as_deref() != Some("") {
            return refuse(
                Code::PermissionDenied,
                "only the primary of the default role may send extension messages",
            );
        }
        self.remote.extend(message.clone()).await
    }

    // Events of the device.

    /// Forwards events of the device to sessions until the device has stopped.
    pub(crate) async fn pass_on(self: Arc<Self>, mut events: mpsc::Receiver<Event>) {
        loop {
            let next = lock(&self.digests).next_time(&lock(&self.extras).digests);
            let wait = next.map(|at| Duration::from_nanos(at.saturating_sub(self.now())));
            let event = match wait {
                None => events.recv().await,
                Some(wait) => match tokio::time::timeout(wait, events.recv()).await {
                    Ok(event) => event,
                    Err(_) => {
                        self.send_due().await;
                        continue;
                    }
                },
            };
            match event {
                Some(event) => self.tell(event).await,
                None => return,
            }
        }
    }

    async fn tell(&self, event: Event) {
        let pipeline = self.pipeline.read().await;
        let Some(running) = &pipeline.running else {
            return;
        };
        let schema = &running.schema;
        match event {
            Event::PacketIn(bytes) => match packet_io::packet_in(schema, &bytes) {
                Some(packet) => {
                    let told = self.notify(None, Notice::Packet(packet));
                    self.cells.packet_ins.add(told);
                }
                None => self.lose(),
            },
            Event::Digest(digest) if Arc::ptr_eq(&digest.program, &schema.program) => {
                let config = lock(&self.extras).digests.get(&digest.digest).copied();
                let Some(config) = config else { return };
                let now = self.now();
                let list = lock(&self.digests).take(digest.digest, digest.limbs, now, &config);
                if let Some(list) = list {
                    self.send_list(schema, &list);
                }
            }
            Event::Idle(program, table, entries) if Arc::ptr_eq(&program, &schema.program) => {
                let Some(view) = schema.tables.values().find(|view| view.table == table) else {
                    return;
                };
                let entries = entries
                    .iter()
                    .map(|entry| read::idle_entry(schema, view, entry));
                let notice = rt::IdleTimeoutNotification {
                    table_entry: entries.collect(),
                    timestamp: since_epoch(),
                };
                self.notify(
                    view.role.as_deref(),
                    Notice::IdleTimeoutNotification(notice),
                );
            }
            // The event belongs to a program that was replaced.
            Event::Digest(..) | Event::Idle(..) => {}
        }
    }

    /// Forwards extension messages to the primary of the default role until the device has stopped.
    /// Waits while many messages wait for it, since they are not dropped. Without a primary they
    /// have no receiver.
    pub(crate) async fn pass_on_others(self: Arc<Self>, mut others: mpsc::Receiver<Any>) {
        while let Some(message) = others.recv().await {
            while self.is_primary_behind() {
                tokio::time::sleep(BEHIND_WAIT).await;
            }
            if self.pipeline.read().await.running.is_some() {
                self.notify(Some(""), Notice::Other(message));
            }
        }
    }

    /// Returns true if many messages wait for the primary of the default role.
    fn is_primary_behind(&self) -> bool {
        let sessions = lock(&self.sessions);
        let mut primaries = sessions.arbiter.primaries();
        primaries.any(|(role, client)| {
            let session = sessions.live.get(&client).filter(|_| role.is_empty());
            session.is_some_and(|session| {
                session.answers.max_capacity() - session.answers.capacity() >= MANY_ANSWERS
            })
        })
    }

    async fn send_due(&self) {
        let pipeline = self.pipeline.read().await;
        let configs = lock(&self.extras).digests.clone();
        let due = lock(&self.digests).due(self.now(), &configs);
        if let Some(running) = &pipeline.running {
            for list in &due {
                self.send_list(&running.schema, list);
            }
        }
    }

    fn send_list(&self, schema: &Schema, list: &List) {
        let mut views = schema.digests.values();
        let Some(view) = views.find(|view| view.instance == list.digest) else {
            return;
        };
        let ir::ExternKind::Digest { fields, data_ty } = &schema.program.externs[list.digest].kind
        else {
            return;
        };
        let coder = DataCoder {
            program: &schema.program,
            names: &schema.names,
        };
        let messages = list.messages.iter();
        let data = messages.filter_map(|limbs| {
            let mut scalars = scalars(fields, limbs).into_iter();
            coder.write(data_ty, &mut scalars)
        });
        let notice = rt::DigestList {
            digest_id: view.id,
            list_id: list.id,
            data: data.collect(),
            timestamp: since_epoch(),
        };
        let told = self.notify(view.role.as_deref(), Notice::Digest(notice));
        self.cells.digest_lists.add(told);
    }

    /// Sends a notification to the primaries. If the object has an owner (`@p4runtime_role`), only
    /// that role's and the default role's primary receive it. Returns the number of receivers.
    fn notify(&self, owner: Option<&str>, notice: Notice) -> usize {
        let mut told = 0;
        let sessions = lock(&self.sessions);
        let is_told = |role: &str| owner.is_none_or(|owner| role.is_empty() || role == owner);
        for (role, client) in sessions.arbiter.primaries() {
            let session = sessions.live.get(&client).filter(|_| is_told(role));
            let Some(session) = session else { continue };
            match session.answers.try_send(Ok(response(notice.clone()))) {
                Ok(()) => told += 1,
                Err(_) => self.lose(),
            }
        }
        told
    }
}

/// Returns a message to a session.
pub(crate) fn response(update: Notice) -> StreamMessageResponse {
    StreamMessageResponse {
        update: Some(update),
    }
}

/// Returns the nanoseconds since 1970, for time stamps in messages only.
fn since_epoch() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
