//! Operators' connections: to a switch that hosts virtual data planes, and to a coordinator.

use p4info::polyplane::split::v1 as split;
use p4info::polyplane::tenancy::v1 as wire;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::client::{ClientError, Endpoint};
use crate::service::split::operator_client::OperatorClient;
use crate::service::tenancy::tenancy_client::TenancyClient;

/// A connection of an operator.
pub struct Operator {
    runtime: Runtime,
    rpc: TenancyClient<Channel>,
}

impl Operator {
    /// Connects to a switch.
    ///
    /// # Errors
    /// The switch cannot be reached, or the TLS settings are not valid.
    pub fn connect(endpoint: &Endpoint) -> Result<Operator, ClientError> {
        let (runtime, channel) = endpoint.connect()?;
        let rpc = TenancyClient::new(channel)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        Ok(Operator { runtime, rpc })
    }

    /// Makes one change.
    ///
    /// # Errors
    /// Any error that the switch returns. Nothing was changed then.
    pub fn change(
        &mut self,
        change: wire::change_request::Change,
    ) -> Result<wire::ChangeResponse, ClientError> {
        let request = wire::ChangeRequest {
            change: Some(change),
        };
        let answer = self.runtime.block_on(self.rpc.change(request))?;
        Ok(answer.into_inner())
    }

    /// Returns the state of the switch's virtual data planes.
    ///
    /// # Errors
    /// Any error that the switch returns.
    pub fn show(&mut self, request: wire::ShowRequest) -> Result<wire::ShowResponse, ClientError> {
        let answer = self.runtime.block_on(self.rpc.show(request))?;
        Ok(answer.into_inner())
    }
}

/// A connection of an operator to the coordinator of a split program.
pub struct SplitOperator {
    runtime: Runtime,
    rpc: OperatorClient<Channel>,
}

impl SplitOperator {
    /// Connects to a coordinator.
    ///
    /// # Errors
    /// The coordinator cannot be reached, or the TLS settings are not valid.
    pub fn connect(endpoint: &Endpoint) -> Result<SplitOperator, ClientError> {
        let (runtime, channel) = endpoint.connect()?;
        let rpc = OperatorClient::new(channel).max_decoding_message_size(usize::MAX);
        Ok(SplitOperator { runtime, rpc })
    }

    /// Carries out a task, and returns the state after it.
    ///
    /// # Errors
    /// Any error that the coordinator returns. Nothing was changed then.
    pub fn operate(
        &mut self,
        task: split::operate_request::Task,
    ) -> Result<split::OperateResponse, ClientError> {
        let request = split::OperateRequest { task: Some(task) };
        let answer = self.runtime.block_on(self.rpc.operate(request))?;
        Ok(answer.into_inner())
    }
}
