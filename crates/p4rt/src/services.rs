//! The services at one address, dispatched by the path of a call.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// P4Runtime and the optional services.
#[derive(Clone)]
pub(crate) struct Services<D, P, O, C, T, S> {
    pub(crate) devices: D,
    pub(crate) ports: P,
    pub(crate) observation: O,
    pub(crate) settings: C,
    pub(crate) tenancy: Option<T>,
    pub(crate) split: Option<S>,
}

type Answer = http::Response<Body>;

/// Returns the answer to a call of a service that this address does not have.
fn absent(message: &'static str) -> BoxFuture<Answer, Infallible> {
    let status = Status::new(Code::Unimplemented, message);
    Box::pin(std::future::ready(Ok(status.into_http())))
}

impl<D, P, O, C, T, S> Service<http::Request<Body>> for Services<D, P, O, C, T, S>
where
    C: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    C::Future: Send + 'static,
    P: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    P::Future: Send + 'static,
    O: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    O::Future: Send + 'static,
    D: Service<http::Request<Body>, Response = Answer, Error = Infallible>,
    T: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    S: Service<http::Request<Body>, Response = Answer, Error = Infallible> + NamedService,
    D::Future: Send + 'static,
    T::Future: Send + 'static,
    S::Future: Send + 'static,
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
        if let Some(split) = &mut self.split
            && split.poll_ready(cx)?.is_pending()
        {
            return Poll::Pending;
        }
        if self.ports.poll_ready(cx)?.is_pending() || self.observation.poll_ready(cx)?.is_pending()
        {
            return Poll::Pending;
        }
        if self.settings.poll_ready(cx)?.is_pending() {
            return Poll::Pending;
        }
        self.devices.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = request.uri().path().split('/').nth(1);
        if service == Some(P::NAME) {
            return Box::pin(self.ports.call(request));
        }
        if service == Some(O::NAME) {
            return Box::pin(self.observation.call(request));
        }
        if service == Some(C::NAME) {
            return Box::pin(self.settings.call(request));
        }
        if service == Some(T::NAME) {
            return match &mut self.tenancy {
                Some(tenancy) => Box::pin(tenancy.call(request)),
                None => absent("this switch hosts no virtual data planes; `polyplane host` does"),
            };
        }
        if service == Some(S::NAME) {
            return match &mut self.split {
                Some(split) => Box::pin(split.call(request)),
                None => absent("there is no coordinator here; `polyplane split control` is one"),
            };
        }
        Box::pin(self.devices.call(request))
    }
}
