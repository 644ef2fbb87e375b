//! Batches that are made as a whole or not at all (section "Batch Atomicity").

use switch::Device;
use tonic::Code;

use crate::extras::Extras;
use crate::fault::{Checked, Fault};
use crate::undo::{Op, Target, Undo};
use crate::write::Seen;

/// A batch whose updates are all well-formed.
///
/// # Errors
/// What becomes of each update, if one is not.
pub(crate) fn well_formed(ops: Vec<Checked<Op>>) -> Result<Vec<Op>, Vec<Checked>> {
    if ops.iter().any(Result::is_err) {
        return Err(ops.into_iter().map(|op| op.and(aborted())).collect());
    }
    Ok(ops.into_iter().flatten().collect())
}

/// Makes all updates or none. What becomes of each, and what takes them back. What packets see at once (`seen`, for each update) is written while no
/// worker has a packet in hand.
pub(crate) fn make(
    device: &mut Device,
    extras: &mut Extras,
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

/// Updates with their places in the batch.
type Numbered = Vec<(usize, Op)>;

/// What can be made before workers are held, and what is made then. Cells of arrays come later than they stand in the batch, which nothing depends on;
/// all else stays in its order.
fn parts(ops: Vec<Op>, seen: &[Seen]) -> (Numbered, Numbered) {
    let of_entries = seen.iter().position(|seen| *seen == Seen::AtOnceOfEntry);
    let ordered = of_entries.unwrap_or(seen.len());
    let numbered = ops.into_iter().enumerate();
    numbered.partition(|(at, _)| *at < ordered && seen[*at] == Seen::WhenPublished)
}

/// Makes updates, the last ones between two bursts of all workers, which publishes them: all of them or none. What takes them back.
///
/// # Errors
/// The first that failed.
fn make_all(
    device: &mut Device,
    extras: &mut Extras,
    others: Numbered,
    at_once: Numbered,
) -> Result<Vec<Undo>, (usize, Fault)> {
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
            made.unwrap_or_else(|switch::Stuck| {
                let message =
                    "a worker of the device does not come to the end of its packets; try again";
                Err((first, Fault::new(Code::Unavailable, message)))
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
            // What was put back is no change of the batch.
            extras.take_changes();
            Err(failed)
        }
    }
}

fn make_each(target: &mut Target<'_>, ops: Numbered) -> Result<(), (usize, Fault)> {
    for (at, op) in ops {
        op(target).map_err(|fault| (at, fault))?;
    }
    Ok(())
}

/// What updates of a batch get that were not made because another one failed.
fn aborted<T>() -> Checked<T> {
    Err(Fault::new(
        Code::Aborted,
        "not made: another update of the batch failed",
    ))
}
