//! The service for settings of a device that P4Runtime has no message for. This crate does not read
//! their statements: each request goes to the loop that has the device.

use std::sync::Arc;

use p4info::polyplane::settings::v1 as wire;
use tonic::{Code, Request, Response, Status};

use crate::control::SettingsAction;
use crate::incoming::Peer;
use crate::request_error::refuse;
use crate::server::Sites;
use crate::service::settings::settings_server::Settings;

/// The gRPC service.
pub(crate) struct Service {
    pub(crate) sites: Arc<Sites>,
}

#[tonic::async_trait]
impl Settings for Service {
    async fn set(
        &self,
        request: Request<wire::SetRequest>,
    ) -> Result<Response<wire::SetResponse>, Status> {
        let peer = Peer::of(&request)?.clone();
        let wire::SetRequest {
            device_id,
            statements,
        } = request.into_inner();
        // Settings belong to all roles.
        self.sites
            .permit(device_id, &peer, |rights| rights.check_role(""))?;
        let site = self.sites.find(device_id)?;
        // The settings are made even if the client disconnects.
        let made = tokio::spawn(async move {
            let action = SettingsAction::Set(statements);
            site.ask_settings(action).await
        });
        made.await
            .unwrap_or_else(|_| refuse(Code::Internal, "the server failed on this request"))?;
        Ok(Response::new(wire::SetResponse {}))
    }

    async fn get(
        &self,
        request: Request<wire::GetRequest>,
    ) -> Result<Response<wire::GetResponse>, Status> {
        let peer = Peer::of(&request)?.clone();
        let device = request.into_inner().device_id;
        self.sites
            .permit(device, &peer, |rights| rights.check_read(""))?;
        let site = self.sites.find(device)?;
        let statements = site.ask_settings(SettingsAction::Get).await?;
        Ok(Response::new(wire::GetResponse { statements }))
    }
}
