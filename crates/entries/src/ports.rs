//! Valid numbers of ports, multicast groups and clone sessions on each architecture.

use ir::Arch;

use crate::error::EntriesError;
use crate::update::QUEUE_PRIORITIES;

/// v1model's ports have 9 bits. The last number, 511, means drop.
const V1MODEL_LAST: u32 = 510;

/// The last of PSA's ports below the reserved ones.
const PSA_LAST: u32 = 0xffff_fff9;

/// `PSA_PORT_RECIRCULATE`. Packets can be sent to it, but tests cannot observe them there.
const PSA_RECIRCULATE: u32 = 0xffff_fffa;

/// `PSA_PORT_CPU`.
const PSA_CPU: u32 = 0xffff_fffd;

/// Checks the number of a port at which packets are received or sent.
pub(crate) fn check(arch: Option<Arch>, port: u32, at: (usize, usize)) -> Result<(), EntriesError> {
    match arch {
        Some(Arch::V1model) if port > V1MODEL_LAST => Err(EntriesError::new(
            at,
            format!("there is no port {port}: v1model's are 0 to {V1MODEL_LAST}"),
        )),
        Some(Arch::Psa) if port > PSA_LAST && port != PSA_CPU => Err(EntriesError::new(
            at,
            format!(
                "there is no port {port}: PSA's are 0 to {PSA_LAST}, and {PSA_CPU} for the CPU"
            ),
        )),
        _ => Ok(()),
    }
}

/// Checks the egress port of a copy, which may also be PSA's recirculation port.
pub(crate) fn check_copy(
    arch: Option<Arch>,
    port: u32,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    match arch {
        Some(Arch::Psa) if port == PSA_RECIRCULATE => Ok(()),
        _ => check(arch, port, at),
    }
}

/// Checks a multicast group id. Group 0 means no multicast.
pub(crate) fn check_group(
    arch: Option<Arch>,
    group: u32,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    match group {
        0 => Err(EntriesError::new(
            at,
            "a multicast group's number is at least 1",
        )),
        _ => check_number(arch, group, "a multicast group's number", at),
    }
}

/// Checks a clone session id. P4Runtime has no session 0.
pub(crate) fn check_session(
    arch: Option<Arch>,
    session: u32,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    match session {
        0 => Err(EntriesError::new(
            at,
            "a clone session's number is at least 1",
        )),
        _ => check_number(arch, session, "a clone session's number", at),
    }
}

/// Checks the instance of a copy, which has 16 bits on all architectures.
pub(crate) fn check_instance(
    arch: Option<Arch>,
    instance: u32,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    check_number(arch, instance, "an instance", at)?;
    check_bits(instance, 16, "an instance", at)
}

/// Returns the priority of a queue that can have settings of its own.
pub(crate) fn check_priority(priority: u32, at: (usize, usize)) -> Result<u8, EntriesError> {
    let own = u8::try_from(priority).ok();
    own.filter(|own| *own < QUEUE_PRIORITIES).ok_or_else(|| {
        let message = format!("the queue of priority {priority} has no settings of its own");
        let last = QUEUE_PRIORITIES - 1;
        EntriesError::new(at, message).hint(format!("priorities from 0 to {last} have some"))
    })
}

/// Checks a number (`what`) with this many bits on every architecture.
pub(crate) fn check_bits(
    number: u32,
    bits: u32,
    what: &str,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    match number >> bits {
        0 => Ok(()),
        _ => Err(EntriesError::new(
            at,
            format!("{number} is too large for {what}, which has {bits} bits"),
        )),
    }
}

/// Checks a group, session or instance number (`what`), which has 16 bits on v1model.
pub(crate) fn check_number(
    arch: Option<Arch>,
    number: u32,
    what: &str,
    at: (usize, usize),
) -> Result<(), EntriesError> {
    match arch {
        Some(Arch::V1model) if number > u32::from(u16::MAX) => Err(EntriesError::new(
            at,
            format!("{number} is too large for {what}: v1model's have 16 bits"),
        )),
        _ => Ok(()),
    }
}
