//! The thread that makes programs, so that neither frames nor other messages wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pof::ProgramJob;
use switch::Device;

use crate::PofError;
use crate::mailbox::{Mail, Mailbox};

/// Stack size of the thread. Programs of tables are flat.
const STACK_BYTES: usize = 16 << 20;

enum Work {
    Make(Box<ProgramJob>),
    /// The rest of a program that runs no more: to free it takes time.
    Free(Box<Device>),
}

/// The side of the loop. The thread ends with it.
pub(crate) struct ProgramMaker {
    work: Sender<Work>,
    mailbox: Arc<Mailbox>,
}

impl ProgramMaker {
    /// # Errors
    /// The operating system starts no thread.
    pub(crate) fn start(mailbox: &Arc<Mailbox>) -> Result<ProgramMaker, PofError> {
        let (work, coming) = channel();
        let of_thread = Arc::clone(mailbox);
        let builder = std::thread::Builder::new();
        let builder = builder.name("programs".to_owned()).stack_size(STACK_BYTES);
        builder
            .spawn(move || run(&coming, &of_thread))
            .map_err(PofError::system("start a thread"))?;
        Ok(ProgramMaker {
            work,
            mailbox: Arc::clone(mailbox),
        })
    }

    /// Makes a program. The mailbox gets it.
    pub(crate) fn make(&self, job: ProgramJob) {
        let failed = job.failed();
        if self.work.send(Work::Make(Box::new(job))).is_err() {
            self.mailbox.send(Mail::Made(Box::new(failed)));
        }
    }

    /// Frees what is left of a program.
    pub(crate) fn free(&self, rest: Device) {
        // Without the thread it is freed here.
        let _ = self.work.send(Work::Free(Box::new(rest)));
    }
}

fn run(coming: &Receiver<Work>, mailbox: &Mailbox) {
    while let Ok(work) = coming.recv() {
        match work {
            Work::Free(rest) => drop(rest),
            Work::Make(job) => {
                // A defect of the compiler refuses the message, and the switch goes on.
                let failed = job.failed();
                let made = catch_unwind(AssertUnwindSafe(|| job.run()));
                mailbox.send(Mail::Made(Box::new(made.unwrap_or(failed))));
            }
        }
    }
}
