//! The service by which a switch's operator creates and changes virtual data planes. This crate
//! does not know them: each request goes as a [`TenancyRequest`] to the control loop that owns
//! them, and the answer is returned to the client.

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
use crate::incoming::Peer;
use crate::request_error::{Checked, RequestError, refuse};
use crate::server::Sites;
use crate::service::tenancy::tenancy_server::Tenancy;

/// Capacity of the request queue. Further requests are refused.
const MAX_PETITIONS: usize = 64;

/// Maximum number of queued requests of owners, so that operators' requests always fit.
const MAX_OF_OWNERS: usize = 16;

/// Advice for a client that is no operator, in a refusal.
const ADVICE_FOR_OWNERS: &str = "only operators change vPDPs in this way; the owner of a vPDP \
    loads its program and writes its entries by P4Runtime: `polyplane ctl load PROGRAM.p4 \
    --device-id N`, where N is the number of the vPDP";

/// The operator that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The operator's address.
    pub address: SocketAddr,
    /// The names in the operator's certificate. Empty if clients need no certificates.
    pub names: Vec<String>,
}

/// A request to the control loop that owns the virtual data planes, with the channel for its
/// answer.
pub enum TenancyRequest {
    /// Makes one change.
    Change(
        Asker,
        Box<wire::ChangeRequest>,
        Answer<wire::ChangeResponse>,
    ),
    /// Returns state.
    Show(Viewer, wire::ShowRequest, Answer<wire::ShowResponse>),
}

/// Recipient of state, which limits what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// An operator sees everything.
    Operator,
    /// A client with a certificate of these names sees what it owns.
    Owner(Vec<String>),
}

impl Viewer {
    /// Returns true if the viewer may see what this owner has. An empty name means that there is no
    /// owner.
    pub fn sees(&self, owner: &str) -> bool {
        match self {
            Viewer::Operator => true,
            Viewer::Owner(names) => !owner.is_empty() && names.iter().any(|name| name == owner),
        }
    }
}

/// Channel for an answer.
pub struct Answer<T> {
    caller: Caller,
    to: oneshot::Sender<Result<T, TenancyError>>,
    hear: Option<Hear<T>>,
}

/// Observer of an answer.
type Hear<T> = Box<dyn FnOnce(&Result<T, TenancyError>) + Send>;

impl<T> Answer<T> {
    /// Adds an observer. It is called before the answer is sent, even if the client has gone.
    pub fn heard_by(
        self,
        hear: impl FnOnce(&Result<T, TenancyError>) + Send + 'static,
    ) -> Answer<T> {
        Answer {
            hear: Some(Box::new(hear)),
            ..self
        }
    }

    /// Registers a function that is called if the client goes away before the answer. It may cancel
    /// the work.
    pub fn when_gone(&self, cancel: impl FnOnce() + Send + 'static) {
        self.caller.when_gone(cancel);
    }

    /// Sends the answer to the client, if it still waits.
    pub fn give(self, answer: Result<T, TenancyError>) {
        if let Some(hear) = self.hear {
            hear(&answer);
        }
        let _ = self.to.send(answer);
    }
}

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenancyError {
    /// The gRPC status code.
    pub code: Code,
    /// A message for users: the fault and how to fix it.
    pub message: String,
}

/// Creates a channel between the server and the control loop that answers operators.
///
/// # Errors
/// The operating system has no descriptor left.
pub fn petitions<R>() -> std::io::Result<(RequestReceiver<R>, RequestSender<R>)> {
    let wakeup = Arc::new(WakeupFd::armed()?);
    let (sender, waiting) = plain::sync_channel(MAX_PETITIONS);
    let petitioner = RequestSender {
        sender,
        wakeup: Arc::clone(&wakeup),
        of_owners: Semaphore::new(MAX_OF_OWNERS),
    };
    Ok((RequestReceiver { waiting, wakeup }, petitioner))
}

/// Receive side of the request channel, held by the control loop.
pub struct RequestReceiver<R = TenancyRequest> {
    waiting: plain::Receiver<R>,
    wakeup: Arc<WakeupFd>,
}

impl<R> RequestReceiver<R> {
    /// Returns the descriptor that becomes readable when there is a request.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wakeup.fd()
    }

    /// Dequeues the next request.
    pub fn take(&mut self) -> Option<R> {
        self.wakeup.rearm();
        self.waiting.try_recv().ok()
    }
}

/// Send side of the request channel, held by the server.
pub struct RequestSender<R = TenancyRequest> {
    sender: plain::SyncSender<R>,
    wakeup: Arc<WakeupFd>,
    /// Places for petitions of owners.
    of_owners: Semaphore,
}

impl<R> RequestSender<R> {
    pub(crate) async fn ask<T>(&self, petition: impl FnOnce(Answer<T>) -> R) -> Result<T, Status> {
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
                "{MAX_PETITIONS} changes wait already; try again"
            )),
            plain::TrySendError::Disconnected(_) => gone(),
        };
        sent.map_err(busy)?;
        let answer = answered.await.map_err(|_| gone())?;
        answer.map_err(|denial| RequestError::from(denial).into())
    }
}

fn gone() -> Status {
    Status::unavailable("the switch has stopped")
}

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
    pub(crate) petitioner: RequestSender,
}

impl Service {
    /// Checks that a client is an operator, which has the default role at every device. Returns its
    /// identity. A refusal is logged.
    fn permit<T>(&self, request: &Request<T>) -> Result<Asker, Status> {
        let peer = Peer::of(request)?;
        let permitted = self.check(peer);
        let who = peer.who()?;
        permitted.map_err(|fault| {
            self.sites.denied_operator(peer.address, &fault.message);
            match who {
                Who::Named(_) => fault.followed_by(ADVICE_FOR_OWNERS),
                Who::Anyone => fault,
            }
        })?;
        let names = match who {
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
            .ask(|answer| TenancyRequest::Change(asker, request, answer));
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
                    "{MAX_OF_OWNERS} requests of owners wait already; try again"
                ))
            })?),
        };
        let asked = self
            .petitioner
            .ask(|answer| TenancyRequest::Show(viewer, request, answer));
        let answer = asked.await;
        if let Err(status) = &answer
            && status.code() == Code::PermissionDenied
        {
            self.sites.denied_operator(peer.address, status.message());
        }
        Ok(Response::new(answer?))
    }
}
