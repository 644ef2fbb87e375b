//! Observation of the packets of a device.

use std::future::pending;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use p4info::polyplane::observation::v1 as wire;
use tonic::Streaming;

use super::{Client, ClientError, readable};
use crate::service::observation::packet_observation_client::PacketObservationClient;

/// A running observation of packets. It ends when it is dropped.
pub struct Observation(Streaming<wire::ObserveResponse>);

/// Result of waiting for a message of an observation.
#[derive(Debug)]
pub enum Observed {
    /// A message.
    Message(wire::ObserveResponse),
    /// The stop descriptor became readable, or the time is over.
    Stopped,
    /// The server has ended it.
    Ended,
}

impl Client {
    /// Begins to observe packets of the device.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn observe(
        &mut self,
        filter: &str,
        count: Option<u64>,
        wish: wire::observe_request::Wish,
    ) -> Result<Observation, ClientError> {
        let request = wire::ObserveRequest {
            device_id: self.device,
            filter: filter.to_owned(),
            count: count.unwrap_or(0),
            wish: Some(wish),
        };
        let mut rpc = PacketObservationClient::new(self.channel.clone());
        let answer = self.runtime.block_on(rpc.observe(request))?;
        Ok(Observation(answer.into_inner()))
    }

    /// Returns the next message of an observation. Waits until `stop` becomes readable, or until a
    /// point in time.
    ///
    /// # Errors
    /// Any error that the server returns.
    pub fn observed(
        &mut self,
        observation: &mut Observation,
        stop: Option<BorrowedFd<'_>>,
        until: Option<Instant>,
    ) -> Result<Observed, ClientError> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = readable(stop) => Ok(Observed::Stopped),
                () = over(until) => Ok(Observed::Stopped),
                message = observation.0.message() => Ok(match message? {
                    Some(message) => Observed::Message(message),
                    None => Observed::Ended,
                }),
            }
        })
    }
}

/// Completes at a point in time; never without one.
async fn over(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => pending().await,
    }
}
