//! The service by which a switch's operator has virtual data planes made and changed. The room knows nothing of them: what is asked goes, as a
//! [`Petition`], to the loop that has them, and its answer comes back.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc as plain;

use p4info::polyplane::tenancy::v1 as wire;
use support::wakeup::WakeupFd;
use tokio::sync::{Semaphore, oneshot};
use tonic::{Code, Request, Response, Status};

use crate::access::Who;
use crate::caller::{Call, Caller};
use crate::fault::{Checked, Fault, refuse};
use crate::incoming::Peer;
use crate::server::Sites;
use crate::service::tenancy::tenancy_server::Tenancy;

/// Petitions that may wait; the next one is refused.
const MOST_PETITIONS: usize = 64;

/// Of these, those of owners: operators find room.
const MOST_OF_OWNERS: usize = 16;

/// The operator who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Where it is.
    pub address: SocketAddr,
    /// What its certificate calls it; nothing, where clients need no certificates.
    pub names: Vec<String>,
}

/// Something that is asked of the loop that has the virtual data planes, and where its answer goes.
pub enum Petition {
    /// To change one thing.
    Change(
        Asker,
        Box<wire::ChangeRequest>,
        Answer<wire::ChangeResponse>,
    ),
    /// To tell.
    Show(Viewer, wire::ShowRequest, Answer<wire::ShowResponse>),
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// An operator, of all.
    Operator,
    /// A client with a certificate of these names, of what it owns.
    Owner(Vec<String>),
}

impl Viewer {
    /// Whether it may be told of what somebody owns; an empty name is nobody.
    pub fn sees(&self, owner: &str) -> bool {
        match self {
            Viewer::Operator => true,
            Viewer::Owner(names) => !owner.is_empty() && names.iter().any(|name| name == owner),
        }
    }
}

/// Where an answer goes.
pub struct Answer<T> {
    caller: Caller,
    to: oneshot::Sender<Result<T, Denial>>,
    hear: Option<Hear<T>>,
}

/// Who hears an answer, too.
type Hear<T> = Box<dyn FnOnce(&Result<T, Denial>) + Send>;

impl<T> Answer<T> {
    /// The same answer, which this hears before it is given, whether who has asked is still there or not.
    pub fn heard_by(self, hear: impl FnOnce(&Result<T, Denial>) + Send + 'static) -> Answer<T> {
        Answer {
            hear: Some(Box::new(hear)),
            ..self
        }
    }

    /// Has this called when the client goes before it has the answer: what is done for it may end.
    pub fn when_gone(&self, cancel: impl FnOnce() + Send + 'static) {
        self.caller.when_gone(cancel);
    }

    /// Gives the answer to who has asked, if it is still there.
    pub fn give(self, answer: Result<T, Denial>) {
        if let Some(hear) = self.hear {
            hear(&answer);
        }
        let _ = self.to.send(answer);
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
/// The operating system has no descriptor left.
pub fn petitions() -> std::io::Result<(Petitions, Petitioner)> {
    let wakeup = Arc::new(WakeupFd::armed()?);
    let (sender, waiting) = plain::sync_channel(MOST_PETITIONS);
    let petitioner = Petitioner {
        sender,
        wakeup: Arc::clone(&wakeup),
        of_owners: Semaphore::new(MOST_OF_OWNERS),
    };
    Ok((Petitions { waiting, wakeup }, petitioner))
}

/// The loop's end.
pub struct Petitions {
    waiting: plain::Receiver<Petition>,
    wakeup: Arc<WakeupFd>,
}

impl Petitions {
    /// The descriptor that becomes readable when there is one.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// The next one.
    pub fn take(&mut self) -> Option<Petition> {
        self.wakeup.rearm();
        self.waiting.try_recv().ok()
    }
}

/// The server's end.
pub struct Petitioner {
    sender: plain::SyncSender<Petition>,
    wakeup: Arc<WakeupFd>,
    /// Places for petitions of owners.
    of_owners: Semaphore,
}

impl Petitioner {
    async fn ask<T>(&self, petition: impl FnOnce(Answer<T>) -> Petition) -> Result<T, Status> {
        let (to, answered) = oneshot::channel();
        let call = Call::default();
        let answer = Answer {
            caller: call.caller(),
            to,
            hear: None,
        };
        let sent = self.sender.try_send(petition(answer));
        self.wakeup.wake();
        let busy = |error: plain::TrySendError<_>| match error {
            plain::TrySendError::Full(_) => Status::resource_exhausted(format!(
                "{MOST_PETITIONS} changes wait already; try again"
            )),
            plain::TrySendError::Disconnected(_) => gone(),
        };
        sent.map_err(busy)?;
        let answer = answered.await.map_err(|_| gone())?;
        answer.map_err(|denial| Fault::from(denial).into())
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
    /// Whether a client is an operator: one with the default role at every device. Who it is; what it may not is logged.
    fn permit<T>(&self, request: &Request<T>) -> Result<Asker, Status> {
        let peer = Peer::of(request)?;
        let permitted = self.check(peer);
        permitted.inspect_err(|fault| self.sites.denied_operator(peer.address, &fault.message))?;
        let names = match peer.who()? {
            Who::Named(names) => names.clone(),
            Who::Anyone => Vec::new(),
        };
        Ok(Asker {
            address: peer.address,
            names,
        })
    }

    fn check(&self, peer: &Peer) -> Checked {
        let who = peer.who()?;
        let general = self.sites.allowed();
        if matches!(who, Who::Named(_)) && general.is_empty() {
            return refuse(
                Code::PermissionDenied,
                "nobody may change virtual data planes here: serve with --allow NAME=* for those who may",
            );
        }
        who.rights(general, &[])?.check_role("")
    }
}

#[tonic::async_trait]
impl Tenancy for Service {
    async fn change(
        &self,
        request: Request<wire::ChangeRequest>,
    ) -> Result<Response<wire::ChangeResponse>, Status> {
        let asker = self.permit(&request)?;
        let request = Box::new(request.into_inner());
        let asked = self
            .petitioner
            .ask(|answer| Petition::Change(asker, request, answer));
        Ok(Response::new(asked.await?))
    }

    async fn show(
        &self,
        request: Request<wire::ShowRequest>,
    ) -> Result<Response<wire::ShowResponse>, Status> {
        let peer = Peer::of(&request)?.clone();
        let viewer = match (self.check(&peer), peer.who()?) {
            (Ok(()), _) => Viewer::Operator,
            (Err(_), Who::Named(names)) => Viewer::Owner(names.clone()),
            (Err(fault), Who::Anyone) => return Err(fault.into()),
        };
        let request = request.into_inner();
        let _place = match &viewer {
            Viewer::Operator => None,
            Viewer::Owner(_) => Some(self.petitioner.of_owners.try_acquire().map_err(|_| {
                Status::resource_exhausted(format!(
                    "{MOST_OF_OWNERS} requests of owners wait already; try again"
                ))
            })?),
        };
        let asked = self
            .petitioner
            .ask(|answer| Petition::Show(viewer, request, answer));
        let answer = asked.await;
        if let Err(status) = &answer
            && status.code() == Code::PermissionDenied
        {
            self.sites.denied_operator(peer.address, status.message());
        }
        Ok(Response::new(answer?))
    }
}
