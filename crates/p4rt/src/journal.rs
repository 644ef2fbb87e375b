//! What the server writes down (`tracing` events, target `p4rt`): not more of one kind than a person can read.

use std::time::{Duration, Instant};

use p4info::p4::v1::MasterArbitrationUpdate;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;

use crate::arbiter::{ClientId, number};
use crate::fault::Checked;

/// In this time ...
const SPAN: Duration = Duration::from_secs(1);

/// ... so many lines of a kind are written.
const MOST: u32 = 10;

/// A limit on lines of one kind.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    begin: Option<Instant>,
    said: u32,
    unsaid: u64,
}

impl Limit {
    /// Whether a line may be written now; if so, how many have not been since the last one.
    pub(crate) fn may_say(&mut self) -> Option<u64> {
        self.may_say_at(Instant::now())
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

/// A session became primary, or stepped down.
pub(crate) fn elected(
    device: u64,
    client: ClientId,
    update: &MasterArbitrationUpdate,
    is_primary: bool,
) {
    let role = update.role.as_ref().map_or("", |role| role.name.as_str());
    let election = update.election_id.as_ref().map(number);
    let session = client.0;
    match is_primary {
        true => tracing::info!(device, role, session, election, "a new primary"),
        false => tracing::info!(device, role, session, election, "the primary stepped down"),
    }
}

/// A config was set or refused.
pub(crate) fn configured(device: u64, action: Action, set: &Checked, took: Duration) {
    let action = action.as_str_name();
    match set {
        Ok(()) => tracing::info!(device, action, ?took, "config set"),
        Err(fault) => {
            let (code, why) = (fault.code, &fault.message);
            tracing::warn!(device, action, ?code, why, "config refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_becomes_a_few_lines_that_tell_how_many_there_were() {
        let mut limit = Limit::default();
        let begin = Instant::now();
        let said = (0..1000).filter(|_| limit.may_say_at(begin).is_some());
        assert_eq!(said.count(), MOST as usize);
        assert_eq!(limit.may_say_at(begin + SPAN), Some(1000 - u64::from(MOST)));
        assert_eq!(limit.may_say_at(begin + SPAN), Some(0));
    }
}
