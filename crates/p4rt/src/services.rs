//! The services at one address, dispatched by the path of a call.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// P4Runtime and the optional services.
#[derive(Clone)]
pub(crate) struct Services<D, P, T> {
    pub(crate) devices: D,
    pub(crate) ports: P,
    pub(crate) tenancy: Option<T>,
}

type Answer = http::Response<Body>;

impl<D, P, T> Service<http::Request<Body>> for Services<D, P, T>
where
    P: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    P::Future: Send + 'static,
    D: Service<http::Request<Body>, Response = Answer, Error = Infallible>,
    T: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    D::Future: Send + 'static,
    T::Future: Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = BoxFuture<Answer, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if let Some(tenancy) = &mut self.tenancy
            && tenancy.poll_ready(cx)?.is_pending()
        {
            return Poll::Pending;
        }
        if self.ports.poll_ready(cx)?.is_pending() {
            return Poll::Pending;
        }
        self.devices.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = request.uri().path().split('/').nth(1);
        if service == Some(P::NAME) {
            return Box::pin(self.ports.call(request));
        }
        match (&mut self.tenancy, service == Some(T::NAME)) {
            (Some(tenancy), true) => Box::pin(tenancy.call(request)),
            (None, true) => {
                let status = Status::new(
                    Code::Unimplemented,
                    "this switch hosts no virtual data planes; `polyplane host` does",
                );
                Box::pin(std::future::ready(Ok(status.into_http())))
            }
            (_, false) => Box::pin(self.devices.call(request)),
        }
    }
}
