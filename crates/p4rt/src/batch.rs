//! Atomic batches: all updates are made or none (section "Batch Atomicity").

use switch::Device;
use tonic::Code;

use crate::controller_state::ControllerState;
use crate::request_error::{Checked, RequestError};
use crate::undo::{Op, Target, Undo};
use crate::write::Seen;

/// Returns the updates of a batch if all are well-formed.
///
/// # Errors
/// The result of each update, if any is malformed.
pub(crate) fn well_formed(ops: Vec<Checked<Op>>) -> Result<Vec<Op>, Vec<Checked>> {
    if ops.iter().any(Result::is_err) {
        return Err(ops.into_iter().map(|op| op.and(aborted())).collect());
    }
    Ok(ops.into_iter().flatten().collect())
}

/// Makes all updates or none. Returns the result of each update, and the operations that undo them.
/// Updates that packets see immediately (`seen` has one value per update) are made at a barrier,
/// while no worker is processing packets.
pub(crate) fn make(
    device: &mut Device,
    extras: &mut ControllerState,
    ops: Vec<Op>,
    seen: &[Seen],
) -> (Vec<Checked>, Vec<Undo>) {
    let count = ops.len();
    let (others, at_once) = parts(ops, seen);
    match make_all(device, extras, others, at_once) {
        Ok(undos) => (vec![Ok(()); count], undos),
        Err((at, fault)) => {
            let mut results = vec![aborted(); count];
            results[at] = Err(fault);
            (results, Vec::new())
        }
    }
}

/// Updates with their positions in the batch.
type Numbered = Vec<(usize, Op)>;

/// Splits a batch into updates made before the barrier and updates made at the barrier. Cells of
/// arrays may be moved to the end of the batch, since nothing depends on them. All other updates
/// keep their order.
fn parts(ops: Vec<Op>, seen: &[Seen]) -> (Numbered, Numbered) {
    let of_entries = seen.iter().position(|seen| *seen == Seen::AtOnceOfEntry);
    let ordered = of_entries.unwrap_or(seen.len());
    let numbered = ops.into_iter().enumerate();
    numbered.partition(|(at, _)| *at < ordered && seen[*at] == Seen::WhenPublished)
}

/// Makes all updates or none. Those in `at_once` are made between two bursts of all workers, which
/// publishes them. Returns the operations that undo them.
///
/// # Errors
/// The position and error of the first update that failed.
fn make_all(
    device: &mut Device,
    extras: &mut ControllerState,
    others: Numbered,
    at_once: Numbered,
) -> Result<Vec<Undo>, (usize, RequestError)> {
    let mut target = Target::new(device, extras, true);
    let made = make_each(&mut target, others);
    let mut undos = target.into_undos();
    let made = match (made, at_once.first().map(|(first, _)| *first)) {
        (Ok(()), Some(first)) => {
            let made = device.between_bursts(|device| {
                let mut target = Target::new(device, extras, true);
                match make_each(&mut target, at_once) {
                    Ok(()) => Ok(target.into_undos()),
                    Err(failed) => {
                        target.roll_back();
                        Err(failed)
                    }
                }
            });
            made.unwrap_or_else(|switch::BarrierError| {
                let message =
                    "a worker of the device does not come to the end of its packets; try again";
                Err((first, RequestError::new(Code::Unavailable, message)))
            })
        }
        (made, _) => made.map(|()| Vec::new()),
    };
    match made {
        Ok(mut last) => {
            undos.append(&mut last);
            Ok(undos)
        }
        Err(failed) => {
            for undo in undos.into_iter().rev() {
                undo(device);
            }
            let changes = extras.take_changes();
            extras.put_back(changes);
            // Changes made by the rollback do not belong to the batch.
            extras.take_changes();
            Err(failed)
        }
    }
}

fn make_each(target: &mut Target<'_>, ops: Numbered) -> Result<(), (usize, RequestError)> {
    for (at, op) in ops {
        op(target).map_err(|fault| (at, fault))?;
    }
    Ok(())
}

/// Returns the error of updates that were not made because another update of the batch failed.
fn aborted<T>() -> Checked<T> {
    Err(RequestError::new(
        Code::Aborted,
        "not made: another update of the batch failed",
    ))
}
