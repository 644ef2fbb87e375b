//! A session on a StreamChannel: arbitration, packets, acknowledgements, and error messages
//! (section "P4Runtime Stream Messages").

use std::sync::Arc;

use p4info::p4::v1 as rt;
use p4info::p4::v1::stream_error::Details;
use p4info::p4::v1::stream_message_request::Update;
use p4info::p4::v1::stream_message_response::Update as Notice;
use p4info::p4::v1::{StreamError, StreamMessageRequest};
use tokio::sync::watch;
use tonic::{Code, Status, Streaming};

use crate::arbiter::ClientId;
use crate::device_service::{Answers, DeviceService, End, response};
use crate::incoming::Peer;
use crate::request_error::RequestError;
use crate::server::Sites;

/// A session of one controller.
pub(crate) struct Session {
    pub(crate) sites: Arc<Sites>,
    pub(crate) client: ClientId,
    pub(crate) answers: Answers,
    pub(crate) peer: Peer,
}

/// The device of a session, set by its first arbitration update.
struct Place {
    site: Arc<DeviceService>,
    ended: watch::Receiver<Option<End>>,
}

impl Session {
    /// Serves the session until either side ends it.
    pub(crate) async fn run(self, mut requests: Streaming<StreamMessageRequest>) {
        let mut place = None;
        let ending = self.serve(&mut requests, &mut place).await;
        if let Some(place) = &place {
            place.site.leave(self.client);
            place.site.lines.closed(self.client);
        }
        if let Err(status) = ending {
            // The client may have gone.
            let _ = self.answers.send(Err(status)).await;
        }
    }

    async fn serve(
        &self,
        requests: &mut Streaming<StreamMessageRequest>,
        place: &mut Option<Place>,
    ) -> Result<(), Status> {
        loop {
            let request = tokio::select! {
                request = requests.message() => request?,
                () = self.answers.closed() => return Ok(()),
                end = must_end(place.as_mut()) => return Err(end.status()),
            };
            let Some(request) = request else {
                return Ok(());
            };
            match request.update {
                Some(Update::Arbitration(update)) => self.arbitrate(place, &update).await?,
                Some(update) => {
                    if let Err((fault, details)) = self.take(place.as_ref(), update).await {
                        self.report(&fault, details);
                    }
                }
                None => {
                    let fault =
                        RequestError::new(Code::InvalidArgument, "the message has no update");
                    self.report(&fault, Details::Other(rt::StreamOtherError::default()));
                }
            }
        }
    }

    async fn arbitrate(
        &self,
        place: &mut Option<Place>,
        update: &rt::MasterArbitrationUpdate,
    ) -> Result<(), Status> {
        let role = update.role.as_ref().map_or("", |role| role.name.as_str());
        self.sites.permit(update.device_id, &self.peer, |rights| {
            match update.election_id {
                Some(_) => rights.check_role(role),
                // A client without an election id can never be primary.
                None => rights.check_read(role),
            }
        })?;
        let site = match place {
            Some(place) => Arc::clone(&place.site),
            None => {
                let site = self.sites.find(update.device_id)?;
                let ended = site.join(self.client, self.answers.clone());
                let ended = ended.map_err(End::status)?;
                site.lines.opened(self.client, self.peer.address, role);
                *place = Some(Place {
                    site: Arc::clone(&site),
                    ended,
                });
                site
            }
        };
        Ok(site.arbitrate(self.client, update).await?)
    }

    async fn take(
        &self,
        place: Option<&Place>,
        update: Update,
    ) -> Result<(), (RequestError, Details)> {
        let no_session = || {
            RequestError::new(
                Code::PermissionDenied,
                "the session has no device yet: send a MasterArbitrationUpdate first",
            )
        };
        let site = place.map(|place| &place.site).ok_or_else(no_session);
        match update {
            Update::Packet(packet) => {
                let taken = match site {
                    Ok(site) => site.packet_out(self.client, &packet).await,
                    Err(fault) => Err(fault),
                };
                taken.map_err(|fault| {
                    let packet_out = Some(packet);
                    (fault, Details::PacketOut(rt::PacketOutError { packet_out }))
                })
            }
            Update::DigestAck(ack) => {
                let taken = match site {
                    Ok(site) => site.acknowledge(self.client, &ack).await,
                    Err(fault) => Err(fault),
                };
                taken.map_err(|fault| {
                    let digest_list_ack = Some(ack);
                    let error = rt::DigestListAckError { digest_list_ack };
                    (fault, Details::DigestListAck(error))
                })
            }
            Update::Other(other) => {
                let taken = match site {
                    Ok(site) => site.extend(self.client, &other).await,
                    Err(fault) => Err(fault),
                };
                taken.map_err(|fault| {
                    let other = Some(other);
                    (fault, Details::Other(rt::StreamOtherError { other }))
                })
            }
            // Handled earlier.
            Update::Arbitration(_) => Ok(()),
        }
    }

    /// Reports an error to the session. The message is dropped if the queue is full (section
    /// "Stream Error Reporting").
    fn report(&self, fault: &RequestError, details: Details) {
        let error = StreamError {
            canonical_code: fault.code as i32,
            message: fault.message.clone(),
            details: Some(details),
            ..StreamError::default()
        };
        let _ = self.answers.try_send(Ok(response(Notice::Error(error))));
    }
}

/// Waits until a session must end, and returns the reason.
async fn must_end(place: Option<&mut Place>) -> End {
    if let Some(place) = place {
        // The sender is dropped when the session ends, which happens later.
        if let Ok(end) = place.ended.wait_for(Option::is_some).await
            && let Some(end) = *end
        {
            return end;
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use packet::PortId;
    use switch::{Device, LoadError};
    use tokio::sync::mpsc;

    use super::*;
    use crate::controller_state::ControllerState;
    use crate::device_service::Loader;

    struct NoCompiler;

    impl Loader for NoCompiler {
        fn compile(&self, _: &str) -> Result<ir::Program, String> {
            Err("there is no compiler".to_owned())
        }

        fn device(&self, _: Arc<ir::Program>) -> Result<Device, LoadError> {
            Err(LoadError::Verify(Vec::new()))
        }
    }

    #[test]
    fn no_session_begins_at_a_device_that_is_served_no_more() {
        let (_inbox, _cpu, remote) = crate::channel(PortId(510)).unwrap();
        let nothing = (None, ControllerState::default());
        let ports = crate::ports::PortStates::new(Vec::new());
        let access = (Vec::new(), ports, &[][..]);
        let site = DeviceService::new((1, None), remote, Arc::new(NoCompiler), access, nothing);
        let (answers, _messages) = mpsc::channel(1);
        let before = site.join(ClientId(1), answers.clone()).unwrap();
        site.close();
        assert_eq!(*before.borrow(), Some(End::DeviceGone));
        // A client may have found the device before it was closed.
        let after = site.join(ClientId(2), answers);
        assert_eq!(after.err(), Some(End::DeviceGone));
    }
}
