//! The service by which clients observe the packets of a device. This crate does not see packets:
//! what does is a [`PacketObservation`].

use std::sync::Arc;

use p4info::polyplane::observation::v1 as wire;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::incoming::Peer;
use crate::request_error::RequestError;
use crate::server::Sites;
use crate::service::observation::packet_observation_server as server;

/// Capacity of the message queue of a client.
const MAX_MESSAGES: usize = 1024;

/// Observation of a device's packets.
pub trait PacketObservation: Send + Sync {
    /// Begins to observe packets. The messages go to `observations`. The observation ends when the
    /// returned value is dropped.
    ///
    /// # Errors
    /// The request is wrong, or there are too many observations.
    fn observe(
        &self,
        request: wire::ObserveRequest,
        observations: Observations,
    ) -> Result<Box<dyn Send>, ObserveError>;
}

/// Error: packets are not observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObserveError {
    /// The gRPC status code.
    pub code: Code,
    /// A message for users: the fault and how to fix it.
    pub message: String,
}

/// Outcome of giving a message to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is on its way.
    Done,
    /// The client has not taken the messages before.
    Full,
    /// The client has gone.
    Gone,
}

/// The way of messages to a client. The call ends when all clones are dropped.
#[derive(Clone)]
pub struct Observations(mpsc::Sender<Result<wire::ObserveResponse, Status>>);

impl Observations {
    /// Sends a message. Does not wait.
    pub fn send(&self, message: wire::ObserveResponse) -> Delivery {
        match self.0.try_send(Ok(message)) {
            Ok(()) => Delivery::Done,
            Err(mpsc::error::TrySendError::Full(_)) => Delivery::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => Delivery::Gone,
        }
    }

    /// Returns true if the client has room for another message.
    pub fn has_room(&self) -> bool {
        self.0.capacity() > 0
    }
}

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
}

#[tonic::async_trait]
impl server::PacketObservation for Service {
    type ObserveStream = ReceiverStream<Result<wire::ObserveResponse, Status>>;

    async fn observe(
        &self,
        request: Request<wire::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let peer = Peer::of(&request)?.clone();
        let request = request.into_inner();
        // Packets belong to no role: observing them takes the right to read everything.
        self.sites
            .permit(request.device_id, &peer, |rights| rights.check_read(""))?;
        let site = self.sites.find(request.device_id)?;
        let Some(observation) = site.observation.get().cloned() else {
            return Err(Status::unimplemented(
                "packets of this device cannot be observed",
            ));
        };
        let (answers, messages) = mpsc::channel(MAX_MESSAGES);
        let begun = observation.observe(request, Observations(answers.clone()));
        let guard = begun.map_err(|error| RequestError::new(error.code, error.message))?;
        tokio::spawn(async move {
            tokio::select! {
                () = answers.closed() => {}
                () = site.ports.closed() => {
                    let gone = Status::unavailable("the device is served no more");
                    // The client may have gone.
                    let _ = answers.send(Err(gone)).await;
                }
            }
            drop(guard);
        });
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
