//! The service by which operators see and change the group of servers and the placement of a split
//! program. This crate does not know them: each request goes as a [`SplitRequest`] to the control
//! loop of the coordinator.

use std::sync::Arc;

use p4info::polyplane::split::v1 as wire;
use tonic::{Request, Response, Status};

use crate::incoming::Peer;
use crate::request_error::Checked;
use crate::server::Sites;
use crate::service::split::operator_server::Operator;
use crate::tenants::{Answer, RequestSender};

/// A request of an operator to the coordinator, with the channel for its answer.
pub struct SplitRequest {
    /// The task.
    pub task: wire::operate_request::Task,
    /// The channel for the answer.
    pub answer: Answer<wire::OperateResponse>,
}

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
    pub(crate) requests: RequestSender<SplitRequest>,
}

impl Service {
    /// Checks that a client has the default role at every device. A refusal is logged.
    fn permit(&self, peer: &Peer) -> Checked {
        let rights = peer.who()?.rights(self.sites.allowed(), &[]);
        let permitted = rights.and_then(|rights| rights.check_role(""));
        permitted.inspect_err(|fault| self.sites.denied_operator(peer.address, &fault.message))
    }
}

#[tonic::async_trait]
impl Operator for Service {
    async fn operate(
        &self,
        request: Request<wire::OperateRequest>,
    ) -> Result<Response<wire::OperateResponse>, Status> {
        self.permit(Peer::of(&request)?)?;
        let Some(task) = request.into_inner().task else {
            return Err(Status::invalid_argument("the request has no task"));
        };
        let asked = self.requests.ask(|answer| SplitRequest { task, answer });
        Ok(Response::new(asked.await?))
    }
}
