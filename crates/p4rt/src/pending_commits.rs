//! Durable writes: batches that wait for the storage, and their undo if they cannot be stored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use switch::{Device, StorageError};
use tokio::sync::oneshot;
use tonic::Code;

use crate::coding::Names;
use crate::controller_state::{Changes, ControllerState};
use crate::pipeline::lock;
use crate::request_error::{Checked, RequestError, refuse};
use crate::undo::Undo;

/// Batches that were made and are not yet durable, in order.
#[derive(Default)]
pub(crate) struct PendingCommits {
    next: u64,
    batches: VecDeque<Batch>,
}

struct Batch {
    number: u64,
    undos: Vec<Undo>,
    changes: Changes,
}

/// Receives the result of storing a batch.
pub(crate) type Waiting = oneshot::Receiver<Result<(), StorageError>>;

/// Ends a batch. If the device's state is kept, its changes are stored, and the result is sent to
/// the returned receiver.
pub(crate) fn commit(
    device: &mut Device,
    extras: &mut ControllerState,
    names: &Names,
    undos: Vec<Undo>,
    unkept: &Arc<Mutex<PendingCommits>>,
) -> Option<Waiting> {
    let changes = extras.take_changes();
    if !device.is_kept() {
        return None;
    }
    extras.note(device, &changes);
    names.note(device);
    let number = {
        let mut all = lock(unkept);
        let number = all.next;
        all.next += 1;
        all.batches.push_back(Batch {
            number,
            undos,
            changes,
        });
        number
    };
    let (tell, told) = oneshot::channel();
    let unkept = Arc::clone(unkept);
    device.commit(Box::new(move |kept| {
        if kept.is_ok() {
            // A batch reported as durable is never undone. All earlier batches are durable as well.
            lock(&unkept).batches.retain(|batch| batch.number > number);
        }
        // The client may have gone.
        let _ = tell.send(kept);
    }));
    Some(told)
}

/// Undoes all batches that are not durable, the last one first.
pub(crate) fn take_back(
    device: &mut Device,
    extras: &mut ControllerState,
    unkept: &Mutex<PendingCommits>,
) {
    let batches = std::mem::take(&mut lock(unkept).batches);
    if batches.is_empty() {
        // They were undone together with an earlier batch. Its failure was reported first.
        return device.is_undone();
    }
    for batch in batches.into_iter().rev() {
        for undo in batch.undos.into_iter().rev() {
            undo(device);
        }
        extras.put_back(batch.changes);
    }
    let changes = extras.take_changes();
    extras.note(device, &changes);
    extras.settle(device);
    device.is_undone();
    device.publish();
}

/// Checks that a batch was reported as durable.
///
/// # Errors
/// The batch is not durable. The caller must undo the state.
pub(crate) fn check(told: Result<Result<(), StorageError>, oneshot::error::RecvError>) -> Checked {
    match told {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.is_full => refuse(Code::ResourceExhausted, unkept(&error.message)),
        Ok(Err(error)) => refuse(Code::Internal, unkept(&error.message)),
        Err(_) => Err(RequestError::new(
            Code::Internal,
            unkept("what keeps the state has ended"),
        )),
    }
}

fn unkept(why: &str) -> String {
    format!("nothing is changed, because it could not be kept: {why}")
}
