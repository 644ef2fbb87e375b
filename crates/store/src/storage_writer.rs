//! Storage writer thread: writes all waiting batches with one sync.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use switch::{Batch, Done, Storage, StorageError};

use crate::disk::Disk;

/// Maximum number of objects in one sync, beyond those of the first batch.
const MAX_OBJECTS: usize = 100_000;

/// Storage writer of a device's state. When dropped, it finishes the waiting batches first.
pub struct StorageWriter {
    batches: Option<Sender<(Batch, Done)>>,
    thread: Option<JoinHandle<()>>,
}

impl StorageWriter {
    pub(crate) fn start(disk: Disk) -> io::Result<StorageWriter> {
        let (batches, given) = channel();
        let writer = Writer { disk, failed: None };
        let thread = std::thread::Builder::new()
            .name("state".to_owned())
            .spawn(move || writer.run(&given))?;
        Ok(StorageWriter {
            batches: Some(batches),
            thread: Some(thread),
        })
    }
}

impl Storage for StorageWriter {
    fn append(&mut self, batch: Batch, done: Done) {
        let Some(batches) = &self.batches else { return };
        if let Err(refused) = batches.send((batch, done)) {
            let (_, done) = refused.0;
            done(Err(StorageError {
                is_full: false,
                message: "state is no longer kept: the thread that writes it has ended".to_owned(),
            }));
        }
    }
}

impl Drop for StorageWriter {
    fn drop(&mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            // A failure was reported to the callbacks before.
            let _ = thread.join();
        }
    }
}

struct Writer {
    disk: Disk,
    /// Reason why the last batch was not stored. Cleared by a batch with `goes_on`.
    failed: Option<StorageError>,
}

impl Writer {
    fn run(mut self, given: &Receiver<(Batch, Done)>) {
        while let Ok(first) = given.recv() {
            let mut count = first.0.objects.len();
            let mut group = vec![first];
            while count < MAX_OBJECTS
                && let Ok(next) = given.try_recv()
            {
                count += next.0.objects.len();
                group.push(next);
            }
            self.keep(group);
        }
    }

    fn keep(&mut self, group: Vec<(Batch, Done)>) {
        let (mut batches, mut waiting) = (Vec::new(), Vec::new());
        for (batch, done) in group {
            if batch.goes_on {
                self.failed = None;
            }
            match &self.failed {
                Some(error) => done(Err(error.clone())),
                None => {
                    batches.push(batch);
                    waiting.push(done);
                }
            }
        }
        if batches.is_empty() {
            return;
        }
        let kept = self.disk.keep(&batches);
        self.failed = kept.clone().err();
        waiting.into_iter().for_each(|done| done(kept.clone()));
    }
}
