//! What the server writes down (`tracing` events, target `p4rt`): not more of one kind than a person can read.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use p4info::p4::v1::MasterArbitrationUpdate;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Status;

use crate::arbiter::{ClientId, number};
use crate::fault::Checked;
use crate::pipeline::lock;

/// In this time ...
const SPAN: Duration = Duration::from_secs(1);

/// ... so many lines of a kind are written.
const MOST: u32 = 10;

/// A limit on lines of one kind: a few a second.
#[derive(Debug, Default)]
pub struct Limit(Mutex<Said>);

/// What was written of a kind.
#[derive(Debug, Default)]
struct Said {
    begin: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Limit {
    /// Whether a line may be written now; if so, how many have not been since the last one.
    pub fn may_say(&self) -> Option<u64> {
        lock(&self.0).may_say_at(Instant::now())
    }

    /// How many lines have not been written since the last one that was, once their second is over;
    /// none is to be told of twice.
    pub fn left_out(&self) -> Option<u64> {
        lock(&self.0).left_out_at(Some(Instant::now()))
    }

    /// As [`Limit::left_out`], at the end: whether the second is over or not.
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
        if self.said == MOST {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// A client asked for what its certificate does not allow.
pub(crate) fn denied(limit: &Limit, device: u64, peer: SocketAddr, why: &str) {
    if let Some(unsaid) = limit.may_say() {
        tracing::warn!(device, %peer, why, unsaid, "not allowed");
    }
}

/// A client asked for what operators alone may.
pub(crate) fn denied_operator(limit: &Limit, peer: SocketAddr, why: &str) {
    if let Some(unsaid) = limit.may_say() {
        tracing::warn!(%peer, why, unsaid, "no operator");
    }
}

/// Lines about a device that clients cause; each kind has a limit of its own.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    device: u64,
    opened: Limit,
    closed: Limit,
    elected: Limit,
    gone: Limit,
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

    /// A session began.
    pub(crate) fn opened(&self, client: ClientId, peer: SocketAddr, role: &str) {
        if let Some(unsaid) = self.opened.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, session, %peer, role, unsaid, "session opened");
        }
    }

    /// A session is over.
    pub(crate) fn closed(&self, client: ClientId) {
        if let Some(unsaid) = self.closed.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, session, unsaid, "session closed");
        }
    }

    /// A session became primary, or stepped down.
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

    /// The session of a primary is over.
    pub(crate) fn gone(&self, client: ClientId, role: &str) {
        if let Some(unsaid) = self.gone.may_say() {
            let (device, session) = (self.device, client.0);
            tracing::info!(device, role, session, unsaid, "the primary has gone");
        }
    }

    /// A config was set or refused.
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

    /// A write was made, or so many of its updates were refused.
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

/// What became of a write.
type Made = Result<(), Status>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_few_lines_that_tell_how_many_there_were() {
        let mut limit = Said::default();
        let begin = Instant::now();
        let said = (0..1000).filter(|_| limit.may_say_at(begin).is_some());
        assert_eq!(said.count(), MOST as usize);
        assert_eq!(limit.may_say_at(begin + SPAN), Some(1000 - u64::from(MOST)));
        assert_eq!(limit.may_say_at(begin + SPAN), Some(0));
    }
}
