//! Configuration of digests (section "`DigestEntry`").

use std::sync::Arc;

use p4info::p4::v1::DigestEntry;
use p4info::p4::v1::update::Type;

use super::check_role;
use super::profile::check_presence;
use crate::request_error::{Checked, invalid};
use crate::schema::{Schema, lookup};
use crate::undo::Op;

/// Converts an update of a digest's configuration.
pub(super) fn convert(
    schema: &Arc<Schema>,
    role: &str,
    ty: Type,
    entry: &DigestEntry,
) -> Checked<Op> {
    let view = lookup(&schema.digests, "digest", entry.digest_id)?;
    check_role("digest", &view.name, view.role.as_deref(), role)?;
    let place = format!("the configuration of the digest `{}`", view.name);
    let config = entry.config.unwrap_or_default();
    let times = [
        ("max_timeout_ns", config.max_timeout_ns),
        ("max_list_size", config.max_list_size.into()),
        ("ack_timeout_ns", config.ack_timeout_ns),
    ];
    if ty != Type::Delete {
        if let Some((name, value)) = times.iter().find(|(_, value)| *value < 0) {
            return invalid(format!("{place}: {name} is negative: {value}"));
        }
        if entry.config.is_none() {
            return invalid(format!("{place} is not set"));
        }
    }
    let id = view.instance;
    Ok(Box::new(move |target| {
        check_presence(&place, ty, target.extras.digests.contains_key(&id))?;
        match ty {
            Type::Delete => target.extras.digests.remove(&id),
            _ => target.extras.digests.insert(id, config),
        }
        Ok(())
    }))
}
