//! The service by which clients observe the packets of a device. This crate does not see packets:
//! what does is a [`PacketObservation`].

use std::sync::Arc;

use p4info::polyplane::observation::v1 as wire;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::adapters::MapWhile;
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

/// Item of a client's message queue. `None` ends the call.
type Item = Option<Result<wire::ObserveResponse, Status>>;

/// The way of messages to a client.
#[derive(Clone)]
pub struct Observations {
    messages: mpsc::Sender<Item>,
    last: mpsc::Sender<wire::ObserveResponse>,
}

impl Observations {
    /// Sends a message. Does not wait.
    pub fn send(&self, message: wire::ObserveResponse) -> Delivery {
        match self.messages.try_send(Some(Ok(message))) {
            Ok(()) => Delivery::Done,
            Err(mpsc::error::TrySendError::Full(_)) => Delivery::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => Delivery::Gone,
        }
    }

    /// Returns true if the client has room for another message.
    pub fn has_room(&self) -> bool {
        self.messages.capacity() > 0
    }

    /// Ends the call, with this message after those that were sent. The message finds room in any
    /// case. Does not wait. Only the first call has an effect.
    pub fn end(&self, last: wire::ObserveResponse) {
        // The client has gone, or its call is being ended.
        let _ = self.last.try_send(last);
    }
}

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
}

#[tonic::async_trait]
impl server::PacketObservation for Service {
    type ObserveStream = MapWhile<ReceiverStream<Item>, fn(Item) -> Item>;

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
        let (last, mut ended) = mpsc::channel(1);
        let client = Observations {
            messages: answers.clone(),
            last,
        };
        let begun = observation.observe(request, client);
        let guard = begun.map_err(|error| RequestError::new(error.code, error.message))?;
        tokio::spawn(async move {
            let last = tokio::select! {
                () = answers.closed() => None,
                Some(last) = ended.recv() => Some(Ok(last)),
                () = site.ports.closed() => {
                    Some(Err(Status::unavailable("the device is served no more")))
                }
            };
            // A client that takes no messages holds no observer.
            drop(guard);
            if let Some(last) = last {
                // The client may have gone.
                let _ = answers.send(Some(last)).await;
                let _ = answers.send(None).await;
            }
        });
        let until_end: fn(Item) -> Item = |item| item;
        Ok(Response::new(
            ReceiverStream::new(messages).map_while(until_end),
        ))
    }
}
