//! The service by which a switch's operator has virtual data planes made and changed. The room knows nothing of them: what is asked goes, as a
//! [`Petition`], to the loop that has them, and its answer comes back.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc as plain;

use p4info::polyplane::tenancy::v1 as wire;
use tokio::sync::oneshot;
use tonic::{Code, Request, Response, Status};

use crate::access::Who;
use crate::bell::{Ear, Rope, bell};
use crate::incoming::Peer;
use crate::server::Sites;
use crate::service::tenancy::tenancy_server::Tenancy;

/// Petitions that may wait; the next one is refused.
const MOST_PETITIONS: usize = 64;

/// Something that is asked of the loop that has the virtual data planes, and where its answer goes.
pub enum Petition {
    /// To change one thing.
    Change(wire::ChangeRequest, Answer<wire::ChangeResponse>),
    /// To tell.
    Show(wire::ShowRequest, Answer<wire::ShowResponse>),
}

/// Where an answer goes.
pub struct Answer<T>(oneshot::Sender<Result<T, Denial>>);

impl<T> Answer<T> {
    /// Gives the answer to who has asked, if it is still there.
    pub fn give(self, answer: Result<T, Denial>) {
        let _ = self.0.send(answer);
    }
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// What kind of error it is.
    pub code: Code,
    /// What is wrong and how to mend it, for people.
    pub message: String,
}

/// A channel between the server and the loop that has the virtual data planes.
///
/// # Errors
/// The operating system has no socket pair left.
pub fn petitions() -> std::io::Result<(Petitions, Petitioner)> {
    let (rope, ear) = bell()?;
    let (sender, waiting) = plain::sync_channel(MOST_PETITIONS);
    let petitioner = Petitioner { sender, rope };
    Ok((Petitions { waiting, ear }, petitioner))
}

/// The loop's end.
pub struct Petitions {
    waiting: plain::Receiver<Petition>,
    ear: Ear,
}

impl Petitions {
    /// The descriptor that becomes readable when there is one.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.ear.fd()
    }

    /// The next one.
    pub fn take(&mut self) -> Option<Petition> {
        self.ear.hear();
        self.waiting.try_recv().ok()
    }
}

/// The server's end.
pub struct Petitioner {
    sender: plain::SyncSender<Petition>,
    rope: Rope,
}

impl Petitioner {
    async fn ask<T>(&self, petition: impl FnOnce(Answer<T>) -> Petition) -> Result<T, Status> {
        let (answer, answered) = oneshot::channel();
        let sent = self.sender.try_send(petition(Answer(answer)));
        self.rope.ring();
        let busy = |error: plain::TrySendError<_>| match error {
            plain::TrySendError::Full(_) => Status::resource_exhausted(format!(
                "{MOST_PETITIONS} changes wait already; try again"
            )),
            plain::TrySendError::Disconnected(_) => gone(),
        };
        sent.map_err(busy)?;
        let answer = answered.await.map_err(|_| gone())?;
        answer.map_err(|denial| Status::new(denial.code, denial.message))
    }
}

fn gone() -> Status {
    Status::unavailable("the switch has stopped")
}

/// The service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
    pub(crate) petitioner: Petitioner,
}

impl Service {
    /// Whether a client is an operator: one with the default role at every device.
    fn permit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let who = Peer::of(request)?.who()?;
        let general = self.sites.allowed();
        if matches!(who, Who::Named(_)) && general.is_empty() {
            return Err(Status::permission_denied(
                "nobody may change virtual data planes here: serve with --allow NAME=* for those who may",
            ));
        }
        Ok(who.rights(general, &[])?.check_role("")?)
    }
}

#[tonic::async_trait]
impl Tenancy for Service {
    async fn change(
        &self,
        request: Request<wire::ChangeRequest>,
    ) -> Result<Response<wire::ChangeResponse>, Status> {
        self.permit(&request)?;
        let request = request.into_inner();
        let asked = self
            .petitioner
            .ask(|answer| Petition::Change(request, answer));
        Ok(Response::new(asked.await?))
    }

    async fn show(
        &self,
        request: Request<wire::ShowRequest>,
    ) -> Result<Response<wire::ShowResponse>, Status> {
        self.permit(&request)?;
        let request = request.into_inner();
        let asked = self
            .petitioner
            .ask(|answer| Petition::Show(request, answer));
        Ok(Response::new(asked.await?))
    }
}
