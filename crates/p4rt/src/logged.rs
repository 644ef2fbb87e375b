//! Log messages of the server (`tracing` events, target `p4rt`), limited to a readable rate for
//! each kind.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use p4info::p4::v1::MasterArbitrationUpdate;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Status;

use crate::arbiter::{ClientId, number};
use crate::pipeline::lock;
use crate::request_error::Checked;

/// Period of the rate limit.
const SPAN: Duration = Duration::from_secs(1);

/// Maximum number of lines of a kind in one period.
const MAX: u32 = 10;

/// Rate limiter of one kind of log line: a few lines a second.
#[derive(Debug, Default)]
pub struct Limit(Mutex<Said>);

/// State of a rate limiter.
#[derive(Debug, Default)]
struct Said {
    begin: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Limit {
    /// Returns the number of lines suppressed since the last one, if a line may be written now.
    pub fn may_say(&self) -> Option<u64> {
        lock(&self.0).may_say_at(Instant::now())
    }

    /// Returns the number of lines suppressed since the last one, once their period is over. Each
    /// suppressed line is returned only once.
    pub fn left_out(&self) -> Option<u64> {
        lock(&self.0).left_out_at(Some(Instant::now()))
    }

    /// Same as [`Limit::left_out`], but does not wait for the end of the period. Called at
    /// shutdown.
    pub fn left_out_at_last(&self) -> Option<u64> {
        lock(&self.0).left_out_at(None)
    }
}

impl Said {
    fn left_out_at(&mut self, now: Option<Instant>) -> Option<u64> {
        let is_over = |(now, begin): (Instant, Instant)| now.duration_since(begin) >= SPAN;
        match self.unsaid {
            0 => None,
            _ if now.zip(self.begin).is_none_or(is_over) => Some(std::mem::take(&mut self.unsaid)),
            _ => None,
        }
    }

    fn may_say_at(&mut self, now: Instant) -> Option<u64> {
        if self
            .begin
            .is_none_or(|begin| now.duration_since(begin) >= SPAN)
        {
            self.begin = Some(now);
            self.said = 0;
        }
        if self.said == MAX {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// Logs that a client's certificate does not allow its request.
pub(crate) fn denied(limit: &Limit, device: u64, peer: SocketAddr, why: &str) {
    if let Some(unsaid) = limit.may_say() {
        tracing::warn!(device, %peer, why, unsaid, "not allowed");
    }
}

/// Logs that a client requested something only operators may do.
pub(crate) fn denied_operator(limit: &Limit, peer: SocketAddr, why: &str) {
    if let Some(unsaid) = limit.may_say() {
        tracing::warn!(%peer, why, unsaid, "no operator");
    }
}

/// Log lines about a device that are caused by clients. Each kind has its own rate limit.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    device: u64,
    opened: Limit,
    closed: Limit,
    elected: Limit,
    gone: Limit,
    managed: Limit,
    set: Limit,
    refused_configs: Limit,
    refused_writes: Limit,
}

impl Lines {
    pub(crate) fn of(device: u64) -> Lines {
        Lines {
            device,
            ..Lines::default()
        }
    }

    /// Logs the start of a session.
    pub(crate) fn opened(&self, client: ClientId, peer: SocketAddr, role: &str) {
        if let Some(unsaid) = self.opened.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, session, %peer, role, unsaid, "session opened");
        }
    }

    /// Logs the end of a session.
    pub(crate) fn closed(&self, client: ClientId) {
        if let Some(unsaid) = self.closed.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, session, unsaid, "session closed");
        }
    }

    /// Logs that a session became primary, or stepped down.
    pub(crate) fn elected(
        &self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
        is_primary: bool,
    ) {
        let Some(unsaid) = self.elected.may_say() else {
            return;
        };
        let role = update.role.as_ref().map_or("", |role| role.name.as_str());
        let election = update.election_id.as_ref().map(number);
        let (device, session) = (self.device, client.0);
        match is_primary {
            true => tracing::info!(device, role, session, election, unsaid, "a new primary"),
            false => {
                tracing::info!(
                    device,
                    role,
                    session,
                    election,
                    unsaid,
                    "the primary stepped down"
                );
            }
        }
    }

    /// Logs the end of a primary's session.
    pub(crate) fn gone(&self, client: ClientId, role: &str) {
        if let Some(unsaid) = self.gone.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, role, session, unsaid, "the primary has gone");
        }
    }

    /// Logs that a primary manages this number of tables from now on.
    pub(crate) fn managed(&self, client: ClientId, role: &str, tables: usize) {
        if let Some(unsaid) = self.managed.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, role, session, tables, unsaid, "tables are managed");
        }
    }

    /// Logs that a config was set or refused.
    pub(crate) fn configured(&self, action: Action, set: &Checked, took: Duration) {
        let (device, action) = (self.device, action.as_str_name());
        match set {
            Ok(()) => {
                if let Some(unsaid) = self.set.may_say() {
                    tracing::info!(device, action, ?took, unsaid, "config set");
                }
            }
            Err(fault) => {
                if let Some(unsaid) = self.refused_configs.may_say() {
                    let (code, why) = (fault.code, &fault.message);
                    tracing::warn!(device, action, ?code, why, unsaid, "config refused");
                }
            }
        }
    }

    /// Logs a write, and how many of its updates were refused.
    pub(crate) fn wrote(&self, updates: usize, refused: usize, took: Duration, made: &Made) {
        let device = self.device;
        match made {
            Ok(()) => tracing::debug!(device, updates, ?took, "write"),
            Err(status) => {
                if let Some(unsaid) = self.refused_writes.may_say() {
                    let (code, why) = (status.code(), status.message());
                    tracing::info!(device, refused, ?code, why, unsaid, "write refused");
                }
            }
        }
    }
}

/// Result of a write.
type Made = Result<(), Status>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_few_lines_that_tell_how_many_there_were() {
        let mut limit = Said::default();
        let begin = Instant::now();
        let said = (0..1000).filter(|_| limit.may_say_at(begin).is_some());
        assert_eq!(said.count(), MAX as usize);
        assert_eq!(limit.may_say_at(begin + SPAN), Some(1000 - u64::from(MAX)));
        assert_eq!(limit.may_say_at(begin + SPAN), Some(0));
    }
}
