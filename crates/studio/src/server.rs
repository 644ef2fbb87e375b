//! The server: the page and its endpoints.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Json, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use support::work::Work;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::assets::{ASSETS, INDEX, NONCE_PLACE};
use crate::examples::examples;
use crate::guard::{self, AllowedHosts};
use crate::playground::{self, CheckRequest, RunRequest};

/// Maximum length of a request's body in bytes.
const MAX_BODY: usize = 4 << 20;

/// Number of requests that compile at a time; others wait.
const AT_ONCE: usize = 2;

/// Number of requests that compile or wait; more are refused.
const MAX_WAITING: usize = 10;

/// Stack size of a thread that compiles.
const STACK_BYTES: usize = 512 << 20;

/// Time between two looks at whether the server is stopped.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// Time that requests under way have when the server is stopped.
const GRACE: Duration = Duration::from_secs(2);

/// Texts that the page begins with, instead of an example.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Start {
    /// P4_16 text.
    pub program: String,
    /// Text of an entries file.
    pub entries: String,
}

/// Error: the server cannot be started.
#[derive(Debug)]
pub enum StudioError {
    /// The address is not of the loopback interface.
    NotLoopback(SocketAddr),
    /// The address cannot be used.
    Listen(SocketAddr, std::io::Error),
    /// The server ended.
    Serve(std::io::Error),
}

impl fmt::Display for StudioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StudioError::NotLoopback(address) => write!(
                f,
                "{address} can be reached from other machines, and the page has no password: \
                 listen at 127.0.0.1, and use a tunnel (ssh -L) from other machines"
            ),
            StudioError::Listen(address, error) => {
                write!(
                    f,
                    "cannot listen at {address}: {error}; choose another port"
                )
            }
            StudioError::Serve(error) => write!(f, "the server ended: {error}"),
        }
    }
}

impl std::error::Error for StudioError {}

/// State of the server.
struct Shared {
    start: Option<Start>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

/// Serves the page at a loopback address until `is_stopped` returns true. Calls `ready` with the
/// address once requests are taken. Requests under way are answered within [`GRACE`].
///
/// # Errors
/// The address is not of the loopback interface, or cannot be used.
pub fn serve(
    address: SocketAddr,
    start: Option<Start>,
    ready: impl FnOnce(SocketAddr),
    is_stopped: impl Fn() -> bool,
) -> Result<(), StudioError> {
    if !address.ip().is_loopback() {
        return Err(StudioError::NotLoopback(address));
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = runtime.map_err(StudioError::Serve)?;
    let listener = runtime.block_on(TcpListener::bind(address));
    let listener = listener.map_err(|error| StudioError::Listen(address, error))?;
    let bound = listener.local_addr().map_err(StudioError::Serve)?;
    ready(bound);
    let (stop, mut stopped) = watch::channel(false);
    let server = axum::serve(listener, router(bound, start)).with_graceful_shutdown(async move {
        // The sender lives as long as this function.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
    });
    runtime.block_on(async {
        let watch_stop = async {
            while !is_stopped() {
                tokio::time::sleep(STOP_EVERY).await;
            }
            stop.send_replace(true);
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            served = server => served.map_err(StudioError::Serve),
            () = watch_stop => Ok(()),
        }
    })
}

fn router(address: SocketAddr, start: Option<Start>) -> Router {
    let shared = Arc::new(Shared {
        start,
        turns: Arc::new(Semaphore::new(AT_ONCE)),
        places: Arc::new(Semaphore::new(MAX_WAITING)),
    });
    let mut router = Router::new()
        .route("/", get(page))
        .route("/api/examples", get(|| async { Json(examples()) }))
        .route("/api/start", get(start_texts))
        .route("/api/check", post(check))
        .route("/api/run", post(run))
        .route("/api/capture", post(capture));
    for asset in &ASSETS {
        let answer = || async { ([(CONTENT_TYPE, asset.media_type)], asset.bytes) };
        router = router.route(asset.path, get(answer));
    }
    router
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is no such page") })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(
            Arc::new(AllowedHosts::of(address)),
            guard::check,
        ))
        .with_state(shared)
}

/// Answers with the page. Each answer has a nonce of its own for the styles that the editor adds.
async fn page() -> Response {
    let nonce = format!("{:016x}{:016x}", random(), random());
    let page = INDEX.replace(NONCE_PLACE, &nonce);
    let mut answer = Html(page).into_response();
    if let Ok(policy) = HeaderValue::from_str(&guard::page_policy(&nonce)) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

/// Returns a number that pages of other sites cannot guess: the keys of the standard library's
/// hasher come from the operating system.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

async fn start_texts(State(shared): State<Arc<Shared>>) -> Json<Option<Start>> {
    Json(shared.start.clone())
}

async fn check(State(shared): State<Arc<Shared>>, Json(request): Json<CheckRequest>) -> Response {
    answer(&shared, move |work| playground::check(&request, work)).await
}

async fn run(State(shared): State<Arc<Shared>>, Json(request): Json<RunRequest>) -> Response {
    answer(&shared, move |work| playground::run(&request, work)).await
}

async fn capture(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    answer(&shared, move |_| playground::read_capture(body.to_vec())).await
}

/// Cancels the work of a request with its drop: the browser may go away while it runs.
struct CancelOnDrop(Work);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Computes an answer on a thread with the stack of a compiler, when it is this request's turn. The
/// turn is over when the thread ends, also if the browser has gone.
async fn answer<T>(
    shared: &Shared,
    compute: impl FnOnce(&Work) -> Result<T, String> + Send + 'static,
) -> Response
where
    T: Serialize + Send + 'static,
{
    let Ok(place) = Arc::clone(&shared.places).try_acquire_owned() else {
        let reason = "too many requests wait: try again";
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    };
    let Ok(turn) = Arc::clone(&shared.turns).acquire_owned().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server ends").into_response();
    };
    let work = playground::request_work();
    let _cancel = CancelOnDrop(work.clone());
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        let _held = (place, turn);
        // The browser may have gone: then the result is not needed.
        let _ = sender.send(compute(&work));
    });
    if let Err(error) = spawned {
        let reason = format!("cannot start a thread: {error}");
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    }
    match receiver.await {
        Ok(Ok(result)) => Json(result).into_response(),
        Ok(Err(reason)) => (StatusCode::UNPROCESSABLE_ENTITY, reason).into_response(),
        Err(_) => {
            let reason = "the request ended by an internal error";
            (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response()
        }
    }
}
